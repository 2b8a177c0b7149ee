"""What the front end makes of each construct: statements, loops, scopes, subscripts, calls, jit specialisation."""
# ruff: noqa: E501 (kernel texts on one line keep the tables readable)

from __future__ import annotations

import numpy
import pytest

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import Direction, ForKind, FunctionType, Level, MemorySpace, Role, SplitMode
from pypto_lab.ir.printer import print_stmt
from pypto_lab.ir.types import ArrayType, ScalarType, TensorType, TileType
from pypto_lab.ir.visitor import walk
from tests.frontend.reading import Sample, errors, findings, kernel_of, module_of, read

A = "pl.Tensor[[16, 64], pl.FP32]"


def incore(*lines: str, params: str = "", head: str = "") -> n.Function:
    """The function of a jit.incore body with `x`, `n` and `out`."""
    extra = f", {params}" if params else ""
    text = (
        f"{head}\n@pl.jit.incore\ndef k(x: {A}, n: pl.Scalar[pl.INDEX], out: pl.Out[{A}]{extra}):\n    "
        + "\n    ".join(lines)
        + "\n    return out\n"
    )
    return read(text).functions["k"]


def printed(function: n.Function) -> str:
    return "\n".join(print_stmt(s) for s in function.body or ())


# --- names and renaming -----------------------------------------------------------------------------------------------


def test_a_plain_rebinding_at_the_same_depth_is_renamed_in_jit() -> None:
    text = printed(
        incore("t = pl.load(x, [0, 0], [16, 64])", "t = pl.abs(t)", "t = pl.exp(t)", "out = pl.store(t, [0, 0], out)")
    )
    assert "t_v1: " in text
    assert "t_v2: " in text
    assert "pl.tile.exp(t_v1)" in text
    assert "return out_v1" in text


def test_a_loop_carried_name_keeps_its_variable() -> None:
    function = incore(
        "t = pl.load(x, [0, 0], [16, 64])",
        "for i in pl.range(n):",
        "    t = pl.abs(t)",
        "out = pl.store(t, [0, 0], out)",
    )
    body = function.body or ()
    first, loop = body[0], body[1]
    assert isinstance(first, n.Assign)
    assert isinstance(loop, n.For)
    inner = loop.body[0]
    assert isinstance(inner, n.Assign)
    assert inner.var is first.var


def test_a_function_keeps_the_variable_on_rebinding() -> None:
    program = read(
        f"""
        @pl.function(type=pl.FunctionType.InCore)
        def k(x: {A}, out: pl.Out[{A}]) -> {A}:
            t = pl.load(x, [0, 0], [16, 64])
            t = pl.abs(t)
            out = pl.store(t, [0, 0], out)
            return out
        """
    )
    body = program.functions["k"].body or ()
    assert [s.var.name for s in body if isinstance(s, n.Assign)] == ["t", "t", "out"]
    assert body[0].var is body[1].var  # type: ignore[union-attr]
    assert body[2].var is program.functions["k"].param("out").var  # type: ignore[union-attr]


def test_a_sibling_scope_may_use_a_name_for_another_shape() -> None:
    program = read(
        f"""
        @pl.jit
        def k(x: {A}, out: pl.Out[{A}]):
            with pl.at(level=pl.Level.CORE_GROUP):
                t = pl.slice(x, [8, 64], [0, 0])
                out[0:8, :] = pl.abs(t)
            with pl.at(level=pl.Level.CORE_GROUP):
                t = pl.slice(x, [16, 32], [0, 0])
                out[:, 0:32] = pl.abs(t)
            return out
        """
    )
    made = [s.var for s in walk(program) if isinstance(s, n.Assign) and s.var.name == "t"]
    assert len(made) == 2
    assert made[0] is not made[1]


def test_names_of_branches_leak_and_share_one_variable() -> None:
    function = incore(
        "if n > 2:",
        "    t = pl.load(x, [0, 0], [16, 64])",
        "else:",
        "    t = pl.tile.full([16, 64], dtype=pl.FP32, value=0.0)",
        "out = pl.store(t, [0, 0], out)",
    )
    branch = (function.body or ())[0]
    assert isinstance(branch, n.If)
    assert branch.then_body[0].var is branch.else_body[0].var  # type: ignore[union-attr]


def test_swapping_names_evaluates_first() -> None:
    text = printed(
        incore(
            "a = pl.load(x, [0, 0], [16, 64])",
            "b = pl.abs(a)",
            "for i in pl.range(n):",
            "    a, b = b, a",
            "out = pl.store(a, [0, 0], out)",
        )
    )
    assert "a: pl.Tile[[16, 64], pl.FP32, pl.Mem.Vec] = b_old" in text
    assert "b: pl.Tile[[16, 64], pl.FP32, pl.Mem.Vec] = a_old" in text


# --- constants --------------------------------------------------------------------------------------------------------


def test_constants_fold_by_python_and_variables_do_not() -> None:
    text = printed(
        incore(
            "i = n // 2 + K // 3", "j = (K + 1) * 2", "t = pl.load(x, [0, 0], SHAPE)", head="K = 7\nSHAPE = [16, 64]"
        )
    )
    assert "i: pl.Scalar[pl.INDEX] = n // 2 + 2" in text
    assert "j: pl.Scalar[pl.INDEX] = 16" in text
    assert "[16, 64], [16, 64], target_memory" in text


def test_attributes_of_modules_and_closures_are_constants() -> None:
    module = module_of(
        f"""
        import types
        config = types.SimpleNamespace(ROWS=16, DT=pl.FP32, DEPTHS=(2, 3))
        def build(cols):
            @pl.jit
            def k(x: pl.Tensor[[config.ROWS, cols], config.DT], out: pl.Out[{A}]):
                with pl.at(level=pl.Level.CORE_GROUP):
                    for i in pl.range(config.DEPTHS[1]):
                        out[:, 0:cols] = pl.mul(x, 2.0)
                return out
            return k
        built = build(64)
        """
    )
    from pypto_lab.frontend.source import program_of

    program = program_of(module.built)
    assert "pl.range(3)" in program.as_python()
    assert "x: pl.Tensor[[16, 64], pl.FP32]" in program.as_python()


def test_numpy_scalars_are_numbers() -> None:
    assert "muls(t, 0.5)" in printed(
        incore("t = pl.load(x, [0, 0], [16, 64])", "u = pl.mul(t, S)", head="import numpy\nS = numpy.float64(0.5)")
    )


def test_scalar_arithmetic_casts_the_narrower_operand() -> None:
    text = printed(incore("a = m + n", "b = m < 3", "c = n % 2 == 0 and m > 1", params="m: pl.Scalar[pl.INT32]"))
    assert "a: pl.Scalar[pl.INDEX] = pl.cast(m, pl.INDEX) + n" in text
    assert "b: pl.Scalar[pl.BOOL] = pl.cast(m, pl.INDEX) < 3" in text
    assert "c: pl.Scalar[pl.BOOL] = n % 2 == 0 and pl.cast(m, pl.INDEX) > 1" in text


def test_typed_constants_and_byte_sizes() -> None:
    text = printed(incore("a = pl.const(7, pl.INT64)", "b = pl.BF16.get_byte() * 4"))
    assert "a: pl.Scalar[pl.INT64] = pl.const(7, pl.INT64)" in text
    assert "b: pl.Scalar[pl.INDEX] = 8" in text


def test_an_annotated_literal_takes_its_dtype() -> None:
    text = printed(incore("a: pl.Scalar[pl.INT32] = 3", "b: pl.Scalar[pl.INT32] = n + 1"))
    assert "a: pl.Scalar[pl.INT32] = pl.const(3, pl.INT32)" in text
    assert "b: pl.Scalar[pl.INT32] = pl.cast(n + 1, pl.INT32)" in text


def test_prints_go_to_the_notes() -> None:
    found = findings(
        f"ROWS = 3\n@pl.function\ndef k(x: {A}) -> {A}:\n    pl.static_print('rows', ROWS)\n    return x\n"
    )
    assert [(d.code, d.message) for d in found] == [("N010", "rows ROWS = 3")]


def test_a_static_assertion_sees_shapes() -> None:
    assert not list(
        findings(f"@pl.function\ndef k(x: {A}) -> {A}:\n    pl.static_assert(x.shape[1] == 64)\n    return x\n")
    )


def test_a_dead_branch_for_other_constants_is_left_out() -> None:
    text = printed(
        incore(
            "t = pl.load(x, [0, 0], [16, 64])",
            "if PAD > 64:",
            "    u = t[:, 64:PAD]",
            "out = pl.store(t, [0, 0], out)",
            head="PAD = 64",
        )
    )
    assert "slice" not in text


# --- loops ------------------------------------------------------------------------------------------------------------


def test_loop_forms() -> None:
    function = incore(
        "t = pl.load(x, [0, 0], [16, 64])",
        "for a in pl.range(1, n, 2):",
        "    t = pl.abs(t)",
        "for b in pl.parallel(4):",
        "    t = pl.abs(t)",
        "for c in pl.unroll(2):",
        "    t = pl.abs(t)",
        "for d in pl.pipeline(8, stage=2):",
        "    t = pl.abs(t)",
    )
    loops = [s for s in function.body or () if isinstance(s, n.For)]
    assert [s.kind for s in loops] == [ForKind.Sequential, ForKind.Parallel, ForKind.Unroll, ForKind.Pipeline]
    assert loops[3].attrs == {"pipeline_stages": 2}
    assert isinstance(loops[0].step, n.ConstInt)
    assert loops[0].step.value == 2


def test_carried_values_and_their_results() -> None:
    function = incore(
        "t = pl.load(x, [0, 0], [16, 64])",
        "for i, (a, b) in pl.range(4, init_values=(t, 0)):",
        "    a1 = pl.abs(a)",
        "    a2, b2 = pl.yield_(a1, b + i)",
        "out = pl.store(a2, [b2, 0], out)",
    )
    loop = (function.body or ())[1]
    assert isinstance(loop, n.For)
    assert [a.name for a in loop.iter_args] == ["a", "b"]
    assert [v.name for v in loop.return_vars] == ["a2", "b2"]
    assert isinstance(loop.body[-1], n.Yield)


def test_a_while_carries_the_names_it_rebinds() -> None:
    function = incore("i = n + 1", "while i > 1:", "    i = i // 2")
    loop = (function.body or ())[1]
    assert isinstance(loop, n.While)
    assert loop.iter_args == ()
    assert loop.body[0].var is (function.body or ())[0].var  # type: ignore[union-attr]


def test_leaving_a_loop() -> None:
    function = incore("for i in pl.range(4):", "    if i > n:", "        break", "    continue")
    kinds = {type(s) for s in walk(function)}
    assert {n.Break, n.Continue} <= kinds


def test_branch_results() -> None:
    function = incore(
        "if n > 1:", "    v: pl.Scalar[pl.INDEX] = pl.yield_(n)", "else:", "    v = pl.yield_(n + 1)", "w = v * 2"
    )
    branch = (function.body or ())[0]
    assert isinstance(branch, n.If)
    assert [v.name for v in branch.return_vars] == ["v"]
    assert isinstance(branch.then_body[-1], n.Yield)


# --- scopes -----------------------------------------------------------------------------------------------------------


def scopes(*lines: str, head: str = "@pl.jit") -> tuple[n.Stmt, ...]:
    text = f"{head}\ndef k(x: {A}, out: pl.Out[{A}]):\n    " + "\n    ".join(lines) + "\n    return out\n"
    return read(text).functions["k"].body or ()


def test_core_group_scope() -> None:
    scope = scopes(
        "with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.UP_DOWN), "
        'pl.cross_core_slot(slot_num=4)], name_hint="h", allow_early_resolve=True) as tid:',
        "    out[:] = pl.abs(x)",
    )[0]
    assert isinstance(scope, n.InCoreScope)
    assert scope.split is SplitMode.UP_DOWN
    assert scope.name_hint == "h"
    assert scope.attrs == {"slot_num": 4, "allow_early_resolve": True}
    assert scope.task_id is not None
    assert scope.task_id.name == "tid"


def test_scope_dependencies_and_higher_levels() -> None:
    found = scopes(
        "with pl.at(level=pl.Level.CHIP, role=pl.Role.Orchestrator):",
        "    with pl.at(level=pl.Level.CORE_GROUP) as a:",
        "        out[:] = pl.abs(x)",
        "    with pl.at(level=pl.Level.CORE_GROUP, deps=[a], no_dep_args=[x]):",
        "        out[:] = pl.abs(x)",
    )
    outer = found[0]
    assert isinstance(outer, n.HierarchyScope)
    assert (outer.level, outer.role) == (Level.CHIP, Role.Orchestrator)
    first, second = outer.body
    assert isinstance(first, n.InCoreScope)
    assert isinstance(second, n.InCoreScope)
    assert second.attrs["deps"] == (first.task_id,)
    assert [v.name for v in second.attrs["no_dep_args"]] == ["x"]


def test_runtime_scopes_clusters_and_lanes() -> None:
    found = scopes(
        "with pl.scope():",
        "    with pl.manual_scope():",
        "        with pl.cluster(name_hint='c'):",
        "            for lane in pl.split_aiv(2, mode=pl.SplitMode.LEFT_RIGHT):",
        "                out[:] = pl.abs(x)",
        head="@pl.jit(auto_scope=False)",
    )
    kinds = [type(s) for s in walk(found[0]) if isinstance(s, n.Scope)]
    assert kinds == [n.RuntimeScope, n.RuntimeScope, n.ClusterScope, n.SplitAivScope]


def test_spmd_forms_are_one() -> None:
    loop = scopes("for b in pl.spmd(4, sync_start=True):", "    out[b : b + 1, :] = pl.abs(x[b : b + 1, :])")[0]
    block = scopes(
        "with pl.spmd(4) as tid:", "    b = pl.tile.get_block_idx()", "    out[b : b + 1, :] = pl.abs(x[b : b + 1, :])"
    )[0]
    assert isinstance(loop, n.SpmdScope)
    assert isinstance(block, n.SpmdScope)
    assert loop.sync_start
    assert (loop.loop_var or block.loop_var) is not None
    assert block.loop_var is not None
    assert block.loop_var.name == "b"
    assert block.task_id is not None
    assert len(loop.body) == len(block.body) == 1


# --- subscripts -------------------------------------------------------------------------------------------------------


def test_tensor_windows() -> None:
    text = "\n".join(
        print_stmt(s)
        for s in scopes(
            "with pl.at(level=pl.Level.CORE_GROUP):",
            "    for i in pl.range(4):",
            "        a = x[i : i + 4, 0:32]",
            "        b = x[i, 0:32]",
            "        c = x[i]",
            "        s = x[i, 3]",
            "        out[i, 0:32] = b",
            "        out[i : i + 4, 32:64] = a",
        )
    )
    assert "a: pl.Tensor[[4, 32], pl.FP32] = pl.tensor.slice(x, [4, 32], [i, 0])" in text
    assert "b: pl.Tensor[[32], pl.FP32] = pl.tensor.slice(x, [1, 32], [i, 0], [], [0])" in text
    assert "c: pl.Tensor[[64], pl.FP32]" in text
    assert "s: pl.Scalar[pl.FP32] = pl.tensor.read(x, [i, 3])" in text
    assert "pl.tensor.assemble(out, pl.tensor.reshape(b, [1, 32]), [i, 0])" in text
    assert "pl.tensor.assemble(out, a, [i, 32])" in text


def test_tile_windows_follow_the_valid_shape() -> None:
    text = printed(
        incore(
            "t = pl.load(x, [0, 0], [16, 64], valid_shape=[n, 40])",
            "a = t[0:8, 0:32]",
            "b = t[:, 32:64]",
            "c = t[0:n, :]",
            "s = t[0, 1]",
        )
    )
    assert "pl.tile.slice(t, [8, 32], [0, 0], [pl.max(pl.min(8, n), 0), 32])" in text
    assert "pl.tile.slice(t, [16, 32], [0, 32], [n, 8])" in text
    assert "c: pl.Tile[[16, 64], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[n, 40])]" in text
    assert "pl.tile.read(t, [0, 1])" in text


def test_arrays() -> None:
    function = incore("a = pl.array.create(4, pl.INT32)", "a[1] = 7", "b = a[1]")
    made = [s for s in function.body or () if isinstance(s, n.Assign)]
    assert isinstance(made[0].var.type, ArrayType)
    assert made[1].var is made[0].var
    assert isinstance(made[2].value, n.OpCall)
    assert made[2].value.op == "array.get_element"


# --- calls ------------------------------------------------------------------------------------------------------------

LAUNCHES = f"""
@pl.program
class P:
    @pl.function(type=pl.FunctionType.Orchestration)
    def drive(self, x: {A}, flags: pl.Tensor[[4], pl.INT32], o: pl.Out[{A}]) -> {A}:
        {{}}
        return o

    @pl.function(type=pl.FunctionType.InCore)
    def k(self, x: {A}, o: pl.Out[{A}]):
        t = pl.load(x, [0, 0], [16, 64])
        o = pl.store(t, [0, 0], o)
        return o
"""


def launches(*lines: str) -> n.Function:
    return read(LAUNCHES.format("\n        ".join(lines))).functions["drive"]


def test_a_call_of_a_later_function_without_return_annotation_knows_its_type() -> None:
    function = launches("o = self.k(x, o)")
    call = (function.body or ())[0]
    assert isinstance(call, n.Assign)
    assert isinstance(call.value.type, TensorType)


def test_submits() -> None:
    function = launches(
        "p, t1 = pl.submit(self.k, x, o)",
        "q, t2 = pl.spmd_submit(self.k, p, pl.no_dep(o), deps=[t1], core_num=8, sync_start=True, "
        "allow_early_resolve=True, predicate=(flags[0] > 0))",
        "r = pl.submit(self.k, q, o, deps=[None, t2])",
        "o = r[0]",
    )
    found = [e for e in walk(function) if isinstance(e, n.Submit)]
    assert [s.callee for s in found] == ["k", "k", "k"]
    spmd = found[1]
    assert isinstance(spmd.core_num, n.ConstInt)
    assert spmd.sync_start
    assert spmd.allow_early_resolve
    assert isinstance(spmd.predicate, n.Binary)
    assert isinstance(spmd.predicate.left, n.OpCall)
    assert spmd.attrs["arg_direction_overrides"][1] is not None
    assert len(found[2].deps) == 2


def test_dependencies_from_an_array_go_through_a_buffer() -> None:
    function = launches(
        "ids = pl.array.create(4, pl.TASK_ID)",
        "p, t1 = pl.submit(self.k, x, o)",
        "ids[0] = t1",
        "q, t2 = pl.submit(self.k, x, o, deps=[ids[i] for i in range(2)])",
        "o, t3 = pl.submit(self.k, q, o, deps=[ids])",
    )
    found = [e for e in walk(function) if isinstance(e, n.Submit)]
    assert [getattr(d, "name", None) for d in found[1].deps] == ["_submit_deps_buf"]
    updates = [s for s in function.body or () if isinstance(s, n.Assign) and s.var.name == "_submit_deps_buf"]
    assert len(updates) == 3
    assert [getattr(d, "name", None) for d in found[2].deps] == ["ids"]


def test_inline_functions_are_expanded_with_local_formals() -> None:
    function = incore(
        "output = pl.load(x, [0, 0], [16, 64])",
        "both = twice(output, 2.0)",
        "a, b = pair(both)",
        "out = pl.store(pl.add(output, pl.add(a, b)), [0, 0], out)",
        head=(
            "GAIN = 3.0\n@pl.inline\ndef twice(value, factor):\n    value = pl.mul(value, factor)\n"
            "    value = pl.mul(value, GAIN)\n    return value\n"
            "@pl.inline\ndef pair(output):\n    output = pl.abs(output)\n    return output, pl.neg(output)"
        ),
    )
    text = printed(function)
    assert "pl.tile.muls(value, 2.0)" in text
    assert "3.0)" in text
    assert "pl.tile.add(output, " in text
    assigned = [s.var for s in function.body or () if isinstance(s, n.Assign)]
    assert [v.name for v in assigned].count("output") == 1


def test_an_inline_call_of_an_inline_function() -> None:
    function = incore(
        "t = pl.load(x, [0, 0], [16, 64])",
        "out = pl.store(outer(t), [0, 0], out)",
        head="@pl.inline\ndef inner(v):\n    return pl.abs(v)\n@pl.inline\ndef outer(v):\n    return pl.exp(inner(v))",
    )
    assert "pl.tile.exp(pl.tile.abs(t))" in printed(function)


def test_a_call_maps_the_callees_symbols_to_the_callers_extents() -> None:
    program = read(
        """
        M = pl.dynamic("M")
        @pl.program
        class P:
            @pl.function(type=pl.FunctionType.InCore)
            def k(self, x: pl.Tensor[[M, 8], pl.FP32], o: pl.Out[pl.Tensor[[M, 8], pl.FP32]]) -> pl.Tensor[[M, 8], pl.FP32]:
                return o
            @pl.function(type=pl.FunctionType.Orchestration)
            def drive(self, x: pl.Tensor[[32, 8], pl.FP32], o: pl.Out[pl.Tensor[[32, 8], pl.FP32]]):
                r = self.k(x, o)
                return r
        """
    )
    assert program.declared_symbols == ("M",)
    result = program.functions["drive"].return_types[0]
    assert isinstance(result, TensorType)
    assert isinstance(result.shape[0], n.ConstInt)
    assert result.shape[0].value == 32


# --- jit --------------------------------------------------------------------------------------------------------------

BARE = """
M = pl.dynamic("M")

@pl.jit.inline
def scale(src: pl.Tensor, factor: pl.Scalar[pl.FP32], dst: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        dst[:] = pl.mul(src, factor)
    return dst

@pl.jit
def k(x: pl.Tensor, n: pl.Scalar[pl.INT32], gain: pl.Scalar[pl.FP32], y: pl.Out[pl.Tensor], z: pl.Out[pl.Tensor]):
    x.bind_dynamic(0, M)
    y.bind_dynamic(0, M)
    tmp = pl.create_tensor([8, 8], dtype=pl.FP32)
    y = scale(x, gain, y)
    z = scale(dst=z, src=tmp, factor=2.0)
    return y, z
"""


def bare_arguments(**changes: object) -> dict[str, object]:
    return {
        "x": Sample((32, 8), "torch.float32"),
        "n": 3,
        "gain": 0.5,
        "y": numpy.zeros((32, 8), dtype=numpy.float32),
        "z": Sample((8, 8)),
        **changes,
    }


def test_bare_parameters_take_the_arguments_shapes() -> None:
    program = read(BARE, bare_arguments())
    entry = program.entry
    assert entry.name == "k"
    assert program.name == "_jit_k"
    text = program.as_python()
    assert "x: pl.Tensor[[M, 8], pl.FP32]" in text
    assert "z: pl.Out[pl.Tensor[[8, 8], pl.FP32]]" in text
    assert [p.name for p in entry.params] == ["x", "n", "gain", "y", "z"]


def test_a_dependency_is_read_once_for_each_shape() -> None:
    program = read(BARE, bare_arguments())
    assert sorted(program.functions) == ["k", "scale", "scale_v1"]
    assert program.functions["scale"].func_type is FunctionType.Inline
    first = program.functions["scale"].param("src").type
    second = program.functions["scale_v1"].param("src").type
    assert isinstance(first, TensorType)
    assert isinstance(second, TensorType)
    assert first.shape[0] is program.symbols["M"]
    assert isinstance(second.shape[0], n.ConstInt)
    assert all(p.direction is Direction.In for p in program.functions["scale"].params)


def test_scalars_are_folded_unless_they_are_run_time_values() -> None:
    folded = read(BARE, bare_arguments()).as_python()
    assert "self.scale(x, 0.5, y)" in folded
    kept = read(BARE, bare_arguments(), runtime=("gain",)).as_python()
    assert "self.scale(x, gain, y)" in kept
    assert "gain: pl.Scalar[pl.FP32]" in folded


def test_keyword_arguments_of_a_dependency_are_ordered() -> None:
    assert "self.scale_v1(tmp, 2.0, z)" in read(BARE, bare_arguments()).as_python()


def test_a_scalar_marked_run_time_stays() -> None:
    text = f"@pl.jit\ndef k(x: {A}, s: pl.Scalar[pl.FP32, pl.RUNTIME], out: pl.Out[{A}]):\n    with pl.at(level=pl.Level.CORE_GROUP):\n        out[:] = pl.mul(x, s)\n    return out\n"
    program = read(text, {"x": Sample((16, 64)), "s": 2.0, "out": Sample((16, 64))})
    assert "pl.tensor.muls(x, s)" in program.as_python()


def test_a_jit_function_without_return_gives_its_first_output() -> None:
    program = read(
        f"@pl.jit\ndef k(x: {A}, out: pl.Out[{A}]):\n    with pl.at(level=pl.Level.CORE_GROUP):\n        out[:] = pl.abs(x)\n"
    )
    assert len(program.functions["k"].return_types) == 1
    assert isinstance((program.functions["k"].body or ())[-1], n.Return)


def test_kinds_of_jit_functions() -> None:
    program = read(
        f"""
        @pl.jit.incore
        def part(x: {A}, o: pl.Out[{A}]):
            o[:] = pl.abs(x)
            return o

        @pl.jit
        def chip(x: {A}, o: pl.Out[{A}]):
            o = part(x, o)
            return o

        @pl.jit.host
        def host(x: {A}, o: pl.Out[{A}]):
            o = chip(x, o, device=1)
            return o
        """
    )
    assert list(program.functions) == ["part", "chip", "host"]
    kinds = [f.func_type for f in program.functions.values()]
    assert kinds == [FunctionType.InCore, FunctionType.Orchestration, FunctionType.Opaque]
    assert program.entry.level is Level.HOST
    assert "device=1" in program.as_python()


def test_recursion_is_refused() -> None:
    text = f"@pl.jit.incore\ndef a(x: {A}, o: pl.Out[{A}]):\n    o = b(x, o)\n    return o\n@pl.jit.incore\ndef b(x: {A}, o: pl.Out[{A}]):\n    o = a(x, o)\n    return o\n@pl.jit\ndef k(x: {A}, o: pl.Out[{A}]):\n    o = a(x, o)\n    return o\n"
    assert [d.code for d in errors(text)] == ["E336"]


# --- functions --------------------------------------------------------------------------------------------------------


def test_function_attributes_docstring_and_external_source() -> None:
    program = read(
        f'''
        @pl.program
        class P:
            @pl.function(type=pl.FunctionType.AIV)
            def k(self, x: {A}):
                """Doc."""
                pl.func_attr({{"split": pl.SplitMode.UP_DOWN, "slot_num": 4}})
                pl.func_attr({{"dual_aiv_dispatch": True}})
                t = pl.load(x, [0, 0], [16, 64])

            @pl.function(type=pl.FunctionType.AIC, external_source="k.cpp")
            def e(self, x: {A}): ...
        '''
    )
    k, e = program.functions["k"], program.functions["e"]
    assert k.attrs == {"split": SplitMode.UP_DOWN, "slot_num": 4, "dual_aiv_dispatch": True}
    assert k.docstring == "Doc."
    assert not k.has_self
    assert e.body is None
    assert e.external_source == "k.cpp"


def test_host_workers_keep_their_text() -> None:
    program = read(
        f"""
        @pl.program
        class P:
            @pl.function(level=pl.Level.HOST, role=pl.Role.SubWorker)
            def work(x: {A}):
                for row in range(3):
                    print(row)
        """
    )
    body = program.functions["work"].body
    assert body is not None
    assert isinstance(body[0], n.InlineText)
    assert body[0].text == "for row in range(3):\n    print(row)"


def test_comments_stay_with_the_next_statement() -> None:
    function = incore("# first", "# second", "t = pl.load(x, [0, 0], [16, 64])", "u = pl.abs(t)")
    first, second = (function.body or ())[:2]
    assert first.leading_comments == ("first", "second")
    assert second.leading_comments == ()


def test_scalar_parameters_and_symbols_of_one_name_are_one() -> None:
    program = read(
        """
        M = pl.dynamic("M")
        @pl.function(type=pl.FunctionType.InCore)
        def k(x: pl.Tensor[[M, 64], pl.FP32], M: pl.Scalar[pl.INDEX]) -> pl.Tensor[[M, 64], pl.FP32]:
            return x
        """
    )
    function = program.functions["k"]
    type_ = function.param("x").type
    assert isinstance(type_, TensorType)
    assert type_.shape[0] is function.param("M").var is program.symbols["M"]


def test_annotations_override_memory_and_view() -> None:
    function = incore(
        "t: pl.Tile[[16, 64], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[n, 64])] = pl.load(x, [0, 0], [16, 64])"
    )
    made = (function.body or ())[0]
    assert isinstance(made, n.Assign)
    assert isinstance(made.var.type, TileType)
    assert made.var.type.memory_space is MemorySpace.Vec
    assert made.var.type.valid_shape[0] is function.param("n").var


def test_spans_are_those_of_the_users_text() -> None:
    module = module_of(
        f"\n\n@pl.function(type=pl.FunctionType.InCore)\ndef k(x: {A}) -> {A}:\n    t = pl.load(x, [0, 0], [16, 64])\n    return x\n"
    )
    from pypto_lab.frontend.source import program_of

    program = program_of(kernel_of(module))
    made = (program.functions["k"].body or ())[0]
    assert made.span is not None
    assert (made.span.line, made.span.column) == (5, 5)
    assert program.sources[made.span.file].splitlines()[4].strip().startswith("t = pl.load")


@pytest.mark.parametrize("value", [3, None, object(), "text"])
def test_something_that_is_no_kernel_is_refused(value: object) -> None:
    from pypto_lab.frontend.source import program_of
    from pypto_lab.ir.diagnostics import LabError

    with pytest.raises(LabError, match="is no kernel"):
        program_of(value)


def test_scalar_type_of_a_task_id() -> None:
    function = launches("p, t1 = pl.submit(self.k, x, o)", "t2 = pl.system.task_dummy(deps=[t1])", "o = p")
    made = [s for s in function.body or () if isinstance(s, n.Assign) and s.var.name == "t2"]
    assert isinstance(made[0].var.type, ScalarType)
    assert made[0].var.type.dtype.name == "TASK_ID"
