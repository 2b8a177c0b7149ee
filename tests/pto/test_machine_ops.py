"""Ops of the machine against torch, family by family, through text that is parsed and executed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from pypto_lab.ir.diagnostics import Severity
from pypto_lab.pto.dialect.types import TileType
from pypto_lab.pto.machine import execute
from pypto_lab.pto.machine.dtypes import TORCH
from tests.pto.texts import Text, tile

R, C = 16, 64


def values(dtype: str, rows: int = R, cols: int = C, seed: int = 0) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    kind = TORCH[dtype]
    if kind.is_floating_point:
        return (torch.randn(rows, cols, generator=g) * 2).to(kind)
    return torch.randint(1, 50, (rows, cols), generator=g).to(kind)


def run_tiles(
    op: str,
    inputs: list[tuple[TileType, torch.Tensor]],
    output: TileType,
    valid: tuple[int, int] | None = None,
    scalars: tuple[tuple[float, str], ...] = (),
    scratch: int = 0,
    inside: str = "",
    after: str = "",
    order: Callable[[list[str], list[str]], list[str]] | None = None,
) -> torch.Tensor:
    """Loads tensors into tiles, applies an op and stores the valid part of its result."""
    text = Text(*(t.dtype for t, _ in inputs), output.dtype)
    address, names = 0, []
    for position, (type_, tensor) in enumerate(inputs):
        shape = (tensor.shape[0], tensor.shape[1])
        names.append(text.alloc(f"in{position}", type_, address, shape))
        text.load(names[-1], position, shape)
        address += -(-type_.size // 32) * 32
    for position in range(scratch):
        names.append(text.alloc(f"tmp{position}", inputs[0][0], address))
        address += inputs[0][0].size
    numbers = [text.c(v, t) for v, t in scalars]
    extent = valid or (output.rows, output.cols)
    text.alloc("out", output, address, extent)
    text.op(op, order(names, numbers) if order else [*names, *numbers], ["out"], inside, after)
    text.store("out", len(inputs), extent)
    result = torch.zeros(extent, dtype=TORCH[output.dtype])
    report = execute(text.text(), "f", [*(x.clone() for _, x in inputs), result])
    assert report.findings == (), [str(x) for x in report.findings]
    return result


BINARY: dict[str, Callable[..., torch.Tensor]] = {
    "tadd": torch.add, "tsub": torch.sub, "tmul": torch.mul, "tmax": torch.maximum, "tmin": torch.minimum,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32", "i16"])
@pytest.mark.parametrize("op", sorted(BINARY))
def test_two_tiles(op: str, dtype: str) -> None:
    a, b = values(dtype), values(dtype, seed=1)
    assert torch.equal(
        run_tiles(op, [(tile(R, C, dtype), a), (tile(R, C, dtype), b)], tile(R, C, dtype)), BINARY[op](a, b)
    )


@pytest.mark.parametrize(
    ("op", "function"),
    [
        ("tand", torch.bitwise_and),
        ("tor", torch.bitwise_or),
        ("tshl", lambda a, b: a << b),
        ("tshr", lambda a, b: a >> b),
        ("tdiv", lambda a, b: torch.div(a, b, rounding_mode="trunc")),
    ],
)
def test_integers(op: str, function: Callable[..., torch.Tensor]) -> None:
    a, b = values("i32"), values("i32", seed=1) % 7 + 1
    assert torch.equal(
        run_tiles(op, [(tile(R, C, "i32"), a), (tile(R, C, "i32"), b)], tile(R, C, "i32")), function(a, b)
    )


def test_ops_with_scratch() -> None:
    a, b = values("i32"), values("i32", seed=1)
    types = [(tile(R, C, "i32"), a), (tile(R, C, "i32"), b)]
    assert torch.equal(run_tiles("txor", types, tile(R, C, "i32"), scratch=1), a ^ b)
    assert torch.equal(run_tiles("trem", types, tile(R, C, "i32"), scratch=1), torch.remainder(a, b))


def test_working_memory_holds_nothing_behind_the_op() -> None:
    """What stood there before is gone: who reads it is named, with the op that worked in it."""
    text = Text("f32", "f32", "f32")
    whole = tile(R, C)
    text.alloc("a", whole, 0)
    text.load("a", 0, (R, C))
    text.alloc("kept", whole, whole.size)
    text.load("kept", 0, (R, C))
    text.alloc("sums", tile(R, 1, order="dn"), 2 * whole.size)
    text.op("trowsum", ["a", "kept"], ["sums"])
    text.store("sums", 1, (R, 1))
    text.store("kept", 2, (R, C))
    a, sums, out = torch.ones(R, C), torch.zeros(R, 1), torch.zeros(R, C)
    found = execute(text.text(), "f", [a, sums, out]).findings
    assert torch.equal(sums, torch.full((R, 1), float(C)))
    stored = next(f for f in found if f.code == "E621")
    assert stored.op == "pto.tstore"
    assert "pto.trowsum at kernel.py:" in stored.message
    assert "works in %kept" in stored.message


def test_working_memory_over_an_input_is_reported() -> None:
    text = Text("f32", "f32")
    whole = tile(R, C)
    text.alloc("a", whole, 0)
    text.load("a", 0, (R, C))
    text.alloc("work", whole, 0)
    text.alloc("sums", tile(R, 1, order="dn"), whole.size)
    text.op("trowsum", ["a", "work"], ["sums"])
    text.store("sums", 1, (R, 1))
    found = execute(text.text(), "f", [torch.ones(R, C), torch.zeros(R, 1)]).findings
    assert any("works in %work, which shares bytes with its input %a" in f.message for f in found)


def test_integers_wrap_at_their_width() -> None:
    a = torch.full((R, C), 100, dtype=torch.int8)
    result = run_tiles("tadd", [(tile(R, C, "i8"), a), (tile(R, C, "i8"), a)], tile(R, C, "i8"))
    assert bool((result == -56).all())


@pytest.mark.parametrize(
    ("op", "number", "function"),
    [
        ("tadds", 1.5, lambda x: x + 1.5),
        ("tsubs", 0.5, lambda x: x - 0.5),
        ("tmuls", -3.0, lambda x: x * -3.0),
        ("tdivs", 4.0, lambda x: x / 4.0),
        ("tmaxs", 0.25, lambda x: x.clamp(min=0.25)),
        ("tmins", 0.25, lambda x: x.clamp(max=0.25)),
        ("tlrelu", 0.5, lambda x: torch.where(x > 0, x, x * 0.5)),
    ],
)
def test_a_tile_and_a_number(op: str, number: float, function: Callable[..., torch.Tensor]) -> None:
    a = values("f32")
    result = run_tiles(op, [(tile(R, C), a)], tile(R, C), scalars=((number, "f32"),))
    assert torch.equal(result, function(a))


@pytest.mark.parametrize(
    ("op", "function"),
    [
        ("tabs", torch.abs), ("tneg", torch.neg), ("texp", torch.exp), ("trelu", torch.relu),
        ("tsqrt", lambda x: x.abs().sqrt()), ("trecip", torch.reciprocal), ("trsqrt", lambda x: x.abs().rsqrt()),
        ("tlog", lambda x: x.abs().log()),
    ],
)  # fmt: skip
def test_one_tile(op: str, function: Callable[..., torch.Tensor]) -> None:
    a = values("f32")
    a = a.abs() if op in ("tsqrt", "trsqrt", "tlog") else a
    assert torch.equal(run_tiles(op, [(tile(R, C), a)], tile(R, C)), function(a))


ROWS: dict[str, Callable[..., torch.Tensor]] = {
    "trowsum": lambda x: x.sum(1, keepdim=True),
    "trowmax": lambda x: x.amax(1, keepdim=True),
    "trowmin": lambda x: x.amin(1, keepdim=True),
    "trowprod": lambda x: x.prod(1, keepdim=True),
}


@pytest.mark.parametrize("op", sorted(ROWS))
def test_rows_fold_over_the_valid_region_only(op: str) -> None:
    a = values("f32", 11, 40)
    result = run_tiles(op, [(tile(R, C), a)], tile(R, 1, order="dn"), (11, 1), scratch=1)
    assert torch.allclose(result, ROWS[op](a), rtol=1e-6)


def test_argmax_and_argmin() -> None:
    a = values("f32", 11, 40)
    rows = run_tiles("trowargmax", [(tile(R, C), a)], tile(R, 1, "i32", order="dn"), (11, 1), scratch=1)
    assert torch.equal(rows.long(), a.argmax(1, keepdim=True))
    columns = run_tiles("tcolargmin", [(tile(R, C), a)], tile(1, C, "i32"), (1, 40), scratch=1)
    assert torch.equal(columns.long(), a.argmin(0, keepdim=True))


@pytest.mark.parametrize(("op", "function"), [("tcolsum", torch.sum), ("tcolmax", torch.amax), ("tcolmin", torch.amin)])
def test_columns_fold(op: str, function: Callable[..., torch.Tensor]) -> None:
    a = values("f32", 11, 40)
    result = run_tiles(op, [(tile(R, C), a)], tile(1, C), (1, 40))
    assert torch.allclose(result, function(a, dim=0, keepdim=True), rtol=1e-6)


EXPAND: dict[str, Callable[..., torch.Tensor]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "max": torch.maximum,
    "min": torch.minimum, "expdif": lambda a, b: torch.exp(a - b),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(EXPAND))
def test_a_vector_is_stretched_over_a_tile(name: str) -> None:
    a, column, row = values("f32"), values("f32", R, 1, 1), values("f32", 1, C, 2)
    by_row = run_tiles(f"trowexpand{name}", [(tile(R, C), a), (tile(R, 1, order="dn"), column)], tile(R, C))
    assert torch.equal(by_row, EXPAND[name](a, column))
    by_column = run_tiles(f"tcolexpand{name}", [(tile(R, C), a), (tile(1, C), row)], tile(R, C))
    assert torch.equal(by_column, EXPAND[name](a, row))


def test_replication() -> None:
    column, row = values("f32", R, 1), values("f32", 1, C)
    assert torch.equal(run_tiles("trowexpand", [(tile(R, 1, order="dn"), column)], tile(R, C)), column.expand(R, C))
    assert torch.equal(run_tiles("tcolexpand", [(tile(1, C), row)], tile(R, C)), row.expand(R, C))


@pytest.mark.parametrize(
    ("mode", "function"),
    [
        ("RINT", torch.round), ("FLOOR", torch.floor), ("CEIL", torch.ceil), ("TRUNC", torch.trunc),
        ("ROUND", lambda x: torch.sign(x) * torch.floor(x.abs() + 0.5)), ("CAST_RINT", torch.round),
    ],
)  # fmt: skip
def test_casts_to_integers_round_by_mode(mode: str, function: Callable[..., torch.Tensor]) -> None:
    a = torch.tensor([[-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49, -3.7]]).repeat(R, C // 8)
    inside = f" {{rmode = #pto<round_mode {mode}>}}"
    result = run_tiles("tcvt", [(tile(R, C), a)], tile(R, C, "i32"), inside=inside)
    assert torch.equal(result, function(a).to(torch.int32))


def test_casts_between_floats_round_once() -> None:
    a = torch.tensor([[1 + 2.0**-9, 1 + 3 * 2.0**-9, 3.0e38, -1e-40]]).repeat(R, C // 4)
    inside = " {rmode = #pto<round_mode RINT>}"
    result = run_tiles("tcvt", [(tile(R, C), a)], tile(R, C, "bf16"), inside=inside)
    assert torch.equal(result, a.bfloat16())


@pytest.mark.parametrize(("pad", "value"), [(1, 0.0), (2, float("inf")), (3, float("-inf"))])
def test_padding_fills_what_is_not_valid(pad: int, value: float) -> None:
    a = values("f32", 5, 40)
    result = run_tiles("tfillpad", [(tile(R, C), a)], tile(R, C, pad=pad))
    expected = torch.full((R, C), value)
    expected[:5, :40] = a
    assert torch.equal(result, expected)


def test_moves_extracts_inserts_and_transposes() -> None:
    a = values("f32")
    assert torch.equal(run_tiles("tmov", [(tile(R, C), a)], tile(R, C)), a)
    picked = run_tiles("textract", [(tile(R, C), a)], tile(8, 16), scalars=((4, "index"), (32, "index")))
    assert torch.equal(picked, a[4:12, 32:48])
    turned = run_tiles("ttrans", [(tile(R, C), a)], tile(C, R), scratch=1)
    assert torch.equal(turned, a.T)
    joined = run_tiles("tconcat", [(tile(R, C), a), (tile(R, C), a + 1)], tile(R, 2 * C))
    assert torch.equal(joined, torch.cat([a, a + 1], 1))


def test_comparison_and_selection_use_packed_masks() -> None:
    a, b = values("f32"), values("f32", seed=1)
    mask = run_tiles(
        "tcmp", [(tile(R, C), a), (tile(R, C), b)], tile(R, 32, "ui8"), (R, 8), inside=" {cmpMode = #pto<cmp lt>}"
    )
    bits = (mask.unsqueeze(-1) >> torch.arange(8)) & 1
    assert torch.equal(bits.reshape(R, C).bool(), a < b)
    chosen = run_tiles("tsel", [(tile(R, 32, "ui8"), mask), (tile(R, C), a), (tile(R, C), b)], tile(R, C), scratch=1)
    assert torch.equal(chosen, torch.where(a < b, a, b))


def test_gather_by_index_and_by_mask() -> None:
    a = values("f32")
    index = torch.randint(0, R * C, (R, 32), generator=torch.Generator().manual_seed(3)).to(torch.int32)
    result = run_tiles("tgather", [(tile(R, C), a), (tile(R, 32, "i32"), index)], tile(R, 32), scratch=1)
    assert torch.equal(result, a.reshape(-1)[index.long()])
    for pattern, step, first in (("P0101", 2, 0), ("P1010", 2, 1), ("P0010", 4, 1)):
        text = Text("f32", "f32")
        text.alloc("a", tile(R, C), 0)
        text.load("a", 0, (R, C))
        text.alloc("o", tile(R, C // step), 8192)
        text.op("tgather", ["a"], ["o"], f", {{maskPattern = #pto.mask_pattern<{pattern}>}}", axis=', "row"')
        text.store("o", 1, (R, C // step))
        out = torch.zeros(R, C // step)
        execute(text.text(), "f", [a, out])
        assert torch.equal(out, a[:, first::step])


def test_scatter_keeps_what_it_does_not_touch() -> None:
    text = Text("f32", "i32", "f32")
    text.alloc("a", tile(R, 32), 0)
    text.alloc("i", tile(R, 32, "i32"), 8192)
    text.alloc("o", tile(R, C), 16384)
    text.load("a", 0, (R, 32))
    text.load("i", 1, (R, 32))
    text.op("texpands", [text.c("7.0", "f32")], ["o"])
    text.op("tscatter", ["a", "i"], ["o"])
    text.store("o", 2, (R, C))
    a, out = values("f32", R, 32), torch.zeros(R, C)
    index = torch.randperm(R * C, generator=torch.Generator().manual_seed(3))[: R * 32].reshape(R, 32).to(torch.int32)
    execute(text.text(), "f", [a, index, out])
    expected = torch.full((R * C,), 7.0)
    expected[index.reshape(-1).long()] = a.reshape(-1)
    assert torch.equal(out, expected.reshape(R, C))


def test_ramps_and_constants() -> None:
    text = Text("i32", "f32")
    text.alloc("r", tile(1, 32, "i32"), 0)
    text.op("tci", [text.c(5, "i32")], ["r"], after=" {descending = true}")
    text.store("r", 0, (1, 32))
    text.alloc("c", tile(R, C), 4096)
    text.op("texpands", [text.c("2.5", "f32")], ["c"])
    text.store("c", 1, (R, C))
    ramp, flat = torch.zeros(1, 32, dtype=torch.int32), torch.zeros(R, C)
    assert execute(text.text(), "f", [ramp, flat]).ok
    assert ramp.tolist() == [list(range(5, -27, -1))]
    assert bool((flat == 2.5).all())


def matmul_text(dtype: str, out: str, extra: str = "") -> Text:
    """out = a[32, 64] @ b[64, 64] through mat, left, right and acc."""
    text = Text(dtype, dtype, out, kind="cube")
    for name, shape, argument, address in (("a", (32, 64), 0, 0), ("b", (64, 64), 1, 16384)):
        text.alloc(name, tile(*shape, dtype, "mat", "nz"), address)
        text.load(name, argument, shape)
    text.alloc("left", tile(32, 64, dtype, "left", "nz"), 0)
    text.op("tmov", ["a"], ["left"])
    text.alloc("right", tile(64, 64, dtype, "right", "zn"), 0)
    text.op("tmov", ["b"], ["right"])
    text.alloc("acc", tile(32, 64, "i32" if dtype == "i8" else "f32", "acc", "acc"), 0)
    text.op("tmatmul", ["left", "right"], ["acc"])
    if extra == "acc":
        text.op("tmatmul.acc", ["acc", "left", "right"], ["acc"])
    text.store("acc", 2, (32, 64))
    return text


@pytest.mark.parametrize(
    ("dtype", "out"), [("f16", "f32"), ("bf16", "f32"), ("f32", "f32"), ("bf16", "bf16"), ("i8", "i32")]
)
def test_matrix_products_accumulate_wide_and_round_once(dtype: str, out: str) -> None:
    a, b, c = values(dtype, 32, 64), values(dtype, 64, 64, 1), torch.zeros(32, 64, dtype=TORCH[out])
    assert execute(matmul_text(dtype, out).text(), "f", [a, b, c]).findings == ()
    exact = a.double() @ b.double()
    if out == "i32":
        assert torch.equal(c.double(), exact)
    else:
        assert torch.allclose(
            c.double(), exact.float().to(TORCH[out]).double(), rtol=1e-5 if out == "f32" else 1e-2, atol=1e-4
        )


@pytest.mark.parametrize(
    ("valid", "severity"), [((32, 64), None), ((32, 48), Severity.ERROR), ((20, 64), Severity.ERROR)]
)
def test_an_accumulator_that_is_valid_in_less_than_the_product_loses_elements(
    valid: tuple[int, int], severity: Severity | None
) -> None:
    text = matmul_text("f16", "f32")
    place = next(i for i, line in enumerate(text.lines) if "pto.tmatmul" in line)
    narrow = f"pto.set_validshape %acc, %{text.c(valid[0])}, %{text.c(valid[1])} : {text.types['acc']}"
    text.lines.insert(place, narrow)
    a, b, c = values("f16", 32, 64), values("f16", 64, 64, 1), torch.zeros(32, 64)
    found = [f for f in execute(text.text(), "f", [a, b, c]).findings if f.op == "pto.tmatmul"]
    assert [f.severity for f in found] == ([] if severity is None else [severity])
    assert all(f"{valid[0]} x {valid[1]} valid elements, the product 32 x 64" in f.message for f in found)


def test_an_accumulator_that_is_valid_in_more_than_the_product_keeps_what_it_had() -> None:
    """A warning; the store of the elements nobody wrote is the error."""
    text = matmul_text("f16", "f32")
    place = next(i for i, line in enumerate(text.lines) if "%left" in line and "pto.tmatmul" in line)
    text.lines.insert(place, f"pto.set_validshape %left, %{text.c(20)}, %{text.c(64)} : {text.types['left']}")
    a, b, c = values("f16", 32, 64), values("f16", 64, 64, 1), torch.zeros(32, 64)
    found = execute(text.text(), "f", [a, b, c]).findings
    extents = next(f for f in found if f.code == "E625")
    assert "%acc has 32 x 64 valid elements, the product 20 x 64" in extents.message
    assert extents.severity is Severity.WARNING
    assert any(f.code == "E621" and f.severity is Severity.ERROR and f.op == "pto.tstore" for f in found)


def test_accumulation_adds_in_place() -> None:
    a, b, c = values("f16", 32, 64), values("f16", 64, 64, 1), torch.zeros(32, 64)
    assert execute(matmul_text("f16", "f32", "acc").text(), "f", [a, b, c]).findings == ()
    assert torch.allclose(c, 2 * (a.float() @ b.float()), rtol=1e-5, atol=1e-4)


def test_a_transposed_right_operand_costs_no_move() -> None:
    """The same bytes as NZ [48, 64] and as ZN [64, 48]."""
    text = Text("f16", "f16", "f32", kind="cube")
    text.alloc("a", tile(32, 64, "f16", "mat", "nz"), 0)
    text.alloc("b", tile(48, 64, "f16", "mat", "nz"), 16384)
    text.load("a", 0, (32, 64))
    text.load("b", 1, (48, 64))
    text.alloc("bt", tile(64, 48, "f16", "mat", "zn"), 16384)
    text.alloc("left", tile(32, 64, "f16", "left", "nz"), 0)
    text.op("tmov", ["a"], ["left"])
    text.alloc("right", tile(64, 48, "f16", "right", "zn"), 0)
    text.op("tmov", ["bt"], ["right"])
    text.alloc("acc", tile(32, 48, "f32", "acc", "acc"), 0)
    text.op("tmatmul", ["left", "right"], ["acc"])
    text.store("acc", 2, (32, 48))
    a, b, c = values("f16", 32, 64), values("f16", 48, 64, 1), torch.zeros(32, 48)
    assert execute(text.text(), "f", [a, b, c]).findings == ()
    assert torch.allclose(c, a.float() @ b.float().T, rtol=1e-4, atol=1e-4)


def test_atomic_stores_add() -> None:
    text = Text("f32", "f32")
    text.alloc("a", tile(R, C), 0)
    text.load("a", 0, (R, C))
    text.op("tstore", ["a"], [text.window(1, (R, C))], after=" {atomicType = #pto<atomic_type atomic_add>}")
    a, out = values("f32"), torch.ones(R, C)
    execute(text.text(), "f", [a, out])
    assert torch.equal(out, a + 1)


def test_views_share_bytes() -> None:
    text = Text("f32", "f32", "f32")
    whole, part = tile(R, C), tile(8, 32).with_valid(8, 32)
    text.alloc("a", whole, 0)
    text.load("a", 0, (R, C))
    text.line(f"%w = pto.subview %a[%{text.c(4)}, %{text.c(32)}] sizes [8, 32] : {whole} -> {part}")
    text.types["w"] = str(part)
    text.store("w", 1, (8, 32))
    text.op("texpands", [text.c("9.0", "f32")], ["w"])
    flat = tile(1, R * C).with_valid(1, R * C)
    text.line(f"%r = pto.treshape %a : {whole} -> {flat}")
    text.types["r"] = str(flat)
    text.store("r", 2, (1, R * C))
    a, window, row = values("f32"), torch.zeros(8, 32), torch.zeros(1, R * C)
    assert execute(text.text(), "f", [a, window, row]).findings == ()
    assert torch.equal(window, a[4:12, 32:])
    a[4:12, 32:] = 9.0
    assert torch.equal(row, a.reshape(1, -1))


def test_set_validshape_changes_the_tile_itself() -> None:
    text = Text("f32", "f32")
    text.alloc("a", tile(R, C), 0)
    text.load("a", 0, (R, C))
    text.line(f"pto.set_validshape %a, %{text.c(3)}, %{text.c(40)} : {tile(R, C)}")
    text.store("a", 1, (3, 40))
    a, out = values("f32"), torch.zeros(3, 40)
    assert execute(text.text(), "f", [a, out]).findings == ()
    assert torch.equal(out, a[:3, :40])


def test_windows_follow_strides_and_layouts() -> None:
    """A column tensor [R, 1] in DN, a transposed view, and a three-dimensional one."""
    text = Text("f32", "f32", "f32", "f32")
    text.alloc("col", tile(R, 1, order="dn"), 0)
    text.op("tload", [text.window(0, (R, 1), strides=(1, R), layout="dn")], ["col"])
    text.op("tstore", ["col"], [text.window(1, (R, 1), strides=(1, R), layout="dn")])
    text.alloc("t", tile(32, 64), 4096)
    text.op("tload", [text.window(2, (32, 64), strides=(1, 32), layout="dn")], ["t"])
    text.op("tstore", ["t"], [text.window(3, (2, 32, 64), (1, 0, 0), (1, 32, 64))])
    column, out_column = values("f32", R, 1), torch.zeros(R, 1)
    square, out = values("f32", 64, 32), torch.zeros(2, 32, 64)
    assert execute(text.text(), "f", [column, out_column, square, out]).findings == ()
    assert torch.equal(out_column, column)
    assert torch.equal(out[1], square.T)
    assert bool((out[0] == 0).all())


def test_arguments_may_be_views_of_larger_tensors() -> None:
    text = Text("f32", "f32")
    text.alloc("a", tile(R, C), 0)
    text.load("a", 0, (R, C))
    text.store("a", 1, (R, C))
    pool, out = values("f32", 4 * R, C), torch.zeros(4 * R, C)
    execute(text.text(), "f", [pool[R : 2 * R], out[2 * R : 3 * R]])
    assert torch.equal(out[2 * R : 3 * R], pool[R : 2 * R])
    assert bool((out[: 2 * R] == 0).all())


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("arith.divsi %a, %b : i32", -3), ("arith.remsi %a, %b : i32", -1), ("arith.floordivsi %a, %b : i32", -4),
        ("arith.minsi %a, %b : i32", -7), ("arith.maxsi %a, %b : i32", 2), ("arith.shli %b, %b : i32", 8),
        ("arith.shrsi %a, %b : i32", -2), ("arith.shrui %a, %b : i32", 0x3FFFFFFE),
        ("arith.divui %a, %b : i32", 2147483644), ("arith.muli %big, %big : i32", 1),
        ("arith.addi %big, %b : i32", -(2**31) + 1), ("arith.xori %a, %b : i32", -5),
    ],
)  # fmt: skip
def test_scalar_integers_cut_off_and_wrap(expression: str, expected: int) -> None:
    text = Text("i32")
    text.raw("%a = arith.constant -7 : i32", "%b = arith.constant 2 : i32", f"%big = arith.constant {2**31 - 1} : i32")
    text.raw(f"%r = {expression}", f"pto.store_scalar %r, %arg0[%{text.c(0)}] : !pto.ptr<i32>, i32")
    out = torch.zeros(1, dtype=torch.int32)
    execute(text.text(), "f", [out])
    assert int(out) == expected


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [("slt", 1), ("sge", 0), ("ult", 0), ("uge", 1), ("eq", 0), ("ne", 1), ("sle", 1), ("ugt", 1)],
)
def test_comparisons_of_scalars(predicate: str, expected: int) -> None:
    text = Text("i32")
    text.raw("%a = arith.constant -7 : i32", "%b = arith.constant 2 : i32")
    text.raw(f"%r = arith.cmpi {predicate}, %a, %b : i32", "%w = arith.extui %r : i1 to i32")
    text.raw(f"pto.store_scalar %w, %arg0[%{text.c(0)}] : !pto.ptr<i32>, i32")
    out = torch.full((1,), 5, dtype=torch.int32)
    execute(text.text(), "f", [out])
    assert int(out) == expected


def test_float_scalars_round_at_their_width() -> None:
    text = Text("f32", scalars=("f32",))
    text.raw("%k = arith.constant 1.0e-01 : f32", "%r = arith.addf %arg1, %k : f32")
    text.raw(f"pto.store_scalar %r, %arg0[%{text.c(0)}] : !pto.ptr<f32>, f32")
    out = torch.zeros(1)
    execute(text.text(), "f", [out, 0.2])
    assert float(out) == float(torch.tensor(0.2) + torch.tensor(0.1))


def test_loops_carry_scalars() -> None:
    text = Text("i32", scalars=("index",))
    zero, one = text.c(0), text.c(1)
    text.raw(
        f"%s = scf.for %i = %{zero} to %arg1 step %{one} iter_args(%x = %{zero}) -> (index) {{",
        "  %y = arith.addi %x, %i : index",
        "  scf.yield %y : index",
        "}",
        f"%n = scf.while (%p = %{one}) : (index) -> (index) {{",
        "  %c = arith.cmpi slt, %p, %s : index",
        "  scf.condition(%c) %p : index",
        "} do {",
        "^bb0(%q : index):",
        "  %d = arith.addi %q, %q : index",
        "  scf.yield %d : index",
        "}",
        "%w = arith.index_cast %n : index to i32",
        f"pto.store_scalar %w, %arg0[%{zero}] : !pto.ptr<i32>, i32",
    )
    out = torch.zeros(1, dtype=torch.int32)
    execute(text.text(), "f", [out, 10])
    assert int(out) == 64  # the sum is 45, the next power of two 64


def test_elements_of_tiles_and_local_arrays() -> None:
    text = Text("f32", "f32")
    text.alloc("a", tile(R, C), 0)
    text.load("a", 0, (R, C))
    spot, zero = text.c(3 * C + 5), text.c(0)
    text.raw(
        f"%e = pto.tgetval ins(%a, %{spot} : {tile(R, C)}, index) outs : f32",
        "%arr = pto.declare_local_array -> !pto.local_array<4xf32>",
        f"pto.local_array_set %arr[%{zero}], %e : !pto.local_array<4xf32>, f32",
        f"%g = pto.local_array_get %arr[%{zero}] : !pto.local_array<4xf32> -> f32",
        f"pto.tsetval ins(%{zero}, %g : index, f32) outs(%a : {tile(R, C)})",
    )
    text.store("a", 1, (R, C))
    a, out = values("f32"), torch.zeros(R, C)
    assert execute(text.text(), "f", [a, out]).findings == ()
    expected = a.clone()
    expected[0, 0] = a[3, 5]
    assert torch.equal(out, expected)


def test_tiles_without_addresses_get_their_own_places() -> None:
    text = Text("f32", "f32")
    for name in "ab":
        text.raw(f"%{name} = pto.alloc_tile valid_row = %{text.c(R)} valid_col = %{text.c(C)} : {tile(R, C)}")
        text.types[name] = str(tile(R, C))
    text.load("a", 0, (R, C))
    text.op("tabs", ["a"], ["b"])
    text.op("tadd", ["a", "b"], ["b"])
    text.store("b", 1, (R, C))
    a, out = values("f32"), torch.zeros(R, C)
    assert execute(text.text(), "f", [a, out]).findings == ()
    assert torch.equal(out, a + a.abs())
