"""A DSL call before dispatch: its arguments with their places, and the error that carries a finding about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic
from pypto_lab.ir.enums import SplitMode
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import ArrayType, ScalarType, TensorType, TileType, TupleType, Type


@dataclass(frozen=True)
class Actual:
    """One argument as the user gave it: an expression, a dtype, an enum member, a string, None, or a tuple of these."""

    value: Any
    span: Span | None = None

    @property
    def type(self) -> Type | None:
        return self.value.type if isinstance(self.value, n.Expr) else None


class DispatchError(Exception):
    """A call that means no op, or whose arguments do not fit; carries the diagnostic to report."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


@dataclass(frozen=True)
class Call:
    """A call to dispatch. `path` is the dotted spelling; `split` the lane split of the enclosing region;
    `attrs` compiler annotations kept verbatim."""

    path: str
    actuals: tuple[Actual, ...]
    keywords: Mapping[str, Actual]
    span: Span | None = None
    name_span: Span | None = None
    split: SplitMode | None = None
    attrs: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def everything(self) -> Iterator[Actual]:
        yield from self.actuals
        yield from self.keywords.values()

    def fail(self, code: str, message: str, span: Span | None = None, **more: Any) -> DispatchError:
        return DispatchError(Diagnostic(code, message, span or self.span, **more))


def describe(actual: Actual) -> str:
    match actual.type:
        case TensorType():
            return "a Tensor"
        case TileType():
            return "a Tile"
        case ScalarType(dtype=dtype):
            return f"a {dtype.name} scalar"
        case ArrayType():
            return "an Array"
        case TupleType():
            return "a list"
    return f"{actual.value!r}" if actual.value is not None else "None"
