"""Names of files as they leave the machine: a saved page or widget says `kernel.py`, not where its author keeps it."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from typing import Any


def short_names(files: Iterable[str]) -> dict[str, str]:
    """Each file by its name alone; files of the same name by as many folders as tell them apart."""
    parts = {file: [p for p in file.replace("\\", "/").split("/") if p] or [file] for file in dict.fromkeys(files)}
    out: dict[str, str] = {}
    for file, own in parts.items():
        for count in range(1, len(own) + 1):
            end = own[-count:]
            if all(other is own or other[-count:] != end for other in parts.values()):
                break
        out[file] = "/".join(own[-count:])
    return out


class FileNames:
    """Replaces the paths of known files by their short names, in plain data and in text."""

    def __init__(self, files: Iterable[str]) -> None:
        self.names = short_names(files)
        self._longest_first = sorted((f for f, name in self.names.items() if f != name), key=len, reverse=True)

    def short(self, file: str) -> str:
        return self.names.get(file, file)

    def text(self, text: str) -> str:
        """The text with each path replaced, also where it is escaped for HTML or JSON."""
        for file in self._longest_first:
            for written in dict.fromkeys((file, html.escape(file), json.dumps(file)[1:-1])):
                text = text.replace(written, self.names[file])
        return text

    def data(self, value: Any) -> Any:
        """Plain data with each path replaced, in keys too."""
        if not self._longest_first:
            return value
        if isinstance(value, str):
            return self.text(value) if "/" in value or "\\" in value else value
        if isinstance(value, dict):
            return {self.data(k): self.data(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.data(v) for v in value]
        return value
