"""Reports and graphs as pages of their own: they work by keyboard, in light and dark, offline, and without scripts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pypto_lab as lab
from pypto_lab.results import Options, run_case
from pypto_lab.view import draw
from pypto_lab.view.graph import graph
from pypto_lab.view.report import Result

KERNEL = Path(lab.__file__).parent / "examples" / "softmax_rows.py"


@pytest.fixture(scope="module")
def right() -> Result:
    return run_case(lab.case(KERNEL), Options(poison=True))


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Result:
    text = KERNEL.read_text().replace("pl.range(ROWS // CHUNK)", "pl.range(2)")
    path = tmp_path_factory.mktemp("wrong") / "softmax_rows.py"
    path.write_text(text)
    return run_case(lab.case(path))


def focused(page: Any) -> str:
    return str(page.evaluate("document.activeElement.textContent"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_tabs_work_by_keyboard(visit: Callable[..., Any], right: Result, tmp_path: Path, scheme: str) -> None:
    opened = visit(scheme=scheme)
    page = opened.page
    page.goto(right.save(tmp_path / "r.html").as_uri())
    assert [t.text_content() for t in page.get_by_role("tab").all()] == ["Numbers", "Script", "Graph"]
    page.keyboard.press("Tab")
    assert focused(page) == "Numbers"
    for name, key in (("Script", "ArrowRight"), ("Graph", "ArrowRight"), ("Numbers", "ArrowRight"), ("Graph", "End")):
        page.keyboard.press(key)
        assert focused(page) == name
        assert page.get_by_role("tabpanel", name=name).is_visible()
        assert len([p for p in page.locator("section").all() if p.is_visible()]) == 1
        assert opened.serious_findings("main") == []
        opened.picture(f"report_{name.lower()}_{scheme}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_mismatch_is_shown_in_words_and_on_the_map(
    visit: Callable[..., Any], wrong: Result, tmp_path: Path, scheme: str
) -> None:
    opened = visit(scheme=scheme)
    opened.page.goto(wrong.save(tmp_path / "r.html").as_uri())
    panel = opened.page.get_by_role("tabpanel", name="Numbers")
    assert "of 3072 cells" in panel.inner_text()
    assert "rows 32-47" in panel.inner_text()
    assert opened.page.locator("svg.pl-heat").is_visible()
    assert opened.serious_findings("main") == []
    opened.picture(f"report_wrong_{scheme}")


def test_without_scripts_every_panel_is_there(browser: Any, right: Result, tmp_path: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(right.save(tmp_path / "r.html").as_uri())
    assert all(section.is_visible() for section in page.locator("section").all())
    assert page.locator("section").count() == 3
    context.close()


def test_a_narrow_page_does_not_scroll_sideways(
    visit: Callable[..., Any], right: Result, wrong: Result, tmp_path: Path
) -> None:
    for name, result in (("right", right), ("wrong", wrong)):
        opened = visit(width=420)
        opened.page.goto(result.save(tmp_path / f"{name}.html").as_uri())
        for tab in ("Numbers", "Script", "Graph"):
            opened.page.get_by_role("tab", name=tab).click()
            width = opened.page.evaluate("document.documentElement.scrollWidth")
            assert width <= 420, tab
            opened.picture(f"narrow_{name}_{tab.lower()}")


def test_pointing_at_a_row_lights_up_its_partners(visit: Callable[..., Any], right: Result, tmp_path: Path) -> None:
    page = visit().page
    page.goto(right.save(tmp_path / "r.html").as_uri())
    page.get_by_role("tab", name="Script").click()
    source, script = page.locator(".pl-code").all()
    row = source.locator(".pl-row", has_text="pl.row_max(part)")
    row.hover()
    lit = script.locator(".pl-lit")
    assert lit.count() >= 1
    assert "torch.amax(part" in lit.first.text_content()
    script_box, row_box = script.bounding_box(), lit.first.bounding_box()
    assert script_box["y"] <= row_box["y"] <= script_box["y"] + script_box["height"]


def test_the_script_starts_at_the_kernel(visit: Callable[..., Any], right: Result, tmp_path: Path) -> None:
    page = visit().page
    page.goto(right.save(tmp_path / "r.html").as_uri())
    page.get_by_role("tab", name="Script").click()
    page.wait_for_function("document.querySelectorAll('.pl-code')[1].scrollTop > 0")


def texts_outside_their_nodes(page: Any) -> list[str]:
    """Texts of graph nodes that stick out of the node's shape by more than a pixel."""
    return list(
        page.evaluate(
            """() => [...document.querySelectorAll('g.node')].flatMap((node) => {
                const box = node.querySelector('path, rect, polygon, ellipse').getBoundingClientRect();
                return [...node.querySelectorAll('text')].filter((text) => {
                    const own = text.getBoundingClientRect();
                    return own.left < box.left - 1 || own.right > box.right + 1;
                }).map((text) => text.textContent);
            })"""
        )
    )


@pytest.mark.parametrize("engine", draw.ENGINES)
def test_text_stays_inside_its_node(visit: Callable[..., Any], tmp_path: Path, engine: str) -> None:
    if engine not in draw.engines():
        pytest.skip(f"{engine} is not installed here")
    dump = Path(__file__).parent.parent / "data" / "kernels" / "k33_flash_mini" / "kernel.py"
    drawn = graph(lab.case(dump).program()).svg(engine=engine)
    opened = visit(width=1400)
    opened.page.set_content(f"<body>{drawn}</body>")
    assert opened.page.locator("g.node").count() > 20
    assert texts_outside_their_nodes(opened.page) == []
    opened.picture(f"graph_{engine}")


def test_where_nothing_can_draw_the_browser_does(
    visit: Callable[..., Any], right: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draw, "engines", lambda: ("own",))
    path = tmp_path / "graph.html"
    path.write_text(graph(right.program).html())
    opened = visit()
    opened.page.goto(path.as_uri())
    opened.page.wait_for_selector("g.node[data-node]")
    assert texts_outside_their_nodes(opened.page) == []
    assert opened.serious_findings("main") == []
    opened.picture("graph_browser")
