"""Where elements of a tile stand: every order against the address formula written out, one element after the other."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_lab.pto.dialect.types import inner_box
from pypto_lab.pto.machine.arena import NEVER_WRITTEN, Allocation, Arena, Tile
from pypto_lab.pto.machine.dtypes import TORCH
from pypto_lab.pto.machine.layout import element_offset, offsets
from tests.pto.texts import tile


def by_hand(order: str, rows: int, cols: int, box: tuple[int, int]) -> list[list[int]]:
    """Places of elements, counted by walking memory in order: boxes one after the other, elements inside each."""
    height, width = box
    places = [[-1] * cols for _ in range(rows)]
    box_rows, box_columns = range(0, rows, height), range(0, cols, width)
    outer = {
        "nz": [(r, c) for c in box_columns for r in box_rows],
        "acc": [(r, c) for c in box_columns for r in box_rows],
        "nn": [(r, c) for c in box_columns for r in box_rows],
        "zn": [(r, c) for r in box_rows for c in box_columns],
        "zz": [(r, c) for r in box_rows for c in box_columns],
    }[order]
    inner_rows_first = order in ("nz", "zz", "acc")
    position = 0
    for top, left in outer:
        inside = [(r, c) for r in range(height) for c in range(width)]
        if not inner_rows_first:
            inside = [(r, c) for c in range(width) for r in range(height)]
        for row, column in inside:
            places[top + row][left + column] = position
            position += 1
    return places


@pytest.mark.parametrize("dtype", ["i8", "f16", "f32"])
@pytest.mark.parametrize("order", ["nz", "zn", "zz", "nn", "acc"])
def test_boxed_orders_walk_memory_box_by_box(order: str, dtype: str) -> None:
    type_ = tile(64, 96, dtype, "mat", order)
    expected = by_hand(order, 64, 96, inner_box(type_))
    table = offsets(64, 96, type_.itemsize, type_.layout)
    assert table.tolist() == expected
    assert [[element_offset(type_, r, c) for c in range(96)] for r in range(64)] == expected


def test_boxes_are_512_bytes_and_accumulators_16_by_16() -> None:
    for dtype, width in (("i8", 32), ("f16", 16), ("f32", 8)):
        assert inner_box(tile(32, 32, dtype, "mat", "nz")) == (16, width)
        assert inner_box(tile(32, 32, dtype, "right", "zn")) == (width, 16)
    assert inner_box(tile(32, 32, "f32", "acc", "acc")) == (16, 16)


@pytest.mark.parametrize("order", ["nz", "zz", "acc"])
@pytest.mark.parametrize(("dtype", "line"), [("i8", 32), ("f16", 16), ("f32", 8)])
def test_a_single_row_stands_element_after_element(order: str, dtype: str, line: int) -> None:
    """A bias, or the vector of a matrix-vector product: boxes of one row, whole 32-byte blocks."""
    row = tile(1, 96, dtype, "mat", order)
    assert inner_box(row) == (1, 16 if order == "acc" else line)
    assert offsets(1, 96, row.itemsize, row.layout).tolist() == [list(range(96))]
    assert [element_offset(row, 0, column) for column in range(96)] == list(range(96))
    assert inner_box(tile(1, 16, dtype, "right", "zn")) == (line, 16)  # columns inside boxes: there is no such row


def test_a_matrix_in_nz_is_its_transpose_in_zn() -> None:
    """The bytes of a matrix loaded as NZ, seen as ZN, are the transpose: how `b_trans` costs nothing."""
    nz, zn = tile(32, 64, "f16", "mat", "nz"), tile(64, 32, "f16", "mat", "zn")
    for row in range(32):
        for column in range(64):
            assert element_offset(nz, row, column) == element_offset(zn, column, row)


def handle(order: str, rows: int, cols: int, dtype: str = "f32", address: int = 64) -> Tile:
    arena = Arena("vec", 64 * 1024)
    type_ = tile(rows, cols, dtype, "vec", order)
    return Tile("%t", type_, arena, address, rows, cols, Allocation("%t", address, address + type_.size), type_)


@given(
    st.sampled_from(["nd", "dn", "nz", "zn", "zz"]),
    st.sampled_from(["f32", "f16", "bf16", "i8", "ui32", "i64"]),
    st.integers(1, 32),
    st.integers(1, 64),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_what_is_stored_is_loaded_and_nothing_else_changes(order: str, dtype: str, rows: int, cols: int) -> None:
    t = handle(order, 32, 64, dtype)
    data = torch.randint(0, 100, (rows, cols), generator=torch.Generator().manual_seed(rows * cols)).to(TORCH[dtype])
    before = t.arena.data.clone()
    t.store(data)
    t.mark(rows, cols, None)
    assert torch.equal(t.load(rows, cols).double(), data.double())
    places = {t.address + element_offset(t.type, r, c) * t.type.itemsize for r in range(rows) for c in range(cols)}
    touched = {p + b for p in places for b in range(t.type.itemsize)}
    changed = (t.arena.data != before).nonzero().reshape(-1).tolist()
    assert set(changed) <= touched
    defined = (t.arena.shadow == 0).nonzero().reshape(-1).tolist()
    assert set(defined) == touched


def test_a_window_is_a_part_of_its_tiles_bytes() -> None:
    t = handle("nd", 16, 64)
    data = torch.arange(16 * 64, dtype=torch.float32).reshape(16, 64)
    t.store(data)
    part = tile(4, 16)
    window = Tile("%w", part, t.arena, t.address, 4, 16, t.allocation, t.type, 8, 32)
    assert torch.equal(window.load(4, 16), data[8:12, 32:48])
    window.store(torch.zeros(4, 16))
    data[8:12, 32:48] = 0
    assert torch.equal(t.load(16, 64), data)
    assert window.low == t.address + (8 * 64 + 32) * 4
    assert window.high == t.address + (11 * 64 + 48) * 4


def test_codes_travel_by_element() -> None:
    t = handle("nz", 32, 32, "f16")
    assert bool((t.codes(32, 32) == NEVER_WRITTEN).all())
    t.store(torch.zeros(16, 8, dtype=torch.float16))
    t.mark(16, 8, None)
    found = t.codes(32, 32)
    assert found is not None
    assert int((found == 0).sum()) == 16 * 8
    assert bool((found[:16, :8] == 0).all())
    codes = torch.zeros(16, 8, dtype=torch.int32)
    codes[3, 5] = 7
    t.mark(16, 8, codes)
    assert int(t.codes(16, 8)[3, 5]) == 7
