"""Pass 25, StampTfreeSplit: a free carries the split code (and pipe id) of the pop it belongs to.

Follows from: a free gives back the slot its pop took, and the slot's layout depends on the code.
"""

from __future__ import annotations

import dataclasses

from pypto_lab.ir import nodes as n
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import map_bodies
from pypto_lab.lowering.uses import statements

_POPS = ("tile.tpop_from_aic", "tile.tpop_from_aiv")
_FREES = ("system.tfree_to_aic", "system.tfree_to_aiv")


def run(program: n.Program, context: Context) -> n.Program:
    return map_bodies(program, lambda f: _Stamper(f).visit_function(f))


class _Stamper(Rewriter):
    def __init__(self, function: n.Function) -> None:
        super().__init__()
        self.pops = {
            s.var: s.value
            for s in statements(function.body or ())
            if isinstance(s, n.Assign) and isinstance(s.value, n.OpCall) and s.value.op in _POPS
        }

    def expr(self, node: n.Expr) -> n.Expr:
        if not isinstance(node, n.OpCall) or node.op not in _FREES or node.kwargs.get("split") is not None:
            return node
        pop = self.pops.get(node.args[0])  # type: ignore[call-overload]
        if pop is None:
            return node
        return dataclasses.replace(node, kwargs={**node.kwargs, "split": pop.kwargs.get("split", 0)})
