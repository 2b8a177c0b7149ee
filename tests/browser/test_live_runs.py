"""A run that goes on, in JupyterLab: what is shown of it is what the run says, its buttons steer it, and it becomes the
workbench in place; the same for `%%pypto --step`."""

from __future__ import annotations

import ast
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jupyter_servers
import nbformat

_FAILED = ".jp-OutputArea-output:is([data-mime-type$='jupyter.stderr'], [data-mime-type$='jupyter.error'])"
_PATIENCE = 120.0

_PROGRAM = """# pypto.program: Mixed
import pypto.language as pl
@pl.program
class Mixed:
    @pl.function(type=pl.FunctionType.AIC)
    def cube(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        pl.system.aic_initialize_pipe(pl.const(0, pl.INT32), pl.const(0, pl.INT32), dir_mask=1, slot_size=512, slot_num=2)
        t: pl.Tile[[16, 16], pl.FP32, pl.Mem.Mat] = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Mat)
        for i in pl.range(1000000):
            pl.tile.tpush_to_aiv(t, split=1)
    @pl.function(type=pl.FunctionType.AIV)
    def vector(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        pl.system.aiv_initialize_pipe(pl.const(0, pl.INT32), pl.const(0, pl.INT32), dir_mask=1, slot_size=512, slot_num=2)
        lane: pl.Scalar[pl.INDEX] = pl.tile.get_subblock_idx()
        for i in pl.range(1000000):
            h: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic(split=1)
            s: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.muls(h, 2.0)
            pl.system.tfree_to_aic(h, split=1)
            o: pl.Tensor[[16, 16], pl.FP32] = pl.tile.store(s, [lane * 8, 0], out)
    @pl.function(type=pl.FunctionType.Group)
    def both(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        self.cube(x, out)
        self.vector(x, out)
"""  # noqa: E501

_START = f"""
import json, threading

import torch

from pypto_lab.frontend.dump import read_dump
from pypto_lab.record.live import Control
from pypto_lab.view.workbench import live

torch.set_num_threads(1)
program = read_dump({_PROGRAM!r}, "mixed.py")

# The run waits at two places until the test lets it go on: a run of any length that stands where it is looked at.
gates = {{2000: threading.Event(), 6000: threading.Event()}}


def wait(progress):
    for steps, gate in gates.items():
        if progress.steps >= steps and not progress.finished:
            gate.wait(300)


run = live(program, {{"x": torch.ones(16, 16), "out": torch.zeros(16, 16)}}, title="mixed",
           control=Control(on_progress=wait, interval=0.0))
run
"""

_SNAPSHOT = """json.dumps((lambda s: {
    'lanes': [[l.name, l.block, l.status if l.waiting is None else f'waits: {l.waiting}', l.source] for l in s.lanes],
    'queues': [[q.pipe, q.occupied, q.depth, [f'slot {e.slot}: [' + ', '.join(map(str, e.shape)) + f'] {e.dtype}'
        for e in q.entries], [str(w) for w in q.waiters]] for q in s.queues],
})(run.live.snapshot()))"""

_SHOWN = """() => {
    const all = (root, selector) => [...root.querySelectorAll(selector)];
    const root = document.querySelector('.pw-live');
    return {
        state: root.querySelector('.pw-chip').textContent,
        lanes: all(root, 'tr[data-lane]').map((r) => [r.dataset.lane,
            r.querySelector('.pw-dim') ? Number(r.querySelector('.pw-dim').textContent.replace('block ', '')) : null,
            r.cells[1].textContent, r.cells[2].textContent]),
        queues: all(root, '.pw-pipe').map((p) => {
            const [filled, depth] = p.querySelector('em').textContent.replace(' filled', '').split(' of ');
            return [p.dataset.pipe, Number(filled), depth === undefined ? null : Number(depth),
                all(p, '.pw-ready-slot').map((s) => s.textContent),
                all(p, '.pw-waiter').map((w) => w.textContent.replace('\\u2759\\u2759 ', ''))];
        }),
    };
}"""


def until(there: Callable[[], Any], what: str, page: Any) -> Any:
    """Waits for something to hold, as long as a busy machine may take."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        found = there()
        if found:
            return found
        page.wait_for_timeout(100)
    raise AssertionError(f"{what} did not happen")


def opened(visit: Callable[..., Any], address: str, folder: Path, name: str, cells: list[str]) -> Any:
    """A notebook of these cells, opened and told to run."""
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    made = [nbformat.v4.new_code_cell(cell.strip("\n")) for cell in cells]
    nbformat.write(nbformat.v4.new_notebook(cells=made, metadata=metadata), folder / name)
    page = visit(width=1300, height=1000).page
    jupyter_servers.open_notebook(page, "lab", address, name)
    page.evaluate(f"{jupyter_servers.RUN_ALL}; 0")  # without waiting: the cells may wait for the test
    return page


def test_a_run_is_shown_steered_and_becomes_the_workbench(
    visit: Callable[..., Any], lab_address: str, jupyter_folder: Path
) -> None:
    page = opened(visit, lab_address, jupyter_folder, "live.ipynb", [_START])

    def ask(expression: str) -> Any:
        return ast.literal_eval(page.evaluate(jupyter_servers.ASK, expression))

    def shown() -> dict[str, Any]:
        found: dict[str, Any] = page.evaluate(_SHOWN)
        return found

    page.wait_for_selector(f".pw-live, {_FAILED}", timeout=_PATIENCE * 1e3)
    assert page.locator(_FAILED).all_text_contents() == []
    page.wait_for_function(jupyter_servers.KERNEL_READY, timeout=_PATIENCE * 1e3)
    until(lambda: ask("run.state()['steps']") >= 2000, "the first gate", page)
    assert shown()["state"] == "running"

    button = page.locator("[data-live=pause]")
    button.click()
    until(lambda: ask("run.live.control.paused"), "the pause", page)
    ask("gates[2000].set()")
    until(lambda: shown()["state"] == "paused", "the word", page)
    said = json.loads(ask(_SNAPSHOT))
    assert len(said["lanes"]) > 1
    assert any(filled for _, filled, *_ in said["queues"]), "something is in a queue"
    until(lambda: {k: v for k, v in shown().items() if k != "state"} == said, f"the snapshot {said}", page)
    assert json.loads(ask(_SNAPSHOT)) == said, "a paused run stays where it is"

    assert button.text_content() == "Resume"
    button.click()
    until(lambda: ask("run.state()['steps']") >= 6000, "the second gate", page)
    until(lambda: shown()["state"] == "running", "the word", page)
    place = page.locator(".pw-live").locator("xpath=..").evaluate_handle("(e) => e")
    page.locator("[data-live=interrupt]").click()
    until(lambda: ask("run._ending"), "the interrupt", page)
    ask("gates[6000].set()")
    page.wait_for_selector(".pw-shell", timeout=_PATIENCE * 1e3)
    assert page.locator(".pw-live").count() == 0
    assert page.locator(".pw-shell").count() == 1
    assert place.evaluate("(e) => e.isConnected && e.querySelector('.pw-shell') !== null"), "in its place"
    assert ask("run.result().recording.status") == "interrupted"
    page.locator(".pw-track").focus()
    page.keyboard.press("End")
    length = ask("len(run.result().recording)")
    assert length >= 2000
    until(lambda: page.locator(".pw-count b").text_content() == str(length), "the last step", page)
    assert page.locator(_FAILED).all_text_contents() == []


_STEP = """
%%pypto --step
import pypto.language as pl
import torch


@pl.jit
def twice(x: pl.Tensor[[32, 32], pl.FP32], out: pl.Out[pl.Tensor[[32, 32], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(1000):
            t = pl.load(x, [i % 2 * 16, 0], [16, 32])
            out = pl.store(pl.add(t, t), [i % 2 * 16, 0], out)
    return out


def golden(x):
    return x * 2
"""

_GATED = """
%load_ext pypto_lab
import time
from pathlib import Path

from pypto_lab.record import live as lives

look = lives.Control.look


def waiting(self, progress):  # a run that takes as long as the test wants it to
    while not Path("go").exists():
        time.sleep(0.05)
    look(self, progress)


lives.Control.look = waiting
"""


def test_a_stepped_cell_is_shown_while_it_runs(
    visit: Callable[..., Any], lab_address: str, jupyter_folder: Path
) -> None:
    (jupyter_folder / "go").unlink(missing_ok=True)
    page = opened(visit, lab_address, jupyter_folder, "stepped.ipynb", [_GATED, _STEP, "print(_pypto.ok)"])
    page.wait_for_selector(f".pw-live, {_FAILED}", timeout=_PATIENCE * 1e3)
    assert page.locator(_FAILED).all_text_contents() == []
    assert page.locator(".pw-live .pw-name").text_content() == "twice"
    assert page.locator(".pw-live .pw-chip").text_content() == "running"
    assert page.locator(".pw-shell").count() == 0
    (jupyter_folder / "go").touch()
    page.wait_for_selector(f".pw-shell, {_FAILED}", timeout=_PATIENCE * 1e3)
    until(lambda: page.locator(".pw-live").count() == 0, "the picture of the run went away", page)
    page.wait_for_function(jupyter_servers.KERNEL_READY, timeout=_PATIENCE * 1e3)
    assert page.locator(".pw-shell").count() == 1
    assert "match" in (page.locator(".pw-head").text_content() or "")
    until(lambda: "True" in "".join(page.locator(".jp-OutputArea-output").all_text_contents()), "the next cell", page)
    assert page.locator(_FAILED).all_text_contents() == []
