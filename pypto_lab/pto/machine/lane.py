"""One core that executes: its values, its memories, and the accesses ops make through it, each of them checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch

from pypto_lab.ir.diagnostics import Severity
from pypto_lab.pto.decode import Body, Function, Instruction, Value
from pypto_lab.pto.dialect.types import ALIGNMENT, CAPACITY, TileType
from pypto_lab.pto.machine import findings
from pypto_lab.pto.machine.arena import NEVER_WRITTEN, Allocation, Arena, Cells, Tile, Write
from pypto_lab.pto.machine.dtypes import TORCH
from pypto_lab.pto.machine.listener import Listener
from pypto_lab.pto.machine.memory import Clock, Window, Writers, lane_key

MAX_STEPS = 20_000_000
"""Ops a lane may execute before a run is taken for endless."""

MISFITS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What an op raises that is fed something it is not made for; verified text does not come to that."""

Handler = Callable[["Lane", Instruction], None]


@dataclass(slots=True)
class Store:
    """What became of the writes of one op: how many were read, and the last one that was not."""

    live: int = 0
    dead: Write | None = None
    lost: str | None = None
    """Tiles the op reads in every iteration of a loop that never writes them."""


@dataclass(slots=True, eq=False)
class Launch:
    """What all lanes of one execution share."""

    arch: str
    file: str
    sources: dict[str, str]
    functions: Mapping[str, Function]
    blocks: int
    max_steps: int = MAX_STEPS
    log: findings.FindingLog = field(default_factory=findings.FindingLog)
    origins: list[str] = field(default_factory=lambda: ["", ""])
    """Texts of the shadow codes: who read something undefined first."""
    unmodelled: dict[str, None] = field(default_factory=dict)
    writers: Writers | None = None
    stores: dict[tuple[Instruction, str], Store] = field(default_factory=dict)
    handlers: dict[str, Handler] = field(default_factory=dict)
    listener: Listener | None = None
    has_flags: bool = False
    """Whether lanes also wait for each other in ways that are not modelled."""
    barriers: dict[tuple[str, int], Clock] = field(default_factory=dict)
    """What is over for everyone who has passed a barrier, by kind of core and turn."""

    def origin(self, text: str) -> int:
        """The shadow code of an origin."""
        if text in self.origins:
            return self.origins.index(text)
        self.origins.append(text)
        return len(self.origins) - 1


@dataclass(slots=True, eq=False)
class Lane:
    """A cube core (AIC) or one of two vector cores (AIV 0, AIV 1) at work on a function."""

    launch: Launch
    name: str
    index: int
    block: int
    function: Function
    values: list[Any]
    wait: Callable[[str, Callable[[], bool]], None]
    """Lets other lanes run until a condition holds; the text says what for."""
    pause: Callable[[], None]
    """A place where another lane may go on; called when an op that asked for it (`pausing`) is complete."""
    arenas: dict[str, Arena] = field(default_factory=dict)
    clamped: dict[int, int] = field(default_factory=dict)
    """Slots whose value a maximum with 0 has raised, with the value before."""
    pipes: Any = None
    launch_meetings: dict[str, int] = field(default_factory=dict)
    """How many barriers of all cores each lane of the launch has come to."""
    rings: list[tuple[str, str, int, int]] = field(default_factory=list)
    """Reserved buffers of this core: name, space, first byte, end."""
    steps: int = 0
    loops: list[int] = field(default_factory=list)
    """The step at which each loop that is running began."""
    next_free: dict[str, int] = field(default_factory=dict)
    """Where the next tile without an address goes."""
    placed: dict[int, int] = field(default_factory=dict)
    clock: Clock = field(default_factory=dict)
    """How far this and other lanes are known to have come."""
    current: Instruction | None = None
    pausing: bool = False

    # --- what is over before what -------------------------------------------------------------------------------------

    @property
    def key(self) -> str:
        return lane_key(self.block, self.name)

    def signal(self) -> Clock:
        """What whoever receives something from this lane now knows to be over."""
        sent = dict(self.clock)
        sent.setdefault(self.key, 0)
        self.clock[self.key] = sent[self.key] + 1
        return sent

    def learn(self, clock: Clock) -> None:
        """Something was received: what its sender knew is over for this lane, too."""
        for key, epoch in clock.items():
            if self.clock.get(key, -1) < epoch:
                self.clock[key] = epoch

    # --- running ------------------------------------------------------------------------------------------------------

    def run(self, body: Body) -> tuple[Any, ...]:
        """Executes a block; the operands of its terminator."""
        handlers, listener = self.launch.handlers, self.launch.listener
        for instruction in body.instructions:
            name = instruction.name
            if name in ("scf.yield", "func.return", "scf.condition"):
                if listener is not None and name == "func.return":
                    listener.returned(self, instruction)
                return self.all_of(instruction.operands)
            self.current = instruction
            self.step(instruction)
            handler = handlers.get(name)
            if handler is None:
                self.fail(findings.NOT_MODELLED, "this machine cannot execute the op", instruction)
            if listener is not None:
                listener.before(self, instruction)
            try:
                handler(self, instruction)
            except MISFITS as error:
                self.fail(findings.NOT_MODELLED, f"cannot be executed as it stands: {error}", instruction)
            if listener is not None:
                listener.after(self, instruction)
            if self.pausing:
                self.pausing = False
                self.pause()
        return ()

    def step(self, instruction: Instruction) -> None:
        """Counts an op or a turn of a loop. Stops the run when there is no end in sight."""
        self.steps += 1
        if self.steps > self.launch.max_steps:
            self.fail(findings.ENDLESS, f"{self.launch.max_steps} ops executed and no end in sight", instruction)

    def get(self, value: Value) -> Any:
        return self.values[value.slot]

    def all_of(self, values: tuple[Value, ...]) -> tuple[Any, ...]:
        return tuple(self.values[value.slot] for value in values)

    def set(self, value: Value, content: Any) -> None:
        self.values[value.slot] = content

    # --- findings -----------------------------------------------------------------------------------------------------

    def report(
        self,
        code: str,
        message: str,
        instruction: Instruction,
        *,
        tiles: tuple[str, ...] = (),
        severity: Severity = Severity.ERROR,
        once: bool = False,
    ) -> findings.Finding:
        """Logs a finding about an op, once an op and message (once an op with `once`)."""
        finding = findings.Finding(
            code,
            severity,
            message,
            instruction.name,
            tiles,
            instruction.span,
            instruction.source,
            self.name,
            self.block,
        )
        self.launch.log.add(finding, (code, instruction, "" if once else message))
        return finding

    def fail(self, code: str, message: str, instruction: Instruction, tiles: tuple[str, ...] = ()) -> NoReturn:
        """Logs a finding and stops the run."""
        fatal = self.report(code, message, instruction, tiles=tiles)
        raise findings.ExecutionError((*(x for x in self.launch.log.all() if x != fatal), fatal), self.launch.sources)

    # --- tiles --------------------------------------------------------------------------------------------------------

    def arena(self, space: str) -> Arena:
        found = self.arenas.get(space)
        if found is None:
            capacity = CAPACITY.get(self.launch.arch, CAPACITY["a2a3"])[space]
            found = self.arenas[space] = Arena(space, capacity)
        return found

    def place(self, instruction: Instruction, name: str, type_: TileType, address: int, valid: tuple[int, int]) -> Tile:
        """A new tile at an address. Stops the run when it cannot lie there; extents are cut to the box."""
        if type_.dtype not in TORCH:
            self.fail(findings.NOT_MODELLED, f"{name}: elements of {type_.dtype} cannot be executed", instruction)
        arena = self.arena(type_.space)
        end = address + type_.size
        shown = f"{name} ({type_.brief()} at {type_.space} {address}..{end})"
        if address < 0 or end > arena.size:
            message = f"{name} does not fit: bytes {address}..{end} of {arena.size} in {type_.space}"
            self.fail(findings.BAD_ADDRESS, message, instruction, (shown,))
        if address % ALIGNMENT:
            message = f"{name}: address {address} is not a multiple of {ALIGNMENT} bytes"
            self.report(findings.BAD_ADDRESS, message, instruction, tiles=(shown,))
            if address % type_.itemsize:
                self.fail(findings.BAD_ADDRESS, message, instruction, (shown,))
        allocation = Allocation(name, address, end)
        rows, cols = self.extents(instruction, name, type_, valid)
        return Tile(name, type_, arena, address, rows, cols, allocation, type_)

    def extents(self, instruction: Instruction, name: str, type_: TileType, valid: tuple[int, int]) -> tuple[int, int]:
        """Valid extents, cut to the box where they leave it (a finding)."""
        rows, cols = valid
        if 0 <= rows <= type_.rows and 0 <= cols <= type_.cols:
            return rows, cols
        message = f"{name}: valid {rows} x {cols} of a box of {type_.rows} x {type_.cols}"
        self.report(findings.BAD_EXTENT, message, instruction)
        return min(max(rows, 0), type_.rows), min(max(cols, 0), type_.cols)

    def tile(self, value: Value) -> Tile:
        found = self.values[value.slot]
        assert isinstance(found, Tile)
        return found

    def read(self, instruction: Instruction, tile: Tile, rows: int | None = None, cols: int | None = None) -> Cells:
        """The first rows x cols elements (default: the valid ones), with a finding where one is undefined."""
        rows = tile.valid_rows if rows is None else rows
        cols = tile.valid_cols if cols is None else cols
        if rows > tile.valid_rows or cols > tile.valid_cols:
            self._beyond_valid(instruction, tile, rows, cols)
            rows, cols = min(rows, tile.type.rows), min(cols, tile.type.cols)
        self._note_read(instruction, tile)
        return Cells(tile.load(rows, cols), self._undefined(instruction, tile, tile.codes(rows, cols)))

    def read_box(self, instruction: Instruction, tile: Tile) -> Cells:
        """All elements, valid or not; undefined ones are not a finding of their own."""
        self._note_read(instruction, tile)
        rows, cols = tile.type.rows, tile.type.cols
        return Cells(tile.load(rows, cols), tile.codes(rows, cols))

    def _beyond_valid(self, instruction: Instruction, tile: Tile, rows: int, cols: int) -> None:
        self.report(
            findings.BAD_EXTENT,
            f"reads {rows} x {cols} elements of {tile.name}, of which {tile.valid_rows} x {tile.valid_cols} are valid",
            instruction,
            tiles=(tile.describe(),),
        )

    def _undefined(self, instruction: Instruction, tile: Tile, codes: torch.Tensor | None) -> torch.Tensor | None:
        """Codes of a read with never-written elements turned into a new origin."""
        if codes is None:
            return None
        fresh = codes == NEVER_WRITTEN
        count = int(fresh.sum())
        if count == 0:
            return codes
        row, column = (int(x) for x in fresh.nonzero()[0])
        text = (
            f"{instruction.name} at {instruction.where} reads {tile.describe()}, element [{row}, {column}] of which "
            "nothing has written"
        )
        message = f"reads {count} elements of {tile.name} that nothing has written, the first at [{row}, {column}]"
        self.report(findings.UNDEFINED_READ, message, instruction, tiles=(tile.describe(),), severity=Severity.WARNING)
        return torch.where(fresh, torch.full_like(codes, self.launch.origin(text)), codes)

    def _note_read(self, instruction: Instruction, tile: Tile) -> None:
        """Marks what the read sees, with findings where other tiles have been written over the same bytes."""
        for write in tile.arena.note_read(tile.low, tile.high):
            if self._clobbers(write, tile):
                self._report_write(
                    findings.OVERWRITTEN, f"has partly overwritten with {write.name}", write, instruction, tile
                )
            elif write.type.boxed != tile.box.boxed and write.type.dtype == tile.box.dtype:
                how = f"has written as {write.name} in {write.type.layout_name}; it is read in {tile.box.layout_name}"
                self._report_write(findings.MIXED_LAYOUT, how, write, instruction, tile)

    def _clobbers(self, write: Write, tile: Tile) -> bool:
        """Whether a write destroyed a part of what was in a tile: later, by another variable, not the same bytes."""
        own = tile.allocation
        later = own.written_at >= 0 and write.step > own.written_at and write.owner is not own
        return later and (write.low, write.high) != (own.low, own.high)

    def _report_write(self, code: str, how: str, write: Write, instruction: Instruction, tile: Tile) -> None:
        before = f"{write.instruction.name} at {write.instruction.where} {how}"
        written = f"{write.name} ({write.type.brief()} at {tile.arena.space} {write.low}..{write.high})"
        self.report(
            code,
            f"reads {tile.name}, which {before}",
            instruction,
            tiles=(tile.describe(), written),
            severity=Severity.WARNING,
        )

    def write(self, instruction: Instruction, tile: Tile, cells: Cells, row: int = 0, column: int = 0) -> None:
        """Writes elements from (row, column) on. Stops the run where they leave the box."""
        rows, cols = cells.data.shape
        if row < 0 or column < 0 or row + rows > tile.type.rows or column + cols > tile.type.cols:
            message = (
                f"writes {rows} x {cols} elements at [{row}, {column}] of {tile.name}, a box of {tile.type.rows} x "
                f"{tile.type.cols}"
            )
            self.fail(findings.BAD_EXTENT, message, instruction, (tile.describe(),))
        if rows == 0 or cols == 0:
            return
        data = cells.data if cells.data.dtype is tile.dtype else cells.data.to(tile.dtype)
        target = tile if row == 0 and column == 0 else _shifted(tile, row, column)
        if self.launch.listener is not None:
            self.launch.listener.tile_write(self, target, rows, cols)
        target.store(data)
        target.mark(rows, cols, cells.codes)
        covers = not tile.is_window and (rows, cols) == (tile.type.rows, tile.type.cols)
        note = Write(tile.low, tile.high, instruction, tile.name, tile.allocation, tile.box, self.steps)
        self._note_lost_carry(instruction)
        tile.arena.note_write(note, covers)
        tile.allocation.written_at = self.steps

    def _note_lost_carry(self, instruction: Instruction) -> None:
        """Remembers inputs that the running loop has not written: one of them is what a lost carry goes on reading."""
        key = (instruction, self.name)
        store = self.launch.stores.get(key)
        if store is None:
            store = self.launch.stores[key] = Store()
        if not self.loops or store.lost is not None:
            return
        stale = []
        for value in instruction.ins:
            content = self.values[value.slot]
            if isinstance(content, Tile):
                seen = [w for w in content.arena.writes if w.low < content.high and content.low < w.high]
                if seen and all(w.step < self.loops[-1] for w in seen):
                    stale.append(content.describe())
        store.lost = " and ".join(dict.fromkeys(stale)) or None

    def settle(self) -> None:
        """At the end of the function: which writes has nobody read?"""
        for arena in self.arenas.values():
            for write in [*arena.retired, *arena.writes]:
                store = self.launch.stores.setdefault((write.instruction, self.name), Store())
                if write.read:
                    store.live += 1
                else:
                    store.dead = write

    # --- global memory ------------------------------------------------------------------------------------------------

    def reach(self, instruction: Instruction, window: Window) -> bool:
        """Whether a window can be accessed at all: a finding where it leaves the tensor or its memory."""
        outside = window.outside()
        if outside:
            self.report(
                findings.OUT_OF_BOUNDS,
                f"{window.name} leaves {window.view.pointer.name}: {'; '.join(outside)}",
                instruction,
                tiles=(window.describe(),),
            )
        if 0 in window.sizes:
            return False
        if not window.view.pointer.inside(window.start, window.last):
            extent = window.view.pointer.extent
            message = (
                f"{window.name} touches elements {window.view.pointer.offset + window.start}.."
                f"{window.view.pointer.offset + window.last} of {window.view.pointer.name}, which has {extent}"
            )
            self.fail(findings.OUT_OF_BOUNDS, message, instruction, (window.describe(),))
        return True


def _shifted(tile: Tile, row: int, column: int) -> Tile:
    """The same box seen from another element on."""
    return Tile(
        tile.name, tile.type, tile.arena, tile.address, tile.valid_rows, tile.valid_cols, tile.allocation, tile.box,
        tile.row + row, tile.column + column,
    )  # fmt: skip
