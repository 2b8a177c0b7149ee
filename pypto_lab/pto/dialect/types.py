"""Types of `.pto` values as plain, hashable data, shared by the dialect, the machine and whoever emits text."""

from __future__ import annotations

from dataclasses import dataclass, replace

SPACES = ("vec", "mat", "left", "right", "acc", "bias", "scaling")
"""On-chip memory spaces, as `loc=` prints them."""

BITS: dict[str, int] = {
    "i1": 8, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "ui8": 8, "ui16": 16, "ui32": 32, "ui64": 64,
    "si8": 8, "si16": 16, "si32": 32, "si64": 64, "index": 64,
    "f16": 16, "bf16": 16, "f32": 32, "f64": 64, "f8E4M3FN": 8, "f8E5M2": 8,
    "!pto.f8E8M0": 8, "!pto.hif8": 8, "!pto.f4E2M1x2": 8, "!pto.f4E1M2x2": 8,
}  # fmt: skip
"""Width of one stored element; a packed pair of four-bit floats is one element."""

CAPACITY: dict[str, dict[str, int]] = {
    "a2a3": {
        "vec": 192 * 1024, "mat": 512 * 1024, "left": 64 * 1024, "right": 64 * 1024, "acc": 128 * 1024,
        "bias": 1024, "scaling": 2048,
    },
    "a5": {
        "vec": 248 * 1024, "mat": 512 * 1024, "left": 64 * 1024, "right": 64 * 1024, "acc": 256 * 1024,
        "bias": 4096, "scaling": 8192,
    },
}  # fmt: skip
"""Physical bytes of each space, by architecture (`scaling`: both scale buffers)."""

ALIGNMENT = 32
"""Tiles start at multiples of this many bytes."""

LAYOUTS: dict[str, frozenset[tuple[str, str, int]]] = {
    "vec": frozenset(
        {("row_major", "none_box", 512), ("col_major", "none_box", 512), ("col_major", "row_major", 512)}
    ),
    "mat": frozenset(
        {
            ("col_major", "row_major", 512), ("row_major", "col_major", 512), ("row_major", "none_box", 512),
            ("row_major", "row_major", 32), ("col_major", "col_major", 32),
        }
    ),
    "left": frozenset({("col_major", "row_major", 512), ("row_major", "row_major", 512)}),
    "right": frozenset({("row_major", "col_major", 512)}),
    "acc": frozenset({("col_major", "row_major", 1024)}),
    "bias": frozenset({("col_major", "row_major", 512), ("row_major", "none_box", 512)}),
    "scaling": frozenset(
        {("row_major", "row_major", 32), ("col_major", "col_major", 32), ("row_major", "none_box", 512)}
    ),
}  # fmt: skip
"""The (blayout, slayout, fractal) a space can hold. A matrix loaded transposed stands in `mat` as ZN."""


def shown(extent: int | None) -> str:
    return "?" if extent is None else str(extent)


@dataclass(frozen=True, slots=True)
class TileType:
    """`!pto.tile_buf<...>`: a box of rows x cols in one space. A valid extent of None is given at run time (`?`)."""

    space: str
    dtype: str
    rows: int
    cols: int
    valid_rows: int | None
    valid_cols: int | None
    blayout: str = "row_major"
    slayout: str = "none_box"
    fractal: int = 512
    pad: int = 0
    compact: int = 0

    @property
    def layout(self) -> tuple[str, str, int]:
        return self.blayout, self.slayout, self.fractal

    @property
    def boxed(self) -> bool:
        """Whether elements stand in inner boxes (NZ, ZN, ZZ ...) and not row after row or column after column."""
        return self.slayout != "none_box"

    @property
    def layout_name(self) -> str:
        """How people call the order: ND, DN, NZ, ZN, ZZ or NN."""
        if not self.boxed:
            return "ND" if self.blayout == "row_major" else "DN"
        return ("Z" if self.blayout == "row_major" else "N") + ("Z" if self.slayout == "row_major" else "N")

    @property
    def itemsize(self) -> int:
        """Bytes of an element. Raises KeyError for a dtype without a known width."""
        return BITS[self.dtype] // 8

    @property
    def size(self) -> int:
        """Bytes of the whole box."""
        return self.rows * self.cols * self.itemsize

    def with_valid(self, rows: int | None, cols: int | None) -> TileType:
        return replace(self, valid_rows=rows, valid_cols=cols)

    def __str__(self) -> str:
        compact = f", compact={self.compact}" if self.compact else ""
        return (
            f"!pto.tile_buf<loc={self.space}, dtype={self.dtype}, rows={self.rows}, cols={self.cols}, "
            f"v_row={shown(self.valid_rows)}, v_col={shown(self.valid_cols)}, blayout={self.blayout}, "
            f"slayout={self.slayout}, fractal={self.fractal}, pad={self.pad}{compact}>"
        )

    def short(self) -> str:
        """The form newer assemblers print."""
        compact = f", compact={self.compact}" if self.compact else ""
        return (
            f"!pto.tile_buf<{self.space}, {self.rows}x{self.cols}x{self.dtype}, "
            f"valid={shown(self.valid_rows)}x{shown(self.valid_cols)}, blayout={self.blayout}, "
            f"slayout={self.slayout}, fractal={self.fractal}, pad={self.pad}{compact}>"
        )

    def brief(self) -> str:
        """A few words for messages, such as `vec f32[16x64] NZ`."""
        name = "" if self.layout_name == "ND" else f" {self.layout_name}"
        return f"{self.space} {self.dtype}[{self.rows}x{self.cols}]{name}"


@dataclass(frozen=True, slots=True)
class PointerType:
    """`!pto.ptr<dtype>`: an address in global memory."""

    dtype: str

    def __str__(self) -> str:
        return f"!pto.ptr<{self.dtype}>"


@dataclass(frozen=True, slots=True)
class TensorViewType:
    """`!pto.tensor_view<?x?xdtype>`: a strided view of a whole tensor."""

    shape: tuple[int | None, ...]
    dtype: str

    def __str__(self) -> str:
        return f"!pto.tensor_view<{'x'.join([*map(shown, self.shape), self.dtype])}>"


@dataclass(frozen=True, slots=True)
class PartitionType:
    """`!pto.partition_tensor_view<16x64xdtype>`: a window of a tensor view."""

    shape: tuple[int | None, ...]
    dtype: str

    def __str__(self) -> str:
        return f"!pto.partition_tensor_view<{'x'.join([*map(shown, self.shape), self.dtype])}>"


@dataclass(frozen=True, slots=True)
class MultiTileType:
    """`!pto.multi_tile_buf<T, count=2>`: several tiles of one type, chosen by index."""

    tile: TileType
    count: int

    def __str__(self) -> str:
        return f"!pto.multi_tile_buf<{self.tile}, count={self.count}>"

    def short(self) -> str:
        return f"!pto.multi_tile_buf<{self.tile.short()}, count={self.count}>"


@dataclass(frozen=True, slots=True)
class LocalArrayType:
    """`!pto.local_array<8xi32>`: scalars held by the scalar unit."""

    size: int
    dtype: str

    def __str__(self) -> str:
        return f"!pto.local_array<{self.size}x{self.dtype}>"


ValueType = TileType | PointerType | TensorViewType | PartitionType | MultiTileType | LocalArrayType | str
"""The type of a `.pto` value; scalars and opaque handles go by their printed name."""


def inner_box(tile: TileType) -> tuple[int, int]:
    """Rows and columns of one box of a boxed tile.

    A tile of a single row whose boxes hold rows (the bias of a product, the vector of a matrix-vector product) has
    boxes of one row: it stands in memory element after element.
    """
    if tile.fractal == 1024:
        rows, columns = 16, 16
    elif tile.fractal == 32:
        rows, columns = (16, 2) if tile.slayout == "row_major" else (2, 16)
    else:
        line = max(1, ALIGNMENT // tile.itemsize)
        rows, columns = (16, line) if tile.slayout == "row_major" else (line, 16)
    return (1, columns) if tile.rows == 1 and tile.slayout == "row_major" else (rows, columns)
