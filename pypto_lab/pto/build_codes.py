"""Diagnostic codes of build folders and of the engines that fill them (E69x)."""

from __future__ import annotations

from pypto_lab.ir.codes import Code

NOT_A_BUILD = "E690"
NOT_WRITABLE = "E691"
NO_COMPILER = "E692"
COMPILER_FAILED = "E693"
NOT_OURS = "E694"

_ENTRIES = (
    Code(
        NOT_A_BUILD,
        "not a build folder",
        "A build folder holds `.pto` texts and `passes_dump/`. Without the last dump nothing says how the kernels are "
        "launched.",
        "read_build('passes_dump')",
        "read_build('build')   # the folder passes_dump/ lies in",
    ),
    Code(
        NOT_WRITABLE,
        "the build cannot be written",
        "The disk is full, or the place may not be written. Files are written beside the place and moved there at the "
        "end: nothing is left behind, and a build that was there before is still whole.",
        "pypto-lab compile kernel.py --out /usr/build",
        "pypto-lab compile kernel.py --out build",
    ),
    Code(
        NO_COMPILER,
        "the compiler is not installed",
        "`--engine pypto` uses the compiler of hw-native-sys/pypto in this Python. The package called `pypto` on PyPI "
        "is another product. `--engine embedded` needs nothing.",
        "pypto-lab compile kernel.py --out build --engine pypto",
        "pypto-lab compile kernel.py --out build --engine embedded",
    ),
    Code(
        COMPILER_FAILED,
        "the compiler stopped",
        "The installed compiler refused the program or ended without a build; its last lines are in the message.",
        "",
        "",
    ),
    Code(
        NOT_OURS,
        "the place is taken",
        "A build replaces an earlier build, as long as nothing else lies in its folder. Other folders and files stay "
        "as they are.",
        "pypto-lab compile kernel.py --out src",
        "pypto-lab compile kernel.py --out build",
    ),
)

CODES: dict[str, Code] = {entry.code: entry for entry in _ENTRIES}
