"""Mutated kernel texts: the front end answers with a program or a LabError, never with another exception."""

from __future__ import annotations

import ast
import contextlib
import io
import keyword
import random
import re
import tokenize
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pypto_lab.compat.loader import load_module
from pypto_lab.frontend.kernels import source_of
from pypto_lab.frontend.source import program_of
from pypto_lab.ir.diagnostics import LabError
from tests.frontend.reading import HEADER, KERNELS, Sample, module_of

pytestmark = pytest.mark.filterwarnings("ignore::SyntaxWarning")
NAMES = sorted(p.name for p in KERNELS.iterdir() if p.is_dir())
TOKENS = (
    "None",
    "0",
    "-1",
    "1.5",
    "'text'",
    "pl",
    "pl.FP32",
    "pl.range(3)",
    "[]",
    "()",
    "x",
    "self",
    "lambda: 0",
    "...",
    "not",
)


def kernel_text(name: str) -> str:
    """The kernels of a case file without its golden part, and without the imports that the helper adds."""
    text = (KERNELS / name / "kernel.py").read_text(encoding="utf-8")
    text = text[: text.index("ENTRY = ")]
    return re.sub(r"^import .*$", "", text, flags=re.MULTILINE)


TEXTS = {name: kernel_text(name) for name in NAMES}


def samples(name: str) -> dict[str, Any]:
    module = load_module(KERNELS / name / "kernel.py")
    given = module.make_inputs(0)
    return {
        key: Sample(tuple(value.shape), str(value.dtype)) if hasattr(value, "shape") else value
        for key, value in given.items()
    }


SAMPLES = {name: samples(name) for name in NAMES}


def mutate_lines(text: str, rng: random.Random) -> str:
    """Deletes, doubles, swaps or re-indents one line of a body."""
    lines = text.split("\n")
    index, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            del lines[index]
        case 1:
            lines.insert(index, lines[index])
        case 2:
            lines[index], lines[other] = lines[other], lines[index]
        case _:
            lines[index] = "    " + lines[index] if rng.random() < 0.5 else lines[index].removeprefix("    ")
    return "\n".join(lines)


def mutate_tokens(text: str, rng: random.Random) -> str:
    """Swaps two tokens, drops one, or puts something else in its place."""
    tokens = [t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.string.strip()]
    first, second = rng.choice(tokens), rng.choice(tokens)
    rows = text.split("\n")

    def put(token: tokenize.TokenInfo, new: str) -> None:
        if token.start[0] == token.end[0]:
            row = rows[token.start[0] - 1]
            rows[token.start[0] - 1] = row[: token.start[1]] + new + row[token.end[1] :]

    match rng.randrange(4):
        case 0 if first.start[0] != second.start[0]:
            put(first, second.string)
            put(second, first.string)
        case 1:
            put(first, "")
        case 2:
            put(first, second.string)
        case _:
            put(first, rng.choice(TOKENS))
    return "\n".join(rows)


def readable(text: str) -> bool:
    """Whether Python takes the text; what it refuses never reaches the front end."""
    try:
        ast.parse(HEADER + text)
    except (SyntaxError, ValueError):
        return False
    return True


def answer(value: Any, arguments: dict[str, Any]) -> None:
    """A program with functions, or an error with findings that can be shown."""
    refusal: LabError | None = None
    try:
        assert program_of(value, arguments).functions
    except LabError as error:
        refusal = error
    assert refusal is None or (refusal.diagnostics and str(refusal))


def check(name: str, text: str) -> bool:
    """Whether the text came as far as the front end, which then answered."""
    if not readable(text):
        return False
    try:
        module = module_of(text)
    except (Exception, LabError):
        return False  # Python's own refusal (a name that is not defined, a bad decorator argument)
    kernels = [value for value in list(vars(module).values()) if source_of(value) is not None]
    for value in kernels:
        answer(value, SAMPLES[name])
    return bool(kernels)


CELLS_A_KERNEL = 60
"""Mutated cells of each case file that reach the front end: with 36 files more than 2,000."""


@pytest.mark.parametrize("name", NAMES)
def test_mutated_cells_are_answered(name: str) -> None:
    rng, reached = random.Random(name), 0
    for _ in range(20 * CELLS_A_KERNEL):
        text = TEXTS[name]
        for _ in range(rng.randrange(1, 4)):
            with contextlib.suppress(tokenize.TokenError, IndentationError, SyntaxError):
                text = (mutate_lines if rng.random() < 0.8 else mutate_tokens)(text, rng)
        reached += text != TEXTS[name] and check(name, text)
        if reached == CELLS_A_KERNEL:
            break
    assert reached == CELLS_A_KERNEL
    assert len(NAMES) * CELLS_A_KERNEL >= 2000


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(NAMES), st.integers(0, 2**32), st.integers(1, 4))
def test_mutated_lines(name: str, seed: int, count: int) -> None:
    rng, text = random.Random(seed), TEXTS[name]
    for _ in range(count):
        text = mutate_lines(text, rng)
    check(name, text)


@settings(max_examples=250, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(NAMES), st.integers(0, 2**32), st.integers(1, 3))
def test_mutated_tokens(name: str, seed: int, count: int) -> None:
    rng, text = random.Random(seed), TEXTS[name]
    for _ in range(count):
        with contextlib.suppress(tokenize.TokenError, IndentationError, SyntaxError):
            text = mutate_tokens(text, rng)
    check(name, text)


EXPRESSION = st.recursive(
    st.sampled_from(
        ["x", "t", "n", "out", "1", "2.5", "True", "None", "'s'", "pl.FP32", "pl.Mem.Vec", "zz", "K", "[0, 0]"]
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "*", "//", "**", "<", "==", "and", "@"]), inner).map(
            lambda p: f"({' '.join(p)})"
        ),
        st.tuples(
            st.sampled_from(["pl.abs", "pl.add", "pl.load", "pl.cast", "pl.tile.slice", "pl.read", "pl.nope", "x.f"]),
            inner,
            inner,
        ).map(lambda p: f"{p[0]}({p[1]}, {p[2]})"),
        st.tuples(inner, inner).map(lambda p: f"{p[0]}[{p[1]}]"),
        st.tuples(inner, inner).map(lambda p: f"{p[0]}[{p[1]}:]"),
        st.tuples(inner, inner).map(lambda p: f"[{p[0]}, {p[1]}]"),
        inner.map(lambda p: f"-{p}"),
        inner.map(lambda p: f"{p}.shape" if p.isidentifier() and not keyword.iskeyword(p) else p),
    ),
    max_leaves=8,
)
STATEMENT = st.one_of(
    st.tuples(st.sampled_from(["u", "t", "out", "u, v", "out[0:4, :]", "t[0]", "u.a"]), EXPRESSION).map(
        lambda p: f"{p[0]} = {p[1]}"
    ),
    st.tuples(
        st.sampled_from(["pl.Tile[[16, 64], pl.FP32]", "pl.Scalar[pl.INT32]", "int", "pl.Tensor"]), EXPRESSION
    ).map(lambda p: f"u: {p[0]} = {p[1]}"),
    EXPRESSION.map(lambda e: f"for i in pl.range({e}):\n        u = i"),
    EXPRESSION.map(lambda e: f"for i, (a,) in pl.range(4, init_values=({e},)):\n        b = pl.yield_(a)"),
    EXPRESSION.map(lambda e: f"if {e}:\n        t = pl.abs(t)\n    else:\n        w = {e}"),
    EXPRESSION.map(lambda e: f"while {e}:\n        break"),
    EXPRESSION.map(lambda e: f"with pl.at(level={e}) as tid:\n        u = t"),
    EXPRESSION.map(lambda e: f"with pl.spmd({e}, deps=[{e}]):\n        u = t"),
    EXPRESSION.map(lambda e: f"for q in pl.split_aiv({e}, mode={e}):\n        u = t"),
    EXPRESSION.map(lambda e: f"return {e}"),
    EXPRESSION.map(lambda e: f"pl.static_assert({e}, {e})"),
    EXPRESSION.map(lambda e: f"u, tid = pl.submit({e}, x, deps={e}, predicate={e})"),
)


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STATEMENT, min_size=1, max_size=5), st.sampled_from(["jit.incore", "jit", "function"]))
def test_generated_statements(statements: list[str], kind: str) -> None:
    body = "\n    ".join(statements)
    text = (
        "K = 4\n"
        f"@pl.{kind}\n"
        "def k(x: pl.Tensor[[16, 64], pl.FP32], n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):\n"
        "    t = pl.load(x, [0, 0], [16, 64])\n"
        f"    {body}\n"
        "    return out\n"
    )
    check(NAMES[0], text)


@pytest.mark.parametrize("name", NAMES)
def test_each_deleted_line(name: str) -> None:
    """Every kernel with each of its body lines left out."""
    lines = TEXTS[name].split("\n")
    for index, line in enumerate(lines):
        if line.startswith("    ") and index % 3 == 0:
            check(name, "\n".join([*lines[:index], *lines[index + 1 :]]))


def test_the_texts_are_read_as_they_are() -> None:
    """The fuzzing starts from texts that are right."""
    for name in NAMES[:5]:
        module = module_of(TEXTS[name])
        entry = load_module(KERNELS / name / "kernel.py").ENTRY
        program_of(getattr(module, entry), SAMPLES[name])
    assert Path(KERNELS).is_dir()
