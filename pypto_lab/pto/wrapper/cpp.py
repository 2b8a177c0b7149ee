"""A small reader of generated C++: conditional parts, tokens with lines, functions and calls, all by text offset."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"(?P<skip>\s+|//[^\n]*|/\*.*?\*/)"
    r'|(?P<string>"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\')'
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<number>\.?\d(?:[\w.']|(?<=[eEpP])[+-])*)"
    r"|(?P<op>::|->|<<=|>>=|\+\+|--|&&|\|\||[-+*/%&|^!=<>]=|<<|.)",
    re.S,
)
_OPENING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Token:
    """One word of C++; `start` counts characters from 0, `line` and `column` from 1."""

    text: str
    kind: str
    start: int
    line: int
    column: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Function:
    """A function definition: the token ranges of its parameter list (inside the parentheses) and of its body."""

    name: str
    parameters: tuple[int, int]
    body: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Call:
    """`name<template>(arguments)`: the token index of the name, token ranges of the template text and arguments."""

    name: str
    at: int
    template: tuple[int, int] | None
    arguments: tuple[tuple[int, int], ...]
    close: int


def tokens(text: str) -> list[Token]:
    """The words of a text without comments, white space and preprocessor lines."""
    found: list[Token] = []
    line, position, line_start = 1, 0, 0
    text = _without_directives(text)
    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match is not None, "the last alternative takes any character"
        kind = match.lastgroup or "op"
        if kind != "skip":
            found.append(Token(match.group(), kind, position, line, position - line_start + 1))
        breaks = match.group().count("\n")
        if breaks:
            line, line_start = line + breaks, position + match.group().rindex("\n") + 1
        position = match.end()
    return found


def _directive_lines(text: str) -> Iterator[tuple[int, int, str]]:
    """(start, end, text) of each preprocessor line, continuation lines joined."""
    for match in re.finditer(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", text, re.M):
        yield match.start(), match.end(), match.group().replace("\\\n", " ").strip()[1:].strip()


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _without_directives(text: str) -> str:
    parts, last = [], 0
    for start, end, _ in _directive_lines(text):
        parts += [text[last:start], _blank(text[start:end])]
        last = end
    return "".join([*parts, text[last:]])


def active(text: str, defined: Collection[str]) -> str:
    """The text with every conditional part blanked that these macros switch off; offsets and lines stay."""
    parts: list[str] = []
    stack: list[list[bool]] = []  # [this branch is on, some branch was on]
    last = 0
    for start, end, directive in _directive_lines(text):
        on = all(level[0] for level in stack)
        parts.append(text[last:start] if on else _blank(text[last:start]))
        last = end
        word, _, rest = directive.partition(" ")
        rest = re.sub(r"/\*.*?\*/|//.*", "", rest).strip()
        match word:
            case "if" | "ifdef" | "ifndef":
                holds = _condition(word, rest, defined)
                stack.append([holds, holds])
            case "elif" if stack:
                holds = not stack[-1][1] and _condition("if", rest, defined)
                stack[-1] = [holds, stack[-1][1] or holds]
            case "else" if stack:
                stack[-1] = [not stack[-1][1], True]
            case "endif" if stack:
                stack.pop()
        parts.append(_blank(text[start:end]))
    on = all(level[0] for level in stack)
    return "".join([*parts, text[last:] if on else _blank(text[last:])])


def _condition(word: str, rest: str, defined: Collection[str]) -> bool:
    """Whether a conditional holds. Names that are not defined count as 0; what is no formula of names counts as 0."""
    if word != "if":
        return (rest in defined) == (word == "ifdef")
    formula = re.sub(r"defined\s*\(?\s*(\w+)\s*\)?", lambda m: str(int(m[1] in defined)), rest)
    formula = re.sub(r"[A-Za-z_]\w*", lambda m: str(int(m[0] in defined)), formula)
    words = re.findall(r"&&|\|\||!(?!=)|\(|\)|\d+", formula)
    if "".join(words) != re.sub(r"\s", "", formula):
        return False
    value, at = _either(words, 0)
    return value and at == len(words)


def _either(words: Sequence[str], at: int) -> tuple[bool, int]:
    value, at = _both(words, at)
    while at < len(words) and words[at] == "||":
        right, at = _both(words, at + 1)
        value = value or right
    return value, at


def _both(words: Sequence[str], at: int) -> tuple[bool, int]:
    value, at = _single(words, at)
    while at < len(words) and words[at] == "&&":
        right, at = _single(words, at + 1)
        value = value and right
    return value, at


def _single(words: Sequence[str], at: int) -> tuple[bool, int]:
    if at >= len(words):
        return False, at
    if words[at] == "!":
        value, at = _single(words, at + 1)
        return not value, at
    if words[at] == "(":
        value, at = _either(words, at + 1)
        return value, at + 1
    return words[at].isdigit() and int(words[at]) != 0, at + 1


def closing(words: Sequence[Token], at: int) -> int:
    """The index of the bracket that closes the one at `at`; the end of the text when none does."""
    depth = 0
    for i in range(at, len(words)):
        if words[i].text in _OPENING:
            depth += 1
        elif words[i].text in _OPENING.values():
            depth -= 1
            if depth == 0:
                return i
    return len(words)


def template_end(words: Sequence[Token], at: int) -> int | None:
    """The index of the `>` that closes the `<` at `at`, or None when it is a comparison."""
    depth = 0
    for i in range(at, len(words)):
        match words[i].text:
            case "<":
                depth += 1
            case ">":
                depth -= 1
                if depth == 0:
                    return i
            case ";" | "{" | "}" | "&&" | "||":
                return None
    return None


def split_commas(words: Sequence[Token], start: int, end: int) -> tuple[tuple[int, int], ...]:
    """The comma-separated parts of a token range, brackets and template arguments kept whole."""
    parts: list[tuple[int, int]] = []
    begin = at = start
    while at < end:
        word = words[at].text
        if word in _OPENING:
            at = closing(words, at)
        elif word == "<" and at > start and words[at - 1].kind == "name":
            inside = template_end(words, at)
            at = inside if inside is not None and inside < end else at
        elif word == ",":
            parts.append((begin, at))
            begin = at + 1
        at += 1
    if begin < end:
        parts.append((begin, end))
    return tuple(parts)


def functions(words: Sequence[Token]) -> list[Function]:
    """Function definitions, also those inside `extern "C" { }` and namespaces."""
    found: list[Function] = []
    boundary = at = 0
    while at < len(words):
        word = words[at].text
        if word in (";", "}"):
            boundary = at + 1
        elif word == "{":
            function = _header(words, boundary, at)
            if function is not None:
                found.append(function)
                at = function.body[1]
            elif not _is_container(words, boundary, at):
                at = closing(words, at)
            boundary = at + 1
        elif word in _OPENING:
            at = closing(words, at)
        at += 1
    return found


def _is_container(words: Sequence[Token], start: int, brace: int) -> bool:
    header = [w.text for w in words[start:brace]]
    return "namespace" in header or (header[:1] == ["extern"] and len(header) == 2)


def _header(words: Sequence[Token], start: int, brace: int) -> Function | None:
    at = start
    while at < brace:
        if words[at].text == "<" and at > start:
            at = template_end(words, at) or at
        elif words[at].text == "(":
            close = closing(words, at)
            before = words[at - 1] if at > start else None
            if before is not None and before.kind == "name" and before.text not in ("__attribute__", "decltype"):
                return Function(before.text, (at + 1, close), (brace + 1, closing(words, brace)))
            at = close
        at += 1
    return None


def call_at(words: Sequence[Token], at: int, end: int) -> Call | None:
    """The call whose name is the token at `at`, else None."""
    if words[at].kind != "name" or at + 1 >= end:
        return None
    template: tuple[int, int] | None = None
    open_at = at + 1
    if words[open_at].text == "<":
        inside = template_end(words, open_at)
        if inside is None or inside + 1 >= end:
            return None
        template, open_at = (open_at + 1, inside), inside + 1
    if words[open_at].text != "(":
        return None
    close = closing(words, open_at)
    return Call(words[at].text, at, template, split_commas(words, open_at + 1, close), close)
