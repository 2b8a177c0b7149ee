"""How nodes and edges of a graph look, whoever draws them: colours of the light theme, glyphs, sizes."""

from __future__ import annotations

from pypto_lab.ir.diagnostics import display_width
from pypto_lab.view.graph import GraphNode

INK, DIM, LINE = "#1f1f1f", "#5f5f5f", "#c2c2c2"
STROKE = {"aic": "#ba5e00", "aiv": "#176dc1", "host": "#9a9a9a"}
FILL = {"aic": "#f9efe6", "aiv": "#e8f1f9", "host": "#ffffff"}
EDGE = {"data": "#6b6b6b", "index": "#a8a8a8", "carried": "#6b6b6b", "pipe": "#388e3c", "call": "#9a9a9a"}
GLYPH = {"aic": "■ ", "aiv": "● ", "host": ""}
"""The side of a node in a shape, so that colour is never alone."""

TITLE_ROW, LINE_ROW, PAD = 15.0, 12.0, 8.0
"""Heights in pixels of a node's heading and of the rows under it, and the room around them."""

_TITLE_CHAR, _LINE_CHAR = 6.5, 5.6
"""Widths of a character that hold for the widest of the usual fonts; a picture must not depend on which one it gets."""


def rounded(node: GraphNode) -> bool:
    """Loop indices and conditions are drawn round."""
    return node.kind in ("index", "test")


def heading(node: GraphNode) -> str:
    return GLYPH[node.side] + node.title


def node_size(node: GraphNode) -> tuple[float, float]:
    """Width and height in pixels that hold the node's text."""
    widths = [display_width(heading(node)) * _TITLE_CHAR, *(display_width(t) * _LINE_CHAR for t in node.lines)]
    room = 4 * PAD if rounded(node) else 2 * PAD
    return max(44.0, max(widths) + room), TITLE_ROW + LINE_ROW * len(node.lines) + PAD
