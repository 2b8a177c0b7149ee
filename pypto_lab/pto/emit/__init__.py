"""Emission: a lowered program as `.pto` text, one module a kernel. Importing this is cheap."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pypto_lab.ir.nodes import Program


def emit(program: Program, arch: str = "a2a3") -> dict[str, str]:
    """The `.pto` text of every kernel, by unit name; see `unit.emit`. Raises LabError: E600 (no xDSL), E610 to E612."""
    _need_xdsl()
    from pypto_lab.pto.emit.unit import emit as made

    return made(program, arch)


def emit_to(program: Program, directory: Path | str, arch: str = "a2a3") -> list[Path]:
    """Writes the `.pto` files below a folder and gives their paths; see `unit.emit_to`. Raises LabError as `emit`."""
    _need_xdsl()
    from pypto_lab.pto.emit.unit import emit_to as written

    return written(program, directory, arch)


def _need_xdsl() -> None:
    try:
        import xdsl  # noqa: F401
    except ImportError as error:
        from pypto_lab.ir.diagnostics import Diagnostic, LabError

        hint = "install it: pip install 'xdsl>=0.75'"
        raise LabError([Diagnostic("E600", f"emitting .pto needs xDSL: {error}", hint=hint)]) from error


__all__ = ["emit", "emit_to"]
