"""What a workbench shows in a page, read from its elements, and what it should show, from the session alone."""

from __future__ import annotations

import inspect
import time
from pathlib import Path
from typing import Any

import nbformat

from pypto_lab.compat.cases import case
from pypto_lab.ir.diagnostics import Diagnostic, Severity
from pypto_lab.view.workbench import Workbench, workbench
from pypto_lab.view.workbench.text import line_in, shown_tile

DATA = Path(__file__).parent.parent / "data"
LANED = ("k17_bias_updown", "k32_pipe_bidir_dual")
"""A mixed kernel split UP_DOWN, and one with `dual_aiv_dispatch`."""

READ = """(root) => {
    const one = (selector) => root.querySelector(selector);
    const text = (element) => element ? element.textContent : null;
    return {
        position: Number(text(one('.pw-count b'))),
        line: Number(one('.pw-ln[aria-current]')?.dataset.n ?? 0),
        lane: one('.pw-lane[aria-checked="true"]').dataset.lane,
        arrows: [...root.querySelectorAll('.pw-arr[data-lane]')].map((a) =>
            [a.dataset.lane, Number(a.closest('.pw-ln').dataset.n)]),
        states: Object.fromEntries([...root.querySelectorAll('.pw-lane')].map((b) =>
            [b.dataset.lane, text(b.querySelector('i:last-child'))])),
        tile: one('[data-tile]')?.dataset.tile ?? null,
        valid: one('.pw-stats [data-valid]')?.dataset.valid ?? null,
        slider: one('[role=slider]').getAttribute('aria-valuetext'),
        queues: [...root.querySelectorAll('.pw-pipe')].map((p) => [
            p.dataset.pipe,
            [...p.querySelectorAll('[data-slot]')].map((s) => [Number(s.dataset.slot), text(s.querySelector('b')),
                s.querySelectorAll('b')[1].textContent, Number(s.dataset.step), s.classList.contains('pw-held')]),
            [...p.querySelectorAll('[data-waits]')].map((w) => w.dataset.waits),
        ]),
        variables: [...root.querySelectorAll('tr[data-v]')].map((r) => [r.dataset.v, Number(r.dataset.written),
            r.cells[2].textContent, r.cells[3].textContent]),
    };
}"""


WATCH = (
    "(root, type) => {\n    const read = "
    + READ
    + """;
    root.seen = [];
    root.stopWatching?.();
    const note = () => root.seen.push(read(root));
    root.addEventListener(type, note);  // after the workbench's own, which draws at once
    root.stopWatching = () => root.removeEventListener(type, note);
}"""
)
"""Keeps what is shown after each event of a type: many steps are then read at once."""


def laned_bench(data: Path, name: str) -> Workbench:
    """The workbench of a kernel's last dump. A notebook gets the text of this function."""
    import torch

    from pypto_lab.compat.cases import case
    from pypto_lab.frontend.dump import read_dump
    from pypto_lab.record.recorder import record
    from pypto_lab.view.workbench import workbench

    torch.set_num_threads(1)
    dump = sorted((data / "dumps" / name).rglob("*.py"))[-1]
    subject = case(data / "kernels" / name / "kernel.py")
    recording = record(read_dump(dump.read_text(encoding="utf-8"), dump.name), dict(subject.make_inputs(0)))
    return workbench(recording, case=subject, dumps=dump.parent, title=name)


def full_bench(name: str, folder: Path) -> Workbench:
    """The same with all that a workbench can show: artifacts (a .pto and a file beside it) and a finding."""
    plain = laned_bench(DATA, name)
    (folder / "ptoas").mkdir()
    source = next((DATA / "pto").glob("*.pto"))
    (folder / "ptoas" / "kernel.pto").write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "kernel_config.py").write_text("KERNELS = ['kernel']\n", encoding="utf-8")
    finding = Diagnostic("W901", "a made-up finding", severity=Severity.WARNING, hint="do this instead")
    dumps = sorted((DATA / "dumps" / name).rglob("*.py"))[-1].parent
    subject = case(DATA / "kernels" / name / "kernel.py")
    return workbench(plain.recording, case=subject, dumps=dumps, build=folder, checks=[finding], title=name)


def laned_notebook() -> nbformat.NotebookNode:
    """A notebook that shows the workbench of each laned kernel; its `benches` holds them by name."""
    recipe = inspect.getsource(laned_bench).replace(" -> Workbench", "")
    cells = [nbformat.v4.new_code_cell(f"from pathlib import Path\n\n{recipe}\n\nbenches = {{}}")]
    for name in LANED:
        made = f"benches[{name!r}] = laned_bench(Path({str(DATA)!r}), {name!r})"
        cells.append(nbformat.v4.new_code_cell(f"{made}\nbenches[{name!r}]"))
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def times(shape: Any) -> str:
    return "×".join(str(n) for n in shape) or "scalar"


def lane_words(s: Any) -> str:
    if s.waiting is None:
        return str(s.status)
    pipe = s.waiting.pipe.replace("C2V", "C→V").replace("V2C", "V→C").removesuffix("#0")
    return f"waits {pipe}"


def expected_state(bench: Workbench) -> dict[str, Any]:
    """What the page should show, from the session alone."""
    session, listing = bench.session, bench.sources[0]
    tile = shown_tile(bench)
    lines = [(lane, line_in(bench, listing, lane)) for lane in bench.recording.lanes]
    step = session.current
    return {
        "position": session.position,
        "line": line_in(bench, listing) or 0,
        "lane": session.focus.lane,
        "arrows": sorted([lane, line] for lane, line in lines if line is not None),
        "states": {s.name: lane_words(s) for s in session.lanes},
        "tile": tile[0].name if tile is not None else None,
        "valid": times(tile[0].valid) if tile is not None else None,
        "slider": f"step {session.position} of {len(session)}, "
        + (
            f"{step.where}, line {step.statement.spot.line}: {step.text}"
            if step is not None and step.statement is not None and step.statement.spot is not None
            else "before the first step"
        ),
        "queues": [
            [
                q.pipe,
                [[e.slot, str(list(e.shape)), times(e.valid), e.pushed_at, e.held_by is not None] for e in q.entries],
                [w.lane for w in q.waiters],
            ]
            for q in session.queues
        ],
        "variables": [
            [v.name, v.last_written, *([str(list(v.shape)), times(v.valid)] if v.kind == "tensor" else ["", ""])]
            for v in session.variables()
        ],
    }


def assert_shows(root: Any, bench: Workbench, patience: float = 30.0) -> None:
    """A busy machine may draw a moment later than the key was pressed; what it draws in the end is what counts."""
    expected = expected_state(bench)
    until = time.monotonic() + patience
    while True:
        found = root.evaluate(READ)
        found["arrows"] = sorted(found["arrows"])
        if found == expected or time.monotonic() > until:
            break
        time.sleep(0.02)
    assert found == expected, bench.session.position


def there_and_back(bench: Workbench, steps: int) -> list[dict[str, Any]]:
    """What is shown after each of so many steps from the start, and after each of as many steps back."""
    walks = _WALKS.setdefault(id(bench), {})
    if steps not in walks:
        session = bench.session
        session.goto(1)  # the focus is where a page's is after its first step
        session.goto(0)
        walks[steps] = []
        for move in [session.step] * steps + [session.back] * steps:
            move()
            walks[steps].append(expected_state(bench))
    return walks[steps]


_WALKS: dict[int, dict[int, list[dict[str, Any]]]] = {}


def assert_walked(root: Any, expected: list[dict[str, Any]], patience: float = 60.0) -> None:
    """Compares what was shown after each event since WATCH."""
    until = time.monotonic() + patience
    while root.evaluate("(root) => root.seen.length") < len(expected) and time.monotonic() < until:
        time.sleep(0.02)
    seen = root.evaluate("(root) => { root.stopWatching(); return root.seen; }")
    assert len(seen) == len(expected)
    for number, (found, wanted) in enumerate(zip(seen, expected, strict=True), 1):
        found["arrows"] = sorted(found["arrows"])
        assert found == wanted, f"after move {number}"


def step_by_keyboard(page: Any, root: Any, bench: Workbench, steps: int) -> None:
    """Steps forwards and back with the arrow keys, and checks what is shown after each."""
    root.locator(".pw-track").focus()
    page.keyboard.press("End")
    page.keyboard.press("Home")
    root.evaluate(WATCH, "keydown")
    for key in ["ArrowRight"] * steps + ["ArrowLeft"] * steps:
        page.keyboard.press(key)
    assert_walked(root, there_and_back(bench, steps))


def step_by_mouse(page: Any, root: Any, bench: Workbench, steps: int) -> None:
    """The same with the buttons."""
    root.locator("[data-a=last]").click()
    root.locator("[data-a=first]").click()
    root.evaluate(WATCH, "click")
    for name in ("step", "back"):
        box = root.locator(f"[data-a={name}]").bounding_box()
        for _ in range(steps):
            page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert_walked(root, there_and_back(bench, steps))
