"""Comparisons and selection. Tile masks are packed: bit j % 8 of byte j // 8 of a row belongs to column j."""

from __future__ import annotations

import torch

from pypto_lab.torch_codegen.runtime.elementwise import (
    _cells,
    _each,
    _narrow,
    _promoted,
    _region,
    _unsigned_order,
    _wide,
)
from pypto_lab.torch_codegen.runtime.numbers import _narrowed
from pypto_lab.torch_codegen.runtime.values import _box, _cut, _valid_of

_COMPARISONS = (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge)
"""By `cmp_type`: 0 eq, 1 ne, 2 lt, 3 le, 4 gt, 5 ge."""


def _compared(a: torch.Tensor, b: torch.Tensor, cmp_type: int, dtype: torch.dtype) -> torch.Tensor:
    """Booleans of valid cells that are already in one dtype."""
    a, b = _wide(a), _wide(b)
    if dtype is torch.uint64:
        a, b = _unsigned_order(a), _unsigned_order(b)
    return _COMPARISONS[cmp_type](a, b)


def _mask_box(columns: int) -> int:
    """Bytes of a packed mask row: one bit a column, in whole 32-byte blocks."""
    return (columns + 255) // 256 * 32


def _pack(bits: torch.Tensor, box: tuple[int, ...]) -> torch.Tensor:
    """Booleans of a valid region packed into the mask of a box of shape `box`."""
    rows, columns = bits.shape[:-1], bits.shape[-1]
    size = -(-columns // 8)
    padded = bits.to(torch.uint8)
    if columns % 8:
        padded = torch.zeros((*rows, size * 8), dtype=torch.uint8)
        padded[..., :columns] = bits
    weights = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8)
    packed = (padded.reshape(*rows, size, 8) * weights).sum(dim=-1, dtype=torch.uint8)
    return _box(packed, (*box[:-1], _mask_box(box[-1])))


def _unpack(mask: torch.Tensor, columns: int) -> torch.Tensor:
    """The first `columns` bits of every mask row as booleans. Raises ValueError where the mask is too narrow."""
    if mask.dtype is torch.bool:
        return mask[..., :columns]
    if mask.shape[-1] * 8 < columns:
        raise ValueError(f"a mask of {mask.shape[-1]} bytes a row cannot select among {columns} columns")
    used = mask[..., : -(-columns // 8)]
    bits = (used.unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8)) & 1
    return bits.reshape(*mask.shape[:-1], used.shape[-1] * 8)[..., :columns].bool()


def _cmp(a: torch.Tensor, b: torch.Tensor, *, cmp_type: int = 0) -> torch.Tensor:
    """The packed mask of a comparison of two tiles, over the valid region of the first."""
    dtype = _promoted(a.dtype, b.dtype)
    box, region = _region((a, b))
    bits = _compared(_cells(a, region), _cells(b, region), cmp_type, dtype)
    return _pack(torch.broadcast_to(bits, region), box)


def _cmps(a: torch.Tensor, scalar: int | float, *, cmp_type: int = 0) -> torch.Tensor:
    """The packed mask of a comparison with a number, which is first narrowed to the tile's dtype."""
    number = torch.tensor(_narrowed(scalar, a.dtype), dtype=a.dtype)
    return _pack(_compared(_cut(a), number, cmp_type, a.dtype), tuple(a.shape))


def _tensor_cmp(a: torch.Tensor, b: torch.Tensor | int | float, *, cmp_type: int = 0) -> torch.Tensor:
    """1 and 0 in the first operand's dtype where the comparison holds and where it does not."""
    if not isinstance(b, torch.Tensor):
        b = torch.tensor(_narrowed(b, a.dtype), dtype=a.dtype)
    dtype = _promoted(a.dtype, b.dtype)
    box, region = _region((a, b))
    bits = torch.broadcast_to(_compared(_cells(a, region), _cells(b, region), cmp_type, dtype), region)
    return _box(_narrow(bits.to(torch.int64), a.dtype), box)


def _sel(mask: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """`a` where the packed mask has a 1, else `b`, over the valid region of `a`."""
    valid = _valid_of(a)
    chosen = _unpack(mask, valid[-1])[tuple(slice(0, v) for v in valid)]
    return _box(_each(lambda x, y: torch.where(chosen, x, y), _cells(a, valid), _cells(b, valid)), a.shape)


def _sels(mask: torch.Tensor, a: torch.Tensor, scalar: int | float) -> torch.Tensor:
    """`a` where the packed mask has a 1, else the number."""
    valid = _valid_of(a)
    chosen = _unpack(mask, valid[-1])[tuple(slice(0, v) for v in valid)]
    number = torch.tensor(_narrowed(scalar, a.dtype), dtype=a.dtype)
    return _box(torch.where(chosen, _cut(a), number), a.shape)
