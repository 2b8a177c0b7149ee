"""The CPU simulation driver with a toolchain of our own: small headers in the place of PTO-ISA's, the machine's
compiler whatever its age, and compilers that are scripts."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

import pypto_lab as lab
from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir import dtypes as d
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import Direction, FunctionType
from pypto_lab.ir.types import ScalarType, TensorType
from pypto_lab.pto.simulation import (
    Limits,
    Simulated,
    Toolchain,
    find_compiler,
    find_isa,
    find_toolchain,
    probe,
    simulate,
)
from pypto_lab.pto.simulation.toolchain import Compiler, probe_compiler

ANY_AGE = {"clang": 1, "gcc": 1}
HAS_COMPILER = any(shutil.which(name) for name in ("g++", "clang++"))
needs_compiler = pytest.mark.skipif(not HAS_COMPILER, reason="no C++ compiler on this machine")

BFLOAT16 = """\
struct bfloat16_t {
    uint16_t bits;
    bfloat16_t() = default;
    bfloat16_t(float value) {
        uint32_t all;
        memcpy(&all, &value, 4);
        bits = static_cast<uint16_t>((all + 0x7fffu + ((all >> 16) & 1u)) >> 16);
    }
    operator float() const {
        const uint32_t all = static_cast<uint32_t>(bits) << 16;
        float value;
        memcpy(&value, &all, 4);
        return value;
    }
};
"""
HEADER = """\
#pragma once
#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#if !defined(__CPU_SIM)
#error "this is no device"
#endif
#if defined(__DAV_VEC__) == defined(__DAV_CUBE__)
#error "a kernel is built for one core"
#endif
#define AICORE
typedef _Float16 half;
@BFLOAT16@
namespace pto {}
"""


def isa_root(folder: Path, bfloat16: str = BFLOAT16) -> Path:
    """Headers of our own, enough for kernels that are plain loops."""
    header = folder / "include" / "pto" / "pto-inst.hpp"
    header.parent.mkdir(parents=True)
    header.write_text(HEADER.replace("@BFLOAT16@", bfloat16), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> Toolchain:
    if not HAS_COMPILER:
        pytest.skip("no C++ compiler on this machine")
    return found_toolchain(isa_root(tmp_path_factory.mktemp("isa")))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where compiled kernels are kept for the tests that run one kernel several times."""
    return tmp_path_factory.mktemp("kept")


def found_toolchain(root: Path) -> Toolchain:
    return find_toolchain({"PTO_ISA_ROOT": str(root), "PATH": os.environ["PATH"]}, oldest=ANY_AGE)


def tensor(name: str, *shape: int | n.Expr, dtype: DType = d.FP32, direction: Direction = Direction.In) -> n.Param:
    dims = tuple(n.const(x) if isinstance(x, int) else x for x in shape)
    return n.Param(var=n.Var(name=name, type=TensorType(dims, dtype)), direction=direction)


def scalar(name: str, dtype: DType = d.FP32) -> n.Param:
    return n.Param(var=n.Var(name=name, type=ScalarType(dtype)))


def kernel(*params: n.Param, body: n.Body = (), attrs: Mapping[str, object] | None = None) -> n.Function:
    return n.Function(
        name="f", params=params, return_types=(), body=body, func_type=FunctionType.AIV, attrs=dict(attrs or {})
    )


def reads(*ops: str) -> n.Body:
    return tuple(n.Eval(expr=n.OpCall(op=op, args=(), type=n.INDEX)) for op in ops)


def assembled(parameters: str, body: str) -> str:
    """A text as an assembler writes it, around a body of our own."""
    return f'#include "pto/pto-inst.hpp"\nusing namespace pto;\n__global__ AICORE void f({parameters}) {{\n{body}\n}}\n'


def error_of(caught: pytest.ExceptionInfo[LabError]) -> tuple[str, str]:
    return caught.value.diagnostics[0].code, caught.value.diagnostics[0].message


# --- runs -------------------------------------------------------------------------------------------------------------

M = n.Var(name="M", type=n.INDEX)
ADD = kernel(scalar("s"), tensor("a", M, 4), scalar("k", d.INT32), tensor("b", M, 4), tensor("y", M, 4))
ADD_TEXT = assembled(
    "__gm__ float* a, __gm__ float* b, __gm__ float* y, float s, int32_t k, int64_t m",
    "  for (int64_t i = 0; i < m * 4; ++i) y[i] = a[i] + s * b[i] + k;",
)


def add_values(rows: int = 6, k: int = -2) -> list[object]:
    generator = torch.Generator().manual_seed(rows)
    a, b = torch.randn(rows, 4, generator=generator), torch.randn(rows, 4, generator=generator)
    return [0.25, a, k, b, torch.zeros(rows, 4)]


@needs_compiler
def test_a_kernel_computes_what_it_was_given(toolchain: Toolchain) -> None:
    values = add_values()
    done = simulate(ADD, ADD_TEXT, values, toolchain=toolchain)
    _, a, _, b, y = values
    assert isinstance(a, torch.Tensor)
    assert isinstance(b, torch.Tensor)
    assert isinstance(y, torch.Tensor)
    assert lab.compare(a + 0.25 * b - 2, done.outputs["y"]).ok
    assert torch.equal(done.outputs["a"], a)
    assert torch.equal(y, torch.zeros(6, 4)), "what the caller handed over stays as it was"
    lines = "\n".join(done.lines())
    assert "PTO-ISA CPU simulation" in lines
    assert str(toolchain.compiler.version) in lines
    assert "-D__DAV_VEC__" in done.command


@needs_compiler
def test_values_by_name_and_a_wrong_kernel_is_seen(toolchain: Toolchain) -> None:
    values = dict(zip(("s", "a", "k", "b", "y"), add_values(), strict=True))
    right = simulate(ADD, ADD_TEXT, values, toolchain=toolchain).outputs["y"]
    wrong = simulate(ADD, ADD_TEXT.replace("+ k", "+ (i == 5 ? k + 1 : k)"), values, toolchain=toolchain).outputs["y"]
    report = lab.compare(right, wrong)
    assert not report.ok
    assert (right != wrong).nonzero().tolist() == [[1, 1]]


@needs_compiler
def test_every_block_and_lane_runs_with_its_own_identity(toolchain: Toolchain) -> None:
    function = kernel(
        tensor("y", 3, 2, dtype=d.INT32),
        body=reads("tile.get_block_idx", "tile.get_subblock_idx"),
        attrs={"dual_aiv_dispatch": True},
    )
    text = assembled(
        "__gm__ int32_t* y, int32_t block, int32_t blocks, int32_t lane",
        "  y[block * 2 + lane] += 100 * blocks + 10 * block + lane;",
    )
    done = simulate(function, text, [torch.zeros(3, 2, dtype=torch.int32)], block_num=3, toolchain=toolchain)
    assert done.outputs["y"].tolist() == [[300, 301], [310, 311], [320, 321]]


SCALARS: list[tuple[DType, str, object, float]] = [
    (d.BOOL, "bool", True, 1.0), (d.INT8, "int8_t", -5, -5.0), (d.UINT8, "uint8_t", 250, 250.0),
    (d.INT16, "int16_t", -300, -300.0), (d.INT64, "int64_t", -(2**40), -(2.0**40)), (d.INDEX, "int64_t", 7, 7.0),
    (d.UINT32, "uint32_t", 2**31, 2.0**31), (d.FP16, "half", 0.5, 0.5), (d.BF16, "bfloat16_t", 3.0, 3.0),
    (d.UINT16, "uint16_t", 65535, 65535.0), (d.INT32, "int32_t", -7, -7.0), (d.FP32, "float", 0.1, 0.10000000149011612),
]  # fmt: skip


@needs_compiler
def test_scalars_arrive_at_their_type(toolchain: Toolchain) -> None:
    count = len(SCALARS)
    function = kernel(tensor("y", count), *(scalar(f"s{i}", dtype) for i, (dtype, *_) in enumerate(SCALARS)))
    parameters = ", ".join(["__gm__ float* y", *(f"{c_type} s{i}" for i, (_, c_type, *_) in enumerate(SCALARS))])
    text = assembled(parameters, "\n".join(f"  y[{i}] = static_cast<float>(s{i});" for i in range(count)))
    done = simulate(function, text, [torch.zeros(count), *(value for _, _, value, _ in SCALARS)], toolchain=toolchain)
    assert done.outputs["y"].tolist() == [expected for *_, expected in SCALARS]


@needs_compiler
def test_sixteen_bit_tensors_keep_their_bits(toolchain: Toolchain) -> None:
    function = kernel(tensor("a", 4, dtype=d.BF16), tensor("h", 4, dtype=d.FP16), tensor("y", 4))
    text = assembled(
        "__gm__ bfloat16_t* a, __gm__ half* h, __gm__ float* y",
        "  for (int i = 0; i < 4; ++i) y[i] = static_cast<float>(a[i]) * static_cast<float>(h[i]);",
    )
    a, h = torch.tensor([1.5, -2.0, 3e38, 0.125]).bfloat16(), torch.tensor([2.0, 0.5, 1e-4, -8.0]).half()
    done = simulate(function, text, [a, h, torch.zeros(4)], toolchain=toolchain)
    assert torch.equal(done.outputs["y"], a.float() * h.float())


@needs_compiler
def test_the_buffer_of_the_device_is_what_the_kernel_has(toolchain: Toolchain, kept: Path) -> None:
    function = kernel(tensor("y", 1))
    text = assembled("__gm__ float* y", '  y[0] = static_cast<float>(atoi(getenv("PTO_CPU_SIM_UB_BYTES")));')
    for arch, limits, expected in [
        ("a2a3", None, 196608.0), ("a5", None, 253952.0), ("a2a3", Limits(unified_buffer=4096), 4096.0),
    ]:  # fmt: skip
        done = simulate(function, text, [torch.zeros(1)], arch=arch, limits=limits, toolchain=toolchain, cache=kept)
        assert done.outputs["y"].tolist() == [expected]


@needs_compiler
def test_a_compiled_kernel_is_kept_by_its_text_and_tools(toolchain: Toolchain, tmp_path: Path) -> None:
    cache = tmp_path / "kept"

    def ran(text: str) -> Simulated:
        return simulate(ADD, text, add_values(), toolchain=toolchain, cache=cache)

    first = ran(ADD_TEXT)
    (made,) = cache.iterdir()
    when = made.stat().st_mtime_ns
    again = ran(ADD_TEXT)
    assert [p.stat().st_mtime_ns for p in cache.iterdir()] == [when], "nothing is compiled again"
    assert torch.equal(first.outputs["y"], again.outputs["y"])
    ran(ADD_TEXT.replace("+ k", "- k"))
    assert len(list(cache.iterdir())) == 2


# --- runs that do not come to their end -------------------------------------------------------------------------------


@needs_compiler
def test_a_compile_error_stands_at_its_line_with_the_compilers_words(toolchain: Toolchain) -> None:
    function = kernel(tensor("a", 8), tensor("y", 8))
    text = assembled("__gm__ float* a, __gm__ float* y", "  y[0] = unheard_of(a);")
    with pytest.raises(LabError) as caught:
        simulate(function, text, [torch.ones(8), torch.zeros(8)], toolchain=toolchain)
    found = caught.value.diagnostics[0]
    assert found.code == "E642"
    assert "unheard_of" in found.message
    assert found.span is not None
    assert found.span.file == "f.cpp"
    assert "  y[0] = unheard_of(a);" in str(caught.value)


ENDS: dict[str, tuple[str, Limits | None, str, str]] = {
    "no end": ("for (volatile int i = 0;; i = i) {}", Limits(seconds=0.5), "E643", "not done after 0.5 s"),
    "assert": ('assert(a[0] == 2.0f && "the tile lies outside");', None, "E644", "the tile lies outside"),
    "abort": ("abort();", None, "E644", "SIGABRT"),
    "null": ("*reinterpret_cast<volatile int*>(8) = 1;", None, "E644", "SIGSEGV"),
    "exit": ("exit(7);", None, "E644", "code 7"),
    "past the end": ("y[8] = 1;", None, "E644", "wrote outside tensor argument 1"),
    "before the start": ("a[-1] = 1;", None, "E644", "block 0, lane 0 wrote outside tensor argument 0"),
    "memory": (
        "*const_cast<volatile char*>(new char[size_t(1) << 33]) = 1;", Limits(memory=1 << 30), "E644",
        "more memory than it may have (1073741824",
    ),
}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("end", ENDS)
def test_a_run_that_goes_wrong_says_how(end: str, toolchain: Toolchain, kept: Path) -> None:
    _, limits, code, words = ENDS[end]
    function = kernel(tensor("a", 8), tensor("y", 8), scalar("end", d.INT32))
    branches = "".join(f"  if (end == {i}) {{ {body} }}\n" for i, (body, *_) in enumerate(ENDS.values()))
    text = assembled("__gm__ float* a, __gm__ float* y, int32_t end", branches)
    values = [torch.ones(8), torch.zeros(8), list(ENDS).index(end)]
    started = time.monotonic()
    with pytest.raises(LabError) as caught:
        simulate(function, text, values, toolchain=toolchain, limits=limits, cache=kept)
    assert error_of(caught)[0] == code
    assert words in error_of(caught)[1]
    assert time.monotonic() - started < 120


@needs_compiler
def test_a_compiler_that_takes_too_long_and_one_that_has_gone(toolchain: Toolchain, tmp_path: Path) -> None:
    slow = script(tmp_path / "slow", "import time\ntime.sleep(60)\n")
    for path, code in ((slow, "E643"), (tmp_path / "gone", "E642")):
        other = Toolchain(toolchain.isa, Compiler(path, "gcc", 13, "a script"), "own")
        with pytest.raises(LabError) as caught:
            simulate(ADD, ADD_TEXT, add_values(), toolchain=other, limits=Limits(compile_seconds=0.5))
        assert caught.value.diagnostics[0].code == code


# --- what is refused before anything runs -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({1: torch.zeros(6, 5)}, "shape [?, 4], not [6, 5]"),
        ({1: torch.zeros(6)}, "shape [?, 4], not [6]"),
        ({1: torch.zeros(6, 4, dtype=torch.float64)}, "`a` holds FP32, not torch.float64"),
        ({1: 3.0}, "`a` is a tensor, not a float"),
        ({2: 2**31}, "no value for `k`"),
        ({2: "x"}, "no value for `k`"),
    ],
)
def test_values_that_do_not_fit_are_named(change: dict[int, object], words: str) -> None:
    values = [change.get(i, v) for i, v in enumerate(add_values())]
    with pytest.raises(LabError) as caught:
        simulate(ADD, ADD_TEXT, values)
    assert error_of(caught)[0] == "E645"
    assert words in error_of(caught)[1]


def test_a_missing_value_too_many_and_no_blocks() -> None:
    with pytest.raises(LabError, match="no value for `a`, `k`"):
        simulate(ADD, ADD_TEXT, {"s": 1.0, "b": 0, "y": 0})
    with pytest.raises(LabError, match=r"2 values for 5 parameters"):
        simulate(ADD, ADD_TEXT, [1.0, 2])
    with pytest.raises(LabError, match="at least one block"):
        simulate(ADD, ADD_TEXT, add_values(), block_num=0)


def test_half_of_a_group_does_not_run_alone() -> None:
    data = Path(__file__).parent.parent / "data" / "dumps" / "k30_pipe_two_groups" / "passes_explicit"
    program = read_dump((data / "49_after_MaterializeValidShapeSymbols.py").read_text(encoding="utf-8"))
    with pytest.raises(LabError) as caught:
        simulate(program.functions["feed_aiv"], "", [], program=program)
    assert error_of(caught)[0] == "E646"
    assert "`feed_aic`" in error_of(caught)[1]


# --- bfloat16 ---------------------------------------------------------------------------------------------------------


@needs_compiler
def test_a_half_float_by_the_name_of_bfloat16_is_found_out(tmp_path: Path) -> None:
    found = found_toolchain(isa_root(tmp_path, "typedef _Float16 bfloat16_t;"))
    assert found.bfloat16 is None
    assert "3.0e38 becomes inf" in found.bfloat16_note
    assert simulate(ADD, ADD_TEXT, add_values(), toolchain=found).outputs["y"].shape == (6, 4)
    function = kernel(tensor("a", 4, dtype=d.BF16))
    with pytest.raises(LabError) as caught:
        simulate(
            function, assembled("__gm__ bfloat16_t* a", ""), [torch.zeros(4, dtype=torch.bfloat16)], toolchain=found
        )
    assert error_of(caught)[0] == "E647"
    assert "becomes inf" in error_of(caught)[1]


@needs_compiler
def test_a_float_by_the_name_of_bfloat16_is_found_out_too(tmp_path: Path) -> None:
    found = found_toolchain(isa_root(tmp_path, "typedef float bfloat16_t;"))
    assert found.bfloat16 is None
    assert "1+2^-9 becomes 1.00195312" in found.bfloat16_note


@needs_compiler
def test_the_labs_header_comes_in_front_where_the_compiler_has_no_right_type(tmp_path: Path) -> None:
    """Found in the second try, and its narrowing rounds as torch does: to the nearest, ties to even, NaN stays NaN."""
    rounding = BFLOAT16.replace(
        "bits = static_cast<uint16_t>((all + 0x7fffu + ((all >> 16) & 1u)) >> 16);", "bits = __truncsfbf2(value);"
    )
    assert rounding != BFLOAT16
    text = (
        "#if __has_include(<stdfloat>)\n#define __bf16 unsigned short\n#include <stdfloat>\n"
        f"{rounding}#else\ntypedef _Float16 bfloat16_t;\n#endif\n"
    )
    found = found_toolchain(isa_root(tmp_path, text))
    if found.bfloat16 == "own" or found.compiler.family == "clang":
        pytest.skip("this compiler has the type itself")
    assert found.bfloat16 == "shim"
    function = kernel(tensor("a", 64), tensor("y", 64, dtype=d.BF16))
    kernel_text = assembled("__gm__ float* a, __gm__ bfloat16_t* y", "  for (int i = 0; i < 64; ++i) y[i] = a[i];")
    a = torch.randn(64, generator=torch.Generator().manual_seed(0))
    a[:6] = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, float("nan"), float("inf"), 3.4e38, -0.0])
    done = simulate(function, kernel_text, [a, torch.zeros(64, dtype=torch.bfloat16)], toolchain=found)
    assert torch.equal(done.outputs["y"].isnan(), a.isnan())
    assert torch.equal(done.outputs["y"].nan_to_num(7.0), a.bfloat16().nan_to_num(7.0))


@needs_compiler
def test_the_kind_that_works_is_kept_and_its_flags_are_used(toolchain: Toolchain) -> None:
    assert toolchain.bfloat16 == "own"
    assert "1+2^-9 becomes 1" in toolchain.bfloat16_note
    assert not any("stdfloat" in flag for flag in toolchain.flags("aiv"))
    shimmed = Toolchain(toolchain.isa, toolchain.compiler, "shim")
    assert any(flag.endswith("stdfloat") for flag in shimmed.flags("aiv"))
    assert "-D__DAV_CUBE__" in shimmed.flags("aic")


# --- finding ----------------------------------------------------------------------------------------------------------


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\n{body}", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


CLANG = 'print("Debian clang version {}.1.7 (3+b1)\\nTarget: x86_64-pc-linux-gnu")\n'
GCC = 'print("g++ (Debian {0}.2.0-14) {0}.2.0\\nThis is free software; see the source")\n'


def test_compilers_are_known_by_what_they_say(tmp_path: Path) -> None:
    clang = probe_compiler(script(tmp_path / "one", CLANG.format(19)))
    gcc = probe_compiler(script(tmp_path / "two", GCC.format(12)))
    assert isinstance(clang, Compiler)
    assert isinstance(gcc, Compiler)
    assert (clang.family, clang.version) == ("clang", 19)
    assert (gcc.family, gcc.version) == ("gcc", 12)
    assert probe_compiler(tmp_path / "gone") == "it cannot be started (No such file or directory)"
    assert "library" in str(probe_compiler(script(tmp_path / "broken", 'print("a library is gone")\nexit(127)\n')))
    assert "does not say" in str(probe_compiler(script(tmp_path / "odd", 'print("frobnicate 3.2.1")\n')))


def test_the_first_that_is_new_enough_is_taken_clang_before_gcc(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path)}
    script(tmp_path / "g++", GCC.format(12))
    with pytest.raises(LabError) as caught:
        find_compiler(environment)
    assert error_of(caught)[0] == "E641"
    assert "clang >= 15 or g++ >= 13" in error_of(caught)[1]
    assert f"{tmp_path / 'g++'}: gcc 12 is too old" in error_of(caught)[1]
    assert find_compiler(environment, oldest=ANY_AGE).version == 12
    script(tmp_path / "g++-13", GCC.format(13))
    assert find_compiler(environment).path.name == "g++-13"
    script(tmp_path / "clang++-16", CLANG.format(16))
    assert find_compiler(environment).path.name == "clang++-16"
    script(tmp_path / "clang++-19", "exit(1)\n")
    assert find_compiler(environment).path.name == "clang++-16"
    with pytest.raises(LabError, match="no clang"):
        find_compiler({"PATH": ""})


def test_headers_are_searched_below_the_root_and_its_absence_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError) as caught:
        find_isa({})
    assert error_of(caught)[0] == "E640"
    assert "not set" in error_of(caught)[1]
    with pytest.raises(LabError, match=r"no include/pto/pto-inst.hpp"):
        find_isa({"PTO_ISA_ROOT": str(tmp_path)})
    root = isa_root(tmp_path / "isa")
    assert find_isa({"PTO_ISA_ROOT": str(root)}).include == (root / "include").resolve()
    assert find_isa({"PTO_ISA_ROOT": str(root / "include")}).include == (root / "include").resolve()
    assert find_isa({"PTO_ISA_ROOT": str(root)}).head == ""


def test_what_is_missing_is_named_with_what_it_would_add(tmp_path: Path) -> None:
    found = probe({"PATH": str(tmp_path)})
    assert not found.ready
    assert [p.name for p in found.missing] == ["ptoas", "PTO-ISA", "C++ compiler", "bfloat16"]
    assert all(p.problem and p.adds and "would add" in str(p) for p in found.parts)
    assert found.parts[0].hint
    shown = found.to_json()["parts"]
    assert isinstance(shown, list)
    assert shown[1]["problem"] == "PTO_ISA_ROOT is not set: there are no PTO-ISA headers"


@needs_compiler
def test_a_machine_with_everything_is_ready(tmp_path: Path) -> None:
    flags = "--enable-insert-sync --pto-arch --pto-level"
    script(tmp_path / "ptoas" / "ptoas", f'import sys\nprint("ptoas 0.57 {flags}")\n')
    root = isa_root(tmp_path / "isa")
    environment = {"PTOAS_ROOT": str(tmp_path / "ptoas"), "PTO_ISA_ROOT": str(root), "PATH": os.environ["PATH"]}
    found = probe(environment, oldest=ANY_AGE)
    assert found.ready, [str(p) for p in found.missing]
    assert found.missing == ()
    assert "ptoas 0.57" in str(found.parts[0])
    assert "own: 3.0e38 becomes 3.00" in str(found.parts[3])
