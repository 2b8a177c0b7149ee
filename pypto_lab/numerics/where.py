"""Where bad cells lie: first cells, bounding box, rows and columns, tiles, tails, halves."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch

FIRST_CELLS = 5


@dataclass(frozen=True, slots=True)
class Where:
    """Places of the bad cells of a tensor. Rows and columns are those of the last two axes (leading axes are put
    under each other); ranges are half open."""

    count: int
    total: int
    shape: tuple[int, ...]
    first: tuple[tuple[int, ...], ...]
    box: tuple[tuple[int, int], ...]
    """(first, last + 1) along each axis."""
    rows: tuple[tuple[int, int], ...]
    columns: tuple[tuple[int, int], ...]
    tiles: tuple[tuple[int, int], ...] = ()
    """(row, column) of the tiles that hold bad cells; empty when no tile shape was given."""
    tile_count: int = 0
    full_box: bool = False
    """True when every cell of the bounding box is bad."""

    def lines(self) -> list[str]:
        """A few lines of text for people."""
        share = 100 * self.count / self.total
        amount = f"{share:.1f} %" if share >= 0.1 else f"{share:.2g} %"
        box = ", ".join(f"{a}:{b}" for a, b in self.box)
        filled = "all of" if self.full_box else "inside"
        out = [f"{self.count} of {self.total} cells ({amount}), {filled} [{box}]"]
        if len(self.shape) >= 1 and not self.full_box:
            out.append(f"rows {ranges(self.rows)}; columns {ranges(self.columns)}")
        if self.tiles:
            shown = ", ".join(f"({r}, {c})" for r, c in self.tiles[:8])
            more = f" and {len(self.tiles) - 8} more" if len(self.tiles) > 8 else ""
            out.append(f"tiles {shown}{more} of {self.tile_count}")
        return out

    def to_json(self) -> dict[str, object]:
        return {
            "count": self.count,
            "total": self.total,
            "first": [list(cell) for cell in self.first],
            "box": [list(edge) for edge in self.box],
            "rows": [list(r) for r in self.rows],
            "columns": [list(c) for c in self.columns],
            "tiles": [list(t) for t in self.tiles],
        }


def as_matrix(x: torch.Tensor) -> torch.Tensor:
    """The tensor as rows and columns: leading axes under each other, a vector as one row."""
    if x.dim() == 0:
        return x.reshape(1, 1)
    return x.reshape(1, -1) if x.dim() == 1 else x.reshape(-1, x.shape[-1])


def locate(bad: torch.Tensor, tiles: Sequence[int] | None = None) -> Where:
    """Places of the True cells of `bad` (at least one). `tiles` is the (rows, columns) of a tile."""
    cells = bad.nonzero()
    low, high = cells.amin(dim=0).tolist(), cells.amax(dim=0).tolist()
    box = tuple((int(a), int(b) + 1) for a, b in zip(low, high, strict=True))
    volume = 1
    for start, stop in box:
        volume *= stop - start
    matrix = as_matrix(bad)
    where_tiles, tile_count = _tiles(matrix, tiles)
    return Where(
        count=cells.shape[0],
        total=bad.numel(),
        shape=tuple(bad.shape),
        first=tuple(tuple(int(i) for i in cell) for cell in cells[:FIRST_CELLS].tolist()),
        box=box,
        rows=runs(matrix.any(dim=1)),
        columns=runs(matrix.any(dim=0)),
        tiles=where_tiles,
        tile_count=tile_count,
        full_box=volume == cells.shape[0],
    )


def runs(flags: torch.Tensor) -> tuple[tuple[int, int], ...]:
    """Half-open ranges of consecutive True flags."""
    indices = flags.nonzero().flatten().tolist()
    found: list[tuple[int, int]] = []
    for index in indices:
        if found and found[-1][1] == index:
            found[-1] = (found[-1][0], index + 1)
        else:
            found.append((index, index + 1))
    return tuple(found)


def ranges(found: Sequence[tuple[int, int]], limit: int = 6) -> str:
    """Ranges as text: `0-15, 32, 48-63`; a regular pattern as `every 8th from 7`."""
    starts = [a for a, _ in found]
    single = all(b - a == 1 for a, b in found)
    if len(found) > 3 and single:
        steps = {b - a for a, b in itertools.pairwise(starts)}
        if len(steps) == 1:
            return f"every {steps.pop()}th from {starts[0]} to {starts[-1]}"
    text = ", ".join(str(a) if b - a == 1 else f"{a}-{b - 1}" for a, b in found[:limit])
    return text + (f" ... {found[-1][1] - 1} ({len(found)} groups)" if len(found) > limit else "")


def _tiles(matrix: torch.Tensor, tiles: Sequence[int] | None) -> tuple[tuple[tuple[int, int], ...], int]:
    if tiles is None:
        return (), 0
    height, width = (1, int(tiles[0])) if len(tiles) == 1 else (int(tiles[-2]), int(tiles[-1]))
    cells = matrix.nonzero()
    held = sorted(set(zip((cells[:, 0] // height).tolist(), (cells[:, 1] // width).tolist(), strict=True)))
    count = -(-matrix.shape[0] // height) * -(-matrix.shape[1] // width)
    return tuple(held), count
