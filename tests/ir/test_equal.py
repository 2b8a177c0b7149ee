"""Structural equality: what counts, what does not, and the path to the first difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import MemorySpace, TensorLayout, TileLayout
from pypto_lab.ir.equal import first_difference, structurally_equal, types_equal
from pypto_lab.ir.types import MemRef, TensorType, TensorView, TileType, TileView

DUMPS = Path(__file__).parent.parent / "data" / "dumps"
FOUR, EIGHT = n.const(4), n.const(8)
HEAD = (
    "# pypto.program: P\nimport pypto.language as pl\n\n@pl.program\nclass P:\n    @pl.function\n"
    "    def f(self, x: pl.Scalar[pl.INDEX], y: pl.Scalar[pl.INDEX]):\n"
)


def program(*lines: str) -> n.Program:
    return read_dump(HEAD + "".join(f"        {line}\n" for line in lines))


def tile(**fields: object) -> TileType:
    settings = {"shape": (FOUR, EIGHT), "dtype": dtypes.FP32, "memory_space": MemorySpace.Vec, **fields}
    return TileType(**settings)  # type: ignore[arg-type]


class TestTypes:
    def test_valid_shape_equal_to_the_shape_does_not_count(self) -> None:
        assert types_equal(tile(), tile(view=TileView(valid_shape=(n.const(4), n.const(8)))))
        assert not types_equal(tile(), tile(view=TileView(valid_shape=(n.const(4), n.const(7)))))

    @pytest.mark.parametrize(
        ("space", "implicit"),
        [
            (MemorySpace.Vec, (TileLayout.row_major, TileLayout.none_box, 512)),
            (MemorySpace.Left, (TileLayout.col_major, TileLayout.row_major, 512)),
            (MemorySpace.Acc, (TileLayout.col_major, TileLayout.row_major, 1024)),
            (None, (TileLayout.row_major, TileLayout.none_box, 512)),
        ],
    )
    def test_implicit_view_of_the_space_does_not_count(
        self, space: MemorySpace | None, implicit: tuple[TileLayout, TileLayout, int]
    ) -> None:
        stated = TileView(blayout=implicit[0], slayout=implicit[1], fractal=implicit[2])
        assert types_equal(tile(memory_space=space), tile(memory_space=space, view=stated))
        other = TileView(blayout=TileLayout.row_major if implicit[0] is TileLayout.col_major else TileLayout.col_major)
        assert not types_equal(tile(memory_space=space), tile(memory_space=space, view=other))

    def test_memrefs_count_only_when_asked_for(self) -> None:
        here = tile(memref=MemRef(base="m", offset=n.const(0), size=4))
        there = tile(memref=MemRef(base="m", offset=n.const(64), size=4))
        assert types_equal(here, there)
        assert not types_equal(here, there, memrefs=True)
        assert not types_equal(here, tile(), memrefs=True)

    def test_packed_strides_do_not_count(self) -> None:
        plain = TensorType(shape=(FOUR, EIGHT), dtype=dtypes.FP32)
        packed = TensorView(stride=(n.const(8), n.const(1)), layout=TensorLayout.ND)
        wide = TensorView(stride=(n.const(16), n.const(1)))
        assert types_equal(plain, TensorType(shape=(FOUR, EIGHT), dtype=dtypes.FP32, view=packed))
        assert not types_equal(plain, TensorType(shape=(FOUR, EIGHT), dtype=dtypes.FP32, view=wide))

    def test_dimensions_are_compared_by_variable(self) -> None:
        m, other = (n.Var(name="M", type=n.INDEX) for _ in range(2))
        left = TensorType(shape=(m,), dtype=dtypes.FP32)
        assert types_equal(left, TensorType(shape=(m,), dtype=dtypes.FP32))
        assert not types_equal(left, TensorType(shape=(other,), dtype=dtypes.FP32))


class TestPrograms:
    def test_a_dump_is_equal_to_itself_read_twice_and_to_its_concise_form(self) -> None:
        path = DUMPS / "k33_flash_mini" / "passes_explicit" / "35_after_AllocateMemoryAddr.py"
        text = path.read_text(encoding="utf-8")
        left = read_dump(text)
        assert structurally_equal(left, read_dump(text))
        renamed = text.replace("p__tile", "quite_another").replace("mem_vec_", "memory_")
        moved = renamed.replace("pl.const(33408, pl.INT64)", "pl.const(0, pl.INT64)")
        assert moved != text
        assert structurally_equal(left, read_dump(moved))
        assert not structurally_equal(left, read_dump(moved), memrefs=True)

    def test_names_comments_and_attribute_order_do_not_count(self) -> None:
        left = program("# why", "a: pl.Scalar[pl.INDEX] = x + 1", 'pl.tile.op(a, attrs={"p": 1, "q": True})')
        right = program("b: pl.Scalar[pl.INDEX] = x + 1", 'pl.tile.op(b, attrs={"q": True, "p": 1})')
        assert structurally_equal(left, right)

    @pytest.mark.parametrize(
        ("lines", "path"),
        [
            (("a: pl.Scalar[pl.INDEX] = x + 2", "return a"), "f/body[0].value.right"),
            (("a: pl.Scalar[pl.INDEX] = y + 1", "return a"), "f/body[0].value.left"),
            (("a: pl.Scalar[pl.INDEX] = x + 1", "return x"), "f/body[1].values[0]"),
            (("a: pl.Scalar[pl.INDEX] = x - 1", "return a"), "f/body[0].value"),
            (("a: pl.Scalar[pl.INDEX] = x + pl.const(1, pl.INT64)", "return a"), "f/body[0].value.right.dtype"),
            (("a: pl.Scalar[pl.INT32] = x + 1", "return a"), "f/body[0].var.type.dtype"),
            (("a: pl.Scalar[pl.INDEX] = x + 1", "b: pl.Scalar[pl.INDEX] = a", "return b"), "f/body"),
        ],
    )
    def test_first_difference_has_a_path(self, lines: tuple[str, ...], path: str) -> None:
        found = first_difference(program("a: pl.Scalar[pl.INDEX] = x + 1", "return a"), program(*lines))
        assert found is not None
        assert found.path == path
        assert found.left != found.right

    def test_uses_follow_the_pairing_of_definitions(self) -> None:
        left = program("a: pl.Scalar[pl.INDEX] = x", "b: pl.Scalar[pl.INDEX] = y", "return a, b")
        right = program("b: pl.Scalar[pl.INDEX] = x", "a: pl.Scalar[pl.INDEX] = y", "return b, a")
        crossed = program("b: pl.Scalar[pl.INDEX] = x", "a: pl.Scalar[pl.INDEX] = y", "return a, b")
        assert structurally_equal(left, right)
        assert not structurally_equal(left, crossed)

    def test_one_variable_is_not_two(self) -> None:
        one = program("a: pl.Scalar[pl.INDEX] = x", "a: pl.Scalar[pl.INDEX] = y")
        two = program("a: pl.Scalar[pl.INDEX] = x", "b: pl.Scalar[pl.INDEX] = y")
        assert not structurally_equal(one, two)
        assert not structurally_equal(two, one)

    def test_loops_and_scopes_compare_their_parts(self) -> None:
        left = program("for i, (c,) in pl.range(3, init_values=(x,)):", "    r: pl.Scalar[pl.INDEX] = pl.yield_(c + i)")
        same = program("for j, (d,) in pl.range(3, init_values=(x,)):", "    s: pl.Scalar[pl.INDEX] = pl.yield_(d + j)")
        other = program(
            "for j, (d,) in pl.range(3, init_values=(y,)):", "    s: pl.Scalar[pl.INDEX] = pl.yield_(d + j)"
        )
        assert structurally_equal(left, same)
        found = first_difference(left, other)
        assert found is not None
        assert found.path == "f/body[0].init_values[0]"
