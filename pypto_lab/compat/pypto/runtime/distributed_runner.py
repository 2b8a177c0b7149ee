"""Stand-in for `pypto.runtime.distributed_runner`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def _tensor_from_continuous(tensor: torch.Tensor) -> torch.Tensor:
    """A callback's argument as a tensor; it is one already."""
    return tensor
