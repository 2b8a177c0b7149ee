"""Records of the ops that change shape or valid region: reshape, transpose, views, concat, set_validshape."""

from __future__ import annotations

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import MemorySpace, PadValue, TensorLayout, TileLayout
from pypto_lab.ir.types import ShapedType, TensorType, TileType, Type, constant_dims, tile_layout
from pypto_lab.ops.record import OPS, Arg, Attr, Effect, Op, Operands, Side, Torch
from pypto_lab.ops.rules import VEC, Dims, same_dims, show_dims
from pypto_lab.ops.shaping import (
    axis_of,
    check_valid,
    dn_strides,
    optional_integers,
    packed_strides,
    pad_of,
    reshaped_valid,
    same_rank,
    scalar_at,
    shape_at,
    tensor_at,
    tensor_type,
    tile_at,
    tile_type,
    unpinned,
    with_valid,
)

REINTERPRETED = (
    dtypes.INT8, dtypes.INT16, dtypes.INT32, dtypes.INT64,
    dtypes.UINT8, dtypes.UINT16, dtypes.UINT32, dtypes.UINT64,
    dtypes.FP16, dtypes.BF16, dtypes.FP32,
)  # fmt: skip


# --- reshape ---------------------------------------------------------------------------------------------------------


def _same_cells(operands: Operands, source: Dims, shape: Dims) -> None:
    if arith.differ(arith.product(source), arith.product(shape)):
        raise OpError(
            f"{operands.op.name}: {show_dims(source)} and {show_dims(shape)} hold different numbers of cells",
            argument=1,
        )


def _carried(operands: Operands, source: ShapedType, shape: Dims) -> Dims:
    valid = reshaped_valid(source.shape, source.valid_shape, shape)
    if valid is None:
        raise OpError(
            f"{operands.op.name}: the valid region {show_dims(source.valid_shape)} of {show_dims(source.shape)} "
            f"is no rectangle of the shape {show_dims(shape)}",
            argument=1,
            hint="fill the rest first with pl.fillpad, or reshape before narrowing",
        )
    return valid


def _reshaped_tensor(operands: Operands) -> Type:
    source, shape = tensor_at(operands, 0), shape_at(operands, 1)
    _same_cells(operands, source.shape, shape)
    valid = _carried(operands, source, shape)
    stated = optional_integers(operands, 2)
    if stated is not None:
        same_rank(operands, 2, stated, len(shape), "the shape")
        check_valid(operands, 2, stated, valid)
        valid = stated
    return tensor_type(shape, source.dtype, valid)


def _reshaped_tile(operands: Operands) -> Type:
    source, shape = tile_at(operands, 0), shape_at(operands, 1, constant=True)
    _same_cells(operands, source.shape, shape)
    return tile_type(shape, source.dtype, source.memory_space, _carried(operands, source, shape))


# --- transpose -------------------------------------------------------------------------------------------------------


def _swap(dims: Dims, first: int, second: int) -> Dims:
    swapped = list(dims)
    swapped[first], swapped[second] = swapped[second], swapped[first]
    return tuple(swapped)


def _axes(operands: Operands, source: ShapedType) -> tuple[int, int]:
    first, second = axis_of(operands, 1, source.rank), axis_of(operands, 2, source.rank)
    if first == second:
        raise OpError(f"{operands.op.name} swaps two different axes, both are {first}", argument=2)
    return first, second


def _transposed_tensor(operands: Operands) -> Type:
    source = tensor_at(operands, 0)
    first, second = _axes(operands, source)
    shape = _swap(source.shape, first, second)
    valid = optional_integers(operands, 3)
    if valid is None:
        valid = _swap(source.valid_shape, first, second)
    else:
        same_rank(operands, 3, valid, source.rank, "the result")
        check_valid(operands, 3, valid, shape)
    return tensor_type(shape, source.dtype, valid)


def _transposed_tile(operands: Operands) -> Type:
    source = tile_at(operands, 0)
    first, second = _axes(operands, source)
    valid = _swap(source.valid_shape, first, second)
    return tile_type(_swap(source.shape, first, second), source.dtype, source.memory_space, valid)


def _transposed_view(operands: Operands) -> Type:
    source = tile_at(operands, 0)
    if source.rank < 2:
        raise OpError("tile.transpose_view needs at least two axes", argument=0)
    last = source.rank - 1
    blayout, slayout, fractal = tile_layout(source)
    flipped = {TileLayout.row_major: TileLayout.col_major, TileLayout.col_major: TileLayout.row_major}
    return tile_type(
        _swap(source.shape, last - 1, last),
        source.dtype,
        source.memory_space,
        _swap(source.valid_shape, last - 1, last),
        blayout=flipped.get(blayout, blayout),
        slayout=flipped.get(slayout, slayout),
        fractal=fractal,
        pad=pad_of(source),
    )


# --- views -----------------------------------------------------------------------------------------------------------


def _viewed(operands: Operands) -> Type:
    source, layout = tensor_at(operands, 0), operands.attrs.get("layout")
    had = (source.view.layout if source.view is not None else None) or TensorLayout.ND
    wanted = layout or had
    last = source.rank - 1
    if wanted is TensorLayout.DN and source.rank < 2:
        raise OpError("tensor.view: the DN layout needs at least two axes", argument="layout")
    was_dn, is_dn = had is TensorLayout.DN, wanted is TensorLayout.DN
    flipped = was_dn != is_dn
    stated = operands.optional(1)
    given = shape_at(operands, 1) if isinstance(stated, n.MakeTuple) and stated.elements else None
    shape = given or (_swap(source.shape, last - 1, last) if flipped else source.shape)
    _same_cells(operands, source.shape, shape)
    valid = optional_integers(operands, 2)
    if valid is not None:
        same_rank(operands, 2, valid, len(shape), "the shape")
        check_valid(operands, 2, valid, shape)
    else:
        valid = _view_valid(operands, source, shape, (was_dn, is_dn))
    stride = dn_strides(shape) if is_dn else packed_strides(shape)
    kept = tensor_type(shape, source.dtype, valid, layout=wanted, stride=stride, pad=pad_of(source))
    return TensorType(kept.shape, kept.dtype, kept.view, None, source.distributed, source.window_buffer)


def _view_valid(operands: Operands, source: TensorType, shape: Dims, dn: tuple[bool, bool]) -> Dims:
    """The region a view carries, worked out in memory order (DN tensors lie with their last two axes swapped)."""
    was_dn, is_dn = dn

    def in_memory(dims: Dims, swap: bool) -> Dims:
        return _swap(dims, len(dims) - 2, len(dims) - 1) if swap else dims

    stored, box = in_memory(source.shape, was_dn), in_memory(shape, is_dn)
    valid = reshaped_valid(stored, in_memory(source.valid_shape, was_dn), box)
    if valid is None:
        raise OpError(
            f"tensor.view: the valid region {show_dims(source.valid_shape)} is no rectangle of {show_dims(shape)}",
            argument=1,
            hint="state the region yourself with `valid_shape=`",
        )
    return in_memory(valid, is_dn)


def _reinterpreted(operands: Operands) -> Type:
    source, target = operands.shaped(0), operands.attrs["dtype"]
    for dtype in (source.dtype, target):
        if dtype not in REINTERPRETED:
            raise OpError(f"{operands.op.name} cannot see the bytes of {dtype}", argument="dtype")
    if source.dtype == target:
        raise OpError(f"{operands.op.name}: the dtype is {target} already", argument="dtype")
    axis = source.rank - (2 if _column_major(source) else 1)
    shape, valid = (_scaled(operands, dims, axis, source.dtype, target) for dims in (source.shape, source.valid_shape))
    stated = optional_integers(operands, 1)
    if stated is not None and not same_dims(stated, shape):
        if not same_dims(source.shape, source.valid_shape) or constant_dims((*stated, *shape)) is None:
            raise OpError(
                f"{operands.op.name}: only {show_dims(shape)} is possible here; another shape needs a fully valid "
                "source with constant extents",
                argument=1,
            )
        _same_cells(operands, shape, stated)
        shape = valid = stated
    pad = pad_of(source)
    pad = pad if pad in (PadValue.zero, PadValue.null) else None
    if isinstance(source, TileType):
        blayout, slayout, _ = tile_layout(source)
        return tile_type(shape, target, source.memory_space, valid, blayout=blayout, slayout=slayout, pad=pad)
    layout = source.view.layout if isinstance(source, TensorType) and source.view is not None else None
    return tensor_type(shape, target, valid, layout=layout, pad=pad)


def _column_major(source: ShapedType) -> bool:
    if isinstance(source, TileType):
        return source.rank > 1 and tile_layout(source)[0] is TileLayout.col_major
    view = getattr(source, "view", None)
    return view is not None and view.layout is TensorLayout.DN


def _scaled(operands: Operands, dims: Dims, axis: int, old: DType, new: DType) -> Dims:
    bits = arith.mul(dims[axis], old.bits)
    value = arith.constant(bits)
    if value is not None and value % new.bits:
        raise OpError(
            f"{operands.op.name}: {value // old.bits} elements of {old} are no whole number of {new}", argument="dtype"
        )
    ratio = arith.mul(dims[axis], old.bits // new.bits) if old.bits >= new.bits else None
    scaled = ratio if ratio is not None else arith.floordiv(dims[axis], new.bits // old.bits)
    return (*dims[:axis], scaled, *dims[axis + 1 :])


# --- concat and valid regions ----------------------------------------------------------------------------------------


def _joined(operands: Operands) -> Type:
    first, second = operands.shaped(0), operands.shaped(1)
    if isinstance(first, TileType) != isinstance(second, TileType):
        raise OpError(f"{operands.op.name} mixes a tile with a tensor", argument=1)
    if first.dtype != second.dtype:
        raise OpError(
            f"{operands.op.name} joins {first.dtype} and {second.dtype}",
            argument=1,
            hint=f"cast one side: pl.cast(x, {first.dtype})",
        )
    if first.rank != second.rank:
        raise OpError(
            f"{operands.op.name}: {show_dims(first.shape)} and {show_dims(second.shape)} differ in rank", argument=1
        )
    for axis, (a, b) in enumerate(zip(first.shape[:-1], second.shape[:-1], strict=True)):
        if arith.differ(a, b):
            raise OpError(
                f"{operands.op.name} joins columns, but axis {axis} differs: {show_dims(first.shape)} and "
                f"{show_dims(second.shape)}",
                argument=1,
            )
    shape = (*first.shape[:-1], arith.add(first.shape[-1], second.shape[-1]))
    pairs = zip(first.valid_shape[:-1], second.valid_shape[:-1], strict=True)
    rows = [a if arith.same(a, b) else arith.minimum(a, b) for a, b in pairs]
    valid = (*rows, arith.add(first.valid_shape[-1], second.valid_shape[-1]))
    if isinstance(first, TileType):
        return tile_type(shape, first.dtype, first.memory_space or MemorySpace.Vec, valid)
    return tensor_type(shape, first.dtype, valid)


def _revalidated(operands: Operands) -> Type:
    source = operands.shaped(0)
    if source.rank != 2:
        raise OpError(f"{operands.op.name} needs two axes, {show_dims(source.shape)} has {source.rank}", argument=0)
    for index in (1, 2):
        scalar_at(operands, index, integer=True)
    valid = (operands.arg(1), operands.arg(2))
    for index, (extent, full) in enumerate(zip(valid, source.shape, strict=True), start=1):
        check_valid(operands, index, (extent,), (full,))
    return unpinned(with_valid(source, valid))


OPS.add(
    Op(
        "tensor.reshape",
        args=(Arg("input", "tensor"), Arg("shape", "ints"), Arg("valid_shape", "ints", None)),
        attrs=(),
        infer=_reshaped_tensor,
        torch=Torch("reshape", plain="{0}.reshape({1})"),
        doc="The same cells in another shape; the valid region comes along where it stays a rectangle.",
        side=Side.SHARED,
        dsl=("reshape",),
        dsl_order=("input", "shape"),
        source="reference/ops.tsv",
    ),
    Op(
        "tile.reshape",
        args=(Arg("input", "tile"), Arg("shape", "ints")),
        attrs=(),
        infer=_reshaped_tile,
        torch=Torch("reshape", plain="{0}.reshape({1})"),
        doc="The same cells in another shape; the valid region comes along where it stays a rectangle.",
        side=Side.BY_MEMORY,
        pto="pto.treshape",
        dsl=("reshape",),
        output_space="inherit",
    ),
    Op(
        "tensor.transpose",
        args=(
            Arg("input", "tensor"),
            Arg("axis1", "scalar"),
            Arg("axis2", "scalar"),
            Arg("valid_shape", "ints", None),
        ),
        attrs=(),
        infer=_transposed_tensor,
        torch=Torch("transpose"),
        doc="Swaps two axes, and their valid extents.",
        side=Side.SHARED,
        dsl=("transpose",),
        dsl_order=("input", "axis1", "axis2"),
    ),
    Op(
        "tile.transpose",
        args=(
            Arg("input", "tile", spaces=VEC),
            Arg("axis1", "scalar"),
            Arg("axis2", "scalar"),
            Arg("tmp", "tile", None, effect=Effect.NONE, dsl_name="tmp_tile"),
        ),
        attrs=(),
        infer=_transposed_tile,
        torch=Torch("transpose"),
        doc="Swaps two axes, and their valid extents (the compiler declares the result fully valid).",
        pto="pto.ttrans",
        dsl=("transpose",),
        output_space="inherit",
    ),
    Op(
        "tile.transpose_view",
        args=(Arg("input", "tile"),),
        attrs=(),
        infer=_transposed_view,
        torch=Torch("transpose_view", plain="{0}.transpose(-2, -1)"),
        doc="Swaps the last two axes without moving data: the block layouts swap instead.",
        side=Side.BY_MEMORY,
        pto="pto.treshape",
        output_space="inherit",
    ),
    Op(
        "tensor.view",
        args=(Arg("input", "tensor"), Arg("shape", "ints", None), Arg("valid_shape", "ints", None)),
        attrs=(Attr("layout", "tensor_layout", None, printed=False),),
        infer=_viewed,
        torch=Torch("tensor_view"),
        doc="The same memory under another shape and layout (ND, or DN with the last two axes swapped).",
        side=Side.SHARED,
        pto="pto.make_tensor_view",
    ),
    *(
        Op(
            f"{layer}.reinterpret_view",
            args=(Arg("data", layer), Arg("shape", "ints", None)),
            attrs=(Attr("dtype", "dtype"),),
            infer=_reinterpreted,
            torch=Torch("reinterpret_view", result=("shape",)),
            doc="The same bytes read as another dtype; the contiguous axis scales with the element width.",
            side=Side.SHARED if layer == "tensor" else Side.BY_MEMORY,
            pto=None if layer == "tensor" else "pto.treshape",
            dsl=("reinterpret_view",),
            dsl_order=("data", "dtype", "shape"),
            output_space=None if layer == "tensor" else "inherit",
        )
        for layer in ("tensor", "tile")
    ),
    *(
        Op(
            f"{layer}.concat",
            args=(Arg("src0", layer, spaces=spaces), Arg("src1", layer, spaces=spaces)),
            attrs=(),
            infer=_joined,
            torch=Torch("concat", plain="torch.cat([{0}, {1}], dim=-1)"),
            doc="Joins along the last axis; the second operand starts at the first one's valid columns.",
            side=Side.VECTOR,
            pto=None if layer == "tensor" else "pto.tconcat",
            dsl=("concat",),
            source="reference/torch_codegen.md 2.4",
            output_space=None if layer == "tensor" else MemorySpace.Vec,
        )
        for layer, spaces in (("tensor", None), ("tile", VEC))
    ),
    *(
        Op(
            f"{layer}.set_validshape",
            args=(Arg(layer, layer), Arg("valid_rows", "scalar"), Arg("valid_cols", "scalar")),
            attrs=(),
            infer=_revalidated,
            torch=Torch("set_validshape"),
            doc="States how many rows and columns are valid; no data moves, and the region may grow.",
            side=Side.SHARED if layer == "tensor" else Side.VECTOR,
            pto=None if layer == "tensor" else "pto.set_validshape",
            dsl=("set_validshape",),
            source="reference/torch_codegen.md 2.3",
            output_space=None if layer == "tensor" else "inherit",
        )
        for layer in ("tensor", "tile")
    ),
)
