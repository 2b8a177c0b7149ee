"""The public names of `import pypto_lab as lab`, and how little importing it costs."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import pypto_lab as lab

KERNELS = Path(__file__).parent / "data" / "kernels"
K01 = KERNELS / "k01_chain_scalars" / "kernel.py"


def test_every_public_name_exists():
    for name in lab.__all__:
        assert getattr(lab, name) is not None
        assert name in dir(lab)
    with pytest.raises(AttributeError, match="nonsense"):
        lab.nonsense  # noqa: B018


def test_importing_the_lab_imports_nothing_heavy():
    code = "import sys, pypto_lab; print([m for m in ('torch', 'numpy', 'rich', 'IPython') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_screenful_of_the_design_works():
    case = lab.case(K01)
    values = case.make_inputs(0)
    program = case.program(values)
    assert "chain_scalars" in program.functions
    result = lab.run(program, values, seed=0)
    assert torch.equal(result.outputs["out"], lab.diff(case).outputs[0].name and case.expected(values)["out"])
    script = lab.torch_codegen(program, check_shapes=False)
    assert isinstance(script, str)
    assert "def " in script
    report = lab.diff(case, stage="frontend", arch="a2a3", seed=0, poison=True)
    assert report.ok
    assert report.max_abs == 0
    assert report.to_json()["outputs"][0]["name"] == "out"


def test_load_takes_paths_text_and_objects(tmp_path):
    program = lab.load(K01)
    text = program.as_python()
    assert lab.load(text).as_python() == text
    path = tmp_path / "00_frontend.py"
    path.write_text(text)
    assert lab.load(path).as_python() == text
    assert lab.load(str(path)).as_python() == text
    module = lab.load_module(KERNELS / "k28_two_stage_program" / "kernel.py")
    assert sorted(lab.load(module.TwoStage).functions) == ["combine", "drive", "split_parts"]

    class Live:
        def as_python(self) -> str:
            return text

    assert lab.load(Live()).as_python() == text
    with pytest.raises(lab.LabError, match="E503"):
        lab.load(42)
    with pytest.raises(lab.LabError, match="E503"):
        lab.load("missing.py")
    with pytest.raises(lab.LabError, match="E503"):
        lab.load("x = 1\n")


def test_compiling_from_python(tmp_path):
    case = lab.case(K01)
    build = lab.compile(case, tmp_path / "b", arch="a2a3", engine="embedded")
    assert isinstance(build, lab.Build)
    result = build.run(case.make_inputs(0), seed=0)
    assert torch.equal(result.outputs["out"], case.expected(case.make_inputs(0))["out"])
    assert lab.read_build(build.path) == build
    assert lab.diff_build(case, build).ok
