"""Reports of runs, error maps and words: the numbers shown are those measured, and nothing empty gets a tab."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

import pypto_lab as lab
from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.ir.enums import MemorySpace
from pypto_lab.numerics.compare import compare
from pypto_lab.results import MAP_COLUMNS, MAP_ROWS, Options, error_map, facts, run_case
from pypto_lab.view import heat, words
from pypto_lab.view.parts import Pair, Tabs
from pypto_lab.view.report import Result
from tests.view.programs import ints, loop_program, tensor, tile

KERNEL = Path(lab.__file__).parent / "examples" / "softmax_rows.py"


@pytest.fixture(scope="module")
def right() -> Result:
    return run_case(lab.case(KERNEL), Options(seed=5, poison=True))


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Result:
    path = tmp_path_factory.mktemp("wrong") / "softmax_rows.py"
    path.write_text(KERNEL.read_text().replace("pl.range(ROWS // CHUNK)", "pl.range(2)"))
    return run_case(lab.case(path))


def names(result: Result) -> list[str]:
    body = result.part().body
    assert isinstance(body, Tabs)
    return [name for name, _ in body.panels]


def test_a_result_has_the_tabs_it_has_content_for(right: Result) -> None:
    assert names(right) == ["Numbers", "Script", "Graph"]
    assert names(Result("demo", loop_program())) == ["Numbers", "Graph"]
    empty = n.Program(name="e", functions={"f": n.Function(name="f", params=(), return_types=(), body=())})
    assert names(Result("e", empty)) == ["Numbers"]


def test_the_numbers_are_those_of_the_comparison(right: Result) -> None:
    assert right.ok
    assert right.report is not None
    text = repr(right)
    assert f"{right.report.max_abs:.3g}" in text
    assert "ok: match" in text
    assert "poison: no undefined cell reaches an output" in text
    assert f"{right.report.max_abs:.3g}" in right._repr_mimebundle_()["text/html"]


def test_a_mismatch_says_where(wrong: Result) -> None:
    assert wrong.ok is False
    text = repr(wrong)
    assert "NOT OK: mismatch" in text
    assert "out is wrong" in text
    assert "rows 32-47" in text
    assert [m.output for m in wrong.maps] == ["out"]


def test_the_header_says_what_was_executed(right: Result) -> None:
    assert "run as PyTorch, nothing compiled" in repr(right)
    assert "seed 5" in repr(right)


def test_script_and_source_are_linked_line_by_line(right: Result) -> None:
    body = right.part().body
    assert isinstance(body, Tabs)
    pair = dict(body.panels)["Script"]
    assert isinstance(pair, Pair)
    rows = pair.left.text.splitlines()
    line = next(i for i, row in enumerate(rows, 1) if "pl.row_max" in row)
    partners = [i for i, link in pair.right.links.items() if link == pair.left.links[line]]
    assert partners
    assert all("largest" in pair.right.text.splitlines()[i - 1] for i in partners)


def test_a_saved_report_is_one_file(right: Result, tmp_path: Path) -> None:
    path = right.save(tmp_path / "deep" / "report.html")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text


def test_two_reports_in_one_page_share_no_id(right: Result) -> None:
    import re

    one, two = (set(re.findall(r'\bid="([^"]+)"', right._repr_mimebundle_()["text/html"])) for _ in range(2))
    assert one
    assert not one & two


def test_a_compiled_result_shows_its_artifacts_and_what_was_executed() -> None:
    result = run_case(lab.case(KERNEL), Options(stage="pto"))
    assert result.ok
    assert isinstance(result.part().body, Tabs)
    assert [name for name, _ in result.part().body.panels] == ["Numbers", "Graph", "Artifacts"]
    shown = repr(result)
    assert "executed: .pto interpreted by pypto_lab (not ptoas, not device)" in shown
    assert "only written, executed by nobody" in shown


def test_an_output_that_does_not_exist_is_told(tmp_path: Path) -> None:
    path = tmp_path / "k.py"
    path.write_text(KERNEL.read_text().replace('OUTPUTS = ["out"]', 'OUTPUTS = ["x"]'))
    with pytest.raises(LabError, match="has no output x") as found:
        run_case(lab.case(path))
    assert "its outputs are out" in (found.value.diagnostics[0].hint or "")


def test_facts_leave_out_what_is_not_finite() -> None:
    found = facts("y", torch.tensor([1.0, math.nan, -3.0, math.inf]))
    assert (found.smallest, found.largest, found.mean, found.nan, found.infinite) == (-3.0, 1.0, -1.0, 1, 1)
    assert facts("y", torch.tensor([math.nan])).mean is None
    assert facts("y", torch.tensor([1, 2], dtype=torch.int32)).mean == 1.5
    assert facts("y", torch.ones(4).to(torch.float8_e4m3fn)).largest == 1.0


def test_an_error_map_is_signed_and_in_tolerances() -> None:
    want = torch.ones(4, 8)
    got = want.clone()
    got[1, 2], got[3, 7], got[0, 0] = 1.5, 0.0, math.nan
    found = error_map("y", got, want, compare(got, want, rtol=0.0, atol=0.1))
    assert found.grid[1][2] == pytest.approx(5.0, rel=1e-5)
    assert found.grid[3][7] == pytest.approx(-10.0, rel=1e-5)
    assert math.isnan(found.grid[0][0])
    assert found.grid[2][2] == 0


def test_a_large_output_is_shown_by_the_worst_of_each_block() -> None:
    want = torch.zeros(500, 700)
    got = want.clone()
    got[499, 699] = -7.0
    found = error_map("y", got, want, compare(got, want, rtol=0.0, atol=1.0))
    assert len(found.grid) <= MAP_ROWS
    assert len(found.grid[0]) <= MAP_COLUMNS
    assert found.grid[-1][-1] == pytest.approx(-7.0)
    assert (found.rows, found.columns) == (500, 700)


def test_shades_and_their_words() -> None:
    levels = [heat.level(e) for e in (0.0, 1.0, -1.0, 1.5, -15.0, 150.0, math.nan)]
    assert levels == ["", "", "", "p1", "n2", "p3", "nan"]
    assert heat.shade_words("n2") == "too small, 10 to 100 tolerances"


def test_the_map_is_drawn_as_it_is_told() -> None:
    errors = heat.ErrorMap("y", ((0.0, 2.0, 3.0), (-500.0, 0.0, math.nan)), 2, 3)
    drawn = heat.figure(errors)
    assert drawn.text.splitlines()[1:] == [".++", "=.N"]
    root = ElementTree.fromstring(drawn.svg)
    shades = {p.get("class"): p.get("d") for p in root.iter("{http://www.w3.org/2000/svg}path")}
    assert set(shades) == {"pl-h-p1", "pl-h-n3", "pl-h-nan"}
    assert (shades["pl-h-p1"] or "").count("M") == 1


def binary(op: str, left: n.Expr, right: n.Expr) -> n.Expr:
    return n.Binary(op=op, left=left, right=right, type=n.INDEX)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (binary("Mul", binary("Add", n.const(1), n.const(2)), n.const(3)), "(1 + 2) * 3"),
        (binary("Sub", n.const(1), binary("Sub", n.const(2), n.const(3))), "1 - (2 - 3)"),
        (binary("Min", n.const(1), n.const(2)), "min(1, 2)"),
        (n.Unary(op="Neg", operand=n.const(2.5), type=n.FP32), "-2.5"),
        (n.Unary(op="Cast", operand=n.const(2), type=n.FP32), "FP32(2)"),
        (n.TupleGetItem(tuple=ints(1, 2), index=1, type=n.INDEX), "[1, 2][1]"),
    ],
)
def test_expressions_in_words(expression: n.Expr, said: str) -> None:
    assert words.expression(expression) == said


def test_types_in_words() -> None:
    assert words.type_words(tensor(16, 64)) == "[16, 64] FP32"
    partial = tile(32, 32, space=MemorySpace.Vec, valid=(17, 32))
    assert words.type_words(partial) == "[32, 32] FP32 valid [17, 32] Vec"
    assert words.type_words(tile(2, 2, space=MemorySpace.Acc, valid=(2, 2))) == "[2, 2] FP32 Acc"
    assert words.type_words(n.ScalarType(dtypes.INT32)) == "INT32"
    assert words.clip("abcdef", 4) == "abc…"
