"""Random small kernels keep their numbers through every pass, by names and at their addresses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lowering_cases import outputs_of, program_of

from pypto_lab.ir import nodes as n
from pypto_lab.lowering import lower

torch.set_num_threads(1)
SETTINGS = settings(max_examples=16, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])

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


FACTORS = st.sampled_from(["", "b_trans"])


@st.composite
def product_kernels(draw: st.DrawFn) -> str:
    """Products alone: added up over K in a loop, perhaps a pipelined one, larger than the cube's memories, and one that
    is a factor of the next."""
    m, k, columns = draw(st.sampled_from([(32, 64, 32), (16, 256, 48), (64, 512, 64), (256, 64, 256)]))
    trans = draw(FACTORS)
    shape = f"[{columns}, {k}]" if trans else f"[{k}, {columns}]"
    flag = ", b_trans=True" if trans else ""
    chained = draw(st.booleans()) and columns <= 64
    width = 32 if chained else columns
    lines = [
        "@pl.jit",
        f"def kernel(a: pl.Tensor[[{m}, {k}], pl.BF16], b: pl.Tensor[{shape}, pl.BF16],",
        f"           e: pl.Tensor[[{columns}, 32], pl.BF16], out: pl.Out[pl.Tensor[[{m}, {width}], pl.FP32]]):",
        '    with pl.at(level=pl.Level.CORE_GROUP, name_hint="mm"):',
    ]
    parts = draw(st.sampled_from([1, 2, 4])) if m * columns <= 64 * 64 else 1
    if parts == 1:
        lines.append(f"        acc = pl.matmul(a, b, out_dtype=pl.FP32{flag})")
    else:
        step = k // parts
        kind = draw(st.sampled_from(["range({0})", "pipeline({0}, stage=2)"])).format(parts - 1)
        first, later = f"0 : {step}", f"(i + 1) * {step} : (i + 2) * {step}"
        cut = (lambda w: f"b[:, {w}]") if trans else (lambda w: f"b[{w}, :]")
        lines += [
            f"        acc = pl.matmul(a[:, {first}], {cut(first)}, out_dtype=pl.FP32{flag})",
            f"        for i in pl.{kind}:",
            f"            acc = pl.matmul_acc(acc, a[:, {later}], {cut(later)}{flag})",
        ]
    if chained:
        lines.append('        acc = pl.matmul(pl.cast(acc, pl.BF16, mode="rint"), e, out_dtype=pl.FP32)')
    return "\n".join([*lines, "        out[:] = acc", "    return out"])


TAIL_OPS = (
    "pl.mul({0}, 0.5)", "pl.exp({0})", "pl.neg({0})", "pl.add({0}, {0})",
    "pl.row_expand_sub({0}, pl.row_max({0}))", "pl.row_expand_mul({0}, pl.row_sum({0}))",
)  # fmt: skip


@st.composite
def tail_kernels(draw: st.DrawFn) -> str:
    """Blocks of rows or columns of which the last is only partly valid, padded where a reduction would see the rest."""
    along = draw(st.sampled_from(["rows", "columns"]))
    pad = draw(st.sampled_from(["min", "zero"]))
    body = draw(st.lists(st.sampled_from(TAIL_OPS), min_size=1, max_size=4))
    if along == "rows":
        window, offsets, valid, whole = "[16, 32]", "[i * 16, 0]", "[left, 32]", "[16, 32]"
        place = "out[i * 16 : i * 16 + 16, :]"
    else:
        window, offsets, valid, whole = "[8, 32]", "[0, i * 32]", "[8, left]", "[8, 32]"
        place = "out[:, i * 32 : i * 32 + 32]"
    shape, size = ("[48, 32]", 16) if along == "rows" else ("[8, 96]", 32)
    lines = [
        "@pl.jit",
        f"def kernel(x: pl.Tensor[{shape}, pl.FP32], n: pl.Scalar[pl.INDEX],",
        f"           out: pl.Out[pl.Tensor[{shape}, pl.FP32]]):",
        '    with pl.at(level=pl.Level.CORE_GROUP, name_hint="tail"):',
        f"        for i in pl.range((n + {size - 1}) // {size}):",
        f"            left = pl.min({size}, n - i * {size})",
        f"            part = pl.slice(x, {window}, {offsets}, valid_shape={valid})",
        f"            t = pl.fillpad(part, pad_value=pl.PadValue.{pad})",
    ]
    if draw(st.booleans()):
        lines.append(f"            t = pl.maximum(t, pl.full({whole}, dtype=pl.FP32, value=-1.0))")
    lines += [f"            t = {form.format('t')}" for form in body]
    return "\n".join([*lines, f"            {place} = t", "    return out"])


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(one, other, rtol=2e-3, atol=2e-3, equal_nan=True)


def every_stage_agrees(program: n.Program, values: dict[str, Any], arch: str = "a2a3", **how: Any) -> None:
    """Every stage is sound and computes what the kernel's text does; the last one at its addresses, too."""
    expected = outputs_of(program, values)
    stages = lower(program, arch)
    for stage in stages.stages[1:]:
        assert [f.message for f in stage.findings] == [], stage.file_name
        if stage.changed:
            found = outputs_of(stage.program, values, **how)
            assert all(close(a, b) for a, b in zip(found, expected, strict=True)), stage.file_name
    placed = outputs_of(stages.program, values, memory="addresses", arch=arch, poison="nan", **how)
    assert all(close(a, b) for a, b in zip(placed, expected, strict=True))


def close(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-2, atol=1e-2, equal_nan=True)


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
@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
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
    every_stage_agrees(program, values, arch, policy=policy)


@pytest.mark.parametrize("arch", ["a2a3", "a5"])
@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(text=product_kernels())
def test_products_keep_their_numbers(arch: str, text: str) -> None:
    program = program_of(text)
    generator = torch.Generator().manual_seed(7)
    values: dict[str, Any] = {}
    for param in program.entry.params:
        shape = [int(d.value) for d in param.type.shape]  # type: ignore[attr-defined]
        values[param.name] = (torch.randn(shape, generator=generator) * 0.25).bfloat16()
    values["out"] = values["out"].float()
    every_stage_agrees(program, values, arch)


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(text=tail_kernels(), n=st.integers(1, 48), arch=st.sampled_from(["a2a3", "a5"]))
def test_tails_keep_their_numbers(text: str, n: int, arch: str) -> None:
    program = program_of(text)
    generator = torch.Generator().manual_seed(n)
    shape = [int(d.value) for d in program.entry.params[0].type.shape]  # type: ignore[attr-defined]
    values = {"x": torch.rand(shape, generator=generator) - 0.5, "n": n, "out": torch.zeros(shape)}
    every_stage_agrees(program, values, arch)


SHAPES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "vector": (vector_kernels(), ("pl.range(n)", "pl.unroll", "if n >", "else:", "row_max", "col_min", "pl.minimum")),
    "mixed": (mixed_kernels(), ("UP_DOWN", "LEFT_RIGHT", "CORE_GROUP, name_hint", "pl.range(3)", "bias", "left = pl.")),
    "products": (product_kernels(), ("matmul_acc", "pl.pipeline", "pl.range", "b_trans", "pl.cast", "[256, 64]")),
    "tails": (tail_kernels(), ("[left, 32]", "[8, left]", "PadValue.min", "PadValue.zero", "row_sum", "pl.full")),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_kernels_have_every_shape(name: str) -> None:
    """As many as the tests above draw hold every kind of statement they are meant to hold."""
    strategy, wanted = SHAPES[name]
    texts: list[str] = []

    @settings(max_examples=25, deadline=None, derandomize=True, database=None)
    @given(text=strategy)
    def collect(text: str) -> None:
        texts.append(text)

    collect()
    assert len(set(texts)) > 10
    assert [word for word in wanted if not any(word in text for text in texts)] == []
