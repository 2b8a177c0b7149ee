"""A recording as a file: the same in everything, without torch, and safe against damage."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from record_support import DATA, dumps_of, function_from, program_of_dump

from pypto_lab.compat.cases import case
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.record.archive import open_archive
from pypto_lab.record.recorder import record
from pypto_lab.record.recording import Recording
from pypto_lab.record.session import Session

WITHOUT_TORCH = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "greenlet"):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, Absent())
from pypto_lab.record.archive import open_archive
from pypto_lab.record.session import Session
recording = open_archive(sys.argv[1])
session = Session(recording)
session.goto(int(sys.argv[2]))
sys.stdout.reconfigure(encoding="utf-8")
sys.stdout.write(recording.report() + session.report())
print(recording.digest())
print(sorted(recording.outputs), {type(x).__name__ for x in recording.outputs.values()})
print(session.who_wrote(sys.argv[3], (1, 2)))
assert "torch" not in sys.modules
"""


@pytest.fixture(scope="module", params=["k30_pipe_two_groups", "k33_flash_mini", "k21_dyn_tail_fillpad"])
def recording(request: pytest.FixtureRequest) -> Recording:
    name = request.param
    values = dict(case(DATA / "kernels" / name / "kernel.py").make_inputs(0))
    return record(program_of_dump(dumps_of(name)[-1]), values, seed=5, policy="random")


def test_everything_is_the_same_after_opening(recording: Recording, tmp_path: Path) -> None:
    before = recording.report()
    path = recording.save(tmp_path / "run.ptolab")
    opened = open_archive(path)
    assert opened.report() == recording.report() == before
    assert opened.digest() == recording.digest()
    one, two = Session(recording), Session(opened)
    for k in range(0, len(recording) + 1, 3):
        one.goto(k)
        two.goto(k)
        assert one.report() == two.report()
    assert {k: v.tolist() for k, v in opened.outputs.items()} == {k: v.tolist() for k, v in recording.outputs.items()}


def test_it_opens_where_torch_is_missing(recording: Recording, tmp_path: Path) -> None:
    path = recording.save(tmp_path / "run.ptolab")
    position, name = len(recording) * 2 // 3, next(iter(recording.outputs))
    command = [sys.executable, "-c", WITHOUT_TORCH, str(path), str(position), name]
    done = subprocess.run(command, capture_output=True, check=False, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    session = Session(recording)
    session.goto(position)
    author = session.who_wrote(name, (1, 2))
    names = f"{sorted(recording.outputs)} {{'ndarray'}}"
    assert done.stdout == f"{recording.report()}{session.report()}{recording.digest()}\n{names}\n{author}\n"


def test_the_same_recording_gives_the_same_file(tmp_path: Path) -> None:
    kernel = function_from("def kernel(x):\n    y = x.exp()\n    x[0] = y[1]\n    return y", "kernel", "same.py")
    files = [record(kernel, {"x": torch.arange(6.0)}).save(tmp_path / f"{i}.ptolab").read_bytes() for i in range(2)]
    assert files[0] == files[1]


def test_the_arrays_can_be_read_by_numpy(recording: Recording, tmp_path: Path) -> None:
    with np.load(recording.save(tmp_path / "run.ptolab"), allow_pickle=False) as arrays:
        assert len(arrays["step_kind"]) == len(recording)
        assert arrays["data"].dtype == np.uint8


def test_odd_values_survive(tmp_path: Path) -> None:
    text = """
    def kernel(x, n):
        a = float("nan")
        b = float("-inf")
        c = [x, "text", None, {"k": 2.5}]
        d = x.to(torch.float8_e4m3fn)
        e = x.to(torch.bfloat16)[::2]
        f = x.new_zeros(0, 3)
        g = object()
        h = x.to(torch.float8_e5m2)
        x[torch.tensor([0, 3])] = 9
        return a, c
    """
    live = record(function_from(text, "kernel", "odd.py"), {"x": torch.arange(4.0), "n": 3})
    opened = open_archive(live.save(tmp_path / "odd.ptolab"))
    assert opened.digest() == live.digest()
    one, two = Session(live), Session(opened)
    for session in (one, two):
        session.end()
    assert one.variables() == two.variables()
    assert two.value("e").numbers.tolist() == [0, 2]
    assert two.value("c")[3] == {"k": 2.5}
    assert str(opened.returned[0]) == "nan"
    assert two.value("x").numbers.tolist() == [9, 1, 2, 9]
    two.goto(4)
    assert two.value("x").numbers.tolist() == [0, 1, 2, 3]


def test_a_what_if_runs_on_from_an_archive(tmp_path: Path) -> None:
    subject = case(DATA / "kernels" / "k01_chain_scalars" / "kernel.py")
    values = dict(subject.make_inputs(0))
    live = record(subject.program(values), values)
    opened = open_archive(live.save(tmp_path / "run.ptolab"))
    name = subject.outputs[0]
    session = Session(opened)
    session.goto(1)
    assert torch.equal(session.what_if("x" if "x" in values else next(iter(values)), 0.0).recording.outputs[name],
                       _zeroed(live, values))  # fmt: skip


def _zeroed(live: Recording, values: dict[str, object]) -> torch.Tensor:
    session = Session(live)
    session.goto(1)
    branch = session.what_if("x" if "x" in values else next(iter(values)), 0.0)
    return next(iter(branch.recording.outputs.values()))


# --- refusals


def changed(path: Path, target: Path, member: str, change: object) -> Path:
    """A copy of an archive with one JSON member changed by a function."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            content = old.read(info)
            if info.filename == member:
                table = json.loads(content)
                change(table)  # type: ignore[operator]
                content = json.dumps(table).encode()
            new.writestr(info, content)
    return target


@pytest.fixture
def small(tmp_path: Path) -> Path:
    kernel = function_from("def kernel(x):\n    x[0] = 2\n    y = x + 1\n    return y", "kernel", "small.py")
    return record(kernel, {"x": torch.zeros(4)}).save(tmp_path / "small.ptolab")


def test_a_newer_version_is_refused_with_a_hint(small: Path, tmp_path: Path) -> None:
    newer = changed(small, tmp_path / "newer.ptolab", "manifest.json", lambda m: m.update(schema=99))
    with pytest.raises(LabError, match=r"schema version 99(.|\n)*update pypto-lab"):
        open_archive(newer)


def test_unknown_facts_of_a_later_minor_version_are_ignored(small: Path, tmp_path: Path) -> None:
    later = changed(small, tmp_path / "later.ptolab", "manifest.json", lambda m: m["facts"].update(colour="red"))
    assert open_archive(later).ok


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t["values"].__setitem__(0, ["t", 0, "float32", [1000], [1], 0, None]),
        lambda t: t["values"].__setitem__(0, ["t", 0, "float32", [2], [-1], 1, None]),
        lambda t: t["values"].__setitem__(0, ["t", 99, "float32", [2], [1], 0, None]),
        lambda t: t["writes"][0].__setitem__(2, 10_000),
        lambda t: t["sizes"].__setitem__(0, 1 << 40),
        lambda t: t.pop("frames"),
    ],
)
def test_tables_that_reach_outside_are_refused(small: Path, tmp_path: Path, change: object) -> None:
    with pytest.raises(LabError, match="cannot open"):
        open_archive(changed(small, tmp_path / "bad.ptolab", "tables.json", change))


def test_other_files_are_refused(small: Path, tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"cannot open none\.ptolab"):
        open_archive(tmp_path / "none.ptolab")
    text = tmp_path / "text.ptolab"
    text.write_text("no zip")
    with pytest.raises(LabError, match="not a complete recording"):
        open_archive(text)
    cut = tmp_path / "cut.ptolab"
    cut.write_bytes(small.read_bytes()[:-100])
    with pytest.raises(LabError, match="not a complete recording"):
        open_archive(cut)
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(LabError, match="not a complete recording"):
        open_archive(tmp_path / "other.npz")
