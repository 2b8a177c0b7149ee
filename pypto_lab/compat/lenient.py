"""A file read statement by statement: what cannot be executed has no value, and every branch is taken.

For looking at kernels that a plain run of the file does not make: a draft that no longer loads, the other branch of a
switch, a builder that nothing calls.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from pypto_lab.compat.loader import WORLD_ATTRIBUTE, World, existing_file, new_module, syntax_error
from pypto_lab.frontend.kernels import Unresolved
from pypto_lab.ir.diagnostics import LabError


def load_leniently(path: str | Path, builders: Collection[str] = ()) -> ModuleType:
    """Executes a file's statements one by one, both branches of each `if`; names that a failing statement assigns or
    imports are :class:`~pypto_lab.frontend.kernels.Unresolved`.

    The bodies of the Python functions named in `builders` are executed likewise, with their parameters' defaults.
    Raises LabError E503 when the file is missing, E510 when it is not Python.
    """
    file = existing_file(path)
    text = file.read_text(encoding="utf-8")
    try:
        tree = ast.parse(text, str(file))
    except (SyntaxError, ValueError) as error:
        raise syntax_error(error, str(file), text) from None
    world = World(file)
    module = new_module(file, file.stem)
    setattr(module, WORLD_ATTRIBUTE, world)
    with world:
        reader = _Reader(str(file), frozenset(builders))
        reader.run(tree.body, module.__dict__)
        for function, names in reader.found:
            reader.run(function.body, _inside(function, names))
    return module


class _Reader:
    """Executes statements in a namespace, whatever they do."""

    def __init__(self, file: str, builders: frozenset[str]) -> None:
        self.file = file
        self.builders = builders
        self.found: list[tuple[ast.FunctionDef, dict[str, Any]]] = []

    def run(self, statements: Sequence[ast.stmt], names: dict[str, Any]) -> None:
        for statement in statements:
            self._statement(statement, names)

    def _statement(self, statement: ast.stmt, names: dict[str, Any]) -> None:
        match statement:
            case ast.If():
                if not _is_main_guard(statement):
                    self.run(statement.body, names)
                    self.run(statement.orelse, names)
            case ast.Try():
                self.run([*statement.body, *statement.orelse, *statement.finalbody], names)
            case ast.Return():
                return
            case _:
                self._execute(statement, names)
                if isinstance(statement, ast.FunctionDef) and statement.name in self.builders:
                    self.found.append((statement, names))

    def _execute(self, statement: ast.stmt, names: dict[str, Any]) -> None:
        try:
            exec(compile(ast.Module(body=[statement], type_ignores=[]), self.file, "exec"), names)
        except (Exception, LabError) as error:
            reason = f"line {statement.lineno} stopped with {type(error).__name__}: {error}".splitlines()[0]
            for name in _bound_names(statement):
                names.setdefault(name, Unresolved(name, reason))


def _inside(function: ast.FunctionDef, names: dict[str, Any]) -> dict[str, Any]:
    """The names a function's body sees: those around it and its parameters."""
    inner = dict(names)
    made = names.get(function.name)
    positional = getattr(made, "__defaults__", None) or ()
    parameters = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    defaults = dict(zip(parameters[len(parameters) - len(positional) :], positional, strict=True))
    defaults |= getattr(made, "__kwdefaults__", None) or {}
    for name in (*parameters, *(a.arg for a in function.args.kwonlyargs)):
        inner[name] = defaults.get(name, Unresolved(name, f"it is a parameter of `{function.name}`"))
    return inner


def _is_main_guard(statement: ast.If) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test))


def _bound_names(statement: ast.stmt) -> list[str]:
    """Names a statement would have bound."""
    names: list[str] = [statement.name] if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) else []
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names += [(a.asname or a.name).partition(".")[0] for a in node.names]
    return names
