"""The structural comparison with the compiler's dumps, and that it can tell programs apart."""

from __future__ import annotations

import dataclasses

import pytest
from lowering_cases import KERNELS, lowered

import pypto_lab as lab
from pypto_lab.lowering.compare import Comparison, compare, main, shape_of, table

DUMPS = KERNELS.parent / "dumps"
REAL = sorted(p.parent.parent.name for p in DUMPS.glob("*/passes_explicit/49_*.py"))


def compared(name: str, other: str | None = None) -> Comparison:
    """A case's last stage against the compiler's (kinds and pipes are settled long before)."""
    theirs = lab.load(next((DUMPS / name / "passes_explicit").glob("49_*.py")))
    mine = lowered(other or name).program
    return compare(name, "a2a3", [mine, mine], [theirs, theirs])


@pytest.mark.parametrize("name", REAL)
def test_functions_pipes_and_splits_equal_those_of_the_compiler(name: str) -> None:
    result = compared(name)
    assert result.differences == []
    assert result.ok


def test_another_kernel_is_different() -> None:
    result = compared(REAL[0], "k17_bias_updown" if REAL[0] != "k17_bias_updown" else "k16_bias_nosplit")
    assert result.differences
    assert not result.ok


def test_a_split_code_counts() -> None:
    function = lowered("k17_bias_updown").program.functions["mm_rows_aiv"]
    shape = shape_of(function)
    assert shape.ops == ("tpop_from_aic:1", "tfree_to_aic:1")
    assert shape.pipes == ((1, 8192, 2),)
    assert shape.both_lanes
    assert shape != dataclasses.replace(shape, ops=("tpop_from_aic:0", "tfree_to_aic:0"))


def test_the_table_names_differences() -> None:
    bad = Comparison("case", "a2a3", ["f: kind AIV, not AIC"])
    text = table([Comparison("good", "a5"), bad])
    assert "f: kind AIV, not AIC" in text
    assert "1 of 2 equal" in text


def test_a_directory_without_cases_is_bad_input(tmp_path: object) -> None:
    assert main([str(tmp_path)]) == 2
    assert main([]) == 2
