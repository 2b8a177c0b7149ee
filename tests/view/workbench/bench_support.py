"""What the workbench's tests share: recordings of case kernels, and the browser's own code run by Node."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from pypto_lab.compat.cases import case
from pypto_lab.frontend.dump import read_dump
from pypto_lab.record.pto_steps import record_build
from pypto_lab.record.recorder import record
from pypto_lab.record.recording import Recording
from pypto_lab.view import assets, draw

DATA = Path(__file__).parent.parent.parent / "data"


def kernel(name: str) -> Path:
    return DATA / "kernels" / name / "kernel.py"


def last_dump(name: str) -> Path:
    return sorted((DATA / "dumps" / name).rglob("*.py"))[-1]


@cache
def lowered(name: str, policy: str = "lane-first", seed: int = 0) -> Recording:
    """The recording of a kernel as the compiler's last pass left it: with lanes and pipes."""
    torch.set_num_threads(1)
    path = last_dump(name)
    program = read_dump(path.read_text(encoding="utf-8"), path.name)
    return record(program, dict(case(kernel(name)).make_inputs(0)), policy=policy, seed=seed)


@cache
def as_written(name: str) -> Recording:
    """The recording of a kernel as its author wrote it."""
    torch.set_num_threads(1)
    subject = case(kernel(name))
    values = dict(subject.make_inputs(0))
    return record(subject.program(values), values)


@cache
def of_text(build: str, name: str) -> Recording:
    """The recording of a kernel's `.pto` text, as a build folder has it."""
    torch.set_num_threads(1)
    return record_build(DATA / "pto" / build, case(kernel(name)).make_inputs(0))


def in_node(script: str, given: Any, tmp_path: Path) -> Any:
    """Runs JavaScript with the built workbench as `wb` and `given` as data; what it returns, as data.

    Skips where Node is missing.
    """
    node = draw.node_command()
    if node is None:
        pytest.skip("Node is not installed here")
    (tmp_path / "workbench.mjs").write_text(assets.text("workbench.js"), encoding="utf-8")
    (tmp_path / "given.json").write_text(json.dumps(given), encoding="utf-8")
    (tmp_path / "run.mjs").write_text(
        'import * as wb from "./workbench.mjs";\nimport { readFileSync, writeFileSync } from "node:fs";\n'
        'const given = JSON.parse(readFileSync("given.json", "utf8"));\n'
        f"const run = async () => {{ {script} }};\n"
        'writeFileSync("out.json", JSON.stringify(await run()));\n',
        encoding="utf-8",
    )
    done = subprocess.run([node, "run.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
