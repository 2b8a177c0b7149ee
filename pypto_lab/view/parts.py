"""What a view says, apart from how it is shown: one tree of parts, rendered as HTML, as text or as SVG.

A part is plain data. `to_html` gives a self-contained fragment for a notebook, `page_html` a whole page, `to_text` the
same answer for a terminal, `to_svg` a picture.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias
from xml.sax.saxutils import escape

from pypto_lab.ir.diagnostics import display_width
from pypto_lab.view import assets

TONES = ("", "good", "wrong", "dim", "mono")


@dataclass(frozen=True, slots=True)
class Text:
    """Words in one tone (one of TONES)."""

    text: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Heading:
    text: str


@dataclass(frozen=True, slots=True)
class Pre:
    """Text whose line breaks and spaces count."""

    text: str


@dataclass(frozen=True, slots=True)
class Chip:
    """A short fact in the header: `good` True is fine, False is not, None is neither."""

    text: str
    good: bool | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; columns named in `right` are set flush right. The first cell of a row is its heading."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    right: frozenset[str] = frozenset()
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Code:
    """A listing in Python. `links` names rows (1-based line -> link) that light up together with rows of the same link
    in the listing beside it (`Pair`); `start` is the row it is scrolled to at first."""

    text: str
    label: str
    links: Mapping[int, str] = field(default_factory=dict)
    start: int = 1


@dataclass(frozen=True, slots=True)
class Pair:
    left: Code
    right: Code


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture (SVG) with its name and the text that gives the same answer."""

    svg: str
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Stack:
    """Parts one below another."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Tabs:
    """Named panels of which one is shown; all of them where no script runs, and in text."""

    panels: tuple[tuple[str, Part], ...]
    label: str = "Views"


@dataclass(frozen=True, slots=True)
class Report:
    """A framed result: name, subtitle, chips, body."""

    title: str
    subtitle: str
    chips: tuple[Chip, ...]
    body: Part


Part: TypeAlias = Text | Heading | Pre | Chip | Table | Code | Pair | Figure | Stack | Tabs | Report


# --- HTML ------------------------------------------------------------------------------------------------------------


def to_html(part: Part) -> str:
    """A fragment that carries its style and script and needs nothing else."""
    return (
        f"<style>{assets.text('lab.css')}{assets.text('graph.css')}</style>"
        f'<div class="pl-root">{_html(part)}</div><script>{assets.text("lab.js")}</script>'
    )


def page_html(title: str, part: Part, scripts: str = "") -> str:
    """A whole page, light or dark as the reader's system is."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title>"
        f"<style>{assets.text('lab.css')}{assets.text('graph.css')}</style></head>\n"
        f'<body class="pl-alone"><main class="pl-root">{_html(part)}</main>\n'
        f"<script>{assets.text('lab.js')}</script>{scripts}</body></html>\n"
    )


def _html(part: Part) -> str:
    render: Callable[[Part], str] = _HTML[type(part)]
    return render(part)


def _span(text: Text) -> str:
    shown = html.escape(text.text)
    return f'<span class="pl-{text.tone}">{shown}</span>' if text.tone else shown


def _text_html(part: Text) -> str:
    return f"<p>{_span(part)}</p>"


def _heading_html(part: Heading) -> str:
    return f'<h4 class="pl-heading">{html.escape(part.text)}</h4>'


def _pre_html(part: Pre) -> str:
    return f'<pre class="pl-pre" tabindex="0">{html.escape(part.text)}</pre>'


def _chip_html(part: Chip) -> str:
    tone = {True: " pl-chip-ok", False: " pl-chip-bad", None: ""}[part.good]
    mark = {True: "✓ ", False: "✗ ", None: ""}[part.good]
    return f'<span class="pl-chip{tone}"><b>{mark}{html.escape(part.text)}</b></span>'


def _table_html(part: Table) -> str:
    def classes(column: str) -> str:
        return ' class="pl-right"' if column in part.right else ""

    head = "".join(f'<th scope="col"{classes(c)}>{html.escape(c)}</th>' for c in part.columns)
    rows = []
    for row in part.rows:
        cells = [f"<td{classes(c)}>{_span(t)}</td>" for c, t in zip(part.columns, row, strict=True)]
        cells[0] = f'<th scope="row"{classes(part.columns[0])}>{_span(row[0])}</th>'
        rows.append(f"<tr>{''.join(cells)}</tr>")
    caption = f"<caption>{html.escape(part.caption)}</caption>" if part.caption else ""
    return (
        f'<div class="pl-table-box" tabindex="0" role="group" aria-label="{html.escape(part.caption or "table")}">'
        f'<table class="pl-table">{caption}<thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def _code_html(part: Code) -> str:
    return f"<pl-pair>{_listing(part)}</pl-pair>"


def _listing(part: Code) -> str:
    rows, label = [], html.escape(part.label)
    for number, line in enumerate(_highlighted(part.text), 1):
        link = part.links.get(number)
        linked = f' data-link="{html.escape(link)}"' if link is not None else ""
        rows.append(f'<span class="pl-row" data-number="{number}"{linked}>{line}</span>')
    return (
        f'<div><h4 class="pl-heading">{label}</h4>'
        f'<div class="pl-code" role="group" tabindex="0" aria-label="{label}" data-start="{part.start}">'
        f'<div class="pl-rows">{"".join(rows)}</div></div></div>'
    )


def _highlighted(text: str) -> list[str]:
    """The listing's lines as HTML, tokens in one of five classes."""
    from pygments.lexers.python import PythonLexer  # only HTML needs it, and it is slow to import
    from pygments.token import Comment, Keyword, Name, Number, Operator, String

    families = (
        (Comment, "c"), (String, "s"), (Number, "m"), (Keyword, "k"), (Operator.Word, "k"),
        (Name.Function, "f"), (Name.Class, "f"), (Name.Decorator, "f"),
    )  # fmt: skip
    lines = [""]
    for kind, value in PythonLexer(stripnl=False, ensurenl=False).get_tokens(text):
        family = next((short for token, short in families if kind in token), None)
        for index, piece in enumerate(value.split("\n")):
            if index:
                lines.append("")
            if piece:
                shown = html.escape(piece, quote=False)
                lines[-1] += f'<span class="pl-tok-{family}">{shown}</span>' if family else shown
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


def _pair_html(part: Pair) -> str:
    return f'<pl-pair class="pl-two">{_listing(part.left)}{_listing(part.right)}</pl-pair>'


def _figure_html(part: Figure) -> str:
    return (
        f'<figure class="pl-figure"><div class="pl-scroll pl-figure-picture" tabindex="0" role="group" '
        f'aria-label="{html.escape(part.label)}">{part.svg}</div>'
        f'<details><summary>As text</summary><pre class="pl-pre" tabindex="0">{html.escape(part.text)}</pre></details>'
        "</figure>"
    )


def _stack_html(part: Stack) -> str:
    return f'<div class="pl-stack">{"".join(_html(p) for p in part.parts)}</div>'


def _tabs_html(part: Tabs) -> str:
    panels = [
        f'<section class="pl-panel" data-title="{html.escape(name)}">'
        f'<h3 class="pl-panel-title">{html.escape(name)}</h3>{_html(panel)}</section>'
        for name, panel in part.panels
    ]
    return f'<pl-tabs data-label="{html.escape(part.label)}">{"".join(panels)}</pl-tabs>'


def _report_html(part: Report) -> str:
    chips = "".join(_chip_html(c) for c in part.chips)
    return (
        f'<div class="pl-report"><div class="pl-head"><h2 class="pl-name">{html.escape(part.title)}</h2>'
        f'<span class="pl-dim">{html.escape(part.subtitle)}</span><span class="pl-chips">{chips}</span></div>'
        f"{_html(part.body)}</div>"
    )


_HTML: dict[type, Callable[..., str]] = {
    Text: _text_html, Heading: _heading_html, Pre: _pre_html, Chip: _chip_html, Table: _table_html, Code: _code_html,
    Pair: _pair_html, Figure: _figure_html, Stack: _stack_html, Tabs: _tabs_html, Report: _report_html,
}  # fmt: skip


# --- text ------------------------------------------------------------------------------------------------------------


def to_text(part: Part) -> str:
    """The same answer for a terminal or a screen reader."""
    return "\n".join(line.rstrip() for line in _lines(part))


def _lines(part: Part) -> list[str]:
    match part:
        case Text() | Heading() | Pre():
            return part.text.splitlines() or [""]
        case Chip():
            return [part.text]
        case Table():
            return _table_lines(part)
        case Code():
            numbered = (f"{i:>5}  {line}" for i, line in enumerate(part.text.splitlines(), 1))
            return [part.label, *numbered]
        case Pair():
            return [*_lines(part.left), "", *_lines(part.right)]
        case Figure():
            return part.text.splitlines()
        case Stack():
            return _joined([_lines(p) for p in part.parts])
        case Tabs():
            return _joined([[f"-- {name} --", *_lines(panel)] for name, panel in part.panels])
        case Report():
            marks = {True: "ok: ", False: "NOT OK: ", None: ""}
            chips = ", ".join(marks[c.good] + c.text for c in part.chips)
            head = " ".join(w for w in (part.title, part.subtitle) if w)
            return [head + (f" [{chips}]" if chips else ""), "", *_lines(part.body)]


def _joined(blocks: Iterable[Sequence[str]]) -> list[str]:
    """Blocks with one empty line between them."""
    out: list[str] = []
    for block in blocks:
        out += ["", *block] if out else block
    return out


def _table_lines(part: Table) -> list[str]:
    grid = [part.columns, *(tuple(t.text for t in row) for row in part.rows)]
    widths = [max(display_width(row[i]) for row in grid) for i in range(len(part.columns))]

    def padded(row: Sequence[str]) -> str:
        cells = []
        for name, text, width in zip(part.columns, row, widths, strict=True):
            space = " " * (width - display_width(text))
            cells.append(space + text if name in part.right else text + space)
        return "  ".join(cells)

    caption = [part.caption] if part.caption else []
    return [*caption, padded(grid[0]), *(padded(row) for row in grid[1:])]


# --- SVG -------------------------------------------------------------------------------------------------------------

_CHAR, _ROW, _MARGIN = 6.7, 17.0, 12.0


def to_svg(part: Part) -> str:
    """A picture: text as monospaced rows; a lone figure is its own picture."""
    if isinstance(part, Figure):
        return part.svg
    rows = to_text(part).splitlines() or [""]
    width = max(display_width(r) for r in rows) * _CHAR + 2 * _MARGIN
    height = len(rows) * _ROW + 2 * _MARGIN
    text = "".join(
        f'<text x="{_MARGIN}" y="{_MARGIN + _ROW * i - 5:.0f}" xml:space="preserve">{escape(row)}</text>'
        for i, row in zip(itertools.count(1), rows, strict=False)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="{escape(rows[0], {chr(34): "&quot;"})}">'
        '<rect width="100%" height="100%" fill="#fff"/><g font-family="DejaVu Sans Mono,Menlo,Consolas,monospace" '
        f'font-size="11" fill="#1f1f1f">{text}</g></svg>'
    )
