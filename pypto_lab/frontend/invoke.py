"""Calling an operation from the reader: dispatch, and its refusal turned into a diagnostic."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from pypto_lab.frontend.context import FunctionState
from pypto_lab.frontend.report import Abandoned
from pypto_lab.ir import nodes as n
from pypto_lab.ops.calling import Actual, Call, DispatchError
from pypto_lab.ops.dispatch import dispatch

Argument = tuple[Any, ast.AST]


def invoke(
    state: FunctionState,
    node: ast.AST,
    path: str,
    arguments: Sequence[Argument],
    keywords: Mapping[str, Argument] | None = None,
    attrs: Mapping[str, Any] | None = None,
    name_node: ast.AST | None = None,
) -> n.Expr:
    """The expression of a call by its dotted spelling. Raises Abandoned after reporting."""
    call = Call(
        path,
        tuple(Actual(value, state.span(where)) for value, where in arguments),
        {name: Actual(value, state.span(where)) for name, (value, where) in (keywords or {}).items()},
        state.span(node),
        state.span(name_node) if name_node is not None else None,
        state.lane_split,
        attrs or {},
    )
    try:
        return dispatch(call)
    except DispatchError as error:
        state.reporter.add(error.diagnostic)
        raise Abandoned from None
