"""Unordered accesses to global memory: between SPMD blocks and between the lanes of a group."""

import re
from pathlib import Path

import pytest
import torch

import pypto_lab as lab
from pypto_lab.frontend.dump import read_dump
from pypto_lab.numerics.races import race_check

DATA = Path(__file__).parent.parent / "data"
HEAD = "# pypto.program: P\nimport pypto.language as pl\n@pl.program\nclass P:\n"
BLOCKS = """
    @pl.function(type=pl.FunctionType.AIV)
    def rows(x: T, out: pl.InOut[T]) -> T:
        b: pl.Scalar[pl.INDEX] = pl.tile.get_block_idx()
        t: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.load(x, [0, 0], [8, 16], [8, 16], target_memory=pl.Mem.Vec)
        o: T = pl.tile.store(t, [PLACE, 0], outATOMIC)
        return out
    @pl.function(type=pl.FunctionType.Spmd)
    def wide(self, x: T, out: pl.InOut[T]) -> T:
        y: T = self.rows(x, out)
        return out
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: T, out: pl.InOut[T]) -> T:
        y: T = self.wide(x, out, attrs={"core_num": 3})
        return y
"""
SCALARS = """
    @pl.function(type=pl.FunctionType.AIV)
    def rows(out: pl.InOut[pl.Tensor[[64], pl.INT32]]):
        b: pl.Scalar[pl.INDEX] = pl.tile.get_block_idx()
        o: pl.Tensor[[64], pl.INT32] = pl.tensor.write(out, [b * STEP], 7)
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, out: pl.InOut[pl.Tensor[[64], pl.INT32]]):
        self.rows(out, attrs={"core_num": 4})
"""
EXCHANGE = """
    @pl.function(type=pl.FunctionType.AIC)
    def cube(x: T, work: pl.InOut[T], out: pl.Out[T]):
        t: pl.Tile[[16, 16], pl.FP32, pl.Mem.Mat] = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Mat)
        w: T = pl.tile.store(t, [0, 0], work)
        PUSH
    @pl.function(type=pl.FunctionType.AIV)
    def vector(x: T, work: pl.InOut[T], out: pl.Out[T]) -> T:
        POP
        r: pl.Tile[[16, 16], pl.FP32, pl.Mem.Vec] = pl.tile.load(work, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)
        o: T = pl.tile.store(r, [0, 0], out)
        FREE
        return out
    @pl.function(type=pl.FunctionType.Group)
    def both(x: T, work: pl.InOut[T], out: pl.Out[T]) -> T:
        self.cube(x, work, out)
        r: T = self.vector(x, work, out)
        return r
"""  # noqa: E501


def found(text: str, **parts: str):
    for key, part in parts.items():
        text = text.replace(key, part)
    text = re.sub(r"\bT\b", "pl.Tensor[[32, 16], pl.FP32]", HEAD + text)
    program = read_dump(text, "kernel.py")
    values = {name: torch.ones(32, 16) for name in ("x", "work", "out")}
    if "INT32" in text:
        values["out"] = torch.zeros(64, dtype=torch.int32)
    wanted = {p.name for p in list(program.functions.values())[-1].params}
    return race_check(program, {name: value for name, value in values.items() if name in wanted})


def test_blocks_that_write_apart_or_add_are_no_finding():
    assert found(BLOCKS, PLACE="b * 8", ATOMIC="") == ()
    assert found(BLOCKS, PLACE="0", ATOMIC=", atomic=pl.AtomicType.Add") == ()


def test_blocks_that_write_the_same_rows():
    (race,) = found(BLOCKS, PLACE="b * 4", ATOMIC="")
    assert (race.tensor, race.cells) == ("out", 4 * 16)
    assert {race.first.lane, race.second.lane} == {"host of block 0", "host of block 1"}
    assert race.first.where == "kernel.py:10"
    assert "nothing orders them" in str(race)


@pytest.mark.parametrize(("step", "races"), [("1", True), ("8", True), ("16", False)])
def test_scalars_of_blocks_in_one_line(step, races):
    result = found(SCALARS, STEP=step)
    assert bool(result) is races
    assert all(race.lines for race in result)
    assert "64-byte line of `out`" in "".join(map(str, result)) or not races


def test_lanes_that_exchange_through_memory_need_a_push_between():
    (race,) = found(EXCHANGE, PUSH="", POP="", FREE="")
    assert (race.tensor, race.cells) == ("work", 256)
    assert {race.first.kind, race.second.kind} == {"writes", "reads"}
    assert {race.first.where, race.second.where} == {"kernel.py:9", "kernel.py:14"}
    signal = {
        "PUSH": "pl.tile.tpush_to_aiv(t, split=0)",
        "POP": "p: pl.Tile[[16, 16], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic(split=0)",
        "FREE": "pl.system.tfree_to_aic(p, split=0)",
    }
    assert found(EXCHANGE, **signal) == ()


def test_a_push_before_the_store_orders_nothing():
    store = "w: T = pl.tile.store(t, [0, 0], work)"
    text = EXCHANGE.replace(f"{store}\n        PUSH", f"PUSH\n        {store}")
    result = found(
        text,
        PUSH="pl.tile.tpush_to_aiv(t, split=0)",
        POP="p: pl.Tile[[16, 16], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic(split=0)",
        FREE="pl.system.tfree_to_aic(p, split=0)",
    )
    assert [race.tensor for race in result] == ["work"]


@pytest.mark.parametrize(
    "kernel", ["k14_splitk_atomic", "k20_bidir_blocks", "k29_spmd_blocks", "k30_pipe_two_groups", "k32_pipe_bidir_dual"]
)
def test_lowered_kernels_of_the_project_have_no_race(kernel):
    case = lab.case(DATA / "kernels" / kernel / "kernel.py")
    path = next((DATA / "dumps" / kernel / "passes_explicit").glob("49_*.py"))
    assert race_check(read_dump(path.read_text(), path.name), case.make_inputs(0)) == ()
