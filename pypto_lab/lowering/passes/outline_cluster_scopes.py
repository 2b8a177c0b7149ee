"""Pass 10, OutlineClusterScopes: a cluster becomes a Group function, an SPMD scope an Spmd function, each with its
call.

Follows from: both launch functions together. The number of blocks and `sync_start` say how the launch is made, so
they move to the call; a cluster that holds nothing but an SPMD scope is a group launched on those blocks.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import FunctionType
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import typed, with_functions
from pypto_lab.lowering.names import Names
from pypto_lab.lowering.outlining import Outliner
from pypto_lab.lowering.scope_walk import replace_scopes
from pypto_lab.lowering.uses import calls_in, statements

_LAUNCHES = (n.ClusterScope, n.SpmdScope)


def run(program: n.Program, context: Context) -> n.Program:
    if not any(isinstance(s, _LAUNCHES) for f in program.functions.values() for s in statements(f.body or ())):
        return program
    outliner = Outliner.of(program)
    made: list[n.Function] = []

    def outlined(function: n.Function) -> n.Function:
        names = Names.of(function)

        def replace(scope: n.Scope, after: set[n.Var]) -> n.Body | None:
            if not isinstance(scope, _LAUNCHES):
                return None
            kind = FunctionType.Spmd if isinstance(scope, n.SpmdScope) else FunctionType.Group
            name = _name(scope, function, outliner)
            launch = _launch_of(scope)
            body = scope.body if launch is None or launch is scope else launch.body
            new = outliner.outline(scope, replace_scopes(body, replace, after), name, after, names, span=scope.span)
            made.append(typed(new.function, kind))
            return new.call if launch is None else _launched(new.call, launch)

        return dataclasses.replace(function, body=replace_scopes(function.body or (), replace))

    changed = [f if f.body is None else outlined(f) for f in program.functions.values()]
    return with_functions(program, [*changed, *made])


def _launch_of(scope: n.Scope) -> n.SpmdScope | None:
    """The scope that says on how many blocks a function is launched: the SPMD scope itself, or the one that is all a
    cluster holds (the group is launched on its blocks)."""
    if isinstance(scope, n.SpmdScope):
        return scope
    only = scope.body[0] if len(scope.body) == 1 else None
    if not isinstance(only, n.SpmdScope) or only.loop_var is not None or only.task_id is not None or only.attrs:
        return None
    return only


def _name(scope: n.Scope, function: n.Function, outliner: Outliner) -> str:
    """`<hint>_spmd`; without a hint the kernel's number is kept: `f_incore_0` is launched by `f_spmd_0`."""
    if isinstance(scope, n.ClusterScope):
        if scope.name_hint:
            return outliner.taken.fresh(scope.name_hint, 0)
        return outliner.taken.numbered(f"{function.name}_cluster_")
    callee = next(c.callee for stmt in scope.body for c in calls_in(stmt))
    head, found, number = callee.rpartition("_incore_")
    return outliner.taken.fresh(f"{head}_spmd_{number}" if found else f"{scope.name_hint or callee}_spmd", 0)


def _launched(call: n.Body, scope: n.SpmdScope) -> n.Body:
    """The call with the launch's numbers in its attributes (a Submit carries them itself)."""
    first = call[0]
    value = first.value if isinstance(first, n.Assign) else first.expr if isinstance(first, n.Eval) else None
    if not isinstance(value, n.FunctionCall):
        return call
    core_num: Any = scope.core_num.value if isinstance(scope.core_num, n.ConstInt) else scope.core_num
    attrs: dict[str, Any] = {**value.attrs, "core_num": core_num}
    if scope.sync_start:
        attrs["sync_start"] = True
    launched = dataclasses.replace(value, attrs=attrs)
    new = (
        dataclasses.replace(first, value=launched)
        if isinstance(first, n.Assign)
        else dataclasses.replace(first, expr=launched)  # type: ignore[call-arg]
    )
    return (new, *call[1:])
