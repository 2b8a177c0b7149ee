"""Names in a script: printed IR names made into Python identifiers that clash with nothing."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable

from pypto_lab.ir import nodes as n

PYTHON_NAMES = frozenset(dir(builtins)) | frozenset(keyword.kwlist) | frozenset(keyword.softkwlist) | {"torch"}


def sanitised(text: str) -> str:
    """`text` as an identifier: other characters become `_`, runs of `_` one, no leading digit."""
    name = re.sub(r"_+", "_", re.sub(r"\W", "_", text, flags=re.ASCII))
    if not name or name == "_":
        return "v"
    return f"v_{name}" if name[0].isdigit() else name


class Names:
    """Gives each variable of a function its own name; `reserved` names are never given."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken = set(PYTHON_NAMES) | set(reserved)
        self._by_var: dict[n.Var, str] = {}

    def of(self, var: n.Var) -> str:
        """The variable's name, chosen when it is first asked for."""
        found = self._by_var.get(var)
        if found is None:
            found = self._by_var[var] = self.fresh(var.name)
        return found

    def knows(self, var: n.Var) -> bool:
        return var in self._by_var

    def fresh(self, hint: str) -> str:
        """An unused name like `hint`."""
        base = sanitised(hint)
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name

    def bind(self, var: n.Var, name: str) -> None:
        """Lets a variable share a name that is in use."""
        self._by_var[var] = name

    def table(self) -> dict[str, n.Var]:
        """Script name -> variable."""
        return {name: var for var, name in self._by_var.items()}
