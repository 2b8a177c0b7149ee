"""The text of a dump before it becomes a tree: parsing with `ast`, the word operator `xor`, comments, columns."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass, field

from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.span import Span

_NEWLINE = re.compile(r"\r\n|\r|\n")
_TOKENS = re.compile(
    r"""
    (?P<long>\"{3}.*?\"{3}|'{3}.*?'{3})
    | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    | (?P<comment>\#[^\n\r]*)
    | (?P<xor>(?<![\w.])xor(?!\w))
    """,
    re.VERBOSE | re.DOTALL,
)
MAX_SYNTAX_ERRORS = 10
_HINT_FORMAT = "a dump is the text of a `passes_dump/NN_after_<Pass>.py` file: `@pl.program`, a class, typed functions"


@dataclass
class Source:
    """One dump text with what is needed to place its nodes.

    `xors` are the places (line, byte column) where the word `xor` stood: it has three letters like `and`, so the
    parser sees `and` there and no column moves. `comments` are the lines that hold nothing but a comment.
    """

    text: str
    file: str
    lines: list[str] = field(init=False)
    ascii: bool = field(init=False)
    xors: set[tuple[int, int]] = field(default_factory=set)
    comments: list[tuple[int, int, str]] = field(default_factory=list)
    _wide: dict[int, bytes | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.text = self.text.removeprefix("\ufeff")
        self.lines = _NEWLINE.split(self.text)
        self.ascii = self.text.isascii()

    @property
    def sources(self) -> dict[str, str]:
        return {self.file: self.text}

    def span(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> Span:
        """The place of a node in characters (`ast` counts bytes)."""
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset
        end_column = node.col_offset + 1 if end_column is None else end_column
        if self.ascii:
            return Span(self.file, node.lineno, node.col_offset + 1, end_line, end_column + 1)
        start = self._column(node.lineno, node.col_offset)
        return Span(self.file, node.lineno, start, end_line, self._column(end_line, end_column))

    def _column(self, line: int, offset: int) -> int:
        wide = self._wide.get(line, b"")
        if wide == b"":
            row = self.lines[line - 1] if line <= len(self.lines) else ""
            wide = self._wide[line] = None if row.isascii() else row.encode("utf-8", "surrogatepass")
        if wide is None:
            return offset + 1
        return len(wide[:offset].decode("utf-8", "ignore")) + 1

    def line_span(self, line: int) -> Span:
        """A whole line, without its indentation."""
        row = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        return Span(self.file, line, len(row) - len(row.lstrip()) + 1, line, max(len(row), 1) + 1)

    # --- parsing -----------------------------------------------------------------------------------------------------

    def parse(self) -> ast.Module:
        """The syntax tree. Raises LabError with every syntax error found (one a statement)."""
        if "\0" in self.text:
            raise LabError([self._nul()], self.sources)
        text = self._scan() if "xor" in self.text or "#" in self.text else self.text
        found: list[Diagnostic] = []
        while True:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # odd escapes in a string are not worth a warning
                    tree = ast.parse(text)
            except SyntaxError as error:
                found.append(self._syntax(error))
                repaired = self._without(text, error.lineno) if len(found) < MAX_SYNTAX_ERRORS else None
                if repaired is None:
                    raise LabError(found, self.sources) from None
                text = repaired
            except (RecursionError, MemoryError):
                raise LabError([self._too_deep()], self.sources) from None
            except ValueError as error:  # lone surrogates, integers of more than 4300 digits
                raise LabError([self._broken(str(error))], self.sources) from None
            else:
                if found:
                    raise LabError(found, self.sources)
                return tree

    def _scan(self) -> str:
        """Notes comments and turns each `xor` outside strings and comments into `and`."""
        pieces: list[str] = []
        last = 0
        starts = [0, *(m.end() for m in _NEWLINE.finditer(self.text))]
        line = 0
        for token in _TOKENS.finditer(self.text):
            kind = token.lastgroup
            if kind not in ("comment", "xor"):
                continue
            begin = token.start()
            while line + 1 < len(starts) and starts[line + 1] <= begin:
                line += 1
            before = self.text[starts[line] : begin]
            if kind == "xor":
                self.xors.add((line + 1, len(before.encode("utf-8", "surrogatepass"))))
                pieces += [self.text[last:begin], "and"]
                last = token.end()
            elif not before.strip():
                self.comments.append((line + 1, len(before), token.group()[1:].removeprefix(" ").rstrip()))
        return "".join([*pieces, self.text[last:]]) if pieces else self.text

    def _without(self, text: str, line: int | None) -> str | None:
        """The text with a bad line replaced by a harmless one, so that the rest can be checked; None at the end."""
        rows = text.split("\n")
        if line is None or not 1 <= line <= len(rows):
            return None
        row = rows[line - 1]
        body = row.strip()
        if body in ("", "pass", "if True:"):
            return None
        indent = row[: len(row) - len(row.lstrip())]
        rows[line - 1] = indent + ("if True:" if body.endswith(":") else "pass")
        return "\n".join(rows)

    # --- what can be wrong -------------------------------------------------------------------------------------------

    def _syntax(self, error: SyntaxError) -> Diagnostic:
        line = min(max(error.lineno or 1, 1), max(len(self.lines), 1))
        row = self.lines[line - 1] if self.lines else ""
        column = min(max(error.offset or 1, 1), len(row) + 1)
        end = error.end_offset if error.end_lineno == error.lineno and error.end_offset else column + 1
        message = (error.msg or "invalid syntax").strip()
        last = max((i for i, r in enumerate(self.lines, 1) if r.strip()), default=1)
        truncated = line >= last or any(sign in message for sign in ("never closed", "unterminated", "EOF"))
        truncated = truncated and not message.startswith(("too many", "Exceeds"))
        hint = "is the file complete? it reads as if it was cut off here" if truncated else None
        if hint is None and "pypto" not in self.text:
            hint = _HINT_FORMAT
        return Diagnostic("E701", message, Span(self.file, line, column, line, max(end, column + 1)), hint=hint)

    def _nul(self) -> Diagnostic:
        at = self.text.index("\0")
        before = _NEWLINE.split(self.text[:at])
        line, column = len(before), len(before[-1]) + 1
        return Diagnostic(
            "E701",
            "the text holds a NUL byte",
            Span(self.file, line, column, line, column + 1),
            hint="the file is binary or damaged; " + _HINT_FORMAT,
        )

    def _too_deep(self) -> Diagnostic:
        longest = max(range(len(self.lines)), key=lambda i: len(self.lines[i]), default=0)
        return Diagnostic("E703", "expressions are nested too deeply to read", self.line_span(longest + 1))

    def _broken(self, message: str) -> Diagnostic:
        return Diagnostic("E701", f"the text cannot be parsed: {message}", self.line_span(1), hint=_HINT_FORMAT)

    def not_a_dump(self) -> Diagnostic:
        return Diagnostic("E702", "this text holds no PyPTO program", self.line_span(1), hint=_HINT_FORMAT)
