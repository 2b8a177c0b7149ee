"""From the recorder's raw log to the tables of a `Trace`: gives values, storages and frames their numbers."""

from __future__ import annotations

import gc
import math
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from pypto_lab.record import instrument as ins
from pypto_lab.record.arrays import raw_dtype
from pypto_lab.record.events import (
    EventKind,
    Frame,
    FunctionInfo,
    MappingValue,
    OpaqueValue,
    QueueEvent,
    RecomputedValue,
    ScalarValue,
    SequenceValue,
    Statement,
    StepKind,
    TensorValue,
    Value,
    Write,
    slot_of,
)
from pypto_lab.record.placed import LaneMemory, Placed
from pypto_lab.record.store import Bytes, is_mapped
from pypto_lab.record.trace import Binding, Trace

_WRITES = frozenset({ins.CODE_WRITE, ins.CODE_INDEXED, ins.CODE_META, ins.CODE_BYTES})
EVENT_KINDS = {"push": EventKind.PUSH, "pop": EventKind.POP, "free": EventKind.FREE, "resumed": EventKind.RESUMED}
MAX_ITEMS = 256
"""Containers with more items than this are kept as a summary."""


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@contextmanager
def _without_collection() -> Iterator[None]:
    """The tables hold many small objects and no cycles; looking for cycles among them would cost more than building."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _FrameState:
    """What the builder knows of an open activation: its place, and how often each of its open loops has turned."""

    __slots__ = ("_known", "base", "block", "counts", "id", "lane", "task")

    def __init__(self, id_: int, lane: int, block: int, task: int, base: tuple[int, ...]) -> None:
        self.id, self.lane, self.block, self.task, self.base = id_, lane, block, task, base
        self.counts: dict[int, int] = {}
        self._known: dict[tuple[int, ...], tuple[int, ...]] = {}

    def loop(self, number: int) -> None:
        """A loop begins (its number) or has ended (its complement)."""
        if number >= 0:
            self.counts[number] = -1
        else:
            self.counts.pop(~number, None)
        self._known.clear()

    def turn(self, loop: int) -> None:
        """An iteration begins."""
        self.counts[loop] = self.counts.get(loop, -1) + 1
        self._known.clear()

    def iterations(self, loops: tuple[int, ...]) -> tuple[int, ...]:
        """The caller's iterations and those of the given loops."""
        known = self._known.get(loops)
        if known is None:
            known = self._known[loops] = (*self.base, *[self.counts.get(loop, 0) for loop in loops])
        return known


_new_tuple: Any = tuple.__new__
"""Makes a named tuple of values in order, without its constructor's detour."""


class _Plain:
    """What the builder needs of a statement; `name` is the only name it binds."""

    __slots__ = ("id", "kind", "loops", "name", "recomputed", "targets", "turns")

    def __init__(self, statement: Statement) -> None:
        self.id, self.kind = statement.id, int(statement.kind)
        self.loops, self.turns, self.recomputed = statement.loops, statement.turns, statement.recomputed
        self.targets = statement.targets
        self.name = statement.targets[0] if len(statement.targets) == 1 else None


class Builder:
    """Turns log entries into a trace, at once or piece by piece."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._columns, self._values, self._bindings = trace.steps, trace.values, trace.bindings
        self._plain_statements: list[_Plain] = []
        self._states: dict[int, _FrameState] = {}
        self._entries = {s.function: s.id for s in trace.statements if s.kind == StepKind.ENTER}
        self._storage_of: dict[int, int] = {}
        self._holders: dict[int, torch.Tensor] = {}
        self._value_of: dict[int, int] = {}
        self._held: list[torch.Tensor | Placed] = []
        self._memories: dict[int, tuple[LaneMemory, int]] = {}
        self._scalars: dict[tuple[type, Any], int] = {}
        self._writes: list[tuple[Any, ...]] = []
        self._events: list[tuple[int, str, dict[str, Any]]] = []
        self._groups: list[str] = []
        self._depths: dict[tuple[str, int | None], int] = {}
        self._spooled = 0

    def add_function(self, function: FunctionInfo, statements: Sequence[Statement]) -> None:
        """Adds a function that becomes known during the run; one of its statements enters it."""
        self.trace.functions.append(function)
        self.trace.statements += statements
        self._entries[function.id] = next(s.id for s in statements if s.kind == StepKind.ENTER)

    def entry_of(self, function: int) -> int:
        """The statement that enters a function."""
        return self._entries[function]

    # --- entries

    def ingest(self, log: Sequence[Any], frames: Sequence[tuple[int, int, int, int]]) -> None:
        """Reads log entries. `frames` are (function, lane, parent, block) by frame number, for all so far."""
        with _without_collection():
            self._ingest(log, frames)
        self._value_of.clear()  # identities mean nothing once the log is gone
        self._held.clear()

    def _ingest(self, log: Sequence[Any], frames: Sequence[tuple[int, int, int, int]]) -> None:
        statements = self.trace.statements
        plain = self._plain_statements
        at = iter(log)
        for code, frame, payload in zip(at, at, at, strict=True):
            if code >= 0:
                if code >= len(plain):
                    plain += [_Plain(s) for s in statements[len(plain) :]]
                self._statement(plain[code], frame, payload)
            elif code in _WRITES:
                self._writes.append((code, frame, payload))
            elif code == ins.CODE_ENTER:
                self._enter(frame, frames[frame], payload)
            elif code == ins.CODE_LEAVE:
                self._leave(frame)
            elif code == ins.CODE_EVENT:
                self._event(frame, *payload)
            elif code == ins.CODE_LOOP:
                self._states[frame].loop(payload)
            elif code == ins.CODE_CHANGE:
                self._changed(frame, *payload)

    def _statement(self, statement: _Plain, frame: int, payload: Any) -> None:
        """One step. Written for speed: a recording has as many of them as steps."""
        state = self._states[frame]
        loops, name, steps = statement.loops, statement.name, self._columns
        if statement.turns:
            state.turn(loops[-1])
        steps.kind.append(statement.kind)
        steps.statement.append(statement.id)
        steps.frame.append(frame)
        steps.block.append(state.block)
        steps.task.append(state.task)
        steps.iterations.append(state.iterations(loops) if loops else state.base)
        step = len(steps.kind)
        if self._writes or self._events:
            self._flush(step)
        if name is None:
            if statement.targets and payload is not None:
                for target, value in zip(statement.targets, payload, strict=True):
                    self._bind(step, frame, target, self.value(value))
            return
        if statement.recomputed:
            value = len(self._values)
            self._values.append(_new_tuple(RecomputedValue, (step,)))
        else:
            value = self.value(payload)
        self._bindings.append(_new_tuple(Binding, (step, frame, name, value)))

    def _enter(self, frame: int, place: tuple[int, int, int, int], payload: tuple[Any, ...]) -> None:
        function, lane, parent, block = place
        caller = self._states.get(parent)
        base: tuple[int, ...] = ()
        task = -1
        if caller is not None:
            base = (*caller.base, *[n for n in caller.counts.values() if n >= 0])
            block, task = caller.block if block < 0 else block, caller.task
        state = _FrameState(frame, lane, block, task, base)
        self._states[frame] = state
        number = len(self.trace.steps) + 1
        group = self._groups[-1] if self._groups else None
        optional = (None if block < 0 else block, None if task < 0 else task, group)
        self.trace.frames.append(Frame(frame, function, lane, parent, number, number, *optional))
        step = self._step(StepKind.ENTER, self._entries[function], state, base)
        for name, value in zip(self.trace.functions[function].parameters, payload, strict=True):
            self._bind(step, frame, name, self.value(value))

    def _leave(self, frame: int) -> None:
        state = self._states.pop(frame, None)
        if state is not None:
            self.trace.frames[frame] = replace(self.trace.frames[frame], end=len(self.trace.steps))

    def _changed(self, frame: int, name: str, value: Any) -> None:
        """A what-if gave a name another value."""
        state = self._states[frame]
        step = self._step(StepKind.CHANGED, -1, state, state.base)
        self._bind(step, frame, name, self.value(value))

    def fail(self, frame: int) -> None:
        """The last step of a run that ended with an error."""
        state = self._states.get(frame)
        if state is None:
            if not self.trace.frames:
                return
            state = _FrameState(frame if frame >= 0 else 0, 0, -1, -1, ())
        self._step(StepKind.FAILED, -1, state, state.base)

    def finish(self) -> None:
        """Closes what an interrupted run left open; pending writes and events belong to the last step."""
        for frame in list(self._states):
            self._leave(frame)
        self._flush(len(self.trace.steps))
        self._holders.clear()
        for memory, number in self._memories.values():
            if memory.is_open:
                memory.close()
            self.trace.store.storages[number] = memory.bytes
        self.trace.store.forget_images()

    def _step(self, kind: StepKind, statement: int, state: _FrameState, iterations: tuple[int, ...]) -> int:
        steps = self._columns
        steps.add(kind, statement, state.id, state.block, state.task, iterations)
        number = len(steps.kind)
        if self._writes or self._events:
            self._flush(number)
        return number

    def _bind(self, step: int, frame: int, name: str, value: int) -> None:
        self.trace.bindings.append(Binding(step, frame, name, value))

    # --- writes and events wait for the step they belong to

    def _flush(self, step: int) -> None:
        if self._writes:
            for code, target, payload in self._writes:
                self._write(step, code, target, payload)
            self._writes.clear()
        if self._events:
            for lane, kind, details in self._events:
                self._queue_event(step, lane, kind, details)
            self._events.clear()

    def _write(self, step: int, code: int, target: Any, payload: Any) -> None:
        if code == ins.CODE_META:
            value = self.value(target)
            self.trace.valid_changes.setdefault(value, []).append((step, payload))
            return
        if code == ins.CODE_BYTES:
            offset, shape, strides, item, block, start, size = payload
            write = Write(step, self.memory(target), offset, shape, strides, item)
            self.trace.store.add_write(write, block[start : start + size])
            return
        if target.numel() == 0:
            return
        storage = self.storage(target)
        item = target.element_size()
        if code == ins.CODE_WRITE:
            block, start, size = payload
            strides = tuple(s * item for s in target.stride())
            write = Write(step, storage, target.storage_offset() * item, tuple(target.shape), strides, item)
            self.trace.store.add_write(write, block[start : start + size])
            return
        key, old = payload
        self._indexed_write(step, storage, target, key, old)

    def _indexed_write(self, step: int, storage: int, target: torch.Tensor, key: Any, old: torch.Tensor) -> None:
        """A write through index tensors: one entry an element, consecutive ones together."""
        if old.numel() == 0:
            return
        item = target.element_size()
        places = torch.arange(target.numel()).view(target.shape)[key].reshape(-1)
        raw = old.contiguous().reshape(-1).view(torch.uint8).numpy().reshape(-1, item)
        where = np.unravel_index(places.numpy(), tuple(target.shape))
        elements = sum(w * s for w, s in zip(where, target.stride(), strict=True)) + target.storage_offset()
        addresses, first = np.unique(np.asarray(elements, np.int64) * item, return_index=True)
        starts = np.flatnonzero(np.diff(addresses, prepend=addresses[:1] - 2 * item) != item)
        for begin, end in zip(starts, [*starts[1:], len(addresses)], strict=True):
            cells = raw[first[begin:end]]
            write = Write(step, storage, int(addresses[begin]), (int(end - begin),), (item,), item)
            self.trace.store.add_write(write, np.ascontiguousarray(cells).reshape(-1))

    def _event(self, frame: int, kind: str, lane: int, details: dict[str, Any]) -> None:
        state = self._states.get(frame)
        match kind:
            case "block_begin" | "block_end" if state is not None:
                state.block = details["block"] if kind == "block_begin" else -1
            case "task_begin" | "task_end" if state is not None:
                state.task = details["task"] if kind == "task_begin" else -1
            case "group_begin":
                self._groups.append(details["group"])
                self._events.append((lane, kind, details))
            case "group_end":
                if self._groups:
                    self._groups.pop()
            case "blocked":
                self._events.append((lane, kind, details))
                if state is not None:
                    code = details.get("statement", -1)
                    self._step(StepKind.BLOCKED, code, state, self._blocked_iterations(state, code))
            case "push" | "pop" | "free" | "resumed":
                self._events.append((lane, kind, details))

    def _blocked_iterations(self, state: _FrameState, code: int) -> tuple[int, ...]:
        return state.iterations(self.trace.statements[code].loops if code >= 0 else tuple(state.counts))

    def _queue_event(self, step: int, lane: int, kind: str, details: dict[str, Any]) -> None:
        if kind == "group_begin":
            event = QueueEvent(step, EventKind.RESET, lane, "", operation=details["group"], block=_block_of(details))
            self.trace.events.append(event)
            return
        value = details.get("value")
        place = (details["pipe"], _block_of(details))
        if details.get("depth") is not None:
            self._depths[place] = details["depth"]
        event = QueueEvent(
            step=step,
            kind=EventKind.BLOCKED if kind == "blocked" else EVENT_KINDS[kind],
            lane=lane,
            pipe=details["pipe"],
            slot=slot_of(details.get("slot"), self._depths.get(place)),
            value=None if value is None else self.value(value),
            depth=details.get("depth"),
            operation=details.get("op", kind),
            reason=details.get("why", ""),
            block=_block_of(details),
        )
        self.trace.events.append(event)

    # --- values

    def value(self, x: Any) -> int:
        """The number of a value; the same object gets the same number."""
        if isinstance(x, torch.Tensor):
            known = self._value_of.get(id(x))
            if known is None:
                known = self._value_of[id(x)] = self._add(self._tensor(x))
                self._held.append(x)
            return known
        if isinstance(x, Placed):
            known = self._value_of.get(id(x))
            if known is None:
                known = self._value_of[id(x)] = self._add(self._placed(x))
                self._held.append(x)
            return known
        if x is None or isinstance(x, (bool, int, float, str)):
            key = (type(x), repr(x) if isinstance(x, float) else x)
            number = self._scalars.get(key)
            if number is None:
                number = self._scalars[key] = self._add(ScalarValue(x))
            return number
        if isinstance(x, (tuple, list)) and len(x) <= MAX_ITEMS:
            return self._add(SequenceValue(tuple(self.value(item) for item in x)))
        if isinstance(x, Mapping) and len(x) <= MAX_ITEMS:
            return self._add(MappingValue(tuple(str(k) for k in x), tuple(self.value(v) for v in x.values())))
        return self._add(OpaqueValue(type(x).__name__))

    def _add(self, value: Value) -> int:
        self.trace.values.append(value)
        return len(self.trace.values) - 1

    def _tensor(self, x: torch.Tensor) -> Value:
        name = dtype_name(x.dtype)
        try:
            raw_dtype(name)
        except ValueError:
            return OpaqueValue(f"Tensor({name})")
        if x.device.type != "cpu" or x.layout != torch.strided:
            return OpaqueValue(f"Tensor({name}, {x.device.type}, {x.layout})")
        valid = x.__dict__.get(ins.VALID_ATTRIBUTE) if hasattr(x, "__dict__") else None
        return TensorValue(self.storage(x), name, tuple(x.shape), tuple(x.stride()), int(x.storage_offset()), valid)

    def _placed(self, x: Placed) -> Value:
        number = self.memory(x.holder) if isinstance(x.holder, LaneMemory) else self.storage(x.holder)
        return TensorValue(number, x.dtype, x.shape, x.strides, x.offset, x.valid, x.order)

    def memory(self, memory: LaneMemory) -> int:
        """The number of a lane's memory as a storage."""
        known = self._memories.get(id(memory))
        if known is None:
            number = self.trace.store.add_storage(memory.bytes)
            self.trace.memories[number] = memory.memory
            known = self._memories[id(memory)] = (memory, number)
        return known[1]

    def storage(self, x: torch.Tensor) -> int:
        """The number of a tensor's storage; its bytes are shared, not copied."""
        storage = x.untyped_storage()
        key = storage._cdata
        known = self._storage_of.get(key)
        if known is None:
            holder = torch.empty(0, dtype=torch.uint8).set_(storage)
            known = self._storage_of[key] = self.trace.store.add_storage(holder.numpy())
            self._holders[known] = holder
        return known

    # --- memory

    def release(self, spool: Spool) -> int:
        """Moves storages that nobody but the recording holds, and all replaced bytes, to the spool; bytes moved."""
        numbers = [n for n, holder in self._holders.items() if not _held_elsewhere(holder)]
        replaced = range(self._spooled, len(self.trace.store.replaced))
        self._spooled = len(self.trace.store.replaced)
        closed = [m for m, _ in self._memories.values() if not m.is_open and not is_mapped(m.bytes)]
        contents = [self.trace.store.storages[n] for n in numbers] + [self.trace.store.replaced[i] for i in replaced]
        spooled = spool.put([*contents, *(m.bytes for m in closed)])
        for memory, content in zip(closed, spooled[len(contents) :], strict=True):
            memory.bytes = content
        moved = sum(c.nbytes for c in spooled)
        keys = {number: key for key, number in self._storage_of.items()}
        for number, content in zip(numbers, spooled, strict=False):
            self.trace.store.storages[number] = content
            del self._holders[number], self._storage_of[keys[number]]
        for i, content in zip(replaced, spooled[len(numbers) : len(contents)], strict=True):
            self.trace.store.replaced[i] = content
        self.trace.store.forget_images()
        return moved


def _block_of(details: Mapping[str, Any]) -> int | None:
    block = details.get("of_block", -1)
    return None if block < 0 else block


def _held_elsewhere(holder: torch.Tensor) -> bool:
    """Whether the run still has the storage: it counts the holder, the object made here, and everybody else."""
    return _use_count(holder) > _own_uses()


def _use_count(holder: torch.Tensor) -> int:
    storage = holder.untyped_storage()
    count: int = torch._C._storage_Use_Count(storage._cdata)
    return count


@lru_cache(maxsize=1)
def _own_uses() -> int:
    """What the count is when only a store's holder and its numpy view are left."""
    content = torch.zeros(1)
    holder = torch.empty(0, dtype=torch.uint8).set_(content.untyped_storage())
    view = holder.numpy()
    del content
    return _use_count(holder) if view.size else 0


class Spool:
    """A file that bytes are appended to and read back from by mapping it; removed with the recording that uses it."""

    def __init__(self, path: str) -> None:
        self.path = path
        weakref.finalize(self, _remove, path)
        self.size = 0

    def put(self, contents: Sequence[Bytes]) -> list[Bytes]:
        """Appends pieces of bytes; the arrays given back read them from the file."""
        begin = (self.size + 4095) & ~4095
        places: list[int] = []
        with open(self.path, "ab") as file:
            file.write(b"\0" * (begin - self.size))
            self.size = begin
            for content in contents:
                padding = -self.size % 64
                file.write(b"\0" * padding)
                places.append(self.size + padding - begin)
                file.write(np.ascontiguousarray(content).data)
                self.size += padding + content.nbytes
        if self.size == begin:
            return [np.zeros(0, np.uint8) for _ in contents]
        mapped = np.asarray(np.memmap(self.path, np.uint8, "r", begin, (self.size - begin,)))
        return [mapped[p : p + c.nbytes] for p, c in zip(places, contents, strict=True)]


def _remove(path: str) -> None:
    with suppress(OSError):  # somebody else has removed it
        os.unlink(path)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a row-major box."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
