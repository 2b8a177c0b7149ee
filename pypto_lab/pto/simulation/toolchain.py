"""What a simulation of kernels on the CPU needs on a user's machine: PTO-ISA's headers and a compiler that takes them.

Each part is found, then probed by running it; one that cannot be used is named with what is wrong with it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.pto.process import first_line, run

NO_ISA = "E640"
NO_COMPILER = "E641"

CPP = Path(__file__).parent / "cpp"
"""Headers and programs of the lab's own: the runtime's records, the driver, the check of bfloat16."""

OLDEST = {"clang": 15, "gcc": 13}
"""The oldest major versions whose C++ PTO-ISA's headers are written for."""

_NAMES = (
    *(f"clang++-{version}" for version in range(22, 14, -1)), *(f"g++-{version}" for version in range(16, 12, -1)),
    "clang++", "g++",
)  # fmt: skip
_HEADER = Path("pto") / "pto-inst.hpp"
PROBE_LIMIT = 60.0
BFLOAT16_FORMS = {"own": (), "shim": ("stdfloat",)}
"""How a compiler comes by bfloat16: by itself, or with the lab's `<stdfloat>` in front; with the folders that adds."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler that starts. `family` is "clang" or "gcc", `version` its major version."""

    path: Path
    family: str
    version: int
    stated: str

    def __str__(self) -> str:
        return f"{self.family} {self.version} ({self.path})"


@dataclass(frozen=True, slots=True)
class Isa:
    """PTO-ISA's headers; `head` is the commit of a checkout, empty for anything else."""

    include: Path
    head: str = ""

    def __str__(self) -> str:
        return f"{self.include}{f' at {self.head[:12]}' if self.head else ''}"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """Headers and a compiler for them. `bfloat16` says how the compiler comes by the type (None: not at all), and
    `bfloat16_note` what the check saw."""

    isa: Isa
    compiler: Compiler
    bfloat16: str | None
    bfloat16_note: str = ""

    @property
    def described(self) -> str:
        return f"{self.compiler}, PTO-ISA {self.isa}"

    def flags(self, core: str) -> list[str]:
        """The compiler's flags for a kernel of a core: "aiv" or "aic". Asserts stay on."""
        return [*_flags(self.isa), f"-D{CORE_MACROS[core]}", *_shim(self.bfloat16)]


CORE_MACROS = {"aiv": "__DAV_VEC__", "aic": "__DAV_CUBE__"}
"""The macro that a build for a core defines."""


def _flags(isa: Isa) -> list[str]:
    # the headers use integer types and sizes without including their own headers for them
    return ["-std=c++23", "-O1", "-D__CPU_SIM", "-include", "stdint.h", "-include", "stddef.h", f"-I{isa.include}"]


def _shim(form: str | None) -> list[str]:
    return [f"-I{CPP / folder}" for folder in BFLOAT16_FORMS[form]] if form is not None else []


def find_isa(environment: Mapping[str, str] | None = None) -> Isa:
    """PTO-ISA below `PTO_ISA_ROOT`. Raises LabError (E640) when the variable is not set or names no such headers."""
    environment = os.environ if environment is None else environment
    root = environment.get("PTO_ISA_ROOT")
    hint = "set PTO_ISA_ROOT to a checkout of PTO-ISA; the `.pto` can be run here without it"
    if not root:
        raise LabError([Diagnostic(NO_ISA, "PTO_ISA_ROOT is not set: there are no PTO-ISA headers", hint=hint)])
    for include in (Path(root) / "include", Path(root)):
        if (include / _HEADER).is_file():
            return Isa(include.resolve(), _head(Path(root)))
    message = f"PTO_ISA_ROOT ({root}) has no include/{_HEADER.as_posix()}"
    raise LabError([Diagnostic(NO_ISA, message, hint=hint)])


def _head(root: Path) -> str:
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return ""
    try:
        done = run([git, "-C", str(root), "rev-parse", "HEAD"], PROBE_LIMIT)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.output.strip() if done.code == 0 else ""


def find_compiler(environment: Mapping[str, str] | None = None, *, oldest: Mapping[str, int] = OLDEST) -> Compiler:
    """The first compiler on `PATH` that is new enough, clang before gcc, newer before older.

    Args:
        oldest: the oldest major version to take of "clang" and "gcc".

    Raises:
        LabError (E641): there is none; those that are too old or do not start are named.
    """
    environment = os.environ if environment is None else environment
    unusable: list[str] = []
    for path in _candidates(environment):
        found = probe_compiler(path)
        if isinstance(found, str):
            unusable.append(f"{path}: {found}")
        elif found.version < oldest[found.family]:
            unusable.append(f"{path}: {found.family} {found.version} is too old")
        else:
            return found
    needed = f"clang >= {oldest['clang']} or g++ >= {oldest['gcc']}"
    seen = "; ".join(unusable) or "PATH has no clang++ and no g++"
    message = f"no C++ compiler for PTO-ISA's CPU simulation, which needs {needed}: {seen}"
    raise LabError([Diagnostic(NO_COMPILER, message, hint="install a newer compiler, e.g. Debian's `clang-19`")])


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    seen: set[Path] = set()
    for name in _NAMES:
        found = shutil.which(name, path=environment.get("PATH", ""))
        if found and Path(found).resolve() not in seen:
            seen.add(Path(found).resolve())
            yield Path(found)


def probe_compiler(path: Path) -> Compiler | str:
    """The compiler at a path by what it says of itself, or in words why it cannot be used."""
    try:
        done = run([str(path), "--version"], PROBE_LIMIT)
    except OSError as error:
        return f"it cannot be started ({error.strerror or error})"
    except subprocess.TimeoutExpired:
        return f"it did not answer `--version` within {PROBE_LIMIT:g} s"
    stated = first_line(done.output + done.errors)
    if done.code != 0:
        return f"it cannot start ({stated})"
    clang = re.search(r"clang version (\d+)", done.output)
    gcc = re.search(r"\) (\d+)\.\d+", stated) or re.search(r"\b(\d+)\.\d+\.\d+\b", stated)
    if clang:
        return Compiler(path, "clang", int(clang[1]), stated)
    if gcc and ("gcc" in done.output.lower() or "g++" in done.output.lower() or "free software" in done.output.lower()):
        return Compiler(path, "gcc", int(gcc[1]), stated)
    return f"it does not say which compiler it is ({stated})"


def find_toolchain(environment: Mapping[str, str] | None = None, *, oldest: Mapping[str, int] = OLDEST) -> Toolchain:
    """Headers, a compiler and how it comes by bfloat16.

    Raises LabError: E640 no PTO-ISA headers, E641 no compiler that is new enough.
    """
    isa, compiler = find_isa(environment), find_compiler(environment, oldest=oldest)
    form, note = check_bfloat16(compiler, isa)
    return Toolchain(isa, compiler, form, note)


def check_bfloat16(compiler: Compiler, isa: Isa) -> tuple[str | None, str]:
    """How a compiler comes by bfloat16 (a key of `BFLOAT16_FORMS`, None: not at all), and what the check saw.

    A type that is there by name proves nothing: without a real one the simulation's headers take a half float, whose
    results are wrong without a sign. So two values are sent through it.
    """
    notes = []
    with tempfile.TemporaryDirectory(prefix="pypto_lab_bfloat16_") as folder:
        program = Path(folder) / "check"
        for form in BFLOAT16_FORMS:
            source = str(CPP / "bfloat16_check.cpp")
            flags = [*_flags(isa), f"-D{CORE_MACROS['aiv']}", *_shim(form)]
            try:
                built = run([str(compiler.path), *flags, source, "-o", str(program), "-ldl", "-lpthread"], PROBE_LIMIT)
                if built.code != 0:
                    notes.append(f"{form}: {_error_line(built.errors)}")
                    continue
                done = run([str(program)], PROBE_LIMIT)
            except (OSError, subprocess.TimeoutExpired) as error:
                notes.append(f"{form}: {error}")
                continue
            if done.code == 0:
                return form, first_line(done.output)
            notes.append(f"{form}: {first_line(done.output + done.errors)}")
    return None, "; ".join(notes)


def _error_line(errors: str) -> str:
    found = next((line for line in errors.splitlines() if "error" in line), errors)
    return f"does not compile ({first_line(found)})"
