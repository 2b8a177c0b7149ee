"""How large the global-memory buffer of a group's cross-core pipes must be (a2a3 passes slots through it)."""

from __future__ import annotations

from collections.abc import Iterable

from pypto_lab.ir import nodes as n
from pypto_lab.ir.visitor import walk

PARAMETER = "__gm_pipe_buffer"
"""The parameter of a kernel that its pipes' slots lie in."""

ONE_WAY_SLOTS, BOTH_WAYS_SLOTS = 8, 4
"""Slots a direction has when the program does not say."""

_BOTH, _ELEMENT_BYTES = 3, 4


def pipe_buffer_elements(kernels: Iterable[n.Function]) -> int:
    """FP32 elements that one block of a launch of these kernels needs: its slots, for each pipe and direction.

    Both ends of a pipe state the same slots, so each (pipe id, direction) counts once.
    """
    sizes: dict[tuple[int, int], int] = {}
    for kernel in kernels:
        for call in walk(kernel):
            if isinstance(call, n.OpCall) and call.op in ("system.aic_initialize_pipe", "system.aiv_initialize_pipe"):
                mask = int(call.kwargs.get("dir_mask") or 0)
                place = int(call.kwargs.get("id") or 0), mask
                sizes[place] = max(sizes.get(place, 0), _bytes(call, mask))
    return -(-sum(sizes.values()) // _ELEMENT_BYTES)


def _bytes(call: n.OpCall, mask: int) -> int:
    ways = 2 if mask == _BOTH else 1
    slots = call.kwargs.get("slot_num") or (BOTH_WAYS_SLOTS if ways == 2 else ONE_WAY_SLOTS)
    return int(call.kwargs.get("slot_size") or 0) * int(slots) * ways


def is_pipe_buffer(param: n.Param) -> bool:
    return param.name.partition("__ssa")[0] == PARAMETER
