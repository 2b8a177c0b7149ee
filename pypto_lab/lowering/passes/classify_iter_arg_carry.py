"""Pass 47, ClassifyIterArgCarry: an orchestrator's loops say for each carried tensor whether its name is bound anew.

Follows from: a carried tensor that is only written stays the same memory; one that becomes another tensor must be
kept in a variable by the generated code.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import FunctionType
from pypto_lab.ir.types import TensorType
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import map_bodies
from pypto_lab.lowering.memory_effects import Roots, yielded
from pypto_lab.lowering.uses import definitions, statements


def run(program: n.Program, context: Context) -> n.Program:
    def change(function: n.Function) -> n.Function:
        if function.func_type is not FunctionType.Orchestration:
            return function
        body = function.body or ()
        every = [v for s in statements(body) if isinstance(s, n.Assign) and _is_new(s) for v in definitions(s)]
        roots = Roots(body, [*(p.var for p in function.params), *every], program)
        return _Classifier(roots).visit_function(function)

    return map_bodies(program, change)


def _is_new(stmt: n.Assign) -> bool:
    return isinstance(stmt.value, n.OpCall) and stmt.value.op in ("tensor.create", "tensor.full")


class _Classifier(Rewriter):
    def __init__(self, roots: Roots) -> None:
        super().__init__()
        self.roots = roots

    def stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        if not isinstance(node, n.For) or not node.iter_args:
            return node
        attrs: dict[str, Any] = {}
        for i, (argument, value) in enumerate(zip(node.iter_args, yielded(node.body), strict=False)):
            if isinstance(argument.type, TensorType):
                root = self.roots.of(argument)
                attrs[f"iter_arg_rebind_{i}"] = root is None or self.roots.of(value) is not root
        return dataclasses.replace(node, attrs={**node.attrs, **attrs}) if attrs else node
