"""Addresses: an independent liveness finds no two live tiles on the same bytes; alignment, capacity and peaks hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from lowering_cases import KERNELS, NAMES, lowered

import pypto_lab as lab
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import FunctionType, MemorySpace
from pypto_lab.ir.types import TileType
from pypto_lab.ir.visitor import walk
from pypto_lab.lowering.compare import ALLOWED_PEAK, peaks_of
from pypto_lab.lowering.target import ALIGNMENT, TARGETS

VIEWS = {"tile.reshape", "tile.slice", "tile.set_validshape", "tile.transpose_view", "tile.reinterpret_view"}
Bytes = tuple[MemorySpace, int, int]


def bytes_of(var: n.Var) -> Bytes | None:
    """(memory, first byte, end) of a tile with an address."""
    if not isinstance(var.type, TileType) or var.type.memref is None:
        return None
    memref = var.type.memref
    assert isinstance(memref.offset, n.ConstInt)
    assert memref.size is not None
    assert var.type.memory_space is not None
    return (var.type.memory_space, memref.offset.value, memref.offset.value + memref.size)


def meet(one: Bytes, other: Bytes) -> bool:
    return one[0] is other[0] and one[1] < other[2] and other[1] < one[2]


class Liveness:
    """Backward over the structure, to a fixpoint for loops. Where an op writes a tile, every other tile that is read
    later must lie on other bytes."""

    def __init__(self) -> None:
        self.clashes: list[str] = []

    def block(self, body: Sequence[n.Stmt], live: set[n.Var], yields: Sequence[n.Var]) -> set[n.Var]:
        for stmt in reversed(body):
            live = self.one(stmt, live, yields)
        return live

    def one(self, stmt: n.Stmt, live: set[n.Var], yields: Sequence[n.Var]) -> set[n.Var]:
        match stmt:
            case n.Assign():
                if not self.moves_nothing(stmt.value):
                    self.check(stmt.var, live)
                return (live - {stmt.var}) | self.tiles(stmt.value)
            case n.Eval():
                return live | self.tiles(stmt.expr)
            case n.Yield():
                carried = {v for v, into in zip(stmt.values, yields, strict=False) if isinstance(v, n.Var)}
                return live | {v for v in carried if isinstance(v.type, TileType)}
            case n.If():
                after = live - set(stmt.return_vars)
                return self.block(stmt.then_body, after, stmt.return_vars) | self.block(
                    stmt.else_body, after, stmt.return_vars
                )
            case n.For() | n.While():
                return self.loop(stmt, live - set(stmt.return_vars))
            case n.Scope():
                return self.block(stmt.body, live, yields)
        return live

    def loop(self, loop: n.For | n.While, after: set[n.Var]) -> set[n.Var]:
        arguments = set(loop.iter_args)
        back: set[n.Var] = set()
        while True:
            at_end = after | back
            start = self.block(loop.body, at_end, loop.return_vars) - arguments
            if start <= back:
                break
            back |= start
        starts = {a.init_value for a in loop.iter_args if isinstance(a.init_value, n.Var)}
        return after | back | {v for v in starts if isinstance(v.type, TileType)}

    @staticmethod
    def moves_nothing(value: n.Expr) -> bool:
        return isinstance(value, n.Var) or (isinstance(value, n.OpCall) and value.op in VIEWS)

    @staticmethod
    def tiles(value: n.Expr) -> set[n.Var]:
        operands = (*value.args, *value.kwargs.values()) if isinstance(value, n.OpCall) else (value,)
        return {v for v in operands if isinstance(v, n.Var) and isinstance(v.type, TileType)}

    def check(self, var: n.Var, live: set[n.Var]) -> None:
        mine = bytes_of(var)
        for other in live - {var}:
            theirs = bytes_of(other)
            if mine is not None and theirs is not None and meet(mine, theirs):
                self.clashes.append(f"{var.name} {mine} overwrites {other.name} {theirs}")


def on_core(program: n.Program) -> Iterator[n.Function]:
    return (f for f in program.functions.values() if f.func_type in (FunctionType.AIC, FunctionType.AIV))


def clashes_of(program: n.Program) -> list[str]:
    found = []
    for function in on_core(program):
        liveness = Liveness()
        liveness.block(function.body or (), set(), ())
        found += [f"{function.name}: {c}" for c in liveness.clashes]
    return found


def rings(function: n.Function) -> list[Bytes]:
    space = MemorySpace.Mat if function.func_type is FunctionType.AIC else MemorySpace.Vec
    calls = [c for c in walk(function) if isinstance(c, n.OpCall) and c.op == "system.reserve_buffer"]
    return [(space, c.kwargs["base"], c.kwargs["base"] + c.kwargs["size"]) for c in calls]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("arch", ["a2a3", "a5"])
def test_no_tile_is_written_over_one_that_is_read_later(name: str, arch: str) -> None:
    assert clashes_of(lowered(name, arch).program) == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("arch", ["a2a3", "a5"])
def test_a_move_has_memory_of_its_own(name: str, arch: str) -> None:
    """Where source and result of a move lie on the same bytes nothing is moved, and another layout would be read
    from cells that are half rewritten."""
    met = [
        stmt.var.name
        for function in on_core(lowered(name, arch).program)
        for stmt in walk(function)
        if isinstance(stmt, n.Assign) and isinstance(stmt.value, n.OpCall) and stmt.value.op == "tile.move"
        if isinstance(stmt.value.args[0], n.Var)
        if (mine := bytes_of(stmt.var)) is not None and (source := bytes_of(stmt.value.args[0])) is not None
        if meet(mine, source)
    ]
    assert met == []


def test_the_checker_finds_a_wrong_reuse() -> None:
    """The liveness of this file is no rubber stamp: two live tiles on the same bytes are found."""
    program = lowered("k01_chain_scalars").program
    function = next(on_core(program))
    places = {v: bytes_of(v) for v in walk(function) if isinstance(v, n.Var) and bytes_of(v) is not None}
    text = program.as_python()
    addresses = sorted({place[1] for place in places.values() if place is not None})
    assert len(addresses) > 1
    broken = lab.load(text.replace(f"pl.const({addresses[-1]}, pl.INT64)", "pl.const(0, pl.INT64)"))
    assert clashes_of(broken) != []


@pytest.mark.parametrize("name", NAMES)
def test_tiles_fit_and_leave_the_rings_alone(name: str) -> None:
    capacity = TARGETS["a2a3"].capacity
    for function in on_core(lowered(name).program):
        for var in {v for v in walk(function) if isinstance(v, n.Var)}:
            place = bytes_of(var)
            if place is None:
                continue
            assert 0 <= place[1] < place[2] <= capacity[place[0]]
            assert not any(meet(place, ring) for ring in rings(function)), var.name


@pytest.mark.parametrize("name", NAMES)
def test_buffers_start_at_multiples_of_32_bytes(name: str) -> None:
    for function in on_core(lowered(name).program):
        lowest: dict[n.Var, int] = {}
        for var in {v for v in walk(function) if isinstance(v, n.Var)}:
            place = bytes_of(var)
            if place is not None:
                base = var.type.memref.base  # type: ignore[attr-defined]
                lowest[base] = min(lowest.get(base, place[1]), place[1])
        assert [base.name for base, first in lowest.items() if first % ALIGNMENT] == []


REAL = sorted(p.parent.parent.name for p in KERNELS.parent.glob("dumps/*/passes_explicit/49_*.py"))


@pytest.mark.parametrize("name", REAL)
def test_peaks_stay_near_those_of_the_compiler(name: str) -> None:
    dump = next((KERNELS.parent / "dumps" / name / "passes_explicit").glob("49_*.py"))
    real, ours = peaks_of(lab.load(dump)), peaks_of(lowered(name).program)
    assert real
    assert {k: (ours.get(k, 0), v) for k, v in real.items() if ours.get(k, 0) > ALLOWED_PEAK * v} == {}
