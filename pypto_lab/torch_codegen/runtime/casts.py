"""Casts: the seven rounding modes to any float grid, and saturation or wrap-around by pair of dtypes."""

from __future__ import annotations

import torch

from pypto_lab.torch_codegen.runtime.elementwise import _narrow
from pypto_lab.torch_codegen.runtime.numbers import _FLOAT_GRID, _INTEGER_BITS
from pypto_lab.torch_codegen.runtime.values import _box, _cut

_STORED_AS = {
    "HF8": torch.float32,
    "HF4": torch.float32,
    "FP4": torch.float32,
    "INT4": torch.int8,
    "UINT4": torch.uint8,
}
"""Dtypes torch lacks are held in a wider one, with values on the dtype's grid."""

_WRAPPING = (
    (torch.float16, torch.int8), (torch.float16, torch.uint8), (torch.float16, torch.int16),
    (torch.float32, torch.int8), (torch.float32, torch.uint8), (torch.float32, torch.int16),
    (torch.bfloat16, torch.int8), (torch.bfloat16, torch.uint8), (torch.bfloat16, torch.int16),
    (torch.int64, torch.int32), (torch.int64, torch.int16), (torch.int64, torch.int8),
    (torch.int32, torch.int16), (torch.int32, torch.int8), (torch.int16, torch.int8),
)  # fmt: skip
"""Conversions that keep the low bits of a value out of range; all others to an integer saturate.

The device converts to 8 bits through FP16 or INT16, whose last step wraps.
"""


def _round_cells(x: torch.Tensor, mode: str) -> torch.Tensor:
    """Float values to whole numbers by a cast mode ("none" is half to even here)."""
    if mode == "floor":
        return torch.floor(x)
    if mode == "ceil":
        return torch.ceil(x)
    whole = torch.trunc(x)
    if mode == "trunc":
        return whole
    if mode == "round":
        return torch.where((x - whole).abs() >= 0.5, whole + torch.sign(x), whole)
    if mode == "odd":
        return torch.where((whole == x) | (torch.remainder(whole, 2) == 1), whole, whole + torch.sign(x))
    return torch.round(x)


def _taper(exponent: torch.Tensor) -> torch.Tensor:
    """Fraction bits of HiFloat8 by exponent: 3 up to |e| = 3, 2 up to 7, 1 up to 15, none for the smallest."""
    size = exponent.abs()
    bits = 3 - (size > 3).to(torch.int64) - (size > 7).to(torch.int64)
    return torch.where(exponent < -15, torch.zeros_like(bits), bits)


def _to_grid(x: torch.Tensor, dtype: torch.dtype | str, mode: str) -> torch.Tensor:
    """FP64 values on a float dtype's grid, rounded once by `mode`; overflow gives infinity, or the largest value."""
    if dtype not in _FLOAT_GRID:
        raise ValueError(f"there is no published grid to round to {dtype}")
    fraction, smallest, largest, infinite = _FLOAT_GRID[dtype]
    exponent = (torch.frexp(x).exponent.to(torch.int64) - 1).clamp(min=smallest)
    step = exponent - (_taper(exponent) if dtype == "HF8" else fraction)
    scale = torch.ldexp(torch.ones_like(x), step)
    rounded = _round_cells(x / scale, mode) * scale
    over = torch.copysign(torch.full_like(x, float("inf") if infinite else largest), x)
    rounded = torch.where(rounded.abs() > largest, over, torch.copysign(rounded, x))
    without_infinity = dtype in (torch.float8_e4m3fn, "FP4")
    return torch.where(torch.isfinite(x), rounded, torch.where(torch.isinf(x) & without_infinity, over, x))


def _to_scale(x: torch.Tensor, mode: str) -> torch.Tensor:
    """FP64 values as FP8E8M0 powers of two: only the exponent is kept, rounded by `mode`; not positive gives NaN."""
    fraction, exponent = torch.frexp(x)
    power = exponent.to(torch.float64) - 1
    up = {"ceil": fraction > 0.5, "floor": fraction < 0, "trunc": fraction < 0}.get(mode, fraction >= 0.75)
    code = (power + up.to(torch.float64) + 127).clamp(0, 254)
    code = torch.where(torch.isfinite(x) & (x > 0), code, torch.full_like(code, 255.0))
    return code.to(torch.uint8).view(torch.float8_e8m0fnu)


def _held_float(x: torch.Tensor, dtype: torch.dtype | str) -> torch.Tensor:
    """FP64 values that are already on the grid, in the dtype that holds them."""
    held = _STORED_AS[dtype] if isinstance(dtype, str) else dtype
    return x.to(torch.float32).to(held)


def _integers(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.int64) if x.dtype is torch.uint64 else x.to(torch.int64)


def _float_to_integer(x: torch.Tensor, source: torch.dtype, dtype: torch.dtype | str, mode: str) -> torch.Tensor:
    """Rounded, then saturated or wrapped. NaN gives 0."""
    held = _STORED_AS[dtype] if isinstance(dtype, str) else dtype
    bits, signed = _INTEGER_BITS[dtype]
    exact = x if x.dtype in (torch.float32, torch.float64) else x.to(torch.float32)
    whole = _round_cells(exact, "trunc" if mode in ("none", "odd") else mode)
    if (source, dtype) in _WRAPPING:
        return _narrow(torch.fmod(whole, 2.0**32).nan_to_num(0.0).to(torch.int64), held)
    lowest, highest = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    whole = whole.nan_to_num(0.0)
    if bits == 64:
        return _narrow(_saturated64(whole.to(torch.float64), signed), held)
    return _narrow(whole.clamp(lowest - 1, highest + 1).to(torch.int64).clamp(lowest, highest), held)


def _saturated64(whole: torch.Tensor, signed: bool) -> torch.Tensor:
    """FP64 whole numbers as INT64 (or the bits of UINT64), cut to the range, whose top no float holds."""
    half = 2.0**63
    zeros = torch.zeros_like(whole)
    if signed:
        above = whole >= half
        low = torch.where(above, zeros, whole.clamp(min=-half)).to(torch.int64)
        return torch.where(above, torch.iinfo(torch.int64).max, low)
    upper = (whole >= half) & (whole < 2 * half)
    low = torch.where(whole < half, whole.clamp(min=0.0), zeros).to(torch.int64)
    high = torch.where(upper, whole - half, zeros).to(torch.int64) ^ torch.iinfo(torch.int64).min
    return torch.where(upper, high, torch.where(whole >= half, -1, low))


def _integer_to_integer(x: torch.Tensor, dtype: torch.dtype | str) -> torch.Tensor:
    """Widening is exact; narrowing wraps or saturates by pair of dtypes, a change of sign alone keeps the bits."""
    held = _STORED_AS[dtype] if isinstance(dtype, str) else dtype
    bits, signed = _INTEGER_BITS[dtype]
    wide = _integers(x)
    narrower = bits < 8 * x.dtype.itemsize
    if not narrower or (x.dtype, dtype) in _WRAPPING:
        return _narrow(wide, held)
    lowest, highest = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    if x.dtype is torch.uint64:
        wide = torch.where(wide < 0, torch.full_like(wide, highest), wide)
    return _narrow(wide.clamp(lowest, highest), held)


def _half_away(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """FP32 to FP16 or BF16, half away from zero: half to even, then one step outwards where that cut a tie off."""
    near = x.to(dtype)
    outward = (near.view(torch.int16) + 1).view(dtype)
    tie = near.to(torch.float32) * 0.5 + outward.to(torch.float32) * 0.5 == x
    return torch.where(tie & (near.to(torch.float32).abs() < x.abs()), outward, near)


def _to_float_dtype(x: torch.Tensor, dtype: torch.dtype | str, mode: str) -> torch.Tensor:
    """To a float dtype. Integers reach 16 bits through FP32, as on the device (which rounds large ones twice)."""
    if not x.dtype.is_floating_point and dtype in (torch.float16, torch.bfloat16):
        x = _to_float_dtype(x, torch.float32, mode)
    if mode == "round" and dtype in (torch.float16, torch.bfloat16):
        return _half_away(x.to(torch.float32), dtype)
    nearest = mode in ("none", "rint")
    if nearest and dtype in (torch.float16, torch.bfloat16, torch.float32) and x.dtype.is_floating_point:
        return x.to(torch.float32).to(dtype)
    if nearest and dtype is torch.float32:
        return x.to(torch.float32)
    values = x.to(torch.float64)
    if dtype is torch.float8_e8m0fnu:
        return _to_scale(values, mode)
    return _held_float(_to_grid(values, dtype, mode), dtype)


def _cast(x: torch.Tensor, *, target_type: torch.dtype | str, mode: str = "round") -> torch.Tensor:
    """`x` in another dtype, rounded by `mode`: none, rint (half to even), round (half away from zero), floor, ceil,
    trunc, odd. FP32 to FP32 rounds to whole numbers. "none" cuts off towards zero to integers and is rint to floats."""
    cells = _cut(x)
    source = cells.dtype
    to_float = target_type in _FLOAT_GRID or target_type in (torch.float8_e8m0fnu, torch.float64, "HF4")
    if source is target_type:
        whole = source is torch.float32 and mode != "none"
        data = _round_cells(cells.to(torch.float64), mode).to(source) if whole else cells.clone()
    elif target_type is torch.bool:
        data = cells != 0
    elif target_type is torch.float64:
        data = cells.to(torch.float64)
    elif to_float:
        data = _to_float_dtype(cells, target_type, mode)
    elif source.is_floating_point:
        data = _float_to_integer(cells, source, target_type, mode)
    else:
        data = _integer_to_integer(cells, target_type)
    return _box(data, x.shape)
