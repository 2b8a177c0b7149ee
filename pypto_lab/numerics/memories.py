"""Runs a program by names and by addresses: where the results differ, the compiler reused memory wrongly or lost a
carried value, and the statement that read the wrong bytes is named with both tiles."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from pypto_lab.ir import nodes as n
from pypto_lab.ir.visitor import walk
from pypto_lab.numerics.differences import Finder, FirstRead, Step, origin_of
from pypto_lab.torch_codegen.execute import prepare
from pypto_lab.torch_codegen.expressions import TORCH_DTYPES
from pypto_lab.torch_codegen.generate import generate
from pypto_lab.torch_codegen.liveness import yielded
from pypto_lab.torch_codegen.lockstep import Side
from pypto_lab.torch_codegen.memories import Memories, Place, is_addressed


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """What a comparison found: for each output that is not the same by names and by addresses, why.

    `has_addresses` says whether the program places tiles at all (dumps from InitMemRef on do).
    """

    reads: tuple[FirstRead, ...]
    has_addresses: bool

    @property
    def ok(self) -> bool:
        return not self.reads

    def __str__(self) -> str:
        if not self.has_addresses:
            return "no tile has an address: nothing to compare"
        if self.ok:
            return "the same by names and by addresses"
        return "\n".join(f"{read.output} differs by addresses: {read}" for read in self.reads)

    def to_json(self) -> dict[str, object]:
        return {
            "ok": self.ok,
            "has_addresses": self.has_addresses,
            "findings": [{"output": read.output, "message": str(read)} for read in self.reads],
        }


def compare_memories(
    program: n.Program | n.Function, values: Mapping[str, Any], *, arch: str = "a2a3", seed: int = 0
) -> MemoryReport:
    """Runs a program in both memories, side by side. Raises LabError like `run`, E509 for an unknown `arch`."""
    by_names = generate(program)
    by_addresses = generate(program, memory="addresses", arch=arch)
    if by_names.text == by_addresses.text:
        return MemoryReport((), False)
    sides = [Side(prepare(program, values, script=script)) for script in (by_names, by_addresses)]
    functions = program.functions if isinstance(program, n.Program) else {program.name: program}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = _MemoryFinder(functions, sides[0]).find(sides[0], sides[1], seed)
    return MemoryReport(found, True)


@dataclass(frozen=True, slots=True)
class _Write:
    """A tile that was written to its bytes."""

    var: n.Var
    stmt: n.Stmt
    place: Place


class _MemoryFinder(Finder):
    """Explains a wrong read by the bytes: a carried value that was not moved, or a tile written over another."""

    def __init__(self, functions: Mapping[str, n.Function], side: Side) -> None:
        super().__init__(side.prepared)
        addressed = is_addressed(functions)
        self.memories = {f.name: Memories(f, TORCH_DTYPES, addressed=addressed) for f in functions.values()}
        self.sources = {f.name: _sources(f) for f in functions.values()}
        self.writes: dict[int, list[_Write]] = {}

    def about_to_follow(self, step: Step) -> None:
        if isinstance(step.stmt, n.Assign):
            place = self._place(step, step.stmt.var)
            if place is not None:
                self.writes.setdefault(step.moment.frame, []).append(_Write(step.stmt.var, step.stmt, place))

    def _place(self, step: Step, var: n.Var) -> Place | None:
        return self.memories[step.moment.line.function].place(var.type)

    def why(self, step: Step, var: n.Var, value: torch.Tensor, differs: torch.Tensor) -> tuple[str, str]:
        sources = self.sources[step.moment.line.function]
        carried = sources.get(var, _Sources())
        place = self._place(step, carried.memory or var)
        writes = self.writes.get(step.moment.frame, ())
        if place is None:
            return super().why(step, var, value, differs)
        for source in carried.yielded:
            other = self._place(step, source)
            if other is not None and other != place:
                made = next((w.stmt for w in reversed(writes) if w.var is source), None)
                return (
                    f"which lies in {place}; a yield moves nothing, so the value of `{source.name}` in {other} is lost",
                    origin_of(made),
                )
        return self._overwritten(step, var, place, carried, writes) or super().why(step, var, value, differs)

    def _overwritten(
        self, step: Step, var: n.Var, place: Place, carried: _Sources, writes: list[_Write] | tuple[()]
    ) -> tuple[str, str] | None:
        """The write over the tile that came last, if there is one since the tile was made."""
        own = {var, *carried.yielded, *carried.inits}
        for write in reversed(writes):
            if write.stmt is step.stmt:
                continue
            if write.var in own:
                return None
            if write.place.overlaps(place):
                return (
                    f"which lies in {place} and was overwritten by `{write.var.name}` in {write.place}",
                    origin_of(write.stmt),
                )
        return None


@dataclass(frozen=True, slots=True)
class _Sources:
    """Where a variable that no statement assigns gets its value: initial and yielded variables; `memory` is the
    variable whose bytes it stands for."""

    inits: tuple[n.Var, ...] = ()
    yielded: tuple[n.Var, ...] = ()
    memory: n.Var | None = None


def _sources(function: n.Function) -> dict[n.Var, _Sources]:
    """The carried variables and results of loops and branches."""
    found: dict[n.Var, _Sources] = {}
    for node in walk(function):
        if isinstance(node, (n.For, n.While)):
            values = yielded(node.body)
            for index, arg in enumerate(node.iter_args):
                inits = _variables([arg.init_value])
                given = _variables(values[index : index + 1])
                found[arg] = _Sources(inits, given, arg)
                if index < len(node.return_vars):
                    found[node.return_vars[index]] = _Sources(inits, given, arg)
        elif isinstance(node, n.If):
            for index, var in enumerate(node.return_vars):
                branches = [yielded(body)[index : index + 1] for body in (node.then_body, node.else_body)]
                found[var] = _Sources((), _variables([v for branch in branches for v in branch]), var)
    return found


def _variables(exprs: Any) -> tuple[n.Var, ...]:
    return tuple(e for e in exprs if isinstance(e, n.Var))
