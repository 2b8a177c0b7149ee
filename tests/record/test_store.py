"""The store against a naive one that keeps every state, and the arena's memory."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_lab.record.arrays import decode, has_non_finite, number, summarise
from pypto_lab.record.events import TensorValue, Write, region_of
from pypto_lab.record.store import BLOCK, Arena, Pool, Store, element_addresses, is_row_major


@st.composite
def views(draw: st.DrawFn) -> TensorValue:
    """A random strided view of a storage of 6 x 8 floats, transposed or not."""
    rows, columns = (
        sorted(draw(st.sets(st.integers(0, 6), min_size=2, max_size=2))),
        sorted(draw(st.sets(st.integers(0, 8), min_size=2, max_size=2))),
    )
    step = draw(st.integers(1, 2))
    shape = (rows[1] - rows[0], (columns[1] - columns[0] + step - 1) // step)
    strides = (8, step)
    if draw(st.booleans()):
        shape, strides = shape[::-1], strides[::-1]
    return TensorValue(0, "float32", shape, strides, rows[0] * 8 + columns[0])


def view(flat: np.ndarray, value: TensorValue) -> np.ndarray:
    return np.lib.stride_tricks.as_strided(flat[value.offset :], value.shape, tuple(4 * s for s in value.strides))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(written=st.lists(views(), max_size=12), looked=st.lists(views(), min_size=1, max_size=4))
def test_any_view_at_any_position(written: list[TensorValue], looked: list[TensorValue]) -> None:
    flat = np.arange(48, dtype=np.float32)
    store = Store()
    store.add_storage(flat.view(np.uint8))
    states = [flat.copy()]
    for step, value in enumerate(written, 1):
        region = view(flat, value)
        old = np.ascontiguousarray(region).copy()
        write = Write(step, 0, value.offset * 4, value.shape, tuple(4 * s for s in value.strides), 4)
        store.add_write(write, old.view(np.uint8).reshape(-1))
        region[...] = 1000 * step + np.arange(region.size, dtype=np.float32).reshape(region.shape)
        states.append(flat.copy())
    for position in [*range(len(states)), *reversed(range(len(states)))]:
        for value in looked:
            np.testing.assert_array_equal(store.read(value, position), view(states[position], value))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(value=views())
def test_a_write_covers_exactly_its_cells(value: TensorValue) -> None:
    write = Write(1, 0, value.offset * 4, value.shape, tuple(4 * s for s in value.strides), 4)
    addresses = set(element_addresses(write).tolist())
    assert {a for a in range(0, 48 * 4, 4) if write.covers(a)} == addresses
    assert write.low == min(addresses)
    assert write.high == max(addresses) + 4
    dense = sorted(addresses) == list(range(write.low, write.high, 4))
    assert is_row_major(write) <= dense


def test_writes_that_touch_a_region() -> None:
    store = Store()
    store.add_storage(np.zeros(64, np.uint8))
    for step, offset in ((2, 0), (5, 16), (7, 0)):
        store.add_write(Write(step, 0, offset, (4,), (4,), 4), np.zeros(16, np.uint8))

    def touching(addresses: list[int], after: int = 0, until: int | None = None) -> list[int]:
        return list(store.writes_touching(0, np.array(addresses, np.int64), after, until))

    assert touching([4]) == [0, 2]
    assert touching([4], until=6) == [0]
    assert touching([4], until=1) == []
    assert touching([20, 24], after=2) == [1]
    assert touching([12, 16], after=2) == [1, 2]
    assert touching([]) == []
    assert list(store.writes_at(5)) == [1]


def test_blocks_go_back_to_the_pool() -> None:
    pool = Pool()
    arena = Arena(pool)
    first, start, address = arena.reserve(100)
    second, later, _ = arena.reserve(100)
    assert second is first
    assert later >= start + 100
    assert address % 64 == 0
    big, _, _ = arena.reserve(BLOCK + 1)
    assert big.size == BLOCK + 1
    del arena
    gc.collect()
    assert pool.take() is first


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"])
def test_narrow_floats_are_read_as_torch_reads_them(name: str) -> None:
    size = 65536 if name == "bfloat16" else 256
    bits = np.arange(size).astype(np.uint16 if size > 256 else np.uint8)
    expected = torch.from_numpy(bits.copy()).view(getattr(torch, name)).float().numpy()
    np.testing.assert_array_equal(decode(bits, name), expected)


def test_summaries() -> None:
    cells = np.array([[1.0, np.nan], [-2.5, np.inf]], np.float32)
    found = summarise(cells, "float32")
    assert (found.low, found.high, found.mean, found.nan, found.inf) == (-2.5, 1.0, -0.75, 1, 1)
    assert str(found) == "-2.5 … 1, 1 NaN, 1 Inf"
    assert str(summarise(cells, "float32", (1, 1))) == "1 … 1"
    assert str(summarise(cells, "float32", (0, 2))) == "no cells"
    assert has_non_finite(cells, "float32")
    assert not has_non_finite(np.array([7], np.int32), "int32")
    assert [number(x) for x in (3.0, 0.123456, 1e9, float("nan"), float("-inf"))] == [
        "3", "0.1235", "1e+09", "NaN", "-inf",
    ]  # fmt: skip


def test_regions() -> None:
    assert region_of((1, slice(0, 2)), (3, 4)) == (slice(1, 2, 1), slice(0, 2, 1))
    assert region_of(-1, (3, 4)) == (slice(2, 3, 1), slice(0, 4, 1))
    with pytest.raises(IndexError, match="outside axis 0"):
        region_of((3, 0), (3, 4))
    with pytest.raises(IndexError, match="3 indices"):
        region_of((0, 0, 0), (3, 4))
