"""The dialect's types and attributes in xDSL: plain data of `types`, read and printed in the `.pto` spelling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Data, SpacedOpaqueSyntaxAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from pypto_lab.pto.dialect.types import (
    BITS,
    SPACES,
    LocalArrayType,
    MultiTileType,
    PartitionType,
    PointerType,
    TensorViewType,
    TileType,
    ValueType,
)

BLAYOUTS = ("row_major", "col_major")
SLAYOUTS = ("none_box", "row_major", "col_major")
_LARGEST = 1 << 31


def _element(parser: AttrParser) -> str:
    """An element type, as its printed name. Signedness is part of the name: `ui32`, `i32`."""
    start = parser.pos
    name = str(parser.parse_type())
    if name not in BITS:
        parser.raise_error(f"{name} is not an element type", start, parser.pos)
    return name


def _extent(parser: AttrParser) -> int | None:
    """A size, or `?`."""
    if parser.parse_optional_punctuation("?") is not None:
        return None
    return _size(parser)


def _size(parser: AttrParser) -> int:
    start = parser.pos
    value = parser.parse_integer(allow_boolean=False, allow_negative=False)
    if value >= _LARGEST:
        parser.raise_error(f"{value} is too large for a size", start, parser.pos)
    return value


def _shape(parser: AttrParser) -> tuple[tuple[int | None, ...], str]:
    """Dimensions and an element type: `16x?xf32`."""
    start = parser.pos
    dims, element = parser.parse_ranked_shape()
    name = str(element)
    if name not in BITS:
        parser.raise_error(f"{name} is not an element type", start, parser.pos)
    if any(d >= _LARGEST for d in dims):
        parser.raise_error("a dimension is too large", start, parser.pos)
    return tuple(None if d < 0 else d for d in dims), name


def _shaped(parser: AttrParser) -> tuple[tuple[int | None, ...], str]:
    with parser.in_angle_brackets():
        return _shape(parser)


def _short(printer: Printer) -> bool:
    return bool(getattr(printer, "short_tiles", False))


@irdl_attr_definition
class PtrAttr(Data[PointerType], TypeAttribute):
    name = "pto.ptr"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> PointerType:
        with parser.in_angle_brackets():
            return PointerType(_element(parser))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data.dtype}>")


@irdl_attr_definition
class TensorViewAttr(Data[TensorViewType], TypeAttribute):
    name = "pto.tensor_view"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TensorViewType:
        return TensorViewType(*_shaped(parser))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(str(self.data).removeprefix("!pto.tensor_view"))


@irdl_attr_definition
class PartitionAttr(Data[PartitionType], TypeAttribute):
    name = "pto.partition_tensor_view"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> PartitionType:
        return PartitionType(*_shaped(parser))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(str(self.data).removeprefix("!pto.partition_tensor_view"))


@irdl_attr_definition
class TileBufAttr(Data[TileType], TypeAttribute):
    """A tile, in the long form (`loc=vec, dtype=f32, ...`) or the short one (`vec, 16x64xf32, valid=?x?, ...`)."""

    name = "pto.tile_buf"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TileType:
        with parser.in_angle_brackets():
            if parser.parse_optional_keyword("loc") is None:
                return _short_tile(parser)
            return _long_tile(parser)

    def print_parameter(self, printer: Printer) -> None:
        text = self.data.short() if _short(printer) else str(self.data)
        printer.print_string(text.removeprefix("!pto.tile_buf"))


def _key(parser: AttrParser, name: str) -> None:
    parser.parse_punctuation(",")
    parser.parse_keyword(name)
    parser.parse_punctuation("=")


def _long_tile(parser: AttrParser) -> TileType:
    parser.parse_punctuation("=")
    space = parser.parse_keyword_in(SPACES, " (a memory space)")
    _key(parser, "dtype")
    dtype = _element(parser)
    _key(parser, "rows")
    rows = _size(parser)
    _key(parser, "cols")
    cols = _size(parser)
    _key(parser, "v_row")
    valid_rows = _extent(parser)
    _key(parser, "v_col")
    valid_cols = _extent(parser)
    blayout, slayout, fractal, pad, compact = _configuration(parser)
    return TileType(space, dtype, rows, cols, valid_rows, valid_cols, blayout, slayout, fractal, pad, compact)


def _short_tile(parser: AttrParser) -> TileType:
    space = parser.parse_keyword_in(SPACES, " (a memory space)")
    parser.parse_punctuation(",")
    start = parser.pos
    dims, dtype = _shape(parser)
    if len(dims) != 2 or dims[0] is None or dims[1] is None:
        parser.raise_error("a tile has two fixed dimensions", start, parser.pos)
    _key(parser, "valid")
    valid_rows, valid_cols = _valid_pair(parser)
    if hasattr(parser, "short_tiles"):
        parser.short_tiles = True
    blayout, slayout, fractal, pad, compact = _configuration(parser)
    return TileType(space, dtype, dims[0], dims[1], valid_rows, valid_cols, blayout, slayout, fractal, pad, compact)


def _valid_pair(parser: AttrParser) -> tuple[int | None, int | None]:
    """`?x?`, `16x?`, `?x32`, `16x32`: the lexer takes a trailing `x32` for a name, so dimensions are read as such."""
    start = parser.pos
    rows = parser.parse_shape_dimension()
    parser.parse_shape_delimiter()
    cols = parser.parse_shape_dimension()
    if max(rows, cols) >= _LARGEST:
        parser.raise_error("a valid extent is too large", start, parser.pos)
    return None if rows < 0 else rows, None if cols < 0 else cols


def _configuration(parser: AttrParser) -> tuple[str, str, int, int, int]:
    _key(parser, "blayout")
    blayout = parser.parse_keyword_in(BLAYOUTS, " (a block layout)")
    _key(parser, "slayout")
    slayout = parser.parse_keyword_in(SLAYOUTS, " (a layout inside blocks)")
    _key(parser, "fractal")
    fractal = _size(parser)
    _key(parser, "pad")
    pad = _size(parser)
    compact = 0
    if parser.parse_optional_punctuation(",") is not None:
        parser.parse_keyword("compact")
        parser.parse_punctuation("=")
        compact = _size(parser)
    return blayout, slayout, fractal, pad, compact


@irdl_attr_definition
class MultiTileAttr(Data[MultiTileType], TypeAttribute):
    name = "pto.multi_tile_buf"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> MultiTileType:
        with parser.in_angle_brackets():
            start = parser.pos
            tile = parser.parse_type()
            if not isinstance(tile, TileBufAttr):
                parser.raise_error("a tile type is expected", start, parser.pos)
            _key(parser, "count")
            return MultiTileType(tile.data, _size(parser))

    def print_parameter(self, printer: Printer) -> None:
        text = self.data.short() if _short(printer) else str(self.data)
        printer.print_string(text.removeprefix("!pto.multi_tile_buf"))


@irdl_attr_definition
class LocalArrayAttr(Data[LocalArrayType], TypeAttribute):
    name = "pto.local_array"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> LocalArrayType:
        start = parser.pos
        shape, dtype = _shaped(parser)
        if len(shape) != 1 or shape[0] is None:
            parser.raise_error("a local array has one fixed dimension", start, parser.pos)
        return LocalArrayType(shape[0], dtype)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data.size}x{self.data.dtype}>")


# --- types without parameters and keyword attributes ------------------------------------------------------------------


class BareType(Data[str], TypeAttribute):
    """A type that is only a name, such as `!pto.hif8` or an opaque handle."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        return ""

    def print_parameter(self, printer: Printer) -> None:
        return None


class KeywordAttr(Data[str]):
    """`#pto.layout<nd>`: one word of a kind."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parser.parse_identifier()

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


class SpacedKeywordAttr(Data[str], SpacedOpaqueSyntaxAttribute):
    """`#pto<round_mode RINT>`: one word of a kind, in the form older attributes print."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        return parser.parse_identifier()

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data)


BARE_TYPES = (
    "f8E8M0", "hif8", "f4E2M1x2", "f4E1M2x2", "prefetch_async_context", "async_event", "async_session",
)  # fmt: skip
KEYWORDS = ("layout", "kernel_kind", "address_space", "mask_pattern", "sync_all_mode", "sync_core_type", "fence_scope")
"""Kinds that print as `#pto.KIND<word>`."""
SPACED_KEYWORDS = (
    "round_mode", "cmp", "atomic_type", "div_precision", "log_precision", "recip_precision", "acc_phase", "coalesce",
    "gather_oob", "pipe", "exp_precision", "sqrt_precision", "rsqrt_precision",
)  # fmt: skip
"""Kinds that print as `#pto<KIND word>`."""


def _define(base: type[Any], mnemonic: str) -> type[Attribute]:
    made = type(f"{mnemonic}_attribute", (base,), {"name": f"pto.{mnemonic}", "__module__": __name__})
    define: Callable[[type[Any]], type[Attribute]] = irdl_attr_definition
    return define(made)


BARE: dict[str, type[Any]] = {name: _define(BareType, name) for name in BARE_TYPES}
KEYWORD: dict[str, type[Any]] = {name: _define(KeywordAttr, name) for name in KEYWORDS}
SPACED: dict[str, type[Any]] = {name: _define(SpacedKeywordAttr, name) for name in SPACED_KEYWORDS}
ATTRIBUTES: list[type[Attribute]] = [
    PtrAttr, TensorViewAttr, PartitionAttr, TileBufAttr, MultiTileAttr, LocalArrayAttr,
    *BARE.values(), *KEYWORD.values(), *SPACED.values(),
]  # fmt: skip


def keyword(kind: str, word: str) -> Attribute:
    """The attribute `#pto.kind<word>` or `#pto<kind word>`. Raises KeyError for an unknown kind."""
    made: Attribute = {**KEYWORD, **SPACED}[kind](word)
    return made


def plain_type(attribute: Attribute) -> ValueType:
    """An xDSL type as plain data; types of other dialects go by their printed name."""
    if isinstance(attribute, (PtrAttr, TensorViewAttr, PartitionAttr, TileBufAttr, MultiTileAttr, LocalArrayAttr)):
        return attribute.data
    return str(attribute)


_WRAPPERS: dict[type[Any], type[Any]] = {
    PointerType: PtrAttr,
    TensorViewType: TensorViewAttr,
    PartitionType: PartitionAttr,
    TileType: TileBufAttr,
    MultiTileType: MultiTileAttr,
    LocalArrayType: LocalArrayAttr,
}


def type_attribute(plain: ValueType) -> Attribute:
    """Plain data as an xDSL type. Raises KeyError for a name that is no scalar type."""
    if not isinstance(plain, str):
        wrapped: Attribute = _WRAPPERS[type(plain)](plain)
        return wrapped
    if plain.startswith("!pto."):
        bare: Attribute = BARE[plain.removeprefix("!pto.")]("")
        return bare
    return _scalar_type(plain)


def _scalar_type(name: str) -> Attribute:
    from xdsl.dialects import builtin

    floats: dict[str, type[Attribute]] = {
        "f16": builtin.Float16Type, "bf16": builtin.BFloat16Type, "f32": builtin.Float32Type,
        "f64": builtin.Float64Type, "f8E4M3FN": builtin.Float8E4M3FNType, "f8E5M2": builtin.Float8E5M2Type,
        "index": builtin.IndexType,
    }  # fmt: skip
    if name in floats:
        return floats[name]()
    signedness = {
        "i": builtin.Signedness.SIGNLESS, "si": builtin.Signedness.SIGNED, "ui": builtin.Signedness.UNSIGNED,
    }  # fmt: skip
    letters = name.rstrip("0123456789")
    return IntegerType(int(name[len(letters) :]), signedness[letters])
