"""On-chip memories by address: tiles are views of the bytes the compiler gave them, so a wrong reuse shows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from pypto_lab.torch_codegen.runtime.values import _cut, _is_partial, _mark, _undefined_bytes, _valid_of

_CAPACITIES = {
    "a2a3": {"Vec": 196608, "Mat": 524288, "Left": 65536, "Right": 65536, "Acc": 131072, "Bias": 1024},
    "a5": {"Vec": 253952, "Mat": 524288, "Left": 65536, "Right": 65536, "Acc": 262144, "Bias": 4096},
}
"""Bytes of each memory of a core, by architecture; the scales of an operand have a sixteenth of its memory."""


class _Memory:
    """Bytes that tiles lie in, and the same bytes as tensors of each dtype."""

    __slots__ = ("name", "size", "typed")

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        # rounded up, so that the bytes can be seen as elements of any width
        self.typed = {torch.uint8: _undefined_bytes(-(-size // 8) * 8)}

    def at(self, offset: int, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A packed view. Raises RuntimeError when it leaves the memory or starts inside an element."""
        extents = tuple(shape)
        width = dtype.itemsize
        end = offset + math.prod(extents) * width
        if offset < 0 or end > self.size:
            raise RuntimeError(f"{list(extents)} of {dtype} at {offset} leaves {self.name} of {self.size} bytes")
        if offset % width:
            raise RuntimeError(f"{dtype} at {offset} of {self.name} starts inside an element")
        cells = self.typed.get(dtype)
        if cells is None:
            cells = self.typed[dtype] = self.typed[torch.uint8].view(dtype)
        strides, step = [], 1
        for extent in reversed(extents):
            strides.append(step)
            step *= max(extent, 1)
        return cells.as_strided(extents, strides[::-1], offset // width)


class _Core:
    """The memories of the core that runs a kernel. With `addressed`, offsets are addresses in a memory that all its
    tiles share; before the compiler has given addresses every allocation is a memory of its own."""

    def __init__(self, architecture: str, addressed: bool) -> None:
        self.capacities = _CAPACITIES[architecture]
        self.addressed = addressed
        self.memories: dict[str, _Memory] = {}

    def alloc(self, space: str, size: int) -> _Memory:
        """What the offsets of an allocation's tiles count in."""
        if not self.addressed:
            return _Memory(f"a buffer in {space}", size)
        if space not in self.memories:
            whole = self.capacities.get(space)
            scale = self.capacities.get(space.removesuffix("Scale"), 0) // 16
            self.memories[space] = _Memory(space, scale if whole is None else whole)
        return self.memories[space]

    def at(self, memory: _Memory, offset: int, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """The tile at an address, with what its bytes hold."""
        return memory.at(offset, shape, dtype)

    def seen_as(self, memory: _Memory, offset: int, shape: Sequence[int], value: torch.Tensor) -> torch.Tensor:
        """The tile at an address, valid where `value` is; nothing is moved there."""
        place = memory.at(offset, shape, value.dtype)
        return _mark(place, _valid_of(value)) if _is_partial(value) and place.dim() == value.dim() else place

    def put(self, memory: _Memory, offset: int, value: torch.Tensor) -> torch.Tensor:
        """Writes the valid cells of a result to its tile's address and returns the tile."""
        place = memory.at(offset, value.shape, value.dtype)
        if place.data_ptr() == value.data_ptr() and place.stride() == value.stride():
            return value
        target, cells = place, value
        if _is_partial(value):
            target, cells = _cut(_mark(place, _valid_of(value))), _cut(value)
        if cells.untyped_storage().data_ptr() == place.untyped_storage().data_ptr():
            cells = cells.clone()
        target.copy_(cells)
        return place


def _slice_in_place(
    source: torch.Tensor,
    shape: Sequence[int],
    offset: Sequence[int],
    valid_shape: Sequence[int] | None = None,
    drop_dims: Sequence[int] | None = None,
) -> torch.Tensor:
    """A window of a tile as a view of the same bytes, whatever part of it is valid.

    Raises RuntimeError when the window leaves the tile.
    """
    box = tuple(shape)
    if any(o < 0 or o + e > b for o, e, b in zip(offset, box, source.shape, strict=True)):
        raise RuntimeError(f"tile.slice: {list(box)} at {list(offset)} leaves the box {list(source.shape)}")
    wanted = tuple(valid_shape) if valid_shape else box
    valid = [max(0, min(w, v - o)) for w, v, o in zip(wanted, _valid_of(source), offset, strict=True)]
    window = source[tuple([slice(o, o + e) for o, e in zip(offset, box, strict=True)])]
    gone = sorted(axis % len(box) for axis in drop_dims or ())[: max(0, len(box) - 2)]
    for axis in reversed(gone):
        window = window.select(axis, 0)
        del valid[axis]
    return _mark(window, valid)


def _region_of(x: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """`x` with the valid region of `value`: what a yield tells about a tile that stays where it is."""
    return x if _valid_of(x) == _valid_of(value) else _mark(x.view(x.shape), _valid_of(value))
