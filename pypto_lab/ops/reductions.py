"""Records of the reductions: rows fold the last axis, columns a tile's first axis (a tensor's second to last)."""

from __future__ import annotations

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import MemorySpace
from pypto_lab.ir.types import ShapedType, TileType, Type
from pypto_lab.ops import rules
from pypto_lab.ops.elementwise import mnemonic, scratch_arg, tensor_arg, tile_arg
from pypto_lab.ops.record import OPS, Arg, Attr, Op, Operands, Torch

_FOLDS = {
    "sum": ("Sum", "torch.sum({{0}}, dim={axis}, keepdim=True)"),
    "max": ("Largest cell", "torch.amax({{0}}, dim={axis}, keepdim=True)"),
    "min": ("Smallest cell", "torch.amin({{0}}, dim={axis}, keepdim=True)"),
    "prod": ("Product", "torch.prod({{0}}, dim={axis}, keepdim=True)"),
    "argmax": ("INT32 index of the first largest cell", None),
    "argmin": ("INT32 index of the first smallest cell", None),
}


def _axis(operands: Operands, source: ShapedType) -> int:
    """The folded axis, counted from the front."""
    rows = operands.op.short_name.startswith("row_")
    if isinstance(source, TileType):
        return source.rank - 1 if rows else 0
    axis = operands.attrs.get("axis", -1 if rows else -2)
    if not -source.rank <= axis < source.rank:
        raise OpError(
            f"{operands.op.name} has no axis {axis} to fold in {rules.show_dims(source.shape)}",
            argument="axis" if "axis" in operands.attrs else 0,
            hint="a column reduction needs at least two axes",
            code="E302",
        )
    return int(axis) % source.rank


def _require_cells(operands: Operands, valid: rules.Dims, axis: int) -> None:
    """Raises OpError for rows that hold nothing (nothing at all is allowed: an idle lane folds an empty tile)."""
    extents = [arith.constant(v) for v in valid]
    if extents[axis] == 0 and all(e != 0 for a, e in enumerate(extents) if a != axis):
        raise OpError(
            f"{operands.op.name} folds an empty region: the valid shape is {rules.show_dims(valid)}",
            argument=0,
            hint="give the operand a valid extent of at least 1 along the folded axis",
            code="E302",
        )


def _infer_fold(operands: Operands) -> Type:
    """One cell is left along the axis (none for tensors with keep_dim=False); the other axes keep their region."""
    source = operands.shaped(0)
    if isinstance(source, TileType) and source.rank < 2:
        raise OpError(f"{operands.op.name} needs a tile of at least two axes", argument=0, code="E302")
    axis = _axis(operands, source)
    valid = source.valid_shape
    _require_cells(operands, valid, axis)
    one = n.const(1)
    empty = arith.constant(valid[axis]) == 0
    shape = (*source.shape[:axis], one, *source.shape[axis + 1 :])
    region = (*valid[:axis], n.const(0) if empty else one, *valid[axis + 1 :])
    if not isinstance(source, TileType) and not operands.attrs.get("keep_dim", True):
        shape, region = (*shape[:axis], *shape[axis + 1 :]), (*region[:axis], *region[axis + 1 :])
    return rules.fresh(source, shape, _fold_dtype(operands, source), region)


def _fold_dtype(operands: Operands, source: ShapedType) -> DType:
    return dtypes.INT32 if "_arg" in operands.op.short_name else source.dtype


def _plain_fold(call: n.OpCall) -> bool:
    """torch folds FP32 as the hardware does; other dtypes go through wider sums."""
    if rules.operand_dtypes_of(call, 0) != {dtypes.FP32}:
        return False
    rows = ".row_" in call.op
    wanted = {"axis": -1 if rows else -2, "keep_dim": True}
    return all(call.kwargs.get(k, v) == v for k, v in wanted.items())


def _scratch(kind: str, fold: str) -> tuple[Arg, ...]:
    """Row reductions and column indices of tiles take scratch; col_sum may (it then sums as a tree)."""
    if kind == "row" or fold.startswith("arg"):
        return (scratch_arg("tmp_tile"),)
    return (scratch_arg("tmp_tile", optional=True),) if fold == "sum" else ()


def _add_fold(kind: str, fold: str) -> None:
    name = f"{kind}_{fold}"
    what, template = _FOLDS[fold]
    axis = -1 if kind == "row" else -2
    doc = f"{what} of each {'row' if kind == 'row' else 'column'}, over the valid cells only."
    OPS.add(
        Op(
            name=f"tensor.{name}",
            args=(tensor_arg("input"),),
            attrs=(Attr("axis", "int", axis, printed=False), Attr("keep_dim", "bool", True, printed=False)),
            infer=_infer_fold,
            torch=Torch(name, template and template.format(axis=axis), _plain_fold if template else None),
            doc=doc,
            dsl=(name,),
        ),
        Op(
            name=f"tile.{name}",
            args=(tile_arg("tile", "input"), *_scratch(kind, fold)),
            attrs=(),
            infer=_infer_fold,
            torch=Torch(
                name if kind == "row" else f"tile_{name}",
                template and template.format(axis=-1 if kind == "row" else 0),
                _plain_fold if template else None,
            ),
            doc=doc,
            pto=mnemonic(name),
            dsl=(name,),
            output_space=MemorySpace.Vec,
        ),
    )


for _kind in ("row", "col"):
    for _fold in _FOLDS:
        _add_fold(_kind, _fold)
