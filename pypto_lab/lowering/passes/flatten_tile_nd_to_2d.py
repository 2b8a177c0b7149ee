"""Pass 14, FlattenTileNdTo2D: tiles of another rank become matrices; batched products become one product a batch.

Follows from: on-chip tiles have rows and columns. The leading axes of a tile are merged into its rows, which keeps the
order of its elements; a window of global memory is taken through a 2-D view where its rows lie one after another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import MemorySpace, TileLayout
from pypto_lab.ir.types import TensorType, TileType, constant_dims
from pypto_lab.ir.visitor import walk
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import map_bodies
from pypto_lab.lowering.tile_forms import create_tile, dims
from pypto_lab.lowering.tile_rewriter import TileRewriter, is_on_core
from pypto_lab.lowering.uses import expressions, statements

Dims = tuple[n.Expr, ...]
_TO_VEC = {
    "target_memory": MemorySpace.Vec,
    "blayout": TileLayout.row_major,
    "slayout": TileLayout.none_box,
}
_BATCHED = {"tile.batch_matmul": "tile.matmul", "tile.batch_matmul_acc": "tile.matmul_acc"}


def run(program: n.Program, context: Context) -> n.Program:
    def change(function: n.Function) -> n.Function:
        if not is_on_core(function) or not any(_other_rank(node) for node in walk(function)):
            return function
        return _Flattener(function, context).run()

    return map_bodies(program, change)


def _other_rank(node: Any) -> bool:
    return isinstance(node, n.Expr) and isinstance(node.type, TileType) and node.type.rank != 2


def merged(shape: Dims) -> Dims:
    """Rows and columns of a tile: leading axes merged, one row for a vector."""
    if len(shape) == 1:
        return (n.const(1), shape[0])
    return (arith.product(shape[:-1]), shape[-1])


class _Flattener(TileRewriter):
    def __init__(self, function: n.Function, context: Context) -> None:
        super().__init__(function, context)
        self.transposed: dict[n.Var, n.Expr] = {}
        self.stored: set[n.Var] = set()

    def shape_of(self, expr: n.Expr) -> Dims:
        """The shape a tile had before."""
        assert isinstance(expr.type, TileType)
        return expr.type.shape

    def assign(self, stmt: n.Assign) -> None:
        call = stmt.value
        if not isinstance(call, n.OpCall):
            super().assign(stmt)
            return
        operands = [a for a in call.args if isinstance(a.type, TileType)]
        if not any(_other_rank(e) for e in (call, *operands)):
            super().assign(stmt)
            return
        rule = getattr(self, "op_" + call.op.removeprefix("tile."), self.generic)
        rule(stmt, call)

    def generic(self, stmt: n.Assign, call: n.OpCall) -> None:
        """An op that works element by element or along the last axis, or on a tile of one plane: the same op on the
        merged tiles."""
        planes = call.op.startswith("tile.col_") and not all(_is_plane(a.type) for a in call.args)
        if planes or call.op in ("tile.transpose", "tile.concat"):
            self.context.refuse("E810", f"`{call.op}` of a tile that is not 2-D has no 2-D form", stmt.span)
        self.check_valid(call.type, stmt)
        value = self.visit_expr(call)
        assert isinstance(value, n.OpCall)
        self.bind(stmt, self.retyped(value))

    def check_valid(self, type_: Any, stmt: n.Assign) -> None:
        """Raises LabError where the valid region is no rectangle of the merged tile."""
        if isinstance(type_, TileType) and not _is_rectangle(type_.shape[:-1], type_.valid_shape[:-1]):
            self.context.refuse("E810", "the valid region is no rectangle of rows and columns", stmt.span)

    # --- global memory -----------------------------------------------------------------------------------------------

    def op_load(self, stmt: n.Assign, call: n.OpCall) -> None:
        tensor, offsets, shape = (self.visit_expr(a) for a in call.args[:3])
        assert isinstance(tensor.type, TensorType)
        assert isinstance(offsets, n.MakeTuple) and isinstance(shape, n.MakeTuple)
        self.check_valid(call.type, stmt)
        valid = self.visit_expr(call.args[3]) if len(call.args) > 3 else shape
        assert isinstance(valid, n.MakeTuple)
        start = self.start_of(tensor.type.shape, offsets.elements, shape.elements, stmt)
        view = self.emit(f"{stmt.var.name}_view2d", self.make("tensor.view", tensor, dims(merged(tensor.type.shape))))
        parts = (dims(start), dims(merged(shape.elements)), dims(merged(valid.elements)))
        flat = self.make("tile.load", view, *parts, **call.kwargs)
        self.bind(stmt, dataclasses.replace(flat, attrs=call.attrs))

    def start_of(self, whole: Dims, offsets: Dims, shape: Dims, stmt: n.Assign) -> Dims:
        """Where a window starts in the merged matrix. Raises LabError unless its rows lie one after another there."""
        if len(whole) == 1:
            return (n.const(0), offsets[0])
        first = next((i for i, d in enumerate(shape[:-1]) if arith.constant(d) != 1), len(shape) - 2)
        for axis in range(first + 1, len(shape) - 1):
            if not arith.same(shape[axis], whole[axis]):
                hint = "load one plane at a time"
                self.context.refuse("E810", "the window's rows do not lie one after another", stmt.span, hint)
        row: n.Expr = n.const(0)
        for axis in range(len(shape) - 1):
            row = arith.add(row, arith.mul(offsets[axis], arith.product(whole[axis + 1 : -1])))
        return (row, offsets[-1])

    def op_store(self, stmt: n.Assign, call: n.OpCall) -> None:
        tile, offsets, target = (self.visit_expr(a) for a in call.args[:3])
        assert isinstance(tile.type, TileType) and tile.type.rank == 2 and isinstance(target.type, TensorType)
        if len(call.args) > 3:
            shape = self.visit_expr(call.args[3])
        else:
            shape = dims(_of_rank(self.shape_of(call.args[0]), target.type.rank))
        self.bind(stmt, self.make("tile.store", tile, offsets, target, shape, **call.kwargs))

    # --- shapes ------------------------------------------------------------------------------------------------------

    def op_create(self, stmt: n.Assign, call: n.OpCall) -> None:
        shape, *rest = (self.visit_expr(a) for a in call.args)
        assert isinstance(shape, n.MakeTuple)
        self.bind(stmt, self.make(call.op, dims(merged(shape.elements)), *rest, **call.kwargs))

    op_full = op_create

    def op_ci(self, stmt: n.Assign, call: n.OpCall) -> None:
        start, shape = (self.visit_expr(a) for a in call.args[:2])
        assert isinstance(shape, n.MakeTuple)
        self.bind(stmt, self.make(call.op, start, dims(merged(shape.elements)), **call.kwargs))

    def op_reshape(self, stmt: n.Assign, call: n.OpCall) -> None:
        assert isinstance(stmt.var.type, TileType)
        self.bind(stmt, self.make("tile.reshape", self.visit_expr(call.args[0]), dims(merged(stmt.var.type.shape))))

    def op_slice(self, stmt: n.Assign, call: n.OpCall) -> None:
        source, shape, offsets = call.args[:3]
        assert isinstance(shape, n.MakeTuple) and isinstance(offsets, n.MakeTuple)
        if len(call.args) > 3:
            self.context.refuse("E810", "a slice of part of an N-D tile with a valid shape has no 2-D form", stmt.span)
        start = self.start_of(self.shape_of(source), offsets.elements, shape.elements, stmt)
        window = (dims(merged(shape.elements)), dims(start))
        tile = self.make("tile.slice", self.visit_expr(source), *window)
        self.bind(stmt, tile)

    def op_transpose_view(self, stmt: n.Assign, call: n.OpCall) -> None:
        """A transposed batch is transposed plane by plane, where it is used."""
        self.transposed[stmt.var] = call.args[0]

    # --- products ----------------------------------------------------------------------------------------------------

    def op_batch_matmul(self, stmt: n.Assign, call: n.OpCall) -> None:
        first = 1 if call.op.endswith("_acc") else 0
        left, right = call.args[first], call.args[first + 1]
        batches = [self.planes(e) for e in (left, right)]
        count = max(len(b) for b in batches)
        store = self.only_store(stmt.var)
        parts: list[n.Var] = []
        for i in range(count):
            factors = [
                self.plane(e, planes, i, side)
                for e, planes, side in zip((left, right), batches, ("lhs", "rhs"), strict=True)
            ]
            product = self.make(_BATCHED[call.op], *self.start_plane(call, count), *factors)
            if count == 1 and store is None:
                self.bind(stmt, product)  # a batch of one is the product itself
                return
            parts.append(self.emit(f"matmul_{i}", product))
            if store is not None:
                self.store_plane(store, parts[-1], stmt.var, i)
        if store is None:
            self.collect(stmt, parts)

    op_batch_matmul_acc = op_batch_matmul

    def start_plane(self, call: n.OpCall, count: int) -> tuple[n.Expr, ...]:
        """What a product is added to: nothing, or the accumulator of a batch of one. Raises LabError for the planes of
        more, which would have to lie in accumulators of their own."""
        if not call.op.endswith("_acc"):
            return ()
        if count > 1:
            hint = "loop over the batch and accumulate each product by itself"
            self.context.refuse("E810", "a batched product that accumulates has no 2-D form", self.span, hint)
        return (self.visit_expr(call.args[0]),)

    def planes(self, expr: n.Expr) -> list[int]:
        """The numbers of a batched operand's planes (one for a matrix)."""
        shape = constant_dims(self.shape_of(expr))
        if shape is None:
            self.context.refuse("E810", "a batched product needs constant shapes", self.span)
        total = 1
        for extent in shape[:-2]:
            total *= extent
        return list(range(total))

    def plane(self, expr: n.Expr, planes: list[int], index: int, side: str) -> n.Expr:
        """Plane `index` of an operand as a matrix."""
        source = self.transposed.get(expr) if isinstance(expr, n.Var) else None
        base = expr if source is None else source
        rows, columns = self.shape_of(base)[-2:]
        if len(self.shape_of(base)) == 2:
            return self.visit_expr(expr)
        offset = arith.mul(rows, planes[index % len(planes)])
        cut = self.make("tile.slice", self.visit_expr(base), dims((rows, columns)), dims((offset, n.const(0))))
        tile = self.emit(f"{side}_slice_{index}", cut)
        return tile if source is None else self.emit(f"{tile.name}_t", self.make("tile.transpose_view", tile))

    def only_store(self, var: n.Var) -> n.Assign | None:
        """The store that is the only reader of `var`, None where there are others."""
        found = None
        for stmt in statements(self.function.body or ()):
            for expr in expressions(stmt):
                if any(a is var for a in getattr(expr, "args", (expr,))):
                    is_store = isinstance(stmt, n.Assign) and getattr(expr, "op", "") == "tile.store"
                    if found is not None or not is_store:
                        return None
                    found = stmt
        return found  # type: ignore[return-value]

    def store_plane(self, store: n.Assign, part: n.Var, var: n.Var, index: int) -> None:
        """Stores one plane where the whole result would have gone."""
        call = store.value
        assert isinstance(call, n.OpCall) and isinstance(var.type, TileType)
        target = self.vars.get(store.var, self.visit_expr(call.args[2]))
        offsets = call.args[1]
        assert isinstance(offsets, n.MakeTuple)
        lead = _place(index, var.type.shape[:-2])
        at = [self.visit_expr(o) for o in offsets.elements]
        skip = len(at) - var.type.rank
        for axis, plane in enumerate(lead):
            at[skip + axis] = arith.add(at[skip + axis], plane)
        shape = (*(n.const(1) for _ in range(len(at) - 2)), *var.type.shape[-2:])
        stored = self.make("tile.store", part, dims(tuple(at)), target, dims(shape), **call.kwargs)
        self.vars[store.var] = self.emit(f"{store.var.name}_{index}", stored)
        self.stored.add(store.var)

    def one(self, stmt: n.Stmt, into: Sequence[n.Var] = ()) -> None:
        if isinstance(stmt, n.Assign) and stmt.var in self.stored:
            return
        super().one(stmt, into)

    def collect(self, stmt: n.Assign, parts: list[n.Var]) -> None:
        """The planes of a product under one another in one tile."""
        assert isinstance(stmt.var.type, TileType)
        shape = merged(stmt.var.type.shape)
        whole: n.Expr = self.emit(
            f"{stmt.var.name}_planes", create_tile(shape, stmt.var.type.dtype, MemorySpace.Vec, self.span)
        )
        rows = stmt.var.type.shape[-2]
        for i, part in enumerate(parts):
            at = dims((arith.mul(rows, i), n.const(0)))
            vector = self.emit(f"{part.name}_Vec", self.make("tile.move", part, **_TO_VEC))
            call = self.make("tile.assemble", whole, vector, at)
            whole = self.emit(f"{stmt.var.name}_{i}", call) if i + 1 < len(parts) else call
        self.bind(stmt, whole)


def _of_rank(shape: Dims, rank: int) -> Dims:
    """A shape with axes of one before it, or without those, so that it has `rank` axes."""
    if len(shape) > rank and all(arith.constant(e) == 1 for e in shape[:-rank]):
        return shape[-rank:]
    return (*(n.const(1) for _ in range(rank - len(shape))), *shape)


def _is_rectangle(shape: Dims, valid: Dims) -> bool:
    """Whether the valid part of some axes lies in one run when they are merged: one axis may be partly valid if of
    each axis before it only the first entry is."""
    partial = [i for i, (a, b) in enumerate(zip(shape, valid, strict=True)) if not arith.same(a, b)]
    return not partial or all(arith.constant(e) == 1 for e in valid[: partial[-1]])


def _is_plane(type_: Any) -> bool:
    """Whether the axes a tile has before its rows and columns are all of one."""
    return not isinstance(type_, TileType) or all(arith.constant(e) == 1 for e in type_.shape[:-2])


def _place(index: int, lead: Dims) -> list[int]:
    """The position of plane `index` along the leading axes."""
    extents = constant_dims(lead) or ()
    place: list[int] = []
    for extent in reversed(extents):
        place.insert(0, index % extent)
        index //= extent
    return place
