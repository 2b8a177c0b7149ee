"""Element types of `.pto` text as torch dtypes; those torch lacks cannot be executed."""

from __future__ import annotations

import torch

TORCH: dict[str, torch.dtype] = {
    "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64,
    "i1": torch.bool, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "si8": torch.int8, "si16": torch.int16, "si32": torch.int32, "si64": torch.int64, "index": torch.int64,
    "ui8": torch.uint8, "ui16": torch.uint16, "ui32": torch.uint32, "ui64": torch.uint64,
    "f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2, "!pto.f8E8M0": torch.float8_e8m0fnu,
}  # fmt: skip

BITS_OF: dict[int, torch.dtype] = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Dtypes of a size that every torch operation moves without change."""

SCALAR_BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "index": 64,
               "ui8": 8, "ui16": 16, "ui32": 32, "ui64": 64, "si8": 8, "si16": 16, "si32": 32, "si64": 64}  # fmt: skip


def bits(cells: torch.Tensor) -> torch.Tensor:
    """The same memory in a dtype that can be indexed and copied bit for bit."""
    return cells.view(BITS_OF[cells.element_size()])
