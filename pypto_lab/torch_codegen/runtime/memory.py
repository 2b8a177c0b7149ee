"""Moving data: create, load, store, slice, assemble, extract, move, single elements (torch_codegen.md 2.2)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import torch

from pypto_lab.torch_codegen.runtime.casts import _STORED_AS
from pypto_lab.torch_codegen.runtime.values import _box, _cut, _is_debug_run, _is_partial, _mark, _undefined, _valid_of


def _stored_dtype(dtype: torch.dtype | str) -> torch.dtype:
    """The torch dtype that holds values of a PyPTO dtype; those torch lacks come by name."""
    return _STORED_AS[dtype] if isinstance(dtype, str) else dtype


def _alloc() -> None:
    """A raw allocation: its identity is all there is to it, values live in their own tensors."""


def _create(
    shape: Sequence[int],
    *,
    dtype: torch.dtype | str,
    init_value: float | None = None,
    layout: str = "ND",
    manual_dep: bool = False,
    target_memory: str = "Vec",
    transpose: bool | None = None,
    flat_layout: bool | None = None,
    valid_shape: Sequence[int] | None = None,
) -> torch.Tensor:
    """A new box. Its cells are undefined unless `init_value` fills them; `valid_shape` is what its type declares."""
    stored = _stored_dtype(dtype)
    if init_value is None:
        box = _undefined(tuple(shape), stored)
    else:
        box = torch.full(tuple(shape), init_value, dtype=stored)
    return box if valid_shape is None else _mark(box, valid_shape)


def _dim(x: torch.Tensor, axis: int) -> int:
    """Full extent of an axis."""
    return x.shape[axis]


def _check_window(op: str, offsets: Sequence[int], extents: Sequence[int], bounds: Sequence[int]) -> None:
    """Raises RuntimeError where a window starts before its box or (unless it is empty) ends after it."""
    empty = 0 in extents
    for axis, (offset, extent, bound) in enumerate(zip(offsets, extents, bounds, strict=True)):
        if extent < 0:
            raise RuntimeError(f"{op}: extent {extent} on axis {axis} is negative")
        if offset < 0 or (offset + extent > bound and not empty):
            raise RuntimeError(
                f"{op}: offset {offset} with extent {extent} on axis {axis} leaves the box, whose extent is {bound}"
            )


def _window(offsets: Sequence[int], extents: Sequence[int]) -> tuple[slice, ...]:
    return tuple([slice(o, o + e) for o, e in zip(offsets, extents, strict=True)])


def _cells_at(op: str, x: torch.Tensor, offsets: Sequence[int], extents: Sequence[int]) -> torch.Tensor:
    """The cells of a window as a view. Raises RuntimeError like `_check_window`."""
    parts = []
    for offset, extent, bound in zip(offsets, extents, x.shape, strict=True):
        end = offset + extent
        if not 0 <= offset <= end <= bound:
            _check_window(op, offsets, extents, x.shape)
        parts.append(slice(offset, end))
    return x[tuple(parts)]


def _available(
    op: str,
    source: torch.Tensor,
    offsets: Sequence[int],
    wanted: Sequence[int],
    clamp: bool,
) -> tuple[int, ...]:
    """Valid extents of a window: min(wanted, clamp(source valid - offset, 0, window)).

    Without `clamp` the wanted cells are promised to exist in the source's box; a broken promise raises RuntimeError.
    """
    if not clamp:
        _check_window(op, offsets, wanted, source.shape)
        if not _is_partial(source):
            return tuple(wanted)
        _check_existing(op, source, offsets, wanted)
    elif min(offsets, default=0) < 0:
        raise RuntimeError(f"{op}: offset {min(offsets)} is negative")
    return tuple([max(0, min(w, v - o)) for w, v, o in zip(wanted, _valid_of(source), offsets, strict=True)])


def _memory_of(x: torch.Tensor) -> torch.Tensor:
    """The memory an overhanging window shows, any other tensor itself."""
    behind: torch.Tensor | None = getattr(x, "_pypto_behind", None)
    return x if behind is None else behind


def _memory_to_write(op: str, target: torch.Tensor, offsets: Sequence[int], extents: Sequence[int]) -> torch.Tensor:
    """Where a write goes: the memory behind an overhanging window. Raises RuntimeError where that has no such cells."""
    overhang = getattr(target, "_pypto_overhang", None)
    if overhang is None:
        return target
    _check_existing(op, target, offsets, extents)
    behind: torch.Tensor | None = target._pypto_behind  # type: ignore[attr-defined]
    if behind is None:
        raise RuntimeError(f"{op}: the target shows no memory in this shape; {overhang}")
    return behind


_HANGING: set[str] = set()
"""Windows that hang over the end of their tensor and that this run has told about."""


def _check_existing(op: str, source: torch.Tensor, offsets: Sequence[int], wanted: Sequence[int]) -> None:
    """Raises RuntimeError when cells are wanted that an overhanging window (`_hanging_over`) does not have."""
    overhang = getattr(source, "_pypto_overhang", None)
    if overhang is not None and any(o + w > v for o, w, v in zip(offsets, wanted, _valid_of(source), strict=True)):
        raise RuntimeError(f"{op}: offset {list(offsets)} with extent {list(wanted)} is not there; {overhang}")


def _hanging_over(
    source: torch.Tensor, box: tuple[int, ...], offset: Sequence[int], wanted: Sequence[int]
) -> torch.Tensor:
    """A window that goes past the end of its tensor: its cells there are undefined, the others are the tensor's.

    A slice moves no data, so the device notices only a use of the missing cells. The window is a box of its own that
    remembers the memory it shows (`_pypto_behind`): element reads, loads and stores go there.
    """
    shown = source[_window(offset, _available("tensor.slice", source, offset, wanted, True))]
    window = _box(shown, box)
    text = f"tensor.slice took offset {list(offset)} with extent {list(wanted)} of {list(source.shape)}"
    window._pypto_behind = shown  # type: ignore[attr-defined]
    window._pypto_overhang = text  # type: ignore[attr-defined]
    kind = f"{list(wanted)} of {list(source.shape)}"
    if kind not in _HANGING:
        _HANGING.add(kind)
        warnings.warn(f"{text}: cells past the end are undefined", RuntimeWarning, stacklevel=3)
    return window


def _lift(values: Sequence[int], rank: int, fill: int) -> tuple[int, ...]:
    """`values` with leading entries added up to `rank`."""
    return (fill,) * (rank - len(values)) + tuple(values)


def _tile_load(
    source: torch.Tensor,
    offsets: Sequence[int],
    shapes: Sequence[int],
    valid_shape: Sequence[int] | None = None,
    *,
    target_memory: str = "Vec",
    clamp: bool = False,
) -> torch.Tensor:
    """Copies a window of global memory to a tile; cells outside the valid region are undefined.

    A window of lower rank than the source covers its last axes. Raises RuntimeError when the wanted cells leave the
    source's box and `clamp` is off, or an offset is negative.
    """
    box, rank = tuple(shapes), source.dim()
    wanted = box if not valid_shape else tuple(valid_shape)
    if rank == 2 == len(box) and wanted == box and not clamp and not _is_partial(source):
        # the common case, kept short: a window whose slice has the box's shape lies inside the source
        row, column = offsets
        if row >= 0 and column >= 0:
            cells = source[row : row + box[0], column : column + box[1]]
            if cells.shape == box:
                return cells.clone(memory_format=torch.contiguous_format)
    if not clamp and len(box) == rank and getattr(source, "_pypto_valid_shape", None) is None:
        cells = _cells_at("tile.load", source, offsets, wanted)
        return cells.clone(memory_format=torch.contiguous_format) if wanted == box else _box(cells, box)
    valid = _available("tile.load", source, offsets, _lift(wanted, rank, 1), clamp)
    source = _memory_of(source)
    cells = source[_window(offsets, valid)]
    if len(box) < rank:
        valid = valid[rank - len(box) :] if 0 not in valid[: rank - len(box)] else (0,) * len(box)
        cells = cells.reshape(valid)
    return cells.clone(memory_format=torch.contiguous_format) if valid == box else _box(cells, box)


def _tensor_slice(
    source: torch.Tensor,
    shape: Sequence[int],
    offset: Sequence[int],
    valid_shape: Sequence[int] | None = None,
    drop_dims: Sequence[int] | None = None,
    *,
    pad_value: str | float | None = None,
    clamp: bool = False,
) -> torch.Tensor:
    """A window of a tensor: a view of the same memory where the window lies inside the source.

    `clamp` cuts the valid region to the edge. Without it the wanted cells (the valid ones with `valid_shape`) should
    exist: a window that hangs over has undefined cells, is warned about once, and reading or storing one of them by
    index, load or store raises. A window with a pad value is a copy. Raises RuntimeError for a negative offset.
    """
    source = _memory_of(source)
    box = tuple(shape)
    wanted = box if not valid_shape else tuple(valid_shape)
    past = any(o + w > b for o, w, b in zip(offset, wanted, source.shape, strict=True))
    if past and not clamp and min(offset, default=0) >= 0 and 0 not in wanted:
        window = _hanging_over(source, box, offset, wanted)
        return _drop_axes(window, drop_dims) if drop_dims else window
    if wanted == box and not (clamp or _is_partial(source)) and pad_value is None:
        window = _cells_at("tensor.slice", source, offset, box)
        return _drop_axes(window, drop_dims) if drop_dims else window
    valid = _available("tensor.slice", source, offset, wanted, clamp)
    inside = all(o + e <= b for o, e, b in zip(offset, box, source.shape, strict=True))
    if inside and pad_value is None:
        window = _mark(source[_window(offset, box)], valid)
    else:
        window = _padded(source[_window(offset, valid)], box, pad_value)
    return _drop_axes(window, drop_dims) if drop_dims else window


def _tile_slice(
    source: torch.Tensor,
    shape: Sequence[int],
    offset: Sequence[int],
    valid_shape: Sequence[int] | None = None,
    drop_dims: Sequence[int] | None = None,
    *,
    pad_value: str | float | None = None,
) -> torch.Tensor:
    """A window of a tile: a view where it is fully valid, else a copy with undefined cells.

    Raises RuntimeError when the window leaves the tile's box.
    """
    box = tuple(shape)
    _check_window("tile.slice", offset, box, source.shape)
    wanted = box if not valid_shape else tuple(valid_shape)
    valid = tuple([max(0, min(w, v - o)) for w, v, o in zip(wanted, _valid_of(source), offset, strict=True)])
    cells = source[_window(offset, valid)]
    window = cells if valid == box else _padded(cells, box, pad_value)
    return _drop_axes(window, drop_dims, keep=2) if drop_dims else window


def _tile_extract(
    source: torch.Tensor, row: int, column: int, shape: Sequence[int], *, target_memory: str = "Vec"
) -> torch.Tensor:
    """Copies the sub-tile at (row, column); its valid region follows the source's. Raises RuntimeError like slice."""
    box = tuple(shape)
    _check_window("tile.extract", (row, column), box, source.shape)
    valid = tuple([max(0, min(b, v - o)) for b, v, o in zip(box, _valid_of(source), (row, column), strict=True)])
    return _padded(source[_window((row, column), valid)], box, None)


def _padded(cells: torch.Tensor, box: tuple[int, ...], pad_value: str | float | None) -> torch.Tensor:
    """A copy of `cells` in a box; the other cells are undefined, or hold the pad value."""
    valid = tuple(cells.shape)
    if valid == box:
        return cells.clone(memory_format=torch.contiguous_format)
    if pad_value is None or pad_value == "null":
        return _box(cells, box)
    out = torch.full(box, _pad_number(pad_value, cells.dtype), dtype=cells.dtype)
    out[_window((0,) * len(valid), valid)] = cells
    return _mark(out, valid)


def _pad_number(pad_value: str | float, dtype: torch.dtype) -> float | int:
    """The number a pad mode stands for: zero, the infinities of floats, the limits of integers; numbers as they are."""
    if not isinstance(pad_value, str):
        if dtype.is_floating_point or pad_value not in (float("inf"), float("-inf")):
            return pad_value if dtype.is_floating_point else int(pad_value)
        pad_value = "max" if pad_value > 0 else "min"
    if pad_value in ("zero", "null"):
        return 0
    if dtype is torch.bool:
        return int(pad_value == "max")
    if dtype in (torch.float8_e4m3fn, torch.float8_e8m0fnu):
        info = torch.finfo(dtype)  # these types have no infinity
        return info.max if pad_value == "max" else info.min
    if dtype.is_floating_point:
        return float("inf") if pad_value == "max" else float("-inf")
    limits = torch.iinfo(dtype)
    return limits.max if pad_value == "max" else limits.min


def _drop_axes(window: torch.Tensor, dims: Sequence[int], keep: int = 1) -> torch.Tensor:
    """Erases unit axes, keeping at least `keep` axes (tiles stay two-dimensional)."""
    rank = window.dim()
    gone = sorted(d % rank for d in dims)[: max(0, rank - keep)]
    valid = _valid_of(window)
    kept = [axis for axis in range(rank) if axis not in gone]
    empty = any(valid[axis] == 0 for axis in gone)
    places = tuple([0 if axis in gone else slice(None) for axis in range(rank)])
    smaller = _mark(window[places], [0 if empty else valid[axis] for axis in kept])
    return _with_memory(smaller, window, lambda behind: None if empty else behind[places])


def _with_memory(
    seen: torch.Tensor, window: torch.Tensor, view: Callable[[torch.Tensor], torch.Tensor | None]
) -> torch.Tensor:
    """`seen`, another view of a window: where the window hangs over, it shows the same memory. `view` is that memory
    seen alike; None or a RuntimeError where it cannot be."""
    behind: torch.Tensor | None = getattr(window, "_pypto_behind", None)
    if behind is None:
        return seen
    seen._pypto_behind = view(behind)  # type: ignore[attr-defined]
    seen._pypto_overhang = window._pypto_overhang  # type: ignore[attr-defined]
    return seen


def _fresh(x: torch.Tensor) -> torch.Tensor:
    """A copy with its valid region."""
    out = x.clone(memory_format=torch.contiguous_format)
    return _mark(out, _valid_of(x)) if _is_partial(x) else out


def _union(op: str, had: Sequence[int], offsets: Sequence[int], extents: Sequence[int]) -> tuple[int, ...]:
    """Valid region after writing a rectangle: the union, when it is a rectangle at the origin.

    Raises RuntimeError when it is not (torch_codegen.md 2.2).
    """
    ends = tuple([o + e for o, e in zip(offsets, extents, strict=True)])
    if 0 in extents or all(e <= h for e, h in zip(ends, had, strict=True)):
        return tuple(had)
    at_origin = not any(offsets)
    if at_origin and (0 in had or all(h <= e for h, e in zip(had, ends, strict=True))):
        return ends
    growing = [axis for axis, (e, h) in enumerate(zip(ends, had, strict=True)) if e != h]
    if len(growing) == 1:
        (axis,) = growing
        if offsets[axis] <= had[axis] and not any(o for i, o in enumerate(offsets) if i != axis):
            return ends
    raise RuntimeError(
        f"{op}: writing {list(extents)} at {list(offsets)} into a target valid to {list(had)} leaves no rectangle"
    )


def _write_region(
    op: str, target: torch.Tensor, cells: torch.Tensor, offsets: Sequence[int], add: bool
) -> torch.Tensor:
    """Writes cells (of the target's rank) at an offset and updates the target's valid region."""
    extents = cells.shape
    if 0 in extents:
        return target
    place = _cells_at(op, _memory_to_write(op, target, offsets, extents), offsets, extents)
    if _is_partial(target) and not hasattr(target, "_pypto_overhang"):
        _mark(target, _union(op, _valid_of(target), offsets, extents))
    if not add:
        place.copy_(cells)
    elif target.dtype in (torch.uint16, torch.uint32, torch.uint64):  # torch adds only signed integers
        place.copy_((place.to(torch.int64) + cells.to(torch.int64)).to(target.dtype))
    else:
        place.add_(cells.to(target.dtype))
    return target


def _at_rank(op: str, cells: torch.Tensor, rank: int) -> torch.Tensor:
    """Cells with leading unit axes added or removed up to a rank. Raises RuntimeError when a removed axis is longer."""
    shape = tuple(cells.shape)
    if len(shape) <= rank:
        return cells if len(shape) == rank else cells.reshape(_lift(shape, rank, 1))
    surplus = shape[: len(shape) - rank]
    if any(extent > 1 for extent in surplus):
        raise RuntimeError(f"{op}: {list(shape)} does not fit a target of rank {rank}")
    kept = shape[len(shape) - rank :]
    return cells.reshape(kept if 0 not in surplus else (0,) * rank)


def _partition(tile: torch.Tensor, shapes: Sequence[int]) -> torch.Tensor:
    """The valid cells of a 2-D tile laid out over the axes of a partition.

    Leading unit axes keep the tile's rectangle; several longer axes divide its rows (torch_codegen.md 2.2). Raises
    RuntimeError when the partition is neither.
    """
    cells = _cut(tile)
    rows, columns = cells.shape
    parts = tuple(shapes)
    count = 1
    for extent in parts[:-1]:
        count *= extent
    if all(extent == 1 for extent in parts[:-2]):
        cells = cells[: parts[-2], : parts[-1]] if len(parts) > 1 else cells
        return cells.reshape(_lift(tuple(cells.shape), len(parts), 1))
    if columns <= parts[-1] and count in (rows, tile.shape[0]):
        inner = count // parts[0]
        lead, rest = divmod(rows, inner)
        if rest == 0:
            return cells.reshape((lead, *parts[1:-1], columns))
    raise RuntimeError(f"tile.store: {rows} valid rows of {columns} cells do not divide over a partition {list(parts)}")


def _tile_store(
    tile: torch.Tensor,
    offsets: Sequence[int],
    target: torch.Tensor,
    shapes: Sequence[int] | None = None,
    *,
    atomic: str | int = "None_",
    copy: bool = False,
) -> torch.Tensor:
    """Writes a tile's valid rectangle to global memory and returns the target.

    A tile of lower rank covers the target's last axes; `shapes` lays a 2-D tile over more of them. Raises RuntimeError
    when the rectangle leaves the target.
    """
    if shapes is None and not copy and tile.dim() == 2 == target.dim() and not (_is_partial(tile) or _is_add(atomic)):
        row, column = offsets
        if row >= 0 and column >= 0 and not _is_partial(target):
            place = target[row : row + tile.shape[0], column : column + tile.shape[1]]
            if place.shape == tile.shape:
                place.copy_(tile)
                return target
    target = _fresh(target) if copy else target
    cells = _partition(tile, shapes) if shapes and tile.dim() == 2 and len(shapes) > 2 else _cut(tile)
    return _write_region("tile.store", target, _at_rank("tile.store", cells, target.dim()), offsets, _is_add(atomic))


def _is_add(atomic: str | int) -> bool:
    return atomic in ("Add", 1)


def _assemble(
    target: torch.Tensor,
    source: torch.Tensor,
    offset: Sequence[int],
    *,
    atomic: str | int = "None_",
    copy: bool = False,
) -> torch.Tensor:
    """Writes a tensor's valid rectangle into a target tensor. Raises RuntimeError when it leaves the target."""
    target = _fresh(target) if copy else target
    _check_existing("tensor.assemble", source, (0,) * source.dim(), source.shape)
    cells = _at_rank("tensor.assemble", _cut(source), target.dim())
    return _write_region("tensor.assemble", target, cells, offset, _is_add(atomic))


def _tile_assemble(
    target: torch.Tensor, source: torch.Tensor, offset: Sequence[int], *, copy: bool = False
) -> torch.Tensor:
    """Writes the whole box of a tile into a target tile, undefined cells included: the insert ignores valid extents.

    The target's valid region grows by the source's valid rectangle where the union is a rectangle. Raises
    RuntimeError when the box leaves the target.
    """
    target = _fresh(target) if copy else target
    cells = _at_rank("tile.assemble", source, target.dim())
    _check_window("tile.assemble", offset, cells.shape, target.shape)
    if _is_partial(target):
        extents = _at_rank("tile.assemble", _cut(source), target.dim()).shape
        _mark(target, _union("tile.assemble", _valid_of(target), offset, extents))
    target[_window(offset, cells.shape)].copy_(cells)
    return target


def _move(
    tile: torch.Tensor, *, target_memory: str = "Vec", blayout: str | None = None, slayout: str | None = None
) -> torch.Tensor:
    """A tile in another on-chip memory: the same values. A debug run copies it: it marks the slots that are freed."""
    return _fresh(tile) if _is_debug_run() else tile


def _element(op: str, x: torch.Tensor, indices: Sequence[int] | int) -> tuple[int, ...]:
    """Checked element indices. Raises RuntimeError outside the box or with a wrong count."""
    place = (indices,) if isinstance(indices, int) else tuple(indices)
    if len(place) != x.dim():
        raise RuntimeError(f"{op}: {len(place)} indices for rank {x.dim()}")
    for axis, (index, bound) in enumerate(zip(place, x.shape, strict=True)):
        if not 0 <= index < bound:
            raise RuntimeError(f"{op}: index {index} on axis {axis} leaves the box, whose extent is {bound}")
    if _is_partial(x):
        _check_existing(op, x, place, (1,) * len(place))
    return place


def _read(x: torch.Tensor, indices: Sequence[int] | int) -> float | int | bool:
    """One element as a Python number of its own. Raises RuntimeError outside the box."""
    place = _element("read", x, indices)
    value: float | int | bool = _memory_of(x)[place].item()
    return value


def _write(
    x: torch.Tensor, indices: Sequence[int] | int, value: float | int | bool, *, copy: bool = False
) -> torch.Tensor:
    """Sets one element, wrapping integers at their width, and returns the tensor. Raises RuntimeError outside."""
    x = _fresh(x) if copy else x
    place = _element("write", x, indices)
    if not (x.dtype.is_floating_point or x.dtype is torch.bool):
        limits = torch.iinfo(x.dtype)
        value = (int(value) - limits.min) % (1 << limits.bits) + limits.min
    _memory_to_write("write", x, place, (1,) * len(place))[place] = value
    return x
