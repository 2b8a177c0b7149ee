"""`kernel_config.py` against real ones, its rules on programs of our own, and that it can be imported."""

from __future__ import annotations

import dataclasses
import json
import runpy
import sys
import types
from enum import Enum
from pathlib import Path

import pytest

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.ir.enums import FunctionType
from pypto_lab.pto.config import RuntimeKind, kernel_config, runtime_kind

DATA = Path(__file__).parent.parent / "data"
REAL = sorted((DATA / "kernel_entry").rglob("config.json"))


def program_of(kernel: str) -> n.Program:
    last = DATA / "dumps" / kernel / "passes_explicit" / "49_after_MaterializeValidShapeSymbols.py"
    return read_dump(last.read_text(encoding="utf-8"))


def loaded(text: str, folder: Path) -> dict[str, object]:
    """The names of the file after Python has run it."""
    folder.mkdir(exist_ok=True)
    path = folder / "kernel_config.py"
    path.write_text(text, encoding="utf-8")
    return runpy.run_path(str(path))


def plain(names: dict[str, object], folder: Path) -> object:
    """The three dictionaries as JSON has them, paths below `/out`."""
    wanted = {key: names[key] for key in ("RUNTIME_CONFIG", "ORCHESTRATION", "KERNELS")}
    return json.loads(json.dumps(wanted, default=lambda member: member.name).replace(str(folder), "/out"))


@pytest.mark.parametrize("path", REAL, ids=lambda p: p.parent.name)
def test_the_configuration_says_what_the_compilers_own_says(path: Path, tmp_path: Path) -> None:
    names = loaded(kernel_config(program_of(path.parent.name)), tmp_path)
    assert plain(names, tmp_path) == json.loads(path.read_text(encoding="utf-8"))


def test_the_directions_are_the_runtimes_own_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directions = Enum("ArgDirection", ["IN", "OUT", "INOUT"])
    interface = types.ModuleType("simpler.task_interface")
    interface.ArgDirection = directions  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "simpler", types.ModuleType("simpler"))
    monkeypatch.setitem(sys.modules, "simpler.task_interface", interface)
    names = loaded(kernel_config(program_of("k09_softmax_rows")), tmp_path)
    assert names["ORCHESTRATION"]["signature"] == [directions.IN, directions.OUT]  # type: ignore[index]


@pytest.mark.parametrize("kind", list(RuntimeKind))
def test_a_runtime_is_given_by_name_or_member(kind: RuntimeKind, tmp_path: Path) -> None:
    program = program_of("k09_softmax_rows")
    by_name = kernel_config(program, runtime=kind.value, aicpu_thread_num=3)
    assert by_name == kernel_config(program, runtime=kind, aicpu_thread_num=3)
    assert loaded(by_name, tmp_path)["RUNTIME_CONFIG"] == {"runtime": kind.value, "aicpu_thread_num": 3}


def test_the_runtimes_are_the_two_that_exist_and_the_first_is_the_default(tmp_path: Path) -> None:
    assert [kind.value for kind in RuntimeKind] == ["tensormap_and_ringbuffer", "host_build_graph"]
    config = loaded(kernel_config(program_of("k09_softmax_rows")), tmp_path)["RUNTIME_CONFIG"]
    assert config == {"runtime": "tensormap_and_ringbuffer", "aicpu_thread_num": 0}


@pytest.mark.parametrize("name", ["host_build_grpah", "", "HOST_BUILD_GRAPH", "ringbuffer"])
def test_an_unknown_runtime_is_an_error_at_the_call_with_both_names(name: str) -> None:
    with pytest.raises(LabError) as caught:
        kernel_config(program_of("k09_softmax_rows"), runtime=name)
    found = caught.value.diagnostics[0]
    assert found.code == "E655"
    assert "`tensormap_and_ringbuffer` and `host_build_graph`" in found.message
    assert repr(name) in found.message


def test_a_misspelt_runtime_gets_a_suggestion() -> None:
    with pytest.raises(LabError) as caught:
        runtime_kind("host_build_grpah")
    assert "`host_build_graph`" in (caught.value.diagnostics[0].hint or "")


@pytest.mark.parametrize("threads", [-1, True])
def test_a_thread_number_is_a_number(threads: int) -> None:
    with pytest.raises(LabError) as caught:
        kernel_config(program_of("k09_softmax_rows"), aicpu_thread_num=threads)
    assert caught.value.diagnostics[0].code == "E657"


def with_functions(program: n.Program, *functions: n.Function) -> n.Program:
    return dataclasses.replace(program, functions={f.name: f for f in functions})


def test_several_orchestrations_must_be_told_apart(tmp_path: Path) -> None:
    program = program_of("k09_softmax_rows")
    start = next(f for f in program.functions.values() if f.func_type is FunctionType.Orchestration)
    two = with_functions(program, *program.functions.values(), dataclasses.replace(start, name="second"))
    for chosen, message in ((None, "one must be named"), ("secnd", "'secnd'")):
        with pytest.raises(LabError) as caught:
            kernel_config(two, orchestration=chosen)
        assert caught.value.diagnostics[0].code == "E656"
        assert message in caught.value.diagnostics[0].message
        assert "`softmax_rows`, `second`" in caught.value.diagnostics[0].message
    names = loaded(kernel_config(two, orchestration="second"), tmp_path)
    assert str(names["ORCHESTRATION"]["source"]).endswith("orchestration/second.cpp")  # type: ignore[index]


def test_a_program_without_orchestration_is_an_error() -> None:
    program = program_of("k09_softmax_rows")
    kernels = [f for f in program.functions.values() if f.func_type is FunctionType.AIV]
    with pytest.raises(LabError) as caught:
        kernel_config(with_functions(program, *kernels))
    assert "orchestration functions: none" in caught.value.diagnostics[0].message


def test_an_external_kernel_keeps_its_own_source(tmp_path: Path) -> None:
    program = program_of("k09_softmax_rows")
    functions = [
        dataclasses.replace(f, body=None, external_source="/src/mine.cpp") if f.func_type is FunctionType.AIV else f
        for f in program.functions.values()
    ]
    names = loaded(kernel_config(with_functions(program, *functions)), tmp_path)
    entry = names["KERNELS"][0]  # type: ignore[index]
    assert entry["source"] == "/src/mine.cpp"
    assert entry["external"] is True
