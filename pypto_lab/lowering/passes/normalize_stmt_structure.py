"""Pass 6, NormalizeStmtStructure: statements that do nothing go.

Follows from: a body is a flat list here (upstream's nested lists cannot be written), so what is left to normalise is a
branch, loop or scope whose body has become empty and that has no results.
"""

from __future__ import annotations

from pypto_lab.ir import nodes as n
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering.context import Context


def run(program: n.Program, context: Context) -> n.Program:
    return _Normalizer().visit_program(program)


class _Normalizer(Rewriter):
    def stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        match node:
            case n.If(then_body=(), else_body=(), return_vars=()):
                return ()
            case n.For(body=(), return_vars=()):
                return ()
            case n.Scope(body=(), task_id=None):
                return ()
        return node
