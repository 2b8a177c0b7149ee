"""Scripts by addresses: tiles as views of the bytes the compiler gave them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from kernel_texts import incore, kernel_code, program

import pypto_lab as lab
from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.ir.nodes import Program
from pypto_lab.torch_codegen.execute import ScriptError, run
from pypto_lab.torch_codegen.generate import generate

DATA = Path(__file__).parent.parent / "data"
LATE = sorted((DATA / "dumps").glob("*/passes_explicit/*_after_[AM]*[Aa]*.py"))
LATE = [path for path in LATE if int(path.name[:2]) >= 34]

BODY = """
    mem_a: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 1024)
    mem_b: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 1024)
    t: TILE(mem_a, 0) = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)
    u: TILE(mem_b, {place}) = pl.tile.muls(t, 2.0)
    w: TILE(mem_b, {place}) = pl.tile.add(u, t)
    o: T16 = pl.tile.store(w, [0, 0], out)
"""


def placed(body: str, parameters: str = "x: T16, out: pl.Out[T16]") -> Program:
    """A program whose `TILE(base, offset)` are 16 x 16 Vec tiles at that place."""
    tile = r"pl.Tile[[16, 16], pl.FP32, pl.MemRef(\1, pl.const(\2, pl.INT64), 1024), pl.Mem.Vec]"
    return incore(re.sub(r"TILE\((\w+), (\d+)\)", tile, body), parameters)


def values() -> dict[str, torch.Tensor]:
    return {"x": torch.arange(256.0).view(16, 16), "out": torch.zeros(16, 16)}


def test_the_script_reads_like_the_kernel() -> None:
    text = kernel_code(placed(BODY.format(place=1024)), memory="addresses")
    assert "core = _Core('a2a3', addressed=True)" in text
    assert "mem_b = core.alloc('Vec', 1024)" in text
    assert "u = core.put(mem_b, 1024, torch.mul(t, 2.0))" in text
    assert "_Core" not in generate(placed(BODY.format(place=1024))).text


def test_it_runs_with_torch_alone() -> None:
    script = generate(placed(BODY.format(place=1024)), memory="addresses")
    names: dict[str, object] = {}
    exec(script.text, names)
    given = values()
    names[script.entry](given["x"], given["out"])  # type: ignore[operator]
    assert torch.equal(given["out"], given["x"] * 3)
    assert "pypto_lab" not in script.text


def test_tiles_that_overlap_spoil_each_other() -> None:
    made = placed(BODY.format(place=512))
    given = values()
    assert torch.equal(run(made, given).outputs["out"], given["x"] * 3)
    assert not torch.equal(run(made, given, memory="addresses").outputs["out"], given["x"] * 3)


def test_without_addresses_buffers_are_apart() -> None:
    made = placed(BODY.format(place=0))
    given = values()
    text = kernel_code(made, memory="addresses")
    assert "addressed=False" in text
    assert torch.equal(run(made, given, memory="addresses").outputs["out"], given["x"] * 3)


def test_a_tile_outside_its_memory_is_an_error_with_its_line() -> None:
    with pytest.raises(ScriptError, match=r"kernel.py:11: .* leaves Vec of 196608 bytes"):
        run(placed(BODY.format(place=196608)), values(), memory="addresses")
    assert run(placed(BODY.format(place=196608)), values(), memory="addresses", arch="a5").outputs["out"].any()


def test_a_view_moves_nothing_and_a_write_to_it_is_seen() -> None:
    body = """
    mem_a: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 1024)
    mem_b: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 1024)
    t: TILE(mem_a, 0) = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)
    s: pl.Tile[[4, 16], pl.FP32, pl.MemRef(mem_a, pl.const(256, pl.INT64), 256), pl.Mem.Vec] = pl.tile.slice(t, [4, 16], [4, 0])
    z: pl.Tile[[4, 16], pl.FP32, pl.MemRef(mem_a, pl.const(256, pl.INT64), 256), pl.Mem.Vec] = pl.tile.muls(s, 0.0)
    w: TILE(mem_b, 1024) = pl.tile.adds(t, 1.0)
    o: T16 = pl.tile.store(w, [0, 0], out)
    """  # noqa: E501
    given = values()
    want = given["x"].clone()
    want[4:8] = 0
    assert torch.equal(run(placed(body), given, memory="addresses").outputs["out"], want + 1)


def test_pushed_tiles_are_copies_and_popped_ones_have_their_own_storage() -> None:
    made = program(
        """
        @pl.function(type=pl.FunctionType.AIC)
        def cube(a: T16, out: pl.Out[T16]):
            mem: pl.Ptr = pl.tile.alloc(pl.Mem.Mat, 1024)
            t: pl.Tile[[16, 16], pl.FP32, pl.MemRef(mem, pl.const(0, pl.INT64), 1024), pl.Mem.Mat] = pl.tile.load(a, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Mat)
            pl.tile.tpush_to_aiv(t, split=0)
            u: pl.Tile[[16, 16], pl.FP32, pl.MemRef(mem, pl.const(0, pl.INT64), 1024), pl.Mem.Mat] = pl.tile.muls(t, 10.0)
            pl.tile.tpush_to_aiv(u, split=0)
        @pl.function(type=pl.FunctionType.AIV)
        def vector(a: T16, out: pl.Out[T16]) -> T16:
            p: V16 = pl.tile.tpop_from_aic(split=0)
            q: V16 = pl.tile.tpop_from_aic(split=0)
            w: V16 = pl.tile.sub(q, p)
            o: T16 = pl.tile.store(w, [0, 0], out)
            return out
        @pl.function(type=pl.FunctionType.Group)
        def both(a: T16, out: pl.Out[T16]) -> T16:
            self.cube(a, out)
            r: T16 = self.vector(a, out)
            return r
        """  # noqa: E501
    )
    a = torch.arange(256.0).view(16, 16)
    got = run(made, {"a": a, "out": torch.zeros(16, 16)}, memory="addresses").outputs["out"]
    assert torch.equal(got, a * 9)


@pytest.mark.parametrize("path", LATE, ids=lambda path: f"{path.parent.parent.name}-{path.name[:2]}")
def test_late_dumps_give_by_addresses_what_they_give_by_names(path: Path) -> None:
    kernel = path.parent.parent.name
    case = lab.case(DATA / "kernels" / kernel / "kernel.py")
    given = case.make_inputs(2)
    made = read_dump(path.read_text(encoding="utf-8"), path.name)
    by_names = run(made, given).outputs
    by_addresses = run(made, given, memory="addresses", check_shapes=True).outputs
    different = {name for name, value in by_names.items() if not torch.equal(value, by_addresses[name])}
    assert different == ({"out"} if kernel == "k24_while_branch" else set())


def test_unknown_memories_and_architectures_are_refused() -> None:
    for options in ({"memory": "elsewhere"}, {"arch": "a9"}):
        with pytest.raises(LabError, match="E509"):
            generate(placed(BODY.format(place=0)), **options)
