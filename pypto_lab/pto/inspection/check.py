"""Checks a build folder without executing anything in it: each file by itself, and the files against each other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.span import Span
from pypto_lab.pto.decode import Function, decode
from pypto_lab.pto.dialect.verify import verify
from pypto_lab.pto.flags import check_flags
from pypto_lab.pto.inspection.config_file import Config, read_config
from pypto_lab.pto.inspection.entries import entry_findings
from pypto_lab.pto.inspection.findings import BAD_META, UNREADABLE, warning
from pypto_lab.pto.inspection.folder import BuildFolder, read_build_folder
from pypto_lab.pto.inspection.lost import lost_carries, unread_tiles
from pypto_lab.pto.inspection.submits import argument_count, is_whole, orchestration_findings
from pypto_lab.pto.meta import BACKENDS, meta
from pypto_lab.pto.parse import Unit, read


def check_build(path: Path | str, *, dump: Path | None = None) -> list[Diagnostic]:
    """Everything a look at the files of a build folder finds, file by file.

    `.pto` texts are read and verified (E600 to E607); `kernel_config.py` is read, never executed, and names files that
    are there and a runtime that exists; each wrapper's entry fits the `.pto` (E675); the orchestration submits kernels
    that the configuration has (E676); set and wait flags of C++ are checked (E670 to E672); the parameters of
    `compiled_meta.json` are those of the orchestration and of the last dump (E677); a loop's carried tile is where the
    next trip reads it (E678 with a dump, W678 without). What is missing is W673, a file that was cut off E673.

    Args:
        dump: the last dump, where the folder has no `passes_dump/`.

    Raises:
        LabError (E690): the folder is no build folder.
    """
    return _Check(read_build_folder(path, dump=dump)).findings()


class _Check:
    def __init__(self, folder: BuildFolder) -> None:
        self.folder = folder
        self.found: list[Diagnostic] = []
        self.functions: dict[str, Function] = {}

    def findings(self) -> list[Diagnostic]:
        folder = self.folder
        span = Span(str(folder.path), 1, 1, 1, 2)
        self.found += [warning("W673", f"missing {what}", span) for what in folder.missing]
        for path in folder.units.values():
            self._unit(path)
        config = self._config()
        program = self._program()
        for kernel, path in folder.kernels.items():
            self._kernel(kernel, path)
        for path in folder.cpp:
            self._cpp(path)
        for path in folder.orchestrations.values():
            self._orchestration(path, config)
        self._meta(program)
        if program is not None:
            self.found += lost_carries(program)
        return self.found

    def _unit(self, path: Path) -> None:
        unit = self._tried(lambda: read(path))
        if unit is None:
            return
        assert isinstance(unit, Unit)
        found = verify(unit)
        self.found += found
        functions = self._tried(lambda: dict(decode(unit)))
        if isinstance(functions, dict):
            self.functions |= functions
            for function in functions.values():
                self.found += unread_tiles(function)

    def _config(self) -> Config | None:
        path = self.folder.config
        config = None if path is None else self._tried(lambda: read_config(path))
        if isinstance(config, Config):
            self.found += config.findings
            return config
        return None

    def _program(self) -> n.Program | None:
        if not self.folder.dumps:
            return None
        last = self.folder.dumps[-1]
        program = self._tried(lambda: read_dump(last.read_text(encoding="utf-8"), str(last)))
        return program if isinstance(program, n.Program) else None

    def _kernel(self, kernel: str, path: Path) -> None:
        text = self._text(path)
        function = self.functions.get(kernel)
        if text is not None and function is not None:
            self.found += entry_findings(str(path), text, kernel, function)

    def _cpp(self, path: Path) -> None:
        text = self._text(path)
        if text is None:
            return
        if not is_whole(text):
            line = text.count("\n") + 1
            message = "brackets are left open; was the file cut off?"
            self.found.append(Diagnostic(UNREADABLE, message, Span(str(path), line, 1, line, 2)))
            return
        self.found += check_flags(text, file=str(path)).findings

    def _orchestration(self, path: Path, config: Config | None) -> None:
        text = self._text(path)
        if text is None:
            return
        starts = config is not None and (config.orchestration is None or config.orchestration.name == path.name)
        self.found += orchestration_findings(str(path), text, config if starts else None)

    # meta

    def _meta(self, program: n.Program | None) -> None:
        path = self.folder.meta
        if path is None:
            return
        text = self._text(path)
        content = None if text is None else self._json(path, text)
        if content is None:
            return
        for message in _meta_misfits(content, self._counts(), program):
            self.found.append(Diagnostic(BAD_META, message, Span(str(path), 1, 1, 1, 2)))

    def _json(self, path: Path, text: str) -> dict[str, Any] | None:
        try:
            content = json.loads(text)
        except ValueError as error:
            line = getattr(error, "lineno", 1)
            message = f"the file is no JSON ({getattr(error, 'msg', error)}); was it cut off?"
            self.found.append(Diagnostic(UNREADABLE, message, Span(str(path), line, 1, line, 2)))
            return None
        if not isinstance(content, dict) or not isinstance(content.get("params"), list):
            message = "the file has no list of parameters"
            self.found.append(Diagnostic(BAD_META, message, Span(str(path), 1, 1, 1, 2)))
            return None
        return content

    def _counts(self) -> list[int]:
        texts = (self._text(p) for p in self.folder.orchestrations.values())
        counts = (argument_count(text) for text in texts if text is not None)
        return [count for count in counts if count is not None]

    # helpers

    def _text(self, path: Path) -> str | None:
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            message = f"cannot be read: {error}"
            finding = Diagnostic(UNREADABLE, message, Span(str(path), 1, 1, 1, 2))
            if finding not in self.found:
                self.found.append(finding)
            return None

    def _tried(self, work: Any) -> object:
        """What a reader gives, None after noting what it refuses."""
        try:
            result: object = work()
        except LabError as error:
            self.found += [_placed(d, self.folder.path) for d in error.diagnostics]
            return None
        except (OSError, UnicodeDecodeError) as error:
            span = Span(str(self.folder.path), 1, 1, 1, 2)
            self.found.append(Diagnostic(UNREADABLE, f"cannot be read: {error}", span))
            return None
        return result


def _placed(finding: Diagnostic, folder: Path) -> Diagnostic:
    return finding if finding.span is not None else replace(finding, span=Span(str(folder), 1, 1, 1, 2))


def _meta_misfits(content: dict[str, Any], counts: list[int], program: n.Program | None) -> Iterator[str]:
    names = ", ".join(str(p.get("name")) for p in content["params"])
    if counts and len(content["params"]) not in counts:
        shown = " or ".join(str(c) for c in counts)
        yield f"it lists {len(content['params'])} parameters ({names}), the orchestration takes {shown}"
    if program is None:
        return
    arch = next((a for a, backend in BACKENDS.items() if backend == content.get("backend_type")), None)
    if arch is None:
        yield f"no backend is called {content.get('backend_type')!r}; there are {', '.join(BACKENDS.values())}"
        return
    try:
        stated = meta(program, arch, platform=content.get("platform"))
    except LabError:
        return  # several orchestrations: the dump does not say which one this is
    listed = stated["params"]
    assert isinstance(listed, list)
    if len(listed) != len(content["params"]):
        yield f"it lists {len(content['params'])} parameters ({names}), the last dump has {len(listed)}"
        return
    for ours, theirs in zip(listed, content["params"], strict=True):
        for key in ("name", "direction", "shape", "dtype"):
            if ours[key] != theirs.get(key):
                yield f"`{theirs.get('name')}`: {key} is {theirs.get(key)!r}, the last dump says {ours[key]!r}"
    if stated["num_return_types"] != content.get("num_return_types"):
        returned = stated["num_return_types"]
        yield f"it says {content.get('num_return_types')} results, the last dump has {returned}"
