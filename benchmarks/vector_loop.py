"""How much slower a 1000-tile vector kernel runs as a generated script than the same work written by hand in torch.

Prints one ratio (target: at most 1.3). Both sides run in this process, alternately; the best of several rounds counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from pypto_lab.frontend.dump import read_dump
from pypto_lab.torch_codegen.execute import namespace, prepare

TILES, ROUNDS = 1000, 9
KERNEL = f"""
# pypto.program: VectorLoop
import pypto.language as pl

@pl.program
class VectorLoop:
    @pl.function(type=pl.FunctionType.AIV)
    def loop(x: pl.Tensor[[{TILES * 64}, 64], pl.FP32], y: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[{TILES * 64}, 64], pl.FP32]]) -> pl.Tensor[[{TILES * 64}, 64], pl.FP32]:
        b: pl.Tile[[64, 64], pl.FP32, pl.Mem.Vec] = pl.tile.load(y, [0, 0], [64, 64], [64, 64], target_memory=pl.Mem.Vec)
        for i in pl.range({TILES}):
            t: pl.Tile[[64, 64], pl.FP32, pl.Mem.Vec] = pl.tile.load(x, [i * 64, 0], [64, 64], [64, 64], target_memory=pl.Mem.Vec)
            m: pl.Tile[[64, 64], pl.FP32, pl.Mem.Vec] = pl.tile.muls(t, 0.5)
            e: pl.Tile[[64, 64], pl.FP32, pl.Mem.Vec] = pl.tile.exp(m)
            s: pl.Tile[[64, 64], pl.FP32, pl.Mem.Vec] = pl.tile.add(e, b)
            o: pl.Tensor[[{TILES * 64}, 64], pl.FP32] = pl.tile.store(s, [i * 64, 0], out)
        return out
"""  # noqa: E501


def by_hand(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
    """The same loop as a person would write it, with the copies a load and a store make."""
    b = y[0:64, 0:64].clone()
    for i in range(TILES):
        t = x[i * 64 : i * 64 + 64, 0:64].clone()
        m = torch.mul(t, 0.5)
        e = torch.exp(m)
        s = torch.add(e, b)
        out[i * 64 : i * 64 + 64, 0:64].copy_(s)


def best_of(*sides: Callable[[], object]) -> list[float]:
    """The shortest time of each side over alternating rounds."""
    best = [float("inf")] * len(sides)
    for _ in range(ROUNDS):
        for index, side in enumerate(sides):
            start = time.perf_counter()
            side()
            best[index] = min(best[index], time.perf_counter() - start)
    return best


def main() -> float:
    torch.set_num_threads(1)
    values = {
        "x": torch.rand(TILES * 64, 64),
        "y": torch.rand(64, 64),
        "out": torch.zeros(TILES * 64, 64),
    }
    prepared = prepare(read_dump(KERNEL), values)
    names = namespace(prepared.script)
    expected = torch.zeros_like(values["out"])
    generated, hand = best_of(lambda: prepared.call(names), lambda: by_hand(values["x"], values["y"], expected))
    if not torch.equal(prepared.outputs["out"], expected):
        raise SystemExit("the two sides disagree")
    ratio = generated / hand
    times = f"generated {generated * 1e3:.1f} ms, by hand {hand * 1e3:.1f} ms"
    print(f"vector loop, {TILES} tiles: {times}, ratio {ratio:.2f}")
    return ratio


if __name__ == "__main__":
    main()
