"""Evaluates an expression with nothing but torch and the preamble a script would carry for it."""

from __future__ import annotations

from typing import Any

import torch

from pypto_lab.torch_codegen.preamble import helpers_in, preamble


def evaluate(expression: str, **values: Any) -> Any:
    """The value of an expression that uses runtime functions. Fails when their text needs anything but torch."""
    names = helpers_in(expression)
    assert names, f"{expression} uses no runtime function"
    text = preamble(names)
    assert "pypto_lab" not in text
    namespace: dict[str, Any] = {"__name__": "script"}
    exec(compile(text, "script", "exec"), namespace)
    return eval(expression, {**namespace, "torch": torch, **values})
