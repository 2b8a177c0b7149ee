"""A recording: what a run did, its outputs, a digest, and saving it as one file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.record.arrays import Raw
from pypto_lab.record.events import RecomputedValue, ScalarValue, SourceSpot, Statement, TensorValue
from pypto_lab.record.trace import Cells, Content, Index, Trace


@dataclass(frozen=True, slots=True)
class Facts:
    """How the run went. `status` is finished, failed, deadlock or interrupted; `inputs` and `outputs` are value ids
    by parameter name (outputs by the name the caller used), `returned` is the value id of the returned value."""

    entry: str
    seed: int
    status: str
    error: str = ""
    inputs: Mapping[str, int] = field(default_factory=dict)
    outputs: Mapping[str, int] = field(default_factory=dict)
    returned: int | None = None
    policy: str = "lane-first"
    notes: tuple[str, ...] = ()
    branch: str = ""
    engine: str = ""
    """What executed it, where that was not the torch script."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What the recording was made from; an opened archive has none."""

    program: Any
    policy: Any
    options: Mapping[str, Any]


class Recording:
    """What a run did. Made by `record`, or read from a file by `open_archive`; read-only.

    Values share memory with the run (nothing is copied but what in-place writes replaced), so the recording holds on
    to the run's tensors. `branches` are recordings made from this one by what-ifs.
    """

    def __init__(self, trace: Trace, facts: Facts, *, origin: Origin | None = None, memory: object = None) -> None:
        """`memory` is whatever owns the bytes the trace looks at; it lives as long as the recording."""
        self.trace = trace
        self.facts = facts
        self.origin = origin
        self.index = Index(trace)
        self.branches: list[Recording] = []
        self.findings: tuple[Any, ...] = ()
        """What the machine that ran it found, if one did; an opened archive has them as notes."""
        self._memory = memory

    def __len__(self) -> int:
        """Number of steps."""
        return len(self.trace)

    def __repr__(self) -> str:
        return f"<Recording of {self.facts.entry}: {len(self)} steps, {self.facts.status}>"

    # --- how it went

    @property
    def status(self) -> str:
        return self.facts.status

    @property
    def ok(self) -> bool:
        return self.facts.status == "finished"

    @property
    def error(self) -> str:
        """What ended the run, empty when it finished."""
        return self.facts.error

    @property
    def notes(self) -> tuple[str, ...]:
        return self.facts.notes

    @cached_property
    def lanes(self) -> tuple[str, ...]:
        """Lanes that took steps, in order of appearance."""
        used = dict.fromkeys(self.index.lane_of_step.tolist())
        return tuple(self.trace.lanes[i] for i in used)

    @property
    def stored_bytes(self) -> int:
        """Bytes the recording holds on to: each storage once, and what in-place writes replaced."""
        return self.trace.store.stored_bytes

    @property
    def resident_bytes(self) -> int:
        """Those of the stored bytes that lie in memory, not in the spill file or an opened archive."""
        return self.trace.store.resident_bytes

    def raise_if_failed(self) -> None:
        """Raises LabError when the run did not finish."""
        if not self.ok:
            raise LabError([Diagnostic("E400", f"{self.facts.status}: {self.error}")])

    # --- values

    @cached_property
    def arrays(self) -> dict[str, Raw]:
        """Outputs as numbers in numpy arrays (bfloat16 and 8-bit floats as float32), by parameter name."""
        contents = {name: self.index.content(v, len(self)) for name, v in self.facts.outputs.items()}
        return {name: c.numbers.copy() for name, c in contents.items() if isinstance(c, Cells)}

    @cached_property
    def outputs(self) -> dict[str, Any]:
        """Outputs by parameter name as torch tensors of their own; as numpy arrays where torch is not installed."""
        try:
            from pypto_lab.record.recompute import live_value
        except ImportError:
            return dict(self.arrays)
        contents = {name: self.index.content(v, len(self)) for name, v in self.facts.outputs.items()}
        return {name: live_value(c).clone() for name, c in contents.items() if isinstance(c, Cells)}

    @cached_property
    def returned(self) -> Any:
        """What the entry returned: tensors (numpy arrays without torch), scalars, tuples of them, or None."""
        value = self.facts.returned
        content = None if value is None else self.index.content(value, len(self))
        try:
            from pypto_lab.record.recompute import live_value
        except ImportError:
            return _as_arrays(content)
        return live_value(content)

    # --- identity

    def digest(self) -> str:
        """A hash over every step, value, write and queue event: two recordings with the same digest are the same bit
        for bit. It does not depend on how values are kept."""
        self.materialise()
        sha = hashlib.blake2b(digest_size=16)
        trace = self.trace
        sha.update(repr([(f.function, f.lane, f.parent, f.begin, f.end) for f in trace.frames]).encode())
        steps = trace.steps
        for column in (steps.kind, steps.statement, steps.frame, steps.block, steps.task):
            sha.update(np.array(column, np.int64).tobytes())
        sha.update(repr(steps.iterations).encode())
        self._hash_values(sha)
        self._hash_events(sha)
        sha.update(repr((self.facts.status, self.facts.error)).encode())
        return sha.hexdigest()

    def _hash_values(self, sha: Any) -> None:
        trace = self.trace
        for b in trace.bindings:
            sha.update(f"{b.step} {b.frame} {b.name} ".encode())
            self._hash_value(sha, b.value, b.step)
        for write, old in zip(trace.store.writes, trace.store.replaced, strict=True):
            sha.update(f"{write.step} {write.offset} {write.shape} {write.strides}".encode())
            sha.update(np.ascontiguousarray(old).data)
        for storage in self.trace.memories:
            sha.update(np.ascontiguousarray(self.trace.store.storages[storage]).data)
        for name, value in self.facts.outputs.items():
            sha.update(name.encode())
            content = self.index.content(value, len(self))
            if isinstance(content, Cells):
                sha.update(np.ascontiguousarray(content.raw).tobytes())

    def _hash_value(self, sha: Any, value: int, step: int) -> None:
        """A value as it is first seen; a storage's later contents follow from the writes."""
        for part in self.index.tensors_of(value):
            tensor = self.trace.values[part]
            assert isinstance(tensor, TensorValue)
            sha.update(f"{tensor.dtype} {tensor.shape} {self.index.valid(part, step)}".encode())
            if tensor.storage not in self.trace.memories and self.index.creation[tensor.storage][0] == step:
                sha.update(np.ascontiguousarray(self.trace.store.read(tensor, step)).tobytes())
        found = self.trace.values[value]
        if isinstance(found, ScalarValue):
            sha.update(repr(found.value).encode())

    def _hash_events(self, sha: Any) -> None:
        for e in self.trace.events:
            sha.update(f"{e.step} {int(e.kind)} {e.lane} {e.pipe} {e.slot} {e.operation} {e.reason}".encode())

    def materialise(self) -> None:
        """Computes the values that were not kept and keeps them, so that nothing depends on the script any more."""
        if any(isinstance(v, RecomputedValue) for v in self.trace.values):
            from pypto_lab.record.recompute import materialise

            materialise(self.trace)
            self.index = Index(self.trace)

    # --- files and text

    def save(self, path: str | Path) -> Path:
        """Writes one `.ptolab` file; it opens without torch and without the kernel's sources."""
        from pypto_lab.record.archive import save_archive

        return save_archive(self, Path(path))

    def report(self) -> str:
        """The recording as text: how it went, lanes, outputs, queues, the statements and how often they ran."""
        from pypto_lab.record.report import report

        return report(self)

    # --- statements

    def statements_at(self, line: int, file: str | None = None) -> list[Statement]:
        """Statements of a line: of the text when `file` names it (its end suffices), else of the kernel's source or,
        where that has no statement on this line, of the script. The user's kernel behind a text counts, too."""

        def of_file(spot: SourceSpot | None) -> bool:
            return spot is not None and spot.line == line and spot.file.endswith(file or "")

        found = self.trace.statements
        stated = [s for s in found if of_file(s.spot)] or [s for s in found if of_file(s.origin)]
        if stated or file is not None:
            return stated
        return [s for s in found if s.line <= line <= s.end_line]


def other_engine(engine: str) -> LabError:
    """Why a recording cannot be run again with a change."""
    hint = "record the program itself (`lab.record`) and change it there"
    return LabError([Diagnostic("E418", f"a what-if needs the torch script of a program; this is {engine}", hint=hint)])


def _as_arrays(content: Content) -> Any:
    if isinstance(content, Cells):
        return content.numbers.copy()
    if isinstance(content, tuple):
        return tuple(_as_arrays(c) for c in content)
    return content
