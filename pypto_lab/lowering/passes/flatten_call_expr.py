"""Pass 7, FlattenCallExpr: a call inside another expression gets a name of its own (`t__tmp_vN`).

Follows from: from here on a pass looks at one call a statement. Operands are named in the order they are evaluated; a
condition of a `while` that calls is carried as a flag, because it is evaluated again each time round.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from pypto_lab.ir import nodes as n
from pypto_lab.ir.visitor import Rewriter, walk
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import map_bodies
from pypto_lab.lowering.names import Names

_CALLS = (n.OpCall, n.FunctionCall, n.Submit)
Loop = TypeVar("Loop", n.For, n.While)


def run(program: n.Program, context: Context) -> n.Program:
    return map_bodies(program, lambda f: _Flattener(Names.of(f)).function(f))


class _Flattener:
    def __init__(self, names: Names) -> None:
        self.names = names

    def function(self, function: n.Function) -> n.Function:
        body = self.block(function.body or ())
        same = body == function.body
        return function if same else dataclasses.replace(function, body=body)

    def block(self, body: n.Body) -> n.Body:
        out: list[n.Stmt] = []
        for stmt in body:
            out.extend(self.one(stmt))
        same = len(out) == len(body) and all(a is b for a, b in zip(out, body, strict=True))
        return body if same else tuple(out)

    def one(self, stmt: n.Stmt) -> n.Body:
        before: list[n.Stmt] = []
        changes: dict[str, Any] = {}

        def put(name: str, value: Any) -> None:
            if value is not getattr(stmt, name):
                changes[name] = value

        match stmt:
            case n.Assign():
                put("value", self.root(stmt.value, before))
            case n.Eval():
                put("expr", self.root(stmt.expr, before))
            case n.If():
                put("condition", self.operand(stmt.condition, before))
                put("then_body", self.block(stmt.then_body))
                put("else_body", self.block(stmt.else_body))
            case n.For():
                for name in ("start", "stop", "step"):
                    put(name, self.operand(getattr(stmt, name), before))
                stmt = self.starts(stmt, before)
                put("body", self.block(stmt.body))
            case n.While():
                if any(isinstance(e, _CALLS) for e in walk(stmt.condition)):
                    stmt, before = self.flagged(stmt)
                stmt = self.starts(stmt, before)
                put("body", self.block(stmt.body))
            case n.Yield() | n.Return():
                put("values", self.operands(stmt.values, before))
            case n.Scope():
                if isinstance(stmt, n.SpmdScope):
                    put("core_num", self.operand(stmt.core_num, before))
                put("attrs", self.scope_attrs(stmt.attrs, before))
                put("body", self.block(stmt.body))
        return (*before, dataclasses.replace(stmt, **changes) if changes else stmt)

    def root(self, expr: n.Expr, before: list[n.Stmt]) -> n.Expr:
        """An expression that may stay a call, its operands without calls."""
        changes: dict[str, Any] = {}
        for field in dataclasses.fields(expr):
            if field.name in ("type", "span", "attrs", "name", "predicate") or isinstance(expr, n.Var):
                continue
            old = getattr(expr, field.name)
            new = self.value(old, before)
            if new is not old:
                changes[field.name] = new
        return dataclasses.replace(expr, **changes) if changes else expr

    def value(self, value: Any, before: list[n.Stmt]) -> Any:
        if isinstance(value, n.Expr):
            return self.operand(value, before)
        if isinstance(value, tuple) and any(isinstance(v, n.Expr) for v in value):
            return self.operands(value, before)
        if isinstance(value, list):
            listed = self.operands(tuple(value), before)
            return list(listed) if any(a is not b for a, b in zip(listed, value, strict=True)) else value
        if isinstance(value, dict) and any(isinstance(v, n.Expr) for v in value.values()):
            new = {k: self.value(v, before) for k, v in value.items()}
            return new if any(new[k] is not value[k] for k in value) else value
        return value

    def scope_attrs(self, attrs: Mapping[str, Any], before: list[n.Stmt]) -> Mapping[str, Any]:
        """A scope's attributes: the tasks it waits for are named before it. A predicate stays, the launch evaluates
        it."""
        new = {k: v if k == "predicate" else self.value(v, before) for k, v in attrs.items()}
        return new if any(new[k] is not v for k, v in attrs.items()) else attrs

    def operand(self, expr: n.Expr, before: list[n.Stmt]) -> n.Expr:
        """An expression without calls: a call becomes a variable assigned before."""
        plain = self.root(expr, before)
        if not isinstance(plain, _CALLS):
            return plain
        var = n.Var(name=self.names.numbered("t__tmp_v"), type=plain.type, span=plain.span)
        before.append(n.Assign(var=var, value=plain, span=plain.span))
        return var

    def operands(self, values: tuple[Any, ...], before: list[n.Stmt]) -> tuple[Any, ...]:
        new = tuple(self.operand(v, before) if isinstance(v, n.Expr) else v for v in values)
        return new if any(a is not b for a, b in zip(new, values, strict=True)) else values

    def starts(self, loop: Loop, before: list[n.Stmt]) -> Loop:
        """The loop with start values that are no calls."""
        rewriter = Rewriter()
        for argument in loop.iter_args:
            start = self.operand(argument.init_value, before)
            if start is not argument.init_value:
                rewriter.vars[argument] = dataclasses.replace(argument, init_value=start)
        if not rewriter.vars:
            return loop
        arguments = tuple(rewriter.vars.get(a, a) for a in loop.iter_args)
        changes: dict[str, Any] = {"iter_args": arguments, "body": rewriter.visit_body(loop.body)}
        if isinstance(loop, n.While):
            changes["condition"] = rewriter.visit_expr(loop.condition)
        return dataclasses.replace(loop, **changes)

    def flagged(self, loop: n.While) -> tuple[n.While, list[n.Stmt]]:
        """A loop that calls in its condition carries the condition's value instead."""
        before: list[n.Stmt] = []
        name = self.names.fresh("going_on")
        first = self.operand(_with(loop.condition, loop.iter_args, [a.init_value for a in loop.iter_args]), before)
        flag = n.IterArg(name=name, type=n.BOOL, init_value=first, span=loop.span)
        body: n.Body = loop.body
        values: tuple[n.Expr, ...] = ()
        if body and isinstance(end := body[-1], n.Yield):
            body, values = body[:-1], end.values
        again: list[n.Stmt] = []
        last = self.operand(_with(loop.condition, loop.iter_args, list(values)), again)
        result = n.Var(name=self.names.fresh(f"{name}_end"), type=n.BOOL, span=loop.span)
        new = dataclasses.replace(
            loop,
            condition=flag,
            iter_args=(*loop.iter_args, flag),
            return_vars=(*loop.return_vars, result),
            body=(*body, *again, n.Yield(values=(*values, last), span=loop.span)),
        )
        return new, before


def _with(expr: n.Expr, old: tuple[n.IterArg, ...], new: list[n.Expr]) -> n.Expr:
    rewriter = Rewriter()
    rewriter.vars.update(zip(old, new, strict=True))
    return rewriter.visit_expr(expr)
