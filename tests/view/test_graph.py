"""The IR graph: who reads what, through loops, branches, calls and pipes; folding; the text form."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir import nodes as n
from pypto_lab.view.graph import Graph, graph
from tests.view.programs import FILE, at, call, ints, loop_program, mixed_program, tensor

DUMPS = sorted((Path(__file__).parent.parent / "data" / "dumps").rglob("*.py"))


def edges(found: Graph, kinds: Iterable[str]) -> set[tuple[str, str]]:
    """Edges as (source, target) by title."""
    titles = {v.id: v.title for v in found.nodes}
    return {(titles[e.source], titles[e.target]) for e in found.edges if e.kind in kinds}


def test_operations_read_what_defined_their_arguments() -> None:
    data = edges(graph(loop_program()), ["data"])
    assert ("x", "tensor.slice") in data
    assert ("tensor.slice", "tensor.muls") in data
    assert ("tensor.muls", "tensor.exp") in data
    assert ("tensor.exp", "tensor.assemble") in data


def test_scalars_flow_as_index_edges() -> None:
    index = edges(graph(loop_program()), ["index"])
    assert index == {("c", "r0 = c * 16"), ("r0 = c * 16", "tensor.slice"), ("r0 = c * 16", "tensor.assemble")}


def test_a_value_of_the_round_before_is_carried() -> None:
    found = graph(loop_program())
    assert edges(found, ["carried"]) == {("tensor.add", "tensor.add"), ("tensor.assemble", "tensor.assemble")}
    assert ("tensor.full", "tensor.add") in edges(found, ["data"])


def test_a_loop_that_surely_runs_hides_what_was_before_it() -> None:
    data = edges(graph(loop_program()), ["data"])
    assert ("tensor.assemble", "return out") in data
    assert ("out", "return out") not in data


def test_nodes_know_cluster_line_and_source() -> None:
    found = graph(loop_program())
    slice_node = next(v for v in found.nodes if v.title == "tensor.slice")
    assert slice_node.line == 6
    assert slice_node.hover == "line 6: part = pl.slice(x, [16, 64], [r0, 0])"
    titles = {c.id: c.title for c in found.clusters}
    around = [titles[c] for c in found.ancestors(slice_node.cluster)]
    assert around == ["for c in range(3)", "at CORE_GROUP, soft", "rows, Orchestration"]
    assert [v.title for v in found.at_line(8, FILE)] == ["tensor.muls", "tensor.exp", "tensor.assemble"]


def test_sides_come_from_function_record_and_memory() -> None:
    sides = {v.title: v.side for v in graph(mixed_program()).nodes}
    assert sides["tile.matmul"] == "aic"
    assert sides["tile.store"] == "aiv"
    assert sides["mm_aic"] == "aic"
    assert {v.title: v.side for v in graph(loop_program()).nodes}["x"] == "host"


def test_pipes_join_push_and_pop_of_a_group() -> None:
    found = graph(mixed_program())
    assert edges(found, ["pipe"]) == {("tile.tpush_to_aiv", "tile.tpop_from_aic")}
    assert next(e.name for e in found.edges if e.kind == "pipe") == "C to V"


def test_a_store_and_a_call_define_what_they_write() -> None:
    data = edges(graph(mixed_program()), ["data"])
    assert ("tile.store", "return out") in data
    assert ("mm_aiv", "return out") in data


def test_calls_lead_to_the_called_function() -> None:
    found = graph(mixed_program())
    targets = {e.target for e in found.edges if e.kind == "call"}
    titles = {c.id: c.title for c in found.clusters}
    assert {titles[found.node(t).cluster or ""] for t in targets} == {"mm_aic, AIC", "mm_aiv, AIV"}


def branch_program(else_assigns: bool) -> n.Program:
    x, y = n.Var(name="x", type=tensor(4)), n.Var(name="y", type=tensor(4))
    flag = n.Var(name="flag", type=n.BOOL)
    first = n.Assign(var=y, value=call("tensor.neg", y.type, x), span=at(1))
    other = (n.Assign(var=y, value=call("tensor.abs", y.type, x), span=at(3)),) if else_assigns else ()
    branch = n.If(
        condition=flag,
        then_body=(n.Assign(var=y, value=call("tensor.exp", y.type, y), span=at(2)),),
        else_body=other,
    )
    body = (first, branch, n.Return(values=(y,), span=at(4)))
    params = (n.Param(var=x), n.Param(var=flag))
    return n.Program(name="b", functions={"f": n.Function(name="f", params=params, return_types=(y.type,), body=body)})


def test_after_a_branch_either_way_may_have_defined_a_variable() -> None:
    both = edges(graph(branch_program(else_assigns=True)), ["data"])
    assert {s for s, t in both if t == "return y"} == {"tensor.exp", "tensor.abs"}
    one = edges(graph(branch_program(else_assigns=False)), ["data"])
    assert {s for s, t in one if t == "return y"} == {"tensor.exp", "tensor.neg"}


def test_iteration_arguments_start_outside_and_go_round() -> None:
    x = n.Var(name="x", type=tensor(4))
    acc = n.IterArg(name="acc", type=x.type, init_value=x)
    new, end = n.Var(name="new", type=x.type), n.Var(name="end", type=x.type)
    i = n.Var(name="i", type=n.INDEX)
    body: n.Body = (n.Assign(var=new, value=call("tensor.exp", x.type, acc)), n.Yield(values=(new,)))
    loop = n.For(
        loop_var=i, start=n.const(0), stop=n.const(2), step=n.const(1), body=body, iter_args=(acc,), return_vars=(end,)
    )
    function = n.Function(
        name="f", params=(n.Param(var=x),), return_types=(x.type,), body=(loop, n.Return(values=(end,)))
    )
    found = graph(function)
    assert edges(found, ["data"]) == {("x", "tensor.exp"), ("tensor.exp", "return end")}
    assert edges(found, ["carried"]) == {("tensor.exp", "tensor.exp")}


def test_folding_replaces_a_cluster_by_one_node() -> None:
    found = graph(loop_program())
    loop = next(c for c in found.clusters if c.kind == "loop")
    folded = found.folded([loop.id])
    node = folded.node(loop.id)
    assert node.kind == "folded"
    assert node.lines == ("7 nodes",)
    assert ("x", "for c in range(3)") in edges(folded, ["data"])
    assert all(e.source != e.target for e in folded.edges)
    assert len(folded.nodes) == len(found.nodes) - 6


def test_folding_an_outer_cluster_hides_the_inner_ones() -> None:
    found = graph(loop_program())
    function = next(c for c in found.clusters if c.kind == "function")
    inner = next(c for c in found.clusters if c.kind == "loop")
    folded = found.folded([inner.id, function.id])
    assert [v.id for v in folded.nodes] == [function.id]
    assert folded.clusters == ()


def test_large_programs_are_folded_until_they_can_be_read() -> None:
    x = n.Var(name="x", type=tensor(4))
    body = tuple(n.Assign(var=x, value=call("tensor.exp", x.type, x)) for _ in range(40))
    scopes = tuple(n.RuntimeScope(body=body) for _ in range(5))
    function = n.Function(name="f", params=(n.Param(var=x),), return_types=(), body=scopes)
    assert len(graph(function, max_nodes=None).nodes) == 201
    small = graph(function, max_nodes=90)
    assert len(small.nodes) <= 90
    assert sum(v.kind == "folded" for v in small.nodes) == 3


def test_the_text_says_every_node_and_what_it_reads() -> None:
    text = graph(loop_program()).text()
    lines = {line.split()[0]: line for line in text.splitlines() if line.split()[0].startswith("n")}
    assert len(lines) == 11
    assert lines["n5"].strip().startswith("n5  tensor.slice  part  [16, 64] FP32")
    assert lines["n5"].endswith("line 6  <- n0, n4")
    assert "~n6" in lines["n6"]


def test_allocations_are_not_drawn() -> None:
    tile = n.Var(name="p", type=tensor(1))
    body = (n.Assign(var=tile, value=call("tile.alloc", tile.type, ints(4))),)
    assert graph(n.Function(name="f", params=(), return_types=(), body=body)).nodes == ()


@pytest.mark.parametrize("path", DUMPS[:: max(1, len(DUMPS) // 12)], ids=lambda p: p.stem[:40])
def test_compiler_dumps_have_connected_graphs(path: Path) -> None:
    found = graph(read_dump(path.read_text(), path.name), max_nodes=None)
    ids = {v.id for v in found.nodes}
    assert ids
    assert all(e.source in ids and e.target in ids for e in found.edges)
    touched = {e.source for e in found.edges} | {e.target for e in found.edges}
    lonely = {v.kind for v in found.nodes if v.id not in touched}
    assert lonely <= {"parameter", "test", "scalar", "operation", "external", "return"}
    assert len(touched) > len(ids) // 2
