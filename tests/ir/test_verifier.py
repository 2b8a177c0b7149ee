"""The verifier: no false alarm on real dumps, every kind of damage found with its code."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pypto_lab.frontend.dump import dump_files, read_dump
from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import Direction, FunctionType, Level, MemorySpace
from pypto_lab.ir.types import ArrayType, MemRef, ScalarType, TensorType, TileType
from pypto_lab.ir.verifier import Verified, stage_of, verify

DUMPS = Path(__file__).parent.parent / "data" / "dumps"
HEAD = (
    "# pypto.program: P\nimport pypto.language as pl\n\n@pl.program\nclass P:\n"
    "    @pl.function(type=pl.FunctionType.InCore)\n"
    "    def f(x: pl.Tensor[[4, 8], pl.FP32], o: pl.Out[pl.Tensor[[4, 8], pl.FP32]], n: pl.Scalar[pl.INDEX]) -> "
    "pl.Tensor[[4, 8], pl.FP32]:\n"
)
TILE = "pl.Tile[[4, 8], pl.FP32, pl.Mem.Vec]"
TENSOR = "pl.Tensor[[4, 8], pl.FP32]"


def codes(*lines: str, stage: str | None = None, head: str = HEAD) -> list[str]:
    text = head + "".join(f"        {line}\n" for line in lines)
    found = verify(read_dump(text), stage=stage)
    assert all(d.span is not None for d in found)
    return [d.code for d in found]


def body_codes(body: tuple[n.Stmt, ...], *params: n.Var, stage: str | None = None, **fields: object) -> list[str]:
    settings: dict[str, object] = {"return_types": (), "body": body, **fields}
    made = n.Function(name="f", params=tuple(n.Param(var=p) for p in params), **settings)  # type: ignore[arg-type]
    return [d.code for d in verify(n.Program(name="P", functions={"f": made}), stage=stage)]


def scalar(name: str) -> n.Var:
    return n.Var(name=name, type=n.INDEX)


@pytest.mark.parametrize("path", dump_files([DUMPS]), ids=lambda p: f"{p.parent.parent.name}/{p.stem}")
def test_real_dumps_are_clean_at_their_stage(path: Path) -> None:
    program = read_dump(path.read_text(encoding="utf-8"), str(path))
    assert verify(program, stage=stage_of(path.name)) == []


def test_tour_is_clean() -> None:
    assert verify(read_dump((DUMPS / "tour.py").read_text(encoding="utf-8"))) == []


def test_stages_by_file_name() -> None:
    assert stage_of("00_frontend.py") == "frontend"
    assert stage_of("a/b/05_after_Simplify.py") == "ssa"
    assert stage_of("49_after_X.py") == "directions"
    assert stage_of("notes.py") is None
    with pytest.raises(ValueError, match="unknown stage"):
        verify(n.Program(name="P", functions={}), stage="later")


def test_early_dumps_break_later_stages() -> None:
    """A stage's checks do find what its passes have not done yet."""
    early = DUMPS / "k33_flash_mini" / "passes_explicit"
    expected = {
        "00_frontend.py": ("outlined", {"V001", "V601", "V602"}),
        "11_after_ConvertTensorToTileOps.py": ("memrefs", {"V605"}),
        "22_after_ExpandMixedKernel.py": ("memrefs", {"V605"}),
        "35_after_AllocateMemoryAddr.py": ("directions", {"V609"}),
    }
    for name, (stage, found) in expected.items():
        text = (early / name).read_text(encoding="utf-8")
        assert {d.code for d in verify(read_dump(text), stage=stage)} >= found


class TestSsa:
    def test_v001_multiple_assignment(self) -> None:
        lines = ("a: pl.Scalar[pl.INDEX] = n", "a: pl.Scalar[pl.INDEX] = n + 1", "return o")
        assert codes(*lines, stage="ssa") == ["V001"]
        assert codes(*lines) == []

    def test_v001_parameter_twice(self) -> None:
        a = scalar("a")
        assert "V001" in body_codes((), a, a)

    def test_v002_loop_variable_shadows(self) -> None:
        a = scalar("a")
        loop = n.For(loop_var=a, start=n.const(0), stop=n.const(2), step=n.const(1), body=())
        assert body_codes((loop,), a, stage="ssa") == ["V002"]

    def test_v003_missing_yield(self) -> None:
        r, a = scalar("r"), scalar("a")
        branch = n.If(condition=n.const(True), then_body=(n.Yield(values=(a,)),), return_vars=(r,))
        assert body_codes((branch,), a) == ["V003"]

    def test_v004_results_and_carried_values_differ(self) -> None:
        a = scalar("a")
        arg = n.IterArg(name="c", type=n.INDEX, init_value=a)
        loop = n.While(condition=n.const(True), body=(n.Yield(values=(arg,)),), iter_args=(arg,))
        assert body_codes((loop,), a) == ["V004"]

    def test_v005_yield_count(self) -> None:
        r, a = scalar("r"), scalar("a")
        branches = ((n.Yield(values=(a,)),), (n.Yield(values=(a, a)),))
        made = n.If(condition=n.const(True), then_body=branches[0], else_body=branches[1], return_vars=(r,))
        assert body_codes((made,), a) == ["V005"]

    def test_v006_use_outside_the_block(self) -> None:
        lines = (
            "for i, (c,) in pl.range(2, init_values=(n,)):",
            "    d: pl.Scalar[pl.INDEX] = c + 1",
            "    r: pl.Scalar[pl.INDEX] = pl.yield_(d)",
            "e: pl.Scalar[pl.INDEX] = d + r",
            "return o",
        )
        assert codes(*lines) == ["V006"]

    def test_v006_loop_variable_after_a_plain_loop(self) -> None:
        lines = (
            "for i in pl.range(2):",
            "    a: pl.Scalar[pl.INDEX] = i",
            "b: pl.Scalar[pl.INDEX] = a + i",
            "return o",
        )
        assert codes(*lines) == ["V006"]

    def test_v007_yield_is_not_last(self) -> None:
        a, r = scalar("a"), scalar("r")
        arg = n.IterArg(name="c", type=n.INDEX, init_value=a)
        loop = n.While(
            condition=n.const(True), body=(n.Yield(values=(arg,)), n.Continue()), iter_args=(arg,), return_vars=(r,)
        )
        assert set(body_codes((loop,), a)) == {"V003", "V007"}

    def test_v401_use_before_definition(self) -> None:
        a, b = scalar("a"), scalar("b")
        body = (n.Assign(var=b, value=a), n.Assign(var=a, value=n.const(1)))
        assert body_codes(body) == ["V401"]


class TestTypes:
    def test_v101_kind(self) -> None:
        assert codes("a: pl.Scalar[pl.INDEX] = x", "return o") == ["V101"]

    def test_v102_dtype(self) -> None:
        assert codes("a: pl.Tensor[[4, 8], pl.FP16] = x", "return o") == ["V102"]

    def test_v102_index_is_any_integer_but_no_float(self) -> None:
        assert codes("a: pl.Scalar[pl.INT64] = n", "return o") == []
        assert codes("a: pl.Scalar[pl.FP32] = n", "return o") == ["V102"]

    def test_v103_rank_and_v104_dimension(self) -> None:
        assert codes("a: pl.Tensor[[4, 8, 1], pl.FP32] = x", "return o") == ["V103"]
        assert codes("a: pl.Tensor[[4, 9], pl.FP32] = x", "return o") == ["V104"]

    def test_v104_carried_value_changes_its_shape(self) -> None:
        lines = (
            "for i, (c,) in pl.range(2, init_values=(x,)):",
            "    d: pl.Tensor[[2, 8], pl.FP32] = pl.tensor.slice(c, [2, 8], [0, 0])",
            f"    r: {TENSOR} = pl.yield_(d)",
            "return o",
        )
        assert codes(*lines) == ["V104"]

    def test_v106_and_v108_conditions(self) -> None:
        assert codes("if x:", "    pass", "return o") == ["V106"]
        assert codes("if n:", "    pass", "return o") == ["V108"]

    def test_v107_loop_bounds(self) -> None:
        assert codes("for i in pl.range(x):", "    pass", "return o") == ["V107"]

    def test_v205_return_values(self) -> None:
        assert codes("return o, x") == ["V205"]
        assert codes("return n") == ["V101"]


class TestCalls:
    def test_v202_v203_and_argument_types(self) -> None:
        callee = n.Function(name="g", params=(n.Param(var=scalar("a")),), return_types=(), body=())
        x = n.Var(name="x", type=TensorType(shape=(n.const(4),), dtype=dtypes.FP32))

        def found(call: n.Expr) -> list[str]:
            body = (n.Eval(expr=call),)
            caller = n.Function(name="f", params=(n.Param(var=x),), return_types=(), body=body)
            program = n.Program(name="P", functions={"g": callee, "f": caller})
            return [d.code for d in verify(program)]

        assert found(n.FunctionCall(callee="h", args=(), type=n.INDEX)) == ["V202"]
        assert found(n.FunctionCall(callee="g", args=(), type=n.INDEX)) == ["V203"]
        assert found(n.FunctionCall(callee="g", args=(x,), type=n.INDEX)) == ["V101"]
        assert found(n.Submit(callee="g", args=(n.const(1),), type=n.INDEX)) == []
        edges = n.FunctionCall(callee="g", args=(n.const(1),), attrs={"manual_dep_edges": ()}, type=n.INDEX)
        assert found(edges) == ["V505"]

    def test_v609_directions(self) -> None:
        path = DUMPS / "k09_softmax_rows" / "passes_explicit" / "49_after_MaterializeValidShapeSymbols.py"
        text = path.read_text(encoding="utf-8")
        broken = text.replace("pl.adir.input, ", "", 1).replace(", pl.adir.input", "", 1)
        assert broken != text
        assert "V609" in {d.code for d in verify(read_dump(broken), stage="directions")}
        assert "V609" not in {d.code for d in verify(read_dump(broken), stage="addresses")}


class TestStructure:
    def test_v501_break_outside_a_sequential_loop(self) -> None:
        assert codes("break", "return o") == ["V501"]
        assert codes("for i in pl.parallel(2):", "    break", "return o") == ["V501"]
        assert codes("for i in pl.range(2):", "    break", "return o") == []

    def test_v502_incore_inside_incore(self) -> None:
        at = "with pl.at(level=pl.Level.CORE_GROUP):"
        assert codes(at, f"    {at}", "        pass", "return o") == ["V502"]

    def test_v503_pipeline_and_its_stages(self) -> None:
        assert codes("for i in pl.pipeline(2):", "    pass", "return o") == ["V503"]
        assert codes("for i in pl.range(2, stage=2):", "    pass", "return o") == ["V503"]

    def test_v504_arrays_stay_inside(self) -> None:
        array = n.Var(name="a", type=ArrayType(extent=n.const(4), dtype=dtypes.INT32))
        assert body_codes((), array) == ["V504"]
        assert body_codes((), array, func_type=FunctionType.Inline) == []

    def test_v506_atomic_add_dtype(self) -> None:
        line = f"t: {TENSOR} = pl.tile.store(x, [0, 0], o, atomic=pl.AtomicType.Add)"
        assert codes(line, "return o") == []
        wide = HEAD.replace("FP32", "UINT64")
        assert "V506" in codes(line.replace("FP32", "UINT64"), "return o", head=wide)

    def test_v507_output_bound_to_a_new_buffer(self) -> None:
        create = f"{TENSOR} = pl.tensor.create([4, 8], dtype=pl.FP32, layout=pl.TensorLayout.ND)"
        assert codes(f"o: {create}", "return o") == ["V507"]
        assert codes(f"fresh: {create}", "return o") == []

    def test_v510_to_v512_types(self) -> None:
        homeless = TileType(shape=(n.const(4),), dtype=dtypes.FP32, memref=MemRef(base="m"))
        odd = TensorType(shape=(n.const(3),), dtype=dtypes.FP4)
        empty = ArrayType(extent=n.const(0), dtype=dtypes.INT32)
        floats = ArrayType(extent=n.const(2), dtype=dtypes.FP32)
        for type_, code in ((homeless, "V510"), (odd, "V511"), (empty, "V512"), (floats, "V512")):
            var = n.Var(name="v", type=type_)
            value = n.OpCall(op="tile.op", args=(), type=type_)
            assert body_codes((n.Assign(var=var, value=value),)) == [code]

    def test_v513_level_contradicts_type(self) -> None:
        assert body_codes((), func_type=FunctionType.AIV, level=Level.AIC) == ["V513"]
        assert body_codes((), func_type=FunctionType.AIV, level=Level.AIV) == []

    def test_v514_scalar_inout(self) -> None:
        param = n.Param(var=n.Var(name="s", type=ScalarType(dtypes.FP32)), direction=Direction.InOut)
        made = n.Function(name="f", params=(param,), return_types=(), body=())
        assert [d.code for d in verify(n.Program(name="P", functions={"f": made}))] == ["V514"]


class TestStages:
    def test_v601_nested_calls(self) -> None:
        lines = (f"t: {TENSOR} = pl.tensor.adds(pl.tensor.exp(x), 1.0)", "return o")
        assert codes(*lines, stage="ssa") == []
        assert codes(*lines, stage="flat") == ["V601"]
        assert codes("if pl.tensor.read(x, [0, 0]) < 1.0:", "    pass", "return o", stage="flat") == ["V601"]

    def test_v602_scopes_left(self) -> None:
        lines = ("with pl.cluster():", "    pass", "return o")
        assert codes(*lines, stage="flat") == []
        assert codes(*lines, stage="outlined") == ["V602"]

    def test_v603_tensor_ops_left_on_core(self) -> None:
        lines = (f"t: {TENSOR} = pl.tensor.exp(x)", "return o")
        assert codes(*lines, stage="outlined") == []
        assert codes(*lines, stage="tiles") == ["V603"]

    def test_v604_space_v605_memref(self) -> None:
        lines = ("t: pl.Tile[[4, 8], pl.FP32] = pl.tile.load(x, [0, 0], [4, 8], [4, 8])", "return o")
        assert codes(*lines, stage="tiles") == []
        assert codes(*lines, stage="spaces") == ["V604"]
        assert codes(*lines, stage="memrefs") == ["V604", "V605"]

    def test_v605_spares_what_a_pipe_holds(self) -> None:
        lines = (f"t: {TILE} = pl.tile.tpop_from_aic(split=0)", f"u: {TILE} = t", "return o")
        assert codes(*lines, stage="memrefs") == []

    def test_v606_allocation(self) -> None:
        type_ = "pl.Tile[[4, 8], pl.FP32, pl.MemRef(m, pl.const(0, pl.INT64), 128), pl.Mem.Vec]"
        line = f"t: {type_} = pl.tile.load(x, [0, 0])"
        assert codes(line, "return o", stage="memrefs") == ["V606"]
        there = "m: pl.Ptr = pl.tile.alloc(pl.Mem.{}, 128)"
        assert codes(there.format("Vec"), line, "return o", stage="memrefs") == []
        assert codes(there.format("Mat"), line, "return o", stage="memrefs") == ["V606"]

    def test_v607_addresses(self) -> None:
        def found(offset: str) -> list[str]:
            memref = f"pl.MemRef(m, {offset}, 128)"
            line = f"t: pl.Tile[[4, 8], pl.FP32, {memref}, pl.Mem.Left] = pl.tile.load(x, [0, 0])"
            return codes("m: pl.Ptr = pl.tile.alloc(pl.Mem.Left, 128)", line, "return o", stage="addresses")

        assert found("pl.const(65408, pl.INT64)") == []
        assert found("pl.const(65409, pl.INT64)") == ["V607"]
        assert found("n") == ["V607"]


def test_findings_do_not_repeat_for_one_variable() -> None:
    a = scalar("a")
    body = tuple(n.Assign(var=scalar(f"b{i}"), value=a) for i in range(3))
    assert body_codes(body) == ["V401"]


def test_damage_to_a_real_program_is_found() -> None:
    path = DUMPS / "k33_flash_mini" / "passes_explicit" / "35_after_AllocateMemoryAddr.py"
    program = read_dump(path.read_text(encoding="utf-8"))
    function = program.functions["flash_aiv"]
    assert function.body is not None
    for index, stmt in enumerate(function.body):
        if not (isinstance(stmt, n.Assign) and isinstance(stmt.value, n.OpCall) and stmt.value.op == "tile.alloc"):
            continue
        rest = function.body[:index] + function.body[index + 1 :]
        broken = dataclasses.replace(function, body=rest)
        found = verify(n.Program(name="P", functions={**program.functions, "flash_aiv": broken}), stage="addresses")
        assert {d.code for d in found} == {"V606"}
        assert stmt.value.kwargs["memory_space"] is MemorySpace.Vec


def test_an_integer_will_do_where_a_bool_is_wanted() -> None:
    flag = n.Var(name="flag", type=n.BOOL)
    worker = n.Function(name="g", params=(n.Param(var=flag),), return_types=(), body=())
    for dtype, wanted in ((dtypes.INDEX, []), (dtypes.INT32, []), (dtypes.FP32, ["V102"])):
        given = n.Var(name="x", type=ScalarType(dtype))
        call = n.Eval(expr=n.FunctionCall(callee="g", args=(given,), type=n.INDEX))
        caller = n.Function(name="f", params=(n.Param(var=given),), return_types=(), body=(call,))
        assert [d.code for d in verify(n.Program(name="P", functions={"g": worker, "f": caller}))] == wanted


def test_the_number_of_blocks_of_a_launch_is_a_use() -> None:
    call = n.FunctionCall(callee="g", args=(), attrs={"core_num": scalar("blocks")}, type=n.INDEX)
    worker = n.Function(name="g", params=(), return_types=(), body=())
    caller = n.Function(name="f", params=(), return_types=(), body=(n.Eval(expr=call),))
    assert [d.code for d in verify(n.Program(name="P", functions={"g": worker, "f": caller}))] == ["V401"]


def test_what_is_remembered_depends_on_the_callee() -> None:
    """A function that stays the same is looked at again when what it calls has other parameters."""
    given = scalar("x")
    call = n.Eval(expr=n.FunctionCall(callee="g", args=(given,), type=n.INDEX))
    caller = n.Function(name="f", params=(n.Param(var=given),), return_types=(), body=(call,))
    known: Verified = {}
    for params, wanted in (((n.Param(var=scalar("y")),), []), ((), ["V203"])):
        worker = n.Function(name="g", params=params, return_types=(), body=())
        program = n.Program(name="P", functions={"g": worker, "f": caller})
        assert [d.code for d in verify(program, known=known)] == wanted
        assert verify(program, known=known) == verify(program)
