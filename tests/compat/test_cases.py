"""Files as cases: case files, pypto-lib specs, and files that call run_jit themselves."""

from pathlib import Path

import pytest
import torch

from pypto_lab.compat.cases import case, choose_kernel, kernels_of
from pypto_lab.compat.loader import load_module
from pypto_lab.ir.diagnostics import LabError

KERNELS = Path(__file__).parent.parent / "data" / "kernels"

HEAD = """
import pypto.language as pl
import torch

@pl.jit.inline
def helper(x: pl.Tensor): ...

@pl.jit
def first(x: pl.Tensor[[4, 8], pl.FP32], y: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, 2.0)
    return y

@pl.jit
def second(x: pl.Tensor[[4, 8], pl.FP32], y: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, 3.0)
    return y
"""
SPECS = """
def build_specs():
    from golden import ScalarSpec, TensorSpec
    return [
        TensorSpec("x", [4, 8], torch.float32, init_value=torch.randn),
        TensorSpec("y", [4, 8], torch.float32, is_output=True),
    ]

def golden_first(values):
    values["y"][:] = values["x"] * 2

def golden_second(values):
    values["y"][:] = values["x"] * 3
"""
MAIN = """
if __name__ == "__main__":
    import argparse
    from golden import ratio_allclose, run_jit
    parser = argparse.ArgumentParser()
    parser.add_argument("-p", "--platform", default="a2a3")
    args = parser.parse_args()
    try:
        result = run_jit(fn=first, specs=build_specs(), golden_fn=golden_first, rtol=1e-3, atol=2e-3,
                         runtime_cfg=dict(platform=args.platform),
                         compare_fn={"y": ratio_allclose(max_error_ratio=0.5)})
    except Exception:
        print("swallowed")
    open("ran", "w")
"""


def write(folder: Path, text: str, name: str = "k.py") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", sorted(p.name for p in KERNELS.iterdir()))
def test_every_case_file_of_the_project_is_a_case(name):
    found = case(KERNELS / name / "kernel.py")
    values = found.make_inputs(1)
    assert found.name == name
    assert set(found.outputs) <= set(values)
    again = found.make_inputs(1)
    for key, value in values.items():
        assert torch.equal(value, again[key]) if isinstance(value, torch.Tensor) else value == again[key]
    before = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in values.items()}
    expected = found.expected(values)
    assert sorted(expected) == sorted(found.outputs)
    for key, value in values.items():
        assert torch.equal(value, before[key]) if isinstance(value, torch.Tensor) else value == before[key]


def test_a_case_file_states_its_entry_outputs_and_tolerances():
    found = case(KERNELS / "k01_chain_scalars" / "kernel.py")
    assert (found.entry, found.outputs, found.rtol, found.atol) == ("chain_scalars", ("out",), 1e-6, 1e-6)
    assert found.runtime_scalars == ("gain", "step", "reps")


def test_specs_with_the_golden_of_the_kernel(tmp_path):
    found = case(write(tmp_path, HEAD + SPECS))
    assert (found.name, found.entry, found.outputs) == ("k", "second", ("y",))
    values = found.make_inputs(4)
    assert torch.equal(found.expected(values)["y"], values["x"] * 3)
    assert not torch.equal(found.make_inputs(5)["x"], values["x"])


def test_a_kernel_can_be_chosen(tmp_path):
    path = write(tmp_path, HEAD + SPECS)
    values = case(path, "first").make_inputs(0)
    assert torch.equal(case(path, "first").expected(values)["y"], values["x"] * 2)
    with pytest.raises(LabError, match=r"did you mean `first`") as caught:
        case(path, "frist")
    assert caught.value.diagnostics[0].code == "E508"


def test_the_files_own_run_jit_call_decides(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = case(write(tmp_path, HEAD + SPECS + MAIN))
    assert (found.entry, found.rtol, found.atol, sorted(found.comparers)) == ("first", 1e-3, 2e-3, ["y"])
    values = found.make_inputs(0)
    assert torch.equal(found.expected(values)["y"], values["x"] * 2)
    assert not (tmp_path / "ran").exists()


def test_a_main_that_needs_arguments_falls_back_to_names(tmp_path):
    text = MAIN.replace('default="a2a3"', "required=True")
    assert case(write(tmp_path, HEAD + SPECS + text)).entry == "second"


def test_seeding_leaves_the_global_generators_alone(tmp_path):
    found = case(write(tmp_path, HEAD + SPECS))
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    found.make_inputs(0)
    assert torch.equal(torch.rand(3), expected)


def test_functions_of_a_case_can_import_siblings_late(tmp_path):
    write(tmp_path, "FACTOR = 2.0\n", "settings_here.py")
    text = """
OUTPUTS = ["y"]
def make_inputs(seed):
    import settings_here
    return {"x": torch.full((4, 8), settings_here.FACTOR), "y": torch.zeros(4, 8)}

def golden(t):
    import settings_here
    t["y"][:] = t["x"] * settings_here.FACTOR
"""
    found = case(write(tmp_path, HEAD + text))
    values = found.make_inputs(0)
    assert float(values["x"].max()) == 2.0
    assert float(found.expected(values)["y"].max()) == 4.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD, "no inputs and golden"),
        ("x = 1\n", "no inputs and golden"),
        (HEAD + SPECS.replace("golden_", "check_"), "no golden function"),
        ("def make_inputs(seed): ...\ndef golden(t): ...\n", "no kernel in this file"),
        (HEAD + "ENTRY = 'third'\ndef make_inputs(seed): ...\ndef golden(t): ...\n", "no kernel `third`"),
    ],
)
def test_a_file_that_is_no_case_says_what_is_missing(tmp_path, text, words):
    with pytest.raises(LabError, match=words) as caught:
        case(write(tmp_path, text))
    assert caught.value.diagnostics[0].code == "E508"
    assert caught.value.diagnostics[0].hint


def test_kernels_of_a_file_leave_out_helpers_and_imports(tmp_path):
    write(tmp_path, HEAD, "sibling.py")
    text = "import pypto.language as pl\nfrom sibling import first\n@pl.jit\ndef own(x: pl.Tensor): ...\n"
    module = load_module(write(tmp_path, text))
    assert list(kernels_of(module)) == ["own"]
    assert choose_kernel(module, "first")[0] == "first"
