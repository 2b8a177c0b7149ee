"""Pass 31, MaterializeTensorStrides: a tensor view that states a layout states its strides too.

Follows from: ND is packed row-major; DN has its last two axes the other way round. The artifact's views need numbers.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import TensorLayout
from pypto_lab.ir.types import TensorType
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering.context import Context


def run(program: n.Program, context: Context) -> n.Program:
    return _Strider().visit_program(program)


class _Strider(Rewriter):
    def type(self, type_: Any) -> Any:
        type_ = super().type(type_)
        if not isinstance(type_, TensorType) or type_.view is None or type_.view.stride is not None:
            return type_
        if type_.view.layout not in (TensorLayout.ND, TensorLayout.DN):
            return type_
        stride = strides(type_.shape, type_.view.layout)
        return dataclasses.replace(type_, view=dataclasses.replace(type_.view, stride=stride))


def strides(shape: tuple[n.Expr, ...], layout: TensorLayout) -> tuple[n.Expr, ...]:
    """Packed strides of a shape in a layout."""
    order = list(range(len(shape)))
    if layout is TensorLayout.DN and len(shape) > 1:
        order[-2], order[-1] = order[-1], order[-2]
    result: list[n.Expr] = [n.const(1)] * len(shape)
    step: n.Expr = n.const(1)
    for axis in reversed(order):
        result[axis] = step
        step = arith.mul(step, shape[axis])
    return tuple(result)
