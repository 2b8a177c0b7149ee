"""Shape changes as a script carries them, and what they share with their source."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_lab.torch_codegen.runtime import shape, values

from .standing_alone import evaluate

X = torch.arange(24.0).reshape(4, 6)
VIEWS = ["_reshape(x, [6, 4])", "_tensor_view(x, [24])", "_tensor_view(x, layout='DN')", "_transpose_view(x)"]
VIEWS += ["_set_validshape(x, 2, 3)", "_reinterpret_view(x, dtype=torch.int32)"]
EXPRESSIONS: list[tuple[str, Any]] = [
    ("_reshape(x, [2, 12])", X.reshape(2, 12)),
    ("_transpose(x, 0, 1)", X.T),
    ("_transpose_view(x)", X.T),
    ("_tensor_view(x, [2, 2, 6])", X.reshape(2, 2, 6)),
    ("_tensor_view(x, [6, 4], layout='DN')", X.T),
    ("_reinterpret_view(x, dtype=torch.uint8)", X.view(torch.uint8)),
    ("_reinterpret_view(x, [8, 6], dtype=torch.int16)", X.view(torch.int16).reshape(8, 6)),
    (
        "_reinterpret_view(x[:, :1], dtype=torch.int16, shape=[8, 1])",
        X[:, 0].contiguous().view(torch.int16).reshape(8, 1),
    ),
    ("_concat(x, x)", torch.cat([X, X], dim=1)),
    ("_set_validshape(x, 4, 6)", X),
]


@pytest.mark.parametrize(("expression", "wanted"), EXPRESSIONS, ids=[e for e, _ in EXPRESSIONS])
def test_a_script_carries_what_it_needs(expression: str, wanted: torch.Tensor) -> None:
    got = evaluate(expression, x=X.clone())
    assert got.dtype is wanted.dtype
    assert torch.equal(got, wanted)


@pytest.mark.parametrize("expression", VIEWS)
def test_views_share_memory_and_leave_the_source_unmarked(expression: str) -> None:
    x = X.clone()
    got = evaluate(expression, x=x)
    assert got is not x
    assert got.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert not values._is_partial(x)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 4), st.integers(0, 5))
def test_turning_twice_is_turning_not_at_all(rows: int, columns: int, valid_rows: int, valid_columns: int) -> None:
    valid = (min(valid_rows, rows), min(valid_columns, columns))
    x = values._mark(torch.rand(rows, columns), valid)
    for turn in (shape._transpose_view, lambda y: shape._transpose(y, 0, 1)):
        twice = turn(turn(x))
        assert values._valid_of(twice) == valid
        assert torch.equal(twice, x)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 4), st.integers(2, 5))
def test_layouts_come_back(rows: int, columns: int) -> None:
    x = torch.rand(rows, columns)
    there = shape._tensor_view(x, layout="DN")
    assert torch.equal(shape._tensor_view(there, layout="ND"), x)
    assert torch.equal(shape._tensor_view(there, layout="DN"), there), "the same layout is no change"
    assert torch.equal(shape._tensor_view(x, layout="ND"), x)


def test_concat_of_different_rows_keeps_those_both_have() -> None:
    joined = shape._concat(values._mark(torch.ones(4, 2), (3, 2)), values._mark(torch.ones(4, 2), (2, 1)))
    assert values._valid_of(joined) == (2, 3)
    assert values._cut(joined).eq(1).all()


def test_a_reshape_of_a_strided_window_is_a_copy() -> None:
    x = X.clone()
    window = x[:, 1:3]
    flat = shape._reshape(window, [8])
    flat.zero_()
    assert torch.equal(x, X)
