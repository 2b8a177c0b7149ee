"""Copies of code with variables of their own, so that two copies can stand in one program."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pypto_lab.ir import nodes as n
from pypto_lab.ir.types import ShapedType
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
    own = with_own_parameters(copier, [p.var for p in function.params])
    params = tuple(dataclasses.replace(p, var=var) for p, var in zip(function.params, own, strict=True))
    returns = tuple(copier.type(t) for t in function.return_types)
    return dataclasses.replace(function, name=name, params=params, return_types=returns, body=copier.visit_body(body))


def with_own_parameters(copier: Rewriter, params: Sequence[n.Var]) -> list[n.Var]:
    """New variables for parameters, which `copier` puts in their place. Scalars come first: the shape of a tensor may
    name a scalar that stands after it."""
    for var in sorted(params, key=lambda v: isinstance(v.type, ShapedType)):
        copier.vars[var] = n.Var(name=var.name, type=copier.type(var.type), span=var.span)
    return [new for var in params if isinstance(new := copier.vars[var], n.Var)]
