"""The views of a workbench as text and tables: the same facts as the pictures, for terminals and screen readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pypto_lab.record.events import EventKind, QueueState, StepKind
from pypto_lab.record.session import Variable
from pypto_lab.record.trace import Cells
from pypto_lab.view.parts import Table, Text, to_text
from pypto_lab.view.words import dims
from pypto_lab.view.workbench.artifacts import ROLES, STATES
from pypto_lab.view.workbench.listing import Listing
from pypto_lab.view.workbench.places import capital, place_of, places_by_line
from pypto_lab.view.workbench.tiles import as_matrix, real, statistics, valid_part

if TYPE_CHECKING:
    from pypto_lab.view.workbench.bench import Workbench

_AROUND = 6
_TILE_ROWS, _TILE_COLUMNS = 8, 8
_FOLLOWING = ("timeline", "source", "queues", "variables", "tile")


def view_text(bench: Workbench, view: str | None) -> str:
    """One view, or all that follow the cursor. Raises ValueError for one that does not exist or is empty."""
    if view is None:
        return "\n\n".join([head(bench), *(view_text(bench, v) for v in _FOLLOWING if v in bench.views)])
    from pypto_lab.view.workbench.bench import VIEWS

    if view not in VIEWS:
        raise ValueError(f"no view `{view}`; there are {', '.join(VIEWS)}")
    if view not in bench.views:
        raise ValueError(f"the view `{view}` has nothing to show; there are {', '.join(bench.views)}")
    return _TEXTS[view](bench)


def head(bench: Workbench) -> str:
    """What was recorded, and where the cursor stands."""
    facts, session = bench.recording.facts, bench.session
    verdict = ""
    if bench.numbers:
        verdict = ", match" if all(n.comparison.ok for n in bench.numbers) else ", mismatch"
    rows = [f"workbench of {bench.title}: {len(session)} steps, {facts.status}{verdict}, seed {facts.seed}"]
    if facts.error:
        rows += [f"  {row}" for row in facts.error.splitlines()]
    rows.append(f"step {session.position}: {session.current or 'before the first step'}")
    return "\n".join(rows)


# --- source ----------------------------------------------------------------------------------------------------------


def line_in(bench: Workbench, listing: Listing, lane: str | None = None) -> int | None:
    """The line of a listing on which a lane (the focused one) stands."""
    name = lane or bench.session.focus.lane
    state = next((s for s in bench.session.lanes if s.name == name), None)
    if state is None or state.position == 0:
        return None
    statement = bench.recording.index.statement(state.position)
    if statement is None:
        return None
    if not listing.file:
        return statement.line
    spot = statement.spot
    return spot.line if spot is not None and spot.file == listing.file else None


def _source(bench: Workbench) -> str:
    return "\n\n".join(_listing(bench, listing) for listing in bench.sources)


def _script(bench: Workbench) -> str:
    return _listing(bench, bench.script)


def _listing(bench: Workbench, listing: Listing) -> str:
    """The lines around where the lanes stand, with the lanes before them."""
    at: dict[int, list[str]] = {}
    for lane in bench.recording.lanes:
        line = line_in(bench, listing, lane)
        if line is not None:
            at.setdefault(line, []).append(lane)
    focus = line_in(bench, listing)
    shown = sorted({n for line in at for n in range(line - 1, line + 2)} | _span(focus))
    rows, before = [f"{listing.name}"], None
    for number in shown:
        if not 0 <= number - listing.first < len(listing.lines):
            continue
        if before is not None and number != before + 1:
            rows.append("     ...")
        before = number
        mark = ">" if number == focus else " "
        lanes = ",".join(at.get(number, ()))
        rows.append(f"{mark}{number:>5} {lanes:<14} {listing.shown[number - listing.first]}")
    return "\n".join(row.rstrip() for row in rows)


def _span(line: int | None) -> set[int]:
    return set() if line is None else set(range(line - _AROUND, line + _AROUND + 1))


# --- timeline --------------------------------------------------------------------------------------------------------


def lanes_table(bench: Workbench) -> Table:
    rows = tuple(
        (
            Text(s.name), Text(s.status), Text(str(s.position)), Text(s.source),
            Text(s.text if s.waiting is None else str(s.waiting), "mono"),
        )
        for s in bench.session.lanes
    )  # fmt: skip
    return Table(("lane", "state", "step", "line", "statement"), rows, frozenset({"step"}), "Lanes at the cursor")


def timeline_text(bench: Workbench) -> str:
    """Lanes at the cursor, and every push, pop, wait and store of the run."""
    rows = [to_text(lanes_table(bench)), "", "events"]
    names = {EventKind.PUSH: "push", EventKind.POP: "pop", EventKind.FREE: "free", EventKind.BLOCKED: "waits"}
    stores = {w.step for w in bench.recording.trace.store.writes}
    found: dict[int, list[str]] = {}
    for e in bench.recording.trace.events:
        if e.kind in names:
            found.setdefault(e.step, []).append(f"{names[e.kind]} {e.pipe}")
    for step in stores:
        found.setdefault(step, []).append("store")
    for step in sorted(found):
        mark = ">" if step == bench.session.position else " "
        at = bench.recording.index.step(step)
        rows.append(f"{mark} step {step}: {at.where}: {', '.join(found[step])}, {at.source}")
    return "\n".join(rows)


# --- tile ------------------------------------------------------------------------------------------------------------


def shown_tile(bench: Workbench) -> tuple[Variable, Cells] | None:
    """The tensor that the focused lane wrote last."""
    kinds = bench.recording.trace.steps.kind
    tensors = [v for v in bench.session.variables() if v.kind == "tensor" and v.shape]
    own = [v for v in tensors if not (v.last_written and kinds[v.last_written - 1] == StepKind.ENTER)]
    if not tensors:
        return None
    best = max(enumerate(own or tensors), key=lambda pair: (pair[1].last_written, pair[0]))[1]
    content = bench.session.value(best.name)
    return (best, content) if isinstance(content, Cells) else None


def tile_text(bench: Workbench) -> str:
    """Shape, valid shape, statistics and the first cells of the tile at the cursor."""
    found = shown_tile(bench)
    if found is None:
        return f"{bench.session.focus.lane} has no tensor here"
    variable, cells = found
    stats = statistics(cells)
    matrix = as_matrix(real(cells.numbers))
    ranges, columns = valid_part(cells.shape, cells.valid)
    marks = "".join(f", {stats[k]} {n}" for k, n in (("nan", "NaN"), ("inf", "Inf")) if stats[k])
    rows = [
        f"{variable.name}: {cells.dtype} {dims(cells.shape)}, valid {dims(variable.valid)}, "
        f"written at step {variable.last_written}",
        f"min {stats['lowText']}, max {stats['highText']}, mean {stats['meanText']}{marks}",
    ]
    for r in range(min(_TILE_ROWS, matrix.shape[0])):
        row = []
        for c in range(min(_TILE_COLUMNS, matrix.shape[1])):
            inside = c < columns and any(a <= r < b for a, b in ranges)
            row.append(f"{matrix[r, c]:>11.4g}" if inside else f"{'not valid':>11}")
        rows.append("".join(row) + (" ..." if matrix.shape[1] > _TILE_COLUMNS else ""))
    return "\n".join([*rows, "..."] if matrix.shape[0] > _TILE_ROWS else rows)


# --- queues and variables --------------------------------------------------------------------------------------------


def queues_table(bench: Workbench) -> Table:
    rows = tuple(row for queue in bench.session.queues for row in _queue_rows(queue))
    columns = ("pipe", "slots", "slot", "state", "shape", "valid", "pushed by", "line")
    return Table(columns, rows, frozenset({"slot"}), "Queues at the cursor")


def _queue_rows(queue: QueueState) -> Sequence[tuple[Text, ...]]:
    depth = f"{queue.occupied} of {queue.depth}" if queue.depth is not None else f"{queue.occupied}"
    name = queue.pipe if queue.block is None else f"{queue.pipe}, block {queue.block}"
    start = (Text(name), Text(depth))
    rows = [
        (
            *start, Text(str(e.slot)), Text(f"held by {e.held_by}" if e.held_by else "ready"),
            Text(f"{e.dtype} {dims(e.shape)}", "mono"), Text(dims(e.valid), "mono"),
            Text(f"{e.pushed_by}, step {e.pushed_at}"), Text(e.pushed_line),
        )
        for e in queue.entries
    ]  # fmt: skip
    blank = Text("")
    rows += [(*start, blank, Text(str(w), "wrong"), blank, blank, blank, blank) for w in queue.waiters]
    return rows or [(*start, blank, Text("empty"), blank, blank, blank, blank)]


def variables_table(bench: Workbench) -> Table:
    rows = tuple(
        (
            Text(v.name, "mono"), Text(v.kind), Text(dims(v.shape) if v.kind == "tensor" else "", "mono"),
            Text(dims(v.valid) if v.kind == "tensor" else "", "mono"), Text(v.dtype), Text(_values(v), "mono"),
            Text(f"step {v.last_written}"), Text(v.source),
        )
        for v in bench.session.variables()
    )  # fmt: skip
    columns = ("variable", "kind", "shape", "valid", "dtype", "values", "last written", "line")
    return Table(columns, rows, frozenset(), f"Variables of {bench.session.focus.lane}")


def _values(v: Variable) -> str:
    return v.text.rpartition("]: ")[2] if v.kind == "tensor" else v.text


# --- the rest --------------------------------------------------------------------------------------------------------


def _numbers(bench: Workbench) -> str:
    blocks = []
    for n in bench.numbers:
        c = n.comparison
        verdict = "match" if c.ok else "mismatch"
        rows = [f"{n.name}: {verdict}, {c.dtype} {dims(c.shape)}, rtol {c.rtol:g}, atol {c.atol:g}", *c.lines()]
        if n.bars:
            rows.append(f"errors from {-n.reach:.3g} to {n.reach:.3g} tolerances, cells per bar: {list(n.bars)}")
        blocks.append("\n".join(rows))
    return "\n\n".join(blocks)


def _graph(bench: Workbench) -> str:
    current = bench.session.current
    spot = current.statement.spot if current is not None and current.statement is not None else None
    nodes = bench.graph.at_line(spot.line) if spot is not None else ()
    here = ", ".join(f"{v.id} {v.title}" for v in nodes) or "none"
    return f"{bench.graph.text()}\nnodes of the current line: {here}"


def _memory(bench: Workbench) -> str:
    return "\n\n".join(block for block in (_memory_now(bench), _memory_plan(bench)) if block)


def _memory_now(bench: Workbench) -> str:
    """Where the variables of the focused lane lie, as far as the recorded program says."""
    if not bench.memory and not bench.recording.trace.memories:
        return ""
    rows = [f"tiles of {bench.session.focus.lane} in on-chip memory"]
    places = places_by_line(bench.memory)
    for v in bench.session.variables():
        binding = bench.session.find(v.name)
        statement = bench.recording.index.statement(binding.step) if binding.step else None
        spot = statement.spot if statement is not None else None
        place = place_of(places.get((spot.file, spot.line), ()), v.name) if spot and v.kind == "tensor" else None
        if place is None and v.place is not None:
            place = (capital(v.place.space), v.place.low, v.place.high - v.place.low)
        if place is not None:
            space, address, size = place
            rows.append(f"  {v.name}: {space} {address:#x}, {size} B, since step {v.last_written}")
    return "\n".join(rows)


def _memory_plan(bench: Workbench) -> str:
    """Addresses and lifetimes of the whole program."""
    rows = []
    for function in bench.plan:
        rows.append(f"memory of {function.function} ({function.kind})")
        for space in function.spaces:
            peak, at = space.peak
            of = f" of {space.capacity:,} B, {100 * peak / space.capacity:.0f} %" if space.capacity else ""
            rows.append(f"  {space.name}: peak {peak:,} B{of} at statement {at}, highest address {space.top:#x}")
            for t in space.tiles:
                line = f", line {t.line}" if t.line else ""
                life = "throughout" if t.ring else f"statements {t.begin} to {t.end}"
                rows.append(f"    {t.address:#08x} +{t.size:<7} {t.name}: {life}{line}")
    return "\n".join(rows)


def _passes(bench: Workbench) -> str:
    """Every stage, and of those that changed something which functions, which nodes, and the text."""
    rows, changes = [], []
    for i, s in enumerate(bench.stages):
        lines = f"{s.added} lines in, {s.removed} out" if s.diff else "the text is the same"
        change = f"changed {', '.join(s.functions) or 'text'}: {lines}" if i and s.changed else "same" if i else "first"
        error = f", max err {s.error:.3g}" if s.error is not None else ""
        status = f", {s.status}" if s.status else ""
        found = f", {len(s.findings)} findings" if s.findings else ""
        rows.append(
            f"{s.number:02d} {s.name}: {change}{status}{error}{found}" + (f", {s.message}" if s.message else "")
        )
        rows += [f"     {f.diagnostic.severity.value}[{f.diagnostic.code}]: {f.diagnostic.message}" for f in s.findings]
        changes.append(_stage_changes(bench, i))
    return "\n".join([*rows, *(c for c in changes if c)])


def _stage_changes(bench: Workbench, index: int) -> str:
    stage = bench.stages[index]
    if not stage.diff:
        return ""
    found = bench.stages.changes(index)
    shown = found.text() if found is not None and found.marks else ""
    return "\n".join(["", f"--- {stage.file}", *([shown] if shown else []), *stage.diff])


def _artifacts(bench: Workbench) -> str:
    rows: list[str] = []
    role = ""
    for a in bench.artifacts:
        if a.role != role:
            role = a.role
            rows.append(ROLES.get(role, role))
        lines = f", {len(a.text.splitlines())} lines" if a.text else ""
        note = f" ({a.note})" if a.note else ""
        rows.append(f"  {a.name}: {STATES.get(a.state, a.state)}{lines}{note}")
    return "\n".join(rows)


def _checks(bench: Workbench) -> str:
    sources: Any = getattr(bench.program, "sources", {})
    rows = []
    for found in bench.findings:
        times = f" ({found.times} times)" if found.times > 1 else ""
        where = f"{found.where}: " if found.where else ""
        rows.append(f"{where}{found.diagnostic.render(sources)}{times}")
    return "\n".join(rows)


_TEXTS = {
    "source": _source, "script": _script, "timeline": timeline_text, "tile": tile_text,
    "queues": lambda bench: to_text(queues_table(bench)), "variables": lambda bench: to_text(variables_table(bench)),
    "numbers": _numbers, "graph": _graph, "memory": _memory, "passes": _passes, "artifacts": _artifacts,
    "checks": _checks,
}  # fmt: skip
