"""What a pass refuses is said at the user's line, with numbers and a way out."""

from __future__ import annotations

import dataclasses

import pytest
from lowering_cases import HEAD, program_of

from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.enums import ForKind
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering import lower


def refusal(text: str, arch: str = "a2a3") -> Diagnostic:
    with pytest.raises(LabError) as caught:
        lower(program_of(text), arch)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


def line_of(text: str, part: str) -> int:
    return next(i for i, row in enumerate((HEAD + text).splitlines(), 1) if part in row)


SPLIT_TRANSPOSE = """
@pl.jit
def turned(a: pl.Tensor[[32, 32], pl.FP16], w: pl.Tensor[[32, 32], pl.FP16], out: pl.Out[pl.Tensor[[32, 32], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.UP_DOWN)], name_hint="mm"):
        acc = pl.matmul(a, w, out_dtype=pl.FP32)
        half = pl.mul(acc, 0.5)
        out[:] = pl.transpose(half, 0, 1)
    return out
"""


def test_a_transpose_across_the_split_axis() -> None:
    found = refusal(SPLIT_TRANSPOSE)
    assert found.code == "E814"
    assert "transpose" in found.message
    assert "UP_DOWN" in found.message
    assert found.span is not None
    assert found.span.line == line_of(SPLIT_TRANSPOSE, "pl.transpose")
    assert found.hint is not None


REDUCED = """
@pl.jit
def reduced(a: pl.Tensor[[32, 32], pl.FP16], w: pl.Tensor[[32, 32], pl.FP16], out: pl.Out[pl.Tensor[[1, 32], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.UP_DOWN)], name_hint="mm"):
        out[:] = pl.col_sum(pl.matmul(a, w, out_dtype=pl.FP32))
    return out
"""


def test_a_reduction_across_the_split_axis() -> None:
    found = refusal(REDUCED)
    assert found.code == "E814"
    assert "rows" in found.message
    assert found.span is not None
    assert found.span.line == line_of(REDUCED, "col_sum")


def test_a_reduction_along_the_other_axis_is_split() -> None:
    text = REDUCED.replace("col_sum", "row_sum").replace("[[1, 32]", "[[32, 1]")
    names = list(lower(program_of(text)).program.functions)
    assert "mm_aiv" in names


ODD = SPLIT_TRANSPOSE.replace("[[32, 32], pl.FP16], w", "[[33, 32], pl.FP16], w").replace(
    "pl.Out[pl.Tensor[[32, 32]", "pl.Out[pl.Tensor[[33, 32]"
)


def test_an_odd_extent_along_the_split_axis() -> None:
    found = refusal(ODD.replace("pl.transpose(half, 0, 1)", "half"))
    assert found.code == "E813"
    assert "33" in found.message


LARGE = """
@pl.jit
def large(x: pl.Tensor[[256, 128], pl.FP32], y: pl.Tensor[[256, 128], pl.FP32],
          out: pl.Out[pl.Tensor[[256, 128], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="add"):
        out[:] = pl.add(pl.mul(x, y), pl.sub(y, x))
    return out
"""


def test_tiles_that_do_not_fit_name_the_biggest() -> None:
    found = refusal(LARGE)
    assert found.code == "E817"
    assert "393216 bytes of Vec" in found.message
    assert "a2a3 has 188416" in found.message
    assert found.note is not None
    assert "131072 bytes" in found.note
    assert "`x`" in found.note
    assert found.span is not None
    assert found.span.line == line_of(LARGE, "def large")  # `x`, where it is loaded


def test_what_fits_a5_only() -> None:
    text = LARGE.replace("256, 128", "160, 128")
    assert refusal(text).code == "E817"
    assert lower(program_of(text), "a5").program.functions


UNROLLED = """
@pl.jit
def unrolled(x: pl.Tensor[[8, 64], pl.FP32], n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="loop"):
        t = pl.mul(x, 1.0)
        for i in pl.unroll(4):
            t = pl.add(t, x)
        out[:] = t
    return out
"""


def test_an_unroll_without_constant_bounds() -> None:
    """The front end refuses it in a user's text; a program built otherwise meets the pass."""
    program = program_of(UNROLLED)
    count = program.entry.param("n").var

    class Dynamic(Rewriter):
        def stmt(self, node: n.Stmt) -> n.Stmt:
            unrolled = isinstance(node, n.For) and node.kind is ForKind.Unroll
            return dataclasses.replace(node, stop=count) if unrolled else node  # type: ignore[call-arg]

    with pytest.raises(LabError) as caught:
        lower(Dynamic().visit_program(program))
    (found,) = caught.value.diagnostics
    assert found.code == "E801"
    assert "constant stop" in found.message
    assert found.hint is not None


DYNAMIC = """
ROWS = pl.dynamic("ROWS")

@pl.jit
def whole(x: pl.Tensor[[ROWS, 64], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="scale"):
        out[:] = pl.mul(x, 2.0)
    return out
"""


def test_a_tensor_of_dynamic_shape_is_no_tile() -> None:
    found = refusal(DYNAMIC)
    assert found.code == "E807"
    assert "`x`" in found.message
    assert found.hint is not None
    assert "pl.slice" in found.hint


FILLED = """
@pl.jit
def filled(a: pl.Tensor[[32, 32], pl.FP16], w: pl.Tensor[[32, 32], pl.FP16], out: pl.Out[pl.Tensor[[32, 32], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="mm"):
        acc = pl.full([32, 32], dtype=pl.FP32, value=1.0)
        acc = pl.matmul_acc(acc, a, w)
        out[:] = acc
    return out
"""


def test_an_accumulation_cannot_start_on_the_vector_side() -> None:
    found = refusal(FILLED)
    assert found.code == "E811"
    assert found.span is not None
    assert found.span.line == line_of(FILLED, "matmul_acc")
    assert found.hint is not None
    assert "matmul" in found.hint
