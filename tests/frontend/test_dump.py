"""Reading dumps: byte identity, layouts, eras, symbols, spans, recovery."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_lab.frontend.dump import Tally, dump_files, main, read_dump
from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import LabError, Severity
from pypto_lab.ir.enums import Direction, ForKind, FunctionType, MemorySpace, SplitMode
from pypto_lab.ir.equal import first_difference
from pypto_lab.ir.printer import print_program
from pypto_lab.ir.types import ArrayType, ScalarType, TensorType, TileType, TupleType
from pypto_lab.ir.visitor import walk

DUMPS = Path(__file__).parent.parent / "data" / "dumps"
FILES = dump_files([DUMPS])
HEAD = "# pypto.program: P\nimport pypto.language as pl\n\n@pl.program\nclass P:\n"
KERNEL = (
    HEAD
    + "    @pl.function(type=pl.FunctionType.InCore)\n"
    + "    def f(x: pl.Tensor[[4, 8], pl.FP32], n: pl.Scalar[pl.INDEX]):\n"
)


def body(*lines: str) -> str:
    """A dump of one function with these body lines."""
    return KERNEL + "".join(f"        {line}\n" for line in lines)


def errors(text: str) -> list[str]:
    with pytest.raises(LabError) as caught:
        read_dump(text)
    return [d.code for d in caught.value.diagnostics]


def notes(program: n.Program) -> set[str]:
    return {d.code for d in program.notes}


def of_type(program: n.Program, kind: type) -> list:
    return [node for node in walk(program) if isinstance(node, kind)]


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.parent.name}/{p.stem}")
def test_dumps_print_as_they_were(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    program = read_dump(text, str(path))
    printed = print_program(program)
    if "__FREE_VAR" in text:  # the marker is resolved to the value it stands for
        printed_lines, lines = printed.split("\n"), re.sub(r"_1__FREE_VAR", "", text).split("\n")
        assert printed_lines == lines
        assert "N306" in notes(program)
    else:
        assert printed == text
    again = read_dump(printed)
    assert print_program(again) == printed
    assert first_difference(program, again) is None


def test_there_are_dumps_of_every_kind() -> None:
    assert len(FILES) > 200
    kinds = {f.func_type for p in FILES[::5] for f in read_dump(p.read_text(encoding="utf-8")).functions.values()}
    assert {FunctionType.AIC, FunctionType.AIV, FunctionType.Group, FunctionType.Orchestration} <= kinds


def test_tour_of_all_forms_is_byte_identical() -> None:
    text = (DUMPS / "tour.py").read_text(encoding="utf-8")
    program = read_dump(text)
    assert print_program(program) == text
    kernel = program.functions["kernel"]
    assert kernel.docstring == "A docstring."
    assert kernel.attrs["split"] is SplitMode.UP_DOWN
    assert kernel.attrs["spaces"] == (MemorySpace.Vec, dtypes.FP32)
    assert {"N301", "N303"} <= notes(program)
    assert all(d.severity is Severity.NOTE for d in program.notes)
    assert program.functions["outside"].body is None
    assert program.functions["outside"].external_source == "vec.cpp"
    assert program.functions["nothing"].body == ()
    host = program.functions["host"].body
    assert host is not None
    assert isinstance(host[0], n.InlineText)
    assert host[0].text.split("\n")[2] == "    x += 1  # verbatim"
    pipeline = next(s for s in of_type(program, n.For) if s.kind is ForKind.Pipeline)
    assert pipeline.attrs == {"pipeline_stages": 2, "pipeline_overlap_stores": True}
    plain, spmd = of_type(program, n.Submit)
    assert plain.core_num is None
    assert plain.allow_early_resolve
    assert isinstance(plain.predicate, n.Binary)
    assert isinstance(spmd.core_num, n.Binary)
    assert spmd.sync_start


ROW_52 = [
    ("N301", "b: pl.Tile[[4, 8], pl.FP32] = «pl.tile.exq(x)»", "`tile.exp`"),
    ("N301", "b: pl.Tile[[4, 8], pl.FP32] = «pl.tile.zzzzzzz(x)»", "kept and printed again"),
    ("N302", "b: pl.Tile[[4, 8], pl.FP32] = «pl.tile.move(x, target_memry=1)»", "target_memory"),
    ("N303", '«pl.func_attr({"newer": 1})»', "kept and printed again"),
    ("N306", "b: pl.Scalar[pl.INDEX] = «lost__FREE_VAR» + 1", "definition"),
    ("N308", "b: pl.Tile[[4, «K»], pl.FP32] = pl.tile.exp(x)", 'K = pl.dynamic("K")'),
]


@pytest.mark.parametrize(("code", "line", "hint"), ROW_52, ids=[f"row52-{r[0]}" for r in ROW_52])
def test_what_a_dump_holds_beyond_the_language_is_a_note(code: str, line: str, hint: str) -> None:
    """Row 52 of the error cases: code, place, hint, at the level of a note; reading goes on and nothing is lost."""
    plain = line.replace("«", "").replace("»", "")
    text = body(plain, "c: pl.Scalar[pl.INDEX] = n + 1")
    program = read_dump(text)
    (note,) = [d for d in program.notes if d.code == code]
    assert note.severity is Severity.NOTE
    assert note.span is not None
    start = line.index("«")
    end = line.index("»") - 1
    row = text.split("\n").index("        " + plain) + 1
    assert (note.span.line, note.span.column, note.span.end_column) == (row, start + 9, end + 9)
    assert hint in (note.hint or "")
    printed = print_program(program)
    assert plain in printed
    assert "c: pl.Scalar[pl.INDEX] = n + 1" in printed


def test_wrapped_layout_reads_as_the_raw_one() -> None:
    for path in FILES[::25]:
        text = path.read_text(encoding="utf-8")
        wrapped = re.sub(r"'(\w+)'", r'"\1"', text)
        wrapped = "\n".join(re.sub(r"(?<=[\])\w\"]), ", ",\n   ", r) if "[[" in r else r for r in wrapped.split("\n"))
        wrapped = wrapped.replace("@pl.program", "\n@pl.program").replace("    @pl.function", "\n    @pl.function")
        wrapped = re.sub(r"^( +)return (\w+, \w+.*)$", r"\1return (\n\1    \2,\n\1)", wrapped, flags=re.MULTILINE)
        wrapped = re.sub(r"^    for i, ", "    for i, ", wrapped, flags=re.MULTILINE)
        assert wrapped != text
        assert print_program(read_dump(wrapped)) == print_program(read_dump(text))


def test_xor_is_an_operator_only_where_it_is_one() -> None:
    text = body(
        "a: pl.Scalar[pl.BOOL] = n < 1 and n < 2 xor n < 3 or (n < 4 xor n < 5)  # this xor that",
        "b: pl.Tile[[4, 8], pl.FP32] = pl.tile.xor(x, x, name=' xor ')",
    )
    a, b = read_dump(text).functions["f"].body or ()
    assert isinstance(a, n.Assign)
    value = a.value
    assert isinstance(value, n.Binary)
    assert isinstance(value.left, n.Binary)
    assert isinstance(value.left.left, n.Binary)
    assert isinstance(value.right, n.Binary)
    assert [value.op, value.left.op, value.left.left.op, value.right.op] == ["Or", "Xor", "And", "Xor"]
    assert isinstance(b, n.Assign)
    assert isinstance(b.value, n.OpCall)
    assert (b.value.op, b.value.kwargs["name"]) == ("tile.xor", " xor ")
    printed = print_program(read_dump(text))
    assert "n < 1 and n < 2 xor n < 3 or n < 4 xor n < 5\n" in printed


def test_old_era_is_read_and_noted() -> None:
    text = HEAD + (
        "    @pl.function(type=pl.FunctionType.InCore)\n"
        "    def f(self, x: pl.Tensor[[16, 64], pl.BFLOAT16], y: pl.FP32):\n"
        "        with pl.auto_incore():\n"
        "            for i in pl.parallel(0, 16, 1, chunk=4):\n"
        "                t: pl.Tile[[16, 64], pl.BFLOAT16, pl.MemRef(pl.MemorySpace.Vec, 128, 2048, 7)] = "
        "pl.load(x, [0])\n"
    )
    program = read_dump(text)
    assert {"N304", "N305", "N307"} <= notes(program)
    function = program.functions["f"]
    assert isinstance(function.params[0].type, TensorType)
    assert function.params[0].type.dtype is dtypes.BF16
    assert isinstance(function.params[1].type, ScalarType)
    tile = of_type(program, n.Assign)[0].var.type
    assert isinstance(tile, TileType)
    assert tile.memref is not None
    assert tile.memref.legacy == (MemorySpace.Vec, 128, 2048, 7)
    assert of_type(program, n.For)[0].attrs == {"chunk": 4}
    printed = print_program(program)
    assert "pl.BF16" in printed
    assert "pl.MemRef(pl.Mem.Vec, 128, 2048, 7)" in printed
    assert print_program(read_dump(printed)) == printed


class TestSymbols:
    def test_declared_dimension_is_one_variable_in_the_program(self) -> None:
        text = HEAD.replace("@pl.program", 'M = pl.dynamic("M")\n\n@pl.program') + (
            "    @pl.function\n    def f(self, x: pl.Tensor[[M], pl.FP32]):\n        pass\n"
            "    @pl.function\n    def g(self, y: pl.Tensor[[M, 2], pl.FP32]):\n        self.f(y)\n"
        )
        program = read_dump(text)
        dims = [f.params[0].type.shape[0] for f in program.functions.values()]  # type: ignore[attr-defined]
        assert dims[0] is dims[1] is program.symbols["M"]
        assert program.declared_symbols == ("M",)
        assert print_program(program) == text

    def test_scalar_parameter_that_comes_later_is_the_dimension(self) -> None:
        text = HEAD + (
            "    @pl.function\n"
            "    def f(self, x: pl.Tensor[[rows, 8], pl.FP32], rows: pl.Scalar[pl.INDEX]):\n        pass\n"
        )
        function = read_dump(text).functions["f"]
        assert function.params[0].type.shape[0] is function.params[1].var  # type: ignore[attr-defined]
        assert print_program(read_dump(text)) == text

    def test_declared_dimension_is_the_scalar_parameter_of_its_name(self) -> None:
        text = HEAD.replace("@pl.program", 'M = pl.dynamic("M")\n\n@pl.program') + (
            "    @pl.function\n    def f(self, M: pl.Scalar[pl.INDEX], x: pl.Tensor[[M], pl.FP32]):\n        pass\n"
        )
        program = read_dump(text)
        function = program.functions["f"]
        assert function.params[0].var is program.symbols["M"]
        assert function.params[1].type.shape[0] is program.symbols["M"]  # type: ignore[attr-defined]
        assert print_program(program) == text

    def test_local_definition_wins_over_a_declaration(self) -> None:
        text = body(
            "n_v: pl.Scalar[pl.INDEX] = n + 1",
            "t: pl.Tile[[4, 8], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[4, n_v])] = "
            "pl.tile.load(x, [0, 0], [4, 8], [4, n_v], target_memory=pl.Mem.Vec)",
        ).replace("@pl.program", 'n_v = pl.dynamic("n_v")\n\n@pl.program')
        program = read_dump(text)
        local, tile = program.functions["f"].body or ()
        assert isinstance(local, n.Assign)
        assert isinstance(tile, n.Assign)
        assert isinstance(tile.var.type, TileType)
        assert tile.var.type.valid_shape[1] is local.var
        assert local.var is not program.symbols["n_v"]
        assert print_program(program) == text

    def test_undeclared_dimension_is_made_noted_and_declared(self) -> None:
        text = HEAD + "    @pl.function\n    def f(self, x: pl.Tensor[[K], pl.FP32]):\n        pass\n"
        program = read_dump(text)
        assert "N308" in notes(program)
        printed = print_program(program)
        assert 'K = pl.dynamic("K")' in printed
        assert print_program(read_dump(printed)) == printed


class TestNames:
    def test_reassignment_before_ssa_keeps_the_variable(self) -> None:
        text = body("a: pl.Scalar[pl.INDEX] = 1", "for i in pl.range(3):", "    a: pl.Scalar[pl.INDEX] = a + i")
        first, loop = read_dump(text).functions["f"].body or ()
        assert isinstance(first, n.Assign)
        assert isinstance(loop, n.For)
        assert isinstance(loop.body[0], n.Assign)
        assert loop.body[0].var is first.var

    def test_another_type_makes_another_variable_with_another_printed_name(self) -> None:
        text = body("a: pl.Scalar[pl.INDEX] = 1", "a: pl.Scalar[pl.FP32] = 1.0", "b: pl.Scalar[pl.FP32] = a")
        program = read_dump(text)
        printed = print_program(program)
        assert "a_1: pl.Scalar[pl.FP32] = 1.0" in printed
        assert "b: pl.Scalar[pl.FP32] = a_1" in printed
        assert first_difference(program, read_dump(printed)) is None

    def test_block_with_results_keeps_its_names_to_itself(self) -> None:
        text = body(
            "for i, (c,) in pl.range(3, init_values=(n,)):",
            "    d: pl.Scalar[pl.INDEX] = c + 1",
            "    r: pl.Scalar[pl.INDEX] = pl.yield_(d)",
            "e: pl.Scalar[pl.INDEX] = d + r",
        )
        program = read_dump(text)
        assert "N309" in notes(program)

    def test_free_variable_marker_without_a_definition_stays(self) -> None:
        text = body("a: pl.Scalar[pl.INDEX] = lost__FREE_VAR + lost__FREE_VAR")
        program = read_dump(text)
        assert "N306" in notes(program)
        assert print_program(program) == text


def test_loop_with_a_bare_yield_gets_results() -> None:
    text = body(
        "for i, (c,) in pl.range(3, init_values=(n,)):", "    pl.yield_(c + 1)", "d: pl.Scalar[pl.INDEX] = c_out"
    )
    loop = (read_dump(text).functions["f"].body or ())[0]
    assert isinstance(loop, n.For)
    assert [v.name for v in loop.return_vars] == ["c_out"]
    assert "c_out: pl.Scalar[pl.INDEX] = pl.yield_(c + 1)" in print_program(read_dump(text))


def test_tuple_targets_become_items_of_a_temporary() -> None:
    text = HEAD + (
        "    @pl.function\n"
        "    def two(self, a: pl.Scalar[pl.INDEX]) -> tuple[pl.Scalar[pl.INDEX], pl.Scalar[pl.FP32]]:\n"
        "        return a, 1.0\n"
        "    @pl.function\n    def f(self, a: pl.Scalar[pl.INDEX]):\n"
        "        x, y = self.two(a)\n        z: pl.Scalar[pl.FP32] = y\n"
    )
    program = read_dump(text)
    call, x, y, _ = program.functions["f"].body or ()
    assert isinstance(call, n.Assign)
    assert isinstance(call.var.type, TupleType)
    assert isinstance(x, n.Assign)
    assert isinstance(y, n.Assign)
    assert isinstance(y.var.type, ScalarType)
    assert y.var.type.dtype is dtypes.FP32
    printed = print_program(program)
    assert print_program(read_dump(printed)) == printed


def test_array_elements_are_read_and_updated() -> None:
    text = body(
        "ids: pl.Array[4, pl.INT32] = pl.array.create(4, dtype=pl.INT32)",
        "ids[n] = pl.const(2, pl.INT32)",
        "v: pl.Scalar[pl.INT32] = ids[n]",
    )
    create, update, read = read_dump(text).functions["f"].body or ()
    assert isinstance(create, n.Assign)
    assert isinstance(create.var.type, ArrayType)
    assert isinstance(update, n.Assign)
    assert update.var is create.var
    assert isinstance(update.value, n.OpCall)
    assert update.value.op == "array.update_element"
    assert isinstance(read, n.Assign)
    assert isinstance(read.value, n.OpCall)
    assert read.value.op == "array.get_element"


def test_directions_and_keyword_arguments() -> None:
    program = read_dump((DUMPS / "tour.py").read_text(encoding="utf-8"))
    assert [p.direction for p in program.functions["kernel"].params] == [Direction.In, Direction.Out, Direction.In]
    calls = {c.op: c for c in of_type(program, n.OpCall)}
    assert [type(a) for a in calls["tile.full"].args] == [n.MakeTuple, n.ConstFloat]
    assert calls["tile.full"].kwargs == {"dtype": dtypes.FP32}
    assert calls["tile.alloc"].kwargs == {"memory_space": MemorySpace.Vec, "size": 4096, "pinned": True}
    assert isinstance(calls["tile.ci"].kwargs["tmp"], n.Var)
    assert calls["tile.load"].kwargs == {"target_memory": MemorySpace.Vec}
    assert calls["tile.and"].args


class TestSpans:
    def test_columns_count_characters_also_behind_wide_ones(self) -> None:
        text = body("# 中文注释", "a: pl.Tile[[4, 8], pl.FP32] = pl.tile.foo(x, name='中文字', key=n)  # 尾注")
        program = read_dump(text, "dump.py")
        (assign,) = program.functions["f"].body or ()
        assert isinstance(assign, n.Assign)
        assert assign.leading_comments == ("中文注释",)
        assert isinstance(assign.value, n.OpCall)
        use = assign.value.args[0]
        call, row = assign.value.span, text.split("\n")[8]
        assert call is not None
        assert row[call.column - 1 : call.end_column - 1] == "pl.tile.foo(x, name='中文字', key=n)"
        assert call.line == 9
        assert call.file == "dump.py"
        assert use is program.functions["f"].params[0].var

    def test_error_behind_wide_characters_is_placed_in_characters(self) -> None:
        text = body("a: pl.Scalar[pl.INDEX] = pl.foo('中文字', missing)")
        with pytest.raises(LabError) as caught:
            read_dump(text)
        (finding,) = caught.value.diagnostics
        assert finding.span is not None
        row = text.split("\n")[finding.span.line - 1]
        assert row[finding.span.column - 1 : finding.span.end_column - 1] == "missing"

    def test_every_statement_and_expression_has_a_span(self) -> None:
        for path in FILES[::20]:
            text = path.read_text(encoding="utf-8")
            rows = text.split("\n")
            for node in walk(read_dump(text)):
                if isinstance(node, (n.Expr, n.Stmt, n.Function, n.Param)):
                    assert node.span is not None
                    assert 1 <= node.span.line <= len(rows)
                    assert 1 <= node.span.column <= len(rows[node.span.line - 1]) + 1
                if isinstance(node, n.Var) and node.span is not None:
                    found = rows[node.span.line - 1][node.span.column - 1 :]
                    assert found.startswith(node.name)


class TestErrors:
    def test_every_bad_statement_is_reported_once(self) -> None:
        text = body(
            "a: pl.Scalar[pl.INDEX] = missing + 1",
            "b: pl.Scalar[pl.INDEX] = a + 1",
            "c += 1",
            "d: pl.Tensr[[4], pl.FP32] = pl.tensor.create([4])",
            "for i in range(3):",
            "    e: pl.Scalar[pl.INDEX] = i",
            "g: pl.Scalar[pl.INDEX] = e",
            "self.other(x)",
        )
        assert errors(text) == ["E731", "E710", "E721", "E710", "E732"]

    def test_hints_name_near_spellings(self) -> None:
        with pytest.raises(LabError) as caught:
            read_dump(body("a: pl.Scalar[pl.INDEX] = m + 1", "b: pl.Scalar[pl.INDEX] = aa + 1"))
        assert "did you mean `a`" in str(caught.value)

    def test_several_syntax_errors_are_all_reported(self) -> None:
        text = body("a: pl.Scalar[pl.INDEX] = (n + 1", "b: pl.Scalar[pl.INDEX] = n", "c = = 2")
        with pytest.raises(LabError) as caught:
            read_dump(text)
        assert [(d.code, d.span and d.span.line) for d in caught.value.diagnostics] == [("E701", 8), ("E701", 10)]

    def test_cut_off_file_says_so(self) -> None:
        text = FILES[0].read_text(encoding="utf-8")
        with pytest.raises(LabError) as caught:
            read_dump(text[: text.rindex("pl.Tensor[[") + 11])
        finding = caught.value.diagnostics[0]
        assert finding.code == "E701"
        assert finding.hint is not None
        assert "cut off" in finding.hint
        assert finding.span is not None
        assert finding.span.line > 4

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("", "E702"),
            ("\n\n", "E702"),
            ("hello world, this is prose\n", "E701"),
            ('{"a": [1, 2]}\n', "E710"),
            ("import os\n", "E702"),
            ("class A:\n    pass\n", "E702"),
            ("\x7fELF\x01\x00\x00", "E701"),
            (KERNEL + "        a\0b\n", "E701"),
            (KERNEL + "        a: pl.Scalar[pl.INDEX] = '\ud800'\n", "E701"),
            (body("a: pl.Scalar[pl.INDEX] = " + "9" * 5000), "E701"),
            (body("a: pl.Scalar[pl.INDEX] = " + "(" * 5000 + "n" + ")" * 5000), "E701"),
            (body("a: pl.Scalar[pl.INDEX] = " + "+".join(["n"] * 400)), "E703"),
            (body("a: pl.Scalar[pl.INDEX] = " + "+".join(["n"] * 100_000)), "E703"),
            (body("a: pl.Scalar[pl.INDEX] = " + "-" * 100_000 + "n"), "E703"),
            (body("a: pl.Scalar[pl.BOOL] = " + " and ".join(["n < 1"] * 3000)), "E703"),
            (body("if n < 1:", "    pass", *["elif n < 2:", "    pass"] * 300), "E703"),
            ("(" * 100_000, "E701"),
            (body("a: pl.Scalar[pl.INDEX] = pl.min(n)"), "E711"),
            (body("pl.yield_(n)"), "E710"),
            (body("for i, (a, b) in pl.range(2, init_values=(n,)):", "    pass"), "E710"),
            (body("a: pl.Scalar[pl.INDEX] = lambda: 1"), "E711"),
            (body("with open('x') as f:", "    pass"), "E710"),
            (KERNEL.replace("n: pl.Scalar[pl.INDEX]", "n"), "E701"),
            (body("pass").replace("n: pl.Scalar[pl.INDEX]", "n"), "E724"),
            (body("pass").replace("n: pl.Scalar[pl.INDEX]", "x: pl.FP32"), "E723"),
        ],
        ids=range(25),
    )
    def test_what_is_no_dump_is_a_finding_with_a_place(self, text: str, code: str) -> None:
        with pytest.raises(LabError) as caught:
            read_dump(text)
        finding = caught.value.diagnostics[0]
        assert finding.code == code
        assert finding.span is not None
        assert str(caught.value)

    def test_dumps_are_never_executed(self, tmp_path: Path) -> None:
        marker = tmp_path / "ran"
        text = f"open({str(marker)!r}, 'w').close()\n" + body(f"open({str(marker)!r}, 'w')")
        assert errors(text)
        assert not marker.exists()


class TestCommand:
    def test_counts_and_exit_codes(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        good = tmp_path / "00_frontend.py"
        good.write_text(FILES[0].read_text(encoding="utf-8"), encoding="utf-8")
        assert main([str(tmp_path)]) == 0
        assert "read 1 of 1, fixpoint 1 of 1, byte-identical 1 of 1" in capsys.readouterr().out
        (tmp_path / "01_after_InlineFunctions.py").write_text("not a dump", encoding="utf-8")
        assert main([str(tmp_path)]) == 1
        out = capsys.readouterr()
        assert "read 1 of 2, fixpoint 1 of 2" in out.out
        assert "E701" in out.err

    def test_no_dumps_is_bad_input(self, tmp_path: Path) -> None:
        assert main([str(tmp_path), "--quiet"]) == 2

    def test_runs_as_a_module(self) -> None:
        command = [sys.executable, "-m", "pypto_lab.frontend.dump", str(DUMPS / "k09_softmax_rows")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0
        assert "fixpoint 50 of 50" in done.stdout

    def test_a_text_that_is_no_fixpoint_is_named(self) -> None:
        tally = Tally()
        assert tally.add(body("pass"), "x.py") is None
        assert (tally.total, tally.read, tally.identical, tally.fixpoint) == (1, 1, 1, 1)


def test_a_loop_result_without_a_type_is_what_the_loop_carries() -> None:
    """A tuple's yield states no types: a loop that may not run at all gives what it began with."""
    part = "pl.Tile[[4, 8], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[2, 8])]"
    whole = "pl.Tile[[4, 8], pl.FP32, pl.Mem.Vec]"
    program = read_dump(
        body(
            f"a: {whole} = pl.tile.create([4, 8], dtype=pl.FP32, target_memory=pl.Mem.Vec)",
            f"b: {part} = pl.tile.set_validshape(a, 2, 8)",
            "for i, (p, q) in pl.range(n, init_values=(a, b)):",
            f"    c: {part} = pl.tile.set_validshape(p, 2, 8)",
            "    r, s = pl.yield_(c, q)",
        )
    )
    (loop,) = of_type(program, n.For)
    assert [v.type.stated_valid is None for v in loop.return_vars] == [True, False]


def test_a_branch_result_states_a_valid_shape_only_where_both_arms_do() -> None:
    part = "pl.Tile[[4, 8], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[{}, 8])]"
    program = read_dump(
        body(
            "a: pl.Tile[[4, 8], pl.FP32, pl.Mem.Vec] = pl.tile.create([4, 8], dtype=pl.FP32, target_memory=pl.Mem.Vec)",
            f"b: {part.format(2)} = pl.tile.set_validshape(a, 2, 8)",
            f"c: {part.format(3)} = pl.tile.set_validshape(a, 3, 8)",
            "if n > 0:",
            "    r, s = pl.yield_(b, b)",
            "else:",
            "    r, s = pl.yield_(c, b)",
        )
    )
    (branch,) = of_type(program, n.If)
    assert [v.type.stated_valid is None for v in branch.return_vars] == [True, False]


def test_the_device_of_a_call_is_the_variable_it_names() -> None:
    program = read_dump(
        HEAD
        + "    @pl.function(type=pl.FunctionType.Orchestration)\n    def chip(self, x: pl.Tensor[[4, 8], pl.FP32]):\n"
        + "        return\n"
        + "    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)\n"
        + "    def host(self, x: pl.Tensor[[4, 8], pl.FP32]):\n        for r in pl.range(2):\n"
        + "            self.chip(x, device=r)\n"
    )
    (loop,) = of_type(program, n.For)
    (call,) = of_type(program, n.FunctionCall)
    assert call.attrs["device"] is loop.loop_var
