"""Recording the case kernels: same numbers bit for bit, every recomputed value is the one the run had, same digest."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from record_support import DATA, assert_matches, dumps_of, program_of_dump, snapshots

from pypto_lab.compat.cases import case
from pypto_lab.ir.nodes import Program
from pypto_lab.record.events import RecomputedValue
from pypto_lab.record.recorder import record
from pypto_lab.record.trace import same_cells
from pypto_lab.torch_codegen.execute import run

KERNELS = sorted(p.name for p in (DATA / "kernels").iterdir())
DUMPS = [path for folder in sorted((DATA / "dumps").iterdir()) if folder.is_dir() for path in dumps_of(folder.name)]
LAST_DUMPS = [p for p in DUMPS if p == sorted(p.parent.glob("*.py"))[-1]]


def inputs_of(name: str) -> dict[str, Any]:
    return dict(case(DATA / "kernels" / name / "kernel.py").make_inputs(0))


def bits(x: torch.Tensor) -> bytes:
    return x.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def same_outputs(program: Program, values: dict[str, Any]) -> None:
    """The recorded run, the plain run and the recording of every value agree bit for bit."""
    plain = run(program, values)
    recording = record(program, values)
    assert recording.ok, recording.error
    assert {k: bits(v) for k, v in recording.outputs.items()} == {k: bits(v) for k, v in plain.outputs.items()}
    kept = record(program, values, keep_all=True)
    for mine, theirs in zip(recording.trace.bindings, kept.trace.bindings, strict=True):
        assert (mine.step, mine.name) == (theirs.step, theirs.name)
        if isinstance(recording.trace.values[mine.value], RecomputedValue):
            left = recording.index.content(mine.value, mine.step)
            assert same_cells(left, kept.index.content(theirs.value, theirs.step)), recording.index.step(mine.step)


@pytest.mark.parametrize("name", KERNELS)
def test_recording_leaves_the_numbers_alone(name: str) -> None:
    subject = case(DATA / "kernels" / name / "kernel.py")
    values = dict(subject.make_inputs(0))
    same_outputs(subject.program(values), values)


@pytest.mark.parametrize("path", LAST_DUMPS, ids=lambda p: p.parent.parent.name)
def test_recording_the_lowered_program(path: Path) -> None:
    same_outputs(program_of_dump(path), inputs_of(path.parent.parent.name))


@pytest.mark.parametrize("name", ["k21_dyn_tail_fillpad", "k24_while_branch", "k30_pipe_two_groups", "k33_flash_mini"])
def test_every_position_of_a_kernel(name: str) -> None:
    path = next(p for p in LAST_DUMPS if p.parent.parent.name == name)
    with snapshots() as expected:
        recording = record(program_of_dump(path), inputs_of(name), policy="random", seed=3)
    assert len(recording) == len(expected)
    for k in range(len(recording), 0, -1):
        assert_matches(recording, k, expected[k - 1])


def test_the_same_seed_gives_the_same_recording() -> None:
    subject = case(DATA / "kernels" / "k32_pipe_bidir_dual" / "kernel.py")
    values = dict(subject.make_inputs(0))
    program = subject.program(values)
    digests = {record(program, values, seed=7, policy="random").digest() for _ in range(20)}
    assert len(digests) == 1
    others = {record(program, values, seed=s, policy="random").digest() for s in range(6)}
    assert len(others) > 1, "the seed chooses the order of the lanes"


def test_a_golden_is_recorded_beside_its_kernel() -> None:
    subject = case(DATA / "kernels" / "k09_softmax_rows" / "kernel.py")
    values = dict(subject.make_inputs(0))
    golden = record(subject.golden_of, {next(iter(inspect.signature(subject.golden_of).parameters)): values})
    assert golden.ok, golden.error
    expected = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in values.items()}
    subject.golden(expected)
    name = subject.outputs[0]
    value = golden.index.content(next(iter(golden.facts.inputs.values())), len(golden))
    assert torch.equal(torch.from_numpy(value[name].numbers.copy()), expected[name].float())
    assert any(s.text for s in golden.trace.statements)
