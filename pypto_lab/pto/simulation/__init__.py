"""Kernels on PTO-ISA's CPU simulation, where a user has the tools for it: the second opinion on a `.pto`.

The lab ships none of these tools. It finds them, says what is missing, and runs what they make in a process of its own.
"""

from pypto_lab.pto.simulation.probe import Part, Probe, probe
from pypto_lab.pto.simulation.run import LABEL, Limits, Simulated, simulate
from pypto_lab.pto.simulation.toolchain import Compiler, Isa, Toolchain, find_compiler, find_isa, find_toolchain

__all__ = [
    "LABEL", "Compiler", "Isa", "Limits", "Part", "Probe", "Simulated", "Toolchain", "find_compiler", "find_isa",
    "find_toolchain", "probe", "simulate",
]  # fmt: skip
