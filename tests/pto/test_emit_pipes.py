"""Slots of pipes in global memory: where emission puts them, how large the buffer is, and that a run checks both."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from pypto_lab.compat.cases import case
from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir import nodes as n
from pypto_lab.lowering import lower
from pypto_lab.pto.dialect.verify import verify
from pypto_lab.pto.emit import emit, emit_to
from pypto_lab.pto.emit.pipes import slot_regions
from pypto_lab.pto.machine import execute, run_build
from pypto_lab.pto.orchestration.pipe_buffers import pipe_buffer_elements
from pypto_lab.pto.parse import parse
from tests.pto.texts import KERNELS

SET_UP = [(0, 1, 1024, 4), (0, 2, 512, None), (1, 3, 256, 2), (2, 1, 128, None)]
"""Pipe id, direction mask, bytes of a slot, slots."""


def group(pipes: list[tuple[int, int, int, int | None]] = SET_UP) -> n.Program:
    """A group both of whose functions set up the same pipes, the vector side in the other order."""
    calls = {
        side: [
            f"pl.system.{side}_initialize_pipe(pl.const(0, pl.INT32), pl.const(0, pl.INT32), dir_mask={mask}, "
            f"slot_size={size}, id={id}{'' if slots is None else f', slot_num={slots}'})"
            for id, mask, size, slots in (pipes if side == "aic" else reversed(pipes))
        ]
        for side in ("aic", "aiv")
    }
    buffer = "__gm_pipe_buffer: pl.Out[pl.Tensor[[1], pl.FP32]]"
    lines = ["# pypto.program: P", "import pypto.language as pl", "", "@pl.program", "class P:"]
    for side in ("aic", "aiv"):
        lines += [f"    @pl.function(type=pl.FunctionType.{side.upper()})", f"    def f_{side}({buffer}):"]
        lines += [f"        {call}" for call in calls[side]]
    lines += ["    @pl.function(type=pl.FunctionType.Group)", f"    def f(self, {buffer}):"]
    lines += ["        self.f_aic(__gm_pipe_buffer)", "        self.f_aiv(__gm_pipe_buffer)"]
    return read_dump("\n".join(lines) + "\n")


def starts(text: str) -> dict[tuple[int, int], int]:
    """The element at which each set-up of a text has its slots, by pipe id and mask."""
    found: dict[tuple[int, int], int] = {}
    distances = {name: int(c) for name, c in re.findall(r"%(\S+) = pto\.addptr %arg0, %c(\d+)_index", text)}
    for head, pointer in re.findall(r"_initialize_pipe \{(.*?)\}\s*\(gm_slot_buffer = %(\S+) :", text):
        given = {word: int(value) for word, value in re.findall(r"(\w+) = (\d+)", head)}
        found[given.get("id", 0), given["dir_mask"]] = 0 if pointer == "arg0" else distances[pointer]
    return found


def test_each_pipe_and_direction_has_slots_of_its_own() -> None:
    """4 slots of 1024 bytes; 8 of 512, since one direction has 8; 2 in each direction of 256; 8 of 128."""
    program = group()
    text = emit(program)["f"]
    assert not verify(parse(text))
    cube, vector = (starts(part) for part in text.split("func.func @f_aiv"))
    assert cube == vector == {(0, 1): 0, (0, 2): 1024, (1, 3): 2048, (2, 1): 2304}
    members = [program.functions["f_aic"], program.functions["f_aiv"]]
    assert {key: byte // 4 for key, byte in slot_regions(members).items()} == cube
    assert pipe_buffer_elements(members) == 2304 + 8 * 128 // 4


def test_what_is_emitted_fits_the_buffer_that_a_launch_makes() -> None:
    program = group()
    text = emit(program)["f"]
    size = pipe_buffer_elements([program.functions["f_aic"], program.functions["f_aiv"]])
    assert execute(parse(text), "f", [torch.zeros(size)]).findings == ()
    found = execute(parse(text), "f", [torch.zeros(size - 1)]).findings
    assert found
    assert all("pipe 2, cube to vector: its slots take bytes 9216..10240" in f.message for f in found)


def test_a_single_pipe_begins_where_the_buffer_begins() -> None:
    text = emit(group([(0, 3, 256, None)]))["f"]
    assert "pto.addptr" not in text


def test_a_build_runs_with_a_buffer_as_large_as_the_orchestration_makes_it(tmp_path: Path) -> None:
    """Slots the text states twice as large do not fit any more."""
    made = case(KERNELS / "k20_bidir_blocks" / "kernel.py")
    values = made.make_inputs(0)
    program = lower(made.program(values), "a2a3").program
    (path,) = emit_to(program, tmp_path, "a2a3")
    assert run_build(tmp_path, values, program=program).findings == ()
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("slot_size = 4096", "slot_size = 8192"), encoding="utf-8")
    messages = [f.message for f in run_build(tmp_path, values, program=program, verify=False).findings]
    assert any("__gm_pipe_buffer" in m or "its slots take bytes" in m for m in messages)


CREATED = """import pypto.language as pl
import torch


@pl.jit
def k(x: pl.Tensor[[8, 64], pl.FP32], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    t = pl.create_tensor([16, 64], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="first"):
        t = pl.assemble(t, pl.add(x, 1.0), [0, 0])
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="second"):
        o = pl.assemble(o, pl.mul(t, 2.0), [0, 0])
    return o


def make_inputs(seed=0):
    return {"x": torch.ones(8, 64), "o": torch.zeros(16, 64)}


def golden(t):
    t["o"][:8] = (t["x"] + 1.0) * 2.0
"""


def test_tensors_that_the_orchestration_creates_are_marked_on_request(tmp_path: Path) -> None:
    """Half of such a tensor is never written, and goes to the output."""
    file = tmp_path / "kernel.py"
    file.write_text(CREATED, encoding="utf-8")
    made = case(file)
    values = made.make_inputs(0)
    program = lower(made.program(values), "a2a3").program
    emit_to(program, tmp_path / "build")
    for poison, rest in ((None, torch.zeros(8, 64)), ("nan", torch.full((8, 64), float("nan")))):
        (o,) = run_build(tmp_path / "build", values, program=program, poison=poison).outputs.values()
        assert torch.equal(o[:8], torch.full((8, 64), 4.0))
        torch.testing.assert_close(o[8:], rest, equal_nan=True)
