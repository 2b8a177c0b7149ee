"""The workbench of a run of `.pto` text: it shows the text, stands where the Session stands, says where tiles lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from shown_state import DATA, assert_shows

import pypto_lab as lab
from pypto_lab.view.workbench import Workbench, workbench

ADDRESSES = """(root) => Object.fromEntries([...root.querySelectorAll('tr[data-v]')]
    .filter((r) => r.cells[1].textContent === 'tile')
    .map((r) => [r.dataset.v, [r.cells[5].textContent, r.cells[6].textContent]]))"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("built") / "k17"
    case = lab.case(DATA / "kernels" / "k17_bias_updown" / "kernel.py")
    build = lab.compile(case, folder, arch="a2a3")
    return workbench(lab.record_build(folder, case.make_inputs(0)), case=case, build=build)


@pytest.fixture(scope="module")
def address(bench: Workbench, tmp_path_factory: pytest.TempPathFactory) -> str:
    bench.session.goto(1)
    return bench.save(tmp_path_factory.mktemp("page") / "pto.html").as_uri()


def opened(visit: Callable[..., Any], address: str) -> tuple[Any, Any]:
    page = visit().page
    page.goto(address)
    page.wait_for_selector(".pw-shell")
    return page, page.locator(".pw-root")


def addresses(bench: Workbench) -> dict[str, list[str]]:
    """Space and address of the tiles that the session places."""
    placed = [(v.name, v.place) for v in bench.session.variables() if v.place is not None]
    return {name: [place.space.capitalize(), hex(place.low)] for name, place in placed}


def test_each_step_shows_the_text_the_lanes_and_the_addresses(
    visit: Callable[..., Any], bench: Workbench, address: str
) -> None:
    page, root = opened(visit, address)
    assert root.locator(".pw-src [role=tab]").first.text_content() == "mm_rows.pto"
    page.locator(".pw-track").focus()
    page.keyboard.press("Home")
    bench.session.goto(0)
    seen: set[str] = set()
    length = len(bench.session)
    for key, move in [("ArrowRight", bench.session.step)] * length + [("ArrowLeft", bench.session.back)] * length:
        page.keyboard.press(key)
        move()
        assert_shows(root, bench)
        shown = root.evaluate(ADDRESSES)
        assert shown == addresses(bench), bench.session.position
        seen |= {space for space, _ in shown.values()}
    assert seen == {"Mat", "Left", "Right", "Acc", "Vec"}


def test_the_source_shows_the_text_on_disk_and_where_it_comes_from(
    visit: Callable[..., Any], bench: Workbench, address: str
) -> None:
    page, root = opened(visit, address)
    page.locator(".pw-track").focus()
    text = bench.artifacts[0].text.splitlines()
    assert root.locator(".pw-src .pw-ln").count() == len(text)
    page.keyboard.press("Home")
    bench.session.goto(0)
    told = 0
    for _ in range(len(bench.session)):
        page.keyboard.press("ArrowRight")
        step = bench.session.step()
        assert step is not None
        statement = step.statement
        assert statement is not None
        if statement.spot is None or not statement.spot.file.endswith(".pto"):
            continue
        row = root.locator(".pw-ln[aria-current]")
        page.wait_for_function(
            "(n) => document.querySelector('.pw-ln[aria-current]')?.dataset.n === n", arg=str(statement.spot.line)
        )
        assert (row.locator("code").text_content() or "").split() == text[statement.spot.line - 1].split()
        origin = root.locator(".pw-origin")
        if statement.origin is None:
            assert origin.is_hidden()
            continue
        assert origin.text_content() == f"from {statement.origin.file}:{statement.origin.line}"
        told += 1
    assert told > 20


def test_a_name_is_struck_out_once_another_tile_lies_there(
    visit: Callable[..., Any], bench: Workbench, address: str
) -> None:
    page, root = opened(visit, address)
    line = next(i for i, row in enumerate(bench.artifacts[0].text.splitlines(), 1) if "pto.trowexpandmul" in row)
    root.locator(f".pw-ln[data-n='{line}'] code").scroll_into_view_if_needed()
    root.locator(f".pw-ln[data-n='{line}'] code").click()
    page.locator(".pw-track").focus()
    page.keyboard.press("F8")
    page.wait_for_function("(n) => document.querySelector('.pw-ln[aria-current]')?.dataset.n === n", arg=str(line))
    struck = [s.text_content() for s in root.locator("tr[data-v] s").all()]
    assert "t__tile" in struck, "the sum's bytes hold the product now"
    assert "y__tile" not in struck
