"""validate: every stage of a folder is judged, whatever happens to one of them."""

import json
from pathlib import Path

import pytest
import torch

from pypto_lab.frontend.kernels import KernelSource
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.numerics.case import Case
from pypto_lab.numerics.validate import Expectation, dumps_of, validate, validate_dumps

DUMP = """# pypto.program: Scale
import pypto.language as pl

@pl.program
class Scale:
    @pl.function(type=pl.FunctionType.Orchestration, level=pl.Level.CHIP, role=pl.Role.Orchestrator)
    def scale(self, x: pl.Tensor[[16, 64], pl.FP32], n: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]) -> pl.Tensor[[16, 64], pl.FP32]:
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="body"):
            t: pl.Tensor[[16, 64], pl.FP32] = pl.tensor.muls(x, FACTOR)
            out: pl.Tensor[[16, 64], pl.FP32] = pl.tensor.assemble(out, t, [0, 0])
        return out
"""  # noqa: E501


def dump(factor: str) -> str:
    return DUMP.replace("FACTOR", factor)


def inputs(seed: int) -> dict[str, object]:
    x = torch.randn(16, 64, generator=torch.Generator().manual_seed(seed))
    return {"x": x, "n": 2.0, "out": torch.zeros(16, 64)}


def golden(values: dict[str, torch.Tensor]) -> None:
    values["out"][:] = values["x"] * 2


def placeholder() -> None:
    """The kernel function of a case whose program is never asked for."""


@pytest.fixture
def case() -> Case:
    return Case(
        "scale", None, "scale", KernelSource(placeholder, "jit"), inputs, golden, ("out",), rtol=1e-5, atol=1e-5
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = {
        "00_frontend.py": dump("2.0"),
        "01_after_InlineFunctions.py": dump("n"),
        "02_after_Simplify.py": dump("3.0"),
        "03_after_ConvertToSSA.py": "def (",
        "10_after_FlattenCallExpr.py": dump("2.0"),
        "09_after_OutlineIncoreScopes.py": dump("n").replace("x, n", "x, nowhere"),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return tmp_path


EXPECTED = ["ok", "ok", "mismatch", "error", "error", "ok"]


def test_every_stage_is_judged_in_the_order_of_the_passes(folder, case):
    seen = []
    sweep = validate(folder, case, workers=1, progress=seen.append)
    assert [s.status for s in sweep.stages] == EXPECTED
    assert [s.file[:2] for s in sweep.stages] == ["00", "01", "02", "03", "09", "10"]
    assert tuple(seen) == sweep.stages
    assert not sweep.ok
    assert sweep.first_bad.file == "02_after_Simplify.py"


def test_a_changed_result_says_how_far_it_moved(folder, case):
    stages = validate(folder, case, workers=1).stages
    largest = inputs(0)["x"].abs().max().item()
    assert stages[1].change == 0
    assert stages[2].change == pytest.approx(largest, rel=1e-5)
    assert stages[2].max_abs == pytest.approx(largest, rel=1e-5)
    assert "1.5 times the golden" in stages[2].message
    assert "since the stage before" in stages[2].message


def test_json_has_the_stable_form(folder, case):
    found = json.loads(json.dumps(validate(folder, case, workers=1).to_json(), allow_nan=False))
    assert sorted(found) == ["case", "stages"]
    assert found["case"] == "scale"
    assert all(sorted(stage) == ["file", "max_abs", "message", "status"] for stage in found["stages"])
    assert found["stages"][3]["max_abs"] is None
    assert found["stages"][3]["message"]


def test_text_counts_each_status(folder, case):
    text = str(validate(folder, case, workers=1))
    assert text.splitlines()[-1] == "3 ok, 1 mismatch, 2 error"


def test_worker_processes_give_the_same_sweep(folder, case):
    one, two = validate(folder, case, workers=1), validate(folder, case, workers=2)
    assert [(s.file, s.status, s.max_abs, s.message) for s in one.stages] == [
        (s.file, s.status, s.max_abs, s.message) for s in two.stages
    ]


def test_inputs_are_left_alone(folder, case):
    values = inputs(0)
    expected = {"out": values["x"] * 2}
    validate_dumps(folder, Expectation(values, expected, 1e-5, 1e-5), workers=1)
    assert torch.equal(values["out"], torch.zeros(16, 64))


def test_one_dump_or_a_build_folder_will_do(folder, case, tmp_path_factory):
    build = tmp_path_factory.mktemp("build")
    (build / "passes_dump").mkdir()
    (build / "passes_dump" / "00_frontend.py").write_text(dump("2.0"))
    assert validate(build, case).ok
    assert [f.name for f in dumps_of(folder / "00_frontend.py")] == ["00_frontend.py"]


def test_a_folder_without_dumps_is_a_diagnostic(tmp_path, case):
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(LabError) as caught:
            validate(path, case)
        assert caught.value.diagnostics[0].code == "E503"


def test_an_output_the_program_does_not_have_is_an_error_row(folder, case):
    expectation = Expectation(inputs(0), {"other": torch.zeros(16, 64)})
    (stage,) = validate_dumps(folder / "00_frontend.py", expectation).stages
    assert stage.status == "error"
    assert "no output other" in stage.message
