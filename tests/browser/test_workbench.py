"""The workbench as a page: offline it shows what a Session says, step by step, both ways, by keyboard and by mouse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from shown_state import LANED, assert_shows, full_bench, step_by_keyboard, step_by_mouse

from pypto_lab.view.workbench import Workbench

STEPS = 50


@pytest.fixture(scope="module")
def pages(benches: dict[str, Workbench], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pages")
    for bench in benches.values():
        bench.session.goto(1)
    return {name: bench.save(folder / f"{name}.html").as_uri() for name, bench in benches.items()}


def opened_page(visit: Callable[..., Any], address: str, **options: Any) -> tuple[Any, Any]:
    opened = visit(**options)
    opened.page.goto(address)
    opened.page.wait_for_selector(".pw-shell")
    return opened, opened.page.locator(".pw-root")


@pytest.mark.parametrize("name", LANED)
def test_a_page_shows_what_the_session_says_by_keyboard(
    visit: Callable[..., Any], benches: dict[str, Workbench], pages: dict[str, str], name: str
) -> None:
    opened, root = opened_page(visit, pages[name])
    step_by_keyboard(opened.page, root, benches[name], STEPS)


@pytest.mark.parametrize("name", LANED)
def test_a_page_shows_what_the_session_says_by_mouse(
    visit: Callable[..., Any], benches: dict[str, Workbench], pages: dict[str, str], name: str
) -> None:
    opened, root = opened_page(visit, pages[name])
    step_by_mouse(opened.page, root, benches[name], STEPS)


def test_every_key_moves_as_the_session_does(
    visit: Callable[..., Any], benches: dict[str, Workbench], pages: dict[str, str]
) -> None:
    bench = benches["k32_pipe_bidir_dual"]
    opened, root = opened_page(visit, pages["k32_pipe_bidir_dual"])
    session, press = bench.session, opened.page.keyboard.press
    opened.page.locator(".pw-track").focus()
    press("Home")
    session.goto(0)
    moves = {
        "ArrowRight": session.step, "ArrowDown": session.next_event, "F10": session.over, "F11": session.into,
        "n": session.next_event, "ArrowUp": session.previous_event, "Shift+F10": session.back_over,
        "Shift+F11": session.out, "ArrowLeft": session.back, "F8": session.run, "Shift+F8": session.run_back,
    }  # fmt: skip
    pattern = [*["ArrowRight"] * 16, "F10", "ArrowDown", "F10", "F11", "n", "ArrowUp", "Shift+F10", "F10", "Shift+F11",
               "ArrowLeft", "ArrowLeft", "Shift+F8", "ArrowRight", "F8", "ArrowLeft"]  # fmt: skip
    for key in pattern:
        press(key)
        moves[key]()
        assert_shows(root, bench)
    press("Home")
    session.goto(0)
    press("End")
    session.end()
    assert_shows(root, bench)
    lanes = bench.recording.lanes
    for key in ("[", "]", "]"):
        press(key)
        at = lanes.index(session.focus.lane) + (1 if key == "]" else -1)
        session.focus_on(lanes[at % len(lanes)])
        assert_shows(root, bench)
    session.follow()


def test_breakpoints_scrubbing_search_and_writers(
    visit: Callable[..., Any], benches: dict[str, Workbench], pages: dict[str, str]
) -> None:
    bench = benches["k17_bias_updown"]
    opened, root = opened_page(visit, pages["k17_bias_updown"])
    page = opened.page
    count = root.locator(".pw-count b")
    root.locator(".pw-ln[data-n='35'] code").scroll_into_view_if_needed()
    root.locator(".pw-ln[data-n='35'] code").click()
    assert root.locator(".pw-bp[data-line='35']").get_attribute("aria-pressed") == "true"
    root.locator("[data-a=run]").click()
    assert count.text_content() == "29"
    root.locator("[data-a=run]").click()
    assert count.text_content() == "44"
    page.locator(".pw-track").focus()
    page.keyboard.press("b")
    assert root.locator(".pw-bp[aria-pressed=true]").count() == 0
    box = root.locator(".pw-track").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 40)
    half = int(count.text_content())
    assert abs(half - len(bench.recording) / 2) <= 1
    page.keyboard.press("/")
    page.keyboard.type("tile.store")
    page.keyboard.press("Enter")
    assert count.text_content() == "31"
    page.keyboard.press("Escape")
    page.keyboard.press("End")
    root.locator("[data-pin=out_ssa_v1]").click()
    assert root.locator("[data-tile]").get_attribute("data-tile") == "out_ssa_v1"
    root.locator(".pw-tv").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    bench.session.end()
    author = bench.session.who_wrote("out_ssa_v1", (0, 0))
    assert author.step == 31
    assert count.text_content() == str(author.step)
    assert f"step {author.step}" in (root.locator(".pw-said").text_content() or "")


def test_keys_act_only_while_the_workbench_has_the_focus(visit: Callable[..., Any], pages: dict[str, str]) -> None:
    opened, root = opened_page(visit, pages["k17_bias_updown"])
    opened.page.keyboard.press("ArrowRight")
    assert root.locator(".pw-count b").text_content() == "1"
    opened.page.locator(".pw-track").focus()
    opened.page.keyboard.press("ArrowRight")
    assert root.locator(".pw-count b").text_content() == "2"


@pytest.fixture(scope="module")
def full_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a workbench with every view there is."""
    bench = full_bench("k17_bias_updown", tmp_path_factory.mktemp("build"))
    return bench.save(tmp_path_factory.mktemp("full") / "full.html").as_uri()


@pytest.mark.parametrize(
    "look", [{"scheme": "light"}, {"scheme": "dark"}, {"forced_colors": "active"}], ids=["light", "dark", "forced"]
)
def test_every_view_is_accessible(visit: Callable[..., Any], full_page: str, look: dict[str, str]) -> None:
    name = look.get("scheme", "forced")
    opened, root = opened_page(visit, full_page, height=720, **look)
    opened.page.locator(".pw-track").focus()
    for _ in range(41):
        opened.page.keyboard.press("ArrowRight")
    tabs = [t.text_content() for t in root.locator("nav [role=tab]").all()]
    assert tabs == ["Step", "Numbers", "Graph", "Memory", "Passes", "Artifacts", "Checks"]
    for tab in tabs:
        root.locator("nav").get_by_role("tab", name=tab).click()
        assert root.locator(".pw-panel:visible").count() == 1
        assert opened.serious_findings(".pw-root") == [], tab
        opened.picture(f"workbench_{(tab or '').lower()}_{name}")
    root.locator("nav").get_by_role("tab", name="Step").click()
    root.get_by_role("radio", name="table").click()
    root.get_by_role("tab", name="torch").click()
    assert opened.serious_findings(".pw-root") == []
    opened.picture(f"workbench_table_{name}")


@pytest.mark.parametrize("width", [420, 700])
def test_a_narrow_page_does_not_scroll_sideways(visit: Callable[..., Any], pages: dict[str, str], width: int) -> None:
    opened, root = opened_page(visit, pages["k32_pipe_bidir_dual"], width=width)
    opened.page.locator(".pw-track").focus()
    for _ in range(28):
        opened.page.keyboard.press("ArrowRight")
    for tab in root.locator("nav [role=tab]").all():
        tab.click()
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        opened.picture(f"workbench_narrow_{width}_{(tab.text_content() or '').lower()}")


def test_without_scripts_the_state_is_there_as_text(browser: Any, pages: dict[str, str]) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(pages["k17_bias_updown"])
    assert "workbench of k17_bias_updown: 51 steps" in page.locator("noscript").inner_text()
    context.close()
