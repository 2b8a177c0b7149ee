"""Source listings for stepping: types can be folded, and are at first where the compiler printed them in full."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pypto_lab.record.recording import Recording

DUMP_MARK = "# pypto.program"
"""How the compiler's printed programs begin."""

_ANNOTATION = re.compile(r"(?<=\w): (?=(?:pl|pld)\.[A-Z]\w*)")
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True, slots=True)
class Listing:
    """Lines from number `first` on, their types folded; `full` has those lines, by number, as they are written.
    `unfolded` says which of the two is shown at first: a kernel as its author wrote it, a printed program folded."""

    name: str
    file: str
    first: int
    lines: tuple[str, ...]
    full: Mapping[int, str]
    unfolded: bool = False

    @property
    def shown(self) -> tuple[str, ...]:
        """The lines as they are shown at first."""
        if not self.unfolded:
            return self.lines
        return tuple(self.full.get(number, line) for number, line in enumerate(self.lines, self.first))

    def data(self) -> dict[str, Any]:
        return {
            "name": self.name, "file": self.file, "first": self.first, "lines": list(self.lines),
            "full": {str(k): v for k, v in self.full.items()}, "unfolded": self.unfolded,
        }  # fmt: skip


def source_listings(recording: Recording) -> list[Listing]:
    """The kernel's own texts that the recording's statements lead to, the one with most statements first."""
    used: dict[str, int] = {}
    for statement in recording.trace.statements:
        if statement.spot is not None and statement.spot.file in recording.trace.sources:
            used[statement.spot.file] = used.get(statement.spot.file, 0) + 1
    files = sorted(used, key=lambda file: (-used[file], file))
    return [_source(file, recording.trace.sources[file]) for file in files]


def script_listing(recording: Recording) -> Listing:
    """The part of the torch script that was stepped through: without the runtime's helpers before it, and without the
    functions that another engine ran in its place (`Facts.engine`)."""
    lines = recording.trace.script.splitlines()
    own = {f.id for f in recording.trace.functions if f.file is None}
    if recording.facts.engine:
        own &= {frame.function for frame in recording.trace.frames}
    probed = [s for s in recording.trace.statements if s.function in own]
    first = max(1, min((s.line for s in probed), default=1))
    last = max((s.end_line for s in probed), default=len(lines))
    return Listing("torch", "", first, tuple(lines[first - 1 : last]), {})


def _source(file: str, text: str) -> Listing:
    lines = text.splitlines()
    short = file.replace("\\", "/").rpartition("/")[2]
    printed = text.startswith(DUMP_MARK)
    if printed:
        lines = [_narrowed(line) for line in lines]
    folded = [fold(line) for line in lines]
    full = {i: line for i, (line, cut) in enumerate(zip(lines, folded, strict=True), 1) if line != cut}
    return Listing(short, file, 1, tuple(folded), full, unfolded=not printed)


def _narrowed(line: str) -> str:
    """A line indented by two spaces a level instead of four."""
    return line[(len(line) - len(line.lstrip(" "))) // 2 :]


def fold(line: str) -> str:
    """A printed line without the types of its parameters and of the variable it assigns."""
    out, at = [], 0
    while found := _ANNOTATION.search(line, at):
        out.append(line[at : found.start()])
        at = _end_of_type(line, found.end())
    return "".join([*out, line[at:]])


def _end_of_type(line: str, start: int) -> int:
    """Where the annotation that begins at `start` ends: before ` = `, or the comma or bracket that ends it."""
    depth, quote = 0, ""
    for i in range(start, len(line)):
        c = line[i]
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in _OPEN:
            depth += 1
        elif c in _CLOSE:
            if depth == 0:
                return i
            depth -= 1
        elif depth == 0 and (c == "," or line.startswith(" = ", i)):
            return i
    return len(line)
