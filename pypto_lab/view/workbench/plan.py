"""How a program lays its tiles out in on-chip memory: addresses, lifetimes, capacity and peak use of each space.

Read from the memory references of the program's types, so it needs no run; places count the statements of a function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pypto_lab.ir import nodes as n
from pypto_lab.ir.arith import constant
from pypto_lab.ir.enums import FunctionType, MemorySpace
from pypto_lab.ir.types import TileType
from pypto_lab.ir.visitor import walk
from pypto_lab.lowering.target import TARGETS

_RING_SPACE = {FunctionType.AIC: MemorySpace.Mat, FunctionType.AIV: MemorySpace.Vec}
"""Where a function's own queue buffer lies: the memory its side pops into."""


@dataclass(frozen=True, slots=True)
class PlannedTile:
    """A tile's bytes from the statement that makes it to the last one that needs it; `line` is its source line, 0
    where none is known. `ring` marks the buffer of a pipe, which the function holds throughout."""

    name: str
    address: int
    size: int
    begin: int
    end: int
    line: int
    ring: bool = False


@dataclass(frozen=True, slots=True)
class PlannedSpace:
    """One memory of one function. `capacity` is in bytes, None where the architecture is not known."""

    name: str
    capacity: int | None
    tiles: tuple[PlannedTile, ...]

    @property
    def top(self) -> int:
        """The first byte above all tiles."""
        return max(t.address + t.size for t in self.tiles)

    @property
    def peak(self) -> tuple[int, int]:
        """The most bytes in use at one statement (each byte once, however many tiles share it), and that statement."""
        best = (0, 0)
        for at in sorted({t.begin for t in self.tiles}):
            used = _covered((t.address, t.address + t.size) for t in self.tiles if t.begin <= at <= t.end)
            if used > best[0]:
                best = (used, at)
        return best

    def data(self) -> dict[str, Any]:
        peak, at = self.peak
        return {
            "space": self.name, "capacity": self.capacity, "peak": peak, "peakAt": at, "top": self.top,
            "tiles": [[t.name, t.address, t.size, t.begin, t.end, t.line, t.ring] for t in self.tiles],
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class FunctionMemory:
    function: str
    kind: str
    file: str
    spaces: tuple[PlannedSpace, ...]

    def data(self) -> dict[str, Any]:
        spaces = [s.data() for s in self.spaces]
        return {"function": self.function, "kind": self.kind, "file": self.file, "spaces": spaces}


def memory_plan(program: n.Program | n.Function | None, arch: str | None = None) -> list[FunctionMemory]:
    """The memory of each function whose tiles have addresses. `arch` ("a2a3", "a5") gives the capacities."""
    if program is None:
        return []
    functions = program.functions.values() if isinstance(program, n.Program) else [program]
    return [found for function in functions if (found := _function(function, arch)) is not None]


def _function(function: n.Function, arch: str | None) -> FunctionMemory | None:
    lives = _Lives()
    for param in function.params:
        lives.make(param.var, 0)
    lives.body(function.body or ())
    by_space: dict[MemorySpace, list[PlannedTile]] = {}
    for var, (begin, end, line) in lives.found.items():
        placed = _place(var)
        if placed is not None:
            space, address, size = placed
            by_space.setdefault(space, []).append(PlannedTile(var.name, address, size, begin, end, line))
    for space, ring in _rings(function, lives.at):
        by_space.setdefault(space, []).append(ring)
    if not by_space:
        return None
    capacity = TARGETS[arch].capacity if arch is not None and arch in TARGETS else {}
    spaces = tuple(
        PlannedSpace(space.name, capacity.get(space), tuple(sorted(tiles, key=lambda t: (t.begin, t.address))))
        for space, tiles in sorted(by_space.items(), key=lambda item: list(MemorySpace).index(item[0]))
    )
    file = next((s.span.file for s in walk(function) if getattr(s, "span", None) is not None), "")
    return FunctionMemory(function.name, function.func_type.name, file, spaces)


def _place(var: n.Var) -> tuple[MemorySpace, int, int] | None:
    kind = var.type
    if not isinstance(kind, TileType) or kind.memref is None or kind.memory_space is None:
        return None
    address = constant(kind.memref.offset)
    if address is None or address < 0 or kind.memref.size is None:
        return None
    return kind.memory_space, address, kind.memref.size


def _rings(function: n.Function, last: int) -> Iterator[tuple[MemorySpace, PlannedTile]]:
    """The buffers that a function reserves for what it pops."""
    space = _RING_SPACE.get(function.func_type)
    for node in walk(function):
        if space is None or not isinstance(node, n.OpCall) or node.op.rpartition(".")[2] != "reserve_buffer":
            continue
        base, size = node.kwargs.get("base"), node.kwargs.get("size")
        base, size = (constant(v) if isinstance(v, n.Expr) else v for v in (base, size))
        if isinstance(base, int) and isinstance(size, int) and base >= 0:
            name = str(node.kwargs.get("name", "ring"))
            yield space, PlannedTile(name, base, size, 0, last, node.span.line if node.span else 0, ring=True)


class _Lives:
    """Counts the statements of a function in order and notes for each tile where it is made and last needed."""

    def __init__(self) -> None:
        self.at = 0
        self.found: dict[n.Var, tuple[int, int, int]] = {}

    def make(self, var: n.Var, line: int) -> None:
        if isinstance(var.type, TileType):
            begin, end, known = self.found.get(var, (self.at, self.at, line))
            self.found[var] = (begin, max(end, self.at), known)

    def read(self, node: object) -> None:
        for found in walk(node):
            if isinstance(found, n.Var) and found in self.found:
                begin, end, line = self.found[found]
                self.found[found] = (begin, max(end, self.at), line)

    def body(self, body: Iterable[n.Stmt]) -> None:
        for stmt in body:
            self.statement(stmt)

    def statement(self, stmt: n.Stmt) -> None:
        self.at += 1
        line = stmt.span.line if stmt.span is not None else 0
        match stmt:
            case n.Assign():
                self.read(stmt.value)
                self.make(stmt.var, line)
            case n.If():
                self.read(stmt.condition)
                self.body(stmt.then_body)
                self.body(stmt.else_body)
                self.made(stmt.return_vars, line)
            case n.For() | n.While():
                self.loop(stmt, line)
            case n.Scope():
                self.body(stmt.body)
            case _:
                self.read(stmt)

    def made(self, variables: Iterable[n.Var], line: int) -> None:
        for var in variables:
            self.make(var, line)

    def loop(self, stmt: n.For | n.While, line: int) -> None:
        """What a loop reads from outside is needed until its last round, so to its end; so is what it carries."""
        outside, before = set(self.found), self.at
        for arg in stmt.iter_args:
            self.read(arg.init_value)
        self.made(stmt.iter_args, line)
        if isinstance(stmt, n.While):
            self.read(stmt.condition)
        self.body(stmt.body)
        for var, (begin, end, known) in list(self.found.items()):
            if var in stmt.iter_args or (var in outside and end > before):
                self.found[var] = (begin, self.at, known)
        self.made(stmt.return_vars, line)


def _covered(intervals: Iterable[tuple[int, int]]) -> int:
    total, reached = 0, -1
    for low, high in sorted(intervals):
        total += max(0, high - max(low, reached))
        reached = max(reached, high)
    return total
