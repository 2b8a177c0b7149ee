"""Cell-by-cell arithmetic: the result is computed over the first operand's valid region, at its dtype's width."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from pypto_lab.torch_codegen.runtime.numbers import _narrowed
from pypto_lab.torch_codegen.runtime.values import _box, _cut, _is_partial, _valid_of

_TORCH_ARITHMETIC = (
    torch.float32, torch.float16, torch.bfloat16, torch.float64,
    torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
)  # fmt: skip
"""Dtypes whose torch arithmetic already rounds once and wraps at its width."""


def _promoted(left: torch.dtype, right: torch.dtype) -> torch.dtype:
    """The dtype two operands meet in: floats win over integers, then the wider, then the signed, else the left."""
    if left == right:
        return left
    if left.is_floating_point != right.is_floating_point:
        return left if left.is_floating_point else right
    if left.itemsize != right.itemsize:
        return left if left.itemsize > right.itemsize else right
    return left if left.is_signed or not right.is_signed else right


def _wide(x: torch.Tensor) -> torch.Tensor:
    """Exact values in a dtype torch computes in: FP32 or FP64 for floats, INT64 for integers (UINT64 by its bits)."""
    if x.dtype in (torch.float32, torch.float64):
        return x
    if x.dtype.is_floating_point:
        return x.to(torch.float32)
    return x.view(torch.int64) if x.dtype is torch.uint64 else x.to(torch.int64)


def _narrow(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Back from `_wide`: integers keep their low bits, floats round half to even."""
    if x.dtype is dtype:
        return x
    if dtype is torch.uint64 and x.dtype is torch.int64:
        return x.view(torch.uint64)
    if not dtype.is_floating_point and x.dtype is torch.int64:
        bits = 8 * dtype.itemsize
        low = x & ((1 << bits) - 1)
        return (low - ((low >> (bits - 1)) << bits) if dtype.is_signed else low).to(dtype)
    return x.to(dtype)


def _stretched(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape several shapes broadcast to. Raises ValueError where extents differ and none is 1."""
    rank = max(len(shape) for shape in shapes)
    out = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if size != 1 and out[axis] not in (1, size):
                raise ValueError(f"shapes do not broadcast: {', '.join(str(list(s)) for s in shapes)}")
            out[axis] = size if out[axis] == 1 else out[axis]
    return tuple(out)


def _region(operands: Sequence[torch.Tensor]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Box and valid region of an elementwise result: on each axis those of the first operand that is not stretched."""
    first = operands[0]
    if all(x.shape == first.shape for x in operands):
        return tuple(first.shape), _valid_of(first)
    box = _stretched(*(tuple(x.shape) for x in operands))
    region = list(box)
    for axis in range(-len(box), 0):
        for x in operands:
            if x.dim() >= -axis and x.shape[axis] == box[axis]:
                region[axis] = _valid_of(x)[axis]
                break
    return box, tuple(region)


def _cells(x: torch.Tensor, region: Sequence[int]) -> torch.Tensor:
    """The cells of an operand that a result region reads (extents of 1 are repeated)."""
    for axis, size in enumerate(region[len(region) - x.dim() :]):
        full = x.shape[axis]
        if full != 1 and size != full:
            x = x.narrow(axis, 0, size)
    return x


def _each(
    function: Callable[..., torch.Tensor], *operands: torch.Tensor, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """`function` over the valid cells of the operands, computed wide and brought to `dtype` (default: promoted)."""
    out = operands[0].dtype
    for x in operands[1:]:
        out = _promoted(out, x.dtype)
    out = out if dtype is None else dtype
    cells: Sequence[torch.Tensor] = operands
    box: tuple[int, ...] | None = None
    if any(_is_partial(x) for x in operands):
        box, region = _region(operands)
        cells = [_cells(x, region) for x in operands]
    if out not in _TORCH_ARITHMETIC or any(x.dtype is not out for x in cells):
        wide = [_wide(x) for x in cells]
        if out.is_floating_point:
            wide = [x if x.dtype.is_floating_point else x.to(torch.float32) for x in wide]
        cells = wide
    data = _narrow(function(*cells), out)
    return data if box is None else _box(data, box)


def _with_scalar(
    function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    x: torch.Tensor,
    scalar: int | float | bool,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """`function` of a tensor and a number, which is first narrowed to the dtype of the result."""
    out = x.dtype if dtype is None else dtype
    number = torch.tensor(_narrowed(scalar, out), dtype=out)
    cells = _cut(x)
    if out not in _TORCH_ARITHMETIC:
        cells, number = _wide(cells), _wide(number)
    elif cells.dtype is not out:
        cells = cells.to(out)
    return _box(_narrow(function(cells, number), out), x.shape)


# --- division -------------------------------------------------------------------------------------------------------


def _unsigned_order(x: torch.Tensor) -> torch.Tensor:
    """INT64 bits of UINT64 values moved so that signed comparison orders them."""
    return x ^ torch.iinfo(torch.int64).min


def _quotient(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a / b; integers cut off towards zero, and a division by integer zero gives 0."""
    if a.dtype.is_floating_point:
        return torch.div(a, b)
    shape = _stretched(a.shape, b.shape)
    wide_a, wide_b = (torch.broadcast_to(x.to(torch.int64), shape) for x in (a, b))
    zero, minus = wide_b == 0, wide_b == -1
    safe = torch.where(zero | minus, torch.ones_like(wide_b), wide_b)
    divided = torch.div(wide_a, safe, rounding_mode="trunc")
    return torch.where(zero, torch.zeros_like(divided), torch.where(minus, -wide_a, divided)).to(a.dtype)


def _quotient_unsigned64(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """`_quotient` of UINT64 values given by their INT64 bits."""
    shape = _stretched(a.shape, b.shape)
    a, b = torch.broadcast_to(a, shape), torch.broadcast_to(b, shape)
    pairs = zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), strict=True)
    mask = (1 << 64) - 1
    values = [((x & mask) // (y & mask)) if y else 0 for x, y in pairs]
    return torch.tensor(values, dtype=torch.uint64).view(torch.int64).reshape(a.shape)


def _divider(dtype: torch.dtype) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    return _quotient_unsigned64 if dtype is torch.uint64 else _quotient


def _remainder_of(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype, floor: bool) -> torch.Tensor:
    """a - q * b with q cut off (sign of a) or floored (sign of b); 0 where b is integer 0."""
    if a.dtype.is_floating_point:
        return torch.remainder(a, b) if floor else torch.fmod(a, b)
    rest = a - _divider(dtype)(a, b) * b
    rest = torch.where(torch.broadcast_to(b == 0, rest.shape), torch.zeros_like(rest), rest)
    if floor and dtype.is_signed:
        rest = torch.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
    return rest


# --- two operands ---------------------------------------------------------------------------------------------------


def _add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _each(torch.add, a, b)


def _sub(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _each(torch.sub, a, b)


def _mul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _each(torch.mul, a, b)


def _div(a: torch.Tensor, b: torch.Tensor, *, high_precision: bool = False) -> torch.Tensor:
    """Quotient; integers stay integers. `high_precision` chooses an instruction, the numbers are exact either way."""
    return _each(_divider(_promoted(a.dtype, b.dtype)), a, b)


def _rem(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Remainder with the sign of the divisor."""
    dtype = _promoted(a.dtype, b.dtype)
    return _each(lambda x, y: _remainder_of(x, y, dtype, True), a, b)


def _fmod(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Remainder with the sign of the dividend."""
    dtype = _promoted(a.dtype, b.dtype)
    return _each(lambda x, y: _remainder_of(x, y, dtype, False), a, b)


def _pick(greater: bool, dtype: torch.dtype) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """torch.maximum or torch.minimum, also for UINT64 given by its INT64 bits."""
    plain = torch.maximum if greater else torch.minimum
    if dtype is torch.uint64:
        return lambda a, b: _unsigned_order(plain(_unsigned_order(a), _unsigned_order(b)))
    return plain


def _maximum(a: torch.Tensor, b: torch.Tensor | int | float, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    return _extreme(True, a, b, dtype)


def _minimum(a: torch.Tensor, b: torch.Tensor | int | float, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    return _extreme(False, a, b, dtype)


def _extreme(greater: bool, a: torch.Tensor, b: torch.Tensor | int | float, dtype: torch.dtype | None) -> torch.Tensor:
    if not isinstance(b, torch.Tensor):
        return _with_scalar(_pick(greater, a.dtype if dtype is None else dtype), a, b, dtype)
    return _each(_pick(greater, _promoted(a.dtype, b.dtype)), a, b)


def _maximums(a: torch.Tensor, scalar: int | float) -> torch.Tensor:
    return _extreme(True, a, scalar, None)


def _minimums(a: torch.Tensor, scalar: int | float) -> torch.Tensor:
    return _extreme(False, a, scalar, None)


def _adds(a: torch.Tensor, scalar: int | float, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    return _with_scalar(torch.add, a, scalar, dtype)


def _subs(a: torch.Tensor, scalar: int | float, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    return _with_scalar(torch.sub, a, scalar, dtype)


def _muls(a: torch.Tensor, scalar: int | float, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    return _with_scalar(torch.mul, a, scalar, dtype)


def _divs(a: torch.Tensor, scalar: int | float, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    return _with_scalar(_divider(a.dtype if dtype is None else dtype), a, scalar, dtype)


def _rems(a: torch.Tensor, scalar: int | float) -> torch.Tensor:
    return _with_scalar(lambda x, y: _remainder_of(x, y, a.dtype, True), a, scalar)


def _fmods(a: torch.Tensor, scalar: int | float, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    out = a.dtype if dtype is None else dtype
    return _with_scalar(lambda x, y: _remainder_of(x, y, out, False), a, scalar, dtype)


# --- three operands -------------------------------------------------------------------------------------------------


def _addc(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """a + b + c as two instructions: rounded after each."""
    return _add(_add(a, b), c)


def _subc(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """a - b + c as two instructions."""
    return _add(_sub(a, b), c)


def _addsc(a: torch.Tensor, scalar: int | float, c: torch.Tensor) -> torch.Tensor:
    return _add(_adds(a, scalar), c)


def _subsc(a: torch.Tensor, scalar: int | float, c: torch.Tensor) -> torch.Tensor:
    return _add(_subs(a, scalar), c)


# --- partial combines -----------------------------------------------------------------------------------------------


def _partial(function: Callable[..., torch.Tensor], a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """`function` where both operands are valid, the valid one's value where one is, 0 where none is."""
    first, second = _valid_of(a), _valid_of(b)
    region = tuple(max(x, y) for x, y in zip(first, second, strict=True))
    both = tuple(slice(0, min(x, y)) for x, y in zip(first, second, strict=True))
    out = torch.zeros(region, dtype=_promoted(a.dtype, b.dtype))
    out[tuple(slice(0, v) for v in second)] = _cut(b).to(out.dtype)
    out[tuple(slice(0, v) for v in first)] = _cut(a).to(out.dtype)
    out[both] = _each(function, a[both], b[both])
    return _box(out, a.shape)


def _part_add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _partial(torch.add, a, b)


def _part_mul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _partial(torch.mul, a, b)


def _part_max(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _partial(_pick(True, a.dtype), a, b)


def _part_min(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _partial(_pick(False, a.dtype), a, b)


# --- one operand ----------------------------------------------------------------------------------------------------


def _neg(x: torch.Tensor) -> torch.Tensor:
    return _each(torch.neg, x)


def _abs(x: torch.Tensor) -> torch.Tensor:
    """Absolute value; the lowest integer stays as it is."""
    return _each(torch.abs, x) if x.dtype.is_signed else _each(torch.clone, x)


def _exp(x: torch.Tensor) -> torch.Tensor:
    return _each(torch.exp, x)


def _log(x: torch.Tensor, *, high_precision: bool = False) -> torch.Tensor:
    return _each(torch.log, x)


def _sin(x: torch.Tensor) -> torch.Tensor:
    return _each(torch.sin, x)


def _cos(x: torch.Tensor) -> torch.Tensor:
    return _each(torch.cos, x)


def _sqrt(x: torch.Tensor) -> torch.Tensor:
    return _each(torch.sqrt, x)


def _rsqrt(x: torch.Tensor, *, high_precision: bool = False) -> torch.Tensor:
    return _each(torch.rsqrt, x)


def _recip(x: torch.Tensor, *, high_precision: bool = False) -> torch.Tensor:
    return _each(torch.reciprocal, x)


def _relu(x: torch.Tensor) -> torch.Tensor:
    return _each(torch.relu, x)


def _lrelu(x: torch.Tensor, slope: int | float) -> torch.Tensor:
    """x where it is positive, else slope * x with the slope narrowed to the tile's dtype."""
    return _with_scalar(lambda cells, number: torch.where(cells > 0, cells, cells * number), x, slope)


def _prelu(x: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    """x where it is positive, else slope * x, cell by cell."""
    return _each(lambda cells, slopes: torch.where(cells > 0, cells, cells * slopes), x, slope)


# --- bits -----------------------------------------------------------------------------------------------------------


def _and(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _each(torch.bitwise_and, a, b)


def _or(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _each(torch.bitwise_or, a, b)


def _xor(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _each(torch.bitwise_xor, a, b)


def _ands(a: torch.Tensor, scalar: int) -> torch.Tensor:
    return _with_scalar(torch.bitwise_and, a, scalar)


def _ors(a: torch.Tensor, scalar: int) -> torch.Tensor:
    return _with_scalar(torch.bitwise_or, a, scalar)


def _xors(a: torch.Tensor, scalar: int) -> torch.Tensor:
    return _with_scalar(torch.bitwise_xor, a, scalar)


def _not(x: torch.Tensor) -> torch.Tensor:
    return _each(torch.bitwise_not, x)


def _shifted(a: torch.Tensor, by: torch.Tensor, dtype: torch.dtype, left: bool) -> torch.Tensor:
    """Wide values shifted; counts beyond the width shift everything out (the sign stays, going right)."""
    count = by.clamp(0, 63)
    if left:
        return torch.where(by > 63, torch.zeros_like(a), a << count)
    if dtype is not torch.uint64:
        return a >> count
    # The INT64 bits of a UINT64 go right by hand: one signed step with the sign cleared, then the rest.
    stepped = ((a >> 1) & torch.iinfo(torch.int64).max) >> (count - 1).clamp(min=0)
    return torch.where(by > 63, torch.zeros_like(a), torch.where(count == 0, a, stepped))


def _shift(a: torch.Tensor, by: torch.Tensor | int, left: bool) -> torch.Tensor:
    counts = by if isinstance(by, torch.Tensor) else torch.tensor(int(by), dtype=torch.int64)
    dtype = a.dtype

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return _narrow(_shifted(_wide(x), _wide(y), dtype, left), dtype)

    return _each(function, a, counts, dtype=dtype)


def _shl(a: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    return _shift(a, by, True)


def _shr(a: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    """Right shift: arithmetic for signed dtypes, logical for unsigned ones."""
    return _shift(a, by, False)


def _shls(a: torch.Tensor, by: int) -> torch.Tensor:
    return _shift(a, by, True)


def _shrs(a: torch.Tensor, by: int) -> torch.Tensor:
    return _shift(a, by, False)
