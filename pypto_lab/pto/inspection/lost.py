"""Results that a build loses without a word: a tile that a loop carries and leaves elsewhere, a tile nobody reads."""

from __future__ import annotations

from collections.abc import Iterator

from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, Label
from pypto_lab.ir.enums import FunctionType
from pypto_lab.ir.types import TileType
from pypto_lab.ir.visitor import walk
from pypto_lab.pto import decode as p
from pypto_lab.pto.dialect.types import TileType as PtoTile
from pypto_lab.pto.inspection.findings import LOST_CARRY, NEVER_READ, warning

_KERNELS = (FunctionType.AIC, FunctionType.AIV, FunctionType.InCore)


def lost_carries(program: n.Program) -> Iterator[Diagnostic]:
    """Loops of a program with addresses whose body leaves a carried tile at another address than it reads it from.

    Nothing moves a tile at the end of a trip, so the next trip would read the old one (E678).
    """
    for function in program.functions.values():
        if function.func_type not in _KERNELS:
            continue
        for loop in walk(function):
            if isinstance(loop, (n.For, n.While)):
                yield from _of_loop(function, loop)


def _of_loop(function: n.Function, loop: n.For | n.While) -> Iterator[Diagnostic]:
    last = loop.body[-1] if loop.body else None
    values = last.values if isinstance(last, n.Yield) else ()
    for argument, value in zip(loop.iter_args, values, strict=False):
        here, there = _place(argument.init_value), _place(value)
        if here is None or there is None or here == there:
            continue
        message = (
            f"{function.name}: the loop carries `{_short(argument)}` at {here[0]} {here[1]}, and its body leaves the "
            f"new one at {there[0]} {there[1]}: no trip sees what the trip before has computed"
        )
        labels = (Label(value.span, "the new value"),) if value.span is not None else ()
        hint = "the compiler lost the copy; use `pl.range` with a carried tile, or store it and load it again"
        yield Diagnostic(LOST_CARRY, message, loop.span, labels=labels, hint=hint)


def _place(expr: n.Expr) -> tuple[str, int] | None:
    """(memory, first byte) of a tile whose address is known."""
    type_ = expr.type
    if not isinstance(type_, TileType) or type_.memref is None or type_.memory_space is None:
        return None
    offset = arith.constant(type_.memref.offset)
    return None if offset is None else (type_.memory_space.name.lower(), offset)


def _short(var: n.Var) -> str:
    return var.name.partition("__")[0]


# --- from the `.pto` alone --------------------------------------------------------------------------------------------

Place = tuple[str, int, int]
Writers = dict[Place, frozenset[p.Instruction]]
_CONTROL = ("scf.for", "scf.if", "scf.while")


def unread_tiles(function: p.Function) -> Iterator[Diagnostic]:
    """Tiles of a function that an op writes and nothing reads before they are overwritten or the kernel ends (W678).

    Only tiles at constant addresses are followed; a function that reads a tile by another way (a view, a pipe) is left
    alone where that tile is concerned.
    """
    walk_ = _Reads(function)
    walk_.body(function.body, {})
    for instruction in walk_.writes:
        if instruction not in walk_.read and instruction.span is not None:
            tile = instruction.out[0].name
            message = (
                f"{function.name}: {instruction.name} writes {tile}, and nothing reads it before it is overwritten"
            )
            source = f"from {instruction.source}" if instruction.source else ""
            yield warning(NEVER_READ, message, instruction.span, source or None)


class _Reads:
    """Which writes of tiles reach a read. Branches join, loops are walked twice."""

    def __init__(self, function: p.Function) -> None:
        self.read: set[p.Instruction] = set()
        self.writes: dict[p.Instruction, None] = {}
        self.places: dict[int, Place] = {}
        self.other: set[str] = set()
        """Memories in which something is read by a way that is not followed."""
        for instruction in function.body.walk():
            self._note(function, instruction)

    def _note(self, function: p.Function, instruction: p.Instruction) -> None:
        for result in instruction.results:
            if not isinstance(result.type, PtoTile):
                continue
            labels = instruction.attributes.get("labels", ())
            at = function.constant(instruction.operands[labels.index("addr")]) if "addr" in labels else None
            if instruction.name == "pto.alloc_tile" and at is not None:
                self.places[result.slot] = (result.type.space, at, at + result.type.size)
            else:
                self.other.add(result.type.space)

    def body(self, body: p.Body, state: Writers) -> Writers:
        for instruction in body.instructions:
            state = self.step(instruction, state)
        return state

    def step(self, instruction: p.Instruction, state: Writers) -> Writers:
        if instruction.name == "scf.if":
            ends = [self.body(block, dict(state)) for block in instruction.blocks]
            return _joined(*ends, *([state] if len(ends) < 2 else []))
        if instruction.blocks:
            for _ in range(2):
                after = state
                for block in instruction.blocks:
                    after = self.body(block, dict(after))
                state = _joined(state, after)
            return state
        for value in instruction.operands[: len(instruction.operands) - instruction.outs]:
            self._reads(value, state)
        if instruction.outs == 0:
            return state
        return self._writes(instruction, state)

    def _reads(self, value: p.Value, state: Writers) -> None:
        place = self.places.get(value.slot)
        for written, writers in state.items():
            if place is not None and _meet(place, written):
                self.read |= writers

    def _writes(self, instruction: p.Instruction, state: Writers) -> Writers:
        place = self.places.get(instruction.out[0].slot)
        if place is None or place[0] in self.other:
            return state
        self.writes.setdefault(instruction)
        kept = {w: i for w, i in state.items() if not _covers(place, w)}
        return {**kept, place: frozenset([instruction])}


def _meet(one: Place, other: Place) -> bool:
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]


def _covers(one: Place, other: Place) -> bool:
    return one[0] == other[0] and one[1] <= other[1] and other[2] <= one[2]


def _joined(*states: Writers) -> Writers:
    joined: Writers = {}
    for state in states:
        for place, writers in state.items():
            joined[place] = joined.get(place, frozenset()) | writers
    return joined
