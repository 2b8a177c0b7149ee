"""Dynamic dimensions from the extents of parameters."""

# ruff: noqa: E501  (kernels are written as dumps print them, one statement a line)
from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_texts import kernel_code, outputs, program

from pypto_lab.ir.diagnostics import LabError
from pypto_lab.torch_codegen.execute import ScriptError, run
from pypto_lab.torch_codegen.runtime.check import _solve_dim


def kernel(parameters: str, body: str, symbols: str = "M") -> object:
    head = "".join(f'{s} = pl.dynamic("{s}")\n' for s in symbols)
    return program(
        f"@pl.function(type=pl.FunctionType.InCore)\ndef kernel({parameters}, out: pl.Out[pl.Tensor[[1], pl.INT64]]):\n    {body}",
        head,
    )


def out() -> torch.Tensor:
    return torch.zeros(1, dtype=torch.int64)


def test_a_bare_dimension_is_read() -> None:
    made = kernel("x: pl.Tensor[[4, M], pl.FP32]", "pl.tensor.write(out, [0], M)")
    assert "    M = x.shape[1]" in kernel_code(made)
    assert outputs(made, {"x": torch.zeros(4, 9), "out": out()})["out"].item() == 9


@pytest.mark.parametrize(("dim", "extent"), [("M * 2", 14), ("M + 1", 8), ("2 * M - 3", 11), ("(M + 1) * 3", 24)])
def test_composite_dimensions_are_solved(dim: str, extent: int) -> None:
    made = kernel(f"x: pl.Tensor[[{dim}, 4], pl.FP32]", "pl.tensor.write(out, [0], M)")
    assert outputs(made, {"x": torch.zeros(extent, 4), "out": out()})["out"].item() == 7


def test_a_dimension_that_needs_another_one() -> None:
    made = kernel("x: pl.Tensor[[M + N, M], pl.FP32]", "pl.tensor.write(out, [0], N * 100 + M)", "MN")
    assert outputs(made, {"x": torch.zeros(11, 4), "out": out()})["out"].item() == 704


def test_parameters_that_disagree_are_both_named() -> None:
    made = kernel("x: pl.Tensor[[M, 4], pl.FP32], y: pl.Tensor[[M * 2, 4], pl.FP32]", "pl.tensor.write(out, [0], M)")
    with pytest.raises(
        ScriptError, match=r"disagree about M: x.shape\[0\] is 5, so M = 5; y.shape\[0\] is 8, so M = 4"
    ):
        run(made, {"x": torch.zeros(5, 4), "y": torch.zeros(8, 4), "out": out()})


def test_an_extent_that_no_dimension_makes() -> None:
    made = kernel("x: pl.Tensor[[M * 2, 4], pl.FP32]", "pl.tensor.write(out, [0], M)")
    with pytest.raises(ScriptError, match=r"x.shape\[0\] is 5: no whole M"):
        run(made, {"x": torch.zeros(5, 4), "out": out()})


def test_a_scalar_parameter_may_be_left_out_where_a_tensor_tells_it() -> None:
    made = program(
        """
        @pl.function(type=pl.FunctionType.InCore)
        def kernel(M: pl.Scalar[pl.INDEX], x: pl.Tensor[[M, 4], pl.FP32], out: pl.Out[pl.Tensor[[1], pl.INT64]]):
            pl.tensor.write(out, [0], M)
        """
    )
    assert outputs(made, {"x": torch.zeros(6, 4), "out": out()})["out"].item() == 6
    with pytest.raises(LabError, match="needs a value for `x`"):
        run(made, {"M": 6, "out": out()})


@settings(deadline=None)
@given(st.integers(1, 40), st.lists(st.tuples(st.integers(1, 5), st.integers(-3, 3)), min_size=1, max_size=4))
def test_every_true_source_gives_the_dimension_back(value: int, forms: list[tuple[int, int]]) -> None:
    sources = [(f"p{i}", factor * value + offset, factor, offset) for i, (factor, offset) in enumerate(forms)]
    assert _solve_dim("M", *sources) == value
