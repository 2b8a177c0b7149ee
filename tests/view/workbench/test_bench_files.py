"""Nothing that leaves says where its author keeps the files; findings and artifacts in words."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from bench_support import as_written, kernel, lowered
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_lab.compat.cases import case
from pypto_lab.ir.diagnostics import Diagnostic, Severity
from pypto_lab.ir.span import Span
from pypto_lab.view.workbench import workbench
from pypto_lab.view.workbench.artifacts import artifacts
from pypto_lab.view.workbench.files import FileNames, short_names
from pypto_lab.view.workbench.findings import findings, in_order
from pypto_lab.view.workbench.page import static_html

names = st.lists(st.text("abc", min_size=1, max_size=2), min_size=1, max_size=4).map(lambda p: "/" + "/".join(p))


@settings(deadline=None)
@given(st.lists(names, unique=True, max_size=6))
def test_short_names_are_ends_of_the_paths_and_differ(files: list[str]) -> None:
    found = short_names(files)
    assert list(found) == files
    assert len(set(found.values())) == len(files)
    for file, name in found.items():
        assert file.endswith("/" + name)
        others = [f for f in files if f != file]
        if "/" in name:
            shorter = name.partition("/")[2]
            assert any(f.endswith("/" + shorter) for f in others), "no folder more than it takes"


def test_paths_are_replaced_in_keys_text_and_escapes() -> None:
    files = FileNames(["/home/me/a&b/kernel.py", "C:\\me\\other.py"])
    data = {"/home/me/a&b/kernel.py": ["C:\\me\\other.py", 3, None, "at /home/me/a&b/kernel.py:3"]}
    assert files.data(data) == {"kernel.py": ["other.py", 3, None, "at kernel.py:3"]}
    assert files.text("<b>/home/me/a&amp;b/kernel.py</b>") == "<b>kernel.py</b>"
    assert files.text(json.dumps("C:\\me\\other.py")) == '"other.py"'
    assert files.short("<cell>") == "<cell>"


@pytest.mark.parametrize("lower", [False, True])
def test_what_leaves_says_no_path(lower: bool, tmp_path: Path) -> None:
    name = "k17_bias_updown"
    recording = lowered(name) if lower else as_written(name)
    folder = str(kernel(name).parent.parent)
    bench = workbench(recording, case=case(kernel(name)))
    assert any(folder in file for file in as_written(name).trace.sources)
    for text in (json.dumps(bench.payload, default=lambda x: x.item()), bench.html(), static_html(bench)):
        assert folder not in text
        assert folder.replace(os.sep, "/") not in text
    widget = bench.widget()
    assert folder not in str(widget.get_state())


# --- findings --------------------------------------------------------------------------------------------------------


def test_findings_are_listed_once_errors_first() -> None:
    note = Diagnostic("N001", "a note", None, Severity.NOTE)
    warning = Diagnostic("W001", "a warning", Span("k.py", 3, 1, 3, 4), Severity.WARNING, hint="do this")
    machine = SimpleNamespace(times=4, diagnostic=lambda: Diagnostic("E627", "AIC waits", None, note="lane AIC"))
    found = in_order([*findings([note, warning, machine, "no finding"], "run"), *findings([warning])])
    assert [(f.diagnostic.code, f.times) for f in found] == [("E627", 4), ("W001", 1), ("N001", 1)]
    assert found[1].data() == {
        "severity": "warning", "rule": "W001", "message": "a warning", "hint": "do this", "note": "", "where": "run",
        "times": 1, "file": "k.py", "line": 3,
    }  # fmt: skip
    bench = workbench(as_written("k09_softmax_rows"), checks=[note, warning, machine])
    assert [row["rule"] for row in bench.payload["checks"]][:3] == ["E627", "W001", "N001"]
    assert "(4 times)" in bench.text("checks")
    assert [d.code for d in bench.checks][:3] == ["E627", "W001", "N001"]


# --- artifacts -------------------------------------------------------------------------------------------------------


def test_a_build_says_what_became_of_each_file(tmp_path: Path) -> None:
    (tmp_path / "ptoas").mkdir()
    (tmp_path / "ptoas" / "k.pto").write_text("module {\n}\n")
    (tmp_path / "kernel.bin").write_bytes(b"\0" * 40)
    files = [
        SimpleNamespace(name="passes_dump/00_frontend.py", role="dump", state="written", note=""),
        SimpleNamespace(name="kernel_config.py", role="config", state="missing", note="no platform"),
        SimpleNamespace(name="ptoas/k.pto", role="pto", state="executed", note=""),
        SimpleNamespace(name="kernel.bin", role="new role", state="simulated", note=""),
    ]
    found = artifacts(SimpleNamespace(path=tmp_path, files=files))
    assert [(a.name, a.state, a.language) for a in found] == [
        ("ptoas/k.pto", "executed", "pto"), ("kernel_config.py", "missing", "python"),
        ("kernel.bin", "simulated", "text"),
    ]  # fmt: skip
    assert found[0].text == "module {\n}\n"
    assert found[2].note == "not text, 40 bytes"
    text = workbench(as_written("k09_softmax_rows"), build=SimpleNamespace(path=tmp_path, files=files)).text(
        "artifacts"
    )
    assert text.splitlines() == [
        "PTO module", "  ptoas/k.pto: executed here, 2 lines", "configuration",
        "  kernel_config.py: missing (no platform)", "new role",
        "  kernel.bin: simulated, its text not executed (not text, 40 bytes)",
    ]  # fmt: skip


def test_a_folder_of_which_nothing_is_known_is_only_written(tmp_path: Path) -> None:
    for name in ("kernels/aiv/k.cpp", "ptoas/k.pto", "orchestration/o.cpp", "passes_dump/00_frontend.py",
                 "kernel_config.py", "data/x.pt", "notes.txt"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text\n")
    found = artifacts(tmp_path)
    assert [(a.name, a.role) for a in found] == [
        ("ptoas/k.pto", "pto"), ("kernels/aiv/k.cpp", "wrapper"), ("orchestration/o.cpp", "orchestration"),
        ("kernel_config.py", "config"), ("notes.txt", "other"),
    ]  # fmt: skip
    assert {a.state for a in found} == {"written"}
