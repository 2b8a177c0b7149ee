"""Undefined is not zero: which statement first reads a cell that nobody wrote, and where that cell comes from.

The program runs twice, side by side, with different markers in every undefined cell: a value whose valid cells differ
depends on undefined ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import Direction
from pypto_lab.numerics.differences import Finder, FirstRead
from pypto_lab.torch_codegen.execute import Prepared, prepare
from pypto_lab.torch_codegen.lockstep import Side

MARKERS = (2, 3)
"""Two markers that differ in sign."""


def undefined_reads(
    program: n.Program | n.Function, values: Mapping[str, Any], *, seed: int = 0
) -> tuple[FirstRead, ...]:
    """For each output that depends on undefined cells, the statement by which they came in; () when none does.

    Cells of an `Out` parameter that nobody writes are undefined too. Raises LabError like `run`.
    """
    sides = [Side(prepare(program, values), marker) for marker in MARKERS]
    for side, marker in zip(sides, MARKERS, strict=True):
        _mark_outputs(program, side.prepared, marker)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return Finder(sides[0].prepared).find(sides[0], sides[1], seed)


def _mark_outputs(program: n.Program | n.Function, prepared: Prepared, marker: int) -> None:
    """Puts the marker into outputs that are not inputs too."""
    entry = program if isinstance(program, n.Function) else _entry(program, prepared)
    pairs = list(zip(entry.params, prepared.arguments, strict=True))
    read = {id(value) for param, value in pairs if param.direction is not Direction.Out}
    for param, value in pairs:
        if param.direction is Direction.Out and isinstance(value, torch.Tensor) and id(value) not in read:
            value.copy_(torch.full(value.shape, _number(value.dtype, marker), dtype=torch.float32).to(value.dtype))


def _entry(program: n.Program, prepared: Prepared) -> n.Function:
    script = prepared.script
    return program.functions[next(name for name, written in script.functions.items() if written == script.entry)]


def _number(dtype: torch.dtype, marker: int) -> float:
    """What a cell of an output holds before the run."""
    signed = dtype.is_floating_point or (dtype is not torch.bool and torch.iinfo(dtype).min < 0)
    if dtype is torch.bool or (dtype.is_floating_point and dtype.itemsize == 1):
        return float(marker % 2)
    return float((41 + marker) * (-1 if signed and marker % 2 else 1))
