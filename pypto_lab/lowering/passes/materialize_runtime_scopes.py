"""Pass 46, MaterializeRuntimeScopes: the scopes in which the runtime tracks an orchestrator's tasks stand in the text.

Follows from: an orchestrator has one automatic scope around its body and one around each iteration of its loops,
unless it is written with scopes of its own (`auto_scope=False`).
"""

from __future__ import annotations

import dataclasses

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import FunctionType
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import map_bodies


def run(program: n.Program, context: Context) -> n.Program:
    def change(function: n.Function) -> n.Function:
        if function.func_type is not FunctionType.Orchestration or function.auto_scope is False:
            return function
        body = _Scoping().visit_body(function.body or ())
        scope = n.RuntimeScope(body=body, span=function.span)
        return dataclasses.replace(function, body=(scope,), auto_scope=False)

    return map_bodies(program, change)


class _Scoping(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.manual = 0

    def visit_stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        manual = isinstance(node, n.RuntimeScope) and node.manual
        self.manual += manual
        new = super().visit_stmt(node)
        self.manual -= manual
        return new

    def stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        """A loop's body in a scope of its own; tasks of a manual scope stay in that scope."""
        if not isinstance(node, n.For) or self.manual or not node.body:
            return node
        return dataclasses.replace(node, body=(n.RuntimeScope(body=node.body, span=node.span),))
