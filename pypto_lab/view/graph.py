"""The IR graph: functions, loops and scopes as nested clusters, operations as nodes, data flow as edges.

`graph(program)` reads the program (`view.dataflow` does the walk); the result is drawn as SVG, written as DOT or HTML,
shown in a notebook, or read as text that says the same.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pypto_lab.ir import nodes as n

MAX_NODES = 400
"""Above this many nodes the deepest clusters are folded into one node each, until a picture can be read."""

SIDES = ("aic", "aiv", "host")
"""Core sides: cube, vector, and neither (orchestration, scalars)."""

EDGE_KINDS = ("data", "index", "carried", "pipe", "call")
"""A tile or tensor, a scalar, a value of the loop's round before, a cross-core queue, a call of a function."""


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One operation, parameter, scalar, call, return or folded cluster.

    `title` is the heading, `lines` what stands under it, `hover` the text shown on hover (the source line).
    """

    id: str
    kind: str
    title: str
    lines: tuple[str, ...]
    side: str
    cluster: str | None
    file: str | None = None
    line: int | None = None
    hover: str = ""


@dataclass(frozen=True, slots=True)
class GraphEdge:
    source: str
    target: str
    kind: str
    name: str = ""
    """The variable that flows."""


@dataclass(frozen=True, slots=True)
class GraphCluster:
    id: str
    kind: str
    title: str
    parent: str | None
    side: str = "host"
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """An IR graph. Nodes, edges and clusters are in source order; ids are stable for the same program."""

    name: str
    clusters: tuple[GraphCluster, ...]
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]

    def node(self, id_: str) -> GraphNode:
        """The node with this id. Raises KeyError when there is none."""
        for node in self.nodes:
            if node.id == id_:
                return node
        raise KeyError(id_)

    def at_line(self, line: int, file: str | None = None) -> tuple[GraphNode, ...]:
        """The nodes that stand on a source line."""
        return tuple(v for v in self.nodes if v.line == line and file in (None, v.file))

    def tree(self) -> dict[str | None, list[GraphNode | GraphCluster]]:
        """What stands directly inside each cluster (None: the whole graph), in source order, without empty clusters."""
        inside: dict[str | None, list[GraphNode | GraphCluster]] = {None: []}
        clusters = {c.id: c for c in self.clusters}
        for node in self.nodes:
            item: GraphNode | GraphCluster = node
            home = node.cluster
            while home not in inside and home is not None:
                inside[home] = [item]
                item, home = clusters[home], clusters[home].parent
            inside[home].append(item)
        return inside

    def ancestors(self, cluster: str | None) -> Iterator[str]:
        """The cluster and those around it, inside out."""
        parents = {c.id: c.parent for c in self.clusters}
        while cluster is not None:
            yield cluster
            cluster = parents[cluster]

    def folded(self, clusters: Iterable[str]) -> Graph:
        """The graph with each of these clusters drawn as one node; edges inside them disappear."""
        wanted = set(clusters)
        owner = {c.id: [a for a in self.ancestors(c.id) if a in wanted] for c in self.clusters}
        home = {v.id: owner[v.cluster][-1] if v.cluster and owner[v.cluster] else v.id for v in self.nodes}
        outermost = {cluster for cluster in home.values() if cluster in wanted}
        counts = Counter(home.values())
        by_id = {c.id: c for c in self.clusters}
        nodes: list[GraphNode] = []
        for node in self.nodes:
            if home[node.id] == node.id:
                nodes.append(node)
            elif home[node.id] in outermost:
                outermost.discard(home[node.id])
                nodes.append(_folded_node(by_id[home[node.id]], counts[home[node.id]], node))
        edges = dict.fromkeys(
            dataclasses.replace(e, source=home[e.source], target=home[e.target])
            for e in self.edges
            if home[e.source] != home[e.target] or home[e.source] not in wanted
        )
        kept = tuple(c for c in self.clusters if not owner[c.id])
        return Graph(self.name, kept, tuple(nodes), tuple(edges))

    def within(self, max_nodes: int = MAX_NODES) -> Graph:
        """The graph with as few clusters folded as it takes to have at most `max_nodes` nodes (largest first)."""
        current = self
        while len(current.nodes) > max_nodes:
            sizes = Counter(v.cluster for v in current.nodes if v.cluster is not None)
            leaves = {c.id for c in current.clusters} - {c.parent for c in current.clusters}
            candidates = [(size, id_) for id_, size in sizes.items() if id_ in leaves and size > 1]
            if not candidates:
                break
            current = current.folded([max(candidates)[1]])
        return current

    def text(self) -> str:
        """The graph as indented text: one line a node, with the ids it reads from."""
        reads: dict[str, list[str]] = {}
        for edge in self.edges:
            mark = {"carried": "~", "pipe": "|", "call": "@"}.get(edge.kind, "")
            reads.setdefault(edge.target, []).append(mark + edge.source)
        lines = [f"graph {self.name}: {_count(len(self.nodes), 'node')}, {_count(len(self.edges), 'edge')}"]
        tree = self.tree()

        def write(cluster: str | None, indent: str) -> None:
            for item in tree.get(cluster, ()):
                lines.append(indent + _text_line(item, reads))
                if isinstance(item, GraphCluster):
                    write(item.id, indent + "  ")

        write(None, "  ")
        return "\n".join(lines)

    def dot(self) -> str:
        """The graph in the DOT language."""
        from pypto_lab.view.dot import to_dot  # these modules read this one's classes

        return to_dot(self)

    def svg(self, *, engine: str | None = None, standalone: bool = True, prefix: str = "") -> str:
        """The graph as SVG.

        Args:
            engine: "dot" (Graphviz), "viz" (its WebAssembly build, run by Node), "own" (the lab's layered layout);
                None takes the first that this machine has.
            standalone: Whether the picture carries its own style and background, as a file must.
            prefix: Put before each id, so that several graphs can stand in one page.

        Raises ValueError for an unknown engine, RuntimeError when the engine asked for is not installed.
        """
        from pypto_lab.view.draw import draw

        return draw(self, engine=engine, standalone=standalone, prefix=prefix)

    def html(self) -> str:
        """A page that needs nothing else: the drawn graph, or, where this machine cannot run Graphviz, the graph and
        the library that draws it in the browser."""
        from pypto_lab.view.draw import page

        return page(self)

    def widget(self) -> Any:
        """The graph as a notebook widget, drawn in the browser, its clusters folding on a click. Needs anywidget."""
        from pypto_lab.view.widgets import graph_widget

        return graph_widget(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from pypto_lab.view.parts import Figure, to_html

        figure = Figure(self.svg(standalone=False, prefix="g-"), f"IR graph of {self.name}", self.text())
        return {"text/plain": self.text(), "text/html": to_html(figure)}


def _folded_node(cluster: GraphCluster, count: int, first: GraphNode) -> GraphNode:
    return GraphNode(
        id=cluster.id,
        kind="folded",
        title=cluster.title,
        lines=(_count(count, "node"),),
        side=cluster.side,
        cluster=cluster.parent,
        file=first.file,
        line=cluster.line,
        hover=f"{cluster.title}: {_count(count, 'node')}, folded",
    )


def _text_line(item: GraphNode | GraphCluster, reads: Mapping[str, list[str]]) -> str:
    place = "" if item.line is None else f"  line {item.line}"
    if isinstance(item, GraphCluster):
        return item.title + place
    side = "" if item.side == "host" else f"  {item.side.upper()}"
    sources = f"  <- {', '.join(reads[item.id])}" if item.id in reads else ""
    return "  ".join((item.id, item.title, *item.lines)) + side + place + sources


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def graph(program: n.Program | n.Function, *, max_nodes: int | None = MAX_NODES) -> Graph:
    """The IR graph of a program or of one function.

    `max_nodes` folds clusters of large programs (:meth:`Graph.within`); None keeps every node.
    """
    from pypto_lab.view.dataflow import build

    built = build(program)
    return built if max_nodes is None else built.within(max_nodes)
