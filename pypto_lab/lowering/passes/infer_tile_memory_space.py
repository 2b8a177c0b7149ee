"""Pass 18, InferTileMemorySpace: every tile is in the memory its op needs; `tile.move` carries it where it is not.

Follows from: each op's record says in which memories it takes its tiles. A move is made once in a block and used by
what follows; results and carried values follow the new operands. What a vector core loads again later is stored by the
vector core: nothing orders a load of one core after a store of the other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import MemorySpace
from pypto_lab.ir.types import TileType, tile_layout
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import map_bodies
from pypto_lab.lowering.passes.convert_tensor_to_tile_ops import BRIDGE
from pypto_lab.lowering.sides import synchronises
from pypto_lab.lowering.tile_rewriter import TileRewriter, is_on_core, yielded
from pypto_lab.lowering.uses import statements
from pypto_lab.ops.record import OPS

_MOVES: dict[MemorySpace, frozenset[MemorySpace]] = {
    MemorySpace.Mat: frozenset(
        {MemorySpace.Left, MemorySpace.Right, MemorySpace.Bias, MemorySpace.LeftScale, MemorySpace.RightScale}
    ),
    MemorySpace.Acc: frozenset({MemorySpace.Vec, MemorySpace.Mat}),
    MemorySpace.Vec: frozenset({MemorySpace.Mat, MemorySpace.Left, MemorySpace.Right, MemorySpace.Vec}),
}
"""Where a tile can be moved from each memory; from Vec to Left and Right the move passes through Mat (pass 22)."""
_THROUGH_MAT = frozenset({MemorySpace.Left, MemorySpace.Right})


def run(program: n.Program, context: Context) -> n.Program:
    def change(function: n.Function) -> n.Function:
        if not is_on_core(function):
            return function
        return _Placer(function, context).run()

    return map_bodies(program, change)


class _Placer(TileRewriter):
    def __init__(self, function: n.Function, context: Context) -> None:
        super().__init__(function, context)
        self.moved: dict[tuple[n.Expr, MemorySpace], n.Var] = {}
        body = function.body or ()
        self.read_back: set[n.Var] = set() if synchronises(body) else _read_back(body)

    def block(self, body: Sequence[n.Stmt], into: Sequence[n.Var] = ()) -> n.Body:
        outer = dict(self.moved)
        new = super().block(body, into)
        self.moved = outer
        return new

    def assign(self, stmt: n.Assign) -> None:
        value = self.visit_expr(stmt.value)
        if not isinstance(value, n.OpCall):
            self.bind(stmt, value)
            return
        call = self.placed(value, self.here(stmt))
        changed = any(a is not b for a, b in zip(call.args, stmt.value.args, strict=True))  # type: ignore[attr-defined]
        if changed or (isinstance(call.type, TileType) and call.type.memory_space is None):
            call = self.retyped(call)
        self.bind(stmt, call)

    def effect(self, stmt: n.Eval) -> None:
        value = self.visit_expr(stmt.expr)
        new = self.placed(value) if isinstance(value, n.OpCall) else value
        self.out.append(dataclasses.replace(stmt, expr=new))

    def here(self, stmt: n.Assign) -> frozenset[MemorySpace] | None:
        """Where the first operand of a statement must lie for another reason than its op."""
        return frozenset({MemorySpace.Vec}) if stmt.var in self.read_back else None

    def placed(self, call: n.OpCall, first: frozenset[MemorySpace] | None = None) -> n.OpCall:
        """The call with each tile operand in a memory its op takes, the first one in one of `first`."""
        op = OPS.get(call.op)
        attrs = {k: v for k, v in call.attrs.items() if k != BRIDGE}
        args: list[n.Expr] = []
        for i, operand in enumerate(call.args):
            wanted = op.args[i].spaces if op is not None and i < len(op.args) else None
            if call.op == "tile.assemble" and i == 1:
                wanted = _sources(_space(args[0]))
            args.append(self.there(operand, first if i == 0 and first is not None else wanted))
        same = all(a is b for a, b in zip(args, call.args, strict=True))
        if same and len(attrs) == len(call.attrs):
            return call
        return dataclasses.replace(call, args=tuple(args), attrs=attrs)

    def there(self, operand: n.Expr, wanted: frozenset[MemorySpace] | None) -> n.Expr:
        """The operand in one of the memories `wanted`."""
        space = _space(operand)
        if wanted is None or space is None or space in wanted or not isinstance(operand, n.Var):
            return operand
        if MemorySpace.Vec in wanted:
            return self.move(operand, MemorySpace.Vec)
        return self.move(operand, min(wanted, key=lambda s: s.value))

    def move(self, tile: n.Var, space: MemorySpace) -> n.Var:
        key = (tile, space)
        if key in self.moved:
            return self.moved[key]
        source = _space(tile)
        assert source is not None
        if source is MemorySpace.Acc and space in _THROUGH_MAT:
            tile = self.move(tile, MemorySpace.Vec)  # a product becomes a factor through the vector side
        elif space not in _MOVES.get(source, frozenset()):
            self.context.refuse(
                "E811",
                f"`{tile.name}` is in {source.name} and cannot be moved to {space.name}",
                self.span,
                hint="start an accumulation with a matmul, not with a filled tile"
                if space is MemorySpace.Acc
                else None,
            )
        moved = self.emit(f"{tile.name}_{space.name}", self.make("tile.move", tile, **_layout_of(tile, space)))
        self.moved[key] = moved
        return moved

    def carry(self, value: n.Expr, into: n.Var) -> n.Expr:
        """A yielded tile is where the loop or branch carries it."""
        wanted = _space(into)
        if wanted is None or _space(value) in (wanted, None) or not isinstance(value, n.Var):
            return value
        return self.move(value, wanted)


def _read_back(body: n.Body) -> set[n.Var]:
    """Results of stores to memory that a vector core loads from later: in the text, or when a loop comes round."""
    before: dict[n.Var, list[n.Expr]] = {}
    reached: list[n.Expr] = []
    stores: set[n.Var] = set()
    for stmt in statements(body):
        match stmt:
            case n.Assign(value=n.OpCall(op="tile.load") as load) if _space(load) is MemorySpace.Vec:
                reached.append(load.args[0])
            case n.Assign(value=n.OpCall(op="tile.store") as store):
                before[stmt.var] = [store.args[2]]
                stores.add(stmt.var)
            case n.Assign(value=n.Var() as source):
                before[stmt.var] = [source]
            case n.For() | n.While():
                last = yielded(stmt.body)
                for argument, result, value in zip(stmt.iter_args, stmt.return_vars, last, strict=False):
                    before[argument] = [argument.init_value, value]
                    before[result] = [argument.init_value, value]
            case n.If():
                for result, *ends in zip(
                    stmt.return_vars, yielded(stmt.then_body), yielded(stmt.else_body), strict=False
                ):
                    before[result] = ends
    found: set[n.Var] = set()
    while reached:
        var = reached.pop()
        if isinstance(var, n.Var) and var not in found:
            found.add(var)
            reached.extend(before.get(var, ()))
    return found & stores


def _space(expr: n.Expr) -> MemorySpace | None:
    return expr.type.memory_space if isinstance(expr.type, TileType) else None


def _sources(target: MemorySpace | None) -> frozenset[MemorySpace] | None:
    """Memories a tile can be put into `target` from without a move of its own."""
    if target is None:
        return None
    return frozenset({target, MemorySpace.Acc}) if target is MemorySpace.Mat else frozenset({target})


def _layout_of(tile: n.Var, space: MemorySpace) -> dict[str, Any]:
    """A move's keywords: out of the accumulator a tile also leaves its boxed layout."""
    attrs: dict[str, Any] = {"target_memory": space}
    if _space(tile) is MemorySpace.Acc and space is MemorySpace.Vec:
        assert isinstance(tile.type, TileType)
        blayout, slayout, _ = tile_layout(TileType(tile.type.shape, tile.type.dtype, None, space))
        attrs |= {"blayout": blayout, "slayout": slayout}
    return attrs
