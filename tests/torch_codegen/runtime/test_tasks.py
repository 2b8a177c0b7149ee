"""Task ids and launch widths as a script carries them."""

from __future__ import annotations

import pytest

from .standing_alone import evaluate


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("_task_is_valid(_task_invalid())", False),
        ("_task_is_valid(_new_task())", True),
        ("_available_aiv_count() // _available_cluster_count()", 2),
    ],
)
def test_a_script_carries_what_it_needs(expression: str, wanted: object) -> None:
    assert evaluate(expression) == wanted
