"""The workbench without a kernel: a page of its own that steps offline, and a static form for nbconvert and GitHub."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pypto_lab.record.trace import Cells
from pypto_lab.view import assets
from pypto_lab.view.parts import Chip, Code, Figure, Part, Pre, Report, Stack, Tabs, to_html
from pypto_lab.view.workbench import drawing, text
from pypto_lab.view.workbench.answers import stage_detail
from pypto_lab.view.workbench.tiles import MODES, SIDE, Tile, against, tile_of, whole_of

if TYPE_CHECKING:
    from pypto_lab.view.workbench.bench import Workbench

LARGEST_PAGE = 48 << 20
"""Bytes of cells that a page carries before compression; beyond it tiles are drawn coarser, then left out."""

MOST_CELLS = 1 << 27
"""Cells that are looked at for a page; the tiles of later steps are left out."""

MOST_WHOLE = 1 << 20
"""Cells of tensors too large to be drawn cell by cell that a page carries all the same, for the table."""

LARGEST_STAGES = 8 << 20
"""Characters of stages (graphs and texts) that a page carries before compression."""

_SIDES = (SIDE, 64, 32)
_STATIC_LINES = 60


def page(bench: Workbench) -> str:
    """The whole page: style, script, timeline and cells inlined."""
    heads, cells, left = _cells(bench)
    about = {"tiles": heads, "stages": _stages(bench), "cursor": cursor_state(bench), "left": left}
    body = "".join(
        f'<script type="application/octet-stream" id="{name}">{base64.b64encode(data).decode()}</script>'
        for name, data in (
            ("pw-timeline", bench.packed()),
            ("pw-heads", gzip.compress(json.dumps(about).encode(), 6, mtime=0)),
            ("pw-cells", gzip.compress(cells, 6, mtime=0)),
        )
    )
    title = html.escape(f"{bench.title} - PyPTO Lab workbench")
    script = assets.text("workbench.js").replace("</script", "<\\/script")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{assets.text('graph.css')}{assets.text('workbench.css')}</style></head>\n"
        f'<body class="pw-alone"><main><h1 class="pw-sr">{title}</h1><div data-pw-page></div></main>'
        f'<noscript><pre>{html.escape(bench.files.text(bench.text()))}</pre></noscript>\n{body}\n<script type="module">'
        f"{script}</script></body></html>\n"
    )


def cursor_state(bench: Workbench) -> dict[str, Any]:
    """The session's cursor as the browser keeps it."""
    focus = bench.session.focus
    iteration = focus.iteration
    turns = None if iteration is None else [iteration] if isinstance(iteration, int) else list(iteration)
    return {
        "position": bench.session.position, "lane": focus.lane, "block": focus.block, "task": focus.task,
        "iteration": turns, "following": bench.session.following,
    }  # fmt: skip


def _cells(bench: Workbench) -> tuple[list[dict[str, Any]], bytes, str]:
    """Heads of the tiles with where their numbers begin, the numbers, and what to say of a tile that is left out.

    Tiles with the same numbers share them.
    """
    keys = bench.keys_within(MOST_CELLS)
    side = next((s for s in _SIDES if _bytes(bench, keys, s) <= LARGEST_PAGE), _SIDES[-1])
    store = _Store()
    heads: list[dict[str, Any]] = []
    whole = MOST_WHOLE
    for tile, content in _tiles(bench, keys, side):
        at = store.put(tile.data)
        if at is None:
            continue
        head = {**tile.head(), "at": at}
        cells = tile.rows * tile.columns
        if tile.shown != (tile.rows, tile.columns) and content is not None and cells <= whole:
            kept = store.put(whole_of(content, tile.wide))
            if kept is not None:
                whole -= cells
                head["whole"] = kept
        heads.append(head)
    return heads, bytes(store.data), "left out of this page, which would be too large; the widget shows it"


class _Store:
    """Bytes one after the other, those that are the same once, up to the largest page."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._places: dict[bytes, int] = {}

    def put(self, part: bytes) -> int | None:
        """Where the bytes begin, None where there is no room for them."""
        digest = hashlib.blake2b(part, digest_size=16).digest()
        if digest not in self._places:
            if len(self.data) + len(part) > LARGEST_PAGE:
                return None
            self.data += b"\0" * (-len(self.data) % 8)
            self._places[digest] = len(self.data)
            self.data += part
        return self._places[digest]


def _stages(bench: Workbench) -> list[dict[str, Any]]:
    """Graphs and texts of the stages that changed something, as many as there is room for."""
    out: list[dict[str, Any]] = []
    room = LARGEST_STAGES
    for index, stage in enumerate(bench.stages):
        if index and not stage.changed:
            continue
        detail = stage_detail(bench, index)
        room -= len(detail["svg"]) + len(detail["text"])
        if room < 0:
            break
        out.append(detail)
    return out


def _bytes(bench: Workbench, keys: Sequence[str], side: int) -> int:
    """How many bytes the tiles would take, if no two were the same."""
    values = bench.payload["timeline"]["values"]

    def size(key: str) -> int:
        shape: Sequence[int] = values[int(key.partition("@")[0])][2]
        columns = shape[-1] if shape else 1
        return 4 * min(side, math.prod(shape[:-1])) * min(side, columns)

    return sum(size(key) for key in keys)


def _tiles(bench: Workbench, keys: Sequence[str], side: int) -> Iterator[tuple[Tile, Cells | None]]:
    """Tiles with the cells that they are drawn from."""
    for key, content in bench.tiles.contents(keys):
        yield tile_of(key, content, side), content
        golden = bench.tiles.golden_of(int(key.partition("@")[0]))
        if golden is not None:
            for mode in MODES[1:]:
                other = against(content, golden, mode)
                yield tile_of(f"{key}!{mode}", other, side), other
    yield from ((n.tile, None) for n in bench.numbers if n.tile is not None)


# --- without scripts -------------------------------------------------------------------------------------------------


def static_html(bench: Workbench) -> str:
    """The state at the cursor as tables and pictures: works without scripts, a kernel or a network."""
    return bench.files.text(to_html(static_part(bench)))


def static_part(bench: Workbench) -> Report:
    """The same as a tree of parts."""
    session, facts = bench.session, bench.recording.facts
    shown: list[tuple[str, Part]] = [
        ("Timeline", Stack((drawing.timeline_figure(bench), text.lanes_table(bench)))),
        ("Variables", text.variables_table(bench)),
    ]
    tile = drawing.tile_figure(bench)
    if tile is not None:
        shown.append(("Tile", tile))
    if "queues" in bench.views:
        shown.append(("Queues", text.queues_table(bench)))
    listing = next(iter(bench.sources), bench.script)
    line = text.line_in(bench, listing)
    first = max(0, (line or listing.first) - listing.first - _STATIC_LINES // 2)
    rows = listing.shown[first : first + _STATIC_LINES]
    shown.append(("Source", Code("\n".join(rows), f"{listing.name}, from line {listing.first + first}")))
    shown += [(n.name, Pre("\n".join(n.comparison.lines()))) for n in bench.numbers]
    if bench.graph is not None:
        svg = bench.graph.svg(standalone=False, prefix="pw-static-")
        shown.append(("Graph", Figure(svg, f"IR graph of {bench.title}", bench.graph.text())))
    chips = [Chip(facts.status, bench.recording.ok), Chip(f"seed {facts.seed}")]
    if bench.numbers:
        right = all(n.comparison.ok for n in bench.numbers)
        chips.insert(0, Chip("match" if right else "mismatch", right))
    where = f"step {session.position} of {len(session)}"
    return Report(bench.title, where, tuple(chips), Tabs(tuple(shown), f"Recording of {bench.title}"))
