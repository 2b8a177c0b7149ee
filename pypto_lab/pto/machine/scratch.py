"""Working memory of ops: what an op is lent and leaves changed, so that nobody can rely on what was there."""

from __future__ import annotations

from collections.abc import Mapping

from pypto_lab.ir.diagnostics import Severity
from pypto_lab.pto.decode import Instruction
from pypto_lab.pto.dialect.table import TABLE, OpRow
from pypto_lab.pto.machine import findings
from pypto_lab.pto.machine.arena import Tile
from pypto_lab.pto.machine.lane import Handler, Lane


def clobbering(handlers: Mapping[str, Handler]) -> dict[str, Handler]:
    """The same handlers; those of ops with working memory undefine it when they are through."""
    return {
        name: _with_scratch(handler, TABLE[name])
        if name in TABLE and (TABLE[name].scratch or name == "pto.tmrgsort")
        else handler
        for name, handler in handlers.items()
    }


def _with_scratch(handler: Handler, row: OpRow) -> Handler:
    def run(lane: Lane, instruction: Instruction) -> None:
        handler(lane, instruction)
        count = len(instruction.ins)
        for index, value in enumerate(instruction.ins):
            tile = lane.get(value)
            if isinstance(tile, Tile) and row.is_scratch(index, count):
                _clobber(lane, instruction, row, tile)

    return run


def _clobber(lane: Lane, instruction: Instruction, row: OpRow, scratch: Tile) -> None:
    count = len(instruction.ins)
    for index, value in enumerate(instruction.ins):
        other = lane.get(value)
        if isinstance(other, Tile) and not row.is_scratch(index, count) and _overlap(scratch, other):
            message = f"works in {scratch.name}, which shares bytes with its input {other.name}"
            shown = (scratch.describe(), other.describe())
            lane.report(findings.OVERWRITTEN, message, instruction, tiles=shown, severity=Severity.WARNING)
    code = lane.launch.origin(f"{instruction.name} at {instruction.where} works in {scratch.describe()}")
    scratch.arena.undefine(scratch.low, scratch.high, code)


def _overlap(one: Tile, other: Tile) -> bool:
    return one.arena is other.arena and one.low < other.high and other.low < one.high
