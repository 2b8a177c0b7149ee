"""Replacing scopes by calls: walks a body in single-assignment form, knowing for each scope what is read after it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from pypto_lab.ir import nodes as n
from pypto_lab.lowering.outlining import read_after

Replace = Callable[[n.Scope, set[n.Var]], n.Body | None]
"""Gets a scope and the variables read after it; gives what stands there instead, or None to look inside."""


def replace_scopes(body: n.Body, replace: Replace, outside: set[n.Var] | None = None) -> n.Body:
    """The body with every scope for which `replace` gives statements replaced by them, outermost first."""
    out: list[n.Stmt] = []
    changed = False
    for stmt, after in zip(body, read_after(body, outside or set()), strict=True):
        new = replace(stmt, after) if isinstance(stmt, n.Scope) else None
        if new is not None:
            out.extend(new)
            changed = True
            continue
        walked = _inside(stmt, replace, after)
        changed |= walked is not stmt
        out.append(walked)
    return tuple(out) if changed else body


def _inside(stmt: n.Stmt, replace: Replace, after: set[n.Var]) -> n.Stmt:
    changes: dict[str, Any] = {}
    parts: tuple[str, ...]
    match stmt:
        case n.If():
            parts = ("then_body", "else_body")
        case n.For() | n.While() | n.Scope():
            parts = ("body",)
        case _:
            return stmt
    for part in parts:
        old = getattr(stmt, part)
        new = replace_scopes(old, replace, after)
        if new is not old:
            changes[part] = new
    return dataclasses.replace(stmt, **changes) if changes else stmt
