"""Fixtures of the op tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from pypto_lab.torch_codegen.runtime import values


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Modules with `BOTH_FILLS = True` run every test with undefined cells as zeros and as markers."""
    if getattr(metafunc.module, "BOTH_FILLS", False):
        metafunc.parametrize("undefined", [None, "nan"], ids=["zeros", "poison"], indirect=True)


@pytest.fixture(autouse=True)
def undefined(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> object:
    """What undefined cells hold during the test."""
    fill = getattr(request, "param", None)
    monkeypatch.setattr(values, "_UNDEFINED", fill)
    return fill


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors: threads cost more than they give."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
