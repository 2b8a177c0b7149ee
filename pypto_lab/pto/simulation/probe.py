"""What of the tools for a simulation a machine has, what it lacks, and what each missing part would add."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pypto_lab.ir.diagnostics import LabError
from pypto_lab.pto.ptoas import find_ptoas
from pypto_lab.pto.simulation.toolchain import OLDEST, Compiler, Isa, check_bfloat16, find_compiler, find_isa

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part:
    """One tool. `found` says which one, `problem` why there is none; `adds` what it is needed for."""

    name: str
    adds: str
    found: str = ""
    problem: str = ""
    hint: str = ""

    @property
    def ok(self) -> bool:
        return not self.problem

    def __str__(self) -> str:
        return f"{self.name}: {self.found}" if self.ok else f"{self.name}: {self.problem} - would add: {self.adds}"


@dataclass(frozen=True, slots=True)
class Probe:
    """The tools of a machine, in the order a kernel needs them."""

    parts: tuple[Part, ...]

    @property
    def ready(self) -> bool:
        """Whether a kernel can go from its `.pto` to a run on the CPU simulation."""
        return all(part.ok for part in self.parts)

    @property
    def missing(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if not part.ok)

    def to_json(self) -> dict[str, object]:
        return {
            "ready": self.ready,
            "parts": [
                {"name": p.name, "ok": p.ok, "found": p.found, "problem": p.problem, "adds": p.adds, "hint": p.hint}
                for p in self.parts
            ],
        }


_ADDS = {
    "ptoas": "C++ from a `.pto`: that the real assembler takes the text, and the check of its flags",
    "PTO-ISA": "the headers that this C++ is written against, with their simulation on the CPU",
    "C++ compiler": "a second run of each kernel, from the assembler's C++, beside the lab's own run of the `.pto`",
    "bfloat16": "that run for kernels with bfloat16 tiles",
}


def probe(environment: Mapping[str, str] | None = None, *, oldest: Mapping[str, int] = OLDEST) -> Probe:
    """Looks for the assembler, PTO-ISA, a compiler and its bfloat16. Nothing raises; each part says what is wrong."""
    environment = os.environ if environment is None else environment
    _, assembler = _part("ptoas", lambda: find_ptoas(environment), lambda a: f"{a.version} ({a.path})")
    isa, headers = _part("PTO-ISA", lambda: find_isa(environment), str)
    compiler, compiles = _part("C++ compiler", lambda: find_compiler(environment, oldest=oldest), str)
    return Probe((assembler, headers, compiles, _bfloat16(isa, compiler)))


def _part(name: str, find: Callable[[], T], shown: Callable[[T], str]) -> tuple[T | None, Part]:
    try:
        tool = find()
    except LabError as error:
        first = error.diagnostics[0]
        return None, Part(name, _ADDS[name], problem=first.message, hint=first.hint or "")
    return tool, Part(name, _ADDS[name], found=shown(tool))


def _bfloat16(isa: Isa | None, compiler: Compiler | None) -> Part:
    name, adds = "bfloat16", _ADDS["bfloat16"]
    if isa is None or compiler is None:
        return Part(name, adds, problem="not checked: it needs PTO-ISA and a compiler")
    form, note = check_bfloat16(compiler, isa)
    return Part(name, adds, problem=note) if form is None else Part(name, adds, found=f"{form}: {note}")
