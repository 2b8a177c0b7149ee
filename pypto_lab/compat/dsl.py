"""What the names of `pypto.language` are while Python runs a user's file: annotation heads and named placeholders.

Kernel bodies are read, never executed, so an op is only a name here; calling one outside a kernel is a user's mistake
and says so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from pypto_lab.frontend.kernels import AnnotationValue
from pypto_lab.ir.diagnostics import Diagnostic, LabError, did_you_mean


class AnnotationHead:
    """`pl.Tensor`, `pl.Out` ...: subscripting or calling one gives an :class:`AnnotationValue`."""

    def __init__(self, name: str) -> None:
        self._pypto_lab_name = name

    def __getitem__(self, arguments: Any) -> AnnotationValue:
        return AnnotationValue(self._pypto_lab_name, arguments if isinstance(arguments, tuple) else (arguments,))

    def __call__(self, *arguments: Any, **keywords: Any) -> AnnotationValue:
        return AnnotationValue(self._pypto_lab_name, (*arguments, *keywords.items()))

    def __repr__(self) -> str:
        return self._pypto_lab_name


class DslName:
    """An op, loop or scope of the DSL (`pl.add`, `pl.range`, `pl.at`); it means something only in a kernel body."""

    def __init__(self, name: str) -> None:
        self._pypto_lab_name = name

    def __call__(self, *arguments: Any, **keywords: Any) -> NoReturn:
        raise outside_a_kernel(self._pypto_lab_name)

    def __repr__(self) -> str:
        return f"<{self._pypto_lab_name}: usable in a kernel body only>"


class DslNamespace:
    """A group of ops such as `pl.tile`, with the enums users read from it (`pl.tile.MaskPattern`)."""

    def __init__(self, name: str, members: Mapping[str, Any] | None = None) -> None:
        self._pypto_lab_name = name
        self._members = dict(members or {})

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        if attribute in self._members:
            return self._members[attribute]
        return placeholder(self._pypto_lab_name, attribute, self._members)

    def __dir__(self) -> list[str]:
        return sorted({*self._members, *op_names(self._pypto_lab_name)})

    def __repr__(self) -> str:
        return f"<namespace {self._pypto_lab_name}>"


def outside_a_kernel(name: str) -> LabError:
    """The error for a DSL name that ordinary Python code called."""
    return LabError(
        [
            Diagnostic(
                "E501",
                f"`{name}` was called outside a kernel",
                hint=f"put the call into a function decorated with @pl.jit, @pl.function or @pl.inline; `{name}` is "
                "part of the kernel language and computes nothing by itself",
            )
        ]
    )


def placeholder(namespace: str, attribute: str, known: Iterable[str]) -> DslName:
    """The stand-in of an op `namespace.attribute`. Raises AttributeError with near names when no such op exists."""
    names = op_names(namespace)
    if attribute in names:
        return DslName(f"{namespace}.{attribute}")
    hint = did_you_mean(attribute, {*names, *known})
    raise AttributeError(f"{namespace} has no `{attribute}`" + (f"; {hint}" if hint else ""))


def op_names(namespace: str) -> frozenset[str]:
    """Spellings of ops under a DSL namespace (`pl`, `pl.tile`, `pld.system`), read from the op records."""
    found = _op_names.get(namespace)
    if found is None:
        found = _op_names[namespace] = frozenset(_read_op_names(namespace))
    return found


_op_names: dict[str, frozenset[str]] = {}


def _read_op_names(namespace: str) -> Iterable[str]:
    from pypto_lab.ops import OPS  # the records take a while to import, and most files never ask

    prefix = namespace.partition(".")[2]
    for op in OPS:
        layer, name = op.namespace, op.short_name
        if prefix:
            own = layer == ("pld." + prefix if namespace.startswith("pld") else prefix)
            if own or layer == prefix:
                yield from (name, name + "_")
        else:
            yield from op.dsl
            if layer in ("tensor", "tile"):
                yield name


def call_with_frame(depth: int) -> Mapping[str, Any]:
    """Local names of the frame `depth` levels above the caller, empty at module level.

    A decorated function does not close over names that only its annotations use; they live in this frame.
    """
    frame = sys._getframe(depth + 1)
    return {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)
