"""Every error case of the language reference: code, place (marked «so») and what the hint says."""
# ruff: noqa: E501 (kernel texts on one line keep the tables readable)

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from pypto_lab.frontend.codes import CODES, explain
from pypto_lab.frontend.kernels import Unresolved
from pypto_lab.frontend.source import program_of
from pypto_lab.ir.diagnostics import LabError, Severity
from tests.frontend.reading import Sample, findings, marked, module_of

CORE = "with pl.at(level=pl.Level.CORE_GROUP):"
A = "pl.Tensor[[16, 64], pl.FP32]"
TILES = f"""
@pl.jit.incore
def k(x: {A}, n: pl.Scalar[pl.INDEX], out: pl.Out[{A}]):
    t = pl.load(x, [0, 0], [16, 64])
    {{}}
    out = pl.store(t, [0, 0], out)
    return out
"""
TENSORS = f"""
@pl.jit
def k(x: {A}, y: {A}, n: pl.Scalar[pl.INDEX], out: pl.Out[{A}]):
    {CORE}
        {{}}
        out[:] = pl.add(x, y)
    return out
"""
PROGRAM = f"""
@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def k(self, x: {A}, o: pl.Out[{A}]) -> {A}:
        t = pl.load(x, [0, 0], [16, 64])
        o_out = pl.store(t, [0, 0], o)
        return o_out

    @pl.function(type=pl.FunctionType.Orchestration)
    def drive(self, x: {A}, flags: pl.Tensor[[4], pl.INT32], o: pl.Out[{A}]) -> {A}:
        {{}}
        o = self.k(x, o)
        return o
"""


def tiles(*lines: str) -> str:
    return TILES.format("\n    ".join(lines))


def tensors(*lines: str) -> str:
    return TENSORS.format("\n        ".join(lines))


def program(*lines: str) -> str:
    return PROGRAM.format("\n        ".join(lines))


@dataclass(frozen=True)
class Row:
    """A wrong text: the row of the reference, the code, the text with its «mark», and words of the hint."""

    row: int
    code: str
    text: str
    hint: str
    arguments: dict[str, Any] | None = None
    also: tuple[str, ...] = ()
    """Words of the labels or the note."""


ROWS = [
    Row(1, "E101", "@pl.jit\ndef k(«x»):\n    return x", "x: pl.Tensor"),
    Row(1, "E101", "@pl.function\ndef k(«x»):\n    return x", "pl.Tensor[[rows, cols], pl.FP32]"),
    Row(2, "E102", "@pl.function\ndef k(x: «([64, 128], pl.FP16)»):\n    return x", "pl.Tensor[[64, 128], pl.FP16]"),
    Row(2, "E102", "@pl.function\ndef k(x: «int»):\n    return x", "pl.Tensor"),
    Row(2, "E102", "@pl.function\ndef k(x: «'pl.Tensr[[4], pl.FP32]'»):\n    return x", "pl.Tensor"),
    Row(3, "E103", "@pl.function\ndef k(x: pl.Tensor[«64», pl.FP32]):\n    return x", "pl.Tensor[[64]"),
    Row(3, "E103", "@pl.function\ndef k(x: «pl.Tensor[[64]]»):\n    return x", "pl.FP32"),
    Row(3, "E103", "@pl.function\ndef k(x: «pl.Tensor»):\n    return x", "pl.Tensor[[rows, cols], pl.FP32]"),
    Row(4, "E201", tiles("u = pl.cast(t, «pl.FP23»)"), "pl.FP32"),
    Row(4, "E201", tiles("u = pl.move(t, target_memory=«pl.Mem.UB»)"), "Vec"),
    Row(5, "E104", "@pl.function\ndef k(x: «pl.InOut[pl.Scalar[pl.INT32]]»):\n    return x", "pl.Scalar[pl.INT32]"),
    Row(5, "E104", f"@pl.function\ndef k(x: «pl.Tuple[{A}, {A}]»):\n    return x", "of its own"),
    Row(5, "E104", f"@pl.function\ndef k(x: {A}, n: pl.Scalar[pl.INT32] = «3»):\n    return x", "at the call"),
    Row(
        6,
        "E105",
        tiles("u: «pl.Tile[[8, 64], pl.FP32]» = pl.abs(t)"),
        "pl.Tile[[16, 64], pl.FP32",
        also=("this gives",),
    ),
    Row(6, "E105", tiles("u: «pl.Tile[[16], pl.FP32]» = pl.abs(t)"), "drop the annotation"),
    Row(7, "E106", tiles("u: «pl.Tile[[16, 64], pl.FP16]» = pl.abs(t)"), "pl.FP32"),
    Row(7, "E106", tiles(f"u: «{A}» = pl.load(x, [0, 0], [16, 64])"), "pl.Tile", also=("pl.load", "pl.store")),
    Row(8, "E202", tiles("u = pl.abs(«tt»)"), "`t`"),
    Row(8, "E202", tiles("for i in pl.range(4):", "    u = pl.abs(t)", "v = pl.add(t, «i»)"), "", also=("made here",)),
    Row(9, "E203", tensors("u = «pl.matmull»(x, y)"), "pl.matmul"),
    Row(9, "E203", tensors("u = «pl.tile.matmull»(x, y)"), "pl.tile.matmul"),
    Row(9, "E203", tiles("u = «pl.tensor.load»(x, [0, 0], [16, 64])"), "pl.tile.load"),
    Row(10, "E310", tiles("u = pl.add(t, «x»)"), "pl.load", also=("a Tile", "a Tensor")),
    Row(11, "E311", tensors("u = «x + y»"), "pl.add(a, b)"),
    Row(11, "E311", tensors("u = «x @ y»"), "pl.matmul(a, b)"),
    Row(12, "E312", tiles("u = «pl.row_sum(t)»"), "pl.create_tile([16, 64], dtype=pl.FP32"),
    Row(12, "E312", tensors("u = pl.row_sum(x, tmp_tile=«y»)"), "leave it out"),
    Row(13, "E313", tiles("u = pl.matmul(t, t, b_trans=«True»)"), "transpose_view"),
    Row(14, "E302", tensors("u = pl.add(x, «pl.reshape(y, [64, 16])»)"), "equal, or 1", also=("[16, 64]", "axis 0")),
    Row(15, "E107", tiles("for i in pl.range(4):", "    «t = i + 1»"), "new name", also=("pl.Tile",)),
    Row(
        16,
        "E204",
        f"@pl.function(strict_ssa=True)\ndef k(x: {A}):\n    t = pl.load(x, [0, 0], [16, 64])\n    «t = pl.abs(t)»\n    return t",
        "t_1",
        also=("assigned here",),
    ),
    Row(
        17,
        "E108",
        tiles(
            "if n > 2:",
            "    u = pl.load(x, [0, 0], [8, 64])",
            "else:",
            "    u = pl.load(x, [0, 0], [16, 64])",
            "v = pl.abs(«u»)",
        ),
        "one type",
        also=("[8, 64]", "[16, 64]"),
    ),
    Row(18, "E010", tiles("for «i» in pl.range(4, init_values=(t,)):", "    u = pl.yield_(t)"), "i, ("),
    Row(
        18,
        "E010",
        tiles("for «i, (a, b)» in pl.range(4, init_values=(t,)):", "    u = pl.yield_(a)"),
        "for i, (a,) in",
        also=("1 values",),
    ),
    Row(
        19, "E011", tiles("for i, (a,) in pl.range(4, init_values=(t,)):", "    «pl.yield_(a)»"), "a_out = pl.yield_(a)"
    ),
    Row(20, "E012", tiles("for i, (a,) in «pl.range(4, init_values=(t,))»:", "    u = pl.abs(a)"), "a_out"),
    Row(
        20,
        "E012",
        tiles("for i, (a,) in pl.range(4, init_values=(t,)):", "    b = «pl.yield_(a)»", "    c = pl.abs(a)"),
        "end",
    ),
    Row(
        20,
        "E012",
        tiles("if n > 2:", "    u = pl.yield_(t)", "else:", "    u, v = «pl.yield_(t, t)»"),
        "",
        also=("1 values", "2 values"),
    ),
    Row(21, "E004", tiles("for i in «range(4)»:", "    u = pl.abs(t)"), "pl.range(4)"),
    Row(21, "E005", tiles("u = «[pl.abs(t) for i in range(4)]»"), "pl.unroll"),
    Row(22, "E001", tiles("i = n + 1", "«i += 1»"), "i = i + 1"),
    Row(22, "E001", tiles("«t *= 2.0»"), "pl.mul(t, 2.0)"),
    Row(22, "E001", tiles("«assert n > 2»"), "pl.static_assert"),
    Row(22, "E001", tiles("«def» f(): pass"), "pl.inline"),
    Row(22, "E001", tiles("«try»:", "    u = t", "except Exception:", "    pass"), "no exceptions"),
    Row(22, "E002", tiles("u = «f'{n}'»"), "pl.static_print"),
    Row(22, "E002", tiles("u = «lambda: 3»"), "pl.inline"),
    Row(23, "E003", tiles("if «1 < n < 3»:", "    u = t"), "1 < n and n < 3"),
    Row(23, "E003", tiles("i = «n ** 2»"), "// %"),
    Row(23, "E003", tiles("i = «n & 2»"), "// %"),
    Row(24, "E109", tiles("if «n»:", "    u = t"), "n != 0"),
    Row(24, "E109", tiles("while «1»:", "    u = t"), "i < n"),
    Row(
        24,
        "E109",
        tiles("for (i,) in pl.while_(init_values=(0,)):", "    pl.cond(«1»)", "    j = pl.yield_(i + 1)"),
        "!= 0",
    ),
    Row(
        25,
        "E013",
        tiles("for (i,) in «pl.while_()»:", "    pl.cond(i < n)", "    j = pl.yield_(i + 1)"),
        "init_values=(x0,)",
    ),
    Row(
        25,
        "E013",
        tiles("for (i,) in pl.while_(init_values=(0,)):", "    «u = pl.abs(t)»", "    j = pl.yield_(i + 1)"),
        "pl.cond(x < n)",
    ),
    Row(26, "E014", tiles("for i in pl.unroll(«n»):", "    u = t"), "pl.range", also=("run time",)),
    Row(26, "E014", tiles("for i in pl.range(0, 4, «0»):", "    u = t"), "at least 1"),
    Row(27, "E015", tiles("for i in «pl.pipeline(4)»:", "    u = t"), "stage=2"),
    Row(27, "E015", tiles("for i in pl.range(4, stage=«2»):", "    u = t"), "pl.pipeline"),
    Row(28, "E016", tiles("for i in pl.parallel(4):", "    «break»"), "pl.range", also=("loop around it",)),
    Row(28, "E016", tiles("for i in pl.unroll(4):", "    «continue»"), "pl.range"),
    Row(29, "E320", tensors("u = x[«0, 0, 0»]"), "at most 2"),
    Row(29, "E320", tensors("u = x[«0:8:2», :]"), "every element"),
    Row(29, "E320", tiles("u = t[«n:n + 4», :]"), "pl.slice"),
    Row(29, "E320", tensors("u = x[0, «64»]"), "0 to 63"),
    Row(29, "E320", tensors("u = x[«-1», 0]"), "from the start"),
    Row(30, "E321", tensors("s = x[0, 0]", "«out[0, 1]» = s"), "pl.write(out, [0, 1], s)"),
    Row(31, "E322", tensors("«out[0:8, :]» = x"), "extents", also=("[16, 64]",)),
    Row(
        32,
        "W001",
        f"@pl.jit\ndef k(x: {A}, out: pl.Out[{A}]):\n    {CORE}\n        «out = pl.add(x, x)»\n    return out",
        "out[:] = ...",
    ),
    Row(33, "W002", tensors("u = «pl.add(out, x)»"), "pl.InOut"),
    Row(33, "W003", tensors("x[:] = y").replace("x[:] = y", "«x[:]» = y"), "pl.InOut"),
    Row(34, "E330", program("o = «self.k(x)»"), "k(x: pl.Tensor", also=("missing: o", "defined here")),
    Row(34, "E331", program("o = «self.kk»(x, o)"), "`k`"),
    Row(35, "E332", program("o = self.k(x, o, deps=«[]»)"), "pl.submit(self.k"),
    Row(35, "E332", program("o = self.k(x, o, core_num=«4»)"), "pl.spmd_submit(self.k"),
    Row(36, "E333", program("«pl.submit(self.k, x, o)»"), "result, tid ="),
    Row(36, "E333", program("p, tid = pl.submit(«x», x, o)"), "self.k"),
    Row(36, "E333", program("«p, q, tid» = pl.submit(self.k, x, o)"), "TASK_ID"),
    Row(36, "E333", program("p, tid = «pl.spmd_submit(self.k, x, o)»"), "core_num=8"),
    Row(
        37, "E334", program("p, t1 = pl.submit(self.k, x, o)", "q, t2 = pl.submit(self.k, x, p, deps=[t1, «x»])"), "tid"
    ),
    Row(
        37,
        "E334",
        program("ids = pl.array.create(2, pl.TASK_ID)", "p, t1 = pl.submit(self.k, x, o, deps=[ids[0], «ids»])"),
        "elements",
    ),
    Row(38, "E335", program("p, t1 = pl.submit(self.k, x, o, predicate=«flags[0] + 1»)"), "flags[0] > 0"),
    Row(38, "E335", program("p, t1 = pl.submit(self.k, x, o, predicate=(«x[0, 0] > 0.5»))"), "flags[0] > 0"),
    Row(
        39,
        "E017",
        "@pl.jit\ndef k(x: pl.Tensor[[4], pl.FP32]):\n    with «pl.at()»:\n        y = pl.abs(x)\n    return x",
        "level=pl.Level.CORE_GROUP",
    ),
    Row(
        39,
        "E017",
        "@pl.jit\ndef k(x: pl.Tensor[[4], pl.FP32]):\n    with pl.at(level=pl.Level.CORE_GROUP, role=«pl.Role.SubWorker»):\n        y = pl.abs(x)\n    return x",
        "leave",
    ),
    Row(
        39,
        "E017",
        "OPT = []\n@pl.jit\ndef k(x: pl.Tensor[[4], pl.FP32]):\n    with pl.at(level=pl.Level.CORE_GROUP, optimizations=«OPT»):\n        y = pl.abs(x)\n    return x",
        "pl.split",
    ),
    Row(
        39,
        "E017",
        "@pl.jit\ndef k(x: pl.Tensor[[4], pl.FP32]):\n    with pl.at(level=pl.Level.CHIP, optimizations=[«pl.split(pl.SplitMode.UP_DOWN)»]):\n        y = pl.abs(x)\n    return x",
        "CORE_GROUP",
    ),
    Row(
        39,
        "E017",
        "@pl.jit\ndef k(x: pl.Tensor[[4], pl.FP32]):\n    with pl.at(level=pl.Level.CORE_GROUP, name_hint=«'a b'»):\n        y = pl.abs(x)\n    return x",
        "softmax_rows",
    ),
    Row(
        40,
        "E018",
        program("with «pl.spmd(4)»:", "    o = self.k(x, o)", "    o = self.k(x, o)"),
        "of its own",
        also=("a dispatch",),
    ),
    Row(
        40,
        "E018",
        f"@pl.jit\ndef k(x: {A}, out: pl.Out[{A}]):\n    with «pl.spmd(4)»:\n        out[:] = pl.add(x, x)\n    return out",
        "block index",
    ),
    Row(
        41,
        "E019",
        program("with pl.manual_scope():", "    with «pl.manual_scope()»:", "        o = self.k(x, o)"),
        "leave",
        also=("scope around it",),
    ),
    Row(41, "E019", program("with «pl.scope()»:", "    o = self.k(x, o)"), "auto_scope=False"),
    Row(
        42,
        "E020",
        tensors("for lane in pl.split_aiv(«3», mode=pl.SplitMode.UP_DOWN):", "    u = pl.abs(x)"),
        "pl.split_aiv(2",
    ),
    Row(42, "E020", tensors("for lane in «pl.split_aiv(2)»:", "    u = pl.abs(x)"), "mode=pl.SplitMode"),
    Row(
        42,
        "E020",
        tensors(
            "for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):",
            "    for l2 in «pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN)»:",
            "        u = pl.abs(x)",
        ),
        "one of the two",
    ),
    Row(
        43,
        "E340",
        f"@pl.jit\ndef k(x: {A}, out: pl.Out[{A}]):\n    y = «pl.add(x, x)»\n    return out",
        "pl.at(level=pl.Level.CORE_GROUP)",
    ),
    Row(44, "E111", tiles('u: «pl.Tile[[16, 64], pl.FP32, pl.MemRef("buf")]» = pl.abs(t)'), "pl.Mem.Vec"),
    Row(
        44,
        "E111",
        tiles('u: «pl.Tile[[16, 64], pl.FP32, pl.MemRef("buf", slots=2)[2], pl.Mem.Vec]» = pl.abs(t)'),
        "0 to 1",
    ),
    Row(
        44,
        "E111",
        tiles('u: «pl.Tile[[16, 64], pl.FP32, pl.MemRef("buf", pl.const(0, pl.INT64), 100), pl.Mem.Vec]» = pl.abs(t)'),
        "4096 bytes",
    ),
    Row(45, "E341", tiles("u = «pl.create_tile([1024, 1024], dtype=pl.FP32, target_memory=pl.Mem.Vec)»"), "blocks"),
    Row(46, "E342", program("b = «pld.alloc_window_buffer([8], dtype=pl.FP32)»"), "HOST"),
    Row(
        46,
        "E342",
        '@pl.jit.host\ndef k(x: pl.Tensor[[4], pl.FP32]):\n    b = pld.alloc_window_buffer([8], dtype=pl.FP32, name=«"b"»)\n    return x',
        "variable",
    ),
    Row(
        47,
        "E336",
        '@pl.jit.extern(core_type="aiv", source="k.cpp")\ndef k(x: pl.Tensor[[4], pl.FP32]):\n    «y = x»',
        "...",
    ),
    Row(47, "E336", "@pl.inline\ndef f(a):\n    b = pl.abs(a)\n" + tiles("u = «f(t)»"), "return"),
    Row(47, "E336", "@pl.inline\ndef f(a):\n    return pl.abs(a)\n" + tiles("u = f(a=«t»)"), "f(a)"),
    Row(48, "E205", "TABLE = {'a': 1}\n" + tiles("u = pl.mul(t, «TABLE»)"), "ints, floats"),
    Row(48, "E205", "import numpy\nROWS = numpy.zeros(4)\n" + tiles("u = pl.mul(t, «ROWS»)"), "parameters"),
    Row(49, "E120", "@pl.jit\ndef k(«x: pl.Tensor»):\n    return x", "pl.Tensor[[rows, cols], pl.FP32]"),
    Row(
        49,
        "E121",
        "@pl.jit\ndef k(x: pl.Tensor, «n: pl.Scalar[pl.INT32]»):\n    return x",
        "value for `n`",
        {"x": Sample((4, 4))},
    ),
    Row(
        49,
        "E122",
        "@pl.jit\ndef k(x: «pl.Tensor[[4, 4], pl.FP32, pl.TensorView(layout=pl.TensorLayout.DN)]»):\n    return x",
        "plain tensors",
    ),
    Row(49, "E123", f"@pl.jit\ndef k(«x: {A}»):\n    return x", "annotation", {"x": Sample((16, 64), "torch.float16")}),
    Row(49, "E123", f"@pl.jit\ndef k(«x: {A}»):\n    return x", "pl.Tensor[[16, 64]", {"x": Sample((8, 64))}),
    Row(
        50,
        "E124",
        "@pl.jit.inline\ndef f(«a: pl.Tensor»):\n    return a\n@pl.jit\ndef k(x: pl.Tensor[[4], pl.FP32]):\n    y = f(3)\n    return x",
        "pl.Tensor[[rows, cols]",
    ),
    Row(
        51,
        "E125",
        'M = pl.dynamic("M")\n@pl.jit\ndef k(x: pl.Tensor[[M, 4], pl.FP32], «y: pl.Tensor[[M, 4], pl.FP32]»):\n    return x',
        "another pl.dynamic",
        {"x": Sample((8, 4)), "y": Sample((9, 4))},
        also=("here it is 8",),
    ),
    Row(0, "E207", "later = None\n" + tiles("«later»(t)"), "before the kernel is read", also=("it is None",)),
    Row(0, "E021", "ROWS = 20\n" + tiles('pl.static_assert(«ROWS % 16 == 0», "rows")'), "", also=("ROWS = 20",)),
    Row(0, "E206", tiles("u = t.«abs»()").replace("t.«abs»", "«t.abs»"), "pl.abs"),
    Row(0, "E206", tiles("i = «max»(n, 2)"), "pl.max(a, b)"),
    Row(0, "E022", tiles("for i in pl.range(4, chunk=«2»):", "    u = t"), "removed"),
    Row(0, "E110", tiles("i = «n» * 1.5"), "pl.cast"),
    Row(0, "E314", tiles("u = «pl.load(x, [0, 0])»"), "shapes"),
    Row(0, "E315", tiles("u = pl.load(x, «0», [16, 64])"), ""),
    Row(0, "E315", tiles("u = pl.cast(t, pl.FP16, mode=«'ronud'»)"), "round"),
    Row(0, "E006", tiles("«t.x» = t"), "plain name"),
    Row(
        0, "E112", "@pl.function(type=pl.FunctionType.AIV)\ndef k():\n    «t = pl.tpop_from_aic(split=0)»", "t: pl.Tile"
    ),
    Row(
        0,
        "W005",
        "@pl.jit\ndef k(x: pl.Tensor[[4, 4], pl.FP32]):\n    with «pl.incore()»:\n        y = pl.abs(x)\n    return x",
        "pl.at",
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"row{r.row}-{r.code}")
def test_finding(row: Row) -> None:
    text, line, column, end_line, end_column = marked(row.text)
    found = findings(text, row.arguments)
    codes = [d.code for d in found if d.severity is not Severity.NOTE]
    assert codes, "nothing is reported"
    hits = [d for d in found if d.code == row.code]
    assert hits, f"reported {codes}: {found[0].message}"
    first = hits[0]
    assert first.span is not None
    place = (first.span.line, first.span.column, first.span.end_line, first.span.end_column)
    assert place == (line, column, end_line, end_column), first.message
    assert row.hint in (first.hint or ""), first.hint
    told = " ".join([*(label.text for label in first.labels), first.note or "", first.message])
    assert all(words in told for words in row.also), told


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"row{r.row}-{r.code}")
def test_one_mistake_is_one_finding(row: Row) -> None:
    """No cascades: the use of a value whose statement failed is not reported again."""
    text, *_ = marked(row.text)
    found = findings(text, row.arguments)
    serious = {d.code for d in found if d.severity is Severity.ERROR}
    assert serious <= {row.code}, [(d.code, d.message) for d in found]


def test_every_row_of_the_reference_has_a_case() -> None:
    rows = {r.row for r in ROWS if r.hint}
    assert set(range(1, 52)) <= rows  # row 52 is the dump reader's, in test_dump.py


@pytest.mark.parametrize(
    "line", ["u = pl.load(x, [0, 0], [zz, 64])", "u = pl.tile.full([16, zz], value=0.0, dtype=pl.FP32)"]
)
def test_a_mistake_in_a_list_is_reported_once(line: str) -> None:
    found = findings(tiles(line, "v = pl.abs(u)"))
    assert [d.code for d in found] == ["E202"]


def test_a_name_without_a_value_is_told_once_and_the_rest_is_read() -> None:
    module = module_of(
        "ROWS = 16\n" + tiles("u = pl.tile.full([ROWS, ROWS * 2], value=0.0, dtype=pl.FP32)", "v = pl.abs(zz)")
    )
    module.__dict__["ROWS"] = Unresolved("ROWS", "line 1 stopped")
    with pytest.raises(LabError) as caught:
        program_of(module.__dict__["k"])
    assert [(d.code, d.note) for d in caught.value.diagnostics] == [("E207", "line 1 stopped"), ("E202", None)]


def test_every_code_is_registered_and_explained() -> None:
    for row in ROWS:
        assert row.code in CODES, row.code
        text = explain(row.code)
        assert text is not None
        assert "write" in text
    assert explain("e101") == explain("E101")
    assert explain("E999") is None


def test_right_ways_to_write_an_output_are_no_warnings() -> None:
    text = f"""
@pl.jit.incore
def part(x: {A}, rows: pl.Tensor[[8, 64], pl.FP32], o: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
    t = pl.load(rows, [0, 0], [8, 64])
    pl.store(t, [0, 0], o)
    return o

@pl.jit
def k(x: {A}, w: pld.DistributedTensor[[16, 64], pl.FP32], a: pl.Out[{A}], b: pl.Out[{A}], c: pl.Out[{A}], d: pl.Out[{A}]):
    part(x, x[0:8, :], a[0:8, :])
    {CORE}
        b[:] = x
        c = pl.assemble(c, x, [0, 0])
        for i in pl.range(2):
            d[i * 8 : i * 8 + 8, :] = x[i * 8 : i * 8 + 8, :]
    return a, b, c, d
"""
    assert [d.message for d in findings(text)] == []


def test_all_mistakes_of_a_kernel_are_reported_in_one_run() -> None:
    text = tiles("a = pl.abss(t)", "b = pl.add(a, zz)", "c = a + b", "d = n ** 2", "if n:", "    e = pl.abs(q)")
    found = [d for d in findings(text) if d.severity is Severity.ERROR]
    assert [d.code for d in found] == ["E203", "E202", "E003", "E109", "E202"]
    assert [d.span.line for d in found if d.span] == [6, 7, 9, 10, 11]


def test_columns_count_characters_not_bytes() -> None:
    text, line, column, _, end_column = marked(tiles("s = 1  # 一二三", 'pl.static_print("宽度", «zz»)'))
    found = [d for d in findings(text) if d.code == "E202"]
    assert found[0].span is not None
    assert (found[0].span.line, found[0].span.column, found[0].span.end_column) == (line, column, end_column)


def test_rendering_underlines_the_place() -> None:
    text = tiles("u = pl.abs(tt)")
    from pypto_lab.ir.diagnostics import LabError
    from tests.frontend.reading import read

    with pytest.raises(LabError) as caught:
        read(text)
    shown = str(caught.value)
    assert "error[E202]: `tt` is not defined" in shown
    assert "    u = pl.abs(tt)" in shown
    assert "               ^^" in shown
    assert "help: did you mean `t`?" in shown
