"""A real browser, a real JupyterLab and a real Notebook 7 for the tests here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jupyter_servers
import pytest
from shown_state import DATA, LANED, laned_bench

OUT = Path(__file__).parent / "out"
AXE = jupyter_servers.ROOT / "extensions" / "widgets" / "node_modules" / "axe-core" / "axe.min.js"

_KNOWN = (
    # Notebook reads its shortcuts' settings before they have come (jupyter/notebook#7862): no line of ours.
    ("reading 'schema'", "/static/notebook/notebook_core"),
)
"""Failures of the applications themselves: what the message says, and where it comes from."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker runs them all: they share servers."""
    for item in items:
        if Path(item.path).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.xdist_group("browser"))


def _unavailable(reason: str) -> None:
    if os.environ.get("PYPTO_LAB_REQUIRE_BROWSER"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def chromium() -> str:
    found = jupyter_servers.chromium_path()
    if found is None:
        _unavailable("no Chromium on this machine (Debian: apt-get install chromium)")
    assert found is not None
    return found


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=chromium, args=jupyter_servers.ARGUMENTS)
        yield opened
        opened.close()


class Visit:
    """A page of a context of its own. Requests to other machines are refused and remembered, and so are errors."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.foreign: list[str] = []
        self.errors: list[str] = []
        self.context.route("**/*", self._route)
        self.context.on("page", self._watch)
        self.page = self.context.new_page()

    def _route(self, route: Any) -> None:
        if jupyter_servers.is_foreign(route.request.url):
            self.foreign.append(route.request.url)
            route.abort()
        else:
            route.continue_()

    def _watch(self, page: Any) -> None:
        page.on("pageerror", self._failed)
        page.on("websocket", lambda socket: self._connected(socket.url))

    def _failed(self, error: Any) -> None:
        if not any(what in error.message and where in error.stack for what, where in _KNOWN):
            self.errors.append(f"{error.message}\n{error.stack}")

    def _connected(self, address: str) -> None:
        if jupyter_servers.is_foreign(address):
            self.foreign.append(address)

    def close(self) -> None:
        """Closes the page. It may not have asked another machine for anything, and nothing may have failed."""
        self.context.close()
        assert self.foreign == []
        assert self.errors == []

    def picture(self, name: str) -> None:
        OUT.mkdir(exist_ok=True)
        self.page.screenshot(path=str(OUT / f"{name}.png"), full_page=True)

    def serious_findings(self, within: str) -> list[str]:
        """What axe-core calls serious or critical, as `rule: element`."""
        if not AXE.is_file():
            _unavailable("axe-core is not installed (make test-browser installs it)")
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.page.evaluate("async (within) => (await axe.run(within)).violations", within)
        return [
            f"{v['id']}: {node['html'][:120]} {node['any'][0]['message'] if node['any'] else ''}"
            for v in found
            if v["impact"] in ("serious", "critical")
            for node in v["nodes"]
        ]


def _viewport(width: int, height: int) -> dict[str, int]:
    return {"width": width, "height": height}


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Visit]]:
    """Opens pages: `visit(scheme="dark", width=1000)`. No page may have asked another machine for anything."""
    opened: list[Visit] = []

    def open_page(scheme: str = "light", width: int = 1100, height: int = 900, **options: Any) -> Visit:
        opened.append(Visit(browser, color_scheme=scheme, viewport=_viewport(width, height), **options))
        return opened[-1]

    yield open_page
    for page in opened:
        page.close()


@pytest.fixture(scope="module")
def lasting_visit(browser: Any) -> Iterator[Callable[..., Visit]]:
    """The same for pages that all tests of a module share."""
    opened: list[Visit] = []

    def open_page(width: int = 1300, height: int = 1000) -> Visit:
        opened.append(Visit(browser, viewport=_viewport(width, height)))
        return opened[-1]

    yield open_page
    for page in opened:
        page.close()


@pytest.fixture(scope="session")
def jupyter_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder both servers show: a copy of the tutorials; tests put notebooks of their own into it."""
    root = tmp_path_factory.mktemp("jupyter") / "notebooks"
    shutil.copytree(jupyter_servers.ROOT / "notebooks", root, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    return root


@pytest.fixture(scope="session")
def lab_address(chromium: str, jupyter_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a JupyterLab over the folder, with settings of its own."""
    pytest.importorskip("jupyterlab")
    with jupyter_servers.jupyter_server("lab", tmp_path_factory.mktemp("lab"), jupyter_folder) as address:
        yield address


@pytest.fixture(scope="session")
def notebook_address(chromium: str, jupyter_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of Notebook 7's own server over the same folder."""
    pytest.importorskip("notebook")
    with jupyter_servers.jupyter_server("notebook", tmp_path_factory.mktemp("notebook"), jupyter_folder) as address:
        yield address


@pytest.fixture(scope="session")
def benches() -> dict[str, Any]:
    """A workbench of each laned kernel, by kernel."""
    return {name: laned_bench(DATA, name) for name in LANED}
