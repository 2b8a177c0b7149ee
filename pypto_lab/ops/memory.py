"""Records of the ops that allocate and move data: create, load, store, slice, assemble, extract, move, read, write."""

from __future__ import annotations

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.enums import CUBE_SPACES, AtomicType, MemorySpace, PadValue, TensorLayout, TileLayout
from pypto_lab.ir.types import PTR, ScalarType, ShapedType, Type, constant_dims, tile_layout
from pypto_lab.ops.record import OPS, Arg, Attr, Effect, Op, Operands, Side, Torch
from pypto_lab.ops.rules import VEC, Dims, show_dims
from pypto_lab.ops.shaping import (
    axis_of,
    check_fits,
    check_valid,
    integers,
    optional_integers,
    pad_of,
    same_rank,
    scalar_at,
    shape_at,
    tensor_at,
    tensor_type,
    tile_at,
    tile_type,
    unpinned,
    window_valid,
    written,
)

CLAMP_HINT = "clamp=True cuts the window to the edge; `valid_shape=` says how much of it exists"
NARROWING = {(dtypes.FP32, dtypes.BF16), (dtypes.FP32, dtypes.FP16)}
"""Element types `tile.assemble` may convert between (from, to)."""
STORE_CONVERSIONS = NARROWING | {(dtypes.INT32, dtypes.FP16), (dtypes.INT32, dtypes.INT8), (dtypes.FP32, dtypes.INT8)}
"""What the path from the accumulator to global memory converts (from, to)."""


def stated_pad(value: object) -> PadValue | None:
    """The pad mode a view states for a `pad_value`: its member, or the one a number means."""
    if isinstance(value, PadValue):
        return value
    if isinstance(value, (int, float)):
        numbers = {0.0: PadValue.zero, float("inf"): PadValue.max, float("-inf"): PadValue.min}
        return numbers.get(float(value))
    return None


# --- allocation ------------------------------------------------------------------------------------------------------


def _created_tensor(operands: Operands) -> Type:
    layout = operands.attrs.get("layout")
    return tensor_type(shape_at(operands, 0), operands.attrs["dtype"], layout=layout)


def _created_l1(operands: Operands) -> Type:
    return tensor_type(shape_at(operands, 0, constant=True), operands.attrs["dtype"])


def _created_tile(operands: Operands) -> Type:
    shape = shape_at(operands, 0, constant=True)
    blayout = slayout = None
    if operands.attrs.get("transpose"):
        blayout, slayout = TileLayout.row_major, TileLayout.col_major
    elif operands.attrs.get("flat_layout"):
        blayout, slayout = TileLayout.row_major, TileLayout.none_box
    space = operands.attrs["target_memory"]
    return tile_type(shape, operands.attrs["dtype"], space, blayout=blayout, slayout=slayout)


def _pointer(operands: Operands) -> Type:
    return PTR


def _extent(operands: Operands) -> Type:
    axis_of(operands, 1, tensor_at(operands, 0).rank)
    return ScalarType(dtypes.INDEX)


OPS.add(
    Op(
        "tensor.create",
        args=(Arg("shape", "ints"),),
        attrs=(
            Attr("dtype", "dtype"),
            Attr("layout", "tensor_layout", TensorLayout.ND),
            Attr("manual_dep", "bool", False, printed=False),
            Attr("init_value", "float", None, printed=False),
        ),
        infer=_created_tensor,
        torch=Torch("create", result=("valid_shape",)),
        doc="A new tensor in global memory; its cells are undefined unless `init_value` fills them.",
        side=Side.SHARED,
        dsl=("create_tensor",),
    ),
    Op(
        "tensor.create_l1",
        args=(Arg("shape", "ints"),),
        attrs=(Attr("dtype", "dtype"), Attr("transpose", "bool", False)),
        infer=_created_l1,
        torch=Torch("create", result=("valid_shape",)),
        doc="A new accumulator in L1 that is typed as a tensor, to be filled row by row with `gather_row`.",
        side=Side.SHARED,
        dsl=("create_l1",),
    ),
    Op(
        "tensor.alloc",
        args=(Arg("memory_space", "memory", effect=Effect.NONE), Arg("size", "scalar", effect=Effect.NONE)),
        attrs=(),
        infer=_pointer,
        torch=Torch("alloc"),
        doc="Declares an allocation in global memory; the result is its identity, not its contents.",
        side=Side.SHARED,
    ),
    Op(
        "tile.create",
        args=(Arg("shape", "ints"),),
        attrs=(
            Attr("dtype", "dtype"),
            Attr("target_memory", "memory", MemorySpace.Vec),
            Attr("transpose", "bool", None, printed=False),
            Attr("flat_layout", "bool", None, printed=False),
        ),
        infer=_created_tile,
        torch=Torch("create", result=("valid_shape",)),
        doc="A new on-chip tile with undefined cells.",
        side=Side.SHARED,
        pto="pto.alloc_tile",
        dsl=("create_tile",),
        output_space="target_memory",
    ),
    Op(
        "tile.alloc",
        args=(Arg("memory_space", "memory", effect=Effect.NONE), Arg("size", "scalar", effect=Effect.NONE)),
        attrs=(Attr("pinned", "bool", False, printed=False),),
        infer=_pointer,
        torch=Torch("alloc"),
        doc="Declares an on-chip allocation; the result is its identity, not its contents.",
        side=Side.SHARED,
    ),
    Op(
        "tensor.dim",
        args=(Arg("tensor", "tensor"), Arg("axis", "scalar")),
        attrs=(),
        infer=_extent,
        torch=Torch("dim", plain="{0}.shape[{1}]"),
        doc="The full extent of an axis at run time.",
        side=Side.SHARED,
        dsl=("dim",),
    ),
)


# --- load and store --------------------------------------------------------------------------------------------------


def _requested(operands: Operands, index: int, window: Dims) -> Dims:
    """The valid shape asked for: the argument where it is given, else the window."""
    stated = optional_integers(operands, index)
    if stated is None:
        return window
    same_rank(operands, index, stated, len(window), "the window")
    check_valid(operands, index, stated, window)
    return stated


def _loaded(operands: Operands) -> Type:
    source = tensor_at(operands, 0)
    offsets, window = integers(operands, 1), shape_at(operands, 2, constant=True)
    same_rank(operands, 1, offsets, source.rank, "the tensor")
    if len(window) > source.rank:
        raise OpError(
            f"tile.load: a window {show_dims(window)} has more axes than the tensor {show_dims(source.shape)}",
            argument=2,
        )
    space, clamp = operands.attrs["target_memory"], operands.attrs["clamp"]
    if space in CUBE_SPACES - {MemorySpace.Mat}:
        raise OpError(
            f"tile.load cannot bring global memory to {space.name}",
            argument="target_memory",
            hint=f"load to pl.Mem.Mat, then pl.move(..., target_memory=pl.Mem.{space.name})",
        )
    wanted = _requested(operands, 3, window)
    lead = source.rank - len(window)
    if not clamp:
        lifted = (*(n.const(1) for _ in range(lead)), *wanted)
        check_fits(operands, 1, offsets, lifted, source.shape, of="the tensor", hint=CLAMP_HINT)
    valid = wanted if lead else window_valid(source, offsets, wanted, clamp=clamp)
    return tile_type(window, source.dtype, space, valid)


def _stored(operands: Operands) -> Type:
    tile, offsets, target = tile_at(operands, 0), integers(operands, 1), tensor_at(operands, 2)
    same_rank(operands, 1, offsets, target.rank, "the target")
    if tile.memory_space not in (None, MemorySpace.Vec, MemorySpace.Acc):
        raise OpError(
            f"tile.store writes tiles of Vec or Acc, this one is in {tile.memory_space.name}",
            argument=0,
            hint="move it first: pl.move(tile, target_memory=pl.Mem.Vec)",
        )
    converts = tile.memory_space is MemorySpace.Acc and (tile.dtype, target.dtype) in STORE_CONVERSIONS
    if tile.dtype != target.dtype and not converts:
        raise OpError(
            f"tile.store: the tile is {tile.dtype}, the tensor {target.dtype}",
            argument=0,
            hint=f"cast it first: pl.cast(tile, {target.dtype})",
            also={2: f"this is {target.dtype}"},
        )
    partition = optional_integers(operands, 3)
    if partition is not None:
        same_rank(operands, 3, partition, target.rank, "the target")
        check_fits(operands, 1, offsets, partition, target.shape, of="the target")
        return target
    valid = _at_rank(operands, tile, target)
    check_fits(operands, 1, offsets, valid, target.shape, of="the target")
    return written(operands, target, valid, offsets, 1)


def _at_rank(operands: Operands, source: ShapedType, target: ShapedType) -> Dims:
    """The source's valid shape with leading unit axes added or removed to the target's rank. Raises OpError."""
    surplus = source.rank - target.rank
    if surplus <= 0:
        return (*(n.const(1) for _ in range(-surplus)), *source.valid_shape)
    if any(arith.constant(extent) != 1 for extent in source.shape[:surplus]):
        raise OpError(
            f"{operands.op.name}: {show_dims(source.shape)} does not fit a target of rank {target.rank}", argument=0
        )
    return source.valid_shape[surplus:]


OPS.add(
    Op(
        "tile.load",
        args=(
            Arg("tensor", "tensor"),
            Arg("offsets", "ints"),
            Arg("shapes", "ints"),
            Arg("valid_shape", "ints", None),
        ),
        attrs=(Attr("target_memory", "memory", MemorySpace.Vec), Attr("clamp", "bool", False, printed=False)),
        infer=_loaded,
        torch=Torch("tile_load"),
        doc="Copies a window of a tensor to a tile; valid is what was asked for, cut to what the tensor has.",
        side=Side.BY_MEMORY,
        pto="pto.tload",
        dsl=("load",),
        source="reference/torch_codegen.md 2.2",
        output_space="target_memory",
    ),
    Op(
        "tile.store",
        args=(
            Arg("tile", "tile", spaces=frozenset({MemorySpace.Vec, MemorySpace.Acc})),
            Arg("offsets", "ints"),
            Arg("output_tensor", "tensor", effect=Effect.WRITE),
            Arg("shapes", "ints", None),
        ),
        attrs=(Attr("atomic", "atomic", AtomicType.None_, printed=False),),
        infer=_stored,
        torch=Torch("tile_store", writes=2, memory=True),
        doc="Writes a tile's valid rectangle to a tensor, or adds to it with `atomic`; returns the tensor.",
        side=Side.BY_MEMORY,
        pto="pto.tstore",
        dsl=("store",),
        source="reference/torch_codegen.md 2.2",
    ),
)


# --- windows ---------------------------------------------------------------------------------------------------------


def _dropped(operands: Operands, shape: Dims, keep: int) -> tuple[int, ...]:
    """The axes `drop_dims` erases. Raises OpError for one that is not a constant unit axis."""
    stated = optional_integers(operands, 4)
    if stated is None:
        return ()
    axes = []
    for entry in stated:
        axis = arith.constant(entry)
        if axis is None or not -len(shape) <= axis < len(shape):
            raise OpError(f"{operands.op.name}: drop_dims names no axis of {show_dims(shape)}", argument=4)
        axis %= len(shape)
        if arith.constant(shape[axis]) != 1:
            raise OpError(
                f"{operands.op.name}: axis {axis} of {show_dims(shape)} is not 1 and cannot be dropped", argument=4
            )
        axes.append(axis)
    return tuple(sorted(set(axes))[: max(0, len(shape) - keep)])


def _keep(dims: Dims, gone: tuple[int, ...]) -> Dims:
    return tuple(d for axis, d in enumerate(dims) if axis not in gone)


def _keep_valid(valid: Dims, gone: tuple[int, ...]) -> Dims:
    """The valid extents that stay; where a dropped axis has none, nothing is valid."""
    kept = _keep(valid, gone)
    return tuple(n.const(0) for _ in kept) if any(arith.constant(valid[axis]) == 0 for axis in gone) else kept


def _sliced_tensor(operands: Operands) -> Type:
    source, window, offsets = tensor_at(operands, 0), shape_at(operands, 1), integers(operands, 2)
    same_rank(operands, 1, window, source.rank, "the tensor")
    same_rank(operands, 2, offsets, source.rank, "the tensor")
    clamp = operands.attrs["clamp"]
    wanted = _requested(operands, 3, window)
    if not clamp:
        check_fits(operands, 2, offsets, wanted, source.shape, of="the tensor", hint=CLAMP_HINT)
    valid = window_valid(source, offsets, wanted, clamp=clamp)
    gone = _dropped(operands, window, 1)
    layout = None if source.view is None else source.view.layout
    layout = None if layout is TensorLayout.ND else layout
    pad = stated_pad(operands.attrs.get("pad_value"))
    return tensor_type(_keep(window, gone), source.dtype, _keep_valid(valid, gone), layout=layout, pad=pad)


def _sliced_tile(operands: Operands) -> Type:
    source, offsets = tile_at(operands, 0), integers(operands, 2)
    window = shape_at(operands, 1, constant=True)
    same_rank(operands, 1, window, source.rank, "the tile")
    same_rank(operands, 2, offsets, source.rank, "the tile")
    check_fits(operands, 2, offsets, window, source.shape, of="the tile")
    valid = window_valid(source, offsets, _requested(operands, 3, window), clamp=False)
    gone = _dropped(operands, window, 2)
    blayout, slayout, fractal = tile_layout(source)
    return tile_type(
        _keep(window, gone),
        source.dtype,
        source.memory_space,
        _keep_valid(valid, gone),
        blayout=blayout,
        slayout=slayout,
        fractal=fractal,
        pad=stated_pad(operands.attrs.get("pad_value")) or pad_of(source),
    )


def _extracted(operands: Operands) -> Type:
    source, shape = tile_at(operands, 0), shape_at(operands, 3, constant=True)
    if source.rank != 2:
        raise OpError("tile.extract needs a two-dimensional tile", argument=0)
    same_rank(operands, 3, shape, 2, "the tile")
    for index in (1, 2):
        scalar_at(operands, index, integer=True)
    offsets = (operands.arg(1), operands.arg(2))
    check_fits(operands, 1, offsets, shape, source.shape, of="the tile")
    valid = window_valid(source, offsets, shape, clamp=False)
    space = operands.attrs["target_memory"]
    # The extraction engine fills L0A row by row; `tile.move` would fill it column by column.
    blayout = TileLayout.row_major if space is MemorySpace.Left else None
    return tile_type(shape, source.dtype, space, valid, blayout=blayout)


def _assembled_tensor(operands: Operands) -> Type:
    target, source, offsets = tensor_at(operands, 0), tensor_at(operands, 1), integers(operands, 2)
    same_rank(operands, 2, offsets, target.rank, "the target")
    if source.dtype != target.dtype:
        raise OpError(
            f"tensor.assemble: the source is {source.dtype}, the target {target.dtype}",
            argument=1,
            hint=f"cast it first: pl.cast(source, {target.dtype})",
            also={0: f"this is {target.dtype}"},
        )
    valid = _at_rank(operands, source, target)
    check_fits(operands, 2, offsets, valid, target.shape, of="the target")
    return written(operands, target, valid, offsets, 2)


def _assembled_tile(operands: Operands) -> Type:
    target, source, offsets = tile_at(operands, 0), tile_at(operands, 1), integers(operands, 2)
    same_rank(operands, 2, offsets, target.rank, "the target")
    if source.rank != target.rank:
        raise OpError(
            f"tile.assemble: {show_dims(source.shape)} and {show_dims(target.shape)} differ in rank", argument=1
        )
    if source.dtype != target.dtype and (source.dtype, target.dtype) not in NARROWING:
        raise OpError(
            f"tile.assemble: the source is {source.dtype}, the target {target.dtype}",
            argument=1,
            hint=f"cast it first: pl.cast(source, {target.dtype})",
            also={0: f"this is {target.dtype}"},
        )
    check_fits(
        operands,
        2,
        offsets,
        source.shape,
        target.shape,
        of="the target",
        hint="the whole box of the source is inserted",
    )
    return written(operands, unpinned(target), source.valid_shape, offsets, 2)


def _moved(operands: Operands) -> Type:
    source, space = tile_at(operands, 0), operands.attrs["target_memory"]
    blayout, slayout = operands.attrs.get("blayout"), operands.attrs.get("slayout")
    flat = space not in CUBE_SPACES or space is MemorySpace.Bias
    if flat:  # a space without a layout of its own keeps the source's
        own_blayout, own_slayout, _ = tile_layout(source)
        blayout, slayout = blayout or own_blayout, slayout or own_slayout
    return tile_type(
        source.shape,
        source.dtype,
        space,
        source.valid_shape,
        blayout=blayout,
        slayout=slayout,
        pad=pad_of(source),
    )


OPS.add(
    Op(
        "tensor.slice",
        args=(
            Arg("input", "tensor"),
            Arg("shape", "ints"),
            Arg("offset", "ints"),
            Arg("valid_shape", "ints", None),
            Arg("drop_dims", "ints", None),
        ),
        attrs=(Attr("pad_value", "pad", None, printed=False), Attr("clamp", "bool", False, printed=False)),
        infer=_sliced_tensor,
        torch=Torch("tensor_slice"),
        doc="A window of a tensor, seen in place; without `clamp` or `valid_shape` the whole window must exist.",
        side=Side.SHARED,
        dsl=("slice",),
        source="reference/torch_codegen.md 2.2",
    ),
    Op(
        "tile.slice",
        args=(
            Arg("input", "tile"),
            Arg("shape", "ints"),
            Arg("offset", "ints"),
            Arg("valid_shape", "ints", None),
            Arg("drop_dims", "ints", None),
        ),
        attrs=(Attr("pad_value", "pad", None, printed=False),),
        infer=_sliced_tile,
        torch=Torch("tile_slice"),
        doc="A window of a tile; the window must lie inside the tile, unit axes of `drop_dims` go away.",
        side=Side.BY_MEMORY,
        pto="pto.subview",
        dsl=("slice",),
        source="reference/torch_codegen.md 2.2",
        output_space="inherit",
    ),
    Op(
        "tile.extract",
        args=(
            Arg("src", "tile"),
            Arg("index_row", "scalar"),
            Arg("index_col", "scalar"),
            Arg("shape", "ints"),
        ),
        attrs=(Attr("target_memory", "memory", MemorySpace.Vec),),
        infer=_extracted,
        torch=Torch("tile_extract"),
        doc="Copies the sub-tile at (row, column) to another memory; its valid region follows the source's.",
        side=Side.BY_MEMORY,
        pto="pto.textract",
        source="reference/torch_codegen.md 2.2",
        output_space="target_memory",
    ),
    Op(
        "tensor.assemble",
        args=(
            Arg("target", "tensor", effect=Effect.READ_WRITE),
            Arg("source", "tensor"),
            Arg("offset", "ints"),
        ),
        attrs=(Attr("atomic", "atomic", AtomicType.None_, printed=False),),
        infer=_assembled_tensor,
        torch=Torch("assemble", writes=0),
        doc="Writes a tensor's valid rectangle into a target at an offset, or adds to it with `atomic`.",
        side=Side.SHARED,
        dsl=("assemble",),
        source="reference/torch_codegen.md 2.2",
    ),
    Op(
        "tile.assemble",
        args=(
            Arg("target", "tile", effect=Effect.READ_WRITE),
            Arg("source", "tile"),
            Arg("offset", "ints"),
        ),
        attrs=(),
        infer=_assembled_tile,
        torch=Torch("tile_assemble", writes=0),
        doc="Inserts the whole box of a tile, undefined cells included, into a target; FP32 narrows to BF16, FP16.",
        side=Side.BY_MEMORY,
        pto="pto.tinsert",
        dsl=("assemble",),
        source="reference/torch_codegen.md 2.2",
        output_space="inherit",
    ),
    Op(
        "tile.move",
        args=(Arg("tile", "tile"),),
        attrs=(
            Attr("target_memory", "memory"),
            Attr("blayout", "tile_layout", None, printed=False),
            Attr("slayout", "tile_layout", None, printed=False),
        ),
        infer=_moved,
        torch=Torch("move", plain="{0}"),
        doc="Copies a tile to another on-chip memory; values stay, the layout becomes that of the target.",
        side=Side.BY_MEMORY,
        pto="pto.tmov",
        dsl=("move",),
        output_space="target_memory",
    ),
)


# --- single elements -------------------------------------------------------------------------------------------------


def _check_element(operands: Operands, source: ShapedType) -> None:
    index = operands.arg(1)
    places = index.elements if isinstance(index, n.MakeTuple) else (index,)
    if len(places) != source.rank:
        raise OpError(
            f"{operands.op.name} needs {source.rank} indices for {show_dims(source.shape)}, got {len(places)}",
            argument=1,
        )
    for place in places:
        dtype = n.scalar_dtype(place)
        if dtype is not None and not dtype.is_integer:
            raise OpError(f"{operands.op.name}: an index is {dtype}, not an integer", argument=1)
    constants = constant_dims(places)
    bounds = constant_dims(source.shape)
    for axis, value in enumerate(constants or ()):
        if value < 0 or (bounds is not None and value >= bounds[axis]):
            raise OpError(f"{operands.op.name}: index {value} on axis {axis} is outside", argument=1)


def _read_element(operands: Operands) -> Type:
    source = operands.shaped(0)
    _check_element(operands, source)
    return ScalarType(source.dtype)


def _written_element(operands: Operands) -> Type:
    target = operands.shaped(0)
    _check_element(operands, target)
    value = scalar_at(operands, 2)
    if value.is_float and not target.dtype.is_float:
        raise OpError(
            f"{operands.op.name}: a {value} cannot be written to {target.dtype}",
            argument=2,
            hint=f"cast it first: pl.cast(value, {target.dtype})",
        )
    return target


def _element_ops(layer: str, kind: str) -> tuple[Op, Op]:
    tile = layer == "tile"
    spaces = VEC if tile else None
    return (
        Op(
            f"{layer}.read",
            args=(Arg(layer, kind, spaces=spaces), Arg("indices", "ints")),
            attrs=(),
            infer=_read_element,
            torch=Torch("read"),
            doc=f"One element of a {layer} as a scalar.",
            side=Side.VECTOR if tile else Side.SHARED,
            pto="pto.tgetval" if tile else "pto.load_scalar",
            dsl=("read",),
        ),
        Op(
            f"{layer}.write",
            args=(
                Arg(layer, kind, effect=Effect.READ_WRITE if tile else Effect.WRITE, spaces=spaces),
                Arg("indices", "ints"),
                Arg("value", "scalar"),
            ),
            attrs=(),
            infer=_written_element,
            torch=Torch("write", writes=0, memory=True),
            doc=f"Sets one element of a {layer}.",
            side=Side.VECTOR if tile else Side.SHARED,
            pto="pto.tsetval" if tile else "pto.store_scalar",
            dsl=("write",),
        ),
    )


OPS.add(*_element_ops("tensor", "tensor"), *_element_ops("tile", "tile"))
