"""The five dispatch rules, binding of arguments, and what a refusal says; on records of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, OpError
from pypto_lab.ir.enums import AtomicType, MemorySpace, PadValue, SplitMode
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import UNKNOWN, ScalarType, TensorType, TileType, TupleType, Type
from pypto_lab.ops import binding, scalars
from pypto_lab.ops import dispatch as module
from pypto_lab.ops.calling import Actual, Call, DispatchError
from pypto_lab.ops.dispatch import dispatch, spellings
from pypto_lab.ops.record import Arg, Attr, Effect, Op, Operands, Registry, Torch

TENSOR = n.Var(name="x", type=TensorType((n.const(16), n.const(64)), dtypes.FP32))
INTS = n.Var(name="q", type=TensorType((n.const(16), n.const(64)), dtypes.INT16))
TILE = n.Var(name="t", type=TileType((n.const(16), n.const(64)), dtypes.FP32, memory_space=MemorySpace.Vec))
INDEX = n.Var(name="i", type=n.INDEX)
GAIN = n.Var(name="g", type=n.FP32)
BROKEN = n.Var(name="b", type=UNKNOWN)


def same(operands: Operands) -> Type:
    return operands.shaped(0)


def picky(operands: Operands) -> Type:
    raise OpError("shapes differ", argument=1, hint="reshape", code="E302", also={0: "this one"})


def loaded(operands: Operands) -> Type:
    return TileType(operands.ints(2), operands.shaped(0).dtype, memory_space=operands.attrs["target_memory"])


def op(name: str, *args: Arg, attrs: tuple[Attr, ...] = (), infer: object = same, **more: object) -> Op:
    return Op(name, args, attrs, infer, Torch("f"), "doc", **more)  # type: ignore[arg-type]


def both(layer: str, name: str, **more: object) -> Op:
    return op(f"{layer}.{name}", Arg("lhs", layer), Arg("rhs", layer), **more)


RECORDS = (
    both("tensor", "add", scalar_form="tensor.adds"),
    both("tile", "add", scalar_form="tile.adds"),
    op("tensor.adds", Arg("lhs", "tensor"), Arg("rhs", "scalar")),
    op("tile.adds", Arg("lhs", "tile"), Arg("rhs", "scalar")),
    both("tensor", "and", scalar_form="tensor.ands"),
    op("tensor.ands", Arg("lhs", "tensor"), Arg("rhs", "scalar")),
    op("tensor.row_sum", Arg("input", "tensor")),
    op("tile.row_sum", Arg("tile", "tile"), Arg("tmp_tile", "tile", effect=Effect.NONE)),
    op("tensor.max", Arg("input", "tensor")),
    op(
        "tile.load",
        Arg("tensor", "tensor"),
        Arg("offsets", "ints"),
        Arg("shapes", "ints"),
        Arg("valid_shape", "ints"),
        attrs=(Attr("target_memory", "memory", MemorySpace.Vec), Attr("clamp", "bool", False, printed=False)),
        infer=loaded,
    ),
    op(
        "tensor.slice",
        Arg("input", "tensor"),
        Arg("shape", "ints"),
        Arg("offset", "ints"),
        Arg("valid_shape", "ints", None),
        Arg("drop_dims", "ints", None),
    ),
    op("tensor.cast", Arg("input", "tensor"), attrs=(Attr("target_type", "dtype"), Attr("mode", "cast_mode", "round"))),
    op(
        "tensor.matmul",
        Arg("lhs", "tensor"),
        Arg("rhs", "tensor"),
        attrs=(Attr("out_dtype", "dtype", None), Attr("b_trans", "bool", False)),
    ),
    op("tile.matmul", Arg("lhs", "tile"), Arg("rhs", "tile")),
    op("tensor.gather", Arg("input", "tensor"), Arg("index", "tensor"), attrs=(Attr("dim", "int"),)),
    op("tensor.gather_mask", Arg("input", "tensor"), attrs=(Attr("mask_pattern", "int"),)),
    op("tile.mrgsort_format1", Arg("src", "tile"), Arg("block_len", "scalar")),
    op(
        "tile.mrgsort_format2",
        Arg("src0", "tile"),
        Arg("src1", "tile"),
        Arg("src2", "tile", None),
        Arg("tmp", "tile", None),
    ),
    op(
        "tensor.assemble",
        Arg("target", "tensor"),
        Arg("source", "tensor"),
        Arg("offset", "ints"),
        attrs=(Attr("atomic", "atomic", AtomicType.None_, printed=False),),
    ),
    op("tensor.picky", Arg("a", "tensor"), Arg("b", "tensor"), infer=picky),
    op("tensor.fillpad", Arg("x", "tensor"), attrs=(Attr("pad_value", "pad", PadValue.zero),)),
    op("tensor.read", Arg("tensor", "tensor"), Arg("indices", "ints")),
    op("tile.aiv_shard", Arg("x", "tile"), attrs=(Attr("split", "int", None),)),
    op("tile.tpush_to_aiv", Arg("tile", "tile"), attrs=(Attr("split", "int"),)),
    op(
        "system.aic_initialize_pipe",
        Arg("c2v_consumer_buf", "value"),
        Arg("v2c_consumer_buf", "value"),
        attrs=(Attr("dir_mask", "int"),),
        infer=lambda _: UNKNOWN,
    ),
    op("pld.system.notify", Arg("target", "tensor"), Arg("value", "scalar"), attrs=(Attr("op", "int"),)),
    op("tensor.special", Arg("x", "tensor"), dsl=("extra",)),
)


@pytest.fixture(autouse=True)
def records(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A registry of a few small records instead of the real one."""
    registry = Registry()
    registry.add(*RECORDS)
    for user in (module, binding):
        monkeypatch.setattr(user, "OPS", registry)
    module._by_spelling.cache_clear()
    yield
    module._by_spelling.cache_clear()


def span(column: int) -> Span:
    return Span("f.py", 1, column, 1, column + 1)


def call(path: str, *values: object, region: SplitMode | None = None, **keywords: object) -> n.OpCall:
    actuals = tuple(Actual(v, span(i)) for i, v in enumerate(values, 1))
    named = {k: Actual(v, span(50 + i)) for i, (k, v) in enumerate(keywords.items())}
    found = dispatch(Call(path, actuals, named, span(90), span(91), region))
    assert isinstance(found, n.OpCall)
    return found


def refused(path: str, *values: object, **keywords: object) -> Diagnostic:
    with pytest.raises(DispatchError) as caught:
        call(path, *values, **keywords)
    return caught.value.diagnostic


def ints(*values: int) -> n.MakeTuple:
    elements = tuple(n.const(v) for v in values)
    return n.MakeTuple(elements=elements, type=TupleType(tuple(e.type for e in elements)))


def test_the_first_tensor_or_tile_decides() -> None:
    assert call("pl.add", TENSOR, TENSOR).op == "tensor.add"
    assert call("pl.add", TILE, TILE).op == "tile.add"
    assert call("pl.tile.add", TILE, TILE).op == "tile.add"
    assert call("pl.tensor.add", TENSOR, TENSOR).op == "tensor.add"


def test_a_scalar_on_the_right_picks_the_scalar_form() -> None:
    assert call("pl.add", TILE, GAIN).op == "tile.adds"
    assert call("pl.add", TENSOR, rhs=GAIN).op == "tensor.adds"
    assert call("pl.and_", INTS, n.const(3)).op == "tensor.ands"


def test_a_number_takes_the_dtype_it_meets() -> None:
    to_ints = call("pl.and_", INTS, n.const(5)).args[1]
    assert isinstance(to_ints, n.ConstInt)
    assert n.scalar_dtype(to_ints) is dtypes.INT16
    to_floats = call("pl.add", TENSOR, n.const(2)).args[1]
    assert isinstance(to_floats, n.ConstFloat)
    assert n.scalar_dtype(to_floats) is dtypes.FP32


def test_scalars_alone_are_expressions() -> None:
    found = dispatch(Call("pl.min", (Actual(INDEX), Actual(n.const(4))), {}))
    assert isinstance(found, n.Binary)
    assert found.op == "Min"
    cast = dispatch(Call("pl.cast", (Actual(INDEX), Actual(dtypes.INT32)), {}))
    assert isinstance(cast, n.Unary)
    assert cast.type == cast.type
    assert n.scalar_dtype(cast) is dtypes.INT32


def test_promoted_names_belong_to_one_layer() -> None:
    assert call("pl.load", TENSOR, ints(0, 0), ints(16, 64)).op == "tile.load"
    assert call("pl.gather", TENSOR, n.const(-1), INTS).op == "tensor.gather"
    assert call("pl.tpush_to_aiv", TILE, split=n.const(1)).op == "tile.tpush_to_aiv"
    assert call("pl.system.tpush_to_aiv", TILE, split=n.const(1)).op == "tile.tpush_to_aiv"
    assert call("pl.extra", TENSOR).op == "tensor.special"
    assert call("pld.notify", TENSOR, n.const(1), op=n.const(0)).op == "pld.system.notify"
    assert call("pld.system.notify", TENSOR, n.const(1), op=n.const(0)).op == "pld.system.notify"


def test_defaults_are_filled_in_and_hidden_ones_left_out() -> None:
    load = call("pl.load", TENSOR, ints(0, 0), ints(16, 64))
    assert load.kwargs == {"target_memory": MemorySpace.Vec}
    assert load.args[3] is load.args[2]
    assert call("pl.load", TENSOR, ints(0, 0), ints(16, 64), clamp=n.const(True)).kwargs["clamp"] is True
    assert call("pl.cast", TENSOR, dtypes.FP16).kwargs == {"target_type": dtypes.FP16, "mode": "round"}
    assert call("pl.matmul", TENSOR, TENSOR).kwargs == {"b_trans": False}
    assert call("pl.assemble", TENSOR, TENSOR, ints(0, 0)).kwargs == {}
    assert call("pl.assemble", TENSOR, TENSOR, ints(0, 0), atomic=AtomicType.Add).kwargs == {"atomic": AtomicType.Add}


def test_parameters_bind_in_the_users_order() -> None:
    gather = call("pl.gather", TENSOR, n.const(1), INTS)
    assert gather.args == (TENSOR, INTS)
    assert gather.kwargs == {"dim": 1}
    by_name = call("pl.gather", TENSOR, index=INTS, dim=n.const(1))
    assert by_name.args == (TENSOR, INTS)


def test_keywords_tell_variants_apart() -> None:
    assert call("pl.gather", TENSOR, mask_pattern=n.const(2)).op == "tensor.gather_mask"
    assert call("pl.mrgsort", TILE, block_len=n.const(64)).op == "tile.mrgsort_format1"
    assert call("pl.mrgsort", TILE, TILE).op == "tile.mrgsort_format2"
    two = call("pl.mrgsort", TILE, TILE, tmp=TILE)
    assert two.args == (TILE, TILE, TILE)
    block = call("pl.mrgsort", TILE, block_len=n.const(64)).args[1]
    assert n.scalar_dtype(block) is dtypes.INT32


def test_a_skipped_list_is_an_empty_list() -> None:
    cut = call("pl.tensor.slice", TENSOR, ints(1, 64), ints(0, 0), drop_dims=ints(0))
    assert isinstance(cut.args[3], n.MakeTuple)
    assert cut.args[3].elements == ()
    assert len(call("pl.tensor.slice", TENSOR, ints(1, 64), ints(0, 0)).args) == 3


def test_one_index_is_a_list_of_one() -> None:
    assert isinstance(call("pl.read", TENSOR, INDEX).args[1], n.MakeTuple)


def test_pipes_take_zero_for_the_missing_direction() -> None:
    made = call("pl.aic_initialize_pipe", v2c_consumer_buf=INDEX, dir_mask=n.const(2))
    assert n.scalar_dtype(made.args[0]) is dtypes.INT32
    assert made.args[1] is INDEX


def test_enum_members_and_words_become_canonical() -> None:
    assert call("pl.cast", TENSOR, dtypes.FP16, mode=n.const(1)).kwargs["mode"] == "rint"
    assert call("pl.fillpad", TENSOR, pad_value=n.const(-1.5)).kwargs["pad_value"] == -1.5
    assert call("pl.fillpad", TENSOR, pad_value=PadValue.min).kwargs["pad_value"] is PadValue.min
    assert call("pl.tpush_to_aiv", TILE, split=SplitMode.UP_DOWN).kwargs["split"] == 1


def test_a_region_gives_its_split() -> None:
    assert call("pl.aiv_shard", TILE, region=SplitMode.LEFT_RIGHT).kwargs == {"split": 2}
    assert call("pl.aiv_shard", TILE).kwargs == {}


def test_an_argument_with_a_known_mistake_gives_an_unknown_result() -> None:
    assert call("pl.add", BROKEN, TENSOR).type is not None
    assert isinstance(call("pl.add", TENSOR, BROKEN).type, type(UNKNOWN))
    assert isinstance(call("pl.min", BROKEN, INDEX).type, type(UNKNOWN))


def test_unknown_operations_name_the_nearest_and_the_other_layer() -> None:
    near = refused("pl.matmull", TENSOR)
    assert near.code == "E203"
    assert near.span == span(91)
    assert "pl.matmul" in (near.hint or "")
    elsewhere = refused("pl.tensor.load", TENSOR)
    assert "pl.tile.load" in (elsewhere.hint or "")
    assert "pl.add" in spellings()
    assert "pl.tensor.and_" in spellings()


def test_mixed_layers_label_both_operands() -> None:
    found = refused("pl.add", TILE, TENSOR)
    assert found.code == "E310"
    assert found.span == span(2)
    assert [label.text for label in found.labels] == ["this is a Tile", "this is a Tensor"]


def test_scalar_only_operations_say_what_to_use_for_tensors() -> None:
    found = refused("pl.max", TILE, TILE)
    assert found.code == "E313"
    assert "pl.maximum" in (found.hint or "")


@pytest.mark.parametrize(
    ("path", "values", "keywords", "code", "column", "hint"),
    [
        ("pl.load", (TENSOR, ints(0, 0)), {}, "E314", 90, "shapes"),
        ("pl.tensor.row_sum", (TENSOR, INDEX), {}, "E314", 2, "pl.tensor.row_sum(input)"),
        ("pl.fillpad", (TENSOR,), {"padvalue": INDEX}, "E314", 50, "pad_value"),
        ("pl.add", (TENSOR,), {"lhs": TENSOR}, "E314", 50, None),
        ("pl.load", (TENSOR, INDEX, ints(16, 64)), {}, "E315", 2, None),
        ("pl.load", (TILE, ints(0, 0), ints(16, 64)), {}, "E315", 1, "global memory"),
        ("pl.cast", (TENSOR, dtypes.FP16), {"mode": "ronud"}, "E315", 50, "round"),
        ("pl.fillpad", (TENSOR,), {"pad_value": dtypes.FP16}, "E315", 50, "pl.PadValue"),
        ("pl.gather", (TENSOR, INDEX, INTS), {}, "E315", 2, "constant integer"),
        ("pl.row_sum", (TILE,), {}, "E312", 90, "pl.create_tile([16, 64], dtype=pl.FP32"),
        ("pl.row_sum", (TENSOR,), {"tmp_tile": TILE}, "E312", 50, "leave it out"),
        ("pl.row_sum", (TENSOR, TILE), {}, "E312", 2, "leave it out"),
        ("pl.matmul", (TILE, TILE), {"b_trans": n.const(True)}, "E313", 50, "transpose_view"),
        ("pl.matmul", (TILE, TILE), {"out_dtype": dtypes.FP16}, "E313", 50, "leave it out"),
        ("pl.picky", (TENSOR, TENSOR), {}, "E302", 2, "reshape"),
        ("pl.cast", (INDEX, n.const(3)), {}, "E314", 2, "pl.cast(x"),
        ("pl.add", (INDEX, GAIN), {}, "E110", 1, "pl.cast"),
    ],
)
def test_refusals(
    path: str, values: tuple[object, ...], keywords: dict[str, object], code: str, column: int, hint: str | None
) -> None:
    found = refused(path, *values, **keywords)
    assert (found.code, found.span and found.span.column) == (code, column), found.message
    assert (hint or "") in (found.hint or "")


def test_harmless_keywords_of_the_other_layer_are_taken() -> None:
    assert call("pl.matmul", TILE, TILE, b_trans=n.const(False), out_dtype=dtypes.FP32).kwargs == {}


def test_labels_of_an_op_error_point_at_the_arguments() -> None:
    found = refused("pl.picky", TENSOR, TENSOR)
    assert [(label.span.column, label.text) for label in found.labels] == [(1, "this one")]


# --- scalar typing ----------------------------------------------------------------------------------------------------


def test_the_narrower_scalar_is_cast_to_the_wider() -> None:
    short = n.Var(name="s", type=ScalarType(dtypes.INT16))
    found = scalars.binary("Add", short, n.Var(name="w", type=ScalarType(dtypes.INT32)))
    assert isinstance(found, n.Binary)
    assert isinstance(found.left, n.Unary)
    assert n.scalar_dtype(found) is dtypes.INT32
    same_width = scalars.binary("Add", INDEX, n.Var(name="l", type=ScalarType(dtypes.INT64)))
    assert isinstance(same_width, n.Binary)
    assert isinstance(same_width.right, n.Var)
    assert n.scalar_dtype(same_width) is dtypes.INDEX


def test_results_of_scalar_operators() -> None:
    assert scalars.binary("Lt", INDEX, INDEX).type is n.BOOL
    assert n.scalar_dtype(scalars.binary("FloatDiv", INDEX, INDEX)) is dtypes.FP32
    flag = scalars.binary("Eq", INDEX, INDEX)
    assert scalars.binary("And", flag, flag).type is n.BOOL
    assert scalars.unary("Not", flag).type is not None
    assert isinstance(scalars.binary("Add", BROKEN, INDEX).type, type(UNKNOWN))


@pytest.mark.parametrize(
    ("op_name", "left", "right", "argument"),
    [
        ("Add", INDEX, n.const(True), 1),
        ("Lt", n.const(True), n.const(True), 0),
        ("And", INDEX, n.const(True), 0),
        ("BitShiftLeft", GAIN, INDEX, 0),
        ("Mul", GAIN, INDEX, 1),
        ("Add", TENSOR, INDEX, 0),
    ],
)
def test_scalar_operators_refuse(op_name: str, left: n.Expr, right: n.Expr, argument: int) -> None:
    with pytest.raises(OpError) as caught:
        scalars.binary(op_name, left, right)
    assert caught.value.argument == argument


@pytest.mark.parametrize(("op_name", "operand"), [("Not", INDEX), ("BitNot", GAIN), ("Neg", n.const(True))])
def test_scalar_signs_refuse(op_name: str, operand: n.Expr) -> None:
    with pytest.raises(OpError):
        scalars.unary(op_name, operand)
