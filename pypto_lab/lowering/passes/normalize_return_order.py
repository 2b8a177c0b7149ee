"""Pass 26, NormalizeReturnOrder: what a worker wrote to a parameter is returned as that parameter, in parameter order.

Follows from: a worker's results are its Out and InOut parameters; the task graph knows them by position. Callers that
unpack several results follow the new order.
"""

from __future__ import annotations

import dataclasses

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import FunctionType
from pypto_lab.ir.types import TupleType
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import ON_CORE, callees_first
from pypto_lab.lowering.memory_effects import Roots
from pypto_lab.lowering.uses import statements

_WORKERS = (*ON_CORE, FunctionType.Group, FunctionType.Spmd)


def run(program: n.Program, context: Context) -> n.Program:
    orders: dict[str, list[int]] = {}
    functions = dict(program.functions)
    for name in callees_first(program.functions):
        current = dataclasses.replace(program, functions=functions)
        function = _Reindexed(orders).visit_function(functions[name])
        if function.func_type in _WORKERS and function.body is not None:
            function = _normalized(function, current, orders)
        functions[name] = function
    if all(functions[k] is f for k, f in program.functions.items()):
        return program
    return dataclasses.replace(program, functions=functions)


def _normalized(function: n.Function, program: n.Program, orders: dict[str, list[int]]) -> n.Function:
    roots = Roots(function.body or (), [p.var for p in function.params], program)
    place = {p.var: i for i, p in enumerate(function.params)}
    returns = [s for s in statements(function.body or ()) if isinstance(s, n.Return)]
    if not returns or not returns[0].values:
        return function
    found = [roots.of(v) for v in returns[0].values]
    order = list(range(len(found)))
    if all(r is not None for r in found):
        order.sort(key=lambda i: place[found[i]])  # type: ignore[index]
    if order != sorted(order):
        orders[function.name] = order
    new = _Returning(roots, order).visit_function(function)
    types = tuple(function.return_types[i] for i in order) if len(function.return_types) == len(order) else ()
    if new is function and order == sorted(order):
        return function
    return dataclasses.replace(new, return_types=types or new.return_types)


class _Returning(Rewriter):
    def __init__(self, roots: Roots, order: list[int]) -> None:
        super().__init__()
        self.roots, self.order = roots, order

    def stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        if not isinstance(node, n.Return) or len(node.values) != len(self.order):
            return node
        values = tuple(self.roots.of(v) or v for v in node.values)
        ordered = tuple(values[i] for i in self.order)
        same = all(a is b for a, b in zip(ordered, node.values, strict=True))
        return node if same else dataclasses.replace(node, values=ordered)


class _Reindexed(Rewriter):
    """Follows callees whose results have a new order."""

    def __init__(self, orders: dict[str, list[int]]) -> None:
        super().__init__()
        self.orders = orders
        self.packed: dict[n.Var, list[int]] = {}

    def define(self, var: n.Var | None) -> n.Var | None:
        if var is not None and var in self.packed and var not in self.vars:
            order = self.packed[var]
            assert isinstance(var.type, TupleType)
            rest = var.type.elements[len(order) :]
            elements = (*(var.type.elements[i] for i in order), *rest)
            self.vars[var] = dataclasses.replace(var, type=TupleType(elements))
        return super().define(var)  # type: ignore[no-any-return]

    def visit_stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        if isinstance(node, n.Assign) and isinstance(node.value, (n.FunctionCall, n.Submit)):
            order = self.orders.get(node.value.callee)
            if order is not None and isinstance(node.var.type, TupleType):
                self.packed[node.var] = order
                new_var = self.define(node.var)
                assert new_var is not None
                value = self.visit_expr(node.value)
                return dataclasses.replace(node, var=new_var, value=dataclasses.replace(value, type=new_var.type))
        return super().visit_stmt(node)

    def visit_expr(self, node: n.Expr) -> n.Expr:
        if isinstance(node, n.TupleGetItem) and isinstance(node.tuple, n.Var) and node.tuple in self.packed:
            order = self.packed[node.tuple]
            index = order.index(node.index) if node.index < len(order) else node.index
            return dataclasses.replace(node, tuple=self.vars[node.tuple], index=index)
        return super().visit_expr(node)
