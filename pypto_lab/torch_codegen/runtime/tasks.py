"""Task ids and launch widths: a script runs tasks in program order, so an id only says whether there is a task."""

from __future__ import annotations

_TASK_INVALID = -1
"""The task id that stands for no task."""

_CLUSTER_COUNT = 24
"""Clusters (one cube core with two vector lanes) of the modelled die."""


def _task_invalid() -> int:
    """The id that means no task."""
    return _TASK_INVALID


def _task_is_valid(task_id: int) -> bool:
    """Whether an id stands for a task."""
    return task_id != _TASK_INVALID


def _available_cluster_count() -> int:
    """How many clusters a launch can use."""
    return _CLUSTER_COUNT


def _available_aiv_count() -> int:
    """How many vector cores a launch can use."""
    return 2 * _CLUSTER_COUNT
