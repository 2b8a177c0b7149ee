"""Where a write by name may reuse memory, and where it must work on a copy."""

# ruff: noqa: E501  (kernels are written as dumps print them, one statement a line)
from __future__ import annotations

import pytest
import torch
from kernel_texts import incore, kernel_code, outputs, program

from pypto_lab.torch_codegen.execute import ScriptError, run

ONES = "ones: T16 = pl.tensor.full([16, 16], dtype=pl.FP32, value=1.0)\n"
ZEROS = "zeros: T16 = pl.tensor.full([16, 16], dtype=pl.FP32, value=0.0)\n"
ACCUMULATE = """
left: pl.Tile[[16, 16], pl.FP32, pl.Mem.Left] = pl.tile.load(a, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Left)
right: pl.Tile[[16, 16], pl.FP32, pl.Mem.Right] = pl.tile.load(a, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Right)
acc: pl.Tile[[16, 16], pl.FP32, pl.Mem.Acc] = pl.tile.matmul(left, right)
for i, (acc_i,) in pl.range(3, init_values=(acc,)):
    acc_n: pl.Tile[[16, 16], pl.FP32, pl.Mem.Acc] = pl.tile.matmul_acc(acc_i, left, right)
    acc_o: pl.Tile[[16, 16], pl.FP32, pl.Mem.Acc] = pl.yield_(acc_n)
"""


def test_a_dead_target_is_written_in_place() -> None:
    made = incore(ONES + ZEROS + "new: T16 = pl.tensor.assemble(zeros, ones, [0, 0])\nreturn new", "x: T16")
    assert "copy=True" not in kernel_code(made)


def test_a_target_that_is_read_later_is_copied() -> None:
    body = ONES + ZEROS + "new: T16 = pl.tensor.assemble(zeros, ones, [0, 0])\nreturn new, zeros"
    assert "_assemble(zeros, ones, [0, 0], copy=True)" in kernel_code(incore(body, "x: T16"))


def test_a_view_that_is_read_later_makes_a_copy() -> None:
    body = (
        ONES
        + ZEROS
        + "part: pl.Tensor[[8, 16], pl.FP32] = pl.tensor.slice(zeros, [8, 16], [0, 0])\n"
        + "new: T16 = pl.tensor.assemble(zeros, ones, [0, 0])\nreturn new, part"
    )
    assert "copy=True" in kernel_code(incore(body, "x: T16"))


def test_an_input_parameter_is_never_written_by_name() -> None:
    made = incore(
        ONES + "new: T16 = pl.tensor.assemble(x, ones, [0, 0])\no: T16 = pl.tensor.assemble(out, new, [0, 0])",
        "x: T16, out: pl.Out[T16]",
    )
    x = torch.zeros(16, 16)
    got = run(made, {"x": x, "out": torch.zeros(16, 16)}, in_place=True)
    assert got.outputs["out"].eq(1).all()
    assert not x.any()


def test_a_carried_accumulator_is_updated_in_place() -> None:
    made = incore(ACCUMULATE + "o: T16 = pl.tile.store(acc_o, [0, 0], out)", "a: T16, out: pl.Out[T16]")
    assert "copy=True" not in kernel_code(made)


def test_the_start_of_a_carried_accumulator_survives_when_it_is_read_after_the_loop() -> None:
    body = ACCUMULATE + "o: T16 = pl.tile.store(acc_o, [0, 0], out)\np: T16 = pl.tile.store(acc, [0, 0], first)"
    made = incore(body, "a: T16, out: pl.Out[T16], first: pl.Out[T16]")
    a = torch.arange(256.0).reshape(16, 16) % 5
    got = outputs(made, {"a": a, "out": torch.zeros(16, 16), "first": torch.zeros(16, 16)})
    assert torch.equal(got["first"], a @ a)
    assert torch.equal(got["out"], 4 * (a @ a))


def test_swapped_carries_keep_both_values() -> None:
    made = incore(
        ONES
        + ZEROS
        + """
for i, (cur, prev) in pl.range(4, init_values=(zeros, ones)):
    line: pl.Tensor[[1, 16], pl.FP32] = pl.tensor.slice(prev, [1, 16], [0, 0])
    more: pl.Tensor[[1, 16], pl.FP32] = pl.tensor.adds(line, 1.0)
    next: T16 = pl.tensor.assemble(cur, more, [0, 0])
    cur_o, prev_o = pl.yield_(prev, next)
o: T16 = pl.tensor.assemble(out, prev_o, [0, 0])
""",
        "x: T16, out: pl.Out[T16]",
    )
    got = outputs(made, {"x": torch.zeros(16, 16), "out": torch.zeros(16, 16)})["out"]
    cur, prev = torch.zeros(16, 16), torch.ones(16, 16)
    for _ in range(4):
        following = cur.clone()
        following[0] = prev[0] + 1
        cur, prev = prev, following
    assert torch.equal(got, prev)


def test_the_reassigned_name_of_user_code_needs_no_copy() -> None:
    body = ONES + "for i in pl.range(2):\n    out: T16 = pl.tensor.assemble(out, ones, [0, 0])\nreturn out"
    code = kernel_code(incore(body, "out: pl.Out[T16]"))
    assert "out = _assemble(out, ones, [0, 0])" in code
    assert "_copy_of" not in code


def test_a_target_that_overlaps_its_source() -> None:
    made = incore(
        """
        top: pl.Tensor[[8, 16], pl.FP32] = pl.tensor.slice(out, [8, 16], [0, 0])
        o: T16 = pl.tensor.assemble(out, top, [4, 0])
        """,
        "out: pl.InOut[T16]",
    )
    start = torch.arange(256.0).reshape(16, 16)
    expected = start.clone()
    expected[4:12] = start[:8]
    assert torch.equal(outputs(made, {"out": start})["out"], expected)


def test_an_inlined_function_writes_its_callers_output() -> None:
    made = program(
        """
        @pl.function(type=pl.FunctionType.Inline)
        def fill(self, src: T16, dst: T16) -> T16:
            dst: T16 = pl.tensor.assemble(dst, pl.tensor.adds(src, 1.0), [0, 0])
            return dst
        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, x: T16, out: pl.Out[T16], other: pl.Out[T16]) -> T16:
            done: T16 = self.fill(x, out)
            buffer: T16 = pl.tensor.full([16, 16], dtype=pl.FP32, value=0.0)
            filled: T16 = self.fill(x, buffer)
            both: T16 = pl.tensor.add(filled, pl.tensor.muls(buffer, 100.0))
            o: T16 = pl.tensor.assemble(other, both, [0, 0])
            return done
        """
    )
    got = outputs(made, {"x": torch.ones(16, 16), "out": torch.zeros(16, 16), "other": torch.zeros(16, 16)})
    assert got["out"].eq(2).all()
    assert got["other"].eq(2).all()


def test_a_pushed_tile_is_not_changed_by_a_later_write() -> None:
    made = program(
        """
        @pl.function(type=pl.FunctionType.AIC)
        def c(x: T16):
            t: pl.Tile[[16, 16], pl.FP32, pl.Mem.Acc] = pl.tile.full([16, 16], dtype=pl.FP32, value=4.0)
            s: pl.Tile[[16, 16], pl.FP32, pl.Mem.Acc] = pl.tile.full([16, 16], dtype=pl.FP32, value=5.0)
            pl.tile.tpush_to_aiv(t, split=0)
            u: pl.Tile[[16, 16], pl.FP32, pl.Mem.Acc] = pl.tile.assemble(t, s, [0, 0])
            pl.tile.tpush_to_aiv(u, split=0)
        @pl.function(type=pl.FunctionType.AIV)
        def v(x: T16, out: pl.Out[T16]) -> T16:
            t: V16 = pl.tile.tpop_from_aic(split=0)
            u: V16 = pl.tile.tpop_from_aic(split=0)
            w: V16 = pl.tile.add(pl.tile.muls(t, 10.0), u)
            o: T16 = pl.tile.store(w, [0, 0], out)
            return out
        @pl.function(type=pl.FunctionType.Group)
        def g(x: T16, out: pl.Out[T16]) -> T16:
            self.c(x)
            r: T16 = self.v(x, out)
            return r
        """
    )
    got = outputs(made, {"x": torch.zeros(16, 16), "out": torch.zeros(16, 16)})["out"]
    assert got.eq(45.0).all()


@pytest.mark.parametrize("branch", [True, False])
def test_a_read_after_free_is_an_error_where_it_is_certain(branch: bool) -> None:
    free = "pl.system.tfree_to_aic(t)"
    made = program(
        f"""
        @pl.function(type=pl.FunctionType.AIC)
        def c(x: T16):
            t: pl.Tile[[16, 16], pl.FP32, pl.Mem.Acc] = pl.tile.full([16, 16], dtype=pl.FP32, value=4.0)
            pl.tile.tpush_to_aiv(t, split=0)
        @pl.function(type=pl.FunctionType.AIV)
        def v(flag: pl.Scalar[pl.INDEX], out: pl.Out[T16]) -> T16:
            t: V16 = pl.tile.tpop_from_aic(split=0)
            {"if flag > 0:" if branch else free}
                {free if branch else ""}
            u: V16 = pl.tile.muls(t, 2.0)
            o: T16 = pl.tile.store(u, [0, 0], out)
            return out
        @pl.function(type=pl.FunctionType.Group)
        def g(x: T16, flag: pl.Scalar[pl.INDEX], out: pl.Out[T16]) -> T16:
            self.c(x)
            r: T16 = self.v(flag, out)
            return r
        """
    )
    values = {"x": torch.zeros(16, 16), "flag": 1, "out": torch.zeros(16, 16)}
    if branch:
        assert outputs(made, values)["out"].eq(8.0).all()
    else:
        with pytest.raises(ScriptError, match="t is read after its slot was freed"):
            run(made, values)


def test_a_write_through_a_reshaped_view_is_seen_in_the_tensor() -> None:
    """Rows are written to a flat view of a created tensor in a loop; the tensor itself is read afterwards."""
    made = incore(
        """
        heads: pl.Tensor[[4, 4, 16], pl.FP32] = pl.tensor.create([4, 4, 16], dtype=pl.FP32, layout=pl.TensorLayout.ND)
        flat: T16 = pl.tensor.reshape(heads, [16, 16])
        for i in pl.range(2):
            part: pl.Tensor[[8, 16], pl.FP32] = pl.tensor.slice(x, [8, 16], [i * 8, 0])
            flat: T16 = pl.tensor.assemble(flat, part, [i * 8, 0])
        again: T16 = pl.tensor.reshape(heads, [16, 16])
        o: T16 = pl.tensor.assemble(out, again, [0, 0])
        """,
        "x: T16, out: pl.Out[T16]",
    )
    assert "copy=True" not in kernel_code(made)
    x = torch.arange(256.0).reshape(16, 16)
    assert torch.equal(outputs(made, {"x": x, "out": torch.zeros(16, 16)})["out"], x)
