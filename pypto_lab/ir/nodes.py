"""Frozen nodes of a program: expressions, statements, functions, program (language.md 1.1).

Nodes compare by identity; a `Var` *is* the variable, its name is only for people. Use `ir.equal` for structural
equality, `ir.visitor` to walk and rewrite, `ir.printer` for DSL text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pypto_lab.ir import dtypes
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import Direction, ForKind, FunctionType, Level, Role, SplitMode
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import ScalarType, Type

NO_KEYWORDS: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Expr:
    """Base of expressions."""

    type: Type
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Var(Expr):
    name: str

    def __repr__(self) -> str:
        return f"Var({self.name})"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class IterArg(Var):
    """A loop-carried value, visible in the loop's body and condition only; starts as `init_value`."""

    init_value: Expr


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ConstInt(Expr):
    value: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ConstFloat(Expr):
    value: float


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ConstBool(Expr):
    value: bool


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MakeTuple(Expr):
    """A list or tuple literal: shapes, offsets, several results."""

    elements: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TupleGetItem(Expr):
    tuple: Expr
    index: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Binary(Expr):
    """`op` is one of BINARY_OPS, named as upstream names the node class."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Unary(Expr):
    """`op` is Abs, Neg, Not, BitNot or Cast (to `type`'s dtype)."""

    op: str
    operand: Expr


BINARY_OPS: dict[str, str] = {
    "Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "//", "FloorMod": "%", "FloatDiv": "/", "Pow": "**",
    "Min": "min", "Max": "max", "Eq": "==", "Ne": "!=", "Lt": "<", "Le": "<=", "Gt": ">", "Ge": ">=",
    "And": "and", "Or": "or", "Xor": "xor", "BitAnd": "&", "BitOr": "|", "BitXor": "^",
    "BitShiftLeft": "<<", "BitShiftRight": ">>",
}  # fmt: skip
UNARY_OPS: dict[str, str] = {"Abs": "abs", "Neg": "-", "Not": "not", "BitNot": "~", "Cast": "cast"}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OpCall(Expr):
    """A call of a registered op, e.g. `tile.load`. `args` are the IR arguments in the op's order; optional ones
    at the end may be missing. `kwargs` are the op's attributes (ints, floats, bools, strings, DType, enum
    members, or an Expr where the printed form passes a value by keyword); `attrs` are compiler annotations."""

    op: str
    args: tuple[Expr, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FunctionCall(Expr):
    """A call of a function of the program by name (`self.callee(...)`)."""

    callee: str
    args: tuple[Expr, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Submit(Expr):
    """An asynchronous launch; its type is a tuple of the callee's results and a task id.

    `core_num` is set for the SPMD form. `deps` are TASK_ID scalars or arrays.
    """

    callee: str
    args: tuple[Expr, ...]
    deps: tuple[Expr, ...] = ()
    dumps: tuple[Expr, ...] = ()
    core_num: Expr | None = None
    sync_start: bool = False
    allow_early_resolve: bool = False
    predicate: Expr | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)


# --- statements ------------------------------------------------------------------------------------------------------

Body = tuple["Stmt", ...]
"""A block. Upstream's SeqStmts is a plain tuple here: it cannot nest and may be empty."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Stmt:
    span: Span | None = None
    leading_comments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Assign(Stmt):
    """`var: type = value`. Before SSA one `Var` may be assigned many times."""

    var: Var
    value: Expr


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Eval(Stmt):
    """A call for its effect."""

    expr: Expr


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class If(Stmt):
    """With `return_vars` each branch ends in a Yield of the same length."""

    condition: Expr
    then_body: Body
    else_body: Body = ()
    return_vars: tuple[Var, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class For(Stmt):
    """`len(iter_args) == len(return_vars) ==` the length of the final Yield. `attrs` holds `pipeline_stages`
    (exactly when kind is Pipeline) and compiler annotations."""

    loop_var: Var
    start: Expr
    stop: Expr
    step: Expr
    body: Body
    iter_args: tuple[IterArg, ...] = ()
    return_vars: tuple[Var, ...] = ()
    kind: ForKind = ForKind.Sequential
    attrs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class While(Stmt):
    condition: Expr
    body: Body
    iter_args: tuple[IterArg, ...] = ()
    return_vars: tuple[Var, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Yield(Stmt):
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Return(Stmt):
    values: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Break(Stmt):
    pass


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Continue(Stmt):
    pass


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class InlineText(Stmt):
    """The verbatim body of a HOST worker."""

    text: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Scope(Stmt):
    """Base of the scopes. `attrs` holds the scope's keywords: `deps`, `no_dep_args`, `dumps`, `slot_num`,
    `allow_early_resolve`, `windowize`, `predicate` (an Expr); `task_id` is the `as tid` variable."""

    body: Body
    name_hint: str | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    task_id: Var | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class InCoreScope(Scope):
    """`with pl.at(level=pl.Level.CORE_GROUP)`."""

    split: SplitMode | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HierarchyScope(Scope):
    """Any other `with pl.at(level=...)`."""

    level: Level
    role: Role | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ClusterScope(Scope):
    pass


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SpmdScope(Scope):
    """`pl.spmd(core_num)`. `loop_var` is the variable of the `for i in pl.spmd(n)` form: it holds the block index
    and counts as assigned at the head of the body."""

    core_num: Expr
    sync_start: bool = False
    split: SplitMode | None = None
    loop_var: Var | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SplitAivScope(Scope):
    """`for lane in pl.split_aiv(2, mode=...)`: the body runs once a vector lane; `lane_var` holds the lane."""

    split: SplitMode
    lane_var: Var
    count: int = 2


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RuntimeScope(Scope):
    """`pl.scope()`, or `pl.scope(mode=MANUAL)` / `pl.manual_scope()` with `manual`."""

    manual: bool = False


# --- functions and programs ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Param:
    var: Var
    direction: Direction = Direction.In
    span: Span | None = None

    @property
    def name(self) -> str:
        return self.var.name

    @property
    def type(self) -> Type:
        return self.var.type


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Function:
    """`body` is None for abstract and external functions. `attrs` are the `pl.func_attr` entries.

    `level`, `role` and `auto_scope` are what the text states (None when it does not).
    """

    name: str
    params: tuple[Param, ...]
    return_types: tuple[Type, ...]
    body: Body | None
    func_type: FunctionType = FunctionType.Opaque
    level: Level | None = None
    role: Role | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    auto_scope: bool | None = None
    external_source: str | None = None
    has_self: bool = True
    span: Span | None = None
    docstring: str | None = None

    @property
    def requires_runtime_binding(self) -> bool:
        """True for a worker whose body is `...`: the caller of the program supplies it."""
        return self.body is None and self.external_source is None

    def param(self, name: str) -> Param:
        """The parameter called `name`. Raises KeyError with the names that exist."""
        for p in self.params:
            if p.name == name:
                return p
        raise KeyError(f"{self.name} has no parameter {name!r}; it has {[p.name for p in self.params]}")

    def as_python(self) -> str:
        """The function as DSL text in the compiler's dump format."""
        from pypto_lab.ir.printer import print_function  # the printer imports this module

        text: str = print_function(self)
        return text


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Program:
    """Functions by name, in definition order (callees first in dumps).

    `symbols` are the dynamic dimensions (one Var a name); `declared_symbols` the ones the text declares with
    `pl.dynamic`. `sources` maps file names in spans to their text. `notes` are reader remarks (kept unknown
    attributes, stale forms).
    """

    name: str
    functions: Mapping[str, Function]
    symbols: Mapping[str, Var] = field(default_factory=dict)
    declared_symbols: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    entry_name: str | None = None
    notes: tuple[Any, ...] = ()

    @property
    def entry(self) -> Function:
        """The function a caller runs: the stated entry, else the only function, else the last host orchestrator, else
        the last Orchestration one.

        Raises ValueError when none of these exists.
        """
        if self.entry_name is not None:
            return self.functions[self.entry_name]
        if len(self.functions) == 1:
            return next(iter(self.functions.values()))
        for function in reversed(list(self.functions.values())):
            if function.level is Level.HOST and function.role is Role.Orchestrator:
                return function
        for function in reversed(list(self.functions.values())):
            if function.func_type is FunctionType.Orchestration:
                return function
        called = set(called_names(self))
        roots = [f for f in self.functions.values() if f.name not in called]
        if len(roots) == 1:
            return roots[0]
        raise ValueError(f"program {self.name} has no entry: no Orchestration function among {list(self.functions)}")

    def as_python(self) -> str:
        """The program as DSL text in the compiler's dump format."""
        from pypto_lab.ir.printer import print_program  # the printer imports this module

        text: str = print_program(self)
        return text


def called_names(program: Program) -> Iterator[str]:
    """Names of the functions that some function of the program calls or submits."""
    from pypto_lab.ir.visitor import walk  # the visitor imports this module

    for function in program.functions.values():
        for node in walk(function):
            if isinstance(node, (FunctionCall, Submit)):
                yield node.callee


# --- constructors ----------------------------------------------------------------------------------------------------

INDEX = ScalarType(dtypes.INDEX)
BOOL = ScalarType(dtypes.BOOL)
FP32 = ScalarType(dtypes.FP32)


def const(value: int | float | bool, dtype: DType | None = None, span: Span | None = None) -> Expr:
    """A constant: bool -> BOOL, int -> INDEX, float -> FP32 unless `dtype` says otherwise."""
    if isinstance(value, bool):
        return ConstBool(value=value, type=BOOL, span=span)
    if isinstance(value, int) and (dtype is None or not dtype.is_float):
        return ConstInt(value=value, type=INDEX if dtype is None else ScalarType(dtype), span=span)
    return ConstFloat(value=float(value), type=FP32 if dtype is None else ScalarType(dtype), span=span)


def scalar_dtype(expr: Expr) -> DType | None:
    """The dtype of a scalar expression, None for anything else."""
    return expr.type.dtype if isinstance(expr.type, ScalarType) else None
