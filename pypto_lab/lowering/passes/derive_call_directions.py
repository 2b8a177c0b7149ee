"""Pass 38, DeriveCallDirections: every call of a worker says how it uses each argument.

Follows from: the task graph orders launches by what they read and write. A tensor that is only written is an output
of the call, unless it may hold something already, because a call before has written there or the caller's own
parameter is read and written: then what is left of the old contents counts, and the call reads and writes. A
sequential loop has written it in the iteration before; a parallel loop has not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import ArgDirection, Direction, ForKind, FunctionType
from pypto_lab.ir.types import ScalarType, ShapedType
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import map_bodies
from pypto_lab.lowering.memory_effects import Roots
from pypto_lab.lowering.uses import definitions, statements

_CALLERS = (FunctionType.Orchestration, FunctionType.Graph, FunctionType.Group, FunctionType.Spmd, FunctionType.Opaque)


def run(program: n.Program, context: Context) -> n.Program:
    def change(function: n.Function) -> n.Function:
        return _Deriver(function, program).run() if function.func_type in _CALLERS else function

    return map_bodies(program, change)


class _Deriver(Rewriter):
    def __init__(self, function: n.Function, program: n.Program) -> None:
        super().__init__()
        self.function = function
        self.program = program
        body = function.body or ()
        created = [v for s in statements(body) if _creates(s) for v in definitions(s)]
        self.roots = Roots(body, [*(p.var for p in function.params), *created], program)
        self.written = {p.var for p in function.params if p.direction is Direction.InOut}
        self.sequential = 0

    def run(self) -> n.Function:
        return self.visit_function(self.function)

    def visit_stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        inside = isinstance(node, n.While) or (isinstance(node, n.For) and node.kind is not ForKind.Parallel)
        self.sequential += inside
        new = super().visit_stmt(node)
        self.sequential -= inside
        return new

    def expr(self, node: n.Expr) -> n.Expr:
        if not isinstance(node, (n.FunctionCall, n.Submit)):
            return node
        callee = self.program.functions.get(node.callee)
        if callee is None or len(callee.params) != len(node.args):
            return node
        directions = [self.direction(a, p) for a, p in zip(node.args, callee.params, strict=True)]
        self.note(node.args, callee.params)
        return dataclasses.replace(node, attrs={**node.attrs, "arg_directions": directions})

    def direction(self, argument: n.Expr, param: n.Param) -> ArgDirection:
        if isinstance(argument.type, ScalarType) or not isinstance(argument.type, ShapedType):
            return ArgDirection.Scalar
        if param.direction is Direction.In:
            return ArgDirection.Input
        before = self.sequential or self.roots.of(argument) in self.written
        if param.direction is Direction.InOut or before:
            return ArgDirection.InOut
        return ArgDirection.OutputExisting

    def note(self, args: Sequence[n.Expr], params: Sequence[n.Param]) -> None:
        for argument, param in zip(args, params, strict=True):
            root = self.roots.of(argument)
            if param.direction is not Direction.In and root is not None:
                self.written.add(root)


def _creates(stmt: n.Stmt) -> bool:
    return isinstance(stmt, n.Assign) and isinstance(stmt.value, n.OpCall) and stmt.value.op == "tensor.create"
