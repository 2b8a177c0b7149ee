"""Codes of the check of a build folder, and how its findings are made."""

from __future__ import annotations

from pypto_lab.ir.diagnostics import Diagnostic, Severity
from pypto_lab.ir.span import Span

UNREADABLE = "E673"
NOT_THERE = "E674"
BAD_ENTRY = "E675"
BAD_SUBMIT = "E676"
BAD_META = "E677"
LOST_CARRY = "E678"
BAD_CONFIG = "E679"
NOT_COMPLETE = "W673"
NEVER_READ = "W678"


def warning(code: str, message: str, span: Span | None = None, hint: str | None = None) -> Diagnostic:
    return Diagnostic(code, message, span, Severity.WARNING, hint=hint)


def line_span(file: str, text: str, offset: int) -> Span:
    """The line of a text that holds an offset."""
    line = text.count("\n", 0, offset) + 1
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    length = (len(text) if end < 0 else end) - start
    return Span(file, line, 1, line, length + 1)
