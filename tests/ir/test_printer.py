"""Printing: precedence, constants, names, and that every printed expression reads back as the same tree."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import ArgDirection, Direction, FunctionType, MemorySpace, PadValue, TileLayout
from pypto_lab.ir.equal import first_difference, structurally_equal
from pypto_lab.ir.printer import (
    Verbatim,
    float_text,
    print_expr,
    print_function,
    print_program,
    print_stmt,
    print_type,
    quoted,
)
from pypto_lab.ir.types import MemRef, ScalarType, TensorType, TileType, TileView, TupleType

A, B, C = (n.Var(name=name, type=n.INDEX) for name in "abc")
COMPARISONS = ["Eq", "Ne", "Lt", "Le", "Gt", "Ge"]
ARITHMETIC = [op for op in n.BINARY_OPS if op not in (*COMPARISONS, "And", "Or", "Xor")]


def binary(op: str, left: n.Expr, right: n.Expr) -> n.Binary:
    return n.Binary(op=op, left=left, right=right, type=n.BOOL if op in (*COMPARISONS, "And", "Or", "Xor") else n.INDEX)


def unary(op: str, operand: n.Expr) -> n.Unary:
    return n.Unary(op=op, operand=operand, type=n.BOOL if op == "Not" else operand.type)


LESS = binary("Lt", A, B)


def program(*functions: n.Function) -> n.Program:
    return n.Program(name="P", functions={f.name: f for f in functions})


def function(*body: n.Stmt, params: tuple[n.Var, ...] = (A, B, C), name: str = "f") -> n.Function:
    return n.Function(name=name, params=tuple(n.Param(var=v) for v in params), return_types=(), body=body)


def assign(name: str, value: n.Expr) -> n.Assign:
    return n.Assign(var=n.Var(name=name, type=value.type), value=value)


@st.composite
def numbers(draw: st.DrawFn, depth: int) -> n.Expr:
    """An integer expression over a, b, c."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        value = st.integers(-9, 9).map(n.const)
        typed = st.integers(-9, 9).map(lambda v: n.const(v, dtypes.INT64))
        return draw(st.one_of(st.sampled_from([A, B, C]), value, typed))
    kind = draw(st.integers(0, 5))
    if kind == 0:
        operand = draw(numbers(depth - 1))
        return unary(draw(st.sampled_from(["Neg", "BitNot", "Abs"])), operand)
    if kind == 1:
        operand = draw(st.one_of(numbers(depth - 1), truths(depth - 1)))
        return n.Unary(op="Cast", operand=operand, type=ScalarType(draw(st.sampled_from([dtypes.INT32, dtypes.FP16]))))
    return binary(draw(st.sampled_from(ARITHMETIC)), draw(numbers(depth - 1)), draw(numbers(depth - 1)))


@st.composite
def truths(draw: st.DrawFn, depth: int) -> n.Expr:
    """A BOOL expression."""
    if depth == 0:
        return draw(st.sampled_from([n.const(True), n.const(False)]))
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return unary("Not", draw(truths(depth - 1)))
    if kind == 1:
        return binary(draw(st.sampled_from(["And", "Or", "Xor"])), draw(truths(depth - 1)), draw(truths(depth - 1)))
    return binary(draw(st.sampled_from(COMPARISONS)), draw(numbers(depth - 1)), draw(numbers(depth - 1)))


def reread(expr: n.Expr) -> n.Expr:
    text = print_program(program(function(assign("r", expr))))
    (stmt,) = read_dump(text).functions["f"].body or ()
    assert isinstance(stmt, n.Assign)
    return stmt.value


@settings(max_examples=600, deadline=None, derandomize=True)
@given(st.one_of(numbers(4), truths(4)))
def test_printed_expressions_read_back_as_the_same_tree(expr: n.Expr) -> None:
    difference = first_difference(expr, reread(expr))
    assert difference is None, f"{print_expr(expr)}: {difference}"


@settings(max_examples=300, deadline=None, derandomize=True)
@given(numbers(3), st.integers(0, 6))
def test_dimensions_read_back_as_the_same_tree(dim: n.Expr, extent: int) -> None:
    tile = TileType(
        shape=(n.const(8), n.const(extent)),
        dtype=dtypes.FP32,
        view=TileView(valid_shape=(dim, n.const(extent)), pad=PadValue.zero),
        memory_space=MemorySpace.Vec,
    )
    value = n.OpCall(op="tile.load", args=(A,), type=tile)
    text = print_program(program(function(n.Assign(var=n.Var(name="t", type=tile), value=value))))
    (stmt,) = read_dump(text).functions["f"].body or ()
    assert isinstance(stmt, n.Assign)
    assert first_difference(tile, stmt.var.type) is None
    assert print_program(read_dump(text)) == text


@settings(max_examples=500, deadline=None, derandomize=True)
@given(st.floats(allow_nan=True))
def test_floats_come_back_exactly(value: float) -> None:
    read = reread(n.const(value))
    assert isinstance(read, n.ConstFloat)
    assert math.isnan(read.value) if math.isnan(value) else read.value == value
    assert math.copysign(1, read.value) == math.copysign(1, value) or math.isnan(value)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(max_size=30))
def test_strings_come_back_in_either_quotes(text: str) -> None:
    assert eval(quoted(text)) == text
    assert eval(quoted(text, "'")) == text
    assert quoted(text)[0] == quoted(text)[-1] == '"'


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (binary("Sub", A, binary("Sub", B, C)), "a - (b - c)"),
        (binary("Sub", binary("Sub", A, B), C), "a - b - c"),
        (binary("Mul", binary("Add", A, B), C), "(a + b) * c"),
        (binary("Add", binary("Mul", A, B), C), "a * b + c"),
        (binary("FloorDiv", A, binary("Mul", B, C)), "a // (b * c)"),
        (binary("Pow", binary("Pow", A, B), C), "(a ** b) ** c"),
        (binary("Pow", A, binary("Pow", B, C)), "a ** b ** c"),
        (binary("Pow", unary("Neg", A), B), "(-a) ** b"),
        (unary("Neg", binary("Pow", A, B)), "-a ** b"),
        (binary("Pow", n.const(-2), B), "(-2) ** b"),
        (binary("Sub", A, n.const(-2)), "a - -2"),
        (unary("Neg", n.const(1)), "-pl.const(1, pl.INDEX)"),
        (unary("Not", binary("Lt", A, B)), "not a < b"),
        (binary("Eq", binary("Lt", A, B), binary("Lt", B, C)), "(a < b) == (b < c)"),
        (binary("Xor", LESS, binary("And", LESS, n.const(True))), "a < b xor a < b and True"),
        (binary("And", binary("Xor", n.const(True), n.const(False)), n.const(True)), "(True xor False) and True"),
        (binary("Min", A, binary("Max", B, n.const(3))), "pl.min(a, pl.max(b, 3))"),
        (binary("Mul", n.const(4), n.const(16)), "pl.const(4, pl.INDEX) * pl.const(16, pl.INDEX)"),
        (binary("BitOr", binary("BitAnd", A, B), binary("BitShiftLeft", B, n.const(1))), "a & b | b << 1"),
        (n.const(7, dtypes.INT64), "pl.const(7, pl.INT64)"),
        (n.const(0.5, dtypes.FP16), "pl.const(0.5, pl.FP16)"),
        (n.Unary(op="Cast", operand=A, type=ScalarType(dtypes.INT32)), "pl.cast(a, pl.INT32)"),
        (n.TupleGetItem(tuple=A, index=1, type=n.INDEX), "a[1]"),
        (n.MakeTuple(elements=(A, n.const(2)), type=TupleType((n.INDEX, n.INDEX))), "[a, 2]"),
    ],
)  # fmt: skip
def test_parentheses_are_minimal(expr: n.Expr, text: str) -> None:
    assert print_expr(expr) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1.0"), (0.1, "0.10000000000000001"), (1e-6, "9.9999999999999995e-07"), (1e20, "1e+20"), (-0.0, "-0.0")],
)
def test_floats_have_seventeen_digits(value: float, text: str) -> None:
    assert float_text(value) == text


def test_ops_print_keywords_attributes_and_python_names() -> None:
    call = n.OpCall(
        op="tile.and",
        args=(A, B),
        kwargs={"dtype": dtypes.FP32, "mode": "round", "space": MemorySpace.Vec, "layout": TileLayout.row_major},
        attrs={"d": (ArgDirection.OutputExisting, ArgDirection.NoDep), "s": 'a"b', "v": Verbatim("pl.New.X"), "x": A},
        type=n.INDEX,
    )
    assert print_expr(call) == (
        "pl.tile.and_(a, b, dtype=pl.FP32, mode='round', space=pl.Mem.Vec, layout=pl.TileLayout.row_major, "
        'attrs={"d": [pl.adir.output_existing, pl.adir.no_dep], "s": "a\\"b", "v": pl.New.X, "x": a})'
    )


def test_statements_and_types_print_alone() -> None:
    loop = n.For(
        loop_var=n.Var(name="i", type=n.INDEX), start=n.const(0), stop=A, step=n.const(1), body=(assign("x", B),)
    )
    assert print_stmt(loop) == "for i in pl.range(a):\n    x: pl.Scalar[pl.INDEX] = b"
    tile = TileType(
        shape=(n.const(4), n.const(8)),
        dtype=dtypes.FP16,
        memory_space=MemorySpace.Left,
        memref=MemRef(base="mem", offset=n.const(0, dtypes.INT64), size=64),
        view=TileView(blayout=TileLayout.row_major),
    )
    assert print_type(tile) == (
        'pl.Tile[[4, 8], pl.FP16, pl.MemRef("mem", pl.const(0, pl.INT64), 64), pl.Mem.Left, '
        "pl.TileView(blayout=pl.TileLayout.row_major)]"
    )
    out = n.Param(var=n.Var(name="o", type=TensorType(shape=(A,), dtype=dtypes.FP32)), direction=Direction.Out)
    made = n.Function(name="f", params=(out,), return_types=(), body=(), func_type=FunctionType.Group, has_self=False)
    head = "@pl.function(type=pl.FunctionType.Group)\ndef f(o: pl.Out[pl.Tensor[[a], pl.FP32]]):\n    pass"
    assert print_function(made) == head


class TestNames:
    def test_two_variables_of_one_name_get_two_names(self) -> None:
        first, second = (n.Var(name="x", type=n.INDEX) for _ in range(2))
        text = print_program(
            program(
                function(n.Assign(var=first, value=A), n.Assign(var=second, value=B), n.Return(values=(first, second)))
            )
        )
        assert "x: pl.Scalar[pl.INDEX] = a" in text
        assert "x_1: pl.Scalar[pl.INDEX] = b" in text
        assert "return x, x_1" in text
        assert print_program(read_dump(text)) == text

    def test_clash_names_avoid_names_in_use(self) -> None:
        names = ["x", "x_1", "x"]
        vars_ = [n.Var(name=name, type=n.INDEX) for name in names]
        text = print_program(
            program(function(*(n.Assign(var=v, value=A) for v in vars_), n.Return(values=tuple(vars_))))
        )
        assert "return x, x_1, x_2" in text

    def test_sibling_loops_may_share_a_name(self) -> None:
        loops = [
            n.For(
                loop_var=n.Var(name="i", type=n.INDEX), start=n.const(0), stop=A, step=n.const(1), body=(n.Continue(),)
            )
            for _ in range(2)
        ]
        text = print_program(program(function(*loops)))
        assert text.count("for i in pl.range(a):") == 2

    def test_two_dimensions_of_one_name_are_declared_apart(self) -> None:
        dims = [n.Var(name="M", type=n.INDEX) for _ in range(2)]
        functions = [
            function(params=(n.Var(name="x", type=TensorType(shape=(dim,), dtype=dtypes.FP32)),), name=name)
            for dim, name in zip(dims, "fg", strict=True)
        ]
        text = print_program(program(*functions))
        assert 'M = pl.dynamic("M")\nM_1 = pl.dynamic("M_1")' in text
        assert "x: pl.Tensor[[M_1], pl.FP32]" in text
        assert structurally_equal(program(*functions), read_dump(text))

    def test_results_keep_one_name_in_every_branch_and_behind(self) -> None:
        inner, result = (n.Var(name="r", type=n.INDEX) for _ in range(2))
        branch = n.If(
            condition=LESS,
            then_body=(n.Assign(var=inner, value=A), n.Yield(values=(inner,))),
            else_body=(n.Yield(values=(B,)),),
            return_vars=(result,),
        )
        made = program(function(branch, n.Return(values=(result,))))
        text = print_program(made)
        assert text.count("r: pl.Scalar[pl.INDEX] = pl.yield_(") == 2
        assert "r_1: pl.Scalar[pl.INDEX] = a" in text
        assert first_difference(made, read_dump(text)) is None

    def test_use_without_a_definition_is_marked(self) -> None:
        inner = n.Var(name="y", type=n.INDEX)
        arg = n.IterArg(name="c", type=n.INDEX, init_value=A)
        loop = n.For(
            loop_var=n.Var(name="i", type=n.INDEX),
            start=n.const(0),
            stop=A,
            step=n.const(1),
            iter_args=(arg,),
            return_vars=(n.Var(name="r", type=n.INDEX),),
            body=(n.Assign(var=inner, value=arg), n.Yield(values=(inner,))),
        )
        text = print_program(program(function(loop, n.Return(values=(inner,)))))
        assert "return y__FREE_VAR" in text


def test_comments_stand_above_their_statement() -> None:
    stmt = n.Return(values=(A,), leading_comments=("one", "two\nthree"))
    assert print_stmt(stmt) == "# one\n# two\n# three\nreturn a"


def test_a_launch_with_a_block_index_and_a_task_id_keeps_both() -> None:
    """Only `with` can name a task, so the block index is read inside."""
    index = n.Var(name="i", type=n.INDEX)
    task = n.Var(name="tid", type=ScalarType(dtypes.TASK_ID))
    inside = assign("y", binary("Add", index, n.const(1)))
    scope = n.SpmdScope(core_num=n.const(4), loop_var=index, task_id=task, body=(inside,))
    after = n.Eval(expr=n.OpCall(op="system.task_is_valid", args=(task,), type=n.BOOL))
    text = print_program(program(function(scope, after)))
    assert "with pl.spmd(4) as tid:\n            i: pl.Scalar[pl.INDEX] = pl.tile.get_block_idx()\n" in text
    again = read_dump(text)
    (read,) = [s for s in again.functions["f"].body or () if isinstance(s, n.SpmdScope)]
    assert read.task_id is not None
    assert print_program(again) == text
