"""`diff`: a case's kernel against its golden, output by output, and whether undefined cells can be seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.nodes import Program
from pypto_lab.lowering import lower
from pypto_lab.numerics.case import Case, Values, clone
from pypto_lab.numerics.compare import Comparison, bad_cells, finite
from pypto_lab.numerics.memories import compare_memories
from pypto_lab.numerics.poison import undefined_reads
from pypto_lab.numerics.where import Where, locate
from pypto_lab.torch_codegen.execute import run

STAGES = ("frontend", "lowered", "pto", "all")
ARCHITECTURES = ("a2a3", "a5")


@dataclass(frozen=True, slots=True)
class OutputDiff:
    """One output of the kernel against the golden."""

    name: str
    comparison: Comparison

    @property
    def ok(self) -> bool:
        return self.comparison.ok


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


@dataclass(frozen=True, slots=True)
class DiffReport:
    """What a diff found. `leaks` is None when poison was not asked for."""

    case: str
    stage: str
    arch: str
    seed: int
    outputs: tuple[OutputDiff, ...]
    leaks: tuple[Leak, ...] | None = None
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True when every output is right and nothing undefined reaches one."""
        return all(o.ok for o in self.outputs) and not self.leaks

    @property
    def max_abs(self) -> float:
        """The largest absolute error of all outputs; infinity when one cannot be compared."""
        return max((o.comparison.max_abs for o in self.outputs), default=0.0)

    @property
    def max_rel(self) -> float:
        return max((o.comparison.max_rel for o in self.outputs), default=0.0)

    def to_json(self) -> dict[str, Any]:
        """`{case, stage, arch, ok, outputs: [{name, ok, max_abs, max_rel}]}`, and `leaks` with poison; null stands for
        an infinite error."""
        out: dict[str, Any] = {
            "case": self.case,
            "stage": self.stage,
            "arch": self.arch,
            "ok": self.ok,
            "outputs": [
                {
                    "name": o.name,
                    "ok": o.ok,
                    "max_abs": finite(o.comparison.max_abs),
                    "max_rel": finite(o.comparison.max_rel),
                }
                for o in self.outputs
            ],
        }
        if self.leaks is not None:
            out["leaks"] = [leak.to_json() for leak in self.leaks]
        return out

    def __str__(self) -> str:
        lines = [f"{self.case} ({self.stage}): {'right' if self.ok else 'WRONG'}"]
        for output in self.outputs:
            first, *rest = output.comparison.lines()
            lines += [f"  {output.name}: {first}", *(f"    {line}" for line in rest)]
        lines += [f"  {leak.name}: {leak.message}" for leak in self.leaks or ()]
        if self.leaks == ():
            lines.append("  poison: no undefined cell reaches an output")
        return "\n".join(lines)


def diff(
    case: Case,
    stage: str = "frontend",
    arch: str = "a2a3",
    seed: int = 0,
    poison: bool = False,
    memory: str = "names",
) -> DiffReport:
    """Runs a case's kernel on the inputs of `seed` and compares its outputs with the golden.

    With `poison` the kernel runs again with other contents in every undefined cell; an output that changes is a leak.
    `memory` "addresses" runs tiles that have addresses where they lie, with a warning where that changes an output.
    Raises LabError: the kernel's own findings, E505 for a stage that is not built yet, E509 for an unknown one.
    """
    check_stage(stage, arch)
    values = case.make_inputs(seed)
    program = at_stage(case.program(values), stage, arch)
    expected = case.expected(values)
    result = run(program, clone(values), seed=seed, memory=memory, arch=arch)
    outputs = pick(result.outputs, expected, program)
    found = tuple(OutputDiff(name, case.compare(name, outputs, expected, values)) for name in expected)
    leaks = find_leaks(program, values, outputs, seed) if poison else None
    notes = (n.render(program.sources) for n in program.notes if isinstance(n, Diagnostic))
    findings = list(result.findings)
    if memory == "addresses":
        compared = compare_memories(program, values, arch=arch, seed=seed)
        findings += [] if compared.ok and compared.has_addresses else [str(compared)]
    warnings = (*notes, *(f"warning: {finding}" for finding in findings))
    return DiffReport(case.name, stage, arch, seed, found, leaks, warnings)


def check_stage(stage: str, arch: str) -> None:
    """Raises LabError for a stage or architecture that does not exist (E509) or is not built yet (E505)."""
    check_choice("stage", stage, STAGES)
    check_choice("arch", arch, ARCHITECTURES)
    if stage not in ("frontend", "lowered"):
        raise not_built(f"the stage `{stage}`", "--stage lowered goes as far as addresses and the task graph")


def at_stage(program: Program, stage: str, arch: str) -> Program:
    """The program as it stands after a stage: as read, or lowered by the lab's own passes for `arch`.

    Raises LabError for what the passes refuse, at the user's line.
    """
    return lower(program, arch).program if stage == "lowered" else program


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


def pick(outputs: Mapping[str, Any], wanted: Mapping[str, Any], program: Program) -> Values:
    """The wanted ones of a run's outputs. Raises LabError E502 when one is not there."""
    missing = [name for name in wanted if name not in outputs]
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
    return {name: outputs[name] for name in wanted}


def find_leaks(program: Program, values: Mapping[str, Any], outputs: Values, seed: int) -> tuple[Leak, ...]:
    """Outputs that are not the same once undefined cells hold something else, with the statement that reads them."""
    reads = {read.output.partition("__ssa_v")[0]: read for read in undefined_reads(program, values, seed=seed)}
    stray = next((str(read) for read in reads.values() if read.cells is None), "")
    if stray:  # the way the program goes, or an index, depends on undefined cells: so does everything after it
        return tuple(Leak(name, locate(torch.ones(clean.shape)), stray) for name, clean in outputs.items())
    poisoned = run_outputs(program, values, outputs, seed, poison="nan")
    leaks = []
    for name, clean in outputs.items():
        read = reads.get(name)
        changed = bad_cells(poisoned[name].cpu(), clean.cpu(), 0.0, 0.0)
        if read is not None and read.cells is not None:
            changed = changed | read.cells.cpu()
        if bool(changed.any()):
            leaks.append(Leak(name, locate(changed), "" if read is None else str(read)))
    return tuple(leaks)


def check_choice(what: str, value: str, choices: tuple[str, ...]) -> None:
    """Raises LabError E509 for a value that is not one of `choices`."""
    if value not in choices:
        raise LabError([Diagnostic("E509", f"no {what} `{value}`", hint=f"one of {', '.join(choices)}")])


def not_built(what: str, hint: str) -> LabError:
    return LabError([Diagnostic("E505", f"{what} is not built yet", hint=hint)])
