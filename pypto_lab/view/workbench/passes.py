"""The compiler's stages, from a folder of dumps or from the lab's own lowering, each compared with the one before."""

from __future__ import annotations

import difflib
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.ir.nodes import Program
from pypto_lab.ir.printer import print_program
from pypto_lab.view.graph import graph
from pypto_lab.view.workbench.changes import GraphChanges, graph_changes
from pypto_lab.view.workbench.findings import Finding, findings
from pypto_lab.view.workbench.listing import fold

_NAME = re.compile(r"(?P<number>\d+)_(?:after_)?(?P<name>\w+)\.py$")
_DEF = re.compile(r"^    def (\w+)\(")
_CONTEXT = 2
_LONGEST = 1200
"""Lines of a difference that are kept; a rewrite of the whole program says no more in full."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage. `diff` are the changed lines with some around them, their types folded; `functions` those that
    changed, came or went; `error` is the largest error of its numbers where they were measured, `message` what was
    found otherwise."""

    number: int
    name: str
    file: str
    changed: bool
    added: int
    removed: int
    diff: tuple[str, ...]
    status: str = ""
    error: float | None = None
    message: str = ""
    functions: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    def data(self) -> dict[str, Any]:
        return {
            "number": self.number, "name": self.name, "file": self.file, "changed": self.changed,
            "added": self.added, "removed": self.removed, "diff": list(self.diff),
            "status": self.status, "error": self.error, "message": self.message,
            "functions": list(self.functions), "findings": [f.data() for f in self.findings],
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Read:
    """A stage as it was found: its text, and what the lowering says of it where that is known."""

    number: int
    name: str
    file: str
    text: str
    program: Program | None = None
    functions: tuple[str, ...] | None = None
    findings: tuple[Finding, ...] = ()


class Stages(Sequence[Stage]):
    """The stages of one program in order; graphs are read and compared when they are asked for."""

    def __init__(self, found: Sequence[_Read], sweep: Any = None) -> None:
        self._found = tuple(found)
        measured = _measured(sweep)
        before = [None, *self._found[:-1]] if self._found else []
        self._stages = tuple(_stage(old, new, measured) for old, new in zip(before, self._found, strict=True))
        self._programs: dict[int, Program | None] = {}
        self._changes: dict[int, GraphChanges | None] = {}
        self._lock = threading.RLock()

    def __getitem__(self, index: Any) -> Any:
        return self._stages[index]

    def __len__(self) -> int:
        return len(self._stages)

    def text(self, index: int) -> str:
        """The program after a stage, as the compiler prints it. Raises IndexError for a stage that is not there."""
        return self._found[index].text

    def program(self, index: int) -> Program | None:
        """The program after a stage, None where its text cannot be read."""
        with self._lock:
            if index not in self._programs:
                self._programs[index] = _program(self._found[index])
            return self._programs[index]

    def changes(self, index: int) -> GraphChanges | None:
        """The graph before and after a stage as one; None for the first, an unchanged, and one that cannot be read."""
        with self._lock:
            if index not in self._changes:
                self._changes[index] = self._compared(index)
            return self._changes[index]

    def _compared(self, index: int) -> GraphChanges | None:
        stage = self._stages[index]
        if index == 0 or not stage.changed:
            return None
        before, after = self.program(index - 1), self.program(index)
        if before is None or after is None:
            return None
        return graph_changes(graph(before, max_nodes=None), graph(after, max_nodes=None), stage.functions or None)


def stages(folder: str | Path, sweep: Any = None) -> Stages:
    """The dumps of a folder in order. `sweep` is what `validate` found for it, if it was run."""
    found = []
    for path in sorted(Path(folder).glob("*.py")):
        name = _NAME.search(path.name)
        if name is not None:
            text = path.read_text(encoding="utf-8")
            found.append(_Read(int(name["number"]), name["name"], path.name, text))
    return Stages(found, sweep)


def stages_of_lowering(lowered: Any, sweep: Any = None) -> Stages:
    """The stages of the lab's own lowering (`Lowered`), printed as the compiler prints its dumps."""
    found: list[_Read] = []
    for stage in lowered.stages:
        text = getattr(stage, "text", None)
        printed = text if isinstance(text, str) else print_program(stage.program)
        changed = tuple(stage.changed)
        if found and not changed and found[-1].text != printed:
            printed = found[-1].text  # the pass manager compares structure: equal programs may print other numbers
        rows = tuple(findings(stage.findings, stage.name))
        found.append(_Read(stage.number, stage.name, stage.file_name, printed, stage.program, changed, rows))
    return Stages(found, sweep)


def _program(found: _Read) -> Program | None:
    if found.program is not None:
        return found.program
    try:
        program = read_dump(found.text, found.file)
    except LabError:
        return None
    return program if isinstance(program, Program) else None


def _stage(before: _Read | None, now: _Read, measured: Mapping[str, Any]) -> Stage:
    found = measured.get(now.file, {})
    facts = (str(found.get("status", "")), found.get("max_abs"), str(found.get("message") or ""))
    if before is None or before.text == now.text:
        changed = now.functions or ()
        return Stage(now.number, now.name, now.file, before is None or bool(changed), 0, 0, (), *facts,
                     changed if before is not None else (), now.findings)  # fmt: skip
    old_lines, new_lines = before.text.splitlines(), now.text.splitlines()
    folded = [[fold(line) for line in text] for text in (old_lines, new_lines)]
    old, new = folded if folded[0] != folded[1] else (old_lines, new_lines)  # where only types changed, they are shown
    rows = list(difflib.unified_diff(old, new, n=_CONTEXT, lineterm=""))[2:]
    added = sum(row.startswith("+") for row in rows)
    removed = sum(row.startswith("-") for row in rows)
    if len(rows) > _LONGEST:
        rows = [*rows[:_LONGEST], f"@@ {len(rows) - _LONGEST} more lines @@"]
    functions = now.functions if now.functions is not None else _differing(old_lines, new_lines)
    return Stage(now.number, now.name, now.file, True, added, removed, tuple(rows), *facts, functions, now.findings)


def _differing(before: Sequence[str], after: Sequence[str]) -> tuple[str, ...]:
    """Functions whose text differs, in the new order, those gone last."""
    old, new = dict(_functions(before)), dict(_functions(after))
    return (*(name for name, body in new.items() if old.get(name) != body), *(name for name in old if name not in new))


def _functions(lines: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each function of a printed program with its lines."""
    name, body = "", list[str]()
    for line in lines:
        found = _DEF.match(line)
        if found:
            if name:
                yield name, tuple(body)
            name, body = found[1], []
        body.append(line)
    if name:
        yield name, tuple(body)


def _measured(sweep: Any) -> dict[str, Mapping[str, Any]]:
    if sweep is None:
        return {}
    plain = sweep.to_json() if hasattr(sweep, "to_json") else sweep
    return {stage["file"]: stage for stage in plain.get("stages", ())}
