"""Two `.pto` texts of the same kernel side by side: signatures, pipe setup, and ops counted by what they do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from pypto_lab.pto.parse import Unit

PIPE_SETUP = frozenset(
    {
        "pto.reserve_buffer", "pto.import_reserved_buffer", "pto.aic_initialize_pipe", "pto.aiv_initialize_pipe",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """Ops that stand a different number of times in the two texts of a function."""

    function: str
    op: str
    detail: str
    ours: int
    theirs: int
    placement: bool = False
    """Whether only the address differs: both texts have as many such ops, somewhere."""

    def __str__(self) -> str:
        return f"{self.function}: {self.op} x{self.ours} here, x{self.theirs} there: {self.detail}"


@dataclass(frozen=True, slots=True)
class UnitComparison:
    """`ours` against `theirs`. Ops count as equal by name, constant operands, types and attributes; value names and
    the order of ops do not count. `same_order` says whether the order of ops is the same too."""

    signatures: bool
    pipes: bool
    ops: int
    differences: tuple[Difference, ...]
    same_order: bool

    @property
    def same(self) -> bool:
        return self.signatures and self.pipes and not self.differences

    @property
    def same_ops(self) -> bool:
        """Whether the ops are the same, wherever tiles lie."""
        return all(d.placement for d in self.differences)

    @property
    def moved(self) -> int:
        """How many tiles lie elsewhere."""
        return sum(max(d.ours - d.theirs, 0) for d in self.differences if d.placement)


def compare(ours: Unit, theirs: Unit) -> UnitComparison:
    """Compares two units function by function."""
    names = dict.fromkeys([*ours.functions, *theirs.functions])
    differences: list[Difference] = []
    pipes = order = True
    count = 0
    for name in names:
        left, right = (list(_ops(unit.functions.get(name))) for unit in (ours, theirs))
        told = [[(op.name, _told(op)) for op in side] for side in (left, right)]
        count += len(right)
        pipes &= [t for t in told[0] if t[0] in PIPE_SETUP] == [t for t in told[1] if t[0] in PIPE_SETUP]
        order &= told[0] == told[1]
        differences += _differences(name, Counter(told[0]), Counter(told[1]))
    same = {n: _signature(f) for n, f in ours.functions.items()} == {
        n: _signature(f) for n, f in theirs.functions.items()
    }
    return UnitComparison(same and ours.arch == theirs.arch, pipes, count, tuple(differences), order)


def _differences(name: str, ours: Counter[tuple[str, str]], theirs: Counter[tuple[str, str]]) -> Iterator[Difference]:
    anywhere = [_without_addresses(side) for side in (ours, theirs)]
    for key in sorted(set(ours) | set(theirs)):
        if ours[key] != theirs[key]:
            rest = (key[0], _ADDRESS.sub("(", key[1]))
            placement = key[0] == "pto.alloc_tile" and anywhere[0][rest] == anywhere[1][rest]
            yield Difference(name, key[0], key[1], ours[key], theirs[key], placement)


_ADDRESS = re.compile(r"^\(-?\d+ : i64, ")
"""The address of an allocation as `_told` writes it."""


def _without_addresses(ops: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    counted: Counter[tuple[str, str]] = Counter()
    for (op, detail), count in ops.items():
        counted[op, _ADDRESS.sub("(", detail)] += count
    return counted


def _signature(function: FuncOp) -> tuple[str, ...]:
    """Parameter types, the names that are fixed, and the kind of core."""
    return (*(str(a.type) for a in function.body.blocks[0].args), str(function.attributes.get("pto.kernel_kind")))


def _ops(function: FuncOp | None) -> Iterator[Operation]:
    """Ops in order, without constants: those show in what uses them."""
    if function is None:
        return
    for op in function.walk():
        if op is not function and not isinstance(op, ConstantOp) and not _bare_yield(op):
            yield op


def _bare_yield(op: Operation) -> bool:
    return op.name == "scf.yield" and not op.operands


def _told(op: Operation) -> str:
    operands = ", ".join(_operand(v) for v in op.operands)
    results = ", ".join(str(r.type) for r in op.results)
    said = {**op.attributes, **op.properties}
    attributes = ", ".join(f"{k}={v}" for k, v in sorted(said.items()))
    regions = ", ".join(str(len(r.blocks)) for r in op.regions)
    return f"({operands}) -> ({results}) {{{attributes}}} [{regions}]"


def _operand(value: SSAValue) -> str:
    owner = value.owner
    return str(owner.value) if isinstance(owner, ConstantOp) else str(value.type)
