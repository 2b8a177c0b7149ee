"""The script as text: what it holds, how it reads, and that it runs without the lab."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_texts import incore, kernel_code, outputs, program

import pypto_lab.torch_codegen as torch_codegen
from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import ScalarType
from pypto_lab.ir.visitor import walk
from pypto_lab.torch_codegen.expressions import Expressions
from pypto_lab.torch_codegen.generate import generate
from pypto_lab.torch_codegen.liveness import Plan
from pypto_lab.torch_codegen.names import Names, sanitised
from pypto_lab.torch_codegen.preamble import library, preamble

ADD = """
    t: V16 = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)
    u: V16 = pl.tile.add(t, t)
    o: T16 = pl.tile.store(u, [0, 0], out)
    return o
"""
PARAMETERS = "x: T16, out: pl.Out[T16]"


def test_the_package_is_called_for_text() -> None:
    made = incore(ADD, PARAMETERS)
    text = torch_codegen(made)  # type: ignore[operator]
    assert text == generate(made).text
    assert "def kernel(x, out):" in text
    assert torch_codegen(made.functions["kernel"]).count("def kernel(x, out):") == 1  # type: ignore[operator]


@pytest.mark.parametrize("node", [None, "text", 3, n.const(1)])
def test_other_nodes_are_refused(node: object) -> None:
    with pytest.raises(TypeError, match="Program or Function"):
        torch_codegen(node)  # type: ignore[operator]


def test_an_unknown_op_is_refused_with_its_place() -> None:
    call = n.OpCall(op="tile.no_such", args=(), type=n.INDEX, span=Span("k.py", 7, 5, 7, 20))
    function = n.Function(name="f", params=(), return_types=(), body=(n.Eval(expr=call),))
    with pytest.raises(ValueError, match=r"k\.py:7:5: op tile\.no_such has no torch form"):
        generate(function)


def test_a_script_carries_only_what_it_uses() -> None:
    text = generate(incore(ADD, PARAMETERS)).text
    assert text.count("from __future__") == 1
    assert "pypto_lab" not in text
    assert "_CrossCoreRuntime" not in text
    assert "def _tile_load" in text


def test_every_definition_can_be_carried() -> None:
    names: dict[str, object] = {}
    exec(preamble(frozenset(library().definitions)), names)
    assert set(library().definitions) <= set(names)


def test_a_script_runs_where_the_lab_is_not(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        generate(incore(ADD, PARAMETERS), check_shapes=True).text
        + "\nout = torch.zeros(16, 16)\nkernel(torch.full((16, 16), 1.5), out)\nassert out.eq(3.0).all()\n"
    )
    start = "import runpy, sys; sys.modules['pypto_lab'] = None; runpy.run_path(sys.argv[1])"
    subprocess.run([sys.executable, "-O", "-c", start, str(script)], check=True, timeout=120)


def test_one_statement_an_ir_statement() -> None:
    made = incore(ADD, PARAMETERS)
    rows = kernel_code(made).splitlines()
    assert rows == [
        "def kernel(x, out):",
        "    t = _tile_load(x, [0, 0], [16, 16], [16, 16])",
        "    u = torch.add(t, t)",
        "    o = _tile_store(u, [0, 0], out)",
        "    return o",
    ]


def test_lines_lead_both_ways() -> None:
    made = incore(ADD, PARAMETERS)
    script = generate(made)
    for stmt in made.functions["kernel"].body or ():
        line = script.lines[script.line_of(stmt) or 0]
        assert line.stmt is stmt
        assert line.function == "kernel"
        assert stmt.span is not None
        assert script.source(line.number) == f"kernel.py:{stmt.span.line}"
    assert script.names["kernel"]["u"].name == "u"
    assert script.row(script.first_kernel_line) == "def kernel(x, out):"
    assert script.source(1) == ""


def test_every_statement_of_a_kernel_has_a_line() -> None:
    made = incore(
        """
        for i, (a,) in pl.range(0, 4, 2, init_values=(out,)):
            if i < 2:
                t: V16 = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)
                b: T16 = pl.tile.store(t, [0, 0], a)
                c: T16 = pl.yield_(b)
            else:
                c: T16 = pl.yield_(a)
            o: T16 = pl.yield_(c)
        return o
        """,
        PARAMETERS,
    )
    script = generate(made)
    mapped = {line.stmt for line in script.lines.values()}
    for node in walk(made.functions["kernel"]):
        if isinstance(node, n.Stmt):
            assert node in mapped, node


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "name"),
    [("x__ssa_v0", "x_ssa_v0"), ("a.b-c", "a_b_c"), ("3d", "v_3d"), ("", "v"), ("__", "v"), ("é", "v")],
)
def test_names_are_made_identifiers(printed: str, name: str) -> None:
    assert sanitised(printed) == name


@given(st.lists(st.text(max_size=6), max_size=12))
@settings(deadline=None)
def test_names_never_clash(printed: list[str]) -> None:
    names = Names({"taken", "_tile_load"})
    given_names = [
        names.of(n.Var(name=text, type=n.INDEX)) for text in [*printed, "taken", "_tile_load", "torch", "if"]
    ]
    assert len(set(given_names)) == len(given_names)
    assert not {"taken", "_tile_load", "torch", "if"} & set(given_names)
    assert all(name.isidentifier() for name in given_names)


def test_equal_names_of_different_variables_stay_apart() -> None:
    made = program(
        """
        @pl.function(type=pl.FunctionType.InCore)
        def kernel(out: pl.Out[pl.Tensor[[2], pl.INT32]]):
            for i, (a,) in pl.range(2, init_values=(1,)):
                a_o = pl.yield_(a + 1)
            for i, (a,) in pl.range(3, init_values=(10,)):
                a_p = pl.yield_(a + 1)
            pl.tensor.write(out, [0], a_o)
            pl.tensor.write(out, [1], a_p)
        """
    )
    assert outputs(made, {"out": torch.zeros(2, dtype=torch.int32)})["out"].tolist() == [3, 13]


# --- scalar expressions -----------------------------------------------------------------------------------------------

A, B = (n.Var(name=name, type=ScalarType(dtypes.INT64)) for name in "ab")


def scalar_trees(dtype: DType) -> st.SearchStrategy[n.Expr]:
    type_ = ScalarType(dtype)
    leaves = st.one_of(
        st.sampled_from([n.Var(name=v.name, type=type_) for v in (A, B)]),
        st.integers(-5, 5).map(lambda v: n.ConstInt(value=v, type=type_)),
    )

    def grow(children: st.SearchStrategy[n.Expr]) -> st.SearchStrategy[n.Expr]:
        binary = st.sampled_from(["Add", "Sub", "Mul", "Min", "Max", "BitAnd", "BitOr", "BitXor"])
        unary = st.sampled_from(["Neg", "Abs", "BitNot"])
        return st.one_of(
            st.builds(lambda op, x, y: n.Binary(op=op, left=x, right=y, type=type_), binary, children, children),
            st.builds(lambda op, x: n.Unary(op=op, operand=x, type=type_), unary, children),
        )

    return st.recursive(leaves, grow, max_leaves=12)


def meaning(expr: n.Expr, values: dict[str, int], bits: int) -> int:
    """The value of a tree by its definition, every step at `bits` bits."""

    def wrapped(value: int) -> int:
        low = value & ((1 << bits) - 1)
        return low - (1 << bits) if low >> (bits - 1) else low

    match expr:
        case n.Var():
            return values[expr.name]
        case n.ConstInt():
            return expr.value
        case n.Unary():
            x = meaning(expr.operand, values, bits)
            return wrapped({"Neg": -x, "Abs": abs(x), "BitNot": ~x}[expr.op])
        case n.Binary():
            x, y = meaning(expr.left, values, bits), meaning(expr.right, values, bits)
            results = {
                "Add": x + y, "Sub": x - y, "Mul": x * y, "Min": min(x, y), "Max": max(x, y),
                "BitAnd": x & y, "BitOr": x | y, "BitXor": x ^ y,
            }  # fmt: skip
            return wrapped(results[expr.op])
    raise AssertionError(expr)


def evaluated(expr: n.Expr, values: dict[str, int]) -> object:
    names = Names()
    for node in walk(expr):
        if isinstance(node, n.Var):
            names.bind(node, node.name)
    text = Expressions(names, {}, {}, {}, Plan()).text(expr)
    namespace: dict[str, object] = {}
    exec(preamble(frozenset({"_i32", "_cast_scalar"})), namespace)
    return eval(text, namespace | dict(values))


@settings(deadline=None, max_examples=150)
@given(scalar_trees(dtypes.INDEX), st.integers(-9, 9), st.integers(-9, 9))
def test_index_expressions_mean_what_their_tree_means(tree: n.Expr, a: int, b: int) -> None:
    assert evaluated(tree, {"a": a, "b": b}) == meaning(tree, {"a": a, "b": b}, 64)


@settings(deadline=None, max_examples=150)
@given(scalar_trees(dtypes.INT32), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31) + 1, 2**31 - 1))
def test_int32_expressions_wrap_at_every_step(tree: n.Expr, a: int, b: int) -> None:
    values = {"a": a, "b": b}
    has_smallest_abs = any(isinstance(x, n.Unary) and x.op == "Abs" for x in walk(tree))
    if not has_smallest_abs:  # |-2**31| has no INT32 value; devices differ there
        assert evaluated(tree, values) == meaning(tree, values, 32)


def test_truth_values_and_comparisons() -> None:
    x = n.Var(name="a", type=n.INDEX)
    small = n.Binary(op="Lt", left=x, right=n.const(3), type=n.BOOL)
    even = n.Binary(
        op="Eq", left=n.Binary(op="FloorMod", left=x, right=n.const(2), type=n.INDEX), right=n.const(0), type=n.BOOL
    )
    cases = {
        "And": lambda v: v < 3 and v % 2 == 0,
        "Or": lambda v: v < 3 or v % 2 == 0,
        "Xor": lambda v: (v < 3) != (v % 2 == 0),
    }
    for op, expected in cases.items():
        tree = n.Unary(op="Not", operand=n.Binary(op=op, left=small, right=even, type=n.BOOL), type=n.BOOL)
        for value in range(6):
            assert evaluated(tree, {"a": value}) is (not expected(value)), (op, value)


def test_floor_division_and_powers_group_as_the_tree_does() -> None:
    x = n.Var(name="a", type=n.INDEX)

    def binary(op: str, left: n.Expr, right: n.Expr) -> n.Expr:
        return n.Binary(op=op, left=left, right=right, type=n.INDEX)

    trees = {
        binary("Sub", n.const(20), binary("Sub", x, n.const(3))): 20 - (7 - 3),
        binary("FloorDiv", n.const(40), binary("Mul", x, n.const(2))): 40 // (7 * 2),
        binary("Pow", binary("Pow", n.const(2), n.const(3)), n.const(2)): 64,
        binary("Pow", n.const(2), binary("Pow", n.const(3), n.const(2))): 512,
        binary("Mul", n.Unary(op="Neg", operand=x, type=n.INDEX), n.const(-2)): 14,
    }
    for tree, expected in trees.items():
        assert evaluated(tree, {"a": 7}) == expected


# --- statements -------------------------------------------------------------------------------------------------------


def test_returns_stand_in_branches_and_scopes() -> None:
    made = program(
        """
        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, flag: pl.Scalar[pl.INDEX], a: T16, b: T16) -> T16:
            with pl.scope():
                if flag > 0:
                    return a
                else:
                    return b
        """
    )
    namespace: dict[str, object] = {}
    exec(generate(made).text, namespace)
    main = namespace["main"]
    assert main(1, "a", "b") == "a"  # type: ignore[operator]
    assert main(0, "a", "b") == "b"  # type: ignore[operator]


def test_several_results_go_through_tuples() -> None:
    made = program(
        """
        @pl.function(type=pl.FunctionType.InCore)
        def both(x: T16, a: pl.Out[T16], b: pl.Out[T16]) -> tuple[T16, T16]:
            t: V16 = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)
            a1: T16 = pl.tile.store(t, [0, 0], a)
            b1: T16 = pl.tile.store(pl.tile.muls(pl.tile.add(t, t), -1.0), [0, 0], b)
            return a1, b1
        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, x: T16, a: pl.Out[T16], b: pl.Out[T16]) -> tuple[T16, T16]:
            r: pl.Tuple[T16, T16] = self.both(x, a, b)
            second: T16 = r[1]
            first: T16 = r[0]
            return second, first
        """
    )
    x = torch.rand(16, 16)
    got = outputs(made, {"x": x, "a": torch.zeros(16, 16), "b": torch.zeros(16, 16)})
    assert torch.equal(got["a"], x)
    assert torch.equal(got["b"], -2 * x)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_loops_carry_values_also_when_they_do_not_turn(count: int) -> None:
    made = incore(
        """
        for i, (total, last) in pl.range(1, n + 1, init_values=(pl.const(0, pl.INT64), pl.const(7, pl.INT64))):
            if i % 2 == 0:
                step: pl.Scalar[pl.INT64] = pl.yield_(total)
            else:
                step: pl.Scalar[pl.INT64] = pl.yield_(total + i)
            total_o, last_o = pl.yield_(step, total)
        pl.tensor.write(out, [0], total_o)
        pl.tensor.write(out, [1], last_o)
        """,
        "n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[2], pl.INT64]]",
    )
    total, last = 0, 7
    for i in range(1, count + 1):
        total, last = (total if i % 2 == 0 else total + i), total
    got = outputs(made, {"n": count, "out": torch.zeros(2, dtype=torch.int64)})["out"]
    assert got.tolist() == [total, last]


def test_while_loops_of_both_forms() -> None:
    made = incore(
        """
        for (i, product) in pl.while_(init_values=(1, 1)):
            pl.cond(i < n)
            i_o, product_o = pl.yield_(i + 1, product * i)
        k: pl.Scalar[pl.INDEX] = 0
        while k < n:
            k = k + 2
        pl.tensor.write(out, [0], product_o)
        pl.tensor.write(out, [1], k)
        """,
        "n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[2], pl.INT64]]",
    )
    assert outputs(made, {"n": 5, "out": torch.zeros(2, dtype=torch.int64)})["out"].tolist() == [24, 6]


def test_break_and_continue() -> None:
    made = incore(
        """
        count: pl.Scalar[pl.INDEX] = 0
        for i in pl.range(100):
            if i % 3 == 0:
                continue
            if i > 10:
                break
            count = count + 1
        pl.tensor.write(out, [0], count)
        """,
        "out: pl.Out[pl.Tensor[[1], pl.INT64]]",
    )
    expected = sum(1 for i in range(11) if i % 3)
    assert outputs(made, {"out": torch.zeros(1, dtype=torch.int64)})["out"].item() == expected


def test_comments_stay_with_their_statement() -> None:
    function = n.Function(
        name="f",
        params=(),
        return_types=(),
        body=(n.Return(values=(n.const(3),), leading_comments=("three", "of them")),),
    )
    assert "    # three\n    # of them\n    return 3" in generate(function).text


def test_functions_without_a_body_say_so_when_called() -> None:
    function = n.Function(name="outside", params=(), return_types=(), body=None)
    namespace: dict[str, object] = {}
    exec(generate(function).text, namespace)
    with pytest.raises(NotImplementedError, match="outside has no body"):
        namespace["outside"]()  # type: ignore[operator]


def test_group_calls_go_through_the_group_table() -> None:
    made = program(
        """
        @pl.function(type=pl.FunctionType.AIC)
        def c(x: T16):
            t: pl.Tile[[16, 16], pl.FP32, pl.Mem.Acc] = pl.tile.full([16, 16], dtype=pl.FP32, value=4.0)
            pl.tile.tpush_to_aiv(t, split=2)
        @pl.function(type=pl.FunctionType.AIV)
        def v(x: T16, out: pl.Out[T16]) -> T16:
            t: pl.Tile[[16, 8], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic(split=2)
            o: T16 = pl.tile.store(t, [0, pl.tile.get_subblock_idx() * 8], out)
            return out
        @pl.function(type=pl.FunctionType.Group)
        def g(x: T16, out: pl.Out[T16]) -> T16:
            self.c(x)
            r: T16 = self.v(x, out)
            return r
        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, x: T16, out: pl.Out[T16]) -> T16:
            y: T16 = self.g(x, out)
            return y
        """
    )
    text = generate(made).text
    assert "_GROUP_META.update({" in text
    assert "y = _run_group_call('g', x, out)" in text
    assert "{'body': 'g', 'aic': 'c', 'aiv': 'v', 'split': 2, 'dual_aiv_dispatch': False}" in text
    assert outputs(made, {"x": torch.zeros(16, 16), "out": torch.zeros(16, 16)})["out"].eq(4.0).all()
    ast.parse(text)


def test_blocks_that_meet_run_side_by_side() -> None:
    made = program(
        """
        @pl.function(type=pl.FunctionType.Opaque)
        def main(self, parts: pl.InOut[pl.Tensor[[4], pl.FP32]], sums: pl.Out[pl.Tensor[[4], pl.FP32]]):
            for b in pl.spmd(4):
                pl.tensor.write(parts, [b], pl.cast(b + 1, pl.FP32))
                pl.system.syncall(core_type='mix', mode='hard')
                s: pl.Scalar[pl.FP32] = pl.tensor.read(parts, [0]) + pl.tensor.read(parts, [3])
                pl.tensor.write(sums, [b], s)
        """
    )
    got = outputs(made, {"parts": torch.zeros(4), "sums": torch.zeros(4)})
    assert got["sums"].tolist() == [5.0] * 4
