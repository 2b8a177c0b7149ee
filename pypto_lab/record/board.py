"""What a run is doing while it goes on: where each lane stands and what is in the queues, read from its growing log by
another thread, without a word from the run."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch

from pypto_lab.record import instrument as ins
from pypto_lab.record.events import LaneState, QueueEntry, QueueState, Statement, Waiter, slot_of
from pypto_lab.record.placed import Placed

if TYPE_CHECKING:
    from pypto_lab.record.probes import Probes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A run at a moment: steps done (about), seconds since its start, its lanes in order of appearance, its queues."""

    steps: int
    seconds: float
    lanes: tuple[LaneState, ...]
    queues: tuple[QueueState, ...]


class Board:
    """Follows a log. `snapshot` may be called from any thread; the other public methods are for the run.

    The log grows by whole entries, so whatever is there may be read; only to empty it does the run wait for a reader.
    """

    def __init__(self, probes: Probes, *, watched: bool) -> None:
        self._probes, self._watched = probes, watched
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._read = 0
        self._sealed = False
        self._steps = 0
        self._lanes: dict[tuple[int, int], _Lane] = {}
        self._rings: dict[tuple[int, str], _Ring] = {}
        self._last: _Lane | None = None
        self._over = False

    def snapshot(self) -> Snapshot:
        """Where the run is now."""
        with self._lock:
            if not self._sealed:
                self._catch_up()
            lanes = tuple(self._lane_state(lane) for lane in self._lanes.values())
            queues = tuple(self._queue_state(block, pipe, ring) for (block, pipe), ring in self._rings.items())
            return Snapshot(self._steps, time.monotonic() - self._started, lanes, queues)

    # --- called by the run

    def pause_reading(self) -> None:
        """The log is about to be emptied. At the end of a run that nobody watches there is nothing to remember."""
        with self._lock:
            if self._watched or not self._over:
                self._catch_up()
            self._sealed = True

    def rewind(self) -> None:
        """The log has been emptied."""
        with self._lock:
            self._read, self._sealed = 0, False

    def finish(self) -> None:
        """The run has ended."""
        with self._lock:
            self._over = True

    # --- reading

    def _catch_up(self) -> None:
        log = self._probes.log
        end = len(log) // 3 * 3
        for at in range(self._read, end, 3):
            code, frame, payload = log[at], log[at + 1], log[at + 2]
            if code >= 0:
                self._at(frame, code)
            elif code == ins.CODE_ENTER:
                self._enter(frame)
            elif code == ins.CODE_LEAVE:
                self._lane_of(frame).depth -= 1
            elif code == ins.CODE_EVENT:
                self._event(frame, *payload)
        self._read = end

    def _lane_of(self, frame: int) -> _Lane:
        _, lane, _, block = self._probes.frames[frame]
        return self._lane(lane, block)

    def _lane(self, lane: int, block: int) -> _Lane:
        found = self._lanes.get((lane, block))
        if found is None:
            found = self._lanes[lane, block] = _Lane(self._probes.trace.lanes[lane], block)
        return found

    def _at(self, frame: int, statement: int) -> None:
        self._steps += 1
        lane = self._last = self._lane_of(frame)
        lane.statement, lane.step = statement, self._steps

    def _enter(self, frame: int) -> None:
        self._at(frame, self._probes.builder.entry_of(self._probes.frames[frame][0]))
        lane = self._lane_of(frame)
        lane.depth += 1
        lane.waiting = None

    def _event(self, frame: int, kind: str, lane_number: int, details: dict[str, Any]) -> None:
        block = details.get("of_block", -1)
        if kind == "group_begin":
            self._rings = {key: ring for key, ring in self._rings.items() if key[0] != block}
            return
        if "pipe" not in details:
            return
        lane = self._lane_of(frame) if frame >= 0 else self._lane(lane_number, block)
        ring = self._rings.setdefault((block, details["pipe"]), _Ring())
        if kind == "blocked":
            self._at(frame, details.get("statement", -1))
            lane.waiting = (details["pipe"], details.get("op", ""), details.get("why", ""), self._steps)
        elif kind == "resumed":
            lane.waiting = None
        else:
            ring.note(kind, details, lane, self._steps)

    # --- as data

    def _statement(self, number: int) -> Statement | None:
        return self._probes.trace.statements[number] if number >= 0 else None

    def _source(self, number: int) -> str:
        statement = self._statement(number)
        if statement is None:
            return ""
        return str(statement.spot) if statement.spot is not None else f"script:{statement.line}"

    def _waiter(self, lane: _Lane) -> Waiter | None:
        if lane.waiting is None:
            return None
        pipe, operation, reason, since = lane.waiting
        ring = self._rings.get((lane.block, pipe))
        if ring is not None and ring.lets_on(reason):
            return None
        return Waiter(lane.name, pipe, operation, reason, since, self._source(lane.statement))

    def _lane_state(self, lane: _Lane) -> LaneState:
        waiting = self._waiter(lane)
        status: Literal["ready", "running", "waits", "done"] = "ready"
        if self._over or lane.depth <= 0:
            status = "done"
        elif waiting is not None:
            status = "waits"
        elif lane is self._last:
            status = "running"
        statement = self._statement(lane.statement)
        return LaneState(
            name=lane.name,
            status=status,
            position=lane.step,
            next=None,
            line=statement.line if statement is not None else 0,
            source=self._source(lane.statement),
            text=statement.text if statement is not None else "",
            waiting=waiting,
            block=lane.block if lane.block >= 0 else None,
        )

    def _queue_state(self, block: int, pipe: str, ring: _Ring) -> QueueState:
        entries = tuple(
            QueueEntry(
                slot, None, entry.shape, entry.valid, entry.dtype, entry.pushed_by, entry.pushed_at,
                self._source(entry.statement), entry.held_by,
            )
            for slot, entry in ring.entries.items()
        )  # fmt: skip
        waiters = (self._waiter(lane) for lane in self._lanes.values() if lane.block == block)
        here = tuple(w for w in waiters if w is not None and w.pipe == pipe)
        of_block = block if block >= 0 else None
        return QueueState(pipe, entries, ring.depth, ring.pushed, ring.popped, ring.freed, here, of_block)


class _Lane:
    __slots__ = ("block", "depth", "name", "statement", "step", "waiting")

    def __init__(self, name: str, block: int) -> None:
        self.name, self.block = name, block
        self.depth = self.step = 0
        self.statement = -1
        self.waiting: tuple[str, str, str, int] | None = None


@dataclass(slots=True)
class _Entry:
    shape: tuple[int, ...]
    valid: tuple[int, ...]
    dtype: str
    pushed_by: str
    pushed_at: int
    statement: int
    held_by: str | None = None


class _Ring:
    """A queue as the log has it so far. Without slots of its own a popped tile leaves at once."""

    __slots__ = ("depth", "entries", "freed", "popped", "pushed")

    def __init__(self) -> None:
        self.entries: dict[int, _Entry] = {}
        self.depth: int | None = None
        self.pushed = self.popped = self.freed = 0

    def note(self, kind: str, details: dict[str, Any], lane: _Lane, step: int) -> None:
        if kind == "push":
            self.depth = details.get("depth", self.depth)
        slot = slot_of(details.get("slot"), self.depth)
        if kind == "push":
            shape, valid, dtype = _looks(details.get("value"))
            number = self.pushed if slot is None else slot
            self.entries[number] = _Entry(shape, valid, dtype, lane.name, step, lane.statement)
            self.pushed += 1
        elif kind == "pop":
            self.popped += 1
            if slot is not None and self.depth is None:
                self.entries.pop(slot, None)
            elif slot is not None and slot in self.entries:
                self.entries[slot].held_by = lane.name
        elif kind == "free":
            self.freed += 1
            if slot is not None:
                self.entries.pop(slot, None)

    def lets_on(self, reason: str) -> bool:
        if reason == "empty":
            return self.pushed > self.popped
        return reason == "full" and self.depth is not None and self.pushed - self.freed < self.depth


def _looks(value: Any) -> tuple[tuple[int, ...], tuple[int, ...], str]:
    """Shape, valid shape and dtype of what was pushed."""
    if isinstance(value, torch.Tensor):
        shape = tuple(value.shape)
        return shape, tuple(value.__dict__.get(ins.VALID_ATTRIBUTE) or shape), str(value.dtype).removeprefix("torch.")
    if isinstance(value, Placed):
        return value.shape, value.valid or value.shape, value.dtype
    return (), (), ""
