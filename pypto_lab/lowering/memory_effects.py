"""Which global memory a tensor variable names, and how a body uses it: the facts behind parameter directions.

A store, an assemble or a call returns its target under a new name; a loop or branch that carries such names carries the
same memory. The *root* of a variable is the parameter (or other start) whose memory it names.
"""

from __future__ import annotations

from collections.abc import Iterable

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import Direction
from pypto_lab.ir.types import TensorType, TupleType
from pypto_lab.lowering.uses import expressions, statements
from pypto_lab.ops.record import OPS, Effect

ALIASING = ("tensor.view", "tensor.reshape", "tensor.reinterpret_view", "tensor.as_layout")
"""Ops on a tensor in global memory whose result names the same memory."""


def written_argument(call: n.OpCall) -> int | None:
    """The index of the argument an op writes and returns: the target of a store, an assemble, a write."""
    op = OPS.get(call.op)
    return None if op is None else op.torch.writes


class Roots:
    """The root of each variable of a body that names the memory of one of `starts`."""

    def __init__(self, body: n.Body, starts: Iterable[n.Var], program: n.Program | None = None) -> None:
        self.program = program
        self.roots: dict[n.Var, n.Var] = {v: v for v in starts if isinstance(v.type, TensorType)}
        self.packed: dict[n.Var, list[n.Var | None]] = {}
        before = -1
        while len(self.roots) != before:  # a loop's results follow its arguments, which follow its results
            before = len(self.roots)
            for stmt in statements(body):
                self._spread(stmt)

    def of(self, expr: n.Expr) -> n.Var | None:
        """The root of an expression, None for a value with memory of its own."""
        return self.roots.get(expr) if isinstance(expr, n.Var) else None

    def _spread(self, stmt: n.Stmt) -> None:
        match stmt:
            case n.Assign(value=n.FunctionCall() | n.Submit() as call) if isinstance(call.type, TupleType):
                self.packed[stmt.var] = self._results(call)
            case n.Assign():
                self._put(stmt.var, self._source(stmt.value))
            case n.For() | n.While():
                for argument in stmt.iter_args:
                    self._put(argument, self.of(argument.init_value))
                for result, argument, value in zip(stmt.return_vars, stmt.iter_args, yielded(stmt.body), strict=False):
                    root = self.of(value)
                    self._put(result, root if self.roots.get(argument) is root else None)
            case n.If():
                ends = [yielded(b) for b in (stmt.then_body, stmt.else_body)]
                for result, one, other in zip(stmt.return_vars, *ends, strict=False):
                    root = self.of(one)
                    self._put(result, root if self.of(other) is root else None)

    def _put(self, var: n.Var, root: n.Var | None) -> None:
        if root is not None and isinstance(var.type, TensorType):
            self.roots[var] = root

    def _source(self, value: n.Expr) -> n.Var | None:
        match value:
            case n.Var():
                return self.of(value)
            case n.OpCall(op=op) if op in ALIASING:
                return self.of(value.args[0])
            case n.OpCall():
                index = written_argument(value)
                return None if index is None else self.of(value.args[index])
            case n.FunctionCall():
                found = self._results(value)
                return found[0] if len(found) == 1 else None
            case n.TupleGetItem(tuple=n.Var() as packed, index=index):
                results = self.packed.get(packed, [])
                return results[index] if index < len(results) else None  # after the results, a task id
        return None

    def _results(self, call: n.Expr) -> list[n.Var | None]:
        if self.program is None or not isinstance(call, (n.FunctionCall, n.Submit)):
            return []
        places = returned_params(self.program, call.callee)
        return [None if i is None else self.of(call.args[i]) for i in places]


def yielded(body: n.Body) -> tuple[n.Expr, ...]:
    """The values a body ends with, also where its last statement is a scope around the rest."""
    while body and isinstance(body[-1], n.Scope):
        body = body[-1].body
    return body[-1].values if body and isinstance(body[-1], n.Yield) else ()


def returned_params(program: n.Program, name: str) -> list[int | None]:
    """For each result of a function, the index of the parameter whose memory it is (None: memory of its own)."""
    function = program.functions.get(name)
    if function is None or function.body is None:
        return []
    roots = Roots(function.body, [p.var for p in function.params], program)
    place = {p.var: i for i, p in enumerate(function.params)}
    final = next((s for s in reversed(list(statements(function.body))) if isinstance(s, n.Return)), None)
    found = [roots.of(v) for v in final.values] if final is not None else []
    return [None if v is None else place.get(v) for v in found]


def directions_of(body: n.Body, params: Iterable[n.Var], program: n.Program) -> dict[n.Var, Direction]:
    """How a body uses each parameter: In, Out (written), InOut (read and written)."""
    listed = list(params)
    effects = _Effects(Roots(body, listed, program), program)
    for stmt in statements(body):
        for expr in expressions(stmt):
            effects.expression(expr)
    return {p: effects.direction(p) for p in listed}


class _Effects:
    """The roots a body reads and writes."""

    def __init__(self, roots: Roots, program: n.Program) -> None:
        self.roots = roots
        self.program = program
        self.read: set[n.Var] = set()
        self.written: set[n.Var] = set()

    def direction(self, param: n.Var) -> Direction:
        if param not in self.written:
            return Direction.In
        return Direction.InOut if param in self.read else Direction.Out

    def expression(self, expr: n.Expr) -> None:
        if isinstance(expr, n.OpCall):
            self._op(expr)
        elif isinstance(expr, (n.FunctionCall, n.Submit)):
            self._call(expr)

    def _op(self, call: n.OpCall) -> None:
        if call.op in ALIASING or call.op == "tensor.dim":
            return
        op = OPS.get(call.op)
        target = written_argument(call)
        for i, argument in enumerate(call.args):
            root = self.roots.of(argument)
            if root is None:
                continue
            effect = op.args[i].effect if op is not None and i < len(op.args) else Effect.READ
            if i == target or effect in (Effect.WRITE, Effect.READ_WRITE):
                self.written.add(root)
            if i != target and effect in (Effect.READ, Effect.READ_WRITE):
                self.read.add(root)

    def _call(self, call: n.FunctionCall | n.Submit) -> None:
        callee = self.program.functions.get(call.callee)
        for i, argument in enumerate(call.args):
            root = self.roots.of(argument)
            if root is None:
                continue
            known = callee is not None and i < len(callee.params)
            direction = callee.params[i].direction if callee is not None and known else Direction.In
            if direction is not Direction.Out:
                self.read.add(root)
            if direction is not Direction.In:
                self.written.add(root)
