"""Synchronisation, prefetch and the one-rank side of distributed ops as a script carries them."""

from __future__ import annotations

import pytest
import torch

from pypto_lab.ops import OPS
from pypto_lab.torch_codegen.preamble import library

from .standing_alone import evaluate

NOTHING = [
    "_sync_src(set_pipe='MTE2', wait_pipe='V', event_id=0)",
    "_sync_dst(set_pipe='MTE2', wait_pipe='V', event_id=0)",
    "_sync_set(pipe='MTE3', event_id=3, ffts_mode=2)",
    "_sync_wait(3, pipe='MTE3')",
    "_set_ffts()",
    "_bar_v()",
    "_bar_m()",
    "_bar_all()",
    "_fence()",
    "_cacheinvalid([4, 4], [0, 0])",
    "_syncall(8, core_type='mix', mode='soft')",
]


@pytest.mark.parametrize("expression", NOTHING)
def test_synchronisation_stays_visible_and_does_nothing(expression: str) -> None:
    assert evaluate(expression) is None


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("_reserve_buffer(name='ring', size=64, base=-1)", 0),
        ("_import_peer_buffer(name='ring', peer_func='f')", 0),
        ("_prefetch_wait(_prefetch_async(x, _prefetch_context()), _prefetch_session(_prefetch_context()))", True),
        ("_world_size() + _nranks(_comm_context(x)) + _rank(_comm_context(x))", 2),
        ("_test_op(1, 2)", 1),
    ],
)
def test_values_on_one_rank(expression: str, wanted: object) -> None:
    assert evaluate(expression, x=torch.ones(2)) == wanted


def test_a_window_is_part_of_its_buffer() -> None:
    seen = evaluate("_window_tensor(_alloc_window_buffer([4, 4], dtype=torch.float32), [2, 4], dtype=torch.float32)")
    assert tuple(seen.shape) == (2, 4)
    assert seen.dtype is torch.float32


def test_what_needs_another_rank_says_which_op_it_is() -> None:
    with pytest.raises(NotImplementedError, match=r"^multi-rank is not simulated yet: pld\.tensor\.put$"):
        evaluate("_pld_tensor_put(x, 1, x)", x=torch.ones(2))


def test_every_record_names_a_runtime_function() -> None:
    for op in OPS:
        if not op.torch.call.startswith("cross_core_rt."):
            assert f"_{op.torch.call}" in library().signatures, op.name
