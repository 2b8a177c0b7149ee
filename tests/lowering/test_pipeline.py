"""Every stage of every case holds its invariants and computes the golden; stages print and read back."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from lowering_cases import NAMES, case, lowered, wrong_outputs

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir.equal import first_difference
from pypto_lab.ir.printer import print_program
from pypto_lab.lowering import PASSES, lower

torch.set_num_threads(1)

CLOSE = ("k11_rms_norm_residual", "k15_batched_transposed", "k20_bidir_blocks", "k22_carried_loops",
         "k23_pipeline_stage2", "k24_while_branch", "k26_gather_scatter", "k31_pipe_nosplit")  # fmt: skip
"""Cases whose stages are run one by one: between them every pass changes something."""
MIXED = [k for k in NAMES if k[:3] in ("k05", "k16", "k17", "k18", "k19", "k20", "k31", "k33", "k35", "k36")]


@pytest.mark.parametrize("name", NAMES)
def test_every_stage_holds_its_invariants(name: str) -> None:
    found = {s.file_name: [f.message for f in s.findings] for s in lowered(name).stages if s.findings}
    assert found == {}


@pytest.mark.parametrize("name", NAMES)
def test_the_last_stage_computes_the_golden_at_its_addresses(name: str) -> None:
    program = read_dump(print_program(lowered(name).program))
    assert wrong_outputs(name, program, memory="addresses", poison="nan") == []


@pytest.mark.parametrize("name", MIXED)
def test_a5_computes_the_golden_at_its_addresses(name: str) -> None:
    program = read_dump(print_program(lowered(name, "a5").program))
    assert wrong_outputs(name, program, memory="addresses", arch="a5", poison="nan") == []
    assert all(not s.findings for s in lowered(name, "a5").stages)


@pytest.mark.parametrize("name", CLOSE)
def test_every_stage_reads_back_and_computes_the_golden(name: str) -> None:
    for stage in lowered(name).stages:
        if not stage.changed and stage.number:
            continue
        again = read_dump(print_program(stage.program))
        assert first_difference(stage.program, again, memrefs=True) is None, stage.file_name
        assert [note.message for note in again.notes] == [], stage.file_name
        assert wrong_outputs(name, again) == [], stage.file_name


def test_between_them_the_cases_run_every_pass_that_the_cases_need() -> None:
    changed = {s.number for name in NAMES for s in lowered(name).stages if s.changed}
    idle = {number for number, _, _ in PASSES} - changed
    assert idle == {3, 6, 8, 15, 16, 31, 49}


def test_stages_are_written_as_the_compiler_names_them(tmp_path: Path) -> None:
    files = lowered("k17_bias_updown").write(tmp_path)
    names = [f.name for f in files]
    assert names[0] == "00_frontend.py"
    assert names[-1] == "49_after_MaterializeValidShapeSymbols.py"
    assert "22_after_ExpandMixedKernel.py" in names
    assert all(f.parent == tmp_path / "passes_dump" for f in files)
    last = read_dump(files[-1].read_text(encoding="utf-8"))
    assert set(last.functions) == {"mm_rows_aic", "mm_rows_aiv", "mm_rows", "bias_updown"}


def test_a_stage_names_the_functions_it_changed() -> None:
    stages = lowered("k17_bias_updown")
    assert stages.stage(22).changed == ("mm_rows_aic", "mm_rows_aiv", "mm_rows")
    assert stages.stage(2).changed == ()
    assert set(stages.stage(46).changed) == {"bias_updown"}


def test_a_stage_keeps_its_text_and_shares_that_of_an_unchanged_one() -> None:
    stages = lowered("k17_bias_updown").stages
    for before, stage in pairwise(stages):
        assert stage.text == print_program(stage.program), stage.file_name
        assert stage.text is stage.text
        if stage.same_as is not None:
            assert stage.same_as is before
            assert stage.text is before.text
            assert stage.changed == ()
            assert stage.program is before.program
    assert sum(stage.same_as is None for stage in stages) < len(stages) - 10


def test_lowering_stops_where_it_is_told() -> None:
    program = case("k17_bias_updown").program()
    half = lower(program, until=11)
    assert half.stages[-1].number == 11
    with pytest.raises(KeyError, match="no pass 22"):
        half.stage(22)


def test_an_unknown_arch_is_named() -> None:
    with pytest.raises(ValueError, match="a2a3, a5"):
        lower(case("k01_chain_scalars").program(), "a7")


def test_lowering_leaves_its_input_alone() -> None:
    program = case("k20_bidir_blocks").program()
    before = print_program(program)
    lower(program)
    assert print_program(program) == before
