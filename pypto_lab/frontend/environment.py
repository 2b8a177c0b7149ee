"""What a kernel sees of Python: closure, globals and builtins; folding of constant expressions; DSL paths."""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pypto_lab.frontend.kernels import dsl_name
from pypto_lab.frontend.members import member
from pypto_lab.frontend.missing import MISSING
from pypto_lab.ir.dtypes import DType

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_LARGEST_SHIFT = 4096


@dataclass(frozen=True)
class Environment:
    """Python names around a kernel, innermost first."""

    closure: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    globals: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @staticmethod
    def of(function: Callable[..., Any], extra: Mapping[str, Any] | None = None) -> Environment:
        """The environment of a Python function; `extra` are names of an enclosing class or function."""
        closure: dict[str, Any] = dict(extra or {})
        code = getattr(function, "__code__", None)
        for name, cell in zip(getattr(code, "co_freevars", ()), function.__closure__ or (), strict=False):
            try:
                closure[name] = cell.cell_contents
            except ValueError:  # the enclosing function has not assigned it yet
                continue
        return Environment(closure, getattr(function, "__globals__", {}))

    def overlaid(self, names: Mapping[str, Any]) -> Environment:
        """The same environment with further inner names."""
        return Environment({**self.closure, **names}, self.globals)

    def lookup(self, name: str) -> Any:
        """The value of a name, MISSING when Python would raise NameError."""
        for names in (self.closure, self.globals):
            if name in names:
                return names[name]
        return getattr(builtins, name, MISSING)

    def names(self) -> list[str]:
        return [*self.closure, *self.globals]

    def path(self, node: ast.AST) -> str | None:
        """The dotted DSL name of an expression (`pl.tile.add`), None when it is not one.

        Only the first name is looked up: attributes of a DSL namespace are followed in the text.
        """
        match node:
            case ast.Name():
                value = self.lookup(node.id)
                return None if value is MISSING else dsl_name(value)
            case ast.Attribute():
                base = self.path(node.value)
                if base is not None:
                    return canonical_path(f"{base}.{node.attr}")
                value = self.value(node)
                return None if value is MISSING else dsl_name(value)
        return None

    def value(self, node: ast.AST, hidden: Callable[[str], bool] = lambda _: False) -> Any:
        """The Python value of an expression without DSL variables, else MISSING.

        `hidden` says which names are DSL variables. Operators, attributes and subscripts of plain values are evaluated;
        calls are not, but for `get_byte` of a dtype. Raises ArithmeticError, TypeError ... as Python would.
        """
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return MISSING if hidden(node.id) else self.lookup(node.id)
            case ast.Attribute():
                return self._attribute(node, hidden)
            case ast.BinOp():
                return self._binary(node, hidden)
            case ast.UnaryOp() if type(node.op) in _UNARY:
                operand = self.value(node.operand, hidden)
                return MISSING if operand is MISSING else _UNARY[type(node.op)](operand)
            case ast.Subscript():
                return self._item(node, hidden)
            case ast.Call(func=ast.Attribute(attr="get_byte", value=dtype), args=[], keywords=[]):
                return self._bytes(dtype)
            case ast.Tuple() | ast.List():
                items = [self.value(e, hidden) for e in node.elts]
                if any(i is MISSING for i in items):
                    return MISSING
                return tuple(items) if isinstance(node, ast.Tuple) else items
        return MISSING

    def _attribute(self, node: ast.Attribute, hidden: Callable[[str], bool]) -> Any:
        base = self.value(node.value, hidden)
        if base is MISSING or dsl_name(base) is not None:
            return MISSING
        return getattr(base, node.attr, MISSING)

    def _bytes(self, node: ast.expr) -> Any:
        """`pl.BF16.get_byte()`: the size of a dtype, the one call that folds."""
        path = self.path(node)
        dtype = self.value(node) if path is None else member(path)
        return max(1, dtype.bits // 8) if isinstance(dtype, DType) else MISSING

    def _binary(self, node: ast.BinOp, hidden: Callable[[str], bool]) -> Any:
        left, right = self.value(node.left, hidden), self.value(node.right, hidden)
        if left is MISSING or right is MISSING or type(node.op) not in _BINARY:
            return MISSING
        huge = isinstance(node.op, (ast.LShift, ast.Pow)) and isinstance(right, int) and abs(right) > _LARGEST_SHIFT
        return MISSING if huge else _BINARY[type(node.op)](left, right)

    def _item(self, node: ast.Subscript, hidden: Callable[[str], bool]) -> Any:
        base = self.value(node.value, hidden)
        if not isinstance(base, (list, tuple, dict, str)):
            return MISSING
        index = self.value(node.slice, hidden)
        return MISSING if index is MISSING else base[index]


def compare_constants(op: ast.cmpop, left: Any, right: Any) -> Any:
    """The Python result of a comparison of two constants."""
    return _COMPARE[type(op)](left, right)


_SYNONYMS = {
    "pl.Mem": "pl.MemorySpace",
    "pl.distributed": "pld",
    "pl.DataType": "pl",
}


def canonical_path(path: str) -> str:
    """One spelling for names that mean the same (`pl.Mem` is `pl.MemorySpace`)."""
    for written, meant in _SYNONYMS.items():
        if path == written or path.startswith(written + "."):
            return meant + path[len(written) :]
    return path
