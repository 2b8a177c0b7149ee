"""Two runs side by side, statement by statement."""

from __future__ import annotations

import pytest
import torch
from kernel_texts import incore, program

from pypto_lab.ir.nodes import Program
from pypto_lab.torch_codegen.execute import ScriptError, prepare
from pypto_lab.torch_codegen.lockstep import Moment, PartedError, Side, side_by_side

LOOP = """
    t: V16 = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)
    for i, (acc,) in pl.range(n, init_values=(t,)):
        more: V16 = pl.tile.add(acc, t)
        done: V16 = pl.yield_(more)
    o: T16 = pl.tile.store(done, [0, 0], out)
"""
PARAMETERS = "x: T16, n: pl.Scalar[pl.INDEX], out: pl.Out[T16]"


def side(made: Program, fill: float, n: int = 2, poison: int | None = None) -> Side:
    given = {"x": torch.full((16, 16), fill), "n": n, "out": torch.zeros(16, 16)}
    return Side(prepare(made, given), poison)


def test_both_make_each_statement_before_they_are_compared() -> None:
    made = incore(LOOP, PARAMETERS)
    first, second = side(made, 1.0), side(made, 2.0)
    seen: list[tuple[float, float]] = []

    def watch(a: Moment, b: Moment) -> bool:
        assert a.line.stmt is b.line.stmt
        if "more" in a.values:
            seen.append((a.values["more"][0, 0].item(), b.values["more"][0, 0].item()))
        return False

    side_by_side(first, second, watch)
    assert (2.0, 4.0) in seen
    assert seen[-1] == (3.0, 6.0)
    assert first.prepared.outputs["out"].eq(3).all()
    assert second.prepared.outputs["out"].eq(6).all()


def test_a_watch_can_stop_both() -> None:
    made = incore(LOOP, PARAMETERS)
    first, second = side(made, 1.0, n=100), side(made, 1.0, n=100)
    count = 0

    def watch(a: Moment, b: Moment) -> bool:
        nonlocal count
        count += 1
        return count == 5

    side_by_side(first, second, watch)
    assert count == 5
    assert not first.prepared.outputs["out"].any()


def test_runs_that_go_different_ways_are_told_apart() -> None:
    made = incore(LOOP, PARAMETERS)
    with pytest.raises(PartedError) as caught:
        side_by_side(side(made, 1.0, n=1), side(made, 1.0, n=2), lambda a, b: False)
    assert caught.value.first is not None
    assert caught.value.second is not None
    assert caught.value.first.line.stmt is not caught.value.second.line.stmt


def test_an_error_of_one_side_stops_both() -> None:
    made = incore("t: V16 = pl.tile.load(x, [n, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)", PARAMETERS)
    with pytest.raises(ScriptError, match=r"kernel\.py:8: RuntimeError: tile\.load"):
        side_by_side(side(made, 1.0, n=0), side(made, 1.0, n=4), lambda a, b: False)


def test_lanes_run_in_the_same_order_on_both_sides() -> None:
    made = program(
        """
        @pl.function(type=pl.FunctionType.AIC)
        def cube(x: T16, n: pl.Scalar[pl.INDEX], out: pl.Out[T16]):
            t: pl.Tile[[16, 16], pl.FP32, pl.Mem.Mat] = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Mat)
            for i in pl.range(n):
                pl.tile.tpush_to_aiv(t, split=1)
        @pl.function(type=pl.FunctionType.AIV)
        def vector(x: T16, n: pl.Scalar[pl.INDEX], out: pl.Out[T16]):
            lane: pl.Scalar[pl.INDEX] = pl.tile.get_subblock_idx()
            for i in pl.range(n):
                h: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic(split=1)
                o: T16 = pl.tile.store(h, [lane * 8, 0], out)
        @pl.function(type=pl.FunctionType.Group)
        def both(x: T16, n: pl.Scalar[pl.INDEX], out: pl.Out[T16]):
            self.cube(x, n, out)
            self.vector(x, n, out)
        """  # noqa: E501
    )
    lanes: list[str] = []
    side_by_side(side(made, 1.0), side(made, 2.0), lambda a, b: lanes.append(a.lane) or a.lane != b.lane)
    assert {"host", "AIC", "AIV0", "AIV1"} == set(lanes)


def test_the_two_sides_may_mark_undefined_cells_differently() -> None:
    body = "t: V16 = pl.tile.create([16, 16], dtype=pl.FP32, target_memory=pl.Mem.Vec)\n"
    made = incore(body + "o: T16 = pl.tile.store(t, [0, 0], out)", PARAMETERS)
    first, second = side(made, 0.0, poison=2), side(made, 0.0, poison=3)
    side_by_side(first, second, lambda a, b: False)
    assert first.prepared.outputs["out"].gt(0).all()
    assert second.prepared.outputs["out"].lt(0).all()
