"""Lines of C++ that are written out of order: a place can be kept for declarations that are only known further down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Place:
    """A spot in a text at one depth; lines added to it later stand there."""

    depth: int
    lines: list[str | Place] = field(default_factory=list)

    def add(self, text: str = "") -> None:
        indent = "    " * self.depth
        self.lines += [indent + line for line in text.split("\n")] if text else [""]

    def rendered(self) -> Iterator[str]:
        for line in self.lines:
            if isinstance(line, Place):
                yield from line.rendered()
            else:
                yield line


class Text:
    """C++ in the making. `add` writes at the current depth, `keep` leaves a place, `block` indents."""

    def __init__(self) -> None:
        self._whole = Place(0)
        self._depth = 0

    def add(self, text: str = "") -> None:
        self.keep().add(text)

    def keep(self) -> Place:
        place = Place(self._depth)
        self._whole.lines.append(place)
        return place

    @contextmanager
    def block(self, head: str, tail: str | None = "}") -> Iterator[None]:
        """`head {`, the lines written inside, `tail` (None where the next block's head closes this one)."""
        self.add(f"{head} {{")
        self._depth += 1
        yield
        self._depth -= 1
        if tail is not None:
            self.add(tail)

    def __str__(self) -> str:
        return "\n".join(self._whole.rendered()) + "\n"
