"""Whether a wrapper's `kernel_entry` hands the function of a `.pto` what that function takes, in its order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pypto_lab.ir.diagnostics import Diagnostic
from pypto_lab.pto.decode import Function
from pypto_lab.pto.dialect.types import PointerType, ValueType
from pypto_lab.pto.inspection.findings import BAD_ENTRY, UNREADABLE, line_span
from pypto_lab.pto.wrapper import cpp
from pypto_lab.pto.wrapper.identity import SUBBLOCK_IDX

_POINTER = re.compile(r"__gm__ (\w+)\s*\* (\w+) = reinterpret_cast<__gm__ \w+\s*\*>\((\w+)_tensor->buffer\.addr\)")
_WORD = re.compile(
    r"(?:__gm__ \w+\s*\* (\w+?)(?:_tensor)? = reinterpret_cast<__gm__ \w+\s*\*>\(|(\w+)_conv\.u64 = )args\[(\d+)\]"
)
_UNION = re.compile(r"union \{ uint64_t u64; (\w+) val; \} (\w+)_conv")
_CONTEXT = re.compile(r"__gm__ (int64_t)\s*\* (\w+) = reinterpret_cast<__gm__ int64_t\s*\*>\(args\[\d+\]\)")
_DIMENSION = re.compile(r"int64_t (\w+) = [^;]*shapes\[")
_IDENTITY = re.compile(r"int32_t (__pypto_spmd_\w+) = get_\w+\(args\)")
_C_TYPES = {
    "f32": "float", "f16": "half", "bf16": "bfloat16_t", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t",
    "i64": "int64_t", "ui8": "uint8_t", "ui16": "uint16_t", "ui32": "uint32_t", "ui64": "uint64_t", "i1": "bool",
    "index": "int64_t",
}  # fmt: skip
_UNSIGNED = {"uint8_t": "int8_t", "uint16_t": "int16_t", "uint32_t": "int32_t", "uint64_t": "int64_t"}


@dataclass(frozen=True, slots=True)
class Entry:
    """What an entry reads and hands on: for each argument of its call the kind and the C++ type; the words it reads."""

    call: tuple[str, ...]
    kinds: dict[str, tuple[str, str]]
    words: dict[str, int]
    offset: int


def entry_findings(file: str, text: str, kernel: str, function: Function) -> Iterator[Diagnostic]:
    """What does not fit between an entry and the function of its `.pto`: E673 no whole entry, E675 the rest."""
    entry = read_entry(text, kernel)
    if entry is None:
        message = f"there is no whole `kernel_entry` that calls `{kernel}`; was the file cut off?"
        yield Diagnostic(UNREADABLE, message, line_span(file, text, max(0, text.find("kernel_entry"))))
        return
    span = line_span(file, text, entry.offset)
    yield from (Diagnostic(BAD_ENTRY, f"`{kernel}`: {message}", span) for message in _misfits(entry, function))


def _misfits(entry: Entry, function: Function) -> Iterator[str]:
    unknown = [name for name in entry.call if name not in entry.kinds]
    if unknown:
        yield f"the call hands on `{unknown[0]}`, which nothing declares"
        return
    given = list(entry.call)
    wanted = function.arguments
    if len(given) == len(wanted) + 1 and given[-1] == SUBBLOCK_IDX and _has_split_ends(function):
        given.pop()  # the private lane of split ends is the wrapper's own parameter
    if len(given) != len(wanted):
        yield f"the call hands on {len(given)} arguments, the function of the `.pto` takes {len(wanted)}"
        return
    for place, (name, value) in enumerate(zip(given, wanted, strict=True)):
        kind, c_type = entry.kinds[name]
        if value.name.startswith("%__pypto_spmd"):
            if value.name[1:] != name:
                yield f"argument {place} is `{value.name[1:]}`, and the call hands on `{name}`"
        elif not _fits(kind, c_type, value.type):
            yield f"argument {place} has the type {_shown(value.type)}, and `{name}` is a {kind} of {c_type}"
    tensors = [n for n in given if entry.kinds[n][0] == "tensor"]
    scalars = [n for n in given if entry.kinds[n][0] in ("scalar", "context")]
    words = [entry.words.get(name) for name in (*tensors, *scalars)]
    if words != list(range(len(words))):
        yield f"the words of the arguments are read from {words}; tensors come first, then scalars, without gaps"


def _has_split_ends(function: Function) -> bool:
    ends = ("pto.tpush_to_aic", "pto.tpop_from_aic")
    return any(i.name in ends and i.attributes.get("split") for i in function.body.walk())


def _fits(kind: str, c_type: str, type_: ValueType) -> bool:
    if isinstance(type_, PointerType):
        if kind == "context":
            return type_.dtype == "i64"
        known = _C_TYPES.get(type_.dtype)
        return kind == "tensor" and (known is None or known in (c_type, _UNSIGNED.get(c_type)))
    known = _C_TYPES.get(str(type_))
    if kind == "dimension":
        return str(type_) == "index"
    return kind == "scalar" and (known is None or known in (c_type, _UNSIGNED.get(c_type)))


def _shown(type_: ValueType) -> str:
    return f"!pto.ptr<{type_.dtype}>" if isinstance(type_, PointerType) else str(type_)


def read_entry(text: str, kernel: str) -> Entry | None:
    """The entry of a wrapper text, None where there is none that calls the kernel."""
    words = cpp.tokens(text)
    found = next((f for f in cpp.functions(words) if f.name == "kernel_entry"), None)
    if found is None or found.body[1] >= len(words):
        return None
    start, end = found.body
    calls = [c for i in range(start, end) if words[i].text == kernel and (c := cpp.call_at(words, i, end))]
    if not calls:
        return None
    call = tuple("".join(w.text for w in words[a:b]) for a, b in calls[-1].arguments)
    body = re.sub(r"//[^\n]*", "", text[words[start].start : words[end].start])
    kinds = {m[2]: ("tensor", m[1]) for m in _POINTER.finditer(body)}
    kinds |= {m[2]: ("scalar", m[1]) for m in _UNION.finditer(body)}
    kinds |= {m[2]: ("context", m[1]) for m in _CONTEXT.finditer(body)}
    kinds |= {m[1]: ("dimension", "int64_t") for m in _DIMENSION.finditer(body) if m[1] not in kinds}
    kinds |= {m[1]: ("identity", "int32_t") for m in _IDENTITY.finditer(body)}
    kinds |= {"args": ("raw words", "int64_t")}
    read = {(m[1] or m[2]).removesuffix("_tensor"): int(m[3]) for m in _WORD.finditer(body)}
    return Entry(call, kinds, read, words[calls[-1].at].start)
