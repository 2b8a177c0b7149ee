"""Pass 11, ConvertTensorToTileOps: in InCore functions tensors become tiles, loaded where they enter and stored where
they leave.

Follows from: a core computes on tiles only. A tensor is *global* when it names a parameter's memory, else it is local
and becomes a tile. A vector operand that is a whole parameter is loaded once at entry; a cube operand is loaded next
to its matmul, into Mat. A local tensor that a function returns gets an Out parameter, which the callers create.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.enums import Direction, FunctionType, MemorySpace
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import TensorType, TileType, Type, constant_dims
from pypto_lab.ir.visitor import Rewriter, walk
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.dead_code import without_dead_code
from pypto_lab.lowering.indexed_tiles import expand_gather, expand_scatter
from pypto_lab.lowering.memory_effects import ALIASING, Roots
from pypto_lab.lowering.names import Names, plain_name
from pypto_lab.lowering.new_outputs import NewOutput, add_outputs
from pypto_lab.lowering.tile_forms import (
    create_tile,
    dims,
    load_tile,
    scratch_index,
    scratch_of,
    tile_form,
    zeros,
)
from pypto_lab.lowering.tile_rewriter import joined_type
from pypto_lab.lowering.uses import expressions, statements
from pypto_lab.ops.record import make_call

BRIDGE = "__compiler_tensor_to_tile_mat_bridge"
"""Marks loads this pass makes for cube operands; pass 18 has settled their space when it takes the mark off."""

_CUBE_OPERANDS = {"tensor.matmul": (0, 1), "tensor.matmul_acc": (1, 2)}
_STAYS = ("tensor.read", "tensor.write", "tensor.dim", *ALIASING)
"""Ops on global memory that stay tensor ops on a core."""
_PLACE = ("tensor.get_block_idx", "tensor.get_block_num", "tensor.get_subblock_idx")


def run(program: n.Program, context: Context) -> n.Program:
    functions: dict[str, n.Function] = {}
    outputs: dict[str, list[NewOutput]] = {}
    for name, function in program.functions.items():
        if function.func_type is FunctionType.InCore and function.body is not None and _has_tensor_ops(function):
            live = dataclasses.replace(function, body=without_dead_code(function.body))
            converter = _Converter(program, live, context)
            functions[name] = converter.run()
            outputs[name] = converter.outputs
        else:
            functions[name] = function
    if all(functions[k] is f for k, f in program.functions.items()):
        return program
    new = dataclasses.replace(program, functions=functions)
    return add_outputs(new, {k: v for k, v in outputs.items() if v})


def _has_tensor_ops(function: n.Function) -> bool:
    """Whether a function computes on tensors, or returns one that is not a parameter's."""
    for node in walk(function):
        if isinstance(node, n.OpCall) and node.op.startswith("tensor.") and node.op not in _STAYS:
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Window:
    """A slice of global memory, loaded into each memory it is needed in."""

    tensor: n.Expr
    offsets: n.Expr
    shape: tuple[n.Expr, ...]
    valid: tuple[n.Expr, ...] | None
    call: n.OpCall


@dataclass(slots=True)
class _State:
    """What each source variable has become."""

    vars: dict[n.Var, n.Expr] = field(default_factory=dict)
    tiles: dict[n.Var, dict[MemorySpace, n.Var]] = field(default_factory=dict)
    on_global: set[n.Var] = field(default_factory=set)

    def copy(self) -> _State:
        return _State(dict(self.vars), {k: dict(v) for k, v in self.tiles.items()}, set(self.on_global))


class _Converter(Rewriter):
    def __init__(self, program: n.Program, function: n.Function, context: Context) -> None:
        super().__init__()
        self.function = function
        self.context = context
        self.names = Names.of(function)
        self.roots = Roots(function.body or (), [p.var for p in function.params], program)
        self.params = {p.var for p in function.params}
        self.state = _State(self.vars, {}, {v for v in self.params if isinstance(v.type, TensorType)})
        self.entry: list[n.Stmt] = []
        self.entry_tiles: dict[n.Var, n.Var] = {}
        self.out: list[n.Stmt] = []
        self.outputs: list[NewOutput] = []
        self.cube_uses, self.vector_uses, self.accumulators = _demands(function.body or ())
        self.span: Span | None = None

    def run(self) -> n.Function:
        """The function on tiles; new outputs end up in `outputs`. Raises LabError for an op no tile op says."""
        body = self.block(self.function.body or ())
        if not (body and isinstance(body[-1], n.Return)):
            body = (*body, n.Return(values=(), span=self.function.span))
        params = (*self.function.params, *(o.param for o in self.outputs))
        return dataclasses.replace(self.function, params=params, body=(*self.entry, *body))

    # --- state -------------------------------------------------------------------------------------------------------

    def save(self) -> _State:
        return self.state.copy()

    def restore(self, state: _State) -> None:
        self.state = state.copy()
        self.vars = self.state.vars

    def is_global(self, expr: n.Expr) -> bool:
        return isinstance(expr, n.Var) and expr in self.state.on_global

    # --- emitting ----------------------------------------------------------------------------------------------------

    def emit(self, name: str, value: n.Expr, type_: Type | None = None) -> n.Var:
        var = n.Var(name=self.names.fresh(name), type=type_ or value.type, span=self.span)
        self.out.append(n.Assign(var=var, value=value, span=self.span))
        return var

    def make(self, op: str, *args: n.Expr, **attrs: Any) -> n.OpCall:
        """A call with its inferred type. Raises LabError at the current statement when the op refuses it."""
        try:
            return make_call(op, *args, span=self.span, **attrs)
        except OpError as error:
            self.context.refuse(error.code, error.message, self.span, error.hint)

    def keep(self, var: n.Var, tile: n.Var) -> None:
        """`var` is `tile` from here on."""
        self.state.tiles[var] = {_space(tile): tile}
        self.vars[var] = tile

    # --- operands ----------------------------------------------------------------------------------------------------

    def vector(self, expr: n.Expr) -> n.Expr:
        """An operand of a vector op as a tile."""
        return self.tile(expr, MemorySpace.Vec)

    def cube(self, expr: n.Expr) -> n.Expr:
        """An operand of a matmul as a tile: what is global is loaded into Mat."""
        return self.tile(expr, MemorySpace.Mat)

    def tile(self, expr: n.Expr, space: MemorySpace) -> n.Expr:
        if not isinstance(expr, n.Var) or not isinstance(expr.type, TensorType):
            return self.visit_expr(expr)
        held = self.state.tiles.get(expr, {})
        if held:
            return held.get(space) or next(iter(held.values()))
        if not self.is_global(expr):
            self.context.refuse("E806", f"`{plain_name(expr.name)}` has no tile form here", self.span)
        self.require_constant(expr, expr.type.shape)
        shape = expr.type.shape
        source = self.visit_expr(expr)
        call = load_tile(source, zeros(len(shape)), shape, expr.type.stated_valid, space, self.span)
        if space is MemorySpace.Mat:
            return self.emit(f"{expr.name}_mat", dataclasses.replace(call, attrs={BRIDGE: True}))
        if expr in self.params:
            return self.at_entry(expr, call)
        return self.emit(f"{plain_name(expr.name)}__tile", call)

    def at_entry(self, param: n.Var, call: n.OpCall) -> n.Var:
        """The tile of a whole parameter, loaded once at the function's entry."""
        if param not in self.entry_tiles:
            var = n.Var(name=self.names.fresh(f"{plain_name(param.name)}__tile"), type=call.type, span=param.span)
            self.entry_tiles[param] = var
            self.entry.append(n.Assign(var=var, value=call, span=param.span))
        return self.entry_tiles[param]

    def require_constant(self, var: n.Var, shape: tuple[n.Expr, ...]) -> None:
        """Raises LabError for a tile whose full shape is not constant."""
        if constant_dims(shape) is None:
            name = plain_name(var.name)
            hint = f"take a window of constant shape: `pl.slice({name}, [rows, cols], offsets, valid_shape)`"
            self.context.refuse("E807", f"`{name}` has a dynamic shape and cannot become a tile", self.span, hint)

    # --- statements --------------------------------------------------------------------------------------------------

    def block(self, body: Sequence[n.Stmt]) -> n.Body:
        outer, self.out = self.out, []
        for stmt in body:
            self.span = stmt.span
            self.one(stmt)
        inner, self.out = self.out, outer
        return tuple(inner)

    def one(self, stmt: n.Stmt) -> None:
        match stmt:
            case n.Assign(value=n.OpCall() as call) if call.op.startswith("tensor."):
                self.tensor_op(stmt, call)
            case n.Assign(value=n.Var() as source) if isinstance(stmt.var.type, TensorType):
                self.copied(stmt, source)
            case n.Assign(value=n.OpCall()) if isinstance(stmt.var.type, TensorType):
                self.plain(stmt)  # a store of the user's own
                self.state.on_global.add(stmt.var)
            case n.For() | n.While():
                self.out.append(self.loop(stmt))
            case n.If():
                self.out.append(self.branch(stmt))
            case n.Return():
                self.returned(stmt)
            case n.Scope():
                lane = {"lane_var": self.define(stmt.lane_var)} if isinstance(stmt, n.SplitAivScope) else {}
                self.out.append(dataclasses.replace(stmt, **lane, body=self.block(stmt.body)))
            case n.Eval(expr=n.OpCall() as call) if call.op == "tensor.write":
                self.out.append(dataclasses.replace(stmt, expr=self.accessed(call)))
            case n.Eval(expr=n.OpCall(op="tensor.assemble") as call):
                self.written(stmt, call)
            case _:
                self.plain(stmt)

    def written(self, stmt: n.Eval, call: n.OpCall) -> None:
        """An assemble whose result nobody binds: a store. Raises LabError for a local tensor, which would stay as it
        was."""
        target = call.args[0]
        assert isinstance(target, n.Var)
        if not self.is_global(target):
            name = plain_name(target.name)
            hint = f"bind it: `{name} = pl.assemble({name}, value, offsets)`"
            self.context.refuse("E806", f"the result of assembling into `{name}` is dropped", stmt.span, hint)
        unread = n.Var(name=target.name, type=target.type, span=stmt.span)
        self.op_assemble(n.Assign(var=unread, value=call, span=stmt.span), call)

    def plain(self, stmt: n.Stmt) -> None:
        new = self.visit_stmt(stmt)
        self.out.extend(new if isinstance(new, tuple) else (new,))

    def copied(self, stmt: n.Assign, source: n.Var) -> None:
        if self.is_global(source):
            self.plain(stmt)
            self.state.on_global.add(stmt.var)
            return
        tile = self.vector(source)
        self.keep(stmt.var, self.emit(stmt.var.name, tile))

    def returned(self, stmt: n.Return) -> None:
        values = []
        for value in stmt.values:
            local = isinstance(value, n.Var) and isinstance(value.type, TensorType) and not self.is_global(value)
            values.append(self.output(value) if local else self.visit_expr(value))  # type: ignore[arg-type]
        self.out.append(dataclasses.replace(stmt, values=tuple(values)))

    def output(self, var: n.Var) -> n.Expr:
        """Stores a local result to a new Out parameter."""
        assert isinstance(var.type, TensorType)
        self.require_constant(var, var.type.shape)
        name = self.names.fresh(f"{plain_name(var.name)}_out")
        param = n.Var(name=name, type=TensorType(var.type.shape, var.type.dtype), span=var.span)
        self.outputs.append(NewOutput(n.Param(var=param, direction=Direction.Out, span=var.span)))
        return self.emit(f"{name}__tile", self.make("tile.store", self.vector(var), zeros(var.type.rank), param))

    # --- control flow ------------------------------------------------------------------------------------------------

    def loop(self, loop: n.For | n.While) -> n.Stmt:
        """A loop whose carried tensors are tiles, unless they carry a parameter's memory. What a tile is carried in
        shows in its body, so a loop is converted again when an Acc tile meets a Vec tile."""
        yields = loop.body[-1].values if loop.body and isinstance(loop.body[-1], n.Yield) else ()
        starts = []
        for argument, last in zip(loop.iter_args, yields, strict=False):
            on_memory = self.is_global(argument.init_value) and self.roots.of(last) is self.roots.of(argument)
            local = isinstance(argument.type, TensorType) and not on_memory
            starts.append(self.vector(argument.init_value) if local else self.visit_expr(argument.init_value))
        before, entry = self.save(), list(self.entry)
        moved: set[int] = set()
        while True:
            new, clashes = self.loop_once(loop, starts)
            if not clashes:
                return new
            self.restore(before)
            del self.entry[len(entry) :]
            self.entry_tiles = {p: t for p, t in self.entry_tiles.items() if any(_defines(s, t) for s in entry)}
            for i in clashes - moved:
                type_ = starts[i].type
                if isinstance(type_, TileType) and type_.memory_space is not MemorySpace.Vec:
                    starts[i] = self.in_vec(starts[i])
            if clashes <= moved:
                self.context.refuse("E808", "a value is carried in two memories", loop.span)
            moved |= clashes
            before = self.save()

    def loop_once(self, loop: n.For | n.While, starts: list[n.Expr]) -> tuple[n.Stmt, set[int]]:
        arguments = []
        for carried, start in zip(loop.iter_args, starts, strict=True):
            type_ = start.type if isinstance(start.type, TileType) else self.type(carried.type)
            new = n.IterArg(name=carried.name, type=type_, init_value=start, span=carried.span)
            self.bound(carried, new)
            arguments.append(new)
        changes: dict[str, Any] = {"iter_args": tuple(arguments)}
        if isinstance(loop, n.For):
            changes |= {k: self.visit_expr(getattr(loop, k)) for k in ("start", "stop", "step")}
            changes["loop_var"] = self.define(loop.loop_var)
        else:
            changes["condition"] = self.visit_expr(loop.condition)
        body = self.carrying(loop.body, arguments)
        last = body[-1].values if body and isinstance(body[-1], n.Yield) else ()
        clashes = {i for i, (a, v) in enumerate(zip(arguments, last, strict=True)) if _clash(a, v)}
        results = []
        for old, argument, value in zip(loop.return_vars, arguments, last, strict=True):
            type_ = value.type if isinstance(value.type, TileType) else argument.type
            new_result = n.Var(name=old.name, type=type_, span=old.span)
            self.bound(old, new_result)
            results.append(new_result)
        changes |= {"body": body, "return_vars": tuple(results)}
        return dataclasses.replace(loop, **changes), clashes

    def bound(self, old: n.Var, new: n.Var) -> None:
        """A source variable has become a loop argument or result."""
        self.vars[old] = new
        if isinstance(new.type, TileType) and isinstance(old.type, TensorType):
            self.state.tiles[old] = {_space(new): new}
            self.state.on_global.discard(old)
        elif isinstance(new.type, TensorType):
            self.state.on_global.add(old)
            self.state.tiles.pop(old, None)

    def carrying(self, body: n.Body, arguments: Sequence[n.Var]) -> n.Body:
        """A loop body; what it yields for a tile argument is a tile, in Vec where the argument is."""
        outer, self.out = self.out, []
        inner = body[:-1] if body and isinstance(body[-1], n.Yield) else body
        self.out.extend(self.block(inner))
        if inner is not body:
            last = body[-1]
            assert isinstance(last, n.Yield)
            self.span = last.span
            values = []
            for argument, value in zip(arguments, last.values, strict=True):
                tile = self.vector(value) if isinstance(argument.type, TileType) else self.visit_expr(value)
                if _space_of(argument) is MemorySpace.Vec and _space_of(tile) is MemorySpace.Acc:
                    tile = self.in_vec(tile)
                values.append(tile)
            self.out.append(dataclasses.replace(last, values=tuple(values)))
        result, self.out = tuple(self.out), outer
        return result

    def in_vec(self, tile: n.Expr) -> n.Var:
        name = tile.name if isinstance(tile, n.Var) else "tile"
        return self.emit(f"{name}_Vec", self.make("tile.move", tile, target_memory=MemorySpace.Vec))

    def branch(self, stmt: n.If) -> n.If:
        condition = self.visit_expr(stmt.condition)
        ends = [b[-1].values if b and isinstance(b[-1], n.Yield) else () for b in (stmt.then_body, stmt.else_body)]
        same_memory = [
            self.roots.of(a) is not None and self.roots.of(a) is self.roots.of(b) for a, b in zip(*ends, strict=False)
        ]
        before = self.save()
        arms, values = [], []
        for arm in (stmt.then_body, stmt.else_body):
            self.restore(before)
            body, last = self.arm(arm, stmt.return_vars, same_memory)
            arms.append(body)
            values.append(last)
        self.restore(before)
        results = []
        for old, first, second in zip(stmt.return_vars, *values, strict=True):
            type_ = joined_type(first.type, second.type) if isinstance(first.type, TileType) else self.type(old.type)
            result = n.Var(name=old.name, type=type_, span=old.span)
            self.bound(old, result)
            results.append(result)
        return dataclasses.replace(
            stmt, condition=condition, then_body=arms[0], else_body=arms[1], return_vars=tuple(results)
        )

    def arm(self, body: n.Body, results: Iterable[n.Var], same_memory: list[bool]) -> tuple[n.Body, tuple[n.Expr, ...]]:
        if not (body and isinstance(body[-1], n.Yield)):
            return self.block(body), ()
        outer, self.out = self.out, []
        self.out.extend(self.block(body[:-1]))
        last = body[-1]
        self.span = last.span
        values = []
        for value, result, memory in zip(last.values, results, same_memory, strict=True):
            local = isinstance(result.type, TensorType) and not (memory and self.is_global(value))
            tile = self.vector(value) if local else self.visit_expr(value)
            leaves = _space_of(tile) is MemorySpace.Acc and result not in self.accumulators
            values.append(self.in_vec(tile) if leaves else tile)
        self.out.append(dataclasses.replace(last, values=tuple(values)))
        new, self.out = tuple(self.out), outer
        return new, tuple(values)

    # --- ops ---------------------------------------------------------------------------------------------------------

    def tensor_op(self, stmt: n.Assign, call: n.OpCall) -> None:
        name = call.op.removeprefix("tensor.")
        rule = getattr(self, f"op_{name}", None)
        if call.op in _PLACE:
            self.out.append(dataclasses.replace(stmt, value=self.make(f"tile.{name}")))
        elif call.op in _STAYS and (self.is_global(call.args[0]) or name in ("read", "write")):
            self.stays(stmt, call)
        elif rule is not None:
            rule(stmt, call)
        else:
            self.generic(stmt, call)

    def stays(self, stmt: n.Assign, call: n.OpCall) -> None:
        if call.op in ("tensor.read", "tensor.write"):
            value = self.accessed(call)
            var = self.define(stmt.var)
            self.out.append(dataclasses.replace(stmt, value=value, var=var))
            if value.op == "tensor.write":
                self.state.on_global.add(stmt.var)
            elif isinstance(var.type, TileType):
                self.keep(stmt.var, var)
            return
        self.plain(stmt)
        if isinstance(stmt.var.type, TensorType):
            self.state.on_global.add(stmt.var)

    def accessed(self, call: n.OpCall) -> n.OpCall:
        """A read or write of one element: of global memory as it is, of a local tensor through its tile."""
        if self.is_global(call.args[0]):
            new = self.visit_expr(call)
            assert isinstance(new, n.OpCall)
            return new
        rest = [self.visit_expr(a) for a in call.args[1:]]
        return self.make(f"tile.{call.op.removeprefix('tensor.')}", self.vector(call.args[0]), *rest)

    def generic(self, stmt: n.Assign, call: n.OpCall) -> None:
        """An op with a tile op of the same meaning: tensors become tiles, scratch is created."""
        op = tile_form(call)
        if op is None:
            self.context.refuse("E809", f"`{call.op}` has no tile form yet", call.span or stmt.span)
        args = self.of_one_rank([self.vector(a) for a in call.args])
        place = scratch_index(op)
        tiles = [a.type for a in args if isinstance(a.type, TileType)]
        if place is not None and place >= len(args) and tiles:
            scratch = scratch_of(op, tiles[0], self.span)
            if scratch is None:
                self.context.refuse("E809", f"`{call.op}` needs a scratch tile of unknown shape", stmt.span)
            args.insert(place, self.emit(*scratch))
        attrs = {k: self._value(v) for k, v in call.kwargs.items() if op.attr(k) is not None}
        self.result(stmt, self.make(op.name, *args, **attrs))

    def of_one_rank(self, args: list[n.Expr]) -> list[n.Expr]:
        """Operands with leading axes of one where another operand has more axes, as tensors are broadcast."""
        rank = max((a.type.rank for a in args if isinstance(a.type, TileType)), default=0)
        return [self.widened(a, rank) for a in args]

    def widened(self, tile: n.Expr, rank: int) -> n.Expr:
        if not isinstance(tile.type, TileType) or tile.type.rank == rank:
            return tile
        shape = (*(n.const(1) for _ in range(rank - tile.type.rank)), *tile.type.shape)
        name = tile.name if isinstance(tile, n.Var) else "tile"
        return self.emit(f"{name}_wide", self.make("tile.reshape", tile, dims(shape)))

    def result(self, stmt: n.Assign, value: n.OpCall) -> None:
        self.keep(stmt.var, self.emit(f"{plain_name(stmt.var.name)}__tile", value))

    def op_create(self, stmt: n.Assign, call: n.OpCall) -> None:
        shape = call.args[0]
        assert isinstance(shape, n.MakeTuple)
        self.require_constant(stmt.var, shape.elements)
        space = MemorySpace.Acc if stmt.var in self.accumulators else MemorySpace.Vec
        self.result(stmt, create_tile(shape.elements, call.kwargs["dtype"], space, self.span))

    def op_create_l1(self, stmt: n.Assign, call: n.OpCall) -> None:
        """A tile in Mat that is filled in place and then multiplied."""
        shape = call.args[0]
        assert isinstance(shape, n.MakeTuple)
        self.require_constant(stmt.var, shape.elements)
        if call.kwargs.get("transpose"):
            self.context.refuse("E809", "`tensor.create_l1` with transpose has no tile form yet", stmt.span)
        self.result(stmt, create_tile(shape.elements, call.kwargs["dtype"], MemorySpace.Mat, self.span))

    def op_gather_row(self, stmt: n.Assign, call: n.OpCall) -> None:
        """Rows go from global memory straight into the tile they are collected in, wherever that lies."""
        source = call.args[1]
        if not self.is_global(source):
            hint = "gather from a tensor in global memory"
            self.context.refuse("E806", "rows are gathered from a value on the chip", stmt.span, hint)
        rest = [self.visit_expr(a) for a in call.args[1:]]
        self.result(stmt, self.make("tile.gather_row", self.vector(call.args[0]), *rest, **call.kwargs))

    def op_slice(self, stmt: n.Assign, call: n.OpCall) -> None:
        source, shape, offsets = call.args[:3]
        assert isinstance(shape, n.MakeTuple) and isinstance(stmt.var.type, TensorType)
        valid = call.args[3].elements if len(call.args) > 3 and isinstance(call.args[3], n.MakeTuple) else None
        valid = tuple(self.visit_expr(v) for v in valid) if valid else None
        extents = tuple(self.visit_expr(e) for e in shape.elements)
        self.require_constant(stmt.var, extents)
        if not self.is_global(source):
            listed = [dims(valid)] if valid else []
            tile = self.make("tile.slice", self.vector(source), dims(extents), self.visit_expr(offsets), *listed)
            self.sliced(stmt, tile)
            return
        window = _Window(self.visit_expr(source), self.visit_expr(offsets), extents, valid, call)
        held = {}
        if stmt.var in self.cube_uses:
            held[MemorySpace.Mat] = self.loaded(stmt, window, MemorySpace.Mat)
        if stmt.var in self.vector_uses or not held:
            held[MemorySpace.Vec] = self.loaded(stmt, window, MemorySpace.Vec)
        self.state.tiles[stmt.var] = held
        self.vars[stmt.var] = next(iter(held.values()))

    def loaded(self, stmt: n.Assign, window: _Window, space: MemorySpace) -> n.Var:
        clamp = {"clamp": True} if window.call.kwargs.get("clamp") else {}
        call = load_tile(window.tensor, window.offsets, window.shape, window.valid, space, self.span, **clamp)
        if space is MemorySpace.Mat:
            call = dataclasses.replace(call, attrs={BRIDGE: True})
        tile = self.emit(f"{plain_name(stmt.var.name)}__tile", call)
        return self.at_rank(stmt, tile)

    def sliced(self, stmt: n.Assign, tile: n.OpCall) -> None:
        self.keep(stmt.var, self.at_rank(stmt, self.emit(f"{plain_name(stmt.var.name)}__tile", tile)))

    def at_rank(self, stmt: n.Assign, tile: n.Var) -> n.Var:
        """The tile without the axes an index dropped."""
        assert isinstance(stmt.var.type, TensorType) and isinstance(tile.type, TileType)
        if tile.type.rank == stmt.var.type.rank:
            return tile
        shape = tuple(self.visit_expr(d) for d in stmt.var.type.shape)
        return self.emit(f"{tile.name}_dropped", self.make("tile.reshape", tile, dims(shape)))

    def op_assemble(self, stmt: n.Assign, call: n.OpCall) -> None:
        target, source, offsets = call.args
        if not self.is_global(target):
            self.result(
                stmt, self.make("tile.assemble", self.vector(target), self.vector(source), self.visit_expr(offsets))
            )
            return
        tile = self.vector(source)
        how = {k: v for k, v in call.kwargs.items() if k == "atomic"}
        store = self.make("tile.store", tile, self.visit_expr(offsets), self.visit_expr(target), **how)
        self.vars[stmt.var] = self.emit(f"{plain_name(stmt.var.name)}__tile", store, self.type(stmt.var.type))
        self.state.on_global.add(stmt.var)

    def op_matmul(self, stmt: n.Assign, call: n.OpCall) -> None:
        if call.kwargs.get("c_matrix_nz"):
            self.context.refuse("E809", "c_matrix_nz has no tile form yet", stmt.span)
        left, right = self.factors(call, 0)
        assert isinstance(left.type, TileType) and isinstance(right.type, TileType)
        batched = max(left.type.rank, right.type.rank) > 2
        product = self.make("tile.batch_matmul" if batched else "tile.matmul", left, right)
        out = call.kwargs.get("out_dtype") or getattr(stmt.var.type, "dtype", None)
        assert isinstance(product.type, TileType)
        if out is None or out is product.type.dtype or self.only_stored(stmt.var):
            self.result(stmt, product)
            return
        wide = self.emit(f"{plain_name(stmt.var.name)}__acc", product)
        self.result(stmt, self.make("tile.cast", wide, target_type=out, mode="rint"))

    def only_stored(self, var: n.Var) -> bool:
        """Whether a product only leaves for global memory: the store then narrows it."""
        return var not in self.cube_uses and all(
            isinstance(e, n.OpCall) and e.op == "tensor.assemble" and self.is_global(e.args[0])
            for e in self.uses_of(var)
        )

    def uses_of(self, var: n.Var) -> list[n.Expr]:
        body = self.function.body or ()
        return [e for s in statements(body) for e in expressions(s) if e is var or _takes(e, var)]

    def op_matmul_acc(self, stmt: n.Assign, call: n.OpCall) -> None:
        start = self.vector(call.args[0])
        left, right = self.factors(call, 1)
        rest = [self.visit_expr(a) for a in call.args[3:]]
        assert isinstance(left.type, TileType) and isinstance(right.type, TileType)
        batched = max(left.type.rank, right.type.rank) > 2
        name = "tile.batch_matmul_acc" if batched else "tile.matmul_acc"
        self.result(stmt, self.make(name, start, left, right, *rest))

    def factors(self, call: n.OpCall, first: int) -> tuple[n.Expr, n.Expr]:
        """Both factors of a product, transposed where it says so."""
        factors = []
        for i, flag in ((first, "a_trans"), (first + 1, "b_trans")):
            factors.append(self.cube(call.args[i]))
            if call.kwargs.get(flag):
                assert isinstance(factors[-1], n.Var)
                factors[-1] = self.transposed(factors[-1])
        return factors[0], factors[1]

    def transposed(self, tile: n.Var) -> n.Var:
        """A factor with its last two axes swapped: in Mat a view, in Vec a transpose through scratch."""
        if _space(tile) is MemorySpace.Mat:
            return self.emit(f"{tile.name}_t", self.make("tile.transpose_view", tile))
        assert isinstance(tile.type, TileType)
        rank = tile.type.rank
        scratch = self.emit("transpose_tmp", create_tile(tile.type.shape, tile.type.dtype, span=self.span))
        axes = (n.const(rank - 2), n.const(rank - 1))
        return self.emit(f"{tile.name}_t", self.make("tile.transpose", tile, *axes, scratch))

    def reduced(self, stmt: n.Assign, call: n.OpCall) -> None:
        """A reduction over the last axis (`row_`) or the one before it (`col_`)."""
        assert isinstance(call.args[0].type, TensorType) and isinstance(stmt.var.type, TensorType)
        rank, axis = call.args[0].type.rank, call.kwargs.get("axis")
        wanted = rank - 1 if call.op.startswith("tensor.row_") else rank - 2
        if isinstance(axis, int) and axis % rank != wanted:
            self.context.refuse("E809", f"`{call.op}` along axis {axis} has no tile form", stmt.span)
        self.generic(stmt, call)
        tile = self.vars[stmt.var]
        if isinstance(tile.type, TileType) and tile.type.rank != stmt.var.type.rank:
            assert isinstance(tile, n.Var)
            self.keep(stmt.var, self.at_rank(stmt, tile))

    op_row_sum = op_row_max = op_row_min = op_row_prod = op_row_argmax = op_row_argmin = reduced
    op_col_sum = op_col_max = op_col_min = op_col_prod = op_col_argmax = op_col_argmin = reduced

    def op_cast(self, stmt: n.Assign, call: n.OpCall) -> None:
        """A cast of what a comparison gives unpacks it: on a core that is a mask of bits, which selects ones and
        zeros."""
        mask = self.vector(call.args[0])
        given = call.args[0].type
        assert isinstance(given, TensorType) and isinstance(stmt.var.type, TensorType)
        type_ = mask.type
        assert isinstance(type_, TileType)
        if type_.dtype is given.dtype or constant_dims(type_.shape) == constant_dims(given.shape):
            self.generic(stmt, call)
            return
        wanted = stmt.var.type.dtype
        dtype = wanted if wanted.bits in (16, 32) else dtypes.FP16 if wanted.bits < 16 else dtypes.INT32
        shape = dims(tuple(self.visit_expr(e) for e in given.shape))
        one, zero = (n.const(float(v) if dtype.is_float else v, dtype) for v in (1, 0))
        ones, empty = (self.emit("mask_value", self.make("tile.full", shape, v, dtype=dtype)) for v in (one, zero))
        scratch = self.emit("mask_sel_tmp", create_tile((n.const(1), n.const(32)), dtypes.UINT8, span=self.span))
        chosen = self.make("tile.sel", mask, ones, empty, scratch)
        if dtype is not wanted:
            chosen = self.make("tile.cast", self.emit("mask_bits", chosen), target_type=wanted, mode="round")
        self.result(stmt, chosen)

    def op_reshape(self, stmt: n.Assign, call: n.OpCall) -> None:
        self.result(stmt, self.make("tile.reshape", self.vector(call.args[0]), self.visit_expr(call.args[1])))

    def op_transpose(self, stmt: n.Assign, call: n.OpCall) -> None:
        self.generic(stmt, dataclasses.replace(call, args=call.args[:3]))

    def op_mrgsort_format2(self, stmt: n.Assign, call: n.OpCall) -> None:
        """A merge of several runs writes through a scratch tile as long as its result."""
        assert isinstance(stmt.var.type, TensorType)
        runs = [self.vector(a) for a in call.args]
        scratch = self.emit("mrgsort_tmp", create_tile(stmt.var.type.shape, stmt.var.type.dtype, span=self.span))
        self.result(stmt, self.make("tile.mrgsort_format2", *runs, scratch, **call.kwargs))

    def op_gather(self, stmt: n.Assign, call: n.OpCall) -> None:
        self.keep(stmt.var, expand_gather(self, stmt, call))

    def op_scatter(self, stmt: n.Assign, call: n.OpCall) -> None:
        self.keep(stmt.var, expand_scatter(self, stmt, call))

    def op_scatter_mask(self, stmt: n.Assign, call: n.OpCall) -> None:
        """The tile op names the tile it writes first, the tensor op what it spreads."""
        source, target = (self.vector(a) for a in call.args)
        self.result(stmt, self.make("tile.scatter_mask", target, source, **call.kwargs))


def _demands(body: n.Body) -> tuple[set[n.Var], set[n.Var], set[n.Var]]:
    """(variables a matmul takes as factors, variables anything else takes, variables products are added to)."""
    cube: set[n.Var] = set()
    vector: set[n.Var] = set()
    accumulators: set[n.Var] = set()
    joined: dict[n.Var, tuple[n.Expr, ...]] = {}
    for stmt in statements(body):
        if isinstance(stmt, (n.For, n.While)):
            for argument, result, value in zip(stmt.iter_args, stmt.return_vars, _yielded(stmt.body), strict=False):
                joined[argument] = (argument.init_value, value, result)
                joined[result] = (argument,)
        elif isinstance(stmt, n.If):
            ends = (_yielded(stmt.then_body), _yielded(stmt.else_body))
            joined.update({r: pair for r, *pair in zip(stmt.return_vars, *ends, strict=False)})  # type: ignore[misc]
        for expr in expressions(stmt):
            factors = _CUBE_OPERANDS.get(expr.op, ()) if isinstance(expr, n.OpCall) else ()
            operands = getattr(expr, "args", (expr,))
            for i, operand in enumerate(operands):
                if isinstance(operand, n.Var):
                    (cube if i in factors else vector).add(operand)
            if isinstance(expr, n.OpCall) and expr.op == "tensor.matmul_acc" and isinstance(expr.args[0], n.Var):
                accumulators.add(expr.args[0])
    pending = list(accumulators)
    while pending:
        more = [e for e in joined.get(pending.pop(), ()) if isinstance(e, n.Var) and e not in accumulators]
        accumulators.update(more)
        pending.extend(more)
    return cube, vector, accumulators


def _yielded(body: n.Body) -> tuple[n.Expr, ...]:
    return body[-1].values if body and isinstance(body[-1], n.Yield) else ()


def _takes(expr: n.Expr, var: n.Var) -> bool:
    return any(a is var for a in getattr(expr, "args", ()))


def _space_of(expr: n.Expr) -> MemorySpace | None:
    return expr.type.memory_space if isinstance(expr.type, TileType) else None


def _space(tile: n.Var) -> MemorySpace:
    return _space_of(tile) or MemorySpace.Vec


def _clash(argument: n.Var, value: n.Expr) -> bool:
    """Whether a loop would carry a tile that changes its memory."""
    return isinstance(value.type, TileType) and _space_of(argument) is not _space_of(value)


def _defines(stmt: n.Stmt, var: n.Var) -> bool:
    return isinstance(stmt, n.Assign) and stmt.var is var
