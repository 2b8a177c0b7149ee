"""Creating and moving data: windows, valid regions, promises, writes in place."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from moving import Held, infer, numbered, on_tensor, on_tile, run, same, undefined_outside
from op_running import Number, dims, tensor, tile, var

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.enums import AtomicType, MemorySpace, PadValue, TensorLayout, TileLayout
from pypto_lab.ir.types import PTR, ScalarType, TensorType, TileType, TileView, tile_layout
from pypto_lab.torch_codegen.runtime import memory, values

COVERS = {
    "tensor.create",
    "tensor.create_l1",
    "tensor.dim",
    "tile.create",
    "tile.load",
    "tile.store",
    "tile.extract",
    "tile.move",
    *(f"{layer}.{name}" for layer in ("tensor", "tile") for name in ("alloc", "slice", "assemble", "read", "write")),
}

X = numbered(5, 7)
ADD = AtomicType.Add
N = n.Var(name="N", type=n.INDEX)


def cut(x: torch.Tensor, *parts: slice) -> torch.Tensor:
    return x[parts].clone()


# --- create ----------------------------------------------------------------------------------------------------------


def test_created_cells_are_undefined_and_init_value_defines_them() -> None:
    undefined_outside(values._mark(run("tensor.create", [3, 5], dtype=dtypes.FP32), (0, 0)))
    undefined_outside(
        values._mark(run("tile.create", [3, 5], dtype=dtypes.BF16, target_memory=MemorySpace.Mat), (0, 0))
    )
    same(run("tensor.create", [2, 3], dtype=dtypes.INT32, init_value=4), torch.full((2, 3), 4, dtype=torch.int32))
    assert run("tensor.create_l1", [16, 32], dtype=dtypes.BF16).shape == (16, 32)


def test_a_created_tile_takes_the_region_its_type_declares() -> None:
    made = memory._create([4, 8], dtype=torch.float32, target_memory="Vec", valid_shape=[0, 0])
    assert values._valid_of(made) == (0, 0)


def test_create_states_a_layout_only_where_it_is_not_the_usual_one() -> None:
    plain = infer("tensor.create", [4, 8], dtype=dtypes.FP32)
    assert plain.type.view is None
    assert plain.kwargs == {"dtype": dtypes.FP32, "layout": TensorLayout.ND}
    assert infer("tensor.create", [4, 8], dtype=dtypes.FP32, layout=TensorLayout.NZ).type.view.layout is TensorLayout.NZ
    swapped = infer("tile.create", [4, 8], dtype=dtypes.FP32, target_memory=MemorySpace.Mat, transpose=True).type
    assert tile_layout(swapped)[:2] == (TileLayout.row_major, TileLayout.col_major)
    flat = infer("tile.create", [4, 8], dtype=dtypes.FP32, target_memory=MemorySpace.Mat, flat_layout=True).type
    assert tile_layout(flat)[:2] == (TileLayout.row_major, TileLayout.none_box)


def test_allocations_are_pointers() -> None:
    space = n.Var(name="pl.Mem.Vec", type=PTR)
    for name in ("tile.alloc", "tensor.alloc"):
        assert infer(name, space, 4096).type is PTR
        run(name, space, 4096)


def test_dim_is_the_full_extent() -> None:
    partial = on_tensor(numbered(5, 7, valid=(2, 3)))
    assert run("tensor.dim", partial, 0) == 5
    assert run("tensor.dim", partial, -1) == 7
    with pytest.raises(OpError, match="axis 2 does not exist"):
        infer("tensor.dim", partial, 2)


# --- load ------------------------------------------------------------------------------------------------------------


@st.composite
def windows(
    draw: st.DrawFn,
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """A box, its valid region, and offsets, window and requested extents that keep the promise of a load."""
    rank = draw(st.integers(1, 4))
    box = tuple(draw(st.integers(1, 7)) for _ in range(rank))
    valid = tuple(draw(st.integers(0, b)) for b in box)
    offsets = tuple(draw(st.integers(0, b)) for b in box)
    wanted = tuple(draw(st.integers(0, b - o)) for b, o in zip(box, offsets, strict=True))
    window = tuple(max(1, w + draw(st.integers(0, 2))) for w in wanted)
    return box, valid, offsets, window, wanted


def expected_extent(valid: int, offset: int, wanted: int) -> int:
    return max(0, min(wanted, valid - offset))


@settings(max_examples=150, deadline=None)
@given(windows())
def test_a_load_copies_what_was_asked_for_and_is_there(case: Any) -> None:
    box, valid, offsets, window, wanted = case
    source = numbered(*box, valid=valid)
    loaded = run("tile.load", on_tensor(source), offsets, window, wanted)
    extents = [expected_extent(*each) for each in zip(valid, offsets, wanted, strict=True)]
    assert list(values._valid_of(loaded)) == extents
    same(loaded, source[tuple(slice(o, o + e) for o, e in zip(offsets, extents, strict=True))])
    undefined_outside(loaded)
    if loaded.numel() and source.numel():
        assert loaded.untyped_storage().data_ptr() != source.untyped_storage().data_ptr()


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 9), st.integers(0, 12), st.integers(1, 9), st.data())
def test_clamp_cuts_to_the_edge(box: int, offset: int, window: int, data: st.DataObject) -> None:
    valid = data.draw(st.integers(0, box))
    source = numbered(box, valid=(valid,))
    for name, arguments in (("tile.load", ([offset], [window], [window])), ("tensor.slice", ([window], [offset]))):
        got = run(name, on_tensor(source), *arguments, clamp=True)
        assert values._valid_of(got) == (expected_extent(valid, offset, window),)
        same(got, source[offset : offset + max(0, min(window, valid - offset))])


def test_the_box_of_a_load_may_hang_over_when_the_request_does_not() -> None:
    loaded = run("tile.load", on_tensor(X), [3, 4], [4, 8], [2, 3])
    same(loaded, X[3:5, 4:7])


@pytest.mark.parametrize(
    ("offsets", "window", "words"),
    [
        ([4, 0], [2, 7], "offset 4 with extent 2 on axis 0 leaves the box, whose extent is 5"),
        ([0, 3], [1, 5], "offset 3 with extent 5 on axis 1 leaves the box, whose extent is 7"),
        ([-1, 0], [2, 2], "offset -1 with extent 2 on axis 0"),
    ],
)
def test_a_broken_promise_is_named(offsets: list[int], window: list[int], words: str) -> None:
    with pytest.raises(RuntimeError, match=f"tile.load: {words}"):
        memory._tile_load(X, offsets, window)
    with pytest.raises(RuntimeError, match=r"tile.slice"):
        memory._tile_slice(X, window, offsets)


def test_clamp_does_not_allow_negative_offsets() -> None:
    with pytest.raises(RuntimeError, match="offset -2 is negative"):
        memory._tile_load(X, [-2, 0], [2, 2], clamp=True)


def test_an_empty_request_may_start_at_the_end() -> None:
    loaded = memory._tile_load(X, [6, 0], [2, 7], [0, 7])
    assert values._valid_of(loaded) == (0, 7)


def test_a_negative_request_is_named() -> None:
    with pytest.raises(RuntimeError, match="extent -3 on axis 0 is negative"):
        memory._tile_load(X, [0, 0], [2, 7], [-3, 7])


def test_a_window_of_lower_rank_covers_the_last_axes() -> None:
    source = numbered(3, 4, 6)
    loaded = run("tile.load", on_tensor(source), [2, 1, 0], [2, 6], [2, 5])
    same(loaded, source[2, 1:3, :5])
    with pytest.raises(RuntimeError, match="offset 3 with extent 1 on axis 0"):
        memory._tile_load(source, [3, 0, 0], [2, 6])


def test_a_load_of_a_strided_source_is_packed() -> None:
    assert memory._tile_load(X.T, [0, 0], [7, 5]).is_contiguous()


def test_load_types_follow_extents_known_at_run_time() -> None:
    source = var(TensorType((N, n.const(64)), dtypes.FP32))
    row = n.Var(name="row", type=n.INDEX)
    plain = infer("tile.load", source, [row, 0], [16, 64], [16, 64])
    assert plain.type.view is None, "without clamp the promise is trusted"
    tail = arith.minimum(arith.sub(N, row), 16)
    asked = infer("tile.load", source, [row, 0], [16, 64], [tail, 64])
    assert asked.type.valid_shape[0] is tail
    clamped = infer("tile.load", source, [row, 0], [16, 64], [16, 64], clamp=True)
    assert clamped.type.stated_valid is not None
    assert arith.constant(clamped.type.valid_shape[1]) == 64


LOAD_ERRORS: list[tuple[list[Any], dict[str, Any], str, int | str]] = [
    ([tile((4, 4)), [0, 0], [4, 4]], {}, "needs a tensor", 0),
    ([tensor((4, 4)), [0], [4, 4]], {}, "needs 2 entries", 1),
    ([tensor((4, 4)), [0, 0], [1, 4, 4]], {}, "more axes", 2),
    ([tensor((4, 4)), [0, 0], [4, N]], {}, "constant extents", 2),
    ([tensor((4, 4)), [0, 0], [0, 4]], {}, "is not positive", 2),
    ([tensor((4, 4)), [0, 0], [4, 4], [5, 4]], {}, "larger than the box", 3),
    ([tensor((4, 4)), [0, 0], [4, 4], [4]], {}, "needs 2 entries", 3),
    ([tensor((4, 4)), [2, 0], [4, 4]], {}, "passes the end", 1),
    ([tensor((4, 4)), [-1, 0], [4, 4]], {}, "offset -1 on axis 0 is negative", 1),
    ([tensor((4, 4)), [0, 0], [4, 4]], {"target_memory": MemorySpace.Left}, "cannot bring", "target_memory"),
]


@pytest.mark.parametrize(("operands", "attrs", "words", "argument"), LOAD_ERRORS)
def test_load_refuses(operands: list[Any], attrs: dict[str, Any], words: str, argument: int | str) -> None:
    with pytest.raises(OpError, match=words) as caught:
        infer("tile.load", *operands, **attrs)
    assert caught.value.argument == argument


def test_a_refused_overhang_says_what_to_write() -> None:
    with pytest.raises(OpError) as caught:
        infer("tile.load", tensor((4, 4)), [2, 0], [4, 4], [4, 4])
    assert caught.value.hint is not None
    assert "clamp=True" in caught.value.hint


# --- store -----------------------------------------------------------------------------------------------------------


def stored(held: Held, offsets: list[int], target: torch.Tensor, *shapes: list[int], **attrs: Any) -> torch.Tensor:
    result = run("tile.store", held, offsets, on_tensor(target), *shapes, **attrs)
    assert isinstance(result, torch.Tensor)
    return result


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_a_store_writes_the_valid_cells_and_no_other(rows: int, columns: int, data: st.DataObject) -> None:
    valid = (data.draw(st.integers(0, rows)), data.draw(st.integers(0, columns)))
    offsets = [data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))]
    target = torch.full((9, 9), -1.0)
    wanted = target.clone()
    part = tuple(slice(o, o + v) for o, v in zip(offsets, valid, strict=True))
    source = numbered(rows, columns, valid=valid)
    wanted[part] = source[: valid[0], : valid[1]]
    result = stored(on_tile(source), offsets, target)
    assert result is target
    assert torch.equal(target, wanted)


def test_a_store_into_more_axes_covers_the_last_ones() -> None:
    target = torch.zeros(3, 5, 6)
    stored(on_tile(numbered(4, 6, valid=(3, 6))), [2, 1, 0], target)
    assert torch.equal(target[2, 1:4], numbered(4, 6)[:3])
    assert target.count_nonzero() == 18


PARTITIONS = [
    ((4, 6), None, [1, 4, 6], [1, 0, 0]),
    ((4, 6), (3, 5), [1, 4, 6], [2, 1, 0]),
    ((4, 6), (3, 6), [1, 3, 6], [0, 2, 0]),
    ((6, 6), None, [3, 2, 6], [0, 1, 0]),
    ((6, 6), (4, 5), [3, 2, 6], [0, 3, 0]),
    ((8, 6), (6, 6), [3, 2, 6], [0, 0, 0]),
]


@pytest.mark.parametrize(("box", "valid", "shapes", "offsets"), PARTITIONS)
def test_a_partition_lays_the_rows_over_several_axes(
    box: tuple[int, int], valid: tuple[int, int] | None, shapes: list[int], offsets: list[int]
) -> None:
    target = torch.zeros(3, 5, 6)
    source = numbered(*box, valid=valid)
    stored(on_tile(source), offsets, target, shapes)
    rows, columns = valid or box
    wanted = torch.zeros(3, 5, 6)
    inner = shapes[1]
    for row in range(rows):
        outer, line = divmod(row, inner)
        wanted[offsets[0] + outer, offsets[1] + line, offsets[2] : offsets[2] + columns] = source[row, :columns]
    assert torch.equal(target, wanted)


def test_rows_that_do_not_divide_over_a_partition_are_named() -> None:
    with pytest.raises(RuntimeError, match="5 valid rows of 6 cells do not divide over a partition"):
        memory._tile_store(numbered(6, 6, valid=(5, 6)), [0, 0, 0], torch.zeros(3, 2, 6), [3, 2, 6])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.uint32, torch.uint16])
def test_atomic_add_adds_the_valid_cells(dtype: torch.dtype) -> None:
    target = torch.full((4, 4), 10, dtype=dtype)
    stored(on_tile(numbered(2, 3, dtype=dtype, valid=(2, 2))), [1, 1], target, atomic=ADD)
    wanted = torch.full((4, 4), 10.0)
    wanted[1:3, 1:3] += numbered(2, 3)[:, :2]
    assert torch.equal(target.to(torch.float32), wanted)


def test_atomic_add_of_unsigned_wraps() -> None:
    target = torch.full((1, 1), 2**32 - 1, dtype=torch.int64).to(torch.uint32)
    stored(on_tile(torch.full((1, 1), 3, dtype=torch.int32).to(torch.uint32)), [0, 0], target, atomic=ADD)
    assert target.item() == 2


def test_a_store_from_the_accumulator_rounds_half_to_even() -> None:
    source = torch.tensor([[1.0 + 2**-8, 1.0 + 3 * 2**-8]])
    target = torch.zeros(1, 2, dtype=torch.bfloat16)
    stored(on_tile(source, MemorySpace.Acc), [0, 0], target)
    assert target.tolist() == [[1.0, 1.0 + 2**-6]]


def test_a_store_that_leaves_the_target_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"tile\.store: offset 3 with extent 2 on axis 0 leaves the box"):
        memory._tile_store(numbered(2, 2), [3, 0], torch.zeros(4, 4))


def test_copy_leaves_the_old_tensor_alone() -> None:
    target = torch.zeros(4, 4)
    result = memory._tile_store(numbered(2, 2), [0, 0], target, copy=True)
    assert result is not target
    assert target.count_nonzero() == 0
    assert result.count_nonzero() == 4


STORE_ERRORS: list[tuple[list[Any], str, int]] = [
    ([tensor((2, 2)), [0, 0], tensor((4, 4))], "needs a tile", 0),
    ([tile((2, 2)), [0, 0], tile((4, 4))], "needs a tensor", 2),
    ([tile((2, 2)), [0], tensor((4, 4))], "needs 2 entries", 1),
    ([tile((2, 2)), [3, 0], tensor((4, 4))], "passes the end", 1),
    ([tile((2, 2), dtypes.FP16), [0, 0], tensor((4, 4))], "the tile is pl.FP16, the tensor pl.FP32", 0),
    ([TileType(dims((2, 2)), dtypes.FP32, None, MemorySpace.Left), [0, 0], tensor((4, 4))], "this one is in Left", 0),
    ([tile((2, 3, 4)), [0, 0], tensor((4, 4))], "does not fit a target of rank 2", 0),
    ([tile((2, 2)), [0, 0, 0], tensor((4, 4, 4)), [2, 2]], "needs 3 entries", 3),
    ([tile((2, 2)), [0, 0, 3], tensor((4, 4, 4)), [1, 2, 2]], "passes the end", 1),
]


@pytest.mark.parametrize(("operands", "words", "argument"), STORE_ERRORS)
def test_store_refuses(operands: list[Any], words: str, argument: int) -> None:
    with pytest.raises(OpError, match=words) as caught:
        infer("tile.store", *operands)
    assert caught.value.argument == argument


# --- slice and extract -----------------------------------------------------------------------------------------------


def test_a_tensor_slice_is_the_same_memory() -> None:
    source = numbered(5, 7)
    window = run("tensor.slice", on_tensor(source), [2, 3], [1, 2])
    memory._tile_store(torch.full((2, 3), -5.0), [0, 0], window)
    assert torch.equal(source[1:3, 2:5], torch.full((2, 3), -5.0))
    assert torch.equal(source[0], numbered(5, 7)[0])


def test_a_slice_with_a_valid_shape_may_hang_over() -> None:
    window = run("tensor.slice", on_tensor(X), [8, 8], [3, 0], [2, 7])
    same(window, X[3:])
    undefined_outside(window)
    with pytest.raises(OpError, match="passes the end"):
        infer("tensor.slice", on_tensor(X), [8, 8], [3, 0])


@pytest.mark.parametrize(("pad", "number"), [(PadValue.zero, 0.0), (PadValue.min, -torch.inf), (7.5, 7.5)])
def test_a_pad_value_shows_outside_the_region(pad: Any, number: float) -> None:
    for name, held in (("tensor.slice", on_tensor(X)), ("tile.slice", on_tile(X))):
        window = run(name, held, [2, 4], [1, 2], [2, 3], pad_value=pad)
        same(window, X[1:3, 2:5])
        assert window[:, 3].tolist() == [number] * 2


def test_drop_dims_erases_unit_axes() -> None:
    source = numbered(3, 4, 5)
    row = run("tensor.slice", on_tensor(source), [1, 2, 1], [2, 1, 3], [], [0, 2])
    same(row, source[2, 1:3, 3])
    kept = run("tile.slice", on_tile(source), [1, 1, 4], [2, 1, 0], [], [0, 1])
    same(kept, source[2, 1:2, 0:4])
    assert kept.dim() == 2, "tiles stay two-dimensional"
    empty = run("tensor.slice", on_tensor(numbered(3, 4, valid=(1, 4))), [1, 4], [2, 0], [], [0])
    assert values._valid_of(empty) == (0,)
    with pytest.raises(OpError, match="is not 1 and cannot be dropped"):
        infer("tensor.slice", on_tensor(source), [2, 2, 1], [0, 0, 0], [], [0])
    with pytest.raises(OpError, match="names no axis"):
        infer("tensor.slice", on_tensor(source), [1, 2, 1], [0, 0, 0], [], [3])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 5), st.integers(0, 7), st.integers(0, 3), st.integers(0, 4))
def test_tile_windows_follow_the_source_region(rows: int, columns: int, row: int, column: int) -> None:
    source = numbered(5, 7, valid=(rows, columns))
    extents = (expected_extent(rows, row, 2), expected_extent(columns, column, 3))
    part = source[row : row + extents[0], column : column + extents[1]]
    for window in (
        run("tile.slice", on_tile(source), [2, 3], [row, column]),
        run("tile.extract", on_tile(source, MemorySpace.Mat), row, column, [2, 3], target_memory=MemorySpace.Left),
    ):
        assert values._valid_of(window) == extents
        same(window, part)


def test_tile_windows_must_lie_inside() -> None:
    for call in (
        lambda: infer("tile.slice", on_tile(X), [4, 4], [2, 0]),
        lambda: infer("tile.extract", on_tile(X), 2, 0, [4, 4], target_memory=MemorySpace.Left),
    ):
        with pytest.raises(OpError, match="passes the end of the tile"):
            call()
    with pytest.raises(RuntimeError, match=r"tile\.extract: offset 2"):
        memory._tile_extract(X, 2, 0, [4, 4])
    with pytest.raises(OpError, match="two-dimensional"):
        infer("tile.extract", on_tile(numbered(2, 2, 2)), 0, 0, [2, 2], target_memory=MemorySpace.Left)


def test_extract_to_the_left_operand_is_row_major() -> None:
    left = infer("tile.extract", on_tile(X, MemorySpace.Mat), 0, 0, [2, 2], target_memory=MemorySpace.Left).type
    assert left.view == TileView() or left.view.blayout is TileLayout.row_major
    assert (
        infer("tile.extract", on_tile(X, MemorySpace.Mat), 0, 0, [2, 2], target_memory=MemorySpace.Right).type.view
        is None
    )


# --- move ------------------------------------------------------------------------------------------------------------


def test_move_keeps_values_and_takes_the_layout_of_the_target() -> None:
    source = on_tile(numbered(4, 6, valid=(3, 5)), MemorySpace.Acc)
    moved = run("tile.move", source, target_memory=MemorySpace.Vec)
    same(moved, numbered(4, 6)[:3, :5])
    kept = infer("tile.move", source, target_memory=MemorySpace.Vec).type
    assert tile_layout(kept)[:2] == (TileLayout.col_major, TileLayout.row_major)
    stated = infer(
        "tile.move",
        source,
        target_memory=MemorySpace.Vec,
        blayout=TileLayout.row_major,
        slayout=TileLayout.none_box,
    ).type
    assert tile_layout(stated)[:2] == (TileLayout.row_major, TileLayout.none_box)
    assert infer("tile.move", on_tile(X, MemorySpace.Mat), target_memory=MemorySpace.Left).type.view is None


# --- assemble --------------------------------------------------------------------------------------------------------

UNIONS = [
    ((3, 3), (0, 0), (2, 2), (3, 3)),
    ((0, 0), (4, 5), (0, 0), (4, 5)),
    ((2, 5), (3, 5), (0, 0), (3, 5)),
    ((3, 5), (2, 2), (1, 3), (3, 5)),
    ((3, 5), (2, 5), (3, 0), (5, 5)),
    ((3, 5), (3, 1), (0, 5), (3, 6)),
    ((3, 5), (2, 5), (2, 0), (4, 5)),
    ((3, 5), (0, 3), (4, 4), (3, 5)),
    ((3, 5), (2, 4), (3, 0), None),
    ((3, 5), (1, 5), (4, 0), None),
    ((3, 5), (2, 2), (2, 4), None),
    ((0, 0), (1, 1), (1, 0), None),
]


@pytest.mark.parametrize(("had", "source", "offset", "union"), UNIONS)
def test_the_region_after_a_write_is_the_union_or_nothing(
    had: tuple[int, int], source: tuple[int, int], offset: tuple[int, int], union: tuple[int, int] | None
) -> None:
    target = numbered(6, 7, valid=had)
    held = on_tensor(numbered(6, 7, valid=source))
    if union is None and 0 not in source:
        with pytest.raises(OpError, match="no rectangle at the origin"):
            infer("tensor.assemble", on_tensor(target), held, offset)
        with pytest.raises(RuntimeError, match="leaves no rectangle"):
            memory._assemble(target, held.data, list(offset))
        return
    assert union is not None
    result = run("tensor.assemble", on_tensor(target), held, offset)
    assert values._valid_of(result) == union


def test_assemble_writes_the_valid_rectangle_in_place_or_on_a_copy() -> None:
    target = torch.zeros(6, 7)
    source = on_tensor(numbered(3, 4, valid=(2, 3)))
    fresh = run("tensor.assemble", on_tensor(target), source, [1, 2], copy=True)
    assert target.count_nonzero() == 0
    assert fresh is not target
    result = run("tensor.assemble", on_tensor(target), source, [1, 2])
    assert result is target
    assert torch.equal(target, fresh)
    wanted = torch.zeros(6, 7)
    wanted[1:3, 2:5] = numbered(3, 4)[:2, :3]
    assert torch.equal(target, wanted)
    run("tensor.assemble", on_tensor(target), source, [1, 2], atomic=ADD)
    assert torch.equal(target, 2 * wanted)


def test_assemble_takes_a_source_of_lower_rank() -> None:
    target = torch.zeros(2, 3, 4)
    run("tensor.assemble", on_tensor(target), on_tensor(numbered(2, 4)), [1, 1, 0])
    assert torch.equal(target[1, 1:], numbered(2, 4))
    assert target.count_nonzero() == 8
    with pytest.raises(OpError, match="does not fit a target of rank 1"):
        infer("tensor.assemble", tensor((4,)), tensor((2, 4)), [0])


def test_tile_assemble_inserts_the_whole_box() -> None:
    target = torch.zeros(5, 6)
    source = numbered(2, 3, valid=(1, 2))
    run("tile.assemble", on_tile(target), on_tile(source), [1, 1])
    assert torch.equal(target[1:3, 1:4], source.as_subclass(torch.Tensor)), "undefined cells are inserted too"
    with pytest.raises(OpError, match="passes the end"):
        infer("tile.assemble", on_tile(target), on_tile(source), [4, 1])
    with pytest.raises(RuntimeError, match=r"tile\.assemble: offset 4 with extent 2"):
        memory._tile_assemble(target, source, [4, 1])


def test_tile_assemble_narrows_floats_only() -> None:
    target = torch.zeros(1, 2, dtype=torch.bfloat16)
    run("tile.assemble", on_tile(target), on_tile(torch.tensor([[1.0 + 2**-8, 3.0]])), [0, 0])
    assert target.tolist() == [[1.0, 3.0]]
    with pytest.raises(OpError, match=r"the source is pl.INT32, the target pl.FP32"):
        infer("tile.assemble", tile((2, 2)), tile((2, 2), dtypes.INT32), [0, 0])


ASSEMBLE_ERRORS: list[tuple[str, list[Any], str, int]] = [
    ("tensor.assemble", [tensor((4, 4)), tensor((2, 2), dtypes.FP16), [0, 0]], "cast it first|the source is", 1),
    ("tensor.assemble", [tensor((4, 4)), tensor((2, 2)), [0]], "needs 2 entries", 2),
    ("tensor.assemble", [tensor((4, 4)), tensor((2, 2)), [3, 0]], "passes the end", 2),
    ("tensor.assemble", [tensor((4, 4)), tile((2, 2)), [0, 0]], "needs a tensor", 1),
    ("tile.assemble", [tile((4, 4)), tile((2, 2, 2)), [0, 0]], "differ in rank", 1),
]


@pytest.mark.parametrize(("name", "operands", "words", "argument"), ASSEMBLE_ERRORS)
def test_assemble_refuses(name: str, operands: list[Any], words: str, argument: int) -> None:
    with pytest.raises(OpError, match=words) as caught:
        infer(name, *operands)
    assert caught.value.argument == argument


# --- elements --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", ["tensor", "tile"])
def test_a_read_is_a_number_of_its_own(layer: str) -> None:
    source = numbered(2, 3)
    held = on_tensor(source) if layer == "tensor" else on_tile(source)
    got = run(f"{layer}.read", held, [1, 2])
    run(f"{layer}.write", held, [1, 2], -1.0)
    assert got == 6.0
    assert source[1, 2] == -1.0


@pytest.mark.parametrize(
    ("dtype", "kind"), [(torch.float16, float), (torch.int8, int), (torch.uint32, int), (torch.bool, bool)]
)
def test_a_read_gives_the_python_kind_of_the_dtype(dtype: torch.dtype, kind: type) -> None:
    assert type(memory._read(torch.ones(2, dtype=dtype), 1)) is kind


def test_a_write_wraps_integers_and_can_work_on_a_copy() -> None:
    bytes_ = torch.zeros(2, dtype=torch.int8)
    assert memory._write(bytes_, [0], 200).tolist() == [-56, 0]
    words = torch.zeros(2, dtype=torch.uint16)
    assert memory._write(words, [1], -1).tolist() == [0, 65535]
    changed = run("tile.write", on_tile(numbered(1, 2)), [0, 0], 9.0, copy=True)
    assert changed.tolist() == [[9.0, 2.0]]


@pytest.mark.parametrize("place", [[2, 0], [0, 3], [-1, 0], [0], 0])
def test_elements_outside_are_named(place: Any) -> None:
    for call in (lambda: memory._read(numbered(2, 3), place), lambda: memory._write(numbered(2, 3), place, 1.0)):
        with pytest.raises(RuntimeError, match=r"leaves the box|indices for rank"):
            call()


def test_element_types_are_checked() -> None:
    assert infer("tensor.read", tensor((2, 3), dtypes.BF16), [N, 1]).type.dtype is dtypes.BF16
    with pytest.raises(OpError, match="needs 2 indices"):
        infer("tensor.read", tensor((2, 3)), [1])
    with pytest.raises(OpError, match="index 3 on axis 1 is outside"):
        infer("tile.read", tile((2, 3)), [0, 3])
    with pytest.raises(OpError, match="not an integer"):
        infer("tensor.read", tensor((2,)), [n.const(1.0)])
    with pytest.raises(OpError, match="cannot be written") as caught:
        infer("tensor.write", tensor((2,), dtypes.INT32), [0], 1.5)
    assert caught.value.argument == 2
    assert infer("tensor.write", tensor((2,), dtypes.INT32), [0], Number(1, dtypes.INT8)).type.dtype is dtypes.INT32


def test_defaults_are_printed_as_the_compiler_does() -> None:
    assert infer("tile.create", [4, 4], dtype=dtypes.FP32).kwargs == {
        "dtype": dtypes.FP32,
        "target_memory": MemorySpace.Vec,
    }
    assert infer("tensor.slice", tensor((4, 4)), [2, 2], [0, 0]).kwargs == {}
    assert infer("tile.load", tensor((4, 4)), [0, 0], [2, 2]).kwargs == {"target_memory": MemorySpace.Vec}
    assert infer("tile.store", tile((2, 2)), [0, 0], tensor((4, 4))).kwargs == {}
    assert infer("tile.store", tile((2, 2)), [0, 0], tensor((4, 4)), atomic=ADD).kwargs == {"atomic": ADD}


def test_scalar_results_have_the_element_type() -> None:
    assert isinstance(infer("tensor.dim", tensor((4, 4)), 0).type, ScalarType)
