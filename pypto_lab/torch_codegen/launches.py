"""How functions are launched: group members and their lanes, kernels written for one of two vector lanes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import FunctionType
from pypto_lab.ir.visitor import children, walk

CROSS_CORE = frozenset({"tile.tpush_to_aiv", "tile.tpush_to_aic", "tile.tpop_from_aiv", "tile.tpop_from_aic"})
LANE_OPS = frozenset(
    {
        "tile.get_subblock_idx", "tensor.get_subblock_idx", "tile.aiv_shard", "tensor.aiv_shard",
        "tile.aic_gather", "tensor.aic_gather",
    }
)  # fmt: skip
ROLES = {FunctionType.AIC: "aic", FunctionType.AIV: "aiv"}


@dataclass(frozen=True, slots=True)
class Group:
    """A Group function: its members by role, and what decides the number of its vector lanes."""

    aic: str | None
    aiv: str | None
    split: int
    dual_aiv_dispatch: bool
    split_aiv: bool


def find_groups(functions: Mapping[str, n.Function]) -> dict[str, Group]:
    """The groups of a program; members are the AIC and AIV functions their bodies call, whatever their names."""
    return {f.name: _group(f, functions) for f in functions.values() if f.func_type is FunctionType.Group}


def _group(group: n.Function, functions: Mapping[str, n.Function]) -> Group:
    members: dict[str, n.Function] = {}
    for node in walk(group):
        if isinstance(node, (n.FunctionCall, n.Submit)):
            callee = functions.get(node.callee)
            if callee is not None and callee.func_type in ROLES:
                members.setdefault(ROLES[callee.func_type], callee)
    holders = [*members.values()]
    vector = members.get("aiv")
    attributes = [group.attrs, *([] if vector is None else [vector.attrs])]
    return Group(
        aic=members["aic"].name if "aic" in members else None,
        aiv=None if vector is None else vector.name,
        split=_split_of(holders, attributes),
        dual_aiv_dispatch=any(bool(a.get("dual_aiv_dispatch")) for a in attributes),
        split_aiv=any(bool(a.get("split_aiv")) for a in attributes),
    )


def _split_of(members: list[n.Function], attributes: list[Mapping[str, Any]]) -> int:
    """The first split code of the members' pushes and pops, else of the attributes; 0 when none splits."""
    for member in members:
        for node in walk(member):
            if isinstance(node, n.OpCall) and node.op in CROSS_CORE and int(node.kwargs.get("split") or 0):
                return int(node.kwargs["split"])
    for attrs in attributes:
        if int(attrs.get("split") or 0):
            return int(attrs["split"])
    return 0


def two_lane_kernels(functions: Mapping[str, n.Function]) -> frozenset[str]:
    """Kernels outside groups whose body is written for one of two vector lanes: a launch runs both.

    These are InCore functions after the vector split was lowered (attribute `split_aiv`) and AIV functions with
    `split_aiv`, `split` or `dual_aiv_dispatch` that no group calls, where the body asks for its lane.
    """
    in_groups = {
        node.callee
        for f in functions.values()
        if f.func_type is FunctionType.Group
        for node in walk(f)
        if isinstance(node, (n.FunctionCall, n.Submit))
    }
    return frozenset(f.name for f in functions.values() if f.name not in in_groups and _asks_for_its_lane(f))


def _asks_for_its_lane(function: n.Function) -> bool:
    if function.func_type not in (FunctionType.InCore, FunctionType.AIV):
        return False
    attrs = function.attrs
    if not (attrs.get("split_aiv") or attrs.get("dual_aiv_dispatch") or int(attrs.get("split") or 0)):
        return False
    return _has_lane_op(function)


def _has_lane_op(node: Any) -> bool:
    """Whether a lane's index or half is asked for outside the regions that name their lanes themselves."""
    if isinstance(node, n.SplitAivScope):
        return False
    if isinstance(node, n.OpCall) and node.op in LANE_OPS:
        return True
    return any(_has_lane_op(child) for child in children(node))


def meeting_functions(functions: Mapping[str, n.Function]) -> frozenset[str]:
    """Functions in which, or in whose callees, blocks wait for each other at a `system.syncall`."""
    found = {f.name for f in functions.values() if meets(f)}
    while True:
        callers = {f.name for f in functions.values() if f.name not in found and meets(f, found)}
        if not callers:
            return frozenset(found)
        found |= callers


def meets(node: Any, callees: Collection[str] = ()) -> bool:
    """Whether a node holds a barrier or a call of one of `callees`."""
    return any(
        (isinstance(x, n.OpCall) and x.op == "system.syncall")
        or (isinstance(x, (n.FunctionCall, n.Submit)) and x.callee in callees)
        for x in walk(node)
    )
