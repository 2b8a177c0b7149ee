"""Pass 17, CanonicalizeTileSlice: a slice of a Mat tile that feeds a product becomes an extract into the factor's
memory.

Follows from: Mat tiles are boxed, so a window of one is no view; the move into Left or Right can cut it out on the
way.
"""

from __future__ import annotations

import dataclasses

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import MemorySpace
from pypto_lab.ir.types import TileType
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import map_bodies
from pypto_lab.lowering.tile_rewriter import TileRewriter, is_on_core
from pypto_lab.lowering.uses import expressions, statements
from pypto_lab.ops.record import OPS

_FACTORS = (MemorySpace.Left, MemorySpace.Right)


def run(program: n.Program, context: Context) -> n.Program:
    def change(function: n.Function) -> n.Function:
        if not is_on_core(function):
            return function
        wanted = _wanted(function.body or ())
        return _Extractor(function, context, wanted).run() if wanted else function

    return map_bodies(program, change)


def _wanted(body: n.Body) -> dict[n.Var, set[MemorySpace]]:
    """Slices of Mat tiles that only products read, with the memories they are needed in."""
    slices = {
        s.var
        for s in statements(body)
        if isinstance(s, n.Assign)
        and isinstance(s.value, n.OpCall)
        and s.value.op == "tile.slice"
        and len(s.value.args) == 3
        and isinstance(s.var.type, TileType)
        and s.var.type.memory_space is MemorySpace.Mat
    }
    wanted: dict[n.Var, set[MemorySpace]] = {}
    for stmt in statements(body):
        for expr in expressions(stmt):
            op = OPS.get(expr.op) if isinstance(expr, n.OpCall) else None
            for i, operand in enumerate(getattr(expr, "args", (expr,))):
                if operand not in slices:
                    continue
                spaces = op.args[i].spaces if op is not None and i < len(op.args) else None
                space = next(iter(spaces)) if spaces and len(spaces) == 1 else None
                wanted.setdefault(operand, set()).add(space if space in _FACTORS else MemorySpace.Mat)
    return {v: spaces for v, spaces in wanted.items() if MemorySpace.Mat not in spaces}


class _Extractor(TileRewriter):
    def __init__(self, function: n.Function, context: Context, wanted: dict[n.Var, set[MemorySpace]]) -> None:
        super().__init__(function, context)
        self.wanted = wanted
        self.extracted: dict[tuple[n.Var, MemorySpace], n.Var] = {}

    def assign(self, stmt: n.Assign) -> None:
        if stmt.var in self.wanted:
            call = stmt.value
            assert isinstance(call, n.OpCall)
            source, shape, offset = (self.visit_expr(a) for a in call.args)
            assert isinstance(offset, n.MakeTuple)
            for space in sorted(self.wanted[stmt.var], key=lambda s: s.value):
                cut = self.make("tile.extract", source, *offset.elements, shape, target_memory=space)
                self.extracted[stmt.var, space] = self.emit(f"{stmt.var.name}_textract", cut)
            return
        call = stmt.value
        if isinstance(call, n.OpCall) and any(a in self.wanted for a in call.args):
            args = list(call.args)
            for i, operand in enumerate(args):
                if operand in self.wanted:
                    assert isinstance(operand, n.Var)
                    space = next(iter(OPS[call.op].args[i].spaces or ()))
                    args[i] = self.extracted[operand, space]
            stmt = dataclasses.replace(stmt, value=dataclasses.replace(call, args=tuple(args)))
        super().assign(stmt)
