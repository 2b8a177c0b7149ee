"""The records of memory, shape, fill, gather, sort, system and distributed ops: all tested, sound, and callable."""

from __future__ import annotations

import inspect
from string import Formatter

import pytest
import test_array
import test_crosscore
import test_distributed
import test_fill
import test_gather
import test_memory
import test_prefetch
import test_shape
import test_sort
import test_system
import test_task
from moving import function

from pypto_lab.ops import (
    OPS,
    array,
    crosscore,
    distributed,
    fill,
    gather,
    memory,
    prefetch,
    shape,
    sort,
    system,
    task,
)
from pypto_lab.ops.record import REQUIRED, Effect, Op

FAMILIES = {
    memory: test_memory,
    shape: test_shape,
    fill: test_fill,
    gather: test_gather,
    sort: test_sort,
    array: test_array,
    task: test_task,
    system: test_system,
    crosscore: test_crosscore,
    prefetch: test_prefetch,
    distributed: test_distributed,
}
MODULES = {family.__name__ for family in FAMILIES}
RECORDS = [op for op in OPS if op.infer.__module__ in MODULES]
NEEDS_SCRIPT = ("cross_core_rt.", "aiv_shard", "aic_gather")
"""Calls the script generator writes itself."""


@pytest.mark.parametrize("family", FAMILIES, ids=lambda m: m.__name__.rpartition(".")[2])
def test_every_op_of_a_family_is_tested(family: object) -> None:
    name = getattr(family, "__name__", "")
    assert {op.name for op in RECORDS if op.infer.__module__ == name} == FAMILIES[family].COVERS  # type: ignore[index]


def test_the_families_are_about_half_of_all_ops() -> None:
    assert len(RECORDS) == 312 - 163


@pytest.mark.parametrize("op", RECORDS, ids=lambda op: op.name)
def test_records_are_sound(op: Op) -> None:
    names = [p.name for p in (*op.args, *op.attrs)]
    assert len(names) == len(set(names))
    assert op.doc.endswith(".")
    assert "\n" not in op.doc
    assert {p.name for p in op.parameters} <= set(names)
    missing = [p for p in (*op.args, *op.attrs) if p.default is REQUIRED and p not in op.parameters]
    assert not missing, "users must be able to give what is required"
    optional_from = next((i for i, a in enumerate(op.args) if a.default is not REQUIRED), len(op.args))
    assert all(a.default is not REQUIRED for a in op.args[optional_from:]), "optional arguments come last"
    assert all(a.printed or a.default is not REQUIRED for a in op.attrs)
    if op.torch.writes is not None:
        assert op.args[op.torch.writes].effect in (Effect.WRITE, Effect.READ_WRITE)
    for _, field, _, _ in Formatter().parse(op.torch.plain or ""):
        assert field is None or int(field) < len(op.args) if (field or "0").isdigit() else op.attr(str(field))


@pytest.mark.parametrize(
    "op", [op for op in RECORDS if not op.torch.call.startswith(NEEDS_SCRIPT)], ids=lambda op: op.name
)
def test_the_torch_form_fits_its_function(op: Op) -> None:
    """Arguments go by position; of attributes and facts the function takes those that change its value."""
    signature = inspect.signature(function(op.torch.call))
    passed = [None for a in op.args if a.effect is not Effect.NONE]
    required = [None for a in op.args if a.effect is not Effect.NONE and a.default is REQUIRED]
    known = {a.name: None for a in op.attrs if a.name in signature.parameters} | dict.fromkeys(op.torch.result)
    if op.torch.writes is not None:
        known["copy"] = None
    signature.bind(*passed, **known)
    signature.bind(*required, **{a.name: None for a in op.attrs if a.default is REQUIRED and a.name in known})
