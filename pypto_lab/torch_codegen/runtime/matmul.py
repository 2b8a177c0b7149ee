"""Matrix products: operands widened first, FP32 or INT32 accumulation, one rounding at the end.

The computed rectangle is the left operand's valid rows by the right operand's valid columns; the inner extent is the
left operand's valid columns.
"""

from __future__ import annotations

import torch

from pypto_lab.torch_codegen.runtime.elementwise import _narrow, _stretched
from pypto_lab.torch_codegen.runtime.values import _box, _mark, _valid_of

_MX_BLOCK = 32
"""Elements along the inner axis that share one scale."""


def _turned(x: torch.Tensor, swap: bool) -> torch.Tensor:
    """The operand with its last two axes swapped when `swap`, region and all."""
    if not swap:
        return x
    valid = _valid_of(x)
    return _mark(x.transpose(-1, -2), (*valid[:-2], valid[-1], valid[-2]))


def _accumulated(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b of valid cells in the accumulator's dtype: FP32 for floats, INT32 with wrap-around for integers."""
    if a.dtype.is_floating_point:
        return torch.matmul(a.to(torch.float32), b.to(torch.float32))
    if a.dtype.itemsize <= 2 and b.dtype.itemsize <= 2:
        return _narrow(torch.matmul(a.to(torch.float64), b.to(torch.float64)).to(torch.int64), torch.int32)
    return _narrow(torch.matmul(a.to(torch.int64), b.to(torch.int64)), torch.int32)


def _corner(x: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """The first `rows` x `columns` cells of every matrix. Raises ValueError when the box is smaller."""
    if rows > x.shape[-2] or columns > x.shape[-1]:
        raise ValueError(f"a matrix product reads {rows} x {columns} cells of a box {list(x.shape[-2:])}")
    return x[..., :rows, :columns]


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The accumulator-dtype product of the valid cells, without padding."""
    valid_a, valid_b = _valid_of(a), _valid_of(b)
    rows, inner, columns = valid_a[-2], valid_a[-1], valid_b[-1]
    left = _corner(a[tuple(slice(0, v) for v in valid_a[:-2])], rows, inner)
    right = _corner(b[tuple(slice(0, v) for v in valid_b[:-2])], inner, columns)
    return _accumulated(left, right)


def _product_box(a: torch.Tensor, b: torch.Tensor) -> tuple[int, ...]:
    lead = _stretched(a.shape[:-2], b.shape[:-2])
    return (*lead, a.shape[-2], b.shape[-1])


def _matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    a_trans: bool = False,
    b_trans: bool = False,
    c_matrix_nz: bool = False,
    out_dtype: torch.dtype | None = None,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """a @ b in `dtype` (default: the accumulator's), rounded once. `c_matrix_nz` and `out_dtype` are in the type."""
    a, b = _turned(a, a_trans), _turned(b, b_trans)
    product = _product(a, b)
    return _box(product if dtype is None else _narrow(_as_wide(product, dtype), dtype), _product_box(a, b))


def _as_wide(product: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """An INT32 product as INT64 when it goes to a narrower integer, so that it wraps."""
    return product.to(torch.int64) if product.dtype is torch.int32 and not dtype.is_floating_point else product


def _batch_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _matmul(a, b)


def _into(acc: torch.Tensor, product: torch.Tensor, overwrite: bool, copy: bool) -> torch.Tensor:
    """Adds the product to the accumulator's first cells, or stores it there; the accumulator keeps its region."""
    valid = _valid_of(acc)
    target = _mark(acc.clone(), valid) if copy else acc
    if any(p > t for p, t in zip(product.shape, target.shape, strict=True)):
        raise ValueError(f"a product of shape {list(product.shape)} does not fit an accumulator {list(target.shape)}")
    cells = target[tuple(slice(0, size) for size in product.shape)]
    cells.copy_(product if overwrite else cells + product)
    return target


def _matmul_acc(
    acc: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    init_cond: bool = False,
    *,
    a_trans: bool = False,
    b_trans: bool = False,
    copy: bool = False,
) -> torch.Tensor:
    """acc + a @ b, or a @ b alone where `init_cond` is true, written into `acc` (into a copy with `copy`)."""
    product = _product(_turned(a, a_trans), _turned(b, b_trans))
    return _into(acc, product, bool(init_cond), copy)


def _tensor_matmul_acc(
    acc: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    init_cond: bool = False,
    *,
    a_trans: bool = False,
    b_trans: bool = False,
) -> torch.Tensor:
    """`_matmul_acc` that leaves the accumulator alone: a tensor's update is a new value."""
    return _matmul_acc(acc, a, b, init_cond, a_trans=a_trans, b_trans=b_trans, copy=True)


def _batch_matmul_acc(acc: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, copy: bool = False) -> torch.Tensor:
    return _matmul_acc(acc, a, b, copy=copy)


def _matmul_bias(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """a @ b + bias, where bias is one row in the accumulator's dtype."""
    product = _product(a, b)
    return _box(product + _corner(bias, 1, product.shape[-1]), _product_box(a, b))


_GEMV_ROWS = 16
"""Physical rows of a vector-matrix product's accumulator; only the first is valid."""


def _gemv_row(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    inner, columns = _valid_of(a)[-1], _valid_of(b)[-1]
    return _accumulated(_corner(a, 1, inner), _corner(b, inner, columns))


def _gemv(a: torch.Tensor, b: torch.Tensor, *, acc_phase: str = "unspecified") -> torch.Tensor:
    """The first row of `a` times `b`: a box of 16 rows of which the first is valid."""
    return _box(_gemv_row(a, b), (_GEMV_ROWS, b.shape[-1]))


def _gemv_acc(
    acc: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, acc_phase: str = "unspecified", copy: bool = False
) -> torch.Tensor:
    """acc + gemv, written into `acc` (into a copy with `copy`)."""
    return _into(acc, _gemv_row(a, b), False, copy)


def _gemv_bias(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, *, acc_phase: str = "unspecified") -> torch.Tensor:
    row = _gemv_row(a, b)
    return _box(row + _corner(bias, 1, row.shape[-1]), (_GEMV_ROWS, b.shape[-1]))


# --- block-scaled (MX) products -------------------------------------------------------------------------------------


def _scale_values(scale: torch.Tensor) -> torch.Tensor:
    """E8M0 scales as FP32 powers of two (255 is NaN); any other dtype as it is."""
    if scale.dtype not in (torch.float8_e8m0fnu, torch.uint8):
        return scale.to(torch.float32)
    code = scale.view(torch.uint8).to(torch.int64)
    power = torch.ldexp(torch.ones(code.shape, dtype=torch.float64), code - 127).to(torch.float32)
    return torch.where(code == 255, torch.full_like(power, float("nan")), power)


def _mx_product(a: torch.Tensor, a_scale: torch.Tensor, b: torch.Tensor, b_scale: torch.Tensor) -> torch.Tensor:
    """The FP32 product of operands whose every 32 cells along the inner axis share one scale."""
    rows, inner = _valid_of(a)[-2:]
    columns = _valid_of(b)[-1]
    blocks = -(-inner // _MX_BLOCK)
    left_scale = _corner(_scale_values(a_scale), rows, blocks).repeat_interleave(_MX_BLOCK, dim=-1)[..., :inner]
    right_scale = _corner(_scale_values(b_scale), blocks, columns).repeat_interleave(_MX_BLOCK, dim=-2)[..., :inner, :]
    left = _corner(a, rows, inner).to(torch.float32) * left_scale
    right = _corner(b, inner, columns).to(torch.float32) * right_scale
    return torch.matmul(left, right)


def _matmul_mx(a: torch.Tensor, a_scale: torch.Tensor, b: torch.Tensor, b_scale: torch.Tensor) -> torch.Tensor:
    return _box(_mx_product(a, a_scale, b, b_scale), _product_box(a, b))


def _matmul_mx_acc(
    acc: torch.Tensor,
    a: torch.Tensor,
    a_scale: torch.Tensor,
    b: torch.Tensor,
    b_scale: torch.Tensor,
    *,
    copy: bool = False,
) -> torch.Tensor:
    """acc + the scaled product, written into `acc` (into a copy with `copy`)."""
    return _into(acc, _mx_product(a, a_scale, b, b_scale), False, copy)


def _matmul_mx_bias(
    a: torch.Tensor, a_scale: torch.Tensor, b: torch.Tensor, b_scale: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    product = _mx_product(a, a_scale, b, b_scale)
    return _box(product + _corner(bias, 1, product.shape[-1]), _product_box(a, b))


def _tget_scale_addr(scale: torch.Tensor) -> torch.Tensor:
    """The scale tile itself: binding its address to a data tile moves no value."""
    return scale
