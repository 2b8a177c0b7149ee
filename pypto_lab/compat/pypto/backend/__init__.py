"""Stand-in for `pypto.backend`: the target a file names is kept, and not used by the lab's engine."""

from __future__ import annotations

from enum import Enum


class BackendType(Enum):
    Ascend910B = "Ascend910B"
    Ascend950 = "Ascend950"
    SuperscalarNPU = "SuperscalarNPU"


_current: list[BackendType] = []


def set_backend_type(backend: BackendType) -> None:
    """Remembers the target."""
    _current[:] = [backend]


def get_backend_type() -> BackendType:
    """The target named last, Ascend910B when none was."""
    return _current[0] if _current else BackendType.Ascend910B


def is_backend_configured() -> bool:
    return bool(_current)


def reset_for_testing() -> None:
    _current.clear()
