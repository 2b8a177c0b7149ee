"""Orchestration files compared by what they do: the runtime's calls in order, with names and spacing taken away."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from pypto_lab.pto.wrapper import cpp

_PLAIN = frozenset({
    "const", "extern", "void", "for", "while", "if", "else", "return", "static_cast", "int64_t", "int32_t", "int16_t",
    "int8_t", "uint64_t", "uint32_t", "uint16_t", "uint8_t", "float", "double", "bool", "true", "false", "std",
})  # fmt: skip
_API = re.compile(
    r"PTO2\w*|Chip\w+|Core\w+|Task\w+|Tensor\w+|MixedKernels|DataType|[A-Z][A-Z0-9_]+|rt_\w+|alloc_tensors|aicpu_\w+"
    r"|[gs]et_\w+|add_\w+|from_u64|to_u64|tensor|scalar|ref|shapes|view|reshape|transpose|task_id|is_valid|invalid|dump"
    r"|launch_spec|operand|ndims|indices|op|target|expected_arg_count|visibility|__attribute__|manual_dep"
)


def calls(text: str) -> list[str]:
    """The statements of an orchestration file in a normal form.

    Comments and blank lines are gone, and every name that is the program's own is replaced by `v<k>`, in the order in
    which the runtime's calls first use it. So two texts that differ in names, comments and layout are the same.
    """
    words = [w for w in cpp.tokens(text) if w.kind != "skip"]
    return _renamed(_statements(words))


def _statements(words: Sequence[cpp.Token]) -> list[list[str]]:
    found: list[list[str]] = []
    current: list[str] = []
    depth = 0
    for word in words:
        current.append(word.text)
        depth += word.text in "([" and len(word.text) == 1
        depth -= word.text in ")]" and len(word.text) == 1
        opens = word.text == "{" and _is_block(current[:-1])
        if depth == 0 and (word.text == ";" or opens or current == ["}"]):
            found.append(current)
            current = []
    return [statement for statement in [*found, current] if statement]


def _is_block(head: Sequence[str]) -> bool:
    """Whether a brace after these words opens a block, and not a list of values."""
    return not head or head[-1] in (")", "else", '"C"')


def _renamed(statements: Iterable[Sequence[str]]) -> list[str]:
    names: dict[str, str] = {}
    lines: list[str] = []
    for statement in statements:
        line = []
        for place, word in enumerate(statement):
            fixed = word in _PLAIN or (bool(_API.fullmatch(word)) and not _is_own(statement, place))
            if not fixed and re.fullmatch(r"[A-Za-z_]\w*", word):
                word = names.setdefault(word, f"v{len(names)}")
            line.append(word)
        lines.append(_spaced(line))
    return lines


def _is_own(statement: Sequence[str], place: int) -> bool:
    """Whether a word that looks like the runtime's is a variable here: it is declared, or nothing marks it as a member
    or a call."""
    word = statement[place]
    if not re.fullmatch(r"tensor|scalar|ref|shapes|view|op|target|operand|indices|ndims|dump|transpose|reshape", word):
        return False
    before = statement[place - 1] if place else ""
    return before not in (".", "->")


def _spaced(words: Sequence[str]) -> str:
    return re.sub(r" ?([()\[\]{};,.<>:]) ?", r"\1", " ".join(w for w in words if w)).replace(",}", "}")


def differences(ours: str, theirs: str) -> list[str]:
    """The statements that only one of two orchestration files has, as a diff (`-` theirs, `+` ours); none: the same."""
    diff = difflib.unified_diff(calls(theirs), calls(ours), "theirs", "ours", lineterm="", n=0)
    return [line for line in diff if not line.startswith(("---", "+++", "@@"))]
