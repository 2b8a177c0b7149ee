"""Structural equality of types, expressions, functions and programs (language.md 1.6), and the first difference.

Definitions are paired in order; uses must follow that pairing. Names, spans, comments and memrefs do not count,
attributes are unordered maps, constants compare by value and dtype, views in their canonical form.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import CompactMode, PadValue, TensorLayout
from pypto_lab.ir.types import (
    ArrayType,
    HandleType,
    MemRef,
    ScalarType,
    ShapedType,
    TensorType,
    TileType,
    TupleType,
    Type,
    constant_dims,
    tile_layout,
)


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two things differ: `path` reads like `flash/body[3].value.args[1]`."""

    path: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.path}: {self.left} != {self.right}"


def types_equal(left: Type, right: Type, *, memrefs: bool = False) -> bool:
    """Whether two types say the same: a valid shape equal to the shape and implicit view fields do not count.

    Variables in dimensions are compared by identity; memrefs only when asked for.
    """
    return left is right or _Comparison(memrefs=memrefs).types(left, right)


def structurally_equal(left: Any, right: Any, *, memrefs: bool = False) -> bool:
    """Whether two programs, functions, statements or expressions have the same structure."""
    return first_difference(left, right, memrefs=memrefs) is None


def first_difference(left: Any, right: Any, *, memrefs: bool = False) -> Difference | None:
    """The first structural difference in source order, None when there is none.

    Variables without a definition on either side (free dimensions, lone expressions) are paired at their first use.
    """
    comparison = _Comparison(memrefs=memrefs, pair_free=True)
    comparison.any(left, right)
    return comparison.found


@dataclass
class _Comparison:
    memrefs: bool = False
    pair_free: bool = False
    found: Difference | None = None
    forward: dict[n.Var, n.Var] = field(default_factory=dict)
    backward: dict[n.Var, n.Var] = field(default_factory=dict)
    path: list[str] = field(default_factory=list)

    # --- machinery ---------------------------------------------------------------------------------------------------

    def differ(self, left: Any, right: Any) -> bool:
        if self.found is None:
            self.found = Difference("".join(self.path).lstrip("./") or "the root", _describe(left), _describe(right))
        return False

    def same(self, left: Any, right: Any, at: str) -> bool:
        if left == right or (_nan(left) and _nan(right)):
            return True
        self.path.append(at)
        self.differ(left, right)
        self.path.pop()
        return False

    def at(self, step: str, left: Any, right: Any) -> bool:
        self.path.append(step)
        equal = self.any(left, right)
        self.path.pop()
        return equal

    def sequence(self, step: str, left: Sequence[Any], right: Sequence[Any]) -> bool:
        if len(left) != len(right):
            return self.same(f"{len(left)} entries", f"{len(right)} entries", step)
        return all(self.at(f"{step}[{i}]", a, b) for i, (a, b) in enumerate(zip(left, right, strict=True)))

    def mapping(self, step: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
        if left.keys() != right.keys():
            return self.same(sorted(left), sorted(right), step)
        return all(self.at(f"{step}[{k!r}]", v, right[k]) for k, v in left.items())

    def define(self, left: n.Var | None, right: n.Var | None, at: str) -> bool:
        """Pairs two definitions; a variable defined again must meet its partner again."""
        if left is None or right is None:
            return self.same(left is None, right is None, at)
        if left in self.forward or right in self.backward:
            if self.forward.get(left) is right and self.backward.get(right) is left:
                return True
            self.path.append(at)
            self.differ(left, right)
            self.path.pop()
            return False
        self.forward[left], self.backward[right] = right, left
        return self.at(f"{at}.type", left.type, right.type)

    def any(self, left: Any, right: Any) -> bool:
        if left is right and isinstance(left, (n.Expr, Type)) and not self.pair_free:
            return True
        match left, right:
            case (n.Program(), n.Program()):
                return self.programs(left, right)
            case (n.Function(), n.Function()):
                return self.functions(left, right)
            case (n.Stmt(), n.Stmt()):
                return self.stmts(left, right)
            case (n.Expr(), n.Expr()):
                return self.exprs(left, right)
            case (Type(), Type()):
                return self.types(left, right)
            case (list() | tuple(), list() | tuple()):
                return self.sequence("", left, right)
            case (Mapping(), Mapping()):
                return self.mapping("", left, right)
        if type(left) is type(right) and (left == right or (_nan(left) and _nan(right))):
            return True
        return self.differ(left, right)

    # --- programs ----------------------------------------------------------------------------------------------------

    def programs(self, left: n.Program, right: n.Program) -> bool:
        if left.functions.keys() != right.functions.keys():
            return self.same(list(left.functions), list(right.functions), "functions")
        return all(self.at(f"/{name}", f, right.functions[name]) for name, f in left.functions.items())

    def functions(self, left: n.Function, right: n.Function) -> bool:
        if len(left.params) != len(right.params):
            return self.same(f"{len(left.params)} parameters", f"{len(right.params)} parameters", "")
        pairs = list(zip(left.params, right.params, strict=True))
        for a, b in pairs:  # a parameter's type may name a later parameter
            if a.var not in self.forward and b.var not in self.backward:
                self.forward[a.var], self.backward[b.var] = b.var, a.var
        for i, (a, b) in enumerate(pairs):
            step = f".params[{i}]"
            if not (
                self.same(a.direction, b.direction, f"{step}.direction")
                and self.at(step, a.var, b.var)
                and self.at(f"{step}.type", a.type, b.type)
            ):
                return False
        facts = ("func_type", "level", "role", "auto_scope", "external_source", "has_self")
        return (
            all(self.same(getattr(left, f), getattr(right, f), f".{f}") for f in facts)
            and self.mapping(".attrs", left.attrs, right.attrs)
            and self.sequence(".returns", left.return_types, right.return_types)
            and self.same(left.body is None, right.body is None, ".body")
            and self.sequence("/body", left.body or (), right.body or ())
        )

    # --- statements --------------------------------------------------------------------------------------------------

    def stmts(self, left: n.Stmt, right: n.Stmt) -> bool:
        if type(left) is not type(right):
            return self.differ(left, right)
        match left, right:
            case (n.Assign(), n.Assign()):
                return self.at(".value", left.value, right.value) and self.define(left.var, right.var, ".var")
            case (n.Eval(), n.Eval()):
                return self.at(".expr", left.expr, right.expr)
            case (n.If(), n.If()):
                return (
                    self.at(".condition", left.condition, right.condition)
                    and self.sequence("/then", left.then_body, right.then_body)
                    and self.sequence("/else", left.else_body, right.else_body)
                    and self.defines(".return_vars", left.return_vars, right.return_vars)
                )
            case (n.For(), n.For()):
                return self.loops(left, right)
            case (n.While(), n.While()):
                return (
                    self.iter_args(left.iter_args, right.iter_args)
                    and self.at(".condition", left.condition, right.condition)
                    and self.sequence("/body", left.body, right.body)
                    and self.defines(".return_vars", left.return_vars, right.return_vars)
                )
            case (n.Yield() | n.Return(), n.Yield() | n.Return()):
                return self.sequence(".values", left.values, right.values)
            case (n.InlineText(), n.InlineText()):
                return self.same(left.text, right.text, ".text")
            case (n.Scope(), n.Scope()):
                return self.scopes(left, right)
        return True

    def loops(self, left: n.For, right: n.For) -> bool:
        return (
            self.same(left.kind, right.kind, ".kind")
            and self.at(".start", left.start, right.start)
            and self.at(".stop", left.stop, right.stop)
            and self.at(".step", left.step, right.step)
            and self.mapping(".attrs", left.attrs, right.attrs)
            and self.define(left.loop_var, right.loop_var, ".loop_var")
            and self.iter_args(left.iter_args, right.iter_args)
            and self.sequence("/body", left.body, right.body)
            and self.defines(".return_vars", left.return_vars, right.return_vars)
        )

    def iter_args(self, left: Sequence[n.IterArg], right: Sequence[n.IterArg]) -> bool:
        inits = [a.init_value for a in left], [b.init_value for b in right]
        return self.sequence(".init_values", *inits) and self.defines(".iter_args", left, right)

    def defines(self, step: str, left: Sequence[n.Var], right: Sequence[n.Var]) -> bool:
        if len(left) != len(right):
            return self.same(f"{len(left)} entries", f"{len(right)} entries", step)
        return all(self.define(a, b, f"{step}[{i}]") for i, (a, b) in enumerate(zip(left, right, strict=True)))

    def scopes(self, left: n.Scope, right: n.Scope) -> bool:
        facts = ("split", "level", "role", "sync_start", "count", "manual")
        return (
            all(self.same(getattr(left, f, None), getattr(right, f, None), f".{f}") for f in facts)
            and self.at(".core_num", getattr(left, "core_num", None), getattr(right, "core_num", None))
            and self.mapping(".attrs", left.attrs, right.attrs)
            and self.define(left.task_id, right.task_id, ".task_id")
            and self.define(getattr(left, "loop_var", None), getattr(right, "loop_var", None), ".loop_var")
            and self.define(getattr(left, "lane_var", None), getattr(right, "lane_var", None), ".lane_var")
            and self.sequence("/body", left.body, right.body)
        )

    # --- expressions -------------------------------------------------------------------------------------------------

    def exprs(self, left: n.Expr, right: n.Expr) -> bool:
        if isinstance(left, n.Var) and isinstance(right, n.Var):
            return self.uses(left, right)
        if type(left) is not type(right):
            return self.differ(left, right)
        match left, right:
            case (n.ConstInt() | n.ConstFloat() | n.ConstBool(), n.ConstInt() | n.ConstFloat() | n.ConstBool()):
                equal = self.same(left.value, right.value, "")
                return equal and self.same(n.scalar_dtype(left), n.scalar_dtype(right), ".dtype")
            case (n.MakeTuple(), n.MakeTuple()):
                return self.sequence("", left.elements, right.elements)
            case (n.TupleGetItem(), n.TupleGetItem()):
                return self.same(left.index, right.index, ".index") and self.at(".tuple", left.tuple, right.tuple)
            case (n.Binary(), n.Binary()):
                return (
                    self.same(left.op, right.op, "")
                    and self.at(".left", left.left, right.left)
                    and self.at(".right", left.right, right.right)
                )
            case (n.Unary(), n.Unary()):
                target = left.op != "Cast" or self.same(n.scalar_dtype(left), n.scalar_dtype(right), ".dtype")
                return target and self.same(left.op, right.op, "") and self.at(".operand", left.operand, right.operand)
            case (n.OpCall(), n.OpCall()):
                return (
                    self.same(left.op, right.op, "")
                    and self.sequence(".args", left.args, right.args)
                    and self.mapping(".kwargs", left.kwargs, right.kwargs)
                    and self.mapping(".attrs", left.attrs, right.attrs)
                )
            case (n.FunctionCall(), n.FunctionCall()):
                return (
                    self.same(left.callee, right.callee, "")
                    and self.sequence(".args", left.args, right.args)
                    and self.mapping(".attrs", left.attrs, right.attrs)
                )
            case (n.Submit(), n.Submit()):
                return self.submits(left, right)
        return self.differ(left, right)

    def submits(self, left: n.Submit, right: n.Submit) -> bool:
        return (
            self.same(left.callee, right.callee, "")
            and self.sequence(".args", left.args, right.args)
            and self.sequence(".deps", left.deps, right.deps)
            and self.sequence(".dumps", left.dumps, right.dumps)
            and self.at(".core_num", left.core_num, right.core_num)
            and self.same(left.sync_start, right.sync_start, ".sync_start")
            and self.same(left.allow_early_resolve, right.allow_early_resolve, ".allow_early_resolve")
            and self.at(".predicate", left.predicate, right.predicate)
            and self.mapping(".attrs", left.attrs, right.attrs)
        )

    def uses(self, left: n.Var, right: n.Var) -> bool:
        partner = self.forward.get(left)
        if partner is not None or right in self.backward:
            return partner is right or self.differ(left, right)
        if not self.pair_free:
            return left is right or self.differ(left, right)
        self.forward[left], self.backward[right] = right, left
        return self.at(".type", left.type, right.type)

    # --- types -------------------------------------------------------------------------------------------------------

    def types(self, left: Type, right: Type) -> bool:
        if type(left) is not type(right):
            return self.differ(left, right)
        match left, right:
            case (ScalarType(), ScalarType()):
                return self.same(left.dtype, right.dtype, ".dtype")
            case (TensorType(), TensorType()):
                return self.shaped(left, right) and self.tensor_views(left, right)
            case (TileType(), TileType()):
                return (
                    self.shaped(left, right)
                    and self.same(left.memory_space, right.memory_space, ".memory_space")
                    and self.tile_views(left, right)
                )
            case (ArrayType(), ArrayType()):
                return self.same(left.dtype, right.dtype, ".dtype") and self.at(".extent", left.extent, right.extent)
            case (TupleType(), TupleType()):
                return self.sequence("", left.elements, right.elements)
            case (HandleType(), HandleType()):
                return self.same(left.name, right.name, "")
        return True

    def shaped(self, left: ShapedType, right: ShapedType) -> bool:
        return (
            self.same(left.dtype, right.dtype, ".dtype")
            and self.sequence(".shape", left.shape, right.shape)
            and self.sequence(".valid_shape", _valid(left), _valid(right))
            and (not self.memrefs or self.same_memref(left, right))
        )

    def same_memref(self, left: ShapedType, right: ShapedType) -> bool:
        a: MemRef | None = getattr(left, "memref", None)
        b: MemRef | None = getattr(right, "memref", None)
        if a is None or b is None:
            return self.same(a is None, b is None, ".memref")
        return (
            self.at(".memref.base", a.base, b.base)
            and self.at(".memref.offset", a.offset, b.offset)
            and self.same((a.size, a.slots), (b.size, b.slots), ".memref.size")
            and self.at(".memref.slot", a.slot, b.slot)
            and self.at(".memref.legacy", a.legacy, b.legacy)
        )

    def tensor_views(self, left: TensorType, right: TensorType) -> bool:
        a, b = _tensor_view(left), _tensor_view(right)
        return (
            self.same(left.distributed, right.distributed, ".distributed")
            and self.same(a[:2], b[:2], ".view")
            and self.sequence(".view.stride", a[2], b[2])
        )

    def tile_views(self, left: TileType, right: TileType) -> bool:
        a, b = left.view, right.view
        pads = [PadValue.null if v is None or v.pad is None else v.pad for v in (a, b)]
        compact = [CompactMode.null if v is None or v.compact is None else v.compact for v in (a, b)]
        return (
            self.same(tile_layout(left), tile_layout(right), ".layout")
            and self.same(pads[0], pads[1], ".pad")
            and self.same(compact[0], compact[1], ".compact")
            and self.sequence(".stride", (a and a.stride) or (), (b and b.stride) or ())
            and self.at(".start_offset", a and a.start_offset, b and b.start_offset)
        )


def _valid(type_: ShapedType) -> tuple[n.Expr, ...]:
    """The stated valid shape, () when it is the whole box."""
    stated = type_.stated_valid
    if stated is None or len(stated) != len(type_.shape):
        return stated or ()
    if all(a is b or arith.same(a, b) for a, b in zip(stated, type_.shape, strict=True)):
        return ()
    return stated


def _tensor_view(type_: TensorType) -> tuple[TensorLayout, PadValue, tuple[n.Expr, ...]]:
    """Layout, pad and strides of a tensor; packed row-major strides count as unstated."""
    view = type_.view
    if view is None:
        return TensorLayout.ND, PadValue.null, ()
    layout = view.layout or TensorLayout.ND
    stride = view.stride or ()
    if layout is TensorLayout.ND and stride and constant_dims(stride) == _packed(type_):
        stride = ()
    return layout, view.pad or PadValue.null, stride


def _packed(type_: ShapedType) -> tuple[int, ...] | None:
    dims = constant_dims(type_.shape)
    return None if dims is None else tuple(math.prod(dims[i + 1 :]) for i in range(len(dims)))


def _nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _describe(value: Any) -> str:
    from pypto_lab.ir import printer  # the printer is only needed to name a difference

    match value:
        case n.Expr():
            return printer.print_expr(value)
        case n.Stmt():
            return printer.print_stmt(value).split("\n", 1)[0]
        case Type():
            return printer.print_type(value)
        case n.Function() | n.Program():
            return f"{type(value).__name__} {value.name}"
    return str(value)
