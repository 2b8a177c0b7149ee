"""A rewriter for on-core bodies that infers types again: what a call gives is its op's rule on the new operands,
and loop arguments and results follow what they carry. Passes that move, reshape or shard tiles build on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import TileType, Type, UnknownType
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import ON_CORE
from pypto_lab.lowering.names import Names
from pypto_lab.ops.record import infer_type, make_call


class TileRewriter(Rewriter):
    """Override `assign` (a tile or other value is bound) and `effect` (a call for its effect); both emit statements.
    `carry` sees each value a loop or branch yields, with the variable it becomes."""

    def __init__(self, function: n.Function, context: Context) -> None:
        super().__init__()
        self.function = function
        self.context = context
        self.names = Names.of(function)
        self.out: list[n.Stmt] = []
        self.span: Span | None = None

    def run(self) -> n.Function:
        body = self.block(self.function.body or ())
        return dataclasses.replace(self.function, body=body)

    # --- hooks -------------------------------------------------------------------------------------------------------

    def assign(self, stmt: n.Assign) -> None:
        """Emits a binding. The default visits the value and infers a call's tile type again."""
        value = self.visit_expr(stmt.value)
        self.bind(stmt, self.retyped(value) if isinstance(value, n.OpCall) else value)

    def effect(self, stmt: n.Eval) -> None:
        self.out.append(dataclasses.replace(stmt, expr=self.visit_expr(stmt.expr)))

    def carry(self, value: n.Expr, into: n.Var) -> n.Expr:
        """What is yielded for `into`, whose type is settled already."""
        return value

    # --- building ----------------------------------------------------------------------------------------------------

    def bind(self, stmt: n.Assign, value: n.Expr) -> n.Var:
        """Emits `stmt` with another value; the variable's type follows a tile's."""
        var = stmt.var
        if isinstance(var.type, TileType) and isinstance(value.type, TileType):
            new = dataclasses.replace(var, type=value.type) if value.type is not var.type else var
        else:
            new = self.define(var)
        if new is not var:
            self.vars[var] = new
        self.out.append(dataclasses.replace(stmt, var=new, value=value))
        return new

    def emit(self, name: str, value: n.Expr) -> n.Var:
        var = n.Var(name=self.names.fresh(name), type=value.type, span=self.span)
        self.out.append(n.Assign(var=var, value=value, span=self.span))
        return var

    def make(self, op: str, *args: n.Expr, **attrs: Any) -> n.OpCall:
        """A call with its inferred type. Raises LabError at the current statement when the op refuses it."""
        try:
            return make_call(op, *args, span=self.span, **attrs)
        except OpError as error:
            self.context.refuse(error.code, error.message, self.span, error.hint)

    def retyped(self, call: n.OpCall) -> n.OpCall:
        """The call with its result type inferred again; kept where its op states none (a pop)."""
        if not isinstance(call.type, TileType):
            return call
        try:
            found = infer_type(call)
        except OpError as error:
            self.context.refuse(error.code, error.message, self.span, error.hint)
        return call if isinstance(found, UnknownType) else dataclasses.replace(call, type=found)

    # --- statements --------------------------------------------------------------------------------------------------

    def block(self, body: Sequence[n.Stmt], into: Sequence[n.Var] = ()) -> n.Body:
        """A body; `into` are the variables its final yield becomes."""
        outer, self.out = self.out, []
        for stmt in body:
            self.span = stmt.span or self.span
            self.one(stmt, into)
        inner, self.out = self.out, outer
        return tuple(inner)

    def one(self, stmt: n.Stmt, into: Sequence[n.Var] = ()) -> None:
        match stmt:
            case n.Assign():
                self.assign(stmt)
            case n.Eval():
                self.effect(stmt)
            case n.If():
                self.branch(stmt)
            case n.For() | n.While():
                self.loop(stmt)
            case n.Scope():
                self.out.append(self.scope(stmt))
            case n.Yield() if into:
                values = tuple(self.carry(self.visit_expr(v), var) for v, var in zip(stmt.values, into, strict=True))
                self.out.append(dataclasses.replace(stmt, values=values))
            case _:
                new = self.visit_stmt(stmt)
                self.out.extend(new if isinstance(new, tuple) else (new,))

    def scope(self, stmt: n.Scope) -> n.Stmt:
        changes: dict[str, Any] = {}
        if isinstance(stmt, n.SplitAivScope):
            changes["lane_var"] = self.define(stmt.lane_var)
        return dataclasses.replace(stmt, **changes, body=self.block(stmt.body))

    def branch(self, stmt: n.If) -> None:
        condition = self.visit_expr(stmt.condition)
        then = self.block(stmt.then_body, stmt.return_vars)
        results = self._results(stmt.return_vars, then)
        other = self.block(stmt.else_body, results)
        results = [
            self._result(old, joined_type(new.type, value.type))
            for old, new, value in zip(stmt.return_vars, results, yielded(other), strict=False)
        ]
        self.out.append(
            dataclasses.replace(stmt, condition=condition, then_body=then, else_body=other, return_vars=tuple(results))
        )

    def loop(self, loop: n.For | n.While) -> None:
        arguments = []
        for old in loop.iter_args:
            start = self.start(old, self.visit_expr(old.init_value))
            type_ = start.type if isinstance(start.type, TileType) else self.type(old.type)
            new = n.IterArg(name=old.name, type=type_, init_value=start, span=old.span)
            self.vars[old] = new
            arguments.append(new)
        changes: dict[str, Any] = {"iter_args": tuple(arguments)}
        if isinstance(loop, n.For):
            changes |= {k: self.visit_expr(getattr(loop, k)) for k in ("start", "stop", "step")}
            changes["loop_var"] = self.define(loop.loop_var)
        else:
            changes["condition"] = self.visit_expr(loop.condition)
        changes["body"] = self.block(loop.body, arguments)
        results = []
        for old_result, argument in zip(loop.return_vars, arguments, strict=True):
            results.append(self._result(old_result, argument.type))
        self.out.append(dataclasses.replace(loop, **changes, return_vars=tuple(results)))

    def start(self, argument: n.IterArg, value: n.Expr) -> n.Expr:
        """The start value of a loop argument."""
        return value

    def _results(self, old: Sequence[n.Var], body: n.Body) -> list[n.Var]:
        return [self._result(var, value.type) for var, value in zip(old, yielded(body), strict=False)]

    def _result(self, old: n.Var, type_: Type) -> n.Var:
        new = dataclasses.replace(old, type=type_) if isinstance(type_, TileType) else self.define(old)
        self.vars[old] = new
        return new


def yielded(body: n.Body) -> tuple[n.Expr, ...]:
    """What a body yields at its end."""
    return body[-1].values if body and isinstance(body[-1], n.Yield) else ()


def joined_type(one: Type, other: Type) -> Type:
    """The type of a value that is one or the other: two tiles of different valid regions join to one that states
    none (the region comes with the value)."""
    if not isinstance(one, TileType) or not isinstance(other, TileType) or one.view is None:
        return one
    if one.stated_valid is None or _same_dims(one.valid_shape, other.valid_shape):
        return one
    return dataclasses.replace(one, view=dataclasses.replace(one.view, valid_shape=None))


def _same_dims(one: Sequence[n.Expr], other: Sequence[n.Expr]) -> bool:
    return len(one) == len(other) and all(arith.same(a, b) for a, b in zip(one, other, strict=True))


def is_on_core(function: n.Function) -> bool:
    """Whether a function runs on a core and has a body."""
    return function.func_type in ON_CORE and function.body is not None
