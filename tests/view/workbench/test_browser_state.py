"""The browser's own code gives the state that a Session gives, at every step and for every move."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from bench_support import as_written, in_node, lowered

from pypto_lab.record.breakpoints import AtLine
from pypto_lab.record.recording import Recording
from pypto_lab.record.session import Focus, Session
from pypto_lab.record.trace import Cells
from pypto_lab.view.workbench import workbench

RECORDINGS = {
    "k17_bias_updown": lambda: lowered("k17_bias_updown"),
    "k32_pipe_bidir_dual": lambda: lowered("k32_pipe_bidir_dual"),
    "k32_random": lambda: lowered("k32_pipe_bidir_dual", "random", 5),
    "k33_flash_mini": lambda: lowered("k33_flash_mini"),
    "k29_spmd_blocks": lambda: lowered("k29_spmd_blocks"),
    "k21_dyn_tail_fillpad": lambda: as_written("k21_dyn_tail_fillpad"),
    "k26_gather_scatter": lambda: as_written("k26_gather_scatter"),
}

PREPARE = """
const recording = new wb.Recording(given.payload.timeline);
const cursor = new wb.Cursor(recording);
const queues = new wb.Queues(recording);
const names = given.payload.timeline.lanes;
const stats = (key) => given.payload.stats[key];
const waiter = (w) => [names[w.lane], w.pipe, w.operation, w.reason, w.since, recording.sourceOf(w.since)];
const state = () => ({
  position: cursor.position,
  lane: names[cursor.focus.lane],
  block: cursor.focus.block,
  iteration: cursor.focus.iteration,
  text: cursor.position ? recording.textOf(cursor.position) : "",
  source: cursor.position ? recording.sourceOf(cursor.position) : "",
  where: cursor.position ? recording.coordinate(cursor.position) : "",
  lanes: given.payload.timeline.used.map((lane) => {
    const s = wb.laneState(cursor, lane);
    return [names[lane], s.status, s.position, s.waiting ? waiter(s.waiting) : null];
  }),
  queues: queues.at(cursor.position).map((q) => [q.pipe, q.block, q.depth, q.pushed, q.popped, q.freed,
    q.entries.map((e) => [e.slot, e.value, e.shape, e.valid, e.dtype, names[e.pushedBy], e.pushedAt,
      recording.sourceOf(e.pushedAt), e.heldBy === null ? null : names[e.heldBy]]),
    q.waiters.map(waiter)]),
  variables: wb.variablesOf(cursor, cursor.focus.lane, stats).map((v) =>
    [v.name, v.kind, v.dtype, v.shape, v.valid, v.text, v.lastWritten]),
});
"""


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def waiter_row(session: Session, w: Any) -> list[Any]:
    return [w.lane, w.pipe, w.operation, w.reason, w.since, w.source]


def state_of(session: Session) -> dict[str, Any]:
    """The same facts as the script's `state()`, from the session."""
    focus, current = session.focus, session.current
    turns = focus.iteration
    return plain(
        {
            "position": session.position,
            "lane": focus.lane,
            "block": focus.block,
            "iteration": [turns] if isinstance(turns, int) else turns,
            "text": current.text if current is not None else "",
            "source": current.source if current is not None else "",
            "where": str(current.where) if current is not None else "",
            "lanes": [
                [s.name, s.status, s.position, None if s.waiting is None else waiter_row(session, s.waiting)]
                for s in session.lanes
            ],
            "queues": [
                [
                    q.pipe, q.block, q.depth, q.pushed, q.popped, q.freed,
                    [
                        [e.slot, e.value, e.shape, e.valid, e.dtype, e.pushed_by, e.pushed_at, e.pushed_line, e.held_by]
                        for e in q.entries
                    ],
                    [waiter_row(session, w) for w in q.waiters],
                ]
                for q in session.queues
            ],
            "variables": [
                [v.name, v.kind, v.dtype, v.shape, v.valid, v.text, v.last_written] for v in session.variables()
            ],
        }
    )  # fmt: skip


def payload_of(recording: Recording) -> Any:
    return json.loads(json.dumps(workbench(recording).payload, default=lambda x: x.item()))


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_position_is_the_sessions(name: str, tmp_path: Path) -> None:
    recording = RECORDINGS[name]()
    script = (
        PREPARE
        + """
    const out = [];
    for (let k = 0; k <= recording.length; k++) { cursor.goto(k); out.push(state()); }
    return out;"""
    )
    found = in_node(script, {"payload": payload_of(recording)}, tmp_path)
    session = Session(recording)
    assert len(found) == len(recording) + 1
    for k, state in enumerate(found):
        session.goto(k)
        assert state == state_of(session), k


MOVES = {
    "step": "step", "back": "back", "next_event": "nextEvent", "previous_event": "previousEvent", "over": "over",
    "back_over": "backOver", "into": "into", "out": "out", "follow": "follow", "run": "run", "run_back": "runBack",
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_move_ends_where_the_sessions_does(name: str, tmp_path: Path) -> None:
    """A long random walk: moves, jumps, lanes, blocks and iterations, with breakpoints on three lines."""
    recording = RECORDINGS[name]()
    chance = random.Random(11)
    session = Session(recording)
    lines = sorted({(s.spot.file, s.spot.line) for s in recording.trace.statements if s.spot is not None})
    stops = chance.sample(lines, min(3, len(lines)))
    session.break_at(*[AtLine(line, file) for file, line in stops])
    walk: list[Any] = []
    expected: list[Any] = []
    blocks = sorted({b for b in recording.trace.steps.block if b >= 0})
    for _ in range(250):
        kind = chance.choice([*MOVES, "goto", "lane", "narrow"])
        if kind == "goto":
            position = chance.randint(0, len(recording))
            session.goto(position)
            walk.append(["goto", position])
        elif kind in ("lane", "narrow"):
            lane = chance.choice(recording.lanes)
            block = chance.choice([None, *blocks]) if kind == "narrow" else None
            turn = chance.choice([None, 0, 1]) if kind == "narrow" else None
            if not session._steps_in(Focus(lane, block, None, turn)):
                continue
            session.focus_on(lane, block=block, iteration=turn)
            walk.append(["focus", lane, block, None if turn is None else [turn]])
        else:
            getattr(session, kind)()
            walk.append([MOVES[kind]])
        expected.append([walk[-1], session.position, session.focus.lane, session.following])
    script = (
        PREPARE
        + """
    for (const [file, line] of given.stops) cursor.toggleBreakpoint({ file, line });
    const out = [];
    for (const [move, ...rest] of given.walk) {
      if (move === "goto") cursor.goto(rest[0]);
      else if (move === "focus") {
        cursor.focusOn({ lane: names.indexOf(rest[0]), block: rest[1], task: null, iteration: rest[2] });
      }
      else cursor[move]();
      out.push([[move, ...rest], cursor.position, names[cursor.focus.lane], cursor.following]);
    }
    return out;"""
    )
    short = workbench(recording).files.short
    given = {"payload": payload_of(recording), "walk": walk, "stops": [[short(file), line] for file, line in stops]}
    assert in_node(script, given, tmp_path) == plain(expected)


@pytest.mark.parametrize("name", RECORDINGS)
def test_who_wrote_a_cell(name: str, tmp_path: Path) -> None:
    recording = RECORDINGS[name]()
    chance = random.Random(3)
    session = Session(recording)
    asked: list[Any] = []
    expected: list[Any] = []
    for _ in range(150):
        session.goto(chance.randint(1, len(recording)))
        tensors = [v for v in session.variables() if v.kind == "tensor" and v.shape and 0 not in v.shape]
        if not tensors:
            continue
        v = chance.choice(tensors)
        binding = session.find(v.name)
        assert isinstance(session.value(v.name), Cells)
        cell = [chance.randrange(n) for n in v.shape]
        author = session.who_wrote(v.name, tuple(cell))
        asked.append([binding.step, binding.frame, binding.name, binding.value, cell, session.position])
        expected.append([*asked[-1], author.step, author.how])
    script = (
        PREPARE
        + """
    return given.asked.map(([step, frame, name, value, cell, position]) => {
      const author = wb.authorOf(recording, { step, frame, name, value }, cell, position);
      return [step, frame, name, value, cell, position, author.step, author.how];
    });"""
    )
    assert in_node(script, {"payload": payload_of(recording), "asked": asked}, tmp_path) == expected


def test_the_packed_payload_is_unpacked_as_it_was(tmp_path: Path) -> None:
    import base64

    bench = workbench(lowered("k17_bias_updown"))
    script = "return await wb.unpack(Uint8Array.from(atob(given), (c) => c.charCodeAt(0)));"
    found = in_node(script, base64.b64encode(bench.packed()).decode(), tmp_path)
    assert found == payload_of(bench.recording)
    assert bench.packed() == workbench(bench.recording).packed()


def test_another_version_is_refused(tmp_path: Path) -> None:
    import base64
    import gzip

    payload = payload_of(lowered("k17_bias_updown"))
    payload["timeline"]["version"] = 99
    packed = base64.b64encode(gzip.compress(json.dumps(payload).encode())).decode()
    script = """
    try { await wb.unpack(Uint8Array.from(atob(given), (c) => c.charCodeAt(0))); return "read"; }
    catch (error) { return String(error); }"""
    assert "version 1, not 99" in in_node(script, packed, tmp_path)
