"""What the browser asks for when it is looked at: true cells of a window, stages, stops; pages carry what they can."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any

import numpy as np
import pytest
import torch
from bench_support import as_written, kernel

from pypto_lab.compat.cases import case
from pypto_lab.lowering.pipeline import lower
from pypto_lab.record.breakpoints import OnNonFinite
from pypto_lab.record.recorder import record
from pypto_lab.view.workbench import Workbench, workbench
from pypto_lab.view.workbench import page as pages
from pypto_lab.view.workbench.answers import answer
from pypto_lab.view.workbench.tiles import SIDE


def large() -> Workbench:
    def grow(x: Any) -> Any:
        y = x * 2.0
        return y / (x - x[0, 0])

    rows = torch.arange(300 * 200, dtype=torch.float32).reshape(300, 200)
    return workbench(record(grow, {"x": rows}))


@pytest.fixture(scope="module")
def bench() -> Workbench:
    return large()


def doubled(bench: Workbench) -> str:
    """The key of `y`, which is larger than what is drawn."""
    bench.session.end()
    return f"{bench.session.find('y').value}@0"


def test_a_window_has_the_true_cells(bench: Workbench) -> None:
    key = doubled(bench)
    asked = {"ask": "window", "key": key, "row": 290, "column": 195, "rows": 16, "columns": 12}
    found = answer(bench, asked)
    assert found is not None
    content, (cells,) = found
    assert content["window"] == {"key": key, "row": 290, "column": 195, "rows": 10, "columns": 5}
    expected = 2.0 * np.arange(300 * 200, dtype=np.float64).reshape(300, 200)[290:, 195:]
    assert np.array_equal(np.frombuffer(cells).reshape(10, 5), expected)
    assert bench.tiles.tile(key).shown[0] <= SIDE < 300


@pytest.mark.parametrize(
    "asked",
    [
        {"key": "7@nonsense", "row": 0, "column": 0, "rows": 1, "columns": 1},
        {"key": "0@0", "row": -1, "column": 0, "rows": 1, "columns": 1},
        {"key": "0@0", "row": 0, "column": 0, "rows": 10**6, "columns": 10**6},
        {"key": None},
    ],
)
def test_a_window_that_cannot_be_had_is_refused_with_a_reason(bench: Workbench, asked: dict[str, Any]) -> None:
    found = answer(bench, {"ask": "window", **asked})
    assert found is not None
    assert found[1] == []
    assert found[0]["coarse"]["why"]


@pytest.mark.parametrize("asked", [None, [], {"ask": "else"}, {}, "tiles"])
def test_what_asks_nothing_gets_nothing(bench: Workbench, asked: Any) -> None:
    assert answer(bench, asked) is None


def test_stops_of_what_is_not_finite_are_the_sessions(bench: Workbench) -> None:
    stops = bench.session.stops(OnNonFinite())
    assert stops, "0 / 0 in the first cell"
    assert bench.payload["nonFinite"] == stops
    assert answer(bench, {"ask": "nonfinite"}) == ({"nonFinite": stops}, [])
    assert workbench(as_written("k09_softmax_rows")).payload["nonFinite"] == []


def test_stops_of_a_run_too_large_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pypto_lab.view.workbench.bench.EAGER_CELLS", 10)
    assert large().payload["nonFinite"] is None


def test_a_stage_is_its_graph_its_marks_and_its_text() -> None:
    subject = case(kernel("k17_bias_updown"))
    bench = workbench(as_written("k17_bias_updown"), lowered=lower(subject.program(subject.make_inputs(0))))
    at = [s.name for s in bench.stages].index("ExpandMixedKernel")
    found = answer(bench, {"ask": "stage", "index": at})
    assert found is not None
    detail = found[0]["stage"]
    assert set(detail["marks"].values()) == {"added", "removed", "moved"}
    assert all(f'id="PREFIX-{id_}"' in detail["svg"] for id_ in detail["marks"])
    assert detail["text"] == bench.stages.text(at)
    first = answer(bench, {"ask": "stage", "index": 0})
    assert first is not None
    assert first[0]["stage"]["svg"] == ""
    for wrong in (-1, 10**6, None, "0"):
        refused = answer(bench, {"ask": "stage", "index": wrong})
        assert refused is not None
        assert "noStage" in refused[0]
    about = heads_of(bench.html())
    assert [s["index"] for s in about["stages"]] == [i for i, s in enumerate(bench.stages) if not i or s.changed]


# --- pages -----------------------------------------------------------------------------------------------------------


def part_of(page: str, name: str) -> bytes:
    found = re.search(rf'id="{name}">([^<]*)<', page)
    assert found is not None
    return gzip.decompress(base64.b64decode(found[1]))


def heads_of(page: str) -> Any:
    return json.loads(part_of(page, "pw-heads"))


def test_a_page_carries_all_cells_of_large_tensors_while_there_is_room(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = doubled(bench)
    page = bench.html()
    (head,) = [t for t in heads_of(page)["tiles"] if t["key"] == key]
    cells = np.frombuffer(part_of(page, "pw-cells"), np.float32, 300 * 200, head["whole"])
    assert np.array_equal(cells, 2.0 * np.arange(300 * 200, dtype=np.float32))
    monkeypatch.setattr(pages, "MOST_WHOLE", 300 * 200 - 1)
    assert all("whole" not in t for t in heads_of(bench.html())["tiles"])


def test_a_page_leaves_stages_out_when_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = case(kernel("k17_bias_updown"))
    bench = workbench(as_written("k17_bias_updown"), lowered=lower(subject.program(subject.make_inputs(0))))
    monkeypatch.setattr(pages, "LARGEST_STAGES", 20_000)
    assert 0 < len(heads_of(bench.html())["stages"]) < 10
