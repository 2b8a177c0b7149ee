"""Task ids and launch widths."""

from __future__ import annotations

import pytest
from moving import function, infer
from op_running import scalar

from pypto_lab.ir import dtypes
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ops import OPS
from pypto_lab.torch_codegen.runtime import tasks

COVERS = {
    "system.task_invalid",
    "system.task_dummy",
    "system.task_is_valid",
    "system.available_cluster_count",
    "system.available_aiv_count",
}


@pytest.mark.parametrize("name", ["system.task_invalid", "system.task_dummy"])
def test_task_ids_are_task_ids(name: str) -> None:
    call = infer(name)
    assert call.type.dtype is dtypes.TASK_ID
    assert call.kwargs == {}


def test_only_the_invalid_id_is_not_valid() -> None:
    assert infer("system.task_is_valid", scalar(dtypes.TASK_ID)).type.dtype is dtypes.BOOL
    assert not tasks._task_is_valid(tasks._task_invalid())
    assert tasks._task_is_valid(function(OPS["system.task_dummy"].torch.call)())
    with pytest.raises(OpError, match="needs a task id"):
        infer("system.task_is_valid", scalar(dtypes.INT32))


def test_a_cluster_has_two_vector_cores() -> None:
    for name in ("system.available_cluster_count", "system.available_aiv_count"):
        assert infer(name).type.dtype is dtypes.INDEX
    assert tasks._available_aiv_count() == 2 * tasks._available_cluster_count()
