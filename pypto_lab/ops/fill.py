"""Records of the ops that make or pad values: full, fillpad family, ramps, triangles, random numbers."""

from __future__ import annotations

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import MemorySpace, PadValue
from pypto_lab.ir.types import ShapedType, TileType, Type, tile_layout
from pypto_lab.ops.memory import stated_pad
from pypto_lab.ops.record import OPS, Arg, Attr, Effect, Op, Operands, Side, Torch
from pypto_lab.ops.rules import VEC, Dims, show_dims
from pypto_lab.ops.shaping import (
    check_valid,
    optional_integers,
    same_rank,
    scalar_at,
    shape_at,
    tensor_type,
    tile_type,
)

RAMP_DTYPES = (dtypes.INT16, dtypes.INT32, dtypes.UINT16, dtypes.UINT32)
RANDOM_DTYPES = (dtypes.INT32, dtypes.UINT32)
TRIANGLE_DTYPES = (
    dtypes.INT8, dtypes.UINT8, dtypes.INT16, dtypes.UINT16, dtypes.INT32, dtypes.UINT32,
    dtypes.FP16, dtypes.BF16, dtypes.FP32,
)  # fmt: skip


def _is_tile(operands: Operands) -> bool:
    return operands.op.namespace == "tile"


def _made(operands: Operands, shape: Dims, valid: Dims | None = None) -> Type:
    """A fresh Vec tile or tensor of the op's `dtype`."""
    dtype = operands.attrs["dtype"]
    return tile_type(shape, dtype, MemorySpace.Vec, valid) if _is_tile(operands) else tensor_type(shape, dtype, valid)


def _check_dtype(operands: Operands, allowed: tuple[DType, ...]) -> None:
    dtype = operands.attrs["dtype"]
    if dtype not in allowed:
        names = ", ".join(d.name for d in allowed)
        raise OpError(f"{operands.op.name} makes {names}, not {dtype.name}", argument="dtype")


def _filled(operands: Operands) -> Type:
    scalar_at(operands, 1)
    return _made(operands, shape_at(operands, 0, constant=_is_tile(operands)))


def _plain_dtype(call: n.OpCall) -> bool:
    """Whether torch itself makes the value: it has the dtype, and a written-out number that needs no wrapping."""
    dtype, value = call.kwargs.get("dtype"), call.args[1] if len(call.args) > 1 else None
    if dtype in (dtypes.FP32, dtypes.FP16, dtypes.BF16):
        return True
    number = getattr(value, "value", None)
    small = isinstance(number, int) and 0 <= number < 1 << 7
    return small and dtype in (dtypes.INT8, dtypes.INT16, dtypes.INT32, dtypes.INT64, dtypes.UINT8)


# --- padding ---------------------------------------------------------------------------------------------------------


def _pad_attribute(operands: Operands) -> PadValue | None:
    value = operands.attrs["pad_value"]
    if value is PadValue.null:
        raise OpError(
            f"{operands.op.name} needs a value to fill with",
            argument="pad_value",
            hint="pl.PadValue.zero, pl.PadValue.min or pl.PadValue.max",
        )
    return stated_pad(value)


def _padded_like(source: ShapedType, shape: Dims, pad: PadValue | None) -> Type:
    if not isinstance(source, TileType):
        return tensor_type(shape, source.dtype, pad=pad)
    blayout, slayout, fractal = tile_layout(source)
    space = source.memory_space
    return tile_type(shape, source.dtype, space, blayout=blayout, slayout=slayout, fractal=fractal, pad=pad)


def _padded(operands: Operands) -> Type:
    source = operands.shaped(0)
    pad = _pad_attribute(operands)
    return _padded_like(source, source.shape, pad if isinstance(source, TileType) else None)


def _padded_wider(operands: Operands) -> Type:
    source, shape = operands.shaped(0), shape_at(operands, 1, constant=_is_tile(operands))
    same_rank(operands, 1, shape, source.rank, "the source")
    for axis, (old, new) in enumerate(zip(source.shape, shape, strict=True)):
        missing = arith.constant(arith.sub(old, new))
        if missing is not None and missing > 0:
            raise OpError(
                f"{operands.op.name}: the box {show_dims(shape)} is smaller than {show_dims(source.shape)} "
                f"on axis {axis}",
                argument=1,
            )
    pad = _pad_attribute(operands)
    return _padded_like(source, shape, pad if isinstance(source, TileType) else None)


# --- generated values ------------------------------------------------------------------------------------------------


def _ramp(operands: Operands) -> Type:
    scalar_at(operands, 0, integer=True)
    shape = shape_at(operands, 1, constant=_is_tile(operands))
    _check_dtype(operands, RAMP_DTYPES)
    for axis, dim in enumerate(shape[:-1]):
        if arith.constant(dim) != 1:
            raise OpError(
                f"{operands.op.name} makes one row; axis {axis} of {show_dims(shape)} is not 1",
                argument=1,
                hint="make [1, columns] and expand it with pl.col_expand",
            )
    if arith.constant(shape[-1]) == 1:
        raise OpError(f"{operands.op.name} needs more than one column", argument=1)
    return _made(operands, shape)


def _triangle(operands: Operands) -> Type:
    scalar_at(operands, 0, integer=True)
    shape = shape_at(operands, 1, constant=True)
    if len(shape) != 2:
        raise OpError(f"tile.tri needs two axes, {show_dims(shape)} has {len(shape)}", argument=1)
    _check_dtype(operands, TRIANGLE_DTYPES)
    return _made(operands, shape, _stated_valid(operands, 2, shape))


def _stated_valid(operands: Operands, index: int, shape: Dims) -> Dims | None:
    valid = optional_integers(operands, index)
    if valid is not None:
        same_rank(operands, index, valid, len(shape), "the shape")
        check_valid(operands, index, valid, shape)
    return valid


def _drawn(operands: Operands) -> Type:
    for index in range(6):
        scalar_at(operands, index, integer=True)
    shape = shape_at(operands, 6, constant=_is_tile(operands))
    _check_dtype(operands, RANDOM_DTYPES)
    if operands.attrs["rounds"] not in (7, 10):
        raise OpError(f"{operands.op.name} runs 7 or 10 rounds", argument="rounds")
    valid = _stated_valid(operands, 7, shape) if _is_tile(operands) else None
    return _made(operands, shape, valid)


def _layer_ops(layer: str) -> tuple[Op, ...]:
    tile = layer == "tile"
    spaces = VEC if tile else None
    made_in = MemorySpace.Vec if tile else None
    side = Side.VECTOR
    pad = Attr("pad_value", "pad", PadValue.zero)
    words = tuple(Arg(name, "scalar") for name in ("key0", "key1", "counter0", "counter1", "counter2", "counter3"))
    valid = (Arg("valid_shape", "ints", None),) if tile else ()
    return (
        Op(
            f"{layer}.full",
            args=(Arg("shape", "ints"), Arg("value", "scalar")),
            attrs=(Attr("dtype", "dtype"),),
            infer=_filled,
            torch=Torch("full", plain="torch.full({0}, {1}, dtype={dtype})", plain_when=_plain_dtype),
            doc=f"A {layer} with one value in every cell.",
            side=side,
            pto="pto.texpands" if tile else None,
            dsl=() if tile else ("full",),
            dsl_order=("shape", "dtype", "value"),
            output_space=made_in,
        ),
        Op(
            f"{layer}.fillpad",
            args=(Arg(layer, layer, spaces=spaces),),
            attrs=(pad,),
            infer=_padded,
            torch=Torch("fillpad"),
            doc="Fills every cell outside the valid region: zero, the least or the greatest value, or a number.",
            side=side,
            pto="pto.tfillpad" if tile else None,
            dsl=("fillpad",),
            source="reference/torch_codegen.md 2.3",
            output_space=made_in,
        ),
        Op(
            f"{layer}.fillpad_expand",
            args=(Arg(layer, layer, spaces=spaces), Arg("shape", "ints")),
            attrs=(pad,),
            infer=_padded_wider,
            torch=Torch("fillpad_expand"),
            doc="Copies the valid region into a larger box and fills every other cell.",
            side=side,
            pto="pto.tfillpad_expand" if tile else None,
            dsl=("fillpad_expand",),
            source="reference/torch_codegen.md 2.3",
            output_space=made_in,
        ),
        Op(
            f"{layer}.ci",
            args=(Arg("start", "scalar"), Arg("shape", "ints")),
            attrs=(
                Attr("dtype", "dtype", dtypes.INT32),
                Attr("descending", "bool", False),
                Attr("tmp", "any", None, printed=False),
            ),
            infer=_ramp,
            torch=Torch("ci"),
            doc="An integer ramp from `start` along the columns of one row.",
            side=side,
            pto="pto.tci" if tile else None,
            dsl=() if tile else ("arange",),
            dsl_order=("start", "shape", "dtype", "descending"),
            output_space=made_in,
        ),
        Op(
            f"{layer}.random",
            args=(*words, Arg("shape", "ints"), *valid),
            attrs=(Attr("dtype", "dtype", dtypes.UINT32), Attr("rounds", "int", 10)),
            infer=_drawn,
            torch=Torch("random"),
            doc="Random 32-bit integers made from a key and a counter (Philox 4x32): same inputs, same numbers.",
            side=side,
            pto="pto.trandom" if tile else None,
            dsl=() if tile else ("random",),
            output_space=made_in,
        ),
    )


OPS.add(
    *_layer_ops("tensor"),
    *_layer_ops("tile"),
    Op(
        "tile.fillpad_inplace",
        args=(Arg("tile", "tile", effect=Effect.READ_WRITE, spaces=VEC),),
        attrs=(Attr("pad_value", "pad", PadValue.zero),),
        infer=_padded,
        torch=Torch("fillpad_inplace", writes=0),
        doc="Fills every cell outside the valid region of a tile, in its own buffer.",
        pto="pto.tfillpad",
        source="reference/torch_codegen.md 2.3",
        output_space=MemorySpace.Vec,
    ),
    Op(
        "tile.tri",
        args=(Arg("diagonal", "scalar"), Arg("shape", "ints"), Arg("valid_shape", "ints", None)),
        attrs=(Attr("dtype", "dtype", dtypes.INT32), Attr("upper", "bool", False)),
        infer=_triangle,
        torch=Torch("tri"),
        doc="A mask of 0 and 1: ones on and below a diagonal, or on and above it with `upper`.",
        pto="pto.ttri",
        dsl=("tri",),
        output_space=MemorySpace.Vec,
    ),
)
