"""Definitions and uses of variables in structured code: what a body defines, reads and needs from outside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pypto_lab.ir import nodes as n
from pypto_lab.ir.types import Type
from pypto_lab.ir.visitor import children, type_exprs, walk


def definitions(stmt: n.Stmt) -> Iterator[n.Var]:
    """Variables a statement itself defines, those of nested statements not included."""
    match stmt:
        case n.Assign():
            yield stmt.var
        case n.For():
            yield stmt.loop_var
            yield from stmt.iter_args
            yield from stmt.return_vars
        case n.While():
            yield from stmt.iter_args
            yield from stmt.return_vars
        case n.If():
            yield from stmt.return_vars
        case n.Scope():
            if stmt.task_id is not None:
                yield stmt.task_id
            if isinstance(stmt, n.SpmdScope) and stmt.loop_var is not None:
                yield stmt.loop_var
            if isinstance(stmt, n.SplitAivScope):
                yield stmt.lane_var


def statements(body: Iterable[n.Stmt]) -> Iterator[n.Stmt]:
    """Every statement of a body and below, in source order."""
    for stmt in body:
        yield stmt
        yield from statements(sub_body(stmt))


def sub_body(stmt: n.Stmt) -> n.Body:
    """The statements directly inside a statement, branches one after the other."""
    match stmt:
        case n.If():
            return stmt.then_body + stmt.else_body
        case n.For() | n.While() | n.Scope():
            return stmt.body
    return ()


def defined_in(body: Iterable[n.Stmt]) -> dict[n.Var, n.Stmt]:
    """Every variable a body defines at any depth, with its (last) defining statement, in source order."""
    return {var: stmt for stmt in statements(body) for var in definitions(stmt)}


def expressions(stmt: n.Stmt) -> Iterator[n.Expr]:
    """Expressions a statement itself evaluates, in order; nested statements not included."""
    match stmt:
        case n.Assign():
            yield stmt.value
        case n.Eval():
            yield stmt.expr
        case n.If():
            yield stmt.condition
        case n.For():
            yield from (stmt.start, stmt.stop, stmt.step)
            yield from (a.init_value for a in stmt.iter_args)
        case n.While():
            yield from (a.init_value for a in stmt.iter_args)
            yield stmt.condition
        case n.Yield() | n.Return():
            yield from stmt.values
        case n.Scope():
            if isinstance(stmt, n.SpmdScope):
                yield stmt.core_num
            for value in stmt.attrs.values():
                yield from (e for e in _listed(value) if isinstance(e, n.Expr))


def _listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, (list, tuple)) else (value,)


def vars_of(expr: n.Expr) -> Iterator[n.Var]:
    """Variables an expression reads, dimensions of its types included, in order of first sight; with repeats."""
    stack: list[n.Expr] = [expr]
    while stack:
        current = stack.pop()
        if isinstance(current, n.Var):
            yield current
            continue
        stack.extend(reversed([*children(current), *_attributes(current), *type_exprs(current.type)]))


def _attributes(expr: n.Expr) -> Iterator[n.Expr]:
    """Expressions that a call names besides its arguments: the number of blocks it launches, lists of tasks."""
    if isinstance(expr, (n.FunctionCall, n.Submit)):
        for value in expr.attrs.values():
            yield from (e for e in _listed(value) if isinstance(e, n.Expr))
    elif isinstance(expr, n.OpCall) and expr.kwargs:
        for value in expr.kwargs.values():
            if isinstance(value, (list, tuple)):
                yield from (e for e in value if isinstance(e, n.Expr))


def type_vars(type_: Type) -> Iterator[n.Var]:
    """Variables the dimensions, valid shape, strides and memory reference of a type mention."""
    for expr in type_exprs(type_):
        yield from vars_of(expr)


def reads(stmt: n.Stmt) -> Iterator[n.Var]:
    """Variables a statement itself reads: in its expressions and in the types of what it defines."""
    for expr in expressions(stmt):
        yield from vars_of(expr)
    for var in definitions(stmt):
        yield from type_vars(var.type)


def read_in(body: Iterable[n.Stmt]) -> dict[n.Var, None]:
    """Variables read at any depth, in order of first read."""
    return {var: None for stmt in statements(body) for var in reads(stmt)}


def exposed(body: Iterable[n.Stmt]) -> set[n.Var]:
    """Variables whose value from before a body may be read in it: read before the body surely assigns them. For code
    that is not yet in single-assignment form."""
    return _exposed(body)[0]


def exposed_after(body: Sequence[n.Stmt]) -> list[set[n.Var]]:
    """For each statement of a body, what is :func:`exposed` by the statements after it; one walk for all of them."""
    result: list[set[n.Var]] = []
    later: set[n.Var] = set()
    for stmt in reversed(body):
        result.append(later)
        found, assigned = _exposed_by(stmt)
        later = found | (later - assigned)
    return result[::-1]


def _exposed(body: Iterable[n.Stmt]) -> tuple[set[n.Var], set[n.Var]]:
    """(variables read before they are surely assigned, variables surely assigned)."""
    found: set[n.Var] = set()
    assigned: set[n.Var] = set()
    for stmt in body:
        read, bound = _exposed_by(stmt)
        found |= read - assigned
        assigned |= bound
    return found, assigned


def _exposed_by(stmt: n.Stmt) -> tuple[set[n.Var], set[n.Var]]:
    """:func:`_exposed` of one statement."""
    own = set(definitions(stmt))
    found, assigned = set(reads(stmt)), set(own)
    match stmt:
        case n.If():
            then, other = (_exposed(arm) for arm in (stmt.then_body, stmt.else_body))
            found |= then[0] | other[0]
            assigned |= then[1] & other[1]
        case n.Scope():
            inner = _exposed(stmt.body)
            found |= inner[0] - own
            assigned |= inner[1]
        case n.For() | n.While():
            found |= _exposed(stmt.body)[0] - own
    return found, assigned


def live_in(body: Iterable[n.Stmt]) -> list[n.Var]:
    """Variables a body reads but does not define, in order of first read."""
    stmts = list(body)
    inner = defined_in(stmts)
    return [v for v in read_in(stmts) if v not in inner]


def use_counts(node: n.Function | Iterable[n.Stmt]) -> dict[n.Var, int]:
    """How often each variable is read."""
    body = (node.body or ()) if isinstance(node, n.Function) else node
    counts: dict[n.Var, int] = {}
    for stmt in statements(body):
        for var in reads(stmt):
            counts[var] = counts.get(var, 0) + 1
    return counts


def calls_in(node: Any) -> Iterator[n.FunctionCall | n.Submit]:
    """Calls and submits of program functions below a node."""
    return (e for e in walk(node) if isinstance(e, (n.FunctionCall, n.Submit)))
