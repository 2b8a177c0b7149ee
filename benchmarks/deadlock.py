"""How long it takes in the lab to report a deadlock, a failing lane and a missing `tfree` (wanted: under 0.1 s each).

Run: python benchmarks/deadlock.py
"""

from __future__ import annotations

import time

import torch

from pypto_lab.frontend.dump import read_dump
from pypto_lab.torch_codegen.execute import ScriptError, namespace, prepare

PROGRAM = """# pypto.program: P
import pypto.language as pl
@pl.program
class P:
    @pl.function(type=pl.FunctionType.AIC)
    def cube(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        pl.system.aic_initialize_pipe(pl.const(0, pl.INT32), pl.const(0, pl.INT32), dir_mask=1, slot_size=512, slot_num=2)
        t: pl.Tile[[16, 16], pl.FP32, pl.Mem.Mat] = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Mat)
        for i in pl.range(4):
            CUBE
    @pl.function(type=pl.FunctionType.AIV)
    def vector(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        pl.system.aiv_initialize_pipe(pl.const(0, pl.INT32), pl.const(0, pl.INT32), dir_mask=1, slot_size=512, slot_num=2)
        for i in pl.range(4):
            h: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic(split=1)
            VECTOR
    @pl.function(type=pl.FunctionType.Group)
    def both(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        self.cube(x, out)
        self.vector(x, out)
"""  # noqa: E501
PUSH = "pl.tile.tpush_to_aiv(t, split=1)"
FREE = "pl.system.tfree_to_aic(h, split=1)"
FAULTS = {
    "deadlock": ("w: pl.Tile[[16, 16], pl.FP32, pl.Mem.Mat] = pl.tile.tpop_from_aiv(split=1)", FREE),
    "failing lane": (
        "s: pl.Tile[[16, 16], pl.FP32, pl.Mem.Mat] = pl.tile.slice(t, [16, 16], [8, 0])",
        FREE,
    ),
    "missing tfree": (PUSH, "s: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.muls(h, 2.0)"),
}


def seconds(cube: str, vector: str) -> tuple[float, str]:
    """The time from the call to the report, and the report."""
    program = read_dump(PROGRAM.replace("CUBE", cube).replace("VECTOR", vector), "kernel.py")
    prepared = prepare(program, {"x": torch.ones(16, 16), "out": torch.zeros(16, 16)})
    names = namespace(prepared.script)
    start = time.perf_counter()
    try:
        prepared.call(names)
    except ScriptError as error:
        return time.perf_counter() - start, str(error)
    raise SystemExit("the fault was not reported")


def main() -> dict[str, float]:
    torch.set_num_threads(1)
    found = {}
    for name, parts in FAULTS.items():
        seconds(*parts)
        found[name], text = min(seconds(*parts) for _ in range(5))
        print(f"{name}: {found[name] * 1e3:.2f} ms\n{text}\n")
    return found


if __name__ == "__main__":
    main()
