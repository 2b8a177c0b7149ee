"""Other people's programs, run with a time limit that also ends what they started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended. `code` is negative for a signal."""

    code: int
    output: str
    errors: str


def run(command: Sequence[str], limit: float, environment: Mapping[str, str] | None = None) -> Outcome:
    """Runs a command in a session of its own; on a timeout the whole session ends (a script may have children).

    Raises OSError when it cannot be started, subprocess.TimeoutExpired after `limit` seconds.
    """
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=None if environment is None else dict(environment),
        start_new_session=True,
        text=True,
        errors="replace",
    ) as process:
        try:
            output, errors = process.communicate(timeout=limit)
        except BaseException:
            _end_session(process)
            raise
    return Outcome(process.returncode, output, errors)


def first_line(text: str) -> str:
    """The first line that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")


def _end_session(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
