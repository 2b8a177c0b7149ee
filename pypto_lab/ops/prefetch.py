"""Records of the prefetch ops: they warm a cache and have no value."""

from __future__ import annotations

from pypto_lab.ir import dtypes
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.types import HandleType, ScalarType, Type
from pypto_lab.ops.record import OPS, Arg, Op, Operands, Torch
from pypto_lab.ops.shaping import tensor_at

CONTEXT = HandleType("pl.PrefetchAsyncContext")
EVENT = HandleType("pl.AsyncEvent")
SESSION = HandleType("pl.AsyncSession")


def _handle(operands: Operands, index: int, wanted: HandleType) -> None:
    found = operands.type(index)
    if not isinstance(found, HandleType) or found.name != wanted.name:
        raise OpError(f"{operands.op.name} needs a {wanted.name} as `{operands.op.args[index].name}`", argument=index)


def _context(operands: Operands) -> Type:
    return CONTEXT


def _session(operands: Operands) -> Type:
    _handle(operands, 0, CONTEXT)
    return SESSION


def _event(operands: Operands) -> Type:
    tensor_at(operands, 0)
    _handle(operands, 1, CONTEXT)
    return EVENT


def _waited(operands: Operands) -> Type:
    _handle(operands, 0, EVENT)
    _handle(operands, 1, SESSION)
    return ScalarType(dtypes.BOOL)


OPS.add(
    Op(
        "prefetch.make_context",
        args=(),
        attrs=(),
        infer=_context,
        torch=Torch("prefetch_context"),
        doc="A handle that groups prefetches.",
        pto="pto.make_prefetch_async_context",
    ),
    Op(
        "prefetch.session",
        args=(Arg("ctx", "handle"),),
        attrs=(),
        infer=_session,
        torch=Torch("prefetch_session"),
        doc="A handle to wait with.",
        pto="pto.get_prefetch_async_session",
    ),
    Op(
        "prefetch.async_prefetch",
        args=(Arg("src", "tensor"), Arg("ctx", "handle")),
        attrs=(),
        infer=_event,
        torch=Torch("prefetch_async"),
        doc="Starts to bring a tensor into the cache.",
        pto="pto.tprefetch_async",
    ),
    Op(
        "prefetch.wait",
        args=(Arg("event", "handle"), Arg("session", "handle", dsl_name="session_handle")),
        attrs=(),
        infer=_waited,
        torch=Torch("prefetch_wait"),
        doc="Waits for a prefetch; true when it is done.",
        pto="pto.comm.wait_async_event",
    ),
)
