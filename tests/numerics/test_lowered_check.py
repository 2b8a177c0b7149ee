"""The check of a lowering passes on sound ones, and names the stage, the way and the output of every kind of fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import pypto_lab as lab
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering import Lowered, lower
from pypto_lab.numerics import lowered_check
from pypto_lab.numerics.lowered_check import Failure, LoweringCheck, check_lowering, main, row, total

torch.set_num_threads(1)
KERNELS = Path(__file__).parent.parent / "data" / "kernels"
SUBSET = ("k02_shrinking_store", "k17_bias_updown", "k19_v2c_premix", "k23_pipeline_stage2", "k24_while_branch")


@pytest.mark.parametrize("arch", ["a2a3", "a5"])
@pytest.mark.parametrize("name", SUBSET)
def test_every_stage_is_right(name: str, arch: str) -> None:
    check = check_lowering(lab.case(KERNELS / name / "kernel.py"), arch, pto=True)
    assert check.failures == ()
    assert check.stages == check.right == 36
    assert 5 < check.ran < 20
    assert check.pto is True


class _Swapped(Rewriter):
    """Every addition is a subtraction."""

    def expr(self, node: n.Expr) -> n.Expr:
        return dataclasses.replace(node, op="tile.sub") if getattr(node, "op", "") == "tile.add" else node  # type: ignore[call-arg]


def faulty(monkeypatch: pytest.MonkeyPatch, number: int, change: Callable[[Any], Any]) -> None:
    """Lowerings of which `change` changes one stage."""

    def broken(program: n.Program, arch: str) -> Lowered:
        real = lower(program, arch)
        stages = tuple(change(dataclasses.replace(s)) if s.number == number else s for s in real.stages)
        return dataclasses.replace(real, stages=stages)

    monkeypatch.setattr(lowered_check, "lower", broken)


def checked() -> LoweringCheck:
    return check_lowering(lab.case(KERNELS / "k01_chain_scalars" / "kernel.py"))


def test_wrong_numbers_are_found_at_their_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    faulty(monkeypatch, 18, lambda s: dataclasses.replace(s, program=_Swapped().visit_program(s.program), same_as=None))
    check = checked()
    assert {f.stage for f in check.failures} == {"18_after_InferTileMemorySpace.py"}
    assert any(f.message.startswith("by names: ") for f in check.failures)
    assert check.right == check.stages - 1
    assert not check.ok


def test_wrong_addresses_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def overlaid(stage: Any) -> Any:
        """The second tile starts 32 bytes into the first one."""
        text = stage.text.replace("pl.const(9216, pl.INT64)", "pl.const(32, pl.INT64)")
        assert text != stage.text
        return dataclasses.replace(stage, program=lab.load(text), same_as=None)

    faulty(monkeypatch, 35, overlaid)
    messages = [f.message for f in checked().failures if f.stage.startswith("35_")]
    assert any(m.startswith("by addresses: ") for m in messages)
    assert not any(m.startswith("by names: ") for m in messages)


def test_a_finding_and_a_text_that_reads_differently_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoiled(stage: Any) -> Any:
        new = dataclasses.replace(stage, findings=(Diagnostic("V001", "assigned twice"),), same_as=None)
        new.__dict__["text"] = stage.text.replace("pl.tile.mul", "pl.tile.add", 1).replace(
            "pl.tile.adds", "pl.tile.subs", 1
        )
        return new

    faulty(monkeypatch, 20, spoiled)
    messages = [f.message for f in checked().failures if f.stage.startswith("20_")]
    assert "V001 assigned twice" in messages
    assert any(m.startswith("reads back as another program: ") for m in messages)


def test_a_text_that_does_not_read_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def torn(stage: Any) -> Any:
        new = dataclasses.replace(stage, same_as=None)
        new.__dict__["text"] = stage.text + "\n@@@\n"
        return new

    faulty(monkeypatch, 20, torn)
    assert any(f.message.startswith("does not read back: ") for f in checked().failures)


REFUSED = """
import torch
import pypto.language as pl

@pl.jit
def large(x: pl.Tensor[[512, 512], pl.FP32], out: pl.Out[pl.Tensor[[512, 512], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="exp"):
        out[:] = pl.exp(x)
    return out

def make_inputs(seed=0):
    return {"x": torch.zeros(512, 512), "out": torch.zeros(512, 512)}

def golden(t):
    t["out"][:] = t["x"].exp()
"""


def test_a_kernel_that_is_refused_fails_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "k99_large"
    folder.mkdir()
    (folder / "kernel.py").write_text(REFUSED, encoding="utf-8")
    assert main([str(tmp_path), "--arch", "a2a3"]) == 1
    shown = capsys.readouterr().out
    assert "k99_large  a2a3  refused" in shown
    assert "lowering: E817" in shown
    assert "1 of 1 lowerings refused" in shown


def test_the_command_chooses_cases_and_counts_stages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(KERNELS), "--case", "k0[12]_*", "--arch", "a5"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("36 of 36 stages") == 2
    assert "72 of 72 stages verify, print, read back and compute the golden" in shown
    assert "k01_chain_scalars" in shown


def test_a_folder_without_such_cases_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert main([str(KERNELS), "--case", "nothing*"]) == 2
    assert "no kernel.py" in capsys.readouterr().err


def test_the_table_counts_stages_and_texts() -> None:
    good = LoweringCheck("a", "a5", 36, 12, (), True)
    bad = LoweringCheck(
        "b", "a5", 36, 12, (Failure("16_after_X.py", "by names: out: wrong"), Failure("pto", "E610")), False
    )
    assert "    16_after_X.py: by names: out: wrong" in row(bad)
    assert "71 of 72 stages" in total([good, bad])
    assert "1 of 2 emitted" in total([good, bad])
