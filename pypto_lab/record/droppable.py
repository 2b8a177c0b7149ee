"""Which statements of a function need not keep their value, because it follows from values that are recorded.

A value may be dropped when its expression is pure, every local name it reads is recorded, and every use of its name is
as an operand that is only read; then nobody else can hold it or write to it. Names carried from one loop iteration to
the next and every eighth link of a chain are kept, so that computing a value again takes a few statements at most.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

MAX_CHAIN = 8
"""Dropped values in a row, each computed from the one before, until one is kept."""

_FRESH = (
    "abs add addmm amax amin argmax argmin bitwise_and bitwise_or bitwise_xor bmm cat ceil clamp clip concat cos cumsum"
    " div eq erf exp exp2 eye floor floor_divide fmod full full_like ge gt isfinite isinf isnan le linspace log log2"
    " logical_and logical_or logical_not lt matmul max maximum mean min minimum mm mul ne neg ones ones_like outer pow"
    " prod reciprocal relu remainder round rsqrt sigmoid sign sin softmax sqrt square stack sub sum tanh topk tril triu"
    " trunc where zeros zeros_like arange sort gather index_select var std clone"
)
FRESH_TORCH = frozenset(_FRESH.split())
"""Functions (and methods) of torch whose result is new memory and depends on nothing but the operands."""


def _never(name: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What is known about the names a script or function uses.

    `fresh` functions are pure and return new memory; `pure` ones may return a view of an operand. `writes` gives, for
    functions that write an argument (or a copy of it) and return it, its position; `reads_only` the positions of
    arguments they only read (a store reads its tile). `constants` are
    global names with immutable values. `kept` are names that must be kept (a host looks at them by reference).
    `guarded` tells of a dotted name whether calls of it must be watched for writes, its body not being instrumented.
    """

    fresh: frozenset[str] = frozenset()
    pure: frozenset[str] = frozenset()
    writes: Mapping[str, int] = field(default_factory=dict)
    reads_only: Mapping[str, frozenset[int]] = field(default_factory=dict)
    constants: frozenset[str] = frozenset()
    torch_names: frozenset[str] = frozenset({"torch"})
    guarded: Callable[[str], bool] = _never


def droppable(function: ast.FunctionDef, knowledge: Knowledge) -> frozenset[int]:
    """Identities (`id`) of the assignments of a function whose value may be computed again instead of kept."""
    scopes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.Global, ast.Nonlocal)
    if any(isinstance(n, scopes) for n in ast.walk(function) if n is not function):
        return frozenset()
    bindings = _Bindings(function)
    purity = _Purity(knowledge, bindings.recorded)
    names = {n for n, values in bindings.plain.items() if all(purity.droppable(v) for v in values)}
    names -= bindings.otherwise | _carried(function.body) | _escaping(function.body, knowledge, purity)
    names = _without_aliases(names, bindings, purity)
    return _bounded(function.body, names)


class _Bindings:
    """How the names of a function are bound: `plain` by single assignments only (name -> their values), `otherwise` in
    any other way; `recorded` are those whose binding a probe sees."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self.plain: dict[str, list[ast.expr]] = {}
        self.otherwise: set[str] = set(parameter_names(function.args))
        self.recorded: set[str] = set(self.otherwise)
        for node in statements(function.body):
            target = single_target(node)
            if target is not None:
                self.plain.setdefault(target[0], []).append(target[1])
                self.recorded.add(target[0])
                continue
            bound = bound_names(node)
            self.otherwise.update(bound)
            self.recorded.update(bound)
        stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        hidden = stored - self.recorded
        for inner in ast.walk(function):
            if isinstance(inner, (ast.comprehension, ast.NamedExpr)):
                hidden.update(names_in(inner.target))
        self.recorded -= hidden
        self.otherwise |= hidden


class _Purity:
    """Which expressions follow from recorded values alone."""

    def __init__(self, knowledge: Knowledge, recorded: set[str]) -> None:
        self.knowledge, self.recorded = knowledge, recorded

    def droppable(self, value: ast.expr) -> bool:
        """A computation, not a mere name, constant, attribute or display (those share their object)."""
        return isinstance(value, (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare)) and self.pure(value)

    def pure(self, node: ast.expr) -> bool:
        match node:
            case ast.Constant():
                return True
            case ast.Name():
                return node.id in self.recorded or node.id in self.knowledge.constants
            case ast.BinOp():
                return self.pure(node.left) and self.pure(node.right)
            case ast.UnaryOp():
                return self.pure(node.operand)
            case ast.Compare():
                identity = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
                parts = [node.left, *node.comparators]
                return not any(isinstance(o, identity) for o in node.ops) and all(self.pure(p) for p in parts)
            case ast.Attribute():
                return root(node) in self.knowledge.torch_names
            case ast.Call():
                return self._call(node)
            case _:
                return False

    def _call(self, node: ast.Call) -> bool:
        operands = [*node.args, *(k.value for k in node.keywords)]
        if any(k.arg in (None, "out", "inplace") for k in node.keywords):
            return False
        if not all(self.pure(e) for operand in operands for e in display(operand)):
            return False
        return self._fresh_function(node.func) or self.may_alias(node)

    def _fresh_function(self, function: ast.expr) -> bool:
        if isinstance(function, ast.Name):
            return function.id in self.knowledge.fresh
        if not isinstance(function, ast.Attribute) or function.attr not in FRESH_TORCH:
            return False
        return root(function) in self.knowledge.torch_names or self.pure(function.value)

    def may_alias(self, node: ast.expr) -> bool:
        """Whether an expression may be a view of one of its operands."""
        if not isinstance(node, ast.Call):
            return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd)
        return isinstance(node.func, ast.Name) and node.func.id in self.knowledge.pure


def _escaping(body: Sequence[ast.stmt], knowledge: Knowledge, purity: _Purity) -> set[str]:
    """Names used in another way than as an operand that is only read: returned, passed on, put into a container."""
    out: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.expr) and purity.droppable(node):
            return
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                out.add(node.id)
            return
        skipped: frozenset[int] = frozenset()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            skipped = knowledge.reads_only.get(node.func.id, frozenset())
        for child in ast.iter_child_nodes(node):
            read_only = isinstance(node, ast.Call) and child in [node.args[i] for i in skipped if i < len(node.args)]
            if not (read_only and isinstance(child, ast.Name)):
                visit(child)

    for node in statements(body):
        for expression in own_expressions(node):
            visit(expression)
    return out


def _carried(body: Sequence[ast.stmt]) -> set[str]:
    """Names a loop's body both binds and (somewhere before it surely has) reads: they live across iterations."""
    out: set[str] = set()
    for loop in statements(body):
        if not isinstance(loop, (ast.For, ast.While)):
            continue
        set_inside = {t[0] for n in statements(loop.body) if (t := single_target(n)) is not None}
        surely: set[str] = set()
        for node in loop.body:
            for inner in statements([node]):
                out.update(set(loads_of(inner)) & set_inside - surely)
            target = single_target(node)
            if target is not None:
                surely.add(target[0])
    return out


def _without_aliases(names: set[str], bindings: _Bindings, purity: _Purity) -> set[str]:
    """Drops are sound for a possible view only together: the view and everything it may be a view of."""
    while True:
        bad: set[str] = set()
        for name, values in bindings.plain.items():
            for value in values:
                if not any(purity.may_alias(n) for n in ast.walk(value) if isinstance(n, ast.expr)):
                    continue
                operands = set(loads(value)) & (bindings.otherwise | set(bindings.plain))
                if name not in names:
                    bad |= operands & names
                elif operands - names:
                    bad.add(name)
        if not bad:
            return names
        names = names - bad


def _bounded(body: Sequence[ast.stmt], names: set[str]) -> frozenset[int]:
    out: set[int] = set()
    depth: dict[str, int] = {}
    for node in statements(body):
        target = single_target(node)
        if target is None or target[0] not in names:
            continue
        links = 1 + max((depth.get(read, 0) for read in loads(target[1])), default=0)
        depth[target[0]] = links % MAX_CHAIN
        if links < MAX_CHAIN:
            out.add(id(node))
    return frozenset(out)


# --- reading syntax trees --------------------------------------------------------------------------------------------


def display(node: ast.expr) -> Sequence[ast.expr]:
    """The elements of a list or tuple display (nested ones opened), else the node itself."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return [e for element in node.elts for e in display(element)]
    return [node]


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements in source order, blocks entered."""
    for node in body:
        yield node
        for block in blocks(node):
            yield from statements(block)


def blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The statement lists inside a statement."""
    for name in ("body", "orelse", "finalbody"):
        inner = getattr(node, name, None)
        if isinstance(inner, list):
            yield inner
    for part in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
        yield part.body


def own_expressions(node: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement itself, not those of its blocks."""
    for _, value in ast.iter_fields(node):
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.expr):
                yield item
            elif isinstance(item, ast.withitem):
                yield item.context_expr


def loads(node: ast.AST) -> Iterator[str]:
    for n in ast.walk(node):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load):
            yield n.id


def loads_of(node: ast.stmt) -> Iterator[str]:
    """Names a statement reads itself (of a loop or branch: its header), names of called functions left out."""
    for expression in own_expressions(node):
        called = {id(n.func) for n in ast.walk(expression) if isinstance(n, ast.Call)}
        for n in ast.walk(expression):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and id(n) not in called:
                yield n.id
    if isinstance(node, ast.AugAssign):
        yield from names_in(node.target)


def single_target(node: ast.stmt) -> tuple[str, ast.expr] | None:
    """(name, value) of `name = value`, None for any other statement."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        return node.target.id, node.value
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id, node.value
    return None


def bound_names(node: ast.stmt) -> list[str]:
    """Names a statement binds; for `out[...] = v` the base name, whose content changes."""
    targets: list[ast.expr] = []
    match node:
        case ast.Assign():
            targets = list(node.targets)
        case ast.AnnAssign() if node.value is not None:
            targets = [node.target]
        case ast.AugAssign() | ast.For():
            targets = [node.target]
        case ast.With():
            targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
        case _:
            pass
    return list(dict.fromkeys(name for target in targets for name in names_in(target)))


def names_in(target: ast.expr) -> list[str]:
    match target:
        case ast.Name():
            return [target.id]
        case ast.Tuple() | ast.List():
            return [n for e in target.elts for n in names_in(e)]
        case ast.Starred() | ast.Subscript() | ast.Attribute():
            return names_in(target.value)
        case _:
            return []


def parameter_names(arguments: ast.arguments) -> list[str]:
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    names += [arguments.vararg.arg] if arguments.vararg else []
    names += [a.arg for a in arguments.kwonlyargs]
    return names + ([arguments.kwarg.arg] if arguments.kwarg else [])


def root(node: ast.expr) -> str | None:
    """The leftmost name of `a.b.c`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def dotted(node: ast.expr) -> str | None:
    """`a.b.c` as text, None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return None if base is None else f"{base}.{node.attr}"
    return None
