"""Loops: `pl.range / parallel / unroll / pipeline`, `pl.while_` and plain `while` (`reference/language.md` 2.6)."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from pypto_lab.frontend import blocks, calls, expressions, scopes, statements
from pypto_lab.frontend.context import FunctionState, Yielded
from pypto_lab.frontend.missing import MISSING
from pypto_lab.frontend.names import Binding
from pypto_lab.frontend.report import Abandoned
from pypto_lab.frontend.typing import is_known, kind_name, mismatch, type_text
from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Label
from pypto_lab.ir.enums import ForKind
from pypto_lab.ir.types import ScalarType

_KINDS = {
    "pl.range": ForKind.Sequential,
    "pl.parallel": ForKind.Parallel,
    "pl.unroll": ForKind.Unroll,
    "pl.pipeline": ForKind.Pipeline,
}
_KEYWORDS = frozenset({"init_values", "attrs", "stage", "start", "stop", "step"})
_STALE = frozenset({"chunk", "chunk_policy", "unroll"})


@dataclass(frozen=True)
class Target:
    """The left side of a `for`: the loop variable and the names of the carried values."""

    variable: ast.Name | None
    carried: tuple[ast.Name, ...]
    has_tuple: bool


@dataclass(frozen=True)
class Carry:
    """The carried values of a loop while its body is read."""

    iter_args: tuple[n.IterArg, ...]
    shadowed: dict[str, Binding | None]


def for_loop(state: FunctionState, node: ast.For) -> None:
    """Any `for`. Raises Abandoned after reporting."""
    if node.orelse:
        state.error("E001", "`else` of a loop is not part of the kernel language", node.orelse[0])
    call = node.iter
    path = state.path(call.func) if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or path is None:
        _not_a_loop(state, node)
    elif path == "pl.while_":
        _while_form(state, node, call)
    elif path == "pl.spmd":
        scopes.spmd_loop(state, node, call)
    elif path == "pl.split_aiv":
        scopes.split_aiv(state, node, call)
    elif path in _KINDS:
        _counted(state, node, call, _KINDS[path])
    else:
        _not_a_loop(state, node)


def _not_a_loop(state: FunctionState, node: ast.For) -> NoReturn:
    called = node.iter.func if isinstance(node.iter, ast.Call) else None
    variable = state.text.segment(node.target)
    if isinstance(called, ast.Name) and called.id == "range" and "range" not in state.names:
        assert isinstance(node.iter, ast.Call)
        bounds = ", ".join(state.text.segment(a) for a in node.iter.args)
        hint = f"write `for {variable} in pl.range({bounds}):`, or pl.unroll to copy the body"
        _read_anyway(state, node)
        state.fail("E004", "Python's `range` does not run in a kernel", node.iter, hint=hint)
    hint = f"write `for {variable} in pl.range(n):`; loops are pl.range, pl.parallel, pl.unroll, pl.pipeline, pl.while_"
    _read_anyway(state, node)
    state.fail("E004", f"`{state.text.segment(node.iter)}` is no loop of the kernel language", node.iter, hint=hint)


def _read_anyway(state: FunctionState, node: ast.For) -> None:
    """Reads the body of a loop that is wrong in its head, so that its own mistakes are reported too."""
    for name in statements.assigned_names([ast.Assign(targets=[node.target], value=node.iter)]):
        state.names.declare(name, n.Var(name=name, type=n.INDEX, span=state.span(node.target)), state.span(node.target))
    with state.region("range", state.span(node.iter)):
        blocks.loop(state, node.body, state.span(node.iter))


# --- counted loops ----------------------------------------------------------------------------------------------------


def _counted(state: FunctionState, node: ast.For, call: ast.Call, kind: ForKind) -> None:
    keywords = {k.arg: k.value for k in call.keywords if k.arg is not None}
    _check_keywords(state, call, keywords)
    start, stop, step = _bounds(state, call, keywords, kind)
    attrs = calls.attributes(state, call)
    _stage(state, call, keywords, kind, attrs)
    initial = keywords.get("init_values")
    target = _target(state, node, initial is not None)
    if initial is not None and kind is ForKind.Unroll:
        state.error(
            "E010", "`pl.unroll` carries no values", initial, hint="re-bind the names in the body, or use pl.range"
        )
    carry = _carry(state, node, call, target, initial)
    tag = kind.value
    span = state.span(call)
    loop_var = _loop_var(state, target, start, stop)
    shadow = state.names.get(loop_var.name)
    with state.region(tag, span, carries=len(carry.iter_args) if initial is not None else None):
        body, yielded = _loop_body(state, node, carry, loop_var)
    state.names.forget(loop_var.name, "a loop variable ends with its loop", shadow)
    results = _results(state, node, carry, yielded, initial is not None)
    stmt = n.For(
        loop_var=loop_var,
        start=start,
        stop=stop,
        step=step,
        body=body,
        iter_args=carry.iter_args,
        return_vars=results,
        kind=kind,
        attrs=attrs,
        span=state.span(node),
    )
    state.emit(stmt)


def _loop_body(
    state: FunctionState, node: ast.For, carry: Carry, loop_var: n.Var | None
) -> tuple[n.Body, Yielded | None]:
    if loop_var is not None:
        state.names.declare(loop_var.name, loop_var, loop_var.span)
    for arg in carry.iter_args:
        state.names.declare(arg.name, arg, arg.span)
    body, yielded = blocks.loop(state, node.body, state.span(node.iter))
    for arg in carry.iter_args:
        reason = "a carried value ends with its loop; the name left of pl.yield_ is its result"
        state.names.forget(arg.name, reason, carry.shadowed.get(arg.name))
    return body, yielded


def _check_keywords(state: FunctionState, call: ast.Call, keywords: dict[str, ast.expr]) -> None:
    for name, value in keywords.items():
        if name in _KEYWORDS:
            continue
        path = state.path(call.func)
        if name in _STALE:
            hint = f"`{name}=` was removed from the language; split the loop by hand"
        else:
            hint = "known: init_values, attrs, stage (of pl.pipeline)"
        state.error("E022", f"`{path}` has no keyword `{name}`", value, hint=hint)


def _bounds(
    state: FunctionState, call: ast.Call, keywords: dict[str, ast.expr], kind: ForKind
) -> tuple[n.Expr, n.Expr, n.Expr]:
    nodes: list[ast.expr | None] = list(call.args)
    path = state.path(call.func)
    if not nodes and "stop" in keywords:
        nodes = [keywords.get("start"), keywords["stop"], keywords.get("step")]
    if not 1 <= len(nodes) <= 3:
        state.fail("E014", f"`{path}` takes one to three bounds", call, hint=f"{path}(stop), {path}(start, stop, step)")
    if len(nodes) == 1:
        nodes = [None, nodes[0], None]
    nodes += [None] * (3 - len(nodes))
    defaults = (0, 1, 1)
    values = [n.const(d) if b is None else _bound(state, b) for b, d in zip(nodes, defaults, strict=True)]
    names = ("start", "stop", "step")
    if kind is ForKind.Unroll:
        for name, bound, value in zip(names, nodes, values, strict=True):
            if bound is not None and arith.constant(value) is None and is_known(value.type):
                labels = _origin(state, value)
                hint = "make it a constant, or use pl.range"
                state.fail("E014", f"the {name} of `pl.unroll` is not constant", bound, labels=labels, hint=hint)
    if arith.constant(values[2]) == 0 and nodes[2] is not None:
        state.fail("E014", "a loop with step 0 never ends", nodes[2], hint="use a step of at least 1")
    return values[0], values[1], values[2]


def _origin(state: FunctionState, value: n.Expr) -> list[Label]:
    """Where the name in a non-constant bound comes from."""
    if isinstance(value, n.Var):
        binding = state.names.get(value.name)
        if binding is not None and binding.span is not None:
            return [Label(binding.span, f"`{value.name}` is known at run time only")]
    return []


def _bound(state: FunctionState, node: ast.expr) -> n.Expr:
    value = expressions.expression(state, node)
    if not is_known(value.type):
        return value
    if not (isinstance(value.type, ScalarType) and value.type.dtype.is_integer):
        what = value.type.dtype.name if isinstance(value.type, ScalarType) else kind_name(value.type)
        state.fail("E014", f"a bound is an integer scalar, this is a {what}", node, hint="pl.cast(x, pl.INDEX)")
    return value


def _stage(
    state: FunctionState, call: ast.Call, keywords: dict[str, ast.expr], kind: ForKind, attrs: dict[str, Any]
) -> None:
    stage = keywords.get("stage")
    if kind is not ForKind.Pipeline:
        if stage is not None:
            state.error("E015", f"`pl.{kind.value}` has no stages", stage, hint="use pl.pipeline(..., stage=2)")
        return
    if stage is None:
        if "pipeline_stages" not in attrs:
            state.error("E015", "`pl.pipeline` needs `stage`", call, hint="pl.pipeline(8, stage=2)")
        return
    value = arith.constant(expressions.expression(state, stage))
    if value is None or value < 1:
        state.fail("E015", "`stage` is a constant of at least 1", stage, hint="stage=2")
    attrs["pipeline_stages"] = value


def _target(state: FunctionState, node: ast.For, carried: bool) -> Target:
    match node.target:
        case ast.Name():
            return Target(node.target, (), False)
        case ast.Tuple(elts=[ast.Name() as variable, ast.Tuple() | ast.List() as rest]):
            return Target(variable, _names(state, rest.elts), True)
    if carried:
        names = ", ".join(f"a{i}" for i in range(1, 3))
        hint = f"write `for i, ({names}) in ...`, one name for each carried value"
        state.fail("E010", "the target of a loop with `init_values` is `i, (a, b)`", node.target, hint=hint)
    state.fail("E010", "a loop has one variable", node.target, hint="carried values need `init_values=(...)`")
    raise Abandoned


def _names(state: FunctionState, elements: Sequence[ast.expr]) -> tuple[ast.Name, ...]:
    names = []
    for element in elements:
        if not isinstance(element, ast.Name):
            state.fail("E010", "carried values have plain names", element)
        names.append(element)
    return tuple(names)


def _carry(state: FunctionState, node: ast.For, call: ast.Call, target: Target, initial: ast.expr | None) -> Carry:
    """The IterArgs of a loop, checked against the target (E010)."""
    values = _initial_values(state, initial)
    if initial is None:
        if target.has_tuple:
            hint = f"add `init_values=({', '.join(c.id + '0' for c in target.carried)},)`"
            state.fail(
                "E010", "the target names carried values, but the loop has no `init_values`", node.target, hint=hint
            )
        return Carry((), {})
    if len(values) != len(target.carried):
        line = _corrected(state, node, call, target, len(values))
        message = f"{len(values)} initial values, {len(target.carried)} names in the target"
        labels = [Label(state.span(initial), f"{len(values)} values")]
        state.fail("E010", message, node.target, labels=labels, hint=f"write `{line}`")
    shadowed = {c.id: state.names.get(c.id) for c in target.carried}
    args = tuple(
        n.IterArg(name=c.id, type=v.type, init_value=v, span=state.span(c))
        for c, v in zip(target.carried, values, strict=True)
    )
    return Carry(args, shadowed)


def _corrected(state: FunctionState, node: ast.For, call: ast.Call, target: Target, count: int) -> str:
    variable = target.variable.id if target.variable is not None else "i"
    known = [c.id for c in target.carried][:count]
    names = known + [f"a{i + 1}" for i in range(len(known), count)]
    inner = ", ".join(names) + ("," if count == 1 else "")
    return f"for {variable}, ({inner}) in {state.text.segment(call)}:"


def _initial_values(state: FunctionState, node: ast.expr | None) -> tuple[n.Expr, ...]:
    if node is None:
        return ()
    value = expressions.expression(state, node)
    if isinstance(value, n.MakeTuple):
        return value.elements
    if not is_known(value.type):
        raise Abandoned
    text = state.text.segment(node)
    return state.fail("E010", "`init_values` is a tuple", node, hint=f"init_values=({text},)")


def _loop_var(state: FunctionState, target: Target, start: n.Expr, stop: n.Expr) -> n.Var:
    assert target.variable is not None
    wide = all(isinstance(b, n.ConstInt) and n.scalar_dtype(b) is dtypes.INT64 for b in (start, stop))
    type_ = ScalarType(dtypes.INT64) if wide else n.INDEX
    return n.Var(name=target.variable.id, type=type_, span=state.span(target.variable))


def _results(
    state: FunctionState, node: ast.For | ast.While, carry: Carry, yielded: Yielded | None, carries: bool
) -> tuple[n.Var, ...]:
    """The names of the loop's results, visible from here on."""
    if not carries:
        if yielded is not None:
            hint = "add `init_values=(...)`, or assign to the name without pl.yield_"
            state.error("E012", "a loop without carried values yields nothing", yielded.span, hint=hint)
        return ()
    head = state.span(node.iter) if isinstance(node, ast.For) else state.span(node.test)
    count = len(carry.iter_args)
    if yielded is None:
        names = ", ".join(f"{a.name}_out" for a in carry.iter_args)
        hint = f"end the body in `{names} = pl.yield_({', '.join('...' for _ in carry.iter_args)})`"
        state.error("E012", f"the loop carries {count} values and yields none", head, hint=hint)
        return ()
    if len(yielded.values) != count:
        labels = [Label(head, f"the loop carries {count}")]
        message = f"the yield has {len(yielded.values)} values, the loop carries {count}"
        state.error("E012", message, yielded.span, labels=labels)
        return ()
    return _named_results(state, carry, yielded)


def _named_results(state: FunctionState, carry: Carry, yielded: Yielded) -> tuple[n.Var, ...]:
    names = yielded.names or tuple(f"{a.name}_out" for a in carry.iter_args)
    results = []
    for index, (name, arg) in enumerate(zip(names, carry.iter_args, strict=True)):
        value = yielded.values[index]
        if mismatch(arg.type, value.type) is not None:
            labels = [Label(arg.span, f"carried as `{type_text(arg.type)}`")] if arg.span is not None else []
            message = f"the loop yields `{type_text(value.type)}` for `{arg.name}`"
            state.error("E107", message, yielded.span, labels=labels, hint="yield a value of the carried type")
        type_ = yielded.types[index] or (value.type if is_known(value.type) else arg.type)
        results.append(statements.declare_result(state, name, type_, yielded.span))
    return tuple(results)


# --- while ------------------------------------------------------------------------------------------------------------

_WHILE_TEMPLATE = "for (x,) in pl.while_(init_values=(x0,)): pl.cond(x < n); ...; x_out = pl.yield_(x + 1)"


def _while_form(state: FunctionState, node: ast.For, call: ast.Call) -> None:
    """`for (x,) in pl.while_(init_values=(x0,))` with `pl.cond` first."""
    initial = next((k.value for k in call.keywords if k.arg == "init_values"), None)
    if initial is None and call.args:
        initial = call.args[0]
    if initial is None:
        state.fail("E013", "`pl.while_` needs `init_values`", call, hint=_WHILE_TEMPLATE)
    elements = node.target.elts if isinstance(node.target, (ast.Tuple, ast.List)) else [node.target]
    carry = _carry(state, node, call, Target(None, _names(state, elements), True), initial)
    test = _condition_call(state, node)
    head = state.span(call)
    with state.region("while", head, carries=len(carry.iter_args)):
        for arg in carry.iter_args:
            state.names.declare(arg.name, arg, arg.span)
        condition = expressions.condition(state, test)
        rest = ast.For(target=node.target, iter=node.iter, body=node.body[1:], orelse=[])
        ast.copy_location(rest, node)
        body, yielded = _loop_body(state, rest, carry, None)
    results = _results(state, node, carry, yielded, True)
    stmt = n.While(
        condition=condition, body=body, iter_args=carry.iter_args, return_vars=results, span=state.span(node)
    )
    state.emit(stmt)


def _condition_call(state: FunctionState, node: ast.For) -> ast.expr:
    first = node.body[0]
    call = first.value if isinstance(first, ast.Expr) else None
    if isinstance(call, ast.Call) and state.path(call.func) == "pl.cond" and len(call.args) == 1:
        return call.args[0]
    state.fail("E013", "the first statement of a `pl.while_` loop is `pl.cond(...)`", first, hint=_WHILE_TEMPLATE)
    raise Abandoned


def while_loop(state: FunctionState, node: ast.While) -> None:
    """Plain `while condition:`; the names it re-binds are carried."""
    if node.orelse:
        state.error("E001", "`else` of a loop is not part of the kernel language", node.orelse[0])
    folded = state.python_value(node.test)
    if folded is not MISSING and not isinstance(folded, bool):
        hint = "write a comparison: `while i < n:`"
        state.error("E109", "a condition is BOOL", node.test, hint=hint)
        condition: n.Expr = n.const(True)
    else:
        condition = expressions.condition(state, node.test)
    with state.region("while", state.span(node.test)):
        body, yielded = blocks.loop(state, node.body, state.span(node.test))
    _results(state, node, Carry((), {}), yielded, False)
    state.emit(n.While(condition=condition, body=body, span=state.span(node)))
