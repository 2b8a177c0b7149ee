"""`python -m pypto_lab.compat.builds DIR`: reads every `.pto` below a folder of cases and runs every build against its
golden."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pypto_lab.compat.cases import case
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.pto.machine.build import run_build
from pypto_lab.pto.parse import parse, read
from pypto_lab.pto.printing import print_unit


@dataclass(frozen=True, slots=True)
class TextCheck:
    """One `.pto` file: whether it reads, comes out of the printer as it went in, and is a fixpoint."""

    path: Path
    fixpoint: bool
    identical: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class RunCheck:
    """One build folder of a case: `ok`, `mismatch`, or `refused` (its text is not valid, or a run cannot go on)."""

    path: Path
    status: str
    message: str
    findings: tuple[str, ...] = ()


def check_text(path: Path) -> TextCheck:
    """Reads and prints a file."""
    try:
        unit = read(path)
        printed = print_unit(unit)
        return TextCheck(path, print_unit(parse(printed, str(path))) == printed, printed == unit.text)
    except LabError as error:
        return TextCheck(path, False, False, error.diagnostics[0].message)


def builds(folder: Path) -> Iterator[tuple[Path, Path]]:
    """(case file, build folder) of every case below a folder."""
    for case_file in sorted(folder.rglob("kernel.py")):
        for build in sorted(case_file.parent.iterdir()):
            if build.is_dir() and any(build.rglob("*.pto")):
                yield case_file, build


def check_build(case_file: Path, build: Path, seed: int = 0) -> RunCheck:
    """Runs a build on its case's inputs and compares with the golden."""
    try:
        made = case(case_file)
        values = made.make_inputs(seed)
        expected = made.expected(values)
        result = run_build(build, values, seed=seed)
    except LabError as error:
        return RunCheck(build, "refused", error.diagnostics[0].render().splitlines()[0])
    outputs = {name.partition("__ssa_v")[0]: value for name, value in result.outputs.items()}
    bad = []
    for name in expected:
        comparison = made.compare(name, outputs, expected, values)
        if not comparison.ok:
            bad.append(f"{name}: {comparison.message}")
    findings = tuple(str(found) for found in result.findings)
    return RunCheck(build, "mismatch" if bad else "ok", "; ".join(bad), findings)


def main(argv: Sequence[str] | None = None) -> int:
    """The command. 0 when every text is a fixpoint and every run right, 1 otherwise, 2 without any `.pto`."""
    parser = argparse.ArgumentParser(prog="python -m pypto_lab.compat.builds", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--findings", action="store_true", help="print findings in full")
    options = parser.parse_args(argv)
    texts = [check_text(path) for path in sorted(options.folder.rglob("*.pto"))]
    if not texts:
        print(f"no .pto below {options.folder}", file=sys.stderr)
        return 2
    for text in texts:
        if not text.fixpoint:
            print(f"{text.path.relative_to(options.folder)}: {text.message or 'no fixpoint'}")
    runs = []
    for case_file, build in builds(options.folder):
        run = check_build(case_file, build, options.seed)
        runs.append(run)
        note = f", {len(run.findings)} findings" if run.findings else ""
        print(f"{run.path.relative_to(options.folder)}: {run.status}{note}{' - ' if run.message else ''}{run.message}")
        if options.findings:
            print("\n".join(run.findings))
    fixpoints, right = sum(t.fixpoint for t in texts), sum(r.status == "ok" for r in runs)
    print(
        f"texts: {fixpoints} of {len(texts)} reach the print/parse fixpoint, "
        f"{sum(t.identical for t in texts)} byte for byte"
    )
    print(
        f"runs: {right} of {len(runs)} builds compute the golden (.pto interpreted by pypto_lab, not ptoas, not device)"
    )
    return 0 if fixpoints == len(texts) and right == len(runs) else 1


if __name__ == "__main__":
    raise SystemExit(main())
