"""The memory plan: lifetimes, rings, capacity and peak use, from the types of the last stage."""

from __future__ import annotations

from functools import cache

import pytest
from bench_support import as_written, kernel, last_dump, lowered
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_lab.compat.cases import case
from pypto_lab.frontend.dump import read_dump
from pypto_lab.lowering.pipeline import Lowered, lower
from pypto_lab.lowering.target import TARGETS
from pypto_lab.view.workbench import workbench
from pypto_lab.view.workbench.plan import FunctionMemory, PlannedSpace, PlannedTile, memory_plan

DUMP = """# pypto.program: P
import pypto.language as pl

@pl.program
class P:
    @pl.function(type=pl.FunctionType.AIV)
    def f(self, x: pl.Tensor[[16, 16], pl.FP32], y: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        mem_vec_0: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 1024)
        mem_vec_1: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 1024)
        ring: pl.Scalar[pl.INT32] = pl.system.reserve_buffer(name='ring', size=4096, base=8192)
        a: pl.Tile[[16, 16], pl.FP32, pl.MemRef(mem_vec_0, pl.const(0, pl.INT64), 1024), pl.Mem.Vec] = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)
        for i in pl.range(3):
            b: pl.Tile[[16, 16], pl.FP32, pl.MemRef(mem_vec_1, pl.const(1024, pl.INT64), 1024), pl.Mem.Vec] = pl.tile.add(a, a)
            y0: pl.Tensor[[16, 16], pl.FP32] = pl.tile.store(b, [0, 0], y)
        c: pl.Tile[[16, 16], pl.FP32, pl.MemRef(mem_vec_0, pl.const(0, pl.INT64), 1024), pl.Mem.Vec] = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)
        return c
"""  # noqa: E501  a line of a printed program is as long as its types are


@cache
def lowering(name: str, arch: str = "a2a3") -> Lowered:
    subject = case(kernel(name))
    return lower(subject.program(subject.make_inputs(0)), arch)


def tiles_of(found: FunctionMemory) -> dict[str, PlannedTile]:
    return {t.name: t for space in found.spaces for t in space.tiles}


def test_a_tile_lives_from_its_making_to_its_last_read_and_through_loops() -> None:
    (found,) = memory_plan(read_dump(DUMP, "49_after_X.py"), "a2a3")
    tiles = tiles_of(found)
    a, b, c = tiles["a"], tiles["b"], tiles["c"]
    assert (a.address, a.size, b.address, c.address) == (0, 1024, 1024, 0)
    assert a.begin < b.begin < b.end <= a.end, "what a loop reads from outside is needed until its last round"
    assert c.begin > a.end, "the memory is free again"
    assert b.end == b.begin + 1, "the store is its last read"
    assert (tiles["ring"].ring, tiles["ring"].address, tiles["ring"].size) == (True, 8192, 4096)
    (space,) = found.spaces
    assert (space.name, space.capacity, space.top) == ("Vec", 184 << 10, 12288)
    assert space.peak == (1024 + 1024 + 4096, b.begin)


@pytest.mark.parametrize("arch", ["a2a3", "a5"])
@pytest.mark.parametrize("name", ["k17_bias_updown", "k32_pipe_bidir_dual", "k33_flash_mini"])
def test_a_lowering_fits_and_lies_where_it_says(name: str, arch: str) -> None:
    made = lowering(name, arch)
    plan = memory_plan(made.program, arch)
    assert {f.kind for f in plan} == {"AIC", "AIV"}
    for function in plan:
        for space in function.spaces:
            assert space.capacity == next(v for k, v in TARGETS[arch].capacity.items() if k.name == space.name)
            assert 0 < space.peak[0] <= space.top <= space.capacity
            assert all(0 <= t.begin <= t.end and t.address % 32 == 0 for t in space.tiles)


def test_tiles_of_one_space_that_live_together_do_not_share_bytes() -> None:
    """The plan's own check of the lifetimes: `MemoryReuse` shares memory only between tiles that do not meet, or where
    an operation writes over what it reads last, or a view names another tile's memory."""
    plan = memory_plan(lowering("k33_flash_mini").program, "a2a3")
    for function in plan:
        for space in function.spaces:
            rings = [t for t in space.tiles if t.ring]
            for t in space.tiles:
                assert t.ring or all(t.address >= r.address + r.size or t.address + t.size <= r.address for r in rings)


boxes = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 12), st.integers(0, 8), st.integers(0, 5)), min_size=1)


@settings(deadline=None)
@given(boxes)
def test_the_peak_counts_every_byte_once(found: list[tuple[int, int, int, int]]) -> None:
    tiles = tuple(PlannedTile(f"t{i}", a, n, b, b + d, 0) for i, (a, n, b, d) in enumerate(found))
    held = {at: {byte for t in tiles if t.begin <= at <= t.end for byte in range(t.address, t.address + t.size)}
            for at in range(20)}  # fmt: skip
    best, at = PlannedSpace("Vec", None, tiles).peak
    assert best == max(len(b) for b in held.values())
    assert len(held[at]) == best


def test_where_the_plan_comes_from() -> None:
    made = lowering("k17_bias_updown")
    source = workbench(as_written("k17_bias_updown"))
    assert source.plan == []
    assert "memory" not in source.views
    assert workbench(as_written("k17_bias_updown"), lowered=made).plan == memory_plan(made.program, "a2a3")
    dumped = workbench(as_written("k17_bias_updown"), dumps=last_dump("k17_bias_updown").parent)
    assert [f.function for f in dumped.plan] == ["mm_rows_aic", "mm_rows_aiv"]
    assert dumped.plan[0].spaces[0].capacity is None, "no architecture is known"
    own = workbench(lowered("k17_bias_updown"), arch="a5")
    assert own.plan[1].spaces[0].capacity == 240 << 10


def test_the_plan_is_said_as_text() -> None:
    made = lowering("k17_bias_updown")
    text = workbench(as_written("k17_bias_updown"), lowered=made).text("memory")
    vec = next(s for f in memory_plan(made.program, "a2a3") for s in f.spaces if s.name == "Vec")
    assert f"Vec: peak {vec.peak[0]:,} B of 188,416 B, {100 * vec.peak[0] / 188416:.0f} % at statement" in text
    for t in vec.tiles:
        assert f"{t.address:#08x} +{t.size}" in text
        assert t.name in text
