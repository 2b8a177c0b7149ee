"""Undefined cells that reach an output: a run with other contents in them gives other numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.nodes import Program
from pypto_lab.numerics.case import Values, clone
from pypto_lab.numerics.compare import bad_cells
from pypto_lab.numerics.compiling import marked, run_build_of
from pypto_lab.numerics.poison import undefined_reads
from pypto_lab.numerics.where import Where, locate
from pypto_lab.pto.build import Build
from pypto_lab.torch_codegen.execute import run


@dataclass(frozen=True, slots=True)
class Leak:
    """Cells of an output that change with what undefined cells hold; `cause` names the statement that first reads
    one, empty where it is not known."""

    name: str
    where: Where
    cause: str = ""

    @property
    def message(self) -> str:
        found = "undefined cells reach the output: " + "; ".join(self.where.lines())
        return f"{found}; {self.cause}" if self.cause else found

    def to_json(self) -> dict[str, object]:
        return {"name": self.name, "cells": self.where.count, "message": self.message}


def find_leaks(program: Program, values: Mapping[str, Any], outputs: Values, seed: int) -> tuple[Leak, ...]:
    """Outputs that are not the same once undefined cells hold something else, with the statement that reads them."""
    poisoned = lambda: run_outputs(program, values, outputs, seed, poison="nan")  # noqa: E731
    return _leaks(program, values, outputs, seed, poisoned)


def pto_leaks(
    program: Program, build: Build, values: Mapping[str, Any], outputs: Values, seed: int
) -> tuple[Leak, ...]:
    """Outputs of a build that hold undefined cells: on-chip memory of the machine holds NaN until it is written, and
    outputs are filled with a marker before a second run. The statement is that of the program that was compiled."""

    def poisoned() -> Values:
        again = run_build_of(build, marked(program, values), seed)
        return pick(again.outputs, outputs, program)

    return _leaks(program, values, outputs, seed, poisoned)


def _leaks(
    program: Program, values: Mapping[str, Any], outputs: Values, seed: int, poisoned: Callable[[], Values]
) -> tuple[Leak, ...]:
    """Outputs that differ from a poisoned run, or that the program's own statements make depend on undefined cells."""
    reads = {read.output.partition("__ssa_v")[0]: read for read in undefined_reads(program, values, seed=seed)}
    stray = next((str(read) for read in reads.values() if read.cells is None), "")
    if stray:  # the way the program goes, or an index, depends on undefined cells: so does everything after it
        return tuple(Leak(name, locate(torch.ones(clean.shape)), stray) for name, clean in outputs.items())
    other = poisoned()
    leaks = []
    for name, clean in outputs.items():
        read = reads.get(name)
        changed = bad_cells(other[name].cpu(), clean.cpu(), 0.0, 0.0)
        if read is not None and read.cells is not None:
            changed = changed | read.cells.cpu()
        if bool(changed.any()):
            leaks.append(Leak(name, locate(changed), "" if read is None else str(read)))
    return tuple(leaks)


def run_outputs(
    program: Program,
    values: Mapping[str, Any],
    wanted: Mapping[str, Any],
    seed: int = 0,
    poison: str | None = None,
    memory: str = "names",
    arch: str = "a2a3",
) -> Values:
    """The wanted outputs after a run on copies of `values`. Raises LabError E502 when the program has no such one."""
    ran = run(program, clone(values), seed=seed, poison=poison, memory=memory, arch=arch)
    return pick(ran.outputs, wanted, program)


def pick(outputs: Mapping[str, Any], wanted: Iterable[str], program: Program) -> Values:
    """The wanted ones of a run's outputs. Raises LabError E502 when one is not there."""
    names = list(wanted)
    missing = [name for name in names if name not in outputs]
    if missing:
        raise LabError(
            [
                Diagnostic(
                    "E502",
                    f"{program.name} has no output {', '.join(missing)}",
                    hint=f"its outputs are {', '.join(outputs) or 'none'}: declare the parameter as pl.Out or pl.InOut",
                )
            ]
        )
    return {name: outputs[name] for name in names}
