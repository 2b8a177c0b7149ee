"""Undefined is not zero: which statement first reads a cell that nobody wrote, and where that cell comes from.

The program runs twice, side by side, with different markers in every undefined cell. A value whose valid cells differ
depends on undefined ones; from an output that differs the way leads back to the statement where they came in.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import Direction
from pypto_lab.ir.printer import print_stmt
from pypto_lab.ir.span import Span
from pypto_lab.ir.visitor import walk
from pypto_lab.ops.record import OPS
from pypto_lab.torch_codegen.execute import Prepared, ScriptError, prepare
from pypto_lab.torch_codegen.liveness import POPS, PUSHES, VIEWS
from pypto_lab.torch_codegen.lockstep import Moment, PartedError, Side, side_by_side

MARKERS = (2, 3)
"""Two markers that differ in sign."""
PLACES = frozenset({"assemble", "write", "scatter", "scatter_update", "scatter_mask", "gather_row", "fillpad_inplace"})
"""Short names of ops that write some cells of a target and leave the others as they were."""


@dataclass(frozen=True, slots=True)
class UndefinedRead:
    """The statement by which undefined cells reach an output.

    `variable` is what it reads, `cell` the first undefined cell in it, `count` how many there are, `why` what they are
    and `origin` where they come from. `statement` is None for an output that is not written at all there.
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

    def __str__(self) -> str:
        more = f" and {self.count - 1} more" if self.count > 1 else ""
        cells = f"cell {list(self.cell)}{more}"
        if self.statement is None:
            return f"{cells} of `{self.output}` {'are' if self.count > 1 else 'is'} never written"
        origin = f"; it comes from {self.origin}" if self.origin else ""
        lane = f" ({self.lane})" if self.lane not in ("", "host") else ""
        return f"{_at(self.span)}`{self.statement}`{lane} reads {cells} of `{self.variable}`, {self.why}{origin}"


@dataclass(eq=False, slots=True)
class _Tainted:
    """A value whose valid cells depend on undefined ones; `parents` are the tainted values it was made from."""

    read: UndefinedRead
    parents: tuple[_Tainted, ...]

    def first(self) -> _Tainted:
        node = self
        while node.parents:
            node = node.parents[0]
        return node


@dataclass(frozen=True, eq=False, slots=True)
class _Flow:
    """What is known of a variable: the statement that made it, which of its cells are undefined, and its taint."""

    stmt: n.Stmt | None
    undefined: torch.Tensor | None = None
    taint: _Tainted | None = None


@dataclass(eq=False, slots=True)
class _Call:
    """One call of a function: its variables, and their values after the statement before."""

    flows: dict[str, _Flow] = field(default_factory=dict)
    values: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {})


def undefined_reads(
    program: n.Program | n.Function, values: Mapping[str, Any], *, seed: int = 0
) -> tuple[UndefinedRead, ...]:
    """For each output that depends on undefined cells, the statement by which they came in; () when none does.

    Cells of an `Out` parameter that nobody writes are undefined too. Raises LabError like `run`.
    """
    sides = [prepare(program, values) for _ in MARKERS]
    for prepared, marker in zip(sides, MARKERS, strict=True):
        _mark_outputs(program, prepared, marker)
    finder = _Finder(program, sides[0])
    pair = [Side(prepared, marker) for prepared, marker in zip(sides, MARKERS, strict=True)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            side_by_side(pair[0], pair[1], finder.watch, seed=seed)
        except PartedError as parted:
            return (finder.parted(parted),)
        except ScriptError as stopped:
            return (finder.stopped(stopped),)
    return finder.outputs(sides[0].outputs, sides[1].outputs)


def _mark_outputs(program: n.Program | n.Function, prepared: Prepared, marker: int) -> None:
    """Puts the marker into outputs that are not inputs too."""
    entry = program if isinstance(program, n.Function) else _entry(program, prepared)
    pairs = list(zip(entry.params, prepared.arguments, strict=True))
    read = {id(value) for param, value in pairs if param.direction is not Direction.Out}
    for param, value in pairs:
        if param.direction is Direction.Out and isinstance(value, torch.Tensor) and id(value) not in read:
            value.copy_(torch.full(value.shape, _number(value.dtype, marker), dtype=torch.float32).to(value.dtype))


def _entry(program: n.Program, prepared: Prepared) -> n.Function:
    script = prepared.script
    return program.functions[next(name for name, written in script.functions.items() if written == script.entry)]


def _number(dtype: torch.dtype, marker: int) -> float:
    signed = dtype.is_floating_point or (dtype is not torch.bool and torch.iinfo(dtype).min < 0)
    if dtype is torch.bool or (dtype.is_floating_point and dtype.itemsize == 1):
        return float(marker % 2)
    return float((41 + marker) * (-1 if signed and marker % 2 else 1))


class _Finder:
    """Follows undefined cells from statement to statement."""

    def __init__(self, program: n.Program | n.Function, prepared: Prepared) -> None:
        self.script = prepared.script
        self.names = {f: {v: name for name, v in table.items()} for f, table in prepared.script.names.items()}
        self.calls: dict[int, _Call] = {}
        self.stored: dict[int, list[_Tainted]] = {}
        self.created: dict[int, n.Stmt] = {}
        self.pushed: dict[str, _Tainted] = {}

    def watch(self, a: Moment, b: Moment) -> bool:
        call = self.calls.setdefault(a.frame, _Call())
        if not a.starts:
            self._statement(call, a, b)
        call.values = (a.values, b.values)
        return False

    def _statement(self, call: _Call, a: Moment, b: Moment) -> None:
        stmt = a.line.stmt
        value = stmt.value if isinstance(stmt, n.Assign) else stmt.expr if isinstance(stmt, n.Eval) else None
        if stmt is None or value is None or isinstance(value, (n.FunctionCall, n.Submit)):
            return
        table = self.names.get(a.line.function, {})
        name = table.get(stmt.var) if isinstance(stmt, n.Assign) else None
        pair = (a.values.get(name), b.values.get(name)) if name is not None else (None, None)
        step = _Step(self, call, a, stmt, value, table)
        if isinstance(value, n.OpCall) and value.op in PUSHES:
            taint = step.taint_of(value.args[0])
            if taint is not None:
                self.pushed[value.op[-3:]] = taint
        elif isinstance(value, n.OpCall) and step.stores():
            step.store()
        elif name is not None and pair[0] is not None:
            call.flows[name] = step.made(*pair)

    # what is found

    def outputs(
        self, first: Mapping[str, torch.Tensor], second: Mapping[str, torch.Tensor]
    ) -> tuple[UndefinedRead, ...]:
        found = []
        for name, tensor in first.items():
            differs = _differ(tensor, second[name])
            if not bool(differs.any()):
                continue
            taints = self.stored.get(_storage(tensor), [])
            if taints:
                read = taints[0].first().read
                found.append(_for_output(read, name))
            else:
                cell, count = _cells(differs)
                found.append(UndefinedRead(name, None, None, name, cell, count, "never written", ""))
        return tuple(found)

    def parted(self, parted: PartedError) -> UndefinedRead:
        """The runs went different ways: a condition or a bound depends on undefined cells."""
        where = parted.first or parted.second or parted.before
        taint = next((t for call in self.calls.values() for t in _scalar_taints(call)), None)
        if taint is not None:
            return _for_output(taint.first().read, "the way the program goes")
        stmt = None if where is None else where.line.stmt
        return UndefinedRead(
            "the way the program goes", _text(stmt), None if stmt is None else stmt.span, "a condition", (), 1,
            "which depends on undefined cells", "",
        )  # fmt: skip

    def stopped(self, error: ScriptError) -> UndefinedRead:
        """A marker made the script stop, such as an index that was never written."""
        taint = next((t for call in self.calls.values() for t in _scalar_taints(call)), None)
        if taint is not None:
            return _for_output(taint.first().read, "an index")
        diagnostic = error.diagnostics[0]
        return UndefinedRead(
            "an index", diagnostic.message, diagnostic.span, "a value", (), 1, "which is undefined", ""
        )


class _Step:
    """One statement of both runs."""

    def __init__(
        self, finder: _Finder, call: _Call, moment: Moment, stmt: n.Stmt, value: n.Expr, table: Mapping[n.Var, str]
    ) -> None:
        self.finder = finder
        self.call = call
        self.moment = moment
        self.stmt = stmt
        self.value = value
        self.table = table

    def operands(self) -> list[tuple[n.Var, str]]:
        found = dict.fromkeys(v for v in walk(self.value) if isinstance(v, n.Var) and v in self.table)
        return [(v, self.table[v]) for v in found]

    def flow(self, expr: n.Expr) -> _Flow | None:
        return self.call.flows.get(self.table.get(expr, "")) if isinstance(expr, n.Var) else None

    def taint_of(self, expr: n.Expr) -> _Tainted | None:
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
        return op is not None and op.torch.memory and op.name.rpartition(".")[2] in ("store", "write", "mscatter")

    def store(self) -> None:
        """A write to global memory: what is written may be tainted, what was there is not read."""
        assert isinstance(self.value, n.OpCall)
        op = OPS.get(self.value.op)
        index = 0 if op is None or op.torch.writes is None else op.torch.writes
        target = self.table.get(self.value.args[index]) if isinstance(self.value.args[index], n.Var) else None  # type: ignore[call-overload]
        where = self.before(target)[0] if target is not None else None
        if not isinstance(where, torch.Tensor):
            return
        sources = [a for i, a in enumerate(self.value.args) if i != index]
        parents = [t for a in sources for v in walk(a) if isinstance(v, n.Var) and (t := self.taint_of(v)) is not None]
        tile = self.value.args[0]
        name = self.table.get(tile) if isinstance(tile, n.Var) and index != 0 else None
        if name is not None and not parents:
            first, second = self.before(name)
            if isinstance(first, torch.Tensor) and not bool(_inside(first, _differ(first, second)).any()):
                return
            parents = []
        elif not parents:
            return
        self.finder.stored.setdefault(_storage(where), []).append(_Tainted(self._read(parents), tuple(parents)))

    def made(self, first: Any, second: Any) -> _Flow:
        """What is known of the variable the statement has assigned."""
        if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
            return self._scalar(first, second)
        undefined = _differ(first, second)
        if not bool(undefined.any()):
            return _Flow(self.stmt)
        short = self.value.op.rpartition(".")[2] if isinstance(self.value, n.OpCall) else ""
        if short in ("create", "alloc", "create_l1"):
            self.finder.created[_storage(first)] = self.stmt
            return _Flow(self.stmt, undefined)
        parents = self._parents()
        inherited = self._inherited(short, first)
        new = undefined if inherited is None else undefined & ~inherited
        if not bool(_inside(first, new).any()):
            return _Flow(self.stmt, undefined, parents[0] if parents and inherited is not None else None)
        taint = _Tainted(self._read(parents), tuple(parents))
        if short in PLACES and _storage(first) in self._parameters():
            self.finder.stored.setdefault(_storage(first), []).append(taint)
        return _Flow(self.stmt, undefined, taint)

    def _parameters(self) -> set[int]:
        names = [name for name, value in self.call.values[0].items() if isinstance(value, torch.Tensor)]
        return {_storage(self.call.values[0][name]) for name in names if name not in self.call.flows}

    def _scalar(self, first: Any, second: Any) -> _Flow:
        same = type(first) is type(second) and (first == second or first != first)
        if same or not isinstance(first, (int, float, bool)):
            return _Flow(self.stmt)
        parents = self._parents()
        return _Flow(self.stmt, None, _Tainted(self._read(parents), tuple(parents)))

    def _parents(self) -> list[_Tainted]:
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
        op = OPS.get(self.value.op)
        if short in PLACES and op is not None and op.torch.writes is not None:
            flow = self.flow(self.value.args[op.torch.writes])
            return flow.undefined if flow is not None and _fits(flow.undefined, result) else None
        flow = self.flow(self.value.args[0])
        if short in VIEWS - {"cast", "fillpad", "extract"} and flow is not None and flow.undefined is not None:
            source = self.before(self.table[self.value.args[0]])[0] if isinstance(self.value.args[0], n.Var) else None
            if isinstance(source, torch.Tensor) and flow.taint is None and bool(_inside(source, flow.undefined).any()):
                return torch.ones(result.shape, dtype=torch.bool)
        return None

    def _read(self, parents: Sequence[_Tainted]) -> UndefinedRead:
        """What the statement reads; for one that has tainted operands only its place matters."""
        text, span, lane = _text(self.stmt), self.stmt.span, self.moment.lane
        if parents:
            return UndefinedRead("", text, span, "", (), 1, "", "", lane)
        for var, name in self.operands():
            first, second = self.before(name)
            if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
                continue
            differs = _differ(first, second)
            if not bool(differs.any()):
                continue
            why, origin = self._why(name, first, differs)
            inside = _inside(first, differs)
            cell, count = _cells(inside if bool(inside.any()) else differs)
            return UndefinedRead("", text, span, var.name, cell, count, why, origin, lane)
        return UndefinedRead("", text, span, "its result", (), 1, "which the operation leaves undefined", "", lane)

    def _why(self, name: str, value: torch.Tensor, differs: torch.Tensor) -> tuple[str, str]:
        flow = self.call.flows.get(name)
        made = None if flow is None else flow.stmt
        if not bool(_inside(value, differs).any()):
            valid = list(getattr(value, "_pypto_valid_shape", value.shape))
            return f"outside the valid region {valid} of {list(value.shape)}", _origin(made)
        return "which nobody has written", _origin(self.finder.created.get(_storage(value), made))


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


def _scalar_taints(call: _Call) -> list[_Tainted]:
    return [flow.taint for flow in call.flows.values() if flow.taint is not None and flow.undefined is None]


def _for_output(read: UndefinedRead, output: str) -> UndefinedRead:
    return UndefinedRead(
        output, read.statement, read.span, read.variable, read.cell, read.count, read.why, read.origin, read.lane
    )


def _text(stmt: n.Stmt | None) -> str:
    """A statement's first line without its type."""
    if stmt is None:
        return ""
    text = print_stmt(stmt).strip().splitlines()[0]
    left, equals, right = text.partition(" = ")
    return f"{left.partition(':')[0]}{equals}{right}" if equals else text


def _at(span: Span | None) -> str:
    return "" if span is None else f"{span.file}:{span.line}: "


def _origin(stmt: n.Stmt | None) -> str:
    return "" if stmt is None else f"{_at(stmt.span)}`{_text(stmt)}`"
