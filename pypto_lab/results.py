"""Runs a kernel and gathers all that a report shows: comparison, error maps, facts of the outputs, script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pypto_lab.cell import Plan, UserMistake
from pypto_lab.ir.diagnostics import Diagnostic
from pypto_lab.ir.nodes import Program
from pypto_lab.numerics.case import Case, clone
from pypto_lab.numerics.compare import Comparison, compare
from pypto_lab.numerics.diff import DiffReport, OutputDiff, at_stage, check_stage, find_leaks
from pypto_lab.numerics.metrics import widen
from pypto_lab.numerics.where import as_matrix
from pypto_lab.record.recorder import record
from pypto_lab.torch_codegen.execute import RunResult, run
from pypto_lab.view.heat import ErrorMap
from pypto_lab.view.report import OutputFacts, Result
from pypto_lab.view.workbench import Workbench

MAP_ROWS, MAP_COLUMNS = 48, 96
"""The largest error map; larger outputs are shown by the worst cell of each block."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to run: up to which stage, for which architecture, with which seed and checks; `step` records the run."""

    stage: str = "frontend"
    arch: str = "a2a3"
    seed: int = 0
    check_shapes: bool = False
    poison: bool = False
    step: bool = False

    def check(self) -> None:
        """Raises LabError for a stage or architecture that does not exist or is not built yet."""
        check_stage(self.stage, self.arch)


def run_plan(plan: Plan, options: Options) -> Result:
    """Runs what a cell asks for. Raises LabError with the run's findings, UserMistake for outputs that do not exist."""
    options.check()
    program = at_stage(plan.program, options.stage, options.arch)
    ran, outputs = _run(program, plan.values, options)
    compared = {
        name: compare(_output(outputs, name), expected, rtol=plan.rtol, atol=plan.atol)
        for name, expected in (plan.expected or {}).items()
    }
    return _gathered(plan.name, program, plan.values, plan.expected, ran, outputs, compared, options, plan.choices)


def run_case(case: Case, options: Options | None = None) -> Result:
    """Runs a case on the inputs of the seed against its golden. Raises LabError as :func:`run_plan` does."""
    options = Options() if options is None else options
    options.check()
    values = case.make_inputs(options.seed)
    program = at_stage(case.program(values), options.stage, options.arch)
    expected = case.expected(values)
    ran, outputs = _run(program, values, options)
    wanted = {name: _output(outputs, name) for name in expected}
    compared = {name: case.compare(name, wanted, expected, values) for name in expected}
    return _gathered(case.name, program, values, expected, ran, outputs, compared, options, ())


def _run(program: Program, values: Mapping[str, Any], options: Options) -> tuple[RunResult, dict[str, Any]]:
    ran = run(program, clone(values), seed=options.seed, check_shapes=options.check_shapes)
    return ran, {name.split("__ssa_v")[0]: tensor for name, tensor in ran.outputs.items()}


def _output(outputs: Mapping[str, Any], name: str) -> Any:
    if name not in outputs:
        raise UserMistake(f"the kernel has no output `{name}`; its outputs are {', '.join(outputs) or 'none'}")
    return outputs[name]


def _gathered(
    name: str,
    program: Program,
    values: Mapping[str, Any],
    expected: Mapping[str, Any] | None,
    ran: RunResult,
    outputs: dict[str, Any],
    compared: Mapping[str, Comparison],
    options: Options,
    choices: tuple[str, ...],
) -> Result:
    leaks = find_leaks(program, values, outputs, options.seed) if options.poison else None
    notes = (note for note in program.notes if isinstance(note, Diagnostic))
    warnings = tuple(note.render(program.sources) for note in notes)
    diffs = tuple(OutputDiff(output, comparison) for output, comparison in compared.items())
    report = None
    if expected is not None or leaks is not None:
        report = DiffReport(name, options.stage, options.arch, options.seed, diffs, leaks, warnings)
    bench = None
    if options.step:
        recording = record(program, values, seed=options.seed, check_shapes=options.check_shapes)
        bench = Workbench(recording, report=report, expected=expected, program=program, title=name)
    return Result(
        name=name,
        program=program,
        script=ran.script,
        report=report,
        outputs=outputs,
        facts=tuple(facts(output, value) for output, value in outputs.items()),
        maps=tuple(
            error_map(diff.name, outputs[diff.name], (expected or {})[diff.name], diff.comparison)
            for diff in diffs
            if not diff.ok and diff.comparison.problem is None and outputs[diff.name].numel() > 1
        ),
        choices=choices,
        stage=options.stage,
        arch=options.arch,
        seed=options.seed,
        workbench=bench,
    )


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
