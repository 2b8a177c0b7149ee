"""Records `.pto` text while the byte machine executes it: the text on disk is what is stepped through.

Needs torch and xDSL; a saved recording opens without either.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.pto.dialect.verify import check
from pypto_lab.pto.machine import findings
from pypto_lab.pto.machine.build import KERNELS, Driver, program_of, units_of
from pypto_lab.pto.machine.execute import execute
from pypto_lab.pto.machine.findings import EXECUTED, ExecutionError, ExecutionResult, Finding
from pypto_lab.pto.machine.listener import Listener
from pypto_lab.pto.parse import Unit, parse, read
from pypto_lab.record.live import Control
from pypto_lab.record.prepare import Prepared, cloned, prepare
from pypto_lab.record.probes import Probes
from pypto_lab.record.pto_probes import MachineProbes
from pypto_lab.record.pto_tables import UnitTables
from pypto_lab.record.recorder import DEFAULT_BUDGET, Run
from pypto_lab.record.recording import Facts, Recording
from pypto_lab.torch_codegen.lines import Script
from pypto_lab.torch_codegen.scheduling import Policy

Execute = Callable[[Listener], Any]


def record_build(
    build: Path | str,
    values: Mapping[str, object],
    *,
    program: n.Program | None = None,
    dump: Path | str | None = None,
    seed: int = 0,
    policy: Policy | str | None = None,
    budget: int = DEFAULT_BUDGET,
    control: Control | None = None,
    spill: str | None = None,
) -> Recording:
    """Runs the program of a build folder as `run_build` does, and returns what every instruction did.

    Statements of kernels are the instructions of the `.pto` files; the program that launches them (`program`, or that
    of `dump`, or of the folder's last dump) is recorded as its torch script, on the lane `host`. Tiles are views of
    their lane's memories, by address. `seed` and `policy` choose the order of lanes as `execute` has it; `budget`,
    `control` and `spill` are those of `record`. What the machine finds is in `Recording.findings` and among its notes.

    A run that cannot go on gives a recording up to there. Raises LabError: E600 where a kernel has no `.pto` or there
    is no dump; text that is not valid; values that do not fit.
    """
    folder = Path(build)
    found, _ = program_of(folder, program, dump)
    options = {"budget": budget, "spill": spill}
    return _BuildRun(found, dict(values), seed, policy, options, control or Control(), units_of(folder)).record()


def record_unit(
    unit: Path | str | Unit,
    function: str,
    args: Sequence[object],
    *,
    arch: str | None = None,
    block_num: int = 1,
    vector_lanes: int | None = None,
    verify: bool = True,
    seed: int = 0,
    policy: Policy | str | None = None,
    budget: int = DEFAULT_BUDGET,
    control: Control | None = None,
    spill: str | None = None,
) -> Recording:
    """Runs one function, or a group, of a `.pto` file as `execute` does, and returns what every instruction did.

    Tensors among `args` are cloned; they are the recording's outputs, by the names of the text. See `record_build`.
    """
    loaded = unit if isinstance(unit, Unit) else parse(unit) if isinstance(unit, str) and "\n" in unit else read(unit)
    if verify:
        check(loaded)
    copies: dict[int, Any] = {}
    bound = [cloned(arg, copies) for arg in args]

    def run(listener: Listener) -> ExecutionResult:
        return execute(
            loaded, function, bound, arch=arch, block_num=block_num, vector_lanes=vector_lanes, seed=seed,
            policy=policy, verify=False, listener=listener,
        )  # fmt: skip

    options = {"budget": budget, "spill": spill}
    arguments = dict(zip(_parameters(loaded, function, len(bound)), bound, strict=True))
    return _UnitRun((function, run), arguments, seed, policy, options, control or Control()).record()


def _parameters(unit: Unit, function: str, count: int) -> list[str]:
    """The names of the parameters that a caller fills in; numbers where the text has another count."""
    op = unit.functions.get(function) or next(iter(unit.functions.values()), None)
    names = [unit.names.get(a, "") or a.name_hint or "" for a in op.body.blocks[0].args] if op is not None else []
    names = [name for name in names if not name.startswith("__pypto_spmd")]
    return names if len(names) == count and len(set(names)) == count else [f"arg{i}" for i in range(count)]


class _MachineRun(Run):
    """A recording of what the byte machine does."""

    listener: MachineProbes | None = None

    def __init__(
        self, program: Any, values: dict[str, Any], seed: int, policy: Any, options: dict[str, Any], control: Control
    ) -> None:
        self.results: list[ExecutionResult] = []
        order = ("random" if seed else "lane-first") if policy is None else policy
        super().__init__(program, values, seed, order, options, control)

    def listen(self, probes: Probes) -> MachineProbes:
        self.listener = MachineProbes(probes, UnitTables(self.builder))
        return self.listener

    def status_of(self, problem: Exception) -> str:
        if isinstance(problem, ExecutionError):
            return "deadlock" if problem.findings[-1].code == findings.DEADLOCK else "failed"
        if isinstance(problem, LabError) and (self.listener is None or self.listener.last_frame < 0):
            raise problem
        return super().status_of(problem)

    def frame_of(self, problem: Exception) -> int:
        found = self.probes.frame_of(problem)
        return self.listener.last_frame if found < 0 and self.listener is not None else found

    def facts(self, status: str, error: str) -> Facts:
        made = super().facts(status, error)
        notes = (*made.notes, *(f"{f.code}: {f.diagnostic().message}" for f in self.found))
        return replace(made, notes=notes, engine=EXECUTED)

    @property
    def found(self) -> tuple[Finding, ...]:
        """Findings of all launches that came to their end; the same one of several launches once."""
        seen: dict[tuple[object, ...], Finding] = {}
        for result in self.results:
            for finding in result.findings:
                seen.setdefault((result.unit, finding.code, finding.op, finding.span, finding.message), finding)
        return tuple(seen.values())

    def record(self) -> Recording:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            recording = super().record()
        recording.findings = self.found
        return recording


class _BuildRun(_MachineRun):
    """A program whose kernels are run from their `.pto` files."""

    def __init__(
        self,
        program: n.Program,
        values: dict[str, Any],
        seed: int,
        policy: Any,
        options: dict[str, Any],
        control: Control,
        paths: Mapping[str, Path],
    ) -> None:
        self.driver = Driver(program, paths, seed, verify=True, policy=policy)
        super().__init__(program, values, seed, policy, options, control)
        self.results = self.driver.runs

    def prepare(self, values: dict[str, Any]) -> Prepared:
        def adapt(names: dict[str, Any], script: Script) -> None:
            self.driver.listener = self.listen(self.probes)
            self.driver.take_over(names, script.functions)

        kernels = [f.name for f in self.program.functions.values() if f.func_type in KERNELS]
        prepared = prepare(self.program, values, adapt=adapt)
        replaced = {prepared.functions_of_script.get(name, "") for name in kernels}
        ids = {f.id for f in prepared.functions if f.name in replaced}
        shown = [replace(s, spot=None) if s.function in ids else s for s in prepared.statements]
        explain = prepared.explain
        return replace(prepared, statements=shown, explain=lambda problem: explained(problem) or explain(problem))


class _UnitRun(_MachineRun):
    """One launch; `program` is the name of what is launched and the call that does."""

    def prepare(self, values: dict[str, Any]) -> Prepared:
        name, run = self.program

        def start(probes: Probes, policy: Any, seed: int) -> Callable[[], Any]:
            probes.begin([])
            listener = self.listen(probes)

            def call() -> None:
                self.results.append(run(listener))

            return call

        outputs = {key: key for key, value in values.items() if isinstance(value, torch.Tensor)}
        return Prepared(name, "", values, outputs, [], [], {}, {}, start, explain=explained)


def explained(problem: Exception) -> str:
    """An error of the machine as text, with its place."""
    if not isinstance(problem, LabError):
        return ""
    return "\n".join(d.render(problem.sources) for d in problem.diagnostics)


__all__ = ["record_build", "record_unit"]
