"""`python -m pypto_lab.pto.orchestration KERNELS_DIR`: writes the orchestration of every kernel below a folder of
cases from the compiler's last dump, and compares it with the compiler's own file by the runtime's calls in it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.pto.orchestration import orchestration
from pypto_lab.pto.orchestration.compare import differences


def pairs(folder: Path) -> Iterator[tuple[Path, Path, str]]:
    """(last dump, the compiler's orchestration file, architecture) of each build below a folder."""
    for theirs in sorted(folder.rglob("artifacts*/orchestration/*.cpp")):
        artifacts = theirs.parent.parent
        suffix = artifacts.name.removeprefix("artifacts")
        dumps = sorted((artifacts.parent / f"passes_explicit{suffix}").glob("[0-9][0-9]_*.py"))
        if dumps:
            yield dumps[-1], theirs, suffix.removeprefix("_") or "a2a3"


def main(argv: Sequence[str] | None = None) -> int:
    """The command: 0 when every file makes the same calls, 1 otherwise, 2 without any."""
    parser = argparse.ArgumentParser(prog="python -m pypto_lab.pto.orchestration", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="kernels whose path contains this")
    options = parser.parse_args(argv)
    same = total = 0
    for dump, theirs, arch in pairs(options.folder):
        if options.only not in str(theirs):
            continue
        total += 1
        name = f"{theirs.parent.parent.parent.name}/{arch}"
        try:
            program = read_dump(dump.read_text(encoding="utf-8"), dump.name)
            found = differences(orchestration(program, arch), theirs.read_text(encoding="utf-8"))
        except LabError as error:
            found = [str(error)]
        same += not found
        print(f"{name}: {'same calls' if not found else 'DIFFERS'}")
        for line in found:
            print(f"    {line}")
    if not total:
        print(f"no build with a dump and an orchestration below {options.folder}", file=sys.stderr)
        return 2
    print(f"orchestration: {same} of {total} make the compiler's calls in its order, with its arguments")
    return 0 if same == total else 1


if __name__ == "__main__":
    raise SystemExit(main())
