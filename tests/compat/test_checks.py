"""`check`: findings of kernels, dumps, `.pto` texts and build folders, without running anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pypto_lab as lab
from pypto_lab.cli import BAD_INPUT, FINDING, FINE, invoke
from pypto_lab.compat.cases import case
from pypto_lab.compat.checks import check
from pypto_lab.ir.diagnostics import LabError

DATA = Path(__file__).parent.parent / "data"
KERNEL = DATA / "kernels" / "k17_bias_updown" / "kernel.py"

WRONG = """
import pypto.language as pl

@pl.jit
def kernel(x: pl.Tensor[[16, 64], pl.FP32], y: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.addd(x, x)
        y[:] = pl.mul(x, z)
    return y
"""


def test_a_sound_kernel_has_no_findings():
    assert check(KERNEL) == []


def test_every_mistake_of_a_kernel_is_found_at_its_place(tmp_path: Path):
    path = tmp_path / "wrong.py"
    path.write_text(WRONG, encoding="utf-8")
    found = check(path)
    assert [(f.severity, f.file, f.line) for f in found] == [("error", str(path), 7), ("error", str(path), 8)]
    assert found[0].column == 16
    assert "add" in found[0].hint
    assert set(found[0].to_json()) == {"rule", "severity", "file", "line", "column", "message", "hint"}


def test_a_build_folder_is_checked_whole(tmp_path: Path):
    build = lab.compile(case(KERNEL), tmp_path / "out")
    assert not [f for f in check(build.path) if f.severity == "error"]
    text = next(build.path.rglob("*.pto"))
    text.write_text(text.read_text(encoding="utf-8").replace("pto.tadd", "pto.tadd_", 1), encoding="utf-8")
    assert [f.file for f in check(build.path) if f.severity == "error"] == [str(text)]
    assert [f.severity for f in check(text)] == ["error"]


def test_a_path_that_is_not_there():
    with pytest.raises(LabError, match="E503"):
        check("no/such/file.py")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "wrong.py"
    path.write_text(WRONG, encoding="utf-8")
    assert invoke(["check", str(KERNEL)]) == FINE
    capsys.readouterr()
    assert invoke(["check", str(KERNEL), str(path), "--json"]) == FINDING
    assert [f["line"] for f in json.loads(capsys.readouterr().out)["findings"]] == [7, 8]
    assert invoke(["check", str(path), "--format", "yaml"]) == BAD_INPUT
    assert invoke(["check", "no/such/file.py"]) == BAD_INPUT
