"""How soon a tensor of 4096 x 4096 cells shows, against one of 64 x 64: in one JupyterLab, from the key that steps to
it until its map is painted, its cells asked from the kernel each time. Wanted: at most 3 times as long.

The kernel holds tensors of both sizes, made one after another; none is shown twice, so each is asked for.

Run: python benchmarks/browser_tile.py
"""

from __future__ import annotations

import argparse
import statistics
import sys

from browser_common import chromium, jupyter_servers, notebook_in_jupyterlab, run_cell, told, verdict

LIMIT = 3.0
SIDES = (64, 4096)

KERNEL = '''import torch
from pypto_lab.frontend.dump import read_dump
from pypto_lab.record.recorder import record
from pypto_lab.view.workbench import workbench
torch.set_num_threads(1)

def steps_of(side, count):
    tensor = f"pl.Tensor[[{side}, {side}], pl.FP32]"
    names = ["x", *(f"t{i}" for i in range(count))]
    rows = "".join(f"        {b}: {tensor} = pl.tensor.muls({a}, 1.01)\\n" for a, b in zip(names, names[1:]))
    text = f"""# pypto.program: Big
import pypto.language as pl

@pl.program
class Big:
    @pl.function
    def big(self, x: {tensor}) -> {tensor}:
{rows}        return t{count - 1}
"""
    values = {"x": torch.randn(side, side, generator=torch.Generator().manual_seed(0))}
    return workbench(record(read_dump(text, "big.py"), values), title=f"{side} x {side}")
'''

SHOW = """async ([index, count, key]) => {
    const root = document.querySelectorAll('.pw-root')[index];
    const track = root.querySelector('.pw-track');
    const name = () => root.querySelector('[data-tile]')?.dataset.tile;
    const painted = () => {
        const canvas = [...root.querySelectorAll('.pw-tv canvas')].at(-1);
        return canvas && !canvas.hidden && canvas.width > 0;
    };
    const times = [];
    for (let i = 0; i < count; i++) {
        const before = name();
        const start = performance.now();
        track.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
        while (name() === before || !painted()) await new Promise((done) => setTimeout(done, 1));
        root.getBoundingClientRect();
        times.push(performance.now() - start);
        await new Promise((done) => setTimeout(done, 400));  // the cursor has been told to the kernel
    }
    return times;
}"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tensors", type=int, default=8, help="of each size")
    count = parser.parse_args().tensors
    cells = [KERNEL, *(f"steps_of({side}, {count + 2})" for side in SIDES)]
    times: dict[int, list[float]] = {}
    with chromium() as browser, notebook_in_jupyterlab(browser, cells) as page:
        for index in range(len(cells)):
            run_cell(page, index)
            page.wait_for_function(jupyter_servers.KERNEL_READY, timeout=60_000)
        page.locator(".pw-root .pw-shell").nth(len(SIDES) - 1).wait_for(timeout=120_000)
        page.wait_for_function(jupyter_servers.KERNEL_READY, timeout=60_000)
        for index, side in enumerate(SIDES):
            page.locator(".pw-root").nth(index).scroll_into_view_if_needed()
            page.wait_for_timeout(1500)
            times[side] = page.evaluate(SHOW, [index, count, "ArrowRight"])
    for side in SIDES:
        print(told(f"{side} x {side}", times[side]))
    small, large = (statistics.median(times[side]) for side in SIDES)
    return 0 if verdict("4096 x 4096 / 64 x 64", large / small, LIMIT, least=False) else 1


if __name__ == "__main__":
    sys.exit(main())
