"""The runtime's C++ names of element types: of a scalar on the host, and of a tensor's elements."""

from __future__ import annotations

from pypto_lab.ir import dtypes as d
from pypto_lab.ir.dtypes import DType

SCALAR_TYPES: dict[DType, str] = {
    d.BOOL: "bool", d.INDEX: "int64_t",
    d.INT8: "int8_t", d.INT16: "int16_t", d.INT32: "int32_t", d.INT64: "int64_t",
    d.UINT8: "uint8_t", d.UINT16: "uint16_t", d.UINT32: "uint32_t", d.UINT64: "uint64_t",
    d.FP32: "float", d.FP64: "double", d.TASK_ID: "PTO2TaskId",
}  # fmt: skip
"""Host types of scalars. A 16-bit float has none: an orchestration can only pass on what the host can compute with."""

DATA_TYPES: dict[DType, str] = {
    d.BOOL: "BOOL", d.INT8: "INT8", d.INT16: "INT16", d.INT32: "INT32", d.INT64: "INT64",
    d.UINT8: "UINT8", d.UINT16: "UINT16", d.UINT32: "UINT32", d.UINT64: "UINT64",
    d.FP16: "FLOAT16", d.BF16: "BFLOAT16", d.FP32: "FLOAT32",
    d.FP8E4M3FN: "FP8E4M3FN", d.FP8E8M0: "FP8E8M0", d.FP4: "FP4E2M1",
}  # fmt: skip
"""Members of the runtime's `DataType`."""
