"""Pass 22, ExpandMixedKernel: an InCore function with work for both cores becomes AIC, AIV and a Group of the two.

Follows from: each core runs its own program. Control flow and scalars go to both, every other statement to the core
of its memories; what crosses is pushed on one side, popped and freed on the other, in the order of the text. A
function with one kind of work simply belongs to that core.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from pypto_lab.ir import dtypes
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import FunctionType, MemorySpace, TileLayout
from pypto_lab.ir.types import UNKNOWN, ScalarType, TensorType, TileType, TupleType, Type
from pypto_lab.ir.visitor import walk
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.copying import copied_function
from pypto_lab.lowering.dead_code import without_dead_code
from pypto_lab.lowering.functions import typed, with_functions
from pypto_lab.lowering.memory_effects import Roots, written_argument
from pypto_lab.lowering.names import Names, plain_name
from pypto_lab.lowering.sides import Affinity, affinity, sides_of, synchronises
from pypto_lab.lowering.tile_forms import tile_bytes
from pypto_lab.lowering.tile_rewriter import TileRewriter
from pypto_lab.lowering.uses import reads, statements

SLOTS = 2
"""Slots of a pipe unless `pl.cross_core_slot` says otherwise."""
TO_VECTOR, TO_CUBE = 1, 2
"""The bits of a pipe's `dir_mask`."""
_PIPE_OPS = ("tile.tpush_to_aiv", "tile.tpush_to_aic", "tile.tpop_from_aic", "tile.tpop_from_aiv")
_NZ = {"blayout": TileLayout.col_major, "slayout": TileLayout.row_major}


def run(program: n.Program, context: Context) -> n.Program:
    functions: list[n.Function] = []
    for function in program.functions.values():
        if function.func_type is FunctionType.AIV and function.body is not None:
            functions.append(_dispatched(function, context))
        elif function.func_type is not FunctionType.InCore or function.body is None:
            functions.append(function)
        else:
            functions.extend(_expanded(function, program, context))
    same = len(functions) == len(program.functions) and all(
        a is b for a, b in zip(functions, program.functions.values(), strict=True)
    )
    return program if same else with_functions(program, functions)


def _expanded(function: n.Function, program: n.Program, context: Context) -> list[n.Function]:
    sides = sides_of(function.body or ())
    if sides == {Affinity.CUBE, Affinity.VECTOR}:
        return _Expansion(function, program, context).functions()
    return [typed(function, FunctionType.AIC if sides == {Affinity.CUBE} else FunctionType.AIV)]


def _dispatched(function: n.Function, context: Context) -> n.Function:
    """A vector function written by hand whose pipes are not split runs on both lanes of a2a3 all the same."""
    attrs = function.attrs
    if not context.target.pipe_through_global_memory or attrs.get("split_aiv") or attrs.get("dual_aiv_dispatch"):
        return function
    calls = [e for e in walk(function) if isinstance(e, n.OpCall) and e.op in _PIPE_OPS]
    if not calls or any(c.kwargs.get("split") for c in calls):
        return function
    return dataclasses.replace(function, attrs={**attrs, "dual_aiv_dispatch": True})


class _Expansion:
    """One mixed function: its crossings, and the three functions that stand for it."""

    def __init__(self, function: n.Function, program: n.Program, context: Context) -> None:
        self.function = function
        self.context = context
        self.crossings = [
            (side, stmt)
            for stmt in statements(function.body or ())
            if isinstance(stmt, n.Assign) and (side := affinity(stmt.value)) in (Affinity.TO_VECTOR, Affinity.TO_CUBE)
        ]
        roots = Roots(function.body or (), [p.var for p in function.params], program)
        self.returned = [s for s in statements(function.body or ()) if isinstance(s, n.Return)]
        self.roots = roots

    def functions(self) -> list[n.Function]:
        name = self.function.name
        attrs = dict(self.function.attrs)
        lanes = dict(attrs)
        if self.crossings and self.context.target.pipe_through_global_memory and not attrs.get("split_aiv"):
            lanes["dual_aiv_dispatch"] = True
        cube = self.side(Affinity.CUBE, f"{name}_aic", FunctionType.AIC, attrs)
        vector = self.side(Affinity.VECTOR, f"{name}_aiv", FunctionType.AIV, lanes)
        return [cube, vector, self.group(cube, vector)]

    def side(self, side: Affinity, name: str, func_type: FunctionType, attrs: dict[str, Any]) -> n.Function:
        source = dataclasses.replace(self.function, body=self.with_params_returned())
        copy = copied_function(source, name)
        half = _Half(copy, side, self.context).run()
        body = without_dead_code(half.body or ())
        if side is Affinity.CUBE:
            body = tuple(s for s in body if not isinstance(s, n.Return))
        body = self.with_setup(body, side)
        returns = () if side is Affinity.CUBE else copy.return_types
        new = dataclasses.replace(half, body=body, return_types=returns, attrs=attrs)
        return typed(new, func_type)

    def with_params_returned(self) -> n.Body:
        """The body returning parameters where it returns what it wrote to them."""
        body = self.function.body or ()
        if not body or not isinstance(body[-1], n.Return):
            return body
        last = body[-1]
        values = tuple(self.roots.of(v) or v for v in last.values)
        return (*body[:-1], dataclasses.replace(last, values=values))

    # --- pipe set-up -------------------------------------------------------------------------------------------------

    def slot_bytes(self) -> int:
        """Bytes of the largest tile that crosses, in full: lanes share one slot."""
        sizes = []
        for side, stmt in self.crossings:
            assert isinstance(stmt.value, n.OpCall)
            source, result = stmt.value.args[0].type, stmt.var.type
            whole = source if side is Affinity.TO_VECTOR or stmt.value.op != "tile.aic_gather" else result
            assert isinstance(whole, TileType)
            size = tile_bytes(whole)
            if size is None:
                self.context.refuse(
                    "E815", f"`{plain_name(stmt.var.name)}` crosses cores with a dynamic shape", stmt.span
                )
            sizes.append(size)
        return max(sizes)

    def with_setup(self, body: n.Body, side: Affinity) -> n.Body:
        """The body after the pipe's buffers: each side reserves the ring it reads and imports the one it writes. Sides
        that exchange nothing have no pipe."""
        if not self.crossings:
            return body
        name, size = self.function.name, self.slot_bytes()
        slots = int(self.function.attrs.get("slot_num") or SLOTS)
        both = {s for s, _ in self.crossings}
        mask = (TO_VECTOR if Affinity.TO_VECTOR in both else 0) | (TO_CUBE if Affinity.TO_CUBE in both else 0)
        setup: list[n.Stmt] = []
        buffers: list[n.Expr] = [n.const(0, dtypes.INT32), n.const(0, dtypes.INT32)]
        order = (Affinity.TO_CUBE, Affinity.TO_VECTOR)
        for direction in order:
            if direction not in both:
                continue
            label = "c2v" if direction is Affinity.TO_VECTOR else "v2c"
            reader = Affinity.VECTOR if direction is Affinity.TO_VECTOR else Affinity.CUBE
            buffer = f"{name}_{label}_slot_buffer"
            peer = f"{name}_{'aic' if reader is Affinity.CUBE else 'aiv'}"
            call, var_name = (
                (_system("reserve_buffer", name=buffer, size=size * slots, base=-1), buffer)
                if reader is side
                else (_system("import_peer_buffer", name=buffer, peer_func=peer), f"{buffer}_import")
            )
            var = n.Var(name=var_name, type=call.type, span=self.function.span)
            setup.append(n.Assign(var=var, value=call, span=self.function.span))
            buffers[0 if direction is Affinity.TO_VECTOR else 1] = var
        core = "aic" if side is Affinity.CUBE else "aiv"
        start = n.OpCall(
            op=f"system.{core}_initialize_pipe",
            args=tuple(buffers),
            kwargs={"dir_mask": mask, "slot_size": size, "slot_num": slots},
            type=UNKNOWN,
            span=self.function.span,
        )
        setup.append(n.Eval(expr=start, span=self.function.span))
        lane = body[:1] if body and _is_lane(body[0]) else ()
        return (*lane, *setup, *body[len(lane) :])

    # --- group -------------------------------------------------------------------------------------------------------

    def group(self, cube: n.Function, vector: n.Function) -> n.Function:
        """The group keeps the function's name, parameters and results, so its callers stay as they are."""
        shell = copied_function(dataclasses.replace(self.function, body=()), self.function.name)
        place = {p.var: i for i, p in enumerate(self.function.params)}
        args = tuple(p.var for p in shell.params)
        span = self.function.span
        calls = tuple(
            n.Eval(expr=n.FunctionCall(callee=f.name, args=args, type=_call_type(f, shell), span=span), span=span)
            for f in (cube, vector)
        )
        values = []
        for value in self.returned[0].values if self.returned else ():
            root = self.roots.of(value)
            if root is None:
                self.context.refuse("E815", "a mixed function can only return what it wrote to a parameter", span)
            values.append(shell.params[place[root]].var)
        back = (n.Return(values=tuple(values), span=span),) if values else ()
        return typed(dataclasses.replace(shell, body=(*calls, *back)), FunctionType.Group)


def _call_type(callee: n.Function, caller: n.Function) -> Type:
    """The type of a member's call in its group, in terms of the group's parameters: it returns what the group does."""
    types = caller.return_types if callee.return_types else ()
    return types[0] if len(types) == 1 else TupleType(types)


def _system(op: str, **kwargs: Any) -> n.OpCall:
    return n.OpCall(op=f"system.{op}", args=(), kwargs=kwargs, type=ScalarType(dtypes.INT32))


def _is_lane(stmt: n.Stmt) -> bool:
    return isinstance(stmt, n.Assign) and isinstance(stmt.value, n.OpCall) and stmt.value.op == "tile.get_subblock_idx"


class _Half(TileRewriter):
    """One core's part of a body. What the other core writes to global memory is skipped: its result is the target."""

    def __init__(self, function: n.Function, side: Affinity, context: Context) -> None:
        super().__init__(function, context)
        self.side = side
        self.names = Names.of(function)
        self.foreign: set[n.Var] = set()
        self.ordered = synchronises(function.body or ())
        self.missing: set[n.Var] = set()

    def block(self, body: Sequence[n.Stmt], into: Sequence[n.Var] = ()) -> n.Body:
        return _with_frees(super().block(body, into), self.side)

    def assign(self, stmt: n.Assign) -> None:
        side = affinity(stmt.value)
        if side in (Affinity.TO_VECTOR, Affinity.TO_CUBE):
            self.crossing(stmt, side)
        elif side in (self.side, Affinity.SHARED):
            self.check_reads(stmt)
            self.bind(stmt, self.visit_expr(stmt.value))
        else:
            self.skipped(stmt)

    def effect(self, stmt: n.Eval) -> None:
        if affinity(stmt.expr) in (self.side, Affinity.SHARED):
            self.check_reads(stmt)
            super().effect(stmt)

    def skipped(self, stmt: n.Assign) -> None:
        """A statement of the other core."""
        call = stmt.value
        target = written_argument(call) if isinstance(call, n.OpCall) else None
        if isinstance(stmt.var.type, TensorType) and target is not None:
            assert isinstance(call, n.OpCall)
            written = self.visit_expr(call.args[target])
            self.vars[stmt.var] = written
            if isinstance(written, n.Var):
                self.foreign.add(written)
        elif isinstance(stmt.var.type, ScalarType):
            self.missing.add(stmt.var)

    def check_reads(self, stmt: n.Assign | n.Eval) -> None:
        """Raises LabError where this core reads a scalar or memory only the other one makes."""
        for var in reads(stmt):
            if var in self.missing:
                hint = "read it from global memory on both cores"
                self.context.refuse(
                    "E816", f"`{plain_name(var.name)}` is known to the other core only", stmt.span, hint
                )
        call = stmt.value if isinstance(stmt, n.Assign) else stmt.expr
        if self.ordered:
            return
        if isinstance(call, n.OpCall) and call.op == "tile.load" and self.vars.get(call.args[0]) in self.foreign:  # type: ignore[call-overload]
            hint = "split the function in two: orchestration orders them"
            self.context.refuse("E816", "one core reads global memory the other core has written", stmt.span, hint)

    def crossing(self, stmt: n.Assign, side: Affinity) -> None:
        """A value that crosses: pushed by the core that has it, popped by the other."""
        call = stmt.value
        assert isinstance(call, n.OpCall) and isinstance(stmt.var.type, TileType)
        split = int(call.kwargs.get("split") or 0)
        giver = Affinity.CUBE if side is Affinity.TO_VECTOR else Affinity.VECTOR
        if self.side is giver:
            self.pushed(self.visit_expr(call.args[0]), side, split, call)
        elif side is Affinity.TO_VECTOR:
            self.bind(stmt, self.popped("tile.tpop_from_aic", stmt.var.type, split))
        elif call.op == "tile.aic_gather" or stmt.var.type.memory_space is MemorySpace.Mat:
            self.bind(stmt, self.popped("tile.tpop_from_aiv", stmt.var.type, split))
        else:
            factor = stmt.var.type
            on_mat = self.make("tile.move", call.args[0], target_memory=MemorySpace.Mat).type
            assert isinstance(on_mat, TileType)
            arrived = self.emit(f"{stmt.var.name}_mat", self.popped("tile.tpop_from_aiv", on_mat, split))
            boxed = _NZ if factor.memory_space is MemorySpace.Left else {}
            self.bind(stmt, self.make("tile.move", arrived, target_memory=factor.memory_space, **boxed))

    def pushed(self, tile: n.Expr, side: Affinity, split: int, call: n.OpCall) -> None:
        name = "tile.tpush_to_aiv" if side is Affinity.TO_VECTOR else "tile.tpush_to_aic"
        if side is Affinity.TO_CUBE and not self.context.target.pipe_through_global_memory:
            assert isinstance(tile, n.Var)
            tile = self.emit(f"{tile.name}_nz", self.make("tile.move", tile, target_memory=MemorySpace.Vec, **_NZ))
        push = n.OpCall(op=name, args=(tile,), kwargs={"split": split}, type=UNKNOWN, span=call.span)
        self.out.append(n.Eval(expr=push, span=self.span))

    def popped(self, op: str, type_: TileType, split: int) -> n.OpCall:
        return n.OpCall(op=op, args=(), kwargs={"split": split}, type=type_, span=self.span)


# --- freeing what was popped -----------------------------------------------------------------------------------------

_POPS = {"tile.tpop_from_aic": "system.tfree_to_aic", "tile.tpop_from_aiv": "system.tfree_to_aiv"}
_VIEWS = ("tile.reshape", "tile.slice", "tile.set_validshape", "tile.transpose_view", "tile.reinterpret_view")


def _with_frees(body: n.Body, side: Affinity) -> n.Body:
    """The body with each popped tile freed after the last statement that reads it or a view of it. A tile that outlives
    the block is copied first: its slot is needed again."""
    out = list(body)
    place = 0
    while place < len(out):
        stmt = out[place]
        place += 1
        if not isinstance(stmt, n.Assign) or not isinstance(stmt.value, n.OpCall) or stmt.value.op not in _POPS:
            continue
        if any(_frees(s, stmt.var) for s in out):
            continue
        views = {stmt.var}
        last = place - 1
        for i in range(place, len(out)):
            later = out[i]
            if not views & set(_all_reads(later)):
                continue
            last = i
            if isinstance(later, n.Assign) and (
                isinstance(later.value, n.Var) or getattr(later.value, "op", "") in _VIEWS
            ):
                views.add(later.var)
        free = n.OpCall(op=_POPS[stmt.value.op], args=(stmt.var,), type=UNKNOWN, span=stmt.span)
        out.insert(last + 1, n.Eval(expr=free, span=stmt.span))
    return tuple(out)


def _frees(stmt: n.Stmt, var: n.Var) -> bool:
    return (
        isinstance(stmt, n.Eval)
        and isinstance(stmt.expr, n.OpCall)
        and stmt.expr.op in _POPS.values()
        and stmt.expr.args[0] is var
    )


def _all_reads(stmt: n.Stmt) -> list[n.Var]:
    return [v for s in statements((stmt,)) for v in reads(s)]
