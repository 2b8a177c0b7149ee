"""Records of the cell-by-cell ops: arithmetic, remainders, extremes, functions of one operand, bits and shifts."""

from __future__ import annotations

from collections.abc import Callable

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import OpError
from pypto_lab.ir.enums import MemorySpace
from pypto_lab.ir.types import ScalarType, ShapedType, TileType, Type
from pypto_lab.ops import rules
from pypto_lab.ops.record import OPS, REQUIRED, Arg, Attr, Effect, Op, Operands, Torch
from pypto_lab.ops.rules import VEC

When = Callable[[n.OpCall], bool]

HIGH_PRECISION = Attr("high_precision", "bool", False, printed=False)


# --- type rules -----------------------------------------------------------------------------------------------------


def _infer_binary(operands: Operands) -> Type:
    """Broadcast shape, promoted dtype; a tile's region is the left operand's, a tensor's is kept when both agree."""
    rules.require_same_kind(operands, 0, 1)
    left, right = operands.shaped(0), operands.shaped(1)
    shape, valid = rules.broadcast(operands, 0, 1)
    if not isinstance(left, TileType) and not _regions_agree(left, right):
        valid = shape
    return rules.like(left, shape=shape, dtype=rules.promoted(left.dtype, right.dtype), valid=valid)


def _regions_agree(left: ShapedType, right: ShapedType) -> bool:
    return rules.same_dims(left.shape, right.shape) and rules.same_dims(left.valid_shape, right.valid_shape)


def _infer_scalar(operands: Operands) -> Type:
    """The tile keeps its dtype and the number is narrowed; a tensor's dtype is promoted with the number's."""
    source = operands.shaped(0)
    number = rules.scalar_dtype(operands, 1)
    if isinstance(source, TileType):
        return rules.like(source)
    return rules.like(source, dtype=rules.promoted(source.dtype, number))


def _infer_extreme(operands: Operands) -> Type:
    """maximum and minimum of tensors take a tensor or a number."""
    if isinstance(operands.type(1), ScalarType):
        return _infer_scalar(operands)
    return _infer_binary(operands)


def _infer_div(operands: Operands) -> Type:
    """Tiles: one dtype of INT16, INT32, FP16, FP32 and one shape."""
    left, right = operands.shaped(0), operands.shaped(1)
    if isinstance(left, TileType) and isinstance(right, TileType):
        rules.require_dtype(
            operands, 0, (dtypes.FP32, dtypes.FP16, dtypes.INT32, dtypes.INT16, dtypes.UINT32, dtypes.UINT16)
        )
        rules.require_same_dtype(operands, 0, 1)
        _require_equal(operands, left.shape, right.shape, "shape")
        _require_equal(operands, left.valid_shape, right.valid_shape, "valid shape")
    return _infer_binary(operands)


def _require_equal(operands: Operands, left: rules.Dims, right: rules.Dims, what: str) -> None:
    different = len(left) != len(right) or any(arith.differ(a, b) for a, b in zip(left, right, strict=False))
    if different:
        raise OpError(
            f"{operands.op.name} needs one {what}, but got {rules.show_dims(left)} and {rules.show_dims(right)}",
            argument=1,
            hint="repeat the smaller operand with row_expand or col_expand, or use row_expand_div / col_expand_div",
            code="E302",
            also={0: f"this has {what} {rules.show_dims(left)}"},
        )


_SUBS_DTYPES = (dtypes.FP32, dtypes.FP16, dtypes.BF16, dtypes.INT32, dtypes.INT16, dtypes.INT8)


def _infer_subs(operands: Operands) -> Type:
    rules.require_dtype(operands, 0, _SUBS_DTYPES, "add the negated number instead, or cast to a signed dtype")
    return _infer_scalar(operands)


def _infer_part(operands: Operands) -> Type:
    """Covers what either operand covers: the larger valid extent on each axis of equal boxes (tensors: everything)."""
    rules.require_same_kind(operands, 0, 1)
    rules.require_same_dtype(operands, 0, 1)
    left, right = operands.shaped(0), operands.shaped(1)
    _require_equal(operands, left.shape, right.shape, "shape")
    if not isinstance(left, TileType):
        return rules.like(left, valid=left.shape)
    valid = tuple(arith.maximum(a, b) for a, b in zip(left.valid_shape, right.valid_shape, strict=True))
    return rules.like(left, valid=valid)


def _infer_three(operands: Operands) -> Type:
    """a op b op c, b a tile or a number."""
    left, last = operands.shaped(0), operands.shaped(2)
    dtype = left.dtype
    if isinstance(operands.type(1), ScalarType):
        rules.scalar_dtype(operands, 1)
    else:
        rules.broadcast(operands, 0, 1)
        dtype = rules.promoted(dtype, operands.shaped(1).dtype)
    shape, valid = rules.broadcast(operands, 0, 2)
    return rules.like(left, shape=shape, dtype=rules.promoted(dtype, last.dtype), valid=valid)


def _infer_same(operands: Operands) -> Type:
    return rules.like(operands.shaped(0))


def _infer_float(operands: Operands) -> Type:
    rules.require_float(operands, 0)
    return _infer_same(operands)


def _infer_fp32(operands: Operands) -> Type:
    rules.require_dtype(operands, 0, (dtypes.FP32,))
    return _infer_same(operands)


def _infer_not(operands: Operands) -> Type:
    rules.require_dtype(operands, 0, (dtypes.INT16, dtypes.UINT16), "cast to pl.INT16, or xor with a mask of ones")
    return _infer_same(operands)


def _infer_bits(operands: Operands) -> Type:
    rules.require_integer(operands, 0)
    rules.require_integer(operands, 1)
    if isinstance(operands.type(1), ScalarType):
        return rules.like(operands.shaped(0))
    return _infer_binary(operands)


def _infer_xor(operands: Operands) -> Type:
    """As the other bit ops, but a tensor result counts as fully valid."""
    found = _infer_bits(operands)
    if isinstance(found, TileType) or isinstance(operands.type(1), ScalarType):
        return found
    assert isinstance(found, ShapedType)
    return rules.like(found, valid=found.shape)


def _infer_shift(operands: Operands) -> Type:
    """The count may have any integer dtype: the result keeps the left operand's."""
    rules.require_integer(operands, 0)
    rules.require_integer(operands, 1)
    left = operands.shaped(0)
    if isinstance(operands.type(1), ScalarType):
        return rules.like(left)
    shape, valid = rules.broadcast(operands, 0, 1)
    return rules.like(left, shape=shape, valid=valid)


def _infer_slope_number(operands: Operands) -> Type:
    rules.scalar_dtype(operands, 1)
    return _infer_float(operands)


def _infer_slope_tile(operands: Operands) -> Type:
    rules.require_float(operands, 0)
    rules.require_same_dtype(operands, 0, 1)
    _require_equal(operands, operands.shaped(0).shape, operands.shaped(1).shape, "shape")
    return _infer_same(operands)


# --- building records -----------------------------------------------------------------------------------------------


def tensor_arg(name: str, dsl_name: str | None = None) -> Arg:
    return Arg(name, "tensor", dsl_name=dsl_name)


def tile_arg(name: str, dsl_name: str | None = None) -> Arg:
    return Arg(name, "tile", spaces=VEC, dsl_name=dsl_name)


def scratch_arg(name: str, *, optional: bool = False) -> Arg:
    """A scratch tile: the op may overwrite it, its contents mean nothing."""
    return Arg(name, "tile", None if optional else REQUIRED, effect=Effect.NONE, spaces=VEC)


def scalar_arg(name: str) -> Arg:
    return Arg(name, "scalar")


def mnemonic(name: str) -> str:
    return "pto.t" + name.replace("_", "")


def add_both(
    name: str,
    infer: Callable[[Operands], Type],
    doc: str,
    *,
    call: str | None = None,
    plain: str | None = None,
    when: When | None = None,
    pto: str | None = None,
    scalar_form: bool = False,
    dsl: str | None = None,
) -> None:
    """Records the tensor and the tile form of an op of two tensors or tiles."""
    for space, arg in (("tensor", tensor_arg), ("tile", tile_arg)):
        OPS.add(
            Op(
                name=f"{space}.{name}",
                args=(arg("lhs"), arg("rhs")),
                attrs=(HIGH_PRECISION,) if name == "div" else (),
                infer=infer,
                torch=Torch(call or name, plain, when),
                doc=doc,
                pto=(pto or mnemonic(name)) if space == "tile" else None,
                dsl=(dsl or name,),
                scalar_form=f"{space}.{name}s" if scalar_form else None,
                output_space=_output(space),
            )
        )


def _output(space: str) -> MemorySpace | None:
    return MemorySpace.Vec if space == "tile" else None


def add_scalar(
    name: str,
    infer: Callable[[Operands], Type],
    doc: str,
    *,
    plain: str | None = None,
    when: When | None = None,
    tensor: bool = True,
    typed: bool = True,
    dsl: bool = False,
) -> None:
    """Records the forms with a number on the right. `typed`: the tensor form's dtype comes from its result type."""
    for space, arg in (("tensor", tensor_arg), ("tile", tile_arg)):
        if space == "tensor" and not tensor:
            continue
        result = ("dtype",) if space == "tensor" and typed else ()
        OPS.add(
            Op(
                name=f"{space}.{name}",
                args=(arg("lhs"), scalar_arg("rhs")),
                attrs=(),
                infer=infer,
                torch=Torch(name, plain, when, result=result),
                doc=doc,
                pto=mnemonic(_SCALAR_MNEMONICS.get(name, name)) if space == "tile" else None,
                dsl=(name,) if dsl else (),
                output_space=_output(space),
            )
        )


_SCALAR_MNEMONICS = {"maximums": "maxs", "minimums": "mins"}


def add_unary(
    name: str,
    infer: Callable[[Operands], Type],
    doc: str,
    *,
    plain: str | None = None,
    when: When | None = None,
    tensor: bool = True,
    high_precision: tuple[str, ...] = (),
    tile_scratch: bool = False,
    dsl: str | None = None,
) -> None:
    """Records the forms of an op of one operand; `high_precision` names the namespaces that have that keyword."""
    for space in ("tensor", "tile") if tensor else ("tile",):
        tile = space == "tile"
        first = tile_arg("tile", "input") if tile else tensor_arg("input")
        extra = (scratch_arg("tmp", optional=True),) if tile and tile_scratch else ()
        OPS.add(
            Op(
                name=f"{space}.{name}",
                args=(first, *extra),
                attrs=(HIGH_PRECISION,) if space in high_precision else (),
                infer=infer,
                torch=Torch(name, plain, when),
                doc=doc,
                pto=mnemonic(name) if tile else None,
                dsl=(dsl or name,),
                output_space=_output(space),
            )
        )


# --- two operands ---------------------------------------------------------------------------------------------------

_TORCH = rules.one_torch_dtype
_FLOAT = rules.one_torch_float

add_both("add", _infer_binary, "lhs + rhs.", plain="torch.add({0}, {1})", when=_TORCH, scalar_form=True)
add_both("sub", _infer_binary, "lhs - rhs.", plain="torch.sub({0}, {1})", when=_TORCH, scalar_form=True)
add_both("mul", _infer_binary, "lhs * rhs.", plain="torch.mul({0}, {1})", when=_TORCH, scalar_form=True)
add_both(
    "div",
    _infer_div,
    "lhs / rhs; integers stay integers, cut off towards zero.",
    plain="torch.div({0}, {1})",
    when=_FLOAT,
    scalar_form=True,
)
add_both(
    "fmod",
    _infer_binary,
    "Remainder with the sign of lhs.",
    plain="torch.fmod({0}, {1})",
    when=_FLOAT,
    scalar_form=True,
)
add_both("part_add", _infer_part, "lhs + rhs where both are valid, the valid one elsewhere.")
add_both("part_mul", _infer_part, "lhs * rhs where both are valid, the valid one elsewhere.")
add_both("part_max", _infer_part, "Larger cell where both are valid, the valid one elsewhere.")
add_both("part_min", _infer_part, "Smaller cell where both are valid, the valid one elsewhere.")


def _add_extreme(name: str, doc: str, plain: str) -> None:
    OPS.add(
        Op(
            name=f"tensor.{name}",
            args=(tensor_arg("lhs"), Arg("rhs", "value")),
            attrs=(),
            infer=_infer_extreme,
            torch=Torch(name, plain, _two_of_one_dtype, result=("dtype",)),
            doc=doc,
            dsl=(name,),
        ),
        Op(
            name=f"tile.{name}",
            args=(tile_arg("lhs"), tile_arg("rhs")),
            attrs=(),
            infer=_infer_binary,
            torch=Torch(name, plain, _TORCH),
            doc=doc,
            pto=mnemonic(name[:3]),
            dsl=(name,),
            scalar_form=f"tile.{name}s",
            output_space=MemorySpace.Vec,
        ),
    )


def _two_of_one_dtype(call: n.OpCall) -> bool:
    return isinstance(call.args[1].type, ShapedType) and _TORCH(call)


_add_extreme("maximum", "Larger of two cells.", "torch.maximum({0}, {1})")
_add_extreme("minimum", "Smaller of two cells.", "torch.minimum({0}, {1})")

_SCALAR = rules.arithmetic_with_scalar
_FP32 = rules.fp32_with_scalar

add_scalar("adds", _infer_scalar, "lhs + number.", plain="torch.add({0}, {1})", when=_SCALAR)
add_scalar("subs", _infer_subs, "lhs - number.", plain="torch.sub({0}, {1})", when=_SCALAR)
add_scalar("muls", _infer_scalar, "lhs * number.", plain="torch.mul({0}, {1})", when=_SCALAR)
add_scalar("divs", _infer_scalar, "lhs / number; integers stay integers.", plain="torch.div({0}, {1})", when=_FP32)
add_scalar(
    "fmods",
    _infer_scalar,
    "Remainder by a number, with the sign of lhs.",
    plain="torch.fmod({0}, {1})",
    when=_FP32,
    dsl=True,
)
add_scalar(
    "maximums",
    _infer_scalar,
    "Larger of a cell and a number.",
    plain="torch.clamp({0}, min={1})",
    when=_SCALAR,
    tensor=False,
    dsl=True,
)
add_scalar(
    "minimums",
    _infer_scalar,
    "Smaller of a cell and a number.",
    plain="torch.clamp({0}, max={1})",
    when=_SCALAR,
    tensor=False,
    dsl=True,
)
OPS.add(
    Op(
        name="tile.rem",
        args=(tile_arg("lhs"), tile_arg("rhs"), scratch_arg("tmp")),
        attrs=(),
        infer=_infer_binary,
        torch=Torch("rem", "torch.remainder({0}, {1})", _FLOAT),
        doc="Remainder with the sign of rhs; `tmp` is scratch.",
        pto="pto.trem",
        dsl=("rem",),
        scalar_form="tile.rems",
        output_space=MemorySpace.Vec,
    ),
    Op(
        name="tile.rems",
        args=(tile_arg("lhs"), scalar_arg("rhs"), scratch_arg("tmp")),
        attrs=(),
        infer=_infer_scalar,
        torch=Torch("rems", "torch.remainder({0}, {1})", _FP32),
        doc="Remainder by a number, with the number's sign; `tmp` is scratch.",
        pto="pto.trems",
        dsl=("rems",),
        output_space=MemorySpace.Vec,
    ),
)

# --- three operands -------------------------------------------------------------------------------------------------

for _name, _doc in (
    ("addc", "lhs + rhs + rhs2, rounded after each step."),
    ("subc", "lhs - rhs + rhs2, rounded after each step."),
):
    OPS.add(
        Op(
            name=f"tile.{_name}",
            args=(tile_arg("lhs"), tile_arg("rhs"), tile_arg("rhs2")),
            attrs=(),
            infer=_infer_three,
            torch=Torch(_name),
            doc=_doc,
            pto=mnemonic(_name),
            dsl=(_name,),
            output_space=MemorySpace.Vec,
        )
    )
for _name, _doc in (
    ("addsc", "lhs + number + rhs2, rounded after each step."),
    ("subsc", "lhs - number + rhs2, rounded after each step."),
):
    OPS.add(
        Op(
            name=f"tile.{_name}",
            args=(tile_arg("lhs"), scalar_arg("rhs"), tile_arg("rhs2")),
            attrs=(),
            infer=_infer_three,
            torch=Torch(_name),
            doc=_doc,
            pto=mnemonic(_name),
            dsl=(_name,),
            output_space=MemorySpace.Vec,
        )
    )

# --- one operand ----------------------------------------------------------------------------------------------------

_BOTH = ("tensor", "tile")

add_unary("neg", _infer_same, "Minus the input.", plain="torch.neg({0})", when=_TORCH)
add_unary("abs", _infer_same, "Absolute value.", plain="torch.abs({0})", when=_FLOAT)
add_unary("exp", _infer_float, "e to the input.", plain="torch.exp({0})", when=_FLOAT)
add_unary("log", _infer_float, "Natural logarithm.", plain="torch.log({0})", when=_FLOAT, high_precision=_BOTH)
add_unary("sin", _infer_fp32, "Sine of radians.", plain="torch.sin({0})", when=_FLOAT)
add_unary("cos", _infer_fp32, "Cosine of radians.", plain="torch.cos({0})", when=_FLOAT)
add_unary("sqrt", _infer_float, "Square root.", plain="torch.sqrt({0})", when=_FLOAT)
add_unary(
    "rsqrt",
    _infer_float,
    "One over the square root; a scratch tile selects the precise instruction.",
    plain="torch.rsqrt({0})",
    when=_FLOAT,
    high_precision=("tensor",),
    tile_scratch=True,
)
add_unary(
    "recip", _infer_float, "One over the input.", plain="torch.reciprocal({0})", when=_FLOAT, high_precision=_BOTH
)
add_unary("relu", _infer_same, "The input, or 0 where negative.", plain="torch.relu({0})", when=_FLOAT, tensor=False)
add_unary("not", _infer_not, "Flips every bit.", plain="torch.bitwise_not({0})", when=_TORCH, dsl="not_")
OPS.add(
    Op(
        name="tile.lrelu",
        args=(tile_arg("tile"), scalar_arg("slope")),
        attrs=(),
        infer=_infer_slope_number,
        torch=Torch("lrelu"),
        doc="The input where positive, else slope * input.",
        pto="pto.tlrelu",
        dsl=("lrelu",),
        output_space=MemorySpace.Vec,
    ),
    Op(
        name="tile.prelu",
        args=(tile_arg("tile"), tile_arg("slope"), scratch_arg("tmp")),
        attrs=(),
        infer=_infer_slope_tile,
        torch=Torch("prelu"),
        doc="The input where positive, else slope * input cell by cell; `tmp` is scratch.",
        pto="pto.tprelu",
        dsl=("prelu",),
        output_space=MemorySpace.Vec,
    ),
)

# --- bits -----------------------------------------------------------------------------------------------------------


def _add_bits(
    name: str, infer: Callable[[Operands], Type], doc: str, plain: str | None, *, scratch: bool = False
) -> None:
    """Records `name` and `name`s of both namespaces; xor of tiles takes scratch."""
    dsl = f"{name}_" if name in ("and", "or") else name
    for space, arg in (("tensor", tensor_arg), ("tile", tile_arg)):
        tile = space == "tile"
        extra = (scratch_arg("tmp"),) if tile and scratch else ()
        OPS.add(
            Op(
                name=f"{space}.{name}",
                args=(arg("lhs"), arg("rhs"), *extra),
                attrs=(),
                infer=infer,
                torch=Torch(name, plain, _TORCH if plain else None),
                doc=doc,
                pto=mnemonic(name) if tile else None,
                dsl=(dsl,),
                scalar_form=f"{space}.{name}s",
                output_space=_output(space),
            ),
            Op(
                name=f"{space}.{name}s",
                args=(arg("lhs"), scalar_arg("rhs"), *extra),
                attrs=(),
                infer=infer,
                torch=Torch(f"{name}s"),
                doc=doc.replace("rhs", "a number"),
                pto=mnemonic(f"{name}s") if tile else None,
                dsl=(f"{name}s",),
                output_space=_output(space),
            ),
        )


_add_bits("and", _infer_bits, "Bits set in lhs and in rhs.", "torch.bitwise_and({0}, {1})")
_add_bits("or", _infer_bits, "Bits set in lhs or in rhs.", "torch.bitwise_or({0}, {1})")
_add_bits("xor", _infer_xor, "Bits set in exactly one of lhs and rhs.", "torch.bitwise_xor({0}, {1})", scratch=True)
_add_bits("shl", _infer_shift, "lhs shifted left by rhs, at the width of lhs.", None)
_add_bits("shr", _infer_shift, "lhs shifted right by rhs: arithmetic if signed, logical if not.", None)
