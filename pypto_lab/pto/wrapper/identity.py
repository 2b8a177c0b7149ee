"""Which parts of a kernel's launch identity (block, lane) its generated function takes, and which its wrapper needs."""

from __future__ import annotations

from dataclasses import dataclass

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import FunctionType, SplitMode
from pypto_lab.ir.visitor import walk, walk_with_types

BLOCK_IDX = "__pypto_spmd_block_idx"
BLOCK_NUM = "__pypto_spmd_block_num"
SUBBLOCK_IDX = "__pypto_spmd_subblock_idx"

_BLOCK_OPS = {"tile.get_block_idx", "tile.get_block_num"}
_LANE_OPS = {"tile.get_subblock_idx"}
_ENDPOINTS = {"tile.tpush_to_aic": "TPUSH", "tile.tpop_from_aic": "TPOP"}
"""The vector core's ends of a FIFO; only there a lane exists."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a kernel knows of its launch.

    `block`: it reads the block index or the block count, so both are arguments. `lane`: it reads the lane.
    `group_block`: it or a kernel of its group reads the block identity, so the pipe buffer is cut by block.
    `pushes`, `pops`: how many split FIFO endpoints it has as a vector kernel.
    """

    block: bool
    lane: bool
    group_block: bool
    pushes: int = 0
    pops: int = 0

    @property
    def split_endpoints(self) -> int:
        return self.pushes + self.pops

    @property
    def needs_lane(self) -> bool:
        """Whether the wrapper reads the lane at all."""
        return self.lane or self.split_endpoints > 0

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names appended to the inner call, in their fixed order."""
        block = (BLOCK_IDX, BLOCK_NUM) if self.block else ()
        return (*block, SUBBLOCK_IDX) if self.needs_lane else block


def identity_of(function: n.Function, program: n.Program | None = None) -> Identity:
    """The identity a kernel uses by its own body, and by the bodies of the kernels in its group."""
    block, lane = uses(function, _BLOCK_OPS), uses(function, _LANE_OPS)
    siblings = () if program is None else group_siblings(function, program)
    pushes, pops = _split_endpoints(function)
    return Identity(block, lane, block or any(uses(s, _BLOCK_OPS) for s in siblings), pushes, pops)


def uses(function: n.Function, ops: set[str]) -> bool:
    """Whether a function asks for something of its launch, in a statement or in the extents of a tile."""
    return any(isinstance(node, n.OpCall) and node.op in ops for node in walk_with_types(function))


def group_siblings(function: n.Function, program: n.Program) -> tuple[n.Function, ...]:
    """The other kernels that a Group function of the program launches together with this one."""
    for group in program.functions.values():
        if group.func_type is not FunctionType.Group:
            continue
        members = group_members(group, program)
        if any(member.name == function.name for member in members):
            return tuple(m for m in members if m.name != function.name)
    return ()


def group_members(group: n.Function, program: n.Program) -> tuple[n.Function, ...]:
    """The kernels a Group function calls, in call order."""
    names = dict.fromkeys(node.callee for node in walk(group) if isinstance(node, (n.FunctionCall, n.Submit)))
    return tuple(program.functions[name] for name in names if name in program.functions)


def _split_endpoints(function: n.Function) -> tuple[int, int]:
    """(pushes, pops) of a vector kernel whose data is split over the lanes."""
    if function.func_type is not FunctionType.AIV:
        return 0, 0
    found = {"TPUSH": 0, "TPOP": 0}
    for node in walk(function):
        if isinstance(node, n.OpCall) and node.op in _ENDPOINTS and int(node.kwargs.get("split", 0)) != SplitMode.NONE:
            found[_ENDPOINTS[node.op]] += 1
    return found["TPUSH"], found["TPOP"]
