"""Statements: assignments, branches, loops. Scalars are carried; tiles and tensors keep the handle they began with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType, i1
from xdsl.ir import Block, Region, SSAValue

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.types import ArrayType, ScalarType, TensorType, TileType, constant_dims
from pypto_lab.ir.visitor import walk
from pypto_lab.pto.dialect.reader import BareWhileOp
from pypto_lab.pto.emit import tiles
from pypto_lab.pto.emit.builder import Builder, Tensor, Tile
from pypto_lab.pto.emit.ops import emit_call
from pypto_lab.pto.emit.scalars import index, scalar
from pypto_lab.pto.emit.types import scalar_type, tile_type, valid_extents


def emit_body(b: Builder, body: Sequence[n.Stmt], *, tail: bool) -> tuple[n.Expr, ...]:
    """Emits statements; gives what the block yields. `tail`: nothing follows it, so it may return.

    Raises LabError for a return that leaves statements behind, and for what has no form in `.pto` text.
    """
    for place, stmt in enumerate(body):
        last = place == len(body) - 1
        if isinstance(stmt, n.Yield):
            return stmt.values
        with b.at(stmt.span):
            if isinstance(stmt, n.Return):
                if not (tail and last):
                    b.refuse("a return that leaves statements behind has no form in .pto text")
                continue
            _statement(b, stmt, tail and last)
    return ()


def _statement(b: Builder, stmt: n.Stmt, tail: bool) -> None:
    match stmt:
        case n.Assign():
            _assign(b, stmt)
        case n.Eval(expr=n.OpCall() as call):
            emit_call(b, call, None)
        case n.If():
            _if(b, stmt, tail)
        case n.For():
            _for(b, stmt)
        case n.While():
            _while(b, stmt)
        case _:
            b.refuse(f"a {type(stmt).__name__} has no form in .pto text")


def _assign(b: Builder, stmt: n.Assign) -> None:
    var, value = stmt.var, stmt.value
    if isinstance(value, n.OpCall):
        emit_call(b, value, var)
    elif isinstance(value, n.TupleGetItem) and id(var) in b.tiles:
        return  # the op that gives several tiles has made them all
    elif isinstance(var.type, TileType):
        tiles.aliased(b, var, b.tile(value))
    elif isinstance(var.type, TensorType):
        b.tensors[id(var)] = b.tensor(value)
    elif isinstance(var.type, ArrayType):
        b.arrays[id(var)] = b.array(value)
    elif isinstance(var.type, ScalarType):
        b.scalars[id(var)] = scalar(b, value, var.type.dtype)
    else:
        b.refuse(f"`{var.name}` is of a type that has no form in .pto text")


# --- what blocks hand on ----------------------------------------------------------------------------------------------


def _carried(args: Sequence[n.Var]) -> list[int]:
    """Places of the carried values that are scalars."""
    return [i for i, arg in enumerate(args) if isinstance(arg.type, ScalarType)]


def _scalar_types(args: Sequence[n.Var]) -> list[Any]:
    return [scalar_type(a.type.dtype) for a in args if isinstance(a.type, ScalarType)]


def _begin(b: Builder, args: Sequence[n.IterArg]) -> list[SSAValue]:
    """Start values of carried scalars; tiles and tensors take the handle of their start value."""
    starts = []
    for arg in args:
        match arg.type:
            case ScalarType(dtype=dtype):
                starts.append(scalar(b, arg.init_value, dtype))
            case TileType():
                b.tiles[id(arg)] = _same_extents(b, arg, b.tile(arg.init_value))
            case TensorType():
                b.tensors[id(arg)] = b.tensor(arg.init_value)
            case ArrayType():
                b.arrays[id(arg)] = b.array(arg.init_value)
            case _:
                b.refuse(f"`{arg.name}` is of a type no loop can carry in .pto text")
    return starts


def _same_extents(b: Builder, var: n.Var, tile: Tile) -> Tile:
    """A carried tile keeps its handle, so its type must say no other valid part, order or size."""
    type_ = tile_type(tiles.tile_of(b, var))
    own = tile.type.with_valid(None, None)
    if (type_.rows, type_.cols, type_.dtype, type_.layout) != (own.rows, own.cols, own.dtype, own.layout):
        b.refuse(f"`{var.name}` is carried as {type_.brief()}, but begins as {own.brief()}")
    stated = constant_dims(valid_extents(tiles.tile_of(b, var)))
    known = tuple(b.known.get(v) for v in tile.valid)
    if stated is not None and None not in known and stated != known:
        b.refuse(f"`{var.name}` is carried with {stated} valid elements, but begins with {known}")
    return tile


def _end(b: Builder, args: Sequence[n.IterArg], values: Sequence[n.Expr]) -> list[SSAValue]:
    """What a loop's body hands to the next round: scalars as values, tiles at the place they are carried in."""
    if len(args) != len(values):
        b.refuse(f"the loop carries {len(args)} values, its body yields {len(values)}")
    handed = []
    _check_exchange(b, args, values)
    for arg, value in zip(args, values, strict=True):
        match arg.type:
            case ScalarType(dtype=dtype):
                handed.append(scalar(b, value, dtype))
            case TileType():
                _bring_back(b, arg, b.tile(arg), b.tile(value))
            case ArrayType():
                if b.array(arg) is not b.array(value):
                    b.refuse(f"`{arg.name}` would be another array in the next round")
            case _:
                if b.tensor(arg).pointer is not b.tensor(value).pointer:
                    b.refuse(f"`{arg.name}` would be another tensor in the next round")
    return handed


def _check_exchange(b: Builder, args: Sequence[n.IterArg], values: Sequence[n.Expr]) -> None:
    """Refuses tiles that change places, or share one: what is copied for one would destroy another."""
    places = [
        (arg, b.tile(arg), b.tile(v)) for arg, v in zip(args, values, strict=True) if isinstance(arg.type, TileType)
    ]
    for arg, own, source in places:
        for other, theirs, wanted in places:
            if other is arg:
                continue
            if _overlap(own, theirs) and source.value is not wanted.value:
                b.refuse(f"`{arg.name}` and `{other.name}` are carried in the same bytes")
            if _overlap(source, theirs) and source.address != own.address:
                b.refuse(f"`{arg.name}` takes the place of `{other.name}` in the next round")


def _overlap(one: Tile, other: Tile) -> bool:
    """Whether two tiles share bytes."""
    if one.address is None or other.address is None or one.type.space != other.type.space:
        return False
    return one.address < other.address + other.type.size and other.address < one.address + one.type.size


def _bring_back(b: Builder, arg: n.IterArg, carried: Tile, yielded: Tile) -> None:
    """A tile that is yielded elsewhere than it is carried is copied, if no other tile of the loop lies there."""
    if carried.type.with_valid(None, None) != yielded.type.with_valid(None, None):
        same = (carried.type.rows, carried.type.cols, carried.type.layout, carried.type.space) == (
            yielded.type.rows, yielded.type.cols, yielded.type.layout, yielded.type.space,
        )  # fmt: skip
        if not same or carried.type.dtype != yielded.type.dtype:
            b.refuse(f"`{arg.name}` is carried as {carried.type.brief()} and yielded as {yielded.type.brief()}")
    if carried.valid != yielded.valid and _other_extents(b, carried, yielded):
        b.refuse(f"`{arg.name}` is yielded with other valid extents than it is carried with")
    if carried.address is not None and carried.address == yielded.address:
        return
    if carried.address is None or yielded.address is None:
        b.refuse(f"`{arg.name}` has no address to be carried in")
    start, end = carried.address, carried.address + carried.type.size
    if any(first < end and last > start for first, last in _bytes_of_loop(b, arg, carried.type.space)):
        b.refuse(f"`{arg.name}` is carried at {start} and yielded at {yielded.address}, and {start} is in use")
    tiles.copied(b, yielded, carried)


def _other_extents(b: Builder, carried: Tile, yielded: Tile) -> bool:
    """Whether a carried tile has other valid extents than the loop's type says. Where the type states constants, what
    is yielded may be known at run time only: a run of the text sees where it is less."""
    pairs = [(b.known.get(x), b.known.get(y)) for x, y in zip(carried.valid, yielded.valid, strict=True)]
    return any(x is None or (y is not None and x != y) for x, y in pairs)


def _bytes_of_loop(b: Builder, arg: n.IterArg, space: str) -> Iterator[tuple[int, int]]:
    """Where the tiles of one space lie that the loop carrying `arg`, or what follows it, makes."""
    inside = False
    for node in walk(b.function):
        inside |= isinstance(node, (n.For, n.While)) and any(a is arg for a in node.iter_args)
        if not inside or not isinstance(node, n.Assign) or not isinstance(node.var.type, TileType):
            continue
        address = tiles.address_of(b, node.var)
        type_ = tile_type(node.var.type)
        if address is not None and type_.space == space:
            yield address, address + type_.size


def _results(b: Builder, variables: Sequence[n.Var], args: Sequence[n.Var], results: Sequence[SSAValue]) -> None:
    """Variables behind a loop: scalars are its results, tiles and tensors what it carried."""
    scalars = iter(results)
    for variable, arg in zip(variables, args, strict=True):
        match variable.type:
            case ScalarType():
                value = next(scalars)
                b.scalars[id(variable)] = value
            case TileType():
                b.tiles[id(variable)] = b.tiles[id(arg)]
            case ArrayType():
                b.arrays[id(variable)] = b.arrays[id(arg)]
            case _:
                b.tensors[id(variable)] = b.tensors[id(arg)]


# --- statements with blocks -------------------------------------------------------------------------------------------


def _for(b: Builder, stmt: n.For) -> None:
    start, stop, step = (index(b, e) for e in (stmt.start, stmt.stop, stmt.step))
    known = b.known.get(step)
    if known is not None and known <= 0:
        b.refuse(f"a loop with step {known} has no form in .pto text: steps are positive")
    starts = _begin(b, stmt.iter_args)
    block = Block(arg_types=[IndexType(), *_scalar_types(stmt.iter_args)])
    b.name(block.args[0], stmt.loop_var.name)
    loop_var = block.args[0]
    wanted = n.scalar_dtype(stmt.loop_var)
    for place, value in zip(_carried(stmt.iter_args), block.args[1:], strict=True):
        b.scalars[id(stmt.iter_args[place])] = value
    if wanted != dtypes.INDEX:
        b.refuse("a loop variable is an index")
    b.scalars[id(stmt.loop_var)] = loop_var
    with b.inside(block):
        yielded = emit_body(b, stmt.body, tail=False)
        b.add(scf.YieldOp(*_end(b, stmt.iter_args, yielded)))
    loop = b.add(scf.ForOp(start, stop, step, starts, Region(block)))
    _results(b, stmt.return_vars, stmt.iter_args, loop.results)


def _while(b: Builder, stmt: n.While) -> None:
    starts, types = _begin(b, stmt.iter_args), _scalar_types(stmt.iter_args)
    before, after = Block(arg_types=types), Block(arg_types=types)
    carried = [stmt.iter_args[place] for place in _carried(stmt.iter_args)]
    for arg, value in zip(carried, before.args, strict=True):
        b.scalars[id(arg)] = value
    with b.inside(before):
        b.add(scf.ConditionOp(_condition(b, stmt.condition), *before.args))
    for arg, value in zip(carried, after.args, strict=True):
        b.scalars[id(arg)] = value
    with b.inside(after):
        yielded = emit_body(b, stmt.body, tail=False)
        b.add(scf.YieldOp(*_end(b, stmt.iter_args, yielded)))
    loop = b.add(BareWhileOp(starts, types, Region(before), Region(after)))
    _results(b, stmt.return_vars, stmt.iter_args, loop.results)


def _condition(b: Builder, expr: n.Expr) -> SSAValue:
    value = scalar(b, expr)
    if value.type != i1:
        b.refuse("a condition is a boolean", span=expr.span)
    return value


def _if(b: Builder, stmt: n.If, tail: bool) -> None:
    condition = _condition(b, stmt.condition)
    variables = stmt.return_vars
    for variable in variables:
        if isinstance(variable.type, TileType):  # both branches write the same bytes
            tiles.allocated(b, variable)
    places, types = _carried(variables), _scalar_types(variables)
    regions, handles = [], []
    for body in (stmt.then_body, stmt.else_body):
        block = Block()
        with b.inside(block):
            values = emit_body(b, body, tail=tail)
            if len(values) != len(variables):
                b.refuse(f"the branches give {len(variables)} values, one yields {len(values)}")
            for variable, value in zip(variables, values, strict=True):
                _check_tile(b, variable, value)
            handed = [scalar(b, values[p], n.scalar_dtype(variables[p])) for p in places]
            b.add(scf.YieldOp(*handed))
        handles.append([_handle(b, v) for v in values])
        regions.append(Region(block))
    second = regions[1] if stmt.else_body else None
    made = b.add(scf.IfOp(condition, types, regions[0], second))
    for place, result in zip(places, made.results, strict=True):
        b.scalars[id(variables[place])] = result
        b.name(result, variables[place].name)
    _branch_handles(b, variables, handles)


def _handle(b: Builder, value: n.Expr) -> Tensor | SSAValue | None:
    """What a branch hands on by its handle: a tensor or an array."""
    if isinstance(value.type, TensorType):
        return b.tensor(value)
    return b.array(value) if isinstance(value.type, ArrayType) else None


def _check_tile(b: Builder, variable: n.Var, value: n.Expr) -> None:
    """A branch leaves its tile where the variable behind the branches is. How much of it is valid there says the
    variable's own type: a branch that leaves less leaves undefined elements, which a run of the text reports."""
    if not isinstance(variable.type, TileType):
        return
    own, target = b.tile(value), b.tiles[id(variable)]
    if own.address is None or (own.address, own.type.space) != (target.address, target.type.space):
        b.refuse(f"one branch leaves `{variable.name}` at another address", span=value.span)


def _branch_handles(
    b: Builder, variables: Sequence[n.Var], handles: Sequence[Sequence[Tensor | SSAValue | None]]
) -> None:
    for place, variable in enumerate(variables):
        first, second = handles[0][place], handles[1][place]
        match variable.type:
            case TensorType():
                if not (isinstance(first, Tensor) and isinstance(second, Tensor) and first.pointer is second.pointer):
                    b.refuse(f"`{variable.name}` is another tensor in each branch")
                b.tensors[id(variable)] = first
            case ArrayType():
                if not isinstance(first, SSAValue) or first is not second:
                    b.refuse(f"`{variable.name}` is another array in each branch")
                b.arrays[id(variable)] = first
