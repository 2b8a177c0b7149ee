"""IR -> torch script: preamble, group table, one Python function an IR function."""

from __future__ import annotations

from collections.abc import Mapping

from pypto_lab.ir import nodes as n
from pypto_lab.ir.span import Span
from pypto_lab.torch_codegen.expressions import TORCH_DTYPES
from pypto_lab.torch_codegen.launches import Group, find_groups, meeting_functions, two_lane_kernels
from pypto_lab.torch_codegen.lines import Script, ScriptLine
from pypto_lab.torch_codegen.liveness import Program
from pypto_lab.torch_codegen.memories import Memories, check_memory, is_addressed
from pypto_lab.torch_codegen.names import Names, sanitised
from pypto_lab.torch_codegen.preamble import helpers_in, library, preamble
from pypto_lab.torch_codegen.statements import FunctionWriter, Row


def generate(
    node: n.Program | n.Function, check_shapes: bool = False, *, memory: str = "names", arch: str = "a2a3"
) -> Script:
    """The script of a program or of one function.

    `memory` "names" makes each value a tensor of its own, "addresses" makes tiles views of the bytes their MemRefs
    name, in the memories of a core of `arch`.

    Raises TypeError for anything else, NoTorchForm (a ValueError; op and source line named) for an op without one.
    """
    if isinstance(node, n.Program):
        functions, title = dict(node.functions), f"program {node.name}"
        entry = _entry(node)
    elif isinstance(node, n.Function):
        functions, title = {node.name: node}, f"function {node.name}"
        entry = node
    else:
        raise TypeError(f"torch_codegen needs an ir Program or Function, got {type(node).__name__}")
    from pypto_lab import ops  # fills the registry

    assert ops is not None
    check_memory(memory, arch)
    return _Generator(functions, title, check_shapes, memory, arch).script(entry.name)


def _entry(program: n.Program) -> n.Function:
    """The program's entry; where it has none, its last function."""
    try:
        return program.entry
    except ValueError:
        return list(program.functions.values())[-1]


class _Generator:
    def __init__(
        self, functions: Mapping[str, n.Function], title: str, check_shapes: bool, memory: str, arch: str
    ) -> None:
        self.functions = functions
        self.title = title
        self.check_shapes = check_shapes
        self.by_addresses = memory == "addresses"
        self.addressed = self.by_addresses and is_addressed(functions)
        self.arch = arch
        self.groups = find_groups(functions)
        self.helpers = frozenset(library().definitions)
        self.script_names = self._function_names()

    def _function_names(self) -> dict[str, str]:
        """Script names of functions; none starts with an underscore, as the runtime's do."""
        names = Names(self.helpers)
        return {name: names.fresh(sanitised(name).lstrip("_") or "kernel") for name in self.functions}

    def script(self, entry: str) -> Script:
        reserved = self.helpers | frozenset(self.script_names.values()) | _imported_names()
        two_lanes = two_lane_kernels(self.functions)
        meeting = meeting_functions(self.functions)
        program = Program(self.functions)
        tables: dict[str, dict[str, n.Var]] = {}
        written: list[tuple[n.Function, list[Row]]] = []
        for function in self.functions.values():
            writer = FunctionWriter(
                function,
                program,
                self.script_names,
                self.groups,
                reserved,
                check_shapes=self.check_shapes,
                both_lanes=function.name in two_lanes,
                meeting=meeting,
                memories=Memories(function, TORCH_DTYPES, addressed=self.addressed) if self.by_addresses else None,
                arch=self.arch,
            )
            written.append((function, writer.write()))
            tables[function.name] = writer.names.table()
        return self._joined(written, tables, entry)

    def _joined(
        self, written: list[tuple[n.Function, list[Row]]], tables: dict[str, dict[str, n.Var]], entry: str
    ) -> Script:
        meta = self._group_meta()
        body = "\n".join(text for _, rows in written for text, _ in rows)
        head = [f"# PyPTO {self.title} as PyTorch: one statement an IR statement; runs with torch alone"]
        head += preamble(helpers_in(body + "\n" + meta)).rstrip("\n").split("\n")
        if meta:
            head += ["", "", *meta.split("\n")]
        lines: dict[int, ScriptLine] = {}
        for function, rows in written:
            head += ["", ""]
            for text, stmt in rows:
                head.append(text)
                lines[len(head)] = ScriptLine(len(head), function.name, stmt, _span(stmt, function))
        return Script("\n".join(head) + "\n", self.script_names[entry], lines, self.script_names, tables)

    def _group_meta(self) -> str:
        """The statement that fills `_GROUP_META`; empty without groups."""
        rows = []
        for name, group in self.groups.items():
            facts: dict[str, object] = {"body": self.script_names[name], **self._members(group)}
            facts |= {"split": group.split, "dual_aiv_dispatch": group.dual_aiv_dispatch}
            if group.split_aiv:
                facts["split_aiv"] = True
            rows.append(f"    {self.script_names[name]!r}: {facts!r},")
        return "\n".join(["_GROUP_META.update({", *rows, "})"]) if rows else ""

    def _members(self, group: Group) -> dict[str, object]:
        return {
            role: self.script_names.get(member, member)
            for role, member in (("aic", group.aic), ("aiv", group.aiv))
            if member is not None
        }


def _imported_names() -> frozenset[str]:
    return frozenset(library().imports)


def _span(stmt: n.Stmt | None, function: n.Function) -> Span | None:
    return function.span if stmt is None else stmt.span
