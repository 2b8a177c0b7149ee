"""The registry as a whole: every registered op has a record, every record is sound, every compute op is tested."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
import test_broadcast
import test_cast
import test_comparison
import test_elementwise
import test_matmul
import test_reductions
from op_running import runtime

import pypto_lab.torch_codegen.runtime as runtime_package
from pypto_lab.ops import OPS, broadcast, cast, comparison, elementwise, matmul, reductions
from pypto_lab.ops.record import REQUIRED, Effect, Op
from pypto_lab.torch_codegen.runtime import lanes

NAMES = (Path(__file__).parent.parent / "data" / "op_names.txt").read_text().split()
PAIRS = "add|sub|mul|div|fmod|part_add|part_mul|part_max|part_min|maximum|minimum"
FAMILIES = {
    "elementwise": rf"({PAIRS}|rem)s?|(add|sub)s?c|neg|abs|exp|log|sin|cos|r?sqrt|recip|l?relu|prelu|not|"
    r"(and|or|xor|shl|shr)s?",
    "reductions": r"(row|col)_(sum|max|min|prod|argmax|argmin)",
    "broadcast": r"(row|col)_expand(_\w+)?|expands|expand_clone",
    "cast": r"cast",
    "comparison": r"cmps?|sels?",
    "matmul": r"(batch_)?matmul(_\w+)?|gemv(_\w+)?|tget_scale_addr",
}
RECORDS = {
    "elementwise": elementwise,
    "reductions": reductions,
    "broadcast": broadcast,
    "cast": cast,
    "comparison": comparison,
    "matmul": matmul,
}
TESTED = {
    "elementwise": test_elementwise.COVERS,
    "reductions": test_reductions.COVERS,
    "broadcast": test_broadcast.COVERS,
    "cast": test_cast.COVERS,
    "comparison": test_comparison.COVERS,
    "matmul": test_matmul.COVERS,
}


def family(name: str) -> set[str]:
    """The registered tensor and tile ops of a family."""
    pattern = re.compile(rf"(tensor|tile)\.({FAMILIES[name]})")
    return {op for op in NAMES if pattern.fullmatch(op)}


COMPUTE = sorted(set().union(*(family(name) for name in FAMILIES)))


def runtime_functions() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for module in pkgutil.iter_modules(runtime_package.__path__):
        loaded = importlib.import_module(f"{runtime_package.__name__}.{module.name}")
        found.update(
            {k: v for k, v in vars(loaded).items() if inspect.isfunction(v) and v.__module__ == loaded.__name__}
        )
    return found


def test_all_registered_names_have_a_record() -> None:
    assert len(NAMES) == len(set(NAMES)) == 312
    assert [name for name in NAMES if name not in OPS] == []


def test_no_record_for_a_name_that_is_not_registered() -> None:
    assert [op.name for op in OPS if op.name not in NAMES] == []


def test_the_families_hold_what_is_registered() -> None:
    assert len(COMPUTE) == 163
    assert sum(len(family(name)) for name in FAMILIES) == len(COMPUTE), "families overlap"


@pytest.mark.parametrize("name", FAMILIES)
def test_every_op_of_a_family_has_a_value_test(name: str) -> None:
    assert family(name) == TESTED[name]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_has_its_module(name: str) -> None:
    rules = {id(value) for value in vars(RECORDS[name]).values() if callable(value)}
    assert all(id(OPS[op].infer) in rules for op in family(name))


@pytest.mark.parametrize("op", [OPS[name] for name in COMPUTE], ids=lambda op: op.name)
def test_the_torch_form_fits_its_function(op: Op) -> None:
    """The function takes what the generator passes: arguments by position, attributes and facts by keyword."""
    function = runtime(op.torch.call)
    passed = [None for a in op.args if a.effect is not Effect.NONE]
    words = {a.name: None for a in op.attrs} | dict.fromkeys(op.torch.result)
    if op.torch.writes is not None:
        words["copy"] = None
    inspect.signature(function).bind(*passed, **words)
    required = [None for a in op.args if a.effect is not Effect.NONE and a.default is REQUIRED]
    inspect.signature(function).bind(*required, **{a.name: None for a in op.attrs if a.default is REQUIRED})


@pytest.mark.parametrize("op", [OPS[name] for name in COMPUTE], ids=lambda op: op.name)
def test_records_are_sound(op: Op) -> None:
    names = {a.name for a in op.args} | {a.name for a in op.attrs}
    assert len(names) == len(op.args) + len(op.attrs)
    assert op.doc.endswith(".")
    assert "\n" not in op.doc
    assert {p.name for p in op.parameters} == names
    assert op.scalar_form is None or op.scalar_form in OPS
    assert (op.pto is not None) == (op.namespace == "tile" and "batch" not in op.name)
    for _, field, _, _ in Formatter().parse(op.torch.plain or ""):
        assert field is None or field.isdigit() or op.attr(field) is not None
    if op.torch.writes is not None:
        assert op.args[op.torch.writes].effect is Effect.READ_WRITE
    if op.namespace == "tile":
        assert op.output_space is not None


def test_every_record_names_a_runtime_function() -> None:
    """A call with a dot is a method of the cross-core runtime."""
    functions = runtime_functions()
    names = {op.name: op.torch.call for op in OPS if op.torch.call}
    plain = {op: call for op, call in names.items() if "." not in call and f"_{call}" not in functions}
    assert plain == {}
    for owner, _, method in (call.partition(".") for call in names.values() if "." in call):
        assert owner == "cross_core_rt"
        assert callable(getattr(lanes._cross_core_rt, method))


def test_scratch_is_not_read() -> None:
    scratch = {op.name: [a.name for a in op.args if a.effect is Effect.NONE] for op in OPS if op.name in COMPUTE}
    assert {name for name, found in scratch.items() if found} == {
        *(f"tile.row_{fold}" for fold in ("sum", "max", "min", "prod", "argmax", "argmin")),
        *("tile.col_sum", "tile.col_argmax", "tile.col_argmin", "tile.rem", "tile.rems", "tile.xor", "tile.xors"),
        *("tile.prelu", "tile.sel", "tile.sels", "tile.rsqrt", "tile.row_expand_add", "tile.tget_scale_addr"),
    }


def test_dsl_spellings_are_unique_in_a_namespace() -> None:
    for space in ("tensor", "tile"):
        spellings = [s for op in OPS if op.namespace == space and op.name in COMPUTE for s in op.dsl]
        assert len(spellings) == len(set(spellings))
