"""Memories of a core: typed views of bytes."""

from __future__ import annotations

import pytest
import torch

from pypto_lab.torch_codegen.runtime import arena, values


def test_tiles_are_views_of_the_same_bytes() -> None:
    core = arena._Core("a2a3", addressed=True)
    vec = core.alloc("Vec", 64)
    assert core.alloc("Vec", 128) is vec
    first = core.put(vec, 32, torch.arange(8.0).view(2, 4))
    assert torch.equal(core.at(vec, 32, [8], torch.float32), torch.arange(8.0))
    second = core.put(vec, 48, torch.full((1, 4), 9.0))
    assert torch.equal(first, torch.tensor([[0.0, 1, 2, 3], [9, 9, 9, 9]]))
    assert torch.equal(second.view(torch.int32), core.at(vec, 48, [1, 4], torch.int32))


def test_before_addresses_each_allocation_is_a_memory_of_its_own() -> None:
    core = arena._Core("a2a3", addressed=False)
    first, second = core.alloc("Vec", 64), core.alloc("Vec", 64)
    kept = core.put(first, 0, torch.ones(4, 4))
    core.put(second, 0, torch.zeros(4, 4))
    assert torch.equal(kept, torch.ones(4, 4))


def test_only_valid_cells_are_written() -> None:
    core = arena._Core("a5", addressed=True)
    acc = core.alloc("Acc", 64)
    core.put(acc, 0, torch.full((4, 4), 5.0))
    part = core.put(acc, 0, values._mark(torch.ones(4, 4), (2, 3)))
    assert values._valid_of(part) == (2, 3)
    assert part.sum() == 6 * 1 + 10 * 5


def test_a_result_that_overlaps_its_operand_is_read_before_it_is_written() -> None:
    core = arena._Core("a2a3", addressed=True)
    vec = core.alloc("Vec", 64)
    row = core.put(vec, 0, torch.arange(16.0).view(1, 16))
    moved = core.put(vec, 4, row[:, :15])
    assert torch.equal(moved, torch.arange(15.0).view(1, 15))


def test_a_result_that_is_there_already_stays_the_same_object() -> None:
    core = arena._Core("a2a3", addressed=True)
    vec = core.alloc("Vec", 64)
    tile = core.put(vec, 0, torch.zeros(4, 4))
    assert core.put(vec, 0, tile) is tile


@pytest.mark.parametrize(("architecture", "size"), [("a2a3", 196608), ("a5", 253952)])
def test_a_tile_must_lie_in_its_memory(architecture: str, size: int) -> None:
    core = arena._Core(architecture, addressed=True)
    vec = core.alloc("Vec", 64)
    core.at(vec, size - 64, [4, 4], torch.float32)
    with pytest.raises(RuntimeError, match=rf"leaves Vec of {size} bytes"):
        core.at(vec, size - 32, [4, 4], torch.float32)
    with pytest.raises(RuntimeError, match="starts inside an element"):
        core.at(vec, 2, [4, 4], torch.float32)


def test_a_slice_shows_the_tile_whatever_part_is_valid() -> None:
    tile = values._mark(torch.arange(32.0).view(4, 8), (3, 6))
    window = arena._slice_in_place(tile, [2, 4], [2, 4])
    assert values._valid_of(window) == (1, 2)
    window[...] = -1
    assert tile[2:4, 4:8].eq(-1).all()
    assert arena._slice_in_place(torch.zeros(2, 1, 4, 8), [1, 1, 4, 8], [1, 0, 0, 0], drop_dims=[0]).shape == (1, 4, 8)
    with pytest.raises(RuntimeError, match="leaves the box"):
        arena._slice_in_place(tile, [2, 4], [3, 4])


def test_seen_as_moves_nothing() -> None:
    core = arena._Core("a2a3", addressed=True)
    vec = core.alloc("Vec", 64)
    core.put(vec, 0, torch.ones(4, 4))
    seen = core.seen_as(vec, 0, [4, 4], values._mark(torch.zeros(4, 4), (2, 4)))
    assert seen.sum() == 16
    assert values._valid_of(seen) == (2, 4)


def test_undefined_bytes_are_marked_in_debug_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_UNDEFINED", "nan")
    core = arena._Core("a2a3", addressed=True)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        assert core.at(core.alloc("Vec", 64), 0, [4], dtype).isnan().all()
