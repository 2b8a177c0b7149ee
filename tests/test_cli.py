"""The command line: exit statuses, JSON, diagnostics instead of tracebacks."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pypto_lab import __version__
from pypto_lab.cli import BAD_INPUT, FINDING, FINE, invoke

KERNELS = Path(__file__).parent / "data" / "kernels"
GOOD = KERNELS / "k01_chain_scalars" / "kernel.py"


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """A case whose golden disagrees with its kernel."""
    path = tmp_path / "wrong.py"
    path.write_text(GOOD.read_text().replace("q / 4.0", "q / 5.0"))
    return path


def test_help_lists_the_commands(capsys):
    assert invoke(["--help"]) == FINE
    out = capsys.readouterr().out
    for command in ("run", "diff", "compile", "script", "validate", "graph", "explain", "doctor", "lab"):
        assert command in out


def test_version(capsys):
    assert invoke(["--version"]) == FINE
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["nonsense"], ["diff"], ["diff", "--nonsense", "x"], ["validate", "x"]])
def test_wrong_usage_is_bad_input(arguments, capsys):
    assert invoke(arguments) == BAD_INPUT
    assert "Traceback" not in capsys.readouterr().err


def test_diff_of_a_right_case(capsys):
    assert invoke(["diff", str(GOOD)]) == FINE
    assert "right" in capsys.readouterr().out


def test_diff_of_a_wrong_case(wrong, capsys):
    assert invoke(["diff", str(wrong)]) == FINDING
    out = capsys.readouterr().out
    assert "WRONG" in out
    assert "cells" in out


@pytest.mark.parametrize("extra", [[], ["--poison"]])
def test_diff_json_has_the_stable_form(wrong, capsys, extra):
    status = invoke(["diff", str(wrong), "--json", *extra])
    found = json.loads(capsys.readouterr().out)
    assert status == FINDING
    assert {k: v for k, v in found.items() if k not in ("outputs", "leaks")} == {
        "case": "wrong", "stage": "frontend", "arch": "a2a3", "ok": False,
    }  # fmt: skip
    (output,) = found["outputs"]
    assert sorted(output) == ["max_abs", "max_rel", "name", "ok"]
    assert output["max_abs"] > 0
    assert ("leaks" in found) == bool(extra)


def test_json_is_alone_on_standard_output(tmp_path, capsys):
    path = tmp_path / "chatty.py"
    path.write_text("print('hello from the file')\n" + GOOD.read_text())
    assert invoke(["diff", str(path), "--json"]) == FINE
    captured = capsys.readouterr()
    assert json.loads(captured.out)["ok"] is True
    assert "hello from the file" in captured.err


@pytest.mark.parametrize("arch", ["a2a3", "a5"])
def test_diff_of_the_stage_pto(arch, capsys):
    assert invoke(["diff", str(GOOD), "--stage", "pto", "--arch", arch]) == FINE
    out = capsys.readouterr().out
    assert "right" in out
    assert "executed: .pto interpreted by pypto_lab (not ptoas, not device)" in out
    assert "only written, executed by nobody" in out


def test_diff_of_all_stages_in_json(wrong, capsys):
    assert invoke(["diff", str(GOOD), "--stage", "all", "--json"]) == FINE
    found = json.loads(capsys.readouterr().out)
    assert list(found)[:5] == ["case", "stage", "arch", "ok", "outputs"]
    assert [(s["stage"], s["ok"]) for s in found["stages"]] == [("frontend", True), ("lowered", True), ("pto", True)]
    assert {"stage", "ok", "outputs"} <= set(found["stages"][0])
    assert "message" not in found["stages"][0]
    assert invoke(["diff", str(wrong), "--stage", "all", "--json"]) == FINDING
    found = json.loads(capsys.readouterr().out)
    assert all(not s["ok"] and s["message"] for s in found["stages"])


def test_diff_keeps_the_build_where_it_is_told(tmp_path, capsys):
    place = tmp_path / "b"
    assert invoke(["diff", str(GOOD), "--out", str(place), "--json"]) == FINE
    assert json.loads(capsys.readouterr().out)["stage"] == "pto"
    assert (place / "ptoas").is_dir()
    assert invoke(["diff", str(GOOD), "--out", str(place), "--stage", "lowered"]) == BAD_INPUT
    assert "no use at the stage lowered" in capsys.readouterr().err


def test_poison_of_the_stage_pto(capsys):
    assert invoke(["diff", str(GOOD), "--stage", "pto", "--poison", "--json"]) == FINE
    assert json.loads(capsys.readouterr().out)["leaks"] == []


def test_compile_writes_a_folder_runs_it_and_says_so(tmp_path, capsys):
    place = tmp_path / "b"
    assert invoke(["compile", str(GOOD), "--out", str(place), "--arch", "a5"]) == FINE
    out = capsys.readouterr().out
    assert "for a5, engine embedded" in out
    assert "executed: .pto interpreted by pypto_lab" in out
    assert "right" in out
    assert (place / "kernel_config.py").is_file()
    assert invoke(["compile", str(GOOD), "--out", str(place), "--no-run"]) == FINE
    out = capsys.readouterr().out
    assert "executed: .pto" not in out
    assert "not run" in out


def test_compile_in_json(tmp_path, wrong, capsys):
    assert invoke(["compile", str(wrong), "--out", str(tmp_path / "b"), "--json"]) == FINDING
    found = json.loads(capsys.readouterr().out)
    assert {"path", "arch", "engine", "program", "files", "remarks", "ok", "run"} == set(found)
    assert (found["ok"], found["run"]["ok"]) == (False, False)
    assert {"executed", "simulated", "written", "missing"} == {f["state"] for f in found["files"]}
    assert invoke(["compile", str(wrong), "--out", str(tmp_path / "b"), "--json", "--no-run"]) == FINE
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["run"]) == (True, None)


def test_compile_of_a_file_without_inputs_is_not_run(tmp_path, capsys):
    path = tmp_path / "plain.py"
    path.write_text(
        "import pypto.language as pl\n\n\n@pl.jit\n"
        "def k(x: pl.Tensor[[16, 16], pl.FP32], y: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):\n"
        "    with pl.at(level=pl.Level.CORE_GROUP):\n        y[:] = pl.exp(x)\n    return y\n"
    )
    assert invoke(["compile", str(path), "--out", str(tmp_path / "b")]) == FINE
    assert "not run" in capsys.readouterr().out
    assert invoke(["compile", str(path), "--out", str(tmp_path / "b"), "--run"]) == BAD_INPUT
    assert "E508" in capsys.readouterr().err
    assert (
        invoke(["compile", str(tmp_path / "b" / "passes_dump" / "00_frontend.py"), "--out", str(tmp_path / "c")])
        == FINE
    )
    assert (tmp_path / "c" / "ptoas" / "k_incore_0.pto").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--engine", "pypto"], "E692"),
        (["--engine", "nonsense"], "E509"),
        (["--arch", "a4"], "E509"),
        (["--runtime", "nonsense"], "E655"),
        (["--kernel", "nonsense"], "E508"),
    ],
)
def test_compile_of_what_cannot_be_is_bad_input(arguments, said, tmp_path, capsys):
    assert invoke(["compile", str(GOOD), "--out", str(tmp_path / "b"), *arguments]) == BAD_INPUT
    captured = capsys.readouterr()
    assert f"error[{said}]" in captured.err
    assert not (tmp_path / "b").exists()


def test_compile_never_replaces_what_is_not_a_build(tmp_path, capsys):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "mine.py").write_text("")
    for place, said in ((tmp_path / "src", "E694"), (tmp_path / "src" / "mine.py" / "b", "E691")):
        assert invoke(["compile", str(GOOD), "--out", str(place)]) == BAD_INPUT
        assert said in capsys.readouterr().err
    assert [p.name for p in (tmp_path / "src").iterdir()] == ["mine.py"]


@pytest.mark.parametrize("arguments", [["--stage", "nonsense"], ["--arch", "a4"], ["--kernel", "nonsense"]])
def test_an_unknown_choice_is_bad_input(arguments, capsys):
    assert invoke(["diff", str(GOOD), *arguments]) == BAD_INPUT
    assert "error[E5" in capsys.readouterr().err


def test_a_missing_file_is_a_diagnostic_in_text_and_json(capsys):
    for command in ("run", "diff", "script"):
        assert invoke([command, "surely_missing.py"]) == BAD_INPUT
        assert "does not exist" in capsys.readouterr().err
    assert invoke(["diff", "surely_missing.py", "--json"]) == BAD_INPUT
    found = json.loads(capsys.readouterr().out)
    assert found["diagnostics"][0]["code"] == "E503"


def test_run_gives_the_file_its_arguments(tmp_path, capsys):
    path = tmp_path / "m.py"
    path.write_text("import sys\nprint(sys.argv[1:])\nsys.exit(3)\n")
    assert invoke(["run", str(path), "--json", "-p", "a2a3sim", "--help"]) == 3
    assert "['--json', '-p', 'a2a3sim', '--help']" in capsys.readouterr().out


def test_run_of_a_failing_check_is_a_finding(tmp_path, capsys):
    path = tmp_path / "m.py"
    path.write_text("assert 1 == 2, 'numbers differ'\n")
    assert invoke(["run", str(path)]) == FINDING
    err = capsys.readouterr().err
    assert "numbers differ" in err
    assert "Traceback" not in err


def test_script_runs_with_torch_alone(tmp_path, capsys):
    assert invoke(["script", str(GOOD)]) == FINE
    text = capsys.readouterr().out
    assert "import torch" in text
    assert "pypto_lab" not in text
    compile(text, "script", "exec")


def test_script_of_the_lowered_kernel(capsys):
    assert invoke(["script", str(GOOD), "--stage", "lowered"]) == FINE
    text = capsys.readouterr().out
    assert "_tile_load" in text
    compile(text, "script", "exec")
    assert invoke(["script", str(GOOD), "--stage", "pto"]) == BAD_INPUT
    assert "frontend, lowered" in capsys.readouterr().err


def test_validate_json(tmp_path, capsys):
    (tmp_path / "00_frontend.py").write_text("def (")
    assert invoke(["validate", str(tmp_path), "--case", str(GOOD), "--json"]) == FINDING
    found = json.loads(capsys.readouterr().out)
    assert found["case"] == "k01_chain_scalars"
    assert found["stages"][0]["status"] == "error"


@pytest.mark.parametrize("suffix", [".svg", ".dot", ".html"])
def test_graph_writes_each_format(tmp_path, suffix, capsys):
    target = tmp_path / f"g{suffix}"
    assert invoke(["graph", str(GOOD), "-o", str(target)]) == FINE
    assert "chain_scalars" in target.read_text()


def test_graph_refuses_other_formats(tmp_path, capsys):
    assert invoke(["graph", str(GOOD), "-o", str(tmp_path / "g.png")]) == BAD_INPUT
    assert ".svg" in capsys.readouterr().err


def test_explain(capsys):
    for code in ("E501", "e511", "E101"):
        assert invoke(["explain", code]) == FINE
        assert code.upper() in capsys.readouterr().out
    assert invoke(["explain", "E998"]) == BAD_INPUT


def test_doctor(capsys):
    assert invoke(["doctor"]) == FINE
    assert "torch" in capsys.readouterr().out
    assert invoke(["doctor", "--json"]) == FINE
    found = json.loads(capsys.readouterr().out)
    assert {"torch", "ptoas", "pypto"} <= {p["name"] for p in found["parts"]}


def test_start_up_does_not_import_torch():
    code = "import sys, pypto_lab.cli as c; c.invoke(['explain', 'E501']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_interruption_ends_with_a_short_line(tmp_path):
    path = tmp_path / "slow.py"
    path.write_text("import time\nprint('started', flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "pypto_lab.cli", "run", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout.readline() == "started\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err == "pypto-lab: interrupted\n"


SLOW = """
import pypto.language as pl
import torch


@pl.jit
def long_way(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(1000000):
            out[:] = pl.add(x, 1.0)
    return out


def make_inputs(seed):
    return {"x": torch.zeros(16, 16), "out": torch.zeros(16, 16)}


def golden(values):
    values["out"][:] = values["x"] + 1
"""


def test_a_run_of_pto_is_interrupted_and_its_build_is_whole(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    place = tmp_path / "b"
    process = subprocess.Popen(
        [sys.executable, "-m", "pypto_lab.cli", "diff", str(tmp_path / "slow.py"), "--out", str(place)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    patience = time.monotonic() + 120
    while not place.exists() and process.poll() is None and time.monotonic() < patience:
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (out, err) == ("", "pypto-lab: interrupted\n")
    assert process.returncode in (130, -signal.SIGINT), "Python ends itself by the signal; a shell shows 130 for both"
    assert (place / "pypto_lab.json").is_file()
    assert sorted(p.name for p in tmp_path.iterdir() if not p.name.startswith("__")) == ["b", "slow.py"]


UP_DOWN = KERNELS / "k17_bias_updown" / "kernel.py"
UP_DOWN_LAST = next((KERNELS.parent / "dumps" / "k17_bias_updown").rglob("49_*.py"))


def test_a_recording_is_made_and_opened(tmp_path, capsys):
    place = tmp_path / "run.ptolab"
    assert invoke(["record", str(UP_DOWN), "--dump", str(UP_DOWN_LAST), "-o", str(place)]) == FINE
    made = capsys.readouterr().out
    assert invoke(["open", str(place)]) == FINE
    assert capsys.readouterr().out.strip() == made.removesuffix(f"wrote {place}\n").strip()


def test_an_opened_recording_shows_a_step(tmp_path, capsys):
    place = tmp_path / "run.ptolab"
    invoke(["record", str(UP_DOWN), "--dump", str(UP_DOWN_LAST), "-o", str(place)])
    capsys.readouterr()
    assert invoke(["open", str(place), "--step", "20"]) == FINE
    assert capsys.readouterr().out.startswith("position 20 of")
    assert invoke(["open", str(place), "--step", "9999"]) == BAD_INPUT


def test_opening_something_else_is_bad_input(capsys):
    assert invoke(["open", str(GOOD)]) == BAD_INPUT
    assert "not a complete recording" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_bad_input(tmp_path, capsys):
    assert invoke(["record", str(GOOD), "-o", str(tmp_path / "no" / "run.ptolab")]) == BAD_INPUT
    assert "cannot be written" in capsys.readouterr().err


def test_script_by_addresses_places_tiles(capsys):
    dump = (
        KERNELS.parent / "dumps" / "k24_while_branch" / "passes_explicit" / "49_after_MaterializeValidShapeSymbols.py"
    )
    assert invoke(["script", str(dump), "--memory", "addresses", "--arch", "a5"]) == FINE
    assert "core = _Core('a5', addressed=True)" in capsys.readouterr().out
    assert invoke(["script", str(dump), "--memory", "nowhere"]) == BAD_INPUT


def test_validate_by_addresses_finds_a_lost_carry(tmp_path, capsys):
    dumps = KERNELS.parent / "dumps" / "k24_while_branch" / "passes_explicit"
    (tmp_path / "35_after_AllocateMemoryAddr.py").write_text((dumps / "35_after_AllocateMemoryAddr.py").read_text())
    arguments = ["validate", str(tmp_path), "--case", str(KERNELS / "k24_while_branch" / "kernel.py"), "--json"]
    assert invoke(arguments) == FINE
    capsys.readouterr()
    assert invoke([*arguments, "--memory", "addresses"]) == FINDING
    (stage,) = json.loads(capsys.readouterr().out)["stages"]
    assert "a yield moves nothing" in stage["message"]
