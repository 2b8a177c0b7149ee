"""`pypto-lab doctor`: what is installed here, what is missing, and what each missing part would add."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """One thing the lab uses."""

    name: str
    found: bool
    state: str
    purpose: str
    required: bool = False

    @property
    def fine(self) -> bool:
        return self.found or not self.required

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "found": self.found,
            "required": self.required,
            "state": self.state,
            "purpose": self.purpose,
        }


PACKAGES: tuple[tuple[str, str, bool], ...] = (
    ("torch", "runs the scripts", True),
    ("numpy", "inputs and golden functions", True),
    ("greenlet", "runs the lanes of mixed kernels in a repeatable order", True),
    ("typer", "this command", True),
    ("rich", "tables in the terminal", True),
    ("ipython", "the %%pypto magic", True),
    ("graphviz", "writes IR graphs as DOT", True),
    ("jupyterlab", "`pypto-lab lab` and the notebooks", False),
    ("anywidget", "the views in a notebook", False),
    ("plotly", "charts of the numbers", False),
    ("xdsl", "reads and runs .pto modules", False),
)
"""(package, what it is for, whether the lab needs it)."""


def examine() -> list[Part]:
    """Every part, found or not."""
    return [_python(), *_packages(), _dot(), _real_pypto(), *_artifact_tools()]


def _python() -> Part:
    version = platform.python_version()
    return Part("Python", sys.version_info >= (3, 11), version, "3.11 or newer", True)


def _packages() -> Iterator[Part]:
    for name, purpose, required in PACKAGES:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield Part(name, False, "missing", purpose, required)
        else:
            yield Part(name, True, version, purpose, required)


def _dot() -> Part:
    found = shutil.which("dot")
    return Part("dot", found is not None, found or "missing", "Graphviz's own layout of IR graphs; the lab has one too")


def _real_pypto() -> Part:
    from pypto_lab.compat.loader import real_pypto_installed

    purpose = "the compiler itself (hw-native-sys/pypto), for its own dumps; files run without it"
    if real_pypto_installed():
        return Part("pypto", True, "installed", purpose)
    if importlib.util.find_spec("pypto") is not None:
        return Part("pypto", False, "another package of that name (PyPI)", purpose)
    return Part("pypto", False, "missing", purpose)


def _artifact_tools() -> Iterator[Part]:
    """What takes a `.pto` further than the lab does: the assembler, PTO-ISA's headers, a compiler for them."""
    from pypto_lab.pto.simulation import probe

    for part in probe().parts:
        yield Part(part.name, part.ok, part.found or part.problem, part.adds)
