"""`diff`: a case's kernel against its golden, output by output, at one stage or at all, and whether undefined cells
can be seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto_lab.numerics.case import Case
from pypto_lab.numerics.compiling import check_choice
from pypto_lab.numerics.leaks import Leak, find_leaks, run_outputs
from pypto_lab.numerics.stages import (
    ARCHITECTURES,
    STAGES,
    OutputDiff,
    StageDiff,
    StageRun,
    StageRunner,
    at_stage,
    check_stage,
    chosen_stage,
    more_json,
    subject_of,
)
from pypto_lab.pto.build import ENGINES, Build
from pypto_lab.pto.embedded import Progress, silent

if TYPE_CHECKING:
    from pypto_lab.pto.machine.findings import Finding

__all__ = [
    "ARCHITECTURES", "STAGES", "DiffReport", "Leak", "OutputDiff", "StageDiff", "at_stage", "check_stage",
    "chosen_stage", "diff", "diff_build", "find_leaks", "report_of", "run_outputs",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class DiffReport:
    """What a diff found. Outputs, leaks and findings are those of the stage asked for, the last one of `all`; `stages`
    has every stage of `all`. `leaks` is None when poison was not asked for."""

    case: str
    stage: str
    arch: str
    seed: int
    outputs: tuple[OutputDiff, ...]
    leaks: tuple[Leak, ...] | None = None
    warnings: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    executed: tuple[str, ...] = ()
    refused: str = ""
    stages: tuple[StageDiff, ...] = ()
    build: Build | None = field(default=None, compare=False)
    """The build that was executed, where it was kept (`out`)."""

    @property
    def last(self) -> StageDiff:
        """The stage asked for, the last one of `all`."""
        if self.stages:
            return self.stages[-1]
        return StageDiff(
            self.stage, self.outputs, self.leaks, self.warnings, self.findings, self.executed, self.refused, self.build
        )

    @property
    def ok(self) -> bool:
        """True when every stage ran, every output is right, nothing undefined reaches one, and no finding is an
        error."""
        return all(stage.ok for stage in self.stages or (self.last,))

    @property
    def max_abs(self) -> float:
        """The largest absolute error of all outputs; infinity when one cannot be compared."""
        return max((o.comparison.max_abs for o in self.outputs), default=0.0)

    @property
    def max_rel(self) -> float:
        return max((o.comparison.max_rel for o in self.outputs), default=0.0)

    @property
    def first_wrong(self) -> StageDiff | None:
        """The first stage that is not right; None when all are."""
        return next((stage for stage in self.stages or (self.last,) if not stage.ok), None)

    def to_json(self) -> dict[str, Any]:
        """`{case, stage, arch, ok, outputs: [{name, ok, max_abs, max_rel}]}` of the last stage; `leaks` with poison,
        `findings` of `.pto`, `stages` of `all`. Null stands for an infinite error."""
        out: dict[str, Any] = {
            "case": self.case,
            "stage": self.stage,
            "arch": self.arch,
            "ok": self.ok,
            "outputs": [o.to_json() for o in self.outputs],
        }
        out |= more_json(self.leaks, self.findings, self.last.stage)
        if self.stages:
            out["stages"] = [stage.to_json() for stage in self.stages]
        return out

    def __str__(self) -> str:
        lines = [f"{self.case} ({self.stage}): {'right' if self.ok else 'WRONG'}"]
        if self.stages:
            return "\n".join([*lines, *(f"  {row}" for stage in self.stages for row in stage.lines())])
        return "\n".join([*lines, *self.last.lines()[1:]])


def diff(
    case: Case,
    stage: str = "frontend",
    arch: str = "a2a3",
    seed: int = 0,
    poison: bool = False,
    memory: str = "names",
    *,
    out: Path | str | None = None,
    engine: str = "embedded",
    progress: Progress = silent,
) -> DiffReport:
    """Runs a case's kernel on the inputs of `seed` and compares its outputs with the golden.

    `stage`: "frontend" runs the kernel as read, "lowered" as the lab's passes leave it, "pto" executes the `.pto` texts
    of its build as they lie on disk (in `out`, else in a folder that goes away again), "all" does the three; a stage
    that is refused does not hide the others. `engine` makes the build. `progress` is told what is being done.

    With `poison` the kernel runs again with other contents in every undefined cell; an output that changes is a leak.
    `memory` "addresses" runs tiles that have addresses where they lie, with a warning where that changes an output.
    Raises LabError: the kernel's own findings, what the one stage asked for refuses, E509 for an unknown choice.
    """
    check_stage(stage, arch)
    check_choice("engine", engine, ENGINES)
    subject = subject_of(case, seed, progress)
    runner = StageRunner(subject, arch, seed, poison, memory, out=out, engine=engine, progress=progress)
    runs = runner.all() if stage == "all" else (runner.run(stage),)
    return report_of(case.name, stage, arch, seed, runs)


def diff_build(
    case: Case, build: Build, seed: int = 0, poison: bool = False, *, progress: Progress = silent
) -> DiffReport:
    """Executes the `.pto` texts of a build folder on a case's inputs and compares with the golden.

    A run that cannot go on is reported (`refused`), not raised. Raises LabError for a kernel that cannot be read.
    """
    subject = subject_of(case, seed, progress)
    runner = StageRunner(subject, build.arch, seed, poison, engine=build.engine, progress=progress, made=build)
    return report_of(case.name, "pto", build.arch, seed, (runner.attempt("pto"),))


def report_of(name: str, stage: str, arch: str, seed: int, runs: tuple[StageRun, ...]) -> DiffReport:
    """The report of the stages that were run: one, or every stage for "all"."""
    stages = tuple(run.diff for run in runs)
    last = stages[-1]
    warnings = tuple(dict.fromkeys(warning for found in stages for warning in found.warnings))
    return DiffReport(
        name, stage, arch, seed, last.outputs, last.leaks, warnings, last.findings, last.executed, last.refused,
        stages if stage == "all" else (), last.build,
    )  # fmt: skip
