"""`pl.parse`, `pl.loads` and their program forms: kernels from text, run on the stand-ins like a user's file."""

from __future__ import annotations

import linecache
from pathlib import Path
from types import ModuleType
from typing import Any

from pypto_lab.compat.kernels import Kernel, ProgramObject
from pypto_lab.ir import nodes as n

_counter = 0


def parse(code: str, filename: str = "<text>") -> n.Function | n.Program:
    """The one kernel or program in `code`; `import pypto.language as pl` may be left out.

    Raises SyntaxError for text that is not Python, ValueError when there is none or more than one, LabError for what
    is wrong in it.
    """
    found = kernels_in(code, filename)
    if len(found) != 1:
        names = ", ".join(k.name for k in found) or "none"
        raise ValueError(f"expected one @pl.function or @pl.program in the text, found {names}")
    only = found[0]
    return only.program.entry if isinstance(only, Kernel) else only.program


def loads(path: str | Path) -> n.Function | n.Program:
    """:func:`parse` on the text of a file."""
    return parse(Path(path).read_text(encoding="utf-8"), str(path))


def parse_program(code: str, filename: str = "<text>") -> n.Program:
    """:func:`parse`, as a program. Raises ValueError when the text holds a single function."""
    found = parse(code, filename)
    if not isinstance(found, n.Program):
        raise ValueError(f"the text holds the function {found.name}, not a @pl.program")
    return found


def loads_program(path: str | Path) -> n.Program:
    """:func:`parse_program` on the text of a file."""
    return parse_program(Path(path).read_text(encoding="utf-8"), str(path))


def kernels_in(code: str, filename: str) -> list[Kernel | ProgramObject]:
    """The kernels and programs that the text defines at its top level, in order."""
    global _counter
    from pypto_lab.compat.loader import stand_ins

    _counter += 1
    name = f"{filename}#{_counter}"
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    module = ModuleType("pypto_lab_parsed")
    namespace: dict[str, Any] = module.__dict__
    with stand_ins(shadow_real=True):
        import pypto.language as pl  # type: ignore[import-not-found]
        import pypto.language.distributed as pld  # type: ignore[import-not-found]

        namespace.update(pl=pl, pld=pld, __file__=name)
        exec(compile(code, name, "exec"), namespace)
    return [v for v in namespace.values() if isinstance(v, (Kernel, ProgramObject))]
