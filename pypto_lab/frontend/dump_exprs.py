"""Expressions and types of a dump: from `ast` to IR, keeping what the lab does not know and noting it."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NoReturn

from pypto_lab.frontend.dump_names import KEPT, Findings, Names
from pypto_lab.frontend.dump_text import Source
from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, did_you_mean
from pypto_lab.ir.dtypes import ALIASES, DTYPES, DType
from pypto_lab.ir.enums import (
    LEVEL_ALIASES,
    ArgDirection,
    AtomicType,
    CompactMode,
    FunctionType,
    Level,
    MaskPattern,
    MemorySpace,
    MgatherCoalesce,
    NotifyOp,
    PadValue,
    PipeType,
    ReduceOp,
    Role,
    ScopeMode,
    SplitMode,
    TensorLayout,
    TileLayout,
    WaitCmp,
)
from pypto_lab.ir.printer import KEYWORD_ARGS, POSITIONAL_KEYWORDS, Verbatim
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import (
    PTR,
    UNKNOWN,
    ArrayType,
    HandleType,
    MemRef,
    ScalarType,
    ShapedType,
    TensorType,
    TensorView,
    TileType,
    TileView,
    TupleType,
    Type,
)
from pypto_lab.ops.record import OPS, infer_type

MAX_DEPTH = 150
"""Nested expressions beyond this are refused: everything downstream walks them recursively."""


class Reject(Exception):
    """One statement cannot be read; its diagnostic goes on the list and reading continues behind it."""

    def __init__(self, code: str, message: str, span: Span | None, hint: str | None = None) -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic(code, message, span, hint=hint)


def _members(prefix: str, enum: type[Enum]) -> dict[str, Any]:
    return {f"{prefix}.{m.name}": m for m in enum}


CONSTANTS: dict[str, Any] = {
    **{f"pl.{name}": d for name, d in DTYPES.items()},
    **{f"pl.{alias}": DTYPES[name] for alias, name in ALIASES.items()},
    **_members("pl.Mem", MemorySpace),
    **_members("pl.MemorySpace", MemorySpace),
    **_members("pl.TileLayout", TileLayout),
    **_members("pl.TensorLayout", TensorLayout),
    **_members("pl.PadValue", PadValue),
    **_members("pl.CompactMode", CompactMode),
    **_members("pl.SplitMode", SplitMode),
    **_members("pl.Level", Level),
    **{f"pl.Level.{alias}": Level[name] for alias, name in LEVEL_ALIASES.items()},
    **_members("pl.Role", Role),
    "pl.Role.Worker": Role.SubWorker,
    **_members("pl.FunctionType", FunctionType),
    **_members("pl.ScopeMode", ScopeMode),
    **_members("pl.PipeType", PipeType),
    **_members("pl.AtomicType", AtomicType),
    **_members("pld.AtomicType", AtomicType),
    **{f"pl.MaskPattern.{m.name}": int(m) for m in MaskPattern},
    **{f"pl.MgatherCoalesce.{m.name}": int(m) for m in MgatherCoalesce},
    **{f"pld.NotifyOp.{m.name}": int(m) for m in NotifyOp},
    **{f"pld.WaitCmp.{m.name}": int(m) for m in WaitCmp},
    **{f"pld.ReduceOp.{m.name}": int(m) for m in ReduceOp},
    **{f"pl.adir.{d.value}": d for d in ArgDirection},
}
"""What the dotted names of a dump stand for."""

_HANDLE_NAMES = frozenset(
    {
        "pl.Ptr", "pl.MemRefType", "pl.PrefetchAsyncContext", "pl.AsyncEvent", "pl.AsyncSession",
        "pld.CommCtx", "pld.CommCtxType", "pld.WindowBufferType", "pl.WindowBufferType", "pl.CommCtxType",
    }
)  # fmt: skip
_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.FloorDiv: "FloorDiv", ast.Mod: "FloorMod",
    ast.Div: "FloatDiv", ast.Pow: "Pow", ast.BitAnd: "BitAnd", ast.BitOr: "BitOr", ast.BitXor: "BitXor",
    ast.LShift: "BitShiftLeft", ast.RShift: "BitShiftRight",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "Eq", ast.NotEq: "Ne", ast.Lt: "Lt", ast.LtE: "Le", ast.Gt: "Gt", ast.GtE: "Ge",
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "Neg", ast.Not: "Not", ast.Invert: "BitNot"}
_SUBMIT_KEYWORDS = ("deps", "dumps", "core_num", "sync_start", "allow_early_resolve", "predicate", "attrs")
_KEYWORD_NAMES = {f"{word}_": word for word in keyword.kwlist}
_SCALARS: dict[DType, ScalarType] = {d: ScalarType(d) for d in DTYPES.values()} | {
    dtypes.INDEX: n.INDEX,
    dtypes.BOOL: n.BOOL,
    dtypes.FP32: n.FP32,
}
_LEGACY_MEMREF_HINT = "old dumps state the address only; it is kept as it stands"


@dataclass
class Signature:
    """What a call needs to know of a function before its body is read."""

    params: tuple[n.Param, ...]
    returns: tuple[Type, ...]

    @property
    def result(self) -> Type:
        return self.returns[0] if len(self.returns) == 1 else TupleType(self.returns)


def dotted(node: ast.expr) -> str:
    """`pl.tile.load` of an attribute chain; "" for anything else."""
    if isinstance(node, ast.Attribute):
        value = node.value
        if isinstance(value, ast.Name):
            return f"{value.id}.{node.attr}"
        head = dotted(value)
        return f"{head}.{node.attr}" if head else ""
    return node.id if isinstance(node, ast.Name) else ""


def number(node: ast.expr) -> int | float | None:
    """The value of a literal number with an optional sign, else None."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) in (int, float) else None  # type: ignore[return-value]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        operand = node.operand
        if isinstance(operand, ast.Constant) and type(operand.value) in (int, float):
            value: int | float = operand.value  # type: ignore[assignment]
            return -value if isinstance(node.op, ast.USub) else value
    return None


@dataclass
class ExprReader:
    """Reads expressions and annotations with the names of one function in view."""

    source: Source
    findings: Findings
    signatures: Mapping[str, Signature]
    names: Names
    depth: int = 0
    in_type: bool = False

    # --- expressions -------------------------------------------------------------------------------------------------

    def expr(self, node: ast.expr) -> n.Expr:
        """Any expression. Raises Reject where it is none of the language."""
        kind = type(node)
        if kind is ast.Name:
            return self.name(node)  # type: ignore[arg-type]
        if kind is ast.Constant:
            return self.constant(node)  # type: ignore[arg-type]
        handler = _EXPRS.get(kind)
        if handler is None:
            self.reject("E711", f"{kind.__name__} is no expression of a dump", node)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.reject("E703", f"expressions nested deeper than {MAX_DEPTH} levels are not read", node)
        result = handler(self, node)
        self.depth -= 1
        return result

    def reject(self, code: str, message: str, node: Any, hint: str | None = None) -> NoReturn:
        raise Reject(code, message, self.source.span(node), hint)

    def name(self, node: ast.Name) -> n.Expr:
        var: n.Var | None
        if self.in_type:
            var = self.names.visible.get(node.id)
            return self.names.dimension(node.id, self.source.span(node)) if var is None else var
        var = self.names.use(node.id, lambda: self.source.span(node))
        if var is None:
            if node.id in ("inf", "nan"):
                return n.ConstFloat(value=float(node.id), type=n.FP32, span=self.source.span(node))
            near = did_you_mean(node.id, [*self.names.visible, *self.names.symbols.known])
            self.reject("E731", f"`{node.id}` is not defined here", node, near)
        return var

    def constant(self, node: ast.Constant) -> n.Expr:
        value = node.value
        kind = type(value)
        span = self.source.span(node)
        if kind is int:
            return n.ConstInt(value=value, type=n.INDEX, span=span)  # type: ignore[arg-type]
        if kind is float:
            return n.ConstFloat(value=value, type=n.FP32, span=span)  # type: ignore[arg-type]
        if kind is bool:
            return n.ConstBool(value=value, type=n.BOOL, span=span)  # type: ignore[arg-type]
        if value is None:
            return n.OpCall(op="system.task_invalid", args=(), type=_SCALARS[dtypes.TASK_ID], span=span)
        self.reject("E711", f"a {kind.__name__} is no value here", node)

    def _binary(self, node: ast.BinOp) -> n.Expr:
        op = _BINARY.get(type(node.op))
        if op is None:
            self.reject("E711", f"the operator of `{ast.unparse(node)[:60]}` is not part of the language", node)
        return self._make_binary(op, self.expr(node.left), self.expr(node.right), node)

    def _make_binary(self, op: str, left: n.Expr, right: n.Expr, node: ast.expr) -> n.Binary:
        type_ = n.BOOL if op in ("And", "Or", "Xor") else wider(left.type, right.type)
        return n.Binary(op=op, left=left, right=right, type=type_, span=self.source.span(node))

    def _compare(self, node: ast.Compare) -> n.Expr:
        op = _COMPARE.get(type(node.ops[0]))
        if op is None or len(node.ops) != 1:
            self.reject("E711", "only one comparison at a time is part of the language", node)
        left, right = self.expr(node.left), self.expr(node.comparators[0])
        return n.Binary(op=op, left=left, right=right, type=n.BOOL, span=self.source.span(node))

    def _bool(self, node: ast.BoolOp) -> n.Expr:
        if isinstance(node.op, ast.Or):
            return self._chain("Or", [self.expr(v) for v in node.values], node)
        groups: list[list[n.Expr]] = [[self.expr(node.values[0])]]
        for before, value in zip(node.values, node.values[1:], strict=False):
            if self.source.xors and self._is_xor(before, value):
                groups.append([])
            groups[-1].append(self.expr(value))
        return self._chain("Xor", [self._chain("And", g, node) for g in groups], node)

    def _is_xor(self, left: ast.expr, right: ast.expr) -> bool:
        """Whether the word between two operands was `xor` (the nearest one to the right operand)."""
        start = (left.end_lineno or left.lineno, left.end_col_offset or 0)
        end = (right.lineno, right.col_offset)
        return any(start <= place < end for place in self.source.xors)

    def _chain(self, op: str, values: Sequence[n.Expr], node: ast.expr) -> n.Expr:
        if self.depth + len(values) > MAX_DEPTH:
            self.reject("E703", f"a chain of {len(values)} operands is nested too deeply to read", node)
        result = values[0]
        for value in values[1:]:
            result = self._make_binary(op, result, value, node)
        return result

    def _unary(self, node: ast.UnaryOp) -> n.Expr:
        span = self.source.span(node)
        value = number(node)
        if isinstance(value, int):
            return n.ConstInt(value=value, type=n.INDEX, span=span)
        if isinstance(value, float):
            return n.ConstFloat(value=value, type=n.FP32, span=span)
        operand = self.expr(node.operand)
        if isinstance(node.op, ast.UAdd):
            return operand
        if isinstance(operand, n.ConstFloat) and isinstance(node.operand, ast.Name):  # `-inf`
            return n.ConstFloat(value=-operand.value, type=operand.type, span=span)
        op = _UNARY[type(node.op)]
        return n.Unary(op=op, operand=operand, type=n.BOOL if op == "Not" else operand.type, span=span)

    def _list(self, node: ast.List | ast.Tuple) -> n.Expr:
        elements = tuple([self.expr(e) for e in node.elts])
        return n.MakeTuple(
            elements=elements, type=TupleType(tuple([e.type for e in elements])), span=self.source.span(node)
        )

    def _attribute(self, node: ast.Attribute) -> n.Expr:
        self.reject("E711", f"`{dotted(node) or ast.unparse(node)[:60]}` is no value here", node)

    def _subscript(self, node: ast.Subscript) -> n.Expr:
        value = self.expr(node.value)
        index = number(node.slice)
        span = self.source.span(node)
        if not isinstance(value.type, (ShapedType, ArrayType)) and type(index) is int:
            return n.TupleGetItem(tuple=value, index=index, type=item_type(value.type, index), span=span)
        places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        indices = tuple(self.expr(p) for p in places)
        if isinstance(value.type, ArrayType):
            return n.OpCall(op="array.get_element", args=(value, *indices), type=_SCALARS[value.type.dtype], span=span)
        if not isinstance(value.type, ShapedType):
            self.reject("E711", "only tuples, arrays and tensors can be indexed", node)
        place = n.MakeTuple(elements=indices, type=TupleType(tuple(i.type for i in indices)), span=span)
        op = "tile.read" if isinstance(value.type, TileType) else "tensor.read"
        return n.OpCall(op=op, args=(value, place), type=_SCALARS[value.type.dtype], span=span)

    # --- calls -------------------------------------------------------------------------------------------------------

    def call(self, node: ast.Call, type_: Type | None = None) -> n.Expr:
        """A call; `type_` is what an annotation says of its result."""
        name = dotted(node.func)
        special = _CALLS.get(name)
        if special is not None:
            return special(self, node, type_)
        head, _, rest = name.partition(".")
        if head == "self" and rest:
            return self._function_call(node, rest, type_)
        if head in ("pl", "pld") and rest:
            return self._op_call(node, name if head == "pld" else rest, type_)
        known = ["pl.tile.<op>", "pl.tensor.<op>", "self.<function>"]
        self.reject("E711", f"`{name or ast.unparse(node.func)[:60]}` is no call of a dump", node, f"known are {known}")

    def _op_call(self, node: ast.Call, name: str, type_: Type | None) -> n.OpCall:
        if name[-1] == "_":
            head, dot, last = name.rpartition(".")
            name = head + dot + _KEYWORD_NAMES.get(last, last)
        kwargs: dict[str, Any] = {}
        args: list[n.Expr] = []
        positional = POSITIONAL_KEYWORDS.get(name, ())
        for i, arg in enumerate(node.args):
            if i < len(positional):
                kwargs[positional[i]] = self.value(arg)
            elif isinstance(arg, ast.Attribute) or (isinstance(arg, ast.Constant) and type(arg.value) is str):
                kwargs[f"*{i}"] = self.value(arg)
            else:
                args.append(self.expr(arg))
        attrs: Mapping[str, Any] = n.NO_KEYWORDS
        named: dict[str, n.Expr] = {}
        by_keyword = KEYWORD_ARGS.get(name, ())
        for word in node.keywords:
            key = word.arg
            if key == "attrs":
                attrs = self.attrs(word.value)
            elif key is None:
                self.reject("E711", "`**` is not part of the language", node)
            elif by_keyword and any(key == k for _, k in by_keyword):
                named[key] = self.expr(word.value)
            else:
                kwargs[key] = self.value(word.value)
        for index, key in by_keyword:
            if key in named:
                if index == len(args):
                    args.append(named[key])
                else:
                    kwargs[key] = named[key]
        call = n.OpCall(
            op=name, args=tuple(args), kwargs=kwargs, attrs=attrs, type=type_ or UNKNOWN, span=self.source.span(node)
        )
        self._note_op(call, node)
        return call if type_ is not None else self._inferred(call)

    def _note_op(self, call: n.OpCall, node: ast.Call) -> None:
        op = OPS.get(call.op)
        if op is None:
            if len(OPS) and not call.op.startswith("builtin."):
                message = f"`{call.op}` is an op the lab does not know; it is kept"
                near = did_you_mean(call.op, (known.name for known in OPS))
                self.findings.note("N301", call.op, message, self.source.span(node), near or KEPT)
            return
        if call.op in POSITIONAL_KEYWORDS:
            return
        for key in call.kwargs:
            if op.attr(key) is None and not any(a.name == key for a in op.args):
                message = f"`{call.op}` has no keyword `{key}`; it is kept"
                known = [*(a.name for a in op.args), *(a.name for a in op.attrs)]
                hint = did_you_mean(key, known) or f"known are {', '.join(known)}"
                self.findings.note("N302", f"{call.op}.{key}", message, self.source.span(node), hint)

    def _inferred(self, call: n.OpCall) -> n.OpCall:
        try:
            type_ = infer_type(call)
        except Exception:  # a rule refuses what a newer compiler allows; reading must go on without a type
            return call
        if type_ is UNKNOWN:
            return call
        return n.OpCall(op=call.op, args=call.args, kwargs=call.kwargs, attrs=call.attrs, type=type_, span=call.span)

    def _function_call(self, node: ast.Call, callee: str, type_: Type | None) -> n.FunctionCall:
        args = tuple([self.expr(a) for a in node.args])
        attrs: dict[str, Any] = {}
        for word in node.keywords:
            if word.arg == "attrs":
                attrs.update(self.attrs(word.value))
            elif word.arg is not None:
                attrs[word.arg] = self.value(word.value)
        self._check_callee(callee, len(args), node)
        if type_ is None:
            known = self.signatures.get(callee)
            type_ = UNKNOWN if known is None else known.result
        return n.FunctionCall(callee=callee, args=args, attrs=attrs, type=type_, span=self.source.span(node))

    def _check_callee(self, callee: str, count: int, node: ast.Call) -> None:
        known = self.signatures.get(callee)
        if known is None:
            hint = did_you_mean(callee, self.signatures) or f"the program has {', '.join(self.signatures)}"
            self.reject("E732", f"the program has no function `{callee}`", node.func, hint)
        if len(known.params) != count:
            self.reject("E733", f"`{callee}` takes {len(known.params)} arguments, not {count}", node)

    def _submit(self, node: ast.Call, type_: Type | None) -> n.Submit:
        target = dotted(node.args[0]) if node.args else ""
        if not target.startswith("self."):
            self.reject("E711", "a submit starts with `self.<function>`", node)
        callee = target[5:]
        words = {w.arg: w.value for w in node.keywords if w.arg is not None}
        args = tuple(self.expr(a) for a in node.args[1:])
        self._check_callee(callee, len(args), node)
        attrs: dict[str, Any] = dict(self.attrs(words["attrs"])) if "attrs" in words else {}
        for key in sorted(words.keys() - set(_SUBMIT_KEYWORDS)):
            self.findings.note(
                "N302", f"submit.{key}", f"a submit has no keyword `{key}`; it is kept", self.source.span(words[key])
            )
            attrs[key] = self.value(words[key])
        if type_ is None:
            returns = self.signatures[callee].returns
            type_ = TupleType((*returns, _SCALARS[dtypes.TASK_ID]))
        return n.Submit(
            callee=callee,
            args=args,
            deps=self.exprs(words.get("deps")),
            dumps=self.exprs(words.get("dumps")),
            core_num=self.expr(words["core_num"]) if "core_num" in words else None,
            sync_start=self.flag(words.get("sync_start")),
            allow_early_resolve=self.flag(words.get("allow_early_resolve")),
            predicate=self.expr(words["predicate"]) if "predicate" in words else None,
            attrs=attrs,
            type=type_,
            span=self.source.span(node),
        )

    def exprs(self, node: ast.expr | None) -> tuple[n.Expr, ...]:
        """The entries of a list literal; one expression counts as a list of one."""
        if node is None:
            return ()
        if isinstance(node, (ast.List, ast.Tuple)):
            return tuple(self.expr(e) for e in node.elts)
        return (self.expr(node),)

    def flag(self, node: ast.expr | None) -> bool:
        if node is None:
            return False
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return node.value
        self.reject("E711", "a literal True or False belongs here", node)

    def _const(self, node: ast.Call, type_: Type | None) -> n.Expr:
        value = number(node.args[0]) if len(node.args) == 2 else None
        dtype = CONSTANTS.get(dotted(node.args[1])) if len(node.args) == 2 else None
        if value is None and len(node.args) == 2 and dotted(node.args[0]) in ("inf", "nan"):
            value = float(dotted(node.args[0]))
        if value is None or not isinstance(dtype, DType):
            self.reject("E711", "`pl.const` takes a number and a dtype", node)
        span = self.source.span(node)
        if dtype.is_float or isinstance(value, float):
            return n.ConstFloat(value=float(value), type=_SCALARS[dtype], span=span)
        return n.ConstInt(value=value, type=_SCALARS[dtype], span=span)

    def _cast(self, node: ast.Call, type_: Type | None) -> n.Expr:
        dtype = CONSTANTS.get(dotted(node.args[1])) if len(node.args) == 2 else None
        if not isinstance(dtype, DType):
            return self._op_call(node, "cast", type_)
        return n.Unary(op="Cast", operand=self.expr(node.args[0]), type=_SCALARS[dtype], span=self.source.span(node))

    def _min_max(self, node: ast.Call, type_: Type | None) -> n.Expr:
        if len(node.args) != 2 or node.keywords:
            self.reject("E711", "`pl.min` and `pl.max` take two scalars", node)
        op = "Min" if dotted(node.func) == "pl.min" else "Max"
        return self._make_binary(op, self.expr(node.args[0]), self.expr(node.args[1]), node)

    def _abs(self, node: ast.Call, type_: Type | None) -> n.Expr:
        if len(node.args) != 1:
            self.reject("E711", "`abs` takes one scalar", node)
        operand = self.expr(node.args[0])
        return n.Unary(op="Abs", operand=operand, type=operand.type, span=self.source.span(node))

    # --- values of keywords and attributes ---------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Any:
        """A keyword's value: a Python literal, a dtype, an enum member, else an expression."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Attribute):
            name = dotted(node)
            if name in CONSTANTS:
                return CONSTANTS[name]
            if name.startswith(("pl.", "pld.")):
                self.findings.note("N303", name, f"`{name}` is kept as it stands", self.source.span(node))
                return Verbatim(name)
        if isinstance(node, ast.UnaryOp):
            literal = number(node)
            if literal is not None:
                return literal
        return self.expr(node)

    def attr_value(self, node: ast.expr) -> Any:
        """A value of an `attrs={...}` entry: as :meth:`value`, lists included."""
        if isinstance(node, (ast.List, ast.Tuple)):
            return tuple([self.attr_value(e) for e in node.elts])
        if isinstance(node, ast.Dict):
            return self.attrs(node)
        return self.value(node)

    def attrs(self, node: ast.expr) -> dict[str, Any]:
        if not isinstance(node, ast.Dict):
            self.reject("E711", "a dictionary of attributes belongs here", node)
        found: dict[str, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                self.reject("E711", "attribute names are strings", key or node)
            found[key.value] = self.attr_value(value)
        return found

    # --- types -------------------------------------------------------------------------------------------------------

    def annotation(self, node: ast.expr) -> Type:
        """A type annotation. Raises Reject for what is none."""
        before, self.in_type = self.in_type, True
        try:
            return self._annotation(node)
        finally:
            self.in_type = before

    def _annotation(self, node: ast.expr) -> Type:
        if isinstance(node, ast.Subscript):
            head = dotted(node.value)
            read = _TYPES.get(head)
            if read is not None:
                parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                return read(self, parts, node)
        elif isinstance(node, ast.Attribute):
            head = dotted(node)
            if head == "pl.Ptr":
                return PTR
            if head in _HANDLE_NAMES:
                return HandleType(head)
            if head == "pl.UnknownType":
                return UNKNOWN
            dtype = CONSTANTS.get(head)
            if isinstance(dtype, DType):  # `x: pl.FP32`, a scalar in old text
                return _SCALARS[dtype]
        elif isinstance(node, ast.Call):
            read = _TYPES.get(dotted(node.func))
            if read is not None and not node.keywords:  # `pl.Tensor((d0, d1), dtype)`
                return read(self, node.args, node)
        hint = did_you_mean(dotted(node.value) if isinstance(node, ast.Subscript) else dotted(node), _TYPES)
        self.reject("E721", f"`{ast.unparse(node)[:80]}` is no type", node, hint)

    def _dims(self, node: ast.expr) -> tuple[n.Expr, ...]:
        if not isinstance(node, (ast.List, ast.Tuple)):
            self.reject("E721", "a shape is a list of dimensions", node, "write `[rows, columns]`")
        return tuple([self.expr(e) for e in node.elts])

    def _dtype(self, node: ast.expr) -> DType:
        found = CONSTANTS.get(dotted(node))
        if isinstance(found, DType):
            return found
        self.reject("E721", f"`{ast.unparse(node)[:60]}` is no dtype", node, did_you_mean(dotted(node)[3:], DTYPES))

    def _scalar_type(self, parts: Sequence[ast.expr], node: ast.expr) -> Type:
        if len(parts) != 1:
            self.reject("E721", "`pl.Scalar` takes one dtype", node)
        return _SCALARS[self._dtype(parts[0])]

    def _tensor_type(self, parts: Sequence[ast.expr], node: ast.expr, distributed: bool = False) -> Type:
        shape, dtype = self._shape_and_dtype(parts, node, "pl.Tensor")
        view: TensorView | None = None
        memref: MemRef | None = None
        window: str | None = None
        for part in parts[2:]:
            head = dotted(part.func) if isinstance(part, ast.Call) else ""
            if head == "pl.TensorView":
                view = self._tensor_view(part)  # type: ignore[arg-type]
            elif isinstance(part, ast.Attribute) and isinstance(CONSTANTS.get(dotted(part)), TensorLayout):
                view = TensorView(layout=CONSTANTS[dotted(part)])
            elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                window = part.value.removeprefix("window_buffer=")
            else:
                memref = self._memref(part)
        return TensorType(
            shape=shape, dtype=dtype, view=view, memref=memref, distributed=distributed, window_buffer=window
        )

    def _distributed_type(self, parts: Sequence[ast.expr], node: ast.expr) -> Type:
        return self._tensor_type(parts, node, distributed=True)

    def _tile_type(self, parts: Sequence[ast.expr], node: ast.expr) -> Type:
        shape, dtype = self._shape_and_dtype(parts, node, "pl.Tile")
        view: TileView | None = None
        memref: MemRef | None = None
        space: MemorySpace | None = None
        for part in parts[2:]:
            if isinstance(part, ast.Attribute):
                found = CONSTANTS.get(dotted(part))
                if not isinstance(found, MemorySpace):
                    self.reject("E721", f"`{dotted(part)}` is no memory space", part)
                space = found
            elif isinstance(part, ast.Call) and dotted(part.func) == "pl.TileView":
                view = self._tile_view(part)
            else:
                memref = self._memref(part)
        return TileType(shape=shape, dtype=dtype, view=view, memory_space=space, memref=memref)

    def _shape_and_dtype(
        self, parts: Sequence[ast.expr], node: ast.expr, head: str
    ) -> tuple[tuple[n.Expr, ...], DType]:
        if len(parts) < 2:
            missing = "a dtype" if parts and isinstance(parts[0], (ast.List, ast.Tuple)) else "a shape and a dtype"
            self.reject("E721", f"`{head}` lacks {missing}", node, f"write `{head}[[rows, columns], pl.FP32]`")
        return self._dims(parts[0]), self._dtype(parts[1])

    def _tensor_view(self, node: ast.Call) -> TensorView:
        fields: dict[str, Any] = {}
        for word in node.keywords:
            if word.arg in ("valid_shape", "stride"):
                fields[word.arg] = self._dims(word.value)
            elif word.arg in ("layout", "pad"):
                fields[word.arg] = self._member(word.value, TensorLayout if word.arg == "layout" else PadValue)
            else:
                self._unknown_view_field(word, "TensorView")
        return TensorView(**fields)

    def _tile_view(self, node: ast.Call) -> TileView:
        fields: dict[str, Any] = {}
        for word in node.keywords:
            key = word.arg
            if key in ("blayout", "slayout"):
                fields[key] = self._member(word.value, TileLayout)
            elif key in ("valid_shape", "stride"):
                fields[key] = self._dims(word.value)
            elif key == "fractal":
                fields[key] = self._int(word.value)
            elif key == "pad":
                fields[key] = self._member(word.value, PadValue)
            elif key == "compact":
                fields[key] = self._member(word.value, CompactMode)
            elif key == "start_offset":
                fields[key] = self.expr(word.value)
            else:
                self._unknown_view_field(word, "TileView")
        return TileView(**fields)

    def _unknown_view_field(self, word: ast.keyword, view: str) -> None:
        message = f"`{view}` has no field `{word.arg}`; it is dropped"
        self.findings.note("N302", f"{view}.{word.arg}", message, self.source.span(word))

    def _member(self, node: ast.expr, enum: type[Enum]) -> Any:
        found = CONSTANTS.get(dotted(node))
        if isinstance(found, enum):
            return found
        self.reject("E721", f"`{ast.unparse(node)[:60]}` is no {enum.__name__}", node)

    def _int(self, node: ast.expr) -> int:
        value = number(node)
        if type(value) is int:
            return value
        self.reject("E721", "an integer literal belongs here", node)

    def _memref(self, node: ast.expr) -> MemRef:
        """`pl.MemRef(...)`, `pl.MemRef(...)[k]`, a variable, or one of the old forms."""
        slot: n.Expr | None = None
        if isinstance(node, ast.Subscript):
            slot = self.expr(node.slice)
            node = node.value
        if isinstance(node, ast.Name):
            return MemRef(base=self._base(node), slot=slot)
        if not (isinstance(node, ast.Call) and dotted(node.func) == "pl.MemRef" and node.args):
            self.reject("E721", f"`{ast.unparse(node)[:60]}` is no part of a type", node)
        slots = next((self._int(w.value) for w in node.keywords if w.arg == "slots"), None)
        first = node.args[0]
        if isinstance(first, ast.Name):
            base: str | n.Expr = self._base(first)
        elif isinstance(first, ast.Constant) and isinstance(first.value, str):
            base = first.value
        else:
            self.findings.note("N305", "MemRef", _LEGACY_MEMREF_HINT, self.source.span(node))
            return MemRef(base=None, legacy=tuple(self.value(a) for a in node.args), slot=slot)
        if len(node.args) == 1:
            return MemRef(base=base, slots=slots, slot=slot, declared=True)
        if len(node.args) != 3:
            self.reject("E721", "`pl.MemRef` takes a base, an offset and a size", node)
        return MemRef(base=base, offset=self.expr(node.args[1]), size=self._int(node.args[2]), slots=slots, slot=slot)

    def _base(self, node: ast.Name) -> n.Var:
        var = self.names.visible.get(node.id) or self.names.retired.get(node.id)
        if var is None:  # an allocation of another function or of a text that was cut out
            var = n.Var(name=node.id, type=PTR, span=self.source.span(node))
            self.names.retired[node.id] = var
        return var

    def _array_type(self, parts: Sequence[ast.expr], node: ast.expr) -> Type:
        if len(parts) != 2:
            self.reject("E721", "`pl.Array` takes an extent and a dtype", node)
        return ArrayType(extent=self.expr(parts[0]), dtype=self._dtype(parts[1]))

    def _tuple_type(self, parts: Sequence[ast.expr], node: ast.expr) -> Type:
        if len(parts) == 1 and isinstance(parts[0], ast.Tuple) and not parts[0].elts:
            parts = []
        return TupleType(tuple(self._annotation(p) for p in parts))


def wider(left: Type, right: Type) -> Type:
    """The type of an arithmetic result: the wider operand, ties to the left (language.md 1.3)."""
    if left is right or not isinstance(right, ScalarType):
        return left
    if not isinstance(left, ScalarType):
        return right
    return right if right.dtype.bits > left.dtype.bits and left.dtype.is_float == right.dtype.is_float else left


def item_type(type_: Type, index: int) -> Type:
    if isinstance(type_, TupleType) and -len(type_.elements) <= index < len(type_.elements):
        return type_.elements[index]
    return UNKNOWN


_EXPRS: dict[type[ast.expr], Callable[[ExprReader, Any], n.Expr]] = {
    ast.Call: ExprReader.call,
    ast.BinOp: ExprReader._binary,
    ast.List: ExprReader._list,
    ast.Tuple: ExprReader._list,
    ast.Compare: ExprReader._compare,
    ast.BoolOp: ExprReader._bool,
    ast.UnaryOp: ExprReader._unary,
    ast.Subscript: ExprReader._subscript,
    ast.Attribute: ExprReader._attribute,
}
_CALLS: dict[str, Callable[[ExprReader, ast.Call, Type | None], n.Expr]] = {
    "pl.const": ExprReader._const,
    "pl.cast": ExprReader._cast,
    "pl.min": ExprReader._min_max,
    "pl.max": ExprReader._min_max,
    "abs": ExprReader._abs,
    "pl.submit": ExprReader._submit,
    "pl.spmd_submit": ExprReader._submit,
}
_TYPES: dict[str, Callable[[ExprReader, Sequence[ast.expr], ast.expr], Type]] = {
    "pl.Scalar": ExprReader._scalar_type,
    "pl.Tensor": ExprReader._tensor_type,
    "pld.DistributedTensor": ExprReader._distributed_type,
    "pl.DistributedTensor": ExprReader._distributed_type,
    "pl.Tile": ExprReader._tile_type,
    "pl.Array": ExprReader._array_type,
    "pl.Tuple": ExprReader._tuple_type,
    "tuple": ExprReader._tuple_type,
}
