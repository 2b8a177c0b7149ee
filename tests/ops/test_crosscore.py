"""Pipes, shards and numbers of blocks and lanes: type rules, and shards against the halves they stand for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from moving import infer, numbered, on_tile
from op_running import scalar, tensor, tile

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.enums import MemorySpace
from pypto_lab.ir.types import ShapedType, TensorType, TileType, Type, UnknownType
from pypto_lab.ops import OPS
from pypto_lab.torch_codegen.runtime import lanes, values

COVERS = {
    "tile.tpush_to_aiv",
    "tile.tpush_to_aic",
    "tile.tpop_from_aic",
    "tile.tpop_from_aiv",
    "system.tfree_to_aic",
    "system.tfree_to_aiv",
    "system.aic_initialize_pipe",
    "system.aiv_initialize_pipe",
    *(
        f"{layer}.{name}"
        for layer in ("tensor", "tile")
        for name in ("aiv_shard", "aic_gather", "get_block_idx", "get_block_num", "get_subblock_idx")
    ),
}

PUSHES = {"tile.tpush_to_aiv": "push_to_aiv", "tile.tpush_to_aic": "push_to_aic"}
POPS = {"tile.tpop_from_aic": "pop_from_aic", "tile.tpop_from_aiv": "pop_from_aiv"}
FREES = {"system.tfree_to_aic": "tfree_to_aic", "system.tfree_to_aiv": "tfree_to_aiv"}
RINGS = ("system.aic_initialize_pipe", "system.aiv_initialize_pipe")
NUMBERS = ("get_block_idx", "get_block_num", "get_subblock_idx")
BUFFER = scalar(dtypes.INT32, "ring")


def extents(dims: tuple[n.Expr, ...], lane: int) -> list[int]:
    """Dimensions as numbers for one lane."""

    def number(dim: n.Expr) -> int:
        match dim:
            case n.OpCall(op="tile.get_subblock_idx"):
                return lane
            case n.ConstInt():
                return dim.value
            case n.Binary():
                left, right = number(dim.left), number(dim.right)
                fold = {"Add": left + right, "Sub": left - right, "Mul": left * right}
                return {"Min": min, "Max": max}[dim.op](left, right) if dim.op in ("Min", "Max") else fold[dim.op]
            case n.Unary(op="Neg"):
                return -number(dim.operand)
        raise AssertionError(dim)

    return [number(d) for d in dims]


# --- pipes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "method"), [*PUSHES.items(), *POPS.items(), *FREES.items()])
def test_pipe_ops_name_the_runtime_of_the_lanes(name: str, method: str) -> None:
    assert OPS[name].torch.call == f"cross_core_rt.{method}"
    assert callable(getattr(lanes._cross_core_rt, method))


def test_pipe_attributes_show_only_when_they_are_given() -> None:
    assert infer("tile.tpush_to_aiv", tile((32, 32)), split=1).kwargs == {"split": 1}
    assert infer("tile.tpush_to_aiv", tile((32, 32)), split=1, id=2, lane_stride=8).kwargs == {
        "split": 1,
        "id": 2,
        "lane_stride": 8,
    }
    assert infer("tile.tpop_from_aiv").kwargs == {"split": 0}
    assert infer("system.tfree_to_aic", tile((32, 32))).kwargs == {}
    assert infer("system.aic_initialize_pipe", BUFFER, 0, dir_mask=1, slot_size=4096).kwargs == {
        "dir_mask": 1,
        "slot_size": 4096,
    }


@pytest.mark.parametrize("name", [*PUSHES, *FREES])
def test_pushes_and_frees_have_no_value(name: str) -> None:
    assert isinstance(infer(name, tile((32, 32))).type, UnknownType)
    with pytest.raises(OpError, match="needs a tile"):
        infer(name, tensor((32, 32)))


@pytest.mark.parametrize("name", RINGS)
def test_rings_are_declared_without_a_value(name: str) -> None:
    assert isinstance(infer(name, BUFFER, 0, dir_mask=3, slot_size=64, slot_num=4, id=1).type, UnknownType)
    for attrs, words in (
        ({"dir_mask": 4, "slot_size": 64}, "dir_mask 4"),
        ({"dir_mask": 1, "slot_size": 0}, "holds no tile"),
        ({"dir_mask": 1, "slot_size": 64, "slot_num": 0}, "0 slots"),
    ):
        with pytest.raises(OpError, match=words):
            infer(name, BUFFER, 0, **attrs)


@pytest.mark.parametrize("name", POPS)
def test_a_pop_is_typed_by_its_annotation_or_by_shape_and_dtype(name: str) -> None:
    assert isinstance(infer(name, split=1).type, UnknownType)
    typed = infer(name, shape=[16, 32], dtype=dtypes.FP16).type
    assert isinstance(typed, TileType)
    assert typed.dtype is dtypes.FP16
    assert typed.memory_space is (MemorySpace.Vec if name.endswith("aic") else MemorySpace.Mat)


def test_odd_splits_go_one_way_and_need_a_difference_of_one() -> None:
    assert isinstance(infer("tile.tpush_to_aiv", tile((15, 32)), split=3).type, UnknownType)
    assert isinstance(
        infer("tile.tpush_to_aiv", tile((16, 32), valid=(13, 32)), split=3, lane_stride=7).type, UnknownType
    )
    for name, operands, attrs, words in (
        ("tile.tpush_to_aic", [tile((15, 32))], {"split": 3}, "from cube to vector only"),
        ("tile.tpop_from_aiv", [], {"split": 4}, "from cube to vector only"),
        ("tile.tpush_to_aiv", [tile((16, 32))], {"split": 3}, "the lanes 8 and 8 of 16"),
        ("tile.tpush_to_aiv", [tile((16, 32))], {"split": 5}, "is not 0 to 4"),
        ("tile.tpush_to_aiv", [tile((16,))], {"split": 2}, "needs axis 1"),
    ):
        with pytest.raises(OpError, match=words):
            infer(name, *operands, **attrs)


# --- shards ----------------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([0, 1, 2]), st.data())
def test_a_shard_is_typed_as_the_half_a_lane_gets(rows: int, columns: int, split: int, data: st.DataObject) -> None:
    valid = (data.draw(st.integers(0, rows)), data.draw(st.integers(0, columns)))
    source = numbered(rows, columns, valid=valid)
    for name, kind in (("tile.aiv_shard", TileType), ("tensor.aiv_shard", TensorType)):
        held = on_tile(source, MemorySpace.Acc).type if kind is TileType else tensor((rows, columns), valid=valid)
        type_ = infer(name, held, split=split).type
        assert isinstance(type_, kind)
        for lane in (0, 1):
            part = source if split == 0 else lanes._lane_part(source, split, lane)
            assert extents(type_.shape, lane) == list(part.shape)
            assert extents(type_.valid_shape, lane) == list(values._valid_of(part))


def test_a_lane_stride_moves_the_second_half() -> None:
    source = numbered(16, 4, valid=(13, 4))
    type_ = infer("tile.aiv_shard", on_tile(source).type, split=3, lane_stride=7).type
    assert isinstance(type_, ShapedType)
    for lane in (0, 1):
        assert extents(type_.valid_shape, lane) == list(values._valid_of(lanes._lane_part(source, 3, lane, 7)))


@pytest.mark.parametrize(("split", "axis"), [(1, 0), (2, 1)])
def test_a_gather_doubles_the_split_axis(split: int, axis: int) -> None:
    for name, held in (("tile.aic_gather", tile((4, 6))), ("tensor.aic_gather", tensor((4, 6)))):
        type_ = infer(name, held, split=split).type
        joined = lanes._join_parts(torch.ones(4, 6), torch.ones(4, 6), split)
        assert [arith.constant(d) for d in type_.shape] == list(joined.shape)
        assert type_.stated_valid is None
        assert [arith.constant(d) for d in infer(name, held, split=0).type.shape] == [4, 6]
    assert infer("tile.aic_gather", tile((4, 6)), split=split).type.memory_space is MemorySpace.Mat
    short = [4, 6]
    short[axis] -= 1
    with pytest.raises(OpError, match="leave a hole when joined"):
        infer("tile.aic_gather", tile((4, 6), valid=tuple(short)), split=split)
    with pytest.raises(OpError, match="from cube to vector only"):
        infer("tile.aic_gather", tile((4, 6)), split=3)


# --- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", ["tensor", "tile"])
@pytest.mark.parametrize("short", NUMBERS)
def test_numbers_are_index_scalars(layer: str, short: str) -> None:
    type_: Type = infer(f"{layer}.{short}").type
    assert n.scalar_dtype(infer(f"{layer}.{short}")) is dtypes.INDEX, type_
    outside: Any = getattr(lanes, f"_{OPS[f'{layer}.{short}'].torch.call}")()
    assert outside == (1 if short == "get_block_num" else 0)
