"""Records of the matrix products: FP32 or INT32 accumulators, transposed and batched forms, vectors, block scales."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import MemorySpace, TensorLayout
from pypto_lab.ir.types import ScalarType, ShapedType, TileType, Type
from pypto_lab.ops import rules
from pypto_lab.ops.elementwise import tensor_arg
from pypto_lab.ops.record import OPS, Arg, Attr, Effect, Op, Operands, Side, Torch

_GEMV_ROWS = 16
"""Physical rows of a vector-matrix product."""

_A_TRANS = Attr("a_trans", "bool", False)
_B_TRANS = Attr("b_trans", "bool", False)
_ACC_PHASE = Attr("acc_phase", "str", "unspecified")


def cube_arg(name: str, space: MemorySpace, *, effect: Effect = Effect.READ) -> Arg:
    return Arg(name, "tile", effect=effect, spaces=frozenset({space}))


def _operands(with_acc: bool = False) -> tuple[Arg, ...]:
    pair = (cube_arg("lhs", MemorySpace.Left), cube_arg("rhs", MemorySpace.Right))
    return (_ACC, *pair) if with_acc else pair


_ACC = cube_arg("acc", MemorySpace.Acc, effect=Effect.READ_WRITE)
_BIAS = cube_arg("bias", MemorySpace.Bias)
_MX = (
    cube_arg("lhs", MemorySpace.Left),
    cube_arg("lhs_scale", MemorySpace.LeftScale),
    cube_arg("rhs", MemorySpace.Right),
    cube_arg("rhs_scale", MemorySpace.RightScale),
)


# --- type rules -----------------------------------------------------------------------------------------------------


def _matrix(operands: Operands, index: int, swap: bool) -> tuple[rules.Dims, rules.Dims]:
    """Shape and valid shape of an operand, its last two axes swapped when `swap`."""
    found = operands.shaped(index)
    if found.rank < 2:
        raise OpError(
            f"{operands.op.name} multiplies matrices, but this is {rules.show_dims(found.shape)}",
            argument=index,
            hint="reshape it to two axes",
            code="E302",
        )
    shape, valid = found.shape, found.valid_shape
    if not swap:
        return shape, valid
    return (*shape[:-2], shape[-1], shape[-2]), (*valid[:-2], valid[-1], valid[-2])


def _lead(operands: Operands, left: rules.Dims, right: rules.Dims, second: int) -> rules.Dims:
    """The batch axes of two operands, extents of 1 repeated."""
    rank = max(len(left), len(right))
    padded = [(n.const(1),) * (rank - len(dims)) + dims for dims in (left, right)]
    out: list[n.Expr] = []
    for a, b in zip(*padded, strict=True):
        if arith.constant(a) != 1 and arith.constant(b) != 1 and arith.differ(a, b):
            raise OpError(
                f"{operands.op.name} cannot pair batches {rules.show_dims(left)} and {rules.show_dims(right)}",
                argument=second,
                hint="batch extents must be equal, or 1 to be repeated",
                code="E302",
            )
        out.append(b if arith.constant(a) == 1 else a)
    return tuple(out)


def _product(
    operands: Operands, first: int, second: int, *, a_trans: bool = False, b_trans: bool = False
) -> tuple[rules.Dims, rules.Dims]:
    """Shape and valid shape of lhs @ rhs. Raises OpError where the inner extents provably differ."""
    rules.require_same_kind(operands, first, second)
    left, left_valid = _matrix(operands, first, a_trans)
    right, right_valid = _matrix(operands, second, b_trans)
    if arith.differ(left[-1], right[-2]) and arith.differ(left_valid[-1], right_valid[-2]):
        raise OpError(
            f"{operands.op.name} needs equal inner extents, but lhs {rules.show_dims(left)} has "
            f"{rules.show_dim(left[-1])} columns and rhs {rules.show_dims(right)} has {rules.show_dim(right[-2])} rows",
            argument=second,
            hint=_transpose_hint(left, right, isinstance(operands.shaped(first), TileType)),
            code="E302",
            also={first: f"this has shape {rules.show_dims(left)}"},
        )
    shape = (*_lead(operands, left[:-2], right[:-2], second), left[-2], right[-1])
    valid = (*_lead(operands, left_valid[:-2], right_valid[:-2], second), left_valid[-2], right_valid[-1])
    return shape, valid


def _transpose_hint(left: rules.Dims, right: rules.Dims, tiles: bool) -> str:
    if arith.same(left[-1], right[-1]):
        return "swap rhs: pl.tile.transpose_view(rhs)" if tiles else "did you mean b_trans=True?"
    return "slice or pad one operand so that the inner extents agree"


def _accumulated(operands: Operands, first: int, second: int) -> DType:
    rules.require_same_dtype(operands, first, second)
    return rules.accumulator(operands.shaped(first).dtype)


def _infer_tile_matmul(operands: Operands) -> Type:
    dtype = _accumulated(operands, 0, 1)
    shape, valid = _product(operands, 0, 1)
    return rules.tile_type(shape, dtype, valid=valid, space=MemorySpace.Acc)


def _infer_tensor_matmul(operands: Operands) -> Type:
    """`out_dtype`, else the promoted dtype of the operands; `c_matrix_nz` gives the NZ layout."""
    attrs = operands.attrs
    shape, valid = _product(operands, 0, 1, a_trans=bool(attrs.get("a_trans")), b_trans=bool(attrs.get("b_trans")))
    stated = attrs.get("out_dtype")
    promoted = rules.promoted(operands.shaped(0).dtype, operands.shaped(1).dtype)
    dtype = stated if isinstance(stated, DType) else promoted
    return rules.tensor_type(shape, dtype, valid=valid, layout=TensorLayout.NZ if attrs.get("c_matrix_nz") else None)


def _require_accumulator(operands: Operands, dtype: DType, shape: rules.Dims) -> ShapedType:
    """The accumulator's type. Raises OpError unless its dtype and box are those of the product."""
    acc = operands.shaped(0)
    if acc.dtype != dtype:
        raise OpError(
            f"{operands.op.name} accumulates in {dtype.name}, but acc is {acc.dtype.name}",
            argument=0,
            hint=f"start from pl.matmul(..., out_dtype=pl.{dtype.name})",
            code="E303",
        )
    if acc.rank != len(shape) or any(arith.differ(a, b) for a, b in zip(acc.shape, shape, strict=True)):
        raise OpError(
            f"{operands.op.name} adds a product {rules.show_dims(shape)} to an accumulator "
            f"{rules.show_dims(acc.shape)}",
            argument=0,
            code="E302",
        )
    return acc


def _same_accumulator(acc: ShapedType) -> Type:
    """The accumulator again: its box, dtype and region."""
    if isinstance(acc, TileType):
        return TileType(acc.shape, acc.dtype, acc.view, MemorySpace.Acc)
    return rules.tensor_type(acc.shape, acc.dtype, valid=acc.valid_shape)


def _require_condition(operands: Operands) -> None:
    condition = operands.optional(3)
    if condition is not None and not (
        isinstance(condition.type, ScalarType) and condition.type.dtype in (dtypes.BOOL, dtypes.INDEX)
    ):
        raise OpError(
            f"{operands.op.name} needs a condition as `init_cond`", argument=3, hint="a comparison such as k == 0"
        )


def _infer_matmul_acc(operands: Operands) -> Type:
    _require_condition(operands)
    attrs = operands.attrs
    dtype = _accumulated(operands, 1, 2)
    shape, _ = _product(operands, 1, 2, a_trans=bool(attrs.get("a_trans")), b_trans=bool(attrs.get("b_trans")))
    return _same_accumulator(_require_accumulator(operands, dtype, shape))


def _require_bias(operands: Operands, index: int, dtype: DType, columns: n.Expr) -> None:
    bias = operands.shaped(index)
    one_row = bias.rank == 2 and arith.constant(bias.shape[0]) in (None, 1)
    if not one_row or arith.differ(bias.shape[1], columns) or bias.dtype != dtype:
        raise OpError(
            f"{operands.op.name} adds one row [1, {rules.show_dim(columns)}] of {dtype.name}, but bias is "
            f"{rules.show_type(bias)}",
            argument=index,
            code="E302",
        )


def _infer_matmul_bias(operands: Operands) -> Type:
    dtype = _accumulated(operands, 0, 1)
    shape, valid = _product(operands, 0, 1)
    _require_bias(operands, 2, dtype, shape[-1])
    return rules.tile_type(shape, dtype, valid=valid, space=MemorySpace.Acc)


def _gemv(operands: Operands, first: int, second: int) -> tuple[DType, rules.Dims, rules.Dims]:
    """Dtype, box and region of a vector-matrix product: 16 physical rows, the first valid."""
    dtype = _accumulated(operands, first, second)
    left = operands.shaped(first)
    if left.rank == 2 and arith.differ(left.valid_shape[0], n.const(1)):
        raise OpError(
            f"{operands.op.name} takes one row, but lhs has {rules.show_dim(left.valid_shape[0])}",
            argument=first,
            hint="use pl.matmul for more rows",
            code="E302",
        )
    shape, valid = _product(operands, first, second)
    return dtype, (n.const(_GEMV_ROWS), shape[-1]), (n.const(1), valid[-1])


def _infer_gemv(operands: Operands) -> Type:
    dtype, shape, valid = _gemv(operands, 0, 1)
    return rules.tile_type(shape, dtype, valid=valid, space=MemorySpace.Acc)


def _infer_gemv_bias(operands: Operands) -> Type:
    dtype, shape, valid = _gemv(operands, 0, 1)
    _require_bias(operands, 2, dtype, shape[-1])
    return rules.tile_type(shape, dtype, valid=valid, space=MemorySpace.Acc)


def _infer_gemv_acc(operands: Operands) -> Type:
    dtype, shape, _ = _gemv(operands, 1, 2)
    return _same_accumulator(_require_accumulator(operands, dtype, shape))


def _mx(operands: Operands, first: int) -> tuple[rules.Dims, rules.Dims]:
    """Shape and region of a block-scaled product. Raises OpError for operands that are not FP8 or FP4."""
    allowed = (dtypes.FP8E4M3FN, dtypes.FP8E5M2, dtypes.FP4)
    for index in (first, first + 2):
        rules.require_dtype(operands, index, allowed)
    for index in (first + 1, first + 3):
        rules.require_dtype(
            operands, index, (dtypes.FP8E8M0,), "scales are FP8E8M0, one for 32 cells of the inner axis"
        )
    return _product(operands, first, first + 2)


def _infer_mx(operands: Operands) -> Type:
    shape, valid = _mx(operands, 0)
    return rules.tile_type(shape, dtypes.FP32, valid=valid, space=MemorySpace.Acc)


def _infer_mx_bias(operands: Operands) -> Type:
    shape, valid = _mx(operands, 0)
    _require_bias(operands, 4, dtypes.FP32, shape[-1])
    return rules.tile_type(shape, dtypes.FP32, valid=valid, space=MemorySpace.Acc)


def _infer_mx_acc(operands: Operands) -> Type:
    shape, _ = _mx(operands, 1)
    return _same_accumulator(_require_accumulator(operands, dtypes.FP32, shape))


def _infer_scale_address(operands: Operands) -> Type:
    return operands.type(0)


# --- torch ----------------------------------------------------------------------------------------------------------


def _floats(call: n.OpCall) -> bool:
    return all(d.is_float for d in rules.operand_dtypes(call))


def _plain_tensor_matmul(call: n.OpCall) -> bool:
    """Untransposed floats with an FP32 result: one widened product and no rounding."""
    out = call.type
    return (
        _floats(call)
        and isinstance(out, ShapedType)
        and out.dtype == dtypes.FP32
        and not call.kwargs.get("a_trans")
        and not call.kwargs.get("b_trans")
    )


_PLAIN = "torch.matmul({0}.float(), {1}.float())"


# --- records --------------------------------------------------------------------------------------------------------


def _cube(
    name: str,
    args: Iterable[Arg],
    infer: Callable[[Operands], Type],
    torch: Torch,
    doc: str,
    pto: str | None,
    *,
    attrs: tuple[Attr, ...] = (),
    promoted: bool = True,
) -> Op:
    return Op(
        name=f"tile.{name}",
        args=tuple(args),
        attrs=attrs,
        infer=infer,
        torch=torch,
        doc=doc,
        side=Side.CUBE,
        pto=pto,
        dsl=(name,) if promoted else (),
        output_space=MemorySpace.Acc,
    )


_INIT_COND = Arg("init_cond", "bool", None)

OPS.add(
    Op(
        name="tensor.matmul",
        args=(tensor_arg("lhs"), tensor_arg("rhs")),
        attrs=(
            _A_TRANS,
            _B_TRANS,
            Attr("c_matrix_nz", "bool", False),
            Attr("out_dtype", "dtype", None, printed=False),
        ),
        infer=_infer_tensor_matmul,
        torch=Torch("matmul", _PLAIN, _plain_tensor_matmul, result=("dtype",)),
        doc="lhs @ rhs, batches repeated, accumulated wide and rounded once to `out_dtype` (default: the operands').",
        side=Side.CUBE,
        dsl=("matmul",),
        dsl_order=("lhs", "rhs", "out_dtype", "a_trans", "b_trans", "c_matrix_nz"),
    ),
    Op(
        name="tensor.matmul_acc",
        args=(tensor_arg("acc"), tensor_arg("lhs"), tensor_arg("rhs"), _INIT_COND),
        attrs=(_A_TRANS, _B_TRANS),
        infer=_infer_matmul_acc,
        torch=Torch("tensor_matmul_acc"),
        doc="acc + lhs @ rhs, or lhs @ rhs alone where `init_cond` holds.",
        side=Side.CUBE,
        dsl=("matmul_acc",),
        dsl_order=("acc", "lhs", "rhs", "a_trans", "b_trans", "init_cond"),
    ),
    _cube(
        "matmul",
        _operands(),
        _infer_tile_matmul,
        Torch("matmul", _PLAIN, _floats),
        "lhs @ rhs in FP32 (floats) or INT32 (integers).",
        "pto.tmatmul",
    ),
    _cube(
        "matmul_acc",
        (*_operands(with_acc=True), _INIT_COND),
        _infer_matmul_acc,
        Torch("matmul_acc", writes=0),
        "acc += lhs @ rhs in place; where `init_cond` holds the product replaces acc.",
        "pto.tmatmul.acc",
    ),
    _cube(
        "matmul_bias",
        (*_operands(), _BIAS),
        _infer_matmul_bias,
        Torch("matmul_bias"),
        "lhs @ rhs + bias, where bias is one row in the accumulator's dtype.",
        "pto.tmatmul.bias",
    ),
    _cube(
        "batch_matmul",
        _operands(),
        _infer_tile_matmul,
        Torch("batch_matmul", _PLAIN, _floats),
        "Matrix product of every batch, batches repeated.",
        None,
    ),
    _cube(
        "batch_matmul_acc",
        _operands(with_acc=True),
        _infer_matmul_acc,
        Torch("batch_matmul_acc", writes=0),
        "acc += the product of every batch, in place.",
        None,
        promoted=False,
    ),
    _cube(
        "gemv",
        _operands(),
        _infer_gemv,
        Torch("gemv"),
        "One row times a matrix: 16 physical rows, the first valid.",
        "pto.tgemv",
        attrs=(_ACC_PHASE,),
    ),
    _cube(
        "gemv_acc",
        _operands(with_acc=True),
        _infer_gemv_acc,
        Torch("gemv_acc", writes=0),
        "acc += one row times a matrix, in place.",
        "pto.tgemv.acc",
        attrs=(_ACC_PHASE,),
    ),
    _cube(
        "gemv_bias",
        (*_operands(), _BIAS),
        _infer_gemv_bias,
        Torch("gemv_bias"),
        "One row times a matrix, plus a bias row.",
        "pto.tgemv.bias",
        attrs=(_ACC_PHASE,),
    ),
    _cube(
        "matmul_mx",
        _MX,
        _infer_mx,
        Torch("matmul_mx"),
        "Product of FP8 or FP4 operands whose every 32 cells along the inner axis share an FP8E8M0 scale, in FP32.",
        "pto.tmatmul.mx",
    ),
    _cube(
        "matmul_mx_acc",
        (_ACC, *_MX),
        _infer_mx_acc,
        Torch("matmul_mx_acc", writes=0),
        "acc += the block-scaled product, in place.",
        "pto.tmatmul.mx.acc",
    ),
    _cube(
        "matmul_mx_bias",
        (*_MX, _BIAS),
        _infer_mx_bias,
        Torch("matmul_mx_bias"),
        "Block-scaled product plus a bias row.",
        "pto.tmatmul.mx.bias",
    ),
    Op(
        name="tile.tget_scale_addr",
        args=(Arg("dst_scale", "tile"), Arg("src", "tile", effect=Effect.NONE)),
        attrs=(),
        infer=_infer_scale_address,
        torch=Torch("tget_scale_addr"),
        doc="Binds the address of a scale tile to its data tile; moves no value.",
        side=Side.CUBE,
        pto="pto.tget_scale_addr",
        output_space="inherit",
    ),
)
