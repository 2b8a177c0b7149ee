"""State of a reading: the program being built, and the function body being read."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pypto_lab.frontend.environment import Environment
from pypto_lab.frontend.kernels import KernelSource
from pypto_lab.frontend.missing import MISSING
from pypto_lab.frontend.names import BlockKind, Names
from pypto_lab.frontend.report import Abandoned, Reporter
from pypto_lab.frontend.text import SourceText
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Label
from pypto_lab.ir.enums import FunctionType, Level, Role, SplitMode
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import UNKNOWN, Type


@dataclass
class Signature:
    """What callers need to know of a function. `returns` is None until the body is read."""

    name: str
    params: tuple[n.Param, ...]
    returns: tuple[Type, ...] | None
    func_type: FunctionType
    level: Level | None = None
    role: Role | None = None
    span: Span | None = None


@dataclass
class ProgramState:
    """A program under construction. `callee` gives the signature of a function by name, reading it when needed;
    it returns None for a name the program does not have."""

    name: str
    reporter: Reporter
    functions: dict[str, n.Function] = field(default_factory=dict)
    signatures: dict[str, Signature] = field(default_factory=dict)
    symbols: dict[str, n.Var] = field(default_factory=dict)
    callee: Callable[[str], Signature | None] = lambda _: None
    callee_names: Callable[[], Iterable[str]] = lambda: ()
    specialise: Callable[[KernelSource, tuple[n.Expr, ...], Span | None], Signature] | None = None
    """jit: the signature of a dependency for given arguments."""

    def symbol(self, name: str, span: Span | None = None) -> n.Var:
        """The program's one variable for a dynamic dimension."""
        if name not in self.symbols:
            self.symbols[name] = n.Var(name=name, type=n.INDEX, span=span)
        return self.symbols[name]


@dataclass
class Region:
    """A construct around the statement being read, for the rules about nesting. `tag` is range, parallel, unroll,
    pipeline, while, spmd, split_aiv, incore, hierarchy, cluster, auto_scope or manual_scope."""

    tag: str
    span: Span | None
    split: SplitMode | None = None
    carries: int | None = None


@dataclass
class Yielded:
    """A `pl.yield_` of the block being read."""

    names: tuple[str, ...]
    values: tuple[n.Expr, ...]
    types: tuple[Type | None, ...]
    span: Span


@dataclass
class FunctionState:
    """One function body being read."""

    program: ProgramState
    text: SourceText
    environment: Environment
    names: Names
    func_type: FunctionType = FunctionType.Opaque
    level: Level | None = None
    is_jit: bool = False
    strict_ssa: bool = False
    auto_scope: bool | None = None
    params: dict[str, n.Param] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    """Scalar parameters that are folded to the value of the call."""
    dynamic_params: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Dynamic symbol -> (parameter, axis) that carries it at run time."""
    body: list[n.Stmt] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    yields: list[list[Yielded]] = field(default_factory=lambda: [[]])
    returns: list[tuple[tuple[n.Expr, ...], Span]] = field(default_factory=list)
    rebound: list[tuple[str, n.Expr, Span]] = field(default_factory=list)
    """Plain assignments to the name of an output parameter: name, value, place."""
    attrs: dict[str, Any] = field(default_factory=dict)
    comment_line: int = 0
    inlined: tuple[str, ...] = ()

    # --- places and findings -----------------------------------------------------------------------------------------

    @property
    def reporter(self) -> Reporter:
        return self.program.reporter

    def span(self, node: ast.AST) -> Span:
        return self.text.span(node)

    def error(
        self,
        code: str,
        message: str,
        where: ast.AST | Span | None,
        *,
        hint: str | None = None,
        labels: Iterable[Label] = (),
        note: str | None = None,
    ) -> None:
        span = self.span(where) if isinstance(where, ast.AST) else where
        self.reporter.error(code, message, span, hint=hint, labels=labels, note=note)

    def fail(self, code: str, message: str, where: ast.AST | Span | None, **more: Any) -> NoReturn:
        """Reports and gives up the expression or statement at hand."""
        self.error(code, message, where, **more)
        raise Abandoned

    def warn(self, code: str, message: str, where: ast.AST | Span | None, **more: Any) -> None:
        span = self.span(where) if isinstance(where, ast.AST) else where
        self.reporter.warn(code, message, span, **more)

    def report_unresolved(self, name: str, node: ast.AST, reason: str = "") -> None:
        """E207 for a Python name without a value, where it is first used."""
        where = self.reporter.unresolved.setdefault(name, self.span(node))
        note = reason or "the statement that makes it could not be executed"
        self.error("E207", f"`{name}` has no value", where, hint="give it one before the kernel is read", note=note)

    # --- names and Python values -------------------------------------------------------------------------------------

    def is_variable(self, name: str) -> bool:
        """Whether a name means a DSL variable here (constants folded from scalars are none)."""
        return name in self.names and name not in self.constants

    def path(self, node: ast.AST) -> str | None:
        """The DSL name of an expression; a kernel variable hides a Python name."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id in self.names:
            return None
        return self.environment.path(node)

    def python_value(self, node: ast.AST) -> Any:
        """The Python value of an expression without kernel variables, else MISSING."""
        scope = self.environment.overlaid(self.constants) if self.constants else self.environment
        try:
            return scope.value(node, self.is_variable)
        except (ArithmeticError, TypeError, ValueError, LookupError, AttributeError) as error:
            self.fail("E205", f"Python cannot evaluate this: {error}", node, hint="correct the constant expression")
        return MISSING

    # --- building ----------------------------------------------------------------------------------------------------

    def emit(self, stmt: n.Stmt) -> None:
        self.body.append(stmt)

    @contextmanager
    def block(self, kind: BlockKind, span: Span | None = None) -> Iterator[list[n.Stmt]]:
        """Reads nested statements into a list of their own."""
        outer, self.body = self.body, []
        try:
            with self.names.inside(kind, span):
                yield self.body
        finally:
            self.body = outer

    @contextmanager
    def region(self, tag: str, span: Span | None, **facts: Any) -> Iterator[Region]:
        found = Region(tag, span, **facts)
        self.regions.append(found)
        try:
            yield found
        finally:
            self.regions.pop()

    def inside(self, *tags: str) -> Region | None:
        """The innermost enclosing region of one of the kinds."""
        return next((r for r in reversed(self.regions) if r.tag in tags), None)

    @property
    def lane_split(self) -> SplitMode | None:
        found = self.inside("split_aiv", "incore", "spmd")
        return None if found is None else found.split

    def unknown(self, where: ast.AST | Span | None = None) -> n.Var:
        """A stand-in for a value whose mistake is reported."""
        span = self.span(where) if isinstance(where, ast.AST) else where
        return n.Var(name="_unknown", type=UNKNOWN, span=span)
