"""Stand-in for `pypto.ir.distributed_compiled_program`."""

from __future__ import annotations

from typing import Any

from pypto_lab.compat.compiled import CompiledProgram as DistributedCompiledProgram

__all__ = ["DistributedCompiledProgram", "DistributedConfig"]


class DistributedConfig:
    """Which devices take part; the lab keeps it and runs every rank on this machine."""

    def __init__(self, device_ids: list[int] | None = None, num_sub_workers: int = 0, **options: Any) -> None:
        self.device_ids = list(device_ids or [0])
        self.num_sub_workers = num_sub_workers
        self.__dict__.update(options)
