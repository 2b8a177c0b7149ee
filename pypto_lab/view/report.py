"""The result of a run as something to look at: tabs Numbers, Script and Graph in a notebook or a page, text elsewhere.

Only what the run has gets a tab, and the header says what was executed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto_lab.ir.nodes import Program
from pypto_lab.numerics.compare import Comparison
from pypto_lab.numerics.diff import DiffReport, Leak
from pypto_lab.pto.build import Build
from pypto_lab.torch_codegen.lines import Script
from pypto_lab.view.graph import Graph, graph
from pypto_lab.view.heat import ErrorMap, figure
from pypto_lab.view.parts import (
    Chip,
    Code,
    Figure,
    Heading,
    Pair,
    Part,
    Pre,
    Report,
    Stack,
    Table,
    Tabs,
    Text,
    page_html,
    to_html,
    to_text,
)  # fmt: skip
from pypto_lab.view.words import dims
from pypto_lab.view.workbench import Workbench

if TYPE_CHECKING:
    from pypto_lab.pto.machine.findings import Finding

_prefixes = itertools.count()
_MANY_ULP = 1e6


@dataclass(frozen=True, slots=True)
class OutputFacts:
    """What can be said about an output without a reference. The range is of its finite cells, None without any."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    smallest: float | None
    largest: float | None
    mean: float | None
    nan: int = 0
    infinite: int = 0


@dataclass(frozen=True, eq=False)
class Result:
    """One kernel, run.

    `report` is the comparison with the golden, None when there was none; `facts` then describe the outputs. `maps` show
    where wrong outputs are off. `choices` say where inputs and golden came from. `outputs` are the tensors by name.
    `workbench` is there when the run was recorded to be stepped; a notebook then shows it. `build` are the artifacts
    of the stage `pto`, `executed` says what of them was run, `findings` what the machine that ran them saw.
    """

    name: str
    program: Program
    script: Script | None = None
    report: DiffReport | None = None
    outputs: Mapping[str, Any] = field(default_factory=dict)
    facts: tuple[OutputFacts, ...] = ()
    maps: tuple[ErrorMap, ...] = ()
    choices: tuple[str, ...] = ()
    stage: str = "frontend"
    arch: str = "a2a3"
    seed: int = 0
    workbench: Workbench | None = None
    build: Build | None = None
    executed: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool | None:
        """Whether the numbers are right; None when nothing says what they should be."""
        return None if self.report is None else self.report.ok

    @cached_property
    def graph(self) -> Graph:
        """The IR graph of the program that ran."""
        return graph(self.program)

    def part(self) -> Report:
        """The whole report as a tree of parts."""
        panels: list[tuple[str, Part]] = [("Numbers", self.numbers())]
        if self.script is not None:
            panels.append(("Script", self._script(self.script)))
        if self.graph.nodes:
            panels.append(("Graph", self._graph()))
        if self.build is not None:
            panels.append(("Artifacts", _artifacts(self.build)))
        return Report(self.name, self._subtitle(), self._chips(), Tabs(tuple(panels), f"Result of {self.name}"))

    def numbers(self) -> Part:
        """The outputs against the golden, or what they hold."""
        parts: list[Part] = []
        if self.report is not None:
            parts += [_stage_table(self.report)] if self.report.stages else []
            parts.append(_comparison_table(self.report))
            parts += [self._wrong(o.name, o.comparison) for o in self.report.outputs if not o.ok]
            if self.report.leaks is not None:
                parts.append(_poison(self.report.leaks))
        elif self.facts:
            parts.append(_facts_table(self.facts))
        parts += [Pre(str(finding)) for finding in self.findings]
        if self.build is not None:
            parts += [Text(line, "dim") for line in self.executed]
        parts += [Text(choice, "dim") for choice in self.choices]
        if self.report is not None:
            parts += [Pre(warning) for warning in self.report.warnings]
        return Stack(tuple(parts))

    def _wrong(self, name: str, found: Comparison) -> Part:
        maps = [figure(m) for m in self.maps if m.output == name]
        return Stack((Heading(f"{name} is wrong"), Pre("\n".join(found.lines())), *maps))

    def html(self) -> str:
        """A page that needs nothing else and no network."""
        return page_html(f"{self.name} - PyPTO Lab", self.part())

    def save(self, path: str | Path) -> Path:
        """Writes :meth:`html` to a file and returns its path."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self.html(), encoding="utf-8")
        return target

    def __repr__(self) -> str:
        head = Report(self.name, self._subtitle(), self._chips(), self.numbers())
        more = []
        if self.script is not None:
            more.append(f"script: {len(self.script.text.splitlines())} lines (.script.text)")
        more.append(f"graph: {len(self.graph.nodes)} nodes (.graph)")
        if self.workbench is not None:
            more.append(f"recorded: {len(self.workbench.recording)} steps (.workbench)")
        return to_text(head) + "\n\n" + "; ".join(more)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        if self.workbench is not None:
            return self.workbench._repr_mimebundle_() | {"text/plain": repr(self)}
        return {"text/plain": repr(self), "text/html": to_html(self.part())}

    def _subtitle(self) -> str:
        if self.build is not None:
            return (
                f"{self.stage} stage, {self.executed[0].partition(': ptoas')[0] if self.executed else 'not executed'}"
            )
        how = "lowered by the lab's own passes and " if self.stage == "lowered" else ""
        return f"{self.stage} stage, {how}run as PyTorch, nothing compiled"

    def _chips(self) -> tuple[Chip, ...]:
        chips: list[Chip] = []
        if self.report is None:
            chips.append(Chip("ran, no golden"))
        elif self.report.refused:
            chips.append(Chip("refused", False))
        elif self.report.leaks and all(o.ok for o in self.report.outputs):
            chips.append(Chip("undefined cells leak", False))
        elif not self.report.ok and all(o.ok for o in self.report.outputs):
            chips.append(Chip("match, with findings", False))
        else:
            chips.append(Chip("match" if self.report.ok else "mismatch", self.report.ok))
        if self.report is not None:
            chips.append(Chip(f"max err {_number(self.report.max_abs)}"))
        return (*chips, Chip(self.arch), Chip(f"seed {self.seed}"))

    def _script(self, script: Script) -> Part:
        listing = Code(script.text, "torch script", _links(script), script.first_kernel_line)
        source = self._source(script)
        return listing if source is None else Pair(source, listing)

    def _source(self, script: Script) -> Code | None:
        """The kernel's own text, when the script's lines lead to exactly one file that the program carries."""
        files = {line.span.file for line in script.lines.values() if line.span is not None}
        known = [file for file in files if file in self.program.sources]
        if len(known) != 1:
            return None
        text = self.program.sources[known[0]]
        used = {ln.span.line for ln in script.lines.values() if ln.span is not None and ln.span.file == known[0]}
        links = {row: f"L{row}" for row in used}
        return Code(text, Path(known[0]).name, links, max(1, min(used) - 6))

    def _graph(self) -> Part:
        svg = self.graph.svg(standalone=False, prefix=f"pl{next(_prefixes)}-")
        return Figure(svg, f"IR graph of {self.name}", self.graph.text())


def _links(script: Script) -> dict[int, str]:
    return {number: f"L{line.span.line}" for number, line in script.lines.items() if line.span is not None}


def _comparison_table(report: DiffReport) -> Table:
    columns = ("output", "", "shape", "dtype", "max abs", "max rel", "max ULP", "rel L2", "rtol", "atol")
    rows = [_comparison_row(o.name, o.comparison) for o in report.outputs]
    return Table(columns, tuple(rows), frozenset(columns[4:]), "Outputs against the golden")


def _comparison_row(name: str, found: Comparison) -> tuple[Text, ...]:
    verdict = Text("match", "good") if found.ok else Text("mismatch", "wrong")
    metrics = found.metrics
    measured = found.problem is None
    return (
        Text(name),
        verdict,
        Text(dims(found.shape), "mono"),
        Text(found.dtype, "mono"),
        Text(_number(found.max_abs)),
        Text(_number(found.max_rel)),
        Text(_ulp(metrics.max_ulp)),
        Text(_number(metrics.rel_l2) if measured else ""),
        Text(f"{found.rtol:g}"),
        Text(f"{found.atol:g}"),
    )


def _stage_table(report: DiffReport) -> Table:
    """A line a stage: whether it ran, and how far its worst output is off."""
    rows = []
    for stage in report.stages:
        worst = max((o.comparison.max_abs for o in stage.outputs), default=None)
        verdict = "refused" if stage.refused else "match" if stage.ok else "mismatch"
        tone = "good" if stage.ok else "wrong"
        first = stage.message.splitlines()[0] if stage.message else ""
        rows.append((Text(stage.stage), Text(verdict, tone), Text(_number(worst)), Text(first)))
    return Table(("stage", "", "max abs", "message"), tuple(rows), frozenset({"max abs"}), "Stages against the golden")


def _artifacts(build: Build) -> Part:
    """The files of a build, and the texts of its kernels."""
    texts = [Code(build.text(file.name), file.name) for file in build.of_role("pto")]
    return Stack((Pre(str(build)), *texts))


def _ulp(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return ""
    return f"{value:.0f}" if value < _MANY_ULP else "many"


def _poison(leaks: Sequence[Leak]) -> Part:
    if not leaks:
        return Text("poison: no undefined cell reaches an output", "good")
    rows: Sequence[Part] = [Text(f"{leak.name}: {leak.message}", "wrong") for leak in leaks]
    return Stack((Heading("Undefined cells reach an output"), *rows))


def _facts_table(facts: Sequence[OutputFacts]) -> Table:
    columns = ("output", "shape", "dtype", "min", "max", "mean", "NaN", "infinite")
    rows = tuple(
        (
            Text(f.name), Text(dims(f.shape), "mono"), Text(f.dtype, "mono"), Text(_number(f.smallest)),
            Text(_number(f.largest)), Text(_number(f.mean)), Text(str(f.nan)), Text(str(f.infinite)),
        )
        for f in facts
    )  # fmt: skip
    return Table(columns, rows, frozenset(columns[3:]), "Outputs")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
