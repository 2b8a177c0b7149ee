"""Questions about a recording: who wrote a cell, who reads a value, what stands in the queues, where two runs part."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto_lab.record.arrays import raw_dtype
from pypto_lab.record.events import (
    Author,
    Coordinate,
    EventKind,
    Place,
    QueueEntry,
    QueueEvent,
    QueueState,
    Region,
    StepKind,
    TensorValue,
    Waiter,
    region_of,
)
from pypto_lab.record.store import byte_interval, covered, region_addresses
from pypto_lab.record.trace import Binding, Cells, Content, Index, same_cells

if TYPE_CHECKING:
    from pypto_lab.record.recording import Recording


# --- writers and readers ---------------------------------------------------------------------------------------------


def author_of(recording: Recording, binding: Binding, region: Region, position: int) -> Author:
    """Who gave a region of a variable's value the content it has at `position`: the latest of its writers."""
    return authors_of(recording, binding, region, position)[0][0]


def authors_of(recording: Recording, binding: Binding, region: Region, position: int) -> list[tuple[Author, int]]:
    """All writers of a region with the number of its cells whose content is theirs, the latest first."""
    index = recording.index
    found = index.trace.values[binding.value]
    cells = _count(region)
    if not isinstance(found, TensorValue):
        return [(_author(recording, binding.step, "created"), cells)]
    left = region_addresses(found, region)
    out: list[tuple[Author, int]] = []
    writes = index.trace.store.writes_to(found.storage)
    last = bisect_right(writes.steps, position)
    if left.size:
        for i in reversed(writes.overlapping(0, last, int(left.min()), int(left.max()) + 1)):
            write = index.trace.store.writes[writes.ids[i]]
            touched = covered(write, left)
            if touched.any():
                out.append((_author(recording, write.step, "written"), int(touched.sum())))
                left = left[~touched]
            if not left.size:
                break
    if left.size:
        out += _makers(recording, found, left, int(left.size))
    return sorted(out, key=lambda pair: -pair[0].step)


def _makers(recording: Recording, value: TensorValue, addresses: np.ndarray[Any, Any], cells: int) -> list[Any]:
    """Who is behind cells that nobody wrote since their storage came to be: an argument, a statement, or (for the copy
    that an update makes) the writers of the value it started from."""
    index = recording.index
    if value.storage in index.trace.memories:
        return [(Author(0, None, "", "", "unknown"), cells)]
    step, first = index.creation.get(value.storage, (0, -1))
    if first in recording.facts.inputs.values() or step <= 1:
        return [(_author(recording, 0, "argument"), cells)]
    statement = index.statement(step)
    made = index.trace.values[first]
    if statement is not None and statement.updates is not None and isinstance(made, TensorValue):
        frame = index.trace.steps.frame[step - 1]
        before = index.bound(frame, statement.updates, step - 1)
        source = index.trace.values[before.value] if before is not None else None
        if before is not None and isinstance(source, TensorValue) and source.shape == made.shape:
            where = region_of(None, made.shape)
            same = np.isin(region_addresses(made, where), addresses).reshape(made.shape)
            return _authors_of_mask(recording, before, source, same, step - 1)
    return [(_author(recording, step, "created"), cells)]


def _authors_of_mask(
    recording: Recording, binding: Binding, value: TensorValue, mask: np.ndarray[Any, Any], position: int
) -> list[tuple[Author, int]]:
    counts: dict[Author, int] = {}
    if mask.all():
        return authors_of(recording, binding, region_of(None, value.shape), position)
    for cell in np.argwhere(mask)[:4096]:
        author = author_of(recording, binding, region_of([int(c) for c in cell], value.shape), position)
        counts[author] = counts.get(author, 0) + 1
    return list(counts.items())


def next_write_of(recording: Recording, binding: Binding, region: Region, position: int) -> Author | None:
    """The next step after `position` that writes to a region in place, or None."""
    found = recording.trace.values[binding.value]
    if not isinstance(found, TensorValue):
        return None
    store = recording.trace.store
    write = next(store.writes_touching(found.storage, region_addresses(found, region), position), None)
    return None if write is None else _author(recording, store.writes[write].step, "written")


def readers_of(recording: Recording, binding: Binding, position: int) -> list[int]:
    """Steps that read the value a variable holds at `position`, under whatever name: from where it got its content
    until it is written again."""
    index = recording.index
    first, last = version_bounds(index, binding, position)
    out: set[int] = set()
    for alias, begin, end in _aliases(index, binding):
        for step in _reads(index, alias, max(begin, first), min(end, last)):
            out.add(step)
    return sorted(out)


def version_bounds(index: Index, binding: Binding, position: int) -> tuple[int, int]:
    """The steps (first, last) between which the value keeps the content it has at `position`."""
    found = index.trace.values[binding.value]
    if not isinstance(found, TensorValue):
        return binding.step, len(index.trace)
    writes = index.trace.store.writes_to(found.storage)
    at = bisect_right(writes.steps, position)
    low, high = byte_interval(found, raw_dtype(found.dtype).itemsize)
    before = writes.overlapping(0, at, low, high)
    after = writes.overlapping(at, len(writes.steps), low, high)
    first = max(binding.step, writes.steps[before[-1]]) if before else binding.step
    return first, writes.steps[after[0]] if after else len(index.trace)


def place_of(index: Index, binding: Binding) -> Place | None:
    """Where a variable lies on chip: the bytes of its lane's memory, or what the program states; None where it is not
    known."""
    found = index.trace.values[binding.value]
    if isinstance(found, TensorValue) and found.storage in index.trace.memories:
        return Place(index.trace.memories[found.storage].space, *index.interval(found))
    statement = index.statement(binding.step) if binding.step else None
    if statement is None or not statement.places or binding.name not in statement.targets:
        return None
    return statement.places[statement.targets.index(binding.name)]


def _aliases(index: Index, binding: Binding) -> Iterator[tuple[Binding, int, int]]:
    """Every variable that holds the same storage, with the steps from and until which it does."""
    wanted = index.trace.values[binding.value]
    for (frame, name), (steps, values) in index.history.items():
        for at, value in enumerate(values):
            held = index.trace.values[value]
            same = value == binding.value and (frame, name) == (binding.frame, binding.name)
            if isinstance(held, TensorValue) and isinstance(wanted, TensorValue):
                same = same or index.overlap(held, wanted)
            if same:
                until = steps[at + 1] if at + 1 < len(steps) else index.trace.frames[frame].end
                yield Binding(steps[at], frame, name, value), steps[at], until


def _reads(index: Index, binding: Binding, first: int, last: int) -> Iterator[int]:
    for step in index.steps_of_frame.get(binding.frame, ()):
        if first < step <= last:
            statement = index.statement(step)
            if statement is not None and statement.kind != StepKind.ENTER and binding.name in statement.reads:
                yield step


def _author(recording: Recording, step: int, how: Any) -> Author:
    if step == 0 or how == "argument":
        return Author(0, None, "", "", "argument")
    at = recording.index.step(step)
    return Author(step, at.where, at.text, at.source, how, at.where.iterations)


def _count(region: Region) -> int:
    out = 1
    for part in region:
        out *= len(range(part.start, part.stop, part.step))
    return out


# --- queues ----------------------------------------------------------------------------------------------------------


class _Ring:
    """A pipe while its events are replayed."""

    def __init__(self) -> None:
        self.entries: dict[int, list[Any]] = {}
        self.depth: int | None = None
        self.pushed = self.popped = self.freed = 0

    def lets_on(self, reason: str) -> bool:
        """Whether a lane that waits here could go on: its turn has not come yet."""
        if reason == "empty":
            return self.pushed > self.popped
        return reason == "full" and self.depth is not None and self.pushed - self.freed < self.depth


def queues_at(recording: Recording, position: int) -> tuple[QueueState, ...]:
    """Every pipe at a position, in order of appearance; a group's start empties those of its block. Of other blocks
    than the current step's only pipes in use are listed."""
    rings, waiting = _replayed(recording, position)
    here = recording.index.coordinate(position).block if position else None
    found = [
        _state(recording, pipe, block, ring, [e for e in waiting if (e.block, e.pipe) == (block, pipe)])
        for (block, pipe), ring in rings.items()
    ]
    return tuple(q for q in found if q.block in (here, None) or q.entries or q.waiters)


def waits_at(recording: Recording, position: int) -> list[QueueEvent]:
    """The waits that lanes are in: what they wait for has not come about."""
    return _replayed(recording, position)[1]


def _replayed(recording: Recording, position: int) -> tuple[dict[tuple[int | None, str], _Ring], list[QueueEvent]]:
    """Rings by (block, pipe) and waits, after the events up to a position."""
    rings: dict[tuple[int | None, str], _Ring] = {}
    waits: dict[tuple[int, int | None], QueueEvent] = {}
    last = bisect_right(recording.index.event_steps, position)
    freed_pipes = recording.index.freed_pipes
    for e in recording.trace.events[:last]:
        if e.kind == EventKind.RESET:
            rings = {key: ring for key, ring in rings.items() if key[0] != e.block}
            waits = {key: w for key, w in waits.items() if key[1] != e.block}
            continue
        ring = rings.setdefault((e.block, e.pipe), _Ring())
        if e.kind == EventKind.BLOCKED:
            waits[e.lane, e.block] = e
        elif e.kind == EventKind.RESUMED:
            waits.pop((e.lane, e.block), None)
        else:
            _replay(ring, e, keep=e.pipe in freed_pipes)
    return rings, [e for e in waits.values() if not rings[e.block, e.pipe].lets_on(e.reason)]


def _replay(ring: _Ring, e: Any, keep: bool) -> None:
    slot = e.slot if e.slot is not None else ring.pushed
    if e.kind == EventKind.PUSH:
        ring.entries[slot] = [e, None]
        ring.pushed += 1
        ring.depth = e.depth if e.depth is not None else ring.depth
    elif e.kind == EventKind.POP:
        ring.popped += 1
        if keep and slot in ring.entries:
            ring.entries[slot][1] = e
        else:
            ring.entries.pop(slot, None)
    elif e.kind == EventKind.FREE:
        ring.freed += 1
        ring.entries.pop(slot, None)


def _state(recording: Recording, name: str, block: int | None, ring: _Ring, waits: list[Any]) -> QueueState:
    entries = tuple(_entry(recording, slot, push, pop) for slot, (push, pop) in ring.entries.items())
    waiters = tuple(waiter_of(recording, e) for e in waits)
    return QueueState(name, entries, ring.depth, ring.pushed, ring.popped, ring.freed, waiters, block)


def _entry(recording: Recording, slot: int, push: Any, pop: Any) -> QueueEntry:
    trace = recording.trace
    value = trace.values[push.value] if push.value is not None else None
    shape: tuple[int, ...] = ()
    valid: tuple[int, ...] = ()
    dtype = ""
    if isinstance(value, TensorValue):
        shape, dtype = value.shape, value.dtype
        valid = recording.index.valid(push.value, push.step) or shape
    line = recording.index.step(push.step).source
    held = trace.lanes[pop.lane] if pop is not None else None
    return QueueEntry(slot, push.value, shape, valid, dtype, trace.lanes[push.lane], push.step, line, held)


def waiter_of(recording: Recording, event: Any) -> Waiter:
    """A BLOCKED event in words."""
    source = recording.index.step(event.step).source
    lane = recording.trace.lanes[event.lane]
    return Waiter(lane, event.pipe, event.operation, event.reason, event.step, source)


# --- two recordings --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first value that differs between two recordings: its step in each, the variable, and by how much (None where
    shapes or kinds differ)."""

    step: int
    other_step: int
    name: str
    max_abs: float | None
    detail: str

    def __str__(self) -> str:
        return f"step {self.step} (other: {self.other_step}): `{self.name}` {self.detail}"


def first_divergence(recording: Recording, other: Recording, *, tolerance: float = 0.0) -> Divergence | None:
    """The first binding of `recording` whose counterpart in `other` differs by more than `tolerance`.

    With the same script, counterparts have the same function, name, lane, block, task, iteration and occurrence; with
    different ones (a golden beside its kernel, another stage) the same name and occurrence.
    """
    same_script = recording.trace.script == other.trace.script
    theirs = dict(_keyed(other, same_script))
    for key, b in _keyed(recording, same_script):
        match = theirs.get(key)
        if match is None:
            continue
        left = recording.index.content(b.value, b.step)
        right = other.index.content(match.value, match.step)
        found = _difference(left, right, tolerance)
        if found is not None:
            return Divergence(b.step, match.step, b.name, *found)
    return None


def _keyed(recording: Recording, full: bool) -> Iterator[tuple[tuple[Any, ...], Binding]]:
    index = recording.index
    seen: dict[tuple[Any, ...], int] = {}
    for b in recording.trace.bindings:
        if not full and b.name in ("return", "condition"):
            continue
        where: Coordinate = index.coordinate(b.step)
        key: tuple[Any, ...] = (b.name,)
        if full:
            key = (b.name, recording.trace.frames[b.frame].function, where)
        occurrence = seen[key] = seen.get(key, -1) + 1
        yield (*key, occurrence), b


def _difference(left: Content, right: Content, tolerance: float) -> tuple[float | None, str] | None:
    if isinstance(left, Cells) and isinstance(right, Cells):
        if left.shape != right.shape:
            return None, f"has shape {list(left.shape)} here and {list(right.shape)} there"
        if left.valid == right.valid and same_cells(left, right):
            return None
        a, b = left.valid_numbers, right.valid_numbers
        if a.shape != b.shape:
            return None, f"is valid to {list(a.shape)} here and {list(b.shape)} there"
        return _numeric(a, b, tolerance)
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return _numeric(np.asarray(left), np.asarray(right), tolerance)
    return None if same_cells(left, right) else (None, "is of another kind or value")


def _numeric(left: Any, right: Any, tolerance: float) -> tuple[float | None, str] | None:
    if left.size == 0:
        return None
    wide_left, wide_right = left.astype(np.float64), right.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gap = np.abs(wide_left - wide_right)
    gap = np.where((wide_left == wide_right) | (np.isnan(wide_left) & np.isnan(wide_right)), 0.0, gap)
    gap = np.where(np.isnan(gap), np.inf, gap)
    worst = float(gap.max())
    if worst <= tolerance:
        return None
    place = [int(i) for i in np.unravel_index(int(gap.argmax()), gap.shape)]
    return worst, f"differs by {worst:.4g} at {place}, {int((gap > tolerance).sum())} of {gap.size} cells"
