"""Types of values: scalars, tensors, tiles with their views, tuples, arrays and opaque handles (language.md 1.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import CompactMode, MemorySpace, PadValue, TensorLayout, TileLayout

if TYPE_CHECKING:
    from pypto_lab.ir.nodes import Expr


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """Base of all types. Compare with `ir.equal.types_equal`: dimensions are expressions."""


@dataclass(frozen=True, slots=True, eq=False)
class UnknownType(Type):
    """A value whose type nothing states (forward calls, recovery after an error)."""


@dataclass(frozen=True, slots=True, eq=False)
class ScalarType(Type):
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class MemRef:
    """The bytes a value lives in: `base` is a name (DDR) or the variable of a `tile.alloc`.

    `declared` marks the user's pinning form `pl.MemRef("name"[, slots=N])[k]`, which has no offset and size yet.
    `legacy` keeps the arguments of the old forms `pl.MemRef(space, addr, size, id)` and `pl.MemRef(addr, size, id)`.
    """

    base: str | Expr | None
    offset: Expr | None = None
    size: int | None = None
    slots: int | None = None
    slot: Expr | None = None
    declared: bool = False
    legacy: tuple[object, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TensorView:
    """Fields a printed view states; None means not stated (ND, packed strides, fully valid, no pad)."""

    valid_shape: tuple[Expr, ...] | None = None
    stride: tuple[Expr, ...] | None = None
    layout: TensorLayout | None = None
    pad: PadValue | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TileView:
    """Fields a printed view states; None means the implicit value of the tile's memory space (:func:`tile_layout`)."""

    valid_shape: tuple[Expr, ...] | None = None
    stride: tuple[Expr, ...] | None = None
    start_offset: Expr | None = None
    blayout: TileLayout | None = None
    slayout: TileLayout | None = None
    fractal: int | None = None
    pad: PadValue | None = None
    compact: CompactMode | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ShapedType(Type):
    """What tensors and tiles share. `shape` is the full (physical) shape."""

    shape: tuple[Expr, ...]
    dtype: DType

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def stated_valid(self) -> tuple[Expr, ...] | None:
        """The valid shape its view states, else None: the whole box is valid."""
        view = getattr(self, "view", None)
        return None if view is None else view.valid_shape

    @property
    def valid_shape(self) -> tuple[Expr, ...]:
        stated = self.stated_valid
        return self.shape if stated is None else stated


@dataclass(frozen=True, slots=True, eq=False)
class TensorType(ShapedType):
    """A tensor in global memory; `distributed` marks a DistributedTensor (with the name of its window buffer)."""

    view: TensorView | None = None
    memref: MemRef | None = None
    distributed: bool = False
    window_buffer: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TileType(ShapedType):
    """A tile in on-chip memory."""

    view: TileView | None = None
    memory_space: MemorySpace | None = None
    memref: MemRef | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ArrayType(Type):
    """A small on-core array of integers, booleans or task ids."""

    extent: Expr
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class TupleType(Type):
    elements: tuple[Type, ...]


@dataclass(frozen=True, slots=True, eq=False)
class HandleType(Type):
    """An opaque handle printed as it is written: `pl.Ptr`, `pl.MemRefType`, `pld.CommCtx`, `pl.AsyncEvent` ..."""

    name: str


UNKNOWN = UnknownType()
PTR = HandleType("pl.Ptr")
HANDLES = (
    "pl.Ptr", "pl.MemRefType", "pl.PrefetchAsyncContext", "pl.AsyncEvent", "pl.AsyncSession",
    "pld.CommCtx", "pld.CommCtxType", "pld.WindowBufferType",
)  # fmt: skip


def constant_dims(dims: Sequence[Expr]) -> tuple[int, ...] | None:
    """The dimensions as integers when all are constants, else None."""
    values = tuple(getattr(d, "value", None) for d in dims)
    return values if all(type(v) is int for v in values) else None  # type: ignore[return-value]


def tile_layout(tile: TileType) -> tuple[TileLayout, TileLayout, int]:
    """(blayout, slayout, fractal bytes) of a tile: what its view states over the implicit values of its space."""
    space, dims = tile.memory_space, constant_dims(tile.shape)
    column = dims is not None and len(dims) == 2 and dims[0] > 1 and dims[1] == 1
    default = TileLayout.col_major if column else TileLayout.row_major
    implicit = (
        {
            MemorySpace.Mat: (TileLayout.col_major, TileLayout.row_major, 512),
            MemorySpace.Left: (TileLayout.col_major, TileLayout.row_major, 512),
            MemorySpace.Right: (default, TileLayout.col_major, 512),
            MemorySpace.Acc: (TileLayout.col_major, TileLayout.row_major, 1024),
            MemorySpace.LeftScale: (TileLayout.row_major, TileLayout.row_major, 32),
            MemorySpace.RightScale: (TileLayout.col_major, TileLayout.col_major, 32),
        }.get(space, (default, TileLayout.none_box, 512))
        if space is not None
        else (default, TileLayout.none_box, 512)
    )
    view = tile.view
    if view is None:
        return implicit
    return (
        implicit[0] if view.blayout is None else view.blayout,
        implicit[1] if view.slayout is None else view.slayout,
        implicit[2] if view.fractal is None else view.fractal,
    )
