"""Result types as compiler dumps print them: memory space, block layout, pad mode and valid shape."""

from __future__ import annotations

from typing import Any

import pytest
from op_running import dims, scalar, tensor, tile, var

from pypto_lab.ir import dtypes as d
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import MemorySpace, PadValue, TileLayout
from pypto_lab.ir.printer import print_type
from pypto_lab.ir.types import TensorType, TensorView, TileType, TileView
from pypto_lab.ops.record import make_call

ACC = var(TileType(dims((32, 48)), d.FP32, None, MemorySpace.Acc))
PADDED = var(TileType(dims((16, 96)), d.FP32, TileView(pad=PadValue.min), MemorySpace.Vec))
BOXED = TileView(blayout=TileLayout.col_major, slayout=TileLayout.row_major)
ROWS = n.Var(name="rows", type=n.INDEX)
NARROW = var(TileType((n.const(64), n.const(32)), d.FP32, TileView(valid_shape=(ROWS, n.const(32))), MemorySpace.Vec))
DYNAMIC = var(TensorType((ROWS, n.const(8)), d.FP16, TensorView(valid_shape=(n.const(3), n.const(8)))))
TMP = var(tile((64, 32)))

VEC = "pl.Mem.Vec"
BOX = "pl.TileView(blayout=pl.TileLayout.col_major, slayout=pl.TileLayout.row_major)"
MIN = "pl.TileView(pad=pl.PadValue.min)"
CASES: list[tuple[Any, ...]] = [
    ("tile.add", (ACC, var(tile((32, 48)))), {}, f"pl.Tile[[32, 48], pl.FP32, {VEC}, {BOX}]"),
    ("tile.add", (var(tile((32, 48))), ACC), {}, f"pl.Tile[[32, 48], pl.FP32, {VEC}]"),
    ("tile.abs", (ACC,), {}, f"pl.Tile[[32, 48], pl.FP32, {VEC}, {BOX}]"),
    ("tile.col_expand", (ACC, var(tile((1, 48)))), {}, f"pl.Tile[[32, 48], pl.FP32, {VEC}, {BOX}]"),
    ("tile.cast", (ACC,), {"target_type": d.BF16}, f"pl.Tile[[32, 48], pl.BF16, {VEC}, {BOX}]"),
    ("tile.row_max", (ACC, TMP), {}, f"pl.Tile[[32, 1], pl.FP32, {VEC}]"),
    ("tile.muls", (PADDED, scalar()), {}, f"pl.Tile[[16, 96], pl.FP32, {VEC}, {MIN}]"),
    ("tile.row_expand_sub", (PADDED, var(tile((16, 1)))), {}, f"pl.Tile[[16, 96], pl.FP32, {VEC}, {MIN}]"),
    ("tile.cast", (PADDED,), {"target_type": d.BF16}, f"pl.Tile[[16, 96], pl.BF16, {VEC}, {MIN}]"),
    ("tile.row_max", (PADDED, TMP), {}, f"pl.Tile[[16, 1], pl.FP32, {VEC}]"),
    ("tile.exp", (NARROW,), {}, f"pl.Tile[[64, 32], pl.FP32, {VEC}, pl.TileView(valid_shape=[rows, 32])]"),
    ("tile.row_sum", (NARROW, TMP), {}, f"pl.Tile[[64, 1], pl.FP32, {VEC}, pl.TileView(valid_shape=[rows, 1])]"),
    ("tile.col_sum", (NARROW,), {}, f"pl.Tile[[1, 32], pl.FP32, {VEC}]"),
    ("tile.row_argmax", (var(tile((16, 32))), TMP), {}, f"pl.Tile[[16, 1], pl.INT32, {VEC}]"),
    (
        "tile.cmp",
        (var(tile((16, 32))), var(tile((16, 32)))),
        {"cmp_type": 4},
        f"pl.Tile[[16, 32], pl.UINT8, {VEC}, pl.TileView(valid_shape=[16, 4])]",
    ),
    (
        "tile.matmul",
        (var(tile((32, 32), d.BF16)), var(tile((32, 64), d.BF16))),
        {},
        "pl.Tile[[32, 64], pl.FP32, pl.Mem.Acc]",
    ),
    (
        "tile.matmul",
        (var(tile((32, 32), d.INT8)), var(tile((32, 64), d.INT8))),
        {},
        "pl.Tile[[32, 64], pl.INT32, pl.Mem.Acc]",
    ),
    (
        "tile.matmul",
        (NARROW, var(tile((32, 8)))),
        {},
        "pl.Tile[[64, 8], pl.FP32, pl.Mem.Acc, pl.TileView(valid_shape=[rows, 8])]",
    ),
    (
        "tile.gemv",
        (var(tile((1, 32))), var(tile((32, 8)))),
        {},
        "pl.Tile[[16, 8], pl.FP32, pl.Mem.Acc, pl.TileView(valid_shape=[1, 8])]",
    ),
    (
        "tile.part_add",
        (var(tile((8, 8), valid=(3, 8))), var(tile((8, 8), valid=(8, 2)))),
        {},
        f"pl.Tile[[8, 8], pl.FP32, {VEC}]",
    ),
    ("tensor.adds", (var(tensor((1,), d.INT32)), scalar(d.INDEX)), {}, "pl.Tensor[[1], pl.INDEX]"),
    ("tensor.muls", (var(tensor((4, 8), d.FP16)), scalar()), {}, "pl.Tensor[[4, 8], pl.FP32]"),
    ("tile.muls", (var(tile((4, 8), d.FP16)), scalar()), {}, f"pl.Tile[[4, 8], pl.FP16, {VEC}]"),
    ("tensor.exp", (DYNAMIC,), {}, "pl.Tensor[[rows, 8], pl.FP16, pl.TensorView(valid_shape=[3, 8])]"),
    ("tensor.add", (DYNAMIC, DYNAMIC), {}, "pl.Tensor[[rows, 8], pl.FP16, pl.TensorView(valid_shape=[3, 8])]"),
    ("tensor.add", (DYNAMIC, var(tensor((1, 8), d.FP16))), {}, "pl.Tensor[[rows, 8], pl.FP16]"),
    ("tensor.xor", (var(tensor((4, 8), d.INT16, (2, 8))),) * 2, {}, "pl.Tensor[[4, 8], pl.INT16]"),
    ("tensor.cmp", (DYNAMIC, DYNAMIC), {}, "pl.Tensor[[rows, 8], pl.FP16]"),
    ("tensor.row_sum", (var(tensor((4, 8))),), {"axis": 0, "keep_dim": False}, "pl.Tensor[[8], pl.FP32]"),
    (
        "tensor.matmul",
        (var(tensor((32, 4), d.BF16)), var(tensor((64, 32), d.BF16))),
        {"a_trans": True, "b_trans": True},
        "pl.Tensor[[4, 64], pl.BF16]",
    ),
]


@pytest.mark.parametrize(
    ("name", "operands", "attrs", "wanted"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)]
)
def test_printed_type(name: str, operands: tuple[Any, ...], attrs: dict[str, Any], wanted: str) -> None:
    assert print_type(make_call(name, *operands, **attrs).type) == wanted


def test_a_boxed_tile_stays_boxed() -> None:
    boxed = var(TileType(dims((32, 64)), d.FP32, BOXED, MemorySpace.Vec))
    found = make_call("tile.row_expand_div", boxed, var(tile((32, 1))))
    assert print_type(found.type) == f"pl.Tile[[32, 64], pl.FP32, {VEC}, {BOX}]"
