"""The instructions of `.pto` texts as a recording's statements: their places, what they read and what they bind."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from pypto_lab.pto.decode import Body, Function, Instruction, Value
from pypto_lab.pto.dialect.types import TileType
from pypto_lab.pto.machine.lane import Lane, Launch
from pypto_lab.record.build import Builder
from pypto_lab.record.events import FunctionInfo, SourceSpot, Statement, StepKind

LOOPS = frozenset({"scf.for", "scf.while"})
BRANCHES = LOOPS | {"scf.if"}
TERMINATORS = frozenset({"scf.yield", "scf.condition"})

_TYPES = re.compile(r"\s+loc\(.*\)\s*$|(?: :| ->) [^()]*(?=\))|(?: : | -> ).*$|\s*\{$")
"""What a line of text says besides the operation: its place, and types."""

_LOOKED_IN = 4
"""Folders, from the text's own upwards, in which the user's kernel file is looked for."""


@dataclass(slots=True)
class FunctionTable:
    """The statements of one function. `done` gives what an instruction that is complete is: its statement and the slots
    it binds; the others the statements of an iteration and of a way taken."""

    function: int
    done: dict[Instruction, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    turns: dict[Instruction, int] = field(default_factory=dict)
    conditions: dict[Instruction, tuple[int, tuple[Value, ...]]] = field(default_factory=dict)
    loops: dict[Instruction, int] = field(default_factory=dict)


class UnitTables:
    """Tables of all texts that run, added to a trace when they are first met."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._trace = builder.trace
        self._tables: dict[Function, FunctionTable] = {}
        known = (loop for s in self._trace.statements for loop in s.loops)
        self._next_loop = max(known, default=-1) + 1

    def add(self, launch: Launch) -> None:
        """The functions of a unit, the first time it runs."""
        text = launch.sources[launch.file]
        for function in launch.functions.values():
            if function not in self._tables:
                self._trace.sources.setdefault(launch.file, text)
                self._tables[function] = self._function(function, launch.file, text)

    def of(self, lane: Lane) -> FunctionTable:
        return self._tables[lane.function]

    def group_of(self, launch: Launch) -> str:
        return Path(launch.file).stem

    def _function(self, function: Function, file: str, text: str) -> FunctionTable:
        lines = text.splitlines()
        number = len(self._trace.functions)
        line = _line_of(function.name, lines)
        table = FunctionTable(number)
        writer = _Writer(number, file, lines, len(self._trace.statements))
        names = tuple(_name(a) for a in function.arguments)
        head = f"func.func @{function.name}({', '.join(a.name for a in function.arguments)})"
        writer.add(StepKind.ENTER, line, head, names)
        self._body(function.body, table, writer, ())
        self._builder.add_function(FunctionInfo(number, function.name, line, names, file), writer.statements)
        self._add_kernels(writer.statements, Path(file))
        return table

    def _body(self, body: Body, table: FunctionTable, writer: _Writer, loops: tuple[int, ...]) -> None:
        for instruction in body.instructions:
            if instruction.name in TERMINATORS:
                continue
            if instruction.name in BRANCHES:
                self._region(instruction, table, writer, loops)
                continue
            targets = _targets(instruction)
            kind = StepKind.RETURN if instruction.name == "func.return" else StepKind.STATEMENT
            code = writer.instruction(kind, instruction, [_name(v) for v in targets], loops)
            table.done[instruction] = (code, tuple(v.slot for v in targets))

    def _region(self, op: Instruction, table: FunctionTable, writer: _Writer, loops: tuple[int, ...]) -> None:
        """A loop or branch: a statement an iteration or decision, and one for its results where it has some."""
        inner = loops
        if op.name in LOOPS:
            loop, self._next_loop = self._next_loop, self._next_loop + 1
            inner = (*loops, loop)
            table.loops[op] = loop
            names = [_name(a) for a in op.blocks[0].arguments]
            table.turns[op] = writer.instruction(StepKind.LOOP, op, names, inner, turns=True)
        if op.name != "scf.for":
            arguments = op.blocks[1].arguments if op.name == "scf.while" else ()
            asked = _terminator(op.blocks[0]) if op.name == "scf.while" else op
            names = [*(_name(a) for a in arguments), "condition"]
            code = writer.instruction(StepKind.CONDITION, asked or op, names, inner)
            table.conditions[op] = (code, arguments)
        for block in op.blocks:
            self._body(block, table, writer, inner)
        if op.results:
            names = [_name(r) for r in op.results]
            code = writer.instruction(StepKind.STATEMENT, op, names, loops, reads=())
            table.done[op] = (code, tuple(r.slot for r in op.results))

    def _add_kernels(self, statements: list[Statement], text: Path) -> None:
        """The texts of the users' kernels that statements come from, where they are found beside the build."""
        for name in {s.origin.file for s in statements if s.origin is not None} - set(self._trace.sources):
            for folder in list(text.parents)[:_LOOKED_IN]:
                found = folder / name
                if found.suffix == ".py" and found.is_file():
                    self._trace.sources[name] = found.read_text(encoding="utf-8", errors="replace")
                    break


class _Writer:
    """Numbers the statements of a function."""

    def __init__(self, function: int, file: str, lines: list[str], first: int) -> None:
        self._function, self._file, self._lines, self._first = function, file, lines, first
        self.statements: list[Statement] = []

    def add(self, kind: StepKind, line: int, text: str, targets: tuple[str, ...] = (), **more: object) -> int:
        code = self._first + len(self.statements)
        spot = SourceSpot(self._file, line)
        made: dict[str, object] = {"spot": spot, **more}
        self.statements.append(Statement(code, self._function, kind, line, line, text, targets, **made))  # type: ignore[arg-type]
        return code

    def instruction(
        self,
        kind: StepKind,
        op: Instruction,
        targets: list[str],
        loops: tuple[int, ...],
        *,
        turns: bool = False,
        reads: tuple[str, ...] | None = None,
    ) -> int:
        line = op.span.line if op.span is not None else 0
        text = _TYPES.sub("", self._lines[line - 1].strip()) if 0 < line <= len(self._lines) else op.name
        read = tuple(dict.fromkeys(_name(v) for v in op.ins)) if reads is None else reads
        spot = SourceSpot(self._file, line, op.span.column if op.span is not None else 1)
        return self.add(
            kind, line, text, tuple(targets), reads=read, loops=loops, turns=turns, op=op.name, spot=spot,
            origin=_origin(op.source),
        )  # fmt: skip


def _name(value: Value) -> str:
    return value.name.lstrip("%")


def _targets(op: Instruction) -> tuple[Value, ...]:
    """What an instruction gives a value or new content: its results, and the tiles it writes."""
    written = tuple(v for v in op.out if isinstance(v.type, TileType))
    if op.name == "pto.set_validshape":
        written = op.operands[:1]
    return tuple(dict.fromkeys((*op.results, *written)))


def _terminator(body: Body) -> Instruction | None:
    last = body.instructions[-1] if body.instructions else None
    return last if last is not None and last.name in TERMINATORS else None


def _origin(source: str | None) -> SourceSpot | None:
    """`kernel.py:19:5` as a place."""
    if source is None:
        return None
    file, line, column = source.rsplit(":", 2)
    return SourceSpot(file, int(line), int(column))


def _line_of(function: str, lines: list[str]) -> int:
    """The line of a function's head."""
    head = re.compile(rf"func\.func\b.*@{re.escape(function)}\b")
    return next((number for number, line in enumerate(lines, 1) if head.search(line)), 1)
