"""Sorting pairs: blocks of 32, merges of four runs, merges of lists, against Python's own sort."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from moving import infer, on_tensor, on_tile, run
from op_running import Number, tensor, tile

from pypto_lab.ir import dtypes
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.torch_codegen.runtime import sort, values

COVERS = {
    *(f"{layer}.{name}" for layer in ("tensor", "tile") for name in ("sort32", "mrgsort_format1", "mrgsort_format2"))
}

Pairs = list[tuple[float, int]]


def on(layer: str, data: torch.Tensor) -> Any:
    return on_tile(data) if layer == "tile" else on_tensor(data)


def pairs_of(row: torch.Tensor) -> Pairs:
    """The (value, index) pairs of a row, read from its bytes."""
    data = bytes(row.contiguous().view(torch.uint8).tolist())
    half = row.dtype is torch.float16
    return [
        struct.unpack("<eHI" if half else "<fI", data[i : i + 8])[:: 2 if half else 1] for i in range(0, len(data), 8)
    ]


def row_of(pairs: Pairs) -> torch.Tensor:
    """FP32 cells that hold pairs."""
    data = b"".join(struct.pack("<fI", value, index) for value, index in pairs)
    return torch.frombuffer(bytearray(data), dtype=torch.float32).reshape(1, -1).clone()


def in_order(pairs: Pairs) -> Pairs:
    return sorted(pairs, key=lambda pair: (-pair[0], pair[1]))


def merged(runs: list[Pairs]) -> Pairs:
    """A merge as the hardware makes it: the greatest head, of equal ones that of the first run."""
    heads = [0] * len(runs)
    taken: Pairs = []
    while any(h < len(r) for h, r in zip(heads, runs, strict=True)):
        open_ = [k for k, h in enumerate(heads) if h < len(runs[k])]
        pick = max(open_, key=lambda k: (runs[k][heads[k]][0], -k))
        taken.append(runs[pick][heads[pick]])
        heads[pick] += 1
    return taken


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from([torch.float32, torch.float16]), st.integers(1, 3))
def test_blocks_of_32_are_sorted_with_ties_by_index(data: st.DataObject, dtype: torch.dtype, blocks: int) -> None:
    columns = 32 * blocks
    scores = torch.tensor(data.draw(st.lists(st.integers(-4, 4), min_size=2 * columns, max_size=2 * columns)))
    source = (scores.reshape(2, columns) / 2).to(dtype)
    number = torch.tensor(data.draw(st.permutations(range(columns)))).expand(2, columns).to(torch.uint32)
    for layer in ("tensor", "tile"):
        result = run(f"{layer}.sort32", on(layer, source), on(layer, number.clone()))
        for row in range(2):
            found = pairs_of(result[row])
            given_pairs = list(zip(source[row].tolist(), number[row].tolist(), strict=True))
            for start in range(0, columns, 32):
                assert found[start : start + 32] == in_order(given_pairs[start : start + 32])


def test_a_partial_row_sorts_its_valid_columns() -> None:
    source = values._mark(torch.arange(64.0).reshape(1, 64), (1, 40))
    number = torch.arange(64).reshape(1, 64).to(torch.uint32)
    result = run("tile.sort32", on_tile(source), on_tile(number))
    assert values._valid_of(result) == (1, 80)
    wanted = [(float(i), i) for i in range(31, -1, -1)] + [(float(i), i) for i in range(39, 31, -1)]
    assert pairs_of(values._cut(result)[0]) == wanted


def test_indices_keep_all_32_bits() -> None:
    number = torch.full((1, 32), 2**32 - 2, dtype=torch.int64).to(torch.uint32)
    result = run("tile.sort32", on_tile(torch.zeros(1, 32)), on_tile(number))
    assert {index for _, index in pairs_of(result[0])} == {2**32 - 2}


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(1, 2), st.integers(1, 5))
def test_four_runs_merge_into_one(data: st.DataObject, groups: int, length: int) -> None:
    runs = [
        in_order([(float(data.draw(st.integers(-3, 3))), 100 * k + i) for i in range(length)])
        for k in range(4 * groups)
    ]
    source = row_of([pair for part in runs for pair in part])
    for layer in ("tensor", "tile"):
        result = run(f"{layer}.mrgsort_format1", on(layer, source), Number(2 * length, dtypes.INT32))
        wanted = [pair for g in range(groups) for pair in merged(runs[4 * g : 4 * g + 4])]
        assert pairs_of(result[0]) == wanted


def test_runs_that_are_not_sorted_merge_as_the_hardware_would() -> None:
    runs = [[(1.0, 0), (5.0, 1)], [(3.0, 2), (0.0, 3)], [(3.0, 4), (4.0, 5)], [(2.0, 6), (2.0, 7)]]
    result = sort._mrgsort_format1(row_of([pair for part in runs for pair in part]), 4)
    assert pairs_of(result[0]) == merged(runs)


def test_cells_after_the_last_whole_group_are_undefined() -> None:
    result = run("tile.mrgsort_format1", on_tile(torch.ones(1, 12)), Number(2, dtypes.INT32))
    blank = values._undefined((4,), torch.float32)
    torch.testing.assert_close(result[0, 8:], blank, equal_nan=True)
    assert result[0, :8].eq(1).all()


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(2, 4), st.booleans())
def test_lists_merge_until_the_end_or_until_one_is_used_up(data: st.DataObject, count: int, exhausted: bool) -> None:
    runs = [
        in_order([(float(data.draw(st.integers(-3, 3))), 100 * k + i) for i in range(data.draw(st.integers(1, 5)))])
        for k in range(count)
    ]
    held = [row_of(part) for part in runs]
    wanted = merged(runs)
    if exhausted:
        ends = [max(wanted.index(pair) for pair in part[-1:]) for part in runs]
        wanted = wanted[: min(ends) + 1]
    as_tensors = run("tensor.mrgsort_format2", *(on_tensor(r) for r in held), exhausted=exhausted)
    scratch = on_tile(torch.zeros_like(as_tensors))
    as_tiles = sort._tile_mrgsort_format2(*held, scratch.data, exhausted=exhausted)
    infer("tile.mrgsort_format2", *(on_tile(r) for r in held), scratch, exhausted=exhausted)
    for result in (as_tensors, as_tiles):
        found = pairs_of(result[0])
        assert found[: len(wanted)] == wanted
        rest = result[0, 2 * len(wanted) :]
        torch.testing.assert_close(rest, values._undefined(tuple(rest.shape), torch.float32), equal_nan=True)


def test_a_tile_merge_states_the_sum_of_the_regions() -> None:
    parts = [values._mark(torch.zeros(1, 8), (1, 6)), torch.zeros(1, 4)]
    result = run("tile.mrgsort_format2", *(on_tile(p) for p in parts), on_tile(torch.zeros(1, 12)))
    assert values._valid_of(result) == (1, 10)


ERRORS: list[tuple[str, list[Any], str]] = [
    ("tile.sort32", [tile((1, 32), dtypes.INT32), tile((1, 32), dtypes.UINT32)], "allowed are pl.FP32, pl.FP16"),
    ("tile.sort32", [tile((1, 32)), tile((1, 32))], "allowed are pl.UINT32"),
    ("tile.sort32", [tile((1, 64)), tile((1, 32), dtypes.UINT32)], "one index for each value"),
    ("tile.sort32", [tile((1, 40)), tile((1, 40), dtypes.UINT32)], "not whole blocks of 32"),
    ("tile.mrgsort_format1", [tile((1, 256)), 63], "not whole pairs"),
    ("tile.mrgsort_format1", [tile((1, 128)), 64], "merges four runs of 64 cells"),
    ("tile.mrgsort_format1", [tile((1, 256)), 1.5], "needs an integer"),
    ("tensor.mrgsort_format2", [tensor((1, 64))], "two to four runs"),
    ("tensor.mrgsort_format2", [tensor((1, 64)), tensor((1, 64), dtypes.FP16)], "one dtype"),
    ("tensor.mrgsort_format2", [tensor((1, 64)), tensor((2, 64))], "along the columns"),
    ("tile.mrgsort_format2", [tile((1, 64)), tile((1, 64))], "two to four runs, got 1"),
]


@pytest.mark.parametrize(("name", "operands", "words"), ERRORS)
def test_sorting_refuses(name: str, operands: list[Any], words: str) -> None:
    with pytest.raises(OpError, match=words):
        infer(name, *operands)
