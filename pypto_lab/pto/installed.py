"""The engine `pypto`: the compiler installed in this Python, run in a process of its own, and its folder read."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.ir.printer import print_program
from pypto_lab.pto.build import MANIFEST, Build, BuildFile, foreign, manifest, scan
from pypto_lab.pto.build_codes import COMPILER_FAILED, NO_COMPILER
from pypto_lab.pto.config import RuntimeKind, runtime_kind
from pypto_lab.pto.embedded import Progress, silent
from pypto_lab.pto.folder import check_place, new_folder
from pypto_lab.pto.meta import BACKENDS
from pypto_lab.pto.ptoas import find_ptoas

_ABSENT, _OTHER_PRODUCT = 71, 72
"""Statuses by which the process says that there is no compiler, or another package of its name."""

_PROCESS = f"""\
import json, sys
request = json.loads(sys.stdin.read())
try:
    import pypto
except ImportError:
    sys.exit({_ABSENT})
try:
    import pypto.language as pl
    from pypto import ir
    from pypto.backend import BackendType
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit({_OTHER_PRODUCT})
program = pl.loads(request["program"])
backend = getattr(BackendType, request["backend"])
made = ir.compile(program, output_dir=request["out"], dump_passes=True, backend_type=backend, **request["options"])
print()
print(json.dumps({{"folder": str(getattr(made, "output_dir", made))}}))
"""

_INSTALL = (
    "build and install the compiler of hw-native-sys/pypto (PyPI's `pypto` is another product), "
    "or take `--engine embedded`, which needs nothing"
)


def build_installed(
    program: n.Program,
    out: Path | str,
    arch: str = "a2a3",
    *,
    runtime: str | RuntimeKind = RuntimeKind.TENSORMAP_AND_RINGBUFFER,
    dump_ptoas_passes: bool = False,
    progress: Progress = silent,
) -> Build:
    """Gives the program, as the front end reads it, to the installed compiler, and puts what it wrote at `out`.

    Where there is no usable `ptoas` the compiler is told to stop at `.pto`. Raises LabError: E692 without the compiler,
    E693 when it stops, E655 for an unknown runtime, E691 and E694 for a place that cannot be written or is taken.
    """
    kind, target = runtime_kind(runtime), Path(out).absolute()
    check_place(target, foreign)
    options: dict[str, Any] = {}
    if kind is not RuntimeKind.TENSORMAP_AND_RINGBUFFER:
        options["runtime"] = kind.value
    if not _has_ptoas():
        options["skip_ptoas"] = True
    elif dump_ptoas_passes:
        options["dump_ptoas_passes"] = True
    with tempfile.TemporaryDirectory(prefix="pypto_lab_compiler_") as scratch:
        source, made = Path(scratch) / "program.py", Path(scratch) / "build"
        source.write_text(print_program(program), encoding="utf-8")
        progress("the installed compiler is at work")
        request = {"program": str(source), "out": str(made), "backend": BACKENDS[arch], "options": options}
        written = _compiled(request, Path(scratch))
        progress("writing the folder")
        files = (*scan(written), *_left_out(options))
        build = Build(target, arch, "pypto", (*files, BuildFile(MANIFEST, "meta")), program.name)
        with new_folder(target, foreign) as folder:
            shutil.copytree(written, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
            (folder / MANIFEST).write_text(manifest(build), encoding="utf-8")
    return build


def _has_ptoas() -> bool:
    try:
        find_ptoas()
    except LabError:
        return False
    return True


def _left_out(options: dict[str, Any]) -> tuple[BuildFile, ...]:
    if "skip_ptoas" not in options:
        return ()
    return (BuildFile("kernel_config.py", "config", "missing", "no usable ptoas here: the compiler stopped at .pto"),)


def _compiled(request: dict[str, Any], folder: Path) -> Path:
    """Runs the compiler; the folder it wrote. Raises LabError E692, E693."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROCESS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(json.dumps(request))
    except BaseException:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    if process.returncode == _ABSENT:
        raise LabError([Diagnostic(NO_COMPILER, "there is no `pypto` in this Python", hint=_INSTALL)])
    if process.returncode == _OTHER_PRODUCT:
        message = f"the `pypto` of this Python is not the compiler ({_last(errors)})"
        raise LabError([Diagnostic(NO_COMPILER, message, hint=_INSTALL)])
    place = _stated_folder(output)
    if process.returncode != 0 or place is None or not any(place.rglob("*.pto")):
        how = f"status {process.returncode}" if process.returncode else "no .pto"
        message = f"the installed compiler ended with {how}: {_last(errors) or _last(output) or 'no message'}"
        hint = "see whether the embedded engine takes the kernel: --engine embedded"
        raise LabError([Diagnostic(COMPILER_FAILED, message, hint=hint)])
    return place


def _stated_folder(output: str) -> Path | None:
    try:
        return Path(json.loads(output.strip().splitlines()[-1])["folder"])
    except (IndexError, ValueError, KeyError, TypeError):
        return None


def _last(text: str) -> str:
    rows = [row.strip() for row in text.splitlines() if row.strip()]
    return rows[-1] if rows else ""
