"""On-core arrays."""

from __future__ import annotations

from typing import Any

import pytest
from moving import infer
from op_running import scalar, var

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.types import ArrayType
from pypto_lab.torch_codegen.runtime import arrays

COVERS = {"array.create", "array.get_element", "array.update_element"}

ARRAY = var(ArrayType(n.const(4), dtypes.INT32), "a")
TASKS = var(ArrayType(n.const(4), dtypes.TASK_ID), "t")


def test_array_ops_have_the_array_and_its_element_as_types() -> None:
    made = infer("array.create", 4, dtype=dtypes.TASK_ID)
    assert isinstance(made.type, ArrayType)
    assert made.type.dtype is dtypes.TASK_ID
    assert infer("array.get_element", ARRAY, 3).type.dtype is dtypes.INT32
    assert infer("array.update_element", ARRAY, scalar(dtypes.INDEX), 7).type is ARRAY.type
    assert infer("array.update_element", TASKS, 0, scalar(dtypes.TASK_ID)).type is TASKS.type


def test_elements_start_at_zero_and_task_ids_invalid() -> None:
    assert arrays._array_create(3, dtype="TASK_ID") == [-1, -1, -1]
    assert arrays._array_create(2, dtype=None) == [0, 0]


def test_an_update_is_in_place_or_on_a_copy() -> None:
    array = [1, 2, 3]
    assert arrays._array_update(array, 1, 9, copy=True) == [1, 9, 3]
    assert array == [1, 2, 3]
    assert arrays._array_update(array, 1, 9) is array
    assert array == [1, 9, 3]
    assert arrays._array_get(array, 1) == 9


@pytest.mark.parametrize("index", [-1, 3])
def test_elements_outside_are_named(index: int) -> None:
    with pytest.raises(RuntimeError, match=f"array.get_element: index {index} leaves the array of 3"):
        arrays._array_get([1, 2, 3], index)
    with pytest.raises(RuntimeError, match=r"array.update_element"):
        arrays._array_update([1, 2, 3], index, 0)


ERRORS: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("array.create", [0], {"dtype": dtypes.INT32}, "positive constant extent"),
    ("array.create", [scalar(dtypes.INDEX)], {"dtype": dtypes.INT32}, "positive constant extent"),
    ("array.create", [4], {"dtype": dtypes.FP32}, "integers, booleans or task ids"),
    ("array.get_element", [ARRAY, 4], {}, "index 4 is outside"),
    ("array.get_element", [ARRAY, 1.5], {}, "needs an integer"),
    ("array.get_element", [scalar(dtypes.INDEX), 0], {}, "needs an array"),
    ("array.update_element", [ARRAY, 0, 1.5], {}, "does not go into"),
    ("array.update_element", [TASKS, 0, 1], {}, "does not go into"),
]


@pytest.mark.parametrize(("name", "operands", "attrs", "words"), ERRORS)
def test_arrays_refuse(name: str, operands: list[Any], attrs: dict[str, Any], words: str) -> None:
    with pytest.raises(OpError, match=words):
        infer(name, *operands, **attrs)
