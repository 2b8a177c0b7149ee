"""Runs one op on tensors, tiles, lists and scalars: infers its type, calls its runtime function, compares the two."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from op_running import DTYPE, TORCH, Number, dims

from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import MemorySpace, TensorLayout, TileLayout
from pypto_lab.ir.types import (
    ScalarType,
    ShapedType,
    TensorType,
    TensorView,
    TileType,
    TileView,
    TupleType,
    Type,
)
from pypto_lab.ops import OPS
from pypto_lab.ops.record import Effect, make_call
from pypto_lab.torch_codegen.preamble import RUNTIME
from pypto_lab.torch_codegen.runtime import values

Sizes = Sequence[int]


@dataclass(frozen=True)
class Held:
    """A value with the type it has in the program."""

    data: torch.Tensor
    type: ShapedType


def valid_of(data: torch.Tensor) -> tuple[n.Expr, ...] | None:
    return dims(values._valid_of(data)) if values._is_partial(data) else None


def on_tile(data: torch.Tensor, space: MemorySpace = MemorySpace.Vec, **view: Any) -> Held:
    """A tile operand."""
    valid = valid_of(data)
    stated = None if valid is None and not view else TileView(valid_shape=valid, **view)
    return Held(data, TileType(dims(tuple(data.shape)), DTYPE[data.dtype], stated, space))


def on_tensor(data: torch.Tensor, layout: TensorLayout | None = None) -> Held:
    """A tensor operand."""
    valid = valid_of(data)
    stated = None if valid is None and layout is None else TensorView(valid_shape=valid, layout=layout)
    return Held(data, TensorType(dims(tuple(data.shape)), DTYPE[data.dtype], stated))


def numbered(*shape: int, dtype: torch.dtype = torch.float32, valid: Sizes | None = None) -> torch.Tensor:
    """1, 2, 3 ... in row-major order; outside `valid` a number that must never show."""
    count = 1
    for extent in shape:
        count *= extent
    data = torch.arange(1, count + 1, dtype=torch.float32).reshape(shape)
    if valid is None:
        return data.to(dtype)
    inside = torch.zeros(shape, dtype=torch.bool)
    inside[tuple(slice(0, v) for v in valid)] = True
    return values._mark(torch.where(inside, data, torch.tensor(-77.0)).to(dtype), valid)


def listed(sizes: Sequence[Any]) -> n.MakeTuple:
    elements = tuple(s if isinstance(s, n.Expr) else n.const(int(s)) for s in sizes)
    return n.MakeTuple(elements=elements, type=TupleType(tuple(e.type for e in elements)))


def operand(value: Any) -> n.Expr:
    """The IR expression of an operand."""
    if isinstance(value, n.Expr):
        return value
    if isinstance(value, Held):
        return n.Var(name="x", type=value.type)
    if isinstance(value, Type):
        return n.Var(name="x", type=value)
    if isinstance(value, Number):
        return n.const(value.value, value.dtype)
    if isinstance(value, (list, tuple)):
        return listed(value)
    return n.const(value)


def function(name: str) -> Any:
    """A runtime function by the name a record gives. Raises LookupError when no module has it."""
    for path in sorted(RUNTIME.glob("[a-z]*.py")):
        module = importlib.import_module(f"pypto_lab.torch_codegen.runtime.{path.stem}")
        if hasattr(module, f"_{name}"):
            return getattr(module, f"_{name}")
    raise LookupError(name)


def infer(name: str, /, *operands: Any, **attrs: Any) -> n.OpCall:
    """The typed call."""
    return make_call(name, *(operand(x) for x in operands), **attrs)


def passed(value: Any) -> Any:
    """An attribute as a script passes it."""
    if isinstance(value, DType):
        return TORCH.get(value, value.name)
    return value.name if isinstance(value, Enum) else value


def value_of(argument: Any) -> Any:
    if isinstance(argument, Held):
        return argument.data
    if isinstance(argument, Number):
        return argument.value
    return list(argument) if isinstance(argument, tuple) else argument


def run(name: str, /, *operands: Any, copy: bool | None = None, **attrs: Any) -> Any:
    """The op's value. Fails when its box, dtype or valid region is not what the type rule says."""
    op = OPS[name]
    call = infer(name, *operands, **attrs)
    kept = [x for x, a in zip(operands, op.args, strict=False) if a.effect is not Effect.NONE]
    kept += list(operands[len(op.args) :])
    keywords = {k: passed(v) for k, v in call.kwargs.items() if v is not None}
    runtime = function(op.torch.call)
    if "shape" in op.torch.result and isinstance(call.type, ShapedType):
        keywords["shape"] = [arith.constant(d) for d in call.type.shape]
    if copy is not None:
        keywords["copy"] = copy
    keywords = {k: v for k, v in keywords.items() if _takes(runtime, k)}
    result = runtime(*(value_of(x) for x in kept), **keywords)
    agrees(call.type, result)
    return result


def _takes(runtime: Any, keyword: str) -> bool:
    return keyword in runtime.__code__.co_varnames[: runtime.__code__.co_argcount + runtime.__code__.co_kwonlyargcount]


def agrees(type_: Type, value: Any) -> None:
    """The type states the value's box, dtype and region."""
    if isinstance(type_, TupleType):
        assert len(type_.elements) == len(value)
        for each, part in zip(type_.elements, value, strict=True):
            agrees(each, part)
    elif isinstance(type_, ShapedType):
        assert [arith.constant(d) for d in type_.shape] == list(value.shape)
        assert [arith.constant(d) for d in type_.valid_shape] == list(values._valid_of(value))
        assert TORCH[type_.dtype] is value.dtype
    elif isinstance(type_, ScalarType):
        assert isinstance(value, (int, float, bool))


def same(value: torch.Tensor, wanted: torch.Tensor) -> None:
    """The valid cells are exactly these."""
    torch.testing.assert_close(values._cut(value), wanted, rtol=0, atol=0, equal_nan=True)


def undefined_outside(value: torch.Tensor) -> None:
    """Cells outside the valid region hold what undefined cells hold now (zeros, or the marker of a debug run)."""
    inside = torch.zeros(value.shape, dtype=torch.bool)
    inside[tuple(slice(0, v) for v in values._valid_of(value))] = True
    blank = values._undefined(tuple(value.shape), value.dtype)
    torch.testing.assert_close(value[~inside], blank[~inside], rtol=0, atol=0, equal_nan=True)


COLUMN_MAJOR = {"blayout": TileLayout.col_major}
