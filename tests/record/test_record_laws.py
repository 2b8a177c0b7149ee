"""Laws of the recording: any position equals replaying that many steps, whatever the program writes where."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from record_support import Snapshot, assert_matches, function_from, script_from, snapshots

from pypto_lab.record.events import RecomputedValue
from pypto_lab.record.recorder import record
from pypto_lab.record.recording import Recording
from pypto_lab.record.session import Session

NAMES = ("a", "b", "c", "d", "e")

SIMPLE = (
    "{x} = torch.exp({y} * 0.1)",
    "{x} = {y} + {z}",
    "{x} = torch.where({y} > 0, {y}, {z})",
    "{x} = {y} * 2 - {z}",
    "{x} = torch.maximum({y}, {z})",
    "{x} = {y}.clone()",
    "{x} = {y}",
    "{x}, {y} = {y}, {x}",
    "{x} = helper({y}, {z})",
    "{x} = -{y}",
    "{x} = {y}.t().contiguous().t()",
    "{x}.mul_(0.5)",
    "{x} += {y}",
    "{x} -= 1",
    "{x}[1:3] = {y}[0:2] + 0",
    "{x}[0, 2] = 1.5",
    "{x}[{y} > 0.5] = 0.25",
    "{x}[torch.tensor([0, 2])] = 3.0",
    "{x}[{y} > 99] = 7",
    "{x}[:, n % 6] = {y}[:, 0] * 2",
    "{x}[1:3, 2:5] *= -1",
    "torch.add({y}, {z}, out={x})",
    "{x}.t().add_(1)",
    "torch.relu_({x})",
    "v = {x}[:, 1:4]\nv.add_(1)\nw = v * 3\nv[...] = w",
    "n = n + 1",
    "n += 2",
    "parts = [{x}, {y}]\nparts[0].add_(1)\nparts.append({z})",
    "out[2:4] = {x}[0:2]",
    "{x} = ({y}.sum() * 0.01) + {z}",
    "t{u} = torch.exp({x} * 0.1)\nu{u} = t{u} - {y}\n{z}.add_(u{u} * 1)",
    "t{u} = {x} * 2\n{x}.add_(1)\n{z} = t{u} + {x}",
    "t{u} = {x}.clone()\nu{u} = torch.where(t{u} > {y}, t{u}, {z})\n{x}.copy_(u{u} + t{u})",
    "t{u} = {x} + n\nn = n + 1\nu{u} = t{u} * n\nout[0:2] = (u{u} + 1)[0:2]",
    "t{u} = {x} * 0.5\nif n > 2:\n    t{u} = {y} * 2\n{z} = t{u} - 1",
)


@st.composite
def blocks(draw: st.DrawFn, depth: int = 2) -> list[str]:
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 5))):
        choice = draw(st.integers(0, 9)) if depth else 9
        names: dict[str, object] = {k: draw(st.sampled_from(NAMES)) for k in "xyz"}
        names["u"] = draw(st.integers(0, 2))
        if choice == 0:
            lines.append(f"for i{depth} in range({draw(st.integers(0, 3))}):")
        elif choice == 1:
            lines.append(f"if n % {draw(st.integers(2, 3))} == 0:")
        elif choice == 2:
            lines += [f"w{depth} = 0", f"while w{depth} < {draw(st.integers(1, 2))}:", f"    w{depth} = w{depth} + 1"]
        else:
            lines += draw(st.sampled_from(SIMPLE)).format(**names).split("\n")
            continue
        lines += ["    " + line for line in draw(blocks(depth=depth - 1))]
    return lines


def program_text(lines: list[str]) -> str:
    body = "\n".join("    " + line for line in lines)
    return (
        "def helper(p, q):\n    r = p * 0.5\n    q.sub_(0.25)\n    s = r + q\n    return s\n\n"
        "def kernel(a, b, c, d, e, out, n):\n" + body + "\n    return out\n"
    )


def arguments(seed: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    tensors: dict[str, Any] = {name: torch.randn(4, 6, generator=generator) for name in NAMES}
    return {**tensors, "out": torch.zeros(4, 6), "n": seed % 4}


LAWS = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@LAWS
@given(lines=blocks(), seed=st.integers(0, 7))
def test_every_position_holds_what_the_run_held_there(lines: list[str], seed: int) -> None:
    kernel = function_from(program_text(lines), "kernel", f"random_{abs(hash(tuple(lines)))}.py")
    values = arguments(seed)
    with snapshots() as expected:
        recording = record(kernel, values)
    check(recording, expected, seed)
    plain = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in values.items()}
    kernel(**plain)
    for name, tensor in recording.outputs.items():
        assert torch.equal(tensor.view(torch.int32), plain[name].view(torch.int32)), name


def test_the_random_programs_have_values_that_are_not_kept() -> None:
    lines = [
        line for text in SIMPLE[-5:] for line in text.format(x="a", y="b", z="c", u=SIMPLE.index(text)).split("\n")
    ]
    recording = record(function_from(program_text(lines), "kernel", "dropping.py"), arguments(1))
    assert sum(isinstance(v, RecomputedValue) for v in recording.trace.values) >= 5


def check(recording: Recording, expected: list[Snapshot], seed: int) -> None:
    assert recording.ok, recording.error
    assert len(recording) == len(expected)
    order = list(range(1, len(recording) + 1))
    random.Random(seed).shuffle(order)
    session = Session(recording)
    for k in order:
        session.goto(k)
        assert_matches(recording, session.position, expected[k - 1])


@settings(LAWS, max_examples=25)
@given(lines=blocks(), seed=st.integers(0, 7))
def test_same_program_same_digest_and_moving_changes_nothing(lines: list[str], seed: int) -> None:
    kernel = function_from(program_text(lines), "kernel", f"random_{abs(hash(tuple(lines)))}.py")
    first = record(kernel, arguments(seed))
    session = Session(first)
    forward = []
    while session.step() is not None:
        forward.append(session.report())
    backward = [session.report()]
    while session.back() is not None:
        backward.append(session.report())
    assert backward[: len(forward)] == forward[::-1]
    kept = record(kernel, arguments(seed), keep_all=True)
    assert first.digest() == record(kernel, arguments(seed)).digest()
    assert kept.digest() == record(kernel, arguments(seed), keep_all=True).digest()


LANE_LINES = (
    "t = t + {k}",
    "t.mul_(0.5)",
    "u = torch.exp(t * 0.1)",
    "t = u + t",
    "t[1:3] = u[0:2]",
    "out.add_(t)",
    "out[0:2] = u[2:4]",
)


@st.composite
def lane_bodies(draw: st.DrawFn) -> tuple[str, int]:
    """A cube and a vector function that exchange as many tiles as they wait for, and a host that calls them twice."""
    count = draw(st.integers(1, 3))
    split = draw(st.sampled_from([0, 1, 2]))
    back = draw(st.booleans())

    def work() -> list[str]:
        return [
            draw(st.sampled_from(LANE_LINES)).format(k=draw(st.integers(1, 9))) for _ in range(draw(st.integers(0, 3)))
        ]

    rows = "x * (1 + _get_subblock_idx())"
    cube = ["t = x * 1", "u = t + 1", f"for i in range({count}):", *["    " + w for w in work()]]
    cube += [f"    _cross_core_rt.push_to_aiv(x + i, {split})"]
    cube += (
        ["    g = _cross_core_rt.pop_from_aiv(0)", "    out.add_(g)", "    _cross_core_rt.tfree_to_aiv(g)"]
        if back
        else []
    )
    cube += work()
    vector = [f"t = {rows}", "u = t + 1", *work(), f"for i in range({count}):"]
    vector += [f"    p = _cross_core_rt.pop_from_aic({split})", "    q = p * 2", "    t[0:2, 0:3] += q[0:2, 0:3]"]
    vector += ["    " + w for w in work()] + [f"    _cross_core_rt.tfree_to_aic(p, {split})"]
    vector += ["    _cross_core_rt.push_to_aic(t * 1, 0)"] if back else []
    lines = ["def cube(x, out):", *["    " + c for c in cube], "def vector(x, out):", *["    " + v for v in vector]]
    lines += [
        f"_GROUP_META['g'] = {{'aic': 'cube', 'aiv': 'vector', 'split': {split}, 'dual_aiv_dispatch': {back}}}",
        "def kernel(x, out):",
        "    for step in range(2):",
        "        _run_members('g', _GROUP_META['g'], aic=(cube, x, out), aiv=(vector, x, out))",
        "        x = x + 1",
        "    return out",
    ]
    return "\n".join(lines), draw(st.integers(0, 99))


@settings(LAWS, max_examples=40)
@given(body=lane_bodies(), policy=st.sampled_from(["lane-first", "round-robin", "random"]))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_position_of_a_program_with_lanes(body: tuple[str, int], policy: str) -> None:
    text, seed = body
    script = script_from(text, "kernel")
    values = {"x": torch.randn(4, 6, generator=torch.Generator().manual_seed(seed)), "out": torch.zeros(4, 6)}
    with snapshots() as expected:
        recording = record(script, values, seed=seed, policy=policy)
    check(recording, expected, seed)
    assert {"AIC", "AIV0"} <= set(recording.lanes)
    assert recording.digest() == record(script, values, seed=seed, policy=policy).digest()
