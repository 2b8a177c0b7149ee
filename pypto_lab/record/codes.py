"""Diagnostic codes of recordings and sessions (E41x)."""

from __future__ import annotations

from pypto_lab.ir.codes import Code

_ENTRIES = (
    Code(
        "E410",
        "not a breakpoint",
        "Data that should state a breakpoint has an unknown kind, a field that the kind does not know, or lacks one. A "
        "divergence needs the other recording.",
        'breakpoint_of({"kind": "row", "line": 12})',
        'breakpoint_of({"kind": "line", "line": 12})',
    ),
    Code(
        "E411",
        "not an expression",
        "Conditions and watches are Python expressions over the names of variables; tensors are numpy arrays of their "
        "valid cells, `np`, `isnan`, `isinf` and the usual functions are known.",
        'session.watch("acc.max() >")',
        'session.watch("acc.max() > 3")',
    ),
    Code(
        "E412",
        "no such function in the script",
        "A recording that was opened from a file runs again from the script it holds; that script does not define the "
        "entry it was recorded from, so the file was not written by the recorder as it is.",
        "",
        "",
    ),
    Code(
        "E413",
        "no such variable here",
        "A name is looked for in the focused function, its callers, the entry's parameters, then in every other "
        "function; it has no value yet at this position, or nothing is called so.",
        'session.goto(0)\nsession.value("acc")',
        'session.goto(20)\nsession.value("acc")',
    ),
    Code(
        "E414",
        "no step lies there",
        "The lane took no step in the block, task or iteration that was asked for.",
        'session.focus_on("AIV0", block=99)',
        'session.focus_on("AIV0", block=1)',
    ),
    Code(
        "E415",
        "no such lane",
        "Lanes are called `host`, `AIC`, `AIV0` and `AIV1`; `recording.lanes` lists those that took steps.",
        'session.focus_on("AIV")',
        'session.focus_on("AIV0")',
    ),
    Code(
        "E416",
        "a what-if before the first step",
        "A change is made right after a step, so the cursor has to stand on one.",
        'session.start()\nsession.what_if("x", 0)',
        'session.goto(1)\nsession.what_if("x", 0)',
    ),
    Code(
        "E417",
        "a what-if without torch",
        "A recording opens, and can be stepped in, without torch; running it on with a change needs it.",
        'session.what_if("x", 0)   # without torch',
        'session.what_if("x", 0)   # with torch installed',
    ),
    Code(
        "E418",
        "a what-if of another engine",
        "A what-if runs a program's torch script again with one change. Recordings of `.pto` text that was interpreted "
        "have no such script.",
        'lab.Session(record_build("build", values)).what_if("x", 0)',
        'lab.Session(lab.record(program, values)).what_if("x", 0)',
    ),
    Code(
        "E419",
        "no such tile",
        "The workbench was asked for the cells of a value that the recording does not have, or that is no tensor. Its "
        "own views never ask for one; a widget of another recording, or a saved one, may.",
        "",
        "",
    ),
)

CODES: dict[str, Code] = {entry.code: entry for entry in _ENTRIES}
