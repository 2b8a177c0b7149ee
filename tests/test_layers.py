"""Imports run one way: each layer may import those to its left, and the script runtime nothing but torch."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "pypto_lab"
LEVELS = (
    ("ir",),
    ("ops",),
    ("frontend", "torch_codegen", "lowering"),
    ("pto",),
    ("numerics", "record", "pro", "legality"),
    ("compat",),
    ("view",),
    ("cell",),
    ("results",),
    ("magic", "cli"),
)
LEVEL = {layer: level for level, layers in enumerate(LEVELS) for layer in layers}
WIDGET_LIBRARIES = {"anywidget", "ipywidgets", "traitlets", "plotly", "IPython", "ipykernel", "graphviz", "jupyterlab"}
NOT_LAYERS = {"__init__", "examples"}
"""The public API may import everything; the examples are kernels, not modules of the lab."""


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def modules() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py") if layer_of(p) not in NOT_LAYERS)


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, imported module) of every import that runs, those inside functions too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    unreal = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if node in unreal:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.lineno, node.module
            if node.module == "pypto_lab":
                yield from ((node.lineno, f"pypto_lab.{alias.name}") for alias in node.names)


def allowed(importer: str, imported: str) -> bool:
    """Whether a layer may import another: any layer to its left, and itself; the commands also the public names."""
    if imported not in LEVEL:
        return LEVEL[importer] == len(LEVELS) - 1
    return importer == imported or LEVEL[imported] < LEVEL[importer]


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_only_layers_to_its_left(path: Path) -> None:
    layer = layer_of(path)
    assert layer in LEVEL, f"{layer} is not a layer; give it a place in LEVELS"
    wrong = [
        f"line {line}: {name}"
        for line, name in imports(path)
        if name.startswith("pypto_lab.") and not allowed(layer, name.split(".")[1])
    ]
    assert not wrong, wrong


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_nothing_below_the_view_imports_a_widget_library(path: Path) -> None:
    if LEVEL.get(layer_of(path), 0) >= LEVEL["view"]:
        return
    wrong = [f"line {line}: {name}" for line, name in imports(path) if name.split(".")[0] in WIDGET_LIBRARIES]
    assert not wrong, wrong


RUNTIME = PACKAGE / "torch_codegen" / "runtime"


@pytest.mark.parametrize("path", sorted(RUNTIME.glob("*.py")), ids=lambda p: p.name)
def test_the_script_runtime_needs_torch_and_the_standard_library_only(path: Path) -> None:
    """Its text is copied into scripts that run where the lab is not installed."""
    for line, name in imports(path):
        top = name.split(".")[0]
        sibling = name.startswith("pypto_lab.torch_codegen.runtime.")
        assert sibling or top == "torch" or top in sys.stdlib_module_names, f"line {line}: {name}"


def test_the_check_sees_imports_inside_functions_and_not_those_for_types(tmp_path: Path) -> None:
    source = tmp_path / "m.py"
    source.write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a.b\n"
        "def f():\n    from pypto_lab import view\n"
    )
    found = [name for _, name in imports(source)]
    assert "a.b" not in found
    assert "pypto_lab.view" in found
    assert not allowed("ir", "view")
    assert not allowed("frontend", "torch_codegen")
    assert allowed("view", "numerics")
