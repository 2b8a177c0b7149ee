"""Making and padding values: full, fillpad family, ramps, triangles, counter-based random numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pypto_lab.torch_codegen.runtime.memory import _pad_number, _stored_dtype, _window
from pypto_lab.torch_codegen.runtime.values import _box, _cut, _is_partial, _mark


def _full(shape: Sequence[int], value: float | int | bool, *, dtype: torch.dtype | str) -> torch.Tensor:
    """A box with one value in every cell; integers wrap at the dtype's width."""
    stored = _stored_dtype(dtype)
    if not (stored.is_floating_point or stored is torch.bool):
        limits = torch.iinfo(stored)
        value = (int(value) - limits.min) % (1 << limits.bits) + limits.min
    return torch.full(tuple(shape), value, dtype=stored)


def _fillpad(x: torch.Tensor, *, pad_value: str | float = "zero") -> torch.Tensor:
    """A copy whose cells outside the valid region hold the pad value; the result is fully valid.

    `pad_value` is "zero", "min" or "max" (the infinities of floats, the limits of integers), or a number.
    """
    return _fillpad_expand(x, tuple(x.shape), pad_value=pad_value)


def _fillpad_expand(x: torch.Tensor, shape: Sequence[int], *, pad_value: str | float = "zero") -> torch.Tensor:
    """The valid cells in a larger box, every other cell is the pad value. Raises RuntimeError for a smaller box."""
    cells = _cut(x)
    if len(shape) != x.dim() or any(s < c for s, c in zip(shape, cells.shape, strict=True)):
        raise RuntimeError(f"fillpad_expand: {list(cells.shape)} valid cells do not fit a box of {list(shape)}")
    out = torch.full(tuple(shape), _pad_number(pad_value, x.dtype), dtype=x.dtype)
    out[_window((0,) * cells.dim(), cells.shape)] = cells
    return out


def _fillpad_inplace(x: torch.Tensor, *, pad_value: str | float = "zero", copy: bool = False) -> torch.Tensor:
    """Like `_fillpad`, in the same box."""
    if copy:
        return _fillpad(x, pad_value=pad_value)
    if _is_partial(x):
        x.copy_(_fillpad(x, pad_value=pad_value))
    return _mark(x, x.shape)


def _ci(
    start: int,
    shape: Sequence[int],
    *,
    dtype: torch.dtype = torch.int32,
    descending: bool = False,
    tmp: torch.Tensor | None = None,
) -> torch.Tensor:
    """An integer ramp from `start` up (or down) along the last axis; the other axes are 1."""
    steps = torch.arange(shape[-1], dtype=torch.int64)
    ramp = int(start) - steps if descending else int(start) + steps
    return ramp.to(dtype).reshape(tuple(shape))


def _tri(
    diagonal: int,
    shape: Sequence[int],
    valid_shape: Sequence[int] | None = None,
    *,
    dtype: torch.dtype = torch.int32,
    upper: bool = False,
) -> torch.Tensor:
    """A triangular mask of 0 and 1: ones where column <= row + diagonal, or where it is >= with `upper`.

    Only the valid region is written.
    """
    rows, columns = valid_shape or shape
    ahead = torch.arange(columns).view(1, -1) - torch.arange(rows).view(-1, 1) - int(diagonal)
    return _box((ahead >= 0 if upper else ahead <= 0).to(dtype), shape)


def _random(
    key0: int,
    key1: int,
    counter0: int,
    counter1: int,
    counter2: int,
    counter3: int,
    shape: Sequence[int],
    valid_shape: Sequence[int] | None = None,
    *,
    dtype: torch.dtype = torch.uint32,
    rounds: int = 10,
) -> torch.Tensor:
    """Counter-based random 32-bit integers: Philox 4x32 as the instruction TRANDOM runs it.

    A row is drawn in passes of 256 columns: counter l of a pass gives columns 4l to 4l + 3. A pass moves the counter by
    64, the last one of a row by its columns modulo 64 (by 64 where none are left over).
    """
    box = tuple(shape)
    valid = tuple(valid_shape) if valid_shape else box
    rows, columns = _rows_and_columns(valid)
    passes = -(-columns // 256)
    a_row = (passes - 1) * 64 + (columns - 1) % 64 + 1
    base = counter0 & _WORD | (counter1 & _WORD) << 32 | (counter2 & _WORD) << 64 | (counter3 & _WORD) << 96
    counters = [base + row * a_row + lane for row in range(rows) for lane in range(passes * 64)]
    words = _philox_words(counters, (key0, key1), rounds)
    cells = words.reshape(rows, passes * 256)[:, :columns]
    return _box(cells.to(dtype).reshape(valid), box)


_WORD = 0xFFFFFFFF


def _rows_and_columns(shape: Sequence[int]) -> tuple[int, int]:
    rows = 1
    for extent in shape[:-1]:
        rows *= extent
    return rows, shape[-1]


def _philox_words(counters: Sequence[int], key: tuple[int, int], rounds: int) -> torch.Tensor:
    """Philox 4x32 of each 128-bit counter: int64 words 0..2^32-1, shape (number of counters, 4)."""
    c0, c1, c2, c3 = (
        torch.tensor([counter >> shift & _WORD for counter in counters], dtype=torch.int64) for shift in (0, 32, 64, 96)
    )
    k0, k1 = key[0] & _WORD, key[1] & _WORD
    for _ in range(rounds):
        high0, low0 = _multiply_words(c0, 0xD2511F53)
        high1, low1 = _multiply_words(c2, 0xCD9E8D57)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + 0x9E3779B9 & _WORD, k1 + 0xBB67AE85 & _WORD
    return torch.stack([c0, c1, c2, c3], dim=-1)


def _multiply_words(x: torch.Tensor, factor: int) -> tuple[torch.Tensor, torch.Tensor]:
    """High and low words of a 32 x 32 bit product, kept inside int64."""
    low_part = (x & 0xFFFF) * factor
    high_part = (x >> 16) * factor + (low_part >> 16)
    return high_part >> 16, (high_part & 0xFFFF) << 16 | low_part & 0xFFFF
