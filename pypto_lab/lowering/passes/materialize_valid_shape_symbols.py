"""Pass 49, MaterializeValidShapeSymbols: a symbol in the valid shape of a worker's parameter is a parameter itself.

Follows from: a kernel learns the extents of its tensors from their descriptors, but not how much of them is valid; that
number has to be passed. Such parameters come first.
"""

from __future__ import annotations

import dataclasses

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import ArgDirection, FunctionType
from pypto_lab.ir.types import TensorType
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import ON_CORE, callees_first
from pypto_lab.lowering.uses import vars_of

_WORKERS = (*ON_CORE, FunctionType.Group, FunctionType.Spmd)


def run(program: n.Program, context: Context) -> n.Program:
    symbols = set(program.symbols.values())
    added: dict[str, list[n.Var]] = {}
    functions = dict(program.functions)
    for name in callees_first(program.functions):
        function = functions[name]
        wanted = _valid_symbols(function, symbols) if function.func_type in _WORKERS else []
        if wanted:
            added[name] = wanted
    if not added:
        return program
    for name, function in functions.items():
        mine = {s: n.Var(name=s.name, type=n.INDEX, span=function.span) for s in added.get(name, [])}
        new = _Passing(mine, added).visit_function(function) if function.body is not None else function
        params = tuple(n.Param(var=v, span=function.span) for v in mine.values())
        functions[name] = dataclasses.replace(new, params=(*params, *new.params)) if params else new
    return dataclasses.replace(program, functions=functions)


def _valid_symbols(function: n.Function, symbols: set[n.Var]) -> list[n.Var]:
    """Symbols in valid shapes of a function's tensors that are not its parameters, in order."""
    own = {p.var for p in function.params}
    found: dict[n.Var, None] = {}
    for param in function.params:
        if isinstance(param.type, TensorType):
            for extent in param.type.stated_valid or ():
                found.update({v: None for v in vars_of(extent) if v in symbols and v not in own})
    return list(found)


class _Passing(Rewriter):
    """Uses the new parameters in a function's valid shapes and passes them to its callees."""

    def __init__(self, mine: dict[n.Var, n.Var], added: dict[str, list[n.Var]]) -> None:
        super().__init__()
        self.vars.update(mine)
        self.added = added

    def expr(self, node: n.Expr) -> n.Expr:
        if isinstance(node, (n.FunctionCall, n.Submit)) and node.callee in self.added:
            first = tuple(self.vars.get(s, s) for s in self.added[node.callee])
            attrs = dict(node.attrs)
            if "arg_directions" in attrs:
                attrs["arg_directions"] = [*(ArgDirection.Scalar for _ in first), *attrs["arg_directions"]]
            return dataclasses.replace(node, args=(*first, *node.args), attrs=attrs)
        return node
