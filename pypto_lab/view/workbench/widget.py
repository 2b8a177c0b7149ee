"""The workbench as a notebook widget: the timeline travels once, the cursor is shared, cells are sent when asked for.

Messages arrive on another thread than the cell's (ipykernel's subshells), so all of them hold the workbench's lock.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from pypto_lab.ir.diagnostics import LabError
from pypto_lab.view import assets
from pypto_lab.view.workbench.page import cursor_state

if TYPE_CHECKING:
    from pypto_lab.view.workbench.bench import Workbench

_MOST_KEYS = 256
"""Tiles answered to one message; the browser asks for a screen's worth."""


@cache
def _class() -> type[Any]:
    """The widget class; made on first use, so that nothing imports a widget library before it is needed."""
    import anywidget
    import traitlets

    class WorkbenchView(anywidget.AnyWidget):  # type: ignore[misc, unused-ignore]
        _esm = assets.text("workbench.js")
        _css = assets.text("graph.css") + assets.text("workbench.css")
        timeline = traitlets.Bytes().tag(sync=True)
        cursor = traitlets.Dict().tag(sync=True)

        def __init__(self, bench: Workbench, **keywords: Any) -> None:
            self.bench = bench
            self._showing = False
            super().__init__(timeline=bench.packed(), cursor=cursor_state(bench), **keywords)
            self.on_msg(self._message)
            self.observe(self._moved, names="cursor")

        def show_session(self) -> None:
            """Shows the session's cursor."""
            with self.bench.lock:
                self._showing = True
                try:
                    self.cursor = cursor_state(self.bench)
                finally:
                    self._showing = False

        def _moved(self, change: Any) -> None:
            with self.bench.lock:
                if not self._showing:
                    take_cursor(self.bench, change["new"])

        def _message(self, _widget: object, content: Any, _buffers: object) -> None:
            if isinstance(content, dict) and content.get("ask") == "tiles":
                answer, buffers = tiles_answer(self.bench, content.get("keys"))
                self.send(answer, buffers)

    return WorkbenchView


def tiles_answer(bench: Workbench, keys: Any) -> tuple[dict[str, Any], list[bytes]]:
    """The answer to a request for tiles: their heads, their numbers, and why some cannot be had."""
    heads: list[dict[str, Any]] = []
    buffers: list[bytes] = []
    refused: dict[str, str] = {}
    known = {n.tile.key: n.tile for n in bench.numbers if n.tile is not None}
    for key in [k for k in keys if isinstance(k, str)][:_MOST_KEYS] if isinstance(keys, list) else ():
        try:
            with bench.lock:
                tile = known.get(key) or bench.tiles.tile(key)
        except LabError as problem:
            refused[key] = problem.diagnostics[0].message
            continue
        heads.append(tile.head())
        buffers.append(tile.data)
    return {"tiles": heads, "refused": refused}, buffers


def take_cursor(bench: Workbench, state: Any) -> None:
    """Puts the session where the browser's cursor is; a state that does not fit changes nothing."""
    session = bench.session
    position, lane = state.get("position"), state.get("lane")
    if not isinstance(position, int) or not 0 <= position <= len(session) or lane not in bench.recording.trace.lanes:
        return
    session.following = bool(state.get("following"))
    session.goto(position)
    if not session.following:
        turns = state.get("iteration")
        turn = tuple(turns) if turns else None
        try:
            session.focus_on(lane, block=state.get("block"), task=state.get("task"), iteration=turn)
        except LabError:
            return
        if session.position != position:  # the browser may look at a lane from a step that is not its own
            session.goto(position)


def make_widget(bench: Workbench) -> Any:
    """Raises ModuleNotFoundError with the extra to install."""
    try:
        made = _class()
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error}; install it with: pip install 'pypto-lab[lab]'", name=error.name) from None
    return made(bench)
