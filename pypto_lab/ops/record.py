"""The op record: everything the lab knows about one operation, and the registry that holds them.

`pl` namespace, argument checks, type inference, torch code, PTO code, legality and the reference page all read these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.enums import MemorySpace
from pypto_lab.ir.types import ArrayType, ScalarType, ShapedType, TensorType, TileType, Type, UnknownType


class Effect(Enum):
    """What an op does with the *contents* of an argument."""

    READ = "read"
    WRITE = "write"
    READ_WRITE = "read-write"
    NONE = "none"
    """Scratch operands and pure metadata: the value is neither read nor written."""


class Side(Enum):
    """Which core runs the op."""

    CUBE = "cube"
    VECTOR = "vector"
    SHARED = "shared"
    BY_MEMORY = "by memory"
    """Decided by the memory spaces of its tiles (load, store, move ...)."""


class Required:
    """Marks a parameter without a default."""

    def __repr__(self) -> str:
        return "required"


REQUIRED = Required()


@dataclass(frozen=True, slots=True)
class Arg:
    """One IR argument, in IR order.

    `kind` is one of tensor, tile, shaped (either), scalar, ints (a list of integer scalars), value (anything), array,
    bool, handle, task. `default` is REQUIRED, or None when the argument may be left out. `dsl_name` is the name users
    write when it differs from the IR name.
    """

    name: str
    kind: str
    default: Any = REQUIRED
    effect: Effect = Effect.READ
    spaces: frozenset[MemorySpace] | None = None
    dsl_name: str | None = None


@dataclass(frozen=True, slots=True)
class Attr:
    """One attribute (printed as a keyword), in print order.

    `kind` is one of int, float, bool, str, dtype, memory, tensor_layout, tile_layout, pad, cast_mode, split, atomic,
    pipe, any. `printed` False hides it while it has its default (upstream does not set it on creation).
    """

    name: str
    kind: str
    default: Any = REQUIRED
    printed: bool = True
    dsl_name: str | None = None


@dataclass(frozen=True, slots=True)
class Torch:
    """How the torch script says the op.

    `call` names a function of `torch_codegen.runtime` (without the leading underscore it has there). It is called as
    `_<call>(args..., attr=value...)`: IR arguments by position (those with Effect.NONE left out, lists as Python
    lists), attributes by keyword (dtypes as torch dtypes or, where torch has none, their name as a string; enum
    members by name as strings). `result` lists facts of the result type passed as further keywords: any of
    "dtype", "shape", "valid_shape", "memory".

    `plain` is an expression in torch alone with `{0}`, `{1}`, `{attr}` fields; the generator uses it instead when every
    tensor/tile operand and the result are fully valid by type and `plain_when(call)` holds (None: always).

    `writes` is the index of the argument the call writes in place and returns (None: pure). For a pure-by-name op
    (`tensor.assemble`, `tile.matmul_acc` ...) the generator passes `copy=True` when the old value is still needed;
    with `memory=True` (stores to global memory) the write is always in place.
    """

    call: str
    plain: str | None = None
    plain_when: Callable[[n.OpCall], bool] | None = None
    result: tuple[str, ...] = ()
    writes: int | None = None
    memory: bool = False


@dataclass(frozen=True, slots=True)
class Operands:
    """What a type rule sees: the op, its IR arguments (missing optional ones are None at the end) and attributes
    (defaults filled in)."""

    op: Op
    args: tuple[n.Expr | None, ...]
    attrs: Mapping[str, Any]

    def arg(self, index: int) -> n.Expr:
        value = self.args[index] if index < len(self.args) else None
        if value is None:
            raise OpError(f"{self.op.name} needs `{self.op.args[index].name}`", argument=index)
        return value

    def optional(self, index: int) -> n.Expr | None:
        return self.args[index] if index < len(self.args) else None

    def type(self, index: int) -> Type:
        return self.arg(index).type

    def shaped(self, index: int) -> ShapedType:
        """The tensor or tile type of an argument. Raises OpError for anything else."""
        found = self.type(index)
        if not isinstance(found, ShapedType):
            raise OpError(f"{self.op.name} needs a tensor or tile as `{self.op.args[index].name}`", argument=index)
        return found

    def ints(self, index: int) -> tuple[n.Expr, ...]:
        """The elements of a list argument."""
        found = self.arg(index)
        if not isinstance(found, n.MakeTuple):
            raise OpError(f"{self.op.name} needs a list as `{self.op.args[index].name}`", argument=index)
        return found.elements


TypeRule = Callable[[Operands], Type]


@dataclass(frozen=True, slots=True)
class Op:
    """One operation.

    `name` is the registered name (`tile.add`). `dsl` names the spellings under `pl.` besides the layered one
    (`add` for `pl.add`); `dsl_order` is the parameter order of that spelling when it is not arguments, then attributes.
    `scalar_form` names the op used when the right operand is a scalar. `source` is where its rule is documented.
    """

    name: str
    args: tuple[Arg, ...]
    attrs: tuple[Attr, ...]
    infer: TypeRule
    torch: Torch
    doc: str
    side: Side = Side.VECTOR
    pto: str | None = None
    dsl: tuple[str, ...] = ()
    dsl_order: tuple[str, ...] | None = None
    scalar_form: str | None = None
    variadic: bool = False
    source: str = "reference/ops.tsv"
    output_space: MemorySpace | str | None = None
    """Memory space of a tile result: a space, "inherit" (of the first tile), or an attribute's name."""

    @property
    def namespace(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def required_args(self) -> int:
        return sum(a.default is REQUIRED for a in self.args)

    def attr(self, name: str) -> Attr | None:
        return next((a for a in self.attrs if a.name == name), None)

    @property
    def parameters(self) -> tuple[Arg | Attr, ...]:
        """Parameters in the order users pass them by position."""
        if self.dsl_order is None:
            return (*self.args, *self.attrs)
        everything: tuple[Arg | Attr, ...] = (*self.args, *self.attrs)
        by_name = {p.name: p for p in everything}
        return tuple(by_name[name] for name in self.dsl_order)


@dataclass(frozen=True, slots=True)
class Registry:
    """Ops by name. One instance, `OPS`, is filled when `pypto_lab.ops` is imported."""

    ops: dict[str, Op] = field(default_factory=dict)

    def add(self, *ops: Op) -> None:
        """Adds records. Raises ValueError when a name is taken."""
        for op in ops:
            if op.name in self.ops:
                raise ValueError(f"op {op.name} has two records")
            self.ops[op.name] = op

    def get(self, name: str) -> Op | None:
        return self.ops.get(name)

    def __getitem__(self, name: str) -> Op:
        return self.ops[name]

    def __contains__(self, name: str) -> bool:
        return name in self.ops

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops.values())

    def __len__(self) -> int:
        return len(self.ops)


OPS = Registry()


def infer_type(call: n.OpCall) -> Type:
    """The result type of a call by its op's rule. Raises OpError where the rule refuses it; UnknownType for an op
    without a record."""
    op = OPS.get(call.op)
    if op is None:
        return UnknownType()
    attrs = {a.name: a.default for a in op.attrs if a.default is not REQUIRED}
    attrs.update(call.kwargs)
    return op.infer(Operands(op, call.args, attrs))


def make_call(name: str, /, *args: n.Expr, span: Any = None, **attrs: Any) -> n.OpCall:
    """An OpCall with defaults filled in and its type inferred (for passes and tests)."""
    op = OPS[name]
    stated = [a for a in op.attrs if a.name in attrs or (a.printed and a.default is not REQUIRED)]
    filled = {a.name: attrs.get(a.name, a.default) for a in stated}
    call = n.OpCall(op=name, args=args, kwargs=filled, type=UnknownType(), span=span)
    return n.OpCall(op=name, args=args, kwargs=filled, type=infer_type(call), span=span)


def is_tensor(type_: Type) -> bool:
    return isinstance(type_, TensorType)


def is_tile(type_: Type) -> bool:
    return isinstance(type_, TileType)


def is_scalar(type_: Type) -> bool:
    return isinstance(type_, ScalarType)


def is_array(type_: Type) -> bool:
    return isinstance(type_, ArrayType)
