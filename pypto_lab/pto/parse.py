"""Reading `.pto` text: a module in xDSL with the text's own names and places kept; every fault is a LabError."""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto_lab.ir.diagnostics import Diagnostic, LabError, did_you_mean
from pypto_lab.ir.span import Span

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp
    from xdsl.ir import Operation, SSAValue

_QUOTED = re.compile(r'//[^\n]*|"(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*"|(?P<open>")')
"""Comments, quoted words, and a quote that begins none. xDSL's own pattern takes exponential time on the last."""

_UNKNOWN_OP = "is not registered"
_CONSTANT = re.compile(r"%[^\s=]+\s*=\s*arith\.constant\s+([-+]?\d+\.\d+(?:[eE][-+]?\d+)?)\s*:")


@dataclass(frozen=True, eq=False)
class Unit:
    """A `.pto` text that has been read: the module, the names its values have in the text, and where ops stand."""

    file: str
    text: str
    module: ModuleOp
    names: Mapping[SSAValue, str] = field(default_factory=dict)
    positions: Mapping[Operation, int] = field(default_factory=dict)
    short_tiles: bool = False
    """Whether the text spells tile types in the short form."""

    @property
    def sources(self) -> dict[str, str]:
        return {self.file: self.text}

    @cached_property
    def _starts(self) -> list[int]:
        return line_starts(self.text)

    @cached_property
    def literals(self) -> dict[Operation, str]:
        """Float constants as the text writes them: their digits may say more than the dtype holds."""
        found = {}
        for op, start in self.positions.items():
            if op.name == "arith.constant":
                match = _CONSTANT.match(self.text, start)
                if match is not None:
                    found[op] = match.group(1)
        return found

    @cached_property
    def functions(self) -> dict[str, FuncOp]:
        """Functions with a body, by name."""
        from xdsl.dialects.func import FuncOp

        return {
            op.sym_name.data: op
            for op in self.module.walk()
            if isinstance(op, FuncOp) and op.body.blocks.first is not None
        }

    @property
    def arch(self) -> str:
        """`a2a3` or `a5`; `a2a3` where the module does not say."""
        from xdsl.dialects.builtin import StringAttr

        value = self.module.attributes.get("pto.target_arch")
        return value.data if isinstance(value, StringAttr) else "a2a3"

    def span(self, op: Operation) -> Span | None:
        """Where an op stands in this text: its first line."""
        start = self.positions.get(op)
        if start is None:
            return None
        end = self.text.find("\n", start)
        return span_at(self.file, self._starts, start, len(self.text) if end < 0 else end)


def line_starts(text: str) -> list[int]:
    """Offsets at which lines start."""
    starts = [0]
    for position, character in enumerate(text):
        if character == "\n":
            starts.append(position + 1)
    return starts


def span_at(file: str, starts: list[int], start: int, end: int) -> Span:
    """Offsets as lines and columns."""
    first = bisect.bisect_right(starts, start) - 1
    last = bisect.bisect_right(starts, max(start, end - 1)) - 1
    return Span(file, first + 1, start - starts[first] + 1, last + 1, end - starts[last] + 1)


def read(path: Path | str) -> Unit:
    """The unit in a file. Raises LabError (E600 when the file cannot be read, else as `parse`)."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LabError([Diagnostic("E600", f"cannot read {path}: {error}")]) from error
    return parse(text, str(path))


def parse(text: str, file: str = "<pto>") -> Unit:
    """Reads `.pto` text. Raises LabError E600 (no xDSL), E601 (syntax), E602 (unknown op), each with its place."""
    try:
        from xdsl.utils.exceptions import ParseError, VerifyException

        from pypto_lab.pto.dialect.reader import Reader, context
    except ImportError as error:
        hint = "install it: pip install 'xdsl>=0.75'"
        raise LabError([Diagnostic("E600", f"reading .pto needs xDSL: {error}", hint=hint)]) from error
    for match in _QUOTED.finditer(text):
        if match.group("open"):
            place = span_at(file, line_starts(text), match.start(), match.end())
            raise LabError([Diagnostic("E601", "this quote is never closed", place)], {file: text})
    try:
        reader = Reader(context(), text, file)
        module = reader.parse_module(allow_implicit_module=False)
        reader.expect_end()
    except ParseError as error:
        raise LabError([_syntax(error, text, file)], {file: text}) from error
    except (VerifyException, ValueError, TypeError, KeyError, IndexError, AssertionError, RecursionError) as error:
        raise LabError([_unreadable(error, text, file)], {file: text}) from error
    return Unit(file, text, module, reader.names, reader.positions, reader.short_tiles)


def _syntax(error: Any, text: str, file: str) -> Diagnostic:
    """A ParseError of xDSL as a diagnostic."""
    start = min(error.span.start, len(text))
    span = span_at(file, line_starts(text), start, max(start + 1, min(error.span.end, len(text))))
    message = str(error.msg).strip().rstrip("!.")
    if _UNKNOWN_OP in message and message.startswith("Operation "):
        name = message.split()[1]
        return _unknown_op(name, _place_of(name, text, file, start) or span)
    if message.startswith("values used but not defined"):
        name = message.partition("[")[2].rstrip("]").split(", ")[0]
        message, span = f"{name} is used but not defined", _place_of(name, text, file, len(text)) or span
    return Diagnostic("E601", f"this is not .pto text: {message}", span)


def _place_of(name: str, text: str, file: str, before: int) -> Span | None:
    """The last place a word stands before an offset."""
    found = None
    for match in re.finditer(re.escape(name) + r"(?![\w.$-])", text[:before]):
        found = match
    return None if found is None else span_at(file, line_starts(text), found.start(), found.end())


def _unknown_op(name: str, span: Span) -> Diagnostic:
    from pypto_lab.pto.dialect.operations import OPS

    return Diagnostic("E602", f"unknown op `{name}`", span, hint=did_you_mean(name, OPS))


def _unreadable(error: BaseException, text: str, file: str) -> Diagnostic:
    span = span_at(file, line_starts(text), 0, 1)
    return Diagnostic("E601", f"this is not .pto text: {error or type(error).__name__}", span)
