"""Stand-in for `pypto.language.distributed`: names of the distributed part of the kernel language."""

from __future__ import annotations

from typing import Any

from pypto_lab.compat.dsl import AnnotationHead, DslName, DslNamespace, placeholder
from pypto_lab.ir.enums import AtomicType, NotifyOp, ReduceOp, WaitCmp

_pypto_lab_name = "pld"

DistributedTensor = AnnotationHead("pld.DistributedTensor")
CommCtx, CommCtxType = AnnotationHead("pld.CommCtx"), AnnotationHead("pld.CommCtxType")
WindowBufferType = AnnotationHead("pld.WindowBufferType")
system, tensor, tile = (DslNamespace(f"pld.{layer}") for layer in ("system", "tensor", "tile"))

STRUCTURE = ("alloc_window_buffer", "get_comm_ctx", "nranks", "rank", "remote_load", "remote_store", "window",
             "world_size")  # fmt: skip

__all__ = [
    "STRUCTURE", "AtomicType", "CommCtx", "CommCtxType", "DistributedTensor", "NotifyOp", "ReduceOp", "WaitCmp",
    "WindowBufferType", "system", "tensor", "tile",
]  # fmt: skip


def __getattr__(attribute: str) -> Any:
    if attribute in STRUCTURE:
        return DslName(f"pld.{attribute}")
    if attribute.startswith("__"):
        raise AttributeError(attribute)
    return placeholder("pld", attribute, (*STRUCTURE, *globals()))
