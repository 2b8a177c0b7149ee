"""Breakpoints travel both ways; a run of `.pto` text says where its lines come from and lists the script that ran."""

from __future__ import annotations

from typing import Any

import pytest
from bench_support import as_written, lowered, of_text

from pypto_lab.record.breakpoints import (
    AtLine,
    Breakpoint,
    OnDivergence,
    OnNonFinite,
    OnOp,
    OnQueue,
    OnRegion,
    OnVariable,
    When,
)
from pypto_lab.record.session import Session
from pypto_lab.view.workbench import workbench
from pypto_lab.view.workbench.listing import script_listing
from pypto_lab.view.workbench.stops import AtSteps, breakpoints_of, stops_of

K17 = "k17_bias_updown"
EVERY: list[Breakpoint] = [
    AtLine(33), AtLine(30, lane="AIV1"), OnOp("tile.add"), OnVariable("acc_tile_Vec"), OnQueue("push"),
    OnRegion("out_ssa_v1", (slice(0, 4), 3)), OnNonFinite(), When(condition="subblock_idx == 1"),
    AtSteps(text="out above 3", steps=(4, 9, 400)),
]  # fmt: skip


def test_every_kind_comes_back_as_it_went() -> None:
    session = Session(lowered(K17))
    session.break_at(*EVERY)
    stops = stops_of(session)
    other = Session(lowered(K17))
    other.breakpoints[:] = breakpoints_of(other, stops)
    assert stops_of(other) == [{**stop, "steps": other.stops(b)} for stop, b in zip(stops, EVERY, strict=True)]
    assert other.breakpoints[:-1] == EVERY[:-1]
    assert other.stops(other.breakpoints[-1]) == [4, 9], "what lies outside the recording is dropped"


def test_what_does_not_travel_stays_the_sessions_own() -> None:
    session = Session(lowered(K17))
    own = OnDivergence(other=as_written(K17))
    session.break_at(own)
    (back,) = breakpoints_of(session, stops_of(session))
    assert back is own
    assert breakpoints_of(Session(lowered(K17)), stops_of(session)) == []


@pytest.mark.parametrize("stop", [None, 3, {}, {"kind": "row"}, {"kind": "line"}, {"kind": "steps", "steps": ["a"]}])
def test_what_is_no_breakpoint_is_left_out(stop: Any) -> None:
    session = Session(lowered(K17))
    assert breakpoints_of(session, [stop]) == []


def test_widget_and_session_share_breakpoints() -> None:
    bench = workbench(lowered(K17))
    bench.break_at(OnOp("tile.add"))
    widget = bench.widget()
    assert [s["label"] for s in widget.stops] == ["op tile.add"]
    line = {"kind": "line", "line": 33, "file": bench.sources[0].name, "label": "here", "steps": [1]}
    widget.stops = [line, {"kind": "variable", "name": "t_tile", "label": "t_tile is written", "steps": [2]}]
    assert bench.session.breakpoints == [AtLine(33, bench.sources[0].name), OnVariable("t_tile")]
    bench.session.goto(0)
    hit = bench.session.run()
    assert hit is not None
    assert bench.session.position == min(bench.session.stops(AtLine(33)))
    bench.break_at(OnQueue("free"))
    assert [s["kind"] for s in widget.stops] == ["line", "variable", "queue"]
    assert [s["steps"] for s in widget.stops] == [bench.session.stops(b) for b in bench.session.breakpoints]
    widget.stops = []
    assert bench.session.breakpoints == []


def test_a_text_says_where_it_comes_from_and_the_script_is_what_ran() -> None:
    recording = of_text("while_branch", "k24_while_branch")
    bench = workbench(recording)
    rows = bench.payload["timeline"]["statements"]
    told = {row[12] for row in rows}
    assert told == {f"{s.origin.file}:{s.origin.line}" if s.origin is not None else ""
                    for s in recording.trace.statements}  # fmt: skip
    listing = script_listing(recording)
    ran = {frame.function for frame in recording.trace.frames}
    names = {f.id: f.name for f in recording.trace.functions if f.file is None}
    text = "\n".join(listing.lines)
    assert {name for id_, name in names.items() if f"def {name}(" in text} == {n for i, n in names.items() if i in ran}
    assert set(names) - ran, "the kernels' own script did not run"
