"""Matrix products: widening, wrap-around, regions, accumulators, transposes, batches, vectors, block scales."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from op_running import case_ids, cells, expect, run, scalar, tensor, tile, var

from pypto_lab.ir import arith
from pypto_lab.ir import dtypes as d
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.enums import MemorySpace, TensorLayout
from pypto_lab.ir.types import TensorType, TileType
from pypto_lab.ops import OPS
from pypto_lab.ops.record import make_call
from pypto_lab.torch_codegen.runtime import matmul
from pypto_lab.torch_codegen.runtime.values import _mark, _valid_of

BOTH_FILLS = True
A = cells([[1.0, 2.0], [3.0, 4.0]])
B = cells([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]])
AB = [[1.0, 2.0, 0.0], [3.0, 4.0, 2.0]]
ACC = cells([[100.0] * 3] * 2)
PLUS = [[101.0, 102.0, 100.0], [103.0, 104.0, 102.0]]
BIAS = cells([[10.0, 20.0, 30.0]])
ONE_SCALE = cells([[1.0], [2.0]], d.FP8E8M0)
COL_SCALE = cells([[1.0, 4.0, 0.5]], d.FP8E8M0)
A8, B8 = cells([[1.0, 2.0], [3.0, 4.0]], d.FP8E4M3FN), cells([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]], d.FP8E5M2)
MX = [[1.0, 8.0, 0.0], [6.0, 32.0, 2.0]]
ROW16 = cells(torch.zeros(16, 3), valid=(1, 3))

CASES: list[tuple[Any, ...]] = [
    ("tile.matmul", (A, B), {}, AB),
    ("tensor.matmul", (A, B), {"out_dtype": d.FP32}, AB),
    ("tensor.matmul", (A, B), {}, AB),
    ("tensor.matmul", (A.t().contiguous(), B), {"a_trans": True}, AB),
    ("tensor.matmul", (A, B.t().contiguous()), {"b_trans": True}, AB),
    ("tile.matmul", (cells([[127, 127]], d.INT8), cells([[127], [-128]], d.INT8)), {}, [[-127]]),
    ("tile.matmul", (cells([[100] * 4], d.INT8), cells([[8]] * 4, d.INT8)), {}, [[3200]]),
    ("tensor.matmul", (cells([[100] * 4], d.INT8), cells([[8]] * 4, d.INT8)), {"out_dtype": d.INT32}, [[3200]]),
    ("tensor.matmul", (cells([[255]], d.UINT8), cells([[255]], d.UINT8)), {}, [[1]]),
    ("tile.matmul", (cells([[2**20]], d.INT32), cells([[2**12]], d.INT32)), {}, [[0]]),
    ("tile.matmul", (cells([[300.0, 300.0]], d.FP16), cells([[300.0], [300.0]], d.FP16)), {}, [[180000.0]]),
    ("tensor.matmul", (cells([[300.0]], d.FP16), cells([[300.0]], d.FP16)), {}, [[float("inf")]]),
    ("tile.matmul_acc", (ACC, A, B), {}, PLUS),
    ("tile.matmul_acc", (ACC, A, B, True), {}, AB),
    ("tile.matmul_acc", (ACC, A, B, False), {}, PLUS),
    ("tensor.matmul_acc", (ACC, A, B), {}, PLUS),
    ("tensor.matmul_acc", (ACC, A, B, True), {}, AB),
    ("tensor.matmul_acc", (ACC, A.t().contiguous(), B.t().contiguous()), {"a_trans": True, "b_trans": True}, PLUS),
    ("tile.matmul_bias", (A, B, BIAS), {}, [[11.0, 22.0, 30.0], [13.0, 24.0, 32.0]]),
    ("tile.batch_matmul", (torch.stack([A, A * 2]), B[None]), {}, [AB, [[2.0, 4.0, 0.0], [6.0, 8.0, 4.0]]]),
    ("tile.batch_matmul_acc", (torch.stack([ACC, ACC]), torch.stack([A, A]), torch.stack([B, B])), {}, [PLUS, PLUS]),
    ("tile.gemv", (A[:1].clone(), B), {}, AB[:1]),
    ("tile.gemv_acc", (ROW16, A[:1].clone(), B), {}, AB[:1]),
    ("tile.gemv_bias", (A[:1].clone(), B, BIAS), {}, [[11.0, 22.0, 30.0]]),
    ("tile.matmul_mx", (A8, ONE_SCALE, B8, COL_SCALE), {}, MX),
    ("tile.matmul_mx_acc", (cells([[1.0] * 3] * 2), A8, ONE_SCALE, B8, COL_SCALE), {}, [[2, 9, 1], [7, 33, 3]]),
    ("tile.matmul_mx_bias", (A8, ONE_SCALE, B8, COL_SCALE, BIAS), {}, [[11.0, 28.0, 30.0], [16.0, 52.0, 32.0]]),
    ("tile.tget_scale_addr", (ONE_SCALE, var(tile((2, 2), d.FP8E4M3FN))), {}, [[1.0], [2.0]]),
]
COVERS = {case[0] for case in CASES}


@pytest.mark.parametrize(("name", "operands", "attrs", "wanted"), CASES, ids=case_ids(CASES))
def test_value(name: str, operands: tuple[Any, ...], attrs: dict[str, Any], wanted: Any) -> None:
    expect(run(name, *operands, **attrs), wanted)


@pytest.mark.parametrize("dtype", [d.BF16, d.FP16])
def test_products_are_widened_first_and_rounded_once(dtype: d.DType) -> None:
    generator = torch.Generator().manual_seed(5)
    a = cells(torch.randn(16, 256, generator=generator), dtype)
    b = cells(torch.randn(256, 32, generator=generator), dtype)
    exact = a.double() @ b.double()
    torch.testing.assert_close(run("tile.matmul", a, b).double(), exact, rtol=1e-5, atol=1e-4)
    once = run("tensor.matmul", a, b)
    assert torch.equal(once, run("tensor.matmul", a, b, out_dtype=d.FP32).to(a.dtype))


@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 5), st.integers(0, 99), st.data())
@settings(deadline=None, max_examples=40)
def test_the_computed_rectangle(rows: int, inner: int, columns: int, seed: int, data: st.DataObject) -> None:
    """M is lhs's valid rows, N rhs's valid columns, K lhs's valid columns; padding may hold anything."""
    m, k, n = (data.draw(st.integers(1, full)) for full in (rows, inner, columns))
    generator = torch.Generator().manual_seed(seed)
    a = torch.randint(-5, 5, (rows, inner), generator=generator).float()
    b = torch.randint(-5, 5, (inner, columns), generator=generator).float()
    part = a[:m, :k] @ b[:k, :n]
    left, right = cells(a, valid=(m, k)), cells(b, valid=(k, n))
    expect(run("tile.matmul", left, right), part)
    expect(run("tensor.matmul", left, right, out_dtype=d.FP32), part)
    turned = cells(b.t().contiguous(), valid=(n, k))
    expect(run("tensor.matmul", left, turned, out_dtype=d.FP32, b_trans=True), part)
    acc = cells(torch.full((rows, columns), 7.0), valid=(m, n))
    expect(run("tile.matmul_acc", acc, left, right), part + 7.0)
    expect(run("tile.matmul_acc", acc, left, right, True), part)


def test_rhs_may_have_more_valid_rows_than_lhs_has_columns() -> None:
    a = cells(torch.ones(2, 4), valid=(2, 3))
    expect(run("tile.matmul", a, cells(torch.ones(4, 2))), [[3.0, 3.0], [3.0, 3.0]])


def test_an_accumulator_keeps_its_region_and_the_cells_outside_the_product() -> None:
    acc = cells(torch.full((4, 4), 9.0))
    a, b = cells(torch.ones(4, 2), valid=(2, 2)), cells(torch.ones(2, 4), valid=(2, 3))
    found = run("tile.matmul_acc", acc, a, b)
    wanted = torch.full((4, 4), 9.0)
    wanted[:2, :3] += 2.0
    expect(found, wanted)


WRITERS = [case for case in CASES if OPS[case[0]].torch.writes == 0]


@pytest.mark.parametrize(("name", "operands", "attrs", "wanted"), WRITERS, ids=case_ids(WRITERS))
def test_in_place_forms_write_their_accumulator(
    name: str, operands: tuple[Any, ...], attrs: dict[str, Any], wanted: Any
) -> None:
    acc = operands[0].clone()
    if _valid_of(operands[0]) != tuple(operands[0].shape):
        _mark(acc, _valid_of(operands[0]))
    found = getattr(matmul, f"_{OPS[name].torch.call}")(acc, *operands[1:], **attrs)
    assert found is acc
    expect(acc, wanted)


def test_vectors_have_sixteen_physical_rows() -> None:
    found = run("tile.gemv", A[:1].clone(), B)
    assert (tuple(found.shape), _valid_of(found)) == ((16, 3), (1, 3))


def test_scales_hold_for_thirty_two_cells() -> None:
    a = cells(torch.ones(1, 64), d.FP8E4M3FN)
    b = cells(torch.ones(64, 1), d.FP8E4M3FN)
    found = run("tile.matmul_mx", a, cells([[1.0, 4.0]], d.FP8E8M0), b, cells([[2.0], [0.5]], d.FP8E8M0))
    expect(found, [[32 * 2.0 + 32 * 2.0]])


def test_result_types_name_the_space_and_the_layout() -> None:
    product = make_call("tile.matmul", var(tile((16, 32), d.BF16)), var(tile((32, 48), d.BF16))).type
    assert isinstance(product, TileType)
    assert (product.memory_space, product.dtype) == (MemorySpace.Acc, d.FP32)
    batch = make_call("tensor.matmul", var(tensor((3, 16, 32), d.FP16)), var(tensor((32, 8), d.FP16)), c_matrix_nz=True)
    assert isinstance(batch.type, TensorType)
    assert [arith.constant(x) for x in batch.type.shape] == [3, 16, 8]
    assert batch.type.view is not None
    assert batch.type.view.layout is TensorLayout.NZ
    assert batch.type.dtype is d.FP16


def test_printed_flags_have_the_order_of_dumps() -> None:
    call = make_call("tensor.matmul", var(tensor((4, 4))), var(tensor((4, 4))), out_dtype=d.FP32)
    assert list(call.kwargs) == ["a_trans", "b_trans", "c_matrix_nz", "out_dtype"]


REFUSED: list[tuple[Any, ...]] = [
    ("tile.matmul", (var(tile((16, 32))), var(tile((16, 32)))), "transpose_view"),
    ("tensor.matmul", (var(tensor((16, 32))), var(tensor((48, 32)))), "b_trans=True"),
    ("tensor.matmul", (var(tensor((16, 32))), var(tensor((48, 64)))), "inner extents"),
    ("tile.matmul", (var(tile((16, 32), d.FP16)), var(tile((32, 16), d.BF16))), "one dtype"),
    ("tile.matmul", (var(tile((16, 32))), var(tensor((32, 16)))), "mixes a tile"),
    ("tensor.matmul", (var(tensor((32,))), var(tensor((32, 16)))), "multiplies matrices"),
    ("tile.batch_matmul", (var(tile((2, 4, 8))), var(tile((3, 8, 4)))), "cannot pair batches"),
    (
        "tile.matmul_acc",
        (var(tile((16, 16), d.FP16)), var(tile((16, 8), d.FP16)), var(tile((8, 16), d.FP16))),
        "in FP32",
    ),
    ("tile.matmul_acc", (var(tile((16, 32))), var(tile((16, 8))), var(tile((8, 16)))), "to an accumulator"),
    ("tile.matmul_acc", (var(tile((16, 16))), var(tile((16, 8))), var(tile((8, 16))), scalar()), "needs a condition"),
    ("tile.matmul_bias", (var(tile((16, 8))), var(tile((8, 16))), var(tile((16, 16)))), "adds one row"),
    ("tile.gemv", (var(tile((2, 8))), var(tile((8, 16)))), "takes one row"),
    ("tile.matmul_mx", (var(tile((4, 4))),) * 4, "not FP32"),
]


@pytest.mark.parametrize(("name", "operands", "message"), REFUSED, ids=case_ids(REFUSED))
def test_refused(name: str, operands: tuple[Any, ...], message: str) -> None:
    with pytest.raises(OpError) as caught:
        make_call(name, *operands)
    assert message in f"{caught.value.message} {caught.value.hint}"
