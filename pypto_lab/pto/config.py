"""`kernel_config.py`: how a runtime starts a compiled program - its runtime, orchestration and kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError, did_you_mean
from pypto_lab.ir.enums import Direction, FunctionType
from pypto_lab.ir.types import TensorType
from pypto_lab.ir.visitor import walk
from pypto_lab.pto.wrapper.identity import group_members

UNKNOWN_RUNTIME = "E655"
NO_ORCHESTRATION = "E656"
BAD_THREADS = "E657"

ENTRY_NAME = "aicpu_orchestration_entry"


class RuntimeKind(Enum):
    """The runtimes that exist; the value is the name a configuration file carries."""

    TENSORMAP_AND_RINGBUFFER = "tensormap_and_ringbuffer"
    HOST_BUILD_GRAPH = "host_build_graph"


def runtime_kind(runtime: str | RuntimeKind) -> RuntimeKind:
    """The runtime of a name.

    Raises:
        LabError (E655): no runtime has that name; the message lists those that exist.
    """
    if isinstance(runtime, RuntimeKind):
        return runtime
    names = [kind.value for kind in RuntimeKind]
    if runtime not in names:
        listed = " and ".join(f"`{name}`" for name in names)
        message = f"no runtime is called {runtime!r}; there are {listed}"
        raise LabError([Diagnostic(UNKNOWN_RUNTIME, message, hint=did_you_mean(str(runtime), names))])
    return RuntimeKind(runtime)


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launched kernel: its number, core, file below the output folder, and a direction for each tensor."""

    func_id: int
    name: str
    core: str
    source: str
    signature: tuple[str, ...]
    external: bool = False


def kernel_config(
    program: n.Program,
    *,
    runtime: str | RuntimeKind = RuntimeKind.TENSORMAP_AND_RINGBUFFER,
    aicpu_thread_num: int = 0,
    orchestration: str | None = None,
) -> str:
    """The text of `kernel_config.py` for a program as the last pass leaves it.

    Sources lie as the compiler puts them: `orchestration/<name>.cpp`, `kernels/<aic|aiv>/<name>.cpp`. The file can be
    imported where the runtime is not installed: the argument directions are then plain names.

    Args:
        runtime: one of :class:`RuntimeKind` or its name.
        aicpu_thread_num: 0 leaves the number to the runtime (a2a3: 4, a5: 5).
        orchestration: the orchestration function to start; needed only where the program has several.

    Raises:
        LabError: E655 unknown runtime, E656 no or several orchestration functions, E657 a negative thread number.
    """
    kind = runtime_kind(runtime)
    if isinstance(aicpu_thread_num, bool) or aicpu_thread_num < 0:
        message = f"aicpu_thread_num is {aicpu_thread_num}; it is a number of threads, or 0 for the runtime's default"
        raise LabError([Diagnostic(BAD_THREADS, message)])
    start = orchestration_function(program, orchestration)
    signature = _names(_tensor_directions(start, {}))
    lines = [
        f"# How to start {program.name}; written by PyPTO Lab",
        "",
        "from pathlib import Path",
        "",
        "try:",
        "\tfrom simpler.task_interface import ArgDirection as _D",
        "except ImportError:  # the runtime is not installed: the names are all there is",
        "\tfrom enum import Enum",
        "",
        "\tclass _D(Enum):",
        *(f"\t\t{name} = {name!r}" for name in _DIRECTION_NAMES.values()),
        "",
        "_ROOT_DIR = Path(__file__).parent",
        "",
        "# 0 threads: the runtime's default (a2a3: 4, a5: 5)",
        "RUNTIME_CONFIG = {",
        f'\t"runtime": "{kind.value}",',
        f'\t"aicpu_thread_num": {aicpu_thread_num},',
        "}",
        "",
        "ORCHESTRATION = {",
        f'\t"source": {_source(f"orchestration/{start.name}.cpp")},',
        f'\t"function_name": "{ENTRY_NAME}",',
        f'\t"signature": {_listed(signature)},',
        "}",
        "",
        "KERNELS = [",
        *(f"\t{_kernel_entry(kernel)}," for kernel in kernels(program, start)),
        "]",
        "",
    ]
    return "\n".join(lines)


def orchestration_function(program: n.Program, name: str | None = None) -> n.Function:
    """The function that drives a program's kernels. Raises LabError (E656) when there is none, or several."""
    found = {f.name: f for f in program.functions.values() if f.func_type is FunctionType.Orchestration}
    if name is not None and name in found:
        return found[name]
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    listed = ", ".join(f"`{f}`" for f in found) or "none"
    wanted = f"no orchestration function is called {name!r}" if name is not None else "one must be named"
    message = f"program {program.name}: {wanted}; its orchestration functions: {listed}"
    raise LabError([Diagnostic(NO_ORCHESTRATION, message, hint=did_you_mean(name or "", found))])


def kernels(program: n.Program, start: n.Function) -> tuple[Kernel, ...]:
    """The kernels an orchestration function launches, numbered by first use; a group counts as its members.

    A tensor's direction is the one its first launch states (what the kernel does to a buffer that already holds data
    is InOut there), else the parameter's own.
    """
    found: dict[str, Kernel] = {}
    for function, directions in _launches(program, start):
        if function.name in found:
            continue
        core = "aic" if function.func_type is FunctionType.AIC else "aiv"
        source = function.external_source or f"kernels/{core}/{function.name}.cpp"
        signature = tuple(_names(_tensor_directions(function, directions)))
        found[function.name] = Kernel(
            len(found), function.name, core, source, signature, function.external_source is not None
        )
    return tuple(found.values())


def _launches(program: n.Program, start: n.Function) -> Iterator[tuple[n.Function, dict[int, Direction]]]:
    """(kernel, stated direction by parameter index) of each launch, in source order."""
    for node in walk(start):
        if not isinstance(node, (n.FunctionCall, n.Submit)) or node.callee not in program.functions:
            continue
        yield from _launched(program, program.functions[node.callee], _stated(node))


def _launched(
    program: n.Program, callee: n.Function, directions: dict[int, Direction]
) -> Iterator[tuple[n.Function, dict[int, Direction]]]:
    """The kernels behind a callee: itself, or what its Group or Spmd body calls with the directions handed on."""
    if callee.func_type not in (FunctionType.Group, FunctionType.Spmd):
        yield callee, directions
        return
    by_var = {param.var: directions[i] for i, param in enumerate(callee.params) if i in directions}
    for member in group_members(callee, program):
        call = next(c for c in walk(callee) if isinstance(c, (n.FunctionCall, n.Submit)) and c.callee == member.name)
        handed = {i: by_var[a] for i, a in enumerate(call.args) if isinstance(a, n.Var) and a in by_var}
        yield from _launched(program, member, handed)


def _stated(call: n.FunctionCall | n.Submit) -> dict[int, Direction]:
    """The directions of a call's `arg_directions`; those that say nothing on data are left out."""
    stated = call.attrs.get("arg_directions") or ()
    names = (getattr(direction, "name", str(direction)) for direction in stated)
    return {i: _CALL_DIRECTIONS[name] for i, name in enumerate(names) if name in _CALL_DIRECTIONS}


_CALL_DIRECTIONS = {
    "Input": Direction.In,
    "Output": Direction.Out,
    "OutputExisting": Direction.Out,
    "InOut": Direction.InOut,
}
_DIRECTION_NAMES = {Direction.In: "IN", Direction.Out: "OUT", Direction.InOut: "INOUT"}


def _tensor_directions(function: n.Function, stated: dict[int, Direction]) -> Iterator[Direction]:
    for i, param in enumerate(function.params):
        if isinstance(param.type, TensorType):
            yield stated.get(i, param.direction)


def _names(directions: Iterator[Direction]) -> list[str]:
    return [_DIRECTION_NAMES[direction] for direction in directions]


def _listed(signature: tuple[str, ...] | list[str]) -> str:
    return "[" + ", ".join(f"_D.{name}" for name in signature) + "]"


def _source(path: str) -> str:
    """The expression of a path below the folder of the file; an absolute path stays one."""
    if path.startswith("/"):
        return repr(path)
    return "str(_ROOT_DIR" + "".join(f' / "{part}"' for part in path.split("/")) + ")"


def _kernel_entry(kernel: Kernel) -> str:
    external = ' "external": True,' if kernel.external else ""
    return (
        f'{{"func_id": {kernel.func_id}, "name": "{kernel.name}", "source": {_source(kernel.source)}, '
        f'"core_type": "{kernel.core}",{external} "signature": {_listed(kernel.signature)}}}'
    )
