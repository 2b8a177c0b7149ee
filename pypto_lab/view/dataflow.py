"""Reads a program's data flow into a `Graph`: who defines what each operation reads.

Before SSA the same variable is assigned again and again, and branches and loops merge what may have been written; so
the walk carries an environment, variable -> ids of the nodes that may have defined it, as an abstract interpreter does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pypto_lab.ir import nodes as n
from pypto_lab.ir.arith import constant
from pypto_lab.ir.enums import CUBE_SPACES, Direction, FunctionType, MemorySpace
from pypto_lab.ir.types import ScalarType, TileType
from pypto_lab.ir.visitor import children, walk
from pypto_lab.ops.record import OPS, Side
from pypto_lab.view import words
from pypto_lab.view.graph import Graph, GraphCluster, GraphEdge, GraphNode

Sources = tuple[str, ...]
Environment = dict[n.Var, Sources]

NOT_DRAWN = frozenset({"tile.alloc", "system.bar_all", "system.bar_v", "system.bar_m"})
"""Calls through which no value flows: allocations and barriers."""

_DETAIL = 34
_PIPE_ENDS = {
    "tpush_to_aiv": "c2v", "tpop_from_aic": "c2v", "tpush_to_aic": "v2c", "tpop_from_aiv": "v2c",
}  # fmt: skip


def build(program: n.Program | n.Function) -> Graph:
    """Every function of the program as a cluster; nodes in source order."""
    if isinstance(program, n.Function):
        program = n.Program(name=program.name, functions={program.name: program})
    walker = _Walker(program)
    for function in program.functions.values():
        walker.function(function)
    walker.join_functions()
    return Graph(program.name, tuple(walker.clusters), tuple(walker.nodes), tuple(dict.fromkeys(walker.edges)))


@dataclass
class _PipeEnd:
    node: str
    function: str
    pushes: bool
    key: tuple[str, object]


@dataclass
class _Loop:
    """A loop (or a branch, for its yields) that the walk is in. `reads` are reads of variables that the round has not
    surely defined yet, each with the node that reads: from the second round on they see the round before."""

    reads: list[tuple[n.Var, str]] = field(default_factory=list)
    yields: list[tuple[Sources, ...]] = field(default_factory=list)
    defined: set[n.Var] = field(default_factory=set)


class _Walker:
    def __init__(self, program: n.Program) -> None:
        self.program = program
        self.sources = {file: text.splitlines() for file, text in program.sources.items()}
        self.clusters: list[GraphCluster] = []
        self.nodes: list[GraphNode] = []
        self.edges: list[GraphEdge] = []
        self.env: Environment = {}
        self.loops: list[_Loop] = []
        self.cluster: str | None = None
        self.current: n.Function | None = None
        self.stmt: n.Stmt | None = None
        self.first_node: dict[str, str] = {}
        self.calls: list[tuple[str, str]] = []
        self.pipe_ends: list[_PipeEnd] = []
        self.groups: list[tuple[str, ...]] = []

    # functions

    def function(self, function: n.Function) -> None:
        self.env, self.loops, self.current = {}, [], function
        side = _function_side(function)
        line = function.span.line if function.span else None
        title = f"{function.name}, {function.func_type.name}"
        with_cluster = self.open("function", title, side, line)
        self.stmt = None
        for param in function.params:
            node = self.add(
                "parameter", param.name, (words.type_words(param.type), _direction(param)), "host", span_of=param
            )
            self.env[param.var] = (node,)
            self.first_node.setdefault(function.name, node)
        if function.func_type is FunctionType.Group:
            self.groups.append(tuple(c.callee for c in walk(function) if isinstance(c, n.FunctionCall)))
        if function.body is None:
            self.first_node.setdefault(
                function.name, self.add("external", "external", (function.external_source or "",), "host")
            )
        self.body(function.body or ())
        self.close(with_cluster)

    def join_functions(self) -> None:
        """Edges between functions: calls, and both ends of each cross-core pipe."""
        for caller, callee in self.calls:
            if callee in self.first_node:
                self.edges.append(GraphEdge(caller, self.first_node[callee], "call", callee))
        for group in self.groups or [tuple(self.program.functions)]:
            ends = [e for e in self.pipe_ends if e.function in group]
            for key in dict.fromkeys(e.key for e in ends):
                pushes = [e.node for e in ends if e.key == key and e.pushes]
                pops = [e.node for e in ends if e.key == key and not e.pushes]
                self.edges += [GraphEdge(a, b, "pipe", _pipe_name(key)) for a, b in _pairs(pushes, pops)]

    # statements

    def body(self, body: n.Body) -> None:
        for stmt in body:
            outer, self.stmt = self.stmt, stmt
            self.statement(stmt)
            self.stmt = outer

    def statement(self, stmt: n.Stmt) -> None:
        match stmt:
            case n.Assign():
                self.define(stmt.var, self.assigned(stmt.var, stmt.value))
            case n.Eval():
                self.value(stmt.expr)
            case n.Return() if stmt.values:
                self.fed("return", f"return {words.clip(words.items(stmt.values), _DETAIL)}", (), stmt.values)
            case n.Yield() if self.loops:
                self.loops[-1].yields.append(tuple(self.value(v) for v in stmt.values))
            case n.If():
                self.branch(stmt)
            case n.For() | n.While():
                self.loop(stmt)
            case n.Scope():
                self.scope(stmt)
            case n.InlineText():
                self.add("inline", "inline text", (words.clip(stmt.text.strip(), _DETAIL),), "host")

    def assigned(self, var: n.Var, value: n.Expr) -> Sources:
        """Nodes that define what is assigned: a node of its own for operations and arithmetic, none for an alias."""
        if isinstance(value, (n.OpCall, n.FunctionCall, n.Submit)):
            return self.value(value, var)
        if isinstance(value, (n.Binary, n.Unary, n.ConstInt, n.ConstFloat, n.ConstBool)):
            title = f"{var.name} = {words.clip(words.expression(value), _DETAIL)}"
            return (self.fed("scalar", title, (), (value,)),)
        return self.value(value)

    def branch(self, stmt: n.If) -> None:
        line = stmt.span.line if stmt.span else None
        around = self.open("branch", f"if {words.clip(words.expression(stmt.condition), 48)}", "host", line)
        title = words.clip(words.expression(stmt.condition), _DETAIL)
        test = self.fed("test", title, ("condition",), (stmt.condition,))
        before, defined = dict(self.env), self.defined()
        ends: list[Environment] = []
        all_defined: list[list[set[n.Var]]] = []
        yielded: list[tuple[Sources, ...]] = []
        for title, body in (("then", stmt.then_body), ("else", stmt.else_body)):
            self.env = dict(before)
            self.set_defined(defined)
            self.loops.append(_Loop())
            if body:
                arm = self.open("arm", title, "host", None)
                self.body(body)
                self.close(arm)
            frame = self.loops.pop()
            ends.append(self.env)
            all_defined.append(self.defined())
            yielded += frame.yields[-1:]
        self.env = _merged(ends)
        self.set_defined([a & b for a, b in zip(*all_defined, strict=True)])
        for index, var in enumerate(stmt.return_vars):
            sources = (s for values in yielded if index < len(values) for s in values[index])
            self.define(var, (*dict.fromkeys(sources), test))
        self.close(around)

    def loop(self, stmt: n.For | n.While) -> None:
        line = stmt.span.line if stmt.span else None
        around = self.open("loop", words.clip(words.loop_words(stmt), 64), "host", line)
        starts = [self.value(arg.init_value) for arg in stmt.iter_args]
        self.env.update(zip(stmt.iter_args, starts, strict=True))
        defined = self.defined()
        self.loops.append(_Loop())
        if isinstance(stmt, n.For):
            self.loop_variable(stmt)
        else:
            title = words.clip(words.expression(stmt.condition), _DETAIL)
            self.fed("test", title, ("condition",), (stmt.condition,))
        before = dict(self.env)
        self.body(stmt.body)
        frame = self.loops.pop()
        ends = frame.yields[-1] if frame.yields else ()
        self.carry(stmt, frame, before, ends)
        if not _surely_runs(stmt):
            self.env = _merged([before, self.env])
            self.set_defined(defined)
        for index, var in enumerate(stmt.return_vars):
            self.define(var, ends[index] if index < len(ends) else starts[index])
        self.close(around)

    def defined(self) -> list[set[n.Var]]:
        return [set(frame.defined) for frame in self.loops]

    def set_defined(self, defined: list[set[n.Var]]) -> None:
        for frame, variables in zip(self.loops, defined, strict=True):
            frame.defined = set(variables)

    def loop_variable(self, stmt: n.For) -> None:
        bounds = (stmt.start, stmt.stop, stmt.step)
        read = any(e is stmt.loop_var for s in stmt.body for e in walk(s))
        if read or any(self.value(b) for b in bounds):
            self.env[stmt.loop_var] = (self.fed("index", stmt.loop_var.name, ("loop index",), bounds),)
            self.loops[-1].defined.add(stmt.loop_var)

    def carry(self, stmt: n.For | n.While, frame: _Loop, before: Environment, ends: tuple[Sources, ...]) -> None:
        """Edges from the end of a round to the reads at the start of the next."""
        carried: Environment = {
            var: tuple(s for s in after if s not in before.get(var, ())) for var, after in self.env.items()
        }
        for index, arg in enumerate(stmt.iter_args):
            carried[arg] = ends[index] if index < len(ends) else ()
        for var, reader in frame.reads:
            self.edges += [GraphEdge(source, reader, "carried", var.name) for source in carried.get(var, ())]

    def scope(self, stmt: n.Scope) -> None:
        line = stmt.span.line if stmt.span else None
        around = self.open("scope", words.clip(words.scope_words(stmt), 64), "host", line)
        if isinstance(stmt, n.SpmdScope) and stmt.loop_var is not None:
            self.define(stmt.loop_var, (self.fed("index", stmt.loop_var.name, ("block index",), (stmt.core_num,)),))
        elif isinstance(stmt, n.SplitAivScope):
            self.define(stmt.lane_var, (self.add("index", stmt.lane_var.name, ("lane",), "host"),))
        self.body(stmt.body)
        self.close(around)

    # expressions

    def value(self, expr: n.Expr, var: n.Var | None = None) -> Sources:
        """Nodes that define an expression's value; operations inside it become nodes."""
        match expr:
            case n.Var():
                return self.env.get(expr, ())
            case n.OpCall() if expr.op in NOT_DRAWN:
                return ()
            case n.OpCall():
                return self.operation(expr, var)
            case n.FunctionCall() | n.Submit():
                return self.call(expr, var)
        return tuple(dict.fromkeys(s for child in children(expr) for s in self.value(child)))

    def operation(self, expr: n.OpCall, var: n.Var | None) -> Sources:
        arguments = [(argument, self.value(argument)) for argument in children(expr)]
        result = words.type_words(expr.type if var is None else var.type)
        lines = tuple(t for t in (var.name if var is not None else "", result) if t)
        node = self.add("operation", expr.op, lines, _operation_side(expr, self.current))
        for argument, sources in arguments:
            self.connect(argument, sources, node)
        record = OPS.get(expr.op)
        if record is not None and record.torch.writes is not None and record.torch.memory:
            self.written(expr.args[record.torch.writes : record.torch.writes + 1], node)
        self.pipe(expr, node)
        return (node,)

    def call(self, expr: n.FunctionCall | n.Submit, var: n.Var | None) -> Sources:
        submitted = isinstance(expr, n.Submit)
        lines = tuple(t for t in (var.name if var is not None else "", "submit" if submitted else "call") if t)
        arguments = [(argument, self.value(argument)) for argument in children(expr)]
        callee = self.program.functions.get(expr.callee)
        node = self.add("call", expr.callee, lines, _function_side(callee))
        for argument, sources in arguments:
            self.connect(argument, sources, node)
        self.calls.append((node, expr.callee))
        if callee is not None:
            pairs = zip(expr.args, callee.params, strict=False)
            self.written((a for a, p in pairs if p.direction is not Direction.In), node)
        return (node,)

    def written(self, arguments: Iterable[n.Expr], node: str) -> None:
        """What the call writes in place is from now on defined by it."""
        for argument in arguments:
            if isinstance(argument, n.Var):
                self.define(argument, (node,))

    def pipe(self, expr: n.OpCall, node: str) -> None:
        direction = _PIPE_ENDS.get(expr.op.rpartition(".")[2])
        if direction is not None and self.current is not None:
            key = (direction, expr.kwargs.get("id", expr.kwargs.get("pipe_id", 0)))
            self.pipe_ends.append(_PipeEnd(node, self.current.name, "push" in expr.op, key))

    # building

    def define(self, var: n.Var, sources: Sources) -> None:
        self.env[var] = sources
        for frame in self.loops:
            frame.defined.add(var)

    def fed(self, kind: str, title: str, lines: tuple[str, ...], values: Iterable[n.Expr]) -> str:
        """A node outside the cores, after the operations in the values it reads."""
        arguments = [(value, self.value(value)) for value in values]
        node = self.add(kind, title, lines, "host")
        for value, sources in arguments:
            self.connect(value, sources, node)
        return node

    def connect(self, argument: n.Expr, sources: Sources, node: str) -> None:
        kind = "index" if isinstance(argument, n.MakeTuple) or isinstance(argument.type, ScalarType) else "data"
        name = argument.name if isinstance(argument, n.Var) else ""
        self.edges += [GraphEdge(source, node, kind, name) for source in sources]
        for var in _variables(argument):
            for frame in self.loops:
                if var not in frame.defined:
                    frame.reads.append((var, node))

    def add(self, kind: str, title: str, lines: tuple[str, ...], side: str, span_of: object = None) -> str:
        span = getattr(span_of if span_of is not None else self.stmt, "span", None)
        rows = self.sources.get(span.file, []) if span is not None else []
        source = rows[span.line - 1].strip() if span is not None and 1 <= span.line <= len(rows) else ""
        hover = f"line {span.line}: {source}" if source and span is not None else " ".join((title, *lines))
        node = GraphNode(
            id=f"n{len(self.nodes)}",
            kind=kind,
            title=title,
            lines=tuple(line for line in lines if line),
            side=side,
            cluster=self.cluster,
            file=span.file if span is not None else None,
            line=span.line if span is not None else None,
            hover=hover,
        )
        self.nodes.append(node)
        if self.current is not None:
            self.first_node.setdefault(self.current.name, node.id)
        return node.id

    def open(self, kind: str, title: str, side: str, line: int | None) -> str | None:
        """Opens a cluster and returns the one around it, for :meth:`close`."""
        around = self.cluster
        self.cluster = f"c{len(self.clusters)}"
        self.clusters.append(GraphCluster(self.cluster, kind, title, around, side, line))
        return around

    def close(self, around: str | None) -> None:
        self.cluster = around


def _variables(expr: n.Expr) -> Iterator[n.Var]:
    """Variables read by an expression itself; operations inside it are nodes and read for themselves."""
    if isinstance(expr, n.Var):
        yield expr
    elif not isinstance(expr, (n.OpCall, n.FunctionCall, n.Submit)):
        for child in children(expr):
            yield from _variables(child)


def _surely_runs(loop: n.For | n.While) -> bool:
    """Whether a loop is known to run at least one round."""
    if isinstance(loop, n.While):
        return False
    start, stop, step = constant(loop.start), constant(loop.stop), constant(loop.step)
    return None not in (start, stop, step) and len(range(start or 0, stop or 0, step or 1)) > 0


def _merged(ends: list[Environment]) -> Environment:
    """What may have defined each variable after one of several ways was taken."""
    merged: dict[n.Var, dict[str, None]] = {}
    for env in ends:
        for var, sources in env.items():
            merged.setdefault(var, {}).update(dict.fromkeys(sources))
    return {var: tuple(sources) for var, sources in merged.items()}


def _pairs(pushes: list[str], pops: list[str]) -> list[tuple[str, str]]:
    """Pushes and pops of one pipe in order; all with all where the text does not say which meets which."""
    if len(pushes) == len(pops):
        return list(zip(pushes, pops, strict=True))
    return [(a, b) for a in pushes for b in pops]


def _pipe_name(key: tuple[str, object]) -> str:
    direction, number = key
    arrow = "C to V" if direction == "c2v" else "V to C"
    return f"pipe {number}, {arrow}" if number else arrow


def _direction(param: n.Param) -> str:
    return {"In": "input", "Out": "output", "InOut": "input and output"}[param.direction.value]


def _function_side(function: n.Function | None) -> str:
    if function is None:
        return "host"
    return {FunctionType.AIC: "aic", FunctionType.AIV: "aiv"}.get(function.func_type, "host")


def _operation_side(call: n.OpCall, function: n.Function | None) -> str:
    """Which core runs an op: its function's, else its record's, else the side of the memory its tiles are in."""
    side = _function_side(function)
    if side != "host":
        return side
    record = OPS.get(call.op)
    if record is not None and record.side in (Side.CUBE, Side.VECTOR):
        return "aic" if record.side is Side.CUBE else "aiv"
    spaces = {e.type.memory_space for e in (call, *call.args) if isinstance(e.type, TileType)}
    if spaces & CUBE_SPACES:
        return "aic"
    return "aiv" if MemorySpace.Vec in spaces else "host"
