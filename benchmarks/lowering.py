"""What lowering the largest case costs, as a multiple of reading its last dump in the same process."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pypto_lab as lab
from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir.printer import print_program
from pypto_lab.lowering import lower

CASES = Path(__file__).parent.parent / "tests" / "data" / "kernels"
LIMIT = 20.0


def best(call: Callable[[], object], rounds: int) -> float:
    """The shortest of some runs, in seconds."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="?", type=Path, default=CASES, help="a directory of case directories")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    texts = {}
    programs = {}
    for path in sorted(options.cases.glob("*/kernel.py")):
        programs[path.parent.name] = lab.case(path).program()
        texts[path.parent.name] = print_program(lower(programs[path.parent.name]).program)
    largest = max(texts, key=lambda name: len(texts[name]))
    reading = best(lambda: read_dump(texts[largest]), options.rounds)
    lowering = best(lambda: lower(programs[largest]), options.rounds)
    ratio = lowering / reading
    print(f"{largest}: {len(texts[largest])} characters, {len(lower(programs[largest]).stages)} stages")
    print(f"reading the last dump {reading * 1e3:.1f} ms, lowering {lowering * 1e3:.1f} ms: {ratio:.1f} times")
    print(f"limit {LIMIT:.0f} times: {'ok' if ratio <= LIMIT else 'too slow'}")
    return 0 if ratio <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
