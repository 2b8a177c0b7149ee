"""Every diagnostic code that files, calls and cases raise is explained."""

import re
from pathlib import Path

import pypto_lab
from pypto_lab.compat.codes import CODES, all_codes, explain

PACKAGE = Path(pypto_lab.__file__).parent


def test_every_code_in_use_is_explained_and_no_other():
    places = [*PACKAGE.glob("compat/**/*.py"), *PACKAGE.glob("numerics/*.py"), PACKAGE / "cli.py"]
    used = {c for p in places if p.name != "codes.py" for c in re.findall(r'"(E5\d\d)"', p.read_text())}
    assert used == set(CODES)


def test_explanations_come_from_both_tables():
    assert explain("e508").startswith("E508: not a case")
    assert explain("W001")
    assert explain("E999") is None
    assert len(all_codes()) == len(set(all_codes())) > len(CODES)
