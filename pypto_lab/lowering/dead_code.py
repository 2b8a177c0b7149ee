"""Removing what a body computes for nobody: unread values, and loop arguments that only carry themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from pypto_lab.ir import nodes as n
from pypto_lab.ir.types import ScalarType
from pypto_lab.lowering.uses import reads, vars_of
from pypto_lab.ops.record import OPS, Effect

EFFECTS = (
    "tile.store", "tile.mscatter", "tensor.write", "tensor.assemble", "tile.tpush_to_aiv", "tile.tpush_to_aic",
    "tile.tpop_from_aic", "tile.tpop_from_aiv", "tile.write", "system.reserve_buffer", "system.import_peer_buffer",
)  # fmt: skip
"""Ops that matter even when nobody reads their result."""


def has_effect(value: n.Expr) -> bool:
    """Whether evaluating a value does something besides giving it."""
    if isinstance(value, (n.FunctionCall, n.Submit)):
        return True
    if not isinstance(value, n.OpCall):
        return False
    op = OPS.get(value.op)
    writes = op is None or any(a.effect in (Effect.WRITE, Effect.READ_WRITE) for a in op.args)
    return writes or value.op in EFFECTS or value.op.startswith("system.")


def without_dead_code(body: n.Body) -> n.Body:
    """The body without dead bindings, until none is left."""
    while True:
        new = _swept(body, _live(body))
        if new == body:
            return body
        body = new


def without_dead_scalars(body: n.Body) -> n.Body:
    """The body without scalars that nobody reads, those that loops carry and branches join included; what a call
    gives stays, the call may have an effect."""
    new = _swept(body, _live(body, _stays))
    return body if new == body else new


def _stays(var: n.Var, value: n.Expr | None) -> bool:
    """Whether a definition is no scalar that can go: `value` is what it is assigned, None for a result."""
    calls = (n.OpCall, n.FunctionCall, n.Submit)
    return not isinstance(var.type, ScalarType) or isinstance(value, calls)


def _never(var: n.Var, value: n.Expr | None) -> bool:
    return False


def _live(body: n.Body, stays: Callable[[n.Var, n.Expr | None], bool] = _never) -> set[n.Var]:
    """Variables that matter: read by an effect, a return, a condition, or by what computes one that matters; `stays`
    says which definitions matter in any case."""
    needs: dict[n.Var, set[n.Var]] = {}
    roots: set[n.Var] = set()

    def visit(stmts: Iterable[n.Stmt], into: tuple[n.Var, ...]) -> None:
        for stmt in stmts:
            match stmt:
                case n.Assign() if not has_effect(stmt.value):
                    if stays(stmt.var, stmt.value):
                        roots.add(stmt.var)
                    needs.setdefault(stmt.var, set()).update(reads(stmt))
                case n.Yield() if into:
                    for var, value in zip(into, stmt.values, strict=False):
                        needs.setdefault(var, set()).update(vars_of(value))
                case n.For() | n.While():
                    bounds = (stmt.start, stmt.stop, stmt.step) if isinstance(stmt, n.For) else (stmt.condition,)
                    for bound in bounds:
                        roots.update(vars_of(bound))
                    for argument, result in zip(stmt.iter_args, stmt.return_vars, strict=True):
                        needs.setdefault(argument, set()).update({*vars_of(argument.init_value), result})
                        needs.setdefault(result, set()).add(argument)
                        if stays(result, None):
                            roots.add(result)
                    visit(stmt.body, stmt.return_vars)
                case n.If():
                    roots.update(vars_of(stmt.condition))
                    roots.update(v for v in stmt.return_vars if stays(v, None))
                    visit(stmt.then_body, stmt.return_vars)
                    visit(stmt.else_body, stmt.return_vars)
                case n.Scope():
                    roots.update(reads(stmt))
                    visit(stmt.body, into)
                case _:
                    roots.update(reads(stmt))

    visit(body, ())
    live: set[n.Var] = set()
    stack = list(roots)
    while stack:
        var = stack.pop()
        if var not in live:
            live.add(var)
            stack.extend(needs.get(var, ()))
    return live


def _swept(body: n.Body, live: set[n.Var], keep: tuple[bool, ...] = ()) -> n.Body:
    """The body with what is not live left out; `keep` says which values of its final yield stay."""
    out: list[n.Stmt] = []
    for stmt in body:
        match stmt:
            case n.Assign() if stmt.var not in live and not has_effect(stmt.value):
                continue
            case n.Yield() if keep:
                values = tuple(v for v, kept in zip(stmt.values, keep, strict=False) if kept)
                if values:
                    out.append(stmt if len(values) == len(stmt.values) else dataclasses.replace(stmt, values=values))
                continue
            case n.For() | n.While():
                out.append(_swept_loop(stmt, live))
            case n.If():
                kept = tuple(v in live for v in stmt.return_vars)
                then, other = (_swept(b, live, kept) for b in (stmt.then_body, stmt.else_body))
                results = tuple(v for v in stmt.return_vars if v in live)
                if then or other or results:
                    same = then == stmt.then_body and other == stmt.else_body
                    new = dataclasses.replace(stmt, then_body=then, else_body=other, return_vars=results)
                    out.append(stmt if same else new)
                continue
            case n.Scope():
                inner = _swept(stmt.body, live, keep)
                out.append(stmt if inner == stmt.body else dataclasses.replace(stmt, body=inner))
                continue
            case _:
                out.append(stmt)
        last = out[-1]
        if isinstance(last, n.For) and not last.body and not last.return_vars:
            out.pop()
    return tuple(out)


def _swept_loop(loop: n.For | n.While, live: set[n.Var]) -> n.Stmt:
    keep = tuple(a in live for a in loop.iter_args)
    body = _swept(loop.body, live, keep)
    if all(keep) and body == loop.body:
        return loop
    arguments = tuple(a for a, kept in zip(loop.iter_args, keep, strict=True) if kept)
    results = tuple(r for r, kept in zip(loop.return_vars, keep, strict=True) if kept)
    return dataclasses.replace(loop, body=body, iter_args=arguments, return_vars=results)
