"""Pass 24, SplitVectorKernel: a vector function that runs on both lanes is told so; without a split, lane 1 replays it.

Follows from: on a2a3 both lanes of a group always run. A split function works on its half already. Else lane 0 does
the work and lane 1 goes through the same pushes, pops and frees with empty tiles (valid shape [0, 0]) and stores
nothing, so that the pipe's counters agree.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import FunctionType, MemorySpace
from pypto_lab.ir.types import TensorType, TileType, TileView
from pypto_lab.ir.visitor import walk
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.copying import Copier
from pypto_lab.lowering.functions import map_bodies
from pypto_lab.lowering.memory_effects import written_argument
from pypto_lab.lowering.names import Names
from pypto_lab.lowering.tile_forms import create_tile

_SETUP = ("system.reserve_buffer", "system.import_peer_buffer", "system.aiv_initialize_pipe")
_PUSH_POP = ("tile.tpop_from_aic", "tile.tpush_to_aic")


def run(program: n.Program, context: Context) -> n.Program:
    def change(function: n.Function) -> n.Function:
        if function.func_type is not FunctionType.AIV:
            return function
        if function.attrs.get("split_aiv"):
            return dataclasses.replace(function, attrs={**function.attrs, "dual_aiv_dispatch": True})
        if not context.target.pipe_through_global_memory or not function.attrs.get("dual_aiv_dispatch"):
            return function
        if not any(isinstance(e, n.OpCall) and e.op in _PUSH_POP for e in walk(function)):
            return function
        return _replayed(function)

    return map_bodies(program, change)


def _replayed(function: n.Function) -> n.Function:
    body = function.body or ()
    setup = tuple(s for s in body if _op_of(s) in _SETUP)
    work = tuple(s for s in body if _op_of(s) not in _SETUP)
    names = Names.of(function)
    lane = n.Var(name=names.fresh("subblock_idx"), type=n.INDEX, span=function.span)
    index = n.OpCall(op="tile.get_subblock_idx", args=(), type=n.INDEX, span=function.span)
    first = n.Binary(op="Eq", left=lane, right=n.const(0), type=n.BOOL)
    other = _Replay(work, names).visit_body(work)
    both = n.If(condition=first, then_body=work, else_body=other, span=function.span)
    new = (n.Assign(var=lane, value=index, span=function.span), *setup, both)
    return dataclasses.replace(function, body=new)


def _op_of(stmt: n.Stmt) -> str:
    value = stmt.value if isinstance(stmt, n.Assign) else stmt.expr if isinstance(stmt, n.Eval) else None
    return value.op if isinstance(value, n.OpCall) else ""


class _Replay(Copier):
    """The body with empty tiles and without stores, its variables new."""

    def type(self, type_: Any) -> Any:
        new = super().type(type_)
        if not isinstance(new, TileType) or new.memory_space is not MemorySpace.Vec:
            return new
        view = new.view or TileView()
        if view.valid_shape is not None and all(getattr(d, "value", None) == 0 for d in view.valid_shape):
            return new
        return dataclasses.replace(new, view=dataclasses.replace(view, valid_shape=(n.const(0), n.const(0))))

    def visit_stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        new = super().visit_stmt(node)
        match node, new:
            case n.Assign(value=n.OpCall()), n.Assign(value=n.Var() as target):
                self.vars[node.var] = target  # a store that did not happen: later uses see its target
        return new

    def stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        match node:
            case n.Eval(expr=n.OpCall(op="tensor.write" | "tile.store" | "tile.mscatter")):
                return ()
            case n.Assign(value=n.OpCall() as call) if isinstance(node.var.type, TensorType):
                target = written_argument(call)
                return node if target is None else dataclasses.replace(node, value=call.args[target])
            case n.Assign(value=n.OpCall(op="tile.load") as call) if isinstance(node.var.type, TileType):
                shape = node.var.type
                empty = create_tile(shape.shape, shape.dtype, MemorySpace.Vec, call.span)
                return dataclasses.replace(node, value=dataclasses.replace(empty, type=shape))
        return node
