"""Instrumentation: which statements drop their value, which writes are seen, and that nothing else changes."""

from __future__ import annotations

import ast
import textwrap

import pytest
import torch
from record_support import function_from

from pypto_lab.record.droppable import Knowledge, droppable, single_target, statements
from pypto_lab.record.instrument import PROXY, WRITE, Instrumenter, owned_names
from pypto_lab.record.recorder import record

KNOWN = Knowledge(
    fresh=frozenset({"_load", "_add"}),
    pure=frozenset({"_reshape"}),
    writes={"_store": 2},
    reads_only={"_store": frozenset({0, 1})},
)


def dropped(body: str, parameters: str = "x, out") -> list[str]:
    """Names whose assignments are dropped, in order."""
    text = f"def kernel({parameters}):\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    found = droppable(function, KNOWN)
    targets = [(single_target(n), n) for n in statements(function.body)]
    return [t[0] for t, n in targets if t is not None and id(n) in found]


def test_read_operands_are_dropped() -> None:
    assert dropped("t = _load(x, [0, 0])\nu = torch.exp(t)\n_store(u, [0, 0], out)") == ["t", "u"]


@pytest.mark.parametrize(
    "body",
    [
        "t = _load(x, [0, 0])\nreturn t",
        "t = _load(x, [0, 0])\nother(t)",
        "t = _load(x, [0, 0])\nu = (t, 1)\nother(u)",
        "t = _load(x, [0, 0])\n_store(t, [0, 0], t)",
        "t = _load(x, [0, 0])\nt[0] = 1",
        "t = _load(x, [0, 0])\nt.add_(1)",
        "t = _load(x, [0, 0])\nt += 1",
        "t = _load(x, [0, 0])\nu = t[0:2]\nu.add_(1)",
        "t = other(x)\nu = t",
        "t = _load(x, [0, 0])\nt = other(t)",
        "t = _load(x, [j for j in range(2)])",
        "t = torch.rand(3)",
        "t = torch.add(x, x, out=out)",
        "t = torch.exp(SOMETHING)",
        "def inner():\n    return t\nt = _load(x, [0])",
    ],
)
def test_values_that_somebody_may_hold_or_write_are_kept(body: str) -> None:
    assert "t" not in dropped(body)


def test_a_view_is_dropped_only_together_with_what_it_may_show() -> None:
    assert dropped("t = _load(x, [0])\nv = _reshape(t, [4])\n_store(v, [0], out)") == ["t", "v"]
    assert dropped("t = _load(x, [0])\nv = _reshape(t, [4])\nother(v)") == []
    assert dropped("v = _reshape(x, [4])\n_store(v, [0], out)") == []


def test_carried_names_are_kept_and_chains_are_cut() -> None:
    loop = "acc = _load(x, [0])\nfor i in range(9):\n    t = _add(acc, x)\n    acc = _add(t, x)\n_store(acc, [0], out)"
    assert dropped(loop) == ["t"]
    chain = (
        "t0 = _load(x, [0])\n" + "\n".join(f"t{i + 1} = _add(t{i}, x)" for i in range(20)) + "\n_store(t20, [0], out)"
    )
    assert 15 <= len(dropped(chain)) < 21


def test_owned_tensors_need_no_write_probe() -> None:
    body = ("a = torch.zeros(3)", "b = x", "a[0] = 1", "b[0] = 1", "a.view(3).add_(1)", "return a, b")
    text = "\n    ".join(("def f(x):", *body))
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert owned_names(function) == {"a"}
    tree = Instrumenter().module(ast.parse(text.replace("def f", "def _f")), lambda name: False, text)
    shown = ast.unparse(tree)
    assert shown.count(PROXY) == 1
    assert shown.count(WRITE) == 0


def test_lines_and_text_stay_those_of_the_script() -> None:
    kernel = function_from(
        """
        def kernel(x):
            for i in range(
                2
            ):
                y = (x
                     + i)
            if y.sum() > 0:
                return y
            return -y
        """,
        "kernel",
        "lines.py",
    )
    recording = record(kernel, {"x": torch.ones(2)})
    assert [(s.line, s.text) for s in recording.trace.statements] == [
        (1, "def kernel(x):"),
        (2, "for i in range( 2 ):"),
        (5, "y = (x + i)"),
        (7, "if y.sum() > 0:"),
        (8, "return y"),
        (9, "return -y"),
    ]
    assert recording.outputs["x"].tolist() == [1, 1]
    assert recording.returned.tolist() == [2, 2]


def test_errors_keep_their_line_and_the_recording_stays() -> None:
    kernel = function_from("def kernel(x):\n    y = x + 1\n    z = y @ x.nothing\n    return z", "kernel", "fails.py")
    recording = record(kernel, {"x": torch.ones(2)})
    assert recording.status == "failed"
    assert "nothing" in recording.error
    assert [s.text for s in map(recording.index.step, range(1, 4))] == [
        "def kernel(x):",
        "y = x + 1",
        "the run ended here",
    ]


def test_writes_of_functions_without_source_are_seen() -> None:
    """A callable object cannot be instrumented; torch's dispatcher tells what it writes."""

    class Doubler:
        def __call__(self, x: torch.Tensor) -> None:
            x[1:] *= 2

    text = "def kernel(x):\n    double(x)\n    double(x)\n    return x"
    kernel = function_from(text, "kernel", "guarded.py")
    kernel.__globals__["double"] = Doubler()
    recording = record(kernel, {"x": torch.ones(3)})
    held = [recording.index.content(recording.facts.inputs["x"], k).numbers.tolist() for k in (1, 2, 3)]
    assert held == [[1, 1, 1], [1, 2, 2], [1, 4, 4]]
