"""Scripts of the project's kernels run where `pypto_lab` cannot be imported, and give the goldens."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

import pypto_lab as lab
from pypto_lab.torch_codegen.execute import prepare

KERNELS = sorted((Path(__file__).parent.parent / "data" / "kernels").glob("*/kernel.py"))

RUNNER = """
import pathlib, sys
import torch

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pypto_lab", "greenlet", "pypto"):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, Refuse())
try:
    import pypto_lab
except ImportError:
    pass
else:
    raise SystemExit("pypto_lab can be imported")

for task in sorted(pathlib.Path(sys.argv[1]).glob("*.pt")):
    entry, arguments, outputs = torch.load(task, weights_only=True)
    names = {"__name__": "script"}
    exec(compile(task.with_suffix(".py").read_text(), str(task.with_suffix(".py")), "exec"), names)
    names[entry](*arguments)
    torch.save([arguments[index] for index in outputs], task.with_suffix(".done"))
"""


def test_every_case_runs_with_torch_alone(tmp_path: Path) -> None:
    judged = {}
    for path in KERNELS:
        case = lab.case(path)
        values = case.make_inputs(3)
        prepared = prepare(case.program(values), values)
        name = path.parent.name
        arguments = list(prepared.arguments)
        places = {key: next(i for i, a in enumerate(arguments) if a is t) for key, t in prepared.outputs.items()}
        torch.save((prepared.script.entry, arguments, list(places.values())), tmp_path / f"{name}.pt")
        (tmp_path / f"{name}.py").write_text(prepared.script.text, encoding="utf-8")
        judged[name] = (case, values, list(places))
    runner = tmp_path / "runner"
    runner.write_text(RUNNER, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-I", str(runner), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for name, (case, values, keys) in judged.items():
        got = dict(zip(keys, torch.load(tmp_path / f"{name}.done", weights_only=True), strict=True))
        expected = case.expected(values)
        for output in expected:
            comparison = case.compare(output, got, expected, values)
            assert comparison.ok, f"{name}: {output}: {comparison}"
