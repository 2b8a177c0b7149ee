"""`python -m pypto_lab.pto.inspection FOLDER...`: checks build folders, or all those below a folder of cases."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from pypto_lab.ir.diagnostics import LabError, Severity
from pypto_lab.pto.inspection.check import check_build


def folders(path: Path) -> Iterator[tuple[Path, Path | None]]:
    """(build folder, the last dump beside it): the folder itself, or those of cases below it."""
    cases = sorted(path.rglob("compiled_meta.json"))
    if not cases or path in (c.parent for c in cases):
        yield path, None
        return
    for meta in cases:
        suffix = meta.parent.name.removeprefix("artifacts")
        beside = sorted((meta.parent.parent / f"passes_explicit{suffix}").glob("[0-9][0-9]_*.py"))
        yield meta.parent, beside[-1] if beside else None


def main(argv: Sequence[str] | None = None) -> int:
    """The command: 0 without errors, 1 with some, 2 when something is no build folder."""
    parser = argparse.ArgumentParser(prog="python -m pypto_lab.pto.inspection", description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--quiet", action="store_true", help="only counts")
    options = parser.parse_args(argv)
    codes: Counter[str] = Counter()
    bad = total = 0
    for folder, dump in (pair for path in options.folders for pair in folders(path)):
        try:
            found = check_build(folder, dump=dump)
        except LabError as error:
            print(error, file=sys.stderr)
            return 2
        total += 1
        bad += any(d.severity is Severity.ERROR for d in found)
        codes.update(d.code for d in found)
        if not options.quiet:
            print(f"{folder}: {len(found)} findings")
            for finding in found:
                place = f"{finding.span.file}:{finding.span.line}: " if finding.span is not None else ""
                print(f"  {finding.code} {place}{finding.message}")
    shown = ", ".join(f"{code} {count}" for code, count in sorted(codes.items())) or "no findings"
    print(f"{total} build folders, {bad} with errors: {shown}")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
