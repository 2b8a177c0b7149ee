"""Stand-in for `pypto.language`: dtypes, enums, annotation heads and decorators are real objects; ops are names."""

from __future__ import annotations

from typing import Any

from pypto_lab.compat.dsl import AnnotationHead, DslName, DslNamespace, placeholder
from pypto_lab.compat.kernels import Jit, decorator, program
from pypto_lab.compat.parsing import loads, loads_program, parse, parse_program
from pypto_lab.compat.running import RUNTIME
from pypto_lab.frontend.kernels import DynamicDim
from pypto_lab.ir import enums
from pypto_lab.ir.dtypes import DTYPES
from pypto_lab.ir.dtypes import DType as DataType
from pypto_lab.ir.enums import (
    ArgDirection,
    AtomicType,
    CompactMode,
    ForKind,
    FunctionType,
    Level,
    MemorySpace,
    PadValue,
    PipeType,
    Role,
    ScopeMode,
    SplitMode,
    TensorLayout,
    TileLayout,
)

_pypto_lab_name = "pl"

BOOL, INT4, INT8, INT16, INT32, INT64, INDEX = (
    DTYPES[d] for d in ("BOOL", "INT4", "INT8", "INT16", "INT32", "INT64", "INDEX")
)
UINT4, UINT8, UINT16, UINT32, UINT64 = (DTYPES[d] for d in ("UINT4", "UINT8", "UINT16", "UINT32", "UINT64"))
FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, FP32, FP64 = (
    DTYPES[d] for d in ("FP4", "FP8E4M3FN", "FP8E5M2", "FP8E8M0", "FP16", "FP32", "FP64")
)
BF16, HF4, HF8, TASK_ID = (DTYPES[d] for d in ("BF16", "HF4", "HF8", "TASK_ID"))
BFLOAT16 = BF16

Mem = MemorySpace
ParamDirection = enums.Direction
Direction = enums.Direction
MaskPattern = enums.MaskPattern
MgatherCoalesce = enums.MgatherCoalesce
NotifyOp, WaitCmp, ReduceOp = enums.NotifyOp, enums.WaitCmp, enums.ReduceOp
adir = DslNamespace("pl.adir", {d.value: d for d in ArgDirection})

Tensor, Tile, Scalar, Array, Tuple = (AnnotationHead(f"pl.{h}") for h in ("Tensor", "Tile", "Scalar", "Array", "Tuple"))
Out, InOut = AnnotationHead("pl.Out"), AnnotationHead("pl.InOut")
MemRef, TensorView, TileView = (AnnotationHead(f"pl.{h}") for h in ("MemRef", "TensorView", "TileView"))
Ptr, MemRefType, UnknownType = (AnnotationHead(f"pl.{h}") for h in ("Ptr", "MemRefType", "UnknownType"))
PrefetchAsyncContext, AsyncEvent, AsyncSession = (
    AnnotationHead(f"pl.{h}") for h in ("PrefetchAsyncContext", "AsyncEvent", "AsyncSession")
)

jit = Jit()
function = decorator("function")
inline = decorator("inline")
dynamic = DynamicDim

_ENUM_MEMBERS = {"MaskPattern": MaskPattern, "MgatherCoalesce": MgatherCoalesce, "PipeType": PipeType}
tile = DslNamespace("pl.tile", _ENUM_MEMBERS)
tensor = DslNamespace("pl.tensor", _ENUM_MEMBERS)
system = DslNamespace("pl.system", _ENUM_MEMBERS)
array = DslNamespace("pl.array")
prefetch = DslNamespace("pl.prefetch")

STRUCTURE = (
    "at", "auto_chunk", "auto_incore", "cluster", "cond", "const", "cross_core_slot", "func_attr", "incore",
    "manual_scope", "no_dep", "dump_tag", "parallel", "pipeline", "range", "scope", "spmd", "spmd_submit", "split",
    "split_aiv", "static_assert", "static_print", "submit", "unroll", "while_", "yield_",
)  # fmt: skip
"""Loops, scopes and other forms of the language that are not ops; they exist in kernel bodies only."""

__all__ = [
    "RUNTIME", "STRUCTURE", "ArgDirection", "AtomicType", "CompactMode", "DataType", "Direction", "ForKind",
    "FunctionType", "Level", "MaskPattern", "Mem", "MemorySpace", "MgatherCoalesce", "PadValue", "ParamDirection",
    "PipeType", "Role", "ScopeMode", "SplitMode", "TensorLayout", "TileLayout", "adir", "array", "dynamic", "function",
    "inline", "jit", "loads", "loads_program", "parse", "parse_program", "prefetch", "program", "system", "tensor",
    "tile",
]  # fmt: skip


def __getattr__(attribute: str) -> Any:
    if attribute in STRUCTURE:
        return DslName(f"pl.{attribute}")
    if attribute.startswith("__"):
        raise AttributeError(attribute)
    return placeholder("pl", attribute, (*STRUCTURE, *globals()))
