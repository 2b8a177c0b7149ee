"""Lanes as coroutines: one lane runs at a time, in an order a policy chooses, so that a run is repeatable."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Protocol

from greenlet import GreenletExit, getcurrent, greenlet  # type: ignore[import-untyped, unused-ignore]


class Policy(Protocol):
    """Chooses the lane that runs next, by name. Called where a lane has to wait or ends and, when `preempts`, after
    every push, pop and free too."""

    preempts: bool

    def __call__(self, runnable: Sequence[str]) -> str: ...


class LaneFirst:
    """A lane runs until it has to wait; then the first lane that can go on does."""

    preempts = False
    takes_first = True
    """Lets the scheduler stop looking at the first lane that can go on."""

    def __call__(self, runnable: Sequence[str]) -> str:
        return runnable[0]


class RoundRobin:
    """After every pipe operation the next lane in turn goes on."""

    preempts = True

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, runnable: Sequence[str]) -> str:
        later = [name for name in runnable if name > self._last]
        self._last = (later or list(runnable))[0]
        return self._last


class SeededOrder:
    """After every pipe operation any lane may go on: the same seed gives the same order."""

    preempts = True

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def __call__(self, runnable: Sequence[str]) -> str:
        return self._random.choice(list(runnable))


def policy_of(policy: Policy | str, seed: int) -> Policy:
    """The policy called `lane-first`, `round-robin` or `random`, or the object itself. Raises ValueError."""
    if not isinstance(policy, str):
        return policy
    made: dict[str, Callable[[], Policy]] = {
        "lane-first": LaneFirst,
        "round-robin": RoundRobin,
        "random": lambda: SeededOrder(seed),
    }
    if policy not in made:
        raise ValueError(f"no lane order is called {policy!r}; there are {', '.join(made)}")
    return made[policy]()


class _Task:
    """A lane of a run with its coroutine."""

    __slots__ = ("coroutine", "lane")

    def __init__(self, lane: Any, coroutine: greenlet) -> None:
        self.lane = lane
        self.coroutine = coroutine


class LaneScheduler:
    """Takes the place of `_scheduler` in a script's namespace: the same `lock`, `wait`, `wake` and `run`.

    A deadlock is known at once: no lane of a run can go on. Raises RuntimeError then, with every lane's wait.
    """

    def __init__(self, namespace: dict[str, Any], policy: Policy) -> None:
        self.lock = nullcontext()
        self.policy = policy
        self._names = namespace
        self._tasks: dict[Any, _Task] = {}

    def wait(self, operation: str, ready: Callable[[], bool]) -> None:
        """Lets other lanes run until `ready()`."""
        names = self._names
        lane = names["_current_lane"]()
        task = self._tasks.get(getcurrent())
        lane.waits_for = names["_Wait"](operation, ready, names["_script_line"](2))
        try:
            while not ready():
                if task is None or task.coroutine.parent is None:
                    raise RuntimeError(f"{operation}: no other lane runs that could change this")
                task.coroutine.parent.switch()
        finally:
            lane.waits_for = None

    def wake(self) -> None:
        """A pipe has changed: under a preempting policy another lane may go on here."""
        if self.policy.preempts:
            task = self._tasks.get(getcurrent())
            if task is not None and task.coroutine.parent is not None:
                task.coroutine.parent.switch()

    def run(self, what: str, lanes: Sequence[Any], bodies: Sequence[Callable[[], Any]]) -> list[Any]:
        """Runs lanes to their end; their results in order. An exception of a lane stops the others and goes on."""
        in_lane = self._names["_in_lane"]
        results: dict[int, Any] = {}

        def start(position: int) -> None:
            results[position] = in_lane(lanes[position], bodies[position])

        run = self._names["_Run"](lanes, self._names["_current_lane"]())
        tasks = []
        for position, lane in enumerate(lanes):
            coroutine = greenlet(lambda position=position: start(position))
            tasks.append(_Task(lane, coroutine))
            self._tasks[coroutine] = tasks[-1]
        try:
            self._drive(what, run, list(tasks))
        finally:
            run.end()
            for task in tasks:
                del self._tasks[task.coroutine]
                if task.coroutine and not task.coroutine.dead:
                    task.coroutine.throw(GreenletExit)
        return [results[position] for position in range(len(lanes))]

    def _drive(self, what: str, run: Any, left: list[_Task]) -> None:
        here = self._tasks.get(getcurrent())
        while left:
            task = self._next(left)
            if task is None:
                # the lane that has started this run is one of several itself: another of them may go on
                if here is None or here.coroutine.parent is None or run.stuck():
                    raise RuntimeError(f"{what}: {self._names['_deadlock_text'](run)}")
                here.coroutine.parent.switch()
                continue
            try:
                task.coroutine.switch()
            except Exception as error:
                if not getattr(error, "__notes__", None):
                    error.add_note(self._names["_waiting_text"](run, task.lane))
                raise
            if task.coroutine.dead:
                left.remove(task)
                run.finished.add(task.lane)

    def _next(self, left: list[_Task]) -> _Task | None:
        """The lane that runs next, None when no lane can."""
        if getattr(self.policy, "takes_first", False):
            return next((t for t in left if self._can_go_on(t.lane)), None)
        runnable = [t for t in left if self._can_go_on(t.lane)]
        if len(runnable) < 2:
            return runnable[0] if runnable else None
        chosen = self.policy([t.lane.name for t in runnable])
        return next(t for t in runnable if t.lane.name == chosen)

    def _can_go_on(self, lane: Any) -> bool:
        """Whether the lane, or a lane that it has started, does not have to wait."""
        if lane.inner is None:
            wait = lane.waits_for
            return wait is None or bool(wait.ready())
        return any(not leaf.waits_in_vain for leaf in lane.leaves())
