"""`lab.compile`: anything users point at - a case, a program, a file, a kernel, a live object - as a build folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pypto_lab.compat.cases import case
from pypto_lab.compat.loader import stand_ins
from pypto_lab.compat.programs import load, load_file
from pypto_lab.frontend.kernels import source_of
from pypto_lab.frontend.source import program_of
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.ir.nodes import Program
from pypto_lab.numerics.case import Case
from pypto_lab.numerics.compiling import compile_to
from pypto_lab.pto.build import Build
from pypto_lab.pto.config import RuntimeKind
from pypto_lab.pto.embedded import Progress, silent


def compile_program(
    source: Any,
    out: Path | str,
    arch: str = "a2a3",
    engine: str = "embedded",
    *,
    kernel: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    seed: int = 0,
    runtime: str | RuntimeKind = RuntimeKind.TENSORMAP_AND_RINGBUFFER,
    dump_ptoas_passes: bool = False,
    progress: Progress = silent,
) -> Build:
    """Compiles a kernel to a build folder at `out`, as the compiler lays it out.

    Args:
        source: a case, a program, the path of a user's file or of the dump `00_frontend.py`, DSL text, a decorated
            kernel, or anything with `as_python()`.
        arch: "a2a3" or "a5".
        engine: "embedded", the lab's own passes, or "pypto", the compiler that is installed.
        kernel: which kernel of a file.
        arguments: values by parameter name to specialise a jit kernel for; a case's inputs of `seed` when left out.
        runtime: the runtime that `kernel_config.py` names.
        dump_ptoas_passes: keep what each pass of the assembler writes, below `ptoas_passes/`.
        progress: told what is being done.

    Nothing is executed; `Build.run` does that. Raises LabError: the kernel's findings, what the passes or the emission
    refuse, E509 for an unknown choice, E655 for an unknown runtime, E690 to E694 for the folder and the engine.
    """
    progress("reading the kernel")
    program = _program(source, kernel, arguments, seed)
    return compile_to(
        program, out, arch, engine, runtime=runtime, dump_ptoas_passes=dump_ptoas_passes, progress=progress
    )


def _program(source: Any, kernel: str | None, arguments: Mapping[str, Any] | None, seed: int) -> Program:
    if isinstance(source, Program):
        return source
    if isinstance(source, Case):
        return source.program(source.make_inputs(seed) if arguments is None else arguments)
    if isinstance(source, Path) or (isinstance(source, str) and "\n" not in source):
        return _file_program(Path(source), kernel, arguments, seed)
    found = source_of(source)
    if found is None:
        return load(source)
    with stand_ins():
        return program_of(found, arguments)


def _file_program(path: Path, kernel: str | None, arguments: Mapping[str, Any] | None, seed: int) -> Program:
    """The program of a file: a case is read for its inputs of `seed`, or for `arguments`."""
    from pypto_lab.compat.programs import is_dump

    if path.is_file() and is_dump(path):
        return load_file(path)
    try:
        made = case(path, kernel)
    except LabError as error:
        if error.diagnostics[0].code != "E508" or arguments is not None:
            raise
        return load_file(path, kernel)
    return _program(made, None, arguments, seed)
