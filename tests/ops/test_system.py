"""Synchronisation and buffers: checked, and without a value."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from moving import infer, run
from op_running import scalar, tensor

from pypto_lab.ir import dtypes
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.enums import PipeType
from pypto_lab.ir.types import UnknownType
from pypto_lab.torch_codegen.runtime import system

COVERS = {
    "system.sync_src",
    "system.sync_dst",
    "system.sync_set",
    "system.sync_wait",
    "system.set_ffts",
    "system.bar_v",
    "system.bar_m",
    "system.bar_all",
    "system.fence",
    "system.cacheinvalid",
    "system.syncall",
    "system.reserve_buffer",
    "system.import_peer_buffer",
    "test.op",
    "test.tensor_op_no_conv",
    "test.deduce_raises_internal",
    "test.deduce_raises_type",
}

FLAG = {"set_pipe": PipeType.MTE2, "wait_pipe": PipeType.V, "event_id": 0}
WITHOUT_VALUE: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("system.sync_src", [], FLAG),
    ("system.sync_dst", [], FLAG),
    ("system.sync_set", [], {"pipe": PipeType.MTE3, "event_id": 3, "ffts_mode": 2}),
    ("system.sync_set", [scalar(dtypes.INDEX)], {"pipe": PipeType.MTE3}),
    ("system.sync_wait", [], {"pipe": PipeType.MTE2, "event_id": 3, "core_type": "aiv"}),
    ("system.set_ffts", [tensor((16,), dtypes.INT64)], {}),
    ("system.bar_v", [], {}),
    ("system.bar_m", [], {}),
    ("system.bar_all", [], {}),
    ("system.fence", [], {}),
    ("system.cacheinvalid", [], {}),
    ("system.cacheinvalid", [tensor((8, 8)), [4, 4], [0, 4]], {}),
    ("system.syncall", [], {}),
    ("system.syncall", [tensor((16,), dtypes.INT32), 8], {"mode": "soft"}),
]


@pytest.mark.parametrize(("name", "operands", "attrs"), WITHOUT_VALUE)
def test_synchronisation_is_a_call_without_a_value(name: str, operands: list[Any], attrs: dict[str, Any]) -> None:
    assert isinstance(infer(name, *operands, **attrs).type, UnknownType)
    assert run(name, *operands, **attrs) is None


def test_defaults_show_where_the_compiler_prints_them() -> None:
    assert infer("system.syncall").kwargs == {"core_type": "mix", "mode": "hard"}
    assert infer("system.reserve_buffer", name="ring", size=4096).kwargs == {"name": "ring", "size": 4096, "base": -1}


def test_buffers_are_numbers() -> None:
    assert infer("system.reserve_buffer", name="ring", size=4096).type.dtype is dtypes.INT32
    assert infer("system.import_peer_buffer", name="ring", peer_func="f_aiv").type.dtype is dtypes.INT32
    assert run("system.reserve_buffer", name="ring", size=4096) == 0
    assert run("system.reserve_buffer", name="ring", size=4096, base=512) == 512
    assert run("system.import_peer_buffer", name="ring", peer_func="f_aiv") == 0


ERRORS: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("system.sync_set", [], {"pipe": PipeType.V, "event_id": 14}, "event 14 does not exist"),
    ("system.sync_wait", [-1], {"pipe": PipeType.V}, "event -1 does not exist"),
    ("system.sync_wait", [1.5], {"pipe": PipeType.V}, "needs an integer"),
    ("system.syncall", [], {"mode": "soft"}, "needs `gm_workspace`"),
    ("system.syncall", [tensor((16,))], {}, "takes no `gm_workspace`"),
    ("system.syncall", [], {"mode": "loose"}, "neither 'hard' nor 'soft'"),
    ("system.cacheinvalid", [tensor((8, 8)), [4], [0, 4]], {}, "needs 2 entries"),
    ("system.reserve_buffer", [], {"name": "ring", "size": 0}, "is no size"),
]


@pytest.mark.parametrize(("name", "operands", "attrs", "words"), ERRORS)
def test_synchronisation_refuses(name: str, operands: list[Any], attrs: dict[str, Any], words: str) -> None:
    with pytest.raises(OpError, match=words):
        infer(name, *operands, **attrs)


def test_the_compilers_test_ops() -> None:
    for name, count in (("test.op", 2), ("test.tensor_op_no_conv", 1)):
        operands = [tensor((2, 2))] * count
        assert infer(name, *operands).type is operands[0]
    for name in ("test.deduce_raises_internal", "test.deduce_raises_type"):
        with pytest.raises(OpError, match="exists to test error paths"):
            infer(name, tensor((2, 2)))
    x = torch.ones(2)
    assert system._test_op(x, 3, int_attr=1) is x
