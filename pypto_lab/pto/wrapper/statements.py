"""The statement tree of a C++ function body, over the tokens of `cpp`: plain statements, branches and loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pypto_lab.pto.wrapper.cpp import Token, closing

Words = tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Plain:
    """A statement without its semicolon."""

    words: Words


@dataclass(frozen=True, slots=True)
class Branch:
    condition: Words
    then: tuple[Statement, ...]
    other: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """`for (start; condition; step)`; a `while` has neither start nor step. `body_first` marks do-while."""

    start: Words
    condition: Words
    step: Words
    body: tuple[Statement, ...]
    body_first: bool = False


@dataclass(frozen=True, slots=True)
class Opaque:
    """A construct that is not followed; `word` says which."""

    word: str
    line: int


Statement = Plain | Branch | Loop | Opaque


def read_body(words: Sequence[Token]) -> tuple[Statement, ...]:
    """The statements of a body, braces of the body itself left out."""
    return _Reader(tuple(words)).block(0, len(words))


class _Reader:
    def __init__(self, words: Words) -> None:
        self.words = words

    def block(self, at: int, end: int) -> tuple[Statement, ...]:
        found: list[Statement] = []
        while at < end:
            statements, at = self.statement(at, end)
            found += statements
        return tuple(found)

    def statement(self, at: int, end: int) -> tuple[tuple[Statement, ...], int]:
        word = self.words[at].text
        match word:
            case ";":
                return (), at + 1
            case "{":
                close = min(closing(self.words, at), end)
                return self.block(at + 1, close), close + 1
            case "if":
                return self.branch(at, end)
            case "for" | "while":
                return self.loop(at, end)
            case "do":
                return self.do_loop(at, end)
            case "switch" | "goto" | "try":
                return self.skipped(at, end)
        return self.plain(at, end)

    def plain(self, at: int, end: int) -> tuple[tuple[Statement, ...], int]:
        start = at
        while at < end and self.words[at].text != ";":
            at = closing(self.words, at) + 1 if self.words[at].text in "([{" else at + 1
        words = self.words[start : min(at, end)]
        return ((Plain(words),) if words else ()), at + 1

    def branch(self, at: int, end: int) -> tuple[tuple[Statement, ...], int]:
        at += 2 if self._is(at + 1, end, "constexpr") else 1
        if not self._is(at, end, "("):
            return self.plain(at, end)
        close = min(closing(self.words, at), end)
        then, following = self.statement(close + 1, end) if close + 1 < end else ((), end)
        other: tuple[Statement, ...] = ()
        if self._is(following, end, "else"):
            other, following = self.statement(following + 1, end) if following + 1 < end else ((), end)
        return (Branch(self.words[at + 1 : close], then, other),), following

    def loop(self, at: int, end: int) -> tuple[tuple[Statement, ...], int]:
        is_for = self.words[at].text == "for"
        if not self._is(at + 1, end, "("):
            return self.plain(at + 1, end)
        close = min(closing(self.words, at + 1), end)
        body, following = self.statement(close + 1, end) if close + 1 < end else ((), end)
        header = self.words[at + 2 : close]
        if not is_for:
            return (Loop((), header, (), body),), following
        cuts = [i for i, w in enumerate(header) if w.text == ";"]
        if len(cuts) != 2:
            return (Opaque("range for", self.words[at].line),), following
        parts = header[: cuts[0]], header[cuts[0] + 1 : cuts[1]], header[cuts[1] + 1 :]
        return (Loop(*parts, body),), following

    def do_loop(self, at: int, end: int) -> tuple[tuple[Statement, ...], int]:
        body, following = self.statement(at + 1, end) if at + 1 < end else ((), end)
        condition: Words = ()
        if self._is(following, end, "while") and self._is(following + 1, end, "("):
            close = min(closing(self.words, following + 1), end)
            condition, following = self.words[following + 2 : close], close + 1
        return (Loop((), condition, (), body, body_first=True),), following

    def skipped(self, at: int, end: int) -> tuple[tuple[Statement, ...], int]:
        opaque = Opaque(self.words[at].text, self.words[at].line)
        while at < end and self.words[at].text not in ("{", ";"):
            at += 1
        following = closing(self.words, at) + 1 if at < end and self.words[at].text == "{" else at + 1
        return (opaque,), following

    def _is(self, at: int, end: int, text: str) -> bool:
        return at < end and self.words[at].text == text
