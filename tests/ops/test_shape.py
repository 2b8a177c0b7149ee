"""Reshapes, transposes, views, concat and valid-shape metadata: cells, regions, shared memory."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from moving import infer, numbered, on_tensor, on_tile, run, same
from op_running import DTYPE, dims, tensor, tile, var

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.enums import MemorySpace, PadValue, TensorLayout, TileLayout
from pypto_lab.ir.types import TensorType, TensorView, TileType, TileView, tile_layout
from pypto_lab.torch_codegen.runtime import shape, values

COVERS = {
    "tile.transpose_view",
    "tensor.view",
    *(
        f"{layer}.{name}"
        for layer in ("tensor", "tile")
        for name in ("reshape", "transpose", "reinterpret_view", "concat", "set_validshape")
    ),
}

N = n.Var(name="N", type=n.INDEX)
RESHAPES = ["tensor.reshape", "tile.reshape"]


def on(name: str, data: torch.Tensor) -> Any:
    return on_tile(data) if name.startswith("tile") else on_tensor(data)


def cells_of(data: torch.Tensor) -> list[float]:
    """The valid cells in row-major order of the box."""
    return [float(v) for v in values._cut(data).reshape(-1)]


# --- reshape ---------------------------------------------------------------------------------------------------------


def factorings(count: int, rank: int) -> list[tuple[int, ...]]:
    divisors = [d for d in range(1, count + 1) if count % d == 0]
    found = itertools.product(divisors, repeat=rank)
    return [f for f in found if torch.Size(f).numel() == count]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_reshape_carries_the_region_or_is_refused(data: st.DataObject) -> None:
    count = data.draw(st.sampled_from([1, 6, 8, 12, 24]))
    old = data.draw(st.sampled_from(factorings(count, data.draw(st.integers(1, 3)))))
    new = data.draw(st.sampled_from(factorings(count, data.draw(st.integers(1, 3)))))
    valid = tuple(data.draw(st.integers(0, extent)) for extent in old)
    source = numbered(*old, valid=valid)
    for name in RESHAPES:
        try:
            result = run(name, on(name, source), new)
        except OpError:
            with pytest.raises(RuntimeError, match="is no rectangle"):
                shape._reshape(source, new)
            continue
        assert cells_of(result) == cells_of(source), "the region holds the same cells"
        assert list(result.shape) == list(new)


CARRIED = [
    ((8, 16), (5, 16), (16, 8), (10, 8)),
    ((8, 16), (5, 16), (128,), (80,)),
    ((1, 8, 16), (1, 8, 5), (8, 16), (8, 5)),
    ((8, 16), (8, 5), (8, 1, 16), (8, 1, 5)),
    ((8, 16), (1, 5), (128,), (5,)),
    ((8, 16), (0, 16), (128,), (0,)),
    ((32, 1), (20, 1), (1, 32), (1, 20)),
]


@pytest.mark.parametrize(("old", "valid", "new", "carried"), CARRIED)
def test_regions_that_stay_rectangles(old: Any, valid: Any, new: Any, carried: Any) -> None:
    for name in RESHAPES:
        assert values._valid_of(run(name, on(name, numbered(*old, valid=valid)), new)) == carried


@pytest.mark.parametrize(("valid", "new"), [((5, 16), (4, 32)), ((8, 5), (128,)), ((3, 5), (16, 8))])
def test_regions_that_would_not_stay_rectangles_are_refused(valid: Any, new: Any) -> None:
    for name in RESHAPES:
        with pytest.raises(OpError, match="is no rectangle of the shape") as caught:
            infer(name, on(name, numbered(8, 16, valid=valid)), new)
        assert caught.value.hint is not None


def test_a_reshape_type_carries_extents_known_at_run_time() -> None:
    rows = TileType(dims((16, 8)), dtypes.FP32, TileView(valid_shape=(N, n.const(8))), MemorySpace.Vec)
    assert infer("tile.reshape", rows, [16, 8, 1]).type.valid_shape[0] is N
    flat = infer("tile.reshape", rows, [1, 128]).type.valid_shape
    assert arith.constant(flat[0]) == 1
    assert arith.same(flat[1], arith.mul(N, 8))
    taller = infer("tile.reshape", rows, [32, 4]).type.valid_shape
    assert arith.same(taller[0], arith.mul(N, 2))
    with pytest.raises(OpError, match="no rectangle"):
        infer("tile.reshape", rows, [8, 16])


def test_a_tensor_reshape_shares_memory_and_may_narrow() -> None:
    source = numbered(4, 6)
    result = run("tensor.reshape", on_tensor(source), [2, 12], [1, 5])
    result[0, 0] = -1.0
    assert source[0, 0] == -1.0
    assert values._valid_of(source) == (4, 6)
    with pytest.raises(OpError, match="larger than the box"):
        infer("tensor.reshape", on_tensor(numbered(4, 6, valid=(2, 6))), [2, 12], [2, 12])
    with pytest.raises(RuntimeError, match="is more than is valid"):
        shape._reshape(numbered(4, 6, valid=(2, 6)), [2, 12], [2, 12])


def test_a_reshape_to_the_same_shape_is_another_object() -> None:
    source = numbered(4, 6)
    narrowed = shape._reshape(source, [4, 6], [2, 6])
    assert narrowed is not source
    assert values._valid_of(source) == (4, 6)


def test_cell_counts_must_agree() -> None:
    for name in RESHAPES:
        with pytest.raises(OpError, match="different numbers of cells"):
            infer(name, on(name, numbered(4, 6)), [5, 5])
    with pytest.raises(RuntimeError, match="has 24 cells"):
        shape._reshape(numbered(4, 6), [5, 5])


# --- transpose -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axes", [(0, 1), (-1, 0), (1, 2), (-3, 2)])
def test_transpose_swaps_cells_and_extents(axes: tuple[int, int]) -> None:
    source = numbered(2, 3, 5, valid=(1, 3, 4))
    for name in ("tensor.transpose", "tile.transpose"):
        result = run(name, on(name, source), *axes)
        same(result, values._cut(source).transpose(*axes))
        assert result.is_contiguous()


def test_transpose_ignores_its_scratch() -> None:
    result = run("tile.transpose", on_tile(numbered(2, 3)), 0, 1, on_tile(numbered(3, 2)))
    same(result, numbered(2, 3).T)


def test_transpose_of_a_tensor_takes_a_stated_region() -> None:
    result = run("tensor.transpose", on_tensor(numbered(2, 3)), 0, 1, [2, 2])
    same(result, numbered(2, 3).T[:2, :2])
    with pytest.raises(OpError, match="larger than the box"):
        infer("tensor.transpose", tensor((2, 3)), 0, 1, [2, 3])


def test_transpose_view_swaps_the_layout_instead() -> None:
    source = numbered(2, 3, valid=(2, 2))
    same(run("tile.transpose_view", on_tile(source, MemorySpace.Mat)), values._cut(source).T)
    type_ = infer("tile.transpose_view", on_tile(source, MemorySpace.Mat)).type
    assert tile_layout(type_) == (TileLayout.row_major, TileLayout.col_major, 512)
    back = infer("tile.transpose_view", type_).type
    assert tile_layout(back) == (TileLayout.col_major, TileLayout.row_major, 512)
    with pytest.raises(OpError, match="two axes"):
        infer("tile.transpose_view", tile((4,)))


def test_axes_are_checked() -> None:
    for axes, words in (((0, 0), "two different axes"), ((0, 2), "axis 2 does not exist"), ((0, N), "a constant")):
        with pytest.raises(OpError, match=words):
            infer("tensor.transpose", tensor((2, 3)), *axes)


# --- view ------------------------------------------------------------------------------------------------------------


def strides_of(type_: Any) -> list[int | None]:
    return [arith.constant(s) for s in type_.view.stride]


def test_a_view_of_another_shape_is_the_same_memory() -> None:
    source = numbered(2, 3, 4)
    result = run("tensor.view", on_tensor(source), [6, 4])
    result[0, 0] = -1.0
    assert source[0, 0, 0] == -1.0
    assert strides_of(infer("tensor.view", on_tensor(source), [6, 4]).type) == [4, 1]


def test_the_dn_layout_swaps_the_last_two_axes() -> None:
    source = numbered(2, 3, 4)
    type_ = infer("tensor.view", on_tensor(source), layout=TensorLayout.DN).type
    assert [arith.constant(d) for d in type_.shape] == [2, 4, 3]
    assert strides_of(type_) == [12, 1, 4]
    assert type_.view.layout is TensorLayout.DN
    seen = run("tensor.view", on_tensor(source), layout=TensorLayout.DN)
    same(seen, source.transpose(-2, -1))
    back = shape._tensor_view(seen, layout="ND")
    same(back, source)
    assert back.data_ptr() == source.data_ptr()


def test_shape_and_layout_together_read_the_memory_by_the_target_strides() -> None:
    source = numbered(3, 4)
    seen = run("tensor.view", on_tensor(source), [4, 3], layout=TensorLayout.DN)
    same(seen, source.as_strided((4, 3), (1, 4)))
    wide = run("tensor.view", on_tensor(source), [2, 6], layout=TensorLayout.DN)
    same(wide, source.as_strided((2, 6), (1, 2)))


def test_a_view_carries_or_takes_a_region() -> None:
    partial = numbered(2, 3, 4, valid=(1, 3, 4))
    assert values._valid_of(run("tensor.view", on_tensor(partial), [6, 4])) == (3, 4)
    stated = run("tensor.view", on_tensor(numbered(2, 3, 4)), [6, 4], [5, 2])
    assert values._valid_of(stated) == (5, 2)
    turned = run("tensor.view", on_tensor(numbered(3, 4, valid=(2, 3))), layout=TensorLayout.DN)
    assert values._valid_of(turned) == (3, 2)
    with pytest.raises(OpError, match="is no rectangle") as caught:
        infer("tensor.view", on_tensor(numbered(2, 3, 4, valid=(2, 2, 4))), [6, 4])
    assert caught.value.hint is not None
    assert "valid_shape=" in caught.value.hint
    with pytest.raises(OpError, match="at least two axes"):
        infer("tensor.view", tensor((4,)), layout=TensorLayout.DN)


# --- reinterpret -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "width"),
    [
        (torch.float32, dtypes.INT32, 8),
        (torch.float32, dtypes.UINT8, 32),
        (torch.float16, dtypes.FP32, 4),
        (torch.int32, dtypes.BF16, 16),
        (torch.uint32, dtypes.INT16, 16),
    ],
)
def test_reinterpreting_keeps_the_bytes(old: torch.dtype, new: Any, width: int) -> None:
    source = numbered(3, 8, dtype=old)
    for name in ("tensor.reinterpret_view", "tile.reinterpret_view"):
        result = run(name, on(name, source), dtype=new)
        assert tuple(result.shape) == (3, width)
        assert torch.equal(result.contiguous().view(torch.uint8), source.view(torch.uint8))
        back = run(name, on(name, result), dtype=DTYPE[old])
        assert torch.equal(back.view(torch.uint8), source.view(torch.uint8))


def test_a_column_tile_scales_its_rows() -> None:
    source = numbered(4, 1)
    column = on_tile(source)
    assert tile_layout(column.type)[0] is TileLayout.col_major
    result = run("tile.reinterpret_view", column, dtype=dtypes.INT16)
    assert tuple(result.shape) == (8, 1)
    assert torch.equal(result.reshape(-1).view(torch.float32), source.reshape(-1))


def test_a_region_scales_with_the_element() -> None:
    partial = numbered(3, 8, valid=(2, 5))
    assert values._valid_of(run("tile.reinterpret_view", on_tile(partial), dtype=dtypes.INT8)) == (2, 20)
    halves = numbered(3, 8, dtype=torch.float16, valid=(2, 6))
    assert values._valid_of(run("tile.reinterpret_view", on_tile(halves), dtype=dtypes.FP32)) == (2, 3)
    odd = on_tile(numbered(3, 8, dtype=torch.float16, valid=(2, 5)))
    with pytest.raises(OpError, match="no whole number"):
        infer("tile.reinterpret_view", odd, dtype=dtypes.FP32)
    with pytest.raises(RuntimeError, match="no whole number"):
        shape._reinterpret_view(odd.data, dtype=torch.float32)


def test_a_stated_shape_holds_the_same_bytes() -> None:
    source = numbered(3, 8)
    result = run("tensor.reinterpret_view", on_tensor(source), [6, 8], dtype=dtypes.INT16)
    assert torch.equal(result.reshape(-1).view(torch.float32), source.reshape(-1))
    with pytest.raises(OpError, match="different numbers of cells"):
        infer("tensor.reinterpret_view", on_tensor(source), [5, 8], dtype=dtypes.INT16)
    with pytest.raises(OpError, match="fully valid source"):
        infer("tensor.reinterpret_view", on_tensor(numbered(3, 8, valid=(2, 8))), [6, 8], dtype=dtypes.INT16)
    for bad, words in ((dtypes.FP32, "already"), (dtypes.BOOL, "cannot see the bytes")):
        with pytest.raises(OpError, match=words):
            infer("tensor.reinterpret_view", on_tensor(source), dtype=bad)


def test_reinterpreting_keeps_a_zero_pad_only() -> None:
    for pad, kept in ((PadValue.zero, PadValue.zero), (PadValue.min, None)):
        source = TileType(dims((2, 8)), dtypes.FP32, TileView(pad=pad), MemorySpace.Vec)
        view = infer("tile.reinterpret_view", source, dtype=dtypes.INT32).type.view
        assert (view.pad if view else None) is kept


# --- concat ----------------------------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 5), st.data())
def test_the_second_operand_starts_where_the_first_ends(rows: int, left: int, right: int, data: st.DataObject) -> None:
    regions = [(data.draw(st.integers(0, rows)), data.draw(st.integers(0, c))) for c in (left, right)]
    first, second = numbered(rows, left, valid=regions[0]), numbered(rows, right, valid=regions[1])
    kept = min(regions[0][0], regions[1][0])
    for name in ("tensor.concat", "tile.concat"):
        result = run(name, on(name, first), on(name, second))
        assert tuple(result.shape) == (rows, left + right)
        same(result, torch.cat([values._cut(first)[:kept], values._cut(second)[:kept]], dim=-1))


CONCAT_ERRORS = [
    (tensor((2, 3)), tile((2, 3)), "mixes a tile with a tensor"),
    (tensor((2, 3)), tensor((2, 3), dtypes.FP16), "joins pl.FP32 and pl.FP16"),
    (tensor((2, 3)), tensor((3, 3)), "axis 0 differs"),
    (tensor((2, 3)), tensor((3,)), "differ in rank"),
]


@pytest.mark.parametrize(("first", "second", "words"), CONCAT_ERRORS)
def test_concat_refuses(first: Any, second: Any, words: str) -> None:
    with pytest.raises(OpError, match=words):
        infer("tensor.concat", first, second)


# --- set_validshape --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tensor.set_validshape", "tile.set_validshape"])
def test_the_region_changes_and_no_cell_does(name: str) -> None:
    source = numbered(4, 6)
    narrow = run(name, on(name, source), 2, 3)
    assert values._valid_of(narrow) == (2, 3)
    assert values._valid_of(source) == (4, 6)
    wide = run(name, on(name, narrow), 4, 5)
    same(wide, source[:, :5])
    full = run(name, on(name, wide), 4, 6)
    assert not values._is_partial(full)
    for extents, words in (((5, 6), "larger than the box"), ((-1, 6), "is negative")):
        with pytest.raises(OpError, match=words):
            infer(name, on(name, source), *extents)
    with pytest.raises(RuntimeError, match="7 valid on axis 1 of a box of 6"):
        shape._set_validshape(source, 4, 7)
    with pytest.raises(OpError, match="needs two axes"):
        infer(name, on(name, numbered(2, 2, 2)), 1, 1)


def test_a_region_known_at_run_time_is_stated_as_written() -> None:
    type_ = infer(
        "tensor.set_validshape", var(TensorType(dims((4, 6)), dtypes.FP32, TensorView(pad=PadValue.zero))), N, 3
    ).type
    assert type_.valid_shape[0] is N
    assert type_.view.pad is PadValue.zero
