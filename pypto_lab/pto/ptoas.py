"""The assembler `ptoas` where a user has it: found, probed, run with a time limit, its errors as diagnostics."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pypto_lab.ir.diagnostics import Diagnostic, LabError, Severity
from pypto_lab.ir.span import Span
from pypto_lab.pto.process import Outcome, first_line, run
from pypto_lab.pto.wrapper.preprocess import preprocess

NOT_FOUND = "E660"
UNUSABLE = "E661"
REFUSED = "E662"
TOO_SLOW = "E663"
BAD_REQUEST = "E664"
REMARK = "W660"

NEEDED_FLAGS = ("--enable-insert-sync", "--pto-arch", "--pto-level")
ARCHITECTURES = {"a2a3": "a3", "a5": "a5"}
"""The assembler's name of each architecture."""

TIME_LIMIT = 60.0
PROBE_LIMIT = 20.0
_UNDER_ROOT = ("ptoas", "ptoas.sh", "bin/ptoas")
_MESSAGE = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?P<column>\d+): (?P<kind>error|warning): (?P<text>.*)$")
_PYPI_HINT = (
    "the `ptoas` wheel of PyPI cannot start (it lacks the MLIR libraries); take a release of the PTOAS project "
    "or its source build, and set PTOAS_ROOT to its folder"
)


@dataclass(frozen=True, slots=True)
class Assembler:
    """A `ptoas` that starts and knows the flags a compile needs. `version` is its first line on `--version`."""

    path: Path
    version: str
    flags: frozenset[str]


@dataclass(frozen=True, slots=True)
class Assembled:
    """One run. `text` is the C++ as written, `private` the same for a kernel wrapper, `warnings` the remarks, `passes`
    the files of the assembler's own passes, in the order of their names."""

    text: str
    command: tuple[str, ...]
    version: str
    seconds: float
    warnings: tuple[Diagnostic, ...] = ()
    passes: tuple[Path, ...] = ()

    @property
    def private(self) -> str:
        return preprocess(self.text)


def find_ptoas(environment: Mapping[str, str] | None = None) -> Assembler:
    """The first usable assembler: below `PTOAS_ROOT` (`ptoas`, `ptoas.sh`, `bin/ptoas`), then on `PATH`.

    Raises:
        LabError: E660 there is none, E661 there are some and none is usable (each is named with what is wrong).
    """
    environment = os.environ if environment is None else environment
    unusable: list[str] = []
    for candidate in _candidates(environment):
        probed = probe(candidate, environment)
        if isinstance(probed, Assembler):
            return probed
        unusable.append(f"{candidate}: {probed}")
    root = environment.get("PTOAS_ROOT")
    looked = f"PTOAS_ROOT ({root}) and PATH" if root else "PATH (PTOAS_ROOT is not set)"
    if unusable:
        message = f"no usable ptoas in {looked}: " + "; ".join(unusable)
        raise LabError([Diagnostic(UNUSABLE, message, hint=_PYPI_HINT)])
    hint = "set PTOAS_ROOT to a release or source build of PTOAS; the `.pto` can be run here without it"
    raise LabError([Diagnostic(NOT_FOUND, f"there is no ptoas in {looked}", hint=hint)])


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    root = environment.get("PTOAS_ROOT")
    if root:
        yield from (path for name in _UNDER_ROOT if (path := Path(root) / name).is_file())
    on_path = shutil.which("ptoas", path=environment.get("PATH", ""))
    if on_path:
        yield Path(on_path)


def probe(path: Path, environment: Mapping[str, str] | None = None) -> Assembler | str:
    """The assembler at a path, or in words why it cannot be used."""
    try:
        help_text = run([str(path), "--help"], PROBE_LIMIT, environment)
        version = run([str(path), "--version"], PROBE_LIMIT, environment)
    except OSError as error:
        return f"it cannot be started ({error.strerror or error})"
    except subprocess.TimeoutExpired:
        return f"it did not answer `--help` and `--version` within {PROBE_LIMIT:g} s"
    if help_text.code != 0:
        return f"it cannot start ({first_line(help_text.errors + help_text.output)})"
    flags = frozenset(re.findall(r"--[a-z][\w-]*", help_text.output + help_text.errors))
    missing = [flag for flag in NEEDED_FLAGS if flag not in flags]
    if missing:
        return f"it is too old: it does not know {', '.join(missing)}"
    stated = first_line(version.output + version.errors) if version.code == 0 else "unknown version"
    return Assembler(path, stated, flags)


def command_line(
    assembler: Assembler,
    source: Path,
    target: Path,
    *,
    arch: str = "a2a3",
    level: int = 3,
    passes: Path | None = None,
) -> tuple[str, ...]:
    """The command that turns a `.pto` into C++.

    `level` 3 takes the addresses of the text, 2 lets the assembler plan the memory. With `passes` the assembler writes
    its own intermediate forms there.

    Raises:
        LabError (E664): an unknown architecture or level.
    """
    if arch not in ARCHITECTURES:
        raise LabError([Diagnostic(BAD_REQUEST, f"no architecture is called {arch!r}; there are `a2a3` and `a5`")])
    if level not in (2, 3):
        raise LabError([Diagnostic(BAD_REQUEST, f"ptoas level {level} does not exist here; 2 or 3 does")])
    command = [str(assembler.path), str(source), "-o", str(target), "--enable-insert-sync"]
    command += [f"--pto-level=level{level}", "--pto-arch", ARCHITECTURES[arch]]
    if passes is not None:
        command += ["--mlir-print-ir-after-all", "--mlir-print-ir-module-scope", f"--mlir-print-ir-tree-dir={passes}"]
    return tuple(command)


def assemble(
    text: str,
    *,
    name: str = "kernel",
    arch: str = "a2a3",
    level: int = 3,
    passes: Path | None = None,
    assembler: Assembler | None = None,
    time_limit: float = TIME_LIMIT,
) -> Assembled:
    """The C++ of a `.pto` text, written by the user's `ptoas`.

    `name` names the text in messages (`<name>.pto`). Errors of the assembler keep their lines in the text. With
    `passes` (`ptoas_passes/<name>` in a build folder) the folder is made, and the assembler writes what each of its
    passes leaves there.

    Raises:
        LabError: E660 or E661 no usable assembler, E662 it refuses the text, E663 it is not done within `time_limit`
            seconds, E664 a wrong `arch` or `level`.
    """
    assembler = assembler or find_ptoas()
    with tempfile.TemporaryDirectory(prefix="pypto_lab_ptoas_") as folder:
        source, target = Path(folder) / f"{name}.pto", Path(folder) / f"{name}.cpp"
        command = command_line(assembler, source, target, arch=arch, level=level, passes=passes)
        source.write_text(text, encoding="utf-8")
        if passes is not None:
            passes.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        try:
            outcome = run(command, time_limit, None)
        except subprocess.TimeoutExpired:
            message = f"ptoas was not done with {name}.pto after {time_limit:g} s and was ended"
            raise LabError([Diagnostic(TOO_SLOW, message, hint="raise time_limit")]) from None
        except OSError as error:
            message = f"{assembler.path} cannot be started ({error.strerror or error})"
            raise LabError([Diagnostic(UNUSABLE, message, hint=_PYPI_HINT)]) from None
        seconds = time.monotonic() - started
        remarks = _diagnostics(outcome.errors, source, f"{name}.pto")
        if outcome.code != 0 or not target.is_file():
            raise LabError(_refusal(outcome, remarks, name), {f"{name}.pto": text})
        written = target.read_text(encoding="utf-8")
    warnings = tuple(d for d in remarks if d.severity is Severity.WARNING)
    dumped = () if passes is None else tuple(sorted(p for p in passes.rglob("*") if p.is_file()))
    return Assembled(written, command, assembler.version, seconds, warnings, dumped)


def _refusal(outcome: Outcome, remarks: Sequence[Diagnostic], name: str) -> list[Diagnostic]:
    errors = [d for d in remarks if d.severity is Severity.ERROR]
    if errors:
        return errors
    if outcome.code == 0:
        return [Diagnostic(REFUSED, f"ptoas ended well but wrote no C++ for {name}.pto")]
    how = f"was ended by signal {-outcome.code}" if outcome.code < 0 else f"ended with code {outcome.code}"
    return [Diagnostic(REFUSED, f"ptoas {how} on {name}.pto: {first_line(outcome.errors + outcome.output)}")]


def _diagnostics(errors: str, source: Path, shown: str) -> list[Diagnostic]:
    """The assembler's `file:line:column: error: text` lines; those on other files keep their own name."""
    found = []
    for line in errors.splitlines():
        match = _MESSAGE.match(line)
        if match is None:
            continue
        at, column = int(match["line"]), int(match["column"])
        file = shown if Path(match["file"]).name == source.name else match["file"]
        severity = Severity.ERROR if match["kind"] == "error" else Severity.WARNING
        code = REFUSED if severity is Severity.ERROR else REMARK
        found.append(Diagnostic(code, f"ptoas: {match['text']}", Span(file, at, column, at, column + 1), severity))
    return found
