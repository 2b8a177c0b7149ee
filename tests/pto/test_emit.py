"""Emission of whole programs: the compiler's last dumps as `.pto` text that reads back, is valid, and computes the
golden; the same ops as the compiler's own text where the repository holds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_lab.compat.cases import case
from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.lowering import lower
from pypto_lab.pto.dialect.verify import verify
from pypto_lab.pto.emit import emit, emit_to
from pypto_lab.pto.emit.__main__ import main
from pypto_lab.pto.emit.compare import compare
from pypto_lab.pto.machine import run_build
from pypto_lab.pto.parse import parse, read
from pypto_lab.pto.printing import print_unit
from tests.pto.texts import DATA, KERNELS

DUMPS = sorted((DATA.parent / "dumps").glob("*/passes_explicit*/49_*.py"))
REFUSED = "k33_flash_mini"
GIVEN = {
    "trip": "k32_pipe_bidir_dual", "clear": "k14_splitk_atomic", "elements": "k25_window_update",
    "ramp": "k26_gather_scatter", "mm_cols": "k18_bias_leftright", "spmd_blocks_incore_1": "k29_spmd_blocks",
    "rank_scores": "k27_topk_argmax",
}  # fmt: skip
"""The compiler's own texts in the repository, by unit, with the kernel they are of."""


def arch_of(dump: Path) -> str:
    return "a5" if dump.parent.name.endswith("_a5") else "a2a3"


def program_of(dump: Path) -> n.Program:
    return read_dump(dump.read_text(encoding="utf-8"), dump.name)


def computes_the_golden(program: n.Program, kernel: str, arch: str, folder: Path) -> bool:
    made = case(KERNELS / kernel / "kernel.py")
    values = made.make_inputs(0)
    expected = made.expected(values)
    emit_to(program, folder, arch)
    result = run_build(folder, values, program=program)
    outputs = {name.partition("__ssa_v")[0]: value for name, value in result.outputs.items()}
    assert result.ok, [str(f) for f in result.findings]
    assert expected
    return all(made.compare(name, outputs, expected, values).ok for name in expected)


@pytest.mark.parametrize("dump", [d for d in DUMPS if REFUSED not in str(d)], ids=lambda d: d.parent.parent.name)
def test_a_last_dump_becomes_text_that_is_valid_and_computes_the_golden(dump: Path, tmp_path: Path) -> None:
    arch = arch_of(dump)
    program = program_of(dump)
    for name, text in emit(program, arch).items():
        unit = parse(text, f"{name}.pto")
        assert unit.arch == arch
        assert not verify(unit)
        assert print_unit(unit) == text
    assert computes_the_golden(program, dump.parent.parent.name, arch, tmp_path)


@pytest.mark.parametrize("unit", [u for u, k in GIVEN.items() if any(d.parent.parent.name == k for d in DUMPS)])
def test_the_compilers_own_text_has_the_same_signature_pipes_and_ops(unit: str) -> None:
    dump = next(d for d in DUMPS if d.parent.parent.name == GIVEN[unit])
    ours = parse(emit(program_of(dump))[unit])
    compared = compare(ours, read(next(DATA.rglob(f"{unit}.pto"))))
    assert compared.same, "\n".join(map(str, compared.differences))
    assert compared.same_order
    assert compared.ops > 0


def test_a_comparison_sees_one_changed_constant_and_one_changed_parameter() -> None:
    text = (DATA / "rank_scores.pto").read_text(encoding="utf-8")
    theirs = parse(text)
    assert compare(parse(text), theirs).same
    changed = text.replace("%c64_i32 = arith.constant 64 : i32", "%c64_i32 = arith.constant 32 : i32")
    assert changed != text
    assert [d.op for d in compare(parse(changed), theirs).differences] == ["pto.tmrgsort", "pto.tmrgsort"]
    longer = text.replace("(%arg0: !pto.ptr<f32>", "(%extra: !pto.ptr<f32>, %arg0: !pto.ptr<f32>")
    assert longer != text
    assert not compare(parse(longer), theirs).signatures


def test_a_tile_that_a_loop_yields_elsewhere_is_brought_back_to_where_it_is_carried(tmp_path: Path) -> None:
    """The compiler's own text loses the carry of this loop; what is emitted from the same dump computes the golden."""
    dump = next((DATA / "while_branch" / "passes_dump").glob("49_*.py"))
    program = program_of(dump)
    compared = compare(parse(emit(program)["branchy"]), read(next(DATA.rglob("branchy.pto"))))
    assert [(d.op, d.ours, d.theirs) for d in compared.differences] == [("pto.tmov", 2, 1)]
    assert computes_the_golden(program, "k24_while_branch", "a2a3", tmp_path)


def test_an_op_that_is_fed_a_tile_of_another_order_is_refused_with_its_line() -> None:
    dump = next(d for d in DUMPS if REFUSED in str(d))
    with pytest.raises(LabError) as error:
        emit(program_of(dump), arch_of(dump))
    found = error.value.diagnostics[0]
    assert found.code == "E611"
    assert found.span is not None
    line = dump.read_text(encoding="utf-8").splitlines()[found.span.line - 1]
    assert found.message.startswith("tile.row_expand_mul")
    assert "tile.row_expand_mul(" in line
    assert f"(line {found.span.line})" in found.message


@pytest.mark.parametrize(
    ("kernel", "arch"),
    [
        ("k09_softmax_rows", "a5"),
        ("k17_bias_updown", "a2a3"),
        ("k33_flash_mini", "a2a3"),
        ("k21_dyn_tail_fillpad", "a2a3"),
    ],
)
def test_what_the_lab_lowers_itself_is_emitted_and_computes_the_golden(kernel: str, arch: str, tmp_path: Path) -> None:
    made = case(KERNELS / kernel / "kernel.py")
    program = lower(made.program(made.make_inputs(0)), arch).program
    assert computes_the_golden(program, kernel, arch, tmp_path)


def test_the_text_does_not_depend_on_where_the_kernel_lies_nor_on_the_run(tmp_path: Path) -> None:
    """The same bytes every time; locations name the kernel's line."""
    made = []
    for folder in ("here", "elsewhere"):
        copy = tmp_path / folder / "kernel.py"
        copy.parent.mkdir()
        copy.write_text((KERNELS / "k17_bias_updown" / "kernel.py").read_text(encoding="utf-8"), encoding="utf-8")
        own = case(copy)
        made.append(emit(lower(own.program(own.make_inputs(0)), "a2a3").program)["mm_rows"])
    assert made[0] == made[1]
    lines = (KERNELS / "k17_bias_updown" / "kernel.py").read_text(encoding="utf-8").splitlines()
    matmul = next(line for line in made[0].splitlines() if "pto.tmatmul " in line)
    place = matmul.partition(' loc("kernel.py":')[2].partition(":")[0]
    assert "matmul" in lines[int(place) - 1]


def test_what_is_checked_names_the_line_of_the_kernel() -> None:
    own = case(KERNELS / "k09_softmax_rows" / "kernel.py")
    text = emit(lower(own.program(own.make_inputs(0)), "a2a3").program)["soft_rows"]
    line = next(line for line in text.splitlines() if "pto.alloc_tile" in line)
    wrong = line.replace(line.split("addr = ")[1].split()[0], "%odd", 1)
    changed = text.replace(line, f"%odd = arith.constant 4 : i64\n{wrong}")
    found = verify(parse(changed, "soft_rows.pto"))
    assert {d.code for d in found} == {"E606"}
    assert found[0].note == f"from {line.partition(' loc(')[2].rstrip(')').replace(chr(34), '')}"


# --- names, places, files ---------------------------------------------------------------------------------------------


def test_locations_lead_back_to_the_line_of_the_ir() -> None:
    dump = next(d for d in DUMPS if d.parent.parent.name == "k34_paged_attend")
    lines = dump.read_text(encoding="utf-8").splitlines()
    seen = 0
    for text in emit(program_of(dump)).values():
        for line in text.splitlines():
            op, _, place = line.partition(" loc(")
            for word, ir in (
                ("pto.tload", "tile.load("),
                ("pto.tstore", "tile.store("),
                ("pto.tmatmul ", "tile.matmul("),
            ):
                if word in op:
                    name, number, _ = place.rstrip(")").split(":")
                    assert name == f'"{dump.name}"'
                    assert ir in lines[int(number) - 1]
                    seen += 1
    assert seen > 10


def test_parameters_stand_in_the_fixed_order() -> None:
    """Tensors, scalars, dynamic dimensions, then what SPMD ops read."""
    text = """# pypto.program: P
import pypto.language as pl

M = pl.dynamic("M")

@pl.program
class P:
    @pl.function(type=pl.FunctionType.AIV)
    def f(k: pl.Scalar[pl.INT32], x: pl.Tensor[[M, 32], pl.FP32], s: pl.Scalar[pl.INDEX], \
o: pl.Out[pl.Tensor[[M, 32], pl.FP32]]) -> pl.Tensor[[M, 32], pl.FP32]:
        mem: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 1024)
        b: pl.Scalar[pl.INDEX] = pl.tile.get_block_idx()
        lane: pl.Scalar[pl.INDEX] = pl.tile.get_subblock_idx()
        t: pl.Tile[[8, 32], pl.FP32, pl.MemRef(mem, pl.const(0, pl.INT64), 1024), pl.Mem.Vec] = \
pl.tile.load(x, [b * 8 + lane, s], [8, 32], [8, 32], target_memory=pl.Mem.Vec)
        r: pl.Tensor[[M, 32], pl.FP32] = pl.tile.store(t, [b * 8, 0], o)
        return o
"""
    made = emit(read_dump(text))["f"]
    assert (
        "func.func @f(%arg0: !pto.ptr<f32>, %arg1: !pto.ptr<f32>, %arg2: i32, %arg3: index, %arg4: index, "
        "%__pypto_spmd_block_idx: i32, %__pypto_spmd_block_num: i32, %__pypto_spmd_subblock_idx: i32)" in made
    )
    assert "#pto.kernel_kind<vector>" in made
    assert (
        "%x_view = pto.make_tensor_view %arg0, shape = [%arg4, %c32_index], strides = [%c32_index, %c1_index]" in made
    )


def test_files_stand_where_the_compiler_puts_them(tmp_path: Path) -> None:
    paths = emit_to(program_of(next(d for d in DUMPS if d.parent.parent.name == "k34_paged_attend")), tmp_path)
    places = sorted(p.relative_to(tmp_path).as_posix() for p in paths)
    assert places == [
        "kernels/aic/mix.pto", "kernels/aic/score.pto", "kernels/aiv/divide.pto", "kernels/aiv/soften.pto",
    ]  # fmt: skip
    pipes = next(d for d in DUMPS if d.parent.parent.name == "k30_pipe_two_groups")
    group = emit_to(program_of(pipes), tmp_path / "group")
    assert [p.relative_to(tmp_path).as_posix() for p in group] == ["group/kernels/drain.pto", "group/kernels/feed.pto"]
    assert list(read(group[1]).functions) == ["feed_aic", "feed_aiv"]


def test_nothing_is_written_when_a_unit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError):
        emit_to(program_of(next(d for d in DUMPS if REFUSED in str(d))), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_program_that_is_not_lowered_is_refused() -> None:
    dump = next(d for d in DUMPS if d.parent.parent.name == "k34_paged_attend")
    early = dump.with_name("11_after_ConvertTensorToTileOps.py")
    with pytest.raises(LabError) as error:
        emit(program_of(early))
    assert error.value.diagnostics[0].code in ("E610", "E612")
    with pytest.raises(LabError) as error:
        emit(program_of(dump), "a9")
    assert error.value.diagnostics[0].code == "E612"


def test_the_command_reports_each_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    folder = tmp_path / "k24_while_branch"
    (folder / "passes_explicit").mkdir(parents=True)
    for source, target in (
        (KERNELS / "k24_while_branch" / "kernel.py", folder / "kernel.py"),
        (next(DATA.rglob("49_*.py")), folder / "passes_explicit" / "49_after_MaterializeValidShapeSymbols.py"),
        (next(DATA.rglob("stepper.pto")), folder / "artifacts" / "kernels" / "aiv" / "stepper.pto"),
        (next(DATA.rglob("branchy.pto")), folder / "artifacts" / "kernels" / "aiv" / "branchy.pto"),
    ):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    capsys.readouterr()
    assert main([str(tmp_path), "--full"]) == 0
    text = capsys.readouterr().out
    assert "k24_while_branch/a2a3 from dump: 2 units" in text
    assert "signatures same, pipes same, 1 kinds of ops differ" in text
    assert "branchy: branchy: pto.tmov x2 here, x1 there" in text
    assert "runs: 1 of 1 compute the golden" in text
