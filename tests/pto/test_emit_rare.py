"""Ops that few kernels use: rows gathered from global memory, random words, comparisons that list columns, events,
caches, local arrays. Emitted, checked, and executed beside the torch script of the same IR."""

from __future__ import annotations

import re

import pytest
import torch

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.pto.dialect.verify import verify
from pypto_lab.pto.emit import emit
from pypto_lab.pto.machine import execute
from pypto_lab.pto.parse import parse
from pypto_lab.pto.printing import print_unit
from tests.pto.test_emit_ops import program, refused, runs_alike, tensor, tile

MAT = "blayout=pl.TileLayout.col_major, slayout=pl.TileLayout.row_major, fractal=512"
ZN = "blayout=pl.TileLayout.row_major, slayout=pl.TileLayout.col_major, fractal=512"


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


# --- rows straight from global memory ---------------------------------------------------------------------------------

ROWS = f"""
a: {tile((8, 32), 0)} = pl.tile.load(x, [0, 0], [8, 32], [8, 32], target_memory=pl.Mem.Vec)
b: {tile((8, 32), 0)} = pl.tile.gather_row(a, pool, ROW, [k, 16], [2, 16])
r: {tensor((8, 32))} = pl.tile.store(b, [0, 0], o)
"""


PARAMETERS = (
    f"x: {tensor((8, 32))}", f"pool: {tensor((16, 32))}", f"o: pl.Out[{tensor((8, 32))}]", "k: pl.Scalar[pl.INDEX]",
)  # fmt: skip


@pytest.mark.parametrize(("row", "k"), [("[3, 8]", 0), ("[k, 0]", 5)])
def test_rows_are_loaded_into_a_window_of_a_tile(row: str, k: int) -> None:
    made = program(ROWS.replace("ROW", row), *PARAMETERS)
    text = runs_alike(made, {"x": draw(8, 32), "pool": draw(16, 32, seed=1), "o": torch.zeros(8, 32), "k": k})
    assert "sizes [2, 16]" in text
    assert text.count("pto.tload") == 2
    assert "pto.tmov" not in text


def test_a_window_may_reach_past_the_tile_where_what_is_loaded_does_not() -> None:
    """The window is as large as the tile; three rows from row 5 on are loaded."""
    body = ROWS.replace("[k, 16], [2, 16]", "[k, 0], [8, 32], [3, 32]").replace("ROW", "[5, 0]")
    runs_alike(
        program(body, *PARAMETERS), {"x": draw(8, 32), "pool": draw(16, 32, seed=1), "o": torch.zeros(8, 32), "k": 2}
    )
    with pytest.raises(LabError) as error:
        emit(program(body.replace("[5, 0]", "[6, 0]"), *PARAMETERS))
    assert "6 to 9 lies outside a tile of 8" in error.value.diagnostics[0].message


POOL = """# pypto.program: P
import pypto.language as pl

@pl.program
class P:
    @pl.function(type=pl.FunctionType.AIC)
    def f(q: pl.Tensor[[16, 64], pl.FP16], pool: pl.Tensor[[64, 64], pl.FP16], o: pl.Out[pl.Tensor[[16, 32], pl.FP32]]):
        mat: pl.Ptr = pl.tile.alloc(pl.Mem.Mat, 65536)
        lm: pl.Ptr = pl.tile.alloc(pl.Mem.Left, 65536)
        rm: pl.Ptr = pl.tile.alloc(pl.Mem.Right, 65536)
        am: pl.Ptr = pl.tile.alloc(pl.Mem.Acc, 65536)
        a: pl.Tile[[16, 64], pl.FP16, pl.MemRef(mat, pl.const(0, pl.INT64), 2048), pl.Mem.Mat, pl.TileView(NZ)] = pl.tile.load(q, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Mat)
        left: pl.Tile[[16, 64], pl.FP16, pl.MemRef(lm, pl.const(0, pl.INT64), 2048), pl.Mem.Left, pl.TileView(NZ)] = pl.tile.move(a, target_memory=pl.Mem.Left)
        k: SHAPE = pl.tile.create(BOX, dtype=pl.FP16, target_memory=pl.Mem.Mat)
        for i, (it,) in pl.range(0, 32, 1, init_values=(k,)):
            row: pl.Scalar[pl.INDEX] = 63 - i
            g: SHAPE = pl.tile.gather_row(it, pool, AT, [row, 0], [1, 64], transpose=TURNED)
            rv: SHAPE = pl.yield_(g)
        view: pl.Tile[[64, 32], pl.FP16, pl.MemRef(mat, pl.const(4096, pl.INT64), 4096), pl.Mem.Mat, pl.TileView(RIGHT)] = LAST
        right: pl.Tile[[64, 32], pl.FP16, pl.MemRef(rm, pl.const(0, pl.INT64), 4096), pl.Mem.Right, pl.TileView(RIGHT)] = pl.tile.move(view, target_memory=pl.Mem.Right)
        c: pl.Tile[[16, 32], pl.FP32, pl.MemRef(am, pl.const(0, pl.INT64), 2048), pl.Mem.Acc, pl.TileView(blayout=pl.TileLayout.col_major, slayout=pl.TileLayout.row_major, fractal=1024)] = pl.tile.matmul(left, right)
        r: pl.Tensor[[16, 32], pl.FP32] = pl.tile.store(c, [0, 0], o)
"""  # noqa: E501


@pytest.mark.parametrize("turned", [False, True])
def test_rows_of_a_pool_become_a_factor(turned: bool) -> None:
    """32 rows, last to first, one after the other into boxes of 16 rows; transposed they are columns at once."""
    box, order = ("[64, 32]", ZN) if turned else ("[32, 64]", MAT)
    shape = f"pl.Tile[{box}, pl.FP16, pl.MemRef(mat, pl.const(4096, pl.INT64), 4096), pl.Mem.Mat, pl.TileView({order})]"
    text = POOL.replace("SHAPE", shape).replace("BOX", box).replace("TURNED", str(turned))
    text = text.replace("AT", "[0, i]" if turned else "[i, 0]").replace("NZ", MAT).replace("RIGHT", ZN)
    made = read_dump(text.replace("LAST", "rv" if turned else "pl.tile.transpose_view(rv)"))
    emitted = emit(made)["f"]
    unit = parse(emitted)
    assert not verify(unit)
    assert ("sizes [64, 16]" if turned else "sizes [16, 64]") in emitted
    assert ("layout = #pto.layout<dn>" in emitted) == turned
    q, pool, o = draw(16, 64).half(), draw(64, 64, seed=1).half(), torch.zeros(16, 32)
    assert execute(unit, "f", [q, pool, o]).findings == ()
    torch.testing.assert_close(o, q.float() @ pool.float().flip(0)[:32].T, rtol=1e-4, atol=1e-3)


# --- numbers from nothing, columns that compare -----------------------------------------------------------------------


def test_random_words_are_those_of_their_key_and_counter() -> None:
    body = f"""
t: {tile((8, 32), 0, "INT32")} = pl.tile.random(7, 11, 1, 2, 3, 4, [8, 32], dtype=pl.INT32, rounds=10)
r: {tensor((8, 32), "INT32")} = pl.tile.store(t, [0, 0], o)
"""
    out = f"o: pl.Out[{tensor((8, 32), 'INT32')}]"
    values = {"o": torch.zeros(8, 32, dtype=torch.int32)}
    text = runs_alike(program(body, out), dict(values))
    assert re.search(r"pto\.trandom ins\(%\w+(, %\w+){5} : i32, i32, i32, i32, i32, i32\)", text)
    other = emit(program(body.replace("random(7,", "random(8,"), out))["f"]
    first, second = values["o"].clone(), values["o"].clone()
    execute(parse(text), "f", [first])
    execute(parse(other), "f", [second])
    assert not torch.equal(first, second)
    assert len(first.unique()) > 250  # type: ignore[no-untyped-call]
    assert "rounds=7" in refused(program(body.replace("rounds=10", "rounds=7"), out))


@pytest.mark.parametrize(("mode", "word"), [(0, "eq"), (4, "gt"), (2, "lt")])
def test_columns_that_compare_true_are_listed_and_counted(mode: int, word: str) -> None:
    """Rows list columns as far as they have some; what lies behind is undefined, so it is masked before the store."""
    listed, counted = tile((8, 32), 4096, "INT32"), tile((1, 8), 8192, "INT32")
    body = f"""
a: {tile((8, 32), 0, "INT32")} = pl.tile.load(x, [0, 0], [8, 32], [8, 32], target_memory=pl.Mem.Vec)
w: {tile((8, 32), 1024, "INT32")} = pl.tile.create([8, 32], dtype=pl.INT32, target_memory=pl.Mem.Vec)
t: pl.Tuple[{listed}, {counted}] = pl.tile.gather_compare(a, 2, w, cmp_mode={mode}, offset=100, out_cols=32, count_dtype=pl.INT32)
i: {listed} = t[0]
c: {counted} = t[1]
r: {tensor((8, 32), "INT32")} = pl.tile.store(i, [0, 0], o)
s: {tensor((1, 8), "INT32")} = pl.tile.store(c, [0, 0], n)
"""  # noqa: E501
    out, counts = f"o: pl.Out[{tensor((8, 32), 'INT32')}]", f"n: pl.Out[{tensor((1, 8), 'INT32')}]"
    text = emit(program(body, f"x: {tensor((8, 32), 'INT32')}", out, counts))["f"]
    unit = parse(text)
    assert not verify(unit)
    assert f"{{cmpMode = #pto<cmp {word}>, offset = 100 : i32}}" in text
    x = torch.randint(0, 5, (8, 32), generator=torch.Generator().manual_seed(5)).int()
    o, n = torch.zeros(8, 32, dtype=torch.int32), torch.zeros(1, 8, dtype=torch.int32)
    execute(unit, "f", [x, o, n])
    hits = {"eq": x == 2, "gt": x > 2, "lt": x < 2}[word]
    assert n[0].tolist() == hits.sum(dim=1).tolist()
    for row in range(8):
        columns = hits[row].nonzero().flatten() + 100
        assert o[row, : len(columns)].tolist() == columns.tolist()


# --- events, caches, arrays -------------------------------------------------------------------------------------------


def test_events_barriers_and_caches_are_written_and_read_back() -> None:
    body = f"""
pl.system.set_ffts(w)
pl.system.sync_set(pipe=pl.PipeType.MTE3, event_id=3, ffts_mode=2)
pl.system.sync_wait(pipe=pl.PipeType.V, event_id=0)
pl.system.sync_wait(e, pipe=pl.PipeType.MTE2)
pl.system.fence()
pl.system.syncall(core_type="mix", mode="hard")
pl.system.cacheinvalid()
pl.system.cacheinvalid(x, [2, 8], [1, 0])
a: {tile((8, 32), 0)} = pl.tile.load(x, [0, 0], [8, 32], [8, 32], target_memory=pl.Mem.Vec)
r: {tensor((8, 32))} = pl.tile.store(a, [0, 0], o)
"""
    parameters = (
        f"x: {tensor((8, 32))}", f"w: {tensor((64,), 'INT64')}", f"o: pl.Out[{tensor((8, 32))}]",
        "e: pl.Scalar[pl.INDEX]",
    )  # fmt: skip
    text = emit(program(body, *parameters))["f"]
    unit = parse(text)
    assert not verify(unit)
    assert print_unit(unit) == text
    for line in (
        "pto.set_ffts %arg1 : !pto.ptr<i64>",
        "pto.sync.set <PIPE_MTE3>, 3 {ffts_mode = 2 : i32}",
        "pto.sync.wait <PIPE_V>, 0",
        "pto.sync.wait <PIPE_MTE2>, %arg3",
        "pto.fence.barrier_all #pto.fence_scope<gm>",
        "pto.syncall() mode = #pto.sync_all_mode<hard>, core_type = #pto.sync_core_type<mix>",
        "pto.cmo.cacheinvalid all #pto.address_space<gm>",
        "single_cache_line : !pto.partition_tensor_view<2x8xf32>",
    ):
        assert line in text
    assert "w_view" not in text  # reached by its address
    x, o = draw(8, 32), torch.zeros(8, 32)
    done = execute(unit, "f", [x, torch.zeros(64, dtype=torch.int64), o, 1])
    assert done.findings == ()
    assert torch.equal(o, x)
    assert any(what.startswith("pto.sync.set") for what in done.unmodelled)


def test_an_event_that_does_not_exist_is_refused() -> None:
    body = "pl.system.sync_set(pipe=pl.PipeType.MTE3, event_id=14)"
    assert "there is no event 14" in refused(program(body, f"o: pl.Out[{tensor((8, 32))}]"))


def test_arrays_are_changed_in_place_through_loops_and_branches() -> None:
    """Running sums of 0 to 7, doubled where they are even, then the last three of them added up."""
    body = f"""
a: pl.Array[8, pl.INT32] = pl.array.create(8, dtype=pl.INT32)
for i, (it, total) in pl.range(0, 8, 1, init_values=(a, pl.const(0, pl.INT32))):
    now: pl.Scalar[pl.INT32] = total + pl.cast(i, pl.INT32)
    if now % 2 == 0:
        twice: pl.Scalar[pl.INT32] = now * 2
        b: pl.Array[8, pl.INT32] = pl.array.update_element(it, i, twice)
        phi: pl.Array[8, pl.INT32] = pl.yield_(b)
    else:
        c: pl.Array[8, pl.INT32] = pl.array.update_element(it, i, now)
        phi: pl.Array[8, pl.INT32] = pl.yield_(c)
    rv, sums = pl.yield_(phi, now)
x: pl.Scalar[pl.INT32] = pl.array.get_element(rv, 7)
y: pl.Scalar[pl.INT32] = pl.array.get_element(rv, 6)
z: pl.Scalar[pl.INT32] = pl.array.get_element(rv, k)
r: {tensor((8,), "INT32")} = pl.tensor.write(o, [0], x + y + z)
"""
    parameters = (f"o: pl.Out[{tensor((8,), 'INT32')}]", "k: pl.Scalar[pl.INDEX]")
    text = emit(program(body, *parameters))["f"]
    unit = parse(text)
    assert not verify(unit)
    assert text.count("pto.declare_local_array -> !pto.local_array<8xi32>") == 1
    assert text.count("pto.local_array_set") == 2
    running = [0, 1, 3, 6, 10, 15, 21, 28]
    held = [2 * v if v % 2 == 0 else v for v in running]
    for k in (5, 0):
        o = torch.zeros(8, dtype=torch.int32)
        assert execute(unit, "f", [o, k]).findings == ()
        assert int(o[0]) == held[7] + held[6] + held[k]


def test_an_element_nobody_set_stops_the_run() -> None:
    body = f"""
a: pl.Array[4, pl.INT32] = pl.array.create(4, dtype=pl.INT32)
x: pl.Scalar[pl.INT32] = pl.array.get_element(a, 2)
r: {tensor((8,), "INT32")} = pl.tensor.write(o, [0], x)
"""
    text = emit(program(body, f"o: pl.Out[{tensor((8,), 'INT32')}]"))["f"]
    with pytest.raises(LabError, match="was never set"):
        execute(parse(text), "f", [torch.zeros(8, dtype=torch.int32)])
