"""Gather and scatter: by axis, flat index, block, mask, comparison, row and page."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from moving import infer, numbered, on_tensor, on_tile, run, same, undefined_outside
from op_running import scalar, tensor, tile

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.enums import MemorySpace
from pypto_lab.ops import OPS
from pypto_lab.torch_codegen.runtime import gather, values

COVERS = {
    "tensor.gather",
    "tensor.scatter",
    "tensor.paged_gather",
    "tile.gather",
    "tile.scatter",
    "tile.gatherb",
    "tile.mgather",
    "tile.mscatter",
    *(
        f"{layer}.{name}"
        for layer in ("tensor", "tile")
        for name in ("gather_mask", "gather_compare", "gather_row", "scatter_mask", "scatter_update")
    ),
}

PATTERNS = {1: [0, 2, 4, 6], 2: [1, 3, 5, 7], 3: [0, 4], 4: [1, 5], 5: [2, 6], 6: [3, 7], 7: list(range(8))}
N = n.Var(name="N", type=n.INDEX)


def on(layer: str, data: torch.Tensor) -> Any:
    return on_tile(data) if layer == "tile" else on_tensor(data)


def indices(*rows: list[int], valid: Any = None) -> torch.Tensor:
    made = torch.tensor(rows, dtype=torch.int32)
    return made if valid is None else values._mark(made, valid)


# --- along an axis ---------------------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 7), st.data())
def test_gather_is_that_of_torch(rows: int, columns: int, wanted: int, data: st.DataObject) -> None:
    source = numbered(rows, columns)
    index = torch.tensor(
        [[data.draw(st.integers(0, columns - 1)) for _ in range(wanted)] for _ in range(rows)], dtype=torch.int32
    )
    result = run("tensor.gather", on_tensor(source), on_tensor(index), dim=-1)
    same(result, source.gather(1, index.long()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.uint32, torch.int16, torch.int8])
def test_gather_moves_any_dtype(dtype: torch.dtype) -> None:
    source = numbered(2, 4, dtype=dtype)
    result = run("tensor.gather", on_tensor(source), on_tensor(indices([3, 0], [1, 1])), dim=1)
    assert result.to(torch.float32).tolist() == [[4.0, 1.0], [6.0, 6.0]]


def test_gather_along_the_first_axis_of_a_block() -> None:
    source = numbered(3, 2, 2)
    index = torch.tensor([[[2, 1], [0, 2]]], dtype=torch.int32)
    result = run("tensor.gather", on_tensor(source), on_tensor(index), dim=0)
    same(result, source.gather(0, index.long()))


def test_the_region_of_a_gather_is_that_of_its_index() -> None:
    index = indices([1, 0, 90], [2, 1, 90], [-5, 90, 90], valid=(2, 2))
    result = run("tensor.gather", on_tensor(numbered(3, 4)), on_tensor(index), dim=-1)
    same(result, torch.tensor([[2.0, 1.0], [7.0, 6.0]]))
    undefined_outside(result)


def test_an_index_outside_reads_an_undefined_cell() -> None:
    blank = values._undefined((1,), torch.float32)
    for result in (
        run("tensor.gather", on_tensor(numbered(2, 4)), on_tensor(indices([4, 1], [-1, 0])), dim=-1)[:, 0],
        run("tile.gather", on_tile(numbered(2, 4)), on_tile(indices([8, -1])), tile((1, 2)))[0],
    ):
        torch.testing.assert_close(result, blank.expand(2), equal_nan=True)


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 4), st.integers(1, 6), st.data())
def test_scatter_keeps_other_cells_and_the_last_of_several(rows: int, columns: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 6))
    index = [[data.draw(st.integers(0, columns - 1)) for _ in range(count)] for _ in range(rows)]
    target, source = torch.zeros(rows, columns), numbered(rows, count)
    wanted = target.clone()
    for row in range(rows):
        for k, column in enumerate(index[row]):
            wanted[row, column] = source[row, k]
    result = run("tensor.scatter", on_tensor(target), on_tensor(indices(*index)), on_tensor(source), dim=-1)
    assert torch.equal(result, wanted)
    assert target.count_nonzero() == 0, "the target itself stays"


ALONG_ERRORS: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("tensor.gather", [tensor((2, 4)), tensor((2, 3))], {"dim": -1}, "allowed are"),
    ("tensor.gather", [tensor((2, 4)), tensor((3, 3), dtypes.INT32)], {"dim": -1}, "axis 0 of the index"),
    ("tensor.gather", [tensor((2, 4)), tensor((3,), dtypes.INT32)], {"dim": -1}, "rank 1"),
    ("tensor.gather", [tensor((2, 4)), tensor((2, 3), dtypes.INT32)], {"dim": 2}, "axis 2 does not exist"),
    (
        "tensor.scatter",
        [tensor((2, 4)), tensor((2, 3), dtypes.INT32), tensor((2, 3), dtypes.FP16)],
        {"dim": -1},
        "moves data as it is",
    ),
    (
        "tensor.scatter",
        [tensor((2, 4)), tensor((2, 3), dtypes.INT32), tensor((2, 2))],
        {"dim": -1},
        "has not the shape",
    ),
]


@pytest.mark.parametrize(("name", "operands", "attrs", "words"), ALONG_ERRORS)
def test_axis_forms_refuse(name: str, operands: list[Any], attrs: dict[str, Any], words: str) -> None:
    with pytest.raises(OpError, match=words):
        infer(name, *operands, **attrs)


# --- tiles by flat index ---------------------------------------------------------------------------------------------


def test_tile_gather_reads_the_flat_box() -> None:
    source = numbered(3, 4, valid=(2, 3))
    index = indices([0, 11, 5], [4, 2, 1], valid=(2, 2))
    result = run("tile.gather", on_tile(source), on_tile(index), tile((2, 3), dtypes.INT32))
    flat = source.reshape(-1)
    same(result, torch.stack([flat[[0, 11]], flat[[4, 2]]]))


def test_tile_scatter_writes_the_flat_box_in_place() -> None:
    target = torch.zeros(2, 4)
    operands = (on_tile(target), on_tile(numbered(1, 4)), on_tile(indices([7, 0, 99, 7])))
    fresh = run("tile.scatter", *operands, copy=True)
    assert target.count_nonzero() == 0
    result = run("tile.scatter", *operands)
    assert result is target
    assert torch.equal(fresh, target)
    assert target.tolist() == [[2.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 4.0]]


def test_scatter_reaches_a_target_that_is_not_packed() -> None:
    memory = torch.zeros(2, 4)
    gather._tile_scatter(memory.T, torch.tensor([[5.0]]), indices([1]))
    assert memory[1, 0] == 5.0


@pytest.mark.parametrize("output", [None, dtypes.INT16, dtypes.FP32, dtypes.UINT8])
def test_gatherb_picks_blocks_of_32_bytes(output: Any) -> None:
    source = numbered(4, 16, dtype=torch.float16)
    offset = torch.tensor([[96, 0], [32, 64]], dtype=torch.int32).to(torch.uint32)
    attrs = {} if output is None else {"output_dtype": output}
    result = run("tile.gatherb", on_tile(source), on_tile(offset), **attrs)
    wanted = torch.cat([torch.cat([source[3], source[0]]), torch.cat([source[1], source[2]])])
    assert torch.equal(result.reshape(-1).view(torch.uint8), wanted.view(torch.uint8))


def test_gatherb_outside_is_undefined_and_its_region_grows_by_block() -> None:
    offset = values._mark(torch.tensor([[1 << 20, 0, 0]], dtype=torch.int32).to(torch.uint32), (1, 2))
    result = run("tile.gatherb", on_tile(numbered(1, 8)), on_tile(offset))
    assert values._valid_of(result) == (1, 16)
    torch.testing.assert_close(result[0, :8], values._undefined((8,), torch.float32), equal_nan=True)
    assert torch.equal(result[0, 8:16], numbered(1, 8)[0])
    with pytest.raises(OpError, match=r"allowed are pl.UINT32"):
        infer("tile.gatherb", tile((1, 8)), tile((1, 8), dtypes.INT32))


# --- by mask ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("layer", ["tensor", "tile"])
def test_masks_pick_and_place_the_same_columns(layer: str, pattern: int) -> None:
    source = numbered(2, 8)
    picked = run(f"{layer}.gather_mask", on(layer, source), mask_pattern=pattern)
    same(picked, source[:, PATTERNS[pattern]])
    target = torch.full((2, 8), -1.0)
    wanted = target.clone()
    wanted[:, PATTERNS[pattern]] = picked
    operands = (on(layer, target), on(layer, picked)) if layer == "tile" else (on(layer, picked), on(layer, target))
    result = run(f"{layer}.scatter_mask", *operands, mask_pattern=pattern)
    assert torch.equal(result, wanted)
    assert (result is target) == (layer == "tile")


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("valid", range(9))
def test_the_region_of_a_mask_is_the_marked_columns_in_it(pattern: int, valid: int) -> None:
    result = run("tile.gather_mask", on_tile(numbered(2, 8, valid=(2, valid))), mask_pattern=pattern)
    same(result, numbered(2, 8)[:, [c for c in PATTERNS[pattern] if c < valid]])


def test_masked_bits_can_be_read_as_another_dtype() -> None:
    words = torch.tensor([[1.0, 0.0, 2.0, 0.0]])
    words.view(torch.int32)[0, 1::2] = torch.tensor([7, -1], dtype=torch.int32)
    result = run("tile.gather_mask", on_tile(words), mask_pattern=2, output_dtype=dtypes.UINT32)
    assert result.tolist() == [[7, 2**32 - 1]]


MASK_ERRORS: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("tile.gather_mask", [tile((2, 8))], {"mask_pattern": 8}, "is none of P0101"),
    ("tile.gather_mask", [tile((2, 6))], {"mask_pattern": 3}, "not whole groups of 4"),
    ("tile.gather_mask", [tile((2, 8))], {"mask_pattern": 1, "output_dtype": dtypes.INT16}, "as wide as"),
    ("tile.scatter_mask", [tile((2, 8)), tile((2, 8))], {"mask_pattern": 1}, "does not fill"),
    ("tensor.scatter_mask", [tensor((2, 4)), tensor((2, 8), dtypes.FP16)], {"mask_pattern": 1}, "moves data as it is"),
]


@pytest.mark.parametrize(("name", "operands", "attrs", "words"), MASK_ERRORS)
def test_masks_refuse(name: str, operands: list[Any], attrs: dict[str, Any], words: str) -> None:
    with pytest.raises(OpError, match=words):
        infer(name, *operands, **attrs)


# --- by comparison ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", ["tensor", "tile"])
def test_compare_lists_and_counts_the_matches(layer: str) -> None:
    source = values._mark(torch.tensor([[3.0, 1.0, 3.0, 3.0], [0.0, 3.0, 9.0, 3.0], [3.0] * 4]), (2, 3))
    scratch = [tile((3, 4), dtypes.UINT8)] if layer == "tile" else []
    for mode, listed, counts in ((0, [[10, 12], [11]], [2, 1]), (4, [[], [12]], [0, 1]), (2, [[11], [10]], [1, 1])):
        found, count = run(
            f"{layer}.gather_compare", on(layer, source), 3.0, *scratch, cmp_mode=mode, offset=10, out_cols=3
        )
        assert values._valid_of(found) == (2, 3)
        assert values._valid_of(count) == (1, 2)
        assert values._cut(count).tolist() == [counts]
        blank = values._undefined((1,), torch.int32).item()
        for row, columns in enumerate(listed):
            assert found[row].tolist() == [*columns, *[blank] * (3 - len(columns))]


def test_compare_counts_what_it_cannot_list() -> None:
    found, count = run("tensor.gather_compare", on_tensor(torch.ones(1, 5)), 1.0, out_cols=2, count_dtype=dtypes.INT16)
    assert found.tolist() == [[0, 1]]
    assert count.tolist() == [[5]]
    assert count.dtype is torch.int16


def test_compare_refuses() -> None:
    scratch = tile((2, 4), dtypes.UINT8)
    for source, k, attrs, words in (
        (tile((2, 4), dtypes.INT64), 1, {"out_cols": 2}, "allowed are"),
        (tile((2, 4)), scalar(dtypes.FP16), {"out_cols": 2}, "compares pl.FP32 with pl.FP16"),
        (tile((2, 4)), 1.0, {"out_cols": 0}, "is no width"),
        (tile((2, 2, 4)), 1.0, {"out_cols": 2}, "two axes"),
    ):
        with pytest.raises(OpError, match=words):
            infer("tile.gather_compare", source, k, scratch, **attrs)


# --- rows of global memory -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", ["tensor", "tile"])
def test_a_row_goes_straight_into_its_place(layer: str) -> None:
    pool, acc = numbered(6, 5), torch.zeros(4, 8)
    fresh = run(f"{layer}.gather_row", on(layer, acc), on_tensor(pool), [2, 1], [4, 0], [1, 5], copy=True)
    assert acc.count_nonzero() == 0
    assert torch.equal(fresh[2, 1:6], pool[4])
    run(f"{layer}.gather_row", on(layer, acc), on_tensor(pool), [0, 0], [1, 1], [3, 4], [2, 3])
    assert torch.equal(acc[:2, :3], pool[1:3, 1:4])
    assert acc.count_nonzero() == 6
    turned = torch.zeros(8, 4)
    run(f"{layer}.gather_row", on(layer, turned), on_tensor(pool), [1, 3], [5, 0], [1, 5], transpose=True)
    assert torch.equal(turned[1:6, 3], pool[5])
    for offsets, words in (([4, 0], "target"), ([0, 4], "target")):
        with pytest.raises(RuntimeError, match=words):
            gather._gather_row(acc, pool, offsets, [0, 0], [1, 5])
    with pytest.raises(RuntimeError, match="source"):
        gather._gather_row(acc, pool, [0, 0], [6, 0], [1, 5])
    with pytest.raises(OpError, match="passes the end of the source"):
        infer(f"{layer}.gather_row", on(layer, acc), on_tensor(pool), [0, 0], [5, 0], [2, 5])
    with pytest.raises(OpError, match="rows into"):
        infer(f"{layer}.gather_row", on(layer, acc), tensor((6, 5), dtypes.FP16), [0, 0], [0, 0], [1, 5])


def test_pages_are_looked_up_row_by_row() -> None:
    pool = numbered(8, 6)
    table, wanted = indices([3, 0, 1])[0], indices([5, 0, 1, 2])[0]
    attrs = {"block_size": 2, "size": 4, "col_off": 1, "max_indices": 6}
    result = run("tensor.paged_gather", on_tensor(pool), on_tensor(wanted), on_tensor(table), **attrs)
    rows = [int(table[i // 2]) * 2 + i % 2 for i in wanted.tolist()]
    assert torch.equal(result[:4], pool[rows, 1:5])
    torch.testing.assert_close(result[4:], values._undefined((2, 4), torch.float32), equal_nan=True)
    turned = run("tensor.paged_gather", on_tensor(pool), on_tensor(wanted), on_tensor(table), is_trans=True, **attrs)
    assert torch.equal(turned[:, :4], pool[rows, 1:5].T)
    for bad, words in (([6], "needs a page beyond"), ([-1], "needs a page beyond"), ([0] * 7, "7 indices for 6 rows")):
        with pytest.raises(RuntimeError, match=words):
            gather._paged_gather(pool, torch.tensor(bad), table, **attrs)
    with pytest.raises(RuntimeError, match="outside the pool"):
        gather._paged_gather(pool, torch.tensor([0]), torch.tensor([4]), **attrs)


def test_paged_gather_refuses() -> None:
    operands = (tensor((8, 6)), tensor((4,), dtypes.INT32), tensor((3,), dtypes.INT32))
    good = {"block_size": 2, "size": 4, "max_indices": 6}
    for change, words in (
        ({"size": 0}, "is no size"),
        ({"col_off": 3}, "passes the end of a row"),
        ({"is_trans": True, "space": MemorySpace.Vec}, "needs space=pl.Mem.Mat"),
    ):
        with pytest.raises(OpError, match=words):
            infer("tensor.paged_gather", *operands, **{**good, **change})


@pytest.mark.parametrize(
    ("policy", "rows"),
    [("clamp", [[5, 6], [5, 6], [3, 4]]), ("wrap", [[1, 2], [5, 6], [3, 4]]), ("zero", [[0, 0], [0, 0], [3, 4]])],
)
def test_memory_gather_by_row_and_policy(policy: str, rows: list[list[float]]) -> None:
    table, index = numbered(3, 2), indices([3, -1, 1])
    by_row = run("tile.mgather", on_tensor(table), on_tile(index), coalesce="row", gather_oob=policy)
    assert by_row.tolist() == rows
    flat = run("tile.mgather", on_tensor(table), on_tile(indices([6, -1, 2])), coalesce=1, gather_oob=policy)
    assert flat.tolist() == [{"clamp": [6.0, 6.0, 3.0], "wrap": [1.0, 6.0, 3.0], "zero": [0.0, 0.0, 3.0]}[policy]]


def test_memory_gather_without_policy_leaves_cells_undefined() -> None:
    result = run("tile.mgather", on_tensor(numbered(3, 2)), on_tile(indices([7, 0])))
    torch.testing.assert_close(result[0], values._undefined((2,), torch.float32), equal_nan=True)
    assert result[1].tolist() == [1.0, 2.0]


def test_memory_gather_to_the_cube_takes_a_region_and_scratch() -> None:
    table, index = on_tensor(numbered(3, 2)), on_tensor(indices([2, 0, 1]))
    attrs = {"target_memory": MemorySpace.Mat}
    result = gather._mgather(table.data, index.data, [2, 2])
    same(result, torch.tensor([[5.0, 6.0], [1.0, 2.0]]))
    stated = infer("tile.mgather", table, index, [2, 2], **attrs).type
    scratch = infer("tile.mgather", table, index, tensor((64,)), [2, 2], **attrs).type
    for type_ in (stated, scratch):
        assert [arith.constant(d) for d in type_.valid_shape] == [2, 2]
        assert type_.memory_space is MemorySpace.Mat
    for change, words in (
        ({"coalesce": "diagonal"}, "is none of 'row', 'elem'"),
        ({"gather_oob": 4}, "is none of 'undefined'"),
        ({"target_memory": MemorySpace.Acc}, "Vec or Mat"),
    ):
        with pytest.raises(OpError, match=words):
            infer("tile.mgather", table, index, **change)


def test_memory_scatter_writes_in_place_and_the_last_stays() -> None:
    target = torch.zeros(3, 4)
    source = numbered(1, 4, valid=(1, 3))
    result = run("tile.mscatter", on_tile(source), on_tile(indices([11, 0, 11, 5])), on_tensor(target))
    assert result is target
    assert target.reshape(-1).nonzero().reshape(-1).tolist() == [0, 11]
    assert target[2, 3] == 3.0
    with pytest.raises(OpError, match=r"the tile is pl.FP32, the tensor pl.FP16"):
        infer("tile.mscatter", tile((1, 4)), tile((1, 4), dtypes.INT32), tensor((3, 4), dtypes.FP16))


@pytest.mark.parametrize("layer", ["tensor", "tile"])
@pytest.mark.parametrize("shape", [(8, 4), (2, 4, 1, 4)])
def test_rows_are_replaced(layer: str, shape: tuple[int, ...]) -> None:
    target = torch.zeros(shape)
    source = numbered(4, 4) if len(shape) == 2 else numbered(2, 2, 1, 4)
    index = indices([6, 1], [0, 6])
    wanted = torch.zeros(8, 4)
    for place, row in zip([6, 1, 0, 6], numbered(4, 4), strict=True):
        wanted[place] = row
    result = run(f"{layer}.scatter_update", on(layer, target), on(layer, index), on(layer, source))
    assert torch.equal(result.reshape(8, 4), wanted)
    assert (result is target) == (layer == "tile")
    with pytest.raises(RuntimeError, match="outside the target's 8 rows"):
        gather._scatter_update(target, indices([8, 0], [0, 0]), source)
    with pytest.raises(RuntimeError, match="4 indices, but 1 source rows"):
        gather._scatter_update(torch.zeros(8, 4), index, numbered(1, 4))


def test_row_updates_refuse() -> None:
    index = tensor((2, 2), dtypes.INT32)
    for operands, attrs, words in (
        ((tensor((8, 4)), tensor((2, 2)), tensor((4, 4))), {}, "row numbers are integers"),
        ((tensor((8, 4)), index, tensor((4, 4))), {"dim": 1}, "dim is -2"),
        ((tensor((8, 4)), index, tensor((4, 5))), {}, "do not fit"),
        ((tensor((8, 4)), index, tensor((3, 4))), {}, "more row numbers than rows"),
        ((tensor((2, 4, 4)), index, tensor((2, 2, 4))), {}, "rank 2, or of rank 4"),
    ):
        with pytest.raises(OpError, match=words):
            infer("tensor.scatter_update", *operands, **attrs)


def test_ops_that_write_by_name_say_so() -> None:
    for name in ("tile.scatter", "tile.scatter_mask", "tile.scatter_update", "tile.gather_row"):
        assert OPS[name].torch.writes == 0
        assert not OPS[name].torch.memory
    assert OPS["tile.mscatter"].torch.memory
    assert OPS["tensor.scatter"].torch.writes is None
