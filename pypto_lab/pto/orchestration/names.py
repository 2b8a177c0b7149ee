"""C++ names for the variables of an orchestration function: the user's own name, made unique."""

from __future__ import annotations

import re

_SUFFIX = re.compile(r"__(?:ssa|idx|iter|rv|tmp|cond_phi)(?:_v?\d+)?$")
_KEYWORDS = frozenset(
    {
        "alignas", "and", "asm", "auto", "bool", "break", "case", "catch", "char", "class", "const", "continue",
        "default", "delete", "do", "double", "else", "enum", "explicit", "export", "extern", "false", "float", "for",
        "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "not", "operator", "or",
        "private", "protected", "public", "register", "return", "short", "signed", "sizeof", "static", "struct",
        "switch", "template", "this", "throw", "true", "try", "typedef", "typename", "union", "unsigned", "using",
        "virtual", "void", "volatile", "while", "xor", "orch_args",
    }
)  # fmt: skip


def plain(name: str) -> str:
    """A variable's name without what the passes appended, fit for C++."""
    short = _SUFFIX.sub("", name) or name
    short = re.sub(r"\W", "_", short)
    return f"_{short}" if short[:1].isdigit() or short in _KEYWORDS else short


class Names:
    """Names taken so far. C++ would allow one name in two scopes; here each stands for one thing only."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, wanted: str) -> str:
        """`wanted`, or `wanted_1`, `wanted_2` ... where that is taken."""
        base, name, count = plain(wanted), plain(wanted), 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name
