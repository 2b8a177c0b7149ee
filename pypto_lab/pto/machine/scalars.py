"""The scalar unit: `arith`, `math`, structured control flow, local arrays, scalars in memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pypto_lab.pto.decode import Instruction, Value
from pypto_lab.pto.machine import findings
from pypto_lab.pto.machine.dtypes import SCALAR_BITS, TORCH
from pypto_lab.pto.machine.lane import Handler, Lane
from pypto_lab.pto.machine.memory import Pointer
from pypto_lab.torch_codegen.runtime.numbers import _to_float

Number = int | float | bool


def signed(value: int, type_: str) -> int:
    """The low bits of an integer, read as a signed number of the type's width (booleans are 0 and 1)."""
    width = SCALAR_BITS.get(type_, 64)
    if width == 1:
        return value & 1
    low = value & ((1 << width) - 1)
    return low - (1 << width) if not type_.startswith("ui") and low >> (width - 1) else low


def unsigned(value: int, type_: str) -> int:
    return value & ((1 << SCALAR_BITS.get(type_, 64)) - 1)


def rounded(value: float, type_: str) -> float:
    """A float on the type's grid."""
    dtype = TORCH.get(type_)
    if type_ == "f64" or dtype is None:
        return value
    return _to_float(value, dtype)


def _type(value: Value) -> str:
    return str(value.type)


def _integer(function: Callable[[int, int], int]) -> Handler:
    def run(lane: Lane, instruction: Instruction) -> None:
        a, b = lane.all_of(instruction.operands)
        result = instruction.results[0]
        lane.set(result, signed(function(int(a), int(b)), _type(result)))

    return run


def _of_bits(function: Callable[[int, int], int]) -> Handler:
    """An op on unsigned readings of its operands."""

    def run(lane: Lane, instruction: Instruction) -> None:
        result = instruction.results[0]
        a, b = (unsigned(int(x), _type(result)) for x in lane.all_of(instruction.operands))
        lane.set(result, signed(function(a, b), _type(result)))

    return run


def _float(function: Callable[..., float]) -> Handler:
    def run(lane: Lane, instruction: Instruction) -> None:
        result = instruction.results[0]
        try:
            value = function(*(float(x) for x in lane.all_of(instruction.operands)))
        except ZeroDivisionError:
            value = math.nan
        except (ValueError, OverflowError):
            value = math.nan
        lane.set(result, rounded(value, _type(result)))

    return run


def _divided(lane: Lane, instruction: Instruction) -> tuple[int, int]:
    """Quotient towards zero and the rest with the dividend's sign. Stops the run for a division by zero."""
    a, b = (int(x) for x in lane.all_of(instruction.operands))
    if b == 0:
        lane.fail(findings.BAD_ARGUMENT, f"{a} divided by zero", instruction)
    quotient = abs(a) // abs(b)
    quotient = quotient if (a < 0) == (b < 0) else -quotient
    return quotient, a - quotient * b


def _divsi(lane: Lane, instruction: Instruction) -> None:
    result = instruction.results[0]
    lane.set(result, signed(_divided(lane, instruction)[0], _type(result)))


def _remsi(lane: Lane, instruction: Instruction) -> None:
    result = instruction.results[0]
    lane.set(result, signed(_divided(lane, instruction)[1], _type(result)))


def _unsigned_division(rest: bool) -> Handler:
    def run(lane: Lane, instruction: Instruction) -> None:
        result = instruction.results[0]
        a, b = (unsigned(int(x), _type(result)) for x in lane.all_of(instruction.operands))
        if b == 0:
            lane.fail(findings.BAD_ARGUMENT, f"{a} divided by zero", instruction)
        lane.set(result, signed(a % b if rest else a // b, _type(result)))

    return run


def _floor_division(lane: Lane, instruction: Instruction) -> None:
    quotient, rest = _divided(lane, instruction)
    result = instruction.results[0]
    b = int(lane.get(instruction.operands[1]))
    lane.set(result, signed(quotient - (1 if rest and (rest < 0) != (b < 0) else 0), _type(result)))


def _maxsi(lane: Lane, instruction: Instruction) -> None:
    """A maximum; where it lifts a negative value to the constant 0 that is remembered, for windows check it."""
    a, b = (int(x) for x in lane.all_of(instruction.operands))
    result = instruction.results[0]
    lane.set(result, max(a, b))
    lane.clamped.pop(result.slot, None)
    constants = lane.function.constants
    for value, other, operand in ((a, b, instruction.operands[1]), (b, a, instruction.operands[0])):
        if other == 0 and operand.slot in constants and value < 0:
            lane.clamped[result.slot] = value


def _compared(lane: Lane, instruction: Instruction) -> None:
    a, b = (int(x) for x in lane.all_of(instruction.operands))
    predicate = str(instruction.attributes["predicate"])
    if predicate.startswith("u"):
        kind = _type(instruction.operands[0])
        a, b = unsigned(a, kind), unsigned(b, kind)
    lane.set(instruction.results[0], _ORDERS[predicate.lstrip("su") if len(predicate) > 2 else predicate](a, b))


_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def _compared_float(lane: Lane, instruction: Instruction) -> None:
    """Ordered predicates are false, unordered ones true, when an operand is NaN."""
    a, b = (float(x) for x in lane.all_of(instruction.operands))
    predicate = str(instruction.attributes["predicate"])
    unordered = math.isnan(a) or math.isnan(b)
    if predicate in ("false", "true"):
        found = predicate == "true"
    elif predicate in ("ord", "uno"):
        found = unordered == (predicate == "uno")
    elif unordered:
        found = predicate.startswith("u")
    else:
        found = _ORDERS[{"one": "ne", "une": "ne"}.get(predicate, predicate[1:])](a, b)
    lane.set(instruction.results[0], found)


def _constant(lane: Lane, instruction: Instruction) -> None:
    lane.set(instruction.results[0], instruction.attributes["value"])


def _copied(lane: Lane, instruction: Instruction) -> None:
    """Casts between integers that keep the value's low bits."""
    result = instruction.results[0]
    value = lane.get(instruction.operands[0])
    lane.set(result, signed(int(value), _type(result)) if isinstance(value, (int, bool)) else value)


def _sign_extended(lane: Lane, instruction: Instruction) -> None:
    operand = instruction.operands[0]
    value = int(lane.get(operand))
    lane.set(instruction.results[0], -value if _type(operand) == "i1" else value)


def _zero_extended(lane: Lane, instruction: Instruction) -> None:
    operand = instruction.operands[0]
    lane.set(instruction.results[0], unsigned(int(lane.get(operand)), _type(operand)))


def _float_cast(lane: Lane, instruction: Instruction) -> None:
    result = instruction.results[0]
    lane.set(result, rounded(float(lane.get(instruction.operands[0])), _type(result)))


def _unsigned_to_float(lane: Lane, instruction: Instruction) -> None:
    operand, result = instruction.operands[0], instruction.results[0]
    lane.set(result, rounded(float(unsigned(int(lane.get(operand)), _type(operand))), _type(result)))


def _to_integer(lane: Lane, instruction: Instruction) -> None:
    """Towards zero. Values out of range saturate, NaN is 0."""
    result = instruction.results[0]
    value = float(lane.get(instruction.operands[0]))
    width = SCALAR_BITS[_type(result)]
    low, high = (
        (0, (1 << width) - 1) if instruction.name.endswith("ui") else (-(1 << (width - 1)), (1 << (width - 1)) - 1)
    )
    whole = 0 if math.isnan(value) else high if value >= high else low if value <= low else int(value)
    lane.set(result, signed(whole, _type(result)))


def _select(lane: Lane, instruction: Instruction) -> None:
    condition, a, b = lane.all_of(instruction.operands)
    lane.set(instruction.results[0], a if condition else b)


def _bitcast(lane: Lane, instruction: Instruction) -> None:
    """Float bits as an integer and back."""
    import torch

    operand, result = instruction.operands[0], instruction.results[0]
    source, target = TORCH[_type(operand)], TORCH[_type(result)]
    value = torch.tensor([lane.get(operand)], dtype=source).view(target).item()
    lane.set(result, value)


# --- control flow -----------------------------------------------------------------------------------------------------


def _for(lane: Lane, instruction: Instruction) -> None:
    low, high, step = (int(x) for x in lane.all_of(instruction.operands[:3]))
    if step <= 0:
        lane.fail(
            findings.BAD_ARGUMENT,
            f"step {step} is not positive: an assembler drops the body or never ends",
            instruction,
        )
    body = instruction.blocks[0]
    carried = lane.all_of(instruction.operands[3:])
    lane.loops.append(lane.steps + 1)
    for index in range(low, high, step):
        lane.step(instruction)
        lane.set(body.arguments[0], index)
        for argument, value in zip(body.arguments[1:], carried, strict=True):
            lane.set(argument, value)
        if lane.launch.listener is not None:
            lane.launch.listener.turn(lane, instruction, body.arguments)
        carried = lane.run(body) or carried
    lane.loops.pop()
    for result, value in zip(instruction.results, carried, strict=True):
        lane.set(result, value)


def _if(lane: Lane, instruction: Instruction) -> None:
    condition = bool(lane.get(instruction.operands[0]))
    if lane.launch.listener is not None:
        lane.launch.listener.decided(lane, instruction, condition)
    if condition:
        values = lane.run(instruction.blocks[0])
    elif len(instruction.blocks) > 1:
        values = lane.run(instruction.blocks[1])
    else:
        values = ()
    for result, value in zip(instruction.results, values, strict=True):
        lane.set(result, value)


def _while(lane: Lane, instruction: Instruction) -> None:
    before, after = instruction.blocks
    carried = lane.all_of(instruction.operands)
    lane.loops.append(lane.steps + 1)
    while True:
        for argument, value in zip(before.arguments, carried, strict=True):
            lane.set(argument, value)
        if lane.launch.listener is not None:
            lane.launch.listener.turn(lane, instruction, before.arguments)
        condition, *passed = lane.run(before)
        for argument, value in zip(after.arguments, passed, strict=True):
            lane.set(argument, value)
        if lane.launch.listener is not None:
            lane.launch.listener.decided(lane, instruction, bool(condition))
        if not condition:
            break
        carried = lane.run(after)
        lane.step(instruction)
    lane.loops.pop()
    for result, value in zip(instruction.results, passed, strict=True):
        lane.set(result, value)


# --- scalars in memory ------------------------------------------------------------------------------------------------


def _element(lane: Lane, instruction: Instruction, pointer: Pointer, offset: int) -> Any:
    """One element of an argument as a 0-d view. Stops the run outside the argument."""
    if not pointer.inside(offset, offset):
        lane.fail(
            findings.OUT_OF_BOUNDS,
            f"element {pointer.offset + offset} of {pointer.name}, which has {pointer.extent}",
            instruction,
        )
    return pointer.strided((), (), offset)


def _load_scalar(lane: Lane, instruction: Instruction) -> None:
    pointer, offset = lane.all_of(instruction.operands)
    lane.set(instruction.results[0], _element(lane, instruction, pointer, int(offset)).item())


def _store_scalar(lane: Lane, instruction: Instruction) -> None:
    pointer, offset, value = lane.all_of(instruction.operands)
    element = _element(lane, instruction, pointer, int(offset))
    if lane.launch.listener is not None:
        lane.launch.listener.memory_write(lane, element)
    element.fill_(value)


def _addptr(lane: Lane, instruction: Instruction) -> None:
    pointer, distance = lane.all_of(instruction.operands)
    lane.set(instruction.results[0], pointer.moved(int(distance)))


def _declare_array(lane: Lane, instruction: Instruction) -> None:
    result = instruction.results[0]
    lane.set(result, [None] * result.type.size)  # type: ignore[union-attr]


def _array_place(lane: Lane, instruction: Instruction, array: list[Any], index: int) -> int:
    if not 0 <= index < len(array):
        lane.fail(findings.OUT_OF_BOUNDS, f"element {index} of an array of {len(array)}", instruction)
    return index


def _array_get(lane: Lane, instruction: Instruction) -> None:
    array, index = lane.all_of(instruction.operands)
    value = array[_array_place(lane, instruction, array, int(index))]
    if value is None:
        lane.fail(
            findings.UNDEFINED_READ, f"element {index} of {instruction.operands[0].name} was never set", instruction
        )
    lane.set(instruction.results[0], value)


def _array_set(lane: Lane, instruction: Instruction) -> None:
    array, index, value = lane.all_of(instruction.operands)
    array[_array_place(lane, instruction, array, int(index))] = value


def _power(a: float, b: float) -> float:
    return float(a**b)


HANDLERS: dict[str, Handler] = {
    "arith.constant": _constant,
    "arith.addi": _integer(lambda a, b: a + b),
    "arith.subi": _integer(lambda a, b: a - b),
    "arith.muli": _integer(lambda a, b: a * b),
    "arith.divsi": _divsi,
    "arith.remsi": _remsi,
    "arith.divui": _unsigned_division(False),
    "arith.remui": _unsigned_division(True),
    "arith.floordivsi": _floor_division,
    "arith.andi": _integer(lambda a, b: a & b),
    "arith.ori": _integer(lambda a, b: a | b),
    "arith.xori": _integer(lambda a, b: a ^ b),
    "arith.shli": _of_bits(lambda a, b: a << min(b, 64)),
    "arith.shrui": _of_bits(lambda a, b: a >> min(b, 64)),
    "arith.shrsi": _integer(lambda a, b: a >> min(b, 64)),
    "arith.minsi": _integer(min),
    "arith.maxsi": _maxsi,
    "arith.minui": _of_bits(min),
    "arith.maxui": _of_bits(max),
    "arith.cmpi": _compared,
    "arith.cmpf": _compared_float,
    "arith.addf": _float(lambda a, b: a + b),
    "arith.subf": _float(lambda a, b: a - b),
    "arith.mulf": _float(lambda a, b: a * b),
    "arith.divf": _float(
        lambda a, b: a / b if b else math.copysign(math.inf, a) * math.copysign(1, b) if a else math.nan
    ),
    "arith.remf": _float(math.fmod),
    "arith.negf": _float(lambda a: -a),
    "arith.minimumf": _float(lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else min(a, b)),
    "arith.maximumf": _float(lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else max(a, b)),
    "arith.minnumf": _float(lambda a, b: b if math.isnan(a) else a if math.isnan(b) else min(a, b)),
    "arith.maxnumf": _float(lambda a, b: b if math.isnan(a) else a if math.isnan(b) else max(a, b)),
    "arith.index_cast": _copied,
    "arith.trunci": _copied,
    "arith.extsi": _sign_extended,
    "arith.extui": _zero_extended,
    "arith.index_castui": _zero_extended,
    "arith.sitofp": _float_cast,
    "arith.uitofp": _unsigned_to_float,
    "arith.fptosi": _to_integer,
    "arith.fptoui": _to_integer,
    "arith.extf": _float_cast,
    "arith.truncf": _float_cast,
    "arith.bitcast": _bitcast,
    "arith.select": _select,
    "builtin.unrealized_conversion_cast": _copied,
    "math.absi": lambda lane, i: lane.set(i.results[0], signed(abs(int(lane.get(i.operands[0]))), _type(i.results[0]))),
    "math.absf": _float(abs),
    "math.exp": _float(math.exp),
    "math.log": _float(math.log),
    "math.sqrt": _float(math.sqrt),
    "math.rsqrt": _float(lambda a: 1.0 / math.sqrt(a)),
    "math.floor": _float(math.floor),
    "math.ceil": _float(math.ceil),
    "math.powf": _float(_power),
    "math.sin": _float(math.sin),
    "math.cos": _float(math.cos),
    "math.tanh": _float(math.tanh),
    "scf.for": _for,
    "scf.if": _if,
    "scf.while": _while,
    "pto.load_scalar": _load_scalar,
    "pto.store_scalar": _store_scalar,
    "pto.addptr": _addptr,
    "pto.declare_local_array": _declare_array,
    "pto.local_array_get": _array_get,
    "pto.local_array_set": _array_set,
}
