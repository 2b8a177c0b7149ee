"""The xDSL parser for `.pto` text: keeps what a rewrite of the text needs, names and places."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Self

from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.dialects.math import Math
from xdsl.dialects.scf import Scf, WhileOp
from xdsl.ir import Dialect, Operation, SSAValue
from xdsl.parser import Parser
from xdsl.utils.lexer import Span
from xdsl.utils.mlir_lexer import MLIRTokenKind

from pypto_lab.pto.dialect.operations import PTO


class BareWhileOp(WhileOp):
    """`scf.while` that may stand without a list of carried values: `scf.while : () -> () {...}`."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        if parser.parse_optional_punctuation(":") is None:
            return super().parse(parser)
        parser.parse_function_type()
        before = parser.parse_region()
        parser.parse_keyword("do")
        return cls((), (), before, parser.parse_region())


SCF = Dialect("scf", [BareWhileOp if op is WhileOp else op for op in Scf.operations], list(Scf.attributes))


@lru_cache(maxsize=1)
def context() -> Context:
    """The dialects `.pto` text uses."""
    made = Context()
    for dialect in (Builtin, Func, Arith, SCF, Math, PTO):
        made.load_dialect(dialect)
    return made


class Reader(Parser):
    """Reads a module and remembers, by op, where it starts and, by value, how the text calls it."""

    def __init__(self, ctx: Context, text: str, file: str) -> None:
        super().__init__(ctx, text, file)
        self.positions: dict[Operation, int] = {}
        self.names: dict[SSAValue, str] = {}
        self.short_tiles = False

    def parse_operation(self) -> Operation:
        start = self.pos
        op = super().parse_operation()
        self.positions[op] = start
        return op

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
        super()._register_ssa_definition(name, values, span)
        if len(values) == 1:
            self.names[values[0]] = name

    def expect_end(self) -> None:
        """Raises ParseError when text follows the module."""
        if self._current_token.kind != MLIRTokenKind.EOF:
            self.raise_error("text after the end of the module")
