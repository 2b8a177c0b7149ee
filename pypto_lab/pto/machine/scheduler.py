"""Lanes as coroutines: one runs at a time, until it has to wait; when all wait, that is a deadlock, known at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet  # type: ignore[import-untyped, unused-ignore]

from pypto_lab.torch_codegen.scheduling import Policy, policy_of


@dataclass(slots=True, eq=False)
class _Task:
    name: str
    coroutine: Any
    waits_for: str | None = None
    ready: Callable[[], bool] | None = None


class Deadlock(Exception):
    """Every lane waits. `waits` says for what, by lane."""

    def __init__(self, waits: dict[str, str]) -> None:
        self.waits = waits
        super().__init__("; ".join(f"{name} waits in {what}" for name, what in waits.items()))


class Scheduler:
    """Runs lanes to their end. Seed 0 lets a lane run until it waits, others change lanes at pipe operations too; a
    policy (see `torch_codegen/scheduling.py`) chooses otherwise."""

    def __init__(self, seed: int, policy: Policy | str | None = None) -> None:
        self._policy = policy_of(("random" if seed else "lane-first") if policy is None else policy, seed)
        self._tasks: dict[Any, _Task] = {}

    def wait(self, what: str, ready: Callable[[], bool]) -> None:
        """Lets other lanes run until `ready()`."""
        task = self._tasks.get(getcurrent())
        while not ready():
            if task is None:
                raise Deadlock({"the only lane": what})
            task.waits_for, task.ready = what, ready
            task.coroutine.parent.switch()
        if task is not None:
            task.waits_for = task.ready = None

    def pause(self) -> None:
        """A place where another lane may go on."""
        task = self._tasks.get(getcurrent())
        if self._policy.preempts and task is not None:
            task.coroutine.parent.switch()

    def run(self, names: Sequence[str], bodies: Sequence[Callable[[], None]]) -> None:
        """Runs bodies side by side. Raises Deadlock, or the first error of a lane (the others are stopped)."""
        tasks = []
        for name, body in zip(names, bodies, strict=True):
            task = _Task(name, greenlet(body))
            self._tasks[task.coroutine] = task
            tasks.append(task)
        try:
            self._drive(list(tasks))
        finally:
            for task in tasks:
                del self._tasks[task.coroutine]
                if task.coroutine and not task.coroutine.dead:
                    task.coroutine.throw(GreenletExit)

    def _drive(self, left: list[_Task]) -> None:
        while left:
            runnable = [t for t in left if t.ready is None or t.ready()]
            if not runnable:
                raise Deadlock({t.name: t.waits_for or "nothing" for t in left})
            chosen = runnable[0].name if len(runnable) == 1 else self._policy([t.name for t in runnable])
            task = next(t for t in runnable if t.name == chosen)
            task.coroutine.switch()
            if task.coroutine.dead:
                left.remove(task)
