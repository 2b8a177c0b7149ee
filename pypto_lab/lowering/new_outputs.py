"""Giving a function new Out parameters, and its callers the tensors to pass: an orchestrator creates them, a wrapper
(Spmd, Group) takes them as parameters itself."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import FunctionType
from pypto_lab.ir.types import TensorType
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering.functions import callees_first
from pypto_lab.lowering.names import Names
from pypto_lab.lowering.tile_forms import dims
from pypto_lab.lowering.uses import calls_in
from pypto_lab.ops.record import make_call

WRAPPERS = (FunctionType.Spmd, FunctionType.Group)


@dataclass(frozen=True, slots=True)
class NewOutput:
    """A parameter a function has got. `attrs` are further keywords of the `tensor.create` its callers write, `base`
    the name they give it, numbered."""

    param: n.Param
    attrs: tuple[tuple[str, object], ...] = ()
    base: str | None = None


def add_outputs(program: n.Program, outputs: dict[str, list[NewOutput]]) -> n.Program:
    """The program with every call of the functions in `outputs` passing their new parameters. The functions
    themselves have them already."""
    if not outputs:
        return program
    known = dict(outputs)
    functions = dict(program.functions)
    for name, function in callees_first(program.functions).items():
        mine = [c for c in calls_in(function) if c.callee in known]
        if function.body is None or not mine:
            continue
        if function.func_type in WRAPPERS:
            functions[name], known[name] = _wrapped(function, known)
        else:
            functions[name] = _Passing(Names.of(function), known).visit_function(function)
    return dataclasses.replace(program, functions=functions)


def _wrapped(function: n.Function, known: dict[str, list[NewOutput]]) -> tuple[n.Function, list[NewOutput]]:
    """A wrapper hands its own new parameters on; members of one group share those of the same name."""
    names = Names.of(function)
    shared: dict[str, NewOutput] = {}
    for call in calls_in(function):
        for output in known.get(call.callee, []):
            if output.param.name not in shared:
                name = names.fresh(output.param.name)
                var = n.Var(name=name, type=output.param.type, span=output.param.span)
                param = dataclasses.replace(output.param, var=var)
                shared[output.param.name] = dataclasses.replace(output, param=param)
    handed = {k: v.param.var for k, v in shared.items()}
    new = _Handing(known, handed).visit_function(function)
    params = (*new.params, *(o.param for o in shared.values()))
    return dataclasses.replace(new, params=params), list(shared.values())


class _Handing(Rewriter):
    def __init__(self, known: dict[str, list[NewOutput]], handed: dict[str, n.Var]) -> None:
        super().__init__()
        self.known, self.handed = known, handed

    def expr(self, node: n.Expr) -> n.Expr:
        if isinstance(node, (n.FunctionCall, n.Submit)) and node.callee in self.known:
            more = tuple(self.handed[o.param.name] for o in self.known[node.callee])
            return dataclasses.replace(node, args=(*node.args, *more))
        return node


class _Passing(Rewriter):
    """Creates a tensor for each new output before the statement that calls."""

    def __init__(self, names: Names, known: dict[str, list[NewOutput]]) -> None:
        super().__init__()
        self.names, self.known = names, known
        self.made: list[n.Stmt] = []

    def stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        if isinstance(node, (n.Assign, n.Eval)) and self.made:
            made, self.made = self.made, []
            return (*made, node)
        return node

    def expr(self, node: n.Expr) -> n.Expr:
        if not isinstance(node, (n.FunctionCall, n.Submit)) or node.callee not in self.known:
            return node
        more = []
        for output in self.known[node.callee]:
            type_ = output.param.type
            assert isinstance(type_, TensorType)
            call = make_call("tensor.create", dims(type_.shape), dtype=type_.dtype, **dict(output.attrs))
            call = dataclasses.replace(call, span=node.span)
            name = self.names.numbered(output.base) if output.base else self.names.fresh(output.param.name)
            var = n.Var(name=name, type=type_, span=node.span)
            self.made.append(n.Assign(var=var, value=call, span=node.span))
            more.append(var)
        return dataclasses.replace(node, args=(*node.args, *more))
