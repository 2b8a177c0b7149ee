"""Cross-core pipes: rings of slots in the consumer's memory, filled by pushes, emptied by pops, given back by frees."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch

from pypto_lab.pto.decode import Instruction
from pypto_lab.pto.dialect.types import TileType
from pypto_lab.pto.machine import findings
from pypto_lab.pto.machine.arena import Cells, Tile
from pypto_lab.pto.machine.dtypes import TORCH
from pypto_lab.pto.machine.lane import Handler, Lane
from pypto_lab.pto.machine.memory import Clock, Pointer
from pypto_lab.pto.machine.moves import converted

C2V, V2C = 1, 2
"""Directions, as bits of `dir_mask`: cube to vector, vector to cube."""

NAMES = {C2V: "cube to vector", V2C: "vector to cube"}
BUFFERS = {C2V: "c2v_consumer_buf", V2C: "v2c_consumer_buf"}
SPACES = {C2V: "vec", V2C: "mat"}


@dataclass(slots=True, eq=False)
class Parcel:
    """What one lane pushed for one slot: the whole box, of which `valid` is valid."""

    cells: Cells
    valid: tuple[int, int]
    split: int
    instruction: Instruction
    clock: Clock = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes of global memory that hold the slots of one direction: the argument, the first byte, the end."""

    argument: str
    low: int
    high: int


@dataclass(slots=True, eq=False)
class Pipe:
    """One direction of one pipe id between the cores of a block."""

    direction: int
    id: int
    depth: int | None = None
    slot_size: int | None = None
    base: int = 0
    region: Region | None = None
    """Where its slots lie in global memory, if they go through it."""
    queues: dict[int, deque[Parcel]] = field(default_factory=dict)
    """Parcels by vector lane, whichever side it is on."""
    pushed: list[int] = field(default_factory=lambda: [0, 0])
    popped: list[int] = field(default_factory=lambda: [0, 0])
    freed: list[int] = field(default_factory=lambda: [0, 0])
    frees: tuple[list[Clock], list[Clock]] = field(default_factory=lambda: ([], []))
    """By ring: what the lane that gave a slot back had done by then, in the order of frees."""
    splits: dict[int, deque[int]] = field(default_factory=dict)
    """Split codes of the tiles that are popped and not yet freed, by vector lane."""

    @property
    def name(self) -> str:
        return f"pipe {self.id}, {NAMES[self.direction]}"

    def ring(self, lane: int) -> str:
        """The name of one lane's ring, as recordings have it."""
        return f"{'C2V' if self.direction == C2V else 'V2C'}[{lane}]#{self.id}"

    def queue(self, lane: int) -> deque[Parcel]:
        return self.queues.setdefault(lane, deque())


@dataclass(slots=True, eq=False)
class Pipes:
    """All pipes of a block, and how many vector lanes it has."""

    lanes: int
    found: dict[tuple[int, int], Pipe] = field(default_factory=dict)

    def pipe(self, direction: int, id: int) -> Pipe:
        return self.found.setdefault((direction, id), Pipe(direction, id))


# --- set-up -----------------------------------------------------------------------------------------------------------


def _reserve(lane: Lane, instruction: Instruction) -> None:
    given = instruction.attributes
    name, size = str(given.get("name", "?")), int(given.get("size", 0))
    space, base = str(given.get("location", "vec")), int(given.get("base", 0))
    if base < 0 or base + size > lane.arena(space).size:
        message = f"`{name}`: bytes {base}..{base + size} of {lane.arena(space).size} in {space}"
        lane.fail(findings.BAD_ADDRESS, message, instruction)
    lane.rings.append((name, space, base, base + size))
    lane.set(instruction.results[0], base)


def _import(lane: Lane, instruction: Instruction) -> None:
    """The address the peer reserves. Stops the run when it reserves none of that name."""
    name, peer = str(instruction.attributes.get("name")), str(instruction.attributes.get("peer_func"))
    function = lane.launch.functions.get(peer)
    if function is None:
        lane.fail(findings.PIPE_MISUSE, f"there is no function @{peer} to import `{name}` from", instruction)
    for other in function.body.walk():
        if other.name == "pto.reserve_buffer" and other.attributes.get("name") == name:
            lane.set(instruction.results[0], int(other.attributes.get("base", 0)))
            return
    lane.fail(findings.PIPE_MISUSE, f"@{peer} reserves no buffer `{name}`", instruction)


def _initialize(lane: Lane, instruction: Instruction) -> None:
    given = instruction.attributes
    mask, slot_size = int(given.get("dir_mask", 0)), int(given.get("slot_size", 0))
    depth = int(given.get("slot_num", 0)) or (4 if mask == C2V | V2C else 8)
    bases = dict(zip(given.get("labels", ()), lane.all_of(instruction.operands), strict=False))
    for direction in (C2V, V2C):
        if not mask & direction:
            continue
        pipe = lane.pipes.pipe(direction, int(given.get("id", 0)))
        base = int(bases.get(BUFFERS[direction], 0))
        setting = (depth, slot_size, base)
        if pipe.depth is not None and (pipe.depth, pipe.slot_size, pipe.base) != setting:
            message = (
                f"{pipe.name}: one side sets up {pipe.depth} slots of {pipe.slot_size} bytes at {pipe.base}, the other "
                f"{depth} of {slot_size} at {base}"
            )
            lane.fail(findings.PIPE_MISUSE, message, instruction)
        pipe.depth, pipe.slot_size, pipe.base = setting
        _check_ring(lane, instruction, pipe)
        if isinstance(pointer := bases.get("gm_slot_buffer"), Pointer):
            behind = depth * slot_size if direction == V2C and mask & C2V else 0  # the other direction's slots
            _through_memory(lane, instruction, pipe, pointer, behind)


def _check_ring(lane: Lane, instruction: Instruction, pipe: Pipe) -> None:
    """The consumer's reserved bytes hold all slots."""
    end = pipe.base + (pipe.depth or 0) * (pipe.slot_size or 0)
    for name, space, low, high in lane.rings:
        if space == SPACES[pipe.direction] and low == pipe.base and end > high:
            message = (
                f"{pipe.name}: {pipe.depth} slots of {pipe.slot_size} bytes do not fit `{name}` ({high - low} bytes)"
            )
            lane.report(findings.PIPE_MISUSE, message, instruction)


def _through_memory(lane: Lane, instruction: Instruction, pipe: Pipe, pointer: Pointer, behind: int) -> None:
    """Gives a direction its slots in global memory. They are inside the buffer, apart from those of other directions
    and pipes, and in the same place for both sides. A buffer of one element says nothing: its size is decided where
    the kernel is launched."""
    width = TORCH[pointer.dtype].itemsize
    start = pointer.offset * width + behind
    region = Region(pointer.name, start, start + (pipe.depth or 0) * (pipe.slot_size or 0))
    if pipe.region is not None and pipe.region != region:
        message = (
            f"{pipe.name}: one side has its slots at byte {pipe.region.low} of {pointer.name}, the other at {start}"
        )
        lane.fail(findings.PIPE_MISUSE, message, instruction)
    pipe.region = region
    size = pointer.extent * width // lane.launch.blocks
    if pointer.extent > 1 and region.high > size:
        message = (
            f"{pipe.name}: its slots take bytes {region.low}..{region.high} of {pointer.name}, which has {size} for "
            "each block"
        )
        lane.report(findings.PIPE_MISUSE, message, instruction)
    for other in lane.pipes.found.values():
        if other is not pipe and other.region is not None and _share(region, other.region):
            message = (
                f"{pipe.name} has its slots at bytes {region.low}..{region.high} of {pointer.name}, {other.name} at "
                f"{other.region.low}..{other.region.high}: they share some"
            )
            lane.report(findings.PIPE_MISUSE, message, instruction)


def _share(one: Region, other: Region) -> bool:
    return one.argument == other.argument and one.low < other.high and other.low < one.high


# --- push, pop, free --------------------------------------------------------------------------------------------------


def _split(instruction: Instruction) -> int:
    return int(instruction.attributes.get("split", 0))


def _pipe_of(lane: Lane, instruction: Instruction, direction: int) -> Pipe:
    pipe: Pipe = lane.pipes.pipe(direction, int(instruction.attributes.get("id", 0)))
    if pipe.depth is None:
        lane.fail(findings.PIPE_MISUSE, f"{pipe.name} was never set up", instruction)
    return pipe


def parts_of(cells: Cells, valid: tuple[int, int], split: int) -> list[tuple[Cells, tuple[int, int]]]:
    """What each of two lanes gets of a box: halves by split code (1, 2: of the box; 3, 4: of the valid extent)."""
    if split == 0:
        return [(cells, valid), (cells, valid)]
    axis = 0 if split in (1, 3) else 1
    half = (cells.data.shape[axis] + 1) // 2 if split < 3 else (valid[axis] + 1) // 2
    size = (cells.data.shape[axis] + 1) // 2
    parts = []
    for lane in (0, 1):
        start = lane * half
        length = max(min(size, cells.data.shape[axis] - start), 0)
        data = cells.data.narrow(axis, min(start, cells.data.shape[axis]), length)
        codes = None if cells.codes is None else cells.codes.narrow(axis, min(start, cells.data.shape[axis]), length)
        extents = list(valid)
        extents[axis] = max(0, min(valid[axis] - start, half))
        parts.append((Cells(data, codes), (extents[0], extents[1])))
    return parts


def _wait(
    lane: Lane,
    instruction: Instruction,
    pipe: Pipe,
    ring: int,
    why: Literal["full", "empty"],
    ready: Callable[[], bool],
) -> None:
    """Lets other lanes run until one ring of a pipe has room, or something in it."""
    if ready():
        return
    listener = lane.launch.listener
    if listener is not None:
        listener.queue("blocked", lane, instruction, pipe, ring, why=why)
    state = f"all {pipe.depth or 0} slots of {pipe.name} are taken" if why == "full" else f"{pipe.name} is empty"
    lane.wait(f"{instruction.name} ({instruction.where}): {state}", ready)
    if listener is not None:
        listener.queue("resumed", lane, instruction, pipe, ring)


def _put(lane: Lane, instruction: Instruction, pipe: Pipe, ring: int, parcel: Parcel) -> None:
    frees = pipe.frees[ring if pipe.direction == C2V else 0]
    if pipe.depth is not None and pipe.depth <= pipe.pushed[ring] < pipe.depth + len(frees):
        lane.learn(frees[pipe.pushed[ring] - pipe.depth])
    parcel.clock = lane.signal()
    pipe.queue(ring).append(parcel)
    pipe.pushed[ring] += 1
    if lane.launch.listener is not None:
        slot = pipe.pushed[ring] - 1
        lane.launch.listener.queue("push", lane, instruction, pipe, ring, slot=slot, parcel=parcel)


def _push_to_vector(lane: Lane, instruction: Instruction) -> None:
    """Sends every lane its part. Undefined elements travel as such: whoever reads them is named, not the push, which
    takes the whole box where only a part of it is valid."""
    tile = lane.tile(instruction.operands[0])
    pipe = _pipe_of(lane, instruction, C2V)
    split = _split(instruction)
    if split and lane.pipes.lanes < 2:
        lane.fail(
            findings.PIPE_MISUSE, f"splits a tile over two lanes, but the block has {lane.pipes.lanes}", instruction
        )
    depth = pipe.depth or 0
    for index, (cells, valid) in enumerate(
        parts_of(lane.read_box(instruction, tile), (tile.valid_rows, tile.valid_cols), split)
    ):
        if index >= lane.pipes.lanes:
            break
        has_room = lambda index=index: pipe.pushed[index] - pipe.freed[index] < depth  # noqa: E731
        _wait(lane, instruction, pipe, index, "full", has_room)
        _put(lane, instruction, pipe, index, Parcel(cells, valid, split, instruction))
    lane.pausing = True


def _push_to_cube(lane: Lane, instruction: Instruction) -> None:
    tile = lane.tile(instruction.operands[0])
    pipe = _pipe_of(lane, instruction, V2C)
    depth = pipe.depth or 0
    cells = lane.read_box(instruction, tile)
    _wait(lane, instruction, pipe, lane.index, "full", lambda: pipe.pushed[lane.index] - pipe.freed[0] < depth)
    parcel = Parcel(cells, (tile.valid_rows, tile.valid_cols), _split(instruction), instruction)
    _put(lane, instruction, pipe, lane.index, parcel)
    lane.pausing = True


def _pop(lane: Lane, instruction: Instruction, pipe: Pipe, ring: int, parcel: Parcel) -> None:
    """Puts a parcel into the consumer's next slot and makes it a tile."""
    result = instruction.results[0]
    type_ = result.type
    assert isinstance(type_, TileType)
    if parcel.split != _split(instruction):
        message = (
            f"pops with split {_split(instruction)} what {parcel.instruction.where} pushed with split {parcel.split}"
        )
        lane.fail(findings.PIPE_MISUSE, message, instruction)
    slot = pipe.popped[ring] % max(pipe.depth or 1, 1)
    pipe.popped[ring] += 1
    pipe.splits.setdefault(ring, deque()).append(parcel.split)
    address = pipe.base + slot * (pipe.slot_size or 0)
    if type_.size > (pipe.slot_size or 0):
        message = f"{result.name} takes {type_.size} bytes, a slot of {pipe.name} has {pipe.slot_size}"
        lane.report(findings.PIPE_MISUSE, message, instruction)
    extents = tuple(int(x) for x in lane.all_of(instruction.operands))
    rows = type_.rows if type_.valid_rows is None else type_.valid_rows
    cols = type_.cols if type_.valid_cols is None else type_.valid_cols
    valid = (extents[0], extents[1]) if len(extents) == 2 else (rows, cols)
    tile = lane.place(instruction, result.name, type_, address, valid)
    tile.arena.undefine(address, address + type_.size, 1)
    _check_parcel(lane, instruction, tile, parcel)
    height, width = (min(a, b) for a, b in zip(parcel.cells.data.shape, (type_.rows, type_.cols), strict=True))
    if (type_.rows, type_.cols) != tuple(parcel.cells.data.shape) and (
        parcel.valid[0] > type_.rows or parcel.valid[1] > type_.cols
    ):
        message = (
            f"{result.name} is {type_.rows} x {type_.cols}, but {parcel.valid[0]} x {parcel.valid[1]} valid elements "
            f"were pushed at {parcel.instruction.where}"
        )
        lane.report(findings.BAD_EXTENT, message, instruction, tiles=(tile.describe(),))
    cells = converted(Cells(parcel.cells.data[:height, :width], parcel.cells.codes), tile.dtype)
    listener = lane.launch.listener
    if listener is not None:
        listener.tile_write(lane, tile, height, width)
    tile.store(cells.data)
    tile.mark(height, width, None if cells.codes is None else cells.codes[:height, :width])
    tile.allocation.written_at = lane.steps
    lane.set(result, tile)
    if listener is not None:
        rings = range(lane.pipes.lanes) if pipe.direction == V2C else (ring,)
        for popped in rings:
            listener.queue("pop", lane, instruction, pipe, popped, slot=pipe.popped[ring] - 1, tile=tile)
    lane.pausing = True


def _check_parcel(lane: Lane, instruction: Instruction, tile: Tile, parcel: Parcel) -> None:
    """A pop takes the elements that were pushed: as many as were valid, of their type."""
    if parcel.cells.data.dtype is not tile.dtype:
        pushed = str(parcel.cells.data.dtype).removeprefix("torch.")
        message = f"pops as {tile.type.dtype} what was pushed at {parcel.instruction.where} as {pushed}"
        lane.report(findings.BAD_ARGUMENT, message, instruction, tiles=(tile.describe(),))
    missing = tile.valid_rows > parcel.valid[0] or tile.valid_cols > parcel.valid[1]
    if missing and tile.valid_rows and tile.valid_cols:
        message = (
            f"{tile.name} has {tile.valid_rows} x {tile.valid_cols} valid elements, but {parcel.valid[0]} x "
            f"{parcel.valid[1]} were pushed at {parcel.instruction.where}"
        )
        lane.report(findings.BAD_EXTENT, message, instruction, tiles=(tile.describe(),))


def _pop_in_vector(lane: Lane, instruction: Instruction) -> None:
    pipe = _pipe_of(lane, instruction, C2V)
    queue = pipe.queue(lane.index)
    _wait(lane, instruction, pipe, lane.index, "empty", lambda: bool(queue))
    parcel = queue.popleft()
    lane.learn(parcel.clock)
    _pop(lane, instruction, pipe, lane.index, parcel)


def _pop_in_cube(lane: Lane, instruction: Instruction) -> None:
    """Takes one parcel of every vector lane: halves are joined; without a split lane 0's is the tile."""
    pipe = _pipe_of(lane, instruction, V2C)
    queues = [pipe.queue(index) for index in range(lane.pipes.lanes)]
    for ring, queue in enumerate(queues):
        _wait(lane, instruction, pipe, ring, "empty", lambda queue=queue: bool(queue))  # type: ignore[misc]
    parcels = [queue.popleft() for queue in queues]
    for parcel in parcels:
        lane.learn(parcel.clock)
    first = parcels[0]
    if first.split and len(parcels) == 2:
        first = joined(first, parcels[1])
    _pop(lane, instruction, pipe, 0, first)


def joined(first: Parcel, second: Parcel) -> Parcel:
    """Two halves as one tile."""
    axis = 0 if first.split in (1, 3) else 1
    data = torch.cat([first.cells.data, second.cells.data], dim=axis)
    codes = None
    if first.cells.codes is not None or second.cells.codes is not None:
        parts = [
            torch.zeros(p.cells.data.shape, dtype=torch.int32) if p.cells.codes is None else p.cells.codes
            for p in (first, second)
        ]
        codes = torch.cat(parts, dim=axis)
    valid = list(first.valid)
    valid[axis] = first.cells.data.shape[axis] + second.valid[axis] if second.valid[axis] else first.valid[axis]
    return Parcel(Cells(data, codes), (valid[0], valid[1]), first.split, first.instruction)


def _free(lane: Lane, instruction: Instruction, direction: int) -> None:
    pipe = _pipe_of(lane, instruction, direction)
    ring = lane.index if direction == C2V else 0
    if pipe.freed[ring] >= pipe.popped[ring]:
        lane.fail(findings.PIPE_MISUSE, f"{pipe.name}: no popped tile is left to free", instruction)
    split = pipe.splits[ring].popleft()
    if split != _split(instruction):
        message = f"{pipe.name}: frees with split {_split(instruction)} what was popped with split {split}"
        lane.fail(findings.PIPE_MISUSE, message, instruction)
    slot = pipe.freed[ring] % max(pipe.depth or 1, 1)
    pipe.freed[ring] += 1
    pipe.frees[ring].append(lane.signal())
    if lane.launch.listener is not None:
        for freed in range(lane.pipes.lanes) if direction == V2C else (ring,):
            lane.launch.listener.queue("free", lane, instruction, pipe, freed, slot=pipe.freed[ring] - 1)
    low = pipe.base + slot * (pipe.slot_size or 0)
    code = lane.launch.origin(f"slot {slot} of {pipe.name} was given back at {instruction.where}")
    lane.arena(SPACES[direction]).undefine(low, low + (pipe.slot_size or 0), code)
    lane.pausing = True


def _free_in_vector(lane: Lane, instruction: Instruction) -> None:
    _free(lane, instruction, C2V)


def _free_in_cube(lane: Lane, instruction: Instruction) -> None:
    _free(lane, instruction, V2C)


def leftovers(pipes: Pipes) -> list[str]:
    """What is wrong with the pipes once all lanes have ended."""
    found = []
    for pipe in pipes.found.values():
        for lane, queue in pipe.queues.items():
            if queue:
                pushes = ", ".join(sorted({p.instruction.where for p in queue}))
                found.append(f"{pipe.name}: {len(queue)} tiles of lane {lane} were pushed ({pushes}) and never popped")
        for lane in (0, 1):
            kept = pipe.popped[lane] - pipe.freed[lane]
            if kept:
                found.append(f"{pipe.name}: {kept} slots of lane {lane} were popped and never freed")
    return found


# --- synchronisation --------------------------------------------------------------------------------------------------


def _unmodelled(text: str) -> Handler:
    def run(lane: Lane, instruction: Instruction) -> None:
        lane.launch.unmodelled[f"{instruction.name}: {text}"] = None

    return run


def _syncall(lane: Lane, instruction: Instruction) -> None:
    """A barrier of all lanes of all blocks, or of those of one kind of core."""
    kinds = {"aic": "AIC", "aiv": "AIV"}
    kind = kinds.get(str(instruction.attributes.get("core_type", "mix"))[:3])
    meetings: dict[str, int] = lane.launch_meetings
    key = f"{lane.block}/{lane.name}"
    meetings[key] = meetings.get(key, 0) + 1
    turn = meetings[key]
    reached = lane.launch.barriers.setdefault((str(kind), turn), {})
    for known, epoch in lane.signal().items():
        reached[known] = max(reached.get(known, -1), epoch)
    absent = [name for name in meetings if kind is None or name.split("/")[1].startswith(kind)]
    lane.wait(
        f"{instruction.name} ({instruction.where}): waits for every lane",
        lambda: all(meetings[name] >= turn for name in absent),
    )
    lane.learn(reached)


FLAGS = frozenset({"pto.sync.set", "pto.sync.wait", "pto.set_ffts"})
"""Ops that order lanes by means that are passed over here."""

ORDER = "one op runs after the other here, so a missing or wrong order does not show"
HANDLERS: dict[str, Handler] = {
    "pto.reserve_buffer": _reserve,
    "pto.import_reserved_buffer": _import,
    "pto.aic_initialize_pipe": _initialize,
    "pto.aiv_initialize_pipe": _initialize,
    "pto.tpush_to_aiv": _push_to_vector,
    "pto.tpush_to_aic": _push_to_cube,
    "pto.tpop_from_aic": _pop_in_vector,
    "pto.tpop_from_aiv": _pop_in_cube,
    "pto.tfree_from_aic": _free_in_vector,
    "pto.tfree_from_aiv": _free_in_cube,
    "pto.sync.set": _unmodelled(ORDER),
    "pto.sync.wait": _unmodelled(ORDER),
    "pto.barrier": _unmodelled(ORDER),
    "pto.set_ffts": _unmodelled(ORDER),
    "pto.fence.barrier_all": _unmodelled(ORDER),
    "pto.cmo.cacheinvalid": _unmodelled("caches are not modelled"),
    "pto.syncall": _syncall,
}
