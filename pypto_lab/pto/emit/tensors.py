"""Tensors in global memory: views of the parameters, windows, loads, stores, and single elements."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import AtomicType, TensorLayout
from pypto_lab.ir.types import TensorType
from pypto_lab.pto.dialect.attributes import PartitionAttr, TensorViewAttr, keyword, type_attribute
from pypto_lab.pto.dialect.operations import (
    REGULAR,
    GetValueOp,
    LoadScalarOp,
    MakeTensorViewOp,
    PartitionViewOp,
    StoreScalarOp,
)
from pypto_lab.pto.dialect.types import PartitionType, TensorViewType
from pypto_lab.pto.emit.builder import Builder, Tensor, Tile, elements
from pypto_lab.pto.emit.scalars import index, scalar
from pypto_lab.pto.emit.tiles import allocated
from pypto_lab.pto.emit.types import element, scalar_type

LAYOUTS = {None: "nd", TensorLayout.ND: "nd", TensorLayout.DN: "dn"}


def viewed(b: Builder, name: str, pointer: SSAValue, tensor: TensorType) -> Tensor:
    """A tensor with its view. Column vectors are stored column after column, so their view is DN.

    Raises LabError for layouts whose order of elements strides cannot say (NZ, MX).
    """
    stated = tensor.view
    layout = None if stated is None else stated.layout
    if layout not in LAYOUTS:
        b.refuse(f"a tensor of layout {layout.name if layout else layout} has no strides")
    column = len(tensor.shape) >= 2 and isinstance(last := tensor.shape[-1], n.ConstInt) and last.value == 1
    down = layout is TensorLayout.DN or column
    shape = tuple(index(b, dim) for dim in tensor.shape)
    if stated is not None and stated.stride is not None and not column:
        strides = tuple(index(b, step) for step in stated.stride)
    else:
        strides = _packed(b, name, shape, down)
    attributes = {"layout": keyword("layout", "dn" if down else "nd")}
    type_ = TensorViewAttr(TensorViewType((None,) * len(shape), element(tensor.dtype)))
    view = b.value(MakeTensorViewOp([pointer, *shape, *strides], [type_], attributes), f"{name}_view")
    return Tensor(pointer, tensor, shape, strides, view)


def _packed(b: Builder, name: str, shape: Sequence[SSAValue], down: bool) -> tuple[SSAValue, ...]:
    """Strides without gaps."""
    one, rank = b.constant(1), len(shape)
    if rank == 1:
        return (one,)
    strides = [one, shape[-2]] if down else [shape[-1], one]
    step = shape[-1]
    for axis in range(rank - 3, -1, -1):
        step = b.value(arith.MuliOp(step, shape[axis + 1]), f"{name}_s{axis}")
        strides.insert(0, step)
    return tuple(strides)


# --- windows ----------------------------------------------------------------------------------------------------------


def _offset(b: Builder, expr: n.Expr) -> SSAValue:
    """An offset into a tensor: what is known at run time only goes through `max(x, 0)`, as the compiler's does."""
    value = index(b, expr)
    known = b.known.get(value)
    if known is not None and known < 0:
        b.refuse(f"offset {known} lies before the tensor", span=expr.span)
    return value if known is not None else b.value(arith.MaxSIOp(value, b.constant(0)))


def window(b: Builder, target: n.Expr, offsets: Sequence[n.Expr], sizes: Sequence[SSAValue], hint: str) -> SSAValue:
    """A window of a tensor."""
    tensor, _ = b.view(target)
    return window_of(b, tensor, offsets, sizes, hint)


def window_of(b: Builder, tensor: Tensor, offsets: Sequence[n.Expr], sizes: Sequence[SSAValue], hint: str) -> SSAValue:
    """A window of a tensor that has a view."""
    view = tensor.view
    if view is None:
        b.refuse("the tensor has no view")
    if not len(offsets) == len(sizes) == len(tensor.shape):
        b.refuse(f"{len(offsets)} offsets and {len(sizes)} sizes for a tensor of {len(tensor.shape)} dimensions")
    places = [_offset(b, offset) for offset in offsets]
    for place, size, dim in zip(places, sizes, tensor.shape, strict=True):
        start, extent, full = b.known.get(place), b.known.get(size), b.known.get(dim)
        if start is not None and extent is not None and full is not None and start + extent > full:
            b.refuse(f"{start} to {start + extent} lies outside a dimension of {full}")
    type_ = PartitionAttr(PartitionType(tuple(b.known.get(s) for s in sizes), element(tensor.type.dtype)))
    return b.value(PartitionViewOp([view, *places, *sizes], [type_]), hint)


def whole(b: Builder, expr: n.Expr) -> SSAValue:
    """A window that is the whole tensor."""
    tensor, _ = b.view(expr)
    return window(b, expr, [n.const(0)] * len(tensor.shape), list(tensor.shape), f"{_name(expr)}_pview")


def _name(expr: n.Expr) -> str:
    return expr.name if isinstance(expr, n.Var) else "window"


def load(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`tile.load`: as much as is valid."""
    if call.kwargs.get("clamp"):
        b.refuse("loads with `clamp` have no form in .pto text")
    offsets = elements(call.args[1], b)
    asked = elements(call.args[3] if len(call.args) > 3 else call.args[2], b)
    tile = allocated(b, var)
    if len(asked) == 2:
        sizes = list(tile.valid)
        _check_sizes(b, sizes, asked)
    else:
        sizes = [index(b, e) for e in asked]
        _check_count(b, sizes, tile)
    source = window(b, call.args[0], offsets, sizes, f"{_name(call.args[0])}_pview")
    b.add(REGULAR["pto.tload"].make([source], [tile.value]))


def _check_sizes(b: Builder, sizes: Sequence[SSAValue], asked: Sequence[n.Expr]) -> None:
    """What is asked for is what the tile's type says is valid."""
    for size, expr in zip(sizes, asked, strict=True):
        extent, wanted = b.known.get(size), expr.value if isinstance(expr, n.ConstInt) else None
        if extent != wanted:
            words = ["run time" if v is None else str(v) for v in (wanted, extent)]
            b.refuse(f"elements asked for: {words[0]}, but valid in the tile: {words[1]}")


def _check_count(b: Builder, sizes: Sequence[SSAValue], tile: Tile) -> None:
    """A window of another rank holds as many elements as the tile has valid."""
    counts = [1, 1]
    for place, values in enumerate((sizes, tile.valid)):
        for value in values:
            known = b.known.get(value)
            if known is None:
                if len(sizes) == 1 and value in (sizes[0], tile.valid[1]):
                    return
                b.refuse("a window of another rank than the tile needs constant sizes")
            counts[place] *= known
    if counts[0] != counts[1]:
        b.refuse(f"the window has {counts[0]} elements, the tile {counts[1]} valid ones")


def store(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """`tile.store`: the valid part of the tile; the result is the tensor itself. Stated sizes lay it over more than two
    axes; for a matrix they say nothing."""
    tile, target = b.tile(call.args[0]), call.args[2]
    offsets = elements(call.args[1], b)
    rank = len(offsets)
    if len(call.args) > 3 and rank > 2:
        sizes = [index(b, e) for e in elements(call.args[3], b)]
        _check_count(b, sizes, tile)
    elif rank == 1:
        sizes = [tile.valid[1]]
        _check_count(b, sizes, tile)
    else:
        sizes = [b.constant(1)] * (rank - 2) + list(tile.valid)
    place = window(b, target, offsets, sizes, f"{_name(target)}_pview")
    atomic = call.kwargs.get("atomic", AtomicType.None_)
    attributes = {}
    if atomic == AtomicType.Add:
        attributes["atomicType"] = keyword("atomic_type", "atomic_add")
    b.add(REGULAR["pto.tstore"].make([tile.value], [place], attributes))
    if var is not None:
        b.tensors[id(var)] = b.tensor(target)


def view(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`tensor.view`: the same memory under another shape."""
    source = b.tensor(call.args[0])
    if len(call.args) > 2 or not isinstance(var.type, TensorType):
        b.refuse("a view with a valid shape has no form in .pto text")
    if source.type.dtype != var.type.dtype:
        b.refuse("a view has the element type of its tensor")
    b.tensors[id(var)] = viewed(b, var.name, source.pointer, var.type)


def transposed(b: Builder, expr: n.Expr) -> Tensor:
    """A matrix in global memory with its axes swapped: the same bytes under the other strides."""
    tensor, _ = b.view(expr)
    if len(tensor.shape) != 2:
        b.refuse(f"{_name(expr)} has {len(tensor.shape)} dimensions; a matrix is transposed")
    shape, strides = tensor.shape[::-1], tensor.strides[::-1]
    type_ = TensorViewAttr(TensorViewType((None, None), element(tensor.type.dtype)))
    made = MakeTensorViewOp([tensor.pointer, *shape, *strides], [type_], {"layout": keyword("layout", "dn")})
    return Tensor(tensor.pointer, tensor.type, shape, strides, b.value(made, f"{_name(expr)}_dn_view"))


def dim(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`tensor.dim`: no op, the extent is known by name."""
    tensor, axis = b.tensor(call.args[0]), call.args[1]
    if not isinstance(axis, n.ConstInt) or not -len(tensor.shape) <= axis.value < len(tensor.shape):
        b.refuse("the axis is a constant within the tensor's rank")
    b.scalars[id(var)] = tensor.shape[axis.value]


# --- single elements --------------------------------------------------------------------------------------------------


def flat_offset(b: Builder, indices: Sequence[n.Expr], strides: Sequence[SSAValue]) -> SSAValue:
    """Where an element stands: the sum of index times stride, folded where both are known."""
    if len(indices) != len(strides):
        b.refuse(f"{len(indices)} indices for {len(strides)} dimensions")
    fixed = 0
    total: SSAValue | None = None
    places = [index(b, i) for i in indices]
    whole = all(b.known.get(v) is not None for v in (*places, *strides))
    for place, stride in zip(places, strides, strict=True):
        known, step = b.known.get(place), b.known.get(stride)
        if known is not None and known < 0:
            b.refuse(f"index {known} lies before the first element")
        if whole and known is not None and step is not None:
            fixed += known * step
            continue
        if known == 0:
            continue
        term = place if step == 1 else b.value(arith.MuliOp(place, stride), "flat_offset_mul")
        total = term if total is None else b.value(arith.AddiOp(total, term), "flat_offset")
    return b.constant(fixed) if total is None else total


def read(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`tensor.read`: through the pointer, never the view."""
    tensor = b.tensor(call.args[0])
    place = flat_offset(b, elements(call.args[1], b), tensor.strides)
    made = LoadScalarOp([tensor.pointer, place], [scalar_type(tensor.type.dtype)])
    b.scalars[id(var)] = b.value(made, var.name)


def write(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """`tensor.write`."""
    tensor = b.tensor(call.args[0])
    place = flat_offset(b, elements(call.args[1], b), tensor.strides)
    b.add(StoreScalarOp([tensor.pointer, place, scalar(b, call.args[2], tensor.type.dtype)]))
    if var is not None:
        b.tensors[id(var)] = tensor


def read_tile(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`tile.read`: offsets count the elements of the tile's box row after row."""
    tile = b.tile(call.args[0])
    dtype = n.scalar_dtype(var)
    place = _in_tile(b, call, tile)
    if dtype is None:
        b.refuse("an element of a tile is a scalar")
    b.scalars[id(var)] = b.value(GetValueOp([tile.value, place], [scalar_type(dtype)]), var.name)


def write_tile(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """`tile.write`: in place; the result is the tile itself."""
    tile = b.tile(call.args[0])
    place = _in_tile(b, call, tile)
    value = scalar(b, call.args[2])
    if value.type != type_attribute(tile.type.dtype):
        b.refuse(f"a {value.type} cannot be an element of {tile.type.brief()}")
    b.add(REGULAR["pto.tsetval"].make([place, value], [tile.value]))
    if var is not None:
        b.tiles[id(var)] = tile


def _in_tile(b: Builder, call: n.OpCall, tile: Tile) -> SSAValue:
    indices = elements(call.args[1], b)
    strides = [b.constant(tile.type.cols), b.constant(1)][-len(indices) :]
    if tile.type.boxed or (tile.type.blayout != "row_major" and tile.type.cols > 1):
        b.refuse("elements of a tile that is not stored row after row have no flat offset")
    return flat_offset(b, indices, strides)
