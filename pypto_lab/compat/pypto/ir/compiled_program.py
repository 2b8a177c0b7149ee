"""Stand-in for `pypto.ir.compiled_program`."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from pypto_lab.compat.compiled import CompiledProgram
from pypto_lab.compat.running import dim_value, torch_dtype

__all__ = ["CompiledProgram", "to_config"]

_to_torch_dtype = torch_dtype


def to_config(options: Mapping[str, Any]) -> SimpleNamespace:
    """Compiler options as an object with attributes."""
    return SimpleNamespace(**options)


def _to_runtime_shape(shape: Any) -> list[int]:
    """A static shape as numbers."""
    return [dim if isinstance(dim, int) else dim_value(dim, {}) for dim in shape]
