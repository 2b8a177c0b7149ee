"""Two runs of a program side by side: after each statement that both have made, somebody may compare their values.

The runs may differ in what undefined cells hold, or in where tiles live; their statements are the same.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped, unused-ignore]

from pypto_lab.ir import nodes as n
from pypto_lab.torch_codegen.execute import Prepared, file_name, namespace
from pypto_lab.torch_codegen.lines import Script, ScriptLine

PROBE = "_pypto_statement_made"


@dataclass(frozen=True, slots=True)
class Moment:
    """A statement of one run has been made: the lane, the script line, the function's names and their values now,
    and a number that tells calls apart. At a call's start `line` is the function's head."""

    lane: str
    line: ScriptLine
    frame: int
    values: Mapping[str, Any]

    @property
    def starts(self) -> bool:
        return self.line.stmt is None


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs: what it calls and how its undefined cells are marked."""

    prepared: Prepared
    poison: str | int | None = None


Watch = Callable[[Moment, Moment], bool]


class PartedError(Exception):
    """The runs went different ways: `first` and `second` are what each made next (None: it had ended)."""

    def __init__(self, first: Moment | None, second: Moment | None, before: Moment | None) -> None:
        super().__init__("the two runs go different ways")
        self.first = first
        self.second = second
        self.before = before


class _StoppedError(BaseException):
    """Ends a run at the statement where it is."""


class _Runner:
    """One side as a coroutine that pauses after each statement."""

    def __init__(self, side: Side, seed: int) -> None:
        script = side.prepared.script
        self._lines = script.lines
        self._hub = getcurrent()
        self._stopping = False
        self._names = namespace(script, seed=seed, poison=side.poison, code=_instrumented(script))
        self._names[PROBE] = self._probe
        self._lane = self._names.get("_current_lane")
        self._side = side
        self._here = greenlet(self._body)
        self._frames: dict[int, int] = {}
        self._count = 0
        self.ended = False

    def _body(self) -> None:
        try:
            self._side.prepared.call(self._names)
        except _StoppedError:
            pass
        finally:
            self.ended = True

    def _probe(self, line: int, values: Mapping[str, Any]) -> None:
        if self._stopping:
            raise _StoppedError
        frame = id(sys._getframe(1))
        found = self._lines[line]
        if found.stmt is None or frame not in self._frames:
            self._count += 1
            self._frames[frame] = self._count
        lane = "host" if self._lane is None else self._lane().name
        self._here = getcurrent()
        self._hub.switch(Moment(lane, found, self._frames[frame], values))
        if self._stopping:
            raise _StoppedError

    def next(self) -> Moment | None:
        """Goes on to the next statement; None when the run has ended. Raises what the run raises."""
        found = None if self.ended else self._here.switch()
        return found if isinstance(found, Moment) else None

    def stop(self) -> None:
        self._stopping = True
        while not self.ended:
            self._here.switch()


def side_by_side(first: Side, second: Side, watch: Watch, *, seed: int = 0) -> None:
    """Runs both sides to their end, statement by statement, or until `watch` says True.

    Raises PartedError where they make different statements, ScriptError where one of them stops.
    """
    runners = (_Runner(first, seed), _Runner(second, seed))
    before: Moment | None = None
    try:
        while True:
            a, b = runners[0].next(), runners[1].next()
            if a is None and b is None:
                return
            if a is None or b is None or _place(a) != _place(b):
                raise PartedError(a, b, before)
            if watch(a, b):
                return
            before = a
    finally:
        for runner in runners:
            runner.stop()


def _place(moment: Moment) -> tuple[str, str, n.Stmt | None]:
    return moment.lane, moment.line.function, moment.line.stmt


# --- the probe in the script -----------------------------------------------------------------------------------------


def _instrumented(script: Script) -> Any:
    """The script's code with a probe after each simple statement of the kernels."""
    tree = ast.parse(script.text)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.lineno in script.lines:
            _instrument(node, script.lines)
    return compile(ast.fix_missing_locations(tree), file_name(script.text), "exec")


def _instrument(function: ast.FunctionDef, lines: Mapping[int, ScriptLine]) -> None:
    function.body = [_probe(function.lineno, function), *_block(function.body, lines)]


def _block(body: Sequence[ast.stmt], lines: Mapping[int, ScriptLine]) -> list[ast.stmt]:
    made: list[ast.stmt] = []
    for node in body:
        made.append(node)
        if isinstance(node, ast.FunctionDef):
            node.body = _block(node.body, lines)
        elif isinstance(node, (ast.For, ast.While, ast.If)):
            node.body = _block(node.body, lines)
            node.orelse = _block(node.orelse, lines)
        elif isinstance(node, (ast.Assign, ast.Expr)) and node.lineno in lines and lines[node.lineno].stmt is not None:
            made.append(_probe(node.lineno, node))
    return made


def _probe(line: int, at: ast.stmt) -> ast.stmt:
    call = ast.parse(f"{PROBE}({line}, locals())").body[0]
    return ast.copy_location(call, at)
