"""Copies of code with variables of their own, so that two copies can stand in one program."""

from __future__ import annotations

import dataclasses

from pypto_lab.ir import nodes as n
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering.names import Names
from pypto_lab.lowering.uses import defined_in


class Copier(Rewriter):
    """Gives every variable the body defines a new identity; names stay, or become fresh in `names`."""

    def __init__(self, body: n.Body, names: Names | None = None) -> None:
        super().__init__()
        self.own = set(defined_in(body))
        self.names = names

    def define(self, var: n.Var | None) -> n.Var | None:
        if var is None or var not in self.own or var in self.vars:
            return super().define(var)  # type: ignore[no-any-return]
        name = self.names.fresh(var.name) if self.names is not None else var.name
        changes: dict[str, object] = {"name": name, "type": self.type(var.type)}
        if isinstance(var, n.IterArg):
            changes["init_value"] = self.visit_expr(var.init_value)
        new = dataclasses.replace(var, **changes)  # type: ignore[arg-type]
        self.vars[var] = new
        return new


def copied_function(function: n.Function, name: str) -> n.Function:
    """The function under another name, with parameters and locals of its own."""
    body = function.body or ()
    copier = Copier(body)
    params = []
    for param in function.params:
        var = n.Var(name=param.var.name, type=copier.type(param.var.type), span=param.var.span)
        copier.vars[param.var] = var
        params.append(dataclasses.replace(param, var=var))
    return dataclasses.replace(function, name=name, params=tuple(params), body=copier.visit_body(body))
