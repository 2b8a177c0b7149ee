"""What the benchmarks in a browser share: the browser and the servers of the browser tests, and how times are told."""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "tests" / "browser"
sys.path.insert(0, str(TESTS))

import jupyter_servers  # noqa: E402  (the tests' module is beside them)

STATIC = ROOT / "pypto_lab" / "view" / "static"
NODE_MODULES = ROOT / "extensions" / "widgets" / "node_modules"

WATCH = """() => {
    window.longTasks = [];
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) window.longTasks.push([entry.startTime, entry.duration]);
    }).observe({ type: 'longtask', buffered: false });
}"""
"""Remembers from now on the start and length of each main-thread task of more than 50 ms."""


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """The machine's browser. Raises SystemExit where there is none."""
    from playwright.sync_api import sync_playwright

    path = jupyter_servers.chromium_path()
    if path is None:
        raise SystemExit("this benchmark needs Chromium (Debian: apt-get install chromium)")
    with sync_playwright() as running:
        opened = running.chromium.launch(executable_path=path, args=jupyter_servers.ARGUMENTS)
        yield opened
        opened.close()


@contextlib.contextmanager
def notebook_in_jupyterlab(browser: Any, cells: Sequence[str]) -> Iterator[Any]:
    """A page with a notebook of these cells, open in JupyterLab, its kernel started, nothing run yet."""
    with tempfile.TemporaryDirectory() as made:
        root = Path(made) / "notebooks"
        root.mkdir()
        write_notebook(root / "benchmark.ipynb", cells)
        with jupyter_servers.jupyter_server("lab", Path(made), root) as address:
            page = browser.new_context(viewport={"width": 1400, "height": 1000}).new_page()
            jupyter_servers.open_notebook(page, "lab", address, "benchmark.ipynb")
            yield page


def write_notebook(path: Path, cells: Sequence[str]) -> None:
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    made = [nbformat.v4.new_code_cell(text) for text in cells]
    nbformat.write(nbformat.v4.new_notebook(cells=made, metadata=metadata), path)


def run_cell(page: Any, index: int) -> None:
    """Starts a code cell; does not wait for its end."""
    page.evaluate(
        """(index) => {
            const { content } = window.jupyterapp.shell.currentWidget;
            content.activeCellIndex = index;
            void window.jupyterapp.commands.execute('notebook:run-cell');
        }""",
        index,
    )


def share(times: Sequence[float], part: float) -> float:
    """The time that so large a part of the times does not exceed."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def told(name: str, times: Sequence[float]) -> str:
    """Median, 95th percentile and longest of times in milliseconds."""
    return (
        f"{name}: median {statistics.median(times):.2f} ms, 95 % within {share(times, 0.95):.2f} ms, "
        f"longest {max(times):.2f} ms, {len(times)} times"
    )


def verdict(name: str, value: float, limit: float, *, least: bool) -> bool:
    """Prints a number with its limit and whether it holds."""
    fine = value >= limit if least else value <= limit
    print(f"{name}: {value:.2f} (limit: at {'least' if least else 'most'} {limit:g}) {'ok' if fine else 'MISSED'}")
    return fine
