"""Walking and rewriting: `children` of a node, `walk` in source order, a `Rewriter` that rebuilds what changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from pypto_lab.ir import nodes as n
from pypto_lab.ir.types import ArrayType, MemRef, ShapedType, TupleType, Type


def children(node: Any) -> Iterator[Any]:
    """Direct sub-nodes (expressions, statements, params) in source order; types are not entered."""
    match node:
        case n.Program():
            yield from node.functions.values()
        case n.Function():
            yield from node.params
            yield from node.body or ()
        case n.Param():
            yield node.var
        case n.IterArg():
            yield node.init_value
        case n.Var() | n.ConstInt() | n.ConstFloat() | n.ConstBool():
            return
        case n.MakeTuple():
            yield from node.elements
        case n.TupleGetItem():
            yield node.tuple
        case n.Binary():
            yield node.left
            yield node.right
        case n.Unary():
            yield node.operand
        case n.OpCall():
            yield from node.args
            yield from (v for v in node.kwargs.values() if isinstance(v, n.Expr))
        case n.FunctionCall():
            yield from node.args
        case n.Submit():
            yield from node.args
            yield from node.deps
            yield from (e for e in (node.core_num, node.predicate) if e is not None)
        case n.Assign():
            yield node.value
            yield node.var
        case n.Eval():
            yield node.expr
        case n.If():
            yield node.condition
            yield from node.then_body
            yield from node.else_body
            yield from node.return_vars
        case n.For():
            yield from (node.start, node.stop, node.step)
            yield from node.iter_args
            yield node.loop_var
            yield from node.body
            yield from node.return_vars
        case n.While():
            yield from node.iter_args
            yield node.condition
            yield from node.body
            yield from node.return_vars
        case n.Yield() | n.Return():
            yield from node.values
        case n.Scope():
            if isinstance(node, n.SpmdScope):
                yield node.core_num
            for value in node.attrs.values():
                values = value if isinstance(value, (list, tuple)) else (value,)
                yield from (e for e in values if isinstance(e, n.Expr))
            yield from node.body


def walk(node: Any) -> Iterator[Any]:
    """The node and everything below it, depth first, in source order."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(list(children(current))))


def walk_with_types(node: Any) -> Iterator[Any]:
    """As :func:`walk`, and what stands in the types of variables: extents and valid extents, strides, offsets."""
    for found in walk(node):
        yield found
        if isinstance(found, n.Var):
            for part in type_exprs(found.type):
                yield from walk(part)


def type_exprs(type_: Type) -> Iterator[n.Expr]:
    """Expressions inside a type: dimensions, valid shape, strides, memref offset."""
    if isinstance(type_, ShapedType):
        yield from type_.shape
        view = getattr(type_, "view", None)
        if view is not None:
            yield from view.valid_shape or ()
            yield from view.stride or ()
            start = getattr(view, "start_offset", None)
            if start is not None:
                yield start
        memref: MemRef | None = getattr(type_, "memref", None)
        if memref is not None:
            yield from (e for e in (memref.base, memref.offset, memref.slot) if isinstance(e, n.Expr))
    elif isinstance(type_, ArrayType):
        yield type_.extent
    elif isinstance(type_, TupleType):
        for element in type_.elements:
            yield from type_exprs(element)


class Rewriter:
    """Rebuilds a tree bottom-up. Override `expr` or `stmt` (they get a node whose children are already rewritten);
    `stmt` may return one statement, a tuple of statements, or () to delete. Unchanged nodes are shared.

    Variables that are replaced through `self.vars` (old Var -> new Expr) are replaced at their uses and, where the
    replacement is a Var, at their definitions; types are rewritten through `type`.
    """

    def __init__(self) -> None:
        self.vars: dict[n.Var, n.Expr] = {}

    # hooks
    def expr(self, node: n.Expr) -> n.Expr:
        return node

    def stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        return node

    def type(self, type_: Type) -> Type:
        """Rewrites the expressions inside a type (dimensions and views)."""
        return map_type(type_, self.visit_expr) if self.vars else type_

    # machinery
    def visit_expr(self, node: n.Expr) -> n.Expr:
        if isinstance(node, n.Var):
            return self.expr(self.vars.get(node, node))
        changes: dict[str, Any] = {}
        for f in _expr_fields(type(node)):
            old = getattr(node, f)
            new = self._value(old)
            if new is not old:
                changes[f] = new
        new_type = self.type(node.type)
        if new_type is not node.type:
            changes["type"] = new_type
        return self.expr(dataclasses.replace(node, **changes) if changes else node)

    def _value(self, value: Any) -> Any:
        if isinstance(value, n.Expr):
            return self.visit_expr(value)
        if isinstance(value, tuple) and any(isinstance(v, (n.Expr, tuple)) for v in value):
            new = tuple(self._value(v) for v in value)
            return new if any(a is not b for a, b in zip(new, value, strict=True)) else value
        if isinstance(value, dict) and any(isinstance(v, (n.Expr, list, tuple)) for v in value.values()):
            new_map = {k: self._value(v) for k, v in value.items()}
            return new_map if any(new_map[k] is not value[k] for k in value) else value
        if isinstance(value, list) and any(isinstance(v, n.Expr) for v in value):
            new_list = [self._value(v) for v in value]
            return new_list if any(a is not b for a, b in zip(new_list, value, strict=True)) else value
        return value

    def define(self, var: Any) -> Any:
        """The variable a definition defines after the rewrite."""
        if var is None:
            return None
        if var in self.vars:
            new = self.vars[var]
            return new if isinstance(new, n.Var) else var
        changes: dict[str, Any] = {}
        new_type = self.type(var.type)
        if new_type is not var.type:
            changes["type"] = new_type
        if isinstance(var, n.IterArg):
            init = self.visit_expr(var.init_value)
            if init is not var.init_value:
                changes["init_value"] = init
        if not changes:
            return var
        new_var = dataclasses.replace(var, **changes)
        self.vars[var] = new_var
        return new_var

    def visit_body(self, body: n.Body) -> n.Body:
        out: list[n.Stmt] = []
        changed = False
        for stmt in body:
            new = self.visit_stmt(stmt)
            if isinstance(new, tuple):
                out.extend(new)
                changed = True
            else:
                out.append(new)
                changed |= new is not stmt
        return tuple(out) if changed else body

    def visit_stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        changes: dict[str, Any] = {}

        def put(name: str, visit: Callable[[Any], Any]) -> None:
            old = getattr(node, name)
            new = visit(old)
            if new is not old:
                changes[name] = new

        def defines(vars_: tuple[Any, ...]) -> tuple[Any, ...]:
            new = tuple(self.define(v) for v in vars_)
            return new if any(a is not b for a, b in zip(new, vars_, strict=True)) else vars_

        match node:
            case n.Assign():
                put("value", self.visit_expr)
                put("var", self.define)
            case n.Eval():
                put("expr", self.visit_expr)
            case n.If():
                put("condition", self.visit_expr)
                put("then_body", self.visit_body)
                put("else_body", self.visit_body)
                put("return_vars", defines)
            case n.For():
                for name in ("start", "stop", "step"):
                    put(name, self.visit_expr)
                put("iter_args", defines)
                put("loop_var", self.define)
                put("body", self.visit_body)
                put("return_vars", defines)
            case n.While():
                put("iter_args", defines)
                put("condition", self.visit_expr)
                put("body", self.visit_body)
                put("return_vars", defines)
            case n.Yield() | n.Return():
                put("values", self._value)
            case n.Scope():
                if isinstance(node, n.SpmdScope):
                    put("core_num", self.visit_expr)
                    put("loop_var", self.define)
                if isinstance(node, n.SplitAivScope):
                    put("lane_var", self.define)
                put("task_id", self.define)
                put("attrs", self._value)
                put("body", self.visit_body)
        return self.stmt(dataclasses.replace(node, **changes) if changes else node)

    def visit_function(self, function: n.Function) -> n.Function:
        params = tuple(
            p if (v := self.define(p.var)) is p.var else dataclasses.replace(p, var=v) for p in function.params
        )
        body = None if function.body is None else self.visit_body(function.body)
        returns = tuple(self.type(t) for t in function.return_types)
        same = all(a is b for a, b in zip(params, function.params, strict=True)) and body is function.body
        if same and all(a is b for a, b in zip(returns, function.return_types, strict=True)):
            return function
        return dataclasses.replace(function, params=params, body=body, return_types=returns)

    def visit_program(self, program: n.Program) -> n.Program:
        functions = {name: self.visit_function(f) for name, f in program.functions.items()}
        if all(functions[name] is f for name, f in program.functions.items()):
            return program
        return dataclasses.replace(program, functions=functions)


_FIELDS: dict[type, tuple[str, ...]] = {}


def _expr_fields(cls: type) -> tuple[str, ...]:
    """Fields of an expression class that may hold sub-expressions; a launch names its blocks in its attributes."""
    if cls not in _FIELDS:
        _FIELDS[cls] = tuple(f.name for f in dataclasses.fields(cls) if f.name not in ("type", "span"))
    return _FIELDS[cls]


def map_type(type_: Type, visit: Callable[[n.Expr], n.Expr]) -> Type:
    """The type with `visit` applied to each dimension, valid extent, stride and memref part."""

    def dims(values: tuple[n.Expr, ...] | None) -> tuple[n.Expr, ...] | None:
        if values is None:
            return None
        new = tuple(visit(v) for v in values)
        return new if any(a is not b for a, b in zip(new, values, strict=True)) else values

    if isinstance(type_, TupleType):
        elements = tuple(map_type(e, visit) for e in type_.elements)
        same = all(a is b for a, b in zip(elements, type_.elements, strict=True))
        return type_ if same else TupleType(elements)
    if isinstance(type_, ArrayType):
        extent = visit(type_.extent)
        return type_ if extent is type_.extent else dataclasses.replace(type_, extent=extent)
    if not isinstance(type_, ShapedType):
        return type_
    changes: dict[str, Any] = {}
    if (shape := dims(type_.shape)) is not type_.shape:
        changes["shape"] = shape
    view = getattr(type_, "view", None)
    if view is not None:
        parts: dict[str, Any] = {}
        for name in ("valid_shape", "stride"):
            if (new_dims := dims(getattr(view, name))) is not getattr(view, name):
                parts[name] = new_dims
        start = getattr(view, "start_offset", None)
        if start is not None and (new_start := visit(start)) is not start:
            parts["start_offset"] = new_start
        if parts:
            changes["view"] = dataclasses.replace(view, **parts)
    memref = getattr(type_, "memref", None)
    if memref is not None:
        refs: dict[str, Any] = {}
        for name in ("base", "offset", "slot"):
            old = getattr(memref, name)
            if isinstance(old, n.Expr) and (new_part := visit(old)) is not old:
                refs[name] = new_part
        if refs:
            changes["memref"] = dataclasses.replace(memref, **refs)
    return dataclasses.replace(type_, **changes) if changes else type_
