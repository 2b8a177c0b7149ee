"""Files as cases: case files, pypto-lib's specs with a `golden_*` function, files that call `run_jit` themselves."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from pypto_lab.compat.golden import runner
from pypto_lab.compat.golden.spec import Spec, TensorSpec, create_values
from pypto_lab.compat.loader import World, load_module, run_main, world_of
from pypto_lab.frontend.kernels import KernelSource, ProgramSource, source_of
from pypto_lab.ir.diagnostics import Diagnostic, LabError, did_you_mean
from pypto_lab.numerics.case import Case

SPEC_FUNCTIONS = ("build_specs", "build_tensor_specs")


class _Captured(BaseException):
    """Stops a file's `__main__` at its `run_jit` call; not an Exception, so that no `except` of the file eats it."""

    def __init__(self, request: runner.Request) -> None:
        self.request = request


def case(source: str | Path | ModuleType, kernel: str | None = None, *, shadow_real: bool = False) -> Case:
    """The case in a file or module; `kernel` chooses among several kernels.

    A case file defines `make_inputs(seed)` and `golden(values)`, and perhaps `ENTRY`, `OUTPUTS`, `RTOL`, `ATOL`,
    `RUNTIME_SCALARS`. A pypto-lib file defines `build_specs()` or `build_tensor_specs()` and a `golden_*` function;
    where its `__main__` calls `run_jit`, that call says which ones, with which tolerances and comparers.

    Raises LabError: E503 and E506 for a file that cannot be loaded, E508 for one that is no case.
    """
    if isinstance(source, ModuleType):
        module, path = source, _path_of(source)
    else:
        module, path = load_module(source, shadow_real=shadow_real), Path(source).resolve()
    if hasattr(module, "make_inputs") and hasattr(module, "golden"):
        return _case_file(module, path, kernel)
    request = captured_request(path, shadow_real) if path is not None and kernel is None else None
    if request is not None and request.golden_fn is not None:
        return _from_request(request, module, path)
    return _from_specs(module, path, kernel)


def kernels_of(module: ModuleType) -> dict[str, KernelSource | ProgramSource]:
    """Kernels and programs a module can run by name, in the order they were defined; helpers are left out."""
    found: dict[str, KernelSource | ProgramSource] = {}
    for name, value in vars(module).items():
        source = source_of(value)
        if source is not None and _is_entry(source) and _defined_in(source, module):
            found[name] = source
    return found


def choose_kernel(module: ModuleType, kernel: str | None) -> tuple[str, KernelSource | ProgramSource]:
    """The kernel called `kernel`, else the one `ENTRY` names, else the last one in the file.

    Raises LabError E508 when there is none of that name, or none at all.
    """
    found = kernels_of(module)
    wanted = kernel or getattr(module, "ENTRY", None)
    if wanted is None:
        if not found:
            raise _no_case(
                module, "no kernel in this file", "decorate a function with @pl.jit or a class with @pl.program"
            )
        wanted = list(found)[-1]
    source = found.get(wanted) or source_of(getattr(module, str(wanted), None))
    if source is None:
        hint = did_you_mean(str(wanted), found) or f"the kernels here are {', '.join(found) or 'none'}"
        raise _no_case(module, f"no kernel `{wanted}` in this file", hint)
    return str(wanted), source


def _case_file(module: ModuleType, path: Path | None, kernel: str | None) -> Case:
    entry, source = choose_kernel(module, kernel)
    outputs, scalars = getattr(module, "OUTPUTS", None), getattr(module, "RUNTIME_SCALARS", None)
    return Case(
        name=_name(module, path),
        path=path,
        entry=entry,
        source=source,
        inputs_of=lambda seed: dict(module.make_inputs(seed)),
        golden_of=module.golden,
        stated_outputs=None if outputs is None else tuple(outputs),
        rtol=getattr(module, "RTOL", None),
        atol=getattr(module, "ATOL", None),
        runtime_scalars=None if scalars is None else tuple(scalars),
        surroundings=functools.partial(world_of, module),
    )


def _from_request(request: runner.Request, module: ModuleType, path: Path | None) -> Case:
    source = source_of(request.kernel)
    if source is None or request.golden_fn is None:
        raise _no_case(module, "the file runs something that is not a kernel of this lab", "pass a @pl.jit function")
    return _spec_case(
        module,
        path,
        source,
        lambda: request.specs,
        request.golden_fn,
        rtol=request.rtol,
        atol=request.atol,
        comparers=request.compare_fn,
    )


def _from_specs(module: ModuleType, path: Path | None, kernel: str | None) -> Case:
    build = next((getattr(module, name) for name in SPEC_FUNCTIONS if hasattr(module, name)), None)
    if build is None:
        raise _no_case(
            module,
            "this file is not a case: it has no inputs and golden",
            "define make_inputs(seed) and golden(values), or build_specs() and golden_<name>(values); "
            "`pypto-lab run` executes the file's own checks",
        )
    entry, source = choose_kernel(module, kernel)
    return _spec_case(module, path, source, build, _golden_function(module, entry))


def _spec_case(
    module: ModuleType,
    path: Path | None,
    source: KernelSource | ProgramSource,
    build: Callable[[], list[Spec]],
    golden: Callable[..., Any],
    *,
    rtol: float | None = None,
    atol: float | None = None,
    comparers: Mapping[str, Any] | None = None,
) -> Case:
    surroundings = functools.partial(world_of, module)
    with surroundings():
        specs = build()
    return Case(
        name=_name(module, path),
        path=path,
        entry=source.name,
        source=source,
        inputs_of=lambda seed: create_values(build()),
        golden_of=golden,
        stated_outputs=tuple(s.name for s in specs if isinstance(s, TensorSpec) and s.is_output),
        rtol=rtol,
        atol=atol,
        comparers=dict(comparers or {}),
        surroundings=surroundings,
    )


def _golden_function(module: ModuleType, entry: str) -> Callable[..., Any]:
    """`golden_<entry>`, else the only `golden*` function. Raises LabError E508 when that is not one."""
    found: dict[str, Callable[..., Any]] = {
        k: v for k, v in vars(module).items() if k.startswith("golden") and callable(v)
    }
    exact = found.get(f"golden_{entry}")
    if exact is not None:
        return exact
    if len(found) == 1:
        return next(iter(found.values()))
    own = {k: v for k, v in found.items() if getattr(v, "__module__", None) == module.__name__}
    if len(own) == 1:
        return next(iter(own.values()))
    names = ", ".join(found) or "none"
    raise _no_case(module, f"no golden function for `{entry}` (found: {names})", f"define golden_{entry}(values)")


def captured_request(path: Path, shadow_real: bool = False) -> runner.Request | None:
    """The file's own `run_jit`/`run` call, read by running its `__main__` up to it; None when it does not get there."""
    if not _calls_runner(path):
        return None

    def stop(request: runner.Request) -> None:
        raise _Captured(request)

    runner.intercept(stop)
    try:
        run_main(path, shadow_real=shadow_real)
    except _Captured as captured:
        return captured.request
    except LabError:
        return None
    finally:
        runner.intercept(None)
    return None


def _calls_runner(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    return bool(names & {"run_jit", "run"})


def _is_entry(source: KernelSource | ProgramSource) -> bool:
    return isinstance(source, ProgramSource) or source.kind in ("jit", "jit.host", "function")


def _defined_in(source: KernelSource | ProgramSource, module: ModuleType) -> bool:
    """False for kernels a file only imports from a sibling."""
    owner = source.cls.__module__ if isinstance(source, ProgramSource) else source.function.__module__
    return owner == module.__name__


def _path_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file) if file and Path(file).exists() else None


def _name(module: ModuleType, path: Path | None) -> str:
    """The file's name; `kernel.py` files are called after their folder."""
    if path is None:
        return module.__name__
    return path.parent.name if path.stem == "kernel" else path.stem


def _no_case(module: ModuleType, message: str, hint: str) -> LabError:
    file = getattr(module, "__file__", None) or module.__name__
    return LabError([Diagnostic("E508", f"{file}: {message}", hint=hint)])


__all__ = ["World", "case", "choose_kernel", "kernels_of"]
