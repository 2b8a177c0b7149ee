"""From a user's kernel to a program: the strict front end's one entry point."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pypto_lab.frontend.context import ProgramState
from pypto_lab.frontend.kernels import KernelSource, ProgramSource, source_of
from pypto_lab.frontend.programs import Assembler, program_name
from pypto_lab.frontend.report import Reporter
from pypto_lab.frontend.signatures import Given
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError


def program_of(
    source: object,
    arguments: Mapping[str, object] | None = None,
    *,
    runtime_scalars: Collection[str] | None = None,
) -> n.Program:
    """The program of a kernel: a `@pl.jit` entry with its dependencies, a `@pl.program` class, or a `@pl.function`.

    `source` is a KernelSource, a ProgramSource or an object that carries one. `arguments` maps parameter names to
    tensors or arrays (anything with `shape` and `dtype`) and Python scalars: they fill bare `pl.Tensor` parameters, and
    scalars of a jit entry are folded to their value unless they are named in `runtime_scalars` or annotated with
    `pl.RUNTIME` (they stay parameters in either case). Without `arguments` every scalar is a run-time value.

    Raises LabError with every diagnostic of the kernel; warnings and prints are in `Program.notes`. The rules are those
    of `reference/language.md` section 2.
    """
    found = source_of(source)
    if found is None:
        what = getattr(source, "__name__", None) or type(source).__name__
        hint = "decorate it with @pl.jit, @pl.function or @pl.program"
        raise LabError([Diagnostic("E331", f"`{what}` is no kernel", hint=hint)])
    state = ProgramState(found.name, Reporter())
    assembler = Assembler(state)
    if isinstance(found, ProgramSource):
        assembler.program(found)
        return assembler.result(found.name, None)
    return _kernel_program(assembler, found, arguments, runtime_scalars)


def _kernel_program(
    assembler: Assembler,
    kernel: KernelSource,
    arguments: Mapping[str, object] | None,
    runtime_scalars: Collection[str] | None,
) -> n.Program:
    assembler.entry(kernel, Given(samples=arguments, runtime=frozenset(runtime_scalars or ())))
    return assembler.result(program_name(kernel), kernel.name)
