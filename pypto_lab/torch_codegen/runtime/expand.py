"""Broadcasts of a row vector or a column vector over a tile or tensor; the region is that of the full operand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from pypto_lab.torch_codegen.runtime.elementwise import _cells, _divider, _each, _pick, _promoted
from pypto_lab.torch_codegen.runtime.numbers import _narrowed
from pypto_lab.torch_codegen.runtime.values import _box, _mark, _valid_of


def _per_row(x: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """The row vector at the columns of `x`: one value a row, or a packed 32-byte block a row that repeats."""
    columns = vector.shape[-1]
    if columns in (1, x.shape[-1]):
        return vector
    repeats = -(-x.shape[-1] // columns)
    return vector.repeat(*[1] * (vector.dim() - 1), repeats)[..., : x.shape[-1]]


def _combine(function: Callable[..., torch.Tensor], x: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """`function` over the valid cells of `x` with a vector stretched over it."""
    box, valid = tuple(x.shape), _valid_of(x)
    if valid == box:
        return _each(function, x, vector)
    cells = _each(function, _cells(x, valid), _cells(vector, valid[-vector.dim() :]))
    return _box(cells, box)


def _expdif(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.exp(torch.sub(x, y))


def _replicate(target: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """`vector` repeated over the valid region of `target`."""
    valid = _valid_of(target)
    return _box(torch.broadcast_to(_cells(vector, valid[-vector.dim() :]), valid).clone(), target.shape)


def _row_expand(target: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return _replicate(target, _per_row(target, vector))


def _row_expand_add(x: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return _combine(torch.add, x, _per_row(x, vector))


def _row_expand_sub(x: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return _combine(torch.sub, x, _per_row(x, vector))


def _row_expand_mul(x: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return _combine(torch.mul, x, _per_row(x, vector))


def _row_expand_div(x: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return _combine(_divided(x, vector), x, _per_row(x, vector))


def _row_expand_max(x: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return _combine(_pick(True, _promoted(x.dtype, vector.dtype)), x, _per_row(x, vector))


def _row_expand_min(x: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return _combine(_pick(False, _promoted(x.dtype, vector.dtype)), x, _per_row(x, vector))


def _row_expand_expdif(x: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """exp(x - vector)."""
    return _combine(_expdif, x, _per_row(x, vector))


def _divided(x: torch.Tensor, vector: torch.Tensor) -> Callable[..., torch.Tensor]:
    return _divider(_promoted(x.dtype, vector.dtype))


def _col_expand(target: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return _replicate(target, vector)


def _col_expand_add(x: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return _combine(torch.add, x, vector)


def _col_expand_sub(x: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return _combine(torch.sub, x, vector)


def _col_expand_mul(x: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return _combine(torch.mul, x, vector)


def _col_expand_div(x: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return _combine(_divided(x, vector), x, vector)


def _col_expand_max(x: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return _combine(_pick(True, _promoted(x.dtype, vector.dtype)), x, vector)


def _col_expand_min(x: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return _combine(_pick(False, _promoted(x.dtype, vector.dtype)), x, vector)


def _col_expand_expdif(x: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """exp(x - vector)."""
    return _combine(_expdif, x, vector)


def _expands(target: torch.Tensor, scalar: int | float) -> torch.Tensor:
    """A number, at the target's dtype, over the target's valid region."""
    data = torch.full(_valid_of(target), _narrowed(scalar, target.dtype), dtype=target.dtype)
    return _box(data, target.shape)


def _expand_clone(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """`x` repeated to the full shape of `target`; an axis that is not repeated keeps its valid extent."""
    full = tuple(torch.broadcast_to(x, target.shape).shape)
    grown = torch.broadcast_to(x, full).clone()
    return _mark(grown, _grown_region(x, full))


def _grown_region(x: torch.Tensor, full: Sequence[int]) -> tuple[int, ...]:
    lead = len(full) - x.dim()
    own = zip(x.shape, _valid_of(x), full[lead:], strict=True)
    return (*full[:lead], *(wide if size == 1 else valid for size, valid, wide in own))
