"""Follows a difference between two runs of a program back to the statement where it came in.

The runs go side by side. A variable whose valid cells differ is tainted; from an output that differs the way leads back
over tainted operands to the first statement that read something different.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from pypto_lab.ir import nodes as n
from pypto_lab.ir.printer import print_stmt
from pypto_lab.ir.span import Span
from pypto_lab.ir.visitor import walk
from pypto_lab.ops.record import OPS
from pypto_lab.torch_codegen.execute import Prepared, ScriptError
from pypto_lab.torch_codegen.liveness import POPS, PUSHES, VIEWS
from pypto_lab.torch_codegen.lockstep import Moment, PartedError, Side, side_by_side

PLACES = frozenset({"assemble", "write", "scatter", "scatter_update", "scatter_mask", "gather_row", "fillpad_inplace"})
"""Short names of ops that write some cells of a target and leave the others as they were."""


@dataclass(frozen=True, slots=True)
class FirstRead:
    """The statement by which a difference comes into an output.

    `variable` is what it reads, `cell` the first cell of it that differs, `count` how many there are, `why` what they
    are and `origin` where they come from. `statement` is None for an output that is not written at all there.
    """

    output: str
    statement: str | None
    span: Span | None
    variable: str
    cell: tuple[int, ...]
    count: int
    why: str
    origin: str
    lane: str = ""
    cells: torch.Tensor | None = field(default=None, compare=False, repr=False)
    """Which cells of the output differ; None where the runs did not come to it."""

    def __str__(self) -> str:
        more = f" and {self.count - 1} more" if self.count > 1 else ""
        cells = f"cell {list(self.cell)}{more} of " if self.cell else ""
        if self.statement is None:
            return f"{cells}`{self.output}` {'are' if self.count > 1 else 'is'} never written"
        origin = f"; it comes from {self.origin}" if self.origin else ""
        lane = f" ({self.lane})" if self.lane not in ("", "host") else ""
        return f"{place_of(self.span)}`{self.statement}`{lane} reads {cells}`{self.variable}`, {self.why}{origin}"


@dataclass(eq=False, slots=True)
class Tainted:
    """A value whose valid cells depend on undefined ones; `parents` are the tainted values it was made from."""

    read: FirstRead
    parents: tuple[Tainted, ...]

    def first(self) -> Tainted:
        node = self
        while node.parents:
            node = node.parents[0]
        return node


@dataclass(frozen=True, eq=False, slots=True)
class Flow:
    """What is known of a variable: the statement that made it, which of its cells are undefined, and its taint."""

    stmt: n.Stmt | None
    undefined: torch.Tensor | None = None
    taint: Tainted | None = None


@dataclass(eq=False, slots=True)
class Call:
    """One call of a function: its variables, and their values after the statement before."""

    flows: dict[str, Flow] = field(default_factory=dict)
    values: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {})


class Finder:
    """Follows differing cells from statement to statement. A subclass may say more about what a statement reads."""

    def __init__(self, prepared: Prepared) -> None:
        self.script = prepared.script
        self.names = {f: {v: name for name, v in table.items()} for f, table in prepared.script.names.items()}
        self.calls: dict[int, Call] = {}
        self.stored: dict[int, list[Tainted]] = {}
        self.created: dict[int, n.Stmt] = {}
        self.unwritten = {_storage(tensor) for tensor in prepared.outputs.values()}
        self.pushed: dict[str, Tainted] = {}
        self.moves: dict[int, tuple[tuple[str, str], ...]] = {}

    def find(self, first: Side, second: Side, seed: int) -> tuple[FirstRead, ...]:
        """Runs both sides; for each output that differs the statement where the difference came in."""
        try:
            side_by_side(first, second, self.watch, seed=seed)
        except PartedError as parted:
            return (self.parted(parted),)
        except ScriptError as stopped:
            return (self.stopped(stopped),)
        return self.outputs(first.prepared.outputs, second.prepared.outputs)

    def watch(self, a: Moment, b: Moment) -> bool:
        """Looks at the same statement of both runs; False: they go on."""
        call = self.calls.setdefault(a.frame, Call())
        if isinstance(a.line.stmt, (n.Assign, n.Eval)):
            self._statement(call, a, b)
        elif a.starts:
            self._entered(call, a, b)
        else:
            self._handed_on(call, a)
        call.values = (a.values, b.values)
        return False

    def _entered(self, call: Call, a: Moment, b: Moment) -> None:
        """A function starts: which cells of the outputs it is given are undefined so far."""
        for name, value in a.values.items():
            if isinstance(value, torch.Tensor) and _storage(value) in self.unwritten:
                undefined = _differ(value, b.values[name])
                if bool(undefined.any()):
                    call.flows[name] = Flow(None, undefined)

    def _handed_on(self, call: Call, moment: Moment) -> None:
        """A yield, or the start or end of a loop: variables take the place of others."""
        number = moment.line.number
        if number not in self.moves:
            self.moves[number] = _moves(self.script.row(number))
        moved = {target: call.flows.get(source) for target, source in self.moves[number]}
        call.flows.update({target: flow for target, flow in moved.items() if flow is not None})

    def _statement(self, call: Call, a: Moment, b: Moment) -> None:
        stmt = a.line.stmt
        value = stmt.value if isinstance(stmt, n.Assign) else stmt.expr if isinstance(stmt, n.Eval) else None
        if stmt is None or value is None or isinstance(value, (n.FunctionCall, n.Submit)):
            return
        table = self.names.get(a.line.function, {})
        name = table.get(stmt.var) if isinstance(stmt, n.Assign) else None
        pair = (a.values.get(name), b.values.get(name)) if name is not None else (None, None)
        step = Step(self, call, a, stmt, value, table)
        self.about_to_follow(step)
        if isinstance(value, n.OpCall) and value.op in PUSHES:
            taint = step.taint_of(value.args[0])
            if taint is not None:
                self.pushed[value.op[-3:]] = taint
        elif isinstance(value, n.OpCall) and step.stores():
            step.store()
        elif name is not None and pair[0] is not None:
            call.flows[name] = step.made(*pair)

    # what a subclass may add

    def about_to_follow(self, step: Step) -> None:
        """Called for each statement, before its values are compared."""

    def why(self, step: Step, var: n.Var, value: torch.Tensor, differs: torch.Tensor) -> tuple[str, str]:
        """What the differing cells of an operand are, and where they come from."""
        name = step.table[var]
        flow = step.call.flows.get(name)
        made = None if flow is None else flow.stmt
        if not bool(_inside(value, differs).any()):
            valid = list(getattr(value, "_pypto_valid_shape", value.shape))
            return f"outside the valid region {valid} of {list(value.shape)}", origin_of(made)
        return "which nobody has written", origin_of(self.created.get(_storage(value), made))

    # what is found

    def outputs(self, first: Mapping[str, torch.Tensor], second: Mapping[str, torch.Tensor]) -> tuple[FirstRead, ...]:
        found = []
        for name, tensor in first.items():
            differs = _differ(tensor, second[name])
            if not bool(differs.any()):
                continue
            taints = self.stored.get(_storage(tensor), [])
            if taints:
                read = taints[0].first().read
                found.append(replace(read, output=name, cells=differs))
            else:
                cell, count = _cells(differs)
                found.append(FirstRead(name, None, None, name, cell, count, "never written", "", cells=differs))
        return tuple(found)

    def parted(self, parted: PartedError) -> FirstRead:
        """The runs went different ways: a condition or a bound depends on undefined cells."""
        where = parted.first or parted.second or parted.before
        taint = next((t for call in self.calls.values() for t in _scalar_taints(call)), None)
        if taint is not None:
            return replace(taint.first().read, output="the way the program goes")
        stmt = None if where is None else where.line.stmt
        return FirstRead(
            "the way the program goes", text_of(stmt), None if stmt is None else stmt.span, "a condition", (), 1,
            "which is not the same in both runs", "",
        )  # fmt: skip

    def stopped(self, error: ScriptError) -> FirstRead:
        """A run stopped: at an index or extent that differs, or (then the error is raised) for another reason."""
        taint = next((t for call in self.calls.values() for t in _scalar_taints(call)), None)
        if taint is None:
            raise error
        return replace(taint.first().read, output="an index")


class Step:
    """One statement of both runs."""

    def __init__(
        self, finder: Finder, call: Call, moment: Moment, stmt: n.Stmt, value: n.Expr, table: Mapping[n.Var, str]
    ) -> None:
        self.finder = finder
        self.call = call
        self.moment = moment
        self.stmt = stmt
        self.value = value
        self.table = table

    def operands(self) -> list[tuple[n.Var, str]]:
        """Variables the statement names and their script names; one that is only written comes last."""
        found = dict.fromkeys(v for v in walk(self.value) if isinstance(v, n.Var) and v in self.table)
        written = self.written()
        return sorted(((v, self.table[v]) for v in found), key=lambda pair: pair[0] is written)

    def written(self) -> n.Expr | None:
        """The target of a statement that writes some of its cells and leaves the others."""
        op = OPS.get(self.value.op) if isinstance(self.value, n.OpCall) else None
        if op is None or op.torch.writes is None or not isinstance(self.value, n.OpCall):
            return None
        places = op.torch.memory or op.name.rpartition(".")[2] in PLACES
        return self.value.args[op.torch.writes] if places and op.torch.writes < len(self.value.args) else None

    def flow(self, expr: n.Expr) -> Flow | None:
        return self.call.flows.get(self.table.get(expr, "")) if isinstance(expr, n.Var) else None

    def taint_of(self, expr: n.Expr) -> Tainted | None:
        flow = self.flow(expr)
        return None if flow is None else flow.taint

    def before(self, name: str) -> tuple[Any, Any]:
        """An operand in both runs, as it was before the statement."""
        first, second = self.call.values
        return (first[name], second[name]) if name in first and name in second else (None, None)

    def stores(self) -> bool:
        """Whether the statement writes global memory."""
        assert isinstance(self.value, n.OpCall)
        op = OPS.get(self.value.op)
        return op is not None and op.torch.memory

    def store(self) -> None:
        """A write to global memory: what is written may be tainted, what was there is not read."""
        assert isinstance(self.value, n.OpCall)
        written = self.written()
        target = self.table.get(written) if isinstance(written, n.Var) else None
        where = self.before(target)[0] if target is not None else None
        if not isinstance(where, torch.Tensor):
            return
        sources = [a for a in self.value.args if a is not written]
        parents = [t for a in sources for v in walk(a) if isinstance(v, n.Var) and (t := self.taint_of(v)) is not None]
        if not parents and not any(self._differs(a) for a in sources):
            return
        self.finder.stored.setdefault(_storage(where), []).append(Tainted(self._read(parents), tuple(parents)))

    def _differs(self, source: n.Expr) -> bool:
        """Whether the valid cells of an operand differ."""
        name = self.table.get(source) if isinstance(source, n.Var) else None
        first, second = self.before(name) if name is not None else (None, None)
        if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
            return False
        return bool(_inside(first, _differ(first, second)).any())

    def made(self, first: Any, second: Any) -> Flow:
        """What is known of the variable the statement has assigned."""
        if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
            return self._scalar(first, second)
        undefined = _differ(first, second)
        if not bool(undefined.any()):
            return Flow(self.stmt)
        short = self.value.op.rpartition(".")[2] if isinstance(self.value, n.OpCall) else ""
        if short in ("create", "alloc", "create_l1"):
            self.finder.created[_storage(first)] = self.stmt
            self.finder.unwritten.add(_storage(first))
            return Flow(self.stmt, undefined)
        parents = self._parents()
        inherited = self._inherited(short, first)
        new = undefined if inherited is None else undefined & ~inherited
        if not bool(_inside(first, new).any()) and not self._places_different():
            return Flow(self.stmt, undefined, parents[0] if parents and inherited is not None else None)
        taint = Tainted(self._read(parents), tuple(parents))
        if short in PLACES and _storage(first) in self.finder.unwritten:
            self.finder.stored.setdefault(_storage(first), []).append(taint)
        return Flow(self.stmt, undefined, taint)

    def _places_different(self) -> bool:
        """Whether cells that differ are written into a target whose own cells differ anyway."""
        written = self.written()
        return written is not None and any(self._differs(v) for v, _ in self.operands() if v is not written)

    def _scalar(self, first: Any, second: Any) -> Flow:
        same = type(first) is type(second) and (first == second or first != first)
        if same or not isinstance(first, (int, float, bool)):
            return Flow(self.stmt)
        parents = self._parents()
        return Flow(self.stmt, None, Tainted(self._read(parents), tuple(parents)))

    def _parents(self) -> list[Tainted]:
        """Tainted values the statement reads: variables, what was stored to global memory, what was pushed."""
        found = [t for v, _ in self.operands() if (t := self.taint_of(v)) is not None]
        if not found and isinstance(self.value, n.OpCall):
            if self.value.op in POPS:
                found = [t for key, t in self.finder.pushed.items() if key != self.value.op[-3:]]
            else:
                for _, name in self.operands():
                    value = self.before(name)[0]
                    if isinstance(value, torch.Tensor):
                        found += self.finder.stored.get(_storage(value), [])
        return found

    def _inherited(self, short: str, result: torch.Tensor) -> torch.Tensor | None:
        """Cells that were undefined in the operand already, where the statement only hands them on."""
        if not isinstance(self.value, n.OpCall) or not self.value.args:
            return None
        written = self.written()
        if written is not None:
            flow = self.flow(written)
            return flow.undefined if flow is not None and _fits(flow.undefined, result) else None
        flow = self.flow(self.value.args[0])
        if short in VIEWS - {"cast", "fillpad", "extract"} and flow is not None and flow.undefined is not None:
            source = self.before(self.table[self.value.args[0]])[0] if isinstance(self.value.args[0], n.Var) else None
            if isinstance(source, torch.Tensor) and flow.taint is None and bool(_inside(source, flow.undefined).any()):
                return torch.ones(result.shape, dtype=torch.bool)
        return None

    def _read(self, parents: Sequence[Tainted]) -> FirstRead:
        """What the statement reads; for one that has tainted operands only its place matters."""
        text, span, lane = text_of(self.stmt), self.stmt.span, self.moment.lane
        if parents:
            return FirstRead("", text, span, "", (), 1, "", "", lane)
        for var, name in self.operands():
            first, second = self.before(name)
            if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
                continue
            differs = _differ(first, second)
            if not bool(differs.any()):
                continue
            why, origin = self.finder.why(self, var, first, differs)
            inside = _inside(first, differs)
            cell, count = _cells(inside if bool(inside.any()) else differs)
            return FirstRead("", text, span, var.name, cell, count, why, origin, lane)
        return FirstRead("", text, span, "its result", (), 1, "which the operation leaves undefined", "", lane)


# --- cells -----------------------------------------------------------------------------------------------------------


def _differ(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Cells of `a` that `b` does not hold; two NaNs are the same."""
    if a.shape != b.shape:
        return torch.ones(a.shape, dtype=torch.bool)
    if a.dtype.is_floating_point and a.element_size() == 1:
        a, b = a.float(), b.float()
    different = a != b
    return different & ~((a != a) & (b != b)) if a.dtype.is_floating_point else different


def _inside(x: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    """Those cells that lie in the valid region of `x`."""
    valid = getattr(x, "_pypto_valid_shape", None)
    if valid is None:
        return cells
    inside = torch.zeros_like(cells)
    region = tuple(slice(0, extent) for extent in valid)
    inside[region] = cells[region]
    return inside


def _cells(cells: torch.Tensor) -> tuple[tuple[int, ...], int]:
    """The first cell and how many there are."""
    places = cells.nonzero()
    return tuple(int(i) for i in places[0]), len(places)


def _fits(cells: torch.Tensor | None, x: torch.Tensor) -> bool:
    return cells is not None and cells.shape == x.shape


def _storage(x: torch.Tensor) -> int:
    return x.untyped_storage().data_ptr()


def _scalar_taints(call: Call) -> list[Tainted]:
    return [flow.taint for flow in call.flows.values() if flow.taint is not None and flow.undefined is None]


def _moves(row: str) -> tuple[tuple[str, str], ...]:
    """(target, source) of the plain names in an assignment such as `i, acc = i + 1, acc_1`."""
    try:
        node = ast.parse(row).body[0]
    except SyntaxError:
        return ()
    if not isinstance(node, ast.Assign):
        return ()
    target, value = node.targets[0], node.value
    targets = target.elts if isinstance(target, ast.Tuple) else [target]
    values = value.elts if isinstance(value, ast.Tuple) else [value]
    pairs = zip(targets, values, strict=False)
    return tuple((t.id, v.id) for t, v in pairs if isinstance(t, ast.Name) and isinstance(v, ast.Name))


def text_of(stmt: n.Stmt | None) -> str:
    """A statement's first line without its type."""
    if stmt is None:
        return ""
    text = print_stmt(stmt).strip().splitlines()[0]
    left, equals, right = text.partition(" = ")
    return f"{left.partition(':')[0]}{equals}{right}" if equals else text


def place_of(span: Span | None) -> str:
    return "" if span is None else f"{span.file}:{span.line}: "


def origin_of(stmt: n.Stmt | None) -> str:
    return "" if stmt is None else f"{place_of(stmt.span)}`{text_of(stmt)}`"
