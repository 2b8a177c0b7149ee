"""Records of the ops on task ids and launch widths."""

from __future__ import annotations

from pypto_lab.ir import dtypes
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.types import ScalarType, Type
from pypto_lab.ops.record import OPS, Arg, Attr, Op, Operands, Side, Torch
from pypto_lab.ops.shaping import scalar_at


def _task_id(operands: Operands) -> Type:
    return ScalarType(dtypes.TASK_ID)


def _truth(operands: Operands) -> Type:
    if scalar_at(operands, 0) is not dtypes.TASK_ID:
        raise OpError("system.task_is_valid needs a task id", argument=0, hint="bind it with `as tid` or pl.submit")
    return ScalarType(dtypes.BOOL)


def _count(operands: Operands) -> Type:
    return ScalarType(dtypes.INDEX)


OPS.add(
    Op(
        "system.task_invalid",
        args=(),
        attrs=(),
        infer=_task_id,
        torch=Torch("task_invalid"),
        doc="The task id that means no task.",
        side=Side.SHARED,
    ),
    Op(
        "system.task_is_valid",
        args=(Arg("task_id", "task"),),
        attrs=(),
        infer=_truth,
        torch=Torch("task_is_valid"),
        doc="Whether an id stands for a task.",
        side=Side.SHARED,
    ),
    Op(
        "system.task_dummy",
        args=(),
        attrs=(Attr("deps", "any", None, printed=False),),
        infer=_task_id,
        torch=Torch("new_task"),
        doc="A task without work, to depend on several others at once.",
        side=Side.SHARED,
    ),
    Op(
        "system.available_cluster_count",
        args=(),
        attrs=(),
        infer=_count,
        torch=Torch("available_cluster_count"),
        doc="How many clusters the device has for a launch.",
        side=Side.SHARED,
    ),
    Op(
        "system.available_aiv_count",
        args=(),
        attrs=(),
        infer=_count,
        torch=Torch("available_aiv_count"),
        doc="How many vector cores the device has for a launch.",
        side=Side.SHARED,
    ),
)
