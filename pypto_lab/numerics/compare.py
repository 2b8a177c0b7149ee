"""Comparing a result with its reference: is it right within tolerance, how far off, where, and why perhaps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from pypto_lab.numerics.guess import Evidence, Guess, guesses
from pypto_lab.numerics.metrics import EXACT, Metrics, default_tolerance, measure, widen
from pypto_lab.numerics.where import Where, locate

_MANY_ULP = 1e6
"""Distances above this say nothing to people and are left out of the text."""

BROKEN = Metrics(math.inf, math.inf, None, math.inf, math.inf, 0.0, (), ())
"""What tensors measure that cannot be compared cell by cell."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One tensor against its reference. A cell is right when `|actual - expected| <= atol + rtol * |expected|`; NaN is
    right only where NaN is expected, infinity only where the same infinity is."""

    ok: bool
    rtol: float
    atol: float
    dtype: str
    shape: tuple[int, ...]
    metrics: Metrics
    where: Where | None = None
    guesses: tuple[Guess, ...] = ()
    problem: str | None = None
    """Why the tensors cannot be the same thing: another shape or dtype."""
    samples: tuple[tuple[tuple[int, ...], float, float], ...] = ()
    """(cell, actual, expected) of the first bad cells."""
    bad_nan: int = 0
    bad_infinity: int = 0
    rule: str | None = None
    """What a case's own comparer said, when it decided instead of the tolerance."""

    @property
    def max_abs(self) -> float:
        """The largest absolute error; infinity when NaN, infinity, shape or dtype are wrong."""
        return math.inf if self.problem or self.bad_nan or self.bad_infinity else self.metrics.max_abs

    @property
    def max_rel(self) -> float:
        return math.inf if self.problem or self.bad_nan or self.bad_infinity else self.metrics.max_rel

    @property
    def message(self) -> str:
        """One line: what is wrong, or how close it is."""
        if self.problem:
            return self.problem
        if self.rule is not None:
            return self.rule
        if self.ok:
            exact = self.metrics.max_abs == 0
            return "equal" if exact else f"within tolerance, max abs {self.metrics.max_abs:.3g}"
        if self.where is None:
            return "not accepted"
        guess = f"; {self.guesses[0].text}" if self.guesses else ""
        return f"{self.where.count} of {self.where.total} cells off, max abs {number(self.max_abs)}{guess}"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The whole report as text."""
        if self.problem or self.ok or self.where is None:
            return self.message.splitlines()
        m = self.metrics
        first, *rest = self.where.lines()
        ulp = f", {m.max_ulp:.0f} ULP" if m.max_ulp is not None and m.max_ulp < _MANY_ULP else ""
        out = [
            f"wrong: {first}",
            *(f"  {line}" for line in rest),
            f"  max abs {number(self.max_abs)}, max rel {number(self.max_rel)}{ulp}, rel-L2 {m.rel_l2:.3g}, "
            f"cosine {m.cosine:.6f} (rtol {self.rtol:g}, atol {self.atol:g})",
        ]
        if self.rule is not None:
            out += [f"  {line}" for line in self.rule.splitlines()]
        out += [f"  {list(cell)}: {a:.7g}, expected {b:.7g}" for cell, a, b in self.samples]
        out += [f"  perhaps: {guess.text}" for guess in self.guesses]
        return out

    def to_json(self) -> dict[str, Any]:
        """Plain data; infinities and NaN are null."""
        m = self.metrics
        return {
            "ok": self.ok,
            "max_abs": finite(self.max_abs),
            "max_rel": finite(self.max_rel),
            "max_ulp": finite(m.max_ulp),
            "rel_l2": finite(m.rel_l2),
            "cosine": finite(m.cosine),
            "rtol": self.rtol,
            "atol": self.atol,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "shares": [[t, s] for t, s in m.shares],
            "percentiles": [[q, finite(v)] for q, v in m.percentiles],
            "nan": self.bad_nan,
            "infinity": self.bad_infinity,
            "where": None if self.where is None else self.where.to_json(),
            "guesses": [{"kind": g.kind, "text": g.text} for g in self.guesses],
            "message": self.message,
        }


def compare(
    actual: torch.Tensor,
    expected: torch.Tensor,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    tiles: Sequence[int] | None = None,
) -> Comparison:
    """Compares a tensor with its reference.

    Tolerances left out are what the expected dtype's rounding needs; integers must be equal. `tiles` is the (rows,
    columns) of the kernel's tile, for naming tiles. Another shape or dtype is a mismatch, never broadcast or converted.
    """
    actual, expected = _tensor(actual), _tensor(expected)
    default = default_tolerance(expected.dtype)
    relative = default[0] if rtol is None else float(rtol)
    absolute = default[1] if atol is None else float(atol)
    dtype, shape = str(expected.dtype).removeprefix("torch."), tuple(expected.shape)
    problem = _incomparable(actual, expected)
    if problem is not None:
        return Comparison(False, relative, absolute, dtype, shape, BROKEN, problem=problem)
    if _same_bits(actual, expected):
        return Comparison(True, relative, absolute, dtype, shape, EXACT)
    metrics = measure(actual, expected)
    bad = bad_cells(actual, expected, relative, absolute)
    if not bool(bad.any()):
        return Comparison(True, relative, absolute, dtype, shape, metrics)
    where = locate(bad, tiles)
    size = None if tiles is None else ((1, int(tiles[0])) if len(tiles) == 1 else (int(tiles[-2]), int(tiles[-1])))
    evidence = Evidence(actual, expected, bad, where, metrics, relative, absolute, size)
    got, want = widen(actual), widen(expected)
    nan = got.isnan() != want.isnan()
    infinite = bad & (got.isinf() | want.isinf()) & ~nan
    samples = tuple((cell, _item(actual, cell), _item(expected, cell)) for cell in where.first)
    return Comparison(
        False, relative, absolute, dtype, shape, metrics, where, guesses(evidence), None, samples,
        int(nan.sum()), int(infinite.sum()),
    )  # fmt: skip


def judged(comparison: Comparison, passed: bool, message: str) -> Comparison:
    """The same measures with the verdict of a case's own comparer."""
    text = message or ("accepted by the case's own rule" if passed else "refused by the case's own rule")
    return replace(comparison, ok=passed, rule=text)


def bad_cells(actual: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float) -> torch.Tensor:
    """Mask of the cells that are not right. Integers are compared exactly when both tolerances are zero."""
    if not expected.dtype.is_floating_point and rtol == 0 and atol == 0:
        return actual != expected
    got, want = widen(actual), widen(expected)
    same = (got == want) | (got.isnan() & want.isnan())
    near = (got - want).abs() <= atol + rtol * want.abs()
    near &= got.isfinite() & want.isfinite()
    return ~(same | near)


def finite(value: float | None) -> float | None:
    """A number JSON can carry."""
    return value if value is not None and math.isfinite(value) else None


def number(value: float) -> str:
    return f"{value:.3g}"


def _tensor(value: Any) -> torch.Tensor:
    return value.detach().cpu() if isinstance(value, torch.Tensor) else torch.as_tensor(value)


def _incomparable(actual: torch.Tensor, expected: torch.Tensor) -> str | None:
    if actual.shape != expected.shape:
        return f"shape {list(actual.shape)}, expected {list(expected.shape)}"
    if actual.dtype != expected.dtype:
        names = (str(t.dtype).removeprefix("torch.") for t in (actual, expected))
        return "dtype {}, expected {}".format(*names)
    return None


def _same_bits(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    if actual.dtype.is_floating_point:
        actual, expected = (t.contiguous().reshape(-1).view(torch.uint8) for t in (actual, expected))
    return torch.equal(actual, expected)


def _item(x: torch.Tensor, cell: tuple[int, ...]) -> float:
    return float(x[cell].float() if x.element_size() == 1 and x.dtype.is_floating_point else x[cell])
