"""Tiles and how data gets into and out of them: allocation, views, loads, stores, moves, padding."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pypto_lab.ir.diagnostics import Severity
from pypto_lab.pto.decode import Instruction, Value
from pypto_lab.pto.dialect.types import ALIGNMENT, MultiTileType, TileType, inner_box
from pypto_lab.pto.machine import findings
from pypto_lab.pto.machine.arena import Cells, Tile
from pypto_lab.pto.machine.dtypes import TORCH, bits
from pypto_lab.pto.machine.lane import Handler, Lane
from pypto_lab.pto.machine.memory import Access, Pointer, View, Window
from pypto_lab.pto.machine.scratch import clobbering
from pypto_lab.torch_codegen.runtime.casts import _cast
from pypto_lab.torch_codegen.runtime.memory import _pad_number

PADS = {1: "zero", 2: "max", 3: "min"}
"""Pad values by the number in a tile's type; 0 leaves the padding undefined."""


def converted(cells: Cells, dtype: torch.dtype, mode: str = "rint") -> Cells:
    """Cells in another dtype, rounded as a move between memories rounds."""
    if cells.data.dtype is dtype:
        return cells
    return Cells(_cast(cells.data, target_type=dtype, mode=mode), cells.codes)


def fitted(cells: Cells, rows: int, cols: int) -> Cells:
    """The first rows x cols cells, if there are more."""
    codes = None if cells.codes is None else cells.codes[:rows, :cols]
    return Cells(cells.data[:rows, :cols], codes)


# --- allocation and views ---------------------------------------------------------------------------------------------


def _given(lane: Lane, instruction: Instruction) -> dict[str, int]:
    labels = instruction.attributes.get("labels", ())
    return {label: int(lane.get(v)) for label, v in zip(labels, instruction.operands, strict=True)}


def _valid(type_: TileType, given: dict[str, int]) -> tuple[int, int]:
    rows = given.get("valid_row", type_.rows if type_.valid_rows is None else type_.valid_rows)
    cols = given.get("valid_col", type_.cols if type_.valid_cols is None else type_.valid_cols)
    return rows, cols


def _address(lane: Lane, result: Value, space: str, size: int) -> int:
    """Where a tile without an address goes: its own place, kept for the whole run."""
    if result.slot not in lane.placed:
        start = lane.next_free.get(space, 0)
        lane.placed[result.slot] = start
        lane.next_free[space] = start + -(-size // ALIGNMENT) * ALIGNMENT
    return lane.placed[result.slot]


def _alloc_tile(lane: Lane, instruction: Instruction) -> None:
    result = instruction.results[0]
    type_ = result.type
    assert isinstance(type_, TileType)
    given = _given(lane, instruction)
    address = given["addr"] if "addr" in given else _address(lane, result, type_.space, type_.size)
    tile = lane.place(instruction, result.name, type_, address, _valid(type_, given))
    _check_rings(lane, instruction, tile)
    lane.set(result, tile)


def _check_rings(lane: Lane, instruction: Instruction, tile: Tile) -> None:
    for name, space, low, high in lane.rings:
        if space == tile.arena.space and low < tile.high and tile.low < high:
            message = f"{tile.name} lies in the slots of `{name}` ({space} {low}..{high})"
            lane.report(findings.RING_OVERLAP, message, instruction, tiles=(tile.describe(),))


def _alloc_multi(lane: Lane, instruction: Instruction) -> None:
    result = instruction.results[0]
    multi = result.type
    assert isinstance(multi, MultiTileType)
    given = _given(lane, instruction)
    start = (
        given["addr"] if "addr" in given else _address(lane, result, multi.tile.space, multi.tile.size * multi.count)
    )
    valid = _valid(multi.tile, given)
    names = [f"{result.name}[{slot}]" for slot in range(multi.count)]
    tiles = [
        lane.place(instruction, name, multi.tile, start + slot * multi.tile.size, valid)
        for slot, name in enumerate(names)
    ]
    lane.set(result, tiles)


def _multi_get(lane: Lane, instruction: Instruction) -> None:
    tiles, index = lane.all_of(instruction.operands)
    if not 0 <= int(index) < len(tiles):
        lane.fail(findings.OUT_OF_BOUNDS, f"slot {index} of {len(tiles)}", instruction)
    lane.set(instruction.results[0], tiles[int(index)])


def _cuts_boxes(tile: TileType, row: int, column: int) -> bool:
    """Whether a window that starts there has no single distance between its columns of boxes (N) or rows of them (Z).
    Along them elements follow each other, so a window may start anywhere."""
    if not tile.boxed:
        return False
    rows, columns = inner_box(tile)
    return bool(column % columns if tile.blayout == "col_major" else row % rows)


def _subview(lane: Lane, instruction: Instruction) -> None:
    source = lane.tile(instruction.operands[0])
    row, column, *valid = (int(x) for x in lane.all_of(instruction.operands[1:]))
    result = instruction.results[0]
    type_ = result.type
    assert isinstance(type_, TileType)
    height, width = valid or (type_.rows, type_.cols)  # what is stated to be valid has to be there, no more
    if row < 0 or column < 0 or row + height > source.type.rows or column + width > source.type.cols:
        message = (
            f"{result.name}: rows {row}..{row + height}, columns {column}..{column + width} leave "
            f"{source.name}, which has {source.type.rows} x {source.type.cols}"
        )
        lane.fail(findings.OUT_OF_BOUNDS, message, instruction, (source.describe(),))
    if _cuts_boxes(source.type, row, column):
        message = f"{result.name} starts at [{row}, {column}], inside a box of {source.name}"
        lane.report(findings.BAD_EXTENT, message, instruction, tiles=(source.describe(),))
    rows, cols = (
        valid if valid else (min(type_.rows, source.valid_rows - row), min(type_.cols, source.valid_cols - column))
    )
    if type_.valid_rows is not None and not valid:
        rows = type_.valid_rows
    if type_.valid_cols is not None and not valid:
        cols = type_.valid_cols
    rows, cols = lane.extents(instruction, result.name, type_, (max(rows, 0), max(cols, 0)))
    window = Tile(
        result.name, type_, source.arena, source.address, rows, cols, source.allocation, source.box,
        source.row + row, source.column + column,
    )  # fmt: skip
    lane.set(result, window)


def _treshape(lane: Lane, instruction: Instruction) -> None:
    source = lane.tile(instruction.operands[0])
    result = instruction.results[0]
    type_ = result.type
    assert isinstance(type_, TileType)
    if type_.size > source.high - source.address and not source.is_window:
        message = f"{result.name} takes {type_.size} bytes, {source.name} has {source.high - source.low}"
        lane.fail(findings.BAD_EXTENT, message, instruction, (source.describe(),))
    rows = source.valid_rows if type_.valid_rows is None else type_.valid_rows
    cols = source.valid_cols if type_.valid_cols is None else type_.valid_cols
    rows, cols = lane.extents(instruction, result.name, type_, (rows, cols))
    lane.set(result, Tile(result.name, type_, source.arena, source.low, rows, cols, source.allocation, type_))


def _tassign(lane: Lane, instruction: Instruction) -> None:
    source = lane.tile(instruction.operands[0])
    result = instruction.results[0]
    type_ = result.type
    assert isinstance(type_, TileType)
    address = int(lane.get(instruction.operands[1]))
    valid = (source.valid_rows, source.valid_cols)
    lane.set(result, lane.place(instruction, result.name, type_, address, valid))


def _set_validshape(lane: Lane, instruction: Instruction) -> None:
    tile = lane.tile(instruction.operands[0])
    if tile.is_window:
        lane.report(findings.BAD_EXTENT, f"{tile.name} is a window, whose extents are fixed", instruction)
    rows, cols = (int(x) for x in lane.all_of(instruction.operands[1:]))
    tile.valid_rows, tile.valid_cols = lane.extents(instruction, tile.name, tile.type, (rows, cols))


# --- tensors ----------------------------------------------------------------------------------------------------------


def _make_view(lane: Lane, instruction: Instruction) -> None:
    pointer, *numbers = lane.all_of(instruction.operands)
    assert isinstance(pointer, Pointer)
    rank = len(numbers) // 2
    shape = tuple(int(n) for n in numbers[:rank])
    strides = tuple(int(n) for n in numbers[rank:])
    result = instruction.results[0]
    if any(n < 0 for n in shape):
        lane.fail(findings.BAD_EXTENT, f"{result.name} has shape {list(shape)}", instruction)
    lane.set(result, View(pointer, shape, strides, str(instruction.attributes.get("layout", "nd"))))


def _partition(lane: Lane, instruction: Instruction) -> None:
    """A window. Offsets that a maximum with 0 has lifted are a finding: the read goes to row 0 instead."""
    view, *numbers = lane.all_of(instruction.operands)
    assert isinstance(view, View)
    rank = len(numbers) // 2
    result = instruction.results[0]
    offsets, sizes = tuple(int(n) for n in numbers[:rank]), tuple(int(n) for n in numbers[rank:])
    for axis, operand in enumerate(instruction.operands[1 : 1 + rank]):
        before = lane.clamped.get(operand.slot)
        if before is not None:
            lane.report(
                findings.CLAMPED_OFFSET,
                f"{result.name}: the offset on axis {axis} of {view.pointer.name} was {before}, and was raised to 0",
                instruction,
            )
    if any(size < 0 for size in sizes):
        lane.fail(findings.BAD_EXTENT, f"{result.name} has sizes {list(sizes)}", instruction)
    if rank != len(view.shape):
        lane.fail(findings.BAD_EXTENT, f"{result.name}: {rank} offsets into {len(view.shape)} axes", instruction)
    window = Window(result.name, view, offsets, sizes)
    if window.last >= 2**31:
        lane.report(
            findings.WIDE_OFFSET,
            f"{result.name} reaches element {window.last}; an assembler computes offsets in 32 bits",
            instruction,
            severity=Severity.WARNING,
        )
    lane.set(result, window)


def _agree(lane: Lane, instruction: Instruction, window: Window, tile: Tile) -> tuple[int, int]:
    """The extents a transfer moves; a finding when window and tile do not state the same."""
    rows, cols = window.matrix
    valid = (tile.valid_rows, tile.valid_cols)
    if (rows, cols) == valid:
        return valid
    if len(window.sizes) == 1 and cols == valid[0] * valid[1]:
        return valid
    message = f"{window.name} is {rows} x {cols}, but {tile.name} has {valid[0]} x {valid[1]} valid elements"
    lane.report(findings.BAD_EXTENT, message, instruction, tiles=(tile.describe(), window.describe()))
    return min(rows, valid[0]), min(cols, valid[1])


def _as_matrix(cells: torch.Tensor, rows: int, cols: int) -> torch.Tensor:
    """A window's memory as a matrix, leading axes as rows."""
    if cells.dim() == 1:
        return cells.reshape(1, -1)[:rows, :cols] if rows == 1 else cells.reshape(rows, cols)
    return cells.reshape(-1, cells.shape[-1])[:rows, :cols]


def _tload(lane: Lane, instruction: Instruction) -> None:
    window: Window = lane.get(instruction.ins[0])
    tile = lane.tile(instruction.out[0])
    rows, cols = _agree(lane, instruction, window, tile)
    if not lane.reach(instruction, window) or 0 in (rows, cols):
        return
    if TORCH[window.view.pointer.dtype] is not tile.dtype:
        message = f"loads {window.view.pointer.dtype} into a tile of {tile.type.dtype}"
        lane.report(findings.BAD_ARGUMENT, message, instruction, tiles=(tile.describe(), window.describe()))
    lane.write(instruction, tile, converted(Cells(_as_matrix(window.cells(), rows, cols)), tile.dtype))


def _tstore(lane: Lane, instruction: Instruction) -> None:
    tile = lane.tile(instruction.ins[0])
    window: Window = lane.get(instruction.out[0])
    rows, cols = _agree(lane, instruction, window, tile)
    if not lane.reach(instruction, window) or 0 in (rows, cols):
        return
    cells = converted(lane.read(instruction, tile, rows, cols), TORCH[window.view.pointer.dtype])
    report_undefined(lane, instruction, tile.describe(), window, cells)
    atomic = str(instruction.attributes.get("atomicType", "atomic_none"))
    note_writer(lane, instruction, window, atomic != "atomic_none", cells.data.contiguous())
    if lane.launch.listener is not None:
        lane.launch.listener.memory_write(lane, _written(window, rows, cols))
    place_cells(window, cells.data, rows, cols, atomic)


def _written(window: Window, rows: int, cols: int) -> torch.Tensor:
    """The elements of a window that `place_cells` writes (all of them where it has more than two axes)."""
    memory = window.cells()
    if window.matrix == (rows, cols) or memory.dim() > 2:
        return memory
    return memory[..., :cols] if memory.dim() < 2 else memory[:rows, :cols]


def place_cells(window: Window, data: torch.Tensor, rows: int, cols: int, atomic: str = "atomic_none") -> None:
    """Puts a matrix into a window's memory, adding or comparing where the store is atomic."""
    memory = window.cells()
    if window.matrix == (rows, cols):
        target, values = memory, data.reshape(memory.shape)
    elif memory.dim() <= 2:
        target, values = memory.view(memory.shape)[..., :cols], data
        target = target[:rows] if memory.dim() == 2 else target
        values = data.reshape(target.shape)
    else:
        flat = memory.reshape(-1, memory.shape[-1]).clone()
        flat[:rows, :cols] = data
        target, values = memory, flat.reshape(memory.shape)
    if atomic == "atomic_add":
        target.add_(values)
    elif atomic == "atomic_max":
        target.copy_(torch.maximum(target, values))
    elif atomic == "atomic_min":
        target.copy_(torch.minimum(target, values))
    else:
        target.copy_(values)


def report_undefined(lane: Lane, instruction: Instruction, shown: str, window: Window, cells: Cells) -> None:
    """An error when an undefined element reaches global memory, with where it came from."""
    if cells.codes is None:
        return
    origins = sorted({int(c) for c in cells.codes.reshape(-1).tolist()} - {0})
    texts = [lane.launch.origins[c] if c > 1 else "nothing has written it" for c in origins]
    count = int((cells.codes != 0).sum())
    lane.report(
        findings.UNDEFINED_OUTPUT,
        f"{count} undefined elements reach {window.view.pointer.name}: {'; '.join(texts)}",
        instruction,
        tiles=(shown, window.describe()),
    )


def note_writer(
    lane: Lane, instruction: Instruction, window: Window, atomic: bool, written: torch.Tensor | None = None
) -> None:
    """A finding where another lane or block writes the same elements and nothing orders the two. Lanes of one block
    that write the same numbers (`written`, of the window's shape) do no harm."""
    writers = lane.launch.writers
    if writers is None or atomic:
        return
    access = Access(lane.name, lane.block, lane.clock.get(lane.key, 0), instruction.where)
    other = writers.note(window, access, lane.clock)
    if other is None:
        return
    if other.block != lane.block:
        who = f"blocks {other.block} and {lane.block}"
    elif lane.launch.has_flags or (written is not None and _holds(window, written)):
        return
    else:
        who = f"lanes {other.lane} ({other.where}) and {lane.name}"
    message = f"{who} both write elements of {window.view.pointer.name}; which one stays is not defined"
    lane.report(findings.RACE, message, instruction, tiles=(window.describe(),), once=True)


def _holds(window: Window, written: torch.Tensor) -> bool:
    """Whether a window's memory holds these bits."""
    memory = window.cells()
    return memory.numel() == written.numel() and torch.equal(bits(memory.contiguous()).view(-1), bits(written).view(-1))


# --- scalars of tiles -------------------------------------------------------------------------------------------------


def _spot(lane: Lane, instruction: Instruction, tile: Tile, offset: int) -> tuple[int, int]:
    """Row and column of a flat row-major offset into a tile's box."""
    if not 0 <= offset < tile.type.rows * tile.type.cols:
        message = f"element {offset} of {tile.name}, which has {tile.type.rows * tile.type.cols}"
        lane.fail(findings.OUT_OF_BOUNDS, message, instruction, (tile.describe(),))
    return divmod(offset, tile.type.cols)


def _tgetval(lane: Lane, instruction: Instruction) -> None:
    content, offset = lane.all_of(instruction.operands)
    if isinstance(content, Window):
        flat = content.cells().reshape(-1)
        if not lane.reach(instruction, content) or not 0 <= int(offset) < flat.numel():
            lane.fail(findings.OUT_OF_BOUNDS, f"element {offset} of {content.name}", instruction, (content.describe(),))
        lane.set(instruction.results[0], flat[int(offset)].item())
        return
    row, column = _spot(lane, instruction, content, int(offset))
    cells = lane.read_box(instruction, content)
    if cells.codes is not None and int(cells.codes[row, column]):
        message = f"reads element [{row}, {column}] of {content.name}, which is undefined"
        lane.report(
            findings.UNDEFINED_READ, message, instruction, tiles=(content.describe(),), severity=Severity.WARNING
        )
    lane.set(instruction.results[0], cells.data[row, column].item())


def _tsetval(lane: Lane, instruction: Instruction) -> None:
    offset, value = lane.all_of(instruction.ins)
    tile = lane.tile(instruction.out[0])
    row, column = _spot(lane, instruction, tile, int(offset))
    lane.write(instruction, tile, Cells(torch.tensor([[value]], dtype=tile.dtype)), row, column)


# --- tile to tile -----------------------------------------------------------------------------------------------------


def _tmov(lane: Lane, instruction: Instruction) -> None:
    source, target = lane.tile(instruction.ins[0]), lane.tile(instruction.out[0])
    rows, cols = min(source.valid_rows, target.type.rows), min(source.valid_cols, target.type.cols)
    if (rows, cols) != (source.valid_rows, source.valid_cols):
        lane.report(
            findings.BAD_EXTENT,
            f"{source.valid_rows} x {source.valid_cols} valid elements of {source.name} go to {target.name}, a box of "
            f"{target.type.rows} x {target.type.cols}",
            instruction,
            tiles=(source.describe(), target.describe()),
        )
    lane.write(instruction, target, converted(lane.read(instruction, source, rows, cols), target.dtype))


def _textract(lane: Lane, instruction: Instruction) -> None:
    source, target = lane.tile(instruction.ins[0]), lane.tile(instruction.out[0])
    row, column = (int(x) for x in lane.all_of(instruction.ins[1:]))
    rows, cols = target.valid_rows, target.valid_cols
    if row < 0 or column < 0 or row + rows > source.valid_rows or column + cols > source.valid_cols:
        lane.fail(
            findings.OUT_OF_BOUNDS,
            f"takes rows {row}..{row + rows}, columns {column}..{column + cols} of {source.name}, of which "
            f"{source.valid_rows} x {source.valid_cols} are valid",
            instruction,
            (source.describe(), target.describe()),
        )
    part = Tile(
        source.name, source.type, source.arena, source.address, rows, cols, source.allocation, source.box,
        source.row + row, source.column + column,
    )  # fmt: skip
    lane.write(instruction, target, converted(lane.read(instruction, part), target.dtype))


def _tinsert(lane: Lane, instruction: Instruction) -> None:
    source, target = lane.tile(instruction.ins[0]), lane.tile(instruction.out[0])
    row, column = (int(x) for x in lane.all_of(instruction.ins[1:]))
    lane.write(instruction, target, converted(lane.read(instruction, source), target.dtype), row, column)


def _ttrans(lane: Lane, instruction: Instruction) -> None:
    cells = lane.read(instruction, lane.tile(instruction.ins[0]))
    codes = None if cells.codes is None else cells.codes.T
    lane.write(instruction, lane.tile(instruction.out[0]), Cells(cells.data.T.contiguous(), codes))


def _tconcat(lane: Lane, instruction: Instruction) -> None:
    parts = [lane.read(instruction, lane.tile(value)) for value in instruction.ins]
    if len({p.data.shape[0] for p in parts}) > 1:
        rows = [p.data.shape[0] for p in parts]
        lane.fail(findings.BAD_EXTENT, f"joins tiles of {rows[0]} and {rows[1]} rows", instruction)
    data = torch.cat([p.data for p in parts], dim=1)
    lane.write(instruction, lane.tile(instruction.out[0]), Cells(data, _side_by_side(parts)))


def _side_by_side(parts: Sequence[Cells]) -> torch.Tensor | None:
    if all(p.codes is None for p in parts):
        return None
    return torch.cat(
        [torch.zeros(p.data.shape, dtype=torch.int32) if p.codes is None else p.codes for p in parts], dim=1
    )


def _tfillpad(lane: Lane, instruction: Instruction) -> None:
    """The source's valid elements; every other element of the target's box is the pad value of its type."""
    source, target = lane.tile(instruction.ins[0]), lane.tile(instruction.out[0])
    cells = converted(lane.read(instruction, source), target.dtype)
    rows, cols = min(cells.data.shape[0], target.type.rows), min(cells.data.shape[1], target.type.cols)
    if target.type.pad == 0:
        lane.write(instruction, target, fitted(cells, rows, cols))
        return
    pad = _pad_number(PADS[target.type.pad], target.dtype)
    data = torch.full((target.type.rows, target.type.cols), pad, dtype=target.dtype)
    data[:rows, :cols] = cells.data[:rows, :cols]
    codes = None
    if cells.codes is not None:
        codes = torch.zeros(data.shape, dtype=torch.int32)
        codes[:rows, :cols] = cells.codes[:rows, :cols]
    lane.write(instruction, target, Cells(data, codes))


def _nothing(lane: Lane, instruction: Instruction) -> None:
    """Reads its tile, so that it counts as used."""
    for value in instruction.ins:
        content = lane.get(value)
        if isinstance(content, Tile):
            lane.read(instruction, content)


_PLAIN: dict[str, Handler] = {
    "pto.alloc_tile": _alloc_tile,
    "pto.alloc_multi_tile": _alloc_multi,
    "pto.multi_tile_get": _multi_get,
    "pto.subview": _subview,
    "pto.subset": _subview,
    "pto.treshape": _treshape,
    "pto.tassign": _tassign,
    "pto.set_validshape": _set_validshape,
    "pto.make_tensor_view": _make_view,
    "pto.partition_view": _partition,
    "pto.tload": _tload,
    "pto.tstore": _tstore,
    "pto.tgetval": _tgetval,
    "pto.tsetval": _tsetval,
    "pto.tmov": _tmov,
    "pto.textract": _textract,
    "pto.tinsert": _tinsert,
    "pto.ttrans": _ttrans,
    "pto.tconcat": _tconcat,
    "pto.tfillpad": _tfillpad,
    "pto.tfillpad_expand": _tfillpad,
    "pto.tprint": _nothing,
}
HANDLERS = clobbering(_PLAIN)
