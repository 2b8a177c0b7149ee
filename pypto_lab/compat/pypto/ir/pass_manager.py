"""Stand-in for `pypto.ir.pass_manager`: strategies by name; the lab's own passes are not run from here."""

from __future__ import annotations

from enum import Enum
from typing import Any

from pypto_lab.compat.kernels import program_from
from pypto_lab.compat.notices import say_once
from pypto_lab.ir.nodes import Program


class OptimizationStrategy(Enum):
    Default = "Default"
    DebugTileOptimization = "DebugTileOptimization"
    SuperscalarNPU = "SuperscalarNPU"


class PassDumpLevel(Enum):
    NONE = 0
    CONCISE = 1
    EXPLICIT = 2


class PassManager:
    """Names a strategy. `run_passes` returns the program as the front end reads it and says so."""

    def __init__(self, strategy: OptimizationStrategy = OptimizationStrategy.Default) -> None:
        self.strategy = strategy

    @classmethod
    def get_strategy(cls, strategy: OptimizationStrategy = OptimizationStrategy.Default) -> PassManager:
        return cls(strategy)

    def run_passes(self, program: Any, **options: Any) -> Program:
        """The program unchanged: the compiler's passes are not part of the stand-in."""
        say_once("PassManager.run_passes returns the front-end program; no pass was run")
        return program_from(program)
