"""Codes of the orchestration writer, and the one way it refuses a program: at the user's line."""

from __future__ import annotations

from typing import NoReturn

from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.span import Span

NO_FORM = "E680"
NO_KERNEL = "E681"
CLOSED_SCOPE = "E682"
UNKNOWN_RESULT = "E683"
NO_TYPE = "E684"
BAD_PREDICATE = "E685"
UNLIKE_MEMBERS = "E686"
UNKNOWN_SYMBOL = "E687"
BAD_DIRECTIONS = "E688"


def refuse(program: n.Program, code: str, message: str, span: Span | None, hint: str | None = None) -> NoReturn:
    """Raises LabError with one diagnostic that quotes the program's sources."""
    raise LabError([Diagnostic(code, message, span, hint=hint)], program.sources)
