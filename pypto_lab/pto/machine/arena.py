"""On-chip memory as bytes: what each byte holds, whether anything has been written there, and by which op."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from pypto_lab.pto.decode import Instruction
from pypto_lab.pto.dialect.types import TileType
from pypto_lab.pto.machine.dtypes import BITS_OF, TORCH, bits
from pypto_lab.pto.machine.layout import offsets

POISON = 0xFF
"""What memory holds before it is written: NaN in every float type."""

DEFINED = 0
NEVER_WRITTEN = 1
"""Codes of the shadow map; higher ones are numbers of origins, see `Origins`."""


@dataclass(slots=True, eq=False)
class Write:
    """One write of a tile: its bytes, the op, and whether anything has read it since."""

    low: int
    high: int
    instruction: Instruction
    name: str
    owner: Allocation
    type: TileType
    step: int
    read: bool = False


@dataclass(slots=True, eq=False)
class Allocation:
    """A tile variable's memory; views of it share the object."""

    name: str
    low: int
    high: int
    written_at: int = -1
    """The step of the last write through this variable or a view of it; -1 before the first."""


@dataclass(slots=True)
class Arena:
    """One memory space of one core."""

    space: str
    size: int
    data: torch.Tensor = field(init=False)
    shadow: torch.Tensor = field(init=False)
    writes: list[Write] = field(default_factory=list)
    retired: list[Write] = field(default_factory=list)
    """Writes that were overwritten or whose memory was given back."""

    def __post_init__(self) -> None:
        self.data = torch.full((self.size,), POISON, dtype=torch.uint8)
        self.shadow = torch.full((self.size,), NEVER_WRITTEN, dtype=torch.int32)

    def note_read(self, low: int, high: int) -> list[Write]:
        """Marks the writes a read sees; returns them."""
        seen = [w for w in self.writes if w.low < high and low < w.high]
        for write in seen:
            write.read = True
        return seen

    def note_write(self, write: Write, covers: bool) -> None:
        """Records a write; one that covers all its bytes replaces those inside them."""
        kept = []
        for old in self.writes:
            inside = write.low <= old.low and old.high <= write.high
            again = old.instruction is write.instruction and (old.low, old.high) == (write.low, write.high)
            if again or (covers and inside):
                self.retired.append(old)
            else:
                kept.append(old)
        kept.append(write)
        self.writes = kept

    def undefine(self, low: int, high: int, code: int) -> None:
        """Takes bytes back: who reads them from now on reads something undefined."""
        self.shadow[low:high] = code


@dataclass(slots=True)
class Cells:
    """Values of a region; `codes` says which of them are undefined and since when (None: all are defined)."""

    data: torch.Tensor
    codes: torch.Tensor | None = None


@dataclass(slots=True, eq=False)
class Tile:
    """A tile handle: bytes of an arena seen through a type. `box` is the type whose order lays out the bytes (the
    parent's for a window), (`row`, `column`) where the window starts in it."""

    name: str
    type: TileType
    arena: Arena
    address: int
    valid_rows: int
    valid_cols: int
    allocation: Allocation
    box: TileType
    row: int = 0
    column: int = 0

    @property
    def dtype(self) -> torch.dtype:
        return TORCH[self.type.dtype]

    @property
    def is_window(self) -> bool:
        return self.box is not self.type

    @property
    def low(self) -> int:
        """First byte (of the enclosing rows, for a window)."""
        if self.is_window and not self.box.boxed and self.box.blayout == "row_major":
            return self.address + (self.row * self.box.cols + self.column) * self.box.itemsize
        return self.address

    @property
    def high(self) -> int:
        if self.is_window and not self.box.boxed and self.box.blayout == "row_major":
            last = (self.row + self.type.rows - 1) * self.box.cols + self.column + self.type.cols
            return self.address + min(last * self.box.itemsize, self.box.size)
        return self.address + self.box.size

    @property
    def plain(self) -> bool:
        """Whether rows stand one after the other."""
        return not self.box.boxed and self.box.blayout == "row_major"

    def describe(self) -> str:
        return f"{self.name} ({self.type.brief()} at {self.arena.space} {self.low}..{self.high})"

    def region(self, rows: int, cols: int) -> torch.Tensor:
        """Element offsets of the first rows x cols elements, from the start of the box."""
        table = offsets(self.box.rows, self.box.cols, self.box.itemsize, self.box.layout)
        return table[self.row : self.row + rows, self.column : self.column + cols]

    def _rows_of(self, memory: torch.Tensor, width: int, rows: int, cols: int) -> torch.Tensor:
        """A strided view of a row-major region; `memory` has `width` entries an element."""
        start = (self.address * width // self.box.itemsize) + (self.row * self.box.cols + self.column) * width
        return memory.as_strided((rows, cols * width), (self.box.cols * width, 1), start)

    def load(self, rows: int, cols: int) -> torch.Tensor:
        """A copy of the first rows x cols elements."""
        if self.plain and self.address % self.box.itemsize == 0:
            view = self.arena.data.view(self.dtype)
            return self._rows_of(view, 1, rows, cols).clone()
        flat = bits(self._flat())
        return flat[self.region(rows, cols)].view(self.dtype)

    def _flat(self) -> torch.Tensor:
        """The box's elements in memory order."""
        return self.arena.data[self.address : self.address + self.box.size].view(self.dtype)

    def store(self, data: torch.Tensor) -> None:
        """Writes the first elements; `data` is [rows, cols] in the tile's dtype."""
        rows, cols = data.shape
        if self.plain and self.address % self.box.itemsize == 0:
            self._rows_of(self.arena.data.view(self.dtype), 1, rows, cols).copy_(data)
        else:
            bits(self._flat())[self.region(rows, cols)] = data.contiguous().view(BITS_OF[data.element_size()])

    def codes(self, rows: int, cols: int) -> torch.Tensor | None:
        """Which of the first elements are undefined, as shadow codes; None when all are defined."""
        shadow = self.arena.shadow[self.low : self.high]
        if not bool(shadow.any()):
            return None
        width = self.box.itemsize
        box = self.arena.shadow[self.address : self.address + self.box.size].view(-1, width)
        found = box.amax(dim=1)[self.region(rows, cols)]
        return found if bool(found.any()) else None

    def mark(self, rows: int, cols: int, codes: torch.Tensor | None) -> None:
        """Sets the shadow of the first elements: defined, or the given codes."""
        width = self.box.itemsize
        if self.plain:
            start = self.address + (self.row * self.box.cols + self.column) * width
            region = self.arena.shadow.as_strided((rows, cols * width), (self.box.cols * width, 1), start)
            if codes is None:
                region.zero_()
            else:
                region.copy_(codes.to(torch.int32).repeat_interleave(width, dim=1))
            return
        box = self.arena.shadow[self.address : self.address + self.box.size].view(-1, width)
        places = self.region(rows, cols)
        box[places] = 0 if codes is None else codes.to(torch.int32).unsqueeze(-1).expand(rows, cols, width)
