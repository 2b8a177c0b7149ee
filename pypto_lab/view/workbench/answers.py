"""Answers to what a widget's browser side asks for when it is looked at: cells, parts of tensors, stages, stops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto_lab.ir.diagnostics import LabError

if TYPE_CHECKING:
    from pypto_lab.view.workbench.bench import Workbench

Answer = tuple[dict[str, Any], list[bytes]]

_MOST_KEYS = 256
"""Tiles answered to one message; the browser asks for a screen's worth."""

_MOST_CELLS = 1 << 16
"""Cells of a part of a tensor that are answered; a page of the table has less."""


def answer(bench: Workbench, asked: Any) -> Answer | None:
    """The answer to a message, None for one that asks nothing. Never raises for what a browser may send."""
    if not isinstance(asked, dict):
        return None
    match asked.get("ask"):
        case "tiles":
            return tiles_answer(bench, asked.get("keys"))
        case "window":
            return window_answer(bench, asked)
        case "stage":
            return stage_answer(bench, asked.get("index"))
        case "nonfinite":
            return {"nonFinite": bench.stops_non_finite()}, []
    return None


def tiles_answer(bench: Workbench, keys: Any) -> Answer:
    """Tiles: their heads, their numbers, and why some cannot be had."""
    heads: list[dict[str, Any]] = []
    buffers: list[bytes] = []
    refused: dict[str, str] = {}
    known = {n.tile.key: n.tile for n in bench.numbers if n.tile is not None}
    for key in [k for k in keys if isinstance(k, str)][:_MOST_KEYS] if isinstance(keys, list) else ():
        try:
            with bench.lock:
                tile = known.get(key) or bench.tiles.tile(key)
        except LabError as problem:
            refused[key] = problem.diagnostics[0].message
            continue
        heads.append(tile.head())
        buffers.append(tile.data)
    return {"tiles": heads, "refused": refused}, buffers


def window_answer(bench: Workbench, asked: dict[str, Any]) -> Answer:
    """The true cells of a part of a tensor as float64, row by row; cells outside the tensor are NaN."""
    key = asked.get("key")
    numbers = [asked.get(name) for name in ("row", "column", "rows", "columns")]
    if not isinstance(key, str) or not all(isinstance(n, int) and n >= 0 for n in numbers):
        return {"coarse": {"key": str(key), "why": "asked for without a place"}}, []
    row, column, rows, columns = (int(n) for n in numbers if n is not None)
    if rows * columns > _MOST_CELLS:
        return {"coarse": {"key": key, "why": "too many to be sent at once"}}, []
    try:
        with bench.lock:
            shape, cells = bench.tiles.window(key, row, column, rows, columns)
    except LabError as problem:
        return {"coarse": {"key": key, "why": problem.diagnostics[0].message}}, []
    window = {"key": key, "row": row, "column": column, "rows": shape[0], "columns": shape[1]}
    return {"window": window}, [cells]


def stage_answer(bench: Workbench, index: Any) -> Answer:
    """A stage's graph with what it did to the one before, and its text."""
    if not isinstance(index, int) or not 0 <= index < len(bench.stages):
        return {"noStage": {"index": index, "why": "there is no such stage"}}, []
    with bench.lock:
        return {"stage": stage_detail(bench, index)}, []


def stage_detail(bench: Workbench, index: int) -> dict[str, Any]:
    """What is shown of a stage besides its difference in text; without a graph where there is none to compare."""
    found = bench.stages.changes(index)
    detail = {
        "index": index,
        "svg": found.svg("PREFIX-") if found is not None else "",
        "marks": dict(found.marks) if found is not None else {},
        "summary": found.summary if found is not None else "",
        "text": bench.stages.text(index),
    }
    shown: dict[str, Any] = bench.files.data(detail)
    return shown
