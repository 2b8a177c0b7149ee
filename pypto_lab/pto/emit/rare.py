"""Gathers, scatters and sorts whose `.pto` form is neither their arguments in order nor a small change of it."""

from __future__ import annotations

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, IntegerType, VectorType
from xdsl.ir import Attribute, SSAValue

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import MgatherCoalesce
from pypto_lab.pto.dialect.attributes import keyword
from pypto_lab.pto.dialect.operations import REGULAR
from pypto_lab.pto.emit.builder import Builder
from pypto_lab.pto.emit.pipes import flag
from pypto_lab.pto.emit.scalars import scalar
from pypto_lab.pto.emit.tensors import window
from pypto_lab.pto.emit.tiles import allocated

OUT_OF_BOUNDS = ("undefined", "clamp", "wrap", "zero")
"""What an index outside a tensor gives, by code."""


def _word(value: object, words: tuple[str, ...]) -> str:
    return words[value] if isinstance(value, int) else str(value)


def whole(b: Builder, expr: n.Expr) -> SSAValue:
    """A window that is the whole tensor."""
    tensor, _ = b.view(expr)
    name = expr.name if isinstance(expr, n.Var) else "window"
    return window(b, expr, [n.const(0)] * len(tensor.shape), list(tensor.shape), f"{name}_pview")


def gather_memory(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`tile.mgather`: rows or elements of a tensor by index."""
    out = allocated(b, var)
    ins = [whole(b, call.args[0]), b.tile(call.args[1]).value]
    if len(call.args) > 2:
        ins.append(whole(b, call.args[2]))
    coalesce = _word(call.kwargs.get("coalesce", 0), tuple(m.name for m in MgatherCoalesce))
    attributes: dict[str, Attribute] = {"coalesce": keyword("coalesce", coalesce)}
    outside = _word(call.kwargs.get("gather_oob", 0), OUT_OF_BOUNDS)
    if outside != OUT_OF_BOUNDS[0]:
        attributes["gatherOob"] = keyword("gather_oob", outside)
    b.add(REGULAR["pto.mgather"].make(ins, [out.value], attributes))


def scatter_memory(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """`tile.mscatter`: into a tensor by index; the result is the tensor itself."""
    ins = [b.tile(a).value for a in call.args[:2]]
    b.add(REGULAR["pto.mscatter"].make(ins, [whole(b, call.args[2])]))
    if var is not None:
        b.tensors[id(var)] = b.tensor(call.args[2])


def triangle(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`tile.tri`."""
    out = allocated(b, var)
    side = IntegerAttr(int(bool(call.kwargs.get("upper", False))), IntegerType(32))
    b.add(REGULAR["pto.ttri"].make([scalar(b, call.args[0], dtypes.INT32)], [out.value], {"upperOrLower": side}))


def merge_lists(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`tile.mrgsort_format2`: the counts that the device gives back go nowhere."""
    out = allocated(b, var)
    type_ = VectorType(IntegerType(16), [4])
    counts = b.value(ConstantOp(DenseIntOrFPElementsAttr.from_list(type_, [0])), "executed_vec")
    exhausted = {"exhausted": flag(bool(call.kwargs.get("exhausted", False)))}
    ins = [b.tile(a).value for a in call.args]
    b.add(REGULAR["pto.tmrgsort"].make(ins, [out.value, counts], exhausted))
