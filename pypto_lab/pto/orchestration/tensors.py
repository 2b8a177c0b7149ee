"""Tensors of an orchestration: allocation in batches, windows and other views, single elements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.types import ScalarType, TensorType
from pypto_lab.ir.visitor import walk
from pypto_lab.pto.orchestration.expressions import extents, operand, scalar
from pypto_lab.pto.orchestration.homes import IN_PLACE
from pypto_lab.pto.orchestration.launches import launch_of
from pypto_lab.pto.orchestration.pipe_buffers import is_pipe_buffer, pipe_buffer_elements
from pypto_lab.pto.orchestration.refusing import NO_FORM, NO_TYPE
from pypto_lab.pto.orchestration.state import State
from pypto_lab.pto.orchestration.types import DATA_TYPES


def is_create(stmt: n.Stmt) -> bool:
    return isinstance(stmt, n.Assign) and isinstance(stmt.value, n.OpCall) and stmt.value.op == "tensor.create"


def creates_at_entry(state: State, body: n.Body) -> list[n.Assign]:
    """The tensors of a body that can be allocated where it begins: their extents need nothing the body computes."""
    inside: set[n.Var] = set()
    for stmt in body:
        if isinstance(stmt, n.Assign):
            inside.add(stmt.var)
        elif isinstance(stmt, (n.If, n.For, n.While)):
            inside.update(stmt.return_vars)
    return [s for s in body if isinstance(s, n.Assign) and is_create(s) and not _needs(state, s) & inside]


def _needs(state: State, stmt: n.Assign) -> set[n.Var]:
    """The variables that the extents of a created tensor are made of."""
    blocks = _blocks_of_pipes(state, stmt.var)
    read = [stmt.value, *([blocks[1]] if blocks is not None else [])]
    return {v for expr in read for v in walk(expr) if isinstance(v, n.Var)}


def postpone(state: State, stmt: n.Assign) -> bool:
    """Whether a buffer for pipes must wait for its launch: the number of blocks is computed between the two."""
    reachable = all(state.find(v) is not None or v not in state.defined for v in _needs(state, stmt))
    if not reachable:
        state.postponed[stmt.var] = stmt
    return not reachable


def allocate(state: State, creates: Sequence[n.Assign]) -> None:
    """`TensorCreateInfo` for each and one `alloc_tensors` for all."""
    wanted = [c for c in creates if c.var in state.used]
    if not wanted:
        return
    names = {c.var: state.names.take(c.var.name) for c in wanted}
    infos = [create_info(state, c, names[c.var]) for c in wanted]
    batch = state.names.take(f"alloc_{state.allocations}")
    state.allocations += 1
    state.text.add(f"TaskOutputTensors {batch} = alloc_tensors({', '.join(infos)});")
    for place, create in enumerate(wanted):
        state.text.add(f"const ChipTensor& {names[create.var]} = {batch}.get_ref({place});")
        state.bind(create.var, names[create.var])


def create_info(state: State, stmt: n.Assign, name: str) -> str:
    """Declares what a created tensor is like; returns the name of the declaration."""
    assert isinstance(stmt.value, n.OpCall) and isinstance(stmt.var.type, TensorType)
    shape = stmt.value.args[0]
    dims = shape.elements if isinstance(shape, n.MakeTuple) else stmt.var.type.shape
    buffer = _pipe_buffer_extent(state, stmt.var)
    info = declare_info(state, stmt.var.type, name, dims if buffer is None else None, buffer, stmt)
    value = stmt.value.kwargs.get("init_value")
    if value is not None:
        given = value if isinstance(value, n.Expr) else n.ConstFloat(value=float(value), type=n.FP32)
        state.text.add(f"{info}.set_initial_value({scalar(state, given)});")
    return info


def declare_info(
    state: State,
    type_: TensorType,
    name: str,
    dims: Sequence[n.Expr] | None,
    extent: str | None = None,
    stmt: n.Assign | None = None,
) -> str:
    """The `TensorCreateInfo` of a tensor of these dimensions (or of one axis with a given extent)."""
    if type_.dtype not in DATA_TYPES:
        span = stmt.span if stmt is not None else None
        state.refuse(NO_TYPE, f"the runtime has no tensors of {type_.dtype.name}", span)
    info, shapes = state.names.take(f"{name}_ci"), state.names.take(f"{name}_ci_shapes")
    rank = 1 if dims is None else len(dims)
    listed = f"{{{extent}}}" if dims is None else extents(state, dims, type_.dtype)
    state.text.add(f"uint32_t {shapes}[{rank}] = {listed};")
    manual = bool(stmt is not None and isinstance(stmt.value, n.OpCall) and stmt.value.kwargs.get("manual_dep"))
    # the last argument: the runtime derives no dependencies from this tensor
    flag = ", true" if manual else ""
    state.text.add(f"TensorCreateInfo {info}({shapes}, {rank}, DataType::{DATA_TYPES[type_.dtype]}{flag});")
    return info


def _pipe_buffer_extent(state: State, var: n.Var) -> str | None:
    """The extent of a buffer for cross-core pipes, which the program only marks; None for any other tensor."""
    found = _blocks_of_pipes(state, var)
    if found is None:
        return None
    share, blocks = found
    known = arith.constant(blocks)
    return str(share * known) if known is not None else f"static_cast<uint32_t>({share} * {operand(state, blocks)})"


def _blocks_of_pipes(state: State, var: n.Var) -> tuple[int, n.Expr] | None:
    """(elements that a block's pipes need, number of blocks) where a launch takes the tensor as its pipe buffer."""
    for node in walk(state.function):
        if not isinstance(node, (n.FunctionCall, n.Submit)) or not any(a is var for a in node.args):
            continue
        launch = launch_of(node, state.program)
        if any(a.value is var and is_pipe_buffer(a.param) for a in launch.arguments):
            blocks = 1 if launch.block_num is None else launch.block_num
            return pipe_buffer_elements(launch.kernels), arith.as_expr(blocks)
    return None


# --- views ------------------------------------------------------------------------------------------------------------


def slice_(state: State, stmt: n.Assign, call: n.OpCall) -> None:
    """A window: shapes and offsets as arrays, axes that fall away by a reshape."""
    source = state.tensor(call.args[0], call.span)
    shape, offset = _elements(call.args[1]), _elements(call.args[2])
    dropped = {arith.constant(a) for a in _elements(call.args[4])} if len(call.args) > 4 else set()
    name = state.names.take(stmt.var.name)
    shapes = _array(state, f"{name}_shapes", shape)
    offsets = _array(state, f"{name}_offsets", offset)
    view = f"{source}.view({shapes}, {offsets})"
    if dropped:
        kept = [x for axis, x in enumerate(shape) if axis not in dropped]
        view += f".reshape({_array(state, f'{name}_kept', kept)}, {len(kept)})"
    _declare(state, stmt.var, name, view)


def transpose(state: State, stmt: n.Assign, call: n.OpCall) -> None:
    axes = [arith.constant(a) for a in call.args[1:3]]
    rank = call.args[0].type.rank if isinstance(call.args[0].type, TensorType) else 0
    one, other = (a % rank if a is not None and rank else a for a in axes)
    source = state.tensor(call.args[0], call.span)
    _declare(state, stmt.var, state.names.take(stmt.var.name), f"{source}.transpose({one}, {other})")


def reshape(state: State, stmt: n.Assign, call: n.OpCall) -> None:
    """`tensor.reshape` and `tensor.view`: another shape of the same elements; a view without a shape is the tensor."""
    source = state.tensor(call.args[0], call.span)
    if len(call.args) < 2:
        state.bind(stmt.var, source)
        return
    dims = _elements(call.args[1])
    name = state.names.take(stmt.var.name)
    shapes = _array(state, f"{name}_shapes", dims)
    _declare(state, stmt.var, name, f"{source}.reshape({shapes}, {len(dims)})")


def assemble(state: State, stmt: n.Assign, call: n.OpCall) -> None:
    """A part put into a tensor. The runtime copies nothing here, so the part must be a window of that tensor."""
    target, part = state.homes.of(call.args[IN_PLACE[call.op]]), call.args[1]
    source = next((s for s in walk(state.function) if isinstance(s, n.Assign) and s.var is state.homes.of(part)), None)
    window = source.value if source is not None and isinstance(source.value, n.OpCall) else None
    if window is None or window.op != "tensor.slice" or state.homes.of(window.args[0]) is not target:
        state.refuse(
            NO_FORM,
            "`tensor.assemble` of a tensor with memory of its own: nothing would copy it",
            stmt.span,
            "let a kernel write into the window, or assemble inside a kernel",
        )


# --- elements ---------------------------------------------------------------------------------------------------------


def read(state: State, stmt: n.Assign, call: n.OpCall) -> None:
    """An element, once its producer has written it."""
    source = state.tensor(call.args[0], call.span)
    indices = _elements(call.args[1])
    name = state.names.take(stmt.var.name)
    kind = state.scalar_type(stmt.var.type, stmt.span)
    listed = _array(state, f"{name}_indices", indices)
    state.text.add(f"{kind} {name} = get_tensor_data<{kind}>({source}, {len(indices)}, {listed});")
    state.bind(stmt.var, name)


def write(state: State, call: n.OpCall) -> None:
    """An element set by the host."""
    target = state.tensor(call.args[0], call.span)
    indices = _elements(call.args[1])
    tensor_type = call.args[0].type
    assert isinstance(tensor_type, TensorType)
    kind = state.scalar_type(ScalarType(tensor_type.dtype), call.span)
    listed = _array(state, f"{target}_indices", indices)
    value = scalar(state, call.args[2])
    state.text.add(f"set_tensor_data<{kind}>({target}, {len(indices)}, {listed}, {value});")


def _elements(expr: n.Expr) -> Sequence[n.Expr]:
    return expr.elements if isinstance(expr, n.MakeTuple) else (expr,)


def _array(state: State, name: str, values: Iterable[n.Expr]) -> str:
    listed = list(values)
    taken = state.names.take(name)
    state.text.add(f"uint32_t {taken}[{len(listed)}] = {extents(state, listed)};")
    return taken


def _declare(state: State, var: n.Var, name: str, value: str) -> None:
    state.text.add(f"ChipTensor {name} = {value};")
    state.bind(var, name)
