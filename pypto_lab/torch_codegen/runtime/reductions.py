"""Reductions over the valid extent of an axis: padding never takes part."""

from __future__ import annotations

from collections.abc import Callable

import torch

from pypto_lab.torch_codegen.runtime.elementwise import _narrow, _unsigned_order, _wide
from pypto_lab.torch_codegen.runtime.values import _box, _cut, _mark, _undefined, _valid_of


def _fold(
    name: str,
    function: Callable[[torch.Tensor, int], torch.Tensor],
    x: torch.Tensor,
    axis: int,
    keep_dim: bool,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Folds the valid cells along `axis`. Raises ValueError when there are rows to fold but nothing in them."""
    axis = axis % x.dim()
    out = x.dtype if dtype is None else dtype
    valid = _valid_of(x)
    box = tuple(1 if a == axis else size for a, size in enumerate(x.shape))
    if 0 in valid:
        if valid[axis] == 0 and all(v for a, v in enumerate(valid) if a != axis):
            raise ValueError(f"{name} over an empty region: valid shape {list(valid)} of {list(x.shape)}")
        kept = tuple(min(1, v) if a == axis else v for a, v in enumerate(valid))
        result = _mark(_undefined(box, out), kept)
    else:
        result = _box(_narrow(function(_wide(_cut(x)), axis), out), box)
    return result if keep_dim else _drop(result, axis)


def _drop(x: torch.Tensor, axis: int) -> torch.Tensor:
    """Removes a folded axis, from the box and from the region."""
    valid = _valid_of(x)
    return _mark(x.squeeze(axis), valid[:axis] + valid[axis + 1 :])


def _sum_of(x: torch.Tensor, axis: int) -> torch.Tensor:
    return torch.sum(x, dim=axis, keepdim=True)


def _prod_of(x: torch.Tensor, axis: int) -> torch.Tensor:
    return torch.prod(x, dim=axis, keepdim=True)


def _ordered(
    function: Callable[..., torch.Tensor], dtype: torch.dtype, values: bool
) -> Callable[[torch.Tensor, int], torch.Tensor]:
    """amax, argmax ... along an axis; UINT64 comes as INT64 bits and is reordered."""

    def fold(x: torch.Tensor, axis: int) -> torch.Tensor:
        if dtype is not torch.uint64:
            return function(x, dim=axis, keepdim=True)
        found = function(_unsigned_order(x), dim=axis, keepdim=True)
        return _unsigned_order(found) if values else found

    return fold


def _row_sum(x: torch.Tensor, *, axis: int = -1, keep_dim: bool = True) -> torch.Tensor:
    return _fold("row_sum", _sum_of, x, axis, keep_dim)


def _row_max(x: torch.Tensor, *, axis: int = -1, keep_dim: bool = True) -> torch.Tensor:
    return _fold("row_max", _ordered(torch.amax, x.dtype, True), x, axis, keep_dim)


def _row_min(x: torch.Tensor, *, axis: int = -1, keep_dim: bool = True) -> torch.Tensor:
    return _fold("row_min", _ordered(torch.amin, x.dtype, True), x, axis, keep_dim)


def _row_prod(x: torch.Tensor, *, axis: int = -1, keep_dim: bool = True) -> torch.Tensor:
    return _fold("row_prod", _prod_of, x, axis, keep_dim)


def _row_argmax(x: torch.Tensor, *, axis: int = -1, keep_dim: bool = True) -> torch.Tensor:
    """INT32 index of the first largest cell of each row."""
    return _fold("row_argmax", _ordered(torch.argmax, x.dtype, False), x, axis, keep_dim, torch.int32)


def _row_argmin(x: torch.Tensor, *, axis: int = -1, keep_dim: bool = True) -> torch.Tensor:
    """INT32 index of the first smallest cell of each row."""
    return _fold("row_argmin", _ordered(torch.argmin, x.dtype, False), x, axis, keep_dim, torch.int32)


def _col_sum(x: torch.Tensor, *, axis: int = -2, keep_dim: bool = True) -> torch.Tensor:
    return _fold("col_sum", _sum_of, x, axis, keep_dim)


def _col_max(x: torch.Tensor, *, axis: int = -2, keep_dim: bool = True) -> torch.Tensor:
    return _fold("col_max", _ordered(torch.amax, x.dtype, True), x, axis, keep_dim)


def _col_min(x: torch.Tensor, *, axis: int = -2, keep_dim: bool = True) -> torch.Tensor:
    return _fold("col_min", _ordered(torch.amin, x.dtype, True), x, axis, keep_dim)


def _col_prod(x: torch.Tensor, *, axis: int = -2, keep_dim: bool = True) -> torch.Tensor:
    return _fold("col_prod", _prod_of, x, axis, keep_dim)


def _col_argmax(x: torch.Tensor, *, axis: int = -2, keep_dim: bool = True) -> torch.Tensor:
    """INT32 index of the first largest cell of each column."""
    return _fold("col_argmax", _ordered(torch.argmax, x.dtype, False), x, axis, keep_dim, torch.int32)


def _col_argmin(x: torch.Tensor, *, axis: int = -2, keep_dim: bool = True) -> torch.Tensor:
    """INT32 index of the first smallest cell of each column."""
    return _fold("col_argmin", _ordered(torch.argmin, x.dtype, False), x, axis, keep_dim, torch.int32)


# A tile's columns are folded along its first axis whatever its rank is.


def _tile_col_sum(x: torch.Tensor) -> torch.Tensor:
    return _col_sum(x, axis=0)


def _tile_col_max(x: torch.Tensor) -> torch.Tensor:
    return _col_max(x, axis=0)


def _tile_col_min(x: torch.Tensor) -> torch.Tensor:
    return _col_min(x, axis=0)


def _tile_col_prod(x: torch.Tensor) -> torch.Tensor:
    return _col_prod(x, axis=0)


def _tile_col_argmax(x: torch.Tensor) -> torch.Tensor:
    return _col_argmax(x, axis=0)


def _tile_col_argmin(x: torch.Tensor) -> torch.Tensor:
    return _col_argmin(x, axis=0)
