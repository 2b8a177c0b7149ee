"""The language's own functions: typed constants, static prints and assertions, task ids, dimensions, dump tags."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from pypto_lab.frontend import calls, expressions, launches
from pypto_lab.frontend.context import FunctionState
from pypto_lab.frontend.invoke import invoke
from pypto_lab.frontend.missing import MISSING
from pypto_lab.frontend.typing import dim_text, type_text
from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import FunctionType
from pypto_lab.ir.types import ScalarType, ShapedType, TupleType


def task_invalid(state: FunctionState, node: ast.AST) -> n.Expr:
    """`None` where a task id is expected."""
    return n.OpCall(op="system.task_invalid", args=(), type=calls.TASK, span=state.span(node))


def _const(state: FunctionState, node: ast.Call) -> Any:
    arguments = [v for v, _ in calls.positional(state, node)] + [v for v, _ in calls.named(state, node).values()]
    number = calls.plain(arguments[0]) if arguments else None
    dtype = arguments[1] if len(arguments) > 1 else None
    if len(arguments) != 2 or not isinstance(number, (int, float)) or not isinstance(dtype, DType):
        state.fail("E314", "`pl.const` takes a number and a dtype", node, hint="pl.const(7, pl.INT64)")
    return n.const(number, dtype, state.span(node))


def _static_print(state: FunctionState, node: ast.Call) -> Any:
    shown = []
    for part in node.args:
        found = expressions.value(state, part)
        shown.append(found if isinstance(found, str) else f"{state.text.segment(part)} = {_shown(found)}")
    state.reporter.remark("N010", " ".join(shown), state.span(node))
    return None


def _shown(found: Any) -> str:
    if isinstance(found, n.Expr):
        if isinstance(found, n.MakeTuple):
            return "[" + ", ".join(_shown(e) for e in found.elements) + "]"
        if isinstance(found, (n.ConstInt, n.ConstFloat, n.ConstBool)):
            return str(found.value)
        return f"{dim_text(found)}: {type_text(found.type)}"
    return f"{type(found).__name__}.{found.name}" if isinstance(found, Enum) else str(found)


def _static_assert(state: FunctionState, node: ast.Call) -> Any:
    if not node.args:
        state.fail(
            "E314", "`pl.static_assert` takes a condition", node, hint='pl.static_assert(ROWS % 16 == 0, "rows")'
        )
    test = node.args[0]
    try:
        holds = static_truth(state, test)
    except (TypeError, ArithmeticError) as error:
        state.fail("E021", f"the condition cannot be evaluated: {error}", test)
    if holds is MISSING:
        state.fail(
            "E021", "a static assertion holds constants only", test, hint="check run-time values outside the kernel"
        )
    if not holds:
        message = "static assertion failed: " + state.text.segment(test)
        if len(node.args) > 1 and isinstance(text := expressions.value(state, node.args[1]), str):
            message = f"static assertion failed: {text}"
        state.error("E021", message, test, note=_operands(state, test))
    return None


def static_truth(state: FunctionState, test: ast.expr, run_time: bool = True) -> Any:
    """The truth of a condition on constants, MISSING when it depends on more. `run_time` also looks into kernel values
    that are constant (extents)."""
    match test:
        case ast.Compare() if len(test.ops) == 1 and type(test.ops[0]) in _FOLDED:
            left = _static(state, test.left, run_time)
            right = _static(state, test.comparators[0], run_time)
            return MISSING if left is MISSING or right is MISSING else _FOLDED[type(test.ops[0])](left, right)
        case ast.BoolOp():
            parts = [static_truth(state, v, run_time) for v in test.values]
            if any(p is MISSING for p in parts):
                return MISSING
            return all(parts) if isinstance(test.op, ast.And) else any(parts)
        case ast.UnaryOp(op=ast.Not()):
            inner = static_truth(state, test.operand, run_time)
            return MISSING if inner is MISSING else not inner
    return _static(state, test, run_time)


_FOLDED: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}


def _static(state: FunctionState, node: ast.expr, run_time: bool = True) -> Any:
    """A Python value, or a kernel expression that is constant (an extent)."""
    found = state.python_value(node)
    if found is not MISSING or not run_time:
        return found
    result = calls.plain(expressions.value(state, node))
    if isinstance(result, n.Expr):
        value = arith.constant(result) if isinstance(result.type, ScalarType) else None
        return MISSING if value is None else value
    return result


def _operands(state: FunctionState, test: ast.expr) -> str:
    parts = []
    for part in ast.walk(test):
        if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript)):
            found = _static(state, part)
            if found is not MISSING and isinstance(found, (int, float, bool, str, list, tuple)):
                parts.append(f"{state.text.segment(part)} = {found!r}")
    return ", ".join(dict.fromkeys(parts))


def _task_dummy(state: FunctionState, node: ast.Call) -> Any:
    deps = launches.dependencies(state, node)
    listed = n.MakeTuple(elements=deps, type=TupleType(tuple(d.type for d in deps)), span=state.span(node))
    kwargs: dict[str, Any] = {"deps": listed} if deps else {}
    return n.OpCall(op="system.task_dummy", args=(), kwargs=kwargs, type=calls.TASK, span=state.span(node))


def _task_invalid(state: FunctionState, node: ast.Call) -> Any:
    return task_invalid(state, node)


def _dim(state: FunctionState, node: ast.Call) -> Any:
    """`pl.tensor.dim(x, i)`: the symbol or constant itself where no core asks for it (2.9, rule 8)."""
    arguments, keywords = calls.positional(state, node), calls.named(state, node)
    ordered = [*arguments, *(keywords[k] for k in ("tensor", "axis") if k in keywords)]
    result = invoke(state, node, "pl.tensor.dim", arguments, keywords, name_node=node.func)
    if len(ordered) != 2 or not isinstance(ordered[0][0], n.Expr):
        return result
    type_, axis = ordered[0][0].type, arith.constant(ordered[1][0])
    if not isinstance(type_, ShapedType) or axis is None:
        return result
    if not -type_.rank <= axis < type_.rank:
        state.fail(
            "E320", f"axis {axis} of a tensor of rank {type_.rank}", ordered[1][1], hint=f"0 to {type_.rank - 1}"
        )
    if state.func_type in (FunctionType.Orchestration, FunctionType.Opaque, FunctionType.Inline):
        return type_.shape[axis]
    return result


def _no_dep_outside(state: FunctionState, node: ast.Call) -> Any:
    state.fail("E022", "`pl.no_dep` wraps an argument of a kernel call", node, hint="self.k(pl.no_dep(x), y)")


def _dump_tag(state: FunctionState, node: ast.Call) -> Any:
    arguments = calls.positional(state, node)
    if len(arguments) != 1 or not isinstance(arguments[0][0], n.Var):
        state.fail("E314", "`pl.dump_tag` takes one tensor by name", node, hint="pl.dump_tag(x)")
    tagged = state.attrs.setdefault("_dump_vars", [])
    tagged.append(arguments[0][0])
    return None


FORMS: dict[str, Callable[[FunctionState, ast.Call], Any]] = {
    "pl.const": _const,
    "pl.static_print": _static_print,
    "pl.static_assert": _static_assert,
    "pl.system.task_dummy": _task_dummy,
    "pl.system.task_invalid": _task_invalid,
    "pl.dim": _dim,
    "pl.tensor.dim": _dim,
    "pl.no_dep": _no_dep_outside,
    "pl.tensor.no_dep": _no_dep_outside,
    "pl.dump_tag": _dump_tag,
    "pl.tensor.dump_tag": _dump_tag,
    "pl.submit": launches.submit,
    "pl.spmd_submit": launches.submit,
}
