"""PyPTO Lab: run, step, check and compile PyPTO tile kernels on any laptop.

    import pypto_lab as lab
    program = lab.load("kernel.py")              # a user's file, a dump, DSL text, a live object
    case = lab.case("kernel.py")                 # make_inputs(seed), golden(values), outputs, rtol, atol, program()
    script = lab.torch_codegen(program)          # the torch script as text
    result = lab.run(program, values)            # result.outputs by name, result.returned
    report = lab.diff(case, poison=True)         # report.ok, report.max_abs, report.to_json()
    sweep = lab.validate("passes_dump", case)    # every dump against the golden
    recording = lab.record(program, values)      # every statement; .outputs, .digest(), .save("run.ptolab")
    session = lab.Session(lab.open("run.ptolab"))    # step, back, goto(k), lanes, queues, who_wrote
    bench = lab.workbench(recording, case=case)  # all views of one cursor: a widget, a page, text
    lowered = lab.lower(program, "a2a3")         # every pass of the lab's own compiler: .stages, .program
    build = lab.compile(case, "build", arch="a5")    # .pto, wrappers, orchestration; build.run(values), print(build)
    found = lab.check("build")                   # findings of a kernel file, a dump, a .pto or a build folder

Nothing heavy is imported before the first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "load": "pypto_lab.compat.programs",
    "case": "pypto_lab.compat.cases",
    "load_module": "pypto_lab.compat.loader",
    "run_main": "pypto_lab.compat.loader",
    "stand_ins": "pypto_lab.compat.loader",
    "run": "pypto_lab.torch_codegen.execute",
    "compare": "pypto_lab.numerics.compare",
    "compare_memories": "pypto_lab.numerics.memories",
    "order_check": "pypto_lab.numerics.orders",
    "race_check": "pypto_lab.numerics.races",
    "undefined_reads": "pypto_lab.numerics.poison",
    "diff": "pypto_lab.numerics.diff",
    "diff_build": "pypto_lab.numerics.diff",
    "read_build": "pypto_lab.pto.build",
    "Build": "pypto_lab.pto.build",
    "validate": "pypto_lab.numerics.validate",
    "check": "pypto_lab.compat.checks",
    "lower": "pypto_lab.lowering",
    "record_build": "pypto_lab.record.pto_steps",
    "workbench": "pypto_lab.view.workbench",
    "live": "pypto_lab.view.workbench",
    "graph": "pypto_lab.view.graph",
    "Session": "pypto_lab.record.session",
    "Recording": "pypto_lab.record.recording",
    "LiveRecording": "pypto_lab.record.live",
    "LabError": "pypto_lab.ir.diagnostics",
    "Diagnostic": "pypto_lab.ir.diagnostics",
    "Program": "pypto_lab.ir.nodes",
}
"""Public names and the modules that define them."""
_RENAMED = {
    "compile": ("pypto_lab.compat.compiling", "compile_program"),
    "open": ("pypto_lab.record.archive", "open_archive"),
}
"""Public names that would hide Python's own in the module that defines them."""
_CALLABLE_PACKAGES = ("torch_codegen", "record")
"""Packages of the lab that can be called like the function they are named after."""

if TYPE_CHECKING:
    from pypto_lab import record, torch_codegen
    from pypto_lab.compat.cases import case
    from pypto_lab.compat.checks import check
    from pypto_lab.compat.compiling import compile_program as compile
    from pypto_lab.compat.loader import load_module, run_main, stand_ins
    from pypto_lab.compat.programs import load
    from pypto_lab.ir.diagnostics import Diagnostic, LabError
    from pypto_lab.ir.nodes import Program
    from pypto_lab.lowering import lower
    from pypto_lab.numerics.compare import compare
    from pypto_lab.numerics.diff import diff, diff_build
    from pypto_lab.numerics.memories import compare_memories
    from pypto_lab.numerics.orders import order_check
    from pypto_lab.numerics.poison import undefined_reads
    from pypto_lab.numerics.races import race_check
    from pypto_lab.numerics.validate import validate
    from pypto_lab.pto.build import Build, read_build
    from pypto_lab.record.archive import open_archive as open
    from pypto_lab.record.live import LiveRecording
    from pypto_lab.record.pto_steps import record_build
    from pypto_lab.record.recording import Recording
    from pypto_lab.record.session import Session
    from pypto_lab.torch_codegen.execute import run
    from pypto_lab.view.graph import graph
    from pypto_lab.view.workbench import live, workbench

__all__ = [
    "Build", "Diagnostic", "LabError", "LiveRecording", "Program", "Recording", "Session", "__version__", "case",
    "check", "compare", "compare_memories", "compile", "diff", "diff_build", "graph", "live", "load",
    "load_ipython_extension", "load_module", "lower", "open", "order_check", "race_check", "read_build", "record",
    "record_build", "run", "run_main", "stand_ins", "torch_codegen", "undefined_reads", "unload_ipython_extension",
    "validate", "workbench",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _CALLABLE_PACKAGES:
        return importlib.import_module(f"pypto_lab.{name}")
    if name in _RENAMED:
        module, own = _RENAMED[name]
        return getattr(importlib.import_module(module), own)
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(ipython: Any) -> None:
    """`%load_ext pypto_lab`: registers the `%%pypto` magic."""
    importlib.import_module("pypto_lab.magic").load_ipython_extension(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """`%unload_ext pypto_lab`: takes the magic away again."""
    importlib.import_module("pypto_lab.magic").unload_ipython_extension(ipython)
