"""Scalar expressions of an orchestration as C++."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pypto_lab.ir import arith
from pypto_lab.ir import dtypes as d
from pypto_lab.ir import nodes as n
from pypto_lab.ir.types import ScalarType
from pypto_lab.pto.orchestration.refusing import NO_FORM
from pypto_lab.pto.orchestration.state import State

_BINARY = {
    "Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "/", "FloorMod": "%", "FloatDiv": "/",
    "Eq": "==", "Ne": "!=", "Lt": "<", "Le": "<=", "Gt": ">", "Ge": ">=", "And": "&&", "Or": "||", "Xor": "!=",
    "BitAnd": "&", "BitOr": "|", "BitXor": "^", "BitShiftLeft": "<<", "BitShiftRight": ">>",
}  # fmt: skip
"""C++ division of integers truncates, as the device's does in the kernels."""
_UNARY = {"Neg": "-", "Not": "!", "BitNot": "~"}
_CALLS = {
    "system.available_cluster_count": "rt_available_cluster_count()",
    "system.available_aiv_count": "rt_available_aiv_count()",
    "system.task_invalid": "PTO2TaskId::invalid()",
}


def scalar(state: State, expr: n.Expr) -> str:
    """An expression as C++, operands in parentheses where they are operations. Raises LabError (E680)."""
    match expr:
        case n.Var():
            return state.value(expr, expr.span)
        case n.ConstBool():
            return "true" if expr.value else "false"
        case n.ConstInt():
            return str(expr.value) if -(2**31) < expr.value < 2**31 else f"INT64_C({expr.value})"
        case n.ConstFloat():
            return _number(state, expr.value, n.scalar_dtype(expr) is not d.FP64)
        case n.Binary():
            return _binary(state, expr)
        case n.Unary():
            return _unary(state, expr)
        case n.OpCall():
            return _call(state, expr)
    state.refuse(NO_FORM, f"{type(expr).__name__} has no C++ form in an orchestration", expr.span)


def _number(state: State, value: float, single: bool) -> str:
    if math.isnan(value) or math.isinf(value):
        state.includes.add("math.h")
        return "NAN" if math.isnan(value) else ("-INFINITY" if value < 0 else "INFINITY")
    return repr(float(value)) + ("f" if single else "")


def operand(state: State, expr: n.Expr) -> str:
    """An expression that can stand beside an operator."""
    call = isinstance(expr, n.Unary) and expr.op in ("Cast", "Abs")
    call = call or (isinstance(expr, n.Binary) and expr.op in ("Min", "Max"))
    number = isinstance(expr, (n.ConstInt, n.ConstFloat)) and expr.value >= 0
    plain = call or number or isinstance(expr, (n.Var, n.OpCall, n.ConstBool))
    return scalar(state, expr) if plain else f"({scalar(state, expr)})"


def _binary(state: State, expr: n.Binary) -> str:
    if expr.op in ("Min", "Max"):
        state.includes.add("algorithm")
        kind = state.scalar_type(expr.type, expr.span)
        return f"std::{expr.op.lower()}<{kind}>({scalar(state, expr.left)}, {scalar(state, expr.right)})"
    if expr.op not in _BINARY:
        state.refuse(NO_FORM, f"the operator {expr.op} has no C++ form in an orchestration", expr.span)
    return f"{operand(state, expr.left)} {_BINARY[expr.op]} {operand(state, expr.right)}"


def _unary(state: State, expr: n.Unary) -> str:
    if expr.op == "Cast":
        return f"static_cast<{state.scalar_type(expr.type, expr.span)}>({scalar(state, expr.operand)})"
    if expr.op == "Abs":
        state.includes.add("cmath")
        return f"std::abs({scalar(state, expr.operand)})"
    return f"{_UNARY[expr.op]}{operand(state, expr.operand)}"


def _call(state: State, call: n.OpCall) -> str:
    if call.op in _CALLS:
        return _CALLS[call.op]
    if call.op == "tensor.dim":
        axis = arith.constant(call.args[1])
        return f"static_cast<int64_t>({state.tensor(call.args[0], call.span)}.shapes[{axis}])"
    if call.op == "system.task_is_valid":
        return f"{operand(state, call.args[0])}.is_valid()"
    if call.op == "array.get_element":
        return f"{operand(state, call.args[0])}[{scalar(state, call.args[1])}]"
    state.refuse(NO_FORM, f"`{call.op}` has no C++ form inside an expression of an orchestration", call.span)


def unsigned(state: State, expr: n.Expr, halved: bool = False) -> str:
    """An extent or offset as the runtime's 32-bit unsigned; `halved` where two elements share a byte."""
    known = arith.constant(expr)
    if known is not None and known >= 0:
        return str(known // 2 if halved else known)
    text = scalar(state, expr)
    return f"static_cast<uint32_t>({f'({text}) / 2' if halved else text})"


def extents(state: State, dims: Sequence[n.Expr], dtype: d.DType | None = None) -> str:
    """`{16, 64}`; the last axis of a 4-bit type counts bytes."""
    last = len(dims) - 1
    return "{" + ", ".join(unsigned(state, x, dtype is d.FP4 and i == last) for i, x in enumerate(dims)) + "}"


def task_argument(state: State, expr: n.Expr, dtype: d.DType) -> str:
    """A scalar as a task takes it: floats by their bits, constants at their parameter's type."""
    text = scalar(state, expr)
    kind = state.scalar_type(ScalarType(dtype), expr.span)
    if dtype.is_float:
        given = n.scalar_dtype(expr)
        return f"to_u64({text if given is dtype else f'static_cast<{kind}>({text})'})"
    return text if isinstance(expr, n.Var) else f"static_cast<{kind}>({text})"
