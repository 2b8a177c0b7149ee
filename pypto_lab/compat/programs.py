"""Anything users point at, as a Program: a path, DSL text, a kernel or program object, a live compiler object."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pypto_lab.compat.cases import case, choose_kernel
from pypto_lab.compat.kernels import program_from
from pypto_lab.compat.loader import load_module, world_of
from pypto_lab.compat.parsing import kernels_in
from pypto_lab.frontend.dump import read_dump
from pypto_lab.frontend.kernels import source_of
from pypto_lab.frontend.source import program_of
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.nodes import Program

_DUMP_HEADER = re.compile(r"^# pypto\.program:", re.MULTILINE)
_DUMP_NAME = re.compile(r"\d\d_(frontend|after_\w+)\.py")


def load(source: Any, kernel: str | None = None) -> Program:
    """A Program from a path (a user's file or a compiler dump), DSL text, a kernel or program object, or anything with
    `as_python()`.

    A jit kernel with bare annotations is specialised on the inputs of its file's case. Raises LabError with all
    findings; E503 for something that is none of these.
    """
    if isinstance(source, Path) or (isinstance(source, str) and "\n" not in source):
        return load_file(Path(source), kernel)
    if isinstance(source, str):
        return load_text(source)
    found = source_of(source)
    return program_of(found) if found is not None else program_from(source)


def load_file(path: Path, kernel: str | None = None) -> Program:
    """The program in a file: a dump is read, a user's file is executed on the stand-ins."""
    if path.is_file() and is_dump(path):
        return read_dump(path.read_text(encoding="utf-8"), str(path))
    module = load_module(path)
    try:
        return case(module, kernel).program()
    except LabError as error:
        if error.diagnostics[0].code != "E508":
            raise
    _, source = choose_kernel(module, kernel)
    with world_of(module):
        return program_of(source)


def load_text(text: str) -> Program:
    """A dump as text, or DSL text with one kernel or program."""
    if _DUMP_HEADER.search(text):
        return read_dump(text, "<text>")
    found = kernels_in(text, "<text>")
    if not found:
        raise LabError([Diagnostic("E503", "the text holds no kernel", hint="decorate a function with @pl.jit")])
    return found[-1].program


def is_dump(path: Path) -> bool:
    """True for a file the compiler's dump writer made."""
    if _DUMP_NAME.fullmatch(path.name):
        return True
    with path.open(encoding="utf-8", errors="replace") as file:
        return _DUMP_HEADER.search(file.read(2000)) is not None
