"""Chromium and Jupyter servers that answer this machine alone: for the tests here and for benchmarks in a browser."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).parent.parent.parent
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
    # No name of another machine can be resolved, whoever asks.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
]  # fmt: skip
LOCAL = {"127.0.0.1", "localhost", "::1"}
APPLICATIONS = {"lab": "jupyterlab", "notebook": "notebook"}
"""Application -> the module that starts its server."""
_START_SECONDS = 60

KERNEL_READY = """() => {
    const session = window.jupyterapp?.shell.currentWidget?.sessionContext?.session;
    return session?.kernel?.connectionStatus === 'connected' && session.kernel.status === 'idle';
}"""
"""The kernel of the open notebook answers. The indicator in the page says so too early."""

ASK = """async (expression) => {
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    const request = kernel.requestExecute({ code: '', silent: true, user_expressions: { it: expression } });
    const { it } = (await request.done).content.user_expressions;
    return it.status === 'ok' ? it.data['text/plain'] : `${it.ename}: ${it.evalue}`;
}"""
"""What an expression is in the kernel of the open notebook."""

RUN_ALL = "window.jupyterapp.commands.execute('notebook:run-all-cells')"


def chromium_path() -> str | None:
    """The machine's own browser; nothing is downloaded."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def is_foreign(address: str) -> bool:
    """Whether an address is on another machine."""
    parts = urlsplit(address)
    return parts.scheme in ("http", "https", "ws", "wss") and parts.hostname not in LOCAL


def notebook_address(application: str, address: str, name: str) -> str:
    """Where an application shows a notebook of the server's folder."""
    return f"{address}/lab/tree/{name}?reset" if application == "lab" else f"{address}/notebooks/{name}"


@contextlib.contextmanager
def jupyter_server(application: str, home: Path, root: Path) -> Iterator[str]:
    """Runs the server of an application over the notebooks in `root` and gives its address.

    Settings, kernels' files and logs go to `home`. Raises RuntimeError with the log when it does not start.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = home / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    quiet = {"fetchNews": "false", "checkForUpdates": False}
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(quiet))
    config = home / "jupyter_server_config.py"
    config.write_text(_configuration(port, root))
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
    }
    command = [sys.executable, "-m", APPLICATIONS[application], f"--config={config}", "--no-browser"]
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


def _configuration(port: int, root: Path) -> str:
    return (
        "from jupyterlab.galata import configure_jupyter_server\n"
        "configure_jupyter_server(c)\n"
        "c.JupyterNotebookApp.expose_app_in_browser = True\n"
        f"c.ServerApp.root_dir = {str(root)!r}\n"
        f"c.ServerApp.port = {port}\n"
        "c.ServerApp.ip = '127.0.0.1'\nc.ServerApp.port_retries = 0\nc.ServerApp.allow_root = True\n"
        "c.LabApp.news_url = None\n"
        # A server whose test run was killed ends by itself.
        "c.MappingKernelManager.cull_idle_timeout = 600\nc.MappingKernelManager.cull_interval = 60\n"
        "c.ServerApp.shutdown_no_activity_timeout = 600\n"
    )


def _wait_until_up(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until and server.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=2).close()
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"{' '.join(map(str, server.args))} did not start:\n{log.read_text()[-2000:]}")  # type: ignore[union-attr]


def open_notebook(page: Any, application: str, address: str, name: str, patience: float = 90.0) -> None:
    """Opens a notebook and waits until its kernel answers."""
    page.goto(notebook_address(application, address, name))
    page.wait_for_function(KERNEL_READY, timeout=patience * 1e3)
