"""Tiles: where they lie, and the ops that only look at the same bytes in another way."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr
from xdsl.ir import SSAValue

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.types import MemRef, TileType, constant_dims
from pypto_lab.pto.dialect.attributes import TileBufAttr
from pypto_lab.pto.dialect.operations import REGULAR, AllocTileOp, ReshapeOp, SetValidShapeOp, SubviewOp
from pypto_lab.pto.dialect.types import ALIGNMENT
from pypto_lab.pto.dialect.types import TileType as PtoTile
from pypto_lab.pto.emit.builder import Builder, Tile, elements, with_valid
from pypto_lab.pto.emit.scalars import index
from pypto_lab.pto.emit.types import tile_type, valid_extents


def tile_of(b: Builder, var: n.Var) -> TileType:
    """The IR type of a tile variable."""
    if not isinstance(var.type, TileType):
        b.refuse(f"`{var.name}` is no tile")
    return var.type


def address_of(b: Builder, var: n.Var) -> int | None:
    """Where a tile's bytes start in its space; None for one without a place of its own."""
    memref: MemRef | None = tile_of(b, var).memref
    if memref is None:
        return None
    if not isinstance(memref.offset, n.ConstInt) or memref.slots is not None:
        b.refuse(f"`{var.name}` has no fixed address: memory is not planned yet", hint="emit what all passes made")
    return memref.offset.value


def extents(b: Builder, var: n.Var) -> tuple[SSAValue, SSAValue]:
    """Valid rows and columns of a tile variable as values."""
    rows, cols = valid_extents(tile_of(b, var))
    return index(b, rows), index(b, cols)


def allocated(b: Builder, var: n.Var, valid: tuple[SSAValue, SSAValue] | None = None) -> Tile:
    """An allocation for a tile variable, at its address. Raises LabError for a tile without one."""
    address = address_of(b, var)
    if address is None:
        b.refuse(f"`{var.name}` has no address", hint="emit what all passes made")
    type_ = tile_type(tile_of(b, var))
    found = extents(b, var) if valid is None else valid
    with b.at(var.span):
        made = placed(b, type_, address, found, var.name)
    b.tiles[id(var)] = made
    return made


def placed(b: Builder, type_: PtoTile, address: int, valid: tuple[SSAValue, SSAValue], name: str | None) -> Tile:
    """`alloc_tile` of a type at an address."""
    labels = ArrayAttr([StringAttr(word) for word in ("addr", "valid_row", "valid_col")])
    operands = [b.constant(address, dtypes.INT64), *valid]
    value = b.value(AllocTileOp(operands, [TileBufAttr(type_)], None, {"labels": labels}), name)
    return Tile(value, type_, valid, address)


def same_place(b: Builder, tile: Tile, var: n.Var) -> bool:
    """Whether a variable's own place is where a handle's bytes are."""
    return tile_of(b, var).memref is None or (
        tile.address == address_of(b, var) and tile.type.space == tile_type(tile_of(b, var)).space
    )


def copied(b: Builder, source: Tile, target: Tile) -> None:
    """`tmov` of a tile."""
    b.add(REGULAR["pto.tmov"].make([source.value], [target.value]))


def aliased(b: Builder, var: n.Var, source: Tile) -> None:
    """A variable that is another one: a handle of its own on the same bytes."""
    if tile_of(b, var).memref is None:
        b.tiles[id(var)] = source
        return
    if not same_place(b, source, var):
        b.refuse(f"`{var.name}` names bytes elsewhere than its value, and nothing copies them")
    allocated(b, var)


# --- other views of the same bytes ------------------------------------------------------------------------------------


def _static(b: Builder, var: n.Var) -> tuple[int, int]:
    dims = constant_dims(valid_extents(tile_of(b, var)))
    if dims is None:
        b.refuse(f"`{var.name}` is a view whose valid extents are known at run time only")
    return dims[0], dims[1]


def reshape(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`tile.reshape` and its kin: an allocation at the same address, or `treshape` of a tile without one."""
    source = b.tile(call.args[0])
    wanted = tile_type(tile_of(b, var))
    if source.type.size != wanted.size:
        b.refuse(f"{source.type.brief()} is not as large as {wanted.brief()}")
    own = address_of(b, var)
    if own is not None:
        if source.address != own or source.type.space != wanted.space:
            b.refuse(f"`{var.name}` names other bytes than the tile it is a view of")
        allocated(b, var)
        return
    static = _static(b, var)
    made = ReshapeOp([source.value], [TileBufAttr(wanted.with_valid(*static))])
    valid = b.constant(static[0]), b.constant(static[1])
    b.tiles[id(var)] = Tile(b.value(made, "reshape_buf"), wanted.with_valid(*static), valid, source.address, view=True)


def _window(
    b: Builder, source: Tile, corner: Sequence[n.Expr], size: tuple[int, int], valid: tuple[int, int], name: str
) -> Tile:
    """`subview` of a tile."""
    places = [index(b, e) for e in corner]
    if len(places) != 2:
        b.refuse("a window of a tile has two offsets")
    for place, extent, full in zip(places, size, (source.type.rows, source.type.cols), strict=True):
        known = b.known.get(place)
        if known is not None and not 0 <= known <= full - extent:
            b.refuse(f"{known} to {known + extent} lies outside a tile of {full}")
    own = source.type
    type_ = PtoTile(own.space, own.dtype, *size, *valid, own.blayout, own.slayout, own.fractal, own.pad, own.compact)
    operands = [source.value, *places]
    if name == "assemble_view" or valid != size:
        operands += [b.constant(valid[0]), b.constant(valid[1])]
    sizes = ArrayAttr([IntegerAttr(extent, 64) for extent in size])
    value = b.value(SubviewOp(operands, [TileBufAttr(type_)], None, {"sizes": sizes}), name)
    return Tile(value, type_, (b.constant(valid[0]), b.constant(valid[1])), None, view=True)


def slice_(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`tile.slice`: a window, with the order of elements of its source. As in the compiler's text the variable gets an
    allocation at its own address too, which nothing uses, if a tile can start there."""
    source, wanted = b.tile(call.args[0]), tile_type(tile_of(b, var))
    if len(call.args) > 4:
        b.refuse("a slice that drops dimensions has no form in .pto text")
    if call.kwargs.get("pad_value") is not None and wanted.pad != source.type.pad:
        b.refuse("a slice that pads is a fill, not a window")
    if source.type.boxed or source.type.layout != wanted.layout:
        b.refuse(f"a window of {source.type.brief()} is no {wanted.brief()}")
    valid = _static(b, var)
    own = address_of(b, var)
    if own is not None and own % ALIGNMENT == 0:
        allocated(b, var)
    b.tiles[id(var)] = _window(b, source, elements(call.args[2], b), (wanted.rows, wanted.cols), valid, "slice_view")


def assemble(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`tile.assemble`: into a window of the target, which is copied first when the result lies elsewhere."""
    target, source = b.tile(call.args[0]), b.tile(call.args[1])
    corner = elements(call.args[2], b)
    if same_place(b, target, var):
        result = target
    else:
        result = allocated(b, var)
        copied(b, target, result)
    b.tiles[id(var)] = result
    known = [b.known.get(v) for v in source.valid]
    if result.type.boxed:
        if source.type.space != "acc" or result.type.space != "mat" or len(corner) != 2:
            b.refuse(f"{source.type.brief()} does not go into a window of {result.type.brief()}")
        b.add(REGULAR["pto.tinsert"].make([source.value, *(index(b, e) for e in corner)], [result.value]))
        return
    if known[0] is None or known[1] is None:
        b.refuse("the source's valid extents are known at run time only")
    if source.type.dtype != result.type.dtype or source.type.space != result.type.space:
        b.refuse(f"{source.type.brief()} does not go into a window of {result.type.brief()}")
    window = _window(b, result, corner, (source.type.rows, source.type.cols), (known[0], known[1]), "assemble_view")
    copied(b, source, window)


def set_validshape(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`tile.set_validshape`: changes the handle itself, or makes another where the tile is used later as it was."""
    tile = b.tile(call.args[0])
    valid = index(b, call.args[1]), index(b, call.args[2])
    if tile.view:
        b.refuse("the extents of a window or reshape cannot be changed")
    if not same_place(b, tile, var):
        b.refuse(f"`{var.name}` names other bytes than the tile it is a view of")
    if id(call) in b.kept:
        allocated(b, var, valid)
        return
    b.add(SetValidShapeOp([tile.value, *valid]))
    b.tiles[id(var)] = with_valid(tile, valid)
