"""`compiled_meta.json` against the compiler's own, and its rules for types, names and platforms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir import dtypes as d
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.types import PTR, ScalarType
from pypto_lab.pto.meta import dtype_name, meta

DATA = Path(__file__).parent.parent / "data"
REAL = sorted((DATA / "meta").glob("*.json"))


def program_of(kernel: str) -> n.Program:
    last = DATA / "dumps" / kernel / "passes_explicit" / "49_after_MaterializeValidShapeSymbols.py"
    return read_dump(last.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", REAL, ids=lambda p: p.stem)
def test_the_facts_are_the_compilers_own(path: Path) -> None:
    found = meta(program_of(path.stem))
    assert found == json.loads(path.read_text(encoding="utf-8"))
    assert json.loads(json.dumps(found)) == found


def test_there_are_dynamic_extents_scalars_and_every_direction_among_them() -> None:
    params = [p for path in REAL for p in json.loads(path.read_text(encoding="utf-8"))["params"]]
    assert {p["direction"] for p in params} == {"In", "Out", "InOut"}
    assert any(p["shape"] is None for p in params)
    assert any(-1 in (p["shape"] or ()) for p in params)


def test_architecture_and_platform() -> None:
    program = program_of("k09_softmax_rows")
    found = meta(program, "a5")
    assert (found["platform"], found["backend_type"]) == ("a5sim", "Ascend950")
    assert meta(program, platform="a2a3")["platform"] == "a2a3"
    with pytest.raises(ValueError, match="a2a3, a5"):
        meta(program, "a3")
    with pytest.raises(LabError, match="E656"):
        meta(program, function="nobody")


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (d.FP32, "fp32"),
        (d.FP16, "fp16"),
        (d.BF16, "bfloat16"),
        (d.INDEX, "index"),
        (d.UINT8, "uint8"),
        (d.BOOL, "bool"),
    ],
)
def test_element_types_have_the_compilers_names(dtype: DType, name: str) -> None:
    assert dtype_name(ScalarType(dtype)) == name


def test_a_handle_has_no_element_type() -> None:
    assert dtype_name(PTR) is None
