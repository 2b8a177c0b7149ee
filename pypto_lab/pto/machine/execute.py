"""`execute`: runs a function, or a group of them, of a `.pto` file on tensors that are written in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from pypto_lab.ir.diagnostics import Diagnostic, LabError, Severity
from pypto_lab.pto.decode import Function, Value, decode
from pypto_lab.pto.dialect.types import CAPACITY, PointerType
from pypto_lab.pto.dialect.verify import check
from pypto_lab.pto.machine import arrange, compute, findings, moves, pipes, products, scalars
from pypto_lab.pto.machine.dtypes import SCALAR_BITS
from pypto_lab.pto.machine.lane import MAX_STEPS, Handler, Lane, Launch
from pypto_lab.pto.machine.listener import Listener
from pypto_lab.pto.machine.memory import Writers, pointer_to
from pypto_lab.pto.machine.scheduler import Deadlock, Scheduler
from pypto_lab.pto.parse import Unit, parse, read
from pypto_lab.torch_codegen.scheduling import Policy

HANDLERS: dict[str, Handler] = {
    **scalars.HANDLERS,
    **moves.HANDLERS,
    **compute.HANDLERS,
    **products.HANDLERS,
    **arrange.HANDLERS,
    **pipes.HANDLERS,
}
"""What executes each op, by full name."""

BLOCK_INDEX, BLOCK_COUNT, LANE_INDEX = (
    "%__pypto_spmd_block_idx",
    "%__pypto_spmd_block_num",
    "%__pypto_spmd_subblock_idx",
)
"""Parameters the launch fills in, not the caller."""


def execute(
    unit: Path | str | Unit,
    function: str,
    args: Sequence[object],
    *,
    arch: str | None = None,
    block_num: int = 1,
    seed: int = 0,
    verify: bool = True,
    vector_lanes: int | None = None,
    max_steps: int = MAX_STEPS,
    listener: Listener | None = None,
    policy: Policy | str | None = None,
) -> findings.ExecutionResult:
    """Runs `function` of a `.pto` file: a path, a `Unit` that was read, or (with line breaks in it) the text itself.

    `function` names a function, or the group a unit is for, whose cube and vector functions then run side by side.
    `args` are values of the parameters in the text's order, those the launch fills in (block and lane index) left out;
    tensors are written in place. `arch` defaults to the module's. A vector function runs on two lanes when it asks
    for its lane or splits tiles, unless `vector_lanes` says so. `seed` chooses the order of lanes (0: as long as one
    can go on), or a `policy` does. A lane that executes more than `max_steps` ops is taken for endless. `listener` is
    told what happens.

    Raises LabError: text that cannot be read or is not valid (unless `verify` is off), arguments that do not fit
    (E630), and ExecutionError where a run cannot go on, deadlocks included.
    """
    loaded = _loaded(unit)
    if verify:
        check(loaded)
    functions = decode(loaded)
    members = _members(loaded, functions, function)
    target = arch or loaded.arch
    if target not in CAPACITY:
        known = ", ".join(CAPACITY)
        raise LabError([Diagnostic(findings.BAD_ARGUMENT, f"no architecture `{target}`", hint=f"one of {known}")])
    lanes_wanted = vector_lanes or _vector_lanes(members)
    launch = Launch(
        target, loaded.file, loaded.sources, functions, block_num, max_steps, handlers=HANDLERS, listener=listener
    )
    launch.writers = Writers() if block_num > 1 or len(members) > 1 or lanes_wanted > 1 else None
    launch.has_flags = any(i.name in pipes.FLAGS for member in members for i in member.body.walk())
    scheduler = Scheduler(seed, policy)
    lanes = _run_blocks(launch, members, args, scheduler, lanes_wanted)
    _report_dead_stores(launch)
    steps = sum(lane.steps for lane in lanes)
    names = tuple(dict.fromkeys(lane.name for lane in lanes))
    return findings.ExecutionResult(
        loaded.file, function, target, block_num, names, steps, launch.log.all(), tuple(launch.unmodelled),
        sources=loaded.sources,
    )  # fmt: skip


def _loaded(unit: Path | str | Unit) -> Unit:
    if isinstance(unit, Unit):
        return unit
    if isinstance(unit, str) and "\n" in unit:
        return parse(unit)
    return read(unit)


def _members(unit: Unit, functions: Mapping[str, Function], name: str) -> tuple[Function, ...]:
    """The functions that run: the one named, or all of a unit when the name is that of its group."""
    if name in functions:
        return (functions[name],)
    kinds = [function.kind for function in functions.values()]
    if not functions or len(kinds) != len(set(kinds)) or not set(kinds) <= {"cube", "vector"}:
        known = ", ".join(functions) or "none"
        raise LabError(
            [
                Diagnostic(
                    findings.BAD_ARGUMENT, f"{unit.file} has no function `{name}`", hint=f"its functions are {known}"
                )
            ]
        )
    return tuple(functions.values())


def _vector_lanes(members: Sequence[Function]) -> int:
    """Two where a vector function asks for its lane or a tile is split, else one."""
    for member in members:
        if any(argument.name == LANE_INDEX for argument in member.arguments):
            return 2
        if any(i.name.startswith(("pto.tpush", "pto.tpop")) and i.attributes.get("split") for i in member.body.walk()):
            return 2
    return 1


def _run_blocks(
    launch: Launch, members: Sequence[Function], args: Sequence[object], scheduler: Scheduler, vector_lanes: int
) -> list[Lane]:
    """All blocks, one after the other, or side by side where they wait for each other."""
    together = any(i.name == "pto.syncall" for m in members for i in m.body.walk())
    meetings: dict[str, int] = {}
    blocks = []
    for block in range(launch.blocks):
        shared = pipes.Pipes(vector_lanes)
        lanes = [
            _lane(launch, member, args, block, index, shared, scheduler, meetings)
            for member in members
            for index in range(1 if member.kind == "cube" else vector_lanes)
        ]
        blocks.append(lanes)
    for lane in (lane for lanes in blocks for lane in lanes):
        meetings[f"{lane.block}/{lane.name}"] = 0
    if launch.listener is not None:
        launch.listener.launched(launch, [lane for lanes in blocks for lane in lanes], vector_lanes)
    groups = [[lane for lanes in blocks for lane in lanes]] if together else blocks
    for lanes in groups:
        _run_lanes(launch, lanes, scheduler)
    for lanes in blocks:
        _finish(lanes)
    return [lane for lanes in blocks for lane in lanes]


def _lane(
    launch: Launch,
    function: Function,
    args: Sequence[object],
    block: int,
    index: int,
    shared: pipes.Pipes,
    scheduler: Scheduler,
    meetings: dict[str, int],
) -> Lane:
    name = "AIC" if function.kind == "cube" else f"AIV{index}"
    lane = Lane(
        launch, name, index, block, function, [None] * function.slots, scheduler.wait, scheduler.pause,
        pipes=shared, launch_meetings=meetings,
    )  # fmt: skip
    given = iter(args)
    count = 0
    filled = {BLOCK_INDEX: block, BLOCK_COUNT: launch.blocks, LANE_INDEX: index}
    for argument in function.arguments:
        if argument.name in filled:
            lane.set(argument, filled[argument.name])
            continue
        content = next(given, None)
        count += 1
        if content is None:
            raise _arguments(function, args)
        lane.set(argument, _bound(function, argument, content))
    if count != len(args):
        raise _arguments(function, args)
    return lane


def _arguments(function: Function, args: Sequence[object]) -> LabError:
    wanted = [a for a in function.arguments if not a.name.startswith("%__pypto_spmd")]
    listed = ", ".join(f"{a.name}: {a.type}" for a in wanted)
    message = f"@{function.name} takes {len(wanted)} arguments, got {len(args)}"
    return LabError([Diagnostic(findings.BAD_ARGUMENT, message, hint=listed or None)])


def _bound(function: Function, argument: Value, content: object) -> Any:
    """A caller's value as the lane holds it. Raises LabError E630 when it does not fit."""
    where = f"@{function.name}, argument {argument.name}"
    if isinstance(argument.type, PointerType):
        if not isinstance(content, torch.Tensor):
            raise LabError(
                [Diagnostic(findings.BAD_ARGUMENT, f"{where}: a tensor is needed, got {type(content).__name__}")]
            )
        try:
            return pointer_to(content, argument.name, argument.type.dtype)
        except ValueError as error:
            raise LabError([Diagnostic(findings.BAD_ARGUMENT, f"{where}: {error}")]) from error
    value = content.item() if isinstance(content, torch.Tensor) and content.numel() == 1 else content
    if not isinstance(value, (int, float)) or not isinstance(argument.type, str):
        raise LabError(
            [Diagnostic(findings.BAD_ARGUMENT, f"{where}: a number is needed, got {type(content).__name__}")]
        )
    if argument.type in SCALAR_BITS:
        return scalars.signed(int(value), argument.type)
    return scalars.rounded(float(value), argument.type)


def _run_lanes(launch: Launch, lanes: Sequence[Lane], scheduler: Scheduler) -> None:
    bodies: list[Callable[[], None]] = [_body(lane) for lane in lanes]
    names = [lane.name if launch.blocks == 1 else f"block {lane.block} {lane.name}" for lane in lanes]
    try:
        scheduler.run(names, bodies)
    except Deadlock as deadlock:
        stuck = next((lane for lane in lanes if lane.current is not None), lanes[0])
        if stuck.current is None:
            raise
        stuck.fail(findings.DEADLOCK, f"every lane waits: {deadlock}", stuck.current)


def _body(lane: Lane) -> Callable[[], None]:
    def run() -> None:
        listener = lane.launch.listener
        if listener is not None:
            listener.began(lane)
        lane.run(lane.function.body)
        lane.settle()
        lane.current = None
        if listener is not None:
            listener.ended(lane)
        lane.arenas.clear()

    return run


def _finish(lanes: Sequence[Lane]) -> None:
    """Tiles left in the pipes of a block."""
    for message in pipes.leftovers(lanes[0].pipes):
        lane = lanes[0]
        instruction = next(
            (i for i in lane.function.body.walk() if i.name.endswith("initialize_pipe")),
            lane.function.body.instructions[0],
        )
        lane.report(findings.PIPE_MISUSE, message, instruction)


def _report_dead_stores(launch: Launch) -> None:
    """Ops all of whose results nobody ever read; with the tile a lost loop-carried value goes on reading."""
    for (instruction, lane), store in launch.stores.items():
        if store.live or store.dead is None:
            continue
        dead = store.dead
        tiles = [f"{dead.name} ({dead.low}..{dead.high})"]
        message = f"nothing reads what it writes to {dead.name}, bytes {dead.low}..{dead.high}"
        if store.lost is not None:
            message += f"; every iteration reads {store.lost}, which the loop does not write: a carried value is lost"
            tiles.append(store.lost)
        finding = findings.Finding(
            findings.DEAD_STORE, Severity.WARNING, message, instruction.name, tuple(tiles), instruction.span,
            instruction.source, lane,
        )  # fmt: skip
        launch.log.add(finding, (findings.DEAD_STORE, instruction))
