"""A unit as plain data for what runs and checks it: functions, blocks, instructions whose values are numbered slots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from xdsl.dialects import builtin
from xdsl.dialects.arith import CmpfOp, CmpiOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Data, Operation, SSAValue

from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.span import Span
from pypto_lab.pto.dialect.attributes import plain_type
from pypto_lab.pto.dialect.operations import InsOutsOp
from pypto_lab.pto.dialect.types import ValueType
from pypto_lab.pto.parse import Unit


@dataclass(frozen=True, slots=True)
class Value:
    """An SSA value: its slot, its name in the text (with `%`) and its type."""

    slot: int
    name: str
    type: ValueType


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """One op. The last `outs` operands are outputs (regular form). `source` is the kernel line its `loc` names."""

    name: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    attributes: Mapping[str, Any]
    blocks: tuple[Body, ...]
    outs: int = 0
    span: Span | None = None
    source: str | None = None

    @property
    def ins(self) -> tuple[Value, ...]:
        return self.operands[: len(self.operands) - self.outs]

    @property
    def out(self) -> tuple[Value, ...]:
        return self.operands[len(self.operands) - self.outs :]

    @property
    def where(self) -> str:
        """The kernel line, else the line of the text."""
        if self.source is not None:
            return self.source
        return "an unknown line" if self.span is None else f"{self.span.file}:{self.span.line}"


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A block: what it is called with and its instructions, the last of which may be a terminator."""

    arguments: tuple[Value, ...]
    instructions: tuple[Instruction, ...]

    def walk(self) -> Iterator[Instruction]:
        """All instructions, those of inner blocks included."""
        for instruction in self.instructions:
            yield instruction
            for inner in instruction.blocks:
                yield from inner.walk()


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function with a body. `kind` is `cube`, `vector` or None where the text does not say."""

    name: str
    kind: str | None
    body: Body
    slots: int
    constants: Mapping[int, int | float | bool] = field(default_factory=dict)
    """Values of the slots that hold constants."""

    @property
    def arguments(self) -> tuple[Value, ...]:
        return self.body.arguments

    def constant(self, value: Value) -> int | None:
        """The integer a value always is, if that is known."""
        found = self.constants.get(value.slot)
        return None if found is None or isinstance(found, float) else int(found)


@lru_cache(maxsize=32)
def decode(unit: Unit) -> Mapping[str, Function]:
    """Every function of a unit. Raises LabError E603 where values are used before they are defined."""
    return {name: _Decoder(unit).function(op) for name, op in unit.functions.items()}


class _Decoder:
    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._values: dict[SSAValue, Value] = {}
        self._constants: dict[int, int | float | bool] = {}

    def function(self, op: FuncOp) -> Function:
        kind = op.attributes.get("pto.kernel_kind")
        blocks = list(op.body.blocks)
        if len(blocks) != 1:
            raise self._fault(
                op, f"@{op.sym_name.data} has {len(blocks)} blocks; control flow is scf.for, if and while"
            )
        body = self._block(blocks[0])
        word = str(kind.data) if isinstance(kind, Data) else None
        return Function(op.sym_name.data, word, body, len(self._values), dict(self._constants))

    def _fault(self, op: Operation, message: str) -> LabError:
        return LabError([Diagnostic("E603", message, self._unit.span(op))], self._unit.sources)

    def _block(self, block: Block) -> Body:
        arguments = tuple(self._define(argument) for argument in block.args)
        return Body(arguments, tuple(self._instruction(op) for op in block.ops))

    def _define(self, value: SSAValue) -> Value:
        name = self._unit.names.get(value) or value.name_hint or str(len(self._values))
        made = Value(len(self._values), f"%{name}", plain_type(value.type))
        self._values[value] = made
        return made

    def _instruction(self, op: Operation) -> Instruction:
        operands = []
        for position, value in enumerate(op.operands):
            if value not in self._values:
                name = self._unit.names.get(value, "?")
                raise self._fault(op, f"{op.name}: operand {position + 1}, %{name}, is used before it is defined")
            operands.append(self._values[value])
        blocks = tuple(self._block(block) for region in op.regions for block in region.blocks)
        results = tuple(self._define(result) for result in op.results)
        attributes = {name: plain(value) for name, value in {**op.properties, **op.attributes}.items()}
        if isinstance(op, (CmpiOp, CmpfOp)):
            attributes["predicate"] = _predicate(op)
        if op.name == "arith.constant" and isinstance(attributes.get("value"), (int, float, bool)):
            self._constants[results[0].slot] = attributes["value"]
        outs = len(op.outs) if isinstance(op, InsOutsOp) else 0
        return Instruction(
            op.name, tuple(operands), results, attributes, blocks, outs, self._unit.span(op), _source(op.location)
        )


_INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_FLOAT_PREDICATES = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip


def _predicate(op: CmpiOp | CmpfOp) -> str:
    names = _INTEGER_PREDICATES if isinstance(op, CmpiOp) else _FLOAT_PREDICATES
    return names[int(op.predicate.value.data)]


def _source(location: Attribute) -> str | None:
    """`kernel.py:19:5` of a location, if it has one."""
    if isinstance(location, builtin.FileLineColLoc):
        return f"{location.filename.data}:{location.line.data}:{location.column.data}"
    return None


def plain(attribute: Attribute) -> Any:
    """An attribute as a Python value: numbers, booleans, words, tuples; others by their text."""
    if isinstance(attribute, builtin.IntegerAttr):
        value = attribute.value.data
        return bool(value) if str(attribute.type) == "i1" else value
    if isinstance(attribute, builtin.FloatAttr):
        return attribute.value.data
    if isinstance(attribute, builtin.ArrayAttr):
        return tuple(plain(item) for item in attribute.data)
    if isinstance(attribute, builtin.SymbolRefAttr):
        return str(attribute.root_reference.data)
    if isinstance(attribute, Data):
        return attribute.data
    return str(attribute)


def slots_of(values: Sequence[Value]) -> tuple[int, ...]:
    return tuple(value.slot for value in values)
