"""Gather and scatter by index, mask or page table.

An index outside its source reads an undefined cell, and one outside a target writes nothing: the device does not check.
Where several sources go to one target cell, the last in row-major order stays.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pypto_lab.torch_codegen.runtime.memory import _check_window, _fresh, _window
from pypto_lab.torch_codegen.runtime.values import _box, _cut, _mark, _undefined

_MASKED_COLUMNS = {1: (2, 0), 2: (2, 1), 3: (4, 0), 4: (4, 1), 5: (4, 2), 6: (4, 3), 7: (1, 0)}
"""Mask patterns: every how many columns, and the first one (names read right to left: P0010 marks column 1 of 4)."""


def _wide_index(index: torch.Tensor) -> torch.Tensor:
    return index.to(torch.int64)


_SAME_WIDTH = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _as_bits(x: torch.Tensor) -> torch.Tensor:
    """The same memory as signed integers, which torch can select and place; other dtypes it often cannot."""
    return x.view(_SAME_WIDTH[x.element_size()])


def _taken(flat: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Cells of a flat source; those at indices outside it are undefined."""
    inside = (index >= 0) & (index < flat.numel())
    if bool(inside.all()):
        return flat[index]
    found = _undefined(tuple(index.shape), flat.dtype)
    _as_bits(found)[inside] = _as_bits(flat)[index[inside]]
    return found


def _chosen(condition: torch.Tensor, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """`x` where the condition holds, else `other`, bit for bit."""
    return torch.where(condition, _as_bits(x), _as_bits(other)).view(x.dtype)


def _put(flat: torch.Tensor, index: torch.Tensor, cells: torch.Tensor) -> None:
    """Writes cells to flat places; the last of several for one place stays, places outside are skipped."""
    index, cells = index.reshape(-1), cells.reshape(-1)
    inside = (index >= 0) & (index < flat.numel())
    index, cells = index[inside], cells[inside]
    last = torch.full((flat.numel(),), -1, dtype=torch.int64)
    last.scatter_reduce_(0, index, torch.arange(index.numel()), "amax")
    written = last >= 0
    _as_bits(flat)[written] = _as_bits(cells.contiguous())[last[written]]


def _put_into(target: torch.Tensor, index: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    """`_put` for a target that need not lie in memory row by row."""
    if target.is_contiguous():
        _put(target.view(-1), index, cells)
    else:
        packed = target.contiguous()
        _put(packed.view(-1), index, cells)
        target.copy_(packed)
    return target


# --- by index --------------------------------------------------------------------------------------------------------


def _gather_along(x: torch.Tensor, index: torch.Tensor, *, dim: int = -1) -> torch.Tensor:
    """out[..., k, ...] = x[..., index[..., k, ...], ...] along `dim`, over the index's valid region."""
    places = _wide_index(_cut(index))
    base = _positions(x.shape, places.shape, dim)
    stride = _row_major(x.shape)[dim]
    outside = (places < 0) | (places >= x.shape[dim])
    return _box(_taken(x.reshape(-1), torch.where(outside, -1, base + places * stride)), index.shape)


def _row_major(shape: Sequence[int]) -> list[int]:
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    return strides


def _positions(shape: Sequence[int], extents: Sequence[int], dim: int) -> torch.Tensor:
    """Flat position of every cell of a block at the origin of a box, the axis `dim` left out."""
    dim %= len(shape)
    total = torch.zeros((1,) * len(extents), dtype=torch.int64)
    for axis, (extent, stride) in enumerate(zip(extents, _row_major(shape), strict=True)):
        if axis != dim:
            line = torch.arange(extent) * stride
            total = total + line.reshape([extent if a == axis else 1 for a in range(len(extents))])
    return total


def _scatter_along(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, *, dim: int = -1) -> torch.Tensor:
    """A copy with x[..., index[..., k, ...], ...] = source[..., k, ...] along `dim`, over the index's valid region."""
    x = _fresh(x)
    places = _wide_index(_cut(index))
    outside = (places < 0) | (places >= x.shape[dim])
    flat = _positions(x.shape, places.shape, dim) + places * _row_major(x.shape)[dim]
    cells = source[_window((0,) * source.dim(), places.shape)]
    return _put_into(x, torch.where(outside, -1, flat), cells)


def _tile_gather(source: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Cells of a tile's box by flat row-major index, over the indices' valid region."""
    return _box(_taken(source.reshape(-1), _wide_index(_cut(indices))), indices.shape)


def _tile_scatter(
    target: torch.Tensor, source: torch.Tensor, indexes: torch.Tensor, *, copy: bool = False
) -> torch.Tensor:
    """Writes cells to flat row-major places of a tile's box, over the indices' valid region."""
    target = _fresh(target) if copy else target
    places = _wide_index(_cut(indexes))
    return _put_into(target, places, source[_window((0,) * source.dim(), places.shape)])


def _gatherb(source: torch.Tensor, offset: torch.Tensor, *, output_dtype: torch.dtype | None = None) -> torch.Tensor:
    """32-byte blocks of a tile by byte offset: each offset gives 32 / element size cells of the result."""
    dtype = output_dtype or source.dtype
    data = source.contiguous().view(torch.uint8).reshape(-1)
    starts = _wide_index(_cut(offset))
    inside = ((starts >= 0) & (starts + 32 <= data.numel())).unsqueeze(-1).expand(*starts.shape, 32)
    places = starts.unsqueeze(-1) + torch.arange(32)
    blocks = data[torch.where(inside, places, 0)].reshape(*starts.shape[:-1], starts.shape[-1] * 32).view(dtype)
    known = inside.reshape(*starts.shape[:-1], -1)[..., :: dtype.itemsize]
    if not bool(known.all()):
        blocks = _chosen(known, blocks, _undefined(tuple(blocks.shape), dtype))
    per_block = 32 // dtype.itemsize
    return _box(blocks, (*offset.shape[:-1], offset.shape[-1] * per_block))


# --- by mask ---------------------------------------------------------------------------------------------------------


def _gather_mask(source: torch.Tensor, *, mask_pattern: int, output_dtype: torch.dtype | None = None) -> torch.Tensor:
    """The columns a pattern marks, side by side; `output_dtype` reads their bits as another type of the same width."""
    step, first = _MASKED_COLUMNS[int(mask_pattern)]
    cells = _cut(source)[..., first::step].contiguous()
    seen = cells if output_dtype is None else cells.view(output_dtype)
    return _box(seen, (*source.shape[:-1], source.shape[-1] // step))


def _scatter_mask(target: torch.Tensor, source: torch.Tensor, *, mask_pattern: int, copy: bool = False) -> torch.Tensor:
    """Spreads columns over those a pattern marks in the target; its other columns stay."""
    target = _fresh(target) if copy else target
    step, first = _MASKED_COLUMNS[int(mask_pattern)]
    cells = _cut(source)
    marked = target[..., first::step]
    marked[_window((0,) * cells.dim(), cells.shape)] = cells
    return target


def _tensor_scatter_mask(source: torch.Tensor, target: torch.Tensor, *, mask_pattern: int) -> torch.Tensor:
    """A copy of the target with columns spread over those a pattern marks."""
    return _scatter_mask(target, source, mask_pattern=mask_pattern, copy=True)


_COMPARISONS = {0: torch.eq, 1: torch.ne, 2: torch.lt, 3: torch.le, 4: torch.gt, 5: torch.ge}


def _gather_compare(
    source: torch.Tensor,
    kvalue: float | int,
    *,
    cmp_mode: int = 0,
    offset: int = 0,
    out_cols: int,
    count_dtype: torch.dtype = torch.int32,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Column numbers (plus `offset`) of the cells that compare true, row by row, and how many there are in each row.

    Returns an int32 box [rows, out_cols], whose cells after a row's last match are undefined, and counts [1, rows].
    Matches that find no place in `out_cols` are counted but not listed.
    """
    cells = _cut(source)
    if cells.dtype in (torch.uint16, torch.uint32, torch.uint64):
        cells = cells.to(torch.int64)
    hits = _COMPARISONS[int(cmp_mode)](cells, torch.tensor(kvalue, dtype=cells.dtype))
    found = _undefined((source.shape[0], out_cols), torch.int32)
    for row, marks in enumerate(hits):
        columns = marks.nonzero().reshape(-1)[:out_cols] + offset
        found[row, : columns.numel()] = columns.to(torch.int32)
    counts = hits.sum(dim=1).to(count_dtype).reshape(1, -1)
    return _mark(found, (cells.shape[0], out_cols)), _box(counts, (1, source.shape[0]))


# --- rows of global memory -------------------------------------------------------------------------------------------


def _gather_row(
    target: torch.Tensor,
    source: torch.Tensor,
    dst_offset: Sequence[int],
    src_offset: Sequence[int],
    shapes: Sequence[int],
    valid_shape: Sequence[int] | None = None,
    *,
    transpose: bool = False,
    copy: bool = False,
) -> torch.Tensor:
    """Copies a window of a tensor into a place of a target, its last two axes swapped with `transpose`.

    `valid_shape` says how much of the window is copied. Raises RuntimeError where that leaves the source or the target.
    """
    target = _fresh(target) if copy else target
    extents = tuple(valid_shape or shapes)
    _check_window("gather_row (source)", src_offset, extents, source.shape)
    cells = source[_window(src_offset, extents)]
    while cells.dim() > target.dim():
        cells = cells.squeeze(0) if cells.shape[0] == 1 else cells.flatten(0, 1)
    cells = cells.transpose(-2, -1) if transpose else cells
    _check_window("gather_row (target)", dst_offset, cells.shape, target.shape)
    target[_window(dst_offset, cells.shape)] = cells
    return target


def _paged_gather(
    source: torch.Tensor,
    indices: torch.Tensor,
    block_table: torch.Tensor,
    *,
    block_size: int,
    size: int,
    max_indices: int,
    col_off: int = 0,
    is_trans: bool = False,
    is_b_matrix: bool = False,
    space: str = "Mat",
) -> torch.Tensor:
    """Rows of a paged pool: index i means row block_table[i // block_size] * block_size + i % block_size.

    The box has `max_indices` rows of `size` cells from column `col_off` on (columns with `is_trans`); rows without an
    index are undefined. Raises RuntimeError for an index or page outside, or more indices than rows.
    """
    wanted = _wide_index(_cut(indices)).reshape(-1)
    if wanted.numel() > max_indices:
        raise RuntimeError(f"paged_gather: {wanted.numel()} indices for {max_indices} rows")
    pages = _wide_index(_cut(block_table)).reshape(-1)
    page = wanted // block_size
    if bool(((page < 0) | (page >= pages.numel())).any()):
        raise RuntimeError(f"paged_gather: an index needs a page beyond the {pages.numel()} of the block table")
    rows = pages[page] * block_size + wanted % block_size
    if bool(((rows < 0) | (rows >= source.shape[0])).any()):
        raise RuntimeError(f"paged_gather: a row lies outside the pool of {source.shape[0]} rows")
    _check_window("paged_gather", (0, col_off), (0 if rows.numel() == 0 else 1, size), source.shape)
    filled = _undefined((max_indices, size), source.dtype)
    filled[: rows.numel()] = source[rows, col_off : col_off + size]
    return filled.transpose(0, 1).contiguous() if is_trans else filled


def _mgather(
    memory: torch.Tensor,
    index: torch.Tensor,
    valid_shape: Sequence[int] | None = None,
    *,
    coalesce: int | str = 0,
    gather_oob: int | str = 0,
    target_memory: str = "Vec",
    shape: Sequence[int] | None = None,
) -> torch.Tensor:
    """Rows ("row": one index a row) or single cells ("elem": flat indices) of a tensor.

    Indices outside are undefined, clamped to the last, wrapped round, or give zeros by `gather_oob`.
    """
    by_row = coalesce in (0, "row")
    places = _wide_index(_cut(index))
    table = memory.reshape(-1, memory.shape[-1]) if by_row else memory.reshape(-1)
    count = table.shape[0]
    policy = {0: "undefined", 1: "clamp", 2: "wrap", 3: "zero"}.get(gather_oob, gather_oob)  # type: ignore[arg-type]
    outside = (places < 0) | (places >= count)
    if policy == "clamp":  # a negative index is a huge unsigned one
        places = torch.where(outside, count - 1, places)
    elif policy == "wrap":
        places = places % count
    safe = places.clamp(0, count - 1)
    found = table[safe.reshape(-1)] if by_row else table[safe]
    if policy in ("undefined", "zero") and bool(outside.any()):
        marked = outside.reshape(-1, 1).expand_as(found) if by_row else outside
        fill = torch.zeros_like(found) if policy == "zero" else _undefined(tuple(found.shape), found.dtype)
        found = _chosen(marked, fill, found)
    box = tuple(shape) if shape else (index.numel(), memory.shape[-1]) if by_row else tuple(index.shape)
    valid = tuple(valid_shape) if valid_shape else tuple(found.shape)
    return _box(found[_window((0,) * found.dim(), valid)], box)


def _mscatter(source: torch.Tensor, index: torch.Tensor, target: torch.Tensor, *, copy: bool = False) -> torch.Tensor:
    """Writes a tile's valid cells to flat places of a tensor."""
    target = _fresh(target) if copy else target
    cells = _cut(source)
    return _put_into(target, _wide_index(index[_window((0,) * cells.dim(), cells.shape)]), cells)


def _scatter_update(
    x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, *, dim: int = -2, copy: bool = False
) -> torch.Tensor:
    """Replaces rows: row index.flat[i] of `x` becomes row i of `source` (all leading axes count as rows).

    Raises RuntimeError for a row outside, or fewer source rows than indices.
    """
    x = _fresh(x) if copy else x
    rows = _wide_index(_cut(index)).reshape(-1)
    columns = source.shape[-1]
    given = source.reshape(-1, columns)
    total = x.numel() // x.shape[-1]
    if rows.numel() > given.shape[0]:
        raise RuntimeError(f"scatter_update: {rows.numel()} indices, but {given.shape[0]} source rows")
    if bool(((rows < 0) | (rows >= total)).any()):
        raise RuntimeError(f"scatter_update: a row lies outside the target's {total} rows")
    places = rows.reshape(-1, 1) * x.shape[-1] + torch.arange(columns)
    return _put_into(x, places, given[: rows.numel()])


def _tensor_scatter_update(
    x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, *, dim: int = -2
) -> torch.Tensor:
    """A copy of `x` with rows replaced. Raises RuntimeError like `_scatter_update`."""
    return _scatter_update(x, index, source, dim=dim, copy=True)
