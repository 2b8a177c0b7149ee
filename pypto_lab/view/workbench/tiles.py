"""Cells of tensors for display: a matrix, small enough to draw, with the true statistics of all its cells.

A tile is named by `value@version`: the id of the value and the step that last changed it; `!expected` and
`!difference` after it name the golden and the distance from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.record.arrays import Summary, number, summarise
from pypto_lab.record.events import TensorValue
from pypto_lab.record.recording import Recording
from pypto_lab.record.store import region_of_write, view_of
from pypto_lab.record.trace import Cells
from pypto_lab.view.workbench.timeline import outputs_by_storage

SIDE = 128
"""Rows and columns that are drawn at most; larger tensors are shown by the extreme of each block."""

MODES = ("values", "expected", "difference")
WIDE = ("float64", "int64", "int32", "uint32", "uint64")
"""Types whose numbers need float64."""

Numbers = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Tile:
    """A tensor to draw. `data` are the numbers of `shown` rows and columns, row by row; `rows` and `columns` are those
    of the whole, leading axes under each other. `valid_rows` are half-open ranges, `valid_columns` a count."""

    key: str
    rows: int
    columns: int
    shown: tuple[int, int]
    valid_rows: tuple[tuple[int, int], ...]
    valid_columns: int
    stats: Mapping[str, Any]
    data: bytes
    wide: bool
    """Whether the numbers are float64 instead of float32."""

    def head(self) -> dict[str, Any]:
        """All but the numbers, as plain data."""
        return {
            "key": self.key, "rows": self.rows, "columns": self.columns, "shown": list(self.shown),
            "validRows": [list(r) for r in self.valid_rows], "validColumns": self.valid_columns,
            "stats": dict(self.stats), "wide": self.wide,
        }  # fmt: skip


class Tiles:
    """The tiles of a recording; `expected` are golden outputs by name, as numpy arrays."""

    def __init__(self, recording: Recording, expected: Mapping[str, Numbers] | None = None) -> None:
        self.recording = recording
        self.expected = dict(expected or {})
        self._outputs = outputs_by_storage(recording)

    def golden_of(self, value: int) -> Numbers | None:
        """The golden of the output that a value is, None for other values."""
        found = self.recording.trace.values[value]
        if not isinstance(found, TensorValue):
            return None
        golden = self.expected.get(self._outputs.get((found.storage, found.shape), ""))
        return golden if golden is not None and golden.shape == found.shape else None

    def stats(self, key: str) -> dict[str, Any]:
        """Statistics of the valid cells of a tile."""
        return statistics(self.content(key))

    def tile(self, key: str, side: int = SIDE) -> Tile:
        """The tile of a key. Raises LabError for one that does not exist."""
        cells = self.content(key)
        return tile_of(key, cells, side)

    def window(self, key: str, row: int, column: int, rows: int, columns: int) -> tuple[tuple[int, int], bytes]:
        """True cells of a part of a tile: how many rows and columns, and their numbers as float64."""
        matrix = as_matrix(self.content(key).numbers)
        part = matrix[max(0, row) : row + rows, max(0, column) : column + columns]
        return (part.shape[0], part.shape[1]), np.ascontiguousarray(real(part), np.float64).tobytes()

    def contents(self, keys: Iterable[str]) -> Iterator[tuple[str, Cells]]:
        """The cells of many tiles, each to be used before the next is taken: the versions of one tensor come from one
        walk back through its writes, so all of them cost little more than one."""
        versions: dict[int, list[int]] = {}
        for key in keys:
            name, _, version = key.partition("@")
            versions.setdefault(int(name), []).append(int(version))
        for value, wanted in versions.items():
            found = self.recording.trace.values[value]
            if isinstance(found, TensorValue) and len(wanted) > 2:
                yield from self._walk(value, found, sorted(wanted, reverse=True))
            else:
                yield from ((key, self.content(key)) for key in (f"{value}@{version}" for version in wanted))

    def _walk(self, value: int, found: TensorValue, versions: Sequence[int]) -> Iterator[tuple[str, Cells]]:
        store = self.recording.trace.store
        image = np.array(store.storages[found.storage], np.uint8)
        writes = store.writes_to(found.storage)
        at = len(writes.steps)
        for version in versions:
            while at and writes.steps[at - 1] > version:
                at -= 1
                write, old = store.writes[writes.ids[at]], store.replaced[writes.ids[at]]
                region_of_write(image, write, 0)[...] = old.reshape(*write.shape, write.item)
            cells = Cells(view_of(image, found, 0), found.dtype, self.recording.index.valid(value, version))
            yield f"{value}@{version}", cells

    def content(self, key: str) -> Cells:
        """The cells of a tile. Raises LabError for one that does not exist."""
        name, _, mode = key.partition("!")
        value, _, version = name.partition("@")
        if not (value.isdecimal() and version.isdecimal() and int(value) < len(self.recording.trace.values)):
            raise _unknown(key)
        content = self.recording.index.content(int(value), int(version))
        if not isinstance(content, Cells):
            raise _unknown(key)
        if not mode:
            return content
        golden = self.golden_of(int(value))
        if golden is None or mode not in MODES[1:]:
            raise _unknown(key)
        return against(content, golden, mode)


def against(content: Cells, golden: Numbers, mode: str) -> Cells:
    """The golden, or how far the content is from it: 0 where both are NaN."""
    if mode == "expected":
        return Cells(golden, str(golden.dtype), content.valid)
    with np.errstate(invalid="ignore"):
        gap = content.numbers.astype(np.float64) - golden.astype(np.float64)
    both = np.isnan(content.numbers) & np.isnan(golden) if golden.dtype.kind == "f" else np.zeros_like(gap, bool)
    return Cells(np.where(both, 0.0, gap), "float64", content.valid)


def _unknown(key: str) -> LabError:
    return LabError([Diagnostic("E419", f"the recording has no tile `{key}`")])


def statistics(cells: Cells) -> dict[str, Any]:
    """Smallest, largest and mean of the finite valid cells (numbers and text), NaN, infinities, cells."""
    found: Summary = summarise(cells.raw, cells.dtype, cells.valid)
    return {
        "low": _plain(found.low), "high": _plain(found.high), "mean": _plain(found.mean),
        "lowText": number(found.low), "highText": number(found.high), "meanText": number(found.mean),
        "nan": found.nan, "inf": found.inf, "cells": found.cells, "text": str(found),
    }  # fmt: skip


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def tile_of(key: str, cells: Cells, side: int = SIDE) -> Tile:
    """A tensor as a tile of at most `side` rows and columns."""
    matrix = as_matrix(real(cells.numbers))
    rows, columns = matrix.shape
    small = blocks(matrix, side)
    wide = cells.dtype in WIDE
    data = np.ascontiguousarray(small, np.float64 if wide else np.float32).tobytes()
    valid_rows, valid_columns = valid_part(cells.shape, cells.valid)
    shown = (small.shape[0], small.shape[1])
    return Tile(key, rows, columns, shown, valid_rows, valid_columns, statistics(cells), data, wide)


def whole_of(cells: Cells, wide: bool) -> bytes:
    """All cells of a tensor, row by row, as float64 (`wide`) or float32."""
    matrix = as_matrix(real(cells.numbers))
    return np.ascontiguousarray(matrix, np.float64 if wide else np.float32).tobytes()


def real(numbers: Numbers) -> Numbers:
    """Complex numbers by their size, everything else as it is."""
    return np.abs(numbers) if numbers.dtype.kind == "c" else numbers


def as_matrix(numbers: Numbers) -> Numbers:
    """Rows and columns: leading axes under each other, a vector as one row."""
    if numbers.ndim < 2:
        return numbers.reshape(1, numbers.size)
    return numbers.reshape(-1, numbers.shape[-1]) if numbers.size else numbers.reshape(0, numbers.shape[-1])


def valid_part(shape: tuple[int, ...], valid: tuple[int, ...] | None) -> tuple[tuple[tuple[int, int], ...], int]:
    """Ranges of the matrix's rows that hold valid cells, and how many columns of them are valid."""
    if len(shape) < 2:
        count = shape[0] if shape else 1
        part = count if valid is None else (valid[0] if valid else 1)
        return (((0, 1),) if part else ()), part
    rows = math.prod(shape[:-1])
    if valid is None:
        return (((0, rows),) if rows else ()), shape[-1]
    mask = np.zeros(shape[:-1], bool)
    mask[tuple(slice(0, v) for v in valid[:-1])] = True
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.ravel().astype(np.int8), [0])))).tolist()
    ranges = tuple(zip(edges[::2], edges[1::2], strict=True)) if valid[-1] else ()
    return ranges, valid[-1]


def blocks(matrix: Numbers, side: int) -> Numbers:
    """A matrix of at most `side` rows and columns: of each block the cell farthest from zero; NaN where one is NaN."""
    rows, columns = matrix.shape
    tall, wide = max(1, -(-rows // side)), max(1, -(-columns // side))
    if tall == 1 and wide == 1:
        return matrix
    high, low = (_by_blocks(pick, matrix, tall, wide) for pick in (np.maximum, np.minimum))
    return np.where(np.abs(low) > np.abs(high), low, high)  # both are NaN where one cell is


def _by_blocks(pick: np.ufunc, matrix: Numbers, tall: int, wide: int) -> Numbers:
    """The largest (or smallest) cell of each block as float64: rows first, which takes memory as it lies."""
    return _by_rows(pick, _by_rows(pick, matrix, tall).T, wide).T.astype(np.float64)


def _by_rows(pick: np.ufunc, matrix: Numbers, tall: int) -> Numbers:
    whole = matrix.shape[0] // tall * tall
    parts = [pick.reduce(matrix[:whole].reshape(whole // tall, tall, matrix.shape[1]), axis=1)]
    if whole < matrix.shape[0]:
        parts.append(pick.reduce(matrix[whole:], axis=0, keepdims=True))
    return np.concatenate(parts)


def error_tile(key: str, actual: Numbers, expected: Numbers, rtol: float, atol: float) -> tuple[Tile, Numbers]:
    """The error of an output in units of its tolerance, signed: as a tile, and every cell of it.

    Infinite where only one side is infinite, NaN where only one side is NaN.
    """
    got, want = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        error = (got - want) / np.maximum(atol + rtol * np.abs(want), 1e-300)
    error = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0.0, error)
    return tile_of(key, Cells(error, "float64"), SIDE), error
