"""Runs a program's torch script, a script's text or a plain torch function under the recorder."""

from __future__ import annotations

import copy
import os
import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from pypto_lab.record.build import Builder, Spool
from pypto_lab.record.live import Control, Interrupted
from pypto_lab.record.prepare import Prepared, ScriptText, prepare
from pypto_lab.record.probes import Change, Probes, SwitchedPolicy
from pypto_lab.record.recompute import Recomputer, live_value
from pypto_lab.record.recording import Facts, Origin, Recording, other_engine
from pypto_lab.record.trace import Trace

DEFAULT_BUDGET = 2 << 30
"""Bytes of memory a recording may keep before it moves older values to disk."""


def record(
    program: Any,
    values: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    policy: Any = "lane-first",
    budget: int = DEFAULT_BUDGET,
    keep_all: bool = False,
    check_shapes: bool = False,
    control: Control | None = None,
    spill: str | None = None,
) -> Recording:
    """Runs a program and returns what happened, statement by statement.

    `program` is an IR Program or Function, a generated Script, or a plain torch function (its helpers from the same
    module are recorded, too). `values` gives the parameters by name; tensors are cloned. `seed` and `policy`
    (`lane-first`, `round-robin`, `random` or an object) choose the order of the lanes: the same seed gives the same
    recording, bit for bit. `budget` is the memory in bytes for kept values; beyond it older values move to a file in
    the folder `spill` (default: the system's temporary one) and a note says so. `keep_all` keeps every value instead
    of computing cheap ones again when somebody looks.

    A run that fails, deadlocks or is interrupted gives a recording up to that point: see `Recording.status` and
    `.error`. Raises LabError for values that do not fit and TypeError for a program that cannot be recorded.
    """
    options = {"budget": budget, "keep_all": keep_all, "check_shapes": check_shapes, "spill": spill}
    return Run(program, dict(values or {}), seed, policy, options, control or Control()).record()


def rerun(
    recording: Recording, change: Change | None = None, *, seed: int | None = None, policy: Any = None
) -> Recording:
    """Runs a recording's program again from its inputs, with one change: the steps before it are the same.

    Works from an opened archive, too, where torch is installed: the archive holds script and inputs. Raises LabError
    for a recording that was not made from a torch script.
    """
    origin, facts = recording.origin, recording.facts
    if facts.engine:
        raise other_engine(facts.engine)
    values = {name: live_value(recording.index.content(v, 0)) for name, v in facts.inputs.items()}
    if origin is not None:
        program, order, options = origin.program, origin.policy, dict(origin.options)
    else:
        program = ScriptText(recording.trace.script, facts.entry, tuple(facts.outputs))
        order, options = facts.policy, {"budget": DEFAULT_BUDGET}
    order = order if policy is None else policy
    return Run(program, values, facts.seed if seed is None else seed, order, options, Control(), change).record()


class Run:
    """One recording in the making."""

    def __init__(
        self,
        program: Any,
        values: dict[str, Any],
        seed: int,
        policy: Any,
        options: dict[str, Any],
        control: Control,
        change: Change | None = None,
    ) -> None:
        self.program, self.seed, self.policy, self.options = program, seed, policy, options
        self.control = control
        self.prepared = self.prepare(values)
        self.trace = Trace(
            script=self.prepared.script,
            sources=dict(self.prepared.sources),
            statements=list(self.prepared.statements),
            functions=list(self.prepared.functions),
        )
        self.builder = Builder(self.trace)
        self.probes = Probes(self.trace, self.builder, control, change, self._make_room, options["budget"])
        control.board = self.probes.board
        self.change = change
        self.notes: list[str] = []
        self.spool: Spool | None = None

    def prepare(self, values: dict[str, Any]) -> Prepared:
        """What is run, with values bound to its parameters."""
        return prepare(
            self.program,
            values,
            keep_all=bool(self.options.get("keep_all")),
            check_shapes=bool(self.options.get("check_shapes")),
        )

    def status_of(self, problem: Exception) -> str:
        """How a run ended that raised an exception. Raises it where it says that nothing could be run."""
        return "deadlock" if "deadlock" in str(problem) else "failed"

    def frame_of(self, problem: Exception) -> int:
        """The frame in which it was raised, -1 where that is not known."""
        return self.probes.frame_of(problem)

    def facts(self, status: str, error: str) -> Facts:
        """Engine, seed, order and notes of the run; values are filled in by the caller."""
        policy = self.policy if isinstance(self.policy, str) else "lane-first"
        return Facts(self.prepared.entry, self.seed, status, error, policy=policy, notes=tuple(self.notes))

    def record(self) -> Recording:
        order = copy.deepcopy(self.policy)  # a policy may have state; the next run starts from the same
        if self.change is not None and self.change.policy is not None:
            order = SwitchedPolicy(order, self.seed, self.change, self.probes)
        call = self.prepared.start(self.probes, order, self.seed)
        status, error, returned, failed_in = "finished", "", None, -1
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.seed)
                returned = call()
        except (Interrupted, KeyboardInterrupt):
            status, error = "interrupted", "interrupted by the user"
        except Exception as problem:
            status = self.status_of(problem)
            error = self.prepared.explain(problem) or _error_text(problem)
            failed_in = self.frame_of(problem)
        finally:
            self.probes.end()
            self.probes.board.finish()
        self.control.finished(self.probes.progress())
        return self._recording(status, error, returned, failed_in)

    def _recording(self, status: str, error: str, returned: Any, failed_in: int) -> Recording:
        self.probes.ingest()
        if status != "finished":
            self.builder.fail(failed_in)
        inputs = {name: self.builder.value(x) for name, x in self.prepared.arguments.items()}
        value = self.builder.value(returned)
        self.builder.finish()
        self.trace.recompute = Recomputer(self.trace, self.prepared.expressions, self.prepared.scopes).content
        facts = replace(
            self.facts(status, error),
            inputs=inputs,
            outputs={shown: inputs[name] for shown, name in self.prepared.outputs.items()},
            returned=value,
        )
        origin = Origin(self.program, self.policy, self.options)
        return Recording(self.trace, facts, origin=origin, memory=(self.probes.arena, self.spool))

    def _make_room(self) -> int:
        """Moves values to disk; returns the bytes moved."""
        self.probes.ingest()
        if self.spool is None:
            handle, path = tempfile.mkstemp(suffix=".ptolab-spill", dir=self.options.get("spill"))
            os.close(handle)
            self.spool = Spool(path)
            text = (
                f"memory budget of {self.options['budget'] / 2**20:g} MiB passed after step {len(self.trace)}: older"
                f" values are kept in {path}"
            )
            self.notes.append(text)
            self.control.say(text)
        return self.builder.release(self.spool)


def _error_text(problem: BaseException) -> str:
    """The message, and the innermost script line of the traceback."""
    while problem.__cause__ is not None:
        problem = problem.__cause__
    places = [f for f in traceback.extract_tb(problem.__traceback__) if f.filename.startswith("<")]
    where = f" (script line {places[-1].lineno})" if places else ""
    return f"{type(problem).__name__}: {problem}{where}"


__all__ = ["Change", "Prepared", "ScriptText", "record", "rerun"]
