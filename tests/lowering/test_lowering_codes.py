"""Every code the passes refuse with is explained, and every explanation is of a code in use."""

from __future__ import annotations

import re
from pathlib import Path

import pypto_lab.lowering as lowering
from pypto_lab.lowering.codes import CODES

ROOM = Path(lowering.__file__).parent


def used() -> set[str]:
    files = [f for f in ROOM.rglob("*.py") if f.name != "codes.py"]
    return {code for f in files for code in re.findall(r'"(E8\d\d)"', f.read_text(encoding="utf-8"))}


def test_codes_in_use_and_codes_explained_are_the_same() -> None:
    assert used() == set(CODES)


def test_every_entry_shows_what_to_write_instead() -> None:
    for code, entry in CODES.items():
        assert entry.code == code
        assert entry.title
        assert entry.explanation.endswith(".")
        assert entry.wrong
        assert entry.right
        assert entry.wrong != entry.right


def test_the_page_lists_every_code() -> None:
    page = (ROOM.parent.parent / "docs" / "lowering.md").read_text(encoding="utf-8")
    numbers = {int(a) for a, b in re.findall(r"E8(\d\d)(?: to E8(\d\d))?", page)}
    for first, last in re.findall(r"E8(\d\d) to E8(\d\d)", page):
        numbers |= set(range(int(first), int(last) + 1))
    assert {int(code[2:]) for code in CODES} <= numbers
