"""Who watches a run: a `Listener` is told about every op, write and queue operation of the machine, as it happens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch

if TYPE_CHECKING:
    from pypto_lab.pto.decode import Instruction, Value
    from pypto_lab.pto.machine.arena import Tile
    from pypto_lab.pto.machine.lane import Lane, Launch
    from pypto_lab.pto.machine.pipes import Parcel, Pipe

QueueKind = Literal["push", "pop", "free", "blocked", "resumed"]


class Listener:
    """Methods do nothing unless overridden. What they raise ends the run and reaches its caller.

    Calls come from the coroutine of the lane they are about; a listener must not change what it is given.
    """

    def launched(self, launch: Launch, lanes: Sequence[Lane], vector_lanes: int) -> None:
        """A kernel is about to run, on these lanes of all its blocks; called by who starts it."""

    def began(self, lane: Lane) -> None:
        """A lane enters its function; the arguments are set."""

    def ended(self, lane: Lane) -> None:
        """A lane has left its function; its memories are about to be given up."""

    def before(self, lane: Lane, instruction: Instruction) -> None:
        """An op is about to be executed."""

    def after(self, lane: Lane, instruction: Instruction) -> None:
        """An op has been executed and its results are set; loops and branches, too."""

    def turn(self, lane: Lane, instruction: Instruction, arguments: tuple[Value, ...]) -> None:
        """An iteration of a loop begins; the arguments of its body are set."""

    def decided(self, lane: Lane, instruction: Instruction, condition: bool) -> None:
        """A branch or a `while` goes one of its ways."""

    def returned(self, lane: Lane, instruction: Instruction) -> None:
        """The function's terminator has been reached."""

    def tile_write(self, lane: Lane, tile: Tile, rows: int, cols: int) -> None:
        """The first rows x cols elements of a tile are about to be written."""

    def memory_write(self, lane: Lane, cells: torch.Tensor) -> None:
        """A view of global memory is about to be written."""

    def queue(self, kind: QueueKind, lane: Lane, instruction: Instruction, pipe: Pipe, ring: int, **more: Any) -> None:
        """Something happens to one ring of a pipe. `slot` counts its pushes; `parcel` is what a push sent; `tile` what
        a pop gave; `why` of a wait is `full` or `empty`."""


class Listeners(Listener):
    """Several listeners as one, told in order."""

    def __init__(self, *listeners: Listener) -> None:
        self.listeners = listeners

    def launched(self, launch: Launch, lanes: Sequence[Lane], vector_lanes: int) -> None:
        for listener in self.listeners:
            listener.launched(launch, lanes, vector_lanes)

    def began(self, lane: Lane) -> None:
        for listener in self.listeners:
            listener.began(lane)

    def ended(self, lane: Lane) -> None:
        for listener in self.listeners:
            listener.ended(lane)

    def before(self, lane: Lane, instruction: Instruction) -> None:
        for listener in self.listeners:
            listener.before(lane, instruction)

    def after(self, lane: Lane, instruction: Instruction) -> None:
        for listener in self.listeners:
            listener.after(lane, instruction)

    def turn(self, lane: Lane, instruction: Instruction, arguments: tuple[Value, ...]) -> None:
        for listener in self.listeners:
            listener.turn(lane, instruction, arguments)

    def decided(self, lane: Lane, instruction: Instruction, condition: bool) -> None:
        for listener in self.listeners:
            listener.decided(lane, instruction, condition)

    def returned(self, lane: Lane, instruction: Instruction) -> None:
        for listener in self.listeners:
            listener.returned(lane, instruction)

    def tile_write(self, lane: Lane, tile: Tile, rows: int, cols: int) -> None:
        for listener in self.listeners:
            listener.tile_write(lane, tile, rows, cols)

    def memory_write(self, lane: Lane, cells: torch.Tensor) -> None:
        for listener in self.listeners:
            listener.memory_write(lane, cells)

    def queue(self, kind: QueueKind, lane: Lane, instruction: Instruction, pipe: Pipe, ring: int, **more: Any) -> None:
        for listener in self.listeners:
            listener.queue(kind, lane, instruction, pipe, ring, **more)


__all__ = ["Listener", "Listeners", "Parcel", "QueueKind"]
