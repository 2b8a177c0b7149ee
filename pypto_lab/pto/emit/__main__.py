"""`python -m pypto_lab.pto.emit KERNELS_DIR`: emits every kernel below a folder of cases from the compiler's last dump,
compares it with the compiler's own `.pto`, and runs what was emitted against the golden."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.ir.nodes import Program
from pypto_lab.pto.dialect.verify import verify
from pypto_lab.pto.emit import emit_to
from pypto_lab.pto.emit.compare import UnitComparison, compare
from pypto_lab.pto.machine.build import run_build
from pypto_lab.pto.parse import read
from pypto_lab.pto.printing import print_unit


@dataclass(frozen=True, slots=True)
class Build:
    """One build of a case: its last dump, and the folder of what the compiler made of it."""

    case_file: Path
    dump: Path
    artifacts: Path
    arch: str

    @property
    def name(self) -> str:
        return f"{self.case_file.parent.name}/{self.arch}"


@dataclass(frozen=True, slots=True)
class Report:
    """What came of one build. `refused` is the message when it was not emitted; `run` is ok, mismatch or refused."""

    build: Build
    refused: str = ""
    faults: tuple[str, ...] = ()
    """Texts that do not read back as they were printed, and what verification finds in them."""
    units: tuple[tuple[str, UnitComparison | None], ...] = ()
    """By name; None where the compiler made no such unit, or we made none of its."""
    run: str = "not run"
    message: str = ""
    findings: int = 0

    @property
    def same(self) -> bool:
        return bool(self.units) and all(c is not None and c.same for _, c in self.units)


def builds(folder: Path) -> Iterator[Build]:
    """Builds below a folder that have both a dump and artifacts."""
    for case_file in sorted(folder.rglob("kernel.py")):
        for artifacts in sorted(case_file.parent.glob("artifacts*")):
            suffix = artifacts.name.removeprefix("artifacts")
            dumps = sorted((case_file.parent / f"passes_explicit{suffix}").glob("[0-9][0-9]_*.py"))
            if dumps:
                yield Build(case_file, dumps[-1], artifacts, suffix.removeprefix("_") or "a2a3")


def check(build: Build, seed: int = 0, target: Path | None = None) -> Report:
    """Emits a build below `target` (or a folder that is thrown away), compares and runs it."""
    if target is None:
        with tempfile.TemporaryDirectory() as made:
            return check(build, seed, Path(made))
    text = build.dump.read_text(encoding="utf-8")
    try:
        program = read_dump(text, build.dump.name)
        paths = emit_to(program, target, build.arch)
    except LabError as error:
        return Report(build, f"{error.diagnostics[0].code}: {error.diagnostics[0].message}")
    theirs = {path.stem: path for path in build.artifacts.rglob("*.pto")}
    ours = {path.stem: path for path in paths}
    compared: list[tuple[str, UnitComparison | None]] = []
    faults: list[str] = []
    for name in sorted(theirs | ours):
        both = name in theirs and name in ours
        compared.append((name, compare(read(ours[name]), read(theirs[name])) if both else None))
    for name, path in ours.items():
        unit = read(path)
        if print_unit(unit) != unit.text:
            faults.append(f"{name}: reads back differently")
        faults += [f"{name}: {d.code} {d.message}" for d in verify(unit)]
    status, message, findings = _run(build, program, target, seed)
    return Report(build, "", tuple(faults), tuple(compared), status, message, findings)


def _run(build: Build, program: Program, target: Path, seed: int) -> tuple[str, str, int]:
    """Runs the emitted folder on the case's inputs: (status, message, number of findings)."""
    import pypto_lab as lab  # the public API: this module is a command, and cases belong to a layer above

    try:
        case = lab.case(build.case_file)
        values = case.make_inputs(seed)
        expected = case.expected(values)
        result = run_build(target, values, program=program, seed=seed)
    except LabError as error:
        return "refused", error.diagnostics[0].render().splitlines()[0], 0
    outputs = {name.partition("__ssa_v")[0]: value for name, value in result.outputs.items()}
    comparisons = [(name, case.compare(name, outputs, expected, values)) for name in expected]
    bad = [f"{name}: {c.message}" for name, c in comparisons if not c.ok]
    return ("mismatch" if bad else "ok"), "; ".join(bad), len(result.findings)


def show(report: Report, *, full: bool) -> str:
    """A line for the build, and its differences."""
    if report.refused:
        return f"{report.build.name}: REFUSED {report.refused}"
    known = [c for _, c in report.units if c is not None]
    words = [
        f"{len(report.units)} units",
        f"{sum(c.ops for c in known)} ops",
        "signatures same" if known and all(c.signatures for c in known) else "SIGNATURES DIFFER",
        "pipes same" if all(c.pipes for c in known) else "PIPES DIFFER",
        "ops same" if report.same else f"{sum(len(c.differences) for c in known)} kinds of ops differ",
        "order same" if all(c.same_order for c in known) else "order differs",
        f"run {report.run}" + (f" ({report.findings} findings)" if report.findings else ""),
    ]
    lines = [f"{report.build.name}: {', '.join(words)}{' - ' if report.message else ''}{report.message}"]
    lines += [f"    {fault}" for fault in report.faults]
    lines += [f"    {name}: only one side has this unit" for name, c in report.units if c is None]
    for name, c in report.units:
        shown = () if c is None else c.differences if full else c.differences[:6]
        lines += [f"    {name}: {difference}"[: None if full else 300] for difference in shown]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """The command. 0 when all that is emitted reads back, is valid and computes the golden; 1 otherwise, 2 without
    any build."""
    parser = argparse.ArgumentParser(prog="python -m pypto_lab.pto.emit", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="builds whose name contains this")
    parser.add_argument("--full", action="store_true", help="print differences in full")
    parser.add_argument("--out", type=Path, help="keep what is emitted below this folder")
    options = parser.parse_args(argv)
    reports = []
    for build in builds(options.folder):
        if options.only not in build.name:
            continue
        target = None if options.out is None else options.out / build.name
        report = check(build, options.seed, target)
        reports.append(report)
        print(show(report, full=options.full), flush=True)
    if not reports:
        print(f"no build with a dump and artifacts below {options.folder}", file=sys.stderr)
        return 2
    emitted = [r for r in reports if not r.refused]
    valid = sum(not r.faults for r in emitted)
    right = sum(r.run == "ok" for r in emitted)
    print(f"emitted: {len(emitted)} of {len(reports)} builds; {valid} of {len(emitted)} read back and verify")
    print(f"compared: {sum(r.same for r in emitted)} of {len(emitted)} have the compiler's signatures, pipes and ops")
    print(f"runs: {right} of {len(emitted)} compute the golden (.pto interpreted by pypto_lab, not ptoas, not device)")
    return 0 if right == len(emitted) == valid else 1


if __name__ == "__main__":
    raise SystemExit(main())
