"""`validate`: every dump of a `passes_dump` folder against the golden and against the stage before it."""

from __future__ import annotations

import math
import multiprocessing
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pypto_lab.frontend.dump import read_dump
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.numerics.case import Case, Values
from pypto_lab.numerics.compare import Comparison, compare, finite
from pypto_lab.numerics.diff import run_outputs
from pypto_lab.numerics.memories import compare_memories
from pypto_lab.torch_codegen.memories import check_memory

_POOL_PAYS_AFTER = 12.0
"""Seconds of work left after the first stage that make starting worker processes worth it."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What became of one dump: `ok`, `mismatch`, `error` (it cannot be read or run) or `skipped` (nothing to run)."""

    file: str
    status: str
    max_abs: float | None
    message: str
    change: float | None = None
    """Largest difference from the outputs of the last stage that ran; None when there is none to compare with."""
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {"file": self.file, "status": self.status, "max_abs": finite(self.max_abs), "message": self.message}


@dataclass(frozen=True, slots=True)
class Sweep:
    """All stages of a folder, in order."""

    case: str
    stages: tuple[Stage, ...]

    @property
    def ok(self) -> bool:
        return all(s.status in ("ok", "skipped") for s in self.stages)

    @property
    def first_bad(self) -> Stage | None:
        """The first stage that is not right: the pass to look at."""
        return next((s for s in self.stages if s.status not in ("ok", "skipped")), None)

    def to_json(self) -> dict[str, Any]:
        return {"case": self.case, "stages": [s.to_json() for s in self.stages]}

    def __str__(self) -> str:
        width = max((len(s.file) for s in self.stages), default=0)
        lines = [f"{s.file:<{width}}  {s.status:<8}  {s.message}" for s in self.stages]
        counts = {
            status: sum(s.status == status for s in self.stages) for status in ("ok", "mismatch", "error", "skipped")
        }
        lines.append(", ".join(f"{count} {status}" for status, count in counts.items() if count))
        return "\n".join(lines)


Compare = Callable[[str, Values, Values, Values], Comparison]


@dataclass(frozen=True)
class Expectation:
    """The values every stage runs on and the outputs it should give."""

    values: Values
    expected: Values
    rtol: float | None = None
    atol: float | None = None
    seed: int = 0
    judge: Compare | None = None
    """The case's own comparison; None compares with the tolerances."""
    memory: str = "names"
    arch: str = "a2a3"

    def compare(self, name: str, outputs: Values) -> Comparison:
        if self.judge is not None:
            return self.judge(name, outputs, self.expected, self.values)
        return compare(outputs[name], self.expected[name], rtol=self.rtol, atol=self.atol)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What running one dump gave: its outputs, or why there are none."""

    outputs: Values | None
    problem: str | None
    seconds: float
    remark: str = ""
    """By addresses: which output is not what it is by names, and why."""


def validate(
    directory: str | Path,
    case: Case,
    *,
    seed: int = 0,
    workers: int | None = None,
    progress: Callable[[Stage], None] | None = None,
    memory: str = "names",
    arch: str = "a2a3",
) -> Sweep:
    """Runs every dump of a folder on the case's inputs and compares the outputs with the golden.

    With `memory` "addresses" a dump whose tiles have addresses runs both ways, and a difference is a mismatch.

    A stage that cannot be read or run is an `error` row and the next one goes on. `workers` processes share the
    stages; None decides by how long the first one takes. Raises LabError E503 when the folder holds no dumps.
    """
    values = case.make_inputs(seed)
    check_memory(memory, arch)
    expectation = Expectation(values, case.expected(values), case.rtol, case.atol, seed, case.compare, memory, arch)
    return validate_dumps(Path(directory), expectation, case.name, workers, progress)


def validate_dumps(
    path: Path,
    expectation: Expectation,
    name: str | None = None,
    workers: int | None = None,
    progress: Callable[[Stage], None] | None = None,
) -> Sweep:
    """:func:`validate` on values and expected outputs at hand; `path` may also be one dump."""
    files = dumps_of(path)
    stages: list[Stage] = []
    before: Values | None = None
    for file, outcome in zip(files, _outcomes(files, expectation, workers), strict=True):
        stage = _judge(file, outcome, expectation, before)
        before = outcome.outputs if outcome.outputs is not None else before
        stages.append(stage)
        if progress is not None:
            progress(stage)
    return Sweep(name or path.name, tuple(stages))


def dumps_of(path: Path) -> list[Path]:
    """The dumps under a path, in the order of the passes: a file, a folder of dumps, or a build folder.

    Raises LabError E503 when there are none.
    """
    if path.is_file():
        return [path]
    folder = path / "passes_dump" if (path / "passes_dump").is_dir() else path
    files = sorted(folder.glob("*.py"), key=lambda f: (_number(f), f.name))
    if not files:
        what = "holds no dumps (*.py)" if folder.is_dir() else "does not exist"
        raise LabError([Diagnostic("E503", f"{path} {what}", hint="give the passes_dump folder of a compile")])
    return files


CARRIES_UNFINISHED = ("InitMemRef", "MaterializeSemanticAliases")
"""Passes after which yields still have buffers of their own: the copies come with MemoryReuse (dump 34)."""


def run_dump(
    file: Path,
    values: Mapping[str, Any],
    wanted: Mapping[str, Any],
    seed: int,
    memory: str = "names",
    arch: str = "a2a3",
) -> Outcome:
    """Reads and runs one dump; never raises for what is wrong with it."""
    start = time.perf_counter()
    outputs, problem, remark = None, None, ""
    if file.stem.endswith(CARRIES_UNFINISHED):
        memory = "names"
    try:
        program = read_dump(file.read_text(encoding="utf-8"), str(file))
        if program.functions:
            outputs = run_outputs(program, values, wanted, seed, memory=memory, arch=arch)
            if memory == "addresses":
                compared = compare_memories(program, values, arch=arch, seed=seed)
                remark = "" if compared.ok else str(compared)
        else:
            problem = "no functions"
    except LabError as error:
        problem = "; ".join(d.message for d in error.diagnostics) or str(error)
    except Exception as error:  # a stage that breaks the lab itself is a row, not the end of the sweep
        problem = f"{type(error).__name__}: {error}"
    return Outcome(outputs, problem, time.perf_counter() - start, remark)


def _judge(file: Path, outcome: Outcome, expectation: Expectation, before: Values | None) -> Stage:
    if outcome.outputs is None:
        status = "skipped" if outcome.problem == "no functions" else "error"
        return Stage(file.name, status, None, outcome.problem or "", None, outcome.seconds)
    results = {name: expectation.compare(name, outcome.outputs) for name in expectation.expected}
    bad = {name: r for name, r in results.items() if not r.ok}
    worst = max((r.max_abs for r in results.values()), default=0.0)
    change = None if before is None else _difference(outcome.outputs, before)
    if bad:
        message = "; ".join(f"{name}: {r.message}" for name, r in bad.items())
    else:
        message = "equal" if worst == 0 else f"within tolerance, max abs {worst:.3g}"
    if change:
        message += f"; changed by up to {change:.3g} since the stage before"
    if outcome.remark:
        message += f"; {outcome.remark}"
    wrong = bool(bad or outcome.remark)
    return Stage(file.name, "mismatch" if wrong else "ok", worst, message, change, outcome.seconds)


def _difference(outputs: Values, before: Values) -> float:
    found = 0.0
    for name, tensor in outputs.items():
        result = compare(tensor, before[name], rtol=0.0, atol=0.0)
        found = max(found, 0.0 if result.ok else result.max_abs)
    return found


def _outcomes(files: Sequence[Path], expectation: Expectation, workers: int | None) -> Iterator[Outcome]:
    """Outcomes in the order of the files, from this process or a pool."""
    task = (
        expectation.values, expectation.expected, expectation.seed, expectation.memory, expectation.arch
    )  # fmt: skip
    rest = list(files)
    if workers is None:
        first = run_dump(rest.pop(0), *task)
        yield first
        cores = os.cpu_count() or 1
        workers = cores if first.seconds * len(rest) > _POOL_PAYS_AFTER else 1
    if workers <= 1 or len(rest) < 2:
        for file in rest:
            yield run_dump(file, *task)
        return
    with _pool(min(workers, len(rest)), task) as pool:
        yield from _mapped(pool, rest)


def _mapped(pool: Executor, files: Iterable[Path]) -> Iterator[Outcome]:
    futures = [pool.submit(_run_in_worker, file) for file in files]
    try:
        for future in futures:
            try:
                yield future.result()
            except Exception as error:  # the worker process died
                yield Outcome(None, f"the worker process ended: {error or type(error).__name__}", math.nan)
    finally:
        for future in futures:
            future.cancel()


_Task = tuple[Values, Values, int, str, str]
_task: _Task | None = None


def _pool(workers: int, task: _Task) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, context, initializer=_set_task, initargs=(task,))


def _set_task(task: _Task) -> None:
    global _task
    torch.set_num_threads(1)
    _task = task


def _run_in_worker(file: Path) -> Outcome:
    assert _task is not None
    return run_dump(file, *_task)


def _number(file: Path) -> int:
    found = re.match(r"\d+", file.name)
    return int(found[0]) if found else 1_000_000
