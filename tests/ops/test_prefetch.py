"""Prefetch: handles are checked, nothing is computed."""

from __future__ import annotations

import pytest
import torch
from moving import function, infer
from op_running import tensor, tile, var

from pypto_lab.ir import dtypes
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ops import OPS

COVERS = {"prefetch.make_context", "prefetch.session", "prefetch.async_prefetch", "prefetch.wait"}


def test_handles_go_from_op_to_op() -> None:
    context = infer("prefetch.make_context")
    session = infer("prefetch.session", var(context.type))
    event = infer("prefetch.async_prefetch", tensor((8, 8)), var(context.type))
    assert infer("prefetch.wait", var(event.type), var(session.type)).type.dtype is dtypes.BOOL
    for name, operands, words in (
        ("prefetch.session", [tensor((8, 8))], "needs a pl.PrefetchAsyncContext"),
        ("prefetch.async_prefetch", [tile((8, 8)), var(context.type)], "needs a tensor"),
        ("prefetch.wait", [var(session.type), var(session.type)], "needs a pl.AsyncEvent"),
        ("prefetch.wait", [var(event.type), var(event.type)], "needs a pl.AsyncSession"),
    ):
        with pytest.raises(OpError, match=words):
            infer(name, *operands)


def test_a_prefetch_is_done_at_once_and_changes_nothing() -> None:
    call = {op.short_name: function(op.torch.call) for op in OPS if op.namespace == "prefetch"}
    x = torch.ones(4)
    context = call["make_context"]()
    assert call["wait"](call["async_prefetch"](x, context), call["session"](context)) is True
    assert torch.equal(x, torch.ones(4))
