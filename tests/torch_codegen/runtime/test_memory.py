"""Laws of moving data, and the moving functions as a script carries them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_lab.torch_codegen.runtime import memory, shape, values

from .standing_alone import evaluate

sizes = st.tuples(st.integers(1, 5), st.integers(1, 5))


def partial(shape: tuple[int, int], valid: tuple[int, int]) -> torch.Tensor:
    return values._mark(torch.arange(1.0, shape[0] * shape[1] + 1).reshape(shape), valid)


def cells(offsets: Any, extents: Any) -> set[tuple[int, ...]]:
    return set(itertools.product(*(range(o, o + e) for o, e in zip(offsets, extents, strict=True))))


@settings(max_examples=400, deadline=None)
@given(st.integers(1, 3), st.data())
def test_the_union_rule_accepts_exactly_the_rectangles_at_the_origin(rank: int, data: st.DataObject) -> None:
    had, offsets, extents = (tuple(data.draw(st.integers(low, 3)) for _ in range(rank)) for low in (0, 0, 1))
    union = cells((0,) * rank, had) | cells(offsets, extents)
    box = tuple(1 + max(place[axis] for place in union) for axis in range(rank))
    if union == cells((0,) * rank, box):
        assert memory._union("op", had, offsets, extents) == box
    else:
        with pytest.raises(RuntimeError, match="leaves no rectangle"):
            memory._union("op", had, offsets, extents)


@settings(max_examples=100, deadline=None)
@given(sizes, st.data())
def test_what_was_stored_is_what_is_loaded(shape: tuple[int, int], data: st.DataObject) -> None:
    valid = tuple(data.draw(st.integers(0, s)) for s in shape)
    offsets = [data.draw(st.integers(0, 2)) for _ in shape]
    tile = partial(shape, valid)  # type: ignore[arg-type]
    target = torch.full((9, 9), torch.nan)
    memory._tile_store(tile, offsets, target)
    again = memory._tile_load(target, offsets, shape, valid)
    assert values._valid_of(again) == valid
    assert torch.equal(values._cut(again), values._cut(tile))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_load_of_a_slice_is_a_load_of_the_source(data: st.DataObject) -> None:
    valid = (data.draw(st.integers(0, 6)), data.draw(st.integers(0, 7)))
    source = partial((6, 7), valid)
    outer = [data.draw(st.integers(0, 3)) for _ in range(2)]
    inner = [data.draw(st.integers(0, 1)) for _ in range(2)]
    window = memory._tensor_slice(source, [3, 3], outer)
    by_slice = memory._tile_load(window, inner, [2, 2])
    direct = memory._tile_load(source, [o + i for o, i in zip(outer, inner, strict=True)], [2, 2])
    assert values._valid_of(by_slice) == values._valid_of(direct)
    assert torch.equal(values._cut(by_slice), values._cut(direct))


@settings(max_examples=60, deadline=None)
@given(sizes, st.permutations(range(4)))
def test_blocks_that_tile_the_target_can_be_written_in_any_order(shape: tuple[int, int], order: list[int]) -> None:
    whole = torch.rand(2 * shape[0], 2 * shape[1])
    target = torch.zeros_like(whole)
    for k in order:
        corner = [k // 2 * shape[0], k % 2 * shape[1]]
        memory._assemble(target, memory._tensor_slice(whole, shape, corner), corner)
    assert torch.equal(target, whole)


def test_a_poisoned_tail_stays_out_of_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_UNDEFINED", "nan")
    tail = memory._tile_load(torch.ones(5, 6), [4, 0], [4, 8], [1, 6])
    assert tail.isnan().sum() == 4 * 8 - 6
    target = torch.zeros(8, 8)
    memory._tile_store(tail, [0, 0], target)
    assert target.sum() == 6
    holder = torch.zeros(8, 8)
    memory._tile_assemble(holder, tail, [0, 0])
    assert holder.isnan().sum() == 4 * 8 - 6, "an insert moves the whole box, so the marker shows"


@pytest.mark.filterwarnings("ignore:tensor.slice took")
def test_a_window_may_hang_over_until_a_missing_cell_is_used() -> None:
    table = torch.arange(6)
    window = memory._tensor_slice(table, [4], [4])
    assert memory._read(window, [1]) == 5
    with pytest.raises(RuntimeError, match=r"tensor\.slice took offset \[4\] with extent \[4\] of \[6\]"):
        memory._read(window, [2])
    assert torch.equal(memory._tile_load(window, [0], [2]), torch.tensor([4, 5]))
    with pytest.raises(RuntimeError, match=r"tile\.load: .* is not there"):
        memory._tile_load(window, [0], [4])
    with pytest.raises(RuntimeError, match=r"offset -1"):
        memory._tensor_slice(table, [4], [-1])
    with pytest.raises(RuntimeError, match=r"tensor\.assemble: .* is not there"):
        memory._assemble(torch.zeros(4, dtype=torch.int64), window, [0])


@pytest.mark.filterwarnings("ignore:tensor.slice took")
def test_an_overhanging_window_shows_the_tensors_memory() -> None:
    table = torch.arange(24.0).reshape(6, 4)
    window = memory._tensor_slice(table, [4, 4], [4, 0])
    memory._tile_store(torch.full((1, 4), -1.0), [1, 0], window)
    memory._write(window, [0, 3], -2.0)
    assert table[5].tolist() == [-1.0] * 4
    assert table[4, 3] == -2
    with pytest.raises(RuntimeError, match=r"tile\.store: .* is not there"):
        memory._tile_store(torch.zeros(2, 4), [1, 0], window)
    with pytest.raises(RuntimeError, match=r"write: index|write: offset"):
        memory._write(window, [2, 0], 0.0)
    table[4, 0] = 7
    assert memory._read(window, [0, 0]) == 7, "a later write by others shows through"
    row = memory._tensor_slice(window, [1, 4], [1, 0], [], [0])
    memory._write(row, [0], 9.0)
    flat = shape._reshape(memory._tensor_slice(window, [3, 4], [0, 0]), [12])
    memory._write(flat, [1], 8.0)
    assert (table[5, 0], table[4, 1]) == (9, 8)


def test_an_overhanging_window_is_told_of_once_and_poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_HANGING", set())
    monkeypatch.setattr(values, "_UNDEFINED", "nan")
    table = torch.ones(6)
    with pytest.warns(RuntimeWarning, match="cells past the end are undefined") as told:
        windows = [memory._tensor_slice(table, [4], [start]) for start in (2, 3, 4)]
    assert len(told) == 1
    assert [int(w.isnan().sum()) for w in windows] == [0, 1, 2]
    assert not memory._tensor_slice(table, [4], [4], clamp=True).isnan()[:2].any()


def test_marks_follow_writes_into_a_partly_valid_target() -> None:
    target = partial((6, 4), (2, 4))
    memory._assemble(target, torch.zeros(2, 4), [2, 0])
    assert values._valid_of(target) == (4, 4)
    memory._assemble(target, torch.zeros(2, 4), [4, 0])
    assert not values._is_partial(target)


def test_copies_keep_the_old_mark() -> None:
    target = partial((6, 4), (2, 4))
    grown = memory._assemble(target, torch.zeros(2, 4), [2, 0], copy=True)
    assert values._valid_of(target) == (2, 4)
    assert values._valid_of(grown) == (4, 4)


X = torch.arange(24.0).reshape(4, 6)
EXPRESSIONS: list[tuple[str, Any]] = [
    ("_create([2, 3], dtype=torch.int32, init_value=1)", torch.ones(2, 3, dtype=torch.int32)),
    ("_create([2, 3], dtype='FP4', init_value=0.5)", torch.full((2, 3), 0.5)),
    ("_dim(x, 1)", 6),
    ("_tile_load(x, [1, 2], [2, 2])", X[1:3, 2:4]),
    ("_tile_load(x, [1, 2], [2, 2], [2, 2], target_memory='Mat', clamp=True)", X[1:3, 2:4]),
    ("_tensor_slice(x, [2, 6], [1, 0])", X[1:3]),
    ("_tile_slice(x, [1, 6], [1, 0], [], [0])", X[1:2]),
    ("_tile_extract(x, 1, 2, [2, 2], target_memory='Left')", X[1:3, 2:4]),
    ("_move(x, target_memory='Vec')", X),
    ("_tile_store(x, [0, 0], torch.zeros(4, 6), atomic='Add')", X),
    ("_tile_store(x, [1, 0, 0], torch.zeros(2, 4, 6), [1, 4, 6])[1]", X),
    ("_assemble(torch.zeros(4, 6), x, [0, 0], atomic=1)", X),
    ("_tile_assemble(torch.zeros(4, 6), x, [0, 0], copy=True)", X),
    ("_read(x, [2, 3])", 15.0),
    ("_write(torch.zeros(2), 1, 3)", torch.tensor([0.0, 3.0])),
    ("_alloc()", None),
]


@pytest.mark.parametrize(("expression", "wanted"), EXPRESSIONS, ids=[e for e, _ in EXPRESSIONS])
def test_a_script_carries_what_it_needs(expression: str, wanted: Any) -> None:
    got = evaluate(expression, x=X.clone())
    assert torch.equal(got, wanted) if isinstance(wanted, torch.Tensor) else got == wanted
