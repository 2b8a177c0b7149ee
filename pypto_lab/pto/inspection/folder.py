"""What lies in a folder that a compiler made, by what it is for; and what the layout has that the folder has not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.pto.build_codes import NOT_A_BUILD

_CORES = ("aic_", "aiv_")


@dataclass(frozen=True, slots=True)
class BuildFolder:
    """The files of a build, by the name of the unit or kernel they belong to.

    `units` are `.pto` texts (one a kernel or group), `assembled` the C++ an assembler made of them, `kernels` the
    wrapped C++ of each kernel (or only its entry), `dumps` in the order of the passes. `missing` says in words what the
    layout has and this folder has not.
    """

    path: Path
    units: Mapping[str, Path]
    assembled: Mapping[str, Path]
    kernels: Mapping[str, Path]
    orchestrations: Mapping[str, Path]
    config: Path | None
    meta: Path | None
    dumps: tuple[Path, ...]
    missing: tuple[str, ...] = ()

    @property
    def cpp(self) -> tuple[Path, ...]:
        """Every C++ text of a kernel that says what its pipes do."""
        return (*self.assembled.values(), *(p for p in self.kernels.values() if p.suffix == ".cpp"))

    def name(self, path: Path) -> str:
        """A file's path below the folder."""
        return path.relative_to(self.path).as_posix() if path.is_relative_to(self.path) else path.as_posix()


def read_build_folder(path: Path | str, *, dump: Path | None = None) -> BuildFolder:
    """The files of a build folder, whoever made it. Nothing in it is executed.

    Args:
        dump: the last dump, where `passes_dump/` is not in the folder.

    Raises:
        LabError (E690): the folder holds no `.pto` text.
    """
    folder = Path(path)
    units = {p.stem: p for p in sorted(folder.rglob("*.pto")) if "ptoas_passes" not in p.parts}
    if not units:
        hint = "a build folder holds ptoas/ or kernels/ with .pto files"
        raise LabError([Diagnostic(NOT_A_BUILD, f"{folder} holds no `.pto`: it is no build folder", hint=hint)])
    dumps = tuple(sorted((folder / "passes_dump").glob("[0-9][0-9]_*.py"))) or ((dump,) if dump is not None else ())
    kernels = {p.stem: p for p in sorted((folder / "kernels").rglob("*.cpp"))}
    for entry in sorted((folder / "kernel_entry").glob("*.txt")):
        kernels.setdefault(_without_core(entry.stem), entry)
    found = BuildFolder(
        folder,
        units,
        {p.stem: p for p in sorted((folder / "ptoas").glob("*.cpp"))},
        kernels,
        {p.stem: p for p in sorted(folder.rglob("orchestration/*.cpp"))},
        _existing(folder / "kernel_config.py"),
        _existing(folder / "compiled_meta.json"),
        dumps,
    )
    return replace(found, missing=_missing(found))


def _existing(path: Path) -> Path | None:
    return path if path.is_file() else None


def _without_core(stem: str) -> str:
    return next((stem.removeprefix(core) for core in _CORES if stem.startswith(core)), stem)


def _missing(found: BuildFolder) -> tuple[str, ...]:
    parts = []
    if not found.dumps:
        parts.append("passes_dump/: nothing says how the kernels are launched")
    if not found.orchestrations:
        parts.append("orchestration/: nothing launches the kernels")
    if not found.assembled:
        parts.append("ptoas/*.cpp: the `.pto` texts were not assembled, or the C++ was not kept")
    if not any(p.suffix == ".cpp" for p in found.kernels.values()):
        only = " (only the entries are here)" if found.kernels else ""
        parts.append(f"kernels/*.cpp: no kernel is wrapped{only}")
    if found.config is None:
        parts.append("kernel_config.py: a runtime cannot start this build")
    if found.meta is None:
        parts.append("compiled_meta.json: nothing says what a caller hands over")
    return tuple(parts)
