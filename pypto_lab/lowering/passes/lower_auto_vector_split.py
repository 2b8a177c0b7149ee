"""Pass 21, LowerAutoVectorSplit: vector work of a split function is written for one lane, on half of each tile.

Follows from: `pl.split(mode)` promises that the two vector lanes may each take half of every tile along one axis. A
tile keeps the axis it is divided along; an op that would mix both halves is refused. What crosses from the cube is a
shard, what crosses back is gathered. A `pl.split_aiv` region is written for one lane already: only its lane is looked
up.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import AtomicType, FunctionType, MemorySpace, SplitMode
from pypto_lab.ir.types import ScalarType, TileType
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import map_bodies
from pypto_lab.lowering.names import plain_name
from pypto_lab.lowering.sides import Affinity, affinity, sides_of
from pypto_lab.lowering.split_regions import GATHERS, SHARDS, check_regions
from pypto_lab.lowering.tile_forms import dims
from pypto_lab.lowering.tile_rewriter import TileRewriter
from pypto_lab.lowering.uses import statements

LANES = 2
_EXPLICIT = (*SHARDS, *GATHERS)


def run(program: n.Program, context: Context) -> n.Program:
    def change(function: n.Function) -> n.Function:
        if function.func_type is not FunctionType.InCore:
            return function
        region = next((s for s in statements(function.body or ()) if isinstance(s, n.SplitAivScope)), None)
        if region is not None:
            return _by_hand(function, region, context)
        mode = function.attrs.get("split")
        if mode is None or SplitMode(mode) is SplitMode.NONE or function.attrs.get("split_aiv"):
            return function
        if sides_of(function.body or ()) != {Affinity.CUBE, Affinity.VECTOR}:
            attrs = {k: v for k, v in function.attrs.items() if k != "split"}
            return dataclasses.replace(function, attrs=attrs)  # one side alone has nothing to divide
        return _Splitter(function, context, SplitMode(mode)).run()

    return map_bodies(program, change)


def _split_attrs(function: n.Function, mode: SplitMode) -> dict[str, Any]:
    return {**function.attrs, "split": mode, "split_aiv": True}


# --- regions written by hand -----------------------------------------------------------------------------------------


def _by_hand(function: n.Function, region: n.SplitAivScope, context: Context) -> n.Function:
    """A function with a `pl.split_aiv` region: the region's statements stand in line, its lane is looked up."""
    if function.attrs.get("split") not in (None, region.split):
        context.refuse("E812", "pl.split_aiv and pl.split of another mode in one function", region.span)
    check_regions(function, context)
    body = _Unscoped(function, context, region.split).run().body
    return dataclasses.replace(function, body=body, attrs=_split_attrs(function, region.split))


class _Unscoped(TileRewriter):
    def __init__(self, function: n.Function, context: Context, mode: SplitMode) -> None:
        super().__init__(function, context)
        self.mode = mode

    def one(self, stmt: n.Stmt, into: Any = ()) -> None:
        if isinstance(stmt, n.SplitAivScope):
            lane = n.OpCall(op="tile.get_subblock_idx", args=(), type=n.INDEX, span=stmt.span)
            self.out.append(n.Assign(var=stmt.lane_var, value=lane, span=stmt.span))
            self.out.extend(self.block(stmt.body))
            return
        super().one(stmt, into)

    def assign(self, stmt: n.Assign) -> None:
        call = stmt.value
        if isinstance(call, n.OpCall) and call.op in _EXPLICIT and not call.kwargs.get("split"):
            named = dataclasses.replace(call, kwargs={**call.kwargs, "split": int(self.mode)})
            stmt = dataclasses.replace(stmt, value=named)
        super().assign(stmt)


# --- automatic split -------------------------------------------------------------------------------------------------


class _Splitter(TileRewriter):
    """Halves vector tiles. `axis` tells along which axis each is divided; a tile that is not in it is whole.
    `one_value` has the value of each tile that holds nothing else: any part of it is made as easily."""

    def __init__(self, function: n.Function, context: Context, mode: SplitMode) -> None:
        super().__init__(function, context)
        self.mode = mode
        self.main = 0 if mode is SplitMode.UP_DOWN else 1
        self.axis: dict[n.Var, int] = {}
        self.one_value: dict[n.Expr, n.Expr] = {}
        self.lane = n.Var(name=self.names.fresh("subblock_idx"), type=n.INDEX, span=function.span)

    def run(self) -> n.Function:
        new = super().run()
        call = n.OpCall(op="tile.get_subblock_idx", args=(), type=n.INDEX, span=self.function.span)
        lane = n.Assign(var=self.lane, value=call, span=self.function.span)
        return dataclasses.replace(new, body=(lane, *(new.body or ())), attrs=_split_attrs(self.function, self.mode))

    # --- halves ------------------------------------------------------------------------------------------------------

    def axis_of(self, expr: n.Expr) -> int | None:
        return self.axis.get(expr) if isinstance(expr, n.Var) else None

    def half(self, extent: n.Expr, what: str) -> int | None:
        """Half of an extent, None for 1 (a broadcast axis stays whole). Raises LabError for an odd one."""
        value = arith.constant(extent)
        if value is None:
            self.context.refuse("E813", f"{what} has no constant extent along the split axis", self.span)
        if value == 1:
            return None
        if value % LANES:
            hint = "make the extent even, or leave the split away"
            self.context.refuse(
                "E813", f"{what} has {value} along the split axis, not a multiple of 2", self.span, hint
            )
        return value // LANES

    def shifted(self, offset: n.Expr, half: int) -> n.Expr:
        """Where this lane's half starts."""
        step = n.Binary(op="Mul", left=self.lane, right=n.const(half), type=n.INDEX)
        return n.Binary(op="Add", left=offset, right=step, type=n.INDEX)

    def lane_valid(self, valid: n.Expr, whole: n.Expr, half: int) -> n.Expr:
        """How much of a valid extent falls on this lane."""
        if arith.same(valid, whole):
            return n.const(half)
        step = n.Binary(op="Mul", left=self.lane, right=n.const(half), type=n.INDEX)
        rest = n.Binary(op="Sub", left=valid, right=step, type=n.INDEX)
        least = n.Binary(op="Max", left=rest, right=n.const(0), type=n.INDEX)
        return n.Binary(op="Min", left=least, right=n.const(half), type=n.INDEX)

    def mark(self, var: n.Var, axis: int | None) -> None:
        if axis is not None:
            self.axis[var] = axis

    # --- statements --------------------------------------------------------------------------------------------------

    def assign(self, stmt: n.Assign) -> None:
        call = stmt.value
        if isinstance(call, n.Var):
            source = self.visit_expr(call)
            self.mark(self.bind(stmt, source), self.axis_of(source))
            return
        if not isinstance(call, n.OpCall):
            super().assign(stmt)
            return
        side = affinity(call)
        rule = getattr(self, "op_" + call.op.removeprefix("tile.").removeprefix("tensor."), None)
        if side is Affinity.TO_VECTOR:
            self.shard(stmt, call)
        elif side is Affinity.TO_CUBE:
            self.gather(stmt, call)
        elif side is not Affinity.VECTOR:
            super().assign(stmt)
        elif rule is not None:
            rule(stmt, call)
        else:
            self.elementwise(stmt, call)

    def shard(self, stmt: n.Assign, call: n.OpCall) -> None:
        source = self.visit_expr(call.args[0])
        assert isinstance(source.type, TileType)
        if self.half(source.type.shape[self.main], f"`{plain_name(stmt.var.name)}`") is None:
            self.context.refuse("E813", "a tile of one row or column cannot be split", self.span)
        new = self.bind(stmt, self.make("tile.aiv_shard", source, split=int(self.mode)))
        self.mark(new, self.main)

    def gather(self, stmt: n.Assign, call: n.OpCall) -> None:
        source = self.visit_expr(call.args[0])
        if self.axis_of(source) != self.main:
            hint = "compute it in halves, or leave the split away"
            self.context.refuse(
                "E813", f"`{plain_name(stmt.var.name)}` is not split and cannot be gathered", self.span, hint
            )
        whole = self.make("tile.aic_gather", source, split=int(self.mode))
        space = call.kwargs["target_memory"]
        if space is MemorySpace.Mat:
            self.bind(stmt, whole)
            return
        on_mat = self.emit(f"{stmt.var.name}_mat", whole)
        self.bind(stmt, self.make("tile.move", on_mat, target_memory=space))

    def elementwise(self, stmt: n.Assign, call: n.OpCall) -> None:
        """An op whose operands are divided alike: each lane does its half."""
        args = tuple(self.visit_expr(a) for a in call.args)
        axes = {a: self.axis_of(a) for a in args if isinstance(a.type, TileType)}
        divided = {axis for axis in axes.values() if axis is not None}
        if not divided:
            self.bind(stmt, self.retyped(dataclasses.replace(call, args=args)))
            return
        axis = next(iter(divided))
        whole = [a for a, where in axes.items() if where is None]
        unlike = len(divided) > 1 or any(arith.constant(a.type.shape[axis]) != 1 for a in whole)  # type: ignore[attr-defined]
        if unlike or not self.allowed(call, axis):
            self.refuse_mixing(call)
        new = self.bind(stmt, self.retyped(dataclasses.replace(call, args=args)))
        assert isinstance(new.type, TileType)
        self.mark(new, axis if arith.constant(new.type.shape[axis]) != 1 else None)

    def allowed(self, call: n.OpCall, axis: int) -> bool:
        """Whether an op works within each half along `axis`."""
        name = call.op.removeprefix("tile.")
        if name.startswith("row_") and not name.startswith("row_expand"):
            return axis == 0
        if name.startswith("col_") and not name.startswith("col_expand"):
            return axis == 1
        if name.startswith(("sort", "mrgsort", "gather", "scatter")):
            return axis == 0 and not name.startswith("scatter")
        return name not in ("transpose", "transpose_view", "tri", "random")

    def refuse_mixing(self, call: n.OpCall) -> None:
        what = call.op.removeprefix("tile.")
        axis = "rows" if self.main == 0 else "columns"
        self.context.refuse(
            "E814",
            f"`{what}` mixes both lanes: the function is split along its {axis} ({self.mode.name})",
            self.span,
            hint="use the other split mode, or leave `pl.split` away",
        )

    def op_transpose(self, stmt: n.Assign, call: n.OpCall) -> None:
        if self.axis_of(self.visit_expr(call.args[0])) is not None:
            self.refuse_mixing(call)
        super().assign(stmt)

    def op_load(self, stmt: n.Assign, call: n.OpCall) -> None:
        tensor, offsets, shape, *valid = (self.visit_expr(a) for a in call.args)
        assert isinstance(offsets, n.MakeTuple) and isinstance(shape, n.MakeTuple)
        half = self.half(shape.elements[self.main], f"`{plain_name(stmt.var.name)}`")
        if half is None:
            super().assign(stmt)
            return
        parts = [offsets, self.halved(shape, half)]
        region = valid[0] if valid else shape
        assert isinstance(region, n.MakeTuple)
        kept = self.lane_valid(region.elements[self.main], shape.elements[self.main], half)
        parts[0] = self.replaced(offsets, self.shifted(offsets.elements[self.main], half))
        parts.append(self.replaced(region, kept))
        loaded = self.make("tile.load", tensor, *parts, **call.kwargs)
        self.mark(self.bind(stmt, loaded), self.main)

    def halved(self, shape: n.MakeTuple, half: int) -> n.MakeTuple:
        return self.replaced(shape, n.const(half))

    def replaced(self, listed: n.MakeTuple, value: n.Expr) -> n.MakeTuple:
        elements = list(listed.elements)
        elements[self.main] = value
        return dataclasses.replace(listed, elements=tuple(elements))

    def op_store(self, stmt: n.Assign, call: n.OpCall) -> None:
        tile, offsets, *rest = (self.visit_expr(a) for a in call.args)
        assert isinstance(offsets, n.MakeTuple) and isinstance(tile.type, TileType)
        axis = self.axis_of(tile)
        if axis is None:
            if call.kwargs.get("atomic") not in (None, AtomicType.None_):
                self.context.refuse("E814", "both lanes would add the same tile", self.span)
            super().assign(stmt)
            return
        if len(rest) > 1:
            self.context.refuse("E814", "a store of a split tile to more than two axes has no half", self.span)
        half = arith.constant(tile.type.shape[axis])
        assert half is not None
        place = len(offsets.elements) - tile.type.rank + axis
        at = list(offsets.elements)
        at[place] = self.shifted(at[place], half)
        self.bind(stmt, self.make("tile.store", tile, dims(tuple(at)), *rest, **call.kwargs))

    def op_create(self, stmt: n.Assign, call: n.OpCall) -> None:
        shape = self.visit_expr(call.args[0])
        assert isinstance(shape, n.MakeTuple)
        half = self.half(shape.elements[self.main], f"`{plain_name(stmt.var.name)}`")
        if half is None:
            super().assign(stmt)
            return
        rest = [self.visit_expr(a) for a in call.args[1:]]
        new = self.bind(stmt, self.make(call.op, self.halved(shape, half), *rest, **call.kwargs))
        self.mark(new, self.main)

    def op_full(self, stmt: n.Assign, call: n.OpCall) -> None:
        self.op_create(stmt, call)
        made = self.out[-1]
        assert isinstance(made, n.Assign) and isinstance(made.value, n.OpCall)
        self.one_value[made.var] = made.value.args[1]

    def op_ci(self, stmt: n.Assign, call: n.OpCall) -> None:
        """A ramp along the split axis starts at this lane's half."""
        start, shape = (self.visit_expr(a) for a in call.args[:2])
        assert isinstance(shape, n.MakeTuple) and isinstance(start.type, ScalarType)
        half = self.half(shape.elements[self.main], f"`{plain_name(stmt.var.name)}`")
        if half is None:
            super().assign(stmt)
            return
        dtype = start.type
        lane = n.Unary(op="Cast", operand=self.lane, type=dtype)
        step = n.const(-half if call.kwargs.get("descending") else half, dtype.dtype)
        moved = n.Binary(op="Mul", left=lane, right=step, type=dtype)
        first = n.Binary(op="Add", left=start, right=moved, type=dtype)
        self.mark(self.bind(stmt, self.make(call.op, first, self.halved(shape, half), **call.kwargs)), self.main)

    def op_reshape(self, stmt: n.Assign, call: n.OpCall) -> None:
        """A divided row may become a column and back: its half lies in one piece."""
        source, shape = (self.visit_expr(a) for a in call.args[:2])
        assert isinstance(shape, n.MakeTuple) and isinstance(source.type, TileType)
        if source in self.one_value and self.line_of_one_value(stmt, source, shape):
            return
        axis = self.axis_of(source)
        if axis is None:
            super().assign(stmt)
            return
        extents = [arith.constant(e) for e in shape.elements]
        half = arith.constant(source.type.shape[axis])
        assert half is not None
        line = arith.constant(source.type.shape[1 - axis]) == 1
        if not line or sorted(e or 0 for e in extents) != [1, half * LANES]:
            self.refuse_mixing(call)
        where = extents.index(half * LANES)
        new_shape = [n.const(1), n.const(1)]
        new_shape[where] = n.const(half)
        self.mark(self.bind(stmt, self.make("tile.reshape", source, dims(tuple(new_shape)))), where)

    def line_of_one_value(self, stmt: n.Assign, source: n.Expr, shape: n.MakeTuple) -> bool:
        """A row of one value that becomes a column, or a column that becomes a row, is made anew as long as this
        lane needs it. False where it is no such line."""
        assert isinstance(source.type, TileType)
        across = next((axis for axis, e in enumerate(source.type.shape) if arith.constant(e) == 1), None)
        if across is None or arith.constant(shape.elements[1 - across]) != 1:
            return False
        length, half = shape.elements[across], None
        if across == self.main:
            half = self.half(length, f"`{plain_name(stmt.var.name)}`")
        extent = length if half is None else n.const(half)
        line, turned = [n.const(1), n.const(1)], [n.const(1), n.const(1)]
        line[1 - across] = turned[across] = extent
        made = self.make("tile.full", dims(tuple(line)), self.one_value[source], dtype=source.type.dtype)
        part = self.emit(f"{plain_name(stmt.var.name)}_lane", made)
        new = self.bind(stmt, self.make("tile.reshape", part, dims(tuple(turned))))
        self.mark(new, None if half is None else self.main)
        return True

    def op_slice(self, stmt: n.Assign, call: n.OpCall) -> None:
        source, shape, offsets = (self.visit_expr(a) for a in call.args[:3])
        axis = self.axis_of(source)
        if axis is None:
            super().assign(stmt)
            return
        assert isinstance(shape, n.MakeTuple) and isinstance(offsets, n.MakeTuple) and isinstance(source.type, TileType)
        half = arith.constant(source.type.shape[axis])
        assert half is not None
        whole = arith.constant(shape.elements[axis]) == half * LANES and arith.constant(offsets.elements[axis]) == 0
        if not whole or len(call.args) > 3:
            self.refuse_mixing(call)
        elements = list(shape.elements)
        elements[axis] = n.const(half)
        new = self.bind(stmt, self.make("tile.slice", source, dims(tuple(elements)), offsets, **call.kwargs))
        self.mark(new, axis)

    def op_assemble(self, stmt: n.Assign, call: n.OpCall) -> None:
        target, source, offsets = (self.visit_expr(a) for a in call.args)
        axis = self.axis_of(target)
        assert isinstance(offsets, n.MakeTuple)
        if axis is not None and (self.axis_of(source) != axis or arith.constant(offsets.elements[axis]) != 0):
            self.refuse_mixing(call)
        new = self.bind(stmt, self.make("tile.assemble", target, source, offsets))
        self.mark(new, axis)

    def op_concat(self, stmt: n.Assign, call: n.OpCall) -> None:
        if any(self.axis_of(self.visit_expr(a)) == 1 for a in call.args):
            self.refuse_mixing(call)
        self.elementwise(stmt, call)

    def op_set_validshape(self, stmt: n.Assign, call: n.OpCall) -> None:
        source, *valid = (self.visit_expr(a) for a in call.args)
        axis = self.axis_of(source)
        if axis is not None:
            assert isinstance(source.type, TileType)
            half = arith.constant(source.type.shape[axis])
            assert half is not None
            valid[axis] = self.lane_valid(valid[axis], n.const(half * LANES), half)
        self.mark(self.bind(stmt, self.make(call.op, source, *valid)), axis)

    def op_read(self, stmt: n.Assign, call: n.OpCall) -> None:
        if self.axis_of(self.visit_expr(call.args[0])) is not None:
            self.refuse_mixing(call)
        super().assign(stmt)

    op_write = op_read

    # --- carried values ----------------------------------------------------------------------------------------------

    def loop(self, loop: n.For | n.While) -> None:
        for argument in loop.iter_args:
            start = self.visit_expr(argument.init_value)
            self.axis.update({argument: axis} if (axis := self.axis_of(start)) is not None else {})
        super().loop(loop)
        made = self.out[-1]
        assert isinstance(made, (n.For, n.While))
        for argument, result in zip(made.iter_args, made.return_vars, strict=True):
            self.mark(result, self.axis_of(argument))

    def visit_expr(self, node: n.Expr) -> n.Expr:
        new = super().visit_expr(node)
        if isinstance(new, n.IterArg) and isinstance(node, n.Var) and node in self.axis:
            self.axis.setdefault(new, self.axis[node])
        return new

    def branch(self, stmt: n.If) -> None:
        super().branch(stmt)
        made = self.out[-1]
        assert isinstance(made, n.If)
        last = made.then_body[-1] if made.then_body else None
        if isinstance(last, n.Yield):
            for result, value in zip(made.return_vars, last.values, strict=True):
                self.mark(result, self.axis_of(value))
