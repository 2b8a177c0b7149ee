"""Records of sorting: blocks of 32, and merges of sorted runs of (value, index) pairs."""

from __future__ import annotations

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import MemorySpace
from pypto_lab.ir.types import ShapedType, TileType, Type
from pypto_lab.ops.record import OPS, Arg, Attr, Op, Operands, Torch
from pypto_lab.ops.rules import VEC, Dims
from pypto_lab.ops.shaping import require_dtype, scalar_at, tensor_type, tile_type

SORTED_DTYPES = (dtypes.FP32, dtypes.FP16)
PAIR_BITS = 64
"""A value and its index together."""


def _made(source: ShapedType, shape: Dims, valid: Dims) -> Type:
    if isinstance(source, TileType):
        return tile_type(shape, source.dtype, MemorySpace.Vec, valid)
    return tensor_type(shape, source.dtype, valid)


def _wider(dims: Dims, factor: int) -> Dims:
    return (*dims[:-1], arith.mul(dims[-1], factor))


def _sorted_blocks(operands: Operands) -> Type:
    source, index = operands.shaped(0), operands.shaped(1)
    require_dtype(operands, 0, source.dtype, SORTED_DTYPES)
    require_dtype(operands, 1, index.dtype, (dtypes.UINT32, dtypes.INT32))
    if source.rank != index.rank or any(arith.differ(a, b) for a, b in zip(source.shape, index.shape, strict=False)):
        raise OpError(f"{operands.op.name} needs one index for each value", argument=1)
    columns = arith.constant(source.shape[-1])
    if columns is not None and columns % 32:
        raise OpError(f"{operands.op.name}: {columns} columns are not whole blocks of 32", argument=0)
    factor = PAIR_BITS // source.dtype.bits
    return _made(source, _wider(source.shape, factor), _wider(source.valid_shape, factor))


def _cells_per_pair(operands: Operands, index: int, dtype: DType) -> int:
    require_dtype(operands, index, dtype, SORTED_DTYPES)
    return PAIR_BITS // dtype.bits


def _merged_runs(operands: Operands) -> Type:
    source = operands.shaped(0)
    per_pair = _cells_per_pair(operands, 0, source.dtype)
    scalar_at(operands, 1, integer=True)
    length, columns = arith.constant(operands.arg(1)), arith.constant(source.shape[-1])
    if length is not None and (length <= 0 or length % per_pair):
        raise OpError(
            f"{operands.op.name}: a run of {length} cells is not whole pairs of {per_pair}",
            argument=1,
            hint="values and indices count: a sorted block of 32 FP32 values is 64 cells",
        )
    if length is not None and columns is not None and 4 * length > columns:
        raise OpError(
            f"{operands.op.name} merges four runs of {length} cells, but there are {columns}",
            argument=1,
            hint="merge two or three runs with pl.mrgsort(run0, run1)",
        )
    return _made(source, source.shape, source.valid_shape)


def _merged_lists(operands: Operands) -> Type:
    lists = [a.type for a in operands.args if a is not None and isinstance(a.type, ShapedType)]
    if operands.op.namespace == "tile":
        lists = lists[:-1]  # the last tile is scratch
    if not 2 <= len(lists) <= 4:
        raise OpError(f"{operands.op.name} merges two to four runs, got {len(lists)}", argument=0)
    first = lists[0]
    _cells_per_pair(operands, 0, first.dtype)
    for position, found in enumerate(lists):
        if found.dtype != first.dtype:
            raise OpError(f"{operands.op.name} merges runs of one dtype", argument=position)
        if found.rank != first.rank or any(
            arith.differ(a, b) for a, b in zip(found.shape[:-1], first.shape[:-1], strict=False)
        ):
            raise OpError(f"{operands.op.name} merges along the columns, the other axes are equal", argument=position)
    width, valid = lists[0].shape[-1], lists[0].valid_shape[-1]
    for found in lists[1:]:
        width, valid = arith.add(width, found.shape[-1]), arith.add(valid, found.valid_shape[-1])
    return _made(first, (*first.shape[:-1], width), (*first.valid_shape[:-1], valid))


def _sort32(layer: str) -> Op:
    tile = layer == "tile"
    spaces = VEC if tile else None
    return Op(
        f"{layer}.sort32",
        args=(Arg("src", layer, spaces=spaces), Arg("idx", layer, spaces=spaces)),
        attrs=(),
        infer=_sorted_blocks,
        torch=Torch("sort32"),
        doc="Sorts each block of 32 columns, greatest first, and emits (value, index) pairs.",
        pto="pto.tsort32" if tile else None,
        dsl=("sort32",),
        source="reference/pto_ops.tsv",
        output_space=MemorySpace.Vec if tile else None,
    )


def _format1(layer: str) -> Op:
    tile = layer == "tile"
    return Op(
        f"{layer}.mrgsort_format1",
        args=(Arg("src", layer, spaces=VEC if tile else None), Arg("block_len", "scalar")),
        attrs=(),
        infer=_merged_runs,
        torch=Torch("mrgsort_format1"),
        doc="Merges groups of four neighbouring sorted runs of `block_len` cells.",
        pto="pto.tmrgsort" if tile else None,
        source="reference/pto_ops.tsv",
        output_space=MemorySpace.Vec if tile else None,
    )


OPS.add(
    *(make(layer) for make in (_sort32, _format1) for layer in ("tensor", "tile")),
    Op(
        "tensor.mrgsort_format2",
        args=(
            Arg("src0", "tensor"),
            Arg("src1", "tensor"),
            Arg("src2", "tensor", None),
            Arg("src3", "tensor", None),
        ),
        attrs=(Attr("exhausted", "bool", False),),
        infer=_merged_lists,
        torch=Torch("mrgsort_format2"),
        doc="Merges two to four sorted runs; with `exhausted` it stops when one is used up.",
        source="reference/pto_ops.tsv",
    ),
    Op(
        "tile.mrgsort_format2",
        args=(
            Arg("src0", "tile", spaces=VEC),
            Arg("src1", "tile", spaces=VEC),
            Arg("tmp_or_src2", "tile", None, spaces=VEC, dsl_name="src2"),
            Arg("tmp_or_src3", "tile", None, spaces=VEC, dsl_name="src3"),
            Arg("tmp", "tile", None, spaces=VEC),
        ),
        attrs=(Attr("exhausted", "bool", False),),
        infer=_merged_lists,
        torch=Torch("tile_mrgsort_format2"),
        doc="Merges two to four sorted runs; the last tile is scratch. With `exhausted` it stops when one is used up.",
        pto="pto.tmrgsort",
        source="reference/pto_ops.tsv",
        output_space=MemorySpace.Vec,
    ),
)
