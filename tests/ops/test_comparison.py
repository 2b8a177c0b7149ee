"""Comparisons, packed masks and selection."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from op_running import case_ids, cells, expect, run, scalar, tensor, tile, var

from pypto_lab.ir import dtypes as d
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ops.record import make_call

BOTH_FILLS = True
TMP = var(tile((1, 32), d.UINT8), "tmp")
A = cells([[1.0, 2.0, 3.0, math.nan]])
B = cells([[2.0, 2.0, 2.0, 2.0]])
FUNCTIONS = (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge)
HOLDS = [[2], [13], [1], [3], [4], [6]]
"""Mask bytes of A against 2.0 by cmp_type; NaN is only unequal."""
CASES: list[tuple[Any, ...]] = [
    *(("tile.cmp", (A, B), {"cmp_type": code}, [wanted]) for code, wanted in enumerate(HOLDS)),
    *(("tile.cmps", (A, 2.0), {"cmp_type": code}, [wanted]) for code, wanted in enumerate(HOLDS)),
    ("tensor.cmp", (A, B), {"cmp_type": 3}, [[1.0, 1.0, 0.0, 0.0]]),
    ("tensor.cmp", (cells([[5, 6]], d.INT16), 5), {}, [[1, 0]]),
    ("tensor.cmp", (cells([[2**32 - 1]], d.UINT32), cells([[1]], d.UINT32)), {"cmp_type": 4}, [[1]]),
    ("tile.cmps", (cells([[2**63]], d.UINT64), 1), {"cmp_type": 4}, [[1]]),
    ("tile.cmp", (cells([[1]], d.INT32), cells([[-1]], d.INT32)), {"cmp_type": 4}, [[1]]),
    ("tile.sel", (cells([[5]], d.UINT8), A, B, TMP), {}, [[1.0, 2.0, 3.0, 2.0]]),
    ("tile.sels", (cells([[2]], d.UINT8), A, TMP, -1.0), {}, [[-1.0, 2.0, -1.0, -1.0]]),
    ("tile.sels", (cells([[1]], d.UINT8), cells([[7, 8]], d.UINT16), TMP, 9), {}, [[7, 9]]),
]
COVERS = {case[0] for case in CASES}


@pytest.mark.parametrize(("name", "operands", "attrs", "wanted"), CASES, ids=case_ids(CASES))
def test_value(name: str, operands: tuple[Any, ...], attrs: dict[str, Any], wanted: Any) -> None:
    expect(run(name, *operands, **attrs), wanted)


@given(st.integers(1, 4), st.integers(1, 70), st.integers(0, 5), st.integers(0, 99), st.data())
@settings(deadline=None, max_examples=50)
def test_a_mask_selects_what_it_compared(rows: int, columns: int, code: int, seed: int, data: st.DataObject) -> None:
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.randint(-2, 3, (rows, columns), generator=generator).float() for _ in range(2))
    valid = (data.draw(st.integers(1, rows)), data.draw(st.integers(1, columns)))
    x, y = cells(a, valid=valid), cells(b, valid=valid)
    mask = run("tile.cmp", x, y, cmp_type=code)
    assert tuple(mask.shape) == (rows, (columns + 255) // 256 * 32)
    chosen = FUNCTIONS[code](a, b)[: valid[0], : valid[1]]
    expect(run("tile.sel", mask, x, y, TMP), torch.where(chosen, a[: valid[0], : valid[1]], b[: valid[0], : valid[1]]))
    expect(run("tile.sels", mask, x, TMP, 9.0), torch.where(chosen, a[: valid[0], : valid[1]], 9.0))


def test_mask_bits_follow_the_columns() -> None:
    x = cells([[1.0, 0.0, 1.0] + [0.0] * 6 + [1.0]])
    mask = run("tile.cmps", x, 1.0, cmp_type=0)
    assert mask[0, :2].tolist() == [0b101, 0b10]
    assert mask._pypto_valid_shape == (1, 2)


def test_a_narrow_mask_is_refused() -> None:
    from pypto_lab.torch_codegen.runtime.comparison import _sel

    with pytest.raises(ValueError, match="a mask of 1 bytes a row cannot select among 9 columns"):
        _sel(cells([[1]], d.UINT8), cells(torch.zeros(1, 9)), cells(torch.ones(1, 9)))


REFUSED: list[tuple[Any, ...]] = [
    ("tile.cmp", (var(tile((4, 8))), var(tile((4, 8)))), {"cmp_type": 6}, "no comparison 6"),
    ("tile.cmp", (var(tile((4, 8))), var(tensor((4, 8)))), {}, "mixes a tile"),
    ("tile.cmps", (var(tile((4, 8))), var(tile((4, 8)))), {}, "needs a number"),
    ("tile.sel", (var(tile((4, 8))), var(tile((4, 8))), var(tile((4, 8))), TMP), {}, "packed UINT8 mask"),
    ("tile.sel", (var(tile((4, 1), d.UINT8)), var(tile((4, 9))), var(tile((4, 9))), TMP), {}, "has 8 bits a row"),
    ("tile.sel", (var(tile((4, 32), d.UINT8)), var(tile((4, 8))), var(tile((4, 8), d.FP16)), TMP), {}, "one dtype"),
    ("tile.sels", (var(tile((4, 32), d.UINT8)), var(tile((4, 8))), TMP, var(tile((4, 8)))), {}, "needs a number"),
]


@pytest.mark.parametrize(("name", "operands", "attrs", "message"), REFUSED, ids=case_ids(REFUSED))
def test_refused(name: str, operands: tuple[Any, ...], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(OpError, match=message):
        make_call(name, *operands, **attrs)


def test_tensor_comparisons_take_numbers_and_tensors() -> None:
    assert make_call("tensor.cmp", var(tensor((4, 8), d.INT16)), scalar(d.INT16)).type.dtype is d.INT16
