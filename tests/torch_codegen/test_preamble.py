"""The preamble: reachability, order, and names that several runtime modules define."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from pypto_lab.torch_codegen import preamble as module
from pypto_lab.torch_codegen.preamble import helpers_in, library, preamble


def test_only_what_is_reached_is_carried() -> None:
    text = preamble(frozenset({"_copy_of"}))
    defined = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    assert defined == {"_copy_of", "_mark"}


def test_helpers_are_found_by_whole_names() -> None:
    assert helpers_in("x = _tile_load(a); b._mark(c); my_mark = 1") == {"_tile_load"}


def test_definitions_stand_after_what_they_need_at_once() -> None:
    found = library().definitions
    text = preamble(frozenset({"_run_members"}))
    assert text.index("class _Lane:") < text.index("_HOST_LANE =")
    assert found["_mark"].position < found["_copy_of"].position


def test_the_description_of_a_constant_goes_with_it() -> None:
    assert "How long one push or pop waits" in preamble(frozenset({"_PIPE_WAIT_TIMEOUT_SEC"}))


@pytest.fixture
def two_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "first.py").write_text(
        "from __future__ import annotations\n\nimport math\n\n\ndef _twice(x):\n    return 2 * x\n\n\n"
        "def _use_first(x):\n    return _twice(x) + math.floor(0.5)\n"
    )
    (tmp_path / "second.py").write_text(
        f"from {module.PACKAGE}.first import _twice as _other\n\n\ndef _twice(x):\n    return [x, x]\n\n\n"
        "def _use_second(x):\n    return _other(x)\n"
    )
    monkeypatch.setattr(module, "RUNTIME", tmp_path)
    module.library.cache_clear()
    module.preamble.cache_clear()
    yield
    module.library.cache_clear()
    module.preamble.cache_clear()


@pytest.mark.usefixtures("two_modules")
def test_a_name_of_two_modules_keeps_apart() -> None:
    names: dict[str, object] = {}
    exec(preamble(frozenset({"_use_first", "_use_second", "_twice"})), names)
    assert names["_use_first"](3) == 6  # type: ignore[operator]
    assert names["_use_second"](3) == 6  # type: ignore[operator]
    assert names["_twice"](3) == [3, 3]  # type: ignore[operator]
    assert "_twice_of_first" in names
