"""What a function does with its parameters: outputs never written or read too early, inputs that are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pypto_lab.frontend.context import FunctionState
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import Direction, FunctionType
from pypto_lab.ir.types import ShapedType, TensorType
from pypto_lab.ops.record import OPS, Effect

_VIEWS = frozenset({"tensor.slice", "tensor.reshape", "tensor.transpose", "tensor.view", "tensor.reinterpret_view"})
"""A window of a tensor is no use of its contents: it may be handed to a kernel that writes it."""
_KEEPS_STORAGE = frozenset(
    {"tensor.assemble", "tile.store", "tensor.slice", "tensor.reshape", "tensor.scatter_update", "tensor.fillpad"}
)
"""Results of these share the storage of an argument."""


def check(state: FunctionState, params: Sequence[n.Param], body: n.Body | None) -> None:
    """Reports W001, W002 and W003 for a body that was read without errors."""
    if body is None or state.reporter.errors:
        return
    _check_rebound(state, params, body)
    if state.func_type is not FunctionType.Inline:
        _check_order(state, params, body)


# --- W001: out = value ------------------------------------------------------------------------------------------------


def _check_rebound(state: FunctionState, params: Sequence[n.Param], body: n.Body) -> None:
    holders = {p.name: _holders(p.var, body) for p in params if p.direction is not Direction.In}
    for name, value, span in state.rebound:
        if name not in holders or _keeps(value, holders[name]):
            continue
        message = f"`{name} = ...` only gives the name another value; the output `{name}` is not written"
        state.warn("W001", message, span, hint=f"write `{name}[:] = ...`")


def _holders(var: n.Var, body: n.Body) -> set[n.Var]:
    """Variables that hold the output's own storage, found by following assignments until nothing changes."""
    found = {var}
    size = 0
    while len(found) != size:
        size = len(found)
        for stmt in _statements(body):
            for target, value in _flows(stmt):
                if _keeps(value, found):
                    found.add(target)
    return found


def _flows(stmt: n.Stmt) -> Iterator[tuple[n.Var, n.Expr]]:
    """Which value ends up in which variable."""
    match stmt:
        case n.Assign():
            yield stmt.var, stmt.value
        case n.For() | n.While():
            for arg in stmt.iter_args:
                yield arg, arg.init_value
            yield from _yielded(stmt.return_vars, stmt.body)
        case n.If():
            yield from _yielded(stmt.return_vars, stmt.then_body)
            yield from _yielded(stmt.return_vars, stmt.else_body)


def _yielded(targets: Sequence[n.Var], body: n.Body) -> Iterator[tuple[n.Var, n.Expr]]:
    last = body[-1] if body else None
    if isinstance(last, n.Yield):
        yield from zip(targets, last.values, strict=False)


def _keeps(value: n.Expr, holders: set[n.Var]) -> bool:
    """Whether a value is (or may be) the output's storage."""
    match value:
        case n.Var():
            return value in holders
        case n.TupleGetItem():
            return _keeps(value.tuple, holders)
        case n.FunctionCall() | n.Submit():
            return any(_keeps(a, holders) for a in value.args)
        case n.MakeTuple():
            return any(_keeps(e, holders) for e in value.elements)
        case n.OpCall():
            record = OPS.get(value.op)
            written = value.op in _KEEPS_STORAGE or record is None or record.torch.writes is not None
            return written and any(_keeps(a, holders) for a in value.args)
    return False


# --- W002, W003: directions -------------------------------------------------------------------------------------------


def _check_order(state: FunctionState, params: Sequence[n.Param], body: n.Body) -> None:
    directions = {p.var: p for p in params if isinstance(p.type, ShapedType)}
    settled: set[n.Var] = set()
    for use in _uses(state, body):
        param = directions.get(use.var)
        if param is None or use.var in settled:
            continue
        if use.effect is None:
            settled.add(use.var)
        elif param.direction is Direction.In and use.effect is not Effect.READ:
            settled.add(use.var)
            if isinstance(param.type, TensorType) and param.type.distributed:
                continue  # a window buffer is shared memory; peers write to it whatever the parameter says
            message = f"`{param.name}` is an input and is written"
            hint = f"declare it pl.Out or pl.InOut: `{param.name}: pl.InOut[...]`"
            state.warn("W003", message, use.call.span, hint=hint)
        elif param.direction is Direction.Out and use.effect is Effect.WRITE:
            settled.add(use.var)
        elif param.direction is Direction.Out:
            message = f"`{param.name}` is an Out parameter and is read before anything is written to it"
            state.warn("W002", message, use.call.span, hint=f"declare it pl.InOut: `{param.name}: pl.InOut[...]`")
            settled.add(use.var)


@dataclass(frozen=True)
class Use:
    """A variable as an argument and what the call does to it; `effect` None: it may do anything."""

    call: n.Expr
    var: n.Var
    effect: Effect | None


def _uses(state: FunctionState, body: n.Body) -> Iterator[Use]:
    """Each use of a variable as an argument, in order."""
    for stmt in _statements(body):
        for expr in _expressions(stmt):
            yield from _arguments(state, expr)


def _arguments(state: FunctionState, expr: n.Expr) -> Iterator[Use]:
    match expr:
        case n.OpCall():
            for arg in expr.args:
                yield from _arguments(state, arg)
            yield from _op_uses(expr)
        case n.FunctionCall() | n.Submit():
            for arg in expr.args:
                yield from _arguments(state, arg)
            yield from _call_uses(state, expr)
        case n.Binary():
            yield from _arguments(state, expr.left)
            yield from _arguments(state, expr.right)
        case n.Unary():
            yield from _arguments(state, expr.operand)


def _op_uses(expr: n.OpCall) -> Iterator[Use]:
    record = None if expr.op in _VIEWS else OPS.get(expr.op)
    for index, arg in enumerate(expr.args):
        if isinstance(arg, n.Var) and record is not None and index < len(record.args):
            effect = _effect(expr.op, index, record.args[index].effect)
            if effect is not Effect.NONE:
                yield Use(expr, arg, effect)


_BY_DIRECTION = {Direction.In: Effect.READ, Direction.Out: Effect.WRITE, Direction.InOut: Effect.READ_WRITE}


def _call_uses(state: FunctionState, expr: n.FunctionCall | n.Submit) -> Iterator[Use]:
    """What the callee's directions say; an inline callee states none."""
    signature = state.program.signatures.get(expr.callee)
    for index, arg in enumerate(expr.args):
        if not isinstance(arg, n.Var):
            continue
        known = signature is not None and signature.func_type is not FunctionType.Inline
        if known and signature is not None and index < len(signature.params):
            yield Use(expr, arg, _BY_DIRECTION[signature.params[index].direction])
        else:
            yield Use(expr, arg, None)


def _effect(op: str, index: int, stated: Effect) -> Effect:
    """An assemble by name is pure, but it is how an output is written."""
    record = OPS.get(op)
    if record is not None and record.torch.writes == index:
        return Effect.WRITE
    return Effect.WRITE if op in ("tensor.assemble",) and index == 0 else stated


def _statements(body: n.Body) -> Iterator[n.Stmt]:
    for stmt in body:
        yield stmt
        match stmt:
            case n.If():
                yield from _statements(stmt.then_body)
                yield from _statements(stmt.else_body)
            case n.For() | n.While() | n.Scope():
                yield from _statements(stmt.body)


def _expressions(stmt: n.Stmt) -> Iterator[n.Expr]:
    match stmt:
        case n.Assign():
            yield stmt.value
        case n.Eval():
            yield stmt.expr
        case n.If() | n.While():
            yield stmt.condition
