"""Pass 3, CtrlFlowTransform: `continue` becomes if/else and `break` a `while` with a flag, in on-core functions.

Follows from: on a core control flow is structured. What follows a branch that leaves is moved into the branch that
stays, so each path still runs the same statements.
"""

from __future__ import annotations

import dataclasses

from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import ForKind
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import ON_CORE, map_bodies
from pypto_lab.lowering.names import Names
from pypto_lab.lowering.uses import statements, sub_body


def run(program: n.Program, context: Context) -> n.Program:
    def change(function: n.Function) -> n.Function:
        body = function.body or ()
        if not any(isinstance(s, (n.Break, n.Continue)) for s in statements(body)):
            return function
        transform = _Transform(Names.of(function), context)
        on_core = function.func_type in ON_CORE
        return dataclasses.replace(function, body=transform.block(body, on_core=on_core))

    return map_bodies(program, change)


class _Transform:
    def __init__(self, names: Names, context: Context) -> None:
        self.names = names
        self.context = context

    def block(self, body: n.Body, *, on_core: bool) -> n.Body:
        """A body with the loops below it transformed where they run on a core."""
        out: list[n.Stmt] = []
        for stmt in body:
            inside = on_core or isinstance(stmt, n.InCoreScope)
            match stmt:
                case n.If():
                    then, other = (self.block(b, on_core=inside) for b in (stmt.then_body, stmt.else_body))
                    out.append(dataclasses.replace(stmt, then_body=then, else_body=other))
                case n.Scope():
                    out.append(dataclasses.replace(stmt, body=self.block(stmt.body, on_core=inside)))
                case n.For() | n.While():
                    loop = dataclasses.replace(stmt, body=self.block(stmt.body, on_core=inside))
                    out.extend(self.loop(loop) if inside else (loop,))
                case _:
                    out.append(stmt)
        return tuple(out)

    def loop(self, loop: n.For | n.While) -> n.Body:
        """The loop without `break` and `continue` of its own."""
        if not _leaves(loop.body, (n.Break, n.Continue)):
            return (loop,)
        if loop.iter_args:
            hint = "write the loop without init_values, or the exit as a condition"
            self.context.refuse("E805", "break and continue do not go with init_values", loop.span, hint)
        if not _leaves(loop.body, (n.Break,)):
            return (dataclasses.replace(loop, body=self.straight(loop.body, None)),)
        flag = n.Var(name=self.names.fresh("going_on"), type=n.BOOL, span=loop.span)
        start = n.Assign(var=flag, value=n.const(True), span=loop.span)
        if isinstance(loop, n.While):
            body = self.straight(loop.body, flag)
            return (start, n.While(condition=_both(flag, loop.condition), body=body, span=loop.span))
        return (start, *self.counted(loop, flag))

    def counted(self, loop: n.For, flag: n.Var) -> n.Body:
        """A `for` with a break: its variable is counted by hand, in the iterations that go on."""
        step = arith.constant(loop.step)
        if step is None or step == 0 or loop.kind is not ForKind.Sequential:
            self.context.refuse("E805", "break needs a pl.range with a constant step", loop.span)
        var = loop.loop_var
        test = n.Binary(op="Lt" if step > 0 else "Gt", left=var, right=loop.stop, type=n.BOOL)
        move = n.Assign(var=var, value=n.Binary(op="Add", left=var, right=loop.step, type=var.type), span=loop.span)
        body = (*self.straight(loop.body, flag), move)
        first = n.Assign(var=var, value=loop.start, span=loop.span)
        return (first, n.While(condition=_both(flag, test), body=body, span=loop.span))

    def straight(self, body: n.Body, flag: n.Var | None) -> n.Body:
        """A loop body's statements up to where each path leaves."""
        for i, stmt in enumerate(body):
            head, rest = body[:i], body[i + 1 :]
            if isinstance(stmt, n.Continue):
                return head
            if isinstance(stmt, n.Break):
                assert flag is not None
                return (*head, n.Assign(var=flag, value=n.const(False), span=stmt.span))
            if not _leaves((stmt,), (n.Break, n.Continue)):
                continue
            if not isinstance(stmt, n.If):
                self.context.refuse("E805", "break and continue cannot leave a scope", stmt.span)
            then = stmt.then_body if _always_leaves(stmt.then_body) else (*stmt.then_body, *rest)
            other = stmt.else_body if _always_leaves(stmt.else_body) else (*stmt.else_body, *rest)
            branch = dataclasses.replace(
                stmt, then_body=self.straight(then, flag), else_body=self.straight(other, flag)
            )
            return (*head, branch)
        return body


def _both(flag: n.Var, condition: n.Expr) -> n.Expr:
    return n.Binary(op="And", left=flag, right=condition, type=n.BOOL, span=condition.span)


def _leaves(body: n.Body, kinds: tuple[type[n.Stmt], ...]) -> bool:
    """Whether a body may leave the loop it stands in directly; inner loops keep theirs."""
    return any(
        isinstance(s, kinds) or (not isinstance(s, (n.For, n.While)) and _leaves(sub_body(s), kinds)) for s in body
    )


def _always_leaves(body: n.Body) -> bool:
    return any(
        isinstance(s, (n.Break, n.Continue))
        or (isinstance(s, n.If) and _always_leaves(s.then_body) and _always_leaves(s.else_body))
        for s in body
    )
