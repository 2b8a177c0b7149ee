"""Records of comparisons and selection; tile comparisons give bit-packed masks."""

from __future__ import annotations

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.enums import CMP_TYPES, MemorySpace
from pypto_lab.ir.types import ScalarType, Type
from pypto_lab.ops import rules
from pypto_lab.ops.elementwise import scalar_arg, scratch_arg, tensor_arg, tile_arg
from pypto_lab.ops.record import OPS, Arg, Attr, Op, Operands, Torch

_CMP_TYPE = Attr("cmp_type", "int", 0)
_BLOCK_BYTES = 32


def _require_cmp_type(operands: Operands) -> None:
    code = operands.attrs.get("cmp_type", 0)
    if not isinstance(code, int) or not 0 <= code < len(CMP_TYPES):
        names = ", ".join(f"{i} {name}" for i, name in enumerate(CMP_TYPES))
        raise OpError(f"{operands.op.name} has no comparison {code}", argument="cmp_type", hint=f"one of {names}")


def _mask(shape: rules.Dims, valid: rules.Dims) -> Type:
    """A packed mask: one bit a column, rows of whole 32-byte blocks."""
    width = arith.mul(arith.ceildiv(arith.ceildiv(shape[-1], 8), _BLOCK_BYTES), _BLOCK_BYTES)
    bytes_valid = arith.ceildiv(valid[-1], 8)
    return rules.tile_type((*shape[:-1], width), dtypes.UINT8, valid=(*valid[:-1], bytes_valid))


def _infer_cmp(operands: Operands) -> Type:
    _require_cmp_type(operands)
    rules.require_same_kind(operands, 0, 1)
    return _mask(*rules.broadcast(operands, 0, 1))


def _infer_cmps(operands: Operands) -> Type:
    _require_cmp_type(operands)
    rules.scalar_dtype(operands, 1)
    source = operands.shaped(0)
    return _mask(source.shape, source.valid_shape)


def _infer_tensor_cmp(operands: Operands) -> Type:
    """1 or 0 in the dtype of the left operand, fully valid."""
    _require_cmp_type(operands)
    source = operands.shaped(0)
    if isinstance(operands.type(1), ScalarType):
        return rules.like(source)
    rules.require_same_kind(operands, 0, 1)
    shape, _ = rules.broadcast(operands, 0, 1)
    return rules.like(source, shape=shape, valid=shape)


def _require_mask(operands: Operands, columns: n.Expr) -> None:
    mask = operands.shaped(0)
    if mask.dtype not in (dtypes.UINT8, dtypes.BOOL):
        raise OpError(
            f"{operands.op.name} needs a packed UINT8 mask, not {mask.dtype.name}",
            argument=0,
            hint="make one with pl.cmp or pl.cmps",
            code="E303",
        )
    bits, wanted = arith.constant(arith.mul(mask.shape[-1], 8)), arith.constant(columns)
    if bits is not None and wanted is not None and bits < wanted:
        raise OpError(
            f"{operands.op.name}: a mask {rules.show_dims(mask.shape)} has {bits} bits a row, but {wanted} columns are "
            "to be selected",
            argument=0,
            code="E302",
        )


def _infer_sel(operands: Operands) -> Type:
    rules.require_same_dtype(operands, 1, 2)
    _require_mask(operands, operands.shaped(1).shape[-1])
    shape, valid = rules.broadcast(operands, 1, 2)
    return rules.like(operands.shaped(1), shape=shape, valid=valid)


def _infer_sels(operands: Operands) -> Type:
    source = operands.shaped(1)
    rules.scalar_dtype(operands, 3)
    _require_mask(operands, source.shape[-1])
    return rules.like(source)


OPS.add(
    Op(
        name="tensor.cmp",
        args=(tensor_arg("lhs"), Arg("rhs", "value")),
        attrs=(_CMP_TYPE,),
        infer=_infer_tensor_cmp,
        torch=Torch("tensor_cmp"),
        doc="1 where the comparison holds, else 0, in the dtype of lhs; 0 eq, 1 ne, 2 lt, 3 le, 4 gt, 5 ge.",
        dsl=("cmp",),
    ),
    Op(
        name="tile.cmp",
        args=(tile_arg("lhs"), tile_arg("rhs")),
        attrs=(_CMP_TYPE,),
        infer=_infer_cmp,
        torch=Torch("cmp"),
        doc="Packed mask of a comparison; 0 eq, 1 ne, 2 lt, 3 le, 4 gt, 5 ge.",
        pto="pto.tcmp",
        dsl=("cmp",),
        scalar_form="tile.cmps",
        output_space=MemorySpace.Vec,
    ),
    Op(
        name="tile.cmps",
        args=(tile_arg("lhs"), scalar_arg("rhs")),
        attrs=(_CMP_TYPE,),
        infer=_infer_cmps,
        torch=Torch("cmps"),
        doc="Packed mask of a comparison with a number.",
        pto="pto.tcmps",
        dsl=("cmps",),
        output_space=MemorySpace.Vec,
    ),
    Op(
        name="tile.sel",
        args=(tile_arg("mask"), tile_arg("lhs"), tile_arg("rhs"), scratch_arg("tmp")),
        attrs=(),
        infer=_infer_sel,
        torch=Torch("sel"),
        doc="lhs where the packed mask has a 1, else rhs; `tmp` is scratch.",
        pto="pto.tsel",
        dsl=("sel",),
        output_space=MemorySpace.Vec,
    ),
    Op(
        name="tile.sels",
        args=(tile_arg("mask"), tile_arg("src"), scratch_arg("tmp"), scalar_arg("scalar")),
        attrs=(),
        infer=_infer_sels,
        torch=Torch("sels"),
        doc="src where the packed mask has a 1, else the number; `tmp` is scratch.",
        pto="pto.tsels",
        dsl=("sels",),
        output_space=MemorySpace.Vec,
    ),
)
