"""Ops that order cores and caches, and the small arrays that the scalar unit holds."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr
from xdsl.ir import Attribute, SSAValue

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import PipeType
from pypto_lab.ir.types import ArrayType
from pypto_lab.pto.dialect.attributes import LocalArrayAttr, keyword
from pypto_lab.pto.dialect.operations import (
    PIPE_OPS,
    CacheInvalidOp,
    DeclareLocalArrayOp,
    FenceOp,
    LocalArrayGetOp,
    LocalArraySetOp,
    SetFftsOp,
    SyncAllOp,
)
from pypto_lab.pto.dialect.types import LocalArrayType
from pypto_lab.pto.emit.builder import Builder, elements
from pypto_lab.pto.emit.scalars import index, scalar
from pypto_lab.pto.emit.tensors import whole, window
from pypto_lab.pto.emit.types import element, scalar_type

EVENTS = range(14)
"""Numbers of cross-core events."""

# --- events, barriers, caches -----------------------------------------------------------------------------------------


def event(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """`system.sync_set` and `sync_wait`: the event is a number, or known at run time only."""
    pipe = call.kwargs["pipe"]
    properties: dict[str, Attribute] = {
        "pipe": StringAttr(f"PIPE_{pipe.value if isinstance(pipe, PipeType) else pipe}")
    }
    number = call.args[0] if call.args else call.kwargs.get("event_id")
    number = number.value if isinstance(number, n.ConstInt) else number
    operands: list[SSAValue] = []
    if isinstance(number, int):
        if number not in EVENTS:
            b.refuse(f"there is no event {number}: they go from 0 to {EVENTS[-1]}")
        properties["event"] = IntegerAttr(number, 64)
    elif isinstance(number, n.Expr):
        operands.append(index(b, number))
    else:
        b.refuse("the event has no number")
    mode = call.kwargs.get("ffts_mode")
    attributes: dict[str, Attribute] = {} if mode is None else {"ffts_mode": IntegerAttr(int(mode), IntegerType(32))}
    b.add(PIPE_OPS[f"pto.{call.op.removeprefix('system.').replace('_', '.')}"](operands, (), attributes, properties))


def set_ffts(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """`system.set_ffts`: the workspace of events, by its address."""
    tensor = b.tensor(call.args[0])
    if tensor.type.dtype != dtypes.INT64:
        b.refuse(f"the workspace of events is a tensor of INT64, not {tensor.type.dtype.name}")
    b.add(SetFftsOp([tensor.pointer]))


def all_meet(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """`system.syncall`: by hardware, or counted in a workspace."""
    operands: list[SSAValue] = [whole(b, call.args[0])] if call.args else []
    operands += [scalar(b, argument, dtypes.INT32) for argument in call.args[1:]]
    attributes = {
        "mode": keyword("sync_all_mode", str(call.kwargs.get("mode", "hard"))),
        "core_type": keyword("sync_core_type", str(call.kwargs.get("core_type", "mix"))),
    }
    b.add(SyncAllOp(operands, (), attributes))


def fence(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """`system.fence`: accesses to global memory."""
    b.add(FenceOp((), (), {"scope": keyword("fence_scope", "gm")}))


def drop_caches(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """`system.cacheinvalid`: all of global memory, or a region of a tensor."""
    if not call.args:
        b.add(CacheInvalidOp((), (), {"space": keyword("address_space", "gm")}))
        return
    tensor, shapes, offsets = call.args
    sizes = [index(b, extent) for extent in elements(shapes, b)]
    b.add(CacheInvalidOp([window(b, tensor, elements(offsets, b), sizes, "cached_pview")]))


# --- local arrays -----------------------------------------------------------------------------------------------------


def create_array(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`array.create`."""
    type_ = var.type
    if not isinstance(type_, ArrayType) or not isinstance(type_.extent, n.ConstInt):
        b.refuse("an array has a constant number of elements")
    made = LocalArrayAttr(LocalArrayType(type_.extent.value, element(type_.dtype)))
    b.arrays[id(var)] = b.value(DeclareLocalArrayOp((), [made]), var.name)


def get_element(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`array.get_element`."""
    dtype = n.scalar_dtype(var)
    if dtype is None:
        b.refuse("an element of an array is a scalar")
    array = b.array(call.args[0])
    b.scalars[id(var)] = b.value(LocalArrayGetOp([array, index(b, call.args[1])], [scalar_type(dtype)]), var.name)


def set_element(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """`array.update_element`: in place; the result is the array itself."""
    array, type_ = b.array(call.args[0]), call.args[0].type
    assert isinstance(type_, ArrayType)
    b.add(LocalArraySetOp([array, index(b, call.args[1]), scalar(b, call.args[2], type_.dtype)]))
    if var is not None:
        b.arrays[id(var)] = array
