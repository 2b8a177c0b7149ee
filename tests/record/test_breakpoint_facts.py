"""Breakpoints as data: they travel, read in words, and bring the steps at which they stop."""

from __future__ import annotations

import json

import pytest
import torch
from record_support import function_from

from pypto_lab.ir.diagnostics import LabError
from pypto_lab.record.breakpoints import (
    KINDS,
    AtLine,
    Breakpoint,
    OnDivergence,
    OnNonFinite,
    OnOp,
    OnQueue,
    OnRegion,
    OnVariable,
    When,
    breakpoint_of,
)
from pypto_lab.record.recorder import record
from pypto_lab.record.recording import Recording
from pypto_lab.record.session import Session

LOOP = """
def kernel(x, out):
    for i in range(4):
        row = x[i] * 2
        out[i] = row
    bad = torch.log(out - 3)
    return bad
"""

EVERY = (
    (Breakpoint(lane="host"), "every step, lane host"),
    (When("i > 2"), "when i > 2"),
    (AtLine(4), "line 4"),
    (AtLine(4, "kernel.py", iteration=2), "kernel.py:4, iteration 2"),
    (OnOp("tile.add", block=3), "op tile.add, block 3"),
    (OnVariable("row", condition="i == 1"), "`row` changes, when i == 1"),
    (OnRegion("out", (2, slice(0, 4))), "`out[2, 0:4]` is written"),
    (OnQueue("blocked"), "blocked on any pipe"),
    (OnQueue("push", "C2V[0]#0"), "push on C2V[0]#0"),
    (OnNonFinite(), "NaN or infinity"),
    (OnNonFinite("bad"), "NaN or infinity in `bad`"),
)


@pytest.fixture(scope="module")
def recording() -> Recording:
    x = torch.arange(16.0).reshape(4, 4)
    return record(function_from(LOOP, "kernel", "facts_loop.py"), {"x": x, "out": torch.zeros(4, 4)})


@pytest.mark.parametrize(("b", "words"), EVERY)
def test_a_breakpoint_survives_json_and_reads_in_words(recording: Recording, b: Breakpoint, words: str) -> None:
    session = Session(recording)
    facts = json.loads(json.dumps(session.facts(b)))
    again = breakpoint_of(facts)
    assert again == b
    assert facts["label"] == again.label == words
    assert facts["steps"] == session.stops(again)


def test_steps_are_those_at_which_a_run_stops(recording: Recording) -> None:
    session = Session(recording)
    facts = session.facts(OnRegion("out", (2, slice(0, 4))))
    session.break_at(breakpoint_of(facts))
    hits = []
    while (hit := session.run()) is not None:
        hits.append(hit.step.index)
    assert hits == facts["steps"]
    assert [s.where.iterations for s in map(recording.index.step, hits) if s.where.iterations] == [(2,)]
    assert session.facts(OnNonFinite())["steps"] == session.stops(OnVariable("bad"))


def test_a_divergence_is_from_a_recording_that_stays_here(recording: Recording) -> None:
    other = record(
        function_from(LOOP, "kernel", "facts_loop.py"),
        {"x": torch.arange(16.0).reshape(4, 4) + torch.eye(4), "out": torch.zeros(4, 4)},
    )
    session = Session(recording)
    facts = json.loads(json.dumps(session.facts(OnDivergence(other))))
    assert facts["kind"] == "divergence"
    assert len(facts["steps"]) == 1
    assert breakpoint_of(facts, other).label == "first divergence"


@pytest.mark.parametrize(
    "facts", [{}, {"kind": "row"}, {"kind": "line"}, {"kind": "line", "row": 3}, {"kind": "divergence"}]
)
def test_other_data_is_no_breakpoint(facts: dict[str, object]) -> None:
    with pytest.raises(LabError, match="E410"):
        breakpoint_of(facts)


def test_every_kind_has_a_name() -> None:
    own = [kind for kind in Breakpoint.__subclasses__() if kind.__module__.startswith("pypto_lab.record")]
    every = (Breakpoint, *own)  # slots make each class twice
    assert {kind.__name__ for kind in KINDS} == {kind.__name__ for kind in every}
