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


@dataclass(slots=True)
class Writers:
    """Which block wrote each element of each argument last; for several blocks only."""

    maps: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict)

    def note(self, window: Window, block: int) -> int | None:
        """Records a block's write; the number of another block that has written one of the elements, if any."""
        pointer = window.view.pointer
        base = pointer.tensor
        key = (base.untyped_storage().data_ptr(), int(base.storage_offset()))
        owner = self.maps.get(key)
        if owner is None:
            owner = self.maps[key] = torch.zeros(pointer.extent, dtype=torch.int32)
        region = owner.as_strided(window.sizes, window.view.strides, pointer.offset + window.start)
        others = region[(region != 0) & (region != block + 1)]
        region.fill_(block + 1)
        return int(others[0]) - 1 if others.numel() else None
