"""The cursor on a mixed kernel: steps, focus, queues, who wrote what, breakpoints, what-ifs."""

from __future__ import annotations

import pytest
import torch
from record_support import DATA, function_from, script_from

from pypto_lab.compat.cases import case
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.record.breakpoints import (
    AtLine,
    OnDivergence,
    OnNonFinite,
    OnOp,
    OnQueue,
    OnRegion,
    OnVariable,
    When,
)
from pypto_lab.record.events import EventKind, StepKind
from pypto_lab.record.recorder import record
from pypto_lab.record.recording import Recording
from pypto_lab.record.session import Session
from pypto_lab.record.trace import Cells


@pytest.fixture(scope="module")
def pipe() -> Recording:
    """k31: the cube pushes three products, a vector lane finishes and stores each."""
    subject = case(DATA / "kernels" / "k31_pipe_nosplit" / "kernel.py")
    values = dict(subject.make_inputs(0))
    return record(subject.program(values), values)


@pytest.fixture
def session(pipe: Recording) -> Session:
    return Session(pipe)


def source_line(text: str) -> int:
    """Line of the kernel's file that has `text`."""
    rows = (DATA / "kernels" / "k31_pipe_nosplit" / "kernel.py").read_text().splitlines()
    return next(i for i, row in enumerate(rows, 1) if text in row)


# --- moving


def test_steps_forward_and_back(session: Session) -> None:
    assert session.current is None
    assert session.back() is None
    seen = []
    while (step := session.step()) is not None:
        seen.append(step.index)
    assert seen == list(range(1, len(session) + 1))
    assert session.step() is None
    assert session.position == len(session)
    session.goto(3)
    assert session.current is not None
    assert session.current.index == 3
    with pytest.raises(IndexError, match="outside 0"):
        session.goto(len(session) + 1)


def test_next_and_previous_event_of_a_lane(session: Session) -> None:
    session.focus_on("AIV0")
    lane = session.recording.trace.lanes.index("AIV0")
    expected = session.recording.index.steps_of_lane[lane]
    session.goto(0)
    walked = []
    while (step := session.next_event()) is not None:
        assert step.where.lane == "AIV0"
        walked.append(step.index)
    assert walked == expected
    while session.previous_event() is not None:
        walked.pop()
        assert session.position == walked[-1]
    assert len(walked) == 1


def test_over_into_and_out() -> None:
    text = """
    def inner(x):
        y = x + 1
        return y

    def kernel(x):
        a = inner(x)
        b = inner(a)
        return b
    """
    recording = record(function_from(text, "kernel", "nested.py"), {"x": torch.zeros(2)})
    session = Session(recording)
    session.step()
    assert session.over().text == "a = inner(x)"  # type: ignore[union-attr]
    assert session.into().text == "def inner(x):"  # type: ignore[union-attr]
    assert session.into().text == "y = x + 1"  # type: ignore[union-attr]
    assert session.out().text == "b = inner(a)"  # type: ignore[union-attr]
    assert session.over().text == "return b"  # type: ignore[union-attr]
    assert session.over() is None
    assert session.back_over().text == "b = inner(a)"  # type: ignore[union-attr]
    assert session.back_over().text == "a = inner(x)"  # type: ignore[union-attr]


def test_over_passes_waits_and_into_enters_lanes(session: Session) -> None:
    session.run_back()
    session.step()
    entered = session.into()
    while entered is not None and entered.where.lane == "host":
        entered = session.into()
    assert entered is not None
    assert entered.where.lane in ("AIC", "AIV0")
    session.goto(0)
    session.focus_on("AIV0")
    session.next_event()
    kinds = set()
    while (step := session.over()) is not None:
        kinds.add(step.kind)
    assert StepKind.BLOCKED not in kinds
    assert StepKind.STATEMENT in kinds


def test_focus_on_an_iteration(session: Session) -> None:
    step = session.focus_on("AIV0", iteration=2)
    assert step is not None
    assert step.where.lane == "AIV0"
    assert step.where.iterations[-1] == 2
    assert all(session.recording.index.coordinate(s).iterations[-1] == 2 for s in session.focused_steps)
    with pytest.raises(LabError, match="no step lies at AIV0, iteration 9"):
        session.focus_on("AIV0", iteration=9)
    with pytest.raises(LabError, match="did you mean"):
        session.focus_on("AIV7")


def test_focus_on_a_block() -> None:
    subject = case(DATA / "kernels" / "k29_spmd_blocks" / "kernel.py")
    values = dict(subject.make_inputs(0))
    recording = record(subject.program(values), values)
    blocks = {recording.index.coordinate(k).block for k in range(1, len(recording) + 1)}
    assert len(blocks - {None}) > 1
    session = Session(recording)
    step = session.focus_on("host", block=1)
    assert step is not None
    assert step.where.block == 1
    name = subject.outputs[0]
    session.end()
    authors = {author.where.block for author, _ in session.writers(name) if author.where is not None}
    assert authors == blocks - {None}


# --- state


def test_lanes_say_what_they_wait_for() -> None:
    subject = case(DATA / "kernels" / "k31_pipe_nosplit" / "kernel.py")
    values = dict(subject.make_inputs(0))
    recording = record(subject.program(values), values)
    session = Session(recording)
    waits = [k for k in range(1, len(recording) + 1) if recording.trace.steps.kind[k - 1] == StepKind.BLOCKED]
    assert waits
    session.goto(waits[0])
    lanes = {lane.name: lane for lane in session.lanes}
    current = session.current
    assert current is not None
    state = lanes[current.where.lane]
    assert state.status == "waits"
    assert state.waiting is not None
    assert state.waiting.operation in ("pop", "push")
    assert "kernel.py:" in state.waiting.source
    assert any(str(w).startswith(f"{state.name} waits: ") for q in session.queues for w in q.waiters)
    session.next_event()
    assert {lane.name: lane.status for lane in session.lanes}[state.name] != "waits"


def test_a_lane_is_done_when_its_group_has_ended() -> None:
    subject = case(DATA / "kernels" / "k30_pipe_two_groups" / "kernel.py")
    values = dict(subject.make_inputs(0))
    session = Session(record(subject.program(values), values))
    names = {name: session.recording.trace.lanes.index(name) for name in ("AIC", "AIV0")}
    resets = [e.step for e in session.recording.trace.events if e.kind == EventKind.RESET]
    assert len(resets) == 2
    session.goto(resets[1] - 1)
    before = {lane.name: lane.status for lane in session.lanes}
    assert [before[name] for name in names] == ["done", "done"]
    session.end()
    assert {lane.status for lane in session.lanes} <= {"done", "running"}


def test_queues_follow_pushes_pops_and_frees(session: Session) -> None:
    held = pushed = popped = freed = 0
    for k in range(1, len(session) + 1):
        session.goto(k)
        for e in session.current.events:  # type: ignore[union-attr]
            if e.kind == EventKind.RESET:
                held = pushed = popped = freed = 0
            held += {EventKind.PUSH: 1, EventKind.FREE: -1}.get(e.kind, 0)
            pushed += e.kind == EventKind.PUSH
            popped += e.kind == EventKind.POP
            freed += e.kind == EventKind.FREE
        for queue in session.queues:
            assert (queue.occupied, queue.pushed, queue.popped, queue.freed) == (held, pushed, popped, freed)
            assert queue.depth in (2, None)
            assert queue.occupied <= 2
            for entry in queue.entries:
                assert (entry.shape, entry.valid, entry.dtype) == ((16, 32), (16, 32), "float32")
                assert entry.pushed_by == "AIC"
                assert entry.slot in (0, 1)
                assert entry.pushed_line.endswith(f"kernel.py:{source_line('tpush_to_aiv')}")
    assert (pushed, popped, freed) == (3, 3, 3)


def test_who_wrote_a_cell_of_the_output(session: Session) -> None:
    session.end()
    for row, iteration in ((0, 0), (17, 1), (47, 2)):
        author = session.who_wrote("y", (row, 5))
        assert author.where is not None
        assert author.where.lane == "AIV0"
        assert author.iterations[-1] == iteration
        assert author.source.endswith(f"kernel.py:{source_line('pl.store')}")
        assert "store" in author.statement
    assert [count for _, count in session.writers("y")] == [16 * 32] * 3
    assert session.who_wrote("y").iterations[-1] == 2
    session.goto(1)
    assert session.who_wrote("y", (0, 5)).how == "argument"
    nxt = session.next_writer("y", (17, 0))
    assert nxt is not None
    assert nxt.iterations[-1] == 1
    with pytest.raises(IndexError, match="outside axis 0"):
        session.who_wrote("y", (48, 0))
    with pytest.raises(LabError, match="no variable is called `nothing`"):
        session.who_wrote("nothing")


def test_who_wrote_through_a_copying_update() -> None:
    text = """
    def kernel(x, y):
        b = _assemble(x, y, [0, 0], copy=True)
        c = _assemble(b, y * 2, [2, 0], copy=True)
        return c
    """
    recording = record(script_from(text, "kernel"), {"x": torch.zeros(6, 4), "y": torch.ones(2, 4)})
    session = Session(recording)
    session.end()
    assert session.who_wrote("c", (0, 1)).statement.startswith("b =")
    assert session.who_wrote("c", (3, 1)).statement.startswith("c =")
    assert session.who_wrote("c", (5, 1)).how == "argument"
    assert [(a.step, n) for a, n in session.writers("c")] == [(3, 8), (2, 8), (0, 8)]


def test_readers_of_a_value(session: Session) -> None:
    session.run_back()
    session.break_at(OnVariable("got"))
    hit = session.run()
    assert hit is not None
    texts = [step.text for step in session.readers("got")]
    assert len(texts) == 2, texts
    assert all("got" in text for text in texts)
    assert {step.where.iterations[-1] for step in session.readers("got")} == {0}


def test_variables_and_watches(session: Session) -> None:
    session.break_at(OnVariable("soft", iteration=1))
    assert session.run() is not None
    table = {v.name: v for v in session.variables()}
    assert (table["soft"].dtype, table["soft"].shape, table["soft"].last_written) == (
        "float32", (16, 32), session.position,
    )  # fmt: skip
    assert table["i"].text == "1"
    assert session.watch("soft.min() >= 0").text == "True"
    assert session.watch("soft - got").ok
    assert "NameError" in session.watch("missing + 1").text
    with pytest.raises(LabError, match="not an expression"):
        session.look("soft +")
    value = session.value("soft")
    assert isinstance(value, Cells)
    assert value.numbers.shape == (16, 32)


# --- breakpoints


def test_breakpoints(session: Session) -> None:
    line = source_line("pl.store")
    assert len(session.stops(AtLine(line))) == 3
    assert len(session.stops(AtLine(line, "kernel.py", iteration=1))) == 1
    assert session.stops(AtLine(line, "other.py")) == []
    assert len(session.stops(OnOp("matmul", lane="AIC"))) == 3
    assert session.stops(OnOp("matmul", lane="AIV0")) == []
    assert len(session.stops(OnQueue("push"))) == 3
    assert len(session.stops(OnQueue("pop", pipe="nowhere"))) == 0
    assert len(session.stops(OnRegion("y", (20, 3)))) == 2  # bound as an argument, written in iteration 1
    assert len(session.stops(AtLine(line, condition="i == 2"))) == 1
    first = session.stops(When("i > 0", lane="AIV0"))
    assert first
    assert session.recording.index.coordinate(first[0]).lane == "AIV0"


def test_run_stops_at_the_nearest_both_ways(session: Session) -> None:
    session.break_at(OnQueue("pop"), OnOp("store"))
    forward = []
    while (hit := session.run()) is not None:
        forward.append(hit.step.index)
    assert len(forward) == 6
    assert forward == sorted(forward)
    assert session.position == len(session)
    backward = []
    while (hit := session.run_back()) is not None:
        backward.append(hit.step.index)
    assert backward == forward[::-1]
    assert session.position == 0


def test_first_non_finite() -> None:
    text = """
    def kernel(x):
        a = x * 2
        for i in range(3):
            a = a - 1
            b = torch.log(a)
            c = b + 1
        return c
    """
    recording = record(function_from(text, "kernel", "nonfinite.py"), {"x": torch.full((2,), 0.75)})
    session = Session(recording)
    session.break_at(OnNonFinite())
    hit = session.run()
    assert hit is not None
    assert (hit.step.text, hit.step.where.iterations) == ("b = torch.log(a)", (1,))


def test_first_divergence_from_another_recording() -> None:
    text = """
    def kernel(x, k):
        a = x * 2
        for i in range(4):
            if i == k:
                a = a + 1
            a = a * 1.5
        return a
    """
    kernel = function_from(text, "kernel", "diverge.py")
    one = record(kernel, {"x": torch.ones(3), "k": 9})
    two = record(kernel, {"x": torch.ones(3), "k": 2})
    session = Session(two)
    found = session.first_divergence(one)
    assert found is not None
    assert found.name == "k"
    session.break_at(OnDivergence(record(kernel, {"x": torch.ones(3), "k": 2})))
    assert session.run() is None
    golden = function_from("def golden(x):\n    a = x * 2\n    a = a * 1.5\n    return a", "golden", "golden.py")
    beside = record(golden, {"x": torch.ones(3)})
    assert Session(one).first_divergence(beside) is None
    other = Session(record(golden, {"x": torch.full((3,), 1.5)})).first_divergence(beside)
    assert other is not None
    assert (other.name, other.max_abs) == ("x", 0.5)


# --- what-if


def test_what_if_a_value_changes(session: Session) -> None:
    session.break_at(OnVariable("got", iteration=1))
    hit = session.run()
    assert hit is not None
    before = session.recording.outputs["y"]
    branch = session.what_if("got", 100.0)
    changed = branch.recording
    assert changed.ok
    assert "got" in changed.facts.branch
    assert changed in session.recording.branches
    assert branch.position == session.position
    after = changed.outputs["y"]
    assert torch.equal(after[:16], before[:16])
    assert torch.equal(after[32:], before[32:])
    assert torch.equal(after[16:32], torch.full((16, 32), 100.0))
    step = branch.step()
    assert step is not None
    assert step.kind == StepKind.CHANGED
    for k in range(1, session.position + 1):
        assert str(changed.index.step(k)) == str(session.recording.index.step(k))
    assert torch.equal(session.recording.outputs["y"], before)


def test_what_if_a_cell_changes(session: Session) -> None:
    session.break_at(OnVariable("soft", iteration=0))
    session.run()
    before = session.recording.outputs["y"]
    after = session.what_if("soft", -7.0, place=(3, slice(0, 2))).recording.outputs["y"]
    assert after[3, :2].tolist() == [-7, -7]
    after[3, :2] = before[3, :2]
    assert torch.equal(after, before)


def test_what_if_the_lanes_run_in_another_order(session: Session) -> None:
    session.break_at(OnQueue("push"))
    session.run()
    branch = session.what_if(policy="round-robin")
    order = [str(branch.recording.index.step(k)) for k in range(1, len(branch.recording) + 1)]
    original = [str(session.recording.index.step(k)) for k in range(1, len(session) + 1)]
    assert order[: session.position] == original[: session.position]
    assert order != original
    assert torch.equal(branch.recording.outputs["y"], session.recording.outputs["y"])
    with pytest.raises(LabError, match="starts after a step"):
        Session(session.recording).what_if("x", 1)


# --- runs that do not finish


def test_a_deadlock_is_recorded_with_who_waits() -> None:
    text = """
    def cube(x):
        a = _cross_core_rt.pop_from_aiv(0)
        _cross_core_rt.push_to_aiv(x, 0)

    def vector(x):
        b = _cross_core_rt.pop_from_aic(0)
        _cross_core_rt.push_to_aic(b, 0)

    def kernel(x):
        _run_members('g', {}, aic=(cube, x), aiv=(vector, x))
    """
    recording = record(script_from(text, "kernel"), {"x": torch.zeros(2, 2)})
    assert recording.status == "deadlock"
    session = Session(recording)
    session.end()
    states = {lane.name: lane for lane in session.lanes}
    assert states["AIC"].waiting is not None
    assert states["AIV0"].waiting is not None
    assert {states["AIC"].waiting.pipe, states["AIV0"].waiting.pipe} == {"V2C[0]#0", "C2V[0]#0"}
    assert "a = _cross_core_rt.pop_from_aiv(0)" in states["AIC"].text
    assert "waiting at the end" in recording.report()
    with pytest.raises(LabError, match="deadlock"):
        recording.raise_if_failed()
