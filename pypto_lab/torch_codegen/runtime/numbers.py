"""Scalars at their dtype's width: Python numbers that wrap and round as the scalar unit does."""

from __future__ import annotations

import math

import torch

_INTEGER_BITS = {
    torch.int8: (8, True),
    torch.int16: (16, True),
    torch.int32: (32, True),
    torch.int64: (64, True),
    torch.uint8: (8, False),
    torch.uint16: (16, False),
    torch.uint32: (32, False),
    torch.uint64: (64, False),
    "INT4": (4, True),
    "UINT4": (4, False),
}
"""Width and signedness of each integer dtype; dtypes torch lacks go by their PyPTO name."""

_FLOAT_GRID = {
    torch.float32: (23, -126, 3.4028234663852886e38, True),
    torch.float16: (10, -14, 65504.0, True),
    torch.bfloat16: (7, -126, 3.3895313892515355e38, True),
    torch.float8_e5m2: (2, -14, 57344.0, False),
    torch.float8_e4m3fn: (3, -6, 448.0, False),
    "FP4": (1, 0, 6.0, False),
    "HF8": (3, -22, 32768.0, False),
}
"""Fraction bits, smallest exponent, largest finite value, and whether overflow gives infinity (else the largest value).

FP4 is E2M1. HF8 (HiFloat8) has fewer fraction bits the larger the exponent is, see `_fraction_bits`.
"""


def _wrap_number(x: int | float | bool, dtype: torch.dtype | str) -> int:
    """The low bits of an integer, read at the dtype's width and sign."""
    bits, signed = _INTEGER_BITS[dtype]
    low = int(x) & ((1 << bits) - 1)
    return low - (1 << bits) if signed and low >> (bits - 1) else low


def _i8(x: int | float) -> int:
    return _wrap_number(x, torch.int8)


def _i16(x: int | float) -> int:
    return _wrap_number(x, torch.int16)


def _i32(x: int | float) -> int:
    return _wrap_number(x, torch.int32)


def _i64(x: int | float) -> int:
    return _wrap_number(x, torch.int64)


def _u8(x: int | float) -> int:
    return _wrap_number(x, torch.uint8)


def _u16(x: int | float) -> int:
    return _wrap_number(x, torch.uint16)


def _u32(x: int | float) -> int:
    return _wrap_number(x, torch.uint32)


def _u64(x: int | float) -> int:
    return _wrap_number(x, torch.uint64)


def _fraction_bits(dtype: torch.dtype | str, exponent: int) -> int:
    """Fraction bits of a value with this exponent; only HiFloat8 tapers (3 to |e| <= 3, 2 to 7, 1 to 15, then none)."""
    if dtype != "HF8":
        return _FLOAT_GRID[dtype][0]
    size = abs(exponent)
    return 3 if size <= 3 else 2 if size <= 7 else 1 if exponent >= -15 else 0


def _round_number(x: float, mode: str) -> int:
    """A finite number to an integer by a cast mode ("none" is half to even here)."""
    if mode == "floor":
        return math.floor(x)
    if mode == "ceil":
        return math.ceil(x)
    if mode == "trunc":
        return math.trunc(x)
    if mode == "round":
        whole = math.trunc(x)
        return whole + int(math.copysign(1, x)) if abs(x - whole) >= 0.5 else whole
    if mode == "odd":
        whole = math.trunc(x)
        return whole if whole == x or whole % 2 else whole + int(math.copysign(1, x))
    return round(x)


def _to_float(x: int | float, dtype: torch.dtype | str, mode: str = "rint") -> float:
    """A number on a float dtype's grid; overflow gives infinity, or the largest value where the dtype saturates."""
    value = float(x)
    if value == 0.0 or not math.isfinite(value):
        return value
    _, smallest, largest, infinite = _FLOAT_GRID[dtype]
    beyond = math.copysign(math.inf if infinite else largest, value)
    if abs(value) >= 2 * largest:
        return beyond
    exponent = math.frexp(value)[1] - 1
    step = max(exponent, smallest) - _fraction_bits(dtype, max(exponent, smallest))
    rounded = math.ldexp(float(_round_number(math.ldexp(value, -step), mode)), step)
    if abs(rounded) > largest:
        return beyond
    return rounded if rounded else math.copysign(0.0, value)


def _f32(x: int | float) -> float:
    return _to_float(x, torch.float32)


def _f16(x: int | float) -> float:
    return _to_float(x, torch.float16)


def _bf16(x: int | float) -> float:
    return _to_float(x, torch.bfloat16)


def _clamped_number(x: float, dtype: torch.dtype | str) -> int:
    """An integer cut to the dtype's range; NaN is 0 and infinities are the ends of the range."""
    bits, signed = _INTEGER_BITS[dtype]
    lowest, highest = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    if math.isnan(x):
        return 0
    return lowest if x < lowest else highest if x > highest else int(x)


def _cast_scalar(x: int | float | bool, dtype: torch.dtype | str, mode: str | None = None) -> int | float | bool:
    """A scalar converted to `dtype`: floats cut off towards zero to integers and saturate, integers wrap, floats round
    half to even, unless `mode` names another rounding."""
    if dtype is torch.bool:
        return bool(x)
    if dtype in _INTEGER_BITS:
        if isinstance(x, float):
            finite = math.isfinite(x)
            return _clamped_number(float(_round_number(x, mode or "trunc")) if finite else x, dtype)
        return _wrap_number(x, dtype)
    if dtype is torch.float64:
        return float(x)
    return _to_float(x, dtype, mode or "rint")


def _narrowed(x: int | float | bool, dtype: torch.dtype) -> int | float | bool:
    """A scalar operand at the dtype of the tile it meets."""
    if isinstance(x, float) and not dtype.is_floating_point and not math.isfinite(x):
        return 0
    return _cast_scalar(x, dtype)
