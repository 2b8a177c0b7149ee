"""Builds made and executed for a comparison: engines, places, markers; `lab.compile` on all that it takes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import pypto_lab as lab
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.numerics.compiling import build_place, compile_to, marked, run_build_of

KERNELS = Path(__file__).parent.parent / "data" / "kernels"
K01 = KERNELS / "k01_chain_scalars" / "kernel.py"
K14 = KERNELS / "k14_splitk_atomic" / "kernel.py"

BARE = """
import pypto.language as pl


@pl.jit
def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(x, 2.0)
    return out
"""


def test_anything_the_lab_loads_can_be_compiled(tmp_path: Path) -> None:
    case = lab.case(K01)
    program = case.program(case.make_inputs(0))
    first = lab.compile(case, tmp_path / "case")
    texts = {f.name: first.text(f.name) for f in first.files if f.state != "missing"}

    class Live:
        def as_python(self) -> str:
            return program.as_python()

    (tmp_path / "00_frontend.py").write_text(program.as_python())
    made = lab.load_module(K01)
    sources = {
        "path": K01, "name": str(K01), "program": program, "text": program.as_python(), "live": Live(),
        "dump": tmp_path / "00_frontend.py",
    }  # fmt: skip
    for name, source in sources.items():
        build = lab.compile(source, tmp_path / name)
        again = {f.name: build.text(f.name) for f in build.files if f.state != "missing"}
        assert set(again) == set(texts), name
        same = [n for n in texts if n.endswith((".cpp", "kernel_config.py", "compiled_meta.json"))]
        assert {n: again[n] for n in same} == {n: texts[n] for n in same}, name
    kernel = lab.compile(made.chain_scalars, tmp_path / "kernel", arguments=case.make_inputs(0))
    assert kernel.of_role("pto")


def test_a_kernel_with_bare_types_is_read_for_its_arguments(tmp_path: Path) -> None:
    path = tmp_path / "doubled.py"
    path.write_text(BARE)
    values = {"x": torch.ones(32, 16), "out": torch.zeros(32, 16)}
    build = lab.compile(lab.load_module(path).doubled, tmp_path / "b", "a5", arguments=values)
    assert torch.equal(build.run(values).outputs["out"], values["x"] * 2)
    assert '"shape": [\n        32,\n        16\n' in build.text("compiled_meta.json")


def test_choices_and_mistakes_are_diagnostics(tmp_path: Path) -> None:
    program = lab.load(K01)
    for arguments, code in (
        ({"arch": "a9"}, "E509"), ({"engine": "pyptoo"}, "E509"), ({"runtime": "none"}, "E655"),
    ):  # fmt: skip
        with pytest.raises(LabError) as found:
            lab.compile(program, tmp_path / "b", **arguments)
        assert found.value.diagnostics[0].code == code
        assert not (tmp_path / "b").exists()
    with pytest.raises(LabError, match="did you mean `pypto`"):
        compile_to(program, tmp_path / "b", engine="pyptoo")
    with pytest.raises(LabError, match="E503"):
        lab.compile("missing.py", tmp_path / "b")


def test_a_refused_kernel_leaves_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(BARE.replace("pl.Tensor]", "pl.Tensor[[16, 16], pl.FP32]]").replace("pl.mul", "pl.mull"))
    with pytest.raises(LabError):
        lab.compile(lab.load_module(path).doubled, tmp_path / "b", arguments={})
    assert not (tmp_path / "b").exists()


def test_a_run_marks_what_it_executed_and_leaves_the_values_alone(tmp_path: Path) -> None:
    case = lab.case(K01)
    values = case.make_inputs(3)
    before = {name: v.clone() if isinstance(v, torch.Tensor) else v for name, v in values.items()}
    ran = run_build_of(lab.compile(case, tmp_path / "b"), values, seed=3)
    assert {f.state for f in ran.build.of_role("pto")} == {"executed"}
    assert set(ran.outputs) == {"out"}
    assert case.compare("out", ran.outputs, case.expected(values), values).ok
    for name, value in before.items():
        assert torch.equal(values[name], value) if isinstance(value, torch.Tensor) else values[name] == value


def test_outputs_that_are_no_inputs_are_marked() -> None:
    case = lab.case(K14)
    values = case.make_inputs(0)
    program = case.program(values)
    found = marked(program, values)
    outs = {p.name for p in program.entry.params if p.direction.name == "Out"}
    assert outs
    for name, value in values.items():
        if name in outs:
            assert bool(found[name].isnan().all())
            assert not bool(value.isnan().any())
        else:
            assert found[name] is value


def test_a_place_nobody_named_goes_away() -> None:
    with build_place(None) as place:
        place.mkdir()
        (place / "x").write_text("")
    assert not place.parent.exists()
    with build_place("somewhere") as kept:
        assert kept == Path("somewhere")
