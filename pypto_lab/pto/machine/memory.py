"""Global memory: pointers into tensors, strided views and windows of them, with bounds, and who wrote what."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from pypto_lab.pto.machine.dtypes import TORCH


@dataclass(frozen=True, slots=True, eq=False)
class Pointer:
    """An address: element `offset` of an argument's memory. `extent` is how many elements the argument spans."""

    tensor: torch.Tensor
    name: str
    dtype: str
    offset: int
    extent: int

    def moved(self, distance: int) -> Pointer:
        return Pointer(self.tensor, self.name, self.dtype, self.offset + distance, self.extent)

    def inside(self, first: int, last: int) -> bool:
        """Whether elements first..last, counted from this address, belong to the argument."""
        return self.offset + first >= 0 and self.offset + last < self.extent

    def strided(self, sizes: tuple[int, ...], strides: tuple[int, ...], start: int) -> torch.Tensor:
        """A view of the argument's own memory."""
        return self.tensor.as_strided(sizes, strides, self.tensor.storage_offset() + self.offset + start)


def pointer_to(tensor: torch.Tensor, name: str, dtype: str) -> Pointer:
    """The address of a tensor. Raises ValueError when its elements cannot be read as `dtype`."""
    wanted = TORCH.get(dtype)
    if wanted is None:
        raise ValueError(f"{name}: elements of {dtype} cannot be executed")
    if tensor.dtype is not wanted:
        if tensor.element_size() != torch.empty((), dtype=wanted).element_size():
            raise ValueError(f"{name}: a tensor of {tensor.dtype} is passed where the kernel reads {dtype}")
        tensor = tensor.view(wanted)
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return Pointer(tensor, name, dtype, 0, 0 if tensor.numel() == 0 else span)


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A strided view of a whole tensor, as `make_tensor_view` states it."""

    pointer: Pointer
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    layout: str


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A window of a view. `name` is the value's name in the text."""

    name: str
    view: View
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def start(self) -> int:
        """Linear offset of the first element from the pointer."""
        return sum(o * s for o, s in zip(self.offsets, self.view.strides, strict=True))

    @property
    def last(self) -> int:
        """Linear offset of the last element from the pointer."""
        steps = zip(self.offsets, self.sizes, self.view.strides, strict=True)
        return sum((o + max(size, 1) - 1) * stride for o, size, stride in steps)

    @property
    def matrix(self) -> tuple[int, int]:
        """Rows and columns a tile sees: leading axes count as rows."""
        rows = 1
        for size in self.sizes[:-1]:
            rows *= size
        return rows, self.sizes[-1] if self.sizes else 1

    def outside(self) -> list[str]:
        """Axes on which the window leaves the tensor."""
        axes = zip(self.offsets, self.sizes, self.view.shape, strict=True)
        return [
            f"axis {axis}: {start}..{start + size} of {full}"
            for axis, (start, size, full) in enumerate(axes)
            if size > 0 and (start < 0 or start + size > full)
        ]

    def cells(self) -> torch.Tensor:
        """The window's memory as a tensor of `sizes`."""
        return self.view.pointer.strided(self.sizes, self.view.strides, self.start)

    def describe(self) -> str:
        window = ", ".join(f"{o}:{o + s}" for o, s in zip(self.offsets, self.sizes, strict=True))
        return f"{self.name} ({self.view.pointer.name}[{window}])"


Clock = dict[str, int]
"""How far each lane had come, as far as somebody knows: what a lane did up to then is over for him."""


@dataclass(frozen=True, slots=True)
class Access:
    """A write to global memory: the lane (its name, its block), and how far the lane had come."""

    lane: str
    block: int
    epoch: int
    where: str

    @property
    def key(self) -> str:
        return lane_key(self.block, self.lane)


def lane_key(block: int, lane: str) -> str:
    """What a lane is called in clocks."""
    return f"{block}/{lane}"


@dataclass(slots=True)
class Writers:
    """Who wrote each element of each argument last; for several lanes or blocks only."""

    maps: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict)
    accesses: list[Access] = field(default_factory=list)
    numbers: dict[Access, int] = field(default_factory=dict)

    def note(self, window: Window, access: Access, clock: Clock) -> Access | None:
        """Records a write; another lane's of the same elements that `clock` does not know to be over, if any."""
        pointer = window.view.pointer
        base = pointer.tensor
        key = (base.untyped_storage().data_ptr(), int(base.storage_offset()))
        owner = self.maps.get(key)
        if owner is None:
            owner = self.maps[key] = torch.zeros(pointer.extent, dtype=torch.int32)
        region = owner.as_strided(window.sizes, window.view.strides, pointer.offset + window.start)
        before = [self.accesses[number - 1] for number in region.unique().tolist() if number]  # type: ignore[no-untyped-call]
        region.fill_(self._number(access))
        return next((a for a in before if a.key != access.key and clock.get(a.key, -1) < a.epoch), None)

    def _number(self, access: Access) -> int:
        number = self.numbers.get(access)
        if number is None:
            self.accesses.append(access)
            number = self.numbers[access] = len(self.accesses)
        return number
