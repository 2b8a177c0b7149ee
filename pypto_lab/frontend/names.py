"""Names of a kernel body: which variable a name is, where it came from, and when a re-binding makes a new variable.

Before SSA a name that is assigned again keeps its variable, so that loops carry it; `@pl.jit` bodies rename a plain
re-binding at the same depth to `x_v1` (`reference/language.md` 2.11, rule 6).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from pypto_lab.frontend.typing import is_known, mismatch, same_type
from pypto_lab.ir import nodes as n
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import Type


class BlockKind(Enum):
    FUNCTION = "function"
    SCOPE = "scope"
    LOOP = "loop"
    BRANCH = "branch"
    INLINE = "inline call"


@dataclass(eq=False)
class Block:
    """A block of statements being read."""

    kind: BlockKind
    parent: Block | None
    span: Span | None = None
    open: bool = True

    def ancestors(self) -> Iterator[Block]:
        """The block itself and everything around it."""
        block: Block | None = self
        while block is not None:
            yield block
            block = block.parent


@dataclass(frozen=True)
class Binding:
    """What a name means now. `clash` holds the other variable and place when two branches disagree on it."""

    var: n.Var
    block: Block
    span: Span | None
    clash: tuple[n.Var, Span | None] | None = None


@dataclass(frozen=True)
class Gone:
    """A name that existed: why it is not visible any more, and where it was."""

    reason: str
    span: Span | None


class Rebinding(Enum):
    """How an assignment writes a name that exists."""

    PLAIN = "plain"
    """`x = ...`: a jit body renames it at the same depth."""
    SAME = "same"
    """`x[...] = ...` and unpacking: the variable stays."""


class TypeChanged(Exception):
    """A name that a loop or branch must keep was re-bound with another type; `previous` is its old binding."""

    def __init__(self, previous: Binding) -> None:
        super().__init__(previous.var.name)
        self.previous = previous


@dataclass
class Names:
    """The names of one function body."""

    renames: bool = False
    block: Block = field(default_factory=lambda: Block(BlockKind.FUNCTION, None))
    bindings: dict[str, Binding] = field(default_factory=dict)
    gone: dict[str, Gone] = field(default_factory=dict)
    pool: dict[str, list[n.Var]] = field(default_factory=dict)

    def get(self, name: str) -> Binding | None:
        return self.bindings.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self.bindings

    def visible(self) -> list[str]:
        return list(self.bindings)

    @contextmanager
    def inside(self, kind: BlockKind, span: Span | None = None) -> Iterator[Block]:
        """Reads a nested block."""
        block = Block(kind, self.block, span)
        self.block = block
        try:
            yield block
        finally:
            block.open = False
            self.block = block.parent or block

    def declare(self, name: str, var: n.Var, span: Span | None) -> None:
        """Binds a name to a given variable (parameters, loop variables, loop results)."""
        self.bindings[name] = Binding(var, self.block, span)
        self.gone.pop(name, None)
        known = self.pool.setdefault(var.name, [])
        if var not in known:
            known.append(var)

    def forget(self, name: str, reason: str, previous: Binding | None = None) -> None:
        """Ends the visibility of a name; a shadowed binding comes back."""
        ended = self.bindings.pop(name, None)
        if previous is not None:
            self.bindings[name] = previous
        elif ended is not None:
            self.gone[name] = Gone(reason, ended.span)

    def assign(self, name: str, type_: Type, span: Span | None, how: Rebinding = Rebinding.PLAIN) -> n.Var:
        """The variable that an assignment of a value of `type_` writes. Raises TypeChanged."""
        old = self.bindings.get(name)
        var = self._fresh(name, type_, span) if old is None else self._rebound(name, old, type_, span, how)
        self.bindings[name] = Binding(var, self._home(old, var), span)
        self.gone.pop(name, None)
        return var

    def _home(self, old: Binding | None, var: n.Var) -> Block:
        """A variable lives where it was first assigned; a new one lives in the present block."""
        return old.block if old is not None and old.var is var and old.block.open else self.block

    def _rebound(self, name: str, old: Binding, type_: Type, span: Span | None, how: Rebinding) -> n.Var:
        if not is_known(old.var.type):
            return self._fresh(name, type_, span)
        here = old.block is self.block
        if not old.block.open:
            # A block beside this one made the name: it is a fresh local here (the same variable if it fits).
            return self._fresh(name, type_, span)
        if here and self.renames and how is Rebinding.PLAIN and self._may_rename(type_, old):
            return self._renamed(name, type_, span)
        if same_type(old.var.type, type_) or not is_known(type_):
            return old.var
        if mismatch(old.var.type, type_) is not None and not (here and self.renames):
            raise TypeChanged(old)
        if here or self._straight_line(old.block):
            return self._renamed(name, type_, span) if self.renames else self._fresh(name, type_, span)
        return old.var

    def _may_rename(self, type_: Type, old: Binding) -> bool:
        """Inside a branch a renamed variable would not meet the other branch's, so only a new type renames there."""
        if any(b.kind is BlockKind.BRANCH for b in self.block.ancestors()):
            return not same_type(old.var.type, type_)
        return True

    def _straight_line(self, home: Block) -> bool:
        """Whether every block between here and `home` runs exactly once."""
        for block in self.block.ancestors():
            if block is home:
                return True
            if block.kind in (BlockKind.LOOP, BlockKind.BRANCH):
                return False
        return False

    def _fresh(self, name: str, type_: Type, span: Span | None) -> n.Var:
        known = self.pool.setdefault(name, [])
        for var in known:
            if is_known(type_) and same_type(var.type, type_) and not isinstance(var, n.IterArg):
                return var
        var = n.Var(name=name, type=type_, span=span)
        known.append(var)
        return var

    def _renamed(self, name: str, type_: Type, span: Span | None) -> n.Var:
        version = 1
        while f"{name}_v{version}" in self.pool or f"{name}_v{version}" in self.bindings:
            version += 1
        var = n.Var(name=f"{name}_v{version}", type=type_, span=span)
        self.pool[var.name] = [var]
        return var

    def unique(self, name: str) -> str:
        """`name`, or `name_1`, `name_2` ... when it is taken."""
        taken = {*self.pool, *self.bindings}
        if name not in taken:
            return name
        count = 1
        while f"{name}_{count}" in taken:
            count += 1
        return f"{name}_{count}"

    def temporary(self, name: str, type_: Type, span: Span | None = None) -> n.Var:
        """A variable of the reader's own (`_tuple_tmp`), under a name nothing else uses."""
        var = n.Var(name=self.unique(name), type=type_, span=span)
        self.pool[var.name] = [var]
        return var

    def snapshot(self) -> dict[str, Binding]:
        return dict(self.bindings)

    def merge(self, before: Mapping[str, Binding], then: Mapping[str, Binding]) -> None:
        """Joins the two branches of an `if`: names of both stay visible, and a name that is another variable in each
        is marked, so that its use (not its existence) is an error."""
        for name, first in then.items():
            second = self.bindings.get(name)
            if second is None:
                self.bindings[name] = first
            elif not is_known(first.var.type) or not is_known(second.var.type):
                continue
            elif second.var is not first.var and before.get(name) not in (first, second):
                self.bindings[name] = Binding(second.var, second.block, second.span, (first.var, first.span))
            elif before.get(name) == second and first != second:
                self.bindings[name] = first
