"""Records of the distributed ops: windows, signals, transfers and collectives between ranks.

One rank is simulated: rank queries and windows work, ops that need another rank raise NotImplementedError when run.
"""

from __future__ import annotations

from dataclasses import replace

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import AtomicType, MemorySpace, ReduceOp
from pypto_lab.ir.types import PTR, UNKNOWN, HandleType, ScalarType, ShapedType, TensorType, TileType, Type
from pypto_lab.ops.record import OPS, Arg, Attr, Effect, Op, Operands, Side, Torch
from pypto_lab.ops.rules import Dims, show_dims
from pypto_lab.ops.shaping import (
    check_fits,
    check_valid,
    integers,
    optional_integers,
    same_rank,
    scalar_at,
    shape_at,
    tensor_at,
    tile_at,
    tile_type,
)

COMM_CONTEXT = HandleType("pld.CommCtx")
ALLREDUCE_MODES = ("mesh", "ring")
SIGNAL_DTYPE = dtypes.INT32


# --- checks ----------------------------------------------------------------------------------------------------------


def _window_at(operands: Operands, index: int) -> TensorType:
    """The type of a distributed tensor argument. Raises OpError for a plain tensor."""
    found = tensor_at(operands, index)
    if not found.distributed:
        raise OpError(
            f"{operands.op.name} needs a distributed tensor as `{operands.op.args[index].name}`",
            argument=index,
            hint="make one over a window buffer: pld.window(buf, shape, dtype=...)",
        )
    return found


def _signal_at(operands: Operands, index: int) -> TensorType:
    found = _window_at(operands, index)
    if found.dtype != SIGNAL_DTYPE:
        raise OpError(f"{operands.op.name}: signals are {SIGNAL_DTYPE}, this is {found.dtype}", argument=index)
    return found


def _slot(operands: Operands, index: int, signal: ShapedType) -> None:
    """Checks the offsets of one element of a signal tensor."""
    offsets = integers(operands, index)
    same_rank(operands, index, offsets, signal.rank, "the signal tensor")
    ones = tuple(n.const(1) for _ in offsets)
    check_fits(operands, index, offsets, ones, signal.shape, of="the signal tensor")


def _member(operands: Operands, name: str, count: int) -> None:
    value = operands.attrs[name]
    if not isinstance(value, int) or not 0 <= value < count:
        raise OpError(f"{operands.op.name}: {name}={value!r} is not 0 to {count - 1}", argument=name)


def _one_dtype(operands: Operands, first: int, second: int) -> DType:
    left, right = operands.shaped(first).dtype, operands.shaped(second).dtype
    if left != right:
        raise OpError(
            f"{operands.op.name} moves data as it is, but {left} and {right} differ",
            argument=second,
            also={first: f"this is {left}"},
        )
    return left


# --- ranks and windows -----------------------------------------------------------------------------------------------


def _count(operands: Operands) -> Type:
    return ScalarType(dtypes.INT32)


def _context(operands: Operands) -> Type:
    _window_at(operands, 0)
    return COMM_CONTEXT


def _of_context(operands: Operands) -> Type:
    found = operands.type(0)
    if not isinstance(found, HandleType) or not found.name.startswith(COMM_CONTEXT.name):
        raise OpError(f"{operands.op.name} needs a context", argument=0, hint="ctx = pld.get_comm_ctx(window)")
    return ScalarType(dtypes.INT32)


def _buffer(operands: Operands) -> Type:
    size = operands.arg(0)
    if isinstance(size, n.MakeTuple):
        shape_at(operands, 0)
        if not isinstance(operands.attrs.get("dtype"), DType):
            raise OpError("pld.tensor.alloc_window_buffer needs `dtype` with a shape", argument="dtype")
    else:
        scalar_at(operands, 0, integer=True)
    return PTR


def _windowed(operands: Operands) -> Type:
    found = operands.type(0)
    if not isinstance(found, HandleType):
        raise OpError(
            "pld.tensor.window needs a window buffer", argument=0, hint="buf = pld.alloc_window_buffer(bytes)"
        )
    buffer = operands.arg(0)
    name = buffer.name if isinstance(buffer, n.Var) else None
    return TensorType(shape_at(operands, 1), operands.attrs["dtype"], distributed=True, window_buffer=name)


OPS.add(
    Op(
        "pld.system.world_size",
        args=(),
        attrs=(),
        infer=_count,
        torch=Torch("world_size"),
        doc="How many ranks the program runs on.",
        side=Side.SHARED,
    ),
    Op(
        "pld.system.get_comm_ctx",
        args=(Arg("dist_tensor", "tensor"),),
        attrs=(),
        infer=_context,
        torch=Torch("comm_context"),
        doc="The communication context of a distributed tensor.",
        side=Side.SHARED,
    ),
    Op(
        "pld.system.rank",
        args=(Arg("ctx", "handle"),),
        attrs=(),
        infer=_of_context,
        torch=Torch("rank"),
        doc="This rank's number.",
        side=Side.SHARED,
        pto="pto.load_scalar",
    ),
    Op(
        "pld.system.nranks",
        args=(Arg("ctx", "handle"),),
        attrs=(),
        infer=_of_context,
        torch=Torch("nranks"),
        doc="How many ranks a context has.",
        side=Side.SHARED,
        pto="pto.load_scalar",
    ),
    Op(
        "pld.tensor.alloc_window_buffer",
        args=(Arg("size", "value"),),
        attrs=(Attr("name", "str", "", printed=False), Attr("dtype", "dtype", None, printed=False)),
        infer=_buffer,
        torch=Torch("alloc_window_buffer"),
        doc="A window buffer of the same size on every rank.",
        side=Side.SHARED,
    ),
    Op(
        "pld.tensor.window",
        args=(Arg("buf", "value"), Arg("shape", "ints")),
        attrs=(Attr("dtype", "dtype"),),
        infer=_windowed,
        torch=Torch("window_tensor"),
        doc="A window buffer seen as a distributed tensor.",
        side=Side.SHARED,
    ),
)


# --- signals ---------------------------------------------------------------------------------------------------------


def _notified(operands: Operands) -> Type:
    signal = _signal_at(operands, 0)
    scalar_at(operands, 1, integer=True)
    _slot(operands, 2, signal)
    scalar_at(operands, 3, integer=True)
    _member(operands, "op", 2)
    return UNKNOWN


def _awaited(operands: Operands) -> Type:
    signal = _signal_at(operands, 0)
    _slot(operands, 1, signal)
    scalar_at(operands, 2, integer=True)
    _member(operands, "cmp", 2)
    return UNKNOWN


def _wait(name: str, doc: str, pto: str) -> Op:
    return Op(
        f"pld.system.{name}",
        args=(Arg("signal", "tensor"), Arg("offsets", "ints"), Arg("expected", "scalar")),
        attrs=(Attr("cmp", "int"),),
        infer=_awaited,
        torch=Torch(f"pld_system_{name}"),
        doc=doc,
        side=Side.SHARED,
        pto=pto,
    )


OPS.add(
    Op(
        "pld.system.notify",
        args=(
            Arg("target", "tensor", effect=Effect.READ_WRITE),
            Arg("peer", "scalar"),
            Arg("offsets", "ints"),
            Arg("value", "scalar"),
        ),
        attrs=(Attr("op", "int"),),
        infer=_notified,
        torch=Torch("pld_system_notify"),
        doc="Sets or adds to a signal of another rank.",
        side=Side.SHARED,
        pto="pto.comm.tnotify",
    ),
    _wait("wait", "Waits until a signal of this rank equals or reaches a value.", "pto.comm.twait"),
    _wait("defer_wait", "Ends the task when a signal of this rank equals or reaches a value.", "func.call"),
)


# --- transfers -------------------------------------------------------------------------------------------------------


def _moved(window: int, local: int, first_list: int) -> object:
    """Rule of put and get: `window` is the remote side; offsets and shape start at argument `first_list`."""

    def rule(operands: Operands) -> Type:
        remote, near = _window_at(operands, window), tensor_at(operands, local)
        scalar_at(operands, 1, integer=True)
        _one_dtype(operands, 0, 2)
        for index in range(3, first_list):
            if operands.optional(index) is not None and not isinstance(operands.arg(index), n.MakeTuple):
                tile_at(operands, index)
        _check_region(operands, first_list, operands.shaped(0), operands.shaped(2))
        _check_stage_axes(operands, remote, near)
        return UNKNOWN

    return rule


def _check_stage_axes(operands: Operands, remote: TensorType, near: TensorType) -> None:
    if remote.rank != near.rank:
        raise OpError(
            f"{operands.op.name}: {show_dims(remote.shape)} and {show_dims(near.shape)} differ in rank", argument=2
        )


def _check_region(operands: Operands, first: int, destination: ShapedType, source: ShapedType) -> None:
    """Offsets into both sides and the shape of the region are given together or not at all."""
    lists = [optional_integers(operands, index) for index in range(first, first + 3)]
    if all(entry is None for entry in lists):
        return
    if any(entry is None for entry in lists):
        raise OpError(f"{operands.op.name} needs dst_offsets, src_offsets and shape together", argument=first)
    to, start, shape = (entry or () for entry in lists)
    for index, offsets, side, name in ((first, to, destination, "dst"), (first + 1, start, source, "src")):
        same_rank(operands, index, offsets, side.rank, name)
        same_rank(operands, first + 2, shape, side.rank, name)
        check_fits(operands, index, offsets, shape, side.shape, of=name)


def _remote_loaded(operands: Operands) -> Type:
    source, offsets, shape = _window_at(operands, 0), integers(operands, 2), shape_at(operands, 3, constant=True)
    scalar_at(operands, 1, integer=True)
    same_rank(operands, 2, offsets, source.rank, "the tensor")
    valid: Dims = optional_integers(operands, 4) or shape
    same_rank(operands, 4, valid, len(shape), "the window")
    check_valid(operands, 4, valid, shape)
    if len(shape) == source.rank:
        check_fits(operands, 2, offsets, valid, source.shape, of="the tensor")
    return tile_type(shape, source.dtype, MemorySpace.Vec, valid)


def _remote_stored(operands: Operands) -> Type:
    source, target, offsets = operands.shaped(0), _window_at(operands, 1), integers(operands, 3)
    scalar_at(operands, 2, integer=True)
    same_rank(operands, 3, offsets, target.rank, "the target")
    _one_dtype(operands, 0, 1)
    if isinstance(source, TileType) and source.memory_space not in (None, MemorySpace.Vec, MemorySpace.Acc):
        raise OpError(f"{operands.op.name} writes tiles of Vec or Acc", argument=0)
    if source.rank == target.rank:
        check_fits(operands, 3, offsets, source.valid_shape, target.shape, of="the target")
    return UNKNOWN


ATOMIC = Attr("atomic", "atomic", AtomicType.None_)
REGION = (Arg("dst_offsets", "ints", None), Arg("src_offsets", "ints", None), Arg("shape", "ints", None))
CHUNKS = (Attr("chunk_rows", "int", 0), Attr("chunk_cols", "int", 0), Attr("pipeline", "bool", False))


def _transfer(layer: str, name: str, doc: str) -> Op:
    tile, put = layer == "tile", name == "put"
    stages = (Arg("stage", "tile", effect=Effect.WRITE), Arg("stage2", "tile", None, effect=Effect.WRITE))
    sides = (Arg("dst", "tensor", effect=Effect.WRITE), Arg("peer", "scalar"), Arg("src", "tensor"))
    rule = _moved(0 if put else 2, 2 if put else 0, 5 if tile else 3)
    return Op(
        f"pld.{layer}.{name}",
        args=(*sides, *(stages if tile else ()), *REGION),
        attrs=(*((ATOMIC,) if put else ()), *(() if tile else CHUNKS)),
        infer=rule,  # type: ignore[arg-type]
        torch=Torch(f"pld_{layer}_{name}"),
        doc=doc,
        side=Side.VECTOR,
        pto=f"pto.comm.t{name}",
    )


def _remote_store(layer: str) -> Op:
    return Op(
        f"pld.{layer}.remote_store",
        args=(
            Arg("src_tile" if layer == "tile" else "src", layer),
            Arg("target", "tensor", effect=Effect.WRITE),
            Arg("peer", "scalar"),
            Arg("offsets", "ints"),
        ),
        attrs=(ATOMIC,),
        infer=_remote_stored,
        torch=Torch(f"pld_{layer}_remote_store"),
        doc="Writes a value's valid rectangle into another rank's window, or adds to it.",
        side=Side.BY_MEMORY,
        pto="pto.tstore",
    )


OPS.add(
    _transfer("tensor", "put", "Copies a local region into another rank's window."),
    _transfer("tensor", "get", "Copies a region of another rank's window here."),
    _transfer("tile", "put", "Copies a local region into another rank's window through a staging tile."),
    _transfer("tile", "get", "Copies a region of another rank's window here through a staging tile."),
    _remote_store("tensor"),
    _remote_store("tile"),
    Op(
        "pld.tile.remote_load",
        args=(
            Arg("target", "tensor"),
            Arg("peer", "scalar"),
            Arg("offsets", "ints"),
            Arg("shape", "ints"),
            Arg("valid_shape", "ints", None),
        ),
        attrs=(Attr("allow_physical_tail_padding", "bool", False, printed=False),),
        infer=_remote_loaded,
        torch=Torch("pld_tile_remote_load"),
        doc="Loads a window of another rank's tensor to a tile.",
        side=Side.BY_MEMORY,
        pto="pto.tload",
        output_space=MemorySpace.Vec,
    ),
)


# --- collectives -----------------------------------------------------------------------------------------------------


def _result_of(target: TensorType) -> TensorType:
    return replace(target, memref=None)


def _barrier(operands: Operands) -> Type:
    return _result_of(_signal_at(operands, 0))


def _in_place(operands: Operands) -> Type:
    """Collectives that reduce or overwrite one window."""
    target = _window_at(operands, 0)
    if operands.optional(1) is not None:
        _signal_at(operands, 1)
    if operands.op.attr("op") is not None:
        _member(operands, "op", len(ReduceOp))
    if operands.op.attr("root") is not None and isinstance(operands.attrs["root"], int) and operands.attrs["root"] < 0:
        raise OpError(f"{operands.op.name}: there is no rank {operands.attrs['root']}", argument="root")
    mode = operands.attrs.get("mode")
    if mode is not None and mode not in ALLREDUCE_MODES:
        names = " or ".join(repr(m) for m in ALLREDUCE_MODES)
        raise OpError(f"{operands.op.name}: mode {mode!r} is not {names}", argument="mode")
    cores = operands.attrs.get("core_num")
    if isinstance(cores, int) and cores < 1:
        raise OpError(f"{operands.op.name}: {cores} cores do nothing", argument="core_num")
    return _result_of(target)


def _exchanged(operands: Operands) -> Type:
    """Collectives from a local input to a window of another buffer."""
    source, target = tensor_at(operands, 0), _window_at(operands, 1)
    _signal_at(operands, 2)
    _one_dtype(operands, 0, 1)
    if operands.arg(0) is operands.arg(1):
        raise OpError(f"{operands.op.name} needs different buffers for input and target", argument=1)
    for index in range(3, len(operands.op.args)):
        counts = tensor_at(operands, index)
        if not counts.dtype.is_integer:
            raise OpError(f"{operands.op.name}: counts are integers, not {counts.dtype}", argument=index)
    short = arith.constant(arith.sub(arith.product(target.shape), arith.product(source.shape)))
    if operands.op.short_name == "allgather" and short is not None and short < 0:
        raise OpError(
            f"{operands.op.name}: the target {show_dims(target.shape)} is smaller than one rank's part", argument=1
        )
    return _result_of(target)


INPUT = Arg("input", "tensor", dsl_name="local_data")
TARGET = Arg("target", "tensor", effect=Effect.WRITE)
UPDATED = Arg("target", "tensor", effect=Effect.READ_WRITE)
SIGNAL = Arg("signal", "tensor", effect=Effect.READ_WRITE)
COUNTS = (Arg("send_counts", "tensor"), Arg("recv_counts", "tensor", effect=Effect.WRITE))
REDUCTION = Attr("op", "int", ReduceOp.Sum)
DTYPE = Attr("dtype", "dtype")


def _collective(name: str, args: tuple[Arg, ...], attrs: tuple[Attr, ...], infer: object, doc: str) -> Op:
    return Op(
        name,
        args=args,
        attrs=attrs,
        infer=infer,  # type: ignore[arg-type]
        torch=Torch(name.replace(".", "_")),
        doc=doc,
        side=Side.SHARED,
    )


def _family(layer: str) -> tuple[Op, ...]:
    """The collectives of a layer; the `builtin` ones carry the element type."""
    typed = (DTYPE,) if layer == "builtin.tensor" else ()
    return (
        _collective(f"{layer}.barrier", (SIGNAL,), (), _barrier, "Waits until every rank is here."),
        _collective(
            f"{layer}.broadcast",
            (UPDATED, SIGNAL),
            (Attr("root", "int"), *typed),
            _in_place,
            "Copies one rank's window to all.",
        ),
        _collective(
            f"{layer}.reduce_scatter",
            (UPDATED, SIGNAL),
            (REDUCTION, *typed),
            _in_place,
            "Rank r gets the reduced part r.",
        ),
        _collective(
            f"{layer}.allgather", (INPUT, TARGET, SIGNAL), typed, _exchanged, "Every rank gets every rank's part."
        ),
        _collective(
            f"{layer}.all_to_all", (INPUT, TARGET, SIGNAL), typed, _exchanged, "Rank r gets part r of every rank."
        ),
        _collective(
            f"{layer}.all_to_all_v",
            (INPUT, TARGET, SIGNAL, *COUNTS),
            typed,
            _exchanged,
            "Like all_to_all, with a count for each part.",
        ),
    )


OPS.add(
    *_family("pld.tensor"),
    *_family("builtin.tensor"),
    _collective(
        "pld.tensor.allreduce",
        (UPDATED, Arg("signal", "tensor", None, effect=Effect.READ_WRITE)),
        (REDUCTION, Attr("mode", "str", "mesh"), Attr("core_num", "int", 1)),
        _in_place,
        "Every rank gets the sum (or another reduction) of all windows.",
    ),
    _collective(
        "builtin.tensor.allreduce",
        (Arg("src", "tensor", effect=Effect.READ_WRITE), SIGNAL),
        (REDUCTION, DTYPE, Attr("core_num", "int", 1)),
        _in_place,
        "Every rank gets the reduction of all windows.",
    ),
    _collective(
        "builtin.tensor.allreduce_ring",
        (Arg("src", "tensor", effect=Effect.READ_WRITE), SIGNAL),
        (REDUCTION, DTYPE),
        _in_place,
        "Every rank gets the reduction of all windows, passed round a ring.",
    ),
)


# --- host runtime ----------------------------------------------------------------------------------------------------


def _host_value(operands: Operands) -> Type:
    return UNKNOWN


OPS.add(
    *(
        Op(
            f"dist.{name}",
            args=tuple(Arg(argument, "value") for argument in arguments),
            attrs=(),
            infer=_host_value,
            torch=Torch(f"dist_{name}"),
            doc=doc,
            side=Side.SHARED,
            variadic=name.startswith("submit"),
        )
        for name, arguments, doc in (
            ("make_tensor", ("rt", "count"), "Host runtime: a tensor shared by workers."),
            ("submit_worker", ("rt",), "Host runtime: starts work on a worker."),
            ("submit_orchestrator", ("rt",), "Host runtime: starts an orchestrator."),
            ("future_get", ("future",), "Host runtime: waits for a result."),
            ("tree_reduce", ("rt", "leaves"), "Host runtime: reduces results in a tree."),
        )
    )
)
