"""Long runs: progress, pause, interrupt, and the memory budget."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from record_support import function_from

from pypto_lab.record.live import Control, LiveRecording, Progress
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
