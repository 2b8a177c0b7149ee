"""The listener that writes what the byte machine does into a recording's log: an entry an instruction, and the old
bytes of every region before it is written."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from pypto_lab.pto.decode import Instruction, Value
from pypto_lab.pto.dialect.types import TileType, inner_box
from pypto_lab.pto.machine.arena import Arena, Tile
from pypto_lab.pto.machine.lane import Lane, Launch
from pypto_lab.pto.machine.listener import Listener, QueueKind
from pypto_lab.pto.machine.memory import Pointer, View, Window
from pypto_lab.pto.machine.pipes import Pipe
from pypto_lab.record import instrument as ins
from pypto_lab.record.build import dtype_name
from pypto_lab.record.events import Memory, Order
from pypto_lab.record.placed import LaneMemory, Placed
from pypto_lab.record.probes import Probes
from pypto_lab.record.pto_tables import FunctionTable, UnitTables

_memmove = ctypes.memmove
_PLAIN = (int, float, bool, str, type(None))

Piece = tuple[int, tuple[int, ...], tuple[int, ...]]
"""A strided part of a tile: first byte behind the tile's address, shape, and strides in bytes."""


class MachineProbes(Listener):
    """Writes to the log of `probes`. One object listens to all kernels of a run."""

    def __init__(self, probes: Probes, tables: UnitTables) -> None:
        self.probes, self.tables = probes, tables
        self._extend: Callable[[tuple[int, Any, Any]], None] = probes.extend
        self._lanes: dict[Lane, _LaneLog] = {}
        self._parent = -1
        self._started: set[tuple[Launch, int]] = set()
        self.last_frame = -1

    # --- kernels and lanes

    def launched(self, launch: Launch, lanes: Sequence[Lane], vector_lanes: int) -> None:
        self._parent = self.probes.parent_frame()
        self._started.clear()
        self.tables.add(launch)

    def began(self, lane: Lane) -> None:
        table = self.tables.of(lane)
        block = lane.block if lane.launch.blocks > 1 else -1
        log = self._lanes[lane] = _LaneLog(lane, table, block)
        values = tuple(log.shown(lane.values[a.slot]) for a in lane.function.arguments)
        log.frame = self.last_frame = self.probes.new_frame(table.function, lane.name, self._parent, block, values)

    def ended(self, lane: Lane) -> None:
        log = self._lanes.pop(lane)
        self._extend((ins.CODE_LEAVE, log.frame, None))
        for memory in log.memories.values():
            self.probes.kept(memory.close())
        self.probes.tick()

    # --- instructions

    def before(self, lane: Lane, instruction: Instruction) -> None:
        log = self._lanes[lane]
        loop = log.table.loops.get(instruction)
        if loop is not None:
            self._extend((ins.CODE_LOOP, log.frame, loop))
        elif instruction.name == "pto.set_validshape":
            placed = log.shown(lane.values[instruction.operands[0].slot])
            if isinstance(placed, Placed):
                self._extend((ins.CODE_META, placed, placed.valid))

    def after(self, lane: Lane, instruction: Instruction) -> None:
        log = self._lanes[lane]
        loop = log.table.loops.get(instruction)
        if loop is not None:
            self._extend((ins.CODE_LOOP, log.frame, ~loop))
        entry = log.table.done.get(instruction)
        if entry is None:
            return
        code, slots = entry
        values = lane.values
        payload: Any = None
        if len(slots) == 1:
            payload = values[slots[0]]
            if type(payload) not in _PLAIN:
                payload = log.shown(payload)
        elif slots:
            payload = tuple(log.shown(values[slot]) for slot in slots)
        self._step(code, log, payload)

    def turn(self, lane: Lane, instruction: Instruction, arguments: tuple[Value, ...]) -> None:
        self._bind(lane, self._lanes[lane].table.turns[instruction], arguments)

    def decided(self, lane: Lane, instruction: Instruction, condition: bool) -> None:
        log = self._lanes[lane]
        code, arguments = log.table.conditions[instruction]
        values = tuple(log.shown(lane.values[a.slot]) for a in arguments)
        self._step(code, log, (*values, condition) if values else condition)

    def returned(self, lane: Lane, instruction: Instruction) -> None:
        log = self._lanes[lane]
        entry = log.table.done.get(instruction)
        if entry is not None:
            self._step(entry[0], log, None)

    def _bind(self, lane: Lane, code: int, arguments: Sequence[Value]) -> None:
        log = self._lanes[lane]
        values = tuple(log.shown(lane.values[a.slot]) for a in arguments)
        self._step(code, log, values[0] if len(values) == 1 else values or None)

    def _step(self, code: int, log: _LaneLog, payload: Any) -> None:
        self._extend((code, log.frame, payload))
        self.last_frame = log.frame
        self.probes.tick()

    # --- writes

    def tile_write(self, lane: Lane, tile: Tile, rows: int, cols: int) -> None:
        memory = self._lanes[lane].memory(tile.arena)
        box = tile.box
        memory.high = max(memory.high, tile.address + box.size)
        for offset, shape, strides in pieces(box, tile.row, tile.column, rows, cols):
            start = tile.address + offset
            self._extend((ins.CODE_BYTES, memory, self._saved(memory, start, shape, strides, box.itemsize)))

    def _saved(
        self, memory: LaneMemory, start: int, shape: tuple[int, ...], strides: tuple[int, ...], item: int
    ) -> tuple[Any, ...]:
        """A region's bytes, copied to the recording's arena."""
        size, dense = item, True
        for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
            dense = dense and (extent == 1 or stride == size)
            size *= extent
        block, at, address = self.probes.arena.reserve(size)
        if dense:
            _memmove(address, memory.address + start, size)
        else:
            region = np.ndarray((*shape, item), np.uint8, memory.bytes, start, (*strides, 1))
            block[at : at + size].reshape(region.shape)[...] = region
        self.probes.kept(size)
        return start, shape, strides, item, block, at, size

    def memory_write(self, lane: Lane, cells: torch.Tensor) -> None:
        self.probes.write(cells)

    # --- queues

    def queue(self, kind: QueueKind, lane: Lane, instruction: Instruction, pipe: Pipe, ring: int, **more: Any) -> None:
        log = self._lanes[lane]
        number = self.probes.lane_number(lane.name)
        if (lane.launch, lane.block) not in self._started:
            self._started.add((lane.launch, lane.block))
            group = {"group": self.tables.group_of(lane.launch), "of_block": log.block}
            self._extend((ins.CODE_EVENT, log.frame, ("group_begin", number, group)))
        details: dict[str, Any] = {"pipe": pipe.ring(ring), "of_block": log.block, "op": kind}
        if "parcel" in more:
            parcel = more["parcel"]
            cells = parcel.cells.data
            if parcel.valid != tuple(cells.shape):
                setattr(cells, ins.VALID_ATTRIBUTE, parcel.valid)
            details.update(slot=more["slot"], value=cells, depth=pipe.depth)
        elif "tile" in more:
            details.update(slot=more["slot"], value=log.shown(more["tile"]))
        elif "slot" in more:
            details["slot"] = more["slot"]
        elif kind == "blocked":
            verb = "push" if "push" in instruction.name else "pop"
            details.update(op=verb, why=more["why"], statement=log.table.done[instruction][0])
        self._extend((ins.CODE_EVENT, log.frame, (kind, number, details)))
        self.probes.tick()


class _LaneLog:
    """What is known of a lane that runs: its frame, its memories, and the views that its handles stand for."""

    __slots__ = ("_tiles", "block", "frame", "lane", "memories", "table")

    def __init__(self, lane: Lane, table: FunctionTable, block: int) -> None:
        self.lane, self.table, self.block = lane, table, block
        self.frame = -1
        self.memories: dict[str, LaneMemory] = {}
        self._tiles: dict[int, tuple[Tile, Any]] = {}

    def memory(self, arena: Arena) -> LaneMemory:
        found = self.memories.get(arena.space)
        if found is None:
            memory = Memory(arena.space, self.lane.name, None if self.block < 0 else self.block, arena.size)
            found = self.memories[arena.space] = LaneMemory(memory, arena, arena.data)
        return found

    def shown(self, content: Any) -> Any:
        """Content of a register as the log holds it."""
        if type(content) in _PLAIN:
            return content
        if isinstance(content, Tile):
            return self._tile(content)
        if isinstance(content, Window):
            return _global(content.view.pointer, content.sizes, content.view.strides, content.start)
        if isinstance(content, View):
            return _global(content.pointer, content.shape, content.strides, 0)
        if isinstance(content, Pointer):
            tensor = content.tensor
            if content.offset == 0:
                return _global(content, tuple(tensor.shape), tuple(tensor.stride()), 0)
            return f"{content.name} + {content.offset}"
        if isinstance(content, (list, tuple)):
            return tuple(self.shown(item) for item in content)
        return content

    def _tile(self, tile: Tile) -> Any:
        known = self._tiles.get(id(tile))
        valid = None if (tile.valid_rows, tile.valid_cols) == (tile.type.rows, tile.type.cols) else (
            tile.valid_rows, tile.valid_cols
        )  # fmt: skip
        if known is not None:
            if known[1].valid != valid:  # the op has changed the handle's valid region
                known[1].valid = valid
            return known[1]
        memory = self.memory(tile.arena)
        memory.high = max(memory.high, tile.address + tile.box.size)
        placed = _placed(memory, tile, valid)
        if isinstance(placed, Placed):
            self._tiles[id(tile)] = (tile, placed)
        return placed


def _placed(memory: LaneMemory, tile: Tile, valid: tuple[int, int] | None) -> Placed | str:
    """A tile as a view of its memory; in words where it does not start at a whole element."""
    box, item = tile.box, tile.box.itemsize
    if tile.address % item:
        return tile.describe()
    offset, shape, dtype = tile.address // item, (tile.type.rows, tile.type.cols), dtype_name(tile.dtype)
    if box.boxed:
        order = order_of(box)._replace(start=(tile.row, tile.column))
        return Placed(memory, dtype, shape, (box.cols, 1), offset, valid, order)
    strides = (box.cols, 1) if box.blayout == "row_major" else (1, box.rows)
    offset += tile.row * strides[0] + tile.column * strides[1]
    return Placed(memory, dtype, shape, strides, offset, valid)


def _global(pointer: Pointer, sizes: tuple[int, ...], strides: tuple[int, ...], start: int) -> Placed | str:
    """A view of an argument's memory; in words where it leaves it."""
    last = start + sum((max(size, 1) - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if not (pointer.inside(start, last) or 0 in sizes) or min((0, *strides)) < 0:
        return f"{pointer.name}[{', '.join(map(str, sizes))}] from element {pointer.offset + start}"
    offset = int(pointer.tensor.storage_offset()) + pointer.offset + start
    if 0 in sizes:
        offset = max(0, min(offset, int(pointer.tensor.storage_offset()) + pointer.extent))
    return Placed(pointer.tensor, dtype_name(pointer.tensor.dtype), sizes, strides, offset)


@lru_cache(maxsize=512)
def order_of(box: TileType) -> Order:
    """Where the elements of a boxed tile stand (the rule of `pto/machine/layout.py`, per axis)."""
    rows, columns = inner_box(box)
    size = rows * columns
    over = (box.cols * rows, size) if box.blayout == "row_major" else (size, box.rows * columns)
    within = (columns, 1) if box.slayout == "row_major" else (1, rows)
    return Order((rows, columns), over, within)


@lru_cache(maxsize=4096)
def pieces(box: TileType, row: int, column: int, rows: int, cols: int) -> tuple[Piece, ...]:
    """Strided parts that together are rows x cols elements of a tile from (row, column) on."""
    item = box.itemsize
    if not box.boxed:
        strides = (box.cols * item, item) if box.blayout == "row_major" else (item, box.rows * item)
        return ((row * strides[0] + column * strides[1], (rows, cols), strides),)
    order = order_of(box)
    out: list[Piece] = []
    for first, count in _runs(row, rows, order.box[0]):
        for left, width in _runs(column, cols, order.box[1]):
            start = (order.along(0, first) + order.along(1, left)) * item
            shape = (*_split(count, order.box[0]), *_split(width, order.box[1]))
            steps = (order.over[0], order.within[0], order.over[1], order.within[1])
            out.append(_in_memory_order(start, shape, tuple(s * item for s in steps)))
    return tuple(out)


def _runs(start: int, count: int, box: int) -> list[tuple[int, int]]:
    """A range of indices as (first, number): what is left of a box, whole boxes, the beginning of one."""
    end = start + count
    cuts = [start]
    for cut in (-(-start // box) * box, end // box * box, end):
        if cuts[-1] < cut <= end:
            cuts.append(cut)
    return [(a, b - a) for a, b in pairwise(cuts)]


def _split(count: int, box: int) -> tuple[int, int]:
    """A number of indices as boxes and indices in a box."""
    return (count // box, box) if count % box == 0 else (1, count)


def _in_memory_order(start: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Piece:
    """Axes by their strides, the largest first, so that whole boxes are one run of bytes."""
    axes = sorted(zip(strides, shape, strict=True), reverse=True)
    return start, tuple(n for _, n in axes), tuple(s for s, _ in axes)
