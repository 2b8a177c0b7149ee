"""Writes an orchestration function as the C++ that a runtime's scheduler core executes: one statement for each."""

from __future__ import annotations

from collections.abc import Callable

from pypto_lab.ir import arith
from pypto_lab.ir import dtypes as d
from pypto_lab.ir import nodes as n
from pypto_lab.ir.types import ArrayType, ScalarType, TensorType
from pypto_lab.pto.orchestration import carries as c
from pypto_lab.pto.orchestration import tensors as t
from pypto_lab.pto.orchestration.expressions import operand, scalar
from pypto_lab.pto.orchestration.homes import returned_params
from pypto_lab.pto.orchestration.names import plain
from pypto_lab.pto.orchestration.refusing import NO_FORM, NO_TYPE, UNKNOWN_RESULT
from pypto_lab.pto.orchestration.state import Fence, State
from pypto_lab.pto.orchestration.tasks import Submitted, dummy, submit

_VISIBLE = '__attribute__((visibility("default")))'
_VIEWS: dict[str, Callable[[State, n.Assign, n.OpCall], None]] = {
    "tensor.slice": t.slice_,
    "tensor.transpose": t.transpose,
    "tensor.reshape": t.reshape,
    "tensor.view": t.reshape,
    "tensor.assemble": t.assemble,
    "tensor.read": t.read,
}


class Writer:
    """Writes one function. `text()` after `write()` is the whole file."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.launched: dict[n.Var, Submitted] = {}
        self.ends: list[tuple[list[c.Carry], str | None]] = []
        """For each body that is open and hands values on: where they go, and its loop's variable."""

    # the file

    def write(self) -> str:
        """The file's text."""
        state, function = self.state, self.state.function
        tensors = [p for p in function.params if isinstance(p.type, TensorType)]
        scalars = [p for p in function.params if isinstance(p.type, ScalarType)]
        for param in function.params:
            if param not in tensors and param not in scalars:
                message = f"the parameter `{param.name}` is neither a tensor nor a scalar"
                state.refuse(NO_TYPE, message, param.span)
        self._config(len(tensors) + len(scalars))
        with state.block(f"{_VISIBLE}\nvoid aicpu_orchestration_entry(const ChipTaskArgs& orch_args)"):
            self._parameters(tensors, scalars)
            state.symbols = state.text.keep()
            state.text.add()
            self.body(function.body or ())
        return f'{self._head()}\nextern "C" {{\n\n{state.text}\n}}  // extern "C"\n'

    def _head(self) -> str:
        includes = "".join(f"#include <{name}>\n" for name in sorted({"stddef.h", "stdint.h", *self.state.includes}))
        return (
            f"// How {self.state.function.name} starts its kernels; written by PyPTO Lab\n\n"
            f'{includes}\n#include "pto_orchestration_api.h"\n'
        )

    def _config(self, count: int) -> None:
        text = self.state.text
        head = f"{_VISIBLE}\nPTO2OrchestrationConfig aicpu_orchestration_config(const ChipTaskArgs& orch_args)"
        with text.block(head):
            text.add("(void)orch_args;")
            text.add(f"return PTO2OrchestrationConfig{{.expected_arg_count = {count}}};")
        text.add()

    def _parameters(self, tensors: list[n.Param], scalars: list[n.Param]) -> None:
        state = self.state
        for place, param in enumerate(tensors):
            name = state.names.take(f"ext_{plain(param.name)}")
            state.text.add(f"const ChipTensor& {name} = orch_args.tensor({place}).ref();")
            state.bind(param.var, name)
        if tensors and scalars:
            state.text.add()
        for place, param in enumerate(scalars):
            kind = state.scalar_type(param.type, param.span)
            name = state.names.take(param.name)
            state.text.add(f"{kind} {name} = from_u64<{kind}>(orch_args.scalar({place}));")
            state.bind(param.var, name)

    # statements

    def body(self, body: n.Body, allocated: bool = False) -> None:
        """The statements of a body; tensors that can be are allocated where it begins."""
        early = [] if allocated else t.creates_at_entry(self.state, body)
        if early:
            t.allocate(self.state, early)
        done = {id(stmt) for stmt in (t.creates_at_entry(self.state, body) if allocated else early)}
        for stmt in body:
            if id(stmt) not in done:
                self.statement(stmt, body)

    def statement(self, stmt: n.Stmt, body: n.Body) -> None:
        state = self.state
        match stmt:
            case n.Assign():
                self._assign(stmt)
            case n.Eval():
                self._eval(stmt.expr)
            case n.For():
                self._for(stmt)
            case n.While():
                self._while(stmt)
            case n.If():
                self._if(stmt)
            case n.RuntimeScope():
                self._scope(stmt)
            case n.Yield():
                where, loop_var = self.ends[-1]
                c.assign(state, where, stmt.values, loop_var)
            case n.Return():
                if len(self.ends) > 0:
                    state.text.add("return;")
            case n.Scope():
                message = f"a {type(stmt).__name__} is left in the orchestration function"
                state.refuse(NO_FORM, message, stmt.span, "lower the program first: passes 8 to 10 outline such scopes")
            case _:
                message = f"{type(stmt).__name__} has no form in an orchestration"
                state.refuse(NO_FORM, message, stmt.span, "lower the program first")

    def _scope(self, stmt: n.RuntimeScope) -> None:
        """A scope of the runtime. What a manual scope creates is allocated before it: later tasks may use it."""
        state = self.state
        if stmt.manual:
            t.allocate(state, t.creates_at_entry(state, stmt.body))
        state.manual += stmt.manual
        with state.block(f"PTO2_SCOPE({'PTO2ScopeMode::MANUAL' if stmt.manual else ''})"):
            self.body(stmt.body, allocated=stmt.manual)
        state.manual -= stmt.manual

    # control flow

    def _for(self, stmt: n.For) -> None:
        state = self.state
        carried = c.open_loop(state, stmt)
        start, stop, step = (scalar(state, x) for x in (stmt.start, stmt.stop, stmt.step))
        name = state.names.take(stmt.loop_var.name)
        down = (arith.constant(stmt.step) or 0) < 0
        head = f"for (int64_t {name} = {start}; {name} {'>' if down else '<'} {stop}; {name} += {step})"
        with state.block(head):
            state.bind(stmt.loop_var, name)
            self._ending(stmt.body, carried, name)
        c.close_loop(state, stmt, carried)

    def _while(self, stmt: n.While) -> None:
        state = self.state
        carried = c.open_loop(state, stmt)
        with state.block(f"while ({scalar(state, stmt.condition)})"):
            self._ending(stmt.body, carried, None)
        c.close_loop(state, stmt, carried)

    def _if(self, stmt: n.If) -> None:
        state = self.state
        carried = c.open_branch(state, stmt, state.text.keep())
        with state.block(f"if ({scalar(state, stmt.condition)})", None if stmt.else_body else "}"):
            self._ending(stmt.then_body, carried, None)
        if stmt.else_body:
            with state.block("} else"):
                self._ending(stmt.else_body, carried, None)

    def _ending(self, body: n.Body, carried: list[c.Carry], loop_var: str | None) -> None:
        self.ends.append((carried, loop_var))
        self.body(body)
        self.ends.pop()

    # values

    def _assign(self, stmt: n.Assign) -> None:
        state, value = self.state, stmt.value
        match value:
            case n.FunctionCall() | n.Submit():
                self.launched[stmt.var] = submit(state, value, stmt.var in state.kept_ids)
            case n.TupleGetItem(tuple=n.Var() as packed) if packed in self.launched:
                self._element(stmt, self.launched[packed], value.index)
            case n.OpCall():
                self._op(stmt, value)
            case n.Var():
                self._alias(stmt, value)
            case _:
                self._scalar(stmt)

    def _alias(self, stmt: n.Assign, value: n.Var) -> None:
        state = self.state
        if isinstance(stmt.var.type, TensorType):
            return  # tensors go by their homes
        fence = state.find_fence(value)
        if fence is not None:
            state.bind_fence(stmt.var, fence)
            return
        if value in state.fresh:
            state.fresh.add(stmt.var)
        state.bind(stmt.var, state.value(value, stmt.span))

    def _scalar(self, stmt: n.Assign) -> None:
        state = self.state
        if stmt.var not in state.used:
            return
        kind = state.scalar_type(stmt.var.type, stmt.span)
        text = scalar(state, stmt.value)
        name = state.names.take(stmt.var.name)
        state.text.add(f"{kind} {name} = {text};")
        state.bind(stmt.var, name)

    def _element(self, stmt: n.Assign, task: Submitted, index: int) -> None:
        """A result of a launch: its id, or a tensor that the runtime allocated; any other tensor is an argument."""
        state = self.state
        if isinstance(stmt.var.type, ScalarType):
            if stmt.var not in state.used:
                return
            if stmt.var.type.dtype is not d.TASK_ID or task.outputs is None:
                message = f"`{task.launch.call.callee}` gives back the scalar `{stmt.var.name}`; results are tensors"
                hint = "compute it in the orchestration, or store it in a tensor and read that"
                state.refuse(UNKNOWN_RESULT, message, task.launch.call.span or stmt.span, hint)
            name = state.names.take(stmt.var.name)
            state.text.add(f"PTO2TaskId {name} = {task.outputs}.task_id();")
            state.bind(stmt.var, name)
            state.fresh.add(stmt.var)
            return
        results = state.homes.results(task.launch.call)
        if index < len(results) and results[index] is not None:
            return
        self._allocated(stmt, task, index)

    def _allocated(self, stmt: n.Assign, task: Submitted, index: int) -> None:
        state = self.state
        callee = state.program.functions[task.launch.call.callee]
        places = returned_params(callee)
        param = callee.params[places[index]] if index < len(places) and places[index] is not None else None  # type: ignore[index]
        order = [a.param for a in task.allocated]
        if param is None or param not in order:
            message = f"result {index} of `{callee.name}` is not one of its output parameters"
            state.refuse(UNKNOWN_RESULT, message, stmt.span, "return the output parameter itself")
        name = state.names.take(stmt.var.name)
        state.text.add(f"const ChipTensor& {name} = {task.outputs}.get_ref({order.index(param)});")
        state.bind(stmt.var, name)

    def _op(self, stmt: n.Assign, call: n.OpCall) -> None:
        state = self.state
        if call.op in _VIEWS:
            _VIEWS[call.op](state, stmt, call)
        elif call.op == "tensor.create":
            if not t.postpone(state, stmt):
                t.allocate(state, [stmt])
        elif call.op == "tensor.write":
            t.write(state, call)
        elif call.op == "tensor.set_validshape":
            return  # the valid region is the kernels' business
        elif call.op == "array.create":
            self._array(stmt, call)
        elif call.op == "array.update_element":
            self._update(stmt, call)
        elif call.op == "system.task_dummy":
            dummy(state, call, stmt.var)
        elif isinstance(stmt.var.type, ScalarType):
            self._scalar(stmt)
        else:
            hint = "put it into a kernel: `with pl.at(level=pl.Level.CORE_GROUP):`"
            state.refuse(NO_FORM, f"`{call.op}` cannot run in an orchestration", call.span or stmt.span, hint)

    def _eval(self, expr: n.Expr) -> None:
        match expr:
            case n.FunctionCall() | n.Submit():
                submit(self.state, expr, keeps_id=False)
            case n.OpCall(op="tensor.write"):
                t.write(self.state, expr)
            case n.OpCall(op="system.task_dummy"):
                dummy(self.state, expr, None)
            case n.OpCall():
                self.state.refuse(NO_FORM, f"`{expr.op}` cannot run in an orchestration", expr.span)
            case _:
                return  # a value nobody uses

    # arrays

    def _array(self, stmt: n.Assign, call: n.OpCall) -> None:
        state = self.state
        assert isinstance(stmt.var.type, ArrayType)
        size = arith.constant(stmt.var.type.extent) or 0
        kind = state.scalar_type(ScalarType(stmt.var.type.dtype), stmt.span)
        name = state.names.take(stmt.var.name)
        if stmt.var.type.dtype is d.TASK_ID:
            state.text.add(f"{kind} {name}[{size}];")
            state.text.add(f"for (int64_t k = 0; k < {size}; ++k) {name}[k] = PTO2TaskId::invalid();")
        else:
            state.text.add(f"{kind} {name}[{size}] = {{}};")
        state.bind_fence(stmt.var, Fence(name, size))

    def _update(self, stmt: n.Assign, call: n.OpCall) -> None:
        """One element changes: in the array itself where nothing needs it as it was, else in a copy."""
        state = self.state
        assert isinstance(stmt.var.type, ArrayType)
        size = arith.constant(stmt.var.type.extent) or 0
        name = operand(state, call.args[0])
        if not c.is_last_use(state, call.args[0], stmt):
            before, name = name, state.names.take(stmt.var.name)
            c.copy_array(state, stmt.var.type, name, before, size)
        state.text.add(f"{name}[{scalar(state, call.args[1])}] = {scalar(state, call.args[2])};")
        state.bind_fence(stmt.var, Fence(name, size))
