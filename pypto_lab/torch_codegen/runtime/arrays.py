"""Small on-core arrays of integers, booleans or task ids: Python lists."""

from __future__ import annotations

from typing import Any


def _array_create(extent: int, *, dtype: Any) -> list[int]:
    """A new array; task ids start as the invalid one, numbers as 0."""
    return [-1 if dtype == "TASK_ID" else 0] * extent


def _array_place(op: str, array: list[int], index: int) -> int:
    """A checked index. Raises RuntimeError outside the array."""
    if not 0 <= index < len(array):
        raise RuntimeError(f"{op}: index {index} leaves the array of {len(array)}")
    return index


def _array_get(array: list[int], index: int) -> int:
    """One element. Raises RuntimeError outside the array."""
    return array[_array_place("array.get_element", array, index)]


def _array_update(array: list[int], index: int, value: int, *, copy: bool = False) -> list[int]:
    """Sets one element and returns the array. Raises RuntimeError outside it."""
    array = list(array) if copy else array
    array[_array_place("array.update_element", array, index)] = value
    return array
