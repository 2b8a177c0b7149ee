"""Parts: one tree, the same answer as HTML, as text and as SVG."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_lab.view import parts
from pypto_lab.view.parts import (
    Chip,
    Code,
    Figure,
    Heading,
    Pair,
    Part,
    Pre,
    Report,
    Stack,
    Table,
    Tabs,
    Text,
    page_html,
    to_html,
    to_svg,
    to_text,
)

TABLE = Table(
    ("output", "max abs"), ((Text("out"), Text("0.5")), (Text("中文"), Text("12.25"))), frozenset({"max abs"}), "Errors"
)
REPORT = Report(
    "softmax",
    "frontend stage",
    (Chip("match", True), Chip("seed 0")),
    Tabs((("Numbers", Stack((TABLE, Text("all fine", "good")))), ("Script", Code("x = 1\n", "script")))),
)


class Reader(HTMLParser):
    """Checks that tags are balanced and collects the text outside style and script."""

    VOID = frozenset({"meta", "br", "img", "path", "rect", "circle", "line"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.words.append(data)


def read(text: str) -> str:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return "".join(reader.words)


def test_text_form_of_a_table_is_aligned_also_with_wide_characters() -> None:
    assert to_text(TABLE).splitlines() == ["Errors", "output  max abs", "out         0.5", "中文      12.25"]


def test_text_form_of_a_report_has_every_panel() -> None:
    text = to_text(REPORT)
    assert text.splitlines()[0] == "softmax frontend stage [ok: match, seed 0]"
    assert "-- Numbers --" in text
    assert "-- Script --" in text
    assert "    1  x = 1" in text


def test_html_says_what_the_text_says() -> None:
    words = read(to_html(REPORT))
    for expected in ("softmax", "match", "Numbers", "all fine", "0.5", "中文", "Script"):
        assert expected in words


def test_a_failed_chip_is_said_in_words_and_marks() -> None:
    chip = Chip("mismatch", False)
    assert "✗" in read(to_html(chip))
    assert "NOT OK: mismatch" in to_text(Report("k", "", (chip,), Text("")))


def test_nothing_is_loaded_from_elsewhere() -> None:
    page = page_html("title", Stack((REPORT, Figure("<svg></svg>", "figure", "text"))))
    assert not re.search(r'(?:src|href)\s*=\s*["\']?https?:', page)
    assert not re.search(r"(?:@import|url\()\s*[\"']?https?:", page)


def test_colours_come_from_the_host_with_fallbacks() -> None:
    style = to_html(Text("x"))
    used = re.findall(r"var\((--jp-[\w-]+)(,?)", style)
    assert len(used) > 15
    assert all(comma for _, comma in used)


def test_linked_rows_carry_the_link() -> None:
    pair = Pair(Code("a\nb\n", "source", {2: "L2"}), Code("c\n", "script", {1: "L2"}, start=1))
    html = to_html(pair)
    assert html.count('data-link="L2"') == 2
    assert "pl-two" in html


def test_code_is_highlighted_and_escaped_line_by_line() -> None:
    html = to_html(Code('def f(x):\n    """a\n    b"""\n    return x < 1 and "&"\n', "code"))
    rows = re.findall(r'<span class="pl-row".*?>(.*?)</span>(?=<span class="pl-row"|</div>)', html)
    assert len(rows) == 4
    assert "&lt;" in rows[3]
    assert "pl-tok-k" in rows[3]
    assert all(row.count("<span") == row.count("</span>") for row in rows)


@pytest.mark.parametrize("part", [Text("x"), Heading("h"), Pre("a\n  b"), TABLE, REPORT, Code("", "empty")])
def test_svg_is_well_formed_and_says_the_text(part: Part) -> None:
    root = ElementTree.fromstring(to_svg(part))
    drawn = [t.text or "" for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [d.rstrip() for d in drawn] == (to_text(part).splitlines() or [""])


def test_a_figure_is_its_own_picture() -> None:
    assert to_svg(Figure("<svg/>", "f", "t")) == "<svg/>"
    assert to_text(Figure("<svg/>", "f", "the text")) == "the text"


words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
leaves: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, words, st.sampled_from(parts.TONES)),
    st.builds(Heading, words),
    st.builds(Pre, words),
    st.builds(Chip, words, st.sampled_from([True, False, None])),
    st.builds(Code, words, words),
    st.builds(lambda a, b: Table(("a", "b"), ((Text(a), Text(b)),)), words, words),
)
trees: st.SearchStrategy[Part] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda p: Stack(tuple(p)), st.lists(inner, max_size=3)),
        st.builds(lambda p: Tabs(tuple(p)), st.lists(st.tuples(words, inner), min_size=1, max_size=3)),
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(trees)
def test_any_tree_renders_balanced_and_escaped(tree: Part) -> None:
    read(to_html(tree))
    assert isinstance(to_text(tree), str)
    ElementTree.fromstring(to_svg(tree))
