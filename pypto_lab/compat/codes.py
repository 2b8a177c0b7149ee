"""Diagnostic codes of files, calls and cases (E5xx), and the list of all codes: `python -m pypto_lab.compat.codes`.

Every room lists its own: `tables` names them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from pypto_lab.frontend import codes as reader
from pypto_lab.frontend import dump_codes
from pypto_lab.ir.codes import Code
from pypto_lab.lowering import codes as lowering
from pypto_lab.pto import codes as pto
from pypto_lab.record import codes as record

_ENTRIES = (
    Code(
        "E400",
        "the script stopped",
        "The torch script of a kernel raised an exception. The statement shown is the kernel's own that was running; "
        "the line of the script is in the note (`pypto-lab script` prints the script).",
        "y = pl.load(x, [8, 0], [16, 64])   # of 16 rows",
        "y = pl.load(x, [0, 0], [16, 64])",
    ),
    Code(
        "E401",
        "not a tensor",
        "A tensor parameter is given a tensor, an array, or a list of numbers.",
        'lab.run(program, {"x": "rows"})',
        'lab.run(program, {"x": torch.zeros(16, 64)})',
    ),
    Code(
        "E402",
        "a value of another dtype",
        "Values are not converted silently: a kernel compiled for FP16 would read the bytes of an FP32 tensor wrongly.",
        'lab.run(program, {"x": x.float()})',
        'lab.run(program, {"x": x.half()})',
    ),
    Code(
        "E403",
        "a value of another shape",
        "The value has another rank than the parameter, or other extents where the parameter states them.",
        'lab.run(program, {"x": torch.zeros(64)})',
        'lab.run(program, {"x": torch.zeros(16, 64)})',
    ),
    Code(
        "E404",
        "a parameter without a value",
        "Every parameter needs a value, but a scalar that is a dimension of a given tensor.",
        "lab.run(program, {})",
        'lab.run(program, {"x": x, "scale": 2.0})',
    ),
    Code(
        "E501",
        "kernel language outside a kernel",
        "Operations, loops and scopes of `pl` are read from the text of a kernel; Python never executes them. Calling "
        "one from ordinary code computes nothing.",
        "y = pl.add(a, b)",
        "@pl.jit\ndef kernel(a: pl.Tensor, b: pl.Tensor, y: pl.Out[pl.Tensor]): ...\nkernel(a, b, y)",
    ),
    Code(
        "E502",
        "arguments do not fit the parameters",
        "A kernel is called with its parameters in order. Outputs may all be left out; they are then allocated and "
        "returned.",
        "kernel(a)",
        "kernel(a, b, out)",
    ),
    Code(
        "E503",
        "nothing to read",
        "The path is not a file with a kernel, a dump of the compiler, or a folder of dumps; or the object is not a "
        "program.",
        "pypto-lab diff missing.py",
        "pypto-lab diff kernel.py",
    ),
    Code(
        "E504",
        "needs the device",
        "Hand-written C++ kernels and device headers are not part of the lab.",
        "pto_isa_include_dir()",
        "",
    ),
    Code("E505", "not built yet", "The lab does not do this yet; the hint says what it does today.", "", ""),
    Code(
        "E506",
        "the file stopped",
        "The user's own Python code raised an exception while the lab ran it. The line shown is the last one of the "
        "file that was running.",
        "",
        "",
    ),
    Code(
        "E507",
        "a check of the file failed",
        "An `assert` of the user's file does not hold: the result of a kernel is not what the file expects.",
        "",
        "",
    ),
    Code(
        "E508",
        "not a case",
        "Commands that compare numbers need inputs and a golden. A case file defines `make_inputs(seed)` and "
        "`golden(values)`; a pypto-lib file defines `build_specs()` and `golden_<name>(values)`.",
        "",
        'def make_inputs(seed=0):\n    return {"x": torch.randn(16, 64), "out": torch.zeros(16, 64)}\n\n'
        'def golden(t):\n    t["out"][:] = t["x"] * 2',
    ),
    Code("E509", "unknown choice", "The value is not one of the choices of the option.", "--arch a4", "--arch a5"),
    Code("E510", "not Python", "Python itself cannot read the file.", "return x +", "return x"),
    Code(
        "E511",
        "output never written",
        "An `Out` parameter is bound to a new value, and nothing is ever written to the caller's tensor: on the device "
        "its cells stay undefined, and the compiler refuses the kernel.",
        "out = pl.add(a, b)",
        "out[:] = pl.add(a, b)",
    ),
)

CODES: dict[str, Code] = {entry.code: entry for entry in _ENTRIES}


def explain(code: str) -> str | None:
    """The explanation of any code of the lab as text, None for an unknown one."""
    entry = _every().get(code.upper())
    return None if entry is None else _text(entry)


def all_codes() -> list[str]:
    """Every code there is, in order."""
    return sorted(_every())


def _every() -> Mapping[str, Code]:
    return {code: entry for table in tables() for code, entry in table.items()}


def tables() -> tuple[Mapping[str, Code], ...]:
    """The codes of every room."""
    return (reader.CODES, dump_codes.CODES, CODES, record.CODES, pto.CODES, lowering.CODES)


def _text(entry: Code) -> str:
    parts = [f"{entry.code}: {entry.title}", "", entry.explanation]
    for head, example in (("Instead of", entry.wrong), ("write", entry.right)):
        if example:
            parts += ["", head, "", *("    " + line for line in example.splitlines())]
    return "\n".join(parts)


# --- the page of all codes --------------------------------------------------------------------------------------------

_SECTIONS = (
    ("Kernels: statements", "E0"),
    ("Kernels: types and arguments", "E1"),
    ("Kernels: names", "E2"),
    ("Kernels: operations and calls", "E3"),
    ("Runs and recordings", "E4"),
    ("Files, calls and cases", "E5"),
    ("PTO artifacts", "E6"),
    ("Compiler dumps", "E7"),
    ("Lowering", "E8"),
    ("Warnings", "W"),
    ("Notes", "N"),
)


def page() -> str:
    """All codes with their explanations, as Markdown."""
    parts = [
        "# Error codes",
        "",
        "Every finding of the lab has a code; `pypto-lab explain CODE` prints what stands here. E is an error, W a",
        "warning, N a note on something that was read and kept.",
        "",
        "<!-- Written by `python -m pypto_lab.compat.codes`; edit the tables in the code. -->",
    ]
    for title, start in _SECTIONS:
        parts += ["", f"## {title}"]
        for code, entry in sorted(_every().items()):
            if code.startswith(start):
                parts += ["", f"### {code}: {entry.title}", "", entry.explanation, *_examples(entry)]
    return "\n".join(parts) + "\n"


def _examples(entry: Code) -> list[str]:
    lines: list[str] = []
    for head, example in (("Instead of", entry.wrong), ("write", entry.right)):
        if example:
            lines += ["", f"{head}:", "", "```python", *example.splitlines(), "```"]
    return lines


if __name__ == "__main__":
    sys.stdout.write(page())
