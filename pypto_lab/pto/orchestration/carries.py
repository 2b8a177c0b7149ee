"""What loops and branches of an orchestration hand on: C++ variables that are declared before and assigned inside."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pypto_lab.ir import arith
from pypto_lab.ir import dtypes as d
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import ForKind
from pypto_lab.ir.types import ArrayType, ScalarType, TensorType
from pypto_lab.ir.visitor import children, walk
from pypto_lab.pto.orchestration.expressions import operand, scalar
from pypto_lab.pto.orchestration.homes import yielded
from pypto_lab.pto.orchestration.refusing import NO_FORM
from pypto_lab.pto.orchestration.state import Fence, State, defined_in
from pypto_lab.pto.orchestration.text import Place


@dataclass(frozen=True, slots=True)
class Carry:
    """A variable that the end of a body assigns. `name` is None where the value keeps its name: nothing to assign.

    `slot` is the element of a fence that one trip of a parallel loop fills.
    """

    var: n.Var
    name: str | None
    fence: Fence | None = None
    slot: str | None = None


def trip_count(loop: n.For) -> int | None:
    """The number of trips of a loop with constant bounds."""
    bounds = [arith.constant(x) for x in (loop.start, loop.stop, loop.step)]
    if None in bounds or not bounds[2]:
        return None
    start, stop, step = (int(x) for x in bounds if x is not None)
    return len(range(start, stop, step))


def fence_size(state: State, loop: n.For, place: int) -> int | None:
    """The size of the array of task ids that a carried id of a loop in a manual scope stands for, else None.

    A parallel loop's carried id is one for each trip: a task after the loop waits for all of them. A sequential loop
    around it hands the array on.

    Raises LabError (E680) for a parallel loop whose number of trips is not known.
    """
    argument = loop.iter_args[place]
    if not state.manual or not isinstance(argument.type, ScalarType) or argument.type.dtype is not d.TASK_ID:
        return None
    if loop.kind is ForKind.Parallel:
        trips = trip_count(loop)
        if trips is None:
            state.refuse(
                NO_FORM,
                f"the parallel loop carries the task id `{argument.name}`, and its number of trips is not a constant",
                loop.span,
                "give the loop constant bounds, or keep the ids in a `pl.array`",
            )
        return trips
    values = yielded(loop.body)
    value = values[place] if place < len(values) else None
    for inner in (node for node in walk(loop) if isinstance(node, n.For) and node is not loop):
        if value in inner.return_vars:
            return fence_size(state, inner, inner.return_vars.index(value))
    return None


def open_loop(state: State, loop: n.For | n.While) -> list[Carry]:
    """Declares what a loop carries before it begins, and binds its arguments and results to that."""
    carries = []
    for place, argument in enumerate(loop.iter_args):
        size = fence_size(state, loop, place) if isinstance(loop, n.For) else None
        if size is not None and isinstance(loop, n.For):
            carries.append(_fence_carry(state, loop, argument, size))
        elif isinstance(argument.type, TensorType):
            carries.append(_tensor_carry(state, argument))
        elif isinstance(argument.type, ArrayType):
            carries.append(_array_carry(state, loop, argument))
        else:
            carries.append(_scalar_carry(state, argument))
    return carries


def close_loop(state: State, loop: n.For | n.While, carries: list[Carry]) -> None:
    """Binds the results of a loop to what its arguments became."""
    for var, argument, carry in zip(loop.return_vars, loop.iter_args, carries, strict=False):
        if carry.fence is not None:
            state.bind_fence(var, carry.fence)
        elif isinstance(var.type, TensorType):
            continue  # tensors go by their homes
        elif carry.name is not None:
            state.bind(var, carry.name)
        else:
            state.bind(var, state.value(argument, loop.span))


def _tensor_carry(state: State, argument: n.IterArg) -> Carry:
    if state.homes.of(argument) is not argument:
        return Carry(argument, None)
    name = state.names.take(argument.name)
    state.text.add(f"ChipTensor {name} = {state.tensor(argument.init_value, argument.span)};")
    state.bind(argument, name)
    return Carry(argument, name)


def _scalar_carry(state: State, argument: n.IterArg) -> Carry:
    kind = state.scalar_type(argument.type, argument.span)
    name = state.names.take(argument.name)
    state.text.add(f"{kind} {name} = {scalar(state, argument.init_value)};")
    state.bind(argument, name)
    return Carry(argument, name)


def _fence_carry(state: State, loop: n.For, argument: n.IterArg, size: int) -> Carry:
    """Ids of all trips. A trip reads what the array held before the loop, and fills its own slot."""
    name = state.names.take(argument.name)
    fence = Fence(name, size)
    before = state.find_fence(argument.init_value)
    state.text.add(f"PTO2TaskId {name}[{size}];")
    start = "PTO2TaskId::invalid()" if before is None else f"{before.name}[k]"
    if before is None:
        start = scalar(state, argument.init_value)
    state.text.add(f"for (int64_t k = 0; k < {size}; ++k) {name}[k] = {start};")
    parallel = loop.kind is ForKind.Parallel
    state.bind_fence(argument, before if before is not None and parallel else fence)
    return Carry(argument, name, fence, _slot(state, loop) if parallel else None)


def _slot(state: State, loop: n.For) -> str:
    """The number of a trip. The loop's variable is bound only when its head is written; its name is asked for later."""
    start, step = arith.constant(loop.start), arith.constant(loop.step)
    return f"({{}} - {start}) / {step}" if start or step != 1 else "{}"


def _array_carry(state: State, loop: n.For | n.While, argument: n.IterArg) -> Carry:
    """An array changes in place where nothing needs it as it was; else the loop gets a copy."""
    assert isinstance(argument.type, ArrayType)
    size = arith.constant(argument.type.extent) or 0
    text = scalar(state, argument.init_value)
    if is_last_use(state, argument.init_value, loop):
        fence = Fence(text, size)
    else:
        fence = Fence(state.names.take(argument.name), size)
        copy_array(state, argument.type, fence.name, text, size)
    state.bind_fence(argument, fence)
    return Carry(argument, fence.name, fence)


def copy_array(state: State, type_: ArrayType, name: str, source: str, size: int) -> None:
    kind = state.scalar_type(ScalarType(type_.dtype), None)
    state.text.add(f"{kind} {name}[{size}];")
    state.text.add(f"for (int64_t k = 0; k < {size}; ++k) {name}[k] = {source}[k];")


def is_last_use(state: State, expr: n.Expr, stmt: n.Stmt) -> bool:
    """Whether nothing after `stmt`, and no other trip of a loop around it, uses the array of a variable as it is now.

    Other variables may stand for the same C++ array: what a loop carries, another name for it.
    """
    fence = state.find_fence(expr)
    if fence is None:
        return True
    sharing = {var for frame in state.fences for var, other in frame.items() if other.name == fence.name}
    return all(_last_use(state.function.body or (), var, stmt) is True for var in sharing)


def _last_use(body: n.Body, var: n.Var, stmt: n.Stmt) -> bool | None:
    """Whether `var` is not read any more once `stmt` has run; None where `stmt` is not in this body.

    A loop around `stmt` that reads `var` and does not make it reads it again in its next trip.
    """
    for place, current in enumerate(body):
        if current is stmt:
            return not any(_mentions(later, var) for later in body[place + 1 :])
        for part in _bodies(current):
            found = _last_use(part, var, stmt)
            if found is None:
                continue
            loops = isinstance(current, (n.For, n.While)) and not _makes(current, var)
            if loops and any(_mentions(inner, var) for inner in part):
                return False
            return found and not any(_mentions(later, var) for later in body[place + 1 :])
    return None


def _bodies(stmt: n.Stmt) -> list[n.Body]:
    match stmt:
        case n.If():
            return [stmt.then_body, stmt.else_body]
        case n.For() | n.While() | n.Scope():
            return [stmt.body]
    return []


def _mentions(stmt: n.Stmt, var: n.Var) -> bool:
    """Whether a statement reads a variable. A read of what a loop carries is no read of what it started with."""
    stack: list[object] = [stmt]
    while stack:
        node = stack.pop()
        if node is var:
            return True
        if isinstance(node, (n.For, n.While)):
            stack += [argument.init_value for argument in node.iter_args]
        if not isinstance(node, n.IterArg):
            stack += [child for child in children(node) if child is var or not isinstance(child, n.IterArg)]
    return False


def _makes(loop: n.For | n.While, var: n.Var) -> bool:
    inside = {*loop.iter_args, *defined_in(loop.body)}
    return var in inside


# --- assigning --------------------------------------------------------------------------------------------------------


def assign(state: State, carries: list[Carry], values: tuple[n.Expr, ...], loop_var: str | None) -> None:
    """The end of a trip: every carried variable gets its next value, all of them from the values before."""
    moves: list[tuple[Carry, str, str]] = []
    for carry, value in zip(carries, values, strict=False):
        if carry.name is None:
            continue
        if carry.fence is not None:
            _assign_fence(state, carry, value, loop_var)
            continue
        if isinstance(value.type, TensorType):
            moves.append((carry, "ChipTensor", state.tensor(value, value.span)))
        else:
            moves.append((carry, state.scalar_type(carry.var.type, value.span), scalar(state, value)))
    moves = [move for move in moves if move[0].name != move[2]]
    for place, (carry, kind, text) in enumerate(moves):
        assert carry.name is not None
        before = [other.name for other, _, _ in moves[:place]]
        if any(re.search(rf"\b{re.escape(name)}\b", text) for name in before if name is not None):
            kept = state.names.take(f"{carry.name}_next")
            at = next(i for i, move in enumerate(moves) if move[0] is carry)
            moves[at] = (carry, kind, kept)
            state.text.add(f"{kind} {kept} = {text};")
    for carry, _, text in moves:
        state.text.add(f"{carry.name} = {text};")


def _assign_fence(state: State, carry: Carry, value: n.Expr, loop_var: str | None) -> None:
    assert carry.fence is not None
    source = state.find_fence(value)
    if source is not None and source.name == carry.fence.name:
        return
    if carry.slot is not None and source is None:
        state.text.add(f"{carry.fence.name}[{carry.slot.format(loop_var)}] = {scalar(state, value)};")
    elif source is not None:
        size = min(source.size, carry.fence.size)
        state.text.add(f"for (int64_t k = 0; k < {size}; ++k) {carry.fence.name}[k] = {source.name}[k];")
    else:
        state.text.add(
            f"for (int64_t k = 0; k < {carry.fence.size}; ++k) {carry.fence.name}[k] = {operand(state, value)};"
        )


def open_branch(state: State, stmt: n.If, before: Place) -> list[Carry]:
    """Declares the results of a branch before it; a tensor that both arms leave as it is needs none."""
    carries = []
    for var in stmt.return_vars:
        if isinstance(var.type, TensorType):
            carries.append(_tensor_result(state, stmt, var, before))
        elif isinstance(var.type, ArrayType):
            message = f"the branch chooses between arrays (`{var.name}`), and C++ arrays cannot be assigned"
            state.refuse(NO_FORM, message, stmt.span, "update elements of one array in both arms")
        else:
            kind = state.scalar_type(var.type, stmt.span)
            name = state.names.take(var.name)
            before.add(f"{kind} {name}{' = PTO2TaskId::invalid()' if kind == 'PTO2TaskId' else ''};")
            state.bind(var, name)
            carries.append(Carry(var, name))
    return carries


def _tensor_result(state: State, stmt: n.If, var: n.Var, before: Place) -> Carry:
    if state.homes.of(var) is not var:
        return Carry(var, None)
    name = state.names.take(var.name)
    ends = [yielded(stmt.then_body), yielded(stmt.else_body)]
    place = stmt.return_vars.index(var)
    reachable = [state.find(home) for end in ends if (home := state.homes.of(end[place])) is not None]
    external = [state.find(p.var) for p in state.function.params if isinstance(p.type, TensorType)]
    start = next((text for text in (*reachable, *external) if text is not None), None)
    before.add(f"ChipTensor {name}{'' if start is None else f' = {start}'};  // one of the arms sets it")
    state.bind(var, name)
    return Carry(var, name)
