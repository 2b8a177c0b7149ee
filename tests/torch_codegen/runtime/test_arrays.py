"""Arrays as a script carries them."""

from __future__ import annotations

import pytest

from .standing_alone import evaluate


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("_array_create(3, dtype='TASK_ID')", [-1, -1, -1]),
        ("_array_create(2, dtype=torch.int32)", [0, 0]),
        ("_array_get([4, 5], 1)", 5),
        ("_array_update([4, 5], 0, 6)", [6, 5]),
        ("_array_update([4, 5], 0, 6, copy=True)", [6, 5]),
    ],
)
def test_a_script_carries_what_it_needs(expression: str, wanted: object) -> None:
    assert evaluate(expression) == wanted


def test_places_outside_are_named() -> None:
    with pytest.raises(RuntimeError, match="index 2 leaves the array of 2"):
        evaluate("_array_update([4, 5], 2, 6)")
