"""Puts probes into the syntax tree of a script or of a plain torch function; source text is never edited.

Two kinds of probes. A *step* probe a statement appends (statement, frame, value) to the log: one call, no copying. A
*write* probe stands where a tensor is written in place and saves the bytes of that region before the write.

A statement whose value follows from its operands alone does not keep it: memory for every intermediate tile would cost
more than the kernel (fresh pages). Such a value is computed again from its recorded operands when somebody looks at it.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence
from typing import TypeVar

from pypto_lab.record.droppable import (
    FRESH_TORCH,
    Knowledge,
    bound_names,
    dotted,
    droppable,
    loads_of,
    names_in,
    parameter_names,
    root,
)
from pypto_lab.record.events import FunctionInfo, Statement, StepKind

EXTEND, ENTER, LEAVE, LOOP = "_pl_extend", "_pl_enter", "_pl_leave", "_pl_loop"
CONDITION, WRITE, PROXY, META, GUARD, FRAME, VALUE = (
    "_pl_condition", "_pl_write", "_pl_proxy", "_pl_meta", "_pl_guard", "_pl_frame", "_pl_value",
)  # fmt: skip
COPY = "_pl_copy"
PROBES = (EXTEND, ENTER, LEAVE, LOOP, CONDITION, WRITE, PROXY, META, GUARD, COPY)

CODE_ENTER, CODE_LEAVE, CODE_WRITE, CODE_INDEXED, CODE_META, CODE_EVENT, CODE_LOOP, CODE_CHANGE, CODE_BYTES = range(
    -1, -10, -1
)
"""What a log entry is that is no statement. `CODE_BYTES` is a write to a `LaneMemory` (`placed.py`)."""

VALID_ATTRIBUTE = "_pypto_valid_shape"

CREATORS = FRESH_TORCH | {"empty", "empty_like", "tensor", "rand", "randn"}

Node = TypeVar("Node", bound=ast.AST)


class Instrumenter:
    """Collects statements and functions over one or several trees (a script; a plain function and its helpers)."""

    def __init__(
        self,
        knowledge: Knowledge | None = None,
        *,
        keep_all: bool = False,
        containers: bool = False,
    ) -> None:
        self.knowledge = knowledge or Knowledge()
        self.keep_all = keep_all
        self.containers = containers
        self.functions: list[FunctionInfo] = []
        self.statements: list[Statement] = []
        self.expressions: dict[int, ast.expr] = {}
        self.loops = 0

    def module(self, tree: ast.Module, probed: Callable[[str], bool], text: str) -> ast.Module:
        """Puts probes into a script's tree, in place: steps in the functions `probed` picks, writes everywhere."""
        for node in tree.body:
            self._definition(node, probed, text.splitlines())
        return ast.fix_missing_locations(tree)

    def _definition(self, node: ast.stmt, probed: Callable[[str], bool], lines: Sequence[str]) -> None:
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                self._definition(inner, lambda name: False, lines)
        elif isinstance(node, ast.FunctionDef):
            if probed(node.name):
                self.function(node, lines)
            else:
                _Writes(self.knowledge, owned_names(node)).function(node)

    def function(self, node: ast.FunctionDef, lines: Sequence[str], file: str | None = None, shift: int = 0) -> None:
        """Puts probes into a function, in place. `shift` is added to line numbers (a function inside a file)."""
        _FunctionProbes(self, node, lines, file, shift).run()


class _FunctionProbes:
    """The rewriting of one function."""

    def __init__(
        self, owner: Instrumenter, node: ast.FunctionDef, lines: Sequence[str], file: str | None, shift: int
    ) -> None:
        self.owner, self.node, self.lines, self.shift = owner, node, lines, shift
        self.info = FunctionInfo(
            id=len(owner.functions),
            name=node.name,
            line=node.lineno + shift,
            parameters=tuple(parameter_names(node.args)),
            file=file,
        )
        owner.functions.append(self.info)
        self.writes = _Writes(owner.knowledge, frozenset())
        self.dropped = frozenset() if owner.keep_all else droppable(node, owner.knowledge)
        self.loops: list[int] = []

    def run(self) -> None:
        node = self.node
        node.args = self.writes.visit(node.args)
        node.returns = None
        self._register_entry()
        body = self._block(node.body)
        parameters = self._copied(ast.Tuple([_load(p) for p in self.info.parameters], ast.Load()))
        enter = _assign(FRAME, _call(ENTER, ast.Constant(self.info.id), parameters))
        leave = ast.Expr(_call(LEAVE, _load(FRAME)))
        guarded = ast.Try(body=body, handlers=[], orelse=[], finalbody=[leave])
        node.body = [_at(enter, node), _at(guarded, node)]

    # --- statements

    def _block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for node in body:
            out += self._statement(node)
        return out

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        match node:
            case ast.For():
                return self._for(node)
            case ast.While() | ast.If():
                return self._tested(node)
            case ast.With():
                return self._with(node)
            case ast.Try():
                return self._try(node)
            case ast.Return():
                return self._return(node)
            case ast.FunctionDef() | ast.ClassDef():
                if isinstance(node, ast.FunctionDef):
                    _Writes(self.owner.knowledge, owned_names(node)).function(node)
                return [node]
            case ast.Pass() | ast.Break() | ast.Continue() | ast.Global() | ast.Nonlocal() | ast.Raise():
                return [node]
            case _:
                return self._simple(node)

    def _simple(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return [node]  # a docstring
        targets = tuple(bound_names(node) or _mutated(node))
        dropped = id(node) in self.dropped
        statement = self._register(node, StepKind.STATEMENT, targets, recomputed=dropped)
        if dropped:
            assert isinstance(node, (ast.Assign, ast.AnnAssign))
            assert node.value is not None
            self.owner.expressions[statement.id] = copy.deepcopy(node.value)
        before = self.writes.before(node)
        node = self.writes.visit(node)
        out = [*before, node]
        value = ast.Constant(None) if dropped else self._copied(_value_of(targets))
        out.append(self._probe(statement, value, node))
        return [_at(n, node) for n in out]

    def _return(self, node: ast.Return) -> list[ast.stmt]:
        statement = self._register(node, StepKind.RETURN, ("return",) if node.value is not None else ())
        if node.value is None:
            return [self._probe(statement, ast.Constant(None), node), node]
        keep = _at(_assign(VALUE, self.writes.visit(node.value)), node)
        back = _at(ast.Return(_load(VALUE)), node)
        return [keep, self._probe(statement, self._copied(_load(VALUE)), node), back]

    def _for(self, node: ast.For) -> list[ast.stmt]:
        loop = self.owner.loops
        self.owner.loops += 1
        begin = self._entry(ast.Constant(CODE_LOOP), ast.Constant(loop), node)
        node.iter = self.writes.visit(node.iter)
        self.loops.append(loop)
        targets = tuple(names_in(node.target))
        statement = self._register(node, StepKind.LOOP, targets)
        head = ast.Expr(_call(LOOP, ast.Constant(statement.id), _load(FRAME), _value_of(targets)))
        node.body = [_at(head, node), *self._block(node.body)]
        self.loops.pop()
        node.orelse = self._block(node.orelse)
        return [begin, node, self._entry(ast.Constant(CODE_LOOP), ast.Constant(~loop), node)]

    def _tested(self, node: ast.While | ast.If) -> list[ast.stmt]:
        before: list[ast.stmt] = []
        after: list[ast.stmt] = []
        if isinstance(node, ast.While):
            loop = self.owner.loops
            self.owner.loops += 1
            before = [self._entry(ast.Constant(CODE_LOOP), ast.Constant(loop), node)]
            after = [self._entry(ast.Constant(CODE_LOOP), ast.Constant(~loop), node)]
            self.loops.append(loop)
        statement = self._register(node, StepKind.CONDITION, ("condition",))
        test = self.writes.visit(node.test)
        node.test = _at(_call(CONDITION, ast.Constant(statement.id), _load(FRAME), test), node)
        node.body = self._block(node.body)
        if isinstance(node, ast.While):
            self.loops.pop()
        node.orelse = self._block(node.orelse)
        return [*before, node, *after]

    def _with(self, node: ast.With) -> list[ast.stmt]:
        names: list[str] = []
        for item in node.items:
            item.context_expr = self.writes.visit(item.context_expr)
            names += names_in(item.optional_vars) if item.optional_vars is not None else []
        head: list[ast.stmt] = []
        if names:
            statement = self._register(node, StepKind.STATEMENT, tuple(names))
            head = [self._probe(statement, _value_of(tuple(names)), node)]
        node.body = [*head, *self._block(node.body)]
        return [node]

    def _try(self, node: ast.Try) -> list[ast.stmt]:
        node.body = self._block(node.body)
        for handler in node.handlers:
            handler.body = self._block(handler.body)
        node.orelse = self._block(node.orelse)
        node.finalbody = self._block(node.finalbody)
        return [node]

    # --- probes

    def _register_entry(self) -> None:
        """The statement of the steps that enter the function: its head."""
        node = self.node
        last = max(node.lineno, node.body[0].lineno - 1) if node.body else node.lineno
        head = " ".join(row.strip() for row in self.lines[node.lineno - 1 : last])
        self.owner.statements.append(
            Statement(
                id=len(self.owner.statements),
                function=self.info.id,
                kind=StepKind.ENTER,
                line=node.lineno + self.shift,
                end_line=node.lineno + self.shift,
                text=head.partition(":\n")[0],
                targets=self.info.parameters,
            )
        )

    def _register(
        self, node: ast.stmt, kind: StepKind, targets: tuple[str, ...], *, recomputed: bool = False
    ) -> Statement:
        header = node.end_lineno or node.lineno
        if isinstance(node, (ast.For, ast.While, ast.If, ast.With)):
            header = max(node.lineno, node.body[0].lineno - 1)
        rows = [row.strip() for row in self.lines[node.lineno - 1 : header]]
        statement = Statement(
            id=len(self.owner.statements),
            function=self.info.id,
            kind=kind,
            line=node.lineno + self.shift,
            end_line=header + self.shift,
            text=" ".join(rows),
            targets=targets,
            reads=tuple(dict.fromkeys(loads_of(node))),
            loops=tuple(self.loops),
            turns=isinstance(node, (ast.For, ast.While)),
            recomputed=recomputed,
            updates=self._updated(node),
        )
        self.owner.statements.append(statement)
        return statement

    def _updated(self, node: ast.stmt) -> str | None:
        """The variable a call like `_assemble(target, ...)` writes a region of."""
        call = getattr(node, "value", None)
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return None
        position = self.owner.knowledge.writes.get(call.func.id)
        if position is None or position >= len(call.args):
            return None
        target = call.args[position]
        return target.id if isinstance(target, ast.Name) else None

    def _copied(self, value: ast.expr) -> ast.expr:
        """Containers change in place without a trace, so a plain function's probes take a copy of the outside."""
        return _call(COPY, value) if self.owner.containers and not isinstance(value, ast.Constant) else value

    def _probe(self, statement: Statement, value: ast.expr, at: ast.stmt) -> ast.stmt:
        return self._entry(ast.Constant(statement.id), value, at)

    def _entry(self, code: ast.expr, value: ast.expr, at: ast.stmt) -> ast.stmt:
        entry = ast.Tuple([code, _load(FRAME), value], ast.Load())
        return _at(ast.Expr(_call(EXTEND, entry)), at)


class _Writes(ast.NodeTransformer):
    """Write probes: every syntactic form of an in-place write saves the region first.

    `owned` names hold tensors made in the same function (nobody recorded them yet), so their writes need no probe.
    """

    def __init__(self, knowledge: Knowledge, owned: frozenset[str]) -> None:
        self.knowledge, self.owned = knowledge, owned

    def function(self, node: ast.FunctionDef) -> None:
        """Instruments a function without steps, in place."""
        node.body = self._block(node.body)

    def _block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for node in body:
            for name in ("body", "orelse", "finalbody"):
                inner = getattr(node, name, None)
                if isinstance(inner, list) and inner and isinstance(inner[0], ast.stmt):
                    setattr(node, name, self._block(inner))
            for handler in getattr(node, "handlers", []):
                handler.body = self._block(handler.body)
            out += [_at(n, node) for n in self.before(node)]
            out.append(self._shallow(node))
        return out

    def _shallow(self, node: ast.stmt) -> ast.stmt:
        """Visits a statement's own expressions only; its blocks have been done."""
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(node, name, self.visit(value))
            elif isinstance(value, list) and value and isinstance(value[0], (ast.expr, ast.withitem, ast.keyword)):
                setattr(node, name, [self.visit(v) for v in value])
        return node

    def before(self, node: ast.stmt) -> list[ast.stmt]:
        """`x += y` may write a tensor in place: its probe is a statement before."""
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            return [] if node.target.id in self.owned else [_at(ast.Expr(_call(WRITE, _load(node.target.id))), node)]
        return []

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Store) and not self._is_owned(node.value):
            node.value = _at(_call(PROXY, node.value), node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Store) and node.attr == VALID_ATTRIBUTE:
            node.value = _at(_call(META, node.value), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        function = node.func
        if isinstance(function, ast.Attribute) and _writes_by_name(function.attr):
            base = root(function)
            if base in self.knowledge.torch_names and isinstance(function.value, (ast.Name, ast.Attribute)):
                node.args[:1] = [_at(_call(WRITE, a), node) for a in node.args[:1]]
            elif not self._is_owned(function.value):
                function.value = _at(_call(WRITE, function.value), node)
        for keyword in node.keywords:
            if keyword.arg == "out" and not self._is_owned(keyword.value):
                keyword.value = _at(_call(WRITE, keyword.value), node)
            if keyword.arg == "inplace" and node.args and not _is_false(keyword.value):
                node.args[0] = _at(_call(WRITE, node.args[0]), node)
        if isinstance(function, ast.Name) and function.id in ("delattr", "setattr") and _names_valid(node):
            node.args[0] = _at(_call(META, node.args[0]), node)
        elif self._needs_guard(function):
            node.func = _at(_call(GUARD, function), node)
        return node

    def _needs_guard(self, function: ast.expr) -> bool:
        name = dotted(function)
        return name is not None and self.knowledge.guarded(name)

    def _is_owned(self, node: ast.expr) -> bool:
        while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):  # views of it, too
            node = node.func if isinstance(node, ast.Call) else node.value
        return isinstance(node, ast.Name) and node.id in self.owned


# --- reading syntax trees --------------------------------------------------------------------------------------------


def owned_names(function: ast.FunctionDef) -> frozenset[str]:
    """Local names that only ever hold tensors created in the function itself (`out = torch.zeros(...)`)."""
    created: dict[str, int] = {}
    stored: dict[str, int] = dict.fromkeys(parameter_names(function.args), 1)
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored[node.id] = stored.get(node.id, 0) + 1
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            created[name] = created.get(name, 0) + _creates(node.value)
    return frozenset(name for name, count in created.items() if count == stored.get(name, 0))


def _creates(value: ast.expr) -> bool:
    if not isinstance(value, ast.Call):
        return False
    function = value.func
    if isinstance(function, ast.Attribute):
        return function.attr in CREATORS if root(function) == "torch" else function.attr == "clone"
    return isinstance(function, ast.Name) and function.id == "_undefined"


MUTATORS = frozenset(
    {"append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "sort", "reverse"}
)


def _mutated(node: ast.stmt) -> list[str]:
    """The container a bare method call changes: `parts.append(x)` counts as a new value of `parts`."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        function = node.value.func
        if function.attr in MUTATORS and isinstance(function.value, ast.Name):
            return [function.value.id]
    return []


def _writes_by_name(attribute: str) -> bool:
    return attribute.endswith("_") and not attribute.endswith("__") and not attribute.startswith("_")


def _names_valid(node: ast.Call) -> bool:
    return len(node.args) >= 2 and isinstance(node.args[1], ast.Constant) and node.args[1].value == VALID_ATTRIBUTE


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


# --- making nodes ----------------------------------------------------------------------------------------------------


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(_load(name), list(arguments), [])


def _assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _value_of(targets: tuple[str, ...]) -> ast.expr:
    if not targets:
        return ast.Constant(None)
    if len(targets) == 1:
        return _load(targets[0])
    return ast.Tuple([_load(t) for t in targets], ast.Load())


def _at(node: Node, place: ast.AST) -> Node:
    """Gives new nodes the line of the statement they belong to, so tracebacks stay right."""
    ast.copy_location(node, place)
    return ast.fix_missing_locations(node)
