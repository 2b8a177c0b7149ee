"""Whole programs of a build folder, and the command that checks folders of cases."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from pypto_lab.compat.builds import check_build, check_text, main
from pypto_lab.compat.cases import case
from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.pto.machine import EXECUTED, run_build
from pypto_lab.pto.machine.build import arguments_of
from tests.pto.texts import DATA, KERNELS

BUILD = DATA / "while_branch"
CASE = KERNELS / "k24_while_branch" / "kernel.py"
DUMPS = DATA.parent / "dumps"


def test_the_lost_carry_of_a_compiled_while_loop_shows_in_the_numbers_and_is_named() -> None:
    """The compiler's last dump reads right by names; its `.pto` updates an address the loop never reads."""
    made = case(CASE)
    values = made.make_inputs(0)
    expected = made.expected(values)
    result = run_build(BUILD, made)
    outputs = {name.partition("__ssa_v")[0]: value for name, value in result.outputs.items()}
    assert not made.compare("out", outputs, expected, values).ok
    assert made.compare("blocks", outputs, expected, values).ok
    assert len(result.findings) == 1
    message = result.findings[0].message
    assert "%acc_n__ssa_v0, bytes 4096..5120" in message
    assert "%acc__ssa_v0 (vec f32[8x32] at vec 3072..4096), which the loop does not write" in message
    assert result.findings[0].source == "kernel.py:32:48"


def test_a_result_lists_what_was_executed_and_what_was_only_written() -> None:
    result = run_build(BUILD, case(CASE).make_inputs(0))
    text = "\n".join(result.lines())
    assert text.startswith(EXECUTED)
    assert "branchy.pto" in text
    assert "only written: orchestration/drive.cpp" in text
    assert [run.function for run in result.runs] == ["branchy", "stepper"]
    assert result.to_json()["label"] == EXECUTED


def test_inputs_are_left_alone() -> None:
    values = case(CASE).make_inputs(0)
    before = {name: value.clone() for name, value in values.items()}
    run_build(BUILD, values)
    assert all(torch.equal(values[name], before[name]) for name in values)


def test_the_text_on_disk_is_what_runs(tmp_path: Path) -> None:
    """One changed number in a file changes the result."""
    folder = tmp_path / "build"
    shutil.copytree(BUILD, folder)
    values = case(CASE).make_inputs(0)
    right = run_build(folder, values).outputs
    stepper = folder / "kernels" / "aiv" / "stepper.pto"
    stepper.write_text(stepper.read_text().replace("3.00000000000000000e+00", "5.00000000000000000e+00"))
    changed = run_build(folder, values).outputs
    name = next(n for n in right if n.startswith("blocks"))
    assert torch.allclose(changed[name][:24], right[name][:24] * 5 / 3)
    assert torch.equal(changed[name][24:], right[name][24:])


def test_a_kernel_without_a_unit_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "build"
    shutil.copytree(BUILD, folder)
    (folder / "kernels" / "aiv" / "stepper.pto").unlink()
    with pytest.raises(LabError, match=r"no stepper\.pto"):
        run_build(folder, case(CASE))


def test_a_folder_without_a_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no passes_dump"):
        run_build(tmp_path, {})


def test_arguments_are_tensors_then_scalars_then_dimensions() -> None:
    path = next((DUMPS / "k21_dyn_tail_fillpad").rglob("*.py"))
    last = sorted(path.parent.glob("*.py"))[-1]
    program = read_dump(last.read_text(), str(last))
    kernels = [f for f in program.functions.values() if f.name == "tail_stats"]
    if not kernels:
        pytest.skip("this dump has no kernel yet")
    function = kernels[0]
    args = [torch.zeros(40, 64) if p.name.startswith(("x", "copied")) else torch.zeros(1, 64) for p in function.params]
    position = next(i for i, p in enumerate(function.params) if p.name.startswith("width"))
    args[position] = 33  # type: ignore[call-overload]
    ordered = arguments_of(function, args)
    assert ordered[-2:] == [33, 40]
    assert all(isinstance(x, torch.Tensor) for x in ordered[:-2])


def test_blocks_of_a_compiled_kernel_share_the_work() -> None:
    """Rows of 8 are dealt out over the blocks, however many there are."""
    from pypto_lab.pto.machine import execute

    x = torch.randn(64, 32)
    for blocks in (1, 3, 8):
        z = torch.zeros(64, 32)
        result = execute(DATA / "spmd_blocks_incore_1.pto", "spmd_blocks_incore_1", [z, x], block_num=blocks)
        assert result.findings == ()
        assert torch.equal(z, x - 0.5)


def test_the_command_prints_both_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "k24"
    folder.mkdir()
    shutil.copy(CASE, folder / "kernel.py")
    shutil.copytree(BUILD, folder / "artifacts")
    assert main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "texts: 2 of 2 reach the print/parse fixpoint, 2 byte for byte" in out
    assert "runs: 0 of 1 builds compute the golden" in out
    assert "k24/artifacts: mismatch, 1 findings" in out
    assert main([str(tmp_path / "k24" / "artifacts" / "orchestration")]) == 2


def test_a_build_that_is_refused_is_not_a_mismatch(tmp_path: Path) -> None:
    folder = tmp_path / "k24" / "artifacts"
    shutil.copytree(BUILD, folder)
    unit = folder / "kernels" / "aiv" / "branchy.pto"
    unit.write_text(
        unit.read_text().replace("blayout=row_major, slayout=none_box", "blayout=col_major, slayout=row_major")
    )
    checked = check_build(CASE, folder)
    assert checked.status == "refused"
    assert "E605" in checked.message
    assert check_text(unit).fixpoint
    unit.write_text("module {")
    assert "not .pto text" in check_text(unit).message
