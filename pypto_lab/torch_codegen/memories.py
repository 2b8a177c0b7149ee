"""Where tiles live in a script by addresses: which variables are views of a core's memories, and at which bytes.

By names every value is a tensor of its own. By addresses a tile with a MemRef is a view of the bytes the compiler gave
it; yields and views move nothing. Tiles without one (popped tiles and what aliases them) and tensors stay by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.types import MemRef, TileType, Type
from pypto_lab.ir.visitor import walk
from pypto_lab.torch_codegen.liveness import PUSHES, Decision, Plan, written_by_name
from pypto_lab.torch_codegen.liveness import Program as PlannedProgram

MEMORIES = ("names", "addresses")
ARCHITECTURES = ("a2a3", "a5")
MOVES_NOTHING = frozenset(
    {"tile.slice", "tile.reshape", "tile.transpose_view", "tile.reinterpret_view", "tile.set_validshape", "tile.view"}
)
"""Ops whose result is another view of its operand's bytes."""

Show = Callable[[n.Expr], str]


@dataclass(frozen=True, slots=True)
class Place:
    """The bytes [start, end) of a tile: in a memory of the core, or (`addressed` false) in the buffer `base`."""

    space: str
    base: str
    start: int
    end: int
    addressed: bool

    def overlaps(self, other: Place) -> bool:
        same = self.space == other.space if self.addressed and other.addressed else self.base == other.base
        return same and self.start < other.end and other.start < self.end

    def __str__(self) -> str:
        where = f"{self.space}[{self.start}:{self.end}]"
        return f"{self.base} at {where}" if self.addressed else f"{self.base}[{self.start}:{self.end}] in {self.space}"


def check_memory(memory: str, arch: str) -> None:
    """Raises LabError E509 for a memory or an architecture there is not."""
    for what, value, choices in (("memory", memory, MEMORIES), ("arch", arch, ARCHITECTURES)):
        if value not in choices:
            raise LabError([Diagnostic("E509", f"no {what} `{value}`", hint=f"one of {', '.join(choices)}")])


def memref_of(type_: Type) -> MemRef | None:
    """The bytes of a tile, when its type gives them in a buffer that a `tile.alloc` made."""
    memref = type_.memref if isinstance(type_, TileType) else None
    if memref is None or memref.declared or memref.offset is None or not isinstance(memref.base, n.Var):
        return None
    return memref


def is_addressed(functions: Mapping[str, n.Function]) -> bool:
    """Whether offsets are addresses in a core's memories: some tile lies outside its own allocation."""
    for function in functions.values():
        sizes = _allocations(function)
        for var in {x for x in walk(function) if isinstance(x, n.Var)}:
            memref = memref_of(var.type)
            if memref is None or memref.size is None or not isinstance(memref.offset, n.ConstInt):
                continue
            size = sizes.get(memref.base) if isinstance(memref.base, n.Var) else None
            if size is not None and memref.offset.value + memref.size > size:
                return True
    return False


def _allocations(function: n.Function) -> dict[n.Var, int]:
    """Bytes of each buffer a function allocates."""
    found: dict[n.Var, int] = {}
    for node in walk(function):
        if isinstance(node, n.Assign) and isinstance(node.value, n.OpCall) and node.value.op == "tile.alloc":
            size = node.value.kwargs.get("size")
            found[node.var] = size if isinstance(size, int) else getattr(size, "value", 0)
    return found


class Memories:
    """The tiles of one function that live at addresses."""

    def __init__(self, function: n.Function, dtypes: Mapping[DType, str], *, addressed: bool) -> None:
        self.buffers = _allocations(function)
        self.addressed = addressed
        self._dtypes = dtypes

    def __bool__(self) -> bool:
        return bool(self.buffers)

    def memref(self, type_: Type) -> MemRef | None:
        """The bytes a value of this type lives in; None for one that lives by name."""
        memref = memref_of(type_)
        if memref is None or memref.base not in self.buffers or not isinstance(type_, TileType):
            return None
        return memref if type_.dtype in self._dtypes else None

    def place(self, type_: Type) -> Place | None:
        """The bytes as numbers, when they are known before the run."""
        memref = self.memref(type_)
        if memref is None or not isinstance(memref.offset, n.ConstInt) or not isinstance(type_, TileType):
            return None
        slot = 0 if memref.slot is None else getattr(memref.slot, "value", None)
        if slot is None or memref.size is None or not isinstance(memref.base, n.Var):
            return None
        space = "?" if type_.memory_space is None else type_.memory_space.name
        start = memref.offset.value + slot * memref.size
        return Place(space, memref.base.name, start, start + memref.size, self.addressed)

    def same(self, a: Type, b: Type) -> bool:
        """Whether two tiles start at the same byte."""
        first, second = self.memref(a), self.memref(b)
        if first is None or second is None:
            return False
        return first.base is second.base and _key(first.offset) == _key(second.offset) and first.slot is second.slot

    def share(self, a: Type, b: Type) -> bool:
        """Whether two tiles lie in one buffer."""
        first, second = self.memref(a), self.memref(b)
        return first is not None and second is not None and first.base is second.base

    def address(self, memref: MemRef, show: Show) -> str:
        """`buffer, offset` as text."""
        assert isinstance(memref.base, n.Var)
        assert memref.offset is not None
        offset = show(memref.offset)
        if memref.slot is not None:
            offset = f"{offset} + {show(memref.slot)} * {memref.size}"
        return f"{show(memref.base)}, {offset}"

    def plan(self, plan: Plan, function: n.Function, program: PlannedProgram) -> Plan:
        """The plan by addresses: memory is written where it lies, whoever reads it later; what is pushed is copied."""
        decisions = dict(plan.decisions)
        for call, decision in plan.decisions.items():
            if not isinstance(call, n.OpCall):
                continue
            written = written_by_name(call, program)
            if written and self.memref(call.args[written[0]].type) is not None:
                decisions[call] = Decision(copy_args=decision.copy_args)
        pushes = {
            node
            for node in walk(function)
            if isinstance(node, n.OpCall) and node.op in PUSHES and self.memref(node.args[0].type) is not None
        }
        return replace(plan, decisions=decisions, copied_pushes=plan.copied_pushes | pushes)


def _key(offset: n.Expr | None) -> object:
    return offset.value if isinstance(offset, n.ConstInt) else offset
