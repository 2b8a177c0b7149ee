"""`python -m pypto_lab.pto.mutations FOLDER`: changes one place after the other in the emitted texts of the kernels
below a folder, and prints how many changes of meaning are noticed, and by whom."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pypto_lab.ir.diagnostics import LabError
from pypto_lab.pto.mutations.measure import measure, subject, table


def main(argv: Sequence[str] | None = None) -> int:
    """The command. 0 when 95 of 100 changes of meaning are noticed, 1 when fewer are, 2 without any kernel."""
    parser = argparse.ArgumentParser(prog="python -m pypto_lab.pto.mutations", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=100, help="changes of meaning to make")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--arch", default="a2a3")
    parser.add_argument("--only", default="", help="kernels whose folder's name contains this")
    parser.add_argument("--all", action="store_true", help="print every change, not only those nobody noticed")
    options = parser.parse_args(argv)
    subjects = []
    for case_file in sorted(options.folder.rglob("kernel.py")):
        if options.only in case_file.parent.name:
            try:
                subjects.append(subject(case_file, options.arch))
            except LabError as error:
                print(f"{case_file.parent.name} is left out: {error.diagnostics[0].message}", file=sys.stderr)
    if not subjects:
        print(f"no kernel.py below {options.folder} that can be emitted", file=sys.stderr)
        return 2
    trials = measure(subjects, options.count, options.seed)
    for made in trials:
        if options.all or (made.kept is None and made.noticed is None):
            print(made)
    print(table(trials))
    changing = [t for t in trials if t.kept is None]
    return 0 if sum(t.noticed is not None for t in changing) >= 0.95 * len(changing) else 1


if __name__ == "__main__":
    raise SystemExit(main())
