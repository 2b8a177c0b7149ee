"""Reading and writing through subscripts (`reference/language.md` 2.8)."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from pypto_lab.frontend import expressions
from pypto_lab.frontend.context import FunctionState
from pypto_lab.frontend.invoke import invoke
from pypto_lab.frontend.report import Abandoned
from pypto_lab.frontend.typing import dims_text, is_known, kind_name
from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Label
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import ArrayType, ScalarType, ShapedType, TensorType, TileType, TupleType


@dataclass(frozen=True)
class Axis:
    """One axis of a window: where it starts, its extent, and whether a scalar index chose it."""

    offset: n.Expr
    extent: n.Expr
    scalar: bool
    valid: n.Expr
    node: ast.expr | None = None


def read(state: FunctionState, node: ast.Subscript) -> n.Expr:
    """The value `base[...]`. Raises Abandoned after reporting."""
    base = expressions.expression(state, node.value)
    match base.type:
        case TupleType():
            return _tuple_item(state, node, base)
        case ArrayType():
            return _array_element(state, node, base)
        case ShapedType():
            return _shaped_read(state, node, base)
    if not is_known(base.type):
        raise Abandoned
    state.fail("E320", f"a {kind_name(base.type)} has no elements", node)


def _tuple_item(state: FunctionState, node: ast.Subscript, base: n.Expr) -> n.Expr:
    assert isinstance(base.type, TupleType)
    index = arith.constant(expressions.expression(state, node.slice))
    count = len(base.type.elements)
    if index is None:
        state.fail("E320", "the index of a tuple is a constant", node.slice, hint=f"0 to {count - 1}")
    if not 0 <= index < count:
        state.fail("E320", f"index {index} of a tuple with {count} elements", node.slice, hint=f"0 to {count - 1}")
    if isinstance(base, n.MakeTuple):
        return base.elements[index]
    return n.TupleGetItem(tuple=base, index=index, type=base.type.elements[index], span=state.span(node))


def _array_element(state: FunctionState, node: ast.Subscript, base: n.Expr) -> n.Expr:
    index = _scalar_index(state, node.slice)
    _check_array_index(state, node.slice, base, index)
    return invoke(state, node, "pl.array.get_element", [(base, node.value), (index, node.slice)])


def _check_array_index(state: FunctionState, where: ast.expr, base: n.Expr, index: n.Expr) -> None:
    assert isinstance(base.type, ArrayType)
    place, extent = arith.constant(index), arith.constant(base.type.extent)
    if place is not None and extent is not None and not 0 <= place < extent:
        state.fail("E320", f"index {place} of an array with {extent} elements", where, hint=f"0 to {extent - 1}")


def _shaped_read(state: FunctionState, node: ast.Subscript, base: n.Expr) -> n.Expr:
    assert isinstance(base.type, ShapedType)
    layer = "tile" if isinstance(base.type, TileType) else "tensor"
    indices = _indices(state, node, base.type)
    if len(indices) == base.type.rank and not any(isinstance(i, ast.Slice) for i in indices):
        places = [_scalar_index(state, i) for i in indices]
        _check_places(state, indices, places, base.type)
        where = _list(places, state.span(node.slice))
        return invoke(state, node, f"pl.{layer}.read", [(base, node.value), (where, node.slice)])
    axes = _axes(state, indices, base.type)
    return _tile_window(state, node, base, axes) if layer == "tile" else _tensor_window(state, node, base, axes)


def _tensor_window(state: FunctionState, node: ast.Subscript, base: n.Expr, axes: Sequence[Axis]) -> n.Expr:
    span = state.span(node.slice)
    shape, offset = _list([a.extent for a in axes], span), _list([a.offset for a in axes], span)
    dropped = [i for i, a in enumerate(axes) if a.scalar]
    keywords = {"drop_dims": (_list([n.const(i) for i in dropped], span), node.slice)} if dropped else {}
    arguments = [(base, node.value), (shape, node.slice), (offset, node.slice)]
    return invoke(state, node, "pl.tensor.slice", arguments, keywords)


def _tile_window(state: FunctionState, node: ast.Subscript, base: n.Expr, axes: Sequence[Axis]) -> n.Expr:
    span = state.span(node.slice)
    for axis in axes:
        if not axis.scalar and arith.constant(axis.offset) is None:
            hint = "use `pl.slice(tile, shape, offset)` on a tensor, or load the window you need"
            state.fail("E320", "the lower bound of a tile slice is a constant", axis.node or node.slice, hint=hint)
    dropped = [i for i, a in enumerate(axes) if a.scalar]
    arguments = [
        (base, node.value),
        (_list([a.extent for a in axes], span), node.slice),
        (_list([a.offset for a in axes], span), node.slice),
    ]
    keywords = {}
    if any(not arith.same(a.valid, a.extent) for a in axes):
        keywords["valid_shape"] = (_list([a.valid for a in axes], span), node.slice)
    if dropped:
        keywords["drop_dims"] = (_list([n.const(i) for i in dropped], span), node.slice)
        if len(axes) - len(dropped) < 2:
            state.warn("W004", "tiles have two axes at least: the result gets a leading axis of extent 1", node)
    return invoke(state, node, "pl.tile.slice", arguments, keywords)


# --- indices ----------------------------------------------------------------------------------------------------------


def _indices(state: FunctionState, node: ast.Subscript, type_: ShapedType) -> list[ast.expr]:
    indices = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    for index in indices:
        if isinstance(index, ast.Constant) and index.value is ...:
            state.fail("E320", "`...` is not known in subscripts", index, hint="write `:` for each axis")
        if isinstance(index, ast.Slice) and index.step is not None:
            state.fail("E320", "slices have no step", index, hint="read every element, or reshape first")
    if len(indices) > type_.rank:
        shape = dims_text(type_.shape)
        message = f"{len(indices)} indices for a {kind_name(type_)} of shape {shape}"
        state.fail("E320", message, node.slice, hint=f"at most {type_.rank}")
    return indices


def _axes(state: FunctionState, indices: Sequence[ast.expr], type_: ShapedType) -> list[Axis]:
    tile = isinstance(type_, TileType)
    axes = [_axis(state, index, type_, i, tile) for i, index in enumerate(indices)]
    for i in range(len(indices), type_.rank):
        axes.append(Axis(n.const(0), type_.shape[i], False, type_.valid_shape[i]))
    return axes


def _axis(state: FunctionState, index: ast.expr, type_: ShapedType, axis: int, tile: bool) -> Axis:
    physical, logical = type_.shape[axis], type_.valid_shape[axis]
    if not isinstance(index, ast.Slice):
        place = _scalar_index(state, index)
        _check_places(state, [index], [place], type_, axis)
        return Axis(place, n.const(1), True, n.const(1), index)
    low = n.const(0) if index.lower is None else _scalar_index(state, index.lower)
    high = None if index.upper is None else _scalar_index(state, index.upper)
    _check_bounds(state, index, low, high, physical, axis)
    if tile:
        return _tile_axis(index, low, high, physical, logical)
    whole = high is None and arith.same(low, 0)
    extent = physical if whole else arith.sub(physical if high is None else high, low)
    return Axis(low, extent, False, extent, index)


def _tile_axis(index: ast.Slice, low: n.Expr, high: n.Expr | None, physical: n.Expr, logical: n.Expr) -> Axis:
    """A tile's window: the allocated extent is constant where the bound is, the valid one follows the bound."""
    if high is None:
        return Axis(low, arith.sub(physical, low), False, _at_least_zero(arith.sub(logical, low)), index)
    constant = arith.constant(high)
    box = physical if constant is None else arith.minimum(high, physical)
    valid = _at_least_zero(arith.sub(arith.minimum(high, logical), low))
    return Axis(low, arith.sub(box, low), False, valid, index)


def _at_least_zero(extent: n.Expr) -> n.Expr:
    value = arith.constant(extent)
    if value is not None:
        return n.const(max(value, 0))
    return extent if isinstance(extent, n.Var) else arith.maximum(extent, 0)


def _check_bounds(
    state: FunctionState, index: ast.Slice, low: n.Expr, high: n.Expr | None, physical: n.Expr, axis: int
) -> None:
    first, last, extent = arith.constant(low), arith.constant(high), arith.constant(physical)
    if high is not None and first is not None and last is not None and last <= first:
        state.fail("E320", f"the slice {first}:{last} is empty", index)
    if extent is not None and first is not None and first >= extent:
        state.fail("E320", f"the slice starts at {first}, axis {axis} has {extent}", index)
    if extent is not None and last is not None and last > extent:
        state.fail("E320", f"the slice ends at {last}, axis {axis} has {extent}", index)


def _check_places(
    state: FunctionState, where: Sequence[ast.expr], places: Sequence[n.Expr], type_: ShapedType, first: int = 0
) -> None:
    for axis, (node, place) in enumerate(zip(where, places, strict=True), first):
        value, extent = arith.constant(place), arith.constant(type_.shape[axis])
        if value is not None and extent is not None and value >= extent:
            message = f"index {value} is outside axis {axis} of extent {extent}"
            state.fail("E320", message, node, hint=f"0 to {extent - 1}")


def _scalar_index(state: FunctionState, node: ast.expr) -> n.Expr:
    found = expressions.expression(state, node)
    if not is_known(found.type):
        raise Abandoned
    if not (isinstance(found.type, ScalarType) and found.type.dtype.is_integer):
        state.fail("E320", f"an index is an integer scalar, this is a {kind_name(found.type)}", node)
    value = arith.constant(found)
    if value is not None and value < 0:
        state.fail("E320", "negative indices do not count from the end", node, hint="write the index from the start")
    return found


def _list(elements: Sequence[n.Expr], span: Span | None) -> n.MakeTuple:
    return n.MakeTuple(elements=tuple(elements), type=TupleType(tuple(e.type for e in elements)), span=span)


# --- writing ----------------------------------------------------------------------------------------------------------


def write(state: FunctionState, target: ast.Subscript, source: n.Expr, source_node: ast.expr) -> tuple[str, n.Expr]:
    """`dst[...] = source` as the name it re-binds and its new value. Raises Abandoned after reporting."""
    if not isinstance(target.value, ast.Name):
        hint = "assign the inner value to a name first"
        state.fail("E006", "only a named tensor, tile or array can be written by subscript", target, hint=hint)
    name = target.value.id
    binding = state.names.get(name)
    if binding is None:
        expressions.undefined(state, target.value)
        raise Abandoned
    base = binding.var
    if state.strict_ssa:
        hint = f"write `{name}_1 = pl.assemble({name}, value, offset)`"
        state.fail("E204", "a write by subscript re-binds its name, which strict_ssa forbids", target, hint=hint)
    match base.type:
        case ArrayType():
            return name, _array_write(state, target, base, source, source_node)
        case ShapedType():
            return name, _window_write(state, target, base, source, source_node)
    if not is_known(base.type):
        raise Abandoned
    state.fail("E320", f"a {kind_name(base.type)} cannot be written by subscript", target)


def _array_write(
    state: FunctionState, target: ast.Subscript, base: n.Expr, source: n.Expr, source_node: ast.expr
) -> n.Expr:
    index = _scalar_index(state, target.slice)
    _check_array_index(state, target.slice, base, index)
    arguments = [(base, target.value), (index, target.slice), (source, source_node)]
    return invoke(state, target, "pl.array.update_element", arguments)


def _window_write(
    state: FunctionState, target: ast.Subscript, base: n.Expr, source: n.Expr, source_node: ast.expr
) -> n.Expr:
    assert isinstance(base.type, ShapedType)
    indices = _indices(state, target, base.type)
    if not any(isinstance(i, ast.Slice) for i in indices):
        text, place = state.text.segment(target.value), state.text.segment(target.slice).strip("()")
        hint = f"write `pl.write({text}, [{place}], {state.text.segment(source_node)})`"
        state.fail("E321", "single elements are not written by subscript", target, hint=hint)
    axes = _axes(state, indices, base.type)
    if not isinstance(source.type, ShapedType):
        if not is_known(source.type):
            raise Abandoned
        hint = "fill the window: pl.full(shape, dtype=..., value=...)"
        state.fail(
            "E322", f"a window takes a tensor or tile, this is a {kind_name(source.type)}", source_node, hint=hint
        )
    _check_window(state, target, base, axes, source, source_node)
    source = _full_rank(state, source, source_node, axes)
    layer = "tile" if isinstance(base.type, TileType) else "tensor"
    offsets = _list([a.offset for a in axes], state.span(target.slice))
    arguments = [(base, target.value), (source, source_node), (offsets, target.slice)]
    if layer == "tensor" and isinstance(source.type, TileType):
        return invoke(state, target, "pl.tile.store", [arguments[1], arguments[2], arguments[0]])
    return invoke(state, target, f"pl.{layer}.assemble", arguments)


def _check_window(
    state: FunctionState,
    target: ast.Subscript,
    base: n.Expr,
    axes: Sequence[Axis],
    source: n.Expr,
    source_node: ast.expr,
) -> None:
    """E322: the source's extents, or its valid shape, are the window's; dynamic ones are trusted."""
    assert isinstance(source.type, ShapedType)
    full, valid = list(source.type.shape), list(source.type.valid_shape)
    window = [a.extent for a in axes if not a.scalar] if len(full) < len(axes) else [a.extent for a in axes]
    labels = [Label(state.span(source_node), f"this has shape {dims_text(full)}")]
    if valid is not full and source.type.stated_valid is not None:
        labels.append(Label(state.span(source_node), f"and valid shape {dims_text(valid)}"))
    if len(full) != len(window):
        message = f"the window {dims_text(window)} takes another rank than the value {dims_text(full)}"
        state.fail("E322", message, target, labels=labels, hint="reshape the value: pl.reshape(x, shape)")
    for axis, extent in enumerate(window):
        if arith.differ(extent, full[axis]) and arith.differ(extent, valid[axis]):
            message = f"the window {dims_text(window)} and the value {dims_text(full)} differ on axis {axis}"
            state.fail("E322", message, target, labels=labels, hint="take a window of the value's extents")


def _full_rank(state: FunctionState, source: n.Expr, node: ast.expr, axes: Sequence[Axis]) -> n.Expr:
    """The source with an axis of extent 1 where a scalar index chose the place."""
    assert isinstance(source.type, ShapedType)
    if source.type.rank == len(axes):
        return source
    dims = iter(source.type.shape)
    shape = [n.const(1) if a.scalar else next(dims) for a in axes]
    layer = "tensor" if isinstance(source.type, TensorType) else "tile"
    return invoke(state, node, f"pl.{layer}.reshape", [(source, node), (_list(shape, source.span), node)])
