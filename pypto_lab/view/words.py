"""Short words for people: expressions, types and statements as a label or a table cell shows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pypto_lab.ir import nodes as n
from pypto_lab.ir.types import ArrayType, HandleType, ScalarType, ShapedType, TileType, TupleType, Type

_PRECEDENCE = {
    "Or": 1, "Xor": 1, "And": 2, "Eq": 3, "Ne": 3, "Lt": 3, "Le": 3, "Gt": 3, "Ge": 3, "BitOr": 4, "BitXor": 5,
    "BitAnd": 6, "BitShiftLeft": 7, "BitShiftRight": 7, "Add": 8, "Sub": 8, "Mul": 9, "FloorDiv": 9, "FloorMod": 9,
    "FloatDiv": 9, "Pow": 11,
}  # fmt: skip
_CALLED = ("Min", "Max", "Xor")
_UNARY = 10


def clip(text: str, limit: int) -> str:
    """The text, with an ellipsis for what does not fit in `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def expression(node: n.Expr) -> str:
    """An expression in the fewest characters that still say it: constants bare, operations as `name(...)`."""
    return _expression(node, 0)


def _expression(node: n.Expr, outer: int) -> str:
    match node:
        case n.Var():
            return node.name
        case n.ConstInt() | n.ConstBool():
            return str(node.value)
        case n.ConstFloat():
            return repr(node.value)
        case n.MakeTuple():
            return f"[{items(node.elements)}]"
        case n.TupleGetItem():
            return f"{_expression(node.tuple, _UNARY)}[{node.index}]"
        case n.Binary():
            return _binary(node, outer)
        case n.Unary():
            return _unary(node, outer)
        case n.OpCall():
            return f"{node.op.rpartition('.')[2]}({items(node.args)})"
        case n.FunctionCall() | n.Submit():
            return f"{node.callee}({items(node.args)})"
    return type(node).__name__


def _binary(node: n.Binary, outer: int) -> str:
    sign = n.BINARY_OPS.get(node.op, node.op)
    if node.op in _CALLED:
        return f"{sign}({_expression(node.left, 0)}, {_expression(node.right, 0)})"
    own = _PRECEDENCE.get(node.op, 0)
    text = f"{_expression(node.left, own)} {sign} {_expression(node.right, own + 1)}"
    return f"({text})" if own < outer else text


def _unary(node: n.Unary, outer: int) -> str:
    if node.op == "Cast":
        return f"{type_words(node.type)}({_expression(node.operand, 0)})"
    if node.op == "Abs":
        return f"abs({_expression(node.operand, 0)})"
    sign = {"Neg": "-", "Not": "not ", "BitNot": "~"}.get(node.op, node.op)
    text = f"{sign}{_expression(node.operand, _UNARY)}"
    return f"({text})" if outer > _UNARY else text


def items(nodes: Iterable[n.Expr]) -> str:
    return ", ".join(expression(e) for e in nodes)


def dims(shape: Iterable[Any]) -> str:
    """`[16, N]` from dimension expressions or integers."""
    return "[" + ", ".join(expression(d) if isinstance(d, n.Expr) else str(d) for d in shape) + "]"


def type_words(type_: Type) -> str:
    """`[32, 32] FP32`, with the valid shape where the type states a smaller one, and a tile's memory space."""
    match type_:
        case ScalarType():
            return type_.dtype.name
        case ShapedType():
            words = [dims(type_.shape), type_.dtype.name]
            stated = type_.stated_valid
            if stated is not None and dims(stated) != dims(type_.shape):
                words.append(f"valid {dims(stated)}")
            if isinstance(type_, TileType) and type_.memory_space is not None:
                words.append(type_.memory_space.name)
            return " ".join(words)
        case ArrayType():
            return f"array of {expression(type_.extent)} {type_.dtype.name}"
        case TupleType():
            return "(" + ", ".join(type_words(e) for e in type_.elements) + ")"
        case HandleType():
            return type_.name.rpartition(".")[2]
    return ""


def scope_words(scope: n.Scope) -> str:
    """A scope's heading: what it is, its name hint, its split."""
    match scope:
        case n.InCoreScope():
            words = ["at CORE_GROUP"]
        case n.HierarchyScope():
            words = [f"at {scope.level.name}"]
        case n.SpmdScope():
            head = f"for {scope.loop_var.name} in spmd" if scope.loop_var is not None else "spmd"
            words = [f"{head}({expression(scope.core_num)})"]
        case n.SplitAivScope():
            words = [f"for {scope.lane_var.name} in split_aiv({scope.count})"]
        case n.RuntimeScope():
            words = ["manual scope" if scope.manual else "scope"]
        case _:
            words = [type(scope).__name__.removesuffix("Scope").lower()]
    if scope.name_hint:
        words.append(scope.name_hint)
    split = getattr(scope, "split", None)
    if split is not None:
        words.append(f"split {split.name}")
    return ", ".join(words)


def loop_words(loop: n.For | n.While) -> str:
    """A loop's heading as it is written."""
    if isinstance(loop, n.While):
        return f"while {expression(loop.condition)}"
    start, step = expression(loop.start), expression(loop.step)
    bounds = [expression(loop.stop)] if (start, step) == ("0", "1") else [start, expression(loop.stop)]
    if step != "1":
        bounds.append(step)
    stages = loop.attrs.get("pipeline_stages")
    if stages is not None:
        bounds.append(f"stage={stages}")
    return f"for {loop.loop_var.name} in {loop.kind.value}({', '.join(bounds)})"
