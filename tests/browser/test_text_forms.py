"""Every view's text form says what its picture says: facts are read from both, at several steps, and compared."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from shown_state import LANED, full_bench, times

from pypto_lab.view.workbench import Workbench

PLACES = (0.2, 0.55, 0.8)


@pytest.fixture(scope="module", params=LANED)
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    return full_bench(request.param, tmp_path_factory.mktemp("build"))


@pytest.fixture(scope="module")
def root(bench: Workbench, lasting_visit: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The bench's page, opened."""
    page = lasting_visit().page
    page.goto(bench.save(tmp_path_factory.mktemp("page") / "bench.html").as_uri())
    page.wait_for_selector(".pw-shell")
    return page.locator(".pw-root")


@pytest.fixture(params=PLACES)
def at(request: pytest.FixtureRequest, bench: Workbench, root: Any) -> int:
    """A step at which both stand."""
    step = round(request.param * len(bench.recording))
    bench.goto(step)
    tab(root, "Step")
    root.locator(".pw-track").focus()
    root.page.keyboard.press("Home")
    for _ in range(step):
        root.page.keyboard.press("ArrowRight")
    root.page.wait_for_function("(n) => Number(document.querySelector('.pw-count b').textContent) === n", arg=step)
    return step


def tab(root: Any, name: str) -> None:
    root.locator("nav").get_by_role("tab", name=name, exact=True).click()


def texts(found: Any) -> list[str]:
    return [" ".join(t.split()) for t in found.all_inner_texts()]


def columns(table: str) -> list[list[str]]:
    """The rows of a printed table, below its title, cut where the columns of its head begin."""
    _, head, *rows = table.splitlines()
    starts = [m.start() for m in re.finditer(r"(?:(?<=  )|^)\S", head)]
    return [[row[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)] for row in rows]


def test_source_and_timeline(bench: Workbench, root: Any, at: int) -> None:
    text = bench.text("source")
    marked = re.findall(r"^>\s*(\d+)", text, re.MULTILINE)
    assert [root.locator(".pw-ln[aria-current]").get_attribute("data-n")] == marked
    arrows = root.locator(".pw-arr[data-lane]").evaluate_all(
        "(all) => all.map((a) => [a.closest('.pw-ln').dataset.n, a.dataset.lane])"
    )
    lanes = re.findall(r"^[> ]\s*(\d+) ((?:host|AIC|AIV0|AIV1)(?:,\w+)*) ", text, re.MULTILINE)
    assert sorted(map(tuple, arrows)) == sorted((line, lane) for line, names in lanes for lane in names.split(","))
    table = bench.text("timeline").partition("\n\n")[0]
    shown = root.locator(".pw-lane").evaluate_all("(all) => all.map((b) => [b.dataset.lane, b.innerText])")
    said = [(row[0], row[1]) for row in columns(table)]
    assert [lane for lane, _ in shown] == [lane for lane, _ in said]
    for (_, words), (_, state) in zip(shown, said, strict=True):
        assert state in words


def test_tile(bench: Workbench, root: Any, at: int) -> None:
    if root.locator("[data-tile]").count() == 0:
        assert "has no tensor here" in bench.text("tile")
        return
    first, numbers, *_ = bench.text("tile").splitlines()
    name, shape, valid = re.match(r"(\w+): \w+ (\[.*?\]), valid (\[.*?\])", first).groups()
    assert root.locator("[data-tile]").get_attribute("data-tile") == name
    stats = root.locator(".pw-stats").inner_text().replace("\u2212", "-")
    assert root.locator(".pw-stats [data-valid]").get_attribute("data-valid") == times(eval(valid))
    assert times(eval(shape)) in stats
    for label in ("min", "max", "mean"):
        value = re.search(rf"{label} (\S+?)(?:,|$)", numbers)[1]
        assert value in stats, label


def test_queues(bench: Workbench, root: Any, at: int) -> None:
    said = [
        (row[0], row[2], row[4].partition(" ")[2], row[5], re.search(r"step (\d+)", row[6])[1])
        for row in columns(bench.text("queues"))
        if row[2]
    ]
    shown = root.locator("[data-slot]").evaluate_all(
        """(all) => all.map((s) => [s.closest('.pw-pipe').dataset.pipe, s.dataset.slot,
            s.querySelector('b').textContent, s.querySelectorAll('b')[1].textContent, s.dataset.step])"""
    )
    assert [tuple(s) for s in shown] == [(p, slot, shape, times(eval(v)), step) for p, slot, shape, v, step in said]
    pipes = {row[0] for row in columns(bench.text("queues"))}
    assert set(root.locator(".pw-pipe").evaluate_all("(all) => all.map((p) => p.dataset.pipe)")) == pipes


def test_variables(bench: Workbench, root: Any, at: int) -> None:
    said = [
        (row[0], row[2], times(eval(row[3])) if row[3] else "", row[4], row[6].removeprefix("step "))
        for row in columns(bench.text("variables"))
    ]
    shown = root.locator("tr[data-v]").evaluate_all(
        """(all) => all.map((r) => [r.dataset.v, r.cells[2].textContent, r.cells[3].textContent,
            r.cells[4].textContent, r.dataset.written])"""
    )
    assert [tuple(s) for s in shown] == said


def test_graph(bench: Workbench, root: Any, at: int) -> None:
    tab(root, "Graph")
    text = bench.text("graph")
    nodes, edges = map(int, re.search(r": (\d+) nodes?, (\d+) edges?", text).groups())
    assert root.locator(".pw-graph g.node").count() == nodes
    assert root.locator(".pw-graph g.edge").count() == edges
    here = text.rpartition("nodes of the current line: ")[2]
    said = [] if here == "none" else re.findall(r"\b(n\d+) ", here + " ")
    shown = root.locator(".pw-graph g.node.pw-now").evaluate_all("(all) => all.map((g) => g.id.split('-').at(-1))")
    assert sorted(shown) == sorted(said)


def test_memory(bench: Workbench, root: Any, at: int) -> None:
    tab(root, "Memory")
    said = set(re.findall(r"^  (\w+): (\w+) (0x[0-9a-f]+), (\d+) B, since step (\d+)$", bench.text("memory"), re.M))
    shown = root.locator(".pw-life").evaluate_all(
        "(all) => all.map((g) => [g.dataset.name, g.querySelector('title').textContent])"
    )
    boxes = {
        (name, *re.search(r": (\w+) (0x[0-9a-f]+), (\d+) B, steps? (\d+)", title).groups()) for name, title in shown
    }
    assert said <= boxes


def test_numbers(bench: Workbench, root: Any) -> None:
    tab(root, "Numbers")
    panel = root.locator(".pw-panel:visible").inner_text()
    blocks = bench.text("numbers").split("\n\n")
    assert blocks
    for block in blocks:
        name, verdict = re.match(r"(\w+): (match|mismatch)", block).groups()
        assert name in panel
        assert verdict in root.locator("header").inner_text()
        for line in bench.numbers[0].comparison.lines():
            assert line in panel


def test_passes(bench: Workbench, root: Any) -> None:
    tab(root, "Passes")
    said = re.findall(r"^(\d\d) (\w+): (first|changed|same)", bench.text("passes"), re.MULTILINE)
    shown = texts(root.get_by_role("listbox", name="Passes").get_by_role("option"))
    assert len(said) == len(shown) == len(bench.stages)
    for (number, name, state), row in zip(said, shown, strict=True):
        assert row.startswith(f"{number} {name}")
        assert state == "first" or state in row


def test_artifacts_and_checks(bench: Workbench, root: Any) -> None:
    tab(root, "Artifacts")
    listed = texts(root.get_by_role("listbox", name="Artifacts").get_by_role("option"))
    said = bench.text("artifacts")
    assert len(listed) == len(bench.artifacts) > 1
    for artifact in bench.artifacts:
        assert artifact.name in said
        assert any(artifact.name.rpartition("/")[2] in row for row in listed)
    tab(root, "Checks")
    panel = root.locator(".pw-panel:visible").inner_text()
    said = bench.text("checks")
    for finding in ("W901", "a made-up finding", "do this instead"):
        assert finding in said
        assert finding in panel


def test_every_view_of_the_page_has_a_text(bench: Workbench, root: Any) -> None:
    tabs = [t.lower() for t in root.locator("nav [role=tab]").all_inner_texts()]
    assert set(tabs) - {"step"} <= set(bench.views)
    assert all(bench.text(view) for view in bench.views)
