"""Whether a changed `.pto` text still means what it meant, argued from the text alone: no run and no check is asked.

A change of one place keeps the meaning when one of these holds; every other change counts as one of meaning.

- Nothing uses the value that was changed.
- **Address.** The new bytes are aligned, inside the space and outside every ring of slots, and each read of the
  function still sees the writes it saw. `reaching` gives, for every operand an op reads, the writes that may have put
  something into its bytes (branches joined, loops to a fixed point). When these sets are equal for both texts and no
  read sees a write of the other class (the moved tile's handles are one class, all others the other), the last write to
  each byte a read sees is the same op, at the same distance from where the tile starts, on every path.
- **A ring's base.** The new bytes are aligned, inside the space, and no tile and no other ring lies in them: a pop
  names its slot, and the peer imports the base.
- **Valid extent.** The other extent is the constant 0, so there is no element before or after; or all uses of the tile
  are as working memory, whose extents no op consults; or the first use sets both extents anew.
- **Pad.** A tile's pad says what a fill puts outside the valid part. It says nothing when no fill writes the tile or a
  view of it, or when each fill's source is valid in the whole box, so that there is no outside.
- **Stride.** Each window of the view starts at 0 and has one element on that axis: the stride is multiplied by 0 only.
- **Offset.** The window has no elements: one of its sizes is the constant 0.
- **Element type.** All uses of the tile are as working memory, whose elements no op reads, and they are as wide as
  before.

Split codes have no such case: they say how bytes are cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from pypto_lab.ir.diagnostics import LabError
from pypto_lab.pto.decode import Body, Function, Instruction, Value, decode
from pypto_lab.pto.dialect.table import TABLE
from pypto_lab.pto.dialect.types import ALIGNMENT, CAPACITY, TileType
from pypto_lab.pto.mutations.make import Mutation
from pypto_lab.pto.parse import Unit, parse

VIEWS = frozenset({"pto.subview", "pto.subset", "pto.treshape"})
FILLS = frozenset({"pto.tfillpad", "pto.tfillpad_expand"})
POPS = frozenset({"pto.tpop_from_aic", "pto.tpop_from_aiv"})
UNUSED = frozenset({"pto.alloc_tile", "pto.subview", "pto.partition_view", "pto.make_tensor_view"})
"""Ops that only make a value: without a use of it they do nothing."""
COVERING = frozenset({"binary", "unary", "scalar", "ternary", "fill", "cast", "row expansion", "column expansion"})
"""Families whose ops write the whole valid part of their output; so do loads and extractions. Moves, reductions and
products write as much as their inputs have valid."""


def kept(unit: Unit, mutation: Mutation) -> str | None:
    """Why a mutation of `unit` keeps the meaning; None when no argument is known, so that it counts as a change."""
    try:
        changed = parse(mutation.text, unit.file)
    except LabError:
        return None
    functions = decode(unit)[mutation.function], decode(changed)[mutation.function]
    before, after = (_numbered(function) for function in functions)
    place = next((i for i, (one, other) in enumerate(zip(before, after, strict=True)) if _differs(one, other)), None)
    if place is None or before[place].name != mutation.op:
        return None
    old, new = before[place], after[place]
    if old.name in UNUSED and not _uses(functions[0], old.results[0]):
        return "nothing uses the value"
    match mutation.kind:
        case "address" if old.name == "pto.reserve_buffer":
            return _ring_moved(functions[1], unit.arch, new)
        case "address":
            return _moved(*functions, unit.arch, new)
        case "valid":
            return _extent(functions[0], old, new)
        case "pad":
            return _padding(functions[0], old)
        case "stride":
            return _step(functions[0], old, new)
        case "dtype":
            return _element_type(functions[0], old, new)
        case "offset" if old.name == "pto.partition_view":
            return _window(functions[0], old)
    return None


def _numbered(function: Function) -> list[Instruction]:
    """All ops in order, without constants: a changed text has one more."""
    return [i for i in function.body.walk() if i.name != "arith.constant"]


def _differs(one: Instruction, other: Instruction) -> bool:
    words = [
        (i.name, [v.name for v in i.operands], [(v.name, v.type) for v in i.results], dict(i.attributes))
        for i in (one, other)
    ]
    return words[0] != words[1]


# --- what reaches what ------------------------------------------------------------------------------------------------


Extent = tuple[str, int]
"""A valid extent: a number, or the slot of the value that holds it."""
Region = tuple[int, TileType, Extent, Extent]
"""The valid elements of a tile: first byte, type, rows and columns."""


@dataclass(frozen=True, slots=True)
class Place:
    """The bytes a tile handle stands for, and whose: the allocation (or ring) it is a view of."""

    owner: str
    space: str
    low: int
    high: int
    whole: bool = False
    """Whether all elements are valid, so that an op that writes the valid part writes every byte."""
    empty: bool = False
    region: Region | None = None
    """Exactly which elements are valid, if the extents never change."""

    def meets(self, other: Place) -> bool:
        return self.space == other.space and self.low < other.high and other.low < self.high


Write = tuple[int, Place, frozenset[Region]]
"""A write: number of the op, where, and the regions all of whose elements have been written again since."""
Written = frozenset[Write]
"""Writes that may still be in memory."""


@dataclass(slots=True)
class Reaching:
    """The analysis. `reads`: where each operand (number of the op, of the operand) is read, and the writes it sees."""

    function: Function
    places: Mapping[int, Place]
    numbers: dict[Instruction, int] = field(default_factory=dict)
    reads: dict[tuple[int, int], tuple[Place, Written]] = field(default_factory=dict)

    def run(self, body: Body, state: Written) -> Written:
        for instruction in body.instructions:
            state = self._op(instruction, state)
        return state

    def _op(self, instruction: Instruction, state: Written) -> Written:
        number = self.numbers.get(instruction, -1)
        match instruction.name:
            case "scf.if":
                ends = [self.run(block, state) for block in instruction.blocks]
                return frozenset().union(*ends, *([state] if len(ends) < 2 else []))
            case "scf.for" | "scf.while":
                return self._loop(instruction, state)
        for index, value in enumerate(_read(instruction)):
            place = self.places.get(value.slot)
            if place is not None and not place.empty:
                seen = frozenset(w for w in state if w[1].meets(place) and place.region not in w[2])
                known = self.reads.get((number, index), (place, frozenset()))[1]
                self.reads[number, index] = (place, known | seen)
        for value in _written(instruction):
            place = self.places.get(value.slot)
            covers = value in instruction.out and self._covers(instruction)
            if place is not None and not place.empty:
                state = _after(state, place) if covers else state
                state |= {(number, place, frozenset())}
        return state

    def _covers(self, instruction: Instruction) -> bool:
        """Whether an op writes all that its output has valid."""
        row = TABLE.get(instruction.name)
        if row is None or row.family in COVERING or row.name in ("tload", "textract"):
            return row is not None
        if row.name in ("tconcat", "tmrgsort"):
            return self._joins(instruction)
        if row.family not in ("row reduction", "column reduction", "matmul") and row.name != "tmov":
            return False
        sources = [v for v in _read(instruction) if isinstance(v.type, TileType)]
        return all((place := self.places.get(v.slot)) is not None and place.whole for v in sources)

    def _joins(self, instruction: Instruction) -> bool:
        """Whether the parts that are joined, or the runs of one list that are merged by four, make up the output."""
        target = instruction.out[0].type
        parts = [v for v in instruction.ins if isinstance(v.type, TileType)]
        whole = all((place := self.places.get(v.slot)) is not None and place.whole for v in parts)
        types = [v.type for v in parts if isinstance(v.type, TileType)]
        if not whole or not isinstance(target, TileType) or any(t.rows != target.rows for t in types):
            return False
        if instruction.name == "pto.tconcat":
            return sum(t.cols for t in types) == target.cols
        length = self.function.constant(instruction.ins[1]) if len(instruction.ins) == 2 and len(parts) == 1 else None
        return bool(length) and types[0].cols == target.cols and target.cols % (4 * int(length or 1)) == 0

    def _loop(self, instruction: Instruction, state: Written) -> Written:
        while True:
            end = state
            for block in instruction.blocks:
                end = self.run(block, end)
            end = _forgotten(end, instruction)
            if end <= state:
                return state
            state |= end


def _after(state: Written, place: Place) -> Written:
    """What may be in memory once all valid elements of a place have been written again."""
    left = (w for w in state if not (place.whole and _inside(w[1], place)))
    if place.region is None:
        return frozenset(left)
    region = place.region
    return frozenset((n, p, again | {region}) if p.meets(place) else (n, p, again) for n, p, again in left)


def _forgotten(state: Written, loop: Instruction) -> Written:
    """Regions whose extents are computed in a loop are others in its next round."""
    inside = {v.slot for block in loop.blocks for v in block.arguments}
    inside |= {v.slot for block in loop.blocks for i in block.walk() for v in i.results}
    moving = {("slot", slot) for slot in inside}
    return frozenset((n, p, frozenset(r for r in again if moving.isdisjoint(r[2:]))) for n, p, again in state)


def _inside(inner: Place, outer: Place) -> bool:
    return inner.space == outer.space and outer.low <= inner.low and inner.high <= outer.high


def _scratch(instruction: Instruction) -> set[int]:
    """Numbers of the operands an op only works in."""
    row = TABLE.get(instruction.name)
    count = len(instruction.ins)
    return set() if row is None else {i for i in range(count) if row.is_scratch(i, count)}


def _read(instruction: Instruction) -> list[Value]:
    """Operands whose elements an op reads."""
    if instruction.name in VIEWS or instruction.name == "pto.set_validshape":
        return []
    scratch = _scratch(instruction)
    found = [v for i, v in enumerate(instruction.ins) if i not in scratch]
    return [*found, *instruction.out] if instruction.name == "pto.tscatter" else found


def _written(instruction: Instruction) -> list[Value]:
    """Operands (and popped tiles) an op writes."""
    popped = instruction.results if instruction.name in POPS else ()
    return [*instruction.out, *(instruction.ins[i] for i in sorted(_scratch(instruction))), *popped]


def reaching(function: Function) -> Reaching | None:
    """The reads of a function and the writes they may see; None where a tile's bytes are not known from the text."""
    places = _places(function)
    if places is None:
        return None
    made = Reaching(function, places, {i: number for number, i in enumerate(_numbered(function))})
    made.run(function.body, frozenset())
    return made


def _places(function: Function) -> dict[int, Place] | None:
    found: dict[int, Place] = {}
    rings = dict(_rings(function))
    instructions = list(function.body.walk())
    changing = {i.operands[0].slot for i in instructions if i.name == "pto.set_validshape"}
    for i in instructions:
        if i.name in ("pto.alloc_multi_tile", "pto.multi_tile_get", "pto.tassign"):
            return None
        type_ = i.results[0].type if i.results else None
        if not isinstance(type_, TileType):
            continue
        result = i.results[0]
        if i.name == "pto.alloc_tile":
            address, rows, cols = (_labelled(function, i, word) for word in ("addr", "valid_row", "valid_col"))
            if address is None:
                return None
            place = Place(result.name, type_.space, address, address + type_.size)
            if result.slot not in changing:
                whole, empty = (rows, cols) == (type_.rows, type_.cols), 0 in (rows, cols)
                region = (address, type_, _stated(function, i, "valid_row"), _stated(function, i, "valid_col"))
                place = replace(place, whole=whole, empty=empty, region=region)
            found[result.slot] = place
        elif i.name in VIEWS:
            base = found[i.operands[0].slot]
            found[result.slot] = replace(base, whole=False, region=None)
        elif i.name in POPS and len(rings) == 1:
            ((name, (space, low, high)),) = rings.items()
            found[result.slot] = Place(name, space, low, high)
        elif i.name in POPS:
            low, high = min(r[1] for r in rings.values()), max(r[2] for r in rings.values())
            found[result.slot] = Place("the rings", type_.space, low, high)
    return found


def _labelled(function: Function, instruction: Instruction, word: str) -> int | None:
    labels = instruction.attributes.get("labels", ())
    return function.constant(instruction.operands[labels.index(word)]) if word in labels else None


def _stated(function: Function, instruction: Instruction, word: str) -> Extent:
    """A valid extent of an allocation."""
    known = _labelled(function, instruction, word)
    if known is not None:
        return "number", known
    return "slot", instruction.operands[instruction.attributes["labels"].index(word)].slot


def _rings(function: Function) -> Iterator[tuple[str, tuple[str, int, int]]]:
    """Rings of slots of a function: name, space, first byte, end."""
    for i in function.body.walk():
        if i.name == "pto.reserve_buffer":
            base, size = int(i.attributes.get("base", 0)), int(i.attributes.get("size", 0))
            yield str(i.attributes.get("name")), (str(i.attributes.get("location")), base, base + size)


# --- arguments --------------------------------------------------------------------------------------------------------


def _moved(function: Function, changed: Function, arch: str, new: Instruction) -> str | None:
    type_ = new.results[0].type
    address = _labelled(changed, new, "addr")
    assert isinstance(type_, TileType)
    if address is None or not _fits(address, type_.size, type_.space, arch):
        return None
    own = Place(new.results[0].name, type_.space, address, address + type_.size)
    if any(own.meets(Place(ring, *where)) for ring, where in _rings(changed)):
        return None
    before, after = reaching(function), reaching(changed)
    if before is None or after is None or set(before.reads) != set(after.reads):
        return None
    for key, (place, seen) in before.reads.items():
        other, now = after.reads[key]
        if {w[0] for w in seen} != {w[0] for w in now}:
            return None
        for reader, writes in ((place, seen), (other, now)):
            if any((reader.owner == own.owner) != (w[1].owner == own.owner) for w in writes):
                return None
    return "every read sees the writes it saw"


def _fits(address: int, size: int, space: str, arch: str) -> bool:
    return address >= 0 and address % ALIGNMENT == 0 and address + size <= CAPACITY[arch][space]


def _ring_moved(function: Function, arch: str, new: Instruction) -> str | None:
    places = _places(function)
    space = str(new.attributes.get("location"))
    base, size = int(new.attributes["base"]), int(new.attributes["size"])
    if places is None or not _fits(base, size, space, arch):
        return None
    own = Place(str(new.attributes.get("name")), space, base, base + size)
    rings = [Place(name, *where) for name, where in _rings(function) if name != own.owner]
    popped = {v.slot for i in function.body.walk() if i.name in POPS for v in i.results}
    tiles = [place for slot, place in places.items() if slot not in popped and place.owner != own.owner]
    return None if any(own.meets(p) for p in [*rings, *tiles]) else "nothing else lies where the ring is now"


def _uses(function: Function, value: Value) -> list[tuple[Instruction, int]]:
    """(op, number of the operand) of each use, in order."""
    return [(i, n) for i in function.body.walk() for n, v in enumerate(i.operands) if v.slot == value.slot]


def _extent(function: Function, old: Instruction, new: Instruction) -> str | None:
    labels = old.attributes.get("labels", ())
    if old.name == "pto.alloc_tile":
        extents = {word: _labelled(function, old, word) for word in ("valid_row", "valid_col")}
        same = [w for w in extents if old.operands[labels.index(w)].name == new.operands[labels.index(w)].name]
        empty = any(extents[w] == 0 for w in same)
        tile = old.results[0]
    elif old.name == "pto.set_validshape":
        pairs = zip(old.operands[1:], new.operands[1:], strict=True)
        empty = any(a.name == b.name and function.constant(a) == 0 for a, b in pairs)
        tile = old.operands[0]
    elif old.name in POPS:
        pairs = zip(old.operands, new.operands, strict=True)
        empty = any(a.name == b.name and function.constant(a) == 0 for a, b in pairs)
        tile = old.results[0]
    else:
        return None
    if empty:
        return "there is no valid element before or after"
    uses = _uses(function, tile)
    if old.name == "pto.alloc_tile":
        if all(n in _scratch(i) for i, n in uses):
            return "the tile is working memory only"
        if uses[0][0].name == "pto.set_validshape" and uses[0][0] in function.body.instructions:
            return "the first use sets both extents"
    return None


def _element_type(function: Function, old: Instruction, new: Instruction) -> str | None:
    before, after = old.results[0].type, new.results[0].type
    if not isinstance(before, TileType) or not isinstance(after, TileType) or before.itemsize != after.itemsize:
        return None
    scratch = all(number in _scratch(i) for i, number in _uses(function, old.results[0]))
    return "the tile is working memory only" if scratch else None


def _padding(function: Function, old: Instruction) -> str | None:
    handles = {old.results[0].slot}
    for i in function.body.walk():
        if i.name in VIEWS and i.operands[0].slot in handles:
            handles.add(i.results[0].slot)
    fills = [i for i in function.body.walk() if i.name in FILLS and i.out[0].slot in handles]
    if not fills:
        return "no fill writes the tile"
    places = _places(function) or {}
    if all((place := places.get(i.ins[0].slot)) is not None and place.whole for i in fills):
        boxes = {(t.rows, t.cols) for i in fills for v in (*i.ins, *i.out) if isinstance(t := v.type, TileType)}
        if len(boxes) == 1:
            return "the fill's source has no padding"
    return None


def _step(function: Function, old: Instruction, new: Instruction) -> str | None:
    rank = (len(old.operands) - 1) // 2
    changed = [axis for axis in range(rank) if old.operands[1 + rank + axis].name != new.operands[1 + rank + axis].name]
    for window, _ in _uses(function, old.results[0]):
        if window.name != "pto.partition_view":
            return None
        for axis in changed:
            offset, size = window.operands[1 + axis], window.operands[1 + rank + axis]
            if (function.constant(offset), function.constant(size)) != (0, 1):
                return None
    return "every window has one element, at 0, on that axis"


def _window(function: Function, old: Instruction) -> str | None:
    rank = (len(old.operands) - 1) // 2
    sizes = [function.constant(v) for v in old.operands[1 + rank :]]
    return "the window has no elements" if 0 in sizes else None
