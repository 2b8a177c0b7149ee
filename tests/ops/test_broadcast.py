"""Vectors spread over rows and columns."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from op_running import Number, case_ids, cells, expect, run, tensor, tile, var

from pypto_lab.ir import dtypes as d
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ops.record import make_call

BOTH_FILLS = True
X = cells([[1.0, 2.0, 4.0], [8.0, -2.0, 0.0]])
ROW = cells([[2.0], [4.0]])
COL = cells([[1.0, 2.0, 4.0]])
TMP = var(tile((2, 8)), "tmp")
E1 = 2.7182817459106445


def both(name: str, vector: torch.Tensor, wanted: Any, x: torch.Tensor = X) -> list[tuple[Any, ...]]:
    return [(f"{space}.{name}", (x, vector), wanted) for space in ("tile", "tensor")]


CASES: list[tuple[Any, ...]] = [
    *both("row_expand", ROW, [[2.0] * 3, [4.0] * 3]),
    *both("row_expand_add", ROW, [[3.0, 4.0, 6.0], [12.0, 2.0, 4.0]]),
    *both("row_expand_sub", ROW, [[-1.0, 0.0, 2.0], [4.0, -6.0, -4.0]]),
    *both("row_expand_mul", ROW, [[2.0, 4.0, 8.0], [32.0, -8.0, 0.0]]),
    *both("row_expand_div", ROW, [[0.5, 1.0, 2.0], [2.0, -0.5, 0.0]]),
    *both("row_expand_max", ROW, [[2.0, 2.0, 4.0], [8.0, 4.0, 4.0]]),
    *both("row_expand_min", ROW, [[1.0, 2.0, 2.0], [4.0, -2.0, 0.0]]),
    *both("row_expand_expdif", cells([[1.0], [8.0]]), [[1.0, E1], [1.0, E1]], cells([[1.0, 2.0], [8.0, 9.0]])),
    *both("col_expand", COL, [[1.0, 2.0, 4.0]] * 2),
    *both("col_expand_add", COL, [[2.0, 4.0, 8.0], [9.0, 0.0, 4.0]]),
    *both("col_expand_sub", COL, [[0.0, 0.0, 0.0], [7.0, -4.0, -4.0]]),
    *both("col_expand_mul", COL, [[1.0, 4.0, 16.0], [8.0, -4.0, 0.0]]),
    *both("col_expand_div", COL, [[1.0, 1.0, 1.0], [8.0, -1.0, 0.0]]),
    *both("col_expand_max", COL, [[1.0, 2.0, 4.0], [8.0, 2.0, 4.0]]),
    *both("col_expand_min", COL, [[1.0, 2.0, 4.0], [1.0, -2.0, 0.0]]),
    *both("col_expand_expdif", cells([[1.0, 7.0]]), [[1.0, E1], [E1, 1.0]], cells([[1.0, 8.0], [2.0, 7.0]])),
    ("tensor.row_expand_mul", (X.reshape(1, 2, 3), ROW), [[[2.0, 4.0, 8.0], [32.0, -8.0, 0.0]]]),
    ("tensor.col_expand_mul", (X.reshape(1, 2, 3), COL), [[[1.0, 4.0, 16.0], [8.0, -4.0, 0.0]]]),
    ("tile.row_expand_add", (X, ROW, TMP), [[3.0, 4.0, 6.0], [12.0, 2.0, 4.0]]),
    ("tile.row_expand_div", (cells([[7, -7]], d.INT32), cells([[2]], d.INT32)), [[3, -3]]),
    ("tile.col_expand_max", (cells([[1, 65535]], d.UINT16), cells([[2, 9]], d.UINT16)), [[2, 65535]]),
    ("tile.expands", (X, 2.5), [[2.5] * 3] * 2),
    ("tensor.expands", (cells([[1, 2]], d.INT32), 7), [[7, 7]]),
    ("tile.expands", (cells([[1.0]], d.FP16), 0.1), [[0.0999755859375]]),
    ("tensor.expand_clone", (cells([[1.0, 2.0]]), cells([[0.0, 0.0]] * 3)), [[1.0, 2.0]] * 3),
    ("tensor.expand_clone", (cells([[[1]], [[2]]], d.INT8), cells(torch.zeros(2, 2, 2))), [[[1, 1]] * 2, [[2, 2]] * 2]),
]
COVERS = {case[0] for case in CASES}


@pytest.mark.parametrize(("name", "operands", "wanted"), CASES, ids=case_ids(CASES))
def test_value(name: str, operands: tuple[Any, ...], wanted: Any) -> None:
    expect(run(name, *operands), wanted)


@given(st.integers(1, 5), st.integers(1, 6), st.data())
@settings(deadline=None, max_examples=40)
def test_the_full_operand_gives_the_region(rows: int, columns: int, data: st.DataObject) -> None:
    valid = (data.draw(st.integers(1, rows)), data.draw(st.integers(1, columns)))
    x = torch.arange(float(rows * columns)).reshape(rows, columns)
    row = cells(torch.arange(float(rows)).reshape(rows, 1) + 1, valid=(valid[0], 1))
    col = cells(torch.arange(float(columns)).reshape(1, columns) + 1, valid=(1, valid[1]))
    part = x[: valid[0], : valid[1]]
    expect(run("tile.row_expand_mul", cells(x, valid=valid), row), part * row[: valid[0]])
    expect(run("tile.col_expand_sub", cells(x, valid=valid), col), part - col[:, : valid[1]])
    expect(run("tile.row_expand", cells(x, valid=valid), row), row[: valid[0]].expand(*valid))
    expect(run("tile.col_expand", cells(x, valid=valid), col), col[:, : valid[1]].expand(*valid))


def test_a_packed_row_vector_repeats_its_block() -> None:
    """A [rows, 8] FP32 operand is one 32-byte block a row; column j meets entry j % 8 of it."""
    x = cells(torch.arange(40.0).reshape(2, 20), valid=(2, 19))
    block = torch.arange(16.0).reshape(2, 8) * 100
    wanted = (x + block.repeat(1, 3)[:, :20])[:, :19]
    expect(run("tile.row_expand_add", x, cells(block)), wanted)


def test_expands_fills_the_valid_region_only() -> None:
    found = run("tile.expands", cells(torch.zeros(4, 4), valid=(2, 3)), 5.0)
    expect(found, torch.full((2, 3), 5.0))


def test_expands_narrows_the_number() -> None:
    expect(run("tensor.expands", cells([[1]], d.UINT8), Number(300, d.INT32)), [[44]])


def test_expand_clone_keeps_the_region_of_axes_that_do_not_grow() -> None:
    found = run("tensor.expand_clone", cells([[1.0, 2.0, 3.0]], valid=(1, 2)), cells(torch.zeros(2, 3)))
    expect(found, [[1.0, 2.0], [1.0, 2.0]])


REFUSED: list[tuple[Any, ...]] = [
    ("tile.row_expand_mul", (var(tile((4, 8))), var(tile((1, 8)))), "did you mean col_expand_mul"),
    ("tensor.col_expand_sub", (var(tensor((4, 8))), var(tensor((4, 1)))), "did you mean row_expand_sub"),
    ("tile.row_expand_add", (var(tile((4, 8))), var(tile((3, 1)))), "spreads a vector"),
    ("tile.row_expand", (var(tile((4, 8))), var(tile((4, 16)))), "spreads a vector"),
    ("tile.col_expand", (var(tile((4, 8))), var(tensor((1, 8)))), "mixes a tile"),
    ("tensor.row_expand_div", (var(tensor((4, 8))), var(tensor((4,)))), "one rank"),
    ("tensor.row_expand_div", (var(tensor((4, 8))), var(tensor((1, 4, 1)))), "one rank"),
    ("tile.row_expand_expdif", (var(tile((4, 8), d.INT32)), var(tile((4, 1), d.INT32))), "defined for floats"),
    ("tensor.expand_clone", (var(tensor((4, 8))), var(tensor((4, 6)))), "cannot repeat"),
    ("tile.expands", (var(tile((4, 8))), var(tile((4, 8)))), "needs a number"),
]


@pytest.mark.parametrize(("name", "operands", "message"), REFUSED, ids=case_ids(REFUSED))
def test_refused(name: str, operands: tuple[Any, ...], message: str) -> None:
    with pytest.raises(OpError) as caught:
        make_call(name, *operands)
    assert message in f"{caught.value.message} {caught.value.hint}"
