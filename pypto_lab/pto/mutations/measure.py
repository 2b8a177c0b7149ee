"""Trials: a kernel is lowered and emitted, one place of its text is changed, and the changed text is read, checked and
run against the golden, as any other."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pypto_lab.ir.diagnostics import LabError
from pypto_lab.ir.nodes import Program
from pypto_lab.lowering import lower
from pypto_lab.pto.dialect.verify import verify
from pypto_lab.pto.emit import emit
from pypto_lab.pto.machine.build import run_build
from pypto_lab.pto.mutations.make import KINDS, Mutation, mutate, sites
from pypto_lab.pto.mutations.meaning import kept
from pypto_lab.pto.parse import Unit, parse

STAGES = ("reading", "checking", "stopped", "finding", "numbers")
"""Who notices: the reader, the verifier, a run that cannot go on, a run's findings, the comparison with the golden."""

DRAWS, MOST_TURNS = 12, 10
"""How often a kind is drawn in its turn, and how many turns there are at most for each change that is asked for."""


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A kernel whose emitted texts are changed; `runs` are inputs and expected outputs by seed."""

    name: str
    case: Any
    program: Program
    units: Mapping[str, Unit]
    runs: tuple[tuple[dict[str, Any], dict[str, Any]], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One change. `kept` is the argument that it keeps the meaning, if there is one; `noticed` is the stage that
    noticed it, if one did (changes that keep the meaning are not run)."""

    subject: str
    unit: str
    mutation: Mutation
    kept: str | None
    noticed: str | None = None
    message: str = ""

    def __str__(self) -> str:
        verdict = f"keeps the meaning: {self.kept}" if self.kept else f"{self.noticed or 'NOT NOTICED'} {self.message}"
        return f"{self.subject}, {self.unit}.pto: {self.mutation}: {verdict}".rstrip()


def subject(case_file: Path, arch: str, seeds: Sequence[int] = (0, 1)) -> Subject:
    """Lowers and emits the kernel of a case file. Raises LabError as `lower` and `emit`."""
    import pypto_lab as lab  # the public API: cases belong to a layer above

    case = lab.case(case_file)
    inputs = [case.make_inputs(seed) for seed in seeds]
    program = lower(case.program(inputs[0]), arch).program
    units = {name: parse(text, f"{name}.pto") for name, text in emit(program, arch).items()}
    runs = tuple((values, case.expected(values)) for values in inputs)
    return Subject(f"{case_file.parent.name}/{arch}", case, program, units, runs)


def notice(subject: Subject, unit: str, text: str) -> tuple[str, str] | None:
    """(stage, message) of the first that notices something about the kernel with this text for one of its units; None
    when the text reads, is valid, runs without a finding and computes the golden for every seed."""
    try:
        changed = parse(text, f"{unit}.pto")
    except LabError as error:
        return "reading", error.diagnostics[0].message
    faults = verify(changed)
    if faults:
        return "checking", f"{faults[0].code} {faults[0].message}"
    with tempfile.TemporaryDirectory() as folder:
        for name, own in subject.units.items():
            (Path(folder) / f"{name}.pto").write_text(text if name == unit else own.text, encoding="utf-8")
        for values, expected in subject.runs:
            found = _run(subject, folder, values, expected)
            if found is not None:
                return found
    return None


def _run(subject: Subject, folder: str, values: dict[str, Any], expected: Mapping[str, Any]) -> tuple[str, str] | None:
    try:
        result = run_build(folder, values, program=subject.program)
    except LabError as error:
        return "stopped", f"{error.diagnostics[0].code} {error.diagnostics[0].message}"
    if result.findings:
        return "finding", f"{result.findings[0].code} {result.findings[0].message}"
    outputs = {name.partition("__ssa_v")[0]: value for name, value in result.outputs.items()}
    for name in expected:
        compared = subject.case.compare(name, outputs, expected, values)
        if not compared.ok:
            return "numbers", f"{name}: {compared.message}"
    return None


def trial(subject: Subject, unit: str, mutation: Mutation) -> Trial:
    """What comes of a change."""
    why = kept(subject.units[unit], mutation)
    found = None if why else notice(subject, unit, mutation.text)
    return Trial(subject.name, unit, mutation, why, *(found or (None, "")))


def draw(subjects: Sequence[Subject], kind: str, rng: random.Random) -> tuple[Subject, str, Mutation] | None:
    """A change of a kind at a place of one of the subjects; None when the one that was drawn has no such place."""
    chosen = rng.choice(list(subjects))
    unit = rng.choice(sorted(chosen.units))
    places = sites(chosen.units[unit], kind)
    made = mutate(chosen.units[unit], rng.choice(places), rng) if places else None
    return None if made is None else (chosen, unit, made)


def measure(subjects: Sequence[Subject], count: int, seed: int, kinds: Sequence[str] = KINDS) -> list[Trial]:
    """Trials, one kind after the other, until `count` of them change the meaning; no change is made twice.

    Raises ValueError when so many changes cannot be found.
    """
    rng = random.Random(seed)
    trials: list[Trial] = []
    seen: set[str] = set()
    for turn in range(MOST_TURNS * count):
        for _ in range(DRAWS):  # until one of this kind changes the meaning, else the next kind has its turn
            drawn = draw(subjects, kinds[turn % len(kinds)], rng)
            if drawn is None or drawn[2].text in seen:
                continue
            seen.add(drawn[2].text)
            trials.append(trial(*drawn))
            if trials[-1].kept is None:
                break
        if sum(t.kept is None for t in trials) == count:
            return trials
    raise ValueError(f"these {len(subjects)} kernels have no {count} places where a change matters")


def table(trials: Sequence[Trial]) -> str:
    """A line a kind: changes made, those that keep the meaning, and of the others how many each stage noticed."""
    head = ["kind", "made", "keep the meaning", "change it", "noticed", *STAGES]
    rows = [head]
    for kind in (*KINDS, "all"):
        own = [t for t in trials if kind in (t.mutation.kind, "all")]
        changing = [t for t in own if t.kept is None]
        numbers = [len(own), len(own) - len(changing), len(changing), sum(t.noticed is not None for t in changing)]
        numbers += [sum(t.noticed == stage for t in changing) for stage in STAGES]
        rows.append([kind, *map(str, numbers)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = [[row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))] for row in rows]
    return "\n".join("  ".join(line) for line in lines)
