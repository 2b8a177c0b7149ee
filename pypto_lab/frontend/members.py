"""Members of the DSL namespace that are values: dtypes, enum members and a few constants."""

from __future__ import annotations

from enum import Enum
from typing import Any

from pypto_lab.frontend.missing import MISSING
from pypto_lab.ir import dtypes, enums
from pypto_lab.ir.diagnostics import nearest

ENUMS: dict[str, type[Enum]] = {
    "MemorySpace": enums.MemorySpace,
    "TensorLayout": enums.TensorLayout,
    "TileLayout": enums.TileLayout,
    "PadValue": enums.PadValue,
    "CompactMode": enums.CompactMode,
    "SplitMode": enums.SplitMode,
    "Level": enums.Level,
    "Role": enums.Role,
    "FunctionType": enums.FunctionType,
    "ScopeMode": enums.ScopeMode,
    "AtomicType": enums.AtomicType,
    "PipeType": enums.PipeType,
    "MaskPattern": enums.MaskPattern,
    "MgatherCoalesce": enums.MgatherCoalesce,
    "NotifyOp": enums.NotifyOp,
    "WaitCmp": enums.WaitCmp,
    "ReduceOp": enums.ReduceOp,
    "ForKind": enums.ForKind,
}
"""Enums by the name users reach them under (`pl.MemorySpace`, `pl.tile.MaskPattern`, `pld.NotifyOp`)."""

CONSTANTS: dict[str, Any] = {"pl.AUTO": -1, "pl.system.AUTO": -1}
ROLE_ALIASES = {"Worker": "SubWorker"}


class Runtime:
    """`pl.RUNTIME`: the marker of a scalar that stays a run-time value."""

    def __repr__(self) -> str:
        return "pl.RUNTIME"


RUNTIME = Runtime()


def member(path: str) -> Any:
    """The value of a dotted DSL name (`pl.FP32`, `pl.MemorySpace.Vec`), MISSING when it is no value."""
    if path in CONSTANTS:
        return CONSTANTS[path]
    head, _, last = path.rpartition(".")
    if path == "pl.RUNTIME":
        return RUNTIME
    if head in ("pl", "pld") and (last in dtypes.DTYPES or last in dtypes.ALIASES):
        return dtypes.dtype(last)
    if head.rpartition(".")[2] == "adir":
        return next((d for d in enums.ArgDirection if d.value == last), MISSING)
    enum = ENUMS.get(head.rpartition(".")[2])
    return MISSING if enum is None else _enum_member(enum, last)


def _enum_member(enum: type[Enum], name: str) -> Any:
    if enum is enums.Level:
        name = enums.LEVEL_ALIASES.get(name, name)
    if enum is enums.Role:
        name = ROLE_ALIASES.get(name, name)
    return enum.__members__.get(name, MISSING)


def is_value_path(path: str) -> bool:
    """Whether a name looks like a value of the namespace (`pl.FP23`, `pl.MemorySpace.UB`) rather than an operation."""
    head, _, last = path.rpartition(".")
    return head.rpartition(".")[2] in ENUMS or (head in ("pl", "pld") and last.isupper())


def unknown_member(path: str) -> tuple[str, str]:
    """The message and hint for a value that does not exist."""
    head, _, last = path.rpartition(".")
    enum = ENUMS.get(head.rpartition(".")[2])
    names = list(enum.__members__) if enum is not None else list(dtypes.DTYPES)
    what = f"member of `{head}`" if enum is not None else "dtype"
    near = nearest(last, names)
    first = "did you mean " + " or ".join(f"`{head}.{c}`" for c in near) + "? " if near else ""
    known = [c for c in names if c not in ("FP64", "INDEX") or enum is not None]
    return f"`{path}` is no {what}", f"{first}known: {', '.join(known)}"
