"""Pass 30, CanonicalizeIOOrder: in a lowered pipeline loop the loads of all copies come first.

Follows from: the copies stand side by side so that their loads overlap the work; a load moves up past what it does not
depend on, but never past a write to the memory it reads. The loop is then an ordinary one.
"""

from __future__ import annotations

import dataclasses

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import ForKind
from pypto_lab.ir.types import ScalarType
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.dead_code import has_effect
from pypto_lab.lowering.functions import map_bodies
from pypto_lab.lowering.memory_effects import Roots, written_argument
from pypto_lab.lowering.passes.lower_pipeline_loops import STAGES
from pypto_lab.lowering.uses import definitions, expressions, reads, statements


def run(program: n.Program, context: Context) -> n.Program:
    def change(function: n.Function) -> n.Function:
        loops = [s for s in statements(function.body or ()) if isinstance(s, n.For) and s.kind is ForKind.Pipeline]
        if not loops:
            return function
        roots = Roots(function.body or (), [p.var for p in function.params], program)
        return _Ordering(roots).visit_function(function)

    return map_bodies(program, change)


class _Ordering(Rewriter):
    def __init__(self, roots: Roots) -> None:
        super().__init__()
        self.roots = roots

    def stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        if not isinstance(node, n.For) or node.kind is not ForKind.Pipeline:
            return node
        attrs = {k: v for k, v in node.attrs.items() if k != STAGES}
        return dataclasses.replace(node, kind=ForKind.Sequential, attrs=attrs, body=self.ordered(node.body))

    def ordered(self, body: n.Body) -> n.Body:
        """The body with loads, and the scalars they need, first."""
        written = {root for stmt in body for root in self.written(stmt)}
        inside = {v: s for s in body for v in definitions(s)}
        early: list[n.Stmt] = []
        for stmt in body:
            if self.is_load(stmt, written):
                needs = self.needed(stmt, inside)
                if needs is not None:
                    early.extend(s for s in (*needs, stmt) if s not in early)
        return (*early, *(s for s in body if s not in early))

    def is_load(self, stmt: n.Stmt, written: set[n.Var]) -> bool:
        if not isinstance(stmt, n.Assign) or not isinstance(stmt.value, n.OpCall) or stmt.value.op != "tile.load":
            return False
        root = self.roots.of(stmt.value.args[0])
        return root is not None and root not in written

    def written(self, stmt: n.Stmt) -> list[n.Var]:
        """Roots a statement writes."""
        found = []
        for inner in statements((stmt,)):
            for expr in expressions(inner):
                index = written_argument(expr) if isinstance(expr, n.OpCall) else None
                root = self.roots.of(expr.args[index]) if isinstance(expr, n.OpCall) and index is not None else None
                if root is not None:
                    found.append(root)
        return found

    def needed(self, stmt: n.Stmt, inside: dict[n.Var, n.Stmt]) -> list[n.Stmt] | None:
        """Scalars of the body a load needs, in order; None when it needs more than plain scalars."""
        found: list[n.Stmt] = []
        for var in reads(stmt):
            source = inside.get(var)
            if source is None:
                continue
            plain = isinstance(source, n.Assign) and isinstance(source.var.type, ScalarType)
            if not plain or has_effect(source.value) or isinstance(source.value, n.OpCall):  # type: ignore[attr-defined]
                return None
            before = self.needed(source, inside)
            if before is None:
                return None
            found.extend(s for s in (*before, source) if s not in found)
        return found
