"""The workbench: one cursor in a recording and all that can be shown of it, as a widget, a page, or text."""

from __future__ import annotations

import gzip
import json
import math
import threading
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from pypto_lab.ir.diagnostics import Diagnostic
from pypto_lab.ir.nodes import Function, Program
from pypto_lab.record.breakpoints import Breakpoint, OnNonFinite
from pypto_lab.record.recording import Recording
from pypto_lab.record.session import Session
from pypto_lab.view.workbench.artifacts import Artifact, artifacts
from pypto_lab.view.workbench.files import FileNames
from pypto_lab.view.workbench.findings import Finding, findings, in_order
from pypto_lab.view.workbench.listing import Listing, script_listing, source_listings
from pypto_lab.view.workbench.numbers import OutputNumbers, as_array, expected_of, output_numbers
from pypto_lab.view.workbench.passes import Stages, stages, stages_of_lowering
from pypto_lab.view.workbench.places import capital, memory_places, merged_places, recorded_places, tensor_places
from pypto_lab.view.workbench.plan import FunctionMemory, memory_plan
from pypto_lab.view.workbench.stops import stops_of
from pypto_lab.view.workbench.tiles import Tiles, statistics
from pypto_lab.view.workbench.timeline import timeline, versions_of

EAGER_CELLS = 1 << 22
"""Cells whose statistics travel with the timeline; those of larger recordings are asked for when they are shown."""

VIEWS = ("source", "script", "timeline", "tile", "queues", "variables", "numbers", "graph", "memory", "passes",
         "artifacts", "checks")  # fmt: skip


class Workbench:
    """Many views of one recording that follow one cursor, forwards and backwards.

    Args:
        recording_or_session: What was recorded; of a session the position, focus, watches and breakpoints are taken
            over.
        case: The case whose golden the outputs are compared with.
        report: Comparisons already made (`.outputs` with `name` and `comparison`), else the case's are made.
        dumps: A folder of compiler dumps, for the passes and the memory plan.
        build: A folder of artifacts, or a build with `.path` and `.files` (name, role, state, note).
        lowered: What the lab's own passes made of the program (`lowering.pipeline.Lowered`), for the passes and the
            memory plan; it comes before `dumps`.
        expected: Golden outputs by name, where there is no case.
        other: Another recording, to go to the first value that differs from it.
        sweep: What `validate` found for the dumps.
        checks: Findings to list (diagnostics, or a machine's findings), besides those of the program.
        program: The program that was recorded; the recording's own when left out.
        title: What stands in the header, the entry's name when left out.
        arch: "a2a3" or "a5", for the sizes of on-chip memories; that of `lowered` or `build` when left out.

    Nothing that is not there gets a view. Safe to use from several threads.
    """

    def __init__(
        self,
        recording_or_session: Recording | Session,
        case: Any = None,
        report: Any = None,
        dumps: str | Path | None = None,
        build: Any = None,
        *,
        lowered: Any = None,
        expected: Mapping[str, Any] | None = None,
        other: Recording | None = None,
        sweep: Any = None,
        checks: Sequence[Any] = (),
        program: Program | Function | None = None,
        title: str | None = None,
        arch: str | None = None,
    ) -> None:
        taken = isinstance(recording_or_session, Session)
        self.session = _session_of(recording_or_session)
        self.recording = self.session.recording
        self.lock = threading.RLock()
        self.title = title or self.recording.facts.entry
        self.program = program or _program_of(self.recording)
        self.other = other
        self._case, self._report, self._expected = case, report, expected
        self._dumps, self._build, self._sweep, self._checks = dumps, build, sweep, tuple(checks)
        self._lowered = lowered if lowered is not None or dumps is not None else getattr(build, "lowered", None)
        self.arch: str | None = arch or getattr(lowered, "arch", None) or getattr(build, "arch", None)
        self._widget: Any = None
        if not taken and len(self.recording):
            self.session.goto(1)

    def __repr__(self) -> str:
        return self.text()

    # --- what there is to show

    @cached_property
    def expected(self) -> dict[str, Any]:
        """Golden outputs by name; none without a case that can run here."""
        if self._expected is not None:
            return dict(self._expected)
        return expected_of(self.recording, self._case) if self._case is not None and self.recording.ok else {}

    @cached_property
    def tiles(self) -> Tiles:
        return Tiles(self.recording, {name: as_array(value) for name, value in self.expected.items()})

    @cached_property
    def numbers(self) -> list[OutputNumbers]:
        """Outputs against their golden."""
        if not self.recording.ok:
            return []
        made = {o.name: o.comparison for o in getattr(self._report, "outputs", ())}
        if not made and self._case is not None:
            outputs = self.recording.outputs
            names = [name for name in self.expected if name in outputs]
            made = {name: self._case.compare(name, outputs, self.expected, {}) for name in names}
        return output_numbers(self.recording, self.expected, made)

    @cached_property
    def sources(self) -> list[Listing]:
        return source_listings(self.recording)

    @cached_property
    def script(self) -> Listing:
        return script_listing(self.recording)

    @cached_property
    def stages(self) -> Stages:
        """The compiler's stages, the lab's own or those of a folder of dumps."""
        if self._lowered is not None:
            return stages_of_lowering(self._lowered, self._sweep)
        return stages(self._dumps, self._sweep) if self._dumps is not None else Stages(())

    @cached_property
    def artifacts(self) -> list[Artifact]:
        return artifacts(self._build)

    @cached_property
    def plan(self) -> list[FunctionMemory]:
        """The memory plan of the last stage, else of the program that was recorded, as far as they state addresses."""
        if self._lowered is not None:
            return memory_plan(self._lowered.program, self.arch)
        found = memory_plan(self.program, self.arch)
        return found if found or not self.stages else memory_plan(self.stages.program(len(self.stages) - 1), self.arch)

    @cached_property
    def files(self) -> FileNames:
        """The short names under which files leave the machine."""
        spots = (s.spot.file for s in self.recording.trace.statements if s.spot is not None)
        sources = (*self.recording.trace.sources, *getattr(self.program, "sources", ()))
        return FileNames((*sources, *spots, *(row[0] for row in self.memory)))

    @cached_property
    def memory(self) -> list[list[Any]]:
        """Places of tiles in on-chip memory, as far as the recording or the program's types state them."""
        return merged_places(memory_places(self.program), recorded_places(self.recording))

    @cached_property
    def graph(self) -> Any:
        """The IR graph of the program, None where there is no program."""
        if self.program is None:
            return None
        from pypto_lab.view.graph import graph

        found = graph(self.program)
        return found if found.nodes else None

    @cached_property
    def findings(self) -> list[Finding]:
        """Findings about the program, its passes and its runs: errors first."""
        passes = [finding for stage in self.stages for finding in stage.findings]
        build = findings(getattr(self._build, "remarks", ()), "build")
        notes = findings(getattr(self.program, "notes", ()), "reader")
        return in_order([*findings(self._checks), *notes, *passes, *build])

    @property
    def checks(self) -> list[Diagnostic]:
        return [found.diagnostic for found in self.findings]

    @cached_property
    def divergence(self) -> Any:
        """Where the recording parts from the other one, None without one or where they are the same."""
        return None if self.other is None else self.session.first_divergence(self.other)

    @property
    def views(self) -> tuple[str, ...]:
        """The views that have something to show."""
        placed = bool(self.memory or self.plan or self.recording.trace.memories)
        has = {
            "source": bool(self.sources), "script": bool(self.recording.trace.script.strip()),
            "queues": bool(self.recording.trace.events), "numbers": bool(self.numbers),
            "graph": self.graph is not None, "memory": placed, "passes": bool(self.stages),
            "artifacts": bool(self.artifacts), "checks": bool(self.checks),
        }  # fmt: skip
        return tuple(view for view in VIEWS if has.get(view, True))

    # --- moving

    def goto(self, position: int) -> None:
        """Moves the cursor, also in what is shown. Raises IndexError outside the recording."""
        with self.lock:
            self.session.goto(position)
            self._show_session()

    def break_at(self, *breakpoints: Breakpoint) -> None:
        """Adds breakpoints to the session, and to what is shown. Those set in what is shown are the session's, too."""
        with self.lock:
            self.session.break_at(*breakpoints)
            self._show_session()

    def _show_session(self) -> None:
        if self._widget is not None:
            self._widget.show_session()

    # --- as data

    @cached_property
    def payload(self) -> dict[str, Any]:
        """Everything that travels to the browser at once: plain data, without the cells of tensors, and with no path
        of this machine in it."""
        with self.lock:
            shown: dict[str, Any] = self.files.data(self._payload())
            return shown

    def _payload(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "timeline": self._tables,
            "sources": [listing.data() for listing in self.sources],
            "script": self.script.data(),
            "places": tensor_places(self.recording),
            "memory": self.memory,
            "memories": {str(k): capital(m.space) for k, m in self.recording.trace.memories.items()},
            "plan": [function.data() for function in self.plan],
            "stats": self._statistics,
            "golden": self._golden_values(),
            "numbers": [n.data() for n in self.numbers],
            "graph": self._graph(),
            "stages": [stage.data() for stage in self.stages],
            "artifacts": [artifact.data() for artifact in self.artifacts],
            "checks": [found.data() for found in self.findings],
            "nonFinite": self._non_finite(),
            "divergence": self._divergence(),
            "stops": stops_of(self.session),
        }

    def packed(self) -> bytes:
        """The payload as compressed JSON. The same recording gives the same bytes."""
        text = json.dumps(self.payload, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain)
        return gzip.compress(text.encode(), 6, mtime=0)

    @cached_property
    def tile_keys(self) -> tuple[str, ...]:
        """Names of all tiles that can be shown, in the order in which steps show them."""
        found: dict[str, int] = {}
        versions: dict[int, list[int]] = {}
        for step, value in self._shown_values():
            if value not in versions:
                versions[value] = versions_of(self.recording, value)
            known = versions[value]
            for v in known[max(0, bisect_right(known, step) - 1) :]:
                if f"{value}@{v}" in found:
                    break  # an earlier binding of the value had this one and all after it
                found[f"{value}@{v}"] = max(v, step)
        return tuple(sorted(found, key=lambda key: found[key]))

    def _shown_values(self) -> Iterator[tuple[int, int]]:
        """(step, value id) of all tensors that get a name or are pushed."""
        tables = self._tables["values"]
        trace = self.recording.trace
        bound = ((b.step, b.value) for b in trace.bindings)
        pushed = ((e.step, e.value) for e in trace.events if e.value is not None)
        return ((step, value) for step, value in chain(bound, pushed) if tables[value][0] == "t")

    @cached_property
    def _tables(self) -> dict[str, Any]:
        return timeline(self.recording)

    def keys_within(self, cells: int) -> list[str]:
        """The first tiles that have no more than so many cells in all."""
        out: list[str] = []
        for key in self.tile_keys:
            cells -= math.prod(self._tables["values"][int(key.partition("@")[0])][2])
            if cells < 0:
                break
            out.append(key)
        return out

    @cached_property
    def _statistics(self) -> dict[str, Any]:
        """Statistics of the tiles, as many as the budget lets through."""
        keys = self.keys_within(EAGER_CELLS)
        return {key: statistics(content) for key, content in self.tiles.contents(keys)}

    def _non_finite(self) -> list[int] | None:
        """The steps at which a NaN or an infinity comes up, None where that takes too long to tell."""
        keys = self.tile_keys
        if len(self._statistics) < len(keys):
            return None
        if not any(found["nan"] or found["inf"] for found in self._statistics.values()):
            return []
        return self.session.stops(OnNonFinite())

    def stops_non_finite(self) -> list[int]:
        """The steps at which a NaN or an infinity comes up that the operands did not have."""
        with self.lock:
            return self.session.stops(OnNonFinite())

    def _golden_values(self) -> list[int]:
        """Ids of the values that have a golden."""
        used = {b.value for b in self.recording.trace.bindings}
        return sorted(v for v in used if self.expected and self.tiles.golden_of(v) is not None)

    def _graph(self) -> dict[str, Any] | None:
        if self.graph is None:
            return None
        files = {v.id: v.file for v in self.graph.nodes}
        svg = self.graph.svg(standalone=False, prefix="PREFIX-")
        return {"svg": svg, "text": self.graph.text(), "files": {k: v for k, v in files.items() if v}}

    def _divergence(self) -> dict[str, Any] | None:
        if self.other is None:
            return None
        found = self.divergence
        if found is None:
            return {"step": 0, "text": "the recordings agree"}
        return {"step": found.step, "text": str(found), "name": found.name}

    # --- shown

    def text(self, view: str | None = None) -> str:
        """A view at the cursor as text, or a summary of all that follow the cursor. Raises ValueError for a view that
        does not exist or has nothing to show."""
        from pypto_lab.view.workbench.text import view_text

        with self.lock:
            return view_text(self, view)

    def html(self) -> str:
        """A page that steps offline: recording, cells and programs are in it, it asks no other place for anything."""
        from pypto_lab.view.workbench.page import page

        with self.lock:
            return page(self)

    def save(self, path: str | Path) -> Path:
        """Writes :meth:`html` to a file and returns its path."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self.html(), encoding="utf-8")
        return target

    def widget(self) -> Any:
        """The notebook widget, made on first use. Raises ModuleNotFoundError with what to install."""
        if self._widget is None:
            from pypto_lab.view.workbench.widget import make_widget

            self._widget = make_widget(self)
        return self._widget

    def show_in(self, widget: Any) -> None:
        """Shows this workbench in a widget that showed its run."""
        with self.lock:
            self._widget = widget
            widget.become(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from pypto_lab.view.workbench.page import static_html

        bundle: dict[str, Any] = {}
        try:
            shown = self.widget()._repr_mimebundle_()
            bundle.update((shown[0] if isinstance(shown, tuple) else shown) or {})
        except ModuleNotFoundError:
            pass  # without a widget library the static form is all there is
        with self.lock:
            bundle["text/plain"] = self.text()
            bundle["text/html"] = static_html(self)
        return bundle


def _session_of(given: Recording | Session) -> Session:
    return given if isinstance(given, Session) else Session(given)


def _program_of(recording: Recording) -> Program | Function | None:
    program = recording.origin.program if recording.origin is not None else None
    return program if isinstance(program, (Program, Function)) else None


def _plain(x: Any) -> Any:
    if hasattr(x, "item"):
        return x.item()
    raise TypeError(f"cannot send {type(x).__name__}")
