"""Finding, probing and running an assembler; the assemblers here are small scripts of our own."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from pypto_lab.ir.diagnostics import LabError, Severity
from pypto_lab.pto import ptoas
from pypto_lab.pto.ptoas import Assembler, assemble, command_line, find_ptoas, probe

GOOD = """\
import sys, time, os
args = sys.argv[1:]
if args == ["--help"]:
    print("USAGE: ptoas\\n  --enable-insert-sync\\n  --pto-arch=<string>\\n  --pto-level=<value>")
elif args == ["--version"]:
    print("\\nptoas 0.57 (a script)")
else:
    source, target = args[0], args[args.index("-o") + 1]
    text = open(source).read()
    if "slow" in text:
        child = os.fork()
        if child:
            open(text.split()[1], "w").write(str(child))
        time.sleep(60)
    if "wrong" in text:
        line = [i for i, row in enumerate(text.splitlines(), 1) if "wrong" in row][0]
        print(f"{source}:{line}:3: error: 'pto.wrong' is not an op", file=sys.stderr)
        print(f"{source}:1:1: warning: an unusual module", file=sys.stderr)
        sys.exit(1)
    if "crash" in text:
        os.kill(os.getpid(), 6)
    if "silent" in text:
        sys.exit(0)
    if "unhappy" in text:
        print("out of luck", file=sys.stderr)
        sys.exit(3)
    print("/lib/other.td:7:2: warning: old form", file=sys.stderr)
    for tree in (a.partition("=")[2] for a in args if a.startswith("--mlir-print-ir-tree-dir")):
        assert os.path.isdir(tree)
        os.makedirs(tree + "/builtin_module_no-symbol-name", exist_ok=True)
        for step in ("1_insert-sync", "0_canonicalize"):
            open(f"{tree}/builtin_module_no-symbol-name/{step}.mlir", "w").write(step)
    with open(target, "w") as out:
        out.write('#include "pto/pto-inst.hpp"\\nusing namespace pto;\\n__global__ AICORE void f() {}\\n// ')
        out.write(" ".join(a for a in args if a.startswith("-")))
"""


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\n{body}", encoding="utf-8")
    path.chmod(0o755)
    return path


def good(folder: Path) -> Assembler:
    found = probe(script(folder / "ptoas", GOOD))
    assert isinstance(found, Assembler)
    return found


@pytest.mark.parametrize("below", ["ptoas", "ptoas.sh", "bin/ptoas"])
def test_the_root_is_searched_before_the_path(below: str, tmp_path: Path) -> None:
    wanted = script(tmp_path / "root" / below, GOOD)
    script(tmp_path / "path" / "ptoas", GOOD)
    found = find_ptoas({"PTOAS_ROOT": str(tmp_path / "root"), "PATH": str(tmp_path / "path")})
    assert found.path == wanted
    assert found.version == "ptoas 0.57 (a script)"
    assert "--pto-level" in found.flags


def test_the_path_is_searched_when_the_root_has_none(tmp_path: Path) -> None:
    wanted = script(tmp_path / "path" / "ptoas", GOOD)
    for environment in ({}, {"PTOAS_ROOT": str(tmp_path / "empty")}):
        assert find_ptoas({**environment, "PATH": str(tmp_path / "path")}).path == wanted


def test_without_an_assembler_the_places_searched_are_named(tmp_path: Path) -> None:
    with pytest.raises(LabError) as caught:
        find_ptoas({"PATH": str(tmp_path)})
    found = caught.value.diagnostics[0]
    assert found.code == "E660"
    assert "PTOAS_ROOT is not set" in found.message
    with pytest.raises(LabError) as caught:
        find_ptoas({"PATH": "", "PTOAS_ROOT": str(tmp_path)})
    assert str(tmp_path) in caught.value.diagnostics[0].message


LOADER = """\
import sys
print("error while loading shared libraries: libMLIRMlirOptMain.so.19.1", file=sys.stderr)
sys.exit(127)
"""


def test_an_unusable_one_is_named_with_its_reason_and_a_usable_one_after_it_is_taken(tmp_path: Path) -> None:
    broken = script(tmp_path / "root" / "ptoas", LOADER)
    environment = {"PTOAS_ROOT": str(tmp_path / "root"), "PATH": str(tmp_path / "path")}
    with pytest.raises(LabError) as caught:
        find_ptoas(environment)
    found = caught.value.diagnostics[0]
    assert found.code == "E661"
    assert f"{broken}: it cannot start (error while loading shared libraries: libMLIR" in found.message
    assert "PyPI" in (found.hint or "")
    usable = script(tmp_path / "path" / "ptoas", GOOD)
    assert find_ptoas(environment).path == usable


def test_an_old_one_is_named_with_the_flags_it_lacks(tmp_path: Path) -> None:
    old = script(tmp_path / "ptoas", 'print("USAGE: ptoas --enable-insert-sync")\n')
    assert probe(old) == "it is too old: it does not know --pto-arch, --pto-level"


def test_a_file_that_is_no_program_and_one_that_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"\x7fELF not really")
    text.chmod(0o755)
    assert str(probe(text)).startswith("it cannot be started (")
    assert str(probe(tmp_path / "gone")).startswith("it cannot be started (")
    monkeypatch.setattr(ptoas, "PROBE_LIMIT", 0.3)
    assert "did not answer" in str(probe(script(tmp_path / "mute", "import time\ntime.sleep(60)\n")))


def test_a_version_that_is_not_told_is_no_obstacle(tmp_path: Path) -> None:
    body = GOOD.replace('elif args == ["--version"]:', 'elif args == ["--version"]:\n    sys.exit(1)\nelif False:')
    found = probe(script(tmp_path / "ptoas", body))
    assert isinstance(found, Assembler)
    assert found.version == "unknown version"


def test_the_command_line() -> None:
    assembler = Assembler(Path("/opt/ptoas"), "v", frozenset())
    source, target = Path("in.pto"), Path("out.cpp")
    assert " ".join(command_line(assembler, source, target)) == (
        "/opt/ptoas in.pto -o out.cpp --enable-insert-sync --pto-level=level3 --pto-arch a3"
    )
    planned = command_line(assembler, source, target, arch="a5", level=2, passes=Path("dump"))
    assert " ".join(planned).endswith(
        "--pto-level=level2 --pto-arch a5 --mlir-print-ir-after-all --mlir-print-ir-module-scope "
        "--mlir-print-ir-tree-dir=dump"
    )


@pytest.mark.parametrize("options", [{"arch": "a3"}, {"level": 1}])
def test_a_wrong_request_is_an_error(options: dict[str, object]) -> None:
    with pytest.raises(LabError) as caught:
        command_line(Assembler(Path("p"), "v", frozenset()), Path("a"), Path("b"), **options)  # type: ignore[arg-type]
    assert caught.value.diagnostics[0].code == "E664"


def test_the_cpp_comes_back_as_written_and_made_private(tmp_path: Path) -> None:
    done = assemble("module {}", assembler=good(tmp_path))
    assert "__global__ AICORE void f() {}" in done.text
    assert done.private.startswith("static __aicore__ void f() {}\n")
    assert "--enable-insert-sync --pto-level=level3 --pto-arch" in done.text
    assert done.version == "ptoas 0.57 (a script)"
    assert [(w.span.file, w.span.line) for w in done.warnings if w.span] == [("/lib/other.td", 7)]
    assert done.warnings[0].severity is Severity.WARNING
    assert not Path(done.command[1]).exists()


def test_the_assemblers_own_passes_go_to_a_folder_that_is_made_for_them(tmp_path: Path) -> None:
    assembler = good(tmp_path / "bin")
    assert assemble("module {}", assembler=assembler).passes == ()
    folder = tmp_path / "out" / "ptoas_passes" / "unit"
    done = assemble("module {}", name="unit", assembler=assembler, passes=folder)
    assert [p.name for p in done.passes] == ["0_canonicalize.mlir", "1_insert-sync.mlir"]
    assert all(folder in p.parents for p in done.passes)
    assert f"--mlir-print-ir-tree-dir={folder}" in done.command


def refused(text: str, assembler: Assembler, **options: float) -> LabError:
    with pytest.raises(LabError) as caught:
        assemble(text, name="unit", assembler=assembler, **options)  # type: ignore[arg-type]
    return caught.value


def test_an_error_of_the_assembler_shows_the_line_of_the_text(tmp_path: Path) -> None:
    error = refused("module {\n  pto.wrong\n}", good(tmp_path))
    assert [d.code for d in error.diagnostics] == ["E662"]
    span = error.diagnostics[0].span
    assert span is not None
    assert (span.file, span.line, span.column) == ("unit.pto", 2, 3)
    assert "  pto.wrong" in str(error)


@pytest.mark.parametrize(
    ("text", "message"),
    [("crash", "signal 6"), ("silent", "wrote no C++"), ("unhappy", "code 3 on unit.pto: out of luck")],
)
def test_a_run_that_fails_without_a_place_says_how(text: str, message: str, tmp_path: Path) -> None:
    found = refused(text, good(tmp_path)).diagnostics
    assert [d.code for d in found] == ["E662"]
    assert message in found[0].message


def is_running(process: int) -> bool:
    """Whether a process exists and has not ended (one that nobody has collected counts as ended)."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")
def test_a_slow_run_is_ended_with_its_children(tmp_path: Path) -> None:
    note = tmp_path / "child"
    started = time.monotonic()
    error = refused(f"slow {note}", good(tmp_path), time_limit=2)
    assert error.diagnostics[0].code == "E663"
    assert "2 s" in error.diagnostics[0].message
    assert time.monotonic() - started < 20
    child = int(note.read_text())
    while is_running(child):
        assert time.monotonic() - started < 20, "the assembler's child goes on"
        time.sleep(0.05)


def test_an_assembler_that_has_gone_since_is_an_error(tmp_path: Path) -> None:
    assembler = good(tmp_path)
    os.remove(assembler.path)
    assert refused("module {}", assembler).diagnostics[0].code == "E661"
