"""Stand-in for `pypto.ir`: compile, print and store programs."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from pypto_lab.compat.compiled import CompiledProgram
from pypto_lab.compat.kernels import program_from
from pypto_lab.compat.pypto.ir.compiled_program import to_config
from pypto_lab.compat.pypto.ir.pass_manager import OptimizationStrategy, PassDumpLevel, PassManager
from pypto_lab.compat.pypto.ir.printer import python_print
from pypto_lab.ir.enums import ForKind, FunctionType, Level, MemorySpace, Role, SplitMode, TensorLayout, TileLayout
from pypto_lab.ir.nodes import Function, Program

__all__ = [
    "CompiledProgram", "ForKind", "Function", "FunctionType", "Level", "MemorySpace", "OptimizationStrategy",
    "PassDumpLevel", "PassManager", "Program", "Role", "SplitMode", "TensorLayout", "TileLayout", "compile",
    "deserialize", "python_print", "serialize",
]  # fmt: skip


def compile(program: Any, output_dir: str | Path | None = None, **options: Any) -> CompiledProgram:
    """A callable program. Options of the real compiler are accepted and kept on `.config`.

    Raises LabError with all findings of the program.
    """
    return CompiledProgram(program_from(program), to_config(options), output_dir)


def serialize(node: Any) -> bytes:
    """A program or function as bytes that :func:`deserialize` reads (the DSL text, not the compiler's msgpack)."""
    found = program_from(node)
    return pickle.dumps((isinstance(node, Function), found.as_python()))


def deserialize(data: bytes) -> Program | Function:
    """The program or function behind bytes of :func:`serialize`."""
    from pypto_lab.frontend.dump import read_dump

    single, text = pickle.loads(data)
    found = read_dump(text, "<serialized>")
    return found.entry if single else found
