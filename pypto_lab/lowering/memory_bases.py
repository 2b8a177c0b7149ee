"""The on-chip buffers of a function: which buffer each tile lies in, when each is in use, and moving tiles between
them.

Time is counted in statements: statement i reads at 2i and writes at 2i + 1. What a loop reads from outside is in use
until the loop ends; what it carries is in use from its entry to its last read, and again from the value that is
yielded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import MemorySpace
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import PTR, MemRef, TileType, Type, constant_dims, tile_layout
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering.memory_effects import written_argument
from pypto_lab.lowering.uses import definitions, expressions, statements
from pypto_lab.ops.record import OPS, Effect

VIEWS = ("tile.reshape", "tile.slice", "tile.set_validshape", "tile.transpose_view", "tile.reinterpret_view")
"""Ops whose result is another view of its operand's bytes."""

IN_PLACE = frozenset(
    f"tile.{name}"
    for name in (
        "add", "sub", "mul", "div", "maximum", "minimum", "and", "or",
        "adds", "subs", "muls", "divs", "maximums", "minimums", "ands", "ors", "shls", "shrs",
        "neg", "abs", "exp", "log", "sqrt", "rsqrt", "recip", "relu", "not", "cast",
        "row_expand_add", "row_expand_sub", "row_expand_mul", "row_expand_div", "row_expand_max", "row_expand_min",
        "row_expand_expdif", "row_expand", "col_expand", "sel", "sels",
        "col_expand_add", "col_expand_sub", "col_expand_mul", "col_expand_div", "col_expand_max", "col_expand_min",
        "col_expand_expdif",
    )
)  # fmt: skip
"""Ops that read each element before they write it: their result may take the place of an operand that lies alike. A
move is not one: a copy that lay where its source lies would move nothing."""


def base_of(value: n.Expr | Type) -> n.Var | None:
    """The buffer a tile lies in, None for one without a MemRef (a popped tile)."""
    type_ = value.type if isinstance(value, n.Expr) else value
    memref = type_.memref if isinstance(type_, TileType) else None
    return memref.base if memref is not None and isinstance(memref.base, n.Var) else None


def is_alloc(stmt: n.Stmt) -> bool:
    return isinstance(stmt, n.Assign) and isinstance(stmt.value, n.OpCall) and stmt.value.op == "tile.alloc"


def alloc_size(stmt: n.Assign) -> int:
    """Bytes an allocation takes."""
    assert isinstance(stmt.value, n.OpCall)
    return int(stmt.value.kwargs["size"])


def alloc_space(stmt: n.Assign) -> MemorySpace:
    """The memory an allocation is in."""
    assert isinstance(stmt.value, n.OpCall)
    space: MemorySpace = stmt.value.kwargs["memory_space"]
    return space


def new_alloc(name: str, space: MemorySpace, size: int, span: Span | None) -> n.Assign:
    """A statement that allocates a buffer."""
    kwargs = {"memory_space": space, "size": size}
    call = n.OpCall(op="tile.alloc", args=(), kwargs=kwargs, type=PTR, span=span)
    return n.Assign(var=n.Var(name=name, type=PTR, span=span), value=call, span=span)


def allocations(body: n.Body) -> dict[n.Var, n.Assign]:
    """The allocations at the head of a body, by buffer."""
    return {s.var: s for s in body if is_alloc(s) and isinstance(s, n.Assign)}


def address(value: int) -> n.Expr:
    return n.const(value, dtypes.INT64)


def with_memref(type_: TileType, memref: MemRef | None) -> TileType:
    return dataclasses.replace(type_, memref=memref)


# --- live ranges -----------------------------------------------------------------------------------------------------

Interval = tuple[int, int]


@dataclass(slots=True)
class LiveRanges:
    """When each variable that names a tile is in use."""

    intervals: dict[n.Var, Interval] = field(default_factory=dict)
    reads: dict[n.Var, list[int]] = field(default_factory=dict)
    branches: list[tuple[int, int, int]] = field(default_factory=list)
    """(start, start of the other arm, end) of each branch, outer ones after inner ones."""

    @staticmethod
    def of(body: n.Body) -> LiveRanges:
        ranges = LiveRanges()
        _Timer(ranges).block(body, ())
        return ranges

    def segments(self, var: n.Var) -> list[Interval]:
        """When a variable is in use: what only the second arm of a branch reads is free in the first."""
        parts = [self.intervals[var]]
        for start, middle, end in reversed(self.branches):
            for i, (first, last) in enumerate(parts):
                if first < start and middle < last < end:
                    before = max((at for at in self.reads.get(var, ()) if start < at < middle), default=start)
                    parts[i : i + 1] = [(first, before), (middle, last)]
                    break
        return parts

    def by_base(self) -> dict[n.Var, list[Interval]]:
        """When each buffer is in use, sorted."""
        found: dict[n.Var, list[Interval]] = {}
        for var in self.intervals:
            base = base_of(var)
            if base is not None:
                found.setdefault(base, []).extend(self.segments(var))
        return {base: sorted(parts) for base, parts in found.items()}


def overlap(one: Sequence[Interval], other: Sequence[Interval]) -> bool:
    """Whether two buffers are in use at the same time."""
    return any(a < d and c < b for a, b in one for c, d in other)


class _Timer:
    """Walks a body in order and records definitions and reads of tiles."""

    def __init__(self, ranges: LiveRanges) -> None:
        self.ranges = ranges
        self.clock = 0
        self.depth: dict[n.Var, int] = {}
        self.loops: list[n.Stmt] = []
        self.pending: list[list[n.Var]] = []

    def define(self, var: n.Var, at: int) -> None:
        if isinstance(var.type, TileType):
            self.ranges.intervals[var] = (at, at + 1)
            self.depth[var] = len(self.loops)

    def read(self, expr: n.Expr, at: int) -> None:
        if not isinstance(expr, n.Var) or expr not in self.ranges.intervals:
            return
        start, end = self.ranges.intervals[expr]
        self.ranges.intervals[expr] = (start, max(end, at))
        self.ranges.reads.setdefault(expr, []).append(at)
        for level in range(self.depth[expr], len(self.loops)):
            self.pending[level].append(expr)  # in use until the loop it is read in ends

    def block(self, body: Sequence[n.Stmt], into: Sequence[n.Var]) -> None:
        for stmt in body:
            self.one(stmt, into)

    def one(self, stmt: n.Stmt, into: Sequence[n.Var]) -> None:
        self.clock += 1
        at = 2 * self.clock
        match stmt:
            case n.Assign():
                self.operands(stmt.value, at, stmt.var)
                self.define(stmt.var, at + 1)
            case n.Eval():
                self.operands(stmt.expr, at, None)
            case n.For() | n.While():
                self.loop(stmt, at)
            case n.If():
                self.block(stmt.then_body, stmt.return_vars)
                self.clock += 1
                middle = 2 * self.clock
                self.block(stmt.else_body, stmt.return_vars)
                self.clock += 1
                self.ranges.branches.append((at, middle, 2 * self.clock))
                for var in stmt.return_vars:
                    self.define(var, 2 * self.clock + 1)
            case n.Scope():
                self.block(stmt.body, into)
            case _:
                for expr in expressions(stmt):
                    self.read(expr, at)

    def operands(self, value: n.Expr, at: int, result: n.Var | None) -> None:
        """An operand whose place the result must not take is in use while the result is written."""
        if not isinstance(value, n.OpCall):
            self.read(value, at)
            return
        for i, operand in enumerate(value.args):
            self.read(operand, at if result is None or _may_share(value, i) else at + 2)
        for kwarg in value.kwargs.values():
            if isinstance(kwarg, n.Expr):
                self.read(kwarg, at + 2)

    def loop(self, loop: n.For | n.While, at: int) -> None:
        for argument in loop.iter_args:
            self.read(argument.init_value, at)
        self.loops.append(loop)
        self.pending.append([])
        for argument in loop.iter_args:
            self.define(argument, at + 1)
        self.block(loop.body, loop.return_vars)
        self.clock += 1
        end = 2 * self.clock
        last = loop.body[-1] if loop.body else None
        for value in last.values if isinstance(last, n.Yield) else ():
            self.read(value, end)
        self.loops.pop()
        for var in self.pending.pop():
            first, latest = self.ranges.intervals[var]
            self.ranges.intervals[var] = (first, max(latest, end))
            self.ranges.reads[var].append(end)
        for result in loop.return_vars:
            self.define(result, end + 1)


def _may_share(call: n.OpCall, index: int) -> bool:
    """Whether the result may take the place of an operand that is read for the last time."""
    if call.op in VIEWS or written_argument(call) == index:
        return True
    op = OPS.get(call.op)
    if op is not None and index < len(op.args) and op.args[index].effect is Effect.NONE:
        return False
    operand, result = call.args[index].type, call.type
    if call.op not in IN_PLACE or not isinstance(operand, TileType) or not isinstance(result, TileType):
        return False
    return _lies_alike(operand, result) and result.dtype.bits <= operand.dtype.bits


def _lies_alike(operand: TileType, result: TileType) -> bool:
    """Whether two tiles hold the same elements in the same order in the same memory: an op that goes through them
    element by element then reads each one before the place it lies in is written."""
    shape = constant_dims(operand.shape)
    if shape is None or shape != constant_dims(result.shape) or operand.memory_space is not result.memory_space:
        return False
    return tile_layout(operand) == tile_layout(result)


# --- moving tiles between buffers ------------------------------------------------------------------------------------


class Rebase(Rewriter):
    """Puts tiles into other buffers: `bases` maps a buffer to the one that takes its place; `sizes` are the bytes of
    the buffers that stay, allocations of the others go."""

    def __init__(self, bases: Mapping[n.Var, n.Var], sizes: Mapping[n.Var, int] | None = None) -> None:
        super().__init__()
        self.bases = bases
        self.sizes = sizes or {}

    def type(self, type_: Any) -> Any:
        type_ = super().type(type_)
        base = base_of(type_) if isinstance(type_, TileType) else None
        if base is None or base not in self.bases:
            return type_
        return with_memref(type_, dataclasses.replace(type_.memref, base=self.bases[base]))

    def stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        if not is_alloc(node) or not isinstance(node, n.Assign):
            return node
        if self.bases.get(node.var, node.var) is not node.var:
            return ()
        size = self.sizes.get(node.var)
        assert isinstance(node.value, n.OpCall)
        if size is None or size == alloc_size(node):
            return node
        kwargs = {**node.value.kwargs, "size": size}
        return dataclasses.replace(node, value=dataclasses.replace(node.value, kwargs=kwargs))


def tile_vars(body: n.Body) -> list[n.Var]:
    """Variables of a body that name tiles, in order."""
    return [v for s in statements(body) for v in definitions(s) if isinstance(v.type, TileType)]
