"""The files of a build: what each is for, what became of it (executed, simulated, only written, missing), its text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pypto_lab.pto.build import MANIFEST, read_build

TEXTS = {
    ".pto": "pto", ".mlir": "pto", ".cpp": "cpp", ".cc": "cpp", ".h": "cpp", ".hpp": "cpp", ".py": "python",
    ".json": "json", ".txt": "text", ".log": "text", ".ini": "text", ".cmake": "text",
}  # fmt: skip
"""Endings of files that are shown as text, and in which language."""

STATES = {
    "executed": "executed here",
    "simulated": "simulated, its text not executed",
    "written": "only written",
    "missing": "missing",
}
ROLES = {
    "pto": "PTO module", "wrapper": "kernel wrapper", "ptoas": "assembler output", "orchestration": "orchestration",
    "config": "configuration", "meta": "metadata", "data": "data", "report": "report", "other": "other",
}  # fmt: skip
"""What a file is for, in words, in the order in which the groups stand; a role that is not here comes last."""

_LARGEST = 400_000
_MOST = 80
_FOLDERS = (("ptoas", "ptoas"), ("kernels", "wrapper"), ("orchestration", "orchestration"), ("data", "data"),
            ("report", "report"))  # fmt: skip
_NAMES = {"kernel_config.py": "config", "compiled_meta.json": "meta", "pypto_lab.json": "meta"}


@dataclass(frozen=True, slots=True)
class Artifact:
    """One file. `state` is one of :data:`STATES`; `text` is empty for a file that is missing or not text."""

    name: str
    role: str
    state: str
    note: str
    text: str
    language: str

    def data(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "role": ROLES.get(self.role, self.role),
            "state": self.state,
            "words": STATES.get(self.state, self.state),
            "note": self.note,
            "text": self.text,
            "language": self.language,
        }


def artifacts(build: Any) -> list[Artifact]:
    """The files of a build (an object with `.path` and `.files`), or the text files below a folder, by role.

    Raises LabError for a build whose manifest is damaged.
    """
    if build is None:
        return []
    root = Path(getattr(build, "path", build))
    if not hasattr(build, "files") and (root / MANIFEST).is_file():
        build = read_build(root)
    listed = getattr(build, "files", None)
    found = list(_listed(root, listed) if listed is not None else _below(root))
    order = [*ROLES, *dict.fromkeys(a.role for a in found)]
    return sorted(found, key=lambda a: order.index(a.role))


def _listed(root: Path, files: Any) -> Iterator[Artifact]:
    """Files that a build names; their state is the build's word for it."""
    for f in files:
        name = str(f.name)
        if _is_dump(name) or f.role == "dump":
            continue
        path = root / name
        state = str(getattr(f.state, "value", f.state))
        text, why = _text(path) if path.is_file() else ("", "")
        yield Artifact(name, str(f.role), state, str(f.note or why), text, _language(name))


def _below(root: Path) -> Iterator[Artifact]:
    """Text files below a folder of which nothing else is known: they are there, so they have been written."""
    count = 0
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.suffix not in TEXTS or not path.is_file() or _is_dump(name):
            continue
        count += 1
        if count > _MOST:
            return
        text, why = _text(path)
        yield Artifact(name, _role(name), "written", why, text, _language(name))


def _is_dump(name: str) -> bool:
    return any(part.startswith("passes") for part in PurePosixPath(name).parts[:-1])


def _role(name: str) -> str:
    parts = PurePosixPath(name).parts
    if parts[-1].endswith(".pto"):
        return "pto"
    by_folder = (role for folder, role in _FOLDERS if any(p.startswith(folder) for p in parts[:-1]))
    return _NAMES.get(parts[-1]) or next(by_folder, "other")


def _language(name: str) -> str:
    return TEXTS.get(PurePosixPath(name).suffix, "text")


def _text(path: Path) -> tuple[str, str]:
    """A file's text, or why it is not shown."""
    size = path.stat().st_size
    if path.suffix not in TEXTS:
        return "", f"not text, {size:,} bytes"
    if size > _LARGEST:
        return "", f"not shown: {size:,} bytes"
    return path.read_text(encoding="utf-8", errors="replace"), ""
