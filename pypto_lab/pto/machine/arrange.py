"""Ops that rearrange elements: gathers and scatters by index, mask or byte offset, sorts of (value, index) pairs."""

from __future__ import annotations

import torch

from pypto_lab.pto.decode import Instruction
from pypto_lab.pto.machine import findings
from pypto_lab.pto.machine.arena import Cells, Tile
from pypto_lab.pto.machine.compute import COMPARISONS, Codes, anywhere, merged, store, target_of
from pypto_lab.pto.machine.dtypes import bits
from pypto_lab.pto.machine.lane import Handler, Lane
from pypto_lab.pto.machine.memory import Window
from pypto_lab.pto.machine.moves import converted, note_writer, report_undefined
from pypto_lab.pto.machine.scratch import clobbering
from pypto_lab.torch_codegen.runtime import gather, sort

MASK_PATTERNS = {"P0101": 1, "P1010": 2, "P0001": 3, "P0010": 4, "P0100": 5, "P1000": 6, "P1111": 7}


def _pattern(lane: Lane, instruction: Instruction) -> int:
    word = str(instruction.attributes["maskPattern"])
    if word not in MASK_PATTERNS:
        lane.fail(findings.NOT_MODELLED, f"mask pattern {word}", instruction)
    return MASK_PATTERNS[word]


def _tgather(lane: Lane, instruction: Instruction) -> None:
    source = lane.tile(instruction.ins[0])
    target = target_of(lane, instruction)
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
    store(lane, instruction, data, merged(data.shape, codes, index.codes))


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
    source, target = lane.tile(instruction.ins[0]), target_of(lane, instruction)
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
    source, target = lane.tile(instruction.ins[0]), target_of(lane, instruction)
    box = lane.read_box(instruction, source)
    offsets = lane.read(instruction, lane.tile(instruction.ins[1]))
    data = gather._gatherb(box.data, offsets.data, output_dtype=target.dtype)
    rows, cols = min(data.shape[0], target.valid_rows), min(data.shape[1], target.valid_cols)
    store(lane, instruction, data[:rows, :cols], anywhere((rows, cols), box.codes, offsets.codes))


def _tsort32(lane: Lane, instruction: Instruction) -> None:
    values = lane.read(instruction, lane.tile(instruction.ins[0]))
    index = lane.read(instruction, lane.tile(instruction.ins[1]), *values.data.shape)
    data = sort._sort32(values.data, index.data)
    store(lane, instruction, data, anywhere(data.shape, values.codes, index.codes))


def _tmrgsort(lane: Lane, instruction: Instruction) -> None:
    second = lane.get(instruction.ins[1])
    if not isinstance(second, Tile):
        cells = lane.read(instruction, lane.tile(instruction.ins[0]))
        data = sort._mrgsort_format1(cells.data, int(second))
        whole = cells.data.shape[1] // (4 * int(second)) * 4 * int(second)
        store(lane, instruction, data[:, :whole], anywhere((data.shape[0], whole), cells.codes))
        return
    runs = [lane.read(instruction, lane.tile(value)) for value in instruction.ins[:-1]]
    exhausted = bool(instruction.attributes.get("exhausted", False))
    data = sort._mrgsort_format2(*(run.data for run in runs), exhausted=exhausted)
    target = target_of(lane, instruction)
    store(
        lane,
        instruction,
        data[:, : target.type.cols],
        anywhere(data[:, : target.type.cols].shape, *(r.codes for r in runs)),
    )


def _mgather(lane: Lane, instruction: Instruction) -> None:
    window: Window = lane.get(instruction.ins[0])
    target = target_of(lane, instruction)
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
    store(lane, instruction, data.reshape(target.valid_rows, target.valid_cols), None)


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
    if lane.launch.listener is not None:
        lane.launch.listener.memory_write(lane, memory)
    gather._put_into(memory, index.data.to(torch.int64), cells.data)


_PLAIN: dict[str, Handler] = {
    "pto.tgather": _tgather,
    "pto.tgatherb": _tgatherb,
    "pto.tscatter": _tscatter,
    "pto.tsort32": _tsort32,
    "pto.tmrgsort": _tmrgsort,
    "pto.mgather": _mgather,
    "pto.mscatter": _mscatter,
}
HANDLERS = clobbering(_PLAIN)
