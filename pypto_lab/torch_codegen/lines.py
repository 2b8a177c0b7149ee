"""A generated script and the way back from its lines to IR statements and source spans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pypto_lab.ir import nodes as n
from pypto_lab.ir.span import Span


@dataclass(frozen=True, slots=True)
class ScriptLine:
    """One line of kernel code: the IR function and statement it was made from (None for the function's head)."""

    number: int
    function: str
    stmt: n.Stmt | None
    span: Span | None


@dataclass(frozen=True, slots=True)
class Script:
    """A script that runs with torch alone.

    `entry` is the name of the function to call; `lines` holds the lines of kernel code by number (the preamble's are
    not in it); `names` says, by IR function, which variable each script name stands for; `functions` gives the script
    name of each IR function.
    """

    text: str
    entry: str
    lines: Mapping[int, ScriptLine]
    functions: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, Mapping[str, n.Var]] = field(default_factory=dict)

    def line_of(self, stmt: n.Stmt) -> int | None:
        """The first script line of a statement."""
        return next((number for number, line in self.lines.items() if line.stmt is stmt), None)

    def source(self, number: int) -> str:
        """Where a script line comes from, as `file:line`; empty for a line without a source."""
        line = self.lines.get(number)
        return f"{line.span.file}:{line.span.line}" if line is not None and line.span is not None else ""

    def row(self, number: int) -> str:
        """The text of one line, without its indent."""
        rows = self.text.splitlines()
        return rows[number - 1].strip() if 1 <= number <= len(rows) else ""

    @property
    def first_kernel_line(self) -> int:
        """Number of the first line that is kernel code."""
        return min(self.lines, default=1)
