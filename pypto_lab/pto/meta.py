"""`compiled_meta.json`: what a caller hands to a compiled program (its parameters), and what it was compiled for."""

from __future__ import annotations

from pypto_lab.ir import arith
from pypto_lab.ir import dtypes as d
from pypto_lab.ir import nodes as n
from pypto_lab.ir.types import ScalarType, ShapedType, Type
from pypto_lab.pto.config import orchestration_function

SCHEMA = 1
BACKENDS = {"a2a3": "Ascend910B", "a5": "Ascend950"}
"""The compiler's name of each architecture's backend."""
_UNKNOWN_EXTENT = -1
_NAMES = {d.BF16: "bfloat16"}


def meta(
    program: n.Program, arch: str = "a2a3", *, platform: str | None = None, function: str | None = None
) -> dict[str, object]:
    """The facts of `compiled_meta.json` for a program as the last pass leaves it.

    A tensor's shape lists its extents in elements, -1 for a dynamic one; a scalar's is None. `platform` is the
    simulator of the architecture by default.

    Raises:
        LabError (E656): no or several orchestration functions.
        ValueError: an unknown arch.
    """
    if arch not in BACKENDS:
        raise ValueError(f"no architecture is called {arch!r}; there are {', '.join(BACKENDS)}")
    start = orchestration_function(program, function)
    return {
        "schema": SCHEMA,
        "params": [_parameter(param) for param in start.params],
        "num_return_types": len(start.return_types),
        "platform": platform or f"{arch}sim",
        "backend_type": BACKENDS[arch],
    }


def _parameter(param: n.Param) -> dict[str, object]:
    return {
        "name": plain_name(param.name),
        "direction": param.direction.value,
        "shape": _extents(param.type),
        "dtype": dtype_name(param.type),
    }


def plain_name(name: str) -> str:
    """A parameter's name as its author wrote it: without the version that a pass appended."""
    return name.partition("__ssa_v")[0]


def _extents(type_: Type) -> list[int] | None:
    if not isinstance(type_, ShapedType):
        return None
    known = (arith.constant(dimension) for dimension in type_.shape)
    return [_UNKNOWN_EXTENT if extent is None else extent for extent in known]


def dtype_name(type_: Type) -> str | None:
    """The name of an element type in the file, e.g. `fp32`; None for a handle."""
    if not isinstance(type_, (ShapedType, ScalarType)):
        return None
    return _NAMES.get(type_.dtype, type_.dtype.name.lower())
