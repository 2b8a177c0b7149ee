"""Watching and steering a run while it is recorded: progress, pause, go on, interrupt.

A `Control` can be used from another thread (a notebook's buttons) or through its callback from the run itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pypto_lab.record.board import Board, Snapshot
    from pypto_lab.record.recording import Recording


class Interrupted(BaseException):
    """Raised inside the run when it is told to stop; never leaves `record`."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: log entries so far (about the steps), bytes kept in memory, and the lane that runs."""

    steps: int
    kept_bytes: int
    lane: str
    seconds: float = 0.0
    finished: bool = False

    def __str__(self) -> str:
        state = "finished" if self.finished else f"running {self.lane}"
        return f"{self.steps} steps, {self.kept_bytes / 2**20:.1f} MiB kept, {self.seconds:.1f} s, {state}"


@dataclass(slots=True)
class Control:
    """Steers one recording. `on_progress` is called from the run at most every `interval` seconds, `on_message` with
    texts such as the budget's; an exception of theirs stops the run."""

    on_progress: Callable[[Progress], None] | None = None
    on_message: Callable[[str], None] | None = None
    interval: float = 0.2
    last: Progress | None = None
    watched: bool = False
    """Whether somebody may look at the run after its end, too."""
    board: Board | None = None
    """Where the run can be looked at, once it has begun."""
    _go: threading.Event = field(default_factory=threading.Event)
    _stop: bool = False
    _started: float = field(default_factory=time.monotonic)
    _told: float = 0.0

    def __post_init__(self) -> None:
        self._go.set()

    def pause(self) -> None:
        """The run stops at its next loop iteration, call or queue operation, until `resume`."""
        self._go.clear()

    def resume(self) -> None:
        self._go.set()

    def interrupt(self) -> None:
        """The run ends there; its recording holds everything up to that point."""
        self._stop = True
        self._go.set()

    def snapshot(self) -> Snapshot | None:
        """Lanes and queues of the run at this moment; None before it has begun. Does not disturb the run, and works
        while it is paused."""
        return None if self.board is None else self.board.snapshot()

    @property
    def paused(self) -> bool:
        return not self._go.is_set()

    def say(self, text: str) -> None:
        if self.on_message is not None:
            self.on_message(text)

    def look(self, progress: Callable[[], Progress]) -> None:
        """Called by the run now and then. Raises Interrupted when it shall end."""
        now = time.monotonic()
        if now - self._told >= self.interval:
            self._told = now
            self._tell(progress(), finished=False)
        self._go.wait()
        if self._stop:
            raise Interrupted

    def finished(self, progress: Progress) -> None:
        self._tell(progress, finished=True)

    def _tell(self, at: Progress, *, finished: bool) -> None:
        seconds = time.monotonic() - self._started
        self.last = Progress(at.steps, at.kept_bytes, at.lane, seconds, finished)
        if self.on_progress is not None:
            self.on_progress(self.last)


class LiveRecording:
    """A recording made in a thread of its own: look at `progress` and `snapshot`, `pause`, `resume`, `interrupt`, then
    `result`. All of these may be called from any thread, at any time."""

    def __init__(
        self,
        program: Any,
        values: Mapping[str, Any] | None = None,
        *,
        recorder: Callable[..., Recording] | None = None,
        **options: Any,
    ) -> None:
        """Starts at once. Takes the options of `record`, or of another `recorder` (`record_build`, with the folder as
        `program`)."""
        self._recorder = recorder
        self.control: Control = options.pop("control", None) or Control()
        self.control.watched = True
        self._recording: Recording | None = None
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._work, args=(program, values, options), daemon=True)
        self._thread.start()

    def _work(self, program: Any, values: Mapping[str, Any] | None, options: dict[str, Any]) -> None:
        try:
            if self._recorder is None:
                from pypto_lab.record.recorder import record  # torch is needed only when something is recorded

                self._recorder = record
            self._recording = self._recorder(program, values, control=self.control, **options)
        except BaseException as problem:  # handed to the thread that asks for the result
            self._problem = problem

    @property
    def progress(self) -> Progress | None:
        """The last news of the run, None before the first."""
        return self.control.last

    def snapshot(self) -> Snapshot | None:
        """Where each lane stands and what is in the queues at this moment; None before the run has begun."""
        return self.control.snapshot()

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def pause(self) -> None:
        self.control.pause()

    def resume(self) -> None:
        self.control.resume()

    def interrupt(self) -> None:
        self.control.interrupt()

    def result(self, timeout: float | None = None) -> Recording:
        """Waits for the end and gives the recording. Raises TimeoutError, or what the run raised before it began."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise TimeoutError("the run has not ended yet")
        if self._problem is not None:
            raise self._problem
        assert self._recording is not None
        return self._recording
