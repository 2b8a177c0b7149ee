"""The check of build folders: a whole one has no findings, each fault put into it is named, and the compiler's own
faults are found where a look at the files can show them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError, Severity
from pypto_lab.pto.config import kernel_config, kernels, orchestration_function
from pypto_lab.pto.decode import decode
from pypto_lab.pto.emit import emit, emit_to
from pypto_lab.pto.inspection import check_build, read_build_folder
from pypto_lab.pto.inspection.__main__ import main
from pypto_lab.pto.inspection.config_file import read_config
from pypto_lab.pto.inspection.entries import entry_findings
from pypto_lab.pto.inspection.lost import lost_carries, unread_tiles
from pypto_lab.pto.meta import meta
from pypto_lab.pto.orchestration import orchestration
from pypto_lab.pto.parse import parse
from pypto_lab.pto.wrapper import kernel_entry
from tests.pto.texts import DATA, Text, tile

DUMPS = DATA.parent / "dumps"
ENTRIES = sorted((DATA.parent / "kernel_entry").rglob("*.txt"))
HEADERS = '#include <cstdint>\n#include <pto/pto-inst.hpp>\n#include "tensor.h"\n'


def dump_of(kernel: str) -> Path:
    return DUMPS / kernel / "passes_explicit" / "49_after_MaterializeValidShapeSymbols.py"


def write_build(folder: Path, kernel: str, arch: str = "a2a3") -> Path:
    """A build folder as the compiler lays it out, made of the lab's own texts."""
    program = read_dump(dump_of(kernel).read_text(encoding="utf-8"))
    emit_to(program, folder, arch)
    for path in list(folder.rglob("*.pto")):
        (folder / "ptoas").mkdir(exist_ok=True)
        path.rename(folder / "ptoas" / path.name)
        (folder / "ptoas" / f"{path.stem}.cpp").write_text(HEADERS, encoding="utf-8")
    start = orchestration_function(program)
    for item in kernels(program, start):
        target = folder / item.source
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(HEADERS + kernel_entry(program.functions[item.name], program), encoding="utf-8")
    (folder / "orchestration").mkdir()
    text = orchestration(program, arch)
    (folder / "orchestration" / f"{start.name}.cpp").write_text(text, encoding="utf-8")
    (folder / "kernel_config.py").write_text(kernel_config(program), encoding="utf-8")
    (folder / "compiled_meta.json").write_text(json.dumps(meta(program, arch), indent=2), encoding="utf-8")
    (folder / "passes_dump").mkdir()
    shutil.copy(dump_of(kernel), folder / "passes_dump")
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_build(tmp_path_factory.mktemp("whole") / "build", "k30_pipe_two_groups")


@pytest.fixture
def build(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "build"))


def codes(found: list[Diagnostic]) -> list[str]:
    return [d.code for d in found]


# --- whole folders ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kernel",
    ["k30_pipe_two_groups", "k28_two_stage_program", "k29_spmd_blocks", "k21_dyn_tail_fillpad", "k34_paged_attend"],
)
def test_a_whole_folder_has_no_findings(kernel: str, tmp_path: Path) -> None:
    folder = write_build(tmp_path / "build", kernel)
    assert [f"{d.code} {d.message}" for d in check_build(folder)] == []
    read = read_build_folder(folder)
    assert read.missing == ()
    assert set(read.units) == set(read.assembled)
    assert len(read.dumps) == 1


def test_what_is_missing_is_named(build: Path) -> None:
    for name in ("passes_dump", "orchestration", "kernels"):
        shutil.rmtree(build / name)
    (build / "compiled_meta.json").unlink()
    (build / "kernel_config.py").unlink()
    for cpp in (build / "ptoas").glob("*.cpp"):
        cpp.unlink()
    found = check_build(build)
    assert codes(found) == ["W673"] * 6
    words = "\n".join(d.message for d in found)
    for part in ("passes_dump/", "orchestration/", "ptoas/*.cpp", "kernels/*.cpp", "kernel_config.py", "compiled_meta"):
        assert part in words
    with pytest.raises(LabError) as caught:
        check_build(build / "ptoas" / "nothing")
    assert caught.value.diagnostics[0].code == "E690"


def test_a_dump_beside_the_folder_can_be_named(build: Path) -> None:
    shutil.rmtree(build / "passes_dump")
    assert codes(check_build(build)) == ["W673"]
    assert check_build(build, dump=dump_of("k30_pipe_two_groups")) == []
    assert "E677" in codes(check_build(build, dump=dump_of("k28_two_stage_program")))


# --- faults -----------------------------------------------------------------------------------------------------------


def changed(build: Path, name: str, old: str, new: str) -> list[Diagnostic]:
    path = build / name
    text = path.read_text(encoding="utf-8")
    assert old in text, text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return [d for d in check_build(build) if d.severity is Severity.ERROR]


FAULTS = [
    ("kernel_config.py", '"tensormap_and_ringbuffer"', '"tensormap"', "E655", "no runtime is called 'tensormap'"),
    ("kernel_config.py", '"func_id": 3', '"func_id": 2', "E679", "the same number 2"),
    ("kernel_config.py", '"func_id": 3', '"func_id": 7', "E679", "numbered from 0 without gaps, not 0, 1, 2, 7"),
    ("kernel_config.py", '"core_type": "aic"', '"core_type": "aix"', "E679", "no core is called 'aix'"),
    ("kernel_config.py", "_D.IN", "_D.INN", "E679", "'INN' is no direction"),
    ("kernel_config.py", '"func_id": 0', '"func_id": open("made", "w")', "E679", "read, never executed"),
    ("kernel_config.py", "aicpu_orchestration_entry", "start", "E679", "not 'start'"),
    ("kernel_config.py", '"feed_aic.cpp"', '"feed_aix.cpp"', "E674", "kernels/aic/feed_aix.cpp"),
    ("kernel_config.py", "ORCHESTRATION = {", "ORCHESTRATION_ = {", "E679", "no ORCHESTRATION"),
    ("kernel_config.py", "KERNELS = [", "KERNELS = [(", "E673", "cut off"),
    ("orchestration/drive.cpp", "= {0, 1, 1}", "= {0, 2, 2}", "E676", "`drain_aic` to the aiv core"),
    ("orchestration/drive.cpp", "= {0, 1, 1}", "= {0, 9, 9}", "E676", "kernel 9, which kernel_config.py has not"),
    ("orchestration/drive.cpp", "params_t0.add_input(ext_b);", "", "E676", "gives `feed_aic` 3 tensors"),
    ("orchestration/drive.cpp", "expected_arg_count = 4", "expected_arg_count = 3", "E676", "3 arguments and reads 4"),
    ("orchestration/drive.cpp", '}  // extern "C"', "", "E673", "not whole"),
    ("kernels/aiv/feed_aiv.cpp", "args[1]", "args[2]", "E675", "[0, 2, 2, 3]"),
    ("kernels/aiv/feed_aiv.cpp", "feed_aiv(a__ssa_v0, b__ssa_v0", "feed_aiv(a__ssa_v0", "E675", "hands on 4 arguments"),
    (
        "kernels/aiv/feed_aiv.cpp",
        "feed_aiv(a__ssa_v0, b__ssa_v0, prod__ssa_v0",
        "feed_aiv(a__ssa_v0, prod__ssa_v0, b__ssa_v0",
        "E675",
        "argument 1 has the type !pto.ptr<f16>, and `prod__ssa_v0` is a tensor of float",
    ),
    (
        "kernels/aiv/feed_aiv.cpp", "__gm_pipe_buffer, __pypto_spmd_subblock_idx)", "__gm_pipe_buffer, lost)", "E675",
        "`lost`, which nothing declares",
    ),
    ("kernels/aiv/feed_aiv.cpp", "void kernel_entry", "void entry", "E673", "no whole `kernel_entry`"),
    ("compiled_meta.json", '"fp16"', '"fp32"', "E677", "dtype is 'fp32', the last dump says 'fp16'"),
    ("compiled_meta.json", '"Out"', '"In"', "E677", "direction is 'In'"),
    ("compiled_meta.json", "Ascend910B", "Ascend111", "E677", "no backend is called 'Ascend111'"),
    ("compiled_meta.json", '"num_return_types": ', '"num_return_types": 1', "E677", "results"),
    ("compiled_meta.json", '"params"', '"parameters"', "E677", "no list of parameters"),
    ("compiled_meta.json", "}", "", "E673", "no JSON"),
    ("ptoas/feed.pto", "pto.tload ins(", "pto.tlaod ins(", "E602", "tlaod"),
    ("ptoas/feed.pto", "  }\n}", "", "E601", ""),
    ("ptoas/feed.cpp", "#include <cstdint>", "void f() {", "E673", "brackets are left open"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "old", "new", "code", "words"), FAULTS, ids=[f"{f[0]}-{i}" for i, f in enumerate(FAULTS)]
)
def test_a_fault_is_named_with_its_file(name: str, old: str, new: str, code: str, words: str, build: Path) -> None:
    found = [d for d in changed(build, name, old, new) if d.code == code]
    assert found, code
    assert any(words in d.message for d in found), [d.message for d in found]
    assert all(d.span is not None and Path(d.span.file).name == Path(name).name for d in found)
    assert not Path("made").exists()


def test_a_parameter_too_many_in_meta(build: Path) -> None:
    path = build / "compiled_meta.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["params"].append(content["params"][0])
    path.write_text(json.dumps(content), encoding="utf-8")
    found = [d.message for d in check_build(build)]
    assert any("5 parameters" in m and "the orchestration takes 4" in m for m in found)
    assert any("5 parameters" in m and "the last dump has 4" in m for m in found)


def test_a_configuration_without_sources_of_kernels_is_a_warning(build: Path) -> None:
    shutil.rmtree(build / "kernels")
    found = check_build(build)
    assert all(d.severity is Severity.WARNING for d in found)
    assert any("names 4 of 5 files that are not here" in d.message for d in found)


def test_a_configuration_is_read_and_not_executed(build: Path) -> None:
    path = build / "kernel_config.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(text + "\nraise SystemExit(3)\n", encoding="utf-8")
    config = read_config(path)
    assert config.runtime == "tensormap_and_ringbuffer"
    assert [(k.func_id, k.name, k.core) for k in config.kernels] == [
        (0, "feed_aic", "aic"), (1, "feed_aiv", "aiv"), (2, "drain_aic", "aic"), (3, "drain_aiv", "aiv"),
    ]  # fmt: skip
    assert config.kernels[0].source == build / "kernels" / "aic" / "feed_aic.cpp"
    assert config.kernels[0].signature == ("IN", "IN", "OUT", "OUT")
    assert config.findings == ()


def test_missing_flags_in_the_assemblers_text_are_found(build: Path) -> None:
    racing = (
        "void f(__gm__ float* v1) {\n  Tile<TileType::Vec, float, 16, 64, BLayout::RowMajor, 16, 64> v2;\n"
        "  TASSIGN(v2, 0);\n  GlobalTensor<float> v3(v1);\n  TLOAD(v2, v3);\n  TADD(v2, v2, v2);\n}\n"
    )
    (build / "ptoas" / "feed.cpp").write_text(racing, encoding="utf-8")
    assert "E670" in codes(check_build(build))


# --- entries of the compiler ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ENTRIES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_the_compilers_own_entries_fit_the_texts(path: Path) -> None:
    program = read_dump(dump_of(path.parent.name).read_text(encoding="utf-8"))
    functions = {name: f for text in emit(program).values() for name, f in decode(parse(text)).items()}
    text = path.read_text(encoding="utf-8")
    assert list(entry_findings("entry", text, path.stem, functions[path.stem])) == []
    call = re.search(rf"\b{path.stem}\((.+)\);", text)
    assert call is not None
    fewer = text.replace(call[1], ", ".join(call[1].split(", ")[:-1]))
    assert [d.code for d in entry_findings("entry", fewer, path.stem, functions[path.stem])] == ["E675"]


# --- results that are lost --------------------------------------------------------------------------------------------


def test_the_lost_carry_of_the_compilers_while_loop_is_named_from_the_dump_and_from_the_text() -> None:
    found = check_build(DATA / "while_branch")
    lost = [d for d in found if d.code == "E678"]
    unread = [d for d in found if d.code == "W678"]
    assert len(lost) == len(unread) == 1
    assert "`acc_i` at vec 3072" in lost[0].message
    assert "vec 4096" in lost[0].message
    assert "%acc_n__ssa_v0" in unread[0].message
    assert "kernel.py:32:48" in (unread[0].hint or "")


def test_boxed_tiles_for_row_by_row_ops_are_named(tmp_path: Path) -> None:
    text = Text("f32", "f32")
    boxed, column = tile(32, 64, order="nz"), tile(32, 1, order="dn")
    text.alloc("a", boxed, 0)
    text.alloc("f", column, 16384)
    text.load("a", 0, (32, 64))
    text.load("f", 1, (32, 1))
    text.op("trowexpandmul", ["a", "f"], ["a"])
    text.store("a", 0, (32, 64))
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "f.pto").write_text(text.text(), encoding="utf-8")
    found = [d for d in check_build(tmp_path) if d.code == "E607"]
    assert found
    assert "NZ" in found[0].message


def test_a_carried_tile_that_stays_in_place_is_fine() -> None:
    for kernel in ("k22_carried_loops", "k23_pipeline_stage2", "k12_rope_heads"):
        program = read_dump(dump_of(kernel).read_text(encoding="utf-8"))
        for text in emit(program).values():
            for function in decode(parse(text)).values():
                assert list(unread_tiles(function)) == []


def unread(*ops: tuple[str, list[str], list[str]]) -> list[str]:
    """The tiles written for nothing: tiles a, b lie apart, c where a lies; a and b are loaded first, b is stored."""
    text = Text("f32", "f32")
    for name, address in (("a", 0), ("b", 4096), ("c", 0)):
        text.alloc(name, tile(16, 64), address)
    text.load("a", 0, (16, 64))
    text.load("b", 0, (16, 64))
    for name, ins, outs in ops:
        text.op(name, ins, outs)
    text.store("b", 1, (16, 64))
    (function,) = decode(parse(text.text())).values()
    return [
        d.message.split(" writes ")[0].split()[-1] + d.message.split(" writes ")[1].split(",")[0]
        for d in unread_tiles(function)
    ]


def test_a_tile_that_nothing_reads_is_found_by_its_bytes_and_not_by_its_name() -> None:
    assert unread(("tadd", ["a", "b"], ["b"])) == []
    assert unread(("tadd", ["c", "b"], ["b"])) == [], "c is a by its bytes"
    assert unread() == ["pto.tload%a"]
    assert unread(("texp", ["b"], ["c"]), ("tadd", ["c", "b"], ["b"])) == ["pto.tload%a"], "c is written over a"
    assert unread(("tadd", ["a", "b"], ["b"]), ("texp", ["b"], ["c"])) == ["pto.texp%c"]
    assert unread(("tadd", ["a", "a"], ["b"])) == ["pto.tload%b"]


def test_a_tile_read_by_the_next_trip_is_read() -> None:
    def text_of(*lines: str) -> str:
        text = Text("f32", "f32")
        for name, address in (("a", 0), ("b", 4096)):
            text.alloc(name, tile(16, 64), address)
        text.load("a", 0, (16, 64))
        zero, four, one = (text.c(v) for v in (0, 4, 1))
        text.raw(f"scf.for %i = %{zero} to %{four} step %{one} {{")
        for name, ins, outs in (line.split() for line in lines):
            text.op(name, ins.split(","), [outs])
        text.raw("}")
        text.store("b", 1, (16, 64))
        return text.text()

    def found(*lines: str) -> int:
        (function,) = decode(parse(text_of(*lines))).values()
        return len(list(unread_tiles(function)))

    assert found("texp a b", "tadd a,b a") == 0
    assert found("texp a b", "texp b a") == 0, "the next trip reads a"
    assert found("texp a b", "texp b b") == 0


def test_the_command_counts_over_folders(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(whole)]) == 0
    assert "1 build folders, 0 with errors: no findings" in capsys.readouterr().out
    assert main([str(DATA / "while_branch"), "--quiet"]) == 1
    assert "E678 1" in capsys.readouterr().out
    assert main([str(whole / "kernels")]) == 2


def test_programs_without_kernels_have_no_loops_to_lose() -> None:
    empty = n.Program(name="p", functions={})
    assert list(lost_carries(empty)) == []
