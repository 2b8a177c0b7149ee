"""What a diagnostic code means: each room lists its own codes, `pypto-lab explain CODE` reads them all."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """One diagnostic code with a minimal wrong and right example. `row` is the row of the reference's table."""

    code: str
    title: str
    explanation: str
    wrong: str
    right: str
    row: int | None = None
