"""The text format: what the compiler emits is read, and comes out of the printer byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_lab.ir.diagnostics import LabError
from pypto_lab.pto.dialect.attributes import keyword, plain_type, type_attribute
from pypto_lab.pto.dialect.table import TABLE
from pypto_lab.pto.dialect.types import (
    LocalArrayType,
    MultiTileType,
    PartitionType,
    PointerType,
    TensorViewType,
    TileType,
)
from pypto_lab.pto.parse import parse, read
from pypto_lab.pto.printing import print_module, print_unit
from tests.pto.texts import FILES, Text, tile


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_a_compilers_text_comes_out_byte_for_byte(path: Path) -> None:
    text = path.read_text()
    assert print_unit(parse(text, path.name)) == text


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_text_without_locations_and_with_short_tiles_is_a_fixpoint(path: Path) -> None:
    unit = read(path)
    bare = print_unit(unit, locations=False)
    assert "loc(" not in bare
    assert print_unit(parse(bare)) == bare
    short = print_module(unit.module, names=unit.names, short_tiles=True)
    assert "loc=vec" not in short
    again = parse(short)
    assert again.short_tiles == ("tile_buf<" in short)
    assert print_unit(again) == short
    long = print_module(again.module, names=again.names)
    assert long == print_module(unit.module, names=unit.names)


IRREGULAR = """module attributes {{pto.target_arch = "a5"}} {{
  func.func @f(%arg0: !pto.ptr<f32>, %arg1: !pto.ptr<i64>, %arg2: !pto.ptr<f32>) {{
  %c0 = arith.constant 0 : index
  %i = arith.constant 5 : i32
  %a = arith.constant 0 : i64
  %inf = arith.constant 0x7F800000 : f32
  %yes = arith.constant true
  %u = builtin.unrealized_conversion_cast %i : i32 to ui32
  %t = pto.alloc_tile addr = %a valid_row = %c0 valid_col = %c0 : {T}
  %0 = pto.alloc_tile valid_row = %c0 valid_col = %c0 : {T}
  %m = pto.alloc_multi_tile valid_row = %c0 valid_col = %c0 : !pto.multi_tile_buf<{T}, count=2>
  %mt = pto.multi_tile_get %m[%c0] : !pto.multi_tile_buf<{T}, count=2> -> {T}
  %q = pto.addptr %arg0, %c0 : <f32> -> <f32>
  %e = pto.tgetval ins(%t, %c0 : {T}, index) outs : f32
  pto.tsetval ins(%c0, %e : index, f32) outs(%t : {T})
  "pto.ttri"(%i, %t) {{upperOrLower = 0 : i32}} : (i32, {T}) -> ()
  pto.trandom ins(%i, %i, %i, %i, %i, %i : i32, i32, i32, i32, i32, i32) outs(%t : {T})
  pto.tdiv ins(%t, %t : {T}, {T}) outs(%t : {T}) {{precisionType = #pto<div_precision high_precision>}}
  pto.tcolsum ins(%t, %t {{isBinary = true}} : {T}, {T}) outs(%t : {T})
  %ex = arith.constant dense<0> : vector<4xi16>
  pto.tmrgsort ins(%t, %t, %t {{exhausted = false}} : {T}, {T}, {T}) outs(%t, %ex : {T}, vector<4xi16>)
  pto.tgather ins(%t, {{maskPattern = #pto.mask_pattern<P0101>}} : {T}, "row") outs(%t : {T})
  pto.tgather ins(%t, %e, %t : {T}, f32, {T}) outs(%t, %0 : {T}, {T}) {{cmpMode = #pto<cmp eq>, offset = 0 : i32}}
  pto.sync.set <PIPE_MTE3>, 3 {{ffts_mode = 2 : i32}}
  pto.sync.wait <PIPE_V>, %c0
  pto.barrier <PIPE_ALL>
  pto.set_ffts %arg1 : !pto.ptr<i64>
  pto.syncall() mode = #pto.sync_all_mode<hard>, core_type = #pto.sync_core_type<mix>
  pto.fence.barrier_all #pto.fence_scope<gm>
  pto.cmo.cacheinvalid all #pto.address_space<gm>
  %b = pto.reserve_buffer {{name = "n", size = 64, location = #pto.address_space<mat>, auto = false, base = 32}} -> i32
  %p = pto.import_reserved_buffer {{name = "n", peer_func = @g}} -> i32
  pto.aic_initialize_pipe {{dir_mask = 3, slot_size = 512}} (c2v_consumer_buf = %p : i32, v2c_consumer_buf = %b : i32)
  pto.aiv_initialize_pipe {{id = 1, dir_mask = 3, slot_size = 512}}
      (gm_slot_buffer = %arg2 : !pto.ptr<f32>, c2v_consumer_buf = %p : i32, v2c_consumer_buf = %b : i32)
  pto.tpush_to_aiv(%t : {T}) {{split = 0}}
  %r = pto.tpop_from_aiv {{id = 1, split = 0}} -> {T}
  %s = pto.tpop_from_aic(%c0, %c0) {{split = 3}} -> {T}
  pto.tfree_from_aiv {{split = 0}}
  %ar = pto.declare_local_array -> !pto.local_array<8xi32>
  %ae = pto.local_array_get %ar[%c0] : !pto.local_array<8xi32> -> i32
  pto.local_array_set %ar[%c0], %ae : !pto.local_array<8xi32>, i32
  %x = scf.for %n = %c0 to %c0 step %c0 iter_args(%y = %e) -> (f32) {{
    scf.yield %y : f32
  }}
  scf.while : () -> () {{
    scf.condition(%yes)
  }} do {{
    scf.yield
  }}
  scf.if %yes {{
  }} else {{
  }}
  pto.tprint ins(%t : {T})
  %rs = pto.treshape %t : {T} -> {T}
  %as = pto.tassign %t, %a : {T} -> {T}
  return
  }}
  func.func private @g(i64) -> i32
}}
"""


@pytest.mark.parametrize("short", [False, True])
def test_every_irregular_spelling_is_kept(short: bool) -> None:
    type_ = TileType("vec", "f32", 16, 64, None, None, compact=1)
    text = IRREGULAR.format(T=type_.short() if short else str(type_))
    assert print_unit(parse(text)) == text


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_regular_op_of_the_table_reads_and_prints(name: str) -> None:
    row = TABLE[name]
    text = Text("f32", "f32")
    for letter in "ab":
        text.alloc(letter, tile(16, 64), 0)
    values = {"t": "a", "s": text.c("1.0", "f32"), "p": text.window(0, (16, 64)), "v": "a"}
    ins = [values[o.kinds[0]] for o in row.ins]
    outs = [values[o.kinds[0]] for o in row.outs]
    if row.generic:
        types = ", ".join(text.types[v] for v in [*ins, *outs])
        text.raw(f'"{name}"({", ".join("%" + v for v in [*ins, *outs])}) {{k = 1 : i32}} : ({types}) -> ()')
    elif not outs:
        text.raw(f"{name} ins({', '.join('%' + i for i in ins)} : {', '.join(text.types[i] for i in ins)})")
    else:
        text.op(name.removeprefix("pto."), ins, outs, after=" {k = 1 : i32}")
    unit = parse(text.text())
    assert print_unit(parse(print_unit(unit))) == print_unit(unit)
    assert name in print_unit(unit)


@pytest.mark.parametrize(
    "type_",
    [
        tile(16, 64),
        TileType("acc", "f32", 32, 32, 32, 16, "col_major", "row_major", 1024, 2, 1),
        PointerType("bf16"),
        TensorViewType((None, None), "ui8"),
        PartitionType((16, None), "i32"),
        MultiTileType(tile(16, 64), 3),
        LocalArrayType(8, "i32"),
        "ui32",
        "index",
        "bf16",
        "!pto.hif8",
    ],
    ids=str,
)
def test_types_are_the_same_as_data_and_in_xdsl(type_: object) -> None:
    attribute = type_attribute(type_)  # type: ignore[arg-type]
    assert str(attribute) == str(type_)
    assert plain_type(attribute) == type_


def test_keyword_attributes_have_two_spellings() -> None:
    assert str(keyword("layout", "nd")) == "#pto.layout<nd>"
    assert str(keyword("round_mode", "RINT")) == "#pto<round_mode RINT>"


def test_places_and_names_are_those_of_the_text() -> None:
    text = Text("f32")
    text.alloc("t", tile(16, 64), 0)
    unit = parse(text.text(), "u.pto")
    op = next(o for o in unit.module.walk() if o.name == "pto.alloc_tile")
    span = unit.span(op)
    assert span is not None
    line = text.text().splitlines()[span.line - 1]
    assert line[span.column - 1 :].startswith("%t = pto.alloc_tile")
    assert unit.names[op.results[0]] == "t"


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("pto.tabs", "pto.tabz", "E602", "unknown op `pto.tabz`"),
        ("ins(%a :", "ins(%zz :", "E601", "%zz is used but not defined"),
        ("loc=vec", "loc=vek", "E601", "memory space"),
        ("dtype=f32", "dtype=tensor<1xf32>", "E601", "not an element type"),
        ("rows=16", "rows=99999999999999999999", "E601", "too large"),
        ('"kernel.py":1:1', '"kernel.py:1:1', "E601", "never closed"),
        ("  }\n}", "  }\n} x", "E601", "after the end"),
    ],
)
def test_a_fault_is_a_diagnostic_at_its_place(old: str, new: str, code: str, message: str) -> None:
    text = Text("f32")
    for name in "ab":
        text.alloc(name, tile(16, 64), 0)
    text.op("tabs", ["a"], ["b"])
    wrong = text.text().replace(old, new, 1)
    assert wrong != text.text()
    with pytest.raises(LabError) as caught:
        parse(wrong, "u.pto")
    found = caught.value.diagnostics[0]
    assert found.code == code
    assert message in found.message
    assert found.span is not None
    assert found.span.file == "u.pto"


def test_an_unknown_op_is_named_with_its_neighbours() -> None:
    with pytest.raises(LabError) as caught:
        parse(Text().text().replace("return", "pto.tpad\n  return"), "u.pto")
    assert "did you mean" in (caught.value.diagnostics[0].hint or "")


def test_a_missing_file_is_a_diagnostic(tmp_path: Path) -> None:
    with pytest.raises(LabError) as caught:
        read(tmp_path / "none.pto")
    assert caught.value.diagnostics[0].code == "E600"
