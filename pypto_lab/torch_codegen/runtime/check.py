"""Checks that a script made with `check_shapes=True` carries; they raise, so they hold under `python -O` too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from pypto_lab.torch_codegen.runtime.values import _valid_of


def _check_argument(name: str, x: Any, dtype: torch.dtype, where: str) -> None:
    """A parameter must be a tensor of its dtype (its shape may be a part). Raises TypeError."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{where}: parameter {name} should be a tensor, got {type(x).__name__}")
    if x.dtype != dtype:
        raise TypeError(f"{where}: parameter {name} should be {dtype}, got {x.dtype}")


def _check_value(
    name: str,
    x: Any,
    shape: Sequence[int | None],
    dtype: torch.dtype | None,
    where: str,
    valid: Sequence[int | None] | None = None,
) -> None:
    """A value must have its type's rank, dims (None: not known), dtype and valid region.

    Raises TypeError for another dtype or no tensor at all, ValueError for another shape or region.
    """
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{where}: {name} should be a tensor, got {type(x).__name__}")
    if dtype is not None and x.dtype != dtype:
        raise TypeError(f"{where}: {name} should be {dtype}, got {x.dtype}")
    if not _fits(x.shape, shape):
        raise ValueError(f"{where}: {name} should have shape {_shown(shape)}, got {list(x.shape)}")
    if valid is not None and not (0 in valid and 0 in _valid_of(x)) and not _fits(_valid_of(x), valid):
        raise ValueError(f"{where}: {name} should be valid to {_shown(valid)}, got {list(_valid_of(x))}")


def _fits(actual: Sequence[int], expected: Sequence[int | None]) -> bool:
    return len(actual) == len(expected) and all(e is None or a == e for a, e in zip(actual, expected, strict=True))


def _shown(dims: Sequence[int | None]) -> str:
    return "[" + ", ".join("?" if d is None else str(d) for d in dims) + "]"


def _solve_dim(name: str, *sources: tuple[str, int, int, int]) -> int:
    """A dynamic dimension from the extents of the parameters.

    Each source is (text, extent, factor, offset): the extent is `factor * dimension + offset`. Raises ValueError when
    no whole number fits, or two parameters disagree.
    """
    found: int | None = None
    first = ""
    for text, extent, factor, offset in sources:
        value, rest = divmod(extent - offset, factor)
        if rest:
            raise ValueError(f"{text} is {extent}: no whole {name} makes {factor} * {name} + {offset} of it")
        if found is None:
            found, first = value, f"{text} is {extent}, so {name} = {value}"
        elif value != found:
            raise ValueError(f"parameters disagree about {name}: {first}; {text} is {extent}, so {name} = {value}")
    if found is None:
        raise ValueError(f"no parameter tells {name}")
    return found
