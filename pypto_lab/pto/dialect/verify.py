"""What an assembler refuses in `.pto` text: operands, types, layouts, extents, addresses. Every finding is a
diagnostic at the op's place in the text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.pto.decode import Function, Instruction, Value, decode
from pypto_lab.pto.dialect.table import TABLE, OpRow
from pypto_lab.pto.dialect.types import (
    ALIGNMENT,
    CAPACITY,
    LAYOUTS,
    MultiTileType,
    PartitionType,
    TensorViewType,
    TileType,
    ValueType,
    inner_box,
)
from pypto_lab.pto.parse import Unit

MAX_SLOTS = 16
"""Most tiles a multi-slot allocation can have."""


def verify(unit: Unit) -> list[Diagnostic]:
    """All findings of a unit, in the order of the text: E603 types and operands, E604 layout, E605 extents,
    E606 addresses, E607 an op that needs row-major tiles is fed others. Empty when the text is fine."""
    found = list(_xdsl_findings(unit))
    try:
        functions = decode(unit)
    except LabError as error:
        return [*found, *error.diagnostics]
    for function in functions.values():
        found += _function_findings(function, unit.arch)
    return found


def check(unit: Unit) -> None:
    """Raises LabError with all findings of `verify`, if there are any."""
    found = verify(unit)
    if found:
        raise LabError(found, unit.sources)


def _xdsl_findings(unit: Unit) -> Iterator[Diagnostic]:
    """What xDSL's own definitions say about types: operands of arith ops, loop bounds, yields."""
    for op in unit.module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except Exception as error:  # xDSL's verifiers raise what they like
            message = str(error).strip().splitlines()
            yield Diagnostic("E603", f"{op.name}: {message[-1] if message else 'not valid'}", unit.span(op))


def _function_findings(function: Function, arch: str) -> Iterator[Diagnostic]:
    places = _places(function)
    for instruction in function.body.walk():
        messages = [*_messages(function, instruction, arch), *_overlaps(places, instruction)]
        for message in messages:
            yield replace(message, span=instruction.span, note=_note(instruction))


def _note(instruction: Instruction) -> str | None:
    return None if instruction.source is None else f"from {instruction.source}"


def _messages(function: Function, instruction: Instruction, arch: str) -> Iterator[Diagnostic]:
    for result in instruction.results:
        yield from _type_findings(result)
    row = TABLE.get(instruction.name)
    if row is not None:
        yield from _regular_findings(row, instruction)
    special = _CHECKS.get(instruction.name)
    if special is not None:
        yield from special(function, instruction, arch)


Range = tuple[str, int, int]
"""A space, the first byte and the end."""


def _places(function: Function) -> dict[int, Range]:
    """Where tiles lie that are allocated at a constant address, by slot."""
    found: dict[int, Range] = {}
    for instruction in function.body.walk():
        labels = instruction.attributes.get("labels", ())
        if instruction.name == "pto.alloc_tile" and "addr" in labels:
            start = function.constant(instruction.operands[labels.index("addr")])
            type_ = instruction.results[0].type
            if start is not None and isinstance(type_, TileType):
                found[instruction.results[0].slot] = (type_.space, start, start + type_.size)
    return found


def _overlaps(places: Mapping[int, Range], instruction: Instruction) -> Iterator[Diagnostic]:
    """An output that shares bytes with an input and does not start where it starts: an op works in place or apart."""
    for output in instruction.out:
        for value in instruction.ins:
            one, other = places.get(output.slot), places.get(value.slot)
            if one is None or other is None or one[0] != other[0] or one[1] == other[1]:
                continue
            if one[1] < other[2] and other[1] < one[2]:
                yield Diagnostic(
                    "E606",
                    f"{instruction.name}: {output.name} ({one[0]} {one[1]}..{one[2]}) and its input {value.name} "
                    f"({other[1]}..{other[2]}) share some of their bytes",
                    hint="an op writes where its input starts, or elsewhere",
                )


# --- types ------------------------------------------------------------------------------------------------------------


def _type_findings(value: Value) -> Iterator[Diagnostic]:
    tile = value.type.tile if isinstance(value.type, MultiTileType) else value.type
    if isinstance(value.type, MultiTileType) and not 2 <= value.type.count <= MAX_SLOTS:
        yield Diagnostic("E603", f"{value.name} has {value.type.count} slots; a multi-slot tile has 2 to {MAX_SLOTS}")
    if not isinstance(tile, TileType):
        return
    if tile.layout not in LAYOUTS[tile.space]:
        hint = "; ".join(f"blayout={b}, slayout={s}, fractal={f}" for b, s, f in sorted(LAYOUTS[tile.space]))
        shown = f"blayout={tile.blayout}, slayout={tile.slayout}, fractal={tile.fractal}"
        yield Diagnostic("E604", f"{value.name}: {tile.space} does not hold {shown}", hint=f"it holds {hint}")
    yield from _extent_findings(value.name, tile)


def _extent_findings(name: str, tile: TileType) -> Iterator[Diagnostic]:
    if tile.rows <= 0 or tile.cols <= 0:
        yield Diagnostic("E605", f"{name}: a tile of {tile.rows} x {tile.cols} elements")
        return
    for what, valid, full in (("rows", tile.valid_rows, tile.rows), ("columns", tile.valid_cols, tile.cols)):
        if valid is not None and valid > full:
            yield Diagnostic("E605", f"{name}: {valid} valid {what} in a tile of {full}")
    if tile.pad not in (0, 1, 2, 3):
        yield Diagnostic("E603", f"{name}: pad={tile.pad}; 0 is none, 1 zero, 2 the largest, 3 the smallest value")
    if not tile.boxed:
        line = tile.cols if tile.blayout == "row_major" else tile.rows
        if line * tile.itemsize % ALIGNMENT:
            what = "row" if tile.blayout == "row_major" else "column"
            yield Diagnostic(
                "E605",
                f"{name}: a {what} of {line} {tile.dtype} takes {line * tile.itemsize} bytes; lines take whole "
                f"{ALIGNMENT}-byte blocks",
            )
        return
    rows, cols = inner_box(tile)
    if tile.rows % rows or tile.cols % cols:
        yield Diagnostic(
            "E605", f"{name}: {tile.rows} x {tile.cols} is not made of whole {rows} x {cols} boxes ({tile.layout_name})"
        )


# --- regular ops ------------------------------------------------------------------------------------------------------

_KINDS = {"t": "a tile", "s": "a scalar", "p": "a window of a tensor", "v": "a vector"}


def _kind(type_: ValueType) -> str:
    if isinstance(type_, TileType):
        return "t"
    if isinstance(type_, PartitionType):
        return "p"
    if isinstance(type_, str):
        return "v" if type_.startswith("vector") else "s"
    return "-"


def _regular_findings(row: OpRow, instruction: Instruction) -> Iterator[Diagnostic]:
    least, most = row.counts()
    count = len(instruction.ins)
    if count < least or (most is not None and count > most):
        wanted = str(least) if least == most else f"{least} to {most}" if most is not None else f"{least} or more"
        yield Diagnostic("E603", f"{row.full_name} takes {wanted} inputs, got {count}")
        return
    fewest = sum(not o.optional for o in row.outs)
    if not fewest <= len(instruction.out) <= len(row.outs):
        yield Diagnostic("E603", f"{row.full_name} takes {len(row.outs)} outputs, got {len(instruction.out)}")
        return
    for index, value in enumerate(instruction.ins):
        operand = row.input_at(index)
        if operand is not None and _kind(value.type) not in operand.kinds:
            wanted = " or ".join(_KINDS[k] for k in operand.kinds)
            yield Diagnostic("E603", f"{row.full_name}: input {index + 1}, {value.name}, should be {wanted}")
    for operand, value in zip(row.outs, instruction.out, strict=False):
        if _kind(value.type) not in operand.kinds:
            wanted = " or ".join(_KINDS[k] for k in operand.kinds)
            yield Diagnostic("E603", f"{row.full_name}: output {value.name} should be {wanted}")
    yield from _row_major_findings(row, instruction)
    yield from _element_findings(row, instruction)


def element_of(value: Value) -> str | None:
    """The element type of a tile, a window, a view or a pointer; None for a scalar."""
    return None if isinstance(value.type, (str, MultiTileType)) else value.type.dtype


def _element_findings(row: OpRow, instruction: Instruction) -> Iterator[Diagnostic]:
    """Operands that have another element type than the first of those that must be of one type."""
    pairs = [(str(i), value) for i, value in enumerate(instruction.ins)]
    pairs += [("o", value) for value in instruction.out[:1]]
    alike = [value for word, value in pairs if word in row.alike]
    for value in alike[1:]:
        yield from _other_element(row.full_name, alike[0], value)


def _other_element(op: str, one: Value, other: Value) -> Iterator[Diagnostic]:
    if element_of(one) != element_of(other):
        yield Diagnostic(
            "E603", f"{op}: {one.name} has elements of {element_of(one)}, {other.name} of {element_of(other)}"
        )


def _row_major_findings(row: OpRow, instruction: Instruction) -> Iterator[Diagnostic]:
    """Tiles in another order than an op can work in."""
    places = [(v, i, False) for i, v in enumerate(instruction.ins)]
    places += [(v, i, True) for i, v in enumerate(instruction.out)]
    for value, index, output in places:
        tile = value.type
        if not isinstance(tile, TileType) or not row.needs_row_major(index, output) or row_major(tile):
            continue
        role = "output" if output else f"input {index + 1}"
        yield Diagnostic(
            "E607",
            f"{row.full_name} works row by row, but its {role} {value.name} is {tile.layout_name} "
            f"(blayout={tile.blayout}, slayout={tile.slayout}): {tile.brief()}",
            hint="give the tile blayout=row_major, slayout=none_box, or move it to such a tile first",
        )


def row_major(tile: TileType) -> bool:
    """Whether elements stand row after row (a tile of one row or of one element does in either order)."""
    return not tile.boxed and (tile.blayout == "row_major" or tile.rows == 1)


# --- ops with their own rules -----------------------------------------------------------------------------------------


def _alloc(function: Function, instruction: Instruction, arch: str) -> Iterator[Diagnostic]:
    """Address, capacity and extents of an allocation."""
    result = instruction.results[0]
    tile = result.type.tile if isinstance(result.type, MultiTileType) else result.type
    if not isinstance(tile, TileType):
        return
    given = dict(zip(instruction.attributes.get("labels", ()), instruction.operands, strict=False))
    for label, type_extent, full in (
        ("valid_row", tile.valid_rows, tile.rows),
        ("valid_col", tile.valid_cols, tile.cols),
    ):
        operand = given.get(label)
        if operand is None and type_extent is None:
            yield Diagnostic("E605", f"{result.name}: the type leaves {label} open, but no {label} is given")
        if operand is not None and type_extent is not None:
            yield Diagnostic("E605", f"{result.name}: {label} is given twice, by the type and by {operand.name}")
        extent = None if operand is None else function.constant(operand)
        if extent is not None and not 0 <= extent <= full:
            yield Diagnostic("E605", f"{result.name}: {label} = {extent} in a tile of {tile.rows} x {tile.cols}")
    address = given.get("addr")
    start = None if address is None else function.constant(address)
    if start is not None:
        yield from _address_findings(result.name, tile, start, arch)


def _address_findings(name: str, tile: TileType, start: int, arch: str) -> Iterator[Diagnostic]:
    if start < 0 or start % ALIGNMENT:
        yield Diagnostic("E606", f"{name}: address {start} is not a multiple of {ALIGNMENT} bytes")
    capacity = CAPACITY.get(arch, CAPACITY["a2a3"])[tile.space]
    if start + tile.size > capacity:
        yield Diagnostic(
            "E606",
            f"{name}: bytes {start} to {start + tile.size} do not fit {tile.space}, which has {capacity} on {arch}",
        )


def _transfer(function: Function, instruction: Instruction, arch: str) -> Iterator[Diagnostic]:
    """A move keeps the element type; what leaves an accumulator may be rounded on its way."""
    if not instruction.ins or not instruction.out:
        return
    source, target = instruction.ins[0], instruction.out[0]
    rounded = isinstance(source.type, TileType) and source.type.space == "acc"
    if not rounded:
        yield from _other_element(instruction.name, source, target)


PRODUCTS: Mapping[str, str] = {"f32": "f32", "f16": "f32", "bf16": "f32", "i8": "i32"}
"""Element types of factors, and of the accumulator they go into."""


def _product(function: Function, instruction: Instruction, arch: str) -> Iterator[Diagnostic]:
    """Factors are of one type, accumulators FP32 or INT32; what is added has the accumulator's type."""
    if len(instruction.ins) < 2 or not instruction.out:
        return
    added = instruction.name.rpartition(".")[2]
    factors = instruction.ins[1:3] if added == "acc" else instruction.ins[:2]
    output = instruction.out[0]
    yield from _other_element(instruction.name, *factors)
    wanted = PRODUCTS.get(str(element_of(factors[0])))
    if wanted is not None and element_of(output) != wanted:
        yield Diagnostic(
            "E603",
            f"{instruction.name}: products of {element_of(factors[0])} add up in {wanted}, but {output.name} has "
            f"elements of {element_of(output)}",
        )
    if added in ("acc", "bias"):
        yield from _other_element(instruction.name, instruction.ins[0 if added == "acc" else 2], output)


def _scalar(function: Function, instruction: Instruction, arch: str) -> Iterator[Diagnostic]:
    """A single element has the element type of the tile or tensor it is read from or written to."""
    values = (*instruction.operands, *instruction.results)
    memory = next((v for v in values if element_of(v) is not None), None)
    scalar = next((v for v in reversed(values) if isinstance(v.type, str) and v.type != "index"), None)
    if memory is not None and scalar is not None and element_of(memory) != scalar.type:
        yield Diagnostic(
            "E603",
            f"{instruction.name}: {scalar.name} is {scalar.type}, but {memory.name} has elements of "
            f"{element_of(memory)}",
        )


def _gathered(function: Function, instruction: Instruction, arch: str) -> Iterator[Diagnostic]:
    """A gather may give its elements another type of the same width, by index not even that."""
    if len(instruction.out) != 1 or not instruction.ins:
        return
    source, target = instruction.ins[0].type, instruction.out[0].type
    if not isinstance(source, TileType) or not isinstance(target, TileType) or source.dtype == target.dtype:
        return
    if "maskPattern" not in instruction.attributes or source.itemsize != target.itemsize:
        yield from _other_element(instruction.name, instruction.ins[0], instruction.out[0])


def _view(function: Function, instruction: Instruction, arch: str) -> Iterator[Diagnostic]:
    result = instruction.results[0]
    rank = (len(instruction.operands) - 1) // 2
    if isinstance(result.type, (TensorViewType, PartitionType)) and len(result.type.shape) != rank:
        yield Diagnostic("E603", f"{result.name}: {rank} dimensions are given for a type of {len(result.type.shape)}")
    source = instruction.operands[0].type
    if isinstance(source, TensorViewType) and isinstance(result.type, PartitionType):
        if source.dtype != result.type.dtype:
            yield Diagnostic("E603", f"{result.name}: a window of {source.dtype} cannot be {result.type.dtype}")
        for extent, operand in zip(result.type.shape, instruction.operands[1 + rank :], strict=False):
            known = function.constant(operand)
            if extent is not None and known is not None and extent != known:
                yield Diagnostic("E605", f"{result.name}: size {operand.name} = {known}, but the type says {extent}")


def _loop(function: Function, instruction: Instruction, arch: str) -> Iterator[Diagnostic]:
    step = function.constant(instruction.operands[2])
    if step is not None and step <= 0:
        yield Diagnostic("E605", f"scf.for: step {step} is not positive; an assembler drops the body or never ends")


def _while(function: Function, instruction: Instruction, arch: str) -> Iterator[Diagnostic]:
    """What a loop's condition passes on is what its body takes and what it results in; the body yields what it began
    with."""
    if len(instruction.blocks) != 2:
        yield Diagnostic("E603", f"scf.while has {len(instruction.blocks)} regions instead of two")
        return
    before, after = instruction.blocks
    ends = [block.instructions[-1] if block.instructions else None for block in (before, after)]
    if ends[0] is None or ends[0].name != "scf.condition" or ends[1] is None or ends[1].name != "scf.yield":
        yield Diagnostic("E603", "scf.while: the first region ends in scf.condition, the second in scf.yield")
        return
    passed = [v.type for v in ends[0].operands[1:]]
    if passed != [v.type for v in after.arguments] or passed != [v.type for v in instruction.results]:
        yield Diagnostic("E603", "scf.while: what the condition passes on is not what the body and the results take")
    if [v.type for v in ends[1].operands] != [v.type for v in before.arguments]:
        yield Diagnostic("E603", "scf.while: the body does not yield what the loop carries")


def _window(function: Function, instruction: Instruction, arch: str) -> Iterator[Diagnostic]:
    """A window of a tile stays inside it and keeps its element type and order."""
    source, result = instruction.operands[0].type, instruction.results[0]
    if not isinstance(source, TileType) or not isinstance(result.type, TileType):
        return
    sizes = instruction.attributes.get("sizes", ())
    if sizes != (result.type.rows, result.type.cols):
        yield Diagnostic(
            "E605", f"{result.name}: sizes {list(sizes)}, but the type has {result.type.rows} x {result.type.cols}"
        )
    if (source.space, source.dtype) != (result.type.space, result.type.dtype):
        yield Diagnostic("E603", f"{result.name}: a window of {source.brief()} cannot be {result.type.brief()}")
    given = [function.constant(operand) for operand in instruction.operands[3:5]] or list(sizes)
    for operand, size, full in zip(instruction.operands[1:3], given, (source.rows, source.cols), strict=False):
        offset = function.constant(operand)  # what is stated to be valid lies inside, the rest of a window need not
        if offset is not None and size is not None and not 0 <= offset <= full - size:
            yield Diagnostic("E605", f"{result.name}: {offset} to {offset + size} lies outside a tile of {full}")
    if source.boxed:
        yield from _boxed_window(function, instruction, source)


def _boxed_window(function: Function, instruction: Instruction, source: TileType) -> Iterator[Diagnostic]:
    """A window of a boxed tile starts and ends between boxes."""
    sizes = instruction.attributes.get("sizes", ())
    for operand, size, step in zip(instruction.operands[1:3], sizes, inner_box(source), strict=False):
        offset = function.constant(operand)
        if size % step or (offset is not None and offset % step):
            start = operand.name if offset is None else str(offset)
            yield Diagnostic(
                "E605",
                f"{instruction.results[0].name}: {size} elements from {start} on are not whole boxes of {step} "
                f"({source.layout_name})",
            )


def _reshape(function: Function, instruction: Instruction, arch: str) -> Iterator[Diagnostic]:
    source, result = instruction.operands[0].type, instruction.results[0]
    if isinstance(source, TileType) and isinstance(result.type, TileType) and source.size != result.type.size:
        yield Diagnostic(
            "E605",
            f"{result.name}: {source.brief()} takes {source.size} bytes, {result.type.brief()} {result.type.size}",
        )


def _pipe(function: Function, instruction: Instruction, arch: str) -> Iterator[Diagnostic]:
    """Slots in global memory are reached through a pointer to FP32, whatever goes through them."""
    given = dict(zip(instruction.attributes.get("labels", ()), instruction.operands, strict=False))
    slots = given.get("gm_slot_buffer")
    if slots is not None and element_of(slots) != "f32":
        yield Diagnostic("E603", f"{instruction.name}: gm_slot_buffer {slots.name} is {slots.type}, not !pto.ptr<f32>")


def _push(function: Function, instruction: Instruction, arch: str) -> Iterator[Diagnostic]:
    split = instruction.attributes.get("split", 0)
    if split not in (0, 1, 2, 3, 4):
        yield Diagnostic("E603", f"{instruction.name}: split = {split}; it is 0 (none) to 4 (left/right, odd)")
    elif split >= 3 and instruction.name in ("pto.tpush_to_aic", "pto.tpop_from_aiv", "pto.tfree_from_aiv"):
        yield Diagnostic("E603", f"{instruction.name}: split {split} exists from cube to vector only")


_CHECKS = {
    "pto.alloc_tile": _alloc,
    "pto.alloc_multi_tile": _alloc,
    "pto.make_tensor_view": _view,
    "pto.partition_view": _view,
    "scf.for": _loop,
    "scf.while": _while,
    "pto.subview": _window,
    "pto.subset": _window,
    **{f"pto.{name}": _transfer for name in ("tload", "tstore", "tmov", "textract", "tinsert")},
    **{
        f"pto.{name}{form}": _product
        for name in ("tmatmul", "tgemv")
        for form in ("", ".acc", ".bias")
    },
    **{f"pto.{name}": _scalar for name in ("load_scalar", "store_scalar", "tgetval", "tsetval")},
    "pto.tgather": _gathered,
    "pto.aic_initialize_pipe": _pipe,
    "pto.aiv_initialize_pipe": _pipe,
    "pto.treshape": _reshape,
    **{
        f"pto.{name}": _push
        for name in (
            "tpush_to_aiv", "tpush_to_aic", "tpop_from_aiv", "tpop_from_aic", "tfree_from_aiv", "tfree_from_aic",
        )
    },
}  # fmt: skip
