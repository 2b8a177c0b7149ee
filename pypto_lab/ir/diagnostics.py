"""Diagnostics: what is wrong, where, and what to write instead; and the one exception that carries them."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from pypto_lab.ir.span import Span


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Label:
    """A secondary place with a few words on what it has to do with the finding."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `code` is E0xx syntax, E1xx types, E2xx names, E3xx operations, W warnings, N notes."""

    code: str
    message: str
    span: Span | None = None
    severity: Severity = Severity.ERROR
    labels: tuple[Label, ...] = ()
    hint: str | None = None
    note: str | None = None

    def render(self, sources: Mapping[str, str] | None = None) -> str:
        """Plain text: headline, the source line underlined, labels, hint and note."""
        lines = [f"{self.severity.value}[{self.code}]: {self.message}"]
        if self.span is not None:
            lines += _excerpt(self.span, "", sources, "^")
        for label in self.labels:
            lines += _excerpt(label.span, label.text, sources, "-")
        if self.hint:
            lines.append(f"  help: {self.hint}")
        if self.note:
            lines.append(f"  note: {self.note}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        span = self.span
        return {
            "code": self.code,
            "severity": self.severity.value,
            "message": self.message,
            "file": span.file if span else None,
            "line": span.line if span else None,
            "column": span.column if span else None,
            "end_line": span.end_line if span else None,
            "end_column": span.end_column if span else None,
            "hint": self.hint,
            "note": self.note,
            "labels": [{"line": lb.span.line, "column": lb.span.column, "text": lb.text} for lb in self.labels],
        }


class LabError(Exception):
    """A user's mistake, with every finding of the run. `str()` is the rendered text, never a Python traceback."""

    def __init__(self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, str] | None = None) -> None:
        self.diagnostics = tuple(diagnostics)
        self.sources = dict(sources or {})
        super().__init__(render_all(self.diagnostics, self.sources))


class OpError(Exception):
    """Raised by an op's type rule. `argument` says which argument is at fault (index into the op's arguments, or a
    keyword name), so that the front end can underline it; `also` names further arguments to label."""

    def __init__(
        self,
        message: str,
        *,
        argument: int | str | None = None,
        hint: str | None = None,
        code: str = "E301",
        also: Mapping[int | str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.argument, self.hint, self.code, self.also = message, argument, hint, code, dict(also or {})


def render_all(diagnostics: Iterable[Diagnostic], sources: Mapping[str, str] | None = None) -> str:
    return "\n\n".join(d.render(sources) for d in diagnostics)


def nearest(name: str, candidates: Iterable[str], limit: int = 3) -> list[str]:
    """Names close to `name`, best first."""
    pool = {c.lower(): c for c in candidates}
    return [pool[m] for m in difflib.get_close_matches(name.lower(), list(pool), n=limit, cutoff=0.6)]


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """A ready hint naming the nearest candidates, or None."""
    names = nearest(name, candidates)
    return "did you mean " + " or ".join(f"`{c}`" for c in names) + "?" if names else None


def display_width(text: str) -> int:
    """Terminal columns of a text: wide (CJK) characters take two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _excerpt(span: Span, text: str, sources: Mapping[str, str] | None, mark: str) -> list[str]:
    head = f"  --> {span.file}:{span.line}:{span.column}"
    source = (sources or {}).get(span.file)
    rows = source.splitlines() if source is not None else []
    if not 1 <= span.line <= len(rows):
        return [head + (f" {text}" if text else "")]
    row = rows[span.line - 1].expandtabs(1)
    end = span.end_column if span.end_line == span.line else len(row) + 1
    before = display_width(row[: span.column - 1])
    length = max(1, display_width(row[span.column - 1 : end - 1]))
    gutter = f"{span.line:>5} | "
    underline = " " * (len(gutter) - 2) + "| " + " " * before + mark * length + (f" {text}" if text else "")
    return [head, gutter + row, underline]
