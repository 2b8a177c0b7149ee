"""Tasks of an orchestration: their arguments, what they wait for, and how they are submitted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pypto_lab.ir import arith
from pypto_lab.ir import dtypes as d
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.ir.enums import ArgDirection
from pypto_lab.ir.types import ScalarType, TensorType
from pypto_lab.pto.orchestration.expressions import extents, scalar, task_argument
from pypto_lab.pto.orchestration.launches import Argument, Launch, core_of, launch_of
from pypto_lab.pto.orchestration.refusing import BAD_PREDICATE, NO_TYPE
from pypto_lab.pto.orchestration.state import Fence, State
from pypto_lab.pto.orchestration.tensors import allocate, declare_info

_ADD = {
    ArgDirection.Input: "add_input",
    ArgDirection.Output: "add_output",
    ArgDirection.OutputExisting: "add_output",
    ArgDirection.InOut: "add_inout",
    ArgDirection.NoDep: "add_no_dep",
}
_OPERATORS = {"Eq": "EQ", "Ne": "NE", "Gt": "GT", "Lt": "LT", "Ge": "GE", "Le": "LE"}
_MIRRORED = {"EQ": "EQ", "NE": "NE", "GT": "LT", "LT": "GT", "GE": "LE", "LE": "GE"}
NO_KERNEL_ID = "INVALID_KERNEL_ID"
BLOCK_COUNT = {"a2a3": "set_block_num", "a5": "set_core_num"}
"""The launch specification's method for the number of blocks, which the two runtimes name differently."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A task in the text. `outputs` is the C++ name of what its submission gave back, None where nothing needs it."""

    launch: Launch
    outputs: str | None

    @property
    def allocated(self) -> tuple[Argument, ...]:
        """Outputs that the runtime allocated, in the order `get_ref` counts them."""
        return tuple(a for a in self.launch.tensors if a.value is None)


def submit(state: State, call: n.FunctionCall | n.Submit, keeps_id: bool) -> Submitted:
    """Writes one task. `keeps_id`: whether something needs its task id."""
    launch = launch_of(call, state.program)
    task = f"params_t{state.tasks}"
    number, state.tasks = state.tasks, state.tasks + 1
    late = [stmt for a in call.args if isinstance(a, n.Var) and (stmt := state.postponed.pop(a, None)) is not None]
    allocate(state, late)
    state.text.add()
    state.text.add(f"// {number}: {_described(launch)}")
    state.text.add(f"CoreTaskArgs {task};")
    _add_arguments(state, launch, task)
    _add_dumps(state, call, task)
    _add_launch(state, launch, task)
    _add_dependencies(state, task, call)
    if isinstance(call, n.Submit) and call.predicate is not None:
        _add_predicate(state, task, call.predicate, call)
    if (isinstance(call, n.Submit) and call.allow_early_resolve) or call.attrs.get("allow_early_resolve"):
        state.text.add(f"{task}.set_allow_early_resolve(true);")
    started = _start(state, launch, task, number)
    kept = keeps_id or any(a.value is None for a in launch.tensors)
    if not kept:
        state.text.add(f"{started};")
        return Submitted(launch, None)
    outputs = state.names.take(f"task_{number}_outs")
    state.text.add(f"TaskOutputTensors {outputs} = {started};")
    return Submitted(launch, outputs)


def _described(launch: Launch) -> str:
    members = ", ".join(
        f"{k.name} ({core_of(k)}{', both lanes' if _runs_on_both(launch, k) else ''})" for k in launch.kernels
    )
    return members if launch.wrapper is None else f"{launch.wrapper.name}: {members}"


def _runs_on_both(launch: Launch, kernel: n.Function) -> bool:
    return launch.both_lanes and kernel is launch.vector


def _add_arguments(state: State, launch: Launch, task: str) -> None:
    """Tensors first, then scalars, as the kernels' argument words are laid out."""
    for argument in launch.tensors:
        if argument.value is None:
            assert isinstance(argument.param.type, TensorType)
            info = declare_info(state, argument.param.type, argument.param.name, argument.param.type.shape)
            state.text.add(f"{task}.add_output({info});")
        else:
            state.text.add(f"{task}.{_ADD[argument.direction]}({state.tensor(argument.value, launch.call.span)});")
    for argument in launch.scalars:
        if not isinstance(argument.param.type, ScalarType) or argument.value is None:
            message = f"the parameter `{argument.param.name}` is neither a tensor nor a scalar"
            state.refuse(NO_TYPE, message, argument.param.span or launch.call.span)
        text = task_argument(state, argument.value, argument.param.type.dtype)
        state.text.add(f"{task}.add_scalar({text});")


def _add_dumps(state: State, call: n.FunctionCall | n.Submit, task: str) -> None:
    wanted = [*(call.dumps if isinstance(call, n.Submit) else ()), *_expressions(call.attrs.get("dump_vars"))]
    given = [a for a in call.args if any(a is w for w in wanted)]
    if given:
        state.text.add(f"{task}.dump({', '.join(state.tensor(g, call.span) for g in given)});")


def _add_launch(state: State, launch: Launch, task: str) -> None:
    blocks = launch.block_num
    if blocks is None:
        return
    known = arith.constant(blocks)
    text = str(known) if known is not None else f"static_cast<int16_t>({scalar(state, arith.as_expr(blocks))})"
    state.text.add(f"{task}.launch_spec.{BLOCK_COUNT[state.arch]}({text});")
    if launch.together:
        state.text.add(f"{task}.launch_spec.set_require_sync_start(true);")


def _start(state: State, launch: Launch, task: str, number: int) -> str:
    """The expression that submits: one core's kernel, or a set of kernels for the cores of a cluster."""
    cube, vector = launch.cube, launch.vector
    if vector is not None and cube is None and not launch.both_lanes:
        return f"rt_submit_aiv_task({state.kernel_ids[vector.name]}, {task})"
    if cube is not None and vector is None:
        return f"rt_submit_aic_task({state.kernel_ids[cube.name]}, {task})"
    assert vector is not None
    lane = str(state.kernel_ids[vector.name])
    cube_id = NO_KERNEL_ID if cube is None else str(state.kernel_ids[cube.name])
    mixed = state.names.take(f"mixed_{number}")
    state.text.add(f"MixedKernels {mixed} = {{{cube_id}, {lane}, {lane if launch.both_lanes else NO_KERNEL_ID}}};")
    return f"rt_submit_task({mixed}, {task})"


# --- dependencies -----------------------------------------------------------------------------------------------------


def _add_dependencies(state: State, task: str, call: n.FunctionCall | n.Submit) -> None:
    stated = call.deps if isinstance(call, n.Submit) else ()
    write_dependencies(state, task, stated, _expressions(call.attrs.get("compiler_manual_dep_edges")))


def write_dependencies(
    state: State, task: str, stated: Iterable[n.Expr], derived: Iterable[n.Expr] = ()
) -> tuple[str, bool] | None:
    """The ids a task waits for: (name of their count, whether at least one is certain); None where there are none.

    A derived edge whose id is out of reach is left out: it only adds order. A stated one is an error (E682).
    """
    edges: dict[str, tuple[Fence | None, bool]] = {}
    for expr in stated:
        _add_edge(state, edges, expr)
    for expr in derived:
        try:
            _add_edge(state, edges, expr)
        except LabError:
            continue
    if not edges:
        return None
    array = state.names.take(f"{task}_deps")
    count = state.names.take(f"{task}_deps_count")
    size = sum(1 if fence is None else fence.size for fence, _ in edges.values())
    state.text.add(f"PTO2TaskId {array}[{size}];")
    state.text.add(f"uint32_t {count} = 0;")
    for text, (fence, certain) in edges.items():
        if fence is not None:
            with state.text.block(f"for (int64_t k = 0; k < {fence.size}; ++k)"):
                state.text.add(f"if ({text}[k].is_valid()) {array}[{count}++] = {text}[k];")
        elif certain:
            state.text.add(f"{array}[{count}++] = {text};")
        else:
            state.text.add(f"if ({text}.is_valid()) {array}[{count}++] = {text};")
    state.text.add(f"{task}.set_dependencies({array}, {count});")
    return count, any(certain for _, certain in edges.values())


def _add_edge(state: State, edges: dict[str, tuple[Fence | None, bool]], expr: n.Expr) -> None:
    if isinstance(expr, n.OpCall) and expr.op == "system.task_invalid":
        return
    fence = state.find_fence(expr)
    text = scalar(state, expr)
    if text == "PTO2TaskId::invalid()":
        return
    edges.setdefault(text, (fence, fence is None and expr in state.fresh))


def dummy(state: State, call: n.OpCall, var: n.Var | None) -> None:
    """A task without work that waits for others. One whose ids may all be invalid is only submitted if one is valid."""
    task = state.names.take(f"params_fence_{state.tasks}")
    state.tasks += 1
    state.text.add()
    state.text.add(f"CoreTaskArgs {task};")
    edges = write_dependencies(state, task, _expressions(call.kwargs.get("deps")))
    name = None if var is None else state.names.take(var.name)
    submitted = f"rt_submit_dummy_task({task})"
    if edges is None or edges[1]:
        state.text.add(f"{submitted};" if name is None else f"PTO2TaskId {name} = {submitted}.task_id();")
        if var is not None:
            state.fresh.add(var)
    else:
        if name is not None:
            state.text.add(f"PTO2TaskId {name} = PTO2TaskId::invalid();")
        with state.text.block(f"if ({edges[0]} > 0)"):
            state.text.add(f"{submitted};" if name is None else f"{name} = {submitted}.task_id();")
    if var is not None and name is not None:
        state.bind(var, name)


def _expressions(value: object) -> list[n.Expr]:
    if value is None:
        return []
    values: Sequence[object] = value if isinstance(value, (list, tuple)) else (value,)
    return [
        v
        for item in values
        for v in (item.elements if isinstance(item, n.MakeTuple) else (item,))
        if isinstance(v, n.Expr)
    ]


# --- predicates -------------------------------------------------------------------------------------------------------


def _add_predicate(state: State, task: str, predicate: n.Expr, call: n.Submit) -> None:
    """`tensor[indices] <op> integer`, which the scheduler asks when the task is ready; mirrored, it is turned round."""
    found = _comparison(predicate)
    if found is None:
        state.refuse(
            BAD_PREDICATE,
            "a predicate compares one element of an integer tensor with an integer literal",
            predicate.span or call.span,
            "write it as `tensor[index] > 0`; put anything richer into a flag that a kernel before computes",
        )
    element, op, target = found
    indices = element.args[1].elements if isinstance(element.args[1], n.MakeTuple) else (element.args[1],)
    name = state.names.take(f"{task}_predicate")
    state.text.add(f"CoreTaskPredicate {name};")
    state.text.add(f"{name}.operand.tensor = &{state.tensor(element.args[0], call.span)};")
    state.text.add(f"{name}.operand.ndims = {len(indices)};")
    listed = extents(state, indices)[1:-1].split(", ")
    for axis, index in enumerate(listed):
        state.text.add(f"{name}.operand.indices[{axis}] = {index};")
    state.text.add(f"{name}.op = PredicateOp::{op};")
    state.text.add(f"{name}.target = {target};")
    state.text.add(f"{task}.set_predicate({name});")


def _comparison(predicate: n.Expr) -> tuple[n.OpCall, str, int] | None:
    if not isinstance(predicate, n.Binary) or predicate.op not in _OPERATORS:
        return None
    op = _OPERATORS[predicate.op]
    left, right = _stripped(predicate.left), _stripped(predicate.right)
    if isinstance(left, n.OpCall) and left.op == "tensor.read":
        target = arith.constant(right)
        return None if target is None or not _is_integer(left) else (left, op, target)
    if isinstance(right, n.OpCall) and right.op == "tensor.read":
        target = arith.constant(left)
        return None if target is None or not _is_integer(right) else (right, _MIRRORED[op], target)
    return None


def _stripped(expr: n.Expr) -> n.Expr:
    while isinstance(expr, n.Unary) and expr.op == "Cast":
        expr = expr.operand
    return expr


def _is_integer(element: n.OpCall) -> bool:
    dtype = n.scalar_dtype(element)
    return dtype is not None and dtype.is_integer and dtype.is_signed and dtype is not d.BOOL
