"""A folder of compiler dumps as a list of stages, each compared with the one before."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pypto_lab.view.workbench.listing import fold

_NAME = re.compile(r"(?P<number>\d+)_(?:after_)?(?P<name>\w+)\.py$")
_CONTEXT = 2
_LONGEST = 1200
"""Lines of a difference that are kept; a rewrite of the whole program says no more in full."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One dump. `diff` are the changed lines with some around them, their types folded; `error` is the largest error
    of its numbers where they were measured, `message` what was found otherwise."""

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

    def data(self) -> dict[str, Any]:
        return {
            "number": self.number, "name": self.name, "file": self.file, "changed": self.changed,
            "added": self.added, "removed": self.removed, "diff": list(self.diff),
            "status": self.status, "error": self.error, "message": self.message,
        }  # fmt: skip


def stages(folder: str | Path, sweep: Any = None) -> list[Stage]:
    """The dumps of a folder in order. `sweep` is what `validate` found for it, if it was run."""
    measured = _measured(sweep)
    out: list[Stage] = []
    before: list[str] = []
    for path in sorted(Path(folder).glob("*.py")):
        found = _NAME.search(path.name)
        if found is None:
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        out.append(_stage(int(found["number"]), found["name"], path.name, before, lines, not out, measured))
        before = lines
    return out


def _stage(
    number: int, name: str, file: str, before: list[str], lines: list[str], first: bool, measured: Mapping[str, Any]
) -> Stage:
    found = measured.get(file, {})
    facts = (str(found.get("status", "")), found.get("max_abs"), str(found.get("message") or ""))
    if first or before == lines:
        return Stage(number, name, file, first, 0, 0, (), *facts)
    folded = [[fold(line) for line in text] for text in (before, lines)]
    old, new = folded if folded[0] != folded[1] else (before, lines)  # where only types changed, these are shown
    rows = list(difflib.unified_diff(old, new, n=_CONTEXT, lineterm=""))[2:]
    added = sum(row.startswith("+") for row in rows)
    removed = sum(row.startswith("-") for row in rows)
    if len(rows) > _LONGEST:
        rows = [*rows[:_LONGEST], f"@@ {len(rows) - _LONGEST} more lines @@"]
    return Stage(number, name, file, True, added, removed, tuple(rows), *facts)


def _measured(sweep: Any) -> dict[str, Mapping[str, Any]]:
    if sweep is None:
        return {}
    plain = sweep.to_json() if hasattr(sweep, "to_json") else sweep
    return {stage["file"]: stage for stage in plain.get("stages", ())}
