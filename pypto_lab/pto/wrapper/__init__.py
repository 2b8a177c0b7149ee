"""The C++ around a kernel: what `ptoas` wrote, made private, plus the `kernel_entry` the runtime calls.

The rules are those of PyPTO's kernel wrapper page: argument unpacking, SPMD identity, split FIFO lanes.
"""

from pypto_lab.pto.wrapper.assemble import kernel_wrapper
from pypto_lab.pto.wrapper.entry import kernel_entry
from pypto_lab.pto.wrapper.preprocess import preprocess

__all__ = ["kernel_entry", "kernel_wrapper", "preprocess"]
