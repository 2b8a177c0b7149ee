"""Reads `kernel_config.py` without executing it: only the few forms a configuration is made of are understood."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.span import Span
from pypto_lab.pto.config import ENTRY_NAME, runtime_kind
from pypto_lab.pto.inspection.findings import BAD_CONFIG, NOT_THERE, UNREADABLE, warning

_TABLES = ("RUNTIME_CONFIG", "ORCHESTRATION", "KERNELS")
_DIRECTIONS = ("IN", "OUT", "INOUT")
_CORES = ("aic", "aiv")
_ROOT = "_ROOT_DIR"


@dataclass(frozen=True, slots=True)
class Kernel:
    """One entry of `KERNELS`; `span` is where it stands."""

    func_id: int
    name: str
    core: str
    source: Path
    signature: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration as it is written; `source` paths are made absolute below the file's folder."""

    runtime: str
    orchestration: Path | None
    signature: tuple[str, ...]
    kernels: tuple[Kernel, ...]
    findings: tuple[Diagnostic, ...] = field(default=())

    def kernel(self, func_id: int) -> Kernel | None:
        return next((k for k in self.kernels if k.func_id == func_id), None)


def read_config(path: Path) -> Config:
    """The configuration in a file, with what is wrong in it as findings.

    Findings are E679 for forms and values a configuration cannot have, E655 for an unknown runtime, E674 for files that
    are named and not there (W673 where the folder holds no kernel sources at all).

    Raises:
        LabError: E673 the file is no Python, E679 a table is missing or is no plain value.
    """
    text = path.read_text(encoding="utf-8")
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        span = Span(str(path), error.lineno or 1, 1, error.lineno or 1, 2)
        message = f"the configuration is no Python ({error.msg}); was the file cut off?"
        raise LabError([Diagnostic(UNREADABLE, message, span)], {str(path): text}) from None
    return _Reader(path, text, tree).config()


class _Reader:
    def __init__(self, path: Path, text: str, tree: ast.Module) -> None:
        self.path, self.text = path, text
        self.tables: dict[str, ast.expr] = {}
        self.findings: list[Diagnostic] = []
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.tables[node.targets[0].id] = node.value

    def config(self) -> Config:
        missing = [name for name in _TABLES if name not in self.tables]
        if missing:
            raise self._fault(f"the configuration has no {' and no '.join(missing)}; was the file cut off?")
        runtime_table, start_table, listed = (self.value(self.tables[name]) for name in _TABLES)
        runtime = self._member(runtime_table, "runtime", str, self.tables["RUNTIME_CONFIG"]) or ""
        self._check_runtime(runtime)
        node = self.tables["ORCHESTRATION"]
        source = self._member(start_table, "source", Path, node)
        entry = self._member(start_table, "function_name", str, node)
        if entry is not None and entry != ENTRY_NAME:
            self._find(f"the orchestration's function is `{ENTRY_NAME}`, not {entry!r}", node)
        signature = self._signature(start_table, node)
        kernels = tuple(self._kernels(listed))
        self._check_files([*([source] if source is not None else []), *(k.source for k in kernels)])
        return Config(runtime, source, signature, kernels, tuple(self.findings))

    # values

    def value(self, node: ast.expr) -> Any:
        """The value of a literal, a path below the root, a direction; raises LabError (E679) for anything else."""
        match node:
            case ast.Constant():
                return node.value
            case ast.Dict() if all(key is not None for key in node.keys):
                return {self.value(k): self.value(v) for k, v in zip(node.keys, node.values, strict=True) if k}
            case ast.List() | ast.Tuple():
                return [
                    (self.value(item), item) if isinstance(item, ast.Dict) else self.value(item) for item in node.elts
                ]
            case ast.Call(func=ast.Name(id="str"), args=[inner], keywords=[]):
                return self.value(inner)
            case ast.BinOp(op=ast.Div()):
                return Path(self.value(node.left)) / str(self.value(node.right))
            case ast.Name(id=name) if name == _ROOT:
                return self.path.parent
            case ast.Attribute(value=ast.Name(), attr=attribute):
                return attribute
            case ast.Name(id=name) if name in self.tables and name not in _TABLES:
                return self.value(self.tables[name])
        raise self._fault(f"`{ast.unparse(node)}` is no plain value; a configuration is read, never executed", node)

    def _member(self, table: Any, key: str, kind: type, node: ast.AST) -> Any:
        value = table.get(key) if isinstance(table, Mapping) else None
        if kind is Path and isinstance(value, str):
            value = Path(value)
        if not isinstance(value, kind) or isinstance(value, bool):
            self._find(f"`{key}` is {'missing' if value is None else f'{value!r}, which cannot be'}", node)
            return None
        return value

    def _signature(self, table: Any, node: ast.AST) -> tuple[str, ...]:
        listed = self._member(table, "signature", list, node) or []
        for direction in listed:
            if direction not in _DIRECTIONS:
                self._find(f"{direction!r} is no direction; there are {', '.join(_DIRECTIONS)}", node)
        return tuple(str(direction) for direction in listed)

    def _kernels(self, listed: Any) -> Iterator[Kernel]:
        ids: dict[int, str] = {}
        for item in listed if isinstance(listed, list) else []:
            if not isinstance(item, tuple):
                self._find("an entry of KERNELS is no dictionary", self.tables["KERNELS"])
                continue
            table, node = item
            members = [(k, self._member(table, k, t, node)) for k, t in _MEMBERS]
            signature = self._signature(table, node)
            if any(value is None for _, value in members):
                continue
            func_id, name, core, source = (value for _, value in members)
            if core not in _CORES:
                self._find(f"`{name}`: no core is called {core!r}; there are aic and aiv", node)
            if func_id in ids:
                self._find(f"`{name}` and `{ids[func_id]}` have the same number {func_id}", node)
            ids[func_id] = name
            yield Kernel(func_id, name, core, source, signature, self._span(node))
        if sorted(ids) != list(range(len(ids))):
            numbers = ", ".join(str(i) for i in sorted(ids))
            self._find(f"kernels are numbered from 0 without gaps, not {numbers}", self.tables["KERNELS"])

    # findings

    def _check_runtime(self, runtime: str) -> None:
        try:
            runtime_kind(runtime)
        except LabError as error:
            first = error.diagnostics[0]
            span = self._span(self.tables["RUNTIME_CONFIG"])
            self.findings.append(Diagnostic(first.code, first.message, span, hint=first.hint))

    def _check_files(self, sources: list[Path]) -> None:
        absent = [s for s in sources if not s.is_file()]
        if not absent:
            return
        shown = ", ".join(self._shown(s) for s in absent[:4]) + (" ..." if len(absent) > 4 else "")
        message = f"names {len(absent)} of {len(sources)} files that are not here: {shown}"
        span = self._span(self.tables["KERNELS"])
        kernels = self.path.parent / "kernels"
        if any(kernels.rglob("*.cpp")):
            self.findings.append(Diagnostic(NOT_THERE, message, span, hint="compile again, or copy the whole folder"))
        else:
            self.findings.append(warning("W673", message, span, "the folder holds no kernel sources at all"))

    def _shown(self, source: Path) -> str:
        folder = self.path.parent
        return source.relative_to(folder).as_posix() if source.is_relative_to(folder) else source.as_posix()

    def _find(self, message: str, node: ast.AST) -> None:
        self.findings.append(Diagnostic(BAD_CONFIG, message, self._span(node)))

    def _fault(self, message: str, node: ast.AST | None = None) -> LabError:
        span = Span(str(self.path), 1, 1, 1, 2) if node is None else self._span(node)
        return LabError([Diagnostic(BAD_CONFIG, message, span)], {str(self.path): self.text})

    def _span(self, node: ast.AST) -> Span:
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end, end_column = getattr(node, "end_lineno", line), getattr(node, "end_col_offset", column + 1)
        return Span(str(self.path), line, column + 1, end or line, (end_column or column + 1) + 1)


_MEMBERS: tuple[tuple[str, type], ...] = (("func_id", int), ("name", str), ("core_type", str), ("source", Path))
