"""Stand-in for `pypto.passes`: the lab has no pass contexts to set."""

from __future__ import annotations

from enum import Enum
from typing import Any


class VerificationLevel(Enum):
    NONE = 0
    BASIC = 1
    FULL = 2


class PassContext:
    """Accepted and ignored: verification and instruments belong to the real compiler's passes."""

    def __init__(self, *instruments: Any, **options: Any) -> None:
        self.instruments, self.options = instruments, options

    def __enter__(self) -> PassContext:
        return self

    def __exit__(self, *exception: object) -> None:
        """Nothing to restore."""
