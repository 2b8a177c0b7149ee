"""Pass 2, UnrollLoops: a `pl.unroll` loop becomes one copy of its body an iteration, the loop variable a constant.

Follows from: `pl.unroll` promises constant bounds, so the number of copies is known here.
"""

from __future__ import annotations

from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import ForKind
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering.context import Context

LIMIT = 4096
"""More copies than this are refused: such a kernel would not fit the instruction cache either."""


def run(program: n.Program, context: Context) -> n.Program:
    return _Unroller(context).visit_program(program)


class _Unroller(Rewriter):
    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context

    def stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        if not isinstance(node, n.For) or node.kind is not ForKind.Unroll:
            return node
        copies: list[n.Stmt] = []
        for value in self._values(node):
            copy = Rewriter()
            copy.vars[node.loop_var] = n.const(value, span=node.loop_var.span)
            copies.extend(copy.visit_body(node.body))
        return tuple(copies)

    def _values(self, loop: n.For) -> range:
        """The loop variable's values. Raises LabError for bounds that are not constants."""
        bounds = []
        for name, bound in (("start", loop.start), ("stop", loop.stop), ("step", loop.step)):
            value = arith.constant(bound)
            if value is None:
                hint = "use pl.range, or make the bound a Python constant"
                self.context.refuse("E801", f"pl.unroll needs a constant {name}", bound.span or loop.span, hint=hint)
            bounds.append(value)
        if bounds[2] == 0:
            self.context.refuse("E801", "pl.unroll cannot step by 0", loop.span)
        values = range(bounds[0], bounds[1], bounds[2])
        if len(values) > LIMIT:
            self.context.refuse("E801", f"pl.unroll would make {len(values)} copies of its body", loop.span)
        return values
