"""The append-only store: bytes of storages at the end of the run, and for each in-place write the bytes it replaced.

A storage's content at a position is its last content with the old bytes of all later writes laid over it, the earliest
one on top; so nothing is ever copied for values that nobody overwrites. Needs numpy only.
"""

from __future__ import annotations

import contextlib
import mmap
import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from pypto_lab.record.arrays import Raw, raw_dtype
from pypto_lab.record.events import Region, TensorValue, Write

Bytes = NDArray[np.uint8]

BLOCK = 4 << 20
POOL_BLOCKS = 64


class Pool:
    """Blocks of memory for replaced bytes, used again by the next recording.

    Fresh pages cost more than the copy into them (a page fault each), so blocks ask for huge pages and go back to the
    pool when their recording is released.
    """

    def __init__(self, limit: int = POOL_BLOCKS) -> None:
        self._free: list[Bytes] = []
        self._limit = limit

    def take(self) -> Bytes:
        return self._free.pop() if self._free else new_block(BLOCK)

    def give(self, blocks: Iterable[Bytes]) -> None:
        """Takes blocks back; nobody may look at them any more."""
        for block in blocks:
            if len(self._free) < self._limit and block.size == BLOCK:
                self._free.append(block)


def new_block(size: int) -> Bytes:
    """Zeroed memory outside the heap, in huge pages where the system has them."""
    block = mmap.mmap(-1, size)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without transparent huge pages
            block.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(block, np.uint8)


POOL = Pool()


class Arena:
    """Where a recorder puts replaced bytes: blocks filled one after the other, handed back when the arena dies."""

    def __init__(self, pool: Pool = POOL) -> None:
        self._blocks: list[Bytes] = []
        weakref.finalize(self, pool.give, self._blocks)
        self._pool = pool
        self._used = BLOCK
        self.address = 0
        self.block: Bytes = np.zeros(0, np.uint8)

    def reserve(self, size: int) -> tuple[Bytes, int, int]:
        """`size` bytes (aligned to 64): the block, where they begin in it, and their address in memory."""
        start = self._used
        end = start + size
        if end > self.block.size:
            self.block = self._pool.take() if size <= BLOCK else new_block(size)
            self._blocks.append(self.block)
            self.address = self.block.ctypes.data
            start, end = 0, size
        self._used = (end + 63) & ~63
        return self.block, start, self.address + start


@dataclass(slots=True)
class WriteIndex:
    """The writes of one storage, by step, with the byte interval of each as arrays for quick filtering."""

    ids: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    lows: list[int] = field(default_factory=list)
    highs: list[int] = field(default_factory=list)
    _arrays: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    def add(self, id_: int, write: Write) -> None:
        self.ids.append(id_)
        self.steps.append(write.step)
        self.lows.append(write.low)
        self.highs.append(write.high)
        self._arrays = None

    def overlapping(self, first: int, last: int, low: int, high: int) -> list[int]:
        """Indices `first <= i < last` (into this index) whose interval meets [low, high)."""
        if self._arrays is None:
            self._arrays = (np.array(self.lows, np.int64), np.array(self.highs, np.int64))
        lows, highs = self._arrays
        hits = np.nonzero((lows[first:last] < high) & (highs[first:last] > low))[0]
        return [int(i) + first for i in hits]


class Store:
    """Storages, writes and the bytes they replaced. Grows while a recording is made; afterwards only read."""

    def __init__(self) -> None:
        self.storages: list[Bytes] = []
        self.writes: list[Write] = []
        self.replaced: list[Bytes] = []
        self._index: dict[int, WriteIndex] = {}
        self._image: tuple[object, ...] | None = None
        self._overlaid: Bytes | None = None

    # --- building

    def add_storage(self, content: Bytes) -> int:
        self.storages.append(content)
        return len(self.storages) - 1

    def add_write(self, write: Write, replaced: Bytes) -> None:
        """Appends a write; steps must not decrease."""
        self._index.setdefault(write.storage, WriteIndex()).add(len(self.writes), write)
        self._image = None
        self.writes.append(write)
        self.replaced.append(replaced)

    # --- sizes

    @property
    def stored_bytes(self) -> int:
        """Bytes this store holds: every storage once, and what writes replaced."""
        return sum(s.nbytes for s in self.storages) + sum(r.nbytes for r in self.replaced)

    @property
    def resident_bytes(self) -> int:
        """Those of them that are not mapped from a file."""
        return sum(b.nbytes for b in (*self.storages, *self.replaced) if not is_mapped(b))

    # --- reading

    def writes_to(self, storage: int) -> WriteIndex:
        return self._index.get(storage, _NO_WRITES)

    def read(self, value: TensorValue, position: int) -> Raw:
        """Raw cells of a view at a position (after the step of that number). Never to be written to by the caller."""
        item = raw_dtype(value.dtype).itemsize
        content = self.storages[value.storage]
        low, high = byte_interval(value, item)
        if high <= low:
            return np.zeros(value.shape, raw_dtype(value.dtype))
        low, high = low & ~15, min((high + 15) & ~15, content.size)  # whole elements of any other dtype, too
        index = self.writes_to(value.storage)
        first = bisect_right(index.steps, position)
        if first == len(index.steps):
            return view_of(content, value, 0)
        image = (value.storage, first, value.offset * item, value.shape, value.strides)
        if image != self._image:
            later = self._later(index, first, low, high, value, item)
            self._overlaid = self._overlay(content, index, later, low, high) if later else None
            self._image = image
        return view_of(content, value, 0) if self._overlaid is None else view_of(self._overlaid, value, -low)

    def _later(self, index: WriteIndex, first: int, low: int, high: int, value: TensorValue, item: int) -> list[int]:
        """Writes from the `first` on that touch [low, high), up to one of exactly the viewed region: behind that one
        nothing can show."""
        offset, strides = value.offset * item, tuple(s * item for s in value.strides)
        found: list[int] = []
        chunk = 32
        while first < len(index.steps):
            last = min(first + chunk, len(index.steps))
            for i in index.overlapping(first, last, low, high):
                found.append(i)
                write = self.writes[index.ids[i]]
                if (write.offset, write.shape, write.strides) == (offset, value.shape, strides):
                    return found
            first, chunk = last, chunk * 2
        return found

    def _overlay(self, content: Bytes, index: WriteIndex, later: list[int], low: int, high: int) -> Bytes:
        """Bytes [low, high) of a storage with the old bytes of the given writes (in step order) laid over it."""
        out = aligned_like(content[low:high])
        for i in reversed(later):
            write, old = self.writes[index.ids[i]], self.replaced[index.ids[i]]
            begin, end = index.lows[i], index.highs[i]
            if begin < low or end > high:
                where = element_addresses(write)
                inside = (where >= low) & (where + write.item <= high)
                targets = where[inside][:, None] - low + np.arange(write.item)
                out[targets] = old.reshape(-1, write.item)[inside]
            elif is_row_major(write):
                out[begin - low : end - low] = old
            else:
                region_of_write(out, write, -low)[...] = old.reshape(*write.shape, write.item)
        return out

    # --- writers

    def touches(self, id_: int, addresses: NDArray[np.int64]) -> bool:
        """Whether a write touched any of the cells that begin at the given bytes."""
        write = self.writes[id_]
        if addresses.size == 1:
            return write.covers(int(addresses[0]))
        return bool(np.isin(addresses, element_addresses(write)).any())

    def writes_touching(
        self, storage: int, addresses: NDArray[np.int64], after: int, until: int | None = None
    ) -> Iterator[int]:
        """Ids of the writes at `after < step <= until` to any of the cells, in order."""
        if addresses.size == 0:
            return
        index = self.writes_to(storage)
        first = bisect_right(index.steps, after)
        last = len(index.steps) if until is None else bisect_right(index.steps, until)
        for i in index.overlapping(first, last, int(addresses.min()), int(addresses.max()) + 1):
            if self.touches(index.ids[i], addresses):
                yield index.ids[i]

    def writes_at(self, step: int) -> range:
        """Ids of the writes of one step."""
        first = bisect_left(self.writes, step, key=lambda w: w.step)
        return range(first, bisect_right(self.writes, step, lo=first, key=lambda w: w.step))


_NO_WRITES = WriteIndex()


def is_mapped(content: Bytes) -> bool:
    """Whether bytes are mapped from a file."""
    base: object = content
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            return True
        base = base.base
    return False


def aligned_like(content: Bytes) -> Bytes:
    """A copy whose address is the same modulo 64, so that a computation on it takes the same vector path."""
    room = np.empty(content.size + 128, np.uint8)
    shift = (content.ctypes.data - room.ctypes.data) % 64
    out = room[shift : shift + content.size]
    out[...] = content
    return out


def byte_interval(value: TensorValue, item: int) -> tuple[int, int]:
    """[low, high) of the bytes a view can touch; empty for a view without cells."""
    if 0 in value.shape:
        return 0, 0
    low = value.offset * item
    return low, low + sum((n - 1) * s for n, s in zip(value.shape, value.strides, strict=True)) * item + item


def view_of(content: Bytes, value: TensorValue, shift: int) -> Raw:
    """`value`'s cells in `content`, whose first byte is byte `-shift` of the storage."""
    dtype = raw_dtype(value.dtype)
    start = value.offset * dtype.itemsize + shift
    flat = content[start : start + (content.size - start) // dtype.itemsize * dtype.itemsize]
    if flat.ctypes.data % dtype.alignment:
        flat = flat.copy()
    strides = tuple(s * dtype.itemsize for s in value.strides)
    return as_strided(flat.view(dtype), value.shape, strides)


def is_row_major(write: Write) -> bool:
    """Whether the written cells lie one after the other in memory."""
    expected = write.item
    for size, stride in zip(reversed(write.shape), reversed(write.strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def region_of_write(content: Bytes, write: Write, shift: int) -> NDArray[Any]:
    """The written bytes in `content` as an array of shape (*write.shape, item)."""
    start = write.offset + shift
    return as_strided(content[start:], (*write.shape, write.item), (*write.strides, 1))


def element_addresses(write: Write) -> NDArray[np.int64]:
    """Byte address of each element written, row-major."""
    out = np.array([write.offset], np.int64)
    for size, stride in zip(write.shape, write.strides, strict=True):
        out = (out[:, None] + np.arange(size, dtype=np.int64) * stride).ravel()
    return out


def region_addresses(value: TensorValue, region: Region) -> NDArray[np.int64]:
    """First byte of each cell of a region of a view."""
    item = raw_dtype(value.dtype).itemsize
    out = np.array([value.offset], np.int64)
    for part, stride in zip(region, value.strides, strict=True):
        steps = np.arange(part.start, part.stop, part.step, dtype=np.int64)
        out = (out[:, None] + steps * stride).ravel()
    return out * item
