"""Passes: stages of a lowering and of a folder, what each did to the graph, their findings; the same as text."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from bench_support import as_written, kernel, last_dump
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_lab.compat.cases import case
from pypto_lab.ir.diagnostics import Diagnostic
from pypto_lab.lowering.pipeline import Lowered, lower
from pypto_lab.view.graph import Graph, GraphCluster, GraphEdge, GraphNode, graph
from pypto_lab.view.workbench import workbench
from pypto_lab.view.workbench.changes import MOST_NODES, SIGNS, GraphChanges, graph_changes
from pypto_lab.view.workbench.passes import Stages, stages, stages_of_lowering


@cache
def lowering(name: str) -> Lowered:
    subject = case(kernel(name))
    return lower(subject.program(subject.make_inputs(0)))


def by_name(found: Stages, name: str) -> int:
    return [s.name for s in found].index(name)


def test_a_lowering_has_a_stage_a_pass_and_says_which_functions_changed() -> None:
    lowered = lowering("k17_bias_updown")
    found = stages_of_lowering(lowered)
    assert [(s.number, s.name, s.file) for s in found] == [(s.number, s.name, s.file_name) for s in lowered.stages]
    for mine, theirs in zip(found[1:], lowered.stages[1:], strict=True):
        assert mine.changed == bool(theirs.changed)
        assert mine.functions == theirs.changed
        assert bool(mine.diff) == mine.changed, mine.name
    assert found.text(len(found) - 1).startswith("# pypto.program:")


def test_a_folder_says_which_functions_changed_by_their_text() -> None:
    found = stages(last_dump("k33_flash_mini").parent)
    expand = found[by_name(found, "ExpandMixedKernel")]
    assert expand.functions == ("flash_aic", "flash_aiv", "flash")
    assert "flash_mini" not in expand.functions, "its text is the same"


def test_findings_of_a_pass_are_rows_of_it_and_of_the_checks() -> None:
    import dataclasses

    lowered = lowering("k17_bias_updown")
    bad = dataclasses.replace(lowered.stages[5], findings=(Diagnostic("E801", "an invariant does not hold"),))
    broken = dataclasses.replace(lowered, stages=(*lowered.stages[:5], bad, *lowered.stages[6:]))
    bench = workbench(as_written("k17_bias_updown"), lowered=broken)
    assert [f.diagnostic.code for f in bench.stages[5].findings] == ["E801"]
    assert bench.payload["checks"][-1]["where"] == bad.name
    assert "error[E801]: an invariant does not hold" in bench.text("passes")
    assert "1 findings" in bench.text("passes")


def test_measured_errors_stand_at_their_stage() -> None:
    sweep = {"stages": [{"file": "22_after_ExpandMixedKernel.py", "status": "mismatch", "max_abs": 0.5}]}
    found = stages_of_lowering(lowering("k17_bias_updown"), sweep)
    assert [(s.name, s.error) for s in found if s.status] == [("ExpandMixedKernel", 0.5)]


# --- what a pass did to the graph ------------------------------------------------------------------------------------


def changes(name: str, stage: str) -> GraphChanges:
    found = stages_of_lowering(lowering(name))
    done = found.changes(by_name(found, stage))
    assert done is not None
    return done


def test_outlining_moves_operations_and_adds_the_call() -> None:
    done = changes("k17_bias_updown", "OutlineIncoreScopes")
    moved = {v.title for v in done.graph.nodes if done.marks.get(v.id) == "moved"}
    assert {f"{SIGNS['moved']} {op}" for op in ("tensor.matmul", "tensor.add", "tensor.cast")} <= moved
    added = [v for v in done.graph.nodes if done.marks.get(v.id) == "added"]
    assert any(v.kind == "call" for v in added)
    assert "removed" not in done.counts


def test_a_pass_that_only_renames_marks_nothing() -> None:
    done = changes("k17_bias_updown", "ConvertToSSA")
    assert done.marks == {}
    assert done.summary == "no node differs"


def test_what_was_removed_is_drawn_where_it_stood() -> None:
    done = changes("k17_bias_updown", "ConvertTensorToTileOps")
    ghosts = [v for v in done.graph.nodes if done.marks.get(v.id) == "removed"]
    assert [v.title for v in ghosts] == [f"{SIGNS['removed']} tensor.assemble"]
    clusters = {c.id: c for c in done.graph.clusters}
    assert clusters[ghosts[0].cluster or ""].title.startswith("mm_rows")
    assert any(e.target == ghosts[0].id for e in done.graph.edges), "with the edges it had"


def test_the_first_an_unchanged_and_an_unreadable_stage_have_no_graph(tmp_path: Path) -> None:
    found = stages_of_lowering(lowering("k17_bias_updown"))
    assert found.changes(0) is None
    assert found.changes(by_name(found, "UnrollLoops")) is None
    (tmp_path / "00_frontend.py").write_text("# pypto.program: P\nnonsense(\n")
    (tmp_path / "01_after_Other.py").write_text("# pypto.program: P\nnonsense)\n")
    assert stages(tmp_path).changes(1) is None


@pytest.mark.parametrize("name", ["k17_bias_updown", "k32_pipe_bidir_dual", "k33_flash_mini"])
def test_every_drawing_is_whole(name: str) -> None:
    found = stages_of_lowering(lowering(name))
    for index, stage in enumerate(found):
        done = found.changes(index)
        if done is None:
            continue
        ids = {v.id for v in done.graph.nodes}
        assert len(ids) == len(done.graph.nodes) <= MOST_NODES
        assert set(done.marks) <= ids, stage.name
        assert all(e.source in ids and e.target in ids for e in done.graph.edges)
        assert {v.cluster for v in done.graph.nodes} <= {c.id for c in done.graph.clusters} | {None}
        for node in done.graph.nodes:
            mark = done.marks.get(node.id)
            assert node.kind == "folded" or (mark is None) == (node.title[:1] not in SIGNS.values())
        svg = done.svg("p-")
        assert all(f'id="p-{id_}"' in svg for id_ in done.marks)


titles = st.lists(st.sampled_from(["tile.add", "tile.load", "tile.mul", "tile.store"]), max_size=12)


def plain_graph(ops: list[str], function: str = "f, InCore") -> Graph:
    nodes = tuple(GraphNode(f"n{i}", "operation", op, (f"v{i}",), "aiv", "c0") for i, op in enumerate(ops))
    edges = tuple(GraphEdge(a.id, b.id, "data") for a, b in pairwise(nodes))
    return Graph("p", (GraphCluster("c0", "function", function, None),), nodes, edges)


@settings(deadline=None)
@given(titles, titles)
def test_nodes_before_and_after_add_up(before: list[str], after: list[str]) -> None:
    done = graph_changes(plain_graph(before), plain_graph(after))
    counts = done.counts
    assert len(before) - counts.get("removed", 0) == len(after) - counts.get("added", 0)
    assert len(done.graph.nodes) == len(after) + counts.get("removed", 0)
    assert graph_changes(plain_graph(after), plain_graph(after)).marks == {}


def test_operations_move_between_functions() -> None:
    done = graph_changes(plain_graph(["tile.add"]), plain_graph(["tile.add"], "g, AIV"))
    assert set(done.marks.values()) == {"moved"}


def test_two_graphs_of_one_program_are_the_same() -> None:
    program = lowering("k33_flash_mini").program
    assert graph_changes(graph(program, max_nodes=None), graph(program, max_nodes=None)).marks == {}


def test_the_text_says_which_nodes_and_lines_changed() -> None:
    text = workbench(as_written("k17_bias_updown"), lowered=lowering("k17_bias_updown")).text("passes")
    assert "22 ExpandMixedKernel: changed mm_rows_aic, mm_rows_aiv, mm_rows: " in text
    assert "--- 22_after_ExpandMixedKernel.py\nnodes: " in text
    assert f"    {SIGNS['moved']} tile.matmul" in text
    assert "+    def mm_rows_aic(" in text
