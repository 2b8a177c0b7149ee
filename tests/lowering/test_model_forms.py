"""Forms that real models are written in: inline functions on dynamic tensors, launches on as many blocks as there are
rows, names used again, tiles of more axes. Every stage is sound, every name in it is known where it is used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from lowering_cases import outputs_of, program_of

from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.ir.enums import ArgDirection, FunctionType
from pypto_lab.ir.types import TensorType
from pypto_lab.ir.verifier import Verified, verify
from pypto_lab.ir.visitor import walk
from pypto_lab.lowering import Lowered, lower
from pypto_lab.lowering.uses import defined_in, read_in, type_vars
from pypto_lab.pto.orchestration import orchestration

torch.set_num_threads(1)


def unknown_names(program: n.Program) -> Iterator[str]:
    """Names a function uses that are no parameter, no local and no extent of one of its tensor parameters."""
    for function in program.functions.values():
        known = {p.var for p in function.params} | set(defined_in(function.body or ()))
        tensors = [p.type for p in function.params if isinstance(p.type, TensorType)]
        known |= {e for type_ in tensors for e in type_.shape if isinstance(e, n.Var)}
        used = [v for p in function.params for v in type_vars(p.type)] + list(read_in(function.body or ()))
        yield from (f"{function.name}: {v.name}" for v in used if v not in known)


def agrees(text: str, values: dict[str, Any]) -> Lowered:
    """Lowers a kernel: each stage is sound and knows its names, the last computes what the text does."""
    program = program_of(text)
    expected = outputs_of(program, values)
    stages = lower(program)
    for stage in stages.stages[1:]:
        assert [f.message for f in stage.findings] == [], stage.file_name
        assert list(unknown_names(stage.program)) == [], stage.file_name
    found = outputs_of(stages.program, values, memory="addresses", poison="nan")
    assert all(torch.allclose(a, b, rtol=1e-2, atol=1e-2) for a, b in zip(found, expected, strict=True))
    return stages


def calls(program: n.Program, callee: str) -> list[n.FunctionCall | n.Submit]:
    nodes = (e for e in walk(program) if isinstance(e, (n.FunctionCall, n.Submit)))
    return [e for e in nodes if e.callee == callee]


ROWS = """
T_IN = pl.dynamic("T_IN")
T_OUT = pl.dynamic("T_OUT")

@pl.jit.inline
def scaled(x: pl.Tensor[[T_IN, 64], pl.FP32], y: pl.Tensor[[T_IN, 64], pl.FP32]):
    for b in pl.spmd((pl.tensor.dim(x, 0) + 7) // 8, name_hint="scale"):
        rows = pl.min(8, pl.tensor.dim(x, 0) - b * 8)
        part = pl.slice(x, [8, 64], [b * 8, 0], valid_shape=[rows, 64])
        y[b * 8 : b * 8 + 8, :] = pl.set_validshape(pl.mul(part, 2.0), rows, 64)
    return y

@pl.jit.inline
def handed(x: pl.Tensor[[T_IN, 64], pl.FP32], y: pl.Tensor[[T_IN, 64], pl.FP32]):
    return scaled(x, y)

@pl.jit
def twice(x: pl.Tensor[[T_OUT, 64], pl.FP32], out: pl.Out[pl.Tensor[[T_OUT, 64], pl.FP32]]):
    t_dim = pl.tensor.dim(x, 0)
    half = pl.create_tensor([t_dim, 64], dtype=pl.FP32)
    half = handed(x, half)
    out = handed(half, out)
    return out
"""


def test_inline_functions_on_tensors_of_dynamic_extents() -> None:
    """The callee's dimension is the extent of the argument; the number of blocks is known until the launch."""
    found = agrees(ROWS, {"x": torch.rand(21, 64), "out": torch.zeros(21, 64)})
    assert not any(f.func_type is FunctionType.Inline for f in found.program.functions.values())
    text = orchestration(found.program)
    assert text.count("launch_spec.set_block_num(") == 2


LOCAL_SIZE = """
T = pl.dynamic("T")

@pl.jit.inline
def flat(x: pl.Tensor[[T, 2, 32], pl.FP32], y: pl.Tensor[[T, 64], pl.FP32]):
    count = pl.tensor.dim(x, 0)
    rows = pl.reshape(x, [count, 64])
    for b in pl.spmd(count, name_hint="row"):
        y[b : b + 1, :] = pl.mul(rows[b : b + 1, :], 3.0)
    return pl.reshape(y, [count, 64])

@pl.jit
def outer(x: pl.Tensor[[T, 2, 32], pl.FP32], out: pl.Out[pl.Tensor[[T, 64], pl.FP32]]):
    result = flat(x, out)
    return result
"""


def test_what_an_inline_call_is_bound_to_names_no_local_of_the_callee() -> None:
    agrees(LOCAL_SIZE, {"x": torch.rand(3, 2, 32), "out": torch.zeros(3, 64)})


HIDDEN = """
T = pl.dynamic("T")

@pl.jit
def hidden(x: pl.Tensor[[T, 64], pl.FP32], out: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
    count = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="fill"):
        block = pl.full([8, 64], dtype=pl.FP32, value=1.0)
        for i in pl.range(count):
            block = pl.add(block, 1.0)
        out[:] = block
    return out
"""


def test_a_kernel_takes_a_dimension_that_none_of_its_tensors_shows() -> None:
    found = agrees(HIDDEN, {"x": torch.rand(5, 64), "out": torch.zeros(8, 64)})
    assert any("count" in p.name for p in found.program.functions["fill"].params)
    assert "add_scalar(" in orchestration(found.program)


REUSED = """
@pl.jit
def reused(x: pl.Tensor[[32, 64], pl.FP32], first: pl.Out[pl.Tensor[[32, 64], pl.FP32]],
           second: pl.Out[pl.Tensor[[32, 64], pl.FP32]]):
    for b in pl.spmd(4, name_hint="one"):
        row = b * 8
        first[row : row + 8, :] = pl.mul(x[row : row + 8, :], 2.0)
    for c in pl.spmd(1, name_hint="two"):
        for i in pl.range(c, 4):
            row = i * 8
            second[row : row + 8, :] = pl.add(x[row : row + 8, :], 1.0)
    return first, second
"""


def test_a_scalar_used_again_is_no_result_of_a_kernel() -> None:
    """The second kernel assigns `row` before it reads it: nothing is carried into its loop or out of the first."""
    values = {"x": torch.rand(32, 64), "first": torch.zeros(32, 64), "second": torch.zeros(32, 64)}
    found = agrees(REUSED, values)
    for function in found.program.functions.values():
        assert all(isinstance(t, TensorType) for t in function.return_types)
    loops = [s for s in walk(found.stage(5).program) if isinstance(s, n.For)]
    assert [[a.name for a in loop.iter_args if "row" in a.name] for loop in loops] == [[]]
    orchestration(found.program)


UPDATED = """
@pl.jit
def updated(x: pl.Tensor[[8, 64], pl.FP32], board: pl.InOut[pl.Tensor[[32, 64], pl.FP32]],
            out: pl.Out[pl.Tensor[[32, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="put"):
        board[8:16, :] = x
        out[0:8, :] = x
    return board, out
"""


def test_a_part_written_of_what_the_caller_updates_is_an_update() -> None:
    (call,) = calls(lower(program_of(UPDATED)).program, "put")
    names = [a.name.partition("__")[0] for a in call.args if isinstance(a, n.Var)]
    directions = dict(zip(names, call.attrs["arg_directions"], strict=True))
    assert directions == {
        "x": ArgDirection.Input,
        "board": ArgDirection.InOut,
        "out": ArgDirection.OutputExisting,
    }


SUBMITTED = """
@pl.jit
def submitted(x: pl.Tensor[[32, 64], pl.FP32], out: pl.Out[pl.Tensor[[32, 64], pl.FP32]]):
    for i in pl.range(4):
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="one") as tid:
            out[i * 8 : i * 8 + 8, :] = pl.mul(x[i * 8 : i * 8 + 8, :], 2.0)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="two", deps=[tid]):
            out[i * 8 : i * 8 + 8, :] = pl.add(out[i * 8 : i * 8 + 8, :], 1.0)
    return out
"""


def test_what_a_submit_gives_back_is_its_argument() -> None:
    """The loop carries `out` through two submits and keeps its memory."""
    found = agrees(SUBMITTED, {"x": torch.rand(32, 64), "out": torch.zeros(32, 64)})
    (loop,) = [s for s in walk(found.program.functions["submitted"]) if isinstance(s, n.For)]
    assert loop.attrs["iter_arg_rebind_0"] is False


LONE = """
@pl.jit.inline
def lone(x: pl.Tensor[[8, 64], pl.FP32], out: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="scale"):
        out[:] = pl.mul(x, 2.0)
    return out
"""


def test_a_program_of_one_inline_function_keeps_it() -> None:
    found = agrees(LONE, {"x": torch.rand(8, 64), "out": torch.zeros(8, 64)})
    assert found.program.functions["lone"].func_type is FunctionType.Orchestration


FOUR_AXES = """
@pl.jit
def four(x: pl.Tensor[[1, 2, 24, 64], pl.FP32], b: pl.Scalar[pl.INDEX], rows: pl.Scalar[pl.INDEX],
         out: pl.InOut[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="plane"):
        part = pl.slice(x, [1, 1, 16, 64], [0, b, 0, 0], valid_shape=[1, 1, rows, 64])
        out[:] = pl.reshape(pl.mul(part, 2.0), [16, 64])
    return out
"""


def test_a_partly_valid_plane_is_a_matrix() -> None:
    program = program_of(FOUR_AXES)
    values = {"x": torch.rand(1, 2, 24, 64), "b": 1, "rows": 11, "out": torch.zeros(16, 64)}
    (found,) = outputs_of(lower(program).program, values, memory="addresses")
    assert torch.allclose(found[:11], values["x"][0, 1, :11] * 2)


def test_planes_that_are_each_partly_valid_are_refused() -> None:
    text = FOUR_AXES.replace("[1, 1, 16, 64], [0, b", "[1, 2, 8, 64], [0, 0").replace("[1, 1, rows", "[1, 2, rows")
    text = text.replace("pl.reshape(pl.mul(part, 2.0), [16, 64])", "pl.mul(part, 2.0)").replace(
        "[[16, 64]", "[[1, 2, 8, 64]"
    )
    with pytest.raises(LabError) as caught:
        lower(program_of(text))
    assert caught.value.diagnostics[0].code == "E810"


PLANES = """
@pl.jit
def planes(a: pl.Tensor[[16, 64], pl.BF16], w: pl.Tensor[[2, 32, 64], pl.BF16], g: pl.Scalar[pl.INDEX],
           out: pl.Out[pl.Tensor[[16, 32], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="mm"):
        acc = pl.matmul(a[:, 0:32], w[g : g + 1, :, 0:32], b_trans=True, out_dtype=pl.FP32)
        acc = pl.matmul_acc(acc, a[:, 32:64], w[g : g + 1, :, 32:64], b_trans=True)
        out = pl.assemble(out, acc, [0, 0])
    return out
"""


def test_a_product_with_one_plane_of_a_batch_accumulates() -> None:
    a, w = torch.rand(16, 64).bfloat16(), torch.rand(2, 32, 64).bfloat16()
    agrees(PLANES, {"a": a, "w": w, "g": 1, "out": torch.zeros(16, 32)})


DROPPED = """
@pl.jit
def dropped(x: pl.Tensor[[8, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="put"):
        pl.assemble(out, pl.mul(x, 2.0), [8, 0])
        pl.assemble(out, x, [0, 0])
    return out
"""


def test_an_assemble_whose_result_is_dropped_stores() -> None:
    agrees(DROPPED, {"x": torch.rand(8, 64), "out": torch.zeros(16, 64)})


SPREAD = """
@pl.jit
def spread(even: pl.Tensor[[16, 32], pl.FP32], odd: pl.Tensor[[16, 32], pl.FP32],
           out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="weave"):
        both = pl.full([16, 64], dtype=pl.FP32, value=0.0)
        both = pl.tensor.scatter(pl.mul(even, 1.0), mask_pattern=pl.tile.MaskPattern.P0101, dst=both)
        both = pl.tensor.scatter(pl.mul(odd, 1.0), mask_pattern=pl.tile.MaskPattern.P1010, dst=both)
        out[:] = both
    return out
"""


def test_columns_spread_by_a_mask() -> None:
    values = {"even": torch.rand(16, 32), "odd": torch.rand(16, 32), "out": torch.zeros(16, 64)}
    agrees(SPREAD, values)


COUNTED = """
@pl.jit
def counted(x: pl.Tensor[[8, 808], pl.FP32], y: pl.Tensor[[8, 808], pl.FP32],
            out: pl.Out[pl.Tensor[[8, 808], pl.{0}]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="newer"):
        out[:] = pl.cast(pl.cmp(x, y, cmp_type=4), target_type=pl.{0})
    return out
"""


@pytest.mark.parametrize(("name", "dtype"), [("INT32", torch.int32), ("FP32", torch.float32)])
def test_a_comparison_is_unpacked_where_it_is_cast(name: str, dtype: torch.dtype) -> None:
    """A core's comparison gives a mask of bits; the numbers of it are ones and zeros."""
    x, y = torch.rand(8, 808), torch.rand(8, 808)
    values = {"x": x, "y": y, "out": torch.zeros(8, 808, dtype=dtype)}
    found = agrees(COUNTED.format(name), values)
    (result,) = outputs_of(found.program, values, memory="addresses")
    assert torch.equal(result, (x > y).to(dtype))


IDS = """
@pl.jit(auto_scope=False)
def ids(x: pl.Tensor[[8, 64], pl.FP32], out: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
    tids = pl.array.create(1, pl.TASK_ID)
    half = pl.create_tensor([8, 64], dtype=pl.FP32)
    with pl.scope():
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="one") as tid:
            half[:] = pl.mul(x, 2.0)
        tids[0] = tid
    with pl.scope():
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="two", deps=[tids[0]]):
            out[:] = pl.add(half, 1.0)
    return out
"""


def test_an_array_of_ids_filled_in_a_scope_is_read_after_it() -> None:
    text = orchestration(lower(program_of(IDS)).program)
    assert text.count("PTO2TaskId tids[1];") == 1
    assert text.index("tids[0] = tid;") < text.index("= tids[0];") < text.index("_deps[")


@pytest.mark.parametrize("text", [ROWS, SUBMITTED, UPDATED])
def test_remembered_findings_are_the_same(text: str) -> None:
    known: Verified = {}
    for stage in lower(program_of(text)).stages:
        assert verify(stage.program, stage="ssa", known=known) == verify(stage.program, stage="ssa")
