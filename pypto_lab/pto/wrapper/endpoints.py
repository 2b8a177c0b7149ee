"""The lane argument of split FIFO endpoints: `TPUSH(pipe, tile)` becomes `TPUSH(pipe, tile, lane)` on a device."""

from __future__ import annotations

from collections.abc import Sequence

from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError
from pypto_lab.pto.wrapper import cpp
from pypto_lab.pto.wrapper.identity import Identity

MISSING_FUNCTION = "E653"
MISSING_ENDPOINT = "E654"

PRIVATE_LANE = "__pypto_fifo_subblock_idx"
"""The parameter added to a function that has split endpoints but does not read the lane itself."""

_SIMULATED = "defined(__CPU_SIM) || defined(__COSTMODEL)"


def with_lane(text: str, function: n.Function, identity: Identity) -> str:
    """The preprocessed text with the lane handed to each split endpoint of one vector kernel.

    A device build gets the three-argument overload, the simulators keep two arguments: they know the lane. A kernel
    that reads the lane already has it as its last parameter; any other gets a private last parameter.

    Raises:
        LabError: E653 the text does not define the kernel, E654 it has fewer split endpoints than the program (both
            lanes would then read one half).
    """
    words = cpp.tokens(text)
    kernel = next((f for f in cpp.functions(words) if f.name == function.name), None)
    if kernel is None:
        raise _error(MISSING_FUNCTION, function, f"the assembler's text does not define `{function.name}`")
    calls = [c for c in _endpoint_calls(words, kernel) if _is_split(words, c)]
    _check_counts(function, identity, calls)
    if not calls:
        return text
    lane = _last_parameter(words, kernel) if identity.lane else PRIVATE_LANE
    edits = [_guarded(text, words, call, lane) for call in calls]
    if not identity.lane:
        edits.append(_added_parameter(words, kernel))
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


def _error(code: str, function: n.Function, message: str, hint: str | None = None) -> LabError:
    return LabError([Diagnostic(code, f"{function.name}: {message}", function.span, hint=hint)])


def _endpoint_calls(words: Sequence[cpp.Token], kernel: cpp.Function) -> list[cpp.Call]:
    start, end = kernel.body
    found = (cpp.call_at(words, i, end) for i in range(start, end) if words[i].text in ("TPUSH", "TPOP"))
    return [call for call in found if call is not None and len(call.arguments) == 2]


def _is_split(words: Sequence[cpp.Token], call: cpp.Call) -> bool:
    """Whether the call's template arguments name a split axis other than none."""
    if call.template is None:
        return False
    inside = [w.text for w in words[slice(*call.template)]]
    axes = [b for a, b in zip(inside, inside[2:], strict=False) if a == "TileSplitAxis"]
    return any("NO_SPLIT" not in axis for axis in axes)


def _check_counts(function: n.Function, identity: Identity, calls: list[cpp.Call]) -> None:
    for name, wanted in (("TPUSH", identity.pushes), ("TPOP", identity.pops)):
        found = sum(call.name == name for call in calls)
        if found < wanted:
            raise _error(
                MISSING_ENDPOINT,
                function,
                f"the program has {wanted} split {name}, the assembler's text {found}; "
                "without the lane both vector cores would use one half",
                "assemble the `.pto` of this very program with an assembler that names the split axis",
            )


def _last_parameter(words: Sequence[cpp.Token], kernel: cpp.Function) -> str:
    names = [w.text for w in words[slice(*kernel.parameters)] if w.kind == "name"]
    return names[-1] if names else PRIVATE_LANE


def _guarded(text: str, words: Sequence[cpp.Token], call: cpp.Call, lane: str) -> tuple[int, int, str]:
    """The edit that writes both forms of a call statement."""
    start, close = words[call.at].start, words[call.close]
    end = text.index(";", close.end) + 1
    plain = text[start:end]
    device = text[start : close.start] + f", {lane}" + text[close.start : end]
    return start, end, f"\n#if {_SIMULATED}\n  {plain}\n#else\n  {device}\n#endif\n"


def _added_parameter(words: Sequence[cpp.Token], kernel: cpp.Function) -> tuple[int, int, str]:
    at = words[kernel.parameters[1]].start
    first = kernel.parameters[0] == kernel.parameters[1]
    return at, at, f"{'' if first else ', '}int32_t {PRIVATE_LANE}"
