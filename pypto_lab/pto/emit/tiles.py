"""Tiles: where they lie, and the ops that only look at the same bytes in another way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr
from xdsl.ir import SSAValue

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.types import MemRef, TileType, constant_dims
from pypto_lab.pto.dialect.attributes import TileBufAttr
from pypto_lab.pto.dialect.operations import REGULAR, AllocTileOp, ReshapeOp, SetValidShapeOp, SubviewOp
from pypto_lab.pto.dialect.types import ALIGNMENT, inner_box
from pypto_lab.pto.dialect.types import TileType as PtoTile
from pypto_lab.pto.emit.builder import Builder, Tile, elements, with_valid
from pypto_lab.pto.emit.scalars import index, valid_extent
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
    return valid_extent(b, rows), valid_extent(b, cols)


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


def into_first(b: Builder, call: n.OpCall, var: n.Var | None) -> Tile:
    """The handle of the first argument, which the op writes in place."""
    target = b.tile(call.args[0])
    if var is not None:
        if not same_place(b, target, var):
            b.refuse(f"`{var.name}` lies elsewhere than the tile the op changes in place")
        b.tiles[id(var)] = target
    return target


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
    if own.boxed:
        _whole_boxes(b, own, [b.known.get(place) for place in places], size)
    type_ = PtoTile(own.space, own.dtype, *size, *valid, own.blayout, own.slayout, own.fractal, own.pad, own.compact)
    operands = [source.value, *places]
    if name == "assemble_view" or valid != size:
        operands += [b.constant(valid[0]), b.constant(valid[1])]
    sizes = ArrayAttr([IntegerAttr(extent, 64) for extent in size])
    value = b.value(SubviewOp(operands, [TileBufAttr(type_)], None, {"sizes": sizes}), name)
    address = _start(source, [b.known.get(place) for place in places], size)
    return Tile(value, type_, (b.constant(valid[0]), b.constant(valid[1])), address, view=True)


def _start(source: Tile, corner: Sequence[int | None], size: tuple[int, int]) -> int | None:
    """Where the bytes of a window start, if they are known and lie one after the other."""
    own = source.type
    row, column = corner
    if source.address is None or row is None or column is None:
        return None
    if own.blayout == "row_major":
        whole, elements_before = size[1] == own.cols and column == 0, row * own.cols
    else:
        whole, elements_before = size[0] == own.rows and row == 0, column * own.rows
    return source.address + elements_before * own.itemsize if whole else None


def loaded_window(
    b: Builder, target: Tile, corner: Sequence[n.Expr], size: tuple[int, int], valid: tuple[SSAValue, SSAValue]
) -> Tile:
    """A window that something is loaded into: as many whole boxes as hold `size`, of which `valid` is valid."""
    own = target.type
    steps = inner_box(own) if own.boxed else (1, 1)
    rows, cols = (-(-extent // step) * step for extent, step in zip(size, steps, strict=True))
    places = [index(b, e) for e in corner]
    known = [b.known.get(extent) for extent in valid]
    for place, extent, full in zip(places, known, (own.rows, own.cols), strict=True):
        start = b.known.get(place)
        if start is not None and extent is not None and start + extent > full:
            b.refuse(f"{start} to {start + extent} lies outside a tile of {full}")
    type_ = replace(own, rows=rows, cols=cols, valid_rows=known[0], valid_cols=known[1])
    sizes = ArrayAttr([IntegerAttr(extent, 64) for extent in (rows, cols)])
    made = SubviewOp([target.value, *places, *valid], [TileBufAttr(type_)], None, {"sizes": sizes})
    return Tile(b.value(made, "gather_view"), type_, valid, None, view=True)


def _whole_boxes(b: Builder, tile: PtoTile, corner: Sequence[int | None], size: tuple[int, int]) -> None:
    """Refuses a window of a boxed tile that starts or ends inside a box; a start known at run time is checked then."""
    for place, extent, step in zip(corner, size, inner_box(tile), strict=True):
        if (place or 0) % step or extent % step:
            shown = f"{extent} elements" if place is None else f"{place} to {place + extent}"
            b.refuse(f"a window, {shown}, of {tile.brief()} is not made of whole boxes")


def slice_(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`tile.slice`: a window, with the order of elements of its source. As in the compiler's text the variable gets an
    allocation at its own address too, which nothing uses, if a tile can start there."""
    source, wanted = b.tile(call.args[0]), tile_type(tile_of(b, var))
    if len(call.args) > 4:
        b.refuse("a slice that drops dimensions has no form in .pto text")
    if call.kwargs.get("pad_value") is not None and wanted.pad != source.type.pad:
        b.refuse("a slice that pads is a fill, not a window")
    if source.type.layout != wanted.layout:
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
