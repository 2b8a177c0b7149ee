"""Tiles between the cube and the vector lanes: every direction, every split, as users write them and as lowered."""

from __future__ import annotations

import re

import pytest
import torch
from kernel_texts import both_ways, program

import pypto_lab as lab
from pypto_lab.torch_codegen.execute import run

DIRECTIONS = ("vector to cube", "cube to vector", "both ways")
MODES = ("NONE", "UP_DOWN", "LEFT_RIGHT")

USER = """
import pypto.language as pl

@pl.jit
def mixed(a: pl.Tensor[[16, 16], pl.FP32], b: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP{split}):
        left = {left}
        acc = pl.matmul(left, b, out_dtype=pl.FP32)
        out[:] = {result}
    return out
"""

LOWERED = """
    @pl.function(type=pl.FunctionType.AIC)
    def cube(a: T16, b: T16, out: pl.Out[T16]):
        pl.system.aic_initialize_pipe(pl.const(0, pl.INT32), pl.const(0, pl.INT32), dir_mask=3, slot_size=1024)
        right: pl.Tile[[16, 16], pl.FP32, pl.Mem.Right] = pl.tile.load(b, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Right)
        {cube_in}
        acc: pl.Tile[[16, 16], pl.FP32, pl.Mem.Acc] = pl.tile.matmul(left, right)
        {cube_out}
    @pl.function(type=pl.FunctionType.AIV)
    def vector(a: T16, b: T16, out: pl.Out[T16]) -> T16:
        pl.system.aiv_initialize_pipe(pl.const(0, pl.INT32), pl.const(0, pl.INT32), dir_mask=3, slot_size=1024)
        lane: pl.Scalar[pl.INDEX] = pl.tile.get_subblock_idx()
        {vector_out}
        {vector_in}
        return out
    @pl.function(type=pl.FunctionType.Group)
    def together(a: T16, b: T16, out: pl.Out[T16]) -> T16:
        self.cube(a, b, out)
        r: T16 = self.vector(a, b, out)
        return r
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: T16, b: T16, out: pl.Out[T16]) -> T16:
        y: T16 = self.together(a, b, out)
        return y
"""  # noqa: E501
PARTS = {"NONE": ("16, 16", "0, 0"), "UP_DOWN": ("8, 16", "lane * 8, 0"), "LEFT_RIGHT": ("16, 8", "0, lane * 8")}


def values() -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(3)
    a, b = (torch.randint(-4, 5, (16, 16), generator=g).float() for _ in range(2))
    return {"a": a, "b": b, "out": torch.zeros(16, 16)}


def expected(direction: str) -> torch.Tensor:
    given = values()
    left = given["a"] if direction == "cube to vector" else given["a"] + 1
    product = left @ given["b"]
    return product if direction == "vector to cube" else product * 0.5


def lines(*rows: str) -> str:
    return "\n        ".join(rows)


def lowered(direction: str, mode: str) -> str:
    split = MODES.index(mode)
    shape, place = PARTS[mode]
    part = f"pl.Tile[[{shape}], pl.FP32, pl.Mem.Vec]"
    sends, gets = direction != "cube to vector", direction != "vector to cube"
    tile = "pl.Tile[[16, 16], pl.FP32, pl.Mem.{}]"
    whole = [
        f"whole: {tile.format('Mat')} = pl.tile.tpop_from_aiv(split={split})",
        f"left: {tile.format('Left')} = pl.tile.move(whole, target_memory=pl.Mem.Left)",
        f"pl.system.tfree_to_aiv(whole, split={split})",
    ]
    load = f"left: {tile.format('Left')} = pl.tile.load(a, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Left)"
    send = [
        f"t: {part} = pl.tile.load(a, [{place}], [{shape}], [{shape}], target_memory=pl.Mem.Vec)",
        f"u: {part} = pl.tile.adds(t, 1.0)",
        f"pl.tile.tpush_to_aic(u, split={split})",
    ]
    get = [
        f"h: {part} = pl.tile.tpop_from_aic(split={split})",
        f"w: {part} = pl.tile.muls(h, 0.5)",
        f"pl.system.tfree_to_aic(h, split={split})",
        f"o: T16 = pl.tile.store(w, [{place}], out)",
    ]
    return LOWERED.format(
        cube_in=lines(*whole) if sends else load,
        cube_out=f"pl.tile.tpush_to_aiv(acc, split={split})" if gets else "o: T16 = pl.tile.store(acc, [0, 0], out)",
        vector_out=lines(*send) if sends else "",
        vector_in=lines(*get) if gets else "",
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_as_users_write_it(direction: str, mode: str) -> None:
    text = USER.format(
        split="" if mode == "NONE" else f", optimizations=[pl.split(pl.SplitMode.{mode})]",
        left="pl.mul(a, 1.0)" if direction == "cube to vector" else "pl.add(a, 1.0)",
        result="acc" if direction == "vector to cube" else "pl.mul(acc, 0.5)",
    )
    got = run(lab.load(text), values(), check_shapes=True).outputs["out"]
    assert torch.equal(got, expected(direction))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_as_lowered(direction: str, mode: str) -> None:
    made = program(lowered(direction, mode))
    result = both_ways(made, values())
    assert result.findings == ()
    assert torch.equal(result.outputs["out"], expected(direction))
    assert torch.equal(run(made, values(), check_shapes=True).outputs["out"], expected(direction))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_twenty_orders_of_the_lanes_give_the_same_numbers(direction: str, mode: str) -> None:
    report = lab.order_check(program(lowered(direction, mode)), values())
    assert report.ok, str(report)
    assert len(report.orders) == 22


def odd(rows: int, columns: int, split: int) -> str:
    """A cube that pushes a tile with an odd extent; the vector lanes store their parts."""
    half = (9, columns) if split == 3 else (rows, 9)
    valid = f"[9 - lane, {columns}]" if split == 3 else f"[{rows}, 9 - lane]"
    place = "lane * 9, 0" if split == 3 else "0, lane * 9"
    view = f"pl.Tile[[{half[0]}, {half[1]}], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape={valid})]"
    text = LOWERED.format(
        cube_in="left: pl.Tile[[16, 16], pl.FP32, pl.Mem.Left] = pl.tile.load(a, [0, 0], [16, 16], [16, 16], "
        "target_memory=pl.Mem.Left)",
        cube_out=lines(
            f"odd: pl.Tile[[{rows}, {columns}], pl.FP32, pl.Mem.Mat] = pl.tile.load(c, [0, 0], [{rows}, {columns}], "
            f"[{rows}, {columns}], target_memory=pl.Mem.Mat)",
            f"pl.tile.tpush_to_aiv(odd, split={split})",
        ),
        vector_out="",
        vector_in=lines(
            f"h: {view} = pl.tile.tpop_from_aic(split={split})",
            f"w: {view} = pl.tile.muls(h, 3.0)",
            f"pl.system.tfree_to_aic(h, split={split})",
            f"o: T = pl.tile.store(w, [{place}], out)",
        ),
    )
    text = text.replace("out: pl.Out[T16]", "out: pl.Out[T], c: T").replace("(a, b, out)", "(a, b, out, c)")
    text = re.sub(r"-> T16|\b([ry]): T16", lambda found: found[0].replace("T16", "T"), text)
    return re.sub(r"\bT\b", f"pl.Tensor[[{rows}, {columns}], pl.FP32]", text)


@pytest.mark.parametrize(("rows", "columns", "split"), [(17, 16, 3), (16, 17, 4)])
def test_odd_codes_divide_seventeen_into_nine_and_eight(rows: int, columns: int, split: int) -> None:
    c = torch.arange(rows * columns).float().view(rows, columns)
    given = {"a": torch.zeros(16, 16), "b": torch.zeros(16, 16), "out": torch.zeros(rows, columns), "c": c}
    result = both_ways(program(odd(rows, columns, split)), given)
    assert torch.equal(result.outputs["out"], c * 3)


def test_tiles_of_unequal_size_share_one_pipe() -> None:
    text = LOWERED.format(
        cube_in="left: pl.Tile[[16, 16], pl.FP32, pl.Mem.Left] = pl.tile.load(a, [0, 0], [16, 16], [16, 16], "
        "target_memory=pl.Mem.Left)",
        cube_out=lines(
            "pl.tile.tpush_to_aiv(acc, split=1)",
            "top: pl.Tile[[8, 16], pl.FP32, pl.Mem.Mat] = pl.tile.load(a, [0, 0], [8, 16], [8, 16], "
            "target_memory=pl.Mem.Mat)",
            "pl.tile.tpush_to_aiv(top, split=1)",
        ),
        vector_out="",
        vector_in=lines(
            "h: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic(split=1)",
            "q: pl.Tile[[4, 16], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic(split=1)",
            "o1: T16 = pl.tile.store(h, [lane * 8, 0], out)",
            "o2: T16 = pl.tile.store(q, [lane * 8, 0], out)",
            "pl.system.tfree_to_aic(h, split=1)",
            "pl.system.tfree_to_aic(q, split=1)",
        ),
    )
    given = values()
    want = given["a"] @ given["b"]
    want[0:4], want[8:12] = given["a"][0:4], given["a"][4:8]
    assert torch.equal(both_ways(program(text), given).outputs["out"], want)
