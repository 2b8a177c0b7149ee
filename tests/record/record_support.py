"""What the recorder's tests share: snapshot recordings as an oracle, random programs, kernels read from dumps."""

from __future__ import annotations

import linecache
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir.nodes import Program
from pypto_lab.record import instrument as ins
from pypto_lab.record import probes as probes_module
from pypto_lab.record import recorder
from pypto_lab.record.events import OpaqueValue
from pypto_lab.record.recompute import recorded_content
from pypto_lab.record.recording import Recording
from pypto_lab.record.trace import Cells, same_cells
from pypto_lab.torch_codegen.lines import Script
from pypto_lab.torch_codegen.preamble import helpers_in, preamble

DATA = Path(__file__).parent.parent / "data"

Snapshot = dict[tuple[int, str], Any]


def function_from(text: str, name: str, file: str) -> Any:
    """A function made from text, whose source `inspect` finds."""
    text = textwrap.dedent(text).strip("\n") + "\n"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"torch": torch, "__name__": "random_programs"}
    exec(compile(text, file, "exec"), scope)
    return scope[name]


def script_from(text: str, entry: str) -> Script:
    """A hand-written script with the part of the runtime that it uses."""
    text = textwrap.dedent(text).strip("\n") + "\n"
    return Script(f"{preamble(helpers_in(text))}\n{text}", entry, {})


def dumps_of(name: str) -> list[Path]:
    return sorted((DATA / "dumps" / name).rglob("*.py"))


def program_of_dump(path: Path) -> Program:
    return read_dump(path.read_text(encoding="utf-8"), path.name)


@contextmanager
def snapshots() -> Iterator[list[Snapshot]]:
    """While open, every recording also clones all variables of all running functions after each step.

    The list then holds, for step k at index k - 1, (frame, name) -> content: what is true by construction.
    """
    taken: list[Snapshot] = []

    class SnapshotProbes(probes_module.Probes):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            taken.clear()
            self.running: dict[int, Any] = {}
            self.plain = self.extend
            self.extend = self.snap

        def snap(self, entry: tuple[int, Any, Any]) -> None:
            self.plain(entry)
            code, frame, payload = entry
            if code == ins.CODE_LEAVE:
                self.running.pop(frame, None)
            if not (code >= 0 or code == ins.CODE_ENTER or (code == ins.CODE_EVENT and payload[0] == "blocked")):
                return
            python = sys._getframe(1)
            while python is not None:
                if ins.FRAME in python.f_locals:
                    self.running[python.f_locals[ins.FRAME]] = python
                python = python.f_back
            taken.append({k: v for f in self.running for k, v in _variables(f, self.running[f]).items()})

    original = recorder.Probes
    recorder.Probes = SnapshotProbes  # type: ignore[misc]
    try:
        yield taken
    finally:
        recorder.Probes = original  # type: ignore[misc]


def _variables(frame: int, python: Any) -> Snapshot:
    return {(frame, n): cloned(v) for n, v in python.f_locals.items() if not n.startswith("_pl") and _is_data(v)}


def _is_data(value: Any) -> bool:
    return isinstance(value, (torch.Tensor, int, float, bool, str, tuple, list))


def cloned(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        content = recorded_content(value)
        return Cells(content.raw.copy(), content.dtype, content.valid)
    if isinstance(value, (tuple, list)):
        return tuple(cloned(v) for v in value)
    return value


def assert_matches(recording: Recording, position: int, expected: Snapshot) -> None:
    """Every variable the snapshot saw has that value in the recording, bit for bit."""
    for (frame, name), content in expected.items():
        bound = recording.index.bound(frame, name, position)
        assert bound is not None, f"step {position}: {name} of frame {frame} is not recorded"
        found = recording.index.content(bound.value, position)
        if isinstance(found, OpaqueValue):
            continue
        step = recording.index.step(position)
        assert same_cells(found, content), f"{step}: {name} of frame {frame}:\n{found}\nexpected\n{content}"
