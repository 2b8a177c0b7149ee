"""Every code that is used below `pypto_lab.pto` is explained, and every explanation is of a code in use."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pypto_lab.pto
from pypto_lab.pto import build_codes
from pypto_lab.pto.codes import _ENTRIES, CODES

PACKAGE = Path(pypto_lab.pto.__file__).parent


def used() -> dict[str, set[str]]:
    """Codes that stand in the package, and the files that hold them; tables of codes aside."""
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        if not path.name.endswith("codes.py"):
            for code in re.findall(r'"([EW]6\d\d)"', path.read_text(encoding="utf-8")):
                found.setdefault(code, set()).add(path.name)
    return found


def test_every_code_in_use_is_explained() -> None:
    assert {code: files for code, files in used().items() if code not in CODES} == {}


def test_every_explanation_is_of_a_code_in_use() -> None:
    assert set(CODES) - set(used()) - set(build_codes.CODES) == set()


def test_a_code_has_one_meaning_and_its_own_words() -> None:
    listed = [entry.code for entry in (*_ENTRIES, *build_codes.CODES.values())]
    assert len(listed) == len(set(listed))
    assert all(entry.title and entry.explanation.endswith((".", "!")) for entry in CODES.values())
    titles = Counter(entry.title for entry in CODES.values())
    assert titles.most_common(1)[0][1] == 1
    assert all(bool(entry.wrong) == bool(entry.right) for entry in CODES.values())
    assert all(entry.wrong != entry.right for entry in CODES.values() if entry.wrong)


def test_codes_named_in_docstrings_exist() -> None:
    """A docstring that promises a code promises one that is explained."""
    promised = {
        code
        for path in PACKAGE.rglob("*.py")
        for code in re.findall(r"\b([EW]6\d\d)\b", path.read_text(encoding="utf-8"))
    }
    assert promised <= set(CODES)
