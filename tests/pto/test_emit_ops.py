"""Emission op by op: small functions with addresses, run from their text and by the torch script of the same IR."""

from __future__ import annotations

import pytest
import torch

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.pto.dialect.verify import verify
from pypto_lab.pto.emit import emit
from pypto_lab.pto.machine import execute
from pypto_lab.pto.parse import parse
from pypto_lab.torch_codegen.execute import run

HEAD = """# pypto.program: P
import pypto.language as pl

@pl.program
class P:
    @pl.function(type=pl.FunctionType.AIV)
"""
ROW = "blayout=pl.TileLayout.row_major, slayout=pl.TileLayout.none_box, fractal=512"
COLUMN = "blayout=pl.TileLayout.col_major, slayout=pl.TileLayout.none_box, fractal=512"


def tensor(shape: tuple[int, ...], dtype: str = "FP32") -> str:
    return f"pl.Tensor[{list(shape)}, pl.{dtype}]"


def tile(shape: tuple[int, int], address: int, dtype: str = "FP32", view: str = ROW) -> str:
    size = shape[0] * shape[1] * {"FP32": 4, "INT32": 4, "UINT32": 4, "INT16": 2, "FP16": 2, "UINT8": 1}[dtype]
    place = f"pl.MemRef(mem, pl.const({address}, pl.INT64), {size})"
    return f"pl.Tile[{list(shape)}, pl.{dtype}, {place}, pl.Mem.Vec, pl.TileView({view})]"


def program(body: str, *params: str, returns: str = "") -> n.Program:
    lines = ["mem: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 65536)", *body.strip().splitlines()]
    return read_dump(
        HEAD + f"    def f({', '.join(params)}):\n" + "\n".join(f"        {line}" for line in lines) + "\n"
    )


def runs_alike(made: n.Program, values: dict[str, object], outputs: tuple[str, ...] = ("o",)) -> str:
    """The emitted text is valid and computes, in every output, what the torch script of the IR does."""
    text = emit(made)["f"]
    unit = parse(text)
    assert not verify(unit), [d.message for d in verify(unit)]
    expected = run(made, values).outputs
    copies = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in values.items()}
    ordered = [v for v in copies.values() if isinstance(v, torch.Tensor)]
    ordered += [v for v in copies.values() if not isinstance(v, torch.Tensor)]  # type: ignore[misc]
    result = execute(unit, "f", ordered)
    assert result.ok, [str(f) for f in result.findings]
    for name in outputs:
        actual = copies[name]
        assert isinstance(actual, torch.Tensor)
        torch.testing.assert_close(actual, expected[name], rtol=1e-6, atol=1e-6)
    return text


def refused(made: n.Program) -> str:
    with pytest.raises(LabError) as error:
        emit(made)
    found = error.value.diagnostics[0]
    assert found.code == "E610"
    assert found.span is not None
    return found.message


def numbers(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    made = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3
    return made.to(dtype) if dtype.is_floating_point else (made * 5).to(dtype)


LOADED = f"""
a: {tile((8, 32), 0)} = pl.tile.load(x, [0, 0], [8, 32], [8, 32], target_memory=pl.Mem.Vec)
b: {tile((8, 32), 1024)} = pl.tile.load(y, [0, 0], [8, 32], [8, 32], target_memory=pl.Mem.Vec)
"""
PAIR = (f"x: {tensor((8, 32))}", f"y: {tensor((8, 32))}", f"o: pl.Out[{tensor((8, 32))}]")


def loaded(line: str, result: str = tile((8, 32), 2048), *more: str) -> n.Program:
    """Two tiles, one op on them, its result stored."""
    body = LOADED + f"t: {result} = {line}\n" + "\n".join(more) + "\ns: pl.Tensor[[8, 32], pl.FP32] = "
    return program(body + "pl.tile.store(t, [0, 0], o)\nreturn o", *PAIR)


def pair() -> dict[str, object]:
    return {"x": numbers(8, 32), "y": numbers(8, 32, seed=1), "o": torch.zeros(8, 32)}


@pytest.mark.parametrize(
    "line",
    [
        "pl.tile.add(a, b)", "pl.tile.sub(a, b)", "pl.tile.mul(a, b)", "pl.tile.div(a, b)", "pl.tile.maximum(a, b)",
        "pl.tile.minimum(b, a)", "pl.tile.part_add(a, b)", "pl.tile.part_max(a, b)", "pl.tile.adds(a, 1.5)",
        "pl.tile.subs(a, 1.5)", "pl.tile.muls(a, -2.0)", "pl.tile.divs(a, 4.0)", "pl.tile.maximums(a, 0.5)",
        "pl.tile.minimums(a, 0.5)", "pl.tile.neg(a)", "pl.tile.abs(a)", "pl.tile.exp(a)", "pl.tile.relu(a)",
        "pl.tile.recip(b)", "pl.tile.lrelu(a, 0.25)", "pl.tile.addc(a, b, a)", "pl.tile.subc(a, b, b)",
        "pl.tile.addsc(a, 2.0, b)", "pl.tile.subsc(a, 2.0, b)", "pl.tile.move(a, target_memory=pl.Mem.Vec)",
        "pl.tile.full([8, 32], dtype=pl.FP32, value=-2.5)",
    ],
)  # fmt: skip
def test_regular_ops_take_their_arguments_in_order(line: str) -> None:
    runs_alike(loaded(line), pair())


@pytest.mark.parametrize("op", ["row_sum", "row_max", "row_min"])
@pytest.mark.parametrize("spread", ["row_expand_sub", "row_expand_div", "row_expand_mul", "row_expand_add"])
def test_row_reductions_and_expansions_by_a_column(op: str, spread: str) -> None:
    body = (
        LOADED
        + f"""
tmp: {tile((8, 32), 4096)} = pl.tile.create([8, 32], dtype=pl.FP32, target_memory=pl.Mem.Vec)
c: {tile((8, 1), 8192, view=COLUMN)} = pl.tile.{op}(a, tmp)
t: {tile((8, 32), 2048)} = pl.tile.{spread}(b, c)
s: pl.Tensor[[8, 32], pl.FP32] = pl.tile.store(t, [0, 0], o)
return o
"""
    )
    runs_alike(program(body, *PAIR), pair())


@pytest.mark.parametrize("op", ["col_sum", "col_max", "col_min"])
@pytest.mark.parametrize("spread", ["col_expand_sub(b, c)", "col_expand_mul(b, c)", "col_expand(b, c)"])
def test_column_reductions_and_expansions_by_a_row(op: str, spread: str) -> None:
    body = (
        LOADED
        + f"""
c: {tile((1, 32), 8192)} = pl.tile.{op}(a)
t: {tile((8, 32), 2048)} = pl.tile.{spread}
s: pl.Tensor[[8, 32], pl.FP32] = pl.tile.store(t, [0, 0], o)
return o
"""
    )
    runs_alike(program(body, *PAIR), pair())


def test_scalars_of_bit_operations_are_narrowed_to_i32() -> None:
    params = [f"x: {tensor((8, 32), 'INT32')}", "k: pl.Scalar[pl.INDEX]", f"o: pl.Out[{tensor((8, 32), 'INT32')}]"]
    body = f"""
a: {tile((8, 32), 0, "INT32")} = pl.tile.load(x, [0, 0], [8, 32], [8, 32], target_memory=pl.Mem.Vec)
b: {tile((8, 32), 1024, "INT32")} = pl.tile.shls(a, k)
c: {tile((8, 32), 2048, "INT32")} = pl.tile.ors(b, 5)
s: pl.Tensor[[8, 32], pl.INT32] = pl.tile.store(c, [0, 0], o)
return o
"""
    values = {"x": numbers(8, 32, dtype=torch.int32), "k": 3, "o": torch.zeros(8, 32, dtype=torch.int32)}
    text = runs_alike(program(body, *params), values)
    assert "arith.index_cast %arg2 : index to i32" in text


@pytest.mark.parametrize(
    ("mode", "word"), [("rint", "RINT"), ("round", "ROUND"), ("floor", "FLOOR"), ("trunc", "TRUNC")]
)
def test_casts_round_as_they_say(mode: str, word: str) -> None:
    params = [f"x: {tensor((8, 32))}", f"o: pl.Out[{tensor((8, 32), 'INT32')}]"]
    body = f"""
a: {tile((8, 32), 0)} = pl.tile.load(x, [0, 0], [8, 32], [8, 32], target_memory=pl.Mem.Vec)
b: {tile((8, 32), 1024, "INT32")} = pl.tile.cast(a, target_type=pl.INT32, mode='{mode}')
s: pl.Tensor[[8, 32], pl.INT32] = pl.tile.store(b, [0, 0], o)
return o
"""
    halves = torch.arange(-128, 128).reshape(8, 32) / 2
    text = runs_alike(program(body, *params), {"x": halves, "o": torch.zeros(8, 32, dtype=torch.int32)})
    assert f"{{rmode = #pto<round_mode {word}>}}" in text


# --- windows and scalars ----------------------------------------------------------------------------------------------


def test_a_part_that_is_valid_is_what_is_loaded_and_stored() -> None:
    params = [f"x: {tensor((16, 32))}", "r: pl.Scalar[pl.INDEX]", f"o: pl.Out[{tensor((16, 32))}]"]
    view = f"valid_shape=[r, 24], {ROW}"
    body = f"""
a: {tile((8, 32), 0, view=view)} = pl.tile.load(x, [r, 8], [8, 32], [r, 24], target_memory=pl.Mem.Vec)
b: {tile((8, 32), 1024, view=view)} = pl.tile.muls(a, 2.0)
s: pl.Tensor[[16, 32], pl.FP32] = pl.tile.store(b, [r + 1, 0], o)
return o
"""
    values = {"x": numbers(16, 32), "r": 5, "o": torch.full((16, 32), 7.0)}
    text = runs_alike(program(body, *params), values)
    assert "!pto.partition_tensor_view<?x24xf32>" in text
    assert "arith.maxsi %arg2, %c0_index" in text


def test_sizes_of_a_stored_matrix_say_nothing_beside_what_is_valid() -> None:
    body = f"""
a: {tile((8, 32), 0, view=ROW + ", valid_shape=[5, 32]")} = pl.tile.load(x, [0, 0], [8, 32], [5, 32], target_memory=pl.Mem.Vec)
s: {tensor((8, 32))} = pl.tile.store(a, [0, 0], o, [8, 32])
"""  # noqa: E501
    made = program(body, f"x: {tensor((8, 32))}", f"o: pl.Out[{tensor((8, 32))}]")
    text = runs_alike(made, {"x": numbers(8, 32), "o": torch.zeros(8, 32)})
    assert "!pto.partition_tensor_view<5x32xf32>)" in text.split("pto.tstore")[1]


def test_column_vectors_are_viewed_column_after_column() -> None:
    params = [f"x: {tensor((16, 1))}", f"o: pl.Out[{tensor((16, 1))}]"]
    body = f"""
a: {tile((16, 1), 0, view=COLUMN)} = pl.tile.load(x, [0, 0], [16, 1], [16, 1], target_memory=pl.Mem.Vec)
s: pl.Tensor[[16, 1], pl.FP32] = pl.tile.store(a, [0, 0], o)
return o
"""
    text = runs_alike(program(body, *params), {"x": numbers(16, 1), "o": torch.zeros(16, 1)})
    assert "strides = [%c1_index, %c16_index] {layout = #pto.layout<dn>}" in text


def test_a_slice_is_a_window_of_its_source() -> None:
    body = f"""
a: {tile((8, 32), 0)} = pl.tile.load(x, [0, 0], [8, 32], [8, 32], target_memory=pl.Mem.Vec)
w: {tile((4, 16), 528)} = pl.tile.slice(a, [4, 16], [4, 4])
t: {tile((4, 16), 2048)} = pl.tile.adds(w, 1.0)
s: pl.Tensor[[8, 32], pl.FP32] = pl.tile.store(t, [2, 8], o)
return o
"""
    text = runs_alike(program(body, f"x: {tensor((8, 32))}", f"o: pl.Out[{tensor((8, 32))}]"), {
        "x": numbers(8, 32), "o": torch.zeros(8, 32),
    })  # fmt: skip
    assert "pto.subview %a[%c4_index, %c4_index] sizes [4, 16]" in text


def test_extents_are_changed_in_place_only_when_nobody_needs_the_old_ones() -> None:
    view = f"valid_shape=[4, 16], {ROW}"
    change = f"p: {tile((8, 32), 0, view=view)} = pl.tile.set_validshape(a, 4, 16)"
    store = "s: pl.Tensor[[8, 32], pl.FP32] = pl.tile.store({}, [0, 0], o)"
    head = f"a: {tile((8, 32), 0)} = pl.tile.load(x, [0, 0], [8, 32], [8, 32], target_memory=pl.Mem.Vec)"
    params = [f"x: {tensor((8, 32))}", f"o: pl.Out[{tensor((8, 32))}]", f"q: pl.Out[{tensor((8, 32))}]"]
    values = {"x": numbers(8, 32), "o": torch.zeros(8, 32), "q": torch.zeros(8, 32)}
    once = program("\n".join([head, change, store.format("p"), "return o"]), *params)
    assert "pto.set_validshape %a," in runs_alike(once, values)
    later = "z: pl.Tensor[[8, 32], pl.FP32] = pl.tile.store(a, [0, 0], q)"
    twice = program("\n".join([head, change, store.format("p"), later, "return o, q"]), *params)
    assert "pto.set_validshape" not in runs_alike(twice, values, ("o", "q"))


SCALAR_CASES = [
    "i + 3", "i - j", "i * j", "i // 4", "i % 5", "pl.min(i, j)", "pl.max(i, j)", "(i + j) * 2 - 1",
]  # fmt: skip


@pytest.mark.parametrize("text", SCALAR_CASES)
@pytest.mark.parametrize(("i", "j"), [(0, 1), (7, 3), (13, 29)])
def test_index_arithmetic(text: str, i: int, j: int) -> None:
    params = ["i: pl.Scalar[pl.INDEX]", "j: pl.Scalar[pl.INDEX]", f"o: pl.InOut[{tensor((1, 8), 'INT32')}]"]
    made = program(
        f"v: pl.Scalar[pl.INDEX] = {text}\npl.tensor.write(o, [0, 3], pl.cast(v, pl.INT32))\nreturn o", *params
    )
    unit = parse(emit(made)["f"])
    out = torch.zeros(1, 8, dtype=torch.int32)
    assert execute(unit, "f", [out, i, j]).ok
    wanted = eval(text.replace("pl.", ""), {"min": min, "max": max, "i": i, "j": j})
    assert out[0, 3] == wanted
    assert out.count_nonzero() == (wanted != 0)


@pytest.mark.parametrize("condition", ["i < j", "i >= j", "i == 3", "i != j and j > 2", "not i <= j"])
@pytest.mark.parametrize(("i", "j"), [(3, 3), (3, 5), (6, 1)])
def test_conditions_choose_the_branch(condition: str, i: int, j: int) -> None:
    params = ["i: pl.Scalar[pl.INDEX]", "j: pl.Scalar[pl.INDEX]", f"o: pl.InOut[{tensor((1, 8), 'INT32')}]"]
    body = f"""
if {condition}:
    v: pl.Scalar[pl.INDEX] = i + 10
    r = pl.yield_(v)
else:
    w: pl.Scalar[pl.INDEX] = j + 50
    r = pl.yield_(w)
pl.tensor.write(o, [0, 1], pl.cast(r, pl.INT32))
return o
"""
    out = torch.zeros(1, 8, dtype=torch.int32)
    assert execute(parse(emit(program(body, *params))["f"]), "f", [out, i, j]).ok
    assert out[0, 1] == (i + 10 if eval(condition, {"i": i, "j": j}) else j + 50)


def test_loops_carry_scalars_and_tiles_keep_their_place() -> None:
    body = f"""
a: {tile((8, 32), 0)} = pl.tile.load(x, [0, 0], [8, 32], [8, 32], target_memory=pl.Mem.Vec)
for k, (n1, a1) in pl.range(1, 4, init_values=(0, a)):
    a2: {tile((8, 32), 0)} = pl.tile.adds(a1, 1.0)
    n3, a3 = pl.yield_(n1 + k, a2)
s: pl.Tensor[[16, 32], pl.FP32] = pl.tile.store(a3, [n3, 0], o)
return o
"""
    params = [f"x: {tensor((8, 32))}", f"o: pl.Out[{tensor((16, 32))}]"]
    text = runs_alike(program(body, *params), {"x": numbers(8, 32), "o": torch.zeros(16, 32)})
    assert "iter_args(" in text
    assert "pto.tmov" not in text


# --- what is refused --------------------------------------------------------------------------------------------------


def test_an_op_without_a_form_is_refused_by_name_function_and_line() -> None:
    message = refused(loaded("pl.tile.aiv_shard(a, split=1)"))
    assert message.startswith("tile.aiv_shard: this op has no form")
    assert "in f (line " in message


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("pl.tile.load(x, [-1, 0], [8, 32], [8, 32], target_memory=pl.Mem.Vec)", "offset -1 lies before"),
        ("pl.tile.load(x, [4, 0], [8, 32], [8, 32], target_memory=pl.Mem.Vec)", "4 to 12 lies outside"),
        ("pl.tile.load(x, [0, 0], [4, 32], [4, 32], target_memory=pl.Mem.Vec)", "4, but valid in the tile: 8"),
        ("pl.tile.slice(a, [8, 32], [1, 0])", "1 to 9 lies outside a tile of 8"),
    ],
)  # fmt: skip
def test_a_window_outside_its_source_is_refused(line: str, words: str) -> None:
    assert words in refused(loaded(line))


def test_a_move_to_its_own_address_is_refused() -> None:
    assert "its own address" in refused(loaded("pl.tile.move(a, target_memory=pl.Mem.Vec)", tile((8, 32), 0)))


def test_a_tile_without_an_address_is_refused() -> None:
    plain = f"pl.Tile[[8, 32], pl.FP32, pl.Mem.Vec, pl.TileView({ROW})]"
    assert "`t` has no address" in refused(loaded("pl.tile.add(a, b)", plain))


def test_a_view_that_names_other_bytes_is_refused() -> None:
    assert "names other bytes" in refused(loaded("pl.tile.reshape(a, [8, 32])"))
    assert "names bytes elsewhere" in refused(loaded("a"))


def test_a_return_that_leaves_statements_behind_is_refused() -> None:
    body = "if i < 3:\n    return o\npl.tensor.write(o, [0, 0], 1.0)\nreturn o"
    assert "leaves statements behind" in refused(
        program(body, "i: pl.Scalar[pl.INDEX]", f"o: pl.Out[{tensor((1, 8))}]")
    )


def test_a_loop_that_carries_a_tile_over_bytes_in_use_is_refused() -> None:
    body = f"""
a: {tile((8, 32), 0)} = pl.tile.load(x, [0, 0], [8, 32], [8, 32], target_memory=pl.Mem.Vec)
for k, (a1,) in pl.range(0, 4, init_values=(a,)):
    c: {tile((8, 32), 512)} = pl.tile.full([8, 32], dtype=pl.FP32, value=1.0)
    a2: {tile((8, 32), 4096)} = pl.tile.add(a1, c)
    a3 = pl.yield_(a2)
s: pl.Tensor[[8, 32], pl.FP32] = pl.tile.store(a3, [0, 0], o)
return o
"""
    message = refused(program(body, f"x: {tensor((8, 32))}", f"o: pl.Out[{tensor((8, 32))}]"))
    assert "`a1` is carried at 0 and yielded at 4096, and 0 is in use" in message


def test_a_step_that_is_not_positive_is_refused() -> None:
    body = "for k in pl.range(8, 0, -1):\n    pl.tensor.write(o, [0, k], 1.0)\nreturn o"
    assert "steps are positive" in refused(program(body, f"o: pl.Out[{tensor((1, 8))}]"))


def test_tiles_that_change_places_in_a_loop_are_refused() -> None:
    body = f"""
{LOADED.strip()}
for k, (a1, b1) in pl.range(0, 3, init_values=(a, b)):
    a2, b2 = pl.yield_(b1, a1)
s: pl.Tensor[[8, 32], pl.FP32] = pl.tile.store(a2, [0, 0], o)
return o
"""
    assert "takes the place of" in refused(program(body, *PAIR))


# --- ops with their own spelling --------------------------------------------------------------------------------------


def test_a_tile_of_both_branches_lies_where_they_leave_it() -> None:
    body = (
        LOADED
        + f"""
if i < 3:
    t1: {tile((8, 32), 2048)} = pl.tile.add(a, b)
    t: {tile((8, 32), 2048)} = pl.yield_(t1)
else:
    t2: {tile((8, 32), 2048)} = pl.tile.sub(a, b)
    t: {tile((8, 32), 2048)} = pl.yield_(t2)
s: pl.Tensor[[8, 32], pl.FP32] = pl.tile.store(t, [0, 0], o)
return o
"""
    )
    made = program(body, *PAIR, "i: pl.Scalar[pl.INDEX]")
    for i in (1, 5):
        runs_alike(made, {**pair(), "i": i})
    elsewhere = program(
        body.replace("t2: " + tile((8, 32), 2048), "t2: " + tile((8, 32), 8192)), *PAIR, "i: pl.Scalar[pl.INDEX]"
    )
    assert "leaves `t` at another address" in refused(elsewhere)


def test_a_triangle_is_written_in_the_quoted_form() -> None:
    body = f"""
t: {tile((8, 32), 0)} = pl.tile.tri(1, [8, 32], dtype=pl.FP32, upper=True)
s: pl.Tensor[[8, 32], pl.FP32] = pl.tile.store(t, [0, 0], o)
return o
"""
    text = runs_alike(program(body, f"o: pl.Out[{tensor((8, 32))}]"), {"o": torch.zeros(8, 32)})
    assert '"pto.ttri"(' in text
    assert "{upperOrLower = 1 : i32}" in text


def test_elements_are_scattered_into_and_gathered_from_a_tensor_by_index() -> None:
    params = [
        f"x: {tensor((8, 32))}", f"y: {tensor((1, 16), 'INT32')}", f"o: pl.InOut[{tensor((8, 32))}]",
        f"q: pl.Out[{tensor((1, 16))}]",
    ]  # fmt: skip
    body = f"""
i: {tile((1, 16), 0, "INT32")} = pl.tile.load(y, [0, 0], [1, 16], [1, 16], target_memory=pl.Mem.Vec)
g: {tile((1, 16), 1024)} = pl.tile.mgather(x, i, coalesce=1, gather_oob=0)
r: pl.Tensor[[1, 16], pl.FP32] = pl.tile.store(g, [0, 0], q)
d: {tile((1, 16), 2048)} = pl.tile.muls(g, 2.0)
s: pl.Tensor[[8, 32], pl.FP32] = pl.tile.mscatter(d, i, o)
return o, q
"""
    index = torch.randperm(256, generator=torch.Generator().manual_seed(3))[:16].reshape(1, 16).to(torch.int32)
    values = {"x": numbers(8, 32), "y": index, "o": torch.zeros(8, 32), "q": torch.zeros(1, 16)}
    text = runs_alike(program(body, *params), values, ("o", "q"))
    assert "{coalesce = #pto<coalesce elem>}" in text


def test_two_sorted_runs_are_merged() -> None:
    """Entries are pairs of a value and an index; the counts of the device are an output nobody reads."""
    one, two = tile((1, 64), 0), tile((1, 64), 1024)
    params = [f"x: {tensor((1, 64))}", f"y: {tensor((1, 64))}", f"o: pl.Out[{tensor((1, 128))}]"]
    body = f"""
a: {one} = pl.tile.load(x, [0, 0], [1, 64], [1, 64], target_memory=pl.Mem.Vec)
b: {two} = pl.tile.load(y, [0, 0], [1, 64], [1, 64], target_memory=pl.Mem.Vec)
tmp: {tile((1, 128), 2048)} = pl.tile.create([1, 128], dtype=pl.FP32, target_memory=pl.Mem.Vec)
t: {tile((1, 128), 4096)} = pl.tile.mrgsort_format2(a, b, tmp, exhausted=False)
s: pl.Tensor[[1, 128], pl.FP32] = pl.tile.store(t, [0, 0], o)
return o
"""
    runs = []
    for seed in (0, 1):
        pairs = torch.zeros(32, 2)
        pairs[:, 0] = numbers(32, seed=seed).sort(descending=True).values
        runs.append(pairs.reshape(1, 64))
    text = runs_alike(program(body, *params), {"x": runs[0], "y": runs[1], "o": torch.zeros(1, 128)})
    assert "{exhausted = false}" in text


def test_a_split_push_takes_the_whole_box_and_restores_the_valid_part() -> None:
    body = f"""
p: pl.Scalar[pl.INT32] = pl.system.import_peer_buffer(name='ring', peer_func='f')
pl.system.aiv_initialize_pipe(pl.const(0, pl.INT32), p, dir_mask=2, slot_size=1024, slot_num=2)
a: {tile((8, 32), 0, view=f"valid_shape=[3, 32], {ROW}")} = \
pl.tile.load(x, [0, 0], [8, 32], [3, 32], target_memory=pl.Mem.Vec)
pl.tile.tpush_to_aic(a, split=1)
"""
    text = emit(program(body, f"x: {tensor((8, 32))}"))["f"]
    assert not verify(parse(text))
    lines = [line.partition(" loc(")[0].strip() for line in text.splitlines()]
    place = next(i for i, line in enumerate(lines) if line.startswith("pto.tpush_to_aic"))
    assert lines[place - 1].startswith("pto.set_validshape %a, %c8_index, %c32_index")
    assert lines[place + 1].startswith("pto.set_validshape %a, %c3_index, %c32_index")
    assert "pto.aiv_initialize_pipe {dir_mask = 2, slot_size = 1024, slot_num = 2} (c2v" in text
    whole = emit(program(body.replace("split=1", "split=0"), f"x: {tensor((8, 32))}"))["f"]
    assert "pto.set_validshape" not in whole


def test_a_pop_of_a_part_is_a_view_of_the_whole_slot() -> None:
    part = f"pl.Tile[[8, 32], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[{{}}], {ROW})]"
    body = f"""
t: {part} = pl.tile.tpop_from_aic(split=0)
u: {tile((8, 32), 0, view=f"valid_shape=[{{}}], {ROW}")} = pl.tile.adds(t, 1.0)
pl.system.tfree_to_aic(t, split=0)
"""
    text = emit(program(body.format("3, 32", "3, 32")))["f"]
    assert not verify(parse(text))
    assert "%tpop_transport = pto.tpop_from_aic {split = 0}" in text
    assert "%tpop_logical = pto.treshape %tpop_transport" in text
    assert "v_row=3, v_col=32" in text
    assert "pto.tfree_from_aic {split = 0}" in text
    idle = emit(program(body.format("0, 0", "0, 0")))["f"]
    assert "%t = pto.tpop_from_aic(%c0_index, %c0_index) {split = 0}" in idle


def test_an_accumulation_is_in_place_and_its_condition_chooses_the_form() -> None:
    def cube(shape: str, space: str, order: str) -> str:
        return f"pl.Tile[{shape}, pl.{order}, pl.MemRef(mem, pl.const(0, pl.INT64), 2048), pl.Mem.{space}]"

    body = f"""
l: {cube("[16, 32]", "Left", "FP16")} = pl.tile.create([16, 32], dtype=pl.FP16, target_memory=pl.Mem.Left)
r: {cube("[32, 16]", "Right", "FP16")} = pl.tile.create([32, 16], dtype=pl.FP16, target_memory=pl.Mem.Right)
c: {cube("[16, 16]", "Acc", "FP32")} = pl.tile.matmul(l, r)
d: {cube("[16, 16]", "Acc", "FP32")} = pl.tile.matmul_acc(c, l, r{{}})
"""
    made = [emit(program(body.format(more), "i: pl.Scalar[pl.INDEX]"))["f"] for more in ("", ", True", ", i == 0")]
    assert all(not verify(parse(text)) for text in made)
    assert [text.count("pto.tmatmul ins") for text in made] == [1, 2, 2]
    assert [text.count("pto.tmatmul.acc ins(%c, %l, %r") for text in made] == [1, 0, 1]
    assert [text.count("scf.if") for text in made] == [0, 0, 1]


def test_tiles_that_are_carried_in_the_same_bytes_are_refused() -> None:
    body = f"""
{LOADED.strip()}
for k, (a1, b1) in pl.range(0, 3, init_values=(a, a)):
    p: {tile((8, 32), 4096)} = pl.tile.adds(a1, 1.0)
    q: {tile((8, 32), 8192)} = pl.tile.adds(b1, 2.0)
    a2, b2 = pl.yield_(p, q)
s: pl.Tensor[[8, 32], pl.FP32] = pl.tile.store(a2, [0, 0], o)
return o
"""
    assert "are carried in the same bytes" in refused(program(body, *PAIR))
