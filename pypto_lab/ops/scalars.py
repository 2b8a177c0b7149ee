"""Typing of scalar expressions (`reference/language.md` 1.3): categories, promotion, inserted casts."""

from __future__ import annotations

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import ScalarType, UnknownType

ARITHMETIC = frozenset({"Add", "Sub", "Mul", "FloorDiv", "FloorMod", "FloatDiv", "Pow", "Min", "Max"})
ORDERING = frozenset({"Lt", "Le", "Gt", "Ge"})
EQUALITY = frozenset({"Eq", "Ne"})
BITWISE = frozenset({"BitAnd", "BitOr", "BitXor", "BitShiftLeft", "BitShiftRight"})
LOGIC = frozenset({"And", "Or", "Xor"})


def binary(op: str, left: n.Expr, right: n.Expr, span: Span | None = None) -> n.Expr:
    """`left op right` with the narrower side cast to the wider dtype.

    Raises OpError (argument 0 or 1 is at fault) for operands that are no scalars, mix integers with floats, or use
    BOOL where a number is needed. An operand of unknown type gives a result of unknown type.
    """
    if isinstance(left.type, UnknownType) or isinstance(right.type, UnknownType):
        return n.Binary(op=op, left=left, right=right, type=UnknownType(), span=span)
    a, b = _dtype(op, left, 0), _dtype(op, right, 1)
    if op in LOGIC:
        for index, dtype in enumerate((a, b)):
            if dtype is not dtypes.BOOL:
                hint = "compare first, e.g. `x != 0`"
                raise OpError(f"`{_sign(op)}` needs BOOL, not {dtype.name}", argument=index, hint=hint, code="E110")
        return n.Binary(op=op, left=left, right=right, type=n.BOOL, span=span)
    if op in EQUALITY and a is b is dtypes.BOOL:
        return n.Binary(op=op, left=left, right=right, type=n.BOOL, span=span)
    _check(op, a, b)
    common = wider(a, b)
    left, right = _widened(left, a, common), _widened(right, b, common)
    result = n.BOOL if op in ORDERING or op in EQUALITY else ScalarType(_result(op, common))
    return n.Binary(op=op, left=left, right=right, type=result, span=span)


def unary(op: str, operand: n.Expr, span: Span | None = None) -> n.Expr:
    """`-x`, `not x`, `~x`, `abs(x)`. Raises OpError."""
    if isinstance(operand.type, UnknownType):
        return n.Unary(op=op, operand=operand, type=UnknownType(), span=span)
    dtype = _dtype(op, operand, 0)
    if op == "Not" and dtype is not dtypes.BOOL:
        raise OpError(f"`not` needs BOOL, not {dtype.name}", argument=0, hint="write `x == 0`", code="E110")
    if op == "BitNot" and not dtype.is_integer:
        raise OpError(f"`~` needs an integer, not {dtype.name}", argument=0, code="E110")
    if op in ("Neg", "Abs") and dtype is dtypes.BOOL:
        raise OpError(f"`{n.UNARY_OPS[op]}` needs a number, not BOOL", argument=0, code="E110")
    return n.Unary(op=op, operand=operand, type=ScalarType(dtype), span=span)


def cast(operand: n.Expr, dtype: DType, span: Span | None = None) -> n.Expr:
    """The scalar converted to a dtype."""
    return n.Unary(op="Cast", operand=operand, type=ScalarType(dtype), span=span)


def wider(left: DType, right: DType) -> DType:
    """The dtype two scalars of one category meet in: the wider one, the left one on a tie."""
    return right if right.bits > left.bits else left


def _dtype(op: str, operand: n.Expr, index: int) -> DType:
    if isinstance(operand.type, ScalarType) and operand.type.dtype is not dtypes.TASK_ID:
        return operand.type.dtype
    what = "a TASK_ID" if isinstance(operand.type, ScalarType) else "this"
    raise OpError(f"`{_sign(op)}` works on scalar numbers, {what} is none", argument=index, code="E311")


def _check(op: str, left: DType, right: DType) -> None:
    for index, dtype in enumerate((left, right)):
        if dtype is dtypes.BOOL:
            hint = "use `and`, `or`, `not` on conditions, or cast: pl.cast(x, pl.INT32)"
            raise OpError(f"`{_sign(op)}` needs a number, not BOOL", argument=index, hint=hint, code="E110")
        if op in BITWISE and not dtype.is_integer:
            raise OpError(f"`{_sign(op)}` needs integers, not {dtype.name}", argument=index, code="E110")
    if left.is_float != right.is_float:
        wanted, index = (left, 1) if left.is_float else (right, 0)
        hint = f"cast the integer: pl.cast(x, pl.{wanted.name}), or write the number with a decimal point"
        message = f"`{_sign(op)}` mixes {left.name} and {right.name}"
        raise OpError(message, argument=index, hint=hint, code="E110")


def _widened(operand: n.Expr, dtype: DType, common: DType) -> n.Expr:
    if dtype == common or {dtype, common} == {dtypes.INDEX, dtypes.INT64}:
        return operand
    return cast(operand, common, operand.span)


def _result(op: str, common: DType) -> DType:
    return dtypes.FP32 if op == "FloatDiv" and not common.is_float else common


def _sign(op: str) -> str:
    return n.BINARY_OPS.get(op) or n.UNARY_OPS.get(op) or op
