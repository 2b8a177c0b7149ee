"""The command that accounts for every kernel function of a folder, and reading files that do not load."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_lab.compat.corpus import decorated_functions, main, survey
from pypto_lab.compat.lenient import load_leniently
from pypto_lab.compat.loader import load_module
from pypto_lab.frontend.kernels import Unresolved
from pypto_lab.frontend.source import program_of

KERNELS = Path(__file__).parent.parent / "data" / "kernels"
HEAD = "import torch\nimport pypto.language as pl\n\nA = pl.Tensor[[16, 64], pl.FP32]\n"
BODY = "    with pl.at(level=pl.Level.CORE_GROUP):\n        out[:] = pl.add(x, x)\n    return out\n"
BARE = "(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n"


def outcomes(folder: Path, *, run: bool = False) -> dict[str, str]:
    return {f.name: f.outcome for f in survey([folder], run).finish()}


def put(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(HEAD + text, encoding="utf-8")
    return file


def test_every_decorator_form_is_found() -> None:
    text = (
        "import pypto.language as lang\nfrom pypto import language as pl\nfrom pypto.language import jit, range\n"
        "@lang.jit\ndef a(x): ...\n@pl.jit.incore(level=3)\ndef b(x): ...\n@jit\ndef c(x): ...\n"
        "def build():\n    @pl.program\n    class P:\n        @pl.function(type=1)\n        def d(self): ...\n"
        "@property\ndef e(x): ...\n@other.jit\ndef f(x): ...\n"
    )
    found = decorated_functions("x.py", text)
    assert [(f.name, f.kind, f.builder) for f in found] == [
        ("a", "jit", None),
        ("b", "jit.incore", None),
        ("c", "jit", None),
        ("d", "function", "build"),
    ]


def test_every_kernel_function_of_the_case_files_is_read() -> None:
    found = survey([KERNELS]).finish()
    assert len(found) > 40
    assert {f.outcome for f in found} == {"entry", "callee"}


def test_an_entry_takes_its_shapes_from_the_specs_of_its_file(tmp_path: Path) -> None:
    put(
        tmp_path,
        "lib.py",
        "from golden import TensorSpec\n@pl.jit.inline\ndef part" + BARE + BODY + "@pl.jit\ndef whole" + BARE
        + "    part(x, out)\n    return out\n"
        "def build_tensor_specs(rows):\n    return [TensorSpec('x', [rows, 64], torch.float32), "
        "TensorSpec('out', [rows, 64], torch.float32, is_output=True)]\n"
        "if __name__ == '__main__':\n    rows = 16\n    specs = build_tensor_specs(rows)\n",
    )  # fmt: skip
    assert outcomes(tmp_path) == {"part": "callee", "whole": "entry"}


def test_a_kernel_that_is_only_called_gets_shapes_by_running(tmp_path: Path) -> None:
    put(tmp_path, "call.py", "@pl.jit\ndef k" + BARE + BODY + "if __name__ == '__main__':\n"
        "    out = torch.zeros(16, 64)\n    k(torch.ones(16, 64), out)\n    assert out.eq(2).all()\n")  # fmt: skip
    assert outcomes(tmp_path) == {"k": "shapeless"}
    assert outcomes(tmp_path, run=True) == {"k": "entry"}


def test_builders_are_called_and_other_branches_are_read_too(tmp_path: Path) -> None:
    text = (
        "ON = True\n"
        "def build(rows):\n    @pl.jit\n"
        "    def k(x: pl.Tensor[[rows, 64], pl.FP32], out: pl.Out[pl.Tensor[[rows, 64], pl.FP32]]):\n"
        "        out[:] = x\n        return out\n    return k\n"
        "if ON:\n    @pl.jit\n    def first(x: A, out: pl.Out[A]):\n        out[:] = x\n        return out\n"
        "else:\n    @pl.jit\n    def second(x: A, out: pl.Out[A]):\n        out[:] = x\n        return out\n"
    )
    call = "if __name__ == '__main__':\n    build(16)\n"
    put(tmp_path, "made.py", text + call)
    assert outcomes(tmp_path) == {"k": "entry", "first": "entry", "second": "entry"}
    put(tmp_path, "made.py", text)
    assert outcomes(tmp_path) == {"k": "valueless", "first": "entry", "second": "entry"}


def test_a_draft_that_does_not_load_is_read_but_for_what_it_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    text = (
        "class C:\n    pass\nROWS = C.rows\n"
        "@pl.jit\ndef k(x: pl.Tensor[[ROWS, 64], pl.FP32], out: pl.Out[A]):\n"
        "    with pl.at(level=pl.Level.CORE_GROUP):\n"
        "        t = pl.full([ROWS, 64], dtype=pl.FP32, value=0.0)\n"
        "        out[:] = pl.add(t, t)\n    return out\n"
    )
    put(tmp_path, "draft.py", text)
    assert main([str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "read statement by statement (AttributeError" in shown
    assert "1 read but for names without a value" in shown
    assert "read 1 of 1 kernel functions" in shown


def test_mistakes_and_removed_forms_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    head = "(x: A, out: pl.Out[A]):\n"
    put(tmp_path, "a.py", "@pl.jit\ndef wrong" + head + "    y = pl.nonexist(x)\n    return out\n")
    put(
        tmp_path,
        "b.py",
        "@pl.jit\ndef old" + head + "    for i in pl.parallel(4, chunk=2):\n        y = x\n    return out\n",
    )
    assert outcomes(tmp_path) == {"wrong": "refused", "old": "removed"}
    assert main([str(tmp_path)]) == 1
    assert "error[E203]" in capsys.readouterr().out
    (tmp_path / "a.py").unlink()
    assert main([str(tmp_path)]) == 0
    assert "read 0 of 1" in capsys.readouterr().out
    (tmp_path / "b.py").unlink()
    assert main([str(tmp_path)]) == 2


def test_lenient_loading_keeps_what_works(tmp_path: Path) -> None:
    file = put(tmp_path, "x.py", "from nowhere import gone\nB = gone.size * 2\nC = 3\ndef f():\n    return C\n")
    module = load_leniently(file)
    assert module.C == module.f() == 3
    assert isinstance(module.gone, Unresolved)
    assert isinstance(module.B, Unresolved)
    assert "ModuleNotFoundError" in module.gone.reason


def test_folders_of_the_project_are_importable_last(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    inner = tmp_path / "models" / "one"
    inner.mkdir(parents=True)
    (tmp_path / "models" / "config.py").write_text("NAME = 'shared'\n")
    assert load_module(put(inner, "a.py", "import config\n")).config.NAME == "shared"
    (inner / "config.py").write_text("NAME = 'own'\n")
    assert load_module(inner / "a.py").config.NAME == "own"


def test_a_file_may_import_the_package_that_has_its_name(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    package = tmp_path / "contract"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "base.py").write_text("BASE = 7\n")
    inner = tmp_path / "models"
    inner.mkdir()
    (inner / "weights.py").write_text("W = 1\n")
    file = put(inner, "contract.py", "from contract.base import BASE\nfrom weights import W\n"
        "@pl.jit\ndef k(x: A, out: pl.Out[A]):\n    out[:] = x\n    return out\n")  # fmt: skip
    module = load_module(file)
    assert (module.BASE, module.W) == (7, 1)
    assert program_of(module.k).functions
