"""Assembling a program: jit entries with their dependencies, `@pl.program` classes, standalone functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pypto_lab.frontend.context import ProgramState, Signature
from pypto_lab.frontend.functions import Reading, check_returns, open_function, read_body
from pypto_lab.frontend.kernels import KernelSource, ProgramSource, kernel_of
from pypto_lab.frontend.report import Abandoned
from pypto_lab.frontend.signatures import Given
from pypto_lab.frontend.typing import same_type
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.span import Span
from pypto_lab.ir.types import TensorType
from pypto_lab.ir.visitor import walk


class Assembler:
    """Reads functions as they are called, each once; a jit dependency with other argument shapes once more."""

    def __init__(self, state: ProgramState) -> None:
        self.state = state
        self.readings: dict[str, Reading] = {}
        self.methods: dict[str, KernelSource] = {}
        self.closure: Mapping[str, Any] = {}
        self.active: list[str] = []
        self.copies: dict[KernelSource, list[str]] = {}
        state.callee = self.callee
        state.callee_names = lambda: (*self.methods, *(n for n in self.readings if n not in self.methods))
        state.specialise = self.specialise

    # --- signatures --------------------------------------------------------------------------------------------------

    def callee(self, name: str) -> Signature | None:
        """The signature of `self.name`; its body is read first when nothing else states the results."""
        reading = self.readings.get(name)
        if reading is None:
            return None
        if reading.returns is None and name not in self.active:
            self.finish(reading)
        return reading.signature

    def open(self, kernel: KernelSource, given: Given, name: str) -> Reading:
        reading = open_function(self.state, kernel, given, name=name, closure=self.closure)
        self.readings[name] = reading
        self.state.signatures[name] = reading.signature
        return reading

    def finish(self, reading: Reading) -> n.Function:
        """The function of a reading, its body read once."""
        done = self.state.functions.get(reading.name)
        if done is not None:
            return done
        self.active.append(reading.name)
        try:
            function = read_body(reading)
        finally:
            self.active.pop()
        check_returns(reading)
        self.state.functions[reading.name] = function
        return function

    # --- calls by bare name ------------------------------------------------------------------------------------------

    def specialise(self, kernel: KernelSource, args: tuple[n.Expr, ...], span: Span | None) -> Signature:
        """The signature of a kernel called by its bare name with these arguments. Raises Abandoned after reporting."""
        for name in self.copies.get(kernel, ()):
            if not kernel.is_jit or self._fits(self.readings[name], args):
                return self._signature(name, span)
        self._check_free(kernel, span)
        given = Given(arguments=dict(zip(_parameter_names(kernel), args, strict=False)))
        name = self._free_name(kernel.name)
        self.copies.setdefault(kernel, []).append(name)
        reading = self.open(kernel, given, name)
        self.finish(reading)
        return self._signature(name, span)

    def _signature(self, name: str, span: Span | None) -> Signature:
        if name in self.active:
            hint = "kernels cannot recurse; write a loop"
            self.state.reporter.error("E336", f"`{name}` calls itself", span, hint=hint)
            raise Abandoned
        return self.readings[name].signature

    def _check_free(self, kernel: KernelSource, span: Span | None) -> None:
        """A standalone @pl.function keeps its name; two different ones of a name cannot be in one program."""
        taken = self.readings.get(kernel.name)
        if kernel.kind == "function" and taken is not None and taken.kernel is not kernel:
            message = f"the program has another function `{kernel.name}` already"
            self.state.reporter.error("E331", message, span, hint="rename one of the two")
            raise Abandoned

    def _fits(self, reading: Reading, args: tuple[n.Expr, ...]) -> bool:
        """Whether the types that a dependency took from its first call are those of this call too."""
        pairs = zip(reading.params, args, strict=False)
        return all(
            same_type(_plain(p.type), _plain(a.type))
            for p, a in pairs
            if isinstance(p.type, TensorType) and isinstance(a.type, TensorType) and _is_bare(reading, p)
        )

    def _free_name(self, name: str) -> str:
        if name not in self.readings:
            return name
        version = 1
        while f"{name}_v{version}" in self.readings:
            version += 1
        return f"{name}_v{version}"

    # --- whole programs ----------------------------------------------------------------------------------------------

    def entry(self, kernel: KernelSource, given: Given) -> None:
        """A jit entry, or a standalone function, and everything it calls."""
        self.copies[kernel] = [kernel.name]
        self.finish(self.open(kernel, given, kernel.name))

    def program(self, source: ProgramSource) -> None:
        """A `@pl.program` class: all signatures first, then the bodies."""
        self.closure = source.closure
        for name, value in vars(source.cls).items():
            kernel = kernel_of(value)
            if kernel is not None:
                self.methods[name] = kernel
        if not self.methods:
            raise LabError(
                [
                    Diagnostic(
                        "E331",
                        f"the program `{source.name}` has no kernel",
                        hint="decorate its methods with @pl.function(type=...)",
                    )
                ]
            )
        inlines = {name for name, kernel in self.methods.items() if kernel.kind == "inline"}
        opened = [self.open(k, Given(), name) for name, k in self.methods.items() if name not in inlines]
        for reading in opened:
            self.finish(reading)

    def result(self, name: str, entry: str | None) -> n.Program:
        """The finished program: callees first, otherwise by name."""
        self.state.reporter.raise_errors()
        symbols = dict(sorted(self.state.symbols.items()))
        return n.Program(
            name=name,
            functions=dict(_callees_first(self.state.functions)),
            symbols=symbols,
            declared_symbols=tuple(symbols),
            sources=dict(self.state.reporter.sources),
            entry_name=entry,
            notes=self.state.reporter.notes,
        )


def _parameter_names(kernel: KernelSource) -> list[str]:
    code = kernel.function.__code__
    return [name for name in code.co_varnames[: code.co_argcount] if name != "self"]


def _is_bare(reading: Reading, param: n.Param) -> bool:
    """Whether a parameter took its type from a call."""
    import ast

    for argument in (*reading.node.args.posonlyargs, *reading.node.args.args):
        if argument.arg == param.name:
            node = argument.annotation
            if isinstance(node, ast.Subscript) and reading.state.path(node.value) in ("pl.Out", "pl.InOut"):
                node = node.slice
            return isinstance(node, (ast.Name, ast.Attribute))
    return False


def _plain(type_: TensorType) -> TensorType:
    """A tensor type without its view: dependencies take shapes and dtypes only."""
    return TensorType(type_.shape, type_.dtype)


def _callees_first(functions: Mapping[str, n.Function]) -> Iterator[tuple[str, n.Function]]:
    done: set[str] = set()

    def visit(name: str) -> Iterator[tuple[str, n.Function]]:
        if name in done or name not in functions:
            return
        done.add(name)
        called = {c.callee for c in walk(functions[name]) if isinstance(c, (n.FunctionCall, n.Submit))}
        for callee in sorted(called):
            yield from visit(callee)
        yield name, functions[name]

    for name in sorted(functions):
        yield from visit(name)


def program_name(kernel: KernelSource) -> str:
    return f"_jit_{kernel.name}" if kernel.is_jit else kernel.name
