"""The error map of an output: which cells are off, by how much more than tolerance, and in which direction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pypto_lab.view.parts import Figure

LEVELS = (1.0, 10.0, 100.0)
"""Errors in tolerances from which a cell is a shade darker."""

NAN = "nan"
_CELL = 6.0
_LABEL = 44.0
_KEY_ROW, _KEY_WIDTH = 14.0, 250.0
_WORDS = {1: "1 to 10", 2: "10 to 100", 3: "over 100"}


@dataclass(frozen=True, slots=True)
class ErrorMap:
    """A grid of signed errors in tolerances; NaN where only one side is NaN. `rows` and `columns` are the size of the
    whole matrix, of which each cell of the grid shows the worst of a block."""

    output: str
    grid: tuple[tuple[float, ...], ...]
    rows: int
    columns: int


def level(error: float) -> str:
    """The shade of a cell: "" within tolerance, p1..p3 too large, n1..n3 too small, nan."""
    if error != error:
        return NAN
    steps = sum(abs(error) > bound for bound in LEVELS)
    return "" if steps == 0 else f"{'p' if error > 0 else 'n'}{steps}"


def figure(errors: ErrorMap) -> Figure:
    """The map as a picture with its key, and as text."""
    shades = [[level(e) for e in row] for row in errors.grid]
    width, height = _CELL * len(errors.grid[0]), _CELL * len(errors.grid)
    paths = {shade: _path(shades, shade) for row in shades for shade in row if shade}
    cells = "".join(f'<path class="pl-h-{shade}" d="{paths[shade]}"/>' for shade in sorted(paths))
    frame = f'<rect class="pl-h-frame" x="{_LABEL}" y="14" width="{width:.0f}" height="{height:.0f}"/>'
    name = f"Error map of {errors.output}"
    key = _key(sorted(paths), height + 30)
    page_width, page_height = max(_LABEL + width, _KEY_WIDTH) + 8, height + 24 + _KEY_ROW * len(paths)
    svg = (
        f'<svg class="pl-heat" xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{name}: {_summary(shades)}" '
        f'viewBox="0 0 {page_width:.0f} {page_height:.0f}" style="width:{page_width:.0f}px;max-width:100%">'
        f'<text x="{_LABEL}" y="9">c 0</text><text x="{_LABEL + width:.0f}" y="9" text-anchor="end">'
        f'c {errors.columns - 1}</text><text x="{_LABEL - 5}" y="23" text-anchor="end">r 0</text>'
        f'<text x="{_LABEL - 5}" y="{14 + height:.0f}" text-anchor="end">r {errors.rows - 1}</text>'
        f"{frame}{cells}{frame.replace('pl-h-frame', 'pl-h-edge')}{key}</svg>"
    )
    return Figure(svg, name, _text(errors, shades))


def _path(shades: Sequence[Sequence[str]], shade: str) -> str:
    """One path for all cells of a shade, neighbours in a row joined."""
    parts: list[str] = []
    for y, row in enumerate(shades):
        start: int | None = None
        for x, found in enumerate([*row, ""]):
            if found == shade and start is None:
                start = x
            elif found != shade and start is not None:
                left, run = _LABEL + start * _CELL, (x - start) * _CELL
                parts.append(f"M{left:g} {14 + y * _CELL:g}h{run:g}v{_CELL:g}h{-run:g}z")
                start = None
    return "".join(parts)


def _key(shades: Sequence[str], top: float) -> str:
    """What each shade in the map means, one below another."""
    out = []
    for index, shade in enumerate(shades):
        y = top + _KEY_ROW * index
        out.append(f'<rect class="pl-h-{shade}" x="{_LABEL:g}" y="{y - 8:g}" width="9" height="9"/>')
        out.append(f'<text x="{_LABEL + 14:g}" y="{y:g}">{shade_words(shade)}</text>')
    return "".join(out)


def shade_words(shade: str) -> str:
    if shade == NAN:
        return "NaN"
    return f"{'too large' if shade[0] == 'p' else 'too small'}, {_WORDS[int(shade[1])]} tolerances"


def _summary(shades: Sequence[Sequence[str]]) -> str:
    counts: dict[str, int] = {}
    for row in shades:
        for shade in row:
            if shade:
                counts[shade] = counts.get(shade, 0) + 1
    parts = [f"{counts[shade]} {shade_words(shade)}" for shade in sorted(counts)]
    return "; ".join(parts) or "all cells within tolerance"


def _text(errors: ErrorMap, shades: Sequence[Sequence[str]]) -> str:
    """The grid in characters: `.` within tolerance, `+` too large, `-` too small (`#` and `=` by far), `N` NaN."""
    marks: Mapping[str, str] = {"": ".", "p1": "+", "p2": "+", "p3": "#", "n1": "-", "n2": "-", "n3": "=", NAN: "N"}
    head = f"{errors.output}, {errors.rows} rows, {errors.columns} columns: {_summary(shades)}"
    return "\n".join([head, *("".join(marks[s] for s in row) for row in shades)])
