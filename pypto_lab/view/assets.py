"""The built files of the browser side (`static/`, made from `extensions/widgets`); they ship with the package."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent / "static"


def path(name: str) -> Path:
    """Where a built file is. Raises FileNotFoundError when the front end was never built."""
    found = _HERE / name
    if not found.is_file():
        raise FileNotFoundError(f"{name} is not built: run `make front-end`")
    return found


@cache
def text(name: str) -> str:
    return path(name).read_text(encoding="utf-8")
