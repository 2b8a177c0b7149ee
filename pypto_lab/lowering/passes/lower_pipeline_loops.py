"""Pass 29, LowerPipelineLoops: `pl.pipeline(stage=F)` becomes a loop with F copies of its body, and a tail.

Follows from: F iterations side by side let the loads of the next overlap the work of this one. The main loop steps F
times as far; iterations that are left over come after it, in line when their number is known, else in a loop of their
own. `pipeline_membership` ("group:stage") says which copy an op belongs to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import ForKind
from pypto_lab.ir.types import TileType
from pypto_lab.ir.visitor import Rewriter
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.copying import Copier
from pypto_lab.lowering.functions import map_bodies
from pypto_lab.lowering.names import Names
from pypto_lab.lowering.uses import statements

MEMBERSHIP = "pipeline_membership"
STAGES = "pipeline_stages"


def run(program: n.Program, context: Context) -> n.Program:
    def change(function: n.Function) -> n.Function:
        loops = [s for s in statements(function.body or ()) if isinstance(s, n.For) and s.kind is ForKind.Pipeline]
        return _Lowering(Names.of(function)).visit_function(function) if loops else function

    return map_bodies(program, change)


class _Lowering(Rewriter):
    def __init__(self, names: Names) -> None:
        super().__init__()
        self.names = names
        self.groups = 0

    def stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        if not isinstance(node, n.For) or node.kind is not ForKind.Pipeline:
            return node
        stages = int(node.attrs.get(STAGES, 1))
        if stages <= 1:
            return node
        bounds = [arith.constant(e) for e in (node.start, node.stop, node.step)]
        if None not in bounds:
            start, stop, step = bounds
            assert start is not None and stop is not None and step is not None
            return self.known(node, stages, range(start, stop, step))
        return self.unknown(node, stages)

    # --- copies ------------------------------------------------------------------------------------------------------

    def copy(
        self, loop: n.For, index: n.Expr, starts: Sequence[n.Expr], stage: int, *, first: bool
    ) -> tuple[n.Body, tuple[n.Expr, ...]]:
        """The body for one value of the loop variable, and what it yields."""
        copier = Rewriter() if first else Copier(loop.body, self.names)
        copier.vars[loop.loop_var] = index
        copier.vars.update(zip(loop.iter_args, starts, strict=True))
        body = copier.visit_body(loop.body)
        values: tuple[n.Expr, ...] = ()
        if body and isinstance(body[-1], n.Yield):
            values, body = body[-1].values, body[:-1]
        marked = _Marker(f"{self.groups}:{stage}").visit_body(body)
        return marked, values

    def copies(self, loop: n.For, stages: int, index: n.Var, arguments: Sequence[n.Expr]) -> n.Body:
        """F iterations one after the other, with the yield of the last."""
        body: list[n.Stmt] = []
        values: Sequence[n.Expr] = arguments
        for stage in range(stages):
            at = index if stage == 0 else _moved(index, loop.step, stage)
            part, values = self.copy(loop, at, values, stage, first=stage == 0)
            body.extend(part)
        if values:
            body.append(n.Yield(values=tuple(values), span=loop.span))
        return tuple(body)

    # --- loops -------------------------------------------------------------------------------------------------------

    def known(self, loop: n.For, stages: int, values: range) -> tuple[n.Stmt, ...]:
        """A loop of known length: the left-over iterations stand after it in line."""
        whole = len(values) // stages * stages
        rest = values[whole:]
        out: list[n.Stmt] = []
        carried: Sequence[n.Expr] = [a.init_value for a in loop.iter_args]
        if whole:
            results = loop.return_vars if not rest else tuple(self.main_result(v) for v in loop.return_vars)
            stop = n.const(values.start + whole * values.step)
            out.append(self.main(loop, stages, n.const(values.start), stop, results))
            carried = results
            self.groups += 1
        for stage, value in enumerate(rest):
            part, carried = self.copy(loop, n.const(value), carried, stage, first=not whole and stage == 0)
            out.extend(part)
        if rest:
            self.groups += 1
        if rest or not whole:
            pairs = zip(loop.return_vars, carried, strict=True)
            out.extend(n.Assign(var=var, value=value, span=loop.span) for var, value in pairs)
        return tuple(out)

    def unknown(self, loop: n.For, stages: int) -> tuple[n.Stmt, ...]:
        """A loop of unknown length: the left-over iterations get a loop of their own."""
        stride = arith.mul(loop.step, stages)
        count = arith.floordiv(arith.sub(loop.stop, loop.start), stride)
        stop = arith.add(loop.start, arith.mul(count, stride))
        bound = n.Var(name=self.names.fresh(f"{loop.loop_var.name}_main"), type=n.INDEX, span=loop.span)
        results = tuple(self.main_result(v) for v in loop.return_vars)
        main = self.main(loop, stages, loop.start, bound, results)
        self.groups += 1
        copier = Copier((dataclasses.replace(loop, return_vars=()),), self.names)
        arguments = []
        for argument, start in zip(loop.iter_args, results, strict=True):
            name = self.names.fresh(argument.name)
            new = n.IterArg(name=name, type=argument.type, init_value=start, span=argument.span)
            copier.vars[argument] = new
            arguments.append(new)
        index = n.Var(name=self.names.fresh(loop.loop_var.name), type=loop.loop_var.type, span=loop.span)
        copier.vars[loop.loop_var] = index
        tail = n.For(
            loop_var=index,
            start=bound,
            stop=loop.stop,
            step=loop.step,
            body=copier.visit_body(loop.body),
            iter_args=tuple(arguments),
            return_vars=loop.return_vars,
            span=loop.span,
        )
        return (n.Assign(var=bound, value=stop, span=loop.span), main, tail)

    def main(self, loop: n.For, stages: int, start: n.Expr, stop: n.Expr, results: tuple[n.Var, ...]) -> n.For:
        attrs = {**loop.attrs, STAGES: 1}
        body = self.copies(loop, stages, loop.loop_var, loop.iter_args)
        step = arith.mul(loop.step, stages)
        return dataclasses.replace(loop, start=start, stop=stop, step=step, body=body, return_vars=results, attrs=attrs)

    def main_result(self, var: n.Var) -> n.Var:
        return dataclasses.replace(var, name=self.names.fresh(f"{var.name}_main"))


def _moved(index: n.Var, step: n.Expr, stage: int) -> n.Expr:
    return n.Binary(op="Add", left=index, right=arith.mul(step, stage), type=index.type)


class _Marker(Rewriter):
    """Marks the ops of one copy that make tiles."""

    def __init__(self, membership: str) -> None:
        super().__init__()
        self.membership = membership

    def stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        if isinstance(node, n.Assign) and isinstance(node.value, n.OpCall) and isinstance(node.var.type, TileType):
            attrs = {**node.value.attrs, MEMBERSHIP: self.membership}
            return dataclasses.replace(node, value=dataclasses.replace(node.value, attrs=attrs))
        return node
