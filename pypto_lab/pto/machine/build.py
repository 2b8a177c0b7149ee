"""`run_build`: a whole program of a build folder. Orchestration, which has no `.pto`, runs as the program's own IR;
every kernel it launches runs from the `.pto` file of that name."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir import arith
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError, Severity
from pypto_lab.ir.enums import Direction, FunctionType
from pypto_lab.ir.types import ScalarType, ShapedType
from pypto_lab.ir.visitor import walk
from pypto_lab.pto.dialect.verify import check
from pypto_lab.pto.machine.execute import execute
from pypto_lab.pto.machine.findings import EXECUTED, ExecutionResult, Finding
from pypto_lab.pto.machine.listener import Listener
from pypto_lab.pto.orchestration.pipe_buffers import is_pipe_buffer, pipe_buffer_elements
from pypto_lab.pto.parse import Unit, read
from pypto_lab.torch_codegen.execute import namespace, prepare
from pypto_lab.torch_codegen.scheduling import Policy

KERNELS = frozenset({FunctionType.InCore, FunctionType.AIC, FunctionType.AIV, FunctionType.Group})
"""Kinds of functions that have a `.pto` unit (members of a group share the group's)."""


@dataclass(frozen=True, slots=True)
class BuildResult:
    """A program that came to its end. `runs` are its kernel launches in order; `written` lists what the folder holds
    but nobody executed."""

    outputs: Mapping[str, torch.Tensor]
    returned: Any
    runs: tuple[ExecutionResult, ...]
    arch: str
    dump: str | None
    written: tuple[str, ...]
    label: str = EXECUTED

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of all launches; the same one of several launches once."""
        seen: dict[tuple[object, ...], Finding] = {}
        for run in self.runs:
            for found in run.findings:
                seen.setdefault((run.unit, found.code, found.op, found.span, found.message), found)
        return tuple(seen.values())

    @property
    def ok(self) -> bool:
        """No finding is an error. Whether numbers are right is for a comparison to say."""
        return not any(found.severity is Severity.ERROR for found in self.findings)

    def lines(self) -> list[str]:
        """What was executed and what was only written."""
        units = dict.fromkeys(run.unit for run in self.runs)
        rows = [self.label, *(f"  {unit}" for unit in units)]
        rows.append(f"orchestration: the IR of {self.dump or 'the program'}, run as torch by pypto_lab")
        unmodelled = dict.fromkeys(what for run in self.runs for what in run.unmodelled)
        rows += [f"not modelled: {what}" for what in unmodelled]
        rows += [f"only written: {what}" for what in self.written]
        return rows

    def to_json(self) -> dict[str, object]:
        return {
            "label": self.label,
            "arch": self.arch,
            "dump": self.dump,
            "runs": [run.to_json() for run in self.runs],
            "written": list(self.written),
            "ok": self.ok,
        }


def run_build(
    build_dir: Path | str,
    case_or_values: Any,
    *,
    program: n.Program | None = None,
    dump: Path | str | None = None,
    seed: int = 0,
    verify: bool = True,
    listener: Listener | None = None,
    policy: Policy | str | None = None,
    poison: str | int | None = None,
) -> BuildResult:
    """Runs the program of a build folder on values by parameter name, or on a case's inputs for `seed`.

    The kernels are the `.pto` files below `build_dir`; the program that launches them is `program`, or that of `dump`,
    or the last dump found in (or beside) the folder. Tensors are cloned. `listener` is told what the machine does;
    `seed` or `policy` choose the order of lanes. `poison` ("nan" or a number) is what tensors that the orchestration
    creates hold until a kernel writes them; without it they hold zeros.

    Raises LabError: E600 where a kernel has no `.pto` or there is no dump; what `execute` raises; what the program's
    own run raises.
    """
    folder = Path(build_dir)
    program, source = program_of(folder, program, dump)
    values = case_or_values.make_inputs(seed) if hasattr(case_or_values, "make_inputs") else case_or_values
    driver = Driver(program, units_of(folder), seed, verify, listener=listener, policy=policy)
    prepared = prepare(program, values)
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore", RuntimeWarning)
        torch.manual_seed(seed)
        names = namespace(prepared.script, poison=poison)
        driver.take_over(names, prepared.script.functions)
        returned = prepared.call(names)
    arch = driver.runs[0].arch if driver.runs else "a2a3"
    shown = None if source is None else str(source)
    written = _written(folder, driver.paths.values())
    return BuildResult(prepared.outputs, returned, tuple(driver.runs), arch, shown, written)


def units_of(folder: Path) -> dict[str, Path]:
    """The `.pto` files below a folder, by the name of their kernel."""
    return {path.stem: path for path in sorted(folder.rglob("*.pto"))}


def program_of(
    folder: Path, program: n.Program | None = None, dump: Path | str | None = None
) -> tuple[n.Program, Path | None]:
    """The program that launches a folder's kernels, and the dump it was read from. Raises LabError E600 without one."""
    if program is not None:
        return program, None
    source = _dump_of(folder, dump)
    return read_dump(source.read_text(encoding="utf-8"), str(source)), source


def _dump_of(folder: Path, dump: Path | str | None) -> Path:
    """The dump that states the program: the one given, else the last of the folder, else of the folder beside it."""
    if dump is not None:
        return Path(dump)
    suffix = "_a5" if folder.name.endswith("_a5") else ""
    places = [folder / "passes_dump", *sorted(folder.glob("passes*"))]
    places += sorted(p for p in folder.parent.glob("passes*") if p.name.endswith("_a5") == bool(suffix))
    for place in places:
        found = sorted(place.glob("[0-9][0-9]_*.py"))
        if found:
            return found[-1]
    hint = "name a dump, or keep passes_dump/ beside the kernels"
    raise LabError(
        [Diagnostic("E600", f"{folder} has no passes_dump with the program that launches its kernels", hint=hint)]
    )


def _written(folder: Path, units: Any) -> tuple[str, ...]:
    """Artifacts of the folder that are no `.pto`: nobody executed them."""
    executed = set(units)
    names = ("*.cpp", "kernel_config.py", "compiled_meta.json")
    found = sorted({p for pattern in names for p in folder.rglob(pattern)} - executed)
    return tuple(str(p.relative_to(folder)) for p in found)


@dataclass(slots=True, eq=False)
class Driver:
    """Puts machine runs in the place of kernels in a script's namespace."""

    program: n.Program
    paths: Mapping[str, Path]
    seed: int
    verify: bool
    runs: list[ExecutionResult] = field(default_factory=list)
    listener: Listener | None = None
    policy: Policy | str | None = None
    blocks: int = 1
    loaded: dict[str, Unit] = field(default_factory=dict)

    def take_over(self, names: dict[str, Any], scripts: Mapping[str, str]) -> None:
        groups = {f.name for f in self.program.functions.values() if f.func_type is FunctionType.Group}
        members = {name for group in groups for name in self._callees(group)}
        for name, function in self.program.functions.items():
            if function.func_type in KERNELS and name not in members and name in scripts:
                names[scripts[name]] = self._kernel(function)
        names["_run_group_call"] = lambda group, *args: self._kernel(self.program.functions[group])(*args)
        names["_spmd_call"] = names["_spmd_together"] = self._spmd

    def _callees(self, group: str) -> Iterator[str]:
        for node in walk(self.program.functions[group]):
            if isinstance(node, (n.FunctionCall, n.Submit)):
                yield node.callee

    def _spmd(self, count: int, function: Callable[..., Any], *args: Any) -> Any:
        """One call that covers all blocks: the machine runs them, and sees where they write the same elements."""
        with self._with_blocks(int(count)):
            return function(*args)

    @contextmanager
    def _with_blocks(self, count: int) -> Iterator[None]:
        before, self.blocks = self.blocks, count
        try:
            yield
        finally:
            self.blocks = before

    def _unit(self, name: str) -> Unit:
        """The unit of a kernel, read from disk once and checked."""
        if name not in self.loaded:
            if name not in self.paths:
                known = ", ".join(self.paths) or "none"
                raise LabError([Diagnostic("E600", f"no {name}.pto in the build folder", hint=f"it has {known}")])
            self.loaded[name] = read(self.paths[name])
            if self.verify:
                check(self.loaded[name])
        return self.loaded[name]

    def _with_slots(self, function: n.Function, args: Sequence[Any]) -> list[Any]:
        """The arguments, a placeholder for slots in global memory as large as the orchestration makes it: the IR
        creates one element, and leaves the size to the launch."""
        called = [self.program.functions[name] for name in self._callees(function.name)]
        size = pipe_buffer_elements(called or [function]) * self.blocks
        return [
            torch.zeros(size) if is_pipe_buffer(param) and arg.numel() == 1 and size else arg
            for param, arg in zip(function.params, args, strict=True)
        ]

    def _kernel(self, function: n.Function) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            unit = self._unit(function.name)
            ordered = arguments_of(function, self._with_slots(function, args))
            done = execute(
                unit, function.name, ordered, block_num=self.blocks, seed=self.seed, verify=False,
                listener=self.listener, policy=self.policy,
            )  # fmt: skip
            self.runs.append(done)
            return _returned(function, args)

        run.__name__ = function.name
        return run


def arguments_of(function: n.Function, args: Sequence[Any]) -> list[Any]:
    """A kernel's arguments in the order of the `.pto` text: tensors, scalars, then each dynamic dimension once."""
    pairs = list(zip(function.params, args, strict=True))
    tensors = [(p, a) for p, a in pairs if isinstance(p.type, ShapedType)]
    scalars = [a for p, a in pairs if isinstance(p.type, ScalarType)]
    dims: dict[int, int] = {}
    own = {id(p.var) for p, _ in pairs}
    for param, tensor in tensors:
        assert isinstance(param.type, ShapedType)
        for axis, dim in enumerate(param.type.shape):
            form = arith.linear_form(dim)
            if len(form.terms) != 1:
                continue
            factor, atom = next(iter(form.terms.values()))
            if isinstance(atom, n.Var) and id(atom) not in dims and id(atom) not in own and factor:
                dims[id(atom)] = (int(tensor.shape[axis]) - form.offset) // factor
    return [*(a for _, a in tensors), *scalars, *dims.values()]


def _returned(function: n.Function, args: Sequence[Any]) -> Any:
    """What a kernel's call gives: the arguments its `return` names, else its outputs in order."""
    places = {id(p.var): index for index, p in enumerate(function.params)}
    statement = next((node for node in walk(function) if isinstance(node, n.Return)), None)
    values = [] if statement is None else list(statement.values)
    outputs = [i for i, p in enumerate(function.params) if p.direction is not Direction.In]
    chosen = [places[id(v)] for v in values if id(v) in places]
    if len(chosen) != len(values):
        chosen = outputs[: len(values)]
    found = [args[index] for index in chosen]
    return None if not found else found[0] if len(found) == 1 else tuple(found)
