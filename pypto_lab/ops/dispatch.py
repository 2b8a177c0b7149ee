"""From the spelling of a call (`pl.add`, `pl.tile.load`) to the op it means, with its arguments bound.

The five dispatch rules are `reference/language.md` 2.9: an explicit layer, names of one layer only, system names, and
unified names whose first tensor or tile decides. Arguments are bound by the op record's `parameters`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Label, OpError, did_you_mean, nearest
from pypto_lab.ir.dtypes import DType
from pypto_lab.ir.types import (
    ScalarType,
    ShapedType,
    TensorType,
    TileType,
    TupleType,
    Type,
    UnknownType,
)
from pypto_lab.ops import scalars
from pypto_lab.ops.binding import arguments, attributes, bind, derived, scalar_variant, typed
from pypto_lab.ops.calling import Actual, Call, DispatchError, describe
from pypto_lab.ops.record import OPS, Op

TILE_ONLY = frozenset(
    [
        "load",
        "store",
        "move",
        "create_tile",
        "relu",
        "matmul_bias",
        "matmul_mx",
        "matmul_mx_acc",
        "matmul_mx_bias",
        "gemv",
        "gemv_acc",
        "gemv_bias",
        "cmps",
        "sel",
        "sels",
        "rem",
        "rems",
        "addc",
        "addsc",
        "subc",
        "subsc",
        "lrelu",
        "prelu",
        "maximums",
        "minimums",
        "gatherb",
        "mgather",
        "mscatter",
        "tri",
    ]
)
"""Names under `pl.` that always mean the tile op."""

TENSOR_ONLY = frozenset(
    [
        "create_tensor",
        "create_l1",
        "dim",
        "expand_clone",
        "paged_gather",
        "random",
        "arange",
        "get_block_idx",
        "get_block_num",
        "get_subblock_idx",
        "gather",
        "scatter",
        "full",
    ]
)
"""Names under `pl.` that always mean the tensor op."""

SYSTEM_ONLY = frozenset(
    [
        "aic_initialize_pipe",
        "aiv_initialize_pipe",
        "import_peer_buffer",
        "reserve_buffer",
        "tfree_to_aic",
        "tfree_to_aiv",
        "tpop_from_aic",
        "tpop_from_aiv",
        "tpush_to_aic",
        "tpush_to_aiv",
    ]
)
"""Names under `pl.` that belong to `pl.system` (some of them are registered as tile ops)."""

ALIASES: Mapping[str, tuple[str, ...]] = {
    "create_tensor": ("create",),
    "create_tile": ("create",),
    "arange": ("ci",),
    "mrgsort": ("mrgsort_format1", "mrgsort_format2"),
    "gather": ("gather", "gather_mask", "gather_compare"),
    "scatter": ("scatter", "scatter_mask"),
}
"""Spellings that differ from the registered name, or stand for several ops told apart by their keywords."""

_SCALAR_BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "FloatDiv", "min": "Min", "max": "Max"}


def dispatch(call: Call) -> n.Expr:
    """The expression a DSL call means: an op call with its result type, or a scalar expression.

    Raises DispatchError with the diagnostic: unknown op (E203), mixed layers (E310), wrong arguments (E312, E313,
    E314 ...) or what the op's type rule refuses.
    """
    name = call.path.rpartition(".")[2]
    layer = call.path.rpartition(".")[0]
    if layer == "pl":
        scalar = _scalar_form(call, name)
        if scalar is not None:
            return scalar
    unknown = any(_is_unknown(a.type) for a in call.everything())
    if unknown and layer == "pl" and name in _SCALAR_BINARY:
        return _unknown(call, f"tensor.{name}")
    candidates = _candidates(call, layer, name)
    if unknown:
        return _unknown(call, candidates[0].name)
    try:
        return _best(call, candidates)
    except DispatchError as error:
        raise (_mixture(call) if layer == "pl" and error.diagnostic.code == "E315" else None) or error from None


def _is_unknown(type_: Type | None) -> bool:
    """True for the type of a value whose mistake is reported, and of a list that holds one."""
    return isinstance(type_, UnknownType) or (isinstance(type_, TupleType) and any(map(_is_unknown, type_.elements)))


def spellings() -> frozenset[str]:
    """Every dotted spelling that names an op."""
    found: set[str] = set()
    for op in OPS:
        prefix = op.namespace if op.namespace.startswith("pld") else f"pl.{op.namespace}"
        found.add(f"{prefix}.{_written(op.short_name)}")
        found.update(f"pl.{alias}" for alias in op.dsl)
        if op.namespace in ("tensor", "tile"):
            found.add(f"pl.{_written(op.short_name)}")
        elif op.namespace.startswith("pld."):
            found.add(f"pld.{op.short_name}")
    found.update(f"pl.{name}" for name in (*TILE_ONLY, *TENSOR_ONLY, *SYSTEM_ONLY, *ALIASES))
    return frozenset(found)


def _written(name: str) -> str:
    return name + "_" if name in ("and", "or", "not") else name


def _layer_ops(layer: str, name: str) -> list[Op]:
    """Ops of a namespace that a name means; the op registered under the name itself first."""
    plain = name.removesuffix("_") if name in ("and_", "or_", "not_") else name
    wanted = [name, plain, *ALIASES.get(name, ())]
    found = [op for w in dict.fromkeys(wanted) if (op := OPS.get(f"{layer}.{w}")) is not None]
    return found + [op for op in _by_spelling(len(OPS)).get((layer, name), ()) if op not in found]


@lru_cache(maxsize=4)
def _by_spelling(count: int) -> Mapping[tuple[str, str], tuple[Op, ...]]:
    """Ops by namespace and promoted spelling. `count` is the size of the registry: a grown one is indexed anew."""
    del count
    found: dict[tuple[str, str], tuple[Op, ...]] = {}
    for op in OPS:
        for spelling in op.dsl:
            for layer in (op.namespace, ""):
                found[layer, spelling] = (*found.get((layer, spelling), ()), op)
    return found


def _candidates(call: Call, layer: str, name: str) -> list[Op]:
    """The ops a call may mean, by the five rules. Raises DispatchError when there is none."""
    if layer == "pl":
        found = _promoted(call, name)
    elif layer in ("pl.system", "pl.pipe"):
        found = _layer_ops("system", name) or _layer_ops("tile", name)
    elif layer == "pld":
        found = _distributed(call, name)
    elif layer.startswith("pld."):
        found = _layer_ops(layer, name)
    else:
        found = _layer_ops(layer.removeprefix("pl."), name)
    if not found:
        raise unknown_op(call)
    return found


def _promoted(call: Call, name: str) -> list[Op]:
    if name in SYSTEM_ONLY:
        return _layer_ops("system", name) or _layer_ops("tile", name)
    if name in TILE_ONLY:
        return _layer_ops("tile", name)
    if name in TENSOR_ONLY:
        return _layer_ops("tensor", name) or _layer_ops("tile", name)
    return _unified(call, name)


def _unified(call: Call, name: str) -> list[Op]:
    """Rule 5: the first tensor or tile operand decides; tensors and tiles do not mix."""
    layers = {layer: ops for layer in ("tensor", "tile") if (ops := _layer_ops(layer, name))}
    if not layers:
        return list(_by_spelling(len(OPS)).get(("", name), ()))
    first = next((a for a in call.everything() if isinstance(a.type, ShapedType)), None)
    if first is None:
        return layers.get("tensor") or layers["tile"]
    layer = "tile" if isinstance(first.type, TileType) else "tensor"
    if layer not in layers:
        other = "tensor" if layer == "tile" else "tile"
        if name in _SCALAR_BINARY:
            raise _scalar_only(call, name, first)
        raise call.fail(
            "E313",
            f"`pl.{name}` exists for {other}s only, this is a {layer}",
            first.span,
            hint=_layer_hint(layer),
        )
    return layers[layer]


def _layer_hint(layer: str) -> str:
    if layer == "tensor":
        return "load the tensor first: pl.load(x, offsets, shape)"
    return "work on the tensor, or store the tile: pl.store(t, offsets, out)"


def _mixture(call: Call) -> DispatchError | None:
    """E310 for a unified op that got a tensor and a tile and takes one kind only."""
    first = next((a for a in call.everything() if isinstance(a.type, ShapedType)), None)
    other = TensorType if first is not None and isinstance(first.type, TileType) else TileType
    odd = next((a for a in call.everything() if isinstance(a.type, other)), None)
    if first is None or odd is None:
        return None
    labels = tuple(Label(a.span, f"this is {describe(a)}") for a in (first, odd) if a.span is not None)
    return call.fail(
        "E310",
        f"`{call.path}` mixes a Tensor and a Tile",
        odd.span,
        labels=labels,
        hint="load the tensor first (`pl.load(x, offsets, shape)`), or store the tile and work on tensors",
        note="tensors live in global memory, tiles on the core",
    )


def _distributed(call: Call, name: str) -> list[Op]:
    tile_first = any(isinstance(a.type, TileType) for a in list(call.everything())[:1])
    order = ("pld.tile", "pld.tensor") if tile_first else ("pld.tensor", "pld.tile")
    for layer in (*order, "pld.system"):
        found = _layer_ops(layer, name)
        if found:
            return found
    return []


def unknown_op(call: Call) -> DispatchError:
    """E203: the nearest names, and whether the other layer has the op."""
    name = call.path.rpartition(".")[2]
    elsewhere = [op for op in OPS if op.short_name in (name, name.removesuffix("_")) or name in op.dsl]
    if elsewhere:
        places = ", ".join(f"`{_spelled(op)}`" for op in elsewhere[:3])
        hint: str | None = f"it exists as {places}"
    else:
        prefix = call.path.rpartition(".")[0]
        same_layer = [s for s in spellings() if s.rpartition(".")[0] == prefix]
        near = nearest(call.path, same_layer) or nearest(call.path, spellings())
        hint = did_you_mean(call.path, near) if near else None
    return call.fail("E203", f"there is no operation `{call.path}`", call.name_span, hint=hint)


def _spelled(op: Op) -> str:
    prefix = op.namespace if op.namespace.startswith("pld") else f"pl.{op.namespace}"
    return f"{prefix}.{_written(op.short_name)}"


# --- scalars ----------------------------------------------------------------------------------------------------------


def _scalar_form(call: Call, name: str) -> n.Expr | None:
    """`pl.add/sub/mul/div/min/max/cast` on scalars alone, None when the call is not of that form."""
    values = [a.value for a in call.everything()]
    operands = [v for v in values if isinstance(v, n.Expr)]
    if not operands or any(isinstance(v.type, (ShapedType, UnknownType)) for v in operands):
        return None
    if name == "cast" and isinstance(operands[0].type, ScalarType):
        return _scalar_cast(call, operands[0])
    if name not in _SCALAR_BINARY or len(operands) != 2 or len(values) != 2:
        return None
    try:
        return scalars.binary(_SCALAR_BINARY[name], operands[0], operands[1], call.span)
    except OpError as error:
        culprit = list(call.everything())[error.argument if isinstance(error.argument, int) else 0]
        raise call.fail(error.code, error.message, culprit.span, hint=error.hint) from None


def _scalar_cast(call: Call, operand: n.Expr) -> n.Expr:
    target = call.keywords.get("target_type") or (call.actuals[1] if len(call.actuals) > 1 else None)
    if target is None or not isinstance(target.value, DType):
        raise call.fail(
            "E314", "`pl.cast` needs a dtype", None if target is None else target.span, hint="pl.cast(x, pl.INT32)"
        )
    return scalars.cast(operand, target.value, call.span)


def _scalar_only(call: Call, name: str, culprit: Actual) -> DispatchError:
    instead = "maximum" if name == "max" else "minimum"
    return call.fail(
        "E313",
        f"`pl.{name}` compares scalars",
        culprit.span,
        hint=f"element by element: `pl.{instead}(a, b)`; along an axis: `pl.row_{name}(x)` or `pl.col_{name}(x)`",
    )


# --- the best candidate -----------------------------------------------------------------------------------------------


def _unknown(call: Call, name: str) -> n.OpCall:
    """A call on an argument whose mistake is reported already: no further complaint, a result of unknown type."""
    args = tuple(a.value for a in call.actuals if isinstance(a.value, n.Expr))
    return n.OpCall(op=name, args=args, type=UnknownType(), span=call.span)


def _best(call: Call, candidates: Sequence[Op]) -> n.OpCall:
    """The first candidate that the arguments fit; when none does, the complaint of the one that came furthest."""
    furthest: tuple[int, DispatchError] | None = None
    for op in candidates:
        op, stage = scalar_variant(call, op), 0
        try:
            bound = bind(call, op)
            bound = {**bound, **derived(op, bound)}
            stage = 1
            args, kwargs = arguments(call, op, bound), attributes(call, op, bound)
            stage = 2
            return typed(call, op, bound, args, kwargs)
        except DispatchError as error:
            if furthest is None or stage > furthest[0]:
                furthest = (stage, error)
    assert furthest is not None
    raise furthest[1]
