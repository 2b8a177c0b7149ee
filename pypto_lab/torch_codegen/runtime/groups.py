"""Launches: mixed groups (cube and vector lanes), both-lane regions, SPMD blocks, submitted tasks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from pypto_lab.torch_codegen.runtime.lanes import (
    _copy_of,
    _cross_core_rt,
    _current_lane,
    _join_parts,
    _Lane,
    _lane_of_context,
    _lane_part,
    _scheduler,
    _split_mode_to_int,
    _tell,
)
from pypto_lab.torch_codegen.runtime.tasks import _TASK_INVALID

_GROUP_META: dict[str, dict[str, Any]] = {}
"""By group name: its member functions, split code and `dual_aiv_dispatch`."""


def _run_group_call(group_name: str, *args: Any) -> Any:
    """Calls a group: its body as written where the script has one, else both members with all of `args`."""
    meta = _GROUP_META.get(group_name)
    if meta is None:
        raise ValueError(f"{group_name} is not a group; groups are {sorted(_GROUP_META)}")
    body = globals().get(meta.get("body", group_name))
    return body(*args) if body is not None else _run_mixed_kernels(group_name, meta, *args)


def _run_mixed_kernels(group_name: str, meta: Mapping[str, Any], *args: Any) -> Any:
    """Runs the members `meta` names, all with the same arguments, and returns what vector lane 0 returns."""
    aic, aiv = ((globals()[meta[role]], *args) if meta.get(role) else None for role in ("aic", "aiv"))
    return _run_members(group_name, meta, aic=aic, aiv=aiv)


def _run_members(
    group_name: str,
    meta: Mapping[str, Any],
    aic: tuple[Any, ...] | None = None,
    aiv: tuple[Any, ...] | None = None,
    results: str = "aiv",
) -> Any:
    """Runs the cube lane and the vector lanes of a group side by side; each member is (function, *arguments).

    There are two vector lanes with a split code 1..4, `split_aiv` or `dual_aiv_dispatch`, else one. `results` says
    whose value is returned: "aiv" (lane 0's), "aic" or "both" (a pair). Raises RuntimeError when a lane whose value
    nobody takes returns a tensor of its own, when a lane fails, and when tiles are left in a pipe.
    """
    split = _split_mode_to_int(meta.get("split", 0))
    two = aiv is not None and bool(split or meta.get("split_aiv") or meta.get("dual_aiv_dispatch"))
    here = _current_lane()
    lanes: list[_Lane] = []
    bodies: list[Callable[[], Any]] = []
    if aic is not None:
        lanes.append(_Lane("AIC", 0, here.block, here.blocks))
        bodies.append(functools.partial(aic[0], *aic[1:]))
    if aiv is not None:
        for index in range(2 if two else 1):
            lanes.append(_Lane("AIV", index, here.block, here.blocks))
            bodies.append(functools.partial(aiv[0], *aiv[1:]))
    _cross_core_rt.reset(no_split_dual_aiv_dispatch=two)
    _tell("group_begin", group=group_name)
    for lane in lanes:
        lane.pipes = here.pipes
    values = _scheduler.run(f"group {group_name}", lanes, bodies)
    _cross_core_rt.finish(f"group {group_name}")
    _tell("group_end", group=group_name)
    by_role = {(lane.role, lane.index): value for lane, value in zip(lanes, values, strict=True)}
    cube, vector = by_role.get(("AIC", 0)), by_role.get(("AIV", 0))
    known = [*(aic or ())[1:], *(aiv or ())[1:], vector]
    if results == "aiv" and vector is not None:
        _check_unused_result(group_name, "AIC", cube, known)
    _check_unused_result(group_name, "AIV lane 1", by_role.get(("AIV", 1)), known)
    if results == "both":
        return cube, vector
    return cube if results == "aic" or aiv is None else vector


def _check_unused_result(group_name: str, lane: str, value: Any, known: Sequence[Any]) -> None:
    """Raises RuntimeError for a returned tensor that is neither an argument nor what vector lane 0 returns."""
    objects = [x for item in known for x in (item if isinstance(item, tuple) else (item,))]
    for item in value if isinstance(value, tuple) else (value,):
        if isinstance(item, torch.Tensor) and not any(item is x for x in objects):
            raise RuntimeError(
                f"group {group_name}: {lane} returns a tensor {list(item.shape)} of its own, but a group's value is "
                "what AIV lane 0 returns"
            )


# --- regions that both vector lanes run ------------------------------------------------------------------------------


class _Region:
    """What the two lanes of a region exchange: the halves they have given to each `_aic_gather`, in order."""

    __slots__ = ("given",)

    def __init__(self) -> None:
        self.given: list[list[Any]] = [[], []]


def _run_both_lanes(body: Callable[..., Any], *args: Any) -> Any:
    """Runs `body` once a vector lane; both lanes do its cube work, with the same result. Returns lane 0's value."""
    here = _current_lane()
    region = _Region()
    lanes = [_Lane("AIV", index, here.block, here.blocks) for index in (0, 1)]
    for lane in lanes:
        lane.region, lane.pipes = region, here.pipes
    values: list[Any] = _scheduler.run(body.__name__, lanes, [functools.partial(body, *args) for _ in lanes])
    if len(region.given[0]) != len(region.given[1]):
        raise RuntimeError(f"{body.__name__}: the lanes gather {len(region.given[0])} and {len(region.given[1])} tiles")
    return values[0]


def _on_both_lanes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a kernel whose body is written for one of two vector lanes: a call runs both."""

    @functools.wraps(function)
    def _both(*args: Any) -> Any:
        return function(*args) if _current_lane().role == "AIV" else _run_both_lanes(function, *args)

    return _both


def _aiv_shard(x: torch.Tensor, split: Any = 0, lane_stride: int | None = None) -> torch.Tensor:
    """This lane's half of a tile of the cube (the whole of it without a split)."""
    code = _split_mode_to_int(split)
    return _copy_of(x if code == 0 else _lane_part(x, code, _current_lane().index, lane_stride))  # type: ignore[no-any-return]


def _aic_gather(x: torch.Tensor, split: Any = 0) -> torch.Tensor:
    """The tile whose halves the two lanes hold; each lane waits for the other. Without a split, lane 0's tile."""
    code = _split_mode_to_int(split)
    lane = _current_lane()
    region = lane.region
    if region is None:
        if code == 0:
            return x
        raise RuntimeError("aic_gather needs both vector lanes: it stands outside a split region")
    mine, other = region.given[lane.index], region.given[1 - lane.index]
    with _scheduler.lock:
        mine.append(x)
        _scheduler.wake()
        turn = len(mine)
        if len(other) < turn:
            _scheduler.wait(f"aic_gather number {turn}", lambda: len(other) >= turn)
    halves = (x, other[turn - 1]) if lane.index == 0 else (other[turn - 1], x)
    return _copy_of(halves[0]) if code == 0 else _join_parts(halves[0], halves[1], code)


# --- SPMD blocks -----------------------------------------------------------------------------------------------------


def _blocks(count: int) -> Iterator[int]:
    """Every block of an SPMD launch, one after the other; inside, `_get_block_idx()` is the block's index."""
    here = _current_lane()
    for block in range(count):
        lane = _Lane(here.role, here.index, block, count)
        lane.run, lane.region, lane.pipes = here.run, here.region, here.pipes
        _lane_of_context.set(lane)
        try:
            _tell("block_begin", block=block, blocks=count)
            yield block
            _tell("block_end", block=block, blocks=count)
        finally:
            _lane_of_context.set(here)


def _spmd_call(core_num: int, function: Callable[..., Any], *args: Any) -> Any:
    """Calls a kernel once a block, one after the other; the last block's value (all write to the same arguments)."""
    value = None
    for _ in _blocks(core_num):
        value = function(*args)
    return value


def _spmd_together(core_num: int, function: Callable[..., Any], *args: Any) -> Any:
    """Calls a kernel once a block, side by side, because blocks wait for each other; the last block's value."""
    here = _current_lane()
    lanes = [_Lane(here.role, here.index, block, core_num) for block in range(core_num)]
    bodies = [functools.partial(_in_block, function, args) for _ in lanes]
    return _scheduler.run(function.__name__, lanes, bodies)[-1]


def _in_block(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    lane = _current_lane()
    _tell("block_begin", block=lane.block, blocks=lane.blocks)
    value = function(*args)
    _tell("block_end", block=lane.block, blocks=lane.blocks)
    return value


# --- tasks -----------------------------------------------------------------------------------------------------------

_task_count: list[int] = [0]
"""How many tasks this script has launched; their ids are the numbers before it."""


def _new_task() -> int:
    _task_count[0] += 1
    return _task_count[0] - 1


def _submit(
    function: Callable[..., Any],
    *args: Any,
    core_num: int | None = None,
    together: bool = False,
    deps: Sequence[Any] = (),
    predicate: bool = True,
    skipped: Sequence[Any] = (),
    results: int = 1,
) -> tuple[Any, ...]:
    """Launches a kernel in program order: (its results..., a task id).

    With a false `predicate` nothing runs, and the results are `skipped`: the output arguments as they were. Raises
    RuntimeError for a dependency that is no task id.
    """
    for dep in deps:
        listed = dep.tolist() if isinstance(dep, torch.Tensor) else dep
        for task in listed if isinstance(listed, (list, tuple)) else (listed,):
            if not isinstance(task, int) or not _TASK_INVALID <= task < _task_count[0]:
                raise RuntimeError(f"{function.__name__} depends on {task!r}, which is not the id of a launched task")
    if not predicate:
        values = tuple(skipped)
    else:
        _tell("task_begin", task=_task_count[0], callee=function.__name__)
        blocks = _spmd_together if together else _spmd_call
        value = function(*args) if core_num is None else blocks(core_num, function, *args)
        _tell("task_end", task=_task_count[0], callee=function.__name__)
        values = value if isinstance(value, tuple) else () if value is None else (value,)
    return (*values, *(None for _ in range(results - len(values))), _new_task())
