"""Recordings and positions as text, the same from a live recording and from an opened archive."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pypto_lab.record.arrays import summarise
from pypto_lab.record.events import EventKind, QueueState, StepKind
from pypto_lab.record.expressions import shown
from pypto_lab.record.queries import queues_at
from pypto_lab.record.trace import Cells

if TYPE_CHECKING:
    from pypto_lab.record.recording import Recording
    from pypto_lab.record.session import Session


def report(recording: Recording) -> str:
    """How the run went, its lanes, values in and out, queues, and every statement with how often it ran."""
    facts = recording.facts
    rows = [f"recording of {facts.entry}: {len(recording)} steps, {facts.status}, seed {facts.seed}"]
    if facts.engine:
        rows.append(facts.engine)
    if facts.branch:
        rows.append(f"branch: {facts.branch}")
    if facts.error:
        rows += ["error:", *[f"  {row}" for row in facts.error.splitlines()]]
    rows += ["", "lanes", *_table(_lane_rows(recording))]
    rows += ["", "arguments (before -> after)", *_table(_argument_rows(recording))]
    queues = _queue_rows(recording)
    if queues:
        rows += ["", "queues", *_table(queues)]
    left = [w for q in queues_at(recording, len(recording)) for w in q.waiters]
    if left:
        rows += ["", "waiting at the end", *[f"  {w}" for w in left]]
    rows += ["", "statements", *_table(_statement_rows(recording))]
    return "\n".join(rows) + "\n"


def state_report(session: Session) -> str:
    """A position: the step just done, lanes, queues, variables and watches."""
    current = session.current
    rows = [f"position {session.position} of {len(session)}"]
    rows += [f"  {current}"] if current is not None else ["  before the first step"]
    rows += ["", "lanes"]
    rows += _table(
        [(s.name, s.status, s.source, s.text if s.waiting is None else str(s.waiting)) for s in session.lanes]
    )
    queues = session.queues
    if queues:
        rows += ["", "queues", *[row for q in queues for row in _queue_state(q)]]
    rows += ["", f"variables of {session.focus.lane}"]
    found = session.variables()
    placed = any(v.place is not None for v in found)
    where = [(str(v.place or ""),) if placed else () for v in found]
    rows += _table(
        [(v.name, v.text, *w, f"step {v.last_written}", v.source) for v, w in zip(found, where, strict=True)]
    )
    if session.watches:
        rows += ["", "watches", *_table([(w.expression, w.text) for w in session.watched])]
    return "\n".join(rows) + "\n"


def _lane_rows(recording: Recording) -> Iterable[tuple[str, ...]]:
    index = recording.index
    yield ("lane", "steps", "first", "last", "waits")
    for name in recording.lanes:
        steps = index.steps_of_lane[recording.trace.lanes.index(name)]
        waits = sum(recording.trace.steps.kind[s - 1] == StepKind.BLOCKED for s in steps)
        yield (name, str(len(steps)), str(steps[0]), str(steps[-1]), str(waits))


def _argument_rows(recording: Recording) -> Iterable[tuple[str, ...]]:
    for name, value in recording.facts.inputs.items():
        before = recording.index.content(value, 0)
        after = recording.index.content(value, len(recording))
        if not isinstance(before, Cells) or not isinstance(after, Cells):
            yield (name, shown(before), "")
            continue
        numbers = summarise(after.raw, after.dtype, after.valid)
        yield (name, shown(before), f"-> {numbers}" if value in recording.facts.outputs.values() else "")


def _queue_rows(recording: Recording) -> list[tuple[str, ...]]:
    counts: dict[str, list[int]] = {}
    for e in recording.trace.events:
        if e.kind != EventKind.RESET:
            counts.setdefault(e.pipe, [0] * len(EventKind))[e.kind] += 1
    head = ("pipe", "pushes", "pops", "frees", "waits")
    kinds = (EventKind.PUSH, EventKind.POP, EventKind.FREE, EventKind.BLOCKED)
    body = [(pipe, *(str(n[k]) for k in kinds)) for pipe, n in counts.items()]
    return [head, *body] if body else []


def _queue_state(queue: QueueState) -> Iterable[str]:
    depth = "unbounded" if queue.depth is None else f"of {queue.depth} slots"
    yield f"  {queue.pipe}: {queue.occupied} {depth}; pushed {queue.pushed}, popped {queue.popped}, freed {queue.freed}"
    for e in queue.entries:
        held = f", held by {e.held_by}" if e.held_by else ""
        place = f"pushed by {e.pushed_by} at step {e.pushed_at}, {e.pushed_line}"
        yield f"    slot {e.slot}: {e.dtype} {list(e.shape)} valid {list(e.valid)}, {place}{held}"
    for w in queue.waiters:
        yield f"    {w}"


def _statement_rows(recording: Recording) -> Iterable[tuple[str, ...]]:
    counts: dict[int, int] = {}
    for number in recording.trace.steps.statement:
        counts[number] = counts.get(number, 0) + 1
    entered = {f.function for f in recording.trace.frames}
    for s in recording.trace.statements:
        if recording.facts.engine and s.function not in entered:
            continue  # its place was taken by a text that the engine ran
        if s.kind == StepKind.ENTER:
            yield ("", "", s.text)
            continue
        place = str(s.spot) if s.spot is not None else f"script:{s.line}"
        yield (f"{counts.get(s.id, 0)}x", place, s.text)


def _table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Rows with their columns aligned, the last one free."""
    held = [tuple(row) for row in rows]
    if not held:
        return ["  none"]
    widths = [max(len(row[i]) for row in held) for i in range(len(held[0]))]
    lines = ["  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in held]
    return [line.rstrip() for line in lines]
