"""Pass 35, AllocateMemoryAddr: every buffer gets its address; what does not fit its memory is refused.

Follows from: a core's memories have fixed sizes and every tile starts at a multiple of 32 bytes. The ring a core pops
from lies in its own memory (Vec for a vector core, Mat for a cube core), before the tiles.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NoReturn

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import FunctionType, MemorySpace
from pypto_lab.ir.types import TileType
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import map_bodies
from pypto_lab.lowering.memory_bases import (
    address,
    alloc_size,
    alloc_space,
    allocations,
    base_of,
    tile_vars,
    with_memref,
)
from pypto_lab.lowering.names import plain_name
from pypto_lab.lowering.target import ALIGNMENT
from pypto_lab.lowering.tile_rewriter import is_on_core
from pypto_lab.lowering.uses import statements

AUTO = -1
SHOWN = 3
"""How many of the biggest tiles a refusal names."""


def run(program: n.Program, context: Context) -> n.Program:
    def change(function: n.Function) -> n.Function:
        return _Allocator(function, context).run() if is_on_core(function) else function

    return map_bodies(program, change)


class _Allocator:
    def __init__(self, function: n.Function, context: Context) -> None:
        self.function = function
        self.context = context
        self.body = function.body or ()
        self.used: dict[MemorySpace, int] = {}

    def run(self) -> n.Function:
        rings = self.rings()
        addresses: dict[n.Var, int] = {}
        for base, alloc in allocations(self.body).items():
            space = alloc_space(alloc)
            addresses[base] = _aligned(self.used.get(space, 0))
            self.used[space] = addresses[base] + alloc_size(alloc)
        for space, end in self.used.items():
            if end > self.context.target.capacity.get(space, end):
                self.refuse(space, end)
        return _Placing(addresses, rings).visit_function(self.function)

    def rings(self) -> dict[n.Stmt, int]:
        """Addresses of the rings the function pops from."""
        space = MemorySpace.Mat if self.function.func_type is FunctionType.AIC else MemorySpace.Vec
        found: dict[n.Stmt, int] = {}
        for stmt in statements(self.body):
            call = stmt.value if isinstance(stmt, n.Assign) else None
            if not isinstance(call, n.OpCall) or call.op != "system.reserve_buffer":
                continue
            stated = call.kwargs.get("base", AUTO)
            at = _aligned(self.used.get(space, 0)) if stated == AUTO else int(stated)
            found[stmt] = at
            self.used[space] = max(self.used.get(space, 0), at + int(call.kwargs["size"]))
        return found

    def refuse(self, space: MemorySpace, end: int) -> NoReturn:
        """Says how much is needed, and by which tiles."""
        limit = self.context.target.capacity[space]
        sizes = {b: alloc_size(a) for b, a in allocations(self.body).items() if alloc_space(a) is space}
        owners: dict[n.Var, n.Var] = {}
        for var in tile_vars(self.body):
            base = base_of(var)
            if base in sizes and base not in owners:
                owners[base] = var
        biggest = sorted(owners, key=lambda b: -sizes[b])[:SHOWN]
        named = ", ".join(f"`{plain_name(owners[b].name)}` {sizes[b]}" for b in biggest)
        span = owners[biggest[0]].span if biggest else self.function.span
        self.context.refuse(
            "E817",
            f"the tiles of `{self.function.name}` need {end} bytes of {space.name}; "
            f"{self.context.target.name} has {limit}",
            span or self.function.span,
            hint="use smaller tiles, or a loop over parts",
            note=f"the biggest are {named} bytes",
        )


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


class _Placing(Rewriter):
    def __init__(self, addresses: Mapping[n.Var, int], rings: Mapping[n.Stmt, int]) -> None:
        super().__init__()
        self.addresses, self.rings = addresses, rings

    def type(self, type_: Any) -> Any:
        type_ = super().type(type_)
        base = base_of(type_) if isinstance(type_, TileType) else None
        if base is None or base not in self.addresses or type_.memref.offset is None:
            return type_
        offset = type_.memref.offset
        assert isinstance(offset, n.ConstInt)
        at = address(self.addresses[base] + offset.value)
        return with_memref(type_, dataclasses.replace(type_.memref, offset=at))

    def visit_stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        if node in self.rings and isinstance(node, n.Assign) and isinstance(node.value, n.OpCall):
            kwargs = {**node.value.kwargs, "base": self.rings[node]}
            if kwargs != dict(node.value.kwargs):
                return dataclasses.replace(node, value=dataclasses.replace(node.value, kwargs=kwargs))
            return node
        return super().visit_stmt(node)
