"""The case kernels: our program is the one the real compiler's parser makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_lab.compat.loader import load_module
from pypto_lab.frontend.dump import read_dump
from pypto_lab.frontend.source import program_of
from pypto_lab.ir.equal import first_difference
from pypto_lab.ir.verifier import verify
from tests.frontend.reading import KERNELS

EXPECTED = Path(__file__).parent / "expected"
NAMES = sorted(p.name for p in KERNELS.iterdir() if p.is_dir())


@pytest.mark.parametrize("name", NAMES)
def test_program_equals_the_compilers(name: str) -> None:
    module = load_module(KERNELS / name / "kernel.py")
    runtime = getattr(module, "RUNTIME_SCALARS", ())
    program = program_of(getattr(module, module.ENTRY), module.make_inputs(0), runtime_scalars=runtime)
    expected = read_dump((EXPECTED / f"{name}.txt").read_text(encoding="utf-8"))
    assert first_difference(program, expected) is None
    assert list(program.functions) == list(expected.functions)
    assert program.notes == ()
    assert [d for d in verify(program) if d.severity.value == "error"] == []


@pytest.mark.parametrize("name", NAMES)
def test_program_prints_as_the_compilers(name: str) -> None:
    """The printed text is the dump's, but for the spelling of floats and quotes that the printer shares with it."""
    module = load_module(KERNELS / name / "kernel.py")
    runtime = getattr(module, "RUNTIME_SCALARS", ())
    program = program_of(getattr(module, module.ENTRY), module.make_inputs(0), runtime_scalars=runtime)
    assert program.as_python() == (EXPECTED / f"{name}.txt").read_text(encoding="utf-8")


def test_all_kernels_have_an_expected_program() -> None:
    assert len(NAMES) == 36
    assert [p.stem for p in sorted(EXPECTED.glob("*.txt"))] == NAMES
