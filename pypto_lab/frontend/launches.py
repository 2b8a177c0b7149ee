"""Asynchronous launches: `pl.submit`, `pl.spmd_submit`, dependencies and predicates (`reference/language.md` 2.9)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from pypto_lab.frontend import calls, expressions
from pypto_lab.frontend.context import FunctionState
from pypto_lab.frontend.invoke import Argument
from pypto_lab.frontend.kernels import kernel_of
from pypto_lab.frontend.missing import MISSING
from pypto_lab.frontend.report import Abandoned
from pypto_lab.frontend.typing import is_known, kind_name
from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import ArgDirection
from pypto_lab.ir.types import ArrayType, ScalarType, TupleType, Type

_LARGEST_UNROLL = 4096


def submit(state: FunctionState, node: ast.Call) -> n.Submit:
    """`pl.submit(self.k, ...)` or `pl.spmd_submit(self.k, ..., core_num=n)`. Raises Abandoned after reporting."""
    path = state.path(node.func) or "pl.submit"
    spmd = path == "pl.spmd_submit"
    if not node.args:
        state.fail("E333", f"`{path}` needs the kernel to launch", node, hint=f"{path}(self.k, x, y)")
    arguments, free = calls.kernel_arguments(state, list(node.args[1:]))
    signature = _launched(state, node, path, arguments)
    core_num = _keyword(node, "core_num")
    if spmd and core_num is None:
        state.fail(
            "E333", "`pl.spmd_submit` needs `core_num`", node, hint=f"{path}(self.{signature.name}, ..., core_num=8)"
        )
    _check_keywords(state, node, path, spmd)
    calls.check_arguments(state, node, signature, arguments)
    attrs = calls.attributes(state, node)
    if free:
        attrs["arg_direction_overrides"] = [ArgDirection.NoDep if i in free else None for i in range(len(arguments))]
    args = tuple(a for a, _ in arguments)
    return n.Submit(
        callee=signature.name,
        args=args,
        deps=_buffered(state, node, dependencies(state, node)),
        dumps=variables(state, node, "dumps"),
        core_num=None if core_num is None else expressions.expression(state, core_num),
        sync_start=flag(state, node, "sync_start"),
        allow_early_resolve=flag(state, node, "allow_early_resolve"),
        predicate=predicate(state, node),
        attrs=attrs,
        type=_launch_type(calls.result_type(signature, args)),
        span=state.span(node),
    )


def _launched(state: FunctionState, node: ast.Call, path: str, arguments: list[Argument]) -> Any:
    """The signature of the kernel a submit names: `self.k`, or in a jit body the dependency's bare name."""
    target = node.args[0]
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
        return calls.signature_of(state, target, target.attr)
    kernel = kernel_of(state.python_value(target)) if isinstance(target, (ast.Name, ast.Attribute)) else None
    if kernel is not None and state.program.specialise is not None:
        return state.program.specialise(kernel, tuple(a for a, _ in arguments), state.span(node))
    hint = f"{path}(self.k, ...)"
    return state.fail("E333", f"the first argument of `{path}` is `self.<kernel>`", target, hint=hint)


def _launch_type(result: Type) -> Type:
    if not is_known(result):
        return result
    results = result.elements if isinstance(result, TupleType) else (result,)
    return TupleType((*results, calls.TASK))


_KEYWORDS = frozenset({"deps", "dumps", "allow_early_resolve", "predicate", "attrs"})


def _check_keywords(state: FunctionState, node: ast.Call, path: str, spmd: bool) -> None:
    known = _KEYWORDS | ({"core_num", "sync_start"} if spmd else set())
    for keyword in node.keywords:
        if keyword.arg in known:
            continue
        hint = (
            "use pl.spmd_submit" if keyword.arg in ("core_num", "sync_start") else f"known: {', '.join(sorted(known))}"
        )
        state.fail("E333", f"`{path}` has no keyword `{keyword.arg}`", keyword.value, hint=hint)


def _keyword(node: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in node.keywords if k.arg == name), None)


def flag(state: FunctionState, node: ast.Call, name: str) -> bool:
    """A keyword that is True or False."""
    found = _keyword(node, name)
    if found is None:
        return False
    value = calls.plain(expressions.value(state, found))
    if not isinstance(value, bool):
        state.fail("E315", f"`{name}` is True or False", found)
    return value


def variables(state: FunctionState, node: ast.Call, name: str) -> tuple[n.Expr, ...]:
    """A keyword that is a list of named values."""
    found = _keyword(node, name)
    if found is None:
        return ()
    if not isinstance(found, (ast.List, ast.Tuple)):
        state.fail("E315", f"`{name}` is a list of names", found, hint=f"{name}=[x, y]")
    return tuple(expressions.expression(state, e) for e in found.elts)


# --- dependencies -----------------------------------------------------------------------------------------------------


def dependencies(state: FunctionState, node: ast.Call) -> tuple[n.Expr, ...]:
    """The entries of `deps=[...]`, a comprehension unrolled. E334 is reported at the entry at fault."""
    found = _keyword(node, "deps")
    if found is None:
        return ()
    entries: list[tuple[n.Expr, ast.expr]] = []
    for entry in _entries(state, found):
        value = expressions.expression(state, entry)
        if _is_task(value.type) or not is_known(value.type):
            entries.append((value, entry))
            continue
        hint = "launch with `result, tid = pl.submit(...)` or `with pl.at(...) as tid:`, and pass `tid`"
        state.error("E334", f"a dependency is a TASK_ID, this is a {kind_name(value.type)}", entry, hint=hint)
    whole = [e for v, e in entries if isinstance(v.type, ArrayType)]
    if whole and len(entries) > 1:
        hint = "pass the array alone, or list its elements: deps=[tids[0], tids[1]]"
        state.error("E334", "a whole array of task ids stands alone in `deps`", whole[0], hint=hint)
    return tuple(v for v, _ in entries)


def _is_task(type_: Type) -> bool:
    return isinstance(type_, (ScalarType, ArrayType)) and type_.dtype is dtypes.TASK_ID


def _entries(state: FunctionState, node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.List() | ast.Tuple():
            for element in node.elts:
                yield from _entries(state, element) if isinstance(element, ast.ListComp) else (element,)
        case ast.ListComp() | ast.GeneratorExp():
            yield from _unrolled(state, node)
        case _:
            binding = state.names.get(node.id) if isinstance(node, ast.Name) else None
            if binding is not None and isinstance(binding.var.type, ArrayType):
                yield node
                return
            state.fail("E334", "`deps` is a list", node, hint="deps=[tid]")


def _unrolled(state: FunctionState, node: ast.ListComp | ast.GeneratorExp) -> Iterator[ast.expr]:
    """The elements of `[tids[i] for i in range(K)]` with the index replaced by each number."""
    clause = node.generators[0]
    numbers = _range(state, clause.iter)
    if len(node.generators) != 1 or clause.ifs or not isinstance(clause.target, ast.Name) or numbers is None:
        hint = "deps=[tids[i] for i in range(4)]"
        state.fail("E334", "this comprehension cannot be unrolled", node, hint=hint)
    for number in numbers:
        yield _Replace(clause.target.id, number).visit(_copied(node.elt))


def _range(state: FunctionState, node: ast.expr) -> range | None:
    """The numbers of Python's `range` over constants."""
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    plain_range = isinstance(node.func, ast.Name) and node.func.id == "range"
    if not plain_range and state.path(node.func) not in ("pl.range", "pl.unroll"):
        return None
    bounds = [state.python_value(a) for a in node.args]
    if not 1 <= len(bounds) <= 3 or any(b is MISSING or not isinstance(b, int) for b in bounds):
        return None
    if len(bounds) == 3 and bounds[2] == 0:
        return None
    numbers = range(*bounds)
    return numbers if len(numbers) <= _LARGEST_UNROLL else None


def _copied(node: ast.expr) -> ast.expr:
    import copy

    return copy.deepcopy(node)


class _Replace(ast.NodeTransformer):
    """Puts a number where a name stands."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.copy_location(ast.Constant(self.number), node) if node.id == self.name else node


def _buffered(state: FunctionState, node: ast.Call, deps: tuple[n.Expr, ...]) -> tuple[n.Expr, ...]:
    """Element entries go through a temporary array of task ids, as the compiler does it."""
    if not any(isinstance(d, n.OpCall) and d.op == "array.get_element" for d in deps):
        return deps
    span = state.span(node)
    type_ = ArrayType(n.const(len(deps)), dtypes.TASK_ID)
    buffer = state.names.temporary("_submit_deps_buf", type_, span)
    size = n.const(len(deps))
    create = n.OpCall(op="array.create", args=(size,), kwargs={"dtype": dtypes.TASK_ID}, type=type_, span=span)
    state.emit(n.Assign(var=buffer, value=create, span=span))
    for place, entry in enumerate(deps):
        update = n.OpCall(op="array.update_element", args=(buffer, n.const(place), entry), type=type_, span=span)
        state.emit(n.Assign(var=buffer, value=update, span=span))
    return (buffer,)


# --- predicates -------------------------------------------------------------------------------------------------------


def predicate(state: FunctionState, node: ast.Call) -> n.Expr | None:
    """`predicate=(t[i] > 0)`: one element of a signed integer tensor against an integer literal."""
    found = _keyword(node, "predicate")
    if found is None:
        return None
    result = expressions.expression(state, found)
    if not is_known(result.type):
        raise Abandoned
    hint = "predicate=(flags[0] > 0), with an integer tensor `flags`"
    if not isinstance(result, n.Binary) or result.op not in ("Eq", "Ne", "Lt", "Le", "Gt", "Ge"):
        state.fail("E335", "a predicate is one comparison", found, hint=hint)
    element = result.left.operand if isinstance(result.left, n.Unary) and result.left.op == "Cast" else result.left
    if not (isinstance(element, n.OpCall) and element.op == "tensor.read"):
        state.fail("E335", "a predicate compares one element of a tensor", found, hint=hint)
    dtype = n.scalar_dtype(element)
    if dtype is None or not dtype.is_signed or not dtype.is_integer:
        state.fail("E335", "the tensor of a predicate holds signed integers", found, hint=hint)
    if arith.constant(result.right) is None:
        state.fail("E335", "a predicate compares with an integer literal", found, hint=hint)
    return n.Binary(op=result.op, left=element, right=result.right, type=n.BOOL, span=result.span)
