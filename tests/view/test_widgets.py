"""Widgets in Python: one shared library, folding by message, a text form. The browser side is tested in a browser."""

from __future__ import annotations

import gzip

import pytest

pytest.importorskip("anywidget")

from pypto_lab.view import assets
from pypto_lab.view.graph import graph
from tests.view.programs import loop_program, mixed_program


def test_widgets_share_one_library() -> None:
    one, two = graph(loop_program()).widget(), graph(mixed_program()).widget()
    assert one.library is two.library
    assert gzip.decompress(one.library.source).decode() == assets.text("viz.js.gz")
    assert len(one._esm) < 50_000


def test_a_message_folds_and_unfolds_a_cluster() -> None:
    found = graph(loop_program())
    widget = found.widget()
    loop = next(c.id for c in found.clusters if c.kind == "loop")
    before = dict(widget.payload)
    widget._handle_custom_msg({"toggle": loop}, [])
    assert widget.payload["dot"] == found.folded([loop]).dot()
    assert len(widget.payload["titles"]) < len(before["titles"])
    widget._handle_custom_msg({"toggle": loop}, [])
    assert widget.payload == before


@pytest.mark.parametrize("content", [{"toggle": "nothing"}, {"toggle": ["c0"]}, {}, "toggle", None, {"toggle": None}])
def test_messages_that_mean_nothing_change_nothing(content: object) -> None:
    widget = graph(loop_program()).widget()
    before = dict(widget.payload)
    widget._handle_custom_msg(content, [])
    assert widget.payload == before


def test_the_text_form_gives_the_same_answer() -> None:
    found = graph(loop_program())
    bundle = found.widget()._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data["text/plain"] == found.text()
