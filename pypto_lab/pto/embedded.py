"""The embedded engine: lowers a program with the lab's own passes and writes everything a build folder holds."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError, Severity
from pypto_lab.ir.enums import FunctionType
from pypto_lab.ir.printer import print_program
from pypto_lab.lowering.pipeline import Lowered, lower
from pypto_lab.pto.build import MANIFEST, Build, BuildFile, foreign, manifest
from pypto_lab.pto.config import RuntimeKind, kernel_config, runtime_kind
from pypto_lab.pto.emit import emit
from pypto_lab.pto.flags import check_flags
from pypto_lab.pto.folder import check_place, new_folder
from pypto_lab.pto.meta import meta
from pypto_lab.pto.orchestration import orchestration
from pypto_lab.pto.ptoas import NOT_FOUND, Assembler, assemble, find_ptoas
from pypto_lab.pto.wrapper import kernel_entry, kernel_wrapper

Progress = Callable[[str], None]
"""Told in a few words what is being done."""

_INCOMPLETE = """\
// Kernel {name}: the entry only, written by PyPTO Lab.
// The function it calls is what the assembler makes of ptoas/{unit}.pto; there was no such text ({why}).
#error "incomplete: compile again where ptoas is installed (PTOAS_ROOT)"

"""


def silent(_words: str) -> None:
    """Progress that nobody watches."""


def build_embedded(
    program: n.Program,
    out: Path | str,
    arch: str = "a2a3",
    *,
    runtime: str | RuntimeKind = RuntimeKind.TENSORMAP_AND_RINGBUFFER,
    dump_ptoas_passes: bool = False,
    use_ptoas: bool = True,
    progress: Progress = silent,
) -> Build:
    """Lowers a program as the front end gives it, and writes its build folder at `out`.

    The folder appears at once, when all of it is written; an earlier build there is replaced. The same program gives
    the same bytes. What the user's `ptoas` would add is left out where there is none (or `use_ptoas` is off), and
    listed as missing. Raises LabError: what the passes and the emission refuse, E655 for an unknown runtime, E691 and
    E694 for a place that cannot be written or is taken.
    """
    kind, target = runtime_kind(runtime), Path(out).absolute()
    check_place(target, foreign)
    progress("lowering")
    lowered = lower(program, arch)
    progress("writing .pto")
    maker = _Maker(lowered, kind, dump_ptoas_passes, _short_names(program.sources))
    maker.dumps()
    maker.units(emit(lowered.program, arch))
    assembled = maker.assembled(progress) if use_ptoas else maker.unassembled("not asked for")
    maker.wrappers(assembled)
    maker.launching()
    progress("writing the folder")
    files = tuple(maker.files)
    build = Build(target, arch, "embedded", (*files, BuildFile(MANIFEST, "meta")), program.name, lowered)
    with new_folder(target, foreign) as folder:
        _write(folder, {**maker.texts, MANIFEST: manifest(build)})
    return replace(build, remarks=tuple(maker.remarks))


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


@dataclass(slots=True)
class _Maker:
    """Collects the texts of a build, with what can be said of each file."""

    lowered: Lowered
    runtime: RuntimeKind
    ptoas_passes: bool
    short: Mapping[str, str]
    texts: dict[str, str] = field(default_factory=dict)
    files: list[BuildFile] = field(default_factory=list)
    remarks: list[Diagnostic] = field(default_factory=list)

    @property
    def program(self) -> n.Program:
        return self.lowered.program

    def add(self, name: str, role: str, text: str, note: str = "") -> None:
        self.texts[name] = text
        self.files.append(BuildFile(name, role, "written", note))

    def lacks(self, name: str, role: str, note: str) -> None:
        self.files.append(BuildFile(name, role, "missing", note))

    def dumps(self) -> None:
        for stage in self.lowered.stages:
            self.add(f"passes_dump/{stage.file_name}", "dump", print_program(stage.program))

    def units(self, texts: Mapping[str, str]) -> None:
        for name, text in texts.items():
            self.add(f"ptoas/{name}.pto", "pto", _with_short_places(text, self.short))

    # --- what the assembler adds

    def assembled(self, progress: Progress) -> dict[str, str]:
        """The assembler's C++ by unit; a unit it refuses is missing, with the reason as a remark."""
        progress("looking for ptoas")
        try:
            assembler = find_ptoas()
        except LabError as error:
            if error.diagnostics[0].code == NOT_FOUND:
                return self.unassembled("there is no ptoas here (PTOAS_ROOT names its folder)")
            self._remark(error)
            return self.unassembled(f"no usable ptoas here ({error.diagnostics[0].code})")
        found = {}
        for name in self._units():
            progress(f"ptoas: {name}")
            text = self._assemble(name, assembler)
            if text is not None:
                found[name] = text
        return found

    def unassembled(self, why: str) -> dict[str, str]:
        for name in self._units():
            self.lacks(f"ptoas/{name}.cpp", "ptoas", why)
        return {}

    def _units(self) -> list[str]:
        return [PurePath(f.name).stem for f in self.files if f.role == "pto"]

    def _assemble(self, name: str, assembler: Assembler) -> str | None:
        with tempfile.TemporaryDirectory(prefix="pypto_lab_passes_") as scratch:
            passes = Path(scratch) if self.ptoas_passes else None
            try:
                made = assemble(
                    self.texts[f"ptoas/{name}.pto"],
                    name=name, arch=self.lowered.arch, passes=passes, assembler=assembler,
                )  # fmt: skip
            except LabError as error:
                self._remark(error)
                self.lacks(f"ptoas/{name}.cpp", "ptoas", f"ptoas did not make it ({error.diagnostics[0].code})")
                return None
            for path in sorted(p for p in Path(scratch).rglob("*") if p.is_file()):
                inner = path.relative_to(scratch).as_posix()
                self.add(f"ptoas_passes/{name}/{inner}", "ptoas", path.read_text(encoding="utf-8", errors="replace"))
        self.add(f"ptoas/{name}.cpp", "ptoas", made.text)
        self.remarks += made.warnings
        self.remarks += check_flags(made.text, file=f"ptoas/{name}.cpp").findings
        return made.text

    def _remark(self, error: LabError) -> None:
        """What kept the assembler from its work: the build goes on without it."""
        self.remarks += [replace(d, severity=Severity.WARNING) for d in error.diagnostics]

    # --- what the runtime needs

    def wrappers(self, assembled: Mapping[str, str]) -> None:
        for unit, function in kernels_of(self.program):
            core = "aic" if function.func_type is FunctionType.AIC else "aiv"
            name = f"kernels/{core}/{function.name}.cpp"
            try:
                if unit in assembled:
                    self.add(name, "wrapper", kernel_wrapper(function, assembled[unit], self.program))
                    continue
                why = next(f.note for f in self.files if f.name == f"ptoas/{unit}.cpp")
                head = _INCOMPLETE.format(name=function.name, unit=unit, why=why)
                self.add(name, "wrapper", head + kernel_entry(function, self.program), "its entry only; needs ptoas")
            except LabError as error:
                self.lacks(name, "wrapper", _in_words(error))

    def launching(self) -> None:
        """Orchestration, configuration and parameters."""
        start = next((f for f in self.program.functions.values() if f.func_type is FunctionType.Orchestration), None)
        name = f"orchestration/{start.name if start else self.program.name}.cpp"
        arch, runtime = self.lowered.arch, self.runtime
        self._try(name, "orchestration", lambda: orchestration(self.program, arch, runtime))
        self._try("kernel_config.py", "config", lambda: kernel_config(self.program, runtime=self.runtime))
        self._try("compiled_meta.json", "meta", lambda: json.dumps(meta(self.program, arch), indent=2))

    def _try(self, name: str, role: str, make: Callable[[], str]) -> None:
        try:
            self.add(name, role, make())
        except LabError as error:
            self.lacks(name, role, _in_words(error))


def _in_words(error: LabError) -> str:
    first = error.diagnostics[0]
    return f"{first.code}: {first.message}"


def kernels_of(program: n.Program) -> Iterator[tuple[str, n.Function]]:
    """(unit, kernel) of every kernel that has a text."""
    from pypto_lab.pto.emit.unit import units

    for unit, functions in units(program):
        for function in functions:
            yield unit, function


# --- places -----------------------------------------------------------------------------------------------------------


def _short_names(files: Iterable[str]) -> dict[str, str]:
    """Each source file by the shortest end of its path that no other file shares: a build may travel."""
    paths = {file: PurePath(file).parts for file in files}
    short = {}
    for file, parts in paths.items():
        others = [p for f, p in paths.items() if f != file]
        size = next((k for k in range(1, len(parts)) if all(p[-k:] != parts[-k:] for p in others)), len(parts))
        short[file] = "/".join(parts[-size:])
    return short


def _with_short_places(text: str, short: Mapping[str, str]) -> str:
    return re.sub(r'loc\("([^"]*)"', lambda m: f'loc("{short.get(m[1]) or PurePath(m[1]).name}"', text)
