"""The workbench as a notebook widget: the timeline travels once, the cursor is shared, cells are sent when asked for.

All workbenches of a notebook share one hidden model with the browser side's module and style, so these travel and are
saved once. Messages arrive on another thread than the cell's (ipykernel's subshells): all of them hold a lock, and
none of them touches the display.
"""

from __future__ import annotations

import gzip
import hashlib
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

from pypto_lab.ir.diagnostics import LabError
from pypto_lab.view import assets
from pypto_lab.view.workbench.answers import answer
from pypto_lab.view.workbench.page import cursor_state
from pypto_lab.view.workbench.stops import breakpoints_of, stops_of

if TYPE_CHECKING:
    from pypto_lab.view.workbench.bench import Workbench
    from pypto_lab.view.workbench.running import LiveWorkbench

_NO_VIEW = "export default { render() {} }"


@cache
def _classes() -> tuple[type[Any], type[Any]]:
    """The widget classes; made on first use, so that nothing imports a widget library before it is needed."""
    import anywidget
    import traitlets
    from ipywidgets import widget_serialization

    class WorkbenchLibrary(anywidget.AnyWidget):  # type: ignore[misc, unused-ignore]
        _esm = _NO_VIEW
        source = traitlets.Bytes().tag(sync=True)
        styles = traitlets.Bytes().tag(sync=True)
        version = traitlets.Unicode().tag(sync=True)

    class WorkbenchView(anywidget.AnyWidget):  # type: ignore[misc, unused-ignore]
        """Shows a run while it goes on (`live`), and its workbench once `timeline` is there."""

        _esm = assets.text("loader.js")
        library = traitlets.Instance(WorkbenchLibrary).tag(sync=True, **widget_serialization)
        timeline = traitlets.Bytes().tag(sync=True)
        cursor = traitlets.Dict().tag(sync=True)
        stops: Any = traitlets.List().tag(sync=True)
        live = traitlets.Dict().tag(sync=True)

        def __init__(self, bench: Workbench | None = None, run: LiveWorkbench | None = None, **keywords: Any) -> None:
            self.bench, self.run = bench, run
            self._showing = False
            self._lock = threading.RLock()
            state = {} if bench is None else {"timeline": bench.packed(), **self._session_state(bench)}
            super().__init__(**state, **keywords)
            self.on_msg(self._message)
            self.observe(self._moved, names="cursor")
            self.observe(self._stopped, names="stops")

        @staticmethod
        def _session_state(bench: Workbench) -> dict[str, Any]:
            """Cursor and breakpoints of the session as the browser keeps them."""
            return {"cursor": cursor_state(bench), "stops": bench.files.data(stops_of(bench.session))}

        def become(self, bench: Workbench) -> None:
            """Turns what shows a run into the workbench of its recording."""
            packed = bench.packed()
            with self._lock, self.hold_sync():
                self._showing = True
                try:
                    self.bench = bench
                    state = self._session_state(bench)
                    self.cursor, self.stops, self.timeline = state["cursor"], state["stops"], packed
                finally:
                    self._showing = False

        def show_run(self, state: dict[str, Any]) -> None:
            with self._lock:
                if self.bench is None:
                    self.live = state

        def show_session(self) -> None:
            """Shows the session's cursor and breakpoints."""
            if self.bench is None:
                return
            with self.bench.lock:
                self._showing = True
                try:
                    state = self._session_state(self.bench)
                    self.cursor, self.stops = state["cursor"], state["stops"]
                finally:
                    self._showing = False

        def _moved(self, change: Any) -> None:
            if self.bench is None:
                return
            with self.bench.lock:
                if not self._showing:
                    take_cursor(self.bench, change["new"])

        def _stopped(self, change: Any) -> None:
            if self.bench is None:
                return
            with self.bench.lock:
                if not self._showing:
                    self.bench.session.breakpoints[:] = breakpoints_of(self.bench.session, change["new"])

        def _message(self, _widget: object, content: Any, _buffers: object) -> None:
            if self.bench is None:
                if self.run is not None and isinstance(content, dict):
                    self.run.asked(content.get("ask"))
                return
            found = answer(self.bench, content)
            if found is not None:
                with self._lock:
                    self.send(*found)

    return WorkbenchLibrary, WorkbenchView


@cache
def _library() -> Any:
    """The one model that all workbenches of this kernel refer to."""
    source, style = assets.text("workbench.js"), assets.text("graph.css") + assets.text("workbench.css")
    version = hashlib.blake2b((source + style).encode(), digest_size=8).hexdigest()
    packed = (gzip.compress(text.encode(), 9, mtime=0) for text in (source, style))
    return _classes()[0](**dict(zip(("source", "styles"), packed, strict=True)), version=version)


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


def make_widget(bench: Workbench | None = None, run: LiveWorkbench | None = None) -> Any:
    """The widget of a recording, or of a run that goes on. Raises ModuleNotFoundError with the extra to install."""
    try:
        view = _classes()[1]
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error}; install it with: pip install 'pypto-lab[lab]'", name=error.name) from None
    return view(bench, run, library=_library())
