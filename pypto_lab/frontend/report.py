"""Collecting findings of one reading: report and go on, so that one run shows every mistake of a kernel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pypto_lab.ir.diagnostics import Diagnostic, Label, LabError, Severity
from pypto_lab.ir.span import Span


class Abandoned(Exception):
    """The expression or statement at hand was given up; its diagnostic is already reported."""


@dataclass
class Reporter:
    """Diagnostics of one program, in the order found, each place and code once."""

    sources: dict[str, str] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    unresolved: dict[str, Span] = field(default_factory=dict)
    """Where each Python name without a value was first used."""

    def add(self, diagnostic: Diagnostic) -> None:
        same = (diagnostic.code, diagnostic.span, diagnostic.message)
        if all((d.code, d.span, d.message) != same for d in self.diagnostics):
            self.diagnostics.append(diagnostic)

    def error(
        self,
        code: str,
        message: str,
        span: Span | None,
        *,
        hint: str | None = None,
        labels: Iterable[Label] = (),
        note: str | None = None,
    ) -> None:
        self.add(Diagnostic(code, message, span, Severity.ERROR, tuple(labels), hint, note))

    def warn(
        self,
        code: str,
        message: str,
        span: Span | None,
        *,
        hint: str | None = None,
        labels: Iterable[Label] = (),
        note: str | None = None,
    ) -> None:
        self.add(Diagnostic(code, message, span, Severity.WARNING, tuple(labels), hint, note))

    def remark(self, code: str, message: str, span: Span | None) -> None:
        self.add(Diagnostic(code, message, span, Severity.NOTE))

    @property
    def errors(self) -> list[Diagnostic]:
        return [d for d in self.diagnostics if d.severity is Severity.ERROR]

    @property
    def notes(self) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self.diagnostics if d.severity is not Severity.ERROR)

    def raise_errors(self) -> None:
        """Raises LabError with every finding when at least one is an error."""
        if self.errors:
            ordered = sorted(self.diagnostics, key=lambda d: (d.severity is not Severity.ERROR, _place(d)))
            raise LabError(ordered, self.sources)


def _place(diagnostic: Diagnostic) -> tuple[str, int, int]:
    span = diagnostic.span
    return ("", 0, 0) if span is None else (span.file, span.line, span.column)
