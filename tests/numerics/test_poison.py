"""Undefined is not zero: the statement that first reads a cell nobody wrote."""

import re
from pathlib import Path

import pytest
import torch

import pypto_lab as lab
from pypto_lab.compat.cases import case
from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.numerics.diff import diff
from pypto_lab.numerics.poison import undefined_reads

DATA = Path(__file__).parent.parent / "data"
A = "[0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)"
HEAD = """# pypto.program: P
import pypto.language as pl
@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(x: T, y: pl.InOut[T], out: pl.Out[T]):
"""
LOAD = "a: V = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)\n"
CREATE = "t: V = pl.tile.create([16, 16], dtype=pl.FP32, target_memory=pl.Mem.Vec)\n"
PART = (
    "p: pl.Tile[[16, 16], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[16, 10])] = "
    "pl.tile.load(x, [0, 0], [16, 16], [16, 10], target_memory=pl.Mem.Vec)\n"
)
STORE = "o: T = pl.tile.store(w, [0, 0], out)\n"


def reads(body: str):
    text = HEAD + "".join(f"        {line}\n" for line in body.splitlines())
    text = re.sub(r"\bT\b", "pl.Tensor[[16, 16], pl.FP32]", text)
    text = re.sub(r"\bV\b", "pl.Tile[[16, 16], pl.FP32, pl.Mem.Vec]", text)
    values = {name: torch.arange(256.0).view(16, 16) for name in ("x", "y", "out")}
    return undefined_reads(read_dump(text, "kernel.py"), values)


def test_an_unwritten_buffer_names_reader_variable_cell_and_origin():
    (read,) = reads(LOAD + CREATE + "u: V = pl.tile.add(a, t)\nw: V = pl.tile.muls(u, 2.0)\n" + STORE)
    assert (read.output, read.variable, read.cell, read.count) == ("out", "t", (0, 0), 256)
    assert read.statement == "u = pl.tile.add(a, t)"
    assert read.span.line == 9
    assert read.why == "which nobody has written"
    assert read.origin.startswith("kernel.py:8: `t = pl.tile.create")
    assert read.cells.all()


def test_cells_outside_the_valid_region():
    (read,) = reads(PART + "b: V = pl.tile.set_validshape(p, 16, 16)\nw: V = pl.tile.muls(b, 2.0)\n" + STORE)
    assert (read.variable, read.cell, read.count) == ("p", (0, 10), 96)
    assert read.why == "outside the valid region [16, 10] of [16, 16]"
    assert "pl.tile.load(x" in read.origin
    assert not read.cells[:, :10].any()


def test_a_buffer_that_is_filled_bit_by_bit_is_no_finding():
    wide = "pl.Tile[[16, 32], pl.FP32, pl.Mem.Vec]"
    fill = (
        f"t: {wide} = pl.tile.create([16, 32], dtype=pl.FP32, target_memory=pl.Mem.Vec)\n"
        f"t1: {wide} = pl.tile.assemble(t, a, [0, 0])\n"
    )
    cut = (
        "w: V = pl.tile.slice(t1, [16, 16], [0, {}])\nv: V = pl.tile.muls(w, 2.0)\no: T = pl.tile.store(v, [0, 0], out)"
    )
    assert reads(LOAD + fill + cut.format(0)) == ()
    (read,) = reads(LOAD + fill + cut.format(1))
    assert read.statement == "v = pl.tile.muls(w, 2.0)"
    assert (read.variable, read.cell, read.count) == ("w", (0, 15), 16)
    assert "tile.create" in read.origin


def test_an_accumulator_that_starts_undefined():
    body = (
        LOAD
        + CREATE
        + "for i, (acc,) in pl.range(3, init_values=(t,)):\n    n: V = pl.tile.add(acc, a)\n    w: V = pl.yield_(n)\n"
        + STORE
    )
    (read,) = reads(body)
    assert (read.statement, read.variable) == ("n = pl.tile.add(acc, a)", "acc")
    assert "tile.create" in read.origin


def test_output_cells_that_are_never_written_or_read_before():
    half = (
        "w: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.load(x, [0, 0], [8, 16], [8, 16], target_memory=pl.Mem.Vec)"
    )
    (read,) = reads(f"{half}\n{STORE}")
    assert str(read) == "cell [8, 0] and 127 more of `out` are never written"
    (read,) = reads(f"b: V = pl.tile.load(out, {A}\nw: V = pl.tile.muls(b, 2.0)\n" + STORE)
    assert (read.variable, read.statement.partition(" =")[0]) == ("out", "b")


def test_an_inout_parameter_is_defined():
    assert reads(f"b: V = pl.tile.load(y, {A}\nw: V = pl.tile.muls(b, 2.0)\n" + STORE) == ()


def test_scalars_and_the_way_a_program_goes():
    (read,) = reads(
        LOAD + CREATE + "s: pl.Scalar[pl.FP32] = pl.tile.read(t, [3, 4])\nw: V = pl.tile.muls(a, s)\n" + STORE
    )
    assert read.statement == "s = pl.tile.read(t, [3, 4])"
    branch = (
        "if s > 0.0:\n    b: V = pl.tile.muls(a, 2.0)\n    w: V = pl.yield_(b)\n"
        "else:\n    c: V = pl.tile.muls(a, 3.0)\n    w: V = pl.yield_(c)\n"
    )
    (read,) = reads(LOAD + CREATE + "s: pl.Scalar[pl.FP32] = pl.tile.read(t, [3, 4])\n" + branch + STORE)
    assert read.statement == "s = pl.tile.read(t, [3, 4])"
    assert read.output == "the way the program goes"


def test_an_index_that_nobody_wrote():
    body = (
        LOAD
        + "t: pl.Tile[[16, 16], pl.INT32, pl.Mem.Vec] = pl.tile.create([16, 16], dtype=pl.INT32, "
        + "target_memory=pl.Mem.Vec)\ns: pl.Scalar[pl.INT32] = pl.tile.read(t, [3, 4])\n"
        + "i: pl.Scalar[pl.INDEX] = pl.cast(s, pl.INDEX)\n"
        + "w: pl.Tile[[1, 16], pl.FP32, pl.Mem.Vec] = pl.tile.slice(a, [1, 16], [i, 0])\n"
        + STORE
    )
    (read,) = reads(body)
    assert (read.output, read.statement) == ("an index", "s = pl.tile.read(t, [3, 4])")


def test_other_errors_stay_errors():
    with pytest.raises(LabError, match="leaves the box"):
        reads(LOAD + "w: V = pl.tile.slice(a, [16, 16], [8, 0])\n" + STORE)


GROUP = """# pypto.program: P
import pypto.language as pl
@pl.program
class P:
    @pl.function(type=pl.FunctionType.AIC)
    def cube(x: T, out: pl.Out[T]):
        t: pl.Tile[[16, 16], pl.FP32, pl.Mem.Mat] = CUBE
        pl.tile.tpush_to_aiv(t, split=0)
    @pl.function(type=pl.FunctionType.AIV)
    def vector(x: T, out: pl.Out[T]) -> T:
        got: V = pl.tile.tpop_from_aic(split=0)
        flat: V = pl.tile.reshape(got, [16, 16])
        FREE
        w: V = pl.tile.muls(flat, 2.0)
        o: T = pl.tile.store(w, [0, 0], out)
        LATE
        return out
    @pl.function(type=pl.FunctionType.Group)
    def both(x: T, out: pl.Out[T]) -> T:
        self.cube(x, out)
        r: T = self.vector(x, out)
        return r
"""
FULL = "pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Mat)"
FREE = "pl.system.tfree_to_aic(got, split=0)"


def group(**parts: str):
    text = GROUP
    for key, part in parts.items():
        text = text.replace(key, part)
    text = re.sub(r"\bT\b", "pl.Tensor[[16, 16], pl.FP32]", text)
    text = re.sub(r"\bV\b", "pl.Tile[[16, 16], pl.FP32, pl.Mem.Vec]", text)
    return undefined_reads(read_dump(text, "kernel.py"), {"x": torch.ones(16, 16), "out": torch.zeros(16, 16)})


def test_a_slot_after_its_free_is_undefined():
    assert group(CUBE=FULL, FREE="", LATE=FREE) == ()
    (read,) = group(CUBE=FULL, FREE=FREE, LATE="")
    assert read.statement == "w = pl.tile.muls(flat, 2.0)"
    assert (read.variable, read.lane) == ("flat", "AIV0")


def test_what_a_lane_pushes_is_followed_to_the_other_side():
    create = "pl.tile.create([16, 16], dtype=pl.FP32, target_memory=pl.Mem.Mat)"
    (read,) = group(CUBE=create, FREE="", LATE=FREE)
    assert "got" in (read.variable, read.statement.partition(" =")[0])


@pytest.mark.parametrize("name", sorted(p.name for p in (DATA / "kernels").iterdir()))
def test_no_case_of_the_project_reads_undefined_cells(name):
    torch.set_num_threads(1)
    found = case(DATA / "kernels" / name / "kernel.py")
    values = found.make_inputs(0)
    assert undefined_reads(found.program(values), values) == ()


@pytest.mark.parametrize("folder", ["k19", "k20", "k33", "k21", "k14"])
def test_lowered_dumps_read_no_undefined_cells_either(folder):
    for path in sorted((DATA / "dumps").glob(f"{folder}*/passes_explicit/49_*.py")):
        values = case(DATA / "kernels" / path.parent.parent.name / "kernel.py").make_inputs(0)
        assert undefined_reads(read_dump(path.read_text(), path.name), values) == ()


SOURCE = """
import pypto.language as pl
import torch

@pl.jit
def total(x: pl.Tensor[[16, 64], pl.FP32], y: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tensor([16, 64], dtype=pl.FP32)
        y[:] = pl.add(pl.mul(x, 2.0), acc)
    return y

def make_inputs(seed):
    return {"x": torch.ones(16, 64), "y": torch.zeros(16, 64)}

def golden(t):
    t["y"][:] = t["x"] * 2
"""


def test_a_diff_with_poison_names_the_statement(tmp_path):
    path = tmp_path / "total.py"
    path.write_text(SOURCE)
    report = diff(lab.case(path), poison=True)
    (leak,) = report.leaks
    assert "reads cell [0, 0] and 1023 more of `acc`" in leak.cause
    assert f"{path}:9" in leak.cause
    assert leak.cause in str(report)


def test_a_diff_of_a_program_whose_way_depends_on_undefined_cells(tmp_path):
    path = tmp_path / "total.py"
    branch = (
        "if pl.read(acc, [0, 0]) > 0.0:",
        "    y[:] = pl.mul(x, 3.0)",
        "else:",
        "    y[:] = pl.mul(x, 2.0)",
    )
    text = SOURCE.replace("y[:] = pl.add(pl.mul(x, 2.0), acc)", "\n        ".join(branch))
    path.write_text(text)
    assert diff(lab.case(path)).ok
    (leak,) = diff(lab.case(path), poison=True).leaks
    assert "pl.tensor.read(acc, [0, 0])" in leak.cause or "not the same in both runs" in leak.cause
