"""Sorting as a script carries it: a whole top-k, and the laws of a merge."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_lab.torch_codegen.runtime import gather, sort

from .standing_alone import evaluate


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("columns", [128, 512])
def test_sort_and_merge_rank_a_row(dtype: torch.dtype, columns: int) -> None:
    order = torch.randperm(columns, generator=torch.Generator().manual_seed(columns))
    scores = (order.float() - columns / 2).to(dtype).view(1, -1)
    per_pair = 8 // dtype.itemsize
    steps, length = "_sort32(s, torch.arange(s.shape[1]).view(1, -1).to(torch.uint32))", 32 * per_pair
    while length < columns * per_pair:
        steps, length = f"_mrgsort_format1({steps}, {length})", 4 * length
        if length > columns * per_pair:
            break
    pairs = evaluate(steps, s=scores)
    if length > columns * per_pair:
        half = columns * per_pair // 2
        pairs = evaluate("_mrgsort_format2(a, b)", a=pairs[:, :half], b=pairs[:, half:])
    values, indices = torch.sort(scores, descending=True)
    assert torch.equal(pairs[:, ::per_pair], values)
    words = pairs.view(torch.int32)[:, 1::2]
    assert torch.equal(words.long(), indices)


def test_masks_take_pairs_apart() -> None:
    scores = torch.randperm(32, generator=torch.Generator().manual_seed(1)).float().view(1, -1)
    pairs = sort._sort32(scores, torch.arange(32).view(1, -1).to(torch.uint32))
    assert torch.equal(gather._gather_mask(pairs, mask_pattern=1), torch.arange(31.0, -1, -1).view(1, -1))
    found = gather._gather_mask(pairs, mask_pattern=2, output_dtype=torch.int32)
    assert torch.equal(scores[0, found[0].long()], torch.arange(31.0, -1, -1))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(-5, 5), min_size=1, max_size=6), min_size=2, max_size=4))
def test_a_merge_of_sorted_lists_is_the_stable_sort_of_all(lists: list[list[int]]) -> None:
    runs = [torch.tensor(sorted(each, reverse=True), dtype=torch.float32) for each in lists]
    order = sort._merge_order(runs)
    whole = torch.cat(runs)
    assert torch.equal(order, whole.argsort(descending=True, stable=True))


def test_exhausted_stops_with_the_first_list_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    from pypto_lab.torch_codegen.runtime import values

    monkeypatch.setattr(values, "_UNDEFINED", "nan")
    first, second = (torch.tensor([[v, 0.0] for v in row]).view(1, -1) for row in ([9.0, 8.0], [7.0, 6.0, 5.0]))
    merged = sort._mrgsort_format2(first, second, exhausted=True)
    assert merged[0, ::2][:2].tolist() == [9.0, 8.0]
    assert merged[0, 4:].isnan().all()
    assert sort._mrgsort_format2(first, second)[0, ::2].tolist() == [9.0, 8.0, 7.0, 6.0, 5.0]
    assert torch.equal(sort._tile_mrgsort_format2(first, second, merged), sort._mrgsort_format2(first, second))
