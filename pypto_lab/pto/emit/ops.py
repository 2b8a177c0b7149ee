"""IR ops as `.pto` ops: one table. Ops of the regular form come from the op records; the others are listed here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerType, StringAttr
from xdsl.ir import Attribute, Block, Region, SSAValue

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import CAST_MODES, CMP_TYPES, MaskPattern
from pypto_lab.ir.types import ScalarType, TileType
from pypto_lab.ops import OPS
from pypto_lab.ops.record import Op
from pypto_lab.pto.dialect.attributes import keyword
from pypto_lab.pto.dialect.operations import REGULAR
from pypto_lab.pto.dialect.table import TABLE
from pypto_lab.pto.dialect.verify import row_major
from pypto_lab.pto.emit import events, pipes, rare, tensors, tiles
from pypto_lab.pto.emit.builder import Builder, Tile
from pypto_lab.pto.emit.scalars import convert, scalar
from pypto_lab.pto.emit.tiles import allocated

Emitter = Callable[[Builder, n.OpCall, Any], None]

TYPE_ONLY = frozenset({"dtype", "target_type", "target_memory", "output_dtype", "pad_value", "blayout", "slayout"})
"""Attributes that the result's type already says."""


# --- the regular form -------------------------------------------------------------------------------------------------


def _operand(b: Builder, expr: n.Expr) -> SSAValue:
    """A tile or a scalar."""
    if isinstance(expr.type, TileType):
        return b.tile(expr).value
    if isinstance(expr.type, ScalarType):
        return scalar(b, expr)
    b.refuse(f"an operand of type {type(expr.type).__name__} has no form in .pto text", span=expr.span)


def put(
    b: Builder, name: str, ins: Sequence[SSAValue], out: Tile, attributes: dict[str, Attribute] | None = None
) -> None:
    """A regular op. Raises LabError for operands the op does not take, E611 for tiles it cannot work in."""
    row = TABLE[name]
    least, most = row.counts()
    if len(ins) < least or (most is not None and len(ins) > most):
        b.refuse(f"{name} takes {least} to {most} inputs, not {len(ins)}")
    by_value = {tile.value: tile for tile in b.tiles.values()}
    places = [(value, i, False) for i, value in enumerate(ins)]
    for value, i, output in [*places, (out.value, 0, True)]:
        tile = out if output else by_value.get(value)
        operand = None if output else row.input_at(i)
        if operand is not None and ("t" if tile is not None else "s") not in operand.kinds:
            b.refuse(f"input {i + 1} of {name} is of another kind")
        if tile is not None and row.needs_row_major(i, output) and not row_major(tile.type):
            role = "output" if output else f"input {i + 1}"
            b.refuse(
                f"{name} works row by row, but its {role} is {tile.type.brief()}",
                code="E611",
                hint="the passes must move the tile to a row-major one first",
            )
    b.add(REGULAR[name].make(list(ins), [out.value], attributes))


def _unsaid(b: Builder, op: Op, call: n.OpCall, *said: str) -> None:
    """Refuses attributes that would be lost."""
    for attr in op.attrs:
        value = call.kwargs.get(attr.name, attr.default)
        if attr.name not in TYPE_ONLY and attr.name not in said and value != attr.default:
            b.refuse(f"`{attr.name}={value}` has no form in .pto text")


def regular(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """An op whose operands are its arguments in order."""
    op = OPS[call.op]
    _unsaid(b, op, call)
    out = _result(b, var)
    put(b, str(op.pto), [_operand(b, a) for a in call.args], out)


def _result(b: Builder, var: n.Var | None) -> Tile:
    if var is None:
        b.refuse("the result has no variable, so no address")
    return allocated(b, var)


# --- ops with attributes, or with other operands than their arguments -------------------------------------------------


def _picked(*places: int) -> Emitter:
    """Only some of the arguments are operands; the others say the type."""

    def emit(b: Builder, call: n.OpCall, var: n.Var) -> None:
        op = OPS[call.op]
        _unsaid(b, op, call)
        for place in places:
            if place >= len(call.args):
                b.refuse(f"the text needs `{op.args[place].name}`", hint="the passes give an op its working memory")
        out = _result(b, var)
        put(b, str(op.pto), [_operand(b, call.args[place]) for place in places], out)

    return emit


def _precise(kind: str) -> Emitter:
    def emit(b: Builder, call: n.OpCall, var: n.Var) -> None:
        op = OPS[call.op]
        _unsaid(b, op, call, "high_precision")
        precise = {"precisionType": keyword(kind, "high_precision")} if call.kwargs.get("high_precision") else {}
        out = _result(b, var)
        put(b, str(op.pto), [_operand(b, a) for a in call.args], out, precise)

    return emit


def _narrow_scalar(b: Builder, call: n.OpCall, var: n.Var) -> None:
    """Bit operations with a scalar take it as an i32."""
    out, ins = _result(b, var), []
    for argument in call.args:
        own = n.scalar_dtype(argument)
        value = _operand(b, argument)
        ins.append(value if own is None else convert(b, value, own, dtypes.INT32))
    put(b, str(OPS[call.op].pto), ins, out)


def _cast(b: Builder, call: n.OpCall, var: n.Var) -> None:
    mode = call.kwargs.get("mode", "round")
    word = (CAST_MODES[mode] if isinstance(mode, int) and mode < len(CAST_MODES) else str(mode)).upper()
    out = _result(b, var)
    put(b, "pto.tcvt", [_operand(b, call.args[0])], out, {"rmode": keyword("round_mode", word)})


def _compare(b: Builder, call: n.OpCall, var: n.Var) -> None:
    word = CMP_TYPES[int(call.kwargs.get("cmp_type", 0))]
    out = _result(b, var)
    put(b, str(OPS[call.op].pto), [_operand(b, a) for a in call.args], out, {"cmpMode": keyword("cmp", word)})


def _column_sum(b: Builder, call: n.OpCall, var: n.Var) -> None:
    attributes = {"isBinary": pipes.flag(True)} if len(call.args) > 1 else {}
    put(b, "pto.tcolsum", [_operand(b, a) for a in call.args], _result(b, var), attributes)


def _count_up(b: Builder, call: n.OpCall, var: n.Var) -> None:
    _unsaid(b, OPS["tile.ci"], call, "descending")
    dtype = getattr(var.type, "dtype", dtypes.INT32)
    out = _result(b, var)
    descending = {"descending": pipes.flag(bool(call.kwargs.get("descending", False)))}
    put(b, "pto.tci", [scalar(b, call.args[0], dtype)], out, descending)


def _move(b: Builder, call: n.OpCall, var: n.Var) -> None:
    source, target = b.tile(call.args[0]), allocated(b, var)
    if source.address == target.address and source.type.space == target.type.space and not source.view:
        b.refuse(f"`{var.name}` is a copy of a tile at its own address")
    put(b, "pto.tmov", [source.value], target)


def _gather_mask(b: Builder, call: n.OpCall, var: n.Var) -> None:
    pattern = MaskPattern(int(call.kwargs["mask_pattern"])).name
    attributes = _masked(pattern)
    put(b, "pto.tgather", [_operand(b, call.args[0])], _result(b, var), attributes)


def _masked(pattern: str) -> dict[str, Attribute]:
    return {"maskPattern": keyword("mask_pattern", pattern), "axis": StringAttr("row")}


def _scatter(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    put(b, "pto.tscatter", [_operand(b, a) for a in call.args[1:]], tiles.into_first(b, call, var))


def _scatter_mask(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    pattern = MaskPattern(int(call.kwargs["mask_pattern"])).name
    put(b, "pto.tscatter", [_operand(b, call.args[1])], tiles.into_first(b, call, var), _masked(pattern))


def _matmul_acc(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """In place. `init_cond` chooses the product alone: a literal at once, another at run time."""
    acc = tiles.into_first(b, call, var)
    factors = [_operand(b, a) for a in call.args[1:3]]
    condition = call.args[3] if len(call.args) > 3 else n.const(False)
    if isinstance(condition, (n.ConstBool, n.ConstInt)):
        _matmul_form(b, bool(condition.value), acc, factors)
        return
    own = scalar(b, condition)
    if own.type != IntegerType(1):
        b.refuse("`init_cond` is a boolean")
    regions = []
    for first in (True, False):
        block = Block()
        with b.inside(block):
            _matmul_form(b, first, acc, factors)
            b.add(scf.YieldOp())
        regions.append(Region(block))
    b.add(scf.IfOp(own, [], regions[0], regions[1]))


def _matmul_form(b: Builder, first: bool, acc: Tile, factors: list[SSAValue]) -> None:
    if first:
        put(b, "pto.tmatmul", factors, acc)
    else:
        put(b, "pto.tmatmul.acc", [acc.value, *factors], acc)


def _accumulated(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """Any other product that adds to its first argument."""
    acc = tiles.into_first(b, call, var)
    ins = [acc.value, *(_operand(b, a) for a in call.args[1:])]
    put(b, str(OPS[call.op].pto), ins, acc, _phase(call))


def _phase(call: n.OpCall) -> dict[str, Attribute]:
    phase = str(call.kwargs.get("acc_phase", "unspecified"))
    return {} if phase == "unspecified" else {"accPhase": keyword("acc_phase", phase)}


def _gemv(b: Builder, call: n.OpCall, var: n.Var) -> None:
    put(b, str(OPS[call.op].pto), [_operand(b, a) for a in call.args], _result(b, var), _phase(call))


def _merge_runs(b: Builder, call: n.OpCall, var: n.Var) -> None:
    source, length = call.args
    out = _result(b, var)
    ins = [_operand(b, source), scalar(b, length, dtypes.INT32)]
    put(b, "pto.tmrgsort", ins, out)


def _extract(b: Builder, call: n.OpCall, var: n.Var) -> None:
    out = _result(b, var)
    put(b, "pto.textract", [_operand(b, a) for a in call.args[:3]], out)


def _create(b: Builder, call: n.OpCall, var: n.Var) -> None:
    allocated(b, var)


def _nothing(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """The allocation of a variable says it all."""


IRREGULAR: dict[str, Emitter] = {
    "tile.alloc": _nothing,
    "tile.create": _create,
    "tile.load": tensors.load,
    "tile.store": tensors.store,
    "tile.read": tensors.read_tile,
    "tile.write": tensors.write_tile,
    "tensor.read": tensors.read,
    "tensor.write": tensors.write,
    "tensor.view": tensors.view,
    "tensor.dim": tensors.dim,
    "tile.reshape": tiles.reshape,
    "tile.transpose_view": tiles.reshape,
    "tile.reinterpret_view": tiles.reshape,
    "tile.slice": tiles.slice_,
    "tile.assemble": tiles.assemble,
    "tile.set_validshape": tiles.set_validshape,
    "tile.move": _move,
    "tile.extract": _extract,
    "tile.cast": _cast,
    "tile.cmp": _compare,
    "tile.cmps": _compare,
    "tile.div": _precise("div_precision"),
    "tile.log": _precise("log_precision"),
    "tile.recip": _precise("recip_precision"),
    "tile.full": _picked(1),
    "tile.expands": _picked(1),
    "tile.row_expand": _picked(1),
    "tile.col_expand": _picked(1),
    "tile.fillpad_expand": _picked(0),
    "tile.transpose": _picked(0, 3),
    "tile.col_sum": _column_sum,
    "tile.ci": _count_up,
    "tile.ands": _narrow_scalar,
    "tile.ors": _narrow_scalar,
    "tile.xors": _narrow_scalar,
    "tile.shls": _narrow_scalar,
    "tile.shrs": _narrow_scalar,
    "tile.gather_mask": _gather_mask,
    "tile.scatter": _scatter,
    "tile.scatter_mask": _scatter_mask,
    "tile.matmul_acc": _matmul_acc,
    "tile.matmul_mx_acc": _accumulated,
    "tile.gemv_acc": _accumulated,
    "tile.gemv": _gemv,
    "tile.gemv_bias": _gemv,
    "tile.mrgsort_format1": _merge_runs,
    "tile.mrgsort_format2": rare.merge_lists,
    "tile.mgather": rare.gather_memory,
    "tile.mscatter": rare.scatter_memory,
    "tile.tri": rare.triangle,
    "tile.tpush_to_aiv": pipes.push,
    "tile.tpush_to_aic": pipes.push,
    "tile.tpop_from_aiv": pipes.pop,
    "tile.tpop_from_aic": pipes.pop,
    "system.tfree_to_aiv": pipes.free,
    "system.tfree_to_aic": pipes.free,
    "system.aic_initialize_pipe": pipes.initialize_pipe,
    "system.aiv_initialize_pipe": pipes.initialize_pipe,
    "system.reserve_buffer": pipes.reserve_buffer,
    "system.import_peer_buffer": pipes.import_peer_buffer,
    "system.sync_set": events.event,
    "system.sync_wait": events.event,
    "system.set_ffts": events.set_ffts,
    "system.syncall": events.all_meet,
    "system.fence": events.fence,
    "system.cacheinvalid": events.drop_caches,
    "array.create": events.create_array,
    "array.get_element": events.get_element,
    "array.update_element": events.set_element,
    "tile.random": rare.random_words,
    "tile.gather_row": rare.gather_row,
    "tile.gather_compare": rare.gather_compare,
    "system.bar_v": pipes.barrier,
    "system.bar_m": pipes.barrier,
    "system.bar_all": pipes.barrier,
    "tile.get_block_idx": pipes.spmd_index,
    "tile.get_block_num": pipes.spmd_index,
    "tile.get_subblock_idx": pipes.spmd_index,
}
"""Ops that are not of the regular form."""

UNWRITTEN = frozenset({"tile.scatter_update", "tile.tget_scale_addr"})
"""Ops whose record names a regular `.pto` op, but whose operands are not the arguments: refused."""


def _table() -> dict[str, Emitter]:
    made: dict[str, Emitter] = {
        op.name: regular
        for op in OPS.ops.values()
        if op.pto in TABLE and op.namespace == "tile" and op.name not in UNWRITTEN
    }
    return made | IRREGULAR


EMITTERS: dict[str, Emitter] = _table()
"""How each IR op is written; ops that are not here are refused."""


def emit_call(b: Builder, call: n.OpCall, var: n.Var | None) -> None:
    """One op of the IR. Raises LabError for an op without a form in `.pto` text."""
    with b.at(call.span, call.op):
        if call.op not in EMITTERS:
            b.refuse("this op has no form in .pto text yet")
        EMITTERS[call.op](b, call, var)
