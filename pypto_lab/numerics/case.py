"""A case: a kernel with inputs, a golden and tolerances. Files become cases in `compat.cases`."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pypto_lab.frontend.kernels import KernelSource, ProgramSource
from pypto_lab.ir.enums import Direction
from pypto_lab.ir.nodes import Program
from pypto_lab.numerics.compare import Comparison, compare, judged

Values = dict[str, Any]
Comparer = Callable[..., tuple[bool, str]]
"""A case's own rule: `cmp(actual, expected, *, actual_outputs, expected_outputs, inputs, rtol, atol)`."""

Surroundings = Callable[[], contextlib.AbstractContextManager[object]]


@dataclass(frozen=True, eq=False)
class Case:
    """One kernel and what it should compute. `make_inputs` and `golden` are the author's functions; they run in the
    case's surroundings, where the author's own modules can be imported."""

    name: str
    path: Path | None
    entry: str
    source: KernelSource | ProgramSource
    inputs_of: Callable[[int], Values]
    golden_of: Callable[[Values], Any]
    stated_outputs: tuple[str, ...] | None = None
    rtol: float | None = None
    atol: float | None = None
    runtime_scalars: tuple[str, ...] | None = None
    comparers: Mapping[str, Comparer] = field(default_factory=dict)
    surroundings: Surroundings = contextlib.nullcontext

    def make_inputs(self, seed: int = 0) -> Values:
        """Values by parameter name, in parameter order, outputs included. The same seed gives the same values."""
        with self.surroundings(), seeded(seed):
            return dict(self.inputs_of(seed))

    def golden(self, values: Values) -> None:
        """Fills the outputs in `values` in place."""
        with self.surroundings():
            self.golden_of(values)

    def program(self, arguments: Mapping[str, Any] | None = None) -> Program:
        """The program for these arguments, those of seed 0 when left out. Raises LabError with all findings."""
        from pypto_lab.frontend.source import program_of

        given = self.make_inputs(0) if arguments is None else arguments
        with self.surroundings():
            return program_of(self.source, given, runtime_scalars=self.runtime_scalars)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs the golden checks: those stated, else all Out and InOut parameters."""
        if self.stated_outputs is not None:
            return self.stated_outputs
        return tuple(p.name for p in self.program().entry.params if p.direction is not Direction.In)

    def expected(self, values: Mapping[str, Any]) -> Values:
        """The outputs the golden computes from `values`, which stay as they are."""
        reference = clone(values)
        self.golden(reference)
        return {name: reference[name] for name in self.outputs}

    def compare(
        self, name: str, outputs: Mapping[str, Any], expected: Mapping[str, Any], inputs: Mapping[str, Any]
    ) -> Comparison:
        """One output against the golden, by the case's own comparer where it has one."""
        measured = compare(outputs[name], expected[name], rtol=self.rtol, atol=self.atol)
        comparer = self.comparers.get(name)
        if comparer is None or measured.problem is not None:
            return measured
        passed, message = comparer(
            outputs[name],
            expected[name],
            actual_outputs=outputs,
            expected_outputs=expected,
            inputs=inputs,
            rtol=measured.rtol,
            atol=measured.atol,
        )
        return judged(measured, bool(passed), message)


def clone(values: Mapping[str, Any]) -> Values:
    """A copy of values in which no tensor is shared."""
    return {name: value.clone() if hasattr(value, "clone") else value for name, value in values.items()}


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seeds the global generators of torch, numpy and Python inside the block, and restores them after it."""
    import numpy
    import torch

    python_state, numpy_state = random.getstate(), numpy.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        numpy.random.seed(seed % 2**32)
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(python_state)
            numpy.random.set_state(numpy_state)
