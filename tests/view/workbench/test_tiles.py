"""Tiles: small enough to draw, with the statistics of all cells, and the valid region in any rank."""

from __future__ import annotations

import numpy as np
import pytest
from bench_support import as_written, lowered
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_lab.ir.diagnostics import LabError
from pypto_lab.record.session import Session
from pypto_lab.record.trace import Cells, same_cells
from pypto_lab.view.workbench import workbench
from pypto_lab.view.workbench.tiles import Tiles, as_matrix, blocks, error_tile, statistics, tile_of, valid_part


@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 5))
@settings(deadline=None, max_examples=80)
def test_a_block_shows_its_cell_farthest_from_zero(rows: int, columns: int, side: int) -> None:
    matrix = np.random.default_rng(rows * 10 + columns).normal(size=(rows, columns))
    small = blocks(matrix, side)
    assert small.shape[0] <= side
    assert small.shape[1] <= side
    if matrix.size:
        tall, wide = -(-rows // small.shape[0]), -(-columns // small.shape[1])
        for r in range(small.shape[0]):
            for c in range(small.shape[1]):
                part = matrix[r * tall : (r + 1) * tall, c * wide : (c + 1) * wide]
                if part.size:
                    assert abs(small[r, c]) == np.abs(part).max()
                    assert small[r, c] in part


def test_a_nan_or_infinity_is_never_lost_in_a_block() -> None:
    matrix = np.zeros((400, 400), np.float32)
    matrix[7, 391], matrix[300, 2] = np.nan, -np.inf
    small = blocks(matrix, 128)
    assert np.isnan(small).sum() == 1
    assert np.isneginf(small).sum() == 1


@given(st.lists(st.integers(1, 4), min_size=0, max_size=4), st.data())
@settings(deadline=None, max_examples=100)
def test_the_valid_part_is_that_of_the_shape(shape: list[int], data: st.DataObject) -> None:
    valid = tuple(data.draw(st.integers(0, n)) for n in shape)
    mask = np.zeros(shape, bool)
    mask[tuple(slice(0, v) for v in valid)] = True
    matrix = as_matrix(mask)
    ranges, columns = valid_part(tuple(shape), valid)
    found = np.zeros_like(matrix)
    for a, b in ranges:
        found[a:b, :columns] = True
    assert np.array_equal(found, matrix)


def test_statistics_are_those_of_all_valid_cells_whatever_is_drawn() -> None:
    numbers = np.random.default_rng(0).normal(size=(1000, 700)).astype(np.float32)
    numbers[3, 3] = np.nan
    numbers[900:, :] = 1e9  # outside the valid region
    tile = tile_of("k", Cells(numbers, "float32", (900, 700)), 64)
    inside = numbers[:900]
    assert tile.shown[0] <= 64
    assert tile.stats["nan"] == 1
    assert tile.stats["cells"] == 900 * 700
    assert tile.stats["low"] == float(np.nanmin(inside))
    assert tile.stats["high"] == float(np.nanmax(inside))
    assert tile.stats["mean"] == pytest.approx(float(np.nanmean(inside, dtype=np.float64)))


def test_every_tile_is_what_the_session_holds() -> None:
    recording = lowered("k32_pipe_bidir_dual")
    bench = workbench(recording)
    session = Session(recording)
    seen = 0
    for k in range(1, len(recording) + 1, 7):
        session.goto(k)
        for v in session.variables():
            content = session.value(v.name)
            if not isinstance(content, Cells) or not v.shape:
                continue
            binding = session.find(v.name)
            keys = [key for key in bench.tile_keys if key.startswith(f"{binding.value}@")]
            key = max((key for key in keys if int(key.split("@")[1]) <= k), key=lambda key: int(key.split("@")[1]))
            tile = bench.tiles.tile(key)
            data = np.frombuffer(tile.data, np.float64 if tile.wide else np.float32).reshape(tile.shown)
            expected = as_matrix(content.numbers)
            assert np.array_equal(data, expected.astype(data.dtype), equal_nan=True), (k, v.name)
            assert tile.stats == statistics(content)
            seen += 1
    assert seen > 50


@pytest.mark.parametrize("name", ["k33_flash_mini", "k34_paged_attend", "k14_splitk_atomic"])
def test_a_walk_back_through_the_writes_gives_every_version(name: str) -> None:
    bench = workbench(lowered(name))
    seen = 0
    for key, content in bench.tiles.contents(bench.tile_keys):
        assert same_cells(content, bench.tiles.content(key)), key
        seen += 1
    assert seen == len(bench.tile_keys) > 10


def test_integers_keep_all_their_digits() -> None:
    tile = tile_of("k", Cells(np.array([[2**31 - 1, -(2**31)]], np.int32), "int32"))
    assert tile.wide
    assert np.frombuffer(tile.data, np.float64).tolist() == [2**31 - 1, -(2**31)]


def test_a_window_has_true_cells() -> None:
    recording = as_written("k09_softmax_rows")
    value = next(iter(recording.facts.outputs.values()))
    tiles = Tiles(recording)
    shape, data = tiles.window(f"{value}@{len(recording)}", 2, 3, 4, 5)
    content = recording.index.content(value, len(recording)).numbers
    assert np.array_equal(np.frombuffer(data, np.float64).reshape(shape), as_matrix(content)[2:6, 3:8])


@pytest.mark.parametrize("key", ["", "x", "0", "0@x", "99999@0", "-1@0", "0@0!other", "0@0!expected"])
def test_a_tile_that_does_not_exist_is_refused(key: str) -> None:
    with pytest.raises(LabError, match="no tile"):
        Tiles(lowered("k17_bias_updown")).tile(key)


def test_golden_and_difference() -> None:
    recording = lowered("k17_bias_updown")
    golden = recording.arrays["out"].astype(np.float32)
    golden[5, 6] += 2.0
    golden[0, 0] = np.nan
    tiles = Tiles(recording, {"out": golden})
    bound = next(b for b in recording.trace.bindings if b.name == "out_ssa_v1")
    assert tiles.golden_of(bound.value) is golden
    assert tiles.golden_of(next(b for b in recording.trace.bindings if b.name == "acc_tile").value) is None
    at = f"{bound.value}@{len(recording)}"
    difference = np.frombuffer(tiles.tile(f"{at}!difference").data, np.float64).reshape(64, 32)
    assert difference[5, 6] == pytest.approx(-2.0)
    assert np.isnan(difference[0, 0])
    assert np.count_nonzero(difference) == 2
    assert tiles.tile(f"{at}!expected").stats["nan"] == 1


def test_errors_are_in_tolerances_and_signed() -> None:
    expected = np.array([1.0, 2.0, np.nan, np.inf, 0.0])
    actual = np.array([1.5, 1.0, np.nan, np.inf, np.nan])
    tile, errors = error_tile("error:x", actual, expected, 0.0, 0.25)
    assert errors[:4].tolist() == [2.0, -4.0, 0.0, 0.0]
    assert np.isnan(errors[4])
    assert tile.stats["nan"] == 1
