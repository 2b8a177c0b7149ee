"""Records of the ops on small on-core arrays of integers, booleans or task ids."""

from __future__ import annotations

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.types import ArrayType, ScalarType, Type
from pypto_lab.ops.record import OPS, Arg, Attr, Effect, Op, Operands, Side, Torch
from pypto_lab.ops.shaping import scalar_at


def _array_at(operands: Operands, index: int) -> ArrayType:
    found = operands.type(index)
    if not isinstance(found, ArrayType):
        raise OpError(f"{operands.op.name} needs an array as `{operands.op.args[index].name}`", argument=index)
    return found


def _check_index(operands: Operands, array: ArrayType) -> None:
    scalar_at(operands, 1, integer=True)
    place, extent = arith.constant(operands.arg(1)), arith.constant(array.extent)
    if place is not None and (place < 0 or (extent is not None and place >= extent)):
        raise OpError(f"{operands.op.name}: index {place} is outside an array of {extent}", argument=1)


def _created(operands: Operands) -> Type:
    extent, dtype = operands.arg(0), operands.attrs["dtype"]
    value = arith.constant(extent)
    if value is None or value < 1:
        raise OpError("array.create needs a positive constant extent", argument=0)
    if not (dtype.is_integer or dtype in (dtypes.BOOL, dtypes.TASK_ID)):
        raise OpError(f"array.create holds integers, booleans or task ids, not {dtype}", argument="dtype")
    return ArrayType(extent, dtype)


def _element(operands: Operands) -> Type:
    array = _array_at(operands, 0)
    _check_index(operands, array)
    return ScalarType(array.dtype)


def _updated(operands: Operands) -> Type:
    array = _array_at(operands, 0)
    _check_index(operands, array)
    value = scalar_at(operands, 2)
    if (value is dtypes.TASK_ID) != (array.dtype is dtypes.TASK_ID) or value.is_float:
        raise OpError(f"array.update_element: a {value} does not go into an array of {array.dtype}", argument=2)
    return array


OPS.add(
    Op(
        "array.create",
        args=(Arg("extent", "scalar"),),
        attrs=(Attr("dtype", "dtype"),),
        infer=_created,
        torch=Torch("array_create"),
        doc="A new array; task ids start invalid.",
        side=Side.SHARED,
        pto="pto.declare_local_array",
    ),
    Op(
        "array.get_element",
        args=(Arg("array", "array"), Arg("index", "scalar")),
        attrs=(),
        infer=_element,
        torch=Torch("array_get"),
        doc="One element of an array.",
        side=Side.SHARED,
        pto="pto.local_array_get",
    ),
    Op(
        "array.update_element",
        args=(Arg("array", "array", effect=Effect.READ_WRITE), Arg("index", "scalar"), Arg("value", "scalar")),
        attrs=(),
        infer=_updated,
        torch=Torch("array_update", writes=0),
        doc="The array with one element changed.",
        side=Side.SHARED,
        pto="pto.local_array_set",
    ),
)
