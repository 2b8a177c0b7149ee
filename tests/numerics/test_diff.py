"""diff: a kernel against its golden, and undefined cells that reach an output."""

import json
from pathlib import Path

import pytest
import torch

from pypto_lab.compat.cases import case
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.numerics.diff import chosen_stage, diff, diff_build

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
    for arguments, code in (({"stage": "nope"}, "E509"), ({"engine": "nope"}, "E509"), ({"arch": "a9"}, "E509")):
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


# --- .pto and all stages ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["a2a3", "a5"])
@pytest.mark.parametrize("name", ["k09_softmax_rows", "k17_bias_updown", "k29_spmd_blocks"])
def test_pto_texts_on_disk_compute_the_golden(name, arch, tmp_path):
    report = diff(case(KERNELS / name / "kernel.py"), stage="pto", arch=arch, out=tmp_path / "b")
    assert report.ok, str(report)
    assert report.build.arch == arch
    assert {f.state for f in report.build.of_role("pto")} == {"executed"}
    assert report.executed[0].startswith("executed: .pto interpreted by pypto_lab (not ptoas, not device): ptoas/")
    assert "only written, executed by nobody" in str(report)


def test_a_build_that_nobody_keeps_goes_away(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    report = diff(made(tmp_path, RIGHT), stage="pto")
    assert report.ok
    assert report.build is None
    assert [p.name for p in tmp_path.iterdir() if p.is_dir()] in ([], ["__pycache__"])


def test_a_wrong_text_is_a_mismatch_of_the_build(tmp_path):
    found = made(tmp_path, RIGHT)
    build = diff(found, stage="pto", out=tmp_path / "b").build
    assert diff_build(found, build).ok
    (unit,) = build.of_role("pto")
    text = build.path / unit.name
    text.write_text(text.read_text().replace("= arith.constant 2.0", "= arith.constant 9.0"))
    report = diff_build(found, build)
    assert [o.ok for o in report.outputs] == [False, True]
    assert report.last.message.startswith("y: ")
    text.write_text("module {")
    refused = diff_build(found, build)
    assert not refused.ok
    assert "E601" in refused.refused
    assert refused.to_json()["outputs"] == []


def test_all_stages_side_by_side(tmp_path):
    report = diff(made(tmp_path, RIGHT), stage="all")
    assert report.ok
    found = report.to_json()
    assert (found["stage"], found["ok"]) == ("all", True)
    assert [(s["stage"], s["ok"], [o["name"] for o in s["outputs"]]) for s in found["stages"]] == [
        (name, True, ["y", "z"]) for name in ("frontend", "lowered", "pto")
    ]
    assert found["outputs"] == found["stages"][-1]["outputs"]
    json.dumps(found, allow_nan=False)


def test_a_kernel_wrong_at_the_start_is_wrong_at_every_stage(tmp_path):
    report = diff(made(tmp_path, WRONG), stage="all")
    assert report.first_wrong.stage == "frontend"
    assert [s.ok for s in report.stages] == [False] * 3
    assert all("message" in s for s in report.to_json()["stages"])


def test_a_stage_that_is_refused_does_not_hide_the_others(tmp_path, monkeypatch):
    def refuse(program, arch="a2a3"):
        raise LabError([Diagnostic("E610", "no form for it")])

    monkeypatch.setattr("pypto_lab.pto.embedded.emit", refuse)
    found = made(tmp_path, RIGHT)
    report = diff(found, stage="all")
    assert [(s.stage, s.ok) for s in report.stages] == [("frontend", True), ("lowered", True), ("pto", False)]
    assert not report.ok
    assert "no form for it" in report.to_json()["stages"][2]["message"]
    assert "pto: REFUSED" in str(report)
    with pytest.raises(LabError, match="no form for it"):
        diff(found, stage="pto")


def test_poison_of_a_text_finds_what_it_does_not_write(tmp_path):
    found = made(tmp_path, UNDEFINED)
    report = diff(found, stage="pto", poison=True)
    assert not report.ok
    assert [leak.name for leak in report.leaks] == ["y"]
    assert report.to_json()["leaks"][0]["cells"] == 1024
    clean = diff(made(tmp_path, RIGHT), stage="pto", poison=True)
    assert clean.ok
    assert clean.leaks == ()


def test_a_text_that_loses_a_store_leaks_at_that_stage_only(tmp_path):
    """The golden is all zeros, as the output is before the run: only other contents show that nothing was written."""
    path = tmp_path / "total.py"
    path.write_text(CASE.replace("BODY", "y[:] = pl.mul(x, 0.0)").replace('t["x"] * 2', 't["x"] * 0'))
    found = case(path)
    build = diff(found, stage="pto", out=tmp_path / "b").build
    (unit,) = build.of_role("pto")
    text = build.path / unit.name
    rows = text.read_text().splitlines(keepends=True)
    first = next(i for i, row in enumerate(rows) if "pto.tstore" in row)
    text.write_text("".join(rows[:first] + rows[first + 1 :]))
    report = diff_build(found, build, poison=True)
    assert [(o.name, o.ok) for o in report.outputs] == [("y", True), ("z", True)]
    assert [(leak.name, leak.where.count) for leak in report.leaks] == [("y", 1024)]


def test_findings_of_the_machine_are_in_the_report(tmp_path):
    """A tile that is stored before it is written: the machine names the op, and the report is not right."""
    found = made(tmp_path, RIGHT)
    build = diff(found, stage="pto", out=tmp_path / "b").build
    (unit,) = build.of_role("pto")
    text = build.path / unit.name
    rows = text.read_text().splitlines(keepends=True)
    text.write_text("".join(row for row in rows if "pto.tload" not in row))
    report = diff_build(found, build)
    assert not report.ok
    codes = {f["code"] for f in report.to_json()["findings"]}
    assert "E621" in codes
    assert any("E621" in line for line in str(report).splitlines())


@pytest.mark.parametrize(
    ("stage", "out", "engine", "chosen"),
    [
        (None, None, None, "frontend"),
        (None, "b", None, "pto"),
        (None, None, "embedded", "pto"),
        ("all", "b", "embedded", "all"),
        ("lowered", None, None, "lowered"),
        ("lowered", "b", None, None),
        ("frontend", None, "pypto", None),
    ],
)
def test_the_stage_follows_from_what_is_asked(stage, out, engine, chosen):
    if chosen is None:
        with pytest.raises(LabError, match="has no use at the stage"):
            chosen_stage(stage, out, engine)
    else:
        assert chosen_stage(stage, out, engine) == chosen


def test_progress_is_told(tmp_path):
    told = []
    diff(made(tmp_path, RIGHT), stage="all", progress=told.append)
    assert told == [
        "reading the kernel", "computing the golden", "running the stage frontend", "running the stage lowered",
        "lowering", "writing .pto", "writing the folder", "executing .pto",
    ]  # fmt: skip
