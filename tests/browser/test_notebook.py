"""The tutorial in a real JupyterLab: it runs, its results work by keyboard in both themes, its graph folds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

NOTEBOOK = "01_first_kernel.ipynb"
_KERNEL_READY = """() => {
    const session = window.jupyterapp?.shell.currentWidget?.sessionContext?.session;
    return session?.kernel?.connectionStatus === 'connected' && session.kernel.status === 'idle';
}"""
_RUN_ALL = "window.jupyterapp.commands.execute('notebook:run-all-cells')"
_DRAWN = ".pl-graph-widget svg g.node"
_FAILED = ".jp-OutputArea-output:is([data-mime-type$='jupyter.stderr'], [data-mime-type$='jupyter.error'])"
_THEME = "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', { theme })"


@pytest.fixture
def notebook(visit: Callable[..., Any], lab_address: str) -> Any:
    """The tutorial, opened and run to its end."""
    opened = visit(width=1200, height=1100)
    page = opened.page
    page.goto(f"{lab_address}/lab/tree/{NOTEBOOK}?reset")
    page.wait_for_function(_KERNEL_READY, timeout=120_000)
    page.evaluate(_RUN_ALL)
    page.wait_for_selector(f"{_DRAWN}, {_FAILED}", state="attached", timeout=150_000)
    assert page.locator(_FAILED).all_text_contents() == []
    return opened


def report(page: Any, index: int) -> Any:
    return page.locator(".pl-report").nth(index)


def test_the_tutorial_runs_and_its_results_can_be_used(notebook: Any) -> None:
    page = notebook.page
    assert page.locator(_FAILED).count() == 0
    assert page.locator(".pl-report").count() == 2
    assert "match" in report(page, 0).locator(".pl-head").text_content()
    assert "mismatch" in report(page, 1).locator(".pl-head").text_content()
    report(page, 0).scroll_into_view_if_needed()
    tabs = report(page, 0).get_by_role("tab")
    assert [t.text_content() for t in tabs.all()] == ["Numbers", "Script", "Graph"]
    for theme, short in (("JupyterLab Light", "light"), ("JupyterLab Dark", "dark")):
        page.evaluate(_THEME, theme)
        page.wait_for_function(f"document.body.dataset.jpThemeLight === '{'true' if short == 'light' else 'false'}'")
        report(page, 0).scroll_into_view_if_needed()
        tabs.first.focus()
        page.keyboard.press("Home")
        for name in ("Numbers", "Script", "Graph"):
            panel = report(page, 0).get_by_role("tabpanel", name=name)
            assert panel.is_visible()
            assert notebook.serious_findings(".pl-root") == []
            report(page, 0).scroll_into_view_if_needed()
            notebook.picture(f"notebook_{name.lower()}_{short}")
            page.keyboard.press("ArrowRight")
        report(page, 1).scroll_into_view_if_needed()
        notebook.picture(f"notebook_wrong_{short}")
        page.locator(".pl-graph-widget").scroll_into_view_if_needed()
        notebook.picture(f"notebook_widget_{short}")
    _fold_and_unfold(page)


def _fold_and_unfold(page: Any) -> None:
    widget = page.locator(".pl-graph-widget")
    before = widget.locator("g.node").count()
    loop = widget.get_by_role("button", name="fold for chunk in range(3)").or_(
        widget.get_by_role("button", name="fold for chunk in range(2)")
    )
    loop.focus()
    page.keyboard.press("Enter")
    widget.locator("g.pl-n-folded").wait_for()
    assert widget.locator("g.node").count() < before
    page.keyboard.press("Enter")
    widget.locator("g.pl-n-folded").wait_for(state="detached")
    assert widget.locator("g.node").count() == before
