"""Pass 33, MaterializeSemanticAliases: what a loop carries or a branch joins lies in one buffer; moves fill it
where the values cannot be computed there.

Follows from: a yield moves nothing on a core. Two buffers become one when they are never in use at the same time;
else the value is moved into the carried buffer right before the yield (or the loop).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import MemorySpace
from pypto_lab.ir.types import MemRef, TileType
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import map_bodies
from pypto_lab.lowering.memory_bases import (
    Interval,
    LiveRanges,
    Rebase,
    address,
    alloc_size,
    allocations,
    base_of,
    new_alloc,
    overlap,
    with_memref,
)
from pypto_lab.lowering.names import Names, plain_name
from pypto_lab.lowering.passes.init_mem_ref import with_buffers_apart
from pypto_lab.lowering.tile_forms import tile_bytes
from pypto_lab.lowering.tile_rewriter import TileRewriter, is_on_core


def run(program: n.Program, context: Context) -> n.Program:
    def change(function: n.Function) -> n.Function:
        if not is_on_core(function) or not _pairs(function.body or ()):
            return function
        apart = with_buffers_apart(function, program, context)
        merged = _Merging(apart)
        merged.merge()
        rebased = Rebase(merged.bases(), merged.sizes()).visit_function(apart)
        return _Moving(rebased, context).run()

    return map_bodies(program, change)


class _Merging:
    """Decides which buffers become one."""

    def __init__(self, function: n.Function) -> None:
        self.body = function.body or ()
        self.allocs = allocations(self.body)
        self.intervals = LiveRanges.of(self.body).by_base()
        self.parent: dict[n.Var, n.Var] = {}
        self.pairs = _pairs(self.body)

    def find(self, base: n.Var) -> n.Var:
        while base in self.parent:
            base = self.parent[base]
        return base

    def merge(self) -> None:
        for one, other in self.pairs:
            a, b = self.find(one), self.find(other)
            if a is b or a not in self.allocs or b not in self.allocs:
                continue
            if overlap(self.intervals.get(a, ()), self.intervals.get(b, ())):
                continue
            keep, gone = (a, b) if self.order(a) <= self.order(b) else (b, a)
            self.parent[gone] = keep
            merged: list[Interval] = sorted([*self.intervals.get(a, ()), *self.intervals.get(b, ())])
            self.intervals[keep] = merged

    def order(self, base: n.Var) -> int:
        return list(self.allocs).index(base)

    def bases(self) -> dict[n.Var, n.Var]:
        return {b: self.find(b) for b in self.allocs if b in self.parent}

    def sizes(self) -> dict[n.Var, int]:
        sizes: dict[n.Var, int] = {}
        for base, alloc in self.allocs.items():
            keep = self.find(base)
            sizes[keep] = max(sizes.get(keep, 0), alloc_size(alloc))
        return sizes


def _pairs(body: n.Body) -> list[tuple[n.Var, n.Var]]:
    """Buffers that would best be one, inner loops first: a carried value with its start and with what is yielded."""
    found: list[tuple[n.Var, n.Var]] = []

    def both(one: n.Expr, other: n.Expr) -> None:
        a, b = base_of(one), base_of(other)
        if a is not None and b is not None:
            found.append((a, b))

    def visit(stmts: Sequence[n.Stmt]) -> None:
        for stmt in stmts:
            match stmt:
                case n.For() | n.While():
                    visit(stmt.body)
                    last = stmt.body[-1].values if stmt.body and isinstance(stmt.body[-1], n.Yield) else ()
                    for argument, value in zip(stmt.iter_args, last, strict=False):
                        both(argument, value)
                    for argument in stmt.iter_args:
                        both(argument, argument.init_value)
                case n.If():
                    for arm in (stmt.then_body, stmt.else_body):
                        visit(arm)
                        last = arm[-1].values if arm and isinstance(arm[-1], n.Yield) else ()
                        for result, value in zip(stmt.return_vars, last, strict=False):
                            both(result, value)
                case n.Scope():
                    visit(stmt.body)

    visit(body)
    return found


class _Moving(TileRewriter):
    """Moves what is yielded, or starts a loop, into the buffer that is carried, where it does not lie there."""

    def __init__(self, function: n.Function, context: Context) -> None:
        super().__init__(function, context)
        self.names = Names.of(function)
        self.allocs: list[n.Stmt] = []

    def run(self) -> n.Function:
        body = self.block(self.function.body or ())
        return dataclasses.replace(self.function, body=(*self.allocs, *body))

    def assign(self, stmt: n.Assign) -> None:
        value = self.visit_expr(stmt.value)
        self.out.append(stmt if value is stmt.value else dataclasses.replace(stmt, value=value))

    def loop(self, loop: n.For | n.While) -> None:
        arguments = []
        for old in loop.iter_args:
            start = self.visit_expr(old.init_value)
            if self.apart(start, old):
                start = self.moved(start, old)
            new = old if start is old.init_value else dataclasses.replace(old, init_value=start)
            if new is not old:
                self.vars[old] = new
            arguments.append(new)
        body = self.carrying(loop.body, arguments)
        changes: dict[str, Any] = {"iter_args": tuple(arguments), "body": body}
        if isinstance(loop, n.While):
            changes["condition"] = self.visit_expr(loop.condition)
        else:
            changes |= {k: self.visit_expr(getattr(loop, k)) for k in ("start", "stop", "step")}
        self.out.append(dataclasses.replace(loop, **changes))

    def branch(self, stmt: n.If) -> None:
        condition = self.visit_expr(stmt.condition)
        then, other = (self.carrying(b, stmt.return_vars) for b in (stmt.then_body, stmt.else_body))
        self.out.append(dataclasses.replace(stmt, condition=condition, then_body=then, else_body=other))

    def carrying(self, body: n.Body, into: Sequence[n.Var]) -> n.Body:
        outer, self.out = self.out, []
        last = body[-1] if body and isinstance(body[-1], n.Yield) else None
        self.out.extend(self.block(body[:-1] if last is not None else body))
        if last is not None:
            self.span = last.span or self.span
            values = [self.visit_expr(v) for v in last.values]
            targets = {base_of(var) for value, var in zip(values, into, strict=True) if self.apart(value, var)}
            for i, (value, var) in enumerate(zip(values, into, strict=True)):
                # a value in a buffer that another move fills is set aside first
                if self.apart(value, var) and base_of(value) in targets:
                    values[i] = self.aside(value, var)
            for i, (value, var) in enumerate(zip(values, into, strict=True)):
                if self.apart(value, var):
                    values[i] = self.moved(value, var)
            self.out.append(dataclasses.replace(last, values=tuple(values)))
        inner, self.out = tuple(self.out), outer
        return inner

    def apart(self, value: n.Expr, into: n.Var) -> bool:
        """Whether a tile does not lie where it is carried."""
        if not isinstance(value.type, TileType) or not isinstance(into.type, TileType):
            return False
        return base_of(into) is not None and not _same_place(value.type.memref, into.type.memref)

    def moved(self, value: n.Expr, into: n.Var) -> n.Var:
        """The value moved into the buffer of `into`. Raises LabError where no instruction moves it."""
        assert isinstance(value.type, TileType) and isinstance(into.type, TileType)
        space = into.type.memory_space
        if space is not MemorySpace.Vec:
            where = space.name if space is not None else "no memory"
            self.context.refuse(
                "E819",
                f"`{plain_name(into.name)}` is carried in {where}, where nothing can be moved",
                self.span,
                hint="accumulate into the carried value with pl.matmul_acc",
            )
        call = self.make("tile.move", value, target_memory=MemorySpace.Vec)
        name = value.name if isinstance(value, n.Var) else "tile"
        assert isinstance(call.type, TileType)
        var = n.Var(name=self.names.fresh(f"{name}_mv"), type=with_memref(call.type, into.type.memref), span=self.span)
        self.out.append(n.Assign(var=var, value=call, span=self.span))
        return var

    def aside(self, value: n.Expr, into: n.Var) -> n.Var:
        """The value in a buffer of its own."""
        assert isinstance(value.type, TileType)
        size = tile_bytes(value.type)
        assert size is not None
        alloc = new_alloc(self.names.fresh("mem_vec_aside"), MemorySpace.Vec, size, self.span)
        self.allocs.append(alloc)
        memref = MemRef(alloc.var, address(0), size)
        call = self.make("tile.move", value, target_memory=MemorySpace.Vec)
        assert isinstance(call.type, TileType)
        name = self.names.fresh(f"{into.name}_aside")
        var = n.Var(name=name, type=with_memref(call.type, memref), span=self.span)
        self.out.append(n.Assign(var=var, value=call, span=self.span))
        return var


def _same_place(one: MemRef | None, other: MemRef | None) -> bool:
    if one is None or other is None:
        return one is other
    offsets = [getattr(m.offset, "value", None) for m in (one, other)]
    return one.base is other.base and offsets[0] == offsets[1]
