"""The timeline of a recording as plain tables: what travels once to the browser, where all stepping is done.

Step numbers count from 1 and index the columns at `number - 1`; names, iterations and files are kept in tables of their
own and referred to by index. Cells of tensors are not in here (see `tiles.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pypto_lab.record.arrays import raw_dtype
from pypto_lab.record.events import (
    MappingValue,
    OpaqueValue,
    RecomputedValue,
    ScalarValue,
    SequenceValue,
    TensorValue,
)
from pypto_lab.record.expressions import shown
from pypto_lab.record.recording import Recording
from pypto_lab.record.trace import Cells

VERSION = 1
"""Version of the tables; the browser side refuses another one."""


def timeline(recording: Recording) -> dict[str, Any]:
    """The tables of a recording. Values that were not kept are computed once more to learn their shape."""
    trace = recording.trace
    files = [*trace.sources]
    names = {name: i for i, name in enumerate(dict.fromkeys(b.name for b in trace.bindings))}
    return {
        "version": VERSION,
        "facts": _facts(recording),
        "lanes": list(trace.lanes),
        "used": [trace.lanes.index(name) for name in recording.lanes],
        "files": files,
        "functions": [[f.name, f.line] for f in trace.functions],
        "statements": [_statement(s, files) for s in trace.statements],
        "frames": [[f.function, f.lane, f.parent, f.begin, f.end] for f in trace.frames],
        "steps": _steps(recording),
        "names": list(names),
        "bindings": {
            "step": [b.step for b in trace.bindings],
            "frame": [b.frame for b in trace.bindings],
            "name": [names[b.name] for b in trace.bindings],
            "value": [b.value for b in trace.bindings],
        },
        "values": [_value(recording, i) for i in range(len(trace.values))],
        "valid": {str(v): changes for v, changes in trace.valid_changes.items()},
        "events": [
            [e.step, int(e.kind), e.lane, e.pipe, e.slot, e.value, e.depth, e.operation, e.reason, e.block]
            for e in trace.events
        ],
        "writes": [[w.step, w.storage, w.offset, w.shape, w.strides, w.item] for w in trace.store.writes],
    }


def _facts(recording: Recording) -> dict[str, Any]:
    facts = recording.facts
    return {
        "entry": facts.entry, "seed": facts.seed, "status": facts.status, "error": facts.error,
        "policy": facts.policy, "branch": facts.branch, "notes": list(facts.notes),
        "inputs": dict(facts.inputs), "outputs": dict(facts.outputs),
    }  # fmt: skip


def _statement(s: Any, files: list[str]) -> list[Any]:
    file = files.index(s.spot.file) if s.spot is not None and s.spot.file in files else -1
    place = [file, s.spot.line] if s.spot is not None else [-1, 0]
    shown_file = s.spot.file if s.spot is not None else ""
    return [
        s.function, int(s.kind), s.line, s.end_line, s.text, list(s.targets), list(s.reads), *place, shown_file,
        s.op, s.updates, f"{s.origin.file}:{s.origin.line}" if s.origin is not None else "",
    ]  # fmt: skip


def _steps(recording: Recording) -> dict[str, Any]:
    columns = recording.trace.steps
    turns = {turn: i for i, turn in enumerate(dict.fromkeys(columns.iterations))}
    return {
        "kind": [int(k) for k in columns.kind],
        "statement": list(columns.statement),
        "frame": list(columns.frame),
        "block": list(columns.block),
        "task": list(columns.task),
        "turn": [turns[t] for t in columns.iterations],
        "turns": [list(t) for t in turns],
    }


def _value(recording: Recording, value: int) -> list[Any]:
    """A value without its cells: `t` tensor, `s` scalar, `l` sequence, `m` mapping, `o` anything else."""
    found = recording.trace.values[value]
    match found:
        case TensorValue():
            item = raw_dtype(found.dtype).itemsize
            where = [found.storage, found.strides, found.offset, item]
            return ["t", found.dtype, found.shape, found.valid, *where]
        case ScalarValue():
            return ["s", shown(found.value), type(found.value).__name__]
        case SequenceValue():
            return ["l", found.items]
        case MappingValue():
            return ["m", found.keys, found.items]
        case OpaqueValue():
            return ["o", shown(found)]
        case RecomputedValue():
            return _computed(recording.index.content(value, found.step))


def _computed(content: Any) -> list[Any]:
    """A value that was not kept; it has no storage that anyone could write to."""
    if isinstance(content, Cells):
        return ["t", content.dtype, content.shape, content.valid, -1, [], 0, 0]
    if isinstance(content, (bool, int, float, str)):
        return ["s", shown(content), type(content).__name__]
    return ["o", shown(content)]


def version_of(recording: Recording, value: int, position: int) -> int:
    """The latest step up to `position` that changed a tensor's cells or valid shape, 0 for none: with the value's id
    it names the content."""
    found = recording.trace.values[value]
    if not isinstance(found, TensorValue):
        return 0
    versions = [v for v in versions_of(recording, value) if v <= position]
    return versions[-1] if versions else 0


def versions_of(recording: Recording, value: int) -> list[int]:
    """All steps that changed a tensor's cells or valid shape, ascending, after a leading 0."""
    from pypto_lab.record.store import byte_interval

    found = recording.trace.values[value]
    if not isinstance(found, TensorValue):
        return [0]
    low, high = byte_interval(found, raw_dtype(found.dtype).itemsize)
    writes = recording.trace.store.writes_to(found.storage)
    steps = {writes.steps[i] for i in writes.overlapping(0, len(writes.steps), low, high)}
    steps |= {step for step, _ in recording.trace.valid_changes.get(value, ())}
    return [0, *sorted(steps)]


def outputs_by_storage(recording: Recording) -> Mapping[tuple[int, tuple[int, ...]], str]:
    """Outputs by the storage and shape of their value: under other names they are found by these."""
    out: dict[tuple[int, tuple[int, ...]], str] = {}
    for name, value in recording.facts.outputs.items():
        found = recording.trace.values[value]
        if isinstance(found, TensorValue):
            out[found.storage, found.shape] = name
    return out
