"""The flag check on assembler-style C++ of our own: ordered kernels are quiet, each missing flag is found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pypto_lab.ir.diagnostics import Severity
from pypto_lab.pto.flags import FlagReport, check_flags


def tile(name: str, address: object, space: str = "Vec", rows: int = 8, cols: int = 32, dtype: str = "float") -> str:
    template = f"Tile<TileType::{space}, {dtype}, {rows}, {cols}, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512>"
    return f"{template} {name} = {template}({rows}, {cols});\nTASSIGN({name}, {address});"


def view(name: str, pointer: str, offset: str = "0") -> str:
    template = "GlobalTensor<float, pto::Shape<1, 1, 1, 8, 32>, pto::Stride<256, 256, 256, 32, 1>, pto::Layout::ND>"
    return f"{template} {name} = {template}({pointer} + (v90 + {offset}), s1, s2);"


def function(*body: str, core: str = "VEC", name: str = "f") -> str:
    lines = "\n".join(body)
    return (
        '#include "pto/pto-inst.hpp"\nusing namespace pto;\n'
        f"__global__ AICORE void {name}(__gm__ float* a, __gm__ float* b, int32_t n) {{\n"
        f"unsigned v90 = 0;\nconst int64_t v91 = 1024;\n#if defined(__DAV_{core}__)\n{lines}\n#endif\nreturn;\n}}\n"
    )


def sync(source: str, target: str, event: int = 0) -> str:
    flag = f"(PIPE_{source}, PIPE_{target}, EVENT_ID{event});"
    return f"set_flag{flag}\nwait_flag{flag}"


HEAD = (tile("x", 0), tile("y", "v91"), view("ga", "a"), view("gb", "b"))
LOAD, ADD, STORE = "TLOAD(x, ga);", "TADDS(y, x, 1.0f);", "TSTORE(gb, y);"


def codes(report: FlagReport) -> list[str]:
    return [d.code for d in report.findings]


def one(report: FlagReport) -> str:
    assert len(report.findings) == 1, str(report)
    return report.findings[0].message


def test_a_fully_ordered_kernel_has_no_finding() -> None:
    report = check_flags(
        function(*HEAD, LOAD, sync("MTE2", "V"), ADD, sync("V", "MTE3"), STORE, "pipe_barrier(PIPE_ALL);")
    )
    assert report.findings == ()
    assert report.not_checked == ()
    assert (report.operations, report.flags) == (3, 5)
    assert report.ok


def test_raw_between_load_and_compute_has_both_lines() -> None:
    text = function(*HEAD, LOAD, ADD, sync("V", "MTE3"), STORE)
    report = check_flags(text, file="k.cpp")
    message = one(report)
    assert "RAW: TADDS on V reads" in message
    assert "TLOAD on MTE2" in message
    assert "`x` (Vec 0..1024)" in message
    found = report.findings[0]
    rows = text.splitlines()
    assert found.span is not None
    assert rows[found.span.line - 1][found.span.column - 1 :].startswith("TADDS")
    assert rows[found.labels[0].span.line - 1].startswith("TLOAD")
    assert found.hint == "set_flag and wait_flag from PIPE_MTE2 to PIPE_V between them"
    assert "k.cpp:" in str(report)
    assert not report.ok


def test_war_and_waw_by_address_not_by_name() -> None:
    again = (tile("z", 512, rows=2), "TLOAD(z, ga);")
    war = check_flags(function(*HEAD, LOAD, sync("MTE2", "V"), ADD, *again))
    assert "WAR: TLOAD on MTE2" in one(war)
    waw = check_flags(function(*HEAD, "TEXPANDS(x, 0.0f);", *again))
    assert "WAW: TLOAD on MTE2" in one(waw)
    apart = check_flags(function(*HEAD, "TEXPANDS(x, 0.0f);", tile("z", 4096), "TLOAD(z, ga);"))
    assert apart.findings == ()
    other_memory = check_flags(function(*HEAD, "TEXPANDS(x, 0.0f);", tile("z", 0, "Mat"), "TLOAD(z, ga);"))
    assert other_memory.findings == ()


def test_two_readers_need_no_order() -> None:
    text = function(
        *HEAD, LOAD, sync("MTE2", "V"), sync("MTE2", "MTE3", 1), ADD, view("gc", "b", "512"), "TSTORE(gc, x);"
    )
    assert check_flags(text).findings == ()


def test_order_goes_over_a_third_pipe() -> None:
    """The store waits for the vector unit, which had waited for the load."""
    ordered = function(*HEAD, LOAD, sync("MTE2", "V"), sync("V", "MTE3"), "TSTORE(gb, x);")
    assert check_flags(ordered).findings == ()
    reversed_flags = function(*HEAD, LOAD, sync("V", "MTE3"), sync("MTE2", "V"), "TSTORE(gb, x);")
    assert "RAW: TSTORE on MTE3" in one(check_flags(reversed_flags))


def test_a_flag_set_before_the_op_orders_nothing() -> None:
    early = function(
        *HEAD, "set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);", LOAD, "wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);", ADD
    )
    assert "RAW: TADDS on V" in one(check_flags(early))


def test_store_and_reload_of_one_place_in_global_memory() -> None:
    reload = (view("back", "b"), tile("z", 8192), "TLOAD(z, back);")
    head = (*HEAD, LOAD, sync("MTE2", "V"), ADD, sync("V", "MTE3"), STORE)
    assert "RAW: TLOAD on MTE2" in one(check_flags(function(*head, *reload)))
    assert check_flags(function(*head, sync("MTE3", "MTE2"), *reload)).findings == ()
    elsewhere = (view("back", "b", "512"), tile("z", 8192), "TLOAD(z, back);")
    assert check_flags(function(*head, *elsewhere)).findings == ()


LOOP = (
    "set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);",
    "for (size_t i = (size_t) v90; i < ((size_t) n); i += (size_t) 1) {",
    "wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);",
    LOAD,
    "set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);",
    "wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);",
    ADD,
    "set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);",
    "wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);",
    STORE,
    "set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);",
    "}",
    "wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);",
)


def test_a_loop_ordered_from_trip_to_trip_has_no_finding() -> None:
    assert check_flags(function(*HEAD, *LOOP)).findings == ()


@pytest.mark.parametrize("gone", [i for i, line in enumerate(LOOP) if "_flag" in line])
def test_each_missing_flag_of_the_loop_is_found(gone: int) -> None:
    report = check_flags(function(*HEAD, *LOOP[:gone], *LOOP[gone + 1 :]))
    assert report.findings, LOOP[gone]


def test_a_finding_across_trips_says_so() -> None:
    plain = [line for line in LOOP if "MTE3, PIPE_MTE2" not in line]
    report = check_flags(function(*HEAD, *plain))
    assert report.findings
    assert all("in an earlier trip of the loop" in d.message for d in report.findings)
    assert any("WAR: TLOAD on MTE2" in d.message for d in report.findings)


def double_buffer(slots: int) -> str:
    body = (
        "for (size_t i = 0; i < n; i += 1) {",
        f"int64_t at = (int64_t) (i % {slots}) * v91;",
        tile("x", "at"),
        "if (i > 1) { wait_flag(PIPE_V, PIPE_MTE2, (event_t) (i % 2)); }",
        LOAD,
        sync("MTE2", "V", 7),
        tile("y", 65536),
        ADD,
        "set_flag(PIPE_V, PIPE_MTE2, (event_t) (i % 2));",
        "}",
        "pipe_barrier(PIPE_ALL);",
    )
    return function(*HEAD[2:], *body)


def test_two_slots_ordered_two_trips_apart() -> None:
    """With one slot only, the flag of two trips before comes too late."""
    errors = [d for d in check_flags(double_buffer(2)).findings if d.severity is Severity.ERROR]
    assert errors == []
    clash = [d for d in check_flags(double_buffer(1)).findings if d.severity is Severity.ERROR]
    assert any("WAR: TLOAD" in d.message for d in clash)


@pytest.mark.parametrize("arm", [sync("MTE2", "V"), ""])
def test_order_in_one_arm_of_a_branch_is_not_enough(arm: str) -> None:
    text = function(*HEAD, LOAD, f"if (n > 3) {{ {arm} }}", ADD)
    assert codes(check_flags(text)) == ["E670"]


def test_order_in_both_arms_is_enough_and_arms_do_not_meet() -> None:
    both = f"if (n > 3) {{ {sync('MTE2', 'V')} }} else {{ pipe_barrier(PIPE_ALL); }}"
    assert check_flags(function(*HEAD, LOAD, both, ADD)).findings == ()
    apart = "if (n > 3) { TLOAD(x, ga); } else { TADDS(y, x, 1.0f); }"
    assert check_flags(function(*HEAD, apart)).findings == ()


def test_an_op_of_one_arm_meets_what_follows() -> None:
    text = function(*HEAD, "if (n > 3) { TLOAD(x, ga); } else { TEXPANDS(x, 1.0f); }", ADD)
    assert "RAW: TADDS on V" in one(check_flags(text))
    ordered = f"{{ TLOAD(x, ga);\n{sync('MTE2', 'V')} }}"
    for branch in (f"if (n > 3) {ordered}", f"if (n > 3) {{ }} else {ordered}"):
        assert check_flags(function(*HEAD, branch, ADD)).findings == ()


def test_a_long_arm_with_a_barrier_does_not_make_the_other_arm_forget() -> None:
    arm = "pipe_barrier(PIPE_ALL);" + "TMULS(y, y, 2.0f);" * 150
    assert codes(check_flags(function(*HEAD, LOAD, f"if (n > 3) {{ {arm} }}", ADD))) == ["E670"]


def test_a_branch_whose_condition_is_known_is_followed_alone() -> None:
    assert check_flags(function(*HEAD, LOAD, "if (v91 == 1024) { pipe_barrier(PIPE_ALL); }", ADD)).findings == ()
    assert codes(check_flags(function(*HEAD, LOAD, "if (v91 != 1024) { pipe_barrier(PIPE_ALL); }", ADD))) == ["E670"]


def test_an_early_return_does_not_hide_the_rest() -> None:
    assert codes(check_flags(function(*HEAD, LOAD, "if (n > 3) { return; }", ADD))) == ["E670"]


def test_a_wait_that_nothing_sets_a_flag_left_set_and_one_to_itself() -> None:
    waits = check_flags(function("wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);"))
    assert codes(waits) == ["E671"]
    assert "the flag V to MTE3 (EVENT_ID1)" in waits.findings[0].message
    left = check_flags(function("set_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);"))
    assert codes(left) == ["W670"]
    assert left.ok
    assert codes(check_flags(function(sync("V", "V")))) == ["E672"]


def test_events_are_told_apart() -> None:
    text = function(
        *HEAD, LOAD, "set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);\nwait_flag(PIPE_MTE2, PIPE_V, EVENT_ID1);", ADD
    )
    assert sorted(codes(check_flags(text))) == ["E670", "E671", "W670"]


def test_a_flag_set_in_one_arm_only_is_not_called_missing() -> None:
    text = function(
        "if (n > 3) { set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0); }",
        "if (n > 3) { wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0); }",
    )
    assert check_flags(text).findings == ()


def test_the_vector_pipe_itself_on_request() -> None:
    text = function(*HEAD, "TEXPANDS(x, 1.0f);", ADD)
    assert check_flags(text).findings == ()
    found = check_flags(text, within_pipes=True)
    assert codes(found) == ["W671"]
    assert found.findings[0].hint == "pipe_barrier(PIPE_V)"
    assert (
        check_flags(function(*HEAD, "TEXPANDS(x, 1.0f);", "pipe_barrier(PIPE_V);", ADD), within_pipes=True).findings
        == ()
    )


def test_scratch_of_a_reduction_is_written() -> None:
    text = function(
        *HEAD,
        tile("s", 8192),
        tile("r", 16384, rows=8, cols=1),
        view("gc", "b", "999"),
        "TSTORE(gc, s);",
        "TROWSUM(r, x, s);",
    )
    assert "WAR: TROWSUM on V" in one(check_flags(text))


CUBE = (
    tile("m", 0, "Mat"),
    tile("l", 0, "Left"),
    tile("r", 0, "Right", 32, 8),
    tile("c", 0, "Acc", 8, 8),
    view("ga", "a"),
    view("gb", "b"),
)


def test_the_cube_pipes() -> None:
    steps = ["TLOAD(m, ga);", sync("MTE2", "MTE1"), "TMOV(l, m);", "TEXTRACT(r, m, 0, 0);", sync("MTE1", "M"),
             "TMATMUL(c, l, r);", sync("M", "FIX"), "TSTORE(gb, c);"]  # fmt: skip
    assert check_flags(function(*CUBE, *steps, core="CUBE")).findings == ()
    expected = {1: ["TMOV on MTE1", "TEXTRACT on MTE1"], 4: ["TMATMUL on M"], 6: ["TSTORE on FIX"]}
    for gone, ops in expected.items():
        report = check_flags(function(*CUBE, *steps[:gone], *steps[gone + 1 :], core="CUBE"))
        assert [m for op in ops if any(f"RAW: {op}" in d.message for d in report.findings) for m in [op]] == ops


def test_accumulation_reads_and_writes_the_accumulator_on_one_pipe() -> None:
    text = function(*CUBE, "TMATMUL(c, l, r);", "TMATMUL_ACC(c, c, l, r);", "TSTORE(gb, c);", core="CUBE")
    labels = [d.labels[0].text for d in check_flags(text).findings]
    assert len(labels) == 2
    assert all("on M" in label for label in labels)


POP = "TPOP<TPipe<0>, Tile<TileType::Vec, float, 8, 32>, TileSplitAxis::TILE_UP_DOWN>(pipe, x);"
SLOT = "Tile<TileType::Vec, float, 8, 32, BLayout::RowMajor, 8, 32, SLayout::NoneBox, 512> x;"


@pytest.mark.parametrize(("flag", "found"), [("S", []), ("MTE2", []), ("MTE3", ["E670"]), (None, ["E670"])])
def test_a_popped_tile_is_ordered_against_the_scalar_unit_or_the_loads(flag: str | None, found: list[str]) -> None:
    order = sync(flag, "V") if flag else ""
    assert codes(check_flags(function(SLOT, tile("y", 1024), POP, order, ADD))) == found


def test_a_pushed_tile_is_read_by_the_store_pipe() -> None:
    push = POP.replace("TPOP", "TPUSH").replace("x);", "y, lane);")
    text = function(*HEAD, "TEXPANDS(y, 1.0f);", push)
    assert "RAW: TPUSH on MTE3" in one(check_flags(text))


def test_single_elements_are_the_scalar_units() -> None:
    text = function(*HEAD, "TEXPANDS(x, 1.0f);", "float e = x.GetValue(3);")
    assert "RAW: GetValue on S" in one(check_flags(text))
    assert check_flags(function(*HEAD, "TEXPANDS(x, 1.0f);", sync("V", "S"), "float e = x.GetValue(3);")).findings == ()
    assert check_flags(function(*HEAD, "x.SetValue(0, 1.0f);", ADD)).findings == ()


def test_what_the_scalar_unit_waited_for_is_over_for_every_pipe() -> None:
    assert check_flags(function(*HEAD, LOAD, sync("MTE2", "S"), ADD)).findings == ()


def test_views_lie_where_their_source_lies() -> None:
    reshaped = function(*HEAD, tile("z", 9999).splitlines()[0], "TRESHAPE(z, x);", LOAD, "TADDS(y, z, 1.0f);")
    assert "RAW: TADDS on V" in one(check_flags(reshaped))
    pointer = ("__ubuf__ float* p = x.data();", "uint64_t q = reinterpret_cast<uint64_t>(p);", tile("z", "q"))
    assert "RAW: TADDS on V" in one(check_flags(function(*HEAD, *pointer, LOAD, "TADDS(y, z, 1.0f);")))


def test_the_closing_helper_of_the_assembler_is_a_barrier() -> None:
    helper = "static AICORE inline void ptoas_auto_sync_tail(int mode) {\npipe_barrier(PIPE_ALL);\n}\n"
    text = function(*HEAD, LOAD, "ptoas_auto_sync_tail(Mode::kBarrierAll);", ADD)
    assert check_flags(helper + text).findings == ()
    other = function(*HEAD, LOAD, "ptoas_auto_sync_tail(Mode::kSetWaitMte3ToSEvent0);", ADD)
    assert codes(check_flags(helper + other)) == ["E670"]


def test_each_core_and_build_sees_its_own_text() -> None:
    vector, cube = function(*HEAD, LOAD, ADD), function(*CUBE, "TLOAD(m, ga);", "TMOV(l, m);", core="CUBE", name="g")
    messages = [d.message for d in check_flags(vector + cube).findings]
    assert [m.split(":")[0] for m in messages] == ["f", "g"]
    simulated = function(*HEAD, "#if defined(__CPU_SIM) || !defined(__DAV_VEC__)", LOAD, "#endif", ADD)
    assert check_flags(simulated).findings == ()
    device = function(*HEAD, "#if defined(__CPU_SIM)", "#else", LOAD, "#endif", ADD)
    assert codes(check_flags(device)) == ["E670"]


@pytest.mark.parametrize(
    ("body", "note"),
    [
        (("MGATHER(x, ga, y);",), "`MGATHER` is not modelled"),
        ((tile("z", "(int64_t) n"), "TLOAD(z, ga);"), "the address of tile `z` is not a known number"),
        (("switch (n) { case 0: TLOAD(x, ga); }",), "`switch` is not followed"),
        (("helper(x);",), "the call of `helper` is not followed"),
        (("TADD(p, q);",), "`TADD` has no tile this check knows"),
        (("Tile<TileType::Vec, float, n, 8> z;",), "the size of tile `z` is not known"),
    ],
)
def test_what_is_left_out_is_said_with_its_line(body: tuple[str, ...], note: str) -> None:
    text = function(*HEAD, *body) + "static AICORE void helper(int x) { }\n"
    report = check_flags(text)
    assert report.findings == ()
    (line,) = report.not_checked
    assert note in line
    number = re.match(r"line (\d+):", line)
    assert number is not None
    assert text.splitlines()[int(number[1]) - 1].startswith(
        body[-1].splitlines()[-1][:3] if len(body) == 1 else "TASSIGN"
    )


def test_comments_and_strings_are_not_code() -> None:
    text = function(*HEAD, LOAD, "// wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);", "/* pipe_barrier(PIPE_ALL); */", ADD)
    assert codes(check_flags(text)) == ["E670"]


def test_the_older_form_with_type_names_and_pointers() -> None:
    head = (
        "using TT = Tile<TileType::Vec, float, 8, 32, BLayout::RowMajor, 8, 32, SLayout::NoneBox, 512>;",
        "using GT = pto::GlobalTensor<float, Shape, Stride>;",
        "TT x;\nTT y;\nTASSIGN(x, 0);\nTASSIGN(y, 4096);",
        "unsigned at = v90 * 3;\n__gm__ float* p = b + at;\n__gm__ float* q = p + 512;",
        "GT ga = GT(a, s1, s2);\nGT gb = GT(p, s1, s2);\nGT gc(q, s1, s2);",
    )
    assert "RAW: TADDS on V" in one(check_flags(function(*head, LOAD, ADD)))
    stored = function(*head, "TSTORE(gb, x);", "TLOAD(y, gb);")
    assert "`b` from element 0 on" in one(check_flags(stored))
    assert check_flags(function(*head, "TSTORE(gb, x);", "TLOAD(y, gc);")).findings == ()


def test_a_path_is_read_and_named(tmp_path: Path) -> None:
    path = tmp_path / "k.cpp"
    path.write_text(function(*HEAD, LOAD, ADD), encoding="utf-8")
    span = check_flags(path).findings[0].span
    assert span is not None
    assert span.file == str(path)


@pytest.mark.parametrize(
    "text", ["", "}", "void f(", "void f() { for (;;", "void f() { if (x", "#else\n#endif\nint x;", '"']
)
def test_broken_text_is_no_crash(text: str) -> None:
    assert check_flags(text).findings == ()
