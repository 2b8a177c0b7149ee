"""Breakpoints that the browser finds by itself stop where a Session's do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench_support import as_written, in_node, lowered, of_text

from pypto_lab.record.breakpoints import OnOp, OnQueue, OnVariable
from pypto_lab.record.recording import Recording
from pypto_lab.record.session import Session
from pypto_lab.record.trace import Cells
from pypto_lab.view.workbench import workbench

RECORDINGS = {
    "k17_bias_updown": lambda: lowered("k17_bias_updown"),
    "k32_random": lambda: lowered("k32_pipe_bidir_dual", "random", 5),
    "k29_spmd_blocks": lambda: lowered("k29_spmd_blocks"),
    "k21_dyn_tail_fillpad": lambda: as_written("k21_dyn_tail_fillpad"),
    "k24_while_branch": lambda: as_written("k24_while_branch"),
    "k24_pto": lambda: of_text("while_branch", "k24_while_branch"),
}


def payload_of(recording: Recording) -> Any:
    return json.loads(json.dumps(workbench(recording).payload, default=lambda x: x.item()))


@pytest.mark.parametrize("name", RECORDINGS)
def test_variables_operations_and_queues_stop_where_the_sessions_do(name: str, tmp_path: Path) -> None:
    recording = RECORDINGS[name]()
    session = Session(recording)
    names = sorted({b.name for b in recording.trace.bindings} | {b.name.partition("__ssa_v")[0]
                                                                  for b in recording.trace.bindings})  # fmt: skip
    ops = sorted({s.op for s in recording.trace.statements if s.op})
    ops += sorted({op.rpartition(".")[2] for op in ops})
    pipes = sorted({e.pipe for e in recording.trace.events if e.pipe})
    events = [(kind, pipe) for kind in ("push", "pop", "free", "blocked", "resumed") for pipe in (None, *pipes)]
    script = """
    const r = new wb.Recording(given.payload.timeline);
    const sorted = (steps) => [...steps].sort((a, b) => a - b);
    const memories = new Set(Object.keys(given.payload.memories).map(Number));
    return {
      names: given.names.map((n) => sorted(wb.variableStops(r, n, memories))),
      ops: given.ops.map((o) => sorted(wb.operationStops(r, o))),
      events: given.events.map(([kind, pipe]) => sorted(wb.queueStops(r, kind, pipe))),
    };"""
    found = in_node(script, {"payload": payload_of(recording), "names": names, "ops": ops, "events": events}, tmp_path)
    assert found["names"] == [session.stops(OnVariable(name)) for name in names]
    assert found["ops"] == [session.stops(OnOp(op)) for op in ops]
    assert found["events"] == [session.stops(OnQueue(kind, pipe)) for kind, pipe in events]  # type: ignore[arg-type]
    assert any(found["names"])
    assert any(found["ops"])


def values_along(recording: Recording, name: str) -> list[tuple[int, int, float, float]]:
    """(frame, step, smallest, largest) of a variable at each step that gave it a value or wrote into it."""
    out = []
    for step in Session(recording).stops(OnVariable(name)):
        for frame in range(len(recording.trace.frames)):
            bound = recording.index.bound(frame, name, step)
            if bound is None:
                continue
            content = recording.index.content(bound.value, step)
            if isinstance(content, Cells):
                cells = np.asarray(content.numbers, np.float64)
                region = cells[tuple(slice(0, n) for n in content.valid)] if content.valid is not None else cells
                finite = region[np.isfinite(region)]
                if finite.size:
                    out.append((frame, step, float(finite.min()), float(finite.max())))
            elif isinstance(content, (bool, int, float)):
                out.append((frame, step, float(content), float(content)))
    return out


@pytest.mark.parametrize("name", ["k17_bias_updown", "k24_while_branch", "k29_spmd_blocks"])
def test_a_value_stops_where_it_comes_to_be_so(name: str, tmp_path: Path) -> None:
    recording = RECORDINGS[name]()
    asked: list[Any] = []
    expected: list[list[int]] = []
    for variable in sorted({b.name for b in recording.trace.bindings} - {"condition", "return"}):
        along = values_along(recording, variable)
        if not along:
            continue
        for limit in (0.0, 0.5, float(along[-1][3])):
            for comparison in ("above", "below", "equal"):
                asked.append([variable, comparison, limit])
                stops: set[int] = set()
                for frame in {f for f, *_ in along}:
                    before = False
                    for _, step, low, high in (row for row in along if row[0] == frame):
                        now = {"above": high > limit, "below": low < limit, "equal": low == high == limit}[comparison]
                        if now and not before:
                            stops.add(step)
                        before = now
                expected.append(sorted(stops))
    script = """
    const r = new wb.Recording(given.payload.timeline);
    const stats = (key) => given.payload.stats[key];
    return given.asked.map(([n, c, limit]) => {
      const found = wb.valueStops(r, n, c, limit, stats);
      return [[...found.steps].sort((a, b) => a - b), found.unknown];
    });"""
    found = in_node(script, {"payload": payload_of(recording), "asked": asked}, tmp_path)
    assert any(expected)
    for question, steps, (stops, unknown) in zip(asked, expected, found, strict=True):
        assert unknown == 0, question
        assert stops == steps, question
