"""The orchestration C++ against the compiler's own, and each of its rules by running what was written on a runtime that
only writes down what it is asked for."""

from __future__ import annotations

import random
import shutil
import subprocess
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.pto.config import kernels, orchestration_function
from pypto_lab.pto.orchestration import orchestration
from pypto_lab.pto.orchestration.__main__ import main
from pypto_lab.pto.orchestration.compare import calls, differences
from pypto_lab.pto.orchestration.expressions import scalar
from pypto_lab.pto.orchestration.pipe_buffers import pipe_buffer_elements
from pypto_lab.pto.orchestration.state import State

DATA = Path(__file__).parent.parent / "data"
REAL = sorted((DATA / "orchestration").glob("*.txt"))
COMPILER = shutil.which("g++") or shutil.which("clang++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on this machine")


def real_program(kernel: str) -> n.Program:
    last = DATA / "dumps" / kernel / "passes_explicit" / "49_after_MaterializeValidShapeSymbols.py"
    return read_dump(last.read_text(encoding="utf-8"), last.name)


# --- against the compiler's own ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", REAL, ids=lambda p: p.stem)
def test_the_calls_are_the_compilers_own(path: Path) -> None:
    ours = calls(orchestration(real_program(path.stem)))
    assert ours == path.read_text(encoding="utf-8").splitlines()


def test_the_comparison_sees_order_arguments_and_directions_but_not_names() -> None:
    text = orchestration(real_program("k34_paged_attend"))
    assert differences(text, text) == []
    assert differences(text.replace("denom", "low").replace("// 0", "// first"), text) == []
    first, second = "params_t0.add_input(ext_q);", "params_t0.add_input(ext_kpool);"
    swapped = text.replace(first, "@").replace(second, first).replace("@", second)
    assert len(differences(swapped, text)) > 0
    for old, new in [
        ("add_inout(s)", "add_output(s)"),
        ("rt_submit_aic_task(0", "rt_submit_aiv_task(0"),
        ("rt_submit_aic_task(2", "rt_submit_aic_task(1"),
        ("params_t2.add_input(p)", "params_t2.add_input(s)"),
        ("{16, 96}", "{16, 95}"),
        ("b < 2", "b < 3"),
        ("DataType::BFLOAT16", "DataType::FLOAT16"),
        ("params_t3.add_scalar(b);", ""),
    ]:
        assert old in text
        assert differences(text.replace(old, new, 1), text), old


def test_the_command_counts_and_fails_for_a_file_that_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "k"
    (folder / "artifacts" / "orchestration").mkdir(parents=True)
    (folder / "passes_explicit").mkdir()
    program = real_program("k28_two_stage_program")
    (folder / "passes_explicit" / "49_after_Last.py").write_text(program.as_python(), encoding="utf-8")
    theirs = folder / "artifacts" / "orchestration" / "drive.cpp"
    theirs.write_text(orchestration(program).replace("pos", "other"), encoding="utf-8")
    assert main([str(tmp_path)]) == 0
    assert "1 of 1 make the compiler's calls" in capsys.readouterr().out
    theirs.write_text(orchestration(program).replace("add_scalar(to_u64(rate))", "add_scalar(rate)"), encoding="utf-8")
    assert main([str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "to_u64" in printed
    assert "0 of 1" in printed
    assert main([str(tmp_path / "nothing")]) == 2


@needs_compiler
def test_a_compiler_takes_every_file_and_refuses_a_wrong_call(tmp_path: Path) -> None:
    texts = [orchestration(real_program(path.stem)) for path in REAL]
    together = "\n".join(t.replace("aicpu_orchestration_", f"file_{i}_") for i, t in enumerate(texts))
    assert _syntax_errors(together, tmp_path) == ""
    assert "add_inputs" in _syntax_errors(texts[0].replace(".add_input(", ".add_inputs(", 1), tmp_path)
    assert "set_core_num" in _syntax_errors(orchestration(real_program("k29_spmd_blocks"), "a5"), tmp_path)


def _syntax_errors(text: str, folder: Path) -> str:
    assert COMPILER is not None
    source = folder / "orchestration.cpp"
    source.write_text(text, encoding="utf-8")
    command = [COMPILER, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", f"-I{DATA / 'cpp'}", str(source)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stderr


# --- programs of our own ----------------------------------------------------------------------------------------------

T = "pl.Tensor[[16, 64], pl.FP32]"
R = f"pl.Tuple[{T}, pl.Scalar[pl.TASK_ID]]"
ELEMENT = "pl.tensor.read(cfg, [1, k])"
PIPE = "pl.const(0, pl.INT32), pl.const(0, pl.INT32), dir_mask=1, slot_size=4096, slot_num=2"
INPUT = '{"arg_directions": [pl.adir.input, pl.adir.output_existing]}'
KERNELS = f"""
    @pl.function(type=pl.FunctionType.AIV)
    def vec(x: {T}, y: pl.Out[{T}]) -> {T}:
        return y
    @pl.function(type=pl.FunctionType.AIC)
    def mat(n: pl.Scalar[pl.INDEX], x: {T}, y: pl.InOut[{T}], s: pl.Scalar[pl.FP32]) -> {T}:
        return y
    @pl.function(type=pl.FunctionType.AIV)
    def two(x: {T}, y: pl.Out[{T}], z: pl.Out[{T}]) -> tuple[{T}, {T}]:
        return z, y
    @pl.function(type=pl.FunctionType.AIV)
    def both(x: {T}, y: pl.Out[{T}]) -> {T}:
        pl.func_attr({{"dual_aiv_dispatch": True}})
        return y
    @pl.function(type=pl.FunctionType.AIC)
    def cube(x: {T}, y: pl.Out[{T}], __gm_pipe_buffer: pl.Out[pl.Tensor[[1], pl.FP32]]) -> {T}:
        pl.system.aic_initialize_pipe({PIPE})
        return y
    @pl.function(type=pl.FunctionType.AIV)
    def lane(x: {T}, y: pl.Out[{T}], __gm_pipe_buffer: pl.Out[pl.Tensor[[1], pl.FP32]]) -> {T}:
        pl.system.aiv_initialize_pipe({PIPE})
        return y
    @pl.function(type=pl.FunctionType.Group)
    def pair(x: {T}, y: pl.Out[{T}], __gm_pipe_buffer: pl.Out[pl.Tensor[[1], pl.FP32]]) -> {T}:
        self.cube(x, y, __gm_pipe_buffer)
        self.lane(x, y, __gm_pipe_buffer)
        return y
    @pl.function(type=pl.FunctionType.Spmd)
    def blocks(self, y: pl.Out[{T}], x: {T}) -> {T}:
        r: {T} = self.vec(x, y)
        return y
    @pl.function(type=pl.FunctionType.Spmd)
    def pairs(self, y: pl.Out[{T}], x: {T}, b: pl.Out[pl.Tensor[[1], pl.FP32]]) -> {T}:
        r: {T} = self.pair(x, y, b)
        return y
"""


def program_of(body: str, params: str = "", kernels_text: str = KERNELS) -> n.Program:
    """A program whose orchestration function has tensors `a` and `out`, and the given body."""
    head = f"# pypto.program: P\nimport pypto.language as pl\n\n@pl.program\nclass P:{kernels_text}"
    extra = f", {params}" if params else ""
    function = (
        "    @pl.function(type=pl.FunctionType.Orchestration, auto_scope=False)\n"
        f"    def main(self, a: {T}, out: pl.Out[{T}]{extra}) -> {T}:\n"
    )
    return read_dump(head + function + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n")


@dataclass(frozen=True)
class Case:
    """A body, what else `main` takes, the values of those, and the lines the runtime writes down (scopes left out)."""

    body: str
    lines: str
    params: str = ""
    tensors: tuple[str, ...] = ()
    scalars: tuple[str, ...] = ()
    keeps_scopes: bool = False


ONE = f"r: {T} = self.vec(a, out, attrs={INPUT})"
CASES = {
    "a result is its argument": Case(
        f"""
        {ONE}
        s: {T} = self.vec(r, out, attrs={{"arg_directions": [pl.adir.input, pl.adir.inout]}})
        return s
        """,
        "task 0 aiv 0 in a out out\ntask 1 aiv 0 in out inout out",
    ),
    "results go by what the callee returns, not by their order": Case(
        f"""
        y: {T} = pl.tensor.create([16, 64], dtype=pl.FP32)
        p: pl.Tuple[{T}, {T}] = self.two(a, y, out)
        z1: {T} = p[0]
        y1: {T} = p[1]
        q: {T} = self.vec(y1, z1)
        return q
        """,
        "info 16 64 type 11\ntask 0 aiv 0 in a out new0 out out\ntask 1 aiv 1 in new0 out out",
    ),
    "scalars come last, floats by their bits": Case(
        f"""
        r: {T} = self.mat(3, a, out, 0.5)
        s: {T} = self.mat(k, r, out, f)
        return s
        """,
        "task 0 aic 0 in a inout out | 3 1056964608\ntask 1 aic 0 in out inout out | 7 1073741824",
        "k: pl.Scalar[pl.INDEX], f: pl.Scalar[pl.FP32]",
        scalars=("7", "to_u64(2.0f)"),
    ),
    "a kernel on both lanes is a mixed launch without a cube kernel": Case(
        f"r: {T} = self.both(a, out)\nreturn r", "task 0 mixed -1,0,0 in a out out"
    ),
    "blocks of a launch": Case(
        f'r: {T} = self.blocks(out, a, attrs={{"core_num": 4, "sync_start": True}})\nreturn r',
        "task 0 aiv 0 in a out out blocks 4 together",
    ),
    "a group with its pipe buffer, a share for each block": Case(
        f"""
        w: pl.Scalar[pl.INDEX] = k * 2
        b: pl.Tensor[[1], pl.FP32] = pl.tensor.create([1], dtype=pl.FP32, manual_dep=True)
        c: pl.Tensor[[1], pl.FP32] = pl.tensor.create([1], dtype=pl.FP32, manual_dep=True)
        r: {T} = self.pair(a, out, b)
        t: {R} = pl.spmd_submit(self.pairs, out, a, c, core_num=w)
        return r
        """,
        "info 2048 type 11 manual\ninfo 12288 type 11 manual\ntask 0 mixed 0,1,-1 in a out out out new0\n"
        "task 1 mixed 0,1,-1 in a out out out new1 blocks 6",
        "k: pl.Scalar[pl.INDEX]",
        scalars=("3",),
    ),
    "a buffer whose blocks are computed after it is made waits for its launch": Case(
        f"""
        c: pl.Tensor[[1], pl.FP32] = pl.tensor.create([1], dtype=pl.FP32, manual_dep=True)
        s: {T} = self.vec(a, out)
        w: pl.Scalar[pl.INDEX] = k * 2
        r: {T} = self.pairs(out, a, c, attrs={{"core_num": w}})
        return r
        """,
        "task 0 aiv 0 in a out out\ninfo 8192 type 11 manual\ntask 1 mixed 1,2,-1 in a out out out new0 blocks 4",
        "k: pl.Scalar[pl.INDEX]",
        scalars=("2",),
    ),
    "creation is batched where a scope begins, and late where a shape is computed": Case(
        f"""
        with pl.scope():
            s: {T} = self.vec(a, out)
            t: {T} = pl.tensor.create([16, 64], dtype=pl.FP32, init_value=1.5)
            m: pl.Scalar[pl.INDEX] = pl.max(k, 5) // 2
            u: pl.Tensor[[m, 64], pl.FP32] = pl.tensor.create([m, 64], dtype=pl.FP32)
            r: {T} = self.vec(t, out)
            v: {T} = self.vec(u, out)
            return v
        """,
        "scope {\ninfo 16 64 type 11\ninitial 1.5\ntask 0 aiv 0 in a out out\ninfo 4 64 type 11\n"
        "task 1 aiv 0 in new0 out out\ntask 2 aiv 0 in new1 out out\n}",
        "k: pl.Scalar[pl.INDEX]",
        scalars=("9",),
        keeps_scopes=True,
    ),
    "what a manual scope creates is made before it and used after it": Case(
        f"""
        with pl.scope():
            with pl.scope(mode=pl.ScopeMode.MANUAL):
                t: {T} = pl.tensor.create([16, 64], dtype=pl.FP32)
                s: {T} = self.vec(a, t)
            r: {T} = self.vec(s, out)
            return r
        """,
        "scope {\ninfo 16 64 type 11\nmanual {\ntask 0 aiv 0 in a out new0\n}\ntask 1 aiv 0 in new0 out out\n}",
        keeps_scopes=True,
    ),
    "a loop that writes in place carries nothing": Case(
        f"""
        for i, (acc,) in pl.range(0, 6, 2, init_values=(out,)):
            acc1: {T} = self.mat(i, a, acc, 1.0)
            res: {T} = pl.yield_(acc1)
        r: {T} = self.vec(res, out)
        return r
        """,
        "\n".join(f"task {t} aic 0 in a inout out | {i} 1065353216" for t, i in enumerate((0, 2, 4)))
        + "\ntask 3 aiv 1 in out out out",
    ),
    "a loop downwards": Case(
        f"for i in pl.range(2, 0, -1):\n    r: {T} = self.mat(i, a, out, 0.0)\nreturn out",
        "task 0 aic 0 in a inout out | 2 0\ntask 1 aic 0 in a inout out | 1 0",
    ),
    "tensors that change places in a loop": Case(
        f"""
        t: {T} = pl.tensor.create([16, 64], dtype=pl.FP32)
        for i, (p, q) in pl.range(3, init_values=(a, t)):
            q1: {T} = self.vec(p, q)
            x, y = pl.yield_(q1, p)
        r: {T} = self.vec(x, out)
        return r
        """,
        "info 16 64 type 11\ntask 0 aiv 0 in a out new0\ntask 1 aiv 0 in new0 out a\ntask 2 aiv 0 in a out new0\n"
        "task 3 aiv 0 in new0 out out",
    ),
    "scalars that feed each other in a loop": Case(
        f"""
        for i, (p, q) in pl.range(4, init_values=(1, 1)):
            n: pl.Scalar[pl.INDEX] = p + q
            x, y = pl.yield_(q, n)
        r: {T} = self.mat(x * 100 + y, a, out, 0.0)
        return r
        """,
        "task 0 aic 0 in a inout out | 508 0",
    ),
    "a while loop": Case(
        f"""
        w: pl.Scalar[pl.INDEX] = 1
        for (v,) in pl.while_(init_values=(w,)):
            pl.cond(v < 20)
            u: pl.Scalar[pl.INDEX] = v * 3
            z = pl.yield_(u)
        r: {T} = self.mat(z, a, out, 0.0)
        return r
        """,
        "task 0 aic 0 in a inout out | 27 0",
    ),
    "a branch that keeps a tensor and one that chooses": Case(
        f"""
        t: {T} = pl.tensor.create([16, 64], dtype=pl.FP32)
        for i in pl.range(2):
            if i == 0:
                s: {T} = self.vec(a, t)
                same, chosen, number = pl.yield_(s, a, 5)
            else:
                s2: {T} = self.vec(out, t)
                same, chosen, number = pl.yield_(s2, t, i + 6)
            r: {T} = self.mat(number, chosen, same, 0.0)
        return out
        """,
        "info 16 64 type 11\ntask 0 aiv 0 in a out new0\ntask 1 aic 1 in a inout new0 | 5 0\n"
        "task 2 aiv 0 in out out new0\ntask 3 aic 1 in new0 inout new0 | 7 0",
    ),
    "elements are read and written, dimensions come from shapes": Case(
        f"""
        c: pl.Scalar[pl.INT32] = pl.tensor.read(cfg, [1, 2])
        d: pl.Scalar[pl.INDEX] = pl.cast(c, pl.INDEX) + M
        x: pl.Tensor[[M, 4], pl.INT32] = pl.tensor.write(cfg, [0, 3], c)
        r: {T} = self.mat(d, a, out, 0.0)
        s: {T} = self.mat(pl.tensor.dim(cfg, 0) * 10, a, out, 0.0)
        return s
        """,
        "write cfg,0,3 = 6\ntask 0 aic 0 in a inout out | 8 0\ntask 1 aic 0 in a inout out | 20 0",
        "cfg: pl.Tensor[[M, 4], pl.INT32]",
        tensors=('ChipTensor("cfg", {2, 4}, elements)',),
    ),
    "views": Case(
        f"""
        p: {T} = pl.tensor.slice(big, [16, 64], [k * 16, 0])
        q: pl.Tensor[[64, 16], pl.FP32] = pl.tensor.transpose(a, -2, -1)
        s: pl.Tensor[[1024], pl.FP32] = pl.tensor.reshape(a, [1024])
        r1: {T} = self.vec(q, out)
        r2: {T} = self.vec(s, p)
        b2: pl.Tensor[[64, 64], pl.FP32] = pl.tensor.assemble(big, r2, [k * 16, 0])
        r3: {T} = self.vec(b2, out)
        return r3
        """,
        "task 0 aiv 0 in a.transpose out out\ntask 1 aiv 0 in a.reshape out big[32:48,0:64]\n"
        "task 2 aiv 0 in big out out",
        "big: pl.Out[pl.Tensor[[64, 64], pl.FP32]], k: pl.Scalar[pl.INDEX]",
        tensors=('ChipTensor("big", {64, 64})',),
        scalars=("2",),
    ),
    "tasks wait for tasks, and for all trips of a parallel loop": Case(
        f"""
        with pl.scope(mode=pl.ScopeMode.MANUAL):
            t0: {R} = pl.submit(self.vec, a, out)
            x0: {T} = t0[0]
            id0: pl.Scalar[pl.TASK_ID] = t0[1]
            none: pl.Scalar[pl.TASK_ID] = pl.system.task_invalid()
            for i, (prev,) in pl.parallel(2, 8, 2, init_values=(none,)):
                t1: {R} = pl.submit(self.vec, a, out, deps=[id0])
                id1: pl.Scalar[pl.TASK_ID] = t1[1]
                ids = pl.yield_(id1)
            t2: {R} = pl.submit(self.vec, a, out, deps=[ids, id0, none])
            id2: pl.Scalar[pl.TASK_ID] = t2[1]
        return out
        """,
        "task 0 aiv 0 in a out out\n"
        + "".join(f"task {i} aiv 0 in a out out after 0\n" for i in (1, 2, 3))
        + "task 4 aiv 0 in a out out after 1 2 3 0",
    ),
    "phases of a parallel loop wait for the phase before": Case(
        f"""
        with pl.scope(mode=pl.ScopeMode.MANUAL):
            none: pl.Scalar[pl.TASK_ID] = pl.system.task_invalid()
            for phase, (outer,) in pl.range(2, init_values=(none,)):
                for i, (inner,) in pl.parallel(2, init_values=(outer,)):
                    t: {R} = pl.submit(self.vec, a, out, deps=[inner])
                    i1: pl.Scalar[pl.TASK_ID] = t[1]
                    ids = pl.yield_(i1)
                alls = pl.yield_(ids)
        return out
        """,
        "task 0 aiv 0 in a out out after\ntask 1 aiv 0 in a out out after\n"
        "task 2 aiv 0 in a out out after 0 1\ntask 3 aiv 0 in a out out after 0 1",
    ),
    "arrays of task ids, copied only where the old one is still needed": Case(
        f"""
        with pl.scope(mode=pl.ScopeMode.MANUAL):
            tids: pl.Array[2, pl.TASK_ID] = pl.array.create(2, dtype=pl.TASK_ID)
            t: {R} = pl.submit(self.vec, a, out)
            i1: pl.Scalar[pl.TASK_ID] = t[1]
            one: pl.Array[2, pl.TASK_ID] = pl.array.update_element(tids, 1, i1)
            u: {R} = pl.submit(self.vec, a, out, deps=[tids])
            i2: pl.Scalar[pl.TASK_ID] = u[1]
            two: pl.Array[2, pl.TASK_ID] = pl.array.update_element(one, 0, i2)
            v: {R} = pl.submit(self.vec, a, out, deps=[two])
            first: pl.Scalar[pl.TASK_ID] = pl.array.get_element(two, 1)
            w: {R} = pl.submit(self.vec, a, out, deps=[first])
        return out
        """,
        "task 0 aiv 0 in a out out\ntask 1 aiv 0 in a out out after\ntask 2 aiv 0 in a out out after 1 0\n"
        "task 3 aiv 0 in a out out after 0",
    ),
    "an array under two names is copied while one of them is still read": Case(
        f"""
        with pl.scope(mode=pl.ScopeMode.MANUAL):
            tids: pl.Array[2, pl.TASK_ID] = pl.array.create(2, dtype=pl.TASK_ID)
            for i, (carried,) in pl.range(2, init_values=(tids,)):
                old: pl.Array[2, pl.TASK_ID] = carried
                t: {R} = pl.submit(self.vec, a, out)
                tid: pl.Scalar[pl.TASK_ID] = t[1]
                new: pl.Array[2, pl.TASK_ID] = pl.array.update_element(carried, i, tid)
                u: {R} = pl.submit(self.vec, a, out, deps=[old])
                last = pl.yield_(new)
            v: {R} = pl.submit(self.vec, a, out, deps=[last])
        return out
        """,
        "task 0 aiv 0 in a out out\ntask 1 aiv 0 in a out out after\ntask 2 aiv 0 in a out out\n"
        "task 3 aiv 0 in a out out after 0\ntask 4 aiv 0 in a out out after 0 2",
    ),
    "tasks without work": Case(
        f"""
        with pl.scope(mode=pl.ScopeMode.MANUAL):
            free: pl.Scalar[pl.TASK_ID] = pl.system.task_dummy(deps=[])
            tids: pl.Array[2, pl.TASK_ID] = pl.array.create(2, dtype=pl.TASK_ID)
            empty: pl.Scalar[pl.TASK_ID] = pl.system.task_dummy(deps=[tids])
            t: {R} = pl.submit(self.vec, a, out, deps=[free, empty])
            tid: pl.Scalar[pl.TASK_ID] = t[1]
            both: pl.Scalar[pl.TASK_ID] = pl.system.task_dummy(deps=[tid, free])
        return out
        """,
        "task 0 dummy\ntask 1 aiv 0 in a out out after 0\ntask 2 dummy after 1 0",
    ),
    "predicates, early dispatch, dumps": Case(
        f"""
        with pl.scope(mode=pl.ScopeMode.MANUAL):
            t: {R} = pl.submit(self.vec, a, out, predicate=({ELEMENT} > -3), allow_early_resolve=True, dumps=[a])
            u: {R} = pl.submit(self.vec, a, out, predicate=(0 < pl.tensor.read(cfg, [0, 0])))
        return out
        """,
        "task 0 aiv 0 in a out out dump a if cfg,1,3 op 3 -3 early\ntask 1 aiv 0 in a out out if cfg,0,0 op 3 0",
        "cfg: pl.Tensor[[2, 4], pl.INT32], k: pl.Scalar[pl.INDEX]",
        tensors=('ChipTensor("cfg", {2, 4}, elements)',),
        scalars=("3",),
    ),
    "no dependency": Case(
        f'r: {T} = self.vec(a, out, attrs={{"arg_directions": [pl.adir.no_dep, pl.adir.output_existing]}})\nreturn r',
        "task 0 aiv 0 nodep a out out",
    ),
}


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One program with the orchestration of every case; its argument says which one runs."""
    if COMPILER is None:
        pytest.skip("no C++ compiler on this machine")
    folder = tmp_path_factory.mktemp("orchestration")
    parts = ["const int64_t elements[] = {0, 1, 2, 3, 4, 5, 6, 7};\n#include <cstdlib>\n"]
    calls_text = []
    for number, case in enumerate(CASES.values()):
        text = orchestration(program_of(case.body, case.params))
        parts.append(text.replace("aicpu_orchestration_", f"case_{number}_"))
        tensors = ['ChipTensor("a", {16, 64})', 'ChipTensor("out", {16, 64})', *case.tensors]
        listed = ", ".join(f"TensorRef{{{t}}}" for t in tensors)
        count = len(tensors) + len(case.scalars)
        calls_text.append(
            f"    case {number}: {{\n        ChipTaskArgs args{{{{{listed}}}, {{{', '.join(case.scalars)}}}}};\n"
            f"        if (case_{number}_config(args).expected_arg_count != {count}) return 3;\n"
            f"        case_{number}_entry(args);\n        return 0;\n    }}\n"
        )
    main_text = "int main(int, char** argv) {\n    switch (atoi(argv[1])) {\n" + "".join(calls_text) + "    }\n}\n"
    source = folder / "cases.cpp"
    source.write_text('#include "pto_orchestration_api.h"\n' + "".join(parts) + main_text, encoding="utf-8")
    target = folder / "cases"
    command = [COMPILER, "-std=c++20", "-w", f"-I{DATA / 'cpp'}", str(source), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return target


@pytest.mark.parametrize("name", CASES)
def test_what_the_runtime_is_asked_for(name: str, binary: Path) -> None:
    case = CASES[name]
    number = list(CASES).index(name)
    done = subprocess.run([str(binary), str(number)], capture_output=True, text=True, timeout=30, check=False)
    lines = [x for x in done.stdout.splitlines() if case.keeps_scopes or x not in ("scope {", "manual {", "}")]
    assert lines == case.lines.strip().splitlines()
    assert done.returncode == 0


# --- expressions ------------------------------------------------------------------------------------------------------

ARITHMETIC = {
    "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b,
    "FloorDiv": lambda a, b: int(a / b), "FloorMod": lambda a, b: a - int(a / b) * b, "Min": min, "Max": max,
    "BitAnd": lambda a, b: a & b, "BitOr": lambda a, b: a | b, "BitXor": lambda a, b: a ^ b,
}  # fmt: skip
"""Operators by what they are on the device: integer division truncates."""
TRUTHS = {"Lt": lambda a, b: a < b, "Ge": lambda a, b: a >= b, "Eq": lambda a, b: a == b, "Ne": lambda a, b: a != b}


def random_expression(rng: random.Random, leaves: dict[n.Expr, int], depth: int) -> tuple[n.Expr, int]:
    """An expression over variables and constants, and its value."""
    if depth == 0 or rng.random() < 0.15:
        if rng.random() < 0.3:
            value = rng.randint(-9, 9)
            return n.const(value), value
        return rng.choice(list(leaves.items()))
    left, a = random_expression(rng, leaves, depth - 1)
    right, b = random_expression(rng, leaves, depth - 1)
    match rng.randrange(8):
        case 0:
            return n.Unary(op="Neg", operand=left, type=n.INDEX), -a
        case 1:
            return n.Unary(op="Abs", operand=left, type=n.INDEX), abs(a)
        case 2:
            name = rng.choice(list(TRUTHS))
            truth = n.Binary(op=name, left=left, right=right, type=n.BOOL)
            return n.Unary(op="Cast", operand=truth, type=n.INDEX), int(TRUTHS[name](a, b))
    name = rng.choice([k for k in ARITHMETIC if b or not k.startswith("Floor")])
    return n.Binary(op=name, left=left, right=right, type=n.INDEX), ARITHMETIC[name](a, b)


@needs_compiler
def test_expressions_keep_their_value(tmp_path: Path) -> None:
    """Three hundred expressions in one program: parentheses stand where C++ binds otherwise than the tree."""
    program = program_of("return out", "i: pl.Scalar[pl.INDEX], j: pl.Scalar[pl.INDEX]")
    state = State(program, orchestration_function(program), "a2a3", {})
    values = dict(zip((p.var for p in state.function.params[2:]), (11, -5), strict=True))
    for var in values:
        state.bind(var, var.name)
    rng = random.Random(0)
    made = [random_expression(rng, dict(values), 4) for _ in range(300)]
    lines = [f'    std::printf("%lld\\n", static_cast<long long>({scalar(state, e)}));' for e, _ in made]
    includes = "".join(f"#include <{name}>\n" for name in sorted(state.includes | {"cstdio", "cstdint"}))
    text = f"{includes}int main() {{\n    int64_t i = 11, j = -5;\n" + "\n".join(lines) + "\n}\n"
    source = tmp_path / "expressions.cpp"
    source.write_text(text, encoding="utf-8")
    assert COMPILER is not None
    command = [COMPILER, "-std=c++20", "-w", str(source), "-o", str(tmp_path / "expressions")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    ran = subprocess.run([str(tmp_path / "expressions")], capture_output=True, text=True, timeout=30, check=True)
    assert [int(line) for line in ran.stdout.split()] == [value for _, value in made]


def test_an_array_that_a_loop_fills_is_filled_in_place() -> None:
    body = f"""
        with pl.scope(mode=pl.ScopeMode.MANUAL):
            for phase in pl.range(2):
                tids: pl.Array[2, pl.TASK_ID] = pl.array.create(2, dtype=pl.TASK_ID)
                for i, (carried,) in pl.parallel(2, init_values=(tids,)):
                    t: {R} = pl.submit(self.vec, a, out)
                    tid: pl.Scalar[pl.TASK_ID] = t[1]
                    new: pl.Array[2, pl.TASK_ID] = pl.array.update_element(carried, i, tid)
                    last = pl.yield_(new)
                v: {R} = pl.submit(self.vec, a, out, deps=[last])
        return out
        """
    text = orchestration(program_of(body))
    assert "tids[i] = tid;" in text
    assert text.count("PTO2TaskId tids") == 1
    assert "carried" not in text


# --- refusals ---------------------------------------------------------------------------------------------------------

REFUSED = {
    "an op for kernels": ("E680", f"r: {T} = pl.tensor.add(a, a)\nreturn r", "", "`tensor.add`"),
    "a scope that is not outlined": (
        "E680",
        f"with pl.at(level=pl.Level.CORE_GROUP):\n    r: {T} = self.vec(a, out)\nreturn out",
        "",
        "InCoreScope",
    ),
    "a part with memory of its own": (
        "E680",
        f"t: {T} = pl.tensor.create([16, 64], dtype=pl.FP32)\nb: {T} = pl.tensor.assemble(out, t, [0, 0])\nreturn b",
        "",
        "nothing would copy it",
    ),
    "trips that are not known": (
        "E680",
        f"""
        with pl.scope(mode=pl.ScopeMode.MANUAL):
            none: pl.Scalar[pl.TASK_ID] = pl.system.task_invalid()
            for i, (prev,) in pl.parallel(k, init_values=(none,)):
                t: {R} = pl.submit(self.vec, a, out)
                i1: pl.Scalar[pl.TASK_ID] = t[1]
                ids = pl.yield_(i1)
        return out
        """,
        "k: pl.Scalar[pl.INDEX]",
        "number of trips",
    ),
    "a power": ("E680", f"r: {T} = self.mat(k ** k, a, out, 0.0)\nreturn r", "k: pl.Scalar[pl.INDEX]", "Pow"),
    "a callee that no core runs": ("E681", f"r: {T} = self.main(a, out)\nreturn r", "", "Orchestration"),
    "an id from a scope that has ended": (
        "E682",
        f"""
        for i in pl.range(2):
            with pl.scope():
                t: {R} = pl.submit(self.vec, a, out)
                tid: pl.Scalar[pl.TASK_ID] = t[1]
        u: {R} = pl.submit(self.vec, a, out, deps=[tid])
        return out
        """,
        "",
        "`tid`",
    ),
    "a tensor from a scope that has ended": (
        "E682",
        f"""
        with pl.scope():
            t: {T} = pl.tensor.create([16, 64], dtype=pl.FP32)
            s: {T} = self.vec(a, t)
        r: {T} = self.vec(s, out)
        return r
        """,
        "",
        "`t`",
    ),
    "a scalar as a result": (
        "E683",
        f"n: pl.Tuple[{T}, pl.Scalar[pl.INDEX]] = self.two(a, out, out)\n"
        f"m: pl.Scalar[pl.INDEX] = n[1]\nr: {T} = self.mat(m, a, out, 0.0)\nreturn r",
        "",
        "`m`",
    ),
    "half a float on the host": ("E684", f"r: {T} = self.mat(1, a, out, h)\nreturn r", "h: pl.Scalar[pl.FP16]", "FP16"),
    "a tensor the runtime has not": (
        "E684",
        f"t: pl.Tensor[[4], pl.FP64] = pl.tensor.create([4], dtype=pl.FP64)\nr: {T} = self.vec(t, out)\nreturn r",
        "",
        "FP64",
    ),
    "a predicate on two tensors": (
        "E685",
        f"t: {R} = pl.submit(self.vec, a, out, "
        "predicate=(pl.tensor.read(cfg, [0]) > pl.tensor.read(cfg, [1])))\nreturn out",
        "cfg: pl.Tensor[[4], pl.INT32]",
        "integer literal",
    ),
    "a predicate on a float": (
        "E685",
        f"t: {R} = pl.submit(self.vec, a, out, predicate=(pl.tensor.read(a, [0, 0]) > 1))\nreturn out",
        "",
        "integer",
    ),
    "a dimension nobody shows": (
        "E687",
        f"r: {T} = self.mat(M * 2, a, out, 0.0)\nreturn r",
        "c: pl.Tensor[[M * M, 4], pl.FP32]",
        "`M`",
    ),
    "directions that do not fit": (
        "E688",
        f'r: {T} = self.vec(a, out, attrs={{"arg_directions": [pl.adir.input, pl.adir.scalar]}})\nreturn r',
        "",
        "input, scalar",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_the_matter_and_its_line(name: str) -> None:
    code, body, params, words = REFUSED[name]
    program = program_of(body, params)
    with pytest.raises(LabError) as caught:
        orchestration(program)
    found = caught.value.diagnostics[0]
    assert found.code == code
    assert words in found.message
    assert found.span is not None
    main_line = next(i for i, row in enumerate(program_text(program).splitlines(), 1) if "def main" in row)
    assert found.span.line >= main_line
    assert f":{found.span.line}:" in str(caught.value)


def program_text(program: n.Program) -> str:
    return next(iter(program.sources.values()))


def test_the_kernels_of_a_group_take_one_list_of_arguments() -> None:
    uneven = KERNELS.replace("self.lane(x, y, __gm_pipe_buffer)", "self.lane(y, x, __gm_pipe_buffer)")
    body = f"""
        b: pl.Tensor[[1], pl.FP32] = pl.tensor.create([1], dtype=pl.FP32)
        r: {T} = self.pair(a, out, b)
        return r
        """
    with pytest.raises(LabError) as caught:
        orchestration(program_of(body, kernels_text=uneven))
    assert caught.value.diagnostics[0].code == "E686"
    assert "`cube`, `lane`" in caught.value.diagnostics[0].message


def test_a_derived_dependency_out_of_reach_is_left_out_and_a_stated_one_is_an_error() -> None:
    body = f"""
        with pl.scope():
            t: {R} = pl.submit(self.vec, a, out)
            tid: pl.Scalar[pl.TASK_ID] = t[1]
        u: {T} = self.vec(a, out, attrs={{"compiler_manual_dep_edges": [tid]}})
        return out
        """
    assert "set_dependencies" not in orchestration(program_of(body))
    inside = body.replace("        u: ", "            u: ")
    assert "params_t1.set_dependencies" in orchestration(program_of(inside))


def test_unknown_runtimes_architectures_and_functions_are_errors() -> None:
    program = real_program("k28_two_stage_program")
    assert orchestration(program, runtime="host_build_graph") == orchestration(program)
    with pytest.raises(LabError, match=r"tensormap_and_ringbuffer.*host_build_graph"):
        orchestration(program, runtime="host_build")
    with pytest.raises(LabError, match="E656"):
        orchestration(program, function="main")
    with pytest.raises(ValueError, match="a2a3, a5"):
        orchestration(program, "a3")


def test_the_architectures_name_the_number_of_blocks_differently() -> None:
    program = real_program("k29_spmd_blocks")
    assert "launch_spec.set_block_num(4);" in orchestration(program, "a2a3")
    assert "launch_spec.set_core_num(4);" in orchestration(program, "a5")


def test_the_numbers_of_kernels_are_those_of_the_configuration() -> None:
    program = real_program("k30_pipe_two_groups")
    numbers = {k.name: k.func_id for k in kernels(program, orchestration_function(program))}
    text = orchestration(program)
    assert f"{{{numbers['feed_aic']}, {numbers['feed_aiv']}, {numbers['feed_aiv']}}}" in text


@pytest.mark.parametrize(
    ("pipes", "elements"),
    [
        ("dir_mask=1, slot_size=4096, slot_num=2", 2048),
        ("dir_mask=1, slot_size=2048", 4096),
        ("dir_mask=3, slot_size=4096", 8192),
        ("dir_mask=3, slot_size=4096, slot_num=2", 4096),
    ],
)
def test_a_pipe_buffer_holds_all_slots_of_all_pipes(pipes: str, elements: int) -> None:
    program = program_of("return out", kernels_text=KERNELS.replace("dir_mask=1, slot_size=4096, slot_num=2", pipes))
    ends = [program.functions["cube"], program.functions["lane"]]
    assert pipe_buffer_elements(ends) == elements
    assert pipe_buffer_elements(ends[:1]) == elements
    assert pipe_buffer_elements([program.functions["vec"]]) == 0


def test_names_of_cpp_are_left_to_cpp() -> None:
    text = orchestration(
        program_of(
            f"double: pl.Scalar[pl.INDEX] = k * 2\nr: {T} = self.mat(double, a, out, 0.0)\nreturn r",
            "k: pl.Scalar[pl.INDEX]",
        )
    )
    assert "int64_t _double = k * 2;" in text
