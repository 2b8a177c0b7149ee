"""Cell-by-cell ops: values, widths, regions and type rules."""

from __future__ import annotations

import math
import operator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from op_running import DTYPE, Number, case_ids, cells, expect, run, scalar, tensor, tile, var

from pypto_lab.ir import dtypes as d
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ops.record import make_call

BOTH_FILLS = True
TMP = var(tile((1, 32), d.UINT8), "tmp")
NAN = math.nan


def i(data: Any, dtype: d.DType = d.INT32) -> torch.Tensor:
    return cells(data, dtype)


A = cells([[1.5, -2.0, 0.25], [7.0, -0.0, 3.0]])
B = cells([[2.0, 4.0, 0.5], [-2.0, 1.0, 0.0]])
CASES: list[tuple[Any, ...]] = [
    ("tile.add", (A, B), [[3.5, 2.0, 0.75], [5.0, 1.0, 3.0]]),
    ("tensor.add", (A, B), [[3.5, 2.0, 0.75], [5.0, 1.0, 3.0]]),
    ("tile.add", (i([[120, -120]], d.INT8), i([[10, -10]], d.INT8)), [[-126, 126]]),
    ("tile.add", (i([[250]], d.UINT8), i([[10]], d.UINT8)), [[4]]),
    ("tile.add", (i([[32767]], d.INT16), i([[1]], d.INT16)), [[-32768]]),
    ("tile.add", (i([[65535]], d.UINT16), i([[3]], d.UINT16)), [[2]]),
    ("tile.add", (i([[2**32 - 1]], d.UINT32), i([[2]], d.UINT32)), [[1]]),
    ("tile.add", (i([[2**31 - 1]]), i([[1]])), [[-(2**31)]]),
    ("tile.add", (cells([[1.0, 2.0]]), i([[1, 2]])), [[2.0, 4.0]]),
    ("tensor.add", (i([[1]], d.INT8), i([[300]], d.INT16)), [[301]]),
    ("tile.add", (cells([[1.0], [2.0]]), cells([[10.0, 20.0]])), [[11.0, 21.0], [12.0, 22.0]]),
    ("tile.sub", (A, B), [[-0.5, -6.0, -0.25], [9.0, -1.0, 3.0]]),
    ("tensor.sub", (i([[0]], d.UINT16), i([[1]], d.UINT16)), [[65535]]),
    ("tile.mul", (A, B), [[3.0, -8.0, 0.125], [-14.0, -0.0, 0.0]]),
    ("tensor.mul", (i([[16]], d.INT8), i([[16]], d.INT8)), [[0]]),
    ("tile.mul", (i([[65537]]), i([[65537]])), [[131073]]),
    ("tile.mul", (i([[65535]], d.UINT32), i([[65538]], d.UINT32)), [[65535 * 65538 % 2**32]]),
    ("tile.div", (A, B), [[0.75, -0.5, 0.5], [-3.5, -0.0, math.inf]]),
    ("tensor.div", (i([[7, -7, 7, -7, 5]]), i([[2, 2, -2, -2, 0]])), [[3, -3, -3, 3, 0]]),
    ("tile.div", (i([[-(2**31)]]), i([[-1]])), [[-(2**31)]]),
    ("tile.div", (i([[4000000000]], d.UINT32), i([[3]], d.UINT32)), [[1333333333]]),
    ("tile.fmod", (cells([[7.5, -7.5, 7.5]]), cells([[2.0, 2.0, -2.0]])), [[1.5, -1.5, 1.5]]),
    ("tensor.fmod", (i([[7, -7, 7]]), i([[3, 3, -3]])), [[1, -1, 1]]),
    ("tile.rem", (cells([[7.5, -7.5, 7.5]]), cells([[2.0, 2.0, -2.0]]), TMP), [[1.5, 0.5, -0.5]]),
    ("tile.rem", (i([[7, -7, 7, -7]]), i([[3, 3, -3, -3]]), TMP), [[1, 2, -2, -1]]),
    ("tile.rems", (i([[7, -7, 6]]), 3, TMP), [[1, 2, 0]]),
    ("tile.rems", (cells([[-1.0, 5.5]]), -2.0, TMP), [[-1.0, -0.5]]),
    ("tile.maximum", (A, B), [[2.0, 4.0, 0.5], [7.0, 1.0, 3.0]]),
    ("tensor.maximum", (A, 1.0), [[1.5, 1.0, 1.0], [7.0, 1.0, 3.0]]),
    ("tensor.maximum", (i([[1, 60000]], d.UINT16), i([[2, 5]], d.UINT16)), [[2, 60000]]),
    ("tile.maximums", (i([[1, 5]]), 3), [[3, 5]]),
    ("tile.maximums", (cells([[NAN, -1.0]]), 0.0), [[NAN, 0.0]]),
    ("tile.minimum", (A, B), [[1.5, -2.0, 0.25], [-2.0, -0.0, 0.0]]),
    ("tensor.minimum", (A, B), [[1.5, -2.0, 0.25], [-2.0, -0.0, 0.0]]),
    ("tensor.minimum", (i([[1, 5]]), 3), [[1, 3]]),
    ("tile.minimums", (cells([[1.0, 5.0]]), 3.0), [[1.0, 3.0]]),
    ("tile.adds", (A, 0.5), [[2.0, -1.5, 0.75], [7.5, 0.5, 3.5]]),
    ("tensor.adds", (i([[2**31 - 1]]), 1), [[-(2**31)]]),
    ("tile.subs", (A, 0.5), [[1.0, -2.5, -0.25], [6.5, -0.5, 2.5]]),
    ("tensor.subs", (i([[5]], d.INT8), 7), [[-2]]),
    ("tile.muls", (A, -2.0), [[-3.0, 4.0, -0.5], [-14.0, 0.0, -6.0]]),
    ("tensor.muls", (i([[3, 4]]), 5), [[15, 20]]),
    ("tile.divs", (A, 2.0), [[0.75, -1.0, 0.125], [3.5, -0.0, 1.5]]),
    ("tile.divs", (i([[7, -7]]), 2), [[3, -3]]),
    ("tensor.divs", (cells([[3.0]]), 4.0), [[0.75]]),
    ("tile.fmods", (i([[7, -7]]), 3), [[1, -1]]),
    ("tensor.fmods", (cells([[7.5, -7.5]]), 2.0), [[1.5, -1.5]]),
    ("tile.addc", (A, B, A), [[5.0, 0.0, 1.0], [12.0, 1.0, 6.0]]),
    ("tile.subc", (cells([[10.0]]), cells([[3.0]]), cells([[2.0]])), [[9.0]]),
    ("tile.subc", (i([[10]]), i([[3]]), i([[2]])), [[9]]),
    ("tile.addsc", (cells([[10.0]]), 3.0, cells([[2.0]])), [[15.0]]),
    ("tile.subsc", (cells([[10.0]]), 3.0, cells([[2.0]])), [[9.0]]),
    ("tile.part_add", (cells([[1.0, 2.0]]), cells([[10.0, 20.0]])), [[11.0, 22.0]]),
    ("tensor.part_add", (cells([[1.0, 2.0]]), cells([[10.0, 20.0]])), [[11.0, 22.0]]),
    ("tile.part_mul", (cells([[3.0, 2.0]]), cells([[10.0, 20.0]])), [[30.0, 40.0]]),
    ("tensor.part_mul", (i([[3]]), i([[4]])), [[12]]),
    ("tile.part_max", (cells([[3.0, 2.0]]), cells([[1.0, 20.0]])), [[3.0, 20.0]]),
    ("tensor.part_max", (i([[3]]), i([[4]])), [[4]]),
    ("tile.part_min", (cells([[3.0, 2.0]]), cells([[1.0, 20.0]])), [[1.0, 2.0]]),
    ("tensor.part_min", (i([[3]]), i([[4]])), [[3]]),
    ("tile.neg", (A,), [[-1.5, 2.0, -0.25], [-7.0, 0.0, -3.0]]),
    ("tensor.neg", (i([[-128, 5]], d.INT8),), [[-128, -5]]),
    ("tile.neg", (i([[1]], d.UINT16),), [[65535]]),
    ("tile.abs", (A,), [[1.5, 2.0, 0.25], [7.0, 0.0, 3.0]]),
    ("tensor.abs", (i([[-128, -5]], d.INT8),), [[-128, 5]]),
    ("tile.exp", (cells([[0.0, 1.0]]),), [[1.0, 2.7182817459106445]]),
    ("tensor.exp", (cells([[-math.inf]]),), [[0.0]]),
    ("tile.log", (cells([[1.0, 0.0]]),), [[0.0, -math.inf]]),
    ("tensor.log", (cells([[-1.0]]),), [[NAN]]),
    ("tile.sin", (cells([[0.0, 1.0]]),), [[0.0, 0.8414709568023682]]),
    ("tensor.sin", (cells([[0.0]]),), [[0.0]]),
    ("tile.cos", (cells([[0.0, 1.0]]),), [[1.0, 0.5403023362159729]]),
    ("tensor.cos", (cells([[0.0]]),), [[1.0]]),
    ("tile.sqrt", (cells([[4.0, 2.25]]),), [[2.0, 1.5]]),
    ("tensor.sqrt", (cells([[-1.0]]),), [[NAN]]),
    ("tile.rsqrt", (cells([[4.0, 0.0]]),), [[0.5, math.inf]]),
    ("tile.rsqrt", (cells([[4.0]]), TMP), [[0.5]]),
    ("tensor.rsqrt", (cells([[16.0]]),), [[0.25]]),
    ("tile.recip", (cells([[4.0, -0.5]]),), [[0.25, -2.0]]),
    ("tensor.recip", (cells([[0.0]]),), [[math.inf]]),
    ("tile.relu", (A,), [[1.5, 0.0, 0.25], [7.0, 0.0, 3.0]]),
    ("tile.relu", (i([[-3, 3]]),), [[0, 3]]),
    ("tile.lrelu", (A, 0.5), [[1.5, -1.0, 0.25], [7.0, -0.0, 3.0]]),
    ("tile.prelu", (A, B, TMP), [[1.5, -8.0, 0.25], [7.0, -0.0, 3.0]]),
    ("tile.not", (i([[0, -1, 5]], d.INT16),), [[-1, 0, -6]]),
    ("tensor.not", (i([[0, 65535, 5]], d.UINT16),), [[65535, 0, 65530]]),
    ("tile.and", (i([[12, -1]]), i([[10, 7]])), [[8, 7]]),
    ("tensor.and", (i([[0xF0F0]], d.UINT16), i([[0xFF00]], d.UINT16)), [[0xF000]]),
    ("tile.ands", (i([[12, 15]]), 6), [[4, 6]]),
    ("tensor.ands", (i([[255]], d.UINT8), 15), [[15]]),
    ("tile.or", (i([[12, 0]]), i([[10, 7]])), [[14, 7]]),
    ("tensor.or", (i([[12]]), i([[3]])), [[15]]),
    ("tile.ors", (i([[12]], d.INT16), 5), [[13]]),
    ("tensor.ors", (i([[12]]), 1), [[13]]),
    ("tile.xor", (i([[12, -1]]), i([[10, 0]]), TMP), [[6, -1]]),
    ("tensor.xor", (i([[12]]), i([[10]])), [[6]]),
    ("tile.xors", (i([[12]]), 10, TMP), [[6]]),
    ("tensor.xors", (i([[2**32 - 1]], d.UINT32), 1), [[2**32 - 2]]),
    ("tile.shl", (i([[1, 3]], d.INT8), i([[7, 6]], d.INT8)), [[-128, -64]]),
    ("tensor.shl", (i([[0x8001]], d.UINT16), i([[1]], d.UINT16)), [[2]]),
    ("tile.shls", (i([[0x8001]], d.UINT16), 1), [[2]]),
    ("tensor.shls", (i([[2**30]]), 2), [[0]]),
    ("tile.shr", (i([[-8, 8]]), i([[1, 40]])), [[-4, 0]]),
    ("tensor.shr", (i([[2**32 - 1]], d.UINT32), i([[4]], d.UINT32)), [[2**28 - 1]]),
    ("tile.shrs", (i([[-9, 9]], d.INT16), 2), [[-3, 2]]),
    ("tensor.shrs", (i([[0xFFFF]], d.UINT16), 8), [[0xFF]]),
]
COVERS = {case[0] for case in CASES}


@pytest.mark.parametrize(("name", "operands", "wanted"), CASES, ids=case_ids(CASES))
def test_value(name: str, operands: tuple[Any, ...], wanted: Any) -> None:
    expect(run(name, *operands), wanted)


BROAD = ["add", "sub", "mul", "maximum", "minimum"]


@pytest.mark.parametrize("name", [*BROAD, "div"])
@pytest.mark.parametrize("dtype", [d.FP16, d.BF16])
def test_halves_round_once(name: str, dtype: d.DType) -> None:
    generator = torch.Generator().manual_seed(7)
    a, b = (torch.randn(9, 17, generator=generator).to(torch.float16) for _ in range(2))
    found = run(f"tensor.{name}", cells(a, dtype), cells(b, dtype))
    function = getattr(torch, name)
    exact = function(cells(a, dtype).double(), cells(b, dtype).double())
    assert torch.equal(found, exact.float().to(found.dtype))


@given(
    st.sampled_from([*BROAD, "div", "rem", "fmod"]),
    st.sampled_from([d.INT8, d.UINT8, d.INT16, d.UINT16, d.INT32, d.UINT32, d.INT64, d.UINT64]),
    st.integers(-(2**64), 2**64),
    st.integers(-(2**64), 2**64),
)
@settings(deadline=None, max_examples=200)
def test_integers_are_python_integers_at_their_width(name: str, dtype: d.DType, a: int, b: int) -> None:
    signed, size = dtype.is_signed, dtype.bits

    def wrap(value: int) -> int:
        low = value % 2**size
        return low - 2**size if signed and low >= 2 ** (size - 1) else low

    a, b = wrap(a), wrap(b)
    if name == "div" and dtype not in (d.INT32, d.INT16, d.UINT32, d.UINT16):
        name = "add"
    quotient = 0 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
    wanted = {
        "add": a + b,
        "sub": a - b,
        "mul": a * b,
        "maximum": max(a, b),
        "minimum": min(a, b),
        "div": quotient,
        "fmod": 0 if b == 0 else a - quotient * b,
        "rem": 0 if b == 0 else a % b,
    }[name]
    extra = (TMP,) if name == "rem" else ()
    found = run(f"tile.{name}", cells([[a]], dtype), cells([[b]], dtype), *extra)
    assert found.tolist() == [[wrap(wanted)]]


@given(
    st.sampled_from(["shl", "shr", "and", "or", "xor"]),
    st.sampled_from([d.INT8, d.UINT8, d.INT16, d.UINT16, d.INT32, d.UINT32, d.INT64, d.UINT64]),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
)
@settings(deadline=None, max_examples=200)
def test_bits_are_python_bits_at_their_width(name: str, dtype: d.DType, a: int, b: int) -> None:
    size = dtype.bits

    def wrap(value: int) -> int:
        low = value % 2**size
        return low - 2**size if dtype.is_signed and low >= 2 ** (size - 1) else low

    a = wrap(a)
    b = b % (size + 3) if name.startswith("sh") else wrap(b)
    wanted = getattr(operator, {"shl": "lshift", "shr": "rshift", "and": "and_", "or": "or_"}.get(name, name))(a, b)
    extra = (TMP,) if name == "xor" else ()
    found = run(f"tile.{name}", cells([[a]], dtype), cells([[b]], dtype), *extra)
    assert found.tolist() == [[wrap(wanted)]]
    if name.startswith("sh"):
        assert run(f"tile.{name}s", cells([[a]], dtype), b).tolist() == [[wrap(wanted)]]


# --- scalars narrow to the tile -----------------------------------------------------------------------------------


def test_a_number_is_narrowed_to_the_tile_before_the_sum() -> None:
    """0.1 is 0.0999755859375 in FP16; in FP32 the sum would round elsewhere."""
    found = run("tile.muls", cells([[3.0, 7.0]], d.FP16), 0.1)
    narrowed = torch.tensor(0.1, dtype=torch.float16)
    assert torch.equal(found, torch.tensor([[3.0, 7.0]], dtype=torch.float16) * narrowed)
    assert found.dtype is torch.float16


def test_a_float_meets_an_integer_tile_as_an_integer() -> None:
    expect(run("tile.muls", cells([[3, 4]], d.INT32), 2.75), [[6, 8]])


def test_a_half_tensor_with_a_python_number_is_fp32() -> None:
    found = run("tensor.muls", cells([[3.0]], d.FP16), 0.1)
    assert found.dtype is torch.float32
    assert found.item() == (torch.tensor(3.0) * torch.tensor(0.1)).item()


def test_a_half_tensor_keeps_its_dtype_with_a_half_number() -> None:
    assert run("tensor.adds", cells([[3.0]], d.BF16), Number(1.5, d.BF16)).dtype is torch.bfloat16
    assert run("tensor.maximum", cells([[3.0]], d.FP16), Number(4.5, d.FP16)).item() == 4.5


# --- regions ------------------------------------------------------------------------------------------------------

PAIRS = ["add", "sub", "mul", "maximum", "minimum", "fmod"]
UNARY = ["neg", "abs", "exp", "sqrt", "rsqrt", "recip", "relu", "log", "sin", "cos"]


@pytest.mark.parametrize("name", PAIRS)
def test_a_tile_result_has_the_region_of_lhs(name: str) -> None:
    a = cells(torch.arange(32.0).reshape(4, 8) + 1, valid=(3, 5))
    b = cells(torch.full((4, 8), 2.0), valid=(3, 5))
    found = run(f"tile.{name}", a, b)
    expect(found, getattr(torch, name)(a[:3, :5], b[:3, :5]))
    assert found._pypto_valid_shape == (3, 5)


def test_lhs_decides_where_the_regions_differ() -> None:
    a = cells(torch.ones(4, 8), valid=(3, 5))
    whole = cells(torch.full((4, 8), 2.0))
    expect(run("tile.add", a, whole), torch.full((3, 5), 3.0))
    partly = cells(torch.full((4, 8), 2.0), valid=(4, 6))
    expect(run("tile.sub", a, partly), torch.full((3, 5), -1.0))


@pytest.mark.parametrize("name", UNARY)
def test_a_partial_tile_stays_partial(name: str) -> None:
    x = cells(torch.rand(5, 7, generator=torch.Generator().manual_seed(1)) + 0.5, valid=(2, 6))
    found = run(f"tile.{name}", x)
    function = {"recip": torch.reciprocal}.get(name) or getattr(torch, name)
    expect(found, function(x[:2, :6]))


def test_a_stretched_axis_takes_the_other_region() -> None:
    column = cells([[1.0], [2.0], [3.0]], valid=(2, 1))
    row = cells([[10.0, 20.0, 30.0, 40.0]], valid=(1, 3))
    expect(run("tile.add", column, row), [[11.0, 21.0, 31.0], [12.0, 22.0, 32.0]])


def test_part_add_copies_what_only_one_side_has() -> None:
    a = cells(torch.full((4, 6), 1.0), valid=(4, 3))
    b = cells(torch.full((4, 6), 10.0), valid=(2, 6))
    wanted = torch.tensor([[11.0] * 3 + [10.0] * 3] * 2 + [[1.0] * 3 + [0.0] * 3] * 2)
    expect(run("tile.part_add", a, b), wanted)
    expect(run("tile.part_max", a, b), torch.where(wanted == 11.0, 10.0, wanted))
    expect(run("tile.part_min", a, b), torch.where(wanted == 11.0, 1.0, wanted))


def test_an_empty_region_gives_an_empty_region() -> None:
    """An idle lane of a split kernel computes on tiles without a valid cell."""
    x = cells(torch.ones(4, 4), valid=(0, 0))
    assert run("tile.add", x, x)._pypto_valid_shape == (0, 0)
    assert run("tile.exp", x)._pypto_valid_shape == (0, 0)


@given(st.integers(1, 5), st.integers(1, 6), st.data())
@settings(deadline=None, max_examples=40)
def test_scalar_forms_touch_valid_cells_only(rows: int, columns: int, data: st.DataObject) -> None:
    valid = (data.draw(st.integers(1, rows)), data.draw(st.integers(1, columns)))
    x = cells(torch.arange(float(rows * columns)).reshape(rows, columns), valid=valid)
    expect(run("tile.adds", x, 1.5), x[: valid[0], : valid[1]] + 1.5)
    expect(run("tile.lrelu", x, 0.5), x[: valid[0], : valid[1]])


# --- what the type rules refuse -----------------------------------------------------------------------------------

REFUSED: list[tuple[Any, ...]] = [
    ("tile.add", (var(tile((4, 8))), var(tile((4, 6)))), 1, "cannot broadcast"),
    ("tile.add", (var(tile((4, 8))), var(tensor((4, 8)))), 1, "mixes a tile with a tensor"),
    ("tile.add", (var(tile((4, 8))), scalar()), 1, "needs a tensor or tile"),
    ("tile.adds", (var(tile((4, 8))), var(tile((4, 8)))), 1, "needs a number"),
    ("tile.div", (var(tile((4, 8))), var(tile((4, 8), d.FP16))), 1, "one dtype"),
    ("tile.div", (var(tile((4, 8))), var(tile((4, 1)))), 1, "one shape"),
    ("tile.div", (var(tile((4, 8), valid=(3, 8))), var(tile((4, 8)))), 1, "one valid shape"),
    ("tile.div", (var(tile((4, 8), d.BF16)), var(tile((4, 8), d.BF16))), 0, "not BF16"),
    ("tile.subs", (var(tile((4, 8), d.UINT8)), scalar(d.UINT8)), 0, "not UINT8"),
    ("tile.sin", (var(tile((4, 8), d.FP16)),), 0, "not FP16"),
    ("tensor.exp", (var(tensor((4, 8), d.INT32)),), 0, "defined for floats"),
    ("tile.and", (var(tile((4, 8))), var(tile((4, 8)))), 0, "bits of integers"),
    ("tile.shls", (var(tile((4, 8), d.INT16)), scalar(d.FP32)), 1, "bits of integers"),
    ("tile.not", (var(tile((4, 8), d.INT32)),), 0, "not INT32"),
    ("tile.prelu", (var(tile((4, 8))), var(tile((4, 1))), TMP), 1, "one shape"),
    ("tile.part_add", (var(tile((4, 8))), var(tile((4, 8), d.FP16))), 1, "one dtype"),
]


@pytest.mark.parametrize(("name", "operands", "argument", "message"), REFUSED, ids=case_ids(REFUSED))
def test_refused(name: str, operands: tuple[Any, ...], argument: int, message: str) -> None:
    with pytest.raises(OpError, match=message) as caught:
        make_call(name, *operands)
    assert caught.value.argument == argument


def test_refusals_of_shapes_say_which_axis() -> None:
    with pytest.raises(OpError, match=r"\[4, 8\] with \[4, 6\]: axis 1 is 8 here and 6 there") as caught:
        make_call("tensor.add", var(tensor((4, 8))), var(tensor((4, 6))))
    assert caught.value.hint is not None
    assert 0 in caught.value.also


def test_every_dtype_of_the_table_is_known_to_the_runner() -> None:
    assert DTYPE[torch.int64] is d.INT64
