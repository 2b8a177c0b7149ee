"""The faults of the existing torch code generator, each as a small program that must be right here."""

# ruff: noqa: E501  (kernels are written as dumps print them, one statement a line)
from __future__ import annotations

import time

import pytest
import torch
from kernel_texts import both_ways, incore, kernel_code, outputs, program

from pypto_lab.ops import OPS
from pypto_lab.torch_codegen.execute import ScriptError, run
from pypto_lab.torch_codegen.expressions import SPECIAL
from pypto_lab.torch_codegen.preamble import library


def ramp(rows: int = 16, columns: int = 16, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.arange(rows * columns).reshape(rows, columns) % 23 - 11).to(dtype)


# --- 1 to 13: silent wrong numbers ---------------------------------------------------------------------------------


def test_01_valid_region_travels_through_arithmetic() -> None:
    made = incore(
        """
        part: pl.Tile[[16, 16], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[16, 10])] = pl.tile.load(x, [0, 0], [16, 16], [16, 10], target_memory=pl.Mem.Vec)
        low: pl.Tile[[16, 16], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[16, 10])] = pl.tile.subs(part, 100.0)
        tmp: V16 = pl.tile.create([16, 16], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        top: pl.Tile[[16, 1], pl.FP32, pl.Mem.Vec] = pl.tile.row_max(low, tmp)
        shifted: pl.Tile[[16, 16], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[16, 10])] = pl.tile.row_expand_sub(low, top)
        e: pl.Tile[[16, 16], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[16, 10])] = pl.tile.exp(shifted)
        total: pl.Tile[[16, 1], pl.FP32, pl.Mem.Vec] = pl.tile.row_sum(e, tmp)
        soft: pl.Tile[[16, 16], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[16, 10])] = pl.tile.row_expand_div(e, total)
        o: T16 = pl.tile.store(soft, [0, 0], out)
        """,
        "x: T16, out: pl.Out[T16]",
    )
    x = ramp()
    expected = torch.full((16, 16), 7.0)
    expected[:, :10] = torch.softmax(x[:, :10], dim=-1)
    got = outputs(made, {"x": x, "out": torch.full((16, 16), 7.0)})["out"]
    torch.testing.assert_close(got, expected)


def test_01_fillpad_after_arithmetic_fills_with_minus_infinity() -> None:
    made = incore(
        """
        part: pl.Tensor[[4, 8], pl.FP32, pl.TensorView(valid_shape=[4, 4])] = pl.tensor.slice(x, [4, 8], [0, 0], [4, 4])
        twice: pl.Tensor[[4, 8], pl.FP32, pl.TensorView(valid_shape=[4, 4])] = pl.tensor.muls(part, 2.0)
        full: pl.Tensor[[4, 8], pl.FP32] = pl.tensor.fillpad(twice, pad_value=pl.PadValue.min)
        o: pl.Tensor[[4, 8], pl.FP32] = pl.tensor.assemble(out, full, [0, 0])
        """,
        "x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]",
    )
    x = ramp(4, 8)
    got = outputs(made, {"x": x, "out": torch.zeros(4, 8)})["out"]
    assert torch.equal(got[:, :4], 2 * x[:, :4])
    assert torch.isneginf(got[:, 4:]).all()


@pytest.mark.parametrize(
    ("dtype", "name", "accumulator", "acc_name"),
    [
        (torch.bfloat16, "BF16", torch.float32, "FP32"),
        (torch.float16, "FP16", torch.float32, "FP32"),
        (torch.int8, "INT8", torch.int32, "INT32"),
    ],
)
def test_02_matmul_widens_before_it_multiplies(
    dtype: torch.dtype, name: str, accumulator: torch.dtype, acc_name: str
) -> None:
    made = incore(
        f"""
        a0: pl.Tile[[16, 64], pl.{name}, pl.Mem.Left] = pl.tile.load(a, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Left)
        b0: pl.Tile[[64, 16], pl.{name}, pl.Mem.Right] = pl.tile.load(b, [0, 0], [64, 16], [64, 16], target_memory=pl.Mem.Right)
        c: pl.Tile[[16, 16], pl.{acc_name}, pl.Mem.Acc] = pl.tile.matmul(a0, b0)
        o: pl.Tensor[[16, 16], pl.{acc_name}] = pl.tile.store(c, [0, 0], out)
        """,
        f"a: pl.Tensor[[16, 64], pl.{name}], b: pl.Tensor[[64, 16], pl.{name}], "
        f"out: pl.Out[pl.Tensor[[16, 16], pl.{acc_name}]]",
    )
    scale = 1 if dtype is not torch.float16 else 200
    a, b = (ramp(16, 64) * scale).to(dtype), (ramp(64, 16) * scale + 0.25).to(dtype)
    got = outputs(made, {"a": a, "b": b, "out": torch.zeros(16, 16, dtype=accumulator)})["out"]
    wide = torch.int64 if dtype is torch.int8 else torch.float64
    torch.testing.assert_close(got.to(wide), a.to(wide) @ b.to(wide))


def test_03_yields_are_simultaneous() -> None:
    made = program(
        """
        @pl.function(type=pl.FunctionType.InCore)
        def kernel(out: pl.Out[pl.Tensor[[4], pl.INT32]]):
            for i, (a, b) in pl.range(1, init_values=(1, 2)):
                a1, b1 = pl.yield_(b, a)
            for i, (lag1, lag2) in pl.range(2, init_values=(1, 1)):
                lag1_o, lag2_o = pl.yield_(i + 2, lag1)
            pl.tensor.write(out, [0], a1)
            pl.tensor.write(out, [1], b1)
            pl.tensor.write(out, [2], lag1_o)
            pl.tensor.write(out, [3], lag2_o)
        """
    )
    got = outputs(made, {"out": torch.zeros(4, dtype=torch.int32)})["out"]
    assert got.tolist() == [2, 1, 3, 2]


SUBMIT = """
    @pl.function(type=pl.FunctionType.InCore)
    def double(x: T16, out: pl.Out[T16]) -> T16:
        t: V16 = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)
        t2: V16 = pl.tile.muls(t, 2.0)
        o: T16 = pl.tile.store(t2, [0, 0], out)
        return o
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: T16, flag: pl.Tensor[[1], pl.INT32], out: pl.Out[T16]) -> T16:
        r: pl.Tuple[T16, pl.Scalar[pl.TASK_ID]] = pl.submit(self.double, x, out{options})
        y: T16 = r[0]
        t: pl.Scalar[pl.TASK_ID] = r[1]
        return y
    """


def test_04_submit_runs_the_kernel() -> None:
    x = ramp()
    result = run(program(SUBMIT.format(options="")), {"x": x, "flag": torch.ones(1).int(), "out": torch.zeros(16, 16)})
    assert torch.equal(result.outputs["out"], 2 * x)
    assert result.returned is result.outputs["out"]


@pytest.mark.parametrize("flag", [0, 1])
def test_04_submit_with_a_predicate(flag: int) -> None:
    made = program(SUBMIT.format(options=", predicate=(flag[0] > 0)"))
    x = ramp()
    result = run(made, {"x": x, "flag": torch.tensor([flag]).int(), "out": torch.full((16, 16), 3.0)})
    assert torch.equal(result.outputs["out"], 2 * x if flag else torch.full((16, 16), 3.0))
    assert result.returned is result.outputs["out"]


def test_05_every_spmd_block_runs() -> None:
    made = program(
        """
        @pl.function(type=pl.FunctionType.AIV)
        def rows(x: T16, out: pl.Out[T16]) -> T16:
            b: pl.Scalar[pl.INDEX] = pl.tile.get_block_idx()
            count: pl.Scalar[pl.INDEX] = pl.tile.get_block_num()
            t: pl.Tile[[4, 16], pl.FP32, pl.Mem.Vec] = pl.tile.load(x, [b * 4, 0], [4, 16], [4, 16], target_memory=pl.Mem.Vec)
            t2: pl.Tile[[4, 16], pl.FP32, pl.Mem.Vec] = pl.tile.muls(t, pl.cast(b + count, pl.FP32))
            o: T16 = pl.tile.store(t2, [b * 4, 0], out)
            return out
        @pl.function(type=pl.FunctionType.Spmd)
        def rows_spmd(self, x: T16, out: pl.Out[T16]) -> T16:
            y: T16 = self.rows(x, out)
            return out
        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, x: T16, out: pl.Out[T16]) -> T16:
            y: T16 = self.rows_spmd(x, out, attrs={"core_num": 4})
            return y
        """
    )
    x = ramp()
    got = outputs(made, {"x": x, "out": torch.zeros(16, 16)})["out"]
    factor = (torch.arange(16) // 4 + 4).float()[:, None]
    assert torch.equal(got, x * factor)


GROUP = """
    @pl.function(type=pl.FunctionType.AIC)
    def cube_side(a: T16, out: pl.Out[T16]):
        left: pl.Tile[[16, 16], pl.FP32, pl.Mem.Left] = pl.tile.load(a, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Left)
        right: pl.Tile[[16, 16], pl.FP32, pl.Mem.Right] = pl.tile.load(a, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Right)
        acc: pl.Tile[[16, 16], pl.FP32, pl.Mem.Acc] = pl.tile.matmul(left, right)
        {cube}
    @pl.function(type=pl.FunctionType.AIV)
    def rows_side(out: pl.Out[T16]) -> T16:
        lane: pl.Scalar[pl.INDEX] = pl.tile.get_subblock_idx()
        {vector}
        return out
    @pl.function(type=pl.FunctionType.Group)
    def together(a: T16, out: pl.Out[T16]) -> T16:
        self.cube_side(a, out)
        r: T16 = self.rows_side(out)
        return r
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: T16, out: pl.Out[T16]) -> T16:
        y: T16 = self.together(a, out)
        return y
    """


def group(cube: str, vector: str) -> object:
    def lines(text: str) -> str:
        return "\n        ".join(line.strip() for line in text.strip().splitlines())

    return program(GROUP.format(cube=lines(cube), vector=lines(vector)))


def test_06_groups_have_members_by_function_type_and_arguments_as_written() -> None:
    made = group(
        "pl.tile.tpush_to_aiv(acc, split=1)",
        """half: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic(split=1)
        o: T16 = pl.tile.store(half, [lane * 8, 0], out)
        pl.system.tfree_to_aic(half)""",
    )
    a = ramp()
    assert torch.equal(both_ways(made, {"a": a, "out": torch.zeros(16, 16)}).outputs["out"], a @ a)


def test_07_pipes_with_different_ids_are_different_queues() -> None:
    made = group(
        """twice: pl.Tile[[16, 16], pl.FP32, pl.Mem.Acc] = pl.tile.muls(acc, 2.0)
        pl.tile.tpush_to_aiv(acc, split=1, id=0)
        pl.tile.tpush_to_aiv(twice, split=1, id=1)""",
        """second: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic(split=1, id=1)
        first: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic(split=1, id=0)
        less: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.muls(first, 10.0)
        sum: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.sub(second, less)
        o: T16 = pl.tile.store(sum, [lane * 8, 0], out)""",
    )
    a = ramp()
    assert torch.equal(both_ways(made, {"a": a, "out": torch.zeros(16, 16)}).outputs["out"], -8 * (a @ a))


@pytest.mark.parametrize("first", ["True", "False", "i == 0"])
def test_08_init_cond_overwrites_the_accumulator(first: str) -> None:
    made = incore(
        f"""
        left: pl.Tile[[16, 16], pl.FP32, pl.Mem.Left] = pl.tile.load(a, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Left)
        right: pl.Tile[[16, 16], pl.FP32, pl.Mem.Right] = pl.tile.load(a, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Right)
        acc: pl.Tile[[16, 16], pl.FP32, pl.Mem.Acc] = pl.tile.full([16, 16], dtype=pl.FP32, value=100.0)
        for i, (acc_i,) in pl.range(2, init_values=(acc,)):
            acc_n: pl.Tile[[16, 16], pl.FP32, pl.Mem.Acc] = pl.tile.matmul_acc(acc_i, left, right, {first})
            acc_o: pl.Tile[[16, 16], pl.FP32, pl.Mem.Acc] = pl.yield_(acc_n)
        o: T16 = pl.tile.store(acc_o, [0, 0], out)
        """,
        "a: T16, out: pl.Out[T16]",
    )
    a = ramp()
    expected = {"True": a @ a, "False": 100 + 2 * (a @ a), "i == 0": 2 * (a @ a)}[first]
    assert torch.equal(outputs(made, {"a": a, "out": torch.zeros(16, 16)})["out"], expected)


@pytest.mark.parametrize(("name", "expected"), [("FP16", 2.7), ("BF16", 2.703125), ("FP32", 2.7), ("INT32", 2)])
def test_09_scalar_casts_keep_fractions(name: str, expected: float) -> None:
    made = incore(
        f"""
        v: pl.Scalar[pl.FP32] = pl.tensor.read(x, [0, 0])
        c: pl.Scalar[pl.{name}] = pl.cast(v, pl.{name})
        pl.tensor.write(out, [0, 0], pl.cast(c, pl.FP32))
        """,
        "x: T16, out: pl.Out[T16]",
    )
    got = outputs(made, {"x": torch.full((16, 16), 2.7), "out": torch.zeros(16, 16)})["out"]
    assert got[0, 0].item() == pytest.approx(expected, rel=1e-3 if name == "FP16" else 1e-7)


def test_10_a_read_value_does_not_change_when_the_tensor_is_written() -> None:
    made = incore(
        """
        before: pl.Scalar[pl.FP32] = pl.tensor.read(out, [0, 0])
        pl.tensor.write(out, [0, 0], 9.0)
        pl.tensor.write(out, [0, 1], before)
        """,
        "out: pl.InOut[T16]",
    )
    got = outputs(made, {"out": torch.full((16, 16), 4.0)})["out"]
    assert got[0, :2].tolist() == [9.0, 4.0]


def test_10_assemble_leaves_the_old_value_to_its_readers() -> None:
    made = incore(
        """
        ones: T16 = pl.tensor.full([16, 16], dtype=pl.FP32, value=1.0)
        zeros: T16 = pl.tensor.full([16, 16], dtype=pl.FP32, value=0.0)
        new: T16 = pl.tensor.assemble(zeros, ones, [0, 0])
        gap: T16 = pl.tensor.sub(new, zeros)
        o: T16 = pl.tensor.assemble(out, gap, [0, 0])
        """,
        "out: pl.Out[T16]",
    )
    assert torch.equal(outputs(made, {"out": torch.zeros(16, 16)})["out"], torch.ones(16, 16))


def test_10_writes_to_an_output_reach_the_caller_although_the_old_value_is_read() -> None:
    made = incore(
        """
        ones: T16 = pl.tensor.full([16, 16], dtype=pl.FP32, value=1.0)
        new: T16 = pl.tensor.assemble(out, ones, [0, 0])
        old: T16 = pl.tensor.muls(out, 10.0)
        o: T16 = pl.tensor.assemble(other, old, [0, 0])
        """,
        "out: pl.InOut[T16], other: pl.Out[T16]",
    )
    got = outputs(made, {"out": torch.full((16, 16), 5.0), "other": torch.zeros(16, 16)})
    assert torch.equal(got["out"], torch.ones(16, 16))
    assert torch.equal(got["other"], torch.full((16, 16), 50.0))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("rint", [0, 2, 2, 0, -2, 2, 3, -3]),
        ("round", [1, 2, 3, -1, -2, 2, 3, -3]),
        ("floor", [0, 1, 2, -1, -2, 1, 2, -3]),
        ("ceil", [1, 2, 3, 0, -1, 2, 3, -2]),
        ("trunc", [0, 1, 2, 0, -1, 1, 2, -2]),
    ],
)
def test_11_casts_honour_their_mode(mode: str, expected: list[int]) -> None:
    made = incore(
        f"""
        t: pl.Tile[[1, 8], pl.FP32, pl.Mem.Vec] = pl.tile.load(x, [0, 0], [1, 8], [1, 8], target_memory=pl.Mem.Vec)
        c: pl.Tile[[1, 8], pl.INT32, pl.Mem.Vec] = pl.tile.cast(t, target_type=pl.INT32, mode='{mode}')
        o: pl.Tensor[[1, 8], pl.INT32] = pl.tile.store(c, [0, 0], out)
        """,
        "x: pl.Tensor[[1, 8], pl.FP32], out: pl.Out[pl.Tensor[[1, 8], pl.INT32]]",
    )
    x = torch.tensor([[0.5, 1.5, 2.5, -0.5, -1.5, 1.9, 2.9, -2.9]])
    assert outputs(made, {"x": x, "out": torch.zeros(1, 8, dtype=torch.int32)})["out"][0].tolist() == expected


def test_12_concat_starts_where_the_first_valid_column_ends() -> None:
    made = incore(
        """
        a: pl.Tile[[4, 8], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[4, 5])] = pl.tile.load(x, [0, 0], [4, 8], [4, 5], target_memory=pl.Mem.Vec)
        b: pl.Tile[[4, 8], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[4, 3])] = pl.tile.load(x, [0, 8], [4, 8], [4, 3], target_memory=pl.Mem.Vec)
        c: pl.Tile[[4, 16], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[4, 8])] = pl.tile.concat(a, b)
        o: T16 = pl.tile.store(c, [0, 0], out)
        """,
        "x: T16, out: pl.Out[T16]",
    )
    x = ramp()
    got = outputs(made, {"x": x, "out": torch.zeros(16, 16)})["out"]
    assert torch.equal(got[:4, :8], torch.cat([x[:4, :5], x[:4, 8:11]], dim=1))
    assert not got[:, 8:].any()


def test_12_created_values_reduced_axes_and_integer_division() -> None:
    made = incore(
        """
        threes: T16 = pl.tensor.create([16, 16], dtype=pl.FP32, layout=pl.TensorLayout.ND, init_value=3.0)
        o1: T16 = pl.tensor.assemble(out, threes, [0, 0])
        q: pl.Tensor[[1, 16], pl.INT32] = pl.tensor.divs(k, 2)
        o2: pl.Tensor[[1, 16], pl.INT32] = pl.tensor.assemble(halves, q, [0, 0])
        """,
        "k: pl.Tensor[[1, 16], pl.INT32], out: pl.Out[T16], halves: pl.Out[pl.Tensor[[1, 16], pl.INT32]]",
    )
    k = torch.arange(16, dtype=torch.int32)[None]
    values = {"k": k, "out": torch.zeros(16, 16), "halves": torch.zeros(1, 16, dtype=torch.int32)}
    got = outputs(made, values)
    assert torch.equal(got["out"], torch.full((16, 16), 3.0))
    assert torch.equal(got["halves"], k // 2)


def test_12_int32_scalars_wrap() -> None:
    made = incore(
        """
        v: pl.Scalar[pl.INT32] = pl.tensor.read(x, [0])
        w: pl.Scalar[pl.INT32] = v + v
        pl.tensor.write(x, [1], w)
        """,
        "x: pl.InOut[pl.Tensor[[2], pl.INT32]]",
    )
    got = outputs(made, {"x": torch.tensor([2**31 - 1, 0], dtype=torch.int32)})["x"]
    assert got[1].item() == -2


def test_12_fp8_casts_round_to_the_grid() -> None:
    made = incore(
        """
        t: pl.Tile[[1, 16], pl.FP32, pl.Mem.Vec] = pl.tile.load(x, [0, 0], [1, 16], [1, 16], target_memory=pl.Mem.Vec)
        c: pl.Tile[[1, 16], pl.FP8E4M3FN, pl.Mem.Vec] = pl.tile.cast(t, target_type=pl.FP8E4M3FN, mode='rint')
        back: pl.Tile[[1, 16], pl.FP32, pl.Mem.Vec] = pl.tile.cast(c, target_type=pl.FP32, mode='none')
        o: pl.Tensor[[1, 16], pl.FP32] = pl.tile.store(back, [0, 0], out)
        """,
        "x: pl.Tensor[[1, 16], pl.FP32], out: pl.Out[pl.Tensor[[1, 16], pl.FP32]]",
    )
    x = torch.linspace(-3.3, 3.3, 16)[None]
    got = outputs(made, {"x": x, "out": torch.zeros(1, 16)})["out"]
    assert torch.equal(got, x.to(torch.float8_e4m3fn).float())


def test_13_tiles_that_nobody_pops_are_an_error() -> None:
    made = group(
        "pl.tile.tpush_to_aiv(acc, split=1)\npl.tile.tpush_to_aiv(acc, split=1)",
        "half: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic(split=1)",
    )
    with pytest.raises(ScriptError, match="never popped"):
        run(made, {"a": ramp(), "out": torch.zeros(16, 16)})


def test_13_a_second_lane_with_a_result_of_its_own_is_an_error() -> None:
    text = GROUP.replace(
        "return out\n    @pl.function(type=pl.FunctionType.Group)",
        "{result}\n    @pl.function(type=pl.FunctionType.Group)",
    )
    own = "n: T16 = pl.tensor.full([16, 16], dtype=pl.FP32, value=1.0)\n        return n"
    pop = "h: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic(split=1)"
    made = program(text.format(cube="pl.tile.tpush_to_aiv(acc, split=1)", vector=pop, result=own))
    with pytest.raises(ScriptError, match="AIV lane 1 returns a tensor"):
        run(made, {"a": ramp(), "out": torch.zeros(16, 16)})


# --- 14 to 22: loud failures ------------------------------------------------------------------------------------------


def test_14_every_registered_op_has_a_torch_form() -> None:
    known = library().definitions
    missing = [op.name for op in OPS if op.name not in SPECIAL and f"_{op.torch.call}".partition(".")[0] not in known]
    assert len(OPS) > 300
    assert missing == []


SPLIT = """
    t: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.load(x, [lane * 8, 0], [8, 16], [8, 16], target_memory=pl.Mem.Vec)
    twice: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.muls(t, 2.0)
    whole: pl.Tile[[16, 16], pl.FP32, pl.Mem.Mat] = pl.tile.aic_gather(twice{split})
    left: pl.Tile[[16, 16], pl.FP32, pl.Mem.Left] = pl.tile.move(whole, target_memory=pl.Mem.Left)
    right: pl.Tile[[16, 16], pl.FP32, pl.Mem.Right] = pl.tile.move(whole, target_memory=pl.Mem.Right)
    acc: pl.Tile[[16, 16], pl.FP32, pl.Mem.Acc] = pl.tile.matmul(left, right)
    half: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.aiv_shard(acc{split})
    y: T16 = pl.tile.store(half, [lane * 8, 0], out)
"""


def test_15_lowered_split_kernels_run_both_lanes() -> None:
    head = 'pl.func_attr({"split": pl.SplitMode.UP_DOWN, "split_aiv": True})\n'
    lane = "lane: pl.Scalar[pl.INDEX] = pl.tile.get_subblock_idx()\n"
    body = "\n".join(line.strip() for line in SPLIT.format(split=", split=1").strip().splitlines())
    made = incore(head + lane + body + "\nreturn out", "x: T16, out: pl.Out[T16]")
    x = ramp()
    assert torch.equal(both_ways(made, {"x": x, "out": torch.zeros(16, 16)}).outputs["out"], 4 * (x @ x))


def test_15_explicit_split_regions_run_both_lanes() -> None:
    body = "\n".join("    " + line.strip() for line in SPLIT.format(split="").strip().splitlines())
    made = incore(
        "for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):\n" + body + "\nreturn y", "x: T16, out: pl.Out[T16]"
    )
    x = ramp()
    result = both_ways(made, {"x": x, "out": torch.zeros(16, 16)})
    assert torch.equal(result.outputs["out"], 4 * (x @ x))
    assert result.returned is result.outputs["out"]


def test_15_two_lanes_add_a_tile_of_the_cube_once() -> None:
    head = 'pl.func_attr({"split": pl.SplitMode.UP_DOWN, "split_aiv": True})\n'
    made = incore(
        head
        + """lane: pl.Scalar[pl.INDEX] = pl.tile.get_subblock_idx()
left: pl.Tile[[16, 16], pl.FP32, pl.Mem.Left] = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Left)
right: pl.Tile[[16, 16], pl.FP32, pl.Mem.Right] = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Right)
acc: pl.Tile[[16, 16], pl.FP32, pl.Mem.Acc] = pl.tile.matmul(left, right)
y: T16 = pl.tile.store(acc, [0, 0], out, atomic=pl.AtomicType.Add)
return out""",
        "x: T16, out: pl.InOut[T16]",
    )
    x = ramp()
    assert torch.equal(both_ways(made, {"x": x, "out": torch.ones(16, 16)}).outputs["out"], 1 + x @ x)


def test_16_two_split_modes_in_one_group() -> None:
    made = group(
        "pl.tile.tpush_to_aiv(acc, split=1)\npl.tile.tpush_to_aiv(acc, split=2)",
        """half: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic(split=1)
        first: pl.Scalar[pl.FP32] = pl.tile.read(half, [0, 0])
        side: pl.Tile[[16, 8], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic(split=2)
        sum: pl.Tile[[16, 8], pl.FP32, pl.Mem.Vec] = pl.tile.adds(side, first)
        p: T16 = pl.tile.store(sum, [0, lane * 8], out)""",
    )
    a = ramp()
    product = a @ a
    expected = torch.cat([product[:, :8] + product[0, 0], product[:, 8:] + product[8, 0]], dim=1)
    assert torch.equal(both_ways(made, {"a": a, "out": torch.zeros(16, 16)}).outputs["out"], expected)


def test_17_maxima_and_minima_with_scalars() -> None:
    made = incore(
        """
        t: V16 = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)
        hi: V16 = pl.tile.maximums(t, -2.0)
        lo: V16 = pl.tile.minimums(hi, 3.0)
        o: T16 = pl.tile.store(lo, [0, 0], out)
        m: T16 = pl.tensor.maximum(x, 1.0)
        n: T16 = pl.tensor.minimum(m, 5.0)
        p: T16 = pl.tensor.assemble(other, n, [0, 0])
        """,
        "x: T16, out: pl.Out[T16], other: pl.Out[T16]",
    )
    x = ramp()
    got = outputs(made, {"x": x, "out": torch.zeros(16, 16), "other": torch.zeros(16, 16)})
    assert torch.equal(got["out"], x.clamp(-2, 3))
    assert torch.equal(got["other"], x.clamp(1, 5))


def test_18_slices_that_drop_an_axis() -> None:
    made = incore(
        """
        row: pl.Tensor[[16], pl.FP32] = pl.tensor.slice(x, [1, 16], [3, 0], drop_dims=[0])
        back: pl.Tensor[[1, 16], pl.FP32] = pl.tensor.reshape(row, [1, 16])
        o: T16 = pl.tensor.assemble(out, back, [5, 0])
        """,
        "x: T16, out: pl.Out[T16]",
    )
    x = ramp()
    got = outputs(made, {"x": x, "out": torch.zeros(16, 16)})["out"]
    assert torch.equal(got[5], x[3])
    assert got.count_nonzero() == x[3].count_nonzero()


@pytest.mark.parametrize("kind", ["InCore", "AIV", "Opaque", "Orchestration"])
def test_19_dynamic_symbols_in_every_function_kind(kind: str) -> None:
    made = program(
        f"""
        @pl.function(type=pl.FunctionType.{kind})
        def kernel(self, x: pl.Tensor[[M * 2, 16], pl.FP32], out: pl.Out[pl.Tensor[[M, 16], pl.FP32]]):
            for i in pl.range(M):
                t: pl.Tile[[1, 16], pl.FP32, pl.Mem.Vec] = pl.tile.load(x, [i * 2, 0], [1, 16], [1, 16], target_memory=pl.Mem.Vec)
                o: pl.Tensor[[M, 16], pl.FP32] = pl.tile.store(t, [i, 0], out)
        """,
        head='M = pl.dynamic("M")\n',
    )
    x = ramp(10)
    assert torch.equal(outputs(made, {"x": x, "out": torch.zeros(5, 16)})["out"], x[::2])


def test_20_names_that_clash() -> None:
    made = program(
        """
        @pl.function(type=pl.FunctionType.InCore)
        def scale(torch: T16, out: pl.Out[T16]) -> T16:
            range: V16 = pl.tile.load(torch, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)
            lambda__: V16 = pl.tile.muls(range, 2.0)
            _tile_store: T16 = pl.tile.store(lambda__, [0, 0], out)
            return _tile_store
        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, torch: T16, out: pl.Out[T16]) -> T16:
            scale: T16 = self.scale(torch, out)
            return scale
        """
    )
    x = ramp()
    assert torch.equal(outputs(made, {"torch": x, "out": torch.zeros(16, 16)})["out"], 2 * x)


def test_20_empty_bodies() -> None:
    made = program(
        """
        @pl.function(type=pl.FunctionType.InCore)
        def kernel(n: pl.Scalar[pl.INDEX], out: pl.Out[T16]):
            for i in pl.range(n):
                pass
            if n > 3:
                pass
            else:
                pass
            while n < 0:
                pass
        """
    )
    assert kernel_code(made).count("pass") == 3
    assert not outputs(made, {"n": 2, "out": torch.zeros(16, 16)})["out"].any()


def test_21_checks_raise_no_false_alarm() -> None:
    made = incore(
        """
        a: pl.Tile[[1, 16], pl.FP16, pl.Mem.Left] = pl.tile.load(row, [0, 0], [1, 16], [1, 16], target_memory=pl.Mem.Left)
        b: pl.Tile[[16, 16], pl.FP16, pl.Mem.Right] = pl.tile.load(w, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Right)
        g: pl.Tile[[16, 16], pl.FP32, pl.Mem.Acc, pl.TileView(valid_shape=[1, 16])] = pl.tile.gemv(a, b)
        x: pl.Tile[[8, 32], pl.FP32, pl.Mem.Vec] = pl.tile.full([8, 32], dtype=pl.FP32, value=1.0)
        m: pl.Tile[[8, 32], pl.UINT8, pl.Mem.Vec, pl.TileView(valid_shape=[8, 4])] = pl.tile.cmps(x, 0.0, cmp_type=4)
        i: pl.Tile[[16, 16], pl.INT8, pl.Mem.Left] = pl.tile.load(k, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Left)
        j: pl.Tile[[16, 16], pl.INT8, pl.Mem.Right] = pl.tile.load(k, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Right)
        c: pl.Tile[[16, 16], pl.INT32, pl.Mem.Acc] = pl.tile.matmul(i, j)
        u: pl.Tile[[1, 16], pl.UINT16, pl.Mem.Vec] = pl.tile.load(h, [0, 0], [1, 16], [1, 16], target_memory=pl.Mem.Vec)
        o: pl.Tensor[[16, 16], pl.INT32] = pl.tile.store(c, [0, 0], out)
        """,
        "row: pl.Tensor[[1, 16], pl.FP16], w: pl.Tensor[[16, 16], pl.FP16], k: pl.Tensor[[16, 16], pl.INT8], "
        "h: pl.Tensor[[1, 16], pl.UINT16], out: pl.Out[pl.Tensor[[16, 16], pl.INT32]]",
    )
    k = ramp(dtype=torch.int8)
    values = {
        "row": ramp(1).half(),
        "w": ramp().half(),
        "k": k,
        "h": torch.arange(16)[None].to(torch.uint16),
        "out": torch.zeros(16, 16, dtype=torch.int32),
    }
    got = outputs(made, values, check_shapes=True)["out"]
    assert torch.equal(got, (k.long() @ k.long()).int())


def test_21_lane_one_of_an_odd_box_has_the_declared_shape() -> None:
    text = GROUP.replace("[[16, 16], pl.FP32, pl.Mem.Acc]", "[[17, 16], pl.FP32, pl.Mem.Acc]")
    text = text.replace("pl.tile.matmul(left, right)", "pl.tile.full([17, 16], dtype=pl.FP32, value=2.0)")
    vector = """half: pl.Tile[[9, 16], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[pl.min(17 - lane * 9, 9), 16])] = pl.tile.tpop_from_aic(split=1)
        o: T16 = pl.tile.store(half, [lane * 9, 0], out)"""
    text = text.format(cube="pl.tile.tpush_to_aiv(acc, split=1)", vector=vector)
    made = program(text.replace("T16", "pl.Tensor[[17, 16], pl.FP32]"))
    got = outputs(made, {"a": torch.zeros(17, 16), "out": torch.zeros(17, 16)}, check_shapes=True)["out"]
    assert torch.equal(got, torch.full((17, 16), 2.0))


def test_22_a_deadlock_is_known_at_once_and_names_who_waits() -> None:
    made = group(
        "got: pl.Tile[[16, 16], pl.FP32, pl.Mem.Mat] = pl.tile.tpop_from_aiv(split=1)",
        "half: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic(split=1)",
    )
    start = time.perf_counter()
    with pytest.raises(ScriptError) as caught:
        run(made, {"a": ramp(), "out": torch.zeros(16, 16)})
    assert time.perf_counter() - start < 1
    text = str(caught.value)
    for wanted in ("deadlock", "AIC waits in pop_from_aiv", "AIV0 waits in pop_from_aic", "AIV1 waits", "kernel.py:"):
        assert wanted in text, wanted


def test_22_a_failing_lane_stops_the_others_at_once() -> None:
    made = group(
        "s: pl.Tile[[16, 16], pl.FP32, pl.Mem.Acc] = pl.tile.slice(acc, [16, 16], [8, 0])",
        "half: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic(split=1)",
    )
    from pypto_lab.torch_codegen.execute import prepare

    prepared = prepare(made, {"a": ramp(), "out": torch.zeros(16, 16)})
    names: dict[str, object] = {}
    exec(prepared.script.text, names)
    start = time.perf_counter()
    with pytest.raises(RuntimeError, match=r"AIC failed: RuntimeError: tile\.slice"):
        names[prepared.script.entry](*prepared.arguments)  # type: ignore[operator]
    assert time.perf_counter() - start < 2
