"""The decorators of `pypto.language` and the objects they make: kernels that run on the lab when they are called."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pypto_lab.compat.compiled import CompiledProgram
from pypto_lab.compat.dsl import call_with_frame, outside_a_kernel
from pypto_lab.compat.running import (
    RUNTIME,
    bind_call,
    bind_program,
    does_not_fit,
    execute,
    plain,
    refuse_unwritten,
    show_notes,
)
from pypto_lab.frontend.kernels import KernelSource, ProgramSource
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError

_made: list[list[Any]] = []


@contextlib.contextmanager
def made_kernels() -> Iterator[list[Kernel | ProgramObject]]:
    """A list that takes in every kernel and program made while the block runs, inside functions too."""
    made: list[Kernel | ProgramObject] = []
    _made.append(made)
    try:
        yield made
    finally:
        _made.pop()


_read: list[list[tuple[KernelSource | ProgramSource, n.Program]]] = []


@contextlib.contextmanager
def read_programs() -> Iterator[list[tuple[KernelSource | ProgramSource, n.Program]]]:
    """A list that takes in every program the front end reads for a call while the block runs, with its source."""
    read: list[tuple[KernelSource | ProgramSource, n.Program]] = []
    _read.append(read)
    try:
        yield read
    finally:
        _read.pop()


class Kernel:
    """A decorated function. A jit entry can be called with tensors, lowered and compiled; the others are only named
    by kernels, and calling them from Python is a mistake."""

    def __init__(self, source: KernelSource) -> None:
        self._pypto_lab_source = source
        self._programs: dict[Any, n.Program] = {}
        functools.update_wrapper(self, source.function)
        for made in _made:
            made.append(self)

    @property
    def name(self) -> str:
        return self._pypto_lab_source.name

    @property
    def is_entry(self) -> bool:
        return self._pypto_lab_source.kind in ("jit", "jit.host")

    def __call__(self, *arguments: Any, config: Any = None, **keywords: Any) -> Any:
        """Runs the kernel on torch tensors, in place; returns what it returns. Raises LabError with all findings."""
        if not self.is_entry:
            raise outside_a_kernel(self.name)
        values = self._bind(arguments, keywords)
        program = self._program(values)
        refuse_unwritten(program)
        missing = [name for name in _parameters(program) if name not in values]
        if missing:
            call = bind_program(program, (), values)
            execute(program, call.values, config)
            return _one_or_all([call.values[name] for name in call.allocated])
        return execute(program, values, config)

    def lower(self, *arguments: Any, config: Any = None, **keywords: Any) -> n.Program:
        """The program of this kernel for these arguments, as the front end builds it."""
        return self._program(self._bind(arguments, keywords))

    def compile(self, *arguments: Any, config: Any = None, **keywords: Any) -> CompiledProgram:
        """A program specialised for these arguments that can be called again; nothing is run yet."""
        return CompiledProgram(self.lower(*arguments, **keywords), config)

    @property
    def program(self) -> n.Program:
        """The program of a fully annotated kernel, no arguments needed."""
        return self._program({})

    def as_python(self) -> str:
        return self.program.as_python()

    def __repr__(self) -> str:
        return f"<{self._pypto_lab_source.kind} kernel {self.name}>"

    def _bind(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Values by parameter name. With fewer arguments than parameters the rest must be outputs or pl.RUNTIME."""
        function = self._pypto_lab_source.function
        if not arguments:
            return dict(keywords)
        names = list(function.__code__.co_varnames[: function.__code__.co_argcount])
        if len(arguments) + len(keywords) < len(names):
            return self._bind_inputs(names, arguments, keywords)
        return {name: plain(value) for name, value in bind_call(function, arguments, keywords).items()}

    def _bind_inputs(self, names: list[str], arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Any]:
        annotations = self._pypto_lab_source.function.__annotations__
        inputs = [name for name in names if not _is_output(annotations.get(name)) and name not in keywords]
        if len(arguments) != len(inputs):
            raise does_not_fit(self.name, f"{len(arguments)} arguments given", ", ".join(names))
        return {**dict(zip(inputs, map(plain, arguments), strict=True)), **keywords}

    def _program(self, values: Mapping[str, Any]) -> n.Program:
        from pypto_lab.frontend.source import program_of

        runtime = [name for name, value in values.items() if value is RUNTIME]
        given = {name: value for name, value in values.items() if value is not RUNTIME}
        key = tuple((name, _shape_key(value)) for name, value in values.items())
        program = self._programs.get(key)
        if program is None:
            program = program_of(self._pypto_lab_source, given or None, runtime_scalars=runtime or None)
            self._programs[key] = program
            for read in _read:
                read.append((self._pypto_lab_source, program))
            show_notes(program)
        return program


class ProgramObject:
    """A `@pl.program` class: reads like the compiler's Program (`name`, `functions`, `as_python()`), and can be run."""

    def __init__(self, source: ProgramSource) -> None:
        self._pypto_lab_source = source
        self.__name__ = source.name
        self.__doc__ = source.cls.__doc__
        for made in _made:
            made.append(self)

    @functools.cached_property
    def program(self) -> n.Program:
        """The IR. Raises LabError with all findings on first use."""
        from pypto_lab.frontend.source import program_of

        program = program_of(self._pypto_lab_source)
        for read in _read:
            read.append((self._pypto_lab_source, program))
        show_notes(program)
        return program

    @property
    def name(self) -> str:
        return self._pypto_lab_source.name

    @property
    def functions(self) -> Mapping[str, n.Function]:
        return self.program.functions

    def get_function(self, name: str) -> n.Function | None:
        return self.functions.get(name)

    def as_python(self) -> str:
        return self.program.as_python()

    def __call__(self, *arguments: Any, config: Any = None, **keywords: Any) -> Any:
        return CompiledProgram(self.program, config)(*arguments, **keywords)

    def __repr__(self) -> str:
        return f"<program {self.name}>"


Wrapper = Callable[..., Any]


def decorator(kind: str) -> Wrapper:
    """The decorator `pl.<kind>`, usable bare, with options, and as a plain call on a function."""

    def decorate(function: Any = None, /, **options: Any) -> Any:
        if function is None:
            closure = call_with_frame(1)
            return lambda target: make_kernel(target, kind, options, closure)
        return make_kernel(function, kind, options, call_with_frame(1))

    decorate.__name__ = decorate.__qualname__ = kind.rpartition(".")[2]
    decorate._pypto_lab_name = f"pl.{kind}"  # type: ignore[attr-defined]
    return decorate


def make_kernel(function: Any, kind: str, options: Mapping[str, Any], closure: Mapping[str, Any]) -> Kernel:
    """Wraps a Python function as a kernel. A kernel that is decorated again keeps its function and changes its kind."""
    target = function._pypto_lab_source.function if isinstance(function, Kernel) else function
    if not callable(target) or not hasattr(target, "__code__"):
        raise does_not_fit(f"pl.{kind}", f"{target!r} is not a Python function", "a function")
    return Kernel(KernelSource(target, kind, dict(options), closure))


def program(cls: Any = None, /, **options: Any) -> Any:
    """`@pl.program`, bare or with options."""
    if cls is None:
        closure = call_with_frame(1)
        return lambda target: ProgramObject(ProgramSource(target, options, closure))
    return ProgramObject(ProgramSource(cls, options, call_with_frame(1)))


class Jit:
    """`pl.jit` and its kinds `pl.jit.incore`, `.inline`, `.host`, `.opaque`, `.extern`."""

    _pypto_lab_name = "pl.jit"

    incore = staticmethod(decorator("jit.incore"))
    inline = staticmethod(decorator("jit.inline"))
    host = staticmethod(decorator("jit.host"))
    opaque = staticmethod(decorator("jit.opaque"))
    extern = staticmethod(decorator("jit.extern"))

    def __call__(self, function: Any = None, /, **options: Any) -> Any:
        if function is None:
            closure = call_with_frame(1)
            return lambda target: make_kernel(target, "jit", options, closure)
        return make_kernel(function, "jit", options, call_with_frame(1))

    def __repr__(self) -> str:
        return "pl.jit"


def program_from(value: Any) -> n.Program:
    """The IR of anything users hand to `ir.compile`, `run` or `torch_codegen`: a program class, a jit kernel with full
    annotations, an IR program or function, or a live object of the real compiler (read from its `as_python()`).

    Raises LabError E503 for anything else.
    """
    if isinstance(value, n.Program):
        return value
    if isinstance(value, n.Function):
        return n.Program(name=value.name, functions={value.name: value}, entry_name=value.name)
    found = getattr(value, "program", None)
    if isinstance(found, n.Program):
        return found
    text = getattr(value, "as_python", None)
    if callable(text):
        from pypto_lab.frontend.dump import read_dump

        return read_dump(text(), f"<{type(value).__name__}>")
    raise LabError(
        [Diagnostic("E503", f"{type(value).__name__} is not a program", hint="pass a @pl.program class or a kernel")]
    )


def _parameters(program: n.Program) -> list[str]:
    return [p.name for p in program.entry.params]


def _is_output(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.lstrip().startswith("pl.Out[")
    return getattr(annotation, "head", None) == "pl.Out"


def _shape_key(value: Any) -> Any:
    shape = getattr(value, "shape", None)
    return (tuple(shape), str(getattr(value, "dtype", ""))) if shape is not None else (type(value).__name__, value)


def _one_or_all(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else tuple(values)
