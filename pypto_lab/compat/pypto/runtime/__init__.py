"""Stand-in for `pypto.runtime`: configurations, workers and `run`, all on this machine's PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pypto_lab.compat.compiled import CompiledProgram
from pypto_lab.compat.golden.spec import ScalarSpec, TensorSpec
from pypto_lab.compat.kernels import program_from

if TYPE_CHECKING:
    import torch

__all__ = [
    "ChipWorker", "DeviceTensor", "DistributedWorker", "RunConfig", "ScalarSpec", "TensorSpec", "execute_compiled",
    "pto_isa_include_dir", "run",
]  # fmt: skip


class RunConfig:
    """Options of a run. Every keyword is accepted and kept as an attribute; the lab reads `platform` (to say that it
    was not used) and `output_dir`."""

    def __init__(self, platform: str | None = None, device_id: int | None = None, **options: Any) -> None:
        self.platform, self.device_id = platform, device_id
        self.__dict__.update(options)

    def __repr__(self) -> str:
        return f"RunConfig({', '.join(f'{k}={v!r}' for k, v in vars(self).items() if v is not None)})"


def run(program: Any, *arguments: Any, config: RunConfig | None = None, **keywords: Any) -> Any:
    """Compiles a program and runs it on the arguments, outputs in place. Without arguments returns the compiled
    program."""
    compiled = program if isinstance(program, CompiledProgram) else CompiledProgram(program_from(program), config)
    if arguments or keywords:
        compiled(*arguments, config=config, **keywords)
    return compiled


def execute_compiled(compiled: CompiledProgram, arguments: Sequence[Any], **options: Any) -> Any:
    """Runs a compiled program on a list of arguments in parameter order."""
    return compiled(*arguments, config=RunConfig(**options))


class ChipWorker:
    """A session on a device: here every tensor is an ordinary torch tensor in host memory."""

    def __init__(self, config: RunConfig | None = None, **options: Any) -> None:
        self.config = config or RunConfig(**options)
        self._registered: set[int] = set()

    @property
    def aicpu_dlopen_count(self) -> int:
        """How many different programs were registered."""
        return len(self._registered)

    def register(self, compiled: CompiledProgram) -> CompiledProgram:
        """A handle that dispatches the program: the compiled program itself."""
        self._registered.add(id(compiled))
        return compiled

    def run(self, compiled: CompiledProgram, *arguments: Any, config: RunConfig | None = None) -> Any:
        return compiled(*arguments, config=config or self.config)

    def alloc_tensor(
        self, shape: Sequence[int], dtype: torch.dtype, init: torch.Tensor | None = None, **options: Any
    ) -> torch.Tensor:
        """A tensor that stays between dispatches: zeros, or a copy of `init`."""
        import torch

        return torch.zeros(tuple(shape), dtype=dtype) if init is None else init.clone()

    def free_tensor(self, tensor: torch.Tensor) -> None:
        """Nothing to free: Python keeps and drops the tensor."""

    def close(self) -> None:
        """Nothing is held."""

    def __enter__(self) -> ChipWorker:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class DistributedWorker(ChipWorker):
    """A session for several programs; `run` says which one."""

    def __init__(self, programs: Sequence[CompiledProgram], config: RunConfig | None = None, **options: Any) -> None:
        super().__init__(config, **options)
        self.programs = list(programs)

    def __enter__(self) -> DistributedWorker:
        return self

    def __call__(self, *arguments: Any, config: RunConfig | None = None) -> Any:
        """Dispatches the only program. Raises ValueError when there are several."""
        if len(self.programs) != 1:
            raise ValueError(f"this worker holds {len(self.programs)} programs; use worker.run(program, ...)")
        return self.programs[0](*arguments, config=config)


def __getattr__(name: str) -> Any:
    if name == "DeviceTensor":
        import torch

        return torch.Tensor
    raise AttributeError(f"the lab's pypto.runtime has no `{name}`")


def pto_isa_include_dir() -> str:
    """Where the device headers of a hand-written C++ kernel would be. The lab has none; a file that names them can
    still be read, and its C++ kernels cannot be run."""
    return "pto-isa/include"
