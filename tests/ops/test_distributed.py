"""Distributed ops: what one rank can do works, the rest is checked and refuses to run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from moving import function, infer, run
from op_running import scalar, tensor, tile, var

from pypto_lab.ir import dtypes
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.enums import AtomicType, MemorySpace, NotifyOp, ReduceOp, WaitCmp
from pypto_lab.ir.types import PTR, HandleType, TensorType, TileType, Type, UnknownType
from pypto_lab.ops import OPS
from pypto_lab.torch_codegen.runtime import ranks

PEER = scalar(dtypes.INT32, "peer")


def window(*shape: int, dtype: Any = dtypes.FP32) -> TensorType:
    return replace(tensor(shape, dtype), distributed=True)


W, W2, SIGNAL = window(8, 4), window(8, 4), window(8, dtype=dtypes.INT32)
LOCAL = tensor((8, 4))
COUNTS = tensor((4,), dtypes.INT32)
RECEIVED = window(4, dtype=dtypes.INT32)
TILE = tile((4, 4))
REGION = ([0, 0], [2, 0], [4, 4])

MULTI_RANK: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("pld.system.notify", [SIGNAL, PEER, [3], 1], {"op": NotifyOp.AtomicAdd}),
    ("pld.system.wait", [SIGNAL, [3], 1], {"cmp": WaitCmp.Ge}),
    ("pld.system.defer_wait", [SIGNAL, [3], 1], {"cmp": WaitCmp.Eq}),
    ("pld.tensor.put", [W, PEER, LOCAL], {"atomic": AtomicType.Add}),
    ("pld.tensor.put", [W, PEER, LOCAL, *REGION], {}),
    ("pld.tensor.get", [LOCAL, PEER, W, *REGION], {"chunk_rows": 2}),
    ("pld.tile.put", [W, PEER, LOCAL, TILE, TILE, *REGION], {}),
    ("pld.tile.get", [LOCAL, PEER, W, TILE], {}),
    ("pld.tensor.remote_store", [tensor((4, 4)), W, PEER, [0, 0]], {}),
    ("pld.tile.remote_store", [TILE, W, PEER, [4, 0]], {}),
    ("pld.tile.remote_load", [W, PEER, [4, 0], [4, 4], [3, 4]], {}),
    ("pld.tensor.allreduce", [W], {}),
    ("pld.tensor.allreduce", [W, SIGNAL], {"op": ReduceOp.Max, "mode": "ring"}),
]
for layer, typed in (("pld.tensor", {}), ("builtin.tensor", {"dtype": dtypes.FP32})):
    MULTI_RANK += [
        (f"{layer}.barrier", [SIGNAL], {}),
        (f"{layer}.broadcast", [W, SIGNAL], {"root": 0, **typed}),
        (f"{layer}.reduce_scatter", [W, SIGNAL], typed),
        (f"{layer}.allgather", [LOCAL, W, SIGNAL], typed),
        (f"{layer}.all_to_all", [LOCAL, W, SIGNAL], typed),
        (f"{layer}.all_to_all_v", [LOCAL, W, SIGNAL, COUNTS, RECEIVED], typed),
    ]
MULTI_RANK += [
    ("builtin.tensor.allreduce", [W, SIGNAL], {"dtype": dtypes.FP32}),
    ("builtin.tensor.allreduce_ring", [W, SIGNAL], {"dtype": dtypes.FP32}),
    ("dist.make_tensor", [PEER, 1], {}),
    ("dist.submit_worker", [PEER], {}),
    ("dist.submit_orchestrator", [PEER, 1, 2], {}),
    ("dist.future_get", [PEER], {}),
    ("dist.tree_reduce", [PEER, PEER], {}),
]


ONE_RANK = {f"pld.system.{name}" for name in ("world_size", "get_comm_ctx", "rank", "nranks")}
ONE_RANK |= {"pld.tensor.alloc_window_buffer", "pld.tensor.window"}
COVERS = ONE_RANK | {case[0] for case in MULTI_RANK}


@pytest.mark.parametrize(("name", "operands", "attrs"), MULTI_RANK)
def test_other_ranks_are_not_simulated(name: str, operands: list[Any], attrs: dict[str, Any]) -> None:
    call = infer(name, *operands, **attrs)
    with pytest.raises(NotImplementedError, match=f"^multi-rank is not simulated yet: {name}$"):
        function(OPS[name].torch.call)(*operands, **call.kwargs)


def test_collectives_return_their_window() -> None:
    for name, operands, attrs in MULTI_RANK:
        type_ = infer(name, *operands, **attrs).type
        short = OPS[name].short_name
        if name.startswith(("pld.system", "dist")) or short in ("put", "get", "remote_store"):
            assert isinstance(type_, UnknownType)
        elif short == "remote_load":
            assert isinstance(type_, TileType)
            assert type_.memory_space is MemorySpace.Vec
        else:
            assert isinstance(type_, TensorType)
            assert type_.distributed


def test_every_distributed_op_is_tried_here() -> None:
    assert {op.name for op in OPS if op.namespace.split(".")[0] in ("pld", "builtin", "dist")} == COVERS


def test_one_rank_knows_itself() -> None:
    context: Type = infer("pld.system.get_comm_ctx", W).type
    assert isinstance(context, HandleType)
    for name in ("pld.system.rank", "pld.system.nranks"):
        assert infer(name, var(context)).type.dtype is dtypes.INT32
    assert run("pld.system.world_size") == 1
    held = ranks._comm_context(torch.zeros(1))
    assert ranks._rank(held) == 0
    assert ranks._nranks(held) == 1


@pytest.mark.parametrize(("size", "attrs"), [(256, {}), ([8, 8], {"dtype": dtypes.FP32})])
def test_a_window_is_the_memory_of_its_buffer(size: Any, attrs: dict[str, Any]) -> None:
    assert infer("pld.tensor.alloc_window_buffer", size, **attrs).type is PTR
    buffer = ranks._alloc_window_buffer(size, dtype=torch.float32 if attrs else None)
    assert buffer.numel() == 256
    type_ = infer("pld.tensor.window", var(PTR, "buf"), [4, 8], dtype=dtypes.FP16).type
    assert isinstance(type_, TensorType)
    assert type_.distributed
    assert type_.window_buffer == "buf"
    seen = ranks._window_tensor(buffer, [4, 8], dtype=torch.float16)
    seen.fill_(1.0)
    again = ranks._window_tensor(buffer, [32], dtype=torch.float16)
    assert again.eq(1.0).all()
    with pytest.raises(RuntimeError, match=r"takes 512 bytes, the buffer has 256"):
        ranks._window_tensor(buffer, [16, 8], dtype=torch.float32)


ERRORS: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("pld.system.get_comm_ctx", [LOCAL], {}, "needs a distributed tensor"),
    ("pld.system.rank", [W], {}, "needs a context"),
    ("pld.tensor.window", [LOCAL, [4]], {"dtype": dtypes.FP32}, "needs a window buffer"),
    ("pld.tensor.alloc_window_buffer", [[4, 4]], {}, "needs `dtype` with a shape"),
    ("pld.system.notify", [W, PEER, [0, 0], 1], {"op": 0}, "signals are pl.INT32"),
    ("pld.system.notify", [SIGNAL, PEER, [8], 1], {"op": 0}, "passes the end of the signal"),
    ("pld.system.wait", [SIGNAL, [0, 0], 1], {"cmp": 0}, "needs 1 entries"),
    ("pld.system.wait", [SIGNAL, [0], 1], {"cmp": 2}, "is not 0 to 1"),
    ("pld.tensor.put", [LOCAL, PEER, LOCAL], {}, "needs a distributed tensor"),
    ("pld.tensor.put", [W, PEER, tensor((8, 4), dtypes.FP16)], {}, "moves data as it is"),
    ("pld.tensor.put", [W, PEER, LOCAL, [0, 0]], {}, "together"),
    ("pld.tensor.put", [W, PEER, LOCAL, [6, 0], [0, 0], [4, 4]], {}, "passes the end of dst"),
    ("pld.tensor.get", [tensor((4,)), PEER, W], {}, "differ in rank"),
    ("pld.tile.put", [W, PEER, LOCAL, LOCAL], {}, "needs a tile"),
    ("pld.tile.remote_load", [W, PEER, [6, 0], [4, 4]], {}, "passes the end"),
    ("pld.tile.remote_store", [TILE, W, PEER, [6, 0]], {}, "passes the end"),
    ("pld.tensor.allreduce", [W], {"mode": "star"}, "mode 'star' is not"),
    ("pld.tensor.allreduce", [W], {"op": 4}, "is not 0 to 3"),
    ("pld.tensor.allreduce", [W], {"core_num": 0}, "0 cores"),
    ("pld.tensor.broadcast", [W, SIGNAL], {"root": -1}, "no rank -1"),
    ("pld.tensor.allgather", [LOCAL, window(4, 4), SIGNAL], {}, "smaller than one rank's part"),
    ("pld.tensor.all_to_all_v", [LOCAL, W, SIGNAL, tensor((4,)), RECEIVED], {}, "counts are integers"),
]


@pytest.mark.parametrize(("name", "operands", "attrs", "words"), ERRORS)
def test_distributed_ops_refuse(name: str, operands: list[Any], attrs: dict[str, Any], words: str) -> None:
    with pytest.raises(OpError, match=words):
        infer(name, *operands, **attrs)


def test_input_and_target_are_different_buffers() -> None:
    one = var(W)
    with pytest.raises(OpError, match="different buffers"):
        infer("pld.tensor.all_to_all", one, one, SIGNAL)
