"""Pass 23, InjectGMPipeBuffer: where pipes go through global memory (a2a3) their functions get a buffer for it.

Follows from: there the cores share no on-chip memory; a slot is written to global memory and read back. The buffer is a
parameter of both cores and of their group; each caller creates one for each call.
"""

from __future__ import annotations

import dataclasses

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import Direction
from pypto_lab.ir.types import TensorType
from pypto_lab.ir.visitor import walk
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import ON_CORE
from pypto_lab.lowering.new_outputs import NewOutput, add_outputs

PARAMETER = "__gm_pipe_buffer"
_SETUP = ("system.aic_initialize_pipe", "system.aiv_initialize_pipe")


def run(program: n.Program, context: Context) -> n.Program:
    if not context.target.pipe_through_global_memory:
        return program
    functions = dict(program.functions)
    outputs: dict[str, list[NewOutput]] = {}
    for name, function in program.functions.items():
        if function.func_type not in ON_CORE or not _has_pipe(function):
            continue
        if any(p.name == PARAMETER for p in function.params):
            continue
        type_ = TensorType((n.const(1),), dtypes.FP32)
        var = n.Var(name=PARAMETER, type=type_, span=function.span)
        param = n.Param(var=var, direction=Direction.Out, span=function.span)
        functions[name] = dataclasses.replace(function, params=(*function.params, param))
        outputs[name] = [NewOutput(param, (("manual_dep", True),), "gm_pipe_buffer_")]
    if not outputs:
        return program
    return add_outputs(dataclasses.replace(program, functions=functions), outputs)


def _has_pipe(function: n.Function) -> bool:
    return any(isinstance(e, n.OpCall) and e.op in _SETUP for e in walk(function))
