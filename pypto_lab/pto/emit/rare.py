"""Gathers, scatters and sorts whose `.pto` form is neither their arguments in order nor a small change of it."""

from __future__ import annotations

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, IntegerType, VectorType
from xdsl.ir import Attribute

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import CMP_TYPES, MgatherCoalesce
from pypto_lab.ir.types import constant_dims
from pypto_lab.ir.visitor import walk
from pypto_lab.pto.dialect.attributes import keyword
from pypto_lab.pto.dialect.operations import REGULAR
from pypto_lab.pto.emit import tiles
from pypto_lab.pto.emit.builder import Builder, elements
from pypto_lab.pto.emit.pipes import flag
from pypto_lab.pto.emit.scalars import index, scalar
from pypto_lab.pto.emit.tensors import transposed, whole, window, window_of
from pypto_lab.pto.emit.tiles import allocated

OUT_OF_BOUNDS = ("undefined", "clamp", "wrap", "zero")
"""What an index outside a tensor gives, by code."""


def _word(value: object, words: tuple[str, ...]) -> str:
    return words[value] if isinstance(value, int) else str(value)


def gather_memory(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`tile.mgather`: rows or elements of a tensor by index."""
    out = allocated(b, var)
    ins = [whole(b, call.args[0]), b.tile(call.args[1]).value]
    if len(call.args) > 2:
        ins.append(whole(b, call.args[2]))
    coalesce = _word(call.kwargs.get("coalesce", 0), tuple(m.name for m in MgatherCoalesce))
    attributes: dict[str, Attribute] = {"coalesce": keyword("coalesce", coalesce)}
    outside = _word(call.kwargs.get("gather_oob", 0), OUT_OF_BOUNDS)
    if outside != OUT_OF_BOUNDS[0]:
        attributes["gatherOob"] = keyword("gather_oob", outside)
    b.add(REGULAR["pto.mgather"].make(ins, [out.value], attributes))


def scatter_memory(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """`tile.mscatter`: into a tensor by index; the result is the tensor itself."""
    ins = [b.tile(a).value for a in call.args[:2]]
    b.add(REGULAR["pto.mscatter"].make(ins, [whole(b, call.args[2])]))
    if var is not None:
        b.tensors[id(var)] = b.tensor(call.args[2])


def triangle(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`tile.tri`."""
    out = allocated(b, var)
    side = IntegerAttr(int(bool(call.kwargs.get("upper", False))), IntegerType(32))
    b.add(REGULAR["pto.ttri"].make([scalar(b, call.args[0], dtypes.INT32)], [out.value], {"upperOrLower": side}))


def merge_lists(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`tile.mrgsort_format2`: the counts that the device gives back go nowhere."""
    out = allocated(b, var)
    type_ = VectorType(IntegerType(16), [4])
    counts = b.value(ConstantOp(DenseIntOrFPElementsAttr.from_list(type_, [0])), "executed_vec")
    exhausted = {"exhausted": flag(bool(call.kwargs.get("exhausted", False)))}
    ins = [b.tile(a).value for a in call.args]
    b.add(REGULAR["pto.tmrgsort"].make(ins, [out.value, counts], exhausted))


def random_words(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """`tile.random`: a key of two words and a counter of four."""
    if int(call.kwargs.get("rounds", 10)) != 10:
        b.refuse(f"`rounds={call.kwargs['rounds']}` has no form in .pto text: it draws in 10 rounds")
    out = allocated(b, var)
    words = [scalar(b, word, dtypes.INT32) for word in call.args[:6]]
    b.add(REGULAR["pto.trandom"].make(words, [out.value]))


def gather_row(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """`tile.gather_row`: from global memory straight into a window of a tile.

    The window has whole boxes where the tile is boxed; how much of it is loaded is its valid part, which alone has to
    lie inside the tile. Transposed, the tensor is seen with its axes swapped.
    """
    target = tiles.into_first(b, call, var)
    corner, source_corner = elements(call.args[2], b), elements(call.args[3], b)
    shape = constant_dims(elements(call.args[4], b))
    if shape is None or len(shape) != 2 or len(corner) != 2 or len(source_corner) != 2:
        b.refuse("rows and columns that are gathered are a constant matrix")
    given = call.args[5] if len(call.args) > 5 else None
    sizes = [index(b, extent) for extent in (elements(call.args[4], b) if given is None else elements(given, b))]
    if call.kwargs.get("transpose"):
        if given is not None:
            b.refuse("a transposed gather takes its whole window")
        shape, source_corner, sizes = shape[::-1], source_corner[::-1], sizes[::-1]
        pview = window_of(b, transposed(b, call.args[1]), source_corner, sizes, "gather_pview")
    else:
        pview = window(b, call.args[1], source_corner, sizes, "gather_pview")
    place = tiles.loaded_window(b, target, corner, (shape[0], shape[1]), (sizes[0], sizes[1]))
    b.add(REGULAR["pto.tload"].make([pview], [place.value]))


def gather_compare(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """`tile.gather_compare`: the columns that compare true, and how many; both results are tiles with an address."""
    source, scratch = b.tile(call.args[0]), b.tile(call.args[2])
    parts = {
        node.value.index: node.var
        for node in walk(b.function)
        if isinstance(node, n.Assign) and isinstance(node.value, n.TupleGetItem) and node.value.tuple is var
    }
    if set(parts) != {0, 1}:
        b.refuse("columns and counts both need a variable, and so an address")
    value = scalar(b, call.args[1], getattr(call.args[0].type, "dtype", None))
    outs = [allocated(b, parts[0]), allocated(b, parts[1])]
    attributes: dict[str, Attribute] = {
        "cmpMode": keyword("cmp", CMP_TYPES[int(call.kwargs.get("cmp_mode", 0))]),
        "offset": IntegerAttr(int(call.kwargs.get("offset", 0)), IntegerType(32)),
    }
    b.add(REGULAR["pto.tgather"].make([source.value, value, scratch.value], [out.value for out in outs], attributes))
