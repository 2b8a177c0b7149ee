"""The value that stands for "there is no such value", since None is one."""

from __future__ import annotations

from typing import Any


class _Missing:
    def __repr__(self) -> str:
        return "missing"


MISSING: Any = _Missing()
