"""Drawing: each engine gives one picture with every node, its hover text, its line and its class; nothing overlaps."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from pypto_lab.ir import nodes as n
from pypto_lab.view import draw, layout
from pypto_lab.view.graph import Graph, GraphNode, graph
from tests.view.programs import call, loop_program, mixed_program, tensor

SVG = "{http://www.w3.org/2000/svg}"
PROGRAMS = [loop_program(), mixed_program()]
HERE = draw.engines()


def groups(svg: str) -> dict[str, ElementTree.Element]:
    return {g.get("id", ""): g for g in ElementTree.fromstring(svg).iter(f"{SVG}g") if g.get("id")}


@pytest.mark.parametrize("engine", draw.ENGINES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_every_node_is_drawn_with_its_hover_text_and_line(engine: str, program: n.Program) -> None:
    if engine not in HERE:
        pytest.skip(f"{engine} is not installed here")
    found = graph(program)
    drawn = groups(found.svg(engine=engine, prefix="p-"))
    for node in found.nodes:
        group = drawn[f"p-{node.id}"]
        title = group.find(f"{SVG}title")
        assert title is not None
        assert title.text == node.hover
        assert group.get("data-line") == (None if node.line is None else str(node.line))
        assert f"pl-side-{node.side}" in (group.get("class") or "")
        shown = "".join("".join(t.itertext()) for t in group.iter(f"{SVG}text"))
        assert node.title in shown.replace("\xa0", " ")
    for cluster in found.clusters:
        assert f"p-{cluster.id}" in drawn


def test_a_file_carries_its_style_and_a_part_does_not() -> None:
    found = graph(loop_program())
    assert "<style>" in found.svg(engine="own", standalone=True)
    part = found.svg(engine="own", standalone=False)
    assert "<style>" not in part
    root = ElementTree.fromstring(part)
    assert root.get("width") is None
    assert root.get("role") == "img"
    assert "demo" in (root.get("aria-label") or "")


def test_hover_text_of_an_edge_names_what_flows() -> None:
    svg = graph(loop_program()).svg(engine="own")
    titles = [t.text for t in ElementTree.fromstring(svg).iter(f"{SVG}title")]
    assert "x: x to tensor.slice" in titles


def test_unknown_and_missing_engines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = graph(loop_program())
    with pytest.raises(ValueError, match="dot, viz, own"):
        found.svg(engine="cairo")
    monkeypatch.setattr(draw.shutil, "which", lambda name: None)
    with pytest.raises(RuntimeError, match="not installed here"):
        found.svg(engine="dot")


def test_without_graphviz_and_node_the_own_layout_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw.shutil, "which", lambda name: None)
    monkeypatch.setattr(draw.importlib.util, "find_spec", lambda name: None)
    assert draw.engines() == ("own",)
    found = graph(loop_program())
    assert set(groups(found.svg())) >= {v.id for v in found.nodes}
    page = found.html()
    assert "pl-graph-data" in page
    assert "PyptoLabViz" in page


def test_a_failing_engine_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw, "engines", lambda: ("dot", "own"))
    found = graph(loop_program())

    def broken(of: Graph, engine: str) -> str:
        if engine == "dot":
            raise OSError("no such program")
        return layout.to_svg(of)

    monkeypatch.setattr(draw, "_run", broken)
    assert "tensor.slice" in found.svg()


def overlapping(a: layout.Box, b: layout.Box) -> bool:
    return a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_the_own_layout_has_no_overlaps_and_holds_its_clusters(program: n.Program) -> None:
    boxes, width, height = layout.place(graph(program))
    nodes = [b for b in boxes if isinstance(b.item, GraphNode)]
    for index, one in enumerate(nodes):
        assert not any(overlapping(one, other) for other in nodes[index + 1 :])
        assert one.x >= 0
        assert one.y >= 0
        assert one.x + one.width <= width
        assert one.y + one.height <= height
    for box in boxes:
        for inner in box.inside:
            assert box.x <= inner.x
            assert inner.x + inner.width <= box.x + box.width
            assert box.y <= inner.y
            assert inner.y + inner.height <= box.y + box.height


def test_the_own_layout_puts_readers_below_what_they_read() -> None:
    found = graph(loop_program())
    boxes = {b.item.id: b for b in layout.place(found)[0]}
    for edge in found.edges:
        if edge.kind == "data":
            assert boxes[edge.source].y + boxes[edge.source].height <= boxes[edge.target].y


def test_a_wide_rank_is_broken_into_rows() -> None:
    params = tuple(n.Param(var=n.Var(name=f"weights_{i}", type=tensor(128, 128))) for i in range(60))
    function = n.Function(name="f", params=params, return_types=(), body=())
    boxes, width, _ = layout.place(graph(function))
    assert width < 1500
    assert len({b.y for b in boxes if isinstance(b.item, GraphNode)}) > 3


def test_names_that_dot_and_xml_quote_come_through() -> None:
    x = n.Var(name="x", type=tensor(4))
    odd = n.Var(name='a"b\\n<c>&', type=x.type)
    body = (n.Assign(var=odd, value=call("tensor.exp", x.type, x)), n.Return(values=(odd,)))
    function = n.Function(name='f"<&>\\', params=(n.Param(var=x),), return_types=(), body=body)
    found = graph(function)
    for engine in HERE:
        text = "".join(ElementTree.fromstring(found.svg(engine=engine)).itertext()).replace("\xa0", " ")
        assert 'a"b\\n<c>&' in text
        assert 'f"<&>\\' in text


def test_dot_ids_are_those_of_the_graph() -> None:
    found = graph(mixed_program())
    assert set(re.findall(r"\bid=(n\d+)", found.dot())) == {v.id for v in found.nodes}
