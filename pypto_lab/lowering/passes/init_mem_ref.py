"""Pass 32, InitMemRef: every tile gets a buffer, every tensor its global memory.

Follows from: each value needs bytes before they can be shared. A view and the result of an op that works in place lie
in their operand's buffer (the op gets a copy when the old value is read again); what comes out of a pipe lies in its
slot. A carried value is said to lie where it starts, a joined one where its first branch leaves it: pass 33 makes
that true.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import MemorySpace
from pypto_lab.ir.types import MemRef, TensorType, TileType, constant_dims
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import map_bodies
from pypto_lab.lowering.memory_bases import VIEWS, LiveRanges, address, is_alloc, new_alloc, with_memref
from pypto_lab.lowering.memory_effects import Roots, written_argument
from pypto_lab.lowering.names import plain_name
from pypto_lab.lowering.passes.lower_pipeline_loops import MEMBERSHIP
from pypto_lab.lowering.tile_forms import tile_bytes
from pypto_lab.lowering.tile_rewriter import TileRewriter, is_on_core
from pypto_lab.lowering.uses import statements


def run(program: n.Program, context: Context) -> n.Program:
    return map_bodies(program, lambda function: _Initializer(function, program, context).run())


def with_buffers_apart(function: n.Function, program: n.Program, context: Context) -> n.Function:
    """A placed function placed again, its carried and joined values in buffers of their own (for pass 33)."""
    bare = _Bare().visit_function(function)
    return _Initializer(bare, program, context, apart=True).run()


class _Bare(Rewriter):
    """A function without memory references and allocations."""

    def type(self, type_: Any) -> Any:
        type_ = super().type(type_)
        if isinstance(type_, (TileType, TensorType)) and type_.memref is not None:
            return dataclasses.replace(type_, memref=None)
        return type_

    def stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        return () if is_alloc(node) else node


class _Initializer(TileRewriter):
    """Places one function. With `apart`, what is carried or joined gets a buffer of its own."""

    def __init__(self, function: n.Function, program: n.Program, context: Context, *, apart: bool = False) -> None:
        super().__init__(function, context)
        self.apart = apart
        self.ranges = LiveRanges.of(function.body or ())
        self.roots = Roots(function.body or (), [p.var for p in function.params], program)
        self.values = _values(function.body or ())
        self.allocs: list[n.Stmt] = []
        self.count = 0
        self.memory: dict[n.Var, MemRef] = {}

    def run(self) -> n.Function:
        params = []
        for param in self.function.params:
            new = param
            if isinstance(param.type, TensorType) and not param.type.distributed:
                memref = self.global_memory(param.type)
                self.memory[param.var] = memref
                var = dataclasses.replace(param.var, type=dataclasses.replace(param.type, memref=memref))
                self.vars[param.var] = var
                new = dataclasses.replace(param, var=var)
            params.append(new)
        body = self.block(self.function.body or ())
        if is_on_core(self.function):
            body = (*self.allocs, *body)
        return dataclasses.replace(self.function, params=tuple(params), body=body)

    # --- memory ------------------------------------------------------------------------------------------------------

    def global_memory(self, type_: TensorType) -> MemRef:
        shape = constant_dims(type_.shape)
        size = 0
        if shape is not None:
            size = type_.dtype.bits
            for extent in shape:
                size *= extent
            size = (size + 7) // 8
        memref = MemRef(f"mem_ddr_{self.count}", address(0), size)
        self.count += 1
        return memref

    def buffer(self, var: n.Var) -> MemRef:
        """A buffer of its own for a tile. Raises LabError for one of dynamic size."""
        assert isinstance(var.type, TileType)
        size = tile_bytes(var.type)
        if size is None:
            self.context.refuse("E818", f"`{plain_name(var.name)}` has a dynamic shape and gets no memory", var.span)
        space = var.type.memory_space or MemorySpace.Vec
        alloc = new_alloc(f"mem_{space.name.lower()}_{self.count}", space, size, var.span)
        self.count += 1
        self.allocs.append(alloc)
        return MemRef(alloc.var, address(0), size)

    def placed(self, var: n.Var, memref: MemRef | None) -> n.Var:
        assert isinstance(var.type, TileType)
        return dataclasses.replace(var, type=with_memref(var.type, memref))

    # --- statements --------------------------------------------------------------------------------------------------

    def assign(self, stmt: n.Assign) -> None:
        value = self.visit_expr(stmt.value)
        if isinstance(value, n.OpCall) and MEMBERSHIP in value.attrs:
            attrs = {k: v for k, v in value.attrs.items() if k != MEMBERSHIP}
            value = dataclasses.replace(value, attrs=attrs)
        if isinstance(stmt.var.type, TileType):
            self.tile(stmt, value)
        elif isinstance(stmt.var.type, TensorType) and not stmt.var.type.distributed:
            self.tensor(stmt, value)
        else:
            self.bind(stmt, value)

    def tensor(self, stmt: n.Assign, value: n.Expr) -> None:
        root = self.roots.of(stmt.var) if is_on_core(self.function) else None
        memref = self.memory.get(root) if root is not None else None
        assert isinstance(stmt.var.type, TensorType)
        if memref is None:
            memref = self.global_memory(stmt.var.type)
        type_ = self.type(stmt.var.type)
        assert isinstance(type_, TensorType)
        var = dataclasses.replace(stmt.var, type=dataclasses.replace(type_, memref=memref))
        self.vars[stmt.var] = var
        self.out.append(dataclasses.replace(stmt, var=var, value=value))

    def tile(self, stmt: n.Assign, value: n.Expr) -> None:
        if isinstance(stmt.var.type, TileType) and stmt.var.type.memref is not None:
            hint = "leave the MemRef away: this pipeline places tiles itself"
            self.context.refuse("E818", f"`{plain_name(stmt.var.name)}` is pinned by hand", stmt.span, hint)
        value, memref = self.memory_of(stmt, value)
        retyped = self.type(stmt.var.type)
        assert isinstance(retyped, TileType)
        var = dataclasses.replace(stmt.var, type=with_memref(retyped, memref))
        self.vars[stmt.var] = var
        self.out.append(dataclasses.replace(stmt, var=var, value=value))

    def memory_of(self, stmt: n.Assign, value: n.Expr) -> tuple[n.Expr, MemRef | None]:
        """Where a new tile lies; the value changes when its op must work on a copy."""
        if isinstance(value, n.Var):
            return value, _memref(value)
        if not isinstance(value, n.OpCall):
            return value, self.buffer(stmt.var)
        if value.op.startswith("tile.tpop"):
            return value, None
        if value.op in VIEWS:
            return value, _view(value, stmt.var)
        target = written_argument(value)
        if target is None or not isinstance(value.args[target].type, TileType):
            return value, self.buffer(stmt.var)
        old = stmt.value.args[target]  # type: ignore[attr-defined]
        if isinstance(old, n.Var) and self.read_again(old, stmt):
            value = self.on_copy(value, target)
        return value, _memref(value.args[target])

    def read_again(self, var: n.Var, stmt: n.Assign) -> bool:
        """Whether the value `var` holds is read after `stmt` writes over it."""
        start, _ = self.ranges.intervals[stmt.var]
        group = self.values.get(var, var)
        return any(
            first <= start < last
            for other in self.ranges.intervals
            if self.values.get(other, other) is group
            for first, last in self.ranges.segments(other)
        )

    def on_copy(self, call: n.OpCall, target: int) -> n.OpCall:
        """The call on a copy of the argument it writes. Raises LabError where no copy can be made."""
        old = call.args[target]
        assert isinstance(old.type, TileType)
        if old.type.memory_space not in (MemorySpace.Vec, None):
            hint = "start a new accumulation instead of adding twice to one result"
            self.context.refuse("E819", f"`{call.op}` writes over a value that is read later", self.span, hint)
        copy = self.make("tile.move", old, target_memory=MemorySpace.Vec)
        name = self.names.fresh(f"{old.name if isinstance(old, n.Var) else 'tile'}_copy")
        var = n.Var(name=name, type=copy.type, span=self.span)
        var = self.placed(var, self.buffer(var))
        self.out.append(n.Assign(var=var, value=copy, span=self.span))
        args = tuple(var if i == target else a for i, a in enumerate(call.args))
        return dataclasses.replace(call, args=args)

    # --- carried and joined values -----------------------------------------------------------------------------------

    def loop(self, loop: n.For | n.While) -> None:
        arguments = []
        for old in loop.iter_args:
            start = self.visit_expr(old.init_value)
            type_: Any = self.type(old.type)
            new = n.IterArg(name=old.name, type=type_, init_value=start, span=old.span)
            if isinstance(type_, TileType):
                memref = self.buffer(new) if self.apart else _memref(start)
                new = dataclasses.replace(new, type=with_memref(type_, memref))
            elif isinstance(type_, TensorType):
                new = dataclasses.replace(new, type=dataclasses.replace(type_, memref=_tensor_memref(start)))
            self.vars[old] = new
            arguments.append(new)
        changes: dict[str, Any] = {"iter_args": tuple(arguments)}
        if isinstance(loop, n.For):
            changes |= {k: self.visit_expr(getattr(loop, k)) for k in ("start", "stop", "step")}
            changes["loop_var"] = self.define(loop.loop_var)
        else:
            changes["condition"] = self.visit_expr(loop.condition)
        changes["body"] = self.block(loop.body)
        last = yielded(changes["body"])
        results = []
        for old_result, argument, value in zip(loop.return_vars, arguments, last, strict=True):
            new_type: Any = self.type(old_result.type)
            if isinstance(new_type, TileType):
                new_type = with_memref(new_type, _memref(argument if self.apart else value))
            elif isinstance(new_type, TensorType):
                new_type = dataclasses.replace(
                    new_type, memref=_tensor_memref(argument if is_on_core(self.function) else value)
                )
            result = dataclasses.replace(old_result, type=new_type)
            self.vars[old_result] = result
            results.append(result)
        self.out.append(dataclasses.replace(loop, **changes, return_vars=tuple(results)))

    def branch(self, stmt: n.If) -> None:
        condition = self.visit_expr(stmt.condition)
        then, other = self.block(stmt.then_body), self.block(stmt.else_body)
        results = []
        for old, first in zip(stmt.return_vars, yielded(then), strict=True):
            type_: Any = self.type(old.type)
            if isinstance(type_, TileType):
                type_ = with_memref(type_, self.buffer(old) if self.apart else _memref(first))
            elif isinstance(type_, TensorType):
                root = self.roots.of(old)
                memref = self.memory.get(root) if root is not None else None
                memref = _tensor_memref(first) or memref or self.global_memory(type_)
                type_ = dataclasses.replace(type_, memref=memref)
            new = dataclasses.replace(old, type=type_)
            self.vars[old] = new
            results.append(new)
        self.out.append(
            dataclasses.replace(stmt, condition=condition, then_body=then, else_body=other, return_vars=tuple(results))
        )


def _values(body: Sequence[n.Stmt]) -> dict[n.Var, n.Var]:
    """For each view and plain copy the variable whose value it shows."""
    shown: dict[n.Var, n.Var] = {}
    for stmt in statements(body):
        if not isinstance(stmt, n.Assign):
            continue
        source: n.Expr | None = stmt.value if isinstance(stmt.value, n.Var) else None
        if isinstance(stmt.value, n.OpCall) and stmt.value.op in VIEWS:
            source = stmt.value.args[0]
        if isinstance(source, n.Var):
            shown[stmt.var] = shown.get(source, source)
    return shown


def yielded(body: n.Body) -> tuple[n.Expr, ...]:
    """What a body yields at its end."""
    return body[-1].values if body and isinstance(body[-1], n.Yield) else ()


def _memref(expr: n.Expr) -> MemRef | None:
    return expr.type.memref if isinstance(expr.type, TileType) else None


def _tensor_memref(expr: n.Expr) -> MemRef | None:
    return expr.type.memref if isinstance(expr.type, TensorType) else None


def _view(call: n.OpCall, var: n.Var) -> MemRef | None:
    """The bytes of a view: those of its operand, for a slice at constant offsets from its first element on."""
    source = _memref(call.args[0])
    assert isinstance(var.type, TileType)
    if source is None or source.offset is None:
        return source
    if call.op != "tile.slice":
        return dataclasses.replace(source, size=tile_bytes(var.type) or source.size)
    shape = call.args[0].type
    offsets = call.args[2]
    assert isinstance(shape, TileType) and isinstance(offsets, n.MakeTuple)
    at = [arith.constant(o) for o in offsets.elements]
    extents = [arith.constant(e) for e in var.type.shape]
    columns = arith.constant(shape.shape[-1])
    start = arith.constant(source.offset)
    known = len(at) == 2 == len(extents) and None not in (*at, *extents, columns, start)
    if not known or shape.memory_space is not MemorySpace.Vec:
        return source
    (row, column), (rows, width) = at, extents
    assert row is not None and column is not None and rows is not None and width is not None
    assert columns is not None and start is not None
    size = shape.dtype.bits // 8
    first = (row * columns + column) * size
    length = ((rows - 1) * columns + width) * size
    return MemRef(source.base, address(start + first), length)
