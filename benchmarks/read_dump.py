"""What reading and printing a large dump costs, as a multiple of `ast.parse` of the same text in the same process."""

from __future__ import annotations

import argparse
import ast
import re
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir.printer import print_program

DUMPS = Path(__file__).parent.parent / "tests" / "data" / "dumps"
DEFAULT = DUMPS / "k33_flash_mini" / "passes_explicit" / "49_after_MaterializeValidShapeSymbols.py"
LIMIT = 10.0


def enlarged(text: str, size: int) -> str:
    """A program of at least `size` characters: the functions of a dump again and again under new names."""
    start = text.index("    @pl.function")
    head, functions = text[:start], text[start:].rstrip("\n") + "\n"
    names = re.findall(r"^    def (\w+)\(", functions, re.MULTILINE)
    pattern = re.compile(rf"(def |self\.)({'|'.join(names)})\(")

    def renamed(match: re.Match[str], suffix: str) -> str:
        return f"{match[1]}{match[2]}{suffix}("

    parts = [head]
    total = len(head)
    copy = 0
    while total < size:
        parts.append(pattern.sub(partial(renamed, suffix=f"_copy{copy}"), functions))
        total += len(parts[-1])
        copy += 1
    return "".join(parts)


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
    parser.add_argument("dump", nargs="?", type=Path, default=DEFAULT)
    parser.add_argument("--size", type=int, default=800_000, help="characters of the text to read")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    text = enlarged(options.dump.read_text(encoding="utf-8"), options.size)
    program = read_dump(text)
    parse = best(lambda: ast.parse(text), options.rounds)
    read = best(lambda: read_dump(text), options.rounds)
    write = best(lambda: print_program(program), options.rounds)
    print(f"{len(text):,} characters, {len(program.functions)} functions")
    print(f"ast.parse     {parse * 1e3:8.1f} ms")
    print(f"read_dump     {read * 1e3:8.1f} ms  {read / parse:5.2f} x (limit {LIMIT:g})")
    print(f"print_program {write * 1e3:8.1f} ms  {write / parse:5.2f} x")
    return 0 if read <= LIMIT * parse else 1


if __name__ == "__main__":
    sys.exit(main())
