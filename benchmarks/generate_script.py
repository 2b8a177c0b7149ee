"""How long it takes to generate the script of a dump, compared with reading that dump.

Prints one ratio over the dumps given (default: those of the tests; target: at most 0.5). Both sides run in this
process.
"""

from __future__ import annotations

import sys
from pathlib import Path

from vector_loop import best_of

from pypto_lab.frontend.dump import read_dump
from pypto_lab.torch_codegen.generate import generate

DUMPS = Path(__file__).parent.parent / "tests" / "data" / "dumps"


def main(paths: list[str]) -> float:
    files = [Path(p) for p in paths] or sorted(DUMPS.glob("*/*/*.py"))
    texts = [file.read_text(encoding="utf-8") for file in files]
    programs = [read_dump(text) for text in texts]
    for program in programs:
        generate(program)  # reads the runtime modules once
    reading, generating = best_of(
        lambda: [read_dump(text) for text in texts], lambda: [generate(program) for program in programs]
    )
    ratio = generating / reading
    each = 1e3 / len(files)
    print(
        f"{len(files)} dumps: generating {generating * each:.2f} ms, reading {reading * each:.2f} ms, ratio {ratio:.2f}"
    )
    return ratio


if __name__ == "__main__":
    main(sys.argv[1:])
