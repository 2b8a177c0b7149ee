"""Stand-in for `pypto_pro.language`: every use says that PyPTO-Pro kernels are not supported yet."""

from __future__ import annotations

from typing import NoReturn

from pypto_lab.ir.diagnostics import Diagnostic, LabError


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    raise LabError(
        [
            Diagnostic(
                "E505",
                f"PyPTO-Pro kernels are not supported yet (`pypto_pro.language.{name}`)",
                hint="kernels written with `import pypto.language as pl` run today",
            )
        ]
    )
