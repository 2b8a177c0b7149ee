"""Loading users' files: stand-ins only meanwhile, sibling modules, errors as diagnostics."""

import sys
from pathlib import Path

import pytest

from pypto_lab.compat import loader
from pypto_lab.compat.loader import load_module, real_pypto_installed, run_main, stand_ins, world_of
from pypto_lab.frontend.kernels import DynamicDim, KernelSource, ProgramSource, source_of
from pypto_lab.ir import dtypes
from pypto_lab.ir.diagnostics import LabError

KERNEL = """
import pypto.language as pl

@pl.jit
def scale(x: pl.Tensor[[16, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(x, 2.0)
    return out
"""


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_stand_ins_are_importable_only_inside():
    assert "pypto" not in sys.modules
    with stand_ins():
        import golden
        import pypto.language as pl
        import pypto.language.distributed as pld
        from pypto.ir.distributed_compiled_program import DistributedConfig
        from pypto.runtime import RunConfig

        assert pl.FP32 is dtypes.FP32
        assert isinstance(pl.dynamic("M"), DynamicDim)
        for name in (golden.TensorSpec, pld.DistributedTensor, DistributedConfig, RunConfig):
            assert name is not None
    assert not [m for m in sys.modules if m.partition(".")[0] in loader.ROOTS]
    with pytest.raises(ModuleNotFoundError):
        import pypto  # noqa: F401


def test_stand_ins_nest_and_come_back():
    with stand_ins(), stand_ins():
        import pypto

        outer = pypto
    with stand_ins():
        import pypto

        assert pypto is outer


def test_an_unrelated_pypto_is_shadowed_and_comes_back(tmp_path, monkeypatch):
    write(tmp_path / "pypto", "__init__.py", "KIND = 'unrelated'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import pypto

    try:
        assert not real_pypto_installed()
        with stand_ins():
            import pypto.language as pl

            assert pl.FP32 is dtypes.FP32
        assert sys.modules["pypto"] is pypto
        assert pypto.KIND == "unrelated"
    finally:
        sys.modules.pop("pypto", None)


def test_a_real_pypto_is_left_alone_unless_asked(tmp_path, monkeypatch):
    write(tmp_path / "pypto", "__init__.py", "KIND = 'real'\n")
    write(tmp_path / "pypto" / "language", "__init__.py", "FP32 = 'theirs'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        assert real_pypto_installed()
        with stand_ins():
            import pypto.language as pl

            assert pl.FP32 == "theirs"
        with stand_ins(shadow_real=True):
            import pypto.language as pl

            assert pl.FP32 is dtypes.FP32
        import pypto

        assert pypto.KIND == "real"
    finally:
        for name in [m for m in sys.modules if m.partition(".")[0] == "pypto"]:
            del sys.modules[name]


def test_decorated_objects_carry_their_source(tmp_path):
    module = load_module(write(tmp_path, "k.py", KERNEL))
    source = source_of(module.scale)
    assert isinstance(source, KernelSource)
    assert (source.kind, source.name) == ("jit", "scale")
    assert module.scale.__name__ == "scale"


def test_every_decorator_form_makes_the_right_kind(tmp_path):
    text = """
import pypto.language as pl

@pl.jit.incore
def a(x: pl.Tensor): ...
@pl.jit.inline(auto_scope=False)
def b(x: pl.Tensor): ...
def helper(x: pl.Tensor): ...
c = pl.jit.inline(helper)
@pl.jit(auto_scope=False)
def d(x: pl.Tensor): ...
@pl.jit.extern(core_type="aiv", source="k.cpp")
def e(x: pl.Tensor): ...
@pl.function(type=pl.FunctionType.InCore)
def f(x: pl.Tensor[[16], pl.FP32]): ...
@pl.inline
def g(x): return x
@pl.jit.host
def h(x: pl.Tensor): ...
@pl.program
class P:
    @pl.function
    def main(self, x: pl.Tensor[[16], pl.FP32]) -> tuple[pl.Tensor[[16], pl.FP32], pl.Scalar[pl.INT32]]: ...
"""
    module = load_module(write(tmp_path, "k.py", text))
    kinds = {name: source_of(getattr(module, name)).kind for name in "abcdefgh"}
    assert kinds == {
        "a": "jit.incore", "b": "jit.inline", "c": "jit.inline", "d": "jit", "e": "jit.extern", "f": "function",
        "g": "inline", "h": "jit.host",
    }  # fmt: skip
    assert source_of(module.e).options == {"core_type": "aiv", "source": "k.cpp"}
    assert isinstance(source_of(module.P), ProgramSource)
    assert source_of(module.c).function is module.helper


def test_names_of_the_defining_function_reach_the_source(tmp_path):
    text = """
import pypto.language as pl

def build(rows):
    width = 64
    @pl.jit
    def k(x: pl.Tensor[[rows, width], pl.FP32]): ...
    @pl.program
    class P:
        @pl.function
        def main(self, x: pl.Tensor[[rows, width], pl.FP32]): ...
    return k, P

k, P = build(16)
"""
    module = load_module(write(tmp_path, "k.py", text))
    for found in (source_of(module.k), source_of(module.P)):
        assert (found.closure["rows"], found.closure["width"]) == (16, 64)


def test_sibling_modules_of_two_folders_do_not_meet(tmp_path):
    for name, value in (("one", 1), ("two", 2)):
        write(tmp_path / name, "config.py", f"VALUE = {value}\n")
        write(
            tmp_path / name,
            "k.py",
            "import config\nVALUE = config.VALUE\ndef late():\n    import config\n    return config\n",
        )
    path_before = list(sys.path)
    one, two = load_module(tmp_path / "one" / "k.py"), load_module(tmp_path / "two" / "k.py")
    assert (one.VALUE, two.VALUE) == (1, 2)
    assert "config" not in sys.modules
    assert sys.path == path_before
    with world_of(one):
        assert one.late() is one.config
    with world_of(two):
        assert two.late().VALUE == 2
    assert "config" not in sys.modules


def test_relative_imports_work_in_a_package(tmp_path):
    for folder in ("pkg", "pkg/inner"):
        write(tmp_path / folder, "__init__.py", "")
    write(tmp_path / "pkg", "config.py", "VALUE = 5\n")
    path = write(tmp_path / "pkg" / "inner", "k.py", "from ..config import VALUE\nprint(VALUE)\n")
    assert load_module(path).VALUE == 5
    assert run_main(path) == 0
    assert not [m for m in sys.modules if m.partition(".")[0] == "pkg"]


def test_a_module_with_dataclasses_loads(tmp_path):
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass C:\n    n: int = 3\n"
    )
    assert load_module(write(tmp_path, "c.py", text)).C().n == 3


def test_run_main_gives_arguments_and_returns_the_status(tmp_path, capsys):
    text = "import sys\nif __name__ == '__main__':\n    print(sys.argv[1:])\n    raise SystemExit(3)\n"
    before = list(sys.argv)
    assert run_main(write(tmp_path, "m.py", text), ["--mode", "a b"]) == 3
    assert capsys.readouterr().out == "['--mode', 'a b']\n"
    assert sys.argv == before
    assert sys.modules["__main__"].__dict__.get("__file__") != str(tmp_path / "m.py")


@pytest.mark.parametrize(
    ("stop", "status"), [("raise SystemExit", 0), ("raise SystemExit(True)", 1), ("raise SystemExit('no')", 1)]
)
def test_other_forms_of_system_exit(tmp_path, stop, status):
    assert run_main(write(tmp_path, "m.py", stop + "\n")) == status


def failure(path: Path) -> LabError:
    with pytest.raises(LabError) as caught:
        run_main(path)
    return caught.value


def test_a_failed_assertion_points_at_the_users_line(tmp_path):
    error = failure(write(tmp_path, "m.py", "def check():\n    assert 1 == 2, 'one is not two'\n\ncheck()\n"))
    (found,) = error.diagnostics
    assert (found.code, found.span.line, found.span.column) == ("E507", 2, 5)
    assert "one is not two" in str(error)
    assert "Traceback" not in str(error)


def test_an_exception_in_a_library_points_at_the_users_call(tmp_path):
    error = failure(write(tmp_path, "m.py", "import json\n\njson.loads('{')\n"))
    assert error.diagnostics[0].code == "E506"
    assert error.diagnostics[0].span.line == 3


def test_a_syntax_error_is_a_diagnostic(tmp_path):
    error = failure(write(tmp_path, "m.py", "x = (1\ny = 2 +\n"))
    assert error.diagnostics[0].code == "E510"


@pytest.mark.parametrize("name", ["missing.py", "."])
def test_a_path_that_is_no_file_is_a_diagnostic(tmp_path, name):
    assert failure(tmp_path / name).diagnostics[0].code == "E503"


def test_bytes_that_are_not_text_are_a_diagnostic(tmp_path):
    path = tmp_path / "m.py"
    path.write_bytes(b"x = '\xff\xfe'\n")
    assert failure(path).diagnostics[0].code == "E503"


def test_a_missing_module_is_named(tmp_path):
    error = failure(write(tmp_path, "m.py", "import pypto.nothing_here\n"))
    assert "no module `pypto.nothing_here`" in str(error)
    error = failure(write(tmp_path, "n.py", "import surely_not_there\n"))
    assert "install `surely_not_there`" in str(error)


def test_stand_ins_leave_after_an_error(tmp_path):
    failure(write(tmp_path, "m.py", "import pypto\nraise ValueError('stop')\n"))
    assert "pypto" not in sys.modules


def test_pypto_pro_says_that_it_is_not_supported(tmp_path):
    error = failure(write(tmp_path, "m.py", "import pypto_pro.language as pl\n@pl.jit\ndef f(): ...\n"))
    assert error.diagnostics[0].code == "E505"
    assert "PyPTO-Pro" in str(error)


def test_an_op_outside_a_kernel_is_explained(tmp_path):
    error = failure(write(tmp_path, "m.py", "import pypto.language as pl\nfor i in pl.range(4):\n    pass\n"))
    assert error.diagnostics[0].code == "E501"
    assert "`pl.range`" in str(error)


def test_an_unknown_name_of_the_language_suggests_near_ones():
    with stand_ins():
        import pypto.language as pl

        with pytest.raises(AttributeError, match="parallel"):
            pl.paralel  # noqa: B018
        with pytest.raises(AttributeError, match="no `nonsense_zz`"):
            pl.tile.nonsense_zz  # noqa: B018
