"""Expressions of a kernel body: names, constants, operators; calls and subscripts have modules of their own."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from pypto_lab.frontend import calls, special, subscripts
from pypto_lab.frontend.context import FunctionState
from pypto_lab.frontend.kernels import DimArithmetic, DimExpression, DynamicDim, Unresolved, dsl_name, source_of
from pypto_lab.frontend.members import RUNTIME, is_value_path, member, unknown_member
from pypto_lab.frontend.missing import MISSING
from pypto_lab.frontend.report import Abandoned
from pypto_lab.frontend.typing import kind_name
from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Label, OpError, did_you_mean
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import FunctionType
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import ScalarType, ShapedType, TupleType
from pypto_lab.ops import scalars

_OPERATORS: Mapping[type[ast.operator], str] = {
    ast.Add: "Add",
    ast.Sub: "Sub",
    ast.Mult: "Mul",
    ast.Div: "FloatDiv",
    ast.FloorDiv: "FloorDiv",
    ast.Mod: "FloorMod",
    ast.LShift: "BitShiftLeft",
    ast.RShift: "BitShiftRight",
}
_COMPARISONS: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "Eq",
    ast.NotEq: "Ne",
    ast.Lt: "Lt",
    ast.LtE: "Le",
    ast.Gt: "Gt",
    ast.GtE: "Ge",
}
_TENSOR_HINTS: Mapping[str, str] = {
    "+": "pl.add(a, b)",
    "-": "pl.sub(a, b)",
    "*": "pl.mul(a, b)",
    "/": "pl.div(a, b)",
    "@": "pl.matmul(a, b)",
    "<<": "pl.shl(a, b)",
    ">>": "pl.shr(a, b)",
    "&": "pl.and_(a, b)",
    "|": "pl.or_(a, b)",
    "^": "pl.xor(a, b)",
    "%": "pl.fmod(a, b)",
    "unary -": "pl.neg(a)",
}
_SIGNS: Mapping[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.MatMult: "@",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}
_FORBIDDEN: Mapping[type[ast.expr], tuple[str, str]] = {
    ast.JoinedStr: ("an f-string", "kernels compute no text; use pl.static_print to look at a value"),
    ast.Lambda: ("a lambda", "write a function with @pl.inline"),
    ast.IfExp: ("a conditional expression", "write `if condition: x = a` / `else: x = b`"),
    ast.NamedExpr: ("an assignment expression", "assign on a line of its own"),
    ast.Dict: ("a dict", "dicts are known only in `attrs={...}`"),
    ast.Set: ("a set", "use a list"),
    ast.Await: ("await", "kernels have no coroutines"),
    ast.Yield: ("yield", "`v = pl.yield_(x)` names the result of a loop or branch"),
    ast.YieldFrom: ("yield", "`v = pl.yield_(x)` names the result of a loop or branch"),
    ast.Starred: ("an unpacked argument", "write the arguments one by one"),
}


def expression(state: FunctionState, node: ast.expr) -> n.Expr:
    """The IR of an expression; after a mistake an expression of unknown type."""
    try:
        return _as_expr(state, node, _value(state, node))
    except Abandoned:
        return state.unknown(node)


def value(state: FunctionState, node: ast.expr) -> Any:
    """What a call argument is: an IR expression, a dtype, an enum member, a string, None, or a tuple of these."""
    try:
        return _value(state, node)
    except Abandoned:
        return state.unknown(node)


def condition(state: FunctionState, node: ast.expr) -> n.Expr:
    """A BOOL scalar. Anything else is reported (E109)."""
    result = expression(state, node)
    if isinstance(result.type, ScalarType) and result.type.dtype.name == "BOOL":
        return result
    if isinstance(result.type, ScalarType):
        text = state.text.segment(node)
        hint = f"write `{text} != 0`" if len(text) <= 40 else "compare it: `... != 0`"
        message = f"a condition is BOOL, this is {result.type.dtype.name}"
        state.error("E109", message, node, hint=hint)
    elif isinstance(result.type, ShapedType):
        message = f"a condition is a BOOL scalar, this is a {kind_name(result.type)}"
        state.error("E109", message, node, hint="read one element: pl.read(x, [i]) > 0")
    return result


def dimensions(state: FunctionState, node: ast.expr) -> tuple[n.Expr, ...] | None:
    """The elements of a list of integer scalars, None (reported by the caller) when it is no list."""
    result = expression(state, node)
    return result.elements if isinstance(result, n.MakeTuple) else None


# --- one expression ---------------------------------------------------------------------------------------------------


def _value(state: FunctionState, node: ast.expr) -> Any:
    match node:
        case ast.Constant():
            return _constant(state, node)
        case ast.Name():
            return _name(state, node)
        case ast.Attribute():
            return _attribute(state, node)
        case ast.Call():
            return calls.call(state, node)
        case ast.Subscript():
            return _subscript(state, node)
        case ast.BinOp():
            return _binary(state, node)
        case ast.UnaryOp():
            return _unary(state, node)
        case ast.Compare():
            return _comparison(state, node)
        case ast.BoolOp():
            return _logic(state, node)
        case ast.List() | ast.Tuple():
            return _sequence(state, node)
        case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
            hint = "unroll it: `for i in pl.unroll(4): ...`; only `deps=[...]` takes a comprehension"
            state.fail("E005", "a comprehension is not part of the kernel language", node, hint=hint)
    forbidden: tuple[str, str | None] = _FORBIDDEN.get(type(node)) or (f"`{type(node).__name__}`", None)
    what, advice = forbidden
    state.fail("E002", f"{what} is not part of the kernel language", node, hint=advice)


def _as_expr(state: FunctionState, node: ast.expr, found: Any) -> n.Expr:
    """An expression out of a value. Dtypes, strings and enum members are no expressions by themselves."""
    if isinstance(found, n.Expr):
        return found
    if found is None:
        return special.task_invalid(state, node)
    if isinstance(found, (DType, Enum, str)) or found is RUNTIME:
        what = {DType: "a dtype", str: "a string"}.get(type(found), "an enum member")
        state.fail("E002", f"{what} is only known as an argument", node)
    if isinstance(found, tuple):
        state.fail("E002", "this list holds something that is no number", node)
    return unsupported(state, node, found)


def _constant(state: FunctionState, node: ast.Constant) -> Any:
    if isinstance(node.value, (bool, int, float)):
        return n.const(node.value, span=state.span(node))
    if node.value is None or isinstance(node.value, str):
        return node.value
    state.fail("E002", f"a {type(node.value).__name__} literal is not part of the kernel language", node)


def _name(state: FunctionState, node: ast.Name) -> Any:
    if node.id in state.constants:
        return from_python(state, state.constants[node.id], node)
    binding = state.names.get(node.id)
    if binding is not None:
        return _variable(state, node, binding.var)
    found = state.environment.lookup(node.id)
    if found is MISSING or (node.id == "self" and dsl_name(found) is None):
        return undefined(state, node)
    return from_python(state, found, node)


def _variable(state: FunctionState, node: ast.Name, var: n.Var) -> n.Expr:
    binding = state.names.get(node.id)
    if binding is not None and binding.clash is not None:
        other, span = binding.clash
        labels = [Label(s, f"here it is {_short(v)}") for v, s in ((other, span), (var, binding.span)) if s]
        message = f"`{node.id}` is another thing in each branch"
        state.fail("E108", message, node, labels=labels, hint="give both branches a value of one type")
    return var


def _short(var: n.Var) -> str:
    from pypto_lab.frontend.typing import type_text

    return f"`{type_text(var.type)}`"


def undefined(state: FunctionState, node: ast.Name) -> n.Expr:
    """E202 with where the name was, or the nearest names."""
    gone = state.names.gone.get(node.id)
    if gone is not None:
        labels = [Label(gone.span, "it was made here")] if gone.span is not None else []
        state.fail("E202", f"`{node.id}` is not visible here: {gone.reason}", node, labels=labels)
    hint = did_you_mean(node.id, [*state.names.visible(), *state.environment.names()])
    state.fail("E202", f"`{node.id}` is not defined", node, hint=hint)


def unsupported(state: FunctionState, node: ast.expr, found: Any) -> n.Expr:
    """E205: a Python value that means nothing in a kernel."""
    kind = type(found)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    if source_of(found) is not None:
        state.fail("E205", f"`{state.text.segment(node)}` is a kernel; call it", node)
    if callable(found):
        hint = "mark it with @pl.inline, so that its body becomes part of the kernel"
        state.fail("E205", f"`{state.text.segment(node)}` is a Python function", node, hint=hint)
    hint = "kernels use ints, floats, bools, and lists or tuples of them"
    if hasattr(found, "shape") and hasattr(found, "dtype"):
        hint = "pass tensors and arrays as parameters of the kernel"
    state.fail("E205", f"`{state.text.segment(node)}` is a Python `{name}`", node, hint=hint)


def unresolved(state: FunctionState, name: str, node: ast.expr, reason: str) -> n.Expr:
    """E207: a Python name without a value; what is made of it is unknown. Raises Abandoned."""
    state.report_unresolved(name, node, reason)
    raise Abandoned


def from_python(state: FunctionState, found: Any, node: ast.expr) -> Any:
    """What a Python value is in a kernel: a constant, a list, a symbol, a dtype, an enum member."""
    span = state.span(node)
    found = _plain_number(found)
    match found:
        case bool() | int() | float():
            return n.const(found, span=span)
        case n.Expr() | DType() | Enum() | str() | None:
            return found
        case list() | tuple():
            return _joined([from_python(state, item, node) for item in found], span)
        case DimArithmetic():
            return dim_expression(state, found, span)
    if found is RUNTIME:
        return found
    if isinstance(found, Unresolved):
        return unresolved(state, found.name, node, found.reason)
    name = dsl_name(found)
    if name is not None:
        return _dsl_value(state, node, name)
    return unsupported(state, node, found)


def _plain_number(found: Any) -> Any:
    """NumPy's scalars as Python numbers."""
    if type(found).__module__ == "numpy" and hasattr(found, "item") and getattr(found, "shape", None) == ():
        return found.item()
    return found


def dim_expression(state: FunctionState, dim: Any, span: Span | None, in_type: bool = False) -> n.Expr:
    """A dynamic dimension as IR. In a jit body a symbol is read from the tensor that carries it."""
    match dim:
        case DynamicDim():
            return _symbol(state, dim.name, span, in_type)
        case DimExpression():
            left, right = (dim_expression(state, d, span, in_type) for d in (dim.left, dim.right))
            return scalars.binary(dim.op, left, right, span)
    return n.const(int(dim), span=span)


def _symbol(state: FunctionState, name: str, span: Span | None, in_type: bool) -> n.Expr:
    symbol = state.program.symbol(name, span)
    place = state.dynamic_params.get(name)
    if in_type or not state.is_jit or place is None or state.func_type is not FunctionType.InCore:
        return symbol
    carrier = state.params[place[0]].var
    return n.OpCall(op="tensor.dim", args=(carrier, n.const(place[1])), type=n.INDEX, span=span)


def _joined(items: Sequence[Any], span: Span | None) -> Any:
    """A list of expressions is a MakeTuple; a list of other values stays a Python tuple."""
    if all(isinstance(i, n.Expr) for i in items):
        return n.MakeTuple(elements=tuple(items), type=TupleType(tuple(i.type for i in items)), span=span)
    return tuple(items)


def _sequence(state: FunctionState, node: ast.List | ast.Tuple) -> Any:
    return _joined([value(state, e) for e in node.elts], state.span(node))


# --- attributes -------------------------------------------------------------------------------------------------------


def _attribute(state: FunctionState, node: ast.Attribute) -> Any:
    path = state.path(node)
    if path is not None:
        return _dsl_value(state, node, path)
    found = state.python_value(node)
    if found is not MISSING:
        return from_python(state, found, node)
    if isinstance(node.value, ast.Name) and node.value.id not in state.names:
        base = state.environment.lookup(node.value.id)
        if base is MISSING:
            return undefined(state, node.value)
        hint = did_you_mean(node.attr, dir(base))
        state.fail("E202", f"`{node.value.id}` has no `{node.attr}`", node, hint=hint)
    return _tensor_attribute(state, node)


def _tensor_attribute(state: FunctionState, node: ast.Attribute) -> Any:
    base = expression(state, node.value)
    if isinstance(base.type, ShapedType):
        if node.attr == "shape":
            return _joined(list(base.type.shape), state.span(node))
        if node.attr == "dtype":
            return base.type.dtype
    if not isinstance(base.type, (ShapedType, ScalarType, TupleType)):
        raise Abandoned
    hint = "the extent of an axis is pl.tensor.dim(x, axis)" if node.attr in ("size", "shape", "ndim") else None
    state.fail("E002", f"a {kind_name(base.type)} has no attribute `{node.attr}`", node, hint=hint)


def _dsl_value(state: FunctionState, node: ast.expr, path: str) -> Any:
    found = member(path)
    if found is not MISSING:
        return (
            n.const(found, span=state.span(node)) if isinstance(found, int) and not isinstance(found, Enum) else found
        )
    if is_value_path(path):
        message, hint = unknown_member(path)
        state.fail("E201", message, node, hint=hint)
    state.fail("E002", f"`{path}` is no value; call it", node)


# --- operators --------------------------------------------------------------------------------------------------------


def _subscript(state: FunctionState, node: ast.Subscript) -> Any:
    found = state.python_value(node)
    if found is not MISSING:
        return from_python(state, found, node)
    return subscripts.read(state, node)


def _binary(state: FunctionState, node: ast.BinOp) -> Any:
    folded = state.python_value(node)
    if folded is not MISSING:
        return from_python(state, folded, node)
    sign = _SIGNS[type(node.op)]
    left, right = expression(state, node.left), expression(state, node.right)
    _scalars_only(state, node, sign, left, right)
    op = _OPERATORS.get(type(node.op))
    if op is None:
        hint = "operators on scalars are + - * / // % << >>"
        state.fail("E003", f"the operator `{sign}` is not part of the kernel language", node, hint=hint)
    return _checked(state, node, (node.left, node.right), lambda: scalars.binary(op, left, right, state.span(node)))


def _scalars_only(state: FunctionState, node: ast.expr, sign: str, *operands: n.Expr) -> None:
    """E311 for a Python operator on tensors or tiles."""
    odd = next((o for o in operands if isinstance(o.type, ShapedType)), None)
    if odd is None:
        return
    hint = f"write `{_TENSOR_HINTS[sign]}`" if sign in _TENSOR_HINTS else None
    if hint is None and sign in ("==", "!=", "<", "<=", ">", ">="):
        hint = "compare element by element: `pl.cmp(a, b, cmp_type=...)`; one element: `pl.read(x, [i])`"
    message = f"the operator `{sign.removeprefix('unary ')}` works on scalars, this is a {kind_name(odd.type)}"
    state.fail("E311", message, node, hint=hint)


def _checked(state: FunctionState, node: ast.expr, operands: Sequence[ast.expr], build: Callable[[], n.Expr]) -> n.Expr:
    """The result of `build`, its OpError reported at the operand at fault."""
    try:
        return build()
    except OpError as error:
        where = operands[error.argument] if isinstance(error.argument, int) else node
        state.fail(error.code, error.message, where, hint=error.hint)


def _unary(state: FunctionState, node: ast.UnaryOp) -> Any:
    if not isinstance(node.op, ast.Not):
        folded = state.python_value(node)
        if folded is not MISSING:
            return from_python(state, folded, node)
    operand = expression(state, node.operand)
    sign = {ast.USub: "unary -", ast.UAdd: "unary +", ast.Invert: "~", ast.Not: "not"}[type(node.op)]
    _scalars_only(state, node, sign, operand)
    if isinstance(node.op, ast.UAdd):
        return operand
    op = {ast.USub: "Neg", ast.Invert: "BitNot", ast.Not: "Not"}[type(node.op)]
    if op == "Not" and isinstance(operand, n.ConstBool):
        return n.const(not operand.value, span=state.span(node))
    return _checked(state, node, (node.operand,), lambda: scalars.unary(op, operand, state.span(node)))


def _comparison(state: FunctionState, node: ast.Compare) -> n.Expr:
    if len(node.ops) > 1:
        parts = [node.left, *node.comparators]
        pairs = zip(parts, node.ops, parts[1:], strict=False)
        joined = " and ".join(f"{state.text.segment(a)} {_SIGNS[type(o)]} {state.text.segment(b)}" for a, o, b in pairs)
        state.fail("E003", "comparisons are not chained in kernels", node, hint=f"write `{joined}`")
    op = _COMPARISONS.get(type(node.ops[0]))
    sign = _SIGNS[type(node.ops[0])]
    if op is None:
        state.fail(
            "E003", f"the operator `{sign}` is not part of the kernel language", node, hint="compare with == or !="
        )
    other = node.comparators[0]
    left, right = expression(state, node.left), expression(state, other)
    _scalars_only(state, node, sign, left, right)
    return _checked(state, node, (node.left, other), lambda: scalars.binary(op, left, right, state.span(node)))


def _logic(state: FunctionState, node: ast.BoolOp) -> n.Expr:
    op = "And" if isinstance(node.op, ast.And) else "Or"
    result = condition(state, node.values[0])
    for part in node.values[1:]:
        right = condition(state, part)
        joined = result
        if isinstance(joined.type, ScalarType) and isinstance(right.type, ScalarType):
            result = n.Binary(op=op, left=joined, right=right, type=n.BOOL, span=state.span(node))
    return result


def constant_int(expr: n.Expr) -> int | None:
    """The value of a constant integer expression."""
    return arith.constant(expr) if isinstance(expr.type, ScalarType) and expr.type.dtype.is_integer else None
