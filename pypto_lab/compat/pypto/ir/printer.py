"""Stand-in for `pypto.ir.printer`."""

from __future__ import annotations

from typing import Any

from pypto_lab.compat.kernels import program_from


def python_print(node: Any, prefix: str = "pl", **options: Any) -> str:
    """DSL text of a program or function. Raises ValueError for a prefix other than `pl`."""
    if prefix != "pl":
        raise ValueError("the lab prints with the prefix `pl`")
    return program_from(node).as_python()
