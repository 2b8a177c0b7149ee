"""Kernels whose tiles are one row of a boxed layout, or valid in part: by lane, by branch, as a window. Lowered,
emitted, checked, executed, compared with what they mean."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from pypto_lab.compat.cases import case
from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir.diagnostics import LabError, Severity
from pypto_lab.lowering import lower
from pypto_lab.pto.dialect.verify import verify
from pypto_lab.pto.emit import emit, emit_to
from pypto_lab.pto.machine import BuildResult, execute, run_build
from pypto_lab.pto.parse import parse

HEAD = """import pypto.language as pl
import torch

"""
PRODUCT = """
@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def mm(self, a: pl.Tensor[[{m}, 64], pl.FP16], b: pl.Tensor[[64, 48], pl.FP16], c: pl.Tensor[[1, 48], pl.FP32],
           y: pl.Out[pl.Tensor[[{m}, 48], pl.FP32]]) -> pl.Tensor[[{m}, 48], pl.FP32]:
        left = pl.move(pl.load(a, [0, 0], [{m}, 64], target_memory=pl.Mem.Mat), target_memory=pl.Mem.Left)
        right = pl.move(pl.load(b, [0, 0], [64, 48], target_memory=pl.Mem.Mat), target_memory=pl.Mem.Right)
{body}
        out = pl.store(acc, [0, 0], y)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[{m}, 64], pl.FP16], b: pl.Tensor[[64, 48], pl.FP16], c: pl.Tensor[[1, 48], pl.FP32],
             y: pl.Out[pl.Tensor[[{m}, 48], pl.FP32]]) -> pl.Tensor[[{m}, 48], pl.FP32]:
        y = self.mm(a, b, c, y)
        return y


def make_inputs(seed=0):
    g = torch.Generator().manual_seed(seed)
    draw = lambda *s: torch.randn(*s, generator=g)
    return {{"a": draw({m}, 64).half(), "b": draw(64, 48).half(), "c": draw(1, 48), "y": torch.zeros({m}, 48)}}


def golden(t):
    t["y"][:] = {golden}
"""
BIAS = (
    "        row = pl.move(pl.load(c, [0, 0], [1, 48], target_memory=pl.Mem.Mat), target_memory=pl.Mem.Bias)\n"
    "        acc = pl.{name}(left, right, row)"
)
PRODUCTS = {
    "matmul_bias": (32, BIAS.format(name="matmul_bias"), 't["a"].float() @ t["b"].float() + t["c"]'),
    "gemv": (1, "        acc = pl.gemv(left, right)", 't["a"].float() @ t["b"].float()'),
    "gemv_acc": (
        1,
        "        first = pl.gemv(left, right)\n        acc = pl.gemv_acc(first, left, right)",
        '2 * (t["a"].float() @ t["b"].float())',
    ),
    "gemv_bias": (1, BIAS.format(name="gemv_bias"), 't["a"].float() @ t["b"].float() + t["c"]'),
}


def built(text: str, folder: Path, arch: str = "a2a3") -> tuple[BuildResult, dict[str, str]]:
    """A kernel's text, lowered, emitted and run; the outputs are the golden's."""
    file = folder / "kernel.py"
    file.write_text(HEAD + text, encoding="utf-8")
    made = case(file)
    values = made.make_inputs(0)
    expected = made.expected(values)
    program = lower(made.program(values), arch).program
    emit_to(program, folder / "build", arch)
    texts = emit(program, arch)
    for unit in texts.values():
        assert not verify(parse(unit))
    result = run_build(folder / "build", values, program=program)
    outputs = {name.partition("__ssa_v")[0]: value for name, value in result.outputs.items()}
    assert expected
    for name in expected:
        assert made.compare(name, outputs, expected, values).ok
    return result, texts


@pytest.mark.parametrize("arch", ["a2a3", "a5"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_rows_that_a_product_takes_stand_in_boxes_of_one_row(name: str, arch: str, tmp_path: Path) -> None:
    rows, body, golden = PRODUCTS[name]
    result, texts = built(PRODUCT.format(m=rows, body=body, golden=golden), tmp_path, arch)
    assert result.findings == ()
    text = texts["mm"]
    assert f"pto.{name.replace('_', '.').replace('matmul', 'tmatmul').replace('gemv', 'tgemv')} " in text
    if "bias" in name:
        assert re.search(r"loc=bias, dtype=f32, rows=1, cols=48, .*blayout=col_major, slayout=row_major", text)
    if rows == 1:
        assert re.search(r"loc=left, dtype=f16, rows=1, cols=64, ", text)


ODD = """
@pl.jit
def k(x: pl.Tensor[[17, 64], pl.FP16], w: pl.Tensor[[64, 32], pl.FP16], o: pl.Out[pl.Tensor[[17, 32], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.UP_DOWN)], name_hint="k"):
        a = pl.slice(x, [32, 64], [0, 0], valid_shape=[17, 64])
        p = pl.matmul(a, w, out_dtype=pl.FP32)
        o = pl.assemble(o, pl.mul(p, 2.0), [0, 0])
    return o


def make_inputs(seed=0):
    g = torch.Generator().manual_seed(seed)
    draw = lambda *s: torch.randn(*s, generator=g)
    return {"x": draw(17, 64).half(), "w": draw(64, 32).half(), "o": torch.zeros(17, 32)}


def golden(t):
    t["o"][:] = (t["x"].float() @ t["w"].float()) * 2
"""


def test_extents_that_differ_by_lane_are_computed_once_from_the_lanes_parameter(tmp_path: Path) -> None:
    """Lane 0 has 16 valid rows, lane 1 has one; what lies behind them crosses the pipe and is read by nobody."""
    result, texts = built(ODD, tmp_path)
    assert result.findings == ()
    vector = texts["k_0"].split("func.func @k_0_aiv", 1)[1]
    assert "%__pypto_spmd_subblock_idx: i32" in vector.split("{", 1)[0]
    pop = re.search(r"pto\.tpop_from_aic\(%(\w+), ", vector)
    assert pop is not None
    assert f"valid_row = %{pop.group(1)} " in vector  # not computed a second time
    assert f"sizes = [%{pop.group(1)}, " in vector


WHO = """# pypto.program: P
import pypto.language as pl

@pl.program
class P:
    @pl.function(type=pl.FunctionType.AIV)
    def f(x: pl.Tensor[[8, 32], pl.FP32], o: pl.Out[pl.Tensor[[8, 32], pl.FP32]]):
        mem: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 65536)
        a: pl.Tile[[8, 32], pl.FP32, pl.MemRef(mem, pl.const(0, pl.INT64), 1024), pl.Mem.Vec, pl.TileView(valid_shape=[pl.tile.get_block_idx() + 2, 32])] = pl.tile.load(x, [0, 0], [8, 32], [pl.tile.get_block_idx() + 2, 32], target_memory=pl.Mem.Vec)
        r: pl.Tensor[[8, 32], pl.FP32] = pl.tile.store(a, [0, 0], o)
"""  # noqa: E501


def test_a_block_that_only_a_type_names_is_a_parameter() -> None:
    text = emit(read_dump(WHO))["f"]
    head = text.split("attributes {pto.kernel_kind", 1)[0]
    assert head.rstrip().endswith("%__pypto_spmd_block_idx: i32, %__pypto_spmd_block_num: i32)")
    assert not verify(parse(text))


BRANCH = """
@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def f(self, x: pl.Tensor[[64, 64], pl.FP16], w: pl.Tensor[[64, 32], pl.FP16], rows: pl.Scalar[pl.INDEX],
          y: pl.Out[pl.Tensor[[16, 32], pl.FP32]]) -> pl.Tensor[[16, 32], pl.FP32]:
        acc = pl.create_tile([16, 32], dtype=pl.FP32, target_memory=pl.Mem.Acc)
        right = pl.move(pl.load(w, [0, 0], [64, 32], target_memory=pl.Mem.Mat), target_memory=pl.Mem.Right)
        for i in pl.range(0, 4):
            part = pl.load(x, [i * 16, 0], [16, 64], valid_shape=[rows, 64], target_memory=pl.Mem.Mat)
            left = pl.move(part, target_memory=pl.Mem.Left)
            if i == 0:
                acc = pl.matmul(left, right)
            else:
                acc = pl.matmul_acc(acc, left, right)
        out = pl.store(acc, [0, 0], y)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[64, 64], pl.FP16], w: pl.Tensor[[64, 32], pl.FP16], rows: pl.Scalar[pl.INDEX],
             y: pl.Out[pl.Tensor[[16, 32], pl.FP32]]) -> pl.Tensor[[16, 32], pl.FP32]:
        y = self.f(x, w, rows, y)
        return y


def make_inputs(seed=0):
    g = torch.Generator().manual_seed(seed)
    draw = lambda *s: torch.randn(*s, generator=g)
    return {"x": draw(64, 64).half(), "w": draw(64, 32).half(), "rows": ROWS, "y": torch.zeros(16, 32)}


def golden(t):
    parts = t["x"].float().view(4, 16, 64).sum(dim=0)
    t["y"][:t["rows"]] = (parts @ t["w"].float())[:t["rows"]]
"""


def test_a_branch_may_leave_extents_that_are_known_at_run_time_only(tmp_path: Path) -> None:
    result, _ = built(BRANCH.replace("ROWS", "16"), tmp_path)
    assert result.findings == ()


def test_a_branch_that_leaves_less_than_its_type_says_is_found_when_it_runs(tmp_path: Path) -> None:
    """The type of the accumulator behind the branches says 16 rows, the product has 5."""
    file = tmp_path / "kernel.py"
    file.write_text(HEAD + BRANCH.replace("ROWS", "5"), encoding="utf-8")
    made = case(file)
    values = made.make_inputs(0)
    program = lower(made.program(values), "a2a3").program
    emit_to(program, tmp_path / "build")
    found = run_build(tmp_path / "build", values, program=program).findings
    assert {f.code for f in found} >= {"E620", "E625"}
    extents = next(f for f in found if f.code == "E625")
    assert "16 x 32 valid elements, the product 5 x 32" in extents.message
    assert extents.severity is Severity.WARNING  # nothing is lost by it
    assert any(f.severity is Severity.ERROR for f in found)  # but what nobody wrote is stored


ACC = "blayout=pl.TileLayout.col_major, slayout=pl.TileLayout.row_major, fractal=1024"
WINDOW = """# pypto.program: P
import pypto.language as pl

@pl.program
class P:
    @pl.function(type=pl.FunctionType.AIC)
    def f(x: pl.Tensor[[32, 64], pl.FP16], w: pl.Tensor[[64, 48], pl.FP16], o: pl.Out[pl.Tensor[[16, 32], pl.FP32]]):
        mat: pl.Ptr = pl.tile.alloc(pl.Mem.Mat, 65536)
        a: pl.Tile[[32, 64], pl.FP16, pl.MemRef(mat, pl.const(0, pl.INT64), 4096), pl.Mem.Mat] = pl.tile.load(x, [0, 0], [32, 64], [32, 64], target_memory=pl.Mem.Mat)
        b: pl.Tile[[64, 48], pl.FP16, pl.MemRef(mat, pl.const(4096, pl.INT64), 6144), pl.Mem.Mat] = pl.tile.load(w, [0, 0], [64, 48], [64, 48], target_memory=pl.Mem.Mat)
        lmem: pl.Ptr = pl.tile.alloc(pl.Mem.Left, 65536)
        l: pl.Tile[[32, 64], pl.FP16, pl.MemRef(lmem, pl.const(0, pl.INT64), 4096), pl.Mem.Left] = pl.tile.move(a, target_memory=pl.Mem.Left)
        rmem: pl.Ptr = pl.tile.alloc(pl.Mem.Right, 65536)
        r: pl.Tile[[64, 48], pl.FP16, pl.MemRef(rmem, pl.const(0, pl.INT64), 6144), pl.Mem.Right] = pl.tile.move(b, target_memory=pl.Mem.Right)
        amem: pl.Ptr = pl.tile.alloc(pl.Mem.Acc, 65536)
        c: pl.Tile[[32, 48], pl.FP32, pl.MemRef(amem, pl.const(0, pl.INT64), 6144), pl.Mem.Acc] = pl.tile.matmul(l, r)
        s: pl.Tile[[16, 32], pl.FP32, pl.MemRef(amem, pl.const(0, pl.INT64), 6144), pl.Mem.Acc] = pl.tile.slice(c, [16, 32], [ROW, 16])
        q: pl.Tensor[[16, 32], pl.FP32] = pl.tile.store(s, [0, 0], o)
"""  # noqa: E501


def test_a_window_of_an_accumulator_is_made_of_whole_boxes(tmp_path: Path) -> None:
    program = read_dump(WINDOW.replace("ROW,", "16,"))
    emit_to(program, tmp_path)
    text = emit(program)["f"]
    assert "pto.subview" in text
    assert not verify(parse(text))
    g = torch.Generator().manual_seed(3)
    x, w, o = torch.randn(32, 64, generator=g).half(), torch.randn(64, 48, generator=g).half(), torch.zeros(16, 32)
    assert execute(parse(text), "f", [x, w, o]).findings == ()
    torch.testing.assert_close(o, (x.float() @ w.float())[16:, 16:], rtol=1e-4, atol=1e-4)


def test_a_window_that_cuts_boxes_is_refused_and_found() -> None:
    with pytest.raises(LabError) as error:
        emit(read_dump(WINDOW.replace("ROW,", "8,")))
    assert "a window, 8 to 24, of acc f32[32x48] NZ is not made of whole boxes" in error.value.diagnostics[0].message
    text = emit(read_dump(WINDOW.replace("ROW,", "16,")))["f"]
    line = next(line for line in text.splitlines() if "pto.subview" in line)
    corner = re.search(r"\[%(\w+), ", line)
    assert corner is not None
    wrong = text.replace(line, f"%odd = arith.constant 8 : index\n{line.replace(corner.group(0), '[%odd, ')}")
    assert [d.code for d in verify(parse(wrong))] == ["E605"]


TURNED = """# pypto.program: P
import pypto.language as pl

@pl.program
class P:
    @pl.function(type=pl.FunctionType.AIC)
    def f(x: pl.Tensor[[16, 64], pl.FP16], w: pl.Tensor[[48, 96], pl.FP16], o: pl.Out[pl.Tensor[[16, 48], pl.FP32]]):
        mat: pl.Ptr = pl.tile.alloc(pl.Mem.Mat, 65536)
        a: pl.Tile[[16, 64], pl.FP16, pl.MemRef(mat, pl.const(0, pl.INT64), 2048), pl.Mem.Mat] = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Mat)
        b: pl.Tile[[48, 96], pl.FP16, pl.MemRef(mat, pl.const(2048, pl.INT64), 9216), pl.Mem.Mat] = pl.tile.load(w, [0, 0], [48, 96], [48, 96], target_memory=pl.Mem.Mat)
        s: pl.Tile[[48, 64], pl.FP16, pl.MemRef(mat, pl.const(START, pl.INT64), 9216), pl.Mem.Mat] = pl.tile.slice(b, [48, 64], [0, COLUMN])
        t: pl.Tile[[64, 48], pl.FP16, pl.MemRef(mat, pl.const(START, pl.INT64), 9216), pl.Mem.Mat, pl.TileView(blayout=pl.TileLayout.row_major, slayout=pl.TileLayout.col_major)] = pl.tile.transpose_view(s)
        lmem: pl.Ptr = pl.tile.alloc(pl.Mem.Left, 65536)
        l: pl.Tile[[16, 64], pl.FP16, pl.MemRef(lmem, pl.const(0, pl.INT64), 2048), pl.Mem.Left] = pl.tile.move(a, target_memory=pl.Mem.Left)
        rmem: pl.Ptr = pl.tile.alloc(pl.Mem.Right, 65536)
        r: pl.Tile[[64, 48], pl.FP16, pl.MemRef(rmem, pl.const(0, pl.INT64), 6144), pl.Mem.Right] = pl.tile.move(t, target_memory=pl.Mem.Right)
        amem: pl.Ptr = pl.tile.alloc(pl.Mem.Acc, 65536)
        c: pl.Tile[[16, 48], pl.FP32, pl.MemRef(amem, pl.const(0, pl.INT64), 3072), pl.Mem.Acc] = pl.tile.matmul(l, r)
        q: pl.Tensor[[16, 48], pl.FP32] = pl.tile.store(c, [0, 0], o)
"""  # noqa: E501


@pytest.mark.parametrize("column", [0, 32])
def test_a_window_whose_bytes_follow_each_other_may_be_seen_in_another_order(column: int) -> None:
    """Columns of a matrix in NZ are bytes in a row; transposed they are rows in ZN."""
    start = 2048 + column * 48 * 2
    text = emit(read_dump(TURNED.replace("START", str(start)).replace("COLUMN", str(column))))["f"]
    assert not verify(parse(text))
    g = torch.Generator().manual_seed(4)
    x, w, o = torch.randn(16, 64, generator=g).half(), torch.randn(48, 96, generator=g).half(), torch.zeros(16, 48)
    assert execute(parse(text), "f", [x, w, o]).findings == ()
    torch.testing.assert_close(o, x.float() @ w.float()[:, column : column + 64].T, rtol=1e-4, atol=1e-3)


def test_a_view_of_a_window_elsewhere_is_refused() -> None:
    with pytest.raises(LabError, match="names other bytes"):
        emit(read_dump(TURNED.replace("START", "2048").replace("COLUMN", "32")))
