"""Making a function of a scope's body: parameters from what it reads, results from what is read after it.

Shared by the passes 8 to 10. A tensor parameter is Out where the body writes it, InOut where it also reads it; a result
that is a written parameter is returned as the parameter itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.types import ScalarType, TensorType, TupleType, Type
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering.copying import with_own_parameters
from pypto_lab.lowering.memory_effects import Roots, directions_of
from pypto_lab.lowering.names import Names
from pypto_lab.lowering.uses import defined_in, live_in, read_in, type_vars


@dataclass(slots=True)
class Outlined:
    """A new function, and the statements that call it where the scope stood."""

    function: n.Function
    call: n.Body


@dataclass(slots=True)
class Outliner:
    """Outlines scopes of one program. `taken` are the names of its functions."""

    program: n.Program
    taken: Names
    symbols: set[n.Var] = field(default_factory=set)

    @staticmethod
    def of(program: n.Program) -> Outliner:
        return Outliner(program, Names(set(program.functions)), set(program.symbols.values()))

    def outline(
        self, scope: n.Scope, body: n.Body, name: str, after: set[n.Var], names: Names, **about: Any
    ) -> Outlined:
        """The function `name` with `body`, and its call. `after` are variables read after the scope; `about` are
        further fields of the function."""
        inputs = self._inputs(body)
        outputs = [v for v in defined_in(body) if v in after and v is not scope.task_id]
        function, kept = self._function(body, inputs, outputs, name, about)
        call = self._call(scope, function, inputs, kept, names)
        return Outlined(function, call)

    def _inputs(self, body: n.Body) -> list[n.Var]:
        """What a body takes: the variables it reads and those their shapes name. A dynamic dimension is one of them
        unless a tensor among them shows it, having it as an extent."""
        found = _with_dims(live_in(body))
        shown = {d for v in found if isinstance(v.type, TensorType) for d in v.type.shape}
        return [v for v in found if v not in self.symbols or v not in shown]

    def _function(
        self, body: n.Body, inputs: list[n.Var], outputs: list[n.Var], name: str, about: Mapping[str, Any]
    ) -> tuple[n.Function, list[n.Var]]:
        copy = Rewriter()
        params = with_own_parameters(copy, inputs)
        for var in outputs:
            if not isinstance(var, n.IterArg):
                copy.vars[var] = n.Var(name=var.name, type=copy.type(var.type), span=var.span)
        inner_body = copy.visit_body(body)
        roots = Roots(inner_body, params, self.program)
        results = []
        for var in outputs:
            inner_var = copy.vars[var]
            assert isinstance(inner_var, n.Var)
            results.append(roots.of(inner_var) or inner_var)
        if results and not (inner_body and isinstance(inner_body[-1], n.Return)):
            inner_body = (*inner_body, n.Return(values=tuple(results)))
        directions = directions_of(inner_body, params, self.program)
        function = n.Function(
            name=name,
            params=tuple(n.Param(var=p, direction=directions[p], span=p.span) for p in params),
            return_types=tuple(_boundary(copy.type(v.type)) for v in outputs),
            body=inner_body,
            **about,
        )
        return function, outputs

    def _call(
        self, scope: n.Scope, function: n.Function, inputs: list[n.Var], outputs: list[n.Var], names: Names
    ) -> n.Body:
        results = tuple(v.type for v in outputs)
        if scope.task_id is not None or scope.attrs.get("deps"):
            return self._submit(scope, function, inputs, outputs, names)
        type_: Type = results[0] if len(results) == 1 else TupleType(results)
        call = n.FunctionCall(callee=function.name, args=tuple(inputs), type=type_, span=scope.span)
        if not outputs:
            return (n.Eval(expr=call, span=scope.span),)
        if len(outputs) == 1:
            return (n.Assign(var=outputs[0], value=call, span=scope.span),)
        return _unpacked(call, outputs, names, scope)

    def _submit(
        self, scope: n.Scope, function: n.Function, inputs: list[n.Var], outputs: list[n.Var], names: Names
    ) -> n.Body:
        """The call of a scope that waits for tasks or is waited for."""
        task = ScalarType(dtypes.TASK_ID)
        attrs = dict(scope.attrs)
        sync = isinstance(scope, n.SpmdScope) and scope.sync_start
        call = n.Submit(
            callee=function.name,
            args=tuple(inputs),
            deps=tuple(attrs.pop("deps", ())),
            dumps=tuple(attrs.pop("dumps", ())),
            core_num=scope.core_num if isinstance(scope, n.SpmdScope) else None,
            sync_start=sync,
            allow_early_resolve=bool(attrs.pop("allow_early_resolve", False)),
            predicate=attrs.pop("predicate", None),
            type=TupleType((*(v.type for v in outputs), task)),
            span=scope.span,
        )
        task_id = scope.task_id or n.Var(name=names.fresh("task"), type=task, span=scope.span)
        return _unpacked(call, [*outputs, task_id], names, scope)


def _with_dims(inputs: Iterable[n.Var]) -> list[n.Var]:
    """Variables a function takes, and after them the ones their shapes name: a kernel knows the shapes of its
    tensors."""
    found = dict.fromkeys(inputs)
    for var in list(found):
        found.update(dict.fromkeys(type_vars(var.type)))
    return list(found)


def _unpacked(call: n.FunctionCall | n.Submit, outputs: list[n.Var], names: Names, scope: n.Scope) -> n.Body:
    packed = n.Var(name=names.numbered("ret__tmp_v"), type=call.type, span=scope.span)
    items = tuple(
        n.Assign(var=v, value=n.TupleGetItem(tuple=packed, index=i, type=v.type, span=scope.span), span=scope.span)
        for i, v in enumerate(outputs)
    )
    return (n.Assign(var=packed, value=call, span=scope.span), *items)


def _boundary(type_: Type) -> Type:
    """A type as it crosses a function's boundary: without memory references."""
    if isinstance(type_, TensorType) and type_.memref is not None:
        return dataclasses.replace(type_, memref=None)
    return type_


def read_after(body: Iterable[n.Stmt], outside: set[n.Var]) -> list[set[n.Var]]:
    """For each statement of a body, the variables read after it: in the rest of the body and `outside`."""
    stmts = list(body)
    result: list[set[n.Var]] = []
    later = set(outside)
    for stmt in reversed(stmts):
        result.append(set(later))
        later |= set(read_in((stmt,)))
    return result[::-1]
