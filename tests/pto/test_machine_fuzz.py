"""Texts that are cut off or changed anywhere are read, refused or run, but never end in anything but a LabError."""

from __future__ import annotations

import contextlib
import random
import re

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pypto_lab.ir.diagnostics import LabError
from pypto_lab.pto.dialect.verify import verify
from pypto_lab.pto.machine import execute
from pypto_lab.pto.parse import parse
from pypto_lab.pto.printing import print_unit
from tests.pto.texts import DATA

BRANCHY = (DATA / "while_branch" / "kernels" / "aiv" / "branchy.pto").read_text()
GROUP = (DATA / "mm_cols.pto").read_text()
NUMBERS = ("0", "1", "7", "33", "-5", "99999", "4294967296", "18446744073709551617")
CHARACTERS = '%!#{}()<>,=:?x0"-\n\x00é'


def arguments(name: str) -> list[object]:
    if name == "branchy":
        return [torch.tensor([11, 5, 3, 0], dtype=torch.int32), *(torch.ones(8, 32) for _ in range(3))]
    half = torch.float16
    return [
        torch.ones(16, 64, dtype=half),
        torch.ones(64, 64, dtype=half),
        torch.ones(1, 64),
        torch.zeros(16, 64),
        torch.zeros(1),
    ]


def mutated(text: str, kind: int, rng: random.Random) -> str:
    if kind == 0:
        return text[: rng.randrange(len(text))]
    if kind == 1:
        start = rng.randrange(len(text))
        return text[:start] + text[start + rng.randrange(1, 40) :]
    if kind == 2:
        start = rng.randrange(len(text))
        return text[:start] + rng.choice(CHARACTERS) + text[start + rng.randrange(2) :]
    if kind == 3:
        lines = text.split("\n")
        lines.insert(rng.randrange(len(lines)), lines.pop(rng.randrange(len(lines))))
        return "\n".join(lines)
    if kind == 4:
        match = rng.choice(list(re.finditer(r"\d+", text)))
        return text[: match.start()] + rng.choice(NUMBERS) + text[match.end() :]
    names = list(re.finditer(r"%[\w.]+", text))
    match = rng.choice(names)
    return text[: match.start()] + rng.choice(names).group() + text[match.end() :]


@given(st.sampled_from(["branchy", "mm_cols"]), st.integers(0, 5), st.integers(0, 2**32), st.booleans())
@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_only_lab_errors(name: str, kind: int, seed: int, checked: bool) -> None:
    text = mutated(BRANCHY if name == "branchy" else GROUP, kind, random.Random(seed))
    unit = None
    with contextlib.suppress(LabError):
        unit = parse(text, "mutated.pto")
    if unit is None:
        return
    printed = print_unit(unit)
    assert print_unit(parse(printed)) == printed
    verify(unit)
    with contextlib.suppress(LabError):
        execute(unit, name, arguments(name), verify=checked, max_steps=5000)


@pytest.mark.parametrize("cut", range(0, len(GROUP), 331))
def test_a_text_that_is_cut_off_is_refused_with_a_place(cut: int) -> None:
    with pytest.raises(LabError) as caught:
        parse(GROUP[:cut], "cut.pto")
    found = caught.value.diagnostics[0]
    assert found.code in ("E601", "E602")
    assert found.span is not None
    assert 1 <= found.span.line <= GROUP[:cut].count("\n") + 1


def test_a_quote_that_is_never_closed_is_found_quickly() -> None:
    with pytest.raises(LabError, match="never closed"):
        parse(GROUP.replace('"kernel.py":16:5)', '"' + "a" * 5000 + "\\q", 1))
