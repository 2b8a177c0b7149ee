"""Pass 20, ResolveBackendOpLayouts: an element-wise op on a column `[N, 1]` works on the row `[1, N]` instead.

Follows from: element-wise instructions read rows; a column lies in memory like a row of the same length, so a reshape
on each side costs nothing. A boxed vector tile is moved to rows first.
"""

from __future__ import annotations

import dataclasses

from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import MemorySpace, TileLayout
from pypto_lab.ir.types import TileType, tile_layout
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import map_bodies
from pypto_lab.lowering.names import plain_name
from pypto_lab.lowering.tile_forms import dims
from pypto_lab.lowering.tile_rewriter import TileRewriter, is_on_core

ROW_MAJOR_OPS = frozenset(
    f"tile.{name}"
    for name in (
        "add", "sub", "mul", "div", "fmod", "maximum", "minimum", "and", "or", "shl", "shr",
        "adds", "subs", "muls", "divs", "fmods", "maximums", "minimums", "ands", "ors", "shls", "shrs",
        "neg", "abs", "exp", "log", "sqrt", "rsqrt", "recip", "relu", "not", "lrelu", "cast",
        "rem", "xor", "part_add", "part_mul", "part_max", "part_min", "addsc", "subsc", "full",
    )
)  # fmt: skip
"""Cell-wise ops whose instruction reads its operands, and writes its result, row by row."""


def run(program: n.Program, context: Context) -> n.Program:
    def change(function: n.Function) -> n.Function:
        return _Repairer(function, context).run() if is_on_core(function) else function

    return map_bodies(program, change)


def _is_column(type_: object) -> bool:
    """A fully valid vector tile `[N, 1]` of constant N > 1, held as one column."""
    if not isinstance(type_, TileType) or type_.memory_space is not MemorySpace.Vec or type_.rank != 2:
        return False
    rows, columns = (arith.constant(d) for d in type_.shape)
    plain = tile_layout(type_)[:2] == (TileLayout.col_major, TileLayout.none_box)
    return rows is not None and rows > 1 and columns == 1 and plain and type_.stated_valid is None


class _Repairer(TileRewriter):
    def assign(self, stmt: n.Assign) -> None:
        value = self.visit_expr(stmt.value)
        tiles = [a for a in getattr(value, "args", ()) if isinstance(a.type, TileType)]
        suits = isinstance(value, n.OpCall) and value.op in ROW_MAJOR_OPS and _is_column(value.type)
        if not suits or not all(_is_column(t.type) for t in tiles):
            self.bind(stmt, value)
            return
        assert isinstance(value, n.OpCall) and isinstance(value.type, TileType)
        base = plain_name(stmt.var.name)
        rows, columns = value.type.shape
        args: list[n.Expr] = []
        for i, operand in enumerate(value.args):
            is_tile = isinstance(operand.type, TileType)
            args.append(self.row(operand, f"{base}__rm_a{i}_tmp_v") if is_tile else operand)
        if value.op == "tile.full":
            args[0] = dims((columns, rows))
        call = self.retyped(dataclasses.replace(value, args=tuple(args), type=value.type))
        row = self.numbered(f"{base}__row_major_tmp_v", call)
        self.bind(stmt, self.make("tile.reshape", row, dims((rows, columns))))

    def row(self, tile: n.Expr, base: str) -> n.Var:
        assert isinstance(tile.type, TileType)
        rows, columns = tile.type.shape
        return self.numbered(base, self.make("tile.reshape", tile, dims((columns, rows))))

    def numbered(self, base: str, value: n.Expr) -> n.Var:
        var = n.Var(name=self.names.numbered(base), type=value.type, span=self.span)
        self.out.append(n.Assign(var=var, value=value, span=self.span))
        return var
