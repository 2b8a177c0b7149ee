"""Whether an orchestration submits kernels that the configuration has, on the cores they are built for, with as many
tensors as they take."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pypto_lab.ir.diagnostics import Diagnostic
from pypto_lab.pto.inspection.config_file import Config
from pypto_lab.pto.inspection.findings import BAD_SUBMIT, UNREADABLE, line_span
from pypto_lab.pto.wrapper import cpp

_EVENT = re.compile(
    r"CoreTaskArgs (?P<new>\w+);"
    r"|(?P<args>\w+)\.add_(?:input|output|inout|no_dep)\("
    r"|MixedKernels (?P<mixed>\w+) = \{\s*(?P<ids>[^}]*)\}"
    r"|rt_submit_(?P<core>ai[cv])_task\(\s*(?P<id>\w+)\s*,\s*(?P<given>\w+)\s*\)"
    r"|rt_submit_task\(\s*(?P<set>\w+)\s*,\s*(?P<with>\w+)\s*\)"
)
_COUNT = re.compile(r"\.expected_arg_count\s*=\s*(\d+)")
_TENSOR, _SCALAR = re.compile(r"orch_args\.tensor\((\d+)\)"), re.compile(r"orch_args\.scalar\((\d+)\)")


def is_whole(text: str) -> bool:
    """Whether every bracket of a C++ text is closed."""
    depth = 0
    for word in cpp.tokens(text):
        depth += (word.text in "([{") - (word.text in ")]}") if len(word.text) == 1 else 0
        if depth < 0:
            return False
    return depth == 0


def argument_count(text: str) -> int | None:
    """How many arguments the orchestration says it takes."""
    found = _COUNT.search(text)
    return None if found is None else int(found[1])


def orchestration_findings(file: str, text: str, config: Config | None) -> Iterator[Diagnostic]:
    """E673 for a text that was cut off, E676 for submissions and counts that do not fit."""
    if not is_whole(text) or "aicpu_orchestration_entry" not in text:
        message = "the orchestration is not whole; was the file cut off?"
        yield Diagnostic(UNREADABLE, message, line_span(file, text, max(0, len(text) - 1)))
        return
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)
    yield from _counts(file, plain, config)
    if config is not None:
        yield from _submits(file, plain, config)


def _counts(file: str, text: str, config: Config | None) -> Iterator[Diagnostic]:
    stated = argument_count(text)
    tensors = len({m[1] for m in _TENSOR.finditer(text)})
    used = tensors + len({m[1] for m in _SCALAR.finditer(text)})
    span = line_span(file, text, max(0, text.find("expected_arg_count")))
    if stated is None or used > stated:
        yield Diagnostic(BAD_SUBMIT, f"it says it takes {stated} arguments and reads {used}", span)
    if config is not None and config.signature and tensors > len(config.signature):
        listed = len(config.signature)
        yield Diagnostic(BAD_SUBMIT, f"it reads {tensors} tensors, and kernel_config.py lists {listed} for it", span)


def _submits(file: str, text: str, config: Config) -> Iterator[Diagnostic]:
    tensors: dict[str, int] = {}
    sets: dict[str, list[tuple[str, str]]] = {}
    for event in _EVENT.finditer(text):
        span = line_span(file, text, event.start())
        if event["new"]:
            tensors[event["new"]] = 0
        elif event["args"] in tensors:
            tensors[event["args"]] += 1
        elif event["mixed"]:
            ids = [part.strip() for part in event["ids"].split(",")]
            sets[event["mixed"]] = list(zip(ids, ("aic", "aiv", "aiv"), strict=False))
        elif event["core"] or event["set"]:
            wanted = [(event["id"], event["core"])] if event["core"] else sets.get(event["set"], [])
            given = tensors.get(event["given"] or event["with"], 0)
            for message in _kernel_misfits(wanted, given, config):
                yield Diagnostic(BAD_SUBMIT, message, span)


def _kernel_misfits(wanted: list[tuple[str, str]], given: int, config: Config) -> Iterator[str]:
    for number, core in wanted:
        if number == "INVALID_KERNEL_ID":
            continue
        kernel = config.kernel(int(number)) if number.isdigit() else None
        if kernel is None:
            numbers = ", ".join(str(k.func_id) for k in config.kernels) or "none"
            yield f"submits kernel {number}, which kernel_config.py has not (it has {numbers})"
        elif kernel.core != core:
            yield f"submits `{kernel.name}` to the {core} core; it is built for {kernel.core}"
        elif len(kernel.signature) != given:
            yield f"gives `{kernel.name}` {given} tensors; kernel_config.py lists {len(kernel.signature)}"
