"""The workbench as a widget, in JupyterLab and in Notebook 7: at each step it shows what a Session says, forwards and
backwards, by keyboard and by mouse; the kernel's cursor follows; no view has a serious accessibility finding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupyter_servers
import nbformat
import pytest
from shown_state import LANED, assert_shows, laned_notebook, step_by_keyboard, step_by_mouse

from pypto_lab.view.workbench import Workbench

STEPS = 50
_FAILED = ".jp-OutputArea-output:is([data-mime-type$='jupyter.stderr'], [data-mime-type$='jupyter.error'])"
_THEME = "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', { theme })"


@dataclass(frozen=True)
class Opened:
    """The notebook of the laned kernels, run to its end in an application."""

    application: str
    visit: Any

    @property
    def page(self) -> Any:
        return self.visit.page

    def root(self, name: str) -> Any:
        """The workbench of a kernel."""
        return self.page.locator(".pw-root").nth(LANED.index(name))

    def ask(self, expression: str) -> str:
        """What an expression is in the notebook's kernel."""
        return str(self.page.evaluate(jupyter_servers.ASK, expression))


@pytest.fixture(scope="module", params=jupyter_servers.APPLICATIONS)
def opened(request: pytest.FixtureRequest, lasting_visit: Callable[..., Any], jupyter_folder: Path) -> Opened:
    application = request.param
    address = request.getfixturevalue(f"{application}_address")
    name = f"laned_{application}.ipynb"
    nbformat.write(laned_notebook(), jupyter_folder / name)
    visit = lasting_visit()
    jupyter_servers.open_notebook(visit.page, application, address, name)
    visit.page.evaluate(jupyter_servers.RUN_ALL)
    shells = "document.querySelectorAll('.pw-root .pw-shell').length"
    visit.page.wait_for_function(f"{shells} === {len(LANED)} || document.querySelector(`{_FAILED}`)", timeout=120_000)
    assert visit.page.locator(_FAILED).all_text_contents() == []
    visit.page.wait_for_function(jupyter_servers.KERNEL_READY, timeout=90_000)  # a cell that ends may take the focus
    return Opened(application, visit)


@pytest.mark.parametrize("name", LANED)
def test_the_widget_shows_what_the_session_says_by_keyboard(
    opened: Opened, benches: dict[str, Workbench], name: str
) -> None:
    step_by_keyboard(opened.page, opened.root(name), benches[name], STEPS)


@pytest.mark.parametrize("name", LANED)
def test_the_widget_shows_what_the_session_says_by_mouse(
    opened: Opened, benches: dict[str, Workbench], name: str
) -> None:
    step_by_mouse(opened.page, opened.root(name), benches[name], STEPS)


@pytest.mark.parametrize("name", LANED)
def test_kernel_and_widget_share_the_cursor(opened: Opened, benches: dict[str, Workbench], name: str) -> None:
    bench, root, page = benches[name], opened.root(name), opened.page
    root.locator(".pw-track").focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    wanted = len(bench.recording) - 1
    assert wanted > 7
    _until(page, lambda: opened.ask(f"benches[{name!r}].session.position") == str(wanted))
    opened.ask(f"benches[{name!r}].goto(7)")
    page.wait_for_function(
        f"document.querySelectorAll('.pw-root')[{LANED.index(name)}].innerText.includes('step 7 ')", timeout=60_000
    )
    bench.goto(7)
    assert_shows(root, bench)


def _until(page: Any, there: Callable[[], bool], patience: float = 60.0) -> None:
    for _ in range(int(patience / 0.1)):
        if there():
            return
        page.wait_for_timeout(100)
    raise AssertionError("did not happen in time")


def test_kernel_and_widget_share_breakpoints(opened: Opened, benches: dict[str, Workbench]) -> None:
    name = LANED[0]
    bench, root = benches[name], opened.root(name)
    session = f"benches[{name!r}].session"
    line = root.locator(".pw-ln[data-n='35'] code")
    line.scroll_into_view_if_needed()
    line.click()
    file = bench.sources[0].name
    _until(opened.page, lambda: opened.ask(f"[b.label for b in {session}.breakpoints]") == f"['{file}:35']")
    assert opened.ask(f"({session}.goto(0), {session}.run().step.statement.spot.line)[1]") == "35"
    opened.ask(f"benches[{name!r}].break_at(__import__('pypto_lab').record.breakpoints.OnQueue('push'))")
    count = root.locator(".pw-bkcount")
    _until(opened.page, lambda: count.text_content() == "1")
    assert root.locator(".pw-bp[data-line='35']").get_attribute("aria-pressed") == "true"
    line.click()
    root.locator(".pw-bkopen").click()
    root.locator(".pw-bkremove").click()
    opened.page.keyboard.press("Escape")
    _until(opened.page, lambda: opened.ask(f"{session}.breakpoints") == "[]")


def test_letters_are_no_commands_of_the_notebook(opened: Opened) -> None:
    page = opened.page
    cells = page.locator(".jp-Notebook .jp-Cell").count()
    opened.root(LANED[0]).locator(".pw-track").focus()
    for letter in "xxbab":
        page.keyboard.press(letter)
    assert page.locator(".jp-Notebook .jp-Cell").count() == cells


def test_the_tile_shows_the_cells_that_the_kernel_has(opened: Opened, benches: dict[str, Workbench]) -> None:
    name = LANED[0]
    bench, root = benches[name], opened.root(name)
    root.locator(".pw-track").focus()
    opened.page.keyboard.press("End")
    bench.session.end()
    root.get_by_role("radio", name="table").click()
    first = root.locator("[data-cell='0,0']")
    first.wait_for(timeout=60_000)
    shown = root.locator("[data-tile]").get_attribute("data-tile")
    held = bench.session.value(shown).numbers
    for row, column in ((0, 0), (3, 5), (15, 11)):
        text = root.locator(f"[data-cell='{row},{column}']").text_content().replace("\u2212", "-")
        assert float(text) == pytest.approx(float(held[row, column]), rel=1e-3)
    root.get_by_role("radio", name="map").click()
    root.locator(".pw-tv canvas:visible").first.wait_for(timeout=60_000)


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_every_view_is_accessible(opened: Opened, theme: str) -> None:
    page, short, name = opened.page, theme.split()[1].lower(), LANED[0]
    page.evaluate(_THEME, theme)
    page.wait_for_function(f"document.body.dataset.jpThemeLight === '{str(short == 'light').lower()}'", timeout=60_000)
    root = opened.root(name)
    root.evaluate("(root) => { root.dataset.checked = ''; }")
    root.locator(".pw-track").focus()
    page.keyboard.press("Home")
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    for tab in root.locator("nav [role=tab]").all():
        tab.click()
        assert opened.visit.serious_findings("[data-checked]") == []
    root.locator("nav [role=tab]").first.click()
    opened.visit.picture(f"{opened.application}_{name[:3]}_{short}")


def test_nothing_failed_on_the_way(opened: Opened) -> None:
    assert opened.page.locator(_FAILED).all_text_contents() == []
    assert opened.visit.foreign == []
    assert opened.visit.errors == []
