"""Static pictures of a recording: its timeline, and the tile at the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pypto_lab.record.events import EventKind, StepKind
from pypto_lab.view.parts import Figure
from pypto_lab.view.workbench import text
from pypto_lab.view.workbench.tiles import Tile, tile_of

if TYPE_CHECKING:
    from pypto_lab.view.workbench.bench import Workbench

_COLOUR = {"AIC": "#ba5e00", "AIV0": "#176dc1", "AIV1": "#691b7e", "host": "#616161"}
_EVENT = {EventKind.PUSH: ("#388e3c", "M0-4.5L4.5 3.5h-9z"), EventKind.POP: ("#0097a7", "M0 4.5L4.5-3.5h-9z")}
_WIDTH, _ROW, _LEFT, _TOP = 860.0, 18.0, 52.0, 22.0
_MOST_MARKS = 400
_SIDE = 48
_CELL = 6.0


def timeline_figure(bench: Workbench) -> Figure:
    """Every step of every lane with pushes, pops, waits and the cursor."""
    recording = bench.recording
    total = max(1, len(recording))
    stores = {w.step for w in recording.trace.store.writes}

    def x(step: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - 10) * step / total

    every = max(1, -(-total // _MOST_MARKS))
    rows = []
    for row, name in enumerate(recording.lanes):
        y = _TOP + row * _ROW
        colour = _COLOUR.get(name, "#616161")
        marks = [f'<text x="{_LEFT - 8}" y="{y + 3.5}" text-anchor="end">{name}</text>']
        marks.append(f'<path d="M{_LEFT} {y}H{_WIDTH}" stroke="#d5d5d5"/>')
        steps = recording.index.steps_of_lane[recording.trace.lanes.index(name)]
        for step in dict.fromkeys((s // every) * every or s for s in steps):
            marks.append(_mark(bench, step, x(step), y, colour, step in stores))
        rows.append("".join(marks))
    at = x(bench.session.position)
    height = _TOP + _ROW * len(rows)
    cursor = f'<path d="M{at:.1f} 12V{height - 8:.1f}" stroke="#1976d2" stroke-width="1.5"/>'
    number = f'<text x="{at:.1f}" y="9" text-anchor="middle">{bench.session.position}</text>'
    label = f"Timeline of {bench.title}: {len(recording)} steps, {len(rows)} lanes"
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" '
        f'viewBox="0 0 {_WIDTH:.0f} {height:.0f}" '
        f'style="width:{_WIDTH:.0f}px;max-width:100%;background:#fff" font-family="sans-serif" font-size="10" '
        f'fill="#1f1f1f">{"".join(rows)}{cursor}{number}</svg>'
    )
    return Figure(svg, label, text.timeline_text(bench))


def _mark(bench: Workbench, step: int, x: float, y: float, colour: str, stores: bool) -> str:
    recording = bench.recording
    for e in recording.index.events_at(step):
        if e.kind in _EVENT:
            tint, path = _EVENT[e.kind]
            return f'<path transform="translate({x:.1f} {y})" d="{path}" fill="{tint}"/>'
    if recording.trace.steps.kind[step - 1] == StepKind.BLOCKED:
        return f'<path d="M{x - 2.5:.1f} {y - 4}v8M{x + 2.5:.1f} {y - 4}v8" stroke="#d32f2f" stroke-width="2"/>'
    if stores:
        return f'<rect x="{x - 3.5:.1f}" y="{y - 3.5}" width="7" height="7" fill="#1f1f1f"/>'
    return f'<rect x="{x - 3:.1f}" y="{y - 2}" width="6" height="4" rx="1.5" fill="{colour}"/>'


def tile_figure(bench: Workbench) -> Figure | None:
    """The tile the cursor's step gave, as a heat map; None where the lane has no tensor."""
    found = text.shown_tile(bench)
    if found is None:
        return None
    variable, cells = found
    tile = tile_of("static", cells, _SIDE)
    return Figure(tile_svg(tile, variable.name), f"Tile {variable.name}", text.tile_text(bench))


def tile_svg(tile: Tile, name: str) -> str:
    """Rows and columns as coloured runs; cells outside the valid region are hatched, NaN and infinity are black."""
    rows, columns = tile.shown
    data = np.frombuffer(tile.data, np.float64 if tile.wide else np.float32).reshape(rows, columns)
    block = (max(1, -(-tile.rows // max(1, rows))), max(1, -(-tile.columns // max(1, columns))))
    valid = np.zeros((rows, columns), bool)
    for a, b in tile.valid_rows:
        valid[-(-a // block[0]) : -(-b // block[0]), : -(-tile.valid_columns // block[1])] = True
    finite = data[valid & np.isfinite(data)]
    reach = float(np.abs(finite).max(initial=0.0)) or 1.0
    width, height = columns * _CELL, rows * _CELL
    cells = "".join(
        f'<rect x="{c * _CELL:g}" y="{r * _CELL:g}" width="{_CELL:g}" height="{_CELL:g}" '
        f'fill="{_shade(data[r, c], reach)}"/>'
        for r, c in np.argwhere(valid)
    )
    label = f"{name}: {tile.rows} by {tile.columns}, {tile.stats['text']}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" viewBox="-1 -1 {width + 2:g} '
        f'{height + 2:g}" style="width:{max(120.0, width + 2):g}px;max-width:100%" shape-rendering="crispEdges">'
        '<defs><pattern id="pw-static-hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect width="6" height="6" fill="#f7f7f7"/>'
        '<path d="M0 0V6" stroke="#b3b3b3" stroke-width="1.5"/></pattern></defs>'
        f'<rect width="{width:g}" height="{height:g}" fill="url(#pw-static-hatch)"/>{cells}'
        f'<rect width="{width:g}" height="{height:g}" fill="none" stroke="#616161"/></svg>'
    )


def _shade(value: float, reach: float) -> str:
    if not np.isfinite(value):
        return "#000"
    share = min(1.0, abs(float(value)) / reach) ** 0.7
    end = (0xB8, 0x41, 0x00) if value >= 0 else (0x00, 0x6D, 0x78)
    mixed = [round(0xF2 + (e - 0xF2) * share) for e in end]
    return "#" + "".join(f"{m:02x}" for m in mixed)
