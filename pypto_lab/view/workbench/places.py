"""Where a tile lies on its tensor, and where it lies in on-chip memory.

Offsets come from the loads and stores of the script, evaluated at their step; memory from the program's types.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from pypto_lab.ir import nodes as n
from pypto_lab.ir.arith import constant
from pypto_lab.ir.types import TileType
from pypto_lab.ir.visitor import walk
from pypto_lab.record.events import RecomputedValue, StepKind, TensorValue
from pypto_lab.record.expressions import evaluate
from pypto_lab.record.recording import Recording
from pypto_lab.record.trace import Binding, Cells

_CELLWISE = re.compile(
    r"(?:tile|tensor)\.(?:adds?|subs?|muls?|divs?|maxs?|mins?|maximums?|minimums?|exp|log|sqrt|rsqrt|recip|neg|abs|relu|"
    r"cast|(?:row|col)_expand_(?:add|sub|mul|div)|fillpad\w*|move|ands?|ors?|xors?|not|sels?)"
)
"""Operations whose result has each cell where its operands have it."""

_LONGEST_CHAIN = 64


@lru_cache(maxsize=4096)
def _transfer(text: str) -> tuple[str, str, str] | None:
    """(`load` or `store`, tile or tensor read, offsets as text) of a script statement that moves a tile."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) >= 3):
            continue
        if node.func.id == "_tile_load" and isinstance(node.args[0], ast.Name):
            return "load", node.args[0].id, ast.unparse(node.args[1])
        tile, tensor = node.args[0], node.args[2]
        if node.func.id == "_tile_store" and isinstance(tile, ast.Name) and isinstance(tensor, ast.Name):
            return "store", f"{tile.id},{tensor.id}", ast.unparse(node.args[1])
    return None


def tensor_places(recording: Recording) -> list[list[Any]]:
    """Rows [step, frame, name, how, value id of the tensor, offsets]: the variable bound at that step lies there on
    the tensor. `how` is `load`, `store`, or `toward` (what is stored there was computed from it cell by cell)."""
    found: dict[tuple[int, int, str], list[Any]] = {}
    stores: list[tuple[Binding, int, tuple[int, ...]]] = []
    for step, statement in _statements(recording):
        moved = _transfer(statement.text)
        if moved is None:
            continue
        kind, names, offsets_text = moved
        frame = recording.trace.steps.frame[step - 1]
        offsets = _offsets(recording, offsets_text, frame, step - 1)
        tensor = recording.index.bound(frame, names.rpartition(",")[2], step - 1)
        if offsets is None or tensor is None:
            continue
        if kind == "load":
            for name in statement.targets:
                found[step, frame, name] = ["load", tensor.value, list(offsets)]
        elif (tile := recording.index.bound(frame, names.partition(",")[0], step - 1)) is not None:
            stores.append((tile, tensor.value, offsets))
    for tile, tensor_value, offsets in stores:
        _spread(recording, found, tile, tensor_value, offsets)
    return [[*key, *place] for key, place in sorted(found.items())]


def _statements(recording: Recording) -> Iterator[tuple[int, Any]]:
    for step, number in enumerate(recording.trace.steps.statement, 1):
        if number >= 0 and recording.trace.steps.kind[step - 1] == StepKind.STATEMENT:
            yield step, recording.trace.statements[number]


def _offsets(recording: Recording, text: str, frame: int, position: int) -> tuple[int, ...] | None:
    try:
        value = evaluate(text, recording, frame, position)
        return tuple(int(i) for i in value)
    except Exception:  # an offset that only torch can compute: the tile's place stays unknown
        return None


def _spread(
    recording: Recording, found: dict[Any, list[Any]], tile: Binding, tensor: int, offsets: tuple[int, ...]
) -> None:
    """A store's place for the tile stored, and for what it was computed from cell by cell."""
    todo, how = [tile], "store"
    for _ in range(_LONGEST_CHAIN):
        if not todo:
            return
        b = todo.pop()
        found.setdefault((b.step, b.frame, b.name), [how, tensor, list(offsets)])
        how = "toward"
        statement = recording.index.statement(b.step)
        if statement is None or statement.op is None or not _CELLWISE.fullmatch(statement.op):
            continue
        shape = _shape(recording, b.value, b.step)
        for name in statement.reads:
            read = recording.index.bound(b.frame, name, b.step - 1)
            if read is None or (read.step, read.frame, read.name) in found:
                continue
            if _shape(recording, read.value, b.step - 1) == shape:
                todo.append(read)


def _shape(recording: Recording, value: int, position: int) -> tuple[int, ...] | None:
    found = recording.trace.values[value]
    if isinstance(found, TensorValue):
        return found.shape
    if isinstance(found, RecomputedValue):
        content = recording.index.content(value, position)
        return content.shape if isinstance(content, Cells) else None
    return None


def memory_places(program: n.Program | n.Function | None) -> list[list[Any]]:
    """Rows [file, line, name, space, address, bytes] of the variables whose type says where they lie on chip."""
    if program is None:
        return []
    functions = program.functions.values() if isinstance(program, n.Program) else [program]
    return [row for function in functions for row in _placed(function)]


def _placed(function: n.Function) -> Iterator[list[Any]]:
    for node in walk(function):
        if not isinstance(node, n.Assign) or node.span is None:
            continue
        kind = node.var.type
        memref = kind.memref if isinstance(kind, TileType) else None
        address = constant(memref.offset) if memref is not None else None
        if memref is None or address is None or memref.size is None or kind is None:
            continue
        space = kind.memory_space.name if isinstance(kind, TileType) and kind.memory_space is not None else ""
        yield [node.span.file, node.span.line, node.var.name, space, address, memref.size]


def recorded_places(recording: Recording) -> list[list[Any]]:
    """The same rows of the variables that the recording's statements place (those of a `.pto` carry addresses)."""
    out: list[list[Any]] = []
    for s in recording.trace.statements:
        if s.spot is None:
            continue
        for name, place in zip(s.targets, s.places, strict=False):
            if place is not None:
                out.append([s.spot.file, s.spot.line, name, capital(place.space), place.low, place.high - place.low])
    return out


def merged_places(first: list[list[Any]], second: list[list[Any]]) -> list[list[Any]]:
    """Rows of two kinds, each variable of a line once."""
    known = {(row[0], row[1], _joined(row[2])) for row in first}
    return [*first, *(row for row in second if (row[0], row[1], _joined(row[2])) not in known)]


def places_by_line(rows: Iterable[list[Any]]) -> dict[tuple[str, int], list[list[Any]]]:
    """Rows of :func:`memory_places` by file and line; passes leave several variables on one line of the kernel."""
    out: dict[tuple[str, int], list[list[Any]]] = {}
    for row in rows:
        out.setdefault((row[0], row[1]), []).append(row)
    return out


def place_of(rows: Sequence[list[Any]], name: str) -> tuple[str, int, int] | None:
    """Space, address and bytes of a script's variable among the rows of its line: the one of that name (the script
    has runs of underscores as one), or the only one there is."""
    named = [row for row in rows if _joined(row[2]) == _joined(name)]
    found = named[0] if named else rows[0] if len(rows) == 1 else None
    return (found[3], found[4], found[5]) if found is not None else None


def capital(space: str) -> str:
    """A memory's name as programs write it: `Vec`."""
    return space[:1].upper() + space[1:]


def _joined(name: str) -> str:
    return re.sub(r"_+", "_", name)
