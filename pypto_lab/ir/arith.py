"""Integer arithmetic on dimension expressions: building, folding, and telling whether two are provably equal.

Dimensions are kept as the author wrote them; these functions are for *derived* extents (`(i + 16) - i` is 16).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pypto_lab.ir import nodes as n
from pypto_lab.ir.types import ScalarType

Dim = n.Expr | int


def as_expr(dim: Dim) -> n.Expr:
    return n.const(dim) if isinstance(dim, int) else dim


def constant(dim: Dim | None) -> int | None:
    """The value of a constant dimension, else None."""
    if isinstance(dim, bool):
        return None
    if isinstance(dim, int):
        return dim
    if isinstance(dim, n.ConstInt):
        return dim.value
    if dim is None:
        return None
    linear = linear_form(dim)
    return linear.offset if not linear.terms else None


@dataclass(frozen=True)
class Linear:
    """sum(coefficient * atom) + offset; atoms are keyed structurally."""

    terms: Mapping[Any, tuple[int, n.Expr]]
    offset: int


def key(expr: n.Expr) -> Any:
    """A hashable key: equal keys mean the same value (variables by identity)."""
    match expr:
        case n.ConstInt() | n.ConstFloat() | n.ConstBool():
            return ("const", expr.value)
        case n.Var():
            return expr
        case n.Binary():
            left, right = key(expr.left), key(expr.right)
            if expr.op in ("Add", "Mul", "Min", "Max"):
                left, right = sorted((left, right), key=lambda k: (str(type(k)), hash(k)))
            return (expr.op, left, right)
        case n.Unary():
            dtype = expr.type.dtype if isinstance(expr.type, ScalarType) else None
            return (expr.op, dtype if expr.op == "Cast" else None, key(expr.operand))
        case n.TupleGetItem():
            return ("item", expr.index, key(expr.tuple))
        case n.OpCall() if expr.op in ("tile.get_block_idx", "tile.get_subblock_idx", "tensor.dim"):
            return (expr.op, *(key(a) for a in expr.args))
    return expr


def linear_form(expr: Dim) -> Linear:
    """The linear normal form of an integer expression (non-linear parts become atoms)."""
    if isinstance(expr, int):
        return Linear({}, expr)
    match expr:
        case n.ConstInt():
            return Linear({}, expr.value)
        case n.Binary(op="Add"):
            return _combine(linear_form(expr.left), linear_form(expr.right), 1)
        case n.Binary(op="Sub"):
            return _combine(linear_form(expr.left), linear_form(expr.right), -1)
        case n.Binary(op="Mul"):
            left, right = linear_form(expr.left), linear_form(expr.right)
            if not left.terms:
                return _scale(right, left.offset)
            if not right.terms:
                return _scale(left, right.offset)
        case n.Binary(op="FloorDiv" | "FloorMod" | "Min" | "Max"):
            left, right = linear_form(expr.left), linear_form(expr.right)
            if not left.terms and not right.terms and (right.offset or expr.op in ("Min", "Max")):
                return Linear({}, _FOLD[expr.op](left.offset, right.offset))
        case n.Unary(op="Neg"):
            return _scale(linear_form(expr.operand), -1)
        case n.Unary(op="Cast") if isinstance(expr.type, ScalarType) and expr.type.dtype.bits == 64:
            return linear_form(expr.operand)
    return Linear({key(expr): (1, expr)}, 0)


_FOLD: dict[str, Callable[[int, int], int]] = {
    "FloorDiv": lambda a, b: a // b,
    "FloorMod": lambda a, b: a % b,
    "Min": min,
    "Max": max,
}


def _combine(left: Linear, right: Linear, sign: int) -> Linear:
    terms = dict(left.terms)
    for k, (c, e) in right.terms.items():
        total = terms.get(k, (0, e))[0] + sign * c
        if total:
            terms[k] = (total, e)
        else:
            terms.pop(k, None)
    return Linear(terms, left.offset + sign * right.offset)


def _scale(form: Linear, factor: int) -> Linear:
    if factor == 0:
        return Linear({}, 0)
    return Linear({k: (c * factor, e) for k, (c, e) in form.terms.items()}, form.offset * factor)


def from_linear(form: Linear) -> n.Expr:
    """The plainest expression of a linear form."""
    result: n.Expr | None = None
    for coefficient, atom in form.terms.values():
        size = abs(coefficient)
        term = atom if size == 1 else n.Binary(op="Mul", left=atom, right=n.const(size), type=n.INDEX)
        if result is None:
            result = term if coefficient > 0 else n.Unary(op="Neg", operand=term, type=n.INDEX)
        else:
            result = n.Binary(op="Add" if coefficient > 0 else "Sub", left=result, right=term, type=n.INDEX)
    if result is None:
        return n.const(form.offset)
    if form.offset:
        op = "Add" if form.offset > 0 else "Sub"
        result = n.Binary(op=op, left=result, right=n.const(abs(form.offset)), type=n.INDEX)
    return result


def add(a: Dim, b: Dim) -> n.Expr:
    return from_linear(_combine(linear_form(a), linear_form(b), 1))


def sub(a: Dim, b: Dim) -> n.Expr:
    return from_linear(_combine(linear_form(a), linear_form(b), -1))


def mul(a: Dim, b: Dim) -> n.Expr:
    left, right = linear_form(a), linear_form(b)
    if not left.terms:
        return from_linear(_scale(right, left.offset))
    if not right.terms:
        return from_linear(_scale(left, right.offset))
    return n.Binary(op="Mul", left=as_expr(a), right=as_expr(b), type=n.INDEX)


def floordiv(a: Dim, b: Dim) -> n.Expr:
    left, right = constant(a), constant(b)
    if left is not None and right:
        return n.const(left // right)
    if right == 1:
        return as_expr(a)
    return n.Binary(op="FloorDiv", left=as_expr(a), right=as_expr(b), type=n.INDEX)


def ceildiv(a: Dim, b: int) -> n.Expr:
    return floordiv(add(a, b - 1), b)


def minimum(a: Dim, b: Dim) -> n.Expr:
    difference = constant(sub(a, b))
    if difference is not None:
        return as_expr(a if difference <= 0 else b)
    return n.Binary(op="Min", left=as_expr(a), right=as_expr(b), type=n.INDEX)


def maximum(a: Dim, b: Dim) -> n.Expr:
    difference = constant(sub(a, b))
    if difference is not None:
        return as_expr(a if difference >= 0 else b)
    return n.Binary(op="Max", left=as_expr(a), right=as_expr(b), type=n.INDEX)


def same(a: Dim, b: Dim) -> bool:
    """Whether two dimensions are provably equal."""
    return constant(sub(a, b)) == 0


def differ(a: Dim, b: Dim) -> bool:
    """Whether two dimensions are provably different."""
    return constant(sub(a, b)) not in (0, None)


def product(dims: tuple[n.Expr, ...]) -> n.Expr:
    result: n.Expr = n.const(1)
    for dim in dims:
        result = mul(result, dim)
    return result
