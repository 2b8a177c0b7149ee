"""Ops without a value of their own: synchronisation, buffers, prefetch.

Synchronisation within a core does nothing here, because statements of a lane run one after the other; the calls stay
in the script so that it reads like the kernel.
"""

from __future__ import annotations

from typing import Any

import torch


def _sync_src(*, set_pipe: Any, wait_pipe: Any, event_id: int) -> None:
    """Sets a flag from one pipeline of the core to another."""


def _sync_dst(*, set_pipe: Any, wait_pipe: Any, event_id: int) -> None:
    """Waits for a flag another pipeline of the core sets."""


def _sync_set(event: int | None = None, **attributes: Any) -> None:
    """Sets a cross-core event."""


def _sync_wait(event: int | None = None, **attributes: Any) -> None:
    """Waits for a cross-core event."""


def _set_ffts() -> None:
    """Sets up the workspace of cross-core events."""


def _bar_v() -> None:
    """Waits for the vector pipeline."""


def _bar_m() -> None:
    """Waits for the matrix pipeline."""


def _bar_all() -> None:
    """Waits for all pipelines."""


def _fence() -> None:
    """Orders accesses to global memory."""


def _cacheinvalid(*region: Any) -> None:
    """Drops cached global memory, all of it or a region."""


def _syncall(*used_cores: int, **attributes: Any) -> None:
    """A barrier of all cores of a launch."""


def _reserve_buffer(*, name: str, size: int, base: int = -1) -> int:
    """Reserves the ring buffer of a pipe; the handle is its base, 0 while the compiler has not placed it."""
    return max(base, 0)


def _import_peer_buffer(*, name: str, peer_func: str) -> int:
    """The handle of a ring buffer that the other core reserved."""
    return 0


# --- prefetch: warms a cache, so it has no value ---------------------------------------------------------------------


def _prefetch_context() -> str:
    """A handle that groups prefetches."""
    return "prefetch context"


def _prefetch_session(context: str) -> str:
    """A handle to wait with."""
    return "prefetch session"


def _prefetch_async(source: torch.Tensor, context: str) -> str:
    """Starts to bring a tensor near; the event is over at once."""
    return "prefetch event"


def _prefetch_wait(event: str, session: str) -> bool:
    """Waits for a prefetch; always finished."""
    return True


def _test_op(*operands: Any, **attributes: Any) -> Any:
    """The first operand: what the compiler's own test ops stand for."""
    return operands[0]
