"""Filling as a script carries it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pypto_lab.torch_codegen.runtime import fill, values

from .standing_alone import evaluate

INF = float("inf")
EXPRESSIONS: list[tuple[str, Any]] = [
    ("_full([2, 2], 300, dtype=torch.uint8)", torch.full((2, 2), 44, dtype=torch.uint8)),
    ("_full([1], True, dtype=torch.bool)", torch.ones(1, dtype=torch.bool)),
    ("_full([2], 1.5, dtype='HF8')", torch.full((2,), 1.5)),
    ("_fillpad(x, pad_value='max')", torch.tensor([[1.0, INF], [INF, INF]])),
    ("_fillpad_expand(x, [2, 3], pad_value=7)", torch.tensor([[1.0, 7.0, 7.0], [7.0, 7.0, 7.0]])),
    ("_fillpad_inplace(x, pad_value='zero')", torch.tensor([[1.0, 0.0], [0.0, 0.0]])),
    ("_ci(3, [1, 4], dtype=torch.int16, descending=True)", torch.tensor([[3, 2, 1, 0]], dtype=torch.int16)),
    ("_ci(3, [1, 2], dtype=torch.int32, tmp=x)", torch.tensor([[3, 4]], dtype=torch.int32)),
    ("_tri(1, [2, 3], dtype=torch.int32)", torch.tensor([[1, 1, 0], [1, 1, 1]], dtype=torch.int32)),
    ("_tri(1, [2, 3], dtype=torch.int32, upper=True)", torch.tensor([[0, 1, 1], [0, 0, 1]], dtype=torch.int32)),
]


def partial() -> torch.Tensor:
    return values._mark(torch.tensor([[1.0, -5.0], [-5.0, -5.0]]), (1, 1))


@pytest.mark.parametrize(("expression", "wanted"), EXPRESSIONS, ids=[e for e, _ in EXPRESSIONS])
def test_a_script_carries_what_it_needs(expression: str, wanted: torch.Tensor) -> None:
    got = evaluate(expression, x=partial())
    assert got.dtype is wanted.dtype
    assert torch.equal(got, wanted)


def test_random_is_pure_and_spread() -> None:
    call = "_random(1, 2, 3, 4, 5, 6, [64, 64], dtype=torch.uint32)"
    first, again = evaluate(call), evaluate(call)
    assert torch.equal(first, again)
    assert first.unique().numel() > 64 * 60, "few of 4096 draws meet"
    assert not torch.equal(first, evaluate(call.replace("_random(1", "_random(2")))
    share = first.to(torch.float64).mean() / 2**32
    assert 0.48 < share < 0.52


def test_a_product_of_words_is_exact() -> None:
    x = torch.tensor([0, 1, 0xFFFF, 0x10000, 0xFFFFFFFF, 0xDEADBEEF], dtype=torch.int64)
    for factor in (0xD2511F53, 0xCD9E8D57, 0xFFFFFFFF):
        high, low = fill._multiply_words(x, factor)
        wanted = [v * factor for v in x.tolist()]
        assert high.tolist() == [w >> 32 for w in wanted]
        assert low.tolist() == [w & 0xFFFFFFFF for w in wanted]


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_eight_bit_floats_pad_to_the_end_of_their_range(dtype: torch.dtype) -> None:
    made = values._mark(torch.ones(1, 2).to(dtype), (1, 1))
    high = fill._fillpad(made, pad_value="max").to(torch.float32)[0, 1].item()
    low = fill._fillpad(made, pad_value="min").to(torch.float32)[0, 1].item()
    assert (low, high) == ((-448.0, 448.0) if dtype is torch.float8_e4m3fn else (-INF, INF))
