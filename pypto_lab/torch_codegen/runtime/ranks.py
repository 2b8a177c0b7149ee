"""Distributed ops on one rank: what is trivial works, what needs another rank says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch

from pypto_lab.torch_codegen.runtime.memory import _stored_dtype
from pypto_lab.torch_codegen.runtime.values import _undefined


def _world_size() -> int:
    """How many ranks run: one."""
    return 1


def _comm_context(distributed: torch.Tensor) -> str:
    """A handle of the communication domain."""
    return "one rank"


def _rank(context: str) -> int:
    """This rank's number."""
    return 0


def _nranks(context: str) -> int:
    """How many ranks the domain has: one."""
    return 1


def _alloc_window_buffer(size: int | Sequence[int], *, name: str = "", dtype: Any = None) -> torch.Tensor:
    """The bytes of this rank's window; `size` is in bytes, or a shape with `dtype`."""
    if isinstance(size, int):
        return _undefined((size,), torch.uint8)
    count = 1
    for extent in size:
        count *= extent
    return _undefined((count * _stored_dtype(dtype).itemsize,), torch.uint8)


def _window_tensor(buffer: torch.Tensor, shape: Sequence[int], *, dtype: Any) -> torch.Tensor:
    """The head of a window buffer as a tensor, in the same memory. Raises RuntimeError when the buffer is too small."""
    stored = _stored_dtype(dtype)
    size = stored.itemsize
    for extent in shape:
        size *= extent
    if size > buffer.numel():
        raise RuntimeError(f"pld.tensor.window: {list(shape)} takes {size} bytes, the buffer has {buffer.numel()}")
    return buffer[:size].view(stored).view(tuple(shape))


def _multi_rank(op: str) -> NoReturn:
    """Raises NotImplementedError: the op needs other ranks."""
    raise NotImplementedError(f"multi-rank is not simulated yet: {op}")


def _pld_system_defer_wait(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("pld.system.defer_wait")


def _pld_system_notify(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("pld.system.notify")


def _pld_system_wait(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("pld.system.wait")


def _pld_tensor_all_to_all(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("pld.tensor.all_to_all")


def _pld_tensor_all_to_all_v(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("pld.tensor.all_to_all_v")


def _pld_tensor_allgather(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("pld.tensor.allgather")


def _pld_tensor_allreduce(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("pld.tensor.allreduce")


def _pld_tensor_barrier(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("pld.tensor.barrier")


def _pld_tensor_broadcast(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("pld.tensor.broadcast")


def _pld_tensor_get(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("pld.tensor.get")


def _pld_tensor_put(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("pld.tensor.put")


def _pld_tensor_reduce_scatter(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("pld.tensor.reduce_scatter")


def _pld_tensor_remote_store(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("pld.tensor.remote_store")


def _pld_tile_get(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("pld.tile.get")


def _pld_tile_put(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("pld.tile.put")


def _pld_tile_remote_load(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("pld.tile.remote_load")


def _pld_tile_remote_store(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("pld.tile.remote_store")


def _builtin_tensor_all_to_all(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("builtin.tensor.all_to_all")


def _builtin_tensor_all_to_all_v(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("builtin.tensor.all_to_all_v")


def _builtin_tensor_allgather(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("builtin.tensor.allgather")


def _builtin_tensor_allreduce(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("builtin.tensor.allreduce")


def _builtin_tensor_allreduce_ring(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("builtin.tensor.allreduce_ring")


def _builtin_tensor_barrier(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("builtin.tensor.barrier")


def _builtin_tensor_broadcast(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("builtin.tensor.broadcast")


def _builtin_tensor_reduce_scatter(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("builtin.tensor.reduce_scatter")


def _dist_future_get(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("dist.future_get")


def _dist_make_tensor(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("dist.make_tensor")


def _dist_submit_orchestrator(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("dist.submit_orchestrator")


def _dist_submit_worker(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("dist.submit_worker")


def _dist_tree_reduce(*operands: Any, **attributes: Any) -> NoReturn:
    _multi_rank("dist.tree_reduce")
