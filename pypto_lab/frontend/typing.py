"""Comparing types while reading: what an annotation must agree on, and what a re-bound name must keep."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.types import (
    ArrayType,
    HandleType,
    ScalarType,
    ShapedType,
    TensorType,
    TileType,
    TupleType,
    Type,
    UnknownType,
)


def kind_name(type_: Type) -> str:
    """The kind of a value in the words users know."""
    match type_:
        case TensorType():
            return "Tensor"
        case TileType():
            return "Tile"
        case ScalarType():
            return "Scalar"
        case ArrayType():
            return "Array"
        case TupleType():
            return "Tuple"
        case HandleType():
            return type_.name
    return "unknown value"


def dim_text(dim: n.Expr) -> str:
    """A dimension as its author would write it."""
    match dim:
        case n.ConstInt() | n.ConstFloat() | n.ConstBool():
            return str(dim.value)
        case n.Var():
            return dim.name
        case n.Binary():
            symbol = n.BINARY_OPS[dim.op]
            left, right = dim_text(dim.left), dim_text(dim.right)
            return f"{symbol}({left}, {right})" if symbol.isalpha() else f"({left} {symbol} {right})"
        case n.Unary():
            return f"{n.UNARY_OPS[dim.op]}({dim_text(dim.operand)})"
        case n.OpCall():
            return f"pl.{dim.op}({', '.join(dim_text(a) for a in dim.args)})"
    return "?"


def dims_text(dims: Sequence[n.Expr]) -> str:
    return "[" + ", ".join(dim_text(d) for d in dims) + "]"


def type_text(type_: Type) -> str:
    """A type as users write it, without memory references and layouts."""
    match type_:
        case TileType():
            parts = [dims_text(type_.shape), str(type_.dtype)]
            if type_.memory_space is not None:
                parts.append(f"pl.Mem.{type_.memory_space.name}")
            if type_.stated_valid is not None:
                parts.append(f"pl.TileView(valid_shape={dims_text(type_.stated_valid)})")
            return f"pl.Tile[{', '.join(parts)}]"
        case TensorType():
            head = "pld.DistributedTensor" if type_.distributed else "pl.Tensor"
            return f"{head}[{dims_text(type_.shape)}, {type_.dtype}]"
        case ScalarType():
            return f"pl.Scalar[{type_.dtype}]"
        case ArrayType():
            return f"pl.Array[{dim_text(type_.extent)}, {type_.dtype}]"
        case TupleType():
            return f"pl.Tuple[{', '.join(type_text(e) for e in type_.elements)}]"
        case HandleType():
            return type_.name
    return "an unknown type"


def is_known(type_: Type) -> bool:
    return not isinstance(type_, UnknownType)


def dtypes_agree(stated: DType, found: DType) -> bool:
    """Equal, or one is INDEX and the other any integer (`reference/language.md` 1.2)."""
    if stated == found:
        return True
    return (stated is dtypes.INDEX and found.is_integer) or (found is dtypes.INDEX and stated.is_integer)


def differing_axis(left: Sequence[n.Expr], right: Sequence[n.Expr]) -> int | None:
    """The first axis whose extents are provably different."""
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if arith.differ(a, b)), None)


@dataclasses.dataclass(frozen=True)
class Mismatch:
    """Why two types do not agree: `aspect` is kind, dtype, rank or shape (then `axis` is set)."""

    aspect: str
    axis: int | None = None


def mismatch(stated: Type, found: Type) -> Mismatch | None:
    """Why a value of type `found` cannot stand where `stated` is expected; views and memory are not compared."""
    if not is_known(stated) or not is_known(found):
        return None
    if kind_name(stated) != kind_name(found):
        return Mismatch("kind")
    if isinstance(stated, ScalarType) and isinstance(found, ScalarType):
        return None if dtypes_agree(stated.dtype, found.dtype) else Mismatch("dtype")
    if isinstance(stated, ShapedType) and isinstance(found, ShapedType):
        if stated.dtype != found.dtype:
            return Mismatch("dtype")
        if stated.rank != found.rank:
            return Mismatch("rank")
        axis = differing_axis(stated.shape, found.shape)
        return None if axis is None else Mismatch("shape", axis)
    if isinstance(stated, ArrayType) and isinstance(found, ArrayType):
        return _array_mismatch(stated, found)
    if isinstance(stated, TupleType) and isinstance(found, TupleType):
        if len(stated.elements) != len(found.elements):
            return Mismatch("rank")
        parts = (mismatch(a, b) for a, b in zip(stated.elements, found.elements, strict=True))
        return next((m for m in parts if m is not None), None)
    return None


def _array_mismatch(stated: ArrayType, found: ArrayType) -> Mismatch | None:
    if stated.dtype != found.dtype:
        return Mismatch("dtype")
    return Mismatch("shape", 0) if arith.differ(stated.extent, found.extent) else None


def same_type(left: Type, right: Type) -> bool:
    """Whether one variable can hold both: everything that is printed is provably the same."""
    if type(left) is not type(right):
        return False
    if isinstance(left, ScalarType) and isinstance(right, ScalarType):
        return left.dtype == right.dtype
    if isinstance(left, ShapedType) and isinstance(right, ShapedType):
        return left.dtype == right.dtype and _same_dims(left.shape, right.shape) and _same_view(left, right)
    if isinstance(left, ArrayType) and isinstance(right, ArrayType):
        return left.dtype == right.dtype and arith.same(left.extent, right.extent)
    if isinstance(left, TupleType) and isinstance(right, TupleType):
        pairs = zip(left.elements, right.elements, strict=False)
        return len(left.elements) == len(right.elements) and all(same_type(a, b) for a, b in pairs)
    return not isinstance(left, HandleType) or left.name == getattr(right, "name", None)


def _same_dims(left: Sequence[n.Expr], right: Sequence[n.Expr]) -> bool:
    return len(left) == len(right) and all(arith.same(a, b) for a, b in zip(left, right, strict=True))


def _same_view(left: ShapedType, right: ShapedType) -> bool:
    if getattr(left, "memory_space", None) != getattr(right, "memory_space", None):
        return False
    a, b = getattr(left, "view", None), getattr(right, "view", None)
    if not _same_dims(left.valid_shape, right.valid_shape):
        return False
    names = ("layout", "pad", "blayout", "slayout", "fractal", "compact")
    if any(getattr(a, name, None) != getattr(b, name, None) for name in names):
        return False
    strides = getattr(a, "stride", None), getattr(b, "stride", None)
    return strides[0] is strides[1] or (None not in strides and _same_dims(*strides))  # type: ignore[arg-type]
