"""Statements of a dump: blocks, loops with and without carried values, scopes. One bad statement costs one finding."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pypto_lab.frontend.dump_exprs import ExprReader, Reject, dotted, item_type, number
from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import ForKind, Level, Role, ScopeMode, SplitMode
from pypto_lab.ir.types import UNKNOWN, ArrayType, ScalarType, ShapedType, TensorType, TileType, Type

_LOOPS = {f"pl.{k.value}": k for k in ForKind}
_TASK = ScalarType(dtypes.TASK_ID)
MAX_BLOCKS = 90
"""Blocks inside blocks beyond this are refused: Python indents 100 levels, and an `elif` prints as a nested block."""
_EXPR_KEYWORDS = ("deps", "no_dep_args", "dumps")


@dataclass
class Results:
    """What the yields at the end of a block say about the results of the loop or if around it."""

    names: list[str] = field(default_factory=list)
    types: list[Type] = field(default_factory=list)
    nodes: list[ast.expr] = field(default_factory=list)
    stated: bool = False
    """Whether the types are the text's; else they are those of the yielded values."""

    def take(self, names: Sequence[str], types: Sequence[Type], nodes: Sequence[ast.expr], stated: bool) -> None:
        """Keeps the first block's names, and types that hold for both blocks; a bare yield gives none."""
        if not self.names:
            self.names, self.types, self.nodes, self.stated = list(names), list(types), list(nodes), stated
        elif not self.stated and len(types) == len(self.types):
            self.types = [_joined(one, other) for one, other in zip(self.types, types, strict=True)]

    def carry(self, iter_args: Sequence[n.IterArg]) -> None:
        """A loop's results without types of their own: where what it carries begins with another valid shape than it
        ends a trip with, a result is what the loop carries."""
        if not self.stated and len(iter_args) == len(self.types):
            pairs = zip(iter_args, self.types, strict=True)
            self.types = [type_ if _same_valid(type_, a.type) else a.type for a, type_ in pairs]


def _joined(one: Type, other: Type) -> Type:
    """The type of what is one or the other: it states a valid shape only where both state the same."""
    if not isinstance(one, (TensorType, TileType)) or one.view is None or _same_valid(one, other):
        return one
    return dataclasses.replace(one, view=dataclasses.replace(one.view, valid_shape=None))  # type: ignore[arg-type]


def _same_valid(one: Type, other: Type) -> bool:
    """Whether two types have the same valid region, as far as they have one."""
    if not isinstance(one, ShapedType) or not isinstance(other, ShapedType) or one.rank != other.rank:
        return True
    return all(arith.same(a, b) for a, b in zip(one.valid_shape, other.valid_shape, strict=True))


class StmtReader:
    """Reads the statements of one function."""

    def __init__(self, exprs: ExprReader, comments: Sequence[tuple[int, int, str]]) -> None:
        self.exprs = exprs
        self.source = exprs.source
        self.names = exprs.names
        self.findings = exprs.findings
        self.comments = comments
        self.next_comment = 0
        self.results: list[Results | None] = [None]
        self.level = 0

    # --- blocks ------------------------------------------------------------------------------------------------------

    def block(self, stmts: Sequence[ast.stmt]) -> n.Body:
        """The statements of a block; those that cannot be read are reported and left out."""
        out: list[n.Stmt] = []
        pending: list[str] = []
        if self.level >= MAX_BLOCKS and stmts:
            self.exprs.reject("E703", f"blocks nested deeper than {MAX_BLOCKS} levels are not read", stmts[0])
        self.level += 1
        for node in stmts:
            kind = type(node)
            if self.comments:
                pending += self._comments_before(node)
            if kind is ast.Pass:
                continue
            if kind is ast.Expr and isinstance(node.value, ast.Constant):  # type: ignore[attr-defined]
                pending += self._bare_constant(node)  # type: ignore[arg-type]
                continue
            made = self.stmt(node)
            if pending and made:
                object.__setattr__(made[0], "leading_comments", tuple(pending))  # made here, not shared yet
                pending = []
            out += made
        self.level -= 1
        return tuple(out)

    def stmt(self, node: ast.stmt) -> list[n.Stmt]:
        """One statement; a tuple target makes several."""
        handler = _STMTS.get(type(node))
        level = self.level
        try:
            if handler is None:
                hint = "dumps hold assignments, calls, for, while, if, with and return"
                self.exprs.reject("E710", f"`{_keyword(node)}` is not part of the language", node, hint)
            return handler(self, node)
        except Reject as error:
            self.exprs.depth = 0
            self.exprs.in_type = False
            self.level = level
            self.findings.errors.append(error.diagnostic)
            self._define_anyway(node)
            return []

    def _define_anyway(self, node: ast.stmt) -> None:
        """After an error: the names a statement defines exist, so that their uses are not reported too."""
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store) and part.id not in self.names.visible:
                self.names.bind(n.Var(name=part.id, type=UNKNOWN, span=self.source.span(part)))

    def _comments_before(self, node: ast.stmt) -> Iterator[str]:
        """Comment lines above a statement; those that end a deeper block are dropped."""
        while self.next_comment < len(self.comments):
            line, column, text = self.comments[self.next_comment]
            if line >= node.lineno:
                return
            self.next_comment += 1
            if column <= node.col_offset:
                yield text

    def _bare_constant(self, node: ast.Expr) -> list[str]:
        value = node.value.value  # type: ignore[attr-defined]
        if isinstance(value, str):
            return value.split("\n")
        if value is not ...:
            self.findings.errors.append(Reject("E710", "a constant is no statement", self.source.span(node)).diagnostic)
        return []

    @contextmanager
    def yields(self, results: Results | None) -> Iterator[None]:
        self.results.append(results)
        try:
            yield
        finally:
            self.results.pop()

    # --- plain statements --------------------------------------------------------------------------------------------

    def _annotated(self, node: ast.AnnAssign) -> list[n.Stmt]:
        target, value = node.target, node.value
        if not isinstance(target, ast.Name) or value is None:
            self.exprs.reject("E710", "an annotated statement assigns a value to a name", node)
        if isinstance(value, ast.Call):
            func = value.func
            if isinstance(func, ast.Attribute) and func.attr == "yield_":
                return self._yield(value, node, [target], self.exprs.annotation(node.annotation))
            type_ = self.exprs.annotation(node.annotation)
            self.exprs.depth += 1
            result = self.exprs.call(value, type_)
            self.exprs.depth -= 1
        else:
            type_ = self.exprs.annotation(node.annotation)
            result = self.exprs.expr(value)
            if isinstance(result, n.TupleGetItem) and result.type is UNKNOWN:
                result = n.TupleGetItem(tuple=result.tuple, index=result.index, type=type_, span=result.span)
        var = self.names.assign(target.id, type_, self.source.span(target))
        return [n.Assign(var=var, value=result, span=self.source.span(node))]

    def _assign(self, node: ast.Assign) -> list[n.Stmt]:
        if len(node.targets) != 1:
            self.exprs.reject("E710", "a chain of assignments is not part of the language", node)
        target = node.targets[0]
        targets = list(_flat(target)) if isinstance(target, (ast.Tuple, ast.List)) else [target]
        if isinstance(node.value, ast.Call) and dotted(node.value.func) == "pl.yield_":
            return self._yield(node.value, node, targets, None)
        value = self.exprs.expr(node.value)
        if isinstance(target, ast.Name):
            var = self.names.assign(target.id, value.type, self.source.span(target))
            return [n.Assign(var=var, value=value, span=self.source.span(node))]
        if isinstance(target, ast.Subscript):
            return [self._update(target, value, node)]
        return self._unpack(targets, value, node)

    def _update(self, target: ast.Subscript, value: n.Expr, node: ast.Assign) -> n.Stmt:
        """`array[i] = v`."""
        array = self.exprs.expr(target.value)
        if not isinstance(array, n.Var) or not isinstance(array.type, ArrayType):
            self.exprs.reject("E710", "a dump assigns to elements of arrays only", node)
        args = (array, self.exprs.expr(target.slice), value)
        span = self.source.span(node)
        call = n.OpCall(op="array.update_element", args=args, type=array.type, span=span)
        return n.Assign(var=array, value=call, span=span)

    def _unpack(self, targets: Sequence[ast.expr], value: n.Expr, node: ast.Assign) -> list[n.Stmt]:
        """`a, b = call` is the call bound to a temporary, then one item per name."""
        span = self.source.span(node)
        temporary = self.names.bind(n.Var(name="_tuple_tmp", type=value.type, span=span))
        out: list[n.Stmt] = [n.Assign(var=temporary, value=value, span=span)]
        for i, target in enumerate(targets):
            if not isinstance(target, ast.Name):
                self.exprs.reject("E710", "only names can be unpacked into", target)
            type_ = item_type(value.type, i)
            item = n.TupleGetItem(tuple=temporary, index=i, type=type_, span=span)
            place = self.source.span(target)
            out.append(n.Assign(var=self.names.assign(target.id, type_, place), value=item, span=span))
        return out

    def _yield(self, call: ast.Call, node: ast.stmt, targets: Sequence[ast.expr], type_: Type | None) -> list[n.Stmt]:
        values = tuple([self.exprs.expr(a) for a in call.args])
        if targets and len(targets) != len(values):
            self.exprs.reject("E710", f"{len(values)} values are yielded to {len(targets)} names", node)
        names = [t.id for t in targets if isinstance(t, ast.Name)]
        if len(names) != len(targets):
            self.exprs.reject("E710", "a yield is bound to names", node)
        results = self.results[-1]
        if results is None:
            self.exprs.reject("E710", "a yield belongs at the end of a loop or an if", node)
        types = [type_] if type_ is not None else [v.type for v in values]
        results.take(names, types, targets, type_ is not None)
        return [n.Yield(values=values, span=self.source.span(node))]

    def _expression(self, node: ast.Expr) -> list[n.Stmt]:
        if isinstance(node.value, ast.Call):
            name = dotted(node.value.func)
            if name == "pl.yield_":
                return self._yield(node.value, node, [], None)
            if name == "pl.cond":
                self.exprs.reject("E710", "`pl.cond` is the first statement of a `pl.while_` loop", node)
            if name == "pl.func_attr":
                self.exprs.reject("E710", "`pl.func_attr` stands at the top of a function", node)
            return [n.Eval(expr=self.exprs.expr(node.value), span=self.source.span(node))]
        if isinstance(node.value, (ast.Yield, ast.YieldFrom, ast.Await, ast.Lambda, ast.NamedExpr)):
            self.exprs.reject("E710", f"`{ast.unparse(node.value)[:40]}` is no statement of a dump", node)
        return [n.Eval(expr=self.exprs.expr(node.value), span=self.source.span(node))]

    def _return(self, node: ast.Return) -> list[n.Stmt]:
        if node.value is None:
            return [n.Return(span=self.source.span(node))]
        parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        return [n.Return(values=tuple([self.exprs.expr(p) for p in parts]), span=self.source.span(node))]

    def _break(self, node: ast.Break) -> list[n.Stmt]:
        return [n.Break(span=self.source.span(node))]

    def _continue(self, node: ast.Continue) -> list[n.Stmt]:
        return [n.Continue(span=self.source.span(node))]

    # --- control flow ------------------------------------------------------------------------------------------------

    def _if(self, node: ast.If) -> list[n.Stmt]:
        condition = self.exprs.expr(node.test)
        results = Results()
        leaks = not _yields(node.body)
        with self.yields(results):
            with self.names.block(leaks):
                then_body = self.block(node.body)
            with self.names.block(leaks):
                else_body = self.block(node.orelse)
        return [
            n.If(
                condition=condition,
                then_body=then_body,
                else_body=else_body,
                return_vars=self._define(results),
                span=self.source.span(node),
            )
        ]

    def _define(self, results: Results) -> tuple[n.Var, ...]:
        """The result variables of a loop or an if, in view behind it."""
        places = [self.source.span(node) for node in results.nodes]
        triples = zip(results.names, results.types, places, strict=True)
        return tuple([self.names.assign(name, type_, place) for name, type_, place in triples])

    def _for(self, node: ast.For) -> list[n.Stmt]:
        if node.orelse:
            self.exprs.reject("E710", "a loop has no `else`", node.orelse[0])
        call = node.iter
        if not isinstance(call, ast.Call):
            self.exprs.reject("E710", "a loop runs over `pl.range(...)` or one of its kin", node.iter)
        name = dotted(call.func)
        if name in _LOOPS:
            return [self._range_loop(node, call, _LOOPS[name])]
        if name == "pl.while_":
            return [self._while_loop(node, call)]
        if name == "pl.spmd":
            return [self._spmd(call, node, node.target)]
        if name == "pl.split_aiv":
            return [self._split_aiv(node, call)]
        hint = (
            "write `pl.range(...)`" if name == "range" else f"known are {', '.join([*_LOOPS, 'pl.while_', 'pl.spmd'])}"
        )
        self.exprs.reject("E710", f"`{name or ast.unparse(call.func)[:40]}` is no loop of the language", call, hint)

    def _range_loop(self, node: ast.For, call: ast.Call, kind: ForKind) -> n.For:
        if not 1 <= len(call.args) <= 3:
            self.exprs.reject("E710", f"`pl.{kind.value}` takes one to three bounds", call)
        words = {w.arg: w.value for w in call.keywords if w.arg is not None}
        bounds = [self.exprs.expr(a) for a in call.args]
        span = self.source.span(call)
        zero, one = n.ConstInt(value=0, type=n.INDEX, span=span), n.ConstInt(value=1, type=n.INDEX, span=span)
        start, stop = (zero, bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
        step = bounds[2] if len(bounds) == 3 else one
        target, carried = self._loop_target(node.target)
        inits = self._init_values(words.get("init_values"), carried, node)
        attrs = self._loop_attrs(words, kind, call)
        results = Results()
        with self.yields(results), self.names.block(leaks=not carried):
            loop_var = n.Var(name=target.id, type=_loop_type(bounds), span=self.source.span(target))
            self.names.bind(loop_var)
            iter_args = self._iter_args(carried, inits)
            body = self.block(node.body)
            self.names.unbind(loop_var)
        self._complete(results, iter_args, body, carried)
        return n.For(
            loop_var=loop_var,
            start=start,
            stop=stop,
            step=step,
            body=body,
            iter_args=iter_args,
            return_vars=self._define(results),
            kind=kind,
            attrs=attrs,
            span=self.source.span(node),
        )

    def _loop_target(self, target: ast.expr) -> tuple[ast.Name, list[ast.Name]]:
        """`i`, or `i, (a, b)` with carried values."""
        if isinstance(target, ast.Name):
            return target, []
        if isinstance(target, ast.Tuple) and len(target.elts) == 2 and isinstance(target.elts[0], ast.Name):
            return target.elts[0], self._carried(target.elts[1])
        self.exprs.reject("E710", "a loop's target is `i` or `i, (carried, ...)`", target)

    def _carried(self, target: ast.expr) -> list[ast.Name]:
        parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        names = [p for p in parts if isinstance(p, ast.Name)]
        if len(names) != len(parts) or not names:
            self.exprs.reject("E710", "carried values are names", target)
        return names

    def _init_values(self, node: ast.expr | None, carried: Sequence[ast.Name], at: ast.stmt) -> tuple[n.Expr, ...]:
        inits = self.exprs.exprs(node)
        if len(inits) != len(carried):
            self.exprs.reject("E710", f"{len(carried)} carried names but {len(inits)} initial values", at)
        return inits

    def _iter_args(self, carried: Sequence[ast.Name], inits: Sequence[n.Expr]) -> tuple[n.IterArg, ...]:
        made = [
            n.IterArg(name=name.id, type=init.type, init_value=init, span=self.source.span(name))
            for name, init in zip(carried, inits, strict=True)
        ]
        for arg in made:
            self.names.bind(arg)
        return tuple(made)

    def _complete(
        self, results: Results, iter_args: Sequence[n.IterArg], body: n.Body, carried: Sequence[ast.Name]
    ) -> None:
        """A loop with carried values whose yield is bare gets results named `<arg>_out`; types come from the values
        it carries unless the text states them."""
        if iter_args and not results.names and body and trailing_yield(body) is not None:
            results.take([f"{a.name}_out" for a in iter_args], [a.type for a in iter_args], list(carried), True)
        results.carry(iter_args)

    def _loop_attrs(self, words: Mapping[str, ast.expr], kind: ForKind, call: ast.Call) -> dict[str, Any]:
        attrs: dict[str, Any] = {}
        if "stage" in words:
            attrs["pipeline_stages"] = self.exprs.value(words["stage"])
        if "attrs" in words:
            attrs.update(self.exprs.attrs(words["attrs"]))
        for key, value in words.items():
            if key not in ("stage", "attrs", "init_values"):
                message = f"`{key}=` is no longer a keyword of loops; it is kept as an attribute"
                self.findings.note("N304", key, message, self.source.span(call))
                attrs[key] = self.exprs.attr_value(value)
        return attrs

    def _while_loop(self, node: ast.For, call: ast.Call) -> n.While:
        carried = self._carried(node.target)
        words = {w.arg: w.value for w in call.keywords if w.arg is not None}
        inits = self._init_values(words.get("init_values"), carried, node)
        first = node.body[0]
        test = first.value if isinstance(first, ast.Expr) else None
        if not (isinstance(test, ast.Call) and dotted(test.func) == "pl.cond" and len(test.args) == 1):
            self.exprs.reject("E710", "a `pl.while_` loop starts with `pl.cond(condition)`", first)
        results = Results()
        with self.yields(results), self.names.block(leaks=False):
            iter_args = self._iter_args(carried, inits)
            condition = self.exprs.expr(test.args[0])
            body = self.block(node.body[1:])
        self._complete(results, iter_args, body, carried)
        return n.While(
            condition=condition,
            body=body,
            iter_args=iter_args,
            return_vars=self._define(results),
            span=self.source.span(node),
        )

    def _while(self, node: ast.While) -> list[n.Stmt]:
        if node.orelse:
            self.exprs.reject("E710", "a loop has no `else`", node.orelse[0])
        condition = self.exprs.expr(node.test)
        with self.yields(None):
            body = self.block(node.body)
        return [n.While(condition=condition, body=body, span=self.source.span(node))]

    # --- scopes ------------------------------------------------------------------------------------------------------

    def _with(self, node: ast.With) -> list[n.Stmt]:
        if len(node.items) != 1:
            self.exprs.reject("E710", "one context manager per `with`", node)
        item = node.items[0]
        call = item.context_expr
        if not isinstance(call, ast.Call):
            self.exprs.reject("E710", "a scope is a call such as `pl.at(...)`", call)
        name = dotted(call.func)
        reader = _SCOPES.get(name)
        if reader is None:
            hint = f"known are {', '.join(_SCOPES)}"
            self.exprs.reject(
                "E710", f"`{name or ast.unparse(call.func)[:40]}` is no scope of the language", call, hint
            )
        return [reader(self, call, node, item.optional_vars)]

    def _scope_parts(self, call: ast.Call, node: ast.stmt, task: ast.expr | None) -> dict[str, Any]:
        """What all scopes share: name, remaining keywords, task id; the caller reads the body."""
        words = {w.arg: w.value for w in call.keywords if w.arg is not None}
        attrs: dict[str, Any] = {}
        parts: dict[str, Any] = {"span": self.source.span(node), "attrs": attrs, "task_id": self._task_id(task)}
        for key, value in words.items():
            if key == "name_hint":
                parts["name_hint"] = str(self.exprs.value(value))
            elif key == "optimizations":
                self._optimizations(value, parts)
            elif key in _EXPR_KEYWORDS:
                attrs[key] = self.exprs.exprs(value)
            elif key == "predicate":
                attrs[key] = self.exprs.expr(value)
            elif key in ("level", "role", "sync_start", "mode"):
                parts[key] = self.exprs.value(value)
            else:
                attrs[key] = self.exprs.attr_value(value)
        return parts

    def _task_id(self, node: ast.expr | None) -> n.Var | None:
        if node is None:
            return None
        if not isinstance(node, ast.Name):
            self.exprs.reject("E710", "a task id is bound to a name", node)
        return self.names.assign(node.id, _TASK, self.source.span(node))

    def _optimizations(self, node: ast.expr, parts: dict[str, Any]) -> None:
        others: list[Any] = []
        for entry in node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node]:
            name = dotted(entry.func) if isinstance(entry, ast.Call) else ""
            if isinstance(entry, ast.Call) and name == "pl.split" and len(entry.args) == 1:
                parts["split"] = self.exprs.value(entry.args[0])
            elif isinstance(entry, ast.Call) and name == "pl.cross_core_slot" and entry.keywords:
                parts["attrs"]["slot_num"] = self.exprs.value(entry.keywords[0].value)
            else:
                message = f"optimization `{ast.unparse(entry)[:60]}` is not known; it is kept"
                self.findings.note("N302", "optimizations", message, self.source.span(entry))
                others.append(self.exprs.value(entry) if isinstance(entry, ast.Attribute) else self.exprs.expr(entry))
        if others:
            parts["attrs"]["optimizations"] = tuple(others)

    def _at(self, call: ast.Call, node: ast.With, task: ast.expr | None) -> n.Stmt:
        parts = self._scope_parts(call, node, task)
        level, role = parts.pop("level", None), parts.pop("role", None)
        if level is None and call.args:
            level = self.exprs.value(call.args[0])
        if not isinstance(level, Level):
            self.exprs.reject("E710", "`pl.at` states its level", call, "write `level=pl.Level.CORE_GROUP`")
        if level is Level.CORE_GROUP:
            return n.InCoreScope(body=self.block(node.body), **_only(parts, "split"))
        role = role if isinstance(role, Role) else None
        return n.HierarchyScope(level=level, role=role, body=self.block(node.body), **_only(parts))

    def _legacy_incore(self, call: ast.Call, node: ast.With, task: ast.expr | None) -> n.Stmt:
        message = "`pl.incore` is `pl.at(level=pl.Level.CORE_GROUP)` today"
        self.findings.note("N307", "incore", message, self.source.span(call))
        parts = self._scope_parts(call, node, task)
        return n.InCoreScope(body=self.block(node.body), **_only(parts, "split"))

    def _cluster(self, call: ast.Call, node: ast.With, task: ast.expr | None) -> n.Stmt:
        return n.ClusterScope(body=self.block(node.body), **_only(self._scope_parts(call, node, task)))

    def _runtime(self, call: ast.Call, node: ast.With, task: ast.expr | None) -> n.Stmt:
        parts = self._scope_parts(call, node, task)
        manual = dotted(call.func) == "pl.manual_scope" or parts.pop("mode", None) is ScopeMode.MANUAL
        return n.RuntimeScope(manual=manual, body=self.block(node.body), **_only(parts))

    def _spmd_with(self, call: ast.Call, node: ast.With, task: ast.expr | None) -> n.Stmt:
        return self._spmd(call, node, None, task)

    def _spmd(
        self, call: ast.Call, node: ast.For | ast.With, target: ast.expr | None, task: ast.expr | None = None
    ) -> n.Stmt:
        words = [w for w in call.keywords if w.arg in ("core_num", "n")]
        count = call.args[0] if call.args else words[0].value if words else None
        if count is None:
            self.exprs.reject("E710", "`pl.spmd` states how many blocks there are", call)
        core_num = self.exprs.expr(count)
        parts = self._scope_parts(call, node, task)
        for word in words:
            parts["attrs"].pop(word.arg, None)
        parts["sync_start"] = bool(parts.get("sync_start", False))
        if target is None:
            return n.SpmdScope(core_num=core_num, body=self.block(node.body), **_only(parts, "split", "sync_start"))
        var = self._index_var(target)
        body = self.block(node.body)
        self.names.unbind(var)
        return n.SpmdScope(core_num=core_num, loop_var=var, body=body, **_only(parts, "split", "sync_start"))

    def _split_aiv(self, node: ast.For, call: ast.Call) -> n.Stmt:
        mode = next((self.exprs.value(w.value) for w in call.keywords if w.arg == "mode"), None)
        count = number(call.args[0]) if call.args else 2
        if not isinstance(mode, SplitMode) or type(count) is not int:
            self.exprs.reject("E710", "`pl.split_aiv` takes a count and `mode=pl.SplitMode.X`", call)
        var = self._index_var(node.target)
        body = self.block(node.body)
        self.names.unbind(var)
        return n.SplitAivScope(split=mode, lane_var=var, count=count, body=body, span=self.source.span(node))

    def _index_var(self, target: ast.expr) -> n.Var:
        if not isinstance(target, ast.Name):
            self.exprs.reject("E710", "the target of this loop is one name", target)
        return self.names.bind(n.Var(name=target.id, type=n.INDEX, span=self.source.span(target)))


def _only(parts: Mapping[str, Any], *more: str) -> dict[str, Any]:
    """The keywords a scope class has; values of a kind it cannot hold are left out."""
    known = ("span", "attrs", "task_id", "name_hint", *more)
    return {k: v for k, v in parts.items() if k in known and (k != "split" or isinstance(v, SplitMode))}


def _flat(target: ast.expr) -> Iterator[ast.expr]:
    """`(a, b), tid` as a, b, tid."""
    if isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            yield from _flat(part)
    else:
        yield target


def _keyword(node: ast.stmt) -> str:
    return ast.unparse(node).split("\n", 1)[0][:60] if not isinstance(node, ast.Try) else "try"


def _loop_type(bounds: Sequence[n.Expr]) -> Type:
    """A loop variable is INDEX, or INT64 when its constant bounds are (language.md 2.6)."""
    found = {n.scalar_dtype(b) for b in bounds if isinstance(b, n.ConstInt)}
    all_constant = all(isinstance(b, n.ConstInt) for b in bounds)
    return ScalarType(dtypes.INT64) if all_constant and found == {dtypes.INT64} else n.INDEX


def _yields(stmts: Sequence[ast.stmt]) -> bool:
    """Whether a block ends in a yield, also one inside its last scope."""
    while stmts and isinstance(stmts[-1], ast.With):
        stmts = stmts[-1].body
    last = stmts[-1] if stmts else None
    value = getattr(last, "value", None)
    return isinstance(value, ast.Call) and dotted(value.func) == "pl.yield_"


def trailing_yield(body: n.Body) -> n.Yield | None:
    """The yield that ends a block, also inside its last scope."""
    while body and isinstance(body[-1], n.Scope):
        body = body[-1].body
    return body[-1] if body and isinstance(body[-1], n.Yield) else None


_STMTS: dict[type[ast.stmt], Callable[[StmtReader, Any], list[n.Stmt]]] = {
    ast.AnnAssign: StmtReader._annotated,
    ast.Assign: StmtReader._assign,
    ast.Expr: StmtReader._expression,
    ast.Return: StmtReader._return,
    ast.If: StmtReader._if,
    ast.For: StmtReader._for,
    ast.While: StmtReader._while,
    ast.With: StmtReader._with,
    ast.Break: StmtReader._break,
    ast.Continue: StmtReader._continue,
}
_SCOPES: dict[str, Callable[[StmtReader, ast.Call, ast.With, ast.expr | None], n.Stmt]] = {
    "pl.at": StmtReader._at,
    "pl.cluster": StmtReader._cluster,
    "pl.spmd": StmtReader._spmd_with,
    "pl.scope": StmtReader._runtime,
    "pl.manual_scope": StmtReader._runtime,
    "pl.incore": StmtReader._legacy_incore,
    "pl.auto_incore": StmtReader._legacy_incore,
}
