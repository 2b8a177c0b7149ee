"""Fresh names: what a function already calls its variables, and the next free name over a base."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pypto_lab.ir import nodes as n
from pypto_lab.ir.visitor import walk


@dataclass(slots=True)
class Names:
    """Names in use. `fresh("t")` is `t`, then `t_1`, `t_2` ..."""

    used: set[str] = field(default_factory=set)
    _next: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def of(node: n.Function | n.Program | Iterable[n.Stmt]) -> Names:
        """The names of every variable below a node."""
        roots = [node] if isinstance(node, (n.Function, n.Program)) else list(node)
        return Names({v.name for root in roots for v in walk(root) if isinstance(v, n.Var)})

    def fresh(self, base: str, first: int = 1) -> str:
        """`base` if it is free, else `base_<k>` with the first free k. The name is taken."""
        if base not in self.used:
            self.used.add(base)
            return base
        k = self._next.get(base, first)
        while f"{base}_{k}" in self.used:
            k += 1
        self._next[base] = k + 1
        self.used.add(f"{base}_{k}")
        return f"{base}_{k}"

    def numbered(self, base: str) -> str:
        """`base<k>` with the first free k from 0. The name is taken."""
        k = self._next.get(base + "#", 0)
        while f"{base}{k}" in self.used:
            k += 1
        self._next[base + "#"] = k + 1
        self.used.add(f"{base}{k}")
        return f"{base}{k}"


def plain_name(name: str) -> str:
    """What the user called a variable: the part before the compiler's `__` suffix."""
    head = name.partition("__")[0]
    return head or name
