"""Every op of the regular form `pto.NAME ins(...) outs(...)`: operands, where attributes stand, layout needs.

One row an op. Operand letters: `t` tile, `s` scalar, `p` window of a tensor, `v` vector of counts; `?` after a letter
marks it optional, `*` any number of them. Facts follow the op list of the PTO reference (PTOAS v0.5x).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Operand:
    kinds: str
    """Letters of the kinds that fit here."""
    optional: bool = False
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class OpRow:
    """An op of the regular form. `inside` names the attributes printed in `ins(...)` before the types, all others
    stand after `outs(...)`. `row_major` says which tiles must be stored row after row."""

    name: str
    ins: tuple[Operand, ...]
    outs: tuple[Operand, ...]
    row_major: str = ""
    """"all", "in", "out", or the operand numbers of `ins` as digits, optionally with "o" for the outputs."""
    inside: frozenset[str] = frozenset()
    family: str = "other"
    generic: bool = False
    """Whether the quoted form `"pto.NAME"(...)` is how it prints."""
    alike: str = ""
    """Operands whose elements are of one type: numbers of `ins` as digits, "o" for the first output."""
    scratch: str = ""
    """Numbers of the `ins` that the op only uses as working memory: it does not read them, but leaves them changed."""

    @property
    def full_name(self) -> str:
        return f"pto.{self.name}"

    def needs_row_major(self, index: int, output: bool) -> bool:
        """Whether operand `index` (of ins, or of outs with `output`) must be row-major."""
        need = self.row_major
        if need == "all" or need == ("out" if output else "in"):
            return True
        return ("o" in need and need != "out") if output else str(index) in need

    def is_scratch(self, index: int, count: int) -> bool:
        """Whether input `index` of `count` is working memory (of a merge of lists: the last one)."""
        return str(index) in self.scratch or (self.name == "tmrgsort" and count > 2 and index == count - 1)

    def counts(self) -> tuple[int, int | None]:
        """Fewest and most input operands (None: no limit)."""
        least = sum(not (o.optional or o.repeated) for o in self.ins)
        return least, None if any(o.repeated for o in self.ins) else len(self.ins)

    def input_at(self, index: int) -> Operand | None:
        """What input number `index` must be."""
        if index < len(self.ins):
            return self.ins[index]
        return self.ins[-1] if self.ins and self.ins[-1].repeated else None


def _operands(text: str) -> tuple[Operand, ...]:
    return tuple(Operand(word.rstrip("?*"), word.endswith("?"), word.endswith("*")) for word in text.split())


def _row(
    name: str,
    form: str,
    row_major: str = "",
    *,
    inside: Sequence[str] = (),
    family: str = "other",
    generic: bool = False,
    alike: str = "",
    scratch: str = "",
) -> OpRow:
    ins, _, outs = form.partition("->")
    return OpRow(
        name, _operands(ins), _operands(outs), row_major, frozenset(inside), family, generic, alike, scratch
    )  # fmt: skip


def _family(
    family: str, names: str, form: str, row_major: str = "", *, alike: str = "", scratch: str = ""
) -> Iterator[OpRow]:
    for name in names.split():
        yield _row(name, form, row_major, family=family, alike=alike, scratch=scratch)


def _rows() -> Iterator[OpRow]:
    yield from _family(
        "binary", "tadd tsub tmul tfmod tand tor tshl tshr tmax tmin tdiv", "t t -> t", "all", alike="01o"
    )
    yield from _family("binary", "trem txor", "t t t -> t", "all", alike="012o", scratch="2")
    yield from _family("partial", "tpartadd tpartmul tpartmax tpartmin", "t t -> t", "all", alike="01o")
    yield from _family("unary", "tabs texp tsqrt tnot trelu tlog trecip", "t -> t", "all", alike="0o")
    yield from _family("unary", "tneg tsin tcos", "t -> t", alike="0o")
    yield _row("trsqrt", "t t? -> t", "all", family="unary", alike="0o", scratch="1")
    yield from _family("ternary", "taddc tsubc", "t t t -> t", alike="012o")
    yield from _family("scalar", "tadds tsubs tmuls tdivs tfmods tmaxs tlrelu", "t s -> t", "all", alike="0o")
    yield from _family("scalar", "tmins tands tors tshls tshrs", "t s -> t", alike="0o")
    yield from _family("scalar", "trems txors", "t s t -> t", alike="02o", scratch="2")
    yield from _family("ternary", "taddsc tsubsc", "t s t -> t", "all", alike="02o")
    yield _row("tprelu", "t t t -> t", "all", family="ternary", alike="01o", scratch="2")
    yield from _family(
        "row reduction", "trowsum trowmax trowmin trowprod", "t t -> t", "0", alike="01o", scratch="1"
    )  # fmt: skip
    yield from _family("row reduction", "trowargmax trowargmin", "t t -> t", "0", alike="01", scratch="1")
    yield from _family("column reduction", "tcolmax tcolmin tcolprod", "t -> t", "0", alike="0o")
    yield from _family("column reduction", "tcolargmax tcolargmin", "t t -> t", "0", alike="01", scratch="1")
    yield _row(
        "tcolsum", "t t? -> t", "0", inside=("isBinary",), family="column reduction", alike="01o", scratch="1"
    )  # fmt: skip
    yield from _family(
        "column expansion",
        "tcolexpandmul tcolexpandadd tcolexpanddiv tcolexpandsub tcolexpandmax tcolexpandmin tcolexpandexpdif",
        "t t -> t",
        "0o",
        alike="01o",
    )
    yield from _family(
        "row expansion",
        "trowexpanddiv trowexpandmul trowexpandsub trowexpandmax trowexpandmin trowexpandexpdif trowexpandadd",
        "t t t? -> t",
        "0o",
        alike="01o",
        scratch="2",
    )
    yield _row("tcolexpand", "t -> t", "all", family="fill", alike="0o")
    yield _row("trowexpand", "t -> t", "out", family="fill", alike="0o")
    yield _row("texpands", "s -> t", "out", family="fill")
    yield _row("tci", "s t? -> t", "out", family="fill", scratch="1")
    yield from _family("fill", "tfillpad tfillpad_expand", "t -> t", alike="0o")
    yield _row("ttri", "s -> t", "out", family="fill", generic=True)
    yield _row("trandom", "s s s s s s -> t", "out", family="fill")
    yield _row("tcmp", "t t -> t", "all", inside=("cmpMode",), family="comparison", alike="01")
    yield _row("tcmps", "t s -> t", "all", inside=("cmpMode",), family="comparison")
    yield _row("tsel", "t t t t -> t", "all", family="comparison", alike="12o", scratch="3")
    yield _row("tsels", "t t t s -> t", "all", family="comparison", alike="1o", scratch="2")
    yield _row("tcvt", "t -> t", "all", inside=("rmode",), family="cast")
    yield _row("tmov", "t -> t", family="move")
    yield _row("tmov.fp", "t t -> t", family="move")
    yield _row("ttrans", "t t -> t", family="move", alike="01o", scratch="1")
    yield _row("tconcat", "t t -> t", "all", family="move", alike="01o")
    yield _row("textract", "t s s -> t", family="move")
    yield _row("tinsert", "t s s -> t", family="move")
    yield _row("tload", "p -> t", family="memory")
    yield _row("tstore", "t -> p", family="memory")
    yield _row("tstore.fp", "t t -> p", family="memory")
    yield _row("tsetval", "s s -> t", family="memory")
    yield _row("mscatter", "t t -> p", "01", family="memory", alike="0o")
    yield _row("mgather", "p t p? -> t", family="memory", alike="0o")
    yield from _family("matmul", "tmatmul tgemv", "t t -> t")
    yield from _family("matmul", "tmatmul.acc tmatmul.bias tgemv.acc tgemv.bias", "t t t -> t")
    yield _row("tmatmul.mx", "t t t t -> t", family="matmul")
    yield from _family("matmul", "tmatmul.mx.acc tmatmul.mx.bias", "t t t t t -> t")
    yield _row("tget_scale_addr", "t -> t", family="matmul")
    yield _row("tgather", "t ts? t? -> t t?", inside=("maskPattern", "axis"), family="gather", scratch="2")
    yield _row("tgatherb", "t t -> t", "all", family="gather", alike="0o")
    yield _row("tscatter", "t t? -> t", inside=("maskPattern", "axis"), family="gather", alike="0o")
    yield _row("tsort32", "t t t? -> t", "all", family="sort", alike="0o", scratch="2")
    yield _row("tmrgsort", "t ts t? t? t? -> t v?", "0o", inside=("exhausted",), family="sort", alike="0o")
    yield _row("tprint", "tp ->", family="other")


TABLE: Mapping[str, OpRow] = {row.full_name: row for row in _rows()}
"""Regular ops by full name (`pto.tadd`)."""
