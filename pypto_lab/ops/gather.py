"""Records of gather and scatter: by index, by mask pattern, by comparison, by rows and pages of global memory."""

from __future__ import annotations

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import MaskPattern, MemorySpace
from pypto_lab.ir.types import ShapedType, TensorType, TileType, TupleType, Type
from pypto_lab.ops.record import OPS, Arg, Attr, Effect, Op, Operands, Side, Torch
from pypto_lab.ops.rules import VEC, Dims, show_dims
from pypto_lab.ops.shaping import (
    check_fits,
    check_valid,
    integers,
    normal_axis,
    optional_integers,
    pad_of,
    require_dtype,
    same_rank,
    scalar_at,
    shape_at,
    tensor_at,
    tensor_type,
    tile_at,
    tile_type,
    unpinned,
)

INDEX_DTYPES = (dtypes.INT32, dtypes.INT16, dtypes.UINT32, dtypes.UINT16)
COMPARED_DTYPES = (dtypes.FP16, dtypes.FP32, dtypes.INT16, dtypes.INT32)
BLOCK_BYTES = 32
OUT_OF_BOUNDS = ("undefined", "clamp", "wrap", "zero")
"""What `mgather` does with an index outside, by code 0..3."""
COALESCE = ("row", "elem")


def _fresh_like(source: ShapedType, shape: Dims, dtype: DType, valid: Dims) -> Type:
    if isinstance(source, TileType):
        return tile_type(shape, dtype, MemorySpace.Vec, valid)
    return tensor_type(shape, dtype, valid)


def _index_at(operands: Operands, index: int) -> ShapedType:
    found = operands.shaped(index)
    require_dtype(operands, index, found.dtype, INDEX_DTYPES)
    return found


def _same_dtype(operands: Operands, first: int, second: int) -> None:
    left, right = operands.shaped(first).dtype, operands.shaped(second).dtype
    if left != right:
        raise OpError(
            f"{operands.op.name} moves data as it is, but {left} and {right} differ",
            argument=second,
            also={first: f"this is {left}"},
        )


def _same_shape(operands: Operands, first: int, second: int) -> None:
    left, right = operands.shaped(first), operands.shaped(second)
    if left.rank != right.rank or any(arith.differ(a, b) for a, b in zip(left.shape, right.shape, strict=False)):
        raise OpError(
            f"{operands.op.name}: {show_dims(right.shape)} has not the shape {show_dims(left.shape)}", argument=second
        )


# --- along an axis ---------------------------------------------------------------------------------------------------


def _check_along(operands: Operands, source: ShapedType, index: ShapedType, at: int) -> None:
    """Index and source agree on every axis but `dim`. Raises OpError."""
    axis = normal_axis(operands, operands.attrs["dim"], source.rank, "dim")
    if index.rank != source.rank:
        raise OpError(f"{operands.op.name}: the index has rank {index.rank}, the source {source.rank}", argument=at)
    for other, (mine, full) in enumerate(zip(index.shape, source.shape, strict=True)):
        beyond = arith.constant(arith.sub(mine, full))
        if other != axis and beyond is not None and beyond > 0:
            raise OpError(
                f"{operands.op.name}: axis {other} of the index {show_dims(index.shape)} is longer than that of "
                f"{show_dims(source.shape)}",
                argument=at,
            )


def _gathered_along(operands: Operands) -> Type:
    source, index = tensor_at(operands, 0), _index_at(operands, 1)
    _check_along(operands, source, index, 1)
    return tensor_type(index.shape, source.dtype, index.valid_shape)


def _scattered_along(operands: Operands) -> Type:
    target, index = tensor_at(operands, 0), _index_at(operands, 1)
    _check_along(operands, target, index, 1)
    _same_dtype(operands, 0, 2)
    _same_shape(operands, 1, 2)
    return tensor_type(target.shape, target.dtype, target.valid_shape)


# --- tiles by flat index ---------------------------------------------------------------------------------------------


def _gathered_tile(operands: Operands) -> Type:
    source, index = tile_at(operands, 0), _index_at(operands, 1)
    return tile_type(index.shape, source.dtype, MemorySpace.Vec, index.valid_shape)


def _scattered_tile(operands: Operands) -> Type:
    target = tile_at(operands, 0)
    _index_at(operands, 2)
    _same_dtype(operands, 0, 1)
    _same_shape(operands, 2, 1)
    return unpinned(target)


def _gathered_blocks(operands: Operands) -> Type:
    source, offset = tile_at(operands, 0), tile_at(operands, 1)
    require_dtype(operands, 1, offset.dtype, (dtypes.UINT32,))
    dtype = operands.attrs.get("output_dtype") or source.dtype
    cells = BLOCK_BYTES * 8 // dtype.bits
    shape, valid = ((*dims[:-1], arith.mul(dims[-1], cells)) for dims in (offset.shape, offset.valid_shape))
    return tile_type(shape, dtype, MemorySpace.Vec, valid)


# --- by mask and comparison ------------------------------------------------------------------------------------------


def _marked(operands: Operands) -> tuple[int, int]:
    """Every how many columns the pattern marks one, and the first. Raises OpError for an unknown pattern."""
    pattern = operands.attrs["mask_pattern"]
    if not isinstance(pattern, int) or pattern not in [int(m) for m in MaskPattern]:
        names = ", ".join(m.name for m in MaskPattern)
        raise OpError(f"{operands.op.name}: mask_pattern {pattern!r} is none of {names}", argument="mask_pattern")
    if pattern == MaskPattern.P1111:
        return 1, 0
    return (2, pattern - 1) if pattern <= MaskPattern.P1010 else (4, pattern - MaskPattern.P0001)


def _compacted(operands: Operands, dims: Dims) -> Dims:
    """The marked columns of an extent: those below it, counted."""
    step, first = _marked(operands)
    return (*dims[:-1], arith.floordiv(arith.add(dims[-1], step - 1 - first), step))


def _gathered_mask(operands: Operands) -> Type:
    source = operands.shaped(0)
    step, _ = _marked(operands)
    columns = arith.constant(source.shape[-1])
    if columns is not None and columns % step:
        raise OpError(f"{operands.op.name}: {columns} columns are not whole groups of {step}", argument=0)
    dtype = operands.attrs.get("output_dtype") or source.dtype
    if dtype.bits != source.dtype.bits:
        raise OpError(
            f"{operands.op.name} reads the bits anew, so {dtype} must be as wide as {source.dtype}",
            argument="output_dtype",
        )
    shape = (*source.shape[:-1], arith.floordiv(source.shape[-1], step))
    full = arith.same(source.shape[-1], source.valid_shape[-1])
    valid = (*source.valid_shape[:-1], shape[-1]) if full else _compacted(operands, source.valid_shape)
    return _fresh_like(source, shape, dtype, valid)


def _scattered_mask(operands: Operands) -> Type:
    tensor = operands.op.namespace == "tensor"
    target_at, source_at = (1, 0) if tensor else (0, 1)
    target, source = operands.shaped(target_at), operands.shaped(source_at)
    step, _ = _marked(operands)
    _same_dtype(operands, target_at, source_at)
    if target.rank != source.rank or arith.differ(target.shape[-1], arith.mul(source.shape[-1], step)):
        raise OpError(
            f"{operands.op.name}: {show_dims(source.shape)} spread to every {step}. column does not fill "
            f"{show_dims(target.shape)}",
            argument=source_at,
        )
    return (
        unpinned(target)
        if isinstance(target, TileType)
        else tensor_type(target.shape, target.dtype, target.valid_shape)
    )


def _compared(operands: Operands) -> Type:
    source = operands.shaped(0)
    if source.rank != 2:
        raise OpError(f"{operands.op.name} needs two axes", argument=0)
    require_dtype(operands, 0, source.dtype, COMPARED_DTYPES)
    scalar = scalar_at(operands, 1)
    if scalar != source.dtype and not isinstance(operands.arg(1), (n.ConstInt, n.ConstFloat)):
        raise OpError(
            f"{operands.op.name} compares {source.dtype} with {scalar}",
            argument=1,
            hint=f"cast it first: pl.cast(k, {source.dtype})",
        )
    columns = operands.attrs["out_cols"]
    if not isinstance(columns, int) or columns < 1:
        raise OpError(f"{operands.op.name}: out_cols={columns!r} is no width", argument="out_cols")
    rows, one = source.shape[0], n.const(1)
    indices = _fresh_like(source, (rows, n.const(columns)), dtypes.INT32, (source.valid_shape[0], n.const(columns)))
    counts = _fresh_like(source, (one, rows), operands.attrs["count_dtype"], (one, source.valid_shape[0]))
    return TupleType((indices, counts))


# --- rows of global memory -------------------------------------------------------------------------------------------


def _row_gathered(operands: Operands) -> Type:
    target, source = operands.shaped(0), tensor_at(operands, 1)
    to, start, window = integers(operands, 2), integers(operands, 3), shape_at(operands, 4, constant=True)
    same_rank(operands, 2, to, target.rank, "the target")
    same_rank(operands, 3, start, source.rank, "the source")
    same_rank(operands, 4, window, source.rank, "the source")
    if target.dtype != source.dtype:
        raise OpError(
            f"{operands.op.name} copies {source.dtype} rows into {target.dtype}",
            argument=1,
            also={0: f"this is {target.dtype}"},
        )
    wanted = optional_integers(operands, 5)
    if wanted is not None:
        same_rank(operands, 5, wanted, len(window), "the window")
        check_valid(operands, 5, wanted, window)
    moved = wanted or window
    check_fits(operands, 3, start, moved, source.shape, of="the source")
    if source.rank == target.rank:
        placed = (*moved[:-2], moved[-1], moved[-2]) if operands.attrs["transpose"] else moved
        check_fits(operands, 2, to, placed, target.shape, of="the target")
    return unpinned(target)


def _paged(operands: Operands) -> Type:
    source, index, table = tensor_at(operands, 0), tensor_at(operands, 1), tensor_at(operands, 2)
    if source.rank != 2:
        raise OpError("tensor.paged_gather needs a pool of two axes: rows and cells", argument=0)
    for at, found in ((1, index), (2, table)):
        require_dtype(operands, at, found.dtype, (dtypes.INT32, dtypes.INT64, dtypes.UINT32))
    sizes = {name: operands.attrs[name] for name in ("block_size", "size", "max_indices")}
    for name, value in sizes.items():
        if not isinstance(value, int) or value < 1:
            raise OpError(f"tensor.paged_gather: {name}={value!r} is no size", argument=name)
    end = (n.const(operands.attrs["col_off"]), n.const(sizes["size"]))
    check_fits(operands, 0, end[:1], end[1:], source.shape[1:], of="a row of the pool")
    shape: Dims = (n.const(sizes["max_indices"]), n.const(sizes["size"]))
    if operands.attrs["is_trans"]:
        if operands.attrs["space"] is not MemorySpace.Mat:
            raise OpError("tensor.paged_gather: is_trans needs space=pl.Mem.Mat", argument="is_trans")
        shape = (shape[1], shape[0])
    return tensor_type(shape, source.dtype)


def _choice(operands: Operands, name: str, words: tuple[str, ...]) -> str:
    """A keyword given as a word or its code. Raises OpError."""
    value = operands.attrs[name]
    if isinstance(value, str) and value in words:
        return value
    if isinstance(value, int) and 0 <= value < len(words):
        return words[value]
    shown = ", ".join(repr(w) for w in words)
    raise OpError(f"{operands.op.name}: {name}={value!r} is none of {shown}", argument=name)


def _memory_gathered(operands: Operands) -> Type:
    memory, index = tensor_at(operands, 0), operands.shaped(1)
    require_dtype(operands, 1, index.dtype, (dtypes.INT32,))
    by_row = _choice(operands, "coalesce", COALESCE) == "row"
    _choice(operands, "gather_oob", OUT_OF_BOUNDS)
    space = operands.attrs["target_memory"]
    if space not in (MemorySpace.Vec, MemorySpace.Mat):
        raise OpError("tile.mgather fills tiles of Vec or Mat", argument="target_memory")
    if by_row:
        rows, columns = arith.product(index.shape), memory.shape[-1]
        shape: Dims = (rows, columns)
        valid: Dims = (arith.product(index.valid_shape), columns)
    else:
        shape, valid = index.shape, index.valid_shape
    stated = next((i for i in (2, 3) if isinstance(operands.optional(i), n.MakeTuple) and operands.ints(i)), None)
    if stated is not None:
        valid = integers(operands, stated)
        same_rank(operands, stated, valid, len(shape), "the result")
        check_valid(operands, stated, valid, shape)
    return tile_type(shape, memory.dtype, space, valid)


def _memory_scattered(operands: Operands) -> Type:
    source, target = tile_at(operands, 0), tensor_at(operands, 2)
    _index_at(operands, 1)
    _same_shape(operands, 0, 1)
    if source.dtype != target.dtype:
        raise OpError(
            f"tile.mscatter: the tile is {source.dtype}, the tensor {target.dtype}",
            argument=0,
            also={2: f"this is {target.dtype}"},
        )
    return target


def _rows_updated(operands: Operands) -> Type:
    target, index, source = operands.shaped(0), operands.shaped(1), operands.shaped(2)
    if not index.dtype.is_integer:
        raise OpError(f"{operands.op.name}: row numbers are integers, not {index.dtype}", argument=1)
    if operands.attrs["dim"] not in (-2, target.rank - 2):
        raise OpError(f"{operands.op.name} replaces rows: dim is -2", argument="dim")
    _same_dtype(operands, 0, 2)
    if target.rank not in (2, 4) or source.rank != target.rank:
        raise OpError(f"{operands.op.name} takes two values of rank 2, or of rank 4", argument=2)
    if arith.differ(target.shape[-1], source.shape[-1]):
        raise OpError(
            f"{operands.op.name}: rows of {show_dims(source.shape)} do not fit {show_dims(target.shape)}", argument=2
        )
    rows = arith.product(source.shape[:-1])
    short = arith.constant(arith.sub(rows, arith.product(index.shape)))
    if short is not None and short < 0:
        raise OpError(f"{operands.op.name}: more row numbers than rows", argument=1)
    if isinstance(target, TensorType):
        return tensor_type(target.shape, target.dtype, target.valid_shape, pad=pad_of(target))
    return unpinned(target)


# --- records ---------------------------------------------------------------------------------------------------------

MASK = Attr("mask_pattern", "int")
SCATTER_SOURCE = "reference/pto_ops.tsv"


def _gather_compare(layer: str) -> Op:
    tile = layer == "tile"
    return Op(
        f"{layer}.gather_compare",
        args=(
            Arg("src" if tile else "input", layer, spaces=VEC if tile else None),
            Arg("kvalue", "scalar"),
            *((Arg("tmp", "tile", effect=Effect.NONE, spaces=VEC),) if tile else ()),
        ),
        attrs=(
            Attr("cmp_mode", "cmp", 0),
            Attr("offset", "int", 0),
            Attr("out_cols", "int"),
            Attr("count_dtype", "dtype", dtypes.INT32),
        ),
        infer=_compared,
        torch=Torch("gather_compare"),
        doc="Numbers of the columns that compare true with a scalar, row by row, and how many there are.",
        pto="pto.tgather" if tile else None,
        source=SCATTER_SOURCE,
        output_space=MemorySpace.Vec if tile else None,
    )


def _gather_mask(layer: str) -> Op:
    tile = layer == "tile"
    return Op(
        f"{layer}.gather_mask",
        args=(Arg("src" if tile else "input", layer, spaces=VEC if tile else None),),
        attrs=(MASK, Attr("output_dtype", "dtype", None, printed=False)),
        infer=_gathered_mask,
        torch=Torch("gather_mask"),
        doc="The columns a mask pattern marks, side by side; their bits may be read as another dtype.",
        pto="pto.tgather" if tile else None,
        source=SCATTER_SOURCE,
        output_space=MemorySpace.Vec if tile else None,
    )


def _gather_row(layer: str) -> Op:
    tile = layer == "tile"
    return Op(
        f"{layer}.gather_row",
        args=(
            Arg("dst" if tile else "acc", layer, effect=Effect.READ_WRITE),
            Arg("src", "tensor"),
            Arg("dst_offset", "ints"),
            Arg("src_offset", "ints"),
            Arg("shapes", "ints"),
            Arg("valid_shape", "ints", None),
        ),
        attrs=(Attr("transpose", "bool", False),),
        infer=_row_gathered,
        torch=Torch("gather_row", writes=0),
        doc="Copies a window of a tensor straight into a place of an accumulator.",
        side=Side.BY_MEMORY,
        pto="pto.tload" if tile else None,
        dsl=("gather_row",),
        dsl_order=(
            "dst" if tile else "acc",
            "src",
            "dst_offset",
            "src_offset",
            "shapes",
            "transpose",
            "valid_shape",
        ),
        output_space="inherit" if tile else None,
    )


def _scatter_update(layer: str) -> Op:
    tile = layer == "tile"
    spaces = VEC if tile else None
    return Op(
        f"{layer}.scatter_update",
        args=(
            Arg("input", layer, effect=Effect.READ_WRITE if tile else Effect.READ, spaces=spaces),
            Arg("index", layer, spaces=spaces),
            Arg("src", layer, spaces=spaces),
        ),
        attrs=(Attr("dim", "int", -2),),
        infer=_rows_updated,
        torch=Torch("scatter_update", writes=0) if tile else Torch("tensor_scatter_update"),
        doc="Replaces rows: row index.flat[i] becomes row i of the source.",
        pto="pto.tscatter" if tile else None,
        dsl=("scatter_update",),
        dsl_order=("input", "dim", "index", "src"),
        output_space="inherit" if tile else None,
    )


OPS.add(
    Op(
        "tensor.gather",
        args=(Arg("input", "tensor"), Arg("index", "tensor")),
        attrs=(Attr("dim", "int"),),
        infer=_gathered_along,
        torch=Torch("gather_along"),
        doc="Picks along an axis by index: out[b, k] = input[b, index[b, k]].",
        dsl=("gather",),
        dsl_order=("input", "dim", "index"),
    ),
    Op(
        "tensor.scatter",
        args=(Arg("input", "tensor"), Arg("index", "tensor"), Arg("src", "tensor")),
        attrs=(Attr("dim", "int"),),
        infer=_scattered_along,
        torch=Torch("scatter_along"),
        doc="Places along an axis by index: out[b, index[b, k]] = src[b, k], other cells stay.",
        dsl=("scatter",),
        dsl_order=("input", "dim", "index", "src"),
    ),
    Op(
        "tensor.scatter_mask",
        args=(Arg("input", "tensor"), Arg("dst", "tensor")),
        attrs=(MASK,),
        infer=_scattered_mask,
        torch=Torch("tensor_scatter_mask"),
        doc="Spreads columns over those a mask pattern marks; the other columns are those of `dst`.",
        source=SCATTER_SOURCE,
    ),
    Op(
        "tensor.paged_gather",
        args=(Arg("src", "tensor"), Arg("indices", "tensor"), Arg("block_table", "tensor")),
        attrs=(
            Attr("block_size", "int"),
            Attr("size", "int"),
            Attr("col_off", "int", 0),
            Attr("max_indices", "int"),
            Attr("is_trans", "bool", False),
            Attr("is_b_matrix", "bool", False),
            Attr("space", "memory", MemorySpace.Mat),
        ),
        infer=_paged,
        torch=Torch("paged_gather"),
        doc="Gathers rows of a paged pool through a block table into an on-chip buffer.",
        side=Side.CUBE,
        dsl=("paged_gather",),
        dsl_order=(
            "src",
            "indices",
            "block_table",
            "block_size",
            "size",
            "max_indices",
            "space",
            "col_off",
            "is_trans",
            "is_b_matrix",
        ),
    ),
    Op(
        "tile.gather",
        args=(
            Arg("src", "tile", spaces=VEC),
            Arg("indices", "tile", spaces=VEC),
            Arg("tmp", "tile", effect=Effect.NONE, spaces=VEC),
        ),
        attrs=(),
        infer=_gathered_tile,
        torch=Torch("tile_gather"),
        doc="Picks cells of a tile by flat row-major index.",
        pto="pto.tgather",
        source=SCATTER_SOURCE,
        output_space=MemorySpace.Vec,
    ),
    Op(
        "tile.gatherb",
        args=(Arg("src", "tile", spaces=VEC), Arg("offset", "tile", spaces=VEC)),
        attrs=(Attr("output_dtype", "dtype", None, printed=False),),
        infer=_gathered_blocks,
        torch=Torch("gatherb"),
        doc="Picks 32-byte blocks of a tile by byte offset.",
        pto="pto.tgatherb",
        dsl=("gatherb",),
        source=SCATTER_SOURCE,
        output_space=MemorySpace.Vec,
    ),
    Op(
        "tile.scatter",
        args=(
            Arg("dst", "tile", effect=Effect.READ_WRITE, spaces=VEC),
            Arg("src", "tile", spaces=VEC),
            Arg("indexes", "tile", spaces=VEC),
        ),
        attrs=(),
        infer=_scattered_tile,
        torch=Torch("tile_scatter", writes=0),
        doc="Places cells in a tile by flat row-major index.",
        pto="pto.tscatter",
        source=SCATTER_SOURCE,
        output_space="inherit",
    ),
    Op(
        "tile.scatter_mask",
        args=(Arg("dst", "tile", effect=Effect.READ_WRITE, spaces=VEC), Arg("src", "tile", spaces=VEC)),
        attrs=(MASK,),
        infer=_scattered_mask,
        torch=Torch("scatter_mask", writes=0),
        doc="Spreads columns over those a mask pattern marks; the other columns stay.",
        pto="pto.tscatter",
        dsl_order=("dst", "src", "mask_pattern"),
        source=SCATTER_SOURCE,
        output_space="inherit",
    ),
    Op(
        "tile.mgather",
        args=(
            Arg("mem", "tensor"),
            Arg("idx", "shaped"),
            Arg("scratch", "tensor", None, effect=Effect.NONE),
            Arg("valid_shape", "ints", None),
        ),
        attrs=(
            Attr("coalesce", "any", 0),
            Attr("gather_oob", "any", 0),
            Attr("target_memory", "memory", MemorySpace.Vec),
        ),
        infer=_memory_gathered,
        torch=Torch("mgather", result=("shape",)),
        doc="Gathers rows or cells of a tensor by index; indices outside are undefined, clamped, wrapped or zero.",
        side=Side.BY_MEMORY,
        pto="pto.mgather",
        dsl=("mgather",),
        source=SCATTER_SOURCE,
        output_space="target_memory",
    ),
    Op(
        "tile.mscatter",
        args=(
            Arg("src", "tile", spaces=VEC),
            Arg("idx", "tile", spaces=VEC),
            Arg("output_tensor", "tensor", effect=Effect.WRITE),
        ),
        attrs=(),
        infer=_memory_scattered,
        torch=Torch("mscatter", writes=2, memory=True),
        doc="Writes a tile's cells to flat places of a tensor.",
        pto="pto.mscatter",
        dsl=("mscatter",),
        source=SCATTER_SOURCE,
    ),
    *(
        make(layer)
        for make in (_gather_compare, _gather_mask, _gather_row, _scatter_update)
        for layer in ("tensor", "tile")
    ),
)
