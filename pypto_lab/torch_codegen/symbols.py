"""Dynamic dimensions: solved at a function's head from the extents of its tensor parameters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.types import ShapedType
from pypto_lab.torch_codegen.names import Names


@dataclass(frozen=True, slots=True)
class Source:
    """A parameter's axis whose extent is a linear form of symbols."""

    param: n.Var
    axis: int
    form: arith.Linear

    def symbols(self) -> dict[n.Var, int]:
        """Factor of each symbol."""
        return {e: c for c, e in self.form.terms.values() if isinstance(e, n.Var)}

    @property
    def is_linear(self) -> bool:
        return all(isinstance(e, n.Var) for _, e in self.form.terms.values())


def sources_of(function: n.Function) -> list[Source]:
    """Axes whose extents tell symbols that are not parameters themselves."""
    params = {p.var for p in function.params}
    found = []
    for param in function.params:
        if not isinstance(param.type, ShapedType):
            continue
        for axis, dim in enumerate(param.type.shape):
            if isinstance(dim, n.ConstInt):
                continue
            source = Source(param.var, axis, arith.linear_form(dim))
            if source.is_linear and source.symbols() and not set(source.symbols()) <= params:
                found.append(source)
    return found


def symbol_bindings(function: n.Function, names: Names, used: Iterable[n.Var]) -> list[tuple[n.Var, str]]:
    """(symbol, statement) for each symbol that is used or that several parameters state; `M = x.shape[0]`.

    Composite extents (`M * 2 + 1`) are solved; a symbol that appears in several is checked in all of them.
    """
    sources = sources_of(function)
    known = {p.var for p in function.params}
    wanted = set(used)
    statements: list[tuple[n.Var, str]] = []
    while True:
        ready = _solvable(sources, known)
        if not ready:
            return statements
        symbol, found = ready
        known.add(symbol)
        if symbol in wanted or len(found) > 1 or _needed(symbol, sources, known):
            statements.append((symbol, _statement(symbol, found, names)))


def _solvable(sources: list[Source], known: set[n.Var]) -> tuple[n.Var, list[Source]] | None:
    """The next symbol that known ones determine, with every axis that states it."""
    for source in sorted(sources, key=lambda s: (len(s.form.terms), abs(s.form.offset))):
        unknown = [v for v in source.symbols() if v not in known]
        if len(unknown) == 1:
            symbol = unknown[0]
            found = [s for s in sources if symbol in s.symbols() and set(s.symbols()) <= known | {symbol}]
            return symbol, found
    return None


def _needed(symbol: n.Var, sources: list[Source], known: set[n.Var]) -> bool:
    """Whether another symbol is solved with the help of this one."""
    return any(symbol in s.symbols() and set(s.symbols()) - known for s in sources)


def _statement(symbol: n.Var, found: list[Source], names: Names) -> str:
    name = names.of(symbol)
    first = found[0]
    if len(found) == 1 and first.form.offset == 0 and first.symbols() == {symbol: 1}:
        return f"{name} = {names.of(first.param)}.shape[{first.axis}]"
    rows = []
    for source in found:
        extent = f"{names.of(source.param)}.shape[{source.axis}]"
        others = [(c, v) for v, c in source.symbols().items() if v is not symbol]
        offset = " + ".join([*(f"{c} * {names.of(v)}" for c, v in others), str(source.form.offset)])
        rows.append(f'("{extent}", {extent}, {source.symbols()[symbol]}, {offset})')
    return f'{name} = _solve_dim("{symbol.name}", {", ".join(rows)})'
