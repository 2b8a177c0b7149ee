"""A real browser and a real JupyterLab for the tests here. Chromium is the machine's own; nothing is downloaded."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parent.parent.parent
OUT = Path(__file__).parent / "out"
AXE = ROOT / "extensions" / "widgets" / "node_modules" / "axe-core" / "axe.min.js"
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
LOCAL = {"127.0.0.1", "localhost", "[::1]"}
_START_SECONDS = 60


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker runs them all: they share a server."""
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
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found is not None:
            return found
    _unavailable("no Chromium on this machine (Debian: apt-get install chromium)")
    raise AssertionError


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield opened
        opened.close()


class Visit:
    """A page whose requests to other machines are refused and remembered, and whose errors are."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.foreign: list[str] = []
        self.errors: list[str] = []
        page.route("**/*", self._route)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _route(self, route: Any) -> None:
        address = urlsplit(route.request.url)
        if address.scheme in ("http", "https", "ws", "wss") and address.hostname not in {h.strip("[]") for h in LOCAL}:
            self.foreign.append(route.request.url)
            route.abort()
        else:
            route.continue_()

    def picture(self, name: str) -> None:
        OUT.mkdir(exist_ok=True)
        self.page.screenshot(path=str(OUT / f"{name}.png"), full_page=True)

    def serious_findings(self, within: str) -> list[str]:
        """What axe-core calls serious or critical, as `rule: element`."""
        if not AXE.is_file():
            _unavailable("axe-core is not installed (make test-browser installs it)")
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.page.evaluate("async (within) => (await axe.run(within)).violations", within)
        return [
            f"{v['id']}: {node['html'][:120]} {node['any'][0]['message'] if node['any'] else ''}"
            for v in found
            if v["impact"] in ("serious", "critical")
            for node in v["nodes"]
        ]


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Visit]]:
    """Opens pages: `visit(scheme="dark", width=1000)`. No page may have asked another machine for anything."""
    opened: list[tuple[Any, Visit]] = []

    def open_page(scheme: str = "light", width: int = 1100, height: int = 900) -> Visit:
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
        opened.append((context, Visit(context.new_page())))
        return opened[-1][1]

    yield open_page
    for context, page in opened:
        context.close()
        assert page.foreign == []
        assert page.errors == []


@pytest.fixture(scope="session")
def lab_address(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a JupyterLab over a copy of the notebooks, with settings of its own."""
    pytest.importorskip("jupyterlab")
    home = tmp_path_factory.mktemp("lab")
    root = home / "notebooks"
    shutil.copytree(ROOT / "notebooks", root, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = home / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    quiet = {"fetchNews": "false", "checkForUpdates": False}
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(quiet))
    config = home / "jupyter_server_config.py"
    config.write_text(
        "from jupyterlab.galata import configure_jupyter_server\n"
        "configure_jupyter_server(c)\n"
        f"c.ServerApp.root_dir = {str(root)!r}\n"
        f"c.ServerApp.port = {port}\n"
        "c.ServerApp.ip = '127.0.0.1'\nc.ServerApp.port_retries = 0\nc.ServerApp.allow_root = True\n"
        "c.LabApp.news_url = None\n"
        # A server whose test run was killed ends by itself.
        "c.MappingKernelManager.cull_idle_timeout = 600\nc.MappingKernelManager.cull_interval = 60\n"
        "c.ServerApp.shutdown_no_activity_timeout = 600\n"
    )
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
    }
    command = [sys.executable, "-m", "jupyterlab", f"--config={config}", "--no-browser"]
    with (home / "log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=root, start_new_session=True)
    try:
        address = f"http://127.0.0.1:{port}"
        _wait_until_up(f"{address}/api", server, home / "log")
        yield address
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(timeout=15)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)


def _wait_until_up(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until and server.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=2).close()
            return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-2000:]}", pytrace=False)
