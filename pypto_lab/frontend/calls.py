"""Calls in a kernel body: operations, the language's own functions, kernels of the program, inline functions."""

from __future__ import annotations

import ast
import dataclasses
from typing import Any, NoReturn

from pypto_lab.frontend import expressions, inlining, special
from pypto_lab.frontend.context import FunctionState, Signature
from pypto_lab.frontend.invoke import Argument, invoke
from pypto_lab.frontend.kernels import KernelSource, Unresolved, dsl_name, kernel_of
from pypto_lab.frontend.members import is_value_path, member, unknown_member
from pypto_lab.frontend.missing import MISSING
from pypto_lab.frontend.report import Abandoned
from pypto_lab.frontend.typing import is_known, kind_name, type_text
from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Label, did_you_mean
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import ArgDirection, FunctionType
from pypto_lab.ir.types import ScalarType, TensorType, TileType, TupleType, Type, UnknownType, constant_dims
from pypto_lab.ir.visitor import map_type
from pypto_lab.ops.dispatch import spellings

TASK = ScalarType(dtypes.TASK_ID)
_LARGEST_BYTES = {"Vec": 256 * 1024, "Mat": 512 * 1024}
"""The largest local memories of any supported chip (UB, L1)."""
_COMPUTING = frozenset(
    [
        "add",
        "sub",
        "mul",
        "div",
        "adds",
        "subs",
        "muls",
        "divs",
        "exp",
        "log",
        "sqrt",
        "rsqrt",
        "recip",
        "neg",
        "abs",
        "sin",
        "cos",
        "cast",
        "matmul",
        "matmul_acc",
        "maximum",
        "minimum",
        "row_max",
        "row_min",
        "row_sum",
        "row_prod",
        "col_max",
        "col_min",
        "col_sum",
        "col_prod",
        "row_expand_mul",
        "row_expand_div",
        "row_expand_add",
        "row_expand_sub",
        "col_expand_mul",
        "col_expand_div",
        "col_expand_add",
        "col_expand_sub",
    ]
)


def call(state: FunctionState, node: ast.Call) -> Any:
    """The meaning of a call. Raises Abandoned after reporting."""
    path = _callee_path(state, node.func)
    if path is not None:
        return _dsl_call(state, node, path)
    if _is_self(state, node.func):
        assert isinstance(node.func, ast.Attribute)
        return self_call(state, node, node.func.attr)
    found = _python_callee(state, node)
    if isinstance(found, Unresolved) or found is None:
        _without_value(state, node, found)
    kernel = kernel_of(found)
    if kernel is not None:
        return _kernel_call(state, node, kernel)
    return _python_call(state, node, found)


def _without_value(state: FunctionState, node: ast.Call, found: Unresolved | None) -> NoReturn:
    """E207 for a call of a name that nothing is bound to yet; its arguments are read, for their own mistakes."""
    kernel_arguments(state, list(node.args))
    if isinstance(found, Unresolved):
        expressions.unresolved(state, found.name, node.func, found.reason)
    reason = "it is None when the kernel is read; something binds it later"
    expressions.unresolved(state, state.text.segment(node.func), node.func, reason)
    raise Abandoned


def _callee_path(state: FunctionState, func: ast.expr) -> str | None:
    return state.path(func) if isinstance(func, (ast.Name, ast.Attribute)) else None


def _is_self(state: FunctionState, func: ast.expr) -> bool:
    return (
        isinstance(func, ast.Attribute)
        and isinstance(func.value, ast.Name)
        and func.value.id == "self"
        and "self" not in state.names
    )


def _python_callee(state: FunctionState, node: ast.Call) -> Any:
    func = node.func
    if isinstance(func, ast.Name) and func.id in state.names:
        kind = kind_name(state.names.bindings[func.id].var.type)
        state.fail("E206", f"`{func.id}` is a {kind} here and cannot be called", func)
    if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id in state.names:
        return _method(state, node, func)
    found = state.python_value(func)
    if found is MISSING:
        if isinstance(func, ast.Name):
            expressions.undefined(state, func)
        expressions.expression(state, func)
        raise Abandoned
    return found


def _method(state: FunctionState, node: ast.Call, func: ast.Attribute) -> Any:
    """`x.method(...)`: tensors have no methods in a kernel."""
    owner = expressions.expression(state, func.value)
    if func.attr == "bind_dynamic":
        hint = "write it as a statement at the start of a jit kernel"
        state.fail("E206", "`bind_dynamic` gives no value", node, hint=hint)
    if not is_known(owner.type):
        raise Abandoned
    near = did_you_mean(f"pl.{func.attr}", spellings())
    message = f"a {kind_name(owner.type)} has no method `{func.attr}`"
    state.fail("E206", message, func, hint=near or f"operations are functions: pl.{func.attr}(x, ...)")


def _python_call(state: FunctionState, node: ast.Call, found: Any) -> Any:
    name = state.text.segment(node.func)
    hints = {
        "min": "pl.min(a, b)",
        "max": "pl.max(a, b)",
        "abs": "pl.abs(x)",
        "range": "`pl.range(...)` in a for statement",
        "float": "pl.cast(x, pl.FP32)",
        "int": "pl.cast(x, pl.INT32)",
        "len": "pl.tensor.dim(x, 0)",
        "print": "pl.static_print(x)",
    }
    if dsl_name(found) is not None:
        state.fail("E206", f"`{name}` cannot be called", node.func)
    hint = (
        f"write {hints[name]}" if name in hints else "mark it with @pl.inline, or compute its value outside the kernel"
    )
    state.fail("E206", f"`{name}` is a Python function; kernels call operations and kernels", node.func, hint=hint)


# --- arguments --------------------------------------------------------------------------------------------------------


def positional(state: FunctionState, node: ast.Call) -> list[Argument]:
    """The values of the positional arguments, each with its place."""
    arguments: list[Argument] = []
    for part in node.args:
        if isinstance(part, ast.Starred):
            state.error("E002", "an unpacked argument is not part of the kernel language", part)
            continue
        arguments.append((expressions.value(state, part), part))
    return arguments


def named(state: FunctionState, node: ast.Call, skip: frozenset[str] = frozenset()) -> dict[str, Argument]:
    """The values of the keyword arguments, each with its place."""
    found: dict[str, Argument] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            state.error("E002", "unpacked keywords are not part of the kernel language", keyword.value)
        elif keyword.arg not in skip:
            found[keyword.arg] = (expressions.value(state, keyword.value), keyword.value)
    return found


def attributes(state: FunctionState, node: ast.Call) -> dict[str, Any]:
    """The literal dict of `attrs={...}`, kept as it is written."""
    keyword = next((k for k in node.keywords if k.arg == "attrs"), None)
    return {} if keyword is None else literal_dict(state, keyword.value)


def literal_dict(state: FunctionState, node: ast.expr) -> dict[str, Any]:
    """A dict display with string keys. Raises Abandoned after reporting anything else."""
    if not isinstance(node, ast.Dict):
        state.fail("E002", "this takes a literal dict", node, hint='{"key": value}')
    found: dict[str, Any] = {}
    for key, item in zip(node.keys, node.values, strict=True):
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            state.fail("E002", "keys are string literals", key or item)
        if key.value in found:
            state.fail("E314", f"the key {key.value!r} appears twice", key)
        found[key.value] = plain(expressions.value(state, item))
    return found


def plain(value: Any) -> Any:
    """Constants as Python numbers, lists as Python lists; other expressions stay."""
    match value:
        case n.ConstInt() | n.ConstFloat() | n.ConstBool():
            return value.value
        case n.MakeTuple():
            return [plain(e) for e in value.elements]
        case tuple():
            return [plain(e) for e in value]
    return value


# --- the language's own functions -------------------------------------------------------------------------------------


def _dsl_call(state: FunctionState, node: ast.Call, path: str) -> Any:
    form = special.FORMS.get(path)
    if form is not None:
        return form(state, node)
    size = state.python_value(node) if path.endswith(".get_byte") else MISSING
    if size is not MISSING:
        return n.const(size, span=state.span(node))
    if path in _STATEMENTS_ONLY:
        state.fail("E022", f"`{path}` stands in {_STATEMENTS_ONLY[path]}", node)
    if is_value_path(path) and member(path) is MISSING:
        message, hint = unknown_member(path)
        state.fail("E201", message, node.func, hint=hint)
    return _operation(state, node, path)


_STATEMENTS_ONLY = {
    "pl.range": "`for i in pl.range(...)`",
    "pl.parallel": "`for i in pl.parallel(...)`",
    "pl.unroll": "`for i in pl.unroll(...)`",
    "pl.pipeline": "`for i in pl.pipeline(..., stage=2)`",
    "pl.while_": "`for (x,) in pl.while_(init_values=(x0,))`",
    "pl.split_aiv": "`for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN)`",
    "pl.at": "`with pl.at(level=pl.Level.CORE_GROUP)`",
    "pl.spmd": "`for i in pl.spmd(n)` or `with pl.spmd(n)`",
    "pl.cluster": "`with pl.cluster()`",
    "pl.scope": "`with pl.scope()`",
    "pl.manual_scope": "`with pl.manual_scope()`",
    "pl.yield_": "`name = pl.yield_(value)`, the last statement of a loop or branch",
    "pl.cond": "the first line of a pl.while_ loop",
    "pl.func_attr": "the first lines of a function",
    "pl.split": "`optimizations=[pl.split(pl.SplitMode.UP_DOWN)]` of pl.at",
    "pl.cross_core_slot": "`optimizations=[pl.cross_core_slot(slot_num=2)]` of pl.at",
    "pl.dynamic": 'module code: `M = pl.dynamic("M")`',
}


def _operation(state: FunctionState, node: ast.Call, path: str) -> n.Expr:
    arguments = positional(state, node)
    keywords = named(state, node, frozenset({"attrs", "name"} if path in _WINDOW_ALLOCATION else {"attrs"}))
    shape, dtype = None, None
    if path.rpartition(".")[2].startswith("tpop_from"):
        shape, dtype = keywords.pop("shape", None), keywords.pop("dtype", None)
    if path in _WINDOW_ALLOCATION:
        _check_window_buffer(state, node)
    result = invoke(state, node, path, arguments, keywords, attributes(state, node), node.func)
    if shape is not None and dtype is not None and isinstance(result, n.OpCall):
        result = _popped(result, shape[0], dtype[0])
    _check_place(state, node, result)
    _check_capacity(state, node, result)
    return result


_WINDOW_ALLOCATION = frozenset({"pld.alloc_window_buffer", "pld.tensor.alloc_window_buffer"})


def _check_window_buffer(state: FunctionState, node: ast.Call) -> None:
    """E342: only HOST functions allocate window buffers, under the name of the variable."""
    name = next((k for k in node.keywords if k.arg == "name"), None)
    if name is not None:
        hint = "leave `name=` out: the buffer is called like the variable it is assigned to"
        state.fail("E342", "a window buffer takes its name from the variable", name.value, hint=hint)
    if state.level is None or state.level.name != "HOST":
        hint = "allocate it in a function with level=pl.Level.HOST (@pl.jit.host), and pass the window on"
        state.fail("E342", "window buffers are allocated in HOST functions", node, hint=hint)


def _popped(result: n.OpCall, shape: Any, dtype: Any) -> n.OpCall:
    """The older form `tpop(shape=, dtype=)` states the type in the call."""
    if isinstance(result.type, UnknownType) and isinstance(shape, n.MakeTuple) and isinstance(dtype, DType):
        return dataclasses.replace(result, type=TileType(shape.elements, dtype))
    return result


def _check_place(state: FunctionState, node: ast.Call, result: n.Expr) -> None:
    """E340: an orchestration function launches, it does not compute."""
    if state.func_type is not FunctionType.Orchestration or not isinstance(result, n.OpCall):
        return
    if not is_known(result.type):
        return
    layer, _, name = result.op.partition(".")
    if layer == "tensor" and name in _COMPUTING and state.inside("incore", "spmd", "hierarchy", "split_aiv") is None:
        hint = "put it into `with pl.at(level=pl.Level.CORE_GROUP):`"
        message = f"`pl.{result.op}` computes, but stands in an orchestration function outside a core"
        state.error("E340", message, node, hint=hint)


def _check_capacity(state: FunctionState, node: ast.Call, result: n.Expr) -> None:
    """E341: a tile that no chip can hold."""
    type_ = result.type
    if not isinstance(type_, TileType) or type_.memory_space is None:
        return
    capacity, dims = _LARGEST_BYTES.get(type_.memory_space.name), constant_dims(type_.shape)
    if capacity is None or dims is None or not isinstance(result, n.OpCall):
        return
    needed = type_.dtype.bits
    for extent in dims:
        needed *= extent
    needed //= 8
    if result.op in ("tile.load", "tile.create", "tile.full") and needed > capacity:
        message = f"this tile takes {needed} bytes, {type_.memory_space.name} has {capacity} at most"
        state.error("E341", message, node, hint="work on blocks in a loop, or use a narrower dtype")


# --- kernels of the program -------------------------------------------------------------------------------------------


def kernel_arguments(state: FunctionState, parts: list[ast.expr]) -> tuple[list[Argument], list[int]]:
    """The arguments of a kernel call and the positions wrapped in `pl.no_dep`."""
    arguments: list[Argument] = []
    free: list[int] = []
    for part in parts:
        if isinstance(part, ast.Starred):
            state.error("E002", "an unpacked argument is not part of the kernel language", part)
            continue
        inner = part
        wraps = isinstance(part, ast.Call) and _callee_path(state, part.func) in ("pl.no_dep", "pl.tensor.no_dep")
        if wraps and isinstance(part, ast.Call) and len(part.args) == 1:
            free.append(len(arguments))
            inner = part.args[0]
        arguments.append((expressions.expression(state, inner), inner))
    return arguments, free


_PLAIN_KEYWORDS = frozenset({"attrs", "device"})
_LAUNCH_KEYWORDS = frozenset(
    {"deps", "core_num", "dumps", "sync_start", "allow_early_resolve", "predicate", "optimizations"}
)


def self_call(state: FunctionState, node: ast.Call, name: str) -> n.Expr:
    """`self.name(...)`."""
    signature = signature_of(state, node.func, name)
    arguments, free = kernel_arguments(state, list(node.args))
    for keyword in node.keywords:
        if keyword.arg in _LAUNCH_KEYWORDS:
            hint = f"launch it: `result, tid = pl.submit(self.{name}, ..., {keyword.arg}=...)`"
            if keyword.arg in ("core_num", "sync_start"):
                hint = f"launch it: `result, tid = pl.spmd_submit(self.{name}, ..., core_num=...)`"
            message = f"`{keyword.arg}=` is not for a plain kernel call"
            state.fail("E332", message, keyword.value, hint=hint)
        if keyword.arg not in _PLAIN_KEYWORDS:
            message = f"`self.{name}` takes its arguments by position"
            state.fail("E330", message, keyword.value, hint=_call_line(signature))
    attrs = attributes(state, node)
    device = next((k for k in node.keywords if k.arg == "device"), None)
    if device is not None:
        attrs["device"] = plain(expressions.expression(state, device.value))
    return kernel_call(state, node, signature, arguments, free, attrs)


def signature_of(state: FunctionState, node: ast.AST, name: str) -> Signature:
    found = state.program.callee(name)
    if found is None:
        names = list(state.program.callee_names())
        hint = did_you_mean(name, names) or (f"kernels: {', '.join(names)}" if names else None)
        state.fail("E331", f"the program has no kernel `{name}`", node, hint=hint)
    return found


def _call_line(signature: Signature) -> str:
    parts = [f"{p.name}: {type_text(p.type)}" for p in signature.params]
    return f"`{signature.name}({', '.join(parts)})`"


def kernel_call(
    state: FunctionState,
    node: ast.AST,
    signature: Signature,
    arguments: list[Argument],
    free: list[int],
    attrs: dict[str, Any],
) -> n.FunctionCall:
    """A checked call of a program function."""
    check_arguments(state, node, signature, arguments)
    if free:
        attrs["arg_direction_overrides"] = [ArgDirection.NoDep if i in free else None for i in range(len(arguments))]
    args = tuple(a for a, _ in arguments)
    type_ = result_type(signature, args)
    return n.FunctionCall(callee=signature.name, args=args, attrs=attrs, type=type_, span=state.span(node))


def check_arguments(state: FunctionState, node: ast.AST, signature: Signature, arguments: list[Argument]) -> None:
    """E330 for a wrong count or an argument of another kind."""
    labels = [Label(signature.span, "defined here")] if signature.span is not None else []
    given, wanted = len(arguments), len(signature.params)
    if given != wanted:
        missing = [p.name for p in signature.params[given:]]
        note = f"missing: {', '.join(missing)}" if missing else None
        message = f"`{signature.name}` takes {wanted} arguments, got {given}"
        state.fail("E330", message, node, hint=_call_line(signature), labels=labels, note=note)
    for (value, where), param in zip(arguments, signature.params, strict=True):
        kinds = kind_name(value.type), kind_name(param.type)
        if is_known(value.type) and is_known(param.type) and kinds[0] != kinds[1]:
            message = f"`{param.name}` of `{signature.name}` is a {kinds[1]}, not a {kinds[0]}"
            state.error("E330", message, where, hint=_call_line(signature), labels=labels)


def result_type(signature: Signature, args: tuple[n.Expr, ...]) -> Type:
    """The type of a call: the callee's results with its dimension symbols replaced by the caller's extents."""
    if signature.returns is None:
        return UnknownType()
    extents: dict[n.Var, n.Expr] = {}
    for param, arg in zip(signature.params, args, strict=False):
        if isinstance(param.type, ScalarType):
            extents[param.var] = arg
        if isinstance(param.type, TensorType) and isinstance(arg.type, TensorType):
            for formal, actual in zip(param.type.shape, arg.type.shape, strict=False):
                if isinstance(formal, n.Var):
                    extents.setdefault(formal, actual)

    def visit(dim: n.Expr) -> n.Expr:
        match dim:
            case n.Var():
                return extents.get(dim, dim)
            case n.Binary():
                left, right = visit(dim.left), visit(dim.right)
                same = left is dim.left and right is dim.right
                return dim if same else dataclasses.replace(dim, left=left, right=right)
        return dim

    mapped = tuple(map_type(t, visit) for t in signature.returns)
    return mapped[0] if len(mapped) == 1 else TupleType(mapped)


def _kernel_call(state: FunctionState, node: ast.Call, kernel: KernelSource) -> Any:
    """A kernel called by its bare name."""
    if kernel.kind == "inline":
        return inlining.expand(state, node, kernel)
    arguments, free = kernel_arguments(state, list(node.args))
    attrs = attributes(state, node)
    ordered = _by_position(state, node, kernel, arguments)
    if state.program.specialise is None:
        state.fail("E331", f"`{kernel.name}` cannot be called from here", node.func)
    signature = state.program.specialise(kernel, tuple(a for a, _ in ordered), state.span(node))
    device = next((k for k in node.keywords if k.arg == "device"), None)
    if device is not None:
        attrs["device"] = plain(expressions.expression(state, device.value))
    return kernel_call(state, node, signature, ordered, free, attrs)


def _by_position(
    state: FunctionState, node: ast.Call, kernel: KernelSource, arguments: list[Argument]
) -> list[Argument]:
    """Keyword arguments of a jit dependency in the order of its parameters (2.11, rule 2)."""
    code = kernel.function.__code__
    names = [v for v in code.co_varnames[: code.co_argcount] if v != "self"]
    ordered: list[Argument | None] = [*arguments, *[None] * max(0, len(names) - len(arguments))]
    for keyword in node.keywords:
        if keyword.arg in _PLAIN_KEYWORDS:
            continue
        if keyword.arg in _LAUNCH_KEYWORDS and keyword.arg not in names:
            hint = "launch it with pl.submit / pl.spmd_submit, or put the keyword on the scope"
            state.fail("E332", f"`{keyword.arg}=` is not for a plain kernel call", keyword.value, hint=hint)
        if keyword.arg not in names:
            near = did_you_mean(str(keyword.arg), names)
            state.fail("E330", f"`{kernel.name}` has no parameter `{keyword.arg}`", keyword.value, hint=near)
        ordered[names.index(keyword.arg)] = (expressions.expression(state, keyword.value), keyword.value)
    missing = [name for name, found in zip(names, ordered, strict=False) if found is None]
    if missing or len(ordered) != len(names):
        message = f"`{kernel.name}` takes {len(names)} arguments, got {len(names) - len(missing) or len(ordered)}"
        if len(ordered) > len(names):
            message = f"`{kernel.name}` takes {len(names)} arguments, got {len(ordered)}"
        note = f"missing: {', '.join(missing)}" if missing else None
        state.fail("E330", message, node, hint=f"`{kernel.name}({', '.join(names)})`", note=note)
    return [a for a in ordered if a is not None]
