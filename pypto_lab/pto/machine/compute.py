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
from pypto_lab.pto.machine.memory import Window
from pypto_lab.pto.machine.moves import converted, note_writer, report_undefined
from pypto_lab.torch_codegen.runtime import comparison, elementwise, expand, fill, gather, matmul, reductions, sort
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


def _target(lane: Lane, instruction: Instruction) -> Tile:
    return lane.tile(instruction.out[0])


def _empty(tile: Tile) -> bool:
    return tile.valid_rows == 0 or tile.valid_cols == 0


def _store(lane: Lane, instruction: Instruction, data: torch.Tensor, codes: Codes) -> None:
    target = _target(lane, instruction)
    lane.write(instruction, target, converted(Cells(data, codes), target.dtype))


# --- cell by cell -----------------------------------------------------------------------------------------------------


def _cellwise(function: Callable[..., torch.Tensor], count: int) -> Handler:
    """`function` of the first `count` operands; those that are tiles are read over the output's valid region."""

    def run(lane: Lane, instruction: Instruction) -> None:
        target = _target(lane, instruction)
        if _empty(target):
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
        _store(lane, instruction, data, merged(data.shape, *codes))

    return run


def _partial(function: Callable[..., torch.Tensor]) -> Handler:
    """Combines where both operands are valid and copies the valid one elsewhere."""

    def run(lane: Lane, instruction: Instruction) -> None:
        target = _target(lane, instruction)
        rows, cols = target.valid_rows, target.valid_cols
        if _empty(target):
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
        _store(lane, instruction, data, joined if joined is not None and bool(joined.any()) else None)

    return run


CELLWISE: dict[str, tuple[Callable[..., torch.Tensor], int]] = {
    "tadd": (elementwise._add, 2), "tsub": (elementwise._sub, 2), "tmul": (elementwise._mul, 2), "tdiv": (elementwise._div, 2),
    "trem": (elementwise._rem, 2), "tfmod": (elementwise._fmod, 2), "tmax": (elementwise._maximum, 2), "tmin": (elementwise._minimum, 2),
    "tand": (elementwise._and, 2), "tor": (elementwise._or, 2), "txor": (elementwise._xor, 2), "tshl": (elementwise._shl, 2), "tshr": (elementwise._shr, 2),
    "tadds": (elementwise._adds, 2), "tsubs": (elementwise._subs, 2), "tmuls": (elementwise._muls, 2), "tdivs": (elementwise._divs, 2),
    "trems": (elementwise._rems, 2), "tfmods": (elementwise._fmods, 2), "tmaxs": (elementwise._maximums, 2), "tmins": (elementwise._minimums, 2),
    "tands": (elementwise._ands, 2), "tors": (elementwise._ors, 2), "txors": (elementwise._xors, 2), "tshls": (elementwise._shls, 2),
    "tshrs": (elementwise._shrs, 2), "tlrelu": (elementwise._lrelu, 2), "tprelu": (elementwise._prelu, 2),
    "taddc": (elementwise._addc, 3), "tsubc": (elementwise._subc, 3), "taddsc": (elementwise._addsc, 3), "tsubsc": (elementwise._subsc, 3),
    "tabs": (elementwise._abs, 1), "tneg": (elementwise._neg, 1), "texp": (elementwise._exp, 1), "tlog": (elementwise._log, 1), "tsqrt": (elementwise._sqrt, 1),
    "trsqrt": (elementwise._rsqrt, 1), "trecip": (elementwise._recip, 1), "trelu": (elementwise._relu, 1), "tnot": (elementwise._not, 1),
    "tsin": (elementwise._sin, 1), "tcos": (elementwise._cos, 1),
}  # fmt: skip
"""Function and how many operands it takes; operands after those are scratch."""


def _tcvt(lane: Lane, instruction: Instruction) -> None:
    target = _target(lane, instruction)
    if _empty(target):
        return
    cells = lane.read(instruction, lane.tile(instruction.ins[0]), target.valid_rows, target.valid_cols)
    mode = str(instruction.attributes.get("rmode", "NONE")).lower().removeprefix("cast_")
    lane.write(instruction, target, Cells(_cast(cells.data, target_type=target.dtype, mode=mode), cells.codes))


def _texpands(lane: Lane, instruction: Instruction) -> None:
    target = _target(lane, instruction)
    number = _narrowed(lane.get(instruction.ins[0]), target.dtype)
    lane.write(
        instruction, target, Cells(torch.full((target.valid_rows, target.valid_cols), number, dtype=target.dtype))
    )


def _tci(lane: Lane, instruction: Instruction) -> None:
    target = _target(lane, instruction)
    descending = bool(instruction.attributes.get("descending", False))
    ramp = fill._ci(int(lane.get(instruction.ins[0])), (1, target.valid_cols), dtype=torch.int64, descending=descending)
    data = elementwise._narrow(torch.broadcast_to(ramp, (target.valid_rows, target.valid_cols)), target.dtype)
    lane.write(instruction, target, Cells(data))


def _ttri(lane: Lane, instruction: Instruction) -> None:
    """Ones on and below (upper: above) a diagonal, zeros elsewhere."""
    target = _target(lane, instruction)
    diagonal = int(lane.get(instruction.ins[0]))
    ones = torch.ones((target.valid_rows, target.valid_cols), dtype=torch.float32)
    upper = int(instruction.attributes.get("upperOrLower", 0)) == 1
    data = torch.triu(ones, diagonal) if upper else torch.tril(ones, diagonal)
    lane.write(instruction, target, Cells(data.to(target.dtype)))


# --- rows and columns -------------------------------------------------------------------------------------------------


def _reduction(function: Callable[..., torch.Tensor], axis: int) -> Handler:
    def run(lane: Lane, instruction: Instruction) -> None:
        source = lane.tile(instruction.ins[0])
        if _empty(source):
            return
        cells = lane.read(instruction, source)
        _store(lane, instruction, function(cells.data), along(cells.codes, axis))

    return run


REDUCTIONS: dict[str, tuple[Callable[..., torch.Tensor], int]] = {
    "trowsum": (reductions._row_sum, 1), "trowmax": (reductions._row_max, 1), "trowmin": (reductions._row_min, 1),
    "trowprod": (reductions._row_prod, 1), "trowargmax": (reductions._row_argmax, 1), "trowargmin": (reductions._row_argmin, 1),
    "tcolsum": (reductions._col_sum, 0), "tcolmax": (reductions._col_max, 0), "tcolmin": (reductions._col_min, 0),
    "tcolprod": (reductions._col_prod, 0), "tcolargmax": (reductions._col_argmax, 0), "tcolargmin": (reductions._col_argmin, 0),
}  # fmt: skip


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
        target = _target(lane, instruction)
        if _empty(target):
            return
        rows, cols = target.valid_rows, target.valid_cols
        cells = lane.read(instruction, lane.tile(instruction.ins[0]), rows, cols)
        tile = lane.tile(instruction.ins[1])
        vector = _row_vector(lane, instruction, tile, rows, cols) if by_row else lane.read(instruction, tile, 1, cols)
        data = function(cells.data, vector.data)
        _store(lane, instruction, data, merged(data.shape, cells.codes, vector.codes))

    return run


EXPANSIONS: dict[str, Callable[..., torch.Tensor]] = {
    "trowexpandadd": expand._row_expand_add, "trowexpandsub": expand._row_expand_sub, "trowexpandmul": expand._row_expand_mul,
    "trowexpanddiv": expand._row_expand_div, "trowexpandmax": expand._row_expand_max, "trowexpandmin": expand._row_expand_min,
    "trowexpandexpdif": expand._row_expand_expdif,
    "tcolexpandadd": expand._col_expand_add, "tcolexpandsub": expand._col_expand_sub, "tcolexpandmul": expand._col_expand_mul,
    "tcolexpanddiv": expand._col_expand_div, "tcolexpandmax": expand._col_expand_max, "tcolexpandmin": expand._col_expand_min,
    "tcolexpandexpdif": expand._col_expand_expdif,
}  # fmt: skip


def _replicated(by_row: bool) -> Handler:
    def run(lane: Lane, instruction: Instruction) -> None:
        target, source = _target(lane, instruction), lane.tile(instruction.ins[0])
        if _empty(target):
            return
        rows, cols = target.valid_rows, target.valid_cols
        cells = lane.read(instruction, source, *((rows, 1) if by_row else (1, cols)))
        data = torch.broadcast_to(bits(cells.data), (rows, cols)).contiguous().view(cells.data.dtype)
        _store(lane, instruction, data, merged(data.shape, cells.codes))

    return run


# --- comparisons ------------------------------------------------------------------------------------------------------

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def _comparison(lane: Lane, instruction: Instruction) -> None:
    """A packed mask: bit j % 8 of byte j // 8 of a row belongs to column j."""
    source = lane.tile(instruction.ins[0])
    if _empty(source):
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
    target = _target(lane, instruction)
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
    target = _target(lane, instruction)
    if _empty(target):
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
    _store(lane, instruction, data, codes)


# --- products ---------------------------------------------------------------------------------------------------------


def _product(lane: Lane, instruction: Instruction, left: Tile, right: Tile, rows: int | None) -> Cells:
    """left @ right over the valid cells, in the accumulator's dtype. `rows` cuts the left operand (gemv: 1)."""
    height = left.valid_rows if rows is None else min(rows, left.valid_rows)
    inner = left.valid_cols
    if inner != right.valid_rows:
        lane.report(
            findings.BAD_EXTENT,
            f"{left.name} has {inner} valid columns, {right.name} {right.valid_rows} valid rows",
            instruction,
            tiles=(left.describe(), right.describe()),
        )
        inner = min(inner, right.valid_rows)
    a = lane.read(instruction, left, height, inner)
    b = lane.read(instruction, right, inner, right.valid_cols)
    data = matmul._accumulated(a.data, b.data)
    down = None if a.codes is None else a.codes.amax(dim=1, keepdim=True)
    across = None if b.codes is None else b.codes.amax(dim=0, keepdim=True)
    return Cells(data, merged(data.shape, down, across))


def _matmul(form: str, rows: int | None = None) -> Handler:
    """Matrix products: `form` is "" (new), "acc" (added to the first input) or "bias" (plus a row)."""

    def run(lane: Lane, instruction: Instruction) -> None:
        tiles = [lane.tile(value) for value in instruction.ins]
        left, right = tiles[1:3] if form == "acc" else tiles[:2]
        if _empty(left) or _empty(right):
            return
        product = _product(lane, instruction, left, right, rows)
        height, width = product.data.shape
        if form:
            extra = tiles[0] if form == "acc" else tiles[2]
            other = lane.read(instruction, extra, height if form == "acc" else 1, width)
            total = product.data + other.data.to(product.data.dtype)
            product = Cells(total, merged(total.shape, product.codes, other.codes))
        if form == "acc" and lane.get(instruction.ins[0]) is not lane.get(instruction.out[0]):
            _check_in_place(lane, instruction, tiles[0])
        _store(lane, instruction, product.data, product.codes)

    return run


def _check_in_place(lane: Lane, instruction: Instruction, accumulator: Tile) -> None:
    target = _target(lane, instruction)
    if (accumulator.low, accumulator.arena) != (target.low, target.arena):
        lane.report(
            findings.BAD_ADDRESS,
            f"accumulates {accumulator.name} into {target.name}; the accumulator is updated in place",
            instruction,
            tiles=(accumulator.describe(), target.describe()),
        )


# --- gather, scatter, sort --------------------------------------------------------------------------------------------

MASK_PATTERNS = {"P0101": 1, "P1010": 2, "P0001": 3, "P0010": 4, "P0100": 5, "P1000": 6, "P1111": 7}


def _pattern(lane: Lane, instruction: Instruction) -> int:
    word = str(instruction.attributes["maskPattern"])
    if word not in MASK_PATTERNS:
        lane.fail(findings.NOT_MODELLED, f"mask pattern {word}", instruction)
    return MASK_PATTERNS[word]


def _tgather(lane: Lane, instruction: Instruction) -> None:
    source = lane.tile(instruction.ins[0])
    target = _target(lane, instruction)
    if "maskPattern" in instruction.attributes:
        pattern = _pattern(lane, instruction)
        cells = lane.read(instruction, source)
        data = gather._gather_mask(cells.data, mask_pattern=pattern)
        codes = None if cells.codes is None else gather._gather_mask(cells.codes, mask_pattern=pattern)
        if data.dtype is not target.dtype and data.element_size() == target.type.itemsize:
            data = data.contiguous().view(target.dtype)
        lane.write(instruction, target, Cells(data, codes))
        return
    if "cmpMode" in instruction.attributes:
        _gather_compare(lane, instruction, source, target)
        return
    index = lane.read(instruction, lane.tile(instruction.ins[1]), target.valid_rows, target.valid_cols)
    places = _places(lane, instruction, index.data, source)
    box = lane.read_box(instruction, source)
    data = bits(box.data).reshape(-1)[places].view(box.data.dtype)
    codes = None if box.codes is None else box.codes.reshape(-1)[places]
    _report_gathered(lane, instruction, source, codes)
    _store(lane, instruction, data, merged(data.shape, codes, index.codes))


def _places(lane: Lane, instruction: Instruction, index: torch.Tensor, tile: Tile) -> torch.Tensor:
    """Flat indices into a tile's box. Stops the run where one lies outside."""
    places = index.to(torch.int64)
    count = tile.type.rows * tile.type.cols
    outside = (places < 0) | (places >= count)
    if bool(outside.any()):
        first = int(places[outside][0])
        message = f"index {first} of {tile.name}, which has {count} elements"
        lane.fail(findings.OUT_OF_BOUNDS, message, instruction, (tile.describe(),))
    return places


def _report_gathered(lane: Lane, instruction: Instruction, source: Tile, codes: Codes) -> None:
    if codes is not None and bool((codes == 1).any()):
        who = f"{instruction.name} at {instruction.where}"
        text = f"{who} gathers elements of {source.describe()} that nothing has written"
        codes[codes == 1] = lane.launch.origin(text)


def _gather_compare(lane: Lane, instruction: Instruction, source: Tile, target: Tile) -> None:
    """Column numbers of the cells that compare true, row by row, and their counts in the second output."""
    cells = lane.read(instruction, source)
    value = lane.get(instruction.ins[1])
    found, counts = gather._gather_compare(
        cells.data,
        value,
        cmp_mode=COMPARISONS.index(str(instruction.attributes["cmpMode"])),
        offset=int(instruction.attributes.get("offset", 0)),
        out_cols=target.valid_cols,
    )
    listed = counts.reshape(-1, 1)
    past = torch.arange(target.valid_cols).unsqueeze(0) >= listed
    origin = lane.launch.origin(f"{instruction.name} at {instruction.where} lists fewer matches")
    codes = torch.where(past, origin, 0).to(torch.int32)
    lane.write(instruction, target, converted(Cells(found, codes if bool(past.any()) else None), target.dtype))
    if len(instruction.out) > 1:
        second = lane.tile(instruction.out[1])
        lane.write(instruction, second, converted(Cells(counts[:, : second.type.cols]), second.dtype))


def _tscatter(lane: Lane, instruction: Instruction) -> None:
    source, target = lane.tile(instruction.ins[0]), _target(lane, instruction)
    cells = lane.read(instruction, source)
    box = lane.read_box(instruction, target)
    codes = torch.zeros(box.data.shape, dtype=torch.int32) if box.codes is None else box.codes.clone()
    data = box.data.contiguous().clone()
    given = torch.zeros(cells.data.shape, dtype=torch.int32) if cells.codes is None else cells.codes
    if "maskPattern" in instruction.attributes:
        pattern = _pattern(lane, instruction)
        gather._scatter_mask(data, cells.data, mask_pattern=pattern)
        gather._scatter_mask(codes, given, mask_pattern=pattern)
    else:
        index = lane.read(instruction, lane.tile(instruction.ins[1]), *cells.data.shape)
        places = _places(lane, instruction, index.data, target)
        gather._put(data.view(-1), places, cells.data)
        gather._put(codes.view(-1), places, given)
    lane.write(instruction, target, Cells(data, codes if bool(codes.any()) else None))


def _tgatherb(lane: Lane, instruction: Instruction) -> None:
    source, target = lane.tile(instruction.ins[0]), _target(lane, instruction)
    box = lane.read_box(instruction, source)
    offsets = lane.read(instruction, lane.tile(instruction.ins[1]))
    data = gather._gatherb(box.data, offsets.data, output_dtype=target.dtype)
    rows, cols = min(data.shape[0], target.valid_rows), min(data.shape[1], target.valid_cols)
    _store(lane, instruction, data[:rows, :cols], anywhere((rows, cols), box.codes, offsets.codes))


def _tsort32(lane: Lane, instruction: Instruction) -> None:
    values = lane.read(instruction, lane.tile(instruction.ins[0]))
    index = lane.read(instruction, lane.tile(instruction.ins[1]), *values.data.shape)
    data = sort._sort32(values.data, index.data)
    _store(lane, instruction, data, anywhere(data.shape, values.codes, index.codes))


def _tmrgsort(lane: Lane, instruction: Instruction) -> None:
    second = lane.get(instruction.ins[1])
    if not isinstance(second, Tile):
        cells = lane.read(instruction, lane.tile(instruction.ins[0]))
        data = sort._mrgsort_format1(cells.data, int(second))
        whole = cells.data.shape[1] // (4 * int(second)) * 4 * int(second)
        _store(lane, instruction, data[:, :whole], anywhere((data.shape[0], whole), cells.codes))
        return
    runs = [lane.read(instruction, lane.tile(value)) for value in instruction.ins[:-1]]
    exhausted = bool(instruction.attributes.get("exhausted", False))
    data = sort._mrgsort_format2(*(run.data for run in runs), exhausted=exhausted)
    target = _target(lane, instruction)
    _store(
        lane,
        instruction,
        data[:, : target.type.cols],
        anywhere(data[:, : target.type.cols].shape, *(r.codes for r in runs)),
    )


def _mgather(lane: Lane, instruction: Instruction) -> None:
    window: Window = lane.get(instruction.ins[0])
    target = _target(lane, instruction)
    index = lane.read(instruction, lane.tile(instruction.ins[1]))
    if not lane.reach(instruction, window):
        return
    coalesce = str(instruction.attributes.get("coalesce", "row"))
    oob = str(instruction.attributes.get("gatherOob", "undefined"))
    memory = window.cells()
    count = memory.reshape(-1, memory.shape[-1]).shape[0] if coalesce == "row" else memory.numel()
    if oob == "undefined" and bool(((index.data < 0) | (index.data >= count)).any()):
        lane.fail(
            findings.OUT_OF_BOUNDS, f"an index outside the {count} of {window.name}", instruction, (window.describe(),)
        )
    data = gather._mgather(memory, index.data, coalesce=coalesce, gather_oob=oob)
    _store(lane, instruction, data.reshape(target.valid_rows, target.valid_cols), None)


def _mscatter(lane: Lane, instruction: Instruction) -> None:
    source = lane.tile(instruction.ins[0])
    cells = lane.read(instruction, source)
    index = lane.read(instruction, lane.tile(instruction.ins[1]), *cells.data.shape)
    window: Window = lane.get(instruction.out[0])
    if not lane.reach(instruction, window):
        return
    memory = window.cells()
    if bool(((index.data < 0) | (index.data >= memory.numel())).any()):
        message = f"an index outside the {memory.numel()} elements of {window.name}"
        lane.fail(findings.OUT_OF_BOUNDS, message, instruction, (window.describe(),))
    report_undefined(lane, instruction, source.describe(), window, cells)
    note_writer(lane, instruction, window, False)
    gather._put_into(memory, index.data.to(torch.int64), cells.data)


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
    for name, rows in (("tmatmul", None), ("tgemv", 1)):
        for form in ("", "acc", "bias"):
            made[f"pto.{name}{'.' if form else ''}{form}"] = _matmul(form, rows)
    return made


HANDLERS: dict[str, Handler] = {
    **_handlers(),
    "pto.tcvt": _tcvt,
    "pto.texpands": _texpands,
    "pto.tci": _tci,
    "pto.ttri": _ttri,
    "pto.tcolexpand": _replicated(False),
    "pto.trowexpand": _replicated(True),
    "pto.tcmp": _comparison,
    "pto.tcmps": _comparison,
    "pto.tsel": _selection,
    "pto.tsels": _selection,
    "pto.tgather": _tgather,
    "pto.tgatherb": _tgatherb,
    "pto.tscatter": _tscatter,
    "pto.tsort32": _tsort32,
    "pto.tmrgsort": _tmrgsort,
    "pto.mgather": _mgather,
    "pto.mscatter": _mscatter,
}
