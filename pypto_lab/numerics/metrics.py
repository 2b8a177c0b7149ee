"""Error measures of two tensors of one shape: absolute, relative, ULP, rel-L2, cosine, shares and percentiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

THRESHOLDS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""Relative differences whose share of cells is reported."""

QUANTILES = (0.5, 0.9, 0.99, 1.0)
_SAMPLE = 1 << 20
"""Percentiles of more cells than this are taken from an even sample; the maximum is always exact."""

_TOLERANCES: dict[torch.dtype, tuple[float, float]] = {
    torch.float64: (1e-9, 1e-12),
    torch.float32: (1e-5, 1e-5),
    torch.float16: (1e-3, 1e-3),
    torch.bfloat16: (1e-2, 1e-2),
    torch.float8_e4m3fn: (0.125, 0.0625),
    torch.float8_e5m2: (0.25, 0.125),
}
_INTEGER_VIEWS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def default_tolerance(dtype: torch.dtype) -> tuple[float, float]:
    """(rtol, atol) that a dtype's own rounding needs; integers and booleans must be equal."""
    return _TOLERANCES.get(dtype, (0.0, 0.0))


def widen(x: torch.Tensor) -> torch.Tensor:
    """FP64 copy for measuring; complex and other dtypes torch cannot convert raise as torch does."""
    return x.detach().cpu().to(torch.float32).double() if x.element_size() == 1 else x.detach().cpu().double()


def ulp_distance(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor | None:
    """How many representable values apart the cells are, as FP64; None where the dtypes differ or are not floats.

    Cells with a NaN on either side count 0. Zeros of both signs are the same value.
    """
    if actual.dtype != expected.dtype or not actual.dtype.is_floating_point:
        return None
    nan = widen(actual).isnan() | widen(expected).isnan()
    one, other = _ordered(actual), _ordered(expected)
    same_sign = (one >= 0) == (other >= 0)
    distance = torch.where(same_sign, (one - other).double(), one.double() - other.double()).abs()
    return torch.where(nan, torch.zeros_like(distance), distance)


def _ordered(x: torch.Tensor) -> torch.Tensor:
    """Bit patterns as integers that grow with the value; both zeros are 0."""
    bits = x.contiguous().view(_INTEGER_VIEWS[x.element_size()])
    wide = bits.to(torch.int64)
    if x.element_size() == 1:
        return torch.where(wide >= 128, 128 - wide, wide)
    return torch.where(wide < 0, torch.iinfo(bits.dtype).min - wide, wide)


def relative_error(error: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """`error / |expected|` where the expected value is not zero; 0 elsewhere (the absolute error tells those)."""
    scale = expected.abs()
    return torch.where(scale > 0, error / scale.clamp_min(torch.finfo(torch.float64).tiny), torch.zeros_like(error))


def relative_l2(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """`||actual - expected|| / ||expected||`; 0 when both are zero, infinity when only the expected one is."""
    difference, norm = float((actual - expected).norm()), float(expected.norm())
    return difference / norm if norm > 0 else (0.0 if difference == 0 else float("inf"))


def cosine_similarity(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Cosine of the angle between the flattened tensors; 1 when both are zero, 0 when only one is."""
    a, b = float(actual.norm()), float(expected.norm())
    if a == 0 or b == 0:
        return 1.0 if a == b else 0.0
    return float((actual.flatten() / a) @ (expected.flatten() / b))


def quantiles_of(data: torch.Tensor, quantiles: Sequence[float] = QUANTILES) -> tuple[float, ...]:
    """Values below which each share of the cells lies."""
    flat = data.flatten()
    if flat.numel() == 0:
        return tuple(0.0 for _ in quantiles)
    largest = float(flat.max())
    step = -(-flat.numel() // _SAMPLE)
    ordered = flat[::step].sort().values
    last = ordered.numel() - 1
    return tuple(largest if q >= 1 else float(ordered[min(last, int(q * last + 0.5))]) for q in quantiles)


@dataclass(frozen=True, slots=True)
class Metrics:
    """Error measures over the cells that are finite on both sides; the worst cells count for `max_*`."""

    max_abs: float
    max_rel: float
    max_ulp: float | None
    mean_abs: float
    rel_l2: float
    cosine: float
    shares: tuple[tuple[float, float], ...]
    """(threshold, share of cells whose relative difference is above it)."""
    percentiles: tuple[tuple[float, float], ...]
    """(quantile, absolute error)."""


EXACT = Metrics(0.0, 0.0, 0.0, 0.0, 0.0, 1.0, tuple((t, 0.0) for t in THRESHOLDS), tuple((q, 0.0) for q in QUANTILES))
"""What bitwise equal tensors measure."""


def measure(actual: torch.Tensor, expected: torch.Tensor) -> Metrics:
    """All measures of two tensors of one shape. Cells with NaN or infinity on either side are left out."""
    got, want = widen(actual), widen(expected)
    usable = got.isfinite() & want.isfinite()
    ulp = ulp_distance(actual.detach().cpu(), expected.detach().cpu())
    if not bool(usable.all()):
        got, want = got[usable], want[usable]
        ulp = None if ulp is None else ulp[usable]
    if got.numel() == 0:
        return EXACT
    error = (got - want).abs()
    relative = relative_error(error, want)
    return Metrics(
        max_abs=float(error.max()),
        max_rel=float(relative.max()),
        max_ulp=None if ulp is None else float(ulp.max()),
        mean_abs=float(error.mean()),
        rel_l2=relative_l2(got, want),
        cosine=cosine_similarity(got, want),
        shares=tuple((t, float((relative > t).double().mean())) for t in THRESHOLDS),
        percentiles=tuple(zip(QUANTILES, quantiles_of(error), strict=True)),
    )
