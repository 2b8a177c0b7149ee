"""Reads compiler dumps (`passes_dump/NN_after_<Pass>.py`, raw or re-formatted, old and new) with `ast`; nothing runs.

`python -m pypto_lab.frontend.dump DIR...` reads and prints every dump it finds and counts the fixpoints.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pypto_lab.frontend.dump_exprs import ExprReader, Reject, Signature, dotted
from pypto_lab.frontend.dump_names import KEPT, Findings, Names, Symbols
from pypto_lab.frontend.dump_stmts import StmtReader
from pypto_lab.frontend.dump_text import Source
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError, did_you_mean
from pypto_lab.ir.enums import Direction, FunctionType, Level, Role
from pypto_lab.ir.printer import print_program
from pypto_lab.ir.types import UNKNOWN, Type

KNOWN_FUNCTION_ATTRS = frozenset(
    {
        "split", "split_aiv", "split_aiv_region_validated", "dual_aiv_dispatch", "spmd_unwrapped", "slot_num",
        "auto_scope", "external_source", "deferred_completion_waiter",
    }
)  # fmt: skip
_HOST_LEVELS = (Level.HOST, Level.CLUSTER_0, Level.CLUSTER_1, Level.CLUSTER_2, Level.GLOBAL)
_PROGRAM_NAME = re.compile(r"#\s*pypto\.program:\s*(\w+)")


def read_dump(text: str, file: str = "<dump>") -> n.Program:
    """The program of a dump text.

    Unknown ops, attributes and keywords are kept and noted in `program.notes`. Raises LabError with every error of
    the text (one bad statement costs one) when it is no readable dump.
    """
    source = Source(text, file)
    findings = Findings()
    try:
        program = _ProgramReader(source, findings).read(source.parse())
    except RecursionError:
        raise LabError([source._too_deep()], source.sources) from None
    if findings.errors:
        raise LabError(findings.errors, source.sources)
    return program


@dataclass
class _Draft:
    """A function whose head is read and whose body is not."""

    node: ast.FunctionDef
    options: dict[str, Any]
    exprs: ExprReader
    params: tuple[n.Param, ...] = ()
    returns: tuple[Type, ...] = ()


class _ProgramReader:
    def __init__(self, source: Source, findings: Findings) -> None:
        self.source = source
        self.findings = findings
        self.symbols = Symbols()
        self.signatures: dict[str, Signature] = {}

    def read(self, module: ast.Module) -> n.Program:
        name, nodes = self._definitions(module)
        drafts = self._drafts(nodes)
        for draft in drafts:
            self._scalar_params(draft)
        for draft in drafts:
            self._signature(draft)
            self.signatures[draft.node.name] = Signature(draft.params, draft.returns)
        functions = {draft.node.name: self._function(draft) for draft in drafts}
        return n.Program(
            name=name,
            functions=functions,
            symbols=dict(self.symbols.known),
            declared_symbols=tuple(self.symbols.declared),
            sources=self.source.sources,
            notes=tuple(self.findings.notes),
        )

    def error(self, code: str, message: str, span: Any, hint: str | None = None) -> None:
        self.findings.errors.append(Diagnostic(code, message, span, hint=hint))

    # --- the module --------------------------------------------------------------------------------------------------

    def _definitions(self, module: ast.Module) -> tuple[str, list[ast.FunctionDef]]:
        """The program's name and its functions. Declares the dynamic dimensions on the way."""
        loose: list[ast.FunctionDef] = []
        program: ast.ClassDef | None = None
        for node in module.body:
            if isinstance(node, ast.ClassDef):
                if program is not None:
                    message = f"the dump holds two programs, `{program.name}` and `{node.name}`"
                    self.error("E704", message, self.source.line_span(node.lineno))
                program = program or node
            elif isinstance(node, ast.FunctionDef):
                loose.append(node)
            elif isinstance(node, ast.Assign):
                self._declare(node)
            elif not isinstance(node, (ast.Import, ast.ImportFrom)) and not _is_text(node):
                self.error("E710", "this has no place at the top of a dump", self.source.span(node))
        if program is None and not any(_decorator(f) is not None for f in loose):
            raise LabError([*self.findings.errors, self.source.not_a_dump()], self.source.sources)
        if program is None:
            header = _PROGRAM_NAME.search(self.source.text)
            return header.group(1) if header else loose[0].name, loose
        members = []
        for member in program.body:
            if isinstance(member, ast.FunctionDef):
                members.append(member)
            elif not isinstance(member, ast.Pass) and not _is_text(member):
                self.error("E710", "a program class holds functions only", self.source.span(member))
        if not members:
            hint = "was the file cut off?"
            self.error("E702", f"program `{program.name}` has no function", self.source.line_span(program.lineno), hint)
        return program.name, members

    def _declare(self, node: ast.Assign) -> None:
        """`M = pl.dynamic("M")`."""
        call, target = node.value, node.targets[0]
        is_dynamic = isinstance(call, ast.Call) and dotted(call.func) == "pl.dynamic"
        if not is_dynamic or not isinstance(target, ast.Name):
            self.error("E710", "the header of a dump holds `NAME = pl.dynamic(...)` only", self.source.span(node))
            return
        self.symbols.declare(target.id, self.source.span(target))

    # --- function heads ----------------------------------------------------------------------------------------------

    def _drafts(self, nodes: Iterable[ast.FunctionDef]) -> list[_Draft]:
        drafts: dict[str, _Draft] = {}
        for node in nodes:
            if node.name in drafts:
                self.error("E734", f"function `{node.name}` is defined twice", self.source.line_span(node.lineno))
                continue
            names = Names(self.symbols, self.findings)
            exprs = ExprReader(self.source, self.findings, self.signatures, names)
            drafts[node.name] = _Draft(node, self._options(node, exprs), exprs)
        return list(drafts.values())

    def _options(self, node: ast.FunctionDef, exprs: ExprReader) -> dict[str, Any]:
        decorator = _decorator(node)
        if decorator is None:
            message = f"`{node.name}` lacks its `@pl.function` decorator"
            self.error("E705", message, self.source.line_span(node.lineno))
            return {}
        if not isinstance(decorator, ast.Call):
            return {}
        try:
            return {w.arg: exprs.attr_value(w.value) for w in decorator.keywords if w.arg is not None}
        except Reject as error:
            self.findings.errors.append(error.diagnostic)
            return {}

    def _arguments(self, node: ast.FunctionDef) -> list[ast.arg]:
        arguments = [*node.args.posonlyargs, *node.args.args]
        odd = [*node.args.kwonlyargs, *(a for a in (node.args.vararg, node.args.kwarg) if a is not None)]
        for argument in odd:
            self.error("E722", "only plain parameters are part of the language", self.source.span(argument))
        if arguments and arguments[0].arg == "self" and arguments[0].annotation is None:
            arguments = arguments[1:]
        return arguments

    def _scalar_params(self, draft: _Draft) -> None:
        """Brings scalar parameters into view first: the type of any parameter may name them (fact 6)."""
        for argument in self._arguments(draft.node):
            annotation = argument.annotation
            if not (isinstance(annotation, ast.Subscript) and dotted(annotation.value) == "pl.Scalar"):
                continue
            try:
                type_ = draft.exprs.annotation(annotation)
            except Reject:
                continue  # reported when the signature is read
            span = self.source.span(argument)
            draft.exprs.names.bind(self.symbols.scalar_param(argument.arg, type_, span))

    def _signature(self, draft: _Draft) -> None:
        params: list[n.Param] = []
        seen: set[str] = set()
        for argument in self._arguments(draft.node):
            if argument.arg in seen:
                self.error("E723", f"two parameters are called `{argument.arg}`", self.source.span(argument))
                continue
            seen.add(argument.arg)
            params.append(self._param(draft, argument))
        for param in params:
            draft.exprs.names.bind(param.var)
        draft.params = tuple(params)
        draft.returns = self._returns(draft)

    def _param(self, draft: _Draft, argument: ast.arg) -> n.Param:
        span = self.source.span(argument)
        annotation, direction = argument.annotation, Direction.In
        type_: Type = UNKNOWN
        if annotation is None:
            hint = "write `x: pl.Tensor[[rows, columns], pl.FP32]`"
            self.error("E724", f"parameter `{argument.arg}` has no type", span, hint)
        else:
            head = dotted(annotation.value) if isinstance(annotation, ast.Subscript) else ""
            if isinstance(annotation, ast.Subscript) and head in ("pl.Out", "pl.InOut", "pl.In"):
                direction, annotation = Direction(head[3:]), annotation.slice
            elif head == "pl.Scalar" and argument.arg in draft.exprs.names.visible:
                return n.Param(var=draft.exprs.names.visible[argument.arg], span=span)
            try:
                type_ = draft.exprs.annotation(annotation)
            except Reject as error:
                self.findings.errors.append(error.diagnostic)
        return n.Param(var=n.Var(name=argument.arg, type=type_, span=span), direction=direction, span=span)

    def _returns(self, draft: _Draft) -> tuple[Type, ...]:
        node = draft.node.returns
        if node is None or (isinstance(node, ast.Constant) and node.value is None):
            return ()
        parts = [node]
        if isinstance(node, ast.Subscript) and dotted(node.value) == "tuple":
            parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        try:
            return tuple(draft.exprs.annotation(p) for p in parts)
        except Reject as error:
            self.findings.errors.append(error.diagnostic)
            return ()

    # --- function bodies ---------------------------------------------------------------------------------------------

    def _function(self, draft: _Draft) -> n.Function:
        node, options = draft.node, dict(draft.options)
        func_type = options.pop("type", FunctionType.Opaque)
        level, role = options.pop("level", None), options.pop("role", None)
        auto_scope, external = options.pop("auto_scope", None), options.pop("external_source", None)
        statements = list(node.body)
        docstring = self._docstring(statements)
        attrs = dict(options.pop("attrs", {}))
        self._prologue(statements, draft.exprs, attrs)
        decorator = _decorator(node)
        place = None if decorator is None else self.source.span(decorator)
        for key in options:
            self.findings.note(
                "N302", f"function.{key}", f"`@pl.function` has no keyword `{key}`; it is kept", place, KEPT
            )
        attrs.update(options)
        has_self = bool(node.args.args) and node.args.args[0].arg == "self" and node.args.args[0].annotation is None
        body: n.Body | None
        if statements and all(_is_ellipsis(s) for s in statements):
            body = None
        elif level in _HOST_LEVELS and role is Role.SubWorker:
            body = (self._inline_text(statements),)
        else:
            comments = [c for c in self.source.comments if node.lineno < c[0] <= (node.end_lineno or node.lineno)]
            body = StmtReader(draft.exprs, comments).block(statements)
        return n.Function(
            name=node.name,
            params=draft.params,
            return_types=draft.returns,
            body=body,
            func_type=func_type if isinstance(func_type, FunctionType) else FunctionType.Opaque,
            level=level if isinstance(level, Level) else None,
            role=role if isinstance(role, Role) else None,
            attrs=attrs,
            auto_scope=auto_scope if isinstance(auto_scope, bool) else None,
            external_source=external if isinstance(external, str) else None,
            has_self=has_self,
            span=self.source.line_span(node.lineno),
            docstring=docstring,
        )

    def _docstring(self, statements: list[ast.stmt]) -> str | None:
        first = statements[0] if statements else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and type(first.value.value) is str:
            del statements[0]
            text: str = first.value.value
            return text
        return None

    def _prologue(self, statements: list[ast.stmt], exprs: ExprReader, attrs: dict[str, Any]) -> None:
        """Takes the `pl.func_attr({...})` statements off the top of a body."""
        while statements and isinstance(statements[0], ast.Expr):
            call = statements[0].value
            if not (isinstance(call, ast.Call) and dotted(call.func) == "pl.func_attr" and len(call.args) == 1):
                return
            try:
                attrs.update(exprs.attrs(call.args[0]))
            except Reject as error:
                self.findings.errors.append(error.diagnostic)
            for key in sorted(attrs.keys() - KNOWN_FUNCTION_ATTRS):
                message = f"function attribute `{key}` is newer than the lab; it is kept"
                hint = did_you_mean(key, KNOWN_FUNCTION_ATTRS) or KEPT
                self.findings.note("N303", key, message, self.source.span(call), hint)
            del statements[0]

    def _inline_text(self, statements: Sequence[ast.stmt]) -> n.InlineText:
        """The verbatim body of a host worker, without its indentation."""
        if not statements:
            return n.InlineText(text="pass")
        first, last = statements[0], statements[-1]
        rows = self.source.lines[first.lineno - 1 : last.end_lineno]
        indent = len(rows[0]) - len(rows[0].lstrip())
        return n.InlineText(
            text="\n".join(r[indent:] if not r[:indent].strip() else r.lstrip() for r in rows),
            span=self.source.span(first).merged(self.source.span(last)),
        )


def _decorator(node: ast.FunctionDef) -> ast.expr | None:
    """The `@pl.function` (or `@pl.inline`) of a function."""
    for decorator in node.decorator_list:
        if dotted(decorator.func if isinstance(decorator, ast.Call) else decorator) in ("pl.function", "pl.inline"):
            return decorator
    return None


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_ellipsis(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...


# --- the command -----------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """How many dumps were read, came back byte for byte, and are fixpoints of print and read."""

    total: int = 0
    read: int = 0
    identical: int = 0
    fixpoint: int = 0

    def add(self, text: str, file: str) -> str | None:
        """Checks one text; a message when it fails."""
        self.total += 1
        try:
            program = read_dump(text, file)
        except LabError as error:
            return str(error)
        self.read += 1
        printed = print_program(program)
        self.identical += printed == text
        try:
            again = print_program(read_dump(printed, file))
        except LabError as error:
            return f"{file}: the printed text cannot be read again\n{error}"
        if again != printed:
            return f"{file}: printing the re-read program gives another text\n{_first_difference(printed, again)}"
        self.fixpoint += 1
        return None


def _first_difference(left: str, right: str) -> str:
    pairs = enumerate(zip(left.split("\n"), right.split("\n"), strict=False), 1)
    return next((f"  line {i}\n  - {a}\n  + {b}" for i, (a, b) in pairs if a != b), "  one text is longer")


def dump_files(paths: Iterable[Path]) -> list[Path]:
    """Dump files below the given folders (or the files themselves), sorted."""
    found: list[Path] = []
    for path in paths:
        inside = path.rglob("*.py") if path.is_dir() else [path]
        found += sorted(p for p in inside if path.is_file() or re.match(r"\d\d_", p.name))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when every dump was read and is a fixpoint, 1 when one is not, 2 when there are none."""
    parser = argparse.ArgumentParser(prog="python -m pypto_lab.frontend.dump", description=main.__doc__)
    parser.add_argument("paths", nargs="+", type=Path, metavar="DIR", help="folder of dumps, or a dump")
    parser.add_argument("-q", "--quiet", action="store_true", help="print the counts only")
    options = parser.parse_args(arguments)
    files = dump_files(options.paths)
    tally = Tally()
    for path in files:
        failure = tally.add(path.read_text(encoding="utf-8", errors="replace"), str(path))
        if failure is not None and not options.quiet:
            print(failure, file=sys.stderr)
    print(f"read {tally.read} of {tally.total}, fixpoint {tally.fixpoint} of {tally.total}, ", end="")
    print(f"byte-identical {tally.identical} of {tally.total}")
    if not files:
        return 2
    return 0 if tally.fixpoint == tally.total else 1


if __name__ == "__main__":
    sys.exit(main())
