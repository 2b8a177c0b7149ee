"""The files of a build, as text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TEXT = {".pto", ".cpp", ".h", ".hpp", ".py", ".json", ".txt", ".mlir", ".ini"}
_LARGEST = 400_000
_MOST = 60


@dataclass(frozen=True, slots=True)
class Artifact:
    name: str
    text: str

    def data(self) -> dict[str, Any]:
        return {"name": self.name, "text": self.text}


def artifacts(build: Any) -> list[Artifact]:
    """The text files below a build's folder (a path, or an object with `.path`), the compiler's dumps left out."""
    if build is None:
        return []
    root = Path(getattr(build, "path", build))
    out: list[Artifact] = []
    for path in sorted(root.rglob("*")):
        if path.suffix not in _TEXT or not path.is_file() or path.parent.name.startswith("passes"):
            continue
        if path.stat().st_size <= _LARGEST and len(out) < _MOST:
            text = path.read_text(encoding="utf-8", errors="replace")
            out.append(Artifact(path.relative_to(root).as_posix(), text))
    return out
