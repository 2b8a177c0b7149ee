"""Row and column reductions: valid cells only, every axis, indices, empty regions."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from op_running import case_ids, cells, expect, run, tensor, tile, var

from pypto_lab.ir import dtypes as d
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ops.record import make_call

BOTH_FILLS = True
TMP = var(tile((8, 8)), "tmp")
X = cells([[1.0, 5.0, 2.0], [-4.0, 3.0, 3.0]])
CASES: list[tuple[Any, ...]] = [
    ("tile.row_sum", (X, TMP), [[8.0], [2.0]]),
    ("tile.row_max", (X, TMP), [[5.0], [3.0]]),
    ("tile.row_min", (X, TMP), [[1.0], [-4.0]]),
    ("tile.row_prod", (X, TMP), [[10.0], [-36.0]]),
    ("tile.row_argmax", (X, TMP), [[1], [1]]),
    ("tile.row_argmin", (X, TMP), [[0], [0]]),
    ("tile.col_sum", (X,), [[-3.0, 8.0, 5.0]]),
    ("tile.col_sum", (X, TMP), [[-3.0, 8.0, 5.0]]),
    ("tile.col_max", (X,), [[1.0, 5.0, 3.0]]),
    ("tile.col_min", (X,), [[-4.0, 3.0, 2.0]]),
    ("tile.col_prod", (X,), [[-4.0, 15.0, 6.0]]),
    ("tile.col_argmax", (X, TMP), [[0, 0, 1]]),
    ("tile.col_argmin", (X, TMP), [[1, 1, 0]]),
    ("tensor.row_sum", (X,), [[8.0], [2.0]]),
    ("tensor.row_max", (X,), [[5.0], [3.0]]),
    ("tensor.row_min", (X,), [[1.0], [-4.0]]),
    ("tensor.row_prod", (X,), [[10.0], [-36.0]]),
    ("tensor.row_argmax", (X,), [[1], [1]]),
    ("tensor.row_argmin", (X,), [[0], [0]]),
    ("tensor.col_sum", (X,), [[-3.0, 8.0, 5.0]]),
    ("tensor.col_max", (X,), [[1.0, 5.0, 3.0]]),
    ("tensor.col_min", (X,), [[-4.0, 3.0, 2.0]]),
    ("tensor.col_prod", (X,), [[-4.0, 15.0, 6.0]]),
    ("tensor.col_argmax", (X,), [[0, 0, 1]]),
    ("tensor.col_argmin", (X,), [[1, 1, 0]]),
    ("tile.row_sum", (cells([[100, 100, 100]], d.INT8), TMP), [[44]]),
    ("tile.row_prod", (cells([[40000, 2]], d.UINT16), TMP), [[80000 - 65536]]),
    ("tile.row_max", (cells([[1, 2**32 - 1]], d.UINT32), TMP), [[2**32 - 1]]),
    ("tile.col_max", (cells([[1], [2**64 - 1], [2**63]], d.UINT64),), [[float(2**64 - 1)]]),
    ("tile.row_argmin", (cells([[2**63, 5]], d.UINT64), TMP), [[1]]),
]
COVERS = {case[0] for case in CASES}


@pytest.mark.parametrize(("name", "operands", "wanted"), CASES, ids=case_ids(CASES))
def test_value(name: str, operands: tuple[Any, ...], wanted: Any) -> None:
    expect(run(name, *operands), wanted)


FOLDS = {"sum": torch.sum, "max": torch.amax, "min": torch.amin, "prod": torch.prod}


@given(st.sampled_from(sorted(FOLDS)), st.sampled_from(["row", "col"]), st.integers(1, 6), st.integers(1, 7), st.data())
@settings(deadline=None, max_examples=60)
def test_padding_takes_no_part(fold: str, kind: str, rows: int, columns: int, data: st.DataObject) -> None:
    """The operand's padding holds 0 in one run and 77 in the other: no fold may notice."""
    valid = (data.draw(st.integers(1, rows)), data.draw(st.integers(1, columns)))
    seed = data.draw(st.integers(0, 99))
    x = torch.randint(-9, 9, (rows, columns), generator=torch.Generator().manual_seed(seed)).float()
    operands = (cells(x, valid=valid), TMP) if kind == "row" else (cells(x, valid=valid),)
    axis = 1 if kind == "row" else 0
    part = x[: valid[0], : valid[1]]
    wanted = FOLDS[fold](part, axis, keepdim=True)
    expect(run(f"tile.{kind}_{fold}", *operands), wanted)
    expect(run(f"tensor.{kind}_{fold}", operands[0]), wanted)


def test_softmax_over_40_of_64_columns() -> None:
    x = torch.randn(16, 64, generator=torch.Generator().manual_seed(3))
    part = cells(x, valid=(16, 40))
    e = run("tile.exp", run("tile.row_expand_sub", part, run("tile.row_max", part, TMP)))
    soft = run("tile.row_expand_div", e, run("tile.row_sum", e, TMP))
    torch.testing.assert_close(soft[:, :40], torch.softmax(x[:, :40], dim=1))
    assert soft._pypto_valid_shape == (16, 40)


def test_tensors_fold_the_axis_they_name() -> None:
    x = cells(torch.arange(24.0).reshape(2, 3, 4), valid=(2, 2, 3))
    part = x[:2, :2, :3]
    expect(run("tensor.row_sum", x, axis=0, keep_dim=False), part.sum(0))
    expect(run("tensor.row_sum", x, axis=1), part.sum(1, keepdim=True))
    expect(run("tensor.col_max", x), part.amax(1, keepdim=True))
    expect(run("tensor.row_argmax", x, keep_dim=False), part.argmax(2))


def test_a_tile_of_three_axes_folds_its_first_for_columns() -> None:
    x = cells(torch.arange(24.0).reshape(2, 3, 4))
    expect(run("tile.col_sum", x), x.sum(0, keepdim=True))
    expect(run("tile.row_sum", x, TMP), x.sum(2, keepdim=True))


def test_halves_are_summed_wide_and_rounded_once() -> None:
    """2048 + 1 + 1 is 2048 when each step rounds to FP16."""
    expect(run("tile.row_sum", cells([[2048.0, 1.0, 1.0]], d.FP16), TMP), [[2050.0]])


def test_indices_name_the_first_of_equal_cells() -> None:
    x = cells([[3.0, 7.0, 7.0, 9.0]], valid=(1, 3))
    assert run("tile.row_argmax", x, TMP).tolist() == [[1]]
    assert run("tile.row_argmax", x, TMP).dtype is torch.int32


def test_nan_is_not_hidden() -> None:
    expect(run("tile.row_max", cells([[1.0, math.nan]]), TMP), [[math.nan]])


def test_folding_nothing_is_refused_at_run_time() -> None:
    from pypto_lab.torch_codegen.runtime.reductions import _col_max, _row_sum

    with pytest.raises(ValueError, match=r"row_sum over an empty region: valid shape \[2, 0\]"):
        _row_sum(cells(torch.ones(4, 4), valid=(2, 0)))
    with pytest.raises(ValueError, match="col_max over an empty region"):
        _col_max(cells(torch.ones(4, 4), valid=(0, 3)))


def test_an_idle_lane_folds_an_empty_tile() -> None:
    x = cells(torch.ones(4, 4), valid=(0, 0))
    found = run("tile.row_max", x, TMP)
    assert (tuple(found.shape), found._pypto_valid_shape) == ((4, 1), (0, 0))


REFUSED: list[tuple[Any, ...]] = [
    ("tile.row_sum", (var(tile((4, 8), valid=(4, 0))), TMP), {}, "folds an empty region"),
    ("tile.col_max", (var(tile((8,))),), {}, "at least two axes"),
    ("tensor.col_sum", (var(tensor((8,))),), {}, "no axis -2"),
    ("tensor.row_sum", (var(tensor((4, 8))),), {"axis": 2}, "no axis 2"),
]


@pytest.mark.parametrize(("name", "operands", "attrs", "message"), REFUSED, ids=case_ids(REFUSED))
def test_refused(name: str, operands: tuple[Any, ...], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(OpError, match=message):
        make_call(name, *operands, **attrs)
