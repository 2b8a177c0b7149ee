"""Values in a script: torch tensors, with a valid region where it is smaller than the box."""

from __future__ import annotations

from collections.abc import Sequence

import torch

_UNDEFINED: str | int | None = None
"""What undefined cells hold: None writes zeros; "nan" or an int seed (set by debug runs) writes a marker."""


def _shape_of(x: torch.Tensor) -> tuple[int, ...]:
    """Full (physical) shape as a tuple."""
    return tuple(x.shape)


def _valid_of(x: torch.Tensor) -> tuple[int, ...]:
    """Valid shape as a tuple; the full shape when nothing narrower travels with the value."""
    valid: tuple[int, ...] | None = getattr(x, "_pypto_valid_shape", None)
    return tuple(x.shape) if valid is None else valid


def _is_partial(x: torch.Tensor) -> bool:
    return getattr(x, "_pypto_valid_shape", None) is not None


def _mark(x: torch.Tensor, valid: Sequence[int]) -> torch.Tensor:
    """Says which origin-anchored rectangle of `x` is valid. `x` is changed in place and returned."""
    valid = tuple(int(v) for v in valid)
    full = tuple(x.shape)
    if valid == full:
        if hasattr(x, "_pypto_valid_shape"):
            delattr(x, "_pypto_valid_shape")
            delattr(x, "_pypto_full_shape")
        return x
    x._pypto_valid_shape = valid  # type: ignore[attr-defined]
    x._pypto_full_shape = full  # type: ignore[attr-defined]
    return x


def _cut(x: torch.Tensor) -> torch.Tensor:
    """The valid cells as a view."""
    valid = getattr(x, "_pypto_valid_shape", None)
    if valid is None:
        return x
    return x[tuple(slice(0, v) for v in valid)]


def _marker(dtype: torch.dtype) -> float | int | bool:
    """What an undefined cell holds: 0; NaN, True or a large integer for "nan"; for a seed a small number of its own,
    which differs in sign (unsigned: in size) from the next seed's."""
    if _UNDEFINED is None:
        return 0
    if isinstance(_UNDEFINED, str):
        return float("nan") if dtype.is_floating_point else dtype is torch.bool or torch.iinfo(dtype).max // 3 * 2
    odd = _UNDEFINED % 2
    if dtype is torch.bool:
        return odd == 0
    if dtype.is_floating_point:
        return 1.0 + odd if dtype.itemsize == 1 else (57.0 + _UNDEFINED % 40) * (1 - 2 * odd)
    return (57 + _UNDEFINED % 40) * (1 if torch.iinfo(dtype).min == 0 else 1 - 2 * odd)


def _undefined(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A new tensor whose cells are undefined: zeros, or the marker of a debug run."""
    if _UNDEFINED is None:
        return torch.zeros(shape, dtype=dtype)
    if dtype.is_floating_point:
        return torch.full(shape, _marker(dtype), dtype=torch.float32).to(dtype)
    return torch.full(shape, _marker(dtype), dtype=dtype)


def _undefined_bytes(count: int) -> torch.Tensor:
    """Undefined bytes: zeros, or a pattern that is NaN (a number of its own for a seed) in every float type."""
    if _UNDEFINED is None:
        return torch.zeros(count, dtype=torch.uint8)
    return torch.full((count,), 255 if isinstance(_UNDEFINED, str) else 66 + _UNDEFINED % 2 * 128, dtype=torch.uint8)


def _is_debug_run() -> bool:
    return _UNDEFINED is not None


def _forget(x: torch.Tensor) -> None:
    """Marks every cell as undefined in a debug run."""
    if _UNDEFINED is not None:
        x[...] = torch.full((), _marker(x.dtype), dtype=torch.float32).to(x.dtype)


def _box(data: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """`data` (valid cells) inside a box of `shape`; the other cells are undefined. No copy when it fills the box."""
    shape = tuple(int(s) for s in shape)
    valid = tuple(data.shape)
    if valid == shape:
        return data
    out = _undefined(shape, data.dtype)
    out[tuple(slice(0, v) for v in valid)] = data
    return _mark(out, valid)
