"""The function under construction: its ops, constants, names, and what every variable of the IR has become."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, NoReturn

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    FileLineColLoc,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    StringAttr,
    UnrealizedConversionCastOp,
)
from xdsl.ir import Block, Operation, SSAValue

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import TensorType
from pypto_lab.pto.dialect.types import TileType as PtoTile
from pypto_lab.pto.emit.types import ELEMENTS, scalar_type

_FOREIGN = re.compile(r"[^A-Za-z0-9_.$]")


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """A tile variable: its handle in the text, valid extents, and where its bytes start (None: in a pipe's slot)."""

    value: SSAValue
    type: PtoTile
    valid: tuple[SSAValue, SSAValue]
    address: int | None
    view: bool = False
    """Whether the handle is a window or reshape of another one: its extents cannot be changed."""


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor variable: the pointer it is reached by and the view of it, if the function uses one."""

    pointer: SSAValue
    type: TensorType
    shape: tuple[SSAValue, ...]
    strides: tuple[SSAValue, ...]
    view: SSAValue | None = None


@dataclass(slots=True, eq=False)
class Builder:
    """Makes ops at the end of `block`. `where` is the statement and op being emitted, for messages and locations."""

    program: n.Program
    function: n.Function
    block: Block
    names: dict[SSAValue, str]
    tiles: dict[int, Tile] = field(default_factory=dict)
    tensors: dict[int, Tensor] = field(default_factory=dict)
    scalars: dict[int, SSAValue] = field(default_factory=dict)
    arrays: dict[int, SSAValue] = field(default_factory=dict)
    parameters: dict[str, SSAValue] = field(default_factory=dict)
    """SPMD parameters by name."""
    constants: dict[tuple[str, str], SSAValue] = field(default_factory=dict)
    computed: list[dict[object, SSAValue]] = field(default_factory=lambda: [{}])
    """Extents that are computed, by what they are computed from: one table a block, the innermost last."""
    known: dict[SSAValue, int] = field(default_factory=dict)
    """Values of integer constants."""
    head: list[Operation] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    kept: frozenset[int] = frozenset()
    """Calls (by identity) that change a handle which is still used as it was."""
    span: Span | None = None
    op: str = ""

    # --- messages -----------------------------------------------------------------------------------------------------

    def refuse(
        self, message: str, *, code: str = "E610", span: Span | None = None, hint: str | None = None
    ) -> NoReturn:
        """Raises LabError: this cannot be written as `.pto` text. Names the op, the function and the line."""
        place = span or self.span
        name = f"{self.op}: " if self.op else ""
        line = f" (line {place.line})" if place is not None else ""
        text = f"{name}{message}, in {self.function.name}{line}"
        raise LabError([Diagnostic(code, text, place, hint=hint)], self.program.sources)

    @contextmanager
    def at(self, span: Span | None, op: str = "") -> Iterator[None]:
        """What is emitted inside stands for this place (and this op) of the IR."""
        before = self.span, self.op
        self.span, self.op = span or self.span, op or self.op
        try:
            yield
        except ValueError as error:  # from `types`: what the text has no word for
            self.refuse(str(error))
        finally:
            self.span, self.op = before

    # --- ops ----------------------------------------------------------------------------------------------------------

    def add(self, op: Operation, hint: str | None = None) -> Operation:
        """Appends an op, with the place it stands for and a name for its first result."""
        if self.span is not None:
            place = self.span  # the file's name only: the text is the same wherever the kernel lies
            file = StringAttr(PurePath(place.file).name or place.file)
            op.location = FileLineColLoc(file, IntAttr(place.line), IntAttr(place.column))
        self.block.add_op(op)
        if hint is not None and op.results:
            self.name(op.results[0], hint)
        return op

    def value(self, op: Operation, hint: str | None = None) -> SSAValue:
        """Appends an op of one result and gives the result."""
        return self.add(op, hint).results[0]

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Ops go to another block."""
        before, self.block = self.block, block
        self.computed.append({})
        try:
            yield
        finally:
            self.block = before
            self.computed.pop()

    def name(self, value: SSAValue, hint: str) -> None:
        """Names a value after a variable; a name that is taken, or a number, is left to numbering."""
        text = _FOREIGN.sub("_", hint)
        text = f"_{text}" if text[:1].isdigit() else text
        if text and text not in self.taken:
            self.taken.add(text)
            self.names[value] = text

    # --- constants ----------------------------------------------------------------------------------------------------

    def constant(self, value: int | float | bool, dtype: DType = dtypes.INDEX) -> SSAValue:
        """A constant of the function's head; one a value and type."""
        key = (repr(float(value) if dtype.is_float else value), dtype.name)
        if key not in self.constants:
            self.constants[key] = self._made(value, dtype)
        return self.constants[key]

    def _made(self, value: int | float | bool, dtype: DType) -> SSAValue:
        type_: Any = scalar_type(dtype)
        element = ELEMENTS[dtype.name]
        if dtype.is_float:
            result = self._headed(arith.ConstantOp(FloatAttr(float(value), type_)))
            self.name(result, f"cst_{len(self.constants)}" if self.constants else "cst")
            return result
        number = int(value)
        if element == "i1":
            return self._headed(arith.ConstantOp(IntegerAttr.from_bool(bool(value))))
        shown = f"c{number}" if number >= 0 else f"cn{-number}"
        if not element.startswith("ui"):
            result = self._headed(arith.ConstantOp(IntegerAttr(number, type_)))
            self.name(result, f"{shown}_{element}")
        else:  # constants are signless: an unsigned one is a signless one with the same bits
            bits = int(element[2:])
            signless: Any = scalar_type(dtypes.dtype(f"INT{bits}"))
            number = number - (1 << bits) if number >= 1 << (bits - 1) else number
            plain = self._headed(arith.ConstantOp(IntegerAttr(number, signless)))
            result = self._headed(UnrealizedConversionCastOp.get([plain], [type_]))
            self.name(result, f"{shown}_{element}")
        self.known[result] = int(value)
        return result

    def _headed(self, op: Operation) -> SSAValue:
        self.head.append(op)
        return op.results[0]

    # --- variables ----------------------------------------------------------------------------------------------------

    def tile(self, expr: n.Expr) -> Tile:
        """The tile a variable stands for."""
        if isinstance(expr, n.Var) and id(expr) in self.tiles:
            return self.tiles[id(expr)]
        self.refuse(f"{_shown(expr)} is no tile that exists here", span=expr.span)

    def tensor(self, expr: n.Expr) -> Tensor:
        """The tensor a variable stands for."""
        if isinstance(expr, n.Var) and id(expr) in self.tensors:
            return self.tensors[id(expr)]
        self.refuse(f"{_shown(expr)} is no tensor that exists here", span=expr.span)

    def array(self, expr: n.Expr) -> SSAValue:
        """The local array a variable stands for."""
        if isinstance(expr, n.Var) and id(expr) in self.arrays:
            return self.arrays[id(expr)]
        self.refuse(f"{_shown(expr)} is no array that exists here", span=expr.span)

    def view(self, expr: n.Expr) -> tuple[Tensor, SSAValue]:
        """A tensor and its view."""
        found = self.tensor(expr)
        if found.view is None:
            self.refuse(f"{_shown(expr)} has no view", span=expr.span)
        return found, found.view

    def finish(self, entry: Block) -> None:
        """Puts the constants at the head and numbers what has no name."""
        for op in reversed(self.head):
            first = entry.first_op
            if first is None:
                entry.add_op(op)
            else:
                entry.insert_op_before(op, first)
        number = 0
        for value in _values(entry):
            if value in self.names:
                continue
            self.names[value] = str(number)
            number += 1


def _values(block: Block) -> Iterator[SSAValue]:
    """All values of a block and of what is inside its ops, in the order of the text."""
    yield from block.args
    for op in block.ops:
        yield from op.results
        for region in op.regions:
            for inner in region.blocks:
                yield from _values(inner)


def _shown(expr: n.Expr) -> str:
    return f"`{expr.name}`" if isinstance(expr, n.Var) else f"this {type(expr).__name__}"


def elements(expr: n.Expr, builder: Builder) -> tuple[n.Expr, ...]:
    """The elements of a list argument."""
    if not isinstance(expr, n.MakeTuple):
        builder.refuse(f"a list is expected, not {_shown(expr)}", span=expr.span)
    return expr.elements


def with_valid(tile: Tile, valid: Sequence[SSAValue]) -> Tile:
    """The same handle with other valid extents."""
    return replace(tile, valid=(valid[0], valid[1]))
