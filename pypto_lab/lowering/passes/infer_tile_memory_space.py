"""Pass 18, InferTileMemorySpace: every tile is in the memory its op needs; `tile.move` carries it where it is not.

Follows from: each op's record says in which memories it takes its tiles. A move is made once in a block and used by
what follows; results and carried values follow the new operands.
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
from pypto_lab.lowering.tile_rewriter import TileRewriter, is_on_core
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
        call = self.placed(value)
        changed = any(a is not b for a, b in zip(call.args, stmt.value.args, strict=True))  # type: ignore[attr-defined]
        if changed or (isinstance(call.type, TileType) and call.type.memory_space is None):
            call = self.retyped(call)
        self.bind(stmt, call)

    def effect(self, stmt: n.Eval) -> None:
        value = self.visit_expr(stmt.expr)
        new = self.placed(value) if isinstance(value, n.OpCall) else value
        self.out.append(dataclasses.replace(stmt, expr=new))

    def placed(self, call: n.OpCall) -> n.OpCall:
        """The call with each tile operand in a memory its op takes."""
        op = OPS.get(call.op)
        attrs = {k: v for k, v in call.attrs.items() if k != BRIDGE}
        args: list[n.Expr] = []
        for i, operand in enumerate(call.args):
            wanted = op.args[i].spaces if op is not None and i < len(op.args) else None
            if call.op == "tile.assemble" and i == 1:
                wanted = frozenset({_space(args[0])}) if _space(args[0]) else None  # type: ignore[arg-type]
            args.append(self.there(operand, wanted))
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


def _space(expr: n.Expr) -> MemorySpace | None:
    return expr.type.memory_space if isinstance(expr.type, TileType) else None


def _layout_of(tile: n.Var, space: MemorySpace) -> dict[str, Any]:
    """A move's keywords: out of the accumulator a tile also leaves its boxed layout."""
    attrs: dict[str, Any] = {"target_memory": space}
    if _space(tile) is MemorySpace.Acc and space is MemorySpace.Vec:
        assert isinstance(tile.type, TileType)
        blayout, slayout, _ = tile_layout(TileType(tile.type.shape, tile.type.dtype, None, space))
        attrs |= {"blayout": blayout, "slayout": slayout}
    return attrs
