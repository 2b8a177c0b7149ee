"""Records of the broadcasts: a row vector [rows, 1] or a column vector [1, columns] spread over a full operand."""

from __future__ import annotations

from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.enums import MemorySpace
from pypto_lab.ir.types import ShapedType, TensorType, TileType, Type
from pypto_lab.ops import rules
from pypto_lab.ops.elementwise import mnemonic, scalar_arg, scratch_arg, tensor_arg, tile_arg
from pypto_lab.ops.record import OPS, Op, Operands, Torch

_BLOCK_BYTES = 32
"""A packed row vector holds one 32-byte block a row."""

_COMBINES = {
    "": ("The vector alone, repeated over the target's region", None),
    "_add": ("x + vector", "torch.add({0}, {1})"),
    "_sub": ("x - vector", "torch.sub({0}, {1})"),
    "_mul": ("x * vector", "torch.mul({0}, {1})"),
    "_div": ("x / vector", "torch.div({0}, {1})"),
    "_max": ("Larger of x and vector", "torch.maximum({0}, {1})"),
    "_min": ("Smaller of x and vector", "torch.minimum({0}, {1})"),
    "_expdif": ("exp(x - vector)", "torch.exp(torch.sub({0}, {1}))"),
}


def _require_vector(operands: Operands, full: ShapedType, vector: ShapedType, rows: bool) -> None:
    """Raises OpError unless the second operand is one value a row (or a packed block), or one value a column.

    Tensors may leave out leading axes of the vector: [rows, 1] spreads over [batch, rows, columns].
    """
    fewer = vector.rank < full.rank and isinstance(full, TensorType)
    if vector.rank < 2 or (full.rank != vector.rank and not fewer):
        raise OpError(
            f"{operands.op.name} needs operands of one rank, not {rules.show_dims(full.shape)} and "
            f"{rules.show_dims(vector.shape)}",
            argument=1,
            hint="reshape the vector: pl.reshape(v, [rows, 1])" if rows else "reshape the vector to [1, columns]",
            code="E302",
        )
    single, shared = (-1, -2) if rows else (-2, -1)
    if arith.differ(full.shape[shared], vector.shape[shared]) or not _stretches(vector, single, rows, full):
        wanted = (
            [*full.shape[:-2], full.shape[-2], n.const(1)] if rows else [*full.shape[:-2], n.const(1), full.shape[-1]]
        )
        raise OpError(
            f"{operands.op.name} spreads a vector {rules.show_dims(wanted)} over {rules.show_dims(full.shape)}, "
            f"but got {rules.show_dims(vector.shape)}",
            argument=1,
            hint=f"did you mean {_other_form(operands.op.short_name)}?"
            if _would_fit(full, vector, rows)
            else "reshape the vector, or use the plain op for equal shapes",
            code="E302",
            also={0: f"this has shape {rules.show_dims(full.shape)}"},
        )


def _other_form(name: str) -> str:
    return "col" + name[3:] if name.startswith("row") else "row" + name[3:]


def _stretches(vector: ShapedType, axis: int, rows: bool, full: ShapedType) -> bool:
    extent = arith.constant(vector.shape[axis])
    if extent in (None, 1):
        return True
    packed = rows and isinstance(full, TileType) and extent is not None
    return packed and extent is not None and extent * vector.dtype.bits == _BLOCK_BYTES * 8


def _would_fit(full: ShapedType, vector: ShapedType, rows: bool) -> bool:
    single, shared = (-2, -1) if rows else (-1, -2)
    return arith.constant(vector.shape[single]) == 1 and not arith.differ(full.shape[shared], vector.shape[shared])


def _infer_expand(operands: Operands) -> Type:
    """Shape, region and block layout of the full operand; the promoted dtype."""
    rules.require_same_kind(operands, 0, 1)
    full, vector = operands.shaped(0), operands.shaped(1)
    _require_vector(operands, full, vector, operands.op.short_name.startswith("row_"))
    if operands.op.short_name.endswith("_expdif"):
        rules.require_float(operands, 0)
    return rules.like(full, dtype=rules.promoted(full.dtype, vector.dtype))


def _infer_expands(operands: Operands) -> Type:
    rules.scalar_dtype(operands, 1)
    return rules.like(operands.shaped(0))


def _infer_expand_clone(operands: Operands) -> Type:
    """The target's shape in the input's dtype; an axis that is not repeated keeps its valid extent."""
    source, target = operands.shaped(0), operands.shaped(1)
    lead = target.rank - source.rank
    fits = lead >= 0 and not any(
        arith.constant(own) != 1 and arith.differ(own, wide)
        for own, wide in zip(source.shape, target.shape[lead:], strict=True)
    )
    if not fits:
        raise OpError(
            f"tensor.expand_clone cannot repeat {rules.show_dims(source.shape)} to {rules.show_dims(target.shape)}",
            argument=0,
            hint="only extents of 1 are repeated",
            code="E302",
            also={1: f"the target has shape {rules.show_dims(target.shape)}"},
        )
    own = zip(source.shape, source.valid_shape, target.shape[lead:], strict=True)
    valid = (*target.shape[:lead], *(wide if arith.constant(size) == 1 else v for size, v, wide in own))
    return rules.tensor_type(target.shape, source.dtype, valid=valid)


def _plain_expand(call: n.OpCall) -> bool:
    """torch's own broadcasting fits one float dtype and an unpacked vector."""
    vector = call.args[1].type
    if not isinstance(vector, ShapedType) or not rules.one_torch_float(call):
        return False
    return arith.constant(vector.shape[-1 if ".row_" in call.op else -2]) == 1


def _add_expand(kind: str, combine: str) -> None:
    name = f"{kind}_expand{combine}"
    what, plain = _COMBINES[combine]
    vector = "row_vec" if kind == "row" else "col_vec"
    how = "a [rows, 1] vector across the columns" if kind == "row" else "a [1, columns] vector down the rows"
    tile_full = "tile" if kind == "row" and combine else "target"
    scratch = (scratch_arg("tmp", optional=True),) if name == "row_expand_add" else ()
    OPS.add(
        Op(
            name=f"tensor.{name}",
            args=(tensor_arg("target" if name == "row_expand" else "tensor", "lhs"), tensor_arg(vector, "rhs")),
            attrs=(),
            infer=_infer_expand,
            torch=Torch(name, plain, _plain_expand if plain else None),
            doc=f"{what}, spreading {how}.",
            dsl=(name,),
        ),
        Op(
            name=f"tile.{name}",
            args=(
                tile_arg(tile_full, "lhs"),
                tile_arg(vector if kind == "row" else "col_tile", "rhs"),
                *scratch,
            ),
            attrs=(),
            infer=_infer_expand,
            torch=Torch(name, plain, _plain_expand if plain else None),
            doc=f"{what}, spreading {how}.",
            pto=mnemonic(name),
            dsl=(name,),
            output_space=MemorySpace.Vec,
        ),
    )


for _kind in ("row", "col"):
    for _combine in _COMBINES:
        _add_expand(_kind, _combine)

OPS.add(
    Op(
        name="tensor.expands",
        args=(tensor_arg("target"), scalar_arg("scalar")),
        attrs=(),
        infer=_infer_expands,
        torch=Torch("expands", "torch.full_like({0}, {1})", rules.arithmetic_with_scalar),
        doc="A number over the target's region, at the target's dtype.",
        dsl=("expands",),
    ),
    Op(
        name="tile.expands",
        args=(tile_arg("target"), scalar_arg("scalar")),
        attrs=(),
        infer=_infer_expands,
        torch=Torch("expands", "torch.full_like({0}, {1})", rules.arithmetic_with_scalar),
        doc="A number over the target's region, at the target's dtype.",
        pto="pto.texpands",
        dsl=("expands",),
        output_space=MemorySpace.Vec,
    ),
    Op(
        name="tensor.expand_clone",
        args=(tensor_arg("input", "src"), tensor_arg("target")),
        attrs=(),
        infer=_infer_expand_clone,
        torch=Torch("expand_clone"),
        doc="The input repeated along its extents of 1 to the target's shape.",
        dsl=("expand_clone",),
    ),
)
