"""Groups: cube and vector lanes over bounded pipes, splits, deadlocks, slots used after they were given back."""

from __future__ import annotations

import pytest
import torch

from pypto_lab.pto.dialect.types import TileType
from pypto_lab.pto.machine import ExecutionError, execute
from pypto_lab.pto.machine.arena import Cells
from pypto_lab.pto.machine.pipes import parts_of
from pypto_lab.pto.parse import read
from tests.pto.texts import DATA, Text, module, tile

ROWS, COLS = 32, 64
SLOT = ROWS * COLS * 4


def cube(split: int, pushes: int = 2, slots: int = 2) -> Text:
    """Pushes `pushes` tiles of the first argument, rows one after the other, to the vector side."""
    text = Text("f32", "f32", kind="cube", name="f_aic")
    text.raw('%ring = pto.import_reserved_buffer {name = "ring", peer_func = @f_aiv} -> i32')
    text.raw(
        f"pto.aic_initialize_pipe {{dir_mask = 1, slot_size = {SLOT}, slot_num = {slots}}} "
        f"(c2v_consumer_buf = %ring : i32, v2c_consumer_buf = %{text.c(0, 'i32')} : i32)"
    )
    acc = tile(ROWS, COLS, "f32", "acc", "acc")
    mat = tile(ROWS, COLS, "f32", "mat", "nz")
    for push in range(pushes):
        text.alloc(f"m{push}", mat, 0)
        text.op("tload", [text.window(0, (pushes * ROWS, COLS), (push * ROWS, 0), (ROWS, COLS))], [f"m{push}"])
        text.alloc(f"c{push}", acc, 0)
        text.op("tmov", [f"m{push}"], [f"c{push}"])
        text.line(f"pto.tpush_to_aiv(%c{push} : {acc}) {{split = {split}}}")
    return text


def vector(split: int, pops: int = 2, slots: int = 2, free: bool = True, late: bool = False) -> Text:
    """Pops, doubles and stores tiles; with `late` a tile is read after its slot was given back."""
    rows, cols = (ROWS // 2, COLS) if split == 1 else (ROWS, COLS // 2) if split == 2 else (ROWS, COLS)
    text = Text("f32", "f32", name="f_aiv")
    if split:
        text.extra_parameters = ["%__pypto_spmd_subblock_idx: i32"]
        text.raw("%lane = arith.index_cast %__pypto_spmd_subblock_idx : i32 to index")
    else:
        text.raw(f"%lane = arith.muli %{text.c(0)}, %{text.c(0)} : index")
    text.raw(
        f'%ring = pto.reserve_buffer {{name = "ring", size = {slots * SLOT}, location = #pto.address_space<vec>, '
        "auto = false, base = 0} -> i32",
        f"pto.aiv_initialize_pipe {{dir_mask = 1, slot_size = {SLOT}, slot_num = {slots}}} "
        f"(c2v_consumer_buf = %ring : i32, v2c_consumer_buf = %{text.c(0, 'i32')} : i32)",
    )
    half = tile(rows, cols)
    for pop in range(pops):
        text.line(f"%p{pop} = pto.tpop_from_aic {{split = {split}}} -> {half}")
        text.types[f"p{pop}"] = str(half)
        text.alloc(f"o{pop}", half, slots * SLOT)
        if late:
            text.line(f"pto.tfree_from_aic {{split = {split}}}")
        text.op("tadd", [f"p{pop}", f"p{pop}"], [f"o{pop}"])
        if free and not late:
            text.line(f"pto.tfree_from_aic {{split = {split}}}")
        row, column = f"r{pop}", f"q{pop}"
        text.raw(f"%{row}l = arith.muli %lane, %{text.c(rows if split == 1 else 0)} : index")
        text.raw(f"%{row} = arith.addi %{row}l, %{text.c(pop * ROWS)} : index")
        text.raw(f"%{column} = arith.muli %lane, %{text.c(cols if split == 2 else 0)} : index")
        text.op("tstore", [f"o{pop}"], [text.window(1, (pops * ROWS, COLS), (row, column), (rows, cols))])
    return text


def tensors(count: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(1)
    return torch.randn(count * ROWS, COLS, generator=g), torch.zeros(count * ROWS, COLS)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("split", [0, 1, 2])
def test_tiles_cross_whole_or_in_halves_in_any_order_of_lanes(split: int, seed: int) -> None:
    a, out = tensors(5)
    result = execute(module(cube(split, 5), vector(split, 5)), "group", [a, out], seed=seed)
    assert result.findings == (), [str(x) for x in result.findings]
    assert result.lanes == (("AIC", "AIV0", "AIV1") if split else ("AIC", "AIV0"))
    assert torch.equal(out, a + a)


def test_more_pops_than_pushes_deadlock_at_once_and_name_every_lane() -> None:
    out = torch.zeros(3 * ROWS, COLS)
    with pytest.raises(ExecutionError) as caught:
        execute(module(cube(0, 2), vector(0, 3)), "group", [torch.randn(2 * ROWS, COLS), out])
    found = caught.value.findings[-1]
    assert found.code == "E627"
    assert "AIV0 waits in pto.tpop_from_aic (kernel.py:" in found.message
    assert "cube to vector is empty" in found.message
    assert found.span is not None


def test_a_ring_that_is_never_freed_fills_up() -> None:
    a, out = tensors(3)
    with pytest.raises(ExecutionError) as caught:
        execute(module(cube(0, 3), vector(0, 3, free=False)), "group", [a, out])
    message = caught.value.findings[-1].message
    assert "AIC waits in pto.tpush_to_aiv" in message
    assert "all 2 slots" in message
    assert "AIV0 waits in pto.tpop_from_aic" in message


def test_slots_left_in_use_are_reported() -> None:
    a, out = tensors()
    result = execute(module(cube(0), vector(0, free=False)), "group", [a, out])
    assert [x.message for x in result.findings] == [
        "pipe 0, cube to vector: 2 slots of lane 0 were popped and never freed"
    ]
    assert not result.ok


def test_tiles_nobody_pops_are_reported() -> None:
    a, out = tensors()
    result = execute(module(cube(0, 2), vector(0, 1)), "group", [a, out[:ROWS]])
    assert any("1 tiles of lane 0 were pushed (kernel.py:" in x.message for x in result.findings)


def test_a_tile_read_after_its_slot_was_given_back() -> None:
    a, out = tensors()
    result = execute(module(cube(0), vector(0, late=True)), "group", [a, out])
    reached = [x for x in result.findings if x.code == "E621"]
    assert reached
    assert "slot 0 of pipe 0, cube to vector was given back at kernel.py:" in reached[0].message


def test_freeing_more_than_was_popped_stops_the_run() -> None:
    a, out = tensors(1)
    text = vector(0, 1)
    text.line("pto.tfree_from_aic {split = 0}")
    with pytest.raises(ExecutionError) as caught:
        execute(module(cube(0, 1), text), "group", [a, out])
    assert "no popped tile is left to free" in caught.value.findings[-1].message


def test_both_sides_agree_on_their_slots() -> None:
    a, out = tensors()
    with pytest.raises(ExecutionError) as caught:
        execute(module(cube(0, slots=3), vector(0, slots=2)), "group", [a, out])
    assert "one side sets up 3 slots" in caught.value.findings[-1].message


def test_a_pop_with_another_split_than_the_push_stops_the_run() -> None:
    a, out = tensors()
    with pytest.raises(ExecutionError) as caught:
        execute(module(cube(1), vector(2)), "group", [a, out])
    assert "pops with split 2 what kernel.py:" in caught.value.findings[-1].message


def test_a_buffer_nobody_reserves() -> None:
    a, out = tensors()
    text = module(cube(0), vector(0)).replace('{name = "ring", peer_func', '{name = "rung", peer_func')
    with pytest.raises(ExecutionError) as caught:
        execute(text, "group", [a, out])
    assert "@f_aiv reserves no buffer `rung`" in caught.value.findings[-1].message


def test_a_tile_that_lies_in_the_ring_is_reported() -> None:
    a, out = tensors()
    text = vector(0)
    text.alloc("inside", tile(8, 8), SLOT)
    result = execute(module(cube(0), text), "group", [a, out])
    assert [x.code for x in result.findings] == ["E632"]
    assert "%inside lies in the slots of `ring` (vec 0..16384)" in result.findings[0].message


@pytest.mark.parametrize("split", [1, 2, 3, 4])
@pytest.mark.parametrize("valid", [32, 17, 1])
def test_halves_cover_every_valid_element_once(split: int, valid: int) -> None:
    data = torch.arange(32 * 32, dtype=torch.float32).reshape(32, 32)
    axis = 0 if split in (1, 3) else 1
    extents = (valid, 32) if axis == 0 else (32, valid)
    (first, a), (second, b) = parts_of(Cells(data), extents, split)
    joined = torch.cat([first.data[: a[0], : a[1]], second.data[: b[0], : b[1]]], dim=axis)
    assert torch.equal(joined, data[: extents[0], : extents[1]])
    if split >= 3:
        assert a[axis] - b[axis] == valid % 2


def test_a_compiled_group_in_both_directions_with_an_idle_lane() -> None:
    """32 x 32 tiles go to the cube and back; lane 1 takes part with empty tiles."""
    g = torch.Generator().manual_seed(0)
    a, w = torch.randn(64, 32, generator=g).half(), torch.randn(32, 32, generator=g).half()
    y = torch.zeros(64, 32)
    result = execute(read(DATA / "trip.pto"), "trip", [a, w, y, torch.zeros(1)], seed=3)
    assert result.findings == ()
    assert result.lanes == ("AIC", "AIV0", "AIV1")
    expected = torch.cat([((a[r : r + 32] + 1.0) @ w.float().half()).float() * 0.5 for r in (0, 32)])
    exact = torch.cat([(a[r : r + 32] + 1.0).float() @ w.float() * 0.5 for r in (0, 32)])
    assert torch.allclose(y, exact, rtol=1e-5, atol=1e-5)
    assert torch.allclose(y, expected, rtol=1e-1, atol=1e-1)


def test_barriers_of_all_cores_let_blocks_wait_for_each_other() -> None:
    """Each block writes its row, meets the others, then adds up what all of them wrote."""
    text = Text("f32", "f32")
    text.extra_parameters = ["%__pypto_spmd_block_idx: i32", "%__pypto_spmd_block_num: i32"]
    text.raw("%b = arith.index_cast %__pypto_spmd_block_idx : i32 to index")
    text.raw("%one = arith.sitofp %__pypto_spmd_block_idx : i32 to f32")
    text.types["one"] = "f32"
    text.alloc("mine", tile(1, 32), 0)
    text.op("texpands", ["one"], ["mine"])
    text.op("tstore", ["mine"], [text.window(0, (4, 32), ("b", 0), (1, 32))])
    text.raw("pto.syncall() mode = #pto.sync_all_mode<hard>, core_type = #pto.sync_core_type<mix>")
    text.alloc("all", tile(4, 32), 1024)
    text.load("all", 0, (4, 32))
    text.alloc("sum", tile(1, 32), 4096)
    text.op("tcolsum", ["all"], ["sum"])
    text.op("tstore", ["sum"], [text.window(1, (4, 32), ("b", 0), (1, 32))])
    shared, out = torch.full((4, 32), 100.0), torch.zeros(4, 32)
    result = execute(text.text(), "f", [shared, out], block_num=4)
    assert result.ok
    assert bool((out == 6).all())


# --- lanes that write the same elements ------------------------------------------------------------------------------


def both_store(number: str, *, at: str = "here", through: str = "") -> str:
    """Every vector lane stores a tile of `number` (by lane where that is the lane's) to the same rows."""
    text = Text("f32")
    text.extra_parameters = ["%__pypto_spmd_subblock_idx: i32"]
    text.raw(
        "%lane = arith.index_cast %__pypto_spmd_subblock_idx : i32 to index",
        "%f = arith.sitofp %__pypto_spmd_subblock_idx : i32 to f32",
        f"%apart = arith.muli %lane, %{text.c(8)} : index",
        f"%here = arith.muli %lane, %{text.c(0)} : index",
    )
    text.types["f"] = "f32"
    text.alloc("t", tile(8, 32), 0)
    text.op("texpands", ["f" if number == "lane" else text.c(number, "f32")], ["t"])
    if through:
        text.raw(through)
    text.op("tstore", ["t"], [text.window(0, (16, 32), (at, 0), (8, 32))])
    return text.text()


def test_lanes_that_write_different_numbers_to_one_place_race() -> None:
    result = execute(both_store("lane"), "f", [torch.zeros(16, 32)])
    assert [x.code for x in result.findings] == ["E626"]
    assert "lanes AIV0 (kernel.py:" in result.findings[0].message
    assert "and AIV1 both write elements of %arg0" in result.findings[0].message


def test_lanes_that_write_the_same_numbers_or_elsewhere_do_not_race() -> None:
    assert execute(both_store("2.0"), "f", [torch.zeros(16, 32)]).findings == ()
    assert execute(both_store("lane", at="apart"), "f", [torch.zeros(16, 32)]).findings == ()


def test_a_barrier_orders_what_lanes_write() -> None:
    """Lane 0 writes before it, lane 1 after it."""
    text = both_store("lane")
    store = next(line for line in text.splitlines() if "pto.tstore" in line)
    split = (
        "%first = arith.constant 0 : index\n"
        "%is_first = arith.cmpi eq, %lane, %first : index\n"
        f"scf.if %is_first {{\n{store}\n}}\n"
        "pto.syncall() mode = #pto.sync_all_mode<hard>, core_type = #pto.sync_core_type<mix>\n"
        "%other = arith.cmpi ne, %lane, %first : index\n"
        f"scf.if %other {{\n{store}\n}}"
    )
    out = torch.zeros(16, 32)
    ordered = execute(text.replace(store, split), "f", [out], verify=False)
    assert [x.code for x in ordered.findings] == []
    assert bool((out[:8] == 1).all())
    loose = split.replace("pto.syncall() mode = #pto.sync_all_mode<hard>, core_type = #pto.sync_core_type<mix>\n", "")
    assert [x.code for x in execute(text.replace(store, loose), "f", [out]).findings] == ["E626"]


def test_a_tile_that_crosses_orders_what_was_stored_before() -> None:
    """The cube stores after it has popped what a lane pushed after its own store: they do not race."""
    shared = tile(ROWS, COLS, "f32", "mat", "nz")
    slots = "(c2v_consumer_buf = %{0} : i32, v2c_consumer_buf = %ring : i32)"
    aiv = Text("f32", name="f_aiv")
    aiv.raw(
        '%ring = pto.import_reserved_buffer {name = "ring", peer_func = @f_aic} -> i32',
        f"pto.aiv_initialize_pipe {{dir_mask = 2, slot_size = {SLOT}, slot_num = 2}} " + slots.format(aiv.c(0, "i32")),
    )
    aiv.alloc("t", tile(ROWS, COLS), 0)
    aiv.op("texpands", [aiv.c("1.0", "f32")], ["t"])
    store = [aiv.window(0, (ROWS, COLS))]
    aiv.op("tstore", ["t"], store)
    aiv.line(f"pto.tpush_to_aic(%t : {tile(ROWS, COLS)}) {{split = 0}}")
    aic = Text("f32", kind="cube", name="f_aic")
    aic.raw(
        f'%ring = pto.reserve_buffer {{name = "ring", size = {2 * SLOT}, location = #pto.address_space<mat>, '
        "auto = false, base = 0} -> i32",
        f"pto.aic_initialize_pipe {{dir_mask = 2, slot_size = {SLOT}, slot_num = 2}} " + slots.format(aic.c(0, "i32")),
    )
    aic.line(f"%p = pto.tpop_from_aiv {{split = 0}} -> {shared}")
    aic.types["p"] = str(shared)
    acc = tile(ROWS, COLS, "f32", "acc", "acc")
    aic.alloc("a", acc, 0)
    aic.op("tmov", ["p"], ["a"])
    aic.line("pto.tfree_from_aiv {split = 0}")
    aic.op("tstore", ["a"], [aic.window(0, (ROWS, COLS))])
    out = torch.zeros(ROWS, COLS)
    result = execute(module(aic, aiv), "group", [out], verify=False)
    assert result.findings == (), [str(x) for x in result.findings]
    assert bool((out == 1).all())


# --- what a pop and a free say about the push -------------------------------------------------------------------------


def test_a_free_with_another_split_than_its_pop_stops_the_run() -> None:
    a, out = tensors()
    text = module(cube(1), vector(1)).replace("pto.tfree_from_aic {split = 1}", "pto.tfree_from_aic {split = 2}", 1)
    with pytest.raises(ExecutionError) as caught:
        execute(text, "group", [a, out])
    assert caught.value.findings[-1].message.endswith("frees with split 2 what was popped with split 1")


def popped_as(type_: TileType, valid: tuple[int, int] | None = None) -> str:
    """One tile of 32 x 64 FP32 elements is pushed and popped as another type, with extents of its own."""
    consumer = Text("f32", "f32", name="f_aiv")
    consumer.raw(
        f'%ring = pto.reserve_buffer {{name = "ring", size = {2 * SLOT}, location = #pto.address_space<vec>, '
        "auto = false, base = 0} -> i32",
        f"pto.aiv_initialize_pipe {{dir_mask = 1, slot_size = {SLOT}, slot_num = 2}} "
        f"(c2v_consumer_buf = %ring : i32, v2c_consumer_buf = %{consumer.c(0, 'i32')} : i32)",
    )
    extents = "" if valid is None else f"(%{consumer.c(valid[0])}, %{consumer.c(valid[1])})"
    consumer.line(f"%p = pto.tpop_from_aic{extents} {{split = 0}} -> {type_}")
    consumer.line("pto.tfree_from_aic {split = 0}")
    return module(cube(0, pushes=1), consumer)


@pytest.mark.parametrize(
    ("type_", "code", "message"),
    [
        (tile(ROWS, COLS, "i32"), "E630", "pops as i32 what was pushed at kernel.py:"),
        (tile(ROWS // 2, COLS), "E625", "%p is 16 x 64, but 32 x 64 valid elements were pushed"),
    ],
)
def test_a_pop_takes_the_type_and_the_elements_that_were_pushed(type_: TileType, code: str, message: str) -> None:
    found = execute(popped_as(type_), "group", [*tensors(1)]).findings
    assert [f.code for f in found] == [code]
    assert message in found[0].message


@pytest.mark.parametrize("valid", [(ROWS, COLS), (5, COLS), (0, 0)])
def test_a_pop_may_take_fewer_elements_than_were_pushed(valid: tuple[int, int]) -> None:
    assert execute(popped_as(tile(ROWS, COLS), valid), "group", [*tensors(1)]).findings == ()


def test_a_pop_with_more_valid_elements_than_were_pushed_is_reported() -> None:
    """The push is told that 20 rows are valid, the pop says 32."""
    text = cube(0, pushes=1)
    place = next(i for i, line in enumerate(text.lines) if "tpush_to_aiv" in line)
    narrow = f"pto.set_validshape %c0, %{text.c(20)}, %{text.c(COLS)} : {tile(ROWS, COLS, 'f32', 'acc', 'acc')}"
    text.lines.insert(place, narrow)
    group = module(text, vector(0, pops=1))
    messages = [f.message for f in execute(group, "group", [*tensors(1)]).findings]
    assert any(m.startswith("%p0 has 32 x 64 valid elements, but 20 x 64 were pushed at ") for m in messages)


# --- slots in global memory -------------------------------------------------------------------------------------------


def through_memory(starts: tuple[int, int] = (0, 0)) -> str:
    """The group of `cube` and `vector` with its slots in the third argument, from an element on that each side says."""
    made = []
    for text, start in ((cube(0), starts[0]), (vector(0), starts[1])):
        text.pointers = (*text.pointers, "f32")
        name = text.c(start)
        where = next(i for i, line in enumerate(text.lines) if "initialize_pipe" in line)
        text.lines[where] = text.lines[where].replace("(c2v", "(gm_slot_buffer = %slots : !pto.ptr<f32>, c2v")
        text.lines.insert(where, f"%slots = pto.addptr %arg2, %{name} : <f32> -> <f32>")
        made.append(text)
    return module(*made)


@pytest.mark.parametrize(("elements", "fits"), [(2 * SLOT // 4, True), (2 * SLOT // 4 - 8, False), (1, True)])
def test_slots_in_global_memory_fit_their_buffer(elements: int, fits: bool) -> None:
    """Two slots of 8192 bytes; a buffer of one element is a placeholder that says nothing about its size."""
    a, out = tensors()
    result = execute(through_memory(), "group", [a, out, torch.zeros(elements)])
    assert torch.equal(out, 2 * a)
    assert [f.code for f in result.findings] == ([] if fits else ["E628", "E628"])
    if not fits:
        assert "bytes 0..16384 of %arg2, which has 16352 for each block" in result.findings[0].message


def test_both_sides_have_their_slots_in_the_same_place_of_global_memory() -> None:
    a, out = tensors()
    with pytest.raises(ExecutionError) as caught:
        execute(through_memory((0, 64)), "group", [a, out, torch.zeros(SLOT)])
    assert "has its slots at byte" in caught.value.findings[-1].message


@pytest.mark.parametrize(("start", "apart"), [(SLOT // 2, True), (SLOT // 4, False), (0, False)])
def test_pipes_have_slots_of_their_own_in_global_memory(start: int, apart: bool) -> None:
    """A second pipe of two slots behind the first one's 16384 bytes, or over them."""
    text = through_memory()
    second = "dir_mask = 1, slot_size = 8192, slot_num = 2"
    lines = []
    for line in text.splitlines():
        lines.append(line)
        if "initialize_pipe {" in line:
            other = line.replace(second, f"id = 1, {second}").replace("%slots", "%more")
            constant = f"%far = arith.constant {start} : index"
            lines += [constant, "%more = pto.addptr %arg2, %far : <f32> -> <f32>", other]
    a, out = tensors()
    result = execute("\n".join(lines), "group", [a, out, torch.zeros(SLOT)])
    assert torch.equal(out, 2 * a)
    found = [f.message for f in result.findings]
    assert bool(found) != apart
    assert all("they share some" in message for message in found)
