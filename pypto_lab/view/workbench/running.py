"""A run watched while it goes on: progress, where each lane stands, what is in the queues; pause, resume, interrupt.

The run has a thread of its own and a second one looks at it; the widget is told by that one. When the run ends, the
widget becomes the workbench of its recording.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pypto_lab.ir.diagnostics import LabError
from pypto_lab.record.live import LiveRecording
from pypto_lab.view.words import clip, dims
from pypto_lab.view.workbench.bench import Workbench

if TYPE_CHECKING:
    from pypto_lab.record.events import LaneState, QueueState
    from pypto_lab.record.recording import Recording

INTERVAL = 0.25
"""Seconds between two looks at a run."""

SHOWN_AFTER = 1.0
"""Seconds that a run takes at least before :func:`watched` shows it."""

_CONTEXT = ("case", "report", "dumps", "build", "lowered", "expected", "other", "sweep", "checks", "program", "title",
            "arch")  # fmt: skip
"""What :class:`Workbench` takes; everything else is for `record`."""

_LONGEST = 160
_MOST_LANES = 32
_MOST_QUEUES = 16


class LiveWorkbench:
    """A run that goes on, and the workbench it becomes. Safe to use from several threads.

    Args:
        program: What `record` takes.
        values: Parameters by name.
        finish: Makes the workbench of the recording; left out, :class:`Workbench` with `options` does. False keeps the
            run's picture until somebody calls :meth:`become`.
        options: What :class:`Workbench` takes by name, and what `record` takes.

    Starts at once.
    """

    def __init__(
        self,
        program: Any,
        values: Mapping[str, Any] | None = None,
        *,
        finish: Callable[[Recording], Workbench] | bool | None = None,
        **options: Any,
    ) -> None:
        context = {name: options.pop(name) for name in _CONTEXT if name in options}
        self.title = str(context.get("title") or getattr(program, "name", "") or "run")
        self._finish = finish if finish is not None else lambda recording: Workbench(recording, **context)
        self._lock = threading.RLock()
        self._widget: Any = None
        self._bench: Workbench | None = None
        self._problem: BaseException | None = None
        self._ending = False
        self._over = threading.Event()
        self.live = LiveRecording(program, values, **options)
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def __repr__(self) -> str:
        return self.text()

    # --- steering

    def pause(self) -> None:
        """The run stops at its next loop iteration, call or queue operation."""
        self.live.pause()
        self._show()

    def resume(self) -> None:
        self.live.resume()
        self._show()

    def interrupt(self) -> None:
        """Ends the run; what was recorded until then is kept."""
        self._ending = True
        self.live.interrupt()
        self._show()

    def asked(self, wish: Any) -> None:
        """What a button of the widget asks for."""
        action = {"pause": self.pause, "resume": self.resume, "interrupt": self.interrupt}.get(str(wish))
        if action is not None and not self._over.is_set():
            action()

    # --- the end

    @property
    def done(self) -> bool:
        return self._over.is_set()

    @property
    def bench(self) -> Workbench | None:
        """The workbench of the recording, None while the run goes on."""
        with self._lock:
            return self._bench

    def recording(self, timeout: float | None = None) -> Recording:
        """Waits for the end of the run. Raises TimeoutError, or what the run raised before it began."""
        return self.live.result(timeout)

    def result(self, timeout: float | None = None) -> Workbench:
        """Waits for the workbench. Raises TimeoutError, or what the run raised before it began."""
        if not self._over.wait(timeout):
            raise TimeoutError("the run has not ended yet")
        if self._problem is not None:
            raise self._problem
        bench = self.bench
        if bench is None:
            raise TimeoutError("nobody has made the workbench of this run yet")
        return bench

    def become(self, bench: Workbench) -> None:
        """Shows this workbench where the run was shown."""
        with self._lock:
            self._bench = bench
            if self._widget is not None:
                bench.show_in(self._widget)

    # --- looking

    def _watch(self) -> None:
        try:
            while True:
                try:
                    recording = self.live.result(INTERVAL)
                    break
                except TimeoutError:
                    if not self.live.done:
                        self._show()
                        continue
                    raise
            if callable(self._finish):
                self.become(self._finish(recording))
        except BaseException as problem:  # handed to whoever asks for the result
            self._problem = problem
        finally:
            self._over.set()
            if self.bench is None:
                self._show()

    def _show(self) -> None:
        with self._lock:
            if self._widget is not None and self._bench is None:
                self._widget.show_run(self.state())

    def state(self) -> dict[str, Any]:
        """What is shown of the run, as plain data."""
        progress = self.live.progress
        snapshot = self.live.snapshot()
        lanes = () if snapshot is None else snapshot.lanes
        queues = () if snapshot is None else snapshot.queues
        steps = progress.steps if progress is not None else 0
        return {
            "title": self.title,
            "state": self._word(),
            "steps": max(steps, snapshot.steps) if snapshot is not None else steps,
            "bytes": progress.kept_bytes if progress is not None else 0,
            "seconds": round(snapshot.seconds if snapshot is not None else 0.0, 2),
            "lane": progress.lane if progress is not None else "",
            "message": _words_of(self._problem) if self._problem is not None else "",
            "lanes": [_lane(lane) for lane in lanes[:_MOST_LANES]],
            "more": max(0, len(lanes) - _MOST_LANES),
            "queues": [_queue(queue) for queue in queues[:_MOST_QUEUES]],
        }

    def _word(self) -> str:
        if self._over.is_set():
            return "failed" if self._problem is not None else "finished"
        if self._ending:
            return "ending"
        return "paused" if self.live.control.paused else "running"

    # --- shown

    def text(self) -> str:
        """How far the run is, in a few lines; the workbench's summary once it is over."""
        bench = self.bench
        if bench is not None:
            return bench.text()
        now = self.state()
        rows = [
            f"{now['title']}: {now['state']}, {now['steps']} steps, {now['bytes'] / 2**20:.1f} MiB kept, "
            f"{now['seconds']:.1f} s"
        ]
        for s in now["lanes"]:
            block = f", block {s['block']}" if s["block"] is not None else ""
            rows.append(f"  {s['name']}{block}: {s['status']}, {s['line']} {s['text']}".rstrip(", "))
        rows += [f"  {now['more']} more lanes"] if now["more"] else []
        for q in now["queues"]:
            depth = f" of {q['depth']}" if q["depth"] is not None else ""
            rows.append(f"  {q['pipe']}: {q['filled']}{depth}" + "".join(f", {w}" for w in q["waiters"]))
        return "\n".join(rows if not now["message"] else [*rows, f"  {now['message']}"])

    def widget(self) -> Any:
        """The notebook widget, made on first use. Raises ModuleNotFoundError with what to install."""
        from pypto_lab.view.workbench.widget import make_widget

        with self._lock:
            if self._widget is None:
                self._widget = make_widget(run=self)
                self._widget.live = self.state()
                if self._bench is not None:
                    self._bench.show_in(self._widget)
            return self._widget

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        bundle: dict[str, Any] = {}
        try:
            shown = self.widget()._repr_mimebundle_()
            bundle.update((shown[0] if isinstance(shown, tuple) else shown) or {})
        except ModuleNotFoundError:
            pass
        bundle["text/plain"] = self.text()
        return bundle


def live(program: Any, values: Mapping[str, Any] | None = None, **options: Any) -> LiveWorkbench:
    """Records a program in a thread of its own and shows the run; see :class:`LiveWorkbench`. Returns at once."""
    return LiveWorkbench(program, values, **options)


def watched(
    program: Any,
    values: Mapping[str, Any] | None = None,
    *,
    display: Callable[[Any], Any] | None = None,
    after: float = SHOWN_AFTER,
    **options: Any,
) -> tuple[Recording, LiveWorkbench | None]:
    """Records a program and waits for it; a run that takes longer than `after` seconds is shown with `display`.

    The second of the pair is what was shown: give it the workbench with :meth:`LiveWorkbench.become`. A
    KeyboardInterrupt ends the run, and its recording until then is returned. Raises what `record` raises.
    """
    run = LiveWorkbench(program, values, finish=False, **options)
    shown: LiveWorkbench | None = None
    patience = after if display is not None else None
    while True:
        try:
            try:
                return run.recording(patience), shown
            except TimeoutError:
                if run.live.done or display is None:
                    raise
            shown, patience = run, None
            display(run)
        except KeyboardInterrupt:
            run.interrupt()


def _lane(lane: LaneState) -> dict[str, Any]:
    return {
        "name": lane.name,
        "block": lane.block,
        "status": lane.status if lane.waiting is None else f"waits: {lane.waiting}",
        "line": lane.source,
        "text": clip(lane.text, _LONGEST),
    }


def _queue(queue: QueueState) -> dict[str, Any]:
    return {
        "pipe": queue.pipe,
        "block": queue.block,
        "filled": queue.occupied,
        "depth": queue.depth,
        "slots": [f"slot {e.slot}: {dims(e.shape)} {e.dtype}" for e in queue.entries],
        "waiters": [str(w) for w in queue.waiters],
    }


def _words_of(problem: BaseException) -> str:
    if isinstance(problem, LabError):
        return "; ".join(d.message for d in problem.diagnostics)
    return f"{type(problem).__name__}: {problem}"
