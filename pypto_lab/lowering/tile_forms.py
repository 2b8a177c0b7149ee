"""How a tensor op is said with tiles: which tile op stands for it and which scratch tile that op needs."""

from __future__ import annotations

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import MemorySpace
from pypto_lab.ir.types import ShapedType, TileType, constant_dims
from pypto_lab.ops.record import OPS, Effect, Op, make_call

REPEAT_BYTES = 512
"""A row reduction folds this many bytes at a time; its scratch row is at least that long."""

_SAME_AS_FIRST = ("xor", "xors", "rem", "rems", "prelu", "transpose")
"""Ops whose scratch is shaped like their first operand."""

_SCALAR_FORMS = {"maximum": "maximums", "minimum": "minimums", "cmp": "cmps"}


def tile_form(call: n.OpCall) -> Op | None:
    """The tile op that says a tensor op, None where there is none."""
    name = call.op.removeprefix("tensor.")
    right = call.args[1] if len(call.args) > 1 else None
    if name in _SCALAR_FORMS and right is not None and not isinstance(right.type, ShapedType):
        name = _SCALAR_FORMS[name]
    return OPS.get(f"tile.{name}")


def scratch_index(op: Op) -> int | None:
    """Where a tile op takes a scratch tile it needs, None when it needs none."""
    for i, arg in enumerate(op.args):
        if arg.effect is Effect.NONE and arg.kind == "tile" and (arg.default is not None or op.short_name in _NEEDED):
            return i
    return None


_NEEDED = ("transpose",)


def scratch_of(op: Op, first: TileType, span: object = None) -> tuple[str, n.OpCall] | None:
    """A name and the `tile.create` of the scratch `op` needs for `first`; None where the rule is not known."""
    if op.short_name.startswith(("row_", "col_")):
        columns = arith.constant(first.shape[-1])
        if columns is None:
            return None
        least = REPEAT_BYTES * 8 // first.dtype.bits
        shape = (*first.shape[:-1], n.const(max(columns, least)))
        return "tmp_tile", create_tile(shape, first.dtype, span=span)
    if op.short_name in _SAME_AS_FIRST:
        return f"{op.short_name}_tmp", create_tile(first.shape, first.dtype, span=span)
    return None


def create_tile(
    shape: tuple[n.Expr, ...], dtype: DType, space: MemorySpace = MemorySpace.Vec, span: object = None
) -> n.OpCall:
    return make_call("tile.create", dims(shape), dtype=dtype, target_memory=space, span=span)


def dims(values: tuple[n.Expr, ...]) -> n.MakeTuple:
    """A list of integers as an op takes it."""
    return n.MakeTuple(elements=values, type=n.INDEX)


def zeros(rank: int) -> n.MakeTuple:
    return dims(tuple(n.const(0) for _ in range(rank)))


def load_tile(
    tensor: n.Expr,
    offsets: n.Expr,
    shape: tuple[n.Expr, ...],
    valid: tuple[n.Expr, ...] | None,
    space: MemorySpace,
    span: object = None,
    **attrs: object,
) -> n.OpCall:
    """`tile.load` of a window of a tensor."""
    return make_call(
        "tile.load", tensor, offsets, dims(shape), dims(valid or shape), target_memory=space, span=span, **attrs
    )


def tile_bytes(tile: ShapedType) -> int | None:
    """Bytes a tile's full shape takes, None for a dynamic one."""
    shape = constant_dims(tile.shape)
    if shape is None:
        return None
    total = tile.dtype.bits
    for extent in shape:
        total *= extent
    return (total + 7) // 8


INT32 = dtypes.INT32
