"""Stand-in for `pypto`: what users' files import, without the compiler."""

from pypto_lab.compat.pypto import backend, debug, ir, language, passes, runtime
from pypto_lab.ir.dtypes import DType as DataType

__all__ = ["DataType", "backend", "debug", "ir", "language", "passes", "runtime"]
