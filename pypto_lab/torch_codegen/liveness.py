"""Who still needs the old value: decides where an operation that writes in place by name must work on a copy.

Names in the IR stand for values, tensors in a script for memory. A write by name (`tensor.assemble`,
`tile.matmul_acc`) may reuse the memory only when no other name that may share it is read afterwards. Writes to global
memory (`tile.store`) and launches always happen in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import Direction, FunctionType
from pypto_lab.ir.types import ScalarType, ShapedType, TensorType, TupleType, Type, UnknownType
from pypto_lab.ir.visitor import walk
from pypto_lab.ops.record import OPS, Torch

VIEWS = frozenset(
    {
        "slice", "reshape", "view", "transpose", "transpose_view", "reinterpret_view", "set_validshape", "fillpad",
        "fillpad_inplace", "cast", "expand", "extract", "move", "permute", "squeeze", "unsqueeze", "flatten",
    }
)  # fmt: skip
"""Short names of ops whose result may share memory with an operand."""

MEMORY_VIEWS = frozenset({"tensor.reshape", "tensor.view", "tensor.reinterpret_view"})
"""Ops that show a whole tensor of global memory in another shape: a write to the result is a write to the tensor."""

PUSHES = frozenset({"tile.tpush_to_aiv", "tile.tpush_to_aic"})
POPS = frozenset({"tile.tpop_from_aiv", "tile.tpop_from_aic"})
FREES = frozenset({"system.tfree_to_aiv", "system.tfree_to_aic"})


@dataclass(frozen=True, slots=True)
class Decision:
    """How a write by name is made: on a copy; or in place, with other names of the old value copied before it
    (`keep`, and the target itself with `keep_target`) and operands that share the memory copied (`copy_args`)."""

    copy: bool = False
    keep: tuple[n.Var, ...] = ()
    keep_target: bool = False
    copy_args: frozenset[int] = frozenset()


IN_PLACE = Decision()


@dataclass(frozen=True, slots=True)
class Plan:
    """Decisions of a function, by call; pushes that must send a copy; statements that read a freed tile, with it;
    variables whose slot the function frees."""

    decisions: Mapping[n.Expr, Decision] = field(default_factory=dict)
    copied_pushes: frozenset[n.OpCall] = frozenset()
    freed_reads: Mapping[n.Stmt, n.Var] = field(default_factory=dict)
    freed: frozenset[n.Var] = frozenset()


def torch_form(call: n.OpCall) -> Torch | None:
    op = OPS.get(call.op)
    return None if op is None else op.torch


def written_by_name(call: n.Expr, program: Program) -> tuple[int, ...]:
    """Indices of the arguments a call writes by name."""
    if isinstance(call, n.OpCall):
        form = torch_form(call)
        if form is not None and form.writes is not None and not form.memory and form.writes < len(call.args):
            return (form.writes,)
    elif isinstance(call, n.FunctionCall):
        return program.inline_writes(call.callee)
    return ()


class Program:
    """The functions a plan looks at: parameter directions and which parameters an Inline function writes."""

    def __init__(self, functions: Mapping[str, n.Function]) -> None:
        self.functions = functions
        self._inline: dict[str, tuple[int, ...]] = {}
        self._returned: dict[str, tuple[int, ...] | None] = {}

    def directions(self, name: str) -> tuple[Direction, ...]:
        function = self.functions.get(name)
        return () if function is None else tuple(p.direction for p in function.params)

    def inline_writes(self, name: str) -> tuple[int, ...]:
        """Parameters of an Inline function that its body writes by name: its caller owns them."""
        function = self.functions.get(name)
        if function is None or function.func_type is not FunctionType.Inline or function.body is None:
            return ()
        if name not in self._inline:
            self._inline[name] = ()  # a call of itself writes nothing more
            aliases = Aliases(function, self)
            written = set()
            for node in walk(function):
                if isinstance(node, (n.OpCall, n.FunctionCall)):
                    for index in written_by_name(node, self):
                        written |= {aliases.find(v) for v in aliases.roots(node.args[index])}
            params = [p.var for p in function.params]
            self._inline[name] = tuple(i for i, v in enumerate(params) if aliases.find(v) in written)
        return self._inline[name]

    def returned_parameters(self, name: str) -> tuple[int, ...] | None:
        """Parameters whose memory a function's results may share; None where its body does not tell."""
        function = self.functions.get(name)
        if function is None or function.body is None:
            return None
        if name not in self._returned:
            self._returned[name] = None
            aliases = Aliases(function, self)
            returns = [v for node in walk(function) if isinstance(node, n.Return) for v in node.values]
            groups = {aliases.find(root) for value in returns for root in aliases.roots(value)}
            params = [p.var for p in function.params]
            self._returned[name] = tuple(i for i, v in enumerate(params) if aliases.find(v) in groups)
        return self._returned[name]


class Aliases:
    """Variables that may share memory, as disjoint groups."""

    def __init__(self, function: n.Function, program: Program) -> None:
        self._parent: dict[n.Var, n.Var] = {}
        self._shown: dict[n.Var, set[n.Var]] = {}
        self._memory = {p.var for p in function.params if isinstance(p.type, TensorType)}
        self._program = program
        self.popped: set[n.Var] = set()
        self._visit(function.body or ())

    def find(self, var: n.Var) -> n.Var:
        root = var
        while (parent := self._parent.get(root)) is not None:
            root = parent
        while var is not root:
            self._parent[var], var = root, self._parent[var]
        return root

    def _link(self, var: n.Var, others: Iterable[n.Var]) -> None:
        for other in others:
            a, b = self.find(var), self.find(other)
            if a is not b:
                self._parent[a] = b

    def shown(self, expr: n.Expr) -> set[n.Var]:
        """Tensors of global memory that a value is a reshaped view of, or a written view of."""
        match expr:
            case n.Var():
                return self._shown.get(expr, set())
            case n.OpCall():
                form = torch_form(expr)
                if form is not None and form.writes is not None and form.writes < len(expr.args):
                    return self.shown(expr.args[form.writes])
                source = expr.args[0] if expr.op in MEMORY_VIEWS and expr.args else None
                if source is not None:
                    own = {source} if isinstance(source, n.Var) and source in self._memory else set()
                    return own | self.shown(source)
        return set()

    def _show(self, var: n.Var, value: n.Expr) -> None:
        if isinstance(value, n.OpCall) and value.op == "tensor.create":
            self._memory.add(var)
        found = self.shown(value) - {var}
        if found:
            self._shown.setdefault(var, set()).update(found)

    def roots(self, expr: n.Expr) -> set[n.Var]:
        """Variables whose memory the value may share."""
        match expr:
            case n.Var():
                return {expr} if holds_memory(expr.type) else set()
            case n.TupleGetItem():
                return self.roots(expr.tuple)
            case n.MakeTuple():
                return self._all(expr.elements)
            case n.FunctionCall() | n.Submit():
                returned = self._program.returned_parameters(expr.callee)
                shared = range(len(expr.args)) if returned is None else returned
                return self._all(expr.args[i] for i in shared if i < len(expr.args))
            case n.OpCall():
                form = torch_form(expr)
                if form is not None and form.writes is not None and form.writes < len(expr.args):
                    return self.roots(expr.args[form.writes])
                if expr.op.rpartition(".")[2] in VIEWS:
                    return self._all(a for a in expr.args if holds_memory(a.type))
        return set()

    def _all(self, exprs: Iterable[n.Expr]) -> set[n.Var]:
        return set().union(*(self.roots(e) for e in exprs))

    def _visit(self, body: n.Body) -> None:
        for stmt in body:
            match stmt:
                case n.Assign():
                    self._link(stmt.var, self.roots(stmt.value))
                    self._show(stmt.var, stmt.value)
                    if isinstance(stmt.value, n.OpCall) and stmt.value.op in POPS:
                        self.popped.add(stmt.var)
                case n.If():
                    self._visit(stmt.then_body)
                    self._visit(stmt.else_body)
                    for branch in (stmt.then_body, stmt.else_body):
                        for var, value in zip(stmt.return_vars, yielded(branch), strict=False):
                            self._link(var, self.roots(value))
                            self._show(var, value)
                case n.For() | n.While():
                    for arg in stmt.iter_args:
                        self._show(arg, arg.init_value)
                    self._visit(stmt.body)
                    values = yielded(stmt.body)
                    for index, arg in enumerate(stmt.iter_args):
                        self._link(arg, self.roots(arg.init_value))
                        if index < len(values):
                            self._link(arg, self.roots(values[index]))
                        if index < len(stmt.return_vars):
                            self._link(stmt.return_vars[index], {arg})
                            self._show(stmt.return_vars[index], arg)
                case n.Scope():
                    self._visit(stmt.body)


def holds_memory(type_: Type) -> bool:
    return isinstance(type_, (ShapedType, TupleType, UnknownType)) or not isinstance(type_, ScalarType)


def yielded(body: n.Body) -> tuple[n.Expr, ...]:
    """Values of the Yield a block ends with."""
    return body[-1].values if body and isinstance(body[-1], n.Yield) else ()


def make_plan(function: n.Function, program: Program) -> Plan:
    """Decides every write by name of a function."""
    writes, pushes, frees = _calls_of_interest(function, program)
    reads = _freed_reads(function.body or ()) if frees else {}
    freed = _freed(function) if frees else frozenset()
    if not writes:
        return Plan(freed_reads=reads, freed=freed)
    walker = _Liveness(function, program)
    walker.block(function.body or (), frozenset())
    copied = {push for push, live in walker.pushes.items() if live} if pushes else set()
    return Plan(walker.decisions, frozenset(copied), reads, freed)


def _freed(function: n.Function) -> frozenset[n.Var]:
    """Variables that the function frees by name."""
    calls = (node for node in walk(function) if isinstance(node, n.OpCall) and node.op in FREES)
    return frozenset(a for call in calls for a in call.args if isinstance(a, n.Var))


def output_parameters(function: n.Function) -> set[n.Var]:
    """Parameters that are memory of the caller: Out and InOut ones, all of an Inline function, and those that are
    returned under their own name although it is never assigned (the compiler's outlining forgets some directions)."""
    if function.func_type is FunctionType.Inline:
        return {p.var for p in function.params}
    params = {p.var for p in function.params}
    assigned = {node.var for node in walk(function) if isinstance(node, n.Assign)} & params
    returned = {v for node in walk(function) if isinstance(node, n.Return) for v in node.values if isinstance(v, n.Var)}
    stated = {p.var for p in function.params if p.direction is not Direction.In}
    return stated | ((returned & params) - assigned)


def _calls_of_interest(function: n.Function, program: Program) -> tuple[bool, bool, bool]:
    writes = pushes = frees = False
    for node in walk(function):
        if isinstance(node, n.OpCall):
            pushes = pushes or node.op in PUSHES
            frees = frees or node.op in FREES
        if isinstance(node, (n.OpCall, n.FunctionCall)):
            writes = writes or bool(written_by_name(node, program))
    return writes, pushes, frees


Live = frozenset[n.Var]


class _Liveness:
    """Backward walk: the variables that are read later, at each write."""

    def __init__(self, function: n.Function, program: Program) -> None:
        self.program = program
        self.aliases = Aliases(function, program)
        self.decisions: dict[n.Expr, Decision] = {}
        self.pushes: dict[n.OpCall, bool] = {}
        self.outputs = output_parameters(function)
        inputs = {p.var for p in function.params if p.var not in self.outputs}
        find = self.aliases.find
        self.output_groups = {find(v) for v in self.outputs}
        self.foreign_groups = {find(v) for v in inputs | self.aliases.popped} - self.output_groups
        self.written_groups = {
            find(root)
            for node in walk(function)
            if isinstance(node, (n.OpCall, n.FunctionCall))
            for index in written_by_name(node, program)
            for root in self.aliases.roots(node.args[index])
        }
        self._loops: list[tuple[Live, Live]] = []

    def block(self, body: n.Body, live: Live) -> Live:
        """Variables that are read at or after the head of a block, given those read after it."""
        for stmt in reversed(body):
            live = self.stmt(stmt, live)
        return live

    def stmt(self, stmt: n.Stmt, live: Live) -> Live:
        match stmt:
            case n.Assign():
                self._decide(stmt.value, stmt.value, live - {stmt.var}, stmt.var)
                return (live - {stmt.var}) | self.reads(stmt.value)
            case n.Eval():
                self._decide(stmt.expr, stmt.expr, live, None)
                return live | self.reads(stmt.expr)
            case n.Yield():
                return live | self._all_reads(stmt.values)
            case n.Return():
                # an output parameter that is returned means the buffer, not the value it had
                return self._all_reads(v for v in stmt.values if v not in self.outputs)
            case n.If():
                after = live - frozenset(stmt.return_vars)
                both = self.block(stmt.then_body, after) | self.block(stmt.else_body, after)
                return both | self.reads(stmt.condition)
            case n.For():
                head = self._loop(stmt.body, live, stmt.iter_args, stmt.return_vars, {stmt.loop_var}, frozenset())
                inits = (a.init_value for a in stmt.iter_args)
                return head | self._all_reads((stmt.start, stmt.stop, stmt.step, *inits))
            case n.While():
                tested = self.reads(stmt.condition)
                head = self._loop(stmt.body, live, stmt.iter_args, stmt.return_vars, set(), tested)
                return head | self._all_reads(a.init_value for a in stmt.iter_args)
            case n.Scope():
                # the blocks and lanes of a scope share its memory: none of them keeps an old value for the next
                return self.block(stmt.body, live)
            case n.Break():
                return self._loops[-1][0]
            case n.Continue():
                return self._loops[-1][1]
        return live

    def _loop(
        self,
        body: n.Body,
        live: Live,
        iter_args: tuple[n.IterArg, ...],
        return_vars: tuple[n.Var, ...],
        defined: set[n.Var],
        tested: Live,
    ) -> Live:
        """Variables read at or after a loop's start, its carried ones aside."""
        carried = frozenset(iter_args)
        returned = frozenset(return_vars)
        exit_live = (live - returned) | (carried if returned & live else frozenset())
        head = exit_live | tested
        while True:
            self._loops.append((exit_live, head))
            start = self.block(body, head - carried)
            self._loops.pop()
            new = (start - frozenset(defined)) | head
            if new == head:
                return head - carried
            head = new

    def _decide(self, expr: n.Expr, top: n.Expr, live: Live, defined: n.Var | None) -> None:
        """Decisions for the writes inside an expression, whose statement leaves `live` variables to be read."""
        for node in walk(expr):
            if isinstance(node, n.OpCall) and node.op in PUSHES and node.args:
                groups = {self.aliases.find(v) for v in self.aliases.roots(node.args[0])} & self.written_groups
                self.pushes[node] = any(self.aliases.find(v) in groups for v in live)
            if not isinstance(node, (n.OpCall, n.FunctionCall)):
                continue
            for index in written_by_name(node, self.program):
                decision = self._decision(node, index, top, live, assigned=defined is not None)
                known = self.decisions.get(node, IN_PLACE)
                if isinstance(node, n.FunctionCall) and known is not IN_PLACE:
                    decision = Decision(
                        keep=tuple(dict.fromkeys((*known.keep, *decision.keep))),
                        copy_args=known.copy_args | decision.copy_args,
                    )
                self.decisions[node] = decision

    def _decision(
        self, call: n.OpCall | n.FunctionCall, index: int, top: n.Expr, live: Live, *, assigned: bool
    ) -> Decision:
        find = self.aliases.find
        groups = {find(v) for v in self.aliases.roots(call.args[index])}
        sharing = frozenset(i for i, a in enumerate(call.args) if i != index and self._shares(a, groups))
        if not groups:
            return IN_PLACE
        if call is not top:
            elsewhere = [v for v in walk(top) if isinstance(v, n.Var) and find(v) in groups]
            live = live | frozenset(elsewhere[1:])
        # what is written through a reshaped view of a tensor is meant to be seen in the tensor
        seen = self.aliases.shown(call.args[index])
        needed = tuple(sorted((v for v in live - seen if find(v) in groups), key=lambda v: v.name))
        function_call = isinstance(call, n.FunctionCall)
        if groups & self.output_groups or (call is top and not assigned):
            if not assigned or call is not top:
                return Decision(copy_args=sharing)
            target = call.args[index]
            keep_target = isinstance(target, n.Var) and target in needed and not function_call
            keep = tuple(v for v in needed if function_call or v is not target)
            return Decision(keep=keep, keep_target=keep_target, copy_args=sharing)
        if groups & self.foreign_groups or needed:
            return Decision(copy_args=frozenset({index})) if function_call else Decision(copy=True)
        return Decision(copy_args=sharing)

    def _shares(self, expr: n.Expr, groups: set[n.Var]) -> bool:
        return any(self.aliases.find(v) in groups for v in self.aliases.roots(expr))

    def reads(self, expr: n.Expr) -> Live:
        """Variables an expression reads; an Out argument of a launch is only written."""
        found: set[n.Var] = set()
        stack: list[n.Expr] = [expr]
        while stack:
            node = stack.pop()
            match node:
                case n.Var():
                    found.add(node)
                case n.FunctionCall() | n.Submit():
                    directions = self.program.directions(node.callee)
                    for position, argument in enumerate(node.args):
                        written_only = position < len(directions) and directions[position] is Direction.Out
                        if not (written_only and isinstance(argument, n.Var)):
                            stack.append(argument)
                    if isinstance(node, n.Submit):
                        stack.extend((*node.deps, *(e for e in (node.core_num, node.predicate) if e is not None)))
                case _:
                    stack.extend(_parts(node))
        return frozenset(found)

    def _all_reads(self, exprs: Iterable[n.Expr]) -> Live:
        return frozenset().union(*(self.reads(e) for e in exprs))


def _parts(node: n.Expr) -> Iterator[n.Expr]:
    match node:
        case n.MakeTuple():
            yield from node.elements
        case n.TupleGetItem():
            yield node.tuple
        case n.Binary():
            yield node.left
            yield node.right
        case n.Unary():
            yield node.operand
        case n.OpCall():
            yield from node.args
            yield from (v for v in node.kwargs.values() if isinstance(v, n.Expr))


# --- reads of freed tiles --------------------------------------------------------------------------------------------


def _freed_reads(body: n.Body) -> dict[n.Stmt, n.Var]:
    """Statements that read a popped tile by name after its slot was certainly freed."""
    found: dict[n.Stmt, n.Var] = {}
    _follow_frees(body, frozenset(), found)
    return found


def _follow_frees(body: n.Body, freed: Live, found: dict[n.Stmt, n.Var]) -> Live:
    for stmt in body:
        match stmt:
            case n.Assign() | n.Eval():
                expr = stmt.value if isinstance(stmt, n.Assign) else stmt.expr
                is_free = isinstance(expr, n.OpCall) and expr.op in FREES
                if freed and not is_free:
                    read = next((v for v in walk(expr) if isinstance(v, n.Var) and v in freed), None)
                    if read is not None:
                        found[stmt] = read
                if isinstance(expr, n.OpCall) and is_free and expr.args and isinstance(expr.args[0], n.Var):
                    freed |= {expr.args[0]}
                if isinstance(stmt, n.Assign):
                    freed -= {stmt.var}
            case n.If():
                then = _follow_frees(stmt.then_body, freed, found)
                freed = then & _follow_frees(stmt.else_body, freed, found)
            case n.For() | n.While():
                _follow_frees(stmt.body, freed, found)
            case n.Scope():
                freed = _follow_frees(stmt.body, freed, found)
    return freed
