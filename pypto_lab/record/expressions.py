"""Conditions and watches: Python expressions over the variables at a position, as numpy numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.record.arrays import number, summarise
from pypto_lab.record.events import OpaqueValue
from pypto_lab.record.trace import Cells, Content, innermost

if TYPE_CHECKING:
    from pypto_lab.record.recording import Recording

_BUILTINS = {
    "abs": abs, "all": all, "any": any, "bool": bool, "float": float, "int": int, "len": len, "max": max, "min": min,
    "range": range, "round": round, "sum": sum, "np": np, "isnan": np.isnan, "isinf": np.isinf, "inf": float("inf"),
}  # fmt: skip


@lru_cache(maxsize=256)
def compiled(expression: str) -> CodeType:
    """Raises LabError when the text is not a Python expression."""
    try:
        return compile(expression, "<condition>", "eval")
    except SyntaxError as problem:
        message = f"`{expression}` is not an expression: {problem.msg}"
        raise LabError([Diagnostic("E411", message, hint="write it as Python over variable names, `acc.max() > 3`")])  # noqa: B904


class Names(Mapping[str, Any]):
    """The variables a frame sees at a position, looked up when used: its own, then its callers'."""

    def __init__(self, recording: Recording, frame: int, position: int) -> None:
        self._recording, self._frame, self._position = recording, frame, position

    def __getitem__(self, name: str) -> Any:
        index = self._recording.index
        for frame in innermost(self._recording.trace.frames, self._frame):
            bound = index.bound(frame, name, self._position)
            if bound is not None:
                return as_numbers(index.content(bound.value, self._position))
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._recording.index.names_of_frame.get(self._frame, ()))

    def __len__(self) -> int:
        return len(self._recording.index.names_of_frame.get(self._frame, ()))


def as_numbers(content: Content) -> Any:
    """Content for an expression: the valid cells as a numpy array, scalars as they are."""
    if isinstance(content, Cells):
        return content.valid_numbers
    if isinstance(content, tuple):
        return tuple(as_numbers(c) for c in content)
    return content


def evaluate(expression: str, recording: Recording, frame: int, position: int) -> Any:
    """The expression's value. Raises NameError where a variable is not bound yet, LabError for a wrong expression."""
    return eval(compiled(expression), {"__builtins__": _BUILTINS}, Names(recording, frame, position))


def shown(content: Any) -> str:
    """A value in a few words: numbers as they are, tensors by shape, dtype and range."""
    if isinstance(content, Cells):
        valid = f" valid {_dims(content.valid)}" if content.valid is not None else ""
        summary = summarise(content.raw, content.dtype, content.valid)
        return f"{content.dtype} {_dims(content.shape)}{valid}: {summary}"
    if isinstance(content, np.ndarray):
        return f"{content.dtype} {_dims(content.shape)}: {summarise(content, str(content.dtype))}"
    if isinstance(content, (float, np.floating)):
        return number(float(content))
    if isinstance(content, tuple):
        return "(" + ", ".join(shown(c) for c in content) + ")"
    if isinstance(content, dict):
        return "{" + ", ".join(f"{k}: {shown(v)}" for k, v in content.items()) + "}"
    return f"<{content.type_name}>" if isinstance(content, OpaqueValue) else str(content)


def _dims(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(str(n) for n in shape) + "]"
