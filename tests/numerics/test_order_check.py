"""Orders of lanes: equal results are equal in every order, a race is reported with the two orders."""

import re
from pathlib import Path

import torch

import pypto_lab as lab
from pypto_lab.frontend.dump import read_dump
from pypto_lab.numerics.orders import order_check

DATA = Path(__file__).parent.parent / "data"
RACE = """# pypto.program: P
import pypto.language as pl
@pl.program
class P:
    @pl.function(type=pl.FunctionType.AIC)
    def cube(x: T, out: pl.Out[T]):
        t: pl.Tile[[16, 16], pl.FP32, pl.Mem.Mat] = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Mat)
        pl.tile.tpush_to_aiv(t, split=1)
    @pl.function(type=pl.FunctionType.AIV)
    def vector(x: T, out: pl.Out[T]) -> T:
        lane: pl.Scalar[pl.INDEX] = pl.tile.get_subblock_idx()
        h: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic(split=1)
        o: T = pl.tile.store(h, [PLACE, 0], out)
        pl.system.tfree_to_aic(h, split=1)
        return out
    @pl.function(type=pl.FunctionType.Group)
    def both(x: T, out: pl.Out[T]) -> T:
        self.cube(x, out)
        r: T = self.vector(x, out)
        return r
"""  # noqa: E501


def checked(place: str):
    text = re.sub(r"\bT\b", "pl.Tensor[[16, 16], pl.FP32]", RACE.replace("PLACE", place))
    values = {"x": torch.arange(256.0).view(16, 16), "out": torch.zeros(16, 16)}
    return order_check(read_dump(text, "kernel.py"), values)


def test_lanes_that_write_apart():
    report = checked("lane * 8")
    assert report.ok
    assert "22 orders of lanes give the same outputs" in str(report)


def test_lanes_that_write_the_same_rows():
    report = checked("0")
    (difference,) = report.differences
    assert (difference.output, difference.first, difference.cell, difference.count) == (
        "out",
        "lane-first",
        (0, 0),
        128,
    )
    assert difference.second in report.orders
    assert "`out` depends on the order of lanes: lane-first and " in str(report)


def test_a_mixed_kernel_of_the_project_in_twenty_orders():
    path = next((DATA / "dumps" / "k20_bidir_blocks" / "passes_explicit").glob("49_*.py"))
    case = lab.case(DATA / "kernels" / "k20_bidir_blocks" / "kernel.py")
    report = lab.order_check(read_dump(path.read_text(), path.name), case.make_inputs(0))
    assert report.ok
    assert sum("random" in order for order in report.orders) == 20
