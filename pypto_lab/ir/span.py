"""Where a piece of a program stands in its source text: 1-based lines and 1-based *character* columns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A range of source text. `end_column` points one past the last character, as editors do."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def merged(self, other: Span) -> Span:
        """The smallest span that holds both (same file)."""
        start = min((self.line, self.column), (other.line, other.column))
        end = max((self.end_line, self.end_column), (other.end_line, other.end_column))
        return Span(self.file, *start, *end)
