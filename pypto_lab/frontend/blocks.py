"""Reading the nested statements of loops, branches and scopes, with the yield that ends them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from pypto_lab.frontend import statements
from pypto_lab.frontend.context import FunctionState, Yielded
from pypto_lab.frontend.names import BlockKind
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Label
from pypto_lab.ir.span import Span


def branch(state: FunctionState, nodes: Sequence[ast.stmt], dead: bool = False) -> tuple[n.Body, Yielded | None]:
    """A branch of an `if` and its yield. A `dead` branch, whose condition is a constant that never holds, may be
    written for other constants: when it makes no sense for these, it is left out."""
    if not dead:
        return _read(state, nodes, BlockKind.BRANCH, None)
    before, reported = state.names.snapshot(), len(state.reporter.errors)
    diagnostics = list(state.reporter.diagnostics)
    result = _read(state, nodes, BlockKind.BRANCH, None)
    if len(state.reporter.errors) == reported:
        return result
    state.reporter.diagnostics[:] = diagnostics
    state.names.bindings = before
    return (), None


def loop(state: FunctionState, nodes: Sequence[ast.stmt], span: Span | None) -> tuple[n.Body, Yielded | None]:
    """The body of a loop and its yield."""
    return _read(state, nodes, BlockKind.LOOP, span)


def scope(state: FunctionState, nodes: Sequence[ast.stmt], span: Span | None) -> n.Body:
    """The body of a scope: it runs once, so its names are those of the block around it."""
    with state.block(BlockKind.SCOPE, span) as body:
        statements.body(state, nodes)
    return tuple(body)


def _read(
    state: FunctionState, nodes: Sequence[ast.stmt], kind: BlockKind, span: Span | None
) -> tuple[n.Body, Yielded | None]:
    state.yields.append([])
    with state.block(kind, span) as body:
        statements.body(state, nodes)
    yields = state.yields.pop()
    _check_last(state, body, yields)
    return tuple(body), yields[-1] if yields else None


def _check_last(state: FunctionState, body: Sequence[n.Stmt], yields: Sequence[Yielded]) -> None:
    """E012: a block yields once, in its last statement."""
    if len(yields) > 1:
        labels = [Label(yields[0].span, "the first yield")]
        state.error("E012", "a block yields once", yields[1].span, labels=labels)
    elif yields and not isinstance(body[-1] if body else None, n.Yield):
        state.error("E012", "the yield is the last statement of its block", yields[0].span, hint="move it to the end")
