"""`@pl.inline` functions: their body becomes part of the caller at the call (`reference/language.md` 2.9)."""

from __future__ import annotations

import ast
import dataclasses
from typing import Any

from pypto_lab.frontend import expressions, statements
from pypto_lab.frontend.context import FunctionState
from pypto_lab.frontend.environment import Environment
from pypto_lab.frontend.kernels import KernelSource
from pypto_lab.frontend.names import Binding, BlockKind
from pypto_lab.frontend.report import Abandoned
from pypto_lab.frontend.text import Located, SourceUnavailable, locate_function
from pypto_lab.ir import nodes as n
from pypto_lab.ir.types import TupleType


def expand(state: FunctionState, node: ast.Call, kernel: KernelSource) -> Any:
    """The value of an inline call; its statements are emitted into the caller. Raises Abandoned after reporting."""
    located = _located(state, node, kernel)
    function = located.node
    names = [a.arg for a in function.args.args]
    if kernel.name in state.inlined:
        state.fail("E336", f"`{kernel.name}` calls itself", node, hint="kernels cannot recurse; write a loop")
    if node.keywords:
        hint = f"`{kernel.name}({', '.join(names)})`"
        state.fail("E336", "an inline function takes its arguments by position", node.keywords[0].value, hint=hint)
    if len(node.args) != len(names):
        hint = f"`{kernel.name}({', '.join(names)})`"
        state.fail("E330", f"`{kernel.name}` takes {len(names)} arguments, got {len(node.args)}", node, hint=hint)
    values = [expressions.value(state, a) for a in node.args]
    inner = _callee_state(state, kernel, located)
    return _spliced(state, inner, node, function, dict(zip(names, values, strict=True)))


def _located(state: FunctionState, node: ast.AST, kernel: KernelSource) -> Located:
    try:
        located = locate_function(kernel.function)
    except SourceUnavailable as error:
        state.fail("E007", str(error), node)
    state.reporter.sources.setdefault(located.text.file, located.whole)
    return located


def _callee_state(state: FunctionState, kernel: KernelSource, located: Located) -> FunctionState:
    """The caller's state with the callee's text and Python names; the caller's Python names are the fallback."""
    own = Environment.of(kernel.function, kernel.closure)
    environment = Environment(
        {**state.environment.closure, **own.closure}, {**state.environment.globals, **own.globals}
    )
    return dataclasses.replace(
        state,
        text=located.text,
        environment=environment,
        constants=dict(state.constants),
        returns=[],
        comment_line=located.node.lineno,
        inlined=(*state.inlined, kernel.name),
    )


def _spliced(
    state: FunctionState, inner: FunctionState, node: ast.Call, function: ast.FunctionDef, formals: dict[str, Any]
) -> Any:
    before = state.names.snapshot()
    rebound = set(statements.assigned_names(function.body)) | _written_names(function)
    for name, value in formals.items():
        _bind_formal(state, inner, node, name, value, copied=name in rebound)
    with state.names.inside(BlockKind.SCOPE, state.span(node)):
        statements.body(inner, function.body)
    _restore(state, before, formals)
    return _result(state, inner, node, function)


def _written_names(function: ast.FunctionDef) -> set[str]:
    """Names that the body writes by subscript: that re-binds them too."""
    return {
        part.value.id
        for part in ast.walk(function)
        if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store) and isinstance(part.value, ast.Name)
    }


def _bind_formal(
    state: FunctionState, inner: FunctionState, node: ast.Call, name: str, value: Any, copied: bool
) -> None:
    """A formal stands for the argument's value. One that the body re-binds is a variable of its own, so that the
    caller's name keeps its meaning."""
    span = state.span(node)
    inner.constants.pop(name, None)
    if not isinstance(value, n.Expr):
        inner.constants[name] = value
        return
    if isinstance(value, (n.ConstInt, n.ConstFloat, n.ConstBool)) and not copied:
        inner.constants[name] = value.value
        return
    if isinstance(value, n.Var) and not copied:
        state.names.declare(name, value, span)
        return
    var = state.names.temporary(name, value.type, span)
    state.emit(n.Assign(var=var, value=value, span=span))
    state.names.declare(name, var, span)


def _restore(state: FunctionState, before: dict[str, Binding], formals: dict[str, Any]) -> None:
    """Formals end with the call; the callee's other names stay visible."""
    for name in formals:
        if name in before:
            state.names.bindings[name] = before[name]
        else:
            state.names.forget(name, "it is a parameter of an inline function")


def _result(state: FunctionState, inner: FunctionState, node: ast.Call, function: ast.FunctionDef) -> Any:
    last = function.body[-1] if function.body else None
    if not inner.returns:
        if state.reporter.errors:
            raise Abandoned
        message = f"the inline function `{function.name}` returns nothing"
        state.fail("E336", message, node, hint="end it in `return value`")
    if len(inner.returns) > 1 or not isinstance(last, ast.Return):
        where = inner.returns[0][1]
        state.fail("E336", "an inline function returns once, in its last statement", where, hint="return at the end")
    values = inner.returns[0][0]
    if len(values) == 1:
        return values[0]
    return n.MakeTuple(elements=values, type=TupleType(tuple(v.type for v in values)), span=state.span(node))
