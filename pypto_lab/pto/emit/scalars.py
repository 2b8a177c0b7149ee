"""Scalar expressions of the IR as `arith` and `math` ops."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IndexType
from xdsl.ir import SSAValue

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.dtypes import DType
from pypto_lab.pto.emit.builder import Builder
from pypto_lab.pto.emit.types import scalar_type

_SIGNED: dict[str, type[Any]] = {
    "Add": arith.AddiOp, "Sub": arith.SubiOp, "Mul": arith.MuliOp, "FloorDiv": arith.DivSIOp,
    "FloorMod": arith.RemSIOp, "Min": arith.MinSIOp, "Max": arith.MaxSIOp, "BitAnd": arith.AndIOp,
    "BitOr": arith.OrIOp, "BitXor": arith.XOrIOp, "BitShiftLeft": arith.ShLIOp, "BitShiftRight": arith.ShRSIOp,
}  # fmt: skip
_FLOAT: dict[str, type[Any]] = {
    "Add": arith.AddfOp, "Sub": arith.SubfOp, "Mul": arith.MulfOp, "FloatDiv": arith.DivfOp,
    "Min": arith.MinimumfOp, "Max": arith.MaximumfOp,
}  # fmt: skip
_LOGICAL: dict[str, type[Any]] = {"And": arith.AndIOp, "Or": arith.OrIOp, "Xor": arith.XOrIOp}
_COMPARED = {"Eq": "eq", "Ne": "ne", "Lt": "lt", "Le": "le", "Gt": "gt", "Ge": "ge"}


def scalar(b: Builder, expr: n.Expr, dtype: DType | None = None) -> SSAValue:
    """The value of an expression, in its own dtype or in `dtype`.

    Raises LabError for what `.pto` text cannot say. Division and remainder truncate on the device, so operands that
    are negative constants are refused.
    """
    own = n.scalar_dtype(expr)
    if own is None:
        b.refuse("a scalar is expected", span=expr.span)
    wanted = own if dtype is None else dtype
    match expr:
        case n.ConstInt() | n.ConstFloat() | n.ConstBool():
            return _constant(b, expr, wanted)
        case n.Var():
            if id(expr) not in b.scalars:
                b.refuse(f"`{expr.name}` has no value here", span=expr.span)
            made = b.scalars[id(expr)]
        case n.Binary():
            made = _binary(b, expr)
        case n.Unary():
            made = _unary(b, expr, own)
        case n.OpCall() if expr.op in SPMD_PARAMETERS:
            made = identity(b, expr)
        case _:
            b.refuse(f"a {type(expr).__name__} is no scalar .pto text can compute", span=expr.span)
    return convert(b, made, own, wanted)


SPMD_PARAMETERS = {
    "tile.get_block_idx": "__pypto_spmd_block_idx",
    "tile.get_block_num": "__pypto_spmd_block_num",
    "tile.get_subblock_idx": "__pypto_spmd_subblock_idx",
}
"""The parameter that each of the ops which say who runs reads."""


def identity(b: Builder, call: n.OpCall, name: str | None = None) -> SSAValue:
    """Which block or lane runs, as an index: such a call stands alone, or in an extent that differs by lane."""
    return b.value(arith.IndexCastOp(b.parameters[SPMD_PARAMETERS[call.op]], IndexType()), name)


def index(b: Builder, expr: n.Expr) -> SSAValue:
    """The value of an expression as an index."""
    return scalar(b, expr, dtypes.INDEX)


def valid_extent(b: Builder, expr: n.Expr) -> SSAValue:
    """The value of a valid extent as an index; one that is computed is computed once where both places see it."""
    if not isinstance(expr, (n.Binary, n.Unary, n.OpCall)):
        return index(b, expr)
    key = _formula(expr)
    for table in reversed(b.computed):
        if key in table:
            return table[key]
    made = b.computed[-1][key] = index(b, expr)
    return made


def _formula(expr: n.Expr) -> object:
    """What an expression computes, comparable: alike for two expressions of the same shape over the same variables."""
    match expr:
        case n.ConstInt() | n.ConstFloat() | n.ConstBool():
            return type(expr).__name__, expr.value, n.scalar_dtype(expr)
        case n.Binary():
            return expr.op, _formula(expr.left), _formula(expr.right)
        case n.Unary():
            return expr.op, _formula(expr.operand), n.scalar_dtype(expr)
        case n.OpCall():
            return expr.op, *(_formula(argument) for argument in expr.args)
    return id(expr)


def _constant(b: Builder, expr: n.ConstInt | n.ConstFloat | n.ConstBool, wanted: DType) -> SSAValue:
    if isinstance(expr, n.ConstFloat) and not wanted.is_float:
        b.refuse(f"{expr.value} is no {wanted.name}", span=expr.span)
    return b.constant(expr.value, wanted)


def _common(b: Builder, expr: n.Binary) -> DType:
    """The dtype both operands are computed in."""
    left, right = n.scalar_dtype(expr.left), n.scalar_dtype(expr.right)
    if left is None or right is None:
        b.refuse("operands of a scalar expression are scalars", span=expr.span)
    if left == right:
        return left
    constants = (n.ConstInt, n.ConstFloat)
    if isinstance(expr.right, constants) and (left.is_float or isinstance(expr.right, n.ConstInt)):
        return left
    if isinstance(expr.left, constants) and (right.is_float or isinstance(expr.left, n.ConstInt)):
        return right
    if dtypes.INDEX in (left, right) and left.is_integer and right.is_integer:
        return dtypes.INDEX
    b.refuse(f"{left.name} and {right.name} do not meet in one operation without a cast", span=expr.span)


def _binary(b: Builder, expr: n.Binary) -> SSAValue:
    dtype = _common(b, expr)
    if expr.op in ("FloorDiv", "FloorMod"):
        _check_division(b, expr)
    left, right = scalar(b, expr.left, dtype), scalar(b, expr.right, dtype)
    if expr.op in _COMPARED:
        return _comparison(b, _COMPARED[expr.op], left, right, dtype)
    if expr.op in _LOGICAL:
        if dtype != dtypes.BOOL:
            b.refuse(f"`{n.BINARY_OPS[expr.op]}` of {dtype.name} values", span=expr.span)
        return b.value(_LOGICAL[expr.op](left, right))
    table = _FLOAT if dtype.is_float else _SIGNED
    unsigned = dtype.is_integer and not dtype.is_signed
    if expr.op not in table or unsigned or dtype == dtypes.BOOL:
        b.refuse(f"`{n.BINARY_OPS[expr.op]}` of {dtype.name} values", span=expr.span)
    made = b.value(table[expr.op](left, right))
    result = n.scalar_dtype(expr)
    return made if result is None else convert(b, made, dtype, result)


def _check_division(b: Builder, expr: n.Binary) -> None:
    for operand in (expr.left, expr.right):
        if isinstance(operand, n.ConstInt) and operand.value < 0:
            b.refuse(
                f"`{n.BINARY_OPS[expr.op]}` truncates in .pto text, and {operand.value} is negative", span=expr.span
            )
    if isinstance(expr.right, n.ConstInt) and expr.right.value == 0:
        b.refuse("division by zero", span=expr.span)


def _comparison(b: Builder, word: str, left: SSAValue, right: SSAValue, dtype: DType) -> SSAValue:
    if dtype.is_float:
        return b.value(arith.CmpfOp(left, right, "une" if word == "ne" else f"o{word}"))
    ordered = word not in ("eq", "ne")
    return b.value(arith.CmpiOp(left, right, f"{'s' if dtype.is_signed else 'u'}{word}" if ordered else word))


def _unary(b: Builder, expr: n.Unary, own: DType) -> SSAValue:
    source = n.scalar_dtype(expr.operand)
    if source is None:
        b.refuse("operands of a scalar expression are scalars", span=expr.span)
    value = scalar(b, expr.operand)
    match expr.op:
        case "Cast":
            return convert(b, value, source, own)
        case "Neg" if source.is_float:
            return b.value(arith.NegfOp(value))
        case "Neg" if source.is_signed:
            return b.value(arith.SubiOp(b.constant(0, source), value))
        case "Abs" if source.is_float:
            return b.value(math.AbsFOp(value))
        case "Abs" if source.is_signed:
            return b.value(math.AbsIOp(value))
        case "Not" if source == dtypes.BOOL:
            return b.value(arith.CmpiOp(value, b.constant(False, dtypes.BOOL), "eq"))
        case "BitNot" if source.is_signed and source.is_integer:
            return b.value(arith.XOrIOp(value, b.constant(-1, source)))
    b.refuse(f"`{n.UNARY_OPS.get(expr.op, expr.op)}` of a {source.name} value", span=expr.span)


def convert(b: Builder, value: SSAValue, source: DType, target: DType) -> SSAValue:
    """A value in another dtype. Raises LabError for a conversion without an op that keeps its meaning."""
    if source == target:
        return value
    known = b.known.get(value)
    if known is not None and target == dtypes.INDEX:
        return b.constant(known, target)
    to: Any = scalar_type(target)
    signed = (source.is_signed or source == dtypes.BOOL) and target.is_signed
    if not signed:
        b.refuse(f"a scalar {source.name} does not become a {target.name}")
    if source.is_float and target.is_float:
        wider = target.bits > source.bits
        if source.bits == target.bits:
            b.refuse(f"a scalar {source.name} does not become a {target.name}")
        return b.value((arith.ExtFOp if wider else arith.TruncFOp)(value, to))
    if source.is_float or target.is_float:
        return _between(b, value, source, target)
    if source == dtypes.BOOL:
        wide = dtypes.INT64 if target == dtypes.INDEX else target
        made = b.value(arith.ExtUIOp(value, scalar_type(wide)))  # type: ignore[arg-type]
        return convert(b, made, wide, target)
    if dtypes.INDEX in (source, target):
        return b.value(arith.IndexCastOp(value, to))
    wider = target.bits > source.bits
    return b.value((arith.ExtSIOp if wider else arith.TruncIOp)(value, to))


def _between(b: Builder, value: SSAValue, source: DType, target: DType) -> SSAValue:
    """Between integers and floats; an index goes by way of INT64."""
    if source.is_float:
        whole = dtypes.INT64 if target == dtypes.INDEX else target
        made = b.value(arith.FPToSIOp(value, scalar_type(whole)))  # type: ignore[arg-type]
        return convert(b, made, whole, target)
    if source == dtypes.INDEX:
        value, source = convert(b, value, source, dtypes.INT64), dtypes.INT64
    if source == dtypes.BOOL:
        b.refuse(f"a scalar {source.name} does not become a {target.name}")
    return b.value(arith.SIToFPOp(value, scalar_type(target)))  # type: ignore[arg-type]
