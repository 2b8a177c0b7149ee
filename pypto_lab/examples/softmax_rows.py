"""Softmax over the rows of a [48, 64] tensor, sixteen rows at a time, as a kernel author writes it."""

import pypto.language as pl
import torch

ROWS, COLUMNS, CHUNK = 48, 64, 16


@pl.jit
def softmax_rows(x: pl.Tensor[[48, 64], pl.FP32], out: pl.Out[pl.Tensor[[48, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="softmax"):
        for chunk in pl.range(ROWS // CHUNK):
            first = chunk * CHUNK
            part = x[first : first + CHUNK, :]
            largest = pl.row_max(part)
            exponent = pl.exp(pl.row_expand_sub(part, largest))
            out[first : first + CHUNK, :] = pl.row_expand_div(exponent, pl.row_sum(exponent))
    return out


ENTRY = "softmax_rows"
OUTPUTS = ["out"]
RTOL, ATOL = 1e-5, 1e-6


def make_inputs(seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(ROWS, COLUMNS, generator=generator) * 4, "out": torch.zeros(ROWS, COLUMNS)}


def golden(values) -> None:
    values["out"][:] = torch.softmax(values["x"], dim=-1)
