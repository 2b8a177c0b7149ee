"""Ops that compute: cell by cell, along rows and columns, products, comparisons, casts, gathers, sorts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from pypto_lab.pto.decode import Instruction
from pypto_lab.pto.machine import findings
from pypto_lab.pto.machine.arena import Cells, Tile
from pypto_lab.pto.machine.dtypes import bits
from pypto_lab.pto.machine.lane import Handler, Lane
from pypto_lab.pto.machine.moves import converted
from pypto_lab.pto.machine.scratch import clobbering
from pypto_lab.torch_codegen.runtime import comparison, elementwise, expand, fill, reductions
from pypto_lab.torch_codegen.runtime.casts import _cast
from pypto_lab.torch_codegen.runtime.numbers import _narrowed

Codes = torch.Tensor | None


def merged(shape: Sequence[int], *codes: Codes) -> Codes:
    """Codes of a result each element of which depends on the same element of the operands (stretched where 1)."""
    given = [torch.broadcast_to(c, tuple(shape)) for c in codes if c is not None]
    if not given:
        return None
    out = given[0]
    for more in given[1:]:
        out = torch.where(out != 0, out, more)
    return out


def along(codes: Codes, axis: int) -> Codes:
    """Codes of a fold along an axis."""
    return None if codes is None else codes.amax(dim=axis, keepdim=True)


def anywhere(shape: Sequence[int], *codes: Codes) -> Codes:
    """Codes of a result that depends on all elements of the operands."""
    worst = max((int(c.max()) for c in codes if c is not None and c.numel()), default=0)
    return torch.full(tuple(shape), worst, dtype=torch.int32) if worst else None


def target_of(lane: Lane, instruction: Instruction) -> Tile:
    return lane.tile(instruction.out[0])


def is_empty(tile: Tile) -> bool:
    return tile.valid_rows == 0 or tile.valid_cols == 0


def store(lane: Lane, instruction: Instruction, data: torch.Tensor, codes: Codes) -> None:
    target = target_of(lane, instruction)
    lane.write(instruction, target, converted(Cells(data, codes), target.dtype))


# --- cell by cell -----------------------------------------------------------------------------------------------------


def _cellwise(function: Callable[..., torch.Tensor], count: int) -> Handler:
    """`function` of the first `count` operands; those that are tiles are read over the output's valid region."""

    def run(lane: Lane, instruction: Instruction) -> None:
        target = target_of(lane, instruction)
        if is_empty(target):
            return
        operands: list[Any] = []
        codes: list[Codes] = []
        for value in instruction.ins[:count]:
            content = lane.get(value)
            if isinstance(content, Tile):
                cells = lane.read(instruction, content, target.valid_rows, target.valid_cols)
                operands.append(cells.data)
                codes.append(cells.codes)
            else:
                operands.append(content)
        data = function(*operands)
        store(lane, instruction, data, merged(data.shape, *codes))

    return run


def _partial(function: Callable[..., torch.Tensor]) -> Handler:
    """Combines where both operands are valid and copies the valid one elsewhere."""

    def run(lane: Lane, instruction: Instruction) -> None:
        target = target_of(lane, instruction)
        rows, cols = target.valid_rows, target.valid_cols
        if is_empty(target):
            return
        boxes, marks, codes = [], [], []
        for value in instruction.ins:
            tile = lane.tile(value)
            cells = lane.read(instruction, tile, min(rows, tile.valid_rows), min(cols, tile.valid_cols))
            box, mark = torch.zeros((rows, cols), dtype=cells.data.dtype), torch.zeros((rows, cols), dtype=torch.bool)
            code = torch.zeros((rows, cols), dtype=torch.int32)
            corner = (slice(0, cells.data.shape[0]), slice(0, cells.data.shape[1]))
            box[corner], mark[corner] = cells.data, True
            if cells.codes is not None:
                code[corner] = cells.codes
            boxes.append(box)
            marks.append(mark)
            codes.append(code)
        both = marks[0] & marks[1]
        data = torch.where(both, function(boxes[0], boxes[1]), torch.where(marks[0], boxes[0], boxes[1]))
        neither = ~(marks[0] | marks[1])
        if bool(neither.any()):
            text = f"{instruction.name} at {instruction.where}: neither operand is valid there"
            codes[0][neither] = lane.launch.origin(text)
        joined = merged(data.shape, *codes)
        store(lane, instruction, data, joined if joined is not None and bool(joined.any()) else None)

    return run


CELLWISE: dict[str, tuple[Callable[..., torch.Tensor], int]] = {
    "tadd": (elementwise._add, 2),
    "tsub": (elementwise._sub, 2),
    "tmul": (elementwise._mul, 2),
    "tdiv": (elementwise._div, 2),
    "trem": (elementwise._rem, 2),
    "tfmod": (elementwise._fmod, 2),
    "tmax": (elementwise._maximum, 2),
    "tmin": (elementwise._minimum, 2),
    "tand": (elementwise._and, 2),
    "tor": (elementwise._or, 2),
    "txor": (elementwise._xor, 2),
    "tshl": (elementwise._shl, 2),
    "tshr": (elementwise._shr, 2),
    "tadds": (elementwise._adds, 2),
    "tsubs": (elementwise._subs, 2),
    "tmuls": (elementwise._muls, 2),
    "tdivs": (elementwise._divs, 2),
    "trems": (elementwise._rems, 2),
    "tfmods": (elementwise._fmods, 2),
    "tmaxs": (elementwise._maximums, 2),
    "tmins": (elementwise._minimums, 2),
    "tands": (elementwise._ands, 2),
    "tors": (elementwise._ors, 2),
    "txors": (elementwise._xors, 2),
    "tshls": (elementwise._shls, 2),
    "tshrs": (elementwise._shrs, 2),
    "tlrelu": (elementwise._lrelu, 2),
    "tprelu": (elementwise._prelu, 2),
    "taddc": (elementwise._addc, 3),
    "tsubc": (elementwise._subc, 3),
    "taddsc": (elementwise._addsc, 3),
    "tsubsc": (elementwise._subsc, 3),
    "tabs": (elementwise._abs, 1),
    "tneg": (elementwise._neg, 1),
    "texp": (elementwise._exp, 1),
    "tlog": (elementwise._log, 1),
    "tsqrt": (elementwise._sqrt, 1),
    "trsqrt": (elementwise._rsqrt, 1),
    "trecip": (elementwise._recip, 1),
    "trelu": (elementwise._relu, 1),
    "tnot": (elementwise._not, 1),
    "tsin": (elementwise._sin, 1),
    "tcos": (elementwise._cos, 1),
}
"""Function and how many operands it takes; operands after those are scratch."""


PARTIAL: dict[str, Callable[..., torch.Tensor]] = {
    "add": elementwise._add,
    "mul": elementwise._mul,
    "max": elementwise._maximum,
    "min": elementwise._minimum,
}


def _tcvt(lane: Lane, instruction: Instruction) -> None:
    target = target_of(lane, instruction)
    if is_empty(target):
        return
    cells = lane.read(instruction, lane.tile(instruction.ins[0]), target.valid_rows, target.valid_cols)
    mode = str(instruction.attributes.get("rmode", "NONE")).lower().removeprefix("cast_")
    lane.write(instruction, target, Cells(_cast(cells.data, target_type=target.dtype, mode=mode), cells.codes))


def _texpands(lane: Lane, instruction: Instruction) -> None:
    target = target_of(lane, instruction)
    number = _narrowed(lane.get(instruction.ins[0]), target.dtype)
    lane.write(
        instruction, target, Cells(torch.full((target.valid_rows, target.valid_cols), number, dtype=target.dtype))
    )


def _tci(lane: Lane, instruction: Instruction) -> None:
    target = target_of(lane, instruction)
    descending = bool(instruction.attributes.get("descending", False))
    ramp = fill._ci(int(lane.get(instruction.ins[0])), (1, target.valid_cols), dtype=torch.int64, descending=descending)
    data = elementwise._narrow(torch.broadcast_to(ramp, (target.valid_rows, target.valid_cols)), target.dtype)
    lane.write(instruction, target, Cells(data))


def _trandom(lane: Lane, instruction: Instruction) -> None:
    """Random words from a key and a counter: the same numbers for the same ones."""
    target = target_of(lane, instruction)
    k0, k1, c0, c1, c2, c3 = (int(x) for x in lane.all_of(instruction.ins))
    rounds = int(instruction.attributes.get("rounds", 10))
    shape = (target.valid_rows, target.valid_cols)
    if 0 in shape:
        return
    words = fill._random(k0, k1, c0, c1, c2, c3, shape, dtype=torch.int64, rounds=rounds)
    lane.write(instruction, target, Cells(elementwise._narrow(words, target.dtype)))


def _ttri(lane: Lane, instruction: Instruction) -> None:
    """Ones on and below (upper: above) a diagonal, zeros elsewhere."""
    target = target_of(lane, instruction)
    diagonal = int(lane.get(instruction.ins[0]))
    ones = torch.ones((target.valid_rows, target.valid_cols), dtype=torch.float32)
    upper = int(instruction.attributes.get("upperOrLower", 0)) == 1
    data = torch.triu(ones, diagonal) if upper else torch.tril(ones, diagonal)
    lane.write(instruction, target, Cells(data.to(target.dtype)))


# --- rows and columns -------------------------------------------------------------------------------------------------


def _reduction(function: Callable[..., torch.Tensor], axis: int) -> Handler:
    def run(lane: Lane, instruction: Instruction) -> None:
        source = lane.tile(instruction.ins[0])
        if is_empty(source):
            return
        cells = lane.read(instruction, source)
        store(lane, instruction, function(cells.data), along(cells.codes, axis))

    return run


REDUCTIONS: dict[str, tuple[Callable[..., torch.Tensor], int]] = {
    "trowsum": (reductions._row_sum, 1),
    "trowmax": (reductions._row_max, 1),
    "trowmin": (reductions._row_min, 1),
    "trowprod": (reductions._row_prod, 1),
    "trowargmax": (reductions._row_argmax, 1),
    "trowargmin": (reductions._row_argmin, 1),
    "tcolsum": (reductions._col_sum, 0),
    "tcolmax": (reductions._col_max, 0),
    "tcolmin": (reductions._col_min, 0),
    "tcolprod": (reductions._col_prod, 0),
    "tcolargmax": (reductions._col_argmax, 0),
    "tcolargmin": (reductions._col_argmin, 0),
}


def _row_vector(lane: Lane, instruction: Instruction, tile: Tile, rows: int, cols: int) -> Cells:
    """One value a row, as a column; or a 32-byte block a row, repeated along it."""
    cells = lane.read(instruction, tile, rows, tile.valid_cols)
    if tile.valid_cols in (1, cols):
        return cells
    repeats = -(-cols // max(tile.valid_cols, 1))
    codes = None if cells.codes is None else cells.codes.repeat(1, repeats)[:, :cols]
    return Cells(cells.data.repeat(1, repeats)[:, :cols], codes)


def _expansion(function: Callable[..., torch.Tensor], by_row: bool) -> Handler:
    """`function` of a tile and a vector stretched over it."""

    def run(lane: Lane, instruction: Instruction) -> None:
        target = target_of(lane, instruction)
        if is_empty(target):
            return
        rows, cols = target.valid_rows, target.valid_cols
        cells = lane.read(instruction, lane.tile(instruction.ins[0]), rows, cols)
        tile = lane.tile(instruction.ins[1])
        vector = _row_vector(lane, instruction, tile, rows, cols) if by_row else lane.read(instruction, tile, 1, cols)
        data = function(cells.data, vector.data)
        store(lane, instruction, data, merged(data.shape, cells.codes, vector.codes))

    return run


EXPANSIONS: dict[str, Callable[..., torch.Tensor]] = {
    "trowexpandadd": expand._row_expand_add,
    "trowexpandsub": expand._row_expand_sub,
    "trowexpandmul": expand._row_expand_mul,
    "trowexpanddiv": expand._row_expand_div,
    "trowexpandmax": expand._row_expand_max,
    "trowexpandmin": expand._row_expand_min,
    "trowexpandexpdif": expand._row_expand_expdif,
    "tcolexpandadd": expand._col_expand_add,
    "tcolexpandsub": expand._col_expand_sub,
    "tcolexpandmul": expand._col_expand_mul,
    "tcolexpanddiv": expand._col_expand_div,
    "tcolexpandmax": expand._col_expand_max,
    "tcolexpandmin": expand._col_expand_min,
    "tcolexpandexpdif": expand._col_expand_expdif,
}


def _replicated(by_row: bool) -> Handler:
    def run(lane: Lane, instruction: Instruction) -> None:
        target, source = target_of(lane, instruction), lane.tile(instruction.ins[0])
        if is_empty(target):
            return
        rows, cols = target.valid_rows, target.valid_cols
        cells = lane.read(instruction, source, *((rows, 1) if by_row else (1, cols)))
        data = torch.broadcast_to(bits(cells.data), (rows, cols)).contiguous().view(cells.data.dtype)
        store(lane, instruction, data, merged(data.shape, cells.codes))

    return run


# --- comparisons ------------------------------------------------------------------------------------------------------

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def _comparison(lane: Lane, instruction: Instruction) -> None:
    """A packed mask: bit j % 8 of byte j // 8 of a row belongs to column j."""
    source = lane.tile(instruction.ins[0])
    if is_empty(source):
        return
    cells = lane.read(instruction, source)
    other = lane.get(instruction.ins[1])
    word = str(instruction.attributes.get("cmpMode", "eq"))
    if word not in COMPARISONS:
        lane.fail(findings.NOT_MODELLED, f"comparison `{word}`", instruction)
    codes = cells.codes
    if isinstance(other, Tile):
        second = lane.read(instruction, other, source.valid_rows, source.valid_cols)
        codes = merged(cells.data.shape, codes, second.codes)
        b = second.data
    else:
        b = torch.tensor(_narrowed(other, cells.data.dtype), dtype=cells.data.dtype)
    marks = comparison._compared(cells.data, b, COMPARISONS.index(word), cells.data.dtype)
    packed = comparison._pack(marks, (marks.shape[0], marks.shape[1]))[:, : -(-marks.shape[1] // 8)]
    _write_mask(lane, instruction, packed, codes)


def _write_mask(lane: Lane, instruction: Instruction, packed: torch.Tensor, codes: Codes) -> None:
    target = target_of(lane, instruction)
    if target.type.itemsize != 1:
        message = f"a mask of {target.type.dtype}; masks are bytes"
        lane.fail(findings.NOT_MODELLED, message, instruction, (target.describe(),))
    data = packed.contiguous().view(target.dtype)
    marked = None
    if codes is not None:
        padded = torch.zeros((codes.shape[0], data.shape[1] * 8), dtype=torch.int32)
        padded[:, : codes.shape[1]] = codes
        marked = padded.view(codes.shape[0], data.shape[1], 8).amax(dim=2)
    lane.write(instruction, target, Cells(data, marked))


def _selection(lane: Lane, instruction: Instruction) -> None:
    """`a` where the packed mask has a 1, else `b` (a tile or a number)."""
    target = target_of(lane, instruction)
    if is_empty(target):
        return
    rows, cols = target.valid_rows, target.valid_cols
    mask_tile = lane.tile(instruction.ins[0])
    width = -(-cols // 8)
    mask = lane.read(instruction, mask_tile, rows, width)
    chosen = comparison._unpack(mask.data.view(torch.uint8), cols)
    a = lane.read(instruction, lane.tile(instruction.ins[1]), rows, cols)
    if instruction.name == "pto.tsels":
        number = _narrowed(lane.get(instruction.ins[3]), a.data.dtype)
        b = Cells(torch.full(a.data.shape, number, dtype=a.data.dtype))
    else:
        b = lane.read(instruction, lane.tile(instruction.ins[2]), rows, cols)
    data = torch.where(chosen, bits(a.data), bits(b.data)).view(a.data.dtype)
    codes = None
    if a.codes is not None or b.codes is not None:
        zero = torch.zeros(data.shape, dtype=torch.int32)
        codes = torch.where(chosen, zero if a.codes is None else a.codes, zero if b.codes is None else b.codes)
    if mask.codes is not None:
        codes = merged(data.shape, codes, mask.codes.repeat_interleave(8, dim=1)[:, :cols])
    store(lane, instruction, data, codes)


def _handlers() -> dict[str, Handler]:
    made: dict[str, Handler] = {}
    for name, (function, count) in CELLWISE.items():
        made[f"pto.{name}"] = _cellwise(function, count)
    for name, (fold, axis) in REDUCTIONS.items():
        made[f"pto.{name}"] = _reduction(fold, axis)
    for name, combine in EXPANSIONS.items():
        made[f"pto.{name}"] = _expansion(combine, name.startswith("trow"))
    for name, combine in (
        ("add", elementwise._add),
        ("mul", elementwise._mul),
        ("max", elementwise._maximum),
        ("min", elementwise._minimum),
    ):
        made[f"pto.tpart{name}"] = _partial(combine)
    return made


_PLAIN: dict[str, Handler] = {
    **_handlers(),
    "pto.tcvt": _tcvt,
    "pto.texpands": _texpands,
    "pto.tci": _tci,
    "pto.ttri": _ttri,
    "pto.trandom": _trandom,
    "pto.tcolexpand": _replicated(False),
    "pto.trowexpand": _replicated(True),
    "pto.tcmp": _comparison,
    "pto.tcmps": _comparison,
    "pto.tsel": _selection,
    "pto.tsels": _selection,
}
HANDLERS = clobbering(_PLAIN)
