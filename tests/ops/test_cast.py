"""Casts: rounding modes on ties, float grids, saturation and wrap-around, regions."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from op_running import case_ids, cells, expect, run, tile, var

from pypto_lab.ir import dtypes as d
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ops.record import make_call
from pypto_lab.torch_codegen.runtime.casts import _half_away, _to_grid
from pypto_lab.torch_codegen.runtime.numbers import _cast_scalar

BOTH_FILLS = True
TIES = [[0.5, 1.5, 2.5, -0.5, -1.5, 1.9, 2.9, -2.9]]
BY_MODE = {
    "none": [[0, 1, 2, 0, -1, 1, 2, -2]],
    "rint": [[0, 2, 2, 0, -2, 2, 3, -3]],
    "round": [[1, 2, 3, -1, -2, 2, 3, -3]],
    "floor": [[0, 1, 2, -1, -2, 1, 2, -3]],
    "ceil": [[1, 2, 3, 0, -1, 2, 3, -2]],
    "trunc": [[0, 1, 2, 0, -1, 1, 2, -2]],
    "odd": [[0, 1, 2, 0, -1, 1, 2, -2]],
}
STEP = 1 + 2**-7
"""The BF16 number after 1; halfway between them the modes part."""
HALFWAY = {
    "none": [[1.0, -1.0, 2 * STEP - 1, STEP]],
    "rint": [[1.0, -1.0, 2 * STEP - 1, STEP]],
    "round": [[STEP, -STEP, 2 * STEP - 1, STEP]],
    "floor": [[1.0, -STEP, STEP, STEP]],
    "ceil": [[STEP, -1.0, 2 * STEP - 1, STEP]],
    "trunc": [[1.0, -1.0, STEP, STEP]],
    "odd": [[STEP, -STEP, STEP, STEP]],
}
CASES: list[tuple[Any, ...]] = [
    *(("tile.cast", cells(TIES), d.INT32, mode, wanted) for mode, wanted in BY_MODE.items()),
    *(
        ("tensor.cast", cells([[1 + 2**-8, -1 - 2**-8, 1 + 3 * 2**-8, STEP]]), d.BF16, mode, wanted)
        for mode, wanted in HALFWAY.items()
    ),
    ("tile.cast", cells([[2.5, -2.5, 1.49, 0.0]]), d.FP32, "round", [[3.0, -3.0, 1.0, 0.0]]),
    ("tile.cast", cells([[2.5, -2.5]]), d.FP32, "none", [[2.5, -2.5]]),
    (
        "tile.cast",
        cells([[65504.0, 65519.0, 65520.0, -1e30]]),
        d.FP16,
        "rint",
        [[65504.0, 65504.0, math.inf, -math.inf]],
    ),
    ("tile.cast", cells([[65519.9, 65535.0, 65536.0]]), d.FP16, "trunc", [[65504.0, 65504.0, math.inf]]),
    ("tile.cast", cells([[math.nan, math.inf, -math.inf]]), d.FP16, "floor", [[math.nan, math.inf, -math.inf]]),
    ("tile.cast", cells([[2.0**-24, 2.0**-25, 3 * 2.0**-25]]), d.FP16, "rint", [[2.0**-24, 0.0, 2.0**-23]]),
    ("tile.cast", cells([[2.0**-25, -(2.0**-25)]]), d.FP16, "round", [[2.0**-24, -(2.0**-24)]]),
    ("tile.cast", cells([[2.0**-30, -(2.0**-30)]]), d.FP16, "ceil", [[2.0**-24, 0.0]]),
    ("tile.cast", cells([[17.0, 18.0, 19.0, 460.0, 1e9]]), d.FP8E4M3FN, "rint", [[16.0, 18.0, 20.0, 448.0, 448.0]]),
    ("tile.cast", cells([[17.0, -17.0]]), d.FP8E4M3FN, "round", [[18.0, -18.0]]),
    ("tile.cast", cells([[9.0, 11.0, 1e9]]), d.FP8E5M2, "rint", [[8.0, 12.0, 57344.0]]),
    ("tile.cast", cells([[0.25, 0.75, 2.5, 5.0, 9.0]]), d.FP4, "rint", [[0.0, 1.0, 2.0, 4.0, 6.0]]),
    ("tile.cast", cells([[0.25, 2.5, -5.0]]), d.FP4, "round", [[0.5, 3.0, -6.0]]),
    # HiFloat8: 3 fraction bits up to 2**3, 2 up to 2**7, 1 up to 2**15, powers of two below 2**-15.
    (
        "tile.cast",
        cells([[8.5, 17.0, 22.0, 200.0, 40000.0, 60000.0]]),
        d.HF8,
        "round",
        [[9.0, 16.0, 24.0, 192.0, 32768.0, 32768.0]],
    ),
    ("tile.cast", cells([[1.4 * 2**-17, 2.0**-22, 2.0**-24]]), d.HF8, "round", [[2.0**-17, 2.0**-22, 0.0]]),
    ("tile.cast", cells([[1.0, 3.0, 0.3, -1.0]]), d.FP8E8M0, "rint", [[1.0, 4.0, 0.25, math.nan]]),
    ("tile.cast", cells([[3.0, 0.3]]), d.FP8E8M0, "ceil", [[4.0, 0.5]]),
    ("tile.cast", cells([[1e10, -1e10, math.nan, math.inf]]), d.INT32, "trunc", [[2**31 - 1, -(2**31), 0, 2**31 - 1]]),
    ("tile.cast", cells([[40000.0, -40000.0]]), d.INT16, "trunc", [[40000 - 65536, 65536 - 40000]]),
    ("tile.cast", cells([[130.0, -130.0]], d.FP16), d.INT8, "rint", [[-126, 126]]),
    ("tile.cast", cells([[-1.0, 300.0]]), d.UINT16, "rint", [[0, 300]]),
    ("tile.cast", cells([[2.0**63, -(2.0**63)]]), d.INT64, "rint", [[float(2**63 - 1), -float(2**63)]]),
    ("tile.cast", cells([[-1.0, 2.0**63, 2.0**64, 5.0]]), d.UINT64, "rint", [[0, 2.0**63, float(2**64 - 1), 5.0]]),
    ("tile.cast", cells([[70000, -70000]], d.INT32), d.INT16, "none", [[4464, -4464]]),
    ("tile.cast", cells([[70000, -3]], d.INT32), d.UINT16, "none", [[65535, 0]]),
    ("tile.cast", cells([[300, -5]], d.INT16), d.UINT8, "none", [[255, 0]]),
    ("tile.cast", cells([[-1, 5]], d.INT8), d.INT32, "none", [[-1, 5]]),
    ("tile.cast", cells([[-1, 5]], d.INT32), d.UINT32, "none", [[2**32 - 1, 5]]),
    ("tile.cast", cells([[2049, 2051, -2049]], d.INT32), d.FP16, "rint", [[2048.0, 2052.0, -2048.0]]),
    ("tile.cast", cells([[2049, -2049]], d.INT32), d.FP16, "round", [[2050.0, -2050.0]]),
    ("tile.cast", cells([[2**24 + 1]], d.INT32), d.FP32, "floor", [[2.0**24]]),
    ("tile.cast", cells([[0.1]], d.FP16), d.FP32, "round", [[0.0999755859375]]),
    ("tensor.cast", cells([[9, -9, 3]], d.INT16), d.INT4, "none", [[7, -8, 3]]),
]
COVERS = {case[0] for case in CASES}


@pytest.mark.parametrize(("name", "x", "target", "mode", "wanted"), CASES, ids=case_ids(CASES))
def test_value(name: str, x: torch.Tensor, target: d.DType, mode: str, wanted: Any) -> None:
    expect(run(name, x, target_type=target, mode=mode), wanted)


def test_integers_reach_sixteen_bits_through_fp32() -> None:
    """The device has no direct conversion: INT32 2**24 + 2**16 + 1 is a BF16 tie once it is FP32."""
    value = 2**24 + 2**16 + 1
    expect(run("tile.cast", cells([[value]], d.INT32), target_type=d.BF16, mode="rint"), [[2.0**24]])
    expect(run("tile.cast", cells([[value]], d.INT32), target_type=d.BF16, mode="round"), [[2.0**24 + 2**17]])


@given(
    st.floats(-70000, 70000, width=32), st.sampled_from([d.FP16, d.BF16]), st.sampled_from(["floor", "ceil", "rint"])
)
@settings(deadline=None, max_examples=80)
def test_directed_rounding_brackets_the_value(value: float, target: d.DType, mode: str) -> None:
    found = run("tile.cast", cells([[value]]), target_type=target, mode=mode).item()
    if math.isinf(found):
        assert abs(value) > 65504
        return
    assert found <= value if mode == "floor" else found >= value if mode == "ceil" else True
    low = run("tile.cast", cells([[value]]), target_type=target, mode="floor").item()
    high = run("tile.cast", cells([[value]]), target_type=target, mode="ceil").item()
    assert found in (low, high)
    odd = run("tile.cast", cells([[value]]), target_type=target, mode="odd")
    assert odd.item() in (low, high)
    assert odd.item() == value or odd.view(torch.int16).item() % 2 == 1


@given(st.floats(width=32, allow_nan=False), st.sampled_from([d.FP16, d.BF16, d.FP8E5M2, d.FP8E4M3FN]))
@settings(deadline=None, max_examples=80)
def test_half_to_even_is_torchs_rounding_inside_the_range(value: float, target: d.DType) -> None:
    if abs(value) > {d.FP16: 65504.0, d.BF16: 3e38, d.FP8E5M2: 57344.0, d.FP8E4M3FN: 448.0}[target]:
        return
    found = run("tile.cast", cells([[value]]), target_type=target, mode="rint")
    assert torch.equal(found.float(), torch.tensor([[value]]).to(found.dtype).float())


@given(
    st.floats(-300, 300, width=32),
    st.sampled_from(["rint", "round", "floor", "ceil", "trunc", "odd"]),
    st.sampled_from([torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]),
)
@settings(deadline=None, max_examples=80)
def test_scalars_and_tiles_round_alike(value: float, mode: str, target: torch.dtype) -> None:
    dtype = {
        torch.float16: d.FP16,
        torch.bfloat16: d.BF16,
        torch.float8_e4m3fn: d.FP8E4M3FN,
        torch.float8_e5m2: d.FP8E5M2,
    }
    found = run("tile.cast", cells([[value]]), target_type=dtype[target], mode=mode)
    assert found.float().item() == _cast_scalar(value, target, mode)


def test_the_region_and_the_box_stay() -> None:
    x = cells(torch.full((4, 6), 2.5), valid=(3, 5))
    expect(run("tile.cast", x, target_type=d.INT16, mode="round"), torch.full((3, 5), 3))
    expect(run("tensor.cast", x, target_type=d.BF16, mode="rint"), torch.full((3, 5), 2.5))


def test_the_default_mode_is_round() -> None:
    expect(run("tile.cast", cells([[2.5]]), target_type=d.INT32), [[3]])


def test_unknown_modes_and_dtypes_are_refused() -> None:
    with pytest.raises(OpError, match="no rounding mode 'rounding'") as caught:
        make_call("tile.cast", var(tile((4, 8))), target_type=d.INT8, mode="rounding")
    assert caught.value.argument == "mode"
    assert caught.value.hint is not None
    assert "`round`" in caught.value.hint
    with pytest.raises(OpError, match="needs a dtype"):
        make_call("tile.cast", var(tile((4, 8))))


def test_hf4_has_no_published_grid() -> None:
    from pypto_lab.torch_codegen.runtime.casts import _cast

    with pytest.raises(ValueError, match="no published grid"):
        _cast(cells([[1.0]]), target_type="HF4", mode="rint")


@given(st.floats(width=32), st.sampled_from([torch.float16, torch.bfloat16]), st.booleans())
@settings(deadline=None, max_examples=200)
def test_half_away_agrees_with_the_grid(value: float, target: torch.dtype, tie: bool) -> None:
    """The quick way to 16 bits gives what exact rounding on the grid gives, ties above all."""
    if tie and math.isfinite(value):
        near = torch.tensor(value).to(target)
        outward = (near.view(torch.int16) + 1).view(target)
        value = (near.float() * 0.5 + outward.float() * 0.5).item()
    x = torch.tensor([[value]])
    exact = _to_grid(x.double(), target, "round").float().to(target)
    assert torch.equal(_half_away(x, target).nan_to_num(7.0), exact.nan_to_num(7.0))
