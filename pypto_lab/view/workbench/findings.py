"""Findings of all kinds (diagnostics, and what a machine found while it ran) as rows of one list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pypto_lab.ir.diagnostics import Diagnostic, Severity

_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """One row. `where` says what found it: the kernel's reader, a pass, a run."""

    diagnostic: Diagnostic
    where: str = ""
    times: int = 1

    def data(self) -> dict[str, Any]:
        d, span = self.diagnostic, self.diagnostic.span
        return {
            "severity": d.severity.value, "rule": d.code, "message": d.message, "hint": d.hint or "",
            "note": d.note or "", "where": self.where, "times": self.times,
            "file": span.file if span is not None else "", "line": span.line if span is not None else 0,
        }  # fmt: skip


def findings(found: Iterable[Any], where: str = "") -> list[Finding]:
    """Diagnostics, or objects with a `diagnostic()` (a machine's findings); anything else is left out."""
    out: list[Finding] = []
    for item in found:
        if isinstance(item, Finding):
            out.append(item)
        elif isinstance(item, Diagnostic):
            out.append(Finding(item, where))
        elif callable(make := getattr(item, "diagnostic", None)):
            out.append(Finding(make(), where, int(getattr(item, "times", 1))))
    return out


def in_order(rows: Iterable[Finding]) -> list[Finding]:
    """Each finding once: errors first, then warnings, then notes; as found within each."""
    unique: dict[tuple[Any, ...], Finding] = {}
    for row in rows:
        d = row.diagnostic
        unique.setdefault((d.code, d.message, d.span), row)
    return sorted(unique.values(), key=lambda row: _ORDER[row.diagnostic.severity])
