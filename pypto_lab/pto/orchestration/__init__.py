"""The C++ that starts a program's kernels: the orchestration function on the runtime's scheduler core.

Its vocabulary (`PTO2_SCOPE`, `alloc_tensors`, `CoreTaskArgs`, `rt_submit_*`) is the runtime's; the rules are those of
PyPTO's orchestration page: arguments by direction, results that are their arguments, one C++ scope for each runtime
scope of the program.
"""

from __future__ import annotations

from pypto_lab.ir import nodes as n
from pypto_lab.pto.config import RuntimeKind, kernels, orchestration_function, runtime_kind
from pypto_lab.pto.orchestration.state import State
from pypto_lab.pto.orchestration.tasks import BLOCK_COUNT
from pypto_lab.pto.orchestration.writer import Writer

__all__ = ["orchestration"]


def orchestration(
    program: n.Program,
    arch: str = "a2a3",
    runtime: str | RuntimeKind = RuntimeKind.TENSORMAP_AND_RINGBUFFER,
    *,
    function: str | None = None,
) -> str:
    """The orchestration file of a program as the last pass leaves it.

    Kernels go by the numbers that `kernel_config` gives them. Both runtimes read the same text.

    Args:
        arch: "a2a3" or "a5"; the runtimes of the two name an SPMD launch's number of blocks differently.
        function: the orchestration function; needed only where the program has several.

    Raises:
        LabError: E655 unknown runtime, E656 no or several orchestration functions, E680 a statement or op without a
            form here, E681 a callee that no core runs, E682 a value whose scope has ended, E683 a result that is no
            output parameter, E684 a type the host or the runtime has not, E685 a predicate of another shape, E686 a
            group whose kernels take different arguments, E687 a dimension that no tensor shows, E688
            directions that do not fit a call's arguments.
        ValueError: an unknown arch.
    """
    runtime_kind(runtime)
    if arch not in BLOCK_COUNT:
        raise ValueError(f"no architecture is called {arch!r}; there are {', '.join(BLOCK_COUNT)}")
    start = orchestration_function(program, function)
    numbers = {kernel.name: kernel.func_id for kernel in kernels(program, start)}
    return Writer(State(program, start, arch, numbers)).write()
