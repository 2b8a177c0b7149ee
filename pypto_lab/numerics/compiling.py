"""Runs a kernel at the stage `pto`: its program is compiled to a folder, and the texts on disk are executed."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from pypto_lab.ir.diagnostics import Diagnostic, LabError, did_you_mean
from pypto_lab.ir.enums import Direction
from pypto_lab.ir.nodes import Program
from pypto_lab.numerics.case import Values
from pypto_lab.pto.build import ENGINES, Build
from pypto_lab.pto.config import RuntimeKind
from pypto_lab.pto.embedded import Progress, build_embedded, silent
from pypto_lab.pto.installed import build_installed
from pypto_lab.pto.meta import BACKENDS

if TYPE_CHECKING:
    from pypto_lab.pto.machine.build import BuildResult


@dataclass(frozen=True, slots=True)
class PtoRun:
    """A build that was executed. `outputs` by plain name; `build` says which of its files were run."""

    build: Build
    result: BuildResult
    outputs: Values


def compile_to(
    program: Program,
    out: Path | str,
    arch: str = "a2a3",
    engine: str = "embedded",
    *,
    runtime: str | RuntimeKind = RuntimeKind.TENSORMAP_AND_RINGBUFFER,
    dump_ptoas_passes: bool = False,
    use_ptoas: bool = True,
    progress: Progress = silent,
) -> Build:
    """Writes the build folder of a program at `out` with one of the engines.

    Raises LabError: E509 for an unknown engine or architecture, and what the engine refuses.
    """
    check_choice("engine", engine, ENGINES)
    check_choice("arch", arch, tuple(BACKENDS))
    if engine == "pypto":
        return build_installed(
            program, out, arch, runtime=runtime, dump_ptoas_passes=dump_ptoas_passes, progress=progress
        )
    return build_embedded(
        program, out, arch, runtime=runtime, dump_ptoas_passes=dump_ptoas_passes, use_ptoas=use_ptoas, progress=progress
    )


def run_build_of(build: Build, values: Mapping[str, Any], seed: int = 0, progress: Progress = silent) -> PtoRun:
    """Executes a build on copies of `values`. Raises LabError as `Build.run`."""
    progress("executing .pto")
    result = build.run(values, seed)
    outputs = {name.partition("__ssa_v")[0]: value for name, value in result.outputs.items()}
    return PtoRun(build.after(result), result, outputs)


@contextlib.contextmanager
def build_place(out: Path | str | None) -> Iterator[Path]:
    """Where to build: `out`, or a folder that is gone after the block."""
    if out is not None:
        yield Path(out)
        return
    with tempfile.TemporaryDirectory(prefix="pypto_lab_build_") as folder:
        yield Path(folder) / "build"


def marked(program: Program, values: Mapping[str, Any]) -> Values:
    """The values with outputs that are no inputs filled with a marker: NaN, or the largest number of the dtype."""
    out_only = {p.name.partition("__ssa_v")[0] for p in program.entry.params if p.direction is Direction.Out}
    return {
        name: _filled(value) if name in out_only and isinstance(value, torch.Tensor) else value
        for name, value in values.items()
    }


def _filled(value: torch.Tensor) -> torch.Tensor:
    dtype = value.dtype
    if dtype is torch.bool:
        return ~value
    if dtype.is_floating_point:
        return torch.full_like(value, float("nan"))
    return torch.full_like(value, torch.iinfo(dtype).max)


def check_choice(what: str, value: str, choices: tuple[str, ...]) -> None:
    """Raises LabError E509 for a value that is not one of `choices`."""
    if value not in choices:
        hint = did_you_mean(value, choices) or f"one of {', '.join(choices)}"
        raise LabError([Diagnostic("E509", f"no {what} `{value}`", hint=hint)])
