"""A `Graph` in the DOT language, built with the `graphviz` package.

Colours are the light theme's, for programs that draw without a style sheet; the `class` of each element is what
`static/graph.css` styles, in both themes.
"""

from __future__ import annotations

import graphviz

from pypto_lab.view import marks
from pypto_lab.view.graph import Graph, GraphCluster, GraphEdge, GraphNode

_SANS = "Helvetica"
_POINTS_PER_INCH = 72
_ROUNDS = "2"
"""Rounds of Graphviz's search for short edges, times the number of nodes. Small graphs end by themselves before that; a
graph of a thousand nodes would take a minute for a picture that looks the same."""


def to_dot(graph: Graph) -> str:
    """DOT text; ids in it are those of the graph."""
    dot = graphviz.Digraph(graphviz.escape(graph.name), engine="dot")
    dot.attr("graph", rankdir="TB", compound="true", nodesep="0.22", ranksep="0.34", fontname=_SANS, fontsize="13")
    dot.attr("graph", bgcolor="transparent", pad="0.1", nslimit=_ROUNDS, nslimit1=_ROUNDS)
    dot.attr("graph", pack="16", packmode="graph")  # parts without an edge between them stand in rows, not in one
    dot.attr("node", fixedsize="true", fontname=_SANS, fontsize="10")
    dot.attr("edge", arrowsize="0.6", penwidth="1")
    tree = graph.tree()

    def write(into: graphviz.Digraph, cluster: str | None) -> None:
        for item in tree.get(cluster, ()):
            if isinstance(item, GraphNode):
                into.node(item.id, **_node(item))
            else:
                with into.subgraph(name=f"cluster_{item.id}") as inner:
                    inner.attr(**_cluster(item))
                    write(inner, item.id)

    write(dot, None)
    function_of = {v.id: list(graph.ancestors(v.cluster))[-1:] for v in graph.nodes}
    named: set[str] = set()
    for edge in graph.edges:
        attributes = _edge(edge)
        if edge.kind == "pipe" and edge.name not in named:  # the others of a pipe say so on hover
            attributes |= {"label": f"  {edge.name}", "fontname": _SANS, "fontsize": "11", "fontcolor": marks.DIM}
            named.add(edge.name)
        if edge.kind == "call" and function_of[edge.target] not in ([], function_of[edge.source]):
            attributes["lhead"] = f"cluster_{function_of[edge.target][0]}"
        dot.edge(edge.source, edge.target, **attributes)
    return str(dot.source)


def _node(node: GraphNode) -> dict[str, str]:
    width, height = marks.node_size(node)
    return {
        "label": "\\n".join(graphviz.escape(row) for row in (marks.heading(node), *node.lines)),
        "id": node.id,
        "class": f"pl-n pl-n-{node.kind} pl-side-{node.side}",
        "color": marks.STROKE[node.side],
        "fillcolor": marks.FILL[node.side],
        "fontcolor": marks.INK,
        "width": f"{width / _POINTS_PER_INCH:.3f}",
        "height": f"{height / _POINTS_PER_INCH:.3f}",
        "shape": "ellipse" if marks.rounded(node) else "box",
        "style": "filled" if marks.rounded(node) else "rounded,filled",
    }


def _cluster(cluster: GraphCluster) -> dict[str, str]:
    return {
        "label": graphviz.escape(cluster.title),
        "id": cluster.id,
        "class": f"pl-c pl-c-{cluster.kind} pl-side-{cluster.side}",
        "labeljust": "l",
        "fontname": _SANS,
        "fontcolor": marks.DIM,
        "color": marks.STROKE[cluster.side] if cluster.side != "host" else marks.LINE,
        "style": "rounded" if cluster.kind == "function" else "rounded,dashed",
        "margin": "10",
    }


def _edge(edge: GraphEdge) -> dict[str, str]:
    attributes = {"class": f"pl-e pl-e-{edge.kind}", "color": marks.EDGE[edge.kind]}
    if edge.kind in ("carried", "call"):
        attributes |= {"style": "dashed", "constraint": "false"}
    if edge.kind == "index":
        attributes |= {"style": "dotted", "weight": "0"}
    if edge.kind == "pipe":
        attributes |= {"penwidth": "2"}
    return attributes
