"""`run` and `run_jit`: make the inputs, compute the golden, run the kernel on the lab, compare every output."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pypto_lab.compat.golden.spec import ScalarSpec, Spec, TensorSpec, create_values
from pypto_lab.compat.golden.validation import CompareFn, validate_golden
from pypto_lab.compat.notices import say_once
from pypto_lab.compat.running import refuse_ranks
from pypto_lab.ir.diagnostics import LabError

GoldenFn = Callable[[dict[str, Any]], Any]


@dataclass
class RunResult:
    """What a run came to; `error` says why it did not pass."""

    passed: bool
    error: str | None = None
    execution_time: float | None = None
    work_dir: Path | None = None
    bench: Any = None

    def __str__(self) -> str:
        took = f" in {self.execution_time:.2f} s" if self.execution_time is not None else ""
        return f"PASS{took}" if self.passed else f"FAIL{took}: {self.error}"


@dataclass
class Request:
    """One call of `run` or `run_jit`, with everything that decides its outcome."""

    kernel: Any
    specs: list[Spec]
    golden_fn: GoldenFn | None
    golden_data: str | None
    rtol: float
    atol: float
    compare_fn: Mapping[str, CompareFn]
    compile_only: bool
    save_data: bool
    options: Mapping[str, Any]

    @property
    def outputs(self) -> list[str]:
        return [s.name for s in self.specs if isinstance(s, TensorSpec) and s.is_output]


def run(
    program: Any,
    specs: Sequence[Spec],
    golden_fn: GoldenFn | None = None,
    golden_data: str | None = None,
    compile_cfg: Mapping[str, Any] | None = None,
    runtime_cfg: Mapping[str, Any] | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-5,
    compare_fn: Mapping[str, CompareFn] | None = None,
    compile_only: bool = False,
    runtime_dir: str | None = None,
    save_data: bool = False,
) -> RunResult:
    """Runs a `@pl.program` on inputs made from `specs` (parameter order) and checks the outputs against `golden_fn`.

    `golden_data` names a folder with `in/NAME.pt` and `out/NAME.pt` that replaces both. Device and compiler options
    (`compile_cfg`, `runtime_cfg`, `runtime_dir`) are accepted; the lab runs on PyTorch. Never raises for a kernel that
    is wrong: the result says so.
    """
    options = {**(compile_cfg or {}), **(runtime_cfg or {}), "runtime_dir": runtime_dir}
    request = Request(
        program, list(specs), golden_fn, golden_data, rtol, atol, compare_fn or {}, compile_only, save_data, options
    )
    if _intercept is not None:
        _intercept(request)
    return execute_request(request)


def run_jit(
    fn: Any,
    specs: Sequence[Spec],
    golden_fn: GoldenFn | None = None,
    golden_data: str | None = None,
    compile_cfg: Mapping[str, Any] | None = None,
    runtime_cfg: Mapping[str, Any] | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-5,
    compare_fn: Mapping[str, CompareFn] | None = None,
    compile_only: bool = False,
    runtime_dir: str | None = None,
    save_data: bool = False,
) -> RunResult:
    """:func:`run` for a `@pl.jit` function."""
    return run(
        fn, specs, golden_fn, golden_data, compile_cfg, runtime_cfg, rtol, atol, compare_fn, compile_only, runtime_dir,
        save_data,
    )  # fmt: skip


_intercept: Callable[[Request], None] | None = None


def intercept(handler: Callable[[Request], None] | None) -> None:
    """Calls `handler` with every request before it runs (it may raise to stop); None ends that. Used to read a file's
    own `run_jit` call without running it."""
    global _intercept
    _intercept = handler


def execute_request(request: Request) -> RunResult:
    """Runs a request. A kernel that is refused or wrong gives a result with `error`, not an exception."""
    platform = request.options.get("platform")
    if platform:
        say_once(f"kernels run here with PyTorch; platform {platform} and its devices are not used")
    try:
        refuse_ranks(request.options.get("distributed_config"))
        return _execute(request)
    except LabError as error:
        return RunResult(False, f"{error}")
    except FileNotFoundError as error:
        return RunResult(False, f"{error}")


def _execute(request: Request) -> RunResult:
    name = str(getattr(request.kernel, "name", None) or getattr(request.kernel, "__name__", "program"))
    values, expected, snapshot = _inputs_and_golden(request)
    if request.compile_only:
        _lower(request.kernel, values)
        print(f"{name}: read without errors; not run (compile_only)")
        return RunResult(True)
    work_dir = _save(name, values, expected, request) if request.save_data else None
    start = time.perf_counter()
    _callable(request.kernel)(*values.values())
    took = time.perf_counter() - start
    outputs = {key: values[key] for key in request.outputs}
    if expected is None:
        print(f"{name}: ran in {took:.2f} s; nothing was checked (no golden)")
        return RunResult(True, None, took, work_dir)
    try:
        validate_golden(outputs, expected, request.rtol, request.atol, request.compare_fn, snapshot)
    except AssertionError as error:
        return RunResult(False, f"{name}: {error}", took, work_dir)
    print(f"{name}: {', '.join(outputs)} as the golden says ({took:.2f} s, PyTorch on this machine)")
    return RunResult(True, None, took, work_dir)


def _inputs_and_golden(request: Request) -> tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any]]:
    """Initial values, expected outputs (None when nothing says them), and a copy of the inputs for comparers."""
    if request.golden_data is not None:
        values = _load_inputs(request.specs, Path(request.golden_data))
        expected = {k: _load(Path(request.golden_data) / "out" / f"{k}.pt") for k in request.outputs}
        return values, expected, clone(values)
    values = create_values(request.specs)
    snapshot = clone(values)
    if request.golden_fn is None:
        return values, None, snapshot
    reference = clone(values)
    request.golden_fn(reference)
    return values, {key: reference[key] for key in request.outputs}, snapshot


def clone(values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of values in which no tensor is shared."""
    return {k: v.clone() if hasattr(v, "clone") else v for k, v in values.items()}


def _callable(kernel: Any) -> Callable[..., Any]:
    """Something that runs the kernel in place: itself, or its program compiled."""
    from pypto_lab.compat.compiled import CompiledProgram
    from pypto_lab.compat.kernels import program_from

    return kernel if callable(kernel) else CompiledProgram(program_from(kernel))


def _lower(kernel: Any, values: Mapping[str, Any]) -> None:
    from pypto_lab.compat.kernels import Kernel, program_from

    if isinstance(kernel, Kernel):
        kernel.lower(*values.values())
    else:
        program_from(kernel)


def _load(path: Path) -> Any:
    import torch

    if not path.exists():
        raise FileNotFoundError(f"the saved golden data lacks {path}")
    return torch.load(path)


def _load_inputs(specs: Sequence[Spec], folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for spec in specs:
        if isinstance(spec, ScalarSpec):
            values[spec.name] = _load(folder / "in" / f"{spec.name}.pt").item()
        elif spec.starts_defined:
            values[spec.name] = _load(folder / "in" / f"{spec.name}.pt")
        else:
            values[spec.name] = spec.create_tensor()
    return values


def _save(name: str, values: Mapping[str, Any], expected: Mapping[str, Any] | None, request: Request) -> Path:
    import torch

    folder = Path("build_output") / f"{name}_{time.strftime('%Y%m%d_%H%M%S')}" / "data"
    for part in ("in", "out"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for spec in request.specs:
        if isinstance(spec, ScalarSpec):
            torch.save(spec.value, folder / "in" / f"{spec.name}.pt")
        elif spec.starts_defined:
            torch.save(values[spec.name], folder / "in" / f"{spec.name}.pt")
    for key, tensor in (expected or {}).items():
        torch.save(tensor, folder / "out" / f"{key}.pt")
    return folder.parent
