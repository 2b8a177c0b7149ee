"""Where a run in the recording stops: one frozen dataclass a kind of breakpoint.

Every kind can be narrowed by lane, block, iteration and a condition. A position is *after* its step, so a breakpoint
stops when its statement has just been done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.record.arrays import has_non_finite, raw_dtype, valid_cells
from pypto_lab.record.events import EventKind, StepKind, TensorValue, region_of
from pypto_lab.record.expressions import evaluate
from pypto_lab.record.queries import first_divergence
from pypto_lab.record.store import region_addresses
from pypto_lab.record.trace import Cells, Content

if TYPE_CHECKING:
    from pypto_lab.record.recording import Recording

Steps = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakpoint:
    """Base: stops at every step that fits. `condition` is a Python expression over the variables (see
    `expressions.py`); it does not stop where a variable is not bound yet."""

    lane: str | None = None
    block: int | None = None
    iteration: int | None = None
    condition: str | None = None

    def facts(self) -> dict[str, Any]:
        """The breakpoint as plain data (`breakpoint_of` reads it): `kind` and the fields that are set. A region's axes
        are [start, stop] or a number; another recording does not travel."""
        stated = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "other"}
        return {"kind": KINDS[type(self)], **{k: _plain(v) for k, v in stated.items() if v is not None}}

    @property
    def label(self) -> str:
        """The breakpoint in words."""
        words = self.words()
        narrowed = [f"{name} {getattr(self, name)}" for name in ("lane", "block", "iteration")]
        words += [text for text, name in zip(narrowed, ("lane", "block", "iteration"), strict=True) if self._has(name)]
        if self.condition is not None:
            words.append(f"when {self.condition}")
        return ", ".join(words)

    def words(self) -> list[str]:
        """What it looks for, without what narrows it."""
        return ["every step"]

    def _has(self, name: str) -> bool:
        return getattr(self, name) is not None

    def candidates(self, recording: Recording) -> Steps:
        """Steps (ascending) at which it may stop."""
        return np.arange(1, len(recording) + 1, dtype=np.int64)

    def stops(self, recording: Recording, step: int) -> bool:
        """Whether it stops at one of its candidates."""
        return self.fits(recording, step) and self.holds(recording, step)

    def fits(self, recording: Recording, step: int) -> bool:
        """Lane, block and iteration."""
        if self.lane is None and self.block is None and self.iteration is None:
            return True
        where = recording.index.coordinate(step)
        if self.lane is not None and where.lane != self.lane:
            return False
        if self.block is not None and where.block != self.block:
            return False
        return self.iteration is None or (bool(where.iterations) and where.iterations[-1] == self.iteration)

    def holds(self, recording: Recording, step: int) -> bool:
        if self.condition is None:
            return True
        try:
            return bool(np.all(evaluate(self.condition, recording, recording.trace.steps.frame[step - 1], step)))
        except NameError:
            return False


def _steps_of_statements(recording: Recording, ids: set[int]) -> Steps:
    return np.flatnonzero(np.isin(recording.index.statement_of_step, list(ids))) + 1


@dataclass(frozen=True, slots=True)
class When(Breakpoint):
    """Stops where its condition holds and did not hold at the step before (in the same activation)."""

    condition: str

    def words(self) -> list[str]:
        return []

    def stops(self, recording: Recording, step: int) -> bool:
        if not self.fits(recording, step) or not self.holds(recording, step):
            return False
        steps = recording.index.steps_of_frame[recording.trace.steps.frame[step - 1]]
        at = steps.index(step) if len(steps) < 64 else int(np.searchsorted(steps, step))
        return at == 0 or not self.holds(recording, steps[at - 1])


@dataclass(frozen=True, slots=True)
class AtLine(Breakpoint):
    """A line of the kernel's source (`file`: the end of its name), or of the script where no source is known."""

    line: int
    file: str | None = None

    def words(self) -> list[str]:
        return [f"line {self.line}" if self.file is None else f"{self.file}:{self.line}"]

    def candidates(self, recording: Recording) -> Steps:
        return _steps_of_statements(recording, {s.id for s in recording.statements_at(self.line, self.file)})


@dataclass(frozen=True, slots=True)
class OnOp(Breakpoint):
    """An operation by its name: `tile.add`, or `add` for every layer's."""

    op: str

    def words(self) -> list[str]:
        return [f"op {self.op}"]

    def candidates(self, recording: Recording) -> Steps:
        def named(op: str | None) -> bool:
            return op is not None and (op == self.op or op.rpartition(".")[2] == self.op)

        return _steps_of_statements(recording, {s.id for s in recording.trace.statements if named(s.op)})


@dataclass(frozen=True, slots=True)
class OnVariable(Breakpoint):
    """A variable gets a value or is written in place."""

    name: str

    def words(self) -> list[str]:
        return [f"`{self.name}` changes"]

    def candidates(self, recording: Recording) -> Steps:
        bound = [b for b in recording.trace.bindings if _is_named(b.name, self.name)]
        steps = {b.step for b in bound}
        for value in {b.value for b in bound}:
            steps.update(_write_steps(recording, value))
        return np.array(sorted(steps), np.int64)


@dataclass(frozen=True, slots=True)
class OnRegion(Breakpoint):
    """A cell or region of a tensor is written in place, or made."""

    name: str
    place: tuple[int | slice, ...]

    def words(self) -> list[str]:
        axes = (
            f"{p.start or 0}:{'' if p.stop is None else p.stop}" if isinstance(p, slice) else str(p) for p in self.place
        )
        return [f"`{self.name}[{', '.join(axes)}]` is written"]

    def __hash__(self) -> int:  # slices cannot be hashed before Python 3.12
        return hash((self.name, repr(self.place), self.lane, self.block, self.iteration, self.condition))

    def candidates(self, recording: Recording) -> Steps:
        store, steps = recording.trace.store, set[int]()
        for b in recording.trace.bindings:
            value = recording.trace.values[b.value]
            if not _is_named(b.name, self.name) or not isinstance(value, TensorValue):
                continue
            addresses = region_addresses(value, region_of(self.place, value.shape))
            steps.update(store.writes[i].step for i in store.writes_touching(value.storage, addresses, 0))
            if recording.index.made_at(b.value, b.step):
                steps.add(b.step)
        return np.array(sorted(steps), np.int64)


@dataclass(frozen=True, slots=True)
class OnQueue(Breakpoint):
    """A queue event: a push, pop, free, or a lane that has to wait; `pipe` as queues are named, None for any."""

    event: Literal["push", "pop", "free", "blocked", "resumed"]
    pipe: str | None = None

    def words(self) -> list[str]:
        return [f"{self.event} on {self.pipe or 'any pipe'}"]

    def candidates(self, recording: Recording) -> Steps:
        kind = EventKind[self.event.upper()]
        wanted = {e.step for e in recording.trace.events if e.kind == kind and self.pipe in (None, e.pipe)}
        return np.array(sorted(wanted), np.int64)


@dataclass(frozen=True, slots=True)
class OnNonFinite(Breakpoint):
    """A value with a NaN or an infinity in its valid cells (of one variable, or of any) where its statement's operands
    have none: the place where it comes from."""

    name: str | None = None

    def words(self) -> list[str]:
        return ["NaN or infinity" if self.name is None else f"NaN or infinity in `{self.name}`"]

    def stops(self, recording: Recording, step: int) -> bool:
        if not self.fits(recording, step) or recording.trace.steps.kind[step - 1] == StepKind.ENTER:
            return False
        new = any(_spoiled(content) for content in _new_contents(recording, step, self.name))
        return new and not _operands_spoiled(recording, step) and self.holds(recording, step)


@dataclass(frozen=True, slots=True)
class OnDivergence(Breakpoint):
    """The first value that differs from another recording's by more than `tolerance`."""

    other: Any
    tolerance: float = 0.0

    def words(self) -> list[str]:
        return ["first divergence"]

    def candidates(self, recording: Recording) -> Steps:
        found = first_divergence(recording, self.other, tolerance=self.tolerance)
        return np.array([] if found is None else [found.step], np.int64)


KINDS: dict[type[Breakpoint], str] = {
    Breakpoint: "step", When: "condition", AtLine: "line", OnOp: "op", OnVariable: "variable", OnRegion: "region",
    OnQueue: "queue", OnNonFinite: "non-finite", OnDivergence: "divergence",
}  # fmt: skip
"""What kinds of breakpoints are called in data."""


def breakpoint_of(facts: Mapping[str, Any], other: Recording | None = None) -> Breakpoint:
    """The breakpoint that `facts` states; a divergence is from `other`. Raises LabError for another kind or field."""
    made = {name: kind for kind, name in KINDS.items()}
    stated = {k: v for k, v in facts.items() if k not in ("kind", "label", "steps")}
    kind = made.get(str(facts.get("kind")))
    if "place" in stated:
        stated["place"] = tuple(slice(*p) if isinstance(p, (list, tuple)) else p for p in stated["place"])
    if kind is OnDivergence:
        stated["other"] = other
    try:
        if kind is None or (kind is OnDivergence and other is None):
            raise TypeError(f"no breakpoint is of kind `{facts.get('kind')}`" if kind is None else "no other recording")
        return kind(**stated)
    except TypeError as problem:
        hint = f"kinds are {', '.join(KINDS.values())}"
        raise LabError([Diagnostic("E410", f"this is no breakpoint: {problem}", hint=hint)]) from problem


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return [value.start, value.stop] if isinstance(value, slice) else value


def _write_steps(recording: Recording, value: int) -> list[int]:
    """Steps that wrote to a tensor in place."""
    found = recording.trace.values[value]
    if not isinstance(found, TensorValue):
        return []
    writes = recording.trace.store.writes_to(found.storage)
    if found.storage not in recording.trace.memories:
        return writes.steps
    return [writes.steps[i] for i in writes.overlapping(0, len(writes.steps), *recording.index.interval(found))]


def _is_named(name: str, wanted: str) -> bool:
    return name == wanted or name.partition("__ssa_v")[0] == wanted


def _new_contents(recording: Recording, step: int, wanted: str | None) -> Iterator[Content]:
    """What a step made: values it bound that did not exist before, and the regions it wrote in place."""
    index, trace = recording.index, recording.trace
    for b in index.bindings_of_step.get(step, ()):
        if wanted is not None and not _is_named(b.name, wanted):
            continue
        if index.made_at(b.value, step):
            yield index.content(b.value, step)
    for i in trace.store.writes_at(step):
        write = trace.store.writes[i]
        if write.storage in trace.memories:  # the tile that was written is bound at its step
            continue
        dtypes = _dtypes_of(recording, write.storage, trace.steps.frame[step - 1], step, wanted)
        for dtype in dtypes:
            item = raw_dtype(dtype).itemsize
            if item == write.item:
                strides = tuple(s // item for s in write.strides)
                region = TensorValue(write.storage, dtype, write.shape, strides, write.offset // item)
                yield Cells(trace.store.read(region, step), dtype)


def _dtypes_of(recording: Recording, storage: int, frame: int, step: int, wanted: str | None) -> set[str]:
    """The dtypes under which a function's variables (those called `wanted`) see a storage."""
    found: set[str] = set()
    for name in recording.index.names_of_frame.get(frame, ()):
        bound = recording.index.bound(frame, name, step)
        value = recording.trace.values[bound.value] if bound is not None else None
        named = wanted is None or _is_named(name, wanted)
        if named and isinstance(value, TensorValue) and value.storage == storage:
            found.add(value.dtype)
    return found


def _operands_spoiled(recording: Recording, step: int) -> bool:
    statement = recording.index.statement(step)
    frame = recording.trace.steps.frame[step - 1]
    for name in statement.reads if statement is not None else ():
        bound = recording.index.bound(frame, name, step - 1)
        if bound is not None and _spoiled(recording.index.content(bound.value, step - 1)):
            return True
    return False


def _spoiled(content: Content) -> bool:
    if isinstance(content, Cells):
        return has_non_finite(valid_cells(content.raw, content.valid), content.dtype)
    if isinstance(content, tuple):
        return any(_spoiled(c) for c in content)
    return isinstance(content, float) and not np.isfinite(content)
