"""Single passes on kernels made for them: control flow, inlining, matrices, large products, carried values, symbols."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from lowering_cases import outputs_of, program_of

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import ArgDirection, Direction, ForKind, FunctionType, MemorySpace, TensorLayout
from pypto_lab.ir.types import TensorType, TensorView, TileType
from pypto_lab.ir.visitor import walk
from pypto_lab.lowering import lower
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.passes import materialize_tensor_strides, materialize_valid_shape_symbols
from pypto_lab.lowering.target import TARGETS

torch.set_num_threads(1)
CONTEXT = Context(TARGETS["a2a3"])


def ops(program: n.Program) -> list[str]:
    return [e.op for e in walk(program) if isinstance(e, n.OpCall)]


def agree(text: str, values: dict[str, Any], arch: str = "a2a3") -> n.Program:
    """Lowers a kernel; every stage is sound, and the last one computes what the text does. Returns the last one."""
    program = program_of(text)
    expected = outputs_of(program, values)
    stages = lower(program, arch)
    for stage in stages.stages[1:]:
        assert [f.message for f in stage.findings] == [], stage.file_name
    found = outputs_of(stages.program, values, memory="addresses", arch=arch, poison="nan")
    assert all(torch.allclose(a, b, rtol=1e-2, atol=1e-2) for a, b in zip(found, expected, strict=True))
    return stages.program


LEAVING = """
@pl.jit
def leaving(x: pl.Tensor[[8, 64], pl.FP32], n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="loop"):
        t = pl.mul(x, 1.0)
        for i in pl.range(6):
            if i == 1:
                continue
            if i > n:
                break
            t = pl.add(t, x)
        out[:] = t
    return out
"""


def test_break_and_continue_become_structure() -> None:
    for last in (0, 3, 9):
        values = {"x": torch.rand(8, 64), "n": last, "out": torch.zeros(8, 64)}
        times = 1 + sum(i != 1 and i <= last for i in range(6))
        found = lower(program_of(LEAVING)).program
        assert not any(isinstance(s, (n.Break, n.Continue)) for s in walk(found))
        (result,) = outputs_of(found, values, memory="addresses")
        assert torch.allclose(result, values["x"] * times)


ONLY_IN_LOOP = """
@pl.jit
def tail(x: pl.Tensor[[8, 64], pl.FP32], out: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="loop"):
        for i in pl.range(3):
            last = pl.mul(x, 2.0)
        out[:] = last
    return out
"""


def test_a_value_bound_only_in_a_loop_leaves_it() -> None:
    agree(ONLY_IN_LOOP, {"x": torch.rand(8, 64), "out": torch.zeros(8, 64)})


SWAP = """
@pl.jit
def swapped(x: pl.Tensor[[8, 64], pl.FP32], y: pl.Tensor[[8, 64], pl.FP32],
            first: pl.Out[pl.Tensor[[8, 64], pl.FP32]], second: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="loop"):
        a = pl.mul(x, 1.0)
        b = pl.mul(y, 1.0)
        for i in pl.range(5):
            c = a
            a = b
            b = c
        first[:] = a
        second[:] = b
    return first, second
"""


def test_carried_values_that_change_places() -> None:
    shape = (8, 64)
    values = {"x": torch.rand(shape), "y": torch.rand(shape), "first": torch.zeros(shape), "second": torch.zeros(shape)}
    agree(SWAP, values)


KEPT = """
@pl.jit
def kept(x: pl.Tensor[[8, 64], pl.FP32], y: pl.Tensor[[8, 64], pl.FP32], n: pl.Scalar[pl.INDEX],
         first: pl.Out[pl.Tensor[[8, 64], pl.FP32]], second: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="branch"):
        p = pl.mul(x, 1.0)
        r = pl.add(x, y)
        p = pl.neg(p)
        p = pl.neg(p)
        if n > 0:
            r = pl.neg(p)
        first[:] = p
        second[:] = r
    return first, second
"""


def test_what_only_one_arm_reads_is_kept_until_the_branch() -> None:
    shape = (8, 64)
    for n_value in (0, 1):
        values = {"x": torch.rand(shape), "y": torch.rand(shape), "n": n_value}
        agree(KEPT, {**values, "first": torch.zeros(shape), "second": torch.zeros(shape)})


PLANES = """
@pl.jit
def planes(x: pl.Tensor[[4, 16, 32], pl.FP32], out: pl.Out[pl.Tensor[[4, 16, 32], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="plane"):
        for i in pl.range(2):
            part = pl.slice(x, [2, 16, 32], [i * 2, 0, 0])
            out = pl.assemble(out, pl.mul(pl.add(part, 1.0), part), [i * 2, 0, 0])
    return out
"""


def test_tiles_of_three_axes_become_matrices() -> None:
    last = agree(PLANES, {"x": torch.rand(4, 16, 32), "out": torch.zeros(4, 16, 32)})
    ranks = {v.type.rank for v in walk(last) if isinstance(v, n.Var) and isinstance(v.type, TileType)}
    assert ranks == {2}
    assert "tensor.view" in ops(last)


BATCH = """
@pl.jit
def batched(x: pl.Tensor[[2, 16, 32], pl.FP16], y: pl.Tensor[[2, 48, 32], pl.FP16],
            out: pl.Out[pl.Tensor[[2, 16, 48], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="mm"):
        out[:] = pl.matmul(x, y, b_trans=True, out_dtype=pl.FP32)
    return out
"""


def test_a_batched_product_is_one_product_a_plane() -> None:
    values = {
        "x": torch.randn(2, 16, 32).half(),
        "y": torch.randn(2, 48, 32).half(),
        "out": torch.zeros(2, 16, 48),
    }
    last = agree(BATCH, values)
    assert ops(last).count("tile.matmul") == 2


DEEP = """
@pl.jit
def deep(a: pl.Tensor[[M, K], pl.BF16], b: pl.Tensor[[K, N], pl.BF16], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="mm"):
        out[:] = pl.matmul(a, b, out_dtype=pl.FP32)
    return out
"""


def deep(m: int, k: int, columns: int) -> n.Program:
    generator = torch.Generator().manual_seed(m + k)
    values = {
        "a": (torch.randn(m, k, generator=generator) * 0.1).bfloat16(),
        "b": (torch.randn(k, columns, generator=generator) * 0.1).bfloat16(),
        "out": torch.zeros(m, columns),
    }
    return agree(f"M, K, N = {m}, {k}, {columns}\n" + DEEP, values)


def largest(program: n.Program, space: MemorySpace) -> int:
    tiles = [v.type for v in walk(program) if isinstance(v, n.Var) and isinstance(v.type, TileType)]
    sizes = [t.memref.size or 0 for t in tiles if t.memory_space is space and t.memref is not None]
    return max(sizes, default=0)


def test_a_product_too_deep_for_the_cube_is_added_up() -> None:
    last = deep(64, 768, 64)
    assert largest(last, MemorySpace.Left) <= 32 << 10
    assert "tile.matmul_acc" in ops(last)


def test_a_product_too_large_for_the_accumulator_is_stored_in_parts() -> None:
    last = deep(256, 64, 256)
    assert largest(last, MemorySpace.Acc) <= 128 << 10
    (loop,) = [s for s in walk(last) if isinstance(s, n.For)]
    assert "tile.store" in [e.op for e in walk(loop) if isinstance(e, n.OpCall)]


PIPELINE = """
@pl.jit
def piped(x: pl.Tensor[[64, 64], pl.FP32], n: pl.Scalar[pl.INDEX], out: pl.InOut[pl.Tensor[[64, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="rows"):
        for i in pl.pipeline(n, stage=2):
            part = x[i * 8 : i * 8 + 8, :]
            out[i * 8 : i * 8 + 8, :] = pl.mul(part, 3.0)
    return out
"""


def test_a_pipeline_of_unknown_length_has_a_tail_loop() -> None:
    for length in (0, 1, 5, 8):
        values = {"x": torch.rand(64, 64), "n": length, "out": torch.zeros(64, 64)}
        last = agree(PIPELINE, values)
        assert not any(isinstance(s, n.For) and s.kind is ForKind.Pipeline for s in walk(last))


LOCAL = """
@pl.jit
def handed(x: pl.Tensor[[8, 64], pl.FP32], out: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="one"):
        t = pl.mul(x, 2.0)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="two"):
        out[:] = pl.add(t, x)
    return out
"""


def test_a_result_between_kernels_goes_through_a_new_output() -> None:
    last = agree(LOCAL, {"x": torch.rand(8, 64), "out": torch.zeros(8, 64)})
    assert [p.direction for p in last.functions["one"].params] == [Direction.In, Direction.Out]
    assert "tensor.create" in ops(last)


def test_symbols_of_a_valid_shape_become_parameters() -> None:
    symbol = n.Var(name="ROWS", type=n.INDEX)
    partial = TensorType((n.const(16), n.const(64)), dtypes.FP32, TensorView(valid_shape=(symbol, n.const(64))))
    inner, outer = (n.Var(name="x", type=partial) for _ in range(2))
    worker = n.Function(
        name="work", params=(n.Param(var=inner),), return_types=(), body=(), func_type=FunctionType.AIV, has_self=False
    )
    directions = {"arg_directions": [ArgDirection.Input]}
    call = n.FunctionCall(callee="work", args=(outer,), attrs=directions, type=n.INDEX)
    caller = n.Function(
        name="drive",
        params=(n.Param(var=outer),),
        return_types=(),
        body=(n.Eval(expr=call),),
        func_type=FunctionType.Orchestration,
    )
    program = n.Program(name="p", functions={"work": worker, "drive": caller}, symbols={"ROWS": symbol})
    new = materialize_valid_shape_symbols.run(program, CONTEXT)
    first, second = new.functions["work"].params
    assert first.name == "ROWS"
    assert second.type.valid_shape[0] is first.var  # type: ignore[attr-defined]
    (statement,) = new.functions["drive"].body or ()
    assert statement.expr.args == (symbol, outer)  # type: ignore[attr-defined]
    assert statement.expr.attrs["arg_directions"] == [ArgDirection.Scalar, ArgDirection.Input]  # type: ignore[attr-defined]
    assert materialize_valid_shape_symbols.run(new, CONTEXT) is new


def test_views_with_a_layout_get_strides() -> None:
    shape = tuple(n.const(e) for e in (3, 8, 64))
    for layout, wanted in ((TensorLayout.ND, [512, 64, 1]), (TensorLayout.DN, [512, 1, 8])):
        type_ = TensorType(shape, dtypes.FP32, TensorView(layout=layout))
        function = n.Function(name="f", params=(n.Param(var=n.Var(name="x", type=type_)),), return_types=(), body=())
        program = n.Program(name="p", functions={"f": function})
        found = materialize_tensor_strides.run(program, CONTEXT).functions["f"].params[0].type
        assert [d.value for d in found.view.stride] == wanted  # type: ignore[attr-defined]
        assert materialize_tensor_strides.run(dataclasses.replace(program, functions={}), CONTEXT).functions == {}


CHAINED = """
@pl.jit
def chained(a: pl.Tensor[[256, 32], pl.BF16], b: pl.Tensor[[32, 256], pl.BF16], e: pl.Tensor[[256, 32], pl.BF16],
            out: pl.Out[pl.Tensor[[256, 32], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="mm"):
        first = pl.matmul(a, b, out_dtype=pl.FP32)
        out[:] = pl.matmul(pl.cast(first, pl.BF16, mode="rint"), e, out_dtype=pl.FP32)
    return out
"""


def test_a_product_that_becomes_a_factor_stays_on_the_cube() -> None:
    """256 x 256 FP32 does not fit Acc (a2a3), so parts are narrowed into Mat; where it fits (a5) it is, whole."""
    generator = torch.Generator().manual_seed(3)
    values = {
        "a": torch.randn(256, 32, generator=generator).bfloat16(),
        "b": torch.randn(32, 256, generator=generator).bfloat16(),
        "e": (torch.randn(256, 32, generator=generator) * 0.1).bfloat16(),
        "out": torch.zeros(256, 32),
    }
    for arch in ("a2a3", "a5"):
        program = agree(CHAINED, values, arch)
        assert {f.func_type for f in program.functions.values()} == {FunctionType.AIC, FunctionType.Orchestration}
        assert "tile.assemble" in ops(program)
        assert "tile.cast" not in ops(program)


ROUNDS = """
@pl.jit
def rounds(a: pl.Tensor[[16, 32], pl.FP16], w: pl.Tensor[[32, 32], pl.FP16],
           sums: pl.InOut[pl.Tensor[[16, 32], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="mm"):
        for i in pl.range(3):
            part = pl.matmul(a, w, out_dtype=pl.FP32)
            if i == 0:
                sums[:] = part
            else:
                held = sums[0:16, :]
                sums[:] = pl.add(held, pl.mul(part, 2.0))
    return sums
"""


def test_what_a_vector_core_loads_again_is_stored_by_it() -> None:
    """Were the first round's product stored by the cube, nothing would order the next round's load after it."""
    generator = torch.Generator().manual_seed(4)
    values = {
        "a": torch.randn(16, 32, generator=generator).half(),
        "w": torch.randn(32, 32, generator=generator).half(),
        "sums": torch.zeros(16, 32),
    }
    program = agree(ROUNDS, values)
    stores = {f.func_type for f in program.functions.values() if "tile.store" in ops_of(f)}
    assert stores == {FunctionType.AIV}


def ops_of(function: n.Function) -> list[str]:
    return [e.op for e in walk(function) if isinstance(e, n.OpCall)]


LOOP_ONLY = """
@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def halves(self, x: pl.Tensor[[32, 64], pl.FP32], out: pl.Out[pl.Tensor[[32, 64], pl.FP32]]) \
            -> pl.Tensor[[32, 64], pl.FP32]:
        for i in pl.range(2):
            t = pl.load(x, [i * 16, 0], [16, 64])
            done = pl.store(pl.mul(t, 2.0), [i * 16, 0], out)
        return done

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[32, 64], pl.FP32], out: pl.Out[pl.Tensor[[32, 64], pl.FP32]]) \
            -> pl.Tensor[[32, 64], pl.FP32]:
        out = self.halves(x, out)
        return out
"""


def test_another_name_of_memory_that_only_a_loop_assigns_starts_as_that_memory() -> None:
    program = agree(LOOP_ONLY, {"x": torch.rand(32, 64), "out": torch.zeros(32, 64)})
    assert "tile.create" not in ops(program)
    assert [p.name for p in program.functions["halves"].params] == ["x__ssa_v0", "out__ssa_v0"]


CLUSTERED = """
@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def scale(self, x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]) \
            -> pl.Tensor[[64, 64], pl.FP32]:
        block = pl.tile.get_block_idx()
        t = pl.load(x, [block * 16, 0], [16, 64])
        out = pl.store(pl.mul(t, 3.0), [block * 16, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]) \
            -> pl.Tensor[[64, 64], pl.FP32]:
        with pl.cluster():
            with pl.spmd(core_num=4):
                out = self.scale(x, out)
        return out
"""


def test_a_cluster_of_one_spmd_scope_is_a_group_on_its_blocks() -> None:
    program = agree(CLUSTERED, {"x": torch.rand(64, 64), "out": torch.zeros(64, 64)})
    (group,) = (f for f in program.functions.values() if f.func_type is FunctionType.Group)
    (call,) = (e for e in walk(program) if isinstance(e, n.FunctionCall) and e.callee == group.name)
    assert call.attrs["core_num"] == 4
    assert not any(isinstance(s, n.SpmdScope) for s in walk(program))
