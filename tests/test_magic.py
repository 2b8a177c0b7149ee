"""`%%pypto`: what it runs, where inputs and golden come from, and how a user's mistake is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from pypto_lab.cell import UserMistake, Wishes, plan, run_cell
from pypto_lab.magic import FLAGS, HELP, PyptoMagics, completions, load_ipython_extension, unload_ipython_extension
from pypto_lab.view.report import Result

KERNEL = """
import pypto.language as pl
import torch


@pl.jit
def scaled(x: pl.Tensor[[16, 32], pl.FP32], out: pl.Out[pl.Tensor[[16, 32], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(x, 2.0)
    return out
"""
DYNAMIC = KERNEL.replace("[16, 32]", "[M, 32]").replace("@pl.jit", 'M = pl.dynamic("M")\n\n\n@pl.jit')
GOLDEN = "\ndef golden(x):\n    return x * 2\n"


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance()
    made.run_line_magic("load_ext", "pypto_lab")
    yield made
    made.history_manager.end_session()
    InteractiveShell.clear_instance()


def run(shell: InteractiveShell, line: str, cell: str) -> Result:
    result = shell.run_cell_magic("pypto", line, cell)
    assert isinstance(result, Result)
    return result


def mistake(shell: InteractiveShell, line: str, cell: str) -> str:
    with pytest.raises(UsageError) as found:
        shell.run_cell_magic("pypto", line, cell)
    return str(found.value)


def test_the_cell_runs_compares_and_leaves_its_result(shell: InteractiveShell) -> None:
    result = run(shell, "", KERNEL + GOLDEN)
    assert result.ok
    assert result.report is not None
    assert result.report.outputs[0].comparison.max_abs == 0
    assert shell.user_ns["_pypto"] is result
    assert result.choices == ("inputs: random, seed 0", "golden: golden")
    assert callable(shell.user_ns["scaled"])


def test_the_stand_ins_are_gone_after_the_cell(shell: InteractiveShell) -> None:
    import sys

    run(shell, "", KERNEL + GOLDEN)
    assert "pypto.language" not in sys.modules


def test_a_wrong_kernel_is_a_result_not_an_error(shell: InteractiveShell) -> None:
    result = run(shell, "", KERNEL.replace("2.0", "3.0") + GOLDEN)
    assert result.ok is False
    assert result.maps[0].rows == 16
    assert "mismatch" in repr(result)


def test_tolerances_of_the_line_go_before_those_of_the_cell(shell: InteractiveShell) -> None:
    wrong = KERNEL.replace("2.0", "2.02") + GOLDEN
    assert run(shell, "", wrong).ok is False
    assert run(shell, "", wrong + "\nRTOL, ATOL = 0.1, 0.0\n").ok
    assert run(shell, "--tol 1e-6,0", wrong + "\nRTOL, ATOL = 0.1, 0.0\n").ok is False


def test_without_a_golden_the_outputs_are_described(shell: InteractiveShell) -> None:
    result = run(shell, "", KERNEL)
    assert result.ok is None
    assert result.facts[0].name == "out"
    assert result.facts[0].smallest is not None
    assert "no golden" in repr(result)


def test_golden_may_fill_a_dict_in_place(shell: InteractiveShell) -> None:
    golden = "\ndef golden(values):\n    values['out'][:] = values['x'] * 2\n"
    assert run(shell, "", KERNEL + golden).ok


def test_golden_may_be_named(shell: InteractiveShell) -> None:
    other = "\ndef truth(x):\n    return x * 5\n"
    assert run(shell, "--golden truth", KERNEL + GOLDEN + other).ok is False


def test_golden_of_another_kernel_of_the_cell_is_not_taken_when_ones_own_is_there(shell: InteractiveShell) -> None:
    cell = KERNEL + "\ndef golden_scaled(x):\n    return x * 2\n\ndef golden(x):\n    return x * 9\n"
    assert run(shell, "", cell).ok


@pytest.mark.parametrize(
    ("line", "setup", "first", "choice"),
    [
        ("--inputs \"{'x': torch.ones(16, 32)}\"", "", 1.0, "--inputs {'x': torch.ones(16, 32)}"),
        ('--inputs "[torch.full((16, 32), 4.0)]"', "", 4.0, "--inputs [torch.full((16, 32), 4.0)]"),
        ("--inputs make", "def make(seed):\n    return {'x': torch.full((16, 32), float(seed))}", 7.0, "--inputs make"),
        ("", "def make_inputs(seed):\n    return {'x': torch.full((16, 32), 3.0)}", 3.0, "make_inputs()"),
        ("", "x = torch.full((16, 32), 5.0)", 5.0, "variables x"),
    ],
)
def test_inputs_in_the_documented_order(
    shell: InteractiveShell, line: str, setup: str, first: float, choice: str
) -> None:
    result = run(shell, f"--seed 7 {line}", KERNEL + "\n" + setup + "\n" + GOLDEN)
    assert result.ok
    assert result.outputs["out"][0, 0].item() == 2 * first
    assert result.choices[0] == f"inputs: {choice}"


def test_make_inputs_goes_before_variables_and_inputs_before_both(shell: InteractiveShell) -> None:
    both = KERNEL + "\nx = torch.zeros(16, 32)\ndef make_inputs(seed):\n    return {'x': torch.ones(16, 32)}\n"
    assert run(shell, "", both).outputs["out"][0, 0] == 2
    assert run(shell, '--inputs "[torch.full((16, 32), 8.0)]"', both).outputs["out"][0, 0] == 16


def test_make_inputs_of_another_kernel_is_left_alone(shell: InteractiveShell) -> None:
    shell.run_cell("def make_inputs(seed):\n    return {'q': 1}")
    assert run(shell, "", KERNEL + GOLDEN).choices[0] == "inputs: random, seed 0"


def test_the_inputs_stay_as_they_are(shell: InteractiveShell) -> None:
    x, out = torch.ones(16, 32), torch.full((16, 32), -1.0)
    shell.user_ns.update(x=x, out=out)
    assert run(shell, "", KERNEL + GOLDEN).ok
    assert (out == -1).all()
    assert (x == 1).all()


def test_the_seed_makes_the_inputs(shell: InteractiveShell) -> None:
    one, two, other = (run(shell, f"--seed {s}", KERNEL).outputs["out"] for s in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_the_last_kernel_runs_unless_one_is_named(shell: InteractiveShell) -> None:
    two = KERNEL + KERNEL.replace("scaled", "tripled").replace("2.0", "3.0")
    assert run(shell, "", two).name == "tripled"
    assert run(shell, "scaled", two).name == "scaled"


def test_a_stepped_cell_shows_the_workbench(shell: InteractiveShell) -> None:
    result = run(shell, "--step", KERNEL + GOLDEN)
    assert result.workbench is not None
    shown = result._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in shown
    assert f"recorded: {len(result.workbench.recording)} steps" in shown["text/plain"]
    assert "match" in result.workbench.text("numbers")
    assert all((result.workbench.recording.arrays[n] == t.numpy()).all() for n, t in result.outputs.items())


def test_a_lowered_cell_runs_on_lanes_of_its_own(shell: InteractiveShell) -> None:
    result = run(shell, "--stage lowered --step", KERNEL + GOLDEN)
    assert result.ok
    assert {f.func_type.name for f in result.program.functions.values()} == {"AIV", "Orchestration"}
    assert "lowered stage" in repr(result)


def test_poison_and_shape_checks_are_run(shell: InteractiveShell) -> None:
    result = run(shell, "--poison --check-shapes", KERNEL + GOLDEN)
    assert result.report is not None
    assert result.report.leaks == ()
    assert result.script is not None
    assert "_check" in result.script.text


@pytest.mark.parametrize("line", ["--stage pto", "--engine embedded", "--stage pto --arch a5 --poison"])
def test_a_cell_is_compiled_and_its_texts_are_executed(shell: InteractiveShell, line: str) -> None:
    result = run(shell, line, KERNEL + GOLDEN)
    assert result.ok
    assert result.stage == "pto"
    assert result.build is not None
    assert result.build.arch == result.arch
    assert {f.state for f in result.build.of_role("pto")} == {"executed"}
    assert "pto.tmuls" in result.build.text("ptoas/scaled_incore_0.pto")
    assert result.outputs["out"].abs().sum() > 0
    shown = repr(result)
    assert "executed: .pto interpreted by pypto_lab (not ptoas, not device)" in shown
    assert "nothing compiled" not in shown
    assert "ptoas/scaled_incore_0.pto" in result.html()


def test_a_build_is_kept_where_the_line_says(shell: InteractiveShell, tmp_path: Path) -> None:
    place = tmp_path / "some place"
    result = run(shell, f'--out "{place}"', KERNEL + GOLDEN)
    assert result.build is not None
    assert result.build.path == place
    assert (place / "kernel_config.py").is_file()
    assert run(shell, f'--stage all --out "{place}"', KERNEL + GOLDEN).ok
    (place / "mine").write_text("")
    assert "other files in it (mine)" in mistake(shell, f'--out "{place}"', KERNEL)


def test_all_stages_of_a_cell(shell: InteractiveShell) -> None:
    result = run(shell, "--stage all", KERNEL + GOLDEN)
    assert result.ok
    assert result.report is not None
    assert [s.stage for s in result.report.stages] == ["frontend", "lowered", "pto"]
    assert "Stages against the golden" in repr(result)
    wrong = run(shell, "--stage all", KERNEL.replace("2.0", "3.0") + GOLDEN)
    assert wrong.ok is False
    assert wrong.maps[0].rows == 16


@pytest.mark.parametrize("stage", ["pto", "all"])
def test_a_compiled_cell_without_a_golden_is_described(shell: InteractiveShell, stage: str) -> None:
    result = run(shell, f"--stage {stage}", KERNEL)
    assert result.ok is None
    assert result.facts[0].name == "out"


def test_the_instructions_of_a_compiled_cell_can_be_stepped(shell: InteractiveShell) -> None:
    result = run(shell, "--stage pto --step", KERNEL + GOLDEN)
    assert result.workbench is not None
    recording = result.workbench.recording
    assert recording.status == "finished"
    assert torch.equal(torch.as_tensor(recording.outputs["out"]), result.outputs["out"])
    assert "scaled_incore_0.pto" in result.workbench.text()


def test_folders_complete_after_out(shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "builds" / "first").mkdir(parents=True)
    (tmp_path / "text").write_text("")
    monkeypatch.chdir(tmp_path)
    assert completions("--out b", {}) == ["builds/"]
    assert completions("--out builds/", {}) == ["builds/first/"]
    assert completions(f"--out {tmp_path}/bu", {}) == [f"{tmp_path}/builds/"]
    assert completions("--out nowhere/", {}) == []


def test_a_long_cell_says_what_it_is_doing(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pypto_lab.magic.PATIENCE", 0.0)
    slow = KERNEL + "\nimport time\ndef golden(x):\n    time.sleep(0.2)\n    return x * 2\n"
    run(shell, "--stage pto", slow)
    assert " ...\n" in capsys.readouterr().out
    monkeypatch.setattr("pypto_lab.magic.PATIENCE", 60.0)
    run(shell, "--stage pto", slow)
    assert " ...\n" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "cell", "said"),
    [
        ("--bogus", KERNEL, "unrecognized arguments: --bogus"),
        ("--seed x", KERNEL, "invalid int value"),
        ("--tol 1", KERNEL, "--tol takes two numbers"),
        ("--tol 1,-2", KERNEL, "not negative"),
        ("nothing", KERNEL, "no kernel `nothing`: the kernels here are scaled"),
        ("scald", KERNEL, "did you mean `scaled`?"),
        ("--golden goldne", KERNEL + GOLDEN, "did you mean `golden`?"),
        ("--golden torch.pi", KERNEL, "is not a function"),
        ("--golden (", KERNEL, "is not a Python expression"),
        ("--inputs \"{'y': 1}\"", KERNEL, "gives `y`, which is no parameter: the parameters are x, out"),
        ('--inputs "{}"', KERNEL, "has no value for x"),
        ("--inputs 3", KERNEL, "must give a dict by parameter name or a list"),
        ("--engine pypto", KERNEL, "--engine embedded"),
        ("--engine nothing", KERNEL, "no engine `nothing`"),
        ("--stage lowered --out b", KERNEL, "--out has no use at the stage lowered"),
        ("--stage nowhere", KERNEL, "no stage `nowhere`"),
        ("--arch a9", KERNEL, "no arch `a9`"),
        ("", "x = 1", "no kernel in this cell"),
        ("", KERNEL + "\ndef golden(x):\n    return x, x\n", "the golden returns 2 values, the outputs are out"),
        ("", DYNAMIC, "`x` is [M, 32] FP32 and the size [M, 32] is not known"),
    ],
)
def test_a_mistake_in_the_line_is_told_in_a_sentence(shell: InteractiveShell, line: str, cell: str, said: str) -> None:
    assert said in mistake(shell, line, cell)


@pytest.mark.parametrize(
    ("cell", "row", "underlined"),
    [
        (KERNEL.replace("2.0", "oops"), "out[:] = pl.mul(x, oops)", "oops"),
        (KERNEL.replace("2.0)", "2.0"), "return out", None),
        (KERNEL + "\nassert 1 == 2, 'no'\n", "assert 1 == 2, 'no'", "assert 1 == 2, 'no'"),
        (KERNEL + "\ndef golden(x):\n    return x * zz\n", "return x * zz", "return x * zz"),
    ],
)
def test_a_mistake_in_the_cell_is_underlined_at_its_line(
    shell: InteractiveShell, cell: str, row: str, underlined: str | None
) -> None:
    rows = mistake(shell, "--seed 1", cell).splitlines()
    assert not any("Traceback" in r for r in rows)
    place = (
        next(i for i, r in enumerate(rows) if " | " in r and r.split(" | ", 1)[1].strip() == row) if underlined else -2
    )
    if underlined is None:
        assert any("--> In [" in r for r in rows)
        return
    number = int(rows[place].split("|")[0])
    whole = ("%%pypto --seed 1\n" + cell).splitlines()
    assert whole[number - 1].strip() == row
    marks = rows[place + 1]
    start = marks.index("^")
    assert rows[place][start : start + marks.count("^")] == underlined


def test_a_mistake_shows_no_traceback(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    done = shell.run_cell("%%pypto\n" + KERNEL.replace("2.0", "oops"))
    assert not done.success
    shown = capsys.readouterr()
    assert "Traceback" not in shown.out + shown.err
    assert "`oops` is not defined" in shown.out + shown.err


def test_an_earlier_cell_keeps_its_own_text(shell: InteractiveShell) -> None:
    """A kernel that a later cell names is read from the text it was made from."""
    run(shell, "", KERNEL)
    run(shell, "", KERNEL.replace("scaled", "other").replace("2.0", "7.0"))
    assert run(shell, "scaled --golden double", "def double(x):\n    return x * 2\n").ok


def test_a_kernel_of_an_earlier_cell_can_be_called(shell: InteractiveShell) -> None:
    run(shell, "", KERNEL)
    x, out = torch.ones(16, 32), torch.zeros(16, 32)
    shell.user_ns["scaled"](x, out)
    assert (out == 2).all()


def test_help_says_every_flag(shell: InteractiveShell) -> None:
    text = PyptoMagics.pypto.__doc__ or ""
    for name in (*FLAGS, "KERNEL"):
        assert name in text
    for words in HELP.values():
        assert words.split(":")[0][:30] in " ".join(text.split())


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("--po", ["--poison"]),
        ("--s", ["--seed", "--stage", "--step"]),
        ("--seed 3 --s", ["--stage", "--step"]),
        ("--arch ", ["a2a3", "a5"]),
        ("--stage l", ["lowered"]),
        ("--stage p", ["pto"]),
        ("--engine ", ["embedded", "pypto"]),
        ("--e", ["--engine"]),
        ("--o", ["--out"]),
        ("--golden go", ["golden"]),
        ("--seed ", []),
        ("sc", ["scaled"]),
    ],
)
def test_completion_of_a_line(shell: InteractiveShell, before: str, expected: list[str]) -> None:
    run(shell, "", KERNEL + GOLDEN)
    assert completions(before, shell.user_ns) == expected


def test_tab_completes_in_the_shell(shell: InteractiveShell) -> None:
    _, found = shell.complete(None, "%%pypto --ch", 12)
    assert found == ["--check-shapes"]
    _, elsewhere = shell.complete(None, "x = --ch", 8)
    assert "--check-shapes" not in elsewhere


def test_loading_twice_and_unloading(shell: InteractiveShell) -> None:
    load_ipython_extension(shell)
    names = [getattr(m, "__name__", "") for m in shell.Completer.custom_matchers]
    assert names.count("pypto_matcher") == 1
    unload_ipython_extension(shell)
    assert "pypto" not in shell.magics_manager.magics["cell"]
    assert not any(getattr(m, "__name__", "") == "pypto_matcher" for m in shell.Completer.custom_matchers)


def test_a_plan_needs_no_shell() -> None:
    namespace: dict[str, Any] = {}
    cell = run_cell(KERNEL + GOLDEN, namespace, "a cell without a shell")
    made = plan(cell, Wishes(seed=2))
    assert made.name == "scaled"
    assert made.outputs == ("out",)
    assert set(made.values) == {"x", "out"}
    with pytest.raises(UserMistake, match="no kernel"):
        plan(run_cell("y = 1", {}, "an empty cell"), Wishes())
