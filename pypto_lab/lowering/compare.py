"""Compares a lowering with dumps of the compiler: kinds of functions, pipes, split codes, and memory. As a program,
`python -m pypto_lab.lowering.compare DIRECTORY` prints a table for every case below a directory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import MemorySpace
from pypto_lab.ir.types import TileType
from pypto_lab.ir.visitor import walk
from pypto_lab.lowering.pipeline import lower

EXPANDED, FINAL = 26, 49
"""Stages compared: after the mixed kernels are expanded, and the last one."""
DUMPS = {"a2a3": "passes_explicit", "a5": "passes_explicit_a5"}
ALLOWED_PEAK = 1.25
"""How much more of a memory than the compiler's a lowering may use."""

_PIPE_OPS = (
    "tile.tpush_to_aiv", "tile.tpush_to_aic", "tile.tpop_from_aic", "tile.tpop_from_aiv",
    "system.tfree_to_aic", "system.tfree_to_aiv",
)  # fmt: skip
_SETUP = ("system.aic_initialize_pipe", "system.aiv_initialize_pipe")


@dataclass(frozen=True, slots=True)
class Shape:
    """What is compared of a function: its kind, its pipes (direction mask, slot bytes, slots), its pipe ops in
    order with their split codes, and whether both lanes run it."""

    kind: str
    pipes: tuple[tuple[object, ...], ...] = ()
    ops: tuple[str, ...] = ()
    both_lanes: bool = False


@dataclass(slots=True)
class Comparison:
    """One case on one chip: `differences` in words; by function and memory the peak bytes (ours, the compiler's)."""

    name: str
    arch: str
    differences: list[str] = field(default_factory=list)
    peaks: dict[tuple[str, MemorySpace], tuple[int, int]] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """The largest peak in terms of the compiler's."""
        return max((ours / theirs for ours, theirs in self.peaks.values() if theirs), default=1.0)

    @property
    def ok(self) -> bool:
        return not self.differences and self.ratio <= ALLOWED_PEAK


def shape_of(function: n.Function) -> Shape:
    """What the comparison sees of a function."""
    pipes, ops = [], []
    for node in walk(function):
        if not isinstance(node, n.OpCall):
            continue
        if node.op in _SETUP:
            pipes.append(tuple(node.kwargs.get(k) for k in ("dir_mask", "slot_size", "slot_num")))
        elif node.op in _PIPE_OPS:
            ops.append(f"{node.op.partition('.')[2]}:{node.kwargs.get('split', 0) or 0}")
    both = bool(function.attrs.get("dual_aiv_dispatch"))
    return Shape(function.func_type.name, tuple(pipes), tuple(ops), both)


def peaks_of(program: n.Program) -> dict[tuple[str, MemorySpace], int]:
    """The end of the highest tile of each function in each memory."""
    found: dict[tuple[str, MemorySpace], int] = {}
    for function in program.functions.values():
        for node in walk(function):
            type_ = node.type if isinstance(node, n.Var) else None
            if not isinstance(type_, TileType) or type_.memref is None or type_.memory_space is None:
                continue
            offset = type_.memref.offset
            if isinstance(offset, n.ConstInt) and type_.memref.size is not None:
                key = (function.name, type_.memory_space)
                found[key] = max(found.get(key, 0), offset.value + type_.memref.size)
    return found


def compare(name: str, arch: str, ours: Sequence[n.Program], theirs: Sequence[n.Program]) -> Comparison:
    """Compares two stages of a lowering (expanded, final) with the compiler's."""
    result = Comparison(name, arch)
    mine, real = ours[0].functions, theirs[0].functions
    for function in sorted({*mine, *real}):
        if function not in mine or function not in real:
            side = "only here" if function in mine else "only the compiler's"
            result.differences.append(f"{function}: {side}")
            continue
        a, b = shape_of(mine[function]), shape_of(real[function])
        for part in ("kind", "pipes", "ops", "both_lanes"):
            if getattr(a, part) != getattr(b, part):
                result.differences.append(f"{function}: {part} {getattr(a, part)}, not {getattr(b, part)}")
    own, other = peaks_of(ours[1]), peaks_of(theirs[1])
    result.peaks = {key: (own.get(key, 0), other.get(key, 0)) for key in {*own, *other}}
    return result


def compare_case(directory: Path, arch: str) -> Comparison | None:
    """Lowers the case in a directory and compares it with the dumps beside it; None without dumps for `arch`."""
    import pypto_lab as lab  # this program sits above the layers it compares

    dumps = directory / DUMPS[arch]
    files = [next(iter(sorted(dumps.glob(f"{number}_*.py"))), None) for number in (EXPANDED, FINAL)]
    if None in files:
        return None
    lowered = lower(lab.case(directory / "kernel.py").program(), arch)
    ours = [lowered.stage(number).program for number in (EXPANDED, FINAL)]
    return compare(directory.name, arch, ours, [lab.load(file) for file in files])


def table(comparisons: Sequence[Comparison]) -> str:
    """The comparisons as text, one line each, differences below."""
    width = max((len(c.name) for c in comparisons), default=4)
    lines = [f"{'case':<{width}}  arch  functions and pipes  memory against the compiler's"]
    for c in comparisons:
        same = "equal" if not c.differences else f"{len(c.differences)} different"
        lines.append(f"{c.name:<{width}}  {c.arch:<4}  {same:<19}  {c.ratio:.2f}")
        lines += [f"{'':<{width}}        {text}" for text in c.differences]
    good = sum(c.ok for c in comparisons)
    lines.append(f"{good} of {len(comparisons)} equal, with at most {ALLOWED_PEAK} times the memory")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """The program: 0 when all cases are equal, 1 when one is not, 2 for a directory without cases."""
    if len(arguments) != 1:
        print("usage: python -m pypto_lab.lowering.compare DIRECTORY", file=sys.stderr)
        return 2
    cases = sorted(p.parent for p in Path(arguments[0]).glob("*/kernel.py"))
    found = [c for case in cases for arch in DUMPS if (c := compare_case(case, arch)) is not None]
    if not found:
        print(f"{arguments[0]} holds no cases with dumps", file=sys.stderr)
        return 2
    print(table(found))
    return 0 if all(c.ok for c in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
