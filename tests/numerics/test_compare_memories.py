"""By names against by addresses: what the compiler reused wrongly or lost is named with both tiles."""

import json
import re
from pathlib import Path

import pytest
import torch

import pypto_lab as lab
from pypto_lab.frontend.dump import read_dump
from pypto_lab.numerics.memories import compare_memories

DATA = Path(__file__).parent.parent / "data"
HEAD = "# pypto.program: P\nimport pypto.language as pl\n@pl.program\nclass P:\n"
KERNEL = """
    @pl.function(type=pl.FunctionType.AIV)
    def kernel(x: T, n: pl.Scalar[pl.INDEX], out: pl.Out[T]):
        mem_a: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 1024)
        mem_b: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 1024)
        mem_c: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 1024)
        BODY
"""
OVERLAP = """t: TILE(mem_a, 0) = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)
u: TILE(mem_b, 512) = pl.tile.muls(t, 2.0)
w: TILE(mem_c, 2048) = pl.tile.add(u, t)
o: T = pl.tile.store(w, [0, 0], out)"""
CARRY = """t: TILE(mem_a, 0) = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)
for i, (acc,) in pl.range(n, init_values=(t,)):
    more: TILE(mem_b, 1024) = pl.tile.adds(acc, 1.0)
    done: TILE(mem_a, 0) = pl.yield_(more)
o: T = pl.tile.store(done, [0, 0], out)"""
MERGE = """t: TILE(mem_a, 0) = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)
if n > 1:
    p: TILE(mem_b, 1024) = pl.tile.adds(t, 1.0)
    r: TILE(mem_c, 2048) = pl.yield_(p)
else:
    q: TILE(mem_c, 2048) = pl.tile.adds(t, 2.0)
    r: TILE(mem_c, 2048) = pl.yield_(q)
o: T = pl.tile.store(r, [0, 0], out)"""


def report(body: str, n: int = 3):
    text = HEAD + KERNEL.replace("BODY", body.replace("\n", "\n        "))
    tile = r"pl.Tile[[16, 16], pl.FP32, pl.MemRef(\1, pl.const(\2, pl.INT64), 1024), pl.Mem.Vec]"
    text = re.sub(r"\bT\b", "pl.Tensor[[16, 16], pl.FP32]", re.sub(r"TILE\((\w+), (\d+)\)", tile, text))
    values = {"x": torch.arange(256.0).view(16, 16), "n": n, "out": torch.zeros(16, 16)}
    return compare_memories(read_dump(text, "kernel.py"), values)


def test_an_overlap_names_both_tiles_and_their_lines():
    found = report(OVERLAP)
    assert not found.ok
    (read,) = found.reads
    assert read.output == "out"
    assert read.variable == "t"
    assert read.cell == (8, 0)
    text = str(found)
    assert "kernel.py:13: `w = pl.tile.add(u, t)`" in text
    assert "`t`, which lies in mem_a at Vec[0:1024]" in text
    assert "overwritten by `u` in mem_b at Vec[512:1536]" in text
    assert "kernel.py:12: `u = pl.tile.muls(t, 2.0)`" in text
    json.dumps(found.to_json())


@pytest.mark.parametrize(("n", "ok"), [(0, True), (1, False), (3, False)])
def test_a_lost_carry_names_both_buffers(n, ok):
    found = report(CARRY, n)
    assert found.ok is ok
    if not ok:
        assert "mem_a at Vec[0:1024]; a yield moves nothing" in str(found)
        assert "the value of `more` in mem_b at Vec[1024:2048] is lost" in str(found)


@pytest.mark.parametrize(("n", "ok"), [(1, True), (2, False)])
def test_a_merge_that_moves_nothing(n, ok):
    found = report(MERGE, n)
    assert found.ok is ok
    if not ok:
        assert "`r`, which lies in mem_c at Vec[2048:3072]; a yield moves nothing" in str(found)


def test_the_compilers_lost_while_carry():
    path = DATA / "dumps" / "k24_while_branch" / "passes_explicit" / "49_after_MaterializeValidShapeSymbols.py"
    case = lab.case(DATA / "kernels" / "k24_while_branch" / "kernel.py")
    found = lab.compare_memories(read_dump(path.read_text(), path.name), case.make_inputs(0))
    (read,) = found.reads
    assert (read.output, read.variable) == ("out", "acc_i")
    assert "mem_vec_6 at Vec[3072:4096]" in str(found)
    assert "`acc_n__ssa_v0` in mem_vec_7 at Vec[4096:5120] is lost" in str(found)


def test_a_program_without_addresses():
    case = lab.case(DATA / "kernels" / "k09_softmax_rows" / "kernel.py")
    values = case.make_inputs(0)
    found = compare_memories(case.program(values), values)
    assert found.ok
    assert not found.has_addresses
    assert "nothing to compare" in str(found)


def test_a_sweep_by_addresses_names_the_lost_carry(tmp_path):
    source = DATA / "dumps" / "k24_while_branch" / "passes_explicit"
    for name in ("00_frontend.py", "35_after_AllocateMemoryAddr.py"):
        (tmp_path / name).write_text((source / name).read_text())
    case = lab.case(DATA / "kernels" / "k24_while_branch" / "kernel.py")
    assert lab.validate(tmp_path, case, workers=1).ok
    first, last = lab.validate(tmp_path, case, workers=1, memory="addresses").stages
    assert (first.status, last.status) == ("ok", "mismatch")
    assert "a yield moves nothing" in last.message
