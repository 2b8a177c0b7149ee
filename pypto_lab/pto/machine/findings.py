"""What a run has to say: findings with op, tiles, addresses and places, and the result that lists what was executed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pypto_lab.ir.diagnostics import Diagnostic, LabError, Severity
from pypto_lab.ir.span import Span

EXECUTED = "executed: .pto interpreted by pypto_lab (not ptoas, not device)"
"""The label of every run of this machine."""

UNDEFINED_READ = "E620"
UNDEFINED_OUTPUT = "E621"
OUT_OF_BOUNDS = "E622"
CLAMPED_OFFSET = "E623"
BAD_ADDRESS = "E624"
BAD_EXTENT = "E625"
RACE = "E626"
DEADLOCK = "E627"
PIPE_MISUSE = "E628"
NOT_MODELLED = "E629"
BAD_ARGUMENT = "E630"
ENDLESS = "E631"
RING_OVERLAP = "E632"
DEAD_STORE = "W620"
OVERWRITTEN = "W621"
WIDE_OFFSET = "W622"
MIXED_LAYOUT = "W623"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of a run. `tiles` names each tile involved with its space and bytes; `source` is the kernel line of
    the op's `loc`; `times` how often it was seen."""

    code: str
    severity: Severity
    message: str
    op: str
    tiles: tuple[str, ...] = ()
    span: Span | None = None
    source: str | None = None
    lane: str = ""
    block: int = 0
    times: int = 1

    def diagnostic(self) -> Diagnostic:
        notes = [f"from {self.source}"] if self.source else []
        notes += [f"lane {self.lane}"] if self.lane else []
        notes += [f"tiles: {'; '.join(self.tiles)}"] if self.tiles else []
        return Diagnostic(
            self.code, f"{self.op}: {self.message}", self.span, self.severity, note=", ".join(notes) or None
        )

    def to_json(self) -> dict[str, object]:
        return {
            **self.diagnostic().to_json(),
            "op": self.op,
            "tiles": list(self.tiles),
            "source": self.source,
            "lane": self.lane,
            "block": self.block,
            "times": self.times,
        }

    def __str__(self) -> str:
        return self.diagnostic().render()


class ExecutionError(LabError):
    """A run that could not go on. `findings` are those made before it stopped, the fatal one last."""

    def __init__(self, findings: tuple[Finding, ...], sources: Mapping[str, str]) -> None:
        self.findings = findings
        super().__init__([f.diagnostic() for f in findings[-1:]], sources)


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """A run that came to its end. `label` says what was executed and by what; `unmodelled` lists what was passed over
    (synchronisation, for one); `written` lists artifacts that exist but were not executed."""

    unit: str
    function: str
    arch: str
    blocks: int
    lanes: tuple[str, ...]
    steps: int
    findings: tuple[Finding, ...] = ()
    unmodelled: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    label: str = EXECUTED
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """No finding is an error. Whether numbers are right is for a comparison to say."""
        return not any(f.severity is Severity.ERROR for f in self.findings)

    def to_json(self) -> dict[str, object]:
        return {
            "label": self.label,
            "unit": self.unit,
            "function": self.function,
            "arch": self.arch,
            "blocks": self.blocks,
            "lanes": list(self.lanes),
            "steps": self.steps,
            "findings": [f.to_json() for f in self.findings],
            "unmodelled": list(self.unmodelled),
            "written": list(self.written),
        }

    def __str__(self) -> str:
        lines = [f"{self.function} ({self.unit}, {self.arch}): {self.label}"]
        lines += [f"not modelled: {what}" for what in self.unmodelled]
        lines += [f"only written: {what}" for what in self.written]
        lines += [f.diagnostic().render(self.sources) for f in self.findings]
        return "\n".join(lines)


@dataclass(slots=True)
class FindingLog:
    """Collects findings; the same one at the same op is counted, not repeated."""

    found: dict[tuple[object, ...], Finding] = field(default_factory=dict)
    counts: dict[tuple[object, ...], int] = field(default_factory=dict)

    def add(self, finding: Finding, key: tuple[object, ...]) -> None:
        self.found.setdefault(key, finding)
        self.counts[key] = self.counts.get(key, 0) + 1

    def all(self) -> tuple[Finding, ...]:
        """The findings in the order they were first seen."""
        return tuple(_times(finding, self.counts[key]) for key, finding in self.found.items())


def _times(finding: Finding, times: int) -> Finding:
    return replace(finding, times=times)
