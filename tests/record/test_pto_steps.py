"""Stepping in `.pto` text: what the recorder says is what the machine did, instruction by instruction."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from record_support import DATA

from pypto_lab.compat.cases import case
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.pto.decode import Instruction
from pypto_lab.pto.machine import EXECUTED, execute, run_build
from pypto_lab.pto.machine.arena import Tile
from pypto_lab.pto.machine.lane import Lane
from pypto_lab.pto.machine.listener import Listener
from pypto_lab.pto.parse import read
from pypto_lab.record.archive import open_archive
from pypto_lab.record.breakpoints import AtLine, OnNonFinite, OnOp, OnQueue, OnRegion, OnVariable
from pypto_lab.record.events import StepKind, TensorValue
from pypto_lab.record.live import Control
from pypto_lab.record.pto_probes import pieces
from pypto_lab.record.pto_steps import record_build, record_unit
from pypto_lab.record.recording import Recording
from pypto_lab.record.session import Session
from pypto_lab.record.store import byte_interval
from pypto_lab.record.trace import Cells
from tests.pto.texts import Text, module, tile

PTO = DATA / "pto"
BUILD = PTO / "while_branch"
CASE = DATA / "kernels" / "k24_while_branch" / "kernel.py"


def trip_arguments() -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    a, w = torch.randn(64, 32, generator=g).half(), torch.randn(32, 32, generator=g).half()
    return [a, w, torch.zeros(64, 32), torch.zeros(1)]


@pytest.fixture(scope="module")
def trip() -> Recording:
    """A group in both directions: cube and two vector lanes, boxed tiles."""
    return record_unit(PTO / "trip.pto", "trip", trip_arguments(), seed=3)


@pytest.fixture(scope="module")
def build() -> Recording:
    return record_build(BUILD, case(CASE).make_inputs(0))


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    return torch.equal(left.contiguous().view(torch.uint8), right.contiguous().view(torch.uint8))


# --- the same run ----------------------------------------------------------------------------------------------------


def test_a_recorded_build_computes_bit_for_bit_what_an_unrecorded_one_does(build: Recording) -> None:
    plain = run_build(BUILD, case(CASE).make_inputs(0))
    assert build.ok
    assert sorted(build.outputs) == sorted(plain.outputs)
    assert all(same_bits(build.outputs[name], plain.outputs[name]) for name in plain.outputs)
    assert [f.message for f in build.findings] == [f.message for f in plain.findings]
    assert build.facts.engine == EXECUTED
    assert any(note.startswith("W620: ") for note in build.notes)


@pytest.mark.parametrize("seed", [0, 3])
def test_a_recorded_group_computes_what_an_unrecorded_one_does(seed: int) -> None:
    plain = trip_arguments()
    execute(read(PTO / "trip.pto"), "trip", plain, seed=seed)
    recording = record_unit(PTO / "trip.pto", "trip", trip_arguments(), seed=seed)
    assert recording.ok, recording.error
    assert same_bits(recording.outputs["arg2"], plain[2])
    again = record_unit(PTO / "trip.pto", "trip", trip_arguments(), seed=seed)
    assert recording.digest() == again.digest()


def test_another_order_of_lanes_is_another_recording_of_the_same_numbers(trip: Recording) -> None:
    other = record_unit(PTO / "trip.pto", "trip", trip_arguments(), policy="round-robin")
    assert other.digest() != trip.digest()
    assert same_bits(other.outputs["arg2"], trip.outputs["arg2"])


# --- goto is replay --------------------------------------------------------------------------------------------------


class Oracle(Listener):
    """After every op: lane, line, and the bits of the valid cells of every tile the lane has a handle of."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, dict[str, np.ndarray[Any, Any]]]] = []

    def after(self, lane: Lane, instruction: Instruction) -> None:
        if instruction.name.startswith("scf.") and not instruction.results:
            return
        names = {v.slot: v.name.lstrip("%") for i in lane.function.body.walk() for v in i.results}
        tiles = {
            names[slot]: tile.load(tile.valid_rows, tile.valid_cols)
            for slot, tile in enumerate(lane.values)
            if isinstance(tile, Tile) and slot in names
        }
        assert instruction.span is not None
        bits = {name: x.contiguous().view(torch.uint8).numpy().copy() for name, x in tiles.items()}
        self.seen.append((lane.name, instruction.span.line, bits))


def check_replay(recording: Recording, oracle: Oracle, every: int = 1) -> None:
    """Every state of the recording, in a random order, is what the machine had."""
    kinds = recording.trace.steps.kind
    steps = [
        k
        for k in range(1, len(recording) + 1)
        if kinds[k - 1] == StepKind.STATEMENT and recording.index.coordinate(k).lane != "host"
    ]
    assert len(steps) == len(oracle.seen)
    session = Session(recording)
    order = np.random.default_rng(0).permutation(len(steps))[::every]
    for i in order.tolist():
        lane, line, tiles = oracle.seen[i]
        step = session.goto(steps[i])
        assert step is not None
        assert (step.where.lane, step.line) == (lane, line)
        shown = {v.name for v in session.variables(lane)}
        assert set(tiles) <= shown
        for name, bits in tiles.items():
            cells = session.value(name)
            assert isinstance(cells, Cells)
            valid = cells.raw if cells.valid is None else cells.raw[: cells.valid[0], : cells.valid[1]]
            assert np.array_equal(np.ascontiguousarray(valid).view(np.uint8).ravel(), bits.ravel()), (steps[i], name)


def test_going_to_a_step_shows_what_the_machine_had_there(trip: Recording) -> None:
    oracle = Oracle()
    execute(read(PTO / "trip.pto"), "trip", trip_arguments(), seed=3, listener=oracle)
    check_replay(trip, oracle)


@pytest.mark.parametrize("order", ["nd", "dn", "nz", "zn"])
def test_tiles_of_every_layout_and_uneven_parts_of_them(order: str) -> None:
    """Inserts at odd places of a tile in boxes write pieces; the values read them back."""
    space = "vec" if order in ("nd", "dn") else "mat"
    text = Text("f32", "f32")
    whole, part = tile(32, 32, "f32", space, order), tile(16, 16, "f32", "vec", "nd")
    text.alloc("big", whole, 0)
    text.op("tload", [text.window(0, (32, 32))], ["big"])
    text.alloc("small", part, 8192, (13, 11))
    text.op("tload", [text.window(0, (32, 32), (3, 5), (13, 11))], ["small"])
    for row, column in ((0, 0), (5, 3), (16, 8), (19, 21)):
        text.line(
            f"pto.tinsert ins(%small, %{text.c(row)}, %{text.c(column)} : {part}, index, index) outs(%big : {whole})"
        )
    x = torch.randn(32, 32, generator=torch.Generator().manual_seed(1))
    oracle = Oracle()
    execute(module(text), "f", [x, torch.zeros(1)], verify=False, listener=oracle)
    recording = record_unit(module(text), "f", [x, torch.zeros(1)], verify=False)
    assert recording.ok, recording.error
    check_replay(recording, oracle)


@pytest.mark.parametrize("order", ["nz", "zn", "acc", "nd", "dn"])
def test_the_pieces_of_a_region_are_its_elements(order: str) -> None:
    box = tile(48, 64, "f32", "mat", order)
    from pypto_lab.pto.machine.layout import element_offset

    for row, column, rows, cols in ((0, 0, 48, 64), (0, 0, 17, 5), (3, 7, 29, 40), (16, 8, 16, 8), (47, 63, 1, 1)):
        wanted = sorted(
            element_offset(box, row + r, column + c) * box.itemsize for r in range(rows) for c in range(cols)
        )
        found: list[int] = []
        for start, shape, strides in pieces(box, row, column, rows, cols):
            addresses = np.array([start])
            for size, stride in zip(shape, strides, strict=True):
                addresses = (addresses[:, None] + np.arange(size) * stride).ravel()
            found += addresses.tolist()
        assert sorted(found) == wanted


# --- what a session says ---------------------------------------------------------------------------------------------


def test_steps_name_the_text_and_the_kernels_line(build: Recording) -> None:
    session = Session(build)
    session.break_at(OnOp("tmuls"))
    hit = session.run()
    assert hit is not None
    statement = hit.step.statement
    assert statement is not None
    assert statement.spot is not None
    assert statement.spot.file.endswith("branchy.pto")
    line = build.trace.sources[statement.spot.file].splitlines()[statement.spot.line - 1]
    assert line[statement.spot.column - 1 :].startswith("pto.tmuls")
    assert statement.origin is not None
    assert statement.origin.file == "kernel.py"
    assert hit.step.where.lane == "AIV0"
    assert hit.step in [build.index.step(s) for s in session.stops(AtLine(statement.spot.line, "branchy.pto"))]
    assert hit.step in [build.index.step(s) for s in session.stops(AtLine(statement.origin.line, "kernel.py"))]


def test_variables_have_box_valid_region_type_and_address(trip: Recording) -> None:
    session = Session(trip)
    session.break_at(OnOp("tpop_from_aiv"))
    while (hit := session.run()) is not None and hit.step.kind == StepKind.BLOCKED:
        pass
    popped = next(v for v in session.variables() if v.name in session.current.statement.targets)  # type: ignore[union-attr]
    assert popped.kind == "tensor"
    assert popped.place is not None
    assert popped.place.space == "mat"
    assert popped.place.high - popped.place.low == 2 * 32 * 32
    assert popped.shape == (32, 32)
    assert popped.dtype == "float16"
    assert f"{popped.place}" in session.report()


def test_the_author_of_a_cell_is_the_op_that_wrote_it(build: Recording) -> None:
    session = Session(build)
    session.end()
    author = session.who_wrote("blocks", (9, 3))
    assert author.where is not None
    assert author.where.lane == "AIV0"
    assert author.statement.startswith("pto.tstore")
    assert author.where.iterations == (1,)
    session.break_at(OnOp("tmuls"))
    session.run_back()
    assert session.who_wrote("t__tmp_v1", (0, 0)).step == session.position
    session.back()
    before = session.who_wrote("t__ssa_v0", (0, 0))
    assert before.statement.startswith("pto.tload")


def test_bytes_nobody_wrote_have_no_author(build: Recording) -> None:
    session = Session(build)
    session.break_at(OnOp("alloc_tile"))
    hit = session.run()
    assert hit is not None
    (name,) = hit.step.statement.targets  # type: ignore[union-attr]
    assert session.who_wrote(name).how == "unknown"


def test_breakpoints_on_a_tile_ignore_other_tiles_of_the_memory() -> None:
    text = Text("f32", "f32")
    for name, address in (("a", 0), ("b", 1024), ("alias", 512)):
        text.alloc(name, tile(8, 32), address)
    for name in ("a", "b", "alias"):
        text.op("tload", [text.window(0, (8, 32))], [name])
    text.op("tstore", ["b"], [text.window(1, (16, 32), (8, 0), (8, 32))])
    recording = record_unit(module(text), "f", [torch.ones(8, 32), torch.zeros(16, 32)])
    session = Session(recording)

    def rows(stops: list[int]) -> list[str]:
        return [recording.index.step(s).text for s in stops if recording.index.step(s).text.startswith("pto.t")]

    assert rows(session.stops(OnVariable("a"))) == [
        f"pto.tload ins(%part_{i}) outs(%{n})" for i, n in ((2, "a"), (6, "alias"))
    ]
    assert rows(session.stops(OnRegion("a", (0, slice(0, 4))))) == ["pto.tload ins(%part_2) outs(%a)"]
    assert rows(session.stops(OnRegion("a", (7, slice(0, 4))))) == [
        "pto.tload ins(%part_2) outs(%a)", "pto.tload ins(%part_6) outs(%alias)"
    ]  # fmt: skip
    assert rows(session.stops(OnRegion("arg1", (slice(8, 9), slice(0, 4))))) == ["pto.tstore ins(%b) outs(%part_8)"]
    assert rows(session.stops(OnRegion("arg1", (slice(0, 8), slice(0, 4))))) == []


def test_queue_events_have_slots_and_waits_name_the_true_ring() -> None:
    """The cube pushes halves to two lanes; the second one is late, so its ring is what the cube waits for."""
    from tests.pto.test_machine_pipes import cube, tensors, vector

    a, out = tensors(4)
    text = module(cube(1, 4), vector(1, 4))
    recording = record_unit(text, "group", [a, out], policy=SecondLaneLast())
    assert recording.ok, recording.error
    session = Session(recording)
    waits = [recording.index.step(s) for s in session.stops(OnQueue("blocked")) if lane_of(recording, s) == "AIC"]
    assert waits
    for step in waits:
        session.goto(step.index)
        waiter = next(w for q in session.queues for w in q.waiters if w.lane == "AIC")
        ring = next(q for q in session.queues if q.pipe == waiter.pipe)
        assert ring.depth is not None
        assert ring.pushed - ring.freed == ring.depth
    assert {e.pipe for s in waits for e in s.events if e.reason == "full"} >= {"C2V[1]#0"}
    pushes = [e for e in recording.trace.events if e.kind.name == "PUSH" and e.pipe == "C2V[1]#0"]
    depth = pushes[0].depth
    assert depth is not None
    assert depth < len(pushes)
    assert [e.slot for e in pushes] == [number % depth for number in range(4)]


class SecondLaneLast:
    """Lane 1 of the vector cores goes on only when nobody else can."""

    preempts = True

    def __call__(self, runnable: Any) -> str:
        return str(min(runnable, key=lambda name: (name == "AIV1", name)))


def lane_of(recording: Recording, step: int) -> str:
    return recording.index.coordinate(step).lane


def test_a_deadlock_leaves_a_recording_that_says_who_waits() -> None:
    from tests.pto.test_machine_pipes import cube, tensors, vector

    a, out = tensors(3)
    recording = record_unit(module(cube(0, 2), vector(0, 3)), "group", [a, out[: 3 * 32]])
    assert recording.status == "deadlock"
    assert "AIV0 waits in pto.tpop_from_aic" in recording.error
    session = Session(recording)
    session.end()
    assert [w.lane for q in session.queues for w in q.waiters] == ["AIV0"]
    assert recording.trace.steps.kind[-1] == StepKind.FAILED


def test_the_first_nan_is_where_it_comes_from_not_what_poison_looks_like() -> None:
    text = Text("f32", "f32")
    for name, address in (("a", 0), ("b", 1024), ("c", 2048)):
        text.alloc(name, tile(8, 32), address)
    text.op("tload", [text.window(0, (8, 32))], ["a"])
    text.op("tlog", ["a"], ["b"])
    text.op("tadd", ["b", "b"], ["c"])
    text.op("tstore", ["c"], [text.window(1, (8, 32))])
    x = torch.ones(8, 32)
    x[2, 3] = -1.0
    recording = record_unit(module(text), "f", [x, torch.zeros(8, 32)])
    session = Session(recording)
    session.break_at(OnNonFinite())
    hit = session.run()
    assert hit is not None
    assert hit.step.text == "pto.tlog ins(%a) outs(%b)"
    assert session.run() is None


def test_blocks_are_coordinates() -> None:
    x = torch.randn(64, 32, generator=torch.Generator().manual_seed(0))
    recording = record_unit(
        PTO / "spmd_blocks_incore_1.pto", "spmd_blocks_incore_1", [torch.zeros(64, 32), x], block_num=3
    )
    session = Session(recording)
    assert {recording.index.coordinate(k).block for k in range(1, len(recording) + 1)} == {0, 1, 2}
    session.focus_on("AIV0", block=2)
    assert session.current is not None
    assert session.current.where.block == 2
    assert {m.block for m in recording.trace.memories.values()} == {0, 1, 2}


# --- keeping it ------------------------------------------------------------------------------------------------------


WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "greenlet", "xdsl"):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, Absent())
from pypto_lab.record.archive import open_archive
from pypto_lab.record.session import Session
recording = open_archive(sys.argv[1])
session = Session(recording)
session.goto(int(sys.argv[2]))
sys.stdout.reconfigure(encoding="utf-8")
sys.stdout.write(recording.report() + session.report() + recording.digest())
"""


def test_a_file_holds_all_of_it_and_opens_without_torch_and_xdsl(trip: Recording, tmp_path: Path) -> None:
    path = trip.save(tmp_path / "trip.ptolab")
    opened = open_archive(path)
    assert opened.digest() == trip.digest()
    one, two = Session(trip), Session(opened)
    for k in range(0, len(trip) + 1, 7):
        one.goto(k)
        two.goto(k)
        assert one.report() == two.report()
    middle = len(trip) // 2
    one.goto(middle)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(path), str(middle)], capture_output=True, text=True, encoding="utf-8"
    )
    assert done.stdout == trip.report() + one.report() + trip.digest(), done.stderr


def test_memories_keep_the_bytes_in_use(trip: Recording) -> None:
    for storage, memory in trip.trace.memories.items():
        used = [
            byte_interval(v, 2 if v.dtype == "float16" else 4)[1]
            for v in trip.trace.values
            if isinstance(v, TensorValue) and v.storage == storage
        ]
        assert trip.trace.store.storages[storage].nbytes == max(used) < memory.size


def test_a_what_if_is_refused_in_words(trip: Recording, tmp_path: Path) -> None:
    for recording in (trip, open_archive(trip.save(tmp_path / "x.ptolab"))):
        session = Session(recording)
        session.goto(20)
        with pytest.raises(LabError, match=r"E418.*torch script.*\.pto interpreted by pypto_lab"):
            session.what_if(policy="random")


def test_an_interrupt_and_a_budget_work_as_for_scripts(tmp_path: Path) -> None:
    text = Text("f32", "f32")
    text.alloc("a", tile(32, 32), 0)
    text.raw(f"scf.for %i = %{text.c(0)} to %{text.c(400)} step %{text.c(1)} {{")
    text.op("tload", [text.window(0, (32, 32))], ["a"])
    text.op("tadds", ["a", text.c(1.0, "f32")], ["a"])
    text.op("tstore", ["a"], [text.window(1, (32, 32))])
    text.raw("}")
    args = [torch.ones(32, 32), torch.zeros(32, 32)]
    free = record_unit(module(text), "f", args)
    tight = record_unit(module(text), "f", args, budget=1 << 20, spill=str(tmp_path))
    assert free.ok
    assert tight.notes
    assert tight.resident_bytes < free.resident_bytes / 2
    assert tight.digest() == free.digest()

    def stop(progress: Any) -> None:
        if progress.steps > 500 and not progress.finished:
            raise KeyboardInterrupt

    part = record_unit(module(text), "f", args, control=Control(on_progress=stop, interval=0.0))
    assert part.status == "interrupted"
    assert 0 < len(part) < len(free)
    session = Session(part)
    session.end()
    assert isinstance(session.value("a"), Cells)


def test_what_cannot_be_run_at_all_is_raised(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no passes_dump"):
        record_build(tmp_path, {})
    with pytest.raises(LabError, match="is passed where the kernel reads f16"):
        record_unit(PTO / "trip.pto", "trip", [torch.zeros(1)])
