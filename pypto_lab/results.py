"""Runs a kernel and gathers all that a report shows: comparison, error maps, facts of the outputs, script."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pypto_lab.cell import Plan
from pypto_lab.numerics.case import Case
from pypto_lab.numerics.compare import Comparison, compare
from pypto_lab.numerics.compiling import check_choice
from pypto_lab.numerics.diff import DiffReport, report_of
from pypto_lab.numerics.metrics import widen
from pypto_lab.numerics.stages import StageRun, StageRunner, Subject, check_stage, chosen_stage, subject_of
from pypto_lab.numerics.where import as_matrix
from pypto_lab.pto.build import ENGINES
from pypto_lab.pto.embedded import Progress, silent
from pypto_lab.view.heat import ErrorMap
from pypto_lab.view.report import OutputFacts, Result
from pypto_lab.view.workbench import Workbench, watched

MAP_ROWS, MAP_COLUMNS = 48, 96
"""The largest error map; larger outputs are shown by the worst cell of each block."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to run: up to which stage, for which architecture, with which seed and checks; `step` records the run.

    `out` keeps the build of the stage `pto` and `engine` makes it; without a `stage` either of them means `pto`.
    """

    stage: str | None = None
    arch: str = "a2a3"
    seed: int = 0
    check_shapes: bool = False
    poison: bool = False
    step: bool = False
    out: Path | str | None = None
    engine: str | None = None

    @property
    def wanted(self) -> str:
        """The stage that is run. Raises LabError E509 for options that do not go together."""
        return chosen_stage(self.stage, self.out, self.engine)

    def check(self) -> None:
        """Raises LabError for a stage, architecture or engine that does not exist, and options that do not fit."""
        check_stage(self.wanted, self.arch)
        check_choice("engine", self.engine or ENGINES[0], ENGINES)


Display = Callable[[Any], Any]
"""Shows something that a notebook can render while the cell still runs."""


def run_plan(plan: Plan, options: Options, progress: Progress = silent, display: Display | None = None) -> Result:
    """Runs what a cell asks for. A recorded run that takes a while is shown with `display` as it goes on.

    Raises LabError with the run's findings, and for outputs that do not exist.
    """
    expected = plan.expected or {}

    def judge(name: str, outputs: Mapping[str, Any]) -> Comparison:
        return compare(outputs[name], expected[name], rtol=plan.rtol, atol=plan.atol)

    options.check()
    subject = Subject(plan.name, plan.program, plan.values, plan.expected, judge)
    return _result(subject, options, plan.choices, progress, display)


def run_case(case: Case, options: Options | None = None, progress: Progress = silent) -> Result:
    """Runs a case on the inputs of the seed against its golden. Raises LabError as :func:`run_plan` does."""
    options = Options() if options is None else options
    options.check()
    return _result(subject_of(case, options.seed, progress), options, (), progress)


def _result(
    subject: Subject,
    options: Options,
    choices: tuple[str, ...],
    progress: Progress,
    display: Display | None = None,
) -> Result:
    stage = options.wanted
    compiles = stage in ("pto", "all")
    runner = StageRunner(
        subject, options.arch, options.seed, options.poison, check_shapes=options.check_shapes,
        out=(options.out or _scratch() / "build") if compiles else None,
        engine=options.engine or ENGINES[0], progress=progress,
    )  # fmt: skip
    runs = runner.all() if stage == "all" else (runner.run(stage),)
    report = None
    if subject.expected is not None or options.poison or any(run.diff.refused for run in runs):
        report = report_of(subject.name, stage, options.arch, options.seed, runs)
    shown = next((run for run in reversed(runs) if not run.diff.refused), runs[-1])
    outputs, diffs = dict(shown.outputs), shown.diff.outputs
    return Result(
        name=subject.name,
        program=subject.program if shown.program is None else shown.program,
        script=shown.script,
        report=report,
        outputs=outputs,
        facts=tuple(facts(output, value) for output, value in outputs.items()),
        maps=tuple(
            error_map(diff.name, outputs[diff.name], (subject.expected or {})[diff.name], diff.comparison)
            for diff in diffs
            if not diff.ok and diff.comparison.problem is None and outputs[diff.name].numel() > 1
        ),
        choices=choices,
        stage=stage,
        arch=options.arch,
        seed=options.seed,
        workbench=_bench(subject, shown, report, options, progress, display) if options.step else None,
        build=shown.diff.build,
        executed=shown.diff.executed,
        findings=shown.diff.findings,
    )


def _bench(
    subject: Subject,
    shown: StageRun,
    report: DiffReport | None,
    options: Options,
    progress: Progress,
    display: Display | None,
) -> Workbench:
    """The workbench of a recorded run of the stage that is shown."""
    progress("recording")
    build, program = shown.diff.build, subject.program if shown.program is None else shown.program
    source, how = (program, {"check_shapes": options.check_shapes}) if build is None else (build.path, _of_build())
    recording, _ = watched(source, subject.values, display=display, title=subject.name, seed=options.seed, **how)
    return Workbench(
        recording, report=report, expected=subject.expected, program=program, title=subject.name, build=build,
        lowered=shown.lowered, checks=shown.diff.findings, arch=options.arch,
    )  # fmt: skip


def _of_build() -> dict[str, Any]:
    from pypto_lab.record.pto_steps import record_build

    return {"recorder": record_build}


_SCRATCH: list[tempfile.TemporaryDirectory[str]] = []
"""Folders of builds that nobody asked to keep; they go away when Python ends."""


def _scratch() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="pypto_lab_build_")
    _SCRATCH.append(folder)
    return Path(folder.name)


def facts(name: str, value: Any) -> OutputFacts:
    """Range and mean of a tensor's finite cells, and how many are not finite."""
    dtype, shape, cells = str(value.dtype).removeprefix("torch."), tuple(value.shape), widen(value)
    finite, nan, infinite = cells[cells.isfinite()], int(cells.isnan().sum()), int(cells.isinf().sum())
    if finite.numel() == 0:
        return OutputFacts(name, shape, dtype, None, None, None, nan, infinite)
    low, high, mean = finite.min().item(), finite.max().item(), finite.mean().item()
    return OutputFacts(name, shape, dtype, low, high, mean, nan, infinite)


def error_map(name: str, actual: Any, expected: Any, found: Comparison) -> ErrorMap:
    """Signed errors in tolerances on a grid of at most MAP_ROWS x MAP_COLUMNS blocks, the worst cell for each block.

    Leading axes are put under each other; a vector is one row.
    """
    got, want = as_matrix(widen(actual)), as_matrix(widen(expected))
    tolerance = found.atol + found.rtol * want.abs()
    error = (got - want) / tolerance.clamp_min(1e-300)
    error[(got == want) | (got.isnan() & want.isnan())] = 0.0
    rows, columns = error.shape
    tall, wide = -(-rows // MAP_ROWS), -(-columns // MAP_COLUMNS)
    grid = tuple(
        tuple(_worst(error[r : r + tall, c : c + wide]) for c in range(0, columns, wide)) for r in range(0, rows, tall)
    )
    return ErrorMap(name, grid, rows, columns)


def _worst(block: Any) -> float:
    """The cell of a block that is farthest off; NaN when one is NaN."""
    cells = block.flatten()
    if bool(cells.isnan().any()):
        return float("nan")
    return float(cells[cells.abs().argmax()])
