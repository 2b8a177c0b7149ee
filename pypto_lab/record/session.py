"""One cursor in a recording: step and jump both ways, a focus on a lane, block and iteration, breakpoints, watches.

Moving never runs anything and never changes the recording; a step back costs as little as a step forward.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pypto_lab.ir.diagnostics import Diagnostic, LabError, did_you_mean
from pypto_lab.record.breakpoints import Breakpoint
from pypto_lab.record.events import (
    Author,
    LaneState,
    Place,
    QueueEvent,
    QueueState,
    RecomputedValue,
    ScalarValue,
    Step,
    StepKind,
    TensorValue,
    region_of,
)
from pypto_lab.record.expressions import evaluate, shown
from pypto_lab.record.queries import (
    Divergence,
    author_of,
    authors_of,
    first_divergence,
    next_write_of,
    place_of,
    queues_at,
    readers_of,
    version_bounds,
    waiter_of,
    waits_at,
)
from pypto_lab.record.recording import Recording, other_engine
from pypto_lab.record.trace import Binding, Content, innermost

Part = Sequence[int | slice] | int | slice | None
"""A cell, a region, or (None) all of a value."""
Steps = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Focus:
    """What the cursor looks at: a lane, and in it a block, a task, an iteration (of the innermost loop, or of several
    loops outermost first). None is any."""

    lane: str
    block: int | None = None
    task: int | None = None
    iteration: int | tuple[int, ...] | None = None

    def __str__(self) -> str:
        parts = [("block", self.block), ("task", self.task), ("iteration", self.iteration)]
        return ", ".join([self.lane, *[f"{name} {at}" for name, at in parts if at is not None]])

    def fits(self, block: int, task: int, iterations: tuple[int, ...]) -> bool:
        if self.block is not None and self.block != block:
            return False
        if self.task is not None and self.task != task:
            return False
        if self.iteration is None:
            return True
        wanted = (self.iteration,) if isinstance(self.iteration, int) else tuple(self.iteration)
        return iterations[len(iterations) - len(wanted) :] == wanted


@dataclass(frozen=True, slots=True)
class Hit:
    """A run stopped: at which breakpoint and step."""

    breakpoint: Breakpoint
    step: Step


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable at a position. `last_written` is the step that gave it its content (binding or in-place write)."""

    name: str
    kind: Literal["tensor", "scalar", "other"]
    dtype: str
    shape: tuple[int, ...]
    valid: tuple[int, ...]
    text: str
    last_written: int
    source: str
    op: str | None = None
    place: Place | None = None
    """Its bytes on chip, where the program or the machine says so."""


@dataclass(frozen=True, slots=True)
class WatchValue:
    expression: str
    text: str
    ok: bool


class Session:
    """A position in a recording. Positions count steps: 0 is before the first, `k` is right after step `k`.

    Unless a lane was chosen with `focus_on`, the focus follows the lane that made the step.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.breakpoints: list[Breakpoint] = []
        self.watches: list[str] = []
        self.following = True
        self._position = 0
        self._focus = Focus(recording.trace.lanes[0] if not len(recording) else recording.index.coordinate(1).lane)
        self._candidates: dict[Breakpoint, Steps] = {}
        self._focused: tuple[Focus, list[int]] | None = None
        self._texts: dict[tuple[int, int], str] = {}
        self._waits: tuple[int, list[QueueEvent]] | None = None

    def __repr__(self) -> str:
        return f"<Session of {self.recording.facts.entry} at {self._position} of {len(self.recording)}, {self._focus}>"

    # --- where

    @property
    def position(self) -> int:
        return self._position

    @property
    def current(self) -> Step | None:
        """The step just done, None at position 0."""
        return self.recording.index.step(self._position) if self._position else None

    @property
    def focus(self) -> Focus:
        return self._focus

    def __len__(self) -> int:
        return len(self.recording)

    # --- moving by step

    def goto(self, position: int) -> Step | None:
        """Moves to a position. Raises IndexError outside 0..len(session)."""
        if not 0 <= position <= len(self.recording):
            raise IndexError(f"position {position} is outside 0..{len(self.recording)}")
        self._position = position
        if self.following and position:
            self._focus = Focus(self.recording.index.coordinate(position).lane)
        return self.current

    def step(self) -> Step | None:
        """The next step of any lane; None at the end."""
        return self._to(self._position + 1 if self._position < len(self.recording) else None)

    def back(self) -> Step | None:
        """One step back, of any lane; None at the start (and before the first step)."""
        return self._to(self._position - 1 if self._position else None)

    def start(self) -> None:
        self.goto(0)

    def end(self) -> Step | None:
        return self.goto(len(self.recording))

    def next_event(self) -> Step | None:
        """The focused lane's next step; None when it has none."""
        steps = self.focused_steps
        at = bisect_right(steps, self._position)
        return self._to(steps[at] if at < len(steps) else None)

    def previous_event(self) -> Step | None:
        """The focused lane's step before the current one; None when it has none."""
        steps = self.focused_steps
        at = bisect_left(steps, self._position)
        return self._to(steps[at - 1] if at else None)

    # --- moving by structure

    def over(self) -> Step | None:
        """The focused lane's next statement in the same function (or a caller's), past its calls and waits."""
        return self._to(self._neighbour(self._after()))

    def back_over(self) -> Step | None:
        """The same backwards."""
        steps = self._lane_steps()
        return self._to(self._neighbour(reversed(steps[: bisect_left(steps, self._position)])))

    def into(self) -> Step | None:
        """The next step inside what the focused frame does next: the first of a call, or of the lanes of a group."""
        index = self.recording.index
        here = self._frame()
        if here is None:
            return self.step()
        for step in range(self._position + 1, len(self.recording) + 1):
            frame = self.recording.trace.steps.frame[step - 1]
            if here in innermost(self.recording.trace.frames, frame):
                return self._to(step)
        return self.next_event() if index.steps_of_lane else None

    def out(self) -> Step | None:
        """The focused lane's first step after the current function has ended; the lane's last step where it started
        there."""
        here = self._frame()
        steps = self._lane_steps()
        if here is None or not steps:
            return None
        end = self.recording.trace.frames[here].end
        at = bisect_right(steps, max(end, self._position))
        last = steps[-1] if steps[-1] > self._position else None
        return self._to(steps[at] if at < len(steps) else last)

    def _neighbour(self, steps: Iterable[int]) -> int | None:
        """The first of some steps that is neither a wait nor deeper than the focused frame."""
        index = self.recording.index
        here = self._frame()
        depth = index.depth_of_frame[here] if here is not None else len(self.recording.trace.frames)
        for step in steps:
            frame = self.recording.trace.steps.frame[step - 1]
            waits = self.recording.trace.steps.kind[step - 1] == StepKind.BLOCKED
            if not waits and index.depth_of_frame[frame] <= depth:
                return step
        return None

    def _after(self) -> list[int]:
        steps = self._lane_steps()
        return steps[bisect_right(steps, self._position) :]

    def _lane_steps(self, lane: str | None = None) -> list[int]:
        """Steps of a lane (the focused one by default) in the focused block, or in any."""
        return self._steps_in(Focus(lane or self._focus.lane, self._focus.block))

    def _frame(self, lane: str | None = None) -> int | None:
        """The innermost activation of a lane at the position: that of its last step."""
        steps = self._lane_steps(lane)
        at = bisect_right(steps, self._position)
        return self.recording.trace.steps.frame[steps[at - 1] - 1] if at else None

    def _to(self, position: int | None) -> Step | None:
        return None if position is None else self.goto(position)

    # --- focus

    def focus_on(
        self,
        lane: str | None = None,
        *,
        block: int | None = None,
        task: int | None = None,
        iteration: int | tuple[int, ...] | None = None,
    ) -> Step | None:
        """Looks at one lane, block, task and iteration from now on, and goes to its first step if the cursor is
        elsewhere. Raises LabError where no step is there."""
        self._lane_id(lane or self._focus.lane)
        focus = Focus(lane or self._focus.lane, block, task, iteration)
        steps = self._steps_in(focus)
        if not steps:
            raise LabError([Diagnostic("E414", f"no step lies at {focus}")])
        self._focus, self.following = focus, False
        narrowed = (block, task, iteration) != (None, None, None)
        if narrowed and self._position not in set(steps):
            at = bisect_right(steps, self._position)
            self._position = steps[at] if at < len(steps) else steps[0]
        return self.current

    def follow(self) -> None:
        """The focus follows the running lane again."""
        self.following = True
        if self._position:
            self._focus = Focus(self.recording.index.coordinate(self._position).lane)

    @property
    def focused_steps(self) -> list[int]:
        """Steps the focus lets through, ascending."""
        if self._focused is None or self._focused[0] != self._focus:
            self._focused = (self._focus, self._steps_in(self._focus))
        return self._focused[1]

    def _steps_in(self, focus: Focus) -> list[int]:
        steps = self.recording.index.steps_of_lane.get(self._lane_id(focus.lane), [])
        if (focus.block, focus.task, focus.iteration) == (None, None, None):
            return steps
        columns = self.recording.trace.steps
        return [s for s in steps if focus.fits(columns.block[s - 1], columns.task[s - 1], columns.iterations[s - 1])]

    def _lane_id(self, name: str) -> int:
        lanes = self.recording.trace.lanes
        if name not in lanes:
            raise LabError([Diagnostic("E415", f"no lane is called `{name}`", hint=did_you_mean(name, lanes))])
        return lanes.index(name)

    # --- breakpoints and watches

    def break_at(self, *breakpoints: Breakpoint) -> None:
        self.breakpoints += breakpoints

    def run(self) -> Hit | None:
        """Forward to the next breakpoint; to the end, and None, when there is none."""
        return self._run(forward=True)

    def run_back(self) -> Hit | None:
        """Backwards to the breakpoint before; to the start, and None, when there is none."""
        return self._run(forward=False)

    def _run(self, *, forward: bool) -> Hit | None:
        best: tuple[int, Breakpoint] | None = None
        for b in self.breakpoints:
            found = self._search(b, forward, best[0] if best is not None else None)
            if found is not None and (best is None or (found < best[0]) == forward):
                best = (found, b)
        if best is None:
            self.goto(len(self.recording) if forward else 0)
            return None
        self.goto(best[0])
        return Hit(best[1], self.recording.index.step(best[0]))

    def _search(self, b: Breakpoint, forward: bool, bound: int | None) -> int | None:
        """A breakpoint's nearest stop, looked for no further than `bound`."""
        if b not in self._candidates:
            self._candidates[b] = b.candidates(self.recording)
        steps = self._candidates[b]
        if forward:
            ahead = steps[np.searchsorted(steps, self._position, "right") :]
        else:
            ahead = steps[: np.searchsorted(steps, self._position, "left")][::-1]
        for step in ahead.tolist():
            if bound is not None and (step >= bound) == forward:
                return None
            if b.stops(self.recording, step):
                return int(step)
        return None

    def stops(self, b: Breakpoint) -> list[int]:
        """All steps at which a breakpoint stops."""
        return [s for s in b.candidates(self.recording).tolist() if b.stops(self.recording, s)]

    def facts(self, b: Breakpoint) -> dict[str, Any]:
        """A breakpoint as plain data for another process: its `kind` and fields, its `label`, and all `steps` at which
        it stops, so that running to it is a look-up."""
        return {**b.facts(), "label": b.label, "steps": self.stops(b)}

    def watch(self, expression: str) -> WatchValue:
        """Adds a watch (a Python expression over the variables) and gives its value here."""
        self.watches.append(expression)
        return self.look(expression)

    def look(self, expression: str) -> WatchValue:
        """The value of an expression in the focused frame, in words. Raises LabError when it is no expression."""
        frame = self._frame()
        try:
            value = evaluate(expression, self.recording, 0 if frame is None else frame, self._position)
        except LabError:
            raise
        except Exception as problem:
            return WatchValue(expression, f"{type(problem).__name__}: {problem}", False)
        return WatchValue(expression, shown(value), True)

    @property
    def watched(self) -> tuple[WatchValue, ...]:
        return tuple(self.look(w) for w in self.watches)

    # --- state

    @property
    def lanes(self) -> tuple[LaneState, ...]:
        """Every lane at the position."""
        return tuple(self._lane_state(name) for name in self.recording.lanes)

    def _lane_state(self, name: str) -> LaneState:
        index = self.recording.index
        steps = self._lane_steps(name)
        at = bisect_right(steps, self._position)
        last, ahead = (steps[at - 1] if at else 0), (steps[at] if at < len(steps) else None)
        done = index.step(last) if last else None
        waiting = self._waiting(self._lane_id(name), done.where.block if done is not None else None)
        status: Literal["not started", "ready", "running", "waits", "done", "failed"] = "ready"
        if last == 0:
            status = "not started"
        elif done is not None and done.kind == StepKind.FAILED:
            status = "failed"
        elif waiting is not None:
            status = "waits"
        elif ahead is None or self._has_ended(last):
            status = "done"
        elif last == self._position:
            status = "running"
        return LaneState(
            name=name,
            status=status,
            position=last,
            next=ahead,
            line=done.line if done else 0,
            source=done.source if done else "",
            text=done.text if done else "",
            waiting=waiter_of(self.recording, waiting) if waiting is not None else None,
            block=done.where.block if done else None,
            task=done.where.task if done else None,
        )

    def _has_ended(self, step: int) -> bool:
        """Whether the outermost function that a lane was in at its last step has ended by now."""
        frames = self.recording.trace.frames
        outermost = frame = self.recording.trace.steps.frame[step - 1]
        for caller in innermost(frames, frame):
            if frames[caller].lane == frames[frame].lane:
                outermost = caller
        return frames[outermost].end <= self._position

    def _waiting(self, lane: int, block: int | None) -> QueueEvent | None:
        """The wait a lane is in."""
        if self._waits is None or self._waits[0] != self._position:
            self._waits = (self._position, waits_at(self.recording, self._position))
        return next((e for e in self._waits[1] if e.lane == lane and e.block in (block, None)), None)

    @property
    def queues(self) -> tuple[QueueState, ...]:
        """Every pipe: its entries with shape, valid shape and who pushed them, ring occupancy, and who waits."""
        return queues_at(self.recording, self._position)

    def variables(self, lane: str | None = None) -> tuple[Variable, ...]:
        """The variables of a lane's current function (the focused lane's by default), in order of first binding."""
        frame = self._frame(lane)
        if frame is None:
            return ()
        found = (self._bound_in(frame, name) for name in self.recording.index.names_of_frame.get(frame, ()))
        hidden = ("condition", "return")
        return tuple(self._variable(b) for b in found if b is not None and b.name not in hidden)

    def _variable(self, binding: Binding) -> Variable:
        index = self.recording.index
        content = index.content(binding.value, self._position)
        written = version_bounds(index, binding, self._position)[0]
        value = self.recording.trace.values[binding.value]
        kind: Literal["tensor", "scalar", "other"] = "other"
        dtype, shape, valid = "", (), ()
        if isinstance(value, (TensorValue, RecomputedValue)) and hasattr(content, "dtype"):
            kind, dtype, shape = "tensor", content.dtype, content.shape
            valid = content.valid if content.valid is not None else shape
        elif isinstance(value, ScalarValue) or isinstance(content, (bool, int, float, str)):
            kind, dtype = "scalar", type(content).__name__
        statement = index.statement(written) if written else None
        source = index.step(written).source if written else ""
        op = statement.op if statement is not None else None
        version = (binding.value, written)  # the content is the same as long as nobody writes
        if version not in self._texts:
            self._texts[version] = shown(content)
        text, place = self._texts[version], place_of(index, binding)
        return Variable(binding.name, kind, dtype, shape, valid, text, written, source, op, place)

    def _bound_in(self, frame: int, name: str) -> Binding | None:
        return self.recording.index.bound(frame, name, self._position)

    def value(self, name: str) -> Content:
        """What a variable holds at the position: Cells (`.numbers`, `.valid`), a scalar, or a tuple.

        Raises LabError when no variable is called that.
        """
        binding = self.find(name)
        return self.recording.index.content(binding.value, self._position)

    def find(self, name: str) -> Binding:
        """The variable a name means here: in the focused frame, its callers, the entry's parameters, then the last
        one anywhere that was called so; `out` also finds `out__ssa_v0`. Raises LabError with the nearest names."""
        index = self.recording.index
        frame = self._frame()
        frames = list(innermost(self.recording.trace.frames, frame)) if frame is not None else []
        every = [f for f in range(len(self.recording.trace.frames)) if f not in frames]
        for candidate in (*frames, *every[:1], *reversed(every)):
            for known in reversed(index.names_of_frame.get(candidate, [])):
                if known == name or known.partition("__ssa_v")[0] == name:
                    bound = self._bound_in(candidate, known)
                    if bound is not None:
                        return bound
        value = self.recording.facts.outputs.get(name, self.recording.facts.inputs.get(name))
        if value is not None:
            return Binding(0, 0, name, value)
        names = {b.name for b in self.recording.trace.bindings}
        message = f"no variable is called `{name}` at step {self._position}"
        raise LabError([Diagnostic("E413", message, hint=did_you_mean(name, names))])

    # --- who

    def who_wrote(self, name: str, place: Part = None) -> Author:
        """Who gave a cell (`(r, c)`), a region (slices) or all of a variable its content at the position: the latest
        writer with lane, statement, source line and iteration. Raises LabError, or IndexError outside the value."""
        binding = self.find(name)
        return author_of(self.recording, binding, self._region(binding, place), self._position)

    def writers(self, name: str, place: Part = None) -> list[tuple[Author, int]]:
        """All authors of a region with their number of cells, the latest first."""
        binding = self.find(name)
        return authors_of(self.recording, binding, self._region(binding, place), self._position)

    def next_writer(self, name: str, place: Part = None) -> Author | None:
        """Who will write a region next, None when nobody does."""
        binding = self.find(name)
        return next_write_of(self.recording, binding, self._region(binding, place), self._position)

    def readers(self, name: str) -> list[Step]:
        """The steps that read what the variable holds now, under any name."""
        binding = self.find(name)
        return [self.recording.index.step(s) for s in readers_of(self.recording, binding, self._position)]

    def _region(self, binding: Binding, place: Part) -> tuple[slice, ...]:
        content = self.recording.index.content(binding.value, self._position)
        return region_of(place, getattr(content, "shape", ()))

    # --- other recordings

    def first_divergence(self, other: Recording, *, tolerance: float = 0.0) -> Divergence | None:
        """The first value that differs from another recording's."""
        return first_divergence(self.recording, other, tolerance=tolerance)

    def what_if(self, name: str | None = None, value: Any = None, *, place: Part = None, policy: Any = None) -> Session:
        """Runs on from here with one thing changed, as a branch of the recording; gives a session on it.

        `name` gets `value` (a tensor is written in place, in `place` only when one is given), or from here on the
        lanes run in the order `policy`. The steps up to here are the same. Raises LabError where torch is not
        installed or the position is 0.
        """
        if self._position == 0:
            raise LabError([Diagnostic("E416", "a what-if starts after a step; go to one first")])
        if self.recording.facts.engine:
            raise other_engine(self.recording.facts.engine)
        try:
            from pypto_lab.record.recorder import Change, rerun
        except ImportError as problem:
            hint = "the recording can be looked at without it, but not run on"
            raise LabError([Diagnostic("E417", f"a what-if needs torch: {problem}", hint=hint)]) from problem
        region = None
        if name is not None:
            binding = self.find(name)
            name = binding.name
            region = None if place is None else self._region(binding, place)
        branch = rerun(self.recording, Change(self._position, name, value, region, policy))
        what = f"`{name}` changed" if name is not None else "another lane order"
        branch.facts = replace(branch.facts, branch=f"after step {self._position}: {what}")
        self.recording.branches.append(branch)
        session = Session(branch)
        session.goto(min(self._position, len(branch)))
        return session

    # --- text

    def report(self) -> str:
        """The state at the position as text: step, lanes, queues, variables, watches."""
        from pypto_lab.record.report import state_report

        return state_report(self)
