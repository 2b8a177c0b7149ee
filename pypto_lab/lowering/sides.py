"""Which core a statement of an on-core body belongs to: cube, vector, both, or the boundary between them."""

from __future__ import annotations

from enum import Enum

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import CUBE_SPACES, MemorySpace
from pypto_lab.ir.types import TileType
from pypto_lab.lowering.uses import expressions, statements
from pypto_lab.ops.record import OPS, Side


class Affinity(Enum):
    CUBE = "cube"
    VECTOR = "vector"
    SHARED = "shared"
    TO_VECTOR = "cube to vector"
    TO_CUBE = "vector to cube"


ON_BOTH = ("tile.get_subblock_idx", "tensor.get_subblock_idx")
"""Ops that name the lane: they make no function a vector function."""


def space_of(expr: n.Expr) -> MemorySpace | None:
    return expr.type.memory_space if isinstance(expr.type, TileType) else None


def on_cube(expr: n.Expr) -> bool:
    return space_of(expr) in CUBE_SPACES


def on_vector(expr: n.Expr) -> bool:
    return space_of(expr) is MemorySpace.Vec


def affinity(call: n.Expr) -> Affinity:
    """The side of one expression: by its op, else by the memories of its tiles."""
    if not isinstance(call, n.OpCall):
        return _by_memory(call)
    if call.op in ON_BOTH:
        return Affinity.SHARED
    if call.op in ("tile.aiv_shard", "tensor.aiv_shard"):
        return Affinity.TO_VECTOR
    if call.op in ("tile.aic_gather", "tensor.aic_gather"):
        return Affinity.TO_CUBE
    if call.op == "tile.move" and on_cube(call.args[0]) and on_vector(call):
        return Affinity.TO_VECTOR
    if call.op == "tile.move" and on_vector(call.args[0]) and on_cube(call):
        return Affinity.TO_CUBE
    op = OPS.get(call.op)
    if op is not None and op.side is Side.CUBE:
        return Affinity.CUBE
    if op is not None and op.side is Side.VECTOR and call.op.startswith(("tile.", "system.")):
        return Affinity.CUBE if on_cube(call) else Affinity.VECTOR
    return _by_memory(call)


def _by_memory(expr: n.Expr) -> Affinity:
    tiles = [expr, *getattr(expr, "args", ())]
    if any(on_cube(t) for t in tiles):
        return Affinity.CUBE
    if any(on_vector(t) for t in tiles):
        return Affinity.VECTOR
    return Affinity.SHARED


def sides_of(body: n.Body) -> set[Affinity]:
    """The sides a body has work for; a boundary counts as both."""
    found: set[Affinity] = set()
    for stmt in statements(body):
        if not isinstance(stmt, (n.Assign, n.Eval)):
            continue
        for expr in expressions(stmt):
            side = affinity(expr)
            if side in (Affinity.TO_VECTOR, Affinity.TO_CUBE):
                found |= {Affinity.CUBE, Affinity.VECTOR}
            elif side is not Affinity.SHARED:
                found.add(side)
    return found


def synchronises(body: n.Body) -> bool:
    """Whether a body orders its cores by hand (`pl.system.syncall`): its author says what is written before what."""
    return any(isinstance(e, n.OpCall) and e.op == "system.syncall" for s in statements(body) for e in expressions(s))
