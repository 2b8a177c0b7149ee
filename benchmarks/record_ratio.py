"""How much longer a kernel takes under the recorder: recorded / plain, both sides in one process, in turn.

The kernel is a generated script: a loop of load, mul, exp, add, store over 1000 tiles. `run` is the time until the
kernel has run and its log is complete; `indexed` adds the tables that a session needs (built once, after the run).
Times are the process's own (user and system), so that other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable

import torch

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir.nodes import Program
from pypto_lab.record.live import Control
from pypto_lab.record.recorder import record
from pypto_lab.torch_codegen import execute

TILES = 1000
LIMITS = {32: 2.0, 64: 1.5}

KERNEL = """# pypto.program: Chain
import pypto.language as pl

@pl.program
class Chain:
    @pl.function(type=pl.FunctionType.InCore)
    def chain(
        self, x: pl.Tensor[[{rows}, {n}], pl.FP32], y: pl.Out[pl.Tensor[[{rows}, {n}], pl.FP32]]
    ) -> pl.Tensor[[{rows}, {n}], pl.FP32]:
        for i, (y_iter,) in pl.range({tiles}, init_values=(y,)):
            t: pl.Tile[[{n}, {n}], pl.FP32, pl.Mem.Vec] = pl.tile.load(x, [i * {n}, 0], [{n}, {n}], [{n}, {n}])
            u: pl.Tile[[{n}, {n}], pl.FP32, pl.Mem.Vec] = pl.tile.muls(t, 0.5)
            v: pl.Tile[[{n}, {n}], pl.FP32, pl.Mem.Vec] = pl.tile.exp(u)
            w: pl.Tile[[{n}, {n}], pl.FP32, pl.Mem.Vec] = pl.tile.add(v, t)
            y_next: pl.Tensor[[{rows}, {n}], pl.FP32] = pl.tile.store(w, [i * {n}, 0], y_iter)
            y_out = pl.yield_(y_next)
        return y_out
"""


def chain(n: int, tiles: int = TILES) -> Program:
    """The kernel for square tiles of `n`."""
    return read_dump(KERNEL.format(n=n, rows=n * tiles, tiles=tiles), "chain.py")


def values(n: int, tiles: int = TILES) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {"x": torch.randn(n * tiles, n, generator=generator), "y": torch.zeros(n * tiles, n)}


class _Clock(Control):
    """Takes the time at which the run itself ended, before the tables are built."""

    ended = 0.0

    def finished(self, progress: object) -> None:
        self.ended = time.process_time()


def plain_seconds(program: Program, inputs: dict[str, torch.Tensor]) -> float:
    begin = time.process_time()
    execute.run(program, inputs)
    return time.process_time() - begin


def recorded_seconds(program: Program, inputs: dict[str, torch.Tensor]) -> tuple[float, float]:
    """(until the run had ended, until the recording was ready)."""
    clock = _Clock()
    begin = time.process_time()
    recording = record(program, inputs, control=clock)
    ready = time.process_time() - begin
    assert recording.ok, recording.error
    return clock.ended - begin, ready


def measure(n: int, rounds: int) -> dict[str, float]:
    """Medians over rounds that alternate between the two sides."""
    program, inputs = chain(n), values(n)
    plain_seconds(program, inputs)
    recorded_seconds(program, inputs)
    plain: list[float] = []
    run: list[float] = []
    ready: list[float] = []
    for _ in range(rounds):
        gc.collect()
        plain.append(plain_seconds(program, inputs))
        gc.collect()
        ended, complete = recorded_seconds(program, inputs)
        run.append(ended)
        ready.append(complete)
    middle: Callable[[list[float]], float] = statistics.median
    return {
        "tile": n,
        "plain_us_per_tile": middle(plain) / TILES * 1e6,
        "recorded_us_per_tile": middle(run) / TILES * 1e6,
        "ratio": middle(run) / middle(plain),
        "ratio_indexed": middle(ready) / middle(plain),
        "limit": LIMITS[n],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    results = [measure(n, rounds) for n in LIMITS]
    print(json.dumps(results, indent=2))
    return int(any(r["ratio"] > r["limit"] for r in results))


if __name__ == "__main__":
    raise SystemExit(main())
