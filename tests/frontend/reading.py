"""Helpers of the front-end tests: kernels from text, with the place of an expected finding marked in it."""

from __future__ import annotations

import itertools
import linecache
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import pypto_lab.ops  # noqa: F401 (fills the op registry)
from pypto_lab.compat.loader import stand_ins
from pypto_lab.frontend.kernels import source_of
from pypto_lab.frontend.source import program_of
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError

KERNELS = Path(__file__).parent.parent / "data" / "kernels"
HEADER = "import pypto.language as pl\nimport pypto.language.distributed as pld\n"
_counter = itertools.count()


@dataclass(frozen=True)
class Sample:
    """A stand-in for a tensor argument: only its shape and dtype are ever looked at."""

    shape: tuple[int, ...]
    dtype: str = "torch.float32"


def module_of(text: str) -> ModuleType:
    """The module that a file with this text is; imports of the DSL stand on its first two lines."""
    file = f"<front-end test {next(_counter)}>"
    code = HEADER + textwrap.dedent(text).lstrip("\n")
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    module = ModuleType("kernels")
    module.__dict__["__file__"] = file
    with stand_ins():
        exec(compile(code, file, "exec", dont_inherit=True), module.__dict__)
    return module


def kernel_of(module: ModuleType, name: str | None = None) -> Any:
    """The kernel called `name`, else the last one that the module defines."""
    if name is not None:
        return getattr(module, name)
    return [v for v in vars(module).values() if source_of(v) is not None][-1]


def read(
    text: str, arguments: Mapping[str, Any] | None = None, *, kernel: str | None = None, runtime: tuple[str, ...] = ()
) -> n.Program:
    """The program of the last kernel in a text (or the named one)."""
    return program_of(kernel_of(module_of(text), kernel), arguments, runtime_scalars=runtime)


def findings(text: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> tuple[Diagnostic, ...]:
    """Everything that is reported about a text: errors, warnings and notes."""
    try:
        return tuple(read(text, arguments, **more).notes)
    except LabError as error:
        return error.diagnostics


def errors(text: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> list[Diagnostic]:
    """The findings of a text that must be refused."""
    with pytest.raises(LabError) as caught:
        read(text, arguments, **more)
    return [d for d in caught.value.diagnostics if d.severity.value == "error"]


def marked(text: str) -> tuple[str, int, int, int, int]:
    """A text without its «marks», and the place they mark: line, column, end line, end column."""
    clean = HEADER + textwrap.dedent(text).lstrip("\n")
    first, last = clean.index("«"), clean.index("»")
    start, end = clean[:first], clean[:last].replace("«", "")
    place = (
        start.count("\n") + 1,
        first - (start.rfind("\n") + 1) + 1,
        end.count("\n") + 1,
        len(end) - (end.rfind("\n") + 1) + 1,
    )
    return clean.replace("«", "").replace("»", "").removeprefix(HEADER), *place
