"""A run watched while it goes on: its state as data and text, its buttons, and the workbench it becomes."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
import torch
from bench_support import kernel, last_dump

from pypto_lab.compat.cases import case
from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.record.board import Snapshot
from pypto_lab.record.events import LaneState, QueueEntry, QueueState, Waiter
from pypto_lab.record.recording import Recording
from pypto_lab.view.workbench import LiveWorkbench, Workbench, live, watched

TURNS = 1500


def slow(x: Any) -> Any:
    total = x
    for _ in range(TURNS):
        time.sleep(0.002)
        total = total + 1.0
    return total


def quick(x: Any) -> Any:
    return x + 1


def started() -> LiveWorkbench:
    run = live(slow, {"x": torch.zeros(2, 2)}, title="slow")
    until = time.monotonic() + 20
    while run.state()["steps"] == 0 and time.monotonic() < until:
        time.sleep(0.02)
    return run


def test_a_run_is_paused_resumed_and_interrupted_by_its_buttons() -> None:
    run = started()
    view = run.widget()
    assert view.timeline == b""
    assert view.live["state"] == "running"
    view._message(view, {"ask": "pause"}, [])
    assert view.live["state"] == "paused"
    time.sleep(0.3)
    held = run.live.progress.steps if run.live.progress else 0
    time.sleep(0.3)
    assert (run.live.progress.steps if run.live.progress else 0) == held
    assert "paused" in run.text()
    view._message(view, {"ask": "resume"}, [])
    assert view.live["state"] == "running"
    view._message(view, {"ask": "nonsense"}, [])
    view._message(view, {"ask": "interrupt"}, [])
    bench = run.result(20)
    assert run.done
    assert bench.recording.status == "interrupted"
    assert 0 < len(bench.recording) < 2 * TURNS
    assert view.bench is bench
    assert view.timeline == bench.packed(), "the widget is the workbench now"
    bench.goto(2)
    assert view.cursor["position"] == 2
    assert run.text() == bench.text()


def test_the_workbench_of_a_run_gets_its_context() -> None:
    name = "k17_bias_updown"
    path, subject = last_dump(name), case(kernel(name))
    program = read_dump(path.read_text(encoding="utf-8"), path.name)
    run = live(program, dict(subject.make_inputs(0)), case=subject, title="mixed", seed=0)
    bench = run.result(60)
    assert bench.title == "mixed"
    assert [n.comparison.ok for n in bench.numbers] == [True]
    assert run.widget().timeline == bench.packed(), "a widget that is made late shows the workbench at once"


def test_a_run_that_cannot_begin_says_why() -> None:
    subject = case(kernel("k09_softmax_rows"))
    program = subject.program(subject.make_inputs(0))
    run = live(program, {"nothing": 1})
    with pytest.raises((LabError, TypeError)) as caught:
        run.result(30)
    now = run.state()
    assert now["state"] == "failed"
    assert now["message"]
    assert str(caught.value)
    assert now["message"] in run.text()


def test_a_short_run_is_not_shown_and_a_long_one_is() -> None:
    shown: list[Any] = []
    recording, run = watched(quick, {"x": torch.zeros(2)}, display=shown.append, after=30)
    assert isinstance(recording, Recording)
    assert run is None
    assert shown == []

    def long(x: Any) -> Any:
        time.sleep(0.4)
        return x + 1

    recording, run = watched(long, {"x": torch.zeros(2)}, display=shown.append, after=0.05)
    assert shown == [run]
    assert run is not None
    assert run.bench is None, "whoever asked makes the workbench"
    run.become(bench := Workbench(recording))
    assert run.bench is bench
    assert run.result(1) is bench


def test_an_interrupt_from_the_keyboard_keeps_what_was_recorded() -> None:
    def shown(run: LiveWorkbench) -> None:
        raise KeyboardInterrupt

    recording, _ = watched(slow, {"x": torch.zeros(2, 2)}, display=shown, after=0.2)
    assert recording.status == "interrupted"


def test_without_a_display_nobody_watches() -> None:
    recording, run = watched(quick, {"x": torch.zeros(2)})
    assert (recording.status, run) == ("finished", None)


def test_where_lanes_stand_and_what_queues_hold_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    run = started()
    waiter = Waiter("AIV0", "C2V[0]#0", "pop", "empty", 17, "kernel.py:9")
    lanes = (
        LaneState("AIC", "running", 16, None, 7, "kernel.py:7", "acc = matmul(a, b)", None, 1),
        LaneState("AIV0", "waits", 17, None, 9, "kernel.py:9", "got = pop()", waiter),
        *(LaneState(f"AIV{n}", "done", 1, None, 1, "", "") for n in range(2, 40)),
    )
    entry = QueueEntry(3, None, (4, 2), (4, 1), "float32", "AIC", 12, "kernel.py:8")
    queues = (QueueState("C2V[0]#0", (entry,), 2, 4, 3, 3, (waiter,), 1),)
    monkeypatch.setattr(run.live, "snapshot", lambda: Snapshot(10**6, 2.5, lanes, queues))
    try:
        now = run.state()
        assert now["lanes"][:2] == [
            {"name": "AIC", "block": 1, "status": "running", "line": "kernel.py:7", "text": "acc = matmul(a, b)"},
            {"name": "AIV0", "block": None, "status": f"waits: {waiter}", "line": "kernel.py:9", "text": "got = pop()"},
        ]
        assert (len(now["lanes"]), now["more"], now["steps"], now["seconds"]) == (32, 8, 10**6, 2.5)
        assert now["queues"] == [
            {"pipe": "C2V[0]#0", "block": 1, "filled": 1, "depth": 2, "slots": ["slot 3: [4, 2] float32"],
             "waiters": [str(waiter)]}
        ]  # fmt: skip
        text = run.text()
        assert f"C2V[0]#0: 1 of 2, {waiter}" in text
        assert "AIC, block 1: running, kernel.py:7 acc = matmul(a, b)" in text
        assert "8 more lanes" in text
        json.dumps(now)
    finally:
        run.interrupt()
        run.result(20)


def test_a_run_that_goes_on_says_where_its_lane_stands() -> None:
    run = started()
    try:
        until = time.monotonic() + 10
        while not run.state()["lanes"] and time.monotonic() < until:
            time.sleep(0.05)
        (lane,) = run.state()["lanes"]
        assert lane["name"] == "host"
        assert lane["line"].rpartition(":")[2].isdecimal()
    finally:
        run.interrupt()
        run.result(20)


def test_buttons_pressed_on_other_threads_do_not_harm() -> None:
    run = started()
    view = run.widget()

    def press(*wishes: str) -> None:
        for _ in range(15):
            for wish in wishes:
                view._message(view, {"ask": wish}, [])

    threads = [threading.Thread(target=press, args=("pause", "resume")) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    press("resume", "interrupt")
    assert run.result(20).recording.status == "interrupted"
