"""Records of the ops between cores: pushes, pops and frees of pipes, lane shards, block and lane numbers."""

from __future__ import annotations

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import MemorySpace, SplitMode
from pypto_lab.ir.types import UNKNOWN, ScalarType, ShapedType, TileType, Type
from pypto_lab.ops.record import OPS, Arg, Attr, Effect, Op, Operands, Side, Torch
from pypto_lab.ops.rules import Dims, show_dim, show_dims
from pypto_lab.ops.shaping import tensor_type, tile_at, tile_type

FORWARD = SplitMode.LEFT_RIGHT_ODD
"""The last split code from cube to vector; the odd ones exist in this direction only."""
BACKWARD = SplitMode.LEFT_RIGHT
SPLIT = Attr("split", "split", 0)
LANE_STRIDE = Attr("lane_stride", "int", None, printed=False)
PIPE_ID = Attr("id", "int", None, printed=False)
POPPED_TYPE = (Attr("shape", "any", None, printed=False), Attr("dtype", "dtype", None, printed=False))
"""How a pop without an annotation says what it takes."""


def _split_code(operands: Operands, last: SplitMode) -> SplitMode:
    """The op's split. Raises OpError for a code that does not exist in its direction."""
    value = operands.attrs.get("split")
    code = 0 if value is None else value
    if not isinstance(code, int) or not 0 <= code <= FORWARD:
        raise OpError(f"{operands.op.name}: split {code!r} is not 0 to {int(FORWARD)}", argument="split")
    if code > last:
        raise OpError(
            f"{operands.op.name}: split {SplitMode(code).name} exists from cube to vector only",
            argument="split",
            hint="make both lanes' parts equally long: split 1 (UP_DOWN) or 2 (LEFT_RIGHT)",
        )
    return SplitMode(code)


def split_axis(split: SplitMode) -> int:
    """The axis a split divides."""
    return 0 if split in (SplitMode.UP_DOWN, SplitMode.UP_DOWN_ODD) else 1


def _check_axis(operands: Operands, source: ShapedType, split: SplitMode) -> int:
    axis = split_axis(split)
    if source.rank <= axis:
        raise OpError(
            f"{operands.op.name}: split {split.name} needs axis {axis}, {show_dims(source.shape)} has none", argument=0
        )
    return axis


# --- pushes, pops, frees ---------------------------------------------------------------------------------------------


def _pushed(last: SplitMode) -> object:
    def rule(operands: Operands) -> Type:
        source, split = tile_at(operands, 0), _split_code(operands, last)
        if split is SplitMode.NONE:
            return UNKNOWN
        axis = _check_axis(operands, source, split)
        if last is FORWARD:
            _check_odd(operands, source, split, axis)
        return UNKNOWN

    return rule


def _check_odd(operands: Operands, source: ShapedType, split: SplitMode, axis: int) -> None:
    """The odd codes need lane 0 exactly one cell longer than lane 1. Raises OpError where that is provably not so."""
    valid, box = arith.constant(source.valid_shape[axis]), arith.constant(source.shape[axis])
    if split < SplitMode.UP_DOWN_ODD or valid is None or box is None:
        return
    stated = operands.attrs.get("lane_stride")
    stride = (box + 1) // 2 if stated is None else int(stated)
    first, second = (min(max(valid - lane * stride, 0), stride) for lane in (0, 1))
    if first - second != 1:
        raise OpError(
            f"{operands.op.name}: split {split.name} gives the lanes {first} and {second} of {valid}; "
            "lane 0 must have one more",
            argument="split",
            hint="lane_stride= moves the start of lane 1",
        )


def _popped(last: SplitMode) -> object:
    def rule(operands: Operands) -> Type:
        """The annotation types a pop; a shape and dtype in the call do too."""
        _split_code(operands, last)
        shape, dtype = operands.attrs.get("shape"), operands.attrs.get("dtype")
        if not isinstance(shape, (list, tuple, n.MakeTuple)) or not isinstance(dtype, DType):
            return UNKNOWN
        dims = shape.elements if isinstance(shape, n.MakeTuple) else tuple(arith.as_expr(d) for d in shape)
        return tile_type(dims, dtype, MemorySpace.Vec if last is FORWARD else MemorySpace.Mat)

    return rule


def _freed(operands: Operands) -> Type:
    tile_at(operands, 0)
    return UNKNOWN


def _ring(operands: Operands) -> Type:
    mask, size = operands.attrs["dir_mask"], operands.attrs["slot_size"]
    if mask not in (1, 2, 3):
        raise OpError(
            f"{operands.op.name}: dir_mask {mask} is not 1 (cube to vector), 2 (vector to cube) or 3 (both)",
            argument="dir_mask",
        )
    if isinstance(size, int) and size <= 0:
        raise OpError(f"{operands.op.name}: a slot of {size} bytes holds no tile", argument="slot_size")
    slots = operands.attrs.get("slot_num")
    if isinstance(slots, int) and slots <= 0:
        raise OpError(f"{operands.op.name}: {slots} slots hold no tile", argument="slot_num")
    return UNKNOWN


def _initialize(core: str, side: Side) -> Op:
    return Op(
        f"system.{core}_initialize_pipe",
        args=(
            Arg("c2v_consumer_buf", "scalar", effect=Effect.NONE),
            Arg("v2c_consumer_buf", "scalar", effect=Effect.NONE),
        ),
        attrs=(
            Attr("dir_mask", "int"),
            Attr("slot_size", "int"),
            Attr("slot_num", "int", None, printed=False),
            Attr("local_slot_num", "int", None, printed=False),
            PIPE_ID,
        ),
        infer=_ring,
        torch=Torch("cross_core_rt.initialize_pipe"),
        doc="Declares a pipe on this core: direction (1 cube to vector, 2 back, 3 both), slot size, number of slots.",
        side=side,
        pto=f"pto.{core}_initialize_pipe",
        dsl=(f"{core}_initialize_pipe",),
        source="reference/torch_codegen.md 2.9",
    )


OPS.add(
    Op(
        "tile.tpush_to_aiv",
        args=(Arg("tile", "tile"),),
        attrs=(SPLIT, LANE_STRIDE, PIPE_ID),
        infer=_pushed(FORWARD),  # type: ignore[arg-type]
        torch=Torch("cross_core_rt.push_to_aiv"),
        doc="Cube to vector: sends a tile, or to each lane its part.",
        side=Side.CUBE,
        pto="pto.tpush_to_aiv",
        dsl=("tpush_to_aiv",),
        source="reference/torch_codegen.md 2.9",
    ),
    Op(
        "tile.tpush_to_aic",
        args=(Arg("tile", "tile"),),
        attrs=(SPLIT, PIPE_ID),
        infer=_pushed(BACKWARD),  # type: ignore[arg-type]
        torch=Torch("cross_core_rt.push_to_aic"),
        doc="Vector to cube: sends this lane's tile.",
        side=Side.VECTOR,
        pto="pto.tpush_to_aic",
        dsl=("tpush_to_aic",),
        source="reference/torch_codegen.md 2.9",
    ),
    Op(
        "tile.tpop_from_aic",
        args=(),
        attrs=(SPLIT, LANE_STRIDE, PIPE_ID, *POPPED_TYPE),
        infer=_popped(FORWARD),  # type: ignore[arg-type]
        torch=Torch("cross_core_rt.pop_from_aic", result=("valid_shape",)),
        doc="Vector side: takes the oldest tile, or this lane's part of it, that the cube has sent.",
        side=Side.VECTOR,
        pto="pto.tpop_from_aic",
        dsl=("tpop_from_aic",),
        source="reference/torch_codegen.md 2.9",
    ),
    Op(
        "tile.tpop_from_aiv",
        args=(),
        attrs=(SPLIT, PIPE_ID, *POPPED_TYPE),
        infer=_popped(BACKWARD),  # type: ignore[arg-type]
        torch=Torch("cross_core_rt.pop_from_aiv", result=("valid_shape",)),
        doc="Cube side: takes the oldest tile of the vector side, the lanes' parts joined.",
        side=Side.CUBE,
        pto="pto.tpop_from_aiv",
        dsl=("tpop_from_aiv",),
        source="reference/torch_codegen.md 2.9",
    ),
    *(
        Op(
            f"system.tfree_to_{core}",
            args=(Arg("tile", "tile"),),
            attrs=(Attr("split", "split", None, printed=False), PIPE_ID),
            infer=_freed,
            torch=Torch(f"cross_core_rt.tfree_to_{core}"),
            doc="Gives the slot of a popped tile back to the ring.",
            side=side,
            pto=f"pto.tfree_from_{core}",
            dsl=(f"tfree_to_{core}",),
            source="reference/torch_codegen.md 2.9",
        )
        for core, side in (("aic", Side.VECTOR), ("aiv", Side.CUBE))
    ),
    _initialize("aic", Side.CUBE),
    _initialize("aiv", Side.VECTOR),
)


# --- shards of a region that both lanes run --------------------------------------------------------------------------


def _rebuilt(source: ShapedType, shape: Dims, valid: Dims, space: MemorySpace) -> Type:
    if isinstance(source, TileType):
        return tile_type(shape, source.dtype, space, valid)
    return tensor_type(shape, source.dtype, valid)


def _sharded(operands: Operands) -> Type:
    source, split = operands.shaped(0), _split_code(operands, FORWARD)
    if split is SplitMode.NONE:
        return _rebuilt(source, source.shape, source.valid_shape, MemorySpace.Vec)
    axis = _check_axis(operands, source, split)
    _check_odd(operands, source, split, axis)
    half = arith.ceildiv(source.shape[axis], 2)
    shape = (*source.shape[:axis], half, *source.shape[axis + 1 :])
    valid = list(source.valid_shape)
    valid[axis] = _lane_extent(valid[axis], half, operands.attrs.get("lane_stride"))
    return _rebuilt(source, shape, tuple(valid), MemorySpace.Vec)


def _lane_extent(valid: n.Expr, half: n.Expr, lane_stride: object) -> n.Expr:
    """A lane's valid extent: clamp(valid - lane * stride, 0, stride), in terms of the lane where the lanes differ."""
    stride = n.const(lane_stride) if isinstance(lane_stride, int) else half
    if arith.same(valid, arith.mul(stride, 2)):
        return stride
    lane = n.OpCall(op="tile.get_subblock_idx", args=(), type=ScalarType(dtypes.INDEX))
    left = arith.sub(valid, arith.mul(lane, stride))
    return arith.minimum(arith.maximum(left, 0), stride)


def _gathered(operands: Operands) -> Type:
    source, split = operands.shaped(0), _split_code(operands, BACKWARD)
    if split is SplitMode.NONE:
        return _rebuilt(source, source.shape, source.valid_shape, MemorySpace.Mat)
    axis = _check_axis(operands, source, split)
    full, valid = source.shape[axis], list(source.valid_shape)
    stated = arith.constant(valid[axis])
    if stated not in (None, 0) and arith.differ(valid[axis], full):
        raise OpError(
            f"{operands.op.name}: lanes valid to {show_dim(valid[axis])} of {show_dim(full)} leave a hole when joined",
            argument=0,
            hint="fill the rest first with pl.fillpad",
        )
    both = arith.mul(full, 2)
    shape = (*source.shape[:axis], both, *source.shape[axis + 1 :])
    valid[axis] = n.const(0) if stated == 0 else both
    return _rebuilt(source, shape, tuple(valid), MemorySpace.Mat)


def _shards(layer: str) -> tuple[Op, Op]:
    return (
        Op(
            f"{layer}.aiv_shard",
            args=(Arg(layer, layer),),
            attrs=(SPLIT, LANE_STRIDE) if layer == "tile" else (SPLIT,),
            infer=_sharded,
            torch=Torch("aiv_shard"),
            doc="Crosses from cube to vector: this lane's half of the split axis, or all of it without a split.",
            side=Side.SHARED,
            dsl=("aiv_shard",),
            source="reference/torch_codegen.md 2.9",
            output_space=MemorySpace.Vec if layer == "tile" else None,
        ),
        Op(
            f"{layer}.aic_gather",
            args=(Arg(layer, layer),),
            attrs=(SPLIT,),
            infer=_gathered,
            torch=Torch("aic_gather"),
            doc="Crosses from vector to cube: joins the two lanes' halves, or passes a value without a split.",
            side=Side.SHARED,
            dsl=("aic_gather",),
            source="reference/torch_codegen.md 2.9",
            output_space=MemorySpace.Mat if layer == "tile" else None,
        ),
    )


def _number(operands: Operands) -> Type:
    return ScalarType(dtypes.INDEX)


OPS.add(
    *_shards("tensor"),
    *_shards("tile"),
    *(
        Op(
            f"{layer}.{name}",
            args=(),
            attrs=(),
            infer=_number,
            torch=Torch(name),
            doc=doc,
            side=Side.VECTOR if name == "get_subblock_idx" else Side.SHARED,
            pto="arith.index_cast" if layer == "tile" else None,
            dsl=(name,) if layer == "tensor" else (),
        )
        for layer in ("tensor", "tile")
        for name, doc in (
            ("get_block_idx", "Which block of an SPMD launch runs this."),
            ("get_block_num", "How many blocks an SPMD launch has."),
            ("get_subblock_idx", "Which vector lane runs this; 0 on the cube and outside groups."),
        )
    ),
)
