"""What lanes and pipes cost: a 1000-tile mixed kernel (matmul, push, two pops, add, store) against the same work in one
plain function without lanes.

Prints one ratio (target: at most 1.6). Both sides run in this process, alternately; the best of several rounds counts.
"""

# ruff: noqa: E501  (kernels are written as dumps print them, one statement a line)
from __future__ import annotations

import torch
from vector_loop import best_of

from pypto_lab.frontend.dump import read_dump
from pypto_lab.torch_codegen.execute import namespace, prepare

TILES = 1000
MATRIX = "pl.Tensor[[64, 64], pl.BF16]"
OUT = f"pl.Tensor[[{TILES * 64}, 64], pl.FP32]"
LOADS = """left: pl.Tile[[64, 64], pl.BF16, pl.Mem.Left] = pl.tile.load(a, [0, 0], [64, 64], [64, 64], target_memory=pl.Mem.Left)
        right: pl.Tile[[64, 64], pl.BF16, pl.Mem.Right] = pl.tile.load(w, [0, 0], [64, 64], [64, 64], target_memory=pl.Mem.Right)"""
MATMUL = "acc: pl.Tile[[64, 64], pl.FP32, pl.Mem.Acc] = pl.tile.matmul(left, right)"
HALF = "pl.Tile[[32, 64], pl.FP32, pl.Mem.Vec]"
MIXED = f"""
# pypto.program: Mixed
import pypto.language as pl

@pl.program
class Mixed:
    @pl.function(type=pl.FunctionType.AIC)
    def cube(a: {MATRIX}, w: {MATRIX}):
        pl.system.aic_initialize_pipe(pl.const(0, pl.INT32), pl.const(0, pl.INT32), dir_mask=1, slot_size=16384, slot_num=2)
        {LOADS}
        for i in pl.range({TILES}):
            {MATMUL}
            pl.tile.tpush_to_aiv(acc, split=1)
    @pl.function(type=pl.FunctionType.AIV)
    def vector(bias: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[{OUT}]) -> {OUT}:
        pl.system.aiv_initialize_pipe(pl.const(0, pl.INT32), pl.const(0, pl.INT32), dir_mask=1, slot_size=16384, slot_num=2)
        lane: pl.Scalar[pl.INDEX] = pl.tile.get_subblock_idx()
        b: {HALF} = pl.tile.load(bias, [lane * 32, 0], [32, 64], [32, 64], target_memory=pl.Mem.Vec)
        for i in pl.range({TILES}):
            half: {HALF} = pl.tile.tpop_from_aic(split=1)
            s: {HALF} = pl.tile.add(half, b)
            pl.system.tfree_to_aic(half)
            o: {OUT} = pl.tile.store(s, [i * 64 + lane * 32, 0], out)
        return out
    @pl.function(type=pl.FunctionType.Group)
    def mixed(a: {MATRIX}, w: {MATRIX}, bias: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[{OUT}]) -> {OUT}:
        self.cube(a, w)
        r: {OUT} = self.vector(bias, out)
        return r
"""
PLAIN = f"""
# pypto.program: Plain
import pypto.language as pl

@pl.program
class Plain:
    @pl.function(type=pl.FunctionType.InCore)
    def plain(a: {MATRIX}, w: {MATRIX}, bias: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[{OUT}]) -> {OUT}:
        {LOADS}
        b0: {HALF} = pl.tile.load(bias, [0, 0], [32, 64], [32, 64], target_memory=pl.Mem.Vec)
        b1: {HALF} = pl.tile.load(bias, [32, 0], [32, 64], [32, 64], target_memory=pl.Mem.Vec)
        for i in pl.range({TILES}):
            {MATMUL}
            h0: {HALF} = pl.tile.extract(acc, 0, 0, [32, 64], target_memory=pl.Mem.Vec)
            s0: {HALF} = pl.tile.add(h0, b0)
            o0: {OUT} = pl.tile.store(s0, [i * 64, 0], out)
            h1: {HALF} = pl.tile.extract(acc, 32, 0, [32, 64], target_memory=pl.Mem.Vec)
            s1: {HALF} = pl.tile.add(h1, b1)
            o1: {OUT} = pl.tile.store(s1, [i * 64 + 32, 0], out)
        return out
"""


def main() -> float:
    torch.set_num_threads(1)
    values = {
        "a": torch.rand(64, 64).bfloat16(),
        "w": torch.rand(64, 64).bfloat16(),
        "bias": torch.rand(64, 64),
        "out": torch.zeros(TILES * 64, 64),
    }
    mixed, plain = (prepare(read_dump(text), values) for text in (MIXED, PLAIN))
    mixed_names, plain_names = namespace(mixed.script), namespace(plain.script)
    with_lanes, without = best_of(lambda: mixed.call(mixed_names), lambda: plain.call(plain_names))
    if not torch.equal(mixed.outputs["out"], plain.outputs["out"]):
        raise SystemExit("the two sides disagree")
    ratio = with_lanes / without
    print(
        f"mixed loop, {TILES} tiles: with lanes {with_lanes * 1e3:.1f} ms, without {without * 1e3:.1f} ms, "
        f"ratio {ratio:.2f}"
    )
    return ratio


if __name__ == "__main__":
    main()
