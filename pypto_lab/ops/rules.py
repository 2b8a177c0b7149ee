"""Type rules shared by the op records: dtype promotion, broadcasting with valid regions, and building result types."""

from __future__ import annotations

from collections.abc import Sequence

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import MemorySpace, PadValue, TensorLayout, TileLayout
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

Dims = tuple[n.Expr, ...]

VEC = frozenset({MemorySpace.Vec})

# --- showing types in messages --------------------------------------------------------------------------------------


def show_dim(dim: n.Expr) -> str:
    """A dimension as a person writes it."""
    value = arith.constant(dim)
    if value is not None:
        return str(value)
    match dim:
        case n.Var():
            return dim.name
        case n.Binary(op="Min" | "Max"):
            return f"pl.{dim.op.lower()}({show_dim(dim.left)}, {show_dim(dim.right)})"
        case n.Binary():
            return f"({show_dim(dim.left)} {n.BINARY_OPS[dim.op]} {show_dim(dim.right)})"
    return "?"


def show_dims(dims: Sequence[n.Expr]) -> str:
    return "[" + ", ".join(show_dim(d) for d in dims) + "]"


def show_type(type_: ShapedType) -> str:
    kind = "Tile" if isinstance(type_, TileType) else "Tensor"
    return f"{kind}[{show_dims(type_.shape)}, {type_.dtype.name}]"


# --- dtypes ---------------------------------------------------------------------------------------------------------


def promoted(left: DType, right: DType) -> DType:
    """The dtype two operands meet in: floats win over integers, then the wider, then the signed, else the left."""
    if left == right:
        return left
    if left.is_float != right.is_float:
        return left if left.is_float else right
    if left.bits != right.bits:
        return left if left.bits > right.bits else right
    if left.is_signed != right.is_signed:
        return left if left.is_signed else right
    return left


def accumulator(dtype: DType) -> DType:
    """What the cube accumulates products of a dtype in: FP32 for floats, INT32 for integers."""
    return dtypes.FP32 if dtype.is_float else dtypes.INT32


def require_dtype(operands: Operands, index: int, allowed: Sequence[DType], hint: str | None = None) -> None:
    """Raises OpError when an operand's dtype is not one of `allowed`."""
    found = operands.shaped(index).dtype
    if found not in allowed:
        names = ", ".join(d.name for d in allowed)
        wanted = hint or f"cast it first: pl.cast(x, pl.{allowed[0].name})"
        raise OpError(f"{operands.op.name} takes {names}, not {found.name}", argument=index, hint=wanted, code="E303")


def require_integer(operands: Operands, index: int) -> None:
    found = operands.type(index)
    dtype = found.dtype if isinstance(found, (ShapedType, ScalarType)) else None
    if dtype is not None and not dtype.is_integer:
        raise OpError(
            f"{operands.op.name} works on the bits of integers, not on {dtype.name}",
            argument=index,
            hint="cast to an integer dtype first, or use the arithmetic op",
            code="E303",
        )


def require_float(operands: Operands, index: int) -> None:
    found = operands.shaped(index).dtype
    if not found.is_float:
        raise OpError(
            f"{operands.op.name} is defined for floats, not for {found.name}",
            argument=index,
            hint="cast first: pl.cast(x, pl.FP32)",
            code="E303",
        )


def require_same_dtype(operands: Operands, first: int, second: int) -> None:
    left, right = operands.shaped(first).dtype, operands.shaped(second).dtype
    if left != right:
        raise OpError(
            f"{operands.op.name} needs one dtype, but got {left.name} and {right.name}",
            argument=second,
            hint=f"cast one side: pl.cast(x, pl.{left.name})",
            code="E303",
            also={first: f"this is {left.name}"},
        )


def scalar_dtype(operands: Operands, index: int) -> DType:
    """The dtype of a scalar operand. Raises OpError for anything else."""
    found = operands.type(index)
    if not isinstance(found, ScalarType):
        raise OpError(
            f"{operands.op.name} needs a number as `{operands.op.args[index].name}`",
            argument=index,
            hint="use the form without the trailing `s` for two tiles or tensors",
        )
    return found.dtype


# --- shapes ---------------------------------------------------------------------------------------------------------


def same_dims(left: Sequence[n.Expr], right: Sequence[n.Expr]) -> bool:
    """Whether two shapes are provably equal."""
    return len(left) == len(right) and all(arith.same(a, b) for a, b in zip(left, right, strict=True))


def require_same_kind(operands: Operands, first: int, second: int) -> None:
    """Raises OpError when one operand is a tile and the other a tensor."""
    left, right = operands.shaped(first), operands.shaped(second)
    if isinstance(left, TileType) != isinstance(right, TileType):
        tile, tensor = (first, second) if isinstance(left, TileType) else (second, first)
        raise OpError(
            f"{operands.op.name} mixes a tile with a tensor",
            argument=second,
            hint="load the tensor into a tile with pl.load, or store the tile with pl.store",
            also={tile: "this is a tile", tensor: "this is a tensor"},
        )


def broadcast(operands: Operands, first: int, second: int) -> tuple[Dims, Dims]:
    """Shape and valid shape of an elementwise result: extents of 1 stretch, the region is the first operand's (on a
    stretched axis the other's). Raises OpError where the extents provably differ."""
    left, right = operands.shaped(first), operands.shaped(second)
    rank = max(left.rank, right.rank)
    shape: list[n.Expr] = []
    valid: list[n.Expr] = []
    for axis in range(rank):
        a, b = axis - (rank - left.rank), axis - (rank - right.rank)
        if a < 0 or (b >= 0 and arith.constant(left.shape[a]) == 1 and arith.constant(right.shape[b]) != 1):
            shape.append(right.shape[b])
            valid.append(right.valid_shape[b])
            continue
        if b >= 0 and arith.constant(right.shape[b]) != 1 and arith.differ(left.shape[a], right.shape[b]):
            raise OpError(
                f"{operands.op.name} cannot broadcast {show_dims(left.shape)} with {show_dims(right.shape)}: axis "
                f"{axis} is {show_dim(left.shape[a])} here and {show_dim(right.shape[b])} there",
                argument=second,
                hint="extents must be equal, or 1 to be repeated",
                code="E302",
                also={first: f"this has shape {show_dims(left.shape)}"},
            )
        shape.append(left.shape[a])
        valid.append(left.valid_shape[a])
    return tuple(shape), tuple(valid)


# --- result types ---------------------------------------------------------------------------------------------------


def tile_type(
    shape: Dims,
    dtype: DType,
    *,
    valid: Dims | None = None,
    space: MemorySpace = MemorySpace.Vec,
    layout: tuple[TileLayout, TileLayout] | None = None,
    pad: PadValue | None = None,
) -> TileType:
    """A tile type in canonical form: a view states only what differs from the implicit values of the space."""
    plain = TileType(shape, dtype, None, space)
    blayout, slayout, _ = tile_layout(plain)
    view = TileView(
        valid_shape=None if valid is None or same_dims(valid, shape) else valid,
        blayout=None if layout is None or layout[0] is blayout else layout[0],
        slayout=None if layout is None or layout[1] is slayout else layout[1],
        pad=None if pad is PadValue.null else pad,
    )
    stated = (view.valid_shape, view.blayout, view.slayout, view.pad)
    return plain if all(s is None for s in stated) else TileType(shape, dtype, view, space)


def tensor_type(
    shape: Dims, dtype: DType, *, valid: Dims | None = None, layout: TensorLayout | None = None
) -> TensorType:
    """A tensor type whose view states only a narrower valid shape and a layout that is not ND."""
    stated = None if valid is None or same_dims(valid, shape) else valid
    view = None if stated is None and layout is None else TensorView(valid_shape=stated, layout=layout)
    return TensorType(shape, dtype, view)


def like(
    source: ShapedType,
    *,
    shape: Dims | None = None,
    dtype: DType | None = None,
    valid: Dims | None = None,
) -> TileType | TensorType:
    """The result of an elementwise op on `source`: its shape, dtype and valid shape unless given.

    A tile result lies in Vec and keeps the block layouts and the pad mode of a source of the same shape.
    """
    out_shape = source.shape if shape is None else shape
    out_dtype = source.dtype if dtype is None else dtype
    out_valid = source.valid_shape if valid is None else valid
    if isinstance(source, TileType):
        keeps = same_dims(out_shape, source.shape)
        layout = tile_layout(source)[:2] if keeps else None
        pad = source.view.pad if keeps and source.view is not None else None
        return tile_type(out_shape, out_dtype, valid=out_valid, layout=layout, pad=pad)
    return tensor_type(out_shape, out_dtype, valid=out_valid)


def fresh(source: ShapedType, shape: Dims, dtype: DType, valid: Dims) -> TileType | TensorType:
    """A result of another shape: a Vec tile of implicit layout, or a tensor, as `source` is."""
    if isinstance(source, TileType):
        return tile_type(shape, dtype, valid=valid)
    return tensor_type(shape, dtype, valid=valid)


# --- what `plain` templates need to know ----------------------------------------------------------------------------


def operand_dtypes(call: n.OpCall) -> set[DType]:
    """The dtypes of a call's tensor and tile operands."""
    return {a.type.dtype for a in call.args if isinstance(a.type, ShapedType)}


def operand_dtypes_of(call: n.OpCall, index: int) -> set[DType]:
    """The dtype of one tensor or tile operand, as a set (empty for a scalar)."""
    found = call.args[index].type
    return {found.dtype} if isinstance(found, ShapedType) else set()


def scalar_fits(call: n.OpCall, dtype: DType) -> bool:
    """Whether every scalar operand is of the same family as `dtype` (torch then narrows it as the hardware does)."""
    scalars = [a.type.dtype for a in call.args if isinstance(a.type, ScalarType)]
    return all(s.is_float == dtype.is_float and s != dtypes.BOOL for s in scalars)


TORCH_ARITHMETIC = frozenset(
    {
        dtypes.FP32, dtypes.FP16, dtypes.BF16,
        dtypes.INT8, dtypes.INT16, dtypes.INT32, dtypes.INT64, dtypes.INDEX, dtypes.UINT8,
    }
)  # fmt: skip
"""Dtypes whose torch arithmetic wraps and rounds once, as the hardware does."""
TORCH_FLOATS = frozenset({dtypes.FP32, dtypes.FP16, dtypes.BF16})


def one_torch_dtype(call: n.OpCall) -> bool:
    """Whether all operands and the result share one dtype torch computes in natively."""
    found = operand_dtypes(call)
    return len(found) == 1 and found <= TORCH_ARITHMETIC and _result_dtype(call) in found


def one_torch_float(call: n.OpCall) -> bool:
    found = operand_dtypes(call)
    return len(found) == 1 and found <= TORCH_FLOATS and _result_dtype(call) in found


def fp32_with_scalar(call: n.OpCall) -> bool:
    """FP32 with a float scalar: torch narrows the scalar to the dtype first only in this case."""
    return operand_dtypes(call) == {dtypes.FP32} == {_result_dtype(call)} and scalar_fits(call, dtypes.FP32)


def arithmetic_with_scalar(call: n.OpCall) -> bool:
    """FP32 with a float scalar, or INT32 with an integer scalar that is INT32 too."""
    if fp32_with_scalar(call):
        return True
    scalars = {a.type.dtype for a in call.args if isinstance(a.type, ScalarType)}
    return operand_dtypes(call) == {dtypes.INT32} == {_result_dtype(call)} and scalars == {dtypes.INT32}


def _result_dtype(call: n.OpCall) -> DType | None:
    return call.type.dtype if isinstance(call.type, ShapedType) else None


def static_dims(type_: ShapedType) -> tuple[int, ...] | None:
    """The full shape as integers when it is static."""
    return constant_dims(type_.shape)
