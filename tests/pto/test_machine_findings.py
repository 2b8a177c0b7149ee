"""What the machine finds: undefined reads, bounds, addresses, extents, races, lost values; with op, tile, place."""

from __future__ import annotations

import pytest
import torch

from pypto_lab.ir.diagnostics import LabError, Severity
from pypto_lab.pto.machine import EXECUTED, ExecutionError, ExecutionResult, execute
from pypto_lab.pto.machine.findings import Finding
from tests.pto.texts import Text, tile

R, C = 16, 64


def codes(result: ExecutionResult) -> list[str]:
    return [found.code for found in result.findings]


def one(result: ExecutionResult, code: str) -> Finding:
    found = [x for x in result.findings if x.code == code]
    assert len(found) == 1, codes(result)
    assert found[0].span is not None
    assert found[0].source is not None
    return found[0]


def stopped(text: Text | str, args: list[object], **options: object) -> Finding:
    """The finding a run stops with."""
    with pytest.raises(ExecutionError) as caught:
        execute(text if isinstance(text, str) else text.text(), "f", args, **options)  # type: ignore[arg-type]
    return caught.value.findings[-1]


def copy_text() -> Text:
    text = Text("f32", "f32")
    text.alloc("a", tile(R, C), 0)
    text.load("a", 0, (R, C))
    text.store("a", 1, (R, C))
    return text


def test_a_clean_run_says_what_was_executed_and_finds_nothing() -> None:
    a, out = torch.randn(R, C), torch.zeros(R, C)
    result = execute(copy_text().text(), "f", [a, out])
    assert result.ok
    assert result.findings == ()
    assert result.label == EXECUTED == "executed: .pto interpreted by pypto_lab (not ptoas, not device)"
    assert EXECUTED in str(result)
    assert result.to_json()["lanes"] == ["AIV0"]


def test_an_undefined_read_names_op_and_tile_and_its_origin_at_the_output() -> None:
    text = Text("f32", "f32")
    text.alloc("a", tile(R, C), 0)
    text.alloc("never", tile(R, C), 4096)
    text.alloc("sum", tile(R, C), 8192)
    text.load("a", 0, (R, C))
    text.op("tadd", ["a", "never"], ["sum"])
    text.op("tmuls", ["sum", text.c("2.0", "f32")], ["sum"])
    text.store("sum", 1, (R, C))
    result = execute(text.text(), "f", [torch.randn(R, C), torch.zeros(R, C)])
    assert not result.ok
    read = one(result, "E620")
    assert read.op == "pto.tadd"
    assert "1024 elements of %never" in read.message
    assert "vec 4096..8192" in read.tiles[0]
    reached = one(result, "E621")
    assert reached.severity is Severity.ERROR
    assert reached.op == "pto.tstore"
    assert "pto.tadd at kernel.py:7:1 reads %never" in reached.message
    assert "%arg1" in reached.message


def test_an_undefined_read_that_reaches_no_output_is_a_warning() -> None:
    text = copy_text()
    text.alloc("never", tile(R, C), 4096)
    text.alloc("x", tile(R, C), 8192)
    text.op("tabs", ["never"], ["x"])
    result = execute(text.text(), "f", [torch.randn(R, C), torch.zeros(R, C)])
    assert result.ok
    assert "E620" in codes(result)


def test_undefined_padding_is_followed_element_by_element() -> None:
    """Rows 5.. are never written; a fold along rows makes those results undefined and no others."""
    text = Text("f32", "f32")
    text.alloc("a", tile(R, C), 0, (5, C))
    text.load("a", 0, (5, C))
    text.alloc("whole", tile(R, C), 0)
    text.alloc("tmp", tile(R, C), 4096)
    text.alloc("s", tile(R, 1, order="dn"), 8192)
    text.op("trowsum", ["whole", "tmp"], ["s"])
    text.op("tstore", ["s"], [text.window(1, (R, 1), strides=(1, R), layout="dn")])
    a, out = torch.randn(5, C), torch.zeros(R, 1)
    result = execute(text.text(), "f", [a, out])
    assert "11 undefined elements" in one(result, "E621").message
    assert torch.allclose(out[:5], a.sum(1, keepdim=True))
    assert bool(out[5:].isnan().all())


def test_a_window_outside_its_tensor_is_named_with_its_axis() -> None:
    text = Text("f32", "f32")
    text.alloc("a", tile(R, C), 0)
    text.op("tload", [text.window(0, (64, C), ("arg2", 0), (R, C))], ["a"])
    text.store("a", 1, (R, C))
    text.scalars = ("index",)
    found = stopped(text, [torch.randn(64, C), torch.zeros(R, C), 56])
    assert found.code == "E622"
    assert "touches elements 3584..4607 of %arg0, which has 4096" in found.message
    wide = execute(text.text(), "f", [torch.randn(64, C), torch.zeros(R, C), 48])
    assert wide.findings == ()


def test_a_window_that_leaves_its_view_but_not_the_memory_is_reported() -> None:
    text = Text("f32", "f32")
    text.alloc("a", tile(R, C), 0)
    text.op("tload", [text.window(0, (R, C), (8, 0), (R, C))], ["a"])
    text.store("a", 1, (R, C))
    result = execute(text.text(), "f", [torch.randn(64, C), torch.zeros(R, C)])
    found = one(result, "E622")
    assert "axis 0: 8..24 of 16" in found.message


def clamped_text() -> Text:
    text = Text("f32", "f32", scalars=("index",))
    text.alloc("a", tile(R, C), 0)
    text.raw(f"%m = arith.maxsi %arg2, %{text.c(0)} : index")
    text.op("tload", [text.window(0, (64, C), ("m", 0), (R, C))], ["a"])
    text.store("a", 1, (R, C))
    return text


def test_an_offset_that_was_raised_to_zero_is_reported_with_its_value() -> None:
    a, out = torch.randn(64, C), torch.zeros(R, C)
    result = execute(clamped_text().text(), "f", [a, out, -8])
    found = one(result, "E623")
    assert "the offset on axis 0 of %arg0 was -8" in found.message
    assert torch.equal(out, a[:R])
    assert execute(clamped_text().text(), "f", [a, out, 8]).findings == ()


def test_an_offset_beyond_32_bits_is_a_warning() -> None:
    text = Text("f32", "f32")
    text.alloc("a", tile(1, 32), 0)
    text.op("tload", [text.window(0, (2, 32), (1, 0), (1, 32), strides=(2**31, 1))], ["a"])
    text.store("a", 1, (1, 32))
    store = torch.zeros(1)
    with pytest.raises(ExecutionError) as caught:
        execute(text.text(), "f", [store, torch.zeros(1, 32)])
    assert "W622" in [x.code for x in caught.value.findings]


def test_addresses_are_checked_at_run_time_too() -> None:
    text = Text("f32", scalars=("i64",))
    text.raw(
        f"%t = pto.alloc_tile addr = %arg1 valid_row = %{text.c(R)} valid_col = %{text.c(C)} : {tile(R, C)} "
        'loc("kernel.py":1:1)'
    )
    assert codes(execute(text.text(), "f", [torch.zeros(1), 48])) == ["E624"]
    assert stopped(text, [torch.zeros(1), 192 * 1024]).code == "E624"
    assert stopped(text, [torch.zeros(1), -32]).code == "E624"
    assert execute(text.text(), "f", [torch.zeros(1), 192 * 1024 - 4096]).findings == ()
    assert execute(text.text(), "f", [torch.zeros(1), 192 * 1024], arch="a5").findings == ()


def test_extents_that_do_not_agree_are_reported() -> None:
    text = Text("f32", "f32")
    text.alloc("a", tile(R, C), 0, (8, C))
    text.load("a", 0, (R, C))
    text.store("a", 1, (R, C))
    result = execute(text.text(), "f", [torch.randn(R, C), torch.zeros(R, C)])
    assert [x.message.split(",")[0] for x in result.findings if x.code == "E625"] == [
        "%part_2 is 16 x 64",
        "%part_4 is 16 x 64",
    ]


def test_reading_beyond_the_valid_region_is_reported() -> None:
    text = Text("f32", "f32")
    text.alloc("a", tile(R, C), 0, (8, C))
    text.load("a", 0, (8, C))
    text.alloc("b", tile(R, C), 4096)
    text.op("tabs", ["a"], ["b"])
    text.store("b", 1, (R, C))
    result = execute(text.text(), "f", [torch.randn(8, C), torch.zeros(R, C)])
    assert "reads 16 x 64 elements of %a, of which 8 x 64 are valid" in one(result, "E625").message
    assert "E621" in codes(result)


def test_a_step_of_zero_at_run_time_stops_the_run() -> None:
    text = Text("f32", scalars=("index",))
    text.raw(f"scf.for %i = %{text.c(0)} to %{text.c(8)} step %arg1 {{", "}")
    assert "step 0 is not positive" in stopped(text, [torch.zeros(1), 0]).message


def test_an_endless_loop_is_stopped() -> None:
    text = Text("f32")
    yes = "yes"
    text.raw(
        "%yes = arith.constant true", "scf.while : () -> () {", f"  scf.condition(%{yes})", "} do {", "  scf.yield", "}"
    )
    assert stopped(text, [torch.zeros(1)], max_steps=1000).code == "E631"


def test_blocks_that_write_the_same_elements_race() -> None:
    text = Text("f32", "f32")
    text.extra_parameters = ["%__pypto_spmd_block_idx: i32", "%__pypto_spmd_block_num: i32"]
    text.raw(
        "%b = arith.index_cast %__pypto_spmd_block_idx : i32 to index",
        f"%row = arith.muli %b, %{text.c(8)} : index",
    )
    text.alloc("a", tile(R, C), 0)
    text.op("tload", [text.window(0, (64, C), ("row", 0), (R, C))], ["a"])
    text.op("tstore", ["a"], [text.window(1, (64, C), ("row", 0), (R, C))])
    a, out = torch.randn(64, C), torch.zeros(64, C)
    found = one(execute(text.text(), "f", [a, out], block_num=4), "E626")
    assert "blocks 0 and 1 both write elements of %arg1" in found.message
    assert found.times == 3
    apart = text.text().replace("arith.constant 8 : index", "arith.constant 16 : index")
    result = execute(apart, "f", [a, out], block_num=4)
    assert result.findings == ()
    assert torch.equal(out, a)


def test_atomic_adds_of_several_blocks_are_no_race() -> None:
    text = Text("f32")
    text.extra_parameters = ["%__pypto_spmd_block_idx: i32"]
    text.alloc("a", tile(R, C), 0)
    text.op("texpands", [text.c("1.0", "f32")], ["a"])
    text.op("tstore", ["a"], [text.window(0, (R, C))], after=" {atomicType = #pto<atomic_type atomic_add>}")
    out = torch.zeros(R, C)
    assert execute(text.text(), "f", [out], block_num=3).findings == ()
    assert bool((out == 3).all())


def test_a_value_that_a_loop_loses_names_both_addresses() -> None:
    text = Text("f32", "f32")
    text.alloc("x", tile(R, C), 0)
    text.load("x", 0, (R, C))
    text.alloc("acc", tile(R, C), 4096)
    text.op("tmuls", ["x", text.c("1.0", "f32")], ["acc"])
    text.raw(f"scf.for %i = %{text.c(0)} to %{text.c(3)} step %{text.c(1)} {{")
    text.alloc("next", tile(R, C), 8192)
    text.op("tadd", ["acc", "x"], ["next"])
    text.raw("}")
    text.store("acc", 1, (R, C))
    found = one(execute(text.text(), "f", [torch.randn(R, C), torch.zeros(R, C)]), "W620")
    assert "%next, bytes 8192..12288" in found.message
    assert "every iteration reads %acc (vec f32[16x64] at vec 4096..8192) and %x" in found.message
    kept = text.text().replace("arith.constant 8192 : i64", "arith.constant 4096 : i64")
    assert kept != text.text()
    a, out = torch.ones(R, C), torch.zeros(R, C)
    assert execute(kept, "f", [a, out]).findings == ()
    assert bool((out == 4).all())


def test_a_tile_that_another_has_partly_overwritten() -> None:
    text = Text("f32", "f32")
    text.alloc("x", tile(R, C), 0)
    text.load("x", 0, (R, C))
    text.alloc("other", tile(8, C), 1024)
    text.op("texpands", [text.c("0.0", "f32")], ["other"])
    text.store("x", 1, (R, C))
    found = one(execute(text.text(), "f", [torch.randn(R, C), torch.zeros(R, C)]), "W621")
    assert found.message.endswith("has partly overwritten with %other")
    assert any("vec 1024..3072" in t for t in found.tiles)


def test_bytes_written_in_one_order_and_read_in_another() -> None:
    text = Text("f32", "f32")
    text.alloc("x", tile(R, C), 0)
    text.load("x", 0, (R, C))
    text.alloc("boxed", tile(R, C, order="nz"), 8192)
    text.op("tmov", ["x"], ["boxed"])
    text.alloc("flat", tile(R, C), 8192)
    text.store("flat", 1, (R, C))
    found = one(execute(text.text(), "f", [torch.randn(R, C), torch.zeros(R, C)]), "W623")
    assert "%boxed in NZ; it is read in ND" in found.message


@pytest.mark.parametrize("index", [-1, R * C])
def test_an_index_outside_a_tile_stops_the_run(index: int) -> None:
    text = Text("f32", "i32", "f32")
    text.alloc("a", tile(R, C), 0)
    text.load("a", 0, (R, C))
    text.alloc("i", tile(1, 32, "i32"), 4096)
    text.load("i", 1, (1, 32))
    text.alloc("tmp", tile(1, 32, "i32"), 8192)
    text.alloc("o", tile(1, 32), 9216)
    text.op("tgather", ["a", "i", "tmp"], ["o"])
    text.store("o", 2, (1, 32))
    places = torch.zeros(1, 32, dtype=torch.int32)
    places[0, 7] = index
    found = stopped(text, [torch.randn(R, C), places, torch.zeros(1, 32)])
    assert f"index {index} of %a, which has {R * C}" in found.message


def test_scalars_outside_their_argument_stop_the_run() -> None:
    text = Text("f32", scalars=("index",))
    text.raw('%s = pto.load_scalar %arg0[%arg1] : !pto.ptr<f32> -> f32 loc("kernel.py":1:1)')
    assert "element 4 of %arg0, which has 4" in stopped(text, [torch.zeros(4), 4]).message


def test_a_division_by_zero_stops_the_run() -> None:
    text = Text("i32", scalars=("i32",))
    text.raw("%q = arith.divsi %arg1, %arg1 : i32")
    assert "0 divided by zero" in stopped(text, [torch.zeros(1, dtype=torch.int32), 0]).message


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([torch.zeros(R, C)], "takes 2 arguments, got 1"),
        ([torch.zeros(R, C)] * 3, "takes 2 arguments, got 3"),
        ([torch.zeros(R, C), 3], "a tensor is needed, got int"),
        (
            [torch.zeros(R, C), torch.zeros(R, C, dtype=torch.float16)],
            "torch.float16 is passed where the kernel reads f32",
        ),
    ],
)
def test_arguments_that_do_not_fit(args: list[object], message: str) -> None:
    with pytest.raises(LabError) as caught:
        execute(copy_text().text(), "f", args)
    assert caught.value.diagnostics[0].code == "E630"
    assert message in caught.value.diagnostics[0].message


def test_names_that_do_not_exist() -> None:
    with pytest.raises(LabError, match="no function `g`"):
        execute(module_of_two().replace("\n  func", "\n\n  func"), "g", [])
    with pytest.raises(LabError, match="no architecture `a9`"):
        execute(copy_text().text(), "f", [torch.zeros(R, C), torch.zeros(R, C)], arch="a9")


def module_of_two() -> str:
    from tests.pto.texts import module

    return module(Text("f32", name="one"), Text("f32", name="two"))


def test_what_is_passed_over_is_listed() -> None:
    text = copy_text()
    text.raw("pto.barrier <PIPE_V>", "pto.sync.set <PIPE_MTE3>, 3")
    result = execute(text.text(), "f", [torch.randn(R, C), torch.zeros(R, C)])
    assert [x.split(":")[0] for x in result.unmodelled] == ["pto.barrier", "pto.sync.set"]
    assert "not modelled: pto.barrier" in str(result)


def test_text_that_is_not_valid_does_not_run_unless_asked() -> None:
    text = Text("f32", "f32")
    text.alloc("a", tile(R, C), 0)
    text.alloc("b", tile(R, C, order="nz"), 4096)
    text.load("a", 0, (R, C))
    text.op("tabs", ["a"], ["b"])
    text.store("b", 1, (R, C))
    a, out = torch.randn(R, C), torch.zeros(R, C)
    with pytest.raises(LabError) as caught:
        execute(text.text(), "f", [a, out])
    assert caught.value.diagnostics[0].code == "E607"
    assert bool((out == 0).all())
    assert execute(text.text(), "f", [a, out], verify=False).ok
    assert torch.equal(out, a.abs())


def test_an_op_that_is_known_but_not_modelled_says_so() -> None:
    text = Text("f32")
    text.alloc("t", tile(R, C), 0)
    text.alloc("scale", tile(R, C), 8192)
    text.op("tget_scale_addr", ["t"], ["scale"])
    assert stopped(text, [torch.zeros(1)]).code == "E629"
