"""Cross-core pipes between the cube lane (AIC) and the vector lanes (AIV), and the scheduler that runs the lanes.

One place waits (`_scheduler.wait`) and one starts lanes (`_scheduler.run`). A script on its own runs lanes as threads;
a host that wants another order (one lane at a time, repeatable) puts its own object in `_scheduler`.
"""

from __future__ import annotations

import contextvars
import sys
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from pypto_lab.torch_codegen.runtime.values import _cut, _forget, _is_debug_run, _mark, _undefined, _valid_of

_PIPE_WAIT_TIMEOUT_SEC = 10.0
"""How long one push or pop waits before it is reported (lanes as threads)."""

_MIXED_KERNEL_TIMEOUT_SEC = 30.0
"""How long a whole group may take (lanes as threads)."""

_SPLIT_NAMES = ("NONE", "UP_DOWN", "LEFT_RIGHT", "UP_DOWN_ODD", "LEFT_RIGHT_ODD")

_source_of_line: Callable[[int], str] | None = None
"""Says where a script line comes from ("kernel.py:12"); set by a host that knows, used in messages."""


_LISTENER: Callable[[str, str, dict[str, Any]], None] | None = None
"""Told about lanes and pipes as (kind, lane name, details); set by a recorder.

Kinds: push, pop, free, blocked, resumed, deadlock, lane_begin, lane_end, group_begin, group_end, block_begin,
block_end, task_begin, task_end.
"""


class _Lane:
    """Which core runs: its role, its index among the vector lanes, and the SPMD block it belongs to.

    `run` is what it was started with, `inner` what it has started itself and waits for; `meetings` counts the barriers
    it has come to. `pipes` are shared by the lanes of a group.
    """

    __slots__ = ("block", "blocks", "index", "inner", "meetings", "name", "pipes", "region", "role", "run", "waits_for")

    def __init__(self, role: str, index: int = 0, block: int = 0, blocks: int = 1) -> None:
        self.role = role
        self.index = index
        self.block = block
        self.blocks = blocks
        self.run: _Run | None = None
        self.inner: _Run | None = None
        self.meetings = 0
        self.pipes = _Pipes()
        self.region: Any = None
        self.waits_for: _Wait | None = None
        name = f"AIV{index}" if role == "AIV" else role
        self.name = name if blocks == 1 else f"{name} of block {block}"

    def leaves(self) -> Iterator[_Lane]:
        """The lanes that do the work: itself, or what its inner run has left."""
        if self.inner is None:
            yield self
        else:
            yield from self.inner.leaves()

    @property
    def waits_in_vain(self) -> bool:
        return self.waits_for is not None and not self.waits_for.ready()


class _Wait:
    """What a lane waits for: the operation with its pipe in words, and the script line it was called from."""

    __slots__ = ("line", "operation", "ready")

    def __init__(self, operation: str, ready: Callable[[], bool], line: int) -> None:
        self.operation = operation
        self.ready = ready
        self.line = line


class _Run:
    """One start of lanes together, by the lane `starter`; `cancelled` tells the lanes that are left to stop."""

    __slots__ = ("cancelled", "finished", "lanes", "starter")

    def __init__(self, lanes: Sequence[_Lane], starter: _Lane) -> None:
        self.lanes = tuple(lanes)
        self.starter = starter
        self.cancelled = False
        self.finished: set[_Lane] = set()
        starter.inner = self
        for lane in self.lanes:
            lane.run = self
            lane.meetings = starter.meetings

    def end(self) -> None:
        self.starter.inner = None
        self.starter.meetings = max(lane.meetings for lane in self.lanes)

    def leaves(self) -> Iterator[_Lane]:
        for lane in self.lanes:
            if lane not in self.finished:
                yield from lane.leaves()

    def outermost(self) -> _Run:
        return self if self.starter.run is None else self.starter.run.outermost()

    def stopped(self) -> bool:
        return self.cancelled or (self.starter.run is not None and self.starter.run.stopped())

    def stuck(self) -> bool:
        """Whether every lane that is left, in this run and around it, waits for what no lane can bring about."""
        left = list(self.outermost().leaves())
        return bool(left) and all(lane.waits_in_vain for lane in left)


class _LaneCancelled(BaseException):
    """Raised in a waiting lane when another lane of its run has failed."""


_lane_of_context: contextvars.ContextVar[_Lane] = contextvars.ContextVar("lane")


def _current_lane() -> _Lane:
    return _lane_of_context.get(_HOST_LANE)


def _tell(kind: str, **details: Any) -> None:
    """Tells the recorder, if there is one, what happens in the lane that runs."""
    if _LISTENER is not None:
        _LISTENER(kind, _current_lane().name, details)


def _in_lane(lane: _Lane, body: Callable[[], Any]) -> Any:
    """Runs `body` as `lane`; a scheduler calls this in the lane's own thread or coroutine."""
    _lane_of_context.set(lane)
    _tell("lane_begin")
    try:
        return body()
    finally:
        _tell("lane_end")


def _get_subblock_idx() -> int:
    """Index of the vector lane that runs: 0 or 1; 0 on the cube and outside groups."""
    return _current_lane().index


def _get_block_idx() -> int:
    """Index of the SPMD block that runs."""
    return _current_lane().block


def _get_block_num() -> int:
    """Number of SPMD blocks of the launch that runs."""
    return _current_lane().blocks


def _script_line(depth: int = 1) -> int:
    """Line of the nearest caller that is a kernel function (runtime functions start with an underscore).

    `depth` leaves out callers that are neither: a scheduler of the host passes 2.
    """
    frame = sys._getframe(depth)
    while frame is not None:
        if not frame.f_code.co_qualname.startswith("_"):
            return frame.f_lineno
        if frame.f_back is None:
            return 0
        frame = frame.f_back
    return 0


def _line_text(line: int) -> str:
    source = _source_of_line(line) if _source_of_line is not None and line else ""
    return f"script line {line}" + (f", {source}" if source else "")


# --- schedulers ------------------------------------------------------------------------------------------------------


class _ThreadScheduler:
    """Runs each lane in a thread. `lock` guards the pipes; `wait` is called with it held."""

    def __init__(self) -> None:
        self.lock = threading.Condition()

    def wait(self, operation: str, ready: Callable[[], bool]) -> None:
        """Waits until `ready()`. Raises RuntimeError on a deadlock or after `_PIPE_WAIT_TIMEOUT_SEC`."""
        lane = _current_lane()
        lane.waits_for = _Wait(operation, ready, _script_line())
        deadline = time.monotonic() + _PIPE_WAIT_TIMEOUT_SEC
        try:
            while not ready():
                if lane.run is not None:
                    if lane.run.stopped():
                        raise _LaneCancelled
                    if lane.run.stuck():
                        raise RuntimeError(_deadlock_text(lane.run))
                left = deadline - time.monotonic()
                if left <= 0:
                    where = _line_text(lane.waits_for.line)
                    raise RuntimeError(
                        f"{operation} timed out after {_PIPE_WAIT_TIMEOUT_SEC:g} s on {lane.name} ({where}); "
                        f"pipes: {_cross_core_rt.snapshot()}"
                    )
                self.lock.wait(left)
        finally:
            lane.waits_for = None

    def wake(self) -> None:
        """Tells waiting lanes that a pipe has changed. The lock is held."""
        self.lock.notify_all()

    def run(self, what: str, lanes: Sequence[_Lane], bodies: Sequence[Callable[[], Any]]) -> list[Any]:
        """Runs the lanes side by side; their results in order. Raises RuntimeError with the first failure."""
        run = _Run(lanes, _current_lane())
        results: list[Any] = [None] * len(lanes)
        failures: list[tuple[_Lane, BaseException, str, str]] = []

        def work(position: int) -> None:
            lane = lanes[position]
            try:
                results[position] = _in_lane(lane, bodies[position])
            except _LaneCancelled:
                run.cancelled = True
            except BaseException as error:
                with self.lock:
                    failures.append((lane, error, traceback.format_exc(), _waiting_text(run, lane)))
                    run.cancelled = True
            finally:
                with self.lock:
                    run.finished.add(lane)
                    self.lock.notify_all()

        threads = []
        for position, lane in enumerate(lanes):
            threads.append(threading.Thread(target=work, args=(position,), name=f"{what}: {lane.name}", daemon=True))
        try:
            for thread in threads:
                thread.start()
            self._join(what, run, threads)
        except BaseException:
            with self.lock:
                run.cancelled = True
                self.lock.notify_all()
            raise
        finally:
            run.end()
        if failures:
            lane, error, text, waits = failures[0]
            if isinstance(error, RuntimeError) and str(error).startswith("deadlock"):
                raise RuntimeError(f"{what}: {error}") from error
            message = f"{what}: {lane.name} failed: {type(error).__name__}: {error}"
            raise RuntimeError(f"{message}\n{waits}\n{text}") from error
        if run.cancelled:
            raise _LaneCancelled
        return results

    def _join(self, what: str, run: _Run, threads: Sequence[threading.Thread]) -> None:
        deadline = time.monotonic() + _MIXED_KERNEL_TIMEOUT_SEC
        with self.lock:
            while len(run.finished) < len(run.lanes):
                if run.stopped():
                    break
                left = deadline - time.monotonic()
                if left <= 0:
                    alive = [thread.name for thread in threads if thread.is_alive()]
                    raise RuntimeError(
                        f"{what} timed out after {_MIXED_KERNEL_TIMEOUT_SEC:g} s; still running: {alive}; "
                        f"pipes: {_cross_core_rt.snapshot()}"
                    )
                self.lock.wait(left)


_scheduler: Any = _ThreadScheduler()
"""Who runs lanes and waits for them."""


def _waiting_text(run: _Run, failed: _Lane) -> str:
    """Which lane has failed, and what the others wait for."""
    rows = [f"lane {failed.name} failed"]
    for lane in run.leaves():
        wait = lane.waits_for
        if wait is not None:
            rows.append(f"{lane.name} waits in {wait.operation} ({_line_text(wait.line)})")
        elif lane is not failed:
            rows.append(f"{lane.name} is stopped")
    return "; ".join(rows)


def _deadlock_text(run: _Run) -> str:
    """Who waits for what, and the last pushes and pops."""
    rows = ["deadlock: every lane waits"]
    lanes = list(run.outermost().leaves())
    waits = {lane.name: lane.waits_for for lane in lanes if lane.waits_for is not None}
    rows += [f"  {name} waits in {wait.operation} ({_line_text(wait.line)})" for name, wait in waits.items()]
    _tell("deadlock", waits={name: wait.operation for name, wait in waits.items()})
    for pipes in dict.fromkeys(lane.pipes for lane in lanes):
        rows += [f"  {row}" for row in pipes.never_freed()]
        events = [f"    {event}" for event in pipes.history()]
        rows += ["  last pushes and pops:", *(events or ["    none"]), f"  pipes: {pipes.snapshot()}"]
    return "\n".join(rows)


# --- splitting a tile over the lanes ---------------------------------------------------------------------------------


def _split_mode_to_int(split: Any) -> int:
    """The split code 0..4 of a number, an enum member or a name. Raises ValueError for anything else."""
    if type(split) is int and 0 <= split <= 4:
        return split
    value = getattr(split, "value", split)
    if isinstance(value, str):
        name = value.rpartition(".")[2]
        value = _SPLIT_NAMES.index(name) if name in _SPLIT_NAMES else int(value) if value.isdigit() else value
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 4:
        raise ValueError(f"unsupported split mode {split!r}; expected 0 (NONE) to 4 (LEFT_RIGHT_ODD)")
    return value


def _split_axis(split: int) -> int:
    return 0 if split in (1, 3) else 1


def _lane_part(tile: torch.Tensor, split: int, lane: int, lane_stride: int | None = None) -> torch.Tensor:
    """What lane `lane` gets of `tile`: half the box along the split axis, from `lane * lane_stride` on.

    Cells of the half that lie beyond the tile are undefined. Raises ValueError when an odd split's lanes do not differ
    by exactly one cell, or the tile has no such axis.
    """
    axis = _split_axis(split)
    if tile.dim() <= axis:
        raise ValueError(f"split {_SPLIT_NAMES[split]} needs rank {axis + 1} or more, got {tuple(tile.shape)}")
    box = tile.shape[axis]
    half = (box + 1) // 2
    stride = half if lane_stride is None else int(lane_stride)
    valid = _valid_of(tile)
    extents = [min(max(valid[axis] - k * stride, 0), stride) for k in (0, 1)]
    if split >= 3 and extents[0] - extents[1] != 1:
        raise ValueError(
            f"split {_SPLIT_NAMES[split]} needs lane 0 one cell longer than lane 1, "
            f"got {extents[0]} and {extents[1]} of {valid[axis]}"
        )
    start = lane * stride
    part = tile.narrow(axis, min(start, box), max(min(half, box - start), 0))
    part_valid = list(valid)
    part_valid[axis] = min(extents[lane], half)
    if part.shape[axis] < half:
        shape = list(tile.shape)
        shape[axis] = half
        padded = _undefined(shape, tile.dtype)
        padded.narrow(axis, 0, part.shape[axis]).copy_(part)
        part = padded
    return _mark(part, part_valid)


def _lane_parts(tile: torch.Tensor, split: int, lane_stride: int | None = None) -> list[torch.Tensor]:
    """The parts of both lanes."""
    if split < 3 and lane_stride is None and getattr(tile, "_pypto_valid_shape", None) is None:
        axis = split - 1
        if tile.dim() > axis and tile.shape[axis] % 2 == 0 and tile.shape[axis]:
            return list(tile.chunk(2, axis))
    return [_lane_part(tile, split, lane, lane_stride) for lane in (0, 1)]


def _join_parts(first: torch.Tensor, second: torch.Tensor, split: int) -> torch.Tensor:
    """The tile whose halves the two lanes hold. Raises ValueError when the valid parts leave a hole."""
    if split >= 3:
        raise ValueError(f"split {_SPLIT_NAMES[split]} exists from cube to vector only")
    axis = _split_axis(split)
    joined = torch.cat((first, second), dim=axis)
    valids = [_valid_of(first), _valid_of(second)]
    if 0 in valids[1]:
        return _mark(joined, valids[0])
    if 0 in valids[0] or valids[0][axis] != first.shape[axis]:
        raise ValueError(
            f"the lanes' valid parts {valids[0]} and {valids[1]} leave a hole in the joined tile {tuple(joined.shape)}"
        )
    others = [tuple(v for i, v in enumerate(valid) if i != axis) for valid in valids]
    if others[0] != others[1]:
        raise ValueError(f"the lanes' valid parts {valids[0]} and {valids[1]} do not make a rectangle")
    valid = list(valids[0])
    valid[axis] = first.shape[axis] + valids[1][axis]
    return _mark(joined, valid)


def _alias_of(x: torch.Tensor) -> torch.Tensor:
    """Another tensor object in the same memory, with the same valid region."""
    alias = x.view(x.shape) if x.is_contiguous() else x.narrow(0, 0, x.shape[0])
    valid = getattr(x, "_pypto_valid_shape", None)
    return alias if valid is None else _mark(alias, valid)


def _copy_of(x: Any) -> Any:
    """A copy of a tensor with its valid region; tuples element by element; anything else as it is."""
    if isinstance(x, torch.Tensor):
        valid = getattr(x, "_pypto_valid_shape", None)
        copied = x.clone()
        return copied if valid is None else _mark(copied, valid)
    if isinstance(x, tuple):
        return tuple(_copy_of(item) for item in x)
    return x


# --- pipes -----------------------------------------------------------------------------------------------------------


class _Slot:
    """One tile in a pipe. `number` counts the pushes of its lane on this pipe."""

    __slots__ = ("line", "number", "payload")

    def __init__(self, number: int, payload: torch.Tensor, line: int) -> None:
        self.number = number
        self.payload = payload
        self.line = line


class _Pipe:
    """One direction of one pipe id: queues by (split code, lane), and counts by lane for the ring's slots."""

    def __init__(self, to: str, id: int) -> None:
        self.to = to
        self.id = id
        self.name = f"pipe {id} to {to}"
        self.depth: int | None = None
        self.slot_size: int | None = None
        self.queues: dict[tuple[int, int], deque[_Slot]] = {}
        self.pushed = [0, 0]
        self.popped = [0, 0]
        self.freed = [0, 0]
        self.popped_at = [0, 0]

    def ring(self, lane: int) -> str:
        """The name of one lane's ring, the same in every run."""
        return f"{'C2V' if self.to == 'AIV' else 'V2C'}[{lane}]#{self.id}"

    def queue(self, split: int, lane: int) -> deque[_Slot]:
        found = self.queues.get((split, lane))
        if found is None:
            found = self.queues[split, lane] = deque()
        return found

    def full(self, lane: int) -> bool:
        return self.depth is not None and self.pushed[lane] - self.freed[lane] >= self.depth

    def has_room(self, lane: int) -> Callable[[], bool]:
        """The question whether one more tile fits."""
        return lambda: not self.full(lane)

    def holds(self, split: int, lane: int) -> Callable[[], bool]:
        """The question whether there is a tile to pop."""
        queue = self.queue(split, lane)
        return lambda: bool(queue)

    def put(self, split: int, lane: int, payload: torch.Tensor, line: int) -> None:
        self.queue(split, lane).append(_Slot(self.pushed[lane], payload, line))
        self.pushed[lane] += 1

    def take(self, split: int, lane: int) -> torch.Tensor:
        slot = self.queue(split, lane).popleft()
        if slot.number != self.popped[lane]:
            raise RuntimeError(
                f"{self.name}: popped with split {_SPLIT_NAMES[split]} the tile pushed as number {slot.number} "
                f"({_line_text(slot.line)}), but number {self.popped[lane]} is still in the pipe"
            )
        self.popped[lane] += 1
        return slot.payload

    def waiting(self) -> int:
        return sum(len(q) for q in self.queues.values())


class _Pipes:
    """The pipes and events of one group while it runs."""

    __slots__ = ("dual", "events", "pair_warned", "pipes", "signals", "waited")

    def __init__(self, dual: bool = False) -> None:
        self.dual = dual
        self.pipes: dict[tuple[str, int], _Pipe] = {}
        self.events: deque[tuple[str, str, str, int, tuple[int, ...], int]] = deque(maxlen=8)
        self.pair_warned: set[tuple[str, int]] = set()
        self.signals: dict[tuple[int, str, str], int] = {}
        self.waited: dict[tuple[int, str], int] = {}

    def pipe(self, to: str, id: int) -> _Pipe:
        found = self.pipes.get((to, id))
        return self.pipes.setdefault((to, id), _Pipe(to, id)) if found is None else found

    def history(self) -> Iterator[str]:
        """The last pushes and pops, oldest first."""
        for lane, operation, pipe, split, shape, line in self.events:
            yield f"{lane} {operation} {list(shape)} on {pipe}, split {_SPLIT_NAMES[split]} ({_line_text(line)})"

    def never_freed(self) -> Iterator[str]:
        """Rings that are full of tiles that were popped and not freed."""
        for pipe in self.pipes.values():
            for lane in (0, 1):
                kept = pipe.popped[lane] - pipe.freed[lane]
                if pipe.depth is not None and kept >= pipe.depth:
                    yield (
                        f"{pipe.name}, lane {lane}: {kept} tiles popped and never freed (tfree), "
                        f"the last popped at {_line_text(pipe.popped_at[lane])}"
                    )

    def snapshot(self) -> dict[str, Any]:
        """How many tiles each queue holds, by pipe, split and lane."""
        depths: dict[str, Any] = {"no_split_dual_aiv_dispatch": self.dual}
        for direction in ("aiv", "aic"):
            depths[f"to_{direction}"] = 0
            depths[f"to_{direction}_split"] = {1: {0: 0, 1: 0}, 2: {0: 0, 1: 0}}
            depths[f"to_{direction}_dual_nosplit"] = {0: 0, 1: 0}
        for (to, id), pipe in sorted(self.pipes.items()):
            prefix = f"to_{to.lower()}"
            suffix = "" if id == 0 else f" (id {id})"
            for (split, lane), queue in pipe.queues.items():
                if split:
                    lanes = depths.setdefault(f"{prefix}_split{suffix}", {}).setdefault(split, {0: 0, 1: 0})
                    lanes[lane] = len(queue)
                elif self.dual:
                    depths.setdefault(f"{prefix}_dual_nosplit{suffix}", {0: 0, 1: 0})[lane] = len(queue)
                else:
                    depths[f"{prefix}{suffix}"] = len(queue)
        return depths


class _CrossCoreRuntime:
    """The pipes of the group that runs.

    Split codes: 0 NONE, 1 UP_DOWN, 2 LEFT_RIGHT, 3 and 4 the same with lane 0 one cell longer (cube to vector only).
    Without a split and with two vector lanes, a push to the vector side goes to both lanes, and the cube pops a pair
    and takes lane 0's tile. A pipe that was set up by `initialize_pipe` has that many ring slots: a push waits for a
    free one, and `tfree` frees it.
    """

    def reset(self, no_split_dual_aiv_dispatch: bool = False) -> None:
        """New, empty pipes for a group that starts here."""
        _current_lane().pipes = _Pipes(bool(no_split_dual_aiv_dispatch))

    def snapshot(self) -> dict[str, Any]:
        """How many tiles each queue holds, by pipe, split and lane."""
        return _current_lane().pipes.snapshot()

    def history(self) -> Iterator[str]:
        """The last pushes and pops, oldest first."""
        return _current_lane().pipes.history()

    def initialize_pipe(self, dir_mask: int, slot_size: int, slot_num: int | None = None, id: int = 0) -> None:
        """Gives the ring its slots. `dir_mask`: 1 cube to vector, 2 vector to cube, 3 both.

        Without `slot_num` a ring has 8 slots one way, and 4 each way where it goes both ways. Both sides call this;
        raises RuntimeError when they disagree.
        """
        depth = int(slot_num) if slot_num else (4 if dir_mask == 3 else 8)
        with _scheduler.lock:
            for bit, to in ((1, "AIV"), (2, "AIC")):
                if not dir_mask & bit:
                    continue
                pipe = _current_lane().pipes.pipe(to, id)
                if pipe.depth is not None and (pipe.depth, pipe.slot_size) != (depth, slot_size):
                    raise RuntimeError(
                        f"{pipe.name}: one side sets it up with {pipe.depth} slots of {pipe.slot_size} bytes, "
                        f"the other with {depth} of {slot_size}"
                    )
                pipe.depth, pipe.slot_size = depth, slot_size
            _scheduler.wake()

    def push_to_aiv(self, tile: torch.Tensor, split: Any = 0, id: int = 0, lane_stride: int | None = None) -> None:
        """Cube to vector: sends a tile, or to each lane its half. Waits while the ring is full."""
        code, pipes = _split_mode_to_int(split), _current_lane().pipes
        parts = _lane_parts(tile, code, lane_stride) if code else [_alias_of(tile)]
        if pipes.dual and not code:
            parts.append(_copy_of(tile))
        self._push("push_to_aiv", pipes.pipe("AIV", id), code, list(enumerate(parts)), tile)

    def push_to_aic(self, tile: torch.Tensor, split: Any = 0, id: int = 0) -> None:
        """Vector to cube: sends this lane's tile. Raises ValueError for the odd split codes."""
        code = _split_mode_to_int(split)
        if code >= 3:
            raise ValueError(f"split {_SPLIT_NAMES[code]} exists from cube to vector only")
        lane = _current_lane().index if code or _current_lane().pipes.dual else 0
        self._check_lane(lane)
        self._push("push_to_aic", _current_lane().pipes.pipe("AIC", id), code, [(lane, _alias_of(tile))], tile)

    def pop_from_aic(self, split: Any = 0, id: int = 0, valid_shape: Sequence[int] | None = None) -> torch.Tensor:
        """Vector side: the oldest tile (or half) the cube has sent to this lane. Waits for it."""
        code, here = _split_mode_to_int(split), _current_lane()
        lane = here.index if code or here.pipes.dual else 0
        self._check_lane(lane)
        pipe = here.pipes.pipe("AIV", id)
        with _scheduler.lock:
            queue = pipe.queue(code, lane)
            if not queue:
                self._wait("pop_from_aic", pipe, code, lane, "empty", lambda: bool(queue))
            tile = self._hand_over(pipe, code, (lane,), valid_shape, "pop_from_aic", pipe.take(code, lane))
            _scheduler.wake()
        return tile

    def pop_from_aiv(self, split: Any = 0, id: int = 0, valid_shape: Sequence[int] | None = None) -> torch.Tensor:
        """Cube side: the oldest tile of the vector side; with two lanes both halves joined, or lane 0's of a pair."""
        code = _split_mode_to_int(split)
        if code >= 3:
            raise ValueError(f"split {_SPLIT_NAMES[code]} exists from cube to vector only")
        pipe = _current_lane().pipes.pipe("AIC", id)
        lanes = (0, 1) if code or _current_lane().pipes.dual else (0,)
        with _scheduler.lock:
            for lane in lanes:
                if not pipe.queue(code, lane):
                    self._wait("pop_from_aiv", pipe, code, lane, "empty", pipe.holds(code, lane))
            parts = [pipe.take(code, lane) for lane in lanes]
            if code:
                tile = _join_parts(parts[0], parts[1], code)
            else:
                tile = parts[0]
                self._compare_pair(pipe, parts)
            tile = self._hand_over(pipe, code, lanes, valid_shape, "pop_from_aiv", tile)
            _scheduler.wake()
        return tile

    def tfree_to_aic(self, tile: Any, split: Any = 0, id: int = 0) -> None:
        """Vector side: gives the slot of a popped tile back. Raises RuntimeError for a second free."""
        here = _current_lane()
        pipe = here.pipes.pipe("AIV", id)
        lane = here.index if here.pipes.dual or pipe.pushed[1] > 0 else 0
        self._free("tfree_to_aic", pipe, (lane,), tile)

    def tfree_to_aiv(self, tile: Any, split: Any = 0, id: int = 0) -> None:
        """Cube side: gives the slot of a popped tile back to both lanes. Raises RuntimeError for a second free."""
        pipes = _current_lane().pipes
        pipe = pipes.pipe("AIC", id)
        self._free("tfree_to_aiv", pipe, (0, 1) if pipes.dual or pipe.pushed[1] > 0 else (0,), tile)

    def read_after_free(self, name: str) -> None:
        """Called where a script reads a popped tile that it has freed. Raises RuntimeError."""
        raise RuntimeError(f"{name} is read after its slot was freed: the other side may have overwritten it")

    def finish(self, what: str) -> None:
        """Checks the pipes when a group ends: raises RuntimeError for tiles that nobody popped, warns about pops that
        were never freed in a ring that was set up."""
        for _, pipe in sorted(_current_lane().pipes.pipes.items()):
            for (split, lane), queue in pipe.queues.items():
                if queue:
                    raise RuntimeError(
                        f"{what}: {len(queue)} tile(s) pushed on {pipe.name}, split {_SPLIT_NAMES[split]}, lane {lane} "
                        f"were never popped; the first was pushed at {_line_text(queue[0].line)}"
                    )
            for lane in (0, 1):
                missing = pipe.popped[lane] - pipe.freed[lane]
                if pipe.depth is not None and missing:
                    warnings.warn(
                        f"{what}: {missing} tile(s) popped from {pipe.name} by lane {lane} were never freed (tfree)",
                        RuntimeWarning,
                        stacklevel=2,
                    )

    def sync_set(self, event: int, ffts_mode: int | None = None) -> None:
        """Sets an event for the group's other side (mode 1: for the other vector lane). Nothing outside a group."""
        lane = _current_lane()
        with _scheduler.lock:
            key = (event, "pair" if ffts_mode == 1 else "group", lane.name)
            lane.pipes.signals[key] = lane.pipes.signals.get(key, 0) + 1
            _scheduler.wake()

    def sync_wait(self, event: int) -> None:
        """Waits until the other side has set an event once more (a cube: until all vector lanes have)."""
        lane = _current_lane()
        if lane.run is None or lane.role not in ("AIC", "AIV"):
            return
        pipes, lanes = lane.pipes, lane.run.lanes
        sides = {
            "group": [x.name for x in lanes if x.role != lane.role],
            "pair": [x.name for x in lanes if x.role == lane.role and x is not lane],
        }
        with _scheduler.lock:
            turn = pipes.waited[event, lane.name] = pipes.waited.get((event, lane.name), 0) + 1

            def ready() -> bool:
                return any(
                    names and all(pipes.signals.get((event, side, name), 0) >= turn for name in names)
                    for side, names in sides.items()
                )

            if not ready():
                _scheduler.wait(f"sync_wait of event {event}", ready)

    # internals

    @staticmethod
    def _check_lane(lane: int) -> None:
        if lane not in (0, 1):
            raise ValueError(f"vector lane must be 0 or 1, got {lane}")

    @staticmethod
    def _wait(operation: str, pipe: _Pipe, code: int, lane: int, why: str, ready: Callable[[], bool]) -> None:
        state = f"all {pipe.depth} slots taken" if why == "full" else "nothing pushed"
        if _LISTENER is not None:
            _tell("blocked", pipe=pipe.ring(lane), op=operation.partition("_")[0], why=why)
        _scheduler.wait(f"{operation} on {pipe.name}, split {_SPLIT_NAMES[code]}, lane {lane}: {state}", ready)
        if _LISTENER is not None:
            _tell("resumed", pipe=pipe.ring(lane))

    def _push(
        self, operation: str, pipe: _Pipe, code: int, parts: Sequence[tuple[int, torch.Tensor]], tile: torch.Tensor
    ) -> None:
        lane = _current_lane()
        if lane.run is not None and lane.run.stopped():
            raise _LaneCancelled
        line = _script_line()
        with _scheduler.lock:
            if pipe.depth is not None:
                for index, _ in parts:  # only this lane pushes, so a ring that has room keeps it
                    if pipe.full(index):
                        self._wait(operation, pipe, code, index, "full", pipe.has_room(index))
            for index, part in parts:
                # a debug run marks freed slots, so they must be bytes of their own
                pipe.put(code, index, _copy_of(part) if _is_debug_run() else part, line)
                if _LISTENER is not None:
                    _tell("push", pipe=pipe.ring(index), slot=pipe.pushed[index] - 1, value=part, depth=pipe.depth)
            lane.pipes.events.append((lane.name, operation, pipe.name, code, tile.shape, line))
            _scheduler.wake()

    def _hand_over(
        self,
        pipe: _Pipe,
        code: int,
        lanes: Sequence[int],
        valid_shape: Sequence[int] | None,
        operation: str,
        tile: torch.Tensor,
    ) -> torch.Tensor:
        """Gives the popped tile its slot and the region its type states."""
        popped = tile if valid_shape is None else _mark(tile, valid_shape)
        popped._pypto_slot = [pipe, pipe.popped[lanes[0]] - 1, False]  # type: ignore[attr-defined]
        if _LISTENER is not None:
            for lane in lanes:
                _tell("pop", pipe=pipe.ring(lane), slot=pipe.popped[lane] - 1, value=popped)
        line = _script_line()
        for lane in lanes:
            pipe.popped_at[lane] = line
        here = _current_lane()
        here.pipes.events.append((here.name, operation, pipe.name, code, tile.shape, line))
        return popped

    def _free(self, operation: str, pipe: _Pipe, lanes: Sequence[int], tile: Any) -> None:
        with _scheduler.lock:
            slot = getattr(tile, "_pypto_slot", None)
            if slot is not None:
                if slot[2]:
                    raise RuntimeError(f"{operation}: tile number {slot[1]} of {pipe.name} is freed twice")
                if slot[0] is not pipe:
                    raise RuntimeError(f"{operation}: the tile was popped from {slot[0].name}, not from {pipe.name}")
                slot[2] = True
                _forget(tile)
            for lane in lanes:
                if pipe.freed[lane] >= pipe.popped[lane]:
                    raise RuntimeError(f"{operation}: {pipe.name} has no popped tile left to free on lane {lane}")
                pipe.freed[lane] += 1
                if _LISTENER is not None:
                    _tell("free", pipe=pipe.ring(lane), slot=pipe.freed[lane] - 1)
            _scheduler.wake()

    def _compare_pair(self, pipe: _Pipe, parts: Sequence[torch.Tensor]) -> None:
        """Warns once a pipe when two lanes push different tiles without a split: which one arrives is not defined."""
        if len(parts) < 2 or (pipe.to, pipe.id) in _current_lane().pipes.pair_warned or 0 in _valid_of(parts[1]):
            return
        first, second = _cut(parts[0]).float(), _cut(parts[1]).float()
        if first.shape == second.shape and torch.allclose(first, second, rtol=0, atol=0, equal_nan=True):
            return
        _current_lane().pipes.pair_warned.add((pipe.to, pipe.id))
        warnings.warn(
            f"{pipe.name}: the two lanes push different tiles without a split; lane 0's is taken, a device may take "
            "either",
            RuntimeWarning,
            stacklevel=3,
        )


_cross_core_rt = _CrossCoreRuntime()
_HOST_LANE = _Lane("host")


def _sync_all(core_type: str = "mix") -> None:
    """A barrier: waits until every lane of the launch (of one side, with `core_type` "aic..." or "aiv...") has come."""
    lane = _current_lane()
    lane.meetings += 1
    if lane.run is None:
        return
    everyone, turn = lane.run.outermost(), lane.meetings
    absent = {"aic": "AIV", "aiv": "AIC"}.get(core_type.lower()[:3])

    def ready() -> bool:
        return all(x.meetings >= turn for x in everyone.leaves() if x.role != absent)

    with _scheduler.lock:
        _scheduler.wake()
        if not ready():
            _scheduler.wait(f"syncall number {turn}", ready)
