"""Integer values of C++ expressions where all their names are known: constants, casts, arithmetic, comparisons."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

from pypto_lab.pto.wrapper.cpp import Token, closing, template_end

INTEGER_TYPES = frozenset({
    "int", "unsigned", "signed", "long", "short", "char", "bool", "auto", "const", "constexpr", "std", "size_t",
    "uintptr_t", "event_t", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t",
})  # fmt: skip
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip


def _divide(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "||": lambda a, b: int(bool(a) or bool(b)), "&&": lambda a, b: int(bool(a) and bool(b)),
    "|": operator.or_, "^": operator.xor, "&": operator.and_, "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
    "<<": operator.lshift, ">>": operator.rshift, "+": operator.add, "-": operator.sub, "*": operator.mul,
    "/": _divide, "%": lambda a, b: a - _divide(a, b) * b,
}  # fmt: skip


def integer(words: Sequence[Token], known: Mapping[str, int | None]) -> int | None:
    """The value of an expression, or None when a name or form in it is not known. C++ division truncates."""
    reader = _Reader(words, known)
    try:
        value = reader.choice()
    except (_UnknownError, IndexError, ZeroDivisionError, ValueError, OverflowError):
        return None
    return value if reader.at == len(words) else None


class _UnknownError(Exception):
    pass


class _Reader:
    def __init__(self, words: Sequence[Token], known: Mapping[str, int | None]) -> None:
        self.words, self.known, self.at = words, known, 0

    def peek(self) -> str:
        return self.words[self.at].text if self.at < len(self.words) else ""

    def take(self) -> Token:
        self.at += 1
        return self.words[self.at - 1]

    def choice(self) -> int:
        condition = self.level(0)
        if self.peek() != "?":
            return condition
        self.at += 1
        then = self.choice()
        if self.take().text != ":":
            raise _UnknownError
        other = self.choice()
        return then if condition else other

    def level(self, depth: int) -> int:
        if depth == len(_LEVELS):
            return self.unary()
        value = self.level(depth + 1)
        while (word := self.operator()) in _LEVELS[depth]:
            self.at += 2 if word == ">>" else 1
            value = int(_OPERATIONS[word](value, self.level(depth + 1)))
        return value

    def operator(self) -> str:
        """The next operator; `>>` stands in the tokens as two, since it also closes templates."""
        word = self.peek()
        if word == ">" and self.at + 1 < len(self.words):
            following = self.words[self.at + 1]
            if following.text == ">" and following.start == self.words[self.at].end:
                return ">>"
        return word

    def unary(self) -> int:
        word = self.take()
        match word.text:
            case "-":
                return -self.unary()
            case "+":
                return self.unary()
            case "!":
                return int(not self.unary())
            case "~":
                return ~self.unary()
            case "(":
                return self.parenthesis()
            case "reinterpret_cast" | "static_cast":
                return self.named_cast()
        if word.kind == "number":
            return int(word.text.rstrip("uUlL").replace("'", ""), 0)
        if word.text in ("true", "false"):
            return int(word.text == "true")
        if word.kind == "name" and self.peek() != "(":
            return self.name(word.text)
        raise _UnknownError

    def name(self, text: str) -> int:
        if [w.text for w in self.words[self.at : self.at + 4]] == [".", "data", "(", ")"]:
            self.at += 4
        value = self.known.get(text)
        if value is None:
            raise _UnknownError
        return value

    def parenthesis(self) -> int:
        close = closing(self.words, self.at - 1)
        inside = self.words[self.at : close]
        if inside and all(w.text in INTEGER_TYPES or w.text in ("::", "*") for w in inside) and inside[0].text != "*":
            self.at = close + 1
            return self.unary()
        value = self.choice()
        if self.take().text != ")":
            raise _UnknownError
        return value

    def named_cast(self) -> int:
        inside = template_end(self.words, self.at)
        if inside is None:
            raise _UnknownError
        self.at = inside + 1
        return self.unary()
