"""Dynamic dimensions of a kernel: which there are, and the C++ that reads each from a tensor's shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.dtypes import FP4
from pypto_lab.ir.types import TensorType
from pypto_lab.ir.visitor import walk

NOT_INVERTIBLE = "E650"


@dataclass(frozen=True, slots=True)
class DynamicDimension:
    """A symbol of the kernel's shapes, and the C++ expression (64-bit signed) that gives its value."""

    symbol: n.Var
    value: str


def dynamic_dimensions(function: n.Function) -> tuple[DynamicDimension, ...]:
    """One entry for each distinct symbol, in the order a walk over tensor parameters and their dimensions meets them.

    A dimension `v`, `v + c`, `c - v`, `v * c` or `v // c`, nested too, is solved for `v`. Where several tensors show a
    symbol, the first that gives it exactly wins (`v // c` gives a multiple of `c` only).

    Raises:
        LabError (E650): no dimension can be solved for a symbol.
    """

    def source(param: n.Param, axis: int) -> str:
        return f"static_cast<int64_t>({param.name}_tensor->shapes[{axis}])"

    return tuple(
        DynamicDimension(symbol, _value(function, symbol, shown))
        for symbol, shown in shown_symbols(function, source).items()
    )


def shown_symbols(function: n.Function, source: Callable[[n.Param, int], str]) -> dict[n.Var, list[tuple[str, n.Expr]]]:
    """The symbols of the tensor parameters' shapes, first seen first, each with the dimensions that show it.

    `source` gives the C++ of a parameter's extent on an axis; with it stands the dimension as the program has it.
    """
    scalars = {p.var for p in function.params}
    symbols: dict[n.Var, list[tuple[str, n.Expr]]] = {}
    for param in function.params:
        if not isinstance(param.type, TensorType):
            continue
        for axis, dimension in enumerate(param.type.shape):
            # two FP4 values share a byte, and the runtime's shape counts bytes
            packed = param.type.dtype is FP4 and axis == param.type.rank - 1
            text = source(param, axis) + (" * 2" if packed else "")
            for node in walk(dimension):
                if isinstance(node, n.Var) and node not in scalars:
                    symbols.setdefault(node, []).append((text, dimension))
    return symbols


def solved(symbol: n.Var, shown: list[tuple[str, n.Expr]]) -> str | None:
    """The C++ of a symbol's value, from the first dimension that gives it exactly, else from the first at all."""
    values = [s for source, dimension in shown if (s := _solve(dimension, symbol, source, exact=True)) is not None]
    exact = [value for value, is_exact in values if is_exact]
    return next(iter([*exact, *(value for value, _ in values)]), None)


def _value(function: n.Function, symbol: n.Var, shown: list[tuple[str, n.Expr]]) -> str:
    value = solved(symbol, shown)
    if value is not None:
        return value
    from pypto_lab.ir.printer import print_expr

    forms = ", ".join(f"`{print_expr(dimension)}`" for _, dimension in shown)
    raise LabError(
        [
            Diagnostic(
                NOT_INVERTIBLE,
                f"{function.name}: the dynamic dimension `{symbol.name}` cannot be recovered from a tensor's shape; "
                f"its tensors have {forms}",
                function.span,
                hint="give one tensor a dimension that is the symbol plus, minus, times or floor-divided by a constant",
            )
        ]
    )


def _solve(dimension: n.Expr, symbol: n.Var, known: str, exact: bool) -> tuple[str, bool] | None:
    """(value of the symbol, whether it is exact) given the C++ of the dimension's value, or None."""
    if dimension is symbol:
        return known, exact
    if isinstance(dimension, n.Unary) and dimension.op == "Cast":
        return _solve(dimension.operand, symbol, known, exact)
    if isinstance(dimension, n.Unary) and dimension.op == "Neg":
        return _solve(dimension.operand, symbol, f"-({known})", exact)
    if not isinstance(dimension, n.Binary):
        return None
    left, right = arith.constant(dimension.left), arith.constant(dimension.right)
    if right is not None:
        return _solve_left(dimension, symbol, known, exact, right)
    if left is None:
        return None
    match dimension.op:
        case "Add":
            return _solve(dimension.right, symbol, f"({known} - {left})", exact)
        case "Sub":
            return _solve(dimension.right, symbol, f"({left} - {known})", exact)
        case "Mul" if left:
            return _solve(dimension.right, symbol, f"({known} / {left})", exact)
    return None


def _solve_left(dimension: n.Binary, symbol: n.Var, known: str, exact: bool, constant: int) -> tuple[str, bool] | None:
    match dimension.op:
        case "Add":
            return _solve(dimension.left, symbol, f"({known} - {constant})", exact)
        case "Sub":
            return _solve(dimension.left, symbol, f"({known} + {constant})", exact)
        case "Mul" if constant:
            return _solve(dimension.left, symbol, f"({known} / {constant})", exact)
        case "FloorDiv" if constant:
            return _solve(dimension.left, symbol, f"({known} * {constant})", exact and constant == 1)
    return None
