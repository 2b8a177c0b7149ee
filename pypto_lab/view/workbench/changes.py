"""What a pass did to the IR graph: nodes that came, went, moved or changed, both graphs in one drawing.

Nodes of the two programs are matched function by function, in source order, by what they do; what is left over on both
sides and says the same has moved to another function.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from pypto_lab.view.graph import Graph, GraphCluster, GraphEdge, GraphNode

SIGNS = {"added": "+", "removed": "\u2212", "moved": "\u2192", "changed": "~"}
"""How a node's title begins where it is marked: said in the drawing, in text, and by a screen reader."""

MOST_NODES = 240
"""Nodes that are drawn; clusters of larger graphs are folded, and a folded node with a mark inside is `changed`."""

_VERSION = re.compile(r"__[a-z]+_v\d+\b")


@dataclass(frozen=True, slots=True)
class GraphChanges:
    """The graph after a pass together with what it removed; `marks` says of a node id what became of it."""

    graph: Graph
    marks: Mapping[str, str]

    @property
    def counts(self) -> dict[str, int]:
        """How many nodes were added, removed, moved, changed."""
        found = Counter(self.marks.values())
        return {kind: found[kind] for kind in SIGNS if found[kind]}

    @property
    def summary(self) -> str:
        """`3 nodes added, 1 removed`."""
        words = [f"{count} {kind}" for kind, count in self.counts.items()]
        return f"nodes: {', '.join(words)}" if words else "no node differs"

    def svg(self, prefix: str = "") -> str:
        """The drawing, by the lab's own layout: many of them are made at a time."""
        return self.graph.svg(engine="own", standalone=False, prefix=prefix)

    def text(self) -> str:
        """The marked nodes, function by function."""
        rows = [self.summary]
        where: str | None = None
        for node in self.graph.nodes:
            if node.id not in self.marks:
                continue
            function = _function_of(self.graph, node)
            if function != where:
                rows.append(f"  {function or 'program'}")
                where = function
            place = f"  line {node.line}" if node.line else ""
            rows.append("    " + "  ".join((node.title, *node.lines)) + place)
        return "\n".join(rows)


def graph_changes(before: Graph, after: Graph, functions: Collection[str] | None = None) -> GraphChanges:
    """Compares two graphs; `functions` narrows both to those."""
    if functions is not None:
        before, after = _only(before, functions), _only(after, functions)
    pairs, gone, new = _matched(before, after)
    old = {v.id: v for v in before.nodes}
    marks = {b: "changed" for a, b in pairs.items() if _said(old[a]) != _said(after.node(b))}
    moved = _moved([old[a] for a in gone], [after.node(b) for b in new])
    pairs |= moved
    marks |= dict.fromkeys(new, "added") | dict.fromkeys(moved.values(), "moved")
    ghosts = [a for a in gone if a not in moved]
    return _together(before, after, pairs, ghosts, marks)


def _key(node: GraphNode) -> tuple[str, str]:
    """What a node does: an operation whatever its layer (`tensor.add`, `tile.add`), a variable whatever its version."""
    return node.kind, node.title.rpartition(".")[2] if node.kind == "operation" else _plain(node.title)


def _said(node: GraphNode) -> tuple[str, ...]:
    return (*map(_plain, (node.title, *node.lines)), node.side)


def _plain(text: str) -> str:
    """Text without the version numbers that single assignment gives variables."""
    return _VERSION.sub("", text)


def _root(graph: Graph, cluster: str | None) -> str | None:
    around = list(graph.ancestors(cluster))
    return around[-1] if around else None


def _function_of(graph: Graph, node: GraphNode) -> str:
    """The name of the function a node is in, empty outside one."""
    root = _root(graph, node.cluster)
    title = next((c.title for c in graph.clusters if c.id == root), "")
    return _name(title)


def _name(title: str) -> str:
    return title.lstrip("".join(SIGNS.values()) + " ").partition(",")[0]


def _only(graph: Graph, functions: Collection[str]) -> Graph:
    """The graph of some of its functions."""
    titles = {c.id: _name(c.title) for c in graph.clusters if c.parent is None}
    roots = {c.id: _root(graph, c.id) for c in graph.clusters}
    kept = {c for c, root in roots.items() if titles.get(root or "") in functions}
    nodes = tuple(v for v in graph.nodes if v.cluster in kept)
    ids = {v.id for v in nodes}
    edges = tuple(e for e in graph.edges if e.source in ids and e.target in ids)
    return Graph(graph.name, tuple(c for c in graph.clusters if c.id in kept), nodes, edges)


def _by_function(graph: Graph) -> dict[str, list[GraphNode]]:
    out: dict[str, list[GraphNode]] = {}
    for node in graph.nodes:
        out.setdefault(_function_of(graph, node), []).append(node)
    return out


def _matched(before: Graph, after: Graph) -> tuple[dict[str, str], list[str], list[str]]:
    """Ids of nodes that are the same in both, those only before, those only after."""
    old, new = _by_function(before), _by_function(after)
    pairs: dict[str, str] = {}
    for function in old.keys() & new.keys():
        left, right = old[function], new[function]
        matcher = SequenceMatcher(None, [_key(v) for v in left], [_key(v) for v in right], autojunk=False)
        for i, j, size in matcher.get_matching_blocks():
            pairs |= {left[i + k].id: right[j + k].id for k in range(size)}
    taken = set(pairs.values())
    gone = [v.id for v in before.nodes if v.id not in pairs]
    return pairs, gone, [v.id for v in after.nodes if v.id not in taken]


def _moved(gone: Sequence[GraphNode], new: Sequence[GraphNode]) -> dict[str, str]:
    """Operations that disappeared in one function and stand in another: first those that say exactly the same, then
    those that do the same. Parameters do not move."""
    out: dict[str, str] = {}
    for same in (_said, _key):
        waiting: dict[tuple[str, ...], list[str]] = {}
        for node in gone:
            if node.kind == "operation" and node.id not in out:
                waiting.setdefault(same(node), []).append(node.id)
        taken = set(out.values())
        for node in new:
            if node.id not in taken and (places := waiting.get(same(node))):
                out[places.pop(0)] = node.id
    return out


def _together(
    before: Graph, after: Graph, pairs: Mapping[str, str], ghosts: list[str], marks: Mapping[str, str]
) -> GraphChanges:
    """Both graphs as one: what was removed stands where it stood, if that place is still there."""
    place = _Places(before, after)
    old = {v.id: v for v in before.nodes}
    ghost = {a: f"gone-{a}" for a in ghosts}
    all_marks = {**marks, **dict.fromkeys(ghost.values(), "removed")}
    nodes = [_titled(v, all_marks.get(v.id)) for v in after.nodes]
    for a in ghosts:
        made = dataclasses.replace(old[a], id=ghost[a], cluster=place.of(old[a].cluster))
        nodes.append(_titled(made, "removed"))
    now = {**pairs, **ghost}
    edges = list(after.edges)
    for e in before.edges:
        if (e.source in ghost or e.target in ghost) and e.source in now and e.target in now:
            edges.append(GraphEdge(now[e.source], now[e.target], e.kind, e.name))
    whole = Graph(after.name, (*after.clusters, *place.kept), tuple(nodes), tuple(dict.fromkeys(edges)))
    drawn = whole.within(MOST_NODES)
    return GraphChanges(drawn, _folded_marks(whole, drawn, all_marks))


def _folded_marks(whole: Graph, drawn: Graph, marks: Mapping[str, str]) -> dict[str, str]:
    ids = {v.id for v in drawn.nodes}
    out = {id_: mark for id_, mark in marks.items() if id_ in ids}
    folded = {v.id for v in drawn.nodes if v.kind == "folded"}
    for node in whole.nodes:
        if node.id in marks and node.id not in ids:
            out |= {c: "changed" for c in whole.ancestors(node.cluster) if c in folded}
    return out


def _titled(node: GraphNode, mark: str | None) -> GraphNode:
    return node if mark is None else dataclasses.replace(node, title=f"{SIGNS[mark]} {node.title}")


class _Places:
    """Where a cluster of the old graph is in the new one: the one with the same titles around it, else it is kept."""

    def __init__(self, before: Graph, after: Graph) -> None:
        self.kept: list[GraphCluster] = []
        self._before = {c.id: c for c in before.clusters}
        self._there = {self._path(after, c.id): c.id for c in reversed(after.clusters)}
        self._graph = before
        self._known: dict[str, str] = {}

    def of(self, cluster: str | None) -> str | None:
        if cluster is None:
            return None
        if cluster not in self._known:
            found = self._there.get(self._path(self._graph, cluster))
            if found is None:
                old = self._before[cluster]
                found = f"gone-{cluster}"
                title = f"{SIGNS['removed']} {old.title}"
                self.kept.append(dataclasses.replace(old, id=found, title=title, parent=self.of(old.parent)))
            self._known[cluster] = found
        return self._known[cluster]

    @staticmethod
    def _path(graph: Graph, cluster: str) -> tuple[str, ...]:
        titles = {c.id: c.title for c in graph.clusters}
        names = [titles[c] for c in graph.ancestors(cluster)]
        return (*names[:-1], _name(names[-1]))
