"""Records of the casts: `pl.cast(x, target_type, mode)` with the seven rounding modes."""

from __future__ import annotations

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError, did_you_mean
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import CAST_MODES, MemorySpace
from pypto_lab.ir.types import ShapedType, Type
from pypto_lab.ops import rules
from pypto_lab.ops.elementwise import tensor_arg, tile_arg
from pypto_lab.ops.record import OPS, Attr, Op, Operands, Torch

_ATTRS = (Attr("target_type", "dtype"), Attr("mode", "cast_mode", "round"))


def _infer_cast(operands: Operands) -> Type:
    """Shape, region, layout and pad of the source; the target dtype."""
    mode = operands.attrs.get("mode", "round")
    if mode not in CAST_MODES:
        raise OpError(
            f"{operands.op.name} has no rounding mode {mode!r}",
            argument="mode",
            hint=did_you_mean(str(mode), CAST_MODES) or "one of " + ", ".join(CAST_MODES),
        )
    target = operands.attrs.get("target_type")
    if not isinstance(target, DType):
        raise OpError(f"{operands.op.name} needs a dtype as `target_type`", argument="target_type")
    return rules.like(operands.shaped(0), dtype=target)


_WIDENED: dict[DType, frozenset[DType]] = {
    dtypes.FP16: frozenset({dtypes.FP32}),
    dtypes.BF16: frozenset({dtypes.FP32}),
    dtypes.INT8: frozenset({dtypes.FP32, dtypes.FP16, dtypes.INT16, dtypes.INT32}),
    dtypes.UINT8: frozenset({dtypes.FP32, dtypes.FP16, dtypes.INT16, dtypes.INT32}),
    dtypes.INT16: frozenset({dtypes.FP32, dtypes.INT32}),
    dtypes.INT32: frozenset({dtypes.INT64}),
}
"""Conversions that hold every value of the source: no mode matters."""


def _torch_rounds(call: n.OpCall) -> bool:
    """Whether `Tensor.to` gives the hardware's value: exact conversions, and FP32 to 16 bits half to even."""
    source, target = call.args[0].type, call.kwargs.get("target_type")
    if not isinstance(source, ShapedType) or not isinstance(target, DType):
        return False
    if target in _WIDENED.get(source.dtype, ()):
        return True
    halves = source.dtype == dtypes.FP32 and target in (dtypes.FP16, dtypes.BF16)
    return halves and call.kwargs.get("mode", "round") in ("none", "rint")


OPS.add(
    Op(
        name="tensor.cast",
        args=(tensor_arg("input"),),
        attrs=_ATTRS,
        infer=_infer_cast,
        torch=Torch("cast", "{0}.to({target_type})", _torch_rounds),
        doc="Another dtype, rounded by `mode`: none, rint, round, floor, ceil, trunc or odd.",
        dsl=("cast",),
    ),
    Op(
        name="tile.cast",
        args=(tile_arg("tile", "input"),),
        attrs=_ATTRS,
        infer=_infer_cast,
        torch=Torch("cast", "{0}.to({target_type})", _torch_rounds),
        doc="Another dtype, rounded by `mode`: none, rint, round, floor, ceil, trunc or odd.",
        pto="pto.tcvt",
        dsl=("cast",),
        output_space=MemorySpace.Vec,
    ),
)
