"""Pass 1, InlineFunctions: a call of an Inline function becomes its body; the Inline functions go.

Follows from: an Inline function has no core of its own. Its locals get fresh names; a formal stands for the argument,
and a tensor formal that is bound again *is* the caller's tensor, because both name the same global memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import FunctionType
from pypto_lab.ir.types import ShapedType, TensorType, TupleType
from pypto_lab.ir.visitor import Rewriter, walk
from pypto_lab.lowering.context import Context
from pypto_lab.lowering.names import Names
from pypto_lab.lowering.uses import defined_in


def run(program: n.Program, context: Context) -> n.Program:
    inline = {f.name: f for f in program.functions.values() if f.func_type is FunctionType.Inline}
    if not inline:
        return program
    program = _with_root(program, inline)
    for function in inline.values():
        _refuse_recursion(function, inline, (), context)
    kept = {
        name: f if f.body is None else _Inliner(program, f, inline, context).run()
        for name, f in program.functions.items()
        if name not in inline
    }
    return dataclasses.replace(program, functions=kept)


def _with_root(program: n.Program, inline: dict[str, n.Function]) -> n.Program:
    """A program of nothing but Inline functions keeps the one that is its entry, as an ordinary function."""
    if len(inline) < len(program.functions):
        return program
    entry = program.entry
    del inline[entry.name]
    root = dataclasses.replace(entry, func_type=FunctionType.Opaque)
    return dataclasses.replace(program, functions={**program.functions, entry.name: root})


def _refuse_recursion(
    function: n.Function, inline: dict[str, n.Function], path: tuple[str, ...], context: Context
) -> None:
    if function.name in path:
        chain = " -> ".join((*path, function.name))
        context.refuse("E803", f"inline functions call each other in a circle: {chain}", function.span)
    for node in walk(function):
        if isinstance(node, n.FunctionCall) and node.callee in inline:
            _refuse_recursion(inline[node.callee], inline, (*path, function.name), context)


class _Inliner(Rewriter):
    """Rewrites one function. Statements a call brings along are collected in `before` and come before the caller's."""

    def __init__(
        self, program: n.Program, function: n.Function, inline: dict[str, n.Function], context: Context
    ) -> None:
        super().__init__()
        self.function = function
        self.inline = inline
        self.context = context
        self.names = Names.of(program)
        self.symbols = set(program.symbols.values())
        self.before: list[n.Stmt] = []
        self.tuples: dict[n.Var, tuple[n.Expr, ...]] = {}

    def run(self) -> n.Function:
        return self.visit_function(self.function)

    def visit_stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        if isinstance(node, n.While) and any(self._is_inline(e) for e in walk(node.condition)):
            hint = "call it before the loop and at the end of the body"
            self.context.refuse("E804", "an inline function cannot be called in a loop's condition", node.span, hint)
        outer, self.before = self.before, []
        rewritten = super().visit_stmt(node)
        mine, self.before = self.before, outer
        new = rewritten if isinstance(rewritten, tuple) else (rewritten,)
        return (*mine, *new) if mine or isinstance(rewritten, tuple) else rewritten

    def visit_body(self, body: n.Body) -> n.Body:
        outer, self.before = self.before, []
        new = super().visit_body(body)
        self.before = outer
        return new

    def stmt(self, node: n.Stmt) -> n.Stmt | tuple[n.Stmt, ...]:
        match node:
            case n.Eval(expr=n.MakeTuple() | n.Var()):
                return ()
            case n.Assign(value=n.MakeTuple() as made) if isinstance(node.var.type, TupleType):
                self.tuples[node.var] = made.elements
                return ()
            case n.Assign():
                self.tuples.pop(node.var, None)
        return node

    def expr(self, node: n.Expr) -> n.Expr:
        if isinstance(node, n.TupleGetItem) and isinstance(node.tuple, n.Var) and node.tuple in self.tuples:
            return self.tuples[node.tuple][node.index]
        if self._is_inline(node):
            assert isinstance(node, n.FunctionCall)
            return self.spliced(node)
        return node

    def _is_inline(self, node: object) -> bool:
        return isinstance(node, n.FunctionCall) and node.callee in self.inline

    def spliced(self, call: n.FunctionCall) -> n.Expr:
        """Puts the callee's body before the current statement; returns what the call's value is."""
        callee = self.inline[call.callee]
        assigned = defined_in(callee.body or ())
        copy = Rewriter()
        copy.vars.update(_bound_symbols(callee, call.args, self.symbols))
        prologue: list[n.Stmt] = []
        for param, argument in zip(callee.params, call.args, strict=True):
            shares = isinstance(argument, n.Var) and isinstance(param.type, TensorType)
            if shares or (param.var not in assigned and isinstance(argument, (n.Var, n.ConstInt, n.ConstFloat))):
                copy.vars[param.var] = argument
            else:
                local = self._local(param.var, copy)
                copy.vars[param.var] = local
                prologue.append(n.Assign(var=local, value=argument, span=call.span))
        for var in assigned:
            if var not in copy.vars and not isinstance(var, n.IterArg):
                copy.vars[var] = self._local(var, copy)
        body = prologue + list(copy.visit_body(callee.body or ()))
        results: tuple[n.Expr, ...] = ()
        if body and isinstance(body[-1], n.Return):
            results = body.pop().values  # type: ignore[attr-defined]
        self.before.extend(self.visit_body(tuple(body)))
        results = tuple(self.visit_expr(value) for value in results)  # a callee may return another's result
        self.vars.update(copy.vars)  # the type of what the call is bound to may name a dimension the callee computed
        if len(results) == 1:
            return results[0]
        return n.MakeTuple(elements=results, type=call.type, span=call.span)

    def _local(self, var: n.Var, copy: Rewriter) -> n.Var:
        """A caller's local for one of the callee's; its dimensions may name locals that were renamed before it."""
        return n.Var(name=self.names.numbered(f"{var.name}_inline"), type=copy.type(var.type), span=var.span)


def _bound_symbols(callee: n.Function, args: Sequence[n.Expr], symbols: set[n.Var]) -> dict[n.Var, n.Expr]:
    """The callee's dynamic dimensions in terms of the caller: each is the extent of the argument it is an extent of."""
    bound: dict[n.Var, n.Expr] = {}
    for param, argument in zip(callee.params, args, strict=True):
        if not isinstance(param.type, ShapedType) or not isinstance(argument.type, ShapedType):
            continue
        for wanted, given in zip(param.type.shape, argument.type.shape, strict=False):
            if isinstance(wanted, n.Var) and wanted in symbols:
                bound.setdefault(wanted, given)
    return bound
