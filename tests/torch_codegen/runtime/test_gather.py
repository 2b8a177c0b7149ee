"""Gather and scatter as a script carries them, and the laws that tie them together."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_lab.torch_codegen.runtime import gather, values

from .standing_alone import evaluate

X = torch.arange(8.0).reshape(2, 4)
I = torch.tensor([[3, 0], [1, 1]], dtype=torch.int32)  # noqa: E741 - an index
EXPRESSIONS: list[tuple[str, Any]] = [
    ("_gather_along(x, i, dim=-1)", [[3.0, 0.0], [5.0, 5.0]]),
    ("_scatter_along(x, i, -x[:, :2], dim=-1)", [[-1.0, 1.0, 2.0, 0.0], [4.0, -5.0, 6.0, 7.0]]),
    ("_tile_gather(x, i)", [[3.0, 0.0], [1.0, 1.0]]),
    ("_tile_scatter(x, -x[:, :2], i)", [[-1.0, -5.0, 2.0, 0.0], [4.0, 5.0, 6.0, 7.0]]),
    ("_gatherb(x, torch.zeros(1, 1, dtype=torch.uint32))", [X.reshape(-1).tolist()]),
    ("_gather_mask(x, mask_pattern=2)", [[1.0, 3.0], [5.0, 7.0]]),
    ("_scatter_mask(x, -x[:, :2], mask_pattern=1, copy=True)", [[0.0, 1.0, -1.0, 3.0], [-4.0, 5.0, -5.0, 7.0]]),
    ("_tensor_scatter_mask(-x[:, :1], x, mask_pattern=6)", [[0.0, 1.0, 2.0, 0.0], [4.0, 5.0, 6.0, -4.0]]),
    ("_gather_compare(x, 5.0, cmp_mode=5, out_cols=3)[1]", [[0, 3]]),
    ("_gather_row(torch.zeros(1, 4), x, [0, 0], [1, 0], [1, 4])", [[4.0, 5.0, 6.0, 7.0]]),
    ("_paged_gather(x, i[0, 1:], i[1], block_size=1, size=2, max_indices=1)", [[4.0, 5.0]]),
    ("_mgather(x, i[1:])", [[4.0, 5.0, 6.0, 7.0]] * 2),
    ("_mscatter(-x[:1, :2], i[:1], torch.zeros(1, 4))", [[-1.0, 0.0, 0.0, 0.0]]),
    ("_scatter_update(x, i[0, 1:], -x[1:])", [[-4.0, -5.0, -6.0, -7.0], [4.0, 5.0, 6.0, 7.0]]),
    ("_tensor_scatter_update(x, i[0, 1:], -x[1:])", [[-4.0, -5.0, -6.0, -7.0], [4.0, 5.0, 6.0, 7.0]]),
]


@pytest.mark.parametrize(("expression", "wanted"), EXPRESSIONS, ids=[e for e, _ in EXPRESSIONS])
def test_a_script_carries_what_it_needs(expression: str, wanted: Any) -> None:
    assert evaluate(expression, x=X.clone(), i=I.clone()).tolist() == wanted


@settings(max_examples=80, deadline=None)
@given(st.permutations(range(12)), st.sampled_from([torch.float32, torch.uint16, torch.int8, torch.bfloat16]))
def test_scattering_what_was_gathered_restores_it(order: list[int], dtype: torch.dtype) -> None:
    source = torch.arange(12).reshape(3, 4).to(dtype)
    index = torch.tensor(order, dtype=torch.int32).reshape(2, 6)
    picked = gather._tile_gather(source, index)
    again = gather._tile_scatter(torch.zeros(3, 4).to(dtype), picked, index)
    assert torch.equal(again.view(torch.uint8), source.view(torch.uint8))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([1, 2, 3, 4, 5, 6]), st.integers(1, 3), st.integers(1, 3))
def test_the_masks_of_a_family_take_every_column_once(pattern: int, rows: int, groups: int) -> None:
    family = (1, 2) if pattern <= 2 else (3, 4, 5, 6)
    source = torch.rand(rows, 4 * groups)
    target = torch.zeros_like(source)
    for mask in family:
        gather._scatter_mask(target, gather._gather_mask(source, mask_pattern=mask), mask_pattern=mask)
    assert torch.equal(target, source)


def test_the_last_of_many_writers_stays_at_any_size() -> None:
    count = 100_000
    index = torch.randint(0, 50, (1, count), generator=torch.Generator().manual_seed(0))
    target = gather._tile_scatter(torch.zeros(1, 64), torch.arange(count, dtype=torch.float32).view(1, -1), index)
    for place in range(50):
        assert target[0, place] == (index[0] == place).nonzero().max()


def test_a_gather_with_an_undefined_cell_shows_the_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_UNDEFINED", "nan")
    assert gather._tile_gather(X, torch.tensor([[0, 8]]))[0].isnan().tolist() == [False, True]
    assert gather._mgather(X, torch.tensor([[5]])).isnan().all()
    assert not gather._mgather(X, torch.tensor([[5]]), gather_oob="zero").isnan().any()
