"""Matrix products: the left operand's valid rows by the right operand's valid columns, accumulated in FP32 or INT32."""

from __future__ import annotations

from pypto_lab.ir.diagnostics import Severity
from pypto_lab.pto.decode import Instruction
from pypto_lab.pto.machine import findings
from pypto_lab.pto.machine.arena import Cells, Tile
from pypto_lab.pto.machine.compute import is_empty, merged, store, target_of
from pypto_lab.pto.machine.lane import Handler, Lane
from pypto_lab.torch_codegen.runtime.matmul import _accumulated


def _product(lane: Lane, instruction: Instruction, left: Tile, right: Tile, rows: int | None) -> Cells:
    """left @ right over the valid cells, in the accumulator's dtype. `rows` cuts the left operand (gemv: 1)."""
    height = left.valid_rows if rows is None else min(rows, left.valid_rows)
    inner = left.valid_cols
    if inner != right.valid_rows:
        lane.report(
            findings.BAD_EXTENT,
            f"{left.name} has {inner} valid columns, {right.name} {right.valid_rows} valid rows",
            instruction,
            tiles=(left.describe(), right.describe()),
        )
        inner = min(inner, right.valid_rows)
    a = lane.read(instruction, left, height, inner)
    b = lane.read(instruction, right, inner, right.valid_cols)
    data = _accumulated(a.data, b.data)
    down = None if a.codes is None else a.codes.amax(dim=1, keepdim=True)
    across = None if b.codes is None else b.codes.amax(dim=0, keepdim=True)
    return Cells(data, merged(data.shape, down, across))


def _matmul(form: str, rows: int | None = None) -> Handler:
    """Matrix products: `form` is "" (new), "acc" (added to the first input) or "bias" (plus a row)."""

    def run(lane: Lane, instruction: Instruction) -> None:
        tiles = [lane.tile(value) for value in instruction.ins]
        left, right = tiles[1:3] if form == "acc" else tiles[:2]
        if is_empty(left) or is_empty(right):
            return
        product = _product(lane, instruction, left, right, rows)
        height, width = product.data.shape
        target = target_of(lane, instruction)
        _check_extents(lane, instruction, target, height, width)
        if form:
            extra = tiles[0] if form == "acc" else tiles[2]
            other = lane.read(instruction, extra, height if form == "acc" else 1, width)
            total = product.data + other.data.to(product.data.dtype)
            product = Cells(total, merged(total.shape, product.codes, other.codes))
        if form == "acc" and lane.get(instruction.ins[0]) is not lane.get(instruction.out[0]):
            _check_in_place(lane, instruction, tiles[0])
        store(lane, instruction, product.data, product.codes)

    return run


def _check_extents(lane: Lane, instruction: Instruction, target: Tile, height: int, width: int) -> None:
    """A product is valid where its output is. Valid elements it does not give stay what they were: a warning, since a
    read of one that nobody wrote is a finding of its own."""
    if (target.valid_rows, target.valid_cols) == (height, width):
        return
    message = (
        f"{target.name} has {target.valid_rows} x {target.valid_cols} valid elements, the product {height} x {width}"
    )
    lost = height > target.valid_rows or width > target.valid_cols
    severity = Severity.ERROR if lost else Severity.WARNING
    lane.report(findings.BAD_EXTENT, message, instruction, tiles=(target.describe(),), severity=severity)


def _check_in_place(lane: Lane, instruction: Instruction, accumulator: Tile) -> None:
    target = target_of(lane, instruction)
    if (accumulator.low, accumulator.arena) != (target.low, target.arena):
        lane.report(
            findings.BAD_ADDRESS,
            f"accumulates {accumulator.name} into {target.name}; the accumulator is updated in place",
            instruction,
            tiles=(accumulator.describe(), target.describe()),
        )


HANDLERS: dict[str, Handler] = {
    f"pto.{name}{'.' if form else ''}{form}": _matmul(form, rows)
    for name, rows in (("tmatmul", None), ("tgemv", 1))
    for form in ("", "acc", "bias")
}
