"""Names of a dump: variables in view inside a function, dynamic dimensions of the whole program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, Severity
from pypto_lab.ir.equal import types_equal
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import UNKNOWN, Type, UnknownType

FREE_SUFFIX = "__FREE_VAR"
KEPT = "nothing is to be done: what a newer compiler writes is kept and printed again"
_PRINTED = "the compiler's printer writes the marker; look for the definition in the dump before"
_CLASH = re.compile(r"_\d+$")


@dataclass
class Findings:
    """Errors and notes of one reading. A note is given once for each thing it is about."""

    errors: list[Diagnostic] = field(default_factory=list)
    notes: list[Diagnostic] = field(default_factory=list)
    _seen: set[tuple[str, str]] = field(default_factory=set)

    def note(self, code: str, about: str, message: str, span: Span | None, hint: str | None = None) -> None:
        if (code, about) not in self._seen:
            self._seen.add((code, about))
            self.notes.append(Diagnostic(code, message, span, Severity.NOTE, hint=hint))


@dataclass
class Symbols:
    """Dynamic dimensions: one variable a name in the whole program (language.md 0, fact 6).

    `scalars` are scalar parameters of any function: a dimension named like one *is* that parameter.
    """

    known: dict[str, n.Var] = field(default_factory=dict)
    declared: list[str] = field(default_factory=list)
    scalars: dict[str, n.Var] = field(default_factory=dict)

    def declare(self, name: str, span: Span | None) -> None:
        if name not in self.known:
            self.known[name] = n.Var(name=name, type=n.INDEX, span=span)
            self.declared.append(name)

    def scalar_param(self, name: str, type_: Type, span: Span) -> n.Var:
        """The variable of a scalar parameter; the declared dimension of that name when there is one."""
        if name in self.known:
            symbol = self.known[name]
            if not types_equal(symbol.type, type_):
                symbol = self.known[name] = n.Var(name=name, type=type_, span=span)
            self.scalars.setdefault(name, symbol)
            return symbol
        var = n.Var(name=name, type=type_, span=span)
        self.scalars.setdefault(name, var)
        return var

    def dimension(self, name: str, span: Span | None, findings: Findings) -> n.Var:
        """The dimension of a name that is nothing else in view; made on first sight."""
        var = self.known.get(name)
        if var is None:
            var = self.scalars.get(name)
            if var is None:
                var = n.Var(name=name, type=n.INDEX, span=span)
                declare = f'declare it: `{name} = pl.dynamic("{name}")`'
                findings.note("N308", name, f"`{name}` is a dimension that nothing declares", span, declare)
            self.known[name] = var
        return var


class Names:
    """Variables in view. A definition inside a block with results ends with the block; other blocks leak."""

    def __init__(self, symbols: Symbols, findings: Findings) -> None:
        self.symbols = symbols
        self.findings = findings
        self.visible: dict[str, n.Var] = {}
        self.retired: dict[str, n.Var] = {}
        self._log: list[tuple[str, n.Var | None]] = []

    def bind(self, var: n.Var) -> n.Var:
        """Brings a new variable into view."""
        self._log.append((var.name, self.visible.get(var.name)))
        self.visible[var.name] = var
        return var

    def unbind(self, var: n.Var) -> None:
        """Takes a loop variable out of view after its loop."""
        if self.visible.get(var.name) is var:
            del self.visible[var.name]
            self.retired[var.name] = var

    def assign(self, name: str, type_: Type, span: Span | None) -> n.Var:
        """The variable an assignment defines: the one in view when its type agrees (before SSA), else a new one."""
        old = self.visible.get(name)
        if old is not None and (
            old.type is type_ or isinstance(type_, UnknownType) or types_equal(old.type, type_, memrefs=False)
        ):
            return old
        return self.bind(n.Var(name=name, type=type_, span=span))

    @contextmanager
    def block(self, leaks: bool) -> Iterator[None]:
        mark = len(self._log)
        try:
            yield
        finally:
            if not leaks:
                self._unwind(mark)

    def _unwind(self, mark: int) -> None:
        while len(self._log) > mark:
            name, old = self._log.pop()
            gone = self.visible.pop(name, None)
            if gone is not None:
                self.retired[name] = gone
            if old is not None:
                self.visible[name] = old

    def use(self, name: str, span: Any) -> n.Var | None:
        """The variable at a use, None when the name means nothing. `span` is called only for notes."""
        var = self.visible.get(name) or self.symbols.known.get(name)
        if var is not None:
            return var
        if name.endswith(FREE_SUFFIX):
            return self._free(name[: -len(FREE_SUFFIX)], span)
        var = self.retired.get(name)
        if var is not None:
            self.findings.note("N309", name, f"`{name}` is used outside the block that defines it", span())
        return var

    def _free(self, name: str, span: Any) -> n.Var:
        """What a `NAME__FREE_VAR` stands for: the carried value of that name (language.md, appendix E)."""
        for candidate in (name, _CLASH.sub("", name)):
            var = self.visible.get(candidate)
            if var is not None:
                message = f"`{name}{FREE_SUFFIX}` marks a use without a definition; read as `{candidate}`"
                self.findings.note("N306", name, message, span(), _PRINTED)
                return var
        marker = name + FREE_SUFFIX
        self.findings.note("N306", name, f"`{marker}` is a use that nothing defines", span(), _PRINTED)
        gone = self.retired.get(name) or self.retired.get(marker)
        if gone is None:  # later uses of the marker mean the same variable
            gone = self.retired[marker] = n.Var(name=marker, type=UNKNOWN, span=span())
        return gone

    def dimension(self, name: str, span: Span | None) -> n.Var:
        """The variable a name means inside a type."""
        var = self.visible.get(name) or self.symbols.known.get(name) or self.retired.get(name)
        return self.symbols.dimension(name, span, self.findings) if var is None else var
