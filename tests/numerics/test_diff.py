"""diff: a kernel against its golden, and undefined cells that reach an output."""

import json
from pathlib import Path

import pytest
import torch

from pypto_lab.compat.cases import case
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.numerics.diff import diff

KERNELS = Path(__file__).parent.parent / "data" / "kernels"

CASE = """
import pypto.language as pl
import torch

@pl.jit
def total(x: pl.Tensor[[16, 64], pl.FP32], y: pl.Out[pl.Tensor[[16, 64], pl.FP32]], z: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        BODY
        z[:] = pl.mul(x, 3.0)
    return y, z

OUTPUTS = ["y", "z"]

def make_inputs(seed):
    g = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(16, 64, generator=g), "y": torch.zeros(16, 64), "z": torch.zeros(16, 64)}

def golden(t):
    t["y"][:] = t["x"] * 2
    t["z"][:] = t["x"] * 3
"""  # noqa: E501
RIGHT = "y[:] = pl.mul(x, 2.0)"
WRONG = "y[:] = pl.mul(x, 2.5)"
UNDEFINED = "acc = pl.create_tensor([16, 64], dtype=pl.FP32)\n        y[:] = pl.add(pl.mul(x, 2.0), acc)"


def made(folder: Path, body: str):
    path = folder / "total.py"
    path.write_text(CASE.replace("BODY", body))
    return case(path)


def test_a_right_kernel(tmp_path):
    report = diff(made(tmp_path, RIGHT))
    assert report.ok
    assert (report.max_abs, report.max_rel, report.leaks) == (0.0, 0.0, None)
    assert [o.name for o in report.outputs] == ["y", "z"]
    assert "right" in str(report)


def test_a_wrong_output_is_named_and_explained(tmp_path):
    report = diff(made(tmp_path, WRONG))
    assert not report.ok
    assert [o.ok for o in report.outputs] == [False, True]
    assert report.max_abs > 0.5
    assert report.outputs[0].comparison.guesses[0].kind == "factor"
    assert "1.25 times" in str(report)


def test_seeds_give_other_inputs(tmp_path):
    found = made(tmp_path, WRONG)
    assert diff(found, seed=0).max_abs != diff(found, seed=1).max_abs
    assert diff(found, seed=1).max_abs == diff(found, seed=1).max_abs


def test_json_has_the_stable_form(tmp_path):
    found = diff(made(tmp_path, WRONG)).to_json()
    assert list(found) == ["case", "stage", "arch", "ok", "outputs"]
    assert list(found["outputs"][0]) == ["name", "ok", "max_abs", "max_rel"]
    json.dumps(found, allow_nan=False)


def test_poison_finds_undefined_cells_that_reach_an_output(tmp_path):
    plain = diff(made(tmp_path, UNDEFINED))
    assert plain.ok
    report = diff(made(tmp_path, UNDEFINED), poison=True)
    assert not report.ok
    (leak,) = report.leaks
    assert leak.name == "y"
    assert leak.where.count == 16 * 64
    assert report.to_json()["leaks"][0]["cells"] == 1024
    assert "undefined cells" in str(report)


def test_poison_of_a_clean_kernel_finds_nothing(tmp_path):
    report = diff(made(tmp_path, RIGHT), poison=True)
    assert report.ok
    assert report.leaks == ()
    assert report.to_json()["leaks"] == []


def test_other_stages_and_choices_are_diagnostics(tmp_path):
    found = made(tmp_path, RIGHT)
    for arguments, code in (({"stage": "pto"}, "E505"), ({"stage": "nope"}, "E509"), ({"arch": "a9"}, "E509")):
        with pytest.raises(LabError) as caught:
            diff(found, **arguments)
        assert caught.value.diagnostics[0].code == code


def test_a_kernel_with_errors_reports_them_all(tmp_path):
    with pytest.raises(LabError) as caught:
        diff(made(tmp_path, "y[:] = pl.mull(x, nowhere)"))
    assert caught.value.diagnostics[0].span.line == 8
    assert str(caught.value).count("error[") >= 1


@pytest.mark.parametrize("name", sorted(p.name for p in KERNELS.iterdir()))
def test_every_case_of_the_project_is_right_at_the_front_end(name):
    torch.set_num_threads(1)
    for seed in (0, 1):
        report = diff(case(KERNELS / name / "kernel.py"), seed=seed)
        assert report.ok, str(report)


@pytest.mark.parametrize("arch", ["a2a3", "a5"])
@pytest.mark.parametrize("name", ["k09_softmax_rows", "k17_bias_updown", "k29_spmd_blocks"])
def test_a_lowered_kernel_computes_the_golden(name, arch):
    found = case(KERNELS / name / "kernel.py")
    report = diff(found, stage="lowered", arch=arch)
    assert report.ok, str(report)
    assert (report.stage, report.arch) == ("lowered", arch)
