"""Sorting of (value, index) pairs: a pair takes 8 bytes, so 2 cells of FP32 or 4 of FP16 (value, gap, index)."""

from __future__ import annotations

import torch

from pypto_lab.torch_codegen.runtime.memory import _window
from pypto_lab.torch_codegen.runtime.values import _box, _cut, _undefined

_PAIR_BYTES = 8


def _sort32(source: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Sorts each block of 32 columns by value, greatest first, equal values by smaller index; emits pairs.

    A pair is the value and the 32 bits of its index. A last block may be shorter.
    """
    values = _cut(source)
    numbers = index[_window((0,) * values.dim(), values.shape)]
    per_pair = _PAIR_BYTES // values.element_size()
    blocks = [
        _sorted_pairs(values[..., start : start + 32], numbers[..., start : start + 32], per_pair)
        for start in range(0, values.shape[-1], 32)
    ]
    pairs = torch.cat(blocks, dim=-1) if blocks else values.reshape(*values.shape[:-1], 0)
    return _box(pairs, (*source.shape[:-1], source.shape[-1] * per_pair))


def _sorted_pairs(values: torch.Tensor, numbers: torch.Tensor, per_pair: int) -> torch.Tensor:
    """One block of pairs, interleaved."""
    by_number = numbers.to(torch.int64).argsort(dim=-1, stable=True)
    order = values.gather(-1, by_number).argsort(dim=-1, descending=True, stable=True)
    order = by_number.gather(-1, order)
    bits = numbers.to(torch.int64).gather(-1, order)
    bits = torch.where(bits >= 2**31, bits - 2**32, bits).to(torch.int32)
    pairs = torch.zeros((*values.shape, per_pair), dtype=values.dtype)
    pairs[..., 0] = values.gather(-1, order)
    words = bits.unsqueeze(-1).view(values.dtype)
    pairs[..., per_pair - words.shape[-1] :] = words
    return pairs.reshape(*values.shape[:-1], values.shape[-1] * per_pair)


def _merge_order(runs: list[torch.Tensor]) -> torch.Tensor:
    """The order in which a merge takes the pairs of several runs, as positions in their concatenation.

    The greater head goes first, on equality that of the earlier run. A value waits for those before it in its run, so
    what orders the merge is the least value so far.
    """
    waiting = torch.cat([run.cummin(dim=-1).values for run in runs], dim=-1)
    return waiting.argsort(dim=-1, descending=True, stable=True)


def _as_pairs(cells: torch.Tensor) -> torch.Tensor:
    per_pair = _PAIR_BYTES // cells.element_size()
    return cells[..., : cells.shape[-1] // per_pair * per_pair].reshape(*cells.shape[:-1], -1, per_pair)


def _mrgsort_format1(source: torch.Tensor, block_len: int) -> torch.Tensor:
    """Merges groups of four neighbouring sorted runs of `block_len` cells (values and indices count).

    Cells past the last whole group are undefined.
    """
    cells = _cut(source)
    group = 4 * int(block_len)
    count = cells.shape[-1] // group
    merged = _undefined(tuple(cells.shape), cells.dtype)
    for start in range(0, count * group, group):
        runs = [_as_pairs(cells[..., start + k * block_len : start + (k + 1) * block_len]) for k in range(4)]
        merged[..., start : start + group] = _merged(runs)
    return _box(merged, source.shape)


def _merged(runs: list[torch.Tensor]) -> torch.Tensor:
    """Runs of pairs merged into one row of cells."""
    order = _merge_order([run[..., 0] for run in runs])
    pairs = torch.cat(runs, dim=-2)
    taken = pairs.gather(-2, order.unsqueeze(-1).expand_as(pairs))
    return taken.reshape(*taken.shape[:-2], -1)


def _mrgsort_format2(*sources: torch.Tensor, exhausted: bool = False) -> torch.Tensor:
    """Merges two to four sorted runs of pairs; with `exhausted` it stops when one is used up, the rest undefined."""
    runs = [_as_pairs(_cut(source)) for source in sources]
    merged = _merged(runs)
    if exhausted:
        order = _merge_order([run[..., 0] for run in runs])
        taken_at = order.argsort(dim=-1)
        ends = torch.tensor([run.shape[-2] for run in runs]).cumsum(0) - 1
        stop = (int(taken_at[..., ends].min(dim=-1).values.max()) + 1) * runs[0].shape[-1]
        rest = _undefined(tuple(merged.shape), merged.dtype)
        merged = torch.cat([merged[..., :stop], rest[..., stop:]], dim=-1)
    width = sum(source.shape[-1] for source in sources)
    return _box(merged, (*sources[0].shape[:-1], width))


def _tile_mrgsort_format2(*tiles: torch.Tensor, exhausted: bool = False) -> torch.Tensor:
    """`_mrgsort_format2` of tiles, the last of which is scratch."""
    return _mrgsort_format2(*tiles[:-1], exhausted=exhausted)
