"""Every diagnostic code of the lab is explained, none twice, and the page of codes is current."""

import re
from pathlib import Path

import pypto_lab
from pypto_lab.compat.codes import all_codes, explain, page, tables
from pypto_lab.frontend import codes as reader

PACKAGE = Path(pypto_lab.__file__).parent
PAGE = PACKAGE.parent / "docs" / "errors.md"


def used(*patterns: str) -> set[str]:
    """Codes that stand in the files, tables of codes aside."""
    places = [p for pattern in patterns for p in PACKAGE.glob(pattern) if p.name not in ("codes.py", "dump_codes.py")]
    return {c for p in places for c in re.findall(r'"([EWN]\d{3})"', p.read_text(encoding="utf-8"))}


def test_every_code_in_use_is_explained():
    assert used("**/*.py") - set(all_codes()) == set()


def test_every_explained_code_is_in_use():
    # codes of the reader may also be made where an op's own check says which one it is, with the code as a constant
    in_tables = set(all_codes()) - set(reader.CODES)
    assert in_tables - used("**/*.py") == set()


def test_a_code_has_one_meaning():
    assert len(all_codes()) == sum(map(len, tables()))


def test_explanations_come_from_all_tables():
    assert explain("e508").startswith("E508: not a case")
    assert explain("W001")
    assert explain("N301").startswith("N301: unknown operation")
    assert explain("E999") is None


def test_the_page_of_codes_is_current():
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m pypto_lab.compat.codes > docs/errors.md`"
    assert all(f"### {code}: " in page() for code in all_codes())
