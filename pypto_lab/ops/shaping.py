"""Shape and valid-region arithmetic the type rules of memory and shape ops share.

A valid region is an origin-anchored rectangle inside the box; dimensions are expressions, compared with `ir.arith`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import CompactMode, MemorySpace, PadValue, TensorLayout, TileLayout
from pypto_lab.ir.types import (
    ScalarType,
    ShapedType,
    TensorType,
    TensorView,
    TileType,
    TileView,
    constant_dims,
    tile_layout,
)
from pypto_lab.ops.record import Operands
from pypto_lab.ops.rules import Dims, same_dims, show_dim


def narrowed(shape: Dims, valid: Dims | None) -> Dims | None:
    """`valid` as a view states it: None when it is provably the whole box."""
    return None if valid is None or same_dims(shape, valid) else valid


def tensor_type(
    shape: Dims,
    dtype: DType,
    valid: Dims | None = None,
    *,
    layout: TensorLayout | None = None,
    stride: Dims | None = None,
    pad: PadValue | None = None,
) -> TensorType:
    """A tensor type with the plainest view that says these facts (ND and packed strides stay unsaid)."""
    valid = narrowed(shape, valid)
    layout = None if layout is TensorLayout.ND and stride is None else layout
    pad = None if pad is PadValue.null else pad
    plain = valid is None and layout is None and stride is None and pad is None
    return TensorType(shape, dtype, None if plain else TensorView(valid, stride, layout, pad))


def tile_type(
    shape: Dims,
    dtype: DType,
    space: MemorySpace | None,
    valid: Dims | None = None,
    *,
    blayout: TileLayout | None = None,
    slayout: TileLayout | None = None,
    fractal: int | None = None,
    pad: PadValue | None = None,
    compact: CompactMode | None = None,
) -> TileType:
    """A tile type with the plainest view: what equals the implicit view of its memory space stays unsaid."""
    implicit = tile_layout(TileType(shape, dtype, None, space))
    blayout = None if blayout is implicit[0] else blayout
    slayout = None if slayout is implicit[1] else slayout
    fractal = None if fractal == implicit[2] else fractal
    pad = None if pad is PadValue.null else pad
    compact = None if compact is CompactMode.null else compact
    valid = narrowed(shape, valid)
    facts = (valid, blayout, slayout, fractal, pad, compact)
    if all(fact is None for fact in facts):
        return TileType(shape, dtype, None, space)
    view = TileView(valid_shape=valid, blayout=blayout, slayout=slayout, fractal=fractal, pad=pad, compact=compact)
    return TileType(shape, dtype, view, space)


def pad_of(type_: ShapedType) -> PadValue | None:
    """The pad mode a type's view states."""
    view = getattr(type_, "view", None)
    return None if view is None else view.pad


def tensor_at(operands: Operands, index: int) -> TensorType:
    """The tensor type of an argument. Raises OpError for anything else."""
    found = operands.type(index)
    if not isinstance(found, TensorType):
        raise OpError(f"{operands.op.name} needs a tensor as `{operands.op.args[index].name}`", argument=index)
    return found


def tile_at(operands: Operands, index: int) -> TileType:
    """The tile type of an argument. Raises OpError for anything else."""
    found = operands.type(index)
    if not isinstance(found, TileType):
        hint = "bring the tensor on chip first: `pl.load(...)`" if isinstance(found, TensorType) else None
        name = operands.op.args[index].name
        raise OpError(f"{operands.op.name} needs a tile as `{name}`", argument=index, hint=hint)
    return found


def scalar_at(operands: Operands, index: int, *, integer: bool = False) -> DType:
    """The dtype of a scalar argument. Raises OpError for tensors, tiles and, with `integer`, for floats."""
    found = operands.type(index)
    name = operands.op.args[index].name
    if not isinstance(found, ScalarType):
        raise OpError(f"{operands.op.name} needs a scalar as `{name}`", argument=index)
    if integer and not found.dtype.is_integer:
        raise OpError(f"{operands.op.name} needs an integer as `{name}`, got {found.dtype}", argument=index)
    return found.dtype


def integers(operands: Operands, index: int) -> Dims:
    """A list argument whose elements are integer scalars. Raises OpError otherwise."""
    elements = operands.ints(index)
    for element in elements:
        dtype = n.scalar_dtype(element)
        if dtype is not None and not dtype.is_integer:
            name = operands.op.args[index].name
            raise OpError(f"{operands.op.name} needs integers in `{name}`, found {dtype}", argument=index)
    return elements


def optional_integers(operands: Operands, index: int) -> Dims | None:
    """A list argument that may be missing; the empty list also means missing (it holds the place of a later one)."""
    if operands.optional(index) is None:
        return None
    return integers(operands, index) or None


def shape_at(operands: Operands, index: int, *, constant: bool = False) -> Dims:
    """A shape argument: at least one axis, no extent known to be below 1. Raises OpError."""
    shape = integers(operands, index)
    name = operands.op.args[index].name
    if not shape:
        raise OpError(f"{operands.op.name} needs at least one axis in `{name}`", argument=index)
    for axis, dim in enumerate(shape):
        value = arith.constant(dim)
        if value is not None and value < 1:
            raise OpError(f"{operands.op.name}: extent {value} of axis {axis} is not positive", argument=index)
        if constant and value is None:
            raise OpError(
                f"{operands.op.name} needs constant extents in `{name}`, axis {axis} is only known at run time",
                argument=index,
                hint="keep the box constant and pass the run-time extent as `valid_shape`",
            )
    return shape


def same_rank(operands: Operands, index: int, dims: Sequence[n.Expr], rank: int, of: str) -> None:
    """Raises OpError unless a list argument has one entry per axis."""
    if len(dims) != rank:
        name = operands.op.args[index].name
        raise OpError(
            f"{operands.op.name} needs {rank} entries in `{name}`, one per axis of {of}, got {len(dims)}",
            argument=index,
        )


def require_dtype(operands: Operands, index: int, found: DType, allowed: Sequence[DType]) -> None:
    """Raises OpError unless a dtype is one of the allowed ones."""
    if found not in allowed:
        names = ", ".join(str(d) for d in allowed)
        name = operands.op.args[index].name
        raise OpError(f"{operands.op.name}: `{name}` is {found}, allowed are {names}", argument=index)


# --- windows ---------------------------------------------------------------------------------------------------------


def check_offsets(operands: Operands, index: int, offsets: Dims) -> None:
    """Raises OpError for an offset known to be negative."""
    for axis, offset in enumerate(offsets):
        value = arith.constant(offset)
        if value is not None and value < 0:
            raise OpError(f"{operands.op.name}: offset {value} on axis {axis} is negative", argument=index)


def check_fits(
    operands: Operands, index: int, offsets: Dims, extents: Dims, bounds: Dims, *, of: str, hint: str | None = None
) -> None:
    """Raises OpError when offset + extent provably passes the bound on some axis."""
    check_offsets(operands, index, offsets)
    for axis, (offset, extent, bound) in enumerate(zip(offsets, extents, bounds, strict=True)):
        over = arith.constant(arith.sub(arith.add(offset, extent), bound))
        if over is None or over <= 0 or arith.constant(extent) == 0:
            continue
        place = f"{show_dim(extent)} from offset {show_dim(offset)}"
        raise OpError(
            f"{operands.op.name}: {place} on axis {axis} passes the end of {of}, whose extent is {show_dim(bound)}",
            argument=index,
            hint=hint,
        )


def check_valid(operands: Operands, index: int, valid: Dims, box: Dims) -> None:
    """Raises OpError when a valid extent is provably negative or larger than its box."""
    for axis, (extent, full) in enumerate(zip(valid, box, strict=True)):
        value = arith.constant(extent)
        if value is not None and value < 0:
            raise OpError(f"{operands.op.name}: valid extent {value} on axis {axis} is negative", argument=index)
        over = arith.constant(arith.sub(extent, full))
        if over is not None and over > 0:
            raise OpError(
                f"{operands.op.name}: valid extent {show_dim(extent)} on axis {axis} "
                f"is larger than the box ({show_dim(full)})",
                argument=index,
            )


def window_valid(source: ShapedType, offsets: Dims, requested: Dims, *, clamp: bool) -> Dims:
    """Valid shape of a window: min(requested, what the source has from the offset on), axis by axis.

    A fully valid axis without `clamp` is trusted to hold what was asked for, so the request stands as written.
    """
    result = []
    for full, valid, offset, wanted in zip(source.shape, source.valid_shape, offsets, requested, strict=True):
        if not clamp and arith.same(full, valid):
            result.append(wanted)
            continue
        left = arith.sub(valid, offset)
        available = left if arith.constant(offset) == 0 else arith.maximum(left, 0)
        result.append(arith.minimum(wanted, available))
    return tuple(result)


def union_valid(target: ShapedType, source_valid: Dims, offsets: Dims) -> Dims | None:
    """Valid region after a write: the union where it is a rectangle at the origin, else None.

    Accepted (torch_codegen.md 2.2): an empty write; an empty target written at the origin; a write inside the target's
    region; a target region inside a write at the origin; growth along one axis that abuts with the others equal.
    """
    had = target.valid_shape
    ends = tuple(arith.add(o, v) for o, v in zip(offsets, source_valid, strict=True))
    if any(arith.constant(v) == 0 for v in source_valid) or _inside(ends, had):
        return had
    at_origin = all(arith.constant(o) == 0 for o in offsets)
    if at_origin and (any(arith.constant(v) == 0 for v in had) or _inside(had, ends)):
        return ends
    growing = [axis for axis, (e, h) in enumerate(zip(ends, had, strict=True)) if not arith.same(e, h)]
    if len(growing) != 1:
        return None
    (axis,) = growing
    others_start_at_zero = all(arith.constant(o) == 0 for i, o in enumerate(offsets) if i != axis)
    abuts = arith.constant(arith.sub(had[axis], offsets[axis]))
    return ends if others_start_at_zero and abuts is not None and abuts >= 0 else None


def _inside(inner: Dims, outer: Dims) -> bool:
    differences = [arith.constant(arith.sub(o, i)) for i, o in zip(inner, outer, strict=True)]
    return all(d is not None and d >= 0 for d in differences)


# --- reshape ---------------------------------------------------------------------------------------------------------


def reshaped_valid(shape: Dims, valid: Dims, new_shape: Dims) -> Dims | None:
    """Carries a valid region through a reshape; None where no rectangle of the new shape holds the same cells.

    Fully valid stays so; an empty region stays empty; added or removed full unit axes keep the others; a flat prefix
    maps to the rectangle that spans the same cells, if there is one (dev/ir/05-operators of PyPTO).
    """
    if same_dims(shape, valid):
        return new_shape
    if any(arith.constant(v) == 0 for v in valid):
        return tuple(n.const(0) for _ in new_shape)
    kept = [(f, v) for f, v in zip(shape, valid, strict=True) if not _full_unit(f, v)]
    new_kept = [i for i, f in enumerate(new_shape) if arith.constant(f) != 1]
    if same_dims([f for f, _ in kept], [new_shape[i] for i in new_kept]):
        result = [n.const(1)] * len(new_shape)
        for i, (_, v) in zip(new_kept, kept, strict=True):
            result[i] = v
        return tuple(result)
    return _prefix_valid(shape, valid, new_shape)


def _full_unit(full: n.Expr, valid: n.Expr) -> bool:
    return arith.constant(full) == 1 and arith.constant(valid) == 1


def _prefix_valid(shape: Dims, valid: Dims, new_shape: Dims) -> Dims | None:
    cells = _prefix_cells(shape, valid)
    sizes = constant_dims(new_shape)
    if cells is None or sizes is None:
        return None
    return _prefix_box(cells, sizes)


def _prefix_cells(shape: Dims, valid: Dims) -> n.Expr | None:
    """How many leading cells in row-major order a region is, None when it is no flat prefix."""
    lead = next((i for i, f in enumerate(valid) if arith.constant(f) != 1), len(valid))
    if not same_dims(shape[lead + 1 :], valid[lead + 1 :]):
        return None
    return arith.product(valid[lead:]) if lead < len(valid) else n.const(1)


def _prefix_box(cells: n.Expr, sizes: tuple[int, ...]) -> Dims | None:
    form = arith.linear_form(cells)
    for axis in range(len(sizes)):
        inner = math.prod(sizes[axis + 1 :])
        whole = form.offset % inner == 0 and all(c % inner == 0 for c, _ in form.terms.values())
        if not whole:
            continue
        count = arith.from_linear(
            arith.Linear({k: (c // inner, e) for k, (c, e) in form.terms.items()}, form.offset // inner)
        )
        value = arith.constant(count)
        if value is not None and value > sizes[axis]:
            return None
        if value is None and any(size != 1 for size in sizes[:axis]):
            return None
        head = [n.const(1)] * axis
        return (*head, count, *(n.const(s) for s in sizes[axis + 1 :]))
    return None


def packed_strides(shape: Dims) -> Dims:
    """Row-major strides of a packed shape."""
    strides = [n.const(1)]
    for dim in reversed(shape[1:]):
        strides.append(arith.mul(strides[-1], dim))
    return tuple(reversed(strides))


def dn_strides(shape: Dims) -> Dims:
    """Strides of a packed DN shape: the last two axes swapped in memory."""
    swapped = packed_strides((*shape[:-2], shape[-1], shape[-2]))
    return (*swapped[:-2], swapped[-1], swapped[-2])


def axis_of(operands: Operands, index: int, rank: int) -> int:
    """A constant axis argument, negative counted from the end. Raises OpError."""
    name = operands.op.args[index].name
    axis = arith.constant(operands.arg(index))
    if axis is None:
        raise OpError(f"{operands.op.name} needs a constant as `{name}`", argument=index)
    return normal_axis(operands, axis, rank, index)


def normal_axis(operands: Operands, axis: Any, rank: int, argument: int | str) -> int:
    """An axis in 0..rank-1. Raises OpError."""
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise OpError(f"{operands.op.name}: axis {axis} does not exist, the rank is {rank}", argument=argument)
    return axis % rank


# --- rebuilding types ------------------------------------------------------------------------------------------------


def with_valid(type_: ShapedType, valid: Dims) -> ShapedType:
    """The same type with another valid region; a view that then says nothing goes away."""
    stated = narrowed(type_.shape, valid)
    if isinstance(type_, TensorType):
        view = replace(type_.view or TensorView(), valid_shape=stated)
        return replace(type_, view=None if _says_nothing(view) else view)
    if isinstance(type_, TileType):
        tile_view = replace(type_.view or TileView(), valid_shape=stated)
        return replace(type_, view=None if _says_nothing(tile_view) else tile_view)
    return type_


def _says_nothing(view: TensorView | TileView) -> bool:
    return all(getattr(view, name) is None for name in view.__dataclass_fields__)


def unpinned(type_: ShapedType) -> ShapedType:
    """The type without its memory reference: a result is a value of its own."""
    return replace(type_, memref=None) if isinstance(type_, (TensorType, TileType)) else type_


def written(operands: Operands, target: ShapedType, source_valid: Dims, offsets: Dims, offset_index: int) -> ShapedType:
    """Type of a target after a write: its valid region grows to the union. Raises OpError where none is a rectangle.

    A fully valid target stays so; with run-time extents nothing can be said and the target's region stands.
    """
    if target.stated_valid is None:
        return target
    union = union_valid(target, source_valid, offsets)
    if union is not None:
        return with_valid(target, union)
    known = constant_dims((*target.valid_shape, *source_valid, *offsets))
    if known is None:
        return target
    raise OpError(
        f"{operands.op.name}: the written and the already valid cells together are no rectangle at the origin",
        argument=offset_index,
        hint="write the blocks in order, each next to the last along one axis",
    )
