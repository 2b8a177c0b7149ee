"""The tables of a recording and the questions they answer: what a name held at a position, who wrote it, who read it.

Positions count steps: 0 is before the first, `k` is after step `k`. Needs numpy only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pypto_lab.record.arrays import Raw, decode, raw_dtype, valid_cells
from pypto_lab.record.events import (
    Coordinate,
    EventKind,
    Frame,
    FunctionInfo,
    MappingValue,
    Memory,
    OpaqueValue,
    QueueEvent,
    RecomputedValue,
    ScalarValue,
    SequenceValue,
    Statement,
    Step,
    StepKind,
    TensorValue,
    Value,
)
from pypto_lab.record.store import Store, byte_interval

HOST = "host"


@dataclass(frozen=True, slots=True)
class Cells:
    """A tensor at a position: raw cells, their dtype's name, and the valid shape where it is smaller than the box."""

    raw: Raw
    dtype: str
    valid: tuple[int, ...] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.raw.shape)

    @property
    def numbers(self) -> Raw:
        """The cells as numbers: bfloat16 and the 8-bit floats as float32."""
        return decode(self.raw, self.dtype)

    @property
    def valid_numbers(self) -> Raw:
        return decode(valid_cells(self.raw, self.valid), self.dtype)


Content = Any
"""What a value is to a reader: Cells, a scalar, a tuple or dict of these, or an OpaqueValue."""


class Binding(NamedTuple):
    """A name got a value at a step (a plain tuple: a recording has as many of them as steps)."""

    step: int
    frame: int
    name: str
    value: int


@dataclass(slots=True)
class StepColumns:
    """The steps, one entry each (step `k` is entry `k - 1`)."""

    kind: list[int] = field(default_factory=list)
    statement: list[int] = field(default_factory=list)
    frame: list[int] = field(default_factory=list)
    block: list[int] = field(default_factory=list)
    task: list[int] = field(default_factory=list)
    iterations: list[tuple[int, ...]] = field(default_factory=list)

    def add(
        self, kind: StepKind, statement: int, frame: int, block: int, task: int, iterations: tuple[int, ...]
    ) -> None:
        self.kind.append(kind)
        self.statement.append(statement)
        self.frame.append(frame)
        self.block.append(block)
        self.task.append(task)
        self.iterations.append(iterations)

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(slots=True)
class Trace:
    """Everything a recording knows. Filled by a builder or read from an archive, then only read."""

    script: str = ""
    sources: dict[str, str] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    functions: list[FunctionInfo] = field(default_factory=list)
    lanes: list[str] = field(default_factory=lambda: [HOST])
    frames: list[Frame] = field(default_factory=list)
    steps: StepColumns = field(default_factory=StepColumns)
    bindings: list[Binding] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    store: Store = field(default_factory=Store)
    valid_changes: dict[int, list[tuple[int, tuple[int, ...] | None]]] = field(default_factory=dict)
    """By value id: (step, valid shape before that step), in order."""
    events: list[QueueEvent] = field(default_factory=list)
    memories: dict[int, Memory] = field(default_factory=dict)
    """By storage: the on-chip memory it is. Other storages belong to one tensor and its views."""
    recompute: Callable[[int], Content] | None = None
    """Computes the value of a recomputed statement at a step; None in an archive, which holds every value."""

    def __len__(self) -> int:
        return len(self.steps)


class Index:
    """Lookups over a complete trace, built when first needed."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    # --- steps

    @cached_property
    def lane_of_step(self) -> NDArray[np.int64]:
        """Lane id of each step (entry 0 is step 1)."""
        lanes = np.array([f.lane for f in self.trace.frames] or [0], np.int64)
        return lanes[self.frame_of_step] if len(self.trace) else np.zeros(0, np.int64)

    @cached_property
    def frame_of_step(self) -> NDArray[np.int64]:
        return np.array(self.trace.steps.frame, np.int64)

    @cached_property
    def kind_of_step(self) -> NDArray[np.int64]:
        return np.array(self.trace.steps.kind, np.int64)

    @cached_property
    def statement_of_step(self) -> NDArray[np.int64]:
        return np.array(self.trace.steps.statement, np.int64)

    @cached_property
    def depth_of_frame(self) -> list[int]:
        depths: list[int] = []
        for frame in self.trace.frames:
            depths.append(0 if frame.parent < 0 else depths[frame.parent] + 1)
        return depths

    @cached_property
    def steps_of_lane(self) -> dict[int, list[int]]:
        """Step numbers of each lane, ascending."""
        out: dict[int, list[int]] = {i: [] for i in range(len(self.trace.lanes))}
        for entry, lane in enumerate(self.lane_of_step.tolist()):
            out[lane].append(entry + 1)
        return out

    @cached_property
    def steps_of_frame(self) -> dict[int, list[int]]:
        """Step numbers of each activation, ascending."""
        out: dict[int, list[int]] = {}
        for entry, frame in enumerate(self.trace.steps.frame):
            out.setdefault(frame, []).append(entry + 1)
        return out

    @cached_property
    def freed_pipes(self) -> frozenset[str]:
        """Pipes whose slots are given back by `tfree` (a popped entry stays until then)."""
        return frozenset(e.pipe for e in self.trace.events if e.kind == EventKind.FREE)

    @cached_property
    def event_steps(self) -> list[int]:
        return [e.step for e in self.trace.events]

    def events_at(self, step: int) -> tuple[QueueEvent, ...]:
        last = bisect_right(self.event_steps, step)
        first = bisect_right(self.event_steps, step - 1)
        return tuple(self.trace.events[first:last])

    def statement(self, step: int) -> Statement | None:
        number = self.trace.steps.statement[step - 1]
        return self.trace.statements[number] if number >= 0 else None

    def coordinate(self, step: int) -> Coordinate:
        steps, entry = self.trace.steps, step - 1
        lane = self.trace.lanes[self.trace.frames[steps.frame[entry]].lane]
        block, task = steps.block[entry], steps.task[entry]
        return Coordinate(
            lane, None if block < 0 else block, None if task < 0 else task, self.trace.steps.iterations[entry]
        )

    def step(self, number: int) -> Step:
        """Step `number` (from 1). Raises IndexError outside the recording."""
        if not 1 <= number <= len(self.trace):
            raise IndexError(f"step {number} is outside 1..{len(self.trace)}")
        frame = self.trace.frames[self.trace.steps.frame[number - 1]]
        return Step(
            index=number,
            kind=StepKind(self.trace.steps.kind[number - 1]),
            statement=self.statement(number),
            function=self.trace.functions[frame.function].name,
            frame=frame.id,
            depth=self.depth_of_frame[frame.id],
            where=self.coordinate(number),
            events=self.events_at(number),
        )

    # --- names

    @cached_property
    def history(self) -> dict[tuple[int, str], tuple[list[int], list[int]]]:
        """By (frame, name): the steps that bound it and the values."""
        out: dict[tuple[int, str], tuple[list[int], list[int]]] = {}
        for b in self.trace.bindings:
            steps, values = out.setdefault((b.frame, b.name), ([], []))
            steps.append(b.step)
            values.append(b.value)
        return out

    @cached_property
    def names_of_frame(self) -> dict[int, list[str]]:
        out: dict[int, list[str]] = {}
        for frame, name in self.history:
            out.setdefault(frame, []).append(name)
        return out

    @cached_property
    def bindings_of_step(self) -> dict[int, list[Binding]]:
        out: dict[int, list[Binding]] = {}
        for b in self.trace.bindings:
            out.setdefault(b.step, []).append(b)
        return out

    def bound(self, frame: int, name: str, position: int) -> Binding | None:
        """The binding of a name that holds at a position."""
        found = self.history.get((frame, name))
        if found is None:
            return None
        at = bisect_right(found[0], position)
        return Binding(found[0][at - 1], frame, name, found[1][at - 1]) if at else None

    # --- values

    def content(self, value: int, position: int) -> Content:
        """What a value holds at a position."""
        found = self.trace.values[value]
        match found:
            case TensorValue():
                return Cells(self.trace.store.read(found, position), found.dtype, self.valid(value, position))
            case ScalarValue():
                return found.value
            case SequenceValue():
                return tuple(self.content(i, position) for i in found.items)
            case MappingValue():
                return {k: self.content(i, position) for k, i in zip(found.keys, found.items, strict=True)}
            case RecomputedValue():
                if self.trace.recompute is None:
                    raise ValueError("this recording's engine is gone; the value cannot be computed again")
                return self.trace.recompute(found.step)
            case OpaqueValue():
                return found

    def valid(self, value: int, position: int) -> tuple[int, ...] | None:
        """A tensor's valid shape at a position (None: the full shape)."""
        for step, before in self.trace.valid_changes.get(value, ()):
            if step > position:
                return before
        found = self.trace.values[value]
        return found.valid if isinstance(found, TensorValue) else None

    def tensors_of(self, value: int) -> Iterator[int]:
        """Value ids of the tensors a value consists of (itself, or its items)."""
        found = self.trace.values[value]
        if isinstance(found, TensorValue):
            yield value
        elif isinstance(found, (SequenceValue, MappingValue)):
            for item in found.items:
                yield from self.tensors_of(item)

    def interval(self, value: TensorValue) -> tuple[int, int]:
        """The bytes of its storage that a tensor can touch, half open."""
        return byte_interval(value, raw_dtype(value.dtype).itemsize)

    def overlap(self, left: TensorValue, right: TensorValue) -> bool:
        """Whether two tensors are views of the same thing: of one storage, in a memory of the same bytes."""
        if left.storage != right.storage or left.storage not in self.trace.memories:
            return left.storage == right.storage
        a, b = self.interval(left), self.interval(right)
        return a[0] < b[1] and b[0] < a[1]

    def made_at(self, value: int, step: int) -> bool:
        """Whether a binding of a value at a step gave it new content: it did not exist before, or (a tile in a memory)
        the step wrote to its bytes."""
        found = self.trace.values[value]
        if not isinstance(found, TensorValue):
            return True
        if found.storage not in self.trace.memories:
            return self.creation[found.storage][0] == step
        low, high = self.interval(found)
        writes = (self.trace.store.writes[i] for i in self.trace.store.writes_at(step))
        return any(w.storage == found.storage and w.low < high and low < w.high for w in writes)

    @cached_property
    def creation(self) -> dict[int, tuple[int, int]]:
        """By storage: the first step whose value lives there, and that value. Step 0 does not occur: an argument's
        storage is first seen when a function is entered."""
        out: dict[int, tuple[int, int]] = {}
        for b in self.trace.bindings:
            for value in self.tensors_of(b.value):
                found = self.trace.values[value]
                assert isinstance(found, TensorValue)
                out.setdefault(found.storage, (b.step, value))
        return out


def same_cells(left: Content, right: Content) -> bool:
    """Whether two contents are bit for bit the same."""
    if isinstance(left, Cells) and isinstance(right, Cells):
        if (left.shape, left.dtype, left.valid) != (right.shape, right.dtype, right.valid):
            return False
        item = raw_dtype(left.dtype).itemsize
        bits = np.dtype(f"u{item}") if item in (1, 2, 4, 8) else raw_dtype(left.dtype)
        a, b = np.ascontiguousarray(left.raw), np.ascontiguousarray(right.raw)
        return bool(np.array_equal(a.view(bits), b.view(bits)))
    if isinstance(left, (tuple, list)) and isinstance(right, (tuple, list)):
        return len(left) == len(right) and all(same_cells(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return list(left) == list(right) and all(same_cells(left[k], right[k]) for k in left)
    both_nan = left != left and right != right
    return bool(type(left) is type(right) and (left == right or both_nan))


def innermost(frames: Sequence[Frame], frame: int) -> Iterator[int]:
    """A frame and its callers, outwards."""
    while frame >= 0:
        yield frame
        frame = frames[frame].parent
