"""Pass 15, LegalizeTileCast: a cast the chip has no instruction for becomes a chain of casts it has.

Follows from: each chip converts between certain pairs of dtypes only. On a5 INT32 reaches FP16 through FP32; both steps
round as the cast says, and the first is exact wherever the second does not overflow.
"""

from __future__ import annotations

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.types import TileType
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import map_bodies
from pypto_lab.lowering.names import plain_name
from pypto_lab.lowering.tile_rewriter import TileRewriter, is_on_core

THROUGH: dict[str, dict[tuple[DType, DType], DType]] = {
    "a2a3": {},
    "a5": {(dtypes.INT32, dtypes.FP16): dtypes.FP32},
}
"""By chip, what a pair of dtypes is converted through."""


def run(program: n.Program, context: Context) -> n.Program:
    table = THROUGH[context.target.name]
    if not table:
        return program
    return map_bodies(program, lambda f: _Legalizer(f, context, table).run() if is_on_core(f) else f)


class _Legalizer(TileRewriter):
    def __init__(self, function: n.Function, context: Context, table: dict[tuple[DType, DType], DType]) -> None:
        super().__init__(function, context)
        self.table = table

    def assign(self, stmt: n.Assign) -> None:
        value = self.visit_expr(stmt.value)
        if isinstance(value, n.OpCall) and value.op == "tile.cast":
            source = value.args[0]
            assert isinstance(source.type, TileType)
            middle = self.table.get((source.type.dtype, value.kwargs["target_type"]))
            if middle is not None:
                step = self.make("tile.cast", source, target_type=middle, mode=value.kwargs["mode"])
                base = f"{plain_name(stmt.var.name)}__cast_{middle.name.lower()}_tmp_v"
                through = n.Var(name=self.names.numbered(base), type=step.type, span=self.span)
                self.out.append(n.Assign(var=through, value=step, span=self.span))
                value = self.make("tile.cast", through, **value.kwargs)
        self.bind(stmt, value)
