"""The functions that instrumented code calls: they append to a log, save bytes before writes, and look at the clock."""

from __future__ import annotations

import ctypes
import re
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from greenlet import getcurrent  # type: ignore[import-untyped,unused-ignore]
from torch.utils._python_dispatch import TorchDispatchMode

from pypto_lab.record import instrument as ins
from pypto_lab.record.board import Board
from pypto_lab.record.build import Builder
from pypto_lab.record.events import Region, Statement
from pypto_lab.record.live import Control, Progress
from pypto_lab.record.store import Arena
from pypto_lab.record.trace import Trace

CHECK_ENTRIES = 3 * 1024
"""Log entries between two looks at progress, budget and interrupts."""

_memmove = ctypes.memmove


@dataclass(frozen=True, slots=True)
class Change:
    """A what-if: right after step `step` the variable `name` of the lane that made the step gets `value` (a tensor is
    written in place, in `region` only when one is given); with `policy` the lanes run in that order from there on."""

    step: int
    name: str | None = None
    value: Any = None
    region: Region | None = None
    policy: Any = None


class SwitchedPolicy:
    """One lane order up to a step, another one from there on."""

    def __init__(self, first: Any, seed: int, change: Change, probes: Probes) -> None:
        from pypto_lab.torch_codegen.scheduling import policy_of

        self._first, self._then = policy_of(first, seed), policy_of(change.policy, seed)
        self._step, self._probes = change.step, probes

    @property
    def _now(self) -> Any:
        return self._then if self._probes.count >= self._step else self._first

    @property
    def preempts(self) -> bool:
        return bool(self._now.preempts)

    def __call__(self, runnable: Any) -> str:
        chosen: str = self._now(runnable)
        return chosen


_OF_BLOCK = re.compile(r"(.*) of block (\d+)")


def lane_and_block(name: str) -> tuple[str, int]:
    """The runtime's name of a lane in two parts: `AIV0 of block 3` is (AIV0, 3); without a block it is -1."""
    found = _OF_BLOCK.fullmatch(name)
    return (found[1], int(found[2])) if found else (name, -1)


class _Context:
    """One coroutine (or thread) of the run: its lane, its block (-1: its caller's) and its open frames."""

    __slots__ = ("block", "lane", "stack")

    def __init__(self, lane: int, stack: list[int], block: int = -1) -> None:
        self.lane, self.stack, self.block = lane, stack, block


class Probes:
    """The functions that instrumented code calls."""

    def __init__(
        self,
        trace: Trace,
        builder: Builder,
        control: Control,
        change: Change | None,
        make_room: Callable[[], int],
        budget: int,
    ) -> None:
        self.trace, self.builder, self.control, self.change = trace, builder, control, change
        self.make_room, self.budget = make_room, budget
        self.log: list[Any] = []
        self.extend: Callable[[tuple[int, Any, Any]], None] = self.log.extend
        self.count = 0
        if change is not None:
            self.extend = self._counted
        self.frames: list[tuple[int, int, int, int]] = []
        self.contexts: dict[Any, _Context] = {}
        self.arena = Arena()
        self._failures: list[tuple[BaseException, int]] = []
        self._next_check = CHECK_ENTRIES
        self._measured = 0
        self._kept = 0
        self._seen: set[int] = set()
        self._line_to_statement: dict[int, int] = {}
        self.script_file = ""
        self.board = Board(self, watched=control.watched)

    def names(self) -> dict[str, Any]:
        """The probes by the names that instrumented code uses."""
        return {
            ins.EXTEND: self.extend, ins.ENTER: self.enter, ins.LEAVE: self.leave, ins.LOOP: self.loop,
            ins.CONDITION: self.condition, ins.WRITE: self.write, ins.PROXY: self.proxy, ins.META: self.meta,
            ins.GUARD: self.guard, ins.COPY: shallow_copy,
        }  # fmt: skip

    def begin(self, statements: list[Statement]) -> None:
        """The run starts in the coroutine that calls this, on the host lane."""
        self.contexts[getcurrent()] = _Context(0, [])
        for statement in statements:
            for line in range(statement.line, statement.end_line + 1):
                self._line_to_statement.setdefault(line, statement.id)

    def end(self) -> None:
        self.contexts.clear()

    # --- frames

    def parent_frame(self) -> int:
        """The innermost frame of the coroutine that calls this, -1 for none."""
        context = self.contexts.get(getcurrent())
        return context.stack[-1] if context is not None and context.stack else -1

    def new_frame(self, function: int, lane: str, parent: int, block: int, values: tuple[Any, ...]) -> int:
        """Enters a function on a lane that the runtime does not announce (a machine's)."""
        frame = len(self.frames)
        self.frames.append((function, self.lane_number(lane), parent, block))
        self.extend((ins.CODE_ENTER, frame, values))
        return frame

    def kept(self, size: int) -> None:
        """Bytes that the recording has come to hold."""
        self._kept += size

    def tick(self) -> None:
        """A place where the run may be looked at, paused or stopped."""
        if len(self.log) >= self._next_check:
            self.check()

    def enter(self, function: int, values: tuple[Any, ...]) -> int:
        context = self.contexts.get(getcurrent()) or self._stranger()
        frame = len(self.frames)
        self.frames.append((function, context.lane, context.stack[-1] if context.stack else -1, context.block))
        context.stack.append(frame)
        self.extend((ins.CODE_ENTER, frame, values))
        if len(self.log) >= self._next_check:
            self.check()
        return frame

    def _stranger(self) -> _Context:
        """A coroutine or thread the runtime has not announced belongs to the host lane."""
        context = self.contexts[getcurrent()] = _Context(0, [])
        return context

    def leave(self, frame: int) -> None:
        problem = sys.exc_info()[1]
        if problem is not None and type(problem).__name__ not in ("_LaneCancelled", "GreenletExit"):
            self._failures.append((problem, frame))
        context = self.contexts.get(getcurrent())
        if context is not None and context.stack and context.stack[-1] == frame:
            context.stack.pop()
        self.extend((ins.CODE_LEAVE, frame, None))

    def frame_of(self, problem: BaseException | None) -> int:
        """The innermost frame that the deepest cause of an error went through."""
        found = -1
        while problem is not None:
            found = next((frame for e, frame in self._failures if e is problem), found)
            problem = problem.__cause__
        return found

    # --- steps

    def loop(self, statement: int, frame: int, value: Any) -> None:
        self.extend((statement, frame, value))
        if len(self.log) >= self._next_check:
            self.check()

    def condition(self, statement: int, frame: int, value: Any) -> Any:
        self.extend((statement, frame, value))
        if len(self.log) >= self._next_check:
            self.check()
        return value

    # --- writes

    def write(self, x: Any) -> Any:
        """Saves the bytes of a tensor that is about to be written in place, and gives it back."""
        if isinstance(x, torch.Tensor):
            size = x.numel() * x.element_size()
            block, start, address = self.arena.reserve(size)
            if x.is_contiguous():
                _memmove(address, x.data_ptr(), size)
            else:
                block[start : start + size] = x.contiguous().reshape(-1).view(torch.uint8).numpy()
            self.extend((ins.CODE_WRITE, x, (block, start, size)))
            self._kept += size
        elif isinstance(x, (tuple, list)):
            for item in x:
                self.write(item)
        return x

    def proxy(self, target: Any) -> Any:
        return _Proxy(self, target) if isinstance(target, torch.Tensor) else target

    def meta(self, x: Any) -> Any:
        """Remembers the valid shape of a tensor that is about to get another one."""
        valid = x.__dict__.get(ins.VALID_ATTRIBUTE)
        if valid is not None:
            self.extend((ins.CODE_META, x, valid))
        return x

    def guard(self, function: Any) -> Any:
        """Watches a call whose body is not instrumented for tensors it writes in place."""
        module = getattr(function, "__module__", None) or ""
        if isinstance(function, (types.BuiltinFunctionType, type)) or module.split(".")[0] in _QUIET_MODULES:
            return function
        return _Watched(self, function)

    # --- lanes and queues

    def listen(self, kind: str, lane: str, details: dict[str, Any]) -> None:
        """What the runtime tells about lanes, pipes, blocks and tasks (`torch_codegen/runtime/lanes.py`)."""
        current = getcurrent()
        context = self.contexts.get(current)
        name, block = lane_and_block(lane)
        if kind == "lane_begin":
            parent = self.contexts.get(current.parent)
            stack = [parent.stack[-1]] if parent is not None and parent.stack else []
            self.contexts[current] = _Context(self.lane_number(name), stack, block)
            return
        if kind == "lane_end":
            self.contexts.pop(current, None)
            return
        if kind.startswith("block_") and context is not None and context.block >= 0:
            return  # the lane was made for this block
        frame = context.stack[-1] if context is not None and context.stack else -1
        if kind == "blocked":
            details = {**details, "statement": self._running_statement()}
        self.extend((ins.CODE_EVENT, frame, (kind, self.lane_number(name), {**details, "of_block": block})))
        if len(self.log) >= self._next_check:
            self.check()

    def _running_statement(self) -> int:
        """The kernel statement that is being done: the nearest caller in kernel code."""
        python: types.FrameType | None = sys._getframe(2)
        while python is not None:
            code = python.f_code
            if code.co_filename == self.script_file and not code.co_qualname.startswith("_"):
                return self._line_to_statement.get(python.f_lineno, -1)
            python = python.f_back
        return -1

    def lane_number(self, name: str) -> int:
        lanes = self.trace.lanes
        if name not in lanes:
            lanes.append(name)
        return lanes.index(name)

    # --- what-if

    def _counted(self, entry: tuple[int, Any, Any]) -> None:
        """`extend` of a what-if run: counts the steps and makes the change when its step is done."""
        self.log.extend(entry)
        code, _, payload = entry
        if code >= 0 or code == ins.CODE_ENTER or (code == ins.CODE_EVENT and payload[0] == "blocked"):
            self.count += 1
            change = self.change
            if change is not None and self.count == change.step and change.name is not None:
                self._apply(change, sys._getframe(1))

    def _apply(self, change: Change, python: types.FrameType | None) -> None:
        assert change.name is not None
        while python is not None and not (ins.FRAME in python.f_locals and change.name in python.f_locals):
            python = python.f_back
        if python is None:
            return
        frame, old = python.f_locals[ins.FRAME], python.f_locals[change.name]
        value = change.value
        if isinstance(old, torch.Tensor):
            target = old if change.region is None else old[change.region]
            source = value if isinstance(value, torch.Tensor) else torch.as_tensor(value)
            self.write(target)
            target.copy_(source.to(target.dtype).expand(target.shape))
            value = old
        else:
            _set_local(python, change.name, value)
        self.log.extend((ins.CODE_CHANGE, frame, (change.name, value)))

    # --- between steps

    def check(self) -> None:
        """Progress, pause, interrupt, and the memory budget."""
        self._measure()
        if self._kept > self.budget:
            self._kept = max(0, self._kept - self.make_room())
        self._next_check = len(self.log) + CHECK_ENTRIES
        self.control.look(self.progress)

    def progress(self) -> Progress:
        frame = self.frames[-1] if self.frames else (0, 0, -1, -1)
        steps = len(self.trace) + len(self.log) // 3
        return Progress(steps=steps, kept_bytes=self._kept, lane=self.trace.lanes[frame[1]])

    def _measure(self) -> None:
        """Adds the bytes of tensors the log has come to hold since the last look; each storage counts once."""
        for i in range(self._measured + 2, len(self.log), 3):
            payload = self.log[i]
            if isinstance(payload, torch.Tensor):
                storage = payload.untyped_storage()
                key = storage._cdata
                if key not in self._seen:
                    self._seen.add(key)
                    self._kept += storage.nbytes()
        self._measured = len(self.log)

    def ingest(self) -> None:
        """Hands the log to the builder and empties it (the list itself stays: probes hold its method)."""
        self.board.pause_reading()
        self.builder.ingest(self.log, self.frames)
        self.log.clear()
        self.board.rewind()
        self._seen.clear()
        self._measured = 0
        self._next_check = CHECK_ENTRIES


_QUIET_MODULES = frozenset({"torch", "math", "builtins", "numpy", "operator", "functools", "itertools", "typing"})


def shallow_copy(value: Any) -> Any:
    """A copy of a container (its items shared), so that later changes of the container do not change the record."""
    if isinstance(value, list):
        return [shallow_copy(v) if isinstance(v, (list, dict)) else v for v in value]
    if isinstance(value, dict):
        return {k: shallow_copy(v) if isinstance(v, (list, dict)) else v for k, v in value.items()}
    if isinstance(value, tuple):
        return tuple(shallow_copy(v) if isinstance(v, (list, dict)) else v for v in value)
    return value


class _Proxy:
    """Stands for a tensor in `tensor[key] = value` and `tensor[key] += value`: saves the region, then writes."""

    __slots__ = ("probes", "saved", "tensor")

    def __init__(self, probes: Probes, tensor: torch.Tensor) -> None:
        self.probes, self.tensor, self.saved = probes, tensor, False

    def __getitem__(self, key: Any) -> Any:
        """Asked for by `+=` only, which then changes the view it gets."""
        region = self.tensor[key]
        self._save(key, region)
        self.saved = True
        return region

    def __setitem__(self, key: Any, value: Any) -> None:
        if not self.saved:
            self._save(key, self.tensor[key])
        self.tensor[key] = value

    def _save(self, key: Any, region: torch.Tensor) -> None:
        if region.untyped_storage()._cdata == self.tensor.untyped_storage()._cdata:
            self.probes.write(region)
        else:  # index tensors and masks: the region is a copy
            self.probes.extend((ins.CODE_INDEXED, self.tensor, (_copied_key(key), region.clone())))


def _copied_key(key: Any) -> Any:
    if isinstance(key, torch.Tensor):
        return key.clone()
    return tuple(_copied_key(k) for k in key) if isinstance(key, tuple) else key


class _Watched:
    """A function whose in-place writes are seen by torch's dispatcher instead of by probes."""

    __slots__ = ("function", "probes")

    def __init__(self, probes: Probes, function: Any) -> None:
        self.probes, self.function = probes, function

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        with _WriteWatch(self.probes):
            return self.function(*arguments, **keywords)


class _WriteWatch(TorchDispatchMode):  # type: ignore[no-untyped-call,unused-ignore]
    """Saves what an operation of torch is about to overwrite, by the operation's own schema."""

    def __init__(self, probes: Probes) -> None:
        super().__init__()  # type: ignore[no-untyped-call,unused-ignore]
        self.probes = probes

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        for i, parameter in enumerate(function._schema.arguments):
            if parameter.alias_info is not None and parameter.alias_info.is_write:
                self.probes.write(args[i] if i < len(args) else kwargs.get(parameter.name))
        return function(*args, **kwargs)


def _set_local(frame: types.FrameType, name: str, value: Any) -> None:
    """Gives a local variable of a running function another value."""
    frame.f_locals[name] = value
    if sys.version_info < (3, 13):  # there `f_locals` is a copy that has to be written back
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
