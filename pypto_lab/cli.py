"""The command `pypto-lab`. Exit status 0: fine, 1: a mismatch or finding, 2: bad input, 130: interrupted.

Everything heavy is imported inside the command that needs it, so that `--help` answers at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from pypto_lab.ir.diagnostics import LabError
    from pypto_lab.numerics.case import Case
    from pypto_lab.numerics.diff import DiffReport, StageDiff
    from pypto_lab.numerics.validate import Stage, Sweep
    from pypto_lab.pto.build import Build

FINE, FINDING, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

app = typer.Typer(
    name="pypto-lab",
    help="Run, check and look into PyPTO tile kernels on this machine, without an NPU and without a compiler.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on standard output.")]
FileArgument = Annotated[Path, typer.Argument(help="A Python file with a kernel.", metavar="FILE")]
KernelOption = Annotated[
    str | None, typer.Option("--kernel", "-k", help="The kernel to take; ENTRY or the last one by default.")
]
MemoryOption = Annotated[
    str, typer.Option("--memory", help="names: a tensor a value; addresses: tiles where the compiler put them.")
]
ArchOption = Annotated[str, typer.Option("--arch", help="a2a3 or a5.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of the inputs.")]
EngineOption = Annotated[
    str | None,
    typer.Option("--engine", help="embedded: the lab's own passes; pypto: the compiler installed in this Python."),
]


def main() -> None:
    """Entry point of the console script: runs a command and ends with its exit status."""
    sys.exit(invoke(sys.argv[1:]))


def invoke(arguments: list[str]) -> int:
    """Runs one command and returns its exit status; users' mistakes are printed as diagnostics, never as tracebacks."""
    from pypto_lab.ir.diagnostics import LabError

    try:
        result = app(arguments, standalone_mode=False)
    except LabError as error:
        return _report(error, as_json="--json" in arguments)
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except Exception as error:
        return _other_error(error)
    if result == INTERRUPTED:  # typer turns Ctrl-C into this status
        return _interrupted()
    return result if isinstance(result, int) else FINE


def _interrupted() -> int:
    print("pypto-lab: interrupted", file=sys.stderr)
    return INTERRUPTED


def _other_error(error: Exception) -> int:
    """Usage errors of the command line, typer's own way of ending, and faults of the lab."""
    show = getattr(error, "show", None)
    if callable(show):
        show()
        return BAD_INPUT
    code = getattr(error, "exit_code", None)
    if isinstance(code, int):
        return code
    if type(error).__name__ == "Abort":
        return _interrupted()
    if os.environ.get("PYPTO_LAB_DEBUG"):
        raise error
    print(
        f"pypto-lab: internal error: {type(error).__name__}: {error}\n"
        "This is a fault of the lab, not of the file. PYPTO_LAB_DEBUG=1 shows where it happened.",
        file=sys.stderr,
    )
    return BAD_INPUT


def _report(error: LabError, as_json: bool) -> int:
    """Prints diagnostics; status 1 for a check of the user's file that failed, 2 for everything else."""
    if as_json:
        print(json.dumps({"ok": False, "diagnostics": [d.to_json() for d in error.diagnostics]}))
    print(error, file=sys.stderr)
    return FINDING if any(d.code == "E507" for d in error.diagnostics) else BAD_INPUT


def _version(value: bool) -> None:
    if value:
        from pypto_lab import __version__

        print(f"pypto-lab {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run, check and look into PyPTO tile kernels on this machine, without an NPU and without a compiler."""


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
def run(context: typer.Context, file: FileArgument) -> int:
    """Run a user's file as it stands, with arguments of its own after it."""
    if str(file) in ("-h", "--help"):
        print(context.get_help() + "\n\n  FILE is run as __main__; what follows it are its own arguments.")
        return FINE
    from pypto_lab.compat.loader import run_main

    return run_main(file, context.args)


@app.command()
def diff(
    file: FileArgument,
    kernel: KernelOption = None,
    stage: Annotated[
        str | None, typer.Option("--stage", help="frontend (default), lowered, pto or all; pto where --out is given.")
    ] = None,
    arch: ArchOption = "a2a3",
    seed: SeedOption = 0,
    poison: Annotated[
        bool, typer.Option("--poison", help="Run again with marked undefined cells; name the first read of one.")
    ] = False,
    memory: MemoryOption = "names",
    out: Annotated[
        Path | None, typer.Option("--out", help="Keep the build of the stage pto here.", metavar="DIR")
    ] = None,
    engine: EngineOption = None,
    as_json: JsonOption = False,
) -> int:
    """Compare a kernel's outputs with the golden in its file."""
    from pypto_lab.compat.cases import case
    from pypto_lab.numerics.diff import chosen_stage
    from pypto_lab.numerics.diff import diff as compute

    with _only_json(as_json), _progress() as progress:
        wanted = chosen_stage(stage, out, engine)
        report = compute(
            case(file, kernel), wanted, arch, seed, poison, memory,
            out=out, engine=engine or "embedded", progress=progress,
        )  # fmt: skip
    if as_json:
        print(json.dumps(report.to_json(), allow_nan=False))
    else:
        _show_diff(report)
    return FINE if report.ok else FINDING


@app.command(name="compile")
def compile_(
    file: Annotated[Path, typer.Argument(help="A Python file with a kernel, or 00_frontend.py.", metavar="FILE")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the build.", metavar="DIR")],
    kernel: KernelOption = None,
    arch: ArchOption = "a2a3",
    engine: EngineOption = "embedded",
    seed: SeedOption = 0,
    runtime: Annotated[
        str, typer.Option("--runtime", help="tensormap_and_ringbuffer or host_build_graph.")
    ] = "tensormap_and_ringbuffer",
    dump_ptoas_passes: Annotated[
        bool, typer.Option("--dump-ptoas-passes", help="Keep what each pass of ptoas writes.")
    ] = False,
    run: Annotated[
        bool | None,
        typer.Option("--run/--no-run", help="Execute the .pto files and compare; done where the file has inputs."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Compile a kernel to a folder of artifacts, and execute its .pto files on the file's inputs."""
    from pypto_lab.compat.compiling import compile_program
    from pypto_lab.numerics.diff import diff_build

    with _only_json(as_json), _progress() as progress:
        found = _case_or_none(file, kernel, needed=run is True)
        build = compile_program(
            file if found is None else found, out, arch, engine or "embedded", kernel=kernel, seed=seed,
            runtime=runtime, dump_ptoas_passes=dump_ptoas_passes, progress=progress,
        )  # fmt: skip
        report = None
        if found is not None and run is not False:
            report = diff_build(found, build, seed, progress=progress)
    _show_build(build, report, as_json)
    return FINE if report is None or report.ok else FINDING


def _case_or_none(file: Path, kernel: str | None, needed: bool) -> Case | None:
    """The case in a file; None for a file without inputs and golden, and for a dump. Raises LabError E508 if needed."""
    from pypto_lab.compat.cases import case
    from pypto_lab.compat.programs import is_dump
    from pypto_lab.ir.diagnostics import LabError

    if not needed and file.is_file() and is_dump(file):
        return None
    try:
        return case(file, kernel)
    except LabError as error:
        if needed or error.diagnostics[0].code != "E508":
            raise
        return None


def _show_build(build: Build, report: DiffReport | None, as_json: bool) -> None:
    shown = build if report is None or report.build is None else report.build
    if as_json:
        ran = None if report is None else report.last.to_json()
        print(json.dumps(shown.to_json() | {"ok": report is None or report.ok, "run": ran}, allow_nan=False))
        return
    if report is None:
        print(shown)
        print("not run: see --run, and `pypto-lab diff --stage pto`")
    else:
        print(replace(shown, remarks=()))  # they are among the report's warnings
        _show_diff(report, with_files=False)


@app.command()
def script(
    file: Annotated[Path, typer.Argument(help="A Python file with a kernel, or a dump.", metavar="FILE|DUMP")],
    check_shapes: Annotated[bool, typer.Option("--check-shapes", help="Check every value's shape and dtype.")] = False,
    kernel: KernelOption = None,
    stage: Annotated[
        str, typer.Option("--stage", help="frontend: as read; lowered: as the lab's passes leave it.")
    ] = "frontend",
    memory: MemoryOption = "names",
    arch: ArchOption = "a2a3",
) -> int:
    """Print the torch script of a kernel or of a dump of the compiler."""
    from pypto_lab.compat.programs import load
    from pypto_lab.numerics.compiling import check_choice
    from pypto_lab.numerics.diff import at_stage
    from pypto_lab.torch_codegen.generate import generate

    check_choice("stage with a torch script", stage, ("frontend", "lowered"))
    program = at_stage(load(file, kernel), stage, arch)
    print(generate(program, check_shapes=check_shapes, memory=memory, arch=arch).text)
    return FINE


@app.command()
def validate(
    directory: Annotated[Path, typer.Argument(help="A folder of dumps (passes_dump).", metavar="DIR")],
    case_file: Annotated[Path, typer.Option("--case", help="The file with the inputs and the golden.", metavar="FILE")],
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes; decided by the first stage.")
    ] = None,
    kernel: KernelOption = None,
    seed: SeedOption = 0,
    memory: MemoryOption = "names",
    arch: ArchOption = "a2a3",
    as_json: JsonOption = False,
) -> int:
    """Check every dump of a folder against the golden and the stage before it."""
    from pypto_lab.compat.cases import case
    from pypto_lab.numerics.validate import validate as sweep_of

    with _only_json(as_json):
        sweep = sweep_of(directory, case(case_file, kernel), seed=seed, workers=workers, memory=memory, arch=arch)
    if as_json:
        print(json.dumps(sweep.to_json(), allow_nan=False))
    else:
        _show_sweep(sweep)
    return FINE if sweep.ok else FINDING


@app.command()
def graph(
    file: Annotated[Path, typer.Argument(help="A Python file with a kernel, or a dump.", metavar="FILE|DUMP")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Where to write: .svg, .html or .dot.", metavar="G.svg")
    ],
    kernel: KernelOption = None,
) -> int:
    """Draw the IR graph of a kernel or of a dump."""
    from pypto_lab.compat.programs import load
    from pypto_lab.ir.diagnostics import Diagnostic, LabError
    from pypto_lab.view.graph import graph as draw

    writers = (".svg", ".html", ".dot")
    if output.suffix not in writers:
        raise LabError(
            [Diagnostic("E509", f"no format `{output.suffix}`", hint=f"end the name in {', '.join(writers)}")]
        )
    drawn = draw(load(file, kernel))
    text = {".svg": drawn.svg, ".html": drawn.html, ".dot": drawn.dot}[output.suffix]()
    _written(output, lambda place: place.write_text(text, encoding="utf-8"))
    print(f"wrote {output}")
    return FINE


@app.command()
def record(
    file: FileArgument,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write it.", metavar="X.ptolab")],
    kernel: KernelOption = None,
    dump: Annotated[
        Path | None, typer.Option("--dump", help="Record this dump of the compiler on the file's inputs.")
    ] = None,
    build: Annotated[
        Path | None, typer.Option("--build", help="Record the .pto texts of this build folder on the file's inputs.")
    ] = None,
    policy: Annotated[
        str, typer.Option("--policy", help="Order of the lanes: lane-first, round-robin or random.")
    ] = "lane-first",
    seed: SeedOption = 0,
) -> int:
    """Run a kernel under the recorder and save every statement's values; exit 1 when the run fails."""
    from pypto_lab.compat.cases import case
    from pypto_lab.compat.programs import load
    from pypto_lab.record.pto_steps import record_build
    from pypto_lab.record.recorder import record as run_recorded

    chosen = case(file, kernel)
    values = chosen.make_inputs(seed)
    if build is not None:
        recording = record_build(build, values, dump=dump, seed=seed, policy=policy)
    else:
        program = chosen.program(values) if dump is None else load(dump)
        recording = run_recorded(program, values, seed=seed, policy=policy)
    _written(output, recording.save)
    print(recording.report())
    print(f"wrote {output}")
    return FINE if recording.status == "finished" else FINDING


@app.command(name="open")
def open_(
    file: Annotated[Path, typer.Argument(help="A recording made by `record`.", metavar="X.ptolab")],
    step: Annotated[int | None, typer.Option("--step", min=0, help="Show the state right after this step.")] = None,
) -> int:
    """Print the report of a recording; needs neither torch nor the kernel's file."""
    from pypto_lab.ir.diagnostics import Diagnostic, LabError
    from pypto_lab.record.archive import open_archive
    from pypto_lab.record.session import Session

    recording = open_archive(file)
    if step is None:
        print(recording.report())
        return FINE
    session = Session(recording)
    if step > len(session):
        raise LabError([Diagnostic("E503", f"{file} has {len(session)} steps, not {step}")])
    session.goto(step)
    print(session.report())
    return FINE


def _written(output: Path, write: Callable[[Path], object]) -> None:
    """Writes a result file. Raises LabError when the place cannot be written."""
    from pypto_lab.ir.diagnostics import Diagnostic, LabError

    try:
        write(output)
    except OSError as error:
        raise LabError([Diagnostic("E503", f"{output} cannot be written: {error.strerror}")]) from error


@app.command()
def explain(code: Annotated[str, typer.Argument(help="A code such as E302.", metavar="CODE")]) -> int:
    """Explain a diagnostic code, with an example."""
    from pypto_lab.compat.codes import all_codes
    from pypto_lab.compat.codes import explain as text_of
    from pypto_lab.ir.diagnostics import Diagnostic, LabError, did_you_mean

    text = text_of(code)
    if text is None:
        codes = all_codes()
        hint = did_you_mean(code.upper(), codes) or f"codes run from {codes[0]} to {codes[-1]}"
        raise LabError([Diagnostic("E509", f"no code `{code}`", hint=hint)])
    print(text)
    return FINE


@app.command()
def check(
    paths: Annotated[list[Path], typer.Argument(help="Kernel files, dumps, or folders of a build.", metavar="PATH...")],
    form: Annotated[str, typer.Option("--format", help="text or json.")] = "text",
    as_json: JsonOption = False,
) -> int:
    """Look into kernels, dumps and build folders without running them; exit 1 when something is found."""
    from pypto_lab.compat.checks import check as look
    from pypto_lab.numerics.compiling import check_choice

    check_choice("format", form, ("text", "json"))
    findings = [finding for path in paths for finding in look(path)]
    if as_json or form == "json":
        print(json.dumps({"findings": [f.to_json() for f in findings]}))
    else:
        for finding in findings:
            print(finding)
        print(f"{len(findings)} finding{'' if len(findings) == 1 else 's'}")
    return FINDING if any(f.severity == "error" for f in findings) else FINE


@app.command()
def doctor(as_json: JsonOption = False) -> int:
    """Say what is installed, what is missing, and what each missing part would add."""
    from pypto_lab.compat.installed import examine

    parts = examine()
    if as_json:
        print(json.dumps({"ok": all(p.fine for p in parts), "parts": [p.to_json() for p in parts]}))
    else:
        table = _table("part", "state", "what it is for")
        for part in parts:
            style = "green" if part.found else "red" if part.required else "yellow"
            table.add_row(part.name, f"[{style}]{part.state}[/{style}]", part.purpose)
        _console().print(table)
    return FINE if all(p.fine for p in parts) else FINDING


@app.command()
def lab(
    directory: Annotated[Path, typer.Argument(help="The folder to open.", metavar="DIR")] = Path(),
) -> int:
    """Open JupyterLab in a folder."""
    import importlib.util
    import subprocess

    from pypto_lab.ir.diagnostics import Diagnostic, LabError

    if importlib.util.find_spec("jupyterlab") is None:
        raise LabError([Diagnostic("E504", "JupyterLab is not installed", hint="pip install 'pypto-lab[lab]'")])
    if not directory.is_dir():
        raise LabError([Diagnostic("E503", f"{directory} is not a folder")])
    return subprocess.call([sys.executable, "-m", "jupyterlab", str(directory)])


def _show_diff(report: DiffReport, *, with_files: bool = True) -> None:
    from rich.text import Text

    for warning in report.warnings:
        print(warning, file=sys.stderr)
    stages = report.stages or (report.last,)
    table = _table("stage", "output", "", "max abs", "max rel", "rel-L2", "cosine")
    for stage in stages:
        for row in _diff_rows(stage):
            table.add_row(*row)
    console = _console()
    console.print(Text.assemble((report.case, "bold"), f", {report.arch}, seed {report.seed}"))
    console.print(table)
    for stage in stages:
        for line in _diff_remarks(stage, with_files):
            console.print(line, markup=False)


def _diff_rows(stage: StageDiff) -> list[tuple[str, ...]]:
    if stage.refused:
        return [(stage.stage, "", "[red]REFUSED[/red]", "", "", "", "")]
    rows: list[tuple[str, ...]] = []
    for output in stage.outputs:
        c = output.comparison
        verdict = "[green]right[/green]" if output.ok else "[red]WRONG[/red]"
        numbers = (f"{c.max_abs:.3g}", f"{c.max_rel:.3g}", f"{c.metrics.rel_l2:.3g}", f"{c.metrics.cosine:.6f}")
        rows.append((stage.stage, output.name, verdict, *numbers))
    return rows


def _diff_remarks(stage: StageDiff, with_files: bool) -> list[str]:
    """What there is to say about a stage besides its numbers."""
    if stage.refused:
        return [f"{stage.stage} is refused:", *stage.refused.splitlines()]
    lines = [f"{stage.stage}: {o.name}: {o.comparison}" for o in stage.outputs if not o.ok]
    lines += [f"{stage.stage}: {leak.name}: {leak.message}" for leak in stage.leaks or ()]
    if stage.leaks == ():
        lines.append(f"{stage.stage}: poison: no undefined cell reaches an output")
    lines += [str(finding) for finding in stage.findings]
    return [*lines, *(stage.executed if with_files and stage.stage == "pto" else ())]


def _show_sweep(sweep: Sweep) -> None:
    table = _table("stage", "status", "max abs", "message")
    for stage in sweep.stages:
        table.add_row(*_stage_row(stage))
    console = _console()
    console.print(table)
    bad = sweep.first_bad
    count = sum(s.status in ("ok", "skipped") for s in sweep.stages)
    console.print(f"{sweep.case}: {count} of {len(sweep.stages)} stages right")
    if bad is not None:
        console.print(f"first stage that is not: {bad.file}: {bad.message}", markup=False)


def _stage_row(stage: Stage) -> tuple[str, str, str, str]:
    from rich.markup import escape

    style = {"ok": "green", "skipped": "dim", "mismatch": "red", "error": "red"}[stage.status]
    amount = "" if stage.max_abs is None else f"{stage.max_abs:.3g}"
    return escape(stage.file), f"[{style}]{stage.status}[/{style}]", amount, escape(stage.message)


def _table(*headings: str) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _console() -> Console:
    from rich.console import Console

    width = None if sys.stdout.isatty() else 160
    return Console(highlight=False, width=width)


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Shows what is being done on a terminal, on standard error, while the block runs."""
    if not sys.stderr.isatty():
        yield lambda words: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield lambda words: status.update(words)


def _only_json(active: bool) -> Any:
    """Sends what a user's file prints to standard error while a command that prints JSON works."""
    return contextlib.redirect_stdout(sys.stderr) if active else contextlib.nullcontext()


if __name__ == "__main__":
    main()
