"""Breakpoints as they travel between a `Session` and the browser: plain data with the steps at which each stops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto_lab.ir.diagnostics import LabError
from pypto_lab.record.breakpoints import Breakpoint, breakpoint_of

if TYPE_CHECKING:
    from pypto_lab.record.breakpoints import Steps
    from pypto_lab.record.recording import Recording
    from pypto_lab.record.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class AtSteps(Breakpoint):
    """Stops at steps that were found in the browser: a line of the script, or a value that crosses a number."""

    text: str
    steps: tuple[int, ...]

    def facts(self) -> dict[str, Any]:
        return {"kind": "steps"}

    def words(self) -> list[str]:
        return [self.text]

    def candidates(self, recording: Recording) -> Steps:
        return np.array(sorted({s for s in self.steps if 1 <= s <= len(recording)}), np.int64)


def stops_of(session: Session) -> list[dict[str, Any]]:
    """The session's breakpoints as data."""
    return [session.facts(b) for b in session.breakpoints]


def breakpoints_of(session: Session, stops: Iterable[Any]) -> list[Breakpoint]:
    """The breakpoints that the browser has, in its order: those that the session knows already as they are (one may
    hold what does not travel, such as another recording). What is no breakpoint is left out."""
    known = {b.label: b for b in session.breakpoints}
    found = (known.get(str(s.get("label"))) or _made(s) for s in stops if isinstance(s, Mapping))
    return [b for b in found if b is not None]


def _made(stop: Mapping[str, Any]) -> Breakpoint | None:
    steps = stop.get("steps")
    if stop.get("kind") == "steps":
        if not isinstance(steps, (list, tuple)) or not all(isinstance(s, int) for s in steps):
            return None
        return AtSteps(text=str(stop.get("label")), steps=tuple(steps))
    try:
        return breakpoint_of(stop)
    except LabError:
        return None
