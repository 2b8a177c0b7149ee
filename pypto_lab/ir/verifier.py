"""Checks the invariants of a program (language.md 1.6): those of every form, and those a stage of the compiler adds.

Codes are `V` and upstream's number where it has one: 1-7 SSA, 101-108 types, 401 use before definition; 2xx calls,
5xx structure and 6xx what holds from a stage on are the lab's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, did_you_mean
from pypto_lab.ir.enums import Direction, ForKind, FunctionType, Level, MemorySpace, Role
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import (
    ArrayType,
    MemRef,
    ScalarType,
    ShapedType,
    TensorType,
    TileType,
    TupleType,
    Type,
    UnknownType,
    constant_dims,
)
from pypto_lab.ir.visitor import children, walk

STAGES: tuple[tuple[str, int], ...] = (
    ("frontend", 0), ("ssa", 4), ("flat", 7), ("outlined", 10), ("tiles", 11), ("spaces", 18), ("memrefs", 32),
    ("addresses", 35), ("directions", 38),
)  # fmt: skip
"""Stages and the number of the pass after which they hold; a stage includes those before it."""

CAPACITY: dict[MemorySpace, int] = {
    MemorySpace.Vec: 256 << 10,
    MemorySpace.Mat: 512 << 10,
    MemorySpace.Left: 64 << 10,
    MemorySpace.Right: 64 << 10,
    MemorySpace.Acc: 256 << 10,
    MemorySpace.Bias: 4 << 10,
}
"""Bytes of a memory space on the largest known platform; the exact limits are the platform rules' business."""

_IMPLIED: dict[FunctionType, tuple[Level | None, Role | None]] = {
    FunctionType.Orchestration: (Level.CHIP, Role.Orchestrator),
    FunctionType.Graph: (Level.CHIP, Role.Orchestrator),
    FunctionType.InCore: (Level.CHIP_DIE, Role.SubWorker),
    FunctionType.AIC: (Level.AIC, Role.SubWorker),
    FunctionType.AIV: (Level.AIV, Role.SubWorker),
    FunctionType.Group: (Level.CORE_GROUP, Role.SubWorker),
}
_ON_CORE = (FunctionType.InCore, FunctionType.AIC, FunctionType.AIV)
_CREATING = ("tensor.create", "tensor.full", "tile.create", "tile.full")
_TENSOR_OPS_ON_CORE = frozenset(
    {
        "tensor.read", "tensor.write", "tensor.dim", "tensor.view", "tensor.slice", "tensor.create", "tensor.reshape",
        "tensor.reinterpret_view", "tensor.alloc", "tensor.transpose", "tensor.as_layout",
    }
)  # fmt: skip
_ATOMIC_DTYPES = (dtypes.FP32, dtypes.FP16, dtypes.BF16, dtypes.INT32, dtypes.INT16, dtypes.INT8)
_CALLS = (n.OpCall, n.FunctionCall, n.Submit)
_OUTLINED_SCOPES = (n.InCoreScope, n.HierarchyScope, n.ClusterScope, n.SpmdScope)


def stage_of(file_name: str) -> str | None:
    """The stage a dump must satisfy by its name (`35_after_AllocateMemoryAddr.py`), None when it has no number."""
    prefix = PurePath(file_name).name[:2]
    if not prefix.isdigit():
        return None
    return [name for name, first in STAGES if first <= int(prefix)][-1]


Verified = dict[str, tuple[tuple[object, ...], list[Diagnostic]]]
"""What was found in each function of a program, and what that followed from."""


def verify(program: n.Program, *, stage: str | None = None, known: Verified | None = None) -> list[Diagnostic]:
    """Everything wrong with a program, in source order.

    `stage` is one of :data:`STAGES`; None checks what holds in every form. `known` remembers what was found from call
    to call: a function that is still the same, and calls the same, is not looked at again. Raises ValueError for
    another stage.
    """
    numbers = dict(STAGES)
    if stage is not None and stage not in numbers:
        raise ValueError(f"unknown stage {stage!r}; the stages are {', '.join(numbers)}")
    reached = numbers[stage] if stage is not None else 0
    found: list[Diagnostic] = []
    symbols = tuple(program.symbols.values())
    for name, function in program.functions.items():
        before = known.get(name) if known is not None else None
        same = before is not None and before[0][0] is function
        callees = before[0][1] if before is not None and same else _callees(function) if known is not None else ()
        assert isinstance(callees, tuple)
        basis = (
            function,
            callees,
            reached,
            symbols,
            *(getattr(program.functions.get(c), "params", None) for c in callees),
        )
        if before is None or before[0] != basis:
            before = (basis, _FunctionVerifier(program, function, reached).run())
            if known is not None:
                known[name] = before
        found += before[1]
    return found


def _callees(function: n.Function) -> tuple[str, ...]:
    calls = (n.FunctionCall, n.Submit)
    return tuple({node.callee: None for node in walk(function) if isinstance(node, calls)})


class _FunctionVerifier:
    def __init__(self, program: n.Program, function: n.Function, reached: int) -> None:
        self.program = program
        self.function = function
        self.reached = reached
        self.found: list[Diagnostic] = []
        self.visible: set[n.Var] = set(program.symbols.values())
        self.defined: set[n.Var] = set()
        self.allocated: dict[n.Var, n.OpCall] = {}
        self.popped: set[n.Var] = set()
        self.loops: list[n.Stmt] = []
        self.in_core = 0
        self.span: Span | None = function.span

    def run(self) -> list[Diagnostic]:
        self.head()
        body = self.function.body or ()
        for scoped in body:
            self.stmt(scoped)
        return self.found

    def report(self, code: str, message: str, span: Span | None = None, hint: str | None = None) -> None:
        where = f"in `{self.function.name}`: "
        self.found.append(Diagnostic(code, where + message, span or self.span, hint=hint))

    # --- the head of a function --------------------------------------------------------------------------------------

    def head(self) -> None:
        function = self.function
        for param in function.params:
            if param.var in self.defined:
                self.report("V001", f"parameter `{param.name}` appears twice", param.span)
            self.define(param.var, param.span, "parameter")
            self.boundary(param.type, f"parameter `{param.name}`", param.span)
            if param.direction is Direction.InOut and isinstance(param.type, ScalarType):
                self.report("V514", f"scalar parameter `{param.name}` cannot be InOut", param.span)
        for type_ in function.return_types:
            self.boundary(type_, "a result", function.span)
        implied = _IMPLIED.get(function.func_type)
        if implied is not None:
            stated = (function.level, function.role)
            for said, due, word in zip(stated, implied, ("level", "role"), strict=True):
                if said is not None and due is not None and said is not due:
                    kind = function.func_type.name
                    self.report("V513", f"{word} {said.name} contradicts {kind}, which implies {due.name}")

    def boundary(self, type_: Type, what: str, span: Span | None) -> None:
        if isinstance(type_, ArrayType) and self.function.func_type is not FunctionType.Inline:
            self.report("V504", f"{what} is an array; arrays never cross a function boundary", span)
        self.type_rules(type_, what, span)

    def type_rules(self, type_: Type, what: str, span: Span | None) -> None:
        """What every type must satisfy (language.md 1.2)."""
        if isinstance(type_, TupleType):
            for element in type_.elements:
                self.type_rules(element, what, span)
        elif isinstance(type_, ArrayType):
            extent = getattr(type_.extent, "value", None)
            if type(extent) is int and extent <= 0:
                self.report("V512", f"{what} has extent {extent}; an array's is positive", span)
            if type_.dtype.is_float:
                self.report("V512", f"{what} is an array of {type_.dtype.name}; elements are integers or ids", span)
        elif isinstance(type_, TileType) and type_.memref is not None and type_.memory_space is None:
            self.report("V510", f"{what} has a MemRef but no memory space", span)
        if isinstance(type_, ShapedType) and type_.dtype is dtypes.FP4:
            last = constant_dims(type_.shape[-1:])
            if last and (last[0] <= 0 or last[0] % 2):
                self.report("V511", f"{what} is FP4 with last dimension {last[0]}; it must be even", span)

    # --- names -------------------------------------------------------------------------------------------------------

    def define(self, var: n.Var, span: Span | None, what: str = "variable") -> None:
        if self.reached >= 4 and var in self.defined:
            if var in self.visible and what == "loop variable":
                self.report("V002", f"{what} `{var.name}` shadows the definition around it", span)
            else:
                self.report("V001", f"`{var.name}` is assigned more than once", span)
        self.defined.add(var)
        self.visible.add(var)
        self.popped.discard(var)

    @contextmanager
    def block(self, leaks: bool) -> Iterator[None]:
        before = None if leaks else set(self.visible)
        yield
        if before is not None:
            self.popped |= self.visible - before
            self.visible = before

    def use(self, expr: n.Expr) -> None:
        """Every variable below an expression has a definition in view."""
        for node in walk(expr) if not isinstance(expr, n.Var) else (expr,):
            if isinstance(node, n.Var) and node not in self.visible:
                self.unseen(node, expr)

    def unseen(self, var: n.Var, expr: n.Expr) -> None:
        """Reports a variable that is not in view; one finding a variable."""
        if var in self.popped:
            self.report("V006", f"`{var.name}` is used outside the block that defines it", expr.span)
        else:
            self.report("V401", f"`{var.name}` is used before it is defined", expr.span)
        self.visible.add(var)

    # --- statements --------------------------------------------------------------------------------------------------

    def body(self, body: n.Body) -> None:
        for stmt in body:
            self.stmt(stmt)

    def stmt(self, stmt: n.Stmt) -> None:
        self.span = stmt.span or self.span
        match stmt:
            case n.Assign():
                self.assign(stmt)
            case n.Eval():
                self.value(stmt.expr)
            case n.If():
                self.conditional(stmt)
            case n.For():
                self.for_loop(stmt)
            case n.While():
                self.while_loop(stmt)
            case n.Yield():
                self.report("V007", "a yield is not the last statement of a loop or an if")
            case n.Return():
                self.returns(stmt)
            case n.Break() | n.Continue():
                self.jump(stmt)
            case n.Scope():
                self.scope(stmt, None)

    def assign(self, stmt: n.Assign) -> None:
        self.value(stmt.value)
        var = stmt.var
        self.type_rules(var.type, f"`{var.name}`", stmt.span)
        self.compatible(var.type, stmt.value.type, f"`{var.name}`", stmt.span)
        param = next((p for p in self.function.params if p.var is var), None)
        creating = isinstance(stmt.value, n.OpCall) and stmt.value.op in _CREATING
        if param is not None and param.direction is not Direction.In and creating:
            hint = f"write into it: `{var.name} = pl.assemble({var.name}, value, offsets)`"
            self.report("V507", f"output `{var.name}` is bound to a new buffer; what it held is lost", None, hint)
        if isinstance(stmt.value, n.OpCall) and stmt.value.op == "tile.alloc":
            self.allocated[var] = stmt.value
        self.define(var, stmt.span)
        self.placement(var, stmt.value)

    def conditional(self, stmt: n.If) -> None:
        self.condition(stmt.condition)
        leaks = not stmt.return_vars
        for branch, name in ((stmt.then_body, "then"), (stmt.else_body, "else")):
            with self.block(leaks):
                self.results(branch, stmt.return_vars, f"the {name} branch", stmt)
        for var in stmt.return_vars:
            self.define(var, var.span)

    def for_loop(self, stmt: n.For) -> None:
        for bound in (stmt.start, stmt.stop, stmt.step):
            self.value(bound, nested=True)
            if not isinstance(bound.type, (ScalarType, UnknownType)):
                self.report("V107", "a loop bound is not a scalar", bound.span)
        staged = "pipeline_stages" in stmt.attrs
        if staged != (stmt.kind is ForKind.Pipeline):
            said = "has no `stage=`" if not staged else "is no pipeline but has `pipeline_stages`"
            self.report("V503", f"the loop over `{stmt.loop_var.name}` {said}")
        with self.block(leaks=not stmt.iter_args):
            self.carried(stmt.iter_args)
            self.define(stmt.loop_var, stmt.loop_var.span, "loop variable")
            self.loop_body(stmt)
            self.visible.discard(stmt.loop_var)
            self.popped.add(stmt.loop_var)
        self.loop_results(stmt)

    def while_loop(self, stmt: n.While) -> None:
        with self.block(leaks=not stmt.iter_args):
            self.carried(stmt.iter_args)
            self.condition(stmt.condition)
            self.loop_body(stmt)
        self.loop_results(stmt)

    def carried(self, iter_args: Sequence[n.IterArg]) -> None:
        for arg in iter_args:
            self.value(arg.init_value)
        for arg in iter_args:
            self.compatible(arg.type, arg.init_value.type, f"carried `{arg.name}`", arg.span)
            self.define(arg, arg.span, "loop variable")

    def loop_body(self, stmt: n.For | n.While) -> None:
        if len(stmt.iter_args) != len(stmt.return_vars):
            counts = f"{len(stmt.iter_args)} carried values but {len(stmt.return_vars)} results"
            self.report("V004", f"the loop has {counts}")
        self.loops.append(stmt)
        self.results(stmt.body, stmt.iter_args, "the loop's body", stmt)
        self.loops.pop()

    def loop_results(self, stmt: n.For | n.While) -> None:
        for arg, var in zip(stmt.iter_args, stmt.return_vars, strict=False):
            self.compatible(var.type, arg.type, f"result `{var.name}`", var.span)
        for var in stmt.return_vars:
            self.define(var, var.span)

    def results(self, body: n.Body, targets: Sequence[n.Var], what: str, stmt: n.Stmt) -> None:
        """A block whose results are wanted ends in a yield of as many values (also inside its last scope)."""
        if body and isinstance(body[-1], n.Yield):
            self.body(body[:-1])
            self.yielded(body[-1], targets, what)
        elif body and targets and isinstance(body[-1], n.Scope):
            self.body(body[:-1])
            self.span = body[-1].span or self.span
            self.scope(body[-1], (targets, what, stmt))
        else:
            self.body(body)
            if targets:
                self.report("V003", f"{what} does not end in a yield", stmt.span)

    def yielded(self, stmt: n.Yield, targets: Sequence[n.Var], what: str) -> None:
        self.span = stmt.span or self.span
        for value in stmt.values:
            self.value(value)
        if len(stmt.values) != len(targets):
            self.report("V005", f"{what} yields {len(stmt.values)} values for {len(targets)} results")
        for value, target in zip(stmt.values, targets, strict=False):
            self.compatible(target.type, value.type, f"the value yielded for `{target.name}`", value.span)

    def returns(self, stmt: n.Return) -> None:
        for value in stmt.values:
            self.value(value)
        types = self.function.return_types
        if types and len(types) != len(stmt.values):
            self.report("V205", f"{len(stmt.values)} values are returned, {len(types)} are declared")
        for type_, value in zip(types, stmt.values, strict=False):
            self.compatible(type_, value.type, "a returned value", value.span)

    def jump(self, stmt: n.Break | n.Continue) -> None:
        word = "break" if isinstance(stmt, n.Break) else "continue"
        loop = self.loops[-1] if self.loops else None
        sequential = isinstance(loop, n.While) or (isinstance(loop, n.For) and loop.kind is ForKind.Sequential)
        if not sequential:
            self.report("V501", f"`{word}` stands outside a `pl.range` or while loop")

    def scope(self, stmt: n.Scope, ending: tuple[Sequence[n.Var], str, n.Stmt] | None) -> None:
        if self.reached >= 10 and isinstance(stmt, _OUTLINED_SCOPES):
            self.report("V602", f"{type(stmt).__name__} is left after outlining")
        if isinstance(stmt, n.InCoreScope) and self.in_core:
            self.report("V502", "an InCore scope stands inside another")
        if isinstance(stmt, n.SpmdScope):
            self.value(stmt.core_num)
        for child in self.scope_values(stmt):
            self.use(child)
        for var in (stmt.task_id, getattr(stmt, "loop_var", None), getattr(stmt, "lane_var", None)):
            if var is not None:
                self.define(var, var.span)
        self.in_core += isinstance(stmt, n.InCoreScope)
        before, self.loops = self.loops, [*self.loops, stmt] if isinstance(stmt, n.SplitAivScope) else self.loops
        if ending is None:
            self.body(stmt.body)
        else:
            self.results(stmt.body, *ending)
        self.loops = before
        self.in_core -= isinstance(stmt, n.InCoreScope)

    def scope_values(self, stmt: n.Scope) -> Iterable[n.Expr]:
        for value in stmt.attrs.values():
            values = value if isinstance(value, (list, tuple)) else (value,)
            yield from (v for v in values if isinstance(v, n.Expr))

    # --- expressions -------------------------------------------------------------------------------------------------

    def condition(self, expr: n.Expr) -> None:
        self.value(expr, nested=True)
        if isinstance(expr.type, UnknownType):
            return
        if not isinstance(expr.type, ScalarType):
            self.report("V106", "a condition is not a scalar", expr.span)
        elif expr.type.dtype is not dtypes.BOOL:
            self.report("V108", f"a condition is {expr.type.dtype.name}, not BOOL", expr.span, "compare it: `x != 0`")

    def value(self, expr: n.Expr, nested: bool = False) -> None:
        """An expression of a statement: names, calls inside it, and whether calls are nested."""
        stack: list[tuple[n.Expr, bool]] = [(expr, nested)]
        while stack:
            node, inside = stack.pop()
            if isinstance(node, n.Var):
                if node not in self.visible:
                    self.unseen(node, expr)
                continue
            if isinstance(node, _CALLS):
                if inside and self.reached >= 7:
                    self.report("V601", "a call is nested in another expression", node.span, "bind it to a name first")
                self.call(node)
            exempt = node.predicate if isinstance(node, n.Submit) else None
            if exempt is not None:
                self.use(exempt)
            below = inside or not isinstance(node, n.TupleGetItem)
            parts = [(c, below) for c in children(node) if c is not exempt]
            stack += reversed(parts)

    def call(self, node: n.Expr) -> None:
        if isinstance(node, n.OpCall):
            self.op_call(node)
        elif isinstance(node, (n.FunctionCall, n.Submit)):
            self.function_call(node)

    def op_call(self, node: n.OpCall) -> None:
        if node.kwargs.get("atomic") == 1:
            target = next((a for a in node.args[::-1] if isinstance(a.type, TensorType)), None)
            if target is not None and isinstance(target.type, TensorType) and target.type.dtype not in _ATOMIC_DTYPES:
                self.report("V506", f"atomic add does not exist for {target.type.dtype.name}", node.span)
        on_core = self.function.func_type in _ON_CORE
        if self.reached >= 11 and on_core and node.op.startswith("tensor.") and node.op not in _TENSOR_OPS_ON_CORE:
            self.report("V603", f"`{node.op}` is left in an on-core function", node.span)

    def function_call(self, node: n.FunctionCall | n.Submit) -> None:
        callee = self.program.functions.get(node.callee)
        if callee is None:
            hint = did_you_mean(node.callee, self.program.functions)
            self.report("V202", f"the program has no function `{node.callee}`", node.span, hint)
            return
        blocks = node.attrs.get("core_num")
        if isinstance(blocks, n.Expr):
            self.use(blocks)
        if isinstance(node, n.FunctionCall) and "manual_dep_edges" in node.attrs:
            self.report("V505", "manual dependencies belong to a submit, not to a plain call", node.span)
        if len(callee.params) != len(node.args):
            counts = f"takes {len(callee.params)} arguments, not {len(node.args)}"
            self.report("V203", f"`{callee.name}` {counts}", node.span)
        for param, arg in zip(callee.params, node.args, strict=False):
            self.compatible(param.type, arg.type, f"argument `{param.name}` of `{callee.name}`", arg.span or node.span)
        if self.reached >= 38:
            directions = node.attrs.get("arg_directions")
            if directions is None or len(directions) != len(node.args):
                self.report("V609", f"the call of `{callee.name}` lacks one direction for each argument", node.span)

    # --- types -------------------------------------------------------------------------------------------------------

    def compatible(self, wanted: Type, given: Type, what: str, span: Span | None) -> None:
        """Kind, dtype, rank and constant dimensions agree. INDEX is the same as any integer, and an integer will do
        where a BOOL is wanted, as in C."""
        if wanted is given or isinstance(wanted, UnknownType) or isinstance(given, UnknownType):
            return
        if isinstance(wanted, ScalarType) and isinstance(given, ScalarType):
            a, b = wanted.dtype, given.dtype
            same = dtypes.INDEX in (a, b) and a.is_integer and b.is_integer
            if a is not b and not same and not (a is dtypes.BOOL and b.is_integer):
                self.report("V102", f"{what} is {b.name}, not {a.name}", span)
        elif isinstance(wanted, ShapedType) and type(wanted) is type(given) and isinstance(given, ShapedType):
            self.shapes(wanted, given, what, span)
        elif isinstance(wanted, TupleType) and isinstance(given, TupleType):
            if len(wanted.elements) != len(given.elements):
                counts = f"{len(given.elements)} values, not {len(wanted.elements)}"
                self.report("V105", f"{what} holds {counts}", span)
            for i, (a_, b_) in enumerate(zip(wanted.elements, given.elements, strict=False)):
                self.compatible(a_, b_, f"entry {i} of {what}", span)
        elif type(wanted) is not type(given):
            self.report("V101", f"{what} is a {_kind(given)}, not a {_kind(wanted)}", span)

    def shapes(self, wanted: ShapedType, given: ShapedType, what: str, span: Span | None) -> None:
        if wanted.dtype is not given.dtype:
            self.report("V102", f"{what} is {given.dtype.name}, not {wanted.dtype.name}", span)
        if wanted.rank != given.rank:
            self.report("V103", f"{what} has rank {given.rank}, not {wanted.rank}", span)
            return
        for axis, (a, b) in enumerate(zip(wanted.shape, given.shape, strict=True)):
            if isinstance(a, n.ConstInt) and isinstance(b, n.ConstInt) and a.value != b.value:
                self.report("V104", f"{what} has {b.value} in dimension {axis}, not {a.value}", span)

    def placement(self, var: n.Var, value: n.Expr) -> None:
        """Memory spaces, memrefs and addresses of an assigned tile, as far as the stage promises them."""
        type_ = var.type
        if not isinstance(type_, TileType):
            return
        if self.reached >= 18 and type_.memory_space is None:
            self.report("V604", f"tile `{var.name}` has no memory space")
        if self.reached < 32:
            return
        if type_.memref is None:
            if not self.popped_from_pipe(value):
                self.report("V605", f"tile `{var.name}` has no MemRef")
            return
        self.memref(type_.memref, type_.memory_space, var.name)

    def popped_from_pipe(self, value: n.Expr) -> bool:
        """Whether a value lives in a pipe's slot: a pop, or an alias of something without a MemRef."""
        if isinstance(value, n.OpCall):
            if value.op.startswith("tile.tpop"):
                return True
            return any(isinstance(a.type, TileType) and a.type.memref is None for a in value.args)
        return isinstance(value.type, TileType) and value.type.memref is None

    def memref(self, memref: MemRef, space: MemorySpace | None, name: str) -> None:
        if memref.legacy is not None:
            return
        alloc = self.allocated.get(memref.base) if isinstance(memref.base, n.Var) else None
        if alloc is None:
            self.report("V606", f"the MemRef of `{name}` has no `tile.alloc` above it")
            return
        if alloc.kwargs.get("memory_space", space) is not space:
            there = alloc.kwargs["memory_space"].name
            self.report("V606", f"`{name}` is in {space.name if space else 'no space'}, its allocation in {there}")
        if self.reached < 35:
            return
        offset = memref.offset
        if not isinstance(offset, n.ConstInt):
            self.report("V607", f"the address of `{name}` is not resolved")
            return
        capacity = CAPACITY.get(space) if space is not None else None
        end = offset.value + (memref.size or 0)
        if offset.value < 0 or (capacity is not None and end > capacity):
            where = space.name if space else "its space"
            self.report("V607", f"`{name}` lies at {offset.value}..{end}, outside {where} ({capacity} bytes)")


def _kind(type_: Type) -> str:
    return type(type_).__name__.removesuffix("Type").lower()
