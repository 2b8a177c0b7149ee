"""Seeded changes of one place in a `.pto` text, to measure what reading, checking and running a text notices."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import FunctionType, IndexType, IntegerAttr, IntegerType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from pypto_lab.pto.dialect.attributes import plain_type, type_attribute
from pypto_lab.pto.dialect.operations import AllocTileOp
from pypto_lab.pto.dialect.types import CAPACITY, PartitionType, PointerType, TensorViewType, TileType
from pypto_lab.pto.parse import Unit, parse
from pypto_lab.pto.printing import print_unit

KINDS = ("address", "stride", "valid", "pad", "split", "offset", "dtype")
"""What can be changed: where a tile or a ring of slots lies; a stride of a tensor's view; a valid extent of a tile; the
pad value of a tile's type; the split code of one push, pop or free; an offset of a window or element; an element type.

Types are changed wherever the text names the value: a type that is changed in one place only cannot be read."""

NEW_NAME = "mutated"
"""The name of the constant that a changed operand reads."""

SWAPPED = {
    "f32": ("i32", "f16", "bf16"), "f16": ("bf16", "i16", "f32"), "bf16": ("f16", "i16", "f32"),
    "i32": ("f32", "ui32", "i16"), "i8": ("ui8", "i16"), "i16": ("f16", "i32"), "ui8": ("i8",), "ui32": ("i32", "f32"),
    "ui16": ("i16", "f16"), "i64": ("i32",), "ui64": ("i64",),
}  # fmt: skip
"""Element types a given one is changed to."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change: the kind, the op and the value it was made at, what stood there and what stands there now, the whole
    changed text. `line` is the op's line in the text that was changed."""

    kind: str
    function: str
    line: int
    op: str
    value: str
    before: str
    after: str
    text: str

    def __str__(self) -> str:
        what = f" of %{self.value}" if self.value else ""
        return f"{self.kind}{what}: {self.before} -> {self.after} ({self.op} in @{self.function}, line {self.line})"


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A place that can be changed. `choices` says, of a unit's copy, what can be put there: a word and the change."""

    kind: str
    op: int
    """Number of the op, in the order of the text."""
    slot: str
    """Which operand, result or attribute of the op."""


def sites(unit: Unit, kind: str) -> list[Site]:
    """All places of a unit where a change of `kind` can be made, in the order of the text."""
    return [Site(kind, number, slot) for number, op in enumerate(_ops(unit)) for slot in _SLOTS[kind](op)]


def mutate(unit: Unit, site: Site, rng: random.Random) -> Mutation | None:
    """The text with the place changed to something else; None where nothing else fits there."""
    copy = parse(unit.text, unit.file)
    op = _ops(copy)[site.op]
    made = _CHANGES[site.kind](copy, op, site.slot, rng)
    if made is None:
        return None
    before, after, value = made
    span = unit.span(_ops(unit)[site.op])
    return Mutation(
        site.kind, _function(op).sym_name.data, 0 if span is None else span.line, op.name, value, before, after,
        print_unit(copy),
    )  # fmt: skip


def _ops(unit: Unit) -> list[Operation]:
    return list(unit.module.walk())


def _function(op: Operation) -> FuncOp:
    found: Operation | None = op
    while found is not None and not isinstance(found, FuncOp):
        found = found.parent_op()
    assert found is not None
    return found


# --- where ------------------------------------------------------------------------------------------------------------


def _addresses(op: Operation) -> Iterator[str]:
    if isinstance(op, AllocTileOp) and "addr" in op.label_names():
        yield "addr"
    if op.name == "pto.reserve_buffer" and "base" in op.attributes:
        yield "base"


def _strides(op: Operation) -> Iterator[str]:
    if op.name == "pto.make_tensor_view":
        rank = (len(op.operands) - 1) // 2
        yield from (str(1 + rank + axis) for axis in range(rank))


def _valids(op: Operation) -> Iterator[str]:
    if isinstance(op, AllocTileOp):
        yield from (str(i) for i, word in enumerate(op.label_names()) if word.startswith("valid"))
    elif op.name == "pto.set_validshape":
        yield from ("1", "2")
    elif op.name == "pto.subview":
        yield from (str(i) for i in range(3, len(op.operands)))
    elif op.name in ("pto.tpop_from_aic", "pto.tpop_from_aiv"):
        yield from (str(i) for i in range(len(op.operands)))


def _pads(op: Operation) -> Iterator[str]:
    yield from (str(i) for i, result in enumerate(op.results) if isinstance(plain_type(result.type), TileType))


def _splits(op: Operation) -> Iterator[str]:
    if "split" in op.attributes:
        yield "split"


_OFFSETS = {"pto.subview": (1, 2), "pto.textract": (1, 2), "pto.tinsert": (1, 2), "pto.load_scalar": (1,),
            "pto.store_scalar": (1,), "pto.tgetval": (1,), "pto.tsetval": (0,), "pto.addptr": (1,)}  # fmt: skip


def _offsets(op: Operation) -> Iterator[str]:
    if op.name == "pto.partition_view":
        yield from (str(1 + axis) for axis in range((len(op.operands) - 1) // 2))
    yield from (str(i) for i in _OFFSETS.get(op.name, ()))


def _dtypes(op: Operation) -> Iterator[str]:
    typed = (TileType, TensorViewType, PartitionType)
    yield from (str(i) for i, result in enumerate(op.results) if isinstance(plain_type(result.type), typed))
    if isinstance(op, FuncOp):
        arguments = op.body.blocks[0].args
        pointers = [i for i, a in enumerate(arguments) if isinstance(plain_type(a.type), PointerType)]
        yield from (f"argument {i}" for i in pointers if any(True for _ in arguments[i].uses))


_SLOTS: dict[str, Callable[[Operation], Iterator[str]]] = {
    "address": _addresses, "stride": _strides, "valid": _valids, "pad": _pads, "split": _splits, "offset": _offsets,
    "dtype": _dtypes,
}  # fmt: skip

# --- what -------------------------------------------------------------------------------------------------------------

Made = tuple[str, str, str] | None
"""What stood there, what stands there now, and the name of the value concerned."""


def _name(unit: Unit, value: SSAValue) -> str:
    return unit.names.get(value) or value.name_hint or ""


def _known(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, ConstantOp) and isinstance(owner.value, IntegerAttr):
        return int(owner.value.value.data)
    return None


def _shown(unit: Unit, value: SSAValue) -> str:
    known = _known(value)
    return f"%{_name(unit, value)}" if known is None else str(known)


def _put(unit: Unit, op: Operation, place: int, new: int) -> None:
    """Makes operand `place` a new constant, which is defined at the head of the function."""
    type_ = op.operands[place].type
    assert isinstance(type_, (IndexType, IntegerType))
    made = ConstantOp(IntegerAttr(new, type_))
    block = _function(op).body.blocks[0]
    first = block.first_op
    assert first is not None
    block.insert_op_before(made, first)
    unit.names[made.result] = NEW_NAME  # type: ignore[index]
    op.operands[place] = made.result


def _changed_operand(unit: Unit, op: Operation, place: int, choices: Sequence[int], rng: random.Random) -> Made:
    """Another constant, one of `choices` that differs from what stands there."""
    known, before = _known(op.operands[place]), _shown(unit, op.operands[place])
    left = sorted({c for c in choices if c != known})
    if not left:
        return None
    new = rng.choice(left)
    value = op.results[0] if op.results else op.operands[0]
    _put(unit, op, place, new)
    return before, str(new), _name(unit, value)


def _address(unit: Unit, op: Operation, slot: str, rng: random.Random) -> Made:
    """Where another tile lies, a part of the tile further, a block further, off the grid, or past the end."""
    if slot == "base":
        base, size = (int(op.attributes[word].value.data) for word in ("base", "size"))  # type: ignore[attr-defined]
        new = rng.choice(sorted({c for c in (base + 32, base + size // 2, base + size) if c != base}))
        op.attributes["base"] = IntegerAttr(new, 64)
        return str(base), str(new), _name(unit, op.results[0])
    assert isinstance(op, AllocTileOp)
    type_ = plain_type(op.results[0].type)
    assert isinstance(type_, TileType)
    place = op.label_names().index("addr")
    own = _known(op.operands[place]) or 0
    others = [a for a, space in _tile_places(_function(op)) if space == type_.space and a != own]
    near = [own + 32, own - 32, own + max(type_.size // 2 // 32, 1) * 32, own + type_.size, own + type_.itemsize]
    past = CAPACITY[unit.arch][type_.space] - type_.size // 2
    group = rng.choice([g for g in (others, near, [past // 32 * 32]) if g])
    return _changed_operand(unit, op, place, [c for c in group if c >= 0], rng)


def _tile_places(function: FuncOp) -> Iterator[tuple[int, str]]:
    for op in function.walk():
        if isinstance(op, AllocTileOp) and "addr" in op.label_names():
            type_, known = plain_type(op.results[0].type), _known(op.labelled()["addr"])
            if isinstance(type_, TileType) and known is not None:
                yield known, type_.space


def _stride(unit: Unit, op: Operation, slot: str, rng: random.Random) -> Made:
    known = _known(op.operands[int(slot)])
    choices = [1, 2, 16] if known is None else [known + 1, known - 1, known * 2, known // 2, 1]
    return _changed_operand(unit, op, int(slot), [c for c in choices if c >= 0], rng)


def _valid(unit: Unit, op: Operation, slot: str, rng: random.Random) -> Made:
    known = _known(op.operands[int(slot)])
    choices = [1, 8, 16] if known is None else [known - 1, known + 1, known // 2, known * 2, 1]
    return _changed_operand(unit, op, int(slot), [c for c in choices if c >= 0], rng)


def _offset(unit: Unit, op: Operation, slot: str, rng: random.Random) -> Made:
    known = _known(op.operands[int(slot)])
    choices = [0, 1, 16] if known is None else [known + 1, known - 1, known + 8, known + 16, 0]
    return _changed_operand(unit, op, int(slot), [c for c in choices if c >= 0], rng)


def _split(unit: Unit, op: Operation, slot: str, rng: random.Random) -> Made:
    known: Any = op.attributes["split"]
    before = int(known.value.data)
    new = rng.choice([code for code in range(5) if code != before])
    op.attributes["split"] = IntegerAttr(new, known.type)
    return str(before), str(new), ""


def _retyped(unit: Unit, value: SSAValue, type_: Any) -> None:
    """The value has another type wherever it is named."""
    name = unit.names.get(value)
    made = Rewriter.replace_value_with_new_type(value, type_attribute(type_))
    if name is not None:
        unit.names[made] = name  # type: ignore[index]


def _pad(unit: Unit, op: Operation, slot: str, rng: random.Random) -> Made:
    value = op.results[int(slot)]
    type_ = plain_type(value.type)
    assert isinstance(type_, TileType)
    new = rng.choice([pad for pad in range(4) if pad != type_.pad])
    name = _name(unit, value)
    _retyped(unit, value, replace(type_, pad=new))
    return str(type_.pad), str(new), name


def _dtype(unit: Unit, op: Operation, slot: str, rng: random.Random) -> Made:
    argument = slot.startswith("argument")
    place = int(slot.removeprefix("argument "))
    value: SSAValue = op.body.blocks[0].args[place] if argument else op.results[place]  # type: ignore[attr-defined]
    type_ = plain_type(value.type)
    assert isinstance(type_, (TileType, TensorViewType, PartitionType, PointerType))
    choices = SWAPPED.get(type_.dtype, ())
    if not choices:
        return None
    new = rng.choice(choices)
    name = _name(unit, value)
    _retyped(unit, value, replace(type_, dtype=new))
    if argument and isinstance(op, FuncOp):
        op.function_type = FunctionType.from_lists([a.type for a in op.body.blocks[0].args], [])
    return type_.dtype, new, name


_CHANGES: dict[str, Callable[[Unit, Operation, str, random.Random], Made]] = {
    "address": _address, "stride": _stride, "valid": _valid, "pad": _pad, "split": _split, "offset": _offset,
    "dtype": _dtype,
}  # fmt: skip

__all__ = ["KINDS", "Mutation", "Site", "mutate", "sites"]
