"""Cells without torch: raw numpy forms of torch's dtypes, their numbers, and short summaries of a value."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Raw = NDArray[Any]

_RAW: dict[str, str] = {
    "float64": "f8", "float32": "f4", "float16": "f2", "bfloat16": "u2",
    "float8_e4m3fn": "u1", "float8_e5m2": "u1", "float8_e8m0fnu": "u1",
    "int64": "i8", "int32": "i4", "int16": "i2", "int8": "i1", "uint8": "u1",
    "uint16": "u2", "uint32": "u4", "uint64": "u8", "bool": "?", "complex64": "c8", "complex128": "c16",
}  # fmt: skip


def raw_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype that holds the bits of a torch dtype. Raises ValueError for one the archive cannot hold."""
    if name not in _RAW:
        raise ValueError(f"a recording cannot hold tensors of dtype {name}")
    return np.dtype(_RAW[name])


def _e4m3(bits: Raw) -> Raw:
    wide = bits.astype(np.int32)
    exponent, mantissa = (wide >> 3) & 15, wide & 7
    size = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * np.exp2(exponent - 10.0))
    size = np.where((wide & 127) == 127, np.nan, size)
    return np.where(wide >= 128, -size, size).astype(np.float32)


def _e8m0(bits: Raw) -> Raw:
    wide = bits.astype(np.float64)
    return np.where(wide == 255, np.nan, np.exp2(wide - 127.0)).astype(np.float32)


_DECODE: dict[str, Callable[[Raw], Raw]] = {
    "bfloat16": lambda b: (b.astype(np.uint32) << 16).view(np.float32),
    "float8_e4m3fn": _e4m3,
    "float8_e5m2": lambda b: (b.astype(np.uint16) << 8).view(np.float16).astype(np.float32),
    "float8_e8m0fnu": _e8m0,
}


def decode(raw: Raw, dtype: str) -> Raw:
    """The numbers of raw cells: narrow floats become float32, everything else is itself."""
    convert = _DECODE.get(dtype)
    return raw if convert is None else convert(np.ascontiguousarray(raw))


def has_non_finite(raw: Raw, dtype: str) -> bool:
    """Whether a floating-point array holds a NaN or an infinity."""
    numbers = decode(raw, dtype)
    return numbers.dtype.kind in "fc" and not bool(np.isfinite(numbers).all())


def valid_cells(array: Raw, valid: tuple[int, ...] | None) -> Raw:
    """The valid part of a box (everything without a valid shape)."""
    return array if valid is None else array[tuple(slice(0, v) for v in valid)]


@dataclass(frozen=True, slots=True)
class Summary:
    """Minimum, maximum, mean over the finite valid cells, and how many cells are not finite."""

    low: float
    high: float
    mean: float
    nan: int
    inf: int
    cells: int

    def __str__(self) -> str:
        if self.cells == 0:
            return "no cells"
        text = f"{number(self.low)} … {number(self.high)}"
        marks = [f"{n} {what}" for n, what in ((self.nan, "NaN"), (self.inf, "Inf")) if n]
        return ", ".join([text, *marks])


def summarise(raw: Raw, dtype: str, valid: tuple[int, ...] | None = None) -> Summary:
    """Statistics of the valid cells, the mean in float64; complex numbers by their size."""
    cells = decode(valid_cells(raw, valid), dtype)
    if cells.dtype.kind == "c":
        cells = np.abs(cells)
    if cells.size == 0:
        return Summary(math.nan, math.nan, math.nan, 0, 0, 0)
    low, high = float(cells.min()), float(cells.max())
    if math.isfinite(low) and math.isfinite(high):  # a NaN would have made both NaN
        return Summary(low, high, float(cells.mean(dtype=np.float64)), 0, 0, cells.size)
    nan = int(np.isnan(cells).sum())
    finite = cells[np.isfinite(cells)]
    inf = cells.size - nan - finite.size
    if finite.size == 0:
        return Summary(math.nan, math.nan, math.nan, nan, inf, cells.size)
    mean = float(finite.mean(dtype=np.float64))
    return Summary(float(finite.min()), float(finite.max()), mean, nan, inf, cells.size)


def number(value: float) -> str:
    """A number in four significant digits; small whole numbers in full."""
    if math.isnan(value):
        return "NaN"
    whole = math.isfinite(value) and value == int(value) and abs(value) < 1e6
    return str(int(value)) if whole else f"{value:.4g}"
