"""What the verifier refuses, and that it has nothing to say about what the compiler emits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pypto_lab.ir.diagnostics import LabError
from pypto_lab.pto.dialect.types import CAPACITY, LAYOUTS, TileType
from pypto_lab.pto.dialect.verify import check, verify
from pypto_lab.pto.parse import parse, read
from tests.pto.texts import FILES, Text, tile


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_compiled_text_is_fine(path: Path) -> None:
    assert verify(read(path)) == []


def only(text: Text | str, arch: str = "a2a3") -> tuple[str, str]:
    """Code and message of the one finding of a text."""
    found = verify(parse(text if isinstance(text, str) else text.text(arch), "u.pto"))
    assert len(found) == 1, [d.message for d in found]
    assert found[0].span is not None
    return found[0].code, found[0].message


def test_a_row_major_op_on_a_boxed_tile_names_tile_and_layout() -> None:
    text = Text("f32")
    text.alloc("a", tile(32, 64), 0)
    text.alloc("v", tile(32, 1, order="dn"), 8192)
    text.alloc("boxed", tile(32, 64, order="nz"), 16384)
    text.op("trowexpandmul", ["a", "v"], ["boxed"])
    code, message = only(text)
    assert code == "E607"
    assert "%boxed is NZ" in message
    assert "pto.trowexpandmul" in message


@pytest.mark.parametrize("space", sorted(LAYOUTS))
def test_spaces_hold_their_layouts_only(space: str) -> None:
    for layout in LAYOUTS["vec"] | LAYOUTS["mat"] | LAYOUTS["acc"] | LAYOUTS["right"]:
        type_ = TileType(space, "f16", 32, 32, None, None, *layout)
        text = Text("f16")
        text.alloc("t", type_, 0, (1, 1))
        codes = {d.code for d in verify(parse(text.text()))}
        assert ("E604" in codes) == (layout not in LAYOUTS[space])


@pytest.mark.parametrize("arch", sorted(CAPACITY))
@pytest.mark.parametrize("space", ["vec", "mat", "acc"])
def test_a_tile_ends_inside_its_space(arch: str, space: str) -> None:
    order = {"vec": "nd", "mat": "nz", "acc": "acc"}[space]
    last = CAPACITY[arch][space] - 16 * 64 * 4
    for address, fits in ((last, True), (last + 32, False)):
        text = Text("f32")
        text.alloc("t", tile(16, 64, space=space, order=order), address)
        codes = [d.code for d in verify(parse(text.text(arch)))]
        assert codes == ([] if fits else ["E606"])


def test_an_address_is_a_multiple_of_32() -> None:
    text = Text("f32")
    text.alloc("t", tile(16, 64), 48)
    assert only(text) == ("E606", "%t: address 48 is not a multiple of 32 bytes")


@pytest.mark.parametrize(
    ("type_", "valid", "message"),
    [
        (tile(16, 63), (1, 1), "252 bytes"),
        (tile(12, 32, order="nz"), (1, 1), "whole 16 x 8 boxes"),
        (tile(1, 20, order="nz", space="mat"), (1, 1), "whole 1 x 8 boxes"),
        (tile(16, 64), (17, 64), "valid_row = 17"),
        (replace(tile(16, 64), pad=4), (1, 1), "pad=4"),
    ],
)
def test_extents(type_: TileType, valid: tuple[int, int], message: str) -> None:
    text = Text("f32")
    text.alloc("t", type_, 0, valid)
    assert message in only(text)[1]


def test_valid_extents_are_given_once() -> None:
    text = Text("f32")
    text.alloc("t", tile(16, 64).with_valid(16, None), 0)
    assert "given twice" in only(text)[1]
    bare = Text("f32")
    bare.raw(f"%t = pto.alloc_tile addr = %{bare.c(0, 'i64')} : {tile(16, 64)}")
    assert [d.code for d in verify(parse(bare.text()))] == ["E605", "E605"]


@pytest.mark.parametrize(
    ("op", "ins", "outs", "message"),
    [
        ("tadd", ["a"], ["b"], "takes 2 inputs, got 1"),
        ("tabs", ["a", "a"], ["b"], "takes 1 inputs, got 2"),
        ("tadds", ["a", "a"], ["b"], "should be a scalar"),
        ("tload", ["a"], ["b"], "should be a window of a tensor"),
        ("tabs", ["a"], ["a", "b"], "takes 1 outputs, got 2"),
    ],
)
def test_operands(op: str, ins: list[str], outs: list[str], message: str) -> None:
    text = Text("f32")
    text.alloc("a", tile(16, 64), 0)
    text.alloc("b", tile(16, 64), 4096)
    text.op(op, ins, outs)
    code, found = only(text)
    assert code == "E603"
    assert message in found


def test_a_step_that_is_not_positive() -> None:
    text = Text("f32")
    zero, eight, step = text.c(0), text.c(8), text.c(-1)
    text.raw(f"scf.for %i = %{eight} to %{zero} step %{step} {{", "}")
    assert "step -1 is not positive" in only(text)[1]


def test_windows_stay_inside_their_tile() -> None:
    text = Text("f32")
    type_ = tile(16, 64)
    text.alloc("t", type_, 0)
    part = replace(type_, rows=8, cols=64, valid_rows=8, valid_cols=64)
    text.raw(f"%w = pto.subview %t[%{text.c(12)}, %{text.c(0)}] sizes [8, 64] : {type_} -> {part}")
    assert "12 to 20 lies outside a tile of 16" in only(text)[1]


def test_odd_splits_go_from_cube_to_vector_only() -> None:
    text = Text("f32")
    text.alloc("t", tile(16, 64), 0)
    text.raw(f"pto.tpush_to_aic(%t : {tile(16, 64)}) {{split = 3}}")
    assert "from cube to vector only" in only(text)[1]


def test_check_raises_with_everything_it_found() -> None:
    text = Text("f32")
    text.alloc("t", tile(16, 63), 8)
    with pytest.raises(LabError) as caught:
        check(parse(text.text()))
    assert {d.code for d in caught.value.diagnostics} == {"E605", "E606"}
    assert "pto.alloc_tile" in str(caught.value)


def test_a_value_used_outside_its_region_is_refused() -> None:
    text = Text("f32", kind="vector")
    yes = text.c("true", "i1")
    text.raw(
        f"scf.if %{yes} {{",
        f"%x = arith.addi %{text.c(1)}, %{text.c(1)} : index",
        "}",
        "%y = arith.addi %x, %x : index",
    )
    with pytest.raises(LabError):
        check(parse(text.text().replace("arith.constant true : i1", "arith.constant true")))


# --- element types and shared bytes -----------------------------------------------------------------------------------


def two(first: str, second: str, out: str = "f32", at: int = 4096) -> Text:
    """A sum of two tiles into a third; their element types, and where the result lies."""
    text = Text("f32")
    text.alloc("a", tile(8, 32, first), 0)
    text.alloc("b", tile(8, 32, second), 2048)
    text.alloc("c", tile(8, 32, out), at)
    text.op("tadd", ["a", "b"], ["c"])
    return text


def test_operands_of_a_sum_have_one_element_type() -> None:
    assert not verify(parse(two("f32", "f32").text()))
    for first, second, out, named in (("f32", "i32", "f32", "%b"), ("f32", "f32", "bf16", "%c")):
        (found,) = verify(parse(two(first, second, out).text()))
        assert found.code == "E603"
        assert found.message == f"pto.tadd: %a has elements of f32, {named} of {second if named == '%b' else out}"


def test_an_output_lies_where_an_input_starts_or_apart_from_it() -> None:
    for at in (0, 1024, 2048, 4096):
        assert not verify(parse(two("f32", "f32", at=at).text()))
    for at in (32, 992, 1056, 2080):
        (found,) = verify(parse(two("f32", "f32", at=at).text()))
        assert found.code == "E606"
        assert "share some of their bytes" in found.message
        assert found.note == "from kernel.py:4:1"
