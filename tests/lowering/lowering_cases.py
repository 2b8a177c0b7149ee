"""Cases and small kernels the lowering tests share."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

import pypto_lab as lab
from pypto_lab.ir import nodes as n
from pypto_lab.lowering import Lowered, lower
from pypto_lab.numerics.case import Case
from pypto_lab.torch_codegen.execute import run

KERNELS = Path(__file__).parent.parent / "data" / "kernels"
NAMES = sorted(p.parent.name for p in KERNELS.glob("*/kernel.py"))
HEAD = "import pypto.language as pl\n\n"


@lru_cache(maxsize=64)
def case(name: str) -> Case:
    return lab.case(KERNELS / name / "kernel.py")


@lru_cache(maxsize=96)
def lowered(name: str, arch: str = "a2a3") -> Lowered:
    return lower(case(name).program(), arch)


@lru_cache(maxsize=64)
def inputs(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Values of seed 1 and the outputs the golden computes from them."""
    values = case(name).make_inputs(1)
    return values, case(name).expected(values)


def wrong_outputs(name: str, program: n.Program, **how: Any) -> list[str]:
    """What a program of a case computes that its golden does not."""
    values, expected = inputs(name)
    outputs = run(program, values, **how).outputs
    found = {key: case(name).compare(key, outputs, expected, values) for key in expected}
    return [f"{key}: {result}" for key, result in found.items() if not result.ok]


def program_of(text: str) -> n.Program:
    """The program of DSL text."""
    return lab.load(HEAD + text)


def outputs_of(program: n.Program, values: dict[str, Any], **how: Any) -> list[torch.Tensor]:
    return list(run(program, values, **how).outputs.values())
