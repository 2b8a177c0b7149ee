"""What a pass gets besides the program: the target and a way to refuse at the user's line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.span import Span
from pypto_lab.lowering.target import Target


@dataclass(frozen=True, slots=True)
class Context:
    """The target of a lowering and the sources its diagnostics quote."""

    target: Target
    sources: Mapping[str, str] = field(default_factory=dict)

    def refuse(
        self, code: str, message: str, span: Span | None, hint: str | None = None, note: str | None = None
    ) -> NoReturn:
        """Raises LabError: the program asks for something the compiler cannot do."""
        raise LabError([Diagnostic(code, message, span, hint=hint, note=note)], self.sources)


Pass = Callable[[n.Program, Context], n.Program]
"""A pass: program to program. It raises LabError for what it refuses."""
