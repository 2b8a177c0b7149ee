"""Statements of a kernel body: assignments, calls, `if`, `return`; loops and scopes have modules of their own."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Sequence
from typing import Any

from pypto_lab.frontend import blocks, calls, expressions, loops, scopes, special, subscripts, type_forms
from pypto_lab.frontend.context import FunctionState, Yielded
from pypto_lab.frontend.missing import MISSING
from pypto_lab.frontend.names import Binding, BlockKind, Rebinding, TypeChanged
from pypto_lab.frontend.report import Abandoned
from pypto_lab.frontend.typing import Mismatch, dims_text, is_known, kind_name, mismatch, type_text
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Label
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import Direction
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import UNKNOWN, ScalarType, ShapedType, TensorType, TileType, TupleType, Type

_FORBIDDEN: dict[type[ast.stmt], tuple[str, str]] = {
    ast.FunctionDef: ("a nested function", "define it outside with @pl.inline or @pl.jit.inline and call it"),
    ast.AsyncFunctionDef: ("a nested function", "define it outside with @pl.inline and call it"),
    ast.ClassDef: ("a class", "define it outside the kernel"),
    ast.Import: ("an import", "import at the top of the file"),
    ast.ImportFrom: ("an import", "import at the top of the file"),
    ast.Try: ("try", "kernels have no exceptions"),
    ast.Assert: ("assert", "check constants with pl.static_assert(condition, 'text')"),
    ast.Delete: ("del", "leave it out: storage is freed by the compiler"),
    ast.Global: ("global", "pass the value as a parameter"),
    ast.Nonlocal: ("nonlocal", "pass the value as a parameter"),
    ast.Raise: ("raise", "kernels have no exceptions"),
    ast.Match: ("match", "write `if` / `else`"),
    ast.AsyncFor: ("async for", "for i in pl.range(n):"),
    ast.AsyncWith: ("async with", "with pl.at(level=pl.Level.CORE_GROUP):"),
}
_AUGMENTED = {
    ast.Add: ("+", "add"),
    ast.Sub: ("-", "sub"),
    ast.Mult: ("*", "mul"),
    ast.Div: ("/", "div"),
    ast.FloorDiv: ("//", None),
    ast.Mod: ("%", "fmod"),
    ast.Pow: ("**", None),
    ast.LShift: ("<<", "shl"),
    ast.RShift: (">>", "shr"),
    ast.BitAnd: ("&", "and_"),
    ast.BitOr: ("|", "or_"),
    ast.BitXor: ("^", "xor"),
    ast.MatMult: ("@", "matmul"),
}


def body(state: FunctionState, nodes: Sequence[ast.stmt]) -> None:
    """Reads statements one after the other into the present block; a mistake ends its statement only."""
    for node in nodes:
        first = len(state.body)
        comments = _comments(state, node)
        try:
            statement(state, node)
        except Abandoned:
            _recover(state, node)
        if comments and len(state.body) > first:
            leading = (*comments, *state.body[first].leading_comments)
            state.body[first] = dataclasses.replace(state.body[first], leading_comments=leading)


def _comments(state: FunctionState, node: ast.stmt) -> tuple[str, ...]:
    """The comment lines above a statement."""
    found = state.text.between(state.comment_line + 1, node.lineno - 1)
    state.comment_line = node.lineno if _has_block(node) else (node.end_lineno or node.lineno)
    return found


def _has_block(node: ast.stmt) -> bool:
    return isinstance(node, (ast.For, ast.While, ast.If, ast.With))


def _recover(state: FunctionState, node: ast.stmt) -> None:
    """Gives the targets of a failed statement an unknown type, so that their uses are not reported again."""
    for name in assigned_names([node]):
        known = state.names.get(name)
        if known is None or not isinstance(known.var.type, ShapedType):
            state.names.declare(name, n.Var(name=name, type=UNKNOWN, span=state.span(node)), state.span(node))


def assigned_names(nodes: Sequence[ast.stmt]) -> list[str]:
    """Names that statements bind, in order of first appearance."""
    found: dict[str, None] = {}
    for node in nodes:
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                found[part.id] = None
    return list(found)


def statement(state: FunctionState, node: ast.stmt) -> None:
    match node:
        case ast.Assign():
            _assign(state, node)
        case ast.AnnAssign():
            _annotated(state, node)
        case ast.Expr():
            _expression(state, node)
        case ast.For():
            loops.for_loop(state, node)
        case ast.While():
            loops.while_loop(state, node)
        case ast.If():
            _if(state, node)
        case ast.With():
            scopes.with_scope(state, node)
        case ast.Return():
            _return(state, node)
        case ast.Break() | ast.Continue():
            _leave_loop(state, node)
        case ast.Pass():
            return
        case ast.AugAssign():
            _augmented(state, node)
        case _:
            what, hint = _FORBIDDEN.get(type(node), (f"`{type(node).__name__}`", None))
            state.fail("E001", f"{what} is not part of the kernel language", _header(node), hint=hint)


def _header(node: ast.stmt) -> ast.AST:
    """The first line of a compound statement, so that its whole body is not underlined."""
    if not getattr(node, "body", None):
        return node
    head = ast.Pass(lineno=node.lineno, col_offset=node.col_offset)
    head.end_lineno, head.end_col_offset = node.lineno, node.col_offset + 3
    return head


def _augmented(state: FunctionState, node: ast.AugAssign) -> None:
    sign, name = _AUGMENTED[type(node.op)]
    target, operand = state.text.segment(node.target), state.text.segment(node.value)
    known = state.names.get(node.target.id) if isinstance(node.target, ast.Name) else None
    shaped = isinstance(node.target, ast.Subscript) or (known is not None and isinstance(known.var.type, ShapedType))
    line = f"{target} = pl.{name}({target}, {operand})" if shaped and name else f"{target} = {target} {sign} {operand}"
    state.fail("E001", f"`{sign}=` is not part of the kernel language", node, hint=f"write `{line}`")


# --- assignments ------------------------------------------------------------------------------------------------------


def _assign(state: FunctionState, node: ast.Assign) -> None:
    if len(node.targets) > 1:
        hint = "write one assignment for each name"
        state.fail("E001", "an assignment to several targets is not part of the kernel language", node, hint=hint)
    target = node.targets[0]
    if is_yield(state, node.value):
        _yield(state, target, node.value)
        return
    match target:
        case ast.Name():
            _assign_name(state, target, _right_side(state, node.value), node)
        case ast.Tuple() | ast.List():
            _unpack(state, target, node)
        case ast.Subscript():
            value = expressions.expression(state, node.value)
            name, new = subscripts.write(state, target, value, node.value)
            bind(state, name, new, node, Rebinding.SAME)
        case _:
            hint = "assign to a plain name"
            state.fail("E006", f"`{state.text.segment(target)}` cannot be assigned", target, hint=hint)


def _right_side(state: FunctionState, node: ast.expr) -> n.Expr:
    if isinstance(node, ast.Call) and state.path(node.func) in ("pl.submit", "pl.spmd_submit"):
        return calls.call(state, node)  # type: ignore[no-any-return]
    return expressions.expression(state, node)


def _assign_name(state: FunctionState, target: ast.Name, value: n.Expr, node: ast.stmt) -> None:
    _check_type_known(state, target.id, value, node)
    param = state.params.get(target.id)
    if param is not None and param.direction is not Direction.In:
        state.rebound.append((target.id, value, state.span(node)))
    bind(state, target.id, value, node, Rebinding.PLAIN)


def _check_type_known(state: FunctionState, name: str, value: n.Expr, node: ast.stmt) -> None:
    """E112 when nothing states the type and no mistake explains it."""
    silent = isinstance(value, n.Var) and value.name == "_unknown"
    if is_known(value.type) or silent or state.reporter.errors:
        return
    hint = f"annotate it, e.g. `{name}: pl.Tile[[16, 64], pl.FP32, pl.Mem.Vec] = ...`"
    state.error("E112", f"the type of `{name}` is not known", node, hint=hint)


def bind(state: FunctionState, name: str, value: n.Expr, node: ast.AST, how: Rebinding) -> n.Var:
    """Emits `name = value`. A changed type (E107) and a second assignment under strict_ssa (E204) are reported."""
    span = state.span(node)
    previous = state.names.get(name)
    if state.strict_ssa and previous is not None:
        labels = [Label(previous.span, "assigned here")] if previous.span is not None else []
        hint = f"give it a new name, e.g. `{name}_1`"
        state.fail("E204", f"`{name}` is assigned a second time under strict_ssa", node, labels=labels, hint=hint)
    try:
        var = state.names.assign(name, value.type, span, how)
    except TypeChanged as change:
        _type_changed(state, name, value, node, change.previous)
    state.emit(n.Assign(var=var, value=value, span=span))
    return var


def _type_changed(state: FunctionState, name: str, value: n.Expr, node: ast.AST, previous: Binding) -> None:
    labels = []
    if previous.span is not None:
        labels.append(Label(previous.span, f"here it is `{type_text(previous.var.type)}`"))
    message = f"`{name}` changes its type to `{type_text(value.type)}`"
    state.fail("E107", message, node, labels=labels, hint=f"use a new name, e.g. `{name}_new`")


def _annotated(state: FunctionState, node: ast.AnnAssign) -> None:
    if not isinstance(node.target, ast.Name):
        state.fail("E006", "only a name can be annotated", node.target, hint="leave the annotation out")
    if node.value is None:
        state.fail("E001", "a name is declared by its first value", node, hint=f"{node.target.id}: ... = value")
    stated = _stated_type(state, node.annotation)
    if is_yield(state, node.value):
        _yield(state, node.target, node.value, stated)
        return
    value = _right_side(state, node.value)
    if stated is not None:
        value = annotated_value(state, value, stated, node)
    _assign_name(state, node.target, value, node)


def _stated_type(state: FunctionState, node: ast.expr) -> Type | None:
    """The annotation's type, None after a mistake in it (the value's own type then counts)."""
    try:
        return type_forms.type_of(state, node)
    except Abandoned:
        return None


def annotated_value(state: FunctionState, value: n.Expr, stated: Type, node: ast.AnnAssign) -> n.Expr:
    """The value under its annotation: checked against the inferred type, whose view and memory the annotation
    overrides where it states them. A bare literal takes the annotated integer dtype."""
    if isinstance(stated, ScalarType):
        return _annotated_scalar(state, value, stated, node)
    found = value.type
    if not is_known(found):
        return dataclasses.replace(value, type=stated) if not isinstance(value, n.Var) else value
    if _trusted_window(value, stated):
        return dataclasses.replace(value, type=_overridden(found, stated, stated))
    difference = mismatch(stated, found)
    if difference is not None:
        _annotation_mismatch(state, stated, found, difference, node)
        return value
    merged = _overridden(found, stated, found)
    return value if merged is found or isinstance(value, n.Var) else dataclasses.replace(value, type=merged)


def _annotated_scalar(state: FunctionState, value: n.Expr, stated: ScalarType, node: ast.AnnAssign) -> n.Expr:
    if isinstance(value, n.ConstInt) and stated.dtype.is_integer:
        return n.const(value.value, stated.dtype, value.span)
    if isinstance(value, n.ConstFloat) and stated.dtype.is_float:
        return n.const(value.value, stated.dtype, value.span)
    difference = mismatch(stated, value.type)
    if difference is not None:
        _annotation_mismatch(state, stated, value.type, difference, node)
        return value
    if (
        isinstance(value.type, ScalarType)
        and value.type.dtype != stated.dtype
        and _is_narrowing(value.type.dtype, stated.dtype)
    ):
        return n.Unary(op="Cast", operand=value, type=stated, span=value.span)
    if not is_known(value.type) and not isinstance(value, n.Var):
        return dataclasses.replace(value, type=stated)
    return value


def _is_narrowing(found: DType, stated: DType) -> bool:
    """An INDEX value under an annotation of another width: a cast makes both agree."""
    return found.bits != stated.bits


def _trusted_window(value: n.Expr, stated: Type) -> bool:
    """A two-dimensional annotation over a load of more axes is believed (the form after pass 14)."""
    if not (isinstance(value, n.OpCall) and value.op in ("tile.load", "tile.create")):
        return False
    return isinstance(stated, TileType) and isinstance(value.type, TileType) and stated.rank == 2 < value.type.rank


def _overridden(found: Type, stated: Type, base: Type) -> Type:
    """`base` with what the annotation states of view, memory space and memory reference."""
    changes: dict[str, Any] = {}
    for name in ("view", "memory_space", "memref"):
        said = getattr(stated, name, None)
        if said is not None:
            changes[name] = said
        elif base is not found and getattr(found, name, None) is not None:
            changes[name] = getattr(found, name)
    if not changes or not isinstance(base, (TensorType, TileType)):
        return base
    return dataclasses.replace(base, **changes)


def _annotation_mismatch(
    state: FunctionState, stated: Type, found: Type, difference: Mismatch, node: ast.AnnAssign
) -> None:
    assert node.value is not None
    labels = [Label(state.span(node.value), f"this gives `{type_text(found)}`")]
    hint = f"write `{type_text(found)}`, or drop the annotation"
    if difference.aspect in ("rank", "shape"):
        where = f" on axis {difference.axis}" if difference.axis is not None else ""
        left = dims_text(stated.shape) if isinstance(stated, ShapedType) else type_text(stated)
        right = dims_text(found.shape) if isinstance(found, ShapedType) else type_text(found)
        message = f"the annotation says {left}, the value has {right}{where}"
        state.error("E105", message, node.annotation, labels=labels, hint=hint)
        return
    if difference.aspect == "kind" and {kind_name(stated), kind_name(found)} == {"Tensor", "Tile"}:
        way = "pl.load brings a tensor to the core as a tile, pl.store brings it back"
        state.error("E106", _says(stated, found), node.annotation, labels=labels, hint=hint, note=way)
        return
    state.error("E106", _says(stated, found), node.annotation, labels=labels, hint=hint)


def _says(stated: Type, found: Type) -> str:
    return f"the annotation says `{type_text(stated)}`, the value is `{type_text(found)}`"


# --- unpacking --------------------------------------------------------------------------------------------------------


def _unpack(state: FunctionState, target: ast.Tuple | ast.List, node: ast.Assign) -> None:
    """`a, b = call(...)`: one temporary, then one element each; `(a, b), tid = pl.submit(...)` nests."""
    value = _right_side(state, node.value)
    if not is_known(value.type):
        raise Abandoned
    if isinstance(value, n.MakeTuple) and not isinstance(node.value, ast.Call):
        _unpack_display(state, target, value, node)
        return
    if not isinstance(value.type, TupleType):
        message = f"this is one {kind_name(value.type)}, the left side names {len(target.elts)}"
        state.fail("E333" if isinstance(value, n.Submit) else "E006", message, node, hint="name one result")
    names = _target_names(state, target, value, node)
    if isinstance(value, n.MakeTuple):  # several results of an inline function
        for name, element in zip(names, value.elements, strict=True):
            _bind_element(state, name, element)
        return
    temporary = state.names.temporary("_tuple_tmp", value.type, state.span(node))
    state.emit(n.Assign(var=temporary, value=value, span=state.span(node)))
    for index, name in enumerate(names):
        item = n.TupleGetItem(
            tuple=temporary, index=index, type=value.type.elements[index], span=state.span(node.value)
        )
        _bind_element(state, name, item)


def _bind_element(state: FunctionState, name: ast.Name, value: n.Expr) -> None:
    if name.id in state.params and state.params[name.id].direction is not Direction.In:
        state.rebound.append((name.id, value, state.span(name)))
    bind(state, name.id, value, name, Rebinding.SAME)


def _target_names(
    state: FunctionState, target: ast.Tuple | ast.List, value: n.Expr, node: ast.Assign
) -> list[ast.Name]:
    assert isinstance(value.type, TupleType)
    parts: list[ast.expr] = []
    for element in target.elts:
        nested = isinstance(element, (ast.Tuple, ast.List)) and isinstance(value, n.Submit)
        parts.extend(element.elts if nested and isinstance(element, (ast.Tuple, ast.List)) else [element])
    wanted = len(value.type.elements)
    if len(parts) != wanted:
        expected = ", ".join(f"`{type_text(t)}`" for t in value.type.elements)
        code = "E333" if isinstance(value, n.Submit) else "E006"
        hint = f"the results are {expected}"
        state.fail(code, f"{len(parts)} names for {wanted} results", target, hint=hint)
    names: list[ast.Name] = []
    for part in parts:
        if not isinstance(part, ast.Name):
            state.fail("E006", f"`{state.text.segment(part)}` cannot be unpacked into", part, hint="unpack into names")
        names.append(part)
    return names


def _unpack_display(state: FunctionState, target: ast.Tuple | ast.List, value: n.MakeTuple, node: ast.Assign) -> None:
    """`a, b = x, y`: evaluated before anything is assigned, so that names can be swapped."""
    if len(target.elts) != len(value.elements):
        state.fail("E006", f"{len(target.elts)} names for {len(value.elements)} values", target)
    named = {e.id for e in target.elts if isinstance(e, ast.Name)}
    values: list[n.Expr] = []
    for element in value.elements:
        if isinstance(element, n.Var) and element.name in named:
            kept = state.names.temporary(f"{element.name}_old", element.type, state.span(node))
            state.emit(n.Assign(var=kept, value=element, span=state.span(node)))
            values.append(kept)
        else:
            values.append(element)
    for part, element in zip(target.elts, values, strict=True):
        if not isinstance(part, ast.Name):
            state.fail("E006", f"`{state.text.segment(part)}` cannot be unpacked into", part, hint="unpack into names")
        _bind_element(state, part, element)


# --- yields -----------------------------------------------------------------------------------------------------------


def is_yield(state: FunctionState, node: ast.expr | None) -> bool:
    return isinstance(node, ast.Call) and state.path(node.func) == "pl.yield_"


def _yield(state: FunctionState, target: ast.expr, node: ast.expr, stated: Type | None = None) -> None:
    """`a, b = pl.yield_(x, y)`: the block's results and their names."""
    assert isinstance(node, ast.Call)
    parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    names = []
    for part in parts:
        if not isinstance(part, ast.Name):
            state.fail("E006", "the results of a yield are plain names", part)
        names.append(part.id)
    values = tuple(expressions.expression(state, a) for a in node.args)
    if len(names) != len(values):
        state.fail("E012", f"{len(names)} names for {len(values)} yielded values", node, hint="name each value once")
    _check_yield_place(state, node)
    types = (stated,) if stated is not None and len(names) == 1 else (None,) * len(names)
    state.yields[-1].append(Yielded(tuple(names), values, types, state.span(node)))
    state.emit(n.Yield(values=values, span=state.span(node)))


def _check_yield_place(state: FunctionState, node: ast.AST) -> None:
    if len(state.yields) == 1:
        state.fail("E012", "`pl.yield_` stands in a loop or a branch only", node)


def _bare_yield(state: FunctionState, node: ast.Call) -> None:
    values = tuple(expressions.expression(state, a) for a in node.args)
    _check_yield_place(state, node)
    text = ", ".join(state.text.segment(a) for a in node.args)
    left = ", ".join(f"{state.text.segment(a)}_out" if isinstance(a, ast.Name) else "out" for a in node.args)
    region = state.inside("range", "parallel", "unroll", "pipeline", "while")
    if region is not None and region.carries is not None:
        hint = f"name the results: `{left or 'v_out'} = pl.yield_({text})`"
        state.error("E011", "the results of this loop get no names", node, hint=hint)
    state.yields[-1].append(Yielded((), values, (None,) * len(values), state.span(node)))
    state.emit(n.Yield(values=values, span=state.span(node)))


# --- calls as statements ----------------------------------------------------------------------------------------------


def _expression(state: FunctionState, node: ast.Expr) -> None:
    value = node.value
    if isinstance(value, ast.Constant):
        return  # a bare string is a comment, `...` a placeholder
    if not isinstance(value, ast.Call):
        if isinstance(value, (ast.ListComp, ast.GeneratorExp)):
            expressions.expression(state, value)
            raise Abandoned
        state.fail("E001", "a value alone is no statement", node, hint="assign it to a name")
    path = state.path(value.func) if isinstance(value.func, (ast.Name, ast.Attribute)) else None
    if path == "pl.yield_":
        _bare_yield(state, value)
        return
    if path == "pl.func_attr":
        _late_attribute(state, value)
    if _is_bind_dynamic(state, value):
        return
    result = calls.call(state, value)
    if isinstance(result, n.Submit):
        hint = f"result, tid = {state.text.segment(value)}" if len(state.text.segment(value)) < 60 else None
        state.fail("E333", "the results of a submit are not taken", value, hint=hint or "unpack them: r, tid = ...")
    if isinstance(result, n.Expr) and not isinstance(result, (n.ConstInt, n.MakeTuple, n.Var)):
        state.emit(n.Eval(expr=result, span=state.span(node)))


def _late_attribute(state: FunctionState, node: ast.Call) -> None:
    state.fail("E022", "`pl.func_attr` comes first in a function", node, hint="move it above the other statements")


def _is_bind_dynamic(state: FunctionState, node: ast.Call) -> bool:
    """`x.bind_dynamic(0, M)`: read with the signature, nothing happens here."""
    func = node.func
    return isinstance(func, ast.Attribute) and func.attr == "bind_dynamic" and isinstance(func.value, ast.Name)


# --- if, return, break ------------------------------------------------------------------------------------------------


def _if(state: FunctionState, node: ast.If) -> None:
    condition = expressions.condition(state, node.test)
    before = state.names.snapshot()
    holds = _constant_truth(state, node.test)
    then_body, then_yield = blocks.branch(state, node.body, dead=holds is False)
    then = state.names.snapshot()
    state.names.bindings = dict(before)
    else_body, else_yield = blocks.branch(state, node.orelse, dead=holds is True)
    if then_yield is None and else_yield is None:
        state.names.merge(before, then)
        state.emit(n.If(condition=condition, then_body=then_body, else_body=else_body, span=state.span(node)))
        return
    state.names.bindings = dict(before)
    results = _if_results(state, node, then_yield, else_yield)
    stmt = n.If(
        condition=condition, then_body=then_body, else_body=else_body, return_vars=results, span=state.span(node)
    )
    state.emit(stmt)


def _constant_truth(state: FunctionState, node: ast.expr) -> bool | None:
    """The value of a condition on Python constants, None for any other."""
    try:
        found = special.static_truth(state, node, run_time=False)
    except (Abandoned, TypeError, ArithmeticError):
        return None
    return found if isinstance(found, bool) else None


def _if_results(state: FunctionState, node: ast.If, then: Yielded | None, other: Yielded | None) -> tuple[n.Var, ...]:
    """The names that both branches yield."""
    if then is None or other is None:
        there = then or other
        labels = [Label(there.span, "this branch yields")] if there is not None else []
        branch = "else" if other is None else "if"
        message = f"the `{branch}` branch yields nothing"
        state.fail("E012", message, _header(node), labels=labels, hint="end both branches in the same pl.yield_")
    if len(then.values) != len(other.values):
        labels = [Label(then.span, f"{len(then.values)} values"), Label(other.span, f"{len(other.values)} values")]
        state.fail("E012", "the branches yield different numbers of values", other.span, labels=labels)
    names = then.names or other.names
    if not names:
        state.fail("E011", "the results of this `if` get no names", then.span, hint="v = pl.yield_(x)")
    results = []
    for index, name in enumerate(names):
        types = [y.types[index] for y in (then, other)]
        stated = next((t for t in types if t is not None), None)
        a, b = then.values[index], other.values[index]
        if mismatch(a.type, b.type) is not None:
            labels = [Label(then.span, f"`{type_text(a.type)}`"), Label(other.span, f"`{type_text(b.type)}`")]
            message = f"`{name}` is another thing in each branch"
            state.error("E108", message, other.span, labels=labels, hint="yield values of one type")
        type_ = stated or (a.type if is_known(a.type) else b.type)
        results.append(declare_result(state, name, type_, then.span))
    return tuple(results)


def declare_result(state: FunctionState, name: str, type_: Type, span: Span) -> n.Var:
    """A name that a loop or branch gives its result."""
    known = state.names.get(name)
    if known is not None and known.block.kind is BlockKind.FUNCTION and name in state.params:
        state.rebound.append((name, known.var, span))
    var = n.Var(name=name, type=type_, span=span)
    state.names.declare(name, var, span)
    return var


def _return(state: FunctionState, node: ast.Return) -> None:
    values: tuple[n.Expr, ...] = ()
    if isinstance(node.value, ast.Tuple):
        values = tuple(expressions.expression(state, e) for e in node.value.elts)
    elif node.value is not None and not _is_none(state, node.value):
        value = expressions.expression(state, node.value)
        values = value.elements if isinstance(value, n.MakeTuple) else (value,)
    state.returns.append((values, state.span(node)))
    if not state.inlined:
        state.emit(n.Return(values=values, span=state.span(node)))


def _is_none(state: FunctionState, node: ast.expr) -> bool:
    found = state.python_value(node)
    return found is None and found is not MISSING


def _leave_loop(state: FunctionState, node: ast.Break | ast.Continue) -> None:
    word = "break" if isinstance(node, ast.Break) else "continue"
    region = next((r for r in reversed(state.regions) if r.tag in _LOOPS), None)
    if region is None:
        state.fail("E016", f"`{word}` outside a loop", node)
    if region.tag not in ("range", "while"):
        labels = [Label(region.span, "the loop around it")] if region.span is not None else []
        hint = "use pl.range, or guard the rest of the body with `if`"
        state.fail("E016", f"`{word}` inside `pl.{region.tag}`", node, labels=labels, hint=hint)
    span = state.span(node)
    state.emit(n.Break(span=span) if word == "break" else n.Continue(span=span))


_LOOPS = ("range", "parallel", "unroll", "pipeline", "while", "spmd", "split_aiv")
