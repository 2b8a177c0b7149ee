"""What differs between the chips a lowering can aim at: memory sizes, and whether a pipe goes through global memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pypto_lab.ir.enums import MemorySpace

ALIGNMENT = 32
"""Bytes every tile's address is a multiple of."""


@dataclass(frozen=True, slots=True)
class Target:
    """`capacity` is what the compiler plans against: a little less than the physical vector memory."""

    name: str
    capacity: Mapping[MemorySpace, int]
    pipe_through_global_memory: bool


TARGETS: Mapping[str, Target] = {
    "a2a3": Target(
        "a2a3",
        {
            MemorySpace.Vec: 184 << 10,
            MemorySpace.Mat: 512 << 10,
            MemorySpace.Left: 64 << 10,
            MemorySpace.Right: 64 << 10,
            MemorySpace.Acc: 128 << 10,
            MemorySpace.Bias: 1 << 10,
        },
        pipe_through_global_memory=True,
    ),
    "a5": Target(
        "a5",
        {
            MemorySpace.Vec: 240 << 10,
            MemorySpace.Mat: 512 << 10,
            MemorySpace.Left: 64 << 10,
            MemorySpace.Right: 64 << 10,
            MemorySpace.Acc: 256 << 10,
            MemorySpace.Bias: 4 << 10,
            MemorySpace.LeftScale: 4 << 10,
            MemorySpace.RightScale: 4 << 10,
        },
        pipe_through_global_memory=False,
    ),
}


def target_of(arch: str) -> Target:
    """The target called `arch`. Raises ValueError with the names that exist."""
    if arch not in TARGETS:
        raise ValueError(f"unknown arch {arch!r}; the archs are {', '.join(TARGETS)}")
    return TARGETS[arch]
