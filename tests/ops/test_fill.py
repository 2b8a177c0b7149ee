"""Filling: constants, padding, ramps, triangles and counter-based random numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from moving import infer, numbered, on_tensor, on_tile, run, same, undefined_outside
from op_running import Number, check_plain, dims, tile

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.enums import MemorySpace, PadValue
from pypto_lab.ir.types import TileType, TileView
from pypto_lab.ops import OPS
from pypto_lab.torch_codegen.runtime import fill, values

COVERS = {
    "tile.fillpad_inplace",
    "tile.tri",
    *(
        f"{layer}.{name}"
        for layer in ("tensor", "tile")
        for name in ("full", "fillpad", "fillpad_expand", "ci", "random")
    ),
}

N = n.Var(name="N", type=n.INDEX)
INF = float("inf")


def on(layer: str, data: torch.Tensor) -> Any:
    return on_tile(data) if layer == "tile" else on_tensor(data)


# --- full ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", ["tensor", "tile"])
@pytest.mark.parametrize(
    ("dtype", "value", "held"),
    [
        (dtypes.FP32, 1.5, 1.5),
        (dtypes.BF16, -INF, -INF),
        (dtypes.INT32, 7, 7),
        (dtypes.INT8, 200, -56),
        (dtypes.UINT16, -1, 65535),
        (dtypes.UINT32, 5, 5),
    ],
)
def test_every_cell_holds_the_value(layer: str, dtype: Any, value: float, held: float) -> None:
    result = run(f"{layer}.full", [3, 5], Number(value, dtype), dtype=dtype)
    assert result.to(torch.float64).eq(held).all()
    call = infer(f"{layer}.full", [3, 5], Number(value, dtype), dtype=dtype)
    check_plain(OPS[f"{layer}.full"], call, ([3, 5], value), result)


def test_a_full_tile_has_constant_extents() -> None:
    with pytest.raises(OpError, match="constant extents"):
        infer("tile.full", [N, 4], 0.0, dtype=dtypes.FP32)
    assert infer("tensor.full", [N, 4], 0.0, dtype=dtypes.FP32).type.shape[0] is N


# --- fillpad ---------------------------------------------------------------------------------------------------------

PADS = [
    (torch.float32, PadValue.zero, 0),
    (torch.float32, PadValue.min, -INF),
    (torch.float32, PadValue.max, INF),
    (torch.bfloat16, PadValue.min, -INF),
    (torch.float16, -2.5, -2.5),
    (torch.int32, PadValue.min, -(2**31)),
    (torch.int32, PadValue.max, 2**31 - 1),
    (torch.int8, PadValue.max, 127),
    (torch.uint16, PadValue.min, 0),
    (torch.uint16, PadValue.max, 65535),
    (torch.int16, 9, 9),
    (torch.int32, -INF, -(2**31)),
]


@pytest.mark.parametrize(("dtype", "pad", "number"), PADS)
@pytest.mark.parametrize("name", ["tensor.fillpad", "tile.fillpad", "tile.fillpad_inplace"])
def test_everything_outside_the_region_is_the_pad(name: str, dtype: torch.dtype, pad: Any, number: float) -> None:
    source = numbered(4, 5, dtype=dtype, valid=(3, 2))
    before = source.clone()
    result = run(name, on(OPS[name].namespace, source), pad_value=pad)
    assert not values._is_partial(result), "the result is fully valid"
    wanted = torch.full((4, 5), number, dtype=torch.float64)
    wanted[:3, :2] = numbered(4, 5).to(torch.float64)[:3, :2]
    assert torch.equal(result.to(torch.float64), wanted)
    assert (result is source) == (name == "tile.fillpad_inplace")
    assert result is source or torch.equal(source.view(torch.uint8), before.view(torch.uint8))


def test_in_place_padding_can_work_on_a_copy() -> None:
    source = numbered(4, 5, valid=(3, 2))
    result = run("tile.fillpad_inplace", on_tile(source), pad_value=PadValue.zero, copy=True)
    assert result is not source
    assert values._valid_of(source) == (3, 2)
    assert source[3, 4] == -77.0


def test_an_empty_region_is_all_pad_and_a_full_one_none() -> None:
    assert run("tile.fillpad", on_tile(numbered(2, 3, valid=(0, 3))), pad_value=PadValue.zero).count_nonzero() == 0
    same(run("tile.fillpad", on_tile(numbered(2, 3)), pad_value=PadValue.min), numbered(2, 3))


@pytest.mark.parametrize("layer", ["tensor", "tile"])
def test_a_larger_box_is_padded_too(layer: str) -> None:
    result = run(f"{layer}.fillpad_expand", on(layer, numbered(3, 4, valid=(2, 3))), [5, 4], pad_value=PadValue.max)
    wanted = torch.full((5, 4), INF)
    wanted[:2, :3] = numbered(3, 4)[:2, :3]
    same(result, wanted)
    with pytest.raises(OpError, match="smaller than"):
        infer(f"{layer}.fillpad_expand", on(layer, numbered(3, 4)), [5, 3])
    with pytest.raises(RuntimeError, match="do not fit a box"):
        fill._fillpad_expand(numbered(3, 4), [5, 3])


def test_the_type_of_a_padded_tile_says_how() -> None:
    for given_, stated in ((PadValue.min, PadValue.min), (0, PadValue.zero), (INF, PadValue.max), (1.5, None)):
        view = infer("tile.fillpad", tile((4, 4)), pad_value=given_).type.view
        assert (view.pad if view else None) is stated
    assert infer("tensor.fillpad", on_tensor(numbered(2, 2)), pad_value=PadValue.min).type.view is None
    with pytest.raises(OpError, match="needs a value to fill with"):
        infer("tile.fillpad", tile((4, 4)), pad_value=PadValue.null)
    row = TileType(dims((4, 4)), dtypes.FP32, TileView(valid_shape=(N, n.const(4))), MemorySpace.Vec)
    assert infer("tile.fillpad", row).type.stated_valid is None


# --- ramps and triangles ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", ["tensor", "tile"])
@pytest.mark.parametrize("dtype", [dtypes.INT32, dtypes.INT16, dtypes.UINT32])
def test_a_ramp_counts_up_or_down(layer: str, dtype: Any) -> None:
    up = run(f"{layer}.ci", Number(5, dtype), [1, 7], dtype=dtype)
    assert up.tolist() == [[5, 6, 7, 8, 9, 10, 11]]
    down = run(f"{layer}.ci", Number(9, dtype), [1, 1, 4], dtype=dtype, descending=True)
    assert down.tolist() == [[[9, 8, 7, 6]]]


def test_ramps_are_checked() -> None:
    for shape, attrs, words in (
        ([2, 8], {}, "axis 0 of .* is not 1"),
        ([1, 1], {}, "more than one column"),
        ([1, 8], {"dtype": dtypes.FP32}, "not FP32"),
    ):
        with pytest.raises(OpError, match=words):
            infer("tile.ci", Number(0, dtypes.INT32), shape, **attrs)
    with pytest.raises(OpError, match="needs an integer"):
        infer("tensor.ci", 1.5, [1, 8])


@settings(max_examples=60, deadline=None)
@given(st.integers(-6, 6), st.integers(1, 5), st.integers(1, 6), st.booleans())
def test_a_triangle_is_that_of_torch(diagonal: int, rows: int, columns: int, upper: bool) -> None:
    result = run("tile.tri", Number(diagonal, dtypes.INT32), [rows, columns], dtype=dtypes.FP32, upper=upper)
    ones = torch.ones(rows, columns)
    same(result, torch.triu(ones, diagonal) if upper else torch.tril(ones, diagonal))


def test_a_triangle_fills_its_region_only() -> None:
    result = run("tile.tri", Number(0, dtypes.INT32), [4, 8], [3, 5], dtype=dtypes.INT16)
    same(result, torch.tril(torch.ones(3, 5)).to(torch.int16))
    undefined_outside(result)
    for arguments, words in (([[4, 8, 1]], "needs two axes"), ([[4, 8], [5, 8]], "larger than the box")):
        with pytest.raises(OpError, match=words):
            infer("tile.tri", Number(0, dtypes.INT32), *arguments)
    with pytest.raises(OpError, match="not FP64"):
        infer("tile.tri", Number(0, dtypes.INT32), [4, 8], dtype=dtypes.FP64)


# --- random ----------------------------------------------------------------------------------------------------------


def philox(counter: int, key: tuple[int, int], rounds: int) -> list[int]:
    """Philox 4x32 on plain integers (Salmon and others, SC11)."""
    mask = 0xFFFFFFFF
    c = [counter >> 32 * i & mask for i in range(4)]
    k = list(key)
    for _ in range(rounds):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(second >> 32) ^ c[1] ^ k[0], second & mask, (first >> 32) ^ c[3] ^ k[1], first & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        (0, (0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        (2**128 - 1, (2**32 - 1, 2**32 - 1), [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    ],
)
def test_the_words_are_those_of_the_published_answers(counter: int, key: tuple[int, int], words: list[int]) -> None:
    assert fill._philox_words([counter], key, 10)[0].tolist() == words
    assert philox(counter, key, 10) == words


@pytest.mark.parametrize("rounds", [7, 10])
@pytest.mark.parametrize(("shape", "valid"), [((2, 64), None), ((3, 300), (2, 290)), ((1, 1024), None)])
def test_random_cells_follow_the_instruction(shape: tuple[int, int], valid: Any, rounds: int) -> None:
    key, counter = (11, 2**32 - 5), (2**32 - 3, 2**32 - 1, 7, 2**31)
    words = [Number(w, dtypes.INT64) for w in (*key, *counter)]
    extra = [] if valid is None else [list(valid)]
    result = run("tile.random", *words, list(shape), *extra, rounds=rounds)
    rows, columns = valid or shape
    base = sum(c << 32 * i for i, c in enumerate(counter))
    passes = -(-columns // 256)
    for row in range(rows):
        for column in (0, 1, 63, 64, 65, 200, columns - 1):
            if column >= columns:
                continue
            start = base + row * ((passes - 1) * 64 + (columns - 1) % 64 + 1)
            wanted = philox((start + column // 4) % 2**128, key, rounds)[column % 4]
            assert result[row, column].item() == wanted
    undefined_outside(result)


def test_random_is_the_same_for_both_layers_and_signs() -> None:
    words = [Number(w, dtypes.INT32) for w in range(6)]
    first = run("tensor.random", *words, [2, 100])
    again = run("tile.random", *words, [2, 100], dtype=dtypes.INT32)
    assert torch.equal(first.view(torch.int32), again)
    with pytest.raises(OpError, match="7 or 10 rounds"):
        infer("tile.random", *words, [2, 100], rounds=8)
    with pytest.raises(OpError, match="not FP32"):
        infer("tensor.random", *words, [2, 100], dtype=dtypes.FP32)
