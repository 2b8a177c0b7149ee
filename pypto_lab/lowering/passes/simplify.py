"""Passes 5 and 45, Simplify: constants are folded and propagated, dead scalars go, branches and loops with one way too.

Follows from: a scalar of constant operands has one value; a condition that is a constant picks its branch; a loop that
runs once is its body, one that never runs is its start values. Integer sums are brought to their linear form.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import ForKind
from pypto_lab.ir.types import ScalarType
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.dead_code import without_dead_scalars
from pypto_lab.lowering.functions import map_bodies

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "Eq": lambda a, b: a == b,
    "Ne": lambda a, b: a != b,
    "Lt": lambda a, b: a < b,
    "Le": lambda a, b: a <= b,
    "Gt": lambda a, b: a > b,
    "Ge": lambda a, b: a >= b,
}
_FOLD: dict[str, Callable[[int, int], int]] = {
    "FloorDiv": lambda a, b: a // b,
    "FloorMod": lambda a, b: a % b,
    "Min": min,
    "Max": max,
}
_FLIPPED = {"Gt": "Lt", "Ge": "Le"}


def run(program: n.Program, context: Context) -> n.Program:
    return map_bodies(program, _simplified)


def _simplified(function: n.Function) -> n.Function:
    """One function, until nothing changes: each round may free the next."""
    for _ in range(8):
        new = _Folder().visit_function(function)
        new = _without_dead_scalars(new)
        if new is function:
            break
        function = new
    return function


class _Folder(Rewriter):
    """Folds expressions bottom-up and puts the value of a constant scalar at its uses."""

    def visit_stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        if isinstance(node, n.If):
            condition = self.visit_expr(node.condition)
            if isinstance(condition, n.ConstBool):
                return self._taken(node, condition.value)
        if isinstance(node, n.For) and node.kind is not ForKind.Unroll:
            trips = _trips(*(self.visit_expr(e) for e in (node.start, node.stop, node.step)))
            if trips is not None and trips <= 1:
                return self._unlooped(node, trips)
        if isinstance(node, (n.Yield, n.Return)):
            kept = tuple(v if isinstance(v, n.Var) and self._is_constant(v) else self._value(v) for v in node.values)
            same = all(a is b for a, b in zip(kept, node.values, strict=True))
            return node if same else dataclasses.replace(node, values=kept)
        new = super().visit_stmt(node)
        if isinstance(new, n.Assign) and isinstance(new.value, n.ConstInt) and isinstance(new.var.type, ScalarType):
            self.vars[new.var] = n.const(new.value.value, new.var.type.dtype, span=new.value.span)
        return new

    def _is_constant(self, var: n.Var) -> bool:
        return isinstance(self.vars.get(var), n.ConstInt)

    def define(self, var: n.Var | None) -> n.Var | None:
        """A carried start value stays a variable: what it becomes in the loop is not constant."""
        if isinstance(var, n.IterArg) and isinstance(var.init_value, n.Var) and self._is_constant(var.init_value):
            constant = self.vars.pop(var.init_value)
            new = super().define(var)
            self.vars[var.init_value] = constant
            return new  # type: ignore[no-any-return]
        return super().define(var)  # type: ignore[no-any-return]

    def _taken(self, node: n.If, condition: bool) -> tuple[n.Stmt, ...]:
        """The branch a constant condition picks, its yields in place of the results."""
        body = self.visit_body(node.then_body if condition else node.else_body)
        return self._spliced(body, node.return_vars)

    def _unlooped(self, node: n.For, trips: int) -> tuple[n.Stmt, ...]:
        starts = [self.visit_expr(a.init_value) for a in node.iter_args]
        if trips == 0:
            self.vars.update(zip(node.return_vars, starts, strict=True))
            return ()
        self.vars.update(zip(node.iter_args, starts, strict=True))
        self.vars[node.loop_var] = self.visit_expr(node.start)
        return self._spliced(self.visit_body(node.body), node.return_vars)

    def _spliced(self, body: n.Body, results: tuple[n.Var, ...]) -> tuple[n.Stmt, ...]:
        if body and isinstance(body[-1], n.Yield):
            self.vars.update(zip(results, body[-1].values, strict=True))
            return body[:-1]
        return body

    def expr(self, node: n.Expr) -> n.Expr:
        match node:
            case n.Binary():
                return _binary(node)
            case n.Unary(op="Not", operand=n.ConstBool(value=value)):
                return n.const(not value, span=node.span)
            case n.Unary(op="Cast", operand=n.ConstInt(value=value)) if _is_integer(node):
                return n.const(value, n.scalar_dtype(node), span=node.span)
        return node


def _is_integer(node: n.Expr) -> bool:
    dtype = n.scalar_dtype(node)
    return dtype is not None and dtype.is_integer and dtype.bits == 64


def _binary(node: n.Binary) -> n.Expr:
    left, right = node.left, node.right
    if node.op in ("And", "Or"):
        return _logical(node)
    a, b = (e.value if isinstance(e, n.ConstInt) else None for e in (left, right))
    if node.op in _COMPARE:
        if a is not None and b is not None:
            return n.const(_COMPARE[node.op](a, b), span=node.span)
        if node.op in _FLIPPED:
            return dataclasses.replace(node, op=_FLIPPED[node.op], left=right, right=left)
        return node
    dtype = n.scalar_dtype(node)
    if node.op in _FOLD and a is not None and b is not None and not (node.op.startswith("Floor") and b == 0):
        return n.const(_FOLD[node.op](a, b), dtype, span=node.span)
    if node.op in ("FloorDiv", "FloorMod") and b == 1:
        return left if node.op == "FloorDiv" else n.const(0, dtype, span=node.span)
    if node.op in ("Add", "Sub", "Mul") and dtype is dtypes.INDEX:
        plain = arith.from_linear(arith.linear_form(node))
        if arith.key(plain) != arith.key(node):
            return dataclasses.replace(plain, span=node.span) if not isinstance(plain, n.Var) else plain
    return node


def _logical(node: n.Binary) -> n.Expr:
    for this, other in ((node.left, node.right), (node.right, node.left)):
        if isinstance(this, n.ConstBool):
            decides = this.value == (node.op == "Or")
            return this if decides else other
    return node


def _trips(start: n.Expr, stop: n.Expr, step: n.Expr) -> int | None:
    bounds = [arith.constant(e) for e in (start, stop, step)]
    if None in bounds or bounds[2] == 0:
        return None
    return len(range(*bounds))  # type: ignore[arg-type]


def _without_dead_scalars(function: n.Function) -> n.Function:
    body = function.body or ()
    swept = without_dead_scalars(body)
    return function if swept is body else dataclasses.replace(function, body=swept)
