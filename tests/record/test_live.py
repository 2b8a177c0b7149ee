"""Long runs: progress, pause, interrupt, and the memory budget."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from record_support import DATA, function_from

from pypto_lab.compat.cases import case
from pypto_lab.frontend.dump import read_dump
from pypto_lab.record.board import Snapshot
from pypto_lab.record.live import Control, LiveRecording, Progress
from pypto_lab.record.pto_steps import record_build
from pypto_lab.record.recorder import record
from pypto_lab.record.session import Session
from pypto_lab.record.trace import Cells

LOOP = """
def kernel(x, out, n):
    carried = x * 1
    for i in range(n):
        tile = torch.exp(x * 0.5)
        carried = carried * 0.5 + tile
        out[i % 8] = carried[0]
        out.mul_(0.5)
    return carried
"""


def arguments(n: int, width: int = 64) -> dict[str, Any]:
    return {"x": torch.linspace(0, 1, 64 * width).reshape(64, width), "out": torch.zeros(8, width), "n": n}


@pytest.fixture
def kernel() -> Any:
    return function_from(LOOP, "kernel", "long_loop.py")


def test_progress_is_told_from_the_run(kernel: Any) -> None:
    heard: list[Progress] = []
    record(kernel, arguments(2000), control=Control(on_progress=heard.append, interval=0.0))
    assert len(heard) > 2
    assert [p.steps for p in heard] == sorted(p.steps for p in heard)
    assert [p.finished for p in heard] == [False] * (len(heard) - 1) + [True]
    assert str(heard[0]).endswith("running host")


def test_an_interrupted_recording_is_usable(kernel: Any, tmp_path: Path) -> None:
    live = LiveRecording(kernel, arguments(10_000_000))
    deadline = time.monotonic() + 60
    while live.progress is None and time.monotonic() < deadline:
        time.sleep(0.01)
    live.interrupt()
    recording = live.result(timeout=60)
    assert recording.status == "interrupted"
    assert len(recording) > 100
    session = Session(recording)
    session.end()
    assert session.who_wrote("out").where is not None
    session.goto(len(recording) // 2)
    assert isinstance(session.value("carried"), Cells)
    assert recording.save(tmp_path / "part.ptolab").exists()


def test_a_keyboard_interrupt_gives_the_recording_so_far(kernel: Any) -> None:
    def stop(progress: Progress) -> None:
        if progress.steps > 3000 and not progress.finished:
            raise KeyboardInterrupt

    recording = record(kernel, arguments(5000), control=Control(on_progress=stop, interval=0.0))
    assert recording.status == "interrupted"
    assert 0 < len(recording) < 5000 * 5


def test_pause_and_resume(kernel: Any) -> None:
    control = Control(interval=0.0)
    paused = threading.Event()

    def pause_once(progress: Progress) -> None:
        if not paused.is_set() and not progress.finished:
            control.pause()
            paused.set()

    control.on_progress = pause_once
    live = LiveRecording(kernel, arguments(2000), control=control)
    assert paused.wait(60)
    assert control.paused
    with pytest.raises(TimeoutError):
        live.result(timeout=0.2)
    live.resume()
    recording = live.result(timeout=120)
    assert recording.ok
    assert live.done
    assert recording.digest() == record(kernel, arguments(2000)).digest()


def test_problems_of_a_live_run_reach_the_asker(kernel: Any) -> None:
    with pytest.raises(TypeError, match="cannot record a int"):
        LiveRecording(3).result(timeout=60)


@pytest.mark.parametrize("keep_all", [False, True])
def test_beyond_the_budget_values_go_to_disk(kernel: Any, tmp_path: Path, keep_all: bool) -> None:
    said: list[str] = []
    free = record(kernel, arguments(2500), keep_all=keep_all)
    tight = record(
        kernel,
        arguments(2500),
        keep_all=keep_all,
        budget=4 << 20,
        spill=str(tmp_path),
        control=Control(on_message=said.append),
    )
    assert len(said) == 1
    assert said[0].startswith("memory budget of 4 MiB passed after step ")
    assert tight.notes == tuple(said)
    assert free.notes == ()
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size > 4 << 20
    assert str(file) in said[0]
    assert tight.resident_bytes < free.resident_bytes / 2
    assert tight.digest() == free.digest()
    one, two = Session(free), Session(tight)
    for k in range(0, len(free), 997):
        one.goto(k)
        two.goto(k)
        assert one.report() == two.report()


# --- looking at a run from another thread ----------------------------------------------------------------------------

MIXED = """# pypto.program: P
import pypto.language as pl
@pl.program
class P:
    @pl.function(type=pl.FunctionType.AIC)
    def cube(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        pl.system.aic_initialize_pipe(pl.const(0, pl.INT32), pl.const(0, pl.INT32), dir_mask=1, slot_size=512, slot_num=2)
        t: pl.Tile[[16, 16], pl.FP32, pl.Mem.Mat] = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Mat)
        for i in pl.range(ROUNDS):
            pl.tile.tpush_to_aiv(t, split=1)
    @pl.function(type=pl.FunctionType.AIV)
    def vector(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        pl.system.aiv_initialize_pipe(pl.const(0, pl.INT32), pl.const(0, pl.INT32), dir_mask=1, slot_size=512, slot_num=2)
        lane: pl.Scalar[pl.INDEX] = pl.tile.get_subblock_idx()
        for i in pl.range(ROUNDS):
            h: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic(split=1)
            s: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.muls(h, 2.0)
            pl.system.tfree_to_aic(h, split=1)
            o: pl.Tensor[[16, 16], pl.FP32] = pl.tile.store(s, [lane * 8, 0], out)
    @pl.function(type=pl.FunctionType.Group)
    def both(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        self.cube(x, out)
        self.vector(x, out)
"""  # noqa: E501


def mixed(rounds: int) -> Any:
    return read_dump(MIXED.replace("ROUNDS", str(rounds)), "mixed.py")


def look_at(live: LiveRecording, enough: int) -> list[Snapshot]:
    """Snapshots until the run has done so many steps, at full speed."""
    seen: list[Snapshot] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not live.done and (not seen or seen[-1].steps < enough):
        snapshot = live.snapshot()
        if snapshot is not None:
            seen.append(snapshot)
        time.sleep(0.001)
    return seen


def test_lanes_and_queues_can_be_seen_while_a_run_goes_on() -> None:
    live = LiveRecording(mixed(200_000), {"x": torch.ones(16, 16), "out": torch.zeros(16, 16)})
    seen = look_at(live, 4000)
    live.interrupt()
    recording = live.result(timeout=60)
    assert recording.status == "interrupted"
    busy = [s for s in seen if len(s.queues) == 2]
    assert len(busy) > 5
    assert [s.steps for s in seen] == sorted(s.steps for s in seen)
    for s in busy:
        for queue in s.queues:
            assert queue.pipe in ("C2V[0]#0", "C2V[1]#0")
            assert queue.depth == 2
            assert queue.occupied == queue.pushed - queue.freed <= 2
            assert all((e.shape, e.valid, e.dtype) == ((8, 16), (8, 16), "float32") for e in queue.entries)
            assert all(e.pushed_by == "AIC" and e.pushed_line.startswith("mixed.py:") for e in queue.entries)
        for lane in s.lanes:
            assert lane.source.startswith("mixed.py:") or lane.position == 0 or lane.text.startswith("def ")
            if lane.waiting is not None:
                ring = next(q for q in s.queues if q.pipe == lane.waiting.pipe)
                full = ring.pushed - ring.freed == 2
                assert full if lane.waiting.reason == "full" else ring.pushed == ring.popped
    assert {lane.name for lane in busy[-1].lanes} == {"host", "AIC", "AIV0", "AIV1"}
    assert any(w for s in busy for q in s.queues for w in q.waiters)
    session = Session(recording)
    session.end()
    session.back()
    assert session.report()


def test_a_paused_run_can_be_seen_and_its_picture_is_what_the_recording_says() -> None:
    control = Control(interval=0.0)
    paused = threading.Event()

    def pause_late(progress: Progress) -> None:
        if progress.steps > 2000 and not paused.is_set():
            control.pause()
            paused.set()

    control.on_progress = pause_late
    live = LiveRecording(mixed(3000), {"x": torch.ones(16, 16), "out": torch.zeros(16, 16)}, control=control)
    assert paused.wait(60)
    time.sleep(0.05)
    one, two = live.snapshot(), live.snapshot()
    assert one is not None
    assert two is not None
    assert (one.steps, one.lanes, one.queues) == (two.steps, two.lanes, two.queues)
    live.resume()
    session = Session(live.result(timeout=120))
    session.goto(one.steps)
    assert {(q.pipe, q.pushed, q.popped, q.freed) for q in session.queues} == {
        (q.pipe, q.pushed, q.popped, q.freed) for q in one.queues
    }
    told = {s.name: (s.source, s.text) for s in session.lanes}
    assert all(told[lane.name] == (lane.source, lane.text) for lane in one.lanes)


def test_the_budget_does_not_lose_what_is_seen(tmp_path: Path) -> None:
    live = LiveRecording(
        mixed(3000), {"x": torch.ones(16, 16), "out": torch.zeros(16, 16)}, budget=1 << 18, spill=str(tmp_path)
    )
    recording = live.result(timeout=120)
    assert recording.notes
    end = live.snapshot()
    assert end is not None
    assert end.steps == len(recording)
    assert [(q.pipe, q.pushed, q.freed) for q in end.queues] == [("C2V[0]#0", 3000, 3000), ("C2V[1]#0", 3000, 3000)]
    assert {lane.status for lane in end.lanes} == {"done"}


def test_a_build_can_be_recorded_live() -> None:
    values = case(DATA / "kernels" / "k24_while_branch" / "kernel.py").make_inputs(0)
    live = LiveRecording(DATA / "pto" / "while_branch", values, recorder=record_build)
    recording = live.result(timeout=60)
    assert recording.ok
    snapshot = live.snapshot()
    assert snapshot is not None
    assert {lane.name for lane in snapshot.lanes} == {"host", "AIV0"}
