"""Scopes: `pl.at`, `pl.spmd`, `pl.cluster`, `pl.scope`, `pl.manual_scope`, `pl.split_aiv` (language.md 2.7)."""

from __future__ import annotations

import ast
import keyword
from dataclasses import dataclass, field
from typing import Any

from pypto_lab.frontend import blocks, calls, expressions, launches
from pypto_lab.frontend.context import FunctionState
from pypto_lab.frontend.names import Rebinding
from pypto_lab.frontend.report import Abandoned
from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Label, did_you_mean
from pypto_lab.ir.enums import FunctionType, Level, Role, ScopeMode, SplitMode
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import ScalarType
from pypto_lab.ir.visitor import walk

_AT = frozenset(
    [
        "level",
        "role",
        "optimizations",
        "deps",
        "no_dep_args",
        "dumps",
        "allow_early_resolve",
        "name_hint",
        "windowize",
        "predicate",
        "slot_num",
    ]
)
_SPMD = frozenset(
    [
        "core_num",
        "sync_start",
        "name_hint",
        "optimizations",
        "deps",
        "no_dep_args",
        "dumps",
        "allow_early_resolve",
        "predicate",
    ]
)
_SCOPES = ("pl.at", "pl.spmd", "pl.cluster", "pl.scope", "pl.manual_scope")
_LEGACY = frozenset({"pl.incore", "pl.auto_incore"})
_TEMPLATE = "with pl.at(level=pl.Level.CORE_GROUP):"
_BLOCK_INDEX = frozenset({"tile.get_block_idx", "tensor.get_block_idx"})


@dataclass
class Optimizations:
    """What `optimizations=[...]` asks for."""

    split: SplitMode | None = None
    slot_num: int | None = None
    where: ast.expr | None = None
    split_where: ast.expr | None = None
    slot_where: ast.expr | None = None


@dataclass
class Keywords:
    """The common keywords of a scope."""

    name_hint: str | None = None
    attrs: dict[str, Any] = field(default_factory=dict)


def with_scope(state: FunctionState, node: ast.With) -> None:
    """Any `with`. Raises Abandoned after reporting; the body is read in any case."""
    if len(node.items) != 1:
        state.error("E022", "one scope a `with`", node.items[1].context_expr, hint="nest the `with` statements")
    item = node.items[0]
    call = item.context_expr
    path = state.path(call.func) if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or path not in (*_SCOPES, *_LEGACY):
        _body_anyway(state, node)
        _no_scope(state, call, path)
    assert isinstance(call, ast.Call)
    assert path is not None
    if item.optional_vars is not None and path not in ("pl.at", "pl.spmd"):
        state.error("E022", f"`{path}` gives no task id", item.optional_vars, hint="`as tid` is for pl.at and pl.spmd")
    _FORMS[path](state, node, call)


def _no_scope(state: FunctionState, call: ast.expr, path: str | None) -> None:
    near = did_you_mean(path, _SCOPES) if path is not None else None
    message = f"`{state.text.segment(call)}` is no scope of the kernel language"
    state.fail("E022", message, call, hint=near or f"scopes: {', '.join(_SCOPES)}")


def _body_anyway(state: FunctionState, node: ast.With) -> None:
    """Reads the body of a scope that is wrong in its head, so that its own mistakes are reported too."""
    target = node.items[0].optional_vars
    if isinstance(target, ast.Name):
        state.names.declare(target.id, n.Var(name=target.id, type=calls.TASK, span=state.span(target)), None)
    with state.region("incore", state.span(node.items[0].context_expr)):
        state.body.extend(blocks.scope(state, node.body, None))


# --- keywords ---------------------------------------------------------------------------------------------------------


def _common(state: FunctionState, call: ast.Call, known: frozenset[str]) -> Keywords:
    path = state.path(call.func)
    for found in call.keywords:
        if found.arg not in known:
            hint = did_you_mean(str(found.arg), known) or f"known: {', '.join(sorted(known))}"
            state.error("E022", f"`{path}` has no keyword `{found.arg}`", found.value, hint=hint)
    keywords = Keywords(_name_hint(state, call))
    deps = launches.dependencies(state, call)
    if deps:
        keywords.attrs["deps"] = deps
    for name in ("no_dep_args", "dumps"):
        listed = launches.variables(state, call, name)
        if listed:
            keywords.attrs[name] = listed
    for name in ("allow_early_resolve", "windowize"):
        if launches.flag(state, call, name):
            keywords.attrs[name] = True
    predicate = launches.predicate(state, call)
    if predicate is not None:
        keywords.attrs["predicate"] = predicate
    return keywords


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == name), None)


def _name_hint(state: FunctionState, call: ast.Call) -> str | None:
    node = _keyword(call, "name_hint")
    if node is None:
        return None
    value = expressions.value(state, node)
    if not isinstance(value, str) or not value.isidentifier() or keyword.iskeyword(value):
        hint = 'use a word such as name_hint="softmax_rows"'
        state.fail("E017", "`name_hint` names a function: it is an identifier in quotes", node, hint=hint)
    return value


def _optimizations(state: FunctionState, call: ast.Call) -> Optimizations:
    found = Optimizations(where=_keyword(call, "optimizations"))
    if found.where is None:
        return found
    if not isinstance(found.where, ast.List):
        hint = "optimizations=[pl.split(pl.SplitMode.UP_DOWN)]"
        state.fail("E017", "`optimizations` is a literal list", found.where, hint=hint)
    for entry in found.where.elts:
        _optimization(state, entry, found)
    return found


def _optimization(state: FunctionState, entry: ast.expr, found: Optimizations) -> None:
    call = entry if isinstance(entry, ast.Call) else None
    path = state.path(call.func) if call is not None else state.path(entry)
    if call is not None and path == "pl.split":
        mode_node = call.args[0] if call.args else _keyword(call, "mode")
        mode = expressions.value(state, mode_node) if mode_node is not None else None
        if not isinstance(mode, SplitMode):
            state.fail("E017", "`pl.split` takes a pl.SplitMode", entry, hint="pl.split(pl.SplitMode.UP_DOWN)")
        found.split, found.split_where = mode, entry
        _slots(state, call, found, 1)
    elif call is not None and path == "pl.cross_core_slot":
        _slots(state, call, found, 0)
    elif path == "pl.auto_chunk":
        state.warn("W005", "`pl.auto_chunk` was removed from the language and does nothing", entry)
    else:
        hint = "optimizations are pl.split(mode) and pl.cross_core_slot(slot_num=n)"
        state.fail("E017", f"`{state.text.segment(entry)}` is no optimization", entry, hint=hint)


def _slots(state: FunctionState, call: ast.Call, found: Optimizations, position: int) -> None:
    node = _keyword(call, "slot_num") or (call.args[position] if len(call.args) > position else None)
    if node is None:
        return
    value = arith.constant(expressions.expression(state, node))
    if value is None or value < 1:
        state.fail("E017", "`slot_num` is a constant of at least 1", node, hint="slot_num=2")
    found.slot_num, found.slot_where = value, node


def _task_id(state: FunctionState, node: ast.With, call: ast.Call) -> n.Var | None:
    target = node.items[0].optional_vars
    if target is None:
        return None
    if not isinstance(target, ast.Name):
        state.fail("E022", "the task id of a scope gets a plain name", target, hint="with pl.at(...) as tid:")
    return state.names.assign(target.id, calls.TASK, state.span(target), Rebinding.SAME)


# --- pl.at ------------------------------------------------------------------------------------------------------------


def _at(state: FunctionState, node: ast.With, call: ast.Call) -> None:
    try:
        level = _level(state, call)
        keywords, wanted = _common(state, call, _AT), _optimizations(state, call)
        role = _role(state, call, level)
    except Abandoned:
        _body_anyway(state, node)
        raise
    if level is not Level.CORE_GROUP:
        _higher_level(state, node, call, level, role, keywords, wanted)
        return
    span = state.span(call)
    _check_not_nested(state, span)
    if wanted.slot_num is not None:
        keywords.attrs["slot_num"] = wanted.slot_num
    with state.region("incore", span, split=wanted.split):
        body = blocks.scope(state, node.body, span)
    task = _task_id(state, node, call)
    state.emit(
        n.InCoreScope(
            body=body,
            name_hint=keywords.name_hint,
            attrs=keywords.attrs,
            task_id=task,
            split=wanted.split,
            span=state.span(node),
        )
    )


def _check_not_nested(state: FunctionState, span: Span) -> None:
    outer = state.inside("incore")
    if outer is not None:
        labels = [Label(outer.span, "the scope around it")] if outer.span is not None else []
        hint = "close the outer scope first; one core-group scope is one kernel"
        state.error("E017", "a core-group scope inside another one", span, labels=labels, hint=hint)


def _higher_level(
    state: FunctionState,
    node: ast.With,
    call: ast.Call,
    level: Level,
    role: Role | None,
    keywords: Keywords,
    wanted: Optimizations,
) -> None:
    for what, where in (("pl.split", wanted.split_where), ("cross_core_slot", wanted.slot_where)):
        if where is not None:
            hint = f"put it on the `{_TEMPLATE}` inside"
            state.error("E017", f"`{what}` is for level CORE_GROUP, not {level.name}", where, hint=hint)
    with state.region("hierarchy", state.span(call)):
        body = blocks.scope(state, node.body, state.span(call))
    task = _task_id(state, node, call)
    state.emit(
        n.HierarchyScope(
            body=body,
            name_hint=keywords.name_hint,
            attrs=keywords.attrs,
            task_id=task,
            level=level,
            role=role,
            span=state.span(node),
        )
    )


def _level(state: FunctionState, call: ast.Call) -> Level:
    node = _keyword(call, "level") or (call.args[0] if call.args else None)
    if node is None:
        state.fail("E017", "`pl.at` needs a level", call, hint=f"write `{_TEMPLATE}`")
    value = expressions.value(state, node)
    if isinstance(value, Level):
        return value
    if isinstance(value, n.Var) and value.name == "_unknown":
        raise Abandoned
    return state.fail("E017", "`level` is a pl.Level", node, hint=f"write `{_TEMPLATE}`")


def _role(state: FunctionState, call: ast.Call, level: Level) -> Role | None:
    node = _keyword(call, "role")
    if node is None:
        return None
    if level is Level.CORE_GROUP:
        state.fail("E017", "a core-group scope has no role", node, hint="leave `role=` out")
    value = expressions.value(state, node)
    if not isinstance(value, Role):
        state.fail("E017", "`role` is a pl.Role", node, hint="pl.Role.Orchestrator or pl.Role.SubWorker")
    return value


def _legacy(state: FunctionState, node: ast.With, call: ast.Call) -> None:
    path = state.path(call.func)
    state.warn("W005", f"`{path}()` was removed from the language", call, hint=f"write `{_TEMPLATE}`")
    with state.region("incore", state.span(call)):
        body = blocks.scope(state, node.body, state.span(call))
    state.emit(n.InCoreScope(body=body, span=state.span(node)))


# --- pl.spmd ----------------------------------------------------------------------------------------------------------


def _spmd_head(state: FunctionState, call: ast.Call) -> tuple[n.Expr, bool, Keywords, Optimizations]:
    node = call.args[0] if call.args else _keyword(call, "core_num")
    if node is None:
        state.fail("E018", "`pl.spmd` needs the number of blocks", call, hint="with pl.spmd(8):")
    core_num = expressions.expression(state, node)
    if isinstance(core_num.type, ScalarType) and not core_num.type.dtype.is_integer:
        state.fail("E018", "the number of blocks is an integer", node)
    return core_num, launches.flag(state, call, "sync_start"), _common(state, call, _SPMD), _optimizations(state, call)


def _spmd(state: FunctionState, node: ast.With, call: ast.Call) -> None:
    try:
        core_num, sync, keywords, wanted = _spmd_head(state, call)
    except Abandoned:
        _body_anyway(state, node)
        raise
    span = state.span(call)
    with state.region("spmd", span, split=wanted.split):
        body = blocks.scope(state, node.body, span)
    loop_var, body = _leading_index(body)
    task = _task_id(state, node, call)
    _emit_spmd(state, node, call, body, loop_var, task, (core_num, sync, keywords, wanted))


def _leading_index(body: n.Body) -> tuple[n.Var | None, n.Body]:
    """A body that starts with the block index is the loop form (as the compiler prints it)."""
    first = body[0] if body else None
    if isinstance(first, n.Assign) and isinstance(first.value, n.OpCall) and first.value.op == "tile.get_block_idx":
        return first.var, body[1:]
    return None, body


def spmd_loop(state: FunctionState, node: ast.For, call: ast.Call) -> None:
    """`for i in pl.spmd(n, ...)`."""
    head = _spmd_head(state, call)
    if not isinstance(node.target, ast.Name):
        state.fail("E018", "the block index is one name", node.target, hint="for i in pl.spmd(8):")
    span = state.span(call)
    loop_var = n.Var(name=node.target.id, type=n.INDEX, span=state.span(node.target))
    shadow = state.names.get(loop_var.name)
    state.names.declare(loop_var.name, loop_var, loop_var.span)
    with state.region("spmd", span, split=head[3].split):
        body = blocks.scope(state, node.body, span)
    state.names.forget(loop_var.name, "a block index ends with its loop", shadow)
    _emit_spmd(state, node, call, body, loop_var, None, head)


def _emit_spmd(
    state: FunctionState,
    node: ast.stmt,
    call: ast.Call,
    body: n.Body,
    loop_var: n.Var | None,
    task: n.Var | None,
    head: tuple[n.Expr, bool, Keywords, Optimizations],
) -> None:
    core_num, sync, keywords, wanted = head
    _check_spmd_body(state, call, body, loop_var)
    if wanted.slot_num is not None:
        keywords.attrs["slot_num"] = wanted.slot_num
    state.emit(
        n.SpmdScope(
            body=body,
            name_hint=keywords.name_hint,
            attrs=keywords.attrs,
            task_id=task,
            core_num=core_num,
            sync_start=sync,
            split=wanted.split,
            loop_var=loop_var,
            span=state.span(node),
        )
    )


def _check_spmd_body(state: FunctionState, call: ast.Call, body: n.Body, loop_var: n.Var | None) -> None:
    """E018: one dispatch, or work that depends on the block index."""
    found = [part for stmt in body for part in walk(stmt)]
    calls_ = [f for f in found if isinstance(f, (n.FunctionCall, n.Submit))]
    inlined = [c for c in calls_ if _is_inline(state, c.callee)]
    dispatches = [c for c in calls_ if c not in inlined]
    if len(dispatches) > 1:
        labels = [Label(c.span, "a dispatch") for c in dispatches[:2] if c.span is not None]
        hint = "give each kernel an SPMD scope of its own"
        state.error("E018", "an SPMD scope dispatches one kernel", call, labels=labels, hint=hint)
    reads = loop_var is not None or any(isinstance(f, n.OpCall) and f.op in _BLOCK_INDEX for f in found)
    if not dispatches and not inlined and not reads and body and not state.reporter.errors:
        hint = "use the block index: `for i in pl.spmd(n):`, or pl.tile.get_block_idx()"
        state.error("E018", "every block of this SPMD scope does the same work", call, hint=hint)


def _is_inline(state: FunctionState, name: str) -> bool:
    found = state.program.signatures.get(name)
    return found is not None and found.func_type is FunctionType.Inline


# --- the other scopes -------------------------------------------------------------------------------------------------


def _cluster(state: FunctionState, node: ast.With, call: ast.Call) -> None:
    keywords = _common(state, call, frozenset({"name_hint"}))
    with state.region("cluster", state.span(call)):
        body = blocks.scope(state, node.body, state.span(call))
    state.emit(n.ClusterScope(body=body, name_hint=keywords.name_hint, attrs=keywords.attrs, span=state.span(node)))


def _runtime_scope(state: FunctionState, node: ast.With, call: ast.Call) -> None:
    manual = state.path(call.func) == "pl.manual_scope"
    mode_node = _keyword(call, "mode") or (call.args[0] if call.args else None)
    if mode_node is not None:
        mode = expressions.value(state, mode_node)
        if not isinstance(mode, ScopeMode):
            _body_anyway(state, node)
            state.fail("E022", "`mode` is a pl.ScopeMode", mode_node, hint="mode=pl.ScopeMode.MANUAL")
        manual = mode is ScopeMode.MANUAL
    keywords = _common(state, call, frozenset({"mode", "name_hint"}))
    span = state.span(call)
    _check_runtime_scope(state, span, manual)
    with state.region("manual_scope" if manual else "auto_scope", span):
        body = blocks.scope(state, node.body, span)
    state.emit(
        n.RuntimeScope(
            body=body, name_hint=keywords.name_hint, attrs=keywords.attrs, manual=manual, span=state.span(node)
        )
    )


def _check_runtime_scope(state: FunctionState, span: Span, manual: bool) -> None:
    outer = state.inside("manual_scope")
    if manual and outer is not None:
        labels = [Label(outer.span, "the scope around it")] if outer.span is not None else []
        state.error("E019", "a MANUAL scope inside another one", span, labels=labels, hint="leave the inner one out")
    if not manual and state.auto_scope is not False and not state.inlined:
        hint = "write `@pl.jit(auto_scope=False)` (or `@pl.function(..., auto_scope=False)`)"
        state.error("E019", "an explicit AUTO scope needs `auto_scope=False` on the function", span, hint=hint)


def split_aiv(state: FunctionState, node: ast.For, call: ast.Call) -> None:
    """`for lane in pl.split_aiv(2, mode=pl.SplitMode.X)`."""
    hint = "for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):"
    span = state.span(call)
    count = arith.constant(expressions.expression(state, call.args[0])) if call.args else None
    if count != 2:
        state.error(
            "E020", "there are two vector lanes: the count is 2", call.args[0] if call.args else call, hint=hint
        )
    mode_node = _keyword(call, "mode") or (call.args[1] if len(call.args) > 1 else None)
    mode = expressions.value(state, mode_node) if mode_node is not None else None
    if not isinstance(mode, SplitMode):
        if mode_node is None or not (isinstance(mode, n.Var) and mode.name == "_unknown"):
            state.error("E020", "`pl.split_aiv` needs a mode", mode_node or call, hint=hint)
        mode = SplitMode.NONE
    _check_split_place(state, span)
    if not isinstance(node.target, ast.Name):
        state.fail("E020", "the lane is one name", node.target, hint=hint)
    lane = n.Var(name=node.target.id, type=n.INDEX, span=state.span(node.target))
    shadow = state.names.get(lane.name)
    state.names.declare(lane.name, lane, lane.span)
    with state.region("split_aiv", span, split=mode):
        body = blocks.scope(state, node.body, span)
    state.names.forget(lane.name, "the lane ends with its scope", shadow)
    state.emit(n.SplitAivScope(body=body, split=mode, lane_var=lane, span=state.span(node)))


def _check_split_place(state: FunctionState, span: Span) -> None:
    outer = state.inside("split_aiv")
    around = next(
        (r for r in state.regions if r.tag in ("incore", "spmd") and r.split not in (None, SplitMode.NONE)), None
    )
    for found, message in (
        (outer, "`pl.split_aiv` inside another one"),
        (around, "`pl.split_aiv` inside a scope that `pl.split` splits already"),
    ):
        if found is not None:
            labels = [Label(found.span, "here")] if found.span is not None else []
            state.error("E020", message, span, labels=labels, hint="keep one of the two")


_FORMS = {
    "pl.at": _at,
    "pl.spmd": _spmd,
    "pl.cluster": _cluster,
    "pl.scope": _runtime_scope,
    "pl.manual_scope": _runtime_scope,
    "pl.incore": _legacy,
    "pl.auto_incore": _legacy,
}
