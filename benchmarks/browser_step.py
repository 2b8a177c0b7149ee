"""A step in the lab against a step in JupyterLab's own debugger: both in one JupyterLab, from the key until the page
shows the new state. Wanted: the debugger takes at least 50 times as long.

The debugger steps over the lines of an ordinary Python cell. A step is over when line and variables are new in the
page: for the debugger the marked line and its list of variables (the line alone is told, too), for the lab all that
its step changes, laid out.

Run: python benchmarks/browser_step.py
"""

from __future__ import annotations

import statistics
import sys
from typing import Any

from browser_common import TESTS, chromium, jupyter_servers, notebook_in_jupyterlab, run_cell, told, verdict

LIMIT = 50.0
DEBUGGER_STEPS = 20
STEPS = 50
KERNEL = "k17_bias_updown"

DEBUGGED = "\n".join(["count = 0", *(f"count = {n}" for n in range(1, DEBUGGER_STEPS + 8))])

PREPARE = f"""import sys
sys.path.insert(0, {str(TESTS)!r})
from pathlib import Path
from shown_state import DATA, laned_bench
bench = laned_bench(DATA, {KERNEL!r})
bench"""

WATCH_DEBUGGER = """() => {
    const line = () => document.querySelector('.cm-line.jp-DebuggerEditor-highlight')?.textContent ?? '';
    const value = () => {
        const found = [...document.querySelectorAll('.jp-DebuggerVariables-body *')]
            .find((e) => e.children.length === 0 && e.textContent.trim().startsWith('count'));
        return found?.parentElement.textContent ?? '';
    };
    window.debuggerState = () => [line(), value()];
    window.debuggerStep = () => new Promise((done) => {
        const [lineBefore, valueBefore] = window.debuggerState();
        const start = performance.now();
        const out = {};
        const seen = () => {
            const [lineNow, valueNow] = window.debuggerState();
            if (lineNow && lineNow !== lineBefore) out.line ??= performance.now() - start;
            if (valueNow && valueNow !== valueBefore) out.variable ??= performance.now() - start;
            if (out.line === undefined || out.variable === undefined) return;
            observer.disconnect();
            done(out);
        };
        const observer = new MutationObserver(seen);
        observer.observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
        void window.jupyterapp.commands.execute('debugger:next');
    });
}"""
"""A step over: the command its button and its key run. It is over in the page when the marked line has moved, and when
the variables panel has the new value."""

OUR_STEPS = """([count, key]) => {
    const root = document.querySelector('.pw-root');
    const target = root.querySelector('.pw-track');
    const position = () => root.querySelector('.pw-count b').textContent;
    const times = [];
    for (let i = 0; i < count; i++) {
        const before = position();
        const start = performance.now();
        target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
        root.getBoundingClientRect();
        times.push(performance.now() - start);
        if (position() === before) throw new Error('the step is not in the page');
    }
    return times;
}"""
"""Steps by key; each is over when line, position and variables are in the page and laid out."""


def debugger_times(page: Any) -> tuple[list[float], list[float]]:
    """Milliseconds of the debugger's steps until the line has moved, and until the variable is new."""
    page.get_by_role("button", name="Enable Debugger").click()
    cell = page.locator(".jp-NotebookPanel .jp-Cell").first
    page.locator(".jp-DebuggerSidebar").first.wait_for()
    cell.scroll_into_view_if_needed()
    number = cell.locator(".cm-lineNumbers .cm-gutterElement", has_text="2").first.bounding_box()
    cell.locator("[aria-label=Breakpoint]").first.wait_for(state="attached")
    page.mouse.click(number["x"] - 4, number["y"] + number["height"] / 2)  # the gutter for breakpoints is left of it
    page.locator(".jp-DebuggerBreakpoint").first.wait_for()
    page.evaluate(WATCH_DEBUGGER)
    run_cell(page, 0)
    page.wait_for_function("window.debuggerState().every(Boolean)", timeout=60_000)
    found = [page.evaluate("window.debuggerStep()") for _ in range(DEBUGGER_STEPS)]
    page.evaluate("window.jupyterapp.commands.execute('debugger:continue')")
    return [f["line"] for f in found], [f["variable"] for f in found]


def main() -> int:
    with chromium() as browser, notebook_in_jupyterlab(browser, [DEBUGGED, PREPARE]) as page:
        run_cell(page, 1)
        page.locator(".pw-root .pw-shell").wait_for(timeout=120_000)
        page.wait_for_function(jupyter_servers.KERNEL_READY, timeout=60_000)
        page.locator(".pw-track").focus()
        ours = [*page.evaluate(OUR_STEPS, [STEPS, "ArrowRight"]), *page.evaluate(OUR_STEPS, [STEPS, "ArrowLeft"])]
        lines, variables = debugger_times(page)
    print(told("JupyterLab's debugger, key to line", lines))
    print(told("JupyterLab's debugger, key to variable", variables))
    print(told("the lab, key to line and variables", ours))
    middle = statistics.median(ours)
    print(f"debugger (line alone) / the lab: {statistics.median(lines) / middle:.2f} (told, not limited)")
    fine = verdict("debugger (line and variable) / the lab", statistics.median(variables) / middle, LIMIT, least=True)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
