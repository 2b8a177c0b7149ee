"""Records of synchronisation, barriers, reserved buffers, and the compiler's own test ops."""

from __future__ import annotations

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.types import UNKNOWN, ScalarType, Type
from pypto_lab.ops.record import OPS, Arg, Attr, Effect, Op, Operands, Side, Torch
from pypto_lab.ops.shaping import integers, same_rank, scalar_at, tensor_at

MOST_EVENTS = 14
"""Cross-core event ids run from 0 to 13."""


def no_value(operands: Operands) -> Type:
    """The result of an op that only has an effect."""
    return UNKNOWN


def _handle(operands: Operands) -> Type:
    return ScalarType(dtypes.INT32)


def _reserved(operands: Operands) -> Type:
    size = operands.attrs["size"]
    if isinstance(size, int) and size <= 0:
        raise OpError(f"system.reserve_buffer: {size} bytes is no size", argument="size")
    return ScalarType(dtypes.INT32)


def _event(operands: Operands) -> Type:
    if operands.optional(0) is not None:
        scalar_at(operands, 0, integer=True)
        event = arith.constant(operands.arg(0))
    else:
        stated = operands.attrs.get("event_id")
        event = stated if isinstance(stated, int) else None
    if event is not None and not 0 <= event < MOST_EVENTS:
        raise OpError(f"{operands.op.name}: event {event} does not exist, ids run to {MOST_EVENTS - 1}", argument=0)
    return UNKNOWN


def _invalidated(operands: Operands) -> Type:
    if operands.optional(0) is not None:
        source = tensor_at(operands, 0)
        for index in (1, 2):
            same_rank(operands, index, integers(operands, index), source.rank, "the tensor")
    return UNKNOWN


def _all_meet(operands: Operands) -> Type:
    mode, soft = operands.attrs["mode"], operands.optional(0) is not None
    if mode not in ("hard", "soft"):
        raise OpError(f"system.syncall: mode {mode!r} is neither 'hard' nor 'soft'", argument="mode")
    if (mode == "soft") != soft:
        need = "needs" if mode == "soft" else "takes no"
        raise OpError(f"system.syncall: mode {mode!r} {need} `gm_workspace`", argument="mode")
    return UNKNOWN


def _barrier(name: str, call: str, pto: str, doc: str, side: Side) -> Op:
    return Op(f"system.{name}", args=(), attrs=(), infer=no_value, torch=Torch(call), doc=doc, side=side, pto=pto)


def _flag(name: str, doc: str) -> Op:
    attrs = (Attr("set_pipe", "pipe"), Attr("wait_pipe", "pipe"), Attr("event_id", "int"))
    return Op(f"system.{name}", (), attrs, no_value, Torch(name), doc, side=Side.SHARED)


OPS.add(
    _flag("sync_src", "Sets a flag from one pipeline of the core for another."),
    _flag("sync_dst", "Waits for a flag another pipeline of the core sets."),
    Op(
        "system.sync_set",
        args=(Arg("event_id_dyn", "scalar", None, dsl_name="event_id"),),
        attrs=(
            Attr("pipe", "pipe"),
            Attr("event_id", "int", None, printed=False),
            Attr("ffts_mode", "int", None, printed=False),
            Attr("core_type", "str", None, printed=False),
        ),
        infer=_event,
        torch=Torch("sync_set"),
        doc="Sets a cross-core event after the pipeline's earlier work.",
        side=Side.SHARED,
        pto="pto.sync.set",
        dsl_order=("event_id_dyn", "pipe", "ffts_mode", "core_type"),
    ),
    Op(
        "system.sync_wait",
        args=(Arg("event_id_dyn", "scalar", None, dsl_name="event_id"),),
        attrs=(
            Attr("pipe", "pipe"),
            Attr("event_id", "int", None, printed=False),
            Attr("core_type", "str", None, printed=False),
        ),
        infer=_event,
        torch=Torch("sync_wait"),
        doc="Holds a pipeline until a cross-core event is set.",
        side=Side.SHARED,
        pto="pto.sync.wait",
        dsl_order=("event_id_dyn", "pipe", "core_type"),
    ),
    Op(
        "system.set_ffts",
        args=(Arg("workspace", "tensor", effect=Effect.NONE),),
        attrs=(),
        infer=no_value,
        torch=Torch("set_ffts"),
        doc="Gives the workspace of cross-core events.",
        side=Side.SHARED,
        pto="pto.set_ffts",
    ),
    _barrier("bar_v", "bar_v", "pto.barrier", "Waits for the vector pipeline.", Side.VECTOR),
    _barrier("bar_m", "bar_m", "pto.barrier", "Waits for the matrix pipeline.", Side.CUBE),
    _barrier("bar_all", "bar_all", "pto.barrier", "Waits for all pipelines of the core.", Side.SHARED),
    _barrier("fence", "fence", "pto.fence.barrier_all", "Orders accesses to global memory.", Side.SHARED),
    Op(
        "system.cacheinvalid",
        args=(
            Arg("tensor", "tensor", None, effect=Effect.NONE),
            Arg("shapes", "ints", None),
            Arg("offsets", "ints", None),
        ),
        attrs=(),
        infer=_invalidated,
        torch=Torch("cacheinvalid"),
        doc="Drops cached global memory: all of it, or a region of a tensor.",
        side=Side.SHARED,
        pto="pto.cmo.cacheinvalid",
    ),
    Op(
        "system.syncall",
        args=(Arg("gm_workspace", "tensor", None, effect=Effect.NONE), Arg("used_cores", "scalar", None)),
        attrs=(Attr("core_type", "str", "mix"), Attr("mode", "str", "hard")),
        infer=_all_meet,
        torch=Torch("syncall"),
        doc="A barrier of all cores of a launch; the soft form counts in a workspace.",
        side=Side.SHARED,
        pto="pto.syncall",
        dsl_order=("core_type", "mode", "gm_workspace", "used_cores"),
    ),
    Op(
        "system.reserve_buffer",
        args=(),
        attrs=(Attr("name", "str"), Attr("size", "int"), Attr("base", "int", -1)),
        infer=_reserved,
        torch=Torch("reserve_buffer"),
        doc="Reserves the ring buffer of a pipe on the consuming core; base -1 lets the compiler place it.",
        side=Side.SHARED,
        pto="pto.reserve_buffer",
        dsl=("reserve_buffer",),
    ),
    Op(
        "system.import_peer_buffer",
        args=(),
        attrs=(Attr("name", "str"), Attr("peer_func", "str")),
        infer=_handle,
        torch=Torch("import_peer_buffer"),
        doc="The ring buffer of that name which the other core's function reserves.",
        side=Side.SHARED,
        pto="pto.import_reserved_buffer",
        dsl=("import_peer_buffer",),
    ),
)


# --- the compiler's own test ops -------------------------------------------------------------------------------------


def _first_type(operands: Operands) -> Type:
    return operands.type(0)


def _refused(operands: Operands) -> Type:
    raise OpError(f"{operands.op.name} refuses every operand: it exists to test error paths", argument=0)


OPS.add(
    Op(
        "test.op",
        args=(Arg("arg1", "value"), Arg("arg2", "value")),
        attrs=(
            Attr("int_attr", "int", None, printed=False),
            Attr("string_attr", "str", None, printed=False),
            Attr("bool_attr", "bool", None, printed=False),
        ),
        infer=_first_type,
        torch=Torch("test_op"),
        doc="Test op of the compiler: its first operand.",
        side=Side.SHARED,
    ),
    Op(
        "test.tensor_op_no_conv",
        args=(Arg("x", "value"),),
        attrs=(),
        infer=_first_type,
        torch=Torch("test_op"),
        doc="Test op of the compiler without a tile form: its operand.",
        side=Side.SHARED,
    ),
    *(
        Op(
            f"test.{name}",
            args=(Arg("x", "value"),),
            attrs=(),
            infer=_refused,
            torch=Torch("test_op"),
            doc="Test op of the compiler whose type rule always fails.",
            side=Side.SHARED,
        )
        for name in ("deduce_raises_internal", "deduce_raises_type")
    ),
)
