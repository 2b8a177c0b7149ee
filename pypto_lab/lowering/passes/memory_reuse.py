"""Pass 34, MemoryReuse: tiles that are never in use at the same time share a buffer.

Follows from: a buffer is free again after the last read of what it holds. Large buffers choose first, so that small
ones fill the gaps they leave; a result may take the place of an operand its op reads element by element.
"""

from __future__ import annotations

from pypto_lab.ir import nodes as n
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import map_bodies
from pypto_lab.lowering.memory_bases import (
    Interval,
    LiveRanges,
    Rebase,
    alloc_size,
    alloc_space,
    allocations,
    overlap,
)
from pypto_lab.lowering.tile_rewriter import is_on_core


def run(program: n.Program, context: Context) -> n.Program:
    def change(function: n.Function) -> n.Function:
        if not is_on_core(function):
            return function
        bases = shared_bases(function.body or ())
        return Rebase(bases).visit_function(function) if bases else function

    return map_bodies(program, change)


def shared_bases(body: n.Body) -> dict[n.Var, n.Var]:
    """Which buffer each buffer that goes lies in from now on."""
    allocs = allocations(body)
    intervals = LiveRanges.of(body).by_base()
    order = {base: i for i, base in enumerate(allocs)}
    kept: dict[n.Var, list[Interval]] = {}
    bases: dict[n.Var, n.Var] = {}
    for base in sorted(allocs, key=lambda b: (-alloc_size(allocs[b]), order[b])):
        mine = intervals.get(base, [])
        home = next(
            (
                other
                for other, taken in kept.items()
                if alloc_space(allocs[other]) is alloc_space(allocs[base]) and not overlap(mine, taken)
            ),
            None,
        )
        if home is None:
            kept[base] = list(mine)
        else:
            kept[home] = sorted([*kept[home], *mine])
            bases[base] = home
    return bases
