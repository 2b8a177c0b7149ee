"""Runs one op by its record: infers the type, calls the runtime function, and holds the two against each other.

Every run happens twice, with different rubbish outside the valid regions of the operands; valid cells may not notice.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import MemorySpace
from pypto_lab.ir.types import ScalarType, ShapedType, TensorType, TensorView, TileType, TileView, Type
from pypto_lab.ops import OPS
from pypto_lab.ops.record import Effect, Op, make_call
from pypto_lab.torch_codegen.runtime import values

RUNTIME_MODULES = ("elementwise", "reductions", "expand", "casts", "matmul", "comparison")

TORCH = {
    dtypes.FP32: torch.float32,
    dtypes.FP16: torch.float16,
    dtypes.BF16: torch.bfloat16,
    dtypes.FP8E4M3FN: torch.float8_e4m3fn,
    dtypes.FP8E5M2: torch.float8_e5m2,
    dtypes.FP8E8M0: torch.float8_e8m0fnu,
    dtypes.INT8: torch.int8,
    dtypes.INT16: torch.int16,
    dtypes.INT32: torch.int32,
    dtypes.INT64: torch.int64,
    dtypes.INDEX: torch.int64,
    dtypes.UINT8: torch.uint8,
    dtypes.UINT16: torch.uint16,
    dtypes.UINT32: torch.uint32,
    dtypes.UINT64: torch.uint64,
    dtypes.BOOL: torch.bool,
}
DTYPE = {t: d for d, t in reversed(TORCH.items())}
STORED = {"HF8": torch.float32, "FP4": torch.float32, "INT4": torch.int8, "UINT4": torch.uint8}


@dataclass(frozen=True)
class Number:
    """A scalar operand with its dtype."""

    value: int | float | bool
    dtype: DType


def cells(data: Any, dtype: DType = dtypes.FP32, valid: tuple[int, ...] | None = None) -> torch.Tensor:
    """A value from nested lists (or a tensor), with a valid region if it is smaller than the box."""
    held = TORCH[dtype]
    made = data.to(held) if isinstance(data, torch.Tensor) else torch.tensor(data, dtype=held)
    return made if valid is None else values._mark(made.clone(), valid)


def runtime(name: str) -> Callable[..., Any]:
    """The runtime function a record names. Raises LookupError when there is none."""
    for module in RUNTIME_MODULES:
        found = getattr(importlib.import_module(f"pypto_lab.torch_codegen.runtime.{module}"), f"_{name}", None)
        if found is not None:
            return found
    raise LookupError(name)


def dims(sizes: tuple[int, ...]) -> tuple[n.Expr, ...]:
    return tuple(n.const(int(s)) for s in sizes)


def tile(shape: tuple[int, ...], dtype: DType = dtypes.FP32, valid: tuple[int, ...] | None = None) -> TileType:
    view = None if valid is None else TileView(valid_shape=dims(valid))
    return TileType(dims(shape), dtype, view, MemorySpace.Vec)


def tensor(shape: tuple[int, ...], dtype: DType = dtypes.FP32, valid: tuple[int, ...] | None = None) -> TensorType:
    view = None if valid is None else TensorView(valid_shape=dims(valid))
    return TensorType(dims(shape), dtype, view)


def var(type_: Type, name: str = "x") -> n.Var:
    return n.Var(name=name, type=type_)


def scalar(dtype: DType = dtypes.FP32, name: str = "s") -> n.Var:
    return var(ScalarType(dtype), name)


def expression(value: Any, space: str, first: torch.Tensor | None) -> n.Expr:
    """The IR operand that stands for a value."""
    if isinstance(value, n.Expr):
        return value
    if isinstance(value, torch.Tensor):
        valid = values._valid_of(value)
        kind = tile if space == "tile" else tensor
        narrowed = None if valid == tuple(value.shape) else valid
        return var(kind(tuple(value.shape), DTYPE[value.dtype], narrowed))
    if isinstance(value, Number):
        return n.const(value.value, value.dtype)
    if isinstance(value, int) and not isinstance(value, bool) and first is not None:
        return n.const(value, DTYPE[first.dtype] if not first.dtype.is_floating_point else dtypes.INDEX)
    return n.const(value)


def held(dtype: DType) -> torch.dtype | str:
    return TORCH.get(dtype, dtype.name)


def keywords(attrs: Mapping[str, Any]) -> dict[str, Any]:
    return {k: held(v) if isinstance(v, DType) else v for k, v in attrs.items()}


def spoiled(x: Any, marker: float) -> Any:
    """The value with `marker` in the cells that are not valid."""
    if not isinstance(x, torch.Tensor) or not values._is_partial(x):
        return x
    valid = values._valid_of(x)
    full = x.clone()
    flat = torch.zeros(full.shape, dtype=torch.bool)
    flat[tuple(slice(0, v) for v in valid)] = True
    filler = torch.full(full.shape, marker, dtype=torch.float32).to(full.dtype)
    return values._mark(torch.where(flat, full, filler), valid)


def bits(x: torch.Tensor) -> torch.Tensor:
    """The bytes of a value's valid cells, to compare exactly (NaN included)."""
    return box_bits(values._cut(x))


def box_bits(x: torch.Tensor) -> torch.Tensor:
    """The bytes of all cells."""
    whole = x.clone(memory_format=torch.contiguous_format)
    return whole.view(torch.uint8) if whole.dtype is not torch.bool else whole


def _invoke(op: Op, call: n.OpCall, operands: list[Any], copy: bool) -> torch.Tensor:
    kept = [v for v, a in zip(operands, op.args, strict=False) if a.effect is not Effect.NONE]
    facts: dict[str, Any] = {}
    if "dtype" in op.torch.result:
        assert isinstance(call.type, ShapedType)
        facts["dtype"] = held(call.type.dtype)
    if op.torch.writes is not None and copy:
        facts["copy"] = True
    numbers = [v.value if isinstance(v, Number) else v for v in kept]
    result = runtime(op.torch.call)(*numbers, **keywords(call.kwargs), **facts)
    assert isinstance(result, torch.Tensor)
    return result


def run(name: str, *operands: Any, **attrs: Any) -> torch.Tensor:
    """The op's value. Fails when its type, its purity or its `plain` form disagree with it."""
    op = OPS[name]
    first = next((x for x in operands if isinstance(x, torch.Tensor)), None)
    call = make_call(name, *(expression(x, op.namespace, first) for x in operands), **attrs)
    clean = [spoiled(x, 0.0) for x in operands]
    before = [x.clone() if isinstance(x, torch.Tensor) else x for x in clean]
    result = _invoke(op, call, clean, copy=True)
    for old, new in zip(before, clean, strict=True):
        assert not isinstance(old, torch.Tensor) or torch.equal(box_bits(old), box_bits(new)), (
            f"{name} changed an operand"
        )
    dirty = _invoke(op, call, [spoiled(x, 77.0) for x in operands], copy=True)
    assert torch.equal(bits(result), bits(dirty)), f"{name} reads cells that are not valid"
    check_type(call, result)
    check_plain(op, call, operands, result)
    return result


def check_type(call: n.OpCall, value: torch.Tensor) -> None:
    """The inferred type states the value's box, dtype and region."""
    assert isinstance(call.type, ShapedType)
    assert tuple(arith.constant(d) for d in call.type.shape) == tuple(value.shape)
    assert tuple(arith.constant(d) for d in call.type.valid_shape) == values._valid_of(value)
    assert held(call.type.dtype) == value.dtype or STORED.get(call.type.dtype.name) is value.dtype


def check_plain(op: Op, call: n.OpCall, operands: tuple[Any, ...], value: torch.Tensor) -> None:
    """Where a torch expression stands for the op, it gives the same bits."""
    partial = any(isinstance(x, torch.Tensor) and values._is_partial(x) for x in operands)
    if op.torch.plain is None or partial or (op.torch.plain_when and not op.torch.plain_when(call)):
        return
    kept = [x for x, a in zip(operands, op.args, strict=False) if a.effect is not Effect.NONE]
    names = {f"arg{i}": x.value if isinstance(x, Number) else x for i, x in enumerate(kept)}
    text = op.torch.plain.format(*names, **{k: str(v) for k, v in keywords(call.kwargs).items()})
    plain = eval(text, {"torch": torch, **names})
    assert plain.dtype is value.dtype
    assert torch.equal(bits(plain), bits(value)), f"{text} is not {op.name}"


def expect(value: torch.Tensor, wanted: Any) -> None:
    """The valid cells hold exactly these numbers (NaN equals NaN)."""
    got = values._cut(value).to(torch.float64)
    torch.testing.assert_close(got, torch.as_tensor(wanted, dtype=torch.float64), rtol=0, atol=0, equal_nan=True)


def case_ids(cases: list[tuple[Any, ...]]) -> list[str]:
    return [f"{i}-{case[0]}" for i, case in enumerate(cases)]
