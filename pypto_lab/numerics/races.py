"""Accesses to global memory that nothing orders: between the lanes of a group, and between SPMD blocks.

Every lane carries a vector clock. A push and its pop, a free and the push that takes the slot again, events, barriers
and the start and end of lanes order them; each load and store is checked against those before it, cell by cell.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pypto_lab.ir import nodes as n
from pypto_lab.torch_codegen.execute import Prepared, file_name, namespace, prepare
from pypto_lab.torch_codegen.lines import Script

LINE_BYTES = 64
"""A scalar write reads and writes back a whole line of this many bytes."""
LARGEST = 1 << 24
"""Tensors with more cells than this are not watched."""

Clock = dict[str, int]


@dataclass(frozen=True, slots=True)
class Access:
    """One access to global memory: which lane made it, as what, and at which place of the source."""

    lane: str
    time: int
    kind: str
    where: str
    statement: str

    def __str__(self) -> str:
        return f"{self.lane} {self.kind} at {self.where} (`{self.statement}`)"


@dataclass(frozen=True, slots=True)
class Race:
    """Two accesses to the same cells (`lines` false) or to the same 64-byte line that nothing orders."""

    tensor: str
    first: Access
    second: Access
    cells: int
    lines: bool = False

    def __str__(self) -> str:
        what = f"{self.cells} cells of `{self.tensor}`"
        if self.lines:
            what = f"one {LINE_BYTES}-byte line of `{self.tensor}` by scalars: an update can be lost"
        return f"{self.first} and {self.second} touch {what}; nothing orders them"


def race_check(
    program: n.Program | n.Function, values: Mapping[str, Any], *, seed: int = 0, memory: str = "names"
) -> tuple[Race, ...]:
    """Runs a program and returns the unordered accesses, one for each pair of statements. Raises LabError like `run`.

    Watched are loads, stores, element reads and writes and `tensor.assemble` of tensors that a launch is given.
    """
    from pypto_lab.torch_codegen.generate import generate

    prepared = prepare(program, values, script=generate(program, memory=memory))
    watcher = _Watcher(prepared)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        names = namespace(prepared.script, seed=seed, listener=watcher.heard)
        watcher.attach(names)
        prepared.call(names)
    return tuple(watcher.races.values())


@dataclass(eq=False, slots=True)
class _Shadow:
    """For every cell of a tensor's memory: the number of its last write, and of each lane's last read."""

    name: str
    cells: int
    writes: torch.Tensor
    reads: dict[str, torch.Tensor]
    lines: dict[int, dict[str, tuple[int, int]]]
    """By line: each lane's last scalar write, as (number of the access, cell)."""


class _Clocks:
    """Vector clocks of lanes by name."""

    def __init__(self) -> None:
        self._clocks: dict[str, Clock] = {}
        self._ticks: dict[str, int] = {}

    def of(self, lane: str) -> Clock:
        if lane not in self._clocks:
            self.start(lane, {})
        return self._clocks[lane]

    def start(self, lane: str, after: Clock) -> None:
        self._ticks[lane] = self._ticks.get(lane, 0) + 1
        self._clocks[lane] = {**after, lane: self._ticks[lane]}

    def release(self, lane: str) -> Clock:
        """What the lane has done so far; what it does next is later."""
        seen = dict(self.of(lane))
        self._ticks[lane] += 1
        self._clocks[lane][lane] = self._ticks[lane]
        return seen

    def acquire(self, lane: str, seen: Clock) -> None:
        own = self.of(lane)
        for other, time in seen.items():
            own[other] = max(own.get(other, 0), time)


class _Watcher:
    """Listens to lanes and pipes and looks at accesses to global memory."""

    def __init__(self, prepared: Prepared) -> None:
        self.script: Script = prepared.script
        self.clocks = _Clocks()
        self.accesses: list[Access] = []
        self.races: dict[tuple[str, str, str], Race] = {}
        self.shadows: dict[int, _Shadow] = {}
        self._passed: dict[tuple[Any, ...], Clock] = {}
        self._ended: list[Clock] = []
        self._started: dict[int, Clock] = {}
        self._finished: dict[int, list[Clock]] = {}
        self._begun: set[str] = set()
        self._file = file_name(self.script.text)
        self._names: dict[str, Any] = {}
        heads = [arg for line in (prepared.script.text,) for arg in _parameters(line, prepared.script.entry)]
        for name, value in zip(heads, prepared.arguments, strict=False):
            self._watch(value, name)

    def _watch(self, value: Any, name: str | None = None) -> None:
        if isinstance(value, torch.Tensor) and value.untyped_storage().data_ptr() not in self.shadows:
            count = value.untyped_storage().nbytes() // value.element_size()
            if count <= LARGEST:
                shadow = _Shadow(name or f"a tensor {list(value.shape)}", count, _numbers(count), {}, {})
                self.shadows[value.untyped_storage().data_ptr()] = shadow

    # what happens in lanes and pipes

    def attach(self, names: dict[str, Any]) -> None:
        """Puts the watchers around the script's functions."""
        self._names = names
        accesses: dict[str, Callable[..., None]] = {
            "_tile_load": self._loaded, "_tile_store": self._stored, "_assemble": self._assembled,
            "_read": self._element_read, "_write": self._element_written,
        }  # fmt: skip
        for name, seen in accesses.items():
            if name in names:
                names[name] = _after(names[name], seen)
        if "_run_members" in names:
            names["_run_members"] = self._launching(names["_run_members"])
        for name in ("_sync_all", "_aic_gather"):
            if name in names:
                names[name] = self._meeting(names[name], name)
        runtime = names.get("_cross_core_rt")
        if runtime is not None:
            runtime.sync_set = self._setting(runtime.sync_set)
            runtime.sync_wait = self._waiting(runtime.sync_wait)

    def _lane(self) -> Any:
        current = self._names.get("_current_lane")
        return None if current is None else current()

    def _lane_name(self) -> str:
        lane = self._lane()
        return "host" if lane is None else str(lane.name)

    def heard(self, kind: str, lane: str, details: dict[str, Any]) -> None:
        """What the runtime tells: starts and ends order a lane and its starter, slots a push and its pop."""
        here = self._lane()
        key = (id(here.pipes), details.get("pipe"), details.get("slot"))
        if kind == "lane_begin":
            # a lane may begin after another of its run has ended: both are after what their starter did before
            started = self._started.setdefault(id(here.run), self.clocks.release(here.run.starter.name))
            self._begun.add(lane)
            self.clocks.start(lane, started)
        elif kind == "lane_end":
            self._begun.discard(lane)
            ended = self._finished.setdefault(id(here.run), [])
            ended.append(self.clocks.release(lane))
            if len(ended) == len(here.run.lanes):
                for clock in ended:
                    self.clocks.acquire(here.run.starter.name, clock)
                del self._started[id(here.run)], self._finished[id(here.run)]
        elif kind == "block_begin" and lane not in self._begun:
            if details["block"] == 0:
                self._ended = [self.clocks.release("host")]
            self.clocks.start(lane, self._ended[0])
        elif kind == "block_end" and lane not in self._begun:
            self._ended.append(self.clocks.release(lane))
            if details["block"] == details["blocks"] - 1:
                for clock in self._ended:
                    self.clocks.acquire("host", clock)
        elif kind == "push":
            if details["depth"] is not None:
                self._take(lane, ("free", *key[:2], details["slot"] - details["depth"]))
            self._give(lane, ("push", *key))
        elif kind == "pop":
            self._take(lane, ("push", *key))
        elif kind == "free":
            self._give(lane, ("free", *key))

    def _give(self, lane: str, key: tuple[Any, ...]) -> None:
        seen = self.clocks.release(lane)
        before = self._passed.get(key, {})
        self._passed[key] = {k: max(seen.get(k, 0), before.get(k, 0)) for k in {*seen, *before}}

    def _take(self, lane: str, key: tuple[Any, ...]) -> None:
        self.clocks.acquire(lane, self._passed.get(key, {}))

    def _launching(self, launch: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **keywords: Any) -> Any:
            for member in (keywords.get("aic") or (), keywords.get("aiv") or ()):
                for value in member:
                    self._watch(value)
            return launch(*args, **keywords)

        return watched

    def _meeting(self, meet: Callable[..., Any], what: str) -> Callable[..., Any]:
        """Around a call in which lanes wait for each other."""
        turns: dict[str, int] = {}

        def watched(*args: Any, **keywords: Any) -> Any:
            lane = self._lane_name()
            turns[lane] = turns.get(lane, 0) + 1
            key = (what, turns[lane])
            self._give(lane, key)
            value = meet(*args, **keywords)
            self._take(lane, key)
            return value

        return watched

    def _setting(self, set_event: Callable[..., Any]) -> Callable[..., Any]:
        def watched(event: int, *args: Any, **keywords: Any) -> Any:
            self._give(self._lane_name(), ("event", id(self._lane().pipes), event))
            return set_event(event, *args, **keywords)

        return watched

    def _waiting(self, wait: Callable[..., Any]) -> Callable[..., Any]:
        def watched(event: int, *args: Any, **keywords: Any) -> Any:
            value = wait(event, *args, **keywords)
            self._take(self._lane_name(), ("event", id(self._lane().pipes), event))
            return value

        return watched

    # accesses

    def _loaded(self, result: Any, source: torch.Tensor, offsets: Sequence[int], *rest: Any, **keywords: Any) -> None:
        self._touch(source, offsets, _extents(result, source.dim()), "reads")

    def _stored(self, result: Any, tile: torch.Tensor, offsets: Sequence[int], target: torch.Tensor,
                shapes: Sequence[int] | None = None, **keywords: Any) -> None:  # fmt: skip
        extents = tuple(shapes) if shapes else _extents(tile, target.dim())
        self._touch(target, offsets, extents, "adds to" if keywords.get("atomic") in ("Add", 1) else "writes")

    def _assembled(self, result: Any, target: torch.Tensor, source: torch.Tensor, offset: Sequence[int],
                   **keywords: Any) -> None:  # fmt: skip
        kind = "adds to" if keywords.get("atomic") in ("Add", 1) else "writes"
        self._touch(result, offset, _extents(source, target.dim()), kind)

    def _element_read(self, result: Any, x: torch.Tensor, indices: Sequence[int] | int) -> None:
        place = (indices,) if isinstance(indices, int) else tuple(indices)
        self._touch(x, place, (1,) * len(place), "reads")

    def _element_written(self, result: Any, x: torch.Tensor, indices: Sequence[int] | int, value: Any,
                         **keywords: Any) -> None:  # fmt: skip
        place = (indices,) if isinstance(indices, int) else tuple(indices)
        self._touch(result, place, (1,) * len(place), "writes")
        self._touch_line(result, place)

    def _touch(self, x: torch.Tensor, offsets: Sequence[int], extents: Sequence[int], kind: str) -> None:
        shadow = self.shadows.get(x.untyped_storage().data_ptr())
        if shadow is None or 0 in extents:
            return
        ends = [min(o + e, b) for o, e, b in zip(offsets, extents, x.shape, strict=True)]
        window = x[tuple(slice(o, end) for o, end in zip(offsets, ends, strict=True))]
        lane = self._lane_name()
        place = (window.shape, window.stride(), window.storage_offset())
        number = self._noted(lane, kind)
        earlier = shadow.writes.as_strided(*place)
        self._judge(shadow, number, earlier)
        if kind == "reads":
            own = shadow.reads.setdefault(lane, _numbers(shadow.cells))
            own.as_strided(*place).fill_(number)
            return
        for other, reads in shadow.reads.items():
            if other != lane:
                self._judge(shadow, number, reads.as_strided(*place))
        earlier.fill_(number)

    def _touch_line(self, x: torch.Tensor, place: Sequence[int]) -> None:
        """A scalar write: other lanes' scalars in its line are written back with it."""
        shadow = self.shadows.get(x.untyped_storage().data_ptr())
        if shadow is None:
            return
        cell = int(x.storage_offset()) + sum(i * s for i, s in zip(place, x.stride(), strict=True))
        writers = shadow.lines.setdefault(cell * x.element_size() // LINE_BYTES, {})
        number, lane = len(self.accesses), self._lane_name()
        for other, (earlier, its_cell) in writers.items():
            if other != lane and its_cell != cell:
                self._compare(shadow, earlier, number, 1, lines=True)
        writers[lane] = (number, cell)

    def _noted(self, lane: str, kind: str) -> int:
        line = self._line()
        time = self.clocks.of(lane)[lane]
        where = self.script.source(line) or f"script line {line}"
        self.accesses.append(Access(lane, time, kind, where, self.script.row(line)))
        return len(self.accesses)

    def _line(self) -> int:
        """The line of the kernel's code that runs."""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self._file and frame.f_lineno in self.script.lines:
                return frame.f_lineno
            if frame.f_back is None:
                break
            frame = frame.f_back
        return 0

    def _judge(self, shadow: _Shadow, number: int, earlier: torch.Tensor) -> None:
        numbers, counts = torch.unique(earlier, return_counts=True)
        for other, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            if other:
                self._compare(shadow, other, number, count)

    def _compare(self, shadow: _Shadow, first: int, second: int, cells: int, lines: bool = False) -> None:
        a, b = self.accesses[first - 1], self.accesses[second - 1]
        if a.lane == b.lane or a.kind == b.kind == "adds to":
            return
        if self.clocks.of(b.lane).get(a.lane, 0) >= a.time:
            return
        key = (shadow.name, a.where, b.where)
        if key not in self.races:
            self.races[key] = Race(shadow.name, a, b, cells, lines)


def _numbers(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int32)


def _extents(x: torch.Tensor, rank: int) -> tuple[int, ...]:
    """The valid extents of a tile in a tensor of a rank: it covers the last axes."""
    valid = tuple(getattr(x, "_pypto_valid_shape", x.shape))
    return (1,) * (rank - len(valid)) + valid[max(0, len(valid) - rank) :]


def _after(function: Callable[..., Any], seen: Callable[..., None]) -> Callable[..., Any]:
    """`function`, with `seen(result, *arguments)` called after it."""

    def _watched(*args: Any, **keywords: Any) -> Any:
        result = function(*args, **keywords)
        seen(result, *args, **keywords)
        return result

    return _watched


def _parameters(text: str, entry: str) -> list[str]:
    """Names of the entry's parameters in a script."""
    for row in text.splitlines():
        if row.startswith(f"def {entry}("):
            return [name.strip() for name in row[len(f"def {entry}(") :].partition(")")[0].split(",")]
    return []
