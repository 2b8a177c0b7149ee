"""Pass 8, OutlineHierarchyScopes: a `pl.at` of a level above the core group becomes a function of that level, and a
call.

Follows from: work of another level runs elsewhere; what it reads crosses as arguments, what is read after it as
results.
"""

from __future__ import annotations

import dataclasses

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import FunctionType
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import with_functions
from pypto_lab.lowering.names import Names
from pypto_lab.lowering.outlining import Outliner
from pypto_lab.lowering.scope_walk import replace_scopes
from pypto_lab.lowering.uses import statements


def run(program: n.Program, context: Context) -> n.Program:
    if not any(isinstance(s, n.HierarchyScope) for f in program.functions.values() for s in statements(f.body or ())):
        return program
    outliner = Outliner.of(program)
    made: list[n.Function] = []

    def outlined(function: n.Function) -> n.Function:
        names = Names.of(function)

        def replace(scope: n.Scope, after: set[n.Var]) -> n.Body | None:
            if not isinstance(scope, n.HierarchyScope):
                return None
            body = replace_scopes(scope.body, replace, after)
            name = outliner.taken.fresh(scope.name_hint or f"{function.name}_{scope.level.name.lower()}", 0)
            about = {"func_type": FunctionType.Opaque, "level": scope.level, "role": scope.role}
            new = outliner.outline(scope, body, name, after, names, span=scope.span, **about)
            made.append(new.function)
            return new.call

        return dataclasses.replace(function, body=replace_scopes(function.body or (), replace))

    changed = [f if f.body is None else outlined(f) for f in program.functions.values()]
    return with_functions(program, [*changed, *made])
