"""Running programs: values, results, the order of lanes, and errors that lead back to the kernel."""

# ruff: noqa: E501  (kernels are written as dumps print them, one statement a line)
from __future__ import annotations

import linecache
import re
import threading
import traceback

import numpy as np
import pytest
import torch
from kernel_texts import incore, outputs, program

from pypto_lab.ir.diagnostics import LabError
from pypto_lab.torch_codegen import execute
from pypto_lab.torch_codegen.execute import ScriptError, namespace, prepare, run
from pypto_lab.torch_codegen.scheduling import LaneFirst, RoundRobin, SeededOrder, policy_of

DOUBLE = """
    t: V16 = pl.tile.load(x__ssa_v0, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)
    u: V16 = pl.tile.muls(t, 2.0)
    o: T16 = pl.tile.store(u, [0, 0], out__ssa_v0)
    return o
"""
DOUBLE_PARAMETERS = "x__ssa_v0: T16, out__ssa_v0: pl.Out[T16]"
PING_PONG = """
    @pl.function(type=pl.FunctionType.AIC)
    def c(n: pl.Scalar[pl.INDEX]):
        for i in pl.range(n):
            t: pl.Tile[[16, 16], pl.FP32, pl.Mem.Mat] = pl.tile.tpop_from_aiv(split=1)
            u: pl.Tile[[16, 16], pl.FP32, pl.Mem.Acc] = pl.tile.muls(t, 2.0)
            pl.system.tfree_to_aiv(t)
            pl.tile.tpush_to_aiv(u, split=1)
    @pl.function(type=pl.FunctionType.AIV)
    def v(n: pl.Scalar[pl.INDEX], x: T16, out: pl.Out[T16]) -> T16:
        lane: pl.Scalar[pl.INDEX] = pl.tile.get_subblock_idx()
        s: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.load(x, [lane * 8, 0], [8, 16], [8, 16], target_memory=pl.Mem.Vec)
        for i, (a,) in pl.range(n, init_values=(s,)):
            pl.tile.tpush_to_aic(a, split=1)
            b: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic(split=1)
            w: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.adds(b, 1.0)
            pl.system.tfree_to_aic(b)
            a_o: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.yield_(w)
        o: T16 = pl.tile.store(a_o, [lane * 8, 0], out)
        return out
    @pl.function(type=pl.FunctionType.Group)
    def g(n: pl.Scalar[pl.INDEX], x: T16, out: pl.Out[T16]) -> T16:
        self.c(n)
        r: T16 = self.v(n, x, out)
        return r
    """


# --- values -----------------------------------------------------------------------------------------------------------


def test_values_by_name_by_plain_name_and_by_position() -> None:
    made = incore(DOUBLE, DOUBLE_PARAMETERS)
    x = torch.rand(16, 16)
    by_plain = outputs(made, {"x": x, "out": torch.zeros(16, 16)})
    by_name = outputs(made, {"x__ssa_v0": x, "out__ssa_v0": torch.zeros(16, 16)})
    by_position = outputs(made, {"first": x, "second": torch.zeros(16, 16)})
    assert torch.equal(by_plain["out"], 2 * x)
    assert torch.equal(by_name["out__ssa_v0"], 2 * x)
    assert torch.equal(by_position["second"], 2 * x)


@pytest.mark.parametrize("in_place", [False, True])
def test_tensors_are_cloned_unless_in_place(in_place: bool) -> None:
    out = torch.zeros(16, 16)
    result = run(incore(DOUBLE, DOUBLE_PARAMETERS), {"x": torch.ones(16, 16), "out": out}, in_place=in_place)
    assert bool(out.any()) is in_place
    assert (result.outputs["out"] is out) is in_place
    assert result.returned is result.outputs["out"]
    assert result.findings == ()


def test_one_tensor_under_two_names_stays_one() -> None:
    x = torch.ones(16, 16)
    result = run(incore(DOUBLE, DOUBLE_PARAMETERS), {"x": x, "out": x})
    assert result.outputs["out"].eq(2).all()
    assert x.eq(1).all()


def test_arrays_and_scalars_of_other_libraries() -> None:
    made = incore("pl.tensor.write(out, [0, 0], s)", "s: pl.Scalar[pl.FP32], out: pl.Out[T16]")
    got = outputs(made, {"s": np.float32(2.5), "out": np.zeros((16, 16), dtype=np.float32)})
    assert got["out"][0, 0].item() == 2.5
    assert outputs(made, {"s": torch.tensor(1.5), "out": torch.zeros(16, 16)})["out"][0, 0].item() == 1.5


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"x": torch.ones(16, 16)}, "needs a value for `out__ssa_v0`"),
        ({"x": torch.ones(16, 16).half(), "out": torch.zeros(16, 16)}, "`x` should be FP32"),
        ({"x": torch.ones(16, 8), "out": torch.zeros(16, 16)}, r"`x` should have shape \[16, 16\], got \[16, 8\]"),
        ({"x": torch.ones(16), "out": torch.zeros(16, 16)}, r"got \[16\]"),
        ({"x": "text", "out": torch.zeros(16, 16)}, "`x` should be a tensor, got str"),
    ],
)
def test_values_that_do_not_fit(values: dict[str, object], message: str) -> None:
    with pytest.raises(LabError, match=message):
        run(incore(DOUBLE, DOUBLE_PARAMETERS), values)


@pytest.mark.parametrize("poison", ["nan", 7])
def test_poison_marks_cells_that_nobody_wrote(poison: object) -> None:
    made = incore(
        """
        t: V16 = pl.tile.create([16, 16], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        o: T16 = pl.tile.store(t, [0, 0], out)
        """,
        "out: pl.Out[T16]",
    )
    assert not outputs(made, {"out": torch.ones(16, 16)})["out"].any()
    marked = outputs(made, {"out": torch.ones(16, 16)}, poison=poison)["out"]
    assert not torch.equal(marked, torch.zeros(16, 16))


# --- errors -----------------------------------------------------------------------------------------------------------

OUTSIDE = """
    for i in pl.range(3):
        t: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.load(x, [i * 8, 0], [8, 16], [8, 16], target_memory=pl.Mem.Vec)
        o: T16 = pl.tile.store(t, [0, 0], out)
"""


def test_an_error_names_source_line_statement_and_script_line() -> None:
    made = incore(OUTSIDE, "x: T16, out: pl.Out[T16]")
    with pytest.raises(ScriptError) as caught:
        run(made, {"x": torch.ones(16, 16), "out": torch.zeros(16, 16)})
    text = str(caught.value)
    assert "kernel.py:9: RuntimeError: tile.load: offset 16" in text
    assert "statement t: pl.Tile" in text
    assert f"script line {caught.value.line}: t = _tile_load(x, [i * 8, 0]" in text
    assert isinstance(caught.value.__cause__, RuntimeError)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.span is not None
    assert diagnostic.span.line == 9


def test_tracebacks_show_the_scripts_lines() -> None:
    made = incore(OUTSIDE, "x: T16, out: pl.Out[T16]")
    with pytest.raises(ScriptError) as caught:
        run(made, {"x": torch.ones(16, 16), "out": torch.zeros(16, 16)})
    shown = "".join(traceback.format_exception(caught.value.__cause__))
    assert "t = _tile_load(x, [i * 8, 0]" in shown
    linecache.checkcache()


def test_an_interrupt_passes_through() -> None:
    made = program(PING_PONG)
    prepared = prepare(made, {"n": 2, "x": torch.zeros(16, 16), "out": torch.zeros(16, 16)})

    def interrupt(kind: str, lane: str, details: dict[str, object]) -> None:
        if kind == "pop" and lane == "AIC":
            raise KeyboardInterrupt

    names = namespace(prepared.script, listener=interrupt)
    with pytest.raises(KeyboardInterrupt):
        prepared.call(names)
    # the same namespace is still good for another run
    names["_LISTENER"] = None
    prepared.call(names)
    assert prepared.outputs["out"].eq(3.0).all()


def test_a_lane_that_fails_takes_the_others_with_it() -> None:
    made = program(PING_PONG.replace("pl.tile.muls(t, 2.0)", "pl.tile.slice(t, [16, 16], [4, 0])"))
    before = threading.active_count()
    with pytest.raises(ScriptError, match=r"kernel.py:\d+: RuntimeError: tile.slice"):
        run(made, {"n": 2, "x": torch.zeros(16, 16), "out": torch.zeros(16, 16)})
    assert threading.active_count() == before


MIXED = """
    @pl.function(type=pl.FunctionType.AIC)
    def cube(x: T16, out: pl.Out[T16]):
        pl.system.aic_initialize_pipe(pl.const(0, pl.INT32), pl.const(0, pl.INT32), dir_mask=1, slot_size=512, slot_num=2)
        t: pl.Tile[[16, 16], pl.FP32, pl.Mem.Mat] = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Mat)
        for i in pl.range(4):
            {cube}
    @pl.function(type=pl.FunctionType.AIV)
    def vector(x: T16, out: pl.Out[T16]):
        pl.system.aiv_initialize_pipe(pl.const(0, pl.INT32), pl.const(0, pl.INT32), dir_mask=1, slot_size=512, slot_num=2)
        for i in pl.range(4):
            h: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic(split=1)
            {vector}
    @pl.function(type=pl.FunctionType.Group)
    def both(x: T16, out: pl.Out[T16]):
        self.cube(x, out)
        self.vector(x, out)
"""
PUSH, FREE = "pl.tile.tpush_to_aiv(t, split=1)", "pl.system.tfree_to_aic(h, split=1)"


def report_of(cube: str, vector: str) -> str:
    with pytest.raises(ScriptError) as caught:
        outputs(program(MIXED.format(cube=cube, vector=vector)), {"x": torch.ones(16, 16), "out": torch.zeros(16, 16)})
    return str(caught.value)


def test_a_missing_free_names_both_ends() -> None:
    text = report_of(PUSH, "s: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.muls(h, 2.0)")
    assert re.search(
        r"AIC waits in push_to_aiv on pipe 0 to AIV.*all 2 slots taken \(script line \d+, kernel.py:11\)", text
    )
    assert re.search(r"lane 0: 2 tiles popped and never freed \(tfree\), the last popped at .*kernel.py:16", text)


def test_a_deadlock_names_the_kernel_lines_of_both_ends() -> None:
    text = report_of("w: pl.Tile[[16, 16], pl.FP32, pl.Mem.Mat] = pl.tile.tpop_from_aiv(split=1)", FREE)
    assert re.search(r"AIC waits in pop_from_aiv .*kernel.py:11\)", text)
    assert re.search(r"AIV1 waits in pop_from_aic .*kernel.py:16\)", text)


def test_a_failing_lane_names_who_waited_for_it() -> None:
    text = report_of(
        PUSH, f"s: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.slice(h, [8, 16], [4, 0])\n            {FREE}"
    )
    assert "lane AIV0 failed; AIC waits in push_to_aiv" in text
    assert "AIV1 is stopped" in text
    assert "kernel.py:17: RuntimeError: tile.slice" in text


def test_check_shapes_names_variable_and_source_line() -> None:
    made = incore(
        """
        t: pl.Tile[[16, 16], pl.FP16, pl.Mem.Vec] = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)
        o: T16 = pl.tile.store(t, [0, 0], out)
        """,
        "x: T16, out: pl.Out[T16]",
    )
    values = {"x": torch.ones(16, 16), "out": torch.zeros(16, 16)}
    run(made, values)
    with pytest.raises(ScriptError, match=r"kernel.py:8: TypeError: t should be torch.float16, got torch.float32"):
        run(made, values, check_shapes=True)


# --- the order of lanes -----------------------------------------------------------------------------------------------


def trace(policy: object, seed: int = 0) -> tuple[list[tuple[str, str]], torch.Tensor]:
    made = program(PING_PONG)
    prepared = prepare(made, {"n": 3, "x": torch.zeros(16, 16), "out": torch.zeros(16, 16)})
    events: list[tuple[str, str]] = []
    names = namespace(
        prepared.script,
        policy=policy,  # type: ignore[arg-type]
        seed=seed,
        listener=lambda kind, lane, details: events.append((kind, lane)),
    )
    prepared.call(names)
    return events, prepared.outputs["out"]


@pytest.mark.parametrize("policy", ["lane-first", "round-robin", "random"])
def test_every_order_gives_the_same_numbers_and_is_repeatable(policy: str) -> None:
    first, out = trace(policy, seed=5)
    second, again = trace(policy, seed=5)
    assert first == second
    assert torch.equal(out, torch.full((16, 16), 7.0))
    assert torch.equal(out, again)


def test_seeds_give_different_orders() -> None:
    assert len({tuple(trace("random", seed)[0]) for seed in range(6)}) > 1


def test_a_policy_of_ones_own() -> None:
    class Last:
        preempts = True

        def __call__(self, runnable: list[str]) -> str:
            return runnable[-1]

    events, out = trace(Last())
    assert torch.equal(out, torch.full((16, 16), 7.0))
    assert events[1] == ("lane_begin", "AIV1")


def test_events_tell_lanes_groups_and_pipes() -> None:
    events, _ = trace("lane-first")
    kinds = {kind for kind, _ in events}
    assert kinds == {"group_begin", "group_end", "lane_begin", "lane_end", "push", "pop", "free", "blocked", "resumed"}
    assert events[0] == ("group_begin", "host")
    assert events[-1] == ("group_end", "host")
    assert sum(kind == "pop" for kind, lane in events if lane == "AIV0") == 3


def test_policies_by_name() -> None:
    assert isinstance(policy_of("lane-first", 0), LaneFirst)
    assert isinstance(policy_of("round-robin", 0), RoundRobin)
    assert isinstance(policy_of("random", 3), SeededOrder)
    with pytest.raises(ValueError, match="no lane order is called 'fastest'"):
        policy_of("fastest", 0)


def test_findings_tell_what_is_not_an_error() -> None:
    text = PING_PONG.replace("            pl.system.tfree_to_aic(b)\n", "").replace(
        "        for i in pl.range(n):",
        "        pl.system.aic_initialize_pipe(pl.const(0, pl.INT32), pl.const(0, pl.INT32), dir_mask=3, slot_size=1024)\n"
        "        for i in pl.range(n):",
    )
    made = program(text)
    result = run(made, {"n": 3, "x": torch.zeros(16, 16), "out": torch.zeros(16, 16)})
    assert any("3 tile(s) popped from pipe 0 to AIV by lane 0 were never freed" in f for f in result.findings)


def test_compiled_code_is_reused() -> None:
    made = incore(DOUBLE, DOUBLE_PARAMETERS)
    script = prepare(made, {"x": torch.zeros(16, 16), "out": torch.zeros(16, 16)}).script
    assert execute.compiled(script.text) is execute.compiled(script.text)
