"""Every stage of a lowering is sound, prints, reads back and computes the golden. As a program,
`python -m pypto_lab.numerics.lowered_check FOLDER` checks every case file below a folder on both architectures."""

from __future__ import annotations

import argparse
import fnmatch
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.ir.equal import first_difference
from pypto_lab.ir.printer import print_program
from pypto_lab.lowering import Lowered, Stage, lower
from pypto_lab.numerics.case import Case, Values
from pypto_lab.numerics.diff import ARCHITECTURES, run_outputs

ADDRESSED = 35
"""The pass after which tiles have addresses: from there on a stage also runs with its tiles where they lie."""
CASE_FILE = "kernel.py"


@dataclass(frozen=True, slots=True)
class Failure:
    """What does not hold, and of which stage: the dump's file name, `lowering` for a kernel that is refused, `pto`
    for the emitted text."""

    stage: str
    message: str


@dataclass(frozen=True, slots=True)
class LoweringCheck:
    """One case on one architecture. `ran` counts the stages whose text differs from the stage before: those were
    run, the others are the same program. `pto` is None when the emitted text was not asked for."""

    case: str
    arch: str
    stages: int
    ran: int
    failures: tuple[Failure, ...] = ()
    pto: bool | None = None
    seconds: float = 0.0

    @property
    def right(self) -> int:
        """Stages without a failure."""
        return self.stages - len({f.stage for f in self.failures} - {"lowering", "pto"})

    @property
    def ok(self) -> bool:
        return not self.failures


def check_lowering(case: Case, arch: str = "a2a3", seed: int = 0, *, pto: bool = False) -> LoweringCheck:
    """Lowers a case for `arch` and checks every stage on the inputs of `seed`; with `pto` the emitted text, too.

    A stage is right when the verifier finds nothing, its text reads back to a structurally equal program that prints
    the same text, and that program computes the golden; from pass 35 on at the addresses of its tiles as well. What
    the passes refuse is a failure of the check, never an exception.
    """
    begin = time.perf_counter()
    values = case.make_inputs(seed)
    expected = case.expected(values)
    try:
        lowered = lower(case.program(values), arch)
    except LabError as error:
        return LoweringCheck(case.name, arch, 0, 0, (Failure("lowering", _headline(error)),))
    failures: list[Failure] = []
    ran = 0
    before: Stage | None = None
    wrong: list[str] = []
    for stage in lowered.stages:
        messages, program = _readable(stage)
        if before is None or stage.text != before.text or _memories(stage) != _memories(before):
            ran += 1
            wrong = [] if program is None else _wrong_outputs(case, program, _memories(stage), arch, values, expected)
        failures += [Failure(stage.file_name, message) for message in (*messages, *wrong)]
        before = stage
    emitted = None
    if pto:
        found = _wrong_pto(case, lowered, values, expected)
        failures += [Failure("pto", message) for message in found]
        emitted = not found
    seconds = time.perf_counter() - begin
    return LoweringCheck(case.name, arch, len(lowered.stages), ran, tuple(failures), emitted, seconds)


def _memories(stage: Stage) -> tuple[str, ...]:
    """The ways a stage is run."""
    return ("names", "addresses") if stage.number >= ADDRESSED else ("names",)


def _readable(stage: Stage) -> tuple[list[str], n.Program | None]:
    """What is wrong with a stage and its text, and the program its text reads as."""
    wrong = [f"{d.code} {d.message}" for d in stage.findings]
    try:
        program = read_dump(stage.text, stage.file_name)
    except LabError as error:
        return [*wrong, f"does not read back: {_headline(error)}"], None
    difference = first_difference(stage.program, program, memrefs=True)
    if difference is not None:
        wrong.append(f"reads back as another program: {difference}")
    elif print_program(program) != stage.text:
        wrong.append("prints differently once it is read back")
    wrong += [f"reads back with a note: {note.message}" for note in program.notes]
    return wrong, program


def _wrong_outputs(
    case: Case, program: n.Program, memories: Iterable[str], arch: str, values: Values, expected: Values
) -> list[str]:
    """What a program computes that the golden does not, for each way to run it."""
    found = []
    for memory in memories:
        how = f"by {memory}: "
        try:
            outputs = run_outputs(program, values, expected, memory=memory, arch=arch)
        except LabError as error:
            found.append(how + _headline(error))
        except Exception as error:  # a stage that breaks the lab itself is a row, not the end of the check
            found.append(f"{how}{type(error).__name__}: {error}")
        else:
            found += [how + text for text in _different(case, outputs, values, expected)]
    return found


def _different(case: Case, outputs: Values, values: Values, expected: Values) -> Iterator[str]:
    for name in expected:
        comparison = case.compare(name, outputs, expected, values)
        if not comparison.ok:
            yield f"{name}: {comparison.message}"


def _wrong_pto(case: Case, lowered: Lowered, values: Values, expected: Values) -> list[str]:
    """Emits the last stage, runs the text on disk, and says what is wrong with either."""
    from pypto_lab.pto.emit import emit_to
    from pypto_lab.pto.machine.build import run_build

    try:
        with tempfile.TemporaryDirectory() as folder:
            emit_to(lowered.program, folder, lowered.arch)
            result = run_build(folder, values, program=lowered.program)
    except LabError as error:
        return [_headline(error)]
    except Exception as error:  # as for a stage
        return [f"{type(error).__name__}: {error}"]
    outputs = {name.partition("__ssa_v")[0]: value for name, value in result.outputs.items()}
    return [*(f"{f.code} {f.message}" for f in result.findings), *_different(case, outputs, values, expected)]


def _headline(error: LabError) -> str:
    return "; ".join(f"{d.code} {d.message}" + (f" ({d.span})" if d.span else "") for d in error.diagnostics)


# --- the command ------------------------------------------------------------------------------------------------------


def case_files(folder: Path, pattern: str = "*") -> list[Path]:
    """Case files below a folder whose case name (the folder they are in) matches a pattern; or the file itself."""
    files = [folder] if folder.is_file() else sorted(folder.rglob(CASE_FILE))
    return [f for f in files if fnmatch.fnmatch(f.parent.name, pattern)]


Job = tuple[Path, str, int, bool]


def _check_file(job: Job) -> LoweringCheck:
    import pypto_lab as lab  # the public API: this module is a command, and cases belong to a layer above

    torch.set_num_threads(1)
    path, arch, seed, pto = job
    try:
        return check_lowering(lab.case(path), arch, seed, pto=pto)
    except LabError as error:
        return LoweringCheck(path.parent.name, arch, 0, 0, (Failure("lowering", _headline(error)),))


def check_files(
    jobs: Sequence[Job], workers: int = 1, progress: Callable[[LoweringCheck], None] | None = None
) -> list[LoweringCheck]:
    """Checks each (file, arch, seed, pto) in order, in `workers` processes."""
    found = []
    if workers > 1:
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            for check in pool.map(_check_file, jobs):
                found.append(check)
                if progress is not None:
                    progress(check)
        return found
    for job in jobs:
        found.append(_check_file(job))
        if progress is not None:
            progress(found[-1])
    return found


def row(check: LoweringCheck, width: int = 0) -> str:
    """A line for one check, its failures below."""
    pto = "" if check.pto is None else "  .pto right" if check.pto else "  .pto WRONG"
    state = f"{check.right} of {check.stages} stages" if check.stages else "refused"
    line = f"{check.case:<{width}}  {check.arch:<4}  {state}, {check.ran} differ and ran, {check.seconds:.1f} s{pto}"
    return "\n".join([line, *(f"    {f.stage}: {f.message}" for f in check.failures)])


def total(checks: Sequence[LoweringCheck]) -> str:
    """The last lines of the table."""
    right, stages = sum(c.right for c in checks), sum(c.stages for c in checks)
    lines = [f"{right} of {stages} stages verify, print, read back and compute the golden"]
    refused = sum(not c.stages for c in checks)
    if refused:
        lines.append(f"{refused} of {len(checks)} lowerings refused")
    emitted = [c.pto for c in checks if c.pto is not None]
    if emitted:
        lines.append(f"{sum(emitted)} of {len(emitted)} emitted .pto texts compute the golden (interpreted, no device)")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 when every stage is right, 1 when one is not, 2 for a folder without cases."""
    parser = argparse.ArgumentParser(prog="python -m pypto_lab.numerics.lowered_check", description=__doc__)
    parser.add_argument("folder", type=Path, help="a folder of case folders, or one case file")
    parser.add_argument("--arch", choices=(*ARCHITECTURES, "both"), default="both")
    parser.add_argument("--case", default="*", metavar="GLOB", help="only cases whose folder has such a name")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pto", action="store_true", help="also emit .pto texts and run them")
    parser.add_argument("--workers", type=int, default=1, help="processes that share the cases")
    options = parser.parse_args(arguments)
    files = case_files(options.folder, options.case)
    if not files:
        print(f"no {CASE_FILE} of such a name below {options.folder}", file=sys.stderr)
        return 2
    archs = ARCHITECTURES if options.arch == "both" else (options.arch,)
    width = max(len(f.parent.name) for f in files)
    jobs = [(file, arch, options.seed, options.pto) for file in files for arch in archs]
    checks = check_files(jobs, options.workers, lambda check: print(row(check, width), flush=True))
    print(total(checks))
    return 0 if all(c.ok for c in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
