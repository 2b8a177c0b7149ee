"""Which variable's memory each tensor of an orchestration function is: the runtime tracks tasks by tensor objects, so
a tensor written in place must go by one C++ name from its creation to its last use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import Direction, FunctionType
from pypto_lab.ir.types import TensorType

IN_PLACE = {"tensor.assemble": 0, "tensor.write": 0, "tensor.set_validshape": 0}
"""Ops whose result is the memory of one of their arguments."""


class Homes:
    """The home of each tensor variable: itself where it brings an object of its own, else the variable it aliases.

    Follows from PyPTO's orchestration rules: a launch's result is the output argument it was given; a loop's carried
    tensor keeps its name unless the body ends with another tensor; a branch's result has a name of its own unless both
    arms end with the same tensor.
    """

    def __init__(self, function: n.Function, program: n.Program) -> None:
        self.program = program
        self._homes: dict[n.Var, n.Var] = {}
        self._results: dict[n.Var, tuple[n.Var | None, ...]] = {}
        for param in function.params:
            self._homes[param.var] = param.var
        self._walk(function.body or ())

    def of(self, expr: n.Expr) -> n.Var | None:
        """The home of a tensor expression; None for what is no variable."""
        if isinstance(expr, n.TupleGetItem) and isinstance(expr.tuple, n.Var):
            results = self._results.get(expr.tuple, ())
            return results[expr.index] if expr.index < len(results) else None
        return self._homes.get(expr, expr) if isinstance(expr, n.Var) else None

    def results(self, call: n.FunctionCall | n.Submit) -> tuple[n.Var | None, ...]:
        """The home of each tensor a launch gives back; None where the program does not say."""
        callee = self.program.functions.get(call.callee)
        if callee is None:
            return ()
        places = returned_params(callee)
        return tuple(self.of(call.args[i]) if i is not None and i < len(call.args) else None for i in places)

    def _walk(self, body: n.Body) -> None:
        for stmt in body:
            match stmt:
                case n.Assign():
                    self._assign(stmt)
                case n.For() | n.While():
                    self._loop(stmt)
                case n.If():
                    self._walk(stmt.then_body)
                    self._walk(stmt.else_body)
                    ends = [yielded(stmt.then_body), yielded(stmt.else_body)]
                    for var, one, other in zip(stmt.return_vars, *ends, strict=False):
                        home = self.of(one)
                        self._homes[var] = home if home is not None and home is self.of(other) else var
                case n.Scope():
                    self._walk(stmt.body)

    def _assign(self, stmt: n.Assign) -> None:
        value = stmt.value
        if isinstance(value, (n.FunctionCall, n.Submit)):
            results = self.results(value)
            self._results[stmt.var] = results
            if isinstance(stmt.var.type, TensorType) and results and results[0] is not None:
                self._homes[stmt.var] = results[0]
            return
        if isinstance(value, n.OpCall) and value.op in IN_PLACE:
            value = value.args[IN_PLACE[value.op]]
        home = self.of(value) if isinstance(stmt.var.type, TensorType) else None
        self._homes[stmt.var] = stmt.var if home is None else home

    def _loop(self, stmt: n.For | n.While) -> None:
        for argument in stmt.iter_args:
            self._homes[argument] = self.of(argument.init_value) or argument
        self._walk(stmt.body)
        moved = False
        for argument, value in zip(stmt.iter_args, yielded(stmt.body), strict=False):
            if self._homes[argument] is not argument and self.of(value) is not self._homes[argument]:
                self._homes[argument] = argument
                moved = True
        if moved:
            self._walk(stmt.body)
        for var, argument in zip(stmt.return_vars, stmt.iter_args, strict=False):
            self._homes[var] = self._homes[argument]


def yielded(body: n.Body) -> Sequence[n.Expr]:
    """The values a body ends with, also where its last statement is a runtime scope around the rest."""
    last = body[-1] if body else None
    if isinstance(last, n.RuntimeScope):
        return yielded(last.body)
    return last.values if isinstance(last, n.Yield) else ()


def returned_params(callee: n.Function) -> tuple[int | None, ...]:
    """For each tensor a kernel returns, the index of the parameter it is.

    Late programs return parameters by name. Where a return names something else, the outputs are taken in order if
    there are just as many.
    """
    place = {p.var: i for i, p in enumerate(callee.params)}
    values = next((s.values for s in _returns(callee.body or ())), ())
    written = [i for i, p in enumerate(callee.params) if p.direction is not Direction.In]
    if not values and callee.return_types:
        return tuple(written) if len(written) == len(callee.return_types) else (None,) * len(callee.return_types)
    found = [place.get(v) if isinstance(v, n.Var) else None for v in values]
    if None in found and len(written) == len(values):
        return tuple(written)
    return tuple(found)


def _returns(body: n.Body) -> Iterator[n.Return]:
    for stmt in body:
        match stmt:
            case n.Return():
                yield stmt
            case n.If():
                yield from _returns(stmt.then_body)
                yield from _returns(stmt.else_body)
            case n.For() | n.While() | n.Scope():
                yield from _returns(stmt.body)


def is_kernel(function: n.Function) -> bool:
    """Whether a core runs this function's body."""
    return function.func_type in (FunctionType.AIC, FunctionType.AIV, FunctionType.InCore)
