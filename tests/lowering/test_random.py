"""Random small kernels keep their numbers through every pass, by names and at their addresses."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lowering_cases import outputs_of, program_of

from pypto_lab.lowering import lower

torch.set_num_threads(1)
SETTINGS = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])

UNARY = ("pl.neg({0})", "pl.abs({0})", "pl.mul({0}, 0.5)", "pl.add({0}, 1.25)", "pl.maximum({0}, -0.5)")
BINARY = ("pl.add({0}, {1})", "pl.sub({0}, {1})", "pl.mul({0}, {1})", "pl.maximum({0}, {1})", "pl.minimum({0}, {1})")
ROWS = (
    "pl.row_expand_sub({0}, pl.row_max({0}))",
    "pl.row_expand_add({0}, pl.mul(pl.row_sum({0}), 0.125))",
    "pl.col_expand_sub({0}, pl.col_min({0}))",
)
"""Ops on matrices; `{0}` and `{1}` are known names."""


@st.composite
def statements(draw: st.DrawFn, names: list[str], depth: int, indent: str) -> list[str]:
    """Statements that bind and bind again the names, in loops and branches too."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["op", "op", "op", "loop", "branch"] if depth else ["op"]))
        target = draw(st.sampled_from(names))
        if kind == "op":
            form = draw(st.sampled_from(UNARY + BINARY + ROWS))
            operands = [draw(st.sampled_from(names)) for _ in range(2)]
            lines.append(f"{indent}{target} = {form.format(*operands)}")
            continue
        inner = draw(statements(names, depth - 1, indent + "    "))
        if kind == "loop":
            variable = draw(st.sampled_from(["i", "j"])) + str(depth)
            flavour = draw(st.sampled_from(["range(3)", "range(1, 5, 2)", "unroll(2)", "range(n)"]))
            lines += [f"{indent}for {variable} in pl.{flavour}:", *inner]
        else:
            lines += [f"{indent}if n > {draw(st.integers(0, 3))}:", *inner]
            if draw(st.booleans()):
                lines += [f"{indent}else:", *draw(statements(names, depth - 1, indent + "    "))]
    return lines


@st.composite
def vector_kernels(draw: st.DrawFn) -> str:
    rows, columns = draw(st.sampled_from([(8, 64), (16, 32), (5, 24)]))
    type_ = f"pl.Tensor[[{rows}, {columns}], pl.FP32]"
    body = draw(statements(["p", "q", "r"], 2, "        "))
    return "\n".join(
        [
            "@pl.jit",
            f"def kernel(x: {type_}, y: {type_}, n: pl.Scalar[pl.INDEX],",
            f"           first: pl.Out[{type_}], second: pl.Out[{type_}]):",
            '    with pl.at(level=pl.Level.CORE_GROUP, name_hint="work"):',
            "        p = pl.mul(x, 1.0)",
            "        q = pl.mul(y, 0.5)",
            "        r = pl.add(x, y)",
            *body,
            "        first[:] = pl.add(p, q)",
            "        second[:] = pl.sub(r, q)",
            "    return first, second",
        ]
    )


@st.composite
def mixed_kernels(draw: st.DrawFn) -> str:
    """A product between vector work, split or not, perhaps over blocks of columns."""
    mode = draw(st.sampled_from(["", "UP_DOWN", "LEFT_RIGHT"]))
    split = f"optimizations=[pl.split(pl.SplitMode.{mode})], " if mode else ""
    before = draw(st.sampled_from(["a", "pl.mul(a, 0.5)", "pl.add(a, a)"]))
    if mode == "LEFT_RIGHT":
        before = "a"  # the product's inner axis stays whole
    after = draw(st.lists(st.sampled_from((*UNARY, "pl.add({0}, bias)", "pl.mul({0}, bias)")), min_size=1, max_size=4))
    blocks = draw(st.sampled_from([1, 3]))
    column = "0" if blocks == 1 else "k * 32"
    lines = [
        "@pl.jit",
        "def kernel(a: pl.Tensor[[32, 32], pl.FP16], w: pl.Tensor[[32, 96], pl.FP16],",
        "           bias: pl.Tensor[[32, 32], pl.FP32], out: pl.Out[pl.Tensor[[32, 96], pl.FP32]]):",
        f'    with pl.at(level=pl.Level.CORE_GROUP, {split}name_hint="mm"):',
    ]
    indent = "        "
    if blocks > 1:
        lines.append(f"{indent}for k in pl.range({blocks}):")
        indent += "    "
    lines += [
        f"{indent}left = {before}",
        f"{indent}t = pl.matmul(left, w[:, {column} : {column} + 32], out_dtype=pl.FP32)",
        *(f"{indent}t = {form.format('t')}" for form in after),
        f"{indent}out[:, {column} : {column} + 32] = t",
        "    return out",
    ]
    return "\n".join(lines)


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(one, other, rtol=2e-3, atol=2e-3, equal_nan=True)


@SETTINGS
@given(text=vector_kernels(), n=st.integers(0, 4))
def test_vector_kernels_keep_their_numbers(text: str, n: int) -> None:
    program = program_of(text)
    generator = torch.Generator().manual_seed(n)
    shape = [int(d.value) for d in program.entry.params[0].type.shape]  # type: ignore[attr-defined]
    x, y = (torch.rand(shape, generator=generator) - 0.5 for _ in range(2))
    values = {"x": x, "y": y, "n": n, "first": torch.zeros(shape), "second": torch.zeros(shape)}
    expected = outputs_of(program, values)
    stages = lower(program)
    for stage in stages.stages[1:]:
        assert [f.message for f in stage.findings] == [], stage.file_name
        if stage.changed:
            found = outputs_of(stage.program, values)
            assert all(same(a, b) for a, b in zip(found, expected, strict=True)), stage.file_name
    placed = outputs_of(stages.program, values, memory="addresses", poison="nan")
    assert all(same(a, b) for a, b in zip(placed, expected, strict=True))


@pytest.mark.parametrize("arch", ["a2a3", "a5"])
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(text=mixed_kernels(), policy=st.sampled_from(["lane-first", "round-robin"]))
def test_mixed_kernels_keep_their_numbers(arch: str, text: str, policy: str) -> None:
    program = program_of(text)
    generator = torch.Generator().manual_seed(5)
    values = {
        "a": torch.randn(32, 32, generator=generator).half(),
        "w": (torch.randn(32, 96, generator=generator) * 0.2).half(),
        "bias": torch.randn(32, 32, generator=generator),
        "out": torch.zeros(32, 96),
    }
    expected = outputs_of(program, values)
    stages = lower(program, arch)
    assert all(not s.findings for s in stages.stages)
    found = outputs_of(stages.program, values, memory="addresses", arch=arch, policy=policy)
    assert all(torch.allclose(a, b, rtol=1e-2, atol=1e-2) for a, b in zip(found, expected, strict=True))
