"""Gather and scatter along the last axis, said with tiles: a row at a time, and through flat indices.

A tile gather takes one row's column indices, so a loop collects the rows. A tile scatter takes flat indices and leaves
what it does not hit undefined, so values and a mask are scattered and the mask selects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import MemorySpace
from pypto_lab.ir.types import TensorType, TileType, constant_dims
from pypto_lab.lowering.tile_forms import create_tile, dims, load_tile

if TYPE_CHECKING:
    from pypto_lab.lowering.passes.convert_tensor_to_tile_ops import _Converter

NOT_EQUAL = 1


def expand_gather(to: _Converter, stmt: n.Assign, call: n.OpCall) -> n.Var:
    """`out[i, j] = input[i, index[i, j]]` as a loop over rows; returns the tile."""
    source, index = call.args[:2]
    shape = _plane(to, stmt, call)
    rows, columns = shape
    start = to.emit("gather_acc_init", create_tile(dims((rows, columns)).elements, _dtype(source), span=to.span))
    row = n.Var(name=to.names.fresh("gather_lv"), type=n.INDEX, span=to.span)
    carried = n.IterArg(name=to.names.fresh("gather_ia"), type=start.type, init_value=start, span=to.span)
    outer, to.out = to.out, []
    values = to.emit("gather_inp_row", _row(to, source, row))
    places = to.emit("gather_idx_row", _row(to, index, row))
    scratch = to.emit("gather_row_tmp", create_tile((n.const(1), columns), dtypes.INT32, span=to.span))
    picked = to.emit("gather_row", to.make("tile.gather", values, places, scratch))
    whole = to.emit("gather_asmbl", to.make("tile.assemble", carried, picked, dims((row, n.const(0)))))
    to.out.append(n.Yield(values=(whole,), span=to.span))
    body, to.out = tuple(to.out), outer
    result = n.Var(name=to.names.fresh("gather_rv"), type=start.type, span=to.span)
    loop = n.For(
        loop_var=row,
        start=n.const(0),
        stop=rows,
        step=n.const(1),
        body=body,
        iter_args=(carried,),
        return_vars=(result,),
        span=to.span,
    )
    to.out.append(loop)
    return to.emit(f"{stmt.var.name.partition('__')[0]}__tile", result)


def expand_scatter(to: _Converter, stmt: n.Assign, call: n.OpCall) -> n.Var:
    """`out = input; out[i, index[i, j]] = src[i, j]` through flat indices; returns the tile."""
    base, index, source = call.args[:3]
    _plane(to, stmt, call)
    assert isinstance(base.type, TensorType)
    rows, columns = base.type.shape
    int32 = dtypes.INT32
    width = n.const(constant_dims((columns,))[0], int32)  # type: ignore[index]
    values, places, below = (to.vector(e) for e in (source, index, base))
    count = to.emit("scatter_ci_rows", to.make("tile.ci", n.const(0, int32), dims((n.const(1), rows)), dtype=int32))
    column = to.emit("scatter_row_arange", to.make("tile.reshape", count, dims((rows, n.const(1)))))
    first = to.emit("scatter_row_base", to.make("tile.muls", column, width))
    flat = to.emit("scatter_flat_idx", to.make("tile.row_expand_add", places, first))
    dtype = _dtype(base)
    zero, one = n.const(0.0, dtype), n.const(1.0, dtype)
    if not dtype.is_float:
        zero, one = n.const(0, dtype), n.const(1, dtype)
    plane, part = dims((rows, columns)), dims(_shape(index))
    empty = to.emit("scatter_values_zero", to.make("tile.full", plane, zero, dtype=dtype))
    spread = to.emit("scatter_values", to.make("tile.scatter", empty, values, flat))
    clear = to.emit("scatter_mask_zero", to.make("tile.full", plane, zero, dtype=dtype))
    ones = to.emit("scatter_ones", to.make("tile.full", part, one, dtype=dtype))
    mask = to.emit("scatter_mask", to.make("tile.scatter", clear, ones, flat))
    hit = to.emit("scatter_pred", to.make("tile.cmps", mask, zero, cmp_type=NOT_EQUAL))
    scratch = to.emit("scatter_sel_tmp", create_tile((n.const(1), n.const(32)), dtypes.UINT8, span=to.span))
    chosen = to.make("tile.sel", hit, spread, below, scratch)
    return to.emit(f"{stmt.var.name.partition('__')[0]}__tile", chosen)


def _row(to: _Converter, tensor: n.Expr, row: n.Var) -> n.OpCall:
    """Row `row` of a matrix as a tile."""
    shape, offset = (n.const(1), _shape(tensor)[1]), dims((row, n.const(0)))
    if to.is_global(tensor):
        return load_tile(to.visit_expr(tensor), offset, shape, None, MemorySpace.Vec, to.span)
    return to.make("tile.slice", to.vector(tensor), dims(shape), offset)


def _plane(to: _Converter, stmt: n.Assign, call: n.OpCall) -> tuple[n.Expr, n.Expr]:
    """The index's rows and columns. Raises LabError unless it is 2-D of constant shape and the last axis is meant."""

    def refuse(why: str) -> NoReturn:
        to.context.refuse("E809", f"`{call.op}` {why} has no tile form", stmt.span)

    shape = _shape(call.args[1])
    if len(shape) != 2 or constant_dims(shape) is None:
        refuse("of other than constant 2-D indices")
    dim = call.kwargs.get("dim")
    if dim not in (-1, 1) and not (isinstance(dim, n.ConstInt) and dim.value in (-1, 1)):
        refuse("along another axis than the last")
    return shape[0], shape[1]


def _shape(expr: n.Expr) -> tuple[n.Expr, ...]:
    assert isinstance(expr.type, (TensorType, TileType))
    return expr.type.shape


def _dtype(expr: n.Expr) -> dtypes.DType:
    assert isinstance(expr.type, (TensorType, TileType))
    return expr.type.dtype
