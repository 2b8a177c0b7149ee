"""What a `pl.split_aiv` region must keep to: its tiles are one lane's own, so they stay inside, and what is gathered
for the cube still lies in halves along the split axis."""

from __future__ import annotations

from collections.abc import Sequence

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import SplitMode
from pypto_lab.ir.types import TileType
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.names import plain_name
from pypto_lab.lowering.sides import on_vector
from pypto_lab.lowering.tile_rewriter import yielded
from pypto_lab.lowering.uses import definitions, expressions, statements

SHARDS = ("tile.aiv_shard", "tensor.aiv_shard")
GATHERS = ("tile.aic_gather", "tensor.aic_gather")


def check_regions(function: n.Function, context: Context) -> None:
    """Checks every region of a function, before its statements stand in line. Raises LabError E814 at the statement
    that reads a lane's tile outside, or gathers what no longer lies in halves along the split axis."""
    own = _lane_tiles(function.body or ())
    _Outside(own, context).block(function.body or ())
    for region in statements(function.body or ()):
        if isinstance(region, n.SplitAivScope) and region.split is not SplitMode.NONE:
            _check_gathers(region, context)


def _lane_tiles(body: n.Body) -> set[n.Var]:
    """Vector tiles made in regions, and what loops and branches carry of them."""
    found: set[n.Var] = set()
    for region in statements(body):
        if isinstance(region, n.SplitAivScope):
            found |= {v for s in statements(region.body) for v in definitions(s) if on_vector(v)}
    size = -1
    while size != len(found):
        size = len(found)
        for stmt in statements(body):
            found |= _carried(stmt, found)
    return found


def _carried(stmt: n.Stmt, own: set[n.Var]) -> set[n.Var]:
    """Loop arguments and results that are a lane's own because a value they take is."""
    found: set[n.Var] = set()
    match stmt:
        case n.For() | n.While():
            last = yielded(stmt.body)
            for argument, result, value in zip(stmt.iter_args, stmt.return_vars, last, strict=False):
                if value in own:
                    found |= {argument, result}
        case n.If():
            for result, *ends in zip(stmt.return_vars, yielded(stmt.then_body), yielded(stmt.else_body), strict=False):
                if any(end in own for end in ends):
                    found.add(result)
    return found


class _Outside:
    """Walks what is not in a region."""

    def __init__(self, own: set[n.Var], context: Context) -> None:
        self.own = own
        self.context = context

    def block(self, body: Sequence[n.Stmt]) -> None:
        for stmt in body:
            match stmt:
                case n.SplitAivScope():
                    continue
                case n.If():
                    self.block(stmt.then_body)
                    self.block(stmt.else_body)
                case n.For() | n.While() | n.Scope():
                    self.block(stmt.body)
                case n.Assign() | n.Eval():
                    self.operands(stmt)

    def operands(self, stmt: n.Assign | n.Eval) -> None:
        for expr in expressions(stmt):
            for operand in getattr(expr, "args", (expr,)):
                if operand in self.own:
                    self.context.refuse(
                        "E814",
                        f"`{plain_name(operand.name)}` is one lane's own and is read outside `pl.split_aiv`",
                        stmt.span,
                        hint="store it inside, at the lane's place, or hand it to the cube with pl.aic_gather",
                    )


def _check_gathers(region: n.SplitAivScope, context: Context) -> None:
    main = 0 if region.split is SplitMode.UP_DOWN else 1
    halves: dict[n.Expr, int] = {}
    for stmt in statements(region.body):
        call = stmt.value if isinstance(stmt, n.Assign) else None
        if not isinstance(stmt, n.Assign) or not isinstance(call, n.OpCall):
            continue
        if call.op in SHARDS:
            halves[stmt.var] = main
            continue
        along = next((halves[a] for a in call.args if a in halves), None)
        if along is None:
            continue
        if call.op in GATHERS:
            if along != main:
                axis = "rows" if main == 0 else "columns"
                context.refuse(
                    "E814",
                    f"`{plain_name(getattr(call.args[0], 'name', 'tile'))}` is transposed: its halves do not follow "
                    f"one another along the {axis} ({region.split.name})",
                    stmt.span,
                    hint="gather it first and transpose the whole, or use the other split mode",
                )
            continue
        if isinstance(stmt.var.type, TileType):
            halves[stmt.var] = 1 - along if call.op == "tile.transpose" else along
