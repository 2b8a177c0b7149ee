"""`python -m pypto_lab.pto.emit KERNELS_DIR`: emits every kernel below a folder of cases, from the compiler's last
dump or from what the lab's own passes make of its source, compares it with the compiler's own `.pto`, and runs what was
emitted against the golden."""

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
from pypto_lab.lowering import lower
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


SOURCES = ("dump", "kernel")
"""What is emitted: the compiler's last dump, or `kernel.py` after the lab's own passes."""


@dataclass(frozen=True, slots=True)
class Report:
    """What came of one build. `refused` is the message when it was not emitted; `run` is ok, mismatch or refused."""

    build: Build
    source: str
    refused: str = ""
    faults: tuple[str, ...] = ()
    """Texts that do not read back as they were printed, and what verification finds in them."""
    units: tuple[tuple[str, UnitComparison | None], ...] = ()
    """By name; None where the compiler made no such unit, or we made none of its."""
    run: str = "not run"
    message: str = ""
    findings: int = 0

    @property
    def compared(self) -> list[UnitComparison]:
        """The units both sides have."""
        return [c for _, c in self.units if c is not None]

    @property
    def complete(self) -> bool:
        """Whether both sides have the same units."""
        return bool(self.units) and all(c is not None for _, c in self.units)

    @property
    def same(self) -> bool:
        return self.complete and all(c.same for c in self.compared)

    @property
    def same_ops(self) -> bool:
        """Whether signatures, pipes and ops are the compiler's, wherever tiles lie."""
        return self.complete and all(c.signatures and c.pipes and c.same_ops for c in self.compared)


def builds(folder: Path) -> Iterator[Build]:
    """Builds below a folder that have both a dump and artifacts."""
    for case_file in sorted(folder.rglob("kernel.py")):
        for artifacts in sorted(case_file.parent.glob("artifacts*")):
            suffix = artifacts.name.removeprefix("artifacts")
            dumps = sorted((case_file.parent / f"passes_explicit{suffix}").glob("[0-9][0-9]_*.py"))
            if dumps:
                yield Build(case_file, dumps[-1], artifacts, suffix.removeprefix("_") or "a2a3")


def program_of(build: Build, source: str, seed: int) -> Program:
    """The lowered program of a build. Raises LabError where the dump cannot be read or the kernel not lowered."""
    if source == "dump":
        return read_dump(build.dump.read_text(encoding="utf-8"), build.dump.name)
    import pypto_lab as lab  # the public API: cases belong to a layer above

    case = lab.case(build.case_file)
    return lower(case.program(case.make_inputs(seed)), build.arch).program


def check(build: Build, seed: int = 0, target: Path | None = None, source: str = "dump") -> Report:
    """Emits a build below `target` (or a folder that is thrown away), compares and runs it."""
    if target is None:
        with tempfile.TemporaryDirectory() as made:
            return check(build, seed, Path(made), source)
    try:
        program = program_of(build, source, seed)
        paths = emit_to(program, target, build.arch)
    except LabError as error:
        return Report(build, source, f"{error.diagnostics[0].code}: {error.diagnostics[0].message}")
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
    return Report(build, source, "", tuple(faults), tuple(compared), status, message, findings)


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
    name = f"{report.build.name} from {report.source}"
    if report.refused:
        return f"{name}: REFUSED {report.refused}"
    known = report.compared
    words = [
        f"{len(report.units)} units",
        f"{sum(c.ops for c in known)} ops",
        "signatures same" if known and all(c.signatures for c in known) else "SIGNATURES DIFFER",
        "pipes same" if all(c.pipes for c in known) else "PIPES DIFFER",
        _ops_told(report),
        "order same" if all(c.same_order for c in known) else "order differs",
        f"run {report.run}" + (f" ({report.findings} findings)" if report.findings else ""),
    ]
    lines = [f"{name}: {', '.join(words)}{' - ' if report.message else ''}{report.message}"]
    lines += [f"    {fault}" for fault in report.faults]
    lines += [f"    {unit}: only one side has this unit" for unit, c in report.units if c is None]
    for unit, c in report.units:
        shown = () if c is None else c.differences if full else [d for d in c.differences if not d.placement][:6]
        lines += [f"    {unit}: {difference}"[: None if full else 300] for difference in shown]
    return "\n".join(lines)


def _ops_told(report: Report) -> str:
    other = sum(not d.placement for c in report.compared for d in c.differences)
    moved = sum(c.moved for c in report.compared)
    words = [f"{other} kinds of ops differ"] if other else []
    words += [f"{moved} tiles elsewhere"] if moved else []
    return " and ".join(words) or "ops same"


def markdown(reports: Sequence[Report]) -> str:
    """The comparison as a table: a row a build, a pair of columns a source."""
    sources = [source for source in SOURCES if any(r.source == source for r in reports)]
    head = ["kernel", "units", "ops", *(f"from the {source}: {what}" for source in sources for what in _COLUMNS)]
    rows = [head, ["---"] * len(head)]
    for name in dict.fromkeys(r.build.name for r in reports):
        own = {r.source: r for r in reports if r.build.name == name}
        sized = next((r for r in own.values() if not r.refused), None)
        counts = [""] * 2 if sized is None else [str(len(sized.units)), str(sum(c.ops for c in sized.compared))]
        rows.append([name, *counts, *(cell for source in sources for cell in _cells(own.get(source)))])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


_COLUMNS = ("signatures and pipes", "ops", "run")


def _cells(report: Report | None) -> tuple[str, ...]:
    if report is None or report.refused:
        return "", "" if report is None else f"refused ({report.refused.partition(':')[0]})", ""
    alike = report.complete and all(c.signatures and c.pipes for c in report.compared)
    return "same" if alike else "DIFFER", _ops_told(report).removeprefix("ops "), report.run


def main(argv: Sequence[str] | None = None) -> int:
    """The command. 0 when all that is emitted reads back, is valid and computes the golden; 1 otherwise, 2 without
    any build."""
    parser = argparse.ArgumentParser(prog="python -m pypto_lab.pto.emit", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="builds whose name contains this")
    parser.add_argument("--source", choices=(*SOURCES, "both"), default="dump", help="what is emitted")
    parser.add_argument("--table", action="store_true", help="print the comparison as one table at the end")
    parser.add_argument("--full", action="store_true", help="print differences in full")
    parser.add_argument("--out", type=Path, help="keep what is emitted below this folder")
    options = parser.parse_args(argv)
    reports = []
    for build in builds(options.folder):
        if options.only not in build.name:
            continue
        for source in SOURCES if options.source == "both" else (options.source,):
            target = None if options.out is None else options.out / source / build.name
            report = check(build, options.seed, target, source)
            reports.append(report)
            if not options.table:
                print(show(report, full=options.full), flush=True)
    if not reports:
        print(f"no build with a dump and artifacts below {options.folder}", file=sys.stderr)
        return 2
    if options.table:
        print(markdown(reports))
    emitted = [r for r in reports if not r.refused]
    valid = sum(not r.faults for r in emitted)
    right = sum(r.run == "ok" for r in emitted)
    print(f"emitted: {len(emitted)} of {len(reports)} builds; {valid} of {len(emitted)} read back and verify")
    same, alike = sum(r.same for r in emitted), sum(r.same_ops for r in emitted)
    print(
        f"compared: {alike} of {len(emitted)} have the compiler's signatures, pipes and ops, {same} of them with every "
        "tile where the compiler puts it"
    )
    print(f"runs: {right} of {len(emitted)} compute the golden (.pto interpreted by pypto_lab, not ptoas, not device)")
    return 0 if right == len(emitted) == valid else 1


if __name__ == "__main__":
    raise SystemExit(main())
