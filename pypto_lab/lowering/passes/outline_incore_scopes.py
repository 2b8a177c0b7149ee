"""Pass 9, OutlineIncoreScopes: a CORE_GROUP scope becomes an InCore function, and a call.

Follows from: the scope says which statements run on one core group. Its split and slot number become function
attributes, `as tid` and `deps` make the call a Submit; the function it stood in orchestrates from here on. An SPMD
scope holds its work directly: that work is a function too, which reads its block index itself.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import FunctionType, SplitMode
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import typed, with_functions
from pypto_lab.lowering.names import Names
from pypto_lab.lowering.outlining import Outliner
from pypto_lab.lowering.scope_walk import replace_scopes
from pypto_lab.lowering.uses import calls_in, statements

_HOLDS_WORK = (n.InCoreScope, n.SpmdScope, n.SplitAivScope)
_OUTSIDE_CORE = (FunctionType.Opaque, FunctionType.Orchestration, FunctionType.Graph)


def run(program: n.Program, context: Context) -> n.Program:
    outliner = Outliner.of(program)
    made: list[n.Function] = []
    changed: list[n.Function] = []
    for function in program.functions.values():
        holds = any(isinstance(s, _HOLDS_WORK) for s in statements(function.body or ()))
        if not holds or function.func_type not in _OUTSIDE_CORE:
            changed.append(function)
            continue
        body = _Outlining(outliner, function, made, context).body()
        new = dataclasses.replace(function, body=body)
        changed.append(typed(new, FunctionType.Orchestration) if new.func_type is FunctionType.Opaque else new)
    return with_functions(program, [*changed, *made]) if made else program


class _Outlining:
    def __init__(self, outliner: Outliner, function: n.Function, made: list[n.Function], context: Context) -> None:
        self.outliner = outliner
        self.function = function
        self.made = made
        self.context = context
        self.names = Names.of(function)

    def body(self) -> n.Body:
        return replace_scopes(self.function.body or (), self.replace)

    def replace(self, scope: n.Scope, after: set[n.Var]) -> n.Body | None:
        match scope:
            case n.InCoreScope():
                return self.outlined(scope, scope.body, scope.split, after)
            case n.SplitAivScope():
                return self.outlined(scope, (scope,), None, after)
            case n.SpmdScope() if not _is_dispatch(scope.body):
                return (self.spmd(scope, after),)
        return None

    def spmd(self, scope: n.SpmdScope, after: set[n.Var]) -> n.Stmt:
        """The scope with its work in a function of its own."""
        body = scope.body
        if len(body) == 1 and isinstance(body[0], n.InCoreScope):
            body = body[0].body
        if scope.loop_var is not None:
            index = n.OpCall(op="tile.get_block_idx", args=(), type=n.INDEX, span=scope.span)
            body = (n.Assign(var=scope.loop_var, value=index, span=scope.span), *body)
        plain = n.InCoreScope(body=body, span=scope.span, name_hint=scope.name_hint)
        slot_number = {k: v for k, v in scope.attrs.items() if k == "slot_num"}
        plain = dataclasses.replace(plain, attrs=slot_number)
        call = self.outlined(plain, body, scope.split, after)
        attrs = {k: v for k, v in scope.attrs.items() if k != "slot_num"}
        return dataclasses.replace(scope, body=call, loop_var=None, split=None, attrs=attrs)

    def outlined(self, scope: n.Scope, body: n.Body, split: SplitMode | None, after: set[n.Var]) -> n.Body:
        name = self.name(scope)
        attrs: dict[str, Any] = {}
        if split is not None and split is not SplitMode.NONE:
            attrs["split"] = split
        if scope.attrs.get("slot_num") is not None:
            attrs["slot_num"] = scope.attrs["slot_num"]
        new = self.outliner.outline(scope, body, name, after, self.names, span=scope.span, attrs=attrs)
        self.made.append(typed(new.function, FunctionType.InCore))
        return new.call

    def name(self, scope: n.Scope) -> str:
        if scope.name_hint:
            return self.outliner.taken.fresh(scope.name_hint, 0)
        return self.outliner.taken.numbered(f"{self.function.name}_incore_")


def _is_dispatch(body: n.Body) -> bool:
    """Whether an SPMD scope launches a function instead of holding work: one call and the unpacking of its results."""
    calls = list(calls_in_body(body))
    plain = all(
        isinstance(s, n.Eval) or (isinstance(s, n.Assign) and isinstance(s.value, (n.FunctionCall, n.TupleGetItem)))
        for s in body
    )
    return len(calls) == 1 and plain


def calls_in_body(body: n.Body) -> list[n.FunctionCall | n.Submit]:
    return [c for stmt in body for c in calls_in(stmt)]
