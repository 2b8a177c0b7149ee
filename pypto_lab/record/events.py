"""What a recording consists of: statements, steps, values, writes and queue events, as frozen data without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import PurePath
from typing import Literal, NamedTuple


class StepKind(IntEnum):
    """What happened at a step. The numbers are part of the archive format."""

    STATEMENT = 0
    ENTER = 1
    """A function was entered; its parameters are bound."""
    LOOP = 2
    """One iteration begins; the loop variable is bound."""
    CONDITION = 3
    """The test of an `if` or `while` was evaluated."""
    RETURN = 4
    BLOCKED = 5
    """The lane began to wait at a pipe."""
    FAILED = 6
    """The run ended here with an error."""
    CHANGED = 7
    """A what-if changed a value here."""


class EventKind(IntEnum):
    """What a lane did to a queue. The numbers are part of the archive format."""

    PUSH = 0
    POP = 1
    FREE = 2
    BLOCKED = 3
    RESUMED = 4
    RESET = 5
    """A group begins: its pipes are empty."""


@dataclass(frozen=True, slots=True)
class SourceSpot:
    """A place in the kernel's own text (1-based line and column); printed without the file's folders."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{PurePath(self.file).name}:{self.line}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a variable lies on chip, as the program states it: bytes [low, high) of a memory space."""

    space: str
    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.space}[{self.low}:{self.high}]"


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of the script that is probed, or one instruction of a text that a machine executes.

    `loops` are the ids of the enclosing loops, outermost first; a statement that `turns` begins an iteration of the
    last of them. `reads` are the names its expression loads, `targets` the names it binds. `recomputed` statements do
    not keep their value: it is computed again from `reads` when asked for (see `droppable.py`). `updates` is the
    variable whose content the value starts from, for a statement that writes a region of it (or of a copy). `spot`,
    `op` and `dsl` are known where the script came from a kernel; `origin` is the line of the user's kernel where `spot`
    is in a text made from it. `places` says, by target, where it lies on chip (empty: nothing is stated).
    """

    id: int
    function: int
    kind: StepKind
    line: int
    end_line: int
    text: str
    targets: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    loops: tuple[int, ...] = ()
    turns: bool = False
    recomputed: bool = False
    updates: str | None = None
    op: str | None = None
    spot: SourceSpot | None = None
    dsl: str | None = None
    origin: SourceSpot | None = None
    places: tuple[Place | None, ...] = ()


@dataclass(frozen=True, slots=True)
class FunctionInfo:
    """A function of the script. `file` is None for the script's own functions, else where a plain function lives."""

    id: int
    name: str
    line: int
    parameters: tuple[str, ...]
    file: str | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """One activation of a function: who called it, on which lane, in which block and task; first and last step."""

    id: int
    function: int
    lane: int
    parent: int
    begin: int
    end: int
    block: int | None = None
    task: int | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """A storage that is an on-chip memory: its space (`vec`, `mat` ...), the lane it belongs to, and its bytes in the
    machine (the recording holds those in use). Values in it overlap where the program places them so."""

    space: str
    lane: str
    block: int | None
    size: int


class Order(NamedTuple):
    """The order of a tile that stands in boxes (NZ, ZN ...) of a larger one: with (R, C) = (r, c) + `start`, element
    (r, c) of the value stands `R // box * over + R % box * within` elements behind the offset, and the same along C.

    Pairs are (along rows, along columns).
    """

    box: tuple[int, int]
    over: tuple[int, int]
    within: tuple[int, int]
    start: tuple[int, int] = (0, 0)

    def along(self, axis: int, index: int) -> int:
        """What one coordinate adds to the offset; it grows with the coordinate."""
        box, at = self.box[axis], index + self.start[axis]
        return at // box * self.over[axis] + at % box * self.within[axis]


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A tensor as a view of a storage; strides and offset in elements, `dtype` is torch's name without `torch.`.

    With an `order`, `offset` is where its outermost tile begins, and strides say nothing about single elements.
    """

    storage: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    valid: tuple[int, ...] | None = None
    order: Order | None = None


@dataclass(frozen=True, slots=True)
class ScalarValue:
    value: int | float | bool | str | None


@dataclass(frozen=True, slots=True)
class SequenceValue:
    """A tuple or list; `items` are value ids."""

    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MappingValue:
    keys: tuple[str, ...]
    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OpaqueValue:
    """Anything else, by the name of its type."""

    type_name: str


class RecomputedValue(NamedTuple):
    """The value of a recomputed statement at a step: not kept, computed again on demand (a plain tuple: there is one a
    step)."""

    step: int


Value = TensorValue | ScalarValue | SequenceValue | MappingValue | OpaqueValue | RecomputedValue


@dataclass(frozen=True, slots=True)
class Write:
    """An in-place write: the region of a storage it touched (byte offset, shape, byte strides) and the bytes that
    stood there before, in row-major order of `shape`."""

    step: int
    storage: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    item: int

    @property
    def low(self) -> int:
        return self.offset

    @property
    def high(self) -> int:
        """One past the last byte touched."""
        return self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)) + self.item

    def covers(self, address: int) -> bool:
        """Whether the byte at `address` is one of those written."""
        rest = address - self.offset
        for stride, size in sorted(zip(self.strides, self.shape, strict=True), reverse=True):
            if stride:
                index = min(rest // stride, size - 1)
                if index < 0:
                    return False
                rest -= index * stride
        return 0 <= rest < self.item


@dataclass(frozen=True, slots=True)
class QueueEvent:
    """A push, pop, free, or the begin or end of a wait. `step` is the step at which it is visible."""

    step: int
    kind: EventKind
    lane: int
    pipe: str
    slot: int | None = None
    value: int | None = None
    depth: int | None = None
    operation: str = ""
    reason: str = ""
    block: int | None = None


@dataclass(frozen=True, slots=True)
class Coordinate:
    """Where in the program's space a step lies: every part None (or empty) when it does not apply."""

    lane: str
    block: int | None = None
    task: int | None = None
    iterations: tuple[int, ...] = ()

    def __str__(self) -> str:
        parts = [self.lane]
        if self.task is not None:
            parts.append(f"task {self.task}")
        if self.block is not None:
            parts.append(f"block {self.block}")
        if self.iterations:
            parts.append("iteration " + ".".join(str(i) for i in self.iterations))
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Step:
    """One step as people see it: `index` counts from 1; after it the session's position is `index`."""

    index: int
    kind: StepKind
    statement: Statement | None
    function: str
    frame: int
    depth: int
    where: Coordinate
    events: tuple[QueueEvent, ...] = ()

    @property
    def line(self) -> int:
        return self.statement.line if self.statement else 0

    @property
    def text(self) -> str:
        """The statement as the script has it; for a step without one, what happened."""
        if self.statement is not None:
            return self.statement.text
        return {StepKind.FAILED: "the run ended here", StepKind.CHANGED: "changed by a what-if"}.get(self.kind, "")

    @property
    def source(self) -> str:
        """The kernel's source line where known, else the script's line."""
        if self.statement is None:
            return "-"
        return str(self.statement.spot) if self.statement.spot else f"script:{self.statement.line}"

    def __str__(self) -> str:
        return f"step {self.index}: {self.where}, {self.source}: {self.text}"


def slot_of(number: int | None, depth: int | None) -> int | None:
    """The slot of a ring that its `number`-th entry lies in; the number itself where the ring has no bound."""
    return number if number is None or not depth else number % depth


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """One occupied slot: what was pushed, by whom, and whether the consumer holds it (popped, not yet freed)."""

    slot: int
    value: int | None
    shape: tuple[int, ...]
    valid: tuple[int, ...]
    dtype: str
    pushed_by: str
    pushed_at: int
    pushed_line: str
    held_by: str | None = None


@dataclass(frozen=True, slots=True)
class Waiter:
    """A lane that waits at a pipe: for what, since which step, at which line."""

    lane: str
    pipe: str
    operation: str
    reason: str
    since: int
    source: str

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.lane} waits: {self.operation} {self.pipe}{why}, {self.source}"


@dataclass(frozen=True, slots=True)
class QueueState:
    """One pipe (of one SPMD block) at a position. `depth` is None where the ring is unbounded or its depth was not
    told."""

    pipe: str
    entries: tuple[QueueEntry, ...]
    depth: int | None
    pushed: int
    popped: int
    freed: int
    waiters: tuple[Waiter, ...]
    block: int | None = None

    @property
    def occupied(self) -> int:
        return len(self.entries)


@dataclass(frozen=True, slots=True)
class LaneState:
    """One lane at a position: its last step, its next one, and what it waits for."""

    name: str
    status: Literal["not started", "ready", "running", "waits", "done", "failed"]
    position: int
    """The lane's last step at or before the position (0: none)."""
    next: int | None
    line: int
    source: str
    text: str
    waiting: Waiter | None = None
    block: int | None = None
    task: int | None = None


@dataclass(frozen=True, slots=True)
class Author:
    """Who gave a cell or region its content. `step` 0 means: it came in with the arguments."""

    step: int
    where: Coordinate | None
    statement: str
    source: str
    how: Literal["argument", "created", "written", "unknown"]
    iterations: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.how == "argument":
            return "an argument of the run: no step wrote it"
        if self.where is None:
            return "nothing recorded wrote it"
        return f"step {self.step}: {self.where}, {self.source}: {self.statement}"


Region = tuple[slice, ...]


def region_of(place: Sequence[int | slice] | int | slice | None, shape: Sequence[int]) -> Region:
    """A cell, a region or None (everything) as slices with bounds inside `shape`.

    Raises IndexError when a cell lies outside.
    """
    places = () if place is None else (place,) if isinstance(place, (int, slice)) else tuple(place)
    if len(places) > len(shape):
        raise IndexError(f"{len(places)} indices for a value of shape {list(shape)}")
    out: list[slice] = []
    for axis, extent in enumerate(shape):
        given = places[axis] if axis < len(places) else slice(None)
        if isinstance(given, slice):
            start, stop, step = given.indices(extent)
            out.append(slice(start, stop, step))
            continue
        index = given + extent if given < 0 else given
        if not 0 <= index < extent:
            raise IndexError(f"index {given} is outside axis {axis} of shape {list(shape)}")
        out.append(slice(index, index + 1, 1))
    return tuple(out)
