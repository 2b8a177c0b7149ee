"""Source text of kernels: finding a function's syntax tree in its file or notebook cell, and spans in characters."""

from __future__ import annotations

import ast
import inspect
import io
import linecache
import textwrap
import tokenize
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pypto_lab.ir.span import Span

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class SourceText:
    """A file's text. `line_shift` and `column_shift` are added to positions of trees parsed from an excerpt of it."""

    file: str
    text: str
    line_shift: int = 0
    column_shift: int = 0
    rows: tuple[str, ...] = field(default=(), compare=False)
    comments: dict[int, str] = field(default_factory=dict, compare=False)

    @staticmethod
    def of(file: str, text: str, line_shift: int = 0, column_shift: int = 0) -> SourceText:
        return SourceText(file, text, line_shift, column_shift, tuple(text.splitlines()), _full_line_comments(text))

    def span(self, node: ast.AST) -> Span:
        """The span of a syntax node; `ast` counts bytes, people count characters."""
        line, end_line = getattr(node, "lineno", 1), getattr(node, "end_lineno", None)
        end_line = line if end_line is None else end_line
        start = self._characters(line, getattr(node, "col_offset", 0))
        end_offset = getattr(node, "end_col_offset", None)
        end = start + 1 if end_offset is None else self._characters(end_line, end_offset)
        shift = self.column_shift + 1
        return Span(self.file, line + self.line_shift, start + shift, end_line + self.line_shift, end + shift)

    def _characters(self, line: int, offset: int) -> int:
        if not 1 <= line <= len(self.rows):
            return offset
        return len(self.rows[line - 1].encode()[:offset].decode(errors="replace"))

    def between(self, first: int, last: int) -> tuple[str, ...]:
        """Comments that stand alone on lines `first` to `last` (1-based, of the parsed text)."""
        return tuple(self.comments[line] for line in range(first, last + 1) if line in self.comments)

    def segment(self, node: ast.AST) -> str:
        """The text of a node on one line (for messages)."""
        found = ast.get_source_segment(self.text, node)
        return " ".join((found or ast.unparse(node)).split())


@dataclass(frozen=True)
class Located:
    """A syntax tree, its text, and the text of the whole file for error excerpts."""

    node: Any
    text: SourceText
    whole: str


class SourceUnavailable(Exception):
    """The text of a function or class cannot be found (typed into a plain interpreter, file deleted)."""


@lru_cache(maxsize=64)
def parse_file(file: str, text: str) -> tuple[ast.Module, SourceText] | None:
    """The tree of a whole file, None when it is not plain Python (a notebook cell with magics)."""
    try:
        return ast.parse(text), SourceText.of(file, text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def locate_function(function: Callable[..., Any]) -> Located:
    """The `def` of a Python function. Raises SourceUnavailable."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None:
        raise SourceUnavailable(f"{function!r} is not a Python function")
    parsed = _whole(code.co_filename)
    if parsed is not None:
        tree, text = parsed
        for node in ast.walk(tree):
            if isinstance(node, FunctionNode) and node.name == code.co_name and _starts_at(node, code.co_firstlineno):
                return Located(node, text, text.text)
    return _excerpt(function, code.co_filename)


def locate_class(cls: type, methods: list[Callable[..., Any]]) -> Located:
    """The `class` statement of a program; found by the lines of its methods, so that a class of the same name
    elsewhere in the file is not taken. Raises SourceUnavailable."""
    lines = {m.__code__.co_firstlineno for m in methods if hasattr(m, "__code__")}
    files = {m.__code__.co_filename for m in methods if hasattr(m, "__code__")}
    for file in files or {_class_file(cls)}:
        parsed = _whole(file)
        if parsed is None:
            continue
        tree, text = parsed
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef) or node.name != cls.__name__:
                continue
            if not lines or lines & {_first_line(child) for child in node.body}:
                return Located(node, text, text.text)
    return _excerpt(cls, next(iter(files), _class_file(cls)))


def _class_file(cls: type) -> str:
    try:
        return inspect.getfile(cls)
    except (TypeError, OSError):
        return "<unknown>"


def _first_line(node: ast.AST) -> int:
    decorators = getattr(node, "decorator_list", None)
    return int(decorators[0].lineno if decorators else getattr(node, "lineno", 0))


def _starts_at(node: FunctionNode, line: int) -> bool:
    return line in (node.lineno, _first_line(node))


def _whole(file: str) -> tuple[ast.Module, SourceText] | None:
    linecache.checkcache(file)
    lines = linecache.getlines(file)
    return parse_file(file, "".join(lines)) if lines else None


def _excerpt(value: Any, file: str) -> Located:
    """The tree of one definition cut out of a text that does not parse as a whole."""
    try:
        lines, first = inspect.getsourcelines(value)
    except (OSError, TypeError, IndexError, SyntaxError, tokenize.TokenError):
        name = getattr(value, "__qualname__", repr(value))
        raise SourceUnavailable(f"the source text of `{name}` is not available ({file})") from None
    cut = "".join(lines)
    dedented = textwrap.dedent(cut)
    shift = len(cut) - len(cut.lstrip(" \t")) - (len(dedented) - len(dedented.lstrip(" \t")))
    text = SourceText.of(file, dedented, max(first, 1) - 1, shift)
    try:
        tree = ast.parse(dedented)
    except SyntaxError as error:
        raise SourceUnavailable(f"the source text of `{getattr(value, '__qualname__', value)}`: {error.msg}") from None
    whole = "".join(linecache.getlines(file)) or "\n" * text.line_shift + cut
    return Located(tree.body[0], text, whole)


def _full_line_comments(text: str) -> dict[int, str]:
    """Comments with nothing before them on their line, by line number."""
    comments: dict[int, str] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip():
                comments[token.start[0]] = token.string[1:].strip()
    except (tokenize.TokenError, SyntaxError, IndentationError):
        pass  # comments are decoration: a text that parses but does not tokenize keeps what was read so far
    return comments
