"""Signatures: parameters with types, directions and values of the call; level and role of a function."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pypto_lab.frontend import type_forms
from pypto_lab.frontend.context import FunctionState
from pypto_lab.frontend.kernels import DynamicDim, Unresolved
from pypto_lab.frontend.missing import MISSING
from pypto_lab.frontend.report import Abandoned
from pypto_lab.frontend.type_forms import Annotated, Bare
from pypto_lab.frontend.typing import dim_text, is_known, type_text
from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Label
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import Direction, FunctionType, Level, Role
from pypto_lab.ir.types import UNKNOWN, ScalarType, TensorType, Type

DERIVED: dict[FunctionType, tuple[Level | None, Role | None]] = {
    FunctionType.Orchestration: (Level.CHIP, Role.Orchestrator),
    FunctionType.Graph: (Level.CHIP, Role.Orchestrator),
    FunctionType.InCore: (Level.CHIP_DIE, Role.SubWorker),
    FunctionType.AIC: (Level.AIC, Role.SubWorker),
    FunctionType.AIV: (Level.AIV, Role.SubWorker),
    FunctionType.Group: (Level.CORE_GROUP, Role.SubWorker),
}
"""Level and role that follow from the function type (`reference/language.md` 1.4)."""

TORCH_DTYPES: dict[str, DType] = {
    "float32": dtypes.FP32,
    "float16": dtypes.FP16,
    "bfloat16": dtypes.BF16,
    "int8": dtypes.INT8,
    "int16": dtypes.INT16,
    "int32": dtypes.INT32,
    "int64": dtypes.INT64,
    "uint8": dtypes.UINT8,
    "uint16": dtypes.UINT16,
    "uint32": dtypes.UINT32,
    "uint64": dtypes.UINT64,
    "bool": dtypes.BOOL,
    "float8_e4m3fn": dtypes.FP8E4M3FN,
    "float8_e5m2": dtypes.FP8E5M2,
    "float8_e8m0fnu": dtypes.FP8E8M0,
}
"""Array dtypes by name (torch's and NumPy's), the exact ones."""


@dataclass(frozen=True)
class Given:
    """What the caller knows about parameters: sample arguments of an entry, or the arguments of a call.

    `samples` None: the function is read without arguments. `runtime` None: every scalar without a value is run-time.
    """

    samples: Mapping[str, Any] | None = None
    runtime: frozenset[str] = frozenset()
    arguments: Mapping[str, n.Expr] | None = None
    origin: str = ""
    extents: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Symbol -> (parameter, extent) seen so far in this call."""


def read_params(state: FunctionState, node: ast.FunctionDef, given: Given) -> tuple[n.Param, ...]:
    """The parameters of a function, declared in its names. After a mistake a parameter has an unknown type."""
    nodes = _argument_nodes(state, node)
    found: dict[str, Annotated | None] = {}
    scalars_first = sorted(nodes, key=lambda a: not _looks_scalar(state, a))
    for argument in scalars_first:
        found[argument.arg] = _annotation(state, argument)
        stated = found[argument.arg]
        if stated is not None and isinstance(stated.type, ScalarType):
            _declare(state, argument, stated, stated.type)
    dynamic = bound_dynamic(state, node)
    for argument in nodes:
        stated = found[argument.arg]
        if stated is None:
            _declare(state, argument, Annotated(UNKNOWN), UNKNOWN)
        elif isinstance(stated.type, ScalarType):
            _give_value(state, argument, stated, given)
        else:
            type_ = _tensor_type(state, argument, stated, given, dynamic.get(argument.arg, {}))
            _declare(state, argument, stated, type_)
    params = {a.arg: state.params[a.arg] for a in nodes}
    state.params = params
    _note_dynamic(state)
    return tuple(params.values())


def _argument_nodes(state: FunctionState, node: ast.FunctionDef) -> list[ast.arg]:
    spec = node.args
    nodes = [*spec.posonlyargs, *spec.args]
    if nodes and nodes[0].arg == "self" and nodes[0].annotation is None:
        nodes = nodes[1:]
    for odd in (spec.vararg, spec.kwarg, *spec.kwonlyargs):
        if odd is not None:
            state.error("E104", f"`{odd.arg}` is no plain parameter", odd, hint="write the parameters one by one")
    for default in (*spec.defaults, *(d for d in spec.kw_defaults if d is not None)):
        state.error("E104", "a parameter has no default value", default, hint="pass the value at the call")
    return nodes


def _looks_scalar(state: FunctionState, argument: ast.arg) -> bool:
    annotation = argument.annotation
    head = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return isinstance(head, (ast.Name, ast.Attribute)) and state.path(head) == "pl.Scalar"


def _annotation(state: FunctionState, argument: ast.arg) -> Annotated | None:
    if argument.annotation is None:
        hint = f"write `{argument.arg}: pl.Tensor[[rows, cols], pl.FP32]`"
        if state.is_jit:
            hint += f", or `{argument.arg}: pl.Tensor` to take the shape from the call"
        state.error("E101", f"the parameter `{argument.arg}` has no annotation", argument, hint=hint)
        return None
    try:
        stated = type_forms.parameter(state, argument.annotation)
    except Abandoned:
        return None
    if isinstance(stated.type, TensorType) and stated.type.view is not None and state.is_jit:
        hint = "a jit kernel takes plain tensors; write the function with @pl.function to give a view"
        state.error("E122", "a view in the annotation of a jit kernel", argument.annotation, hint=hint)
    return stated


def _declare(state: FunctionState, argument: ast.arg, stated: Annotated, type_: Type) -> None:
    span = state.span(argument)
    var = n.Var(name=argument.arg, type=type_, span=span)
    if (
        isinstance(type_, ScalarType)
        and type_.dtype in (dtypes.INDEX, dtypes.INT64)
        and _is_symbol(state, argument.arg)
    ):
        var = state.program.symbol(argument.arg, span)
    direction = Direction.In if state.func_type is FunctionType.Inline else stated.direction
    state.params[argument.arg] = n.Param(var=var, direction=direction, span=span)
    state.names.declare(argument.arg, var, span)


def _is_symbol(state: FunctionState, name: str) -> bool:
    if name in state.program.symbols:
        return True
    found = state.environment.lookup(name)
    return isinstance(found, DynamicDim) and found.name == name


def _give_value(state: FunctionState, argument: ast.arg, stated: Annotated, given: Given) -> None:
    """A scalar of a jit entry is folded to its value, unless it is a run-time one (2.11, rule 3)."""
    name = argument.arg
    if not state.is_jit or given.samples is None or given.arguments is not None:
        return
    if stated.runtime or name in given.runtime:
        return
    if name not in given.samples:
        hint = f"pass a value for `{name}`, or annotate it `pl.Scalar[..., pl.RUNTIME]`"
        state.error("E121", f"the scalar `{name}` got no value", argument, hint=hint)
        return
    value = given.samples[name]
    value = value.item() if hasattr(value, "item") else value
    if not isinstance(value, (bool, int, float)):
        message = f"the scalar `{name}` got a {type(value).__name__}"
        state.error("E123", message, argument, hint="pass an int, a float or a bool")
        return
    assert isinstance(stated.type, ScalarType)
    if stated.type.dtype.is_float and not isinstance(value, bool):
        value = float(value)
    state.constants[name] = value


# --- tensors ----------------------------------------------------------------------------------------------------------


def _tensor_type(
    state: FunctionState, argument: ast.arg, stated: Annotated, given: Given, dynamic: dict[int, n.Var]
) -> Type:
    type_ = stated.type
    if isinstance(type_, Bare):
        if not state.is_jit and state.func_type is not FunctionType.Inline:
            hint = f"write `{argument.arg}: pl.Tensor[[rows, cols], pl.FP32]`"
            state.error(
                "E103", f"`{type_.head}` needs dimensions and a dtype", argument.annotation or argument, hint=hint
            )
            return UNKNOWN
        if given.arguments is not None:
            return _from_argument(state, argument, type_, given, dynamic)
        return _from_sample(state, argument, type_, given, dynamic)
    if isinstance(type_, TensorType):
        if dynamic:
            shape = tuple(dynamic.get(i, d) for i, d in enumerate(type_.shape))
            type_ = dataclasses.replace(type_, shape=shape)
        if given.samples is not None and argument.arg in given.samples:
            _check_sample(state, argument, type_, given)
    return type_


def _sample_facts(sample: Any) -> tuple[tuple[int, ...], DType | None] | None:
    shape, dtype = getattr(sample, "shape", None), getattr(sample, "dtype", None)
    if shape is None or dtype is None:
        return None
    if isinstance(dtype, DType):
        return tuple(int(d) for d in shape), dtype
    return tuple(int(d) for d in shape), TORCH_DTYPES.get(str(dtype).rpartition(".")[2])


def _from_sample(state: FunctionState, argument: ast.arg, bare: Bare, given: Given, dynamic: dict[int, n.Var]) -> Type:
    """A bare tensor parameter of an entry takes the shape and dtype of the argument."""
    name = argument.arg
    sample = None if given.samples is None else given.samples.get(name)
    facts = _sample_facts(sample)
    if facts is None:
        hint = f"call the kernel with a tensor for `{name}`, or write `pl.Tensor[[rows, cols], pl.FP32]`"
        state.error("E120", f"the shape of the bare `{bare.head}` `{name}` is not known", argument, hint=hint)
        return UNKNOWN
    shape, dtype = facts
    if dtype is None:
        message = f"`{name}` has the dtype {getattr(sample, 'dtype', None)}, which no kernel dtype matches"
        state.error("E123", message, argument, hint=f"known: {', '.join(TORCH_DTYPES)}")
        return UNKNOWN
    dims: tuple[n.Expr, ...] = tuple(dynamic.get(i) or n.const(d) for i, d in enumerate(shape))
    for axis, extent in enumerate(shape):
        if axis in dynamic:
            _same_extent(state, argument, given, dynamic[axis].name, extent)
    return TensorType(dims, dtype, distributed=bare.distributed)


def _check_sample(state: FunctionState, argument: ast.arg, type_: TensorType, given: Given) -> None:
    """E123, E125: the argument has the annotation's dtype, rank and constant extents; a symbol has one extent."""
    assert given.samples is not None
    facts = _sample_facts(given.samples[argument.arg])
    if facts is None:
        message = f"`{argument.arg}` is a tensor, it got a {type(given.samples[argument.arg]).__name__}"
        state.error("E123", message, argument, hint="pass a tensor")
        return
    shape, dtype = facts
    if dtype is not None and not _holds(dtype, type_.dtype):
        message = f"`{argument.arg}` is annotated {type_.dtype}, the argument is {dtype}"
        state.error("E123", message, argument, hint="convert the argument, or change the annotation")
    if len(shape) != type_.rank:
        message = f"`{argument.arg}` has {type_.rank} axes, the argument has shape {list(shape)}"
        state.error("E123", message, argument, hint=f"expected {type_text(type_)}")
        return
    for axis, (dim, extent) in enumerate(zip(type_.shape, shape, strict=True)):
        value = arith.constant(dim)
        if value is not None and value != extent:
            message = f"axis {axis} of `{argument.arg}` is {value}, the argument has {extent}"
            state.error("E123", message, argument, hint=f"expected {type_text(type_)}")
        elif isinstance(dim, n.Var):
            _same_extent(state, argument, given, dim.name, extent)


_STORED_AS: dict[DType, tuple[DType, ...]] = {
    dtypes.INDEX: (dtypes.INT64, dtypes.INT32),
    dtypes.BOOL: (dtypes.UINT8, dtypes.INT8),
    dtypes.UINT16: (dtypes.INT16,),
    dtypes.UINT32: (dtypes.INT32,),
    dtypes.UINT64: (dtypes.INT64,),
}


def _holds(given: DType, annotated: DType) -> bool:
    """Whether an argument can stand for the annotated dtype: the same, one that stores it, or bytes for a dtype that
    torch does not have."""
    if given == annotated or given in _STORED_AS.get(annotated, ()):
        return True
    return annotated.name in ("FP4", "HF4", "HF8", "INT4", "UINT4", "FP8E8M0", "FP8E4M3FN", "FP8E5M2")


def _same_extent(state: FunctionState, argument: ast.arg, given: Given, symbol: str, extent: int) -> None:
    known = given.extents.setdefault(symbol, (argument.arg, extent))
    if known[1] != extent:
        other = state.params.get(known[0])
        labels = [Label(other.span, f"here it is {known[1]}")] if other is not None and other.span is not None else []
        message = f"the dimension `{symbol}` is {known[1]} in `{known[0]}` and {extent} in `{argument.arg}`"
        hint = "use another pl.dynamic symbol for one of them"
        state.error("E125", message, argument, labels=labels, hint=hint)


def _from_argument(
    state: FunctionState, argument: ast.arg, bare: Bare, given: Given, dynamic: dict[int, n.Var]
) -> Type:
    """A bare parameter of a dependency takes the type of the call's argument (2.11, rule 5). An extent that only the
    caller's variables say becomes a dimension of the callee."""
    assert given.arguments is not None
    found = given.arguments.get(argument.arg)
    type_ = found.type if found is not None else UNKNOWN
    if not isinstance(type_, TensorType):
        if is_known(type_) or not state.reporter.errors:
            what = f"a `{type_text(type_)}`" if is_known(type_) else "not known"
            hint = f"annotate it: `{argument.arg}: pl.Tensor[[rows, cols], pl.FP32]`"
            labels = [Label(found.span, "the argument")] if found is not None and found.span is not None else []
            message = f"the type of the bare `{argument.arg}` cannot be taken from the call: the argument is {what}"
            state.error("E124", message, argument, labels=labels, hint=hint)
        return UNKNOWN
    dims = tuple(dynamic.get(i) or _callee_dim(state, argument.arg, i, d) for i, d in enumerate(type_.shape))
    return TensorType(dims, type_.dtype, distributed=type_.distributed or bare.distributed)


def _callee_dim(state: FunctionState, name: str, axis: int, dim: n.Expr) -> n.Expr:
    value = arith.constant(dim)
    if value is not None:
        return n.const(value)
    if isinstance(dim, n.Var) and state.program.symbols.get(dim.name) is dim:
        return dim
    return state.program.symbol(_symbol_name(state, f"{name}_dim{axis}", dim))


def _symbol_name(state: FunctionState, name: str, dim: n.Expr) -> str:
    readable = dim_text(dim) if isinstance(dim, n.Var) else name
    return readable if readable not in state.program.symbols else name


def bound_dynamic(state: FunctionState, node: ast.FunctionDef) -> dict[str, dict[int, n.Var]]:
    """Parameter -> axis -> symbol from the `x.bind_dynamic(axis, SYMBOL)` statements of a body."""
    found: dict[str, dict[int, n.Var]] = {}
    for part in ast.walk(node):
        if not (isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute)):
            continue
        if part.func.attr != "bind_dynamic" or not isinstance(part.func.value, ast.Name) or len(part.args) != 2:
            continue
        axis, symbol = (state.environment.value(a) for a in part.args)
        if isinstance(symbol, Unresolved):
            state.report_unresolved(symbol.name, part.args[1], symbol.reason)
            symbol = DynamicDim(symbol.name)
        if not isinstance(axis, int) or not isinstance(symbol, DynamicDim):
            what = "nothing known" if symbol is MISSING else type(symbol).__name__
            hint = 'x.bind_dynamic(0, M) with `M = pl.dynamic("M")` in the module'
            state.error("E314", f"`bind_dynamic` takes an axis and a pl.dynamic symbol, not {what}", part, hint=hint)
            continue
        found.setdefault(part.func.value.id, {})[axis] = state.program.symbol(symbol.name, state.span(part))
    return found


def _note_dynamic(state: FunctionState) -> None:
    """Where each symbol can be read at run time."""
    for param in state.params.values():
        if isinstance(param.type, TensorType):
            for axis, dim in enumerate(param.type.shape):
                if isinstance(dim, n.Var):
                    state.dynamic_params.setdefault(dim.name, (param.name, axis))


def level_and_role(
    func_type: FunctionType, level: Level | None, role: Role | None
) -> tuple[Level | None, Role | None, Iterable[str]]:
    """Level and role of a function, and complaints about stated ones that contradict its type."""
    derived = DERIVED.get(func_type, (None, None))
    problems = [
        f"`{word}` of an {func_type.name} function is {want.name}, not {stated.name}"
        for word, stated, want in (("level", level, derived[0]), ("role", role, derived[1]))
        if stated is not None and want is not None and stated is not want
    ]
    return level or derived[0], role or derived[1], problems
