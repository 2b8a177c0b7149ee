"""A machine that executes `.pto` text as it stands on disk: bytes, layouts, lanes, pipes and global memory.

`execute` runs one kernel, `run_build` a whole program of a build folder. Every result says what was executed.
"""

from pypto_lab.pto.machine.build import BuildResult, run_build
from pypto_lab.pto.machine.execute import execute
from pypto_lab.pto.machine.findings import EXECUTED, ExecutionError, ExecutionResult, Finding

__all__ = ["EXECUTED", "BuildResult", "ExecutionError", "ExecutionResult", "Finding", "execute", "run_build"]
