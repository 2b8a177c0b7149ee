"""Stand-in for `pypto.backend.pto_backend`: the error users catch when a kernel is refused."""

from __future__ import annotations

from pypto_lab.ir.diagnostics import LabError

PartialCodegenError = LabError
"""The lab refuses a kernel with a LabError, so `except PartialCodegenError` catches it."""
