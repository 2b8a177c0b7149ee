"""Short notes to the person at the terminal, each said once a process."""

from __future__ import annotations

import sys

_said: set[str] = set()


def say_once(text: str) -> None:
    """Prints `text` to standard error unless this process has printed it before."""
    if text not in _said:
        _said.add(text)
        print(f"pypto-lab: {text}", file=sys.stderr)


def forget() -> None:
    """Makes every note new again (for tests and for a fresh notebook run)."""
    _said.clear()
