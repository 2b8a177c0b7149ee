"""Every code that the recorder uses for something of its own is explained, and every one explained is used."""

from __future__ import annotations

import re
from pathlib import Path

import pypto_lab.record
from pypto_lab.record.codes import CODES

OTHERS = {"E400", "E404", "E503", "E600"}
"""Codes of runs, files and `.pto` texts, which other rooms explain."""


def test_codes_used_are_the_codes_explained() -> None:
    folder = Path(pypto_lab.record.__file__).parent
    shown = folder.parent / "view" / "workbench" / "tiles.py"  # what of a recording cannot be shown
    texts = [p.read_text(encoding="utf-8") for p in (*folder.glob("*.py"), shown) if p.name != "codes.py"]
    used = {code for text in texts for code in re.findall(r'"([EW]\d{3})"', text)}
    assert used - OTHERS == set(CODES)


def test_entries_are_complete_and_in_their_range() -> None:
    for code, entry in CODES.items():
        assert re.fullmatch(r"E41\d", code)
        assert entry.title
        assert entry.explanation.endswith(".")
        assert bool(entry.wrong) == bool(entry.right)
