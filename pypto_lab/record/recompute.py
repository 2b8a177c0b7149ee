"""Values that were not kept, computed again from their recorded operands; and torch forms of recorded cells."""

from __future__ import annotations

import ast
from collections import OrderedDict
from collections.abc import Mapping
from types import CodeType
from typing import Any

import numpy as np
import torch

from pypto_lab.record.arrays import raw_dtype
from pypto_lab.record.build import contiguous_strides, dtype_name
from pypto_lab.record.events import RecomputedValue, SequenceValue, TensorValue, Value
from pypto_lab.record.instrument import VALID_ATTRIBUTE
from pypto_lab.record.trace import Cells, Content, Index, Trace

CACHE = 512
"""Recomputed values that are kept at hand."""


def to_torch(cells: Cells) -> torch.Tensor:
    """A tensor over recorded cells, strides kept (so the same kernels run). It must not be written to."""
    raw = cells.raw if cells.raw.flags.writeable else cells.raw.copy()
    out = torch.from_numpy(raw).view(getattr(torch, cells.dtype)) if raw.ndim else _scalar_tensor(cells)
    if cells.valid is not None:
        setattr(out, VALID_ATTRIBUTE, cells.valid)
        out._pypto_full_shape = tuple(out.shape)  # type: ignore[attr-defined]
    return out


def _scalar_tensor(cells: Cells) -> torch.Tensor:
    return torch.from_numpy(cells.raw.reshape(1).copy()).view(getattr(torch, cells.dtype)).reshape(())


def from_torch(x: torch.Tensor) -> Cells:
    """The cells of a tensor, sharing its memory where its bits can be seen by numpy."""
    name = dtype_name(x.dtype)
    raw = raw_dtype(name)
    flat = x.detach().contiguous().reshape(-1).view(torch.uint8).numpy() if x.numel() else np.zeros(0, np.uint8)
    return Cells(flat.view(raw).reshape(tuple(x.shape)), name, x.__dict__.get(VALID_ATTRIBUTE))


def live_value(content: Content) -> Any:
    """Content as the script would see it: tensors for cells."""
    if isinstance(content, Cells):
        return to_torch(content)
    if isinstance(content, tuple):
        return tuple(live_value(c) for c in content)
    if isinstance(content, Mapping):
        return {k: live_value(v) for k, v in content.items()}
    return content


def recorded_content(value: Any) -> Content:
    """The inverse of `live_value`."""
    if isinstance(value, torch.Tensor):
        return from_torch(value)
    if isinstance(value, (tuple, list)):
        return tuple(recorded_content(v) for v in value)
    return value


class Recomputer:
    """Evaluates the right-hand sides of recomputed statements in the state before their step."""

    def __init__(
        self, trace: Trace, expressions: Mapping[int, ast.expr], scopes: Mapping[int, Mapping[str, Any]]
    ) -> None:
        """`scopes` gives, by function id, the names its code sees besides its own variables."""
        self.trace = trace
        self.index = Index(trace)
        self._scopes = scopes
        self._codes: dict[int, CodeType] = {}
        self._expressions = expressions
        self._cache: OrderedDict[int, Any] = OrderedDict()

    def content(self, step: int) -> Content:
        return recorded_content(self._value(step))

    def _value(self, step: int) -> Any:
        if step in self._cache:
            self._cache.move_to_end(step)
            return self._cache[step]
        statement = self.index.statement(step)
        assert statement is not None
        frame = self.trace.steps.frame[step - 1]
        names = {name: self._operand(frame, name, step - 1) for name in statement.reads if self._is_bound(frame, name)}
        scope = self._scopes[statement.function]
        with torch.no_grad():
            value = eval(self._code(statement.id), dict(scope), names)
        self._cache[step] = value
        if len(self._cache) > CACHE:
            self._cache.popitem(last=False)
        return value

    def _is_bound(self, frame: int, name: str) -> bool:
        return (frame, name) in self.index.history

    def _operand(self, frame: int, name: str, position: int) -> Any:
        bound = self.index.bound(frame, name, position)
        if bound is None:
            return None
        found = self.trace.values[bound.value]
        if isinstance(found, RecomputedValue):
            return self._value(found.step)
        return live_value(self.index.content(bound.value, position))

    def _code(self, statement: int) -> CodeType:
        code = self._codes.get(statement)
        if code is None:
            tree = ast.fix_missing_locations(ast.Expression(self._expressions[statement]))
            code = self._codes[statement] = compile(tree, "<recorded statement>", "eval")
        return code


def materialise(trace: Trace) -> None:
    """Computes every value that was not kept and stores it, so that the trace stands without its script."""
    if trace.recompute is None:
        return
    for number, value in enumerate(trace.values):
        if isinstance(value, RecomputedValue):
            trace.values[number] = _stored(trace, trace.recompute(value.step))


def _stored(trace: Trace, content: Content) -> Value:
    from pypto_lab.record.events import ScalarValue

    if isinstance(content, Cells):
        flat = np.ascontiguousarray(content.raw).reshape(-1).view(np.uint8)
        storage = trace.store.add_storage(flat)
        return TensorValue(storage, content.dtype, content.shape, contiguous_strides(content.shape), 0, content.valid)
    if isinstance(content, tuple):
        items = []
        for item in content:
            trace.values.append(_stored(trace, item))
            items.append(len(trace.values) - 1)
        return SequenceValue(tuple(items))
    return ScalarValue(content)
