"""Ops of the `pto` dialect in xDSL: the regular ones made from `table`, the others each with its own spelling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, IntegerType, StringAttr, i1
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, var_operand_def, var_result_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from pypto_lab.pto.dialect.attributes import (
    ATTRIBUTES,
    LocalArrayAttr,
    MultiTileAttr,
    PartitionAttr,
    PtrAttr,
    TensorViewAttr,
    TileBufAttr,
    plain_type,
)
from pypto_lab.pto.dialect.table import TABLE, OpRow
from pypto_lab.pto.dialect.types import PointerType

INDEX = IndexType()
I32 = IntegerType(32)


class PtoOp(IRDLOperation):
    """Any op of the dialect: a list of operands and a list of results."""

    arguments = var_operand_def()
    outputs = var_result_def()

    def __init__(
        self,
        operands: Sequence[SSAValue | Operation] = (),
        result_types: Sequence[Attribute] = (),
        attributes: Mapping[str, Attribute] | None = None,
        properties: Mapping[str, Attribute] | None = None,
    ) -> None:
        super().__init__(
            operands=[list(operands)],
            result_types=[list(result_types)],
            attributes=dict(attributes or {}),
            properties=dict(properties or {}),
        )


# --- helpers of all spellings -----------------------------------------------------------------------------------------


def _names(parser: Parser, close: str) -> list[UnresolvedOperand]:
    """`%a, %b` up to, and without, one of the characters of `close`."""
    found: list[UnresolvedOperand] = []
    operand = parser.parse_optional_unresolved_operand()
    while operand is not None:
        found.append(operand)
        if parser.parse_optional_punctuation(",") is None:
            break
        operand = parser.parse_optional_unresolved_operand()
        if operand is None and not close:
            parser.raise_error("operand expected")
    return found


def _resolve(
    parser: Parser, names: Sequence[UnresolvedOperand], types: Sequence[Attribute], start: int
) -> list[SSAValue]:
    if len(names) != len(types):
        parser.raise_error(f"{len(names)} operands, but {len(types)} types", start, parser.pos)
    return [parser.resolve_operand(name, type_) for name, type_ in zip(names, types, strict=True)]


def _index(parser: Parser) -> SSAValue:
    return parser.resolve_operand(parser.parse_unresolved_operand(), INDEX)


def _index_list(parser: Parser) -> list[SSAValue]:
    return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _index(parser))


def _print_values(printer: Printer, values: Sequence[SSAValue]) -> None:
    printer.print_list(values, printer.print_ssa_value)


def _print_dict(printer: Printer, attributes: Mapping[str, Attribute]) -> None:
    """`{a = 1, b = "x"}`; integers without their type, booleans as words."""
    with printer.in_braces():
        printer.print_list(attributes.items(), lambda item: _print_entry(printer, *item))


def _print_entry(printer: Printer, name: str, value: Attribute) -> None:
    printer.print_string(f"{name} = ")
    if isinstance(value, IntegerAttr) and value.type == i1:
        printer.print_string("true" if value.value.data else "false")
    elif isinstance(value, IntegerAttr) and value.type == IntegerType(64):
        printer.print_string(str(value.value.data))
    else:
        printer.print_attribute(value)


def _print_trailing_dict(printer: Printer, attributes: Mapping[str, Attribute]) -> None:
    if attributes:
        printer.print_string(" ")
        _print_dict(printer, attributes)


def _typed(parser: Parser, *kinds: type[Any]) -> Any:
    """A type of one of the given kinds."""
    start = parser.pos
    found = parser.parse_type()
    if not isinstance(found, kinds):
        parser.raise_error(f"expected a type {' or '.join('!' + k.name for k in kinds)}", start, parser.pos)
    return found


def _arrow(parser: Parser) -> None:
    parser.parse_punctuation("->")


def _print_type_arrow(printer: Printer, source: Attribute, target: Attribute) -> None:
    printer.print_string(" : ")
    printer.print_attribute(source)
    printer.print_string(" -> ")
    printer.print_attribute(target)


def _labels(words: Sequence[str]) -> dict[str, Attribute]:
    return {"labels": ArrayAttr([StringAttr(word) for word in words])} if words else {}


def _optional_dict(parser: Parser) -> dict[str, Attribute]:
    return parser.parse_optional_attr_dict()


# --- the regular form -------------------------------------------------------------------------------------------------


class InsOutsOp(PtoOp):
    """`pto.NAME ins(%a, %b {inside} : TA, TB) outs(%d : TD) {after}`."""

    out_count = opt_prop_def(IntegerAttr)
    """How many of the last operands are outputs; 1 when left out."""

    @classmethod
    def row(cls) -> OpRow:
        """The op's row of the table."""
        return TABLE[cls.name]

    @property
    def outs(self) -> tuple[SSAValue, ...]:
        return tuple(self.operands)[len(self.operands) - self._out_count() :]

    @property
    def ins(self) -> tuple[SSAValue, ...]:
        return tuple(self.operands)[: len(self.operands) - self._out_count()]

    def _out_count(self) -> int:
        if self.out_count is not None:
            return int(self.out_count.value.data)
        return min(1, len(self.row().outs))

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        ins, attributes = _parse_ins(parser)
        outs: list[SSAValue] = []
        if parser.parse_optional_keyword("outs") is not None:
            outs, more = _parse_group(parser)
            attributes |= more
        attributes |= _optional_dict(parser)
        return cls.make(ins, outs, attributes)

    @classmethod
    def make(
        cls,
        ins: Sequence[SSAValue],
        outs: Sequence[SSAValue],
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Self:
        """An op of this kind; `attributes` are those inside `ins` and those after `outs` alike."""
        properties = {} if len(outs) == min(1, len(cls.row().outs)) else {"out_count": IntegerAttr(len(outs), 64)}
        return cls([*ins, *outs], (), attributes, properties)

    def print(self, printer: Printer) -> None:
        inside = {k: v for k, v in self.attributes.items() if k in self.row().inside}
        after = {k: v for k, v in self.attributes.items() if k not in self.row().inside}
        printer.print_string(" ins")
        _print_group(printer, self.ins, inside)
        if self.row().outs:
            printer.print_string(" outs")
            _print_group(printer, self.outs, {})
        _print_trailing_dict(printer, after)


def _parse_ins(parser: Parser) -> tuple[list[SSAValue], dict[str, Attribute]]:
    parser.parse_keyword("ins")
    return _parse_group(parser)


def _parse_group(parser: Parser) -> tuple[list[SSAValue], dict[str, Attribute]]:
    """`(%a, %b {k = v} : TA, TB)`; a quoted word among the types is the axis of a mask."""
    parser.parse_punctuation("(")
    start = parser.pos
    names = _names(parser, "{:)")
    attributes = _optional_dict(parser)
    types: list[Attribute] = []
    if parser.parse_optional_punctuation(":") is not None:
        while True:
            axis = parser.parse_optional_str_literal()
            if axis is not None:
                attributes["axis"] = StringAttr(axis)
            else:
                types.append(parser.parse_type())
            if parser.parse_optional_punctuation(",") is None:
                break
    values = _resolve(parser, names, types, start)
    parser.parse_punctuation(")")
    return values, attributes


def _print_group(printer: Printer, values: Sequence[SSAValue], inside: Mapping[str, Attribute]) -> None:
    shown = {k: v for k, v in inside.items() if k != "axis"}
    with printer.in_parens():
        _print_values(printer, values)
        if shown:
            printer.print_string(", " if "maskPattern" in shown else " ")
            _print_dict(printer, shown)
        if values:
            printer.print_string(" : ")
            printer.print_list([v.type for v in values], printer.print_attribute)
        if "axis" in inside:
            printer.print_string(", ")
            printer.print_attribute(inside["axis"])


class QuotedOp(InsOutsOp):
    """A regular op that prints in the quoted form, such as `"pto.ttri"(%d, %t) {upperOrLower = 0 : i32} : ...`."""

    print = IRDLOperation.print


# --- tensors and windows ----------------------------------------------------------------------------------------------


@irdl_op_definition
class MakeTensorViewOp(PtoOp):
    """`%v = pto.make_tensor_view %arg0, shape = [...], strides = [...] {layout = ...} : T`.

    The pointer's type is not printed: it is a pointer to the view's element type.
    """

    name = "pto.make_tensor_view"

    @property
    def shape(self) -> tuple[SSAValue, ...]:
        return tuple(self.operands)[1 : 1 + (len(self.operands) - 1) // 2]

    @property
    def strides(self) -> tuple[SSAValue, ...]:
        return tuple(self.operands)[1 + (len(self.operands) - 1) // 2 :]

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        base = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        parser.parse_keyword("shape")
        parser.parse_punctuation("=")
        shape = _index_list(parser)
        parser.parse_punctuation(",")
        parser.parse_keyword("strides")
        parser.parse_punctuation("=")
        start = parser.pos
        strides = _index_list(parser)
        if len(shape) != len(strides):
            parser.raise_error(f"{len(shape)} dimensions, but {len(strides)} strides", start, parser.pos)
        attributes = _optional_dict(parser)
        parser.parse_punctuation(":")
        view = _typed(parser, TensorViewAttr)
        pointer = parser.resolve_operand(base, PtrAttr(PointerType(view.data.dtype)))
        return cls([pointer, *shape, *strides], [view], attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.operands[0])
        printer.print_string(", shape = [")
        _print_values(printer, self.shape)
        printer.print_string("], strides = [")
        _print_values(printer, self.strides)
        printer.print_string("]")
        _print_trailing_dict(printer, self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.results[0].type)


@irdl_op_definition
class PartitionViewOp(PtoOp):
    """`%p = pto.partition_view %v, offsets = [...], sizes = [...] : TV -> PV`."""

    name = "pto.partition_view"

    @property
    def offsets(self) -> tuple[SSAValue, ...]:
        return tuple(self.operands)[1 : 1 + (len(self.operands) - 1) // 2]

    @property
    def sizes(self) -> tuple[SSAValue, ...]:
        return tuple(self.operands)[1 + (len(self.operands) - 1) // 2 :]

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        view = parser.parse_unresolved_operand()
        lists = []
        start = parser.pos
        for word in ("offsets", "sizes"):
            parser.parse_punctuation(",")
            parser.parse_keyword(word)
            parser.parse_punctuation("=")
            lists.append(_index_list(parser))
        if len(lists[0]) != len(lists[1]):
            parser.raise_error(f"{len(lists[0])} offsets, but {len(lists[1])} sizes", start, parser.pos)
        attributes = _optional_dict(parser)
        parser.parse_punctuation(":")
        source = _typed(parser, TensorViewAttr)
        _arrow(parser)
        target = _typed(parser, PartitionAttr)
        return cls([parser.resolve_operand(view, source), *lists[0], *lists[1]], [target], attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.operands[0])
        printer.print_string(", offsets = [")
        _print_values(printer, self.offsets)
        printer.print_string("], sizes = [")
        _print_values(printer, self.sizes)
        printer.print_string("]")
        _print_trailing_dict(printer, self.attributes)
        _print_type_arrow(printer, self.operands[0].type, self.results[0].type)


@irdl_op_definition
class LoadScalarOp(PtoOp):
    """`%s = pto.load_scalar %ptr[%off] : !pto.ptr<f32> -> f32`."""

    name = "pto.load_scalar"

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        pointer = parser.parse_unresolved_operand()
        with parser.in_square_brackets():
            offset = _index(parser)
        parser.parse_punctuation(":")
        source = _typed(parser, PtrAttr)
        _arrow(parser)
        return cls([parser.resolve_operand(pointer, source), offset], [parser.parse_type()])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        _print_indexed(printer, self.operands[0], [self.operands[1]])
        _print_type_arrow(printer, self.operands[0].type, self.results[0].type)


def _print_indexed(printer: Printer, value: SSAValue, indices: Sequence[SSAValue]) -> None:
    printer.print_ssa_value(value)
    with printer.in_square_brackets():
        _print_values(printer, indices)


@irdl_op_definition
class StoreScalarOp(PtoOp):
    """`pto.store_scalar %s, %ptr[%off] : !pto.ptr<f32>, f32`; operands: pointer, offset, value."""

    name = "pto.store_scalar"

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        pointer = parser.parse_unresolved_operand()
        with parser.in_square_brackets():
            offset = _index(parser)
        parser.parse_punctuation(":")
        target = _typed(parser, PtrAttr)
        parser.parse_punctuation(",")
        scalar = parser.parse_type()
        return cls([parser.resolve_operand(pointer, target), offset, parser.resolve_operand(value, scalar)])

    def print(self, printer: Printer) -> None:
        pointer, offset, value = self.operands
        printer.print_string(" ")
        printer.print_ssa_value(value)
        printer.print_string(", ")
        _print_indexed(printer, pointer, [offset])
        printer.print_string(" : ")
        printer.print_list([pointer.type, value.type], printer.print_attribute)


@irdl_op_definition
class AddPtrOp(PtoOp):
    """`%q = pto.addptr %p, %d : <f32> -> <f32>`: both types without `!pto.ptr`."""

    name = "pto.addptr"

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        pointer = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        distance = _index(parser)
        parser.parse_punctuation(":")
        source = PtrAttr(PtrAttr.parse_parameter(parser))
        _arrow(parser)
        target = PtrAttr(PtrAttr.parse_parameter(parser))
        return cls([parser.resolve_operand(pointer, source), distance], [target])

    def print(self, printer: Printer) -> None:
        source, target = plain_type(self.operands[0].type), plain_type(self.results[0].type)
        printer.print_string(" ")
        _print_values(printer, list(self.operands))
        printer.print_string(f" : {str(source).removeprefix('!pto.ptr')} -> {str(target).removeprefix('!pto.ptr')}")


# --- tiles ------------------------------------------------------------------------------------------------------------


class _Labelled(PtoOp):
    """An op whose operands are written with a name each; `labels` holds the names in order."""

    labels = opt_prop_def(ArrayAttr)

    def label_names(self) -> tuple[str, ...]:
        return () if self.labels is None else tuple(word.data for word in self.labels.data)

    def labelled(self) -> dict[str, SSAValue]:
        """The operands by name."""
        return dict(zip(self.label_names(), self.operands, strict=True))


class _AllocOp(_Labelled):
    """`[addr = %a] [valid_row = %r] [valid_col = %c] : T`."""

    KIND: ClassVar[type[Any]]

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        words: list[str] = []
        values: list[SSAValue] = []
        for word, type_ in (("addr", IntegerType(64)), ("valid_row", INDEX), ("valid_col", INDEX)):
            if parser.parse_optional_keyword(word) is None:
                continue
            parser.parse_punctuation("=")
            words.append(word)
            values.append(parser.resolve_operand(parser.parse_unresolved_operand(), type_))
        attributes = _optional_dict(parser)
        parser.parse_punctuation(":")
        return cls(values, [_typed(parser, cls.KIND)], attributes, _labels(words))

    def print(self, printer: Printer) -> None:
        for word, value in self.labelled().items():
            printer.print_string(f" {word} = ")
            printer.print_ssa_value(value)
        _print_trailing_dict(printer, self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.results[0].type)


@irdl_op_definition
class AllocTileOp(_AllocOp):
    """`%t = pto.alloc_tile addr = %a valid_row = %r valid_col = %c : T`."""

    name = "pto.alloc_tile"
    KIND: ClassVar[type[Any]] = TileBufAttr


@irdl_op_definition
class AllocMultiTileOp(_AllocOp):
    """`%m = pto.alloc_multi_tile valid_row = %r valid_col = %c : M`."""

    name = "pto.alloc_multi_tile"
    KIND: ClassVar[type[Any]] = MultiTileAttr


@irdl_op_definition
class MultiTileGetOp(PtoOp):
    """`%t = pto.multi_tile_get %m[%i] : M -> T`."""

    name = "pto.multi_tile_get"

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        source = parser.parse_unresolved_operand()
        with parser.in_square_brackets():
            index = _index(parser)
        parser.parse_punctuation(":")
        multi = _typed(parser, MultiTileAttr)
        _arrow(parser)
        return cls([parser.resolve_operand(source, multi), index], [_typed(parser, TileBufAttr)])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        _print_indexed(printer, self.operands[0], [self.operands[1]])
        _print_type_arrow(printer, self.operands[0].type, self.results[0].type)


class _SubviewOp(PtoOp):
    """`%s = pto.subview %t[%r, %c] sizes [R, C] [valid [%a, %b]] : T -> U`."""

    sizes = opt_prop_def(ArrayAttr)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        source = parser.parse_unresolved_operand()
        offsets = _index_list(parser)
        parser.parse_keyword("sizes")
        start = parser.pos
        sizes = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False, allow_negative=False)
        )
        valid = _index_list(parser) if parser.parse_optional_keyword("valid") is not None else []
        if len(offsets) != 2 or len(sizes) != 2 or len(valid) not in (0, 2):
            parser.raise_error("a window of a tile has two offsets, sizes and extents", start, parser.pos)
        attributes = _optional_dict(parser)
        parser.parse_punctuation(":")
        tile = _typed(parser, TileBufAttr)
        _arrow(parser)
        target = _typed(parser, TileBufAttr)
        extents = ArrayAttr([IntegerAttr(size, 64) for size in sizes])
        operands = [parser.resolve_operand(source, tile), *offsets, *valid]
        return cls(operands, [target], attributes, {"sizes": extents})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        _print_indexed(printer, self.operands[0], list(self.operands)[1:3])
        sizes = [] if self.sizes is None else [str(size.value.data) for size in self.sizes.data]
        printer.print_string(f" sizes [{', '.join(sizes)}]")
        if len(self.operands) > 3:
            printer.print_string(" valid [")
            _print_values(printer, list(self.operands)[3:])
            printer.print_string("]")
        _print_trailing_dict(printer, self.attributes)
        _print_type_arrow(printer, self.operands[0].type, self.results[0].type)


@irdl_op_definition
class SubviewOp(_SubviewOp):
    name = "pto.subview"


@irdl_op_definition
class SubsetOp(_SubviewOp):
    """The name of `subview` before PTOAS v0.5x."""

    name = "pto.subset"


@irdl_op_definition
class ReshapeOp(PtoOp):
    """`%r = pto.treshape %t : T -> U`: the same bytes as another tile."""

    name = "pto.treshape"

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        source = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        tile = _typed(parser, TileBufAttr)
        _arrow(parser)
        return cls([parser.resolve_operand(source, tile)], [_typed(parser, TileBufAttr)])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.operands[0])
        _print_type_arrow(printer, self.operands[0].type, self.results[0].type)


@irdl_op_definition
class AssignOp(PtoOp):
    """`%r = pto.tassign %t, %addr : T -> T`: the tile at another address."""

    name = "pto.tassign"

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        source = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        address = parser.resolve_operand(parser.parse_unresolved_operand(), IntegerType(64))
        parser.parse_punctuation(":")
        tile = _typed(parser, TileBufAttr)
        _arrow(parser)
        return cls([parser.resolve_operand(source, tile), address], [_typed(parser, TileBufAttr)])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        _print_values(printer, list(self.operands))
        _print_type_arrow(printer, self.operands[0].type, self.results[0].type)


@irdl_op_definition
class SetValidShapeOp(PtoOp):
    """`pto.set_validshape %t, %r, %c : T`: changes the extents of the tile itself."""

    name = "pto.set_validshape"

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        tile = parser.parse_unresolved_operand()
        extents = []
        for _ in range(2):
            parser.parse_punctuation(",")
            extents.append(_index(parser))
        parser.parse_punctuation(":")
        return cls([parser.resolve_operand(tile, _typed(parser, TileBufAttr)), *extents])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        _print_values(printer, list(self.operands))
        printer.print_string(" : ")
        printer.print_attribute(self.operands[0].type)


@irdl_op_definition
class GetValueOp(PtoOp):
    """`%e = pto.tgetval ins(%t, %off : T, index) outs : f32`; the first operand may be a window of a tensor."""

    name = "pto.tgetval"

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        ins, attributes = _parse_ins(parser)
        parser.parse_keyword("outs")
        parser.parse_punctuation(":")
        return cls(ins, [parser.parse_type()], attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ins")
        _print_group(printer, list(self.operands), {})
        printer.print_string(" outs : ")
        printer.print_attribute(self.results[0].type)


# --- cross-core -------------------------------------------------------------------------------------------------------


class _BufferOp(PtoOp):
    """`%b = pto.NAME {...} -> i32`."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        attributes = _optional_dict(parser)
        _arrow(parser)
        return cls([], [parser.parse_type()], attributes)

    def print(self, printer: Printer) -> None:
        _print_trailing_dict(printer, self.attributes)
        printer.print_string(" -> ")
        printer.print_attribute(self.results[0].type)


@irdl_op_definition
class ReserveBufferOp(_BufferOp):
    name = "pto.reserve_buffer"


@irdl_op_definition
class ImportReservedBufferOp(_BufferOp):
    name = "pto.import_reserved_buffer"


class InitializePipeOp(_Labelled):
    """`pto.aic_initialize_pipe {dir_mask = 3, slot_size = 512} (c2v_consumer_buf = %p : i32, ...)`.

    With a slot buffer in global memory the operands stand on a line of their own.
    """

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        attributes = _optional_dict(parser)

        def entry() -> tuple[str, SSAValue]:
            word = parser.parse_identifier()
            parser.parse_punctuation("=")
            name = parser.parse_unresolved_operand()
            parser.parse_punctuation(":")
            return word, parser.resolve_operand(name, parser.parse_type())

        pairs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, entry)
        return cls([v for _, v in pairs], (), attributes, _labels([w for w, _ in pairs]))

    def print(self, printer: Printer) -> None:
        _print_trailing_dict(printer, self.attributes)
        apart = getattr(printer, "line_apart", None)
        if apart is not None and "gm_slot_buffer" in self.label_names():
            apart()
        else:
            printer.print_string(" ")
        with printer.in_parens():
            printer.print_list(self.labelled().items(), lambda item: _print_label(printer, *item))


def _print_label(printer: Printer, word: str, value: SSAValue) -> None:
    printer.print_string(f"{word} = ")
    printer.print_ssa_value(value)
    printer.print_string(" : ")
    printer.print_attribute(value.type)


class PushOp(PtoOp):
    """`pto.tpush_to_aiv(%t : T) {split = 0}`."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        with parser.in_parens():
            name = parser.parse_unresolved_operand()
            parser.parse_punctuation(":")
            tile = parser.resolve_operand(name, _typed(parser, TileBufAttr))
        return cls([tile], (), _optional_dict(parser))

    def print(self, printer: Printer) -> None:
        with printer.in_parens():
            printer.print_ssa_value(self.operands[0])
            printer.print_string(" : ")
            printer.print_attribute(self.operands[0].type)
        _print_trailing_dict(printer, self.attributes)


class PopOp(PtoOp):
    """`%r = pto.tpop_from_aiv[(%vr, %vc)] {split = 0} -> T`."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        extents = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, lambda: _index(parser)) or []
        attributes = _optional_dict(parser)
        _arrow(parser)
        return cls(extents, [_typed(parser, TileBufAttr)], attributes)

    def print(self, printer: Printer) -> None:
        if self.operands:
            with printer.in_parens():
                _print_values(printer, list(self.operands))
        _print_trailing_dict(printer, self.attributes)
        printer.print_string(" -> ")
        printer.print_attribute(self.results[0].type)


class FreeOp(PtoOp):
    """`pto.tfree_from_aiv {split = 0}`."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return cls((), (), _optional_dict(parser))

    def print(self, printer: Printer) -> None:
        _print_trailing_dict(printer, self.attributes)


class SyncOp(PtoOp):
    """`pto.sync.set <PIPE_MTE3>, 3`: the event is a number or an index value."""

    pipe = opt_prop_def(StringAttr)
    event = opt_prop_def(IntegerAttr)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        with parser.in_angle_brackets():
            pipe = parser.parse_identifier()
        parser.parse_punctuation(",")
        properties: dict[str, Attribute] = {"pipe": StringAttr(pipe)}
        number = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
        operands = []
        if number is None:
            operands.append(_index(parser))
        else:
            properties["event"] = IntegerAttr(number, 64)
        return cls(operands, (), _optional_dict(parser), properties)

    def print(self, printer: Printer) -> None:
        pipe = "" if self.pipe is None else self.pipe.data
        printer.print_string(f" <{pipe}>, ")
        if self.event is not None:
            printer.print_string(str(self.event.value.data))
        else:
            _print_values(printer, list(self.operands))
        _print_trailing_dict(printer, self.attributes)


@irdl_op_definition
class BarrierOp(PtoOp):
    """`pto.barrier <PIPE_V>`."""

    name = "pto.barrier"
    pipe = opt_prop_def(StringAttr)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        with parser.in_angle_brackets():
            pipe = parser.parse_identifier()
        return cls((), (), _optional_dict(parser), {"pipe": StringAttr(pipe)})

    def print(self, printer: Printer) -> None:
        printer.print_string(f" <{'' if self.pipe is None else self.pipe.data}>")
        _print_trailing_dict(printer, self.attributes)


@irdl_op_definition
class SetFftsOp(PtoOp):
    """`pto.set_ffts %arg : !pto.ptr<i64>`."""

    name = "pto.set_ffts"

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        pointer = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        return cls([parser.resolve_operand(pointer, parser.parse_type())])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.operands[0])
        printer.print_string(" : ")
        printer.print_attribute(self.operands[0].type)


@irdl_op_definition
class SyncAllOp(PtoOp):
    """`pto.syncall([%pview[, %n] : PV[, i32]]) mode = #pto.sync_all_mode<hard>, core_type = ...`."""

    name = "pto.syncall"

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        values, _ = _parse_group(parser)
        attributes: dict[str, Attribute] = {}
        while (word := parser.parse_optional_keyword_in(("mode", "core_type"))) is not None:
            parser.parse_punctuation("=")
            attributes[word] = parser.parse_attribute()
            if parser.parse_optional_punctuation(",") is None:
                break
        return cls(values, (), attributes)

    def print(self, printer: Printer) -> None:
        _print_group(printer, list(self.operands), {})
        if self.attributes:
            printer.print_string(" ")
            printer.print_list(self.attributes.items(), lambda item: _print_entry(printer, *item))


@irdl_op_definition
class FenceOp(PtoOp):
    """`pto.fence.barrier_all #pto.fence_scope<gm>`."""

    name = "pto.fence.barrier_all"

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return cls((), (), {"scope": parser.parse_attribute()})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.attributes["scope"])


@irdl_op_definition
class CacheInvalidOp(PtoOp):
    """`pto.cmo.cacheinvalid all #pto.address_space<gm>` or `pto.cmo.cacheinvalid %pview single_cache_line : PV`."""

    name = "pto.cmo.cacheinvalid"

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        if parser.parse_optional_keyword("all") is not None:
            return cls((), (), {"space": parser.parse_attribute()})
        name = parser.parse_unresolved_operand()
        parser.parse_keyword("single_cache_line")
        parser.parse_punctuation(":")
        return cls([parser.resolve_operand(name, _typed(parser, PartitionAttr))])

    def print(self, printer: Printer) -> None:
        if "space" in self.attributes:
            printer.print_string(" all ")
            printer.print_attribute(self.attributes["space"])
            return
        printer.print_string(" ")
        printer.print_ssa_value(self.operands[0])
        printer.print_string(" single_cache_line : ")
        printer.print_attribute(self.operands[0].type)


# --- local arrays -----------------------------------------------------------------------------------------------------


@irdl_op_definition
class DeclareLocalArrayOp(PtoOp):
    """`%a = pto.declare_local_array -> !pto.local_array<8xi32>`."""

    name = "pto.declare_local_array"

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        _arrow(parser)
        return cls((), [_typed(parser, LocalArrayAttr)])

    def print(self, printer: Printer) -> None:
        printer.print_string(" -> ")
        printer.print_attribute(self.results[0].type)


@irdl_op_definition
class LocalArrayGetOp(PtoOp):
    """`%e = pto.local_array_get %a[%i] : A -> i32`."""

    name = "pto.local_array_get"

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        array = parser.parse_unresolved_operand()
        with parser.in_square_brackets():
            index = _index(parser)
        parser.parse_punctuation(":")
        source = _typed(parser, LocalArrayAttr)
        _arrow(parser)
        return cls([parser.resolve_operand(array, source), index], [parser.parse_type()])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        _print_indexed(printer, self.operands[0], [self.operands[1]])
        _print_type_arrow(printer, self.operands[0].type, self.results[0].type)


@irdl_op_definition
class LocalArraySetOp(PtoOp):
    """`pto.local_array_set %a[%i], %v : A, i32`."""

    name = "pto.local_array_set"

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        array = parser.parse_unresolved_operand()
        with parser.in_square_brackets():
            index = _index(parser)
        parser.parse_punctuation(",")
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        target = _typed(parser, LocalArrayAttr)
        parser.parse_punctuation(",")
        scalar = parser.parse_type()
        return cls([parser.resolve_operand(array, target), index, parser.resolve_operand(value, scalar)])

    def print(self, printer: Printer) -> None:
        array, index, value = self.operands
        printer.print_string(" ")
        _print_indexed(printer, array, [index])
        printer.print_string(", ")
        printer.print_ssa_value(value)
        printer.print_string(" : ")
        printer.print_list([array.type, value.type], printer.print_attribute)


# --- the dialect ------------------------------------------------------------------------------------------------------


def _define(base: type[Any], full_name: str) -> type[PtoOp]:
    class_name = full_name.removeprefix("pto.").replace(".", "_") + "_op"
    made = type(class_name, (base,), {"name": full_name, "__module__": __name__})
    define: Callable[[type[Any]], type[PtoOp]] = irdl_op_definition
    return define(made)


def _regular(row: OpRow) -> type[PtoOp]:
    return _define(QuotedOp if row.generic else InsOutsOp, row.full_name)


REGULAR: dict[str, type[Any]] = {name: _regular(row) for name, row in TABLE.items()}
PIPE_OPS: dict[str, type[Any]] = {
    f"pto.{name}": _define(base, f"pto.{name}")
    for base, names in (
        (InitializePipeOp, ("aic_initialize_pipe", "aiv_initialize_pipe")),
        (PushOp, ("tpush_to_aiv", "tpush_to_aic")),
        (PopOp, ("tpop_from_aiv", "tpop_from_aic")),
        (FreeOp, ("tfree_from_aiv", "tfree_from_aic")),
        (SyncOp, ("sync.set", "sync.wait")),
    )
    for name in names
}
OWN_SPELLING: tuple[type[PtoOp], ...] = (
    MakeTensorViewOp, PartitionViewOp, LoadScalarOp, StoreScalarOp, AddPtrOp, AllocTileOp, AllocMultiTileOp,
    MultiTileGetOp, SubviewOp, SubsetOp, ReshapeOp, AssignOp, SetValidShapeOp, GetValueOp, ReserveBufferOp,
    ImportReservedBufferOp, BarrierOp, SetFftsOp, SyncAllOp, FenceOp, CacheInvalidOp, DeclareLocalArrayOp,
    LocalArrayGetOp, LocalArraySetOp,
)  # fmt: skip
OPS: dict[str, type[Any]] = {**REGULAR, **PIPE_OPS, **{op.name: op for op in OWN_SPELLING}}
"""Every op of the dialect by full name."""

PTO = Dialect("pto", list(OPS.values()), ATTRIBUTES)
