"""What a user's file leaves behind when it runs on the stand-in modules: kernel functions, program classes, symbols.

Decorators of `pypto_lab.compat` make these objects; `frontend.source.program_of` reads them. The protocol between them:

* an object with the attribute `_pypto_lab_source` (a :class:`KernelSource` or :class:`ProgramSource`) is that kernel;
* a stand-in of a namespace, op or type carries `_pypto_lab_name`, its dotted DSL name (`"pl"`, `"pl.tile"`, `"pl.add"`,
  `"pld.system.notify"`, `"pl.Tensor"`); attributes of a namespace need not exist, the reader only follows the text;
* dtypes are `ir.dtypes.DType` objects and enum members are members of `ir.enums`;
* `pl.Tensor[[16, 64], pl.FP32]` evaluates to an :class:`AnnotationValue`, `pl.dynamic("M")` to a :class:`DynamicDim`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

KINDS = (
    "jit", "jit.incore", "jit.inline", "jit.host", "jit.opaque", "jit.extern", "function", "inline",
)  # fmt: skip
"""Decorators that make a kernel out of a Python function, without `pl.`."""

SOURCE_ATTRIBUTE = "_pypto_lab_source"
NAME_ATTRIBUTE = "_pypto_lab_name"


@dataclass(frozen=True, eq=False)
class KernelSource:
    """A decorated Python function. `kind` is one of :data:`KINDS`, `options` the decorator's keywords as given.

    `closure` holds the local names that were visible where the decorator ran (a kernel defined inside a function);
    the function's own closure goes before it.
    """

    function: Callable[..., Any]
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    closure: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kernel kind {self.kind!r}; the kinds are {', '.join(KINDS)}")

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def is_jit(self) -> bool:
        return self.kind.startswith("jit")


@dataclass(frozen=True, eq=False)
class ProgramSource:
    """A class decorated with `@pl.program`. Its kernel methods carry `_pypto_lab_source` themselves.

    `closure` holds the local names that were visible where the class statement ran (a class defined inside a
    function); names missing there are looked up in the methods' own closures and globals.
    """

    cls: type
    options: Mapping[str, Any] = field(default_factory=dict)
    closure: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.cls.__name__


@dataclass(frozen=True, eq=False)
class AnnotationValue:
    """A type annotation that Python evaluated: `head` is `"pl.Tensor"`, `arguments` what stood in the brackets."""

    head: str
    arguments: tuple[Any, ...] = ()


class DimArithmetic:
    """Arithmetic on dimensions that are known only when the kernel runs; builds :class:`DimExpression` trees."""

    def __add__(self, other: DimValue) -> DimExpression:
        return DimExpression("Add", self, other)

    def __radd__(self, other: DimValue) -> DimExpression:
        return DimExpression("Add", other, self)

    def __sub__(self, other: DimValue) -> DimExpression:
        return DimExpression("Sub", self, other)

    def __rsub__(self, other: DimValue) -> DimExpression:
        return DimExpression("Sub", other, self)

    def __mul__(self, other: DimValue) -> DimExpression:
        return DimExpression("Mul", self, other)

    def __rmul__(self, other: DimValue) -> DimExpression:
        return DimExpression("Mul", other, self)

    def __floordiv__(self, other: DimValue) -> DimExpression:
        return DimExpression("FloorDiv", self, other)

    def __rfloordiv__(self, other: DimValue) -> DimExpression:
        return DimExpression("FloorDiv", other, self)

    def __mod__(self, other: DimValue) -> DimExpression:
        return DimExpression("FloorMod", self, other)

    def __rmod__(self, other: DimValue) -> DimExpression:
        return DimExpression("FloorMod", other, self)


@dataclass(frozen=True)
class DynamicDim(DimArithmetic):
    """`pl.dynamic("M")`: a dimension known when the kernel is called. Dims of one name are one symbol in a program."""

    name: str


@dataclass(frozen=True)
class DimExpression(DimArithmetic):
    """`left op right` over symbols and integers; `op` is an IR name (Add, Sub, Mul, FloorDiv, FloorMod)."""

    op: str
    left: DimValue
    right: DimValue


DimValue = int | DimArithmetic


@dataclass(frozen=True)
class Unresolved:
    """A name of a file whose statement could not be executed; `reason` says why. What is made of it is unknown too."""

    name: str
    reason: str = ""

    def __getattr__(self, attribute: str) -> Unresolved:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        return self

    def _same(self, *_: Any, **__: Any) -> Unresolved:
        return self

    __call__ = __getitem__ = _same
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = _same
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = _same


def source_of(value: object) -> KernelSource | ProgramSource | None:
    """The kernel or program behind a Python object, None when it is neither."""
    if isinstance(value, (KernelSource, ProgramSource)):
        return value
    try:
        found = vars(value).get(SOURCE_ATTRIBUTE)
    except TypeError:
        found = None
    found = found if found is not None else getattr(value, SOURCE_ATTRIBUTE, None)
    return found if isinstance(found, (KernelSource, ProgramSource)) else None


def kernel_of(value: object) -> KernelSource | None:
    """The kernel function behind a Python object, None when it is not one."""
    found = source_of(value)
    return found if isinstance(found, KernelSource) else None


_MODULE_NAMES = {
    "pypto.language": "pl",
    "pypto.language.distributed": "pld",
}


def dsl_name(value: object) -> str | None:
    """The dotted DSL name of a stand-in (`pl`, `pl.tile`, `pl.add`), None for any other object."""
    try:
        name = getattr(value, NAME_ATTRIBUTE, None)
    except Exception:  # a user's object may do anything in __getattr__
        return None
    if isinstance(name, str):
        return name
    module = getattr(value, "__name__", None)
    return _MODULE_NAMES.get(module) if isinstance(module, str) and not callable(value) else None
