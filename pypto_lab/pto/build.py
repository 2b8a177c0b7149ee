"""What a build folder is: its files, what each is for and what has been done with it, and how to run and read it.

The layout is the compiler's: `passes_dump/`, `ptoas/`, `kernels/`, `orchestration/`, `kernel_config.py`,
`compiled_meta.json`; and `pypto_lab.json`, which says what the lab did and what it left undone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.lowering.pipeline import Lowered
from pypto_lab.pto.build_codes import NOT_A_BUILD

if TYPE_CHECKING:  # the machine needs xDSL, which takes its time to import
    from pypto_lab.pto.machine.build import BuildResult

MANIFEST = "pypto_lab.json"
"""The file by which the lab knows its own builds."""

ROLES = ("dump", "pto", "ptoas", "wrapper", "orchestration", "config", "meta")
STATES = ("executed", "simulated", "written", "missing")
ENGINES = ("embedded", "pypto")

AS_TORCH = "executed: orchestration of the last dump, as PyTorch by pypto_lab"
_HEADINGS = {
    "simulated": "simulated, the text itself not executed",
    "written": "only written, executed by nobody",
    "missing": "missing",
}


@dataclass(frozen=True, slots=True)
class BuildFile:
    """One file of a build. `name` is its path below the folder, with `/`.

    `state`: "executed" (this text was read from disk and run), "simulated" (what it stands for ran, this text did
    not), "written" (it lies there, nobody ran it), "missing" (the layout has it, this build does not; `note` says why).
    """

    name: str
    role: str
    state: str = "written"
    note: str = ""

    def __post_init__(self) -> None:
        if self.role not in ROLES or self.state not in STATES:
            raise ValueError(f"{self.name}: no role {self.role!r} or no state {self.state!r}")

    def to_json(self) -> dict[str, str]:
        return {"name": self.name, "role": self.role, "state": self.state, "note": self.note}


@dataclass(frozen=True, slots=True)
class Build:
    """A folder of artifacts. `lowered` are the stages it was made from, where this process made it; `remarks` what the
    assembler and the check of its output said."""

    path: Path
    arch: str
    engine: str
    files: tuple[BuildFile, ...]
    program: str = ""
    lowered: Lowered | None = field(default=None, compare=False, repr=False)
    remarks: tuple[Diagnostic, ...] = field(default=(), compare=False, repr=False)

    @property
    def missing(self) -> tuple[BuildFile, ...]:
        return tuple(f for f in self.files if f.state == "missing")

    def of_role(self, role: str) -> tuple[BuildFile, ...]:
        """The files there are of a role."""
        return tuple(f for f in self.files if f.role == role and f.state != "missing")

    def text(self, name: str) -> str:
        """The text of a file on disk. Raises LabError E690 when it is not there."""
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except OSError as error:
            known = ", ".join(f.name for f in self.files if f.role not in ("dump",) and f.state != "missing")
            raise LabError([Diagnostic(NOT_A_BUILD, f"no {name} in {self.path}", hint=f"it has {known}")]) from error

    def run(self, values: Mapping[str, Any], seed: int = 0) -> BuildResult:
        """Executes the `.pto` texts as they now stand on disk, on copies of `values` (by parameter name).

        Orchestration runs as the IR of the last dump. `seed` chooses the order of lanes. Raises LabError as
        :func:`pypto_lab.pto.machine.build.run_build`.
        """
        from pypto_lab.pto.machine.build import run_build

        return run_build(self.path, values, seed=seed)

    def after(self, result: BuildResult) -> Build:
        """This build with what a run executed marked as such."""
        units = {_below(self.path, run.unit) for run in result.runs}
        dump = None if result.dump is None else _below(self.path, result.dump)
        return replace(self, files=tuple(_ran(file, units, dump) for file in self.files))

    def to_json(self) -> dict[str, Any]:
        """`{path, arch, engine, program, files: [{name, role, state, note}], remarks: [diagnostic]}`."""
        return {
            "path": self.path.as_posix(),
            "arch": self.arch,
            "engine": self.engine,
            "program": self.program,
            "files": [f.to_json() for f in self.files],
            "remarks": [d.to_json() for d in self.remarks],
        }

    def __str__(self) -> str:
        """Every file, with what was executed and what was only written; there is no word for "all is well"."""
        name = self.program or self.path.name
        lines = [f"{name} for {self.arch}, engine {self.engine}, in {self.path}"]
        for heading, files in self._groups():
            lines += [f"  {heading}:", *(f"    {row}" for row in _rows(files))]
        lines += [row for remark in self.remarks for row in remark.render().splitlines()]
        return "\n".join(lines)

    def summary(self) -> tuple[str, ...]:
        """What was executed and what was not, in a line each."""
        return tuple(
            f"{heading}: {', '.join(f.name for f in files if f.role not in ('dump', 'meta') or f.state == 'executed')}"
            for heading, files in self._groups()
            if any(f.role not in ("dump", "meta") or f.state == "executed" for f in files)
        )

    def _groups(self) -> list[tuple[str, list[BuildFile]]]:
        """Files by what was done with them, each group with its words; no group is empty."""
        from pypto_lab.pto.machine.findings import EXECUTED

        groups: dict[str, list[BuildFile]] = {heading: [] for heading in (EXECUTED, AS_TORCH, *_HEADINGS.values())}
        for file in self.files:
            ran = AS_TORCH if file.role == "dump" else EXECUTED
            groups[_HEADINGS.get(file.state, ran)].append(file)
        return [(heading, files) for heading, files in groups.items() if files]


def _below(folder: Path, file: str) -> str:
    path = Path(file)
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_posix()


def _ran(file: BuildFile, units: Iterable[str], dump: str | None) -> BuildFile:
    if file.name in units or file.name == dump:
        return replace(file, state="executed")
    if file.role == "orchestration" and file.state == "written" and dump is not None:
        return replace(file, state="simulated", note=_joined(file.note, "the last dump ran instead"))
    return file


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def _rows(files: list[BuildFile]) -> list[str]:
    """A line a file; dumps together."""
    dumps = [f for f in files if f.role == "dump"]
    rest = [f for f in files if f.role != "dump"]
    rows = [f"{f.name}{': ' if f.note else ''}{f.note}" for f in rest]
    if len(dumps) == 1:
        return [*rows, f"{dumps[0].name}{': ' if dumps[0].note else ''}{dumps[0].note}"]
    return [*rows, f"{dumps[0].name} .. {Path(dumps[-1].name).name}: {len(dumps)} dumps"] if dumps else rows


# --- the folder on disk -----------------------------------------------------------------------------------------------


def manifest(build: Build) -> str:
    """The text of `pypto_lab.json`."""
    content = {
        "schema": 1,
        "writer": "pypto_lab",
        "program": build.program,
        "arch": build.arch,
        "engine": build.engine,
        "files": [f.to_json() for f in build.files],
    }
    return json.dumps(content, indent=2) + "\n"


def read_build(path: Path | str) -> Build:
    """The build in a folder: the lab's own, or one of the compiler's.

    Raises LabError E690 for a folder without `.pto` texts, or whose `pypto_lab.json` is damaged.
    """
    folder = Path(path).absolute()
    stated = _manifest_of(folder)
    if stated is not None:
        files = tuple(BuildFile(**file) for file in stated["files"])
        return Build(folder, stated["arch"], stated["engine"], files, stated["program"])
    found = scan(folder)
    if not any(f.role == "pto" for f in found):
        hint = "a build folder holds ptoas/ or kernels/ with .pto files, and passes_dump/"
        raise LabError([Diagnostic(NOT_A_BUILD, f"{folder} is not a build folder", hint=hint)])
    meta = _meta_of(folder)
    return Build(folder, "a5" if meta.get("platform", "").startswith("a5") else "a2a3", "pypto", found)


def scan(folder: Path) -> tuple[BuildFile, ...]:
    """The files of a folder with the roles their places give them."""
    found = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        role = _role(name)
        if role is not None and path.is_file():
            found.append(BuildFile(name, role))
    return tuple(found)


def _role(name: str) -> str | None:
    top, _, _ = name.partition("/")
    if "__pycache__" in name:
        return None
    if name.endswith(".pto"):
        return "pto"
    if name == "kernel_config.py":
        return "config"
    places = {"passes_dump": "dump", "ptoas": "ptoas", "ptoas_passes": "ptoas", "kernels": "wrapper"}
    return {**places, "orchestration": "orchestration"}.get(top, "meta")


def foreign(folder: Path) -> list[str] | None:
    """What lies in a build of the lab besides its files; None when the folder is no such build."""
    try:
        stated = _manifest_of(folder)
    except LabError:
        return None
    if stated is None:
        return None
    known = {file["name"] for file in stated["files"] if file["state"] != "missing"}
    here = (p for p in sorted(folder.rglob("*")) if not p.is_dir() and p.parent.name != "__pycache__")
    return [name for p in here if (name := p.relative_to(folder).as_posix()) not in known]


def _manifest_of(folder: Path) -> dict[str, Any] | None:
    """The content of `pypto_lab.json`, None where there is none. Raises LabError E690 when it is damaged."""
    place = folder / MANIFEST
    if not place.is_file():
        return None
    try:
        content = json.loads(place.read_text(encoding="utf-8"))
        stated = {key: content[key] for key in ("writer", "program", "arch", "engine", "files")}
        for file in stated["files"]:
            BuildFile(**file)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError([Diagnostic(NOT_A_BUILD, f"{place} is damaged ({type(error).__name__}: {error})")]) from error
    return stated


def _meta_of(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads((folder / "compiled_meta.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
