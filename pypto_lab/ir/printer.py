"""Prints programs as DSL text in the compiler's raw dump layout (language.md 2.12): one statement a line, typed."""

from __future__ import annotations

import dataclasses
import keyword
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pypto_lab.ir import nodes as n
from pypto_lab.ir.dtypes import FP32, INDEX, DType
from pypto_lab.ir.enums import (
    ArgDirection,
    AtomicType,
    CompactMode,
    Direction,
    ForKind,
    FunctionType,
    Level,
    MemorySpace,
    PadValue,
    PipeType,
    Role,
    SplitMode,
    TensorLayout,
    TileLayout,
)
from pypto_lab.ir.types import (
    ArrayType,
    HandleType,
    MemRef,
    ScalarType,
    TensorType,
    TensorView,
    TileType,
    TileView,
    TupleType,
    Type,
    UnknownType,
)
from pypto_lab.ir.visitor import children, type_exprs

INDENT = "    "

ENUM_HEADS: dict[type[Enum], str] = {
    MemorySpace: "pl.Mem",
    TileLayout: "pl.TileLayout",
    TensorLayout: "pl.TensorLayout",
    PadValue: "pl.PadValue",
    CompactMode: "pl.CompactMode",
    PipeType: "pl.PipeType",
    AtomicType: "pl.AtomicType",
    SplitMode: "pl.SplitMode",
    Level: "pl.Level",
    Role: "pl.Role",
    FunctionType: "pl.FunctionType",
}
"""How the members of each enum are spelled; `ArgDirection` prints its value (`pl.adir.input`)."""

KEYWORD_ARGS: dict[str, tuple[tuple[int, str], ...]] = {
    "tile.full": ((1, "value"),),
    "tensor.full": ((1, "value"),),
    "tile.reinterpret_view": ((1, "shape"),),
    "tensor.reinterpret_view": ((1, "shape"),),
    "tile.gather_row": ((5, "valid_shape"),),
    "tensor.gather_row": ((5, "valid_shape"),),
    "tile.mgather": ((2, "scratch"), (3, "valid_shape")),
    "tile.random": ((7, "valid_shape"),),
    "system.syncall": ((0, "gm_workspace"), (1, "used_cores")),
}
"""IR arguments that are written by keyword (after the attributes), by position in the op's argument list."""

POSITIONAL_KEYWORDS: dict[str, tuple[str, ...]] = {"tile.alloc": ("memory_space", "size")}
"""Attributes that are written by position: they are no expressions, so `OpCall.args` cannot hold them."""


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A value the lab does not know, kept as it was written (`pl.NewEnum.X` in a dump of a newer compiler)."""

    text: str


class Precedence:
    """Python's levels, with the word `xor` between `or` and `and`."""

    OR, XOR, AND, NOT, COMPARE, BIT_OR, BIT_XOR, BIT_AND, SHIFT, ADD, MUL, UNARY, POW, ATOM = range(1, 15)


_BINARY: dict[str, tuple[str, int]] = {
    "Or": ("or", Precedence.OR), "Xor": ("xor", Precedence.XOR), "And": ("and", Precedence.AND),
    "Eq": ("==", Precedence.COMPARE), "Ne": ("!=", Precedence.COMPARE), "Lt": ("<", Precedence.COMPARE),
    "Le": ("<=", Precedence.COMPARE), "Gt": (">", Precedence.COMPARE), "Ge": (">=", Precedence.COMPARE),
    "BitOr": ("|", Precedence.BIT_OR), "BitXor": ("^", Precedence.BIT_XOR), "BitAnd": ("&", Precedence.BIT_AND),
    "BitShiftLeft": ("<<", Precedence.SHIFT), "BitShiftRight": (">>", Precedence.SHIFT),
    "Add": ("+", Precedence.ADD), "Sub": ("-", Precedence.ADD), "Mul": ("*", Precedence.MUL),
    "FloorDiv": ("//", Precedence.MUL), "FloorMod": ("%", Precedence.MUL), "FloatDiv": ("/", Precedence.MUL),
    "Pow": ("**", Precedence.POW),
}  # fmt: skip
_UNARY: dict[str, tuple[str, int]] = {
    "Neg": ("-", Precedence.UNARY), "BitNot": ("~", Precedence.UNARY), "Not": ("not ", Precedence.NOT),
}  # fmt: skip


def print_program(program: n.Program) -> str:
    """The whole program, as a `passes_dump` file holds it (with a final newline)."""
    return _Printer(program).program(program)


def print_function(function: n.Function, program: n.Program | None = None) -> str:
    """One function as a method of its class, not indented."""
    printer = _Printer(program)
    printer.function(function)
    return printer.text()


def print_stmt(stmt: n.Stmt) -> str:
    """One statement (with its block), not indented; variables print under their own names."""
    printer = _Printer(None, free_names=True)
    printer.stmt(stmt)
    return printer.text()


def print_expr(expr: n.Expr) -> str:
    """One expression; variables print under their own names."""
    return _Printer(None, free_names=True).expr(expr)


def print_type(type_: Type) -> str:
    """A type annotation; variables print under their own names."""
    return _Printer(None, free_names=True).type(type_)


def float_text(value: float) -> str:
    """Up to 17 significant digits, always recognisable as a float."""
    text = f"{value:.17g}"
    return text if any(c in text for c in ".en") else text + ".0"


class _Names:
    """Printed names: one for each variable, distinct among the variables visible together."""

    def __init__(self, symbols: Iterable[n.Var], free: bool) -> None:
        self.free = free
        self.of: dict[n.Var, str] = {}
        self.holder: dict[str, n.Var] = {}
        self.hidden: list[tuple[str, n.Var | None]] = []
        for symbol in symbols:
            self.define(symbol)

    def define(self, var: n.Var) -> str:
        """The name of a variable from here on; a definition that exists is kept."""
        name = self.of.get(var)
        if name is not None and self.holder.get(name) is var:
            return name
        name, clash = var.name, 0
        while (other := self.holder.get(name)) is not None and other is not var:
            clash += 1
            name = f"{var.name}_{clash}"
        self.hidden.append((name, other))
        self.holder[name] = var
        self.of[var] = name
        return name

    def use(self, var: n.Var) -> str:
        """The name at a use. A variable without a visible definition carries upstream's error marker."""
        name = self.of.get(var)
        if name is not None and self.holder.get(name) is var:
            return name
        return var.name if self.free else f"{var.name}__FREE_VAR"

    @contextmanager
    def block(self, leaks: bool) -> Iterator[None]:
        """Names defined inside end with the block unless it leaks (loops and ifs without results)."""
        mark = len(self.hidden)
        yield
        if leaks:
            return
        while len(self.hidden) > mark:
            name, other = self.hidden.pop()
            if other is None:
                self.holder.pop(name, None)
            else:
                self.holder[name] = other


def definitions(stmts: Iterable[n.Stmt]) -> Iterator[n.Var]:
    """Variables that statements define, in source order, blocks included."""
    stack: list[Any] = list(stmts)[::-1]
    while stack:
        stmt = stack.pop()
        yield from defined_by(stmt)
        for body in reversed(bodies(stmt)):
            stack.extend(body[::-1])


def defined_by(stmt: n.Stmt) -> tuple[n.Var, ...]:
    """Variables a statement itself defines (not those of statements inside it)."""
    match stmt:
        case n.Assign():
            return (stmt.var,)
        case n.For():
            return (stmt.loop_var, *stmt.iter_args, *stmt.return_vars)
        case n.While():
            return (*stmt.iter_args, *stmt.return_vars)
        case n.If():
            return stmt.return_vars
        case n.SpmdScope():
            return tuple(v for v in (stmt.task_id, stmt.loop_var) if v is not None)
        case n.SplitAivScope():
            return (stmt.lane_var,)
        case n.Scope():
            return () if stmt.task_id is None else (stmt.task_id,)
    return ()


def bodies(stmt: n.Stmt) -> tuple[n.Body, ...]:
    """The blocks of a statement."""
    match stmt:
        case n.If():
            return (stmt.then_body, stmt.else_body)
        case n.For() | n.While() | n.Scope():
            return (stmt.body,)
    return ()


def free_vars(function: n.Function) -> list[n.Var]:
    """Variables a function uses (in expressions or types) and does not define: dynamic dimensions, in order of use."""
    defined: set[n.Var] = {p.var for p in function.params}
    defined.update(definitions(function.body or ()))
    found: dict[n.Var, None] = {}
    seen_types: set[int] = set()
    stack: list[Any] = [*(function.body or ())[::-1], *(p.var for p in function.params[::-1])]

    def note_type(type_: Type) -> None:
        if id(type_) in seen_types or isinstance(type_, (ScalarType, HandleType)):
            return
        seen_types.add(id(type_))
        memref: MemRef | None = getattr(type_, "memref", None)
        base = None if memref is None else memref.base  # an allocation, no dimension
        stack.extend(e for e in type_exprs(type_) if e is not base)

    for type_ in function.return_types:
        note_type(type_)
    while stack:
        node = stack.pop()
        if isinstance(node, n.Expr):
            if isinstance(node, n.Var):
                if node not in defined:
                    found.setdefault(node)
                note_type(node.type)
            elif isinstance(node, (n.ConstInt, n.ConstFloat, n.ConstBool)):
                continue
        stack.extend(children(node))
    return list(found)


class _Printer:
    def __init__(self, program: n.Program | None, free_names: bool = False) -> None:
        self.lines: list[str] = []
        self.indent = ""
        self.program_ = program
        self.names = _Names((), free_names)
        self.symbol_names: dict[n.Var, str] = {}
        self.yield_targets: list[tuple[n.Var, ...]] = []
        self.typed = False

    def text(self) -> str:
        return "\n".join(self.lines)

    def line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    @contextmanager
    def indented(self) -> Iterator[None]:
        before, self.indent = self.indent, self.indent + INDENT
        yield
        self.indent = before

    # --- program and functions ---------------------------------------------------------------------------------------

    def program(self, program: n.Program) -> str:
        free = {name: free_vars(f) for name, f in program.functions.items()}
        declared = self._declared(program, free)
        self.lines += [f"# pypto.program: {program.name}", "import pypto.language as pl", ""]
        self.lines += [f'{name} = pl.dynamic("{name}")' for name in sorted(declared)]
        if declared:
            self.lines.append("")
        self.lines += ["@pl.program", f"class {program.name}:"]
        with self.indented():
            for name, function in program.functions.items():
                self.function(function, free[name])
        if not program.functions:
            self.lines.append(INDENT + "pass")
        return self.text() + "\n"

    def _declared(self, program: n.Program, free: Mapping[str, Sequence[n.Var]]) -> set[str]:
        """Names of the header: what the text declared and every dimension that no function defines."""
        names = set(program.declared_symbols)
        taken: dict[str, n.Var] = {}
        for symbol in (*program.symbols.values(), *(v for found in free.values() for v in found)):
            if symbol in self.symbol_names:
                continue
            name, clash = symbol.name, 0
            while taken.get(name, symbol) is not symbol:
                clash += 1
                name = f"{symbol.name}_{clash}"
            taken[name] = symbol
            self.symbol_names[symbol] = name
        for found in free.values():
            names.update(self.symbol_names[v] for v in found if not v.name.endswith("__FREE_VAR"))
        return names

    def function(self, function: n.Function, free: Sequence[n.Var] | None = None) -> None:
        free = free_vars(function) if free is None else free
        self.names = _Names((), False)
        for var in free:
            name = self.symbol_names.get(var, var.name)
            self.names.of[var] = name
            self.names.holder[name] = var
        # a parameter's type may name a scalar parameter that comes later
        for param in function.params:
            self.names.define(param.var)
        self.line(f"@pl.function{self._decoration(function)}")
        params = ["self"] if function.has_self else []
        params += [self._param(p) for p in function.params]
        self.line(f"def {function.name}({', '.join(params)}){self._returns(function.return_types)}:")
        with self.indented():
            self._function_body(function)

    def _decoration(self, function: n.Function) -> str:
        parts = []
        if function.func_type is not FunctionType.Opaque:
            parts.append(f"type=pl.FunctionType.{function.func_type.name}")
        if function.level is not None:
            parts.append(f"level=pl.Level.{function.level.name}")
        if function.role is not None:
            parts.append(f"role=pl.Role.{function.role.name}")
        if function.auto_scope is not None:
            parts.append(f"auto_scope={function.auto_scope}")
        if function.external_source is not None:
            parts.append(f"external_source={quoted(function.external_source)}")
        return f"({', '.join(parts)})" if parts else ""

    def _param(self, param: n.Param) -> str:
        type_ = self.type(param.type)
        if param.direction is not Direction.In:
            type_ = f"pl.{param.direction.name}[{type_}]"
        return f"{self.names.use(param.var)}: {type_}"

    def _returns(self, types: Sequence[Type]) -> str:
        if not types:
            return ""
        if len(types) == 1:
            return f" -> {self.type(types[0])}"
        return f" -> tuple[{', '.join(map(self.type, types))}]"

    def _function_body(self, function: n.Function) -> None:
        if function.docstring is not None:
            self.line(docstring_text(function.docstring))
        if function.attrs:
            self.line(f"pl.func_attr({self.attrs(function.attrs)})")
        if function.body is None:
            self.line("...")
        elif not function.body:
            self.line("pass")
        for stmt in function.body or ():
            self.stmt(stmt)

    # --- statements --------------------------------------------------------------------------------------------------

    def body(self, body: n.Body) -> None:
        with self.indented():
            if not body:
                self.line("pass")
            for stmt in body:
                self.stmt(stmt)

    def stmt(self, stmt: n.Stmt) -> None:
        for comment in stmt.leading_comments:
            for row in comment.split("\n"):
                self.line(f"# {row}" if row else "#")
        _STMTS[type(stmt)](self, stmt)

    def _assign(self, stmt: n.Assign) -> None:
        value = self.expr(stmt.value)
        name = self.names.define(stmt.var)
        self.line(f"{name}: {self.type(stmt.var.type)} = {value}")

    def _eval(self, stmt: n.Eval) -> None:
        self.line(self.expr(stmt.expr))

    def _if(self, stmt: n.If) -> None:
        leaks = not stmt.return_vars
        self.line(f"if {self.expr(stmt.condition)}:")
        self._reserve(stmt.return_vars)
        self.yield_targets.append(stmt.return_vars)
        with self.names.block(leaks):
            self.body(stmt.then_body)
        if stmt.else_body or stmt.return_vars:
            self.line("else:")
            with self.names.block(leaks):
                self.body(stmt.else_body)
        self.yield_targets.pop()

    def _reserve(self, results: Sequence[n.Var]) -> None:
        """Names the results of a loop or an if before its blocks: every yield and every later use must agree."""
        for var in results:
            self.names.define(var)

    def _for(self, stmt: n.For) -> None:
        args = self._range(stmt)
        stages = stmt.attrs.get("pipeline_stages")
        if stages is not None and stmt.kind is ForKind.Pipeline:
            args.append(f"stage={self.attr_value(stages)}")
        if stmt.iter_args:
            args.append(self._init_values(stmt.iter_args))
        attrs = {k: v for k, v in stmt.attrs.items() if k != "pipeline_stages" or stmt.kind is not ForKind.Pipeline}
        if attrs:
            args.append(f"attrs={self.attrs(attrs)}")
        self._reserve(stmt.return_vars)
        with self.names.block(leaks=not stmt.iter_args):
            target = self.names.define(stmt.loop_var)
            if stmt.iter_args:
                target += f", {self._targets(stmt.iter_args)}"
            self.line(f"for {target} in pl.{stmt.kind.value}({', '.join(args)}):")
            self._loop_body(stmt)
        if not stmt.iter_args:
            self._forget(stmt.loop_var)

    def _forget(self, var: n.Var) -> None:
        """A loop variable ends with its loop, even where the other names of the body stay visible."""
        name = self.names.of.get(var)
        if name is not None and self.names.holder.get(name) is var:
            del self.names.holder[name]

    def _range(self, stmt: n.For) -> list[str]:
        stop = self.expr(stmt.stop)
        if not _is_index(stmt.step, 1):
            return [self.expr(stmt.start), stop, self.expr(stmt.step)]
        return [stop] if _is_index(stmt.start, 0) else [self.expr(stmt.start), stop]

    def _init_values(self, iter_args: Sequence[n.IterArg]) -> str:
        return f"init_values={tuple_text([self.expr(a.init_value) for a in iter_args])}"

    def _targets(self, iter_args: Sequence[n.IterArg]) -> str:
        return tuple_text([self.names.define(a) for a in iter_args])

    def _loop_body(self, stmt: n.For | n.While) -> None:
        self.yield_targets.append(stmt.return_vars)
        self.body(stmt.body)
        self.yield_targets.pop()

    def _while(self, stmt: n.While) -> None:
        if not stmt.iter_args:
            self.line(f"while {self.expr(stmt.condition)}:")
            with self.names.block(leaks=True):
                self._loop_body(stmt)
            return
        init = self._init_values(stmt.iter_args)
        self._reserve(stmt.return_vars)
        with self.names.block(leaks=False):
            self.line(f"for {self._targets(stmt.iter_args)} in pl.while_({init}):")
            self.lines.append(f"{self.indent}{INDENT}pl.cond({self.expr(stmt.condition)})")
            if stmt.body:
                self._loop_body(stmt)

    def _yield(self, stmt: n.Yield) -> None:
        call = f"pl.yield_({', '.join(map(self.expr, stmt.values))})"
        targets = self.yield_targets[-1] if self.yield_targets else ()
        if len(targets) != len(stmt.values) or not targets:
            self.line(call)
            return
        names = [self.names.use(v) for v in targets]
        if len(targets) == 1:
            self.line(f"{names[0]}: {self.type(targets[0].type)} = {call}")
        else:
            self.line(f"{', '.join(names)} = {call}")

    def _return(self, stmt: n.Return) -> None:
        values = ", ".join(map(self.expr, stmt.values))
        self.line(f"return {values}" if values else "return")

    def _inline(self, stmt: n.InlineText) -> None:
        for row in stmt.text.split("\n"):
            self.lines.append(self.indent + row if row else "")

    # --- scopes ------------------------------------------------------------------------------------------------------

    def _at(self, stmt: n.InCoreScope | n.HierarchyScope) -> None:
        if isinstance(stmt, n.InCoreScope):
            parts, split = ["level=pl.Level.CORE_GROUP"], stmt.split
        else:
            parts, split = [f"level=pl.Level.{stmt.level.name}"], None
            if stmt.role is not None:
                parts.append(f"role=pl.Role.{stmt.role.name}")
        parts += self._optimizations(stmt, split)
        parts += self._scope_keywords(stmt)
        self._scope(stmt, f"with pl.at({', '.join(parts)})")

    def _cluster(self, stmt: n.ClusterScope) -> None:
        self._scope(stmt, f"with pl.cluster({', '.join(self._scope_keywords(stmt))})")

    def _spmd(self, stmt: n.SpmdScope) -> None:
        parts = [self.expr(stmt.core_num)]
        if stmt.sync_start:
            parts.append("sync_start=True")
        parts += self._scope_keywords(stmt, self._optimizations(stmt, stmt.split))
        call = f"pl.spmd({', '.join(parts)})"
        if stmt.loop_var is None:
            self._scope(stmt, f"with {call}")
            return
        if stmt.task_id is not None:  # only `with` names a task: the block index is read inside
            index = n.OpCall(op="tile.get_block_idx", args=(), type=n.INDEX, span=stmt.span)
            body = (n.Assign(var=stmt.loop_var, value=index, span=stmt.span), *stmt.body)
            self._scope(dataclasses.replace(stmt, loop_var=None, body=body), f"with {call}")
            return
        self.line(f"for {self.names.define(stmt.loop_var)} in {call}:")
        self.body(stmt.body)
        self._forget(stmt.loop_var)

    def _split_aiv(self, stmt: n.SplitAivScope) -> None:
        name = self.names.define(stmt.lane_var)
        self.line(f"for {name} in pl.split_aiv({stmt.count}, mode=pl.SplitMode.{stmt.split.name}):")
        self.body(stmt.body)
        self._forget(stmt.lane_var)

    def _runtime(self, stmt: n.RuntimeScope) -> None:
        parts = ["mode=pl.ScopeMode.MANUAL"] if stmt.manual else []
        self._scope(stmt, f"with pl.scope({', '.join(parts + self._scope_keywords(stmt))})")

    def _scope(self, stmt: n.Scope, head: str) -> None:
        suffix = "" if stmt.task_id is None else f" as {self.names.define(stmt.task_id)}"
        self.line(f"{head}{suffix}:")
        self.body(stmt.body)

    def _optimizations(self, stmt: n.Scope, split: SplitMode | None) -> list[str]:
        parts = [] if split is None else [f"pl.split(pl.SplitMode.{split.name})"]
        if "slot_num" in stmt.attrs:
            parts.append(f"pl.cross_core_slot(slot_num={stmt.attrs['slot_num']})")
        parts += [self.attr_value(v) for v in stmt.attrs.get("optimizations", ())]
        return [f"optimizations=[{', '.join(parts)}]"] if parts else []

    def _scope_keywords(self, stmt: n.Scope, optimizations: Sequence[str] = ()) -> list[str]:
        parts = [] if stmt.name_hint is None else [f"name_hint={quoted(stmt.name_hint)}"]
        parts += optimizations
        known = ("deps", "no_dep_args", "dumps", "allow_early_resolve", "windowize")
        keys = [k for k in known if k in stmt.attrs]
        keys += [k for k in stmt.attrs if k not in known and k not in ("slot_num", "optimizations")]
        for key in keys:
            value = stmt.attrs[key]
            text = self._predicate(value) if key == "predicate" else self.attr_value(value)
            parts.append(f"{key}={text}")
        return parts

    # --- expressions -------------------------------------------------------------------------------------------------

    def expr(self, expr: n.Expr, least: int = 0) -> str:
        """The text of an expression, in parentheses when it binds less tightly than `least`."""
        text, level = _EXPRS[type(expr)](self, expr)
        return f"({text})" if level < least else text

    def _var(self, expr: n.Var) -> tuple[str, int]:
        return self.names.use(expr), Precedence.ATOM

    def _const_int(self, expr: n.ConstInt) -> tuple[str, int]:
        dtype = expr.type.dtype if isinstance(expr.type, ScalarType) else INDEX
        if dtype is INDEX and not self.typed:
            return str(expr.value), Precedence.ATOM if expr.value >= 0 else Precedence.UNARY
        return f"pl.const({expr.value}, pl.{dtype.name})", Precedence.ATOM

    def _const_float(self, expr: n.ConstFloat) -> tuple[str, int]:
        dtype = expr.type.dtype if isinstance(expr.type, ScalarType) else FP32
        text = float_text(expr.value)
        if dtype is FP32 and not self.typed:
            return text, Precedence.UNARY if math.copysign(1.0, expr.value) < 0 else Precedence.ATOM
        return f"pl.const({text}, pl.{dtype.name})", Precedence.ATOM

    def _const_bool(self, expr: n.ConstBool) -> tuple[str, int]:
        return str(expr.value), Precedence.ATOM

    def _make_tuple(self, expr: n.MakeTuple) -> tuple[str, int]:
        return self.list_text(expr.elements), Precedence.ATOM

    def list_text(self, elements: Sequence[n.Expr]) -> str:
        return f"[{', '.join([self.expr(e) for e in elements])}]"

    def _get_item(self, expr: n.TupleGetItem) -> tuple[str, int]:
        return f"{self.expr(expr.tuple, Precedence.ATOM)}[{expr.index}]", Precedence.ATOM

    @contextmanager
    def typed_leaves(self) -> Iterator[None]:
        """Constants print with their dtype: inside composite dimensions, and where a reader would fold them."""
        before, self.typed = self.typed, True
        yield
        self.typed = before

    def _binary(self, expr: n.Binary) -> tuple[str, int]:
        if not self.typed and _constant_only(expr):
            with self.typed_leaves():
                return self._binary(expr)
        if expr.op in ("Min", "Max"):
            return f"pl.{expr.op.lower()}({self.expr(expr.left)}, {self.expr(expr.right)})", Precedence.ATOM
        sign, level = _BINARY[expr.op]
        if level == Precedence.POW:  # right-associative, and its exponent may be a unary
            return f"{self.expr(expr.left, Precedence.ATOM)} ** {self.expr(expr.right, Precedence.UNARY)}", level
        left = level + 1 if level == Precedence.COMPARE else level  # `a < b < c` would be a chain
        return f"{self.expr(expr.left, left)} {sign} {self.expr(expr.right, level + 1)}", level

    def _unary(self, expr: n.Unary) -> tuple[str, int]:
        if expr.op == "Cast":
            dtype = expr.type.dtype if isinstance(expr.type, ScalarType) else INDEX
            return f"pl.cast({self.expr(expr.operand)}, pl.{dtype.name})", Precedence.ATOM
        if expr.op == "Abs":
            return f"abs({self.expr(expr.operand)})", Precedence.ATOM
        sign, level = _UNARY[expr.op]
        if expr.op == "Neg" and isinstance(expr.operand, (n.ConstInt, n.ConstFloat)):
            with self.typed_leaves():  # `-1` would read as a constant
                return f"-{self.expr(expr.operand, level)}", level
        return f"{sign}{self.expr(expr.operand, level)}", level

    def _op_call(self, expr: n.OpCall) -> tuple[str, int]:
        by_keyword = KEYWORD_ARGS.get(expr.op, ())
        named = {index: name for index, name in by_keyword if index < len(expr.args)}
        first = POSITIONAL_KEYWORDS.get(expr.op, ())
        parts = [self.keyword_value(expr.kwargs[k]) for k in first if k in expr.kwargs]
        parts += [self.expr(a) for i, a in enumerate(expr.args) if i not in named]
        for key, value in expr.kwargs.items():
            if key in first:
                continue
            if key.startswith("*"):  # a positional argument that is no expression, kept by the dump reader
                parts.insert(int(key[1:]), self.keyword_value(value))
            else:
                parts.append(f"{key}={self.keyword_value(value)}")
        parts += [f"{name}={self.expr(expr.args[index])}" for index, name in named.items()]
        if expr.attrs:
            parts.append(f"attrs={self.attrs(expr.attrs)}")
        return f"{op_text(expr.op)}({', '.join(parts)})", Precedence.ATOM

    def _function_call(self, expr: n.FunctionCall) -> tuple[str, int]:
        parts = [self.expr(a) for a in expr.args]
        attrs = dict(expr.attrs)
        if "device" in attrs:
            parts.append(f"device={self.attr_value(attrs.pop('device'))}")
        if attrs:
            parts.append(f"attrs={self.attrs(attrs)}")
        return f"self.{expr.callee}({', '.join(parts)})", Precedence.ATOM

    def _submit(self, expr: n.Submit) -> tuple[str, int]:
        parts = [f"self.{expr.callee}", *(self.expr(a) for a in expr.args)]
        if expr.deps:
            parts.append(f"deps={self.list_text(expr.deps)}")
        if expr.dumps:
            parts.append(f"dumps={self.list_text(expr.dumps)}")
        if expr.core_num is not None:
            parts.append(f"core_num={self.expr(expr.core_num)}")
        if expr.sync_start:
            parts.append("sync_start=True")
        if expr.allow_early_resolve:
            parts.append("allow_early_resolve=True")
        if expr.predicate is not None:
            parts.append(f"predicate={self._predicate(expr.predicate)}")
        if expr.attrs:
            parts.append(f"attrs={self.attrs(expr.attrs)}")
        head = "pl.submit" if expr.core_num is None else "pl.spmd_submit"
        return f"{head}({', '.join(parts)})", Precedence.ATOM

    def _predicate(self, expr: Any) -> str:
        """A launch predicate reads its tensor element by subscript: `(t[i] > 0)`."""
        if isinstance(expr, n.Binary) and isinstance(expr.left, n.OpCall) and expr.left.op == "tensor.read":
            read = expr.left
            place = read.args[1]
            index = place.elements if isinstance(place, n.MakeTuple) else (place,)
            element = f"{self.expr(read.args[0])}[{', '.join(map(self.expr, index))}]"
            return f"({element} {_BINARY[expr.op][0]} {self.expr(expr.right, Precedence.COMPARE + 1)})"
        return f"({self.expr(expr)})" if isinstance(expr, n.Expr) else self.attr_value(expr)

    # --- values of keywords and attributes ---------------------------------------------------------------------------

    def keyword_value(self, value: Any) -> str:
        """An op's keyword: strings in single quotes."""
        if isinstance(value, str):
            return quoted(value, "'")
        return self.attr_value(value)

    def attr_value(self, value: Any) -> str:
        """An attribute: strings in double quotes, lists of anything."""
        match value:
            case n.Expr():
                return self.expr(value)
            case bool() | None:
                return str(value)
            case ArgDirection():
                return f"pl.adir.{value.value}"
            case DType():
                return f"pl.{value.name}"
            case Verbatim():
                return value.text
            case Enum():
                head = ENUM_HEADS.get(type(value))
                return str(int(value.value)) if head is None else f"{head}.{value.name}"
            case float():
                return float_text(value)
            case int():
                return str(value)
            case str():
                return quoted(value)
            case Mapping():
                return self.attrs(value)
            case list() | tuple():
                return f"[{', '.join(map(self.attr_value, value))}]"
        raise TypeError(f"no text for an attribute of type {type(value).__name__}")

    def attrs(self, attrs: Mapping[str, Any]) -> str:
        return "{" + ", ".join(f"{quoted(k)}: {self.attr_value(v)}" for k, v in attrs.items()) + "}"

    # --- types -------------------------------------------------------------------------------------------------------

    def type(self, type_: Type) -> str:
        return _TYPES[type(type_)](self, type_)

    def dims(self, dims: Sequence[n.Expr]) -> str:
        return f"[{', '.join([self.dim(d) for d in dims])}]"

    def dim(self, dim: n.Expr) -> str:
        if isinstance(dim, (n.ConstInt, n.Var)):
            return self.expr(dim)
        with self.typed_leaves():
            return self.expr(dim)

    def _scalar(self, type_: ScalarType) -> str:
        return f"pl.Scalar[pl.{type_.dtype.name}]"

    def _tensor(self, type_: TensorType) -> str:
        parts = [self.dims(type_.shape), f"pl.{type_.dtype.name}"]
        if type_.view is not None:
            parts.append(self._tensor_view(type_.view))
        if type_.memref is not None:
            parts.append(self._memref(type_.memref))
        if not type_.distributed:
            return f"pl.Tensor[{', '.join(parts)}]"
        if type_.window_buffer is not None:
            parts.append(quoted(f"window_buffer={type_.window_buffer}"))
        return f"pld.DistributedTensor[{', '.join(parts)}]"

    def _tile(self, type_: TileType) -> str:
        parts = [self.dims(type_.shape), f"pl.{type_.dtype.name}"]
        if type_.memref is not None:
            parts.append(self._memref(type_.memref))
        if type_.memory_space is not None:
            parts.append(f"pl.Mem.{type_.memory_space.name}")
        if type_.view is not None:
            parts.append(self._tile_view(type_.view))
        return f"pl.Tile[{', '.join(parts)}]"

    def _tensor_view(self, view: TensorView) -> str:
        parts = []
        if view.stride is not None:
            parts.append(f"stride={self.dims(view.stride)}")
        if view.layout is not None:
            parts.append(f"layout=pl.TensorLayout.{view.layout.name}")
        if view.valid_shape is not None:
            parts.append(f"valid_shape={self.dims(view.valid_shape)}")
        if view.pad is not None:
            parts.append(f"pad=pl.PadValue.{view.pad.name}")
        return f"pl.TensorView({', '.join(parts)})"

    def _tile_view(self, view: TileView) -> str:
        parts = []
        if view.valid_shape is not None:
            parts.append(f"valid_shape={self.dims(view.valid_shape)}")
        if view.stride is not None:
            parts.append(f"stride={self.dims(view.stride)}")
        if view.start_offset is not None:
            parts.append(f"start_offset={self.dim(view.start_offset)}")
        if view.blayout is not None:
            parts.append(f"blayout=pl.TileLayout.{view.blayout.name}")
        if view.slayout is not None:
            parts.append(f"slayout=pl.TileLayout.{view.slayout.name}")
        if view.fractal is not None:
            parts.append(f"fractal={view.fractal}")
        if view.pad is not None:
            parts.append(f"pad=pl.PadValue.{view.pad.name}")
        if view.compact is not None:
            parts.append(f"compact=pl.CompactMode.{view.compact.name}")
        return f"pl.TileView({', '.join(parts)})"

    def _memref(self, memref: MemRef) -> str:
        if memref.legacy is not None:
            return f"pl.MemRef({', '.join(map(self.attr_value, memref.legacy))})"
        base = quoted(memref.base) if isinstance(memref.base, str) else self._base(memref.base)
        if memref.offset is None and memref.size is None and not memref.declared:
            text = base
        else:
            parts = [base]
            if memref.offset is not None:
                parts.append(self.expr(memref.offset))
            if memref.size is not None:
                parts.append(str(memref.size))
            if memref.slots is not None:
                parts.append(f"slots={memref.slots}")
            text = f"pl.MemRef({', '.join(parts)})"
        return text if memref.slot is None else f"{text}[{self.expr(memref.slot)}]"

    def _base(self, base: n.Expr | None) -> str:
        if isinstance(base, n.Var):  # an allocation is named even where it is out of sight
            return self.names.of.get(base, base.name)
        return "None" if base is None else self.expr(base)

    def _array(self, type_: ArrayType) -> str:
        return f"pl.Array[{self.dim(type_.extent)}, pl.{type_.dtype.name}]"

    def _tuple(self, type_: TupleType) -> str:
        return f"pl.Tuple[{', '.join(map(self.type, type_.elements)) or '()'}]"

    def _handle(self, type_: HandleType) -> str:
        return type_.name

    def _unknown(self, type_: UnknownType) -> str:
        return "pl.UnknownType"


def _is_index(expr: n.Expr, value: int) -> bool:
    return (
        isinstance(expr, n.ConstInt)
        and expr.value == value
        and isinstance(expr.type, ScalarType)
        and expr.type.dtype is INDEX
    )


def _constant_only(expr: n.Expr) -> bool:
    """Whether an arithmetic tree has constants for leaves only."""
    while isinstance(expr, (n.Binary, n.Unary)):
        if isinstance(expr, n.Unary):
            expr = expr.operand
        elif _constant_only(expr.right):
            expr = expr.left
        else:
            return False
    return isinstance(expr, (n.ConstInt, n.ConstFloat))


def op_text(op: str) -> str:
    """`pl.tile.load`, `pld.tensor.put`, `pl.tile.and_`: the printed name of an op."""
    head, dot, last = op.rpartition(".")
    name = f"{head}{dot}{last}_" if keyword.iskeyword(last) else op
    return name if op.startswith("pld.") else f"pl.{name}"


def tuple_text(parts: Sequence[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def quoted(text: str, quote: str = '"') -> str:
    """A string literal in the given quotes."""
    body = repr(text + "'\"")[1:-4]  # with both quotes inside, repr writes \' and a bare "
    return f"'{body}'" if quote == "'" else '"' + body.replace("\\'", "'").replace('"', '\\"') + '"'


def docstring_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if escaped.endswith('"'):
        escaped = escaped[:-1] + '\\"'
    return f'"""{escaped}"""'


_STMTS: dict[type[n.Stmt], Callable[[_Printer, Any], None]] = {
    n.Assign: _Printer._assign,
    n.Eval: _Printer._eval,
    n.If: _Printer._if,
    n.For: _Printer._for,
    n.While: _Printer._while,
    n.Yield: _Printer._yield,
    n.Return: _Printer._return,
    n.Break: lambda p, s: p.line("break"),
    n.Continue: lambda p, s: p.line("continue"),
    n.InlineText: _Printer._inline,
    n.InCoreScope: _Printer._at,
    n.HierarchyScope: _Printer._at,
    n.ClusterScope: _Printer._cluster,
    n.SpmdScope: _Printer._spmd,
    n.SplitAivScope: _Printer._split_aiv,
    n.RuntimeScope: _Printer._runtime,
}
_EXPRS: dict[type[n.Expr], Callable[[_Printer, Any], tuple[str, int]]] = {
    n.Var: _Printer._var,
    n.IterArg: _Printer._var,
    n.ConstInt: _Printer._const_int,
    n.ConstFloat: _Printer._const_float,
    n.ConstBool: _Printer._const_bool,
    n.MakeTuple: _Printer._make_tuple,
    n.TupleGetItem: _Printer._get_item,
    n.Binary: _Printer._binary,
    n.Unary: _Printer._unary,
    n.OpCall: _Printer._op_call,
    n.FunctionCall: _Printer._function_call,
    n.Submit: _Printer._submit,
}
_TYPES: dict[type[Type], Callable[[_Printer, Any], str]] = {
    ScalarType: _Printer._scalar,
    TensorType: _Printer._tensor,
    TileType: _Printer._tile,
    ArrayType: _Printer._array,
    TupleType: _Printer._tuple,
    HandleType: _Printer._handle,
    UnknownType: _Printer._unknown,
}
