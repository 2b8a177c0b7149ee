"""IR expressions as Python text: scalars at their width, op calls by their records, launches."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.enums import CUBE_SPACES, Direction, FunctionType
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import ScalarType, ShapedType, TileType, Type, UnknownType
from pypto_lab.ops.record import OPS, REQUIRED, Effect, Op
from pypto_lab.torch_codegen.launches import Group
from pypto_lab.torch_codegen.liveness import IN_PLACE, Plan
from pypto_lab.torch_codegen.names import Names
from pypto_lab.torch_codegen.preamble import Signature, library

ATOM, UNARY, COMPARE, NOT, AND, OR = 20, 11, 4, 3, 2, 1

BINARY: dict[str, tuple[str, int]] = {
    "Add": ("+", 9), "Sub": ("-", 9), "Mul": ("*", 10), "FloorDiv": ("//", 10), "FloorMod": ("%", 10),
    "FloatDiv": ("/", 10), "Pow": ("**", 12), "Eq": ("==", COMPARE), "Ne": ("!=", COMPARE), "Lt": ("<", COMPARE),
    "Le": ("<=", COMPARE), "Gt": (">", COMPARE), "Ge": (">=", COMPARE), "And": ("and", AND), "Or": ("or", OR),
    "BitAnd": ("&", 7), "BitOr": ("|", 5), "BitXor": ("^", 6), "BitShiftLeft": ("<<", 8), "BitShiftRight": (">>", 8),
}  # fmt: skip
"""Python operator and binding power; larger binds tighter."""

LEAVES_RANGE = frozenset({"Add", "Sub", "Mul", "FloorDiv", "FloatDiv", "Pow", "BitShiftLeft", "Neg", "BitNot"})
"""Operations whose exact result may lie outside the operands' type."""

WRAPPERS: dict[DType, str] = {
    dtypes.INT8: "_i8", dtypes.INT16: "_i16", dtypes.INT32: "_i32", dtypes.UINT8: "_u8", dtypes.UINT16: "_u16",
    dtypes.UINT32: "_u32", dtypes.UINT64: "_u64", dtypes.FP32: "_f32", dtypes.FP16: "_f16", dtypes.BF16: "_bf16",
}  # fmt: skip

TORCH_DTYPES: dict[DType, str] = {
    dtypes.BOOL: "torch.bool", dtypes.INT8: "torch.int8", dtypes.INT16: "torch.int16", dtypes.INT32: "torch.int32",
    dtypes.INT64: "torch.int64", dtypes.INDEX: "torch.int64", dtypes.UINT8: "torch.uint8",
    dtypes.UINT16: "torch.uint16", dtypes.UINT32: "torch.uint32", dtypes.UINT64: "torch.uint64",
    dtypes.FP16: "torch.float16", dtypes.BF16: "torch.bfloat16", dtypes.FP32: "torch.float32",
    dtypes.FP64: "torch.float64", dtypes.FP8E4M3FN: "torch.float8_e4m3fn", dtypes.FP8E5M2: "torch.float8_e5m2",
    dtypes.FP8E8M0: "torch.float8_e8m0fnu",
}  # fmt: skip
"""Dtypes torch has; the others go by name."""


class Code(NamedTuple):
    """Python text and how tightly its outermost operator binds."""

    text: str
    power: int = ATOM

    def inside(self, power: int) -> str:
        """The text as an operand of something that binds with `power`."""
        return self.text if self.power >= power else f"({self.text})"


def dtype_text(dtype: DType) -> str:
    """A dtype as runtime functions take it."""
    return TORCH_DTYPES.get(dtype) or repr(dtype.name)


class NoTorchForm(LabError, ValueError):
    """A node that no script can say, with its place in the source."""

    def __init__(self, what: str, span: Span | None) -> None:
        where = "" if span is None else f"{span}: "
        super().__init__([Diagnostic("E505", f"{where}{what} has no torch form", span)])


class Expressions:
    """Writes the expressions of one function.

    `functions` gives the script name of each program function, `groups` the groups among them. Raises NoTorchForm
    (op and source line named) for an op without a torch form.
    """

    def __init__(
        self,
        names: Names,
        program: Mapping[str, n.Function],
        functions: Mapping[str, str],
        groups: Mapping[str, Group],
        plan: Plan,
        *,
        both_lanes: bool = False,
        meeting: frozenset[str] = frozenset(),
    ) -> None:
        self.names = names
        self.program = program
        self.functions = functions
        self.groups = groups
        self.plan = plan
        self.split = 0
        """Split mode of the split_aiv region that is being written."""
        self.both_lanes = both_lanes
        """Whether the code being written runs on two lanes that both do the cube's work."""
        self.meeting = meeting
        """Functions with a barrier in them: blocks that call one run side by side."""

    # entry points

    def text(self, expr: n.Expr) -> str:
        return self.code(expr).text

    def atom(self, expr: n.Expr) -> str:
        """Text that can stand before `.method()` or `[...]`."""
        return self.code(expr).inside(ATOM)

    def listed(self, exprs: Sequence[n.Expr]) -> str:
        return "[" + ", ".join(self.text(e) for e in exprs) + "]"

    def code(self, expr: n.Expr, result: Type | None = None) -> Code:
        """The expression; `result` is the type of the variable it is assigned to, where it states more."""
        match expr:
            case n.Var():
                return Code(self.names.of(expr))
            case n.ConstInt() | n.ConstFloat() | n.ConstBool():
                return number(expr.value)
            case n.MakeTuple():
                return Code(self.listed(expr.elements))
            case n.TupleGetItem():
                return Code(f"{self.atom(expr.tuple)}[{expr.index}]")
            case n.Binary():
                return self._binary(expr)
            case n.Unary():
                return self._unary(expr)
            case n.OpCall():
                return self.op_call(expr, expr.type if result is None or isinstance(result, UnknownType) else result)
            case n.FunctionCall():
                return self._function_call(expr)
            case n.Submit():
                return self._submit(expr)
        raise NoTorchForm(type(expr).__name__, expr.span)

    # scalars

    def _binary(self, expr: n.Binary) -> Code:
        left, right = self.code(expr.left), self.code(expr.right)
        if expr.op in ("Min", "Max"):
            return Code(f"{expr.op.lower()}({left.text}, {right.text})")
        if expr.op == "Xor":
            return Code(f"{left.inside(COMPARE + 1)} != {right.inside(COMPARE + 1)}", COMPARE)
        symbol, power = BINARY[expr.op]
        loose = power in (AND, OR)
        if power == 12:
            shown = f"{left.inside(power + 1)} {symbol} {right.inside(power)}"
        else:
            own = power + 1 if power == COMPARE else power
            shown = f"{left.inside(own)} {symbol} {right.inside(power if loose else power + 1)}"
        return self._wrapped(expr, Code(shown, power))

    def _unary(self, expr: n.Unary) -> Code:
        operand = self.code(expr.operand)
        if expr.op == "Cast":
            return self._cast(expr, operand)
        if expr.op == "Not":
            return Code(f"not {operand.inside(NOT)}", NOT)
        if expr.op == "Abs":
            return Code(f"abs({operand.text})")
        symbol = "-" if expr.op == "Neg" else "~"
        return self._wrapped(expr, Code(f"{symbol}{operand.inside(UNARY)}", UNARY))

    def _wrapped(self, expr: n.Binary | n.Unary, code: Code) -> Code:
        """The result at its type's width; 64-bit integers and truth values are as they are."""
        dtype = n.scalar_dtype(expr)
        wrapper = WRAPPERS.get(dtype) if dtype is not None and expr.op in LEAVES_RANGE else None
        return code if wrapper is None else Code(f"{wrapper}({code.text})")

    def _cast(self, expr: n.Unary, operand: Code) -> Code:
        target, source = n.scalar_dtype(expr), n.scalar_dtype(expr.operand)
        if target is None or target == source:
            return operand
        wide = target in (dtypes.INDEX, dtypes.INT64)
        if wide and source is not None and source.is_integer and source != dtypes.UINT64:
            return operand
        return Code(f"_cast_scalar({operand.text}, {dtype_text(target)})")

    # op calls

    def op_call(self, call: n.OpCall, result: Type) -> Code:
        special = SPECIAL.get(call.op)
        if special is not None:
            return special(self, call, result)
        op = OPS.get(call.op)
        if op is None:
            raise NoTorchForm(f"op {call.op}", call.span)
        decision = self.plan.decisions.get(call, IN_PLACE)
        if op.torch.plain is not None and not decision.copy and self._is_plain(op, call, result):
            shown = self._plain(op, call, op.torch.plain)
            if shown is not None:
                return shown
        text = self._helper_call(op, call, result, copy=decision.copy)
        if self.both_lanes and _adds_from_cube(call):
            target = self.text(call.args[op.torch.writes or 0])
            return Code(f"{text} if _get_subblock_idx() == 0 else {target}", 0)
        return Code(text)

    def _is_plain(self, op: Op, call: n.OpCall, result: Type) -> bool:
        """Whether every tensor or tile involved is fully valid by type, so that torch alone says it."""
        types = [*(a.type for a in call.args), result]
        if any(isinstance(t, UnknownType) or (isinstance(t, ShapedType) and t.stated_valid is not None) for t in types):
            return False
        if call.op == "tile.move" and call.args[0] in self.plan.freed:
            return False  # not another name of the slot: the moved tile outlives it
        return op.torch.plain_when is None or op.torch.plain_when(call)

    def _plain(self, op: Op, call: n.OpCall, template: str) -> Code | None:
        arguments = [self.atom(a) for a in call.args]
        attributes = {a.name: self.literal(a.default) for a in op.attrs if a.default is not REQUIRED}
        attributes |= {name: self.literal(value) for name, value in call.kwargs.items()}
        try:
            return Code(template.format(*arguments, **attributes), template_power(template))
        except (IndexError, KeyError):
            return None  # an optional operand the template needs is missing

    def _helper_call(self, op: Op, call: n.OpCall, result: Type, *, copy: bool) -> str:
        name = f"_{op.torch.call}"
        signature = library().signatures.get(name)
        if signature is None and "." in name and name.partition(".")[0] in library().definitions:
            signature = Signature((), {}, any_keyword=True, variadic=True)  # a method of a runtime object
        if signature is None:
            raise NoTorchForm(f"op {call.op} ({name})", call.span)
        copied = self.plan.decisions.get(call, IN_PLACE).copy_args
        arguments = []
        for index, argument in enumerate(call.args):
            if index < len(op.args) and op.args[index].effect is Effect.NONE:
                continue
            shown = self.text(argument)
            arguments.append(f"_copy_of({shown})" if index in copied else shown)
        taken = set(signature.positional[: len(arguments)])
        keywords = {k: self.literal(v) for k, v in call.kwargs.items() if v is not None}
        keywords |= {fact: text for fact in op.torch.result if (text := self._fact(fact, result)) is not None}
        if copy:
            keywords["copy"] = "True"
        for key, shown in keywords.items():
            if key not in taken and _accepts(signature, key, shown):
                arguments.append(f"{key}={shown}")
        return f"{name}({', '.join(arguments)})"

    def _fact(self, fact: str, result: Type) -> str | None:
        """A fact of the result type as a keyword value; None where the type does not tell."""
        if not isinstance(result, ShapedType):
            return dtype_text(result.dtype) if fact == "dtype" and isinstance(result, ScalarType) else None
        if fact == "dtype":
            return dtype_text(result.dtype)
        if fact == "shape":
            return self.listed(result.shape)
        if fact == "valid_shape":
            return None if result.stated_valid is None else self.listed(result.stated_valid)
        if fact == "memory" and isinstance(result, TileType) and result.memory_space is not None:
            return repr(result.memory_space.name)
        return None

    def literal(self, value: Any) -> str:
        """An attribute's value as Python text."""
        if isinstance(value, n.Expr):
            return self.text(value)
        if isinstance(value, DType):
            return dtype_text(value)
        if isinstance(value, Enum):
            return repr(value.name)
        if isinstance(value, float):
            return number(value).text
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(self.literal(v) for v in value) + "]"
        return repr(value)

    # calls of program functions

    def _arguments(self, call: n.FunctionCall | n.Submit) -> list[str]:
        copied = self.plan.decisions.get(call, IN_PLACE).copy_args
        shown = [self.text(a) for a in call.args]
        return [f"_copy_of({text})" if i in copied else text for i, text in enumerate(shown)]

    def callee(self, call: n.FunctionCall | n.Submit) -> str:
        return self.functions.get(call.callee, call.callee)

    def core_num(self, call: n.FunctionCall | n.Submit) -> str | None:
        """The number of SPMD blocks of a launch as text; None for a launch without blocks."""
        stated = call.core_num if isinstance(call, n.Submit) else None
        value = stated if stated is not None else call.attrs.get("core_num")
        callee = self.program.get(call.callee)
        if value is None and callee is not None:
            value = callee.attrs.get("core_num", 1 if callee.func_type is FunctionType.Spmd else None)
        return None if value is None else self.literal(value)

    def _function_call(self, call: n.FunctionCall) -> Code:
        arguments, blocks = self._arguments(call), self.core_num(call)
        if blocks is not None:
            launch = "_spmd_together" if call.callee in self.meeting else "_spmd_call"
            return Code(f"{launch}({', '.join([blocks, self.callee(call), *arguments])})")
        if call.callee in self.groups:
            return Code(f"_run_group_call({', '.join([repr(self.callee(call)), *arguments])})")
        return Code(f"{self.callee(call)}({', '.join(arguments)})")

    def _submit(self, call: n.Submit) -> Code:
        arguments = [self.callee(call), *self._arguments(call)]
        blocks = self.core_num(call)
        if blocks is not None:
            arguments.append(f"core_num={blocks}")
            if call.callee in self.meeting:
                arguments.append("together=True")
        if call.deps:
            arguments.append(f"deps={self.listed(call.deps)}")
        callee = self.program.get(call.callee)
        count = 1 if callee is None else len(callee.return_types)
        if call.predicate is not None:
            outputs = [] if callee is None else self._unchanged(call, callee)
            arguments.append(f"predicate={self.text(call.predicate)}")
            arguments.append("skipped=(" + "".join(f"{text}, " for text in outputs).strip() + ")")
        if count != 1:
            arguments.append(f"results={count}")
        return Code(f"_submit({', '.join(arguments)})")

    def _unchanged(self, call: n.Submit, callee: n.Function) -> list[str]:
        """What a skipped launch returns: for each result the output argument of that type, in order."""
        pairs = [(p, a) for p, a in zip(callee.params, call.args, strict=False) if p.direction is not Direction.In]
        found: list[str] = []
        for type_ in callee.return_types:
            match = next((pair for pair in pairs if _same_shape(pair[0].type, type_)), pairs[0] if pairs else None)
            if match is None:
                break
            pairs.remove(match)
            found.append(self.text(match[1]))
        return found


def number(value: float | bool) -> Code:
    """A literal; infinities and NaN are spelled as calls."""
    if isinstance(value, float) and not math.isfinite(value):
        return Code(f'float("{value}")')
    return Code(repr(value), UNARY if value < 0 else ATOM)


@lru_cache(maxsize=512)
def template_power(template: str) -> int:
    """How tightly a template's outermost operator binds (0: parenthesise it anywhere)."""
    node = ast.parse(re.sub(r"\{[^}]*\}", "x", template), mode="eval").body
    tight = isinstance(node, (ast.Call, ast.Name, ast.Attribute, ast.Subscript, ast.List, ast.Tuple, ast.Constant))
    return ATOM if tight else 0


def _accepts(signature: Signature, key: str, shown: str) -> bool:
    """Whether a keyword is known to a runtime function and says more than its default."""
    if key not in signature.keywords:
        return signature.any_keyword
    return signature.keywords[key] != shown


def _same_shape(a: Type, b: Type) -> bool:
    if not isinstance(a, ShapedType) or not isinstance(b, ShapedType):
        return False
    return a.dtype == b.dtype and [getattr(d, "value", None) for d in a.shape] == [
        getattr(d, "value", None) for d in b.shape
    ]


def _adds_from_cube(call: n.OpCall) -> bool:
    """Whether a store adds a tile of the cube to global memory: two lanes doing it would add twice."""
    source = call.args[0].type if call.args else None
    on_cube = isinstance(source, TileType) and source.memory_space in CUBE_SPACES
    atomic = call.kwargs.get("atomic")
    return on_cube and atomic is not None and int(atomic) != 0


# --- ops that the lanes and launches of a script implement -----------------------------------------------------------


def _pipe_options(self: Expressions, call: n.OpCall) -> list[str]:
    options = []
    for key in ("id", "lane_stride"):
        value = call.kwargs.get(key)
        if value is not None and not (key == "id" and value == 0):
            options.append(f"{key}={self.literal(value)}")
    return options


def _split(self: Expressions, call: n.OpCall) -> str:
    split = call.kwargs.get("split")
    return str(self.split if split is None else int(split))


def _push(method: str) -> Callable[[Expressions, n.OpCall, Type], Code]:
    def write(self: Expressions, call: n.OpCall, result: Type) -> Code:
        tile = self.text(call.args[0])
        if call in self.plan.copied_pushes:
            tile = f"_copy_of({tile})"
        return Code(f"_cross_core_rt.{method}({', '.join([tile, _split(self, call), *_pipe_options(self, call)])})")

    return write


def _pop(method: str) -> Callable[[Expressions, n.OpCall, Type], Code]:
    def write(self: Expressions, call: n.OpCall, result: Type) -> Code:
        options = [_split(self, call), *_pipe_options(self, call)]
        if isinstance(result, ShapedType) and result.stated_valid is not None:
            options.append(f"valid_shape={self.listed(result.stated_valid)}")
        return Code(f"_cross_core_rt.{method}({', '.join(options)})")

    return write


def _free(method: str) -> Callable[[Expressions, n.OpCall, Type], Code]:
    def write(self: Expressions, call: n.OpCall, result: Type) -> Code:
        tile = self.text(call.args[0])
        return Code(f"_cross_core_rt.{method}({', '.join([tile, _split(self, call), *_pipe_options(self, call)])})")

    return write


def _initialize_pipe(self: Expressions, call: n.OpCall, result: Type) -> Code:
    options = [f"dir_mask={self.literal(call.kwargs['dir_mask'])}"]
    for key in ("slot_size", "slot_num", "id"):
        value = call.kwargs.get(key)
        if value is not None:
            options.append(f"{key}={self.literal(value)}")
    return Code(f"_cross_core_rt.initialize_pipe({', '.join(options)})")


def _shard(name: str) -> Callable[[Expressions, n.OpCall, Type], Code]:
    def write(self: Expressions, call: n.OpCall, result: Type) -> Code:
        options = [self.text(call.args[0]), _split(self, call), *_pipe_options(self, call)]
        return Code(f"{name}({', '.join(options)})")

    return write


def _event(self: Expressions, call: n.OpCall) -> str:
    return self.text(call.args[0]) if call.args else self.literal(call.kwargs.get("event_id", 0))


def _sync_set(self: Expressions, call: n.OpCall, result: Type) -> Code:
    mode = call.kwargs.get("ffts_mode")
    options = [_event(self, call), *([] if mode is None else [f"ffts_mode={self.literal(mode)}"])]
    return Code(f"_cross_core_rt.sync_set({', '.join(options)})")


def _sync_wait(self: Expressions, call: n.OpCall, result: Type) -> Code:
    return Code(f"_cross_core_rt.sync_wait({_event(self, call)})")


def _sync_all(self: Expressions, call: n.OpCall, result: Type) -> Code:
    return Code(f"_sync_all({self.literal(call.kwargs.get('core_type', 'mix'))})")


def _constant(text: str) -> Callable[[Expressions, n.OpCall, Type], Code]:
    return lambda self, call, result: Code(text)


SPECIAL: dict[str, Callable[[Expressions, n.OpCall, Type], Code]] = {
    "tile.tpush_to_aiv": _push("push_to_aiv"),
    "tile.tpush_to_aic": _push("push_to_aic"),
    "tile.tpop_from_aic": _pop("pop_from_aic"),
    "tile.tpop_from_aiv": _pop("pop_from_aiv"),
    "system.tfree_to_aic": _free("tfree_to_aic"),
    "system.tfree_to_aiv": _free("tfree_to_aiv"),
    "system.aic_initialize_pipe": _initialize_pipe,
    "system.aiv_initialize_pipe": _initialize_pipe,
    "system.sync_set": _sync_set,
    "system.sync_wait": _sync_wait,
    "system.syncall": _sync_all,
    "tile.aiv_shard": _shard("_aiv_shard"),
    "tensor.aiv_shard": _shard("_aiv_shard"),
    "tile.aic_gather": _shard("_aic_gather"),
    "tensor.aic_gather": _shard("_aic_gather"),
    "tile.get_subblock_idx": _constant("_get_subblock_idx()"),
    "tensor.get_subblock_idx": _constant("_get_subblock_idx()"),
    "tile.get_block_idx": _constant("_get_block_idx()"),
    "tensor.get_block_idx": _constant("_get_block_idx()"),
    "tile.get_block_num": _constant("_get_block_num()"),
    "tensor.get_block_num": _constant("_get_block_num()"),
    "system.task_dummy": _constant("_new_task()"),
}
"""Ops whose meaning is the lanes, pipes and launches of the script itself."""
