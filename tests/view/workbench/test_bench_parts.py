"""The parts of a workbench in Python: listings, places, passes, numbers, text, the static form and the widget."""

from __future__ import annotations

import gzip
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from bench_support import as_written, kernel, last_dump, lowered

from pypto_lab.compat.cases import case
from pypto_lab.ir.diagnostics import Diagnostic
from pypto_lab.record.breakpoints import OnQueue
from pypto_lab.record.recorder import record
from pypto_lab.record.session import Session
from pypto_lab.view import assets
from pypto_lab.view.workbench import VIEWS, Workbench, workbench
from pypto_lab.view.workbench.answers import tiles_answer
from pypto_lab.view.workbench.listing import fold, script_listing, source_listings
from pypto_lab.view.workbench.passes import stages
from pypto_lab.view.workbench.places import memory_places, tensor_places
from pypto_lab.view.workbench.widget import take_cursor

# --- listings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "folded"),
    [
        ("  x: pl.Tile[[32, 1], pl.FP32, pl.MemRef(m, pl.const(0, pl.INT64), 4)] = pl.add(a, b)", "  x = pl.add(a, b)"),
        ("def f(a: pl.Tensor[[64, 32], pl.BF16], n: pl.Scalar[pl.INT32]) -> pl.Ptr:", "def f(a, n) -> pl.Ptr:"),
        ("    a: pl.Out[pl.Tensor[[4], pl.FP32]],", "    a,"),
        ("m: pl.Ptr = pl.tile.alloc(pl.Mem.Mat, 4096)", "m = pl.tile.alloc(pl.Mem.Mat, 4096)"),
        ('x: pl.Tile[[1], pl.MemRef("a, b] = c", 0)] = y', "x = y"),
        ("if a: pass", "if a: pass"),
        ('attrs={"k": pl.add}', 'attrs={"k": pl.add}'),
        ("for i, (a,) in pl.range(3, init_values=(b,)):", "for i, (a,) in pl.range(3, init_values=(b,)):"),
    ],
)
def test_types_are_folded_and_nothing_else(line: str, folded: str) -> None:
    assert fold(line) == folded


def test_a_dump_is_folded_and_an_authors_text_is_not() -> None:
    printed = source_listings(lowered("k17_bias_updown"))[0]
    assert not printed.unfolded
    assert "MemRef" not in "\n".join(printed.shown)
    assert any("MemRef" in line for line in printed.full.values())
    own = source_listings(as_written("k09_softmax_rows"))[0]
    assert own.shown == tuple(kernel("k09_softmax_rows").read_text().splitlines())


def test_the_script_listing_has_every_line_that_was_stepped() -> None:
    recording = lowered("k32_pipe_bidir_dual")
    listing = script_listing(recording)
    script = recording.trace.script.splitlines()
    assert len(listing.lines) < len(script) / 2, "the runtime's helpers are left out"
    for s in recording.trace.statements:
        assert listing.lines[s.line - listing.first] == script[s.line - 1]


# --- places ----------------------------------------------------------------------------------------------------------


def places_by_name(recording: Any) -> dict[tuple[str, str], list[Any]]:
    lanes = recording.trace.lanes
    return {
        (lanes[recording.trace.frames[frame].lane], name): [how, offsets]
        for _, frame, name, how, _, offsets in tensor_places(recording)
    }


def test_loads_and_stores_say_where_a_tile_lies() -> None:
    found = places_by_name(lowered("k17_bias_updown"))
    for lane, row in (("AIV0", 0), ("AIV1", 32)):
        assert found[lane, "bias_tile"] == ["load", [row, 0]]
        assert found[lane, "scale_tile"] == ["load", [row, 0]]
        assert found[lane, "t_tile_1"] == ["store", [row, 0]]
        assert found[lane, "y_tile"] == ["toward", [row, 0]], "cast keeps every cell where it was"
        assert found[lane, "t_tile"] == ["toward", [row, 0]]
    assert ("AIC", "acc_tile") not in found


def test_memory_is_where_the_types_say() -> None:
    bench = workbench(lowered("k17_bias_updown"))
    found = {(name, space): (address, size) for _, _, name, space, address, size in bench.memory}
    assert found["bias__tile", "Vec"] == (16384, 4096)
    assert found["scale__tile", "Vec"] == (20480, 128)
    assert found["acc__tile", "Acc"] == (0, 8192)
    assert memory_places(None) == []
    assert workbench(as_written("k09_softmax_rows")).memory == []


# --- passes ----------------------------------------------------------------------------------------------------------


def test_passes_say_what_changed(tmp_path: Path) -> None:
    head = "# pypto.program: P\nimport pypto.language as pl\n"
    (tmp_path / "00_frontend.py").write_text(head + "x: pl.Tile[[1], pl.FP32] = a\n")
    (tmp_path / "01_after_Same.py").write_text(head + "x: pl.Tile[[1], pl.FP32] = a\n")
    (tmp_path / "02_after_Types.py").write_text(head + "x: pl.Tile[[2], pl.FP32] = a\n")
    (tmp_path / "03_after_Code.py").write_text(head + "x: pl.Tile[[2], pl.FP32] = b\ny = c\n")
    (tmp_path / "notes.py").write_text("not a dump")
    sweep = {"stages": [{"file": "03_after_Code.py", "status": "mismatch", "max_abs": 0.5, "message": "m"}]}
    found = stages(tmp_path, sweep)
    assert [(s.number, s.name, s.changed, s.added, s.removed) for s in found] == [
        (0, "frontend", True, 0, 0), (1, "Same", False, 0, 0), (2, "Types", True, 1, 1), (3, "Code", True, 2, 1),
    ]  # fmt: skip
    assert "+x: pl.Tile[[2], pl.FP32] = a" in found[2].diff, "where only types changed they are shown"
    assert "+x = b" in found[3].diff
    assert (found[3].status, found[3].error, found[3].message) == ("mismatch", 0.5, "m")


# --- what there is ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    build = tmp_path_factory.mktemp("build")
    (build / "kernel.pto").write_text("func.func @k()\n")
    (build / "kernel.o").write_bytes(b"\0\1")
    name = "k17_bias_updown"
    return workbench(
        lowered(name),
        case=case(kernel(name)),
        dumps=last_dump(name).parent,
        build=build,
        checks=[Diagnostic("W001", "a finding")],
    )


def test_a_view_without_anything_to_show_is_not_there(full: Workbench) -> None:
    assert full.views == VIEWS
    plain = workbench(as_written("k09_softmax_rows"))
    assert plain.views == ("source", "script", "timeline", "tile", "variables", "graph")
    for view in set(VIEWS) - set(plain.views):
        with pytest.raises(ValueError, match="nothing to show"):
            plain.text(view)
    with pytest.raises(ValueError, match="no view `colours`"):
        plain.text("colours")


def test_every_view_says_its_facts_as_text(full: Workbench) -> None:
    full.goto(27)
    assert ">   33 AIV0" in full.text("source")
    assert "t_tile = torch.add(acc_tile_Vec, bias_tile)" in full.text("script")
    timeline = full.text("timeline")
    assert "step 17: AIC: push C2V[0]#0, push C2V[1]#0" in timeline
    assert "AIV1  not started" in timeline
    tile = full.text("tile")
    assert tile.startswith("t_tile: float32 [32, 32], valid [32, 32], written at step 27")
    session = Session(full.recording)
    session.goto(27)
    queues = full.text("queues")
    for q in session.queues:
        for e in q.entries:
            assert f"{q.occupied} of {q.depth}" in queues
            assert f"{e.pushed_by}, step {e.pushed_at}" in queues
    variables = full.text("variables")
    for v in session.variables():
        assert v.name in variables
        assert v.text.rpartition("]: ")[2] in variables
    assert "out: match, bfloat16 [64, 32]" in full.text("numbers")
    assert "nodes of the current line" in full.text("graph")
    assert "tile.add" in full.text("graph").splitlines()[-1]
    assert "t_tile: Vec 0x4000, 4096 B, since step 27" in full.text("memory")
    assert "22 ExpandMixedKernel: changed" in full.text("passes")
    assert full.text("artifacts") == "PTO module\n  kernel.pto: only written, 1 lines"
    assert "warning" in full.text("checks") or "W001" in full.text("checks")
    assert "step 27" in full.text()


def test_a_failed_run_says_so_everywhere() -> None:
    def broken(x: Any) -> Any:
        y = x + 1
        return y.reshape(7, 7)

    import torch

    bench = workbench(record(broken, {"x": torch.zeros(4)}))
    assert bench.numbers == []
    assert "failed" in bench.text()
    assert "reshape" in bench.text() or "shape" in bench.text()
    assert "failed" in bench.html()


def test_a_sessions_breakpoints_are_taken_over() -> None:
    session = Session(lowered("k32_pipe_bidir_dual"))
    session.break_at(OnQueue("blocked"))
    session.goto(5)
    bench = workbench(session)
    assert bench.session is session
    assert bench.session.position == 5
    (stop,) = bench.payload["stops"]
    assert stop["steps"] == session.stops(OnQueue("blocked"))
    assert len(stop["steps"]) > 4


def test_two_recordings_are_compared() -> None:
    good, other = lowered("k32_pipe_bidir_dual"), lowered("k32_pipe_bidir_dual", "random", 5)
    assert workbench(good, other=other).payload["divergence"] is not None
    assert workbench(good, other=good).payload["divergence"] == {"step": 0, "text": "the recordings agree"}
    assert workbench(good).payload["divergence"] is None


# --- page and static form --------------------------------------------------------------------------------------------


def test_the_page_needs_nothing_else(full: Workbench, tmp_path: Path) -> None:
    page = full.save(tmp_path / "sub" / "page.html").read_text(encoding="utf-8")
    for word in ("http://", "https://", "//cdn", "import(", "fetch("):
        assert word not in page.replace("http://www.w3.org/2000/svg", ""), word
    assert full.html() == page, "the same recording gives the same page"


def test_the_static_form_has_the_facts_without_scripts(full: Workbench) -> None:
    from pypto_lab.view.parts import to_text
    from pypto_lab.view.workbench.page import static_html, static_part

    full.goto(27)
    text = to_text(static_part(full))
    for fact in ("t_tile", "step 27 of 51", "C2V[1]#0", "match"):
        assert fact in text
    html = static_html(full)
    assert html.count("<svg") >= 3
    bundle = full._repr_mimebundle_()
    assert bundle["text/html"] == html
    assert bundle["text/plain"] == full.text()
    assert "application/vnd.jupyter.widget-view+json" in bundle


# --- the widget ------------------------------------------------------------------------------------------------------


def test_the_widget_shares_the_cursor() -> None:
    bench = workbench(lowered("k32_pipe_bidir_dual"))
    view = bench.widget()
    assert view is bench.widget()
    assert view.cursor["position"] == 1
    bench.goto(30)
    assert (view.cursor["position"], view.cursor["lane"]) == (30, bench.session.focus.lane)
    there = Session(bench.recording)
    there.goto(44)
    view.cursor = {**view.cursor, "position": 44, "lane": there.focus.lane}
    assert (bench.session.position, bench.session.focus.lane) == (44, there.focus.lane)
    view.cursor = {"position": 44, "lane": "AIV0", "block": None, "task": None, "iteration": [1], "following": False}
    assert bench.session.position == 44
    assert str(bench.session.focus) == "AIV0, iteration (1,)"
    assert bench.session.following is False


@pytest.mark.parametrize(
    "state",
    [{}, {"position": -1, "lane": "AIC"}, {"position": 10**9, "lane": "AIC"}, {"position": "3", "lane": "AIC"},
     {"position": 3, "lane": "nobody"}],
)  # fmt: skip
def test_a_cursor_that_does_not_fit_changes_nothing(state: dict[str, Any]) -> None:
    bench = workbench(lowered("k32_pipe_bidir_dual"))
    bench.goto(12)
    take_cursor(bench, state)
    assert bench.session.position == 12


def test_tiles_are_answered_as_binary(full: Workbench) -> None:
    keys = full.tile_keys[:3]
    answer, buffers = tiles_answer(full, [*keys, "nonsense", 7, "error:out"])
    assert [head["key"] for head in answer["tiles"]] == [*keys, "error:out"]
    assert [len(b) for b in buffers] == [
        h["shown"][0] * h["shown"][1] * (8 if h["wide"] else 4) for h in answer["tiles"]
    ]
    assert list(answer["refused"]) == ["nonsense"]
    json.dumps(answer)
    assert tiles_answer(full, "not a list") == ({"tiles": [], "refused": {}}, [])


def test_messages_on_other_threads_do_not_mix() -> None:
    bench = workbench(lowered("k33_flash_mini"))
    view = bench.widget()
    keys = bench.tile_keys
    alone = [tiles_answer(bench, [key]) for key in keys]
    problems: list[BaseException] = []

    def asks(offset: int) -> None:
        try:
            for i in range(len(keys)):
                at = (i + offset) % len(keys)
                assert tiles_answer(bench, [keys[at]]) == alone[at]
                take_cursor(bench, {**view.cursor, "position": 1 + (i * 7 + offset) % len(bench.recording)})
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=asks, args=(n * 11,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_notebook_with_ten_workbenches_saves_the_browser_side_once() -> None:
    from ipywidgets import Widget

    names = ("k17_bias_updown", "k32_pipe_bidir_dual", "k33_flash_mini", "k29_spmd_blocks")
    benches = [workbench(lowered(names[i % 4]), dumps=last_dump(names[i % 4]).parent) for i in range(10)]
    views = [bench.widget() for bench in benches]
    assert len({view.library.model_id for view in views}) == 1
    saved = json.dumps(Widget.get_manager_state(widgets=[*views, views[0].library]))
    assert len(saved) < 4 << 20
    own = json.dumps(Widget.get_manager_state(widgets=[views[0]]))
    assert len(views[0]._esm) < 4096, "what each carries itself only loads the shared one"
    assert "pw-root" not in own, "no style either"
    library = views[0].library
    assert gzip.decompress(library.source).decode() == assets.text("workbench.js")
    assert gzip.decompress(library.styles).decode().endswith(assets.text("workbench.css"))


def test_without_a_widget_library_the_static_form_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(bench: Any) -> Any:
        raise ModuleNotFoundError("no anywidget", name="anywidget")

    monkeypatch.setattr("pypto_lab.view.workbench.widget.make_widget", missing)
    bundle = workbench(lowered("k17_bias_updown"))._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
