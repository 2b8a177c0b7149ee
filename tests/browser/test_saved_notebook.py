"""A saved notebook: ten views with their widget state stay small, and without it the static forms are still there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from shown_state import LANED, laned_notebook

VIEWS = 10
LARGEST = 4 << 20


@pytest.fixture(scope="module")
def saved() -> nbformat.NotebookNode:
    """A notebook with five workbenches of each kernel, run, and saved with its widgets' state as JupyterLab does."""
    notebook = laned_notebook()
    for _ in range(VIEWS // len(LANED) - 1):
        notebook.cells += [nbformat.v4.new_code_cell(cell.source) for cell in laned_notebook().cells[1:]]
    client = NotebookClient(notebook, timeout=120, kernel_name="python3", store_widget_state=True)
    client.execute()
    return notebook


def shown(notebook: nbformat.NotebookNode) -> list[Any]:
    return [o for c in notebook.cells for o in c.get("outputs", ()) if "text/html" in o.get("data", {})]


def test_ten_views_with_their_state_stay_small(saved: nbformat.NotebookNode) -> None:
    assert len(shown(saved)) == VIEWS
    state = saved.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    timelines = [b for model in state.values() for b in model.get("buffers", ()) if b["path"] == ["timeline"]]
    assert len(timelines) == VIEWS
    assert sum(len(model["state"].get("_esm", "")) for model in state.values()) < LARGEST / 10
    assert len(nbformat.writes(saved).encode()) < LARGEST


def test_without_state_the_static_forms_are_there(
    saved: nbformat.NotebookNode, visit: Callable[..., Any], tmp_path: Path
) -> None:
    exporter = pytest.importorskip("nbconvert").HTMLExporter()
    bare = nbformat.from_dict(saved)
    bare.metadata.pop("widgets", None)
    for output in shown(bare):
        output.data.pop("application/vnd.jupyter.widget-view+json")
    body, _ = exporter.from_notebook_node(bare)
    path = tmp_path / "saved.html"
    path.write_text(body, encoding="utf-8")
    opened = visit(java_script_enabled=False)
    page = opened.page
    page.goto(path.as_uri(), wait_until="domcontentloaded")
    reports = page.locator(".pl-report")
    assert reports.count() == VIEWS
    text = reports.first.inner_text()
    for word in ("Timeline", "Variables", "Queues", "Source", "match", "step 1 of 51"):
        assert word in text
    assert reports.first.locator("svg").count() >= 3
    # nbconvert's page asks for MathJax and RequireJS where scripts run; with scripts off nothing is asked for
    assert opened.foreign == []
