"""A folder that appears as a whole or not at all: written beside its place, moved there when it is complete."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.pto.build_codes import NOT_OURS, NOT_WRITABLE

Judge = Callable[[Path], "list[str] | None"]
"""What lies in a folder besides a build of ours, by name; None when the folder is no build of ours at all."""


def check_place(target: Path, judge: Judge) -> Path:
    """The place a build may be put at, links followed. Raises LabError E694 when something else is there."""
    place = target.resolve()
    if not place.exists():
        return place
    if not place.is_dir():
        raise _taken(target, "is a file")
    if place == Path.cwd() or place in Path.cwd().parents:
        raise _taken(target, "is the folder this runs in, or one above it")
    with writable(target):
        if not any(place.iterdir()):
            return place
        foreign = judge(place)
    if foreign is None:
        raise _taken(target, "holds something that is not a build of the lab")
    if foreign:
        shown = ", ".join(foreign[:3]) + (f" and {len(foreign) - 3} more" if len(foreign) > 3 else "")
        raise _taken(target, f"is a build with other files in it ({shown})")
    return place


@contextlib.contextmanager
def new_folder(target: Path, judge: Judge) -> Iterator[Path]:
    """An empty folder beside `target`; it takes the place of `target` when the block ends well, else it goes away.

    An earlier build at `target` stays whole until then. Raises LabError: E694 as :func:`check_place`, E691 when
    something cannot be written.
    """
    place = check_place(target, judge)
    with writable(target):
        place.parent.mkdir(parents=True, exist_ok=True)
        made = _sibling(place)
        made.mkdir()
        try:
            yield made
            _move(made, place)
        finally:
            shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def writable(target: Path) -> Iterator[None]:
    """Turns what the system says about a place that cannot be used into a diagnostic (LabError E691)."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        hint = "choose another place with --out, or make room"
        raise LabError([Diagnostic(NOT_WRITABLE, f"{target} cannot be written: {reason}", hint=hint)]) from error


def _sibling(place: Path) -> Path:
    return place.parent / f".{place.name}.{secrets.token_hex(4)}"


def _move(made: Path, place: Path) -> None:
    """Puts a finished folder at its place; what was there comes back when that fails."""
    if not place.exists():
        made.rename(place)
        return
    before = _sibling(place)
    place.rename(before)
    try:
        made.rename(place)
    except BaseException:
        before.rename(place)
        raise
    shutil.rmtree(before, ignore_errors=True)


def _taken(target: Path, what: str) -> LabError:
    return LabError([Diagnostic(NOT_OURS, f"{target} {what}; it is left as it is", hint="name a new folder")])
