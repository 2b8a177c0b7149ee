"""The append-only store: bytes of storages at the end of the run, and for each in-place write the bytes it replaced.

A storage's content at a position is its last content with the old bytes of all later writes laid over it, the earliest
one on top; so nothing is ever copied for values that nobody overwrites. Needs numpy only.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import weakref
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from pypto_lab.record.arrays import Raw, raw_dtype
from pypto_lab.record.events import Order, Region, TensorValue, Write

Bytes = NDArray[np.uint8]

BLOCK = 4 << 20
POOL_BLOCKS = 64

FEW = 24
"""Writes that are undone one by one for a single read; for more of them an image of the storage is kept."""

SMALL_STORAGE = 1 << 20
"""Bytes of storages that get an image although only a small part of them is looked at."""

SEGMENT = 256
"""Writes between two checkpoints of an image, at least."""

IMAGE_BYTES = 256 << 20
"""Bytes that images and their checkpoints may take, about."""


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
    """Storages, writes and the bytes they replaced. Grows while a recording is made; afterwards only read.

    Reading is not safe from several threads at once: the images below move.
    """

    def __init__(self) -> None:
        self.storages: list[Bytes] = []
        self.writes: list[Write] = []
        self.replaced: list[Bytes] = []
        self._index: dict[int, WriteIndex] = {}
        self._images: OrderedDict[int, _Image] = OrderedDict()
        self._last: tuple[object, Bytes] | None = None

    # --- building

    def add_storage(self, content: Bytes) -> int:
        self.storages.append(content)
        return len(self.storages) - 1

    def add_write(self, write: Write, replaced: Bytes) -> None:
        """Appends a write; steps must not decrease."""
        self._index.setdefault(write.storage, WriteIndex()).add(len(self.writes), write)
        self.forget_images()
        self.writes.append(write)
        self.replaced.append(replaced)

    def forget_images(self) -> None:
        """Drops what reading has built; storages or writes have changed."""
        self._last = None
        if self._images:
            self._images.clear()

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
        return self._read(value, position, keep=True)

    def read_many(self, wanted: Iterable[tuple[TensorValue, int]]) -> Iterator[Raw]:
        """Raw cells of many (view, position), in the order asked for, each to be used before the next is taken.

        Nothing is copied for those at neighbouring positions of a storage, so ask in the order of positions.
        """
        for value, position in wanted:
            yield self._read(value, position, keep=False)

    def _read(self, value: TensorValue, position: int, *, keep: bool) -> Raw:
        item = raw_dtype(value.dtype).itemsize
        content = self.storages[value.storage]
        low, high = byte_interval(value, item)
        if high <= low:
            return np.zeros(value.shape, raw_dtype(value.dtype))
        index = self.writes_to(value.storage)
        first = bisect_right(index.steps, position)
        if first == len(index.steps):
            return view_of(content, value, 0)
        low, high = low & ~15, min((high + 15) & ~15, content.size)  # whole elements of any other dtype, too
        key = (value.storage, first, value.offset, item, value.shape, value.strides, value.order)
        if self._last is not None and self._last[0] == key:
            return view_of(self._last[1], value, -low)
        later = self._later(index, first, low, high, value, item)
        if not later:
            return view_of(content, value, 0)
        small = content.size <= max(SMALL_STORAGE, min(8 * (high - low), IMAGE_BYTES))
        if len(later) > FEW and small:
            image = self._image(value.storage).at(first)
            if not keep:
                return view_of(image, value, 0)
            part = aligned_like(image[low:high])
        else:
            part = self._overlay(content, index, later, low, high)
        self._last = (key, part)
        return view_of(part, value, -low)

    def _image(self, storage: int) -> _Image:
        """The image of a storage; the ones used last are kept."""
        image = self._images.get(storage)
        if image is None:
            image = self._images[storage] = _Image(self, storage)
            while len(self._images) > 1 and sum(i.nbytes for i in self._images.values()) > IMAGE_BYTES:
                self._images.popitem(last=False)
        self._images.move_to_end(storage)
        return image

    def _later(self, index: WriteIndex, first: int, low: int, high: int, value: TensorValue, item: int) -> list[int]:
        """Writes from the `first` on that touch [low, high), up to one that wrote all of the viewed region: behind that
        one nothing can show."""
        offset, strides = value.offset * item, tuple(s * item for s in value.strides)
        exact = value.order is None
        inner = byte_interval(value, item)
        found: list[int] = []
        chunk = 32
        while first < len(index.steps):
            last = min(first + chunk, len(index.steps))
            for i in index.overlapping(first, last, low, high):
                found.append(i)
                write = self.writes[index.ids[i]]
                if exact and (write.offset, write.shape, write.strides) == (offset, value.shape, strides):
                    return found
                begin, end = index.lows[i], index.highs[i]
                if begin <= inner[0] and inner[1] <= end and end - begin == math.prod(write.shape) * write.item:
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

    def writes_touching(
        self, storage: int, addresses: NDArray[np.int64], after: int, until: int | None = None
    ) -> Iterator[int]:
        """Ids of the writes at `after < step <= until` to any of the cells that begin at the given bytes, in order."""
        if addresses.size == 0:
            return
        index = self.writes_to(storage)
        first = bisect_right(index.steps, after)
        last = len(index.steps) if until is None else bisect_right(index.steps, until)
        for i in index.overlapping(first, last, int(addresses.min()), int(addresses.max()) + 1):
            if covered(self.writes[index.ids[i]], addresses).any():
                yield index.ids[i]

    def writes_at(self, step: int) -> range:
        """Ids of the writes of one step."""
        first = bisect_left(self.writes, step, key=lambda w: w.step)
        return range(first, bisect_right(self.writes, step, lo=first, key=lambda w: w.step))


class _Image:
    """All bytes of a storage at one position, which moves: back by the old bytes of writes, forth by those it passed.

    Every `SEGMENT` writes a checkpoint is kept, so that a jump costs no more than two segments.
    """

    def __init__(self, store: Store, storage: int) -> None:
        self._store = store
        self._index = store.writes_to(storage)
        self._bytes = aligned_like(store.storages[storage])
        self._at = self._top = len(self._index.ids)
        self._redo: list[Bytes] = []
        """By write between `_at` and `_top`, the topmost first: the bytes it wrote."""
        room = max(1, IMAGE_BYTES // 2 // max(1, self._bytes.nbytes))
        self._segment = max(SEGMENT, -(-self._top // room))
        self._checkpoints: dict[int, Bytes] = {self._top: store.storages[storage]}

    @property
    def nbytes(self) -> int:
        return self._bytes.nbytes * len(self._checkpoints)

    def at(self, count: int) -> Bytes:
        """The bytes after the first `count` writes; they change with the next call."""
        if not count <= self._top or (self._at - count > 2 * self._segment or count > self._at + len(self._redo)):
            self._jump(count)
        while self._at < count:
            self._forth()
        while self._at > count:
            self._back()
        return self._bytes

    def _jump(self, count: int) -> None:
        """To the nearest checkpoint at or above a position."""
        self._top = self._at = min(c for c in self._checkpoints if c >= count)
        self._bytes[...] = self._checkpoints[self._top]
        self._redo.clear()

    def _back(self) -> None:
        if self._at % self._segment == 0 and self._at not in self._checkpoints:
            self._checkpoints[self._at] = aligned_like(self._bytes)
        if self._at in self._checkpoints and self._at != self._top:  # a new segment begins here
            self._top = self._at
            self._redo.clear()
        self._at -= 1
        id_ = self._index.ids[self._at]
        write, old = self._store.writes[id_], self._store.replaced[id_]
        region = region_of_write(self._bytes, write, 0)
        self._redo.append(region.copy().reshape(-1))
        region[...] = old.reshape(*write.shape, write.item)

    def _forth(self) -> None:
        write = self._store.writes[self._index.ids[self._at]]
        region_of_write(self._bytes, write, 0)[...] = self._redo.pop().reshape(*write.shape, write.item)
        self._at += 1


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
    if value.order is not None:
        rows, cols = value.shape
        first = value.offset + value.order.along(0, 0) + value.order.along(1, 0)
        last = value.offset + value.order.along(0, rows - 1) + value.order.along(1, cols - 1)
        return first * item, last * item + item
    low = value.offset * item
    return low, low + sum((n - 1) * s for n, s in zip(value.shape, value.strides, strict=True)) * item + item


@lru_cache(maxsize=256)
def ordered_elements(order: Order, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Elements between the offset of an ordered value and each of its cells."""
    rows, cols = ([order.along(axis, i) for i in range(shape[axis])] for axis in (0, 1))
    return np.array(rows, np.int64)[:, None] + np.array(cols, np.int64)


def view_of(content: Bytes, value: TensorValue, shift: int) -> Raw:
    """`value`'s cells in `content`, whose first byte is byte `-shift` of the storage."""
    dtype = raw_dtype(value.dtype)
    if value.order is not None:
        return _ordered(content, value, shift, dtype)
    start = value.offset * dtype.itemsize + shift
    flat = content[start : start + (content.size - start) // dtype.itemsize * dtype.itemsize]
    if flat.ctypes.data % dtype.alignment:
        flat = flat.copy()
    strides = tuple(s * dtype.itemsize for s in value.strides)
    return as_strided(flat.view(dtype), value.shape, strides)


def _ordered(content: Bytes, value: TensorValue, shift: int, dtype: np.dtype[Any]) -> Raw:
    """The cells of a value with an order, row after row."""
    low = byte_interval(value, dtype.itemsize)[0]
    start = low + shift
    flat = content[start : start + (content.size - start) // dtype.itemsize * dtype.itemsize]
    if flat.ctypes.data % dtype.alignment:
        flat = flat.copy()
    assert value.order is not None
    cells: Raw = flat.view(dtype)[ordered_elements(value.order, value.shape) - (low // dtype.itemsize - value.offset)]
    return cells


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


def covered(write: Write, addresses: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the bytes at some addresses a write wrote."""
    rest = addresses - write.offset
    outside = rest < 0
    for stride, size in sorted(zip(write.strides, write.shape, strict=True), reverse=True):
        if stride:
            rest = rest - np.minimum(np.maximum(rest, 0) // stride, size - 1) * stride
    return ~outside & (rest >= 0) & (rest < write.item)


def element_addresses(write: Write) -> NDArray[np.int64]:
    """Byte address of each element written, row-major."""
    out = np.array([write.offset], np.int64)
    for size, stride in zip(write.shape, write.strides, strict=True):
        out = (out[:, None] + np.arange(size, dtype=np.int64) * stride).ravel()
    return out


def region_addresses(value: TensorValue, region: Region) -> NDArray[np.int64]:
    """First byte of each cell of a region of a view."""
    item = raw_dtype(value.dtype).itemsize
    if value.order is not None:
        where = ordered_elements(value.order, value.shape)[tuple(region)]
        return ((where + value.offset) * item).ravel()
    out = np.array([value.offset], np.int64)
    for part, stride in zip(region, value.strides, strict=True):
        steps = np.arange(part.start, part.stop, part.step, dtype=np.int64)
        out = (out[:, None] + steps * stride).ravel()
    return out * item
