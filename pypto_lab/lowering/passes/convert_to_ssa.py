"""Pass 4, ConvertToSSA: every variable is assigned once; loops carry values, branches join them.

Follows from: later passes ask "which value is this" by the variable alone. A name bound before a loop and again
inside it is carried (`init_values`, yield); a name bound in a branch and known in both is joined. A loop's own names
end with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pypto_lab.ir import nodes as n
from pypto_lab.ir.equal import types_equal
from pypto_lab.ir.types import ScalarType, TensorType, TileType
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import map_bodies
from pypto_lab.lowering.memory_effects import Roots
from pypto_lab.lowering.uses import definitions, exposed, exposed_after, statements
from pypto_lab.ops.record import make_call


def run(program: n.Program, context: Context) -> n.Program:
    symbols = set(program.symbols.values())
    return map_bodies(program, lambda function: _Ssa(function, program, symbols, context).run())


class _Ssa(Rewriter):
    """Rewrites one function. `vars` is the value each source variable holds at the current statement."""

    def __init__(self, function: n.Function, program: n.Program, symbols: set[n.Var], context: Context) -> None:
        super().__init__()
        self.function = function
        self.program = program
        self.symbols = symbols
        self.context = context
        self.versions: dict[str, int] = {}
        self.known: set[n.Var] = set()
        self.later: list[set[n.Var]] = []

    def run(self) -> n.Function:
        """The function in single-assignment form. Raises LabError where no such form exists."""
        params = []
        for param in self.function.params:
            self.known.add(param.var)
            if param.var in self.symbols:
                params.append(param)
                continue
            first = self.version(param.var, "ssa")
            self.vars[param.var] = first
            params.append(dataclasses.replace(param, var=first))
        body = self.block(self.function.body or ())
        return dataclasses.replace(self.function, params=tuple(params), body=body)

    def version(self, var: n.Var, role: str) -> n.Var:
        """A new variable for a new value of `var`, its type in terms of the current values."""
        number = self.versions.get(var.name, 0)
        self.versions[var.name] = number + 1
        name = f"{var.name}__{role}_v{number}"
        return n.Var(name=name, type=self.type(var.type), span=var.span)

    def bind(self, var: n.Var, role: str = "ssa") -> n.Var:
        new = self.version(var, role)
        self.vars[var] = new
        self.known.add(var)
        return new

    # --- statements --------------------------------------------------------------------------------------------------

    def block(self, body: Sequence[n.Stmt]) -> n.Body:
        out: list[n.Stmt] = []
        for stmt, later in zip(body, exposed_after(body), strict=True):
            self.later.append(later)
            out.extend(self.one(stmt))
            self.later.pop()
        return tuple(out)

    def read_later(self, var: n.Var) -> bool:
        """Whether a statement after the current one, at any enclosing level, reads `var`."""
        return any(var in reads for reads in self.later)

    def one(self, stmt: n.Stmt) -> n.Body:
        match stmt:
            case n.Assign():
                value = self.visit_expr(stmt.value)
                return (dataclasses.replace(stmt, value=value, var=self.bind(stmt.var)),)
            case n.If():
                return (self.branch(stmt),)
            case n.For():
                return self.counted(stmt)
            case n.While():
                return self.conditional(stmt)
            case n.Scope():
                return (self.scope(stmt),)
        new = self.visit_stmt(stmt)
        return new if isinstance(new, tuple) else (new,)

    def scope(self, scope: n.Scope) -> n.Stmt:
        changes: dict[str, object] = {"attrs": self._value(dict(scope.attrs))}
        if isinstance(scope, n.SpmdScope):
            changes["core_num"] = self.visit_expr(scope.core_num)
            if scope.loop_var is not None:
                changes["loop_var"] = self.bind(scope.loop_var)
        if isinstance(scope, n.SplitAivScope):
            changes["lane_var"] = self.bind(scope.lane_var)
        changes["body"] = self.block(scope.body)
        if scope.task_id is not None:
            changes["task_id"] = self.bind(scope.task_id)
        return dataclasses.replace(scope, **changes)  # type: ignore[arg-type]

    # --- branches ----------------------------------------------------------------------------------------------------

    def branch(self, stmt: n.If) -> n.If:
        condition = self.visit_expr(stmt.condition)
        before, known = dict(self.vars), set(self.known)
        then, then_values, then_known = self.arm(stmt.then_body, before, known)
        other, other_values, other_known = self.arm(stmt.else_body, before, known)
        if _returns(then) or _returns(other):
            self.vars, self.known = (other_values, other_known) if _returns(then) else (then_values, then_known)
            return dataclasses.replace(stmt, condition=condition, then_body=then, else_body=other)
        self.vars, self.known = before, then_known & other_known
        joined = [
            v
            for v in sorted(_assigned(stmt.then_body) | _assigned(stmt.else_body), key=lambda v: v.name)
            if v in self.known and then_values.get(v) is not other_values.get(v)
        ]
        if not joined and not stmt.return_vars:
            return dataclasses.replace(stmt, condition=condition, then_body=then, else_body=other)
        results = tuple(self.define(v) for v in stmt.return_vars) + tuple(self.bind(v, "phi") for v in joined)
        self.known.update(stmt.return_vars)
        return dataclasses.replace(
            stmt,
            condition=condition,
            then_body=_yielding(then, [then_values.get(v, v) for v in joined], stmt),
            else_body=_yielding(other, [other_values.get(v, v) for v in joined], stmt),
            return_vars=results,
        )

    def arm(
        self, body: n.Body, values: dict[n.Var, n.Expr], known: set[n.Var]
    ) -> tuple[n.Body, dict[n.Var, n.Expr], set[n.Var]]:
        self.vars, self.known = dict(values), set(known)
        new = self.block(body)
        return new, self.vars, self.known

    # --- loops -------------------------------------------------------------------------------------------------------

    def counted(self, loop: n.For) -> n.Body:
        start, stop, step = (self.visit_expr(e) for e in (loop.start, loop.stop, loop.step))
        prologue, carried = self.carried(loop)
        index = self.version(loop.loop_var, "idx")
        before, known = dict(self.vars), set(self.known)
        arguments = self.enter(loop, carried)
        self.vars[loop.loop_var] = index
        self.known.add(loop.loop_var)
        body = self.loop_body(loop, carried)
        results = self.leave(loop, carried, before, known)
        new = dataclasses.replace(
            loop,
            start=start,
            stop=stop,
            step=step,
            loop_var=index,
            iter_args=arguments,
            body=body,
            return_vars=results,
        )
        return (*prologue, new)

    def conditional(self, loop: n.While) -> n.Body:
        prologue, carried = self.carried(loop)
        before, known = dict(self.vars), set(self.known)
        arguments = self.enter(loop, carried)
        condition = self.visit_expr(loop.condition)
        body = self.loop_body(loop, carried)
        results = self.leave(loop, carried, before, known)
        new = dataclasses.replace(loop, condition=condition, iter_args=arguments, body=body, return_vars=results)
        return (*prologue, new)

    def carried(self, loop: n.For | n.While) -> tuple[list[n.Stmt], list[n.Var]]:
        """What the loop carries, by name, and statements that give a start value to what only the loop assigns."""
        assigned = _assigned(loop.body)
        prologue: list[n.Stmt] = []
        for var in sorted(assigned - self.known, key=lambda v: v.name):
            if self.read_later(var):
                prologue.append(self.undefined(var, loop))
        return prologue, sorted((v for v in assigned if v in self.known), key=lambda v: v.name)

    def undefined(self, var: n.Var, loop: n.For | n.While) -> n.Stmt:
        """A start value for a variable that is read after a loop but assigned only inside: it is undefined if the loop
        never runs. Another name of memory that is known before (what a store returns) starts as that memory. Raises
        LabError for a type that has no such value."""
        type_ = self.type(var.type)
        value: n.Expr | None = None
        memory = Roots(loop.body, self.known, self.program).of(var) if isinstance(type_, TensorType) else None
        if memory is not None and types_equal(memory.type, var.type):
            value = self.vars.get(memory, memory)
        elif isinstance(type_, ScalarType):
            value = n.const(0.0 if type_.dtype.is_float else 0, type_.dtype, span=loop.span)
        elif isinstance(type_, (TileType, TensorType)):
            shape = n.MakeTuple(elements=type_.shape, type=n.INDEX)
            name = "tile.create" if isinstance(type_, TileType) else "tensor.create"
            space = getattr(type_, "memory_space", None)
            extra = {"target_memory": space} if space is not None else {}
            value = make_call(name, shape, dtype=type_.dtype, span=loop.span, **extra)
        if value is None:
            self.context.refuse(
                "E802",
                f"`{var.name}` is assigned only inside a loop that may never run",
                var.span or loop.span,
                hint=f"give `{var.name}` a value before the loop",
            )
        return n.Assign(var=self.bind(var), value=value, span=loop.span)

    def enter(self, loop: n.For | n.While, carried: list[n.Var]) -> tuple[n.IterArg, ...]:
        """Binds the loop's arguments: those the user wrote keep their names."""
        written = tuple(
            n.IterArg(name=a.name, type=self.type(a.type), init_value=self.visit_expr(a.init_value), span=a.span)
            for a in loop.iter_args
        )
        starts = [self.vars.get(v, v) for v in carried]
        new = []
        for var, start in zip(carried, starts, strict=True):
            plain = self.bind(var, "iter")
            argument = n.IterArg(name=plain.name, type=plain.type, init_value=start, span=plain.span)
            self.vars[var] = argument
            new.append(argument)
        for old, argument in zip(loop.iter_args, written, strict=True):
            self.vars[old] = argument
            self.known.add(old)
        # versions of the results are taken now, so that numbers read in the order of the text
        self._results = {v: self.version(v, "rv") for v in carried}
        return (*written, *new)

    def loop_body(self, loop: n.For | n.While, carried: list[n.Var]) -> n.Body:
        results = self._results
        self.later.append(exposed(loop.body))
        body = self.block(loop.body)
        self.later.pop()
        self._results = results
        return _yielding(body, [self.vars[v] for v in carried], loop)

    def leave(
        self, loop: n.For | n.While, carried: list[n.Var], before: dict[n.Var, n.Expr], known: set[n.Var]
    ) -> tuple[n.Var, ...]:
        results = self._results
        self.vars, self.known = before, known
        written = tuple(self.define(v) for v in loop.return_vars)
        self.known.update(loop.return_vars)
        for var in carried:
            self.vars[var] = results[var]
        return (*written, *(results[v] for v in carried))


def _assigned(body: Sequence[n.Stmt]) -> set[n.Var]:
    """Source variables a body assigns; loop variables, loop arguments and explicit results are not re-bindings."""
    return {var for stmt in statements(body) if isinstance(stmt, (n.Assign, n.Scope)) for var in definitions(stmt)} - {
        v for s in statements(body) if isinstance(s, (n.For, n.While)) for v in s.iter_args
    }


def _returns(body: n.Body) -> bool:
    return bool(body) and isinstance(body[-1], n.Return)


def _yielding(body: n.Body, values: list[n.Expr], of: n.Stmt) -> n.Body:
    """The body with `values` added to its final yield."""
    if body and isinstance(body[-1], n.Yield):
        last = body[-1]
        return (*body[:-1], dataclasses.replace(last, values=(*last.values, *values)))
    return (*body, n.Yield(values=tuple(values), span=of.span)) if values else body
