"""Runs a kernel at one stage - as read, lowered, or as `.pto` texts on disk - and compares it with the golden."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto_lab.ir.diagnostics import Diagnostic, LabError, Severity
from pypto_lab.ir.nodes import Program
from pypto_lab.lowering import Lowered, lower
from pypto_lab.numerics.case import Case, Values, clone
from pypto_lab.numerics.compare import Comparison, finite
from pypto_lab.numerics.compiling import build_place, check_choice, compile_to, run_build_of
from pypto_lab.numerics.leaks import Leak, find_leaks, pick, pto_leaks
from pypto_lab.numerics.memories import compare_memories
from pypto_lab.pto.build import Build
from pypto_lab.pto.embedded import Progress, silent
from pypto_lab.torch_codegen.execute import run
from pypto_lab.torch_codegen.lines import Script

if TYPE_CHECKING:
    from pypto_lab.pto.machine.findings import Finding

STAGES = ("frontend", "lowered", "pto", "all")
ARCHITECTURES = ("a2a3", "a5")
_EXECUTED = {
    "frontend": "executed: the kernel as read, as PyTorch",
    "lowered": "executed: the kernel lowered by the lab's passes, as PyTorch",
}


@dataclass(frozen=True, slots=True)
class OutputDiff:
    """One output of the kernel against the golden."""

    name: str
    comparison: Comparison

    @property
    def ok(self) -> bool:
        return self.comparison.ok

    def to_json(self) -> dict[str, Any]:
        """`{name, ok, max_abs, max_rel}`; null stands for an infinite error."""
        found = self.comparison
        return {"name": self.name, "ok": self.ok, "max_abs": finite(found.max_abs), "max_rel": finite(found.max_rel)}


@dataclass(frozen=True, slots=True)
class StageDiff:
    """One stage against the golden.

    `leaks` is None when poison was not asked for. `findings` are what the machine that executes `.pto` saw, `executed`
    says what was run and what was only written. `refused` is why the stage could not be run, empty when it was.
    """

    stage: str
    outputs: tuple[OutputDiff, ...] = ()
    leaks: tuple[Leak, ...] | None = None
    warnings: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    executed: tuple[str, ...] = ()
    refused: str = ""
    build: Build | None = None

    @property
    def ok(self) -> bool:
        """True when the stage ran, every output is right, nothing undefined reaches one, and no finding is an error."""
        faults = any(f.severity is Severity.ERROR for f in self.findings)
        return not self.refused and not faults and all(o.ok for o in self.outputs) and not self.leaks

    @property
    def message(self) -> str:
        """Why the stage is not right, in a line; empty when it is."""
        wrong = [f"{o.name}: {o.comparison.message}" for o in self.outputs if not o.ok]
        wrong += [f"{leak.name}: {leak.message}" for leak in self.leaks or ()]
        wrong += [f"{f.code}: {f.op}: {f.message}" for f in self.findings if f.severity is Severity.ERROR]
        return self.refused or "; ".join(wrong)

    def to_json(self) -> dict[str, Any]:
        """`{stage, ok, outputs, message?, leaks?, findings?}`."""
        out: dict[str, Any] = {"stage": self.stage, "ok": self.ok, "outputs": [o.to_json() for o in self.outputs]}
        if self.message:
            out["message"] = self.message
        return out | more_json(self.leaks, self.findings, self.stage)

    def lines(self) -> list[str]:
        """The stage in text: verdict, outputs, leaks, findings, and what was executed."""
        if self.refused:
            return [f"{self.stage}: REFUSED", *(f"  {row}" for row in self.refused.splitlines())]
        lines = [f"{self.stage}: {'right' if self.ok else 'WRONG'}"]
        for output in self.outputs:
            first, *rest = output.comparison.lines()
            lines += [f"  {output.name}: {first}", *(f"    {line}" for line in rest)]
        lines += [f"  {leak.name}: {leak.message}" for leak in self.leaks or ()]
        if self.leaks == ():
            lines.append("  poison: no undefined cell reaches an output")
        lines += [f"  {row}" for finding in self.findings for row in str(finding).splitlines()]
        return [*lines, *(f"  {row}" for row in self.executed)]


def more_json(leaks: tuple[Leak, ...] | None, findings: tuple[Finding, ...], stage: str) -> dict[str, Any]:
    """What the JSON of a stage has besides verdict and numbers: leaks where asked for, findings of `.pto`."""
    more: dict[str, Any] = {}
    if leaks is not None:
        more["leaks"] = [leak.to_json() for leak in leaks]
    if stage == "pto":
        more["findings"] = [finding.to_json() for finding in findings]
    return more


@dataclass(frozen=True, slots=True)
class Subject:
    """What is run: a program, its inputs, and its outputs as they should be (None without a golden). `judge` compares
    one output, by name, among all those of a run."""

    name: str
    program: Program
    values: Values
    expected: Values | None
    judge: Callable[[str, Values], Comparison]


def subject_of(case: Case, seed: int, progress: Progress = silent) -> Subject:
    """A case on the inputs of a seed. Raises LabError for a kernel that cannot be read."""
    progress("reading the kernel")
    values = case.make_inputs(seed)
    program = case.program(values)
    progress("computing the golden")
    expected = case.expected(values)
    return Subject(
        case.name, program, values, expected, lambda name, outputs: case.compare(name, outputs, expected, values)
    )


@dataclass(frozen=True, slots=True)
class StageRun:
    """One stage of a subject, run. `program` is the one that was executed; `script` its torch script, None for `.pto`;
    `outputs` are all outputs by plain name; `lowered` the passes' stages where the lab ran them. A stage that was
    refused has none of it."""

    diff: StageDiff
    program: Program | None = None
    outputs: Mapping[str, Any] = field(default_factory=dict)
    script: Script | None = None
    lowered: Lowered | None = None


@dataclass(frozen=True, slots=True)
class StageRunner:
    """How stages of a subject are run. `out` keeps the build of the stage `pto`; `made` is a build that is there
    already, to be executed instead of making one."""

    subject: Subject
    arch: str = "a2a3"
    seed: int = 0
    poison: bool = False
    memory: str = "names"
    check_shapes: bool = False
    out: Path | str | None = None
    engine: str = "embedded"
    progress: Progress = silent
    made: Build | None = None

    def all(self) -> tuple[StageRun, ...]:
        """Every stage; one that is refused does not hide the others."""
        return tuple(self.attempt(name) for name in STAGES if name != "all")

    def attempt(self, stage: str) -> StageRun:
        """A stage, or why it is refused."""
        try:
            return self.run(stage)
        except LabError as error:
            return StageRun(StageDiff(stage, refused=str(error), build=self.made))

    def run(self, stage: str) -> StageRun:
        """A stage. Raises LabError: what the passes or the emission refuse, a run that cannot go on."""
        return self._pto() if stage == "pto" else self._torch(stage)

    def _torch(self, stage: str) -> StageRun:
        self.progress(f"running the stage {stage}")
        subject = self.subject
        lowered = lower(subject.program, self.arch) if stage == "lowered" else None
        program = subject.program if lowered is None else lowered.program
        result = run(
            program, clone(subject.values), seed=self.seed, memory=self.memory, arch=self.arch,
            check_shapes=self.check_shapes,
        )  # fmt: skip
        outputs = _plain(result.outputs)
        wanted = self._wanted(outputs)
        leaks = find_leaks(program, subject.values, wanted, self.seed) if self.poison else None
        findings = list(result.findings)
        if self.memory == "addresses":
            compared = compare_memories(program, subject.values, arch=self.arch, seed=self.seed)
            findings += [] if compared.ok and compared.has_addresses else [str(compared)]
        warnings = (*notes_of(program), *(f"warning: {finding}" for finding in findings))
        found = StageDiff(stage, self._compared(wanted), leaks, warnings, executed=(_EXECUTED[stage],))
        return StageRun(found, program, outputs, result.script, lowered)

    def _pto(self) -> StageRun:
        subject, kept = self.subject, self.out is not None or self.made is not None
        with build_place(self.out) as place:
            build = self.made or compile_to(
                subject.program, place, self.arch, self.engine, use_ptoas=self.out is not None, progress=self.progress
            )
            ran = run_build_of(build, subject.values, self.seed, self.progress)
            wanted = self._wanted(ran.outputs)
            leaks = pto_leaks(subject.program, build, subject.values, wanted, self.seed) if self.poison else None
        warnings = (*notes_of(subject.program), *(remark.render() for remark in ran.build.remarks))
        found = StageDiff(
            "pto", self._compared(wanted), leaks, warnings, ran.result.findings, ran.build.summary(),
            build=ran.build if kept else None,
        )  # fmt: skip
        program = subject.program if build.lowered is None else build.lowered.program
        return StageRun(found, program, ran.outputs, lowered=build.lowered)

    def _wanted(self, outputs: Values) -> Values:
        """The outputs the golden states; all of them without one."""
        expected = self.subject.expected
        return outputs if expected is None else pick(outputs, expected, self.subject.program)

    def _compared(self, outputs: Values) -> tuple[OutputDiff, ...]:
        expected = self.subject.expected or {}
        return tuple(OutputDiff(name, self.subject.judge(name, outputs)) for name in expected)


def _plain(outputs: Mapping[str, Any]) -> Values:
    return {name.partition("__ssa_v")[0]: value for name, value in outputs.items()}


def notes_of(program: Program) -> tuple[str, ...]:
    """The notes a reader left on a program, as text."""
    return tuple(n.render(program.sources) for n in program.notes if isinstance(n, Diagnostic))


def check_stage(stage: str, arch: str) -> None:
    """Raises LabError E509 for a stage or architecture that does not exist."""
    check_choice("stage", stage, STAGES)
    check_choice("arch", arch, ARCHITECTURES)


def chosen_stage(stage: str | None, out: Path | str | None, engine: str | None) -> str:
    """The stage asked for; `pto` where only `out` or `engine` is given, else `frontend`.

    Raises LabError E509 where another stage is asked for with `out` or `engine`, which it would not use.
    """
    given = [name for name, value in (("--out", out), ("--engine", engine)) if value is not None]
    if stage is None:
        return "pto" if given else "frontend"
    if given and stage in ("frontend", "lowered"):
        hint = f"take --stage pto or --stage all, or leave {given[0]} out"
        raise LabError([Diagnostic("E509", f"{given[0]} has no use at the stage {stage}", hint=hint)])
    return stage


def at_stage(program: Program, stage: str, arch: str) -> Program:
    """The program a stage runs as PyTorch: as read, or lowered by the lab's own passes for `arch`.

    Raises LabError for what the passes refuse, at the user's line.
    """
    return program if stage == "frontend" else lower(program, arch).program
