"""The runtime modules as text: which definitions a script needs, and the preamble that carries them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

RUNTIME = Path(__file__).parent / "runtime"
PACKAGE = "pypto_lab.torch_codegen.runtime"
HELPER = re.compile(r"(?<![\w.])_[A-Za-z]\w*")


@dataclass(frozen=True, slots=True)
class Definition:
    """One top-level statement of a runtime module: its text, the names it reads, and its place in the preamble."""

    name: str
    text: str
    reads: frozenset[str]
    position: int


@dataclass(frozen=True, slots=True)
class Signature:
    """Parameters of a runtime function: positional ones, all that can be passed by keyword with the text of their
    default (None: no default), and whether it takes any keyword."""

    positional: tuple[str, ...]
    keywords: dict[str, str | None]
    any_keyword: bool
    variadic: bool


@dataclass(frozen=True, slots=True)
class Library:
    """Everything the runtime modules define, and their imports (bound name -> import statement)."""

    definitions: dict[str, Definition]
    imports: dict[str, str]
    signatures: dict[str, Signature]


@lru_cache(maxsize=1)
def library() -> Library:
    """Reads the runtime modules. A name that two of them define keeps its spelling in one and gets the module's name
    added in the others."""
    sources = {path.stem: path.read_text(encoding="utf-8") for path in sorted(RUNTIME.glob("*.py"))}
    sources.pop("__init__")
    trees = {name: ast.parse(text) for name, text in sources.items()}
    renamed = _renamings(trees)
    definitions: dict[str, Definition] = {}
    imports: dict[str, str] = {}
    signatures: dict[str, Signature] = {}
    for module in _in_import_order(trees):
        local = _local_names(module, trees, renamed)
        rows = _with_names(sources[module].splitlines(), trees[module], local)
        body = trees[module].body
        for index, node in enumerate(body):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                imports.update(_imports(node))
                continue
            own = _defined_name(node)
            if own is None:
                continue
            name = local.get(own, own)
            text = "\n".join(rows[_first_line(node) - 1 : _last_line(body, index)])
            reads = frozenset(local.get(read, read) for read in _reads(node))
            definitions[name] = Definition(name, text, reads, len(definitions))
            if isinstance(node, ast.FunctionDef):
                signatures[name] = _signature(node)
    return Library(definitions, imports, signatures)


def _renamings(trees: dict[str, ast.Module]) -> dict[tuple[str, str], str]:
    """(module, name) -> the name in the script, for names that several modules define.

    The module that does not use the name itself keeps it: there it is what op records call.
    """
    definers: dict[str, list[str]] = {}
    for module, tree in trees.items():
        for node in tree.body:
            name = _defined_name(node)
            if name is not None:
                definers.setdefault(name, []).append(module)
    renamed: dict[tuple[str, str], str] = {}
    for name, modules in definers.items():
        if len(modules) > 1:
            keeper = next((m for m in modules if not _uses_itself(trees[m], name)), modules[0])
            renamed.update({(m, name): f"{name}_of_{m}" for m in modules if m != keeper})
    return renamed


def _uses_itself(tree: ast.Module, name: str) -> bool:
    return any(name in _reads(node) for node in tree.body if _defined_name(node) != name)


def _local_names(module: str, trees: dict[str, ast.Module], renamed: dict[tuple[str, str], str]) -> dict[str, str]:
    """Names of a module (its own and imported ones) that are spelled otherwise in the script."""
    local = {name: spelled for (owner, name), spelled in renamed.items() if owner == module}
    for node in trees[module].body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(f"{PACKAGE}."):
            owner = node.module.rpartition(".")[2]
            for alias in node.names:
                spelled = renamed.get((owner, alias.name), alias.name)
                if spelled != (alias.asname or alias.name):
                    local[alias.asname or alias.name] = spelled
    return local


def _with_names(rows: list[str], tree: ast.Module, local: dict[str, str]) -> list[str]:
    """The module's lines with names spelled as in the script."""
    if not local:
        return rows
    places: list[tuple[int, int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in local:
            places.append((node.lineno, node.col_offset, node.id))
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in local:
            keyword = "def " if isinstance(node, ast.FunctionDef) else "class "
            places.append((node.lineno, node.col_offset + len(keyword), node.name))
    rows = list(rows)
    for line, column, name in sorted(places, reverse=True):
        row = rows[line - 1].encode()
        rows[line - 1] = (row[:column] + local[name].encode() + row[column + len(name) :]).decode()
    return rows


def _in_import_order(trees: dict[str, ast.Module]) -> list[str]:
    """Module names, each after the siblings it imports."""
    ordered: list[str] = []

    def place(name: str) -> None:
        if name in ordered:
            return
        for node in trees[name].body:
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(f"{PACKAGE}."):
                place(node.module.rpartition(".")[2])
        ordered.append(name)

    for name in trees:
        place(name)
    return ordered


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.ImportFrom):
        if node.module == "__future__" or (node.module or "").startswith("pypto_lab"):
            return
        for alias in node.names:
            shown = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
            yield alias.asname or alias.name, f"from {node.module} import {shown}"
    else:
        for alias in node.names:
            shown = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
            yield (alias.asname or alias.name).partition(".")[0], f"import {shown}"


def _defined_name(node: ast.stmt) -> str | None:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    return None


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])


def _last_line(body: list[ast.stmt], index: int) -> int:
    """The last line of a definition; a string after an assignment (its description) belongs to it."""
    following = body[index + 1] if index + 1 < len(body) else None
    described = (
        isinstance(body[index], (ast.Assign, ast.AnnAssign))
        and isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
        and isinstance(following.value.value, str)
    )
    end = (following if described and following is not None else body[index]).end_lineno
    return end if end is not None else body[index].lineno


def _reads(node: ast.stmt) -> frozenset[str]:
    return frozenset(x.id for x in ast.walk(node) if isinstance(x, ast.Name))


def _signature(node: ast.FunctionDef) -> Signature:
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    keywords: dict[str, str | None] = {a.arg: None for a in positional}
    for argument, default in zip(reversed(arguments.args), reversed(arguments.defaults), strict=False):
        keywords[argument.arg] = ast.unparse(default)
    for argument, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        keywords[argument.arg] = None if value is None else ast.unparse(value)
    return Signature(
        tuple(a.arg for a in positional), keywords, arguments.kwarg is not None, arguments.vararg is not None
    )


def helpers_in(text: str) -> frozenset[str]:
    """Runtime names a piece of kernel code uses."""
    known = library().definitions
    return frozenset(name for name in HELPER.findall(text) if name in known)


@lru_cache(maxsize=64)
def preamble(roots: frozenset[str]) -> str:
    """Imports and definitions that `roots` need, in an order in which they can run."""
    found = library()
    needed: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in needed or name not in found.definitions:
            continue
        needed.add(name)
        waiting.extend(found.definitions[name].reads)
    chosen = sorted((found.definitions[name] for name in needed), key=lambda d: d.position)
    read: set[str] = {"torch"}.union(*(d.reads for d in chosen))
    lines = sorted({statement for name, statement in found.imports.items() if name in read})
    plain = [line for line in lines if line.startswith("import ")]
    sections = [
        "from __future__ import annotations",
        "\n".join(_merged(plain, [line for line in lines if not line.startswith("import ")])),
    ]
    return "\n\n".join(sections) + "\n" + "".join(f"\n\n{d.text}\n" for d in chosen)


def _merged(plain: Iterable[str], named: Iterable[str]) -> Iterator[str]:
    """Import statements, one a module, standard library first."""
    by_module: dict[str, list[str]] = {}
    for line in named:
        module, _, name = line.removeprefix("from ").partition(" import ")
        by_module.setdefault(module, []).append(name)
    standard = [line for line in plain if line != "import torch"]
    yield from standard
    for module, names in sorted(by_module.items()):
        yield f"from {module} import {', '.join(sorted(names))}"
    yield from (["", "import torch"] if standard or by_module else ["import torch"])
