"""Type annotations: parameters with their direction, assigned types, results (`reference/language.md` 2.2, 2.3)."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pypto_lab.frontend import expressions
from pypto_lab.frontend.context import FunctionState
from pypto_lab.frontend.environment import canonical_path
from pypto_lab.frontend.kernels import AnnotationValue, DimArithmetic, dsl_name
from pypto_lab.frontend.members import RUNTIME, is_value_path, unknown_member
from pypto_lab.frontend.missing import MISSING
from pypto_lab.frontend.report import Abandoned
from pypto_lab.frontend.typing import type_text
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import did_you_mean
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import CompactMode, Direction, MemorySpace, PadValue, TensorLayout, TileLayout
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import (
    HANDLES,
    PTR,
    ArrayType,
    HandleType,
    MemRef,
    ScalarType,
    TensorType,
    TensorView,
    TileType,
    TileView,
    TupleType,
    Type,
    constant_dims,
)

HEADS = ("pl.Tensor", "pl.Tile", "pl.Scalar", "pl.Array", "pl.Tuple", "pl.Out", "pl.InOut", "pld.DistributedTensor")
_DIRECTIONS = {"pl.Out": Direction.Out, "pl.InOut": Direction.InOut, "pl.In": Direction.In}
_SHAPED = ("pl.Tensor", "pl.Tile", "pld.DistributedTensor")
_EXAMPLES = {
    "pl.Tensor": "pl.Tensor[[16, 64], pl.FP32]",
    "pl.Tile": "pl.Tile[[16, 64], pl.FP32]",
    "pld.DistributedTensor": "pld.DistributedTensor[[16, 64], pl.FP32]",
    "pl.Scalar": "pl.Scalar[pl.INT32]",
    "pl.Array": "pl.Array[4, pl.TASK_ID]",
}


@dataclass(frozen=True)
class Bare:
    """A jit parameter whose shape and dtype come from the call: `pl.Tensor`, or `pl.Tensor` of a distributed kind."""

    head: str
    distributed: bool = False


@dataclass(frozen=True)
class Annotated:
    """A parameter's annotation. `type` is Bare for a bare `pl.Tensor`; `runtime` marks `pl.RUNTIME` scalars."""

    type: Type | Bare
    direction: Direction = Direction.In
    runtime: bool = False
    span: Span | None = None


def parameter(state: FunctionState, node: ast.expr) -> Annotated:
    """A parameter's annotation. Raises Abandoned after reporting what is wrong with it."""
    node = _unquoted(state, node)
    span = state.span(node)
    head, arguments = _split(state, node)
    if head in _DIRECTIONS:
        return _directed(state, node, head, arguments, span)
    if head == "pl.Scalar" and arguments is not None and len(arguments) == 2:
        return Annotated(_scalar(state, node, arguments[:1]), runtime=_is_runtime(state, arguments[1]), span=span)
    if head in ("pl.Tensor", "pld.DistributedTensor") and arguments is None:
        return Annotated(Bare(head, head.startswith("pld")), span=span)
    type_ = _resolve(state, node)
    if isinstance(type_, TupleType):
        hint = "take each element as a parameter of its own"
        state.fail("E104", "a tuple cannot be a parameter", node, hint=hint)
    return Annotated(type_, runtime=state.python_value(node) is RUNTIME, span=span)


def _directed(state: FunctionState, node: ast.expr, head: str, arguments: Any, span: Span) -> Annotated:
    if arguments is None or len(arguments) != 1:
        state.fail("E103", f"`{head}` wraps one type", node, hint=f"{head}[pl.Tensor[[16, 64], pl.FP32]]")
    inner = arguments[0]
    found = parameter(state, inner) if isinstance(inner, ast.expr) else _from_value(state, node, inner)
    if isinstance(found.type, ScalarType):
        message = f"a scalar cannot be `{head}`: scalars are inputs"
        hint = f"write `{type_text(found.type)}`, and return a result through a tensor of one element"
        state.fail("E104", message, node, hint=hint)
    return Annotated(found.type, _DIRECTIONS[head], found.runtime, span)


def _is_runtime(state: FunctionState, argument: Any) -> bool:
    if argument is RUNTIME:
        return True
    if isinstance(argument, ast.expr):
        return expressions.value(state, argument) is RUNTIME
    return False


def type_of(state: FunctionState, node: ast.expr) -> Type:
    """The type an annotation of an assignment or return states. Raises Abandoned."""
    return _resolve(state, _unquoted(state, node))


def returns(state: FunctionState, node: ast.expr | None) -> tuple[Type, ...] | None:
    """Return types, None when nothing is stated. `tuple[...]` states several, `None` none."""
    if node is None:
        return None
    node = _unquoted(state, node)
    if isinstance(node, ast.Constant) and node.value is None:
        return ()
    head, arguments = _split(state, node)
    if head in ("tuple", "pl.Tuple") and arguments is not None:
        if any(isinstance(a, ast.expr) and _is_bare(state, a) for a in arguments):
            return None
        return tuple(_one(state, node, a) for a in arguments)
    if head in _SHAPED and arguments is None:
        return None  # a bare `pl.Tensor` result: the type comes from the returned value
    if head in _DIRECTIONS and arguments is not None and len(arguments) == 1:
        return (_one(state, node, arguments[0]),)
    return (_resolve(state, node),)


def _is_bare(state: FunctionState, node: ast.expr) -> bool:
    """Whether an annotation is `pl.Tensor` alone, possibly inside `pl.Out[...]`."""
    head, arguments = _split(state, node)
    if head in _DIRECTIONS and arguments is not None and len(arguments) == 1 and isinstance(arguments[0], ast.expr):
        return _is_bare(state, arguments[0])
    return head in _SHAPED and arguments is None


# --- heads and arguments ----------------------------------------------------------------------------------------------


def _unquoted(state: FunctionState, node: ast.expr) -> ast.expr:
    """The expression inside a quoted annotation, at the place of the string."""
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        return node
    try:
        inner = ast.parse(node.value.strip(), mode="eval").body
    except SyntaxError:
        state.fail("E102", "this text is no type", node, hint=_EXAMPLES["pl.Tensor"])
    for part in ast.walk(inner):
        ast.copy_location(part, node)
    return inner


def _split(state: FunctionState, node: ast.expr) -> tuple[str | None, tuple[Any, ...] | None]:
    """The head of an annotation (`pl.Tensor`) and what stands in its brackets (None without brackets).

    Arguments are syntax nodes, or Python values when the annotation is a name bound to an evaluated one.
    """
    match node:
        case ast.Subscript():
            return _head(state, node.value), _items(node.slice)
        case ast.Call():
            head = _head(state, node.func)
            if head in _SHAPED:
                return head, (*node.args, *(k.value for k in node.keywords))
            return head, tuple(node.args)
        case ast.Name() | ast.Attribute():
            head = _head(state, node)
            if head is not None:
                return head, None
            found = state.python_value(node)
            if isinstance(found, AnnotationValue):
                return canonical_path(found.head), found.arguments or None
    return None, None


def _head(state: FunctionState, node: ast.expr) -> str | None:
    if isinstance(node, ast.Name) and node.id == "tuple":
        return "tuple"
    return state.path(node)


def _items(node: ast.expr) -> tuple[ast.expr, ...]:
    return tuple(node.elts) if isinstance(node, ast.Tuple) else (node,)


def _one(state: FunctionState, node: ast.expr, argument: Any) -> Type:
    if isinstance(argument, ast.expr):
        return type_of(state, argument)
    found = _from_value(state, node, argument).type
    if isinstance(found, Bare):
        state.fail("E103", f"`{found.head}` needs dimensions and a dtype", node, hint=_EXAMPLES["pl.Tensor"])
    return found


def _from_value(state: FunctionState, node: ast.expr, value: Any) -> Annotated:
    """The meaning of an annotation that Python evaluated already (a module-level alias)."""
    span = state.span(node)
    if isinstance(value, AnnotationValue):
        head = canonical_path(value.head)
        if head in _DIRECTIONS:
            return _directed(state, node, head, value.arguments, span)
        if head == "pl.Scalar" and len(value.arguments) == 2:
            return Annotated(
                _scalar(state, node, value.arguments[:1]), runtime=value.arguments[1] is RUNTIME, span=span
            )
        if head in ("pl.Tensor", "pld.DistributedTensor") and not value.arguments:
            return Annotated(Bare(head, head.startswith("pld")), span=span)
        return Annotated(_build(state, node, head, value.arguments), span=span)
    name = dsl_name(value)
    if name in ("pl.Tensor", "pld.DistributedTensor"):
        return Annotated(Bare(str(name), str(name).startswith("pld")), span=span)
    if isinstance(value, DType):
        return Annotated(ScalarType(value), span=span)
    return Annotated(_not_a_type(state, node), span=span)


def _resolve(state: FunctionState, node: ast.expr) -> Type:
    head, arguments = _split(state, node)
    if head is None:
        return _headless(state, node)
    if head in HANDLES or head in ("pl.UnknownType",):
        return PTR if head == "pl.Ptr" else HandleType(head)
    if arguments is None:
        value = expressions.value(state, node) if head not in HEADS else None
        if isinstance(value, DType):
            return ScalarType(value)
        if head in _EXAMPLES:
            state.fail("E103", f"`{head}` needs its parts in brackets", node, hint=_EXAMPLES[head])
        return _not_a_type(state, node)
    return _build(state, node, head, arguments)


def _headless(state: FunctionState, node: ast.expr) -> Type:
    if isinstance(node, (ast.Name, ast.Attribute)):
        found = state.python_value(node)
        if isinstance(found, DType):
            return ScalarType(found)
        if found is MISSING and isinstance(node, ast.Name):
            expressions.undefined(state, node)
    return _not_a_type(state, node)


def _not_a_type(state: FunctionState, node: ast.expr) -> Type:
    if isinstance(node, ast.Tuple):
        text = ", ".join(state.text.segment(e) for e in node.elts)
        state.fail("E102", "a tuple is no type", node, hint=f"write `pl.Tensor[{text}]`")
    path = state.path(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
    if path is None and isinstance(node, ast.Subscript):
        path = state.path(node.value)
    if path is not None and is_value_path(path):
        message, hint = unknown_member(path)
        state.fail("E201", message, node, hint=hint)
    near = did_you_mean(path, HEADS) if path is not None else None
    heads = ", ".join(HEADS)
    state.fail(
        "E102", f"`{state.text.segment(node)}` is no type", node, hint=f"{near} " * bool(near) + f"types: {heads}"
    )


def _build(state: FunctionState, node: ast.expr, head: str, arguments: Sequence[Any]) -> Type:
    match head:
        case "pl.Tensor" | "pld.DistributedTensor":
            return _tensor(state, node, head, arguments)
        case "pl.Tile":
            return _tile(state, node, arguments)
        case "pl.Scalar":
            return _scalar(state, node, arguments)
        case "pl.Array":
            return _array(state, node, arguments)
        case "pl.Tuple" | "tuple":
            return TupleType(tuple(_one(state, node, a) for a in arguments))
    return _not_a_type(state, node)


# --- each type --------------------------------------------------------------------------------------------------------


def _tensor(state: FunctionState, node: ast.expr, head: str, arguments: Sequence[Any]) -> TensorType:
    shape, dtype = _shape_and_dtype(state, node, head, arguments)
    view: TensorView | None = None
    memref: MemRef | None = None
    window: str | None = None
    for extra in arguments[2:]:
        found = _extra(state, node, extra)
        if isinstance(found, TensorLayout):
            view = None if found is TensorLayout.ND else TensorView(layout=found)
        elif isinstance(found, TensorView):
            view = found
        elif isinstance(found, MemRef):
            memref = found
        elif isinstance(found, str) and found.startswith("window_buffer="):
            window = found.partition("=")[2]
        else:
            where = extra if isinstance(extra, ast.expr) else node
            hint = "after the dtype a tensor type takes a pl.TensorLayout, a pl.TensorView or a pl.MemRef"
            state.fail("E102", f"`{state.text.segment(where)}` is no part of a tensor type", where, hint=hint)
    return TensorType(shape, dtype, view, memref, head.startswith("pld"), window)


def _tile(state: FunctionState, node: ast.expr, arguments: Sequence[Any]) -> TileType:
    shape, dtype = _shape_and_dtype(state, node, "pl.Tile", arguments)
    view: TileView | None = None
    space: MemorySpace | None = None
    memref: MemRef | None = None
    for extra in arguments[2:]:
        found = _extra(state, node, extra)
        if isinstance(found, MemorySpace):
            space = found
        elif isinstance(found, TileView):
            view = found
        elif isinstance(found, MemRef):
            memref = found
        else:
            where = extra if isinstance(extra, ast.expr) else node
            hint = "after the dtype a tile type takes pl.Mem.X, a pl.TileView or a pl.MemRef"
            state.fail("E102", f"`{state.text.segment(where)}` is no part of a tile type", where, hint=hint)
    type_ = TileType(shape, dtype, view, space, memref)
    _check_memref(state, node, type_)
    return type_


def _check_memref(state: FunctionState, node: ast.expr, tile: TileType) -> None:
    """E111: a placed tile states its space, and its slot exists and holds it."""
    memref = tile.memref
    if memref is None:
        return
    if tile.memory_space is None:
        hint = "add the memory space, e.g. `pl.Mem.Vec`"
        state.fail("E111", "a tile with a memory reference needs its memory space", node, hint=hint)
    slot = getattr(memref.slot, "value", None)
    if memref.slots is not None and isinstance(slot, int) and not 0 <= slot < memref.slots:
        hint = f"the slots are 0 to {memref.slots - 1}"
        state.fail("E111", f"slot {slot} of a buffer with {memref.slots} slots", node, hint=hint)
    dims = constant_dims(tile.shape)
    if memref.size is not None and dims is not None:
        needed = tile.dtype.bits
        for extent in dims:
            needed *= extent
        if needed > memref.size * 8:
            message = f"the tile needs {needed // 8} bytes, its memory reference has {memref.size}"
            state.fail("E111", message, node, hint=f"reserve at least {needed // 8} bytes")


def _scalar(state: FunctionState, node: ast.expr, arguments: Sequence[Any]) -> ScalarType:
    if len(arguments) != 1:
        state.fail("E103", "`pl.Scalar` takes one dtype", node, hint=_EXAMPLES["pl.Scalar"])
    return ScalarType(_dtype(state, node, "pl.Scalar", arguments[0]))


def _array(state: FunctionState, node: ast.expr, arguments: Sequence[Any]) -> ArrayType:
    if len(arguments) != 2:
        state.fail("E103", "`pl.Array` takes an extent and a dtype", node, hint=_EXAMPLES["pl.Array"])
    extent = _dim(state, node, arguments[0])
    return ArrayType(extent, _dtype(state, node, "pl.Array", arguments[1]))


def _shape_and_dtype(
    state: FunctionState, node: ast.expr, head: str, arguments: Sequence[Any]
) -> tuple[tuple[n.Expr, ...], DType]:
    example = _EXAMPLES[head]
    if len(arguments) < 2:
        shape = arguments and _is_list(state, arguments[0])
        missing = "its dtype" if shape else "its list of dimensions"
        state.fail("E103", f"`{head}` lacks {missing}", node, hint=f"write `{example}`")
    dims = _dims(state, node, arguments[0])
    if dims is None:
        where = arguments[0] if isinstance(arguments[0], ast.expr) else node
        text = state.text.segment(where)
        message = f"`{head}` takes a list of dimensions first, not `{text}`"
        state.fail("E103", message, where, hint=f"write `{head}[[{text}], ...]`, e.g. `{example}`")
    return dims, _dtype(state, node, head, arguments[1])


def _is_list(state: FunctionState, argument: Any) -> bool:
    if isinstance(argument, ast.expr):
        found = state.python_value(argument)
        return isinstance(argument, (ast.List, ast.Tuple)) or isinstance(found, (list, tuple))
    return isinstance(argument, (list, tuple))


def _dims(state: FunctionState, node: ast.expr, argument: Any) -> tuple[n.Expr, ...] | None:
    if not isinstance(argument, ast.expr):
        return tuple(_dim(state, node, d) for d in argument) if isinstance(argument, (list, tuple)) else None
    if isinstance(argument, (ast.List, ast.Tuple)):
        return tuple(_dim(state, node, d) for d in argument.elts)
    found = state.python_value(argument)
    if isinstance(found, (list, tuple)):
        return tuple(_dim(state, argument, d) for d in found)
    return None


def _dim(state: FunctionState, node: ast.expr, argument: Any) -> n.Expr:
    """One dimension: an integer scalar. Symbols stay symbols here, also in jit bodies."""
    if not isinstance(argument, ast.expr):
        if isinstance(argument, DimArithmetic):
            return expressions.dim_expression(state, argument, state.span(node), in_type=True)
        found = expressions.from_python(state, argument, node)
    else:
        value = state.python_value(argument)
        if isinstance(value, DimArithmetic):
            return expressions.dim_expression(state, value, state.span(argument), in_type=True)
        found = expressions.expression(state, argument)
    where = argument if isinstance(argument, ast.expr) else node
    if isinstance(found, n.Expr) and isinstance(found.type, ScalarType) and found.type.dtype.is_integer:
        if isinstance(found, n.ConstInt) and found.value < 0:
            state.fail("E103", f"a dimension is not negative: {found.value}", where)
        return found
    if isinstance(found, n.Expr) and not isinstance(found.type, ScalarType):
        raise Abandoned
    state.fail("E103", "a dimension is an integer", where, hint="use an int, a pl.dynamic symbol or an integer scalar")


def _dtype(state: FunctionState, node: ast.expr, head: str, argument: Any) -> DType:
    if isinstance(argument, DType):
        return argument
    where = argument if isinstance(argument, ast.expr) else node
    found = expressions.value(state, argument) if isinstance(argument, ast.expr) else None
    if isinstance(found, DType):
        return found
    if isinstance(found, n.Var) and found.name == "_unknown":
        raise Abandoned
    message = f"`{state.text.segment(where)}` is no dtype"
    state.fail("E103", message, where, hint=f"write a dtype such as pl.FP32: `{_EXAMPLES[head]}`")


# --- views and memory references --------------------------------------------------------------------------------------


def _extra(state: FunctionState, node: ast.expr, argument: Any) -> Any:
    """A part after the dtype: layout, view, memory space, memory reference."""
    if not isinstance(argument, ast.expr):
        return _extra_value(state, node, argument)
    if isinstance(argument, ast.Subscript):
        return _slot(state, argument)
    if isinstance(argument, ast.Call):
        path = state.path(argument.func)
        if path in ("pl.TileView", "pl.TensorView"):
            return _view(state, argument, path)
        if path == "pl.MemRef":
            return _memref(state, argument)
    found = state.python_value(argument)
    if isinstance(found, AnnotationValue):
        return _extra_value(state, argument, found)
    return expressions.value(state, argument)


def _extra_value(state: FunctionState, node: ast.expr, value: Any) -> Any:
    if not isinstance(value, AnnotationValue):
        return value
    head = canonical_path(value.head)
    positional = [a for a in value.arguments if not _is_keyword(a)]
    keywords = {a[0]: a[1] for a in value.arguments if _is_keyword(a)}
    if head == "pl.MemRef" and positional and isinstance(positional[0], str):
        return MemRef(positional[0], slots=keywords.get("slots"), declared=True)
    fields = {name: _view_value(state, node, name, item) for name, item in keywords.items()}
    return TileView(**fields) if head == "pl.TileView" else TensorView(**fields)


def _is_keyword(argument: Any) -> bool:
    return isinstance(argument, tuple) and len(argument) == 2 and isinstance(argument[0], str)


_VIEW_ENUMS: dict[str, Any] = {
    "blayout": TileLayout,
    "slayout": TileLayout,
    "layout": TensorLayout,
    "pad": PadValue,
    "compact": CompactMode,
}
_VIEW_FIELDS = {
    "pl.TileView": ("valid_shape", "stride", "start_offset", "blayout", "slayout", "fractal", "pad", "compact"),
    "pl.TensorView": ("stride", "layout", "valid_shape", "pad"),
}


def _view(state: FunctionState, node: ast.Call, path: str) -> TileView | TensorView:
    names = _VIEW_FIELDS[path]
    fields: dict[str, Any] = {}
    for name, argument in [*zip(names, node.args, strict=False), *((k.arg, k.value) for k in node.keywords)]:
        if name not in names:
            hint = did_you_mean(str(name), names) or f"fields: {', '.join(names)}"
            state.fail("E102", f"`{path}` has no field `{name}`", argument, hint=hint)
        fields[name] = _view_value(state, node, name, argument)
    return TileView(**fields) if path == "pl.TileView" else TensorView(**fields)


def _view_value(state: FunctionState, node: ast.expr, name: str, argument: Any) -> Any:
    if name in ("valid_shape", "stride"):
        dims = _dims(state, node, argument)
        if dims is None:
            state.fail("E103", f"`{name}` is a list of integers", argument if isinstance(argument, ast.expr) else node)
        return dims
    found = expressions.value(state, argument) if isinstance(argument, ast.expr) else argument
    if name in _VIEW_ENUMS:
        if not isinstance(found, _VIEW_ENUMS[name]):
            state.fail("E201", f"`{name}` takes a pl.{_VIEW_ENUMS[name].__name__}", node)
        return found
    if name == "fractal":
        return getattr(found, "value", found)
    return found


def _slot(state: FunctionState, node: ast.Subscript) -> Any:
    base = _extra(state, node, node.value)
    if not isinstance(base, MemRef):
        state.fail("E102", f"`{state.text.segment(node)}` is no part of a type", node)
    return MemRef(
        base.base, base.offset, base.size, base.slots, expressions.expression(state, node.slice), base.declared
    )


def _memref(state: FunctionState, node: ast.Call) -> MemRef:
    """The declared form `pl.MemRef("name"[, slots=N])` and the resolved form `pl.MemRef(base, offset, size)`."""
    keywords = {k.arg: expressions.value(state, k.value) for k in node.keywords}
    values = [expressions.value(state, a) for a in node.args]
    if not values or not isinstance(values[0], (str, n.Var)):
        hint = 'pl.MemRef("name"), optionally `slots=2`'
        state.fail("E111", "a memory reference starts with the name of its buffer", node, hint=hint)
    slots = _integer(keywords.get("slots"))
    if len(values) == 1:
        return MemRef(values[0], size=_integer(keywords.get("size")), slots=slots, declared=True)
    offset = values[1] if isinstance(values[1], n.Expr) else None
    return MemRef(values[0], offset, _integer(values[2]) if len(values) > 2 else None, slots)


def _integer(value: Any) -> int | None:
    found = getattr(value, "value", value)
    return found if isinstance(found, int) else None
