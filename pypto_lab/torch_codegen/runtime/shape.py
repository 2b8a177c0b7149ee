"""Shape changes: reshape, transpose, views, concat, valid-shape metadata (torch_codegen.md 2.2 and 2.3).

Views share memory with their source: a kernel that is given a view writes the tensor behind it. Who still needs the old
value when a view is written is decided where the script is made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from pypto_lab.torch_codegen.runtime.memory import _window, _with_memory
from pypto_lab.torch_codegen.runtime.values import _box, _cut, _is_partial, _mark, _valid_of


def _carried_valid(op: str, shape: Sequence[int], valid: Sequence[int], new_shape: Sequence[int]) -> tuple[int, ...]:
    """The valid region after a reshape. Raises RuntimeError when no rectangle of the new shape holds the same cells.

    Full unit axes come and go freely; otherwise the region must be a flat prefix that spans whole rows again.
    """
    full = tuple(shape)
    if tuple(valid) == full:
        return tuple(new_shape)
    if 0 in valid:
        return (0,) * len(new_shape)
    kept = [(f, v) for f, v in zip(full, valid, strict=True) if f != 1]
    if [f for f, _ in kept] == [f for f in new_shape if f != 1]:
        rest = iter(v for _, v in kept)
        return tuple([1 if f == 1 else next(rest) for f in new_shape])
    lead = next((i for i, v in enumerate(valid) if v != 1), len(full))
    cells = math.prod(valid)
    if full[lead + 1 :] == tuple(valid[lead + 1 :]):
        for axis, extent in enumerate(new_shape):
            inner = math.prod(new_shape[axis + 1 :])
            if cells % inner == 0 and cells // inner <= extent:
                return (*([1] * axis), cells // inner, *new_shape[axis + 1 :])
    raise RuntimeError(
        f"{op}: the valid region {list(valid)} of {list(full)} is no rectangle of the shape {list(new_shape)}"
    )


def _checked_reshape(op: str, x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """The box in another shape, a view where torch can. Raises RuntimeError when the cell counts differ."""
    if math.prod(shape) != x.numel():
        raise RuntimeError(f"{op}: {list(x.shape)} has {x.numel()} cells, {list(shape)} has {math.prod(shape)}")
    return x.reshape(tuple(shape))


def _reshape(x: torch.Tensor, shape: Sequence[int], valid_shape: Sequence[int] | None = None) -> torch.Tensor:
    """The same cells in another shape, sharing memory where it is packed; `valid_shape` may narrow the carried region.

    Raises RuntimeError when the region cannot be carried or `valid_shape` claims more than it holds.
    """
    valid = _carried_valid("reshape", x.shape, _valid_of(x), shape)
    if valid_shape:
        if any(v > c for v, c in zip(valid_shape, valid, strict=True)):
            raise RuntimeError(f"reshape: valid_shape {list(valid_shape)} is more than is valid, {list(valid)}")
        valid = tuple(valid_shape)
    seen = _mark(_alias(_checked_reshape("reshape", x, shape), x), valid)
    return _with_memory(seen, x, lambda behind: _packed_view(behind, valid))


def _packed_view(x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor | None:
    """The same memory in another shape, None where it does not lie in one piece."""
    try:
        return x.view(tuple(shape))
    except RuntimeError:
        return None


def _alias(view: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """`view`, as an object of its own: marking it must not mark `x`."""
    return view.view(view.shape) if view is x else view


def _transpose(x: torch.Tensor, axis1: int, axis2: int, valid_shape: Sequence[int] | None = None) -> torch.Tensor:
    """Two axes swapped, with their valid extents; `valid_shape` states another region."""
    valid = list(_valid_of(x))
    valid[axis1], valid[axis2] = valid[axis2], valid[axis1]
    swapped = x.transpose(axis1, axis2).clone(memory_format=torch.contiguous_format)
    return _mark(swapped, valid_shape or valid)


def _transpose_view(x: torch.Tensor) -> torch.Tensor:
    """The last two axes swapped, in the same memory."""
    seen = _mark(x.transpose(-2, -1), _swapped(_valid_of(x), True))
    return _with_memory(seen, x, lambda behind: behind.transpose(-2, -1))


def _stored_transposed(x: torch.Tensor) -> bool:
    """Whether a tensor lies in memory with its last two axes swapped (layout DN), told by its strides."""
    return x.dim() > 1 and not x.is_contiguous() and x.transpose(-2, -1).is_contiguous()


def _swapped(values: Sequence[int], swap: bool) -> tuple[int, ...]:
    return (*values[:-2], values[-1], values[-2]) if swap else tuple(values)


def _tensor_view(
    x: torch.Tensor,
    shape: Sequence[int] | None = None,
    valid_shape: Sequence[int] | None = None,
    *,
    layout: str | None = None,
) -> torch.Tensor:
    """The same memory under another shape and layout: ND is row-major, DN has the last two axes swapped in memory.

    A change of layout alone swaps the last two axes. Without `valid_shape` a partly valid tensor's region is carried
    like a reshape does. Raises RuntimeError where it cannot be, or the cell counts differ.
    """
    was_dn = _stored_transposed(x)
    is_dn = was_dn if layout is None else layout == "DN"
    target = tuple(shape) if shape else _swapped(x.shape, was_dn != is_dn)
    stored = x.transpose(-2, -1) if was_dn else x
    lined = _swapped(target, is_dn)
    valid = _carried_valid("tensor.view", stored.shape, _swapped(_valid_of(x), was_dn), lined)
    seen = _checked_reshape("tensor.view", stored, lined)
    viewed = seen.transpose(-2, -1) if is_dn else _alias(seen, x)
    return _with_memory(_mark(viewed, valid_shape or _swapped(valid, is_dn)), x, lambda _: None)


def _reinterpret_view(
    x: torch.Tensor, stated: Sequence[int] | None = None, *, dtype: torch.dtype, shape: Sequence[int] | None = None
) -> torch.Tensor:
    """The bytes read as another dtype, in the same memory where it is packed.

    `shape` is the result's shape as its type has it: it tells whether the last axis scales or, for columns, the one
    before. A `stated` shape is filled row by row. Raises RuntimeError when bytes or region do not divide evenly.
    """
    old, new = x.element_size(), dtype.itemsize
    by_column = bool(shape) and not stated and old != new and x.dim() > 1 and shape[-1] == x.shape[-1]  # type: ignore[index]
    lined = (x.transpose(-2, -1) if by_column else x).contiguous()
    valid = list(_swapped(_valid_of(x), by_column))
    if lined.shape[-1] * old % new or valid[-1] * old % new:
        raise RuntimeError(f"reinterpret_view: {valid[-1]} elements of {x.dtype} are no whole number of {dtype}")
    valid[-1] = valid[-1] * old // new
    seen = lined.view(dtype)
    if by_column:
        seen, valid = seen.transpose(-2, -1), list(_swapped(valid, True))
    target = stated or shape
    if target and tuple(target) != tuple(seen.shape):
        valid = list(_carried_valid("reinterpret_view", seen.shape, valid, target))
        seen = _checked_reshape("reinterpret_view", seen, target)
    return _with_memory(_mark(_alias(seen, x), valid), x, lambda _: None)


def _concat(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Joins along the last axis: the second operand starts at the first one's valid columns.

    The box is as wide as both boxes; the region is as wide as both regions.
    """
    box = (*first.shape[:-1], first.shape[-1] + second.shape[-1])
    left, right = _cut(first), _cut(second)
    if not (_is_partial(first) or _is_partial(second)):
        return torch.cat([left, right], dim=-1)
    rows = tuple(min(a, b) for a, b in zip(left.shape[:-1], right.shape[:-1], strict=True))
    whole = torch.cat([left[_window((0,) * len(rows), rows)], right[_window((0,) * len(rows), rows)]], dim=-1)
    return _box(whole, box)


def _set_validshape(x: torch.Tensor, valid_rows: int, valid_cols: int) -> torch.Tensor:
    """States another valid region of a two-dimensional value, in the same memory; the region may grow.

    Raises RuntimeError unless 0 <= valid <= box on both axes.
    """
    valid = (valid_rows, valid_cols)
    for axis, (extent, full) in enumerate(zip(valid, x.shape, strict=True)):
        if not 0 <= extent <= full:
            raise RuntimeError(f"set_validshape: {extent} valid on axis {axis} of a box of {full}")
    return _mark(x.view(x.shape), valid)
