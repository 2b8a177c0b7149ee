"""Scalars at their width."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pypto_lab.torch_codegen.runtime import numbers

WIDTHS = {
    "_i8": torch.int8,
    "_i16": torch.int16,
    "_i32": torch.int32,
    "_i64": torch.int64,
    "_u8": torch.uint8,
    "_u16": torch.uint16,
    "_u32": torch.uint32,
    "_u64": torch.uint64,
}


@pytest.mark.parametrize("name", WIDTHS)
@given(value=st.integers(-(2**70), 2**70))
def test_integers_wrap(name: str, value: int) -> None:
    wrapped = getattr(numbers, name)(value)
    info = torch.iinfo(WIDTHS[name])
    assert info.min <= wrapped <= info.max
    assert (wrapped - value) % 2**info.bits == 0


@given(st.floats(allow_nan=False))
def test_floats_round_half_to_even(value: float) -> None:
    wide = torch.tensor(value, dtype=torch.float64)
    assert numbers._f32(value) == wide.to(torch.float32).item()
    single = numbers._f32(value)
    assert numbers._f16(single) == torch.tensor(single).to(torch.float16).item()
    assert numbers._bf16(single) == torch.tensor(single).to(torch.bfloat16).item()


def test_signed_zero_and_nan_stay() -> None:
    assert math.copysign(1, numbers._f16(-1e-30)) == -1
    assert math.isnan(numbers._bf16(math.nan))
    assert numbers._f16(-math.inf) == -math.inf


@pytest.mark.parametrize(
    ("value", "dtype", "mode", "wanted"),
    [
        (2.7, torch.int32, None, 2),
        (-2.7, torch.int32, None, -2),
        (2.5, torch.int32, "rint", 2),
        (2.5, torch.int32, "round", 3),
        (-2.5, torch.int32, "floor", -3),
        (-2.5, torch.int32, "ceil", -2),
        (1e20, torch.int32, None, 2**31 - 1),
        (math.nan, torch.int32, None, 0),
        (-math.inf, torch.int16, None, -(2**15)),
        (300, torch.uint8, None, 44),
        (-1, torch.uint32, None, 2**32 - 1),
        (2.7, torch.bfloat16, None, 2.703125),
        (2.7, torch.float16, None, 2.69921875),
        (70000, torch.float16, None, math.inf),
        (0.1, torch.float64, None, 0.1),
        (5, torch.bool, None, True),
        (0, torch.bool, None, False),
        (3.0, torch.float8_e4m3fn, None, 3.0),
        (500.0, torch.float8_e4m3fn, None, 448.0),
        (5.0, "FP4", None, 4.0),
        (5.0, "FP4", "round", 6.0),
        (17.0, "HF8", "round", 16.0),
        (9, "INT4", None, -7),
    ],
)
def test_casts(value: float, dtype: torch.dtype | str, mode: str | None, wanted: float) -> None:
    found = numbers._cast_scalar(value, dtype, mode)
    assert found == wanted
    assert type(found) is type(wanted)


def test_a_number_for_an_integer_tile_drops_its_fraction() -> None:
    assert numbers._narrowed(2.9, torch.int16) == 2
    assert numbers._narrowed(math.nan, torch.int16) == 0
    assert numbers._narrowed(0.1, torch.float16) == 0.0999755859375
