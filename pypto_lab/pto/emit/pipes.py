"""Cross-core pipes, barriers, and which block and lane runs."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, SSAValue

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import FunctionType
from pypto_lab.ir.types import constant_dims
from pypto_lab.ir.visitor import walk
from pypto_lab.pto.dialect.attributes import TileBufAttr, keyword, type_attribute
from pypto_lab.pto.dialect.operations import (
    PIPE_OPS,
    AddPtrOp,
    BarrierOp,
    ImportReservedBufferOp,
    ReserveBufferOp,
    ReshapeOp,
    SetValidShapeOp,
)
from pypto_lab.pto.emit.builder import Builder, Tile
from pypto_lab.pto.emit.scalars import identity, scalar
from pypto_lab.pto.emit.tiles import extents, tile_of
from pypto_lab.pto.emit.types import tile_type, valid_extents

GM_PIPE_BUFFER = "__gm_pipe_buffer"
"""The tensor parameter that holds a pipe's slots in global memory (a2a3)."""


def number(value: int) -> Attribute:
    return IntegerAttr(int(value), 64)


def flag(value: bool) -> Attribute:
    return IntegerAttr.from_bool(value)


def _chosen(call: n.OpCall, *names: str) -> dict[str, Attribute]:
    """The given integer attributes, in this order, without those that are not stated."""
    return {name: number(call.kwargs[name]) for name in names if call.kwargs.get(name) is not None}


def reserve_buffer(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`system.reserve_buffer`: in the memory that consumes from it."""
    space = "mat" if b.function.func_type is FunctionType.AIC else "vec"
    base = call.kwargs.get("base", -1)
    attributes: dict[str, Attribute] = {
        "name": StringAttr(call.kwargs["name"]),
        "size": number(call.kwargs["size"]),
        "location": keyword("address_space", space),
        "auto": flag(base < 0),
    }
    if base >= 0:
        attributes["base"] = number(base)
    b.scalars[id(var)] = b.value(ReserveBufferOp([], [type_attribute("i32")], attributes), var.name)


def import_peer_buffer(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`system.import_peer_buffer`."""
    peer = str(call.kwargs["peer_func"])
    if peer not in b.program.functions:
        b.refuse(f"there is no function `{peer}` to import from")
    attributes: dict[str, Attribute] = {"name": StringAttr(call.kwargs["name"]), "peer_func": SymbolRefAttr(peer)}
    b.scalars[id(var)] = b.value(ImportReservedBufferOp([], [type_attribute("i32")], attributes), var.name)


def initialize_pipe(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """`system.aic_initialize_pipe` and `aiv_initialize_pipe`; on a2a3 slots may go through global memory."""
    attributes = _chosen(call, "id", "dir_mask", "slot_size", "slot_num", "local_slot_num")
    labels: list[str] = []
    operands: list[SSAValue] = []
    for param in b.function.params:
        if param.name.partition("__ssa")[0] == GM_PIPE_BUFFER:
            labels.append("gm_slot_buffer")
            operands.append(_slots(b, call, b.tensors[id(param.var)].pointer))
    for label, argument in zip(("c2v_consumer_buf", "v2c_consumer_buf"), call.args, strict=True):
        labels.append(label)
        operands.append(scalar(b, argument, dtypes.INT32))
    properties = {"labels": ArrayAttr([StringAttr(word) for word in labels])}
    name = "pto." + call.op.removeprefix("system.")
    b.add(PIPE_OPS[name](operands, (), attributes, properties))


def _slots(b: Builder, call: n.OpCall, pointer: SSAValue) -> SSAValue:
    """Where a pipe's slots begin in global memory: PyPTO gives each pipe id and direction a region of its own."""
    start = slot_regions(_together(b))[_region_of(call)] // _SLOT_ELEMENT
    if start == 0:
        return pointer
    return b.value(AddPtrOp([pointer, b.constant(start)], [pointer.type]), "gm_slots")


def _together(b: Builder) -> list[n.Function]:
    """The functions whose pipes share a buffer: those of the group, or the function alone."""
    for group in b.program.functions.values():
        if group.func_type is FunctionType.Group:
            names = dict.fromkeys(node.callee for node in walk(group) if isinstance(node, (n.FunctionCall, n.Submit)))
            if b.function.name in names:
                return [b.program.functions[name] for name in names if name in b.program.functions]
    return [b.function]


_SLOT_ELEMENT = 4
"""Bytes of an element of the buffer, which is FP32."""


def _region_of(call: n.OpCall) -> tuple[int, int]:
    return int(call.kwargs.get("id") or 0), int(call.kwargs.get("dir_mask") or 0)


def slot_regions(functions: Iterable[n.Function]) -> dict[tuple[int, int], int]:
    """The first byte of the slots of each (pipe id, direction mask), one after the other as the pipes are set up.

    Both ends of a pipe state the same slots, so each counts once; a pipe of both directions has one region.
    """
    sizes: dict[tuple[int, int], int] = {}
    for call in (node for function in functions for node in walk(function) if isinstance(node, n.OpCall)):
        if call.op in ("system.aic_initialize_pipe", "system.aiv_initialize_pipe"):
            place = _region_of(call)
            both = place[1] == 3
            slots = int(call.kwargs.get("slot_num") or (4 if both else 8)) * (2 if both else 1)
            sizes[place] = max(sizes.get(place, 0), int(call.kwargs.get("slot_size") or 0) * slots)
    return dict(zip(sizes, accumulate(sizes.values(), initial=0), strict=False))


def _split(call: n.OpCall) -> dict[str, Attribute]:
    if call.kwargs.get("lane_stride") is not None:
        raise ValueError("`lane_stride` has no form in .pto text")
    return {**_chosen(call, "id"), "split": number(call.kwargs.get("split") or 0)}


def push(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """`tile.tpush_to_*`: a push split over lanes takes the whole box, whatever part of it is valid."""
    tile = b.tile(call.args[0])
    name = "pto." + call.op.removeprefix("tile.")
    attributes = _split(call)
    split = int(call.kwargs.get("split") or 0)
    full = b.constant(tile.type.rows), b.constant(tile.type.cols)
    known = [b.known.get(v) for v in tile.valid]
    widened = split in (1, 2) and known != [tile.type.rows, tile.type.cols]
    if widened and tile.view:
        b.refuse("the extents of a window or reshape cannot be widened for a split push")
    if widened:
        b.add(SetValidShapeOp([tile.value, *full]))
    b.add(PIPE_OPS[name]([tile.value], (), attributes))
    if widened:
        b.add(SetValidShapeOp([tile.value, *tile.valid]))


def pop(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`tile.tpop_from_*`: a tile that lies in the pipe's slot. Part of it is named by extents, or as another view."""
    name = "pto." + call.op.removeprefix("tile.")
    type_ = tile_type(tile_of(b, var))
    valid = extents(b, var)
    known = constant_dims(valid_extents(tile_of(b, var)))
    attributes = _split(call)
    odd = int(call.kwargs.get("split") or 0) >= 3
    if known == (type_.rows, type_.cols) and not odd:
        value = b.value(PIPE_OPS[name]([], [TileBufAttr(type_)], attributes), var.name)
        b.tiles[id(var)] = Tile(value, type_, valid, None)
        return
    if odd or known is None or known == (0, 0) or type_.space != "vec":
        value = b.value(PIPE_OPS[name](list(valid), [TileBufAttr(type_)], attributes), var.name)
        b.tiles[id(var)] = Tile(value, type_, valid, None)
        return
    whole = b.value(PIPE_OPS[name]([], [TileBufAttr(type_)], attributes), "tpop_transport")
    part = type_.with_valid(known[0], known[1])
    value = b.value(ReshapeOp([whole], [TileBufAttr(part)]), "tpop_logical")
    b.tiles[id(var)] = Tile(value, part, valid, None, view=True)


def free(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """`system.tfree_to_*`, which the text calls `tfree_from_*`."""
    name = "pto." + call.op.removeprefix("system.").replace("tfree_to_", "tfree_from_")
    b.add(PIPE_OPS[name]((), (), _split(call)))


def barrier(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """`system.bar_v`, `bar_m`, `bar_all`."""
    pipe = call.op.removeprefix("system.bar_").upper()
    properties: dict[str, Any] = {"pipe": StringAttr(f"PIPE_{pipe}")}
    b.add(BarrierOp((), (), None, properties))


def spmd_index(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`tile.get_block_idx` and its kin: read from a parameter."""
    b.scalars[id(var)] = identity(b, call, var.name)
