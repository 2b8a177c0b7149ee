"""What the writer of an orchestration knows at a point: the C++ of each variable in reach, and the text so far."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import ScalarType, ShapedType, TensorType
from pypto_lab.ir.visitor import walk
from pypto_lab.pto.orchestration.homes import Homes
from pypto_lab.pto.orchestration.names import Names
from pypto_lab.pto.orchestration.refusing import CLOSED_SCOPE, NO_TYPE, UNKNOWN_SYMBOL, refuse
from pypto_lab.pto.orchestration.text import Place, Text
from pypto_lab.pto.orchestration.types import SCALAR_TYPES
from pypto_lab.pto.wrapper.dimensions import shown_symbols, solved


@dataclass(frozen=True, slots=True)
class Fence:
    """A C++ array of task ids: one for each trip of a parallel loop, or an array of the program's own.

    A task that depends on it depends on each id in it.
    """

    name: str
    size: int


@dataclass
class State:
    """The function being written, its text, and the values in reach (the innermost C++ block last)."""

    program: n.Program
    function: n.Function
    arch: str
    kernel_ids: dict[str, int]
    text: Text = field(default_factory=Text)
    names: Names = field(default_factory=Names)
    includes: set[str] = field(default_factory=set)
    manual: int = 0
    """How many manual scopes are open."""
    tasks: int = 0
    allocations: int = 0
    fresh: set[n.Var] = field(default_factory=set)
    """Task ids that stand for a task in any case: no need to ask them."""
    postponed: dict[n.Var, n.Assign] = field(default_factory=dict)
    """Tensors that are allocated just before the task that takes them."""

    def __post_init__(self) -> None:
        self.homes = Homes(self.function, self.program)
        self.frames: list[dict[n.Var, str]] = [{}]
        self.fences: list[dict[n.Var, Fence]] = [{}]
        self.symbols: Place | None = None
        self.shown = shown_symbols(self.function, self._extent)
        self.defined = set(_defined(self.function))
        self.used = _used(self.function)
        self.kept_ids = set(_kept_ids(self.function, self.used))

    def refuse(self, code: str, message: str, span: Span | None, hint: str | None = None) -> NoReturn:
        refuse(self.program, code, f"{self.function.name}: {message}", span or self.function.span, hint)

    # values

    @contextmanager
    def block(self, head: str, tail: str | None = "}") -> Iterator[None]:
        """A C++ block; what is bound in it is out of reach after it."""
        self.frames.append({})
        self.fences.append({})
        with self.text.block(head, tail):
            yield
        self.frames.pop()
        self.fences.pop()

    def bind(self, var: n.Var, text: str) -> None:
        """Gives a variable its C++. A tensor also shows what the symbols of its type are."""
        self.frames[-1][var] = text
        if isinstance(var.type, TensorType):
            for axis, dimension in enumerate(var.type.shape):
                if isinstance(dimension, n.Var) and dimension not in self.defined and dimension not in self.shown:
                    self.frames[-1].setdefault(dimension, f"static_cast<int64_t>({text}.shapes[{axis}])")

    def bind_fence(self, var: n.Var, fence: Fence) -> None:
        """Gives a variable its C++ array: in reach as long as the array is, which may be longer than this block."""
        known = (i for i, frame in enumerate(self.fences) if any(f.name == fence.name for f in frame.values()))
        place = next(known, len(self.fences) - 1)
        self.fences[place][var] = fence
        self.frames[place][var] = fence.name

    def find(self, var: n.Var) -> str | None:
        return next((frame[var] for frame in reversed(self.frames) if var in frame), None)

    def find_fence(self, var: n.Expr) -> Fence | None:
        if not isinstance(var, n.Var):
            return None
        return next((frame[var] for frame in reversed(self.fences) if var in frame), None)

    def value(self, var: n.Var, span: Span | None) -> str:
        """The C++ of a variable or of a symbol of the parameters' shapes.

        Raises LabError: E682 the block that made it has ended, E687 a symbol that no tensor in reach shows.
        """
        found = self.find(self.homes.of(var) or var if isinstance(var.type, ShapedType) else var)
        if found is not None:
            return found
        if var in self.defined:
            what = "tensor" if isinstance(var.type, ShapedType) else "value"
            message = f"the {what} `{var.name}` is made in a scope that has ended where it is used"
            self.refuse(CLOSED_SCOPE, message, span, "use it inside that scope, or make it before the scope")
        return self._symbol(var, span)

    def tensor(self, expr: n.Expr, span: Span | None) -> str:
        """The C++ of a tensor."""
        home = self.homes.of(expr)
        if home is None:
            self.refuse(CLOSED_SCOPE, "a tensor is used that no name stands for", expr.span or span)
        return self.value(home, expr.span or span)

    def scalar_type(self, type_: object, span: Span | None) -> str:
        """The host's C++ type of a scalar. Raises LabError (E684) where there is none."""
        dtype = type_.dtype if isinstance(type_, ScalarType) else None
        if dtype not in SCALAR_TYPES:
            shown = "this value" if dtype is None else f"a scalar of type {dtype.name}"
            self.refuse(NO_TYPE, f"{shown} has no C++ type on the host", span, "pass it as FP32 or as an integer")
        return SCALAR_TYPES[dtype]

    def _symbol(self, symbol: n.Var, span: Span | None) -> str:
        """The name of a dynamic dimension, read at the start of the function on its first use."""
        value = solved(symbol, self.shown[symbol]) if symbol in self.shown else None
        if value is None:
            message = f"nothing says what the dimension `{symbol.name}` is: no tensor in reach has it as an extent"
            self.refuse(UNKNOWN_SYMBOL, message, span, "use it as a dimension of a tensor parameter")
        assert self.symbols is not None, "the head of the function is written first"
        if not self.symbols.lines:
            self.symbols.add()
            self.symbols.add("// Dynamic dimensions, from the shapes of the arguments")
        name = self.names.take(symbol.name)
        self.symbols.add(f"int64_t {name} = {value};")
        self.frames[0][symbol] = name
        return name

    def _extent(self, param: n.Param, axis: int) -> str:
        place = [p for p in self.function.params if isinstance(p.type, TensorType)].index(param)
        return f"static_cast<int64_t>(orch_args.tensor({place}).ref().shapes[{axis}])"


def _defined(function: n.Function) -> Iterator[n.Var]:
    yield from (param.var for param in function.params)
    yield from defined_in(function.body or ())


def defined_in(body: n.Body) -> Iterator[n.Var]:
    """Every variable that a body and the bodies in it give a value to."""
    for node in (inner for stmt in body for inner in walk(stmt)):
        match node:
            case n.Assign():
                yield node.var
            case n.For():
                yield from (node.loop_var, *node.iter_args, *node.return_vars)
            case n.While():
                yield from (*node.iter_args, *node.return_vars)
            case n.If():
                yield from node.return_vars


def _kept_ids(function: n.Function, used: set[n.Expr]) -> Iterator[n.Expr]:
    """Variables of submissions whose task id something reads."""
    for node in walk(function):
        if not (isinstance(node, n.Assign) and isinstance(node.value, n.TupleGetItem) and node.var in used):
            continue
        if isinstance(node.var.type, ScalarType) and node.var.type.dtype is dtypes.TASK_ID:
            yield node.value.tuple


def _used(function: n.Function) -> set[n.Expr]:
    """Variables that something reads."""
    found: set[n.Expr] = set()
    for node in walk(function):
        match node:
            case n.Assign():
                found.update(_read(node.value))
            case n.Eval():
                found.update(_read(node.expr))
            case n.If() | n.While():
                found.update(_read(node.condition))
            case n.For():
                found.update(v for e in (node.start, node.stop, node.step) for v in _read(e))
            case n.Yield() | n.Return():
                found.update(v for e in node.values for v in _read(e))
            case n.IterArg():
                found.update(_read(node.init_value))
            case n.RuntimeScope():
                found.update(v for value in node.attrs.values() for v in _read_attribute(value))
    return found


def _read(expr: n.Expr) -> Iterator[n.Expr]:
    for node in walk(expr):
        if isinstance(node, n.Var):
            yield node
        elif isinstance(node, n.OpCall):
            yield from (v for value in node.kwargs.values() for v in _read_attribute(value))
        elif isinstance(node, (n.FunctionCall, n.Submit)):
            yield from (v for value in node.attrs.values() for v in _read_attribute(value))


def _read_attribute(value: object) -> Iterator[n.Expr]:
    values = value if isinstance(value, (list, tuple)) else (value,)
    for item in values:
        if isinstance(item, n.Expr):
            yield from (node for node in walk(item) if isinstance(node, n.Var))
