"""Pass 16, AutoTileMatmulL0: a product whose factors or result do not fit the cube's memories is computed in parts.

Follows from: Left, Right and Acc are small. Along K the parts are added up in one accumulator, in a pipelined loop
that extracts the factors of each part; along M and N each part is a product of its own, which only works for a result
that leaves the accumulator: to global memory, or to Mat where it is narrowed to a factor of another product. Half of
Left and Right is used, so that two parts fit side by side.

A product that is narrowed to a factor of another one stays on the cube even where it fits: the way from the
accumulator to Mat narrows it, and no vector core is asked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pypto_lab.ir import arith, dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import ForKind, MemorySpace
from pypto_lab.ir.types import TileType, constant_dims
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.functions import map_bodies
from pypto_lab.lowering.names import plain_name
from pypto_lab.lowering.passes.lower_pipeline_loops import STAGES
from pypto_lab.lowering.target import Target
from pypto_lab.lowering.tile_forms import create_tile, dims
from pypto_lab.lowering.tile_rewriter import TileRewriter, is_on_core
from pypto_lab.lowering.uses import expressions, statements

BOX = 16
"""Extents of parts are multiples of the cube's box."""
DEPTH = 2
"""Parts whose factors are on the chip at the same time."""
_Block = Callable[[n.Var, n.Var], n.Var]
_PRODUCTS = {"tile.matmul": 0, "tile.matmul_acc": 1}
"""Products, and how many operands come before their factors."""
_NARROW = (dtypes.BF16, dtypes.FP16)
_TIES_TO_EVEN = ("rint", 1)


def run(program: n.Program, context: Context) -> n.Program:
    def change(function: n.Function) -> n.Function:
        if not is_on_core(function):
            return function
        wanted = {
            s.var: parts
            for s in statements(function.body or ())
            if isinstance(s, n.Assign) and (parts := _parts_of(s, context)) is not None
        }
        narrowed = _narrowed(function)
        return _Tiler(function, context, wanted, narrowed).run() if wanted or narrowed else function

    return map_bodies(program, change)


@dataclass(frozen=True, slots=True)
class _Parts:
    """A product's extents, and those of its parts."""

    m: int
    k: int
    n: int
    part_m: int
    part_k: int
    part_n: int

    @property
    def only_k(self) -> bool:
        return self.part_m == self.m and self.part_n == self.n


def _parts_of(stmt: n.Assign, context: Context) -> _Parts | None:
    """How a product is divided; None for one that fits or is no product. Raises LabError for one that cannot be."""
    call = stmt.value
    if not isinstance(call, n.OpCall) or call.op not in _PRODUCTS:
        return None
    first = _PRODUCTS[call.op]
    left, right = call.args[first].type, call.args[first + 1].type
    assert isinstance(left, TileType) and isinstance(right, TileType) and isinstance(call.type, TileType)
    shapes = constant_dims(left.shape), constant_dims(right.shape)
    already = left.memory_space is MemorySpace.Left or right.memory_space is MemorySpace.Right
    if None in shapes or already:
        return None
    (m, k), (_, columns) = shapes  # type: ignore[misc]
    bits, wide = max(left.dtype.bits, right.dtype.bits), call.type.dtype.bits
    room = context.target
    fits = (
        m * k * bits <= 8 * room.capacity[MemorySpace.Left]
        and k * columns * bits <= 8 * room.capacity[MemorySpace.Right]
        and m * columns * wide <= 8 * room.capacity[MemorySpace.Acc]
    )
    if fits:
        return None
    best = _best(m, k, columns, bits, wide, room)
    whole = _is_whole(left, 1) and _is_whole(right, 0)
    if best is None or not whole:
        why = "what it sums up is only partly valid" if best is not None else f"no multiples of {BOX} divide it"
        context.refuse(
            "E820",
            f"the product [{m}, {k}] x [{k}, {columns}] does not fit the cube of {room.name} and {why}",
            stmt.span,
            hint="compute it in parts with pl.matmul and pl.matmul_acc",
        )
    return best


def _is_whole(tile: TileType, axis: int) -> bool:
    """Whether a tile is valid along all of an axis, so that every part of it is."""
    valid = tile.stated_valid
    return valid is None or arith.constant(valid[axis]) == arith.constant(tile.shape[axis])


def _best(m: int, k: int, columns: int, bits: int, wide: int, room: Target) -> _Parts | None:
    """The division with the largest parts: whole rows and columns before a deeper K."""
    left, right = (8 * room.capacity[s] // DEPTH for s in (MemorySpace.Left, MemorySpace.Right))
    acc = 8 * room.capacity[MemorySpace.Acc]
    found = [
        _Parts(m, k, columns, pm, pk, pn)
        for pm in _divisors(m)
        for pn in _divisors(columns)
        if pm * pn * wide <= acc
        for pk in _divisors(k)
        if pm * pk * bits <= left and pk * pn * bits <= right
    ]
    return max(found, key=lambda p: (p.part_m * p.part_n, p.part_k), default=None)


def _divisors(extent: int) -> list[int]:
    return [d for d in range(BOX, extent + 1, BOX) if extent % d == 0]


def _readers(function: n.Function, var: n.Var) -> list[n.Stmt]:
    """The statements that read a variable, one that reads it twice twice."""
    body = function.body or ()
    return [s for s in statements(body) for e in expressions(s) if any(a is var for a in getattr(e, "args", (e,)))]


def _narrowed(function: n.Function) -> set[n.Stmt]:
    """Casts that the way from the accumulator to Mat makes (it narrows with ties to even): of a product, read by
    nothing but products that take it as a factor."""
    products = {
        s.var
        for s in statements(function.body or ())
        if isinstance(s, n.Assign) and isinstance(s.value, n.OpCall) and s.value.op in _PRODUCTS
    }
    found: set[n.Stmt] = set()
    for stmt in statements(function.body or ()):
        call = stmt.value if isinstance(stmt, n.Assign) else None
        if not isinstance(stmt, n.Assign) or not isinstance(call, n.OpCall) or call.op != "tile.cast":
            continue
        type_ = stmt.var.type
        narrows = isinstance(type_, TileType) and type_.dtype in _NARROW and type_.stated_valid is None
        of_product = call.args[0] in products and call.kwargs.get("mode") in _TIES_TO_EVEN
        readers = _readers(function, stmt.var)
        if narrows and of_product and readers and all(_takes_as_factor(r, stmt.var) for r in readers):
            found.add(stmt)
    return found


def _takes_as_factor(stmt: n.Stmt, var: n.Var) -> bool:
    call = stmt.value if isinstance(stmt, n.Assign) else None
    return isinstance(call, n.OpCall) and call.op in _PRODUCTS and var not in call.args[: _PRODUCTS[call.op]]


@dataclass(frozen=True, slots=True)
class _Sink:
    """Where the parts of a product go: the memory they are put into, and how a part at (row, column) gets there,
    which gives the memory its next name."""

    memory: n.Var
    put: Callable[[n.Expr, tuple[n.Expr, n.Expr], n.Var], n.Var]


class _Tiler(TileRewriter):
    def __init__(
        self, function: n.Function, context: Context, wanted: dict[n.Var, _Parts], narrowed: set[n.Stmt]
    ) -> None:
        super().__init__(function, context)
        self.wanted = wanted
        self.narrowed = narrowed
        self.gone: set[n.Stmt] = set()
        """Statements whose work the parts of a product have taken over."""

    def one(self, stmt: n.Stmt, into: Sequence[n.Var] = ()) -> None:
        if stmt not in self.gone:
            super().one(stmt, into)

    def assign(self, stmt: n.Assign) -> None:
        parts = self.wanted.get(stmt.var)
        if stmt in self.narrowed:
            self.narrow(stmt)
            return
        if parts is None:
            super().assign(stmt)
            return
        call = stmt.value
        assert isinstance(call, n.OpCall)
        first = _PRODUCTS[call.op]
        left, right = (self.on_mat(self.visit_expr(a)) for a in call.args[first : first + 2])
        zero = n.const(0)
        if parts.only_k:
            start = self.visit_expr(call.args[0]) if first else None
            if len(call.args) > 3:
                self.context.refuse("E820", "a product with a start condition is not divided", stmt.span)
            total = self.summed(stmt, parts, (left, right), (zero, zero), start)
            self.vars[stmt.var] = total
            return
        self.blocks(stmt, parts, (left, right))

    def on_mat(self, tile: n.Expr) -> n.Expr:
        """A factor where parts can be extracted from it."""
        assert isinstance(tile.type, TileType)
        if tile.type.memory_space is MemorySpace.Mat:
            return tile
        name = tile.name if isinstance(tile, n.Var) else "factor"
        return self.emit(f"{name}_Mat", self.make("tile.move", tile, target_memory=MemorySpace.Mat))

    # --- along K -----------------------------------------------------------------------------------------------------

    def summed(
        self,
        stmt: n.Assign,
        parts: _Parts,
        factors: tuple[n.Expr, n.Expr],
        at: tuple[n.Expr, n.Expr],
        start: n.Expr | None,
    ) -> n.Var:
        """The product of rows from at[0] and columns from at[1], added up over parts of K."""
        base = plain_name(stmt.var.name)
        first: n.Expr = n.const(0)
        if start is None:
            start = self.emit(
                f"{base}__tile_l0_c", self.make("tile.matmul", *self.pair(base, parts, factors, at, first))
            )
            first = n.const(parts.part_k)
        rest = len(range(first.value, parts.k, parts.part_k))  # type: ignore[attr-defined]
        if not rest:
            assert isinstance(start, n.Var)
            return start
        index = n.Var(name=self.names.fresh("k0"), type=n.INDEX, span=self.span)
        carried = n.IterArg(
            name=self.names.fresh(f"{base}__tile_l0_acc"), type=start.type, init_value=start, span=self.span
        )
        outer, self.out = self.out, []
        added = self.emit(
            f"{base}__tile_l0_c", self.make("tile.matmul_acc", carried, *self.pair(base, parts, factors, at, index))
        )
        body = (*self.out, n.Yield(values=(added,), span=self.span))
        self.out = outer
        result = n.Var(name=self.names.fresh(f"{base}__tile"), type=start.type, span=self.span)
        piped = rest >= DEPTH
        loop = n.For(
            loop_var=index,
            start=first,
            stop=n.const(parts.k),
            step=n.const(parts.part_k),
            body=body,
            iter_args=(carried,),
            return_vars=(result,),
            kind=ForKind.Pipeline if piped else ForKind.Sequential,
            attrs={STAGES: DEPTH} if piped else {},
            span=self.span,
        )
        self.out.append(loop)
        return result

    def pair(
        self, base: str, parts: _Parts, factors: tuple[n.Expr, n.Expr], at: tuple[n.Expr, n.Expr], k: n.Expr
    ) -> tuple[n.Var, n.Var]:
        """The factors of one part."""
        shapes = ((parts.part_m, parts.part_k), (parts.part_k, parts.part_n))
        places = ((at[0], k), (k, at[1]))
        spaces = (MemorySpace.Left, MemorySpace.Right)
        cut = []
        for label, factor, shape, place, space in zip("ab", factors, shapes, places, spaces, strict=True):
            window = dims(tuple(n.const(e) for e in shape))
            call = self.make("tile.extract", factor, *place, window, target_memory=space)
            cut.append(self.emit(f"{base}__tile_l0_{label}", call))
        return cut[0], cut[1]

    # --- along M and N -----------------------------------------------------------------------------------------------

    def blocks(self, stmt: n.Assign, parts: _Parts, factors: tuple[n.Expr, n.Expr]) -> None:
        """A result too large for the accumulator: each part of it leaves by itself, to global memory or to Mat."""
        reader, sink = self.sink_of(stmt, parts)

        def inner(row: n.Var, memory: n.Var) -> n.Var:
            def part(column: n.Var, held: n.Var) -> n.Var:
                total = self.summed(stmt, parts, factors, (row, column), None)
                return sink.put(total, (row, column), held)

            return self.looped(parts.n, parts.part_n, "n0", memory, part)

        self.vars[reader.var] = self.looped(parts.m, parts.part_m, "m0", sink.memory, inner)
        self.gone.add(reader)

    def sink_of(self, stmt: n.Assign, parts: _Parts) -> tuple[n.Assign, _Sink]:
        """The one statement that reads a product, and where the parts go in its place. Raises LabError where there is
        no such statement."""
        readers = _readers(self.function, stmt.var)
        reader = readers[0] if len(readers) == 1 else None
        whole = isinstance(stmt.value, n.OpCall) and stmt.value.op == "tile.matmul"
        if whole and isinstance(reader, n.Assign) and isinstance(reader.value, n.OpCall):
            if reader.value.op == "tile.store" and len(reader.value.args) == 3:
                return reader, self.stored_parts(reader, reader.value)
            if reader in self.narrowed:
                return reader, self.kept_parts(reader)
        capacity = self.context.target.capacity[MemorySpace.Acc]
        self.context.refuse(
            "E820",
            f"the product [{parts.m}, {parts.n}] does not fit Acc ({capacity} bytes) and is not only stored",
            stmt.span,
            hint="store it, cast it to a factor of another product, or compute parts of it one by one",
        )

    def stored_parts(self, store: n.Assign, call: n.OpCall) -> _Sink:
        """Parts are stored where the whole would be."""
        assert isinstance(call.args[1], n.MakeTuple)
        offsets = [self.visit_expr(o) for o in call.args[1].elements]
        target = self.visit_expr(call.args[2])
        assert isinstance(target, n.Var)

        def put(total: n.Expr, at: tuple[n.Expr, n.Expr], held: n.Var) -> n.Var:
            place = (*offsets[:-2], arith.add(offsets[-2], at[0]), arith.add(offsets[-1], at[1]))
            new = self.make("tile.store", total, dims(place), held, **call.kwargs)
            return self.emit(f"{plain_name(store.var.name)}__store", dataclasses.replace(new, type=store.var.type))

        return _Sink(target, put)

    def kept_parts(self, narrowed: n.Assign) -> _Sink:
        """Parts are narrowed into one tile in Mat, from which the next product takes its factors."""
        type_ = narrowed.var.type
        assert isinstance(type_, TileType)
        name = plain_name(narrowed.var.name)
        scratch = self.emit(f"{name}_Mat", create_tile(type_.shape, type_.dtype, MemorySpace.Mat, self.span))

        def put(total: n.Expr, at: tuple[n.Expr, n.Expr], held: n.Var) -> n.Var:
            new = self.make("tile.assemble", held, total, dims(at))
            return self.emit(f"{name}_Mat", dataclasses.replace(new, type=held.type))

        return _Sink(scratch, put)

    def narrow(self, stmt: n.Assign) -> None:
        """A whole product narrowed into a tile in Mat."""
        assert isinstance(stmt.value, n.OpCall)
        sink = self.kept_parts(stmt)
        zero = n.const(0)
        self.vars[stmt.var] = sink.put(self.visit_expr(stmt.value.args[0]), (zero, zero), sink.memory)

    def looped(self, stop: int, step: int, name: str, memory: n.Var, body: _Block) -> n.Var:
        """A loop over parts that carries the memory they are stored to."""
        index = n.Var(name=self.names.fresh(name), type=n.INDEX, span=self.span)
        carried = n.IterArg(
            name=self.names.fresh(f"{plain_name(memory.name)}__{name}"),
            type=memory.type,
            init_value=memory,
            span=self.span,
        )
        outer, self.out = self.out, []
        last = body(index, carried)
        inner, self.out = (*self.out, n.Yield(values=(last,), span=self.span)), outer
        result = n.Var(
            name=self.names.fresh(f"{plain_name(memory.name)}__{name}_end"), type=memory.type, span=self.span
        )
        self.out.append(
            n.For(
                loop_var=index,
                start=n.const(0),
                stop=n.const(stop),
                step=n.const(step),
                body=inner,
                iter_args=(carried,),
                return_vars=(result,),
                span=self.span,
            )
        )
        return result
