"""`pl.split_aiv` regions: both lanes keep their numbers through every pass, and what would mix lanes is refused at the
user's line."""

from __future__ import annotations

import pytest
import torch
from lowering_cases import HEAD, outputs_of, program_of

from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.visitor import walk
from pypto_lab.lowering import lower

torch.set_num_threads(1)

KERNEL = """
@pl.jit
def shared(a: pl.Tensor[[32, 32], pl.FP16], w: pl.Tensor[[32, 32], pl.FP16], bias: pl.Tensor[[32, 32], pl.FP32],
           out: pl.Out[pl.Tensor[[32, 32], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="mm"):
        acc = pl.matmul(a, w, out_dtype=pl.FP32)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.{mode}):
{region}
{after}
    return out
"""

ROWS = """
part = pl.aiv_shard(acc)
out[lane * 16 : lane * 16 + 16, :] = pl.add(pl.mul(part, 0.5), bias[lane * 16 : lane * 16 + 16, :])
"""
COLUMNS = """
part = pl.aiv_shard(acc)
out[:, lane * 16 : lane * 16 + 16] = pl.mul(part, bias[:, lane * 16 : lane * 16 + 16])
"""
TURNED = """
part = pl.mul(pl.aiv_shard(acc), 2.0)
out[:, lane * 16 : lane * 16 + 16] = pl.transpose(part, 0, 1)
"""
WHOLE = """
scaled = pl.mul(acc, 0.25)
out[lane * 16 : lane * 16 + 16, :] = scaled[lane * 16 : lane * 16 + 16, :]
"""
OWN_WORK = """
part = pl.mul(bias[lane * 16 : lane * 16 + 16, :], 0.5)
out[lane * 16 : lane * 16 + 16, :] = pl.exp(part)
"""
GATHERED = """
half = pl.cast(pl.mul(pl.aiv_shard(acc), 0.5), pl.FP16, mode="rint")
whole = pl.aic_gather(half)
"""
LOOPED = """
for i in pl.range(2):
    row = lane * 16 + i * 8
    part = pl.add(bias[row : row + 8, :], 1.0)
    if i > 0:
        part = pl.neg(part)
    out[row : row + 8, :] = part
"""
PRODUCT = "out[:] = pl.matmul(whole, w, out_dtype=pl.FP32)"


def kernel(mode: str, region: str, after: str = "") -> str:
    inner = "\n".join("            " + line for line in region.strip().splitlines())
    outer = "\n".join("        " + line for line in after.strip().splitlines())
    return KERNEL.format(mode=mode, region=inner, after=outer)


def close(found: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    return all(torch.allclose(a, b, rtol=1e-2, atol=1e-2) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("arch", ["a2a3", "a5"])
@pytest.mark.parametrize(
    ("mode", "region", "after"),
    [
        ("UP_DOWN", ROWS, ""),
        ("LEFT_RIGHT", COLUMNS, ""),
        ("UP_DOWN", TURNED, ""),
        ("UP_DOWN", WHOLE, ""),
        ("NONE", OWN_WORK, ""),
        ("UP_DOWN", LOOPED, ""),
        ("UP_DOWN", GATHERED, PRODUCT),
        ("LEFT_RIGHT", GATHERED, PRODUCT),
    ],
)
def test_both_lanes_keep_their_numbers_through_every_pass(mode: str, region: str, after: str, arch: str) -> None:
    program = program_of(kernel(mode, region, after))
    generator = torch.Generator().manual_seed(11)
    values = {
        "a": torch.randn(32, 32, generator=generator).half(),
        "w": (torch.randn(32, 32, generator=generator) * 0.2).half(),
        "bias": torch.randn(32, 32, generator=generator),
        "out": torch.zeros(32, 32),
    }
    expected = outputs_of(program, values)
    assert all(part.abs().sum() > 0 for part in (*expected[0].split(16, 0), *expected[0].split(16, 1)))
    lowered = lower(program, arch)
    for stage in lowered.stages:
        assert [f.message for f in stage.findings] == [], stage.file_name
        if stage.changed:
            assert close(outputs_of(stage.program, values), expected), stage.file_name
    for policy in ("lane-first", "round-robin"):
        found = outputs_of(lowered.program, values, memory="addresses", arch=arch, poison="nan", policy=policy)
        assert close(found, expected), policy
    assert any(f.attrs.get("dual_aiv_dispatch") for f in lowered.program.functions.values())
    assert not any(isinstance(node, n.SplitAivScope) for node in walk(lowered.stage(21).program))


def refusal(text: str) -> Diagnostic:
    with pytest.raises(LabError) as caught:
        lower(program_of(text))
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


def line_of(text: str, part: str) -> int:
    return next(i for i, row in enumerate((HEAD + text).splitlines(), 1) if part in row)


def test_a_lanes_tile_read_outside_its_region() -> None:
    text = kernel("UP_DOWN", "part = pl.mul(pl.aiv_shard(acc), 0.5)", "out[0:16, :] = part")
    found = refusal(text)
    assert found.code == "E814"
    assert "`part` is one lane's own" in found.message
    assert found.span is not None
    assert found.span.line == line_of(text, "out[0:16, :] = part")
    assert found.hint is not None
    assert "aic_gather" in found.hint


def test_a_lanes_tile_that_leaves_through_a_branch() -> None:
    region = "part = pl.mul(pl.aiv_shard(acc), 0.5)\nif lane > 0:\n    part = pl.neg(part)"
    assert refusal(kernel("UP_DOWN", region, "out[0:16, :] = part")).code == "E814"


@pytest.mark.parametrize(("mode", "axis"), [("UP_DOWN", "rows"), ("LEFT_RIGHT", "columns")])
def test_halves_that_are_transposed_are_not_gathered(mode: str, axis: str) -> None:
    region = (
        'half = pl.cast(pl.aiv_shard(acc), pl.FP16, mode="rint")\n'
        "turned = pl.mul(pl.transpose(half, 0, 1), 2.0)\n"
        "whole = pl.aic_gather(turned)"
    )
    after = "out[:] = pl.matmul(whole[0:32, 0:16], w[0:16, :], out_dtype=pl.FP32)"
    if mode == "LEFT_RIGHT":
        after = "out[0:16, :] = pl.matmul(whole[0:16, 0:32], w, out_dtype=pl.FP32)"
    text = kernel(mode, region, after)
    found = refusal(text)
    assert found.code == "E814"
    assert f"along the {axis} ({mode})" in found.message
    assert found.span is not None
    assert found.span.line == line_of(text, "pl.aic_gather")


def test_halves_transposed_twice_are_gathered() -> None:
    region = (
        'half = pl.cast(pl.aiv_shard(acc), pl.FP16, mode="rint")\n'
        "back = pl.transpose(pl.transpose(half, 0, 1), 0, 1)\n"
        "whole = pl.aic_gather(back)"
    )
    assert lower(program_of(kernel("UP_DOWN", region, PRODUCT))).program.functions
