"""Small `.pto` texts for tests, put together op by op."""

from __future__ import annotations

from pathlib import Path

from pypto_lab.pto.dialect.types import TileType

DATA = Path(__file__).parent.parent / "data" / "pto"
KERNELS = Path(__file__).parent.parent / "data" / "kernels"
FILES = sorted(DATA.rglob("*.pto"))

ORDERS: dict[str, tuple[str, str, int]] = {
    "nd": ("row_major", "none_box", 512),
    "dn": ("col_major", "none_box", 512),
    "nz": ("col_major", "row_major", 512),
    "zn": ("row_major", "col_major", 512),
    "zz": ("row_major", "row_major", 512),
    "nn": ("col_major", "col_major", 512),
    "acc": ("col_major", "row_major", 1024),
}


def tile(rows: int, cols: int, dtype: str = "f32", space: str = "vec", order: str = "nd", *, pad: int = 0) -> TileType:
    """A tile type with extents given at run time."""
    blayout, slayout, fractal = ORDERS[order]
    return TileType(space, dtype, rows, cols, None, None, blayout, slayout, fractal, pad)


class Text:
    """One function. Names are without `%`; lines carry a location that counts from 1."""

    def __init__(self, *pointers: str, kind: str = "vector", name: str = "f", scalars: tuple[str, ...] = ()) -> None:
        self.name, self.kind = name, kind
        self.pointers, self.scalars = pointers, scalars
        self.constants: dict[tuple[object, str], str] = {}
        self.lines: list[str] = []
        self.types: dict[str, str] = {f"arg{i}": f"!pto.ptr<{p}>" for i, p in enumerate(pointers)}
        self.types |= {f"arg{len(pointers) + i}": s for i, s in enumerate(scalars)}
        self.extra_parameters: list[str] = []
        self._count = 0

    def c(self, value: object, type_: str = "index") -> str:
        """A constant's name."""
        name = self.constants.setdefault((value, type_), f"k{len(self.constants)}")
        self.types[name] = type_
        return name

    def line(self, text: str) -> None:
        self.lines.append(f'{text} loc("kernel.py":{len(self.lines) + 1}:1)')

    def raw(self, *lines: str) -> None:
        self.lines += lines

    def fresh(self, base: str) -> str:
        self._count += 1
        return f"{base}_{self._count}"

    def alloc(self, name: str, type_: TileType, address: int, valid: tuple[int, int] | None = None) -> str:
        rows, cols = valid or (type_.rows, type_.cols)
        self.line(
            f"%{name} = pto.alloc_tile addr = %{self.c(address, 'i64')} valid_row = %{self.c(rows)} "
            f"valid_col = %{self.c(cols)} : {type_}"
        )
        self.types[name] = str(type_)
        return name

    def window(
        self,
        argument: int,
        shape: tuple[int, ...],
        offsets: tuple[int | str, ...] | None = None,
        sizes: tuple[int, ...] | None = None,
        strides: tuple[int, ...] | None = None,
        layout: str = "nd",
    ) -> str:
        """A partition of an argument; offsets may be names."""
        dtype = self.pointers[argument]
        steps = strides or tuple(_product(shape[axis + 1 :]) for axis in range(len(shape)))
        starts, extents = offsets or (0,) * len(shape), sizes or shape
        view, part = self.fresh("view"), self.fresh("part")
        marks = "x".join("?" * len(shape))
        self.line(
            f"%{view} = pto.make_tensor_view %arg{argument}, shape = [{self._list(shape)}], "
            f"strides = [{self._list(steps)}] {{layout = #pto.layout<{layout}>}} : !pto.tensor_view<{marks}x{dtype}>"
        )
        self.types[part] = f"!pto.partition_tensor_view<{'x'.join(map(str, extents))}x{dtype}>"
        self.line(
            f"%{part} = pto.partition_view %{view}, offsets = [{self._list(starts)}], sizes = [{self._list(extents)}] "
            f": !pto.tensor_view<{marks}x{dtype}> -> {self.types[part]}"
        )
        return part

    def _list(self, values: tuple[int | str, ...]) -> str:
        return ", ".join("%" + (v if isinstance(v, str) else self.c(v)) for v in values)

    def op(self, name: str, ins: list[str], outs: list[str], inside: str = "", after: str = "", axis: str = "") -> None:
        """A regular op; types are those known by name."""
        self.line(
            f"pto.{name} ins({', '.join('%' + i for i in ins)}{inside} : "
            f"{', '.join(self.types[i] for i in ins)}{axis}) "
            f"outs({', '.join('%' + o for o in outs)} : {', '.join(self.types[o] for o in outs)}){after}"
        )

    def load(self, name: str, argument: int, shape: tuple[int, int], valid: tuple[int, int] | None = None) -> None:
        self.op("tload", [self.window(argument, shape, sizes=valid)], [name])

    def store(self, name: str, argument: int, shape: tuple[int, int], valid: tuple[int, int] | None = None) -> None:
        self.op("tstore", [name], [self.window(argument, shape, sizes=valid)])

    def function(self) -> str:
        parameters = [f"%arg{i}: !pto.ptr<{p}>" for i, p in enumerate(self.pointers)]
        parameters += [f"%arg{len(self.pointers) + i}: {s}" for i, s in enumerate(self.scalars)]
        parameters += self.extra_parameters
        constants = [f"%{name} = arith.constant {value} : {type_}" for (value, type_), name in self.constants.items()]
        body = "\n".join(f"  {line}" for line in [*constants, *self.lines, "return"])
        kind = f"#pto.kernel_kind<{self.kind}>"
        return (
            f"  func.func @{self.name}({', '.join(parameters)}) attributes {{pto.kernel_kind = {kind}}} {{\n"
            f"{body}\n  }}\n"
        )

    def text(self, arch: str = "a2a3") -> str:
        return module(self, arch=arch)


def module(*functions: Text, arch: str = "a2a3") -> str:
    body = "".join(function.function() for function in functions)
    return f'module attributes {{pto.target_arch = "{arch}"}} {{\n{body}}}\n'


def _product(values: tuple[int, ...]) -> int:
    out = 1
    for value in values:
        out *= value
    return out
