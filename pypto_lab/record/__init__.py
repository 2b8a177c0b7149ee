"""Run a script under the recorder and step in the recording, both ways.

The package can be called: `pypto_lab.record(program, values)` is `recorder.record`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """The module type that makes `pypto_lab.record(...)` and `pypto_lab.record.recorder` both work."""

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        from pypto_lab.record.recorder import record  # torch is needed only when something is recorded

        return record(*args, **keywords)


sys.modules[__name__].__class__ = _Callable
