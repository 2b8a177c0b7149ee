"""Damaged dumps: the reader answers with a program or with findings, never with anything else."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.ir.equal import first_difference
from pypto_lab.ir.printer import print_program
from pypto_lab.ir.verifier import STAGES, verify

DUMPS = Path(__file__).parent.parent / "data" / "dumps"
TEXTS = sorted((p.read_text(encoding="utf-8") for p in DUMPS.rglob("*.py")), key=len)[:60]
JUNK = (
    "(", ")", "[", "]", "{", "}", ":", ",", ".", "=", "#", "\\", "@", "*", "**", "-", "~", "%", "not", "and", "or",
    "xor", "lambda", "yield", "await", "import", "global", "if", "else", "...", "None", "True", "1e999", "0x", "self.",
    "pl.", "pld.", "__FREE_VAR", "pl.yield_()", "pl.Tile", "中文", "é", '"', "'", '"""', "f'{x}'", ":=", "->", "\ud800",
    "\n", "\t", "\0", "\r", "\x0c", " xor ", "\n    ", "'''",
)  # fmt: skip


def answered(text: str) -> bool:
    """Whether a text reads; what reads must also print, verify and come back the same."""
    refusal: LabError | None = None
    try:
        program = read_dump(text)
    except LabError as error:
        refusal = error
    if refusal is not None:
        assert refusal.diagnostics
        assert all(d.span is None or (d.span.line >= 1 and d.span.column >= 1) for d in refusal.diagnostics)
        assert str(refusal)
        return False
    printed = print_program(program)
    again = read_dump(printed)
    assert print_program(again) == printed
    assert first_difference(program, again) is None
    for stage, _ in STAGES:
        verify(program, stage=stage)
    return True


def mutated(text: str, kind: int, rng: random.Random) -> str:
    """One damage: characters, tokens or lines deleted, swapped, doubled, inserted, or the end cut off."""
    a, b = sorted((rng.randrange(len(text)), rng.randrange(len(text))))
    if kind == 0:
        return text[:a] + text[a + rng.randrange(1, 12) :]
    if kind == 1:
        return text[:a]
    if kind == 2:
        return text[:a] + text[b] + text[a + 1 : b] + text[a] + text[b + 1 :]
    if kind == 3:
        return text[:a] + rng.choice(JUNK) + text[a:]
    parts = text.split("\n") if kind in (4, 5, 6) else re.findall(r"\w+|\W", text)
    glue = "\n" if kind in (4, 5, 6) else ""
    i, j = rng.randrange(len(parts)), rng.randrange(len(parts))
    if kind == 4:
        del parts[i]
    elif kind in (5, 7):
        parts[i], parts[j] = parts[j], parts[i]
    elif kind == 6:
        parts.insert(i, parts[j])
    else:
        parts[i] = parts[j]
    return glue.join(parts)


@pytest.mark.parametrize("kind", range(9))
def test_damaged_dumps_are_answered(kind: int) -> None:
    rng = random.Random(kind)
    outcomes = [answered(mutated(rng.choice(TEXTS), kind, rng)) for _ in range(300)]
    assert not all(outcomes)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data())
def test_several_damages_at_once_are_answered(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS[:20]))
    for _ in range(data.draw(st.integers(1, 4))):
        rng = random.Random(data.draw(st.integers(0, 2**32)))
        text = mutated(text or "x", data.draw(st.integers(0, 8)), rng)
    answered(text)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(max_size=200))
def test_any_text_is_answered(text: str) -> None:
    answered(text)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(JUNK), max_size=30))
def test_any_sequence_of_tokens_is_answered(tokens: list[str]) -> None:
    head = "import pypto.language as pl\n@pl.program\nclass P:\n    @pl.function\n"
    head += "    def f(self, x: pl.Scalar[pl.INDEX]):\n"
    answered(head + "        y: pl.Scalar[pl.INDEX] = " + " ".join(tokens) + "\n")
