"""Every diagnostic code that files, calls, cases and dumps raise is explained, and the page of codes is current."""

import re
from pathlib import Path

import pypto_lab
from pypto_lab.compat.codes import CODES, all_codes, explain, page
from pypto_lab.frontend import codes as reader
from pypto_lab.frontend import dump_codes

PACKAGE = Path(pypto_lab.__file__).parent
PAGE = PACKAGE.parent / "docs" / "errors.md"


def used(*patterns: str, code: str = r"[EWN]\d{3}") -> set[str]:
    """Codes that stand in the files, tables of codes aside."""
    places = [p for pattern in patterns for p in PACKAGE.glob(pattern) if not p.name.endswith("codes.py")]
    return {c for p in places for c in re.findall(rf'"({code})"', p.read_text(encoding="utf-8"))}


def test_every_code_in_use_is_explained_and_no_other():
    here = used("compat/**/*.py", "numerics/*.py", "cli.py", code=r"E5\d\d") | {"E400"}
    assert here == set(CODES)
    assert used("frontend/dump*.py") == set(dump_codes.CODES)
    assert used("frontend/*.py", "ops/*.py", "ir/*.py") - used("frontend/dump*.py") <= set(reader.CODES)


def test_a_code_has_one_meaning():
    tables = [reader.CODES, dump_codes.CODES, CODES]
    assert len(all_codes()) == sum(map(len, tables))


def test_explanations_come_from_all_tables():
    assert explain("e508").startswith("E508: not a case")
    assert explain("W001")
    assert explain("N301").startswith("N301: unknown operation")
    assert explain("E999") is None


def test_the_page_of_codes_is_current():
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m pypto_lab.compat.codes > docs/errors.md`"
    assert all(f"### {code}: " in page() for code in all_codes())
