"""Binding a call's arguments to an op's parameters, and converting them to IR arguments and canonical attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, IntEnum
from typing import Any

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Label, OpError, did_you_mean
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import (
    CAST_MODES,
    CMP_TYPES,
    AtomicType,
    MemorySpace,
    PadValue,
    PipeType,
    SplitMode,
    TensorLayout,
    TileLayout,
)
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import (
    ArrayType,
    ScalarType,
    ShapedType,
    TensorType,
    TileType,
    TupleType,
    Type,
)
from pypto_lab.ops.calling import Actual, Call, DispatchError, describe
from pypto_lab.ops.record import OPS, REQUIRED, Arg, Attr, Op, Operands

PARAMETER_ORDER: Mapping[str, tuple[str, ...]] = {
    "tensor.gather": ("input", "dim", "index"),
    "tensor.scatter": ("input", "dim", "index", "src"),
    "tensor.full": ("shape", "dtype", "value"),
    "tile.full": ("shape", "dtype", "value"),
    "tile.tri": ("diagonal", "shape", "valid_shape", "dtype", "upper"),
    "tile.mgather": ("mem", "idx", "coalesce", "gather_oob", "target_memory", "scratch", "valid_shape"),
    "tensor.matmul_acc": ("acc", "lhs", "rhs", "a_trans", "b_trans", "init_cond"),
    "tensor.gather_row": ("acc", "src", "dst_offset", "src_offset", "shapes", "transpose", "valid_shape"),
    "tile.gather_row": ("dst", "src", "dst_offset", "src_offset", "shapes", "transpose", "valid_shape"),
}
"""The order users pass parameters in where a record does not say it (`reference/op_signatures.tsv`)."""

_POSITION_NAMES: tuple[frozenset[str], ...] = (
    frozenset(
        [
            "input",
            "tensor",
            "tile",
            "src",
            "lhs",
            "src0",
            "value",
            "data",
            "target",
            "x",
            "dst",
            "acc",
            "src_tile",
            "dist_tensor",
            "signal",
        ]
    ),
    frozenset(["rhs", "src1", "row_vec", "col_vec", "scalar", "idx", "index", "indices", "other"]),
)
"""Further keyword names users know the first and second parameter by (unified and layered spellings differ)."""

_LITERAL_OPERANDS = frozenset({"rhs", "scalar", "rhs2", "slope", "value", "lhs"})
_TEMPORARY_NAMES = frozenset({"tmp", "tmp_tile"})


def scalar_variant(call: Call, op: Op) -> Op:
    """`adds` for `add` when the right operand is a scalar."""
    if op.scalar_form is None or len(op.args) < 2:
        return op
    right = call.actuals[1] if len(call.actuals) > 1 else _by_keyword(call, op.args[1], 1)
    scalar = right is not None and isinstance(right.type, ScalarType)
    return OPS.get(op.scalar_form) or op if scalar else op


def _by_keyword(call: Call, parameter: Arg | Attr, position: int) -> Actual | None:
    return next((a for k, a in call.keywords.items() if _is_named(parameter, k, position)), None)


def _is_named(parameter: Arg | Attr, keyword: str, position: int) -> bool:
    if keyword in (parameter.name, parameter.dsl_name):
        return True
    if keyword in _TEMPORARY_NAMES and parameter.name in _TEMPORARY_NAMES:
        return True
    if not isinstance(parameter, Arg):
        return False
    return position < len(_POSITION_NAMES) and keyword in _POSITION_NAMES[position]


def parameters(op: Op) -> tuple[Arg | Attr, ...]:
    """The op's parameters in the order users pass them."""
    order = PARAMETER_ORDER.get(op.name)
    if op.dsl_order is not None or order is None:
        return op.parameters
    by_name: dict[str, Arg | Attr] = {p.name: p for p in op.args}
    by_name.update((p.name, p) for p in op.attrs)
    named = [by_name.pop(name) for name in order if name in by_name]
    return (*named, *by_name.values())


Bound = dict[str, Actual]


def bind(call: Call, op: Op) -> Bound:
    """Arguments by parameter name. Raises DispatchError for too many, unknown, doubled or missing ones."""
    params = parameters(op)
    bound: Bound = {}
    if len(call.actuals) > len(params) and not op.variadic:
        raise _too_many(call, op, params)
    for parameter, actual in zip(params, call.actuals, strict=False):
        bound[parameter.name] = actual
    for keyword, actual in call.keywords.items():
        found = _keyword_parameter(call, op, params, keyword, actual)
        if found is None:
            continue
        if found.name in bound:
            raise call.fail("E314", f"`{call.path}` got `{keyword}` twice", actual.span)
        bound[found.name] = actual
    bound = {name: a for name, a in bound.items() if not _is_left_out(a)}
    _check_required(call, op, params, bound)
    return bound


def _is_left_out(actual: Actual) -> bool:
    return actual.value is None


def _too_many(call: Call, op: Op, params: Sequence[Arg | Attr]) -> DispatchError:
    extra = call.actuals[len(params)]
    if isinstance(extra.type, TileType) and _counterpart(op, "tmp") is not None:
        return _no_temporary(call, extra)
    return call.fail(
        "E314",
        f"`{call.path}` takes {len(params)} arguments, got {len(call.actuals)}",
        extra.span,
        hint=signature(op, call.path),
    )


def _keyword_parameter(
    call: Call, op: Op, params: Sequence[Arg | Attr], keyword: str, actual: Actual
) -> Arg | Attr | None:
    for parameter in params:
        if keyword in (parameter.name, parameter.dsl_name):
            return parameter
    for position, parameter in enumerate(params):
        if _is_named(parameter, keyword, position):
            return parameter
    if keyword == "span" or _is_left_out(actual) or _is_ignored(op, keyword, actual):
        return None
    raise _unknown_keyword(call, op, params, keyword, actual)


def _unknown_keyword(call: Call, op: Op, params: Sequence[Arg | Attr], keyword: str, actual: Actual) -> DispatchError:
    if keyword in _TEMPORARY_NAMES and op.namespace == "tensor":
        return _no_temporary(call, actual)
    other = _counterpart(op, keyword)
    if other is not None:
        this, that = op.namespace, other.namespace
        hint = "transpose the operand first: `pl.tile.transpose_view(t)`" if keyword in ("a_trans", "b_trans") else None
        return call.fail("E313", f"`{keyword}` is for {that}s only, `{call.path}` got a {this}", actual.span, hint=hint)
    hint = did_you_mean(keyword, [p.dsl_name or p.name for p in params]) or signature(op, call.path)
    return call.fail("E314", f"`{call.path}` has no parameter `{keyword}`", actual.span, hint=hint)


def _counterpart(op: Op, keyword: str) -> Op | None:
    """The op of the same name in the other layer, if that one knows the keyword."""
    other = {"tensor": "tile", "tile": "tensor"}.get(op.namespace)
    found = OPS.get(f"{other}.{op.short_name}") if other else None
    if found is None:
        return None
    known = any(_is_named(p, keyword, len(_POSITION_NAMES)) for p in found.parameters)
    return found if known else None


def _is_ignored(op: Op, keyword: str, actual: Actual) -> bool:
    """A keyword of the other layer that changes nothing: its default, or the `out_dtype` of a tile product (which is
    the accumulator's in any case)."""
    other = _counterpart(op, keyword)
    attr = None if other is None else other.attr(keyword)
    if attr is None:
        return False
    value = actual.value.value if isinstance(actual.value, n.ConstBool) else actual.value
    return keyword == "out_dtype" or (isinstance(value, bool) and value == attr.default)


def _check_ignored(call: Call, op: Op, type_: Type) -> None:
    """E313 for an `out_dtype` that a tile product does not have."""
    stated = call.keywords.get("out_dtype")
    if stated is None or op.attr("out_dtype") is not None or not isinstance(type_, ShapedType):
        return
    if isinstance(stated.value, DType) and stated.value != type_.dtype:
        hint = f"leave it out, and cast when storing; the accumulator holds {type_.dtype}"
        raise call.fail("E313", f"`{call.path}` of tiles gives {type_.dtype}", stated.span, hint=hint)


def _no_temporary(call: Call, actual: Actual) -> DispatchError:
    return call.fail(
        "E312",
        f"`{call.path}` of a tensor takes no temporary tile",
        actual.span,
        hint="leave it out: the compiler allocates scratch for tensor reductions itself",
    )


def _check_required(call: Call, op: Op, params: Sequence[Arg | Attr], bound: Bound) -> None:
    for parameter in params:
        if parameter.name in bound or parameter.default is not REQUIRED or parameter.name in _DERIVED.get(op.name, {}):
            continue
        if parameter.name in _TEMPORARY_NAMES:
            raise _needs_temporary(call, op, bound)
        name = parameter.dsl_name or parameter.name
        raise call.fail("E314", f"`{call.path}` needs `{name}`", hint=signature(op, call.path))


def _needs_temporary(call: Call, op: Op, bound: Bound) -> DispatchError:
    operand = bound.get(op.args[0].name)
    line = "tmp = pl.create_tile([rows, cols], dtype=..., target_memory=pl.Mem.Vec)"
    if operand is not None and isinstance(operand.type, TileType):
        dims = ", ".join(str(getattr(d, "value", getattr(d, "name", "..."))) for d in operand.type.shape)
        line = f"tmp = pl.create_tile([{dims}], dtype={operand.type.dtype}, target_memory=pl.Mem.Vec)"
    return call.fail(
        "E312", f"`{call.path}` of a tile needs a temporary tile", hint=f"add `{line}` and pass `tmp_tile=tmp`"
    )


def signature(op: Op, path: str) -> str:
    """The call as a line of help."""
    parts = []
    for parameter in parameters(op):
        name = parameter.dsl_name or parameter.name
        parts.append(name if parameter.default is REQUIRED else f"{name}={_default_text(parameter.default)}")
    return f"{path}({', '.join(parts)})"


def _default_text(default: Any) -> str:
    if isinstance(default, Enum):
        return default.name
    if isinstance(default, n.Expr):
        return str(getattr(default, "value", "..."))
    return repr(default)


# --- building the call ------------------------------------------------------------------------------------------------


# --- building the call ------------------------------------------------------------------------------------------------


def typed(call: Call, op: Op, bound: Bound, args: tuple[n.Expr, ...], kwargs: dict[str, Any]) -> n.OpCall:
    """The finished call. Raises DispatchError with what the op's type rule refuses."""
    try:
        type_ = op.infer(Operands(op, _padded(op, args), _with_defaults(op, kwargs)))
    except OpError as error:
        raise _from_op_error(call, op, bound, error) from None
    _check_ignored(call, op, type_)
    return n.OpCall(op=op.name, args=args, kwargs=kwargs, attrs=dict(call.attrs), type=type_, span=call.span)


def _padded(op: Op, args: tuple[n.Expr, ...]) -> tuple[n.Expr | None, ...]:
    return (*args, *[None] * max(0, len(op.args) - len(args)))


def _with_defaults(op: Op, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {**{a.name: a.default for a in op.attrs if a.default is not REQUIRED}, **kwargs}


def _load_shape(bound: Bound) -> Actual | None:
    """A load without `valid_shape` reads its whole box."""
    return bound.get("shapes")


def _no_buffer(_: Bound) -> Actual:
    """A pipe without one direction gets 0 for that direction's buffer."""
    return Actual(n.const(0, dtypes.INT32))


_PIPE_BUFFERS = {"c2v_consumer_buf": _no_buffer, "v2c_consumer_buf": _no_buffer}
_DERIVED: Mapping[str, Mapping[str, Callable[[Bound], Actual | None]]] = {
    "tile.load": {"valid_shape": _load_shape},
    "system.aic_initialize_pipe": _PIPE_BUFFERS,
    "system.aiv_initialize_pipe": _PIPE_BUFFERS,
}
"""Arguments that stand for something else when they are left out."""


def derived(op: Op, bound: Bound) -> Bound:
    found = {name: derive(bound) for name, derive in _DERIVED.get(op.name, {}).items() if name not in bound}
    return {name: actual for name, actual in found.items() if actual is not None}


def arguments(call: Call, op: Op, bound: Bound) -> tuple[n.Expr, ...]:
    """IR arguments in IR order. A missing optional list before a given argument is an empty list; missing tiles
    close up (`mrgsort` of two or three runs)."""
    last = max((i for i, a in enumerate(op.args) if a.name in bound or _default_expr(a) is not None), default=-1)
    args: list[n.Expr] = []
    for arg in op.args[: last + 1]:
        actual = bound.get(arg.name)
        if actual is not None:
            args.append(_argument(call, op, arg, actual, bound))
        elif (default := _default_expr(arg)) is not None:
            args.append(default)
        elif arg.kind == "ints":
            args.append(n.MakeTuple(elements=(), type=TupleType(()), span=call.span))
    if op.variadic:
        args.extend(a.value for a in call.actuals[len(parameters(op)) :] if isinstance(a.value, n.Expr))
    return tuple(args)


def _default_expr(arg: Arg) -> n.Expr | None:
    if isinstance(arg.default, n.Expr):
        return arg.default
    if isinstance(arg.default, (bool, int, float)):
        return n.const(arg.default)
    return None


def _argument(call: Call, op: Op, arg: Arg, actual: Actual, bound: Bound) -> n.Expr:
    value = actual.value
    if not isinstance(value, n.Expr):
        raise _wrong_kind(call, arg, actual)
    if isinstance(value, (n.ConstInt, n.ConstFloat)):
        value = _literal(op, arg, value, bound)
    if arg.kind == "ints" and arg.name == "indices" and isinstance(value.type, ScalarType):
        return n.MakeTuple(elements=(value,), type=TupleType((value.type,)), span=value.span)
    fits = _KINDS.get(arg.kind)
    if fits is not None and not fits(value):
        raise _wrong_kind(call, arg, actual)
    return value


_KINDS: Mapping[str, Callable[[n.Expr], bool]] = {
    "tensor": lambda e: isinstance(e.type, TensorType),
    "tile": lambda e: isinstance(e.type, TileType),
    "shaped": lambda e: isinstance(e.type, ShapedType),
    "scalar": lambda e: isinstance(e.type, ScalarType),
    "bool": lambda e: isinstance(e.type, ScalarType),
    "task": lambda e: isinstance(e.type, (ScalarType, ArrayType)),
    "array": lambda e: isinstance(e.type, ArrayType),
    "ints": lambda e: isinstance(e, n.MakeTuple) or isinstance(e.type, TupleType),
}
_KIND_WORDS = {
    "tensor": "a Tensor",
    "tile": "a Tile",
    "shaped": "a Tensor or Tile",
    "scalar": "a scalar",
    "bool": "a condition",
    "task": "a TASK_ID",
    "array": "an Array",
    "ints": "a list such as `[0, 0]`",
    "value": "a value",
    "handle": "a handle",
}


def _wrong_kind(call: Call, arg: Arg, actual: Actual) -> DispatchError:
    wanted = _KIND_WORDS.get(arg.kind, f"a {arg.kind}")
    name = arg.dsl_name or arg.name
    hint = None
    if arg.kind == "tile" and isinstance(actual.type, TensorType):
        hint = "load it first: `pl.load(x, offsets, shape)`"
    elif arg.kind == "tensor" and isinstance(actual.type, TileType):
        hint = "this parameter takes a tensor in global memory"
    return call.fail("E315", f"`{name}` of `{call.path}` is {wanted}, not {describe(actual)}", actual.span, hint=hint)


def _literal(op: Op, arg: Arg, value: n.ConstInt | n.ConstFloat, bound: Bound) -> n.Expr:
    """A Python number takes the dtype of the integer operand it meets; to a float operand it is FP32."""
    if value.type is not n.INDEX and not (isinstance(value, n.ConstFloat) and value.type is n.FP32):
        return value
    if op.name.endswith("mrgsort_format1") and arg.name == "block_len":
        return n.const(value.value, dtypes.INT32, value.span)
    if arg.name == "start" and (dtype := bound.get("dtype")) is not None and isinstance(dtype.value, DType):
        return n.const(value.value, dtype.value, value.span)
    if arg.name == "start":
        declared = op.attr("dtype")
        default = declared.default if declared is not None else None
        return n.const(value.value, default, value.span) if isinstance(default, DType) else value
    if arg.kind not in ("scalar", "value") or arg.name not in _LITERAL_OPERANDS:
        return value
    operand = bound.get(op.args[0].name)
    target = _literal_dtype(operand, bound)
    if target is None or isinstance(value, n.ConstFloat):
        return value
    return n.const(float(value.value) if target.is_float else value.value, target, value.span)


def _literal_dtype(operand: Actual | None, bound: Bound) -> DType | None:
    stated = bound.get("dtype")
    found: DType | None = None
    if operand is not None and isinstance(operand.type, ShapedType):
        found = operand.type.dtype
    elif stated is not None and isinstance(stated.value, DType):
        found = stated.value
    if found is None:
        return None
    return dtypes.FP32 if found.is_float else found


def attributes(call: Call, op: Op, bound: Bound) -> dict[str, Any]:
    kwargs: dict[str, Any] = {}
    for attr in op.attrs:
        actual = bound.get(attr.name)
        if actual is not None:
            value = _attribute(call, attr, actual)
            if attr.printed or value != attr.default:
                kwargs[attr.name] = value
        elif attr.name == "split" and call.split is not None and attr.default in (REQUIRED, None, 0):
            kwargs[attr.name] = int(call.split)
        elif attr.printed and attr.default is not REQUIRED and attr.default is not None:
            kwargs[attr.name] = attr.default
    return kwargs


def _attribute(call: Call, attr: Attr, actual: Actual) -> Any:
    """The canonical value of an attribute. Raises DispatchError."""
    value = actual.value
    if isinstance(value, (n.ConstInt, n.ConstFloat, n.ConstBool)):
        value = value.value
    elif isinstance(value, n.Unary) and value.op == "Neg" and isinstance(value.operand, (n.ConstInt, n.ConstFloat)):
        value = -value.operand.value
    convert = _ATTRIBUTES.get(attr.kind)
    result = value if convert is None else convert(value)
    if result is None:
        raise _bad_attribute(call, attr, actual)
    return result


def _as_int(value: Any) -> int | None:
    if isinstance(value, (IntEnum, SplitMode, AtomicType)):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _as_float(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _as_bool(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _as_member(enum: type[Enum]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if isinstance(value, enum):
            return value
        if isinstance(value, str) and value in enum.__members__:
            return enum[value]
        if issubclass(enum, IntEnum) and isinstance(value, int) and value in [m.value for m in enum]:
            return enum(value)
        return None

    return convert


def _as_pad(value: Any) -> Any:
    if isinstance(value, PadValue) or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return value
    return PadValue[value] if isinstance(value, str) and value in PadValue.__members__ else None


def _as_cast_mode(value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(CAST_MODES):
        return CAST_MODES[value]
    return value if value in CAST_MODES else None


def _as_comparison(value: Any) -> int | None:
    if isinstance(value, str) and value in CMP_TYPES:
        return CMP_TYPES.index(value)
    number = _as_int(value)
    return number if number is not None and 0 <= number < len(CMP_TYPES) else None


_ATTRIBUTES: Mapping[str, Callable[[Any], Any]] = {
    "int": _as_int,
    "float": _as_float,
    "bool": _as_bool,
    "str": lambda v: v if isinstance(v, str) else None,
    "dtype": lambda v: v if isinstance(v, DType) else None,
    "memory": _as_member(MemorySpace),
    "tensor_layout": _as_member(TensorLayout),
    "tile_layout": _as_member(TileLayout),
    "pad": _as_pad,
    "cast_mode": _as_cast_mode,
    "cmp": _as_comparison,
    "split": _as_int,
    "atomic": _as_member(AtomicType),
    "pipe": _as_member(PipeType),
}
_ATTRIBUTE_WORDS = {
    "int": "a constant integer",
    "float": "a constant number",
    "bool": "True or False",
    "str": "a string",
    "dtype": "a dtype such as pl.FP32",
    "memory": "a memory space: " + ", ".join(f"pl.Mem.{m.name}" for m in MemorySpace),
    "tensor_layout": "a layout: " + ", ".join(f"pl.TensorLayout.{m.name}" for m in TensorLayout),
    "tile_layout": "a layout: " + ", ".join(f"pl.TileLayout.{m.name}" for m in TileLayout),
    "pad": "a pl.PadValue or a number",
    "cast_mode": "one of " + ", ".join(repr(m) for m in CAST_MODES),
    "cmp": "0..5 or one of " + ", ".join(repr(c) for c in CMP_TYPES),
    "split": "0, 1, 2 or a pl.SplitMode",
    "atomic": "pl.AtomicType.None_ or pl.AtomicType.Add",
    "pipe": "a pl.PipeType",
}


def _bad_attribute(call: Call, attr: Attr, actual: Actual) -> DispatchError:
    name = attr.dsl_name or attr.name
    is_mode = attr.kind == "cast_mode" and isinstance(actual.value, str)
    near = did_you_mean(actual.value, CAST_MODES) if is_mode else None
    return call.fail(
        "E315",
        f"`{name}` of `{call.path}` must be {_ATTRIBUTE_WORDS[attr.kind].partition(':')[0]}",
        actual.span,
        hint=near or _ATTRIBUTE_WORDS[attr.kind],
    )


def _from_op_error(call: Call, op: Op, bound: Bound, error: OpError) -> DispatchError:
    """An op's refusal, with the argument at fault underlined and the others labelled."""
    labels = tuple(
        Label(span, text) for key, text in error.also.items() if (span := _span_of(op, bound, key)) is not None
    )
    span = _span_of(op, bound, error.argument) if error.argument is not None else None
    return call.fail(error.code, error.message, span, hint=error.hint, labels=labels)


def _span_of(op: Op, bound: Bound, key: int | str) -> Span | None:
    name = op.args[key].name if isinstance(key, int) and key < len(op.args) else key
    actual = bound.get(str(name))
    return None if actual is None else actual.span
