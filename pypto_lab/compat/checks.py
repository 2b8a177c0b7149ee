"""`check`: what can be said of a kernel file, a dump, a `.pto` text or a build folder without running it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pypto_lab.compat.programs import load_file
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.verifier import verify


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. `rule` is its code (`pypto-lab explain CODE`); lines and columns count from 1, 0 where unknown."""

    rule: str
    severity: str
    file: str
    line: int
    column: int
    message: str
    hint: str
    text: str

    def to_json(self) -> dict[str, object]:
        return {
            "rule": self.rule,
            "severity": self.severity,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "message": self.message,
            "hint": self.hint,
        }

    def __str__(self) -> str:
        return self.text


def check(path: Path | str) -> list[Finding]:
    """Every finding of a path: a file with a kernel or a dump is read and verified, a `.pto` text too; of a folder,
    each file by itself and the files against each other (see `pto.inspection.check_build`).

    Raises LabError E503 where there is nothing to look into.
    """
    path = Path(path)
    if path.is_dir():
        from pypto_lab.pto.inspection import check_build

        return _findings(check_build(path), path)
    try:
        if path.suffix == ".pto":
            return _findings(_text_findings(path), path)
        program = load_file(path)
    except LabError as error:
        if any(d.code in ("E503", "E508") for d in error.diagnostics):
            raise
        return _findings(error.diagnostics, path, error.sources)
    notes = [note for note in program.notes if isinstance(note, Diagnostic)]
    return _findings([*notes, *verify(program)], path, program.sources)


def _text_findings(path: Path) -> list[Diagnostic]:
    from pypto_lab.pto.dialect.verify import verify as verify_unit
    from pypto_lab.pto.parse import read

    return list(verify_unit(read(path)))


def _findings(diagnostics: Iterable[Diagnostic], path: Path, sources: Mapping[str, str] | None = None) -> list[Finding]:
    return [_finding(diagnostic, path, sources) for diagnostic in diagnostics]


def _finding(diagnostic: Diagnostic, path: Path, sources: Mapping[str, str] | None) -> Finding:
    span = diagnostic.span
    return Finding(
        diagnostic.code,
        diagnostic.severity.value,
        span.file if span else str(path),
        span.line if span else 0,
        span.column if span else 0,
        diagnostic.message,
        diagnostic.hint or "",
        diagnostic.render(sources),
    )
