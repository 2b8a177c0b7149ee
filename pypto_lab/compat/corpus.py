"""Which kernel functions of a folder the front end reads: `python -m pypto_lab.compat.corpus DIR...`.

Every decorated function is found in the text, and each is accounted for: read with an entry, read as something an entry
calls, read by itself, or refused.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import inspect
import io
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from pypto_lab.compat.cases import SPEC_FUNCTIONS, captured_request
from pypto_lab.compat.kernels import Kernel, ProgramObject, made_kernels, read_programs
from pypto_lab.compat.lenient import load_leniently
from pypto_lab.compat.loader import load_module, run_main, world_of
from pypto_lab.frontend.kernels import KINDS, KernelSource, ProgramSource
from pypto_lab.frontend.source import program_of
from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic, LabError, Severity
from pypto_lab.ir.visitor import walk

SHAPE_UNKNOWN = frozenset({"E120", "E124"})
"""Codes of a kernel that is right, as far as it can be read without the shapes of its arguments."""
VALUE_UNKNOWN = frozenset({"E207"})
"""Code of a name that has no value; the rest of such a kernel is read."""
REMOVED = "removed from the language"

Place = tuple[str, int]
"""File and line of a `def`."""


@dataclass
class Found:
    """A decorated function in a text, and what became of it."""

    file: str
    name: str
    kind: str
    line: int
    last_line: int
    builder: str | None
    """The Python function it is made in, None at the top level."""
    outcome: str = ""
    findings: list[str] = field(default_factory=list)

    @property
    def place(self) -> Place:
        return self.file, self.line


OUTCOMES: Mapping[str, str] = {
    "entry": "read as an entry, with the shapes of its arguments",
    "callee": "read as part of an entry",
    "alone": "read by itself, fully annotated",
    "shapeless": "read without shapes: nothing in the files calls it with known arguments",
    "valueless": "read but for names without a value: the file does not say it, or cannot be executed",
    "removed": "refused: uses what was removed from the language",
    "refused": "refused",
}
READ = ("entry", "callee", "alone", "shapeless", "valueless")


# --- finding functions in texts ---------------------------------------------------------------------------------------


def decorated_functions(file: str, text: str) -> list[Found]:
    """Every function of a text with a decorator of the kernel language. Raises SyntaxError for what is not Python."""
    tree = ast.parse(text)
    aliases = _aliases(tree)
    found: list[Found] = []
    _collect(tree, aliases, file, None, found)
    return found


def _collect(node: ast.AST, aliases: Mapping[str, str], file: str, builder: str | None, found: list[Found]) -> None:
    for child in ast.iter_child_nodes(node):
        inner = builder
        if isinstance(child, ast.FunctionDef):
            kind = next((k for d in child.decorator_list if (k := _kind(d, aliases)) is not None), None)
            if kind is None:
                inner = builder or child.name
            else:
                last = child.end_lineno or child.lineno
                found.append(Found(file, child.name, kind, child.lineno, last, builder))
        _collect(child, aliases, file, inner, found)


def _aliases(tree: ast.Module) -> dict[str, str]:
    """What the file's names for the language mean: `pl` -> "pl", `jit` (imported from it) -> "pl.jit"."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "pypto.language":
                    names[alias.asname or alias.name] = "pl"
        elif isinstance(node, ast.ImportFrom) and node.module == "pypto":
            names |= {a.asname or a.name: "pl" for a in node.names if a.name == "language"}
        elif isinstance(node, ast.ImportFrom) and node.module == "pypto.language":
            names |= {a.asname or a.name: f"pl.{a.name}" for a in node.names}
    return names


def _kind(decorator: ast.expr, aliases: Mapping[str, str]) -> str | None:
    """The kernel kind a decorator makes (`jit`, `jit.incore`, `function` ...), None for any other decorator."""
    dotted = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
    for name, meaning in aliases.items():
        if dotted == name or dotted.startswith(name + "."):
            kind = (meaning + dotted[len(name) :]).removeprefix("pl.")
            return kind if kind in KINDS else None
    return None


# --- reading ----------------------------------------------------------------------------------------------------------


class Survey:
    """Reads the kernels of files and notes, for each decorated function, how it was read."""

    def __init__(self, run: bool = False) -> None:
        self.run = run
        """Whether a file with kernels that nothing gives shapes to is executed, for the calls its `__main__` makes."""
        self.functions: dict[Place, Found] = {}
        self.unloadable: dict[str, str] = {}

    def add(self, path: Path) -> None:
        """Reads one file. Its functions are counted whether it can be loaded or not."""
        file = str(path.resolve())
        found = decorated_functions(file, path.read_text(encoding="utf-8"))
        for function in found:
            self.functions.setdefault(function.place, function)
        if not found:
            return
        module, made = self._loaded(path)
        made += self._built(module, found)
        self._read_all(made, module, file)
        if self.run and any(f.outcome in ("", "shapeless") for f in found):
            self._run(path)
        missing = [f for f in found if not f.outcome]
        if missing:
            with made_kernels() as made, _quiet():
                module = load_leniently(path, {f.builder for f in missing if f.builder is not None})
            self._read_all(made, module, file)

    def _run(self, path: Path) -> None:
        """Counts what the file's own `__main__` calls, with the shapes it calls it with."""
        with read_programs() as read, _quiet(), contextlib.suppress(LabError):
            run_main(path)
        for source, program in read:
            self._cover(source, program)

    def _read_all(self, made: Sequence[Kernel | ProgramObject], module: ModuleType, file: str) -> None:
        """Reads the kernels of one file, entries first."""
        own = [k for k in made if _file_of(k) == file and self._is_open(k)]
        for kernel in sorted(own, key=lambda k: not _is_entry(k)):
            self._read(kernel, module)

    def _is_open(self, kernel: Kernel | ProgramObject) -> bool:
        """Whether a function of a kernel is not yet accounted for, or is only partly read."""
        places = _places_of(kernel._pypto_lab_source)
        return any(f is None or f.outcome not in ("entry", "alone") for f in map(self.functions.get, places))

    def finish(self) -> list[Found]:
        """All functions; one that nothing came across is refused."""
        for function in self.functions.values():
            if not function.outcome:
                function.outcome = "refused"
                function.findings.append("the function was not made when the file was loaded")
        return list(self.functions.values())

    def _loaded(self, path: Path) -> tuple[ModuleType, list[Kernel | ProgramObject]]:
        with made_kernels() as made, _quiet():
            try:
                return load_module(path), made
            except LabError as error:
                self.unloadable[str(path)] = error.diagnostics[0].message
                return load_leniently(path), made

    def _built(self, module: ModuleType, found: Sequence[Found]) -> list[Kernel | ProgramObject]:
        """Kernels that Python functions of the file make, called as the file calls them."""
        builders = dict.fromkeys(f.builder for f in found if f.builder is not None)
        with made_kernels() as made, world_of(module), _quiet():
            for name in builders:
                builder = getattr(module, name, None)
                if callable(builder):
                    with contextlib.suppress(Exception, LabError):
                        builder(**_arguments_for(builder, module))
        return made

    def _read(self, kernel: Kernel | ProgramObject, module: ModuleType) -> None:
        source = kernel._pypto_lab_source
        if isinstance(source, KernelSource) and source.function.__qualname__.count(".") and _is_method(source):
            return  # a method is read with its class
        if isinstance(source, KernelSource) and not _is_entry(kernel) and self._outcome(source):
            return
        try:
            program = self._program(source, module)
        except LabError as error:
            self._refuse(source, error)
            return
        except RecursionError as error:
            self._refuse(source, LabError([Diagnostic("E506", f"{type(error).__name__}: {error}")]))
            return
        self._cover(source, program)

    def _outcome(self, source: KernelSource) -> str:
        found = self.functions.get(_place_of(source))
        return "" if found is None else found.outcome

    def _program(self, source: KernelSource | ProgramSource, module: ModuleType) -> n.Program:
        """The program of a kernel; one with bare parameters on the arguments its file makes for it."""
        with world_of(module):
            try:
                return program_of(source)
            except LabError as error:
                if not (isinstance(source, KernelSource) and _codes(error) & SHAPE_UNKNOWN):
                    raise
                for arguments in _arguments_of(source, module):
                    with contextlib.suppress(LabError):
                        return program_of(source, arguments)
                raise

    def _cover(self, source: KernelSource | ProgramSource, program: n.Program) -> None:
        """Every function whose signature or statements are in the program was read."""
        lines: dict[str, set[int]] = {}
        for node in walk(program):
            span = getattr(node, "span", None)
            if span is not None:
                lines.setdefault(span.file, set()).add(span.line)
        entry = _place_of(source) if isinstance(source, KernelSource) else None
        is_entry = isinstance(source, ProgramSource) or source.kind in ("jit", "jit.host")
        for function in self.functions.values():
            here = lines.get(function.file)
            if here is None or not any(function.line <= line <= function.last_line for line in here):
                continue
            if function.place == entry:
                function.outcome = "entry" if is_entry else "alone"
            elif function.outcome not in ("entry", "alone"):
                function.outcome = "callee"
            function.findings.clear()

    def _refuse(self, source: KernelSource | ProgramSource, error: LabError) -> None:
        """Blames the functions in which the errors lie; the shape of a parameter nobody gives is no error."""
        errors = [d for d in error.diagnostics if d.severity is Severity.ERROR]
        wrong = [d for d in errors if d.code not in SHAPE_UNKNOWN | VALUE_UNKNOWN]
        partly = "valueless" if any(d.code in VALUE_UNKNOWN for d in errors) else "shapeless"
        concerned = _places_of(source)
        for function in self.functions.values():
            if function.outcome in READ and function.outcome not in ("shapeless", "valueless"):
                continue
            blamed = [d for d in wrong if _lies_in(d, function)]
            if blamed:
                text = " ".join(d.render(error.sources) for d in blamed)
                function.outcome = "removed" if REMOVED in text else "refused"
                function.findings = [d.render(error.sources) for d in blamed]
            elif function.place in concerned and not function.outcome:
                function.outcome = "refused" if wrong and isinstance(source, ProgramSource) else partly


def _codes(error: LabError) -> set[str]:
    return {d.code for d in error.diagnostics if d.severity is Severity.ERROR}


def _lies_in(diagnostic: Diagnostic, function: Found) -> bool:
    span = diagnostic.span
    return span is not None and span.file == function.file and function.line <= span.line <= function.last_line


def _is_entry(kernel: Kernel | ProgramObject) -> bool:
    return isinstance(kernel, ProgramObject) or kernel.is_entry


def _is_method(source: KernelSource) -> bool:
    code = source.function.__code__
    return code.co_argcount > 0 and code.co_varnames[0] == "self"


def _place_of(source: KernelSource) -> Place:
    code = source.function.__code__
    text, _ = inspect.getsourcelines(source.function)
    skipped = next((i for i, row in enumerate(text) if row.lstrip().startswith("def ")), 0)
    return code.co_filename, code.co_firstlineno + skipped


def _places_of(source: KernelSource | ProgramSource) -> set[Place]:
    if isinstance(source, KernelSource):
        return {_place_of(source)}
    kernels = [getattr(v, "_pypto_lab_source", None) for v in vars(source.cls).values()]
    return {_place_of(k) for k in kernels if isinstance(k, KernelSource)}


def _file_of(kernel: Kernel | ProgramObject) -> str:
    source = kernel._pypto_lab_source
    places = _places_of(source)
    return next(iter(places))[0] if places else ""


# --- arguments --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shaped:
    """What a tensor argument says of itself."""

    shape: tuple[int, ...]
    dtype: Any


def _arguments_of(source: KernelSource, module: ModuleType) -> Iterator[dict[str, Any]]:
    """Arguments for a kernel: of the file's own `run_jit` call, of its spec functions."""
    code = source.function.__code__
    names = set(code.co_varnames[: code.co_argcount])
    for specs in _specs(module):
        given = {s.name: Shaped(tuple(s.shape), s.dtype) if hasattr(s, "shape") else s.value for s in specs}
        if names <= set(given):
            yield {name: given[name] for name in names}


def _specs(module: ModuleType) -> list[list[Any]]:
    """The argument lists a file makes, worked out once a module."""
    known: list[list[Any]] | None = getattr(module, "_pypto_lab_specs", None)
    if known is not None:
        return known
    found: list[list[Any]] = []
    with _quiet():
        for name, value in list(vars(module).items()):
            if name.startswith(SPEC_FUNCTIONS) and callable(value):
                with contextlib.suppress(Exception, LabError, SystemExit):
                    found.append(list(value(**_arguments_for(value, module))))
        file = Path(str(module.__file__))
        if not found:
            with contextlib.suppress(Exception, LabError, SystemExit):
                request = captured_request(file)
                found += [] if request is None else [list(request.specs)]
    setattr(module, "_pypto_lab_specs", found)  # noqa: B010 (a module takes any attribute)
    return found


def _arguments_for(function: Any, module: ModuleType) -> dict[str, Any]:
    """Values for the parameters of a Python function that have no default, as the file itself calls it."""
    signature = inspect.signature(function)
    wanted = [p.name for p in signature.parameters.values() if p.default is inspect.Parameter.empty]
    if not wanted:
        return {}
    text = Path(str(module.__file__)).read_text(encoding="utf-8")
    for scope in ast.walk(ast.parse(text)):
        if not isinstance(scope, (ast.FunctionDef, ast.Module)):
            continue
        names = _constants(scope, vars(module))
        for call in ast.walk(scope):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == function.__name__:
                values = _values_of(call, list(signature.parameters), names)
                if set(wanted) <= set(values):
                    return values
    return {}


def _constants(scope: ast.FunctionDef | ast.Module, outer: Mapping[str, Any]) -> dict[str, Any]:
    """Names a function assigns values to that can be worked out without running it."""
    names = dict(outer)
    for node in _own_statements(scope.body):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            with contextlib.suppress(Exception):
                names[node.targets[0].id] = _value(node.value, names)
    return names


def _own_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a scope in order, those in branches and blocks too, those of functions in it not."""
    for node in body:
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            for name in ("body", "orelse", "finalbody"):
                yield from _own_statements(getattr(node, name, []))


def _values_of(call: ast.Call, parameters: Sequence[str], names: Mapping[str, Any]) -> dict[str, Any]:
    pairs = [*zip(parameters, call.args, strict=False), *((k.arg, k.value) for k in call.keywords if k.arg)]
    values: dict[str, Any] = {}
    for name, node in pairs:
        with contextlib.suppress(Exception):
            values[name] = _value(node, names)
    return values


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """The value of an expression of names and operators. Raises ValueError for one with calls."""
    from pypto_lab.frontend.environment import Environment
    from pypto_lab.frontend.missing import MISSING

    found = Environment(globals=names).value(node)
    if found is MISSING:
        raise ValueError(ast.unparse(node))
    return found


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What files print while they are loaded is not shown."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


# --- the command ------------------------------------------------------------------------------------------------------


def survey(paths: Iterable[Path], run: bool = False) -> Survey:
    """Reads every Python file below the paths, a folder's files in order; `run` executes files too."""
    made = Survey(run)
    for path in paths:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            made.add(file)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when every kernel function is read or uses what the language no longer has, 1 otherwise, 2 when
    there is none."""
    parser = argparse.ArgumentParser(prog="python -m pypto_lab.compat.corpus", description=main.__doc__)
    parser.add_argument("paths", nargs="+", type=Path, metavar="DIR", help="folder of Python files, or a file")
    parser.add_argument("-v", "--verbose", action="store_true", help="one line a function, too")
    parser.add_argument("--run", action="store_true", help="execute files for the shapes their __main__ calls with")
    options = parser.parse_args(arguments)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 5000))
    found = survey(options.paths, options.run)
    functions = found.finish()
    _print(found, functions, options.verbose)
    if not functions:
        return 2
    return 1 if any(f.outcome == "refused" for f in functions) else 0


def _print(found: Survey, functions: Sequence[Found], verbose: bool) -> None:
    for function in functions:
        if verbose or function.outcome in ("refused", "removed"):
            print(f"{function.file}:{function.line}: {function.kind} {function.name}: {OUTCOMES[function.outcome]}")
            for finding in function.findings:
                print("    " + finding.replace("\n", "\n    "))
    for file, message in found.unloadable.items():
        print(f"{file}: read statement by statement ({message})")
    counts = Counter(f.outcome for f in functions)
    for outcome, words in OUTCOMES.items():
        if counts[outcome]:
            print(f"{counts[outcome]:5} {words}")
    print(f"read {sum(counts[o] for o in READ)} of {len(functions)} kernel functions")


if __name__ == "__main__":
    sys.exit(main())
