"""Outputs of a recording against their golden: verdict, metrics, an error map and how the errors are spread."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pypto_lab.numerics.case import Case, clone
from pypto_lab.numerics.compare import Comparison, compare
from pypto_lab.record.recording import Recording
from pypto_lab.view.workbench.tiles import Tile, error_tile

BINS = 41
"""Bars of the histogram of errors; odd, so that one is centred on zero."""

_WIDEST = 100.0
"""Errors beyond this many tolerances share the outermost bars."""


@dataclass(frozen=True, slots=True)
class OutputNumbers:
    """One output against its golden. `bars` count the cells by error in tolerances, over -reach .. reach."""

    name: str
    comparison: Comparison
    tile: Tile | None
    reach: float
    bars: tuple[int, ...]
    left_out: int
    """Cells without a finite error."""

    def data(self) -> dict[str, Any]:
        c = self.comparison
        return {
            "name": self.name, "ok": c.ok, "lines": c.lines(), "message": c.message, "rtol": c.rtol, "atol": c.atol,
            "dtype": c.dtype, "shape": list(c.shape), "maxAbs": _finite(c.max_abs), "maxRel": _finite(c.max_rel),
            "wrong": c.where.count if c.where is not None else 0, "total": math.prod(c.shape),
            "guesses": [g.text for g in c.guesses], "key": self.tile.key if self.tile is not None else None,
            "reach": self.reach, "bars": list(self.bars), "leftOut": self.left_out,
        }  # fmt: skip


def expected_of(recording: Recording, case: Case) -> dict[str, Any]:
    """The golden's outputs for the inputs of a recording, as torch tensors by parameter name."""
    from pypto_lab.record.recompute import live_value

    inputs = {
        plain_name(name): live_value(recording.index.content(value, 0))
        for name, value in recording.facts.inputs.items()
    }
    values = case.make_inputs(recording.facts.seed)
    return case.expected(clone({name: inputs.get(name, value) for name, value in values.items()}))


def plain_name(name: str) -> str:
    """A parameter's name as the kernel's author wrote it, without the compiler's version number."""
    return re.sub(r"_+ssa_v\d+$", "", name)


def output_numbers(
    recording: Recording, expected: Mapping[str, Any], comparisons: Mapping[str, Comparison] | None = None
) -> list[OutputNumbers]:
    """Every output that has a golden. `comparisons` are those already made, by output."""
    out = []
    for name, golden in expected.items():
        actual = recording.outputs.get(name)
        if actual is None:
            continue
        comparison = (comparisons or {}).get(name) or compare(actual, golden)
        out.append(_numbers(name, comparison, as_array(actual), as_array(golden)))
    return out


def _numbers(name: str, comparison: Comparison, actual: NDArray[Any], golden: NDArray[Any]) -> OutputNumbers:
    if comparison.problem is not None or actual.shape != golden.shape or actual.size == 0:
        return OutputNumbers(name, comparison, None, 0.0, (), 0)
    tile, errors = error_tile(f"error:{name}", actual, golden, comparison.rtol, comparison.atol)
    finite = errors[np.isfinite(errors)]
    reach = min(_WIDEST, max(1.0, float(np.abs(finite).max(initial=0.0))))
    bars, _ = np.histogram(np.clip(finite, -reach, reach), BINS, (-reach, reach))
    return OutputNumbers(name, comparison, tile, reach, tuple(bars.tolist()), errors.size - finite.size)


def as_array(tensor: Any) -> NDArray[Any]:
    """A torch tensor's numbers as numpy has them; narrow floats widen to float32."""
    if isinstance(tensor, np.ndarray):
        return tensor
    held = tensor.detach().cpu()
    if held.dtype.is_floating_point and held.element_size() < 4:
        held = held.float()
    return np.asarray(held.numpy())


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
