"""Pipes, splits and the thread scheduler of the runtime, used directly."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_lab.torch_codegen.runtime import groups, lanes
from pypto_lab.torch_codegen.runtime.lanes import (
    _cross_core_rt,
    _get_subblock_idx,
    _join_parts,
    _lane_part,
    _split_mode_to_int,
)
from pypto_lab.torch_codegen.runtime.values import _mark, _valid_of


@pytest.fixture(autouse=True)
def fresh_pipes() -> Iterator[None]:
    _cross_core_rt.reset()
    yield
    _cross_core_rt.reset()


def run_group(
    cube: Callable[[], Any] | None, vector: Callable[[], Any] | None, split: int = 0, dual: bool = False
) -> Any:
    meta = {"split": split, "dual_aiv_dispatch": dual}
    return groups._run_members(
        "g", meta, aic=None if cube is None else (cube,), aiv=None if vector is None else (vector,)
    )


def grid(rows: int, columns: int) -> torch.Tensor:
    return torch.arange(rows * columns, dtype=torch.float32).reshape(rows, columns)


# --- splits -----------------------------------------------------------------------------------------------------------


class Mode(Enum):
    LEFT_RIGHT = 2


@pytest.mark.parametrize(
    ("split", "code"),
    [(0, 0), (4, 4), (None, 0), ("UP_DOWN", 1), ("pl.SplitMode.LEFT_RIGHT", 2), ("3", 3), (Mode.LEFT_RIGHT, 2)],
)
def test_split_codes(split: object, code: int) -> None:
    assert _split_mode_to_int(split) == code


@pytest.mark.parametrize("split", [5, -1, "sideways", 1.5, True, object()])
def test_unknown_splits_are_refused(split: object) -> None:
    with pytest.raises(ValueError, match="unsupported split mode"):
        _split_mode_to_int(split)


def test_split_and_join_keep_the_valid_region() -> None:
    tile = _mark(grid(2, 4), (2, 3))
    parts = [_lane_part(tile, 2, lane) for lane in (0, 1)]
    assert [_valid_of(p) for p in parts] == [(2, 2), (2, 1)]
    assert _valid_of(_join_parts(parts[0], parts[1], 2)) == (2, 3)


def test_lane_stride_moves_lane_one() -> None:
    tile = _mark(grid(16, 4), (13, 4))
    first, second = (_lane_part(tile, 3, lane, lane_stride=7) for lane in (0, 1))
    assert torch.equal(first, tile[0:8])
    assert torch.equal(second, tile[7:15])
    assert (_valid_of(first), _valid_of(second)) == ((7, 4), (6, 4))


def test_odd_boxes_give_both_lanes_the_declared_shape() -> None:
    tile = grid(17, 4)
    first, second = (_lane_part(tile, 1, lane) for lane in (0, 1))
    assert first.shape == second.shape == (9, 4)
    assert torch.equal(second[:8], tile[9:])
    assert _valid_of(second) == (8, 4)


def test_odd_codes_need_lanes_that_differ_by_one() -> None:
    with pytest.raises(ValueError, match="one cell longer"):
        _lane_part(grid(16, 4), 3, 0)


def test_a_hole_between_the_lanes_is_refused() -> None:
    with pytest.raises(ValueError, match="hole"):
        _join_parts(_mark(grid(4, 4), (3, 4)), grid(4, 4), 1)


def test_lanes_of_different_width_make_no_rectangle() -> None:
    with pytest.raises(ValueError, match="rectangle"):
        _join_parts(grid(4, 4), _mark(grid(4, 4), (2, 3)), 1)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 2]), st.data())
def test_joining_the_lanes_parts_gives_the_tile_back(rows: int, columns: int, split: int, data: st.DataObject) -> None:
    valid = (data.draw(st.integers(1, rows)), data.draw(st.integers(1, columns)))
    tile = _mark(grid(rows, columns), valid)
    joined = _join_parts(_lane_part(tile, split, 0), _lane_part(tile, split, 1), split)
    assert _valid_of(joined) == valid
    assert torch.equal(joined[: valid[0], : valid[1]], tile[: valid[0], : valid[1]])


# --- pipes ------------------------------------------------------------------------------------------------------------


def test_odd_codes_exist_from_cube_to_vector_only() -> None:
    with pytest.raises(ValueError, match="cube to vector only"):
        _cross_core_rt.push_to_aic(grid(3, 3), 3)
    with pytest.raises(ValueError, match="cube to vector only"):
        _cross_core_rt.pop_from_aiv(4)


def test_snapshot_counts_tiles_by_pipe_and_lane() -> None:
    _cross_core_rt.push_to_aiv(grid(4, 4), 1)
    _cross_core_rt.push_to_aiv(grid(4, 4), 0, id=2)
    found = _cross_core_rt.snapshot()
    assert found["to_aiv_split"][1] == {0: 1, 1: 1}
    assert found["to_aiv (id 2)"] == 1
    assert found["no_split_dual_aiv_dispatch"] is False


def test_a_dual_push_reaches_both_lanes_and_a_pair_pop_takes_lane_zero() -> None:
    _cross_core_rt.reset(no_split_dual_aiv_dispatch=True)
    _cross_core_rt.push_to_aiv(grid(2, 2), 0)
    assert _cross_core_rt.snapshot()["to_aiv_dual_nosplit"] == {0: 1, 1: 1}

    def cube() -> None:
        assert torch.equal(_cross_core_rt.pop_from_aiv(0), torch.zeros(2, 2))

    with pytest.warns(RuntimeWarning, match="push different tiles"):
        run_group(
            cube, lambda: _cross_core_rt.push_to_aic(torch.full((2, 2), float(_get_subblock_idx())), 0), dual=True
        )


def test_equal_pairs_give_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_group(lambda: _cross_core_rt.pop_from_aiv(0), lambda: _cross_core_rt.push_to_aic(grid(2, 2), 0), dual=True)


def test_a_pop_in_another_order_than_the_pushes_is_refused() -> None:
    _cross_core_rt.push_to_aiv(grid(4, 4), 1)
    _cross_core_rt.push_to_aiv(grid(4, 4), 2)
    with pytest.raises(RuntimeError, match="number 0 is still in the pipe"):
        _cross_core_rt.pop_from_aic(2)


def test_a_push_waits_for_a_free_slot() -> None:
    order: list[str] = []

    def cube() -> None:
        _cross_core_rt.initialize_pipe(1, 64, slot_num=2)
        for number in range(4):
            _cross_core_rt.push_to_aiv(grid(4, 4), 0)
            order.append(f"push {number}")

    def vector() -> None:
        for number in range(4):
            tile = _cross_core_rt.pop_from_aic(0)
            order.append(f"free {number}")
            _cross_core_rt.tfree_to_aic(tile)

    run_group(cube, vector)
    assert order.index("push 2") > order.index("free 0")
    assert order.index("push 3") > order.index("free 1")


def test_pops_that_are_never_freed_fill_the_ring_and_are_reported_as_a_deadlock() -> None:
    def cube() -> None:
        _cross_core_rt.initialize_pipe(1, 64, slot_num=2)
        for _ in range(3):
            _cross_core_rt.push_to_aiv(grid(4, 4), 0)

    def vector() -> None:
        for _ in range(3):
            _cross_core_rt.pop_from_aic(0)

    start = time.perf_counter()
    with pytest.raises(RuntimeError, match=r"(?s)deadlock.*all 2 slots taken"):
        run_group(cube, vector)
    assert time.perf_counter() - start < 2


def test_a_missing_free_is_a_warning() -> None:
    def cube() -> None:
        _cross_core_rt.initialize_pipe(1, 64, slot_num=2)
        _cross_core_rt.push_to_aiv(grid(4, 4), 0)

    with pytest.warns(RuntimeWarning, match="never freed"):
        run_group(cube, _pop_only)


def _pop_only() -> None:
    _cross_core_rt.pop_from_aic(0)


def test_a_second_free_is_refused() -> None:
    _cross_core_rt.push_to_aiv(grid(4, 4), 0)
    tile = _cross_core_rt.pop_from_aic(0)
    _cross_core_rt.tfree_to_aic(tile)
    with pytest.raises(RuntimeError, match="freed twice"):
        _cross_core_rt.tfree_to_aic(tile)


def test_a_free_on_the_wrong_pipe_is_refused() -> None:
    _cross_core_rt.push_to_aiv(grid(4, 4), 0, id=1)
    tile = _cross_core_rt.pop_from_aic(0, id=1)
    with pytest.raises(RuntimeError, match="was popped from pipe 1"):
        _cross_core_rt.tfree_to_aic(tile, id=0)


def test_both_sides_must_agree_about_the_ring() -> None:
    _cross_core_rt.initialize_pipe(3, 4096)
    _cross_core_rt.initialize_pipe(3, 4096, slot_num=4)
    with pytest.raises(RuntimeError, match="4 slots of 4096 bytes, the other with 2"):
        _cross_core_rt.initialize_pipe(1, 4096, slot_num=2)


def test_a_popped_tile_shows_the_region_its_type_states() -> None:
    _cross_core_rt.push_to_aiv(grid(4, 4), 0)
    assert _valid_of(_cross_core_rt.pop_from_aic(0, valid_shape=[0, 0])) == (0, 0)


# --- lanes as threads -------------------------------------------------------------------------------------------------


def test_a_lone_pop_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_PIPE_WAIT_TIMEOUT_SEC", 0.05)
    with pytest.raises(RuntimeError, match=r"pop_from_aic on pipe 0 to AIV, split UP_DOWN.*timed out"):
        _cross_core_rt.pop_from_aic(1)


def test_a_group_that_takes_too_long_is_reported_and_the_next_one_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_MIXED_KERNEL_TIMEOUT_SEC", 0.05)
    with pytest.raises(RuntimeError, match=r"group g timed out.*AIC"):
        run_group(lambda: time.sleep(0.3), None)
    monkeypatch.undo()
    seen: list[int] = []
    run_group(None, lambda: seen.append(_get_subblock_idx()), split=1)
    assert sorted(seen) == [0, 1]


def test_a_lane_left_behind_cannot_push_into_the_next_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_MIXED_KERNEL_TIMEOUT_SEC", 0.05)

    def late() -> None:
        time.sleep(0.2)
        _cross_core_rt.push_to_aiv(grid(2, 2), 0)

    with pytest.raises(RuntimeError, match="timed out"):
        run_group(late, None)
    monkeypatch.undo()

    def cube() -> None:
        time.sleep(0.3)
        _cross_core_rt.push_to_aiv(torch.ones(2, 2), 0)

    got: list[torch.Tensor] = []
    run_group(cube, lambda: got.append(_cross_core_rt.pop_from_aic(0)))
    assert torch.equal(got[0], torch.ones(2, 2))


@pytest.mark.parametrize(
    ("split", "dual", "expected"), [(0, False, [0]), (0, True, [0, 1]), (1, False, [0, 1]), (4, False, [0, 1])]
)
def test_number_of_vector_lanes(split: int, dual: bool, expected: list[int]) -> None:
    seen: list[int] = []
    run_group(lambda: None, lambda: seen.append(_get_subblock_idx()), split=split, dual=dual)
    assert sorted(seen) == expected


def test_the_value_of_a_group_is_lane_zeros() -> None:
    out = grid(2, 2)
    assert run_group(lambda: out, lambda: out, split=1) is out


def test_events_order_the_two_sides_of_a_group() -> None:
    memory = torch.zeros(4)

    def cube() -> None:
        _cross_core_rt.sync_wait(3)
        memory.mul_(10)

    def vector() -> None:
        time.sleep(0.02 * _get_subblock_idx())
        memory[_get_subblock_idx()] = 1.0
        _cross_core_rt.sync_set(3)

    run_group(cube, vector, split=1)
    assert memory.tolist() == [10.0, 10.0, 0.0, 0.0]


def test_blocks_that_meet_see_each_others_writes() -> None:
    memory, sums = torch.zeros(4), torch.zeros(4)

    def kernel() -> None:
        block = lanes._get_block_idx()
        memory[block] = block + 1.0
        lanes._sync_all()
        sums[block] = memory.sum()

    groups._spmd_together(4, kernel)
    assert sums.tolist() == [10.0] * 4


def test_groups_inside_blocks_meet_too() -> None:
    memory, sums = torch.zeros(3), torch.zeros(3)

    def cube() -> None:
        _cross_core_rt.push_to_aiv(torch.full((2, 2), lanes._get_block_idx() + 1.0), 0)
        lanes._sync_all("mix")

    def vector() -> None:
        tile = _cross_core_rt.pop_from_aic(0)
        memory[lanes._get_block_idx()] = tile.sum()
        lanes._sync_all("mix")
        sums[lanes._get_block_idx()] = memory.sum()

    groups._spmd_together(3, lambda: run_group(cube, vector))
    assert sums.tolist() == [24.0] * 3
