"""Types of the IR as types of `.pto` text: element names, tiles with their layout, scalars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto_lab.ir import nodes as n
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import MemorySpace
from pypto_lab.ir.types import TileType, constant_dims, tile_layout
from pypto_lab.pto.dialect.attributes import type_attribute
from pypto_lab.pto.dialect.types import TileType as PtoTile

if TYPE_CHECKING:
    from xdsl.ir import Attribute

ELEMENTS: dict[str, str] = {
    "INT8": "i8", "INT16": "i16", "INT32": "i32", "INT64": "i64",
    "UINT8": "ui8", "UINT16": "ui16", "UINT32": "ui32", "UINT64": "ui64",
    "FP16": "f16", "BF16": "bf16", "FP32": "f32", "FP64": "f64",
    "FP8E4M3FN": "f8E4M3FN", "FP8E5M2": "f8E5M2", "FP8E8M0": "!pto.f8E8M0", "HF8": "!pto.hif8",
    "INDEX": "index", "BOOL": "i1",
}  # fmt: skip
"""Element types by dtype name. Packed four-bit types are missing: their axes would have to be halved everywhere."""

SPACES: dict[MemorySpace, str] = {
    MemorySpace.Vec: "vec", MemorySpace.Mat: "mat", MemorySpace.Left: "left", MemorySpace.Right: "right",
    MemorySpace.Acc: "acc", MemorySpace.Bias: "bias", MemorySpace.LeftScale: "scaling",
    MemorySpace.RightScale: "scaling",
}  # fmt: skip


def element(dtype: DType) -> str:
    """The element type's name. Raises ValueError for a dtype that has none in the text."""
    if dtype.name not in ELEMENTS:
        raise ValueError(f"{dtype.name} has no element type in .pto text")
    return ELEMENTS[dtype.name]


def scalar_type(dtype: DType) -> Attribute:
    """The type of a scalar. Raises ValueError as `element`."""
    return type_attribute(element(dtype))


def box(tile: TileType) -> tuple[int, int]:
    """Physical rows and columns; one dimension is a row. Raises ValueError for a box that is no constant matrix."""
    dims = constant_dims(tile.shape)
    if dims is None or not 1 <= len(dims) <= 2:
        raise ValueError("a tile is a box of one or two constant dimensions")
    return (1, dims[0]) if len(dims) == 1 else (dims[0], dims[1])


def valid_extents(tile: TileType) -> tuple[n.Expr, n.Expr]:
    """Valid rows and columns as expressions. Raises ValueError as `box`."""
    box(tile)
    valid = tile.valid_shape
    return (n.const(1), valid[0]) if len(valid) == 1 else (valid[0], valid[1])


def tile_type(tile: TileType, valid: tuple[int | None, int | None] = (None, None)) -> PtoTile:
    """The tile's type, its valid extents left open (`?`) unless stated.

    Raises ValueError for a tile without a space, with another shape than a matrix, or of an unknown element type.
    """
    if tile.memory_space not in SPACES:
        raise ValueError("a tile needs an on-chip memory space")
    rows, cols = box(tile)
    blayout, slayout, fractal = tile_layout(tile)
    view = tile.view
    pad = view.pad.value if view is not None and view.pad is not None else 0
    compact = view.compact.value if view is not None and view.compact is not None else 0
    return PtoTile(
        SPACES[tile.memory_space], element(tile.dtype), rows, cols, *valid,
        blayout.name, slayout.name, fractal, pad, compact,
    )  # fmt: skip
