"""Programs written as dump text for the tests of the torch script, and how they are run."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Any

import torch

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir.nodes import Program
from pypto_lab.torch_codegen.execute import RunResult, run
from pypto_lab.torch_codegen.generate import generate

FP32 = "pl.Tensor[[16, 16], pl.FP32]"


def program(functions: str, head: str = "", file: str = "kernel.py") -> Program:
    """A program from the text of its functions; T16 is `pl.Tensor[[16, 16], pl.FP32]`, V16 a Vec tile of that size."""
    body = textwrap.indent(textwrap.dedent(functions).strip("\n"), "    ")
    body = re.sub(r"\bT16\b", FP32, re.sub(r"\bV16\b", "pl.Tile[[16, 16], pl.FP32, pl.Mem.Vec]", body))
    return read_dump(f"# pypto.program: P\nimport pypto.language as pl\n{head}\n@pl.program\nclass P:\n{body}\n", file)


def incore(body: str, parameters: str, head: str = "") -> Program:
    """A program of one InCore function `kernel`."""
    lines = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    return program(f"@pl.function(type=pl.FunctionType.InCore)\ndef kernel({parameters}):\n{lines}", head)


def outputs(made: Program, values: Mapping[str, Any], **options: Any) -> Mapping[str, torch.Tensor]:
    return run(made, values, **options).outputs


def both_ways(made: Program, values: Mapping[str, Any]) -> RunResult:
    """Runs with lanes as coroutines and as threads (the bare script) and says that the outputs agree."""
    from pypto_lab.torch_codegen.execute import prepare

    result = run(made, values)
    prepared = prepare(made, values)
    names: dict[str, Any] = {}
    exec(prepared.script.text, names)
    names[prepared.script.entry](*prepared.arguments)
    for name, tensor in prepared.outputs.items():
        assert torch.equal(tensor, result.outputs[name]), name
    return result


def kernel_code(made: Program, **options: Any) -> str:
    """The part of a program's script that is not the preamble."""
    script = generate(made, **options)
    return "\n".join(script.text.splitlines()[script.first_kernel_line - 1 :])
