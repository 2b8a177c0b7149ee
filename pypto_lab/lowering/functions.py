"""Functions of a program as a whole: their order, replacing them, and which parameters they write."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import FunctionType, Level, Role
from pypto_lab.lowering.uses import calls_in

ON_CORE = (FunctionType.InCore, FunctionType.AIC, FunctionType.AIV)
IMPLIED: Mapping[FunctionType, tuple[Level | None, Role | None]] = {
    FunctionType.Orchestration: (Level.CHIP, Role.Orchestrator),
    FunctionType.Graph: (Level.CHIP, Role.Orchestrator),
    FunctionType.InCore: (Level.CHIP_DIE, Role.SubWorker),
    FunctionType.AIC: (Level.AIC, Role.SubWorker),
    FunctionType.AIV: (Level.AIV, Role.SubWorker),
    FunctionType.Group: (Level.CORE_GROUP, Role.SubWorker),
    FunctionType.Spmd: (None, None),
}
"""Level and role that follow from a function's type (language.md 1.4)."""


def typed(function: n.Function, func_type: FunctionType) -> n.Function:
    """The function with another type, and the level and role that follow from it; workers print without `self`."""
    level, role = IMPLIED[func_type]
    has_self = role is not Role.SubWorker
    return dataclasses.replace(function, func_type=func_type, level=level, role=role, has_self=has_self)


def map_bodies(program: n.Program, change: Callable[[n.Function], n.Function]) -> n.Program:
    """The program with `change` applied to every function that has a body; the same program when nothing changed."""
    functions = {name: f if f.body is None else change(f) for name, f in program.functions.items()}
    if all(functions[name] is f for name, f in program.functions.items()):
        return program
    return dataclasses.replace(program, functions=functions)


def with_functions(program: n.Program, functions: Iterable[n.Function]) -> n.Program:
    """The program with these functions, callees first."""
    table = {f.name: f for f in functions}
    return dataclasses.replace(program, functions=callees_first(table))


def callees_first(functions: Mapping[str, n.Function]) -> dict[str, n.Function]:
    """Functions so that each comes after those it calls; names in alphabetical order where that leaves a choice."""
    ordered: dict[str, n.Function] = {}
    entered: set[str] = set()

    def visit(name: str) -> None:
        if name in entered or name not in functions:
            return
        entered.add(name)
        for callee in sorted({c.callee for c in calls_in(functions[name])}):
            visit(callee)
        ordered[name] = functions[name]

    for name in sorted(functions):
        visit(name)
    return ordered
