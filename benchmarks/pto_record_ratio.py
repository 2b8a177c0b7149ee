"""How much longer `.pto` text takes under the recorder than on the plain byte machine: both sides in one process, in
turn.

The text is a loop of load, mul, exp, add, store over 500 tiles. Times are the process's own (user and system), tables
for a session included; the median of several rounds counts (wanted: at most 2).
"""

from __future__ import annotations

import json
import statistics
import time

import torch

from pypto_lab.pto.machine import execute
from pypto_lab.pto.parse import parse
from pypto_lab.record.pto_steps import record_unit

TILES, ROUNDS, LIMIT = 500, 7, 2.0


def text(n: int) -> str:
    """The loop, for square tiles of `n`."""
    tile = (
        f"!pto.tile_buf<loc=vec, dtype=f32, rows={n}, cols={n}, v_row=?, v_col=?, blayout=row_major, slayout=none_box, "
        "fractal=512, pad=0>"
    )
    view, part = "!pto.tensor_view<?x?xf32>", f"!pto.partition_tensor_view<{n}x{n}xf32>"
    allocs = "".join(
        f"    %{name} = pto.alloc_tile addr = %at{i} valid_row = %n valid_col = %n : {tile}\n"
        for i, name in enumerate(("t", "u", "v", "w"))
    )
    addresses = "".join(f"  %at{i} = arith.constant {i * n * n * 4} : i64\n" for i in range(4))
    return f"""module attributes {{pto.target_arch = "a2a3"}} {{
  func.func @f(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) attributes {{pto.kernel_kind = #pto.kernel_kind<vector>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant {n} : index
  %rows = arith.constant {n * TILES} : index
  %tiles = arith.constant {TILES} : index
  %half = arith.constant 5.0e-01 : f32
{addresses}
  %xs = pto.make_tensor_view %x, shape = [%rows, %n], strides = [%n, %c1] {{layout = #pto.layout<nd>}} : {view}
  %ys = pto.make_tensor_view %y, shape = [%rows, %n], strides = [%n, %c1] {{layout = #pto.layout<nd>}} : {view}
  scf.for %i = %c0 to %tiles step %c1 {{
    %row = arith.muli %i, %n : index
{allocs}    %xp = pto.partition_view %xs, offsets = [%row, %c0], sizes = [%n, %n] : {view} -> {part}
    pto.tload ins(%xp : {part}) outs(%t : {tile})
    pto.tmuls ins(%t, %half : {tile}, f32) outs(%u : {tile})
    pto.texp ins(%u : {tile}) outs(%v : {tile})
    pto.tadd ins(%v, %t : {tile}, {tile}) outs(%w : {tile})
    %yp = pto.partition_view %ys, offsets = [%row, %c0], sizes = [%n, %n] : {view} -> {part}
    pto.tstore ins(%w : {tile}) outs(%yp : {part})
  }}
  return
  }}
}}
"""


def seconds(what: object) -> float:
    begin = time.process_time()
    what()  # type: ignore[operator]
    return time.process_time() - begin


def measure(n: int) -> dict[str, float]:
    unit = parse(text(n))
    x, y = torch.randn(n * TILES, n), torch.zeros(n * TILES, n)
    sides = (lambda: execute(unit, "f", [x, y]), lambda: record_unit(unit, "f", [x, y]))
    times = [[seconds(side) for side in sides] for _ in range(ROUNDS + 1)][1:]
    plain, recorded = (statistics.median(column) for column in zip(*times, strict=True))
    return {
        "tile": n,
        "plain_us_per_tile": plain / TILES * 1e6,
        "recorded_us_per_tile": recorded / TILES * 1e6,
        "ratio": recorded / plain,
        "limit": LIMIT,
    }


def main() -> int:
    torch.set_num_threads(1)
    results = [measure(n) for n in (32, 64)]
    print(json.dumps(results, indent=2))
    return int(any(r["ratio"] > LIMIT for r in results))


if __name__ == "__main__":
    raise SystemExit(main())
