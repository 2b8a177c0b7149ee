"""Build folders: what is written, what is said of it, how a folder appears and what it never replaces."""

from __future__ import annotations

import errno
import importlib.util
import json
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from pypto_lab.compat.cases import case
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.ir.nodes import Program
from pypto_lab.pto import build_codes
from pypto_lab.pto.build import MANIFEST, Build, BuildFile, read_build
from pypto_lab.pto.embedded import build_embedded
from pypto_lab.pto.installed import build_installed
from pypto_lab.pto.parse import read
from tests.pto.texts import DATA, KERNELS

SOFTMAX, MIXED = "k09_softmax_rows", "k17_bias_updown"


def program(name: str) -> Program:
    made = case(KERNELS / name / "kernel.py")
    return made.program(made.make_inputs(0))


@pytest.fixture(scope="module")
def softmax() -> Program:
    return program(SOFTMAX)


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def code(error: pytest.ExceptionInfo[LabError]) -> str:
    return error.value.diagnostics[0].code


@pytest.fixture(autouse=True)
def no_assembler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PTOAS_ROOT", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


# --- what is written --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["a2a3", "a5"])
def test_the_layout_is_the_compilers(tmp_path: Path, arch: str) -> None:
    build = build_embedded(program(MIXED), tmp_path / "b", arch)
    names = set(contents(build.path))
    assert names == {f.name for f in build.files if f.state != "missing"}
    assert {n for n in names if not n.startswith("passes_dump/")} == {
        "ptoas/mm_rows.pto", "kernels/aic/mm_rows_aic.cpp", "kernels/aiv/mm_rows_aiv.cpp",
        "orchestration/bias_updown.cpp", "kernel_config.py", "compiled_meta.json", "pypto_lab.json",
    }  # fmt: skip
    dumps = sorted(n for n in names if n.startswith("passes_dump/"))
    assert dumps[0] == "passes_dump/00_frontend.py"
    assert dumps[-1] == "passes_dump/49_after_MaterializeValidShapeSymbols.py"
    assert read(build.path / "ptoas" / "mm_rows.pto").arch == arch
    meta = json.loads(build.text("compiled_meta.json"))
    assert (meta["platform"], meta["num_return_types"]) == (f"{arch}sim", 1)
    assert meta["backend_type"] == {"a2a3": "Ascend910B", "a5": "Ascend950"}[arch]


def test_the_parameters_are_stated_as_the_compiler_states_them(tmp_path: Path) -> None:
    meta = json.loads(build_embedded(program("k21_dyn_tail_fillpad"), tmp_path / "b").text("compiled_meta.json"))
    found = {p["name"]: (p["direction"], p["shape"], p["dtype"]) for p in meta["params"]}
    assert found["x"] == ("In", [-1, 64], "fp32")
    assert found["width"] == ("In", None, "index")
    assert found["copied"] == ("InOut", [-1, 64], "fp32")
    half = json.loads(build_embedded(program(MIXED), tmp_path / "c").text("compiled_meta.json"))
    assert half["params"][0]["dtype"] == "bfloat16"


def test_the_configuration_names_the_files_of_the_build(tmp_path: Path) -> None:
    build = build_embedded(program(MIXED), tmp_path / "b", runtime="host_build_graph")
    spec = importlib.util.spec_from_file_location("the_config", build.path / "kernel_config.py")
    assert spec is not None
    assert spec.loader is not None
    config = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(config)
    assert config.RUNTIME_CONFIG["runtime"] == "host_build_graph"
    sources = [config.ORCHESTRATION["source"], *(k["source"] for k in config.KERNELS)]
    assert all(Path(source).is_file() for source in sources)
    assert build_embedded(program(MIXED), tmp_path / "b").arch == "a2a3", "a cache of Python is no foreign file"


def test_the_same_program_gives_the_same_bytes_and_no_places_of_this_machine(tmp_path: Path) -> None:
    one = build_embedded(program(SOFTMAX), tmp_path / "one" / "b")
    two = build_embedded(program(SOFTMAX), tmp_path / "another" / "c")
    assert contents(one.path) == contents(two.path)
    for name, text in contents(one.path).items():
        assert str(KERNELS).encode() not in text, name
        assert str(tmp_path).encode() not in text, name
    assert 'loc("kernel.py":' in one.text("ptoas/soft_rows.pto")


def test_an_entry_without_the_assemblers_text_cannot_be_taken_for_a_kernel(tmp_path: Path, softmax: Program) -> None:
    build = build_embedded(softmax, tmp_path / "b")
    text = build.text("kernels/aiv/soft_rows.cpp")
    assert "#error" in text
    assert "kernel_entry(__gm__ int64_t* args)" in text
    (lacking,) = build.missing
    assert (lacking.name, lacking.role) == ("ptoas/soft_rows.cpp", "ptoas")
    assert "there is no ptoas here" in str(build)


# --- what the assembler adds ------------------------------------------------------------------------------------------

PTOAS = """\
import os, sys
args = sys.argv[1:]
if args == ["--help"]:
    print("--enable-insert-sync --pto-arch --pto-level")
elif args == ["--version"]:
    print("ptoas 9")
elif MODE == "refuse":
    print(f"{args[0]}:3:1: error: not today", file=sys.stderr)
    sys.exit(1)
else:
    dump = [a for a in args if a.startswith("--mlir-print-ir-tree-dir=")]
    if dump:
        folder = dump[0].partition("=")[2] + "/module"
        os.makedirs(folder)
        open(folder + "/0_plan.mlir", "w").write("module {}")
    open(args[args.index("-o") + 1], "w").write(
        '#include "pto/pto-inst.hpp"\\nusing namespace pto;\\n__global__ AICORE void soft_rows(__gm__ float* a) {}\\n'
    )
"""


def assembler(folder: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "tools" / "ptoas"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!{sys.executable}\nMODE = {mode!r}\n{PTOAS}", encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setenv("PTOAS_ROOT", str(path.parent))


def test_with_an_assembler_the_wrappers_are_whole(
    tmp_path: Path, softmax: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    assembler(tmp_path, "work", monkeypatch)
    build = build_embedded(softmax, tmp_path / "b", dump_ptoas_passes=True)
    assert build.missing == ()
    wrapper = build.text("kernels/aiv/soft_rows.cpp")
    assert "#error" not in wrapper
    assert "static __aicore__ void soft_rows" in wrapper
    assert build.text("ptoas_passes/soft_rows/module/0_plan.mlir") == "module {}"
    assert not [n for n in contents(build_embedded(softmax, tmp_path / "b").path) if n.startswith("ptoas_passes")]


def test_an_assembler_that_refuses_a_text_is_told_and_the_rest_is_written(
    tmp_path: Path, softmax: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    assembler(tmp_path, "refuse", monkeypatch)
    build = build_embedded(softmax, tmp_path / "b")
    assert [f.note for f in build.missing] == ["ptoas did not make it (E662)"]
    assert "not today" in str(build)
    assert "#error" in build.text("kernels/aiv/soft_rows.cpp")
    assert build.of_role("config")


def test_an_assembler_that_cannot_start_is_told(
    tmp_path: Path, softmax: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "tools" / "ptoas"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho no libMLIR >&2\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PTOAS_ROOT", str(broken.parent))
    build = build_embedded(softmax, tmp_path / "b")
    assert [f.note for f in build.missing] == ["no usable ptoas here (E661)"]
    assert "no libMLIR" in str(build)
    assert str(tmp_path) not in build.text(MANIFEST)


# --- running and saying so --------------------------------------------------------------------------------------------


def test_a_run_executes_the_text_on_disk(tmp_path: Path, softmax: Program) -> None:
    made = case(KERNELS / SOFTMAX / "kernel.py")
    values = made.make_inputs(0)
    build = build_embedded(softmax, tmp_path / "b")
    right = build.run(values)
    assert torch.allclose(right.outputs["out"], made.expected(values)["out"], rtol=1e-5, atol=1e-6)
    text = build.path / "ptoas" / "soft_rows.pto"
    text.write_text(text.read_text().replace("5.00000000000000000e-01", "2.50000000000000000e-01"))
    assert not torch.allclose(build.run(values).outputs["out"], right.outputs["out"])


def test_the_report_says_what_ran_and_never_that_all_is_well(tmp_path: Path, softmax: Program) -> None:
    values = case(KERNELS / SOFTMAX / "kernel.py").make_inputs(0)
    build = build_embedded(softmax, tmp_path / "b")
    assert {f.state for f in build.files} == {"written", "missing"}
    after = build.after(build.run(values))
    states = {f.name: f.state for f in after.files}
    assert states["ptoas/soft_rows.pto"] == "executed"
    assert states["passes_dump/49_after_MaterializeValidShapeSymbols.py"] == "executed"
    assert states["passes_dump/00_frontend.py"] == "written"
    assert states["orchestration/softmax_rows.cpp"] == "simulated"
    assert states["kernels/aiv/soft_rows.cpp"] == "written"
    text = str(after)
    assert "executed: .pto interpreted by pypto_lab (not ptoas, not device):\n    ptoas/soft_rows.pto" in text
    assert "only written, executed by nobody" in text
    assert "pass" not in text.lower().replace("passes_dump", "")
    assert any(row.startswith("missing: ptoas/soft_rows.cpp") for row in after.summary())


def test_a_build_is_read_back(tmp_path: Path, softmax: Program) -> None:
    build = build_embedded(softmax, tmp_path / "b")
    again = read_build(build.path)
    assert again == build
    assert again.lowered is None
    assert json.loads(json.dumps(build.to_json()))["files"][0] == {
        "name": "passes_dump/00_frontend.py", "role": "dump", "state": "written", "note": "",
    }  # fmt: skip


def test_a_build_of_the_compiler_is_read_by_its_places() -> None:
    build = read_build(DATA / "while_branch")
    assert (build.engine, build.arch) == ("pypto", "a2a3")
    assert {f.role for f in build.files} >= {"pto"}
    assert build.of_role("pto")[0].name.endswith(".pto")


@pytest.mark.parametrize("manifest", ["{", "{}", '{"files": 3}', '{"writer": 1, "program": "", "files": [{}]}'])
def test_a_damaged_folder_is_a_diagnostic(tmp_path: Path, softmax: Program, manifest: str) -> None:
    build = build_embedded(softmax, tmp_path / "b")
    (build.path / MANIFEST).write_text(manifest)
    with pytest.raises(LabError) as found:
        read_build(build.path)
    assert code(found) == "E690"


def test_what_is_no_build_is_a_diagnostic(tmp_path: Path, softmax: Program) -> None:
    with pytest.raises(LabError, match="is not a build folder") as found:
        read_build(tmp_path)
    assert code(found) == "E690"
    with pytest.raises(LabError, match=r"it has ptoas/soft_rows\.pto"):
        build_embedded(softmax, tmp_path / "b").text("ptoas/other.pto")
    with pytest.raises(ValueError, match="no role"):
        BuildFile("x", "nonsense")


# --- how a folder appears ---------------------------------------------------------------------------------------------


def test_a_new_build_replaces_an_old_one_as_a_whole(tmp_path: Path, softmax: Program) -> None:
    build_embedded(program(MIXED), tmp_path / "b")
    build_embedded(softmax, tmp_path / "b")
    assert not (tmp_path / "b" / "ptoas" / "mm_rows.pto").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["b"]


def test_an_empty_folder_and_folders_above_are_no_hindrance(tmp_path: Path, softmax: Program) -> None:
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "x" / "y" / "z"):
        assert (build_embedded(softmax, place).path / MANIFEST).is_file()


def test_a_link_to_a_build_stays_a_link(tmp_path: Path, softmax: Program) -> None:
    build_embedded(softmax, tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    build_embedded(program(MIXED), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "ptoas" / "mm_rows.pto").is_file()


@pytest.mark.parametrize("what", ["file", "folder", "build with notes", "folder of the compiler", "here"])
def test_what_is_not_a_build_of_the_lab_is_left_alone(
    tmp_path: Path, softmax: Program, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "b"
    if what == "file":
        place.write_text("mine")
    elif what == "build with notes":
        build_embedded(softmax, place)
        (place / "notes.txt").write_text("mine")
    elif what == "folder of the compiler":
        build_embedded(softmax, place)
        (place / MANIFEST).unlink()
    else:
        place.mkdir()
        (place / "mine.py").write_text("mine")
    if what == "here":
        monkeypatch.chdir(place)
    before = contents(tmp_path)
    with pytest.raises(LabError) as found:
        build_embedded(softmax, place)
    assert code(found) == "E694"
    assert contents(tmp_path) == before


def test_a_place_that_cannot_be_written_is_a_diagnostic(tmp_path: Path, softmax: Program) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match="cannot be written") as found:
        build_embedded(softmax, tmp_path / "file" / "b")
    assert code(found) == "E691"


@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", ["writing", "moving"])
def test_a_build_that_breaks_off_leaves_the_old_one_whole(
    tmp_path: Path, softmax: Program, monkeypatch: pytest.MonkeyPatch, fault: BaseException, at: str
) -> None:
    build_embedded(softmax, tmp_path / "b")
    before = contents(tmp_path)
    mixed = program(MIXED)
    name = {"writing": "write_text", "moving": "rename"}[at]
    works, calls = getattr(Path, name), []

    def breaks(self: Path, *arguments: object, **keywords: object) -> object:
        calls.append(self)
        if len(calls) == 2:
            raise fault
        return works(self, *arguments, **keywords)

    monkeypatch.setattr(Path, name, breaks)
    with pytest.raises((LabError, KeyboardInterrupt)) as found:
        build_embedded(mixed, tmp_path / "b")
    assert (found.type is KeyboardInterrupt) == isinstance(fault, KeyboardInterrupt)
    if isinstance(found.value, LabError):
        assert "No space left on device" in str(found.value)
    assert contents(tmp_path) == before


def test_every_code_of_builds_is_explained_and_raised() -> None:
    room = Path(build_codes.__file__).parent
    text = "".join((room / f"{name}.py").read_text() for name in ("build", "embedded", "folder", "installed"))
    names = {name: value for name, value in vars(build_codes).items() if isinstance(value, str) and name.isupper()}
    assert set(names.values()) == set(build_codes.CODES)
    assert [name for name in names if f"Diagnostic({name}," not in text] == []


# --- the installed compiler -------------------------------------------------------------------------------------------

COMPILER = {
    "pypto/__init__.py": "",
    "pypto/language/__init__.py": "def loads(path):\n    return open(path).read()\n",
    "pypto/backend/__init__.py": "class BackendType:\n    Ascend910B = 'Ascend910B'\n    Ascend950 = 'Ascend950'\n",
    "pypto/ir/__init__.py": """
        import shutil
        from pathlib import Path

        class Compiled:
            def __init__(self, folder):
                self.output_dir = folder

        def compile(program, output_dir, dump_passes, backend_type, **options):
            if MODE == "stop":
                raise RuntimeError("tile too large")
            print("compiling", sorted(options))
            assert program == (Path(MADE[backend_type]) / "passes_dump" / "00_frontend.py").read_text()
            shutil.copytree(MADE[backend_type], output_dir)
            (Path(output_dir) / "debug").mkdir()
            (Path(output_dir) / "debug" / "run.py").write_text(repr(sorted(options)))
            return Compiled(output_dir)
    """,
}


def compiler(folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str = "work", **made: Build) -> None:
    """A compiler that copies what the embedded one made, without its manifest."""
    for build in made.values():
        (build.path / MANIFEST).unlink()
    folders = {backend: str(build.path) for backend, build in made.items()}
    for name, text in COMPILER.items():
        path = folder / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).replace("MODE", repr(mode)).replace("MADE", repr(folders)))
    monkeypatch.setenv("PYTHONPATH", str(folder / "site"))


@pytest.mark.parametrize("arch", ["a2a3", "a5"])
def test_the_installed_compiler_is_given_the_program_and_its_folder_is_kept(
    tmp_path: Path, softmax: Program, monkeypatch: pytest.MonkeyPatch, arch: str
) -> None:
    backend = {"a2a3": "Ascend910B", "a5": "Ascend950"}[arch]
    compiler(tmp_path, monkeypatch, **{backend: build_embedded(softmax, tmp_path / "made", arch)})
    build = build_installed(softmax, tmp_path / "b", arch)
    assert (build.engine, build.arch, build.lowered) == ("pypto", arch, None)
    assert build.text("debug/run.py") == "['skip_ptoas']"
    assert read(build.path / "ptoas" / "soft_rows.pto").arch == arch
    values = case(KERNELS / SOFTMAX / "kernel.py").make_inputs(0)
    after = build.after(build.run(values))
    assert [f.name for f in after.files if f.role == "pto" and f.state == "executed"] == ["ptoas/soft_rows.pto"]
    assert read_build(build.path) == build
    build_installed(softmax, tmp_path / "b", arch)


def test_without_the_compiler_the_way_out_is_named(
    tmp_path: Path, softmax: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with pytest.raises(LabError) as found:
        build_installed(softmax, tmp_path / "b")
    assert code(found) == "E692"
    hint = found.value.diagnostics[0].hint or ""
    assert "hw-native-sys/pypto" in hint
    assert "another product" in hint
    assert "--engine embedded" in hint
    assert not (tmp_path / "b").exists()


def test_another_product_of_the_same_name_is_not_the_compiler(
    tmp_path: Path, softmax: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "site" / "pypto" / "__init__.py"
    other.parent.mkdir(parents=True)
    other.write_text("crypto = True\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    with pytest.raises(LabError, match="is not the compiler") as found:
        build_installed(softmax, tmp_path / "b")
    assert code(found) == "E692"


def test_a_compiler_that_stops_is_quoted(tmp_path: Path, softmax: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(tmp_path, monkeypatch, "stop")
    with pytest.raises(LabError, match="tile too large") as found:
        build_installed(softmax, tmp_path / "b")
    assert code(found) == "E693"
    assert not (tmp_path / "b").exists()


def test_a_build_is_a_value(tmp_path: Path, softmax: Program) -> None:
    build = build_embedded(softmax, tmp_path / "b")
    assert isinstance(build, Build)
    with pytest.raises(AttributeError):
        build.arch = "a5"  # type: ignore[misc]
