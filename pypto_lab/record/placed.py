"""What a byte machine's log entries refer to: memories of lanes, and views of their bytes or of a tensor's."""

from __future__ import annotations

import numpy as np
import torch

from pypto_lab.record.events import Memory, Order
from pypto_lab.record.store import Bytes


class LaneMemory:
    """An on-chip memory while its lane runs; `high` is the end of the bytes that tiles use.

    Shares the machine's bytes until `close`, then keeps a copy of those in use.
    """

    __slots__ = ("address", "bytes", "high", "is_open", "memory", "owner")

    def __init__(self, memory: Memory, owner: object, data: torch.Tensor) -> None:
        """`owner` is whatever the memory is known by; it is held, so that its identity stays its own."""
        self.memory = memory
        self.owner = owner
        self.bytes: Bytes = data.numpy()
        self.address = data.data_ptr()
        self.high = 0
        self.is_open = True

    def close(self) -> int:
        """The machine gives its bytes up; the number of bytes kept."""
        self.bytes = np.array(self.bytes[: self.high])
        self.owner, self.is_open = None, False
        return self.high


class Placed:
    """A view with its own strides (in elements): of a lane's memory, or of a tensor's storage."""

    __slots__ = ("dtype", "holder", "offset", "order", "shape", "strides", "valid")

    def __init__(
        self,
        holder: LaneMemory | torch.Tensor,
        dtype: str,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int,
        valid: tuple[int, ...] | None = None,
        order: Order | None = None,
    ) -> None:
        self.holder = holder
        self.dtype = dtype
        self.shape = shape
        self.strides = strides
        self.offset = offset
        self.valid = valid
        self.order = order
