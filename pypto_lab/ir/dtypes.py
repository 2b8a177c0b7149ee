"""Element types of PyPTO (`reference/language.md` 1.2): their printed names, codes, widths and families."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Family(Enum):
    """What arithmetic a dtype follows."""

    BOOL = "bool"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    FLOAT = "float"
    TASK = "task"


@dataclass(frozen=True, slots=True)
class DType:
    """One element type; compare with `is` or `==`, look up with :func:`dtype`."""

    name: str
    code: int
    bits: int
    family: Family

    @property
    def is_float(self) -> bool:
        return self.family is Family.FLOAT

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned integer; INDEX is one, BOOL is not."""
        return self.family in (Family.SIGNED, Family.UNSIGNED)

    @property
    def is_signed(self) -> bool:
        return self.family in (Family.SIGNED, Family.FLOAT)

    def __str__(self) -> str:
        return f"pl.{self.name}"

    def __repr__(self) -> str:
        return f"pl.{self.name}"


BOOL = DType("BOOL", 0x00, 8, Family.BOOL)
INT4 = DType("INT4", 0x10, 4, Family.SIGNED)
INT8 = DType("INT8", 0x11, 8, Family.SIGNED)
INT16 = DType("INT16", 0x12, 16, Family.SIGNED)
INT32 = DType("INT32", 0x13, 32, Family.SIGNED)
INT64 = DType("INT64", 0x14, 64, Family.SIGNED)
INDEX = DType("INDEX", 0x15, 64, Family.SIGNED)
UINT4 = DType("UINT4", 0x20, 4, Family.UNSIGNED)
UINT8 = DType("UINT8", 0x21, 8, Family.UNSIGNED)
UINT16 = DType("UINT16", 0x22, 16, Family.UNSIGNED)
UINT32 = DType("UINT32", 0x23, 32, Family.UNSIGNED)
UINT64 = DType("UINT64", 0x24, 64, Family.UNSIGNED)
FP4 = DType("FP4", 0x30, 4, Family.FLOAT)
FP8E4M3FN = DType("FP8E4M3FN", 0x31, 8, Family.FLOAT)
FP8E5M2 = DType("FP8E5M2", 0x32, 8, Family.FLOAT)
FP16 = DType("FP16", 0x33, 16, Family.FLOAT)
FP32 = DType("FP32", 0x34, 32, Family.FLOAT)
FP64 = DType("FP64", 0x35, 64, Family.FLOAT)
FP8E8M0 = DType("FP8E8M0", 0x36, 8, Family.FLOAT)
BF16 = DType("BF16", 0x40, 16, Family.FLOAT)
HF4 = DType("HF4", 0x41, 4, Family.FLOAT)
HF8 = DType("HF8", 0x42, 8, Family.FLOAT)
TASK_ID = DType("TASK_ID", 0x50, 64, Family.TASK)

DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        BOOL, INT4, INT8, INT16, INT32, INT64, INDEX, UINT4, UINT8, UINT16, UINT32, UINT64,
        FP4, FP8E4M3FN, FP8E5M2, FP16, FP32, FP64, FP8E8M0, BF16, HF4, HF8, TASK_ID,
    )
}  # fmt: skip
ALIASES: dict[str, str] = {"BFLOAT16": "BF16"}


def dtype(name: str) -> DType:
    """The dtype printed as `pl.<name>`, old aliases included. Raises KeyError for an unknown name."""
    return DTYPES[ALIASES.get(name, name)]
