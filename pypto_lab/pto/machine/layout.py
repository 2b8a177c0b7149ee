"""Where an element of a tile stands in memory: ND, DN and the boxed orders NZ, ZN, ZZ, NN."""

from __future__ import annotations

from functools import lru_cache

import torch

from pypto_lab.pto.dialect.types import TileType, inner_box


def element_offset(tile: TileType, row: int, column: int) -> int:
    """Elements between the start of a tile and its element (row, column)."""
    if not tile.boxed:
        return row * tile.cols + column if tile.blayout == "row_major" else column * tile.rows + row
    box_rows, box_columns = inner_box(tile)
    box_row, inner_row = divmod(row, box_rows)
    box_column, inner_column = divmod(column, box_columns)
    if tile.blayout == "row_major":
        start = box_row * tile.cols * box_rows + box_column * box_rows * box_columns
    else:
        start = box_column * tile.rows * box_columns + box_row * box_rows * box_columns
    if tile.slayout == "row_major":
        return start + inner_row * box_columns + inner_column
    return start + inner_column * box_rows + inner_row


@lru_cache(maxsize=512)
def offsets(rows: int, cols: int, itemsize: int, layout: tuple[str, str, int]) -> torch.Tensor:
    """`element_offset` of every element, as an INT64 tensor [rows, cols]."""
    row = torch.arange(rows).unsqueeze(1)
    column = torch.arange(cols).unsqueeze(0)
    blayout, slayout, _ = layout
    if slayout == "none_box":
        return row * cols + column if blayout == "row_major" else column * rows + row
    box_rows, box_columns = _box(rows, itemsize, layout)
    box_row, inner_row = row // box_rows, row % box_rows
    box_column, inner_column = column // box_columns, column % box_columns
    size = box_rows * box_columns
    if blayout == "row_major":
        start = box_row * cols * box_rows + box_column * size
    else:
        start = box_column * rows * box_columns + box_row * size
    inner = inner_row * box_columns + inner_column if slayout == "row_major" else inner_column * box_rows + inner_row
    return start + inner


_BY_SIZE = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}


def _box(rows: int, itemsize: int, layout: tuple[str, str, int]) -> tuple[int, int]:
    return inner_box(TileType("mat", _BY_SIZE[itemsize], rows, 1, None, None, *layout))
