"""The lab's own layered layout, for machines with neither Graphviz nor Node: no overlaps, source order downwards.

Inside a cluster, nodes and inner clusters are ranked by the longest chain of edges that leads to them, each rank is a
row (a long one is broken into several), and rows are ordered by where the sources of their items stand. Clusters are
laid out inside out, so an inner cluster is simply a large item.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

from pypto_lab.view import marks
from pypto_lab.view.graph import Graph, GraphCluster, GraphEdge, GraphNode

_CLUSTER_CHAR = 7.2
_HEAD, _INSET, _GAP, _RANK_GAP = 22.0, 12.0, 18.0, 30.0
_WIDEST_ROW = 1300.0


@dataclass(slots=True)
class Box:
    """A node or cluster on the page: top left corner and size."""

    item: GraphNode | GraphCluster
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0
    inside: list[Box] = field(default_factory=list)

    def moved(self, dx: float, dy: float) -> None:
        self.x += dx
        self.y += dy
        for box in self.inside:
            box.moved(dx, dy)


def place(graph: Graph) -> tuple[list[Box], float, float]:
    """All boxes (clusters before what is in them) and the width and height of the page."""
    tree = graph.tree()
    homes = _homes(graph)

    def boxed(item: GraphNode | GraphCluster) -> Box:
        if isinstance(item, GraphNode):
            return Box(item, *marks.node_size(item))
        inside, width, height = _arranged([boxed(i) for i in tree[item.id]], graph.edges, homes)
        for box in inside:
            box.moved(_INSET, _HEAD)
        width = max(width, len(item.title) * _CLUSTER_CHAR) + 2 * _INSET
        return Box(item, width, height + _HEAD + _INSET, inside=inside)

    roots, width, height = _arranged([boxed(i) for i in tree[None]], graph.edges, homes)
    return _flat(roots), width, height


def to_svg(graph: Graph) -> str:
    """The laid out graph as an SVG document with the structure and classes that Graphviz gives."""
    boxes, width, height = place(graph)
    by_id = {box.item.id: box for box in boxes}
    parts = [_cluster_svg(b, b.item) for b in boxes if isinstance(b.item, GraphCluster)]
    parts += [_edge_svg(e, by_id[e.source], by_id[e.target]) for e in graph.edges]
    parts += [_node_svg(b, b.item) for b in boxes if isinstance(b.item, GraphNode)]
    view = f"-8 -8 {width + 16:.0f} {height + 16:.0f}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}"><defs><marker id="arrow" viewBox="0 0 8 8" refX="7" '
        'refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto-start-reverse">'
        f'<path class="pl-arrow" d="M0 0L8 4L0 8z" fill="{marks.EDGE["data"]}"/></marker></defs>'
        f'<g class="graph">{"".join(parts)}</g></svg>'
    )


def _homes(graph: Graph) -> Mapping[str, tuple[str, ...]]:
    """For each node the items it is in: itself, then its clusters inside out."""
    return {v.id: (v.id, *graph.ancestors(v.cluster)) for v in graph.nodes}


def _arranged(
    boxes: list[Box], edges: tuple[GraphEdge, ...], homes: Mapping[str, tuple[str, ...]]
) -> tuple[list[Box], float, float]:
    """Sibling boxes in rows, their corner at the origin; and the size of the whole."""
    order = {box.item.id: index for index, box in enumerate(boxes)}
    above: dict[int, set[int]] = {index: set() for index in order.values()}
    for edge in edges:
        source = next((order[h] for h in homes[edge.source] if h in order), None)
        target = next((order[h] for h in homes[edge.target] if h in order), None)
        if source is not None and target is not None and source < target and edge.kind != "call":
            above[target].add(source)
    ranks: list[int] = []
    for index in range(len(boxes)):
        ranks.append(1 + max((ranks[a] for a in above[index]), default=-1))
    rows = [[i for i, rank in enumerate(ranks) if rank == r] for r in range(max(ranks, default=-1) + 1)]
    width = min(_WIDEST_ROW, max((_row_width([boxes[i] for i in row]) for row in rows), default=0.0))
    width = max([width, *(box.width for box in boxes)])
    y = 0.0
    for row in rows:
        y = _place_row(row, boxes, above, width, y)
    return boxes, width, max(0.0, y - _RANK_GAP)


def _row_width(row: list[Box]) -> float:
    return sum(b.width for b in row) + _GAP * (len(row) - 1)


def _place_row(row: list[int], boxes: list[Box], above: Mapping[int, set[int]], width: float, y: float) -> float:
    """Places one rank from `y` down, broken where it is wider than the page; returns where the next starts."""

    def wish(index: int) -> float:
        centres = [boxes[a].x + boxes[a].width / 2 for a in above[index]]
        return sum(centres) / len(centres) if centres else width / 2

    lines: list[list[int]] = [[]]
    for index in sorted(row, key=lambda i: (wish(i), i)) if any(above[i] for i in row) else row:
        if lines[-1] and _row_width([boxes[i] for i in [*lines[-1], index]]) > width:
            lines.append([])
        lines[-1].append(index)
    for line in lines:
        x = (width - _row_width([boxes[i] for i in line])) / 2
        for index in line:
            boxes[index].moved(x - boxes[index].x, y - boxes[index].y)
            x += boxes[index].width + _GAP
        y += max(boxes[i].height for i in line) + _RANK_GAP
    return y


def _flat(boxes: list[Box]) -> list[Box]:
    return [b for box in boxes for b in (box, *_flat(box.inside))]


def _cluster_svg(box: Box, cluster: GraphCluster) -> str:
    stroke = marks.STROKE[cluster.side] if cluster.side != "host" else marks.LINE
    dash = "" if cluster.kind == "function" else ' stroke-dasharray="5 3"'
    return (
        f'<g id={quoteattr(cluster.id)} class="cluster pl-c pl-c-{cluster.kind} pl-side-{cluster.side}">'
        f"<title>{escape(cluster.title)}</title>"
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="6" fill="none" '
        f'stroke="{stroke}"{dash}/>'
        f"{_text(box.x + _INSET, box.y + 15, cluster.title, marks.DIM, 11, anchor='start')}</g>"
    )


def _node_svg(box: Box, node: GraphNode) -> str:
    middle = box.x + box.width / 2
    rows = [_text(middle, box.y + marks.TITLE_ROW, marks.heading(node), marks.INK, 10, family="Courier", bold=True)]
    rows += [
        _text(middle, box.y + marks.TITLE_ROW + marks.LINE_ROW * (i + 1), line, marks.DIM, 9)
        for i, line in enumerate(node.lines)
    ]
    radius = box.height / 2 if marks.rounded(node) else 5
    return (
        f'<g id="{node.id}" class="node pl-n pl-n-{node.kind} pl-side-{node.side}"><title>{escape(node.hover)}</title>'
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="{radius:.1f}" '
        f'fill="{marks.FILL[node.side]}" stroke="{marks.STROKE[node.side]}"/>{"".join(rows)}</g>'
    )


def _edge_svg(edge: GraphEdge, source: Box, target: Box) -> str:
    """From the bottom of the source to the top of the target; an edge upwards leaves and enters at the right."""
    colour = marks.EDGE[edge.kind]
    dash = {"carried": ' stroke-dasharray="5 3"', "call": ' stroke-dasharray="5 3"', "index": ' stroke-dasharray="1 3"'}
    if target.y > source.y + source.height:
        x1, y1, x2, y2 = source.x + source.width / 2, source.y + source.height, target.x + target.width / 2, target.y
        bend = max(14.0, (y2 - y1) / 2)
        path = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"
    else:
        x1, y1 = source.x + source.width, source.y + source.height * 0.7
        x2, y2 = target.x + target.width, target.y + target.height * 0.3
        out = max(x1, x2) + _GAP
        path = f"M{x1:.1f} {y1:.1f}C{out:.1f} {y1:.1f} {out:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    width = "2" if edge.kind == "pipe" else "1"
    return (
        f'<g class="edge pl-e pl-e-{edge.kind}"><title>{escape(f"{edge.source}->{edge.target}")}</title>'
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dash.get(edge.kind, "")} '
        'marker-end="url(#arrow)"/></g>'
    )


def _text(
    x: float, y: float, text: str, fill: str, size: int, *, anchor: str = "middle", family: str = "", bold: bool = False
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-family="{family or "Helvetica,sans-serif"}" '
        f'font-size="{size}"{weight} fill="{fill}">{escape(text)}</text>'
    )
