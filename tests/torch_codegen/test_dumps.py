"""Dumps of the real compiler, run as scripts with checks and in other lane orders, against their kernels' goldens."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import pypto_lab as lab
from pypto_lab.frontend.dump import read_dump
from pypto_lab.torch_codegen.execute import prepare, run

DATA = Path(__file__).parent.parent / "data"
FOLDERS = sorted(path for path in (DATA / "dumps").glob("*/passes_explicit") if path.is_dir())
LANES = [path for path in FOLDERS if path.parent.name[:3] in ("k14", "k17", "k20", "k30", "k31", "k32", "k33")]


def name_of(folder: Path) -> str:
    return folder.parent.name


def right(outputs: dict[str, torch.Tensor], case: object, expected: dict[str, torch.Tensor]) -> None:
    for name in case.outputs:  # type: ignore[attr-defined]
        torch.testing.assert_close(
            outputs[name].double(),
            expected[name].double(),
            rtol=case.rtol,  # type: ignore[attr-defined]
            atol=case.atol,  # type: ignore[attr-defined]
            equal_nan=True,
        )


def case_of(folder: Path) -> tuple[object, dict[str, object], dict[str, torch.Tensor]]:
    case = lab.case(DATA / "kernels" / name_of(folder) / "kernel.py")
    values = case.make_inputs(1)
    expected = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in values.items()}
    case.golden(expected)
    return case, values, expected


@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_every_stage_is_right_and_raises_no_false_alarm(folder: Path) -> None:
    case, values, expected = case_of(folder)
    for path in sorted(folder.glob("*.py")):
        program = read_dump(path.read_text(encoding="utf-8"), path.name)
        result = run(program, values, check_shapes=True)
        assert result.findings == (), path.name
        right(dict(result.outputs), case, expected)


@pytest.mark.parametrize("folder", LANES, ids=name_of)
@pytest.mark.parametrize("policy", ["round-robin", "random"])
def test_the_order_of_lanes_does_not_matter(folder: Path, policy: str) -> None:
    case, values, expected = case_of(folder)
    path = sorted(folder.glob("*.py"))[-1]
    program = read_dump(path.read_text(encoding="utf-8"), path.name)
    for seed in range(3):
        right(dict(run(program, values, policy=policy, seed=seed).outputs), case, expected)


@pytest.mark.parametrize("folder", LANES, ids=name_of)
def test_the_bare_script_runs_its_lanes_as_threads(folder: Path) -> None:
    case, values, expected = case_of(folder)
    path = sorted(folder.glob("22_*.py"))[-1]
    prepared = prepare(read_dump(path.read_text(encoding="utf-8"), path.name), values)
    names: dict[str, object] = {}
    exec(prepared.script.text, names)
    names[prepared.script.entry](*prepared.arguments)  # type: ignore[operator]
    right(dict(prepared.outputs), case, expected)
